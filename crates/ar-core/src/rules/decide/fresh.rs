//! Decisions by fresh runs, `--decide confirmed` and `strict`: what to run next for a change that its first run selected, and
//! the verdict in the end.

use super::{
    CONFIRMED, Estimate, KeepBar, MAX_FRESH, MOST_DECIMALS, NextStep, Noise, Repeats, Rivals, STRICT, Sample, Screen,
    Verdict, decide_by_simplicity, estimate, format_gain, judge_screen, next_step, noise, repeats, unmet, verdict_on,
};
use crate::domain::{
    Contract, Decide, DiffStat, Metrics, Number, Outcome, Record, Run, RunResult, RunRole, Target, VerifiedPair,
    percent_text,
};
use crate::rules::history::{History, best_kept_of, best_of};

/// Failures of baseline runs after which the known ones must suffice.
const FAILED_SEEDS: u32 = 2;

/// After how many keeps a command that gave the same number for every seed is looked at again.
const KEEPS_TO_LOOK: usize = 8;

/// A change with fresh runs.
#[derive(Debug, Clone, Copy)]
pub struct Contender<'a> {
    /// The draft of its record, by its first run.
    pub draft: &'a Record,
    /// Its further runs, in order.
    pub results: &'a [RunResult],
    /// Whether the first run counts, as nothing selected it: that of a trial.
    pub first_counts: bool,
    /// The run for it that began and is not among the results, its own or one of the baseline: it is waited for, whatever is known by
    /// now.
    pub begun: Option<&'a FreshStep>,
    /// The numbers of the baseline's runs that are under way for other changes.
    pub beside: &'a [u32],
}

/// The next step for a change with fresh runs.
#[derive(Debug, Clone, PartialEq)]
pub enum FreshStep {
    /// Run the baseline with the seed of this number: too little is known about the noise, or a seed is missing.
    Baseline(u32),
    /// Run the change again: its further run of this number, from 1.
    Another(u32),
    /// Wait: the baseline lacks no run but those that are under way for other changes.
    Await,
    /// Nothing: it is decided.
    Decided(Verdict),
}

/// Returns whether fresh runs decide on changes.
pub fn is_confirmed(contract: &Contract) -> bool {
    contract.decide != Decide::Once
}

/// How many runs of the baseline are made at the start, on so many `slots`, or *in place*: there the loop begins after one run
/// unless the contract says more, so that an agent that does not work is seen soon.
pub fn baseline_runs(contract: &Contract, slots: Option<u32>) -> u32 {
    let wanted = match slots {
        Some(_) if is_confirmed(contract) => MAX_FRESH as u32,
        _ => 1,
    };
    contract.baseline_runs.unwrap_or(wanted).max(slots.unwrap_or(1))
}

/// The runs of the baseline without which no fresh run decides.
pub fn most_of_baseline(contract: &Contract) -> u32 {
    contract.baseline_runs.unwrap_or(MAX_FRESH as u32).max(2)
}

/// The most runs that the next keep takes, with those that the baseline lacks, and each later one.
pub fn runs_of_keep(contract: &Contract, history: &History) -> (u32, u32) {
    let known = history.baseline().map_or(0, |baseline| fresh_runs(baseline).len() as u32);
    let later = 1 + MAX_FRESH as u32;
    (later + most_of_baseline(contract).saturating_sub(known), later)
}

fn sample_of(run: &Run) -> Option<Sample> {
    Some(Sample { seed: run.seed?, value: run.value? })
}

/// The fresh runs of a recorded experiment, which nothing selected: all that a baseline has, else those that decided.
pub fn fresh_runs(record: &Record) -> Vec<Sample> {
    let is_baseline = record.id.is_baseline();
    let own = record.runs.iter().filter(|run| is_baseline && run.role == Some(RunRole::Baseline) && !run.void);
    let own: Vec<Sample> = own.filter_map(sample_of).collect();
    if !own.is_empty() {
        return own;
    }
    let deciding = record.deciding_runs();
    deciding.into_iter().filter_map(sample_of).collect()
}

/// The fresh runs that each experiment has, for an estimate of the noise: those of the records, and those that verified them.
pub fn fresh_groups(history: &History) -> Vec<Vec<Sample>> {
    fresh_groups_besides(history, None)
}

