//! Records experiments that are open at the same time: a single one, or all cars of a train.

use jiff::Timestamp;

use super::lifecycle::Attempt;
use super::trial::end_trial;
use crate::crash;
use crate::domain::{Beside, CommitId, Event, ExperimentId, Notice, Number, Outcome, Phase, Record, Replay};
use crate::fs::written_to;
use crate::rules::{Afresh, Car, is_confirmed};
use crate::session::errors::SessionError;
use crate::session::store::{Store, commit_of};
use crate::state::{OpenAttempt, OpenExperiment};

/// Puts an experiment that beat its own base in the line of winners, where it waits for the incumbent; ends a trial. Gives the
/// record back where nothing has to be waited for: it is no winner, or its base is the incumbent and nothing else is open.
pub(crate) fn join_line(
    attempt: &mut Attempt,
    store: &mut Store,
    record: Record,
) -> Result<Option<Record>, SessionError> {
    if attempt.open.trial.is_some() {
        attempt.open.draft = Some(Box::new(record));
        end_trial(attempt, store)?;
        return Ok(None);
    }
    let is_alone = store.journal.open_attempts().all(|open| open.id == attempt.open.id);
    let base = store.history.kept_at(&record.base).and_then(|base| store.history.get(base));
    let against = base.map(|base| (base.id, store.history.number_to_beat(base).map(|number| number.value)));
    let number = record.metric.number().filter(|_| record.outcome == Outcome::Keep);
    let (Some((base, against)), Some(number)) = (against, number) else { return Ok(Some(record)) };
    if is_alone && record.base == store.tip() {
        return Ok(Some(record));
    }
    // Over a baseline that had nothing to measure yet nobody knows it.
    let gain = against.map_or(0.0, |against| store.contract.metric.direction.gain(number.value, against));
    attempt.open.beside.replays.push(own_measurement(&record));
    store.note(run_finished(&attempt.open, &record.reason, Some(number.clone())));
    let mut car = Car::new(attempt.open.id, base, number.clone(), gain);
    // Fresh runs of its own tree need not be made again.
    car.afresh = is_confirmed(&store.contract).then_some(Afresh::Value(number));
    store.journal.line.won(car);
    attempt.open.draft = Some(Box::new(record));
    attempt.enter(store, Phase::Waiting)?;
    crash::point("line.won");
    Ok(None)
}

/// The measurement of a winner on its own base.
fn own_measurement(draft: &Record) -> Replay {
    let (base, commit) = (draft.base.clone(), draft.commit.clone());
    Replay { base, commit, value: draft.metric.value, why: draft.reason.clone() }
}

/// The replays of a winner, without the measurement that its record already has.
pub(crate) fn without_own(open: &OpenExperiment, draft: &Record) -> Beside {
    let own = own_measurement(draft);
    let mut beside = open.beside.clone();
    beside.replays.retain(|replay| *replay != own);
    beside
}

/// The event of a run that ended without a record.
pub(crate) fn run_finished(open: &OpenExperiment, reason: &str, value: Option<Number>) -> Event {
    let (id, description, trial) = (open.id, open.description.clone(), open.trial.is_some());
    Event::RunFinished { id, description, reason: reason.to_owned(), value, trial }
}

impl Store {
    /// Enters a commit of an attempt, which waits for a slot, in the journal; a ref keeps it from `git gc`.
    pub(crate) fn enter_ready(&mut self, attempt: &mut Attempt) -> Result<(), SessionError> {
        let commit = commit_of(&attempt.open)?;
        self.refs().keep_replays(attempt.open.id, &attempt.open.beside.replays, &commit)?;
        self.repo.refs.put_ref(&self.contract.tag.open_ref(attempt.open.id), commit.as_str())?;
        crash::point("ready.ref_made");
        attempt.open.seat = None;
        attempt.enter(self, Phase::Committing)?;
        crash::point("ready.entered");
        Ok(())
    }

    /// Closes an attempt that has no record.
    pub(crate) fn close_open(&mut self, id: ExperimentId) -> Result<(), SessionError> {
        self.refs().drop_all_of(id)?;
        crash::point("closing.ref_dropped");
        let is_overtaken =
            |left: &OpenAttempt| left.open.trial.is_some() && left.open.tested.is_none() && !left.runs.is_empty();
        let left = self.journal.close(id).filter(is_overtaken);
        let overtaken = left.map(|left| run_finished(&left.open, "overtaken by a keep", None));
        self.write_journal()?;
        self.notices.or_unsettled(id, self.folder.forget_artifacts(id));
        overtaken.into_iter().for_each(|event| self.note(event));
        self.settle_git()
    }

    /// Names the linked paths that runs wrote to since this moment: what one slot writes there, all others read.
    pub(crate) fn name_written_links(&mut self, since: Timestamp) {
        let Some(layout) = &self.journal.layout else { return };
        let read: Vec<_> = layout.links.iter().filter(|link| !layout.writable.contains(link)).cloned().collect();
        let written = written_to(&self.repo.main_worktree(), &read, since.into());
        if !written.is_empty() {
            self.note_once(Notice::LinksWritten(written));
        }
    }

    /// Brings the session's branch to `to`, which no working tree follows. A commit at its tip that is none of `known` is
    /// somebody's, and is kept under a saved ref.
    pub(crate) fn set_branch(&mut self, to: &CommitId, known: &[&CommitId], why: &str) -> Result<(), SessionError> {
        let is_known = |tip: &CommitId| known.contains(&tip) || self.history.knows(tip);
        let done = self.refs().set_branch(to, is_known, why)?;
        done.into_iter().for_each(|notice| self.note(notice));
        Ok(())
    }
}
