//! Open attempts in the journal: the user's working tree, the winners that wait, and what the records say of them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Journal;
use crate::domain::{CommitId, Contract, ExperimentId, Outcome, Phase, Record};
use crate::machine::{Attempt, Made, Recording};
use crate::rules::{History, Incumbent, Line, OpenFound, Trial};

/// A change that was taken out of the working tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Aside {
    /// Its commit.
    pub commit: CommitId,
    /// Its description.
    pub description: String,
    /// The strategy that it belongs to.
    pub direction: Option<String>,
    /// Its proposal, without description and direction.
    #[serde(default)]
    pub proposal: Map<String, Value>,
    /// The ref that keeps it meanwhile.
    pub reference: String,
}

/// The state of the user's working tree, apart from experiments.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TreeState {
    /// The working tree that the session is at work in.
    #[serde(default)]
    worktree: PathBuf,
    /// The user's branch to which their working tree is being switched back, as a full ref name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    homeward: Option<String>,
    /// The keep that is reviewed after it was recorded: what its reviewer does to branch and working tree is to be undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    late_review: Option<ExperimentId>,
    /// A change that was taken out of the working tree until the baseline is measured.
    aside: Option<Aside>,
}

impl TreeState {
    /// Creates the state of a working tree in which nothing is under way.
    pub fn of(worktree: &Path) -> Self {
        TreeState { worktree: worktree.to_owned(), ..TreeState::default() }
    }

    /// The working tree that the session is at work in.
    pub fn worktree(&self) -> &Path {
        &self.worktree
    }

    /// Notes that the session continues in this working tree.
    pub fn move_to(&mut self, worktree: &Path) {
        self.worktree = worktree.to_owned();
    }

    /// Notes to which branch of the user's the working tree is being switched back; `None` once it is, or is not to be.
    pub fn go_home(&mut self, branch: Option<String>) {
        self.homeward = branch;
    }

    /// Returns whether the working tree is being switched back to the user's branch.
    pub fn is_homeward(&self) -> bool {
        self.homeward.is_some()
    }

    /// Notes which keep is being reviewed; `None` once what its reviewer did is undone.
    pub fn review(&mut self, id: Option<ExperimentId>) {
        self.late_review = id;
    }

    /// The keep that is being reviewed.
    pub fn reviewed(&self) -> Option<ExperimentId> {
        self.late_review
    }

    /// Notes that a change was taken out.
    pub fn set_aside(&mut self, aside: Aside) {
        self.aside = Some(aside);
    }

    /// The change that was taken out.
    pub fn aside(&self) -> Option<&Aside> {
        self.aside.as_ref()
    }

    /// Gives the change that was taken out and forgets it, as it becomes an experiment.
    pub fn take_aside(&mut self) -> Option<Aside> {
        self.aside.take()
    }
}

impl Journal {
    /// Calls `act` with the line and the facts that it compares its winners with. Returns `None` without an incumbent.
    pub fn on_line<T>(
        &mut self,
        history: &History,
        contract: &Contract,
        may_ask: bool,
        act: impl FnOnce(&mut Line, &Incumbent) -> T,
    ) -> Option<T> {
        let (incumbent, number) = history.standing()?;
        let kept = history.records().iter().filter(|record| record.outcome == Outcome::Keep);
        let kept: Vec<ExperimentId> = kept.map(|record| record.id).collect();
        let running = self.running_trials();
        // With a threshold, no gain is large enough to remove a kept experiment.
        let min_delta =
            if contract.keep_above.is_some() { f64::INFINITY } else { contract.min_delta.value(number.as_ref()) };
        let standing = Incumbent {
            incumbent,
            number: number.as_ref(),
            direction: contract.metric.direction,
            min_delta,
            kept: &kept,
            running: &running,
            slots: self.layout.as_ref().map_or(1, |layout| layout.slots),
            may_ask,
        };
        Some(act(&mut self.line, &standing))
    }

    /// The attempt that makes this run.
    pub fn attempt_of(&self, trial: &Trial) -> Option<&Attempt> {
        self.attempts().find(|attempt| attempt.trial() == Some(trial))
    }

    /// The winners, and the attempts that are reviewed before they are.
    pub fn winners(&self) -> Vec<ExperimentId> {
        let reviewed = self.in_phase(Phase::Reviewing).map(Attempt::id);
        self.line.cars().map(|car| car.id).chain(reviewed).collect()
    }

    /// The number of second looks that are open, which use up no experiment of a budget.
    pub fn second_looks(&self) -> u32 {
        u32::from(self.attempts().any(|attempt| attempt.head().is_second_look()))
    }

    /// The runs that are under way.
    fn running_trials(&self) -> Vec<Trial> {
        let is_running = |attempt: &&Attempt| !matches!(attempt.phase(), Phase::Waiting | Phase::Recording);
        self.attempts().filter(is_running).filter_map(|attempt| attempt.trial().cloned()).collect()
    }

    /// The attempts whose runs are over and of no more use: the line `wants` those runs again, or stands on another `incumbent`.
    pub fn useless_trials(&self, wants: &[Trial], incumbent: Option<ExperimentId>) -> Vec<ExperimentId> {
        let is_useless = |trial: &Trial| wants.contains(trial) || !self.line.uses(trial, incumbent);
        let waiting = self.in_phase(Phase::Waiting).filter(|attempt| attempt.trial().is_some_and(is_useless));
        waiting.map(Attempt::id).collect()
    }
}

