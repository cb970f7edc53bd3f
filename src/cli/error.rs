//! Errors as the user sees them: what is wrong, why, and what to do; and the exit codes.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use autoresearch::domain::{Area, ErrorKind, Finding, Severity, StopReason, shell_word};
use autoresearch::git::GitError;
use autoresearch::session::SessionError;

use super::output;

/// An error on its way to the user.
#[derive(Debug)]
pub(super) struct CliError {
    code: u8,
    source: Box<dyn Error>,
    /// Lines of a log that show it.
    excerpt: String,
    hint: Option<String>,
}

impl CliError {
    /// The error as a finding of this level.
    pub(super) fn finding(self, area: Area, level: Severity) -> Finding {
        let what = self.to_string();
        Finding { hint: self.hint, ..Finding::new(area, level, what) }
    }

    /// An error of the environment.
    pub(super) fn new(source: impl Into<Box<dyn Error>>, hint: Option<String>) -> Self {
        CliError { code: CANNOT_START, source: source.into(), excerpt: String::new(), hint }
    }

    /// A wrong call.
    pub(super) fn usage(source: impl Into<Box<dyn Error>>, hint: impl Into<String>) -> Self {
        CliError { code: USAGE, source: source.into(), excerpt: String::new(), hint: Some(hint.into()) }
    }

    /// The same with the lines of a log that show it.
    pub(super) fn with_excerpt(mut self, excerpt: String) -> Self {
        self.excerpt = excerpt;
        self
    }

    /// The same of a command that begins something: where there is no repository, one can be made.
    pub(super) fn of_start(mut self) -> Self {
        if let Some(SessionError::Git(GitError::NoRepository(dir))) = self.source.downcast_ref() {
            self.hint = Some(format!("cd into the repository, or make one: git init {}", shell_word(dir)));
        }
        self
    }

    /// Prints it to standard error and gives its exit code.
    pub(super) fn print(self) -> ExitCode {
        let style = anstyle::Style::new().bold();
        let red = style.fg_color(Some(anstyle::AnsiColor::Red.into()));
        let cyan = style.fg_color(Some(anstyle::AnsiColor::Cyan.into()));
        output::complaint(&format!("{red}error:{red:#} {}", self.source));
        let mut said = self.source.to_string();
        let mut cause = self.source.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // A transparent error has the text of its source.
            if !said.contains(&text) {
                output::complaint(&format!("  caused by: {}", text.trim_end().replace('\n', "\n    ")));
            }
            said = text;
            cause = error.source();
        }
        for line in self.excerpt.lines() {
            output::complaint(&format!("  | {line}"));
        }
        if let Some(hint) = self.hint {
            output::complaint(&format!("{cyan}hint:{cyan:#} {}", on_two_lines(&hint)));
        }
        ExitCode::from(self.code)
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)
    }
}

impl<E: Into<SessionError>> From<E> for CliError {
    fn from(error: E) -> Self {
        let error: SessionError = error.into();
        let excerpt = match &error {
            SessionError::Baseline(failed) => failed.excerpt.clone(),
            _ => String::new(),
        };
        CliError { code: of_error(error.kind()), hint: error.hint(), excerpt, source: Box::new(error) }
    }
}

/// A long hint on two lines, parted nearest to its middle where a clause ends outside of a command.
fn on_two_lines(hint: &str) -> String {
    const LONGEST: usize = 120;
    const INDENT: &str = "\n      ";
    let ends = ["; ", "? ", ", or ", ", and "].iter().flat_map(|end| hint.match_indices(end));
    // A comma and the sign before it stay on the first line.
    let places = ends.map(|(at, _)| at + 1).filter(|at| hint[..*at].matches(['`', '"']).count().is_multiple_of(2));
    match places.min_by_key(|at| at.abs_diff(hint.len() / 2)) {
        Some(at) if hint.chars().count() > LONGEST && !hint.contains('\n') => {
            format!("{}{INDENT}{}", &hint[..at], &hint[at + 1..])
        }
        _ => hint.to_owned(),
    }
}

