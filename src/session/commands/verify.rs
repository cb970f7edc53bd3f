//! Two experiments compared by fresh runs of both, by the same seeds, beside the session.

use super::{FreshEnd, FreshNews, FreshRun, FreshRuns, FreshTerms, first_seed_of, usual_seconds};
use crate::crash;
use crate::domain::{Contract, Record, VerifiedId, VerifiedPair};
use crate::rules::{ComparedPair, HiddenBook, HiddenEntry, Sample};
use crate::session::SessionView;
use crate::session::errors::{SessionError, VerifyError};
use crate::session::handlers::record_verified;
use crate::session::store::{Interrupts, read_tag};
use crate::state::HiddenFile;

/// The fresh runs of each experiment, by their visible values and by their hidden ones.
type FreshGroups = [Vec<Vec<Sample>>; 2];

/// One of the two experiments of a verification.
#[derive(Clone, Copy)]
pub struct VerifiedSide<'a> {
    /// Its session.
    pub view: &'a SessionView,
    /// Its record.
    pub record: &'a Record,
}

/// Runs two experiments in turn by `runs` fresh seeds, and records what all such runs of them say in a tag under `verified/`
/// of the second one's session, or with `--holdout`, where the hidden evaluator follows each, in `hidden.jsonl` alone. A
/// verification that was interrupted is continued. `None` after an interrupt; the runs that ended are recorded.
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
) -> Result<Option<ComparedPair>, SessionError> {
    let is_one_session = a.view.tag == b.view.tag;
    let contract = b.view.terms()?;
    refuse_unlike(a, b, terms.holdout)?;
    let views = if is_one_session { vec![b.view] } else { vec![a.view, b.view] };
    let mut place = FreshRuns::open(&views, terms, interrupts).await?;
    if terms.holdout {
        let [a, b] = [a, b].map(|side| format!("{}:{}", side.view.tag, side.record.id));
        place.mark = format!("verify {a} {b}");
    }
    let name = b.view.tag.verified_ref((!is_one_session).then_some(&a.view.tag), a.record.id, b.record.id);
    let (mut pair, others) = known_pair((a, b), &name, terms.holdout)?;
    let done = pair.common_seeds();
    if pair.visible.wanted <= done {
        pair.visible.wanted = done + runs;
    }
    let takes_seeds = [a, b].iter().all(|side| side.view.history.takes_seeds());
    let subjects = [a, b].map(|side| place.subject(side.view, side.record, side.record.commit.clone()));
    let [subject_a, subject_b] = subjects;
    let subjects = [subject_a?, subject_b?];
    let mut missing = pair.unevaluated();
    let unevaluated = missing.len();
    missing.extend(pair.visible.missing(first_seed_of(&views)?));
    let seconds = usual_seconds(a.record).max(usual_seconds(b.record));
    publish(&FreshNews::Planned { runs: missing.len() as u64, more: 0, slots: place.slots(), seconds });
    let wanted = (0..).zip(&missing).map(|(index, (which, seed))| (&subjects[*which], *seed, index < unevaluated));
    let wanted: Vec<FreshRun<'_>> = wanted.collect();
    let mut is_known = false;
    let is_done = place
        .make(&wanted, &mut |index, ended| {
            let (which, seed) = missing[index];
            let is_hidden = matches!(ended, FreshEnd::Ended { is_hidden: true, .. });
            let id = [&pair.visible.a, &pair.visible.b][which].text();
            let id = if is_hidden { format!("the evaluator of {id}") } else { id };
            let Some(value) = ended.told(&id, seed, publish) else { return Ok(()) };
            let value = value.map_err(|it| VerifyError::Failed { what: id, seed, why: it.why, is_hidden })?.value;
            let ComparedPair { visible, hidden } = &mut pair;
            let Some(hidden) = hidden else {
                let (place, run) = ((&b.view.repo, name.as_str(), &b.record.commit), (which, seed, value));
                let others = (others[0].as_slice(), takes_seeds);
                is_known = record_verified(place, visible, run, contract.metric.direction, others)?;
                return Ok(());
            };
            if is_hidden { hidden } else { visible }.add(which, seed, value);
            is_known = pair.judge(contract, &others, takes_seeds);
            HiddenFile::new(&b.view.folder.state()).add(&HiddenEntry::Verified(Box::new(pair.clone())))?;
            crash::point("verifying.noted");
            Ok(())
        })
        .await?;
    if terms.holdout {
        place.clear(&b.view.repo, &HiddenFile::new(&b.view.folder.state()).read()?)?;
    }
    match (is_done, is_known) {
        (false, _) => Ok(None),
        (true, true) => Ok(Some(pair)),
        (true, false) => Err(VerifyError::NoNoise.into()),
    }
}

/// What earlier verifications say of the two experiments, in the tag of that name or in `hidden.jsonl`, and the fresh runs of others,
/// by the visible and the hidden values.
fn known_pair(
    (a, b): (VerifiedSide<'_>, VerifiedSide<'_>),
    name: &str,
    holdout: bool,
) -> Result<(ComparedPair, FreshGroups), SessionError> {
    let is_one_session = a.view.tag == b.view.tag;
    let [id_a, id_b] = [a, b].map(|side| VerifiedId::new((!is_one_session).then_some(&side.view.tag), side.record.id));
    let book_of = |view: &SessionView| match holdout {
        true => HiddenFile::new(&view.folder.state()).read(),
        false => Ok(HiddenBook::default()),
    };
    let book = book_of(b.view)?;
    let known = match holdout {
        true => book.pair(&id_a, &id_b).cloned(),
        false => read_tag(&b.view.repo, name, |pair: &VerifiedPair| pair.version)?
            .map(|visible| ComparedPair { visible, hidden: None }),
    };
    let pair = known.unwrap_or_else(|| ComparedPair::new(id_a, id_b, holdout));
    let mut others = book.groups_besides(&b.view.history, Some(&pair.visible));
    if !is_one_session {
        let of_a = book_of(a.view)?.groups_besides(&a.view.history, None);
        others.iter_mut().zip(of_a).for_each(|(others, of_a)| others.extend(of_a));
    }
    Ok((pair, others))
}

/// Refuses experiments that cannot be compared, with a hidden split or without one.
fn refuse_unlike(a: VerifiedSide<'_>, b: VerifiedSide<'_>, holdout: bool) -> Result<(), SessionError> {
    [a, b].into_iter().try_for_each(|side| SessionView::require_commit(side.record))?;
    let measured = |side: VerifiedSide<'_>| {
        let hidden = side.view.hidden_terms("verify", holdout)?;
        let unit = side.record.metric.unit.as_ref().map(|unit| format!(" in {unit}")).unwrap_or_default();
        let named = |of: &Contract, unit| format!("{}{unit} ({})", of.metric.name, of.metric.direction);
        let hidden = hidden.map(|own| format!(", and {} by `{}`", named(&own, String::new()), own.command));
        Ok::<_, SessionError>(named(side.view.terms()?, unit) + &hidden.unwrap_or_default())
    };
    let (of_a, of_b) = (measured(a)?, measured(b)?);
    if a.view.tag == b.view.tag {
        return if a.record.id == b.record.id { Err(VerifyError::Same(a.record.id).into()) } else { Ok(()) };
    }
    if of_a != of_b {
        let [a, b] = [(a, of_a), (b, of_b)].map(|(side, metric)| format!("{} measures {metric}", side.view.tag));
        return Err(VerifyError::OtherMetric { a, b }.into());
    }
    Ok(())
}
