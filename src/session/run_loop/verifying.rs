//! Fresh runs that no change asks for. At the start the baseline runs on every slot, and as often as the contract asks:
//! their spread is the first estimate of the noise. At the end of a night its best experiment and the baseline run in
//! the time that `--verify-for` keeps for them, and reviews whose reviewer gave no verdict are made again.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;

use super::session::Session;
use crate::crash;
use crate::domain::{
    Event, ExperimentId, Note, Notice, Outcome, Record, Review, ReviewVerdict, RunRole, StopReason, VerifiedId,
    VerifiedPair, count_of, experiment_name,
};
use crate::git::Notes;
use crate::machine::{Attempt, Made, OpenRun};
use crate::rules::{
    ComparedPair, FileTerms, HiddenEntry, LOST_RETRIES, Measurement, describe_failure, expected_run,
    fresh_groups_besides, is_verified_after, to_verify,
};
use crate::session::attempt::{ReviewCall, RunAgain, RunningChange, end_further_runs, to_base};
use crate::session::errors::{CannotStart, SessionError, TryError, refuse};
use crate::session::files::{clear_folder, session_of_head};
use crate::session::handlers::{Workspace, record_verified, remove_trees};
use crate::session::plan::Drive;
use crate::session::store::{Interrupt, RUN, Store, Walls, end_programs_in, first_fresh_seed, read_tag};
use crate::session::view::{NOTES, SessionView};
use crate::session::wait::{SessionContext, Stopwatch, WaitEnd, await_gpus};
use crate::state::{Journal, further_runs};

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
                let of = format!("{} of fresh runs of the baseline and {best}", count_of(pairs, "pair"));
                self.shared.emit(format!("`ar report` compares {of}"))?;
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
            None => return Ok(Notice::VerifyingFailed { id, seed, why: "no evaluator followed it".to_owned() }),
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

/// After how many reviews in a row without a verdict the reviewer counts as out: two, since one may be due to a change that it
/// never copes with, and each costs up to a call's time limit.
const OUT: u32 = 2;

/// The author of notes on doubted keeps.
const REVIEWER: &str = "the reviewer";

/// Reviews those keeps, or all that are unreviewed, the oldest first. Stops when the reviewer gives no verdict twice in a row,
/// on a request, or when time or a budget is spent. Keeps stay kept: a doubt is only noted. Returns those without a new verdict,
/// and the budget that is spent.
pub(crate) async fn review_left(
    shared: &SessionContext<'_>,
    workspace: &mut Workspace,
    named: Option<&[ExperimentId]>,
) -> Result<(Vec<ExperimentId>, Option<StopReason>), SessionError> {
    let records: Vec<Record> = {
        let store = shared.store();
        if store.contract.reviewer.is_none() {
            return Ok((Vec::new(), None));
        }
        let is_asked =
            |record: &&Record| named.map_or_else(|| record.is_unreviewed(), |named| named.contains(&record.id));
        store.history.records().iter().filter(is_asked).cloned().collect()
    };
    let mut left: Vec<ExperimentId> = records.iter().map(|record| record.id).collect();
    let (mut vain, mut spent) = (0, None);
    for record in records {
        spent = {
            let store = shared.store();
            // Outside a loop only the session's own caps count.
            store.journal.expenses.calls_enough(&store.contract, shared.times.are_counted())
        };
        if spent.is_some() || shared.is_time_over() || shared.asked()? != Interrupt::None {
            break;
        }
        {
            let store = &mut *shared.store();
            store.journal.tree.review(Some(record.id));
            store.write_journal()?;
        }
        let call = ReviewCall::of(&record, &shared.store().folder);
        let ended = call.review(shared, None).await?;
        if !matches!(ended, WaitEnd::Detached) {
            let store = &mut *shared.store();
            workspace.undo_review(store, false)?;
        }
        let WaitEnd::Done(review) = ended else { break };
        let id = record.id;
        vain = if review.verdict == ReviewVerdict::Unreviewed { vain + 1 } else { 0 };
        if vain == 0 {
            left.retain(|other| *other != id);
            note_review(&mut shared.store(), record, review.clone())?;
        }
        shared.emit(Event::ReviewFinished { id, review, late: true })?;
        if vain == OUT {
            break;
        }
    }
    shared.publish()?;
    Ok((left, spent))
}

