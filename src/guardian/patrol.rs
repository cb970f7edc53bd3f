//! One patrol: find the sessions, read the facts about each, decide, act, and leave a beat. Restarted loops and nudged
//! drivers continue without the patrol.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::{ensure_resident, log_to, not_started, own_program, own_variables, without_own_variables};
use crate::domain::{
    Clock, Contract, DEFAULT_GRACE, ErrorKind, FORMAT_VERSION, Phase, Tag, UserError, cut, exact_time, refuse,
    report_clause, with_causes,
};
use crate::exec::{Executor, Job, boot_id, in_own_session};
use crate::fs::{create_folder, failed, is_disk_full, lock_within, read_regular, read_tail, write_atomic};
use crate::git::{Head, Repo};
use crate::measure::plain_text;
use crate::rules::{GuardianAction, Health, OtherHost, PatrolFacts, PatrolVerdict, SessionDriver, Thresholds, patrol};
use crate::session::{
    SessionError, has_user_commits, journal_of_remains, opened_elsewhere, read_history, session_tags,
};
use crate::state::{
    EscalationFiles, GuardianFiles, GuardianLine, Journal, Register, Registered, SessionFolder, guardian_folder,
    user_folder,
};

/// Time that a patrol waits for another one, which may have to terminate a hanging agent.
const TURN: Duration = Duration::from_secs(60);

/// The outcome of a patrol for one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patrolled {
    /// The main worktree of its repository.
    pub repository: PathBuf,
    /// The session.
    pub tag: Tag,
    /// Its state, and what was done.
    pub verdict: PatrolVerdict,
}

/// The outcome of a patrol.
#[derive(Debug)]
pub struct PatrolReport {
    /// The sessions, in the order in which they were looked at.
    pub sessions: Vec<Patrolled>,
    /// Success if the resident guard runs or none is wanted; otherwise the reason.
    pub resident: Result<(), UserError>,
    /// Success if the patrol could write its record; otherwise the reason, such as a full disk. On failure, it did nothing
    /// that it had to record first.
    pub noted: Result<(), SessionError>,
}

/// A patrol that can be made.
#[derive(Debug, Clone)]
pub struct Patrol {
    /// The user's folder.
    pub user: PathBuf,
    /// When a session is stalled or stuck.
    pub thresholds: Thresholds,
    /// The command of nudges; the loop's own agent where absent, and nobody for sessions driven by hand.
    pub nudge: Option<String>,
    /// The time of day.
    pub clock: Clock,
}

impl Patrol {
    /// Patrols the sessions of the repositories at `paths`, or without any all that are registered. Then starts the resident
    /// guard again, if one is wanted and gone.
    ///
    /// # Errors
    ///
    /// Another patrol does not end, a path is in no repository, or the guardians' own files cannot be written, but for lack of
    /// room. What is wrong with one session stands in its verdict.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with I/O enabled.
    pub async fn make(&self, paths: &[PathBuf]) -> Result<PatrolReport, SessionError> {
        let folder = guardian_folder(&self.user);
        let begun = create_folder(&folder).map_err(SessionError::from);
        let (_turn, no_room) = match begun.and_then(|()| take_turn(&folder)) {
            Ok(turn) => (Some(turn), None),
            // Without a turn nothing is done that another patrol might do as well.
            Err(error) if is_disk_full(&error) => (None, Some(error)),
            Err(error) => return Err(error),
        };
        let can_act = no_room.is_none();
        let sessions = if paths.is_empty() { all_sessions(&self.user)? } else { sessions_at(paths)? };
        let mut patrolled = Vec::new();
        for (repository, tag) in sessions {
            if let Some(verdict) = self.see_to(&repository, &tag, can_act).await {
                patrolled.push(Patrolled { repository, tag, verdict });
            }
        }
        let resident = if can_act { ensure_resident().map(drop) } else { Ok(()) };
        // The beat is the last act: whoever reads it knows that the rest was done.
        let beat = json!({"version": FORMAT_VERSION, "at": exact_time(self.clock.now())});
        // On one line, for shell scripts.
        let noted = match no_room {
            Some(error) => Err(error),
            None => {
                write_atomic(&folder.join("patrol.json"), format!("{beat}\n").as_bytes()).map_err(SessionError::from)
            }
        };
        match noted {
            Err(error) if !is_disk_full(&error) => Err(error),
            noted => Ok(PatrolReport { sessions: patrolled, resident, noted }),
        }
    }

