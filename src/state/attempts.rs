//! Open attempts in the journal: their runs, the user's working tree, the winners that wait, and what the records say of
//! them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Journal, OpenExperiment};
use crate::domain::{CommitId, Contract, ExperimentId, Outcome, Phase, Record, RunResult, RunRole, is_none};
use crate::rules::{History, Incumbent, Line, OpenFound, Trial, Without};

/// The most evictions of a run that count as no loss: a change that takes its node down with it is not tried for ever.
pub const MOST_EVICTIONS: u32 = 10;

/// A run of the measuring command for an open attempt. The job that awaits it owns it, and nobody else changes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenRun {
    /// Its purpose.
    pub role: RunRole,
    /// Its number among the attempt's runs of this role, from 1.
    pub number: u32,
    /// The seed that it gets; absent in sessions of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The number of its starts on its commit; 0 while it is ready.
    pub starts: u32,
    /// Repetitions because files changed during it.
    #[serde(default, skip_serializing_if = "is_none")]
    pub repeated: u32,
    /// Repetitions because another process was on its GPU.
    #[serde(default, skip_serializing_if = "is_none")]
    pub tainted: u32,
    /// Repetitions because it ran on another model of GPU than the baseline.
    #[serde(default, skip_serializing_if = "is_none")]
    pub moved: u32,
    /// Number of evictions by its engine.
    #[serde(default, skip_serializing_if = "is_none")]
    pub evicted: u32,
    /// The files set aside to repeat it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without: Option<Without>,
    /// The stamp of the file that holds the metric before it; see [`crate::domain::MetricSource::File`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric_file: Option<String>,
    /// The result of a further run, which decides together with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RunResult>>,
    /// Fields of a newer program.
    #[serde(flatten)]
    pub unknown_fields: Map<String, Value>,
}

impl OpenRun {
    /// A run that is ready, with the seed of its role and number.
    pub fn new(role: RunRole, number: u32) -> Self {
        OpenRun {
            role,
            number,
            seed: role.seed(number),
            starts: 0,
            repeated: 0,
            tainted: 0,
            moved: 0,
            evicted: 0,
            without: None,
            metric_file: None,
            result: None,
            unknown_fields: Map::new(),
        }
    }

    /// Returns whether it is the attempt's first run. Its files lie in the attempt's folder, those of others in folders
    /// below.
    pub fn is_first(&self) -> bool {
        self.number == 1 && self.role.begins_attempt()
    }

    /// The paths without which it was repeated, for its record.
    pub fn carried(&self) -> impl Iterator<Item = &String> {
        self.without.iter().flat_map(|without| &without.paths)
    }

    /// The number of its starts without those that repeated it: one more than it was lost, once it was started.
    pub fn tries(&self) -> u32 {
        let evicted = self.evicted.min(MOST_EVICTIONS);
        let without = self.without.as_ref().map_or(0, |without| without.repeats);
        self.starts.saturating_sub(self.repeated + self.tainted + self.moved + evicted + without)
    }

    /// Returns whether it is a run of the same role and number.
    pub fn is(&self, other: &OpenRun) -> bool {
        (self.role, self.number) == (other.role, other.number)
    }
}

/// A change that was taken out of the working tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Aside {
    /// Its commit.
    pub commit: CommitId,
    /// Its description.
    pub description: String,
    /// The strategy that it belongs to.
    #[serde(default)]
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
    #[serde(default)]
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
    pub fn attempt_of(&self, trial: &Trial) -> Option<&OpenExperiment> {
        self.open_attempts().find(|open| open.trial.as_ref() == Some(trial))
    }

    /// The winners, and the attempts that are reviewed before they are.
    pub fn winners(&self) -> Vec<ExperimentId> {
        let reviewed = self.in_phase(Phase::Reviewing).map(|open| open.id);
        self.line.cars().map(|car| car.id).chain(reviewed).collect()
    }

    /// The runs that are under way.
    fn running_trials(&self) -> Vec<Trial> {
        let running = self.steps().filter(|(phase, _)| !matches!(phase, Phase::Waiting | Phase::Recording));
        running.filter_map(|(_, open)| open.trial.clone()).collect()
    }

    /// The attempts whose runs are over and of no more use: the line `wants` those runs again, or stands on another `incumbent`.
    pub fn useless_trials(&self, wants: &[Trial], incumbent: Option<ExperimentId>) -> Vec<ExperimentId> {
        let is_useless = |trial: &Trial| wants.contains(trial) || !self.line.uses(trial, incumbent);
        let waiting = self.in_phase(Phase::Waiting).filter(|open| open.trial.as_ref().is_some_and(is_useless));
        waiting.map(|open| open.id).collect()
    }
}

