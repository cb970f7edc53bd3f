//! Ladder and directions, derived from a session's records.

use serde_json::json;

use super::*;
use crate::domain::{Number, Unparsed};
use crate::rules::history::{History, directions_tried, near_misses, same_direction};
use crate::rules::sample;

/// A record of a lower-is-better metric; `failure` is a class, or empty.
fn record(id: u32, outcome: &str, value: Option<f64>, failure: &str, direction: Option<&str>) -> Record {
    let failure = (!failure.is_empty()).then(|| json!({"class": failure}));
    serde_json::from_value(json!({
        "version": 1, "id": id, "tag": "t", "commit": "c", "base": "b", "description": "", "direction": direction,
        "outcome": outcome, "failure": failure, "reason": "", "metrics": {}, "memory_gb": null, "runs": [],
        "metric": {"name": "loss", "direction": "lower", "value": value, "raw": null},
        "diff": {"files": 1, "added": 1, "deleted": 0}, "agent": null,
        "environment": {"host": "", "gpu": null, "driver": null, "lockfile": null},
        "started": "2026-11-20T22:00:00Z", "finished": "2026-11-20T22:00:00Z",
    }))
    .unwrap()
}

#[test]
fn a_record_counts_for_what_it_came_to() {
    let turn = |record: Record| turn_of(&record, Some(2.0));
    let not_kept = |worse| Some(Turn::NotKept { worse, finding: false });
    assert_eq!(turn(record(0, "keep", Some(2.0), "", None)), None, "the baseline");
    assert_eq!(turn(record(3, "crash", None, "lost", None)), None, "the machine failed, not the idea");
    assert_eq!(turn(record(3, "crash", None, "tainted", None)), None, "somebody else was on the GPU");
    assert_eq!(turn(record(1, "keep", Some(1.0), "", None)), Some(Turn::Kept));
    assert_eq!(turn(record(1, "discard", Some(2.0), "", None)), not_kept(false), "equal is not worse");
    assert_eq!(turn(record(1, "discard", Some(2.5), "", None)), not_kept(true));
    assert_eq!(turn(record(1, "crash", None, "duplicate", None)), not_kept(true));
    let mut found = record(1, "discard", Some(2.0), "", None);
    found.origin.proposal = Some(Unparsed::of(&json!({"findings": ["one"]})).unwrap());
    assert_eq!(turn(found), Some(Turn::NotKept { worse: false, finding: true }));
}

#[test]
fn the_records_of_a_session_bring_it_where_its_experiments_did() {
    let mut records = vec![record(0, "keep", Some(2.0), "", None), record(1, "keep", Some(1.5), "", None)];
    // Better than the baseline but worse than the incumbent.
    records.extend((2..=16).map(|id| record(id, "discard", Some(1.8), "", None)));
    records.insert(9, record(17, "crash", None, "lost", None));
    let history = History::new(records);
    let state = |ladder| LadderState::of_records(Some(&Contract { ladder, ..sample::contract("x") }), &history);
    let refine = state(Ladder::Refine);
    assert_eq!((refine.rung.flags, refine.flagged()), (1, &[16.into()][..]));
    assert_eq!(refine.directive(), Directive::FreshStart { perturbation: Perturbation::Removal });
    let structural = state(Ladder::Structural);
    assert_eq!((structural.rung.flags, structural.stale_count), (3, 3));
    assert_eq!(structural.flagged(), [5, 9, 13].map(ExperimentId::from));
}

#[test]
fn directions_are_the_same_by_their_words_and_have_their_best_number() {
    for names in [
        &["Warm up", " warm  UP", "warm-ups", "WarmUp 2"][..],
        &["schedule", "schedule2", "schedules", "Scheduling"],
        &["gradient clipping", "gradient clip 0.5"],
        &["loss", "losses"],
        &["Über", "über"],
        &["l1"],
        &["l2 regularization"],
        &["l1 regularization"],
        &["1"],
        &["-"],
    ] {
        assert!(names.iter().all(|name| same_direction(name, names[0])), "{names:?}");
    }
    for (one, other) in [
        ("l1", "l2"),
        ("d1", "d11"),
        ("l1 loss", "l2 loss"),
        ("-", "+"),
        ("1", "2"),
        ("size", "side"),
        ("", "1"),
        ("tune beta1", "tune beta2"),
        ("conv1d", "conv2d"),
        ("layers +1", "layers -1"),
        ("dropout +0.1", "dropout -0.1"),
        ("seed", "sees"),
    ] {
        assert!(!same_direction(one, other), "{one} {other}");
    }
    let history = History::new(vec![
        record(0, "keep", Some(2.0), "", None),
        record(1, "discard", Some(2.5), "", Some("warm up")),
        record(2, "keep", Some(1.0), "", Some("batch")),
        record(3, "crash", None, "nan", Some("depth")),
        record(4, "discard", Some(1.25), "", Some("Warm  Up")),
        record(5, "discard", Some(2.0), "", None),
    ]);
    let tried: Vec<_> = directions_tried(history.records())
        .into_iter()
        .map(|known| (known.direction, known.experiments, known.kept, known.best.map(|best: Number| best.value)))
        .collect();
    let expected = [("warm up", 2, 0, Some(1.25)), ("depth", 1, 0, None), ("batch", 1, 1, Some(1.0))];
    assert_eq!(tried, expected.map(|(name, count, kept, best)| (name.to_owned(), count, kept, best)));
    let missed: Vec<_> = near_misses(&history, 2).iter().map(|record| record.id.number()).collect();
    assert_eq!(missed, [4, 5]);
}

#[test]
fn at_a_pivot_each_seat_gets_another_way_out() {
    let pivot = Directive::Pivot { perturbation: Perturbation::Removal, research: true };
    assert_eq!(in_seat(pivot, 0), pivot);
    let mut ways = Vec::new();
    for seat in 0..4 {
        match in_seat(pivot, seat) {
            Directive::Pivot { perturbation, research: true } if !ways.contains(&perturbation) => {
                ways.push(perturbation)
            }
            other => panic!("seat {seat}: {other}"),
        }
    }
    assert_eq!(in_seat(Directive::Refine, 2), Directive::Refine);
}
