//! The observed state of a session in which a loop may be active.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;

use crate::domain::{Contract, Escalation, Spent, StopWhen, Tag};
use crate::rules::{
    Activity, Driver, End, History, LanesStatus, Night, OpenStatus, OtherHost, OutageStatus, SleepStatus, UnrecordedTip,
};

/// The observed state of a session at one moment.
#[derive(Debug, Clone)]
pub struct SessionStatus {
    /// The other host on which a process may drive it, while nobody holds its lock here.
    pub elsewhere: Option<OtherHost>,
    /// The session.
    pub tag: Tag,
    /// The session's working tree, if it is not the caller's.
    pub worktree: Option<PathBuf>,
    /// Its activity.
    pub activity: Activity,
    /// True if only its refs exist here, as in a clone that fetched them.
    pub is_fetched: bool,
    /// The reason why the last loop ended, if none is active.
    pub ended: Option<String>,
    /// The outage for whose end the loop waits.
    pub outage: Option<OutageStatus>,
    /// The problem that the session could not solve by itself. The loop waits for an answer, or ended because of it.
    pub escalation: Option<Escalation>,
    /// The report of that, if there is one.
    pub report: Option<PathBuf>,
    /// The pause between two experiments that the loop makes.
    pub sleep: Option<SleepStatus>,
    /// The open attempts, in the order in which they were opened; *in place* at most one.
    pub attempts: Vec<OpenStatus>,
    /// The slots and the seats.
    pub lanes: LanesStatus,
    /// The maker of its changes, if that is known.
    pub driver: Option<Driver>,
    /// The active process, by its own description.
    pub owner: Option<String>,
    /// The request of `ar stop` to the active process.
    pub stopping: Option<StopWhen>,
    /// The id of the active process.
    pub process: Option<u32>,
    /// The time that it has been active, in seconds.
    pub at_work: Option<f64>,
    /// When the journal was written last.
    pub last_seen: Option<Timestamp>,
    /// The seconds since then, or since the last write to the active log if that is shorter.
    pub silent: Option<f64>,
    /// The contract.
    pub contract: Option<Contract>,
    /// The log of the active agent, run or guard; else that of the newest run, compressed or not.
    pub log: Option<PathBuf>,
    /// The experiments.
    pub history: Arc<History>,
    /// The usage of all agent calls.
    pub spent: Spent,
    /// The night that it is in, or was in last.
    pub night: Option<Night>,
    /// The time that `--for` still leaves to that night, in seconds.
    pub time_left: Option<f64>,
    /// The nearest end of that night, by `--for` or `--until`.
    pub night_end: Option<End>,
    /// Unrecorded commits at the tip of its branch, while nothing is open.
    pub unrecorded_tip: Option<UnrecordedTip>,
    /// The data that could not be read, one sentence each.
    pub damage: Vec<String>,
}

impl SessionStatus {
    /// The attempt that was opened first.
    pub fn open(&self) -> Option<&OpenStatus> {
        self.attempts.first()
    }
}