/// The same without the runs that verified one pair.
pub fn fresh_groups_besides(history: &History, besides: Option<&VerifiedPair>) -> Vec<Vec<Sample>> {
    let is_other = |pair: &&VerifiedPair| besides.is_none_or(|it| (&it.a, &it.b) != (&pair.a, &pair.b));
    // The first one of another session may have been run by another command.
    let runs_of = |pair: &'_ VerifiedPair| {
        let own = pair.a.own().map(|_| samples(&pair.values_a));
        own.into_iter().chain([samples(&pair.values_b)]).collect::<Vec<_>>()
    };
    let verified = history.verified().iter().filter(is_other).flat_map(runs_of);
    recorded_groups(history.records()).into_iter().chain(verified).collect()
}

/// The runs of one experiment, by seed and value.
pub(crate) fn samples(values: &[(u64, f64)]) -> Vec<Sample> {
    values.iter().map(|(seed, value)| Sample { seed: *seed, value: *value }).collect()
}

/// The fresh runs that each record has. First runs that selected a change are none.
fn recorded_groups(records: &[Record]) -> Vec<Vec<Sample>> {
    let is_fresh = |record: &&Record| !record.deciding_runs().iter().any(|run| run.role == Some(RunRole::Screen));
    records.iter().filter(is_fresh).map(fresh_runs).filter(|group| !group.is_empty()).collect()
}

/// The noise that the fresh runs of a session show, if any experiment has two.
pub fn session_noise(history: &History) -> Option<Noise> {
    noise(&fresh_groups(history), history.takes_seeds())
}

/// The bar of a contract for a change of this size.
pub(super) fn bar(contract: &Contract, records: &[Record], diff: DiffStat) -> KeepBar {
    let baseline = records.first().and_then(|record| record.metric.number());
    let own = |target: &Target| target.value(baseline.as_ref());
    let min_delta = own(&contract.min_delta);
    let min_delta = match contract.simpler_wins.as_ref().map(own) {
        Some(margin) if diff.deleted > diff.added => -margin,
        Some(margin) if diff.added > diff.deleted => min_delta.max(margin),
        _ => min_delta,
    };
    let bars = if contract.decide == Decide::Strict { STRICT } else { CONFIRMED };
    KeepBar { direction: contract.metric.direction, min_delta, bars }
}

/// The first runs of the changes of this incumbent that failed the screen, since one of them had fresh runs.
fn failed_screens(history: &History, incumbent: &Record) -> Vec<f64> {
    let is_fresh = |run: &Run| run.role == Some(RunRole::Confirm) && !run.void;
    let screen = |run: &&Run| run.role == Some(RunRole::Screen) && !run.void;
    let last = history.records().iter().rev().filter(|record| record.base == incumbent.commit);
    last.take_while(|record| !record.runs.iter().any(is_fresh))
        .filter(|record| record.failure.is_none() && record.unmet_limits.is_empty())
        .filter_map(|record| record.runs.last().filter(screen)?.value)
        .collect()
}

/// The verdict on a change's first run, by what its value alone says: `Keep` if it gets fresh runs. The `records` are those up to
/// its base; the noise is that of the whole `history`.
pub(super) fn screen(
    contract: &Contract,
    (history, records): (&History, &[Record]),
    diff: DiffStat,
    first: (&Number, Option<u64>),
    by_value: Verdict,
) -> Verdict {
    let (value, Some(seed)) = first else { return by_value };
    let Some(incumbent) = numbered_keep(records) else { return by_value };
    let (fresh, baseline) = (fresh_runs(incumbent), records.first().map(fresh_runs).unwrap_or_default());
    if fresh.is_empty() {
        return by_value;
    }
    let (bar, sample) = (bar(contract, records, diff), Sample { seed, value: value.value });
    let (noise, failed) = (session_noise(history), failed_screens(history, incumbent));
    let screened = judge_screen(&bar, (&fresh, &baseline), noise.as_ref(), &failed, sample);
    let is_simple = contract.simpler_wins.is_some() && by_value.outcome == Outcome::Keep;
    let why = match (screened, by_value.outcome) {
        (Screen::Passed, Outcome::Keep) | (Screen::Failed, Outcome::Discard | Outcome::Crash) => return by_value,
        (Screen::Failed, Outcome::Keep) if is_simple => return by_value,
        (Screen::Failed, Outcome::Keep) => return too_little(&by_value.reason),
        (Screen::Passed, _) => format!("better than seed {seed} makes expect"),
        (Screen::BestFailed, _) => "the best of the first runs since any passed the screen".to_owned(),
    };
    Verdict { outcome: Outcome::Keep, reason: format!("{}, but {why}", by_value.reason) }
}

