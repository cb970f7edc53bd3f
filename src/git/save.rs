//! Saving uncommitted changes before anything is cleared away.

use std::collections::BTreeSet;
use std::path::PathBuf;

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice};
use gix::refs::transaction::{PreviousValue, RefEdit};

use super::error::During;
use super::index::Version;
use super::path::{commit_id, object_id, parse_id, to_path};
use super::plan::Plan;
use super::{Repo, Result, Untracked, refs};
use crate::crash;
use crate::domain::CommitId;

/// How uncommitted changes are saved.
#[derive(Debug, Clone)]
pub struct SaveAs {
    /// The folder of the session's refs, `refs/autoresearch/nov20`; the changes go to `saved/00000` and on below it.
    pub prefix: String,
    /// The commit that the working tree should be at: what differs from it is a change.
    pub expected: CommitId,
    /// The message of the commit that holds the changes, one line.
    pub subject: String,
}

/// Where uncommitted changes were saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// The ref of a commit on the expected one, with the changes as they were in the working tree. Where other content
    /// was staged, its second parent holds that.
    pub reference: String,
    /// The files, relative to the working tree, sorted.
    pub paths: Vec<PathBuf>,
}

impl Repo {
    /// Saves every uncommitted change to a tracked file, and every untracked file or folder that stands where the
    /// expected commit has a file, under a ref of its own. Nothing when there is none. Index and working tree are as
    /// before.
    pub fn save(&self, save: &SaveAs) -> Result<Option<Saved>> {
        let expected = self.tree_id(&save.expected)?;
        let plan = self.plan(&*self.index()?, (expected, expected), &Untracked::default(), None)?;
        self.save_plan(&plan, save)
    }

    pub(super) fn save_plan(&self, plan: &Plan, save: &SaveAs) -> Result<Option<Saved>> {
        if plan.save.is_empty() && plan.save_staged.is_empty() {
            return Ok(None);
        }
        let mut paths: Vec<PathBuf> =
            plan.save.keys().chain(plan.save_staged.keys()).map(|path| to_path(path.as_ref())).collect();
        paths.sort();
        paths.dedup();
        let folder = format!("{}/saved", save.prefix.trim_end_matches('/'));
        let taken = self.refs_under(&folder)?;
        // A save that was cut short after this point is found again, so that nothing is saved twice.
        if let Some((reference, id)) = taken.last()
            && self.holds(parse_id(id)?, plan, &save.expected)?
        {
            return Ok(Some(Saved { reference: reference.clone(), paths }));
        }
        let reference = next_reference(&folder, &taken);

        let base = object_id(&save.expected)?;
        let base_tree = self.tree_id(&save.expected)?;
        let mut parents = vec![base];
        let mut written = plan.written.clone();
        if !plan.save_staged.is_empty() {
            let staged = plan.save_staged.iter().map(|(path, version)| (path, Some(*version)));
            let tree = self.edited_tree(base_tree, staged, &mut written)?;
            let commit = self.write_commit(tree, vec![base], &format!("{} (staged)", save.subject), false)?;
            written.push(commit);
            parents.push(commit);
        }
        let changes = plan.save.iter().map(|(path, version)| (path, *version));
        let tree = self.edited_tree(base_tree, changes, &mut written)?;
        let commit = self.write_commit(tree, parents, &save.subject, false)?;
        written.push(commit);
        self.sync_objects(written)?;
        crash::point("git.changes_written");
        self.create_saved(&reference, commit)?;
        Ok(Some(Saved { reference, paths }))
    }

    /// Keeps a commit reachable that nothing else names, and gives the ref: a commit of `save.subject` with the same
    /// tree on it, so that the ref's message is one line whatever the commit's own is.
    pub fn save_commit(&self, save: &SaveAs, commit: &CommitId) -> Result<String> {
        let folder = format!("{}/saved", save.prefix.trim_end_matches('/'));
        let reference = next_reference(&folder, &self.refs_under(&folder)?);
        let kept = self.write_commit(self.tree_id(commit)?, vec![object_id(commit)?], &save.subject, false)?;
        self.sync_objects([kept])?;
        crash::point("git.kept_written");
        self.create_saved(&reference, kept)?;
        Ok(reference)
    }

    fn create_saved(&self, reference: &str, commit: ObjectId) -> Result<()> {
        let name = refs::full_name(reference)?;
        self.edit_refs([RefEdit::update(name, commit, PreviousValue::MustNotExist, "")])?;
        self.sync_ref(reference)?;
        crash::point("git.saved");
        Ok(())
    }

    /// A tree with some files changed or removed. A file takes the place of a folder, and a folder that of a file.
    fn edited_tree<'a>(
        &self,
        base: ObjectId,
        changes: impl Iterator<Item = (&'a BString, Option<Version>)>,
        written: &mut Vec<ObjectId>,
    ) -> Result<ObjectId> {
        const WHAT: &str = "writing a tree";
        let gix = self.writing_through();
        let mut editor = gix.edit_tree(base).during(WHAT)?;
        let (removed, set): (Vec<_>, Vec<_>) = changes.partition(|(_, version)| version.is_none());
        let mut folders = BTreeSet::new();
        for (path, _) in removed.iter().chain(&set) {
            folders.extend(path.find_iter("/").map(|slash| BString::from(&path[..slash])));
        }
        for (path, _) in removed {
            editor.remove(path.as_bstr()).during(WHAT)?;
        }
        for (path, version) in set {
            let Some((mode, id)) = version else { continue };
            let Some(mode) = mode.to_tree_entry_mode() else { continue };
            editor.upsert(path.as_bstr(), mode.kind(), id).during(WHAT)?;
        }
        let tree = editor.write().during(WHAT)?.detach();
        written.push(tree);
        for folder in folders {
            written.extend(self.folder_in(tree, folder.as_ref())?);
        }
        Ok(tree)
    }

    /// Whether a commit on `expected` has all that is to be saved.
    fn holds(&self, commit: ObjectId, plan: &Plan, expected: &CommitId) -> Result<bool> {
        let commit = commit_id(commit);
        let parents = self.parents(&commit)?;
        if parents.first() != Some(expected) {
            return Ok(false);
        }
        let tree = self.tree_id(&commit)?;
        for (path, version) in &plan.save {
            if self.version_in(tree, path.as_ref())? != *version {
                return Ok(false);
            }
        }
        if plan.save_staged.is_empty() {
            return Ok(true);
        }
        let Some(staged) = parents.get(1) else { return Ok(false) };
        let tree = self.tree_id(staged)?;
        for (path, version) in &plan.save_staged {
            if self.version_in(tree, path.as_ref())? != Some(*version) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The first number after those that are taken.
fn next_reference(folder: &str, taken: &[(String, String)]) -> String {
    let number = |name: &str| name.rsplit('/').next().and_then(|last| last.parse::<u32>().ok());
    let next = taken.iter().filter_map(|(name, _)| number(name)).max().map_or(0, |last| last.saturating_add(1));
    format!("{folder}/{next:05}")
}
