//! Describes a session's current activity: the attempts, and the slots and seats that they are in.
//!
//! The limits of a night and of a session, how much of them is used, and the cost of the agent's calls.

use serde::Serialize;
use serde_json::{Value, json};

use super::{Align, Grid, SessionStatus, text};
use crate::domain::{
    Bound, CURRENCY, Contract, ExperimentId, Phase, Spent, StopWhen, Tokens, clock_time, count_of, experiment_name,
    moment_text, money_text, one_line, percent_text, tokens_text,
};
use crate::rules::{
    Activity, AttemptStatus, LaneStatus, LanesStatus, MAX_FRESH, Trial, cap_of_tries, listed, next_fresh,
    session_calls_enough, session_enough,
};

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
        self.step() + &self.run_facts() + self.stopping_clause()
    }

    /// The step that the loop is at, or was at when it ended.
    fn step(&self) -> String {
        let name = self.open().map_or("an experiment".into(), |open| experiment_name(open.id));
        match self.activity {
            Activity::Waiting => match &self.outage {
                Some(outage) => format!("waiting: {}, until {}", outage.kind, moment_text(outage.again)),
                None => "waiting for the agent".into(),
            },
            Activity::Paused if self.engine_away().is_some() => {
                format!("paused: {name} waits for the executor: {}", self.engine_away().unwrap_or_default())
            }
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
            Activity::Confirming if self.open().is_some_and(|open| open.is_of_baseline) => {
                format!("running the baseline again, which {name} beat")
            }
            Activity::Confirming => {
                let done = self.open().and_then(|open| open.fresh).unwrap_or_default();
                format!("confirming {}: a fresh run of {name}", next_fresh(done))
            }
            Activity::Reviewing => format!("waiting for the review of {name}"),
            Activity::Checking => {
                let what = self.open().map_or("a recorded experiment once again", |open| &*open.description);
                format!("running {}", one_line(what))
            }
            Activity::Recording => format!("recording {name}"),
            Activity::Between => match &self.pause.sleep {
                Some(sleep) => format!("sleeping until {}: {}", moment_text(sleep.until), sleep.why),
                None => self.between(),
            },
            Activity::Remeasuring => "running recorded experiments again".into(),
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
            Activity::Idle if self.is_fetched => "fetched; only its records are in this repository".into(),
            Activity::Idle => match &self.escalation {
                Some(open) => format!("idle, and needs you: {}", open.what),
                None => "idle".into(),
            },
        }
    }

    /// What is to be said about the run of the open experiment.
    fn run_facts(&self) -> String {
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
            facts += &open.newest.as_ref().map(|number| format!(", now {number:#}")).unwrap_or_default();
        }
        facts
    }

    /// Why the engine of the runs does not answer, if it does not.
    fn engine_away(&self) -> Option<&str> {
        self.attempts.iter().find_map(|open| open.engine_away.as_deref())
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
        let seen = self.last_seen.map(|(_, silent)| format!("last sign of life {} ago", clock_time(silent)));
        let owner = self.owner.as_ref().map(|owner| match (owner.process, owner.at_work) {
            (Some(process), Some(at_work)) => format!("process {process} for {}", clock_time(at_work)),
            _ => owner.said.clone(),
        });
        let nobody = if self.elsewhere.is_some() { "no process here" } else { "no process" };
        let at_work: Vec<String> = [owner.or(Some(nobody.into())), seen].into_iter().flatten().collect();
        at_work.join("; ")
    }

    /// Describes the activity of several attempts as a clause; `None` for fewer than two.
    pub(super) fn doing_several(&self) -> Option<String> {
        if self.attempts.len() < 2 {
            return None;
        }
        let meant = |is_meant: &dyn Fn(&AttemptStatus) -> bool| -> Vec<&AttemptStatus> {
            self.attempts.iter().filter(|open| is_meant(open)).collect()
        };
        let running = meant(&|open| open.is_running());
        let (queued, going): (Vec<_>, Vec<_>) = running.iter().partition(|open| open.queued.is_some());
        let clause = match self.activity {
            Activity::RunningAlone => format!("idle; still going: {}", runs(&running)),
            Activity::RunOver => {
                let finished = meant(&|open| open.is_running() || open.phase == Phase::Recording);
                format!("idle; finished and not recorded yet: {}", runs(&finished))
            }
            // A run for winners that is over is asked for again if it is needed.
            Activity::Left | Activity::Idle => {
                format!("idle; left unfinished: {}", runs(&meant(&|open| open.trial.is_none() || open.is_running())))
            }
            Activity::Working | Activity::Remeasuring => return None,
            _ => {
                let proposing = meant(&AttemptStatus::is_called);
                let reviewing = meant(&|open| open.phase == Phase::Reviewing);
                let recording = meant(&|open| matches!(open.phase, Phase::Recording | Phase::Settling));
                let away = self.engine_away();
                let told = [
                    ("running", going),
                    (if away.is_some() { "waiting for the executor:" } else { "in the queue:" }, queued),
                    ("agents propose", proposing),
                    ("waiting for the review of", reviewing),
                    ("recording", recording),
                ];
                let mut told: Vec<String> = told
                    .into_iter()
                    .filter(|(_, open)| !open.is_empty())
                    .map(|(what, open)| format!("{what} {}", runs(&open)))
                    .collect();
                let again = meant(&|open| open.phase == Phase::Checking);
                told.extend(again.iter().map(|open| format!("running {}", one_line(&open.description))));
                told.extend(away.map(str::to_owned));
                if let Some(outage) = &self.outage {
                    told.push(format!("agents wait: {}, until {}", outage.kind, moment_text(outage.again)));
                }
                if told.is_empty() { self.between() } else { told.join("; ") }
            }
        };
        Some(clause)
    }

    /// The moment between two experiments. After calls without a change, the loop pauses there for minutes.
    fn between(&self) -> String {
        let after = match self.pause.idle_calls {
            0 => String::new(),
            calls => format!(", after {} in a row without a change", count_of(calls, "call")),
        };
        format!("between two experiments{after}")
    }

    /// The proposals and the winners that wait.
    pub(super) fn waiting(&self) -> Option<String> {
        let ids = |is_meant: &dyn Fn(&AttemptStatus) -> bool| -> Vec<ExperimentId> {
            self.attempts.iter().filter(|open| is_meant(open)).map(|open| open.id).collect()
        };
        // A train that is measured, or waits for a slot, has its cars.
        let trials = self.attempts.iter().filter(|open| open.is_running() || open.phase == Phase::Committing);
        let riding: Vec<ExperimentId> =
            trials.clone().filter_map(|open| open.trial.as_ref()).flat_map(Trial::cars).copied().collect();
        let trains = trials.filter(|open| !open.is_running()).filter_map(|open| open.trial.as_ref()).map(trial_name);
        let ready = [listed(&ids(&AttemptStatus::is_ready))].into_iter().chain(trains);
        let told = [
            ("ready to run", ready.filter(|said| !said.is_empty()).collect::<Vec<_>>().join(" and ")),
            ("for an agent", listed(&ids(&AttemptStatus::needs_call))),
            ("for a train", listed(&ids(&|open| open.is_winner() && !riding.contains(&open.id)))),
        ];
        let told: Vec<String> =
            told.iter().filter(|(_, who)| !who.is_empty()).map(|(what, who)| format!("{what}: {who}")).collect();
        (self.lanes.is_concurrent && !told.is_empty()).then(|| told.join("; "))
    }

    /// Describes the load of the slots so far, and the bottleneck that keeps them waiting.
    pub(super) fn busy(&self) -> Option<String> {
        if !self.lanes.is_concurrent {
            return None;
        }
        let count = self.lanes.slots.len();
        let share = self.lanes.busy_share.map(|share| format!(", busy {} of the time", percent_text(share)));
        let short = if self.lanes.calls_are_short { "; calls are the bottleneck: allow more with --calls" } else { "" };
        Some(format!("{count}{}{short}", share.unwrap_or_default()))
    }

    /// Describes an attempt; names the winners if it is a trial without a description.
    pub(super) fn tries(open: &AttemptStatus) -> String {
        match &open.trial {
            Some(trial) if open.description.is_empty() => trial_name(trial),
            _ => one_line(&open.description),
        }
    }
}