impl Journal {
    /// The open attempts, each compared with the records. `tip` is the base of the next experiment. `is_replaced` is
    /// true for an experiment that is measured again: its old record stays until the new one exists.
    pub fn found<'a>(
        &'a self,
        history: &'a History,
        tip: &'a CommitId,
        is_replaced: impl Fn(&OpenExperiment) -> bool + 'a,
    ) -> impl Iterator<Item = (&'a OpenExperiment, OpenFound<'a>)> {
        // The numbers of several attempts were given in advance.
        let are_several = self.tree_owner().is_one_of_many() || self.given.is_some();
        self.steps().map(move |(phase, open)| {
            let may_differ = is_replaced(open) || self.is_recorded_with_others(open);
            let recorded = history.get(open.id).filter(|_| !may_differ);
            let is_last = history.records().last().is_some_and(|last| last.id == open.id);
            // With several attempts, two may be recorded at the same time.
            let is_recording = are_several && matches!(phase, Phase::Recording | Phase::Settling);
            let found = OpenFound {
                phase,
                open: (open.commit.as_ref(), &open.base),
                is_free: may_differ || history.is_free(open.id, self.given),
                is_last: recorded.is_some() && (is_last || is_recording),
                recorded: recorded.map(|record| &record.commit),
                // The base of another attempt may no longer be the best one.
                tip: Some(&open.base).filter(|base| are_several && history.knows(base)).unwrap_or(tip),
            };
            (open, found)
        })
    }

    /// Returns whether an attempt is a car of a train that is being recorded: half of the train may be recorded, each car with
    /// a commit other than the one that it was measured with.
    fn is_recorded_with_others(&self, open: &OpenExperiment) -> bool {
        self.open_attempts().any(|by| {
            let is_own = |record: &Record| by.id == open.id && Some(&record.commit) == open.commit.as_ref();
            by.recording.iter().any(|record| record.id == open.id && !is_own(record))
        })
    }

    /// The members of the records that are being written. Any member's record commits all of them.
    fn recorded_together(&self) -> Vec<ExperimentId> {
        self.open_attempts().flat_map(|open| &open.recording).map(|record| record.id).collect()
    }

    /// Notes where the rows of open experiments are in a file that was written anew: `row_of` gives the place of each that has
    /// one. Returns whether any has.
    pub fn place_rows(&mut self, row_of: impl Fn(ExperimentId) -> Option<u64>) -> bool {
        let together = self.recorded_together();
        let mut is_changed = false;
        for (phase, open) in self.steps_mut() {
            let first = open.recording.first().map_or(open.id, |record| record.id);
            // A train is recorded and settled as one, by the attempt that has it.
            let is_member = open.recording.is_empty() && together.contains(&open.id);
            let Some(row) = row_of(first).filter(|_| !is_member) else { continue };
            open.rows_from = row;
            if open.recording.is_empty() {
                *phase = Phase::Settling;
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
    use crate::rules::sample;

    #[test]
    fn repeats_are_no_losses() {
        let run = OpenRun { starts: 4, repeated: 1, tainted: 2, ..OpenRun::new(RunRole::Screen, 1) };
        assert_eq!(run.tries(), 1);
        let json = serde_json::to_value(&run).unwrap();
        assert_eq!(serde_json::from_value::<OpenRun>(json).unwrap(), run);
    }

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

    fn open(id: u32) -> OpenExperiment {
        OpenExperiment::new(id.into(), CommitId::new("a".repeat(40)), Timestamp::UNIX_EPOCH)
    }

    fn record(id: u32) -> Record {
        sample::record(json!({"id": id, "outcome": "keep", "value": "1.0"}))
    }

    #[test]
    fn rows_of_open_experiments_are_settled_and_those_of_a_train_by_one_attempt() {
        let mut journal = Journal::new(Path::new("/r"), Timestamp::UNIX_EPOCH);
        journal.enter(Phase::Running, open(2));
        journal.enter(Phase::Waiting, open(3));
        journal.enter(Phase::Recording, OpenExperiment { recording: vec![record(3), record(4)], ..open(5) });
        assert!(!journal.clone().place_rows(|_| None));
        let row_of = |id: ExperimentId| (id != 2.into()).then(|| u64::from(id.number()) * 10);
        assert!(journal.place_rows(row_of));
        let rows: Vec<(Phase, u64)> = journal.steps().map(|(phase, open)| (phase, open.rows_from)).collect();
        assert_eq!(rows, [(Phase::Running, 0), (Phase::Waiting, 0), (Phase::Recording, 30)]);
        let mut alone = Journal::new(Path::new("/r"), Timestamp::UNIX_EPOCH);
        alone.enter(Phase::Committing, open(3));
        assert!(alone.place_rows(row_of));
        assert_eq!((alone.phase(), alone.attempts[0].open.rows_from), (Phase::Settling, 30));
    }
}
