//! The observed state of a session in which a loop may be active, as text and as JSON.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Align, ArtifactData, Format, Grid, Report, Sources, commit, cost_sentence, counts_sentence, describe, fact,
    lanes_grid, outcome, slots_and_seats, text,
};
use crate::domain::{
    Contract, Direction, Escalation, FORMAT_VERSION, Record, Spent, StopWhen, Tag, clock_time, count_of, duration_text,
    exact_time, json_text, one_line, shell_word, time_of_day_text,
};
use crate::rules::{
    Activity, AttemptStatus, History, LanesStatus, Night, NightEnd, OtherHost, OutageStatus, Point, SessionDriver,
    SessionFacts, SleepStatus, UnrecordedTip, Warning, doubted_numbers, ended_by_course, nearest_end, reached_goal,
    stop_before_experiment,
};

/// The share of keeps within which a session that keeps by a threshold has converged, after the Madani adapter: with more of
/// them the threshold is too low, and with fewer it is too high or there is nothing left to find.
const KEPT_BAND: [f64; 2] = [0.20, 0.35];

/// The number of recent experiments to show.
const LAST: usize = 10;

/// Renders sessions as text; one of them in detail, several with a line each. `width` is the terminal's, where there is
/// one.
pub fn render_status(sessions: &[SessionStatus], format: Format, width: Option<u16>) -> String {
    match (format, sessions) {
        (Format::Json, _) => {
            let sessions: Vec<Value> = sessions.iter().map(SessionStatus::to_json).collect();
            json_text(&json!({"version": FORMAT_VERSION, "sessions": sessions}), true) + "\n"
        }
        (Format::Table, [session]) => session.details(false, width),
        (Format::Md, [session]) => session.details(true, width),
        (Format::Table, _) => grid(in_one(sessions)).to_lines(width) + "\n`ar status TAG` has the details of one\n",
        (format, _) => grid(in_one(sessions)).render(format, width),
    }
}

/// Renders sessions as text, each with the repository that it is in and on a line of its own. `width` is the terminal's,
/// where there is one.
pub fn render_all_status(sessions: &[(PathBuf, SessionStatus)], format: Format, width: Option<u16>) -> String {
    if format == Format::Json {
        let with_repository = |(repository, session): &(PathBuf, SessionStatus)| {
            let mut fields = session.to_json();
            fields["repository"] = repository.to_string_lossy().into();
            fields
        };
        let sessions: Vec<Value> = sessions.iter().map(with_repository).collect();
        return json_text(&json!({"version": FORMAT_VERSION, "sessions": sessions}), true) + "\n";
    }
    grid(sessions.iter().map(|(repository, session)| (Some(repository.as_path()), session))).render(format, width)
}

fn in_one(sessions: &[SessionStatus]) -> impl Iterator<Item = (Option<&Path>, &SessionStatus)> {
    sessions.iter().map(|session| (None, session))
}

fn grid<'a>(sessions: impl Iterator<Item = (Option<&'a Path>, &'a SessionStatus)>) -> Grid {
    let metric = |session: &SessionStatus| Some(session.contract.as_ref()?.metric.name.clone());
    Grid::of(
        sessions,
        &[
            ("session", Align::Left, &|(_, session)| session.tag.to_string()),
            ("repository", Align::Left, &|(repository, _)| text(repository.map(Path::display))),
            ("doing", Align::Text, &|(_, session)| session.doing()),
            ("metric", Align::Left, &|(_, session)| text(metric(session))),
            ("best", Align::Right, &|(_, session)| text(session.history.best_kept())),
            ("experiments", Align::Right, &|(_, session)| session.history.experiments().to_string()),
            ("since keep", Align::Right, &|(_, session)| session.history.since_keep().to_string()),
            ("process", Align::Right, &|(_, session)| text(session.owner.as_ref().and_then(|owner| owner.process))),
            ("damaged", Align::Below, &|(_, session)| session.damage.join("; ")),
        ],
    )
    .without_if_empty(&["repository"])
    .sparing(["process", "metric", "since keep"])
}

