//! What a loop prints: lines and a live line on a terminal, or events as NDJSON.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anstyle::{AnsiColor, Style};
use autoresearch::agent::Call;
use autoresearch::domain::{
    Clock, Event, FORMAT_VERSION, Number, Outage, OutageKind, Record, Tag, clock_time, count_of, exact_time,
    experiment_name, moment_text, one_line, shell_word,
};
use autoresearch::report::{columns, fit};
use autoresearch::rules::Ended;
use autoresearch::state::SessionFolder;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use serde_json::json;

use super::args::StreamFormat;
use super::output;

/// Consumes the events of a loop.
pub(super) struct Progress {
    format: StreamFormat,
    clock: Clock,
    live: Option<ProgressBar>,
    /// What the live line says before the time.
    doing: String,
    deadline: Option<f64>,
    incumbent: Option<Number>,
    /// Whether standard output is left to somebody else's answer.
    aside: bool,
    /// Where the files of the sessions are.
    main_worktree: PathBuf,
    /// The current folder.
    here: PathBuf,
    tag: Option<Tag>,
    idle: Option<IdleCall>,
    /// The line of the outage that was printed last and goes on.
    outage: Option<String>,
}

/// A call of the agent that came to nothing, and that was printed.
struct IdleCall {
    line: String,
    /// How many calls after it came to the same.
    again: u32,
}

impl Progress {
    /// Prepares printing beside an answer: all lines go to standard error, and only the baseline gets one.
    pub(super) fn aside(clock: Clock, main_worktree: PathBuf) -> Self {
        let mut progress = Progress::new(StreamFormat::Table, clock, main_worktree);
        progress.aside = true;
        progress
    }