/// The verdict on a change whose first run is better by less than the noise.
pub(super) fn too_little(reason: &str) -> Verdict {
    let reason = format!("{reason}, which is less than one run can tell from noise");
    Verdict { outcome: Outcome::Discard, reason }
}

/// The next step for a change that its first run selected, or for a trial. The `records` are those up to its base; the noise is
/// that of the whole `history`.
pub fn fresh_step(
    contract: &Contract,
    history: &History,
    records: &[Record],
    diff: DiffStat,
    contender: Contender<'_>,
) -> FreshStep {
    if let Some(step) = step_before_verdict(contract, history, records, diff, contender) {
        return step;
    }
    let kept = FreshStep::Decided(Verdict { outcome: Outcome::Keep, reason: contender.draft.reason.clone() });
    let Some(incumbent) = numbered_keep(records) else { return kept };
    let (against, fresh) = (fresh_runs(incumbent), fresh_of(contender));
    let mut all = fresh_groups(history);
    all.push(fresh.clone());
    if contender.results.len() <= 1 && repeats(&all) == Repeats::Exact {
        let first = contender.draft.metric.value;
        match contender.results {
            [] if !contender.first_counts && is_look_due(records) => return FreshStep::Another(1),
            [look] if first != Some(look.number.value) => {
                // The first run is the only other one that tells of the noise.
                let first = contender.draft.runs.last().and_then(sample_of);
                all.pop();
                all.push(first.into_iter().chain(fresh.iter().copied()).collect());
            }
            // One number for every seed: the first run has decided, unless it is a trial.
            _ => {
                let number = contender.draft.metric.number().filter(|_| contender.first_counts);
                let verdict = number.map(|number| verdict_on(contract, records, diff, &number));
                return verdict.map_or(kept, FreshStep::Decided);
            }
        }
    }
    let noise = noise(&all, history.takes_seeds());
    let bar = bar(contract, records, diff);
    match next_step(&bar, &against, &fresh, noise.as_ref()) {
        NextStep::Run => FreshStep::Another(contender.results.len() as u32 + 1),
        step => {
            let found = estimate(&bar, &against, &fresh, noise.as_ref());
            FreshStep::Decided(verdict(contract, records, diff, contender, step == NextStep::Keep, found))
        }
    }
}

/// The last keep with a number among these records.
pub(super) fn numbered_keep(records: &[Record]) -> Option<&Record> {
    records.iter().rfind(|record| record.outcome == Outcome::Keep && record.metric.value.is_some())
}

/// The step that comes before fresh runs are compared: without anything to compare with the change is kept, a limit or its first run
/// discards it, a run that began is waited for, or the baseline has too few runs.
pub(super) fn step_before_verdict(
    contract: &Contract,
    history: &History,
    records: &[Record],
    diff: DiffStat,
    contender: Contender<'_>,
) -> Option<FreshStep> {
    let kept = FreshStep::Decided(Verdict { outcome: Outcome::Keep, reason: contender.draft.reason.clone() });
    let Some((incumbent, baseline)) = numbered_keep(records).zip(history.baseline()) else { return Some(kept) };
    let known = fresh_runs(baseline);
    let wanted = most_of_baseline(contract);
    // A run that failed has a seed and no value.
    let has_run = |number: u32| {
        let is_it = |run: &Run| run.role == Some(RunRole::Baseline) && run.seed == Some(number.into());
        baseline.runs.iter().any(is_it)
    };
    // Runs of an earlier version have no seeds, and an empty baseline no value.
    if known.is_empty() || fresh_runs(incumbent).is_empty() {
        return Some(kept);
    }
    if let Some((seed, unmet)) = over_limit(contract, contender.results) {
        let seed = seed.map(|seed| format!(" with seed {seed}")).unwrap_or_default();
        let reason =
            format!("{}, but its fresh run{seed} exceeded a limit: {}", contender.draft.reason, unmet.join(", "));
        return Some(FreshStep::Decided(Verdict { outcome: Outcome::Discard, reason }));
    }
    if let Some(begun) = contender.begun {
        return Some(begun.clone());
    }
    if known.len() < wanted as usize {
        let missing = (1..=wanted + FAILED_SEEDS).filter(|number| !has_run(*number));
        let (beside, free): (Vec<u32>, Vec<u32>) = missing.partition(|number| contender.beside.contains(number));
        match free.first() {
            Some(number) if known.len() + beside.len() < wanted as usize => {
                return Some(FreshStep::Baseline(*number));
            }
            _ if !beside.is_empty() => return Some(FreshStep::Await),
            _ => {}
        }
    }
    // Since the first run was judged, the baseline's other runs may have told more of the noise.
    let first = contender.draft.metric.number().zip(contender.draft.runs.last());
    let (value, run) = first.filter(|_| contender.results.is_empty() && !contender.first_counts)?;
    let by_value = verdict_on(contract, records, diff, &value);
    let again = screen(contract, (history, records), diff, (&value, run.seed), by_value);
    (again.outcome != Outcome::Keep).then_some(FreshStep::Decided(again))
}

