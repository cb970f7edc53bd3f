//! Recovery: the remaining steps of an attempt that was left open, and what becomes of a job that is executed
//! elsewhere. What the job wrote is the truth, the engine's word a hint.

use std::time::Duration;

use serde::Deserialize;

use crate::domain::Phase;

/// The number of restarts of a lost run on the same commit.
pub const LOST_RETRIES: u32 = 2;

/// The state of an open experiment's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunFound {
    /// It waits in the queue of an engine.
    Pending,
    /// It is still running.
    Going,
    /// It finished and wrote its exit.
    Over,
    /// It died without a trace.
    Gone,
    /// It never started.
    Unstarted,
}

impl RunFound {
    /// Returns whether it can be waited for: it is queued or running, or has finished.
    pub fn is_there(self) -> bool {
        matches!(self, RunFound::Pending | RunFound::Going | RunFound::Over)
    }
}

/// The facts about an open attempt: the journal's, and the real ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttemptFacts {
    /// The journal's step.
    pub phase: Phase,
    /// True for a run that waiting winners need, false for an experiment of its own.
    pub is_trial: bool,
    /// True if the journal has a draft of its record.
    pub has_draft: bool,
    /// True if its record ref exists.
    pub recorded: bool,
    /// Its run, or the guard that is next.
    pub run: RunFound,
    /// The number of starts of its run.
    pub runs: u32,
    /// True if the linked working tree of its run or guard is missing.
    pub tree_is_gone: bool,
}

/// One recovery step. Each can be repeated without harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// End what remains of the agent and of lost runs.
    EndJobs,
    /// Remove the results of its run or guard, so that it starts again.
    ForgetRun,
    /// Save the working tree, and reset it to the base, with the branch that follows it.
    Reset,
    /// Restore the last measured version in the working tree, for the agent to rework.
    BringBack,
    /// Let it wait for another call of the agent.
    AwaitCall,
    /// Let it wait for a slot.
    AwaitSlot,
    /// Check out the attempt's commit, with the branch that follows the working tree.
    CheckOut,
    /// Remove the remains of an earlier run, and enter a new one in the journal.
    Run,
    /// Continue from the journal's step: start or wait for the run or the guards; then measure, decide and record. Leave a
    /// rework to the loop.
    Finish,
    /// Write what is missing of its record: ref, row, branch, working tree and memory. Close it in the journal.
    Record,
    /// Record it as lost.
    RecordLost,
    /// Close it in the journal.
    Close,
}

/// Lists the remaining steps in order. A winner that waits needs none.
pub fn recover(found: AttemptFacts) -> Vec<Step> {
    use Step::{
        AwaitCall, AwaitSlot, BringBack, CheckOut, Close, EndJobs, Finish, ForgetRun, Record, RecordLost, Reset, Run,
    };
    match found.phase {
        Phase::Waiting => Vec::new(),
        // The record is the commit point: the experiment counts, whatever else happened.
        _ if found.recorded => vec![Record],
        Phase::Recording if found.has_draft => vec![Record],
        Phase::Idle => vec![Close],
        // The line asks for it again. Earlier versions had trials reworked.
        Phase::Proposing if found.is_trial => vec![EndJobs, Reset, Close],
        Phase::Committing if found.is_trial => vec![Close],
        Phase::Proposing if found.has_draft => vec![EndJobs, Reset, BringBack, AwaitCall],
        Phase::Proposing => vec![EndJobs, Reset, AwaitCall],
        Phase::Committing => vec![AwaitSlot],
        // The draft says whether the reviewer had answered.
        Phase::Reviewing => vec![EndJobs, CheckOut, Finish],
        // Should it be of use still, the loop begins it anew.
        Phase::Checking => vec![EndJobs, CheckOut, Close],
        // Nobody knows what it measured. Once the tree exists again, nothing tells that it was missing.
        _ if found.tree_is_gone => vec![EndJobs, ForgetRun, CheckOut, Finish],
        // Between fresh runs nothing is under way; `Finish` starts one again that was lost.
        Phase::Guarding | Phase::Confirming => match found.run {
            RunFound::Pending | RunFound::Going | RunFound::Over => vec![Finish],
            RunFound::Unstarted | RunFound::Gone => vec![EndJobs, CheckOut, Finish],
        },
        Phase::Running | Phase::Recording | Phase::Settling => match found.run {
            RunFound::Pending | RunFound::Going | RunFound::Over => vec![Finish],
            // Nothing was lost, however many starts the journal has.
            RunFound::Unstarted => vec![EndJobs, CheckOut, Finish],
            RunFound::Gone if found.runs <= LOST_RETRIES => vec![EndJobs, CheckOut, Run, Finish],
            RunFound::Gone => vec![EndJobs, CheckOut, RecordLost],
        },
    }
}

