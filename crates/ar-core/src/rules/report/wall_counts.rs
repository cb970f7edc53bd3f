//! The numbers that were measured with a wall around the run, and without one.

use serde::Serialize;

use super::evidence::{Evidence, Warning};
use crate::domain::{Record, WallKind, count_of};

/// The numbers of a session by the wall around their runs, as far as the records have it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct WallCounts {
    /// Those measured behind bubblewrap.
    pub bwrap: u32,
    /// Those measured without a wall.
    pub none: u32,
}

impl WallCounts {
    /// Counts them; `None` where no record of a number has its wall.
    pub fn of(records: &[Record]) -> Option<WallCounts> {
        let mut counts = WallCounts::default();
        for wall in records.iter().filter(|record| record.metric.value.is_some()).filter_map(|record| record.sandbox) {
            match wall {
                WallKind::Bwrap => counts.bwrap += 1,
                WallKind::None => counts.none += 1,
            }
        }
        (counts != WallCounts::default()).then_some(counts)
    }
}

/// Numbers that were measured without a wall in a session that has others. Where all of them were, that is how the user has it.
pub(crate) fn without_wall(evidence: Evidence<'_>) -> Option<Warning> {
    let WallCounts { bwrap, none } =
        WallCounts::of(evidence.records).filter(|walls| walls.none > 0 && walls.bwrap > 0)?;
    let were = if none == 1 { "was" } else { "were" };
    Some(Warning {
        kind: "without_wall",
        what: format!(
            "{none} of {} {were} measured without a wall: nothing kept the run from writing to the evaluator or to \
             other runs' files",
            count_of(bwrap + none, "number")
        ),
        hint: evidence.tag.map(|tag| format!("run `ar resume {tag} --sandbox require` to measure behind a wall only")),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::evidence::tests::warned;
    use super::*;
    use crate::domain::Outcome::Keep;
    use crate::rules::sample::record;

    #[test]
    fn numbers_count_by_their_wall_and_those_of_earlier_versions_do_not() {
        let number = |wall| record(json!({"value": "1.0", "sandbox": wall}));
        let crash = record(json!({"outcome": "crash", "sandbox": "none"}));
        let former = record(json!({"value": "1.0"}));
        assert_eq!(WallCounts::of(&[former.clone(), crash.clone()]), None);
        let records = [number("bwrap"), former, number("none"), crash, number("bwrap")];
        assert_eq!(WallCounts::of(&records), Some(WallCounts { bwrap: 2, none: 1 }));
    }

    #[test]
    fn numbers_without_a_wall_are_counted_in_a_warning() {
        let counts = |bwrap, none| {
            let number = |wall| record(json!({"value": "1.0", "sandbox": wall}));
            let records = [vec![number("bwrap"); bwrap], vec![number("none"); none]].concat();
            let rule = |it: Evidence<'_>| without_wall(Evidence { records: &records, ..it }).into_iter().collect();
            warned(&[("2", Keep)], rule, |_| ()).pop()
        };
        assert_eq!(counts(0, 0), None);
        assert_eq!(counts(3, 0), None);
        let found = counts(7, 3).unwrap();
        let why = "nothing kept the run from writing to the evaluator or to other runs' files";
        assert_eq!(found.what, format!("3 of 10 numbers were measured without a wall: {why}"));
        assert_eq!(found.hint.as_deref(), Some("run `ar resume t --sandbox require` to measure behind a wall only"));
        assert!(counts(1, 1).unwrap().what.starts_with("1 of 2 numbers was measured"));
        assert_eq!(counts(0, 3), None);
    }
}
