//! What a loop on several slots tells of its runs.

use std::collections::BTreeSet;

use serde_json::Value;

use super::landscape::{first_call, landscape};
use crate::support::{ar, ar_in_time};

#[test]
fn each_run_that_starts_is_told_to_end_and_its_slot_is_in_the_report() {
    let repo = landscape();
    let more = ["--max-experiments", "24", "--slots", "4", "--calls", "4", "--format", "json"];
    let called = ar_in_time(&repo, first_call(&repo, ["0.02", "0.02"], "taken", &more)).ok();
    let events: Vec<Value> = called.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (mut running, mut waits, mut tried) = (BTreeSet::new(), 0, 0);
    for event in &events {
        match event["event"].as_str().unwrap() {
            "run_started" => drop(running.insert(event["id"].as_u64())),
            "run_finished" => {
                assert!(running.remove(&event["id"].as_u64()), "{event}");
                *(if event["trial"] == true { &mut tried } else { &mut waits }) += 1;
            }
            "experiment_finished" => drop(running.remove(&event["record"]["id"].as_u64())),
            _ => {}
        }
    }
    assert!(running.is_empty(), "{running:?}");
    assert!(waits > 0 && tried > 0, "{waits} winners, {tried} trials");

    let report = ar(&repo, ["report", "t", "--format", "json"]).ok().json();
    assert_eq!(report["slots"]["count"], 4);
    let share = report["slots"]["busy_share"].as_f64().unwrap();
    assert!(share > 0.0 && share <= 1.0, "{share}");
    let text = ar(&repo, ["report", "t"]).ok().stdout;
    assert!(text.contains("\nslots\nslot  runs") && text.contains("\nslots        4, busy"), "{text}");
}
