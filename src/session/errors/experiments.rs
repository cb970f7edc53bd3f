//! Errors about experiments: verification, `ar try`, and a baseline without a number.

use std::path::PathBuf;

use strum::EnumProperty;

use super::session::{axes_hint, import_hint, pointer_hint};
use crate::domain::{
    COMPOSITE, ErrorKind, ExperimentId, FailureClass, MetricSource, Tag, experiment_name, few, list, nearest,
    shell_word, stale_lock_clause,
};

/// The reason why two experiments cannot be verified.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum VerifyError {
    #[error("{} cannot be compared with itself", experiment_name(*.0))]
    Same(ExperimentId),
    #[error("the run of {what} with seed {seed} gave no number: {why}")]
    Failed { what: String, seed: u64, why: String },
    #[error("cannot compare the sessions: {a}, and {b}")]
    OtherMetric { a: String, b: String },
    #[error("branch {0} is there already, with other code")]
    BranchThere(String),
    #[error("one run of each says nothing about the noise")]
    NoNoise,
    #[error("an experiment of session {0} was recorded meanwhile")]
    Recorded(Tag),
}

impl VerifyError {
    /// Returns the kind of this error.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            VerifyError::Same(_) | VerifyError::NoNoise | VerifyError::OtherMetric { .. } => ErrorKind::Usage,
            VerifyError::BranchThere(_) | VerifyError::Recorded(_) | VerifyError::Failed { .. } => {
                ErrorKind::CannotStart
            }
        }
    }

    /// Returns the hint for the user.
    pub(crate) fn hint(&self) -> String {
        match self {
            VerifyError::Same(_) => "name two experiments, as in `ar verify baseline best`".into(),
            VerifyError::Failed { .. } => {
                "the runs that ended are recorded; `ar repro N` shows the log of such a run, and the same command goes on"
                    .into()
            }
            VerifyError::BranchThere(branch) => {
                format!("rename it with `git branch -m {branch} {branch}-before`, and repeat the command")
            }
            VerifyError::OtherMetric { .. } => "name two sessions with the same metric, unit and direction".into(),
            VerifyError::Recorded(_) => "repeat the command, which may name another experiment now".into(),
            VerifyError::NoNoise => "pass --runs 2 or more".into(),
        }
    }
}

/// The reason why a change in the working tree cannot become the next experiment. Each variant carries its `hint`,
/// if it is fixed.
#[derive(Debug, EnumProperty, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum TryError {
    #[error("nothing to try: the working tree is the same as the incumbent")]
    #[strum(props(hint = "edit a file first, or `git add` the files that belong to the change"))]
    NothingToTry,
    #[error("the direction \"{direction}\" was tried before and a new one is required; tried: {}", few(tried).join(", "))]
    #[strum(props(
        hint = "nothing was recorded; name another with --direction: if this one is named again, the change is recorded as refused"
    ))]
    RepeatedDirection { direction: String, tried: Vec<String> },
    #[error("no change to bring back: the last experiment did not fail a guard")]
    #[strum(props(hint = "run `ar log` to see what became of each experiment"))]
    NothingToRework,
    #[error("experiment {id} was already reworked {limit} times")]
    #[strum(props(hint = "try an idea that does not break the guard"))]
    ReworkedOften { id: ExperimentId, limit: u32 },
    #[error("cannot bring a change back: the working tree has changes: {}", list(.0))]
    #[strum(props(hint = "run `ar try` to measure them, or `git stash` to set them aside"))]
    DirtyBeforeRework(Vec<PathBuf>),
    #[error("nothing to try: the working tree is the same as an earlier version of experiment {0}")]
    #[strum(props(hint = "edit a file so that the guard passes, then run `ar try` again"))]
    SameVersion(ExperimentId),
    #[error("experiment {id} was refused, and the rest of your change is still in the working tree: {}", list(left))]
    RefusedStays { tag: Tag, id: ExperimentId, left: Vec<PathBuf> },
    #[error("experiment {0} of this session is still open")]
    #[strum(props(hint = "run `ar try --continue` to finish it, or `ar stop --now` to save its change and close it"))]
    StillOpen(ExperimentId),
    #[error("experiment {id} of session {tag} is still open in this working tree")]
    OtherOpen { tag: String, id: ExperimentId },
    #[error("{} is too large to commit: {} MiB", path.display(), size / (1024 * 1024))]
    TooLarge { path: PathBuf, size: u64 },
    #[error("no experiment to continue")]
    #[strum(props(hint = "start one with `ar try -m \"what it changes\"`"))]
    NothingOpen,
}

