//! Two experiments side by side: how they differ, and what else changed with a gain.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value, json};
use strum::Display;

use crate::domain::{
    Contract, Direction, Environment, NameKind, Number, Outcome, Record, WordList, percent_text, plain_name, word_list,
};
use crate::rules::decide::{format_distance, format_gain};

/// The subject of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Aspect {
    /// Measured values.
    Metrics,
    /// Time and memory.
    Cost,
    /// The environment of the run.
    Environment,
    /// Command, seed and settings.
    Settings,
}

/// One aspect of two experiments, side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// Its subject.
    pub aspect: Aspect,
    /// Its name.
    pub name: String,
    /// The value of the first; null if it has none.
    pub a: Value,
    /// The value of the second; null if it has none.
    pub b: Value,
    /// The second minus the first, in the unit of that, if both are numbers that compare.
    pub difference: Option<f64>,
    /// The difference in words, with a percentage: `+0.05 (3%)`; may be empty.
    #[serde(skip)]
    pub change: String,
}

/// The name of peak memory, in GiB, among the costs.
pub const MEMORY: &str = "memory_gb";

/// Fields of a contract that identify a session but decide nothing.
const NAMES: [&str; 5] = ["version", "tag", "created", "started_from", "follows"];

/// Compares two experiments and their contracts: all values, and the differences of environment and settings.
pub fn compare(a: &Record, b: &Record, terms: [Option<&Contract>; 2]) -> Vec<Compared> {
    let mut rows = metrics(a, b);
    rows.extend(cost(a, b));
    rows.extend(differing(Aspect::Environment, [&*a.origin.environment, &*b.origin.environment].map(known)));
    rows.extend(differing(Aspect::Settings, [settings(a, terms[0]), settings(b, terms[1])]));
    rows
}

/// The metric first, then every value of either log, in the order of the first.
fn metrics(a: &Record, b: &Record) -> Vec<Compared> {
    let mut names: Vec<&String> = vec![&a.metric.name, &b.metric.name];
    names.extend(a.metrics.names().chain(b.metrics.names()));
    let mut seen = Vec::new();
    let mut rows = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
            rows.push(numbers(Aspect::Metrics, name, metric(a, name), metric(b, name)));
        }
    }
    rows
}

fn metric(record: &Record, name: &str) -> Option<Number> {
    if record.metric.name == name {
        return record.metric.number();
    }
    let unit = record.units.get(name).cloned();
    number(record.metrics.get(name)).map(|number| Number { unit, ..number }.named(name))
}

fn cost(a: &Record, b: &Record) -> Vec<Compared> {
    type Cost = fn(&Record) -> Option<f64>;
    let costs: [(&str, Cost); 3] = [
        ("seconds per run", |record| record.seconds_per_run().map(rounded)),
        ("agent seconds", |record| record.origin.agent.as_ref().map(|call| rounded(call.seconds))),
        (MEMORY, |record| record.memory_gb.map(rounded)),
    ];
    let row = |(name, of): (&str, Cost)| numbers(Aspect::Cost, name, number(of(a)), number(of(b)));
    costs.into_iter().map(row).filter(|row| !(row.a.is_null() && row.b.is_null())).collect()
}

/// Seconds to the millisecond, memory to the thousandth of a GiB.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn number(value: Option<f64>) -> Option<Number> {
    value.filter(|value| value.is_finite()).map(Number::of)
}

fn numbers(aspect: Aspect, name: &str, a: Option<Number>, b: Option<Number>) -> Compared {
    let pair = a.as_ref().zip(b.as_ref()).and_then(|(a, b)| Some((a, b.like(a)?)));
    let change = match &pair {
        Some((a, b)) if a.value == b.value => "0".to_owned(),
        Some((a, b)) => {
            let sign = if b.value < a.value { '-' } else { '+' };
            format!("{sign}{}", if a.value == 0.0 { format_distance(b, a) } else { format_gain(b, a) })
        }
        None => String::new(),
    };
    Compared {
        aspect,
        name: name.to_owned(),
        difference: pair.as_ref().map(|(a, b)| b.value - a.value),
        a: a.map_or(Value::Null, written),
        b: b.map_or(Value::Null, written),
        change,
    }
}

