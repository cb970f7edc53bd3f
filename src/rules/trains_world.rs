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
    /// What two changes add beyond that if a tree has both.
    pub(super) pairs: Vec<(u32, u32, f64)>,
    /// The models of the slots' GPUs. Values on the second one are higher by a lot.
    pub(super) gpus: Vec<String>,
    /// What a change adds on the second model beyond its gain.
    pub(super) there: BTreeMap<u32, f64>,
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
    /// How often each experiment was recorded.
    pub(super) recorded: BTreeMap<u32, u32>,
    /// The runs that started and did not end.
    pub(super) running: Vec<Trial>,
    /// How many runs of winners ended.
    pub(super) runs: usize,
    trees: BTreeMap<u32, Tree>,
    solved: BTreeSet<(u32, u32)>,
    measured: BTreeSet<(ExperimentId, Tree, Option<String>)>,
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
            gpus: Vec::new(),
            there: BTreeMap::new(),
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

    /// Its value on a model of GPUs.
    fn value_on(&self, tree: &Tree, gpu: Option<&String>) -> f64 {
        let more = || OFFSET + tree.iter().filter_map(|id| self.there.get(id)).sum::<f64>();
        self.value(tree) + if gpu.is_some() && gpu == self.gpus.get(1) { more() } else { 0.0 }
    }

    pub(super) fn best(&self) -> f64 {
        self.value(self.tree(self.incumbent()))
    }

    /// Calls `act` with the incumbent's terms.
    fn on<T>(&mut self, act: impl FnOnce(&mut Line, &Standing) -> T) -> T {
        let number = number(self.best());
        let incumbent = self.incumbent();
        let direction = Direction::Higher;
        let standing = Standing {
            incumbent,
            number: Some(&number),
            direction,
            min_delta: self.min_delta,
            kept: &self.kept,
            running: &self.running,
            slots: self.slots,
            gpus: &self.gpus,
            may_ask: self.may_ask,
        };
        act(&mut self.line, &standing)
    }

    /// Experiment `id` ran on `base`, with two models on that of its number; it becomes a winner if it is better.
    pub(super) fn ran(&mut self, id: u32, base: ExperimentId) {
        let tree = self.with(self.tree(base), &[id.into()]);
        let gpu = if self.gpus.is_empty() { None } else { self.gpus.get(id as usize % 2).cloned() };
        let (own, before) = (self.value_on(&tree, gpu.as_ref()), self.value_on(self.tree(base), gpu.as_ref()));
        self.measured.insert((base, tree.clone(), gpu.clone()));
        self.trees.insert(id, tree);
        if own - before > self.min_delta {
            self.line.won(Car { gpu, ..Car::new(id.into(), base, number(own), own - before) });
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
                LineStep::Keep { cars, number: value, elsewhere } => {
                    let before = self.tree(self.incumbent()).clone();
                    let mut tree = self.tree(self.incumbent()).clone();
                    for id in &cars {
                        tree.insert(id.number());
                        self.trees.insert(id.number(), tree.clone());
                        self.kept.push(*id);
                    }
                    self.check_gain(&before, &value, &elsewhere);
                    self.ends(&cars, "kept");
                }
                LineStep::Replace { car, number: value, elsewhere, replaces } => {
                    let before = self.tree(self.incumbent()).clone();
                    self.kept.push(car);
                    self.check_gain(&before, &value, &elsewhere);
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

    /// What was kept just now is better than what was kept before, and has its number on each model.
    fn check_gain(&self, before: &Tree, value: &Number, elsewhere: &BTreeMap<String, Number>) {
        let tree = self.tree(self.incumbent());
        let gain = |gpu| self.value_on(tree, gpu) - self.value_on(before, gpu);
        let mut values = BTreeSet::new();
        for gpu in &self.gpus {
            assert!(gain(Some(gpu)) >= 0.0, "worse on {gpu}: {:?}", self.done);
            let own = self.value_on(tree, Some(gpu));
            values.insert(own.to_string());
            assert!(elsewhere.get(gpu).is_none_or(|number| number.value == own), "{gpu}: {elsewhere:?}");
        }
        let gains: Vec<f64> =
            if self.gpus.is_empty() { vec![gain(None)] } else { self.gpus.iter().map(|gpu| gain(Some(gpu))).collect() };
        assert!(gains.iter().any(|gain| *gain > self.min_delta), "{:?}", self.done);
        if self.gpus.is_empty() {
            values.insert(self.best().to_string());
        }
        assert!(values.contains(&value.raw), "its value is that of its tree");
        assert_eq!(elsewhere.len(), self.gpus.len().saturating_sub(1), "a number on each model");
    }

    fn ends(&mut self, cars: &[ExperimentId], how: &str) {
        let is_part = |trial: &Trial| matches!(trial, Trial::Train { .. });
        assert!(!self.running.iter().any(is_part), "a part of a train runs to its end: {:?}", self.running);
        for id in cars {
            self.record(id.number(), how);
        }
        self.line.kept(cars);
    }

    fn merge(&self, onto: &[ExperimentId], car: ExperimentId) -> Merged {
        let base = self.line.cars().find(|known| known.id == car).map(|car| car.base).unwrap_or_default();
        let target = self.with(self.tree(self.incumbent()), onto);
        let is = |pairs: &[(u32, u32)], other: &u32| {
            pairs.contains(&(*other, car.number())) || pairs.contains(&(car.number(), *other))
        };
        let mut new = target.difference(self.tree(base));
        if target.contains(&car.number()) || target.iter().any(|other| is(&self.same, other)) {
            Merged::Empty
        } else if new.any(|other| is(&self.conflicts, other))
            && !(onto.is_empty() && self.solved.contains(&(self.incumbent().number(), car.number())))
        {
            Merged::Conflict
        } else {
            Merged::Clean
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
                let gpu = self.gpus.first();
                assert!(self.measured.insert((*on, tree.clone(), gpu.cloned())), "{cars:?} measured again on {on}");
                let value = self.value(&tree);
                let alone = self.best_alone(cars, gpu);
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
            Trial::Elsewhere { on, cars, own, gpu } => {
                let tree = if *own { self.tree(cars[0]).clone() } else { self.with(self.tree(*on), cars) };
                let again = !self.measured.insert((*on, tree.clone(), Some(gpu.clone())));
                assert!(!again || *own, "{cars:?} measured again on {gpu}");
                let value = self.value_on(&tree, Some(gpu));
                let rival = self.value_on(self.tree(*on), Some(gpu));
                let rival = if *own { rival } else { rival.max(self.best_alone(cars, Some(gpu))) };
                let tested = if value >= rival { Tested::Holds(number(value)) } else { Tested::NotBetter(None) };
                let names: Vec<_> = cars.iter().map(|id| id.to_string()).collect();
                let holds = if value >= rival { "holds" } else { "does not hold" };
                self.done.push(format!("{} {holds} on {gpu}", names.join(" ")));
                self.on(|line, standing| line.tested(standing, trial, tested));
            }
            Trial::Afresh(id) => {
                self.done.push(format!("afresh {id}"));
                let value = number(self.value(self.tree(*id)));
                self.line.ran_afresh(*id, Afresh::Value(value));
            }
        }
    }

    /// The best value that one of these cars had alone on a model of GPUs.
    fn best_alone(&self, cars: &[ExperimentId], gpu: Option<&String>) -> f64 {
        let is_there = |id: &ExperimentId| self.line.cars().any(|car| car.id == *id && car.gpu.as_ref() == gpu);
        let values = cars.iter().filter(|id| is_there(id)).map(|id| self.value_on(self.tree(*id), gpu));
        values.fold(f64::MIN, f64::max)
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

/// How much higher values are on the second model of GPUs.
const OFFSET: f64 = 1000.0;

fn number(value: f64) -> Number {
    Number { value, raw: value.to_string() }
}
