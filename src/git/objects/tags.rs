//! Annotated tags: writing one, writing many as one pack, and reading one, or all of a session on all cores.
//!
//! A pack takes three syncs, where each file of an object's own takes one or two. A `.keep` file beside the pack keeps it from a
//! `git gc` until refs lead to its objects. Its maker holds a lock on it. Whoever makes a pack next takes away the mark of one
//! that was killed, and what cannot be read of its pack yet.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::num::NonZero;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::{fs, thread};

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use gix::ObjectId;
use gix::actor::Signature;
use gix::bstr::ByteSlice;
use gix::hash::hasher;
use gix::objs::{FindExt, Kind, TagRef, WriteTo};
use gix::odb::Handle;
use gix::odb::pack::data::entry::Header;

use super::{read_of_store, with_line_end};
use crate::crash;
use crate::domain::CommitId;
use crate::fs::{GLANCE, if_exists, lock_within, read_at_most};
use crate::git::{At, During, Objects, Result, commit_id, identity, object_id, parse_id, sync};

const WRITING: &str = "writing a record";

/// The fewest tags for which another thread pays off: reading them takes about a millisecond.
const WORTH_A_THREAD: usize = 100;

/// The most threads that read. They wait for the file system, which more threads do not speed up.
const THREADS: usize = 8;

/// An annotated tag with the ref that it stands under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagObject {
    /// The ref's full name.
    pub name: String,
    /// The commit that the tag is on.
    pub commit: CommitId,
    /// The tag's message.
    pub message: String,
}

impl Objects {
    /// Reads the annotated tags that refs lead to, each a name with an object, and gives what `make` makes of them, in the
    /// order of the refs. Refs that lead to something else are left out. Reads and makes on all cores.
    pub fn read_tags<T: Send>(
        &self,
        refs: &[(String, String)],
        make: impl Fn(TagObject) -> T + Sync,
    ) -> Result<Vec<T>> {
        let found = self.each_tag(refs, |_, tag| tag.map(|tag| tag.map(&make)));
        found.into_iter().filter_map(Result::transpose).collect()
    }

    /// Does what [`Objects::read_tags`] does, with what became of each ref, by name.
    pub fn each_tag<T: Send>(
        &self,
        refs: &[(String, String)],
        make: impl Fn(&str, Result<Option<TagObject>>) -> T + Sync,
    ) -> Vec<T> {
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS);
        let read = |refs: &[(String, String)], objects: Handle| -> Vec<T> {
            let mut buffer = Vec::new();
            refs.iter().map(|(name, id)| make(name, read_tag(&objects, name, id, &mut buffer))).collect()
        };
        thread::scope(|scope| {
            let parts = refs.chunks(refs.len().div_ceil(threads).max(WORTH_A_THREAD));
            let parts: Vec<_> = parts
                .map(|part| {
                    let (read, objects) = (&read, self.on_disk().clone());
                    scope.spawn(move || read(part, objects))
                })
                .collect();
            let joined = parts.into_iter().map(|part| part.join().unwrap_or_else(|panic| resume_unwind(panic)));
            joined.flatten().collect()
        })
    }

    /// The annotated tag of a name, which a ref leads to or has lost; nothing when it is something else.
    pub fn tag_object(&self, refname: &str, id: &str) -> Result<Option<TagObject>> {
        read_tag(self.on_disk(), refname, id, &mut Vec::new())
    }

    /// All annotated tags on commits that were made for refs below `prefix`, whether a ref leads to them or not: the refs
    /// with the tag objects. Looks at every object that there is.
    pub fn tag_objects_under(&self, prefix: &str) -> Result<Vec<(String, String)>> {
        const WHAT: &str = "looking through all objects";
        let prefix = format!("{prefix}/");
        let mut found = Vec::new();
        for id in self.gix.objects.iter().during(WHAT)? {
            let id = id.during(WHAT)?;
            if !self.gix.find_header(id).is_ok_and(|header| header.kind() == Kind::Tag) {
                continue;
            }
            let object = self.gix.find_object(id).during(WHAT)?.into_tag();
            let Ok(tag) = object.decode() else { continue };
            let name = format!("refs/{}", tag.name);
            if name.starts_with(&prefix) && tag.target_kind == Kind::Commit {
                found.push((name, id.to_string()));
            }
        }
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// Writes an annotated tag for the ref `refname`, as the committer, not yet synced and not compressed: a record of 2 KB
    /// takes one block of the file system either way, and to decompress those of a session takes half the time of reading it.
    pub(in crate::git) fn write_tag(&self, refname: &str, commit: &CommitId, message: &str) -> Result<ObjectId> {
        let tag = tag_bytes(&identity(&self.gix)?.committer, refname, commit, message)?;
        self.write_bytes(Kind::Tag, &tag, false, WRITING)
    }

    /// Writes many annotated tags, each given as ref, commit and message, and syncs them. Until refs lead to them, what is
    /// returned with them keeps them from `git gc`.
    pub(in crate::git) fn write_tags(&self, tags: &[(String, CommitId, String)]) -> Result<(Vec<ObjectId>, KeptPack)> {
        let committer = identity(&self.gix)?.committer;
        let mut pack = Pack::new();
        let ids = tags
            .iter()
            .map(|(refname, commit, message)| pack.add_tag(&tag_bytes(&committer, refname, commit, message)?))
            .collect::<Result<_>>()?;
        Ok((ids, self.write_pack(pack)?))
    }
}

