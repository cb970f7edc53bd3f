//! The end of a night: its best experiment and the baseline run by fresh seeds in the time that `--verify-for` keeps for them.

use std::cell::RefCell;
use std::time::Duration;

use futures_util::future::join_all;

use super::session::Session;
use crate::crash;
use crate::domain::{
    ExperimentId, Notice, Record, RunRole, StopReason, VerifiedId, VerifiedPair, count_of, experiment_name,
};
use crate::machine::{Attempt, Made};
use crate::rules::{
    ComparedPair, FileTerms, HiddenEntry, Measurement, describe_failure, expected_run, fresh_groups_besides,
    is_verified_after, to_verify,
};
use crate::session::attempt::{RunAgain, to_base};
use crate::session::errors::SessionError;
use crate::session::handlers::{Workspace, record_verified};
use crate::session::store::{Interrupt, Store, end_programs_in, first_fresh_seed, read_tag};
use crate::session::wait::{SessionContext, Stopwatch, WaitEnd, await_gpus};

/// The baseline and the best experiment, while a night that ends verifies one against the other.
struct NightPair {
    records: [Record; 2],
    /// The tag that says what all fresh runs of the two say, where no hidden split decides.
    name: String,
    pair: RefCell<ComparedPair>,
    /// The time for it, and what of it has passed.
    time: Duration,
    watch: Stopwatch,
}

/// The end of a verification.
enum VerifyEnd {
    /// There is no time for more runs, or a run gave no number.
    Over,
    /// The session stops for another reason than that for which its loop ended.
    Stopped(StopReason),
}

impl Session<'_> {
    /// Verifies the best experiment against the baseline, where the runs of the session are made, as long as there is time for
    /// another pair of runs. What was verified before counts. Returns the reason why the session stops.
    pub(super) async fn verify_night(&mut self, reason: StopReason) -> Result<StopReason, SessionError> {
        let left = self.shared.times.left_to_verify(&self.shared.store());
        if left.is_zero() || !is_verified_after(&reason) {
            return Ok(reason);
        }
        let night = match NightPair::of(&self.shared.store(), left) {
            Ok(Some(night)) => night,
            Ok(None) => return Ok(reason),
            // Its experiments are recorded, whatever stands in the place of the tag.
            Err(SessionError::Verify(error)) => {
                self.shared.emit(format!("the night is not verified: {error}"))?;
                return Ok(reason);
            }
            Err(error) => return Err(error),
        };
        let best = night.records[1].id;
        if usual_run(&self.shared.store()) * 2 > left {
            self.shared.emit(Notice::NoTimeToVerify { id: best, seconds: left.as_secs_f64() })?;
            return Ok(reason);
        }
        {
            let store = self.shared.store();
            // A night that ends at no time leaves them theirs.
            let ends = self.shared.times.end(&store).is_some();
            end_programs_in(&store.repo, ends.then_some(left));
        }
        self.shared.emit(Notice::Verifying { id: best, seconds: left.as_secs_f64() })?;
        let open = self.save_open_change()?;
        let verified = night.verify(&self.shared, &mut self.workspace).await?;
        if matches!(verified, VerifyEnd::Stopped(StopReason::Detached)) {
            return Ok(StopReason::Detached);
        }
        if let Some(open) = open {
            self.bring_open_change_back(&open)?;
        }
        let pair = night.pair.into_inner();
        if pair.hidden.is_some() {
            let (pairs, best) = (pair.common_seeds(), experiment_name(best));
            if pairs > 0 {
                let measured = format!("measured {} of fresh runs of the baseline and {best}", count_of(pairs, "pair"));
                self.shared.emit(format!("{measured}; `ar report` shows the gains"))?;
            }
        } else if pair.visible.runs > 0 {
            let decimals = night.records[1].metric.number().map_or(4, |number| number.decimals());
            self.shared.emit(pair.visible.sentence(decimals))?;
        }
        Ok(match verified {
            VerifyEnd::Over => reason,
            VerifyEnd::Stopped(reason) => reason,
        })
    }

    /// Brings branch and working tree *in place* from a change that stays open to the experiment that it was made on. A ref
    /// keeps its commit meanwhile.
    fn save_open_change(&mut self) -> Result<Option<Made>, SessionError> {
        if !self.workspace.owner.follows_branch() {
            return Ok(None);
        }
        let store = &mut *self.shared.store();
        let confirmed = store.journal.attempts().find(|attempt| matches!(attempt, Attempt::Confirm(_)));
        let Some(made) = confirmed.and_then(Attempt::made).cloned() else { return Ok(None) };
        store.keep_open(made.head.id, &made.commit)?;
        self.workspace.check_out(store, &to_base(&made))?;
        Ok(Some(made))
    }

    fn bring_open_change_back(&mut self, made: &Made) -> Result<(), SessionError> {
        let store = &mut *self.shared.store();
        self.workspace.check_out(store, made)?;
        store.drop_open(made.head.id)
    }
}