    /// Prepares printing; the live line appears only where standard error is a terminal.
    pub(super) fn new(format: StreamFormat, clock: Clock, main_worktree: PathBuf) -> Self {
        let live =
            (format == StreamFormat::Table && std::io::stderr().is_terminal() && !output::manners().quiet).then(|| {
                let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(4));
                bar.set_style(
                    ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()),
                );
                bar
            });
        Progress {
            format,
            clock,
            live,
            doing: String::new(),
            deadline: None,
            incumbent: None,
            aside: false,
            main_worktree,
            here: std::env::current_dir().unwrap_or_default(),
            tag: None,
            idle: None,
            outage: None,
        }
    }

    /// Whether it has a use for signs of progress.
    pub(super) fn is_live(&self) -> bool {
        self.live.is_some() || self.format == StreamFormat::Json
    }

    /// Prints what belongs to an event.
    pub(super) fn show(&mut self, event: &Event) {
        match self.format {
            StreamFormat::Json => self.show_json(event),
            StreamFormat::Table => self.show_line(event),
        }
    }

    fn show_json(&self, event: &Event) {
        let mut line = json!({"version": FORMAT_VERSION, "ts": exact_time(self.clock.now())});
        if let (Some(line), Ok(serde_json::Value::Object(fields))) = (line.as_object_mut(), serde_json::to_value(event))
        {
            line.extend(fields);
        }
        output::json_line(&line);
    }

    fn show_line(&mut self, event: &Event) {
        let is_answer = matches!(event, Event::ExperimentFinished { .. } | Event::SessionStopped { .. });
        if output::manners().quiet && !is_answer {
            return;
        }
        match event {
            Event::SessionStarted { tag, experiments, continued, .. } => {
                let what = if *continued { "continuing" } else { "starting" };
                let so_far =
                    if *continued { format!(" after {}", count_of(*experiments, "experiment")) } else { String::new() };
                self.tag = Some(tag.clone());
                self.print(&format!("{what} {}{so_far}", tag.branch()));
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
            Event::AgentStarted { id } => {
                self.print_detail(|| format!("{id:>4}  {:<8} calling the agent", "-"));
                self.doing = format!("experiment {id}: the agent is working");
                self.deadline = None;
                self.draw(None, None);
            }
            Event::AgentFinished { id, changed: true, timed_out, .. } => {
                self.end_idle();
                if *timed_out {
                    let what = "the agent reached its time limit; measuring what it changed";
                    self.print_fitting(&format!("{id:>4}  {:<8} {what}", "-"));
                }
            }
            Event::AgentFinished { id, timed_out, said, .. } => self.show_idle(*id, *timed_out, said),
            Event::Outage { id, outage, again, .. } => self.show_outage(*id, outage, *again),
            Event::OutageOver { seconds, .. } => {
                self.outage = None;
                self.print(&format!("      the agent is available again after {}", clock_time(*seconds)));
            }
            Event::RunStarted { id, description, timeout, incumbent, commit, log } => {
                self.print_detail(|| {
                    let commit = commit.short(8);
                    format!("{id:>4}  {:<8} commit {commit} runs, log {}", "-", shell_word(self.as_seen_here(log)))
                });
                self.doing = format!("experiment {id}: {description}");
                self.deadline = Some(*timeout);
                self.incumbent.clone_from(incumbent);
                self.draw(Some(0.0), None);
            }
            Event::RunProgress { elapsed, last, .. } => self.draw(Some(*elapsed), last.as_ref()),
            Event::GuardStarted { id, command, timeout } => {
                self.doing = format!("experiment {id}: guard {command}");
                self.deadline = Some(*timeout);
                self.draw(None, None);
            }
            Event::GuardFinished { id, guard } => self.print_detail(|| {
                let passed = if guard.passed { "passed" } else { "failed" };
                format!("{id:>4}  {:<8} guard {} {passed}: {}", "-", guard.command, guard.ended())
            }),
            Event::CalledAgain { id, reason, time, limit } => {
                self.print_fitting(&format!(
                    "{id:>4}  {:<8} {reason}; calling the agent again, {time} of {limit}",
                    "-"
                ));
            }
            Event::ExperimentFinished { record, incumbent } => {
                self.incumbent = incumbent.as_ref().map(|(_, number)| number.clone());
                self.clear();
                if !self.aside || record.id == 0 {
                    self.print_fitting(&experiment_line(record));
                }
            }
            Event::Flagged { after, times } => {
                self.end_idle();
                let times = if *times > 1 { format!(", {} so far", count_of(*times, "time")) } else { String::new() };
                self.print(&format!("      flagged for review after {}{times}", experiment_name(*after)));
            }
            Event::Directed { directive, .. } if !self.aside => {
                self.end_idle();
                self.print(&format!("      next: {directive}"));
            }
            // The answer ends with it.
            Event::Directed { .. } => {}
            Event::SessionStopped { reason, .. } => {
                self.clear();
                self.end_idle();
                self.print(&format!("stopped: {}", reason));
            }
        }
    }

    /// Prints what the agent came to that changed nothing; once for calls in a row that came to the same.
    fn show_idle(&mut self, id: u32, timed_out: bool, said: &str) {
        let why = if timed_out { "reached its time limit and " } else { "" };
        let what = format!("the agent {why}changed nothing");
        let line = format!("{id:>4}  {:<8} {what}{}", "-", prefixed(": ", said));
        if let Some(idle) = self.idle.as_mut().filter(|idle| idle.line == line) {
            idle.again += 1;
            return;
        }
        self.end_idle();
        self.print_fitting(&line);
        if timed_out {
            self.print_agent_log(id);
        }
        self.idle = Some(IdleCall { line, again: 0 });
    }

    /// Prints what keeps the agent from its work; once as long as that is the same. The live line says how long.
    fn show_outage(&mut self, id: u32, outage: &Outage, again: Timestamp) {
        self.end_idle();
        let line = format!("{:>4}  {:<8} {}{}", id, "-", outage.kind, prefixed(": ", &outage.said));
        if self.outage.as_ref() != Some(&line) {
            self.print_fitting(&line);
            if outage.kind == OutageKind::Failed {
                self.print_agent_log(id);
            }
            self.print(&format!("      waiting until {}", moment_text(again)));
            self.outage = Some(line);
        }
        self.doing = format!("experiment {id}: waiting until {}, {}", moment_text(again), outage.kind);
        self.deadline = None;
        self.draw(None, None);
    }

    /// Prints where the log of the agent that was called for an experiment is.
    fn print_agent_log(&self, id: u32) {
        let Some(tag) = &self.tag else { return };
        let log = Call { folder: SessionFolder::new(&self.main_worktree, tag).run(id) }.log();
        self.print(&format!("      | {}", shell_word(self.as_seen_here(&log))));
    }

    /// A path as it is named from the current folder, where it is below that.
    fn as_seen_here<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.here).unwrap_or(path)
    }

    /// Prints a line that only who asked for more wants.
    fn print_detail(&self, line: impl FnOnce() -> String) {
        if output::manners().verbose {
            self.print_fitting(&line());
        }
    }

    /// Says how often the last idle call came to the same again.
    fn end_idle(&mut self) {
        if let Some(idle) = self.idle.take()
            && idle.again > 0
        {
            self.print(&format!("      | and the same {} more", count_of(idle.again, "time")));
        }
    }

    /// Prints a line above the live one, cut to the width of a terminal.
    fn print_fitting(&self, line: &str) {
        self.print(&fit(line, if self.aside { output::note_width() } else { output::width() }));
    }

    /// Prints a line above the live one.
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
        match self.live() {
            Some(bar) => bar.suspend(|| {
                print();
                output::begin_drawing();
            }),
            None => print(),
        }
    }

    /// The live line, about to be drawn.
    fn live(&self) -> Option<&ProgressBar> {
        self.live.as_ref().inspect(|_| output::begin_drawing())
    }

    fn draw(&self, elapsed: Option<f64>, last: Option<&Number>) {
        let Some(bar) = self.live() else { return };
        let mut facts = String::new();
        if let (Some(elapsed), Some(deadline)) = (elapsed, self.deadline) {
            facts += &format!("  {} of {}", clock_time(elapsed), clock_time(deadline));
        }
        if let Some(last) = last {
            facts += &format!("  now {last}");
        }
        if let Some(best) = &self.incumbent {
            facts += &format!("  to beat {best}");
        }
        // The description gives way to the numbers.
        let width = output::note_width();
        let room = width.map(|width| width.saturating_sub(u16::try_from(columns(&facts)).unwrap_or(u16::MAX)));
        let doing = fit(&self.doing, room);
        bar.set_message(fit(&(doing + &facts), width));
        bar.tick();
    }

    fn clear(&self) {
        if let Some(bar) = self.live() {
            bar.set_message("");
            bar.tick();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = self.live() {
            bar.finish_and_clear();
        }
    }
}

/// A text with something before it, unless it is empty.
fn prefixed(before: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{before}{text}") }
}

/// One finished experiment: number, outcome, what it was, and why it ended so.
pub(super) fn experiment_line(record: &Record) -> String {
    let ended = Ended::of_record(record);
    let color = match ended {
        Ended::Keep => AnsiColor::Green,
        Ended::Discard | Ended::Refused | Ended::Other => AnsiColor::Yellow,
        Ended::Crash => AnsiColor::Red,
    };
    let style = Style::new().fg_color(Some(color.into()));
    let outcome = ended.name();
    let mut line = format!("{:>4}  {style}{outcome:<8}{style:#} {}: {}", record.id, record.description, record.reason);
    if let Some(failure) = &record.failure {
        line += &format!(" [{}]", failure.class);
    }
    line
}
