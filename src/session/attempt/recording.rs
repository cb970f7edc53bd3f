//! The record of experiments: refs, rows, branch, working tree and memory files, in this order.

use super::artifacts::settle_artifacts;
use crate::crash;
use crate::domain::{CommitId, Event, ExperimentId, Notice, Outcome, Phase, Record};
use crate::git::Look;
use crate::ledger::Entry;
use crate::rules::doubtful_gain;
use crate::session::errors::SessionError;
use crate::session::files::exclude_own;
use crate::session::store::{NO_KEEP, Store};
use crate::session::tree::{UsersTree, Workspace};
use crate::state::OpenExperiment;

impl Store {
    /// Records experiments one after the other, those of a train all or none, and closes them. `open` is the attempt that
    /// measured them.
    pub(crate) fn record(
        &mut self,
        open: OpenExperiment,
        mut records: Vec<Record>,
        tree: UsersTree<'_>,
    ) -> Result<(), SessionError> {
        let first = self.history.next_sequence();
        for (record, sequence) in records.iter_mut().zip(first..) {
            record.sequence = Some(sequence);
            record.finished = self.now();
            record.waits = self.journal.pauses.waits;
            *record = record.clone().with_artifacts_of_keep();
        }
        if let Some(first) = records.first_mut() {
            first.layout = self.journal.layout.clone().filter(|layout| self.history.layout() != Some(layout));
        }
        // The row of one that is replaced may stand anywhere.
        let rows_from = if open.replaces.is_some() { 0 } else { self.ledger.length()? };
        let mut tags = Vec::new();
        for record in &records {
            let (tag, unsynced) = self.refs().prepare_record(record, open.replaces.as_deref())?;
            self.written.unsynced.append(unsynced);
            tags.push(tag);
        }
        let open = OpenExperiment { recording: records, rows_from, ..open };
        self.enter(Phase::Recording, open.clone())?;
        crash::point("recording.entered");
        for (tag, record) in tags.into_iter().zip(&open.recording) {
            self.repo.refs.place_record(tag)?;
            crash::point("recording.recorded");
            self.history.push(record.clone());
        }
        self.settle(&open, tree, Found::Nothing)
    }

    /// Does what a process that was killed has left of it.
    pub(crate) fn finish_recording(&mut self, open: &OpenExperiment, tree: UsersTree<'_>) -> Result<(), SessionError> {
        for record in &open.recording {
            if self.history.get(record.id).is_none() {
                self.write_record(record, open.replaces.as_deref())?;
                self.history.push(record.clone());
            }
            crash::point("recording.recorded");
        }
        self.settle(open, tree, Found::Something)
    }

    /// Writes rows, branch, working tree and memory files of what is recorded, and closes the attempts.
    fn settle(&mut self, open: &OpenExperiment, mut tree: UsersTree<'_>, found: Found) -> Result<(), SessionError> {
        let records = &open.recording;
        for record in records {
            self.write_row(open, record, found)?;
            self.refs().keep_replays(record.id, &record.beside.replays, &record.commit)?;
        }
        let look = match (&mut tree, records.last()) {
            (Some(workspace), Some(record)) => workspace.follow(self, open, record)?,
            _ => {
                let known: Vec<CommitId> = records.iter().map(|record| record.base.clone()).collect();
                self.follow_with_branch(open, &known)?;
                None
            }
        };
        let mut kept = Vec::new();
        for record in records {
            // The last record of a train has the artifacts of the run that measured all cars together.
            let is_last = records.last().is_some_and(|last| last.id == record.id);
            let from = if is_last { open.artifacts_of.unwrap_or(open.id) } else { record.id };
            let limit = self.contract.keep_artifacts;
            let settled = settle_artifacts(&self.folder, &self.history, limit, (record, from));
            self.notices.or_unsettled(record.id, settled);
            let before = self.remember(record)?;
            crash::point("settling.remembered");
            self.learn_from(record, before)?;
            let incumbent = self.history.to_beat(&self.contract);
            let doubt = doubtful_gain(&self.contract, &self.history, record.id);
            self.note(Event::ExperimentFinished { record: Box::new(record.clone()), incumbent, doubt });
            self.note_steps(before, NO_KEEP);
            if record.outcome == Outcome::Keep {
                kept.push(record.id);
            }
        }
        if !kept.is_empty() {
            self.journal.line.kept(&kept);
        }
        if let Some(workspace) = tree {
            return workspace.enter_idle(self, open.id, look);
        }
        // If somebody at work has deleted the rows meanwhile, those of open experiments are not among the restored ones.
        self.heal()?;
        records.iter().try_for_each(|record| self.write_row(open, record, Found::Something))?;
        let closed: Vec<ExperimentId> = records.iter().map(|record| record.id).chain([open.id]).collect();
        for id in closed {
            self.repo.refs.drop_ref(&self.contract.tag.open_ref(id))?;
            self.journal.close(id);
        }
        crash::point("settling.refs_dropped");
        self.write_journal()?;
        self.settle_git()
    }

