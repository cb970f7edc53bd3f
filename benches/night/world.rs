//! The model of a night: ideas, runs and their noise. The unit is the standard deviation of one run; higher is better.

use std::collections::BTreeMap;
use std::ops::Add;

use autoresearch::rules::Sample;

/// The share of ideas that change nothing.
const NULL: f64 = 0.25;
/// The mean gain of a good idea.
const GAIN: f64 = 0.8;
/// The mean loss of a harmful one.
const LOSS: f64 = 1.5;
/// The gain of an idea that games the visible metric, and its gain otherwise.
const GAMING: (f64, f64) = (2.0, -0.5);
/// The deviation between the gain of an idea on the hidden split and its true gain.
const SPLIT: f64 = 0.2;

/// What a night is like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    /// Its name in the table.
    pub(crate) name: &'static str,
    /// The share of good ideas.
    pub(crate) good: f64,
    /// The noise of the baseline's runs, which are the first that tell of it.
    pub(crate) baseline: f64,
    /// Whether the noise has heavy tails: Student's t with 3 degrees of freedom, scaled to the same deviation.
    pub(crate) heavy: bool,
    /// By how much the level has risen at the end of the night, linearly.
    pub(crate) drift: f64,
    /// The share of the variance that the seed explains.
    pub(crate) pairing: f64,
    /// How lucky the screening seed is, in deviations of all seeds; drawn like any other without it.
    pub(crate) screening_seed: Option<f64>,
    /// The number of runs.
    pub(crate) runs: u32,
    /// How what an idea adds depends on the incumbent.
    pub(crate) landscape: Landscape,
    /// The share of ideas that add as much elsewhere as on the visible split, which is the correlation of both gains. Elsewhere
    /// the others add what an independent idea does.
    pub(crate) correlation: f64,
    /// The share of ideas that game the visible metric.
    pub(crate) gaming: f64,
}

/// What an idea adds on each split, or the value of a change there.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Levels {
    /// On the split that each run prints.
    pub(crate) visible: f64,
    /// On the split that no agent sees.
    pub(crate) hidden: f64,
    /// On everything else.
    pub(crate) truth: f64,
}

impl Add for Levels {
    type Output = Levels;

    fn add(self, other: Levels) -> Levels {
        Levels {
            visible: self.visible + other.visible,
            hidden: self.hidden + other.hidden,
            truth: self.truth + other.truth,
        }
    }
}

/// How what an idea adds depends on the incumbent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Landscape {
    /// Not at all.
    Additive,
    /// A third of the ideas harms as much as it is to help until one more change is kept.
    Valleys,
    /// With each keep, a third of the ideas adds something else.
    Regimes,
}

/// An idea.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Idea {
    /// Its gain on the visible split.
    gain: f64,
    /// Its true gain, unless that is the visible one.
    elsewhere: Option<f64>,
    /// Its gain on the hidden split, less the true one.
    split: f64,
    /// The number of keeps at which it was made.
    made_at: u32,
    /// Where its later gains come from.
    seed: u64,
}

/// A night of 100 runs.
pub(crate) const USUAL: Scenario = Scenario {
    name: "15% good ideas",
    good: 0.15,
    baseline: 1.0,
    heavy: false,
    drift: 0.0,
    pairing: 0.0,
    screening_seed: None,
    runs: 100,
    landscape: Landscape::Additive,
    correlation: 1.0,
    gaming: 0.0,
};

/// Random numbers: SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Above 0, up to 1.
    fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// With the mean 1.
    fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }

    /// By Box and Muller.
    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn noise(&mut self, heavy: bool) -> f64 {
        let normal = self.normal();
        if !heavy {
            return normal;
        }
        let squares: f64 = (0..3).map(|_| self.normal().powi(2)).sum();
        // t with 3 degrees of freedom has the variance 3.
        normal / (squares / 3.0).sqrt() / 3.0_f64.sqrt()
    }
}

/// What an idea adds that is good with this probability.
fn gain_of(random: &mut Random, good: f64) -> f64 {
    let (kind, size) = (random.uniform(), random.exponential());
    if kind <= good {
        GAIN * size
    } else if kind <= good + NULL {
        0.0
    } else {
        -LOSS * size
    }
}