/// The state of a job, as its engine tells it; an engine of the user's by these words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// It waits in the queue, also again after it was put back.
    Pending,
    /// It is at work, or the engine says nothing that means an end.
    Running,
    /// It ended well.
    Done,
    /// It ended with an error.
    Failed,
    /// Somebody ended it.
    Cancelled,
    /// It reached the time limit of its engine.
    #[serde(rename = "timeout")]
    TimedOut,
    /// It needed more memory than it was given.
    #[serde(rename = "oom")]
    OutOfMemory,
    /// Its node failed, or it had to make room for another job, and it does not go on.
    #[serde(skip_deserializing)]
    Evicted,
    /// The engine says that it has lost it.
    Lost,
}

impl JobState {
    /// Returns whether the job has not ended.
    pub fn is_open(self) -> bool {
        matches!(self, JobState::Pending | JobState::Running)
    }
}

/// The engine's word about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineWord {
    /// Its state.
    pub state: JobState,
    /// Number of times that it was requeued.
    pub restarts: u32,
}

/// An exit that the job wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenExit {
    /// True if a signal ended it, so that whoever sent the signal says what it means.
    pub by_signal: bool,
}

/// The known state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownJob {
    /// The exit that it wrote, if any.
    pub exit: Option<WrittenExit>,
    /// How often it had been put back into the queue when it began, if it did. It begins once: what it left would be part of a second
    /// run.
    pub began: Option<u32>,
    /// True if it has been at work for longer than its own time limit allows.
    pub is_overdue: bool,
    /// The last word of the engine about it, if it had one and did not stop knowing it since.
    pub word: Option<EngineWord>,
    /// True if that word, or that it is not known, was asked for after the exit was seen.
    pub is_fresh: bool,
    /// For how long all answers of the engine have been without it, from the first of them to the last.
    pub absent: Option<Duration>,
    /// For how long the engine has been saying that it ended.
    pub over: Option<Duration>,
    /// True if its end was asked for here.
    pub is_cancelled: bool,
}

/// The fate of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It goes on, or it is too early to say.
    Open,
    /// The engine must be asked before the exit counts.
    Ask,
    /// It is over, with the exit that it wrote.
    Over,
    /// It ended without an exit of its own that counts, for this reason.
    Ended(LossCause),
}

/// The reason why a job has no exit that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LossCause {
    /// Its end was asked for here.
    Stopped,
    /// Somebody else cancelled it.
    Cancelled,
    /// The time limit of the engine.
    TimedOut,
    /// Too little memory.
    OutOfMemory,
    /// Its node, a job that needed its place, or somebody who put it back into the queue: it says nothing about the run, which is
    /// submitted anew and counts as no loss.
    Evicted,
    /// Nobody knows.
    Lost,
}

/// How long a file may take to be seen from another host, after the engine said that the job which wrote it has ended: the
/// longest that NFS clients keep what they know of a folder (`acdirmax`, 60 s by default).
pub const CACHED: Duration = Duration::from_secs(60);

/// The same on a file system of this host, where the job may still be ending.
pub const NOT_CACHED: Duration = Duration::from_secs(5);

