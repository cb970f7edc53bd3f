use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::domain::{OutageKind, Tokens};
use crate::rules::sample::{contract, record};

const HOUR: i64 = 3600;

fn at(hours: i64) -> Timestamp {
    Timestamp::from_second(hours * HOUR).unwrap()
}

fn moment(hours: i64, next: u32) -> Moment {
    Moment { now: at(hours), next, budget: None, until: None }
}

fn caps(experiments: u32) -> NightCaps {
    NightCaps { experiments: Some(experiments), ..NightCaps::default() }
}

fn begins(caps: NightCaps) -> Tonight {
    Tonight { begins: true, is_typed: true, caps, anew: NightCaps::default(), budget: None, until: false }
}

fn resumes(caps: NightCaps) -> Tonight {
    Tonight { begins: false, is_typed: false, ..begins(caps) }
}

fn history(count: u32) -> History {
    History::new((0..=count).map(|id| record(json!({"id": id, "value": "1"}))).collect())
}

#[test]
fn a_typed_run_continues_only_a_night_that_was_cut_short() {
    let night = Night::enter(None, &begins(caps(3)), moment(0, 1));
    let after = |reason: StopReason| {
        let mut night = night.clone();
        night.end_by(&reason);
        [true, false].map(|same_boot| night.is_unfinished(same_boot, at(1)))
    };
    assert!(night.is_unfinished(true, at(1)), "killed");
    assert_eq!(after(StopReason::Detached), [true, true]);
    assert_eq!(after(StopReason::Terminated), [false, true], "by a person, and by a shutdown");
    for reason in [
        StopReason::Interrupted { requested: false },
        StopReason::Interrupted { requested: true },
        StopReason::MaxExperiments { limit: 3, experiments: 3 },
        StopReason::Error { detail: "the disk is full".into() },
        StopReason::Outage {
            reason: OutageKind::Offline,
            said: String::new(),
            until: None,
            until_text: None,
            seconds: 1.0,
        },
    ] {
        assert_eq!(after(reason), [false, false]);
    }
}

#[test]
fn a_night_whose_time_is_over_has_no_rest() {
    let budget = Some(Duration::from_secs(8 * HOUR as u64));
    let enter = |before, tonight: &Tonight, hours| Night::enter(before, tonight, Moment { budget, ..moment(hours, 1) });
    let night = enter(None, &begins(NightCaps::default()), 0);
    assert_eq!([7, 8].map(|hours| night.is_unfinished(true, at(hours))), [true, false]);
    let resumed = enter(Some(night.clone()), &resumes(NightCaps::default()), 3);
    assert_eq!(resumed.ends, Some(at(8)), "its end is fixed");
    let longer = Tonight { budget: Some(Duration::from_secs(2 * HOUR as u64)), ..resumes(NightCaps::default()) };
    assert_eq!(enter(Some(night.clone()), &longer, 9).ends, Some(at(11)), "from now on");
    let typed = Tonight { begins: false, budget, ..begins(NightCaps::default()) };
    assert_eq!(enter(Some(night), &typed, 3).ends, Some(at(8)), "the same line again");
}

#[test]
fn caps_count_from_the_beginning_of_a_night_or_from_their_own() {
    let night = Night::enter(None, &begins(caps(2)), moment(0, 3));
    let contract = contract("true");
    let left = |night: &Night, count| night.experiments_left(&contract, &history(count));
    assert_eq!([2, 3, 4, 5].map(|count| left(&night, count)), [Some(2), Some(1), Some(0), Some(0)]);
    let resumed = Night::enter(Some(night.clone()), &resumes(caps(2)), moment(1, 4));
    assert_eq!((left(&resumed, 4), resumed.began), (Some(0), night.began));
    let given = Tonight { anew: caps(5), ..resumes(caps(5)) };
    let resumed = Night::enter(Some(night.clone()), &given, moment(1, 5));
    assert_eq!([left(&resumed, 4), left(&resumed, 6)], [Some(5), Some(3)]);
    let next = Night::enter(Some(night), &begins(NightCaps::default()), moment(24, 5));
    assert_eq!((left(&next, 50), next.began), (None, at(24)), "a flag's cap holds for its night");
}

