//! The baseline that failed, and what the user can do about it.

use std::path::PathBuf;

use super::texts::{axes_hint, import_hint, pointer_hint};
use crate::domain::{COMPOSITE, FailureClass, MetricSource, few, list, nearest, shell_word, stale_lock_clause};

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
