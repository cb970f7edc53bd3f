//! The control of gains with `--decide once`: before a change is kept by its one run, the experiment that it beat runs once
//! more in the same tree.
//!
//! One run of each cannot tell a gain from what moves every later run: a cold cache, files that a run leaves behind, a machine
//! that others slow down. A control can. It is made where it tells most: for the first gain of a session, for the one after
//! any that did not stand, and for a few more where the numbers are of a kind that moves.

use super::exceeds;
use crate::domain::{Control, Direction, ExperimentId, MetricValue, NameKind, Number, Outcome, Proof, Record, Unit};

/// Words for times and rates in the names of metrics that say nothing of a unit.
const TIMED: [&str; 7] = ["delay", "latency", "qps", "rps", "rtt", "tps", "ttft"];

/// Returns whether a metric is a time or a rate, by its unit or by its name: those move with the load of the machine.
pub fn is_timed(metric: &MetricValue) -> bool {
    let is_of_time = |unit: &Unit| unit.convert(1.0, &Unit::seconds()).is_some() || unit.to_string().contains('/');
    let name = &*metric.name;
    let of_name = Direction::of_name(name).is_some_and(|(_, kind)| matches!(kind, NameKind::Duration | NameKind::Rate));
    let words = name.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    metric.unit.as_ref().is_some_and(is_of_time)
        || of_name
        || name.ends_with("/s")
        || words.into_iter().any(|word| TIMED.contains(&&*word))
}

/// Returns whether a record claims a gain: it was kept, or would have been but for its control or what came after that.
fn claims(record: &Record) -> bool {
    let is_own = !record.id.is_baseline() && record.origin.imported.is_none();
    is_own && (record.outcome == Outcome::Keep || record.proof.control.is_some())
}

/// Returns whether the next gain is to be controlled. `earlier` are the records so far, and the drafts of changes that wait to
/// be kept.
pub fn control_due<'a>(is_timed: bool, earlier: impl Iterator<Item = &'a Record>) -> bool {
    let earlier: Vec<Option<&Control>> =
        earlier.filter(|record| claims(record)).map(|it| it.proof.control.as_ref()).collect();
    let mut controls = earlier.iter().flatten().peekable();
    let is_first = controls.peek().is_none();
    let may_move = is_timed || controls.any(|control| control.moved);
    let is_open = |control: &Control| control.moved || control.metric.value.is_none();
    is_first
        || earlier.last().is_some_and(|last| last.is_some_and(is_open))
        || may_move && (earlier.len() + 1).is_power_of_two()
}

/// The draft of a change with its control: no keep, if the number of `rival`, the experiment that it beat, is `now` off by at
/// least half of the gain. Where that run gave no number, `now` says why: that is no fault of the change, which stays a keep.
pub fn controlled(draft: Record, rival: (ExperimentId, &Number), now: Result<Number, String>) -> Record {
    let (experiment, before) = rival;
    let moved = draft.metric.number().zip(now.as_ref().ok()).is_some_and(|(claimed, now)| {
        let gain = draft.metric.direction.gain(claimed.value, before.value);
        !exceeds(gain, 2.0 * (now.value - before.value).abs(), &claimed, before)
    });
    let (outcome, reason) = match &now {
        Ok(now) if moved => {
            let why = format!(
                "but experiment {experiment} itself gave {now} when it ran again, the number to beat from now on"
            );
            (Outcome::Discard, format!("{}, {why}", draft.reason))
        }
        Ok(_) => (draft.outcome, draft.reason),
        Err(why) => {
            let missing = format!("experiment {experiment} gave no number when it ran again: {why}");
            (draft.outcome, format!("{}; not controlled, as {missing}", draft.reason))
        }
    };
    let mut metric = draft.metric.clone();
    metric.put(now.ok().as_ref());
    let control = Control { experiment, recorded: before.value, metric, moved };
    let proof = Proof { control: Some(control), ..draft.proof };
    Record { outcome, reason, proof, ..draft }
}

