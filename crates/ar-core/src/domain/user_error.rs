//! Errors that only the user tells apart. One that code tells from others is a variant of its room's enum.

use std::error::Error;

/// The kind of an error, which the command line maps to an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The repository, the configuration or the environment is not as it must be.
    CannotStart,
    /// The command was called wrongly.
    Usage,
    /// The baseline has no number.
    BaselineFailed,
    /// The loop stopped and cannot go on without a person.
    NeedsPerson,
    /// Another process holds the session, or took it over.
    Held,
    /// Files or refs are damaged, and to mend them would be a guess.
    Damaged,
    /// The user asked to stop.
    Interrupted,
}

/// An error as the user sees it; [`refuse`] makes one.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct UserError {
    /// Its kind.
    pub kind: ErrorKind,
    text: String,
    /// The next command to type, where there is one.
    pub hint: Option<String>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// Creates an error without hint and cause from a lower-case fragment that says what failed.
pub fn refuse(kind: ErrorKind, text: impl Into<String>) -> UserError {
    UserError { kind, text: text.into(), hint: None, source: None }
}

impl UserError {
    /// An error of the environment, in its own words.
    pub fn of(error: impl Error + Send + Sync + 'static, hint: Option<String>) -> UserError {
        UserError { hint, ..refuse(ErrorKind::CannotStart, error.to_string()).caused_by(error) }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        UserError { hint: Some(hint.into()), ..self }
    }

    /// Adds the cause.
    #[must_use]
    pub fn caused_by(self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        UserError { source: Some(source.into()), ..self }
    }
}
