//! The verdict on an experiment that was measured, or refused before it ran.
//! Hard limits on values in the log belong to it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::screen;
use crate::domain::{
    COMPOSITE, CommitId, Contract, DiffStat, Environment, ExperimentId, Failure, FailureClass, GpuOther, Limit,
    Metrics, Number, Outcome, Record, Run, RunResult, StopRule, Unit, WallKind,
};
use crate::rules::{
    Disturbance, Effect, History, OtherGpu, Rivals, Verdict, best_kept_of, best_of, decide, decide_by_simplicity,
    decide_by_threshold, describe_failure, is_confirmed,
};

/// The outcome of a run, or why there was none.
#[derive(Debug, Clone, Default)]
pub struct Measurement {
    /// The metric's number, where there is one.
    pub value: Option<Number>,
    /// The failure, if there was one: then no value counts.
    pub failure: Option<Failure>,
    /// Every number that the log's summary gives.
    pub metrics: Metrics,
    /// The units of those numbers whose names give none.
    pub units: BTreeMap<String, Unit>,
    /// Peak memory in GiB.
    pub memory_gb: Option<f64>,
    /// The run itself, where there was one, without its value.
    pub run: Option<Run>,
    /// The wall that the run had, where that is known.
    pub sandbox: Option<WallKind>,
    /// The end of the run, in words.
    pub ended: String,
    /// The files that anyone changed during the run, as far as they count.
    pub disturbance: Disturbance,
    /// Other processes on its GPUs, where they taint the run.
    pub gpu_others: Vec<GpuOther>,
    /// Earlier paths in the working tree that make its number false or doubtful.
    pub carried: BTreeMap<PathBuf, Effect>,
    /// A possible cause of the failure other than the change.
    pub outside_cause: Option<String>,
    /// Its host and GPUs, if an engine chose them.
    pub node: Option<Environment>,
    /// The models of its GPUs, where the baseline's were other ones.
    pub other_gpu: Option<OtherGpu>,
    /// The hidden evaluator's number, or why it gave none, in words. The number is here only if no run in `hidden.jsonl` has it.
    pub hidden: Option<Result<Number, String>>,
}

impl Measurement {
    /// An experiment that was refused before it ran.
    pub fn refused(failure: Failure) -> Measurement {
        let ended = failure.excerpt.replace('\n', ", ");
        Measurement { failure: Some(failure), ended, ..Measurement::default() }
    }

    /// A run that was lost more often than it is restarted.
    pub fn lost(times: u32) -> Measurement {
        let failure = Failure::new(FailureClass::Lost, "");
        Measurement { failure: Some(failure), ended: format!("{times} times"), ..Measurement::default() }
    }

    /// Returns whether something outside ended the run, which says nothing about its code: a signal, another's deadline, a lost
    /// machine, others on its GPU or disk.
    pub fn is_cut_off(&self) -> bool {
        let class = self.failure.as_ref().map(|failure| failure.class);
        // `ar` ends a run by a signal, `timeout` by an exit status.
        let exit = self.run.as_ref().and_then(|run| run.exit);
        let is_ended = matches!(class, Some(FailureClass::Lost | FailureClass::Killed));
        is_ended || matches!((class, exit), (Some(FailureClass::Timeout), Some(_))) || self.outside_cause.is_some()
    }

    /// The files that anyone changed during the run, each once.
    pub fn changed(&self) -> Vec<PathBuf> {
        self.disturbance.paths()
    }

    /// Its value, where that counts.
    pub fn counted_value(&self) -> Option<f64> {
        self.value.as_ref().filter(|_| self.failure.is_none()).map(|number| number.value)
    }

    /// The run for a record, with its value where that counts, and with the `commit` that was executed.
    pub fn counted_run(&self, commit: Option<&CommitId>) -> Option<Run> {
        let value = self.counted_value();
        // One that was scaled or converted has no digits of the log.
        let number = self.value.as_ref().filter(|number| number.printed.is_none());
        let digits = value.zip(number).map(|(value, number)| (value.to_string(), number.raw.clone()));
        let digits = digits.filter(|(plain, raw)| plain != raw).map(|(_, raw)| raw);
        self.run.clone().map(|run| Run { value, digits, commit: commit.cloned(), ..run })
    }

