//! Fresh runs of recorded experiments beside the session, by the same seeds: as many at a time as there are slots, in
//! working trees of their own.
//!
//! An ablation runs the best experiment with and without each kept change, and makes a branch without those that carry
//! nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tempfile::TempDir;

use super::{RunLink, ScratchRun, hold, link, run_folders};
use crate::crash;
use crate::domain::{
    Ablated, AblatedRun, AblationStep, Asked, CommitId, Contract, ExperimentId, FORMAT_VERSION, GpuOther, Layout,
    Number, Record, RunRole, VerifiedId, VerifiedPair, experiment_name, list,
};
use crate::exec::Executor;
use crate::fs::{if_exists, make_folder};
use crate::git::{HeadTarget, Merged, Repo};
use crate::rules::{
    AblatingRun, AblationState, AblationTerms, ComparedPair, HiddenBook, HiddenEntry, TAINT_REPEATS, ablation,
    describe_failure, fresh_groups, most_ablating_runs, taint,
};
use crate::session::attempt::evaluator_variables;
use crate::session::errors::{CannotStart, SessionError, VerifyError, refuse};
use crate::session::files::{REPRO_FOLDER, read_history, refuse_elsewhere};
use crate::session::handlers::{SlotSetup, clear_command_worktrees, record_verified, write_tag};
use crate::session::run_loop::slot_setup;
use crate::session::store::{Interrupt, Interrupts, first_fresh_seed, read_tag, real, watch_programs_until};
use crate::session::{Drive, Placing, Rerunning, SessionView, layout_of};
use crate::state::{HiddenFile, OwnerLock};

/// The folder of working trees of fresh runs with a hidden split, among those of the session's runs.
const OF_VERIFY: &str = "verify";

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
    if !terms.holdout {
        [a, b].iter().try_for_each(|side| side.view.refuse_beside_hidden("`ar verify`"))?;
    }
    let views = if is_one_session { vec![b.view] } else { vec![a.view, b.view] };
    let place = FreshRuns::open(&views, terms, interrupts).await?;
    let [id_a, id_b] = [a, b].map(|side| VerifiedId::new((!is_one_session).then_some(&side.view.tag), side.record.id));
    let name = b.view.tag.verified_ref((!is_one_session).then_some(&a.view.tag), a.record.id, b.record.id);
    let file = HiddenFile::new(&b.view.folder.state());
    let book_of = |view: &SessionView| match terms.holdout {
        true => HiddenFile::new(&view.folder.state()).read(),
        false => Ok(HiddenBook::default()),
    };
    let book = book_of(b.view)?;
    let is_it = |pair: &&ComparedPair| (&pair.visible.a, &pair.visible.b) == (&id_a, &id_b);
    let known = match terms.holdout {
        true => book.pairs().iter().find(is_it).cloned(),
        false => read_tag(&b.view.repo, &name, |pair: &VerifiedPair| pair.version)?
            .map(|visible| ComparedPair { visible, hidden: None }),
    };
    let mut pair = known.unwrap_or_else(|| {
        let visible = VerifiedPair::new(id_a, id_b);
        ComparedPair { hidden: terms.holdout.then(|| visible.clone()), visible }
    });
    let done = pair.common_seeds();
    if pair.visible.wanted <= done {
        pair.visible.wanted = done + runs;
    }
    let mut others = book.groups_besides(&b.view.history, Some(&pair.visible));
    if !is_one_session {
        let of_a = book_of(a.view)?.groups_besides(&a.view.history, None);
        others.iter_mut().zip(of_a).for_each(|(others, of_a)| others.extend(of_a));
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
            let value = value.map_err(|it| VerifyError::Failed { what: id, seed, why: it.why })?.value;
            let ComparedPair { visible, hidden } = &mut pair;
            let Some(hidden) = hidden else {
                let (place, run) = ((&b.view.repo, name.as_str(), &b.record.commit), (which, seed, value));
                let others = (others[0].as_slice(), takes_seeds);
                is_known = record_verified(place, visible, run, contract.metric.direction, others)?;
                return Ok(());
            };
            if is_hidden { hidden } else { visible }.add(which, seed, value);
            is_known = pair.judge(contract, &others, takes_seeds);
            file.add(&HiddenEntry::Verified(Box::new(pair.clone())))?;
            crash::point("verifying.noted");
            Ok(())
        })
        .await?;
    if terms.holdout {
        place.clear(&b.view.repo, &file.read()?)?;
    }
    match (is_done, is_known) {
        (false, _) => Ok(None),
        (true, true) => Ok(Some(pair)),
        (true, false) => Err(VerifyError::NoNoise.into()),
    }
}

