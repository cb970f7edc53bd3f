//! Classes of failure: the reasons that an experiment has no value.

use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr, VariantArray};

/// The reason that an experiment has no valid value.
///
/// For a new class, add a variant here, its [`FailureTexts`], its cases in the functions below, and the code that
/// detects it.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    Display,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum FailureClass {
    /// The final traceback shows a syntax error.
    SyntaxError,
    /// The final traceback shows a failed import.
    ImportError,
    /// Accelerator or host memory ran out.
    Oom,
    /// The metric is not finite, or the run stopped itself on a NaN.
    Nan,
    /// The run reached its deadline.
    Timeout,
    /// A signal from outside that `ar` did not send terminated the run.
    Killed,
    /// The log is empty.
    NoOutput,
    /// The run succeeded but never printed the metric.
    NoMetric,
    /// Any other non-zero exit, or a signal that the code brought upon itself.
    Crash,
    /// A guard command failed.
    GuardFailed,
    /// The reviewer says that the number was not earned.
    ReviewFailed,
    /// The change touches files outside the scope.
    Scope,
    /// The change touches protected files.
    Protected,
    /// The change exceeds a size limit.
    TooLarge,
    /// The agent changed nothing. No record of this program has it, because such a call makes no experiment; foreign records may.
    NoChange,
    /// `ar` measured the same change before.
    Duplicate,
    /// The change is in a direction that was tried, where a new one was required.
    Repeated,
    /// The change conflicts with what was kept meanwhile, also after the agent merged it.
    Conflict,
    /// The machine failed during the run.
    Lost,
    /// Files that decide what was measured changed beside the run, also when it was repeated.
    Changed,
    /// Another process was on a GPU of the run, also when it was repeated.
    Tainted,
}

/// The texts on a failure class for users and agents.
#[derive(Debug, Clone, Copy)]
pub struct FailureTexts {
    /// The reason for the missing value, as a sentence with `{metric}` and `{ended}`, the end of the run.
    pub reason: &'static str,
    /// The next step for the agent. Placeholders: `{fixes}` (fixes allowed), `{often}` (reworks left) and `{largest}`
    /// (size limit of a new file).
    pub advice: &'static str,
    /// The same, after the last call that the loop may make for an experiment; blank if it never makes several.
    pub advice_at_last: &'static str,
}

impl FailureClass {
    /// Returns whether the change was refused and never run.
    pub fn is_refusal(self) -> bool {
        use FailureClass::{Conflict, Duplicate, Protected, Repeated, Scope, TooLarge};
        matches!(self, Scope | Protected | TooLarge | Duplicate | Repeated | Conflict)
    }

    /// Returns whether the failure says something about the change: it ran, and nothing else ended the run.
    pub fn judges_change(self) -> bool {
        use FailureClass::{Changed, Killed, Lost, NoChange, ReviewFailed, Tainted};
        !self.is_refusal() && !matches!(self, NoChange | Killed | Lost | Changed | Tainted | ReviewFailed)
    }

    /// Returns whether another process on the GPU can be its cause.
    pub fn can_come_from_gpu(self) -> bool {
        matches!(self, FailureClass::Oom | FailureClass::Timeout)
    }

    /// Returns whether a full disk can be its cause.
    pub fn can_come_from_disk(self) -> bool {
        use FailureClass::{Crash, Killed, NoMetric, NoOutput};
        self.can_come_from_gpu() || matches!(self, Crash | Killed | NoOutput | NoMetric)
    }

    /// Returns whether the last line of the log explains it.
    pub fn is_in_log(self) -> bool {
        use FailureClass::{Crash, GuardFailed, ImportError, Oom, SyntaxError};
        matches!(self, Crash | GuardFailed | ImportError | Oom | SyntaxError)
    }