/// Reviews those keeps of an idle session now. Returns those without a new verdict, and the budget that is spent.
///
/// # Errors
///
/// The session's own files cannot be read or written, the disk is full, or a required wall cannot be built. A failing reviewer
/// is not an error.
pub async fn review_keeps(
    session: &mut Session<'_>,
    ids: &[ExperimentId],
) -> Result<(Vec<ExperimentId>, Option<StopReason>), SessionError> {
    let store = session.shared.store.get_mut();
    let (walls, _) = Walls::tried(store.contract.sandbox, &store.repo, store.repo.worktree())?;
    (store.walls, _) = walls.hiding(&store.repo, &store.folder, &store.contract)?;
    let reviewed = review_left(&session.shared, &mut session.workspace, Some(ids)).await;
    let store = session.shared.store.get_mut();
    let trees = if session.workspace.owner.is_disposable() { remove_trees(store) } else { Ok(()) };
    // Also saves the usage of a review without a verdict.
    let written = store.write_journal();
    session.finish_alerts().await;
    trees.and(written).and(reviewed)
}

/// Undoes what a reviewer did in a late review that was cut off. A change of the user's that is to be measured stays
/// in the working tree.
pub(crate) fn undo_late_review(workspace: &mut Workspace, store: &mut Store, drive: Drive) -> Result<(), SessionError> {
    if store.journal.tree.reviewed().is_none() {
        return Ok(());
    }
    let has_change = drive.adopts() || matches!(drive, Drive::WorkingTree { .. });
    let keeps_files = has_change && workspace.owner.has_user();
    workspace.undo_review(store, keeps_files)
}

impl Workspace {
    /// Undoes what a reviewer did to the branch, and unless it `keeps_files`, to the working tree, while nothing is open:
    /// nothing that follows would.
    fn undo_review(&mut self, store: &mut Store, keeps_files: bool) -> Result<(), SessionError> {
        let tip = store.tip();
        if self.owner.follows_branch() {
            self.move_head(store, &tip, &[], "reviewed")?;
            if !keeps_files {
                self.restore(store, &tip, &tip)?;
            }
        } else {
            store.set_branch(&tip, &[], "reviewed")?;
        }
        store.journal.tree.review(None);
        Ok(())
    }
}

impl SessionView {
    /// The keeps about which the reviewer is asked now: those named, else the unreviewed ones.
    ///
    /// # Errors
    ///
    /// There is no reviewer, one of those named was not kept, an experiment is open, or what a reviewer does in the user's working
    /// tree could not be undone: it has another branch checked out, or changes.
    pub fn keeps_to_review(&self, named: &[ExperimentId]) -> Result<Vec<ExperimentId>, SessionError> {
        let tag = &self.tag;
        if self.contract.as_ref().is_none_or(|contract| contract.reviewer.is_none()) {
            return Err(refuse(CannotStart, format!("session {tag} has no reviewer"))
                .hint(format!("run `ar resume {tag} --reviewer COMMAND` to give it one"))
                .into());
        }
        let is_kept = |id| self.history.get(id).is_some_and(|record| record.outcome == Outcome::Keep);
        if let Some(id) = named.iter().find(|id| id.is_baseline() || !is_kept(**id)) {
            return Err(self.not_kept(*id, "it has no review").into());
        }
        let unreviewed = self.history.records().iter().filter(|record| record.is_unreviewed()).map(|record| record.id);
        let ids = if named.is_empty() { unreviewed.collect() } else { named.to_vec() };
        // A session that is held is refused when it is opened.
        let is_idle = matches!(self.folder.owner(self.repo.git_dir()), Ok(None));
        if !is_idle || ids.is_empty() {
            return Ok(ids);
        }
        let journal = self.journal();
        if let Some(id) = journal.as_ref().and_then(|journal| journal.next_recorded()) {
            return Err(TryError::OtherOpen { tag: tag.to_string(), id }.into());
        }
        let has_own_tree = |journal: &Journal| !journal.tree_owner().has_user() || journal.tree.reviewed().is_some();
        let is_ready = journal.as_ref().is_some_and(has_own_tree)
            || session_of_head(&self.repo.refs.head()?).as_ref() == Some(tag)
                && self.repo.working_tree.changes()?.tracked.is_empty();
        if !is_ready {
            let text = "cannot ask the reviewer: the working tree has changes or another branch";
            return Err(refuse(CannotStart, text)
                .hint(format!(
                    "commit or stash the changes and run `git switch {}`, or pass --unreviewed to `ar finalize {tag}`",
                    tag.branch()
                ))
                .into());
        }
        Ok(ids)
    }
}