    /// The run's result, if its number counts.
    pub fn result(&self, commit: &CommitId) -> Option<RunResult> {
        let number = self.value.clone().filter(|_| self.failure.is_none())?;
        let (metrics, units, memory_gb) = (self.metrics.clone(), self.units.clone(), self.memory_gb);
        let (run, sandbox) = (self.counted_run(Some(commit))?, self.sandbox);
        Some(RunResult { run, number, metrics, units, memory_gb, sandbox })
    }

    /// The limits of the contract that the run exceeded, in words.
    pub fn unmet_limits(&self, contract: &Contract) -> Vec<String> {
        unmet(contract, self.value.as_ref(), self.memory_gb, (&self.metrics, &self.units))
    }
}

/// Returns whether a baseline with this end only has nothing to measure yet, such as a text without claims. It printed
/// a composite or an axis that is not finite. Such a baseline is recorded without a value.
pub fn is_empty_baseline(contract: &Contract, class: FailureClass, exit: Option<i32>) -> bool {
    contract.metric.name == COMPOSITE && class == FailureClass::Nan && exit == Some(0)
}

/// The axes for which a run gave no number among its `metrics`, if it failed for want of one.
pub fn axes_without_number<'a>(contract: &'a Contract, failure: Option<&Failure>, metrics: &Metrics) -> Vec<&'a str> {
    let lacks_number = failure.is_some_and(|it| matches!(it.class, FailureClass::Nan | FailureClass::NoMetric));
    let axes = contract.deciding_composite().filter(|_| lacks_number);
    let names = axes.into_iter().flat_map(|composite| composite.axes.keys().map(String::as_str));
    names.filter(|name| metrics.get(name).is_none()).collect()
}

/// Messages of programs that a wall stops: the kernel's errors for a read-only mount and for a rename across mounts, and
/// those of setuid programs such as `sudo` and Apptainer.
const WALL_MESSAGES: [&str; 5] = [
    "Read-only file system",
    "Invalid cross-device link",
    "effective uid is not 0",
    "must be setuid",
    "no new privileges",
];

/// Returns whether what a failed run said last may come from its wall.
fn may_be_of_wall(excerpt: &str) -> bool {
    WALL_MESSAGES.iter().any(|message| excerpt.contains(message))
}

/// The verdict on experiment `id`, whose change has this size, and the limits that count against it.
///
/// A failure is a crash. A number is compared with the contract's threshold, if there is one, else with the incumbent's, where
/// the contract says so by simplicity first. One that would be kept is discarded if the run exceeded a limit. The baseline may
/// exceed limits and miss the threshold, and may have no number; see [`is_empty_baseline`].
///
/// Where fresh runs decide, one that is good enough for them would be kept; see [`fresh_step`](super::fresh::fresh_step).
///
/// The `records` are those up to its base, which may not be the incumbent any more: it is compared with its own base. One
/// that would be kept is a winner if it is stale.
pub fn judge(
    contract: &Contract,
    (history, records): (&History, &[Record]),
    id: ExperimentId,
    diff: DiffStat,
    measured: &Measurement,
) -> (Verdict, Vec<String>) {
    let mut verdict = match (&measured.value, &measured.failure) {
        (_, Some(failure)) => {
            let mut reason = describe_failure(failure, &contract.metric.name, &measured.ended, measured.run.as_ref());
            if measured.sandbox == Some(WallKind::Bwrap) && may_be_of_wall(&failure.excerpt) {
                reason += "; the wall around it may be the cause, and `--sandbox off` starts jobs without one";
            }
            Verdict { outcome: Outcome::Crash, reason }
        }
        (Some(value), None) => match contract.keep_above.as_ref().filter(|_| !id.is_baseline()) {
            Some(threshold) => decide_by_threshold(&contract.metric, value, threshold.value(Some(value))),
            None if is_confirmed(contract) && !id.is_baseline() => {
                let by_value = verdict_on(contract, records, diff, value);
                let first = (value, measured.run.as_ref().and_then(|run| run.seed));
                screen(contract, (history, records), diff, first, by_value)
            }
            None => verdict_on(contract, records, diff, value),
        },
        // Only a baseline without anything to measure yet.
        (None, None) => {
            let reason = format!("{} has no number yet; the next one has nothing to beat", contract.metric.name);
            Verdict { outcome: Outcome::Keep, reason }
        }
    };
    if measured.failure.is_none() && measured.run.as_ref().is_some_and(|run| run.partial) {
        verdict.reason += &format!("; a partial number: the run did not finish ({})", measured.ended);
    }
    let without = axes_without_number(contract, measured.failure.as_ref(), &measured.metrics);
    if !without.is_empty() {
        verdict.reason += &format!(": no number for {}", without.join(", "));
    }
    let counts = !id.is_baseline() && measured.failure.is_none();
    let unmet = if counts { measured.unmet_limits(contract) } else { Vec::new() };
    if verdict.outcome == Outcome::Keep && !unmet.is_empty() {
        verdict.outcome = Outcome::Discard;
        verdict.reason += &format!(", but {}", unmet.join(", "));
    }
    if let Some(cause) = &measured.outside_cause {
        verdict.reason += &format!("; {cause}");
    }
    (verdict, unmet)
}