/// Time for which a cancelled job must be missing before it counts as ended.
const CANCELLED: Duration = Duration::from_secs(10);

/// Says what becomes of a job. The engine may not know it for `lost_after`, and what it wrote is seen here after `seen_after` at most.
pub fn fate(known: &KnownJob, lost_after: Duration, seen_after: Duration) -> Fate {
    let KnownJob { exit, began, is_overdue, word, is_fresh, absent, over, is_cancelled } = *known;
    let state = word.map(|word| word.state);
    let patience = if is_cancelled { lost_after.min(CANCELLED) } else { lost_after };
    let is_lost = absent.is_some_and(|absent| absent >= patience);
    let is_requeued = word.zip(began).is_some_and(|(word, began)| word.restarts > began);
    if let Some(exit) = exit {
        if !exit.by_signal || is_cancelled {
            return Fate::Over;
        }
        return match state {
            _ if !is_fresh => Fate::Ask,
            Some(JobState::Pending | JobState::Evicted) => Fate::Ended(LossCause::Evicted),
            _ if is_requeued => Fate::Ended(LossCause::Evicted),
            // It is just about to end.
            Some(JobState::Running) => Fate::Ask,
            Some(JobState::TimedOut) => Fate::Ended(LossCause::TimedOut),
            Some(JobState::OutOfMemory) => Fate::Ended(LossCause::OutOfMemory),
            Some(JobState::Done | JobState::Failed | JobState::Cancelled | JobState::Lost) => Fate::Over,
            // The engine has forgotten it, and with it why the signal was sent.
            None if is_lost => Fate::Ended(LossCause::Lost),
            None => Fate::Ask,
        };
    }
    let seen = |cause| match over {
        Some(over) if over >= seen_after => Fate::Ended(cause),
        // Its shim writes an exit on the way out, and that may take a moment to be seen here.
        _ => Fate::Open,
    };
    match state {
        Some(state) if state.is_open() && is_requeued && !is_cancelled => Fate::Ended(LossCause::Evicted),
        Some(state) if state.is_open() && is_overdue => Fate::Ended(LossCause::Lost),
        Some(state) if state.is_open() => Fate::Open,
        None if is_lost => Fate::Ended(if is_cancelled { LossCause::Stopped } else { LossCause::Lost }),
        None => Fate::Open,
        Some(JobState::Cancelled) if is_cancelled => Fate::Ended(LossCause::Stopped),
        Some(JobState::Evicted) => Fate::Ended(LossCause::Evicted),
        Some(JobState::Lost) if over.is_none_or(|over| over < lost_after) => Fate::Open,
        Some(JobState::TimedOut) => seen(LossCause::TimedOut),
        Some(JobState::OutOfMemory) => seen(LossCause::OutOfMemory),
        Some(JobState::Cancelled) => seen(LossCause::Cancelled),
        Some(_) if is_cancelled => seen(LossCause::Stopped),
        Some(_) if is_requeued => seen(LossCause::Evicted),
        Some(_) => seen(LossCause::Lost),
    }
}

/// The shortest pause between two questions to the engine: controllers of clusters limit how often they are asked.
const SHORTEST_PAUSE: Duration = Duration::from_secs(2);

/// The longest pause between two questions while nothing changes.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The pause before the next question to the engine: `before` is the one that was kept, and `has_changed` says that the last
/// answer was a new one, or that something happened that asks for one. It grows by half from 2 s to 30 s.
pub fn next_pause(before: Option<Duration>, has_changed: bool) -> Duration {
    match before {
        Some(before) if !has_changed => (before * 3 / 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE),
        _ => SHORTEST_PAUSE,
    }
}

/// Time for the start of a job on its node, beyond run and grace.
pub const JOB_START: Duration = Duration::from_secs(60);

