//! Output of a loop: lines, and live ones on a terminal, one for each open experiment; or events as NDJSON.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use serde_json::json;

use autoresearch::agent::AgentCommand;
use autoresearch::domain::{
    Clock, EVENT_VERSION, Event, ExperimentId, Number, Outage, OutageKind, ReviewVerdict, RunRole, Tag, clock_time,
    count_of, exact_time, experiment_name, moment_text, one_line, report_clause, shell_word,
};
use autoresearch::report::fit;
use autoresearch::state::SessionFolder;

use super::{OutcomeLine, StreamFormat, output, saved_line};

/// Consumes the events of a loop.
#[derive(Default)]
pub(super) struct Progress {
    format: StreamFormat,
    clock: Clock,
    live: Option<Live>,
    /// The active runs, by experiment.
    runs: BTreeMap<ExperimentId, LiveRun>,
    incumbent: Option<Number>,
    /// The line before that of the first event.
    first: Option<String>,
    /// True if standard output is reserved for a command's answer.
    aside: bool,
    /// The working tree with the files of the sessions.
    main_worktree: PathBuf,
    /// The current folder.
    here: PathBuf,
    tag: Option<Tag>,
    /// The last calls that changed nothing, by experiment.
    idle: BTreeMap<ExperimentId, IdleCall>,
    /// The experiment whose idle call was printed last, with nothing after it.
    idle_line: Cell<Option<ExperimentId>>,
    /// The last printed line of an outage that continues, without its experiment: an outage stops all agents.
    outage: Option<String>,
}

/// A run that is shown on a live line.
struct LiveRun {
    /// Its time limit, in seconds.
    limit: f64,
    /// The value to beat when it started, which is that of its own base.
    to_beat: Option<Number>,
}

/// A printed agent call that changed nothing.
struct IdleCall {
    line: String,
    /// The number of later calls with the same outcome.
    again: u32,
}

impl Progress {
    /// Prepares printing beside an answer: all lines go to standard error, and only the baseline gets one.
    pub(super) fn aside(clock: Clock, main_worktree: PathBuf) -> Self {
        let mut progress = Progress::new(StreamFormat::Table, clock, main_worktree);
        progress.aside = true;
        progress
    }

    /// Prepares printing; live lines appear only where standard error is a terminal.
    pub(super) fn new(format: StreamFormat, clock: Clock, main_worktree: PathBuf) -> Self {
        Progress {
            format,
            clock,
            live: if format == StreamFormat::Table { Live::new() } else { None },
            main_worktree,
            here: std::env::current_dir().unwrap_or_default(),
            ..Progress::default()
        }
    }

    /// Prints a line before all others.
    pub(super) fn beginning_with(self, line: Option<String>) -> Self {
        Progress { first: line, ..self }
    }

    /// Returns whether it shows progress within a run.
    pub(super) fn is_live(&self) -> bool {
        self.live.is_some() || self.format == StreamFormat::Json
    }

    /// Prints an event.
    pub(super) fn show(&mut self, event: &Event) {
        match self.format {
            StreamFormat::Json => self.show_json(event),
            StreamFormat::Table if output::manners().quiet && !is_answer(event) => {}
            StreamFormat::Table => self.show_line(event),
        }
    }

    fn show_json(&self, event: &Event) {
        let mut line = json!({"version": EVENT_VERSION, "ts": exact_time(self.clock.now())});
        if let (Some(line), Ok(serde_json::Value::Object(fields))) = (line.as_object_mut(), serde_json::to_value(event))
        {
            line.extend(fields);
        }
        output::json_line(&line);
    }

