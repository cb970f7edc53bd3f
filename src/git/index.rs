//! The index: its content, reading and writing it, and its lock.
//!
//! The lock is git's own `index.lock`, with a marker and an advisory lock of the living process. A lock file with the marker
//! that nobody holds was left behind by a process that was killed; it is taken over. Any other lock file is somebody else's.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use filetime::FileTime;
use gix::ObjectId;
use gix::bstr::{BStr, BString};
use gix::index::State;
use gix::index::entry::{Flags, Stage, Stat};
use gix::index::fs::Metadata;
use gix::index::write::{Extensions, Options};

use super::{At, During, LockOwner, Objects, Repo, Result, Version, lock_path, locked};
use crate::crash;
use crate::fs::{FileStamp, Unsynced, if_exists, open_regular, read_regular};
use crate::git::path::{TEMPORARY, lstat, permissions};

/// The start of the name of a file that holds a part of an index.
const SHARED: &[u8] = b"sharedindex.";

/// The index of a working tree: it alone writes it, under git's own lock.
pub struct Index {
    gix: Rc<gix::Repository>,
    objects: Rc<Objects>,
    /// The root of the working tree.
    root: PathBuf,
    /// As it was read or written last, with what its file looked like then.
    last: RefCell<Option<(FileStamp, Rc<Staged>)>>,
}

/// One path in a tree and in the index.
#[derive(Debug, Clone, Copy)]
pub(in crate::git) struct Sides {
    pub(in crate::git) tree: Option<Version>,
    pub(in crate::git) index: Option<Version>,
}

impl Index {
    /// The index of the working tree at `root`.
    pub(in crate::git) fn new(gix: Rc<gix::Repository>, objects: Rc<Objects>, root: PathBuf) -> Index {
        Index { gix, objects, root, last: RefCell::default() }
    }

    /// The file of the index.
    pub fn path(&self) -> PathBuf {
        self.gix.index_path()
    }

    /// Checks that no process holds the index; a lock that a killed process of this program left behind is no hindrance.
    pub fn is_free(&self) -> Result<()> {
        check(&self.path())
    }

