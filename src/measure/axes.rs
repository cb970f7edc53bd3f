//! The composite of a run's axes.

use super::scanner::LogSummary;
use super::search::Found;
use crate::domain::{COMPOSITE, Composite, Number};
use crate::rules::{AxisValues, composite, composite_number};

impl LogSummary {
    /// Finds the last value of a name. The scanner searched the whole log for axes, but only the last 64 KiB for other names.
    pub fn named(&self, name: &str) -> Option<Found> {
        let number = self.metrics.iter().find(|(known, _)| known == name).map(|(_, number)| number.clone());
        let is_nan = || self.not_finite.iter().any(|known| known == name);
        number.map(Found::Number).or_else(|| is_nan().then(|| Found::NotFinite("nan".into())))
    }

    /// Puts the composite of the axes that `find` finds in the place of the metric: whatever the log itself prints under that
    /// name does not count. The numbers have those of the axes and of the composite then. With an axis that is missing the
    /// metric is missing, and with one that is not finite it is not finite.
    pub fn put_composite(&mut self, of: &Composite, find: impl Fn(&LogSummary, &str) -> Option<Found>) {
        let found: Vec<(&String, Option<Found>)> = of.axes.keys().map(|name| (name, find(self, name))).collect();
        let is_missing = found.iter().any(|(_, found)| found.is_none());
        let mut values = AxisValues::new();
        for (name, found) in found {
            let number = found.and_then(Found::number);
            values.insert(name.clone(), number.as_ref().map(|number| number.value));
            self.put(name, number);
        }
        let number = composite(of, &values).and_then(composite_number);
        self.put(COMPOSITE, number.clone());
        let without = || (!is_missing).then(|| Found::NotFinite("nan".into()));
        self.found = number.map(Found::Number).or_else(without);
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

impl Found {
    /// The number, if it is finite.
    fn number(self) -> Option<Number> {
        match self {
            Found::Number(number) => Some(number),
            Found::NotFinite(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
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

    const AXES: &str = "claim_density: 0.7700\nsource_diversity: 0.9100\ntopic_coverage: 0.5100\n";

    fn composite_of(summary: &LogSummary) -> Option<&str> {
        match &summary.found {
            Some(Found::Number(number)) => Some(&number.raw),
            Some(Found::NotFinite(_)) => Some("not finite"),
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
        let in_file = |_: &LogSummary, name: &str| (name != "novelty").then(|| Found::Number("0.5".parse().unwrap()));
        summary.put_composite(&Composite::preset("equal").unwrap(), in_file);
        assert_eq!((composite_of(&summary), summary.named("novelty")), (None, None));
        summary.put_composite(&Composite::preset("equal").unwrap(), |_, _| Some(Found::Number("0.5".parse().unwrap())));
        assert_eq!(composite_of(&summary), Some("0.5000"));
        assert_eq!(summary.named("novelty"), Some(Found::Number("0.5".parse().unwrap())));
    }
}
