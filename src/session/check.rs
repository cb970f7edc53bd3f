//! The checks on a change before it runs, and on what its run left.

use std::path::{Path, PathBuf};

use super::error::SessionError;
use super::open::Session;
use crate::domain::{CommitId, Failure, FailureClass, bytes_text};
use crate::git::{ChangeKind, ChangedPath, EntryKind, TooLarge};
use crate::rules::{FileEdit, Forbidden, fingerprint, measured_before};
use crate::state::OpenExperiment;

impl Session<'_> {
    /// Looks at the change that an experiment's commit makes, and notes what tells it from others and, where that is so, why
    /// it is not run. Files that are `too_large` and what else was `found` are no part of the commit.
    pub(super) fn check(
        &self,
        open: &mut OpenExperiment,
        commit: &CommitId,
        too_large: &[TooLarge],
        found: &Forbidden,
    ) -> Result<(), SessionError> {
        let diff = self.store.repo.diff_text(&open.base, commit)?;
        let change = fingerprint(self.store.repo.tree_of(commit)?, &diff);
        open.refused = match self.workspace.file_terms.refuse(&self.edits(&open.base, commit)?, found) {
            None if !too_large.is_empty() => {
                let lines =
                    too_large.iter().map(|file| format!("{} has {}", file.path.display(), bytes_text(file.size)));
                Some(Failure { class: FailureClass::TooLarge, excerpt: lines.collect::<Vec<_>>().join("\n") })
            }
            None if !self.store.contract.allow_repeats => measured_before(&self.store.history, &change, &open.base)
                .map(|record| Failure {
                    class: FailureClass::Duplicate,
                    excerpt: format!("experiment {}, {}: {}", record.id, record.outcome, record.reason),
                }),
            refused => refused,
        };
        open.fingerprint = Some(change);
        Ok(())
    }

    pub(super) fn edits(&self, base: &CommitId, commit: &CommitId) -> Result<Vec<FileEdit>, SessionError> {
        let counted = match self.workspace.file_terms.counts_lines() {
            true => self.store.repo.file_stats(base, commit)?,
            false => Vec::new(),
        };
        let lines = |path: &Path| {
            let stat = counted.iter().find(|(counted, _)| counted == path);
            stat.map_or(0, |(_, stat)| stat.added.saturating_add(stat.deleted))
        };
        let changed = self.store.repo.changed_between(base, commit)?;
        let edits = changed.into_iter().map(|ChangedPath { path, kind, entry, size }| FileEdit {
            lines: lines(&path),
            path,
            is_new: kind == ChangeKind::Added,
            is_opaque: kind != ChangeKind::Deleted && entry != EntryKind::File,
            size,
        });
        Ok(edits.collect())
    }

    /// The tracked files that are no longer as the commit has them that was checked out.
    pub(super) fn changed_meanwhile(&mut self, commit: &CommitId) -> Result<Vec<PathBuf>, SessionError> {
        if self.store.repo.head()?.commit() != Some(commit) {
            // Somebody has checked something else out.
            let change = self.store.repo.propose(commit, &self.known_untracked()?)?;
            let tracked = change.paths().iter().filter(|changed| changed.kind != ChangeKind::Added);
            return Ok(tracked.map(|changed| changed.path.clone()).collect());
        }
        let look = self.store.repo.look()?;
        let changes = self.store.repo.changes_seen(&look)?;
        self.workspace.look = Some(look);
        Ok(changes.tracked.into_iter().map(|(path, _)| path).collect())
    }
}
