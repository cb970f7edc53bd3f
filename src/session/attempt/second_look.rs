//! Second looks: a discard that came close, as a change on the incumbent that needs no call.

use super::{RunningChange, merge_onto, refuse_commit};
use crate::crash;
use crate::domain::{Concurrency, Record, Replay, SecondLook, experiment_name};
use crate::machine::{AttemptHead, Made};
use crate::rules::{FileTerms, fingerprint, second_look_due};
use crate::session::errors::SessionError;
use crate::session::store::Store;

/// Opens the second look that is due, unless one is open. A discard that conflicts with the incumbent is only marked.
pub(crate) fn open_second_look(store: &mut Store, terms: &FileTerms) -> Result<(), SessionError> {
    if store.journal.attempts().any(|open| open.head().is_second_look()) {
        return Ok(());
    }
    let Some(look) = second_look_due(&store.contract, &store.visible_history()) else { return Ok(()) };
    let Some(record) = store.history.get(look.of).cloned() else { return Ok(()) };
    let (tip, now) = (store.tip(), store.now());
    let of = experiment_name(look.of);
    let head = AttemptHead {
        description: format!("second look at {of}: {}", record.description),
        direction: record.direction.clone(),
        ..AttemptHead::new(record.id, record.base.clone(), now)
    };
    let discarded = Made { head, commit: record.commit.clone(), ..Made::default() };
    let (_, Some(commit)) = merge_onto(store, &discarded, None, &tip)? else {
        let incumbent = experiment_name(look.incumbent);
        store.note(format!("{of} came closest, but {incumbent} conflicts with it or has all of it: no second look"));
        let beside = Concurrency { second_look: Some(look), ..record.beside };
        return store.amend_record(&Record { beside, ..record });
    };
    let SecondLook { stall, .. } = look;
    store.note(format!("{stall} experiments without a keep: {of} came closest, and gets fresh runs"));
    let (base, value) = (discarded.head.base.clone(), record.metric.value);
    let replay = Replay { base, commit: discarded.commit, value, why: format!("as {of}") };
    let replays = if replay.base == tip { Vec::new() } else { vec![replay] };
    let beside = Concurrency { replays, second_look: Some(look), ..Concurrency::default() };
    let head = AttemptHead { id: store.allocate(), base: tip, beside, ..discarded.head };
    let objects = &store.repo.objects;
    let fingerprint = fingerprint(objects.tree_of(&commit)?, &objects.diff_text(&head.base, &commit)?);
    let refused = refuse_commit(store, terms, &head.base, &commit)?;
    let made = Made { head, commit, fingerprint: Some(fingerprint), refused, ..Made::default() };
    store.enter_ready(&mut RunningChange::new(made))?;
    crash::point("second_look.opened");
    Ok(())
}