fn tag_bytes(committer: &Signature, refname: &str, commit: &CommitId, message: &str) -> Result<Vec<u8>> {
    let tag = gix::objs::Tag {
        target: object_id(commit)?,
        target_kind: Kind::Commit,
        name: refname.strip_prefix("refs/").unwrap_or(refname).into(),
        tagger: Some(committer.clone()),
        message: with_line_end(message).into(),
        signature: None,
    };
    let mut bytes = Vec::new();
    tag.write_to(&mut bytes).during(WRITING)?;
    Ok(bytes)
}

/// Reads the annotated tag that the ref `name` leads to; nothing when it is something else.
fn read_tag(objects: &Handle, name: &str, id: &str, buffer: &mut Vec<u8>) -> Result<Option<TagObject>> {
    const WHAT: &str = "reading a record";
    let id = parse_id(id)?;
    let kind = read_of_store(objects, |objects| Ok(objects.find(&id, buffer).during(WHAT)?.kind))?;
    if kind != Kind::Tag {
        return Ok(None);
    }
    let tag = TagRef::from_bytes(buffer, id.kind()).during(WHAT)?;
    let message = tag.message.to_str_lossy().into_owned();
    let is_on_commit = tag.target_kind == Kind::Commit;
    Ok(is_on_commit.then(|| TagObject { name: name.to_owned(), commit: commit_id(tag.target()), message }))
}

const WHAT: &str = "writing a pack";

/// Content of a `.keep` file that `ar` writes.
const MARK: &[u8] = b"autoresearch\n";

/// From this offset on, an index names a place in a pack by eight bytes in a table of their own.
const FAR: u64 = 1 << 31;

/// A pack in memory.
pub(super) struct Pack {
    bytes: Vec<u8>,
    entries: Vec<PackEntry>,
    encoder: ZlibEncoder<Vec<u8>>,
}

struct PackEntry {
    id: ObjectId,
    offset: u64,
    crc: u32,
}

/// Keeps a pack from `git gc` until it is dropped.
#[derive(Debug)]
pub(in crate::git) struct KeptPack {
    path: PathBuf,
    _lock: File,
}

impl Drop for KeptPack {
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
        self.entries.push(PackEntry { id, offset: start as u64, crc: crc.sum() });
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
        for PackEntry { offset, .. } in &self.entries {
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
    pub(super) fn write_pack(&self, pack: Pack) -> Result<KeptPack> {
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
fn keep(path: PathBuf) -> Result<KeptPack> {
    let mut lock = OpenOptions::new().write(true).create_new(true).open(&path).at("writing", &path)?;
    if !lock_within(&lock, GLANCE).at("locking", &path)? {
        return Err(ErrorKind::WouldBlock.into()).at("locking", &path);
    }
    let kept = lock.write_all(MARK).and_then(|()| lock.sync_all()).at("writing", &path);
    let guard = KeptPack { path, _lock: lock };
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