/// The experiments that runs or calls are of.
fn runs(open: &[&AttemptStatus]) -> String {
    let own: Vec<ExperimentId> = open.iter().filter(|open| open.trial.is_none()).map(|open| open.id).collect();
    let trials = open.iter().filter_map(|open| open.trial.as_ref()).map(trial_name);
    let own =
        (!own.is_empty()).then(|| format!("experiment{} {}", if own.len() == 1 { "" } else { "s" }, listed(&own)));
    own.into_iter().chain(trials).collect::<Vec<_>>().join(" and ")
}

/// A run for winners that wait.
fn trial_name(trial: &Trial) -> String {
    match trial {
        Trial::Train { cars, .. } => match cars.as_slice() {
            [only] => format!("experiment {only} merged"),
            cars => format!("a train of {}", listed(cars)),
        },
        Trial::Afresh(id) => format!("experiment {id} afresh"),
    }
}

/// Tabulates slots and seats: their experiment, since when, and the time left.
pub(super) fn lanes_grid(status: &SessionStatus) -> Grid {
    let lanes = &status.lanes;
    let named = |name: &'static str, lanes: &[LaneStatus]| -> Vec<(String, LaneStatus)> {
        (0..).zip(lanes).map(|(number, lane): (u32, _)| (format!("{name} {number}"), lane.clone())).collect()
    };
    let all = [named("slot", &lanes.slots), named("seat", &lanes.seats)].concat();
    let of = |lane: &LaneStatus, what: &dyn Fn(&AttemptStatus) -> String| {
        lane.attempt.as_ref().map(what).unwrap_or_default()
    };
    Grid::of(
        &all,
        &[
            ("where", Align::Left, &|(name, _)| name.clone()),
            ("#", Align::Right, &|(_, lane)| text(lane.experiment)),
            ("doing", Align::Left, &|(_, lane)| {
                let is_at_work = lane.attempt.as_ref().is_none_or(|open| open.elapsed.or(open.queued).is_some());
                let doing = lane.doing.as_deref().unwrap_or("idle");
                if status.owner.is_some() || is_at_work { doing } else { "left" }.to_owned()
            }),
            ("for", Align::Right, &|(_, lane)| of(lane, &|open| text(open.elapsed.map(clock_time)))),
            ("left", Align::Right, &|(_, lane)| match lane.is_late {
                true => "longer than expected".to_owned(),
                false => text(lane.left.map(clock_time)),
            }),
            ("now", Align::Right, &|(_, lane)| of(lane, &|open| text(open.newest.as_ref()))),
            ("gpu", Align::Left, &|(_, lane)| text(lane.gpu.as_ref())),
            ("what", Align::Text, &|(_, lane)| of(lane, &SessionStatus::tries)),
        ],
    )
    .sparing(["gpu", "now"])
}