/// The first of these runs that exceeds a limit, by its seed, with the limits: each must hold in every run.
pub fn over_limit(contract: &Contract, results: &[RunResult]) -> Option<(Option<u64>, Vec<String>)> {
    let unmet = |result: &RunResult| {
        let measured = (&result.metrics, &result.units);
        let unmet = unmet(contract, Some(&result.number), result.memory_gb, measured);
        (!unmet.is_empty()).then_some((result.run.seed, unmet))
    };
    results.iter().find_map(unmet)
}

/// The fresh runs of a contender.
fn fresh_of(contender: Contender<'_>) -> Vec<Sample> {
    let first = contender.draft.runs.last().filter(|_| contender.first_counts).and_then(sample_of);
    let further = contender.results.iter();
    let further = further.filter_map(|result| Some(Sample { seed: result.run.seed?, value: result.number.value }));
    first.into_iter().chain(further).collect()
}

/// Returns whether a command that gave the same number for every seed is looked at again: by one more run of a change that is
/// kept.
fn is_look_due(records: &[Record]) -> bool {
    let is_look = |record: &Record| record.runs.iter().any(|run| run.role == Some(RunRole::Confirm) && !run.void);
    let since = records.iter().rev().take_while(|record| !is_look(record) && !record.id.is_baseline());
    since.filter(|record| record.outcome == Outcome::Keep).count() >= KEEPS_TO_LOOK
}

/// The verdict by fresh runs, in words.
fn verdict(
    contract: &Contract,
    records: &[Record],
    diff: DiffStat,
    contender: Contender<'_>,
    is_better: bool,
    found: Option<Estimate>,
) -> Verdict {
    let mean = with_runs(contender.draft, contender.results, contender.first_counts).metric.number();
    let (Some(mean), Some((id, best)), Some(found)) = (mean, best_of(records), found) else {
        return Verdict { outcome: Outcome::Discard, reason: "not confirmed: nothing to compare with".into() };
    };
    let name = &contract.metric.name;
    let [fine, coarse] = [usize::max, usize::min].map(|of| of(mean.decimals(), best.decimals()));
    let decimals = fine.min(12);
    // What the reader subtracts are the means as they stand here. The estimate allows for the seeds that both have.
    let shown = |number: &Number| number.raw.parse().unwrap_or(number.value);
    let gain = contract.metric.direction.gain(shown(&mean), shown(&best));
    let way = |gain: f64| match format!("{:.decimals$}", gain.abs()) {
        size if size.parse() == Ok(0.0) => "the same".to_owned(),
        size => format!("{} by {size}", if gain < 0.0 { "worse" } else { "better" }),
    };
    let is_paired = (gain - found.difference).abs() > 1.5 * 0.1_f64.powi(coarse as i32);
    let seeds =
        if is_paired { format!("; without the luck of seeds {}", way(found.difference)) } else { String::new() };
    let runs = if found.runs == 1 { "1 fresh run".to_owned() } else { format!("{} fresh runs", found.runs) };
    let unit = mean.unit.as_ref().map(|unit| format!(" {unit}")).unwrap_or_default();
    let mut reason = format!(
        "{name} {mean} against {best} of experiment {id}: {}{seeds} ± {:.decimals$}{unit} on {runs} ({} sure{})",
        way(gain),
        found.error,
        sure_text(found.sure),
        of_what(bar(contract, records, diff).min_delta),
    );
    if let Some(first) = contender.draft.metric.number().filter(|_| !contender.first_counts) {
        let way = if contract.metric.direction.better(first.value, best.value) { "" } else { " worse" };
        reason += &format!("; its first run had said {}{way}", format_gain(&first, &best));
    }
    let simplicity = contract.simpler_wins.as_ref().and_then(|margin| {
        let margin = margin.value(Some(&mean));
        let best = best_kept_of(records)?.1;
        let (id, incumbent) = best_of(records)?;
        decide_by_simplicity(&contract.metric, &mean, Rivals { id, incumbent: &incumbent, best: &best }, margin, diff)
    });
    if let Some(Verdict { outcome, reason: why }) = simplicity.filter(|_| is_better) {
        return Verdict { outcome, reason: format!("{why}; {reason}") };
    }
    match is_better {
        true => Verdict { outcome: Outcome::Keep, reason },
        false => Verdict { outcome: Outcome::Discard, reason: format!("not confirmed: {reason}") },
    }
}

