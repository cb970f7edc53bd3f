//! The index: reading, changing and writing it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use gix::ObjectId;
use gix::bstr::{BStr, BString};
use gix::index::entry::{Flags, Mode, Stage, Stat};
use gix::index::{State, fs::Metadata};
use sha1::{Digest, Sha1};

use super::error::{At, During};
use super::lock::IndexLock;
use super::{GitError, Repo, Result, cache_tree, worktree};
use crate::crash;
use crate::fs::{Unsynced, read_regular};

/// How the names of this program's temporary files in the repository's folder start.
pub(super) const TEMPORARY: &str = "ar-tmp-";

/// How much of an index is written at once, in bytes.
const BUFFER: usize = 64 * 1024;

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
        self.replace_index(lock, |file| self.write_state(&state, file))?;
        self.keep_index(state)
    }

    /// The bytes of the index, for [`Repo::put_index_back`].
    pub fn index_bytes(&self) -> Result<Vec<u8>> {
        let path = self.gix.index_path();
        read_regular(&path).at("reading", &path)
    }

    /// Puts an index back as it was when [`Repo::index_bytes`] read it, with what was staged and what was not.
    pub fn put_index_back(&self, bytes: &[u8]) -> Result<()> {
        self.replace_index(&IndexLock::acquire(&self.gix.index_path())?, |mut file| file.write_all(bytes))
    }

    fn write_state(&self, state: &State, file: &File) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(BUFFER, Summed { file, sum: Sha1::new() });
        write_entries(state, &mut out)?;
        if let Some(cache) = state.tree() {
            cache.write_to(&mut out)?;
        }
        let Summed { mut file, sum } = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        let skip_hash = self.gix.config_snapshot().boolean("index.skipHash").unwrap_or(false);
        let sum: [u8; 20] = if skip_hash { Default::default() } else { sum.finalize().into() };
        file.write_all(&sum)
    }

    /// Writes the index that `lock` holds; its name may last later.
    fn replace_index(&self, lock: &IndexLock, write: impl FnOnce(&File) -> io::Result<()>) -> Result<()> {
        let path = lock.index();
        let dir = path.parent().unwrap_or(Path::new("."));
        let file = tempfile::Builder::new()
            .prefix(TEMPORARY)
            .permissions(worktree::permissions(false))
            .tempfile_in(dir)
            .at("writing", path)?;
        write(file.as_file()).at("writing", path)?;
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

/// A file, and the sum of what was written to it.
struct Summed<'a> {
    file: &'a File,
    sum: Sha1,
}

impl Write for Summed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes an index up to its extensions, in version 2, or 3 where an entry needs it, as gitformat-index(5) has it. gix writes
/// field by field, which takes several times as long.
fn write_entries(state: &State, out: &mut impl Write) -> io::Result<()> {
    const FIXED: usize = 40;
    const LONGEST: usize = 0xfff;
    let count = u32::try_from(state.entries().len()).map_err(io::Error::other)?;
    let version: u32 = if state.entries().iter().any(|entry| entry.flags.contains(Flags::EXTENDED)) { 3 } else { 2 };
    out.write_all(b"DIRC")?;
    out.write_all(&version.to_be_bytes())?;
    out.write_all(&count.to_be_bytes())?;
    let mut bytes = Vec::new();
    for entry in state.entries() {
        bytes.clear();
        let (stat, path) = (&entry.stat, entry.path(state));
        let numbers = [
            stat.ctime.secs,
            stat.ctime.nsecs,
            stat.mtime.secs,
            stat.mtime.nsecs,
            stat.dev,
            stat.ino,
            entry.mode.bits(),
            stat.uid,
            stat.gid,
            stat.size,
        ];
        let mut fixed = [0; FIXED];
        for (place, number) in fixed.chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(&fixed);
        bytes.extend_from_slice(entry.id.as_bytes());
        let [.., high, low] = (entry.flags - Flags::PATH_LEN).bits().to_be_bytes();
        let [.., long, short] = path.len().min(LONGEST).to_be_bytes();
        bytes.extend_from_slice(&[high | long, low | short]);
        if entry.flags.contains(Flags::EXTENDED) {
            let [high, low, ..] = (entry.flags & (Flags::INTENT_TO_ADD | Flags::SKIP_WORKTREE)).bits().to_be_bytes();
            bytes.extend_from_slice(&[high, low]);
        }
        bytes.extend_from_slice(path);
        // One to eight bytes, up to a multiple of eight.
        bytes.resize((bytes.len() + 8) / 8 * 8, 0);
        out.write_all(&bytes)?;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use gix::index::entry::stat::Time;
    use gix::index::write;

    use super::*;

    #[test]
    fn entries_are_written_as_gix_writes_them() {
        let id = ObjectId::from_hex(b"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391").unwrap();
        let time = |secs| Time { secs, nsecs: 999_999_999 };
        let stat = Stat { mtime: time(1), ctime: time(2), dev: 3, ino: u32::MAX, uid: 5, gid: 6, size: 7 };
        let flags = [
            Flags::empty(),
            Flags::ASSUME_VALID,
            Flags::from_stage(Stage::Theirs),
            Flags::INTENT_TO_ADD | Flags::EXTENDED,
            Flags::SKIP_WORKTREE | Flags::EXTENDED | Flags::UPTODATE | Flags::HASHED,
        ];
        // Paths of all lengths that differ in padding, and one that is longer than the flags can say.
        for count in [1, 3, 5] {
            let mut state = State::new(gix::hash::Kind::Sha1);
            for (at, length) in (1..20).chain([5000]).enumerate() {
                let path = "p".repeat(length);
                let flags = flags[at % count];
                state.dangerously_push_entry(stat, id, flags, Mode::FILE_EXECUTABLE, path.as_str().into());
            }
            let mut wanted = Vec::new();
            let extensions = write::Extensions::None;
            state.write_to(&mut wanted, write::Options { extensions, skip_hash: true }).unwrap();
            let mut written = Vec::new();
            write_entries(&state, &mut written).unwrap();
            assert_eq!(written, wanted);
        }
    }
}
