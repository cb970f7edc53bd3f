//! The record of experiments: refs, rows, branch, working tree and memory files, in this order. Experiments that are open at
//! the same time are recorded together: a single one, or all cars of a train.

use jiff::Timestamp;

use super::{RunningChange, end_trial, settle_artifacts};
use crate::crash;
use crate::domain::{CommitId, Concurrency, Event, ExperimentId, Notice, Number, Outcome, Record, Replay, list};
use crate::fs::written_to;
use crate::git::WorktreeSnapshot;
use crate::machine::{Act, Attempt, AttemptEntry, AttemptHead, Draft, Made, Recording};
use crate::rules::{Afresh, Car, doubtful_gain, is_confirmed};
use crate::session::errors::SessionError;
use crate::session::handlers::{UsersTree, Workspace};
use crate::session::store::{NO_KEEP, Store};

impl Store {
    /// Records experiments one after the other, those of a train all or none, and closes them. `made` is the change that was
    /// measured for them.
    pub(crate) fn record(&mut self, made: Made, records: Vec<Record>, tree: UsersTree<'_>) -> Result<(), SessionError> {
        self.record_with_artifacts_of(made, records, tree, None)
    }

    /// Does the same where another attempt left the artifacts of the last record.
    pub(crate) fn record_with_artifacts_of(
        &mut self,
        made: Made,
        mut records: Vec<Record>,
        tree: UsersTree<'_>,
        artifacts_of: Option<ExperimentId>,
    ) -> Result<(), SessionError> {
        let first = self.history.next_sequence();
        for (record, sequence) in records.iter_mut().zip(first..) {
            record.sequence = Some(sequence);
            record.origin.finished = self.now();
            record.conditions.waits = self.journal.pauses.waits;
            *record = record.clone().with_artifacts_of_keep();
        }
        if let Some(first) = records.first_mut() {
            first.conditions.layout =
                self.journal.layout.clone().filter(|layout| self.history.layout() != Some(layout));
        }
        // The row of one that is replaced may stand anywhere.
        let rows_from = if made.head.replaces().is_some() { 0 } else { self.ledger.length()? };
        let recording = Recording { made, records, rows_from, artifacts_of, has_rows: false };
        let places = self.prepare(&recording, |_| true)?;
        self.enter(Attempt::Recording(recording.clone()))?;
        crash::point("recording.entered");
        self.settle(&recording, places, true, tree)
    }

    /// Does what a process that was killed has left of it.
    pub(crate) fn finish_recording(&mut self, attempt: Attempt, tree: UsersTree<'_>) -> Result<(), SessionError> {
        let recording = attempt.into_recording();
        let known: Vec<ExperimentId> = self.history.records().iter().map(|record| record.id).collect();
        let places = self.prepare(&recording, |record| !known.contains(&record.id))?;
        if !places.is_empty() {
            self.write_journal()?;
        }
        self.settle(&recording, places, false, tree)
    }

    /// Writes the tags of the records that are `meant`; gives each with the act that places it once the journal is written.
    fn prepare(
        &mut self,
        recording: &Recording,
        meant: impl Fn(&Record) -> bool,
    ) -> Result<Vec<(Record, Act)>, SessionError> {
        let mut places = Vec::new();
        for record in recording.records.iter().filter(|record| meant(record)) {
            let (place, unsynced) = self.refs().prepare_record(record, recording.made.head.replaces())?;
            self.written.unsynced.append(unsynced);
            places.push((record.clone(), place));
        }
        Ok(places)
    }

    /// Writes refs, rows, branch, working tree and memory files of what is recorded, and closes the attempts. `is_new` says that no
    /// earlier process has begun with that.
    fn settle(
        &mut self,
        recording: &Recording,
        places: Vec<(Record, Act)>,
        is_new: bool,
        mut tree: UsersTree<'_>,
    ) -> Result<(), SessionError> {
        let (records, id) = (&recording.records, recording.made.head.id);
        for (record, place) in places {
            self.perform(&place)?;
            crash::point("recording.recorded");
            self.history.push(record);
        }
        for record in records {
            self.perform(&recording.row(record, is_new))?;
            self.keep_replays(record.id, &record.beside.replays, &record.commit)?;
        }
        let look = match (&mut tree, records.last()) {
            (Some(workspace), Some(record)) => workspace.follow(self, &recording.made, record)?,
            _ => {
                let known: Vec<CommitId> = records.iter().map(|record| record.base.clone()).collect();
                self.follow_with_branch(id, &known)?;
                None
            }
        };
        let mut kept = Vec::new();
        for record in records {
            // The last record of a train has the artifacts of the run that measured all cars together.
            let is_last = records.last().is_some_and(|last| last.id == record.id);
            let from = if is_last { recording.artifacts_of.unwrap_or(id) } else { record.id };
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
            return workspace.enter_idle(self, id, look);
        }
        // If somebody at work has deleted the rows meanwhile, those of open experiments are not among the restored ones.
        self.heal()?;
        records.iter().try_for_each(|record| self.perform(&recording.row(record, false)))?;
        let closed: Vec<ExperimentId> = records.iter().map(|record| record.id).chain([id]).collect();
        for id in closed {
            self.drop_open(id)?;
            self.journal.close(id);
        }
        crash::point("settling.refs_dropped");
        self.write_journal()?;
        self.settle_git()
    }

    /// Brings the branch to the incumbent where no working tree follows it.
    fn follow_with_branch(&mut self, id: ExperimentId, known: &[CommitId]) -> Result<(), SessionError> {
        let tip = self.tip();
        self.set_branch(&tip, known, &format!("experiment {id}"))?;
        crash::point("settling.branch_moved");
        if self.repo.refs.head_if_sound()?.is_some_and(|head| head.branch() == Some(&self.contract.tag.branch_ref())) {
            self.note_once(Notice::HeadOnBranch(self.contract.tag.branch()));
        }
        Ok(())
    }
}

