//! Records: annotated tag objects under refs of their own.

use gix::ObjectId;
use gix::objs::{Kind, WriteTo};
use gix::refs::FullName;
use gix::refs::transaction::{PreviousValue, RefEdit};

use super::error::During;
use super::path::{object_id, parse_id};
use super::{GitError, Repo, Result, refs, sync};
use crate::crash;
use crate::domain::CommitId;
use crate::fs::Unsynced;

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

/// A record whose tag is written, and that no ref leads to yet.
#[derive(Debug)]
pub struct PreparedRecord {
    name: FullName,
    id: ObjectId,
    previous: PreviousValue,
}

impl Repo {
    /// Writes an annotated tag on `commit` under the new ref `refname`, as the committer. When this returns, object
    /// and ref are on disk. [`GitError::RefExists`] when the ref is there, whatever it names.
    pub fn write_record(&self, refname: &str, commit: &CommitId, message: &str) -> Result<()> {
        let (tag, unsynced) = self.prepare_record(refname, commit, message, None)?;
        sync::now(unsynced)?;
        self.place_record(tag)
    }

    /// Does the first half of [`Repo::write_record`]: writes the tag, and gives what is to be synced before
    /// [`Repo::place_record`]. The ref must be a new one, or lead to the object that it `replaces`.
    pub fn prepare_record(
        &self,
        refname: &str,
        commit: &CommitId,
        message: &str,
        replaces: Option<&str>,
    ) -> Result<(PreparedRecord, Unsynced)> {
        let name = refs::full_name(refname)?;
        let previous = match replaces {
            Some(old) => PreviousValue::ExistingMustMatch(parse_id(old)?.into()),
            None if self.gix.try_find_reference(name.as_ref()).during("reading a ref")?.is_some() => {
                return Err(GitError::RefExists(refname.to_owned()));
            }
            None => PreviousValue::MustNotExist,
        };
        let id = self.write_tag(refname, commit, message)?;
        Ok((PreparedRecord { name, id, previous }, self.unsynced_objects([id])))
    }

    /// Does the second half: makes the ref lead to the tag, which is on the disk.
    pub fn place_record(&self, PreparedRecord { name, id, previous }: PreparedRecord) -> Result<()> {
        crash::point("git.tag_written");
        let refname = name.as_bstr().to_string();
        self.edit_refs([RefEdit::update(name, id, previous, "")])?;
        self.sync_ref(&refname)
    }

    /// The object that a ref leads to, in hexadecimal; nothing when there is no such ref.
    pub fn ref_object(&self, refname: &str) -> Result<Option<String>> {
        let name = refs::full_name(refname)?;
        let found = self.gix.try_find_reference(name.as_ref()).during("reading a ref")?;
        Ok(found.and_then(|reference| reference.target().try_id().map(|id| id.to_string())))
    }

    /// Writes many records as [`Repo::write_record`] writes one, each as ref, commit and message: all of them, or none.
    /// An error where one of the refs is there and names something else.
    pub fn write_records(&self, records: &[(String, CommitId, String)]) -> Result<()> {
        let (mut ids, mut edits) = (Vec::new(), Vec::new());
        for (refname, commit, message) in records {
            let id = self.write_tag(refname, commit, message)?;
            ids.push(id);
            edits.push(RefEdit::update(refs::full_name(refname)?, id, PreviousValue::MustNotExist, ""));
        }
        self.sync_objects(ids)?;
        crash::point("git.tag_written");
        self.edit_refs_at_once(edits)?;
        records.first().map_or(Ok(()), |(refname, ..)| self.sync_ref(refname))
    }

    /// Writes the object of a record, not compressed: a record of 2 KB takes one block of the file system either way, and to
    /// decompress those of a session takes half the time of reading it.
    fn write_tag(&self, refname: &str, commit: &CommitId, message: &str) -> Result<ObjectId> {
        let mut message = message.to_owned();
        if !message.ends_with('\n') {
            message.push('\n');
        }
        let tag = gix::objs::Tag {
            target: object_id(commit)?,
            target_kind: Kind::Commit,
            name: refname.strip_prefix("refs/").unwrap_or(refname).into(),
            tagger: Some(self.identity()?.committer),
            message: message.into(),
            signature: None,
        };
        const WHAT: &str = "writing a record";
        let mut bytes = Vec::new();
        tag.write_to(&mut bytes).during(WHAT)?;
        self.write_with(Kind::Tag, &bytes, false, WHAT)
    }

    /// The annotated tag under a ref; nothing when there is no such ref, or it names something else.
    pub fn record(&self, refname: &str) -> Result<Option<TagObject>> {
        let name = refs::full_name(refname)?;
        let Some(reference) = self.gix.try_find_reference(name.as_ref()).during("reading a ref")? else {
            return Ok(None);
        };
        match reference.target().try_id() {
            Some(id) => self.tag_object(refname, &id.to_string()),
            None => Ok(None),
        }
    }

    /// Makes a ref lead to an object, whatever it leads to now; whether the repository has the object.
    pub fn put_ref(&self, refname: &str, object: &str) -> Result<bool> {
        let id = parse_id(object)?;
        if !self.gix.has_object(id) {
            return Ok(false);
        }
        self.edit_refs([RefEdit::update(refs::full_name(refname)?, id, PreviousValue::Any, "")])?;
        self.sync_ref(refname)?;
        Ok(true)
    }

    /// Writes an annotated tag on `commit` and makes the ref `refname` lead to it, whatever it leads to now.
    pub fn rewrite_record(&self, refname: &str, commit: &CommitId, message: &str) -> Result<()> {
        let id = self.write_tag(refname, commit, message)?;
        self.sync_objects([id])?;
        self.edit_refs([RefEdit::update(refs::full_name(refname)?, id, PreviousValue::Any, "")])?;
        self.sync_ref(refname)
    }

    /// Deletes a ref, whatever it leads to.
    pub fn drop_ref(&self, refname: &str) -> Result<()> {
        self.edit_refs([RefEdit::delete(refs::full_name(refname)?, PreviousValue::Any)])?;
        self.sync_ref(refname)
    }
}