/// A slot in the JSON document.
#[derive(Serialize)]
pub(super) struct Slot<'a> {
    slot: usize,
    #[serde(flatten)]
    lane: &'a LaneStatus,
    gpu: &'a Option<String>,
}

/// A seat in the JSON document.
#[derive(Serialize)]
pub(super) struct SeatDocument<'a> {
    seat: usize,
    #[serde(flatten)]
    lane: &'a LaneStatus,
}

/// The slots and the seats in the JSON document.
pub(super) fn slots_and_seats(lanes: &LanesStatus) -> (Vec<Slot<'_>>, Vec<SeatDocument<'_>>) {
    let slots = lanes.slots.iter().enumerate().map(|(slot, lane)| Slot { slot, lane, gpu: &lane.gpu });
    let seats = lanes.seats.iter().enumerate().map(|(seat, lane)| SeatDocument { seat, lane });
    (slots.collect(), seats.collect())
}

impl SessionStatus {
    /// Counts the experiments of the night and of the session, if either is limited.
    pub(super) fn experiments_text(&self, contract: &Contract) -> Option<String> {
        let (all, of_session) = (self.history.experiments(), contract.caps.session_max_experiments);
        let in_session = match of_session {
            Some(limit) => format!("{all} of {limit} in the session"),
            None => format!("{all} in the session"),
        };
        match (&self.night, contract.max_experiments) {
            (Some(night), Some(limit)) => {
                Some(format!("{} of {limit} experiments tonight, {in_session}", night.experiments(&self.history)))
            }
            (None, Some(limit)) if of_session.is_none() => Some(format!("{all} of {limit} experiments made")),
            _ => of_session.map(|limit| format!("{all} of {limit} experiments in the session")),
        }
    }