    /// Looks at one session and does what is to be done; `None` for one that is only being opened.
    async fn see_to(&self, repository: &Path, tag: &Tag, can_act: bool) -> Option<PatrolVerdict> {
        let now = self.clock.now();
        let seen = match look(repository, tag, self.nudge.as_deref(), now) {
            Ok(Some(seen)) => seen,
            Ok(None) => return None,
            Err(error) => return Some(stuck(format!("cannot be read: {}; run `ar doctor`", with_causes(&error)))),
        };
        let files = GuardianFiles::new(&self.user, repository, tag);
        let unnoted = |why: &str| format!("the guard's own files: {why}; remove what is named there");
        let before = match files.memory() {
            Ok(memory) => memory,
            Err(error) => return Some(stuck(unnoted(&with_causes(&error)))),
        };
        let mut memory = before.clone();
        let mut verdict = patrol(&seen.watched, self.thresholds, &mut memory);
        if verdict.state == Health::Dead
            && !before.deaths.is_empty()
            && let Some(said) = said_by_resume(&files)
        {
            verdict.detail += &format!("; the last restart said: {said}");
        }
        let remembered = match memory != before {
            true if !can_act => Err(None),
            true => files.remember(&memory, line(&verdict, now).as_ref()).map_err(Some),
            false => Ok(()),
        };
        match remembered {
            Ok(()) => {}
            Err(Some(error)) if !is_disk_full(&error) => return Some(stuck(unnoted(&with_causes(&error)))),
            Err(_) => return Some(without_room(verdict)),
        }
        let done = match verdict.action {
            GuardianAction::Restart => restart(&seen, tag, &files),
            GuardianAction::Nudge => nudge(&seen, tag, &files, &verdict.detail).await,
            GuardianAction::None | GuardianAction::Redirect => Ok(()),
        };
        if let Err(why) = done {
            verdict.detail += &format!("; {why}");
            verdict.needs_person = true;
        }
        Some(verdict)
    }
}

/// The line about what is done, if anything is.
fn line(verdict: &PatrolVerdict, ts: Timestamp) -> Option<GuardianLine> {
    let action = verdict.action;
    let line = || GuardianLine { version: FORMAT_VERSION, ts, action, detail: verdict.detail.clone() };
    (action != GuardianAction::None).then(line)
}

/// The verdict on a session whose files cannot be read, or about which nothing can be read or noted among the guardians' own
/// files: nothing is done, as it might be done again and again.
fn stuck(detail: String) -> PatrolVerdict {
    PatrolVerdict { state: Health::Stuck, action: GuardianAction::None, needs_person: true, detail }
}

/// The verdict where nothing can be noted for lack of room: nothing is done.
fn without_room(verdict: PatrolVerdict) -> PatrolVerdict {
    match verdict.action {
        GuardianAction::None => verdict,
        action => PatrolVerdict {
            action: GuardianAction::None,
            detail: format!("{}; no {action}: the disk of the guard's own files is full", verdict.detail),
            ..verdict
        },
    }
}

/// Waits until no other patrol is active; the turn ends with the file.
fn take_turn(folder: &Path) -> Result<File, SessionError> {
    let path = folder.join("lock");
    let file = File::options().create(true).truncate(false).read(true).write(true).open(&path);
    let file = file.map_err(failed("open", &path))?;
    match lock_within(&file, TURN).map_err(failed("lock", &path))? {
        true => Ok(file),
        false => Err(refuse(ErrorKind::CannotStart, format!("another patrol is active: it holds {}", path.display()))
            .hint("wait for it, then run `ar guard` again")
            .into()),
    }
}

