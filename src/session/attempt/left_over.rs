//! What a job leaves: artifacts of kept runs, `run.log` in the root of the working tree, files to restore, processes, and
//! locks of its git.

use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use tokio::sync::oneshot;
use tokio::time::sleep;

use super::{MeasuredChange, RunningChange, metric_file_of};
use crate::domain::{Artifact, ArtifactsRun, ExperimentId, Notice, Record, RunRole, SizeLimit, Space, list};
use crate::exec::{Job, may_be_held};
use crate::fs::{free_name, retry_if_removed};
use crate::machine::OpenRun;
use crate::rules::{ArtifactGlobs, ExperimentArtifacts, History, artifacts_to_drop, too_little_space};
use crate::session::errors::SessionError;
use crate::session::files::is_own;
use crate::session::handlers::Workspace;
use crate::session::store::{AGENT, Interrupt, Notices, REVIEW, RUN, Store, job_names, job_place};
use crate::session::wait::SessionContext;
use crate::state::{
    BeforeRun, Matching, SessionFolder, SetAside, StateError, TakenArtifacts, artifacts_aside, forget_artifacts_of,
    further_runs,
};
use crate::{crash, exec};

/// Longest wait for a lock that a process may hold.
const LOCKS_PATIENCE: Duration = Duration::from_secs(30);

/// Poll interval during that wait.
const LOCKS_LOOK: Duration = Duration::from_millis(100);

/// Waits until the shim of an active job has restored the files by which it is found.
pub(crate) async fn await_files(shared: &SessionContext<'_>, id: ExperimentId, job: &str) {
    let (folder, name) = job_place(&shared.store().folder.run(id), job);
    shared.executor_of(job).await_files(&folder, name).await;
}

/// Ends what is left of an experiment's jobs, and waits until it is gone.
pub(crate) async fn end_jobs(shared: &SessionContext<'_>, id: ExperimentId) -> Result<(), SessionError> {
    end_further_runs(shared, id).await?;
    end_first_jobs(shared, id).await
}

/// Ends the further runs of an experiment.
pub(crate) async fn end_further_runs(shared: &SessionContext<'_>, id: ExperimentId) -> Result<(), SessionError> {
    let folder = shared.store().folder.run(id);
    for further in further_runs(&folder) {
        shared.runs.stop(&further, RUN).await?;
    }
    Ok(())
}

/// Ends an experiment's jobs, and lets its further runs continue.
pub(crate) async fn end_first_jobs(shared: &SessionContext<'_>, id: ExperimentId) -> Result<(), SessionError> {
    let folder = shared.store().folder.run(id);
    let guards = shared.store().contract.guards.len();
    let mut names: Vec<String> = job_names(guards).collect();
    // The shim of a job elsewhere may hold the folder's lock.
    names.sort_by_key(|name| Job::ticket_of(&folder, name).is_none());
    for name in names {
        shared.executor_of(&name).stop(&folder, &name).await?;
    }
    remove_left_locks(shared, id, AGENT).await
}

/// Ends the reviewer of a late review that was cut off, and removes the locks that it left behind.
pub(crate) async fn end_late_review(shared: &SessionContext<'_>) -> Result<(), SessionError> {
    let late = shared.store().journal.tree.reviewed();
    let Some(id) = late else { return Ok(()) };
    let folder = shared.store().folder.run(id);
    shared.local.stop(&folder, REVIEW).await?;
    remove_left_locks(shared, id, REVIEW).await
}

/// Removes the locks that a finished job left behind, and undoes forbidden changes. Returns how many rows it removed from
/// results.tsv.
pub(crate) async fn restore_after(
    shared: &SessionContext<'_>,
    id: ExperimentId,
    job: &str,
) -> Result<u32, SessionError> {
    let locks = remove_left_locks(shared, id, job).await;
    // Undoes forbidden changes even if a lock remains.
    let rows = shared.store().end_detection(id);
    locks.and(rows)
}