/// A number with its original digits, if JSON has them.
fn written(number: Number) -> Value {
    serde_json::from_str(&number.raw).unwrap_or_else(|_| json!(number.value))
}

/// The differences of two documents, in the order of the first.
fn differing(aspect: Aspect, [a, b]: [Map<String, Value>; 2]) -> Vec<Compared> {
    let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
    let row = |name: &String| {
        let [a, b] = [&a, &b].map(|it| it.get(name).cloned().unwrap_or(Value::Null));
        let name = name.clone();
        (a != b).then_some(Compared { aspect, name, a, b, difference: None, change: String::new() })
    };
    names.filter_map(row).collect()
}

fn known(environment: &Environment) -> Map<String, Value> {
    environment.known().into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect()
}

/// A session's settings, with the command and the seed of the experiment's first run.
fn settings(record: &Record, terms: Option<&Contract>) -> Map<String, Value> {
    let mut all = terms.map(|terms| fields(&json!(terms))).unwrap_or_default();
    all.retain(|name, _| !NAMES.contains(&name.as_str()));
    // Experiments with different numbers of runs share the seed of the first one.
    if let Some(run) = record.runs.first() {
        all.insert("command".into(), json!(run.command));
        all.insert("seed".into(), json!(run.seed));
    }
    all
}

/// The fields of a document; nested ones are named `outer.inner`.
fn fields(document: &Value) -> Map<String, Value> {
    let mut flat = Map::new();
    for (name, value) in document.as_object().into_iter().flatten() {
        match value {
            Value::Object(_) => {
                flat.extend(fields(value).into_iter().map(|(inner, value)| (format!("{name}.{inner}"), value)));
            }
            value => drop(flat.insert(name.clone(), value.clone())),
        }
    }
    flat
}

/// The smallest change to tell of, as a share of the number before.
const LEAST: f64 = 0.05;

/// The same for time, throughput, and the memory that `ar` measures, which differ between runs of the same code.
const LEAST_OF_JITTERY: f64 = 0.1;

/// The shortest runs whose time and throughput are compared, in seconds: below, starting up and chance dominate.
const SHORTEST_RUN: f64 = 10.0;

/// The smallest change of the memory that `ar` measures to tell of, in GiB.
const LEAST_GIB: f64 = 0.1;

/// A quantity that can explain a gain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Quantity {
    /// Training steps.
    Steps,
    /// Passes over the data, where logs count no steps.
    Epochs,
    /// Tokens of training.
    Tokens,
    /// The size of the model.
    Parameters,
    /// Peak memory.
    Memory,
    /// The duration of training, or of the run.
    Time,
    /// The speed of training.
    Throughput,
}

/// The quantities in the order in which they are told, each with its names in logs, in the form of [`plain_name`]. The first name
/// that both logs have counts.
static QUANTITIES: [(Quantity, WordList); 7] = [
    (Quantity::Steps, WordList::new(|| word_list(include_str!("../lists/names_of_steps.txt")))),
    (Quantity::Epochs, WordList::new(|| word_list(include_str!("../lists/names_of_epochs.txt")))),
    (Quantity::Tokens, WordList::new(|| word_list(include_str!("../lists/names_of_tokens.txt")))),
    (Quantity::Parameters, WordList::new(|| word_list(include_str!("../lists/names_of_parameters.txt")))),
    (Quantity::Memory, WordList::new(|| word_list(include_str!("../lists/names_of_memory.txt")))),
    (Quantity::Time, WordList::new(|| word_list(include_str!("../lists/names_of_time.txt")))),
    (Quantity::Throughput, WordList::new(|| word_list(include_str!("../lists/names_of_throughput.txt")))),
];

