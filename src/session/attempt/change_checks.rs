//! The checks on a change before it runs, on what its run left, and on files that change while the run is active.

use std::path::{Path, PathBuf};

use super::lifecycle::Attempt;
use super::measuring::metric_file_of;
use crate::domain::{Actor, CommitId, ExperimentId, Failure, FailureClass, Fingerprint, Notice, bytes_text};
use crate::fs::{read_regular, write_unsynced};
use crate::git::{ChangeKind, ChangedPath, Diff, EntryKind, TooLarge, TreeStamps, WorktreeSnapshot};
use crate::measure::Verdict;
use crate::rules::{Disturbance, FileEdit, FileTerms, Forbidden, fingerprint, is_same_change, measured_before};
use crate::score::source_id;
use crate::session::errors::SessionError;
use crate::session::files::{SETTINGS_FILE, is_own};
use crate::session::store::{Store, TREE_BEFORE, commit_of};
use crate::session::tree::{Seen, Workspace, name_of};
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
    pub(crate) fn changed_meanwhile(
        &self,
        commit: &CommitId,
    ) -> Result<(Vec<PathBuf>, Option<WorktreeSnapshot>), SessionError> {
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

impl Workspace {
    /// Prepares the tree just before a run of `commit`: removes what earlier runs left in a slot, and restores protected files.
    pub(crate) fn make_ready(
        &mut self,
        store: &mut Store,
        id: ExperimentId,
        commit: &CommitId,
    ) -> Result<(), SessionError> {
        if self.owner.is_disposable() {
            self.clear_slot(store)?;
        }
        if let Some(file) = metric_file_of(&store.contract) {
            self.clear_folder_at(store, id, commit, &file)?;
        }
        self.restore_protected(store, id, commit)
    }

    /// Compares the tree after a run with the tree before it. Puts the failure into the verdict where protected files are not as
    /// they were.
    pub(crate) fn compare_after_run(
        &mut self,
        store: &mut Store,
        id: ExperimentId,
        commit: &CommitId,
        verdict: &mut Verdict,
    ) -> Result<Disturbance, SessionError> {
        let touched = self.protected_touched(store);
        if let Some(failure) = self.check_protected(store, id, commit, Actor::Run)? {
            verdict.failure = Some(failure);
        }
        let mut changed = self.changed_during_run(store, commit)?;
        self.settle_settings(store)?;
        if is_changed(verdict) {
            changed.extend(metric_file_of(&store.contract));
        }
        Ok(Disturbance { changed, touched })
    }

    /// Notes, just before a run starts, what the file system says of all tracked files; also in `folder`, if the run outlives
    /// this process.
    pub(crate) fn note_tree(&mut self, commit: &CommitId, folder: Option<&Path>) -> Result<(), SessionError> {
        let before = self.repo.working_tree.tracked_stamps(commit)?;
        if let Some(path) = folder.map(|folder| folder.join(TREE_BEFORE)) {
            // After a power cut no run is left to compare with it.
            write_unsynced(&path, &before.to_bytes())?;
        }
        self.tree_before = Some(before);
        Ok(())
    }

    /// Reads what another process noted before the run in `folder`; nothing where that is lost.
    pub(crate) fn recall_tree(&mut self, folder: &Path) {
        let noted = read_regular(&folder.join(TREE_BEFORE)).ok();
        self.tree_before = noted.and_then(|bytes| TreeStamps::parse(&bytes));
    }

    /// Returns the tracked files that changed during the run, even if they were changed back. Omits `ar`'s own files and the
    /// settings.
    fn changed_during_run(&mut self, store: &Store, commit: &CommitId) -> Result<Vec<PathBuf>, SessionError> {
        let (mut changed, look) = self.changed_meanwhile(commit)?;
        if let Some(before) = self.tree_before.take() {
            changed.extend(self.repo.working_tree.touched_since(&before, look.as_ref())?);
        }
        self.look = look.map(|look| Seen::now(store, look));
        // The user may edit the settings at any time.
        changed.retain(|path| !is_own(path) && path != Path::new(SETTINGS_FILE));
        Ok(changed)
    }
}

impl Attempt {
    /// Leaves out files that the baseline's run changed as well: they count for no later run. Neither do lock files of a
    /// project that was changed since the start. Names those that the baseline's first run changes.
    pub(crate) fn counted(
        &self,
        store: &mut Store,
        terms: &FileTerms,
        disturbance: Disturbance,
    ) -> Result<Disturbance, SessionError> {
        let exempt = store.history.baseline().map(|baseline| &baseline.changed_while_running);
        let is_lock = disturbance.paths().iter().any(|path| terms.project_of_lock(path).is_some());
        let objects = &store.repo.objects;
        let since_start = match is_lock {
            true => objects.changed_between(&store.contract.start, &commit_of(&self.open)?)?,
            false => Vec::new(),
        };
        let follows = |path: &Path| {
            terms.project_of_lock(path).is_some_and(|project| since_start.iter().any(|edit| edit.path == project))
        };
        let counted =
            disturbance.without(|path| exempt.is_some_and(|exempt| exempt.contains(&name_of(path))) || follows(path));
        let changed = counted.paths();
        if self.open.id.is_baseline() && self.run.is_first() && !changed.is_empty() {
            store.note(Notice::ExemptChanged(changed));
        }
        Ok(counted)
    }
}

/// Returns whether a run has no value because its metric file changed afterwards.
pub(crate) fn is_changed(verdict: &Verdict) -> bool {
    verdict.failure.as_ref().is_some_and(|failure| failure.class == FailureClass::Changed)
}
