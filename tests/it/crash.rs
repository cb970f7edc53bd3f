//! Killed at each named point, a session goes on as if nothing had been.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread;

use proptest::prelude::*;

use crate::cli::program_sources;
use crate::crash_points::{BETWEEN_SESSIONS, IN_CARRYING, IN_CLUSTER, IN_CONFIRMING, IN_IMPORT, IN_LANES, POINTS};
use crate::crash_scenario::{Kill, Scenario, Session, Trace};
use crate::kill::soak;
use crate::outcome::assert_outcome;

/// How many sessions go on at the same time; each of them mostly waits for the disk.
const AT_ONCE: usize = 8;

/// A session that nobody kills.
struct Whole {
    scenario: Scenario,
    outcome: String,
    trace: Trace,
    /// The points that it passes, in their order.
    passed: Vec<&'static str>,
}

static WHOLE: LazyLock<Vec<Whole>> = LazyLock::new(|| {
    in_parallel(&Scenario::ALL, |&scenario| {
        let mut session = Session::new(scenario);
        let trace = session.step(None).unwrap();
        session.check_runs(0);
        session.check_told(0);
        Whole { scenario, outcome: session.outcome(), trace, passed: session.passed() }
    })
});

impl Whole {
    /// Plays the same session with kills, one after the other, and checks what comes of it. Gives which points each call
    /// passed; the last one came to the end.
    fn play(&self, kills: &[Kill]) -> Vec<Trace> {
        let mut session = Session::new(self.scenario);
        let mut traces = Vec::new();
        let (mut lost, mut over) = (0, false);
        for kill in kills {
            match session.step(Some(kill)) {
                Err(trace) => {
                    // A session that was taken back by then is opened anew.
                    lost += usize::from(kill.point == "abandon.file_removed");
                    traces.push(trace);
                }
                Ok(trace) => {
                    let passed = trace.get(kill.point).is_some_and(|times| *times >= kill.time);
                    assert!(kill.is_of_shim() || !passed, "{kill:?} killed nobody");
                    lost += usize::from(passed);
                    traces.push(trace);
                    over = true;
                    break;
                }
            }
        }
        if !over {
            traces.push(session.step(None).unwrap());
        }
        session.check_runs(lost);
        session.check_told(kills.len());
        assert_outcome(&session.outcome(), &self.outcome, &format!("{:?} killed at {kills:?}", self.scenario));
        traces
    }
}

/// Does the same with many things, some at a time; the results are in their order.
pub(crate) fn in_parallel<T: Sync, R: Send>(things: &[T], act: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(thing) = things.get(index) else { return };
                    let result = act(thing);
                    results.lock().unwrap().insert(index, result);
                }
            });
        }
    });
    results.into_inner().unwrap().into_values().collect()
}

/// Where a session is killed first, and the points that it passes on the way back.
struct Start {
    whole: &'static Whole,
    first: Kill,
    later: Mutex<Vec<&'static str>>,
}

impl Start {
    /// Its scenario, and after how many points of it the kill comes.
    fn place(&self) -> (usize, usize) {
        let scenario = Scenario::ALL.iter().position(|scenario| *scenario == self.whole.scenario).unwrap();
        let times = self.whole.passed.iter().enumerate().filter(|(_, point)| **point == self.first.point);
        (scenario, times.map(|(place, _)| place).nth(self.first.time - 1).unwrap())
    }
}

/// Starts whose kills one session can meet, two at most: the second one on the way back from the first. A session whose shim
/// was killed has none.
fn pairs(mut starts: Vec<Start>) -> Vec<Vec<Start>> {
    starts.sort_by_key(Start::place);
    let mut pairs: Vec<Vec<Start>> = Vec::new();
    for start in starts {
        match pairs.last_mut() {
            Some(pair)
                if pair.len() == 1 && !pair[0].first.is_of_shim() && pair[0].whole.scenario == start.whole.scenario =>
            {
                pair.push(start);
            }
            _ => pairs.push(vec![start]),
        }
    }
    pairs
}

/// One start at each point, and for a soak then one for each other time that any session passes it.
fn starts() -> [Vec<Start>; 2] {
    let [mut first, mut more] = [Vec::new(), Vec::new()];
    for (index, &point) in POINTS.iter().enumerate() {
        let passing: Vec<_> = WHOLE.iter().filter(|whole| whole.trace.contains_key(point)).collect();
        let Some(&chosen) = passing.get(index % passing.len().max(1)) else { continue };
        let at = 1 + index * 7 % chosen.trace[point];
        let start = |whole: &'static Whole, time| Start { whole, first: Kill { point, time }, later: Mutex::default() };
        first.push(start(chosen, at));
        if soak().is_some() {
            let all = passing.iter().flat_map(|whole| (1..=whole.trace[point]).map(|time| start(whole, time)));
            more.extend(all.filter(|start| start.first.time != at || !std::ptr::eq(start.whole, chosen)));
        }
    }
    [first, more]
}

