//! Which files a change may touch, and its size limits.

use std::path::{Path, PathBuf};

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use super::named_files::files_named;
use super::shadow::modules_behind;
use crate::domain::{Contract, Failure, FailureClass, LOCK_FILES, bytes_text, count_of};

/// Files in the repository's root that define the measurement, unless the scope names them: the evaluation of
/// Karpathy's layout, the settings and the protocol.
const EVALUATION: [&str; 3] = ["prepare.py", "ar.toml", "program.md"];

/// The largest file that a change may add, in bytes: 5 MB. Weights and data sets do not belong in an experiment's
/// commit.
pub const LARGEST_ADDED: u64 = 5_000_000;

/// One file of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// Its path, relative to the repository's root.
    pub path: PathBuf,
    /// True if the change adds it.
    pub is_new: bool,
    /// True for a link or a submodule, whose target is not part of the change.
    pub is_opaque: bool,
    /// The size of its new content, in bytes.
    pub size: u64,
    /// The number of added and deleted lines; 0 if not needed.
    pub lines: u32,
    /// The number of its lines after the change; 0 if not needed, or without lines: deleted, binary, a link or a
    /// submodule.
    pub total: u32,
}

/// Forbidden finds on the disk that no commit shows, each on a line with the reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forbidden {
    /// Changed protected files, and files that shadow them.
    pub protected: Vec<String>,
    /// Files that a commit cannot contain.
    pub scope: Vec<String>,
}

impl Forbidden {
    /// Returns whether nothing forbidden was found.
    pub fn is_empty(&self) -> bool {
        self.protected.is_empty() && self.scope.is_empty()
    }
}

/// The reason to refuse a file that shadows a protected module.
pub fn takes_the_place(path: &Path, module: &Path) -> String {
    format!("{} would replace {}, which is protected", path.display(), module.display())
}

/// A pattern that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is not a glob: {problem}")]
pub struct GlobError {
    /// The pattern.
    pub pattern: String,
    /// The damage.
    pub problem: String,
}

/// The file that describes a Python project, and the lock files that its tools derive from it.
const PROJECT: &str = "pyproject.toml";
const PYTHON_LOCKS: [&str; 3] = ["pdm.lock", "poetry.lock", "uv.lock"];

/// The file rules of a session.
#[derive(Debug, Clone)]
pub struct FileTerms {
    scope: Option<GlobSet>,
    protect: GlobSet,
    locks: GlobSet,
    /// The files that the command and the guards name.
    named: Vec<PathBuf>,
    max_files: Option<u32>,
    max_file_lines: Option<u32>,
    max_file_total: Option<u32>,
    /// True if runs use the user's environment, which all slots share.
    shares_environment: bool,
    /// The folder of stored sources, in a session of research.
    sources: Option<PathBuf>,
}

impl FileTerms {
    /// Derives them from a contract.
    ///
    /// Globs are relative to the repository's root: `*` stays within a folder, `**` does not, and a folder includes
    /// everything in it.
    ///
    /// # Errors
    ///
    /// A pattern cannot be read.
    pub fn of(contract: &Contract) -> Result<FileTerms, GlobError> {
        let locks: Vec<String> = LOCK_FILES.iter().map(|name| format!("**/{name}")).collect();
        let by_command = files_named(&contract.command);
        let mut named: Vec<_> =
            contract.guards.iter().chain(&contract.reviewer).flat_map(|line| files_named(line)).collect();
        if contract.scope.is_empty() {
            // Then the file in the command is the one to edit: `uv run train.py`.
            named.retain(|path| !by_command.contains(path));
        } else {
            named.extend(by_command);
        }
        Ok(FileTerms {
            scope: if contract.scope.is_empty() { None } else { Some(globs(&contract.scope)?) },
            protect: globs(&contract.protect)?,
            locks: globs(&locks)?,
            named,
            max_files: contract.max_files,
            max_file_lines: contract.max_file_lines,
            max_file_total: contract.caps.max_file_total,
            shares_environment: false,
            sources: None,
        })
    }

    /// Protects what describes the environment, whatever the scope: all slots share it, so no change of it would have a run
    /// of its own.
    pub fn share_environment(self) -> FileTerms {
        FileTerms { shares_environment: true, ..self }
    }

