//! Errors of the repository, and what the user can do about them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use strum::EnumProperty;

use super::{Cut, Program};
use crate::domain::{CommitId, duration_text, shell_word};
use crate::fs::{absent, is_disk_full, is_missing, move_command};

/// The cause of an error, where it is another library's.
pub type Cause = Box<dyn std::error::Error + Send + Sync + 'static>;

/// The result of everything here.
pub type Result<T, E = GitError> = std::result::Result<T, E>;

/// An error of the repository.
#[derive(Debug, EnumProperty, thiserror::Error)]
pub enum GitError {
    /// There is no repository at or above the folder.
    #[error("no git repository at or above {}", .0.display())]
    #[strum(props(hint = "cd into a git repository and retry"))]
    NoRepository(PathBuf),
    /// There is one that cannot be opened.
    #[error("cannot open the git repository at {}", dir.display())]
    Open {
        /// The folder in which the search began.
        dir: PathBuf,
        /// The cause.
        source: Cause,
    },
    /// It has no working tree.
    #[error("{} is a bare repository and has no working tree", .0.display())]
    Bare(PathBuf),
    /// `core.worktree` names another folder than the one that its `.git` is in.
    #[error("git's setting core.worktree makes {} the working tree of {}", root.display(), home.display())]
    #[strum(props(hint = "git config --unset core.worktree"))]
    WorktreeElsewhere {
        /// The folder with `.git`.
        home: PathBuf,
        /// The folder that the setting names.
        root: PathBuf,
    },
    /// It belongs to another user, and `safe.directory` does not name it.
    #[error("the repository at {} belongs to another user", .0.display())]
    ForeignOwner(PathBuf),
    /// Its path is not text.
    #[error("the repository's path is not UTF-8: {}", .0.display())]
    #[strum(props(hint = "move the repository to a folder whose path is UTF-8"))]
    PathEncoding(PathBuf),
    /// Its refs are stored in a way that is not supported.
    #[error("unsupported ref storage `{0}`")]
    #[strum(props(hint = "git refs migrate --ref-format=files"))]
    RefStorage(String),
    /// It uses a format extension that is not supported.
    #[error("unsupported repository extension `{0}`")]
    Extension(String),
    /// Its index is sparse: it holds folders in place of files.
    #[error("sparse indexes are not supported")]
    #[strum(props(hint = "git sparse-checkout reapply --no-sparse-index"))]
    SparseIndex,
    /// A file with attributes asks for a checkout in another encoding.
    #[error("{} sets `{value}`, which is not supported: the files would be checked out damaged", file.display())]
    WorkingTreeEncoding {
        /// The file with the attribute.
        file: PathBuf,
        /// The attribute.
        value: String,
    },
    /// The branch has no commit yet.
    #[error("{0} has no commit yet, and the baseline needs one")]
    #[strum(props(hint = "git add -A && git commit --allow-empty -m baseline"))]
    Unborn(String),
    /// A merge, rebase or the like is half done.
    #[error("a {0} is in progress")]
    InProgress(&'static str),
    /// Another process has locked the index, or something else of git's, or left its lock behind.
    #[error("{} is locked by {}{}", locked_thing(lock), lock.display(), age.map(|age| format!(", {} s old", age.as_secs())).unwrap_or_default())]
    IndexLocked {
        /// The lock file.
        lock: PathBuf,
        /// Its age, if known.
        age: Option<Duration>,
    },
    /// A repository of its own stands where a tracked file has to go.
    #[error("a git repository blocks {}", .0.display())]
    RepositoryInTheWay(PathBuf),
    /// Something is where a new working tree should be made.
    #[error("{} already exists", .0.display())]
    #[strum(props(hint = "name a folder that does not exist yet"))]
    Occupied(PathBuf),
    /// A new working tree would be a part of another one.
    #[error("{} is inside the working tree {}", dir.display(), root.display())]
    #[strum(props(hint = "name a folder outside it, such as ../copy"))]
    WithinWorktree {
        /// The folder in which it should be made.
        dir: PathBuf,
        /// The root of the other one.
        root: PathBuf,
    },
    /// A text that git does not take for the name of a branch.
    #[error("`{0}` is not a valid branch name")]
    #[strum(props(hint = "use a name such as nov20-final"))]
    BranchName(String),
    /// A ref is not where it was left.
    #[error("{name} was moved: expected {}, found {}", show(expected.as_ref()), show(found.as_ref()))]
    RefMoved {
        /// The ref.
        name: String,
        /// The commit that it should be at; absent if it should not exist.
        expected: Option<CommitId>,
        /// The commit that it is at; absent if it does not exist.
        found: Option<CommitId>,
    },
    /// A ref that should be created is already there.
    #[error("{0} already exists")]
    RefExists(String),
    /// A name of a revision or ref that leads nowhere.
    #[error("no commit named `{spec}`")]
    NotFound {
        /// The name.
        spec: String,
        /// The cause.
        source: Option<Cause>,
    },
    /// Commits must be signed and could not be.
    #[error("cannot sign commits")]
    Signing(#[source] Cause),
    /// The git program is missing or, with what it says of its version, too old.
    #[error("{}", match .0 {
        None => "`git` is not installed outside the home folder".to_owned(),
        Some(version) => format!("git 2.30 or newer is required, found `{version}`"),
    })]
    #[strum(props(hint = "install git 2.30 or newer, for example `sudo apt install git`; or pass --sandbox off"))]
    NoProgram(Option<String>),
    /// A filter or a signing program was terminated.
    #[error("terminated {program}: {}", match cut {
        Cut::Asked => "asked to stop".to_owned(),
        Cut::TimeOver => "the time of this invocation is over".to_owned(),
        Cut::Late => format!("it did not finish within {}", duration_text(*limit)),
    })]
    Cut {
        /// The kind of program.
        program: Program,
        /// Its own time limit.
        limit: Duration,
        /// The reason that it was terminated.
        cut: Cut,
    },
    /// A program of the configuration is not started, since a job changed it.
    #[error("{program} is not started, since a job changed {}", path.display())]
    ChangedProgram {
        /// The kind of program.
        program: Program,
        /// The changed file.
        path: PathBuf,
    },
    /// A filter failed.
    #[error("a git filter failed for {}", path.display())]
    Filter {
        /// The file, relative to the working tree.
        path: PathBuf,
        /// The cause.
        source: Cause,
    },
    /// Something stands in the place of a file that would be waited for, or cannot be read.
    #[error("{} is not a regular file", .0.display())]
    NoFile(PathBuf),
    /// The file system refused something.
    #[error("{what} {}", path.display())]
    Io {
        /// The action that failed: `reading`, `writing` …
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The repository's data are damaged, or gix cannot handle them.
    #[error("{what} failed")]
    Git {
        /// The action that failed.
        what: &'static str,
        /// The cause.
        source: Cause,
    },
    /// Something that never should be.
    #[error("{0}")]
    Damaged(String),
}

