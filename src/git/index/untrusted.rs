//! The index of an untrusted process: reading what is staged there, and taking that over.
//!
//! Only paths, modes and objects are read. Times and sizes of files, marks that hide changes and extensions are not: they say
//! what git need not look at.

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice};
use gix::index::State;
use gix::index::entry::{Flags, Mode, Stage, Stat};

use super::staged::Staged;
use super::store::Index;
use crate::git::error::Result;
use crate::git::path::refused_part;

/// Bytes of an entry before its flags, and of the checksum at the end.
const FIXED: usize = 60;
const CHECKSUM: usize = 20;

/// Extensions with which the entries are not all that is staged: a split index and a sparse one.
const INCOMPLETE: [&[u8]; 2] = [b"link", b"sdir"];

/// An entry of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::git) struct UntrustedEntry {
    path: BString,
    stage: Stage,
    mode: Mode,
    id: ObjectId,
    is_only_meant: bool,
}

impl UntrustedEntry {
    /// The file that it names; `None` for a submodule.
    pub(in crate::git) fn file(&self) -> Option<ObjectId> {
        (self.mode != Mode::COMMIT).then_some(self.id)
    }
}

/// Reads the entries of an index; `None` if it cannot be read, or git would not check it out.
pub(in crate::git) fn untrusted_entries(bytes: &[u8]) -> Option<Vec<UntrustedEntry>> {
    let (head, content) = bytes.get(..bytes.len().checked_sub(CHECKSUM)?)?.split_first_chunk::<12>()?;
    let (signature, numbers) = head.split_first_chunk::<4>()?;
    let version = u32::from_be_bytes(*numbers.first_chunk()?);
    let count = u32::from_be_bytes(*numbers.last_chunk()?);
    if signature != b"DIRC" || !(2..=4).contains(&version) {
        return None;
    }
    let mut reader = Reader { rest: content };
    let mut entries: Vec<UntrustedEntry> = Vec::new();
    for _ in 0..count {
        let entry = reader.entry(version, entries.last())?;
        let is_sorted =
            entries.last().is_none_or(|last| (&last.path, last.stage as u8) < (&entry.path, entry.stage as u8));
        if !is_sorted || refused_part(entry.path.as_bstr(), entry.mode == Mode::SYMLINK).is_some() {
            return None;
        }
        entries.push(entry);
    }
    while !reader.rest.is_empty() {
        let name = reader.take(4)?;
        let size = u32::from_be_bytes(*reader.take(4)?.first_chunk()?);
        reader.take(usize::try_from(size).ok()?)?;
        if INCOMPLETE.contains(&name) {
            return None;
        }
    }
    Some(entries)
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn entry(&mut self, version: u32, before: Option<&UntrustedEntry>) -> Option<UntrustedEntry> {
        let start = self.rest.len();
        let fixed = self.take(FIXED)?;
        let mode = u32::from_be_bytes(*fixed.get(24..)?.first_chunk()?);
        let mode = [Mode::FILE, Mode::FILE_EXECUTABLE, Mode::SYMLINK, Mode::COMMIT]
            .into_iter()
            .find(|known| known.bits() == mode)?;
        let id = ObjectId::try_from(fixed.get(40..)?).ok()?;
        let flags = u16::from_be_bytes(*self.take(2)?.first_chunk()?);
        let more = if flags & 0x4000 == 0 { 0 } else { u16::from_be_bytes(*self.take(2)?.first_chunk()?) };
        let mut path = BString::default();
        if version == 4 {
            let cut = self.number()?;
            let before = before.map_or(&[][..], |before| before.path.as_slice());
            path.extend_from_slice(before.get(..before.len().checked_sub(cut)?)?);
        }
        let end = self.rest.find_byte(0)?;
        path.extend_from_slice(self.take(end)?);
        let read = start - self.rest.len();
        // The path ends with one to eight zeros, so that the next entry starts at a multiple of eight.
        self.take(if version == 4 { 1 } else { 8 - read % 8 })?;
        let stage = match (flags >> 12) & 3 {
            0 => Stage::Unconflicted,
            1 => Stage::Base,
            2 => Stage::Ours,
            _ => Stage::Theirs,
        };
        Some(UntrustedEntry { path, stage, mode, id, is_only_meant: more & 0x2000 != 0 })
    }

    /// A number of seven bits a byte, the highest first, where each further byte also counts one.
    fn number(&mut self) -> Option<usize> {
        let mut value = 0_usize;
        loop {
            let byte = *self.take(1)?.first()?;
            value |= usize::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Some(value);
            }
            value = value.checked_add(1)?.checked_mul(0x80)?;
        }
    }
}