impl Journal {
    /// The open attempts, each compared with the records. `tip` is the base of the next experiment. `is_replaced` is
    /// true for an experiment that is measured again: its old record stays until the new one exists.
    pub fn found<'a>(
        &'a self,
        history: &'a History,
        tip: &'a CommitId,
        is_replaced: impl Fn(&Attempt) -> bool + 'a,
    ) -> impl Iterator<Item = (&'a Attempt, OpenFound<'a>)> {
        // The numbers of several attempts were given in advance.
        let are_several = self.tree_owner().is_one_of_many() || self.given.is_some();
        self.attempts().map(move |attempt| {
            let (id, base) = (attempt.id(), &attempt.head().base);
            let may_differ = is_replaced(attempt) || self.is_recorded_with_others(attempt);
            let recorded = history.get(id).filter(|_| !may_differ);
            let is_last = history.records().last().is_some_and(|last| last.id == id);
            // With several attempts, two may be recorded at the same time.
            let is_recording = are_several && matches!(attempt, Attempt::Recording(_));
            let found = OpenFound {
                open: (attempt.commit(), base),
                is_free: may_differ || history.is_free(id, self.given),
                is_last: recorded.is_some() && (is_last || is_recording),
                recorded: recorded.map(|record| &record.commit),
                // The base of another attempt may no longer be the best one.
                tip: Some(base).filter(|base| are_several && history.knows(base)).unwrap_or(tip),
            };
            (attempt, found)
        })
    }

    /// Returns whether an attempt is a car of a train that is being recorded: half of the train may be recorded, each car with
    /// a commit other than the one that it was measured with.
    fn is_recorded_with_others(&self, attempt: &Attempt) -> bool {
        let id = attempt.id();
        self.attempts().any(|by| {
            let is_own = |record: &Record| by.id() == id && Some(&record.commit) == attempt.commit();
            by.recording().iter().any(|record| record.id == id && !is_own(record))
        })
    }

    /// Notes where the rows of open experiments are in a file that was written anew: `row_of` gives the place of each that has
    /// one. Returns whether any has.
    pub fn place_rows(&mut self, row_of: impl Fn(ExperimentId) -> Option<u64>) -> bool {
        // Any member's record commits all of them.
        let together: Vec<ExperimentId> =
            self.attempts().flat_map(Attempt::recording).map(|record| record.id).collect();
        let mut is_changed = false;
        for attempt in self.attempts_mut() {
            let first = attempt.recording().first().map_or(attempt.id(), |record| record.id);
            // A train is recorded and settled as one, by the attempt that has it.
            let is_member = attempt.recording().is_empty() && together.contains(&attempt.id());
            let Some(row) = row_of(first).filter(|_| !is_member) else { continue };
            match attempt {
                Attempt::Recording(recording) => {
                    recording.rows_from = row;
                    recording.has_rows |= recording.records.is_empty();
                }
                attempt => {
                    let before = attempt.measured().cloned().map(Box::new);
                    let Some(made) = attempt.made().map(|made| Made { before, ..made.clone() }) else { continue };
                    let (records, artifacts_of) = (Vec::new(), None);
                    *attempt =
                        Attempt::Recording(Recording { made, records, rows_from: row, artifacts_of, has_rows: true });
                }
            }
            is_changed = true;
        }
        is_changed
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::machine::{AttemptHead, Draft, Made};
    use crate::rules::sample;

    #[test]
    fn what_is_under_way_is_known_until_it_is_undone() {
        let mut tree = TreeState::of(Path::new("/a"));
        tree.move_to(Path::new("/b"));
        tree.go_home(Some("refs/heads/main".into()));
        tree.review(Some(3.into()));
        assert_eq!((tree.worktree(), tree.is_homeward(), tree.reviewed()), (Path::new("/b"), true, Some(3.into())));
        tree.go_home(None);
        tree.review(None);
        assert_eq!(tree, TreeState::of(Path::new("/b")));
    }

    fn made(id: u32) -> Made {
        let commit = CommitId::new("a".repeat(40));
        Made { head: AttemptHead::new(id.into(), commit.clone(), Timestamp::UNIX_EPOCH), commit, ..Made::default() }
    }

    fn record(id: u32) -> Record {
        sample::record(json!({"id": id, "outcome": "keep", "value": "1.0"}))
    }

    fn rows(journal: &Journal) -> Vec<(Phase, Option<u64>)> {
        let row = |attempt: &Attempt| match attempt {
            Attempt::Recording(recording) => Some(recording.rows_from),
            _ => None,
        };
        journal.attempts().map(|attempt| (attempt.phase(), row(attempt))).collect()
    }

    #[test]
    fn rows_of_open_experiments_are_settled_and_those_of_a_train_by_one_attempt() {
        let mut journal = Journal::new(Path::new("/r"), Timestamp::UNIX_EPOCH);
        journal.enter(Attempt::Run(made(2)));
        journal.enter(Attempt::Winner(Draft::new(made(3), record(3))));
        let recording =
            |records| Recording { made: made(5), records, rows_from: 0, artifacts_of: None, has_rows: false };
        journal.enter(Attempt::Recording(recording(vec![record(3), record(4)])));
        assert!(!journal.clone().place_rows(|_| None));
        let row_of = |id: ExperimentId| (id != 2.into()).then(|| u64::from(id.number()) * 10);
        assert!(journal.place_rows(row_of));
        assert_eq!(rows(&journal), [(Phase::Running, None), (Phase::Waiting, None), (Phase::Recording, Some(30))]);
        let mut alone = Journal::new(Path::new("/r"), Timestamp::UNIX_EPOCH);
        alone.enter(Attempt::Ready(made(3)));
        assert!(alone.place_rows(row_of));
        assert_eq!(rows(&alone), [(Phase::Settling, Some(30))]);
    }
}