/// What the probability is about, where that is not being better at all.
fn of_what(min_delta: f64) -> String {
    match min_delta {
        0.0 => String::new(),
        cost if cost < 0.0 => format!(" that it costs less than {}", -cost),
        gain => format!(" that it gains more than {gain}"),
    }
}

/// A probability in percent, never 100 %: fresh runs prove nothing.
fn sure_text(probability: f64) -> String {
    percent_text((probability * 100.0).floor().clamp(0.0, 99.0) / 100.0)
}

/// A record with further fresh runs: its value and its metrics are the means over all that decide, its memory is the most of
/// them. `counts` says whether the runs that decided so far count among them.
#[must_use]
pub fn with_runs(record: &Record, results: &[RunResult], counts: bool) -> Record {
    let mut record = record.clone();
    let Some(first) = results.first() else { return record };
    let before = if counts { record.deciding_runs().len() } else { 0 };
    let weight = before as f64;
    let mean = |own: Option<f64>, values: Vec<f64>| {
        let sum = own.map_or(0.0, |own| own * weight) + values.iter().sum::<f64>();
        sum / (weight + values.len() as f64)
    };
    let own = record.metric.number().filter(|_| before > 0);
    let is_same = |own: &Number| results.iter().all(|result| result.number.value == own.value);
    let number = match (&own, results) {
        (None, [only]) => only.number.clone(),
        // A command that gives the same number each time gives no more decimals by that.
        (Some(own), _) if is_same(own) => own.clone(),
        _ => {
            // The mean of several has one decimal more than they have, unless they are written to their last bit.
            let known = own.as_ref().map(|number| number.decimals().saturating_sub(usize::from(before > 1)));
            let decimals = results.iter().map(|result| result.number.decimals()).chain(known).max().unwrap_or_default();
            let value = mean(own.map(|it| it.value), results.iter().map(|it| it.number.value).collect());
            let unit = results.first().and_then(|result| result.number.unit.clone());
            let mean = Number::of(value);
            let raw = if decimals < MOST_DECIMALS { format!("{value:.*}", decimals + 1) } else { mean.raw.clone() };
            Number { unit, raw, ..mean }
        }
    };
    let printed = if before > 0 { &record.metrics } else { &first.metrics };
    let metric = |name: String| {
        let own = if before > 0 { Some(record.metrics.get(&name)?) } else { None };
        let values: Option<Vec<f64>> = results.iter().map(|result| result.metrics.get(&name)).collect();
        Some((name, mean(own, values?)))
    };
    record.metrics = printed.names().cloned().filter_map(metric).collect::<Metrics>().in_digits_of(printed);
    let own = record.memory_gb.filter(|_| before > 0);
    record.memory_gb = results.iter().filter_map(|result| result.memory_gb).chain(own).reduce(f64::max);
    record.metric.put(Some(&number));
    for result in results {
        record.add_runs([result.run.clone()], result.sandbox);
    }
    record
}

