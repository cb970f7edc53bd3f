//! What becomes of a job that is executed elsewhere. What the job wrote is the truth, the engine's word a hint.

use std::time::Duration;

/// The state of a job, as its engine tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    TimedOut,
    /// It needed more memory than it was given.
    OutOfMemory,
    /// Its node failed, or it had to make room for another job, and it does not go on.
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
    /// How often it was put back into the queue.
    pub restarts: u32,
}

/// An exit that the job wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenExit {
    /// True if a signal ended it, so that whoever sent the signal says what it means.
    pub by_signal: bool,
}

/// What is known of a job.
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

/// What becomes of a job.
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

/// Why a job ended without an exit of its own that counts.
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

/// How long a job that `ar` cancelled must be missing before it counts as ended.
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

/// What a job takes beyond its run and the grace of it: its start on the node.
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