    fn show_line(&mut self, event: &Event) {
        if let Some(line) = self.first.take().filter(|_| !output::manners().quiet) {
            self.print(&line);
        }
        match event {
            Event::SessionStarted { tag, experiments, continued, .. } => {
                self.tag = Some(tag.clone());
                self.print(&match continued {
                    true => format!("continuing {} after {}", tag.branch(), count_of(*experiments, "experiment")),
                    false => format!("starting {}", tag.branch()),
                });
            }
            Event::Notice(notice) => self.print_note(&format!("note: {notice}")),
            Event::EnvironmentChanged { incumbent, changes } => {
                let changes: Vec<String> = changes.iter().map(|change| one_line(&change.to_string())).collect();
                let (name, changes) = (experiment_name(*incumbent), changes.join(", "));
                self.print_note(&format!("warning: numbers are not comparable with that of {name}: {changes}"));
            }
            Event::ChangesSaved { reference, paths } => {
                self.print_note(&format!("saved uncommitted changes to {} as {reference}", paths.join(", ")));
            }
            Event::AgentStarted { .. }
            | Event::AgentFinished { .. }
            | Event::CalledAgain { .. }
            | Event::Searched { .. }
            | Event::Summary { .. }
            | Event::Explored { .. } => self.show_call(event),
            Event::Outage { .. }
            | Event::OutageOver { .. }
            | Event::Sleep { .. }
            | Event::IdlePause { .. }
            | Event::Escalated { .. }
            | Event::EscalationOver { .. }
            | Event::Flagged { .. } => self.show_pause(event),
            Event::RunStarted { .. }
            | Event::Confirming { .. }
            | Event::RunProgress { .. }
            | Event::GuardStarted { .. }
            | Event::GuardFinished { .. }
            | Event::ReviewStarted { .. }
            | Event::ReviewFinished { .. }
            | Event::RunFinished { .. }
            | Event::ExperimentFinished { .. } => self.show_run(event),
            Event::Told { id, text, .. } => {
                self.end_idle(None);
                self.print_fitting(&format!("      told, word {id}: {text}"));
            }
            Event::Checkpoint { path, .. } => {
                self.print(&format!("      checkpoint in {}", self.as_seen_here(path)));
            }
            Event::Directed { directive, .. } if !self.aside => {
                self.end_idle(None);
                self.print(&format!("      next: {directive}"));
            }
            // The answer ends with the directive.
            Event::Directed { .. } => {}
            Event::SessionStopped { reason, .. } => {
                self.live = None;
                self.end_idle(None);
                self.print(&format!("stopped: {}", reason));
            }
        }
    }

    /// Shows a call of an agent, for a change or for text.
    fn show_call(&mut self, event: &Event) {
        match event {
            Event::AgentStarted { id } => {
                self.print_detail(|| open_line(*id, "calling the agent"));
                self.begin(*id, "the agent is working".into());
            }
            Event::AgentFinished { id, changed: true, timed_out, .. } => {
                self.end_idle(Some(*id));
                self.end(*id);
                if *timed_out {
                    let what = "the agent reached its time limit; measuring what it changed";
                    self.print_fitting(&open_line(*id, what));
                }
            }
            Event::AgentFinished { id, timed_out, said, .. } => self.show_idle(*id, *timed_out, said),
            Event::CalledAgain { id, reason, time, limit } => {
                let what = format_args!("{reason}; calling the agent again, {time} of {limit}");
                self.print_fitting(&open_line(*id, what));
            }
            Event::Searched { answers, ideas, .. } => {
                let (answers, ideas) = (count_of(*answers, "answer"), count_of(*ideas, "new idea"));
                self.print(&format!("      searched: {answers}, {ideas}"));
            }
            Event::Summary { id, path, .. } => {
                self.print(&format!("      the agent's summary is in {}", self.as_seen_here(path)));
                self.end(*id);
            }
            Event::Explored { id, role, .. } => {
                self.print(&format!("      proposal to {role}"));
                self.end(*id);
            }
            _ => {}
        }
    }

    /// Shows a wait of the loop and its end, or a call for the user.
    fn show_pause(&mut self, event: &Event) {
        match event {
            Event::Outage { id, outage, again: Some(again), .. } => self.show_outage(*id, outage, *again),
            Event::OutageOver { seconds, .. } => {
                self.outage = None;
                self.print(&format!("      the agent is available again after {}", clock_time(*seconds)));
            }
            Event::Sleep { id, until, why, .. } => {
                self.end_idle(None);
                self.print(&format!("      sleeping until {}: {why}", moment_text(*until)));
                self.begin(*id, format!("sleeping until {}", moment_text(*until)));
            }
            Event::IdlePause { until, idle_calls, max_idle, .. } => {
                let of = if *max_idle > 0 { format!(" of {max_idle}") } else { String::new() };
                let until = moment_text(*until);
                self.print(&format!("      pausing until {until}: {idle_calls}{of} calls in a row without a change"));
            }
            Event::Escalated { what, needed, waits, report, .. } => {
                self.end_idle(None);
                self.print(&format!("      needs you: {what}"));
                let report = report.as_ref().map(|report| self.as_seen_here(report));
                let report = report_clause(report.as_deref().map(Path::new));
                self.print(&format!("      {needed}; {report}"));
                if *waits {
                    self.print("      waiting until the cause is gone, or for a word by `ar tell`");
                }
            }
            Event::EscalationOver { why, .. } => self.print(&format!("      continuing: {why}")),
            Event::Flagged { after, times, report, .. } => {
                self.end_idle(None);
                let times = if *times > 1 { format!(", {} so far", count_of(*times, "time")) } else { String::new() };
                self.print(&format!("      flagged for review after {}{times}", experiment_name(*after)));
                if let Some(report) = report {
                    self.print(&format!("      the report is {}", self.as_seen_here(report)));
                }
            }
            _ => {}
        }
    }