/// A session on a patrol.
pub(super) struct PatrolledSession {
    /// The facts to decide by.
    pub(super) watched: PatrolFacts,
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
fn look(
    repository: &Path,
    tag: &Tag,
    nudge: Option<&str>,
    now: Timestamp,
) -> Result<Option<PatrolledSession>, SessionError> {
    let repo = Repo::discover(repository)?;
    let folder = SessionFolder::new(repository, tag);
    let (journal, Some(contract)) = (folder.journal()?, folder.contract()?) else { return Ok(None) };
    let owner = folder.owner(repo.git_dir())?;
    let is_lost = journal.is_none();
    let journal = match journal {
        Some(journal) => journal,
        None if owner.is_some() => return Ok(None),
        None => journal_of_remains(&repo, &folder, Some(&contract), &read_history(&repo, tag)?, now)?,
    };
    let presence = &journal.presence;
    let driver = presence.driver().unwrap_or(SessionDriver::Loop);
    // A session that is driven by hand has an agent that `ar` does not know.
    let own_agent = contract.agent.as_deref().filter(|_| driver == SessionDriver::Loop);
    let nudge = nudge.or(own_agent).map(str::to_owned);
    let begun = journal.attempts().map(|open| open.head().started).max();
    let held_since = owner.as_ref().and_then(|owner| owner.since).filter(|since| *since <= now);
    let same_boot = presence.is_of_boot(boot_id().as_deref());
    let elsewhere = opened_elsewhere(&folder, presence);
    let taken = |other: &OtherHost| {
        let host = &other.host;
        format!(
            "it is not restarted from here; only if nothing of it runs on {host} any more, run `ar resume {tag} --take-over`"
        )
    };
    let watched = PatrolFacts {
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
    Ok(Some(PatrolledSession { watched, folder, worktree, nudge, journal }))
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
    let going = || journal.attempts().filter(|open| runs.has_job(&folder.run(open.id())));
    if going().next().is_some() && going().all(|open| runs.has_pending(&folder.run(open.id()))) {
        // The queue of a cluster takes as long as it takes.
        return Duration::MAX;
    }
    let limit = |phase| if phase == Phase::Proposing { contract.agent_timeout } else { contract.timeout };
    going().map(|open| limit(open.phase()).saturating_add(contract.grace)).max().unwrap_or_default()
}

/// The sessions in the register, as main worktree and tag. Sessions that do not exist any more are dropped from it; those on
/// a disk that is not mounted stay in it.
///
/// # Errors
///
/// The register cannot be read or written.
fn all_sessions(user: &Path) -> Result<Vec<(PathBuf, Tag)>, SessionError> {
    let register = Register::new(user);
    let sessions = match register.prune(is_gone) {
        Err(error) if is_disk_full(&error) => register.sessions()?,
        sessions => sessions?,
    };
    Ok(existing(sessions))
}

/// The sessions in the register that exist, for those who only look.
///
/// # Errors
///
/// The register cannot be read.
pub fn registered_sessions(user: &Path) -> Result<Vec<(PathBuf, Tag)>, SessionError> {
    Ok(existing(Register::new(user).sessions()?))
}

fn existing(sessions: Vec<Registered>) -> Vec<(PathBuf, Tag)> {
    sessions.into_iter().filter(exists).map(|session| (session.repository, session.tag)).collect()
}

/// Returns whether a session or its whole repository no longer exists.
fn is_gone(session: &Registered) -> bool {
    !exists(session) && !is_unmounted(&session.repository)
}

fn exists(session: &Registered) -> bool {
    let folder = SessionFolder::new(&session.repository, &session.tag);
    // A loop rebuilds a folder that was deleted under it.
    folder.has_contract() || folder.refuse_held().is_err()
}

/// Returns whether a path may be on a disk that is not mounted now: the nearest folder that exists is empty.
fn is_unmounted(path: &Path) -> bool {
    let standing = path.ancestors().skip(1).find(|folder| folder.exists());
    !path.exists()
        && standing.and_then(|folder| folder.read_dir().ok()).is_some_and(|mut entries| entries.next().is_none())
}

/// The sessions of the repositories that `paths` are in.
///
/// # Errors
///
/// A path does not exist or is in no repository, or its refs cannot be read.
fn sessions_at(paths: &[PathBuf]) -> Result<Vec<(PathBuf, Tag)>, SessionError> {
    let mut sessions = Vec::new();
    for path in paths {
        let repo = Repo::discover(&real_path(path)?)?;
        let root = repo.main_worktree();
        let tags = session_tags(&repo)?;
        // A session without a contract was fetched or imported.
        let own = tags.into_iter().filter(|tag| SessionFolder::new(root, tag).has_contract());
        for session in own.map(|tag| (root.to_owned(), tag)) {
            // Several paths may lead to one repository.
            if !sessions.contains(&session) {
                sessions.push(session);
            }
        }
    }
    Ok(sessions)
}

/// The real path of a repository that was named, as the register and the files of guardians have it.
///
/// # Errors
///
/// It does not exist, or nobody may look there.
pub fn real_path(path: &Path) -> Result<PathBuf, UserError> {
    path.canonicalize().map_err(|source| {
        refuse(ErrorKind::CannotStart, format!("cannot find {}", path.display()))
            .caused_by(source)
            .hint("pass the path of a repository, or none for all registered sessions")
    })
}

/// The file with the output of the last restart.
const RESUME_LOG: &str = "resume.log";

/// Longest error to report from it, in characters, without the ellipsis.
const TOLD: usize = 199;

/// The name of a nudge's job.
const NUDGE: &str = "nudge";

/// Time limit for the agent of a nudge: it is the driver from then on, and drives for a night.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Number of bytes to keep of its output.
const OUTPUT: u64 = 1024 * 1024;

/// Restarts the loop of a session by its stored terms, detached; why that failed, if it did.
pub(super) fn restart(seen: &PatrolledSession, tag: &Tag, files: &GuardianFiles) -> Result<(), String> {
    let start = || -> Result<(), UserError> {
        let program = own_program()?;
        let mut command = Command::new(&program);
        command.args(["resume", "--tag", tag.as_str()]).current_dir(&seen.worktree);
        log_to(&mut command, &files.folder().join(RESUME_LOG));
        in_own_session(without_own_variables(&mut command));
        command.spawn().map(drop).map_err(|source| not_started(&program, source))
    };
    start().map_err(|error| with_causes(&error))
}

/// The error that the last restart ended with, if it did.
fn said_by_resume(files: &GuardianFiles) -> Option<String> {
    let log = read_tail(&files.folder().join(RESUME_LOG), 0).ok()?;
    let text = plain_text(&log);
    // Causes and hints follow it.
    let line = text.lines().rfind(|line| line.starts_with("error:"))?;
    Some(cut(line, TOLD))
}

/// Calls the nudge command of a session, detached and under a shim. An earlier call that is still there is ended first.
pub(super) async fn nudge(seen: &PatrolledSession, tag: &Tag, files: &GuardianFiles, why: &str) -> Result<(), String> {
    let Some(command) = &seen.nudge else { return Ok(()) };
    let own: Vec<_> = own_variables().filter_map(|name| name.into_string().ok()).collect();
    let (folder, executor) = (files.folder().join(NUDGE), Executor::local());
    executor.stop(&folder, NUDGE).await.map_err(|error| with_causes(&error))?;
    create_folder(&folder).map_err(|error| with_causes(&error))?;
    let state = seen.folder.state();
    let task = read_regular(&state.join("task_spec.md")).unwrap_or_default();
    let text = nudge_text(tag, why, seen.watched.driver, &String::from_utf8_lossy(&task), &seen.journal);
    let prompt = folder.join("prompt.md");
    write_atomic(&prompt, text.as_bytes()).map_err(|error| with_causes(&error))?;
    let job = Job {
        name: NUDGE.into(),
        command: without(&own, command),
        cwd: seen.worktree.clone(),
        log: files.folder().join("nudge.log"),
        log_limit: Some(OUTPUT),
        stdin: Some(prompt),
        env: vec![("AR_TAG".into(), tag.to_string()), ("AR_STATE_DIR".into(), state.to_string_lossy().into_owned())],
        timeout: LIMIT,
        grace: DEFAULT_GRACE,
        folder,
        ..Job::default()
    };
    executor.start(&job).map(drop).map_err(|error| with_causes(&error))
}

/// A command for a shell that clears these variables first, but for those that a nudge has.
fn without(names: &[String], command: &str) -> String {
    let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let cleared: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| is_plain(name) && !["AR_TAG", "AR_STATE_DIR"].contains(name))
        .collect();
    if cleared.is_empty() { command.to_owned() } else { format!("unset {}\n{command}", cleared.join(" ")) }
}

/// Writes the prompt for an agent that is to continue a session: reason, instructions, task and progress.
fn nudge_text(tag: &Tag, why: &str, driver: SessionDriver, task: &str, journal: &Journal) -> String {
    let what = match driver {
        SessionDriver::Hand => format!(include_str!("nudge_hand.md"), tag = tag, why = why),
        SessionDriver::Loop => format!(include_str!("nudge_loop.md"), tag = tag, why = why),
    };
    let progress = [
        ("iterations", journal.calls.iteration().to_string()),
        ("findings", journal.results.findings().to_string()),
        ("stale count of the ladder", journal.ladder.position().stale.to_string()),
        ("last progress", journal.results.progressed().map_or("none".into(), exact_time)),
        ("last seen", exact_time(journal.presence.last_seen())),
    ];
    let progress: String = progress.iter().map(|(name, value)| format!("- {name}: {value}\n")).collect();
    format!("{what}\n## Task\n\n{}\n\n## Progress\n\n{progress}", task.trim())
}

/// The folder with the register of this user's sessions.
///
/// # Errors
///
/// Nobody knows where it is.
pub fn register_folder() -> Result<PathBuf, UserError> {
    let text = "there is no register of sessions: neither HOME nor XDG_STATE_HOME is an absolute path";
    let hint = "set XDG_STATE_HOME to a folder that outlives the machine's restarts";
    user_folder().ok_or_else(|| refuse(ErrorKind::CannotStart, text).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nudge_has_no_variables_but_its_own() {
        let names = ["AR_TAG", "AR_CLOCK", "AR_ODD-NAME", "AR_METRIC", "AR_STATE_DIR"].map(str::to_owned);
        assert_eq!(without(&names, "claude -p"), "unset AR_CLOCK AR_METRIC\nclaude -p");
        assert_eq!(without(&[], "claude -p"), "claude -p");
    }
}
