//! A world in which values are known: each tree is a set of experiments, and higher is better.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::domain::Direction;

type Tree = BTreeSet<u32>;

/// A session's winners, the trees of its experiments, and all that was done with them.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) line: Line,
    pub(super) min_delta: f64,
    pub(super) slots: u32,
    pub(super) may_ask: bool,
    pub(super) kept: Vec<ExperimentId>,
    /// The value that each experiment's change adds to a tree.
    pub(super) gains: BTreeMap<u32, f64>,
    /// The value that two changes add beyond that if a tree has both.
    pub(super) pairs: Vec<(u32, u32, f64)>,
    /// Changes whose merged tree ends without a value.
    pub(super) crashes: Vec<(u32, u32)>,
    /// Changes whose merged tree fails a guard.
    pub(super) guarded: Vec<(u32, u32)>,
    /// Changes that conflict.
    pub(super) conflicts: Vec<(u32, u32)>,
    /// Changes that are the same.
    pub(super) same: Vec<(u32, u32)>,
    /// Winners whose conflict with the incumbent the agent can solve.
    pub(super) solvable: BTreeSet<u32>,
    /// Everything that was done, in words.
    pub(super) done: Vec<String>,
    /// The number of times that each experiment was recorded.
    pub(super) recorded: BTreeMap<u32, u32>,
    /// The runs that started and did not end.
    pub(super) running: Vec<Trial>,
    /// The number of finished runs of winners.
    pub(super) runs: usize,
    trees: BTreeMap<u32, Tree>,
    solved: BTreeSet<(u32, u32)>,
    measured: BTreeSet<(ExperimentId, Tree)>,
}

impl World {
    /// A baseline with the value 0, and experiments with these gains from 1 on.
    pub(super) fn new(gains: &[f64]) -> World {
        World {
            line: Line::default(),
            min_delta: 0.0,
            slots: 8,
            may_ask: true,
            kept: vec![ExperimentId::BASELINE],
            gains: (1..).zip(gains.iter().copied()).collect(),
            pairs: Vec::new(),
            crashes: Vec::new(),
            guarded: Vec::new(),
            conflicts: Vec::new(),
            same: Vec::new(),
            solvable: BTreeSet::new(),
            done: Vec::new(),
            recorded: BTreeMap::new(),
            running: Vec::new(),
            runs: 0,
            trees: [(0, Tree::new())].into(),
            solved: BTreeSet::new(),
            measured: BTreeSet::new(),
        }
    }

    pub(super) fn incumbent(&self) -> ExperimentId {
        self.kept[self.kept.len() - 1]
    }

    fn tree(&self, id: ExperimentId) -> &Tree {
        &self.trees[&id.number()]
    }

    /// The tree with these changes; of two that are the same it has one.
    fn with(&self, base: &Tree, ids: &[ExperimentId]) -> Tree {
        base.iter().copied().chain(ids.iter().map(|id| id.number())).collect()
    }

    fn value(&self, tree: &Tree) -> f64 {
        let doubled = self.same.iter().filter(|(one, other)| tree.contains(one) && tree.contains(other));
        let pairs = self.pairs.iter().filter(|(one, other, _)| tree.contains(one) && tree.contains(other));
        tree.iter().map(|id| self.gains[id]).sum::<f64>() + pairs.map(|(.., more)| more).sum::<f64>()
            - doubled.map(|(one, _)| self.gains[one]).sum::<f64>()
    }

    pub(super) fn best(&self) -> f64 {
        self.value(self.tree(self.incumbent()))
    }

    /// Calls `act` with the incumbent's terms.
    fn on<T>(&mut self, act: impl FnOnce(&mut Line, &Incumbent) -> T) -> T {
        let number = number(self.best());
        let incumbent = self.incumbent();
        let direction = Direction::Higher;
        let standing = Incumbent {
            incumbent,
            number: Some(&number),
            direction,
            min_delta: self.min_delta,
            kept: &self.kept,
            running: &self.running,
            slots: self.slots,
            may_ask: self.may_ask,
        };
        act(&mut self.line, &standing)
    }

    /// Experiment `id` ran on `base`; it becomes a winner if it is better.
    pub(super) fn ran(&mut self, id: u32, base: ExperimentId) {
        let tree = self.with(self.tree(base), &[id.into()]);
        let (own, before) = (self.value(&tree), self.value(self.tree(base)));
        self.measured.insert((base, tree.clone()));
        self.trees.insert(id, tree);
        if own - before > self.min_delta {
            self.line.won(Car::new(id.into(), base, number(own), own - before));
        } else {
            self.record(id, "worse than its base");
        }
    }

    fn record(&mut self, id: u32, how: &str) {
        self.done.push(format!("{id} {how}"));
        *self.recorded.entry(id).or_default() += 1;
    }

    /// Takes steps until runs are wanted, and starts those.
    pub(super) fn step(&mut self) -> Vec<Trial> {
        let trials = self.wanted();
        trials.iter().for_each(|trial| self.start(trial));
        trials
    }

    /// Starts a run that is wanted.
    pub(super) fn start(&mut self, trial: &Trial) {
        if !self.running.contains(trial) {
            self.on(|line, standing| line.started(standing, trial));
            self.running.push(trial.clone());
        }
    }