    /// Shows a run with its guards and its review, up to the record.
    fn show_run(&mut self, event: &Event) {
        match event {
            Event::RunStarted { id, description, timeout, incumbent, commit, log } => {
                self.print_detail(|| {
                    let (commit, log) = (commit.short(8), self.as_seen_here(log));
                    open_line(*id, format_args!("commit {commit} runs, log {log}"))
                });
                self.begin(*id, description.clone());
                self.runs.insert(*id, LiveRun { limit: *timeout, to_beat: incumbent.clone() });
                self.draw(*id, Some(0.0), None);
            }
            Event::Confirming { id, role, seed, done, most } => {
                let seed = seed.map(|seed| format!(" with seed {seed}")).unwrap_or_default();
                let what = match role {
                    RunRole::Baseline => format!("runs the baseline{seed}, to learn how noisy it is"),
                    RunRole::Control => "runs the experiment to beat once more, as a control".to_owned(),
                    _ => format!("confirms {} of {most}{seed}", done + 1),
                };
                self.print_detail(|| open_line(*id, format_args!("{what}")));
                self.begin(*id, what);
            }
            Event::RunProgress { id, elapsed, last } => self.draw(*id, Some(*elapsed), last.as_ref()),
            Event::GuardStarted { id, command, .. } => self.begin(*id, format!("guard {command}")),
            Event::GuardFinished { id, guard } => self.print_detail(|| {
                let passed = if guard.passed { "passed" } else { "failed" };
                open_line(*id, format_args!("guard {} {passed}: {}", guard.command, guard.ended()))
            }),
            Event::ReviewStarted { id } => self.begin(*id, "review".to_owned()),
            Event::ReviewFinished { id, review, late } => {
                let line = format!("{id:>4}  {:<8} {}", "review", review.sentence());
                match review.verdict {
                    ReviewVerdict::Earned if !late => self.print_detail(|| line),
                    _ => self.print_fitting(&line),
                }
                if *late {
                    self.end(*id);
                }
            }
            Event::RunFinished { id, description, reason, trial, value } => {
                self.end(*id);
                if !self.aside {
                    let what = if *trial { "tried" } else { "waits" };
                    self.print_outcome(&OutcomeLine::of_run(*id, what, value.as_ref(), description, reason));
                }
            }
            Event::ExperimentFinished { record, incumbent, doubt } => {
                self.incumbent = incumbent.as_ref().map(|(_, number)| number.clone());
                self.end(record.id);
                if !self.aside || record.id.is_baseline() {
                    self.print_outcome(&OutcomeLine::of_experiment(record, doubt.as_deref()));
                }
                if let Some(line) = saved_line(record).filter(|_| record.is_by_hand() && !self.aside) {
                    self.print(&line);
                }
            }
            _ => {}
        }
    }

    /// Prints a call that changed nothing; once for consecutive calls with the same outcome.
    fn show_idle(&mut self, id: ExperimentId, timed_out: bool, said: &str) {
        let why = if timed_out { "reached its time limit and " } else { "" };
        let what = format!("the agent {why}changed nothing");
        let line = open_line(id, format_args!("{what}{}", prefixed(": ", said)));
        self.end(id);
        if let Some(idle) = self.idle.get_mut(&id).filter(|idle| idle.line == line) {
            idle.again += 1;
            return;
        }
        self.end_idle(Some(id));
        self.print_fitting(&line);
        if timed_out {
            self.print_agent_log(id);
        }
        self.idle.insert(id, IdleCall { line, again: 0 });
        self.idle_line.set(Some(id));
    }

