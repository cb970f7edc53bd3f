//! Open attempts as the journal has them: one flat object each, whose empty fields its step does not need.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Attempt, AttemptHead, Draft, Made, OpenRun, Ported, Recording};
use crate::domain::{CommitId, ExperimentId, Failure, Fingerprint, Phase, Record, RunResult, RunRole};
use crate::rules::{OpenTrouble, Tested};

/// An open attempt with its runs.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptEntry {
    /// The attempt at its step.
    pub attempt: Attempt,
    /// Its runs that were started.
    pub runs: Vec<OpenRun>,
}

impl AttemptEntry {
    /// An attempt without a run.
    pub fn new(attempt: Attempt) -> Self {
        AttemptEntry { attempt, runs: Vec::new() }
    }

    /// The run that its step is about; it is ready where it was never started. While fresh runs decide, it is the one that is
    /// not over, else the first run.
    pub fn run(&self) -> OpenRun {
        let open = self.runs.iter().find(|run| !run.is_first() && run.result.is_none());
        if let Some(open) = open.filter(|_| matches!(self.attempt, Attempt::Confirm(_))) {
            return open.clone();
        }
        let ready = match &self.attempt {
            Attempt::Rerun(_) => self.runs.first().cloned().unwrap_or_else(|| OpenRun::new(RunRole::Check, 1)),
            attempt => attempt.head().first_run(),
        };
        self.started(&ready).cloned().unwrap_or(ready)
    }

    /// Its run of the same role and number, if it was started.
    pub fn started(&self, run: &OpenRun) -> Option<&OpenRun> {
        self.runs.iter().find(|known| known.is(run))
    }

    /// Its first run, if it was started.
    pub fn first_run(&self) -> Option<&OpenRun> {
        self.runs.iter().find(|run| run.is_first())
    }

    /// The results of its further runs that decide, in order.
    pub fn results(&self) -> Vec<RunResult> {
        let mut runs: Vec<&OpenRun> = self.runs.iter().filter(|run| run.role != RunRole::Baseline).collect();
        runs.sort_by_key(|run| run.number);
        runs.into_iter().filter_map(|run| run.result.as_deref().cloned()).collect()
    }

    /// The number of fresh runs that it has: the first run of a trial or of a second look counts among them.
    pub fn fresh_runs(&self) -> u32 {
        let first = self.attempt.head().first_run_counts().into();
        u32::try_from(self.results().len()).unwrap_or(u32::MAX).saturating_add(first)
    }
}

/// The open attempts, in the order in which they were opened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Attempts {
    /// Those that can be gone on with.
    pub open: Vec<AttemptEntry>,
    /// Those whose step lacks what it needs. They stay in the journal, which is damaged.
    malformed: Vec<(EntryDocument, OpenTrouble)>,
}

impl Attempts {
    /// Returns whether the journal has none.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.malformed.is_empty()
    }

    /// The numbers of the baseline's runs that are under way for changes other than this one.
    pub fn baseline_runs_beside(&self, id: ExperimentId) -> Vec<u32> {
        let is_other = |entry: &&AttemptEntry| matches!(entry.attempt, Attempt::Confirm(_)) && entry.attempt.id() != id;
        let runs = self.open.iter().filter(is_other).flat_map(|entry| &entry.runs);
        runs.filter(|run| run.role == RunRole::Baseline).map(|run| run.number).collect()
    }

    /// The numbers of all of them.
    pub fn ids(&self) -> Vec<ExperimentId> {
        let malformed = self.malformed.iter().map(|(document, _)| document.open.head.id);
        self.open.iter().map(|entry| entry.attempt.id()).chain(malformed).collect()
    }

    /// What the first one lacks whose step lacks something.
    pub fn trouble(&self) -> Option<OpenTrouble> {
        self.malformed.first().map(|(_, trouble)| *trouble)
    }
}

impl Serialize for Attempts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let malformed = self.malformed.iter().map(|(document, _)| document.clone());
        serializer.collect_seq(self.open.iter().map(EntryDocument::of).chain(malformed))
    }
}

impl<'de> Deserialize<'de> for Attempts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut attempts = Attempts::default();
        for document in Vec::<EntryDocument>::deserialize(deserializer)? {
            match document.open.clone().at(document.phase) {
                Ok(attempt) => attempts.open.push(AttemptEntry { attempt, runs: document.runs }),
                Err(trouble) => attempts.malformed.push((document, trouble)),
            }
        }
        Ok(attempts)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct EntryDocument {
    phase: Phase,
    open: AttemptDocument,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    runs: Vec<OpenRun>,
}

impl EntryDocument {
    fn of(entry: &AttemptEntry) -> Self {
        let AttemptEntry { attempt, runs } = entry;
        EntryDocument { phase: attempt.phase(), open: AttemptDocument::of(attempt), runs: runs.clone() }
    }
}