    /// Takes steps until runs are wanted, and returns those. Ends those that nobody waits for.
    pub(super) fn wanted(&mut self) -> Vec<Trial> {
        loop {
            let next = self.on(|line, standing| line.next(standing));
            assert_eq!(self.on(|line, standing| line.next(standing)), next, "asked twice");
            match next {
                LineStep::Try(trials) => {
                    self.running.retain(|trial| trials.contains(trial));
                    return trials;
                }
                LineStep::Merge { onto, car } => {
                    let merged = self.merge(&onto, car);
                    self.line.merged(&onto, car, merged);
                }
                LineStep::Keep { cars, number: value } => {
                    let before = self.tree(self.incumbent()).clone();
                    let mut tree = self.tree(self.incumbent()).clone();
                    for id in &cars {
                        tree.insert(id.number());
                        self.trees.insert(id.number(), tree.clone());
                        self.kept.push(*id);
                    }
                    self.check_gain(&before, &value);
                    self.ends(&cars, "kept");
                }
                LineStep::Replace { car, number: value, replaces } => {
                    let before = self.tree(self.incumbent()).clone();
                    self.kept.push(car);
                    self.check_gain(&before, &value);
                    let replaces: Vec<_> = replaces.iter().map(|id| id.to_string()).collect();
                    self.ends(&[car], &format!("replaces {}", replaces.join(" ")));
                }
                LineStep::Discard { car, why } => {
                    self.record(car.number(), &why.verdict().reason);
                    self.line.left(car);
                }
                LineStep::Ask(car) => {
                    self.done.push(format!("{car} asks"));
                    self.on(|line, standing| line.asked(standing, car));
                    if self.solvable.contains(&car.number()) {
                        self.solved.insert((self.incumbent().number(), car.number()));
                    }
                    self.line.answered(car);
                }
            }
        }
    }

    /// Asserts that the new incumbent is better than the one before.
    fn check_gain(&self, before: &Tree, value: &Number) {
        assert!(self.best() - self.value(before) > self.min_delta, "{:?}", self.done);
        assert_eq!(value.raw, self.best().to_string(), "its value is that of its tree");
    }

    fn ends(&mut self, cars: &[ExperimentId], how: &str) {
        let is_part = |trial: &Trial| matches!(trial, Trial::Train { .. });
        assert!(!self.running.iter().any(is_part), "a part of a train runs to its end: {:?}", self.running);
        for id in cars {
            self.record(id.number(), how);
        }
        self.line.kept(cars);
    }

    fn merge(&self, onto: &[ExperimentId], car: ExperimentId) -> MergedChange {
        let base = self.line.cars().find(|known| known.id == car).map(|car| car.base).unwrap_or_default();
        let target = self.with(self.tree(self.incumbent()), onto);
        let is = |pairs: &[(u32, u32)], other: &u32| {
            pairs.contains(&(*other, car.number())) || pairs.contains(&(car.number(), *other))
        };
        let mut new = target.difference(self.tree(base));
        if target.contains(&car.number()) || target.iter().any(|other| is(&self.same, other)) {
            MergedChange::Empty
        } else if new.any(|other| is(&self.conflicts, other))
            && !(onto.is_empty() && self.solved.contains(&(self.incumbent().number(), car.number())))
        {
            MergedChange::Conflict
        } else {
            MergedChange::Clean
        }
    }

    /// Executes a run that the line wants.
    pub(super) fn run(&mut self, trial: &Trial) {
        self.start(trial);
        self.running.retain(|running| running != trial);
        self.runs += 1;
        match trial {
            Trial::Train { on, cars } => {
                let tree = self.with(self.tree(*on), cars);
                assert!(self.measured.insert((*on, tree.clone())), "{cars:?} measured again on {on}");
                let value = self.value(&tree);
                let alone = cars.iter().map(|id| self.value(self.tree(*id))).fold(f64::MIN, f64::max);
                let names: Vec<_> = cars.iter().map(|id| id.to_string()).collect();
                let spoilt = |pairs: &[(u32, u32)]| pairs.iter().any(|(a, b)| tree.contains(a) && tree.contains(b));
                let tested = if spoilt(&self.crashes) {
                    Tested::NotBetter(None)
                } else if spoilt(&self.guarded) || value - self.value(self.tree(*on)) <= self.min_delta {
                    Tested::NotBetter(Some(number(value)))
                } else if value < alone {
                    Tested::Better(number(value))
                } else {
                    Tested::Holds(number(value))
                };
                self.done.push(format!("try {} on {on}: {value}", names.join(" ")));
                self.on(|line, standing| line.tested(standing, trial, tested));
            }
            Trial::Afresh(id) => {
                self.done.push(format!("afresh {id}"));
                let value = number(self.value(self.tree(*id)));
                self.line.ran_afresh(*id, Afresh::Value(value));
            }
        }
    }

    /// Kills the session: what runs is lost, and what was stored is read again.
    pub(super) fn kill(&mut self) {
        self.running.clear();
        self.read_again();
    }

    /// Kills the session while its runs go on.
    pub(super) fn read_again(&mut self) {
        let stored = serde_json::to_string(&self.line).unwrap();
        self.line = serde_json::from_str(&stored).unwrap();
    }

    /// Runs all that is wanted, one at a time, until nothing is.
    pub(super) fn finish(&mut self) -> Vec<String> {
        for _ in 0..10_000 {
            let trials = self.step();
            let Some(trial) = trials.first() else { return std::mem::take(&mut self.done) };
            self.run(trial);
        }
        panic!("it does not come to an end: {:?}", self.line);
    }
}

fn number(value: f64) -> Number {
    Number::of(value)
}
