//! Rerunning an experiment beside the session: in a working tree of its own, without a trace in the session's files and
//! refs.

use std::fs;
use std::path::{Path, PathBuf};

use super::run_beside::{RunBeside, hold};
use crate::domain::{EnvironmentChange, Failure, FailureClass, GpuOther, Number, Record, RunRole};
use crate::exec::{self, Executor, Exit};
use crate::git::{HeadTarget, Repo};
use crate::rules::{CameBack, came_back, environment_differences, failed_again, repeat_limit, tainting};
use crate::session::attempt::FinishedRun;
use crate::session::errors::SessionError;
use crate::session::files::{REPRO_FOLDER, UNFINISHED};
use crate::session::store::{Interrupts, watch_programs_until};
use crate::session::view::SessionView;

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
            return Err(SessionError::NeverRan { id: record.id, why: record.reason.clone() });
        }
        let links = rerun.links.iter().map(|link| self.linkable(link)).collect::<Result<Vec<_>, _>>()?;
        let cluster = self.layout().and_then(|layout| layout.cluster).filter(|_| !rerun.here);
        let executor = Executor::for_runs(cluster.as_ref());
        let dir = match &rerun.worktree {
            Some(dir) => dir.clone(),
            None => self.folder_beside(cluster.as_ref(), &format!("ar-{}-{}-", self.tag, record.id))?.keep(),
        };
        watch_programs_until(&self.repo, interrupts)?;
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
        let run = RunBeside { seed, links: &links, ..RunBeside::of(contract, record, RunRole::Repro, &executor) };
        let unfinished = place.git_dir().join(REPRO_FOLDER).join(UNFINISHED);
        let (ran, _held) = match hold(&place) {
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
        (record, run): (&Record, RunBeside<'_>),
        interrupts: &Interrupts,
        publish: &mut dyn FnMut(&Rerunning<'_>),
    ) -> Result<Option<Reproduced>, SessionError> {
        let (_, recorded) = record.to_repeat();
        let finished = run.finish(self, place, interrupts, publish).await?;
        let Some(finished) = finished else { return Ok(None) };
        let (ended, FinishedRun { verdict, exit, .. }) = (finished.ended(), finished);
        let here = exec::environment(place.worktree());
        let changes = environment_differences(record, record.id, &here);
        let numbers = verdict.value.as_ref().filter(|_| verdict.failure.is_none()).zip(recorded);
        let limit = repeat_limit(&self.history, &self.elsewhere());
        Ok(Some(Reproduced {
            came_back: match numbers {
                Some((measured, recorded)) => Some(came_back(record.metric.direction, &recorded, measured, limit)),
                None => {
                    // A baseline that had nothing to measure yet.
                    let empty = Failure::new(FailureClass::Nan, "");
                    let recorded = record.failure.as_ref().or(record.metric.value.is_none().then_some(&empty));
                    failed_again(recorded, verdict.failure.as_ref())
                }
            },
            changes,
            host: here.host,
            gpu_others: self.tainting(&exit, verdict.failure.as_ref()),
            measured: verdict.value,
            failure: verdict.failure,
            seconds: exit.seconds,
            ended,
            kept: None,
            log: None,
        }))
    }

    /// The other processes on the GPUs of a rerun that were not there when the baseline was measured.
    pub(super) fn tainting(&self, exit: &Exit, failure: Option<&Failure>) -> Vec<GpuOther> {
        let known = self.history.baseline().map_or(&[][..], |baseline| &baseline.gpu_others);
        tainting(exit.gpu_others.clone(), known, failure.map(|failure| failure.class))
    }
}
