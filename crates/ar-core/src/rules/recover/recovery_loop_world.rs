//! The process of that world: recovery by the rules, and then the turns of the loop.

use super::acts::Act;
use super::*;
use crate::domain::ExperimentId;
use crate::rules::decide::{LineStep, MergedChange};
use crate::rules::recover::{AttemptFacts, RunFound, Step, recover};

impl World {
    pub(super) fn slots(&self) -> usize {
        if self.owner.is_one_of_many() { SLOTS } else { 1 }
    }

    /// Begins a process, which first does what the rules say of each attempt that was left open.
    pub(super) fn begin(&self) -> Process {
        // The new process must detect again what the line does not store.
        let stored = serde_json::to_string(&self.journal.line).unwrap();
        let journal = Journal { line: serde_json::from_str(&stored).unwrap(), ..self.journal.clone() };
        let mut process = Process { journal, acts: VecDeque::new(), jobs: BTreeMap::new() };
        process.acts.extend(self.journal.open.iter().map(|open| Act::Recover(open.id)));
        process.acts.push_back(Act::DropLeftRefs);
        if !self.owner.follows_branch() {
            process.acts.push_back(Act::MoveBranch(None));
        }
        process
    }

    /// Returns the facts about an attempt.
    fn found(&self, open: &Open, tree_is_gone: bool) -> AttemptFacts {
        let run = match self.jobs.get(&open.job()) {
            None => RunFound::Unstarted,
            Some(Ran::Going(_)) => RunFound::Going,
            Some(Ran::Over(_) | Ran::Stopped) => RunFound::Over,
            Some(Ran::Gone) => RunFound::Gone,
        };
        AttemptFacts {
            phase: open.phase,
            is_trial: open.trial.is_some(),
            has_draft: open.draft.is_some() || !open.recording.is_empty(),
            recorded: self.is_recorded(open.id),
            run,
            runs: open.runs,
            tree_is_gone,
        }
    }

    /// Takes the steps of an attempt that was left open, as the rules say.
    pub(super) fn recover(&mut self, process: &mut Process, id: u32) {
        let Some(open) = process.find(id).cloned() else { return };
        let tree_is_gone = open.slot.is_some_and(|slot| self.places[slot].is_none());
        if matches!(open.phase, Phase::Running | Phase::Guarding) && !tree_is_gone {
            // Nobody deletes the tree between a look at it and this.
            return self.act(process, Act::Resume(id));
        }
        let steps = recover(self.found(&open, tree_is_gone)).into_iter();
        let acts: Vec<Act> = steps
            .flat_map(|step| match step {
                // They are a part of resuming it.
                Step::CheckOut if !self.owner.follows_branch() => vec![],
                Step::Finish => vec![Act::Resume(id)],
                step => self.acts(&open, step),
            })
            .collect();
        acts.into_iter().rev().for_each(|act| process.acts.push_front(act));
    }

    /// The writes of a step.
    fn acts(&self, open: &Open, step: Step) -> Vec<Act> {
        let id = open.id;
        let users = self.owner.follows_branch();
        match step {
            Step::EndJobs => vec![Act::EndJobs(id)],
            Step::ForgetRun => vec![Act::ForgetJob(id)],
            Step::Reset if users => self.roll_back(open),
            Step::Reset => open.seat.map_or(vec![], |seat| {
                let place = self.place_of_seat(seat);
                vec![Act::Save(place), Act::PutBack(place, Some(self.base_tree(open.base)))]
            }),
            Step::BringBack if users => vec![Act::PutBack(0, Some(self.begins_at(open)))],
            // The seat of the next call is at it then.
            Step::BringBack => vec![],
            Step::AwaitCall => vec![Act::Enter(Box::new(Open { seat: None, ..open.clone() }))],
            Step::AwaitSlot => vec![],
            Step::CheckOut => self.check_out(open),
            Step::Run => run(open),
            Step::Finish => vec![Act::StartJob(id)],
            Step::Record => self.finish_recording(open),
            Step::RecordLost => self.came_to(open, None),
            Step::Close => vec![Act::DropRef(id), Act::Close(id)],
        }
    }