/// A night as it goes.
pub(crate) struct World {
    ideas: Random,
    noise: Random,
    /// What ideas add elsewhere, and the noise of the hidden split.
    elsewhere: Random,
    hidden: Random,
    seeds: BTreeMap<u64, f64>,
    /// What it is like.
    pub(crate) scenario: Scenario,
    /// The runs so far.
    pub(crate) used: u32,
}

impl World {
    /// A new night. For the same `seed` and `number` it has the same ideas in the same order, whatever is made of them.
    pub(crate) fn new(scenario: Scenario, seed: u64, number: u64) -> World {
        let mut mixed = Random(seed);
        mixed.0 = mixed.next() ^ number;
        let [ideas, noise, elsewhere, hidden] = [(); 4].map(|()| Random(mixed.next()));
        let seeds = scenario.screening_seed.map(|luck| (1, luck)).into_iter().collect();
        World { ideas, noise, elsewhere, hidden, seeds, scenario, used: 0 }
    }

    /// Returns whether a run is left.
    pub(crate) fn is_open(&self) -> bool {
        self.used < self.scenario.runs
    }

    /// The next idea, after so many keeps.
    pub(crate) fn idea(&mut self, keeps: u32) -> Idea {
        let Scenario { good, correlation, gaming, .. } = self.scenario;
        let gain = gain_of(&mut self.ideas, good);
        let random = &mut self.elsewhere;
        let (games, differs) = (random.uniform() <= gaming, random.uniform() > correlation);
        let (other, split) = (gain_of(random, good), SPLIT * random.normal());
        let (gain, elsewhere) = if games { (GAMING.0, Some(GAMING.1)) } else { (gain, differs.then_some(other)) };
        let seed = if self.scenario.landscape == Landscape::Additive { 0 } else { self.ideas.next() };
        Idea { gain, elsewhere, split, made_at: keeps, seed }
    }

    /// What an idea adds to the incumbent after so many keeps.
    pub(crate) fn gain(&self, idea: Idea, keeps: u32) -> Levels {
        let visible = self.visible_gain(idea, keeps);
        let truth = idea.elsewhere.unwrap_or(visible);
        Levels { visible, hidden: truth + idea.split, truth }
    }

    fn visible_gain(&self, idea: Idea, keeps: u32) -> f64 {
        let mut random = Random(idea.seed);
        let mut is_hit = || random.next().is_multiple_of(3);
        match self.scenario.landscape {
            Landscape::Additive => idea.gain,
            Landscape::Valleys if keeps > idea.made_at => idea.gain,
            Landscape::Valleys => {
                if is_hit() {
                    -idea.gain.abs()
                } else {
                    idea.gain
                }
            }
            Landscape::Regimes => {
                let hits: Vec<bool> = (idea.made_at..keeps).map(|_| is_hit()).collect();
                let changes = hits.into_iter().filter(|hit| *hit);
                changes.fold(idea.gain, |_, _| gain_of(&mut random, self.scenario.good))
            }
        }
    }

    /// What the hidden split gives after a run of code whose value there is `level`.
    pub(crate) fn run_hidden(&mut self, level: f64, seed: u64) -> Sample {
        Sample { seed, value: level + self.hidden.normal() }
    }

    /// A run of code whose true value is `truth`.
    pub(crate) fn run(&mut self, truth: f64, seed: u64) -> Sample {
        let random = &mut self.noise;
        let of_seed = *self.seeds.entry(seed).or_insert_with(|| random.normal());
        let Scenario { pairing, heavy, drift, runs, .. } = self.scenario;
        let noise = pairing.sqrt() * of_seed + (1.0 - pairing).sqrt() * random.noise(heavy);
        let level = drift * f64::from(self.used) / f64::from(runs);
        self.used += 1;
        Sample { seed, value: truth + level + noise }
    }

    /// A run of the baseline, whose true value is 0.
    pub(crate) fn run_baseline(&mut self, seed: u64) -> Sample {
        let Sample { value, .. } = self.run(0.0, seed);
        Sample { seed, value: value * self.scenario.baseline }
    }
}