/// The record of a baseline with further runs of it, which says over how many its number is the mean.
#[must_use]
pub fn baseline_with(record: &Record, results: &[RunResult]) -> Record {
    let mut record = with_runs(record, results, true);
    let count = record.deciding_runs().len();
    if let Some(number) = record.metric.number().filter(|_| count > 1) {
        record.reason = format!("{} is {number} over {count} runs, the number to beat", record.metric.name);
    }
    record
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::rules::sample;

    fn run(role: RunRole, seed: u64, value: f64) -> Run {
        let run = sample::run(60.0, Some(value));
        let run: Run = serde_json::from_value(run).unwrap();
        Run { role: Some(role), seed: Some(seed), ..run }
    }

    fn kept(id: u32, value: &str, runs: &[Run]) -> Record {
        let fields = json!({"id": id, "sequence": id, "commit": format!("c{id}"), "value": value, "runs": runs});
        sample::record(fields)
    }

    fn result(seed: u64, value: f64) -> RunResult {
        RunResult {
            run: run(RunRole::Confirm, seed, value),
            number: Number::of(value),
            metrics: Metrics::default(),
            units: BTreeMap::new(),
            memory_gb: None,
            sandbox: None,
        }
    }

    #[test]
    fn a_mean_has_a_decimal_more_than_its_runs_unless_they_have_all() {
        for (texts, mean) in [(["0.50", "0.52"], "0.510"), (["0.30000000000000004", "0.10"], "0.2")] {
            let printed = |text: &str| RunResult { number: text.parse().unwrap(), ..result(1, 0.0) };
            let record = with_runs(&kept(1, "1", &[]), &texts.map(printed), false);
            assert_eq!(record.metric.raw.as_deref(), Some(mean));
        }
    }

    #[test]
    fn the_figures_of_a_verdict_subtract_and_what_the_seeds_explain_is_said_apart() {
        let contract = Contract { decide: Decide::Confirmed, ..sample::contract("sh train.sh") };
        let runs: Vec<Run> =
            (1..).zip([9.0, 10.0, 14.0, 13.0]).map(|(seed, it)| run(RunRole::Baseline, seed, it)).collect();
        let reason = |ignores_seeds, values: [f64; 4]| {
            let mut records = vec![kept(0, "11.50", &runs)];
            records[0].conditions.ignores_seeds = ignores_seeds;
            let draft = kept(1, "1.0", &[run(RunRole::Screen, 1, 1.0)]);
            let results: Vec<RunResult> = (2..).zip(values).map(|(seed, value)| result(seed, value)).collect();
            let contender =
                Contender { draft: &draft, results: &results, first_counts: false, begun: None, beside: &[] };
            match fresh_step(&contract, &History::new(records.clone()), &records, DiffStat::default(), contender) {
                FreshStep::Decided(verdict) => verdict.reason,
                step => panic!("{step:?}"),
            }
        };
        let plain = "loss 6.8 against 11.50 of experiment 0: better by 4.70";
        let said = reason(true, [4.0, 8.0, 6.0, 9.0]);
        assert!(said.starts_with(&format!("{plain} ± 1.63 on 4 fresh runs")), "{said}");
        let said = reason(false, [4.0, 8.0, 6.0, 9.0]);
        assert!(said.starts_with(&format!("{plain}; without the luck of seeds better by 5.")), "{said}");
        let said = reason(true, [10.0, 12.0, 13.0, 11.0]);
        assert!(said.contains(" against 11.50 of experiment 0: the same ± "), "{said}");
    }

    #[test]
    fn a_command_that_seemed_exact_is_looked_at_again_now_and_then() {
        let contract = Contract { decide: Decide::Confirmed, ..sample::contract("sh train.sh") };
        let baseline: Vec<Run> = (1..=4).map(|seed| run(RunRole::Baseline, seed, 9.0)).collect();
        let mut records = vec![kept(0, "9.0", &baseline)];
        let step = |records: &[Record], results: &[RunResult]| {
            let draft = kept(99, "1.0", &[run(RunRole::Screen, 1, 1.0)]);
            let contender = Contender { draft: &draft, results, first_counts: false, begun: None, beside: &[] };
            fresh_step(&contract, &History::new(records.to_vec()), records, DiffStat::default(), contender)
        };
        for id in 1..=KEEPS_TO_LOOK as u32 {
            assert!(matches!(step(&records, &[]), FreshStep::Decided(_)), "after {} keeps", id - 1);
            records.push(kept(id, "8.0", &[run(RunRole::Screen, 1, 8.0)]));
        }
        assert_eq!(step(&records, &[]), FreshStep::Another(1));
        assert!(matches!(step(&records, &[result(2, 1.0)]), FreshStep::Decided(it) if it.outcome == Outcome::Keep));
        assert_eq!(step(&records, &[result(2, 1.5)]), FreshStep::Another(2), "it is exact no longer");
        let looked = kept(50, "1.0", &[run(RunRole::Screen, 1, 1.0), run(RunRole::Confirm, 2, 1.0)]);
        records.push(looked);
        assert!(matches!(step(&records, &[]), FreshStep::Decided(_)), "not at once again");
    }

    /// Takes changes on that are confirmed beside each other, by turns: each begins the run that is next for it, ends it, or gives it up
    /// with a turn of 0. Gives the seeds of the baseline and the verdicts, once all are decided.
    fn night(changes: usize, failing: Option<u32>, turns: &[(usize, u32)]) -> (Vec<u64>, Vec<Option<Verdict>>) {
        let contract = Contract { decide: Decide::Confirmed, ..sample::contract("sh train.sh") };
        let draft = kept(9, "1.0", &[run(RunRole::Screen, 1, 1.0)]);
        let mut records = vec![kept(0, "9.0", &[run(RunRole::Baseline, 1, 9.0)])];
        let mut results = vec![Vec::new(); changes];
        let mut begun: Vec<Option<FreshStep>> = vec![None; changes];
        let mut verdicts = vec![None; changes];
        let last = (0..20).flat_map(|_| (0..changes).map(|id| (id, 1)));
        for (id, turn) in turns.iter().map(|(id, turn)| (id % changes, *turn)).chain(last) {
            let own = begun[id].take();
            let number = |step: &FreshStep| if let FreshStep::Baseline(number) = step { Some(*number) } else { None };
            let beside: Vec<u32> = begun.iter().flatten().filter_map(number).collect();
            let contender = Contender {
                draft: &draft,
                results: &results[id],
                first_counts: false,
                begun: own.as_ref(),
                beside: &beside,
            };
            let history = History::new(records.clone());
            let step = fresh_step(&contract, &history, &records, DiffStat::default(), contender);
            assert!(own.is_none() || own.as_ref() == Some(&step), "what began is waited for");
            match step {
                FreshStep::Decided(verdict) => verdicts[id] = Some(verdict),
                FreshStep::Await => assert!(!beside.is_empty(), "it waits for nobody"),
                FreshStep::Baseline(number) if own.is_none() => {
                    let has_run = records[0].runs.iter().any(|run| run.seed == Some(number.into()));
                    assert!(!has_run && !beside.contains(&number), "the baseline's run {number} is made twice");
                    begun[id] = Some(step);
                }
                FreshStep::Another(_) if own.is_none() => begun[id] = Some(step),
                _ if turn == 0 => {}
                FreshStep::Baseline(number) => {
                    let run = run(RunRole::Baseline, number.into(), 9.0 + f64::from(number % 3));
                    let value = run.value.filter(|_| failing != Some(number));
                    records[0].runs.push(Run { value, ..run });
                }
                FreshStep::Another(number) => {
                    results[id].push(result(u64::from(number) + 1, 7.0 + f64::from(number) / 10.0));
                }
            }
        }
        let mut seeds: Vec<u64> = records[0].runs.iter().filter_map(|run| run.seed).collect();
        seeds.sort_unstable();
        (seeds, verdicts)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_run_of_the_baseline_is_made_twice_in_any_order_and_each_change_is_decided_as_if_it_were_alone(
            changes in 1..4_usize, failing in prop::option::of(2..6_u32),
            turns in prop::collection::vec((0..12_usize, 0..9_u32), 0..40),
        ) {
            let (seeds, verdicts) = night(changes, failing, &turns);
            let (alone, verdict) = night(1, failing, &[]);
            prop_assert_eq!(seeds, alone);
            prop_assert!(verdict[0].is_some() && verdicts.iter().all(|other| *other == verdict[0]), "{:?}", verdicts);
        }
    }
}
