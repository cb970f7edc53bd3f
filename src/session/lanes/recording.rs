//! What is recorded of experiments that are open beside others: one, or all cars of a train.

use jiff::Timestamp;

use super::trial::end_trial;
use crate::crash;
use crate::domain::{Beside, CommitId, Event, ExperimentId, Notice, Number, Outcome, Phase, Record, Replay};
use crate::fs::written_to;
use crate::rules::Car;
use crate::session::attempt::{Attempt, Attempted};
use crate::session::error::SessionError;
use crate::session::opened::commit_of;
use crate::session::store::Store;
use crate::state::OpenExperiment;

/// Records the experiment, unless it beat its own base: then it waits for the incumbent.
pub(in crate::session) fn record_beside(
    attempt: &mut Attempt,
    store: &mut Store,
    record: Record,
) -> Result<Attempted, SessionError> {
    if attempt.open.trial.is_some() {
        attempt.open.draft = Some(Box::new(record));
        return end_trial(attempt, store);
    }
    let base = store.history.kept_at(&record.base).and_then(|base| store.history.get(base));
    let against = base.map(|base| (base.id, base.metric.value));
    let number = record.metric.number().filter(|_| record.outcome == Outcome::Keep);
    let (Some((base, against)), Some(number)) = (against, number) else {
        let record = Record { beside: attempt.open.beside.clone(), ..record };
        store.record_all(attempt.open.clone(), vec![record])?;
        return Ok(Attempted::Recorded);
    };
    // Over a baseline that had nothing to measure yet nobody knows it.
    let gain = against.map_or(0.0, |against| store.contract.metric.direction.gain(number.value, against));
    attempt.open.beside.replays.push(own_measurement(&record));
    store.say(run_finished(&attempt.open, &record.reason, Some(number.clone())));
    store.journal.line.won(Car::new(attempt.open.id, base, number, gain));
    attempt.open.draft = Some(Box::new(record));
    attempt.enter(store, Phase::Waiting)?;
    crash::point("line.won");
    Ok(Attempted::Waiting)
}

/// What a winner was measured as, on its own base.
fn own_measurement(draft: &Record) -> Replay {
    let (base, commit) = (draft.base.clone(), draft.commit.clone());
    Replay { base, commit, value: draft.metric.value, why: draft.reason.clone() }
}

/// How a winner fared beside others, without its own measurement where the record itself has it.
pub(super) fn without_own(open: &OpenExperiment, draft: &Record) -> Beside {
    let own = own_measurement(draft);
    let mut beside = open.beside.clone();
    beside.replays.retain(|replay| *replay != own);
    beside
}

/// The event of a run that ended without a record.
pub(super) fn run_finished(open: &OpenExperiment, reason: &str, value: Option<Number>) -> Event {
    let (id, description, trial) = (open.id, open.description.clone(), open.trial.is_some());
    Event::RunFinished { id, description, reason: reason.to_owned(), value, trial }
}

impl Store {
    /// Whether experiments are made in the user's own working tree.
    pub(in crate::session) fn is_in_place(&self) -> bool {
        self.journal.layout.is_none()
    }

    /// Enters a commit of an attempt, which waits for a slot, in the journal; a ref keeps it from `git gc`.
    pub(in crate::session) fn enter_ready(&mut self, attempt: &mut Attempt) -> Result<(), SessionError> {
        let commit = commit_of(&attempt.open)?;
        self.keep_replays(attempt.open.id, &attempt.open.beside.replays, &commit)?;
        self.repo.refs.put_ref(&self.contract.tag.open_ref(attempt.open.id), commit.as_str())?;
        crash::point("ready.ref_made");
        attempt.open.seat = None;
        attempt.enter(self, Phase::Committing)?;
        crash::point("ready.entered");
        Ok(())
    }

