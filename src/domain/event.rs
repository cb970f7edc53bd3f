//! What the loop tells whoever watches it: the terminal, NDJSON and the event logs consume the same events.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Time;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    CommitId, Directive, EnvironmentChange, GuardRun, Notice, Number, Outage, OutageKind, Record, Tag, ToldStep,
    TriedDirection, clock_time, count_of, duration_text, experiment_name, moment_text, time_of_day_text,
};

/// Why the loop ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum StopReason {
    /// The session has as many experiments as it may have.
    MaxExperiments {
        /// The cap.
        limit: u32,
        /// How many it has: more where the cap was lowered since.
        experiments: u32,
    },
    /// The time that was asked for is over.
    Budget {
        /// The time, in seconds.
        seconds: f64,
    },
    /// The time of day has come at which the call was to end.
    Until {
        /// The time, on the user's clock.
        time: Time,
    },
    /// What is left of the time is too short for what comes next.
    NoTime {
        /// What is left, in seconds.
        left: f64,
        /// What is needed, in seconds, by the session's own durations.
        needed: f64,
        /// What ends then.
        end: Box<StopReason>,
    },
    /// The session has no agent; its baseline is measured.
    NoAgent,
    /// The session is flagged for review, and its terms say to stop then.
    Flagged {
        /// The experiment after which it was.
        after: u32,
        /// What was tried, the newest first; experiments that named no direction are not in it.
        tried: Vec<TriedDirection>,
        /// What the agent was told at each step of the ladder since the last keep.
        told: Vec<ToldStep>,
    },
    /// An outage of the agent lasted longer than it may, or will.
    Outage {
        /// What keeps the agent from its work.
        reason: OutageKind,
        /// The line of its output that says so.
        said: String,
        /// When it is over, where the agent names that.
        #[serde(serialize_with = "crate::domain::millis::option::serialize")]
        until: Option<Timestamp>,
        /// How long it has lasted, in seconds.
        seconds: f64,
    },
    /// The agent's shim was killed each time.
    Agent {
        /// What it said.
        detail: String,
    },
    /// Somebody asked for it.
    Interrupted {
        /// Whether that was by `ar stop`, and not by a signal.
        requested: bool,
    },
    /// Something failed that the loop cannot get around.
    Error {
        /// What.
        detail: String,
    },
    /// The terminal is gone; a run that was going on goes on by itself.
    Detached,
    /// A bound that a stop rule watches is reached.
    #[serde(untagged)]
    Reached(Reached),
}

/// A bound of the session that is reached, in the words of its rule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reached {
    /// The rule's name.
    #[serde(rename = "kind")]
    pub rule: &'static str,
    /// What it compares, by name.
    #[serde(flatten)]
    pub numbers: Map<String, Value>,
    /// The end of a sentence that begins with `stopped:`.
    #[serde(skip)]
    pub text: String,
    /// Whether the session is done as asked; else it needs its user.
    #[serde(skip)]
    pub is_done: bool,
}

/// How many directions are listed when the loop stops for a flag.
const TRIED: usize = 20;

impl StopReason {
    /// The reason of a rule: whether the session is done as asked, what was compared, and the end of a sentence that begins
    /// with `stopped:`.
    pub fn reached(rule: &'static str, is_done: bool, numbers: Value, text: String) -> StopReason {
        let numbers = numbers.as_object().cloned().unwrap_or_default();
        StopReason::Reached(Reached { rule, numbers, text, is_done })
    }

    /// Whether it is the reason of this rule.
    pub fn is_rule(&self, name: &str) -> bool {
        matches!(self, StopReason::Reached(reached) if reached.rule == name)
    }

    /// The same as its `Display`, on one line and without what is listed below it.
    pub fn in_short(&self) -> String {
        match self {
            StopReason::Flagged { after, .. } => format!("flagged for review after {}", experiment_name(*after)),
            reason => reason.to_string().lines().next().unwrap_or_default().to_owned(),
        }
    }
}

