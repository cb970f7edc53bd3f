//! Fresh runs of recorded experiments beside the session, by the same seeds: as many at a time as there are slots, in
//! working trees of their own.
//!
//! An ablation runs the best experiment with and without each kept change, and makes a branch without those that carry
//! nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::path::PathBuf;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tempfile::TempDir;

use super::{RunLink, ScratchRun, hold};
use crate::domain::{
    Ablated, AblatedRun, AblationStep, Asked, CommitId, Contract, ExperimentId, FORMAT_VERSION, GpuOther, Layout,
    Number, Record, RunRole, VerifiedId, VerifiedPair, experiment_name, list,
};
use crate::exec::Executor;
use crate::git::{HeadTarget, Merged, Repo};
use crate::rules::{
    AblatingRun, AblationState, AblationTerms, TAINT_REPEATS, ablation, describe_failure, fresh_groups,
    fresh_groups_besides, most_ablating_runs, taint,
};
use crate::session::errors::{CannotStart, SessionError, VerifyError, refuse};
use crate::session::files::{read_history, refuse_elsewhere};
use crate::session::handlers::{SlotSetup, clear_command_worktrees, record_verified, write_tag};
use crate::session::run_loop::slot_setup;
use crate::session::store::{Interrupt, Interrupts, first_fresh_seed, read_tag, watch_programs_until};
use crate::session::{Drive, Placing, Rerunning, SessionView, layout_of};
use crate::state::OwnerLock;

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
    refuse_unlike(a, b, contract)?;
    [a, b].iter().try_for_each(|side| side.view.refuse_beside_hidden("`ar verify`"))?;
    let views = if is_one_session { vec![b.view] } else { vec![a.view, b.view] };
    let place = FreshRuns::open(&views, terms, interrupts).await?;
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
    let takes_seeds = [a, b].iter().all(|side| side.view.history.takes_seeds());
    let subjects = [a, b].map(|side| place.subject(side.view, side.record, side.record.commit.clone()));
    let [subject_a, subject_b] = subjects;
    let subjects = [subject_a?, subject_b?];
    let missing = pair.missing(first_seed_of(&views)?);
    let seconds = usual_seconds(a.record).max(usual_seconds(b.record));
    publish(&FreshNews::Planned { runs: missing.len() as u64, more: 0, slots: place.slots(), seconds });
    let wanted: Vec<(&FreshSubject<'_>, u64)> =
        missing.iter().map(|(which, seed)| (&subjects[*which], *seed)).collect();
    let mut is_known = false;
    let is_done = place
        .make(&wanted, &mut |index, ended| {
            let (which, seed) = missing[index];
            let id = [&pair.a, &pair.b][which].text();
            let Some(value) = ended.told(&id, seed, publish) else { return Ok(()) };
            let value = value.map_err(|it| VerifyError::Failed { what: id, seed, why: it.why })?;
            let place = (&b.view.repo, name.as_str(), &b.record.commit);
            let run = (which, seed, value.value);
            is_known = record_verified(place, &mut pair, run, contract.metric.direction, (&others, takes_seeds))?;
            Ok(())
        })
        .await?;
    match (is_done, is_known) {
        (false, _) => Ok(None),
        (true, true) => Ok(Some(pair)),
        (true, false) => Err(VerifyError::NoNoise.into()),
    }
}

fn refuse_unlike(a: VerifiedSide<'_>, b: VerifiedSide<'_>, contract: &Contract) -> Result<(), SessionError> {
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

/// The place of fresh runs.
#[derive(Debug, Clone, Default)]
pub struct FreshTerms {
    /// Untracked files and folders of the user's working tree to link into each tree; those of the session's slots if empty.
    pub links: Vec<PathBuf>,
    /// The slots and GPUs that are asked for, instead of the session's.
    pub asked: Asked,
}

/// News of fresh runs.
#[derive(Debug)]
pub enum FreshNews<'a> {
    /// Before they begin.
    Planned {
        /// The number of runs.
        runs: u64,
        /// The most that may follow, as their results decide.
        more: u64,
        /// Number of runs at a time.
        slots: u32,
        /// About how long one takes, in seconds.
        seconds: f64,
    },
    /// A run is made again, as another process was on its GPU.
    Repeated {
        /// The run in words.
        what: &'a str,
        /// Its seed.
        seed: u64,
        /// The other processes.
        why: &'a str,
    },
    /// A run ended.
    Ended {
        /// The run in words.
        what: &'a str,
        /// Its seed.
        seed: u64,
        /// Its value, or the reason why it gave none.
        value: Result<&'a Number, &'a str>,
    },
}

