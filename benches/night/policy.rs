//! One night by one rule of deciding.

use autoresearch::domain::{CommitId, Contract, Decide, Direction, Outcome, Record, SecondLook};
use autoresearch::rules::{
    Bars, History, KeepBar, MAX_FRESH, NextStep, Sample, Screen, judge_screen, next_step, noise, sample,
    second_look_due, verified,
};
use serde_json::json;

use crate::world::{Levels, World};

/// How a night decides.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Policy {
    /// By one run, which has to be better than the incumbent's number by this margin, in deviations of the baseline's runs.
    One { margin: f64 },
    /// By the mean of a fixed number of runs.
    Repeats(u32),
    /// By the functions of the loop, with a second look after so many changes without a keep; 0 for none.
    Fresh(Bars, u32),
    /// Likewise, without second looks, by the hidden values of the fresh runs.
    Hidden(Bars),
}

/// What a night gave.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Night {
    /// Keeps.
    pub(crate) keeps: u32,
    /// Keeps that add nothing or harm.
    pub(crate) false_keeps: u32,
    /// The claimed number of the best, less its true one.
    pub(crate) overstated: f64,
    /// The true gain of the best over the baseline.
    pub(crate) gain: f64,
    /// Runs.
    pub(crate) runs: u32,
    /// Second looks.
    pub(crate) looks: u32,
    /// Those that were kept.
    pub(crate) looks_kept: u32,
    /// The verified gain less the true one, and whether its interval covers that. `None` without a keep.
    pub(crate) verified: Option<(f64, bool)>,
}

/// Verifying runs of each.
const VERIFYING: u64 = 6;

struct Loop {
    world: World,
    night: Night,
    level: Levels,
    claim: f64,
    groups: Vec<Vec<Sample>>,
    /// The hidden values of the same runs.
    hidden: Vec<Vec<Sample>>,
    /// What the rule of second looks is told.
    history: History,
}

/// A night by a rule.
pub(crate) fn night(policy: Policy, world: World) -> Night {
    let mut night = Loop {
        world,
        night: Night::default(),
        level: Levels::default(),
        claim: 0.0,
        groups: Vec::new(),
        hidden: Vec::new(),
        history: History::default(),
    };
    match policy {
        Policy::One { margin } => {
            let margin = margin * night.world.scenario.baseline;
            night.by_mean(1, margin);
        }
        Policy::Repeats(count) => night.by_mean(count, 0.0),
        Policy::Fresh(bars, second_look) => night.by_fresh_runs(&bars, second_look, false),
        Policy::Hidden(bars) => night.by_fresh_runs(&bars, 0, true),
    }
    night.finish()
}

/// A record with these runs; a single one selected the change.
fn recorded(id: usize, samples: &[Sample]) -> Record {
    let role = if id == 0 {
        "baseline"
    } else if samples.len() > 1 {
        "confirm"
    } else {
        "screen"
    };
    let runs = samples.iter().map(|it| {
        let mut run = sample::run(1.0, Some(it.value));
        (run["role"], run["seed"]) = (json!(role), json!(it.seed));
        run
    });
    let mean = samples.iter().map(|it| it.value).sum::<f64>() / samples.len() as f64;
    let metric = json!({"name": "loss", "direction": "higher", "value": mean, "raw": mean.to_string()});
    let runs: Vec<_> = runs.collect();
    sample::record(json!({"id": id, "sequence": id, "commit": format!("c{id}"), "metric": metric, "runs": runs}))
}

impl Loop {
    fn keep(&mut self, gain: Levels, claim: f64) {
        self.night.keeps += 1;
        self.night.false_keeps += u32::from(gain.truth <= 0.0);
        self.level = self.level + gain;
        self.claim = claim;
    }

    fn mean_of(&mut self, count: u32, mut run: impl FnMut(&mut World, u64) -> Sample) -> f64 {
        let runs = (1..=u64::from(count)).map(|seed| run(&mut self.world, seed).value);
        runs.sum::<f64>() / f64::from(count)
    }

    fn by_mean(&mut self, count: u32, margin: f64) {
        self.claim = self.mean_of(count, World::run_baseline);
        while self.world.used + count <= self.world.scenario.runs {
            let idea = self.world.idea(self.night.keeps);
            let gain = self.world.gain(idea, self.night.keeps);
            let level = self.level + gain;
            let value = self.mean_of(count, |world, seed| world.run(level.visible, seed));
            if value > self.claim + margin {
                self.keep(gain, value);
            }
        }
    }

    /// Runs the baseline with a seed, on both splits.
    fn run_baseline(&mut self, seed: u64) {
        let run = self.world.run_baseline(seed);
        self.groups[0].push(run);
        self.hidden[0].push(self.world.run_hidden(0.0, seed));
    }