impl NightPair {
    /// The two experiments, with what fresh runs said of them before; `None` where there is nothing to verify.
    fn of(store: &Store, left: Duration) -> Result<Option<NightPair>, SessionError> {
        let Some((baseline, best)) = to_verify(&store.history) else { return Ok(None) };
        let name = store.contract.tag.verified_ref(None, baseline.id, best.id);
        let [a, b] = [baseline.id, best.id].map(|id| VerifiedId::new(None, id));
        let is_evaluated = store.contract.decides_on_hidden();
        let known = match is_evaluated {
            true => store.hidden.pair(&a, &b).cloned(),
            false => read_tag(&store.repo, &name, |pair: &VerifiedPair| pair.version)?
                .map(|visible| ComparedPair { visible, hidden: None }),
        };
        let pair = RefCell::new(known.unwrap_or_else(|| ComparedPair::new(a, b, is_evaluated)));
        let records = [baseline.clone(), best.clone()];
        Ok(Some(NightPair { records, name, pair, time: left, watch: Stopwatch::begin(store) }))
    }

    async fn verify(&self, shared: &SessionContext<'_>, workspace: &mut Workspace) -> Result<VerifyEnd, SessionError> {
        let terms = FileTerms::of(&shared.store().contract)?;
        let slots = shared.store().journal.layout.as_ref().map(|layout| layout.slots);
        loop {
            let batch = self.next_batch(&shared.store(), slots.unwrap_or(1))?;
            let run = usual_run(&shared.store());
            let turns = u32::try_from(batch.len()).unwrap_or(u32::MAX).div_ceil(slots.unwrap_or(1));
            let left = self.time.saturating_sub(self.watch.elapsed(&shared.store()));
            if left < (run * turns).max(Duration::from_millis(1)) {
                return Ok(VerifyEnd::Over);
            }
            let mut ended = Vec::new();
            if let Some(slots) = slots {
                for some in batch.chunks(slots as usize) {
                    let runs = (0..).zip(some).map(|(slot, run)| self.run_in_slot(shared, &terms, slot, *run));
                    ended.extend(join_all(runs).await);
                }
            } else {
                for run in batch {
                    if shared.asked()? != Interrupt::None {
                        ended.push(Ok(WaitEnd::Interrupted));
                        break;
                    }
                    ended.push(self.run_again(shared, workspace, None, run).await);
                }
            }
            for ran in ended {
                let said = match ran? {
                    WaitEnd::Done(said) => said?,
                    WaitEnd::Detached => return Ok(VerifyEnd::Stopped(StopReason::Detached)),
                    WaitEnd::Interrupted => {
                        return Ok(VerifyEnd::Stopped(shared.interrupts.reason(&shared.store().folder)));
                    }
                    WaitEnd::Lost => return Ok(VerifyEnd::Over),
                };
                let has_failed = matches!(said, Notice::VerifyingFailed { .. });
                shared.emit(said)?;
                if has_failed {
                    return Ok(VerifyEnd::Over);
                }
            }
        }
    }

