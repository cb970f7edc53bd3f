//! The index: reading, changing and writing it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;

use gix::ObjectId;
use gix::bstr::{BStr, BString};
use gix::index::entry::{Flags, Mode, Stage, Stat};
use gix::index::{State, fs::Metadata, write};

use super::error::{At, During};
use super::lock::IndexLock;
use super::{GitError, Repo, Result, cache_tree, worktree};
use crate::crash;
use crate::state::{Unsynced, read_regular};

/// How the names of this program's temporary files in the repository's folder start.
pub(super) const TEMPORARY: &str = "ar-tmp-";

/// One file as the index or a tree has it.
pub(super) type Version = (Mode, ObjectId);

/// Changes to the index, by path.
#[derive(Debug, Default)]
pub(super) struct Edits {
    /// Paths that are no longer tracked.
    pub(super) remove: BTreeSet<BString>,
    /// Paths that are tracked as this, with what the file system says of them.
    pub(super) set: BTreeMap<BString, (Version, Stat)>,
}

impl Repo {
    /// Writes the index, durably, in place of the one that `lock` holds. The files of `fresh` were looked at just now:
    /// an entry whose file has changed since is marked so that git looks at it again.
    pub(super) fn write_index(&self, lock: &IndexLock, mut state: State, fresh: &[BString]) -> Result<()> {
        for path in fresh {
            let current = worktree::lstat(self.worktree(), path.as_ref())?.and_then(|meta| Stat::from_fs(&meta).ok());
            if let Some(entry) = state.entry_mut_by_path_and_stage(path.as_ref(), Stage::Unconflicted)
                && Some(entry.stat) != current
            {
                entry.stat.size = 0;
            }
        }
        self.replace_index(lock, &self.serialize(&state)?)?;
        self.keep_index(state)
    }

    /// The bytes of the index, for [`Repo::put_index_back`].
    pub fn index_bytes(&self) -> Result<Vec<u8>> {
        let path = self.gix.index_path();
        read_regular(&path).at("reading", &path)
    }

    /// Puts an index back as it was when [`Repo::index_bytes`] read it, with what was staged and what was not.
    pub fn put_index_back(&self, bytes: &[u8]) -> Result<()> {
        self.replace_index(&IndexLock::acquire(&self.gix.index_path())?, bytes)
    }

    fn serialize(&self, state: &State) -> Result<Vec<u8>> {
        let skip_hash = self.gix.config_snapshot().boolean("index.skipHash").unwrap_or(false);
        let extensions = write::Extensions::Given { tree_cache: true, end_of_index_entry: false };
        let mut bytes = Vec::new();
        state.write_to(&mut bytes, write::Options { extensions, skip_hash }).during("writing the index")?;
        let hash = if skip_hash {
            self.gix.object_hash().null()
        } else {
            let mut hasher = gix::hash::hasher(self.gix.object_hash());
            hasher.update(&bytes);
            hasher.try_finalize().during("writing the index")?
        };
        bytes.extend_from_slice(hash.as_slice());
        Ok(bytes)
    }

    /// Writes the index that `lock` holds; its name may last later.
    fn replace_index(&self, lock: &IndexLock, bytes: &[u8]) -> Result<()> {
        let path = lock.index();
        let dir = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new()
            .prefix(TEMPORARY)
            .permissions(worktree::permissions(false))
            .tempfile_in(dir)
            .at("writing", path)?;
        file.write_all(bytes).at("writing", path)?;
        file.as_file().sync_all().at("syncing", path)?;
        crash::point("git.index_prepared");
        file.persist(path).map_err(|err| err.error).at("writing", path)?;
        crash::point("git.index_replaced");
        let mut unsynced = Unsynced::default();
        unsynced.add(dir);
        self.sync_soon(unsynced)
    }

    /// Removes temporary files that a killed process left behind. Only for the holder of the index lock.
    pub(super) fn sweep(&self, _lock: &IndexLock) -> Result<()> {
        let dir = self.git_dir();
        for entry in fs::read_dir(dir).at("reading", dir)? {
            let entry = entry.at("reading", dir)?;
            if entry.file_name().as_encoded_bytes().starts_with(TEMPORARY.as_bytes()) {
                fs::remove_file(entry.path()).at("removing", &entry.path())?;
            }
        }
        Ok(())
    }
}

/// What the index has at a path: a version, unless it is in conflict, only meant to be added, or not there.
pub(super) fn version_at(state: &State, path: &BStr) -> Option<Version> {
    let entry = state.entry_by_path_and_stage(path, Stage::Unconflicted)?;
    (!entry.flags.contains(Flags::INTENT_TO_ADD)).then_some((entry.mode, entry.id))
}

/// Carries out changes; the cache of trees forgets the folders in which something other than a file's times changed.
pub(super) fn apply(state: &mut State, mut edits: Edits) {
    let mut touched: Vec<BString> = edits.remove.iter().cloned().collect();
    let mut remove = edits.remove;
    edits.set.retain(|path, (version, stat)| {
        let changed = version_at(state, path.as_ref()) != Some(*version);
        if changed {
            touched.push(path.clone());
        }
        match state.entry_mut_by_path_and_stage(path.as_ref(), Stage::Unconflicted) {
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
        state.remove_entries(|_, path, _| remove.contains(path));
    }
    let sorted = edits.set.is_empty();
    for (path, ((mode, id), stat)) in edits.set {
        state.dangerously_push_entry(stat, id, Flags::empty(), mode, path.as_ref());
    }
    if !sorted {
        state.sort_entries();
    }
    if let Some(cache) = state.tree_mut() {
        touched.iter().for_each(|path| cache_tree::invalidate(cache, path.as_ref()));
    }
}

/// What the file system says of a file, as the index keeps it.
pub(super) fn stat_of(metadata: &Metadata) -> Stat {
    Stat::from_fs(metadata).unwrap_or_default()
}

/// The same index with an empty cache of trees. gix can only change a cache that it has read.
pub(super) fn with_cache_tree(state: State) -> Result<State> {
    const EMPTY_CACHE: &[u8] = b"\0-1 0\n";
    let hash = state.object_hash();
    let mut bytes = b"DIRC\0\0\0\x02\0\0\0\0TREE\0\0\0\x06".to_vec();
    bytes.extend_from_slice(EMPTY_CACHE);
    let mut hasher = gix::hash::hasher(hash);
    hasher.update(&bytes);
    bytes.extend_from_slice(hasher.try_finalize().during("reading the index")?.as_slice());
    let (mut new, _) =
        State::from_bytes(&bytes, state.timestamp(), hash, Default::default()).during("reading the index")?;
    if new.tree().is_none() {
        return Err(GitError::Damaged("an index without a cache of trees cannot be read".to_owned()));
    }
    for entry in state.entries() {
        new.dangerously_push_entry(entry.stat, entry.id, entry.flags, entry.mode, entry.path(&state));
    }
    Ok(new)
}
