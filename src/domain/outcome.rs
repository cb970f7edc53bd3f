//! What became of an experiment.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The verdict on an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Better than the incumbent: the branch stays on it.
    Keep,
    /// Measured, and not better: the branch goes back.
    Discard,
    /// No measured number: it failed, or was refused before it ran.
    Crash,
}

impl Outcome {
    /// Its name in records and documents.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Keep => "keep",
            Outcome::Discard => "discard",
            Outcome::Crash => "crash",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why an experiment has no number, or none that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The final traceback is a syntax error.
    SyntaxError,
    /// The final traceback is a missing module or name to import.
    ImportError,
    /// Accelerator or host memory ran out.
    Oom,
    /// The metric is not finite, or the run stopped itself on a NaN.
    Nan,
    /// The run outlived its deadline.
    Timeout,
    /// A signal that `ar` did not send ended the run.
    Killed,
    /// The log is empty.
    NoOutput,
    /// The run ended well and never printed the metric.
    NoMetric,
    /// Any other non-zero exit.
    Crash,
    /// A guard command failed.
    GuardFailed,
    /// The change touches files outside the scope.
    Scope,
    /// The change touches protected files.
    Protected,
    /// The change is over a size limit.
    TooLarge,
    /// The agent changed nothing. No record of this program has it, as such a call makes no experiment; records of others may.
    NoChange,
    /// The same change was measured before.
    Duplicate,
    /// The machine died under the run.
    Lost,
}

impl FailureClass {
    /// Whether it says that the change was refused, and never run.
    pub fn is_refusal(self) -> bool {
        matches!(self, FailureClass::Scope | FailureClass::Protected | FailureClass::TooLarge | FailureClass::Duplicate)
    }

    /// The class's name as records and reports spell it.
    pub fn name(self) -> &'static str {
        match self {
            FailureClass::SyntaxError => "syntax_error",
            FailureClass::ImportError => "import_error",
            FailureClass::Oom => "oom",
            FailureClass::Nan => "nan",
            FailureClass::Timeout => "timeout",
            FailureClass::Killed => "killed",
            FailureClass::NoOutput => "no_output",
            FailureClass::NoMetric => "no_metric",
            FailureClass::Crash => "crash",
            FailureClass::GuardFailed => "guard_failed",
            FailureClass::Scope => "scope",
            FailureClass::Protected => "protected",
            FailureClass::TooLarge => "too_large",
            FailureClass::NoChange => "no_change",
            FailureClass::Duplicate => "duplicate",
            FailureClass::Lost => "lost",
        }
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A failure class with the lines of the log that show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The class.
    pub class: FailureClass,
    /// A few lines of the log, escape sequences removed; empty when there is nothing to show.
    #[serde(default)]
    pub excerpt: String,
}
