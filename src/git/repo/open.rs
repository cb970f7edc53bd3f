//! Opening a repository, and refusing those that cannot be worked in safely.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use gix::bstr::ByteSlice;

use crate::domain::CommitId;
use crate::fs::{OWN_FOLDER, Unsynced, if_exists, read_regular};
use crate::git::error::{At, During, GitError, Result};
use crate::git::index::Index;
use crate::git::objects::{Objects, identity};
use crate::git::path::commit_id;
use crate::git::programs::Programs;
use crate::git::refs::{Head, HeadTarget, Refs, full_name};
use crate::git::sync::{self, Syncs, replace_file};
use crate::git::working_tree::{
    FilterSettings, Untracked, WorkingTree, odd_git_files, refuse_encodings, refuse_odd_repository,
};

/// An open repository with a working tree, and its parts.
///
/// Configuration is read once, when it is opened.
pub struct Repo {
    pub(super) gix: Rc<gix::Repository>,
    /// Blobs, trees, commits and tags.
    pub objects: Rc<Objects>,
    /// Branches, records and `HEAD`.
    pub refs: Rc<Refs>,
    /// The index.
    pub index: Rc<Index>,
    /// The files.
    pub working_tree: WorkingTree,
    root: PathBuf,
    syncs: Rc<Syncs>,
    /// State of filters and signing programs that may be running.
    programs: Arc<Programs>,
}

impl std::fmt::Debug for Repo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repo").field("root", &self.root).finish_non_exhaustive()
    }
}

/// Extensions of the repository format that change nothing for what is done here, in lower case.
const HARMLESS_EXTENSIONS: &[&str] =
    &["noop", "noop-v1", "partialclone", "preciousobjects", "relativeworktrees", "worktreeconfig"];

impl Repo {
    /// Opens the repository that `dir` is in; `GIT_DIR` and `GIT_WORK_TREE` go first, as with git.
    ///
    /// Refuses, each with its own [`GitError`]: no repository; a bare one; one whose `core.worktree` leads elsewhere;
    /// one of another user that `safe.directory` does not name. Also refuses refs that are not files, unknown format
    /// extensions, a sparse index, and files that are checked out as UTF-16 or UTF-32.
    pub fn discover(dir: &Path) -> Result<Repo> {
        let repo = Repo::find(dir)?;
        repo.check_index()?;
        Ok(repo)
    }

    /// Opens the repository that `dir` is in as [`Repo::discover`] does, also when its index cannot be worked with.
    pub fn find(dir: &Path) -> Result<Repo> {
        let gix = Rc::new(Repo::open(dir)?);
        let (syncs, programs) = (Rc::<Syncs>::default(), Arc::<Programs>::default());
        let objects = Rc::new(Objects::new(Rc::clone(&gix), Rc::clone(&syncs), Arc::clone(&programs)));
        let refs = Refs::new(Rc::clone(&gix), Rc::clone(&objects), Rc::clone(&syncs));
        Ok(Repo::of(gix, objects, refs, syncs, programs))
    }

    /// Opens a working tree that is linked to this one, with the same objects, refs, syncs and programs: what is written
    /// there is held here.
    pub(super) fn find_linked(&self, dir: &Path) -> Result<Repo> {
        let (objects, syncs) = (Rc::clone(&self.objects), Rc::clone(&self.syncs));
        let mut gix = Repo::open(dir)?;
        // Files are converted there as they are here, whatever somebody has made of the settings since.
        FilterSettings::of(&self.gix).apply(&mut gix)?;
        let gix = Rc::new(gix);
        let refs = self.refs.seen_from(Rc::clone(&gix));
        let repo = Repo::of(gix, objects, refs, syncs, self.programs());
        repo.check_index()?;
        Ok(repo)
    }

    fn open(dir: &Path) -> Result<gix::Repository> {
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
        let Some(root) = gix.workdir().map(Path::to_owned) else {
            return Err(GitError::Bare(gix.git_dir().to_owned()));
        };
        refuse_worktree_elsewhere(&gix, dir, &root)?;
        if root.to_str().is_none() || gix.git_dir().to_str().is_none() {
            return Err(GitError::PathEncoding(root));
        }
        if gix.git_dir_trust() != gix::sec::Trust::Full {
            return Err(GitError::ForeignOwner(root));
        }
        refuse_formats(&gix)?;
        // A record is what its ref names, and nothing that stands for it.
        gix.objects.ignore_replacements = true;
        gix.objects.enable_object_memory();
        Ok(gix)
    }

