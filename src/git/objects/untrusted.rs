//! Objects in a folder that an untrusted process writes to: files of their own and packs, without alternates.
//!
//! gix maps such files into memory, where a process that truncates one kills this one, and trusts offsets in the index of a
//! pack. So both are read here, with `read` alone.

use std::cell::{Cell, OnceCell};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use flate2::bufread::ZlibDecoder;
use gix::ObjectId;
use gix::bstr::ByteSlice;
use gix::hash::{Hasher, hasher};
use gix::objs::Kind;
use gix::odb::pack::data::Entry;
use gix::odb::pack::data::entry::Header;

use crate::git::beneath::UntrustedFolder;

/// The most bytes unpacked in all: the content of each object, and each step on the way to one that is stored as a difference.
const MOST: u64 = 32 << 30;

/// The largest object stored as a difference, in bytes: it is held in memory. Git stores no file above 512 MiB so.
const LARGEST_DIFFERENCE: u64 = 1 << 30;

/// The most differences between an object and what it is stored as a difference from; that is git's limit, too.
const DEEPEST: usize = 4095;

/// The most names read in the folder of packs, and the most bytes of their indexes.
const MOST_NAMES: usize = 10_000;
const MOST_INDEX: u64 = 512 << 20;

/// Largest header of an object in a file of its own, in bytes, and of one in a pack.
const HEADER: u64 = 64;

/// The objects in the git folder of an untrusted process.
pub(in crate::git) struct UntrustedObjects {
    folder: UntrustedFolder,
    packs: OnceCell<Vec<Pack>>,
    left: Cell<u64>,
}

/// An object as its folder has it.
pub(super) struct Found<'a> {
    pub(super) kind: Kind,
    pub(super) size: u64,
    pub(super) content: Box<dyn Read + 'a>,
}

impl UntrustedObjects {
    /// The objects of the git folder `folder`.
    pub(in crate::git) fn of(folder: UntrustedFolder) -> UntrustedObjects {
        UntrustedObjects { folder, packs: OnceCell::new(), left: Cell::new(MOST) }
    }

    /// The folder that they are in.
    pub(in crate::git) fn folder(&self) -> &UntrustedFolder {
        &self.folder
    }

    /// Finds an object; `None` if it is missing or cannot be read. Its content may be another than its name says: read it
    /// through [`Verified`].
    pub(super) fn find(&self, id: ObjectId) -> Option<Found<'_>> {
        let found = self.loose(id).or_else(|| self.packs().iter().find_map(|pack| pack.find(id, &self.left)))?;
        spend(&self.left, found.size)?;
        Some(found)
    }

    fn loose(&self, id: ObjectId) -> Option<Found<'_>> {
        let hex = id.to_string();
        let file = self.folder.file(Path::new(&format!("objects/{}/{}", &hex[..2], &hex[2..]))).ok()?;
        let mut content = BufReader::new(ZlibDecoder::new(BufReader::new(file)));
        let mut header = Vec::new();
        (&mut content).take(HEADER).read_until(0, &mut header).ok()?;
        let (kind, size) = header.strip_suffix(b"\0")?.split_once_str(" ")?;
        let size: u64 = size.to_str().ok()?.parse().ok()?;
        Some(Found { kind: Kind::from_bytes(kind).ok()?, size, content: Box::new(content) })
    }

    fn packs(&self) -> &[Pack] {
        self.packs.get_or_init(|| {
            let folder = Path::new("objects/pack");
            let mut left = MOST_INDEX;
            let mut packs = Vec::new();
            for name in self.folder.names(folder, MOST_NAMES).unwrap_or_default() {
                let index = folder.join(name);
                if index.extension() != Some("idx".as_ref()) {
                    continue;
                }
                let Ok(bytes) = self.folder.read(&index, left) else { continue };
                left -= bytes.len() as u64;
                let data = self.folder.file(&index.with_extension("pack"));
                packs.extend(data.ok().and_then(|data| Pack::of(bytes, data)));
            }
            packs
        })
    }
}

