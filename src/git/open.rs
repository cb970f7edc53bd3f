//! Opening a repository, and refusing those that cannot be worked in safely.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use gix::bstr::ByteSlice;

use super::error::{At, During};
use super::index_cache::IndexCache;
use super::known_commits::KnownCommits;
use super::listing::LastPacked;
use super::objects::Held;
use super::odd::{QuietFolders, refuse_odd_repository};
use super::programs::Programs;
use super::ref_guard::RefGuard;
use super::sync::Synced;
use super::tree_diff::LastTreeDiff;
use super::whole_folders::WholeFolders;
use super::{GitError, Head, LeftLocks, Result, lock, sync};
use crate::fs::read_regular;

/// An open repository with a working tree.
///
/// Refs and objects are read anew by each call, except for what a commit's name tells for good; the index, the packed refs and
/// folders of the working tree when they have changed; configuration once, when it is opened.
pub struct Repo {
    pub(super) gix: gix::Repository,
    worktree: PathBuf,
    pub(super) synced: Synced,
    pub(super) index: IndexCache,
    pub(super) last_tree_diff: LastTreeDiff,
    pub(super) last_packed: LastPacked,
    pub(super) commits: KnownCommits,
    /// The objects that were written lately.
    pub(super) held: RefCell<Held>,
    /// What is known of filters and signing programs that may be running.
    pub(super) programs: Arc<Programs>,
    /// Whether commits are signed where the configuration asks for it.
    pub(super) signs: Cell<bool>,
    /// What [`Repo::odd_worktree_files`] need not read again.
    pub(super) quiet_folders: RefCell<QuietFolders>,
    /// What [`Repo::walk`] need not read again.
    pub(super) whole_folders: RefCell<WholeFolders>,
}

impl std::fmt::Debug for Repo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repo").field("worktree", &self.worktree).finish_non_exhaustive()
    }
}

/// Extensions of the repository format that change nothing for what is done here, in lower case.
const HARMLESS_EXTENSIONS: &[&str] =
    &["noop", "noop-v1", "partialclone", "preciousobjects", "relativeworktrees", "worktreeconfig"];

impl Repo {
    /// Opens the repository that `dir` is in; `GIT_DIR` and `GIT_WORK_TREE` go first, as with git.
    ///
    /// Refused, each with its own [`GitError`]: no repository, a bare one, one of another user that `safe.directory`
    /// does not name, refs that are no files, extensions of the format that are not known, a sparse index, and files
    /// that are checked out as UTF-16 or UTF-32.
    pub fn discover(dir: &Path) -> Result<Repo> {
        let repo = Repo::find(dir)?;
        repo.check_index()?;
        Ok(repo)
    }

    /// Opens the repository that `dir` is in as [`Repo::discover`] does, also when its index cannot be worked with.
    pub fn find(dir: &Path) -> Result<Repo> {
        refuse_odd_repository(dir)?;
        let opened = gix::ThreadSafeRepository::discover_with_environment_overrides(dir);
        let mut gix = opened.map(|gix| gix.to_thread_local()).map_err(|source| {
            let missing = std::env::var_os("GIT_DIR").is_none() && !has_repository(dir);
            let text = crate::domain::with_causes(&source);
            if missing {
                GitError::NoRepository(dir.to_owned())
            } else if text.contains("extensions.objectFormat") {
                GitError::Extension(format!("objectFormat={}", text.split('"').nth(1).unwrap_or("sha256")))
            } else {
                GitError::Open { dir: dir.to_owned(), source: source.into() }
            }
        })?;
        gix.make_paths_absolute().during("finding the current folder")?;
        let Some(worktree) = gix.workdir().map(Path::to_owned) else {
            return Err(GitError::Bare(gix.git_dir().to_owned()));
        };
        if worktree.to_str().is_none() || gix.git_dir().to_str().is_none() {
            return Err(GitError::PathEncoding(worktree));
        }
        if gix.git_dir_trust() != gix::sec::Trust::Full {
            return Err(GitError::ForeignOwner(worktree));
        }
        refuse_formats(&gix)?;
        // A record is what its ref names, and nothing that stands for it.
        gix.objects.ignore_replacements = true;
        gix.objects.enable_object_memory();
        Ok(Repo {
            gix,
            worktree,
            synced: Synced::default(),
            index: IndexCache::default(),
            last_tree_diff: LastTreeDiff::default(),
            last_packed: LastPacked::default(),
            commits: KnownCommits::default(),
            held: RefCell::default(),
            programs: Arc::default(),
            signs: Cell::new(true),
            quiet_folders: RefCell::default(),
            whole_folders: RefCell::default(),
        })
    }