    /// Sums up the cost of the calls of the night and of the session, if limited.
    pub(super) fn cost_text(&self, contract: &Contract) -> Option<String> {
        let spent = |spent: &Spent, limit| match spent.cost {
            None if self.spent.calls > 0 => format!("cost unknown, limit {}", money_text(limit)),
            cost => format!("{} of {} spent", money_text(cost.unwrap_or(0.0)), money_text(limit)),
        };
        let tonight = contract.max_cost.map(|limit| match &self.night {
            Some(night) => format!("{} tonight", spent(&night.spent, limit)),
            None => spent(&self.spent, limit),
        });
        match (tonight, contract.caps.session_max_cost, self.spent.cost) {
            (Some(tonight), None, Some(all)) => Some(format!("{tonight}, {} in the session", money_text(all))),
            (tonight, None, _) => tonight,
            (tonight, Some(limit), _) => Some(
                tonight
                    .into_iter()
                    .chain([format!("{} in the session", spent(&self.spent, limit))])
                    .collect::<Vec<_>>()
                    .join(", "),
            ),
        }
    }

    /// Sums up the tokens that the calls of the night and of the session used, if limited.
    pub(super) fn tokens_text(&self, contract: &Contract) -> Option<String> {
        let total = |spent: &Spent| spent.tokens.map_or(0, Tokens::total);
        let used =
            |spent: &Spent, limit| format!("{} of {} tokens used", tokens_text(total(spent)), tokens_text(limit));
        let in_session = match contract.caps.session_max_tokens {
            Some(limit) => used(&self.spent, limit),
            None => tokens_text(total(&self.spent)),
        };
        let in_session = format!("{in_session} in the session");
        match (&self.night, contract.max_tokens) {
            (Some(night), Some(limit)) => Some(format!("{} tonight, {in_session}", used(&night.spent, limit))),
            (None, Some(limit)) => Some(used(&self.spent, limit)),
            (_, None) => contract.caps.session_max_tokens.map(|_| in_session),
        }
    }

    /// The commands that continue in spite of the cap that is reached, if so: of the session's first, as another night does not
    /// lift them.
    pub(super) fn ways_on_from_cap(&self, has_agent: bool) -> Option<Vec<(String, &'static str)>> {
        let ((flag, is_of_night), tag) = (self.reached_cap()?, &self.tag);
        Some(match (is_of_night, has_agent) {
            (true, _) => vec![
                (format!("ar run --tag {tag}"), "begins another night"),
                (format!("ar resume {tag} {flag} N"), "continues this night by N more"),
            ],
            (false, true) => vec![(format!("ar run --tag {tag} {flag} N"), "continues up to a higher limit")],
            (false, false) => {
                vec![(format!("ar try -m \"what it changes\" --tag {tag} {flag} N"), "continues up to a higher limit")]
            }
        })
    }

