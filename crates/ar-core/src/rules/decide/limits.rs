//! Hard limits on values in the log, and whether what the user asked for compares with them.

use std::collections::BTreeMap;

use crate::domain::{Contract, Limit, Metrics, Number, Record, StopRule, Unit};

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
