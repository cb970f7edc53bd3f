//! A world of plain values in which each durable write of a session is one step. *In place* is one place of it, whose slot and
//! seat exclude each other in the user's tree.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::LOST_RETRIES;
use crate::domain::{Phase, TreeOwner};
use crate::rules::decide::{Line, REWORKS, Trial};

const SLOTS: usize = 3;
const SEATS: usize = 2;

/// A change that no agent made: the user's, and what a run sees in a tree that is deleted under it.
const USERS: u32 = u32::MAX - 1;
const RUBBLE: u32 = u32::MAX;

/// The changes in a commit, by their numbers.
type Tree = BTreeSet<u32>;

/// An attempt and its change.
type Version = (u32, u32);

/// The files of a working tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Files {
    tree: Tree,
    /// True for those of a commit with half a change.
    is_half: bool,
}

impl Files {
    fn of(tree: Tree) -> Files {
        Files { tree, is_half: false }
    }
}

/// An attempt as the journal has it.
#[derive(Debug, Clone)]
struct Open {
    id: u32,
    phase: Phase,
    /// The number of its change: each call makes another one.
    change: u32,
    /// The changes that were measured before it was reworked.
    versions: Vec<u32>,
    base: u32,
    /// Its commit.
    tree: Option<Tree>,
    seat: Option<usize>,
    slot: Option<usize>,
    runs: u32,
    draft: Option<Draft>,
    trial: Option<Trial>,
    recording: Vec<Record>,
    rows_from: usize,
}

/// The last measurement.
#[derive(Debug, Clone)]
struct Draft {
    change: u32,
    base: u32,
    tree: Tree,
    /// The value; absent if its run was lost.
    value: Option<f64>,
    /// The verdict of its guard, once finished.
    passed: Option<bool>,
}

#[derive(Debug, Clone)]
struct Record {
    id: u32,
    versions: Vec<u32>,
    runs: u32,
    draft: Draft,
    tree: Tree,
    kept: bool,
    /// True if its own tree is put on top of what was kept before.
    replaces: bool,
}

