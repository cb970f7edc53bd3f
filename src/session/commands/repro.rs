//! Runs of recorded code beside the session: each in a working tree of its own, without a trace in the session's files and
//! refs.

use std::fs;
use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf, absolute};

use tempfile::TempDir;

use crate::domain::{
    Cluster, CommitId, Contract, EnvironmentChange, ExperimentId, Failure, FailureClass, GpuOther, Number, Record,
    RunRole, Sandbox,
};
use crate::exec;
use crate::exec::{ExecError, Executor, Exit};
use crate::fs::open_locked;
use crate::git::{HeadTarget, Repo};
use crate::rules::{
    CameBack, FileTerms, JobPlaces, Measurement, Wall, WalledRole, came_back, environment_differences, failed_again,
    protected_mounts, repeat_limit, tainting,
};
use crate::session::attempt::{MeasuringRun, metric_file_stamp};
use crate::session::errors::{CannotStart, SessionError, refuse};
use crate::session::files::{REPRO_FOLDER, TEMPORARY, UNFINISHED, clear_folder, is_own};
use crate::session::handlers::{clear_command_worktrees, scratch_of};
use crate::session::store::{Interrupt, Interrupts, RUN, Walls, own_names, real, watch_programs_until, writes_log};
use crate::session::view::SessionView;
use crate::session::wait::WaitEnd;
use crate::state::SESSIONS_FOLDER;

/// The options for rerunning an experiment.
#[derive(Debug, Clone, Default)]
pub struct Rerun {
    /// The working tree to make and retain. By default a temporary folder, which is removed if the value was reproduced.
    pub worktree: Option<PathBuf>,
    /// Untracked files and folders of the user's working tree to link into the new one.
    pub links: Vec<PathBuf>,
    /// True to run on this machine, also where the session's runs are executed elsewhere.
    pub here: bool,
}

/// A run that is about to start.
#[derive(Debug)]
pub struct Rerunning<'a> {
    /// The working tree.
    pub dir: &'a Path,
    /// The command.
    pub command: &'a str,
    /// Names at the root of the user's working tree that the new one lacks.
    pub missing: Vec<String>,
}

/// The outcome of rerunning an experiment.
#[derive(Debug)]
pub struct Reproduced {
    /// The value measured now.
    pub measured: Option<Number>,
    /// The reason why no value counts.
    pub failure: Option<Failure>,
    /// The comparison with the record, if both have a value or failed in the same way.
    pub came_back: Option<CameBack>,
    /// Differences from where the record's value was measured that make the two incomparable.
    pub changes: Vec<EnvironmentChange>,
    /// The name of this host.
    pub host: String,
    /// Other processes on its GPUs, which make its number doubtful.
    pub gpu_others: Vec<GpuOther>,
    /// Duration of the run in seconds.
    pub seconds: f64,
    /// A description of how the run ended.
    pub ended: String,
    /// The working tree, if it is retained.
    pub kept: Option<PathBuf>,
    /// The log of the run, if it is retained.
    pub log: Option<PathBuf>,
}

