//! Hard limits on values in the log.

use std::collections::BTreeMap;

use crate::domain::{Contract, Limit, Metrics, Number, Unit};

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
        Some(value) => Some(format!("{} is {value} and must be {} {}", limit.name, limit.comparison, limit.bound)),
        None => Some(format!("the run printed no {}, which must be {} {}", limit.name, limit.comparison, limit.bound)),
    };
    contract.limits.iter().filter_map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{CommitId, Direction, MetricSource, MetricSpec};

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
        let metrics = metrics(&[("latency_ms", 200.0), ("p95", 0.3)]);
        for (limit, broken) in [
            ("latency_ms<=100", Some("latency_ms is 200 and must be <= 100")),
            ("latency_ms<=0.25s", None),
            ("latency_ms<=0.1s", Some("latency_ms is 200 and must be <= 0.1 s")),
            ("p95<=250ms", Some("p95 is 0.3 and must be <= 250 ms")),
            ("p95<=0.5", None),
            ("memory_gb<=41000MB", None),
            ("memory_gb<=40GB", Some("memory_gb is 38 and must be <= 40 GB")),
            ("acc>=95%", Some("acc is 0.9 and must be >= 95%")),
        ] {
            let contract =
                Contract { metric: MetricSpec { name: "acc".into(), ..contract(&[]).metric }, ..contract(&[limit]) };
            let found = unmet(&contract, Some(&Number::of(0.9)), Some(38.0), (&metrics, &units));
            assert_eq!(found.first().map(String::as_str), broken, "{limit}");
        }
    }
}