    /// The flag of the cap that is reached, and whether another night lifts it.
    fn reached_cap(&self) -> Option<(&'static str, bool)> {
        let contract = self.contract.as_ref()?;
        let (session, night) = (&contract.caps, self.night.as_ref());
        let is_full = session_enough(session.session_max_experiments, &self.history).is_some();
        if is_full {
            return Some(("--session-max-experiments", false));
        }
        if let Some(reason) = session_calls_enough(contract, &self.spent) {
            let is_cost = reason.is_rule(Bound::SessionMaxCost);
            let flag = if is_cost { "--session-max-cost" } else { "--session-max-tokens" };
            return Some((flag, false));
        }
        let flag = match night {
            None => session_enough(cap_of_tries(contract, false), &self.history).map(|_| "--session-max-experiments"),
            Some(night) if night.experiments_enough(contract, &self.history).is_some() => Some("--max-experiments"),
            Some(night) => {
                night.calls_enough(contract, &self.spent).map(|reason| match reason.is_rule(Bound::MaxCost) {
                    true => "--max-cost",
                    false => "--max-tokens",
                })
            }
        };
        Some((flag?, night.is_some()))
    }

    /// The caps that count all nights.
    pub(super) fn session_caps_json(&self) -> Option<Value> {
        let caps = &self.contract.as_ref()?.caps;
        Some(json!({
            "max_experiments": caps.session_max_experiments,
            "max_cost": caps.session_max_cost,
            "max_tokens": caps.session_max_tokens,
        }))
    }
}

/// The cost of all calls of a session's agent, including those that led to no experiment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Cost {
    pub(super) total: f64,
    per_experiment: Option<f64>,
    per_keep: Option<f64>,
    currency: &'static str,
}

impl Cost {
    /// The cost of so many experiments and keeps, the baseline not counted; absent where it is not known.
    pub(super) fn of(spent: &Spent, experiments: u32, keeps: u32) -> Option<Cost> {
        let total = spent.cost?;
        let per = |count: u32| (count > 0).then(|| total / f64::from(count));
        Some(Cost { total, per_experiment: per(experiments), per_keep: per(keeps), currency: CURRENCY })
    }
}

