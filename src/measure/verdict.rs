//! The verdict on a run: its value or its failure class.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::scanner::LogSummary;
use super::search::Found;
use super::summary::excerpt;
use super::trace::{Evidence, ended_from_outside, evidence, out_of_memory, without_report, worker_signal};
use crate::domain::{Failure, FailureClass, Number, Unit};

/// The exit status of `timeout(1)` when it ended its command.
const TIMEOUT_STATUS: i32 = 124;

/// The highest status by which a shell reports a signal: 128 + 64, the last real-time signal.
const LAST_SIGNAL_STATUS: i32 = 192;

/// Signals that a process brings upon itself: ILL, TRAP, ABRT, BUS, FPE, SEGV, PIPE, XCPU, XFSZ, SYS.
const OWN_SIGNALS: &[i32] = &[4, 5, 6, 7, 8, 11, 13, 24, 25, 31];

/// Number of log lines in an excerpt.
pub const EXCERPT_LINES: usize = 10;

/// The end of a run, and its cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// Its exit status; absent when a signal ended it.
    pub exit: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// True if it exceeded its deadline.
    pub timed_out: bool,
    /// True if the kernel killed it because memory ran out.
    pub oom_killed: bool,
    /// True if its end is unknown: the machine died during the run.
    pub lost: bool,
}

impl Ending {
    /// Reads an exit status as a shell gives it: 129 to 192 are signals.
    pub fn from_status(status: i32) -> Self {
        if (129..=LAST_SIGNAL_STATUS).contains(&status) {
            Ending { signal: Some(status - 128), ..Ending::default() }
        } else {
            Ending { exit: Some(status), ..Ending::default() }
        }
    }

    /// The signal, also one that a shell in between reported as a status.
    fn effective_signal(&self) -> Option<i32> {
        self.signal.or_else(|| self.exit.and_then(|status| Ending::from_status(status).signal))
    }
}

/// The verdict on a run; exactly one field is set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The value that counts.
    pub value: Option<Number>,
    /// The reason why it has no value.
    pub failure: Option<Failure>,
}

/// Judges a run.
///
/// A run that failed has no number, whatever its log says. Words in the log are evidence only for a run that failed.
pub fn judge(summary: &LogSummary, ending: &Ending) -> Verdict {
    let lines: Vec<&str> = summary.tail.lines().collect();
    let (class, shown) = match class(summary, ending, &lines) {
        Ok(number) => return Verdict { value: Some(number), failure: None },
        Err(evidence) => evidence,
    };
    let start = shown.start.max(shown.end.saturating_sub(EXCERPT_LINES));
    let detail = summary.instead.clone().filter(|_| class == FailureClass::NoMetric);
    let failure = Failure { detail, ..Failure::new(class, excerpt(&lines[start..shown.end])) };
    Verdict { value: None, failure: Some(failure) }
}

/// The last number of a run that failed with this class after it: at its own deadline, or by a crash of its code. Absent
/// for a run that memory or another process ended.
pub fn partial<'a>(summary: &'a LogSummary, ending: &Ending, class: FailureClass) -> Option<&'a Number> {
    use FailureClass::{Crash, ImportError, SyntaxError, Timeout};
    let counts = matches!(class, Crash | ImportError | SyntaxError) || (class == Timeout && ending.timed_out);
    // A shell's message follows a number that was cut on its line: `0.97Segmentation fault`.
    let is_whole = |number: &Number| number.unit.as_ref().is_none_or(Unit::is_known);
    match &summary.found {
        Some(Found::Number(number)) if counts && is_whole(number) => Some(number),
        _ => None,
    }
}

fn class(summary: &LogSummary, ending: &Ending, lines: &[&str]) -> Result<Number, Evidence> {
    let own = without_report(lines);
    let end = own.len().saturating_sub(EXCERPT_LINES)..own.len();
    let bare = |class| Err((class, end.clone()));
    let signal = ending.effective_signal();
    if ending.lost || (ending.exit.is_none() && signal.is_none() && !ending.timed_out && !ending.oom_killed) {
        return bare(FailureClass::Lost);
    }
    if ending.timed_out || ending.exit == Some(TIMEOUT_STATUS) {
        return bare(FailureClass::Timeout);
    }
    if ending.oom_killed {
        return bare(FailureClass::Oom);
    }
    if let Some(signal) = signal {
        return Err(by_signal(lines, signal, end));
    }
    if ending.exit == Some(0) {
        return match &summary.found {
            Some(Found::Number(number)) => Ok(number.clone()),
            Some(Found::NotFinite(_)) => bare(FailureClass::Nan),
            None if summary.empty && summary.instead.is_none() => bare(FailureClass::NoOutput),
            None => bare(FailureClass::NoMetric),
        };
    }
    if summary.empty {
        return bare(FailureClass::NoOutput);
    }
    let found = ended_from_outside(lines).or_else(|| evidence(own));
    let is_explained = found.as_ref().is_some_and(|(class, _)| *class != FailureClass::Crash);
    match (worker_signal(own), found) {
        (Some((signal, shown)), _) if !is_explained || !OWN_SIGNALS.contains(&signal) => {
            Err(by_signal(lines, signal, shown))
        }
        (_, Some(found)) => Err(found),
        (_, None) if matches!(summary.found, Some(Found::NotFinite(_))) => bare(FailureClass::Nan),
        (_, None) => bare(FailureClass::Crash),
    }
}

/// The class of a run that a signal ended, with the lines that show it.
fn by_signal(lines: &[&str], signal: i32, shown: Range<usize>) -> Evidence {
    ended_from_outside(lines).unwrap_or_else(|| {
        let is_own = OWN_SIGNALS.contains(&signal);
        let memory = is_own.then(|| out_of_memory(lines)).flatten();
        memory.unwrap_or((if is_own { FailureClass::Crash } else { FailureClass::Killed }, shown))
    })
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