    /// The bytes of the index, for [`Index::restore`].
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let path = self.path();
        read_regular(&path).at("reading", &path)
    }

    /// The bytes of the index with all that is in it, also where git keeps a part of it in another file; `None` if there is no
    /// index.
    pub(in crate::git) fn whole_bytes(&self) -> Result<Option<Vec<u8>>> {
        let path = self.path();
        let Some(bytes) = if_exists(read_regular(&path)).at("reading", &path)? else { return Ok(None) };
        let names = fs::read_dir(self.gix.git_dir()).at("reading", self.gix.git_dir())?.flatten();
        if !names.map(|entry| entry.file_name()).any(|name| name.as_encoded_bytes().starts_with(SHARED)) {
            return Ok(Some(bytes));
        }
        let mut bytes = Vec::new();
        let whole = self.gix.open_index().during("reading the index")?;
        whole
            .write_to(&mut bytes, Options { extensions: Extensions::None, skip_hash: false })
            .during("writing the index")?;
        Ok(Some(bytes))
    }

    /// Puts an index back as it was when [`Index::bytes`] read it, with what was staged and what was not.
    pub fn restore(&self, bytes: &[u8]) -> Result<()> {
        self.replace(&self.lock()?, bytes)
    }

    /// Locks the index; waits for two seconds when another process has it.
    pub(in crate::git) fn lock(&self) -> Result<IndexLock> {
        IndexLock::acquire(&self.path())
    }

    /// Removes the lock that a killed process of this program left behind.
    pub(in crate::git) fn clear_abandoned(&self) -> Result<()> {
        remove_abandoned(&lock_path(&self.path())).map(drop)
    }

    /// The index, for reading; one that does not exist is empty. Read again when its file has changed.
    ///
    /// Marks that hide a change of the working tree (`assume-unchanged`, and `skip-worktree` on a file that is there)
    /// are taken off: what is measured is what is on disk.
    pub(in crate::git) fn read(&self) -> Result<Rc<Staged>> {
        let stamp = FileStamp::of(&self.path());
        if let Some((known, staged)) = &*self.last.borrow()
            && Some(*known) == stamp
        {
            return Ok(Rc::clone(staged));
        }
        let (staged, may_be_kept) = self.read_anew()?;
        let staged = Rc::new(staged);
        if let Some(stamp) = stamp.filter(|_| may_be_kept) {
            self.last.replace(Some((stamp, Rc::clone(&staged))));
        }
        Ok(staged)
    }

    /// The same for whoever changes it.
    pub(in crate::git) fn own(&self) -> Result<Staged> {
        let staged = self.read()?;
        self.last.take();
        Ok(Rc::try_unwrap(staged).unwrap_or_else(|shared| Staged::clone(&shared)))
    }

    /// Reads the index. Returns whether it may be kept: if files are marked as left out, each call must check again
    /// which of them exist.
    fn read_anew(&self) -> Result<(Staged, bool)> {
        let path = self.path();
        let state = match path.try_exists().at("reading", &path)? {
            true => self.gix.open_index().during("reading the index")?.into_parts().0,
            false => State::new(self.gix.object_hash()),
        };
        let mut staged = Staged::new(state);
        let may_be_kept = !staged.has_skipped();
        let (entries, paths) = staged.state.entries_mut_and_pathbacking();
        for entry in entries {
            entry.flags.remove(Flags::ASSUME_VALID);
            if entry.flags.contains(Flags::SKIP_WORKTREE) && lstat(&self.root, entry.path_in(paths))?.is_some() {
                entry.flags.remove(Flags::SKIP_WORKTREE | Flags::EXTENDED);
            }
        }
        Ok((staged, may_be_kept))
    }

    /// Stages a tree and nothing else. Whoever reads the index next looks anew at files that it had otherwise, and at those
    /// whose times say too little: by a newer index, they would count as unchanged.
    pub(in crate::git) fn stage(&self, tree: ObjectId) -> Result<()> {
        let lock = self.lock()?;
        let mut staged = self.own()?;
        let mut edits = Edits::default();
        self.against(&staged, tree)?.into_iter().for_each(|(path, sides)| edits.put(path, sides.tree));
        staged.apply(edits, Some(tree));
        let (written, compare) = (staged.timestamp(), self.gix.stat_options().during("reading the index")?);
        let entries = staged.state.entries_mut().iter_mut();
        entries.filter(|entry| entry.stat.is_racy(written, compare)).for_each(|entry| entry.stat = Stat::default());
        self.write(&lock, staged, &[])
    }

    /// Writes the index, durably, in place of the one that `lock` holds. The files of `fresh` were looked at just now:
    /// an entry whose file has changed since is marked so that git looks at it again.
    pub(in crate::git) fn write(&self, lock: &IndexLock, staged: Staged, fresh: &[BString]) -> Result<()> {
        const WHAT: &str = "writing the index";
        let Staged { mut state, tree } = staged;
        for path in fresh {
            let current = lstat(&self.root, path.as_ref())?.and_then(|meta| Stat::from_fs(&meta).ok());
            if let Some(entry) = state.entry_mut_by_path_and_stage(path.as_ref(), Stage::Unconflicted)
                && Some(entry.stat) != current
            {
                entry.stat.size = 0;
            }
        }
        let path = self.path();
        let skip_hash = self.gix.config_snapshot().boolean("index.skipHash").unwrap_or(false);
        let file = gix::index::File::from_state(state, &path);
        let mut bytes = Vec::new();
        file.write_to(&mut bytes, Options { extensions: Extensions::None, skip_hash }).during(WHAT)?;
        self.replace(lock, &bytes)?;
        let mut staged = Staged { state: file.into_parts().0, tree };
        let written = fs::metadata(&path).at("reading", &path)?;
        staged.state.set_timestamp(FileTime::from_last_modification_time(&written));
        if let Some(stamp) = FileStamp::of(&path).filter(|_| !staged.has_skipped()) {
            self.last.replace(Some((stamp, Rc::new(staged))));
        }
        Ok(())
    }

    /// Replaces the index that `lock` holds; its name may last later.
    fn replace(&self, lock: &IndexLock, bytes: &[u8]) -> Result<()> {
        let path = lock.index.as_path();
        let dir = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new()
            .prefix(TEMPORARY)
            .permissions(permissions(false))
            .tempfile_in(dir)
            .at("writing", path)?;
        file.write_all(bytes).at("writing", path)?;
        file.as_file().sync_all().at("syncing", path)?;
        crash::point("git.index_prepared");
        file.persist(path).map_err(|err| err.error).at("writing", path)?;
        crash::point("git.index_replaced");
        let mut unsynced = Unsynced::default();
        unsynced.add(dir);
        self.objects.syncs.soon(unsynced)
    }

    /// Removes temporary files that a killed process left behind. Only for the holder of the index lock.
    pub(in crate::git) fn sweep(&self, _lock: &IndexLock) -> Result<()> {
        let dir = self.gix.git_dir();
        for entry in fs::read_dir(dir).at("reading", dir)? {
            let entry = entry.at("reading", dir)?;
            if entry.file_name().as_encoded_bytes().starts_with(TEMPORARY.as_bytes()) {
                fs::remove_file(entry.path()).at("removing", &entry.path())?;
            }
        }
        Ok(())
    }

    /// Returns whether the index has the file, or any file below the folder.
    pub(in crate::git) fn has(&self, path: &BStr) -> Result<bool> {
        let staged = self.read()?;
        Ok(staged.entry_by_path(path).is_some() || staged.path_is_directory(path))
    }

    /// Finds the differences between an index and a tree, by path. A path in conflict always differs.
    pub(in crate::git) fn against(&self, staged: &Staged, tree: ObjectId) -> Result<BTreeMap<BString, Sides>> {
        let mut differences = BTreeMap::new();
        if staged.tree == Some(tree) {
            return Ok(differences);
        }
        let wanted = self.objects.read_in(&self.gix, |gix| gix.index_from_tree(&tree).during("reading a tree"))?;
        for entry in wanted.entries() {
            let path = entry.path(&wanted);
            let tree = Some((entry.mode, entry.id));
            let index = staged.version_at(path);
            if tree != index {
                differences.insert(path.to_owned(), Sides { tree, index });
            }
        }
        for entry in staged.entries() {
            let path = entry.path(staged);
            if wanted.entry_by_path(path).is_none() {
                differences.insert(path.to_owned(), Sides { tree: None, index: staged.version_at(path) });
            }
        }
        Ok(differences)
    }
}