    /// Puts the commit of an attempt in its place, with the branch that follows the user's tree.
    fn check_out(&self, open: &Open) -> Vec<Act> {
        let (place, tree) = (open.slot.unwrap_or(0), open.commit());
        let put_back = Act::PutBack(place, Some(tree.clone()));
        match self.owner.follows_branch() {
            true => vec![Act::Save(place), Act::MoveBranch(Some(tree)), put_back],
            false => vec![put_back],
        }
    }

    /// Puts the user's tree and the branch back to the base.
    fn roll_back(&self, open: &Open) -> Vec<Act> {
        let base = Some(self.base_tree(open.base));
        vec![Act::Save(0), Act::PutBack(0, base.clone()), Act::MoveBranch(base)]
    }

    /// One turn of the loop: the line of winners first, then one of what may come next.
    pub(super) fn turn(&self, process: &mut Process, choice: usize) {
        let left = self.open_refs.keys().find(|id| process.find(**id).is_none());
        assert_eq!(left, None, "a ref without an attempt");
        let trials = loop {
            match self.on_line(&mut process.journal, Line::next) {
                LineStep::Merge { onto, car } => process.journal.line.merged(&onto, car, MergedChange::Clean),
                LineStep::Try(trials) => break trials,
                LineStep::Keep { cars, .. } => return process.acts.extend(self.keep(process, &cars)),
                LineStep::Discard { car, .. } => {
                    let open = process.get(car.number());
                    return process.acts.extend(self.record(&open, vec![open.record(false)]));
                }
                // The run of its train was lost each time.
                LineStep::Replace { car, .. } => {
                    let open = process.get(car.number());
                    let record = Record { replaces: true, ..open.record(true) };
                    return process.acts.extend(self.record(&open, vec![record]));
                }
                step => unreachable!("{step:?} where nothing conflicts"),
            }
        };
        let is_in_line = |id: &ExperimentId| process.journal.line.cars().any(|car| car.id == *id);
        let may_hold = |open: &Open, trial: &Trial| match trial {
            Trial::Train { on, cars } => {
                on.number() == self.tip().id && cars.iter().all(is_in_line) && open.draft.is_some()
            }
            _ => false,
        };
        let is_wanted =
            |open: &Open| open.trial.as_ref().is_none_or(|trial| trials.contains(trial) || may_hold(open, trial));
        if let Some(id) = process.journal.open.iter().find(|open| !is_wanted(open)).map(|open| open.id) {
            // Nobody waits for it any more.
            return process.acts.extend([Act::EndJobs(id), Act::DropRef(id), Act::Close(id)]);
        }
        let open = &process.journal.open;
        let is_busy = |slot: usize| {
            let is_in = |open: &Open| open.slot == Some(slot) && process.jobs.contains_key(&open.id);
            let is_seat = |open: &Open| self.owner.has_user() && open.seat.is_some();
            open.iter().any(|open| is_in(open) || is_seat(open))
        };
        let free = (0..self.slots()).find(|slot| !is_busy(*slot));
        let has = |trial: &Trial| open.iter().any(|open| open.trial.as_ref() == Some(trial));
        if let (Some(slot), Some(trial)) = (free, trials.iter().find(|trial| !has(trial))) {
            return self.open_trial(process, slot, trial);
        }
        let mut ways: Vec<Vec<Act>> = Vec::new();
        ways.extend(process.jobs.iter().filter_map(|(id, is_looked_at)| self.job(process, *id, *is_looked_at)));
        let is_ready = |open: &&Open| open.phase == Phase::Committing && open.trial.is_none();
        if let (Some(slot), Some(ready)) = (free, open.iter().find(is_ready)) {
            ways.push(self.start_in(slot, ready));
        }
        let seats = if self.owner.is_one_of_many() { SEATS } else { 1 };
        (0..seats).for_each(|seat| ways.extend(self.seat(process, seat, free.is_some())));
        if !ways.is_empty() {
            process.acts.extend(ways.swap_remove(choice % ways.len()));
        }
    }

