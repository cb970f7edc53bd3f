//! Steps, kills and recoveries in any order, over a world of plain values in which each durable write is one step.

use std::collections::{BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;

/// How many experiments a session makes after its baseline, which is experiment 0.
const EXPERIMENTS: u32 = 4;

/// Stands for a person in place of an agent.
const PERSON: u32 = 99;

/// What is in the working tree. A commit has the number of its experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tree {
    /// What the commit of this experiment holds.
    Of(u32),
    /// A change that the agent of this experiment has not finished, or that a person made.
    Half(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Open {
    id: u32,
    base: u32,
    committed: bool,
    runs: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    Unstarted,
    Going(Tree),
    Over(Tree),
    /// It was ended because a person asked for it.
    Stopped,
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Recorded {
    open: Open,
    /// What its run measured; nothing when it is recorded as lost.
    measured: Option<Tree>,
    kept: bool,
}

/// One durable write, or one look at what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Propose,
    EditHalf,
    EditAll,
    EnterCommitting,
    Commit,
    NoteCommit,
    AdvanceBranch,
    LeaveRunning,
    ClearRun,
    EnterRunning,
    StartRun,
    Await,
    EnterRecording(Option<Tree>),
    Record(Option<Tree>),
    EnterSettling,
    AppendRow,
    MoveBranchToOutcome,
    PutBackToOutcome,
    SaveChange,
    PutBackToBase,
    MoveBranchToBase,
    PutBackToCommit,
    Close,
}

/// What is on disk, and the process that is at work on it.
struct World {
    phase: Phase,
    open: Option<Open>,
    records: Vec<Recorded>,
    rows: Vec<u32>,
    rows_from: usize,
    branch: u32,
    tree: Tree,
    commits: BTreeSet<u32>,
    saved: BTreeSet<Tree>,
    run: Run,
    keeps: Vec<bool>,
    /// Starts of the open experiment's run, and whether one of them came to its end.
    starts: u32,
    was_over: bool,
    /// What the process is about to do; nothing when there is none.
    process: Option<VecDeque<Act>>,
}

use Act::*;

const SETTLE: [Act; 5] = [EnterSettling, AppendRow, MoveBranchToOutcome, SaveChange, PutBackToOutcome];
const ROLL_BACK: [Act; 4] = [MoveBranchToBase, SaveChange, PutBackToBase, Close];
const RETRY: [Act; 8] =
    [SaveChange, AdvanceBranch, PutBackToCommit, LeaveRunning, ClearRun, EnterRunning, StartRun, Await];

impl World {
    fn new(keeps: Vec<bool>) -> World {
        let open = Open { id: 0, base: 0, committed: true, runs: 1 };
        World {
            phase: Phase::Idle,
            open: None,
            records: vec![Recorded { open, measured: Some(Tree::Of(0)), kept: true }],
            rows: vec![0],
            rows_from: 0,
            branch: 0,
            tree: Tree::Of(0),
            commits: BTreeSet::from([0]),
            saved: BTreeSet::new(),
            run: Run::Unstarted,
            keeps,
            starts: 0,
            was_over: false,
            process: None,
        }
    }

    fn is_done(&self) -> bool {
        self.records.len() > EXPERIMENTS as usize && self.open.is_none()
    }

    fn recorded(&self, id: u32) -> Option<&Recorded> {
        self.records.iter().find(|record| record.open.id == id)
    }

    fn tip(&self) -> u32 {
        self.records.iter().rev().find(|record| record.kept).map_or(0, |record| record.open.id)
    }

    /// The process dies, and with it the agent; a run goes on.
    fn kill(&mut self) {
        self.process = None;
    }

    fn end_run(&mut self) {
        if let Run::Going(tree) = self.run {
            (self.run, self.was_over) = (Run::Over(tree), true);
        }
    }

    /// A person stops the run that the process waits for.
    fn stop_run(&mut self) {
        if let (Run::Going(_), Some(process)) = (self.run, &mut self.process)
            && process.front() == Some(&Await)
        {
            self.run = Run::Stopped;
            *process = ROLL_BACK.into();
        }
    }

    /// A person changes a file while nobody is at work on an experiment that has its commit.
    fn lay_hands(&mut self) {
        if self.process.is_none() && self.open.is_some_and(|open| open.committed) {
            self.tree = Tree::Half(PERSON);
        }
    }

    fn lose_run(&mut self) {
        if let Run::Going(_) = self.run {
            self.run = Run::Gone;
        }
    }

    /// What a new process is going to do about what is open.
    fn plan(&self) -> VecDeque<Act> {
        let Some(open) = self.open else { return VecDeque::new() };
        let run = match self.run {
            Run::Unstarted => RunFound::Unstarted,
            Run::Going(_) => RunFound::Going,
            Run::Over(_) | Run::Stopped => RunFound::Over,
            Run::Gone => RunFound::Gone,
        };
        let found = Found {
            phase: self.phase,
            has_commit: open.committed,
            recorded: self.recorded(open.id).is_some(),
            run,
            runs: open.runs,
        };
        recover(found).into_iter().flat_map(acts).collect()
    }

    /// The next write, if anything can be done now; a killed process is started again for it.
    fn step(&mut self) {
        let mut process = match self.process.take() {
            Some(process) => process,
            None => self.plan(),
        };
        if process.is_empty() && self.open.is_none() && !self.is_done() {
            process.extend([Propose, EditHalf, EditAll, EnterCommitting]);
            process.extend(acts(Step::Commit));
            process.extend(acts(Step::Run));
            process.extend(acts(Step::Finish));
        }
        if let Some(act) = process.pop_front() {
            self.act(act, &mut process);
        }
        self.process = Some(process);
    }

    fn act(&mut self, act: Act, process: &mut VecDeque<Act>) {
        if act == Propose {
            let open = Open { id: self.records.len() as u32, base: self.tip(), committed: false, runs: 0 };
            (self.phase, self.open) = (Phase::Proposing, Some(open));
            (self.starts, self.was_over, self.run) = (0, false, Run::Unstarted);
            return;
        }
        let Some(mut open) = self.open else { panic!("{act:?} without an open experiment") };
        match act {
            Propose => {}
            EditHalf => {
                assert_eq!(self.tree, Tree::Of(open.base), "the agent does not begin at the base");
                self.tree = Tree::Half(open.id);
            }
            EditAll => self.tree = Tree::Of(open.id),
            EnterCommitting => self.phase = Phase::Committing,
            Commit => {
                assert_eq!(self.tree, Tree::Of(open.id), "half a change is committed");
                self.commits.insert(open.id);
            }
            NoteCommit => open.committed = true,
            AdvanceBranch => self.branch = open.id,
            LeaveRunning => {
                if self.phase == Phase::Running {
                    self.phase = Phase::Committing;
                }
            }
            ClearRun => self.run = Run::Unstarted,
            EnterRunning => {
                self.phase = Phase::Running;
                open.runs += 1;
            }
            StartRun => {
                if matches!(self.run, Run::Unstarted | Run::Gone) {
                    assert!(!self.was_over, "a run that was over is started again");
                    assert_eq!((self.branch, self.tree), (open.id, Tree::Of(open.id)), "another commit is run");
                    self.run = Run::Going(self.tree);
                    self.starts += 1;
                }
            }
            Await => match self.run {
                Run::Over(tree) => process.extend(finish(Some(tree))),
                Run::Gone | Run::Stopped if open.runs <= LOST_RETRIES => process.extend(RETRY),
                Run::Gone | Run::Stopped => process.extend(finish(None)),
                Run::Going(_) | Run::Unstarted => process.push_front(Await),
            },
            EnterRecording(_) => self.phase = Phase::Recording,
            Record(measured) => {
                assert!(self.recorded(open.id).is_none(), "recorded twice");
                let kept = measured.is_some() && self.keeps[open.id as usize];
                self.records.push(Recorded { open, measured, kept });
            }
            EnterSettling => {
                if self.phase != Phase::Settling || !self.rows[self.rows_from..].contains(&open.id) {
                    (self.phase, self.rows_from) = (Phase::Settling, self.rows.len());
                }
            }
            AppendRow => {
                if !self.rows[self.rows_from..].contains(&open.id) {
                    self.rows.push(open.id);
                }
            }
            MoveBranchToOutcome => self.branch = self.tip(),
            PutBackToOutcome => self.put_back(self.tip()),
            SaveChange => {
                self.saved.insert(self.tree);
            }
            PutBackToBase => self.put_back(open.base),
            MoveBranchToBase => self.branch = open.base,
            PutBackToCommit => self.put_back(open.id),
            Close => {
                (self.phase, self.open) = (Phase::Idle, None);
                return;
            }
        }
        self.open = Some(open);
    }

    fn put_back(&mut self, commit: u32) {
        let is_kept = match self.tree {
            Tree::Of(id) => self.commits.contains(&id),
            Tree::Half(_) => false,
        };
        assert!(is_kept || self.saved.contains(&self.tree), "{:?} is lost", self.tree);
        self.tree = Tree::Of(commit);
    }

    fn check(&self) {
        let ids: Vec<u32> = (0..=EXPERIMENTS).collect();
        assert_eq!(self.records.iter().map(|record| record.open.id).collect::<Vec<_>>(), ids);
        assert_eq!(self.rows, ids);
        let mut tip = 0;
        for Recorded { open, measured, kept } in &self.records[1..] {
            assert_eq!(open.base, tip, "experiment {} is not on the last one kept", open.id);
            assert!(measured.is_none_or(|tree| tree == Tree::Of(open.id)), "another change was measured: {measured:?}");
            assert!(measured.is_some() || open.runs > LOST_RETRIES, "given up after {} starts", open.runs);
            assert_eq!(*kept, measured.is_some() && self.keeps[open.id as usize]);
            tip = if *kept { open.id } else { tip };
        }
        assert_eq!((self.branch, self.tree), (tip, Tree::Of(tip)));
    }
}

/// What a step does, write by write.
fn acts(step: Step) -> Vec<Act> {
    match step {
        Step::EndJobs => vec![],
        Step::Reset => vec![SaveChange, PutBackToBase, MoveBranchToBase],
        Step::Commit => vec![Commit, NoteCommit, AdvanceBranch],
        Step::CheckOut => vec![SaveChange, AdvanceBranch, PutBackToCommit],
        Step::Run => vec![LeaveRunning, ClearRun, EnterRunning],
        Step::Finish => vec![StartRun, Await],
        Step::RecordLost => finish(None),
        Step::Settle => SETTLE.to_vec(),
        Step::Close => vec![Close],
    }
}

fn finish(measured: Option<Tree>) -> Vec<Act> {
    [&[EnterRecording(measured), Record(measured)][..], &SETTLE, &[Close]].concat()
}

/// What happens to a session.
#[derive(Debug, Clone)]
enum Happening {
    Steps(u8),
    Kill,
    RunEnds,
    RunIsLost,
    RunIsStopped,
    Hands,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (1..12_u8).prop_map(Happening::Steps),
        3 => Just(Happening::Kill),
        2 => Just(Happening::RunEnds),
        1 => Just(Happening::RunIsLost),
        1 => Just(Happening::RunIsStopped),
        1 => Just(Happening::Hands),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_interleaving_ends_with_one_record_and_one_row_for_each_experiment(
        happenings in prop::collection::vec(happening(), 0..80),
        keeps in prop::collection::vec(any::<bool>(), EXPERIMENTS as usize + 1),
    ) {
        let mut world = World::new(keeps);
        for happening in happenings {
            match happening {
                Happening::Steps(count) => (0..count).for_each(|_| world.step()),
                Happening::Kill => world.kill(),
                Happening::RunEnds => world.end_run(),
                Happening::RunIsLost => world.lose_run(),
                Happening::RunIsStopped => world.stop_run(),
                Happening::Hands => world.lay_hands(),
            }
            prop_assert!(world.starts <= 1 + LOST_RETRIES);
        }
        for _ in 0..400 {
            world.step();
            world.end_run();
        }
        prop_assert!(world.is_done(), "it does not come to an end: {:?} {:?}", world.phase, world.open);
        world.check();
    }
}