/// The time limit in options of `sbatch`; `None` without one, or for one that is none, such as `UNLIMITED`. The last one counts.
pub fn slurm_limit(options: &str) -> Option<Duration> {
    let words: Vec<&str> = options.split_ascii_whitespace().map(|word| word.trim_matches(['"', '\''])).collect();
    let value = |index: usize| {
        let word = words[index];
        match word {
            "--time" | "-t" => words.get(index + 1).copied(),
            _ => word.strip_prefix("--time=").or_else(|| word.strip_prefix("-t").filter(|_| !word.starts_with("--"))),
        }
    };
    let last = (0..words.len()).rev().find_map(value)?;
    // Zero means none.
    slurm_duration(last.trim_matches(['"', '\''])).filter(|limit| !limit.is_zero())
}

/// The option of `sbatch` among these that makes of a submission what cannot be found again as one job: another cluster, or an array.
pub fn slurm_refused(options: &str) -> Option<&str> {
    let is_refused = |word: &&str| {
        let name = word.split('=').next().unwrap_or_default();
        ["--clusters", "--cluster", "--array"].contains(&name)
            || (!word.starts_with("--") && (word.starts_with("-M") || word.starts_with("-a")))
    };
    options.split_ascii_whitespace().find(is_refused)
}

/// Reads a duration as `sbatch(1)` has it: `minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours`,
/// `days-hours:minutes` or `days-hours:minutes:seconds`.
pub fn slurm_duration(text: &str) -> Option<Duration> {
    let number = |text: &str| text.parse::<u64>().ok();
    let parts = |text: &str| text.split(':').map(number).collect::<Option<Vec<u64>>>();
    let seconds = match text.split_once('-') {
        Some((days, rest)) => {
            let (days, rest) = (number(days)?, parts(rest)?);
            let mut within = rest.iter().zip([3600, 60, 1]).map(|(count, unit)| count.checked_mul(unit));
            let within = within.try_fold(0u64, |sum, part| sum.checked_add(part?))?;
            days.checked_mul(86400)?.checked_add(within).filter(|_| rest.len() <= 3)?
        }
        None => match parts(text)?[..] {
            [minutes] => minutes.checked_mul(60)?,
            [minutes, seconds] => minutes.checked_mul(60)?.checked_add(seconds)?,
            [hours, minutes, seconds] => {
                hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?.checked_add(seconds)?
            }
            _ => return None,
        },
    };
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_leave_an_experiment_has_its_steps() {
        use Step::*;
        let found = |phase, recorded, run, runs| AttemptFacts { recorded, run, runs, ..left_in(phase) };
        let draft = |found| AttemptFacts { has_draft: true, ..found };
        for (left, steps) in [
            (found(Phase::Idle, false, RunFound::Gone, 0), vec![Close]),
            (found(Phase::Proposing, false, RunFound::Gone, 0), vec![EndJobs, Reset, AwaitCall]),
            (found(Phase::Committing, false, RunFound::Gone, 0), vec![AwaitSlot]),
            (found(Phase::Running, false, RunFound::Going, 1), vec![Finish]),
            (found(Phase::Running, false, RunFound::Over, 1), vec![Finish]),
            (found(Phase::Running, false, RunFound::Unstarted, 3), vec![EndJobs, CheckOut, Finish]),
            (found(Phase::Running, false, RunFound::Gone, 1), vec![EndJobs, CheckOut, Run, Finish]),
            (found(Phase::Running, false, RunFound::Gone, 2), vec![EndJobs, CheckOut, Run, Finish]),
            (found(Phase::Running, false, RunFound::Gone, 3), vec![EndJobs, CheckOut, RecordLost]),
            (draft(found(Phase::Proposing, false, RunFound::Over, 0)), vec![EndJobs, Reset, BringBack, AwaitCall]),
            (draft(found(Phase::Committing, false, RunFound::Over, 0)), vec![AwaitSlot]),
            (draft(found(Phase::Running, false, RunFound::Gone, 1)), vec![EndJobs, CheckOut, Run, Finish]),
            (draft(found(Phase::Guarding, false, RunFound::Going, 1)), vec![Finish]),
            (draft(found(Phase::Guarding, false, RunFound::Over, 1)), vec![Finish]),
            (draft(found(Phase::Guarding, false, RunFound::Gone, 1)), vec![EndJobs, CheckOut, Finish]),
            (draft(found(Phase::Guarding, false, RunFound::Unstarted, 1)), vec![EndJobs, CheckOut, Finish]),
            (draft(found(Phase::Guarding, true, RunFound::Over, 1)), vec![Record]),
            (draft(found(Phase::Confirming, false, RunFound::Going, 1)), vec![Finish]),
            (draft(found(Phase::Confirming, false, RunFound::Over, 1)), vec![Finish]),
            (draft(found(Phase::Confirming, false, RunFound::Gone, 3)), vec![EndJobs, CheckOut, Finish]),
            (draft(found(Phase::Confirming, false, RunFound::Unstarted, 0)), vec![EndJobs, CheckOut, Finish]),
            (draft(found(Phase::Confirming, true, RunFound::Over, 1)), vec![Record]),
            (draft(found(Phase::Reviewing, false, RunFound::Over, 1)), vec![EndJobs, CheckOut, Finish]),
            (found(Phase::Checking, false, RunFound::Over, 0), vec![EndJobs, CheckOut, Close]),
            (draft(found(Phase::Recording, false, RunFound::Over, 1)), vec![Record]),
            (found(Phase::Recording, false, RunFound::Over, 1), vec![Finish]),
            (found(Phase::Recording, true, RunFound::Over, 1), vec![Record]),
            (found(Phase::Settling, true, RunFound::Over, 1), vec![Record]),
            (found(Phase::Settling, true, RunFound::Gone, 1), vec![Record]),
        ] {
            assert_eq!(recover(left), steps, "{left:?}");
        }
    }

    #[test]
    fn every_way_to_leave_an_attempt_beside_others_has_its_steps() {
        use Step::*;
        let found = |phase| AttemptFacts { run: RunFound::Going, runs: 1, ..left_in(phase) };
        let draft = |found| AttemptFacts { has_draft: true, ..found };
        let trial = |found| AttemptFacts { is_trial: true, ..found };
        let no_tree = |found| AttemptFacts { tree_is_gone: true, ..found };
        for (left, steps) in [
            (trial(found(Phase::Committing)), vec![Close]),
            (trial(draft(found(Phase::Proposing))), vec![EndJobs, Reset, Close]),
            (trial(draft(found(Phase::Committing))), vec![Close]),
            (found(Phase::Running), vec![Finish]),
            (draft(found(Phase::Guarding)), vec![Finish]),
            (no_tree(found(Phase::Running)), vec![EndJobs, ForgetRun, CheckOut, Finish]),
            (no_tree(draft(found(Phase::Guarding))), vec![EndJobs, ForgetRun, CheckOut, Finish]),
            (draft(found(Phase::Waiting)), vec![]),
            (no_tree(draft(trial(found(Phase::Waiting)))), vec![]),
            (AttemptFacts { recorded: true, ..draft(found(Phase::Waiting)) }, vec![]),
            (draft(found(Phase::Recording)), vec![Record]),
            (draft(trial(found(Phase::Recording))), vec![Record]),
        ] {
            assert_eq!(recover(left), steps, "{left:?}");
        }
    }

    fn left_in(phase: Phase) -> AttemptFacts {
        AttemptFacts {
            phase,
            is_trial: false,
            has_draft: false,
            recorded: false,
            run: RunFound::Unstarted,
            runs: 0,
            tree_is_gone: false,
        }
    }

    const LOST: Duration = Duration::from_secs(300);

    fn fate(known: &KnownJob, lost_after: Duration) -> Fate {
        super::fate(known, lost_after, CACHED)
    }

    fn known() -> KnownJob {
        KnownJob {
            exit: None,
            began: Some(0),
            is_overdue: false,
            word: None,
            is_fresh: true,
            absent: None,
            over: None,
            is_cancelled: false,
        }
    }

    fn word(state: JobState) -> KnownJob {
        let over = (!state.is_open()).then_some(Duration::ZERO);
        KnownJob { word: Some(EngineWord { state, restarts: 0 }), over, ..known() }
    }

    fn secs(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn an_exit_without_a_signal_is_the_truth_whatever_the_engine_says() {
        let exit = Some(WrittenExit { by_signal: false });
        use JobState::*;
        for state in [Pending, Running, Done, Failed, Cancelled, TimedOut, OutOfMemory, Evicted, Lost] {
            assert_eq!(fate(&KnownJob { exit, ..word(state) }, LOST), Fate::Over, "{state:?}");
        }
        assert_eq!(fate(&KnownJob { exit, is_fresh: false, ..known() }, LOST), Fate::Over);
    }

    #[test]
    fn an_exit_by_a_signal_means_what_the_engine_did() {
        let exit = Some(WrittenExit { by_signal: true });
        for (state, expected) in [
            (JobState::Pending, Fate::Ended(LossCause::Evicted)),
            (JobState::Running, Fate::Ask),
            (JobState::Done, Fate::Over),
            (JobState::Failed, Fate::Over),
            (JobState::Cancelled, Fate::Over),
            (JobState::TimedOut, Fate::Ended(LossCause::TimedOut)),
            (JobState::OutOfMemory, Fate::Ended(LossCause::OutOfMemory)),
            (JobState::Evicted, Fate::Ended(LossCause::Evicted)),
        ] {
            assert_eq!(fate(&KnownJob { exit, ..word(state) }, LOST), expected, "{state:?}");
            let old = KnownJob { exit, is_fresh: false, ..word(state) };
            assert_eq!(fate(&old, LOST), Fate::Ask, "an answer of before: {state:?}");
            let own = KnownJob { exit, is_cancelled: true, ..word(state) };
            assert_eq!(fate(&own, LOST), Fate::Over, "asked for here: {state:?}");
        }
        assert_eq!(fate(&KnownJob { exit, absent: secs(299), ..known() }, LOST), Fate::Ask);
        assert_eq!(fate(&KnownJob { exit, absent: secs(300), ..known() }, LOST), Fate::Ended(LossCause::Lost));
    }

    #[test]
    fn a_job_that_was_put_back_into_the_queue_does_not_go_on_there() {
        let again = |state, began| KnownJob { began, word: Some(EngineWord { state, restarts: 1 }), ..word(state) };
        for state in [JobState::Pending, JobState::Running] {
            assert_eq!(fate(&again(state, Some(0)), LOST), Fate::Ended(LossCause::Evicted), "{state:?}");
            // Put back before it began, or begun since.
            assert_eq!(fate(&again(state, None), LOST), Fate::Open, "{state:?}");
            assert_eq!(fate(&again(state, Some(1)), LOST), Fate::Open, "{state:?}");
        }
        let over = |began| fate(&KnownJob { over: secs(60), ..again(JobState::Done, began) }, LOST);
        assert_eq!(over(Some(0)), Fate::Ended(LossCause::Evicted));
        assert_eq!(over(Some(1)), Fate::Ended(LossCause::Lost));
        let exit = Some(WrittenExit { by_signal: true });
        assert_eq!(fate(&KnownJob { exit, ..again(JobState::Done, Some(0)) }, LOST), Fate::Ended(LossCause::Evicted));
        assert_eq!(fate(&KnownJob { exit, ..again(JobState::Done, Some(1)) }, LOST), Fate::Over);
    }

    #[test]
    fn a_job_that_is_said_to_run_past_its_own_limit_is_lost() {
        let late = KnownJob { is_overdue: true, ..word(JobState::Running) };
        assert_eq!(fate(&late, LOST), Fate::Ended(LossCause::Lost));
        let exit = Some(WrittenExit { by_signal: false });
        assert_eq!(fate(&KnownJob { exit, ..late }, LOST), Fate::Over);
    }

    #[test]
    fn a_job_is_lost_only_after_it_was_missing_for_long_and_never_by_one_answer() {
        for (absent, expected) in [
            (None, Fate::Open),
            (secs(0), Fate::Open),
            (secs(299), Fate::Open),
            (secs(300), Fate::Ended(LossCause::Lost)),
        ] {
            assert_eq!(fate(&KnownJob { absent, ..known() }, LOST), expected, "{absent:?}");
        }
        let cancelled = |absent| fate(&KnownJob { absent, is_cancelled: true, ..known() }, LOST);
        assert_eq!((cancelled(secs(9)), cancelled(secs(10))), (Fate::Open, Fate::Ended(LossCause::Stopped)));
    }

    #[test]
    fn an_end_without_an_exit_waits_for_what_another_host_may_have_written() {
        for (state, cause) in [
            (JobState::Done, LossCause::Lost),
            (JobState::Failed, LossCause::Lost),
            (JobState::TimedOut, LossCause::TimedOut),
            (JobState::OutOfMemory, LossCause::OutOfMemory),
            (JobState::Cancelled, LossCause::Cancelled),
        ] {
            assert_eq!(fate(&KnownJob { over: secs(59), ..word(state) }, LOST), Fate::Open, "{state:?}");
            assert_eq!(fate(&KnownJob { over: secs(60), ..word(state) }, LOST), Fate::Ended(cause), "{state:?}");
        }
        assert_eq!(fate(&word(JobState::Evicted), LOST), Fate::Ended(LossCause::Evicted));
        let own = KnownJob { is_cancelled: true, ..word(JobState::Cancelled) };
        assert_eq!(fate(&own, LOST), Fate::Ended(LossCause::Stopped));
        let lost = |over| fate(&KnownJob { over, ..word(JobState::Lost) }, LOST);
        assert_eq!((lost(secs(299)), lost(secs(300))), (Fate::Open, Fate::Ended(LossCause::Lost)));
    }

    #[test]
    fn questions_become_rare_while_nothing_changes() {
        let mut pauses = vec![next_pause(None, false)];
        while pauses.len() < 9 {
            pauses.push(next_pause(pauses.last().copied(), false));
        }
        let seconds: Vec<f64> = pauses.iter().map(Duration::as_secs_f64).collect();
        assert_eq!(seconds, [2.0, 3.0, 4.5, 6.75, 10.125, 15.1875, 22.78125, 30.0, 30.0]);
        assert_eq!(next_pause(pauses.last().copied(), true), SHORTEST_PAUSE);
    }

    #[test]
    fn what_is_no_single_job_of_this_cluster_is_refused() {
        for (options, refused) in [
            ("-p gpu --array=1-4", Some("--array=1-4")),
            ("-M other", Some("-M")),
            ("--clusters other", Some("--clusters")),
            ("-a0-3", Some("-a0-3")),
            ("-p gpu --account a -A b --mem 4G", None),
        ] {
            assert_eq!(slurm_refused(options), refused, "{options}");
        }
    }

    #[test]
    fn a_limit_is_read_in_all_its_forms() {
        for (options, seconds) in [
            ("--time 20", 1200),
            ("--time=20 --gres gpu:1", 1200),
            ("-t 1:30", 90),
            ("-t1:00:00", 3600),
            ("-p gpu --time '1-12'", 36 * 3600),
            ("--time=1-0:30", 86400 + 1800),
            ("--time=0-0:0:5", 5),
            ("--time 5 --time 6", 360),
        ] {
            assert_eq!(slurm_limit(options), Some(Duration::from_secs(seconds)), "{options}");
        }
        for options in
            ["", "--time=0", "-p gpu", "--time UNLIMITED", "--time", "--time-min=5", "--test-only", "--time=1:2:3:4"]
        {
            assert_eq!(slurm_limit(options), None, "{options}");
        }
    }
}

#[cfg(test)]
#[path = "recover/recovery_world.rs"]
mod world;

#[cfg(test)]
#[path = "recover/recovery_tests.rs"]
mod interleavings;