impl Serialize for Attempt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        AttemptDocument::of(self).serialize(serializer)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct AttemptDocument {
    #[serde(flatten)]
    head: AttemptHead,
    commit: Option<CommitId>,
    #[serde(default)]
    rows_from: u64,
    #[serde(default)]
    refused: Option<Failure>,
    #[serde(default)]
    fingerprint: Option<Fingerprint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    draft: Option<Box<Record>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tested: Option<Tested>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    recording: Vec<Record>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    artifacts_of: Option<ExperimentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ported: Option<Ported>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    merge_with: Option<CommitId>,
}

impl AttemptDocument {
    fn of(attempt: &Attempt) -> Self {
        match attempt.clone() {
            Attempt::Call(head) => AttemptDocument { head, ..Self::default() },
            Attempt::Rework(draft) => AttemptDocument { commit: None, ..Self::of_draft(draft) },
            Attempt::Merge { made, onto } => AttemptDocument { merge_with: Some(onto), ..Self::of_made(made) },
            Attempt::MergeWinner { draft, onto } => AttemptDocument { merge_with: Some(onto), ..Self::of_draft(draft) },
            Attempt::Ready(made) | Attempt::Run(made) | Attempt::Rerun(made) => Self::of_made(made),
            Attempt::Guard(draft) | Attempt::Confirm(draft) | Attempt::Review(draft) | Attempt::Winner(draft) => {
                Self::of_draft(draft)
            }
            Attempt::Tested { draft, tested } => AttemptDocument { tested: Some(tested), ..Self::of_draft(draft) },
            Attempt::Recording(Recording { made, records, rows_from, artifacts_of, .. }) => {
                AttemptDocument { recording: records, rows_from, artifacts_of, ..Self::of_made(made) }
            }
        }
    }

    fn of_made(Made { head, commit, fingerprint, refused, asked, before }: Made) -> Self {
        let (commit, merge_with, draft) = (Some(commit), asked, before);
        AttemptDocument { head, commit, refused, fingerprint, draft, merge_with, ..Self::default() }
    }

    fn of_draft(Draft { made, record, ported, tested }: Draft) -> Self {
        AttemptDocument { draft: Some(record), ported, tested, ..Self::of_made(made) }
    }

    /// The attempt at a step, or what that step lacks.
    fn at(mut self, phase: Phase) -> Result<Attempt, OpenTrouble> {
        match phase {
            Phase::Idle => Err(OpenTrouble::Unnamed),
            Phase::Proposing => self.at_a_call(),
            Phase::Committing => self.made().map(Attempt::Ready),
            Phase::Running => self.made().map(Attempt::Run),
            Phase::Checking => self.made().map(Attempt::Rerun),
            Phase::Guarding => self.measured().map(Attempt::Guard),
            Phase::Confirming => self.measured().map(Attempt::Confirm),
            Phase::Reviewing => self.measured().map(Attempt::Review),
            Phase::Waiting if self.head.trial().is_none() => self.measured().map(Attempt::Winner),
            Phase::Waiting => {
                let tested = self.tested.take().ok_or(OpenTrouble::NoDraft)?;
                Ok(Attempt::Tested { draft: self.measured()?, tested })
            }
            Phase::Recording | Phase::Settling => {
                let (records, has_rows) = (std::mem::take(&mut self.recording), phase == Phase::Settling);
                let (rows_from, artifacts_of) = (self.rows_from, self.artifacts_of);
                Ok(Attempt::Recording(Recording { made: self.made()?, records, rows_from, artifacts_of, has_rows }))
            }
        }
    }

    fn at_a_call(mut self) -> Result<Attempt, OpenTrouble> {
        let (commit, onto) = (self.commit.take(), self.merge_with.take());
        let Some(record) = &self.draft else {
            return match (commit, onto) {
                (None, _) => Ok(Attempt::Call(self.head)),
                (commit, Some(onto)) => Ok(Attempt::Merge { made: AttemptDocument { commit, ..self }.made()?, onto }),
                (Some(_), None) => Err(OpenTrouble::NoDraft),
            };
        };
        let measured = Some(record.commit.clone());
        let mut draft = AttemptDocument { commit: measured, ..self }.measured()?;
        match (commit, onto) {
            (Some(_), Some(onto)) if draft.may_merge() => Ok(Attempt::MergeWinner { draft, onto }),
            (_, asked) => {
                draft.made.asked = asked;
                Ok(Attempt::Rework(draft))
            }
        }
    }

    fn made(self) -> Result<Made, OpenTrouble> {
        Ok(Made {
            head: self.head,
            commit: self.commit.ok_or(OpenTrouble::NoCommit)?,
            fingerprint: self.fingerprint,
            refused: self.refused,
            asked: self.merge_with,
            before: self.draft,
        })
    }