fn locked_thing(lock: &Path) -> String {
    match lock.file_stem().and_then(|name| name.to_str()) {
        Some("index") | None => "the index".to_owned(),
        Some(name) => name.to_owned(),
    }
}

fn show(id: Option<&CommitId>) -> &str {
    id.map_or("nothing", CommitId::as_str)
}

impl GitError {
    /// Returns whether a retry may help: another process may be deleting or repacking what the error names.
    pub fn may_pass(&self) -> bool {
        // Refs and objects have errors of many types for it.
        const NOT_FOUND: &str = "could not be found";
        let causes = std::iter::successors(std::error::Error::source(self), |error| error.source());
        matches!(self, GitError::Damaged(_) | GitError::Open { .. })
            || is_missing(self)
            || causes.map(ToString::to_string).any(|text| text.contains(NOT_FOUND))
    }

    /// Returns whether gix did not find what it looked for.
    pub(in crate::git) fn is_miss(&self) -> bool {
        gix::error::classify(self).is_not_found()
    }

    /// Returns whether a repository or a file is not there.
    pub(in crate::git) fn is_absence(&self) -> bool {
        matches!(self, GitError::NoRepository(_)) || matches!(self, GitError::Io { source, .. } if absent(source))
    }

    /// Returns whether the user may not read a file.
    pub(in crate::git) fn is_unreadable(&self) -> bool {
        matches!(self, GitError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied)
    }