/// A quantity that changed beside the metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Confound {
    /// The quantity.
    pub what: Quantity,
    /// Its name in the log; `memory_gb` and `run_seconds` are what `ar` measured.
    pub name: String,
    /// Its number in the experiment before.
    pub from: f64,
    /// Its number in this one.
    pub to: f64,
    /// The change as a share of the number before.
    pub change: f64,
}

impl fmt::Display for Confound {
    /// Writes `steps +31%`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.change < 0.0 { "" } else { "+" };
        write!(f, "{} {sign}{}", self.what, percent_text(self.change))
    }
}

/// Two numbers of one name, and the smallest change to tell of.
struct Pair {
    name: String,
    from: f64,
    to: f64,
    least: f64,
    /// The same in the unit of the numbers.
    least_distance: f64,
}

/// The quantities that changed by more than chance from `incumbent` to `record`, by the means over the runs that decided on
/// each. What the metric itself measures is no confound, and neither is throughput where it measures time.
pub fn confounds(record: &Record, incumbent: &Record) -> Vec<Confound> {
    let goals = measured_by(&record.metric.name);
    let are_long = [record, incumbent].iter().all(|record| seconds(record).is_some_and(|it| it >= SHORTEST_RUN));
    let mut found = Vec::new();
    let mut counts_steps = false;
    for (what, names) in &QUANTITIES {
        let pair = in_logs(*what, names, record, incumbent);
        counts_steps |= *what == Quantity::Steps && pair.is_some();
        let is_told = match what {
            Quantity::Epochs => !counts_steps,
            Quantity::Time | Quantity::Throughput => are_long,
            _ => true,
        };
        if goals.contains(what) || !is_told {
            continue;
        }
        let pair = pair.or_else(|| match what {
            Quantity::Memory => by_ar("memory_gb", record.memory_gb, incumbent.memory_gb, LEAST_GIB),
            Quantity::Time => by_ar("run_seconds", seconds(record), seconds(incumbent), 0.0),
            _ => None,
        });
        found.extend(pair.and_then(|pair| pair.changed(*what)));
    }
    found
}

/// The same of a keep against the experiment that it had to beat, where there is one; none of another experiment.
pub fn confounds_of_keep(record: &Record, incumbent: Option<&Record>) -> Vec<Confound> {
    let incumbent = incumbent.filter(|_| record.outcome == Outcome::Keep);
    incumbent.map(|incumbent| confounds(record, incumbent)).unwrap_or_default()
}

impl Pair {
    /// The change, if it is large enough.
    fn changed(self, what: Quantity) -> Option<Confound> {
        let Pair { name, from, to, least, least_distance } = self;
        let change = to / from - 1.0;
        let is_positive = |number: f64| number.is_finite() && number > 0.0;
        let is_large = change.abs() >= least && (to - from).abs() >= least_distance;
        (is_positive(from) && is_positive(to) && is_large).then_some(Confound { what, name, from, to, change })
    }
}

/// The numbers of a quantity under the first of its names that both logs have.
fn in_logs(what: Quantity, names: &[&str], record: &Record, incumbent: &Record) -> Option<Pair> {
    let jitters = matches!(what, Quantity::Time | Quantity::Throughput);
    let least = if jitters { LEAST_OF_JITTERY } else { LEAST };
    names.iter().find_map(|known| {
        record.metrics.iter().filter(|(name, _)| plain_name(name) == *known).find_map(|(name, to)| {
            Some(Pair { name: name.to_owned(), from: incumbent.metrics.get(name)?, to, least, least_distance: 0.0 })
        })
    })
}

/// The numbers of a quantity that `ar` measured.
fn by_ar(name: &str, to: Option<f64>, from: Option<f64>, least_distance: f64) -> Option<Pair> {
    Some(Pair { name: name.to_owned(), from: from?, to: to?, least: LEAST_OF_JITTERY, least_distance })
}

