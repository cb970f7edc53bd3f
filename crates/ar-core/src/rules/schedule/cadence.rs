//! The pause of a loop between two experiments.
//!
//! The windows and their thresholds are those of the Madani adapter. Its adaptive windows are shorter than 300 s or
//! longer than 1200 s. Below 300 s, a prompt cache stays warm. Between the two, a pause loses the cache and saves too
//! little.

use std::time::Duration;

use serde_json::json;

use crate::domain::{Bound, Cadence, Contract, Record, StopReason, duration_text};
use crate::rules::{CountedOutcome, History, NOVELTY, bring, four_decimals};

/// The pause while the numbers rise, after a change that only rewrote.
const SYNTHESIS_WARM: Duration = Duration::from_secs(60);

/// The same after a change that brought something from outside.
const EXPLORATION_WARM: Duration = Duration::from_secs(180);

/// The pause when keeps fail to come.
const EXPLORATION_COLD: Duration = Duration::from_secs(1500);

/// The pause after an outage or a crash.
const RECOVERY_COLD: Duration = Duration::from_secs(1800);

/// The number of newest values over which a rise keeps the loop warm.
const RISING: usize = 3;

/// After how many experiments without a keep it goes cold.
const COLD_AFTER: u32 = 2;

/// The novelty below which the long pause follows.
const LOW: f64 = 0.3;

/// The novelty above which no pause follows.
const HIGH: f64 = 0.6;

/// The pause between the two.
const HALF_HOUR: Duration = Duration::from_secs(30 * 60);

/// The long pause.
const LONG: Duration = Duration::from_secs(6 * 3600);

/// The longest pause of a loop that nobody looks after.
const UNATTENDED: Duration = Duration::from_secs(90 * 60);

/// The number of long pauses in a row from which an unattended loop ends, instead of shortening them to that.
const CUT_IN_A_ROW: usize = 3;

/// Above the first and below the second a pause loses the prompt cache and wins too little for it.
const DEAD_ZONE: (Duration, Duration) = (Duration::from_secs(300), Duration::from_secs(1200));

/// Warns of a fixed pause in the dead zone.
pub fn cadence_warning(cadence: Cadence) -> Option<String> {
    let Cadence::Fixed(pause) = cadence else { return None };
    let (first, last) = DEAD_ZONE;
    (first < pause && pause < last).then(|| {
        format!(
            "a cadence of {} is in the dead zone of {} to {} s: an agent's prompt cache is lost, and little is saved; write \
             at most 5m or at least 20m, or `adaptive`",
            duration_text(pause),
            first.as_secs(),
            last.as_secs()
        )
    })
}

/// Facts about the last iteration that are not in its record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LastIteration {
    /// True if its change added a file, and so brought in something from outside.
    pub added_files: bool,
    /// True if there was an outage since the pause before.
    pub was_out: bool,
}

/// The continuation of a loop after an iteration.
#[derive(Debug, Clone, PartialEq)]
pub enum Pace {
    /// At once.
    Go,
    /// After a pause.
    Pause {
        /// Its length.
        pause: Duration,
        /// The reason, as a clause.
        why: String,
        /// True if a checkpoint and a summary of the session come before it.
        sums_up: bool,
    },
    /// The loop stops, for this reason.
    End(StopReason),
}

/// Decides how the loop continues after an iteration, by the contract's cadence.
pub fn pace(contract: &Contract, history: &History, iteration: LastIteration) -> Pace {
    let (pause, why) = match contract.cadence {
        None => return Pace::Go,
        Some(Cadence::Fixed(pause)) => (pause, "the cadence".to_owned()),
        Some(Cadence::Adaptive) => adaptive(contract, history, iteration),
        Some(Cadence::Novelty) => match by_novelty(contract, history) {
            Ok(Some(found)) => found,
            Ok(None) => return Pace::Go,
            Err(reason) => return Pace::End(reason),
        },
    };
    let sums_up = contract.cadence == Some(Cadence::Novelty) && pause == LONG;
    if contract.unattended && pause > UNATTENDED {
        let why = format!("{why}; limited to {} instead of {}", duration_text(UNATTENDED), duration_text(pause));
        return Pace::Pause { pause: UNATTENDED, why, sums_up };
    }
    Pace::Pause { pause, why, sums_up }
}