/// Removes the locks that git processes of a finished job left behind: they were made during the job, and no process can
/// hold them. Waits for a lock that a process may hold.
///
/// # Errors
///
/// A lock is still there after 30 s.
async fn remove_left_locks(shared: &SessionContext<'_>, id: ExperimentId, job: &str) -> Result<(), SessionError> {
    let (folder, name) = job_place(&shared.store().folder.run(id), job);
    // Locks made after the job's end belong to another process.
    let Some((started, over)) = Job::lifetime(&folder, name) else { return Ok(()) };
    let (begun, mut removed) = (Instant::now(), Vec::new());
    let folders = shared.store().repo.folders();
    loop {
        let is_held = |locks: &[PathBuf]| may_be_held(locks, &folders);
        let left = shared.store().repo.remove_left_locks(started, over, is_held)?;
        removed.extend(left.removed);
        let Some(lock) = left.held.first() else { break };
        if begun.elapsed() >= LOCKS_PATIENCE {
            return Err(shared.store().repo.locked(lock).into());
        }
        if matches!(shared.asked()?, Interrupt::Now | Interrupt::Detach) {
            break;
        }
        sleep(LOCKS_LOOK).await;
    }
    if removed.is_empty() {
        return Ok(());
    }
    let of = match job {
        AGENT => "agent",
        REVIEW => "reviewer",
        job if job == RUN || RunRole::is_folder(job) => "run",
        _ => "guard",
    };
    shared.emit(format!("removed locks left behind by a killed git of the {of}: {}", list(&removed)))
}

/// Maximum number of artifacts per run, because the record lists their names.
const MOST: usize = 1000;

/// Returns whether a disk has room for this many bytes and another experiment after them.
fn has_space(path: &Path, bytes: u64) -> bool {
    // If the free space is unknown, assume there is room.
    exec::disk_space(path).map_or(true, |space| {
        let free = space.free.checked_sub(bytes);
        space.total == 0 || free.is_some_and(|free| !too_little_space(Space { free, ..space }, 0))
    })
}

impl RunningChange {
    /// Returns whether its run leaves artifacts: the first one, and fresh runs that decide on the change. Those that repeat a
    /// measurement, and further ones of the baseline, leave none.
    fn leaves_artifacts(&self) -> bool {
        self.run.is_first() || matches!(self.run.role, RunRole::Confirm | RunRole::Trial)
    }

    /// Names its run as the one that left its artifacts.
    pub(crate) fn artifacts_run(&self) -> Option<ArtifactsRun> {
        Some(ArtifactsRun { role: self.run.role, seed: self.run.seed })
    }

    /// Saves the state of files that match the artifact globs before its run.
    pub(crate) fn note_before_run(&self, workspace: &Workspace, store: &Store) -> Result<(), SessionError> {
        let globs = ArtifactGlobs::of(&store.contract.artifacts)?;
        if !globs.is_empty() && self.leaves_artifacts() {
            BeforeRun::look(workspace.root(), &globs).store(&self.run_folder(store)?)?;
            crash::point("artifacts.noted");
        }
        Ok(())
    }

    /// Sets aside what its run, which is over, left as artifacts. `None` if the terminal went away meanwhile: then it is done
    /// when the session continues.
    pub(crate) async fn set_artifacts_aside(
        &self,
        workspace: &mut Workspace,
        shared: &SessionContext<'_>,
    ) -> Result<Option<Vec<Artifact>>, SessionError> {
        let aside = self.find_artifacts(workspace, &mut shared.store())?;
        let Some(aside) = aside else { return Ok(Some(Vec::new())) };
        if aside.moves {
            shared.store().note_activity();
        }
        let (folder, id) = (self.run_folder(&shared.store())?, self.id());
        let (over, mut taken) = oneshot::channel();
        // Copying a large file takes minutes, and other runs continue meanwhile.
        let take = move || over.send(aside.take(&folder)).is_ok();
        thread::Builder::new().spawn(take).map_err(SessionError::Watchdog)?;
        let mut listener = shared.interrupts.listen();
        let TakenArtifacts { artifacts, missed } = loop {
            tokio::select! {
                taken = &mut taken => break taken.unwrap_or_default(),
                () = listener.signal_or_look() => {}
            }
            shared.show_life()?;
            if shared.asked()? == Interrupt::Detach {
                return Ok(None);
            }
        };
        crash::point("artifacts.set_aside");
        if !missed.is_empty() {
            let name = |(path, error): (PathBuf, io::Error)| format!("{} ({error})", path.display());
            shared.store().note(Notice::ArtifactsMissed { id, files: missed.into_iter().map(name).collect() });
        }
        Ok(Some(artifacts))
    }

