//! The checks on a change before it runs, and on what its run left.

use std::path::{Path, PathBuf};

use crate::domain::{CommitId, ExperimentId, Failure, FailureClass, Fingerprint, Notice, bytes_text};
use crate::git::{ChangeKind, ChangedPath, Diff, EntryKind, Look, TooLarge};
use crate::rules::{FileEdit, FileTerms, Forbidden, fingerprint, is_same_change, measured_before};
use crate::score::source_id;
use crate::session::errors::SessionError;
use crate::session::store::Store;
use crate::session::tree::Workspace;
use crate::state::OpenExperiment;

impl Workspace {
    /// Looks at the change that an experiment's commit makes, and notes what tells it from others and, where that is so, why
    /// it is not run. Files that are `too_large` and what else was `found` are no part of the commit.
    pub(crate) fn check(
        &self,
        store: &Store,
        open: &mut OpenExperiment,
        commit: &CommitId,
        too_large: &[TooLarge],
        found: &Forbidden,
    ) -> Result<(), SessionError> {
        let diff = store.repo.objects.diff_text(&open.base, commit)?;
        let change = fingerprint(store.repo.objects.tree_of(commit)?, &diff);
        let edits = edits(store, &self.file_terms, &open.base, commit)?;
        let mut found = found.clone();
        found.protected.extend(self.taken_ids(store, commit, &edits)?);
        open.refused = match self.file_terms.refuse(&edits, &found) {
            None if !too_large.is_empty() => {
                let lines =
                    too_large.iter().map(|file| format!("{} has {}", file.path.display(), bytes_text(file.size)));
                Some(Failure::new(FailureClass::TooLarge, lines.collect::<Vec<_>>().join("\n")))
            }
            // One that comes so far was asked for another direction before.
            None if open.versions.is_empty()
                && let Some(direction) = repeated_direction(store, open.direction.as_deref(), open.seat) =>
            {
                Some(Failure::new(FailureClass::Repeated, direction))
            }
            None if !store.contract.allow_repeats => {
                let measured = measured_before(&store.history, &change, &open.base);
                let measured = measured.map(|it| format!("experiment {}, {}: {}", it.id, it.outcome, it.reason));
                let excerpt = measured.or_else(|| {
                    let other = open_elsewhere(store, open.id, &change, &open.base)?;
                    Some(format!("experiment {other}, which is open"))
                });
                excerpt.map(|excerpt| Failure::new(FailureClass::Duplicate, excerpt))
            }
            refused => refused,
        };
        open.fingerprint = Some(change);
        Ok(())
    }

    /// The new sources of a change whose id another source has, each with the reason to refuse it: neither could be cited, and
    /// a stored source is never removed.
    fn taken_ids(&self, store: &Store, commit: &CommitId, edits: &[FileEdit]) -> Result<Vec<String>, SessionError> {
        let Some(folder) = self.file_terms.sources() else { return Ok(Vec::new()) };
        let stored = store.repo.objects.files_below(commit, folder)?;
        let new = edits.iter().filter(|edit| edit.is_new && edit.path.starts_with(folder));
        let taken = new.filter_map(|edit| {
            let id = source_id(&edit.path)?;
            let other = stored.iter().find(|path| **path != edit.path && source_id(path).as_ref() == Some(&id))?;
            let (path, other) = (edit.path.display(), other.display());
            Some(format!("{path} has the id of {other}; give it another name"))
        });
        Ok(taken.collect())
    }

    /// The tracked files that are no longer as the commit has them that was checked out, with the look at the tree unless
    /// something else is checked out.
    pub(crate) fn changed_meanwhile(&self, commit: &CommitId) -> Result<(Vec<PathBuf>, Option<Look>), SessionError> {
        if self.repo.refs.head()?.commit() != Some(commit) {
            // Somebody has checked something else out.
            let change = self.repo.working_tree.propose(commit, &self.known_untracked()?)?;
            let tracked = change.paths().iter().filter(|changed| changed.kind != ChangeKind::Added);
            return Ok((tracked.map(|changed| changed.path.clone()).collect(), None));
        }
        let look = self.repo.working_tree.look()?;
        let changes = self.repo.working_tree.changes_seen(&look)?;
        Ok((changes.tracked_paths(), Some(look)))
    }
}

/// Checks an attempt again that another process has checked: who can write into the journal can take away that it was
/// refused. Returns whether it is refused now.
pub(crate) fn check_again(
    store: &mut Store,
    terms: &FileTerms,
    open: &mut OpenExperiment,
) -> Result<bool, SessionError> {
    let Some(commit) = open.commit.as_ref().filter(|_| open.refused.is_none() && !open.id.is_baseline()) else {
        return Ok(false);
    };
    // The other terms may have changed since.
    let is_fixed = |failure: &Failure| matches!(failure.class, FailureClass::Protected | FailureClass::Scope);
    let edits = edits(store, terms, &open.base, commit)?;
    let Some(refused) = terms.refuse(&edits, &Forbidden::default()).filter(is_fixed) else { return Ok(false) };
    store.note(Notice::NotToRun { id: open.id, why: refused.excerpt.replace('\n', ", ") });
    open.refused = Some(refused);
    Ok(true)
}

/// The direction that a change made in a seat names although it was tried and a new one was asked for.
pub(crate) fn repeated_direction(store: &Store, direction: Option<&str>, seat: Option<u32>) -> Option<String> {
    store.journal.ladder.repeated_direction(&store.contract, &store.history, direction, seat)
}

/// The attempt that is open beside this one with the same change.
fn open_elsewhere(store: &Store, id: ExperimentId, change: &Fingerprint, base: &CommitId) -> Option<ExperimentId> {
    let mut others = store.journal.open_attempts().filter(|other| other.id != id && other.commit.is_some());
    let is_same = |other: &&OpenExperiment| {
        other.fingerprint.as_ref().is_some_and(|known| is_same_change((known, &other.base), (change, base)))
    };
    others.find(is_same).map(|other| other.id)
}

/// The files that change from `base` to `commit`.
pub(crate) fn edits(
    store: &Store,
    terms: &FileTerms,
    base: &CommitId,
    commit: &CommitId,
) -> Result<Vec<FileEdit>, SessionError> {
    let is_read = terms.counts_lines() || terms.counts_totals();
    let diff = is_read.then(|| store.repo.objects.diff(base, commit)).transpose()?;
    let counted = diff.as_ref().filter(|_| terms.counts_lines()).map(Diff::file_stats).unwrap_or_default();
    let lines = |path: &Path| {
        let stat = counted.iter().find(|(counted, _)| counted == path);
        stat.map_or(0, |(_, stat)| stat.added.saturating_add(stat.deleted))
    };
    let totals = diff.as_ref().map(Diff::file_totals).unwrap_or_default();
    let total = |path: &Path| totals.iter().find(|(known, _)| known == path).map_or(0, |(_, total)| *total);
    let changed = store.repo.objects.changed_between(base, commit)?;
    let edits = changed.into_iter().map(|ChangedPath { path, kind, entry, size }| FileEdit {
        lines: lines(&path),
        total: total(&path),
        path,
        is_new: kind == ChangeKind::Added,
        is_opaque: kind != ChangeKind::Deleted && entry != EntryKind::File,
        size,
    });
    Ok(edits.collect())
}
