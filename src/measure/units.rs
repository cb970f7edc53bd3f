//! A run's numbers in the units of its session: those of the baseline.

use super::scanner::LogSummary;
use super::search::Found;
use crate::domain::{Number, Record};

impl Found {
    /// It as the number of a name, in the unit that the baseline printed beside that name.
    #[must_use]
    pub fn named(self, name: &str, baseline: Option<&Record>) -> Found {
        let Found::Number(number) = self else { return self };
        let number = number.named(name);
        let unit = baseline.and_then(|baseline| baseline.units.get(name));
        Found::Number(unit.and_then(|unit| number.converted(unit)).unwrap_or(number))
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
        let Some(Found::Number(number)) = &self.found else { return None };
        let Some(own) = number.like(&before) else {
            let refused = refusal(name, number, &before);
            self.found = None;
            return Some(refused);
        };
        if let Some((_, known)) = self.metrics.iter_mut().find(|(known, _)| known == name) {
            known.clone_from(&own);
        }
        self.found = Some(Found::Number(own));
        None
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
mod tests {
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
        let Some(Found::Number(number)) = &summary.found else { panic!("no number in {log}") };
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
        assert!(matches!(&summary.found, Some(Found::Number(number)) if number.value == 0.98));
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
