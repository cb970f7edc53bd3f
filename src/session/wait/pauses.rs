//! Pauses of the loop: between two experiments as the cadence says, in an outage of the agent, and the time that is left.

use std::fs;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{Heartbeat, SessionContext, escalate_outage, has_newer_messages, write_down};
use crate::crash;
use crate::domain::{Cadence, Event, Outage, Record, StopReason, exact_time, moment_text};
use crate::rules::{
    LastIteration, LoopEnd, Pace, Patience, expected_run, idle_limit, kept_to_verify, nearest_end, pace, patience,
    pause_after_idle, pause_on, stop_before_experiment, stop_for_time, to_verify, verified_without_end,
};
use crate::session::errors::SessionError;
use crate::session::store::{Interrupt, Store};
use crate::state::{IdeaFile, Rest, Sleep};

/// The next step before a call of the agent.
pub(crate) enum PauseOutcome {
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
pub(crate) async fn keep_pace(shared: &SessionContext<'_>, is_begun: bool) -> Result<PauseOutcome, SessionError> {
    let Some(cadence) = shared.store().contract.cadence else { return Ok(PauseOutcome::Ready) };
    let rest = shared.store().journal.rest(cadence);
    let decision = match rest {
        Rest::None => return Ok(PauseOutcome::Ready),
        Rest::Known(sleep) => Ok((sleep, false)),
        Rest::Due { after, was_out } => decided(&shared.store(), cadence, (after, was_out), is_begun)?,
    };
    let (sleep, sums_up) = match decision {
        Ok(sleep_and_sums_up) => sleep_and_sums_up,
        Err(reason) => return Ok(PauseOutcome::Ends(reason)),
    };
    shared.store().journal.pauses.sleep(sleep.clone());
    if sums_up {
        write_down(shared)?;
        return Ok(PauseOutcome::Waited);
    }
    let Some((pause, until)) = sleep.left(Timestamp::now()) else {
        if sleep.until.is_some() {
            wake(&mut shared.store(), sleep)?;
        }
        return Ok(PauseOutcome::Ready);
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
        return Ok(PauseOutcome::Rested);
    }
    Ok(PauseOutcome::Waited)
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
    let from = last.filter(|_| is_begun).map_or(now, |record| record.origin.finished.min(now));
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
    fs::metadata(IdeaFile::new(store.repo.main_worktree()).path()).map_or(0, |meta| meta.len())
}

/// Waits until the agent is to be called again, at most until the end of this invocation. Any request ends it at once.
/// Returns why the loop stops if the outage takes too long.
pub(crate) async fn wait_out(shared: &SessionContext<'_>) -> Result<Option<StopReason>, SessionError> {
    let found = {
        let store = shared.store();
        store.journal.outage(&store.history)
    };
    let Some((open, so_far)) = found else { return Ok(None) };
    let now = Timestamp::now();
    let limit = shared.store().contract.outage_limit;
    let pause = match patience(&open.outage, so_far, limit, now) {
        Patience::Wait(pause) => pause,
        Patience::GiveUp if escalate_outage(shared, &open)? => pause_on(&open.outage, so_far, now),
        Patience::GiveUp => {
            if open.waits == 0 {
                let (id, outage) = (shared.store().history.next_id(), open.outage.clone());
                shared.emit(Event::Outage { id, outage, again: None, waits: 0, seconds: open.seconds })?;
            }
            let Outage { kind, said, until } = open.outage;
            let until_text = until.map(moment_text);
            return Ok(Some(StopReason::Outage { reason: kind, said, until, until_text, seconds: open.seconds }));
        }
    };
    let until = SignedDuration::try_from(pause).ok().and_then(|pause| now.checked_add(pause).ok());
    let again = until.unwrap_or(Timestamp::MAX);
    let (id, waits, seconds) = (shared.store().history.next_id(), open.waits, open.seconds);
    shared.store().journal.pauses.wait_out(until);
    shared.store().write_journal()?;
    crash::point("outage.noted");
    shared.emit(Event::Outage { id, outage: open.outage, again: Some(again), waits, seconds })?;

    pause_unless_told(shared, pause, again).await?;
    let store = &mut *shared.store();
    store.journal.pauses.wait_no_more();
    store.write_journal()?;
    crash::point("outage.waited");
    Ok(None)
}

/// Waits before the next call if the last ones changed nothing and were short; the last took so many seconds.
pub(crate) async fn pause_when_idle(shared: &SessionContext<'_>, seconds: f64) -> Result<(), SessionError> {
    let (idle_calls, most_calls, limit) = {
        let store = shared.store();
        let limit = idle_limit(&store.contract, store.journal.has_change(&store.history));
        (store.journal.calls.idle(), store.journal.most_calls(), limit)
    };
    // Each agent has its own row of calls.
    let in_a_row = idle_calls.div_ceil(most_calls);
    let pause = crash::pace(pause_after_idle(in_a_row, seconds));
    let goes_on = limit == 0 || idle_calls / most_calls < limit;
    if idle_calls == most_calls + 1 && goes_on {
        shared.emit(format!(
            "the agent changed nothing twice in a row; calling it again after pauses of up to 5 minutes{}",
            if limit > 0 { format!(", and stopping after {limit} such calls (--max-idle)") } else { String::new() }
        ))?;
    }
    let until = SignedDuration::try_from(pause).ok().and_then(|pause| Timestamp::now().checked_add(pause).ok());
    let until = until.unwrap_or(Timestamp::MAX);
    if !pause.is_zero() {
        if goes_on {
            let id = shared.store().history.next_id();
            let seconds = pause.as_secs_f64();
            shared.emit(Event::IdlePause { id, until, seconds, idle_calls: in_a_row, max_idle: limit })?;
        }
        pause_unless_told(shared, pause, until).await?;
    }
    Ok(())
}

/// Waits like [`pause_for`], until the user says something new.
async fn pause_unless_told(shared: &SessionContext<'_>, pause: Duration, again: Timestamp) -> Result<(), SessionError> {
    pause_for(shared, pause, again, has_newer_messages(shared)).await.map(drop)
}

/// Waits for so long, or until that moment, at most until the end of this invocation. Any request, and what `is_woken`
/// says, end it at once. Returns whether it is over, instead of cut short by a request or by the end of this invocation.
pub(crate) async fn pause_for(
    shared: &SessionContext<'_>,
    pause: Duration,
    again: Timestamp,
    is_woken: impl Fn() -> bool,
) -> Result<bool, SessionError> {
    let id = shared.store().history.next_id();
    let began = Instant::now();
    let whole = began.checked_add(pause).unwrap_or(began);
    let (mut heartbeat, mut noted) = (Heartbeat::new(), began);
    let mut note = || {
        shared.store().journal.pauses.note_lasted(noted.elapsed().as_secs_f64());
        noted = Instant::now();
        noted
    };
    let is_over = loop {
        let noted = note();
        // A machine that slept meanwhile does not wait on.
        if noted >= whole || Timestamp::now() >= again || is_woken() {
            break true;
        }
        shared.heartbeat(&mut heartbeat, || json!({"experiment": id, "waiting_until": exact_time(again)}))?;
        if !shared.pause(whole - noted).await? {
            break false;
        }
    };
    note();
    Ok(is_over)
}

/// Measures the time from a moment on. One clock stands still while the machine sleeps, the other may be set; the greater
/// time counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    at: Instant,
    started: Timestamp,
}