/// Repository, configuration or environment: it cannot start.
pub(super) const CANNOT_START: u8 = 1;

/// The command was called wrongly.
pub(super) const USAGE: u8 = 2;

/// The baseline failed.
const BASELINE_FAILED: u8 = 3;

/// Stopped and needs you.
pub(super) const NEEDS_PERSON: u8 = 4;

/// Another `ar` holds the session, or took it over.
pub(super) const HELD: u8 = 5;

/// Damaged state that `ar` will not repair by guessing.
pub(super) const DAMAGED: u8 = 6;

/// `ar try --exit-code`: the experiment was discarded.
pub(super) const TRY_DISCARD: u8 = 10;

/// `ar try --exit-code`: the experiment crashed.
pub(super) const TRY_CRASH: u8 = 20;

/// `ar try --exit-code`: the time to wait is over, and the run goes on.
pub(super) const TRY_RUNNING: u8 = 30;

/// Interrupted.
pub(super) const INTERRUPTED: u8 = 130;

/// The codes and what they say, as the manual has them.
pub(super) const CODES: [(u8, &str); 11] = [
    (0, "Done as asked; reaching a budget, a limit on experiments or a goal counts as done."),
    (CANNOT_START, "Cannot start: the repository, the configuration or the environment is not as it must be."),
    (USAGE, "Wrong usage."),
    (BASELINE_FAILED, "The baseline failed."),
    (NEEDS_PERSON, "Stopped and needs you."),
    (HELD, "Another ar holds the session, or took it over."),
    (DAMAGED, "Damaged state that ar does not repair by guessing."),
    (TRY_DISCARD, "`ar try --exit-code`: discarded; `ar repro`: another value."),
    (TRY_CRASH, "`ar try --exit-code`: crashed; `ar repro`: no value."),
    (TRY_RUNNING, "`ar try --exit-code`: still running."),
    (INTERRUPTED, "Interrupted by a signal; a loop that `ar stop` ended exits with 0."),
];

/// The code for a kind of trouble.
pub(super) fn of_error(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::CannotStart => CANNOT_START,
        ErrorKind::Usage => USAGE,
        ErrorKind::BaselineFailed => BASELINE_FAILED,
        ErrorKind::NeedsPerson => NEEDS_PERSON,
        ErrorKind::Held => HELD,
        ErrorKind::Damaged => DAMAGED,
        ErrorKind::Interrupted => INTERRUPTED,
    }
}

/// The code for the way a loop ended; cap, budget, goal and a request to stop are done as asked.
pub(super) fn of_stop(reason: &StopReason) -> u8 {
    match reason {
        StopReason::Reached(reached) if reached.is_done => 0,
        StopReason::MaxExperiments { .. }
        | StopReason::Budget { .. }
        | StopReason::Until { .. }
        | StopReason::NoTime { .. }
        | StopReason::NoAgent
        | StopReason::Interrupted { requested: true } => 0,
        StopReason::Reached(_)
        | StopReason::Flagged { .. }
        | StopReason::Outage { .. }
        | StopReason::Agent { .. }
        | StopReason::Error { .. } => NEEDS_PERSON,
        StopReason::Interrupted { requested: false } | StopReason::Terminated | StopReason::Detached => INTERRUPTED,
    }
}

/// Leaves what a command has read to the end of the process, which is near: to free the records of 10,000 experiments one by
/// one takes 5 ms.
pub(super) fn leave<T>(read: T) {
    std::mem::forget(read);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_hint_is_parted_where_a_clause_ends() {
        let short = "commit or stash them, or pass --adopt to make them the first experiment";
        assert_eq!(on_two_lines(short), short);
        let first = "move it out of the way, to a folder where nothing else needs it;";
        let second = "then call `df -h .; df -i .` and see how much room is left on the disk";
        assert_eq!(on_two_lines(&format!("{first} {second}")), format!("{first}\n      {second}"));
        let one = "x".repeat(200);
        assert_eq!(on_two_lines(&one), one);
    }
}