impl Workspace {
    /// Brings branch and working tree to what a record says. Gives what was seen of the tree before, if it still holds.
    fn follow(
        &mut self,
        store: &mut Store,
        made: &Made,
        record: &Record,
    ) -> Result<Option<WorktreeSnapshot>, SessionError> {
        let look = self.look.take().and_then(|look| look.if_current(store));
        let target = if record.outcome == Outcome::Keep { &record.commit } else { &record.base };
        let why = format!("{} experiment {}", record.outcome, record.id);
        self.move_head(store, target, &[&record.commit, &record.base], &why)?;
        crash::point("settling.branch_moved");
        match made.refused.is_some() && made.head.is_by_hand() {
            true => self.restore_only_protected(&record.commit, &record.base)?,
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

/// Puts an experiment that beat its own base in the line of winners, where it waits for the incumbent; ends a trial. Gives the
/// draft back where nothing has to be waited for: it is no winner, or its base is the incumbent and nothing else is open.
pub(crate) fn join_line(mut draft: Draft, store: &mut Store) -> Result<Option<Draft>, SessionError> {
    if let Some(trial) = draft.made.head.trial().cloned() {
        return end_trial(draft, &trial, store).map(|()| None);
    }
    let (id, record) = (draft.made.head.id, &draft.record);
    let is_alone = store.journal.attempts().all(|open| open.id() == id);
    let base = store.history.kept_at(&record.base).and_then(|base| store.history.get(base));
    let against = base.map(|base| (base.id, store.history.number_to_beat(base).map(|number| number.value)));
    let number = record.metric.number().filter(|_| record.outcome == Outcome::Keep);
    let (Some((base, against)), Some(number)) = (against, number) else { return Ok(Some(draft)) };
    if is_alone && record.base == store.tip() {
        return Ok(Some(draft));
    }
    // Over a baseline that had nothing to measure yet nobody knows it.
    let gain = against.map_or(0.0, |against| store.contract.metric.direction.gain(number.value, against));
    let own = own_measurement(record);
    draft.made.head.beside.replays.push(own);
    store.note(run_finished(&draft.made.head, &draft.record.reason, Some(number.clone())));
    let mut car = Car::new(id, base, number.clone(), gain);
    // Fresh runs of its own tree need not be made again.
    car.afresh = is_confirmed(&store.contract).then_some(Afresh::Value(number));
    store.journal.line.won(car);
    store.enter(Attempt::Winner(draft))?;
    crash::point("line.won");
    Ok(None)
}

/// The measurement of a winner on its own base.
fn own_measurement(record: &Record) -> Replay {
    let (base, commit) = (record.base.clone(), record.commit.clone());
    Replay { base, commit, value: record.metric.value, why: record.reason.clone() }
}

/// The replays of a winner, without the measurement that its record already has.
pub(crate) fn without_own(draft: &Draft) -> Concurrency {
    let own = own_measurement(&draft.record);
    let mut beside = draft.made.head.beside.clone();
    beside.replays.retain(|replay| *replay != own);
    beside
}

/// The event of a run that ended without a record.
pub(crate) fn run_finished(head: &AttemptHead, reason: &str, value: Option<Number>) -> Event {
    let (id, description, trial) = (head.id, head.description.clone(), head.trial().is_some());
    Event::RunFinished { id, description, reason: reason.to_owned(), value, trial }
}

impl Store {
    /// Enters a commit of an attempt, which waits for a slot, in the journal; a ref keeps it from `git gc`.
    pub(crate) fn enter_ready(&mut self, change: &mut RunningChange) -> Result<(), SessionError> {
        let Made { head, commit, .. } = &mut change.made;
        self.keep_replays(head.id, &head.beside.replays, commit)?;
        self.keep_open(head.id, commit)?;
        crash::point("ready.ref_made");
        head.seat = None;
        change.enter(self, Attempt::Ready)?;
        crash::point("ready.entered");
        Ok(())
    }

    /// Closes an attempt that has no record.
    pub(crate) fn close_open(&mut self, id: ExperimentId) -> Result<(), SessionError> {
        self.drop_all_of(id)?;
        crash::point("closing.ref_dropped");
        let is_overtaken = |left: &AttemptEntry| {
            let is_tested = matches!(left.attempt, Attempt::Tested { .. })
                || left.attempt.draft().is_some_and(|draft| draft.tested.is_some());
            left.attempt.trial().is_some() && !is_tested && !left.runs.is_empty()
        };
        let left = self.journal.close(id).filter(is_overtaken);
        let overtaken = left.map(|left| run_finished(left.attempt.head(), "overtaken by a keep", None));
        self.write_journal()?;
        self.notices.or_unsettled(id, self.folder.forget_artifacts(id));
        overtaken.into_iter().for_each(|event| self.note(event));
        self.settle_git()
    }

    /// Names the linked paths that runs wrote to since this moment: what one slot writes there, all others read.
    pub(crate) fn name_written_links(&mut self, since: Timestamp) {
        let Some(layout) = &self.journal.layout else { return };
        let read: Vec<_> = layout.links.iter().filter(|link| !layout.writable.contains(link)).cloned().collect();
        let written = written_to(self.repo.main_worktree(), &read, since.into());
        if !written.is_empty() {
            self.note_once(format!("linked paths, which all slots share, were written to: {}", list(&written)));
        }
    }
}
