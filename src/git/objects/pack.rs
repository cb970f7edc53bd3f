//! Writing many objects at once: as one pack, which takes three syncs, where each file of an object's own takes one or two.
//!
//! A `.keep` file beside the pack keeps it from a `git gc` until refs lead to its objects. Its maker holds a lock on it. Whoever
//! makes a pack next takes away the mark of one that was killed, and what cannot be read of its pack yet.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use gix::ObjectId;
use gix::hash::hasher;
use gix::objs::Kind;
use gix::odb::pack::data::entry::Header;

use super::store::Objects;
use crate::crash;
use crate::fs::{GLANCE, if_exists, lock_within, read_at_most};
use crate::git::error::{At, During, Result};
use crate::git::sync;

const WHAT: &str = "writing a pack";

/// Content of a `.keep` file that `ar` writes.
const MARK: &[u8] = b"autoresearch\n";

/// From this offset on, an index names a place in a pack by eight bytes in a table of their own.
const FAR: u64 = 1 << 31;

/// A pack in memory.
pub(super) struct Pack {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    encoder: ZlibEncoder<Vec<u8>>,
}

struct Entry {
    id: ObjectId,
    offset: u64,
    crc: u32,
}

/// Keeps a pack from `git gc` until it is dropped.
#[derive(Debug)]
pub(in crate::git) struct Kept {
    path: PathBuf,
    _lock: File,
}

impl Drop for Kept {
    fn drop(&mut self) {
        // One that stays is taken away by whoever makes a pack next.
        let _ = fs::remove_file(&self.path);
    }
}

impl Pack {
    pub(super) fn new() -> Pack {
        Pack { bytes: vec![0; 12], entries: Vec::new(), encoder: ZlibEncoder::new(Vec::new(), Compression::fast()) }
    }

    /// Adds a tag object.
    pub(super) fn add_tag(&mut self, tag: &[u8]) -> Result<ObjectId> {
        let id = gix::objs::compute_hash(gix::hash::Kind::Sha1, Kind::Tag, tag).during(WHAT)?;
        let start = self.bytes.len();
        Header::Tag.write_to(tag.len() as u64, &mut self.bytes).during(WHAT)?;
        self.encoder.write_all(tag).during(WHAT)?;
        self.bytes.append(&mut self.encoder.reset(Vec::new()).during(WHAT)?);
        let mut crc = Crc::new();
        crc.update(&self.bytes[start..]);
        self.entries.push(Entry { id, offset: start as u64, crc: crc.sum() });
        Ok(id)
    }

    /// The bytes of the pack and of its index, with the name of both.
    fn finish(mut self) -> Result<(Vec<u8>, Vec<u8>, ObjectId)> {
        let mut header = b"PACK".to_vec();
        header.extend(2_u32.to_be_bytes());
        header.extend(number(self.entries.len())?);
        self.bytes[..header.len()].copy_from_slice(&header);
        let name = add_hash(&mut self.bytes)?;

        self.entries.sort_by_key(|entry| entry.id);
        let mut index = b"\xfftOc".to_vec();
        index.extend(2_u32.to_be_bytes());
        for first in 0..=u8::MAX {
            let end = self.entries.partition_point(|entry| entry.id.first_byte() <= first);
            index.extend(number(end)?);
        }
        self.entries.iter().for_each(|entry| index.extend_from_slice(entry.id.as_slice()));
        self.entries.iter().for_each(|entry| index.extend(entry.crc.to_be_bytes()));
        let far: Vec<u64> = self.entries.iter().map(|entry| entry.offset).filter(|offset| *offset >= FAR).collect();
        let mut places = 0_u64..;
        for Entry { offset, .. } in &self.entries {
            let near = if *offset < FAR { *offset } else { FAR + places.next().unwrap_or_default() };
            index.extend(number(near)?);
        }
        far.iter().for_each(|offset| index.extend(offset.to_be_bytes()));
        index.extend_from_slice(name.as_slice());
        add_hash(&mut index)?;
        Ok((self.bytes, index, name))
    }
}

impl Objects {
    /// Writes a pack. When this returns, its objects are on the disk, and stay there while the returned value lives.
    pub(super) fn write_pack(&self, pack: Pack) -> Result<Kept> {
        let folder = self.objects_dir().join("pack");
        fs::create_dir_all(&folder).at("making the folder", &folder)?;
        remove_left(&folder)?;
        let (pack, index, name) = pack.finish()?;
        let file = |end: &str| folder.join(format!("pack-{name}.{end}"));
        let kept = keep(file("keep"))?;
        crash::point("git.pack_kept");
        if file("pack").exists() && file("idx").exists() {
            // The same objects, by a process that was killed before refs led to them.
            return Ok(kept);
        }
        write_new(&file("pack"), &pack)?;
        crash::point("git.pack_written");
        write_new(&file("idx.new"), &index)?;
        fs::rename(file("idx.new"), file("idx")).at("writing", &file("idx"))?;
        sync::folder(&folder)?;
        Ok(kept)
    }
}

/// Adds the hash of some bytes to their end.
fn add_hash(bytes: &mut Vec<u8>) -> Result<ObjectId> {
    let mut hasher = hasher(gix::hash::Kind::Sha1);
    hasher.update(bytes);
    let hash = hasher.try_finalize().during(WHAT)?;
    bytes.extend_from_slice(hash.as_slice());
    Ok(hash)
}

fn number(number: impl TryInto<u32, Error: Into<crate::git::Cause>>) -> Result<[u8; 4]> {
    Ok(number.try_into().during(WHAT)?.to_be_bytes())
}

/// Makes the `.keep` file and locks it; the mark comes last, as one without it is nobody's to remove.
fn keep(path: PathBuf) -> Result<Kept> {
    let mut lock = OpenOptions::new().write(true).create_new(true).open(&path).at("writing", &path)?;
    if !lock_within(&lock, GLANCE).at("locking", &path)? {
        return Err(ErrorKind::WouldBlock.into()).at("locking", &path);
    }
    let kept = lock.write_all(MARK).and_then(|()| lock.sync_all()).at("writing", &path);
    let guard = Kept { path, _lock: lock };
    kept.map(|()| guard)
}

/// Writes a file that nobody reads under this name yet, as git makes its packs: nobody may change it.
fn write_new(path: &Path, content: &[u8]) -> Result<()> {
    if_exists(fs::remove_file(path)).at("removing", path)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o444).open(path).at("writing", path)?;
    file.write_all(content).and_then(|()| file.sync_all()).at("writing", path)
}

/// Takes away the marks of processes that were killed, and the packs that no index makes readable.
fn remove_left(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).at("reading", folder)? {
        let keep = entry.at("reading", folder)?.path();
        let is_ours = keep.extension() == Some("keep".as_ref())
            && read_at_most(&keep, MARK.len() as u64).is_ok_and(|content| content == MARK)
            && File::open(&keep).is_ok_and(|file| file.try_lock().is_ok());
        if !is_ours {
            continue;
        }
        let is_whole = keep.with_extension("idx").exists();
        let parts: &[&str] = if is_whole { &["keep"] } else { &["idx.new", "pack", "keep"] };
        for part in parts {
            let path = keep.with_extension(part);
            if_exists(fs::remove_file(&path)).at("removing", &path)?;
        }
    }
    Ok(())
}