    fn measured(mut self) -> Result<Draft, OpenTrouble> {
        let record = self.draft.take().ok_or(OpenTrouble::NoDraft)?;
        let (ported, tested) = (self.ported.take(), self.tested.take());
        Ok(Draft { made: self.made()?, record, ported, tested })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::machine::Origin;
    use crate::rules::{Trial, sample};

    fn commit(digit: &str) -> CommitId {
        CommitId::new(digit.repeat(40))
    }

    fn made(origin: Origin) -> Made {
        let head = AttemptHead {
            origin,
            seat: Some(1),
            ..AttemptHead::new(3.into(), commit("a"), "2026-11-20T22:00:00Z".parse().unwrap())
        };
        Made { head, commit: commit("b"), ..Made::default() }
    }

    fn record(extra: Value) -> Record {
        let mut content = json!({"id": 3, "outcome": "keep", "commit": "b".repeat(40)});
        content.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        sample::record(content)
    }

    fn draft(origin: Origin, extra: Value) -> Draft {
        Draft::new(made(origin), record(extra))
    }

    #[test]
    fn the_journal_tells_each_step_from_all_others() {
        let by_hand = || Origin::Person { replaces: Some("c".repeat(40)) };
        let trial = || Origin::Trial { trial: Trial::Afresh(2.into()), chain: vec![commit("b")] };
        let failed = json!({"outcome": "crash", "failure": {"class": "crash", "excerpt": ""}});
        let asked = Made { asked: Some(commit("e")), ..made(Origin::Loop) };
        let next = Made { before: Some(Box::new(record(failed.clone()))), commit: commit("d"), ..made(Origin::Loop) };
        let ported = Ported { base: commit("e"), commit: commit("d") };
        let recording = |records: Vec<Record>, has_rows| Recording {
            made: made(by_hand()),
            records,
            rows_from: 7,
            artifacts_of: Some(5.into()),
            has_rows,
        };
        let open = [
            Attempt::Call(made(Origin::Loop).head),
            Attempt::Rework(draft(Origin::Loop, failed.clone())),
            Attempt::Rework(Draft { made: asked.clone(), ..draft(Origin::Loop, failed) }),
            Attempt::Merge { made: made(Origin::Loop), onto: commit("e") },
            Attempt::MergeWinner { draft: draft(Origin::Loop, json!({})), onto: commit("e") },
            Attempt::Ready(asked),
            Attempt::Run(next),
            Attempt::Rerun(made(Origin::Loop)),
            Attempt::Guard(draft(by_hand(), json!({}))),
            Attempt::Confirm(Draft { tested: Some(Tested::NotBetter(None)), ..draft(trial(), json!({})) }),
            Attempt::Review(draft(Origin::Loop, json!({}))),
            Attempt::Winner(Draft { ported: Some(ported), ..draft(Origin::Loop, json!({})) }),
            Attempt::Tested { draft: draft(trial(), json!({})), tested: Tested::NotBetter(None) },
            Attempt::Recording(recording(vec![record(json!({}))], false)),
            Attempt::Recording(recording(Vec::new(), true)),
        ];
        for attempt in open {
            let entry = AttemptEntry { attempt, runs: vec![OpenRun::new(RunRole::Screen, 1)] };
            let attempts = Attempts { open: vec![entry], ..Attempts::default() };
            let text = serde_json::to_string(&attempts).unwrap();
            assert_eq!(serde_json::from_str::<Attempts>(&text).unwrap(), attempts, "{text}");
        }
    }

    #[test]
    fn what_a_step_lacks_is_named_and_stays_in_the_journal() {
        let open =
            json!({"id": 3, "base": "a".repeat(40), "commit": null, "started": "2026-11-20T22:00:00Z", "newer": 1});
        let made =
            json!({"id": 3, "base": "a".repeat(40), "commit": "b".repeat(40), "started": "2026-11-20T22:00:00Z"});
        for (phase, open, trouble) in [
            ("idle", &open, OpenTrouble::Unnamed),
            ("committing", &open, OpenTrouble::NoCommit),
            ("running", &open, OpenTrouble::NoCommit),
            ("proposing", &made, OpenTrouble::NoDraft),
            ("guarding", &made, OpenTrouble::NoDraft),
            ("waiting", &made, OpenTrouble::NoDraft),
        ] {
            let read: Attempts = serde_json::from_value(json!([{"phase": phase, "open": open}])).unwrap();
            assert_eq!((read.trouble(), read.open.len(), read.ids()), (Some(trouble), 0, vec![3.into()]), "{phase}");
            let written = serde_json::to_value(&read).unwrap();
            assert_eq!((&written[0]["phase"], &written[0]["open"]["newer"]), (&json!(phase), &open["newer"]));
        }
    }
}