/// The mean duration of the runs that decided on an experiment.
fn seconds(record: &Record) -> Option<f64> {
    let runs = record.deciding_runs();
    (!runs.is_empty()).then(|| runs.iter().map(|run| run.seconds).sum::<f64>() / runs.len() as f64)
}

/// The quantities that a metric measures by its name.
fn measured_by(metric: &str) -> Vec<Quantity> {
    let plain = plain_name(metric);
    let mut found: Vec<Quantity> =
        QUANTITIES.iter().filter(|(_, names)| names.contains(&plain.as_str())).map(|(what, _)| *what).collect();
    let is_speed = matches!(Direction::of_name(metric), Some((_, NameKind::Rate | NameKind::Duration)));
    if is_speed || found.iter().any(|what| matches!(what, Quantity::Time | Quantity::Throughput)) {
        found.extend([Quantity::Time, Quantity::Throughput]);
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::{Direction, MetricSource, MetricSpec, Unit};
    use crate::rules::sample::{record, run};

    fn measured(value: &str, more: Value) -> Record {
        let mut fields = json!({
            "id": 1, "value": value, "metrics": {"loss": 2, "steps": 100}, "memory_gb": 1.5, "runs": [run(60.0, None)],
            "environment": {"host": "a", "gpu": null, "driver": "1", "lockfile": null},
        });
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        record(fields)
    }

    #[test]
    fn numbers_stand_side_by_side_and_what_is_the_same_elsewhere_is_left_out() {
        let environment = json!({"host": "b", "gpu": null, "driver": "1", "lockfile": null});
        let (a, b) = (
            measured("2.00", json!({})),
            measured(
                "1.90",
                json!({
                    "metrics": {"steps": 110, "lr": 0.1}, "memory_gb": null, "environment": environment,
                    "runs": [run(40.0, None), run(60.0, None)],
                }),
            ),
        );
        let rows = compare(&a, &b, [None, None]);
        let text: Vec<String> =
            rows.iter().map(|row| format!("{} {} {} {}", row.name, row.a, row.b, row.change)).collect();
        assert_eq!(
            text,
            [
                "loss 2.0 1.9 -0.10 (5.0%)",
                "steps 100 110 +10 (10%)",
                "lr null 0.1 ",
                "seconds per run 60 50 -10 (17%)",
                "memory_gb 1.5 null ",
                "host \"a\" \"b\" "
            ]
        );
        let metric = MetricSpec { name: "loss".into(), direction: Direction::Lower, source: MetricSource::Log };
        let at = a.origin.started;
        let one = Contract::new("one".parse().unwrap(), metric, "sh train.sh".into(), a.commit.clone(), at);
        let two = Contract { tag: "two".parse().unwrap(), min_delta: 0.5.into(), ..one.clone() };
        let rows = compare(&a, &a, [Some(&one), Some(&two)]);
        let settings: Vec<_> = rows.iter().filter(|row| row.aspect == Aspect::Settings).collect();
        assert_eq!(settings.len(), 1, "{settings:?}");
        assert_eq!((settings[0].name.as_str(), &settings[0].b), ("min_delta", &json!(0.5)));
    }

    #[test]
    fn a_difference_is_in_the_unit_of_the_first_and_there_is_none_between_dimensions() {
        let of = |value: &str, unit: &str| {
            let mut record = measured(value, json!({"metrics": {"p95": value.parse::<f64>().unwrap()}}));
            record.metric.unit = Some(Unit::new(unit));
            record.units.insert("p95".to_owned(), Unit::new(unit));
            record
        };
        let rows = |b: &Record| compare(&of("2.0", "s"), b, [None, None]);
        let changes = |b: &Record| rows(b).into_iter().take(2).map(|row| row.change).collect::<Vec<_>>();
        assert_eq!(changes(&of("1900", "ms")), ["-0.1 (5.0%)"; 2]);
        assert_eq!(changes(&of("1900", "MB")), [""; 2]);
    }

    /// An experiment with these numbers in its log; its run took five minutes.
    fn logged(metrics: &Value, more: Value) -> Record {
        let mut fields =
            json!({"value": "1.0", "metrics": metrics, "runs": [run(300.0, Some(1.0))], "memory_gb": 40.0});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        record(fields)
    }

    /// What changed from the first log to the second.
    fn between(from: Value, to: Value) -> Vec<String> {
        told(&confounds(&logged(&to, json!({})), &logged(&from, json!({}))))
    }

    fn told(found: &[Confound]) -> Vec<String> {
        found.iter().map(|it| format!("{it} ({})", it.name)).collect()
    }

    #[test]
    fn a_gain_is_told_with_the_steps_the_size_and_the_speed_that_came_with_it() {
        let from = json!({"val_bpb": 0.99, "training_seconds": 300.1, "total_seconds": 325.0, "peak_vram_mb": 45060.2,
            "mfu_percent": 39.8, "total_tokens_M": 499.6, "num_steps": 953, "num_params_M": 50.3, "depth": 8});
        let to = json!({"val_bpb": 0.97, "training_seconds": 300.0, "total_seconds": 400.0, "peak_vram_mb": 39000.0,
            "mfu_percent": 45.1, "total_tokens_M": 655.4, "num_steps": 1250, "num_params_M": 56.4, "depth": 9});
        let found = confounds(&logged(&to, json!({})), &logged(&from, json!({})));
        let expected = [
            "steps +31% (num_steps)",
            "tokens +31% (total_tokens_M)",
            "parameters +12% (num_params_M)",
            "memory -13% (peak_vram_mb)",
            "throughput +13% (mfu_percent)",
        ];
        assert_eq!(told(&found), expected, "training took as long, so the total time is no matter");
        let steps =
            json!({"what": "steps", "name": "num_steps", "from": 953.0, "to": 1250.0, "change": 1250.0 / 953.0 - 1.0});
        assert_eq!(json!(found[0]), steps);
    }

    #[test]
    fn small_changes_and_numbers_of_one_log_alone_are_no_confounds() {
        let from = json!({"num_steps": 1000, "tokens_per_second": 1000, "train_seconds": 100, "num_params": 100});
        assert_eq!(
            between(from.clone(), json!({"num_steps": 1049, "tokens_per_second": 1090, "train_seconds": 109})),
            [""; 0]
        );
        let large = json!({"num_steps": 950, "tokens_per_second": 1101, "train_seconds": 89});
        let expected = ["steps -5.0% (num_steps)", "time -11% (train_seconds)", "throughput +10% (tokens_per_second)"];
        assert_eq!(between(from, large), expected);
        assert_eq!(between(json!({"steps": 0, "tokens": -1}), json!({"steps": 5, "tokens": 5})), [""; 0]);
    }

    #[test]
    fn names_are_known_in_other_spellings_and_false_friends_are_left_alone() {
        let names = ["Num Steps", "trainTokens", "Parameters", "tok/sec", "peak-memory-gb", "Total Time"];
        let of = |number: f64| Value::Object(names.iter().map(|name| ((*name).to_owned(), json!(number))).collect());
        let expected = [
            "steps +100% (Num Steps)",
            "tokens +100% (trainTokens)",
            "parameters +100% (Parameters)",
            "memory +100% (peak-memory-gb)",
            "time +100% (Total Time)",
            "throughput +100% (tok/sec)",
        ];
        assert_eq!(between(of(1.0), of(2.0)), expected);
        let friends = [
            "eval_steps",
            "warmup_steps",
            "grad_accum_steps",
            "steps_per_epoch",
            "step_size",
            "max_tokens",
            "batch_tokens",
            "tokens_per_batch",
            "hyperparams",
            "num_params_embedding",
            "learning_rate",
            "lr",
            "lrm",
            "eval_seconds",
            "time_limit",
            "step_time",
            "memory_limit_gb",
            "depth",
            "batch_size",
            "val_loss",
        ];
        let of = |number: f64| Value::Object(friends.iter().map(|name| ((*name).to_owned(), json!(number))).collect());
        assert_eq!(between(of(1.0), of(2.0)), [""; 0]);
    }

    #[test]
    fn the_first_name_that_both_logs_have_counts_and_epochs_only_without_steps() {
        let from = json!({"step": 10, "num_steps": 100, "epochs": 2});
        assert_eq!(between(from.clone(), json!({"step": 20, "num_steps": 100, "epochs": 4})), [""; 0]);
        assert_eq!(between(from.clone(), json!({"step": 20, "epochs": 4})), ["steps +100% (step)"]);
        assert_eq!(between(from, json!({"epochs": 4})), ["epochs +100% (epochs)"]);
    }

    #[test]
    fn without_the_logs_own_numbers_memory_and_time_are_those_that_were_measured() {
        let of = |memory: f64, seconds: &[f64]| {
            let runs = seconds.iter().map(|seconds| {
                let mut run = run(*seconds, Some(1.0));
                run["role"] = json!(if *seconds > 1000.0 { "screen" } else { "confirm" });
                run
            });
            logged(&json!({}), json!({"id": 1, "memory_gb": memory, "runs": runs.collect::<Vec<_>>()}))
        };
        let before = of(10.0, &[300.0, 320.0]);
        let found = confounds(&of(12.0, &[5000.0, 350.0, 390.0]), &before);
        assert_eq!(told(&found), ["memory +20% (memory_gb)", "time +19% (run_seconds)"], "the screen decided nothing");
        assert_eq!((found[1].from, found[1].to), (310.0, 370.0));
        assert_eq!(confounds(&of(10.9, &[330.0]), &before), [], "it differs as much between runs of the same code");
        let small = of(0.02, &[2.0]);
        assert_eq!(confounds(&of(0.05, &[4.0]), &small), [], "the processes of a shell script");
        let short = |number: f64| {
            let log = json!({"elapsed": number, "tok_s": number, "num_steps": number});
            logged(&log, json!({"runs": [run(9.0, Some(1.0))]}))
        };
        assert_eq!(told(&confounds(&short(2.0), &short(1.0))), ["steps +100% (num_steps)"]);
        let logged = |memory: f64, seconds: f64| {
            logged(
                &json!({"memory_gb": 10.0, "elapsed": 60.0}),
                json!({"memory_gb": memory, "runs": [run(seconds, None)]}),
            )
        };
        assert_eq!(confounds(&logged(20.0, 900.0), &logged(10.0, 300.0)), [], "the log has the better number");
    }

    #[test]
    fn what_the_metric_measures_is_no_confound() {
        let of = |metric: &str, number: f64| {
            let metric = json!({"name": metric, "direction": "higher", "value": 1.0, "raw": "1.0"});
            let log = json!({"tok_s": number, "train_seconds": number, "num_params": number, "num_steps": number});
            record(json!({"metric": metric, "metrics": log, "runs": [run(300.0, Some(1.0))]}))
        };
        let with = |metric: &str| told(&confounds(&of(metric, 2.0), &of(metric, 1.0)));
        let (steps, size) = ("steps +100% (num_steps)", "parameters +100% (num_params)");
        assert_eq!(with("accuracy"), [steps, size, "time +100% (train_seconds)", "throughput +100% (tok_s)"]);
        for speed in ["tok_s", "train_seconds", "latency_ms", "frames_per_sec"] {
            assert_eq!(with(speed), [steps, size], "{speed}");
        }
        assert_eq!(with("num_params")[..2], [steps, "time +100% (train_seconds)"]);
    }

    #[test]
    fn the_page_of_the_report_names_every_name() {
        let page = include_str!("../../../../../docs/report.md");
        for (what, names) in &QUANTITIES {
            for name in names.iter() {
                assert!(page.contains(&format!("`{name}`")), "docs/report.md does not name `{name}` of {what}");
            }
        }
    }
}