impl fmt::Display for StopReason {
    /// The end of a sentence that begins with `stopped:`, and lines with what was tried under it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopReason::MaxExperiments { limit, experiments } if experiments > limit => {
                let made = count_of(*experiments, "experiment");
                write!(f, "the session already has {made}, and its limit is {limit}")
            }
            StopReason::MaxExperiments { limit, .. } => {
                write!(f, "the session reached its limit of {}", count_of(*limit, "experiment"))
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
                write!(f, "only {} left {end}, but {} needed", text(*left), text(*needed))
            }
            StopReason::NoAgent => f.write_str("the baseline is measured; no agent is set"),
            StopReason::Flagged { after, tried, told } => {
                let what = if tried.is_empty() { "" } else { "; tried, the newest first:" };
                write!(f, "flagged for review after {}{what}", experiment_name(*after))?;
                for tried in tried.iter().take(TRIED) {
                    let best = tried.best.as_ref().map_or("no number".into(), |best| format!("best {best}"));
                    let count = count_of(tried.experiments, "experiment");
                    write!(f, "\n      {}: {count}, {} kept, {best}", tried.direction, tried.kept)?;
                }
                let left = u32::try_from(tried.len().saturating_sub(TRIED)).unwrap_or(u32::MAX);
                if left > 0 {
                    write!(f, "\n      and {} more", count_of(left, "direction"))?;
                }
                if !told.is_empty() {
                    f.write_str("\n   told the agent since the last keep:")?;
                }
                for ToldStep { after, directive } in told {
                    write!(f, "\n      after {}: {directive}", experiment_name(*after))?;
                }
                Ok(())
            }
            StopReason::Outage { reason, said, until, seconds } => {
                match until {
                    Some(until) => {
                        write!(f, "{reason} until {}, longer than --outage-limit allows", moment_text(*until))?;
                    }
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
            StopReason::Error { detail } => f.write_str(detail),
            StopReason::Detached => f.write_str("terminal closed; run `ar resume` to continue"),
            StopReason::Reached(reached) => f.write_str(&reached.text),
        }
    }
}