    fn by_fresh_runs(&mut self, bars: &Bars, second_look: u32, is_hidden: bool) {
        // The first group is the baseline's, and the incumbent's is at the index.
        (self.groups, self.hidden) = (vec![Vec::new()], vec![Vec::new()]);
        self.run_baseline(1);
        let bar = KeepBar { direction: Direction::Higher, min_delta: 0.0, bars: *bars };
        let contract = Contract { decide: Decide::Confirmed, second_look, ..sample::contract("true") };
        let (mut incumbent, mut failed) = (0, Vec::new());
        let mut ideas = vec![None];
        self.history.push(recorded(0, &self.groups[0]));
        while self.world.is_open() {
            let keeps = self.night.keeps;
            let look = second_look_due(&contract, &self.history);
            let looked = look.as_ref().and_then(|look| ideas[look.of.number() as usize]);
            let idea = looked.unwrap_or_else(|| self.world.idea(keeps));
            ideas.push(Some(idea));
            let gain = self.world.gain(idea, keeps);
            let level = self.level + gain;
            let seed = look.as_ref().map_or(1, |look| look.seed);
            let first = self.world.run(level.visible, seed);
            let fails = |groups: &[Vec<Sample>], failed: &[f64]| {
                let against = (&*groups[incumbent], &*groups[0]);
                judge_screen(&bar, against, noise(groups, true).as_ref(), failed, first) == Screen::Failed
            };
            let mut has_failed = look.is_none() && fails(&self.groups, &failed);
            if !has_failed && self.groups[0].len() < MAX_FRESH {
                for seed in 2..=MAX_FRESH as u64 {
                    self.run_baseline(seed);
                }
                self.history.amend(recorded(0, &self.groups[0]));
                has_failed = look.is_none() && fails(&self.groups, &failed);
            }
            if has_failed {
                failed.push(first.value);
                self.record(Outcome::Discard, &[first], None);
                continue;
            }
            failed.clear();
            // The first run of a second look counts.
            self.groups.push(look.iter().map(|_| first).collect());
            self.hidden.push(look.iter().map(|_| self.world.run_hidden(level.hidden, seed)).collect());
            let last = self.groups.len() - 1;
            let verdict = loop {
                let deciding = if is_hidden { &self.hidden } else { &self.groups };
                let noise = noise(deciding, true);
                let verdict = next_step(&bar, &deciding[incumbent], &deciding[last], noise.as_ref());
                if verdict != NextStep::Run || !self.world.is_open() {
                    break verdict;
                }
                let next = if look.is_some() { seed } else { 2 } + self.groups[last].len() as u64;
                let run = self.world.run(level.visible, next);
                self.groups[last].push(run);
                self.hidden[last].push(self.world.run_hidden(level.hidden, next));
            };
            let is_kept = verdict == NextStep::Keep;
            let outcome = if is_kept { Outcome::Keep } else { Outcome::Discard };
            let runs = self.groups[last].clone();
            self.night.looks += u32::from(look.is_some());
            self.night.looks_kept += u32::from(look.is_some() && is_kept);
            self.record(outcome, &runs, look);
            if is_kept {
                incumbent = last;
                self.keep(gain, runs.iter().map(|run| run.value).sum::<f64>() / runs.len() as f64);
            }
        }
    }

    /// Notes the record of a change on the incumbent that has these runs.
    fn record(&mut self, outcome: Outcome, samples: &[Sample], second_look: Option<SecondLook>) {
        let id = self.history.records().len();
        let base = self.history.incumbent().map_or("b0".to_owned(), |record| record.commit.to_string());
        let mut record = recorded(id, samples);
        (record.base, record.outcome) = (CommitId::new(base), outcome);
        record.beside.second_look = second_look;
        self.history.push(record);
    }

    /// Verifies the best.
    fn finish(mut self) -> Night {
        let truth = self.level.truth;
        let night = Night { overstated: self.claim - truth, gain: truth, runs: self.world.used, ..self.night };
        if night.keeps == 0 {
            return night;
        }
        let (mut baseline, mut best) = (Vec::new(), Vec::new());
        for seed in 6..6 + VERIFYING {
            baseline.push(self.world.run(0.0, seed));
            best.push(self.world.run(truth, seed));
        }
        self.groups.extend([baseline.clone(), best.clone()]);
        let found = verified(Direction::Higher, &baseline, &best, noise(&self.groups, true).as_ref());
        let verified = found.map(|found| (found.difference - truth, (found.low..=found.high).contains(&truth)));
        Night { verified, ..night }
    }
}
