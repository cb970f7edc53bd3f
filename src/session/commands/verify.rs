//! Fresh runs of two recorded experiments beside the session, in turn and by the same seeds: how far apart they really are.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::repro::Rerunning;
use crate::domain::{Contract, ExperimentId, FORMAT_VERSION, Number, Record, RunRole, Tag, VerifiedPair};
use crate::fs::open_locked;
use crate::git::{HeadTarget, TagObject};
use crate::rules::{Sample, Verified, describe_failure, fresh_groups, noise, verified};
use crate::session::errors::{SessionError, VerifyError};
use crate::session::store::{Interrupt, Interrupts, watch_programs_until};
use crate::session::view::SessionView;
use crate::state::StateError;

/// What to verify.
#[derive(Debug, Clone, Default)]
pub struct Verification {
    /// The fresh runs of each experiment.
    pub runs: u32,
    /// Untracked files and folders of the user's working tree to link into each tree; those of the session's slots if empty.
    pub links: Vec<PathBuf>,
}

/// A run for a verification that ended.
#[derive(Debug)]
pub struct VerifyingRun<'a> {
    /// The experiment.
    pub id: ExperimentId,
    /// Its seed.
    pub seed: u64,
    /// What it measured.
    pub value: &'a Number,
}

impl SessionView {
    /// Runs two experiments in turn by fresh seeds, and records what all such runs of them say in a tag under `verified/`. A
    /// verification that was interrupted is continued. `None` after an interrupt; the runs that ended are recorded.
    ///
    /// # Errors
    ///
    /// A loop holds the session; a run gives no number; those of a rerun.
    pub async fn verify(
        &self,
        (a, b): (&Record, &Record),
        verification: &Verification,
        interrupts: &Interrupts,
        publish: &mut dyn FnMut(&VerifyingRun<'_>),
    ) -> Result<Option<VerifiedPair>, SessionError> {
        let contract = self.contract.as_ref().ok_or_else(|| SessionError::NoContract(self.folder.root().to_owned()))?;
        [a, b].into_iter().try_for_each(SessionView::require_commit)?;
        if contract.imported {
            return Err(SessionError::ImportedSession(self.tag.to_string()));
        }
        if a.id == b.id {
            return Err(VerifyError::Same(a.id).into());
        }
        if let Some(owner) = self.folder.owner(self.repo.git_dir())? {
            return Err(StateError::Held { holder: owner.said }.into());
        }
        let lock = self.repo.common_dir().join(format!("autoresearch-verify-{}", self.tag));
        let failed = |source| SessionError::Io { action: "lock", path: lock.clone(), source };
        let Some(_held) = open_locked(&lock).map_err(failed)? else {
            return Err(StateError::Held { holder: "another `ar verify`".into() }.into());
        };
        watch_programs_until(&self.repo, interrupts)?;
        let links = match (&verification.links, self.journal().and_then(|journal| journal.layout)) {
            (links, Some(layout)) if links.is_empty() => {
                let root = self.repo.worktree();
                layout.links.iter().map(|link| root.join(link)).collect()
            }
            (links, _) => links.clone(),
        };
        let links = links.iter().map(|link| self.linkable(link)).collect::<Result<Vec<_>, _>>()?;
        let name = verified_ref(&self.tag, a.id, b.id);
        let read = |tag: TagObject| {
            let pair = serde_json::from_str::<VerifiedPair>(&tag.message).ok();
            pair.filter(|pair| pair.version == FORMAT_VERSION).ok_or_else(|| VerifyError::Unread(name.clone()))
        };
        let known = self.repo.refs.record(&name)?.map(read).transpose()?;
        let mut values = known.as_ref().map_or_else(Default::default, |known| {
            [known.values_a.clone(), known.values_b.clone()].map(|values| values.into_iter().collect::<Vec<_>>())
        });
        let done = values[0].len().min(values[1].len()) as u32;
        let wanted = match known.map(|known| known.wanted).filter(|wanted| *wanted > done) {
            Some(wanted) => wanted,
            None => done + verification.runs,
        };
        let mut seeds = self.fresh_seeds()?;
        let mut pair = None;
        while (values[0].len().min(values[1].len()) as u32) < wanted {
            // What one has and the other lacks was interrupted.
            let lacks = |which: usize| {
                values[1 - which]
                    .iter()
                    .map(|(seed, _)| *seed)
                    .find(|seed| !values[which].iter().any(|it| it.0 == *seed))
            };
            let (which, seed) = match (lacks(0), lacks(1)) {
                (Some(seed), _) => (0, seed),
                (None, Some(seed)) => (1, seed),
                // Who begins changes from seed to seed, so that a drift harms neither.
                (None, None) => (values[0].len() % 2, seeds.next().unwrap_or(u64::MAX)),
            };
            let record = if which == 0 { a } else { b };
            let Some(value) = self.verifying_run(contract, record, seed, &links, interrupts).await? else {
                return Ok(None);
            };
            publish(&VerifyingRun { id: record.id, seed, value: &value });
            values[which].push((seed, value.value));
            let samples = [0, 1].map(|which| samples(&values[which]));
            let mut groups = fresh_groups(self.history.records());
            groups.extend(samples.iter().cloned());
            let noise = noise(&groups);
            if let Some(found) = verified(contract.metric.direction, &samples[0], &samples[1], noise.as_ref()) {
                let found = pair_of((a.id, b.id), found, &values, wanted);
                let message = serde_json::to_string(&found).map_err(|source| VerifyError::Text(source.to_string()))?;
                self.repo.refs.rewrite_record(&name, &b.commit, &message)?;
                pair = Some(found);
            }
        }
        pair.map_or_else(|| Err(VerifyError::NoNoise.into()), |pair| Ok(Some(pair)))
    }

    /// One fresh run of an experiment, in a working tree of its own. `None` after an interrupt.
    async fn verifying_run(
        &self,
        contract: &Contract,
        record: &Record,
        seed: u64,
        links: &[(PathBuf, PathBuf)],
        interrupts: &Interrupts,
    ) -> Result<Option<Number>, SessionError> {
        if interrupts.asked() != Interrupt::None {
            return Ok(None);
        }
        let failed = |source| SessionError::Io { action: "make", path: std::env::temp_dir(), source };
        let name = format!("ar-{}-{}-", self.tag, record.id);
        let dir = tempfile::Builder::new().prefix(&name).tempdir().map_err(failed)?.keep();
        let place = self.repo.add_worktree(&dir, &HeadTarget::Detached(record.commit.clone()))?;
        let told = (RunRole::Verify, Some(seed));
        let mut quiet = |_: &Rerunning<'_>| ();
        let ran = self.finish_run_in(&place, contract, record, told, links, interrupts, &mut quiet).await;
        place.remove_linked()?;
        let Some(finished) = ran? else { return Ok(None) };
        let ended = finished.ended();
        match (finished.verdict.failure, finished.verdict.value) {
            (None, Some(number)) => Ok(Some(number)),
            (failure, _) => {
                let why = failure.map_or_else(
                    || "no number".to_owned(),
                    |failure| describe_failure(&failure, &contract.metric.name, &ended, None),
                );
                Err(VerifyError::Failed { id: record.id, seed, why }.into())
            }
        }
    }

    /// Seeds that no run of the session had.
    fn fresh_seeds(&self) -> Result<impl Iterator<Item = u64>, SessionError> {
        let of_records = self.history.records().iter().flat_map(|record| &record.runs).filter_map(|run| run.seed);
        let mut used: BTreeSet<u64> = of_records.collect();
        for pair in self.verified_pairs()? {
            used.extend(pair.values_a.iter().chain(&pair.values_b).map(|(seed, _)| *seed));
        }
        // Confirming runs of an open experiment have seeds up to 5.
        let first = used.last().copied().unwrap_or_default().max(5) + 1;
        Ok(first..)
    }

    /// The pairs that were verified, as far as their tags can be read.
    pub fn verified_pairs(&self) -> Result<Vec<VerifiedPair>, SessionError> {
        let mut pairs = Vec::new();
        for (name, _) in self.repo.refs.refs_under(&format!("{}/verified", self.tag.ref_prefix()))? {
            let tag = self.repo.refs.record(&name)?;
            pairs.extend(tag.and_then(|tag| serde_json::from_str::<VerifiedPair>(&tag.message).ok()));
        }
        Ok(pairs)
    }
}

/// What the fresh runs of two experiments say.
fn pair_of(
    (a, b): (ExperimentId, ExperimentId),
    found: Verified,
    values: &[Vec<(u64, f64)>; 2],
    wanted: u32,
) -> VerifiedPair {
    let Verified { difference, low, high, level, runs, better } = found;
    let [values_a, values_b] = values.clone();
    VerifiedPair {
        version: FORMAT_VERSION,
        a,
        b,
        runs,
        difference,
        low,
        high,
        level,
        better,
        values_a,
        values_b,
        wanted,
    }
}

/// The ref of a verified pair.
fn verified_ref(tag: &Tag, a: ExperimentId, b: ExperimentId) -> String {
    format!("{}/verified/{a:05}-{b:05}", tag.ref_prefix())
}

fn samples(values: &[(u64, f64)]) -> Vec<Sample> {
    values.iter().map(|(seed, value)| Sample { seed: *seed, value: *value }).collect()
}