/// Changes to the index, by path.
#[derive(Debug, Default)]
pub(in crate::git) struct Edits {
    /// Paths that are no longer tracked.
    pub(in crate::git) remove: BTreeSet<BString>,
    /// Paths that are tracked as this, with what the file system says of them.
    pub(in crate::git) set: BTreeMap<BString, (Version, Stat)>,
}

impl Edits {
    /// Makes a path what a tree has there, of which nothing is known on the disk.
    pub(in crate::git) fn put(&mut self, path: BString, version: Option<Version>) {
        if let Some(version) = version {
            self.set.insert(path, (version, Stat::default()));
        } else {
            self.remove.insert(path);
        }
    }
}

/// An index, and the tree that it is known to be, if any.
#[derive(Debug, Clone)]
pub(in crate::git) struct Staged {
    state: State,
    pub(in crate::git) tree: Option<ObjectId>,
}

impl Deref for Staged {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl Staged {
    /// An index as it was read. Git's cache of trees says which tree it is; it is not kept up here, and not written.
    fn new(mut state: State) -> Staged {
        let is_whole = |count: u32| usize::try_from(count) == Ok(state.entries().len());
        let tree = state.tree().filter(|tree| tree.num_entries.is_some_and(is_whole)).map(|tree| tree.id);
        state.remove_tree();
        Staged { state, tree }
    }