impl SessionView {
    /// Reruns an experiment's command on its commit, with the session's time limit, and compares the value. The run ends with
    /// this process. `None` after an interrupt: the run is terminated and its working tree removed.
    pub async fn reproduce(
        &self,
        record: &Record,
        rerun: &Rerun,
        interrupts: &Interrupts,
        publish: &mut dyn FnMut(&Rerunning<'_>),
    ) -> Result<Option<Reproduced>, SessionError> {
        let contract = self.contract.as_ref().ok_or_else(|| SessionError::NoContract(self.folder.root().to_owned()))?;
        SessionView::require_commit(record)?;
        if contract.imported {
            return Err(SessionError::ImportedSession(self.tag.to_string()));
        }
        let class = record.failure.as_ref().map(|failure| failure.class);
        if class.is_some_and(|class| class.is_refusal() && class != FailureClass::Duplicate) {
            let Record { id, reason, .. } = record;
            return Err(refuse(CannotStart, format!("experiment {id} was refused and never ran: {reason}"))
                .hint(format!("see its change with `ar show {id}`, or extract it with `ar restore {id}`"))
                .into());
        }
        let links = rerun.links.iter().map(|link| self.linkable(link)).collect::<Result<Vec<_>, _>>()?;
        let cluster = self.layout().and_then(|layout| layout.cluster).filter(|_| !rerun.here);
        let executor = Executor::for_runs(cluster.as_ref());
        let dir = match &rerun.worktree {
            Some(dir) => dir.clone(),
            None => self.folder_beside(cluster.as_ref(), &format!("ar-{}-{}-", self.tag, record.id))?.keep(),
        };
        watch_programs_until(&self.repo, interrupts)?;
        clear_command_worktrees(&self.repo).await?;
        let head = HeadTarget::Detached(record.commit.clone());
        let made = match &rerun.worktree {
            Some(dir) => self.repo.add_worktree(dir, &head),
            None => self.repo.make_worktree(&dir, &head),
        };
        if made.is_err() && rerun.worktree.is_none() {
            // It is empty, and may be missing.
            let _ = fs::remove_dir(&dir);
        }
        let place = made?;
        let (seed, _) = record.to_repeat();
        let run = ScratchRun { seed, links: &links, ..ScratchRun::of(contract, record, RunRole::Repro, &executor) };
        let unfinished = place.git_dir().join(REPRO_FOLDER).join(UNFINISHED);
        let (ran, _held) = match hold(&place, if rerun.worktree.is_none() { TEMPORARY } else { "" }) {
            Ok(held) => (self.run_in(&place, (record, run), interrupts, publish).await, held),
            Err(error) => (Err(error), None),
        };
        let log = place.git_dir().join(REPRO_FOLDER).join("run.log");
        match ran {
            Ok(Some(mut reproduced)) => {
                if reproduced.came_back.as_ref().is_some_and(CameBack::is_same) && rerun.worktree.is_none() {
                    place.remove_linked()?;
                } else {
                    let failed = |source| SessionError::Io { action: "remove", path: unfinished.clone(), source };
                    fs::remove_file(&unfinished).map_err(failed)?;
                    reproduced.kept = Some(place.worktree().to_owned());
                    reproduced.log = Some(log);
                }
                Ok(Some(reproduced))
            }
            interrupted_or_failed => {
                place.remove_linked()?;
                interrupted_or_failed
            }
        }
    }

    async fn run_in(
        &self,
        place: &Repo,
        (record, run): (&Record, ScratchRun<'_>),
        interrupts: &Interrupts,
        publish: &mut dyn FnMut(&Rerunning<'_>),
    ) -> Result<Option<Reproduced>, SessionError> {
        let (_, recorded) = record.to_repeat();
        let finished = run.finish(self, place, interrupts, publish).await?;
        let Some(finished) = finished else { return Ok(None) };
        let (measured, exit) = finished;
        let here = exec::environment(place.worktree());
        let changes = environment_differences(record, record.id, &here);
        let numbers = measured.value.as_ref().filter(|_| measured.failure.is_none()).zip(recorded);
        let limit = repeat_limit(&self.history, &self.elsewhere());
        Ok(Some(Reproduced {
            came_back: match numbers {
                Some((now, recorded)) => Some(came_back(record.metric.direction, &recorded, now, limit)),
                None => {
                    // A baseline that had nothing to measure yet.
                    let empty = Failure::new(FailureClass::Nan, "");
                    let recorded = record.failure.as_ref().or(record.metric.value.is_none().then_some(&empty));
                    failed_again(recorded, measured.failure.as_ref())
                }
            },
            changes,
            host: here.host,
            gpu_others: self.tainting(&exit, measured.failure.as_ref()),
            measured: measured.value,
            failure: measured.failure,
            seconds: exit.seconds,
            ended: measured.ended,
            kept: None,
            log: None,
        }))
    }

    /// The other processes on the GPUs of a rerun that were not there when the baseline was measured.
    pub(super) fn tainting(&self, exit: &Exit, failure: Option<&Failure>) -> Vec<GpuOther> {
        let known = self.history.baseline().map_or(&[][..], |baseline| &baseline.conditions.gpu_others);
        tainting(exit.memory.gpu_others.clone(), known, failure.map(|failure| failure.class))
    }
}

impl SessionView {
    /// A new folder for working trees of runs beside the session: where the engine that executes them finds it, or among temporary
    /// files.
    pub(super) fn folder_beside(&self, cluster: Option<&Cluster>, name: &str) -> Result<TempDir, SessionError> {
        let above = if cluster.is_some() { self.folder.root().to_owned() } else { std::env::temp_dir() };
        let made = absolute(&above).and_then(|above| tempfile::Builder::new().prefix(name).tempdir_in(above));
        made.map_err(|source| SessionError::Io { action: "make", path: above, source })
    }
}

/// An untracked file or folder of the user's working tree that a run needs.
#[derive(Debug, Clone)]
pub(super) struct RunLink {
    /// Its path.
    pub(super) target: PathBuf,
    /// Its path in a working tree.
    pub(super) name: PathBuf,
    /// Whether runs may write to it.
    pub(super) is_writable: bool,
}

/// A run beside the session.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScratchRun<'a> {
    pub(super) contract: &'a Contract,
    /// The experiment whose number the command gets.
    pub(super) id: ExperimentId,
    pub(super) commit: &'a CommitId,
    pub(super) command: &'a str,
    pub(super) role: RunRole,
    pub(super) seed: Option<u64>,
    pub(super) links: &'a [RunLink],
    /// Variables that the command gets in its slot.
    pub(super) variables: &'a [(String, String)],
    /// The folder of the runs that may share its GPUs.
    pub(super) gpu_sharers: Option<&'a Path>,
    pub(super) executor: &'a Executor,
    /// True for the hidden evaluator of the run that was made in the same tree.
    pub(super) evaluates: bool,
}

impl<'a> ScratchRun<'a> {
    /// A run of an experiment by the command that it was measured with.
    pub(super) fn of(
        contract: &'a Contract,
        record: &'a Record,
        role: RunRole,
        executor: &'a Executor,
    ) -> ScratchRun<'a> {
        ScratchRun {
            contract,
            id: record.id,
            commit: &record.commit,
            command: record.runs.last().map_or(contract.command.as_str(), |run| run.command.as_str()),
            role,
            seed: None,
            links: &[],
            variables: &[],
            gpu_sharers: None,
            executor,
            evaluates: false,
        }
    }

    /// Makes the run in a working tree at its commit, and waits for it. `None` after an interrupt.
    pub(super) async fn finish(
        self,
        view: &SessionView,
        place: &Repo,
        interrupts: &Interrupts,
        publish: &mut dyn FnMut(&Rerunning<'_>),
    ) -> Result<Option<(Measurement, Exit)>, SessionError> {
        let ScratchRun { contract, command, links, evaluates, .. } = self;
        let root = place.worktree();
        let [of_run, of_evaluator] = run_folders(place);
        let (folder, role) = match evaluates {
            true => (of_evaluator, WalledRole::Evaluator(of_run)),
            false => (of_run, WalledRole::Run),
        };
        if evaluates {
            self.executor.stop(&folder, RUN).await?;
            clear_folder(&folder)?;
        }
        let log = folder.join("run.log");
        for RunLink { target, name, .. } in links.iter().filter(|_| !evaluates) {
            let there = root.join(name);
            if fs::symlink_metadata(&there).is_ok() {
                return Err(SessionError::LinkedAlready(name.clone()));
            }
            link(target, &there)?;
        }
        if !evaluates && !place.working_tree.is_tracked(Path::new("run.log"))? {
            // The output of a command that redirects it there is read, too.
            link(&log, &root.join("run.log"))?;
        }
        let run = MeasuringRun {
            role: self.role,
            seed: self.seed,
            contract,
            command,
            id: self.id,
            commit: self.commit.clone(),
            state: view.folder.state(),
            wall: self.wall(view, place, (&folder, &role))?,
            folder,
            root,
            variables: self.variables,
            gpu_sharers: self.gpu_sharers.map(Path::to_owned),
            metric_before: metric_file_stamp(contract, root),
        };
        publish(&Rerunning { dir: root, command, missing: view.missing_in(root) });
        // The units of the baseline are those of the visible metric.
        let baseline = view.history.baseline().filter(|_| !evaluates);
        match run.start(self.executor)?.measured(interrupts, contract, baseline).await? {
            WaitEnd::Done(finished) => Ok(Some(finished)),
            WaitEnd::Lost if interrupts.asked() == Interrupt::None => {
                let (command, detail) = (command.to_owned(), "died".to_owned());
                Err(ExecError::Lost { command, detail, killed: 0 }.into())
            }
            _ => Ok(None),
        }
    }

    /// The wall of the run in `place`, if one can be built. A run of another commit protects what the commit's tracked files
    /// of that name are.
    fn wall(&self, view: &SessionView, place: &Repo, job: (&Path, &WalledRole)) -> Result<Option<Wall>, SessionError> {
        let ScratchRun { contract, commit, command, .. } = *self;
        let (folder, role) = job;
        let is_sealed = self.role == RunRole::Verify && contract.hides() && !contract.holdout_unsealed;
        let wanted = if is_sealed { Sandbox::Require } else { contract.sandbox };
        let (walls, _) = Walls::tried(wanted, &view.repo, place.worktree())?;
        let (walls, _) = walls.hiding(&view.repo, &view.folder, contract)?;
        let terms = FileTerms::of(contract)?;
        let all = place.objects.files_at(commit, |_| true)?;
        let protected: Vec<PathBuf> = all.iter().filter(|path| terms.protects(path)).cloned().collect();
        let places = JobPlaces {
            scratch: scratch_of(self.variables, &view.repo.main_worktree().join(SESSIONS_FOLDER), role),
            own: own_names(folder, 0, writes_log(place.worktree(), command)),
            protected: protected_mounts(&protected, &all),
            links: self.links.iter().map(|link| (link.target.clone(), link.is_writable)).collect(),
            ..JobPlaces::default()
        };
        Ok(walls.of_job(place.worktree(), folder, places, role))
    }
}

impl SessionView {
    /// An untracked file or folder of the user's working tree, to link.
    pub(super) fn linkable(&self, path: &Path) -> Result<RunLink, SessionError> {
        self.linkable_in(self.repo.worktree(), path)
    }

    /// The same for a working tree of the user's, `root`.
    pub(super) fn linkable_in(&self, root: &Path, path: &Path) -> Result<RunLink, SessionError> {
        let failed = |source| SessionError::Io { action: "link", path: path.to_owned(), source };
        let root = root.canonicalize().map_err(failed)?;
        let full = absolute(path).map_err(failed)?;
        if fs::symlink_metadata(&full).is_err() {
            return Err(SessionError::NothingToLink(path.to_owned()));
        }
        // The path may be a link itself, to a disk for data.
        let folder = full.parent().unwrap_or(&full).canonicalize().map_err(failed)?;
        let real = folder.join(full.file_name().unwrap_or_default());
        match real.strip_prefix(&root) {
            Ok(name) if !name.as_os_str().is_empty() => {
                Ok(RunLink { target: real.clone(), name: name.to_owned(), is_writable: false })
            }
            _ => Err(SessionError::NotInWorktree { path: path.to_owned(), root }),
        }
    }

    /// The names at the root of the user's working tree that `root` lacks.
    pub(super) fn missing_in(&self, root: &Path) -> Vec<String> {
        let entries = fs::read_dir(self.repo.worktree()).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut missing: Vec<String> = names
            .filter(|name| name != ".git" && !is_own(Path::new(name)) && fs::symlink_metadata(root.join(name)).is_err())
            .collect();
        missing.sort();
        missing
    }
}

/// Marks a working tree as one of a command that runs, until the result is dropped: one that no process holds is left over. The
/// mark says whether the tree is temporary, one that the user named, or one with which the comparison of a pair goes on.
pub(super) fn hold(place: &Repo, mark: &str) -> Result<Option<File>, SessionError> {
    let folder = place.git_dir().join(REPRO_FOLDER);
    let path = folder.join(UNFINISHED);
    let held = fs::create_dir_all(&folder).and_then(|()| open_locked(&path));
    let marked = held.and_then(|held| fs::write(&path, mark).map(|()| held));
    marked.map(|held| held.map(|(file, _)| file)).map_err(|source| SessionError::Io { action: "make", path, source })
}

/// The folders of the own files of a run in a working tree, and of the hidden evaluator behind it.
pub(super) fn run_folders(place: &Repo) -> [PathBuf; 2] {
    let folder = real(&place.git_dir().join(REPRO_FOLDER));
    let evaluator = folder.join(RunRole::hidden_folder(&RunRole::Verify.folder(1)));
    [folder, evaluator]
}

pub(super) fn link(target: &Path, link: &Path) -> Result<(), SessionError> {
    let parent = link.parent().unwrap_or(Path::new("."));
    let made = fs::create_dir_all(parent).and_then(|()| symlink(target, link));
    made.map_err(|source| SessionError::Io { action: "link", path: link.to_owned(), source })
}