#[derive(Debug, Clone, Default)]
struct Journal {
    open: Vec<Open>,
    line: Line,
    given: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Job {
    Run,
    Guard,
}

#[derive(Debug, Clone, PartialEq)]
enum Ran {
    Going(Tree),
    Over(Tree),
    /// The user stopped it.
    Stopped,
    Gone,
}

/// A process, with the journal as it has it in memory.
#[derive(Debug, Clone)]
struct Process {
    journal: Journal,
    acts: VecDeque<acts::Act>,
    /// The attempts whose jobs it waits for, and whether it has looked at what an earlier process left of them.
    jobs: BTreeMap<u32, bool>,
}

#[path = "recovery_acts.rs"]
mod acts;

#[path = "recovery_loop_world.rs"]
mod turns;

/// The disk, and the active process.
#[derive(Debug, Clone)]
pub(super) struct World {
    owner: TreeOwner,
    journal: Journal,
    commits: BTreeSet<Tree>,
    open_refs: BTreeMap<u32, Tree>,
    saved: BTreeSet<Files>,
    records: Vec<Record>,
    rows: Vec<u32>,
    branch: Tree,
    jobs: BTreeMap<(u32, Job), Ran>,
    /// The working trees: of slots, then of seats; *in place* the one that both have.
    places: Vec<Option<Files>>,
    process: Option<Process>,
    /// The value that each change adds to a tree; higher is better.
    gains: Vec<i8>,
    /// The number of versions of each experiment that its guard refuses.
    refused: Vec<usize>,
    count: usize,
    changes: u32,
    /// The changes that the journal had as commits.
    committed: BTreeSet<u32>,
    /// The attempts for which an agent was called.
    called: BTreeSet<u32>,
    /// Those that the user stopped.
    stopped: BTreeSet<u32>,
    /// The starts of each version's run, and the versions whose run finished.
    starts: BTreeMap<Version, u32>,
    finished: BTreeSet<Version>,
}

impl World {
    /// A session of `count` experiments.
    pub(super) fn new(owner: TreeOwner, gains: Vec<i8>, refused: Vec<usize>, count: usize) -> World {
        let draft = Draft { change: 0, base: 0, tree: Tree::new(), value: Some(0.0), passed: None };
        let tree = Tree::new();
        let baseline = Record { id: 0, versions: vec![], runs: 1, draft, tree, kept: true, replaces: false };
        World {
            owner,
            journal: Journal::default(),
            commits: BTreeSet::from([Tree::new()]),
            open_refs: BTreeMap::new(),
            saved: BTreeSet::new(),
            records: vec![baseline],
            rows: vec![0],
            branch: Tree::new(),
            jobs: BTreeMap::new(),
            places: if owner.has_user() { vec![Some(Files::of(Tree::new()))] } else { vec![None; SLOTS + SEATS] },
            process: None,
            gains,
            refused,
            count,
            changes: 0,
            committed: BTreeSet::new(),
            called: BTreeSet::new(),
            stopped: BTreeSet::new(),
            starts: BTreeMap::new(),
            finished: BTreeSet::new(),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        let is_idle = self.process.as_ref().is_some_and(|process| process.acts.is_empty() && process.jobs.is_empty());
        is_idle && self.records.len() > self.count && self.journal.open.is_empty()
    }

    /// Returns the steps of the open experiments, whether one is being reworked, and whether the records of a train are there
    /// in part.
    pub(super) fn sights(&self) -> (Vec<Phase>, bool, bool) {
        let open = &self.journal.open;
        let is_half = |open: &Open| {
            let there = open.recording.iter().filter(|record| self.is_recorded(record.id)).count();
            there > 0 && there < open.recording.len()
        };
        let own = open.iter().filter(|open| open.trial.is_none());
        let is_reworked = open.iter().any(|open| !open.versions.is_empty() && open.seat.is_some());
        (own.map(|open| open.phase).collect(), is_reworked, open.iter().any(is_half))
    }

    fn is_recorded(&self, id: u32) -> bool {
        self.records.iter().any(|record| record.id == id)
    }

    /// The working tree of a seat.
    fn place_of_seat(&self, seat: usize) -> usize {
        if self.owner.has_user() { 0 } else { SLOTS + seat }
    }

    fn value(&self, tree: &Tree) -> f64 {
        assert!(!tree.contains(&RUBBLE), "a run in a deleted tree is measured");
        tree.iter().map(|change| f64::from(self.gains[*change as usize % self.gains.len()])).sum()
    }

    /// Returns true if the guard accepts an experiment of so many earlier versions.
    fn accepts(&self, id: u32, versions: usize) -> bool {
        versions >= self.refused[id as usize % self.refused.len()]
    }

    fn tip(&self) -> &Record {
        self.records.iter().rev().find(|record| record.kept).unwrap_or(&self.records[0])
    }

    fn base_tree(&self, id: u32) -> Tree {
        self.records.iter().find(|record| record.id == id).map(|record| record.tree.clone()).unwrap_or_default()
    }

    /// The commit at which an agent begins: a version that is reworked, or else the base.
    fn begins_at(&self, open: &Open) -> Tree {
        open.draft.as_ref().map_or_else(|| self.base_tree(open.base), |draft| draft.tree.clone())
    }

    /// The process and its agents die; jobs go on.
    pub(super) fn kill(&mut self) {
        self.process = None;
    }

    fn going(&self, choice: usize) -> Option<(u32, Job)> {
        let going: Vec<_> = self.jobs.iter().filter(|(_, ran)| matches!(ran, Ran::Going(_))).collect();
        going.get(choice % going.len().max(1)).map(|(job, _)| **job)
    }

    /// The job that `choice` picks ends.
    pub(super) fn end_job(&mut self, choice: usize, is_lost: bool) {
        let Some((id, job)) = self.going(choice) else { return };
        let version = self.journal.open.iter().find(|open| open.id == id).map(Open::version);
        if let Some(ran) = self.jobs.get_mut(&(id, job))
            && let Ran::Going(tree) = ran.clone()
        {
            *ran = if is_lost { Ran::Gone } else { Ran::Over(tree) };
            self.finished.extend(version.filter(|_| !is_lost && job == Job::Run));
        }
    }

    /// The user stops an experiment for whose job the process waits.
    pub(super) fn stop_job(&mut self, choice: usize) {
        let Some((id, job)) = self.going(choice) else { return };
        let Some(mut process) = self.process.take() else { return };
        let awaited = process.acts.is_empty() && process.jobs.get(&id) == Some(&true);
        if let Some(open) = process.find(id).filter(|open| awaited && open.trial.is_none()).cloned() {
            self.jobs.insert((id, job), if job == Job::Run { Ran::Stopped } else { Ran::Gone });
            self.stopped.insert(id);
            process.jobs.remove(&id);
            process.acts.extend(self.stop(&open, job));
        }
        self.process = Some(process);
    }

    /// The user changes a file *in place* while an experiment with a commit is open and no process is active.
    pub(super) fn lay_hands(&mut self) {
        let has_commit = self.journal.open.iter().any(|open| open.tree.is_some());
        if self.owner.has_user() && self.process.is_none() && has_commit {
            let files = self.places[0].get_or_insert(Files::of(Tree::new()));
            files.tree.insert(USERS);
            files.is_half = true;
        }
    }

    /// The process that was killed was an earlier version of `ar`, which entered a step of its own once a record was there.
    pub(super) fn enter_settling(&mut self) {
        let is_settled =
            |open: &&mut Open| open.phase == Phase::Recording && self.records.iter().any(|it| it.id == open.id);
        if self.process.is_none()
            && let Some(open) = self.journal.open.iter_mut().find(is_settled)
        {
            open.phase = Phase::Settling;
        }
    }

    /// Somebody deletes the tree of a slot of `ar`'s own, and a job in it ends with whatever it sees.
    pub(super) fn delete_tree(&mut self, slot: usize) {
        if self.owner.has_user() {
            return;
        }
        self.places[slot % SLOTS] = None;
        let there: Vec<u32> =
            self.journal.open.iter().filter(|open| open.slot == Some(slot % SLOTS)).map(|open| open.id).collect();
        for ((id, _), ran) in &mut self.jobs {
            if there.contains(id) && matches!(ran, Ran::Going(_)) {
                *ran = Ran::Over(Tree::from([RUBBLE]));
            }
        }
    }

    /// The next write, if any is possible; starts a killed process again. `choice` picks among what may come next.
    pub(super) fn step(&mut self, choice: usize) {
        let mut process = self.process.take().unwrap_or_else(|| self.begin());
        if process.acts.is_empty() {
            self.turn(&mut process, choice);
        }
        if let Some(act) = process.acts.pop_front() {
            self.act(&mut process, act);
        }
        self.process = Some(process);
        self.check_always();
    }

    /// Checks each moment at which it may be killed.
    fn check_always(&self) {
        for open in self.journal.open.iter().filter(|open| open.trial.is_none()) {
            let Some(tree) = &open.tree else { continue };
            // *In place* the branch holds it, and before that the user's tree.
            let is_there = |files: &Files| files.tree.is_superset(tree);
            let is_in_place =
                self.owner.has_user() && (self.branch == *tree || self.places[0].as_ref().is_some_and(is_there));
            let is_kept = self.open_refs.contains_key(&open.id) || self.is_recorded(open.id) || is_in_place;
            assert!(is_kept || self.saved.contains(&Files::of(tree.clone())), "git may prune the commit of {open:?}");
        }
        assert!(self.starts.values().all(|starts| *starts <= 1 + LOST_RETRIES), "started too often: {:?}", self.starts);
        assert!(!self.owner.has_user() || self.journal.open.len() <= 1, "several are open in place");
        let recorded = self.records.iter().map(|record| record.id);
        assert!(recorded.take(self.rows.len()).eq(self.rows.iter().copied()), "{:?}: {:?}", self.rows, self.records);
    }

    /// Checks the end.
    pub(super) fn check(&self) {
        let ids: Vec<u32> = self.records.iter().map(|record| record.id).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "recorded twice: {ids:?}");
        assert!(!self.owner.has_user() || ids.iter().copied().eq(0..=self.count as u32), "gaps in place: {ids:?}");
        assert_eq!(self.rows, ids, "one row for each record, in their order");
        let of_record =
            |record: &Record| record.versions.iter().copied().chain([record.draft.change]).collect::<Vec<_>>();
        let changes: Vec<u32> = self.records[1..].iter().flat_map(of_record).collect();
        let is_saved = |change: &u32| self.saved.iter().any(|files| files.tree.contains(change));
        let lost = self.committed.iter().find(|change| !changes.contains(change) && !is_saved(change));
        assert_eq!(lost, None, "each change that had a commit has one record, or is saved");
        assert!(changes.iter().all(|change| self.committed.contains(change)), "a change without a commit is recorded");
        assert_eq!(changes.iter().collect::<BTreeSet<_>>().len(), changes.len(), "a change is recorded twice");
        let lost = self.called.iter().find(|id| !ids.contains(id) && !self.stopped.contains(id));
        assert_eq!(lost, None, "a call that was cut off is made again under the same number");
        let mut tip = &self.records[0];
        for record in &self.records[1..] {
            self.check_record(record, tip);
            tip = if record.kept { record } else { tip };
        }
        assert_eq!(self.branch, tip.tree, "the branch is at the last one that was kept");
        let files = Some(Files::of(tip.tree.clone()));
        assert!(!self.owner.has_user() || self.places[0] == files, "the user's tree is at the last one that was kept");
        assert!(self.open_refs.is_empty(), "refs without attempts: {:?}", self.open_refs);
    }