    /// Closes an attempt that has no record.
    pub(in crate::session) fn close_open(&mut self, id: ExperimentId) -> Result<(), SessionError> {
        let merged = self.contract.tag.merged_ref(id);
        for (name, _) in self.repo.refs.refs_under(&format!("{}/merged", self.contract.tag.ref_prefix()))? {
            if name.strip_prefix(&merged).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')) {
                self.repo.refs.drop_ref(&name)?;
            }
        }
        self.drop_open_ref(id)?;
        crash::point("closing.ref_dropped");
        let open = self.journal.open_attempts().find(|open| open.id == id);
        let is_overtaken = |open: &&OpenExperiment| open.trial.is_some() && open.tested.is_none() && open.runs > 0;
        let overtaken = open.filter(is_overtaken).map(|open| run_finished(open, "overtaken by a keep", None));
        self.journal.close(id);
        self.write_journal()?;
        self.forget_artifacts(id);
        overtaken.into_iter().for_each(|event| self.say(event));
        self.repo.objects.settle_objects()?;
        self.pack_records();
        Ok(())
    }

    fn drop_open_ref(&self, id: ExperimentId) -> Result<(), SessionError> {
        let reference = self.contract.tag.open_ref(id);
        match self.repo.refs.has_ref(&reference)? {
            true => self.repo.refs.drop_ref(&reference)?,
            // An agent that deleted it is still watched.
            false => self.repo.refs.note_dropped(&reference),
        }
        Ok(())
    }

    /// Records experiments one after the other, those of a train all or none: `open` is the attempt that measured them.
    pub(in crate::session) fn record_all(
        &mut self,
        open: OpenExperiment,
        mut records: Vec<Record>,
    ) -> Result<(), SessionError> {
        let first = self.history.next_sequence();
        for (record, sequence) in records.iter_mut().zip(first..) {
            record.sequence = Some(sequence);
            record.finished = self.now();
            *record = record.clone().with_artifacts_of_keep();
        }
        if let Some(first) = records.first_mut() {
            first.layout = self.unrecorded_layout();
        }
        let rows_from = self.ledger.length()?;
        let open = OpenExperiment { recording: records, rows_from, ..open };
        self.enter(Phase::Recording, open.clone())?;
        crash::point("recording.entered");
        self.place_records(&open, false)
    }

    /// Does what a process that was killed has left of it.
    pub(in crate::session) fn finish_recording(&mut self, open: &OpenExperiment) -> Result<(), SessionError> {
        self.place_records(open, true)
    }

    /// Writes refs, rows, branch and memory files of what is being recorded. Then the attempts are closed.
    fn place_records(&mut self, open: &OpenExperiment, may_be_there: bool) -> Result<(), SessionError> {
        let records = &open.recording;
        for record in records {
            if self.history.get(record.id).is_none() {
                self.write_record(record)?;
                self.history.push(record.clone());
            }
            crash::point("recording.recorded");
        }
        for record in records {
            if may_be_there {
                self.settle_row(open, record)?;
            } else {
                self.write_row(open, record)?;
            }
            self.keep_replays(record.id, &record.beside.replays, &record.commit)?;
        }
        let tip = self.tip();
        let known: Vec<CommitId> = records.iter().map(|record| record.base.clone()).collect();
        self.set_branch(&tip, &known.iter().collect::<Vec<_>>(), &format!("experiment {}", open.id))?;
        crash::point("settling.branch_moved");
        if self.repo.refs.head_if_sound()?.is_some_and(|head| head.branch() == Some(&self.contract.tag.branch_ref())) {
            self.say_once(Notice::HeadOnBranch(self.contract.tag.branch()));
        }
        let mut kept = Vec::new();
        for record in records {
            // What was measured last is all of them together.
            let is_last = records.last().is_some_and(|last| last.id == record.id);
            self.settle_artifacts(record, if is_last { open.artifacts_of.unwrap_or(open.id) } else { record.id });
            let before = self.journal.rung;
            self.remember(record)?;
            crash::point("settling.remembered");
            self.learn_from(record, before)?;
            let incumbent = self.to_beat();
            let doubt = self.doubt_of(record.id);
            self.say(Event::ExperimentFinished { record: Box::new(record.clone()), incumbent, doubt });
            self.say_directive(before);
            match record.outcome {
                Outcome::Keep => kept.push(record.id),
                _ => self.journal.line.left(record.id),
            }
        }
        if !kept.is_empty() {
            self.journal.line.kept(&kept);
        }
        // If somebody at work has deleted the rows meanwhile, those of open experiments are not among the restored ones.
        self.heal()?;
        records.iter().try_for_each(|record| self.settle_row(open, record))?;
        let closed: Vec<ExperimentId> = records.iter().map(|record| record.id).chain([open.id]).collect();
        for id in closed {
            self.drop_open_ref(id)?;
            self.journal.close(id);
        }
        crash::point("settling.refs_dropped");
        self.write_journal()?;
        if !self.expected.at_work.is_empty() {
            // What their runs printed is no change of others' doing.
            self.look_at_logs();
        }
        self.repo.objects.settle_objects()?;
        self.pack_records();
        Ok(())
    }

    /// Names the linked paths that runs wrote to since this moment: what one slot writes there, all others read.
    pub(in crate::session) fn name_written_links(&mut self, since: Timestamp) {
        let Some(layout) = &self.journal.layout else { return };
        let read: Vec<_> = layout.links.iter().filter(|link| !layout.writable.contains(link)).cloned().collect();
        let written = written_to(&self.repo.main_worktree(), &read, since.into());
        if !written.is_empty() {
            self.say_once(Notice::LinksWritten(written));
        }
    }

    /// Keeps the commits that an experiment had, or was measured as, on other bases than that of its `commit`.
    pub(super) fn keep_replays(
        &self,
        id: ExperimentId,
        replays: &[Replay],
        commit: &CommitId,
    ) -> Result<(), SessionError> {
        let others = replays.iter().filter(|replay| replay.commit != *commit);
        for (replay, number) in others.zip(1_u32..) {
            let reference = self.contract.tag.merged_ref(id);
            let reference = if number == 1 { reference } else { format!("{reference}-{number}") };
            self.repo.refs.put_ref(&reference, replay.commit.as_str())?;
        }
        Ok(())
    }

    /// Brings the session's branch to `to`, which no working tree follows. A commit at its tip that is none of `known` is
    /// somebody's, and is kept under a saved ref.
    pub(in crate::session) fn set_branch(
        &mut self,
        to: &CommitId,
        known: &[&CommitId],
        why: &str,
    ) -> Result<(), SessionError> {
        match self.repo.refs.branch(&self.contract.tag.branch_ref())? {
            None => {
                self.create_branch(to, why)?;
                self.say(Notice::BranchRecreated(self.contract.tag.branch()));
                Ok(())
            }
            Some(tip) if tip == *to => Ok(()),
            Some(tip) => {
                if !known.contains(&&tip) && !self.history.knows(&tip) {
                    let saved = self.keep_commit(&tip, &tip)?;
                    self.say(Notice::BranchMoved { tip: tip.clone(), saved });
                }
                self.move_branch(&tip, to, why)
            }
        }
    }
}
