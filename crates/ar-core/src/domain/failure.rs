//! Classes of failure: the reasons that an experiment has no value.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumProperty, IntoStaticStr, VariantArray};

/// The reason that an experiment has no valid value.
///
/// For a new class, add a variant here, its texts, its cases in the functions below, and the code that
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
    EnumProperty,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum FailureClass {
    /// The final traceback shows a syntax error.
    #[strum(props(reason = "the code does not parse ({ended})"))]
    #[strum(props(advice = "Fix it and try the same idea again, at most {fixes} times; then skip it."))]
    SyntaxError,
    /// The final traceback shows a failed import.
    #[strum(props(reason = "an import failed ({ended})"))]
    #[strum(props(advice = "Fix it and try the same idea again, at most {fixes} times; then skip it."))]
    ImportError,
    /// Accelerator or host memory ran out.
    #[strum(props(reason = "out of memory ({ended})"))]
    #[strum(props(advice = "Memory ran out: make a smaller change that needs less memory."))]
    Oom,
    /// The metric is not finite, or the run stopped itself on a NaN.
    #[strum(props(reason = "{metric} is not a finite number ({ended})"))]
    #[strum(props(advice = "Go back to the safe region: values near those of the incumbent, which does not diverge."))]
    Nan,
    /// The run reached its deadline.
    #[strum(props(reason = "the deadline passed ({ended})"))]
    #[strum(props(advice = "It was too slow for the time limit: make a change that takes less time."))]
    Timeout,
    /// A signal from outside that `ar` did not send terminated the run.
    #[strum(props(reason = "something else killed the run ({ended})"))]
    #[strum(props(
        advice = "Another process killed the run, which says nothing about the idea: you may try the same \
        change again."
    ))]
    Killed,
    /// The log is empty.
    #[strum(props(reason = "{ended}, and the run printed nothing"))]
    #[strum(props(advice = "The run printed nothing: note the idea and move on."))]
    NoOutput,
    /// The run succeeded but never printed the metric.
    #[strum(props(reason = "the run printed no {metric} ({ended})"))]
    #[strum(props(advice = "The run was incomplete: make sure that it finishes and prints the metric as the \
        incumbent does."))]
    NoMetric,
    /// Any other non-zero exit, or a signal that the code brought upon itself.
    #[strum(props(reason = "the run failed ({ended})"))]
    #[strum(props(
        advice = "If the cause is a small mistake, make the change again without it; otherwise move on to \
        another idea."
    ))]
    Crash,
    /// A guard command failed.
    #[strum(props(reason = "a guard failed ({ended})"))]
    #[strum(props(
        advice = "Rework the same idea so that the guard passes, {often}; then drop it. `ar try --rework` \
        brings its change back into the working tree."
    ))]
    GuardFailed,
    /// The reviewer says that the number was not earned.
    #[strum(props(reason = "the reviewer says that the number was not earned ({ended})"))]
    #[strum(props(advice = "An independent reviewer found that the change itself did not earn its number: improve \
        what is measured, never how it is measured, and drop this change."))]
    ReviewFailed,
    /// The change touches files outside the scope.
    #[strum(props(reason = "the change edits files outside the scope ({ended})"))]
    #[strum(props(advice = "Change only files that you may edit."))]
    Scope,
    /// The change touches protected files.
    #[strum(props(reason = "the change touches a protected file ({ended})"))]
    #[strum(props(advice = "Leave protected files as they are; they decide what is measured."))]
    Protected,
    /// The change exceeds a size limit.
    #[strum(props(reason = "the change is too large ({ended})"))]
    #[strum(props(advice = "Make it smaller: fewer files, fewer lines, and no new file over {largest}."))]
    TooLarge,
    /// The agent changed nothing. No record of this program has it, because such a call makes no experiment; foreign records may.
    #[strum(props(reason = "nothing changed ({ended})"))]
    #[strum(props(advice = "Change a file."))]
    NoChange,
    /// `ar` measured the same change before.
    #[strum(props(reason = "the same change was measured before ({ended})"))]
    #[strum(props(advice = "Make a change that has not been measured yet."))]
    Duplicate,
    /// The change is in a direction that was tried, where a new one was required.
    #[strum(props(reason = "the direction was tried before and a new one was required ({ended})"))]
    #[strum(props(advice = "Choose a direction that is not in the list of those tried, and name it."))]
    Repeated,
    /// The change conflicts with what was kept meanwhile, also after the agent merged it.
    #[strum(props(reason = "the change conflicts with what was kept meanwhile ({ended})"))]
    #[strum(props(advice = "Make it again on the incumbent as it is now, if it is still of use."))]
    Conflict,
    /// The machine failed during the run.
    #[strum(props(reason = "the machine died under the run ({ended})"))]
    #[strum(props(advice = "The machine died under the run, which is not the idea's fault: you may try the same \
        change again."))]
    Lost,
    /// Files that decide what was measured changed beside the run, also when it was repeated.
    #[strum(props(reason = "its run was disturbed twice ({ended})"))]
    #[strum(props(advice = "Tracked files or the metric file changed while it ran, which may not be the idea's \
        fault: you may try the same change again. A run must write to files that git does not track."))]
    Changed,
    /// Another process was on a GPU of the run, also when it was repeated.
    #[strum(props(reason = "its run was tainted three times ({ended})"))]
    #[strum(props(advice = "Another process was on the GPU in each of its runs, which is not the idea's fault: you \
        may try the same change again. Train nothing on the GPU by yourself."))]
    Tainted,
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

    /// The reason for the missing value, as a sentence with `{metric}` and `{ended}`, the end of the run.
    pub fn reason(self) -> &'static str {
        self.get_str("reason").unwrap_or_default()
    }

    /// The next step for the agent. Placeholders: `{fixes}` (fixes allowed), `{often}` (reworks left) and `{largest}`
    /// (size limit of a new file).
    pub fn advice(self) -> &'static str {
        self.get_str("advice").unwrap_or_default()
    }

    /// The same, after the last call that the loop may make for an experiment; `None` if it never makes several.
    pub fn advice_at_last(self) -> Option<&'static str> {
        match self {
            FailureClass::SyntaxError | FailureClass::ImportError => {
                Some("It does not run, and the calls allowed for fixing it are used up: skip this idea.")
            }
            FailureClass::GuardFailed => Some(
                "It still failed its guard after all the calls allowed for it: choose an idea that keeps the guard passing.",
            ),
            _ => None,
        }
    }

    /// Returns the next step for the agent of a research session, if [`FailureClass::advice`] does not fit there: `ar` itself
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_its_texts() {
        let lacks = |class: &&FailureClass| class.reason().is_empty() || class.advice().is_empty();
        assert_eq!(FailureClass::VARIANTS.iter().find(lacks), None);
    }
}
