//! Notes on commits, stored as by `git notes`.

use std::collections::BTreeMap;

use gix::ObjectId;
use gix::bstr::ByteSlice;
use gix::note::plumbing::State;
use gix::refs::Target;
use gix::refs::transaction::{PreviousValue, RefEdit};

use super::store::{Refs, full_name};
use crate::domain::CommitId;
use crate::git::error::{During, Result};
use crate::git::path::{object_id, parse_id};

/// The most tries to add a note while other processes add theirs.
const TRIES: u32 = 50;

/// The notes under one ref: `git log --notes=NAME` shows them, `git notes --ref=NAME` reads and edits them.
pub struct Notes<'a> {
    refs: &'a Refs,
    name: &'a str,
}

impl<'a> Notes<'a> {
    /// The notes under the ref `name`.
    pub fn new(refs: &'a Refs, name: &'a str) -> Notes<'a> {
        Notes { refs, name }
    }

    /// The notes on these commits, of those that have one.
    pub fn on<'c>(&self, commits: impl IntoIterator<Item = &'c CommitId>) -> Result<BTreeMap<CommitId, String>> {
        const WHAT: &str = "reading notes";
        let mut found = BTreeMap::new();
        let Some(tip) = self.tip()? else { return Ok(found) };
        let mut state = self.at(Some(tip))?;
        for commit in commits {
            if let Some(id) = state.get(&object_id(commit)?, &self.refs.gix).during(WHAT)? {
                let text = self.refs.objects.blob(id)?.to_str_lossy().into_owned();
                found.insert(commit.clone(), text);
            }
        }
        Ok(found)
    }

    /// Adds a line at the end of the note on a commit, and keeps lines that other processes add at the same moment.
    /// When this returns, the note is on disk.
    pub fn add(&self, commit: &CommitId, line: &str) -> Result<()> {
        self.edit(commit, |mut text| {
            if !text.is_empty() && !text.ends_with(b"\n") {
                text.push(b'\n');
            }
            text.extend_from_slice(line.as_bytes());
            text.push(b'\n');
            text
        })
    }

    /// Changes the note on a commit, which is empty where there is none. When somebody else changes notes in the same moment,
    /// `change` is called again with what is there then. When this returns, the note is on disk.
    pub fn edit(&self, commit: &CommitId, change: impl Fn(Vec<u8>) -> Vec<u8>) -> Result<()> {
        const WHAT: &str = "writing a note";
        let object = object_id(commit)?;
        for tries in 1.. {
            let tip = self.tip()?;
            let mut state = self.at(tip)?;
            let text = match state.get(&object, &self.refs.gix).during(WHAT)? {
                Some(known) => self.refs.objects.blob(known)?,
                None => Vec::new(),
            };
            let text = change(text);
            let gix = self.refs.objects.writing_through();
            let blob = gix.write_blob(&text).during(WHAT)?.detach();
            let tree = state.replace(object, blob, &gix).during(WHAT)?.tree;
            let message = format!("ar note on {}", commit.short(12));
            let noted = self.refs.objects.write_commit(tree, tip.into_iter().collect(), &message, false)?;
            self.refs.objects.sync(self.trees_of(tree)?.into_iter().chain([blob, tree, noted]))?;
            let before = match tip {
                Some(tip) => PreviousValue::MustExistAndMatch(Target::Object(tip)),
                None => PreviousValue::MustNotExist,
            };
            match self.refs.edit_refs([RefEdit::update(full_name(self.name)?, noted, before, "notes: added by ar")]) {
                Err(_) if tries < TRIES && self.tip()? != tip => {}
                edited => return edited.and_then(|()| self.refs.sync_ref(self.name)),
            }
        }
        Ok(())
    }

    fn tip(&self) -> Result<Option<ObjectId>> {
        self.refs.branch(self.name)?.map(|tip| parse_id(tip.as_str())).transpose()
    }

    fn at(&self, tip: Option<ObjectId>) -> Result<State> {
        const WHAT: &str = "reading notes";
        self.refs.objects.read(|gix| {
            let tree = match tip {
                Some(tip) => gix.find_commit(tip).during(WHAT)?.tree_id().during(WHAT)?.detach(),
                None => gix.empty_tree().id,
            };
            State::new(tree, gix).during(WHAT)
        })
    }

    /// The trees directly below a tree: the folders of many notes.
    fn trees_of(&self, tree: ObjectId) -> Result<Vec<ObjectId>> {
        self.refs.objects.read(|gix| {
            let tree = gix.find_tree(tree).during("reading notes")?;
            let entries = tree.iter().filter_map(Result::ok);
            Ok(entries.filter(|entry| entry.mode().is_tree()).map(|entry| entry.object_id()).collect())
        })
    }
}