#[test]
fn what_is_made_by_hand_counts_in_the_session_only() {
    let mut night = Night::enter(None, &begins(caps(9)), moment(0, 1));
    night.allot(2.into(), true);
    night.allot(3.into(), true);
    assert_eq!(night.experiments(&history(4)), 2);
    // The change of experiment 3 was rolled back, and the loop has its number now.
    night.allot(3.into(), false);
    assert_eq!(night.experiments(&history(4)), 3);
}

#[test]
fn calls_count_for_the_night_and_for_the_session() {
    let mut contract = contract("true");
    contract.caps.session_max_cost = Some(10.0);
    let spent = |cost| Spent { calls: 1, tokens: Some(Tokens { input: 50, ..Tokens::default() }), cost: Some(cost) };
    let limits = NightCaps { cost: Some(2.0), tokens: Some(100), ..NightCaps::default() };
    let mut night = Night::enter(None, &begins(limits), moment(0, 1));
    let rule = |night: &Night, all| match night.calls_enough(&contract, &spent(all)) {
        Some(StopReason::Reached(reached)) => Some(reached.rule),
        _ => None,
    };
    assert_eq!([rule(&night, 9.0), rule(&night, 10.0)], [None, Some(Bound::SessionMaxCost)]);
    let usage = |cost| Usage { model: None, tokens: Some(Tokens { input: 50, ..Tokens::default() }), cost: Some(cost) };
    night.spend(&usage(1.0));
    assert_eq!(rule(&night, 5.0), None);
    night.spend(&usage(0.5));
    assert_eq!(rule(&night, 5.0), Some(Bound::MaxTokens));
    let anew = NightCaps { tokens: Some(100), ..NightCaps::default() };
    let mut night = Night::enter(Some(night), &Tonight { anew, ..resumes(limits) }, moment(1, 1));
    assert_eq!(rule(&night, 5.0), None);
    night.spend(&usage(0.5));
    assert_eq!(rule(&night, 5.0), Some(Bound::MaxCost), "its own cap counts on");
}

#[test]
fn a_refused_duplicate_uses_up_no_experiment_until_the_cap_is_reached_by_refusals() {
    let night = Night::enter(None, &begins(caps(3)), moment(0, 1));
    let run = json!([{"command": "", "seed": null, "started": "2026-11-20T22:00:00Z", "seconds": 1.0, "exit": 0,
        "signal": null, "value": null}]);
    let history = |classes: &[&str]| {
        let refused = |(at, class): (usize, &&str)| match *class {
            "" => record(json!({"id": at + 1, "value": "1", "runs": run})),
            "duplicate after a run" => {
                record(json!({"id": at + 1, "runs": run, "failure": {"class": "duplicate", "excerpt": ""}}))
            }
            class => record(json!({"id": at + 1, "failure": {"class": class, "excerpt": ""}, "runs": []})),
        };
        let baseline = record(json!({"id": 0, "value": "1"}));
        History::new([baseline].into_iter().chain(classes.iter().enumerate().map(refused)).collect())
    };
    let contract = contract("true");
    for (classes, left, reached) in [
        (&["", "duplicate", "duplicate"][..], 2, None),
        (&["", "scope", "duplicate after a run"], 0, Some("max_experiments")),
        (&["", "duplicate", "duplicate", "duplicate"], 0, Some("refusals")),
        (&["scope", "duplicate", "duplicate"], 0, Some("refusals")),
        (&["", "", "duplicate", "duplicate", ""], 0, Some("max_experiments")),
    ] {
        let history = history(classes);
        assert_eq!(night.experiments_left(&contract, &history), Some(left), "{classes:?}");
        let reason = night.experiments_enough(&contract, &history).map(|it| serde_json::to_value(it).unwrap());
        assert_eq!(reason.as_ref().map(|it| it["kind"].as_str().unwrap()), reached, "{classes:?}");
    }
}

#[test]
fn the_night_of_an_older_session_began_with_it() {
    let mut contract = contract("true");
    contract.max_experiments = Some(4);
    let night = Night::since_the_start(&contract, Spent::default(), NightEnd::Over);
    let enough = |count| night.experiments_enough(&contract, &history(count));
    assert_eq!((enough(3), enough(4)), (None, Some(StopReason::MaxExperiments { limit: 4, experiments: 4 })));
    assert_eq!([cap_of_tries(&contract, false), cap_of_tries(&contract, true)], [Some(4), None]);
}