/// The verdict on a value, by those of the records.
pub(super) fn verdict_on(contract: &Contract, records: &[Record], diff: DiffStat, value: &Number) -> Verdict {
    let (metric, best) = (&contract.metric, best_of(records));
    let by_simplicity = || {
        let margin = contract.simpler_wins.as_ref()?.value(Some(value));
        let ((id, incumbent), best) = best.as_ref().zip(Some(best_kept_of(records)?.1))?;
        decide_by_simplicity(metric, value, Rivals { id: *id, incumbent, best: &best }, margin, diff)
    };
    let incumbent = best.as_ref().map(|(id, number)| (*id, number));
    by_simplicity().unwrap_or_else(|| decide(metric, value, incumbent, contract.min_delta.value(Some(value))))
}

/// The limits that a run exceeds, each in a few words with the value. They are about its number, its memory, and the `metrics`
/// with these units.
pub(crate) fn unmet(
    contract: &Contract,
    number: Option<&Number>,
    memory_gb: Option<f64>,
    (metrics, units): (&Metrics, &BTreeMap<String, Unit>),
) -> Vec<String> {
    let measured = |name: &str| match name {
        "memory_gb" => memory_gb.map(|memory| Number::of(memory).named(name)),
        name if name == contract.metric.name => number.cloned(),
        name => {
            let value = Number::of(metrics.get(name)?);
            Some(Number { unit: units.get(name).cloned(), ..value }.named(name))
        }
    };
    let words = |limit: &Limit| match measured(&limit.name) {
        Some(value) if limit.holds(&value) => None,
        Some(value) => {
            let lacks_unit = value.unit.is_none() && limit.bound.beside(&value).is_none();
            let without = if lacks_unit { " without a unit" } else { "" };
            Some(format!("{} is {value}{without} and must be {} {}", limit.name, limit.comparison, limit.bound))
        }
        None => Some(format!("the run printed no {}, which must be {} {}", limit.name, limit.comparison, limit.bound)),
    };
    contract.limits.iter().filter_map(words).collect()
}

/// A value that the user asked for, in a unit that what it is compared with does not have.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct Incomparable(String);

