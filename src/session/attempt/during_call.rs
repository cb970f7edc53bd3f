//! What an agent does during its call besides its answer: commits of its own, trainings, and rounds up to the limits of the
//! call.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use crate::agent::{Progress, printed_numbers};
use crate::domain::{CommitId, Notice, Record};
use crate::exec::{Exit, Running};
use crate::fs::{FileStamp, read_at_most};
use crate::git::Repo;
use crate::machine::Save;
use crate::rules::History;
use crate::session::errors::SessionError;
use crate::session::handlers::{LARGEST_COPY, Workspace};
use crate::session::store::{Interrupt, Store};
use crate::session::wait::{Exited, SessionContext, WaitEnd, Waiter};

/// Maximum number of commits examined per call.
const MOST: usize = 100;

/// The agent's own commits during one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AgentCommits {
    /// The number of commits that it made.
    pub(crate) made: u32,
    /// True if it had reset its change, which is now back in the working tree.
    pub(crate) reset: bool,
}

impl Workspace {
    /// Looks at the commits that were `made` in a call. If the agent reset its work (some prompts tell it to), restores its last
    /// commit for measuring. Keeps other commits that it reset under saved refs.
    pub(crate) fn look_after_commits(
        &mut self,
        store: &mut Store,
        base: &CommitId,
        reworked: Option<&Record>,
        mut made: Vec<CommitId>,
    ) -> Result<AgentCommits, SessionError> {
        let tip = self.reclaim_head(store, base)?;
        self.unstage(base)?;
        let standing = commits_between(&store.repo, base, tip)?;
        made.drain(..made.len().saturating_sub(MOST));
        let mut trees = vec![store.repo.objects.tree_of(base)?];
        for commit in &standing {
            trees.push(store.repo.objects.tree_of(commit)?);
        }
        let mut reset = Vec::new();
        for commit in made {
            let tree = store.repo.objects.tree_of(&commit)?;
            if !trees.contains(&tree) {
                trees.push(tree);
                reset.push(commit);
            }
        }
        let made = u32::try_from(standing.len() + reset.len()).unwrap_or(u32::MAX);
        let is_to_be_brought_back = standing.is_empty() && reworked.is_none();
        let back = if is_to_be_brought_back { self.bring_back(store, base, &reset)? } else { None };
        reset.retain(|commit| Some(commit) != back.as_ref());
        for commit in &reset {
            let subject = format!("reset by the agent: {}", store.repo.objects.subject(commit)?);
            store.save(&Save::described(commit, subject))?;
        }
        if !reset.is_empty() {
            store.note(Notice::ResetCommitsSaved { count: reset.len(), prefix: store.contract.tag.ref_prefix() });
        }
        Ok(AgentCommits { made, reset: back.is_some() })
    }

    /// If the call left no other work, restores the last reset commit whose parent is the base. Returns that commit.
    fn bring_back(
        &mut self,
        store: &mut Store,
        base: &CommitId,
        reset: &[CommitId],
    ) -> Result<Option<CommitId>, SessionError> {
        let mut last = None;
        for commit in reset {
            if store.repo.objects.parents(commit)? == [base.clone()] {
                last = Some(commit.clone());
            }
        }
        let Some(commit) = last else { return Ok(None) };
        if self.has_worked(store, base, None)? {
            return Ok(None);
        }
        self.move_head(store, &commit, &[base], "reset by the agent")?;
        self.restore(store, &commit, base)?;
        self.unstage(base)?;
        store.note(format!("restored commit {}, which the agent had reset, to measure it", commit.short(8)));
        Ok(Some(commit))
    }
}

/// The commits from the base to `tip`; none where `tip` was not made on it.
fn commits_between(repo: &Repo, base: &CommitId, tip: CommitId) -> Result<Vec<CommitId>, SessionError> {
    let (mut commit, mut between) = (tip, Vec::new());
    while commit != *base && between.len() < MOST {
        let parent = repo.objects.parents(&commit)?.into_iter().next();
        between.push(std::mem::replace(
            &mut commit,
            match parent {
                Some(parent) => parent,
                None => return Ok(Vec::new()),
            },
        ));
    }
    Ok(between)
}

/// `run.log` in the tree of a call, as it was before the call.
pub(crate) struct RunLogBefore {
    path: PathBuf,
    stamp: Option<FileStamp>,
}

impl RunLogBefore {
    pub(crate) fn of(tree: &Path) -> Self {
        let path = tree.join("run.log");
        let stamp = stamp_of(&path);
        RunLogBefore { path, stamp }
    }

