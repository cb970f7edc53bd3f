//! The acts of that world, and their effects on the disk.

use super::*;
use crate::domain::{Direction, ExperimentId, Number};
use crate::rules::decide::{Afresh, Car, Incumbent, Tested};

/// One durable write, or one thing that an agent does.
#[derive(Debug, Clone)]
pub(super) enum Act {
    /// Calls an agent for a new attempt, or again for one that is open.
    Call(Option<u32>, usize),
    Edit(usize),
    Commit(Tree),
    PutRef(u32, Tree),
    DropRef(u32),
    DropLeftRefs,
    /// Enters an attempt in the journal.
    Enter(Box<Open>),
    /// Puts a winner in the line, which the next entry writes.
    Win(u32, f64),
    /// Tells the line what a run for it came to, which the next entry writes.
    EndTrial(Trial, Option<f64>),
    Save(usize),
    Keep(Tree),
    /// Puts the files of a commit, or of the tip, in a working tree.
    PutBack(usize, Option<Tree>),
    /// Moves the branch to a commit, or to the tip.
    MoveBranch(Option<Tree>),
    ClearJobs(u32),
    ForgetJob(u32),
    StartJob(u32),
    EndJobs(u32),
    WriteRef(Record),
    WriteRow(u32, usize),
    CloseAll(u32, Vec<Record>),
    Close(u32),
    Recover(u32),
    Resume(u32),
}

impl World {
    pub(super) fn act(&mut self, process: &mut Process, act: Act) {
        match act {
            Act::Call(id, seat) => {
                self.changes += 1;
                let open = id.map_or_else(|| self.new_open(process), |id| process.get(id));
                let base = if open.draft.is_some() { open.base } else { self.tip().id };
                self.called.insert(open.id);
                let open = Open { phase: Phase::Proposing, change: self.changes, base, seat: Some(seat), ..open };
                self.enter(process, open);
            }
            Act::Edit(seat) => {
                let open =
                    process.journal.open.iter().find(|open| open.seat == Some(seat)).expect("an agent's attempt");
                let place = self.place_of_seat(seat);
                let begins_at = self.begins_at(open);
                let half = Files { tree: &begins_at | &Tree::from([open.change]), is_half: true };
                self.places[place] = Some(if self.places[place].as_ref() == Some(&half) {
                    Files::of(&self.base_tree(open.base) | &Tree::from([open.change]))
                } else {
                    let files = Some(Files::of(begins_at));
                    assert_eq!(self.places[place], files, "the agent does not begin where it should: {open:?}");
                    half
                });
            }
            Act::Commit(tree) => drop(self.commits.insert(tree)),
            Act::PutRef(id, tree) => drop(self.open_refs.insert(id, tree)),
            Act::DropRef(id) => drop(self.open_refs.remove(&id)),
            Act::DropLeftRefs => self.open_refs.retain(|id, _| process.find(*id).is_some()),
            Act::Enter(open) => self.enter(process, *open),
            Act::Win(id, value) => {
                let open = process.get(id);
                let gain = value - self.value(&self.base_tree(open.base));
                process.journal.line.won(Car::new(id.into(), open.base.into(), number(value), gain));
            }
            Act::EndTrial(trial, value) => self.end_trial(&mut process.journal, &trial, value),
            Act::Save(place) => self.saved.extend(self.places[place].clone()),
            Act::Keep(tree) => drop(self.saved.insert(Files::of(tree))),
            Act::PutBack(place, tree) => {
                if let Some(files) = &self.places[place] {
                    let is_commit = !files.is_half && self.commits.contains(&files.tree);
                    assert!(is_commit || self.saved.contains(files), "{files:?} is lost");
                }
                self.places[place] = Some(Files::of(tree.unwrap_or_else(|| self.tip().tree.clone())));
            }
            Act::MoveBranch(tree) => self.branch = tree.unwrap_or_else(|| self.tip().tree.clone()),
            Act::ClearJobs(id) => self.jobs.retain(|(of, _), _| *of != id),
            Act::ForgetJob(id) => {
                let open = process.get(id);
                self.jobs.remove(&open.job());
                if open.job().1 == Job::Run {
                    self.starts.remove(&open.version());
                    self.finished.remove(&open.version());
                }
            }
            Act::StartJob(id) => {
                process.jobs.insert(id, true);
                self.start_job(&process.get(id));
            }
            Act::EndJobs(id) => {
                for (_, ran) in self.jobs.iter_mut().filter(|((of, _), _)| *of == id) {
                    if let Ran::Going(_) = ran {
                        // It notes how it was ended.
                        *ran = Ran::Over(Tree::from([RUBBLE]));
                    }
                }
            }
            Act::WriteRef(record) => {
                if !self.is_recorded(record.id) {
                    self.records.push(record);
                }
            }
            Act::WriteRow(id, from) => {
                if !self.rows[from..].contains(&id) {
                    self.rows.push(id);
                }
            }
            Act::CloseAll(id, records) => {
                let of = |kept| records.iter().filter(move |it| it.kept == kept).map(|it| ExperimentId::from(it.id));
                of(false).for_each(|id| process.journal.line.left(id));
                let kept: Vec<ExperimentId> = of(true).collect();
                if !kept.is_empty() {
                    process.journal.line.kept(&kept);
                }
                records.iter().map(|record| record.id).chain([id]).for_each(|id| self.close(process, id));
                self.journal = process.journal.clone();
            }
            Act::Close(id) => {
                self.close(process, id);
                self.journal = process.journal.clone();
            }
            Act::Recover(id) => self.recover(process, id),
            Act::Resume(id) => {
                process.jobs.insert(id, false);
                let open = process.get(id);
                let files = &mut self.places[open.slot.unwrap_or(0)];
                *files = files.take().or_else(|| open.tree.map(Files::of));
            }
        }
    }

