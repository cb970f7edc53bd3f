//! Opening a repository, refusing those that cannot be worked in safely, and what an interrupted git leaves in its
//! folders: files of a half-done merge, rebase, bisect and the like, and locks.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use gix::ObjectId;
use gix::bstr::ByteSlice;
use gix::refs::transaction::{PreviousValue, RefEdit};

use crate::domain::{CommitId, WordList, word_list};
use crate::fs::{OWN_FOLDER, Unsynced, absent, if_exists, read_regular, remove_all};
use crate::git::{
    At, During, GitError, Head, HeadTarget, Index, LockOwner, Objects, Oddity, PinnedSettings, Programs, RefGuard,
    Refs, Result, Untracked, WorkingTree, age, collect_files, commit_id, full_name, identity, irregular_in, locked,
    object_id, owner, refuse_encodings, refuse_odd_repository, replace_file, sync,
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
    main: PathBuf,
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
        let objects = Rc::new(Objects::new(Rc::clone(&gix)));
        let refs = Refs::new(Rc::clone(&gix), objects);
        Ok(Repo::of(gix, refs))
    }

    /// Opens a working tree that is linked to this one, with the same objects, refs, syncs and programs: what is written
    /// there is held here.
    pub(super) fn find_linked(&self, dir: &Path) -> Result<Repo> {
        let mut gix = Repo::open(dir)?;
        // Files are converted there as they are here, whatever somebody has made of the settings since.
        PinnedSettings::of(&self.working_tree.converting).apply(&mut gix)?;
        let gix = Rc::new(gix);
        let refs = self.refs.seen_from(Rc::clone(&gix));
        let repo = Repo::of(gix, refs);
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
            // What somebody has just deleted has no owner either.
            let is_there = root.is_dir() && gix.git_dir().is_dir();
            return Err(if is_there { GitError::ForeignOwner(root) } else { GitError::NoRepository(root) });
        }
        refuse_formats(&gix)?;
        // A record is what its ref names, and nothing that stands for it.
        gix.objects.ignore_replacements = true;
        gix.objects.enable_object_memory();
        Ok(gix)
    }

    fn of(gix: Rc<gix::Repository>, refs: Refs) -> Repo {
        let root = gix.workdir().map(Path::to_owned).unwrap_or_default();
        let (objects, refs) = (Rc::clone(&refs.objects), Rc::new(refs));
        let index = Rc::new(Index::new(Rc::clone(&gix), Rc::clone(&objects), root.clone()));
        let parts = (Rc::clone(&objects), Rc::clone(&refs), Rc::clone(&index));
        let working_tree = WorkingTree::new(Rc::clone(&gix), root.clone(), parts);
        // Each clone of a repository of gix has a copy of the objects in its memory, so it is asked once.
        let main = main_of(&gix).unwrap_or_else(|| root.clone());
        Repo { gix, objects, refs, index, working_tree, root, main }
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
        Arc::clone(&self.objects.programs)
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
        self.objects.syncs.is_deferred.set(true);
    }

    /// Takes the changes since the last call that are not synced.
    pub fn unsynced(&self) -> Unsynced {
        self.objects.syncs.take()
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
    pub fn main_worktree(&self) -> &Path {
        &self.main
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
        let folders = [self.worktree(), self.common_dir(), main];
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
        let mut odd = irregular_in(self.git_dir());
        if self.common_dir() != self.git_dir() {
            odd.extend(irregular_in(self.common_dir()));
        }
        odd
    }
}

