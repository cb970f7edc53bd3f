//! The facts about a session that a patrol reads: journal, contract and locks, but no experiments.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use crate::domain::{Contract, Phase, Tag, report_clause};
use crate::exec::{Executor, boot_id};
use crate::git::{Head, Repo};
use crate::rules::{Driver, OtherHost, Watched};
use crate::session::{SessionError, has_user_commits, journal_of_remains, opened_elsewhere};
use crate::state::{EscalationFiles, Journal, SessionFolder};

/// A session on a patrol.
pub(super) struct Seen {
    /// The facts to decide by.
    pub(super) watched: Watched,
    /// Its folder.
    pub(super) folder: SessionFolder,
    /// The working tree that it is active in.
    pub(super) worktree: PathBuf,
    /// The command that a nudge calls.
    pub(super) nudge: Option<String>,
    /// Its journal.
    pub(super) journal: Journal,
}

/// Looks at a session; `None` where it has no contract, or no journal while a process holds it, as one that is only being
/// opened. A journal that was lost is rebuilt in memory. `nudge` is the command that was given for nudges.
pub(super) fn look(
    repository: &Path,
    tag: &Tag,
    nudge: Option<&str>,
    now: Timestamp,
) -> Result<Option<Seen>, SessionError> {
    let repo = Repo::discover(repository)?;
    let folder = SessionFolder::new(repository, tag);
    let (journal, Some(contract)) = (folder.journal()?, folder.contract()?) else { return Ok(None) };
    let owner = folder.owner(repo.git_dir())?;
    let is_lost = journal.is_none();
    let journal = match journal {
        Some(journal) => journal,
        None if owner.is_some() => return Ok(None),
        None => journal_of_remains(&repo, &folder, &contract, now)?,
    };
    let presence = &journal.presence;
    let driver = presence.driver().unwrap_or(Driver::Loop);
    // A session that is driven by hand has an agent that `ar` does not know.
    let own_agent = contract.agent.as_deref().filter(|_| driver == Driver::Loop);
    let nudge = nudge.or(own_agent).map(str::to_owned);
    let begun = journal.open_attempts().map(|open| open.started).max();
    let held_since = owner.as_ref().and_then(|owner| owner.since).filter(|since| *since <= now);
    let same_boot = presence.is_of_boot(boot_id().as_deref());
    let elsewhere = opened_elsewhere(&folder, presence);
    let taken = |other: &OtherHost| {
        let host = &other.host;
        format!(
            "it is not restarted from here; only if nothing of it runs on {host} any more, run `ar resume {tag} --take-over`"
        )
    };
    let watched = Watched {
        now,
        held: owner.is_some(),
        // A shutdown terminates all processes first. On the same boot it was a person, and another host has its own guard.
        stopped: presence.is_stopped() && (same_boot || elsewhere.is_some() || !presence.was_terminated()),
        driver,
        last_seen: presence.last_seen(),
        interval: presence.expected_within(),
        same_boot,
        asks: journal.calls.last().question.is_some(),
        paused_until: journal.pauses.end(journal.calls.iteration()),
        progress: journal.results.progressed(),
        since: begun
            .unwrap_or_else(|| journal.results.progressed().unwrap_or(presence.last_seen()))
            .max(held_since.unwrap_or_default()),
        patience: patience(&folder, &journal, &contract),
        escalated: escalated(&folder, &journal).or_else(|| unknown_end(&journal, tag, is_lost)),
        displaced: elsewhere.as_ref().map(taken).or_else(|| displaced(&journal, tag)),
        elsewhere,
        waits: waits(&journal),
        can_nudge: nudge.is_some(),
    };
    let tree = journal.tree.worktree();
    let worktree = if tree.is_dir() { tree.to_owned() } else { repository.to_owned() };
    Ok(Some(Seen { watched, folder, worktree, nudge, journal }))
}

/// Returns whether the loop waits for an answer about a problem that it could not solve. It does not wait if it made progress
/// since.
fn waits(journal: &Journal) -> bool {
    journal.escalation.open().is_some_and(|open| journal.results.are_none_since(open.since))
}

/// Describes the session's last report to the user in a clause, with the path of the report.
fn escalated(folder: &SessionFolder, journal: &Journal) -> Option<String> {
    let report = EscalationFiles::of(folder).report();
    match journal.escalation.last().filter(|open| open.waits || report.is_some()) {
        Some(open) => Some(open.clause(report.as_deref())),
        None => report.map(|path| report_clause(Some(&path))),
    }
}

/// Explains why nobody knows whether the session was stopped, and names the commands that settle it.
fn unknown_end(journal: &Journal, tag: &Tag, is_lost: bool) -> Option<String> {
    let repair = if is_lost { format!("`ar doctor {tag} --repair` and ") } else { String::new() };
    journal.presence.is_end_unknown().then(|| {
        format!(
            "its journal and its log were lost, so nothing says whether it was stopped; run `ar resume {tag}` to continue, \
             or {repair}`ar stop {tag}` to leave it"
        )
    })
}

/// Explains why a loop in place cannot continue: its working tree is missing, is on another branch, or has commits of the
/// user.
fn displaced(journal: &Journal, tag: &Tag) -> Option<String> {
    let tree = journal.users_tree()?;
    if !tree.is_dir() {
        let tree = tree.display();
        return Some(format!("its working tree {tree} is gone; run `ar resume {tag}` where it is to go on"));
    }
    let repo = Repo::discover(tree).ok()?;
    if has_user_commits(&repo, tag, journal) {
        let ways =
            "run `ar run` there to begin the next session with them, or `ar run --adopt` to measure them in this one";
        return Some(format!("your commits are on its branch {}; {ways}", tag.branch()));
    }
    // If HEAD cannot be read, the code that needs it reports that.
    let Ok(Head::Branch { name, .. }) = repo.refs.head() else { return None };
    let short = name.strip_prefix("refs/heads/").unwrap_or(&name);
    // An agent may switch branches in its call.
    let is_own = name == tag.branch_ref() || journal.phase() == Phase::Proposing;
    (!is_own).then(|| format!("{} is on the branch {short} now; run `ar resume {tag}` there to go on", tree.display()))
}

/// Returns the time limit of the active job that may take longest, with its grace period; zero if no job is active.
fn patience(folder: &SessionFolder, journal: &Journal, contract: &Contract) -> Duration {
    let runs = Executor::of_any();
    let mut with_jobs = journal.steps().filter(|(_, open)| runs.has_job(&folder.run(open.id))).peekable();
    if with_jobs.peek().is_some() && with_jobs.all(|(_, open)| runs.has_pending(&folder.run(open.id))) {
        // The queue of a cluster takes as long as it takes.
        return Duration::MAX;
    }
    let going = journal.steps().filter(|(_, open)| runs.has_job(&folder.run(open.id)));
    let limit = |phase| if phase == Phase::Proposing { contract.agent_timeout } else { contract.timeout };
    going.map(|(phase, _)| limit(phase).saturating_add(contract.grace)).max().unwrap_or_default()
}