    /// Lists the ways to go on in a seat.
    fn seat(&self, process: &Process, seat: usize, is_free: bool) -> Vec<Vec<Act>> {
        let (open, place) = (&process.journal.open, self.place_of_seat(seat));
        if let Some(open) = open.iter().find(|open| open.seat == Some(seat)) {
            let whole = &self.base_tree(open.base) | &Tree::from([open.change]);
            return match self.places[place] == Some(Files::of(whole.clone())) {
                true => self.commit(open, whole),
                false => vec![vec![Act::Edit(seat)]],
            };
        }
        let proposed = open.iter().filter(|open| open.trial.is_none()).count();
        let left = open.iter().find(|open| open.phase == Phase::Proposing && open.seat.is_none());
        // *In place* the seat is the slot, and an attempt stays in it to its end.
        let is_taken = self.owner.has_user() && (!is_free || left.is_none() && !open.is_empty());
        if is_taken || left.is_none() && self.records.len() + proposed > self.count {
            return vec![];
        }
        let begins_at = left.filter(|left| left.draft.is_some()).map(|left| self.begins_at(left));
        // The user's tree is there already.
        let stand = (!self.owner.has_user()).then_some(Act::PutBack(place, begins_at));
        vec![stand.into_iter().chain([Act::Call(left.map(|left| left.id), seat)]).collect()]
    }

    /// From a whole change to its commit, and *in place* to its run.
    fn commit(&self, open: &Open, tree: Tree) -> Vec<Vec<Act>> {
        let open = Open { phase: Phase::Committing, tree: Some(tree.clone()), seat: None, ..open.clone() };
        let (commit, enter) = (Act::Commit(tree.clone()), Act::Enter(Box::new(open.clone())));
        if self.owner.is_one_of_many() {
            return vec![vec![commit, Act::PutRef(open.id, tree), enter]];
        }
        let move_branch = Act::MoveBranch(Some(tree));
        // A change that is refused without a run waits for the place like any other.
        let waiting = vec![commit.clone(), enter, move_branch.clone()];
        let run = run(&Open { slot: Some(0), ..open.clone() });
        vec![[vec![commit], run, vec![move_branch, Act::StartJob(open.id)]].concat(), waiting]
    }

    /// From a commit that waits for its slot to its run.
    fn start_in(&self, slot: usize, ready: &Open) -> Vec<Act> {
        let (mut open, mut acts) = (Open { slot: Some(slot), ..ready.clone() }, Vec::new());
        let tip = self.tip();
        if open.base != tip.id {
            // Merged onto the incumbent before its run.
            let tree = &tip.tree | &Tree::from([open.change]);
            (open.base, open.tree) = (tip.id, Some(tree.clone()));
            let enter = Act::Enter(Box::new(open.clone()));
            acts.extend([Act::Commit(tree.clone()), Act::PutRef(open.id, tree), enter]);
        }
        acts.extend(self.start(&open));
        acts
    }

    fn start(&self, open: &Open) -> Vec<Act> {
        let mut acts = self.check_out(open);
        acts.extend(run(open));
        acts.push(Act::StartJob(open.id));
        acts
    }

