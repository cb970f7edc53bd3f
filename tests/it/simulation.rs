//! Whole nights in virtual time, over the rules that the loop follows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use autoresearch::domain::{Direction, ExperimentId, Number};
use autoresearch::rules::{
    AttemptPlace, Budgets, BusySlot, CallStart, Capacity, Car, Demand, Durations, Incumbent, Line, LineStep,
    MergedChange, PendingAttempt, Situation, SlotWork, Start, Tested, Trial, schedule,
};

/// A small generator (splitmix64), whose seed is all that is needed to see a night again.
struct Random(u64);

impl Random {
    /// A number from 0 to 1, without 1.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// What an idea adds to the value: 15% are good, with a mean of 0.8, 25% do nothing, and the rest harm.
    fn gain(&mut self) -> f64 {
        let kind = self.unit();
        let size = -0.8 * (1.0 - self.unit()).ln();
        match kind {
            ..0.15 => size,
            0.15..0.4 => 0.0,
            _ => -size,
        }
    }
}

/// A proposal and the seconds that go into it.
#[derive(Debug, Clone, Copy)]
struct Idea {
    gain: f64,
    call: u64,
    run: u64,
    crashes: bool,
}

/// An open attempt: its idea, and the experiment on which it runs, with its value.
struct Open {
    idea: Idea,
    base: ExperimentId,
    base_value: f64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    // At the same moment, calls end before runs: a slot goes on before the next one ends.
    CallEnds(ExperimentId),
    RunEnds(u32),
}

struct Job {
    work: SlotWork,
    began: u64,
    ends: u64,
}

/// A session in which gains add up and no number is noisy.
struct Night<'a> {
    layout: Capacity,
    expected: Durations,
    direction: Direction,
    experiments: Option<u32>,
    deadline: Option<u64>,
    draw: Box<dyn FnMut() -> Idea + 'a>,
    now: u64,
    queue: BinaryHeap<Reverse<(u64, Happening)>>,
    line: Line,
    attempts: Vec<PendingAttempt>,
    open: BTreeMap<ExperimentId, Open>,
    jobs: BTreeMap<u32, Job>,
    kept: Vec<ExperimentId>,
    best: f64,
    made: u32,
    recorded: u32,
    busy: u64,
    trains: u32,
}