    fn of(
        gix: Rc<gix::Repository>,
        objects: Rc<Objects>,
        refs: Refs,
        syncs: Rc<Syncs>,
        programs: Arc<Programs>,
    ) -> Repo {
        let root = gix.workdir().map(Path::to_owned).unwrap_or_default();
        let refs = Rc::new(refs);
        let index = Rc::new(Index::new(Rc::clone(&gix), root.clone(), Rc::clone(&syncs)));
        let parts = (Rc::clone(&objects), Rc::clone(&refs), Rc::clone(&index));
        let working_tree = WorkingTree::new(Rc::clone(&gix), root.clone(), parts, Arc::clone(&programs));
        Repo { gix, objects, refs, index, working_tree, root, syncs, programs }
    }

    /// Makes a new repository in `dir`, which may hold files and must not be in one already.
    pub fn init(dir: &Path) -> Result<Repo> {
        gix::init(dir).during("making a repository")?;
        Repo::discover(dir)
    }

    /// Checks that the index can be read and worked with.
    pub fn check_index(&self) -> Result<()> {
        let index = self.index.read()?;
        let config = self.gix.config_snapshot();
        let is_wanted = |key: &str| config.boolean(key).unwrap_or(false);
        if index.is_sparse() || (is_wanted("index.sparse") && is_wanted("core.sparseCheckout")) {
            return Err(GitError::SparseIndex);
        }
        refuse_encodings(&self.root, self.common_dir(), &index)
    }

    /// Returns the state that the watchdog of this repository's filters and signing programs reads.
    pub fn programs(&self) -> Arc<Programs> {
        Arc::clone(&self.programs)
    }

    /// Returns whether configuration and environment lack an author or a committer. Commits are then made as
    /// `ar <ar@localhost>`.
    pub fn identity_is_fallback(&self) -> bool {
        self.gix.committer().is_none() || self.gix.author().is_none()
    }

    /// The name that commits are made under.
    pub fn committer_name(&self) -> Result<String> {
        Ok(identity(&self.gix)?.committer.name.to_string())
    }

    /// Commits everything that is in the working tree of a repository without a commit, on its branch.
    pub fn commit_first(&self, message: &str) -> Result<CommitId> {
        self.commit_root(message, &Untracked::default())
    }

    /// Commits everything that is in the working tree but the untracked files of `known`, on what HEAD is on.
    pub fn commit_new(&self, message: &str, known: &Untracked) -> Result<CommitId> {
        let head = self.refs.head()?;
        let Some(base) = head.commit() else { return self.commit_root(message, known) };
        let proposal = self.working_tree.propose(base, known)?;
        if proposal.is_empty() {
            return Ok(base.clone());
        }
        let commit = self.working_tree.commit(&proposal, base, message)?;
        let why = format!("commit: {}", message.lines().next().unwrap_or_default());
        match head.branch() {
            Some(branch) => self.refs.advance(branch, base, &commit, &why)?,
            None => self.refs.point_head(&HeadTarget::Detached(commit.clone()))?,
        }
        self.working_tree.adopt_index(proposal)?;
        Ok(commit)
    }

    fn commit_root(&self, message: &str, known: &Untracked) -> Result<CommitId> {
        let Head::Unborn { name } = self.refs.head()? else {
            return Err(GitError::RefExists("HEAD".to_owned()));
        };
        let proposal = self.working_tree.propose_on(self.gix.empty_tree().id, known)?;
        let id = self.working_tree.commit_root(&proposal, message)?;
        let why = format!("commit (initial): {}", message.lines().next().unwrap_or_default());
        self.refs.create_through_head(full_name(&name)?, id, &why)?;
        self.working_tree.adopt_index(proposal)?;
        Ok(commit_id(id))
    }

    /// From here on a branch that is moved and an index that is replaced may be on the disk later: whoever does the next
    /// step that relies on them first syncs what [`Repo::unsynced`] gives. Objects and records are on the disk at once
    /// as before.
    pub fn defer_syncs(&self) {
        self.syncs.defer();
    }

