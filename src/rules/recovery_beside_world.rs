//! A world of plain values in which each durable write of a session with slots and seats is one step.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::domain::{Direction, ExperimentId, Number, Phase};
use crate::rules::{
    Afresh, Car, Found, LOST_RETRIES, Line, LineStep, Merged, RunFound, Standing, Step, Tested, Trial, recover,
};

const SLOTS: usize = 3;
const SEATS: usize = 2;

/// A change that no agent made: what a run sees in a tree that is deleted under it.
const RUBBLE: u32 = u32::MAX;

/// The changes in a tree, by their numbers.
type Tree = BTreeSet<u32>;

/// An attempt as the journal has it.
#[derive(Debug, Clone)]
struct Open {
    id: u32,
    phase: Phase,
    /// The number of its change: an attempt that is made again has another one.
    change: u32,
    base: u32,
    /// Its commit.
    tree: Option<Tree>,
    seat: Option<usize>,
    slot: Option<usize>,
    runs: u32,
    measured: bool,
    trial: Option<Trial>,
    recording: Vec<Record>,
    rows_from: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Record {
    id: u32,
    change: u32,
    tree: Tree,
    kept: bool,
    /// Whether its own tree is put on top of what was kept before.
    replaces: bool,
}

#[derive(Debug, Clone, Default)]
struct Journal {
    open: Vec<Open>,
    line: Line,
    given: u32,
}

#[derive(Debug, Clone, PartialEq)]
enum Run {
    Going(Tree),
    Over(Tree),
    Gone,
}

/// One durable write, or one thing that an agent does.
#[derive(Debug, Clone)]
enum Act {
    Propose(usize),
    Edit(usize),
    PutRef(u32),
    EnterReady(u32),
    CheckOut(u32),
    ClearRun(u32),
    EnterRunning(u32),
    StartRun(u32),
    EndJobs(u32),
    EnterWaiting(u32, f64),
    EndTrial(u32, Option<f64>),
    EnterRecording(u32, Vec<Record>),
    WriteRef(Record),
    WriteRow(Record, usize),
    MoveBranch,
    DropRef(u32),
    CloseAll(u32, Vec<Record>),
    Close(u32),
    AwaitCall(u32),
    CallAgain(u32, usize),
    SaveSeat(usize),
    ResetSeat(usize),
    Resume(u32),
    Recover(u32),
    DropLeftRefs,
}

/// What is in a seat's tree.
#[derive(Debug, Clone, Default)]
struct Seat {
    /// The change that an agent makes there, and whether it is whole.
    change: Option<(u32, bool)>,
    is_saved: bool,
}

/// A process, with the journal as it has it in memory.
#[derive(Debug, Clone)]
struct Process {
    journal: Journal,
    acts: VecDeque<Act>,
    /// The runs that it waits for, and whether it has looked at what an earlier process left of them.
    jobs: BTreeMap<u32, bool>,
}

#[path = "recovery_beside_acts.rs"]
mod acts;

/// The disk, and the active process.
#[derive(Debug, Clone)]
pub(super) struct World {
    journal: Journal,
    open_refs: BTreeMap<u32, Tree>,
    records: Vec<Record>,
    rows: Vec<u32>,
    branch: Tree,
    runs: BTreeMap<u32, Run>,
    slots: [Option<Tree>; SLOTS],
    seats: [Seat; SEATS],
    process: Option<Process>,
    /// What each change adds to the value of a tree; higher is better.
    gains: Vec<i8>,
    count: usize,
    changes: u32,
    /// The changes that the journal had as commits.
    committed: BTreeSet<u32>,
    /// The attempts for which an agent was called.
    called: BTreeSet<u32>,
}

impl World {
    /// A session of `count` experiments.
    pub(super) fn new(gains: Vec<i8>, count: usize) -> World {
        World {
            journal: Journal::default(),
            open_refs: BTreeMap::new(),
            records: vec![Record { id: 0, change: 0, tree: Tree::new(), kept: true, replaces: false }],
            rows: vec![0],
            branch: Tree::new(),
            runs: BTreeMap::new(),
            slots: [None, None, None],
            seats: [Seat::default(), Seat::default()],
            process: None,
            gains,
            count,
            changes: 0,
            committed: BTreeSet::new(),
            called: BTreeSet::new(),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        let is_idle = self.process.as_ref().is_some_and(|process| process.acts.is_empty() && process.jobs.is_empty());
        is_idle && self.records.len() > self.count && self.journal.open.is_empty()
    }

    /// Where the open experiments are by the journal, and whether the records of a train are there in part.
    pub(super) fn places(&self) -> (Vec<Phase>, bool) {
        let own = self.journal.open.iter().filter(|open| open.trial.is_none());
        let is_half = |open: &Open| {
            let is_there = |it: &&Record| self.records.iter().any(|known| known.id == it.id);
            let there = open.recording.iter().filter(is_there).count();
            there > 0 && there < open.recording.len()
        };
        (own.map(|open| open.phase).collect(), self.journal.open.iter().any(is_half))
    }

    fn value(&self, tree: &Tree) -> f64 {
        assert!(!tree.contains(&RUBBLE), "a run in a deleted tree is measured");
        tree.iter().map(|change| f64::from(self.gains[*change as usize % self.gains.len()])).sum()
    }

    fn tip(&self) -> &Record {
        self.records.iter().rev().find(|record| record.kept).unwrap_or(&self.records[0])
    }

    fn base_tree(&self, id: u32) -> Tree {
        self.records.iter().find(|record| record.id == id).map(|record| record.tree.clone()).unwrap_or_default()
    }

    fn on_line<T>(&self, journal: &mut Journal, act: impl FnOnce(&mut Line, &Standing) -> T) -> T {
        let running = journal.open.iter().filter(|open| !open.measured);
        let running: Vec<Trial> = running.filter_map(|open| open.trial.clone()).collect();
        let kept = self.records.iter().filter(|record| record.kept);
        let kept: Vec<ExperimentId> = kept.map(|record| record.id.into()).collect();
        let standing = Standing {
            incumbent: self.tip().id.into(),
            number: Some(&number(self.value(&self.tip().tree))),
            direction: Direction::Higher,
            min_delta: 0.0,
            kept: &kept,
            running: &running,
            slots: 3,
            may_ask: false,
        };
        act(&mut journal.line, &standing)
    }

    /// The process and its agents die; runs go on.
    pub(super) fn kill(&mut self) {
        self.process = None;
    }

    /// The run that `choice` picks ends.
    pub(super) fn end_run(&mut self, choice: usize, is_lost: bool) {
        let mut going: Vec<&mut Run> = self.runs.values_mut().filter(|run| matches!(run, Run::Going(_))).collect();
        let count = going.len().max(1);
        if let Some(run) = going.get_mut(choice % count)
            && let Run::Going(tree) = (*run).clone()
        {
            **run = if is_lost { Run::Gone } else { Run::Over(tree) };
        }
    }

    /// Somebody deletes the tree of a slot, and a run in it ends with whatever it sees.
    pub(super) fn delete_tree(&mut self, slot: usize) {
        self.slots[slot % SLOTS] = None;
        for open in self.journal.open.iter().filter(|open| open.slot == Some(slot % SLOTS)) {
            if let Some(run @ Run::Going(_)) = self.runs.get_mut(&open.id) {
                *run = Run::Over(Tree::from([RUBBLE]));
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

    /// What a new process does first: what the rules say of each attempt that was left open.
    fn begin(&self) -> Process {
        // What the line does not store is found out again.
        let stored = serde_json::to_string(&self.journal.line).unwrap();
        let journal = Journal { line: serde_json::from_str(&stored).unwrap(), ..self.journal.clone() };
        let mut process = Process { journal, acts: VecDeque::new(), jobs: BTreeMap::new() };
        process.acts.extend(self.journal.open.iter().map(|open| Act::Recover(open.id)));
        process.acts.extend([Act::DropLeftRefs, Act::MoveBranch]);
        process
    }

    /// What the rules say of an attempt that was left open.
    fn recover(&mut self, process: &mut Process, id: u32) {
        let Some(open) = process.find(id).cloned() else { return };
        let tree_is_gone = open.slot.is_some_and(|slot| self.slots[slot].is_none());
        let rest = std::mem::take(&mut process.acts);
        if matches!(open.phase, Phase::Running | Phase::Guarding) && !tree_is_gone {
            // Nobody deletes the tree between a look at it and this.
            self.act(process, Act::Resume(id));
            process.acts.extend(rest);
            return;
        }
        for step in recover(Found { tree_is_gone, ..found(&open, RunFound::Unstarted) }) {
            match step {
                Step::Reset => {
                    let seat = open.seat.unwrap_or(0);
                    process.acts.extend([Act::SaveSeat(seat), Act::ResetSeat(seat)]);
                }
                Step::EndJobs => process.acts.push_back(Act::EndJobs(id)),
                Step::ForgetRun => process.acts.push_back(Act::ClearRun(id)),
                Step::Finish => process.acts.push_back(Act::Resume(id)),
                Step::Record => finish_recording(process, &open),
                Step::Close => process.acts.extend([Act::DropRef(id), Act::Close(id)]),
                Step::AwaitCall => process.acts.push_back(Act::AwaitCall(id)),
                // That of a run is a part of resuming it.
                Step::AwaitSlot | Step::CheckOut | Step::BringBack => {}
                step => unreachable!("{step:?} of an attempt beside others"),
            }
        }
        process.acts.extend(rest);
    }

    /// One turn of the loop: the line of winners first, then one of what may come next.
    fn turn(&self, process: &mut Process, choice: usize) {
        let left = self.open_refs.keys().find(|id| process.find(**id).is_none());
        assert_eq!(left, None, "a ref without an attempt");
        let trials = loop {
            match self.on_line(&mut process.journal, Line::next) {
                LineStep::Merge { onto, car } => process.journal.line.merged(&onto, car, Merged::Clean),
                LineStep::Try(trials) => break trials,
                LineStep::Keep { cars, .. } => return self.keep(process, &cars),
                LineStep::Discard { car, .. } => return record_own(process, car.number(), false),
                // The run of its train was lost each time.
                LineStep::Replace { car, .. } => return record_own(process, car.number(), true),
                step => unreachable!("{step:?} where nothing conflicts"),
            }
        };
        let is_in_line = |id: &ExperimentId| process.journal.line.cars().any(|car| car.id == *id);
        let may_hold = |open: &Open, trial: &Trial| match trial {
            Trial::Train { on, cars } => on.number() == self.tip().id && cars.iter().all(is_in_line) && open.measured,
            _ => false,
        };
        let is_wanted =
            |open: &Open| open.trial.as_ref().is_none_or(|trial| trials.contains(trial) || may_hold(open, trial));
        if let Some(id) = process.journal.open.iter().find(|open| !is_wanted(open)).map(|open| open.id) {
            // Nobody waits for it any more.
            process.jobs.remove(&id);
            return process.acts.extend([Act::EndJobs(id), Act::DropRef(id), Act::Close(id)]);
        }
        let is_busy = |slot: usize| {
            let is_in = |open: &&Open| open.slot == Some(slot) && process.jobs.contains_key(&open.id);
            process.journal.open.iter().find(is_in).is_some()
        };
        let free = (0..SLOTS).find(|slot| !is_busy(*slot));
        let has = |trial: &Trial| process.journal.open.iter().any(|open| open.trial.as_ref() == Some(trial));
        if let (Some(slot), Some(trial)) = (free, trials.iter().find(|trial| !has(trial))) {
            return self.open_trial(process, slot, trial);
        }
        let mut ways: Vec<Vec<Act>> = Vec::new();
        ways.extend(process.jobs.iter().filter_map(|(id, is_looked_at)| self.job(process, *id, *is_looked_at)));
        let (tip, mut ready) = (self.tip(), process.journal.open.iter_mut());
        if let Some(slot) = free
            && let Some(open) = ready.find(|open| open.phase == Phase::Committing && open.trial.is_none())
        {
            open.slot = Some(slot);
            let mut acts = Vec::new();
            if open.base != tip.id {
                // Merged onto the incumbent before its run.
                (open.base, open.tree) = (tip.id, Some(&tip.tree | &Tree::from([open.change])));
                acts.extend([Act::PutRef(open.id), Act::EnterReady(open.id)]);
            }
            acts.extend(start(open.id));
            ways.push(acts);
        }
        let proposed = process.journal.open.iter().filter(|open| open.trial.is_none()).count();
        let mut left = process.journal.open.iter().filter(|open| open.phase == Phase::Proposing && open.seat.is_none());
        let left = left.next().map(|open| open.id);
        for (seat, it) in self.seats.iter().enumerate() {
            let at_work = process.journal.open.iter().find(|open| open.seat == Some(seat));
            match (at_work, it.change) {
                (Some(open), Some((_, true))) => ways.push(vec![Act::PutRef(open.id), Act::EnterReady(open.id)]),
                (Some(_), _) => ways.push(vec![Act::Edit(seat)]),
                (None, _) if left.is_some() => ways.extend(left.map(|id| vec![Act::CallAgain(id, seat)])),
                (None, _) if self.records.len() + proposed <= self.count => ways.push(vec![Act::Propose(seat)]),
                (None, _) => {}
            }
        }
        if !ways.is_empty() {
            process.acts.extend(ways.swap_remove(choice % ways.len()));
        }
    }

    /// What the loop does about a run, if there is anything.
    fn job(&self, process: &Process, id: u32, is_looked_at: bool) -> Option<Vec<Act>> {
        let open = process.journal.open.iter().find(|open| open.id == id)?;
        let run = self.runs.get(&id);
        if !is_looked_at {
            let run = match run {
                None => RunFound::Unstarted,
                Some(Run::Going(_)) => RunFound::Going,
                Some(Run::Over(_)) => RunFound::Over,
                Some(Run::Gone) => RunFound::Gone,
            };
            let steps = recover(Found { has_draft: false, ..found(open, run) });
            return Some(steps.into_iter().flat_map(|step| self.acts(open, step)).collect());
        }
        let has_tree = open.slot.is_some_and(|slot| self.slots[slot].is_some());
        match run {
            Some(Run::Over(tree)) if has_tree => Some(self.measured(open, Some(self.value(tree)))),
            // Its tree is made again, and then nothing tells that it was missing.
            Some(Run::Over(_)) => Some([&[Act::ClearRun(id)], &start(id)[..]].concat()),
            Some(Run::Gone) if open.runs <= LOST_RETRIES => Some(start(id).to_vec()),
            Some(Run::Gone) => Some(self.measured(open, None)),
            None | Some(Run::Going(_)) => None,
        }
    }

    fn acts(&self, open: &Open, step: Step) -> Vec<Act> {
        match step {
            Step::EndJobs => vec![Act::EndJobs(open.id)],
            Step::CheckOut => vec![Act::CheckOut(open.id)],
            Step::Run => vec![Act::ClearRun(open.id), Act::EnterRunning(open.id)],
            Step::Finish => vec![Act::StartRun(open.id)],
            Step::RecordLost => self.measured(open, None),
            step => unreachable!("{step:?} of a run in a slot"),
        }
    }

    /// What follows from the value of a run.
    fn measured(&self, open: &Open, value: Option<f64>) -> Vec<Act> {
        match value {
            _ if open.trial.is_some() => vec![Act::EndTrial(open.id, value)],
            Some(value) if value > self.value(&self.base_tree(open.base)) => vec![Act::EnterWaiting(open.id, value)],
            _ => vec![Act::EnterRecording(open.id, vec![not_kept(open)])],
        }
    }

    fn open_trial(&self, process: &mut Process, slot: usize, trial: &Trial) {
        let riding: Vec<&Open> = trial.cars().iter().filter_map(|id| process.find(id.number())).collect();
        let tree = match trial {
            Trial::Train { .. } => &self.tip().tree | &riding.iter().map(|car| car.change).collect(),
            Trial::Afresh(_) => riding.iter().find_map(|car| car.tree.clone()).unwrap_or_default(),
        };
        let open = Open { slot: Some(slot), tree: Some(tree), trial: Some(trial.clone()), ..self.new_open(process) };
        let id = open.id;
        process.journal.open.push(open);
        process.acts.extend([Act::PutRef(id), Act::EnterReady(id)]);
        self.on_line(&mut process.journal, |line, on| line.started(on, trial));
        process.acts.extend(start(id));
    }

    fn new_open(&self, process: &Process) -> Open {
        let recorded = self.records.iter().map(|record| record.id);
        let known = recorded.chain(process.journal.open.iter().map(|open| open.id));
        Open {
            id: known.chain([process.journal.given]).max().unwrap_or(0) + 1,
            phase: Phase::Idle,
            change: 0,
            base: self.tip().id,
            tree: None,
            seat: None,
            slot: None,
            runs: 0,
            measured: false,
            trial: None,
            recording: Vec::new(),
            rows_from: 0,
        }
    }

    /// What must hold at each moment at which it may be killed.
    fn check_always(&self) {
        for open in self.journal.open.iter().filter(|open| open.trial.is_none() && open.tree.is_some()) {
            let is_kept = self.open_refs.contains_key(&open.id) || self.records.iter().any(|it| it.id == open.id);
            assert!(is_kept, "git may prune the commit of {open:?}");
        }
        let recorded = self.records.iter().map(|record| record.id);
        assert!(recorded.take(self.rows.len()).eq(self.rows.iter().copied()), "{:?}: {:?}", self.rows, self.records);
    }

    /// What must hold at the end.
    pub(super) fn check(&self) {
        let ids: Vec<u32> = self.records.iter().map(|record| record.id).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "recorded twice: {ids:?}");
        assert_eq!(self.rows, ids, "one row for each record, in their order");
        let changes: BTreeSet<u32> = self.records[1..].iter().map(|record| record.change).collect();
        assert_eq!(changes, self.committed, "each change that had a commit has one record");
        let lost = self.called.iter().find(|id| !ids.contains(id));
        assert_eq!(lost, None, "a call that was cut off is made again under the same number");
        let mut tip = Tree::new();
        for record in self.records.iter().filter(|record| record.kept) {
            let is_on_top = record.replaces || record.tree.is_superset(&tip);
            assert!(is_on_top, "what is kept is a chain: {:?}", self.records);
            tip.clone_from(&record.tree);
        }
        assert_eq!(self.branch, tip, "the branch is at the last one that was kept");
        assert!(self.open_refs.is_empty(), "refs without attempts: {:?}", self.open_refs);
    }
}

impl Process {
    fn find(&self, id: u32) -> Option<&Open> {
        self.journal.open.iter().find(|open| open.id == id)
    }

    #[track_caller]
    fn get(&mut self, id: u32) -> &mut Open {
        self.journal.open.iter_mut().find(|open| open.id == id).expect("an open attempt")
    }
}

fn not_kept(open: &Open) -> Record {
    let tree = open.tree.clone().unwrap_or_default();
    Record { id: open.id, change: open.change, tree, kept: false, replaces: false }
}

/// Records a winner with its own tree.
fn record_own(process: &mut Process, id: u32, replaces: bool) {
    let record = process.find(id).map(|open| Record { kept: replaces, replaces, ..not_kept(open) });
    process.acts.push_back(Act::EnterRecording(id, record.into_iter().collect()));
}

/// Refs, rows, branch and refs of open attempts, in this order.
fn finish_recording(process: &mut Process, open: &Open) {
    let records = &open.recording;
    process.acts.extend(records.iter().cloned().map(Act::WriteRef));
    process.acts.extend(records.iter().cloned().map(|record| Act::WriteRow(record, open.rows_from)));
    process.acts.push_back(Act::MoveBranch);
    process.acts.extend(records.iter().map(|record| record.id).chain([open.id]).map(Act::DropRef));
    process.acts.push_back(Act::CloseAll(open.id, records.clone()));
}

/// From a commit that waits for its slot to its run.
fn start(id: u32) -> [Act; 4] {
    [Act::CheckOut(id), Act::ClearRun(id), Act::EnterRunning(id), Act::StartRun(id)]
}

fn number(value: f64) -> Number {
    Number { value, raw: value.to_string() }
}

/// What is found of an attempt whose run is like this.
fn found(open: &Open, run: RunFound) -> Found {
    Found {
        phase: open.phase,
        is_trial: open.trial.is_some(),
        // What is being recorded is noted with that.
        has_draft: open.measured || open.phase == Phase::Recording,
        recorded: false,
        run,
        runs: open.runs,
        tree_is_gone: false,
    }
}
