//! Notes on commits, as `git notes` keeps them.

use std::collections::BTreeMap;

use gix::ObjectId;
use gix::bstr::ByteSlice;
use gix::note::plumbing::State;
use gix::refs::Target;
use gix::refs::transaction::{PreviousValue, RefEdit};

use super::error::During;
use super::path::{object_id, parse_id};
use super::{Repo, Result, refs};
use crate::domain::CommitId;

/// The ref of the notes: `git log --notes=autoresearch` shows them, `git notes --ref=autoresearch` reads and edits them.
pub const NOTES: &str = "refs/notes/autoresearch";

/// How often a note is added anew when somebody else adds one in the same moment.
const TRIES: u32 = 50;

impl Repo {
    /// The notes on these commits, of those that have one.
    pub fn notes<'a>(&self, commits: impl IntoIterator<Item = &'a CommitId>) -> Result<BTreeMap<CommitId, String>> {
        const WHAT: &str = "reading notes";
        let mut found = BTreeMap::new();
        let Some(tip) = self.notes_tip()? else { return Ok(found) };
        let mut state = self.notes_at(Some(tip))?;
        for commit in commits {
            if let Some(id) = state.get(&object_id(commit)?, &self.gix).during(WHAT)? {
                let text = self.gix.find_blob(id).during(WHAT)?.data.to_str_lossy().into_owned();
                found.insert(commit.clone(), text);
            }
        }
        Ok(found)
    }

    /// Adds a line at the end of the note on a commit. What others add in the same moment is there as well. When this
    /// returns, the note is on disk.
    pub fn add_to_note(&self, commit: &CommitId, line: &str) -> Result<()> {
        const WHAT: &str = "writing a note";
        let object = object_id(commit)?;
        for tries in 1.. {
            let tip = self.notes_tip()?;
            let mut state = self.notes_at(tip)?;
            let mut text = match state.get(&object, &self.gix).during(WHAT)? {
                Some(known) => self.gix.find_blob(known).during(WHAT)?.take_data(),
                None => Vec::new(),
            };
            if !text.is_empty() && !text.ends_with(b"\n") {
                text.push(b'\n');
            }
            text.extend_from_slice(line.as_bytes());
            text.push(b'\n');
            let gix = self.writing_through();
            let blob = gix.write_blob(&text).during(WHAT)?.detach();
            let tree = state.replace(object, blob, &gix).during(WHAT)?.tree;
            let message = format!("ar note on {}", commit.short(12));
            let noted = self.write_commit(tree, tip.into_iter().collect(), &message, false)?;
            self.sync_objects(self.trees_of(tree)?.into_iter().chain([blob, tree, noted]))?;
            let before = match tip {
                Some(tip) => PreviousValue::MustExistAndMatch(Target::Object(tip)),
                None => PreviousValue::MustNotExist,
            };
            match self.edit_refs([RefEdit::update(refs::full_name(NOTES)?, noted, before, "notes: added by ar")]) {
                Err(_) if tries < TRIES && self.notes_tip()? != tip => {}
                edited => return edited.and_then(|()| self.sync_ref(NOTES)),
            }
        }
        Ok(())
    }

    fn notes_tip(&self) -> Result<Option<ObjectId>> {
        self.branch(NOTES)?.map(|tip| parse_id(tip.as_str())).transpose()
    }

    fn notes_at(&self, tip: Option<ObjectId>) -> Result<State> {
        const WHAT: &str = "reading notes";
        let tree = match tip {
            Some(tip) => self.gix.find_commit(tip).during(WHAT)?.tree_id().during(WHAT)?.detach(),
            None => self.gix.empty_tree().id,
        };
        State::new(tree, &self.gix).during(WHAT)
    }

    /// The trees directly below a tree: the folders of many notes.
    fn trees_of(&self, tree: ObjectId) -> Result<Vec<ObjectId>> {
        let tree = self.gix.find_tree(tree).during("reading notes")?;
        let entries = tree.iter().filter_map(Result::ok);
        Ok(entries.filter(|entry| entry.mode().is_tree()).map(|entry| entry.object_id()).collect())
    }
}
