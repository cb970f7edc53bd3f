//! The events of the loop. Terminal, NDJSON and event logs consume the same ones.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Time;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    CommitId, Directive, EnvironmentChange, ExperimentId, GuardRun, Notice, Number, Outage, OutageKind, Record, Review,
    Role, RunRole, Tag, ToldStep, TriedDirection, Trouble, clock_time, count_of, duration_text, experiment_name,
    time_of_day_text,
};

/// The version of events in NDJSON and of alerts that this program writes.
pub const EVENT_VERSION: u32 = 1;

/// The reason that the loop ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum StopReason {
    /// The night reached its limit of experiments.
    MaxExperiments {
        /// The limit.
        limit: u32,
        /// The number of experiments; above the limit if the user lowered it.
        experiments: u32,
    },
    /// The time limit of this invocation was reached.
    Budget {
        /// The time, in seconds.
        seconds: f64,
    },
    /// The time of day at which this invocation stops has come.
    Until {
        /// The time, on the user's clock.
        time: Time,
    },
    /// The remaining time is too short for the next step.
    NoTime {
        /// The remaining time, in seconds.
        left: f64,
        /// The time needed, in seconds, estimated from the session's own durations.
        needed: f64,
        /// The limit that ends it.
        end: Box<StopReason>,
    },
    /// The session has no agent, and its baseline is measured.
    NoAgent,
    /// The session is flagged for review and set to stop then.
    Flagged {
        /// The experiment after which it was flagged.
        after: ExperimentId,
        /// The directions tried, newest first, without experiments that named none.
        tried: Vec<TriedDirection>,
        /// The instructions at each step of the ladder since the last keep.
        told: Vec<ToldStep>,
    },
    /// An outage of the agent exceeds its limit, or will.
    Outage {
        /// The cause.
        reason: OutageKind,
        /// The line of output that reports it.
        said: String,
        /// When it ends, if the agent names a time.
        #[serde(serialize_with = "crate::domain::millis::option::serialize")]
        until: Option<Timestamp>,
        /// The same on the user's clock, as read when the loop ends.
        #[serde(skip)]
        until_text: Option<String>,
        /// Its duration so far, in seconds.
        seconds: f64,
    },
    /// The agent's shim was killed each time.
    Agent {
        /// Its result.
        detail: String,
    },
    /// The user requested it.
    Interrupted {
        /// True for `ar stop`, false for a signal.
        requested: bool,
    },
    /// A SIGTERM ended it, as at the shutdown of the machine.
    Terminated,
    /// The loop met an error from which it cannot recover.
    Error {
        /// The error, as text.
        detail: String,
    },
    /// The terminal closed; an active run continues by itself.
    Detached,
    /// A bound that a stop rule watches is reached.
    #[serde(untagged)]
    Reached(Reached),
}

/// A bound at which a stop rule ends a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The goal of the metric.
    Goal,
    /// Crashes in a row.
    Crashes,
    /// Calls without a change in a row.
    NoChange,
    /// Changes of the night that were refused.
    Refusals,
    /// The rule `kill` on the course of the values.
    Kill,
    /// The rule `kill2`.
    Kill2,
    /// The rule `plateau`.
    Plateau,
    /// The rule `above`.
    Above,
    /// The cost of the night's calls.
    MaxCost,
    /// The tokens of the night's calls.
    MaxTokens,
    /// The cost of the session's calls.
    SessionMaxCost,
    /// The tokens of the session's calls.
    SessionMaxTokens,
    /// The experiments of the session.
    SessionMaxExperiments,
    /// A cadence whose pause never ends.
    Cadence,
}

/// A bound of the session that is reached, in the words of its rule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reached {
    /// The rule.
    #[serde(rename = "kind")]
    pub rule: Bound,
    /// The numbers that it compares, by name.
    #[serde(flatten)]
    pub numbers: Map<String, Value>,
    /// The end of a sentence that begins with `stopped:`.
    #[serde(skip)]
    pub text: String,
    /// True if the session is done as asked; else it needs its user.
    #[serde(skip)]
    pub is_done: bool,
}

/// The number of directions listed when a flag stops the loop.
const TRIED: usize = 20;

impl StopReason {
    /// The reason of a rule. `is_done` says that the session ended as asked, `numbers` were compared, and `text` follows
    /// `stopped:`.
    pub fn reached(rule: Bound, is_done: bool, numbers: Value, text: String) -> StopReason {
        let numbers = numbers.as_object().cloned().unwrap_or_default();
        StopReason::Reached(Reached { rule, numbers, text, is_done })
    }