/// The controls in a row that moved, up to the last gain: their experiments, in order.
pub fn moved_in_a_row(records: &[Record]) -> Vec<ExperimentId> {
    let newest = records.iter().rev().filter(|record| claims(record));
    let moved = newest.take_while(|record| record.proof.control.as_ref().is_some_and(|control| control.moved));
    let mut moved: Vec<ExperimentId> = moved.map(|record| record.id).collect();
    moved.reverse();
    moved
}

/// The keeps whose controls gave no number, and that no later control has run again.
pub fn kept_uncontrolled(records: &[Record]) -> Vec<ExperimentId> {
    let found =
        |it: &Record| it.proof.control.as_ref().map(|control| (control.experiment, control.metric.value.is_some()));
    let has_run = |id: &ExperimentId| records.iter().filter_map(found).any(|control| control == (*id, true));
    let failed = |it: &&Record| it.outcome == Outcome::Keep && found(it).is_some_and(|(_, gave)| !gave);
    records.iter().filter(failed).map(|record| record.id).filter(|id| !has_run(id)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::decide::decide;
    use crate::rules::history::History;
    use crate::rules::sample::record;

    /// A night of changes without any effect but a true gain of each, whose every run is told how many there were before it.
    struct Night {
        history: History,
        direction: Direction,
        is_timed: bool,
        runs: u32,
        controls: u32,
    }

    impl Night {
        fn new(direction: Direction, is_timed: bool, measure: impl Fn(f64, u32) -> f64, gains: &[f64]) -> Night {
            let mut night = Night { history: History::default(), direction, is_timed, runs: 0, controls: 0 };
            let mut code = 0.0;
            night.experiment(0, &measure, code);
            for (id, gain) in (1..).zip(gains) {
                night.experiment(id, &measure, code + gain);
                if night.history.incumbent().unwrap().id == id.into() {
                    code += gain;
                }
            }
            night
        }

        fn run(&mut self, measure: &impl Fn(f64, u32) -> f64, code: f64) -> Number {
            self.runs += 1;
            format!("{:.4}", measure(code, self.runs - 1)).parse().unwrap()
        }

        fn experiment(&mut self, id: u32, measure: &impl Fn(f64, u32) -> f64, code: f64) {
            let value = self.run(measure, code);
            let mut draft = record(json!({"id": id, "sequence": id, "value": value.raw, "commit": format!("{code}")}));
            draft.metric.direction = self.direction;
            let rival = self.history.best();
            let spec = crate::rules::sample::contract("c").metric;
            let spec = crate::domain::MetricSpec { direction: self.direction, ..spec };
            let rival_of = rival.as_ref().map(|(id, number)| (*id, number));
            let verdict = decide(&spec, &value, rival_of, 0.0);
            (draft.outcome, draft.reason) = (verdict.outcome, verdict.reason);
            if let Some(rival) = rival_of.filter(|_| draft.outcome == Outcome::Keep)
                && control_due(self.is_timed, self.history.records().iter())
            {
                self.controls += 1;
                let code: f64 = self.history.get(rival.0).unwrap().commit.as_str().parse().unwrap();
                let now = self.run(measure, code);
                draft = controlled(draft, rival, Ok(now));
            }
            self.history.push(draft);
        }

        fn kept(&self) -> Vec<u32> {
            let kept = self.history.without_baseline().filter(|record| record.outcome == Outcome::Keep);
            kept.map(|record| record.id.number()).collect()
        }
    }

    const NOTHING: [f64; 12] = [0.0; 12];

    #[test]
    fn a_checkpoint_that_every_run_improves_keeps_nothing_in_either_direction() {
        let lower = Night::new(Direction::Lower, false, |_, runs| 95.0 * 0.95_f64.powi(runs as i32), &NOTHING);
        assert_eq!((lower.kept(), lower.controls), (vec![], 12), "each one moved, so each next one is controlled");
        assert_eq!(moved_in_a_row(lower.history.records()).len(), 12);
        let higher = Night::new(Direction::Higher, false, |_, runs| 10.0 + f64::from(runs), &NOTHING);
        assert_eq!(higher.kept(), [0; 0]);
        let reason = &lower.history.get(1.into()).unwrap().reason;
        assert_eq!(
            reason,
            "loss 90.2500 is better than 95.0000 of experiment 0 by 4.7500 (5.0%), but experiment 0 itself gave 85.7375 when \
             it ran again, the number to beat from now on"
        );
    }

    #[test]
    fn after_a_cold_first_run_the_warm_number_is_the_one_to_beat() {
        let cold = |code: f64, runs: u32| if runs == 0 { 100.0 } else { 60.0 - code };
        let night = Night::new(Direction::Lower, false, cold, &[0.0, 0.0, 5.0, 0.0, 3.0]);
        assert_eq!((night.kept(), night.controls), (vec![3, 5], 2), "that of 1 moved, so 3 has one; 5 is the third");
        let control = night.history.get(1.into()).unwrap().proof.control.clone().unwrap();
        assert_eq!((control.experiment, control.recorded, control.metric.value), (0.into(), 100.0, Some(60.0)));
        assert_eq!(night.history.as_of(0.into()).len(), 3, "with the control of its number");
        assert_eq!(night.history.number_to_beat(night.history.baseline().unwrap()).unwrap().value, 60.0);
        assert_eq!(moved_in_a_row(night.history.records()), []);
        // A process that reads the records of a session that was killed knows the same.
        let again: Vec<Record> = night.history.records()[..2].to_vec();
        assert_eq!(History::new(again).best().unwrap().1.raw, "60.0000");
    }

    #[test]
    fn a_steady_night_costs_one_run_and_one_of_times_a_few() {
        let steady = |code: f64, _| 100.0 - code;
        let gains = [1.0; 9];
        let once = Night::new(Direction::Lower, false, steady, &gains);
        assert_eq!((once.kept().len(), once.controls), (9, 1));
        let timed = Night::new(Direction::Lower, true, steady, &gains);
        assert_eq!((timed.kept().len(), timed.controls), (9, 4), "the 1st, 2nd, 4th and 8th");
    }

    #[test]
    fn half_of_the_gain_is_too_much_and_a_failed_control_is_not_the_fault_of_the_change() {
        let after = |now: Result<&str, &str>| {
            let draft = record(json!({"id": 1, "value": "90", "reason": "better"}));
            let before: Number = "100".parse().unwrap();
            controlled(draft, (0.into(), &before), now.map(|now| now.parse().unwrap()).map_err(str::to_owned))
        };
        let outcomes = ["95", "95.1", "105", "104.9", "100"].map(|now| after(Ok(now)).outcome);
        use Outcome::{Discard, Keep};
        assert_eq!(outcomes, [Discard, Keep, Discard, Keep, Keep]);
        let failed = after(Err("exit 1"));
        assert_eq!((failed.outcome, failed.proof.control.as_ref().unwrap().moved), (Keep, false));
        assert_eq!(failed.reason, "better; not controlled, as experiment 0 gave no number when it ran again: exit 1");
        assert!(control_due(false, [failed.clone()].iter()), "the next one is");
        assert_eq!(kept_uncontrolled(std::slice::from_ref(&failed)), [1.into()]);
        let mut next = after(Ok("100"));
        (next.id, next.proof.control.as_mut().unwrap().experiment) = (2.into(), 1.into());
        assert_eq!(kept_uncontrolled(&[failed, next]), [], "it has run again");
        assert!(!control_due(false, [after(Ok("100"))].iter()));
        let simplified = record(json!({"id": 1, "value": "101"}));
        assert!(control_due(false, [simplified].iter()), "a keep that claimed nothing");
    }

    #[test]
    fn times_and_rates_are_known_by_their_names_and_units() {
        let timed = |name: &str, unit: Option<&str>| {
            let mut metric = record(json!({})).metric;
            (metric.name, metric.unit) = (name.into(), unit.map(Unit::new));
            is_timed(&metric)
        };
        for name in "latency p99_latency latency_ms train_seconds tokens_per_sec throughput tok/s qps".split(' ') {
            assert!(timed(name, None), "{name}");
        }
        for name in "val_bpb loss accuracy memory_gb eval/score".split(' ') {
            assert!(!timed(name, None), "{name}");
        }
        for (unit, expected) in [("ms", true), ("MB/s", true), ("ns/op", true), ("MB", false), ("%", false)] {
            assert_eq!(timed("p50", Some(unit)), expected, "{unit}");
        }
    }
}