/// The subject of a fresh run.
pub(super) struct FreshSubject<'a> {
    view: &'a SessionView,
    contract: &'a Contract,
    record: &'a Record,
    commit: CommitId,
    links: Vec<RunLink>,
}

/// The place for fresh runs. While it exists, no other one and no loop is at work on its sessions.
pub(super) struct FreshRuns<'a> {
    interrupts: &'a Interrupts,
    terms: &'a FreshTerms,
    slots: u32,
    /// The shared resources of runs on slots; absent *in place*.
    setup: Option<SlotSetup>,
    /// The folder below which runs are that may be on the same GPUs, if several runs share them.
    shared_gpus: Option<PathBuf>,
    /// The folder of the working trees.
    home: TempDir,
    executor: Executor,
    _held: Vec<OwnerLock>,
}

impl<'a> FreshRuns<'a> {
    /// Makes a place for runs of these sessions; the layout is that of the last one, unless another one is asked for.
    ///
    /// # Errors
    ///
    /// A loop or another such command holds a session, or there is no place for that many slots.
    pub(super) async fn open(
        views: &[&SessionView],
        terms: &'a FreshTerms,
        interrupts: &'a Interrupts,
    ) -> Result<FreshRuns<'a>, SessionError> {
        // Their own locks, so that no loop starts meanwhile, and those of other sessions leave what is written here alone.
        let lock = |view: &&SessionView| view.folder.lock(view.repo.git_dir(), false);
        let held = views.iter().map(lock).collect::<Result<Vec<_>, _>>()?;
        for view in views {
            refuse_elsewhere(&view.folder, false)?;
            // While it waited for the lock, a loop may have kept a better one.
            if read_history(&view.repo, &view.tag)?.records().len() != view.history.records().len() {
                return Err(VerifyError::Recorded(view.tag.clone()).into());
            }
        }
        let view = views[views.len() - 1];
        watch_programs_until(&view.repo, interrupts)?;
        clear_command_worktrees(&view.repo).await?;
        let before = view.layout();
        let layout = layout_of(&terms.asked, &terms.asked, before.as_ref())?;
        let Placing { layout, gpus, .. } =
            Placing::new(layout, &terms.asked, before.as_ref(), &view.tag, Drive::RESUMED)?;
        let setup =
            layout.as_ref().map(|layout| slot_setup(&view.repo, view.terms()?, Some(layout), &gpus)).transpose()?;
        let cluster = layout.as_ref().and_then(|layout| layout.cluster.as_ref());
        let home = view.folder_beside(cluster, &format!("ar-{}-", view.tag))?;
        let executor = Executor::for_runs(cluster);
        let slots = layout.map_or(1, |layout| layout.slots);
        let shares = slots > 1 && gpus.is_empty();
        let shared_gpus = shares.then(|| view.repo.common_dir().join("worktrees"));
        Ok(FreshRuns { interrupts, terms, slots, setup, shared_gpus, home, executor, _held: held })
    }

    /// Number of runs at a time.
    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    /// The subject of runs of `commit`, with the command and the terms of a recorded experiment.
    pub(super) fn subject<'s>(
        &self,
        view: &'s SessionView,
        record: &'s Record,
        commit: CommitId,
    ) -> Result<FreshSubject<'s>, SessionError> {
        let given = self.terms.links.iter().map(|link| view.linkable(link)).collect::<Result<Vec<_>, _>>()?;
        let links = match view.layout() {
            Some(layout) if given.is_empty() => {
                let root = view.repo.main_worktree();
                let link = |name: &PathBuf| {
                    let linked = view.linkable_in(root, &root.join(name))?;
                    Ok::<_, SessionError>(RunLink { is_writable: layout.writable.contains(name), ..linked })
                };
                layout.links.iter().map(link).collect::<Result<Vec<_>, _>>()?
            }
            _ => given,
        };
        Ok(FreshSubject { view, contract: view.terms()?, record, commit, links })
    }

    /// Makes the runs, in order, and hands what becomes of each to `ended`, by its place. A run beside which another process was
    /// on its GPU is made again, twice at most. Returns false after an interrupt. After an error it starts no more, and waits
    /// for those that are under way.
    pub(super) async fn make(
        &self,
        runs: &[(&FreshSubject<'_>, u64)],
        ended: &mut dyn FnMut(usize, FreshEnd) -> Result<(), SessionError>,
    ) -> Result<bool, SessionError> {
        let mut free: Vec<u32> = (0..self.slots).rev().collect();
        let mut waiting: VecDeque<(usize, u32)> = (0..runs.len()).map(|index| (index, 0)).collect();
        let mut active = FuturesUnordered::new();
        let mut outcome = Ok(true);
        loop {
            while matches!(outcome, Ok(true))
                && let Some(slot) = free.pop()
            {
                let Some((index, repeats)) = waiting.pop_front() else { break };
                let (subject, seed) = runs[index];
                active.push(async move { (slot, index, repeats, self.run(slot, subject, seed, repeats).await) });
            }
            let Some((slot, index, repeats, ran)) = active.next().await else { return outcome };
            free.push(slot);
            let goes_on = match ran {
                Ok(Some((what, tree, _held))) => {
                    if matches!(what, FreshEnd::Crowded(_)) {
                        waiting.push_front((index, repeats + 1));
                    }
                    // First, as a kill while its tree goes must not repeat the run.
                    let recorded = ended(index, what);
                    recorded.and(tree.remove_linked().map_err(SessionError::from)).map(|()| true)
                }
                Ok(None) => Ok(false),
                Err(error) => Err(error),
            };
            if matches!(outcome, Ok(true)) {
                outcome = goes_on;
            }
        }
    }

    /// One run, in a working tree that is made for it, which is returned held. `None` after an interrupt.
    async fn run(
        &self,
        slot: u32,
        subject: &FreshSubject<'_>,
        seed: u64,
        repeats: u32,
    ) -> Result<Option<(FreshEnd, Repo, Option<File>)>, SessionError> {
        if self.interrupts.asked() != Interrupt::None {
            return Ok(None);
        }
        let FreshSubject { view, contract, record, commit, links } = subject;
        let dir = self.home.path().join(format!("slot-{slot}"));
        let variables = match &self.setup {
            Some(setup) => setup.variables(&dir, slot)?,
            None => Vec::new(),
        };
        let place = view.repo.make_worktree(&dir, &HeadTarget::Detached(commit.clone()))?;
        let run = ScratchRun::of(contract, record, RunRole::Verify, &self.executor);
        let gpu_sharers = self.shared_gpus.as_deref();
        let run = ScratchRun { commit, seed: Some(seed), links, variables: &variables, gpu_sharers, ..run };
        let mut quiet = |_: &Rerunning<'_>| ();
        let ran = match hold(&place, true) {
            Ok(held) => {
                let finished = run.finish(view, &place, self.interrupts, &mut quiet).await;
                finished.map(|finished| finished.map(|(measured, exit)| (measured, exit, held)))
            }
            Err(error) => Err(error),
        };
        let Ok(Some((measured, exit, held))) = ran else {
            let removed = place.remove_linked().map_err(SessionError::from);
            return ran.and_then(|_| removed.map(|()| None));
        };
        let others = view.tainting(&exit, measured.failure.as_ref());
        if !others.is_empty() && repeats < TAINT_REPEATS {
            return Ok(Some((FreshEnd::Crowded(GpuOther::clause(&others)), place, held)));
        }
        let failure = if others.is_empty() { measured.failure } else { Some(taint(&others)) };
        let ended = match (failure, measured.value) {
            (None, Some(number)) => FreshEnd::Value(number),
            (Some(failure), _) => {
                let beside = if others.is_empty() { String::new() } else { format!("; {}", GpuOther::clause(&others)) };
                let why = describe_failure(&failure, &contract.metric.name, &measured.ended, None) + &beside;
                FreshEnd::Nothing(Unmeasured { why, is_of_code: failure.class.judges_change() })
            }
            (None, None) => FreshEnd::Nothing(Unmeasured { why: "no number".to_owned(), is_of_code: true }),
        };
        Ok(Some((ended, place, held)))
    }
}

/// The reason for a fresh run without a number.
pub(super) struct Unmeasured {
    /// The reason.
    pub(super) why: String,
    /// True if the code is at fault.
    pub(super) is_of_code: bool,
}

/// The end of a fresh run.
pub(super) enum FreshEnd {
    /// It measured a value.
    Value(Number),
    /// It gave none.
    Nothing(Unmeasured),
    /// It is made again, as somebody else was on its GPU.
    Crowded(String),
}

impl FreshEnd {
    /// The value, or the reason why there is none. Publishes it; `None` if the run is made again.
    pub(super) fn told(
        self,
        what: &str,
        seed: u64,
        publish: &mut dyn FnMut(&FreshNews<'_>),
    ) -> Option<Result<Number, Unmeasured>> {
        let value = match self {
            FreshEnd::Value(value) => Ok(value),
            FreshEnd::Nothing(it) => Err(it),
            FreshEnd::Crowded(why) => {
                publish(&FreshNews::Repeated { what, seed, why: &why });
                return None;
            }
        };
        publish(&FreshNews::Ended { what, seed, value: value.as_ref().map_err(|it| it.why.as_str()) });
        Some(value)
    }
}

impl SessionView {
    /// The terms of a session whose experiments can be run.
    pub(super) fn terms(&self) -> Result<&Contract, SessionError> {
        let contract = self.contract.as_ref().ok_or_else(|| SessionError::NoContract(self.folder.root().to_owned()))?;
        if contract.imported { Err(SessionError::ImportedSession(self.tag.to_string())) } else { Ok(contract) }
    }

    /// The slots of the session, if it had any.
    pub(super) fn layout(&self) -> Option<Layout> {
        let of_journal = self.journal().and_then(|journal| journal.layout);
        of_journal.or_else(|| self.history.layout().cloned())
    }
}

/// The smallest seed that neither a run of these sessions had nor any larger one.
fn first_seed_of(views: &[&SessionView]) -> Result<u64, SessionError> {
    let first = |view: &&SessionView| first_fresh_seed(&view.repo, &view.tag, &view.history);
    Ok(views.iter().map(first).collect::<Result<Vec<_>, _>>()?.into_iter().max().unwrap_or(1))
}

/// About how long a run of an experiment takes, in seconds.
fn usual_seconds(record: &Record) -> f64 {
    record.runs.last().map_or(0.0, |run| run.seconds)
}

/// The result of an ablation.
#[derive(Debug, Clone, PartialEq)]
pub struct Ablation {
    /// The conclusion from the runs.
    pub found: Ablated,
    /// The reason for each change that cannot be taken out by itself.
    pub stuck: BTreeMap<ExperimentId, String>,
    /// The branch without the dropped changes, as git shows it.
    pub branch: Option<String>,
}

/// Measures the best experiment with and without each kept change, by `runs` fresh runs of each, and with `drops` makes a
/// branch without those that carry nothing. Runs that are recorded count, so an interrupted call is continued. `None` after
/// an interrupt.
///
/// # Errors
///
/// Nothing was kept; the keeps are no chain; a loop holds the session; the best experiment gives no number; the branch is
/// there already; those of a rerun.
pub async fn ablate(
    view: &SessionView,
    (runs, drops): (u32, bool),
    terms: &FreshTerms,
    interrupts: &Interrupts,
    publish: &mut dyn FnMut(&FreshNews<'_>),
) -> Result<Option<Ablation>, SessionError> {
    let contract = view.terms()?;
    view.refuse_beside_hidden("`ar ablate`")?;
    let chain = view.kept_chain()?;
    let [_, kept @ ..] = chain.as_slice() else { return Err(view.nothing_kept().into()) };
    let Some(best) = kept.last() else { return Err(view.nothing_kept().into()) };
    let place = FreshRuns::open(&[view], terms, interrupts).await?;
    let name = view.tag.ablated_ref(best.id);
    let mut found = begun_ablation(view, &name, best, runs)?;
    let keeps: Vec<ExperimentId> = kept.iter().map(|record| record.id).collect();
    let others = fresh_groups(&view.history);
    let first_seed = first_seed_of(&[view])?;
    let mut trees = ReducedTree { view, kept, made: BTreeMap::new(), stuck: BTreeMap::new() };
    keeps.iter().try_for_each(|id| trees.make(&[*id]))?;
    let branch = if drops { Some(format!("{}-dropped", view.tag)) } else { None };
    let mut is_planned = false;
    loop {
        let stuck: BTreeSet<Vec<ExperimentId>> = trees.stuck.keys().cloned().collect();
        let terms = AblationTerms {
            direction: contract.metric.direction,
            keeps: &keeps,
            runs: found.runs,
            drops,
            first_seed,
            others: &others,
            takes_seeds: view.history.takes_seeds(),
            stuck: &stuck,
        };
        let AblationState { kept, dropped, next } = ablation(&terms, &found.values);
        found.kept = kept;
        if drops {
            found.dropped = dropped;
        }
        // The runs of a new plan may be impossible.
        if trees.make_new(&next)? {
            continue;
        }
        if next.is_empty() {
            if !is_planned {
                publish(&FreshNews::Planned { runs: 0, more: 0, slots: place.slots(), seconds: 0.0 });
            }
            break;
        }
        if !is_planned {
            if let Some(branch) = &branch {
                refuse_branch(view, branch)?;
            }
            let can_go = keeps.len() - stuck.iter().filter(|together| together.len() == 1).count();
            let most = most_ablating_runs(can_go, found.runs, drops).saturating_sub(sure_runs(&found));
            let (runs, slots) = (next.len() as u64, place.slots());
            let seconds = usual_seconds(best);
            publish(&FreshNews::Planned { runs, more: most.saturating_sub(runs), slots, seconds });
            is_planned = true;
        }
        if !measure(&place, &trees, best, &next, &mut found, &name, publish).await? {
            return Ok(None);
        }
    }
    write_tag(&view.repo, &name, &best.commit, &found)?;
    let branch = branch.filter(|_| !found.dropped.is_empty());
    let branch = branch.map(|branch| trees.branch(branch, found.dropped.clone())).transpose()?;
    let stuck = trees.stuck_alone(&found.values);
    Ok(Some(Ablation { found, stuck, branch }))
}

/// The ablation as far as it was made, with at least `runs` runs of each tree.
fn begun_ablation(view: &SessionView, name: &str, best: &Record, runs: u32) -> Result<Ablated, SessionError> {
    let known = read_tag(&view.repo, name, |known: &Ablated| known.version)?;
    let mut found = known.unwrap_or_else(|| Ablated { version: FORMAT_VERSION, best: best.id, ..Ablated::default() });
    found.runs = found.runs.max(runs);
    // A run without a number is tried again: it may have been chance.
    let failed = found.values.iter().filter(|run| run.value.is_none()).map(|run| run.without.clone());
    let failed: Vec<Vec<ExperimentId>> = failed.collect();
    let failures = |run: &AblatedRun| failed.iter().filter(|without| **without == run.without).count();
    found.values.retain(|run| run.value.is_some() || failures(run) > 1);
    Ok(found)
}

/// Makes these runs, and records each as it ends. Returns false after an interrupt.
async fn measure(
    place: &FreshRuns<'_>,
    trees: &ReducedTree<'_>,
    best: &Record,
    next: &[AblatingRun],
    found: &mut Ablated,
    name: &str,
    publish: &mut dyn FnMut(&FreshNews<'_>),
) -> Result<bool, SessionError> {
    let mut subjects: BTreeMap<&[ExperimentId], FreshSubject<'_>> = BTreeMap::new();
    for run in next {
        if !subjects.contains_key(run.without.as_slice()) {
            let commit = trees.made.get(&run.without).unwrap_or(&best.commit).clone();
            subjects.insert(&run.without, place.subject(trees.view, best, commit)?);
        }
    }
    let wanted: Vec<(&FreshSubject<'_>, u64)> =
        next.iter().map(|run| (&subjects[run.without.as_slice()], run.seed)).collect();
    place
        .make(&wanted, &mut |index, ended| {
            let AblatingRun { without, step, seed } = next[index].clone();
            let what = match without.as_slice() {
                [] => experiment_name(best.id),
                without => format!("without {}", names(without)),
            };
            let Some(value) = ended.told(&what, seed, publish) else { return Ok(()) };
            let value = match value {
                Ok(value) => Some(value.value),
                // A failure without any change, or outside the code, says nothing of a change.
                Err(it) if without.is_empty() || !it.is_of_code => {
                    return Err(VerifyError::Failed { what, seed, why: it.why }.into());
                }
                Err(_) => None,
            };
            found.values.push(AblatedRun { without, step, seed, value });
            write_tag(&trees.view.repo, name, &best.commit, found)
        })
        .await
}

/// The runs so far that are needed whatever is dropped: those of each change by itself, and of the best experiment.
fn sure_runs(found: &Ablated) -> u64 {
    found.values.iter().filter(|run| run.step == AblationStep::Ablate || run.without.is_empty()).count() as u64
}

fn names(ids: &[ExperimentId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Refuses a branch that is there, which may have somebody's work.
fn refuse_branch(view: &SessionView, branch: &str) -> Result<(), SessionError> {
    match view.free_branch(branch) {
        Err(SessionError::BranchTaken(branch)) => Err(VerifyError::BranchThere(branch).into()),
        free => free.map(drop),
    }
}

/// The best experiment without some of the kept changes.
struct ReducedTree<'a> {
    view: &'a SessionView,
    /// The kept experiments, in order.
    kept: &'a [&'a Record],
    /// The commits that lack changes, by these.
    made: BTreeMap<Vec<ExperimentId>, CommitId>,
    /// The changes that cannot be taken out together, with the reason.
    stuck: BTreeMap<Vec<ExperimentId>, String>,
}

impl ReducedTree<'_> {
    /// Makes the commit that lacks these changes, or notes why there can be none.
    fn make(&mut self, without: &[ExperimentId]) -> Result<(), SessionError> {
        match self.chain(without)? {
            Ok(commit) => self.made.insert(without.to_vec(), commit).map(drop),
            Err(why) => self.stuck.insert(without.to_vec(), why).map(drop),
        };
        Ok(())
    }

    /// Makes those that these runs need and nobody has made. Returns whether there were some.
    fn make_new(&mut self, runs: &[AblatingRun]) -> Result<bool, SessionError> {
        let asked: BTreeSet<&[ExperimentId]> = runs.iter().map(|run| run.without.as_slice()).collect();
        let is_new = |without: &&[ExperimentId]| !self.made.contains_key(*without) && !without.is_empty();
        let new: Vec<&[ExperimentId]> = asked.into_iter().filter(is_new).collect();
        new.iter().try_for_each(|without| self.make(without))?;
        Ok(!new.is_empty())
    }

    /// The changes that cannot be taken out by themselves, with the reason.
    fn stuck_alone(&self, values: &[AblatedRun]) -> BTreeMap<ExperimentId, String> {
        let alone =
            |(without, why): (&Vec<ExperimentId>, &String)| (without.len() == 1).then(|| (without[0], why.clone()));
        let mut stuck: BTreeMap<ExperimentId, String> = self.stuck.iter().filter_map(alone).collect();
        for run in values.iter().filter(|run| run.value.is_none() && run.without.len() == 1) {
            stuck
                .entry(run.without[0])
                .or_insert_with(|| format!("a run without it gave no number (seed {})", run.seed));
        }
        stuck
    }

    /// Takes changes out of the best experiment, the newest first, a commit for each. Otherwise, the reason why that does not
    /// work.
    fn chain(&self, without: &[ExperimentId]) -> Result<Result<CommitId, String>, SessionError> {
        let objects = &self.view.repo.objects;
        let mut tip = self.kept[self.kept.len() - 1].commit.clone();
        for record in self.kept.iter().rev().filter(|record| without.contains(&record.id)) {
            let tree = match objects.merge(&record.commit, &tip, &record.base)? {
                Merged::Tree(tree) => tree,
                Merged::Conflicts(paths) => {
                    return Ok(Err(format!("later changes touch the same lines of {}", list(&paths))));
                }
            };
            let why = format!("ablate: take out experiment {}\n\n{}\n", record.id, record.description);
            let commit = objects.commit_merged(&tree, &tip, &why)?;
            if objects.tree_of(&commit)? == objects.tree_of(&tip)? {
                return Ok(Err("a later change replaced it".to_owned()));
            }
            tip = commit;
        }
        Ok(Ok(tip))
    }

    /// Puts the best experiment without these changes on a branch, unless it is there.
    fn branch(&mut self, branch: String, mut without: Vec<ExperimentId>) -> Result<String, SessionError> {
        without.sort();
        self.make(&without)?;
        let Some(commit) = self.made.get(&without) else {
            let text = format!("cannot write what was verified: no commit without {}", names(&without));
            return Err(refuse(CannotStart, text).hint("report this as a defect").into());
        };
        let (refs, objects) = (&self.view.repo.refs, &self.view.repo.objects);
        let full = refs.branch_ref(&branch)?;
        if let Some(there) = refs.branch(&full)?
            && objects.tree_of(&there)? == objects.tree_of(commit)?
        {
            return Ok(branch);
        }
        refuse_branch(self.view, &branch)?;
        let why = format!("branch: session {} without what carries nothing", self.view.tag);
        refs.create_branch(&full, commit, &why)?;
        Ok(branch)
    }
}
