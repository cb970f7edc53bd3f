//! The verdict on a run: its value or its failure class, with the composite of its axes, in the units of the session.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{
    Evidence, LogSummary, MetricMention, ended_from_outside, evidence, excerpt, out_of_memory, without_report,
    worker_signal,
};
use crate::domain::{COMPOSITE, Composite, Failure, FailureClass, Number, Record, Unit};
use crate::rules::{AxisValues, composite, composite_number};

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
pub struct RunEnd {
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

impl RunEnd {
    /// Reads an exit status as a shell gives it: 129 to 192 are signals.
    pub fn from_status(status: i32) -> Self {
        if (129..=LAST_SIGNAL_STATUS).contains(&status) {
            RunEnd { signal: Some(status - 128), ..RunEnd::default() }
        } else {
            RunEnd { exit: Some(status), ..RunEnd::default() }
        }
    }

    /// The signal, also one that a shell in between reported as a status.
    fn effective_signal(&self) -> Option<i32> {
        self.signal.or_else(|| self.exit.and_then(|status| RunEnd::from_status(status).signal))
    }
}

/// The number of a run, or the reason why it has none.
///
/// A run that failed has no number, whatever its log says. Words in the log are evidence only for a run that failed.
pub fn judge(summary: &LogSummary, ending: &RunEnd) -> Result<Number, Failure> {
    let lines: Vec<&str> = summary.tail.lines().collect();
    class(summary, ending, &lines).map_err(|(class, shown)| {
        let start = shown.start.max(shown.end.saturating_sub(EXCERPT_LINES));
        let detail = summary.instead.clone().filter(|_| class == FailureClass::NoMetric);
        Failure { detail, ..Failure::new(class, excerpt(&lines[start..shown.end])) }
    })
}

/// The last number of a run that failed with this class after it: at its own deadline, or by a crash of its code. Absent
/// for a run that memory or another process ended.
pub fn partial<'a>(summary: &'a LogSummary, ending: &RunEnd, class: FailureClass) -> Option<&'a Number> {
    use FailureClass::{Crash, ImportError, SyntaxError, Timeout};
    let counts = matches!(class, Crash | ImportError | SyntaxError) || (class == Timeout && ending.timed_out);
    // A shell's message follows a number that was cut on its line: `0.97Segmentation fault`.
    let is_whole = |number: &Number| number.unit.as_ref().is_none_or(Unit::is_known);
    match &summary.found {
        Some(MetricMention::Number(number)) if counts && is_whole(number) => Some(number),
        _ => None,
    }
}