    /// Prints an outage, once as long as it is the same. The live line says until when it lasts.
    fn show_outage(&mut self, id: ExperimentId, outage: &Outage, again: Timestamp) {
        self.end_idle(None);
        let line = format!("{}{}", outage.kind, prefixed(": ", &outage.said));
        if self.outage.as_ref() != Some(&line) {
            self.print_fitting(&open_line(id, &line));
            if outage.kind == OutageKind::Failed {
                self.print_agent_log(id);
            }
            self.print(&format!("      waiting until {}", moment_text(again)));
            self.outage = Some(line);
        }
        self.begin(id, format!("waiting until {}, {}", moment_text(again), outage.kind));
    }

    /// Prints the path of an agent's log.
    fn print_agent_log(&self, id: ExperimentId) {
        let Some(tag) = &self.tag else { return };
        let log = AgentCommand { folder: SessionFolder::new(&self.main_worktree, tag).run(id) }.log();
        self.print(&format!("      | {}", self.as_seen_here(&log)));
    }

    /// A path as a word for a shell, relative to the current folder if it is below that.
    fn as_seen_here(&self, path: &Path) -> String {
        shell_word(path.strip_prefix(&self.here).unwrap_or(path))
    }

    /// Prints a line if `--verbose` is given.
    fn print_detail(&self, line: impl FnOnce() -> String) {
        if output::manners().verbose {
            self.print_fitting(&line());
        }
    }

    /// Prints how often the last idle call of an experiment was repeated with the same outcome; by default of all.
    fn end_idle(&mut self, only: Option<ExperimentId>) {
        let ended: Vec<ExperimentId> =
            self.idle.keys().copied().filter(|id| only.is_none_or(|only| only == *id)).collect();
        for id in ended {
            if let Some(idle) = self.idle.remove(&id).filter(|idle| idle.again > 0) {
                let again = format!("and the same {} more", count_of(idle.again, "time"));
                // Lines of others may stand between.
                let is_below = self.idle_line.get() == Some(id);
                self.print(&if is_below { format!("      | {again}") } else { open_line(id, again) });
            }
        }
    }

    /// Prints a line above the live ones, cut to the width of a terminal.
    fn print_fitting(&self, line: &str) {
        self.print(&fit(line, self.width()));
    }

    /// Prints the line of an outcome above the live ones.
    fn print_outcome(&self, line: &OutcomeLine) {
        self.print(&line.fit(self.width()));
    }

    /// The number of columns of the terminal, where the lines go to one.
    fn width(&self) -> Option<u16> {
        if self.aside { output::note_width() } else { output::width() }
    }

    /// Prints a line above the live ones.
    fn print(&self, line: &str) {
        if self.aside {
            return self.print_note(line);
        }
        self.suspended(|| output::line(line));
    }

    fn print_note(&self, line: &str) {
        self.suspended(|| output::note(line));
    }

    fn suspended(&self, print: impl FnOnce()) {
        self.idle_line.set(None);
        match &self.live {
            Some(live) => live.above(print),
            None => print(),
        }
    }

    /// Shows on the live line of an experiment what it does now.
    fn begin(&mut self, id: ExperimentId, doing: String) {
        self.runs.remove(&id);
        if let Some(live) = &mut self.live {
            live.begin(id, format!("experiment {id}: {doing}"));
        }
        self.draw(id, None, None);
    }

    /// Removes the live line of an experiment that waits or is recorded.
    fn end(&mut self, id: ExperimentId) {
        self.runs.remove(&id);
        if let Some(live) = &mut self.live {
            live.end(id);
        }
    }

    /// Shows on the live line of an experiment the duration of its run, its newest value, and the one to beat.
    fn draw(&self, id: ExperimentId, elapsed: Option<f64>, last: Option<&Number>) {
        let Some(live) = &self.live else { return };
        live.show(id, self.figures(id, elapsed, last));
    }

    /// The figures in the live line of an experiment: its run, its last value and the value to beat.
    fn figures(&self, id: ExperimentId, elapsed: Option<f64>, last: Option<&Number>) -> String {
        let run = self.runs.get(&id);
        let mut figures = String::new();
        if let Some((elapsed, run)) = elapsed.zip(run) {
            figures += &format!("  {} of {}", clock_time(elapsed), clock_time(run.limit));
        }
        if let Some(last) = last {
            figures += &format!("  now {last:#}");
        }
        if let Some(best) = run.map_or(self.incumbent.as_ref(), |run| run.to_beat.as_ref()) {
            figures += &format!("  to beat {best:#}");
        }
        figures
    }
}