    /// Returns the acts that follow from the job of an attempt, if any.
    fn job(&self, process: &Process, id: u32, is_looked_at: bool) -> Option<Vec<Act>> {
        let open = process.find(id)?;
        if !is_looked_at {
            let steps = recover(self.found(open, false));
            return Some(steps.into_iter().flat_map(|step| self.acts(open, step)).collect());
        }
        if let (Phase::Guarding, Some(passed)) = (open.phase, open.passed()) {
            return Some(self.guarded(process, open, passed));
        }
        let has_tree = open.slot.is_some_and(|slot| self.places[slot].is_some());
        let again = || [self.check_out(open), vec![Act::StartJob(id)]].concat();
        match (open.job().1, self.jobs.get(&open.job())?) {
            (_, Ran::Going(_)) => None,
            // Its tree is made again, and then nothing tells that it was missing.
            (_, Ran::Over(_)) if !has_tree => Some([vec![Act::ForgetJob(id)], again()].concat()),
            (Job::Run, Ran::Over(tree)) => Some(self.came_to(open, Some(self.value(tree)))),
            (Job::Run, Ran::Gone | Ran::Stopped) if open.runs <= LOST_RETRIES => Some(self.start(open)),
            (Job::Run, Ran::Gone | Ran::Stopped) => Some(self.came_to(open, None)),
            (Job::Guard, Ran::Over(tree)) => {
                assert_eq!(*tree, open.commit(), "another commit is guarded");
                let passed = Some(self.accepts(id, open.versions.len()));
                let draft = open.draft.clone().map(|draft| Draft { passed, ..draft });
                Some(vec![Act::Enter(Box::new(Open { draft, ..open.clone() }))])
            }
            (Job::Guard, Ran::Gone | Ran::Stopped) => Some(again()),
        }
    }

    /// Goes on after a run, which has a value unless it was lost.
    fn came_to(&self, open: &Open, value: Option<f64>) -> Vec<Act> {
        let open = Open { draft: Some(open.measured(value)), ..open.clone() };
        if let Some(trial) = open.trial.clone() {
            let waiting = Box::new(Open { phase: Phase::Waiting, ..open });
            return vec![Act::EndTrial(trial, value), Act::Enter(waiting)];
        }
        if value.is_none_or(|value| value <= self.value(&self.base_tree(open.base))) {
            return self.record(&open, vec![open.record(false)]);
        }
        let open = Open { phase: Phase::Guarding, ..open };
        let check_out = self.check_out(&open);
        [vec![Act::Enter(Box::new(open.clone()))], check_out, vec![Act::StartJob(open.id)]].concat()
    }

    /// Goes on after the guard of a change that is better.
    fn guarded(&self, process: &Process, open: &Open, passed: bool) -> Vec<Act> {
        if !passed && (open.versions.len() as u32) < REWORKS {
            return self.rework(open);
        }
        let is_alone = process.journal.open.len() == 1 && open.base == self.tip().id;
        if !passed || is_alone {
            return self.record(open, vec![open.record(passed)]);
        }
        let value = open.draft.as_ref().and_then(|draft| draft.value).expect("a winner's value");
        let waiting = Box::new(Open { phase: Phase::Waiting, ..open.clone() });
        vec![Act::Win(open.id, value), Act::Enter(waiting)]
    }

    /// Saves a version, and has the agent make the next one.
    fn rework(&self, open: &Open) -> Vec<Act> {
        let tree = open.commit();
        let versions = open.versions.iter().copied().chain([open.change]).collect();
        let again = Open { phase: Phase::Proposing, versions, tree: None, runs: 0, ..open.clone() };
        let mut acts = vec![Act::Keep(tree.clone()), Act::Enter(Box::new(again))];
        if self.owner.follows_branch() {
            let branch = Act::MoveBranch(Some(self.base_tree(open.base)));
            acts.extend([Act::Save(0), Act::PutBack(0, Some(tree)), branch]);
        }
        acts
    }

    /// Takes back an experiment whose job the user stopped; records what an earlier version measured.
    pub(super) fn stop(&self, open: &Open, job: Job) -> Vec<Act> {
        let is_reworked = !open.versions.is_empty();
        let mut acts = Vec::new();
        if job == Job::Run || !is_reworked {
            acts.push(Act::Keep(open.commit()));
            acts.extend(if self.owner.follows_branch() { self.roll_back(open) } else { vec![] });
        }
        acts.extend(match is_reworked {
            true => self.record(open, vec![open.record(false)]),
            false => vec![Act::DropRef(open.id), Act::Close(open.id)],
        });
        acts
    }

