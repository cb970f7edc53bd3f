//! The pause between two experiments, as the cadence says.

use std::fs;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::checkpoints::write_down;
use super::outage::pause_for;
use super::shared::Shared;
use crate::crash;
use crate::domain::{Cadence, Event, Record, StopReason};
use crate::rules::{LastIteration, Pace, pace};
use crate::session::errors::SessionError;
use crate::session::store::{Interrupt, Store};
use crate::state::{IdeaFile, Rest, Sleep};

/// The next step before a call of the agent.
pub(crate) enum Paced {
    /// The call may start.
    Ready,
    /// The call may start, since a pause is over.
    Rested,
    /// Requests and the remaining time must be checked again.
    Waited,
    /// The end of the loop.
    Ends(StopReason),
}

/// Pauses after the last iteration by the cadence, at most until the end of this invocation. Any request, new idea or
/// user message ends the pause at once. `is_begun` is true if an earlier process made the iteration.
pub(crate) async fn keep_pace(shared: &Shared<'_>, is_begun: bool) -> Result<Paced, SessionError> {
    let Some(cadence) = shared.store().contract.cadence else { return Ok(Paced::Ready) };
    let rest = shared.store().journal.rest(cadence);
    let decision = match rest {
        Rest::None => return Ok(Paced::Ready),
        Rest::Known(sleep) => Ok((sleep, false)),
        Rest::Due { after, was_out } => decided(&shared.store(), cadence, (after, was_out), is_begun)?,
    };
    let (sleep, sums_up) = match decision {
        Ok(sleep_and_sums_up) => sleep_and_sums_up,
        Err(reason) => return Ok(Paced::Ends(reason)),
    };
    shared.store().journal.pauses.sleep(sleep.clone());
    if sums_up {
        write_down(shared)?;
        return Ok(Paced::Waited);
    }
    let Some((pause, until)) = sleep.left(Timestamp::now()) else {
        if sleep.until.is_some() {
            wake(&mut shared.store(), sleep)?;
        }
        return Ok(Paced::Ready);
    };
    shared.store().write_journal()?;
    crash::point("sleep.noted");
    let id = shared.store().history.next_id();
    shared.emit(Event::Sleep { id, until, seconds: pause.as_secs_f64(), why: sleep.why.clone() })?;
    let pause = crash::pace(pause);
    let is_woken = || {
        let store = shared.store();
        ideas(&store) != sleep.ideas || store.messages.are_waiting(&store.journal)
    };
    let is_over = pause_for(shared, pause, until, is_woken).await?;
    if is_over && shared.asked()? == Interrupt::None {
        wake(&mut shared.store(), sleep)?;
        // With several seats, calls that ended during the pause do not need another one.
        return Ok(Paced::Rested);
    }
    Ok(Paced::Waited)
}

/// Notes that a pause is over.
fn wake(store: &mut Store, sleep: Sleep) -> Result<(), SessionError> {
    store.journal.pauses.wake(sleep);
    store.write_journal()?;
    crash::point("sleep.over");
    Ok(())
}

/// The pause that follows the iteration `after`, one that is over for none, and whether the session is written down and summed
/// up before it; or why the loop ends.
fn decided(
    store: &Store,
    cadence: Cadence,
    (after, was_out): (u32, bool),
    is_begun: bool,
) -> Result<Result<(Sleep, bool), StopReason>, SessionError> {
    let last = store.history.records().last().filter(|record| !record.id.is_baseline());
    let added_files = match (cadence, last) {
        (Cadence::Adaptive, Some(record)) => adds_files(store, record)?,
        _ => false,
    };
    let (pause, why, sums_up) = match pace(&store.contract, &store.history, LastIteration { added_files, was_out }) {
        Pace::Go => (Duration::ZERO, String::new(), false),
        Pace::Pause { pause, why, sums_up } => (pause, why, sums_up),
        Pace::End(reason) => return Ok(Err(reason)),
    };
    let now = Timestamp::now();
    // A process that was killed before it noted the pause leaves the record, from which on it is.
    let from = last.filter(|_| is_begun).map_or(now, |record| record.finished.min(now));
    let until = SignedDuration::try_from(pause).ok().and_then(|pause| from.checked_add(pause).ok());
    let sleep = Sleep {
        after,
        cadence,
        until: Some(until.unwrap_or(Timestamp::MAX)),
        seconds: pause.as_secs_f64(),
        why,
        ideas: ideas(store),
    };
    Ok(Ok((sleep, sums_up)))
}

/// Returns whether the change of an experiment added a file.
fn adds_files(store: &Store, record: &Record) -> Result<bool, SessionError> {
    if !record.base.is_known() || !record.commit.is_known() {
        return Ok(false);
    }
    Ok(store.repo.objects.diff(&record.base, &record.commit)?.adds_files())
}

/// The length of the file of ideas, in bytes.
fn ideas(store: &Store) -> u64 {
    fs::metadata(IdeaFile::new(&store.repo.main_worktree()).path()).map_or(0, |meta| meta.len())
}