    /// Finds the artifacts that its run left. `None` if this kind of run leaves none, or if the state before the run is
    /// unknown.
    fn find_artifacts(&self, workspace: &Workspace, store: &mut Store) -> Result<Option<SetAside>, SessionError> {
        let id = self.id();
        if !self.leaves_artifacts() {
            return Ok(None);
        }
        // If that file is damaged, the experiment still counts.
        let before = BeforeRun::of(&self.run_folder(store)?).ok().flatten();
        let known = before.and_then(|before| Some((ArtifactGlobs::of(&before.globs).ok()?, before)));
        let Some((globs, before)) = known else {
            if !ArtifactGlobs::of(&store.contract.artifacts)?.is_empty() {
                store.note(Notice::ArtifactsUnknown(id));
            }
            return Ok(None);
        };
        let root = workspace.root();
        let Matching { files, odd } = Matching::below(root, &globs);
        if !odd.is_empty() {
            store.note_once(format!("skipped artifacts that are not regular files: {}", list(&odd)));
        }
        let changed = files.into_iter().filter(|(path, now)| !before.has_same(path, now)).map(|(path, _)| path);
        let (changed, unnamed): (Vec<_>, Vec<_>) = changed.partition(|path| path.to_str().is_some());
        if !unnamed.is_empty() {
            let name = |path: PathBuf| format!("{} (its name is not UTF-8)", path.display());
            store.note(Notice::ArtifactsMissed { id, files: unnamed.into_iter().map(name).collect() });
        }
        let mut files = Vec::new();
        for path in changed {
            if !is_own(&path)
                && !workspace.file_terms.is_named_protected(&path)
                && !workspace.repo.working_tree.is_tracked(&path)?
            {
                files.push(path);
            }
        }
        if files.len() > MOST {
            store.note(Notice::TooManyArtifacts { id, count: files.len(), most: MOST });
            files.clear();
        }
        let metric_file = metric_file_of(&store.contract);
        // A guard may read what the first run left.
        let has_guards = self.run.is_first() && !store.contract.guards.is_empty();
        let moves = workspace.owner.is_disposable() && !has_guards;
        Ok(Some(SetAside { root: root.to_owned(), files, moves, metric_file, has_space }))
    }
}

impl MeasuredChange {
    /// Gives its record the artifacts of the best of its fresh runs so far that left any, and removes those of the others.
    /// Without a fresh run, those of the first one stay.
    pub(crate) fn choose_artifacts(&mut self, store: &Store) -> Result<(), SessionError> {
        let Some(left) = store.journal.find(self.id()) else { return Ok(()) };
        let fresh = left.runs.iter().filter(|run| run.role != RunRole::Baseline);
        let mut runs: Vec<(OpenRun, f64)> =
            fresh.filter_map(|run| Some((run.clone(), run.result.as_ref()?.number.value))).collect();
        if runs.is_empty() {
            return Ok(());
        }
        let first_counts = self.draft.made.head.first_run_counts();
        runs.extend(left.first_run().cloned().filter(|_| first_counts).zip(self.draft.record.metric.value));
        let folder = |run: &OpenRun| self.with_run(run.clone()).run_folder(store);
        let mut best: Option<(&OpenRun, f64, Vec<Artifact>)> = None;
        for (run, value) in &runs {
            if best.as_ref().is_none_or(|(_, than, _)| store.contract.metric.direction.better(*value, *than))
                && let Some(artifacts) = artifacts_aside(&folder(run)?)
            {
                best = Some((run, *value, artifacts));
            }
        }
        // Files of an open run belong to no record yet.
        let is_open = |run: &&OpenRun| !run.is_first() && run.result.is_none();
        let stay = best.as_ref().map(|(run, ..)| *run).into_iter().chain(left.runs.iter().filter(is_open));
        let stay = stay.map(folder).collect::<Result<Vec<_>, _>>()?;
        for other in store.folder.all_runs(self.id()).filter(|folder| !stay.contains(folder)) {
            forget_artifacts_of(&other)?;
            crash::point("artifacts.worse_removed");
        }
        let (artifacts, run) = best.map(|(run, _, artifacts)| (artifacts, run)).unzip();
        let named = run.and_then(|run| self.with_run(run.clone()).artifacts_run());
        self.draft.record.give_artifacts(artifacts.unwrap_or_default(), named);
        Ok(())
    }
}