    fn enter(&mut self, process: &mut Process, open: Open) {
        if !matches!(open.phase, Phase::Running | Phase::Guarding) {
            process.jobs.remove(&open.id);
        }
        if open.trial.is_none() && open.tree.is_some() {
            self.committed.insert(open.change);
        }
        let journal = &mut process.journal;
        if self.owner.is_one_of_many() {
            journal.given = journal.given.max(open.id);
        }
        match journal.open.iter_mut().find(|known| known.id == open.id) {
            Some(known) => *known = open,
            None => journal.open.push(open),
        }
        self.journal = journal.clone();
    }

    fn close(&mut self, process: &mut Process, id: u32) {
        let is_measured = |open: &Open| !open.versions.is_empty();
        let is_lost = process.find(id).is_some_and(is_measured) && !self.is_recorded(id);
        assert!(!is_lost, "what earlier versions of {id} measured is lost");
        process.jobs.remove(&id);
        self.jobs.retain(|(of, _), _| *of != id);
        self.starts.retain(|(of, _), _| *of != id);
        self.finished.retain(|(of, _)| *of != id);
        process.journal.open.retain(|open| open.id != id);
        process.journal.given = if process.journal.open.is_empty() { 0 } else { process.journal.given };
    }

    /// Starts the run, or the guard, of an attempt unless it is there.
    fn start_job(&mut self, open: &Open) {
        let (_, job) = open.job();
        let is_there = match (job, self.jobs.get(&open.job())) {
            (Job::Run, ran) => ran.is_some(),
            // One that passed, or did not, is over.
            (Job::Guard, ran) => ran.is_some_and(|ran| *ran != Ran::Gone) || open.passed().is_some(),
        };
        if is_there {
            return;
        }
        let files = self.places[open.slot.unwrap_or(0)].clone();
        if let Some(files) = &files {
            assert_eq!(*files, Files::of(open.commit()), "another commit is run: {open:?}");
            let is_followed = !self.owner.follows_branch() || self.branch == files.tree;
            assert!(is_followed, "the branch is at another commit than the one that is run: {open:?}");
        }
        if job == Job::Run {
            assert!(!self.finished.contains(&open.version()), "a run that was over is started again: {open:?}");
            *self.starts.entry(open.version()).or_default() += 1;
        }
        // In a tree that was deleted just now it is lost.
        self.jobs.insert(open.job(), files.map_or(Ran::Gone, |files| Ran::Going(files.tree)));
    }

    pub(super) fn on_line<T>(&self, journal: &mut Journal, act: impl FnOnce(&mut Line, &Incumbent) -> T) -> T {
        let running = journal.open.iter().filter(|open| open.draft.is_none());
        let running: Vec<Trial> = running.filter_map(|open| open.trial.clone()).collect();
        let kept = self.records.iter().filter(|record| record.kept);
        let kept: Vec<ExperimentId> = kept.map(|record| record.id.into()).collect();
        let standing = Incumbent {
            incumbent: self.tip().id.into(),
            number: Some(&number(self.value(&self.tip().tree))),
            direction: Direction::Higher,
            min_delta: 0.0,
            kept: &kept,
            running: &running,
            slots: self.slots() as u32,
            may_ask: false,
        };
        act(&mut journal.line, &standing)
    }

    fn end_trial(&self, journal: &mut Journal, trial: &Trial, value: Option<f64>) {
        let number = value.map(number);
        let line = &mut journal.line;
        if let Trial::Afresh(car) = trial {
            return line.ran_afresh(*car, number.map_or(Afresh::Nothing, Afresh::Value));
        }
        let best = line.cars().map(|car| car.number.value).fold(f64::MIN, f64::max);
        let tested = match number {
            Some(number) if number.value <= self.value(&self.tip().tree) => Tested::NotBetter(Some(number)),
            Some(number) if number.value < best => Tested::Better(number),
            Some(number) => Tested::Holds(number),
            None => Tested::NotBetter(None),
        };
        self.on_line(journal, |line, on| line.tested(on, trial, tested));
    }
}

impl Open {
    /// The verdict of its guard, once finished.
    pub(super) fn passed(&self) -> Option<bool> {
        self.draft.as_ref().filter(|draft| draft.change == self.change)?.passed
    }
}

fn number(value: f64) -> Number {
    Number::of(value)
}