impl TryError {
    /// Returns the kind of this error.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            TryError::RefusedStays { .. } => ErrorKind::NeedsPerson,
            _ => ErrorKind::CannotStart,
        }
    }

    /// Returns the hint for the user, if there is one.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            TryError::RefusedStays { tag, .. } => Some(format!(
                "correct it and run `ar try -m TEXT`, or set it aside with `git stash`; then run `ar resume {tag}` to continue"
            )),
            TryError::OtherOpen { tag, .. } => Some(format!(
                "run `ar resume {tag}` to continue it, or `ar stop {tag} --now` to save its change and close it; `ar finalize \
                 {tag} --drop-winners` closes one that waits for more runs"
            )),
            TryError::TooLarge { path, .. } => {
                Some(format!("keep it out of the change: git stash push -- {}", shell_word(path)))
            }
            error => error.get_str("hint").map(str::to_owned),
        }
    }
}

/// A baseline that measured nothing.
#[derive(Debug, thiserror::Error)]
#[error("the baseline failed: {reason}")]
pub struct FailedBaseline {
    pub(crate) class: Option<FailureClass>,
    pub(crate) metric: String,
    pub(crate) reason: String,
    pub(crate) read_from: MetricSource,
    /// Names of the numbers that its log has.
    pub(crate) printed: Vec<String>,
    /// Files that its run changed.
    pub(crate) changed: Vec<PathBuf>,
    /// The axes for which it gave no number, if it failed for want of one.
    pub(crate) missing: Vec<String>,
    pub(crate) log: PathBuf,
    /// The part of the log that tells why.
    pub excerpt: String,
}

impl FailedBaseline {
    /// Returns the hint for the user.
    pub(crate) fn hint(&self) -> String {
        let FailedBaseline { class, metric, read_from, printed, changed, missing, log, excerpt, .. } = self;
        let log_word = shell_word(log);
        match class {
            Some(FailureClass::Timeout) => {
                format!(
                    "if the run needs more time, raise the limit, for example with --timeout 1h; the log is {log_word}"
                )
            }
            Some(FailureClass::GuardFailed) => format!(
                "make the guard pass on the starting commit, or omit it: it would refuse every change; its output is in \
                    {log_word}"
            ),
            Some(FailureClass::ImportError) => import_hint(excerpt, log),
            Some(FailureClass::Protected) => format!(
                "have the run leave protected files alone, or name {} in --scope{}",
                list(changed),
                stale_lock_clause(changed)
            ),
            _ => match read_from {
                MetricSource::File { path, .. } if metric == COMPOSITE => pointer_hint(path),
                MetricSource::File { .. } => format!(
                    "let the run write the number there, or read it from elsewhere with --metric-file PATH:/pointer or \
                     --metric-file PATH:COLUMN; the log is {log_word}"
                ),
                _ if printed.is_empty() => {
                    format!("read {log_word}, or try a metric on it with `ar extract --metric NAME {log_word}`")
                }
                _ if metric == COMPOSITE => axes_hint(missing, printed),
                _ => {
                    let meant = nearest(metric, printed)
                        .map(|meant| format!("did you mean --metric {}? ", shell_word(meant.as_ref())));
                    format!(
                        "{}pass --metric with a number that the log prints: {}",
                        meant.unwrap_or_default(),
                        few(printed).join(", ")
                    )
                }
            },
        }
    }
}