/// The pause by the course of the numbers. What rises stays warm, also where a threshold keeps none of it.
fn adaptive(contract: &Contract, history: &History, iteration: LastIteration) -> (Duration, String) {
    let name = &contract.metric.name;
    let crashed = history
        .without_baseline()
        .next_back()
        .is_some_and(|record| CountedOutcome::of_record(record) == CountedOutcome::Crash);
    if iteration.was_out || crashed {
        let what = if iteration.was_out { "the agent was unavailable" } else { "the last experiment crashed" };
        return (RECOVERY_COLD, format!("recovery-cold: {what}"));
    }
    let newest: Vec<f64> = history.without_baseline().rev().filter_map(|it| it.metric.value).take(RISING).collect();
    let rises = newest.len() == RISING && contract.metric.direction.better(newest[0], newest[RISING - 1]);
    let since_keep = history.since_keep();
    if !rises && since_keep >= COLD_AFTER {
        return (EXPLORATION_COLD, format!("exploration-cold: {since_keep} experiments since the last keep"));
    }
    if history.without_baseline().next_back().is_none() {
        return (SYNTHESIS_WARM, "synthesis-warm: no experiment yet".to_owned());
    }
    let course = if rises { format!("{name} gets better") } else { "keeps are recent".to_owned() };
    match iteration.added_files {
        true => (EXPLORATION_WARM, format!("exploration-warm: {course}, and the last change added files")),
        false => (SYNTHESIS_WARM, format!("synthesis-warm: {course}, and the last change only rewrote")),
    }
}