    /// The word for it in the cells of ledgers.
    pub fn ledger_word(self) -> Option<&'static str> {
        match self {
            FailureClass::Oom => Some("oom"),
            FailureClass::Timeout => Some("timeout"),
            _ => None,
        }
    }

    /// Returns its texts.
    pub fn texts(self) -> FailureTexts {
        let (reason, advice) = match self {
            FailureClass::SyntaxError => (
                "the code does not parse ({ended})",
                "Fix it and try the same idea again, at most {fixes} times; then skip it.",
            ),
            FailureClass::ImportError => (
                "an import failed ({ended})",
                "Fix it and try the same idea again, at most {fixes} times; then skip it.",
            ),
            FailureClass::Oom => {
                ("out of memory ({ended})", "Memory ran out: make a smaller change that needs less memory.")
            }
            FailureClass::Nan => (
                "{metric} is not a finite number ({ended})",
                "Go back to the safe region: values near those of the incumbent, which does not diverge.",
            ),
            FailureClass::Timeout => (
                "the deadline passed ({ended})",
                "It was too slow for the time limit: make a change that takes less time.",
            ),
            FailureClass::Killed => (
                "something else killed the run ({ended})",
                "Another process killed the run, which says nothing about the idea: you may try the same change again.",
            ),
            FailureClass::NoOutput => {
                ("{ended}, and the run printed nothing", "The run printed nothing: note the idea and move on.")
            }
            FailureClass::NoMetric => (
                "the run printed no {metric} ({ended})",
                "The run was incomplete: make sure that it finishes and prints the metric as the incumbent does.",
            ),
            FailureClass::Crash => (
                "the run failed ({ended})",
                "If the cause is a small mistake, make the change again without it; otherwise move on to another idea.",
            ),
            FailureClass::GuardFailed => (
                "a guard failed ({ended})",
                "Rework the same idea so that the guard passes, {often}; then drop it. `ar try --rework` brings its change back \
                 into the working tree.",
            ),
            FailureClass::ReviewFailed => (
                "the reviewer says that the number was not earned ({ended})",
                "An independent reviewer found that the change itself did not earn its number: improve what is measured, \
                 never how it is measured, and drop this change.",
            ),
            FailureClass::Scope => {
                ("the change edits files outside the scope ({ended})", "Change only files that you may edit.")
            }
            FailureClass::Protected => (
                "the change touches a protected file ({ended})",
                "Leave protected files as they are; they decide what is measured.",
            ),
            FailureClass::TooLarge => (
                "the change is too large ({ended})",
                "Make it smaller: fewer files, fewer lines, and no new file over {largest}.",
            ),
            FailureClass::NoChange => ("nothing changed ({ended})", "Change a file."),
            FailureClass::Duplicate => {
                ("the same change was measured before ({ended})", "Make a change that has not been measured yet.")
            }
            FailureClass::Repeated => (
                "the direction was tried before and a new one was required ({ended})",
                "Choose a direction that is not in the list of those tried, and name it.",
            ),
            FailureClass::Conflict => (
                "the change conflicts with what was kept meanwhile ({ended})",
                "Make it again on the incumbent as it is now, if it is still of use.",
            ),
            FailureClass::Lost => (
                "the machine died under the run ({ended})",
                "The machine died under the run, which is not the idea's fault: you may try the same change again.",
            ),
            FailureClass::Changed => (
                "its run was disturbed twice ({ended})",
                "Tracked files or the metric file changed while it ran, which may not be the idea's fault: you may try the same \
                 change again. A run must write to files that git does not track.",
            ),
            FailureClass::Tainted => (
                "its run was tainted three times ({ended})",
                "Another process was on the GPU in each of its runs, which is not the idea's fault: you may try the same change \
                 again. Train nothing on the GPU by yourself.",
            ),
        };
        let advice_at_last = match self {
            FailureClass::SyntaxError | FailureClass::ImportError => {
                "It does not run, and the calls allowed for fixing it are used up: skip this idea."
            }
            FailureClass::GuardFailed => {
                "It still failed its guard after all the calls allowed for it: choose an idea that keeps the guard passing."
            }
            _ => "",
        };
        FailureTexts { reason, advice, advice_at_last }
    }

    /// Returns the next step for the agent of a research session, if [`FailureTexts`] does not fit there: `ar` itself
    /// scores a text, and no program of the agent runs.
    pub fn advice_in_research(self) -> Option<&'static str> {
        Some(match self {
            FailureClass::Nan => {
                "An axis has no number: find in the log which one and what it lacks, and hand in claims that have it."
            }
            FailureClass::Oom | FailureClass::Timeout => {
                "Scoring took too much: store excerpts instead of whole documents, and fewer of them."
            }
            FailureClass::SyntaxError
            | FailureClass::ImportError
            | FailureClass::NoOutput
            | FailureClass::NoMetric
            | FailureClass::Crash => {
                "It could not be scored: where the log names a line of the text or of a source, make the change again without \
                 that mistake; otherwise look for other evidence."
            }
            FailureClass::Protected => {
                "Leave protected files and stored sources as they are: store a new source beside them."
            }
            FailureClass::TooLarge => {
                "Make it smaller: hand in its first claims, with excerpts instead of whole documents."
            }
            FailureClass::ReviewFailed => {
                "An independent reviewer found that the evidence does not carry the new claims: claim less, or find evidence that does."
            }
            FailureClass::Duplicate => "Claim what has not been claimed yet.",
            FailureClass::Killed
            | FailureClass::GuardFailed
            | FailureClass::Scope
            | FailureClass::NoChange
            | FailureClass::Repeated
            | FailureClass::Conflict
            | FailureClass::Lost
            | FailureClass::Changed
            | FailureClass::Tainted => return None,
        })
    }
}

/// A failure class with the lines of the log that show the failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The class.
    pub class: FailureClass,
    /// A few lines of the log without escape sequences, or empty.
    #[serde(default)]
    pub excerpt: String,
    /// The finding in place of a valid number, as a clause with the printed text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Failure {
    /// A failure that these lines show.
    pub fn new(class: FailureClass, excerpt: impl Into<String>) -> Failure {
        Failure { class, excerpt: excerpt.into(), detail: None }
    }
}