    /// Takes the changes since the last call that are not synced.
    pub fn unsynced(&self) -> Unsynced {
        self.syncs.take()
    }

    /// Syncs what [`Repo::unsynced`] gives.
    pub fn sync_deferred(&self) -> Result<()> {
        sync::now(self.unsynced())
    }

    /// The root of the working tree, absolute.
    pub fn worktree(&self) -> &Path {
        &self.root
    }

    /// The root of the main working tree when this one is linked to it; else, and when the main repository is bare,
    /// this one's own. In a call of an agent, whose git folder is one of its own, the root that the call belongs to.
    pub fn main_worktree(&self) -> PathBuf {
        if let Some(root) = root_of_call(self.git_dir()) {
            return root;
        }
        let main = self.gix.main_repo().ok().filter(|_| self.gix.git_dir() != self.common_dir());
        main.and_then(|main| main.workdir().map(Path::to_owned))
            .and_then(|path| path.canonicalize().ok())
            .unwrap_or_else(|| self.root.clone())
    }

    /// The folder that all working trees of the repository share: `.git` of the main one.
    pub fn common_dir(&self) -> &Path {
        self.gix.common_dir()
    }

    /// The folder of this working tree's own `HEAD` and index.
    pub fn git_dir(&self) -> &Path {
        self.gix.git_dir()
    }

    /// Returns whether `.git/info/exclude` has all of these patterns.
    pub fn excludes(&self, patterns: &[&str]) -> Result<bool> {
        let there = self.excluded(&self.exclude_file())?;
        Ok(patterns.iter().all(|pattern| there.lines().any(|line| line == pattern.as_bytes())))
    }

    fn exclude_file(&self) -> PathBuf {
        self.common_dir().join("info").join("exclude")
    }

    /// Reads the patterns in the file at `path`; empty if it is missing.
    fn excluded(&self, path: &Path) -> Result<Vec<u8>> {
        Ok(if_exists(read_regular(path)).at("reading", path)?.unwrap_or_default())
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

    /// `HEAD`, index, configuration and packed refs.
    pub fn own_files(&self) -> Vec<PathBuf> {
        let common = ["config", "packed-refs"].map(|name| self.common_dir().join(name));
        common.into_iter().chain([self.git_dir().join("HEAD"), self.index.path()]).collect()
    }

    /// Lists non-regular files in git's own folders that git would open blindly.
    pub fn odd_git_files(&self) -> Vec<PathBuf> {
        odd_git_files(self.git_dir(), self.common_dir())
    }
}

/// The repository's root above the git folder of a call: `ROOT/.autoresearch/TAG/runs/N/git`.
fn root_of_call(git_dir: &Path) -> Option<PathBuf> {
    let sessions = git_dir.ancestors().nth(4).filter(|above| above.ends_with(OWN_FOLDER))?;
    let is_of_call = git_dir.ends_with("git") && git_dir.ancestors().nth(2)?.ends_with("runs");
    sessions.parent().filter(|_| is_of_call).map(Path::to_owned)
}

/// Returns whether anything at or above `dir` looks like a repository.
fn has_repository(dir: &Path) -> bool {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    dir.ancestors().any(|dir| dir.join(".git").exists() || (dir.join("HEAD").exists() && dir.join("objects").exists()))
}

/// Refuses a repository in whose folder `dir` is, but whose `core.worktree` names another working tree: whoever set it, files
/// there would be taken for changes and written over. `GIT_DIR` and `GIT_WORK_TREE` are the user's own wish, and in a run
/// `ar score` reads what is committed.
fn refuse_worktree_elsewhere(gix: &gix::Repository, dir: &Path, root: &Path) -> Result<()> {
    if ["GIT_DIR", "GIT_WORK_TREE", "AR_RUN_DIR"].iter().any(|name| std::env::var_os(name).is_some()) {
        return Ok(());
    }
    let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let home = gix.git_dir().parent().filter(|_| gix.git_dir().ends_with(".git")).map(canonical);
    let Some(home) = home.filter(|home| canonical(dir).starts_with(home)) else { return Ok(()) };
    match canonical(root) == home {
        true => Ok(()),
        false => Err(GitError::WorktreeElsewhere { home, root: root.to_owned() }),
    }
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