/// The pause by the novelty of the last experiment, `None` for no pause, as while none has a number; or why the loop ends.
fn by_novelty(contract: &Contract, history: &History) -> Result<Option<(Duration, String)>, StopReason> {
    let range = contract.composite.as_ref().and_then(|composite| composite.axes.get(NOVELTY)?.range);
    let novelty = |record: &Record| record.metrics.get(NOVELTY).map(|number| bring(number, range));
    if history.without_baseline().rev().all(|record| novelty(record).is_none()) {
        return Ok(None);
    }
    let Some(last) = history.without_baseline().next_back().and_then(novelty) else {
        return Ok(Some((HALF_HOUR, format!("the last experiment has no {NOVELTY}"))));
    };
    let text = four_decimals(last);
    if last > HIGH {
        return Ok(None);
    }
    if last >= LOW {
        return Ok(Some((HALF_HOUR, format!("{NOVELTY} {text} is not above {HIGH}"))));
    }
    let row = history.without_baseline().rev().take_while(|record| novelty(record).is_some_and(|it| it < LOW)).count();
    if contract.unattended && row >= CUT_IN_A_ROW {
        let text = format!("cadence: {NOVELTY} was below {LOW} in {row} experiments in a row, the last time {text}");
        return Err(StopReason::reached(Bound::Cadence, true, json!({"experiments": row, "novelty": last}), text));
    }
    Ok(Some((LONG, format!("{NOVELTY} {text} is below {LOW}"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{CommitId, Direction, MetricSource, MetricSpec};
    use crate::rules::sample::record;

    fn contract(cadence: &str, unattended: bool) -> Contract {
        let metric =
            MetricSpec { name: "composite".into(), direction: Direction::Higher, source: MetricSource::default() };
        let (tag, start) = ("t".parse().unwrap(), CommitId::new("c"));
        let contract = Contract::new(tag, metric, "true".into(), start, jiff::Timestamp::UNIX_EPOCH);
        Contract { cadence: Some(cadence.parse().unwrap()), unattended, ..contract }
    }

    /// A baseline, and an experiment for each outcome and number; the number is that of its novelty, too.
    fn history(experiments: &[(&str, Option<f64>)]) -> History {
        let fields = |(place, (outcome, number)): (usize, &(&str, Option<f64>))| {
            let failure = (*outcome == "crash").then(|| json!({"class": "crash", "excerpt": ""}));
            let refused = (*outcome == "refused").then(|| json!({"class": "scope", "excerpt": ""}));
            let outcome = if *outcome == "refused" { "crash" } else { outcome };
            let metrics = number.map_or_else(|| json!({}), |number| json!({"novelty": number}));
            record(json!({"id": place + 1, "outcome": outcome, "failure": failure.or(refused), "metrics": metrics,
                "metric": {"name": "composite", "direction": "higher", "value": number, "raw": null}}))
        };
        let experiments = experiments.iter().enumerate().map(fields);
        History::new([record(json!({}))].into_iter().chain(experiments).collect())
    }

    fn seconds(pace: &Pace) -> u64 {
        match pace {
            Pace::Go => 0,
            Pace::Pause { pause, .. } => pause.as_secs(),
            Pace::End(_) => u64::MAX,
        }
    }

    fn adaptive(experiments: &[(&str, Option<f64>)], added_files: bool, was_out: bool) -> u64 {
        seconds(&pace(&contract("adaptive", false), &history(experiments), LastIteration { added_files, was_out }))
    }

    #[test]
    fn the_adaptive_windows_follow_the_course() {
        let rising = [("keep", Some(0.5)), ("keep", Some(0.55)), ("keep", Some(0.6))];
        assert_eq!([adaptive(&rising, false, false), adaptive(&rising, true, false)], [60, 180]);
        let discarded = [("discard", Some(0.2)), ("discard", Some(0.3)), ("discard", Some(0.4))];
        assert_eq!(adaptive(&discarded, true, false), 180, "it rises, although nothing is kept");
        let falling = [("keep", Some(0.6)), ("discard", Some(0.4)), ("discard", Some(0.3))];
        assert_eq!([adaptive(&falling, false, false), adaptive(&falling, true, false)], [1500, 1500]);
        assert_eq!(adaptive(&falling[..2], false, false), 60, "one without a keep is not two");
        let refused = [("keep", Some(0.6)), ("refused", None), ("refused", None)];
        assert_eq!(adaptive(&refused, false, false), 1500, "what was refused never ran");
        let crashed = [("keep", Some(0.6)), ("crash", None)];
        assert_eq!(adaptive(&crashed, false, false), 1800);
        assert_eq!([adaptive(&rising, true, true), adaptive(&[], false, true)], [1800, 1800], "after an outage");
        assert_eq!(adaptive(&[], false, false), 60);
    }

    #[test]
    fn no_adaptive_window_is_one_that_only_loses_the_cache() {
        let outcomes = [("keep", Some(0.6)), ("keep", Some(0.4)), ("discard", Some(0.3)), ("crash", None)];
        for count in 0..=outcomes.len() {
            for (added_files, was_out) in [(false, false), (false, true), (true, false), (true, true)] {
                let pause = adaptive(&outcomes[..count], added_files, was_out);
                assert!(!(300..=1200).contains(&pause), "{pause}");
            }
        }
    }

    #[test]
    fn the_windows_by_novelty_grow_as_it_falls() {
        let paused = |experiments: &[(&str, Option<f64>)], unattended| {
            seconds(&pace(&contract("novelty", unattended), &history(experiments), LastIteration::default()))
        };
        let one = |novelty| paused(&[("keep", Some(novelty))], false);
        assert_eq!([one(0.61), one(0.6), one(0.3), one(0.29)], [0, 1800, 1800, 21600]);
        let sums_up = |novelty, unattended| {
            let history = history(&[("keep", Some(novelty))]);
            let paced = pace(&contract("novelty", unattended), &history, LastIteration::default());
            matches!(paced, Pace::Pause { sums_up: true, .. })
        };
        assert_eq!([sums_up(0.3, false), sums_up(0.29, false), sums_up(0.29, true)], [false, true, true]);
        assert_eq!(paused(&[("keep", Some(0.9)), ("keep", None)], false), 1800, "no number is no novelty of 0");
        assert_eq!(paused(&[("keep", None)], false), 0, "nothing has a novelty");
        let low = [("discard", Some(0.1)); 4];
        assert_eq!([1, 2, 3, 4].map(|count| paused(&low[..count], false)), [21600; 4]);
        assert_eq!([1, 2].map(|count| paused(&low[..count], true)), [5400; 2]);
        let ended = pace(&contract("novelty", true), &history(&low[..3]), LastIteration::default());
        let Pace::End(reason) = ended else { panic!("{ended:?}") };
        assert_eq!(
            reason.to_string(),
            "cadence: novelty was below 0.3 in 3 experiments in a row, the last time 0.1000"
        );
        let broken = [low[0], low[0], ("discard", Some(0.5)), low[0]];
        assert_eq!(paused(&broken, true), 5400);
    }

    #[test]
    fn a_fixed_pause_in_the_dead_zone_is_warned_of() {
        let warned = |text: &str| cadence_warning(text.parse().unwrap()).is_some();
        assert_eq!(
            ["270s", "5m", "301s", "1199s", "20m", "adaptive"].map(warned),
            [false, false, true, true, false, false]
        );
    }

    #[test]
    fn a_fixed_pause_is_cut_for_a_loop_that_nobody_looks_after() {
        let fixed = |cadence, unattended| pace(&contract(cadence, unattended), &history(&[]), LastIteration::default());
        assert_eq!([seconds(&fixed("2h", false)), seconds(&fixed("20m", true))], [7200, 1200]);
        let why = "the cadence; limited to 1h30m instead of 2h".to_owned();
        assert_eq!(fixed("2h", true), Pace::Pause { pause: Duration::from_secs(5400), why, sums_up: false });
        let none = Contract { cadence: None, ..contract("2h", true) };
        assert_eq!(pace(&none, &history(&[("crash", None)]), LastIteration::default()), Pace::Go);
    }
}