    /// Returns whether it is the reason of this rule.
    pub fn is_rule(&self, rule: Bound) -> bool {
        matches!(self, StopReason::Reached(reached) if reached.rule == rule)
    }

    /// Returns whether it is a rule on the course of the values, which the user can replace with another.
    pub fn is_of_course(&self) -> bool {
        [Bound::Kill, Bound::Kill2, Bound::Plateau, Bound::Above].into_iter().any(|rule| self.is_rule(rule))
    }

    /// Its `Display` text on one line, without the lists below it.
    pub fn in_short(&self) -> String {
        match self {
            StopReason::Flagged { after, .. } => format!("flagged for review after {}", experiment_name(*after)),
            reason => reason.to_string().lines().next().unwrap_or_default().to_owned(),
        }
    }
}

impl fmt::Display for StopReason {
    /// Completes a sentence that begins with `stopped:`, followed by lines with what was tried.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopReason::MaxExperiments { limit, experiments } if experiments > limit => {
                let made = count_of(*experiments, "experiment");
                write!(f, "the night already has {made}, and its limit is {limit}")
            }
            StopReason::MaxExperiments { limit, .. } => {
                write!(f, "the night reached its limit of {}", count_of(*limit, "experiment"))
            }
            StopReason::Budget { seconds } => {
                write!(f, "time limit of {} reached", duration_text(Duration::from_secs_f64(seconds.max(0.0))))
            }
            StopReason::Until { time } => write!(f, "it is {}", time_of_day_text(*time)),
            StopReason::NoTime { left, needed, end } => {
                let text = |seconds: f64| duration_text(Duration::from_secs_f64(seconds.max(0.0).ceil()));
                let end = match &**end {
                    StopReason::Until { time } => format!("before {}", time_of_day_text(*time)),
                    StopReason::Budget { seconds } => format!("of {}", text(*seconds)),
                    end => end.to_string(),
                };
                let (left, needed) = (text(*left), text(*needed));
                let much = if left == needed { "less than" } else { "only" };
                write!(f, "{much} {left} left {end}, but {needed} needed")
            }
            StopReason::NoAgent => f.write_str("the baseline is measured; no agent is set"),
            StopReason::Flagged { after, tried, told } => {
                let what = if tried.is_empty() { "" } else { "; tried, the newest first:" };
                write!(f, "flagged for review after {}{what}", experiment_name(*after))?;
                list_tried(f, tried)?;
                if !told.is_empty() {
                    f.write_str("\n   told the agent since the last keep:")?;
                }
                for ToldStep { after, directive } in told {
                    write!(f, "\n      after {}: {directive}", experiment_name(*after))?;
                }
                Ok(())
            }
            StopReason::Outage { reason, said, until_text, seconds, .. } => {
                match until_text {
                    Some(until) => write!(f, "{reason} until {until}, longer than --outage-limit allows")?,
                    None => write!(f, "{reason}, for {}", clock_time(*seconds))?,
                }
                if !said.is_empty() {
                    write!(f, "; last output: {said}")?;
                }
                write!(f, "\n      {}; then run `ar resume` to continue", reason.remedy())
            }
            StopReason::Agent { detail } => write!(f, "the agent cannot be started ({detail})"),
            StopReason::Interrupted { requested: true } => f.write_str("on request"),
            StopReason::Interrupted { requested: false } => f.write_str("interrupted"),
            StopReason::Terminated => f.write_str("terminated by a signal"),
            StopReason::Error { detail } => f.write_str(detail),
            StopReason::Detached => f.write_str("terminal closed; run `ar resume` to continue"),
            StopReason::Reached(reached) => f.write_str(&reached.text),
        }
    }
}

fn list_tried(f: &mut fmt::Formatter<'_>, tried: &[TriedDirection]) -> fmt::Result {
    for tried in tried.iter().take(TRIED) {
        let best = tried.best.as_ref().map_or("no number".into(), |best| format!("best {best}"));
        let count = count_of(tried.experiments, "experiment");
        write!(f, "\n      {}: {count}, {} kept, {best}", tried.direction, tried.kept)?;
    }
    match tried.len().saturating_sub(TRIED) {
        0 => Ok(()),
        left => write!(f, "\n      and {} more", count_of(left, "direction")),
    }
}

