//! Fresh runs of two recorded experiments beside the session, in turn and by the same seeds: how far apart they really are.

use super::fresh_runs::{FreshNews, FreshRuns, FreshTerms, Subject, first_seed_of, usual_seconds};
use crate::domain::{Contract, Record, VerifiedId, VerifiedPair};
use crate::rules::{fresh_groups, fresh_groups_besides};
use crate::session::errors::{SessionError, VerifyError};
use crate::session::store::{Interrupts, read_tag, record_verified};
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
    let name = b.view.tag.verified_ref((!is_one_session).then_some(&a.view.tag), a.record.id, b.record.id);
    let known = read_tag(&b.view.repo, &name, |pair: &VerifiedPair| pair.version)?;
    let mut pair = known.unwrap_or_else(|| VerifiedPair::new(id_a, id_b));
    let done = pair.common_seeds();
    if pair.wanted <= done {
        pair.wanted = done + runs;
    }
    let mut others = fresh_groups_besides(&b.view.history, Some(&pair));
    if !is_one_session {
        others.extend(fresh_groups(&a.view.history));
    }
    let subjects = [a, b].map(|side| place.subject(side.view, side.record, side.record.commit.clone()));
    let [subject_a, subject_b] = subjects;
    let subjects = [subject_a?, subject_b?];
    let missing = pair.missing(first_seed_of(&views)?);
    let seconds = usual_seconds(a.record).max(usual_seconds(b.record));
    publish(&FreshNews::Planned { runs: missing.len() as u64, more: 0, slots: place.slots(), seconds });
    let wanted: Vec<(&Subject<'_>, u64)> = missing.iter().map(|(which, seed)| (&subjects[*which], *seed)).collect();
    let mut is_known = false;
    let is_done = place
        .make(&wanted, &mut |index, ended| {
            let (which, seed) = missing[index];
            let id = [&pair.a, &pair.b][which].text();
            let Some(value) = ended.told(&id, seed, publish) else { return Ok(()) };
            let value = value.map_err(|it| VerifyError::Failed { what: id, seed, why: it.why })?;
            let place = (&b.view.repo, name.as_str(), &b.record.commit);
            let run = (which, seed, value.value);
            is_known = record_verified(place, &mut pair, run, contract.metric.direction, &others)?;
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
    let [of_a, of_b] = [(a, other), (b, contract)].map(|(side, contract)| {
        let unit = side.record.metric.unit.as_ref().map(|unit| format!(" in {unit}")).unwrap_or_default();
        format!("{}{unit} ({})", contract.metric.name, contract.metric.direction)
    });
    if of_a != of_b {
        let [a, b] = [(a, of_a), (b, of_b)].map(|(side, metric)| format!("{} measures {metric}", side.view.tag));
        return Err(VerifyError::OtherMetric { a, b }.into());
    }
    Ok(())
}