impl SessionStatus {
    /// The number of experiments, and how long the loop may still go on, where that is limited.
    pub(super) fn budget(&self) -> Option<String> {
        let contract = self.contract.as_ref()?;
        let mut parts = Vec::new();
        parts.extend(self.experiments_text(contract));
        parts.extend(self.cost_text(contract));
        parts.extend(self.tokens_text(contract));
        if let Some(budget) = contract.budget {
            parts.push(match self.budget_left() {
                Some(left) => format!("{} of {} left", clock_time(left), duration_text(budget)),
                None => format!("{} a night", duration_text(budget)),
            });
        }
        if let Some(until) = contract.until {
            parts.push(format!("until {}", time_of_day_text(until)));
        }
        if let Some(goal) = &contract.goal {
            parts.push(format!("goal {goal}{}", if self.is_at_goal() { ", reached" } else { "" }));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    fn has_agent(&self) -> bool {
        self.contract.as_ref().is_some_and(|contract| contract.agent.is_some())
    }

    fn is_imported(&self) -> bool {
        self.contract.as_ref().is_some_and(|contract| contract.imported)
    }

    /// Returns whether the goal is reached; false without a goal.
    fn is_at_goal(&self) -> bool {
        let (Some(contract), Some(best)) = (&self.contract, self.history.best_kept()) else { return false };
        contract.goal.as_ref().is_some_and(|goal| reached_goal(contract.metric.direction, &best, goal))
    }

    /// Returns whether one of its stop rules ended it.
    fn is_at_end(&self) -> bool {
        self.contract.as_ref().is_some_and(|contract| ended_by_course(contract, &self.history).is_some())
    }

    /// The remaining time of the active loop, in seconds, if it has a limit.
    fn budget_left(&self) -> Option<f64> {
        self.contract.as_ref()?.budget?;
        self.owner.as_ref()?.at_work?;
        self.left.0.map(|left| left.as_secs_f64())
    }

    /// The commands to type next, with their effects.
    fn next(&self) -> Vec<(String, Cow<'static, str>)> {
        let tag = &self.tag;
        let elsewhere = self.elsewhere.as_ref().map(|other| {
            let what = format!("takes it over; only if nothing of it runs on {} any more", other.host);
            vec![(format!("ar resume {tag} --take-over"), what.into())]
        });
        let usual = || self.ways_on().into_iter().map(|(command, what)| (command, what.into())).collect();
        let mut next: Vec<(String, Cow<'static, str>)> =
            elsewhere.or_else(|| self.ways_on_from_tip()).unwrap_or_else(usual);
        if let (Some(worktree), true) = (&self.worktree, self.owner.is_none()) {
            next.insert(0, (format!("cd {}", shell_word(worktree)), "is its working tree".into()));
        }
        if !self.damage.is_empty() {
            next.insert(0, (format!("ar doctor {tag}"), "shows the damage and the fix".into()));
        }
        next.push((format!("ar report {tag}"), "shows the findings".into()));
        next
    }

    /// The commands to type if the tip of the session's branch is not an experiment: a loop does not continue there.
    fn ways_on_from_tip(&self) -> Option<Vec<(String, Cow<'static, str>)>> {
        let tag = &self.tag;
        let agent = if self.has_agent() { "" } else { " --agent COMMAND" };
        Some(match self.unrecorded_tip.as_ref()? {
            UnrecordedTip::OfUser(next) => {
                let begins = format!("begins session {next} with your commits");
                let mut ways = vec![(format!("ar run --tag {tag}{agent}"), begins.into())];
                if !self.lanes.is_concurrent {
                    let adopts = "measures them as an experiment of this one";
                    ways.push((format!("ar run --tag {tag} --adopt"), adopts.into()));
                }
                ways
            }
            UnrecordedTip::Moved => {
                vec![(format!("ar doctor {tag}"), "shows how to move the branch back".into())]
            }
        })
    }

    /// The commands for the loop, the run or the next experiment, with their effects.
    fn ways_on(&self) -> Vec<(String, &'static str)> {
        match self.activity {
            Activity::RunningAlone | Activity::RunOver | Activity::Left => self.ways_on_from_run(),
            Activity::Idle => self.ways_on_from_idle(),
            _ => self.ways_on_from_loop(),
        }
    }

    fn ways_on_from_loop(&self) -> Vec<(String, &'static str)> {
        let tag = &self.tag;
        let mut next = Vec::new();
        if self.escalation.is_some() {
            next.push((format!("ar tell --tag {tag} \"it is solved\""), "continues at once"));
        }
        if self.stopping.is_none() {
            let what = if self.lanes.is_concurrent { "stops after these runs" } else { "stops after this experiment" };
            next.push((format!("ar stop {tag}"), what));
        }
        next.push(self.way_to_end());
        next
    }

    /// The commands that continue or end a run of an earlier process, each with its effect.
    fn ways_on_from_run(&self) -> Vec<(String, &'static str)> {
        let tag = &self.tag;
        let mut next = vec![match (self.lanes.is_concurrent, self.has_agent()) {
            (false, false) => (format!("ar try --continue --tag {tag}"), "finishes it"),
            (false, true) => (format!("ar resume {tag}"), "finishes it and continues"),
            (true, true) => (format!("ar resume {tag}"), "finishes them and continues"),
            (true, false) => (format!("ar resume {tag}"), "finishes them"),
        }];
        if self.activity == Activity::RunningAlone {
            next.push(self.way_to_end());
        }
        next
    }

    fn way_to_end(&self) -> (String, &'static str) {
        let what = match self.lanes.is_concurrent {
            true => "terminates the runs and rolls back",
            false => "terminates its run and rolls back",
        };
        (format!("ar stop {} --now", self.tag), what)
    }

    fn ways_on_from_idle(&self) -> Vec<(String, &'static str)> {
        let tag = &self.tag;
        let has_agent = self.has_agent();
        let from_cap = self.ways_on_from_cap(has_agent);
        let resume = format!("ar resume {tag}");
        if self.is_imported() {
            let is_here = self.history.best_kept_record().is_some_and(|best| best.commit.is_known());
            let restore = || (format!("ar restore best --tag {tag}"), "puts its best code on a branch");
            return is_here.then(restore).into_iter().collect();
        }
        if self.is_fetched && from_cap.is_none() {
            return vec![(resume, "continues it here, by the contract in its baseline's record")];
        }
        if let Some(ways) = from_cap {
            return ways;
        }
        if !has_agent {
            let by_agent = (format!("ar run --agent COMMAND --tag {tag}"), "lets an agent make the next ones");
            let by_hand = (format!("ar try -m \"what it changes\" --tag {tag}"), "makes the next one");
            return if self.lanes.is_concurrent { vec![by_agent] } else { vec![by_hand, by_agent] };
        }
        let another_night = (format!("ar run --tag {tag}"), "begins another night");
        if self.is_at_goal() {
            vec![(format!("{resume} --goal X"), "continues to another goal")]
        } else if self.is_at_end() {
            vec![(format!("{resume} --stop-rule RULE"), "continues up to another rule, such as plateau:100")]
        } else if self.is_night_too_short() {
            vec![another_night]
        } else if self.night.as_ref().is_some_and(|night| night.end == NightEnd::Over) {
            vec![(resume, "continues this night"), another_night]
        } else {
            vec![(resume, "continues")]
        }
    }

    /// Returns whether the rest of the night is too short for another experiment.
    fn is_night_too_short(&self) -> bool {
        let end = |contract| nearest_end(contract, self.left.0, self.left.1, Duration::ZERO);
        stop_before_experiment(self.contract.as_ref().and_then(end).as_ref(), &self.history).is_some()
    }

    /// The share of kept sources among those that any iteration stored, and the band that it is in at convergence. In sessions
    /// whose scorer does not count sources it is the share of keeps among the experiments with a verdict, where they keep by a
    /// threshold, since a rising bar keeps ever less.
    fn kept_ratio(&self, report: &Report) -> Option<(f64, [f64; 2])> {
        let contract = self.contract.as_ref()?;
        contract.keep_above.as_ref()?;
        let ratio = match contract.artifact() {
            Some(_) => Sources::of(self.history.records())?.kept_ratio(),
            None => report.summary.keep_rate,
        };
        Some((ratio?, KEPT_BAND))
    }

    /// The share of keeps among the iterations of a research session, whose kept ratio is that of sources.
    fn keep_rate(&self, report: &Report) -> Option<f64> {
        self.contract.as_ref()?.artifact().and(report.summary.keep_rate)
    }

    /// The artifact of a research session as it stands.
    fn artifact(&self) -> Option<ArtifactData> {
        ArtifactData::newest(self.contract.as_ref()?, &self.history)
    }

    /// The same in words.
    pub(super) fn kept_ratio_sentence(&self, report: &Report) -> Option<String> {
        let (ratio, [low, high]) = self.kept_ratio(report)?;
        let of = if self.keep_rate(report).is_some() { " of the stored sources" } else { "" };
        Some(format!("{ratio:.2}{of}; {low:.2} to {high:.2} at convergence"))
    }

    /// The analysis of its records.
    pub fn report(&self) -> Report {
        let metric = self.contract.as_ref().map(|contract| &contract.metric);
        let direction = metric.map_or(Direction::Lower, |metric| metric.direction);
        let name = metric.map_or("value", |metric| metric.name.as_str());
        let facts = SessionFacts { spent: self.spent, ..SessionFacts::default() };
        Report::of_session(self.tag.as_str(), (name, direction), None, Arc::clone(&self.history), facts)
    }

    fn to_json(&self) -> Value {
        let report = self.report();
        let contract = self.contract.as_ref();
        let seconds = |duration: Duration| duration.as_secs_f64();
        let next: Vec<String> = self.next().into_iter().map(|(command, _)| command).collect();
        let (slots, seats) = slots_and_seats(&self.lanes);
        let mut status = json!({
            "tag": self.tag,
            "branch": self.tag.branch(),
            "worktree": self.worktree,
            "activity": self.activity,
            "fetched": self.is_fetched,
            "doing": self.doing(),
            "stopping": self.stopping,
            "ended": self.ended,
            "outage": self.outage,
            "escalation": self.escalation_json(),
            "sleep": self.pause.sleep,
            "open": self.open(),
            "attempts": self.attempts,
            "slots": slots,
            "seats": seats,
            "busy_share": self.lanes.busy_share,
            "calls_are_short": self.lanes.calls_are_short,
            "owner": self.owner,
            "last_seen": self.last_seen.map(|(seen, _)| exact_time(seen)),
            "metric": contract.map(|contract| &contract.metric.name),
            "direction": contract.map(|contract| contract.metric.direction),
            "incumbent": incumbent(&report, &self.history),
            "best": report.best(),
            "baseline": report.baseline(),
            "counts": report.counts(),
            "since_keep": self.history.since_keep(),
            "kept_ratio": self.kept_ratio(&report).map(|(ratio, band)| json!({"value": ratio, "band": band})),
            "last": last(&report),
            "experiments": self.history.experiments(),
            "max_experiments": contract.and_then(|contract| contract.max_experiments),
            "cost": report.cost(),
            "tokens": report.spent.tokens,
            "max_cost": contract.and_then(|contract| contract.max_cost),
            "max_tokens": contract.and_then(|contract| contract.max_tokens),
            "for": contract.and_then(|contract| contract.budget).map(seconds),
            "for_left": self.budget_left(),
            "until": contract.and_then(|contract| contract.until),
            "goal": contract.and_then(|contract| contract.goal.as_ref()),
            "damage": self.damage,
            "next": next,
        });
        // The macro takes no more at once.
        status["elsewhere"] = json!(self.elsewhere_json());
        status["doubts"] = json!(self.doubts(&report));
        status["keep_rate"] = json!(self.keep_rate(&report));
        status["artifact"] = json!(self.artifact());
        status["night"] = json!(self.night.as_ref().map(|night| night.to_json(&self.history)));
        status["session_caps"] = json!(self.session_caps_json());
        status
    }

    fn elsewhere_json(&self) -> Option<Value> {
        let other = self.elsewhere.as_ref()?;
        Some(json!({"host": other.host, "seen": other.seen.as_secs_f64(), "wait": other.wait.as_secs_f64()}))
    }

    fn escalation_json(&self) -> Option<Value> {
        let open = self.escalation.as_ref()?;
        Some(json!({
            "kind": open.kind,
            "what": open.what,
            "needed": open.needed,
            "since": exact_time(open.since),
            "times": open.times,
            "report": self.report,
            "waits": open.waits && self.owner.is_some(),
        }))
    }

    /// The facts about the session, each with its name.
    pub(super) fn facts(&self, report: &Report) -> Vec<(&'static str, String)> {
        let place = self.worktree.as_ref().map(|path| format!(" in {}", path.display())).unwrap_or_default();
        let session = match self.is_imported() {
            true => format!("{}, imported from another tool's ledger", self.tag),
            false => format!("{} on branch {}{place}", self.tag, self.tag.branch()),
        };
        let escalation = self.escalation.as_ref();
        let outage = self.outage.as_ref().filter(|outage| !outage.said.is_empty());
        let open = self.open().filter(|open| !open.description.is_empty() && !self.lanes.is_concurrent);
        let metric = self
            .contract
            .as_ref()
            .map(|contract| format!("{}, {} is better", one_line(&contract.metric.name), contract.metric.direction));
        // A threshold, and a simplification, keep what is less good.
        let is_other = |incumbent: &&Point| report.best().is_some_and(|best| best.id != incumbent.id);
        let incumbent = incumbent(report, &self.history).filter(|it| it.value.is_some()).filter(is_other);
        let since = match self.history.since_keep() {
            0 => String::new(),
            count => format!("; {count} since the last keep"),
        };
        let facts = [
            ("session", Some(session)),
            ("doing", Some(self.doing())),
            ("ended", self.ended.clone()),
            ("needed", escalation.map(|open| open.needed.clone())),
            ("escalated", escalation.map(|open| open.clause(self.report.as_deref()))),
            ("agent said", outage.map(|outage| outage.said.clone())),
            ("tries", open.map(|open| one_line(&open.description))),
            ("waiting", self.waiting()),
            ("slots", self.busy()),
            ("active", Some(self.at_work_sentence())),
            ("metric", metric),
            ("best", Some(report.best().map_or("none".into(), describe))),
            ("incumbent", incumbent.map(describe)),
            ("baseline", Some(report.baseline().map_or("none".into(), describe))),
            ("experiments", Some(counts_sentence(report) + &since)),
            ("artifact", self.artifact().map(|artifact| artifact.sentence())),
            ("kept ratio", self.kept_ratio_sentence(report)),
            ("keep rate", self.keep_rate(report).map(|rate| format!("{rate:.2} of the iterations"))),
            ("reviews", reviews_sentence(&self.history)),
            ("cost", cost_sentence(report.cost().as_ref(), report.spent.tokens)),
            ("budget", self.budget()),
        ];
        let facts = facts.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let doubts = self.doubts(report).into_iter().map(|doubt| ("doubt", doubt.what));
        facts.chain(doubts).chain(self.damage.iter().map(|sentence| ("damaged", one_line(sentence)))).collect()
    }

    /// The doubts that its numbers tell of its changes at all.
    fn doubts(&self, report: &Report) -> Vec<Warning> {
        doubted_numbers(self.tag.as_str(), &report.points, self.history.records(), &report.facts)
    }

    fn details(&self, markdown: bool, width: Option<u16>) -> String {
        let report = self.report();
        let shown = |grid: &Grid| match markdown {
            true => format!("\n{}", grid.to_markdown()),
            false => grid.to_lines(width),
        };
        let mut text: String = self.facts(&report).iter().map(|(name, value)| fact(markdown, name, value)).collect();
        if self.lanes.is_concurrent && (self.owner.is_some() || !self.attempts.is_empty()) {
            text += &format!("\nslots and seats\n{}", shown(&lanes_grid(self)));
        }
        if !last(&report).is_empty() {
            text += &format!("\nthe last experiments\n{}", shown(&last_grid(&report)));
        }
        text += "\nwhat to type next\n";
        let mut next = Grid::new([("command", Align::Left), ("what it does", Align::Text)]);
        for (command, what) in self.next() {
            next.push([command, what.into_owned()]);
        }
        let rows = next.to_lines(width.map(|width| width.saturating_sub(2)));
        text += &if markdown {
            format!("\n{}", next.to_markdown())
        } else {
            rows.lines().skip(1).map(|line| format!("  {line}\n")).collect()
        };
        text
    }
}

/// The experiment that a new one has to beat.
fn incumbent<'a>(report: &'a Report, history: &History) -> Option<&'a Point> {
    let id = history.incumbent()?.id;
    report.points.iter().find(|point| point.id == id)
}

/// The last experiments, oldest first.
fn last(report: &Report) -> &[Point] {
    &report.points[report.points.len().saturating_sub(LAST)..]
}

fn last_grid(report: &Report) -> Grid {
    let first = report.points.len().saturating_sub(LAST);
    Grid::of(
        (first..).zip(last(report)),
        &[
            ("#", Align::Right, &|(_, point)| point.id.to_string()),
            ("commit", Align::Left, &|(_, point)| commit(point)),
            ("outcome", Align::Left, &|(_, point)| outcome(point).to_owned()),
            (report.metric_name(), Align::Right, &|(place, _)| report.number_at(*place)),
            ("failure", Align::Left, &|(_, point)| text(point.failure)),
            ("what", Align::Text, &|(_, point)| point.description.to_string()),
        ],
    )
    .sparing(["failure"])
}

/// The pause of a loop between two experiments.
#[derive(Debug, Clone, Default)]
pub struct PauseStatus {
    /// Its end and reason, if it is one of a cadence.
    pub sleep: Option<SleepStatus>,
    /// The calls in a row without a change before it.
    pub idle_calls: u32,
}

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
    pub pause: PauseStatus,
    /// The open attempts, in the order in which they were opened; *in place* at most one.
    pub attempts: Vec<AttemptStatus>,
    /// The slots and the seats.
    pub lanes: LanesStatus,
    /// The maker of its changes, if that is known.
    pub driver: Option<SessionDriver>,
    /// The active process.
    pub owner: Option<OwnerStatus>,
    /// The request of `ar stop` to the active process.
    pub stopping: Option<StopWhen>,
    /// When the journal was written last, and the seconds since then, or since the last write to the active log if that is
    /// shorter.
    pub last_seen: Option<(Timestamp, f64)>,
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
    /// The times that `--for` and `--until` still leave to that night.
    pub left: (Option<Duration>, Option<Duration>),
    /// Unrecorded commits at the tip of its branch, while nothing is open.
    pub unrecorded_tip: Option<UnrecordedTip>,
    /// The data that could not be read, one sentence each.
    pub damage: Vec<String>,
}

/// A process that is active in a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OwnerStatus {
    /// Its id.
    pub process: Option<u32>,
    /// Its description, by itself.
    pub said: String,
    /// The time that it has been active, in seconds.
    pub at_work: Option<f64>,
}

impl SessionStatus {
    /// The attempt that was opened first.
    pub fn open(&self) -> Option<&AttemptStatus> {
        self.attempts.first()
    }
}

/// The keeps that the reviewer doubts or has not reviewed, if there are any.
fn reviews_sentence(history: &History) -> Option<String> {
    let left = history.records().iter().filter(|record| record.open_review().is_some());
    let (unreviewed, doubted): (Vec<&Record>, Vec<&Record>) = left.partition(|record| record.is_unreviewed());
    let names: Vec<String> = doubted.iter().map(|record| record.id.to_string()).collect();
    let are = if unreviewed.len() == 1 { "is" } else { "are" };
    let parts = [
        (!doubted.is_empty()).then(|| format!("the reviewer doubts what was kept: {}", names.join(", "))),
        (!unreviewed.is_empty()).then(|| format!("{} {are} unreviewed", count_of(unreviewed.len(), "keep"))),
    ];
    parts.into_iter().flatten().reduce(|one, other| format!("{one}; {other}"))
}