    /// Makes a new repository in `dir`, which may hold files and must not be in one already.
    pub fn init(dir: &Path) -> Result<Repo> {
        gix::init(dir).during("making a repository")?;
        Repo::discover(dir)
    }

    /// Checks that a command may write here: `HEAD` has a commit, no merge, rebase, cherry-pick, revert or bisect is
    /// half done. Locks of refs that a killed process of this program left behind are removed.
    pub fn ready(&self) -> Result<()> {
        if let Head::Unborn { name } = self.head()? {
            return Err(GitError::Unborn(name));
        }
        if let Some(operation) = self.operation_name()? {
            return Err(GitError::InProgress(operation));
        }
        RefGuard::clear_abandoned(self.git_dir())
    }

    /// Removes the locks that git processes left behind which were killed: those that were made from `since` to `until`, are
    /// two seconds old, and of which it is said that they cannot be held.
    pub fn remove_left_locks(
        &self,
        since: SystemTime,
        until: Option<SystemTime>,
        may_be_held: impl Fn(&[PathBuf]) -> bool,
    ) -> Result<LeftLocks> {
        lock::remove_left_behind(self.git_locks()?, since, until, may_be_held)
    }

    /// What to say of a lock that somebody may hold and that does not go.
    pub fn locked(&self, lock: &Path) -> GitError {
        lock::locked(lock)
    }

    /// The lock files of git: of the index, of `HEAD` and its like, of the packed refs, and of refs.
    pub(super) fn git_locks(&self) -> Result<Vec<PathBuf>> {
        let mut locks = Vec::new();
        for folder in [self.git_dir(), self.common_dir()] {
            collect_locks(folder, false, &mut locks)?;
        }
        collect_locks(&self.common_dir().join("refs"), true, &mut locks)?;
        locks.sort();
        locks.dedup();
        Ok(locks)
    }

    /// Checks that nobody holds the index; a lock that a killed process of this program left behind is no hindrance.
    pub fn index_is_free(&self) -> Result<()> {
        lock::check(&self.gix.index_path())
    }

    /// The root of the working tree, absolute.
    pub fn worktree(&self) -> &Path {
        &self.worktree
    }

    /// The root of the main working tree when this one is linked to it; else, and when the main repository is bare,
    /// this one's own.
    pub fn main_worktree(&self) -> PathBuf {
        let main = self.gix.main_repo().ok().filter(|_| self.gix.git_dir() != self.common_dir());
        main.and_then(|main| main.workdir().map(Path::to_owned))
            .and_then(|path| path.canonicalize().ok())
            .unwrap_or_else(|| self.worktree.clone())
    }

    /// The folder that all working trees of the repository share: `.git` of the main one.
    pub fn common_dir(&self) -> &Path {
        self.gix.common_dir()
    }

    /// The folder of this working tree's own `HEAD` and index.
    pub fn git_dir(&self) -> &Path {
        self.gix.git_dir()
    }

    /// Whether `.git/info/exclude` has all of these patterns.
    pub fn excludes(&self, patterns: &[&str]) -> Result<bool> {
        let there = self.excluded(&self.exclude_file())?;
        Ok(patterns.iter().all(|pattern| there.lines().any(|line| line == pattern.as_bytes())))
    }

    fn exclude_file(&self) -> PathBuf {
        self.common_dir().join("info").join("exclude")
    }

