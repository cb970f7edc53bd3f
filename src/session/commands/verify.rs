//! Fresh runs of two recorded experiments beside the session, in turn and by the same seeds: how far apart they really are.

use super::fresh_runs::{FreshNews, FreshRuns, FreshTerms, Subject, first_fresh_seed, usual_seconds};
use crate::domain::{Contract, ExperimentId, FORMAT_VERSION, Number, Record, VerifiedId, VerifiedPair};
use crate::rules::{Verified, noise, samples, verified};
use crate::session::errors::{SessionError, VerifyError};
use crate::session::store::Interrupts;
use crate::session::view::SessionView;

/// One of the two experiments of a verification.
#[derive(Clone, Copy)]
pub struct VerifiedSide<'a> {
    /// Its session.
    pub view: &'a SessionView,
    /// Its record.
    pub record: &'a Record,
}

/// Runs two experiments in turn by `runs` fresh seeds, and records what all such runs of them say in a tag under `verified/`
/// of the second one's session. A verification that was interrupted is continued. `None` after an interrupt; the runs that
/// ended are recorded.
///
/// # Errors
///
/// A loop holds the session; a run gives no number; the sessions do not measure the same; those of a rerun.
pub async fn verify(
    (a, b): (VerifiedSide<'_>, VerifiedSide<'_>),
    runs: u32,
    terms: &FreshTerms,
    interrupts: &Interrupts,
    publish: &mut dyn FnMut(&FreshNews<'_>),
) -> Result<Option<VerifiedPair>, SessionError> {
    let is_one_session = a.view.tag == b.view.tag;
    let contract = b.view.terms()?;
    refuse(a, b, contract)?;
    let views = if is_one_session { vec![b.view] } else { vec![a.view, b.view] };
    let place = FreshRuns::open(&views, terms, interrupts)?;
    let [id_a, id_b] = [a, b].map(|side| VerifiedId::new((!is_one_session).then_some(&side.view.tag), side.record.id));
    let name = verified_ref(b.view, (!is_one_session).then_some(a.view), a.record.id, b.record.id);
    let known = b.view.read_tag(&name, |pair: &VerifiedPair| pair.version)?;
    let mut pair = known.unwrap_or_else(|| empty_pair(id_a, id_b));
    let done = common_seeds(&pair) as u32;
    if pair.wanted <= done {
        pair.wanted = done + runs;
    }
    let mut others = b.view.fresh_samples(Some(&pair))?;
    if !is_one_session {
        others.extend(a.view.fresh_samples(None)?);
    }
    let subjects = [a, b].map(|side| place.subject(side.view, side.record, side.record.commit.clone()));
    let [subject_a, subject_b] = subjects;
    let subjects = [subject_a?, subject_b?];
    let missing = missing_runs(&pair, first_fresh_seed(&views)?);
    let seconds = usual_seconds(a.record).max(usual_seconds(b.record));
    publish(&FreshNews::Planned { runs: missing.len() as u64, more: 0, slots: place.slots(), seconds });
    let wanted: Vec<(&Subject<'_>, u64)> = missing.iter().map(|(which, seed)| (&subjects[*which], *seed)).collect();
    let mut is_known = false;
    let is_done = place
        .make(&wanted, &mut |index, ended| {
            let (which, seed) = missing[index];
            let id = [&pair.a, &pair.b][which].text();
            let Some(value) = ended.told(&id, seed, publish) else { return Ok(()) };
            let value = value.map_err(|why| VerifyError::Failed { what: id, seed, why })?;
            add_run(&mut pair, which, seed, &value);
            let samples = [samples(&pair.values_a), samples(&pair.values_b)];
            let noise = noise(&others.iter().chain(&samples).cloned().collect::<Vec<_>>());
            if let Some(found) = verified(contract.metric.direction, &samples[0], &samples[1], noise.as_ref()) {
                is_known = true;
                set_found(&mut pair, found);
                b.view.write_tag(&name, &b.record.commit, &pair)?;
            }
            Ok(())
        })
        .await?;
    match (is_done, is_known) {
        (false, _) => Ok(None),
        (true, true) => Ok(Some(pair)),
        (true, false) => Err(VerifyError::NoNoise.into()),
    }
}

fn refuse(a: VerifiedSide<'_>, b: VerifiedSide<'_>, contract: &Contract) -> Result<(), SessionError> {
    [a, b].into_iter().try_for_each(|side| SessionView::require_commit(side.record))?;
    if a.view.tag == b.view.tag {
        return if a.record.id == b.record.id { Err(VerifyError::Same(a.record.id).into()) } else { Ok(()) };
    }
    let other = a.view.terms()?;
    let measures = |contract: &Contract| (contract.metric.name.clone(), contract.metric.direction);
    if measures(other) != measures(contract) {
        let [a, b] = [(a, other), (b, contract)].map(|(side, contract)| {
            format!("{} measures {} ({})", side.view.tag, contract.metric.name, contract.metric.direction)
        });
        return Err(VerifyError::OtherMetric { a, b }.into());
    }
    Ok(())
}

fn empty_pair(a: VerifiedId, b: VerifiedId) -> VerifiedPair {
    VerifiedPair {
        version: FORMAT_VERSION,
        a,
        b,
        runs: 0,
        difference: 0.0,
        low: 0.0,
        high: 0.0,
        level: 0.0,
        better: false,
        values_a: Vec::new(),
        values_b: Vec::new(),
        wanted: 0,
    }
}

fn add_run(pair: &mut VerifiedPair, which: usize, seed: u64, value: &Number) {
    let values = if which == 0 { &mut pair.values_a } else { &mut pair.values_b };
    values.push((seed, value.value));
}

fn set_found(pair: &mut VerifiedPair, found: Verified) {
    let Verified { difference, low, high, level, runs, better } = found;
    (pair.difference, pair.low, pair.high) = (difference, low, high);
    (pair.level, pair.runs, pair.better) = (level, runs, better);
}

/// The number of seeds that both have.
fn common_seeds(pair: &VerifiedPair) -> usize {
    pair.values_a.iter().filter(|(seed, _)| pair.values_b.iter().any(|(other, _)| other == seed)).count()
}

/// The runs that a pair lacks, each with which of the two it runs: those that were interrupted first, then by fresh seeds.
/// Who begins changes from seed to seed, so that a drift harms neither.
fn missing_runs(pair: &VerifiedPair, first_fresh: u64) -> Vec<(usize, u64)> {
    let has = |values: &[(u64, f64)], seed| values.iter().any(|(known, _)| *known == seed);
    let lacks_b = pair.values_a.iter().filter(|(seed, _)| !has(&pair.values_b, *seed)).map(|(seed, _)| (1, *seed));
    let lacks_a = pair.values_b.iter().filter(|(seed, _)| !has(&pair.values_a, *seed)).map(|(seed, _)| (0, *seed));
    let mut missing: Vec<(usize, u64)> = lacks_a.chain(lacks_b).collect();
    let begun = common_seeds(pair) + missing.len();
    for (place, seed) in (begun..pair.wanted as usize).zip(first_fresh..) {
        let first = place % 2;
        missing.extend([(first, seed), (1 - first, seed)]);
    }
    missing
}

/// The ref of a verified pair, with the other session where the first experiment is of one.
fn verified_ref(view: &SessionView, other: Option<&SessionView>, a: ExperimentId, b: ExperimentId) -> String {
    let other = other.map(|other| format!("{}-", other.tag)).unwrap_or_default();
    format!("{}/verified/{other}{a:05}-{b:05}", view.tag.ref_prefix())
}
