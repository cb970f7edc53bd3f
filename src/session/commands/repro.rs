//! Rerunning an experiment beside the session: in a working tree of its own, without a trace in the session's files and
//! refs.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::domain::{CommitId, Contract, EnvironmentChange, Failure, FailureClass, Number, Record, RunRole};
use crate::exec::{self, ExecError, Executor};
use crate::fs::open_locked;
use crate::git::{HeadTarget, Repo};
use crate::rules::{
    CameBack, FileTerms, JobPlaces, Wall, WalledRole, came_back, environment_differences, failed_again,
    protected_mounts, spread,
};
use crate::session::attempt::{FinishedRun, MeasuringRun, metric_file_stamp};
use crate::session::errors::SessionError;
use crate::session::store::{Interrupt, Interrupts, Walls, own_names, watch_programs_until, writes_log};
use crate::session::tree::{REPRO_FOLDER, UNFINISHED};
use crate::session::view::SessionView;
use crate::session::wait::Ending;

/// Names at the root of a working tree that belong to git or this program.
const OWN: [&str; 5] = [".git", ".autoresearch", "results.tsv", "run.log", "autoresearch-lessons.md"];

/// The options for rerunning an experiment.
#[derive(Debug, Clone, Default)]
pub struct Rerun {
    /// The working tree to make and retain. By default a temporary folder, which is removed if the value was reproduced.
    pub worktree: Option<PathBuf>,
    /// Untracked files and folders of the user's working tree to link into the new one.
    pub links: Vec<PathBuf>,
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
            return Err(SessionError::NeverRan { id: record.id, why: record.reason.clone() });
        }
        let links = rerun.links.iter().map(|link| self.linkable(link)).collect::<Result<Vec<_>, _>>()?;
        let dir = match &rerun.worktree {
            Some(dir) => dir.clone(),
            None => {
                let failed = |source| SessionError::Io { action: "make", path: std::env::temp_dir(), source };
                let name = format!("ar-{}-{}-", self.tag, record.id);
                tempfile::Builder::new().prefix(&name).tempdir().map_err(failed)?.keep()
            }
        };
        watch_programs_until(&self.repo, interrupts)?;
        let made = self.repo.add_worktree(&dir, &HeadTarget::Detached(record.commit.clone()));
        if made.is_err() && rerun.worktree.is_none() {
            // It is empty, and may be missing.
            let _ = fs::remove_dir(&dir);
        }
        let place = made?;
        let unfinished = place.git_dir().join(REPRO_FOLDER).join(UNFINISHED);
        let (ran, _held) = match hold(&unfinished) {
            Ok(held) => (self.run_in(&place, contract, record, &links, interrupts, publish).await, held),
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
        contract: &Contract,
        record: &Record,
        links: &[(PathBuf, PathBuf)],
        interrupts: &Interrupts,
        publish: &mut dyn FnMut(&Rerunning<'_>),
    ) -> Result<Option<Reproduced>, SessionError> {
        let (seed, recorded) = record.to_repeat();
        let told = (RunRole::Repro, seed);
        let finished = self.finish_run_in(place, contract, record, told, links, interrupts, publish).await?;
        let Some(finished) = finished else { return Ok(None) };
        let (ended, FinishedRun { verdict, exit, .. }) = (finished.ended(), finished);
        let here = exec::environment(place.worktree());
        let changes = environment_differences(record, record.id, &here);
        let numbers = verdict.value.as_ref().filter(|_| verdict.failure.is_none()).zip(recorded);
        let spread = spread(self.history.records(), &self.elsewhere());
        Ok(Some(Reproduced {
            came_back: match numbers {
                Some((measured, recorded)) => {
                    Some(came_back(record.metric.direction, &recorded, measured, spread.as_ref()))
                }
                None => {
                    // A baseline that had nothing to measure yet.
                    let empty = Failure { class: FailureClass::Nan, excerpt: String::new() };
                    let recorded = record.failure.as_ref().or(record.metric.value.is_none().then_some(&empty));
                    failed_again(recorded, verdict.failure.as_ref())
                }
            },
            changes,
            host: here.host,
            measured: verdict.value,
            failure: verdict.failure,
            seconds: exit.seconds,
            ended,
            kept: None,
            log: None,
        }))
    }

    /// Makes a run of an experiment beside the session in a working tree at its commit, and waits for it. `None` after an
    /// interrupt.
    #[expect(
        clippy::too_many_arguments,
        reason = "a run has a place, terms, a role with its seed, and somebody who waits"
    )]
    pub(super) async fn finish_run_in(
        &self,
        place: &Repo,
        contract: &Contract,
        record: &Record,
        (role, seed): (RunRole, Option<u64>),
        links: &[(PathBuf, PathBuf)],
        interrupts: &Interrupts,
        publish: &mut dyn FnMut(&Rerunning<'_>),
    ) -> Result<Option<FinishedRun>, SessionError> {
        let root = place.worktree();
        let folder = place.git_dir().join(REPRO_FOLDER);
        let log = folder.join("run.log");
        for (from, name) in links {
            let there = root.join(name);
            if fs::symlink_metadata(&there).is_ok() {
                return Err(SessionError::LinkedAlready(name.clone()));
            }
            link(from, &there)?;
        }
        if !place.working_tree.is_tracked(Path::new("run.log"))? {
            // The output of a command that redirects it there is read, too.
            link(&log, &root.join("run.log"))?;
        }
        let command = record.runs.last().map_or(contract.command.as_str(), |run| run.command.as_str());
        let wall = self.wall_of_rerun(place, contract, command, &record.commit, links)?;
        let run = MeasuringRun {
            role,
            seed,
            contract,
            command,
            id: record.id,
            commit: record.commit.clone(),
            state: self.folder.state(),
            folder,
            root,
            variables: &[],
            metric_before: metric_file_stamp(contract, root),
            wall,
        };
        publish(&Rerunning { dir: root, command, missing: self.missing_in(root) });
        match run.start(&Executor::for_runs())?.measured(interrupts, contract).await? {
            Ending::Done(finished) => Ok(Some(finished)),
            Ending::Lost if interrupts.asked() == Interrupt::None => {
                let (command, detail) = (command.to_owned(), "died".to_owned());
                Err(ExecError::Lost { command, detail, killed: 0 }.into())
            }
            _ => Ok(None),
        }
    }

    /// The wall of a run in `place`, if one can be built. A run of another commit protects what the commit's tracked files of
    /// that name are.
    fn wall_of_rerun(
        &self,
        place: &Repo,
        contract: &Contract,
        command: &str,
        commit: &CommitId,
        links: &[(PathBuf, PathBuf)],
    ) -> Result<Option<Wall>, SessionError> {
        let (walls, _) = Walls::tried(contract.sandbox, &self.repo, place.worktree())?;
        let terms = FileTerms::of(contract)?;
        let all = place.objects.files_at(commit, |_| true)?;
        let protected: Vec<PathBuf> = all.iter().filter(|path| terms.protects(path)).cloned().collect();
        let folder = place.git_dir().join(REPRO_FOLDER);
        let places = JobPlaces {
            own: own_names(&folder, 0, writes_log(place.worktree(), command)),
            protected: protected_mounts(&protected, &all),
            links: links.iter().map(|(target, _)| (target.clone(), false)).collect(),
            ..JobPlaces::default()
        };
        Ok(walls.of_job(place.worktree(), &folder, places, &WalledRole::Run))
    }

    /// The target of a path to link, and its path in the working tree.
    pub(super) fn linkable(&self, path: &Path) -> Result<(PathBuf, PathBuf), SessionError> {
        let failed = |source| SessionError::Io { action: "link", path: path.to_owned(), source };
        let root = self.repo.worktree().canonicalize().map_err(failed)?;
        let full = std::path::absolute(path).map_err(failed)?;
        if fs::symlink_metadata(&full).is_err() {
            return Err(SessionError::NothingToLink(path.to_owned()));
        }
        // The path may be a link itself, to a disk for data.
        let folder = full.parent().unwrap_or(&full).canonicalize().map_err(failed)?;
        let real = folder.join(full.file_name().unwrap_or_default());
        match real.strip_prefix(&root) {
            Ok(name) if !name.as_os_str().is_empty() => Ok((real.clone(), name.to_owned())),
            _ => Err(SessionError::NotInWorktree { path: path.to_owned(), root }),
        }
    }

    /// The names at the root of the user's working tree that `root` lacks.
    fn missing_in(&self, root: &Path) -> Vec<String> {
        let entries = fs::read_dir(self.repo.worktree()).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let is_own = |name: &String| OWN.contains(&name.as_str());
        let mut missing: Vec<String> =
            names.filter(|name| !is_own(name) && fs::symlink_metadata(root.join(name)).is_err()).collect();
        missing.sort();
        missing
    }
}

/// Creates the file that marks this command as running, until it is dropped.
fn hold(path: &Path) -> Result<Option<File>, SessionError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let held = fs::create_dir_all(folder).and_then(|()| open_locked(path));
    held.map(|held| held.map(|(file, _)| file)).map_err(|source| SessionError::Io {
        action: "make",
        path: path.to_owned(),
        source,
    })
}

fn link(target: &Path, link: &Path) -> Result<(), SessionError> {
    let parent = link.parent().unwrap_or(Path::new("."));
    let made = fs::create_dir_all(parent).and_then(|()| symlink(target, link));
    made.map_err(|source| SessionError::Io { action: "link", path: link.to_owned(), source })
}