    /// The same error as that of a filter for the file `path`, unless the work as a whole was to end.
    pub(in crate::git) fn of_filter(self, path: &Path) -> GitError {
        match self {
            GitError::Cut { cut: Cut::Asked | Cut::TimeOver, .. } => self,
            error => GitError::Filter { path: path.to_owned(), source: error.into() },
        }
    }

    /// Returns what to do about it, as the next command to type if there is one.
    pub fn hint(&self) -> Option<String> {
        if let Some(hint) = self.get_str("hint") {
            return Some(hint.to_owned());
        }
        Some(match self {
            GitError::ForeignOwner(dir) => {
                format!("if you trust it: git config --global --add safe.directory {}", shell_word(dir))
            }
            GitError::Extension(name) if name.to_lowercase().starts_with("objectformat") => {
                "SHA-1 is required; convert a copy: git init --object-format=sha1 ../copy && git fast-export --all \
                    | git -C \
                 ../copy fast-import"
                    .to_owned()
            }
            GitError::Extension(name) => format!("if nothing needs it: git config --unset extensions.{name}"),
            GitError::Bare(dir) if dir.ends_with(".git") => {
                "run `git config core.bare false` if its working tree is here; else `git worktree add ../experiments`, \
                 and start there"
                    .to_owned()
            }
            GitError::Bare(_) => "run `git worktree add ../experiments` and start there".to_owned(),
            GitError::WorkingTreeEncoding { file, .. } => {
                format!("store these files as UTF-8 and remove the attribute from {}", file.display())
            }
            GitError::InProgress(operation) => match *operation {
                "bisect" => "git bisect reset".to_owned(),
                operation => format!("git {operation} --continue, or git {operation} --abort"),
            },
            GitError::IndexLocked { lock, .. } => {
                format!("wait for the other git process; if there is none: rm {}", shell_word(lock))
            }
            GitError::RepositoryInTheWay(path) => format!("move {} elsewhere", path.display()),
            GitError::NoFile(path) => format!("move it aside: {}", move_command(path, ".replaced")),
            GitError::Signing(_) | GitError::Cut { program: Program::Signing, cut: Cut::Late, .. } => {
                "fix the signing key, or pass --no-sign to leave the session's commits unsigned".to_owned()
            }
            GitError::Cut { program: Program::Filter, cut: Cut::Late, .. } => {
                "see `git config --get-regexp '^filter'`, and fix the filter that hangs".to_owned()
            }
            GitError::ChangedProgram { path, .. } => {
                format!("look at {}, and put it back unless it is as it should be", path.display())
            }
            GitError::Filter { source, .. }
                if let Some(changed @ GitError::ChangedProgram { .. }) = source.downcast_ref() =>
            {
                return changed.hint();
            }
            GitError::Filter { .. } => "see `git config --get-regexp '^filter'`, and fix the filter".to_owned(),
            error if is_disk_full(error) => "free disk space and try again; nothing was lost".to_owned(),
            _ => return None,
        })
    }
}

/// Names what was done when an error came up.
pub(in crate::git) trait During<T> {
    /// For errors of gix.
    fn during(self, what: &'static str) -> Result<T, GitError>;
}

impl<T, E: Into<Cause>> During<T> for Result<T, E> {
    fn during(self, what: &'static str) -> Result<T, GitError> {
        self.map_err(|source| GitError::Git { what, source: source.into() })
    }
}

/// Names the file that an error is about.
pub(in crate::git) trait At<T> {
    /// For errors of the file system.
    fn at(self, what: &'static str, path: &Path) -> Result<T, GitError>;
}

impl<T> At<T> for Result<T, std::io::Error> {
    fn at(self, what: &'static str, path: &Path) -> Result<T, GitError> {
        self.map_err(|source| GitError::Io { what, path: path.to_owned(), source })
    }
}
