//! A world of plain values in which each durable write of a session is one step.

use std::collections::{BTreeSet, VecDeque};

use super::*;
use crate::rules::REWORKS;

/// How many experiments a session makes after its baseline, which is experiment 0.
pub(super) const EXPERIMENTS: u32 = 4;

/// Represents a user instead of an agent.
const PERSON: u32 = 99;

/// The content of the working tree. A commit has the number of its experiment, plus 10 for each earlier version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tree {
    /// The content of this commit.
    Of(u32),
    /// An unfinished change of this experiment's agent, or a change by the user.
    Half(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Open {
    id: u32,
    base: u32,
    committed: bool,
    runs: u32,
    /// How many versions of its change the agent reworked.
    version: u32,
    draft: Option<Draft>,
}

impl Open {
    fn commit(&self) -> u32 {
        self.id + 10 * self.version
    }
}

/// The draft of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Draft {
    commit: u32,
    /// The result of its run; absent if lost.
    measured: Option<Tree>,
    /// Whether its guard passed, once finished.
    passed: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    Unstarted,
    Going(Tree),
    Over(Tree),
    /// The user stopped it.
    Stopped,
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Recorded {
    open: Open,
    draft: Draft,
    kept: bool,
}

/// One durable write, or one observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Propose,
    EditHalf,
    EditAll,
    Commit,
    NoteCommit,
    ClearRun,
    EnterRunning,
    AdvanceBranch,
    StartRun,
    Await,
    EnterGuarding,
    StartGuard,
    AwaitGuard,
    NoteGuard,
    SaveVersion,
    EnterAgain,
    PutBackToDraft,
    NoteLost,
    EnterRecording,
    Record,
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

/// The disk and the active process.
pub(super) struct World {
    pub(super) phase: Phase,
    pub(super) open: Option<Open>,
    records: Vec<Recorded>,
    rows: Vec<u32>,
    rows_from: usize,
    branch: u32,
    tree: Tree,
    commits: BTreeSet<u32>,
    saved: BTreeSet<Tree>,
    run: Run,
    guard: Run,
    /// Whether each experiment's value is better.
    keeps: Vec<bool>,
    /// How many versions of each experiment the guard refuses.
    refused: Vec<u32>,
    /// Experiments that the user stopped.
    stopped: BTreeSet<u32>,
    /// Starts of the open version's run, and whether one of them finished.
    pub(super) starts: u32,
    was_over: bool,
    /// The next actions of the process; absent without a process.
    process: Option<VecDeque<Act>>,
}

use Act::*;

const SETTLE: [Act; 5] = [EnterSettling, AppendRow, MoveBranchToOutcome, SaveChange, PutBackToOutcome];
const ROLL_BACK: [Act; 4] = [MoveBranchToBase, SaveChange, PutBackToBase, Close];
const RETRY: [Act; 8] =
    [SaveChange, AdvanceBranch, PutBackToCommit, NoteCommit, ClearRun, EnterRunning, StartRun, Await];

/// The agent's change, and what follows: commit and run.
const WORK: [Act; 9] = [EditHalf, EditAll, Commit, NoteCommit, ClearRun, EnterRunning, AdvanceBranch, StartRun, Await];

impl World {
    pub(super) fn new(keeps: Vec<bool>, refused: Vec<u32>) -> World {
        let draft = Draft { commit: 0, measured: Some(Tree::Of(0)), passed: None };
        let open = Open { id: 0, base: 0, committed: true, runs: 1, version: 0, draft: Some(draft) };
        World {
            phase: Phase::Idle,
            open: None,
            records: vec![Recorded { open, draft, kept: true }],
            rows: vec![0],
            rows_from: 0,
            branch: 0,
            tree: Tree::Of(0),
            commits: BTreeSet::from([0]),
            saved: BTreeSet::new(),
            run: Run::Unstarted,
            guard: Run::Unstarted,
            keeps,
            refused,
            stopped: BTreeSet::new(),
            starts: 0,
            was_over: false,
            process: None,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.records.len() > EXPERIMENTS as usize && self.open.is_none()
    }

    fn recorded(&self, id: u32) -> Option<&Recorded> {
        self.records.iter().find(|record| record.open.id == id)
    }

    fn next_id(&self) -> u32 {
        self.records.last().map_or(0, |record| record.open.id + 1)
    }

    fn tip(&self) -> u32 {
        self.records.iter().rev().find(|record| record.kept).map_or(0, |record| record.draft.commit)
    }

    /// Whether the guard accepts a version.
    fn accepts(&self, open: Open) -> bool {
        open.version >= self.refused[open.id as usize % self.refused.len()]
    }

    /// The process and its agent die; a run continues.
    pub(super) fn kill(&mut self) {
        self.process = None;
    }

    pub(super) fn end_run(&mut self) {
        if let Run::Going(tree) = self.run {
            (self.run, self.was_over) = (Run::Over(tree), true);
        }
        if let Run::Going(tree) = self.guard {
            self.guard = Run::Over(tree);
        }
    }

    /// The user stops the run for which the process waits.
    pub(super) fn stop_run(&mut self) {
        let (Some(process), Some(open)) = (&mut self.process, self.open) else { return };
        let roll_back = match (process.front(), self.run, self.guard) {
            (Some(Await), Run::Going(_), _) => {
                self.run = Run::Stopped;
                true
            }
            (Some(AwaitGuard), _, Run::Going(_)) => {
                self.guard = Run::Gone;
                open.version == 0
            }
            _ => return,
        };
        // The result of an earlier version is recorded.
        let mut acts = if roll_back { ROLL_BACK.to_vec() } else { Vec::new() };
        if open.version > 0 {
            acts.retain(|act| *act != Close);
            acts.extend(RECORD);
            self.stopped.insert(open.id);
        }
        *process = acts.into();
    }

    /// The user changes a file while an experiment with a commit is open and no process is active.
    pub(super) fn lay_hands(&mut self) {
        if self.process.is_none() && self.open.is_some_and(|open| open.committed) {
            self.tree = Tree::Half(PERSON);
        }
    }

    pub(super) fn lose_run(&mut self) {
        for job in [&mut self.run, &mut self.guard] {
            if let Run::Going(_) = job {
                *job = Run::Gone;
            }
        }
    }

    /// What a new process does about the open experiment.
    fn plan(&self) -> VecDeque<Act> {
        let Some(open) = self.open else { return VecDeque::new() };
        let run = match if self.phase == Phase::Guarding { self.guard } else { self.run } {
            Run::Unstarted => RunFound::Unstarted,
            Run::Going(_) => RunFound::Going,
            Run::Over(_) | Run::Stopped => RunFound::Over,
            Run::Gone => RunFound::Gone,
        };
        let found = Found {
            phase: self.phase,
            is_trial: false,
            has_draft: open.draft.is_some(),
            recorded: self.recorded(open.id).is_some(),
            run,
            runs: open.runs,
            tree_is_gone: false,
        };
        recover(found).into_iter().flat_map(|step| self.acts(step)).collect()
    }

    /// The writes of a step.
    fn acts(&self, step: Step) -> Vec<Act> {
        match step {
            Step::EndJobs => vec![],
            Step::Reset => vec![SaveChange, PutBackToBase, MoveBranchToBase],
            Step::BringBack => vec![PutBackToDraft],
            Step::CheckOut => vec![SaveChange, AdvanceBranch, PutBackToCommit],
            Step::Run => vec![NoteCommit, ClearRun, EnterRunning],
            Step::AwaitCall => [&[MoveBranchToBase][..], &WORK].concat(),
            Step::AwaitSlot => RETRY.to_vec(),
            Step::Finish => match self.phase {
                Phase::Guarding => vec![StartGuard, AwaitGuard],
                _ => vec![StartRun, Await],
            },
            Step::RecordLost => [&[NoteLost][..], &RECORD].concat(),
            Step::Record if self.open.is_some_and(|open| self.recorded(open.id).is_some()) => {
                [&SETTLE[..], &[Close]].concat()
            }
            Step::Record => RECORD.to_vec(),
            Step::ForgetRun => unreachable!("no tree is deleted"),
            Step::Close => vec![Close],
        }
    }

    /// The next write, if any is possible; starts a killed process again.
    pub(super) fn step(&mut self) {
        let mut process = match self.process.take() {
            Some(process) => process,
            None => self.plan(),
        };
        if process.is_empty() && self.open.is_none() && !self.is_done() {
            process.push_back(Propose);
            process.extend(WORK);
        }
        if let Some(act) = process.pop_front() {
            self.act(act, &mut process);
        }
        self.process = Some(process);
    }

    fn act(&mut self, act: Act, process: &mut VecDeque<Act>) {
        if act == Propose {
            let id = self.next_id();
            let open = Open { id, base: self.tip(), committed: false, runs: 0, version: 0, draft: None };
            (self.phase, self.open) = (Phase::Proposing, Some(open));
            (self.starts, self.was_over, self.run, self.guard) = (0, false, Run::Unstarted, Run::Unstarted);
            return;
        }
        let Some(mut open) = self.open else { panic!("{act:?} without an open experiment") };
        match act {
            Propose => {}
            EditHalf => {
                let begins_at = open.draft.map_or(open.base, |draft| draft.commit);
                assert_eq!(self.tree, Tree::Of(begins_at), "the agent does not begin where it should");
                self.tree = Tree::Half(open.commit());
            }
            EditAll => self.tree = Tree::Of(open.commit()),
            Commit => {
                assert_eq!(self.tree, Tree::Of(open.commit()), "half a change is committed");
                self.commits.insert(open.commit());
            }
            NoteCommit => {
                if self.phase == Phase::Running || open.version > 0 {
                    (self.phase, open.committed) = (Phase::Committing, true);
                }
            }
            AdvanceBranch => self.branch = open.commit(),
            ClearRun => (self.run, self.guard) = (Run::Unstarted, Run::Unstarted),
            EnterRunning => {
                (self.phase, open.committed) = (Phase::Running, true);
                open.runs += 1;
            }
            StartRun => {
                if matches!(self.run, Run::Unstarted) {
                    assert!(!self.was_over, "a run that was over is started again");
                    let commit = open.commit();
                    assert_eq!((self.branch, self.tree), (commit, Tree::Of(commit)), "another commit is run");
                    self.run = Run::Going(self.tree);
                    self.starts += 1;
                }
            }
            Await => match self.run {
                Run::Over(tree) => {
                    open.draft = Some(Draft { commit: open.commit(), measured: Some(tree), passed: None });
                    let guarded = self.keeps[open.id as usize % self.keeps.len()];
                    process.extend(if guarded { vec![EnterGuarding, StartGuard, AwaitGuard] } else { RECORD.to_vec() });
                }
                Run::Gone | Run::Stopped if open.runs <= LOST_RETRIES => process.extend(RETRY),
                Run::Gone | Run::Stopped => process.extend(self.acts(Step::RecordLost)),
                Run::Going(_) | Run::Unstarted => process.push_front(Await),
            },
            EnterGuarding => self.phase = Phase::Guarding,
            StartGuard => {
                let is_over = open.draft.is_some_and(|draft| draft.passed.is_some());
                if !is_over && matches!(self.guard, Run::Unstarted | Run::Gone) {
                    let commit = open.commit();
                    self.saved.insert(self.tree);
                    self.put_back(commit);
                    assert_eq!((self.branch, self.tree), (commit, Tree::Of(commit)), "another commit is guarded");
                    self.guard = Run::Going(self.tree);
                }
            }
            AwaitGuard => match (open.draft.and_then(|draft| draft.passed), self.guard) {
                (Some(true), _) => process.extend(RECORD),
                (Some(false), _) if open.version < REWORKS => {
                    process.extend([SaveVersion, EnterAgain, SaveChange, PutBackToDraft, MoveBranchToBase]);
                    process.extend(WORK);
                }
                (Some(false), _) => process.extend(RECORD),
                (None, Run::Over(tree)) => {
                    assert_eq!(tree, Tree::Of(open.commit()));
                    process.extend([NoteGuard, AwaitGuard]);
                }
                (None, Run::Gone) => {
                    process.extend([SaveChange, AdvanceBranch, PutBackToCommit, StartGuard, AwaitGuard])
                }
                (None, _) => process.push_front(AwaitGuard),
            },
            NoteGuard => {
                let passed = Some(self.accepts(open));
                open.draft = open.draft.map(|draft| Draft { passed, ..draft });
            }
            SaveVersion => {
                self.saved.insert(Tree::Of(open.commit()));
            }
            EnterAgain => {
                self.phase = Phase::Proposing;
                (open.version, open.committed, open.runs) = (open.version + 1, false, 0);
                (self.starts, self.was_over) = (0, false);
            }
            PutBackToDraft => {
                if let Some(draft) = open.draft {
                    self.put_back(draft.commit);
                }
            }
            NoteLost => open.draft = Some(Draft { commit: open.commit(), measured: None, passed: None }),
            EnterRecording => self.phase = Phase::Recording,
            Record => {
                assert!(self.recorded(open.id).is_none(), "recorded twice");
                let Some(draft) = open.draft else { panic!("there is nothing to record") };
                let kept = draft.measured.is_some()
                    && self.keeps[open.id as usize % self.keeps.len()]
                    && draft.passed == Some(true);
                self.records.push(Recorded { open, draft, kept });
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
            PutBackToCommit => self.put_back(open.commit()),
            Close => {
                let is_recorded = self.recorded(open.id).is_some();
                assert!(open.version == 0 || is_recorded, "what earlier versions measured is lost");
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

    pub(super) fn check(&self) {
        let ids: Vec<u32> = self.records.iter().map(|record| record.open.id).collect();
        assert_eq!(ids, (0..=EXPERIMENTS).collect::<Vec<_>>());
        assert_eq!(self.rows, ids);
        let mut tip = 0;
        for Recorded { open, draft, kept } in &self.records[1..] {
            let Draft { commit, measured, passed } = *draft;
            assert_eq!(open.base, tip, "experiment {} is not on the last one kept", open.id);
            assert!(measured.is_none_or(|tree| tree == Tree::Of(commit)), "another change was measured: {measured:?}");
            assert!(measured.is_some() || open.runs > LOST_RETRIES, "given up after {} starts", open.runs);
            let is_better = measured.is_some() && self.keeps[open.id as usize % self.keeps.len()];
            if is_better && !self.stopped.contains(&open.id) {
                assert_eq!(passed, Some(self.accepts(*open)), "not guarded");
                assert!(passed == Some(true) || open.version == REWORKS, "given up after {} reworks", open.version);
            }
            assert_eq!(*kept, is_better && passed == Some(true));
            for version in 0..open.version {
                assert!(self.saved.contains(&Tree::Of(open.id + 10 * version)), "a version is lost");
            }
            tip = if *kept { commit } else { tip };
        }
        assert_eq!((self.branch, self.tree), (tip, Tree::Of(tip)));
    }
}

/// Records the draft, with all following writes.
const RECORD: [Act; 8] =
    [EnterRecording, Record, EnterSettling, AppendRow, MoveBranchToOutcome, SaveChange, PutBackToOutcome, Close];