/// One thing that happened in a session.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// A session was opened or continued.
    SessionStarted {
        /// Its tag.
        tag: Tag,
        /// The branch's tip.
        tip: CommitId,
        /// How many experiments it has, the baseline not counted.
        experiments: u32,
        /// Whether it was there before.
        continued: bool,
    },
    /// Something the user should know and need not act on.
    Notice(Notice),
    /// The session goes on in another place than its incumbent ran in; their numbers do not compare.
    EnvironmentChanged {
        /// The incumbent.
        incumbent: u32,
        /// What is different.
        changes: Vec<EnvironmentChange>,
    },
    /// Uncommitted changes that `ar` did not make were put away before the working tree was put back.
    ChangesSaved {
        /// The ref that holds them.
        reference: String,
        /// The paths.
        paths: Vec<String>,
    },
    /// The agent was called.
    AgentStarted {
        /// The experiment that it is to propose.
        id: u32,
    },
    /// The agent is done.
    AgentFinished {
        /// The experiment that it was to propose.
        id: u32,
        /// How long it worked, in seconds.
        seconds: f64,
        /// Whether there is a change.
        changed: bool,
        /// Its exit status; absent when a signal ended it.
        exit: Option<i32>,
        /// Whether it was ended because its time was over.
        timed_out: bool,
        /// Its last line of output; empty without one.
        said: String,
    },
    /// The agent cannot work, and is called again later.
    Outage {
        /// The experiment that it is to propose.
        id: u32,
        /// Why, what it said, and when that is over by its own words.
        #[serde(flatten)]
        outage: Outage,
        /// When it is called again.
        #[serde(serialize_with = "crate::domain::millis::serialize")]
        again: Timestamp,
        /// How often it was waited out before.
        waits: u32,
        /// How long it has lasted, in seconds.
        seconds: f64,
    },
    /// The agent works again after an outage.
    OutageOver {
        /// The experiment that it is to propose.
        id: u32,
        /// How long the outage lasted, in seconds.
        seconds: f64,
    },
    /// An experiment's run was started.
    RunStarted {
        /// The experiment.
        id: u32,
        /// Its commit.
        commit: CommitId,
        /// What it tries.
        description: String,
        /// The log.
        log: PathBuf,
        /// The deadline, in seconds from now.
        timeout: f64,
        /// What it has to beat.
        incumbent: Option<Number>,
    },
    /// A run goes on; not written to any file.
    RunProgress {
        /// The experiment.
        id: u32,
        /// How long it has been going on, in seconds.
        elapsed: f64,
        /// The last number of the metric in its log.
        last: Option<Number>,
    },
    /// A guard of an experiment whose number would be kept was started.
    GuardStarted {
        /// The experiment.
        id: u32,
        /// The guard's command line.
        command: String,
        /// Its deadline, in seconds from now.
        timeout: f64,
    },
    /// A guard is over.
    GuardFinished {
        /// The experiment.
        id: u32,
        /// What it said.
        guard: GuardRun,
    },
    /// The agent is about to be called again for the same experiment.
    CalledAgain {
        /// The experiment.
        id: u32,
        /// What is wrong with its change.
        reason: String,
        /// The how-manieth further call for that it is, from 1 on.
        time: u32,
        /// How many of them there may be.
        limit: u32,
    },
    /// An experiment is over and recorded.
    ExperimentFinished {
        /// Its record.
        record: Box<Record>,
        /// The best value and its experiment after it.
        incumbent: Option<(u32, Number)>,
    },
    /// Keeps failed to come for so long that a person should look at the session.
    Flagged {
        /// The experiment after which it was flagged.
        after: u32,
        /// How often it was flagged so far.
        times: u32,
    },
    /// The next call of the agent is told something new.
    Directed {
        /// The experiment after which it is.
        after: u32,
        /// What it is told.
        directive: Directive,
    },
    /// The loop ended.
    SessionStopped {
        /// Why.
        reason: StopReason,
        /// How many experiments the session has, the baseline not counted.
        experiments: u32,
    },
}

impl From<Notice> for Event {
    fn from(notice: Notice) -> Event {
        Event::Notice(notice)
    }
}

impl Event {
    /// The event's name, as it stands in the logs.
    pub fn name(&self) -> &'static str {
        match self {
            Event::SessionStarted { .. } => "session_started",
            Event::Notice(_) => "notice",
            Event::EnvironmentChanged { .. } => "environment_changed",
            Event::ChangesSaved { .. } => "changes_saved",
            Event::AgentStarted { .. } => "agent_started",
            Event::AgentFinished { .. } => "agent_finished",
            Event::Outage { .. } => "outage",
            Event::OutageOver { .. } => "outage_over",
            Event::RunStarted { .. } => "run_started",
            Event::RunProgress { .. } => "run_progress",
            Event::GuardStarted { .. } => "guard_started",
            Event::GuardFinished { .. } => "guard_finished",
            Event::CalledAgain { .. } => "called_again",
            Event::ExperimentFinished { .. } => "experiment_finished",
            Event::Flagged { .. } => "flagged",
            Event::Directed { .. } => "directed",
            Event::SessionStopped { .. } => "session_stopped",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_was_lowered_below_what_there_is_was_not_reached() {
        for (limit, experiments, expected) in [
            (16, 20, "the session already has 20 experiments, and its limit is 16"),
            (20, 20, "the session reached its limit of 20 experiments"),
        ] {
            let reason = StopReason::MaxExperiments { limit, experiments };
            assert_eq!(reason.to_string(), expected);
            assert_eq!(serde_json::to_value(&reason).unwrap()["kind"], "max_experiments");
        }
    }
}
