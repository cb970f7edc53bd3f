//! Reading annotated tags: one, or all of a session on all cores.

use std::fs::OpenOptions;
use std::io::Read;
use std::num::NonZero;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use flate2::{Decompress, FlushDecompress, Status};
use gix::bstr::ByteSlice;
use gix::objs::{FindExt, Kind, TagRef};

use super::error::During;
use super::path::{commit_id, parse_id};
use super::{Repo, Result, TagObject};

/// How many tags are worth a thread of their own: reading them takes about a millisecond.
const WORTH_A_THREAD: usize = 100;

/// How many threads read at most: what they wait for is the file system, which more do not make faster.
const THREADS: usize = 8;

/// The size in bytes up to which an object is read without gix, compressed or not. Records have about 2 KB.
const SMALL: usize = 64 * 1024;

impl Repo {
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

    /// Does what [`Repo::read_tags`] does, with what became of each ref, by name.
    pub fn each_tag<T: Send>(
        &self,
        refs: &[(String, String)],
        make: impl Fn(&str, Result<Option<TagObject>>) -> T + Sync,
    ) -> Vec<T> {
        let cores = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS);
        let threads = cores.min(refs.len().div_ceil(WORTH_A_THREAD)).max(1);
        let read = |refs: &[(String, String)], mut reader: TagReader| -> Vec<T> {
            refs.iter().map(|(name, id)| make(name, reader.read(name, id))).collect()
        };
        let mut parts = refs.chunks(refs.len().div_ceil(threads).max(1));
        let first = parts.next().unwrap_or_default();
        thread::scope(|scope| {
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
        })
    }

    /// The annotated tag of a name, which a ref leads to or has lost; nothing when it is something else.
    pub fn tag_object(&self, refname: &str, id: &str) -> Result<Option<TagObject>> {
        TagReader::new(self).read(refname, id)
    }
}

/// Reads tags one after another.
struct TagReader {
    objects: gix::OdbHandle,
    loose: LooseTags,
    buffer: Vec<u8>,
}

impl TagReader {
    fn new(repo: &Repo) -> TagReader {
        let objects = repo.gix.objects.clone();
        let loose = LooseTags::new(objects.store_ref().path());
        TagReader { objects, loose, buffer: Vec::new() }
    }

    fn read(&mut self, name: &str, id: &str) -> Result<Option<TagObject>> {
        const WHAT: &str = "reading a record";
        let id = parse_id(id)?;
        let data = match self.loose.read(&id) {
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
    root: PathBuf,
    decompressor: Decompress,
    file: Vec<u8>,
    content: Vec<u8>,
}

impl LooseTags {
    fn new(root: &Path) -> LooseTags {
        let (file, content) = (vec![0; SMALL], Vec::with_capacity(SMALL));
        LooseTags { root: root.to_owned(), decompressor: Decompress::new(true), file, content }
    }

    /// What a tag object holds; nothing where gix has to say what there is.
    fn read(&mut self, id: &gix::ObjectId) -> Option<&[u8]> {
        let hex = id.to_string();
        let path = self.root.join(&hex[..2]).join(&hex[2..]);
        // A pipe in its place holds nothing up, and nothing is read of it.
        let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
        let length = file.read(&mut self.file).ok()?;
        self.decompressor.reset(true);
        self.content.clear();
        let compressed = &self.file[..length];
        let status = self.decompressor.decompress_vec(compressed, &mut self.content, FlushDecompress::Finish).ok()?;
        let (header, content) = self.content.split_once_str("\0")?;
        let is_whole = status == Status::StreamEnd && header == format!("tag {}", content.len()).as_bytes();
        is_whole.then_some(content)
    }
}