impl Stopwatch {
    /// Begins now.
    pub(crate) fn begin(store: &Store) -> Stopwatch {
        Stopwatch { at: Instant::now(), started: store.now() }
    }

    /// The time since then.
    pub(crate) fn elapsed(&self, store: &Store) -> Duration {
        let by_the_wall = Duration::try_from(store.now().duration_since(self.started)).unwrap_or_default();
        self.at.elapsed().max(by_the_wall)
    }
}

/// When an invocation of the loop began; never for `ar try`, which has no end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Began(Option<BegunLoop>);

#[derive(Debug, Clone, Copy)]
struct BegunLoop {
    watch: Stopwatch,
    /// Time from the start to the end of the night by `--for`.
    budget: Option<Duration>,
    /// Time from the start to the time of day at which the night ends.
    until: Option<Duration>,
    /// True if the time for experiments was over by then.
    is_late: bool,
}

impl Began {
    /// Begins now, and gives the time of day at which the night ends, if it does so at one.
    pub(crate) fn begin(store: &Store) -> (Began, Option<Timestamp>) {
        let watch = Stopwatch::begin(store);
        let night = store.journal.expenses.night(&store.contract);
        let (budget, until) = night.left(watch.started);
        let mut times = Began(Some(BegunLoop { watch, budget, until, is_late: false }));
        let is_late = times.end(store).is_some_and(|end| end.left.is_zero());
        times.0.iter_mut().for_each(|begun| begun.is_late = is_late);
        (times, night.until)
    }

    /// Returns whether the time for experiments was over when this invocation began: then it only finishes what is open.
    pub(crate) fn began_late(&self) -> bool {
        self.0.is_some_and(|begun| begun.is_late)
    }

    /// Returns whether time counts, which is only so in a loop.
    pub(crate) fn are_counted(&self) -> bool {
        self.0.is_some()
    }

    /// When the experiments of this invocation end; never without a budget. The time to verify what was kept follows, once
    /// something was.
    pub(crate) fn end(&self, store: &Store) -> Option<LoopEnd> {
        let begun = self.0?;
        let mut end = nearest_end(&store.contract, begun.budget, begun.until, begun.watch.elapsed(store))?;
        if to_verify(&store.history).is_some() {
            end.left = end.left.saturating_sub(kept_to_verify(&store.contract, begun.budget, begun.until));
        }
        Some(end)
    }

    /// The time left to verify what the night kept, now that its loop is over.
    pub(crate) fn left_to_verify(&self, store: &Store) -> Duration {
        let Some(begun) = self.0 else { return Duration::ZERO };
        let elapsed = begun.watch.elapsed(store);
        match nearest_end(&store.contract, begun.budget, begun.until, elapsed) {
            Some(end) => kept_to_verify(&store.contract, begun.budget, begun.until).min(end.left),
            None => verified_without_end(&store.contract, elapsed),
        }
    }

    /// The reason to stop if no time is left for another experiment.
    pub(crate) fn no_time_for_experiment(&self, store: &Store) -> Option<StopReason> {
        stop_before_experiment(self.end(store).as_ref(), &store.history)
    }

    /// The reason to stop if no time is left for another run.
    pub(crate) fn no_time_for_run(&self, store: &Store) -> Option<StopReason> {
        stop_for_time(self.end(store).as_ref(), expected_run(&store.history))
    }
}