/// The root of the main working tree of a linked one, or of the repository that a call of an agent belongs to.
fn main_of(gix: &gix::Repository) -> Option<PathBuf> {
    if let Some(root) = root_of_call(gix.git_dir()) {
        return Some(root);
    }
    if gix.git_dir() == gix.common_dir() {
        return None;
    }
    match gix.main_repo() {
        Ok(main) => main.workdir()?.canonicalize().ok(),
        // Somebody may be deleting the linked one just now.
        Err(_) => gix.common_dir().canonicalize().ok()?.parent().map(Path::to_owned),
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

/// An operation of git's that is half done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The command: `am`, `bisect`, `cherry-pick`, `merge`, `rebase` or `revert`.
    pub name: &'static str,
    /// The commits that it names, and the one that a detached `HEAD` is on, as far as no ref leads to them: nothing
    /// else does once the operation is cleared.
    pub commits: Vec<CommitId>,
}

/// Files and folders that exist during an operation, with its name. The first that exists decides. For the sequencer's
/// folder, its first instruction names the operation.
const SIGNS: &[(&str, &str)] = &[
    ("rebase-apply/applying", "am"),
    ("rebase-apply", "rebase"),
    ("rebase-merge", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("MERGE_HEAD", "merge"),
    ("sequencer/todo", "cherry-pick"),
    ("BISECT_LOG", "bisect"),
    ("BISECT_START", "bisect"),
];

/// Files that name commits.
static NAMES_COMMITS: WordList = WordList::new(|| word_list(include_str!("lists/operation_commits.txt")));

/// All that is to go. The signs go last, so that one that was cut short is found again.
static STATE: WordList = WordList::new(|| word_list(include_str!("lists/operation_state.txt")));

/// Refs of one working tree that live as long as an operation does.
const REFS: &[&str] = &["refs/bisect", "refs/rewritten"];

impl Repo {
    /// The operation that is half done in this working tree, where there is one.
    pub fn operation(&self) -> Result<Option<Operation>> {
        let Some(name) = self.operation_name()? else { return Ok(None) };
        let mut commits = BTreeSet::new();
        for file in NAMES_COMMITS.iter() {
            let path = self.git_dir().join(file);
            let content = match read_regular(&path) {
                Err(err) if absent(&err) || err.kind() == ErrorKind::InvalidInput => continue,
                content => content.at("reading", &path)?,
            };
            commits.extend(content.lines().filter_map(|line| ObjectId::from_hex(line.trim()).ok()));
        }
        for (_, id) in self.operation_refs()? {
            commits.extend(ObjectId::from_hex(id.as_bytes()).ok());
        }
        if let Head::Detached { commit } = self.refs.head()? {
            commits.insert(object_id(&commit)?);
        }
        Ok(Some(Operation { name, commits: self.unreachable(commits)? }))
    }

    /// Ends a half-done operation as git's `--quit` does: removes its state; `HEAD`, index and working tree stay.
    /// Returns the operation. To keep its commits, read them with [`Repo::operation`] before.
    pub fn clear_operation(&self) -> Result<Option<Operation>> {
        let Some(operation) = self.operation()? else { return Ok(None) };
        for (name, _) in self.operation_refs()? {
            self.refs.edit_refs([RefEdit::delete(full_name(&name)?, PreviousValue::Any)])?;
        }
        for name in STATE.iter() {
            let path = self.git_dir().join(name);
            remove_all(&path).at("removing", &path)?;
        }
        sync::folder(self.git_dir())?;
        Ok(Some(operation))
    }

    /// The command that is half done, where one is: the name of [`Repo::operation`].
    pub fn operation_name(&self) -> Result<Option<&'static str>> {
        for (sign, name) in SIGNS {
            let path = self.git_dir().join(sign);
            if !path.try_exists().at("reading", &path)? {
                continue;
            }
            if *sign == "sequencer/todo" && read_regular(&path).unwrap_or_default().trim_start().starts_with(b"revert")
            {
                return Ok(Some("revert"));
            }
            return Ok(Some(name));
        }
        Ok(None)
    }

    fn operation_refs(&self) -> Result<Vec<(String, String)>> {
        let mut found = Vec::new();
        for folder in REFS {
            found.extend(self.refs.refs_under(folder)?);
        }
        Ok(found)
    }

    /// Those of `commits` that no branch, tag or other ref leads to.
    fn unreachable(&self, commits: BTreeSet<ObjectId>) -> Result<Vec<CommitId>> {
        const WHAT: &str = "looking for commits that nothing names";
        let mut left: BTreeSet<ObjectId> = commits.into_iter().filter(|id| self.gix.find_commit(*id).is_ok()).collect();
        let mut tips = Vec::new();
        for reference in self.gix.references().during(WHAT)?.all().during(WHAT)? {
            let mut reference = reference.during(WHAT)?;
            let name = reference.name().as_bstr().to_owned();
            if REFS.iter().any(|folder| name.starts_with(format!("{folder}/").as_bytes())) {
                continue;
            }
            if let Ok(id) = reference.peel_to_id()
                && self.gix.find_commit(id).is_ok()
            {
                tips.push(id.detach());
            }
        }
        for commit in self.gix.rev_walk(tips).all().during(WHAT)? {
            if left.is_empty() {
                break;
            }
            left.remove(&commit.during(WHAT)?.id);
        }
        Ok(left.into_iter().map(commit_id).collect())
    }
}

/// A lock file of git's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockFile {
    /// Its path.
    pub path: PathBuf,
    /// Its owner.
    pub owner: LockOwner,
    /// Its age, if known.
    pub age: Option<Duration>,
}

impl Repo {
    /// Checks that a command may write here: `HEAD` has a commit, no merge, rebase, cherry-pick, revert or bisect is
    /// half done.
    pub fn ready(&self) -> Result<()> {
        if let Head::Unborn { name } = self.refs.head()? {
            return Err(GitError::Unborn(name));
        }
        if let Some(operation) = self.operation_name()? {
            return Err(GitError::InProgress(operation));
        }
        Ok(())
    }

    /// Returns the error for a lock that another process may hold and that does not disappear.
    pub fn locked(&self, lock: &Path) -> GitError {
        locked(lock)
    }

    /// The lock files of git: of the index, of `HEAD` and its like in all working trees, of the packed refs, and of refs.
    pub(in crate::git) fn git_locks(&self) -> Result<Vec<PathBuf>> {
        let mut locks = Vec::new();
        for folder in self.git_dirs()? {
            collect_files(&folder, false, is_lock, &mut locks)?;
        }
        collect_files(&self.common_dir().join("refs"), true, is_lock, &mut locks)?;
        locks.sort();
        locks.dedup();
        Ok(locks)
    }

    /// The lock files that are there, with whose they are.
    pub fn locks(&self) -> Result<Vec<LockFile>> {
        let mut named = Vec::new();
        for dir in self.git_dirs()? {
            named.extend(RefGuard::named(&dir)?);
        }
        let mut found = Vec::new();
        for path in self.git_locks()? {
            let guard = named.iter().find(|(lock, _)| *lock == path).map(|(_, owner)| *owner);
            let owner = match guard {
                Some(owner) => owner,
                None => owner(&path)?,
            };
            let age = age(&path);
            found.push(LockFile { path, owner, age });
        }
        Ok(found)
    }

    /// Removes the locks that processes of this program left behind when they were killed.
    pub fn clear_own_locks(&self) -> Result<()> {
        for dir in self.git_dirs()? {
            RefGuard::clear_abandoned(&dir)?;
        }
        self.index.clear_abandoned()
    }

    /// The git folders of all working trees.
    pub fn git_dirs(&self) -> Result<Vec<PathBuf>> {
        let linked = self.linked_entries()?.into_iter();
        let linked = linked.filter(|entry| entry.oddity != Some(Oddity::NoFolder)).map(|entry| entry.path);
        Ok(std::iter::once(self.common_dir().to_owned()).chain(linked).collect())
    }
}

/// Returns whether a file is a lock of git's.
fn is_lock(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "lock")
}