impl<'a> Night<'a> {
    fn new(layout: Capacity, expected: [u64; 2], draw: impl FnMut() -> Idea + 'a) -> Night<'a> {
        let [call, run] = expected.map(Duration::from_secs);
        Night {
            layout,
            expected: Durations { run, call },
            direction: Direction::Higher,
            experiments: None,
            deadline: None,
            draw: Box::new(draw),
            now: 0,
            queue: BinaryHeap::new(),
            line: Line::default(),
            attempts: Vec::new(),
            open: BTreeMap::new(),
            jobs: BTreeMap::new(),
            kept: vec![ExperimentId::BASELINE],
            best: 0.0,
            made: 0,
            recorded: 0,
            busy: 0,
            trains: 0,
        }
    }

    /// A value as the metric shows it.
    fn number(&self, gain: f64) -> Number {
        let value = self.direction.gain(gain, 0.0);
        Number::of(value)
    }

    fn incumbent(&self) -> ExperimentId {
        self.kept[self.kept.len() - 1]
    }

    fn on<T>(&mut self, act: impl FnOnce(&mut Line, &Incumbent) -> T) -> T {
        let number = self.number(self.best);
        let (incumbent, direction) = (self.incumbent(), self.direction);
        let slots = self.layout.slots;
        let trial = |job: &Job| if let SlotWork::Trial(trial) = &job.work { Some(trial.clone()) } else { None };
        let running: Vec<Trial> = self.jobs.values().filter_map(trial).collect();
        let standing = Incumbent {
            incumbent,
            number: Some(&number),
            direction,
            min_delta: 0.0,
            kept: &self.kept,
            running: &running,
            slots,
            may_ask: true,
        };
        act(&mut self.line, &standing)
    }

    /// Goes on until `end`, or until nothing happens any more.
    fn live(mut self, end: u64) -> Self {
        self.act();
        while self.queue.peek().is_some_and(|Reverse((at, _))| *at <= end)
            && let Some(Reverse((at, happening))) = self.queue.pop()
        {
            self.now = at;
            match happening {
                Happening::CallEnds(id) => self.place(id, AttemptPlace::Ready),
                Happening::RunEnds(slot) => self.run_ends(slot),
            }
            self.act();
        }
        self.busy += self.jobs.values().map(|job| end - job.began).sum::<u64>();
        self
    }

    fn place(&mut self, id: ExperimentId, place: AttemptPlace) {
        // Ready ones run in the order in which they became ready.
        self.attempts.retain(|attempt| attempt.id != id);
        self.attempts.push(PendingAttempt { id, place });
    }

    fn run_ends(&mut self, slot: u32) {
        let job = self.jobs.remove(&slot).unwrap();
        self.busy += job.ends - job.began;
        match job.work {
            SlotWork::Run(id) => {
                let Open { idea, base, base_value } = self.open[&id];
                if idea.crashes || idea.gain <= 0.0 {
                    return self.record(id);
                }
                let number = self.number(base_value + idea.gain);
                self.line.won(Car::new(id, base, number, idea.gain));
                self.place(id, AttemptPlace::Winner);
            }
            SlotWork::Trial(Trial::Train { on, cars }) => {
                self.trains += 1;
                assert_eq!(on, self.incumbent(), "nothing overtakes a train that holds");
                let sum: f64 = cars.iter().map(|id| self.open[id].idea.gain).sum();
                let tested = Tested::Holds(self.number(self.best + sum));
                self.on(|line, standing| line.tested(standing, &Trial::Train { on, cars }, tested));
            }
            other => panic!("{other:?}, where each adds to every other and no check is due"),
        }
    }

    fn record(&mut self, id: ExperimentId) {
        self.attempts.retain(|attempt| attempt.id != id);
        self.open.remove(&id);
        self.recorded += 1;
    }

    /// Takes the steps of the line, then starts what the scheduler says.
    fn act(&mut self) {
        let trials = self.settle();
        let left = |ends: u64| Duration::from_secs(ends.saturating_sub(self.now));
        let running =
            |(slot, job): (&u32, &Job)| BusySlot { slot: *slot, work: job.work.clone(), left: left(job.ends) };
        let running: Vec<BusySlot> = self.jobs.iter().map(running).collect();
        let experiments = self.experiments.map(|limit| limit - self.recorded);
        let plan = schedule(&Situation {
            layout: self.layout,
            demand: Demand::New,
            attempts: &self.attempts,
            running: &running,
            trials: &trials,
            check_due: None,
            expected: self.expected,
            budgets: Budgets { experiments, time: self.deadline.map(left) },
        });
        assert!(plan.stops.is_empty());
        plan.starts.into_iter().for_each(|start| self.start(start));
        plan.calls.into_iter().for_each(|call| self.call(call));
    }

    fn start(&mut self, Start { slot, work }: Start) {
        let (incumbent, best) = (self.incumbent(), self.best);
        let seconds = match &work {
            SlotWork::Run(id) => {
                self.place(*id, AttemptPlace::Slot);
                // A stale change is merged before it runs.
                let open = self.open.get_mut(id).unwrap();
                (open.base, open.base_value) = (incumbent, best);
                open.idea.run
            }
            SlotWork::Trial(trial) => {
                self.on(|line, standing| line.started(standing, trial));
                self.expected.run.as_secs()
            }
            SlotWork::Check(_) => panic!("a check, which is never due"),
        };
        let ends = self.now + seconds;
        let before = self.jobs.insert(slot, Job { work, began: self.now, ends });
        assert!(before.is_none() && slot < self.layout.slots, "one thing at a time in a slot");
        self.queue.push(Reverse((ends, Happening::RunEnds(slot))));
    }

    fn call(&mut self, CallStart { seat, attempt }: CallStart) {
        assert_eq!(attempt, None);
        self.made += 1;
        let id = ExperimentId::from(self.made);
        let idea = (self.draw)();
        self.open.insert(id, Open { idea, base: self.incumbent(), base_value: self.best });
        self.place(id, AttemptPlace::Seat(seat));
        self.queue.push(Reverse((self.now + idea.call, Happening::CallEnds(id))));
    }

    fn settle(&mut self) -> Vec<Trial> {
        loop {
            match self.on(|line, standing| line.next(standing)) {
                LineStep::Try(trials) => return trials,
                LineStep::Merge { onto, car } => self.line.merged(&onto, car, MergedChange::Clean),
                LineStep::Keep { cars, number, .. } => {
                    self.best = self.direction.gain(number.value, 0.0);
                    self.kept.extend(&cars);
                    self.line.kept(&cars);
                    cars.into_iter().for_each(|id| self.record(id));
                }
                LineStep::Discard { car, .. } => {
                    self.line.left(car);
                    self.record(car);
                }
                step => panic!("nothing conflicts and all adds up: {step:?}"),
            }
        }
    }
}

/// How many runs follow each other in a slot in the first simulation.
const ROUNDS: u64 = 100;

/// The gain of a night with trains. A round is the length of a run, and a call takes no time.
fn trains(slots: u32, seed: u64) -> f64 {
    let mut random = Random(seed);
    let draw = || Idea { gain: random.gain(), call: 0, run: 1, crashes: false };
    Night::new(Capacity { slots, ahead: 0, calls: Some(slots) }, [0, 1], draw).live(ROUNDS).best
}

/// The gain if winners are measured on the incumbent one at a time, the largest gain first.
fn one_at_a_time(slots: u32, seed: u64) -> f64 {
    let mut random = Random(seed);
    // What a slot runs: a new idea on this many keeps, or a winner that is measured again.
    let mut work: Vec<(f64, Option<u32>)> = (0..slots).map(|_| (random.gain(), Some(0))).collect();
    let (mut best, mut keeps, mut waiting) = (0.0, 0, Vec::new());
    let mut replays = false;
    for _ in 0..ROUNDS {
        for slot in &mut work {
            let (gain, base) = *slot;
            replays &= base.is_some();
            if base.is_none() || (gain > 0.0 && base == Some(keeps) && !replays) {
                (best, keeps) = (best + gain, keeps + 1);
            } else if gain > 0.0 {
                waiting.push(gain);
            }
            let by_gain = |one: &usize, other: &usize| f64::total_cmp(&waiting[*one], &waiting[*other]);
            let candidates = if replays { 0 } else { waiting.len() };
            *slot = match (0..candidates).max_by(by_gain) {
                Some(largest) => (waiting.swap_remove(largest), None),
                None => (random.gain(), Some(keeps)),
            };
            replays |= slot.1.is_none();
        }
    }
    best
}

/// The gain if a tree is kept where it is better than the best one, whatever it was made on.
fn best_tree(slots: u32, seed: u64) -> f64 {
    let mut random = Random(seed);
    let mut work: Vec<f64> = (0..slots).map(|_| random.gain()).collect();
    let mut best = 0.0_f64;
    for _ in 0..ROUNDS {
        for slot in &mut work {
            best = best.max(*slot);
            *slot = best + random.gain();
        }
    }
    best
}

/// The mean of some nights, and its standard error.
fn mean(nights: u64, night: impl Fn(u64) -> f64) -> (f64, f64) {
    let gains: Vec<f64> = (0..nights).map(night).collect();
    let mean = gains.iter().sum::<f64>() / nights as f64;
    let variance = gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>() / (nights - 1) as f64;
    (mean, (variance / nights as f64).sqrt())
}

#[test]
fn trains_gain_several_times_what_one_at_a_time_does() {
    // The nights of trains are fewer, as they follow all rules.
    for (slots, nights, expected) in [(64, 12, [744.0, 255.0, 177.0]), (8, 60, [85.0, 82.0, 64.0])] {
        let found = [
            mean(nights, |seed| trains(slots, seed)),
            mean(100, |seed| one_at_a_time(slots, seed)),
            mean(100, |seed| best_tree(slots, seed)),
        ];
        for ((gain, error), expected) in found.into_iter().zip(expected) {
            println!("{slots:>2} slots: {gain:6.1} ± {error:.1}, expected {expected}");
            let tolerance = 3.0 * error + 0.01 * expected;
            assert!((gain - expected).abs() < tolerance, "{slots} slots: {gain} ± {error} instead of {expected}");
        }
        let [with_trains, one_at_a_time, best_tree] = found.map(|(gain, _)| gain);
        assert!(with_trains > one_at_a_time && one_at_a_time > best_tree, "{slots} slots");
    }
}

/// Ideas of which a fifth is kept and a tenth crashes, at some time of its run. Calls take 30 to 300 seconds, runs 300.
fn hard_ideas(seed: u64) -> impl FnMut() -> Idea {
    let mut random = Random(seed);
    move || {
        let (kind, crashes_at) = (random.unit(), random.unit());
        let crashes = kind < 0.1;
        let run = if crashes { (300.0 * crashes_at) as u64 } else { 300 };
        let gain = if kind >= 0.8 { 1.0 } else { -1.0 };
        Idea { gain, call: 30 + (270.0 * random.unit()) as u64, run, crashes }
    }
}

#[test]
fn slots_stay_busy_for_ten_hours() {
    let hours = 10 * 3600;
    for slots in [8, 64] {
        let layout = Capacity { slots, ahead: 4, calls: Some(u32::MAX) };
        let night = Night::new(layout, [165, 300], hard_ideas(slots.into())).live(hours);
        let share = night.busy as f64 / (hours * u64::from(slots)) as f64;
        println!("{slots:>2} slots: {share:.4} busy, {} experiments, {} trains", night.recorded, night.trains);
        assert!(share >= 0.98, "{slots} slots are busy for {share}");
    }
}

#[test]
fn no_winner_is_left_over_at_a_deadline() {
    for seed in 0..20 {
        let layout = Capacity { slots: 8, ahead: 1, calls: None };
        let deadline = 3600 + 37 * seed;
        let night = Night { deadline: Some(deadline), ..Night::new(layout, [165, 300], hard_ideas(seed)) };
        let night = night.live(u64::MAX);
        assert!(night.now <= deadline, "it ends {} s late", night.now - deadline);
        assert_eq!(night.line.cars().count(), 0, "seed {seed}");
        assert!(night.trains > 0 && night.best > 0.0);
    }
}

#[test]
fn eight_slots_end_where_one_does() {
    let best = |slots: u32, ahead: u32, seed: u64| {
        let mut random = Random(seed);
        let draw = || {
            // Multiples of a power of two add up without rounding.
            let gain = (random.gain() * 1024.0).round() / 1024.0;
            Idea { gain, call: 30 + (270.0 * random.unit()) as u64, run: 300, crashes: false }
        };
        let layout = Capacity { slots, ahead, calls: None };
        let night = Night::new(layout, [165, 300], draw);
        let night = Night { direction: Direction::Lower, experiments: Some(200), ..night }.live(u64::MAX);
        assert_eq!((night.recorded, night.attempts.len()), (200, 0));
        (night.best, night.kept.len())
    };
    for seed in 0..10 {
        let mut random = Random(seed);
        let gains = (0..200).map(|_| {
            let gain = (random.gain() * 1024.0).round() / 1024.0;
            random.unit();
            gain
        });
        let good: Vec<f64> = gains.filter(|gain| *gain > 0.0).collect();
        let expected = (good.iter().sum(), good.len() + 1);
        assert_eq!(best(1, 0, seed), expected);
        assert_eq!(best(8, 1, seed), expected);
    }
}
