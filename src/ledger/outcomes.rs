//! The outcomes of a ledger's rows, as records have them.

use super::rows::{Ledger, Row};
use super::status::RowStatus;
use crate::domain::Outcome;

impl Ledger {
    /// The rows that are not malformed, each with the outcome of its record.
    ///
    /// A row that says keep, discard or crash has that outcome. Of the other rows, `ar` takes the first as kept, and a
    /// baseline while no kept row has a value. In a ledger without verdicts, each row better than all before it was kept. The
    /// rest was discarded, or crashed if it has no value.
    pub fn outcomes(&self) -> Vec<(&Row, Outcome)> {
        let mut best: Option<f64> = None;
        let mut outcomes: Vec<(&Row, Outcome)> = Vec::new();
        for row in self.rows.iter().filter(|row| row.status != RowStatus::Malformed) {
            let value = row.value.as_ref().map(|number| number.value);
            let is_better = !row.is_barred
                && match (value, best) {
                    (Some(value), Some(best)) => !self.has_verdict && self.direction.better(value, best),
                    (Some(_), None) => outcomes.is_empty() || !self.has_verdict || row.status == RowStatus::Baseline,
                    (None, _) => false,
                };
            let outcome = match (row.status, value) {
                (RowStatus::Keep, _) => Outcome::Keep,
                (RowStatus::Discard, _) => Outcome::Discard,
                (RowStatus::Crash, _) | (_, None) => Outcome::Crash,
                _ if is_better => Outcome::Keep,
                _ => Outcome::Discard,
            };
            if outcome == Outcome::Keep {
                best = value.or(best);
            }
            outcomes.push((row, outcome));
        }
        outcomes
    }
}

#[cfg(test)]
mod tests {
    use crate::domain::Outcome::{self, Crash, Discard, Keep};
    use crate::ledger::{Said, read};

    fn outcomes(text: &str) -> Vec<Outcome> {
        read(text.as_bytes(), &Said::default()).outcomes().into_iter().map(|(_, outcome)| outcome).collect()
    }

    #[test]
    fn rows_without_a_verdict_are_kept_where_nothing_else_can_be_meant() {
        let said = "commit\tloss\tstatus\tdescription\n\
                    a\t\tbaseline\tno number\n\
                    b\t2.0\tbaseline\tmeasured\n\
                    c\t1.9\tmaybe\tno verdict\n\
                    d\ttorn\n\
                    e\t1.8\tkeep\tbetter\n\
                    f\t1.7\tdiscard\trefused all the same\n\
                    g\t0\tcrash\tno value\n";
        assert_eq!(outcomes(said), [Crash, Keep, Discard, Keep, Discard, Crash]);
        let unsaid = "commit\tloss\tdescription\na\t2.0\tx\nb\t2.1\ty\nc\t1.9\tz\nd\t1.95\tz\n";
        assert_eq!(outcomes(unsaid), [Keep, Discard, Keep, Discard]);
    }
}
