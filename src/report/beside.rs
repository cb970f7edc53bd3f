//! Facts, in plain words, about an experiment and others that were open at the same time.

use crate::domain::{ExperimentId, Record, Replay};
use crate::rules::{Confound, listed};

/// The facts of a record about others, a name and a sentence each; none of an experiment that was made *in place*. The keep
/// `replaced_by` has removed its change.
pub(super) fn beside(record: &Record, replaced_by: Option<ExperimentId>) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let beside = &record.beside;
    if let Some(slot) = beside.slot {
        let others = match beside.neighbours.as_slice() {
            [] => String::new(),
            others => format!(", beside {}", experiments(others)),
        };
        facts.push(("slot", format!("{slot}{others}")));
    }
    // The reason of a car without a number says all of it.
    let train = train(record).filter(|_| record.number_of().is_none() || record.reason.is_empty());
    facts.extend(train.map(|sentence| ("train", sentence)));
    facts.extend(replaced_by.map(|by| ("replaced by", format!("experiment {by}, whose tree has none of its change"))));
    if !beside.replaces.is_empty() {
        let replaced = experiments(&beside.replaces);
        facts.push(("replaces", format!("its tree was put on top; it removes {replaced}")));
    }
    facts.extend(beside.replays.iter().map(|replay| ("replay", replayed(replay))));
    facts
}

/// The experiments that one was kept with, and whose number counts.
pub(super) fn train(record: &Record) -> Option<String> {
    let train = record.beside.train.as_ref()?;
    let others: Vec<ExperimentId> = train.members.iter().copied().filter(|id| *id != record.id).collect();
    if others.is_empty() {
        return Some("kept by itself, merged with what was kept meanwhile".to_owned());
    }
    let number = match record.number_of() {
        Some(last) => format!("the number is that of {last}"),
        None => "the number is that of all".to_owned(),
    };
    Some(format!("kept with {}; {number}", experiments(&others)))
}

/// Describes a keep, and names the later keep that removed its change, if any.
pub(super) fn described(replaced_by: Option<ExperimentId>, description: &str) -> String {
    match replaced_by {
        Some(by) => format!("replaced by {by}: {description}"),
        None => description.to_owned(),
    }
}

/// The number of a record as people see it; for a keep without one of its own the experiment that has it.
pub(super) fn number(record: &Record) -> String {
    let number = || record.metric.number().map(|number| number.to_string()).unwrap_or_default();
    record.number_of().map_or_else(number, with)
}

/// The words in the place of the number of a keep that experiment `last` has.
pub(super) fn with(last: ExperimentId) -> String {
    format!("with {last}")
}

/// What changed with a gain, in a clause; absent if nothing did.
pub(super) fn confounds_text(found: &[Confound]) -> Option<String> {
    let found: Vec<String> = found.iter().map(Confound::to_string).collect();
    (!found.is_empty()).then(|| found.join(", "))
}

fn experiments(ids: &[ExperimentId]) -> String {
    format!("experiment{} {}", if ids.len() == 1 { "" } else { "s" }, listed(ids))
}

fn replayed(replay: &Replay) -> String {
    let value = replay.value.map_or("no number".to_owned(), |value| value.to_string());
    format!("{value} as {} on {}: {}", replay.commit.short(8), replay.base.short(8), replay.why)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::sample::record;

    #[test]
    fn a_car_is_told_with_its_train_and_a_winner_with_its_replays() {
        let train = json!({"last": 15, "members": [12, 14, 15]});
        let replay = json!({"base": "b".repeat(40), "commit": "c".repeat(40), "value": 1.5, "why": "does not add"});
        let car = record(json!({"id": 12, "train": train, "slot": 2, "neighbours": [3], "replays": [replay]}));
        let said: Vec<String> = beside(&car, None).into_iter().map(|(name, said)| format!("{name}: {said}")).collect();
        assert_eq!(
            said,
            [
                "slot: 2, beside experiment 3",
                "train: kept with experiments 14 and 15; the number is that of 15",
                "replay: 1.5 as cccccccc on bbbbbbbb: does not add",
            ]
        );
        assert_eq!(number(&car), "with 15");
        let car =
            Record { reason: "kept with experiments 14 and 15; the number is that of experiment 15".into(), ..car };
        assert!(beside(&car, None).iter().all(|(name, _)| *name != "train"), "the reason says it");
        let last = record(json!({"id": 15, "value": "1.25", "train": train, "replaces": [7]}));
        let said: Vec<String> = beside(&last, Some(20.into())).into_iter().map(|(_, said)| said).collect();
        assert_eq!(
            said,
            [
                "kept with experiments 12 and 14; the number is that of all",
                "experiment 20, whose tree has none of its change",
                "its tree was put on top; it removes experiment 7"
            ]
        );
        assert_eq!(number(&last), "1.25");
        let alone = record(json!({"id": 16, "value": "1", "train": {"last": 16, "members": [16]}}));
        assert_eq!(super::train(&alone).as_deref(), Some("kept by itself, merged with what was kept meanwhile"));
        assert_eq!(beside(&record(json!({"id": 1, "value": "1"})), None), []);
    }
}
