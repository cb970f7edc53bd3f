//! Errors as the user sees them: what is wrong, why, and what to do.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use autoresearch::domain::shell_word;
use autoresearch::git::GitError;
use autoresearch::guardian::GuardianError;
use autoresearch::measure::PatternError;
use autoresearch::session::SessionError;

use super::{exit, output};

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
    /// An error of the environment.
    pub(super) fn new(source: impl Into<Box<dyn Error>>, hint: Option<String>) -> Self {
        CliError { code: exit::CANNOT_START, source: source.into(), excerpt: String::new(), hint }
    }

    /// An error with the exit code of its kind.
    pub(super) fn with_code(code: u8, hint: Option<String>, source: impl Into<Box<dyn Error>>) -> Self {
        CliError { code, source: source.into(), excerpt: String::new(), hint }
    }

    /// A wrong call.
    pub(super) fn usage(source: impl Into<Box<dyn Error>>, hint: impl Into<String>) -> Self {
        CliError { code: exit::USAGE, source: source.into(), excerpt: String::new(), hint: Some(hint.into()) }
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

impl From<SessionError> for CliError {
    fn from(error: SessionError) -> Self {
        let excerpt = match &error {
            SessionError::Baseline(failed) => failed.excerpt.clone(),
            _ => String::new(),
        };
        CliError { code: exit::of_error(error.kind()), hint: error.hint(), excerpt, source: Box::new(error) }
    }
}

impl From<GuardianError> for CliError {
    fn from(error: GuardianError) -> Self {
        match error {
            GuardianError::Session(error) => error.into(),
            error => {
                let hint = error.hint();
                CliError::new(error, hint)
            }
        }
    }
}

impl From<GitError> for CliError {
    fn from(error: GitError) -> Self {
        SessionError::from(error).into()
    }
}

impl From<PatternError> for CliError {
    fn from(error: PatternError) -> Self {
        SessionError::from(error).into()
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
