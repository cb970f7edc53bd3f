//! The index: reading and writing it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use filetime::FileTime;
use gix::ObjectId;
use gix::bstr::{BStr, BString};
use gix::index::entry::{Flags, Stage, Stat};
use gix::index::write::{Extensions, Options};
use gix::index::{File, State};

use super::lock::{self, IndexLock};
use super::staged::{Edits, Staged};
use crate::crash;
use crate::fs::{FileStamp, Unsynced, if_exists, read_regular};
use crate::git::error::{At, During, Result};
use crate::git::lock_file::lock_path;
use crate::git::objects::{Version, read_of_repository};
use crate::git::path::{TEMPORARY, lstat, permissions};
use crate::git::sync::Syncs;

/// The start of the name of a file that holds a part of an index.
const SHARED: &[u8] = b"sharedindex.";

/// The index of a working tree: it alone writes it, under git's own lock.
pub struct Index {
    gix: Rc<gix::Repository>,
    /// The root of the working tree.
    root: PathBuf,
    syncs: Rc<Syncs>,
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
    pub(in crate::git) fn new(gix: Rc<gix::Repository>, root: PathBuf, syncs: Rc<Syncs>) -> Index {
        Index { gix, root, syncs, last: RefCell::default() }
    }

    /// The file of the index.
    pub fn path(&self) -> PathBuf {
        self.gix.index_path()
    }

    /// Checks that no process holds the index; a lock that a killed process of this program left behind is no hindrance.
    pub fn is_free(&self) -> Result<()> {
        lock::check(&self.path())
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
        lock::remove_abandoned(&lock_path(&self.path())).map(drop)
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
        let file = File::from_state(state, &path);
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
        let path = lock.index();
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
        self.syncs.soon(unsynced)
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
        if staged.tree() == Some(tree) {
            return Ok(differences);
        }
        let wanted = read_of_repository(&self.gix, |gix| gix.index_from_tree(&tree).during("reading a tree"))?;
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
