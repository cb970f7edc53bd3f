//! One night by one rule of deciding.

use autoresearch::domain::Direction;
use autoresearch::rules::{Bars, KeepBar, MAX_FRESH, NextStep, Sample, next_step, noise, passes_screen, verified};

use crate::world::World;

/// How a night decides.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Policy {
    /// By one run, which has to be better than the incumbent's number by this margin, in deviations of the baseline's runs.
    One { margin: f64 },
    /// By the mean of a fixed number of runs.
    Repeats(u32),
    /// By the functions of the loop.
    Fresh(Bars),
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
    /// The verified gain less the true one, and whether its interval covers that. `None` without a keep.
    pub(crate) verified: Option<(f64, bool)>,
}

/// Verifying runs of each.
const VERIFYING: u64 = 6;

struct Loop {
    world: World,
    night: Night,
    truth: f64,
    claim: f64,
    groups: Vec<Vec<Sample>>,
}

/// A night by a rule.
pub(crate) fn night(policy: Policy, world: World) -> Night {
    let mut night = Loop { world, night: Night::default(), truth: 0.0, claim: 0.0, groups: Vec::new() };
    match policy {
        Policy::One { margin } => {
            let margin = margin * night.world.scenario.baseline;
            night.by_mean(1, margin);
        }
        Policy::Repeats(count) => night.by_mean(count, 0.0),
        Policy::Fresh(bars) => night.by_fresh_runs(&bars),
    }
    night.finish()
}

impl Loop {
    fn keep(&mut self, gain: f64, claim: f64) {
        self.night.keeps += 1;
        self.night.false_keeps += u32::from(gain <= 0.0);
        self.truth += gain;
        self.claim = claim;
    }

    fn mean_of(&mut self, count: u32, mut run: impl FnMut(&mut World, u64) -> Sample) -> f64 {
        let runs = (1..=u64::from(count)).map(|seed| run(&mut self.world, seed).value);
        runs.sum::<f64>() / f64::from(count)
    }

    fn by_mean(&mut self, count: u32, margin: f64) {
        self.claim = self.mean_of(count, World::run_baseline);
        while self.world.used + count <= self.world.scenario.runs {
            let gain = self.world.idea();
            let truth = self.truth + gain;
            let value = self.mean_of(count, |world, seed| world.run(truth, seed));
            if value > self.claim + margin {
                self.keep(gain, value);
            }
        }
    }

    fn by_fresh_runs(&mut self, bars: &Bars) {
        // The first group is the baseline's, and the incumbent's is at the index.
        self.groups = vec![vec![self.world.run_baseline(1)]];
        let bar = KeepBar { direction: Direction::Higher, min_delta: 0.0, bars: *bars };
        let mut incumbent = 0;
        while self.world.is_open() {
            let gain = self.world.idea();
            let screen = self.world.run(self.truth + gain, 1);
            let passes = |groups: &[Vec<Sample>]| {
                passes_screen(&bar, &groups[incumbent], &groups[0], noise(groups).as_ref(), screen)
            };
            if !passes(&self.groups) {
                continue;
            }
            if self.groups[0].len() < MAX_FRESH {
                for seed in 2..=MAX_FRESH as u64 {
                    let run = self.world.run_baseline(seed);
                    self.groups[0].push(run);
                }
                if !passes(&self.groups) {
                    continue;
                }
            }
            self.groups.push(Vec::new());
            let last = self.groups.len() - 1;
            let verdict = loop {
                let noise = noise(&self.groups);
                let verdict = next_step(&bar, &self.groups[incumbent], &self.groups[last], noise.as_ref());
                if verdict != NextStep::Run || !self.world.is_open() {
                    break verdict;
                }
                let run = self.world.run(self.truth + gain, 2 + self.groups[last].len() as u64);
                self.groups[last].push(run);
            };
            if verdict == NextStep::Keep {
                incumbent = last;
                let values = self.groups[last].iter().map(|run| run.value);
                self.keep(gain, values.sum::<f64>() / self.groups[last].len() as f64);
            }
        }
    }

    /// Verifies the best.
    fn finish(mut self) -> Night {
        let night =
            Night { overstated: self.claim - self.truth, gain: self.truth, runs: self.world.used, ..self.night };
        if night.keeps == 0 {
            return night;
        }
        let (mut baseline, mut best) = (Vec::new(), Vec::new());
        for seed in 6..6 + VERIFYING {
            baseline.push(self.world.run(0.0, seed));
            best.push(self.world.run(self.truth, seed));
        }
        self.groups.extend([baseline.clone(), best.clone()]);
        let found = verified(Direction::Higher, &baseline, &best, noise(&self.groups).as_ref());
        let verified =
            found.map(|found| (found.difference - self.truth, (found.low..=found.high).contains(&self.truth)));
        Night { verified, ..night }
    }
}