    /// Records the cars of a train, or a single winner as it was measured on the incumbent.
    fn keep(&self, process: &Process, cars: &[ExperimentId]) -> Vec<Act> {
        let trial = Trial::Train { on: self.tip().id.into(), cars: cars.to_vec() };
        let measured = process.journal.open.iter().find(|open| open.trial.as_ref() == Some(&trial));
        let (mut tree, mut records) = (self.tip().tree.clone(), Vec::new());
        for car in cars.iter().filter_map(|id| process.find(id.number())) {
            tree.insert(car.change);
            records.push(Record { tree: tree.clone(), ..car.record(true) });
        }
        self.record(&measured.cloned().unwrap_or_else(|| process.get(cars[0].number())), records)
    }

    fn record(&self, open: &Open, recording: Vec<Record>) -> Vec<Act> {
        assert!(recording.iter().all(|record| !self.is_recorded(record.id)), "recorded twice: {open:?}");
        let open = Open { phase: Phase::Recording, recording, rows_from: self.rows.len(), ..open.clone() };
        [vec![Act::Enter(Box::new(open.clone()))], self.finish_recording(&open)].concat()
    }

    /// Refs, rows, branch with the user's tree, and refs of open attempts, in this order.
    fn finish_recording(&self, open: &Open) -> Vec<Act> {
        let records = &open.recording;
        let mut acts: Vec<Act> = records.iter().cloned().map(Act::WriteRef).collect();
        acts.extend(records.iter().map(|record| Act::WriteRow(record.id, open.rows_from)));
        acts.push(Act::MoveBranch(None));
        acts.extend(if self.owner.follows_branch() { vec![Act::Save(0), Act::PutBack(0, None)] } else { vec![] });
        acts.extend(records.iter().map(|record| record.id).chain([open.id]).map(Act::DropRef));
        acts.push(Act::CloseAll(open.id, records.clone()));
        acts
    }

    fn open_trial(&self, process: &mut Process, slot: usize, trial: &Trial) {
        let riding: Vec<&Open> = trial.cars().iter().filter_map(|id| process.find(id.number())).collect();
        let tree = match trial {
            Trial::Train { .. } => &self.tip().tree | &riding.iter().map(|car| car.change).collect(),
            Trial::Afresh(_) => riding.iter().find_map(|car| car.tree.clone()).unwrap_or_default(),
        };
        let open =
            Open { phase: Phase::Committing, slot: Some(slot), tree: Some(tree.clone()), ..self.new_open(process) };
        let open = Open { trial: Some(trial.clone()), ..open };
        self.on_line(&mut process.journal, |line, on| line.started(on, trial));
        let enter = Act::Enter(Box::new(open.clone()));
        process.acts.extend([Act::Commit(tree.clone()), Act::PutRef(open.id, tree), enter]);
        process.acts.extend(self.start(&open));
    }

    pub(super) fn new_open(&self, process: &Process) -> Open {
        let recorded = self.records.iter().map(|record| record.id);
        let known = recorded.chain(process.journal.open.iter().map(|open| open.id));
        Open {
            id: known.chain([process.journal.given]).max().unwrap_or(0) + 1,
            phase: Phase::Idle,
            change: 0,
            versions: Vec::new(),
            base: self.tip().id,
            tree: None,
            seat: None,
            slot: None,
            runs: 0,
            draft: None,
            trial: None,
            recording: Vec::new(),
            rows_from: 0,
        }
    }
}

/// Removes the remains of an earlier run, and enters a new one. A lost run must not look like one that was never started.
fn run(open: &Open) -> Vec<Act> {
    let ready = Open { phase: Phase::Committing, ..open.clone() };
    let running = Open { phase: Phase::Running, runs: open.runs + 1, ..open.clone() };
    let has_run = open.phase == Phase::Running || !open.versions.is_empty();
    let leave = has_run.then(|| Act::Enter(Box::new(ready)));
    leave.into_iter().chain([Act::ClearJobs(open.id), Act::Enter(Box::new(running))]).collect()
}