/// One event of a session.
#[derive(Debug, Clone, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case", tag = "event")]
#[strum(serialize_all = "snake_case")]
pub enum Event {
    /// A session was opened or continued.
    SessionStarted {
        /// Its tag.
        tag: Tag,
        /// The branch's tip.
        tip: CommitId,
        /// The number of its experiments, without the baseline.
        experiments: u32,
        /// True if it existed before.
        continued: bool,
    },
    /// Information that requires no action.
    Notice(Notice),
    /// The session continues in another environment than its incumbent's; values are not comparable.
    EnvironmentChanged {
        /// The incumbent.
        incumbent: ExperimentId,
        /// The differences.
        changes: Vec<EnvironmentChange>,
    },
    /// `ar` saved uncommitted changes of others before it restored the working tree.
    ChangesSaved {
        /// The ref that holds them.
        reference: String,
        /// The paths.
        paths: Vec<String>,
    },
    /// The agent was called.
    AgentStarted {
        /// The experiment that it should propose.
        id: ExperimentId,
    },
    /// The agent finished.
    AgentFinished {
        /// The experiment that it should propose.
        id: ExperimentId,
        /// Its duration, in seconds.
        seconds: f64,
        /// True if it changed anything.
        changed: bool,
        /// Its exit status; absent if a signal terminated it.
        exit: Option<i32>,
        /// True if `ar` terminated it at its time limit.
        timed_out: bool,
        /// Its last line of output, or empty.
        said: String,
    },
    /// The agent is unavailable; `ar` will retry.
    Outage {
        /// The experiment that it should propose.
        id: ExperimentId,
        /// The cause, the agent's message, and the end if it names one.
        #[serde(flatten)]
        outage: Outage,
        /// When `ar` retries; absent if the loop gives up at once.
        #[serde(serialize_with = "crate::domain::millis::option::serialize")]
        again: Option<Timestamp>,
        /// The number of waits so far.
        waits: u32,
        /// Its duration so far, in seconds.
        seconds: f64,
    },
    /// The agent is available again after an outage.
    OutageOver {
        /// The experiment that it should propose.
        id: ExperimentId,
        /// The duration of the outage, in seconds.
        seconds: f64,
    },
    /// The loop pauses before the next call of the agent.
    Sleep {
        /// The experiment that the agent should propose next.
        id: ExperimentId,
        /// When the pause ends.
        #[serde(serialize_with = "crate::domain::millis::serialize")]
        until: Timestamp,
        /// Its length, in seconds.
        seconds: f64,
        /// The reason for the pause, as a clause.
        why: String,
    },
    /// The loop pauses before it calls an agent again that changed nothing.
    IdlePause {
        /// The experiment that the agent should propose.
        id: ExperimentId,
        /// When the pause ends.
        #[serde(serialize_with = "crate::domain::millis::serialize")]
        until: Timestamp,
        /// Its length, in seconds.
        seconds: f64,
        /// The calls in a row without a change.
        idle_calls: u32,
        /// The number of them that ends the loop; 0 for none.
        max_idle: u32,
    },
    /// The user said something to the agents.
    Told {
        /// The number of the word.
        #[serde(rename = "word")]
        id: u32,
        /// The beginning of its text, on one line.
        text: String,
        /// True if each prompt contains it from now on.
        standing: bool,
    },
    /// The session met trouble that it cannot solve by itself.
    Escalated {
        /// The kind of trouble.
        kind: Trouble,
        /// The error with its causes.
        what: String,
        /// The action requested from the user.
        needed: String,
        /// Consecutive occurrences, from 1.
        times: u32,
        /// True if the session waits for an answer instead of stopping.
        waits: bool,
        /// The report; absent if the disk had no room for it.
        report: Option<PathBuf>,
    },
    /// The session continues after a wait for an answer.
    EscalationOver {
        /// The trouble that it waited for.
        kind: Trouble,
        /// The reason to continue.
        why: &'static str,
    },
    /// The search commands ran.
    Searched {
        /// The experiment that they ran for.
        id: ExperimentId,
        /// The number of commands that answered.
        answers: usize,
        /// The number of ideas that are new in the backlog.
        ideas: usize,
    },
    /// The state of the session was written to a file.
    Checkpoint {
        /// Its time, which is the file's name.
        #[serde(serialize_with = "crate::domain::millis::serialize")]
        at: Timestamp,
        /// The file.
        path: PathBuf,
    },
    /// The agent has summed the session up.
    Summary {
        /// The experiment that it should propose next.
        id: ExperimentId,
        /// The file.
        path: PathBuf,
        /// The time that writing took, in seconds.
        seconds: f64,
    },
    /// The agent has made a proposal for a pivot.
    Explored {
        /// The experiment that the next call should propose.
        id: ExperimentId,
        /// The agent's role.
        role: Role,
        /// The duration of the call, in seconds.
        seconds: f64,
    },
    /// `ar` started an experiment's run.
    RunStarted {
        /// The experiment.
        id: ExperimentId,
        /// Its commit.
        commit: CommitId,
        /// The change's description.
        description: String,
        /// The log.
        log: PathBuf,
        /// The deadline, in seconds from now.
        timeout: f64,
        /// The value to beat; absent where a threshold decides.
        incumbent: Option<Number>,
    },
    /// A fresh run begins, which decides on an experiment together with others.
    Confirming {
        /// The experiment that is decided on.
        id: ExperimentId,
        /// The purpose of the run; that of a baseline's run is to learn how noisy the numbers are.
        role: RunRole,
        /// Its seed.
        seed: Option<u64>,
        /// The number of fresh runs that the experiment has.
        done: u32,
        /// The most that it gets.
        most: u32,
    },
    /// A run is still active. No file contains this event.
    RunProgress {
        /// The experiment.
        id: ExperimentId,
        /// Its duration so far, in seconds.
        elapsed: f64,
        /// The last metric value in its log.
        last: Option<Number>,
    },
    /// `ar` started a guard of an experiment whose value would be kept.
    GuardStarted {
        /// The experiment.
        id: ExperimentId,
        /// The guard's command line.
        command: String,
        /// Its deadline, in seconds from now.
        timeout: f64,
    },
    /// A guard finished.
    GuardFinished {
        /// The experiment.
        id: ExperimentId,
        /// Its result.
        guard: GuardRun,
    },
    /// The reviewer was called for an experiment whose value would be kept, or is.
    ReviewStarted {
        /// The experiment.
        id: ExperimentId,
    },
    /// The reviewer finished.
    ReviewFinished {
        /// The experiment.
        id: ExperimentId,
        /// The reviewer's answer.
        review: Review,
        /// True if the experiment was already kept.
        late: bool,
    },
    /// `ar` is about to call the agent again for the same experiment.
    CalledAgain {
        /// The experiment.
        id: ExperimentId,
        /// The problem with its change.
        reason: String,
        /// Retry number, from 1.
        time: u32,
        /// The most retries allowed.
        limit: u32,
    },
    /// A run ended, and nothing is recorded of it yet: a winner waits for a train, or winners were tried together.
    RunFinished {
        /// The experiment, or the run for winners.
        id: ExperimentId,
        /// The change's description.
        description: String,
        /// One sentence that explains what came of it, with values.
        reason: String,
        /// Its value; absent if there is none that counts.
        value: Option<Number>,
        /// True for a run that measures waiting winners.
        trial: bool,
    },
    /// An experiment was recorded.
    ExperimentFinished {
        /// Its record.
        record: Box<Record>,
        /// The value to beat afterwards, with its experiment; absent where a threshold decides.
        incumbent: Option<(ExperimentId, Number)>,
        /// The reason to doubt its gain, as a clause, if there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        doubt: Option<String>,
    },
    /// The session is flagged for review.
    Flagged {
        /// The experiment after which it was flagged.
        after: ExperimentId,
        /// The number of times that it has been flagged.
        times: u32,
        /// The reason for the flag, as a clause.
        why: &'static str,
        /// The report to the user; absent where it could not be written.
        report: Option<PathBuf>,
    },
    /// The agent gets a new instruction.
    Directed {
        /// The experiment before it.
        after: ExperimentId,
        /// The instruction.
        directive: Directive,
    },
    /// The loop ended.
    SessionStopped {
        /// The reason to stop.
        reason: StopReason,
        /// The number of the session's experiments, without the baseline.
        experiments: u32,
    },
}

impl<T: Into<Notice>> From<T> for Event {
    fn from(notice: T) -> Event {
        Event::Notice(notice.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_was_lowered_below_what_there_is_was_not_reached() {
        for (limit, experiments, expected) in [
            (16, 20, "the night already has 20 experiments, and its limit is 16"),
            (20, 20, "the night reached its limit of 20 experiments"),
        ] {
            let reason = StopReason::MaxExperiments { limit, experiments };
            assert_eq!(reason.to_string(), expected);
            assert_eq!(serde_json::to_value(&reason).unwrap()["kind"], "max_experiments");
        }
    }
}