    /// Protects the sources that are stored in a folder: claims rely on them, so they are only added to.
    pub fn keep_sources(self, sources: Option<PathBuf>) -> FileTerms {
        FileTerms { sources, ..self }
    }

    /// The folder whose stored sources are protected.
    pub fn sources(&self) -> Option<&Path> {
        self.sources.as_deref()
    }

    /// Returns whether an edit changes or removes a stored source.
    fn changes_source(&self, edit: &FileEdit) -> bool {
        let is_source = || edit.path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("md"));
        let is_stored = || self.sources.as_ref().is_some_and(|sources| edit.path.starts_with(sources));
        !edit.is_new && is_source() && is_stored()
    }

    /// Returns whether a limit needs the number of lines that each file's change adds and deletes.
    pub fn counts_lines(&self) -> bool {
        self.max_file_lines.is_some()
    }

    /// Returns whether a limit needs the length of each changed file.
    pub fn counts_totals(&self) -> bool {
        self.max_file_total.is_some()
    }

    /// Returns whether the scope includes a file.
    pub fn is_in_scope(&self, path: &Path) -> bool {
        self.scope.as_ref().is_none_or(|scope| scope.is_match(path))
    }

    /// Returns whether a file is protected. Files named by `--protect` always are. The defaults are unless the scope
    /// names them.
    pub fn protects(&self, path: &Path) -> bool {
        let by_default = || {
            EVALUATION.iter().any(|name| path == Path::new(name))
                || self.locks.is_match(path) && self.project_of_lock(path).is_none()
                || self.named.iter().any(|named| named == path)
        };
        let in_scope = || self.scope.as_ref().is_some_and(|scope| scope.is_match(path));
        self.protect.is_match(path) || by_default() && !in_scope() || self.describes_shared_environment(path)
    }

    fn describes_shared_environment(&self, path: &Path) -> bool {
        let is_project = path.file_name().is_some_and(|name| name == PROJECT);
        self.shares_environment && (is_project || self.locks.is_match(path))
    }

    /// The `pyproject.toml` beside a lock file that follows it, if changes may edit it: a change of both may be made, and a
    /// run may rewrite the lock file after a change of the project.
    pub fn project_of_lock(&self, path: &Path) -> Option<PathBuf> {
        let is_lock = path.file_name().is_some_and(|name| PYTHON_LOCKS.iter().any(|lock| name == *lock));
        let project = is_lock.then(|| path.with_file_name(PROJECT))?;
        (self.is_in_scope(&project) && !self.protects(&project) && !self.protect.is_match(path)).then_some(project)
    }

    /// Returns whether a file of a change is a lock file that may change with its project; `None` for any other file.
    fn follows_project(&self, path: &Path, change: &[FileEdit]) -> Option<bool> {
        let is_named = self.scope.as_ref().is_some_and(|scope| scope.is_match(path));
        let project = self.project_of_lock(path).filter(|_| !is_named)?;
        Some(change.iter().any(|edit| edit.path == project))
    }

    /// Returns whether `--protect` names a file.
    pub fn is_named_protected(&self, path: &Path) -> bool {
        self.protect.is_match(path)
    }

    /// The reason to refuse a change without a run, if any: forbidden, too many or too large files and finds on the
    /// disk, each on a line with the reason.
    pub fn refuse(&self, change: &[FileEdit], found: &Forbidden) -> Option<Failure> {
        let failure = |class, lines: Vec<String>| (!lines.is_empty()).then(|| Failure::new(class, lines.join("\n")));
        let named = |is_meant: &dyn Fn(&FileEdit) -> bool, why: &dyn Fn(&FileEdit) -> String| {
            let meant = change.iter().filter(|edit| is_meant(edit));
            meant.map(|edit| format!("{} {}", edit.path.display(), why(edit))).collect::<Vec<_>>()
        };
        let follows = |edit: &FileEdit| self.follows_project(&edit.path, change);
        let is_outside = |edit: &FileEdit| !self.is_in_scope(&edit.path) && follows(edit) != Some(true);
        let protected = change.iter().filter_map(|edit| {
            let takes_place = edit.is_new || edit.is_opaque;
            let behind = if takes_place { modules_behind(&edit.path, edit.is_opaque) } else { Vec::new() };
            match behind.into_iter().find(|module| self.protects(module)) {
                Some(module) => Some(takes_the_place(&edit.path, &module)),
                None if self.describes_shared_environment(&edit.path) => {
                    Some(format!("{} describes the environment that all slots share", edit.path.display()))
                }
                None if self.changes_source(edit) => {
                    Some(format!("{} is a stored source; store another one instead", edit.path.display()))
                }
                None => {
                    let is_protected = self.protects(&edit.path) || follows(edit) == Some(false);
                    is_protected.then(|| format!("{} is protected", edit.path.display()))
                }
            }
        });
        let with = |mut lines: Vec<String>, found: &[String]| {
            lines.extend(found.iter().cloned());
            lines.sort();
            lines.dedup();
            lines
        };
        failure(FailureClass::Protected, with(protected.collect(), &found.protected))
            .or_else(|| {
                let outside = named(&is_outside, &|_| "is outside the scope".into());
                failure(FailureClass::Scope, with(outside, &found.scope))
            })
            .or_else(|| {
                let is_large = |edit: &FileEdit| edit.is_new && edit.size > LARGEST_ADDED;
                let why = |edit: &FileEdit| {
                    format!("has {}, and a new file may have {}", bytes_text(edit.size), bytes_text(LARGEST_ADDED))
                };
                let mut lines = named(&is_large, &why);
                if let Some(limit) = self.max_file_lines {
                    let why =
                        |edit: &FileEdit| format!("has {} changed, and {limit} may be", count_of(edit.lines, "line"));
                    lines.extend(named(&|edit| edit.lines > limit, &why));
                }
                if let Some(limit) = self.max_file_total {
                    let why = |edit: &FileEdit| format!("has {}, and {limit} may be", count_of(edit.total, "line"));
                    lines.extend(named(&|edit| edit.total > limit, &why));
                }
                let files = u32::try_from(change.len()).unwrap_or(u32::MAX);
                if let Some(limit) = self.max_files.filter(|limit| files > *limit) {
                    lines.push(format!("{} changed, and {limit} may be", count_of(files, "file")));
                }
                failure(FailureClass::TooLarge, lines)
            })
    }
}