    fn check_record(&self, record: &Record, tip: &Record) {
        let Record { id, versions, runs, draft, .. } = record;
        assert!(draft.value.is_some() || *runs > LOST_RETRIES, "given up after {runs} starts");
        let is_better = draft.value.is_some_and(|value| value > self.value(&self.base_tree(draft.base)));
        if is_better && !self.stopped.contains(id) {
            assert_eq!(draft.passed, Some(self.accepts(*id, versions.len())), "not guarded");
            assert!(draft.passed == Some(true) || versions.len() as u32 == REWORKS, "given up: {record:?}");
        }
        for version in versions {
            assert!(self.saved.iter().any(|files| files.tree.contains(version)), "a version is lost: {record:?}");
        }
        let is_good = is_better && draft.passed == Some(true);
        assert!(is_good || !record.kept, "kept: {record:?}");
        assert!(!record.kept || record.replaces || record.tree.is_superset(&tip.tree), "what is kept is a chain");
        if self.owner.has_user() {
            assert_eq!(draft.base, tip.id, "not on the last one kept: {record:?}");
            assert_eq!((record.kept, &record.tree), (is_good, &draft.tree), "not as it was measured");
        }
    }
}

impl Process {
    fn find(&self, id: u32) -> Option<&Open> {
        self.journal.open.iter().find(|open| open.id == id)
    }

    #[track_caller]
    fn get(&self, id: u32) -> Open {
        self.find(id).cloned().expect("an open attempt")
    }
}

impl Open {
    /// The job that it has in its step.
    fn job(&self) -> (u32, Job) {
        (self.id, if self.phase == Phase::Guarding { Job::Guard } else { Job::Run })
    }

    fn version(&self) -> Version {
        (self.id, self.change)
    }

    #[track_caller]
    fn commit(&self) -> Tree {
        self.tree.clone().expect("a commit")
    }

    /// Returns the measurement by its run.
    fn measured(&self, value: Option<f64>) -> Draft {
        Draft { change: self.change, base: self.base, tree: self.commit(), value, passed: None }
    }

    /// Its record as it was measured last, which is kept or not.
    fn record(&self, kept: bool) -> Record {
        let draft = self.draft.clone().expect("something to record");
        let versions = self.versions.iter().copied().filter(|version| *version != draft.change).collect();
        Record { id: self.id, versions, runs: self.runs, tree: draft.tree.clone(), draft, kept, replaces: false }
    }
}
