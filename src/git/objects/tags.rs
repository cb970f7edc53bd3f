//! Annotated tags: writing one, and reading one, or all of a session on all cores.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread;

use gix::ObjectId;
use gix::actor::Signature;
use gix::bstr::ByteSlice;
use gix::objs::{FindExt, Kind, TagRef, WriteTo};
use gix::odb::Handle;

use super::afresh::read_of_store;
use super::commits::with_line_end;
use super::identity::identity;
use super::pack::{Kept, Pack};
use super::store::Objects;
use crate::domain::CommitId;
use crate::git::error::{During, Result};
use crate::git::path::{commit_id, object_id, parse_id};

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
    pub(in crate::git) fn write_tags(&self, tags: &[(String, CommitId, String)]) -> Result<(Vec<ObjectId>, Kept)> {
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