/// The fixed leading folders of patterns; empty for the whole repository.
pub fn folders_of(patterns: &[String]) -> Vec<PathBuf> {
    let is_plain = |part: &&str| !part.contains(['*', '?', '[', '{', '\\']);
    patterns
        .iter()
        .map(|pattern| bare(pattern))
        .map(|pattern| pattern.split('/').take_while(is_plain).collect())
        .collect()
}

/// One matcher for several patterns, with two globs for each: its own, and that of everything below a folder of its name.
pub(crate) fn globs(patterns: &[String]) -> Result<GlobSet, GlobError> {
    let error = |pattern: &str, error: globset::Error| GlobError {
        pattern: pattern.to_owned(),
        problem: error.kind().to_string(),
    };
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let bare = bare(pattern);
        let problem = match bare.split('/').next() {
            _ if bare.is_empty() => Some("it is empty"),
            Some("") => Some("it must be relative to the repository's root"),
            Some("..") => Some("it leads out of the repository"),
            _ => None,
        };
        if let Some(problem) = problem {
            return Err(GlobError { pattern: pattern.clone(), problem: problem.into() });
        }
        for text in [bare.to_owned(), format!("{bare}/**")] {
            set.add(glob(&text).map_err(|problem| error(pattern, problem))?);
        }
    }
    set.build().map_err(|problem| error("", problem))
}

/// A pattern without what means nothing in it.
pub(crate) fn bare(pattern: &str) -> &str {
    pattern.trim().trim_start_matches("./").trim_end_matches('/')
}

/// Reads a pattern for paths: `*` matches no slash, and a backslash makes the next character literal.
///
/// # Errors
///
/// It is not a pattern.
pub fn glob(pattern: &str) -> Result<Glob, globset::Error> {
    GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build()
}

#[cfg(test)]
#[path = "scope_tests.rs"]
mod tests;