/// Refuses a contract with a value that is not comparable with what it is for: by the name of that, or by its unit in the
/// baseline. A limit on another value than the metric's may have a unit that the log lacks: a run without it does not meet it.
pub fn refuse_incomparable(contract: &Contract, baseline: Option<&Record>) -> Result<(), Incomparable> {
    let metric = &*contract.metric.name;
    let known = |name: &str| match baseline.filter(|_| name == metric) {
        Some(baseline) => baseline.metric.number(),
        None => {
            let unit = baseline.and_then(|baseline| baseline.units.get(name).cloned());
            Some(Number { unit, ..Number::of(1.0) }.named(name)).filter(|number| number.unit.is_some())
        }
    };
    let Contract { goal, min_delta, simpler_wins, keep_above, .. } = contract;
    let settings = [("goal", goal), ("simpler-wins", simpler_wins), ("keep-above", keep_above)];
    let settings = settings.into_iter().filter_map(|(setting, target)| Some((setting, target.as_ref()?)));
    let rules = contract.stop_rules.iter().flat_map(StopRule::targets).map(|target| ("stop-rule", target));
    let of_metric = settings.chain([("min-delta", min_delta)]).chain(rules);
    let of_metric = of_metric.map(|(setting, target)| (setting, metric, target));
    let limits = contract.limits.iter().map(|limit| ("limit", &*limit.name, &limit.bound));
    let refused = of_metric.chain(limits).find_map(|(setting, of, target)| {
        let Number { unit, .. } = known(of).filter(|number| target.beside(number).is_none())?;
        let unit = unit.map_or("has no unit".to_owned(), |unit| format!("is in {unit}"));
        Some(format!("--{setting} {target} is not comparable with {of}, which {unit}"))
    });
    refused.map_or(Ok(()), |text| Err(Incomparable(text)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::{CommitId, Composite, Direction, MetricSource, MetricSpec};
    use crate::rules::sample::record;

    fn contract(limits: &[&str]) -> Contract {
        let metric = MetricSpec { name: "loss".into(), direction: Direction::Lower, source: MetricSource::default() };
        let (tag, start) = ("t".parse().unwrap(), CommitId::new("c"));
        let contract = Contract::new(tag, metric, "true".into(), start, jiff::Timestamp::UNIX_EPOCH);
        Contract { limits: limits.iter().map(|limit| limit.parse().unwrap()).collect(), ..contract }
    }

    fn measured(loss: &str) -> Measurement {
        let value = Some(Number::new(loss.parse().unwrap(), loss));
        Measurement { value, memory_gb: Some(44.0), ..Measurement::default() }
    }

    #[test]
    fn a_run_keeps_the_digits_of_its_value() {
        let run = serde_json::from_value::<Run>(crate::rules::sample::run(1.0, None)).unwrap();
        let digits =
            |loss: &str| Measurement { run: Some(run.clone()), ..measured(loss) }.counted_run(None).unwrap().digits;
        assert_eq!((digits("0.980"), digits("0.98")), (Some("0.980".to_owned()), None));
        let minutes = Number::with_unit("100 s").unwrap().converted(&Unit::new("min"));
        let converted = Measurement { run: Some(run.clone()), value: minutes, ..Measurement::default() };
        assert_eq!(converted.counted_run(None).unwrap().digits, None);
    }

    fn outcome(contract: &Contract, id: u32, measured: &Measurement) -> (Outcome, String, usize) {
        let history = History::new(if id == 0 { Vec::new() } else { vec![record(json!({"value": "2.0"}))] });
        let (verdict, unmet) = judge(contract, (&history, history.records()), id.into(), DiffStat::default(), measured);
        (verdict.outcome, verdict.reason, unmet.len())
    }

    #[test]
    fn a_limit_counts_against_a_better_number_and_not_against_the_baseline() {
        let (free, limited) = (contract(&[]), contract(&["memory_gb<=40"]));
        assert_eq!(outcome(&free, 1, &measured("1.5")).0, Outcome::Keep);
        let (kept, reason, unmet) = outcome(&limited, 1, &measured("1.5"));
        assert_eq!((kept, unmet), (Outcome::Discard, 1));
        assert!(reason.ends_with(", but memory_gb is 44 and must be <= 40"), "{reason}");
        assert_eq!(outcome(&limited, 0, &measured("1.5")).0, Outcome::Keep);
        let (worse, reason, unmet) = outcome(&limited, 1, &measured("2.5"));
        assert_eq!((worse, unmet, reason.contains("but")), (Outcome::Discard, 1, false));
    }

    #[test]
    fn what_reaches_the_threshold_is_kept_whatever_the_best_is() {
        let contract = Contract { keep_above: Some(3.0.into()), ..contract(&["memory_gb<=50"]) };
        let outcomes = [(0, "4.0"), (1, "2.5"), (1, "3.0"), (1, "3.5")]
            .map(|(id, loss)| outcome(&contract, id, &measured(loss)).0);
        assert_eq!(outcomes, [Outcome::Keep, Outcome::Keep, Outcome::Keep, Outcome::Discard], "the best is 2.0");
        let limited = Contract { limits: vec!["memory_gb<=40".parse().unwrap()], ..contract };
        assert_eq!(outcome(&limited, 1, &measured("2.5")).0, Outcome::Discard, "limits count");
    }

    #[test]
    fn a_baseline_with_nothing_to_measure_yet_is_kept_and_compared_with_nothing() {
        let with_axes = |contract: Contract| {
            let mut contract = Contract { composite: Composite::preset("equal"), ..contract };
            contract.metric = MetricSpec { name: "composite".into(), direction: Direction::Higher, ..contract.metric };
            contract
        };
        let (plain, axes) = (contract(&[]), with_axes(contract(&[])));
        let threshold = Contract { keep_above: Some(3.0.into()), ..contract(&[]) };
        let is_empty = |contract: &Contract, class, exit| is_empty_baseline(contract, class, exit);
        assert!(is_empty(&axes, FailureClass::Nan, Some(0)) && !is_empty(&axes, FailureClass::NoMetric, Some(0)));
        assert!(!is_empty(&plain, FailureClass::Nan, Some(0)) && !is_empty(&threshold, FailureClass::Nan, Some(0)));
        assert!(!is_empty(&axes, FailureClass::Nan, Some(1)));
        let (kept, reason, _) = outcome(&axes, 0, &Measurement::default());
        assert_eq!(
            (kept, reason.as_str()),
            (Outcome::Keep, "composite has no number yet; the next one has nothing to beat")
        );
        let empty = History::new(vec![record(json!({}))]);
        let first = |contract: &Contract, loss: &str| {
            judge(contract, (&empty, empty.records()), 1.into(), DiffStat::default(), &measured(loss)).0.outcome
        };
        assert_eq!(first(&axes, "0.01"), Outcome::Keep, "the first one with a number");
        assert_eq!([first(&threshold, "2.5"), first(&threshold, "3.5")], [Outcome::Keep, Outcome::Discard]);
    }

    #[test]
    fn an_axis_without_a_number_is_named() {
        let mut contract = Contract { composite: Composite::preset("equal"), ..contract(&[]) };
        contract.metric.name = "composite".into();
        let failure = Some(Failure::new(FailureClass::Nan, ""));
        let metrics = ["claim_density", "source_diversity", "topic_coverage"].map(|name| (name.to_owned(), 0.5));
        let failed = Measurement { failure, metrics: metrics.into_iter().collect(), ..Measurement::default() };
        let (crashed, reason, _) = outcome(&contract, 1, &failed);
        assert_eq!(crashed, Outcome::Crash);
        assert!(reason.ends_with(": no number for novelty"), "{reason}");
    }

    #[test]
    fn a_stale_experiment_is_compared_with_its_own_base() {
        let kept =
            |id: u32, sequence: u32, value: &str| record(json!({"id": id, "sequence": sequence, "value": value}));
        let history = History::new(vec![kept(0, 0, "2.0"), kept(4, 1, "1.75"), kept(2, 2, "1.0")]);
        let contract = contract(&["memory_gb<=50"]);
        let judged = |base: u32, loss: &str| {
            judge(&contract, (&history, history.as_of(base.into())), 5.into(), DiffStat::default(), &measured(loss)).0
        };
        let outcomes = [(0, "1.9"), (4, "1.9"), (4, "1.5"), (2, "1.5"), (2, "0.5")];
        let found = outcomes.map(|(base, loss)| judged(base, loss).outcome);
        assert_eq!(found, [Outcome::Keep, Outcome::Discard, Outcome::Keep, Outcome::Discard, Outcome::Keep]);
        assert!(judged(4, "1.5").reason.contains("of experiment 4"));
        let simpler = Contract { simpler_wins: Some(0.5.into()), ..contract.clone() };
        let less = DiffStat { files: 1, added: 0, deleted: 9 };
        let (verdict, _) = judge(&simpler, (&history, history.as_of(4.into())), 5.into(), less, &measured("2.0"));
        assert_eq!(verdict.outcome, Outcome::Keep, "within the margin of what was best then: {}", verdict.reason);
    }

    #[test]
    fn a_failure_is_a_crash_whatever_was_printed_and_names_a_cause_outside_the_change() {
        let failure = Some(Failure::new(FailureClass::Oom, ""));
        let outside_cause = Some("other processes had 20 GB of the GPU".to_owned());
        let failed = Measurement { failure, outside_cause, ended: "exit 1".into(), ..measured("1.5") };
        let (crashed, reason, unmet) = outcome(&contract(&["memory_gb<=40"]), 1, &failed);
        assert_eq!((crashed, unmet), (Outcome::Crash, 0));
        assert!(reason.ends_with("; other processes had 20 GB of the GPU"), "{reason}");
        let lost = outcome(&contract(&[]), 1, &Measurement::lost(3));
        assert!(lost.0 == Outcome::Crash && lost.1.contains("3 times"), "{lost:?}");
    }
}

#[cfg(test)]
mod limits_tests {
    use serde_json::json;

    use super::*;
    use crate::domain::{CommitId, Direction, MetricSource, MetricSpec};
    use crate::rules::sample::record;

    fn contract(limits: &[&str]) -> Contract {
        let metric = MetricSpec { name: "loss".into(), direction: Direction::Lower, source: MetricSource::default() };
        let (tag, start) = ("t".parse().unwrap(), CommitId::new("c"));
        let contract = Contract::new(tag, metric, "true".into(), start, jiff::Timestamp::UNIX_EPOCH);
        Contract { limits: limits.iter().map(|limit| limit.parse().unwrap()).collect(), ..contract }
    }

    fn metrics(named: &[(&str, f64)]) -> Metrics {
        named.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn what_is_missing_is_not_kept_to() {
        let limits = ["memory_gb<=40", "tok_s>1000", "mfu>=0.3"];
        let broken = unmet(&contract(&limits), None, Some(44.25), (&metrics(&[("mfu", 0.3)]), &BTreeMap::new()));
        assert_eq!(broken, ["memory_gb is 44.25 and must be <= 40", "the run printed no tok_s, which must be > 1000"]);
    }

    #[test]
    fn a_limit_compares_whatever_the_units() {
        let units = BTreeMap::from([("p95".to_owned(), Unit::new("s"))]);
        let metrics = metrics(&[("latency_ms", 200.0), ("p95", 0.3), ("mem", 9.0)]);
        for (limit, broken) in [
            ("latency_ms<=100", Some("latency_ms is 200 and must be <= 100")),
            ("latency_ms<=0.25s", None),
            ("latency_ms<=0.1s", Some("latency_ms is 200 and must be <= 0.1 s")),
            ("p95<=250ms", Some("p95 is 0.3 and must be <= 250 ms")),
            ("p95<=0.5", None),
            ("memory_gb<=41000MB", None),
            ("memory_gb<=40GB", Some("memory_gb is 38 and must be <= 40 GB")),
            ("mem<=10 GB", Some("mem is 9 without a unit and must be <= 10 GB")),
            ("acc>=95%", Some("acc is 0.9 and must be >= 95%")),
        ] {
            let contract =
                Contract { metric: MetricSpec { name: "acc".into(), ..contract(&[]).metric }, ..contract(&[limit]) };
            let found = unmet(&contract, Some(&Number::of(0.9)), Some(38.0), (&metrics, &units));
            assert_eq!(found.first().map(String::as_str), broken, "{limit}");
        }
    }
    #[test]
    fn what_is_of_another_dimension_is_refused_once_that_is_known() {
        let mut baseline = record(json!({"value": "0.9"}));
        (baseline.metric.unit, baseline.units) = (Some(Unit::seconds()), [("rss".to_owned(), Unit::new("MB"))].into());
        let said = |name: &str, asked: &dyn Fn(&mut Contract), baseline: Option<&Record>| {
            let mut contract = contract(&[]);
            contract.metric.name = name.into();
            asked(&mut contract);
            refuse_incomparable(&contract, baseline).err().map(|error| error.to_string())
        };
        let asked: [&dyn Fn(&mut Contract); 6] = [
            &|contract| contract.goal = "3 MB".parse().ok(),
            &|contract| contract.min_delta = "3 MB".parse().unwrap(),
            &|contract| contract.simpler_wins = "3 MB".parse().ok(),
            &|contract| contract.keep_above = "3 MB".parse().ok(),
            &|contract| contract.stop_rules = vec!["above:3 MB:2".parse().unwrap()],
            &|contract| contract.stop_rules = vec!["kill:9:1 ms:3 MB".parse().unwrap()],
        ];
        for asked in asked {
            assert_eq!(said("latency", asked, None), None, "its unit is not known yet");
            assert!(
                said("latency", asked, Some(&baseline)).is_some_and(|said| said.ends_with("latency, which is in s"))
            );
            assert!(said("latency_ms", asked, None).is_some_and(|said| said.ends_with("latency_ms, which is in ms")));
        }
        let limit = |limit: &str, baseline| {
            said("latency", &|contract| contract.limits = vec![limit.parse().unwrap()], baseline)
        };
        let rss = "--limit 3 ms is not comparable with rss, which is in MB";
        assert_eq!(limit("rss<=3ms", Some(&baseline)).as_deref(), Some(rss));
        assert!(limit("latency<=3MB", Some(&baseline)).is_some() && limit("memory_gb<=3s", None).is_some());
        for fine in ["rss<=3", "rss<=1GB", "mem<=3ms", "latency<=90 ms", "memory_gb<=40"] {
            assert_eq!(limit(fine, Some(&baseline)), None, "{fine}");
        }
        baseline.metric.unit = None;
        let bare = said("latency", asked[0], Some(&baseline));
        assert_eq!(bare.as_deref(), Some("--goal 3 MB is not comparable with latency, which has no unit"));
        assert_eq!(said("acc", &|contract| contract.goal = "95%".parse().ok(), Some(&baseline)), None);
    }
}
