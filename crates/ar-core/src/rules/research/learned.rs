//! The findings of earlier agent calls, most valuable first.

use crate::domain::{ExperimentId, Outcome, Record};

/// The weight of a lesson relative to a finding; a lesson is a conclusion.
const LESSON: f64 = 2.0;

/// The number of experiments after which a note's weight halves.
const FADES_AFTER: u32 = 10;

/// A note by an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Learned {
    /// The experiment of its call.
    pub experiment: ExperimentId,
    /// The outcome of that experiment; absent if the call made none.
    pub outcome: Option<Outcome>,
    /// The finding.
    pub text: String,
    /// True for a lesson, false for a finding.
    pub is_lesson: bool,
}

/// The findings and lessons of a session, heaviest first, then newest, each text once. `noted` are findings with the
/// experiment of their call, also of calls without an experiment.
pub fn learned(records: &[Record], noted: &[(ExperimentId, String)]) -> Vec<Learned> {
    let last = records.iter().map(|record| record.id).max().unwrap_or(ExperimentId::BASELINE);
    let outcome = |id: ExperimentId| records.iter().find(|record| record.id == id).map(|record| record.outcome);
    let finding = |experiment, text| Learned { experiment, outcome: outcome(experiment), text, is_lesson: false };
    let mut all: Vec<Learned> = Vec::new();
    for record in records.iter().filter(|record| record.proposal.is_some()) {
        let lesson = record.lesson().into_iter();
        all.extend(lesson.map(|text| Learned { is_lesson: true, ..finding(record.id, text) }));
        all.extend(record.findings().into_iter().map(|text| finding(record.id, text)));
    }
    all.extend(noted.iter().map(|(id, text)| finding(*id, text.clone())));
    let weight = |note: &Learned| {
        let age = f64::from(last.number().saturating_sub(note.experiment.number())) / f64::from(FADES_AFTER);
        if note.is_lesson { LESSON * 0.5_f64.powf(age) } else { 0.5_f64.powf(age) }
    };
    all.sort_by(|one, other| weight(other).total_cmp(&weight(one)).then(other.experiment.cmp(&one.experiment)));
    let mut kept: Vec<Learned> = Vec::new();
    for note in all {
        if !kept.iter().any(|known| known.text == note.text) {
            kept.push(note);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::sample::record;

    #[test]
    fn what_is_new_and_what_is_a_lesson_comes_first_and_nothing_twice() {
        let records = [
            record(json!({"id": 1, "outcome": "crash", "proposal": {"findings": ["oldest", "twice"]}})),
            record(json!({"id": 2, "outcome": "discard", "proposal": {"lesson": "old lesson"}})),
            record(json!({"id": 9, "outcome": "discard", "proposal": {"findings": ["twice"], "lesson": "lesson"}})),
            record(json!({"id": 11})),
        ];
        let noted = [(9.into(), "twice".to_owned()), (12.into(), "of an idle call".to_owned())];
        let texts: Vec<_> = learned(&records, &noted)
            .into_iter()
            .map(|note| format!("{} {:?} {}", note.experiment, note.outcome.map(<&str>::from), note.text))
            .collect();
        let expected = [
            "9 Some(\"discard\") lesson",
            "2 Some(\"discard\") old lesson",
            "12 None of an idle call",
            "9 Some(\"discard\") twice",
            "1 Some(\"crash\") oldest",
        ];
        assert_eq!(texts, expected);
        assert!(learned(&[], &[]).is_empty());
    }
}
