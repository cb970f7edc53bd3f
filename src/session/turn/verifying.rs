//! The end of a night: fresh runs of its best experiment and of the baseline, in the time that `--verify-for` keeps for them.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::session::Session;
use crate::domain::{ExperimentId, Notice, Record, StopReason, VerifiedId, VerifiedPair};
use crate::rules::{
    FileTerms, Measured, describe_failure, expected_run, fresh_groups_besides, is_verified_after, judge_pair,
};
use crate::session::attempt::RunAgain;
use crate::session::errors::SessionError;
use crate::session::store::{Interrupt, Store, end_programs_in, first_fresh_seed, read_tag, write_tag};
use crate::session::tree::Workspace;
use crate::session::wait::{Ending, Shared, await_gpus};

/// What a run to verify an experiment gave: a value, or the reason why there is none.
type Value = Result<f64, String>;

impl Session<'_> {
    /// Verifies the best experiment against the baseline, where the runs of the session are made, as long as there is time for
    /// another pair of runs. What was verified before counts. Returns the reason why the session stops.
    pub(super) async fn verify_night(&mut self, reason: StopReason) -> Result<StopReason, SessionError> {
        let left = self.shared.times.left_to_verify(&self.shared.store());
        if left.is_zero() || !is_verified_after(&reason) {
            return Ok(reason);
        }
        let Some((baseline, best)) = both(&self.shared.store()) else { return Ok(reason) };
        let end = Instant::now() + left;
        let name = self.shared.store().contract.tag.verified_ref(None, baseline.id, best.id);
        let known = read_tag(&self.shared.store().repo, &name, |pair: &VerifiedPair| pair.version)?;
        let [a, b] = [baseline.id, best.id].map(|id| VerifiedId::new(None, id));
        let mut pair = known.unwrap_or_else(|| VerifiedPair::new(a, b));
        end_programs_in(&self.shared.store().repo, Some(left));
        self.shared.emit(Notice::Verifying { id: best.id, seconds: left.as_secs_f64() })?;
        let terms = FileTerms::of(&self.shared.store().contract)?;
        let slots = self.shared.store().journal.layout.as_ref().map(|layout| layout.slots);
        loop {
            let batch = next_batch(&mut pair, &self.shared.store(), slots.unwrap_or(1))?;
            let run = expected_run(&self.shared.store().history);
            let turns = u32::try_from(batch.len()).unwrap_or(u32::MAX).div_ceil(slots.unwrap_or(1));
            if end.saturating_duration_since(Instant::now()) < (run * turns).max(Duration::from_millis(1)) {
                return Ok(reason);
            }
            let of = |which: usize| if which == 0 { &baseline } else { &best };
            let mut ended = Vec::new();
            if let Some(slots) = slots {
                for some in batch.chunks(slots as usize) {
                    let runs = (0..)
                        .zip(some)
                        .map(|(slot, (which, seed))| run_in_slot(&self.shared, &terms, slot, of(*which), *seed));
                    ended.extend(some.iter().copied().zip(join_all(runs).await));
                }
            } else {
                for (which, seed) in batch {
                    if self.shared.asked()? != Interrupt::None {
                        return Ok(reason);
                    }
                    let ran = run_again(&self.shared, &mut self.workspace, None, of(which), seed).await;
                    ended.push(((which, seed), ran));
                }
            }
            for ((which, seed), ran) in ended {
                let value = match ran? {
                    Ending::Done(value) => value,
                    Ending::Detached => return Ok(StopReason::Detached),
                    Ending::Interrupted | Ending::Lost => return Ok(reason),
                };
                if !self.note_verified(&mut pair, &name, (of(which).id, which, seed), value)? {
                    return Ok(reason);
                }
            }
        }
    }

    /// Records a run. Returns false if it gave no number.
    fn note_verified(
        &self,
        pair: &mut VerifiedPair,
        name: &str,
        (id, which, seed): (ExperimentId, usize, u64),
        value: Value,
    ) -> Result<bool, SessionError> {
        let value = match value {
            Ok(value) => value,
            Err(why) => {
                self.shared.emit(Notice::VerifyingFailed { id, seed, why })?;
                return Ok(false);
            }
        };
        {
            let store = self.shared.store();
            pair.add(which, seed, value);
            let others = fresh_groups_besides(&store.history, Some(pair));
            let best = store.history.incumbent().map(|best| best.commit.clone());
            if judge_pair(pair, store.contract.metric.direction, &others)
                && let Some(best) = best
            {
                write_tag(&store.repo, name, &best, pair)?;
            }
        }
        self.shared.emit(Notice::VerifyingRun { id, seed, value: value.to_string() })?;
        Ok(true)
    }
}

/// The baseline and the best experiment, if both have a number and are not the same.
fn both(store: &Store) -> Option<(Record, Record)> {
    let has_number = |record: &&Record| record.metric.value.is_some();
    let baseline = store.history.baseline().filter(has_number)?;
    let best = store.history.incumbent().filter(has_number).filter(|best| best.id != baseline.id)?;
    Some((baseline.clone(), best.clone()))
}

/// The runs that are made next: those that a pair lacks, and as many by fresh seeds as the slots can make at a time.
fn next_batch(pair: &mut VerifiedPair, store: &Store, slots: u32) -> Result<Vec<(usize, u64)>, SessionError> {
    pair.wanted = pair.common_seeds() + (slots / 2).max(1);
    Ok(pair.missing(first_fresh_seed(&store.repo, &store.contract.tag, &store.history)?))
}

async fn run_in_slot(
    shared: &Shared<'_>,
    terms: &FileTerms,
    slot: u32,
    record: &Record,
    seed: u64,
) -> Result<Ending<Value>, SessionError> {
    if shared.asked()? != Interrupt::None {
        return Ok(Ending::Interrupted);
    }
    let mut workspace = shared.slots.open(&mut shared.store(), terms, slot, &record.commit)?;
    await_gpus(shared, slot).await?;
    run_again(shared, &mut workspace, Some(slot), record, seed).await
}

async fn run_again(
    shared: &Shared<'_>,
    workspace: &mut Workspace,
    slot: Option<u32>,
    record: &Record,
    seed: u64,
) -> Result<Ending<Value>, SessionError> {
    let run = RunAgain { record, seed: Some(seed), slot, why: "the end of the night verifies it" };
    let value = |store: &mut Store, measured: Measured, _| match (measured.value, measured.failure) {
        (Some(value), None) => Ok(value.value),
        (_, failure) => Err(failure.map_or_else(
            || "no number".to_owned(),
            |failure| describe_failure(&failure, &store.contract.metric.name, &measured.ended, None),
        )),
    };
    shared.run_again(workspace, run, value).await
}