/// Cost and tokens as a fact for people; absent where neither is known.
pub(super) fn cost_sentence(cost: Option<&Cost>, tokens: Option<Tokens>) -> Option<String> {
    let money = cost.map(|cost| {
        let mut text = money_text(cost.total);
        for (part, what) in [(cost.per_experiment, "experiment"), (cost.per_keep, "keep")] {
            text += &part.map(|part| format!("; {} per {what}", money_text(part))).unwrap_or_default();
        }
        text
    });
    let parts: Vec<String> = [money, tokens_sentence(tokens)].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Tokens for people.
pub(super) fn tokens_sentence(tokens: Option<Tokens>) -> Option<String> {
    let Tokens { input, output, cached } = tokens?;
    let cached = if cached == 0 { String::new() } else { format!(" ({} of them cached)", tokens_text(cached)) };
    Some(format!("{} tokens in{cached}, {} out", tokens_text(input), tokens_text(output)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use insta::assert_snapshot;
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::{Layout, Number, Spent};
    use crate::report::{Format, OwnerStatus, PauseStatus, render_status};
    use crate::rules::sample::{record, run};
    use crate::rules::{History, lanes_status};

    fn open(id: u32, phase: Phase, what: &str) -> AttemptStatus {
        AttemptStatus {
            id: id.into(),
            phase,
            slot: None,
            seat: None,
            trial: None,
            description: what.to_owned(),
            is_again: false,
            since: None,
            elapsed: None,
            deadline: None,
            newest: None,
            fresh: None,
            is_of_baseline: false,
            tainted: 0,
            queued: None,
            engine_away: None,
        }
    }

    fn active(seconds: i64, open: AttemptStatus) -> AttemptStatus {
        let since =
            "2026-11-20T22:10:00Z".parse::<jiff::Timestamp>().unwrap() - jiff::SignedDuration::from_secs(seconds);
        AttemptStatus { since: Some(since), elapsed: Some(seconds as f64), deadline: Some(600.0), ..open }
    }

    fn night() -> SessionStatus {
        let newest = Some(Number::new(1.75, "1.75"));
        let train = Trial::Train { on: 3.into(), cars: vec![5.into(), 6.into()] };
        let attempts = vec![
            open(4, Phase::Waiting, "larger batch"),
            open(5, Phase::Waiting, "warm up longer"),
            open(6, Phase::Waiting, "decay"),
            AttemptStatus { slot: Some(0), newest, ..active(61, open(7, Phase::Running, "halve the batch")) },
            AttemptStatus { slot: Some(2), trial: Some(train), ..active(290, open(8, Phase::Running, "")) },
            open(9, Phase::Committing, "twice the width"),
            AttemptStatus { seat: Some(1), ..active(30, open(10, Phase::Proposing, "")) },
        ];
        let baseline = json!({"value": "2.0", "description": "baseline", "runs": [run(300.0, None)],
            "agent": {"command": "a", "seconds": 200.0}, "commit": "b".repeat(40)});
        let history = History::new(vec![record(baseline)]);
        let layout = Layout { calls: Some(2), ..Layout::of(4) };
        let gpus = ["GPU-a", "GPU-b", "GPU-c", "GPU-d"].map(str::to_owned);
        let now = "2026-11-20T22:10:00Z".parse().unwrap();
        SessionStatus {
            elsewhere: None,
            tag: "t".parse().unwrap(),
            worktree: None,
            activity: Activity::Running,
            is_fetched: false,
            ended: None,
            outage: None,
            pause: PauseStatus::default(),
            escalation: None,
            report: None,
            lanes: lanes_status(&history, Some(&layout), &attempts, &[], &gpus, Some(now)),
            attempts,
            driver: None,
            owner: Some(OwnerStatus { process: Some(123), said: "process 123".into(), at_work: Some(600.0) }),
            stopping: None,
            last_seen: None,
            contract: None,
            log: None,
            history: Arc::new(history),
            night: None,
            left: (None, None),
            spent: Spent::default(),
            unrecorded_tip: None,
            damage: Vec::new(),
        }
    }

    #[test]
    fn several_experiments_at_once_are_told_by_slot_and_seat() {
        let status = night();
        assert_snapshot!(render_status(std::slice::from_ref(&status), Format::Table, Some(80)), @r#"
session      t on branch autoresearch/t
doing        running experiment 7 and a train of 5 and 6; agents propose experiment 10
waiting      ready to run: 9; for a train: 4
slots        4, busy 27% of the time; calls are the bottleneck: allow more with --calls
active       process 123 for 10m00s
best         2.0  experiment 0 (bbbbbbbb): baseline
baseline     2.0  experiment 0 (bbbbbbbb): baseline
experiments  1 row: 1 keep, 0 discard, 0 crash

slots and seats
where    #  doing      for   left   now  gpu    what
slot 0   7  running  1m01s  3m59s  1.75  GPU-a  halve the batch
slot 1      idle                         GPU-b
slot 2   8  running  4m50s    10s        GPU-c  a train of 5 and 6
slot 3      idle                         GPU-d
seat 0      idle
seat 1  10  agent      30s  2m50s

the last experiments
#  commit    outcome  value  failure  what
0  bbbbbbbb  keep       2.0           baseline

what to type next
  ar stop t        stops after these runs
  ar stop t --now  terminates the runs and rolls back
  ar report t      shows the findings
"#);
        let document: Value = serde_json::from_str(&render_status(&[status], Format::Json, None)).unwrap();
        let session = &document["sessions"][0];
        let slot = json!({"slot": 0, "gpu": "GPU-a", "experiment": 7, "phase": "running", "doing": "running",
            "since": "2026-11-20T22:08:59.000Z", "left": 239.0, "late": false});
        let idle = json!({"slot": 1, "gpu": "GPU-b", "experiment": null, "phase": "idle", "since": null, "left": null,
            "late": false});
        assert_eq!((&session["slots"][0], &session["slots"][1]), (&slot, &idle));
        assert_eq!(session["seats"][1]["experiment"], 10);
        assert_eq!((&session["open"]["id"], session["attempts"].as_array().unwrap().len()), (&json!(4), 7));
        assert_eq!(session["attempts"][4]["trial"], json!({"train": {"on": 3, "cars": [5, 6]}}));
    }

    #[test]
    fn the_slot_of_a_run_in_the_queue_says_so() {
        let mut status = night();
        let queued = AttemptStatus { queued: Some(5.0), ..status.attempts[3].clone() };
        status.lanes.slots[0].doing = Some(queued.step());
        let shown = render_status(&[status], Format::Table, Some(80));
        assert!(shown.contains("\nslot 0   7  queued "), "{shown}");
        assert!(shown.contains("\nslot 2   8  running"), "{shown}");
    }

    #[test]
    fn a_run_that_is_over_is_named_in_whatever_step_it_is() {
        for phase in [Phase::Running, Phase::Guarding, Phase::Confirming, Phase::Recording] {
            let attempts = vec![open(4, Phase::Waiting, "larger batch"), open(7, phase, "halve the batch")];
            let status = SessionStatus { activity: Activity::RunOver, owner: None, attempts, ..night() };
            assert_eq!(status.doing(), "idle; finished and not recorded yet: experiment 7", "{phase}");
        }
        let attempts = vec![open(4, Phase::Waiting, "larger batch"), open(7, Phase::Confirming, "halve the batch")];
        let status = SessionStatus { activity: Activity::Confirming, attempts, ..night() };
        assert_eq!(status.doing(), "running experiment 7");
        let attempts = vec![open(4, Phase::Waiting, "larger batch"), open(7, Phase::Reviewing, "halve the batch")];
        let status = SessionStatus { activity: Activity::Reviewing, attempts, ..night() };
        assert_eq!(status.doing(), "waiting for the review of experiment 7");
    }

    #[test]
    fn nobody_active_leaves_several_unfinished() {
        let status = SessionStatus { activity: Activity::RunningAlone, owner: None, ..night() };
        assert_eq!(status.doing(), "idle; still going: experiment 7 and a train of 5 and 6");
        let status = SessionStatus { activity: Activity::Left, ..status };
        assert_eq!(
            status.doing(),
            "idle; left unfinished: experiments 4, 5, 6, 7, 9 and 1 more and a train of 5 and 6"
        );
    }
}

#[cfg(test)]
mod spending_tests {
    use super::*;

    #[test]
    fn the_cost_is_told_per_experiment_and_per_keep() {
        let spent =
            Spent { calls: 9, tokens: Some(Tokens { input: 12_000, output: 340, cached: 8000 }), cost: Some(1.5) };
        let cost = Cost::of(&spent, 6, 2).unwrap();
        assert_eq!((cost.total, cost.per_experiment, cost.per_keep), (1.5, Some(0.25), Some(0.75)));
        let said = cost_sentence(Some(&cost), spent.tokens).unwrap();
        assert_eq!(said, "$1.50; $0.25 per experiment; $0.75 per keep; 12.0k tokens in (8.0k of them cached), 340 out");
        let none = Cost::of(&spent, 0, 0).unwrap();
        assert_eq!((none.per_experiment, none.per_keep), (None, None));
        assert_eq!(Cost::of(&Spent::default(), 1, 1), None);
        assert_eq!(cost_sentence(None, None), None);
    }
}
