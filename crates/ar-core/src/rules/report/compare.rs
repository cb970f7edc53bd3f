//! The differences of two experiments.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::domain::{Contract, Environment, Number, Record};
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
    rows.extend(differing(Aspect::Environment, [&*a.environment, &*b.environment].map(known)));
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
        ("agent seconds", |record| record.agent.as_ref().map(|call| rounded(call.seconds))),
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

#[cfg(test)]
mod tests {
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
        let at = a.started;
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
}