fn is_answer(event: &Event) -> bool {
    matches!(event, Event::ExperimentFinished { .. } | Event::SessionStopped { .. })
}

/// A line about an attempt that is not recorded yet.
fn open_line(id: ExperimentId, text: impl Display) -> String {
    format!("{id:>4}  {:<8} {text}", "-")
}

/// A text with something before it, unless it is empty.
fn prefixed(before: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{before}{text}") }
}

/// The most redraws of the lines per second.
const RATE: u8 = 4;

/// The current step, shortened to make room for the figures behind it.
const TEMPLATE: &str = "{wide_msg}{prefix}";

/// Owns the live lines.
pub(super) struct Live {
    all: MultiProgress,
    lines: BTreeMap<ExperimentId, ProgressBar>,
}

impl Live {
    /// Prepares lines on standard error, where that is a terminal and signs of progress are wanted.
    pub(super) fn new() -> Option<Live> {
        let target = ProgressDrawTarget::stderr_with_hz(RATE);
        (io::stderr().is_terminal() && !output::manners().quiet)
            .then(|| Live { all: MultiProgress::with_draw_target(target), lines: BTreeMap::new() })
    }

    /// Shows what an experiment does now; its figures start anew.
    pub(super) fn begin(&mut self, id: ExperimentId, doing: String) {
        output::begin_drawing();
        let line = self.lines.entry(id).or_insert_with(|| {
            let style = ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_spinner());
            self.all.add(ProgressBar::no_length().with_style(style))
        });
        line.set_message(doing);
    }

    /// Shows the figures of an experiment.
    pub(super) fn show(&self, id: ExperimentId, figures: String) {
        let Some(line) = self.lines.get(&id) else { return };
        output::begin_drawing();
        line.set_prefix(figures);
        line.tick();
    }

    /// Removes the line of an experiment.
    pub(super) fn end(&mut self, id: ExperimentId) {
        if let Some(line) = self.lines.remove(&id) {
            output::begin_drawing();
            line.finish_and_clear();
            self.all.remove(&line);
        }
    }

    /// Prints something above the lines.
    pub(super) fn above(&self, print: impl FnOnce()) {
        output::begin_drawing();
        self.all.suspend(|| {
            print();
            output::begin_drawing();
        });
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        while let Some(id) = self.lines.keys().next().copied() {
            self.end(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Option<Number> {
        Some(text.parse().unwrap())
    }

    fn started(id: u32, timeout: f64, to_beat: &str) -> Event {
        Event::RunStarted {
            id: id.into(),
            commit: autoresearch::domain::CommitId::new("c"),
            description: String::new(),
            log: PathBuf::new(),
            timeout,
            incumbent: number(to_beat),
        }
    }

    #[test]
    fn each_of_several_runs_has_figures_of_its_own() {
        let mut progress = Progress::new(StreamFormat::Table, Clock::System, PathBuf::new());
        progress.show(&started(12, 300.0, "2.0"));
        progress.show(&started(14, 600.0, "1.5"));
        let figures =
            |progress: &Progress, id: u32, last: Option<Number>| progress.figures(id.into(), Some(61.0), last.as_ref());
        assert_eq!(figures(&progress, 12, number("1.75")), "  1m01s of 5m00s  now 1.75  to beat 2.0");
        assert_eq!(figures(&progress, 14, None), "  1m01s of 10m00s  to beat 1.5");
        let (id, trial) = (12.into(), false);
        let value = number("1.7");
        progress.show(&Event::RunFinished { id, description: String::new(), reason: String::new(), value, trial });
        assert_eq!((figures(&progress, 12, None), progress.runs.len()), (String::new(), 1));
    }

    #[test]
    fn idle_calls_of_several_agents_are_counted_by_experiment() {
        let mut progress = Progress::new(StreamFormat::Table, Clock::System, PathBuf::new());
        let idle = |id: u32, changed| Event::AgentFinished {
            id: id.into(),
            seconds: 1.0,
            changed,
            exit: Some(0),
            timed_out: false,
            said: String::new(),
        };
        for (id, changed) in [(5, false), (6, false), (5, false), (6, false), (5, true)] {
            progress.show(&idle(id, changed));
        }
        let again: Vec<(u32, u32)> = progress.idle.iter().map(|(id, idle)| (id.number(), idle.again)).collect();
        assert_eq!((again, progress.idle_line.get()), (vec![(6, 1)], None));
    }
}
