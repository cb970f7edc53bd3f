//! Fresh runs of recorded experiments, each in a working tree of its own: several at a time, with the hidden evaluator behind each.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tempfile::TempDir;

use super::{RunLink, ScratchRun, hold, link, run_folders};
use crate::domain::{Asked, CommitId, Contract, GpuOther, Layout, Number, Record, RunRole};
use crate::exec::Executor;
use crate::fs::{failed, make_folder, remove_all};
use crate::git::{HeadTarget, Repo};
use crate::rules::{HiddenBook, TAINT_REPEATS, describe_failure, taint};
use crate::session::attempt::evaluator_variables;
use crate::session::errors::{CannotStart, SessionError, VerifyError, refuse};
use crate::session::files::{REPRO_FOLDER, TEMPORARY, read_history, refuse_elsewhere};
use crate::session::handlers::{SlotSetup, clear_command_worktrees};
use crate::session::run_loop::slot_setup;
use crate::session::store::{Interrupt, Interrupts, first_fresh_seed, real, watch_programs_until};
use crate::session::{Drive, Placing, Rerunning, SessionView, layout_of};
use crate::state::{OwnerLock, SessionFolder, StateError};

/// The folder of working trees of fresh runs with a hidden split, among those of the session's runs.
const OF_VERIFY: &str = "verify";

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
    /// The mark of the working trees: that they are temporary, or the command that goes on with them.
    pub(super) mark: String,
    /// The sessions' folders, where `ar stop` leaves its requests, with their locks.
    held: Vec<(SessionFolder, OwnerLock)>,
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
        let lock = |view: &&SessionView| Ok((view.folder.clone(), view.folder.lock(view.repo.git_dir(), false)?));
        let held = views.iter().map(lock).collect::<Result<Vec<_>, StateError>>()?;
        held.iter().for_each(|(folder, lock)| folder.drop_old_stop_request(lock));
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
        let mark = TEMPORARY.to_owned();
        Ok(FreshRuns { interrupts, terms, slots, setup, shared_gpus, home, executor, mark, held })
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
    pub(super) fn clear(&self, repo: &Repo, book: &HiddenBook) -> Result<(), SessionError> {
        if book.awaits_evaluator() {
            return Ok(());
        }
        let home = real(&self.home.0);
        let left = repo.linked_worktrees()?.into_iter().map(|(_, dir)| dir).filter(|dir| dir.starts_with(&home));
        left.into_iter().try_for_each(|dir| remove_tree(repo, &dir))?;
        Ok(remove_all(&home).map_err(failed("remove", &home))?)
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
        let (mut outcome, mut listener) = (Ok(true), self.interrupts.listen());
        loop {
            while matches!(outcome, Ok(true))
                && let Some(slot) = free.pop()
            {
                let Some((index, repeats, has_ended)) = waiting.pop_front() else { break };
                let (subject, seed, _) = runs[index];
                let run = (subject, seed, has_ended);
                active.push(async move { (slot, index, repeats, self.run(slot, run, repeats).await) });
            }
            let ended_run = tokio::select! {
                ended_run = active.next() => ended_run,
                () = listener.signal_or_look() => {
                    self.hear();
                    continue;
                }
            };
            let Some((slot, index, repeats, ran)) = ended_run else { return outcome };
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

    /// Passes on a request of `ar stop`. It stays where it is, so that `ar stop` waits for the end of this process.
    fn hear(&self) {
        let requests = self.held.iter().filter_map(|(folder, _)| folder.stop_request());
        requests.for_each(|when| self.interrupts.ask(when.into()));
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
            make_folder(&own).map_err(failed("make", &own))?;
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
        let ran = match hold(&place, &self.mark) {
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
    let own = folder_of(tree);
    remove_all(&own).map_err(failed("remove", &own))?;
    Ok(repo.remove_kept(tree)?)
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

    /// The terms of the hidden evaluator if it is to follow each run of a command.
    ///
    /// # Errors
    ///
    /// The session has none; or it has one that is not to follow, and agents could read the values of the runs.
    pub(super) fn hidden_terms(&self, command: &str, holdout: bool) -> Result<Option<Contract>, SessionError> {
        let (contract, tag) = (self.terms()?, &self.tag);
        let refused = |text: String, hint: String| Err(refuse(CannotStart, text).hint(hint).into());
        match contract.of_hidden() {
            None if holdout => refused(format!("session {tag} has no hidden split"), "omit --holdout".to_owned()),
            Some(_) if !holdout && contract.decides_on_hidden() => refused(
                format!("session {tag} has a hidden split, and agents could read the values of `ar {command}`"),
                format!("run `ar {command} --holdout --tag {tag}`, which keeps all values from them"),
            ),
            hidden => Ok(hidden.filter(|_| holdout)),
        }
    }

    /// The slots of the session, if it had any.
    pub(super) fn layout(&self) -> Option<Layout> {
        let of_journal = self.journal().and_then(|journal| journal.layout);
        of_journal.or_else(|| self.history.layout().cloned())
    }
}

/// The smallest seed that neither a run of these sessions had nor any larger one.
pub(super) fn first_seed_of(views: &[&SessionView]) -> Result<u64, SessionError> {
    let first = |view: &&SessionView| first_fresh_seed(&view.repo, &view.tag, &view.history);
    Ok(views.iter().map(first).collect::<Result<Vec<_>, _>>()?.into_iter().max().unwrap_or(1))
}

/// About how long a run of an experiment takes, in seconds.
pub(super) fn usual_seconds(record: &Record) -> f64 {
    record.runs.last().map_or(0.0, |run| run.seconds)
}