/// Gives a recorded experiment the artifacts of the attempt `from`, or deletes them if it was not kept. Then deletes
/// artifacts beyond `limit`. The caller reports a failure; the next opening of the session tries again.
pub(crate) fn settle_artifacts(
    folder: &SessionFolder,
    history: &History,
    limit: SizeLimit,
    (record, from): (&Record, ExperimentId),
) -> Result<(), StateError> {
    let settled = match record.proof.artifacts.is_empty() {
        true => folder.forget_artifacts(record.id).and_then(|()| folder.forget_artifacts(from)),
        false => folder.settle_artifacts(record.id, from).and_then(|()| limit_artifacts(folder, history, limit)),
    };
    crash::point("artifacts.settled");
    settled
}

/// Settles what an earlier process left of experiments that are not among the `open` ones any more, and keeps to the `limit`.
pub(crate) fn settle_left_artifacts(
    folder: &SessionFolder,
    history: &History,
    limit: SizeLimit,
    open: &[ExperimentId],
    notices: &mut Notices,
) {
    for id in folder.unsettled_artifacts().into_iter().filter(|id| !open.contains(id)) {
        let is_settled = folder.artifacts(id).is_dir() || folder.why_artifacts_dropped(id).is_some();
        let settled = match history.get(id).filter(|_| !is_settled) {
            Some(record) => settle_artifacts(folder, history, limit, (record, id)),
            None => folder.forget_artifacts(id),
        };
        notices.or_unsettled(id, settled);
    }
    if open.is_empty() {
        notices.or_unsettled(history.last_id(), limit_artifacts(folder, history, limit));
    }
}

/// Deletes artifacts that are more than the session may have.
fn limit_artifacts(folder: &SessionFolder, history: &History, limit: SizeLimit) -> Result<(), StateError> {
    let best = history.best().map(|(id, _)| id);
    let there = |record: &&Record| !record.proof.artifacts.is_empty() && folder.artifacts(record.id).is_dir();
    let all = history.records().iter().filter(there).map(|record| ExperimentArtifacts {
        id: record.id,
        bytes: record.proof.artifacts.iter().map(|artifact| artifact.bytes).sum(),
        is_best: Some(record.id) == best,
    });
    let all: Vec<ExperimentArtifacts> = all.collect();
    let why = |id| format!("deleted the artifacts of experiment {id} to stay within --keep-artifacts {limit}");
    artifacts_to_drop(&all, limit).into_iter().try_for_each(|id| folder.drop_artifacts(id, &why(id)))
}

/// Points `<root>/run.log` at `log`. Moves a file of the user to `run.log.before`, as the returned notice reports, or leaves it
/// alone if git tracks it.
pub(crate) fn point_run_log(
    root: &Path,
    tracked: bool,
    log: &Path,
    folder: &SessionFolder,
) -> Result<Option<Notice>, SessionError> {
    let link = root.join("run.log");
    if tracked {
        return Ok(None);
    }
    let mut notice = None;
    match fs::symlink_metadata(&link) {
        Ok(meta) if meta.is_symlink() && is_ours(&link) => {}
        Ok(_) => {
            let kept = free_name(&root.join("run.log.before"));
            fs::rename(&link, &kept).map_err(|source| SessionError::Io {
                action: "move",
                path: link.clone(),
                source,
            })?;
            notice = Some(format!("moved the existing run.log to {}", kept.display()).into());
        }
        Err(_) => {}
    }
    let target = log.strip_prefix(root).unwrap_or(log);
    let fresh = folder.root().join("run.log.link");
    let point = |fresh: &Path| {
        crate::session::files::remove_file(fresh).map_err(io::Error::other)?;
        crash::point("running.log_unlinked");
        symlink(target, fresh)?;
        fs::rename(fresh, &link)
    };
    let pointed = match retry_if_removed(&fresh, || point(&fresh)) {
        // The session's folder is on another file system. Git ignores a file of this name too.
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            point(&root.join("run.log.before-link")).and_then(|()| fs::remove_file(&fresh))
        }
        pointed => pointed,
    };
    pointed.map_err(|source| SessionError::Io { action: "link", path: link.clone(), source })?;
    Ok(notice)
}

/// Returns whether a link leads to a log in one of `ar`'s run folders.
fn is_ours(link: &Path) -> bool {
    fs::read_link(link).is_ok_and(|target| {
        target.file_name().is_some_and(|name| name == "run.log")
            && target.components().any(|part| part.as_os_str() == ".autoresearch")
    })
}