    /// Returns whether a log exists that is new or changed since the call began, or `copied`, which the call saw instead, is
    /// another one.
    pub(crate) fn is_rewritten(&self, copied: &Path) -> bool {
        let read = |path: &Path| read_at_most(path, LARGEST_COPY).ok();
        stamp_of(&self.path).is_some_and(|now| self.stamp != Some(now))
            || (copied.is_file() && read(copied) != read(&self.path))
    }
}

/// The state of the file to which the path leads.
fn stamp_of(path: &Path) -> Option<FileStamp> {
    FileStamp::of(&path.canonicalize().ok()?)
}

/// The signs that the agent ran the training itself: it rewrote `run.log`, or its output in `log` after byte `from` has a number
/// of the metric that no run gave. Returns also how long the last run took, in seconds.
pub(crate) fn own_training(
    history: &History,
    metric: &str,
    rewrote_log: bool,
    (log, from): (&Path, u64),
) -> Option<(String, f64)> {
    let records = history.records();
    let is_known = |value: f64| records.iter().any(|record| record.metric.value == Some(value));
    let printed = printed_numbers(log, from, metric).into_iter().rfind(|number| !is_known(number.value));
    let mut signs: Vec<String> = printed.map(|number| format!("it printed {metric} {number:#}")).into_iter().collect();
    signs.extend(rewrote_log.then(|| "it rewrote run.log".to_owned()));
    let run = records.iter().rev().find(|record| !record.runs.is_empty()).map_or(0.0, |record| record.run_seconds());
    (!signs.is_empty()).then(|| (signs.join(", "), run))
}

/// The time that an agent has to exit after its last result, if it prints nothing more.
const LINGERING: Duration = Duration::from_secs(30);

/// The reason that a call was ended before its agent exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallCut {
    /// Its agent began more rounds than it may.
    Rounds,
    /// Its agent printed its last result and did not exit.
    Lingering,
}

/// Waits for an agent whose output stands in `log` from byte `from` on. Ends it once it begins more rounds than `rounds`, or
/// lingers after its last result, which is then an exit by itself. Returns also why it was ended.
pub(super) async fn wait_for_agent(
    shared: &SessionContext<'_>,
    job: &mut Running,
    (log, from): (&Path, u64),
    rounds: Option<u32>,
) -> Result<(WaitEnd<Exited>, Option<CallCut>), SessionError> {
    let mut progress = Progress::of(log, from);
    let (mut cut, mut since) = (None, None);
    let tick = || {
        if let Some(progress) = progress.as_mut().filter(|_| cut.is_none()) {
            let has_more = progress.read();
            let is_over = rounds.is_some_and(|limit| progress.rounds() > limit);
            let lingers = lingers(&mut since, has_more, progress.is_complete(), Instant::now());
            cut = is_over.then_some(CallCut::Rounds).or(lingers.then_some(CallCut::Lingering));
        }
        Ok(if cut.is_some() { Interrupt::Now } else { Interrupt::None })
    };
    let ended = shared.wait(job, None, tick).await?;
    Ok(match (ended, cut) {
        (WaitEnd::Interrupted, Some(cut)) if shared.asked()? < Interrupt::Detach => {
            let exited = job.wait().await;
            let done = |exit: Exit| match cut {
                CallCut::Lingering => Exit { exit: Some(0), signal: None, timed_out: false, ..exit },
                CallCut::Rounds => exit,
            };
            (WaitEnd::Done(exited.map(done)), Some(cut))
        }
        (ended, _) => (ended, None),
    })
}

/// Returns whether an agent has printed nothing for a while after its last result, which it has printed if the output
/// `is_complete`; `since` is when it was first seen so.
fn lingers(since: &mut Option<Instant>, has_more: bool, is_complete: bool, now: Instant) -> bool {
    if has_more || !is_complete {
        *since = None;
    }
    is_complete && now.duration_since(*since.get_or_insert(now)) >= LINGERING
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_lingers_after_30_s_without_more_output() {
        let (began, mut since) = (Instant::now(), None);
        let mut lingers =
            |at, has_more, is_complete| lingers(&mut since, has_more, is_complete, began + Duration::from_secs(at));
        assert!(!lingers(0, true, false) && !lingers(100, false, false), "it works");
        assert!(!lingers(101, true, true) && !lingers(130, false, true));
        assert!(!lingers(131, true, true) && !lingers(160, false, true), "it printed more");
        assert!(lingers(161, false, true));
        assert!(!lingers(162, true, false) && !lingers(163, true, true) && !lingers(192, false, true));
        assert!(lingers(193, false, true));
    }
}