fn class(summary: &LogSummary, ending: &RunEnd, lines: &[&str]) -> Result<Number, Evidence> {
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
            Some(MetricMention::Number(number)) => Ok(number.clone()),
            Some(MetricMention::NotFinite(_)) => bare(FailureClass::Nan),
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
        (_, None) if matches!(summary.found, Some(MetricMention::NotFinite(_))) => bare(FailureClass::Nan),
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

impl MetricMention {
    /// It as the number of a name, in the unit that the baseline printed beside that name.
    #[must_use]
    pub fn named(self, name: &str, baseline: Option<&Record>) -> MetricMention {
        let MetricMention::Number(number) = self else { return self };
        let number = number.named(name);
        let unit = baseline.and_then(|baseline| baseline.units.get(name));
        MetricMention::Number(unit.and_then(|unit| number.converted(unit)).unwrap_or(number))
    }
}

impl LogSummary {
    /// Converts the numbers to the units of the baseline. If the metric's does not compare with the baseline's, it does not
    /// count, and the clause that says so is returned.
    pub fn in_units_of(&mut self, baseline: &Record) -> Option<String> {
        for (name, number) in &mut self.metrics {
            let unit = baseline.units.get(name.as_str());
            if let Some(converted) = unit.and_then(|unit| number.converted(unit)) {
                *number = converted;
            }
        }
        let (name, before) = (&baseline.metric.name, baseline.metric.number()?);
        let Some(MetricMention::Number(number)) = &self.found else { return None };
        let Some(own) = number.like(&before) else {
            let refused = refusal(name, number, &before);
            self.found = None;
            return Some(refused);
        };
        if let Some((_, known)) = self.metrics.iter_mut().find(|(known, _)| known == name) {
            known.clone_from(&own);
        }
        self.found = Some(MetricMention::Number(own));
        None
    }

    /// Finds the last value of a name. The scanner searched the whole log for axes, but only the last 64 KiB for other names.
    pub fn named(&self, name: &str) -> Option<MetricMention> {
        let number = self.metrics.iter().find(|(known, _)| known == name).map(|(_, number)| number.clone());
        let is_nan = || self.not_finite.iter().any(|known| known == name);
        number.map(MetricMention::Number).or_else(|| is_nan().then(|| MetricMention::NotFinite("nan".into())))
    }

    /// Puts the composite of the axes that `find` finds in the place of the metric: whatever the log itself prints under that
    /// name does not count. The numbers have those of the axes and of the composite then. With an axis that is missing the
    /// metric is missing, and with one that is not finite it is not finite.
    pub fn put_composite(&mut self, of: &Composite, find: impl Fn(&LogSummary, &str) -> Option<MetricMention>) {
        let found: Vec<(&String, Option<MetricMention>)> =
            of.axes.keys().map(|name| (name, find(self, name))).collect();
        let is_missing = found.iter().any(|(_, found)| found.is_none());
        let mut values = AxisValues::new();
        for (name, found) in found {
            let range = of.axes[name].range.unwrap_or([0.0, 1.0]);
            // Percent are hundredths where the axis ends at 1.
            let is_share = |number: &Number| {
                number.unit.as_ref().is_some_and(Unit::is_percent) && range.iter().all(|end| end.abs() <= 1.0)
            };
            let in_share = |number: Number| match is_share(&number) {
                true => number.like(&Number::of(1.0)).unwrap_or(number),
                false => number,
            };
            let number = found.and_then(MetricMention::number).map(in_share);
            values.insert(name.clone(), number.as_ref().map(|number| number.value));
            self.put(name, number);
        }
        let number = composite(of, &values).and_then(composite_number);
        self.put(COMPOSITE, number.clone());
        let without = || (!is_missing).then(|| MetricMention::NotFinite("nan".into()));
        self.found = number.map(MetricMention::Number).or_else(without);
    }

    /// Makes the numbers say of a metric what its file has, or why it has none, whatever the log prints under that name.
    pub fn put_found(&mut self, name: &str, found: Result<MetricMention, String>) {
        self.instead = found.as_ref().err().cloned();
        self.put(name, found.ok().and_then(|found| found.named(name, None).number()));
    }

    /// Makes the numbers say this of a name.
    fn put(&mut self, name: &str, number: Option<Number>) {
        let known = self.metrics.iter().position(|(known, _)| known == name);
        match (known, number) {
            (Some(at), Some(number)) => self.metrics[at].1 = number,
            (Some(at), None) => drop(self.metrics.remove(at)),
            (None, Some(number)) => self.metrics.push((name.to_owned(), number)),
            (None, None) => {}
        }
    }
}

/// The clause for a number that does not compare with the baseline's.
fn refusal(name: &str, number: &Number, baseline: &Number) -> String {
    let text = number.text();
    match (&number.unit, &baseline.unit) {
        (Some(_), Some(unit)) => format!("{name} is {text}, but the baseline's unit is {unit}"),
        (None, Some(unit)) => format!("{name} is {text} without a unit, but the baseline's unit is {unit}"),
        (_, None) => format!("{name} is {text}, but the baseline's {baseline} has no unit"),
    }
}

#[cfg(test)]
mod unit_tests {
    use serde_json::json;

    use super::*;
    use crate::domain::{Direction, MetricSource, MetricSpec, MetricValue};
    use crate::measure::Scanner;
    use crate::rules::sample::record;

    fn read(log: &str, name: &str) -> LogSummary {
        let spec = MetricSpec { name: name.into(), direction: Direction::Lower, source: MetricSource::Log };
        let mut scanner = Scanner::new(&spec).unwrap();
        scanner.push(log.as_bytes());
        scanner.finish()
    }

    /// The baseline that printed `log`.
    fn baseline(log: &str, name: &str) -> Record {
        let spec = MetricSpec { name: name.into(), direction: Direction::Lower, source: MetricSource::Log };
        let summary = read(log, name);
        let Some(MetricMention::Number(number)) = &summary.found else { panic!("no number in {log}") };
        let units = summary.metrics.iter().filter_map(|(name, it)| Some((name.clone(), it.unit.clone()?))).collect();
        Record { metric: MetricValue::of(&spec, Some(number)), units, ..record(json!({"id": 0, "value": "1"})) }
    }

    #[test]
    fn numbers_are_in_the_units_of_the_baseline() {
        let before = baseline("latency: 1.234 s\nload: 0.5 s\nfree: 3\n", "latency");
        let mut summary = read("latency: 980 ms\nload: 250 ms\nfree: 2\n", "latency");
        assert_eq!(summary.in_units_of(&before), None);
        let shown: Vec<String> = summary.metrics.iter().map(|(name, number)| format!("{name} {number:#}")).collect();
        assert_eq!(shown, ["latency 0.98 s", "load 0.25 s", "free 2"]);
        assert!(matches!(&summary.found, Some(MetricMention::Number(number)) if number.value == 0.98));
    }

    #[test]
    fn a_number_that_does_not_compare_is_none_and_its_unit_is_named() {
        for (name, first, log, clause) in [
            ("latency", "980 ms", "1.1", Some("latency is 1.1 without a unit, but the baseline's unit is ms")),
            ("latency", "1.2 s", "3 MB", Some("latency is 3 MB, but the baseline's unit is s")),
            ("latency", "1.2", "900 ms", Some("latency is 900 ms, but the baseline's 1.2 has no unit")),
            ("latency_ms", "120", "0.09 s", None),
            ("latency_ms", "0.12 s", "90", None),
        ] {
            let before = baseline(&format!("{name}: {first}\n"), name);
            let mut summary = read(&format!("{name}: {log}\n"), name);
            assert_eq!(summary.in_units_of(&before).as_deref(), clause, "{name}: {log} after {first}");
            assert_eq!(summary.found.is_none(), clause.is_some());
        }
    }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;

#[cfg(test)]
mod axes_tests {
    use super::*;
    use crate::domain::{Direction, MetricSource, MetricSpec};
    use crate::measure::Scanner;

    fn read(log: &str) -> LogSummary {
        let spec = MetricSpec { name: COMPOSITE.into(), direction: Direction::Higher, source: MetricSource::Log };
        let composite = Composite::preset("equal").unwrap();
        let mut scanner = Scanner::new(&spec).unwrap().with_axes(Some(&composite));
        scanner.push(log.as_bytes());
        let mut summary = scanner.finish();
        summary.put_composite(&composite, LogSummary::named);
        summary
    }

    #[test]
    fn percent_of_an_axis_that_ends_at_1_are_hundredths() {
        let percent = read(&AXES.replace("0.7700", "77%").replace("0.5100", "51.0 %"));
        assert_eq!(composite_of(&percent), composite_of(&read(AXES)));
        assert_eq!(percent.metrics.iter().find(|(name, _)| name == "claim_density").unwrap().1.value, 0.77);
    }

    const AXES: &str = "claim_density: 0.7700\nsource_diversity: 0.9100\ntopic_coverage: 0.5100\n";

    fn composite_of(summary: &LogSummary) -> Option<&str> {
        match &summary.found {
            Some(MetricMention::Number(number)) => Some(&number.raw),
            Some(MetricMention::NotFinite(_)) => Some("not finite"),
            None => None,
        }
    }

    #[test]
    fn the_composite_is_that_of_the_axes_whatever_the_log_says_of_it() {
        // (0.77 + 0.91 + 0.51 + 0.77) / 4
        for own in ["", "composite: 0.9900\n", "composite: nan\n"] {
            let summary = read(&format!("{AXES}novelty: 0.7700\n{own}"));
            assert_eq!(composite_of(&summary), Some("0.7400"), "{own}");
            let numbers: Vec<_> = summary.metrics.iter().filter(|(name, _)| name == COMPOSITE).collect();
            assert!(numbers.len() == 1 && numbers[0].1.raw == "0.7400", "{numbers:?}");
        }
    }

    #[test]
    fn axes_are_found_wherever_the_log_has_them_and_however_many_names_follow() {
        let noise: String = (0..10_000).map(|n| format!("name{n}: {n} of much that stands behind\n")).collect();
        let log = format!("{AXES}novelty: 0.1\nnovelty: 0.7700\n{noise}");
        assert!(log.len() > 3 * 64 * 1024);
        assert_eq!(composite_of(&read(&log)), Some("0.7400"));
        assert_eq!(composite_of(&read(&log.replace("0.9100", "nan"))), Some("not finite"));
        // As with a metric, neither a phrase such as `best novelty` nor a longer name counts as the axis.
        assert_eq!(composite_of(&read(&format!("{AXES}best novelty: 0.9\nmean_novelty: 0.8\n"))), None);
    }

    #[test]
    fn without_an_axis_there_is_no_composite() {
        let summary = read(&format!("{AXES}composite: 0.9\n"));
        assert_eq!((composite_of(&summary), summary.named("novelty"), summary.named(COMPOSITE)), (None, None, None));
        let summary = read(&format!("{AXES}novelty: 0.5\nnovelty: nan\ncomposite: 0.9\n"));
        assert_eq!((composite_of(&summary), summary.named("claim_density").is_some()), (Some("not finite"), true));
        assert!(summary.metrics.iter().all(|(name, _)| name != "novelty" && name != COMPOSITE), "{summary:?}");
    }

    #[test]
    fn axes_of_a_file_come_before_those_of_the_log() {
        let mut summary = read(&format!("{AXES}novelty: 0.77\n"));
        let in_file =
            |_: &LogSummary, name: &str| (name != "novelty").then(|| MetricMention::Number("0.5".parse().unwrap()));
        summary.put_composite(&Composite::preset("equal").unwrap(), in_file);
        assert_eq!((composite_of(&summary), summary.named("novelty")), (None, None));
        summary.put_composite(&Composite::preset("equal").unwrap(), |_, _| {
            Some(MetricMention::Number("0.5".parse().unwrap()))
        });
        assert_eq!(composite_of(&summary), Some("0.5000"));
        assert_eq!(summary.named("novelty"), Some(MetricMention::Number("0.5".parse().unwrap())));
    }
}