    /// The runs that are made next: those that the pair lacks, and as many by fresh seeds as the slots can make at a time.
    fn next_batch(&self, store: &Store, slots: u32) -> Result<Vec<(usize, u64)>, SessionError> {
        let mut pair = self.pair.borrow().visible.clone();
        pair.wanted = pair.common_seeds() + (slots / 2).max(1);
        Ok(pair.missing(first_fresh_seed(&store.repo, &store.contract.tag, &store.history)?))
    }

    async fn run_in_slot(
        &self,
        shared: &SessionContext<'_>,
        terms: &FileTerms,
        slot: u32,
        run: (usize, u64),
    ) -> Result<WaitEnd<Result<Notice, SessionError>>, SessionError> {
        if shared.asked()? != Interrupt::None {
            return Ok(WaitEnd::Interrupted);
        }
        let commit = &self.records[run.0].commit;
        let mut workspace = shared.slots.open(&mut shared.store(), terms, slot, commit)?;
        await_gpus(shared, slot).await?;
        self.run_again(shared, &mut workspace, Some(slot), run).await
    }

    /// Makes a run, and records it before anything else can happen to it.
    async fn run_again(
        &self,
        shared: &SessionContext<'_>,
        workspace: &mut Workspace,
        slot: Option<u32>,
        (which, seed): (usize, u64),
    ) -> Result<WaitEnd<Result<Notice, SessionError>>, SessionError> {
        let record = &self.records[which];
        let why = "the end of the night verifies it";
        let run = RunAgain { role: RunRole::Verify, record, seed: Some(seed), slot, why };
        shared
            .run_again(workspace, run, |store, measured, _| self.note(store, (record.id, which, seed), measured))
            .await
    }

    /// Records a run, and says what it gave, where no hidden split decides.
    fn note(
        &self,
        store: &mut Store,
        (id, which, seed): (ExperimentId, usize, u64),
        measured: Measurement,
    ) -> Result<Notice, SessionError> {
        let value = match (measured.value, measured.failure) {
            (Some(value), None) => value,
            (_, failure) => {
                let why = failure.map_or_else(
                    || "no number".to_owned(),
                    |failure| describe_failure(&failure, &store.contract.metric.name, &measured.ended, None),
                );
                return Ok(Notice::VerifyingFailed { id, seed, why });
            }
        };
        let (pair, takes_seeds) = (&mut *self.pair.borrow_mut(), store.history.takes_seeds());
        let ComparedPair { visible, hidden } = pair;
        let Some(hidden) = hidden else {
            let others = fresh_groups_besides(&store.history, Some(visible));
            let direction = store.contract.metric.direction;
            let place = (&*store.repo, self.name.as_str(), &self.records[1].commit);
            record_verified(place, visible, (which, seed, value.value), direction, (&others, takes_seeds))?;
            return Ok(Notice::VerifyingRun { id, seed, value: format!("{value:#}") });
        };
        match measured.hidden {
            Some(Ok(number)) => hidden.add(which, seed, number.value),
            Some(Err(why)) => {
                let why = format!("the command of --holdout failed: {why}");
                return Ok(Notice::VerifyingFailed { id, seed, why });
            }
            None => return Ok(Notice::VerifyingFailed { id, seed, why: "the evaluator did not run".to_owned() }),
        }
        visible.add(which, seed, value.value);
        let others = store.hidden.groups_besides(&store.history, Some(&pair.visible));
        pair.judge(&store.contract, &others, takes_seeds);
        store.note_hidden(HiddenEntry::Verified(Box::new(pair.clone())))?;
        crash::point("verifying.noted");
        Ok(Notice::VerifyingRun { id, seed, value: "measured on both splits".to_owned() })
    }
}

/// The expected time of a run that verifies, with the evaluator behind it where a hidden split decides.
fn usual_run(store: &Store) -> Duration {
    let evaluator = store.hidden.usual_seconds().filter(|_| store.contract.decides_on_hidden());
    expected_run(&store.history) + evaluator.and_then(|it| Duration::try_from_secs_f64(it).ok()).unwrap_or_default()
}