/// Refuses experiments that cannot be compared, with a hidden split or without one.
fn refuse_unlike(a: VerifiedSide<'_>, b: VerifiedSide<'_>, holdout: bool) -> Result<(), SessionError> {
    [a, b].into_iter().try_for_each(|side| SessionView::require_commit(side.record))?;
    let measured = |side: VerifiedSide<'_>| {
        let (tag, contract) = (&side.view.tag, side.view.terms()?);
        let none = || refuse(CannotStart, format!("session {tag} has no hidden split")).hint("omit --holdout");
        let hidden = if holdout { Some(contract.of_hidden().ok_or_else(none)?) } else { None };
        let unit = side.record.metric.unit.as_ref().map(|unit| format!(" in {unit}")).unwrap_or_default();
        let named = |of: &Contract, unit| format!("{}{unit} ({})", of.metric.name, of.metric.direction);
        let hidden = hidden.map(|own| format!(", and {} by `{}`", named(&own, String::new()), own.command));
        Ok::<_, SessionError>(named(contract, unit) + &hidden.unwrap_or_default())
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

/// The place of fresh runs.
#[derive(Debug, Clone, Default)]
pub struct FreshTerms {
    /// Untracked files and folders of the user's working tree to link into each tree; those of the session's slots if empty.
    pub links: Vec<PathBuf>,
    /// The slots and GPUs that are asked for, instead of the session's.
    pub asked: Asked,
    /// True to have the hidden evaluator follow each run.
    pub holdout: bool,
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
    /// The terms of the hidden evaluator that follows each run.
    hidden: Option<Contract>,
}

/// A fresh run that is wanted: its subject, its seed, and whether it has ended and its evaluator is to follow.
pub(super) type FreshRun<'a> = (&'a FreshSubject<'a>, u64, bool);

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
    home: (PathBuf, Option<TempDir>),
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
        let home = match terms.holdout {
            // No call can read what is there, and it outlives this process.
            true => (view.folder.runs().join(OF_VERIFY), None),
            false => {
                let made = view.folder_beside(cluster, &format!("ar-{}-", view.tag))?;
                (made.path().to_owned(), Some(made))
            }
        };
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
        let contract = view.terms()?;
        let hidden = contract.of_hidden().filter(|_| self.terms.holdout);
        Ok(FreshSubject { view, contract, record, commit, links, hidden })
    }

    /// Removes the trees of runs with the hidden split, also those of killed processes, unless one waits for its evaluator.
    fn clear(&self, repo: &Repo, book: &HiddenBook) -> Result<(), SessionError> {
        if book.pairs().iter().any(|pair| !pair.unevaluated().is_empty()) {
            return Ok(());
        }
        let home = real(&self.home.0);
        let left = repo.linked_worktrees()?.into_iter().map(|(_, dir)| dir).filter(|dir| dir.starts_with(&home));
        left.into_iter().try_for_each(|dir| remove_tree(repo, &dir))?;
        remove_folder(home)
    }

    /// Makes the runs, in order, and hands what becomes of each to `ended`, by its place. A run beside which another process was
    /// on its GPU is made again, twice at most. Returns false after an interrupt. After an error it starts no more, and waits
    /// for those that are under way.
    pub(super) async fn make(
        &self,
        runs: &[FreshRun<'_>],
        ended: &mut dyn FnMut(usize, FreshEnd) -> Result<(), SessionError>,
    ) -> Result<bool, SessionError> {
        let mut free: Vec<u32> = (0..self.slots).rev().collect();
        let mut waiting: VecDeque<(usize, u32, bool)> =
            runs.iter().enumerate().map(|(index, (.., has_ended))| (index, 0, *has_ended)).collect();
        let mut active = FuturesUnordered::new();
        let mut outcome = Ok(true);
        loop {
            while matches!(outcome, Ok(true))
                && let Some(slot) = free.pop()
            {
                let Some((index, repeats, has_ended)) = waiting.pop_front() else { break };
                let (subject, seed, _) = runs[index];
                let run = (subject, seed, has_ended);
                active.push(async move { (slot, index, repeats, self.run(slot, run, repeats).await) });
            }
            let Some((slot, index, repeats, ran)) = active.next().await else { return outcome };
            free.push(slot);
            let goes_on = match ran {
                Ok(Some((what, tree, _held))) => {
                    let is_to_evaluate =
                        self.terms.holdout && matches!(&what, FreshEnd::Ended { value: Ok(_), is_hidden: false });
                    // A broken evaluator can be mended, and the run is not repeated for it.
                    let stays = is_to_evaluate || matches!(&what, FreshEnd::Ended { value: Err(_), is_hidden: true });
                    if matches!(what, FreshEnd::Crowded(_)) {
                        waiting.push_front((index, repeats + 1, false));
                    }
                    // First, as a kill while its tree goes must not repeat the run.
                    let recorded = ended(index, what);
                    if is_to_evaluate {
                        waiting.push_front((index, repeats, true));
                    }
                    let repo = &runs[index].0.view.repo;
                    recorded.and(if stays { Ok(()) } else { remove_tree(repo, tree.worktree()) }).map(|()| true)
                }
                Ok(None) => Ok(false),
                Err(error) => Err(error),
            };
            if matches!(outcome, Ok(true)) {
                outcome = goes_on;
            }
        }
    }

    /// A working tree for a run, and whether the run has ended in it, so that its evaluator can follow.
    fn tree(&self, slot: u32, (subject, seed, has_ended): FreshRun<'_>) -> Result<(Repo, bool), SessionError> {
        let FreshSubject { view, commit, .. } = subject;
        let (repo, home) = (&view.repo, &self.home.0);
        if !self.terms.holdout {
            let dir = home.join(format!("slot-{slot}"));
            return Ok((repo.make_worktree(&dir, &HeadTarget::Detached(commit.clone()))?, false));
        }
        let dir = home.join(format!("{}-{seed}", commit.short(12)));
        let own = folder_of(&dir);
        let is_left = has_ended && repo.has_kept(&dir) && own.is_dir();
        if !is_left {
            remove_tree(repo, &dir)?;
        }
        let place = repo.keep_worktree(&dir, commit, "fresh runs with a hidden split")?.repo;
        if !is_left {
            make_folder(&own).map_err(|source| SessionError::Io { action: "make", path: own.clone(), source })?;
            // Calls can read git's folder.
            link(&own, &place.git_dir().join(REPRO_FOLDER))?;
        }
        Ok((place, is_left))
    }

    /// One run, or its evaluator where it has ended, in a working tree of its own, which is returned held. `None` after an interrupt.
    async fn run(
        &self,
        slot: u32,
        wanted: FreshRun<'_>,
        repeats: u32,
    ) -> Result<Option<(FreshEnd, Repo, Option<File>)>, SessionError> {
        if self.interrupts.asked() != Interrupt::None {
            return Ok(None);
        }
        let (FreshSubject { view, contract, record, commit, links, hidden }, seed, _) = wanted;
        let (place, has_ended) = self.tree(slot, wanted)?;
        let mut variables = match &self.setup {
            Some(setup) => setup.variables(place.worktree(), slot)?,
            None => Vec::new(),
        };
        let evaluator = hidden.as_ref().filter(|_| has_ended);
        if evaluator.is_some() {
            variables.extend(evaluator_variables(&run_folders(&place)[0]));
        }
        let run = ScratchRun::of(contract, record, RunRole::Verify, &self.executor);
        let gpu_sharers = self.shared_gpus.as_deref();
        let run = ScratchRun { commit, seed: Some(seed), links, variables: &variables, gpu_sharers, ..run };
        let mut quiet = |_: &Rerunning<'_>| ();
        let run = match evaluator {
            Some(own) => ScratchRun { contract: own, command: &own.command, evaluates: true, ..run },
            None => run,
        };
        let ran = match hold(&place, !self.terms.holdout) {
            Ok(held) => {
                let finished = run.finish(view, &place, self.interrupts, &mut quiet).await;
                finished.map(|finished| finished.map(|(measured, exit)| (measured, exit, held)))
            }
            Err(error) => Err(error),
        };
        let is_hidden = evaluator.is_some();
        let Ok(Some((measured, exit, held))) = ran else {
            // A run stays until it is evaluated.
            let removed = if is_hidden { Ok(()) } else { remove_tree(&view.repo, place.worktree()) };
            return ran.and_then(|_| removed.map(|()| None));
        };
        let others = if is_hidden { Vec::new() } else { view.tainting(&exit, measured.failure.as_ref()) };
        if !others.is_empty() && repeats < TAINT_REPEATS {
            return Ok(Some((FreshEnd::Crowded(GpuOther::clause(&others)), place, held)));
        }
        let failure = if others.is_empty() { measured.failure } else { Some(taint(&others)) };
        let value = match (failure, measured.value) {
            (None, Some(number)) => Ok(number),
            (Some(failure), _) => {
                let beside = match () {
                    () if is_hidden => format!("; see {}", run_folders(&place)[1].join("run.log").display()),
                    () if others.is_empty() => String::new(),
                    () => format!("; {}", GpuOther::clause(&others)),
                };
                let name = &evaluator.unwrap_or(contract).metric.name;
                let why = describe_failure(&failure, name, &measured.ended, None) + &beside;
                Err(Unmeasured { why, is_of_code: failure.class.judges_change() })
            }
            (None, None) => Err(Unmeasured { why: "no number".to_owned(), is_of_code: true }),
        };
        Ok(Some((FreshEnd::Ended { value, is_hidden }, place, held)))
    }
}

/// The folder of the own files of a run with a hidden split, beside its working tree.
fn folder_of(tree: &Path) -> PathBuf {
    tree.with_extension("run")
}

/// Removes the working tree of a fresh run with its own files.
fn remove_tree(repo: &Repo, tree: &Path) -> Result<(), SessionError> {
    remove_folder(folder_of(tree))?;
    Ok(repo.remove_kept(tree)?)
}

fn remove_folder(path: PathBuf) -> Result<(), SessionError> {
    let removed = if_exists(fs::remove_dir_all(&path)).map(drop);
    removed.map_err(|source| SessionError::Io { action: "remove", path, source })
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
    /// It ended, or its evaluator did.
    Ended {
        /// The value that it measured, or why there is none.
        value: Result<Number, Unmeasured>,
        /// True for the evaluator of the hidden split.
        is_hidden: bool,
    },
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
            FreshEnd::Ended { value, .. } => value,
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
    let wanted: Vec<FreshRun<'_>> =
        next.iter().map(|run| (&subjects[run.without.as_slice()], run.seed, false)).collect();
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
