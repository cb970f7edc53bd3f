//! Annotated tags: writing one, and reading one, or all of a session on all cores.

use std::num::NonZero;
use std::path::Path;
use std::thread;

use flate2::{Decompress, FlushDecompress, Status};
use gix::ObjectId;
use gix::bstr::ByteSlice;
use gix::objs::{FindExt, Kind, TagRef, WriteTo};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};

use super::commits::with_line_end;
use super::identity::identity;
use super::packed_tags::{LastRead, order_in_pack};
use super::store::Objects;
use crate::domain::CommitId;
use crate::git::error::{During, Result};
use crate::git::path::{commit_id, object_id, parse_id};

/// How many tags are worth a thread of their own: reading them takes about a millisecond.
const WORTH_A_THREAD: usize = 100;

/// How many threads read at most: what they wait for is the file system, which more do not make faster.
const THREADS: usize = 8;

/// The size in bytes up to which an object is read without gix, compressed or not. Records have about 2 KB.
const SMALL: usize = 64 * 1024;

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
        let cores = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS);
        let threads = cores.min(refs.len().div_ceil(WORTH_A_THREAD)).max(1);
        let packed = if refs.len() > WORTH_A_THREAD { order_in_pack(&self.gix, refs) } else { None };
        let is_sorted = packed.is_none();
        let order = packed.unwrap_or_else(|| (0..refs.len()).map(|at| (at, false)).collect());
        let read = |order: &[(usize, bool)], mut reader: TagReader| -> Vec<T> {
            let refs = order.iter().map(|(at, is_packed)| (&refs[*at], is_packed));
            refs.map(|((name, id), is_packed)| make(name, reader.read(name, id, *is_packed))).collect()
        };
        let mut parts = order.chunks(order.len().div_ceil(threads).max(1));
        let first = parts.next().unwrap_or_default();
        let mut all = thread::scope(|scope| {
            let others: Vec<_> = parts
                .map(|part| {
                    let (read, reader) = (&read, TagReader::new(self));
                    scope.spawn(move || read(part, reader))
                })
                .collect();
            let mut all = read(first, TagReader::new(self));
            for other in others {
                all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            all
        });
        if !is_sorted {
            let mut placed: Vec<Option<T>> = refs.iter().map(|_| None).collect();
            order.iter().zip(all).for_each(|((at, _), made)| placed[*at] = Some(made));
            all = placed.into_iter().flatten().collect();
        }
        all
    }

    /// The annotated tag of a name, which a ref leads to or has lost; nothing when it is something else.
    pub fn tag_object(&self, refname: &str, id: &str) -> Result<Option<TagObject>> {
        TagReader::new(self).read(refname, id, false)
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
        const WHAT: &str = "writing a record";
        let tag = gix::objs::Tag {
            target: object_id(commit)?,
            target_kind: Kind::Commit,
            name: refname.strip_prefix("refs/").unwrap_or(refname).into(),
            tagger: Some(identity(&self.gix)?.committer),
            message: with_line_end(message).into(),
            signature: None,
        };
        let mut bytes = Vec::new();
        tag.write_to(&mut bytes).during(WHAT)?;
        self.write_bytes(Kind::Tag, &bytes, false, WHAT)
    }
}

/// Reads tags one after another.
struct TagReader {
    objects: gix::odb::Handle,
    loose: LooseTags,
    buffer: Vec<u8>,
}

impl TagReader {
    fn new(objects: &Objects) -> TagReader {
        let mut objects = objects.on_disk().clone();
        objects.set_pack_cache(|| Box::new(LastRead::default()));
        let loose = LooseTags::new(objects.store_ref().path());
        TagReader { objects, loose, buffer: Vec::new() }
    }

    /// Reads the object of a ref, which is looked for among those with files of their own first unless it `is_packed`.
    fn read(&mut self, name: &str, id: &str, is_packed: bool) -> Result<Option<TagObject>> {
        const WHAT: &str = "reading a record";
        let id = parse_id(id)?;
        let loose = if is_packed { None } else { self.loose.read(&id) };
        let data = match loose {
            Some(data) => data,
            None => {
                let object = self.objects.find(&id, &mut self.buffer).during(WHAT)?;
                if object.kind != Kind::Tag {
                    return Ok(None);
                }
                object.data
            }
        };
        let tag = TagRef::from_bytes(data, id.kind()).during(WHAT)?;
        if tag.target_kind != Kind::Commit {
            return Ok(None);
        }
        let message = tag.message.to_str_lossy().into_owned();
        Ok(Some(TagObject { name: name.to_owned(), commit: commit_id(tag.target()), message }))
    }
}

/// Reads tag objects that have a file of their own. gix looks for each first, maps it, and makes a new decompressor, which
/// takes twice as long.
struct LooseTags {
    /// The folder of the objects; absent where it cannot be opened.
    root: Option<OwnedFd>,
    decompressor: Decompress,
    file: Vec<u8>,
    content: Vec<u8>,
}

impl LooseTags {
    fn new(root: &Path) -> LooseTags {
        let (file, content) = (vec![0; SMALL], Vec::with_capacity(SMALL));
        let root = rustix::fs::open(root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok();
        LooseTags { root, decompressor: Decompress::new(true), file, content }
    }

    /// What a tag object holds; nothing where gix has to say what there is.
    fn read(&mut self, id: &ObjectId) -> Option<&[u8]> {
        let hex = id.to_string();
        let path = format!("{}/{}", &hex[..2], &hex[2..]);
        // A pipe in its place holds nothing up, and nothing is read of it.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self.root.as_ref()?, path, flags, Mode::empty()).ok()?;
        let length = rustix::io::read(&file, &mut self.file[..]).ok()?;
        self.decompressor.reset(true);
        self.content.clear();
        let compressed = &self.file[..length];
        let status = self.decompressor.decompress_vec(compressed, &mut self.content, FlushDecompress::Finish).ok()?;
        let (header, content) = self.content.split_once_str("\0")?;
        let is_whole = status == Status::StreamEnd && header == format!("tag {}", content.len()).as_bytes();
        is_whole.then_some(content)
    }
}