    /// What the file at `path` excludes; nothing where it is missing.
    fn excluded(&self, path: &Path) -> Result<Vec<u8>> {
        match read_regular(path) {
            Ok(there) => Ok(there),
            Err(err) if err.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(err) => Err(err).at("reading", path),
        }
    }

    /// The folders in which somebody is at work who is at work in the repository, without links in their paths.
    pub fn folders(&self) -> Vec<PathBuf> {
        let main = self.main_worktree();
        let folders = [self.worktree(), self.common_dir(), &main];
        folders.into_iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.to_owned())).collect()
    }

    /// Adds those of `patterns` that are not there yet to `info/exclude`, below `# ar`, and keeps what is there.
    pub fn exclude(&self, patterns: &[&str]) -> Result<()> {
        let path = self.exclude_file();
        let old = self.excluded(&path)?;
        let missing: Vec<_> =
            patterns.iter().filter(|pattern| !old.lines().any(|line| line == pattern.as_bytes())).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let mut new = old;
        if !new.is_empty() && !new.ends_with(b"\n") {
            new.push(b'\n');
        }
        if !new.lines().any(|line| line == b"# ar") {
            new.extend_from_slice(b"# ar\n");
        }
        for pattern in missing {
            new.extend_from_slice(pattern.as_bytes());
            new.push(b'\n');
        }
        replace_file(&path, &new)
    }
}

/// Puts a file's new content in place of the old one at once, and durably.
pub(super) fn replace_file(path: &Path, content: &[u8]) -> Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir).at("making the folder", dir)?;
    let mut file = tempfile::NamedTempFile::new_in(dir).at("writing", path)?;
    file.write_all(content).at("writing", path)?;
    let permissions = match fs::metadata(path) {
        Ok(metadata) => metadata.permissions(),
        Err(_) => default_permissions(),
    };
    file.as_file().set_permissions(permissions).at("writing", path)?;
    file.as_file().sync_all().at("syncing", path)?;
    file.persist(path).map_err(|err| err.error).at("writing", path)?;
    sync::folder(dir)
}

/// Read and write for the user, read for all others.
fn default_permissions() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o644)
}

/// Whether anything at or above `dir` looks like a repository.
fn has_repository(dir: &Path) -> bool {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    dir.ancestors().any(|dir| dir.join(".git").exists() || (dir.join("HEAD").exists() && dir.join("objects").exists()))
}

fn refuse_formats(gix: &gix::Repository) -> Result<()> {
    let config = gix.config_snapshot();
    let Some(sections) = config.plumbing().sections_by_name("extensions") else { return Ok(()) };
    for section in sections {
        for name in section.value_names() {
            let name = name.to_string().to_lowercase();
            let value = section.value(&name).map(|value| value.to_string()).unwrap_or_default();
            match name.as_str() {
                "refstorage" if value != "files" => return Err(GitError::RefStorage(value)),
                "objectformat" if value != "sha1" => return Err(GitError::Extension(format!("objectFormat={value}"))),
                "refstorage" | "objectformat" => {}
                known if HARMLESS_EXTENSIONS.contains(&known) => {}
                _ => return Err(GitError::Extension(name)),
            }
        }
    }
    Ok(())
}

/// How long ago a file was changed, where that can be told.
pub(super) fn age(metadata: &fs::Metadata) -> Option<std::time::Duration> {
    SystemTime::now().duration_since(metadata.modified().ok()?).ok()
}

/// Collects the files below a folder whose names end in `.lock`.
fn collect_locks(folder: &Path, deep: bool, locks: &mut Vec<PathBuf>) -> Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.at("reading", folder)?,
    };
    for entry in entries {
        let entry = entry.at("reading", folder)?;
        let is_folder = entry.file_type().at("reading", folder)?.is_dir();
        let path = entry.path();
        if is_folder && deep {
            collect_locks(&path, deep, locks)?;
        } else if !is_folder && path.extension().is_some_and(|extension| extension == "lock") {
            locks.push(path);
        }
    }
    Ok(())
}
