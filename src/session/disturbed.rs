//! Files that change while a run is active: what is noted before it, and what becomes of its number.

use std::path::{Path, PathBuf};

use super::attempt::Attempt;
use super::error::SessionError;
use super::own_files::is_own;
use super::protected::name_of;
use super::store::Store;
use super::workspace::Workspace;
use crate::domain::{CHANGED_WHILE_RUNNING, CommitId, Failure, FailureClass, Notice, list};
use crate::fs::{read_regular, write_unsynced};
use crate::git::TreeStamps;
use crate::rules::Measured;

/// What the file system said of all tracked files before a run, in the folder of the run: whoever goes on with it after a kill
/// of `ar` compares with that.
pub(super) const TREE_BEFORE: &str = "tree.before";

/// The settings of the repository, which the user may edit at any time.
const SETTINGS: &str = "ar.toml";

impl Workspace {
    /// Notes, just before a run starts, what the file system says of all tracked files; also in `folder`, if the run outlives
    /// this process.
    pub(super) fn note_tree(&mut self, commit: &CommitId, folder: Option<&Path>) -> Result<(), SessionError> {
        let before = self.repo.working_tree.tracked_stamps(commit)?;
        if let Some(path) = folder.map(|folder| folder.join(TREE_BEFORE)) {
            // After a power cut no run is left to compare with it.
            write_unsynced(&path, &before.to_bytes())?;
        }
        self.tree_before = Some(before);
        Ok(())
    }

    /// Reads what another process noted before the run in `folder`; nothing where that is lost.
    pub(super) fn recall_tree(&mut self, folder: &Path) {
        let noted = read_regular(&folder.join(TREE_BEFORE)).ok();
        self.tree_before = noted.and_then(|bytes| TreeStamps::parse(&bytes));
    }

    /// The tracked files that somebody changed during the run, also those that were changed back; without `ar`'s own.
    pub(super) fn changed_during_run(&mut self, commit: &CommitId) -> Result<Vec<PathBuf>, SessionError> {
        let mut changed = self.changed_meanwhile(commit)?;
        if let Some(before) = self.tree_before.take() {
            changed.extend(self.repo.working_tree.touched_since(&before, self.look.as_ref())?);
        }
        changed.retain(|path| !is_own(path) && path != Path::new(SETTINGS));
        Ok(changed)
    }
}

impl Store {
    /// Whether the baseline's own run changed a file: then it says nothing about a later run that this one changes it, too.
    fn is_exempt(&self, path: &Path) -> bool {
        let changed = self.history.baseline().and_then(|baseline| baseline.more.get(CHANGED_WHILE_RUNNING)?.as_array());
        changed.is_some_and(|changed| changed.iter().any(|known| known.as_str() == Some(&name_of(path))))
    }
}

impl Attempt {
    /// What the files that `changed` during the run, and the protected ones that were `touched`, mean for its number: those
    /// that count, and the failure in the place of the number. What the baseline's own run changes is named.
    pub(super) fn disturbed_by(
        &self,
        store: &mut Store,
        mut changed: Vec<PathBuf>,
        mut touched: Vec<PathBuf>,
    ) -> (Vec<PathBuf>, Option<Failure>) {
        let is_baseline = self.open.id.is_baseline();
        touched.retain(|path| !store.is_exempt(path));
        changed.retain(|path| !store.is_exempt(path));
        changed.extend(touched.iter().cloned());
        changed.sort();
        changed.dedup();
        if changed.is_empty() {
            return (changed, None);
        }
        if is_baseline {
            store.say(Notice::ExemptChanged(changed.clone()));
            return (changed, None);
        }
        let failure = match touched.is_empty() {
            true => Failure { class: FailureClass::Changed, excerpt: changed_text(&changed) },
            false => Failure {
                class: FailureClass::Protected,
                excerpt: format!("{} while the run was active, and changed back", were_changed(&touched)),
            },
        };
        (changed, Some(failure))
    }

    /// Whether a run is to be repeated because files changed during it: once, as that says nothing about the change.
    pub(super) fn is_to_repeat(&self, measured: &Measured) -> bool {
        let class = measured.failure.as_ref().map(|failure| failure.class);
        let is_disturbed = !self.open.id.is_baseline() && !measured.changed.is_empty();
        !self.open.repeated
            && (class == Some(FailureClass::Changed) || is_disturbed && class != Some(FailureClass::Protected))
    }

    /// Puts the tree back, which saves what somebody edited there, and makes the run ready once more.
    pub(super) fn repeat_run(
        &mut self,
        workspace: &mut Workspace,
        store: &mut Store,
        measured: &Measured,
    ) -> Result<(), SessionError> {
        store.say(Notice::RunRepeated { id: self.open.id, changed: measured.changed.clone() });
        workspace.look = None;
        workspace.check_out(store, &self.open)?;
        self.open.repeated = true;
        self.prepare_run(workspace, store)
    }
}

/// Says which files changed during a run.
pub(super) fn changed_text(changed: &[PathBuf]) -> String {
    format!("{} changed while it ran", list(changed))
}

fn were_changed(paths: &[PathBuf]) -> String {
    format!("{} {} changed", list(paths), if paths.len() == 1 { "was" } else { "were" })
}
