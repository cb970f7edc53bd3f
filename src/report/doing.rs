//! Describes a session's current activity.

use super::session_status::SessionStatus;
use crate::domain::{Phase, StopWhen, clock_time, experiment_name, moment_text, one_line};
use crate::rules::{Activity, MAX_FRESH};

impl SessionStatus {
    /// Describes the current activity as a clause.
    pub(super) fn doing(&self) -> String {
        if let Some(other) = &self.elsewhere {
            return if other.is_missed() { format!("idle; last active {other}") } else { format!("active {other}") };
        }
        if let Some(several) = self.doing_several() {
            return several + self.stopping_clause();
        }
        if let Some(open) = self.escalation.as_ref().filter(|open| open.waits && self.owner.is_some()) {
            return format!("waiting for you: {}{}", open.what, self.stopping_clause());
        }
        let name = self.open().map_or("an experiment".into(), |open| experiment_name(open.id));
        let what = match self.activity {
            Activity::Waiting => match &self.outage {
                Some(outage) => format!("waiting: {}, until {}", outage.kind, moment_text(outage.again)),
                None => "waiting for the agent".into(),
            },
            Activity::Paused => {
                let since = self.attempts.iter().filter_map(|open| open.queued).fold(0.0, f64::max);
                format!("paused: {name} has been waiting in the queue for {}", clock_time(since))
            }
            Activity::Proposing if self.open().is_some_and(|open| open.is_again) => {
                format!("waiting for the agent to work on {name} again")
            }
            Activity::Proposing => format!("waiting for the agent to propose {name}"),
            Activity::Committing => format!("committing {name}"),
            Activity::Running => format!("running {name}"),
            Activity::Guarding => format!("running the guards of {name}"),
            Activity::Confirming if self.awaits_control() => {
                format!("running what {name} beat once more, as a control")
            }
            Activity::Confirming => {
                let done = self.open().and_then(|open| open.fresh).unwrap_or_default();
                let next = (done as usize + 1).min(MAX_FRESH);
                format!("confirming {next} of {MAX_FRESH}: a fresh run of {name}")
            }
            Activity::Reviewing => format!("waiting for the review of {name}"),
            Activity::Checking => {
                let what = self.open().map_or("a recorded experiment once again", |open| &*open.description);
                format!("running {}", one_line(what))
            }
            Activity::Recording => format!("recording {name}"),
            Activity::Between => match &self.sleep {
                Some(sleep) => format!("sleeping until {}: {}", moment_text(sleep.until), sleep.why),
                None => "between two experiments".into(),
            },
            Activity::Working => "active, but the current step is unreadable".into(),
            Activity::RunOver | Activity::Left if self.awaits_control() => {
                format!("idle; {name} stays open until its control has run")
            }
            Activity::RunOver | Activity::Left if self.open().is_some_and(|open| open.fresh.is_some()) => {
                let done = self.open().and_then(|open| open.fresh).unwrap_or_default();
                format!("idle; {name} stays open after {done} of up to {MAX_FRESH} fresh runs")
            }
            Activity::RunningAlone => format!("idle; the run of {name} is still going"),
            Activity::RunOver => format!("idle; the run of {name} has finished and is not recorded yet"),
            Activity::Left => format!("idle; {name} was left unfinished"),
            Activity::Idle if self.is_fetched => "fetched; nobody has worked on it in this repository".into(),
            Activity::Idle => match &self.escalation {
                Some(open) => format!("idle, and needs you: {}", open.what),
                None => "idle".into(),
            },
        };
        let mut facts = String::new();
        if let Some(open) = self.open() {
            if let Some(elapsed) = open.elapsed {
                facts += &format!(", {}", clock_time(elapsed));
                facts += &open.deadline.map(|deadline| format!(" of {}", clock_time(deadline))).unwrap_or_default();
            }
            if open.tainted > 0 {
                let times = if open.tainted == 1 { "once" } else { "twice" };
                facts += &format!(", repeated {times} as another process was on its GPU");
            }
            facts += &open.newest.as_ref().map(|number| format!(", now {number}")).unwrap_or_default();
        }
        what + &facts + self.stopping_clause()
    }

    /// Returns whether the open experiment waits for a run of what it beat.
    fn awaits_control(&self) -> bool {
        self.open().is_some_and(|open| open.phase == Phase::Confirming && open.fresh.is_none())
    }

    /// Says when the loop stops, if the user asked for a stop.
    fn stopping_clause(&self) -> &'static str {
        match (self.stopping, self.activity) {
            (None, _) => "",
            (Some(StopWhen::Now), _) => "; stopping now",
            (Some(StopWhen::Experiment), _) if self.lanes.is_concurrent => "; stopping after these runs",
            (Some(StopWhen::Experiment), Activity::Waiting | Activity::Checking | Activity::Between) => {
                "; stopping before the next experiment"
            }
            (Some(StopWhen::Experiment), _) => "; stopping after this experiment",
        }
    }

    /// Names the active process and the last sign of life.
    pub(super) fn at_work_sentence(&self) -> String {
        let seen = self.silent.map(|silent| format!("last sign of life {} ago", clock_time(silent)));
        let owner = self.owner.as_ref().map(|said| match (self.process, self.at_work) {
            (Some(process), Some(at_work)) => format!("process {process} for {}", clock_time(at_work)),
            _ => said.clone(),
        });
        let nobody = if self.elsewhere.is_some() { "no process here" } else { "no process" };
        let at_work: Vec<String> = [owner.or(Some(nobody.into())), seen].into_iter().flatten().collect();
        at_work.join("; ")
    }
}