impl Index {
    /// Those of `entries` that this index does not have; `None` if it has the same ones.
    pub(in crate::git) fn new_among<'a>(
        &self,
        entries: &'a [UntrustedEntry],
    ) -> Result<Option<Vec<&'a UntrustedEntry>>> {
        let own = self.read()?;
        let new: Vec<_> = entries.iter().filter(|entry| stat_in(&own, entry).is_none()).collect();
        Ok((!new.is_empty() || entries.len() != own.entries().len()).then_some(new))
    }

    /// Stages `entries` and nothing else. Files that this index does not have so are looked at anew by whoever reads it next.
    pub(in crate::git) fn take_over(&self, entries: &[UntrustedEntry]) -> Result<()> {
        let lock = self.lock()?;
        let own = self.read()?;
        let mut state = State::new(own.object_hash());
        for entry in entries {
            let (stat, mut flags) = stat_in(&own, entry).unwrap_or((Stat::default(), Flags::empty()));
            flags |= Flags::from_stage(entry.stage);
            if entry.is_only_meant {
                flags |= Flags::INTENT_TO_ADD | Flags::EXTENDED;
            }
            state.dangerously_push_entry(stat, entry.id, flags, entry.mode, entry.path.as_bstr());
        }
        self.write(&lock, Staged::new(state), &[])
    }
}

/// What the index knows of the file of an entry, if it has the same one; and whether it is left out of the working tree.
fn stat_in(own: &Staged, entry: &UntrustedEntry) -> Option<(Stat, Flags)> {
    let known = own.entry_by_path_and_stage(entry.path.as_bstr(), entry.stage)?;
    let is_only_meant = known.flags.contains(Flags::INTENT_TO_ADD);
    let is_same = (known.mode, known.id, is_only_meant) == (entry.mode, entry.id, entry.is_only_meant);
    is_same.then(|| (known.stat, known.flags & (Flags::SKIP_WORKTREE | Flags::EXTENDED)))
}

#[cfg(test)]
mod tests {
    use super::untrusted_entries;

    /// An index of one entry, `a`, with what follows it.
    fn index(count: u32, path: &[u8], more: &[u8]) -> Vec<u8> {
        let mut bytes = b"DIRC\0\0\0\x02".to_vec();
        bytes.extend(count.to_be_bytes());
        bytes.extend([0; 24]);
        bytes.extend(0o100_644_u32.to_be_bytes());
        bytes.extend([0; 12]);
        bytes.extend([7; 20]);
        bytes.extend((path.len() as u16).to_be_bytes());
        bytes.extend(path);
        bytes.extend(vec![0; 8 - (62 + path.len()) % 8]);
        bytes.extend(more);
        bytes.extend([0; 20]);
        bytes
    }

    #[test]
    fn an_index_is_read_whole_or_not_at_all() {
        let read = |bytes: &[u8]| untrusted_entries(bytes).map(|entries| entries.len());
        assert_eq!(read(&index(1, b"a", b"")), Some(1));
        assert_eq!(read(&index(1, b"src/main.py", b"TREE\0\0\0\x02ab")), Some(1));
        for (why, bytes) in [
            ("more entries than there are", index(u32::MAX, b"a", b"")),
            ("a split index", index(1, b"a", b"link\0\0\0\0")),
            ("an extension that ends nowhere", index(1, b"a", b"TREE\xff\xff\xff\xff")),
            ("a path out of the tree", index(1, b"../a", b"")),
            ("a path into git's folder", index(1, b".git/config", b"")),
            ("an absolute path", index(1, b"/etc/passwd", b"")),
            ("no path", index(1, b"", b"")),
        ] {
            assert_eq!(read(&bytes), None, "{why}");
        }
        let whole = index(1, b"a", b"");
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]), None, "{end} bytes");
        }
    }
}