/// Takes `bytes` of what is left; `None` if less is left.
fn spend(left: &Cell<u64>, bytes: u64) -> Option<()> {
    left.set(left.get().checked_sub(bytes)?);
    Some(())
}

/// A pack with its index in memory.
struct Pack {
    index: Vec<u8>,
    count: usize,
    data: File,
}

/// The parts of an index of version 2: the head, then for each first byte of a name the number of names up to it, then names,
/// checksums, offsets, and eight bytes for each offset that is too large.
const SIGNATURE: &[u8] = b"\xfftOc\0\0\0\x02";
const COUNTS: usize = SIGNATURE.len();
const NAMES: usize = COUNTS + 256 * 4;
const NAME: usize = 20;
const FAR: u32 = 1 << 31;

impl Pack {
    fn of(index: Vec<u8>, data: File) -> Option<Pack> {
        let mut pack = Pack { index, count: 0, data };
        pack.count = pack.names_up_to(u8::MAX)?;
        let is_whole = pack.index.len() >= NAMES.checked_add(pack.count.checked_mul(NAME + 8)?)?;
        (is_whole && pack.index.starts_with(SIGNATURE)).then_some(pack)
    }

    fn number(&self, at: usize) -> Option<u32> {
        self.index.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }

    fn names_up_to(&self, first: u8) -> Option<usize> {
        usize::try_from(self.number(COUNTS + usize::from(first) * 4)?).ok()
    }

    fn offset_of(&self, id: ObjectId) -> Option<u64> {
        let first = id.first_byte();
        let start = first.checked_sub(1).map_or(Some(0), |before| self.names_up_to(before))?;
        let end = self.names_up_to(first)?.min(self.count);
        let names = self.index.get(NAMES..)?.get(..self.count * NAME)?.as_chunks::<NAME>().0;
        let at = start + names.get(start..end)?.binary_search_by(|name| name.as_slice().cmp(id.as_slice())).ok()?;
        let offsets = NAMES + self.count * (NAME + 4);
        let offset = self.number(offsets + at * 4)?;
        if offset & FAR == 0 {
            return Some(offset.into());
        }
        let far = offsets + self.count * 4 + usize::try_from(offset ^ FAR).ok()? * 8;
        self.index.get(far..)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
    }

    fn find(&self, id: ObjectId, left: &Cell<u64>) -> Option<Found<'_>> {
        let mut offset = self.offset_of(id)?;
        let mut differences = Vec::new();
        loop {
            let entry = self.entry(offset)?;
            let kind = match entry.header {
                Header::OfsDelta { base_distance } => {
                    offset = offset.checked_sub(base_distance)?;
                    None
                }
                Header::RefDelta { base_id } => {
                    offset = self.offset_of(base_id)?;
                    None
                }
                header => Some(header.as_kind()?),
            };
            match kind {
                None if differences.len() < DEEPEST => differences.push(self.unpacked(&entry, left)?),
                None => return None,
                Some(kind) if differences.is_empty() => {
                    let content = Box::new(self.content(entry.data_offset));
                    return Some(Found { kind, size: entry.decompressed_size, content });
                }
                Some(kind) => {
                    let mut bytes = self.unpacked(&entry, left)?;
                    for difference in differences.iter().rev() {
                        bytes = apply(&bytes, difference, left)?;
                    }
                    return Some(Found { kind, size: bytes.len() as u64, content: Box::new(Cursor::new(bytes)) });
                }
            }
        }
    }

    fn entry(&self, offset: u64) -> Option<Entry> {
        let mut bytes = Vec::new();
        Section { file: &self.data, at: offset }.take(HEADER).read_to_end(&mut bytes).ok()?;
        if bytes.is_empty() {
            return None;
        }
        Entry::from_bytes(&bytes, offset, gix::hash::Kind::Sha1).ok()
    }

    fn content(&self, offset: u64) -> impl Read + use<'_> {
        ZlibDecoder::new(BufReader::new(Section { file: &self.data, at: offset }))
    }

    /// The bytes of an entry, in memory.
    fn unpacked(&self, entry: &Entry, left: &Cell<u64>) -> Option<Vec<u8>> {
        let size = Some(entry.decompressed_size).filter(|size| *size <= LARGEST_DIFFERENCE)?;
        spend(left, size)?;
        let mut bytes = Vec::new();
        self.content(entry.data_offset).take(size + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 == size).then_some(bytes)
    }
}