    /// Returns the index's version at a path; `None` if it is in conflict, only meant to be added, or missing.
    pub(in crate::git) fn version_at(&self, path: &BStr) -> Option<Version> {
        let entry = self.entry_by_path_and_stage(path, Stage::Unconflicted)?;
        (!entry.flags.contains(Flags::INTENT_TO_ADD)).then_some((entry.mode, entry.id))
    }

    /// Returns whether files are marked as left out of the working tree.
    pub(in crate::git) fn has_skipped(&self) -> bool {
        self.entries().iter().any(|entry| entry.flags.contains(Flags::SKIP_WORKTREE))
    }

    /// Carries out changes, which make the index the tree `tree`, where that is known.
    pub(in crate::git) fn apply(&mut self, edits: Edits, tree: Option<ObjectId>) {
        let Edits { mut remove, mut set } = edits;
        set.retain(|path, (version, stat)| {
            match self.state.entry_mut_by_path_and_stage(path.as_ref(), Stage::Unconflicted) {
                Some(entry) => {
                    (entry.mode, entry.id) = *version;
                    entry.stat = *stat;
                    if entry.flags.contains(Flags::INTENT_TO_ADD) {
                        entry.flags.remove(Flags::INTENT_TO_ADD | Flags::EXTENDED);
                    }
                    false
                }
                None => {
                    // Stages of a conflict go; the path is added anew.
                    remove.insert(path.clone());
                    true
                }
            }
        });
        if !remove.is_empty() {
            self.state.remove_entries(|_, path, _| remove.contains(path));
        }
        let sorted = set.is_empty();
        for (path, ((mode, id), stat)) in set {
            self.state.dangerously_push_entry(stat, id, Flags::empty(), mode, path.as_ref());
        }
        if !sorted {
            self.state.sort_entries();
        }
        self.tree = tree;
    }
}

/// Converts a file's metadata to the form that the index stores.
pub(in crate::git) fn stat_of(metadata: &Metadata) -> Stat {
    Stat::from_fs(metadata).unwrap_or_default()
}

/// Content of `ar`'s lock file.
const MARKER: &[u8] = b"ar holds the index\n";

/// Longest wait for another process's lock: a `git status` in an editor holds it for moments.
const PATIENCE: Duration = Duration::from_secs(2);

/// The index, locked until this is dropped.
#[derive(Debug)]
pub(in crate::git) struct IndexLock {
    lock: PathBuf,
    index: PathBuf,
    _held: File,
}

impl IndexLock {
    /// Locks the index at `index`; waits for two seconds when another process has it.
    pub(in crate::git) fn acquire(index: &Path) -> Result<IndexLock> {
        let lock = lock_path(index);
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(held) = try_create(&lock)? {
                return Ok(IndexLock { lock, index: index.to_owned(), _held: held });
            }
            if remove_abandoned(&lock)? {
                continue;
            }
            if Instant::now() >= deadline {
                return Err(locked(&lock));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        // The next process that locks the index recognises a leftover lock as abandoned.
        let _ = fs::remove_file(&self.lock);
    }
}

/// Checks that nobody has the index locked.
pub(in crate::git) fn check(index: &Path) -> Result<()> {
    let lock = lock_path(index);
    match open_marked(&lock)? {
        FoundLock::Nothing => Ok(()),
        FoundLock::Marked(file) if file.try_lock_shared().is_ok() => Ok(()),
        FoundLock::Marked(_) | FoundLock::Foreign => Err(locked(&lock)),
    }
}

/// Whose a lock file is, by its mark.
pub(in crate::git) fn owner(lock: &Path) -> Result<LockOwner> {
    Ok(match open_marked(lock)? {
        FoundLock::Marked(file) if file.try_lock_shared().is_ok() => LockOwner::Dead,
        FoundLock::Marked(_) => LockOwner::Alive,
        FoundLock::Nothing | FoundLock::Foreign => LockOwner::Other,
    })
}

/// Locks that were found after the program had ended that made them.
#[derive(Debug, Default)]
pub struct LeftLocks {
    /// Those that are removed now.
    pub removed: Vec<PathBuf>,
    /// Those that are too young to tell, or that somebody may hold.
    pub held: Vec<PathBuf>,
}

impl Repo {
    /// Removes the locks that git processes left behind which were killed: those that were made from `since` to `until`, are
    /// two seconds old, and of which it is said that they cannot be held.
    pub fn remove_left_locks(
        &self,
        since: SystemTime,
        until: Option<SystemTime>,
        may_be_held: impl Fn(&[PathBuf]) -> bool,
    ) -> Result<LeftLocks> {
        let mut left = LeftLocks::default();
        for lock in self.git_locks()? {
            let made = fs::symlink_metadata(&lock).and_then(|meta| meta.modified());
            let Some(made) = if_exists(made).at("reading", &lock)? else { continue };
            if made < since || until.is_some_and(|until| made > until) {
                continue;
            }
            let is_old = SystemTime::now().duration_since(made).is_ok_and(|age| age >= PATIENCE);
            if !is_old || owner(&lock)? == LockOwner::Alive || may_be_held(std::slice::from_ref(&lock)) {
                left.held.push(lock);
                continue;
            }
            if_exists(fs::remove_file(&lock)).at("removing", &lock)?;
            left.removed.push(lock);
        }
        Ok(left)
    }
}

/// Creates the lock file, held from the moment it has its name; nothing when there is one.
fn try_create(lock: &Path) -> Result<Option<File>> {
    let dir = lock.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(dir).at("writing", lock)?;
    file.as_file().lock().at("locking", lock)?;
    file.write_all(MARKER).at("writing", lock)?;
    crash::point("git.index_lock_prepared");
    match file.persist_noclobber(lock) {
        Ok(file) => Ok(Some(file)),
        Err(err) if err.error.kind() == ErrorKind::AlreadyExists => Ok(None),
        Err(err) => Err(err.error).at("writing", lock),
    }
}

enum FoundLock {
    Nothing,
    Foreign,
    Marked(File),
}

fn open_marked(lock: &Path) -> Result<FoundLock> {
    let Some(mut file) = if_exists(open_regular(lock)).at("reading", lock)? else { return Ok(FoundLock::Nothing) };
    let mut content = Vec::new();
    (&mut file).take(MARKER.len() as u64 + 1).read_to_end(&mut content).at("reading", lock)?;
    Ok(if content == MARKER { FoundLock::Marked(file) } else { FoundLock::Foreign })
}

/// Removes a lock file that a killed process of this program left behind; true when the way is free now.
pub(in crate::git) fn remove_abandoned(lock: &Path) -> Result<bool> {
    let file = match open_marked(lock)? {
        FoundLock::Nothing => return Ok(true),
        FoundLock::Foreign => return Ok(false),
        FoundLock::Marked(file) => file,
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(false),
        Err(TryLockError::Error(err)) => return Err(err).at("locking", lock),
    }
    // Another process may have removed this one meanwhile and made its own: only the file that is held may go.
    let held = file.metadata().at("reading", lock)?;
    let Some(named) = if_exists(fs::symlink_metadata(lock)).at("reading", lock)? else { return Ok(true) };
    let is_held = named.ino() == held.ino() && named.dev() == held.dev();
    if is_held {
        fs::remove_file(lock).at("removing", lock)?;
    }
    Ok(is_held)
}
