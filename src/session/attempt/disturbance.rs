//! Files that change while a run is active: what is noted before it, and what becomes of its number.

use std::path::{Path, PathBuf};

use super::lifecycle::Attempt;
use super::measuring::metric_file_of;
use crate::domain::{Actor, CommitId, ExperimentId, FailureClass, Notice};
use crate::fs::{read_regular, write_unsynced};
use crate::git::TreeStamps;
use crate::measure::Verdict;
use crate::rules::{Disturbance, FileTerms};
use crate::session::errors::SessionError;
use crate::session::files::{SETTINGS_FILE, is_own};
use crate::session::store::{Store, TREE_BEFORE, commit_of};
use crate::session::tree::{Seen, Workspace, name_of};

impl Workspace {
    /// Prepares the tree just before a run of `commit`: removes what earlier runs left in a slot, and restores protected files.
    pub(crate) fn make_ready(
        &mut self,
        store: &mut Store,
        id: ExperimentId,
        commit: &CommitId,
    ) -> Result<(), SessionError> {
        if self.home.is_disposable() {
            self.clear_slot(store)?;
        }
        if let Some(file) = metric_file_of(&store.contract) {
            self.clear_folder_at(store, id, commit, &file)?;
        }
        self.put_protected_back(store, id, commit)
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
        if let Some(failure) = self.protected_changed(store, id, commit, Actor::Run)? {
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