/// A file from an offset on.
struct Section<'a> {
    file: &'a File,
    at: u64,
}

impl Read for Section<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at = self.at.checked_add(count as u64).ok_or(ErrorKind::InvalidData)?;
        Ok(count)
    }
}

/// Applies a difference in the form that packs have.
fn apply(base: &[u8], difference: &[u8], left: &Cell<u64>) -> Option<Vec<u8>> {
    let mut rest = difference.iter().copied();
    if number(&mut rest)? != base.len() as u64 {
        return None;
    }
    let size = number(&mut rest).filter(|size| *size <= LARGEST_DIFFERENCE)?;
    spend(left, size)?;
    let size = usize::try_from(size).ok()?;
    let mut bytes = Vec::new();
    while let Some(command) = rest.next() {
        if command & 0x80 == 0 {
            // That many bytes follow; none is reserved.
            let before = bytes.len();
            bytes.extend(rest.by_ref().take(command.into()));
            if command == 0 || bytes.len() != before + usize::from(command) {
                return None;
            }
        } else {
            let mut part = |bits: std::ops::Range<u32>| {
                let mut value = 0_usize;
                for (place, bit) in bits.enumerate() {
                    if command & (1 << bit) != 0 {
                        value |= usize::from(rest.next()?) << (place * 8);
                    }
                }
                Some(value)
            };
            let (start, length) = (part(0..4)?, part(4..7)?);
            let length = if length == 0 { 0x1_0000 } else { length };
            bytes.extend_from_slice(base.get(start..)?.get(..length)?);
        }
        if bytes.len() > size {
            return None;
        }
    }
    (bytes.len() == size).then_some(bytes)
}

/// A number of seven bits a byte, the lowest first.
fn number(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = bytes.next()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Reads the content of an object. Fails at its end if it is not the one that its name says.
pub(super) struct Verified<R> {
    content: R,
    id: ObjectId,
    left: u64,
    hasher: Option<Hasher>,
    /// True once the content turned out to be another, or unreadable.
    pub(super) is_other: bool,
}

impl<R: Read> Verified<R> {
    /// Content of `size` bytes that belongs to the object `id`.
    pub(super) fn new(id: ObjectId, kind: Kind, size: u64, content: R) -> Verified<R> {
        let mut hasher = hasher(id.kind());
        hasher.update(&gix::objs::encode::loose_header(kind, size));
        Verified { content, id, left: size, hasher: Some(hasher), is_other: false }
    }

    fn advance(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).map_or(buffer.len(), |left| buffer.len().min(left));
        let count = self.content.read(&mut buffer[..most])?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&buffer[..count]);
        }
        Ok(count)
    }

    fn check_end(&mut self) -> io::Result<()> {
        let Some(hasher) = self.hasher.take() else { return Ok(()) };
        let is_it = hasher.try_finalize().is_ok_and(|id| id == self.id);
        match is_it && self.content.read(&mut [0])? == 0 {
            true => Ok(()),
            false => Err(ErrorKind::InvalidData.into()),
        }
    }
}

impl<R: Read> Read for Verified<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self.left {
            _ if buffer.is_empty() => Ok(0),
            0 => self.check_end().map(|()| 0),
            _ => self.advance(buffer),
        };
        self.is_other |= read.as_ref().is_err_and(|error| error.kind() != ErrorKind::Interrupted);
        read
    }
}