    /// Appends the row of an experiment, or puts it in the place of that of the version which it replaces; unless it is there,
    /// behind where the file ended when the step was entered. One of the same commit before that is another session's.
    fn write_row(&mut self, open: &OpenExperiment, record: &Record, found: Found) -> Result<(), SessionError> {
        let name = self.ledger.name();
        self.ledger.give_way();
        if matches!(found, Found::Something) && self.ledger.has_row(&record.commit, open.rows_from)? {
            return Ok(());
        }
        match open.versions.last().filter(|_| open.replaces.is_some()) {
            Some(old) => self.ledger.replace(&old.commit, &Entry::of(record), &self.folder.state())?,
            None => self.ledger.append(&Entry::of(record))?,
        }
        if self.ledger.name() != name {
            exclude_own(&self.repo, &[self.ledger.name()])?;
        }
        crash::point("settling.row_appended");
        Ok(())
    }

    /// Brings the branch to the incumbent where no working tree follows it.
    fn follow_with_branch(&mut self, open: &OpenExperiment, known: &[CommitId]) -> Result<(), SessionError> {
        let tip = self.tip();
        self.set_branch(&tip, &known.iter().collect::<Vec<_>>(), &format!("experiment {}", open.id))?;
        crash::point("settling.branch_moved");
        if self.repo.refs.head_if_sound()?.is_some_and(|head| head.branch() == Some(&self.contract.tag.branch_ref())) {
            self.note_once(Notice::HeadOnBranch(self.contract.tag.branch()));
        }
        Ok(())
    }
}

/// Parts of a record that an interrupted settling may have left.
#[derive(Debug, Clone, Copy)]
enum Found {
    Nothing,
    Something,
}

impl Workspace {
    /// Brings branch and working tree to what a record says. Gives what was seen of the tree before, if it still holds.
    fn follow(
        &mut self,
        store: &mut Store,
        open: &OpenExperiment,
        record: &Record,
    ) -> Result<Option<Look>, SessionError> {
        let look = self.look.take().and_then(|look| look.if_current(store));
        let target = if record.outcome == Outcome::Keep { &record.commit } else { &record.base };
        let why = format!("{} experiment {}", record.outcome, record.id);
        self.move_head(store, target, &[&record.commit, &record.base], &why)?;
        crash::point("settling.branch_moved");
        match open.refused.is_some() && open.by_hand {
            true => self.put_only_protected_back(&record.commit, &record.base)?,
            false => self.restore_after_look(store, look.as_ref(), target, &record.commit)?,
        }
        crash::point("settling.put_back");
        Ok(match (look, record.outcome) {
            (Some(look), Outcome::Keep) => Some(look),
            (Some(look), _) if self.repo.working_tree.look_outlasts(&look, &record.commit, &record.base)? => Some(look),
            _ => None,
        })
    }
}