/// How often each point was chosen for a kill on the way back; those that were only passed are there as well.
#[derive(Default)]
struct Tally(Mutex<BTreeMap<&'static str, u32>>);

impl Tally {
    fn note_passed(&self, trace: &Trace) {
        let mut tally = self.0.lock().unwrap();
        for point in trace.keys() {
            tally.entry(point).or_insert(0);
        }
    }

    /// Takes the one of `points` that was chosen least.
    fn choose(&self, points: &mut Vec<&'static str>) -> Option<&'static str> {
        let mut tally = self.0.lock().unwrap();
        points.sort_by_key(|point| std::cmp::Reverse((point.starts_with("shim."), tally.get(point).copied())));
        let point = points.pop()?;
        *tally.entry(point).or_insert(0) += 1;
        Some(point)
    }
}

#[test]
fn a_session_that_is_killed_at_any_point_ends_as_if_nothing_had_been() {
    let tally = Tally::default();
    WHOLE.iter().for_each(|whole| tally.note_passed(&whole.trace));
    let kills = AtomicU64::new(0);
    let play = |whole: &Whole, at: &[Kill]| {
        kills.fetch_add(at.len() as u64, Ordering::Relaxed);
        let traces = panic::catch_unwind(AssertUnwindSafe(|| whole.play(at))).ok();
        if traces.is_none() {
            eprintln!("that was {:?} killed at {at:?}", whole.scenario);
        }
        traces.iter().flatten().for_each(|trace| tally.note_passed(trace));
        traces
    };
    let is_enough = || soak().is_some_and(|wanted| kills.load(Ordering::Relaxed) >= wanted);
    let [first, more] = starts();
    if soak().is_none() {
        // A suite that is called often has no time to kill a session twice at each point, nor at each pair of them.
        let ended_well = in_parallel(&pairs(first), |pair| {
            let later = pair.iter().skip(1).map(|start| Kill { point: start.first.point, time: 1 });
            let kills: Vec<_> = pair.iter().take(1).map(|start| start.first.clone()).chain(later).collect();
            let Some(traces) = play(pair[0].whole, &kills) else { return false };
            let is_missed = |start: &&Start| !traces[1..].iter().any(|trace| trace.contains_key(start.first.point));
            let mut missed = pair.iter().skip(1).filter(is_missed);
            missed.all(|start| play(start.whole, std::slice::from_ref(&start.first)).is_some())
        });
        assert!(!ended_well.contains(&false), "what came of each of them is told above");
        return assert_passed(tally);
    }
    for starts in [first, more] {
        for round in 0.. {
            let ended_well = in_parallel(&starts, |Start { whole, first, later }| {
                if is_enough() {
                    return true;
                }
                if round == 0 {
                    // Twice in a row; what is passed then is where it is killed on the way back.
                    let again = Kill { point: first.point, time: 1 };
                    let Some(traces) = play(whole, &[first.clone(), again]) else { return false };
                    let points: BTreeSet<_> = traces[1..].iter().flat_map(Trace::keys).copied().collect();
                    later.lock().unwrap().extend(points);
                    return true;
                }
                let chosen = tally.choose(&mut later.lock().unwrap());
                chosen.is_none_or(|point| play(whole, &[first.clone(), Kill { point, time: 1 }]).is_some())
            });
            assert!(!ended_well.contains(&false), "what came of each of them is told above");
            if is_enough() || starts.iter().all(|start| start.later.lock().unwrap().is_empty()) {
                break;
            }
        }
        eprintln!("each pair from {} starts was killed; {} kills so far", starts.len(), kills.load(Ordering::Relaxed));
    }
}

/// Checks that sessions passed all points.
fn assert_passed(tally: Tally) {
    let tally = tally.0.into_inner().unwrap();
    let missed: Vec<_> = POINTS.iter().filter(|point| !tally.contains_key(**point)).collect();
    assert!(missed.is_empty(), "no session passes {missed:?}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: soak().map_or(4, |kills| u32::try_from(kills / 3).unwrap_or(u32::MAX)),
        failure_persistence: None,
        max_shrink_iters: 20,
        ..ProptestConfig::default()
    })]

    #[test]
    fn kills_in_any_order_change_nothing_about_a_session(
        scenario in 0..Scenario::ALL.len(),
        kills in prop::collection::vec((any::<prop::sample::Index>(), 1..4_usize), 1..5),
    ) {
        let whole = &WHOLE[scenario];
        let points: Vec<_> = whole.trace.keys().copied().filter(|point| !point.starts_with("shim.")).collect();
        let kills: Vec<_> = kills.iter().map(|(index, time)| Kill { point: points[index.index(points.len())], time: *time }).collect();
        whole.play(&kills);
    }
}

/// What a call was killed at by chance once, each with what was lost then.
#[test]
fn kills_that_once_lost_something_change_nothing() {
    // A file of the version that is to be reworked was put back, and then taken for one that somebody had added.
    let kills = [("running.entered", 1), ("artifacts.set_aside", 2), ("git.file_put_back", 3)];
    let guards = WHOLE.iter().find(|whole| whole.scenario == Scenario::Guards).unwrap();
    guards.play(&kills.map(|(point, time)| Kill { point, time }));
}

#[test]
fn the_list_of_points_is_that_of_the_sources() {
    let mut named = BTreeSet::new();
    for path in program_sources() {
        let text = fs::read_to_string(&path).unwrap();
        let in_shim = path.ends_with("exec/shim.rs");
        for rest in text.split("crash::point(\"").skip(1) {
            let name = rest.split('"').next().unwrap();
            named.insert(if in_shim { format!("shim.{name}") } else { name.to_owned() });
        }
    }
    let listed: BTreeSet<_> = [POINTS, IN_LANES, BETWEEN_SESSIONS, IN_CONFIRMING, IN_IMPORT, IN_CLUSTER, IN_CARRYING]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect();
    assert!(named.is_subset(&listed), "not in the list: {:?}", named.difference(&listed));
    for name in &listed {
        // What the state files pass is passed by the shim as well.
        let known = named.contains(name) || name.strip_prefix("shim.").is_some_and(|name| named.contains(name));
        assert!(known, "{name} is not in the sources");
    }
    assert!(POINTS.is_sorted() && IN_LANES.is_sorted() && BETWEEN_SESSIONS.is_sorted());
}