/// Puts a verdict into the record of a keep; a doubt also stands in a note on its commit.
fn note_review(store: &mut Store, mut record: Record, review: Review) -> Result<(), SessionError> {
    let text = format!("reviewed after it was kept, {}", review.sentence());
    let is_doubted = review.verdict != ReviewVerdict::Earned;
    record.proof.review = Some(review);
    // First, as the note says no more: a review that is made again would be noted twice.
    store.amend_record(&record)?;
    crash::point("reviewing.amended");
    if is_doubted {
        let line = Note::line(store.now(), &store.contract.tag, record.id, REVIEWER, &text);
        Notes::new(&store.repo.refs, NOTES).add(&record.commit, &line)?;
    }
    store.write_journal()
}

/// Runs the baseline in every slot but the first, up to the run of number `most`: each slot has every so many of them. Picks up
/// runs that an earlier process started. Starts others only while the first run is still running, so that all share the load.
/// Returns each run with its number.
///
/// # Errors
///
/// Returns the error of the first failed repeat, after all have ended.
pub(crate) async fn repeat_in_other_slots(
    shared: &SessionContext<'_>,
    terms: &FileTerms,
    first: &Made,
    most: u32,
    is_going_on: bool,
) -> Result<Vec<(u32, Measurement)>, SessionError> {
    let slots = shared.store().journal.layout.as_ref().map_or(1, |layout| layout.slots);
    let repeats = (1..slots).map(|slot| repeat_in_slot(shared, terms, first, (slot, slots), most, is_going_on));
    Ok(join_all(repeats).await.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// The further runs of a slot, one after the other, up to one that is interrupted.
async fn repeat_in_slot(
    shared: &SessionContext<'_>,
    terms: &FileTerms,
    first: &Made,
    (slot, slots): (u32, u32),
    most: u32,
    is_going_on: bool,
) -> Result<Vec<(u32, Measurement)>, SessionError> {
    let mut measured = Vec::new();
    for number in (slot + 1..=most).step_by(slots as usize) {
        let may_start = is_going_on || number > slots;
        match repeat(shared, terms, first, (slot, number), may_start).await? {
            Some(run) => measured.push((number, run)),
            None => break,
        }
    }
    Ok(measured)
}

/// The further runs of the first slot, after the first run: *in place* all of them, in the user's tree.
pub(crate) async fn repeat_in_first_slot(
    workspace: &mut Workspace,
    shared: &SessionContext<'_>,
    first: &Made,
    most: u32,
) -> Result<WaitEnd<Vec<(u32, Measurement)>>, SessionError> {
    let slots = shared.store().journal.layout.as_ref().map_or(1, |layout| layout.slots);
    let mut measured = Vec::new();
    for number in (1 + slots..=most).step_by(slots as usize) {
        let mut attempt = further(shared, first, number);
        let folder = attempt.run_folder(&shared.store())?;
        loop {
            shared.runs.await_files(&folder, RUN).await;
            let is_there = attempt.run.starts > 0 && shared.runs.found(&folder, RUN).is_there();
            if !is_there {
                match shared.asked()? {
                    Interrupt::None | Interrupt::AfterExperiment => {}
                    Interrupt::Detach => return Ok(WaitEnd::Detached),
                    Interrupt::Now => return Ok(WaitEnd::Interrupted),
                }
                shared.runs.stop(&folder, RUN).await?;
                let store = &mut *shared.store();
                workspace.check_out(store, &attempt.made)?;
                attempt.prepare_run(workspace, store)?;
                crash::point("baseline.repeat_prepared");
            }
            match attempt.measured(workspace, shared, None).await? {
                WaitEnd::Done(run) => break measured.push((number, *run)),
                // Repeats for other reasons do not count.
                WaitEnd::Lost if attempt.run.tries() <= LOST_RETRIES => {}
                WaitEnd::Lost => break measured.push((number, Measurement::lost(attempt.run.tries()))),
                WaitEnd::Interrupted => return Ok(WaitEnd::Interrupted),
                WaitEnd::Detached => return Ok(WaitEnd::Detached),
            }
        }
        crash::point("baseline.repeat_over");
    }
    Ok(WaitEnd::Done(measured))
}

/// The baseline's further run of this number, as the journal has it.
fn further(shared: &SessionContext<'_>, first: &Made, number: u32) -> RunningChange {
    let ready = OpenRun::new(RunRole::Baseline, number);
    let run = shared.store().journal.find(first.head.id).and_then(|found| found.started(&ready).cloned());
    RunningChange::for_extra_run(first.clone(), run.unwrap_or(ready))
}

/// Ends and removes all further runs of the baseline before its measurement begins: those found later belong to it.
pub(crate) async fn forget_repeats(shared: &SessionContext<'_>) -> Result<(), SessionError> {
    end_further_runs(shared, ExperimentId::BASELINE).await?;
    let folder = shared.store().folder.run(ExperimentId::BASELINE);
    for further in further_runs(&folder) {
        let failed = |source| SessionError::Io { action: "remove", path: further.clone(), source };
        fs::remove_dir_all(&further).map_err(failed)?;
    }
    shared.store().journal.forget_runs(ExperimentId::BASELINE, |run| !run.is_first());
    crash::point("baseline.repeats_forgotten");
    Ok(())
}

/// Runs the baseline in the first slot once more. Nothing of it is recorded.
pub(crate) async fn check_baseline(
    shared: &SessionContext<'_>,
    terms: &FileTerms,
    first: &Made,
) -> Result<(), SessionError> {
    let mut check = RunningChange::for_extra_run(first.clone(), OpenRun::new(RunRole::Check, 1));
    run_in(shared, terms, 0, &mut check, false).await.map(drop)
}

/// Makes a run of the baseline in a slot, unless it was made. `None` if it was interrupted, was lost too often, or may not
/// start.
async fn repeat(
    shared: &SessionContext<'_>,
    terms: &FileTerms,
    first: &Made,
    (slot, number): (u32, u32),
    may_start: bool,
) -> Result<Option<Measurement>, SessionError> {
    let mut attempt = further(shared, first, number);
    let folder = attempt.run_folder(&shared.store())?;
    while attempt.run.tries() <= LOST_RETRIES {
        shared.runs.await_files(&folder, RUN).await;
        let is_there = is_there(shared, slot, &attempt, &folder);
        if !is_there && !may_start {
            return Ok(None);
        }
        match run_in(shared, terms, slot, &mut attempt, is_there).await? {
            WaitEnd::Done(measured) => return Ok(Some(*measured)),
            WaitEnd::Lost => clear_folder(&folder)?,
            // The run that counts ends in the same way.
            WaitEnd::Interrupted | WaitEnd::Detached => return Ok(None),
        }
    }
    Ok(None)
}

/// Returns whether a repeat that the journal knows is active or finished, in a tree that still exists.
fn is_there(shared: &SessionContext<'_>, slot: u32, attempt: &RunningChange, folder: &Path) -> bool {
    let store = shared.store();
    let found = shared.runs.found(folder, RUN);
    attempt.run.starts > 0 && found.is_there() && store.repo.has_kept(&store.folder.slot(slot))
}

/// Picks up a further run of the baseline in a slot, or starts it, and measures it.
async fn run_in(
    shared: &SessionContext<'_>,
    terms: &FileTerms,
    slot: u32,
    attempt: &mut RunningChange,
    is_there: bool,
) -> Result<WaitEnd<Box<Measurement>>, SessionError> {
    let (folder, commit) = (attempt.run_folder(&shared.store())?, attempt.made.commit.clone());
    if !is_there {
        shared.runs.stop(&folder, RUN).await?;
        // Once the tree exists again, nothing tells that it was missing.
        clear_folder(&folder)?;
    }
    let mut workspace = shared.slots.open(&mut shared.store(), terms, slot, &commit)?;
    if !is_there {
        await_gpus(shared, slot).await?;
        let store = &mut *shared.store();
        workspace.switch_to(store, &commit)?;
        attempt.prepare_run(&workspace, store)?;
        crash::point("baseline.repeat_prepared");
    }
    let ended = attempt.measured(&mut workspace, shared, None).await?;
    crash::point("baseline.repeat_over");
    Ok(ended)
}
