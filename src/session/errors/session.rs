//! Errors that keep a session from starting or continuing, with the texts of their hints.
//!
//! Errors about experiments: verification, `ar try`, and a baseline without a number.

use std::path::{Path, PathBuf};

use strum::EnumProperty;

use crate::agent::{PRESETS, Preset};
use crate::domain::{
    COMPOSITE, Drift, ErrorKind, ExperimentId, FailureClass, LargeLog, MetricSource, Space, StopWhen, Tag, TagError,
    UserError, bytes_text, clock_time, count_of, experiment_name, few, list, nearest, shell_word, stale_lock_clause,
};
use crate::exec::ExecError;
use crate::fs::{FileError, is_disk_full, is_missing, move_command};
use crate::git::{Cut, GitError};
use crate::ledger::LedgerError;
use crate::rules::{AgentLack, GlobError, Incomparable, OtherHost};
use crate::state::{SEE_DOCTOR, StateError};

/// An error that keeps a session from starting or continuing. Each variant carries its `hint`, if it is fixed. What no code
/// and no test tells from others is a [`UserError`].
#[derive(Debug, EnumProperty, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum SessionError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("cannot start a thread")]
    Watchdog(#[source] std::io::Error),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A session that is about to start can still take the ledger's metric.
    #[error(transparent)]
    LedgerBeforeStart(LedgerError),
    #[error(transparent)]
    Exec(#[from] ExecError),
    #[error(transparent)]
    User(#[from] UserError),
    #[error(transparent)]
    #[strum(props(hint = "write --scope 'src/**' or --scope '*.py'; a folder includes everything in it"))]
    Glob(#[from] GlobError),
    #[error(transparent)]
    #[strum(props(hint = "use a name such as `--tag nov20-lr`"))]
    Tag(#[from] TagError),
    #[error(transparent)]
    #[strum(props(hint = "pass it in that unit, or without a unit"))]
    Incomparable(#[from] Incomparable),
    #[error("a new session needs {0}")]
    #[strum(props(
        hint = "run `ar run --metric val_bpb --cmd \"uv run train.py\"`, or write an ar.toml with `ar init`"
    ))]
    Missing(&'static str),
    #[error("cannot tell whether a higher or a lower `{0}` is better")]
    #[strum(props(hint = "pass --higher or --lower"))]
    DirectionUnclear(String),
    #[error("{}, but --{setting} asks for a loop; {}", no_agent.why(), no_agent.installed_text())]
    NoAgentForLoop { setting: &'static str, no_agent: NoAgent },
    #[error("the working tree has uncommitted changes: {}", list(paths))]
    Dirty { paths: Vec<PathBuf>, adopting: Adopting },
    #[error("branch {0} already exists")]
    BranchTaken(String),
    #[error("the session {tag} was approved with {}", drifted(drifts, "is asked for"))]
    Drift { tag: String, drifts: Vec<Drift> },
    #[error("{} was changed after it was approved{}", path.display(), changed_terms(drifts))]
    #[strum(props(hint = "run `ar doctor --repair` to restore the approved contract; it saves this one beside it"))]
    ContractChanged { path: PathBuf, drifts: Vec<Drift> },
    #[error("cannot start the {what}: `{word}` not found")]
    NoCommand { what: CommandRole, word: String },
    #[error("cannot copy the artifact {} of experiment {id}: its path leads out of the folder", path.display())]
    ArtifactOutside { id: ExperimentId, path: PathBuf },
    #[error("{} is not a folder", .0.display())]
    NoFolder(PathBuf),
    #[error("no session{} found", tag.as_ref().map(|tag| format!(" `{tag}`")).unwrap_or_default())]
    NoSession { tag: Option<Tag>, there: Vec<Tag> },
    #[error("session {tag} has no experiment {name}")]
    NoExperiment { tag: String, name: String, last: Option<ExperimentId> },
    #[error(transparent)]
    Verify(#[from] VerifyError),
    #[error("{} is not in the working tree {}", path.display(), root.display())]
    NotInWorktree { path: PathBuf, root: PathBuf },
    #[error("cannot link {}: it does not exist", .0.display())]
    #[strum(props(hint = "name an untracked file or folder; `git status --short --ignored` lists them"))]
    NothingToLink(PathBuf),
    #[error("cannot link {}: it already exists in the new working tree", .0.display())]
    LinkedAlready(PathBuf),
    #[error("session {0} was imported: it has no command and cannot continue")]
    ImportedSession(String),
    #[error("cannot read the record {reference}")]
    BadRecord { reference: String, source: serde_json::Error },
    #[error("session {tag} has no record of experiment {id}, but has later ones")]
    LostRecord { tag: String, id: ExperimentId },
    #[error(transparent)]
    Baseline(#[from] Box<FailedBaseline>),
    #[error(transparent)]
    Try(#[from] TryError),
    #[error("the loop stopped: {0}")]
    Stopped(#[source] Box<SessionError>),
    #[error("{}, so far the best, no longer runs: {why}, after {crashes} crashes in a row", experiment_name(*.id))]
    BestLost { id: ExperimentId, why: String, crashes: u32, log: PathBuf },
    #[error("{0}")]
    Contradiction(&'static str),
    #[error("session {tag} is active {other}; it can be taken over in {}", clock_time(other.wait.as_secs_f64()))]
    Elsewhere { tag: Tag, other: OtherHost },
    #[error("session {tag} was taken over by {by}")]
    TakenOver { tag: Tag, by: String },
    #[error("session {tag} has not stopped yet: {holder} is still active")]
    NotStopped { tag: String, holder: String },
    #[error("cannot write the request to stop: the disk is full")]
    NotAsked { process: u32, when: StopWhen, source: StateError },
    #[error("{0} has no contract, and neither do its records")]
    NoContract(PathBuf),
    #[error("no wall can be built around jobs, and the session requires one (--sandbox require): {0}")]
    NoWall(UserError),
    #[error("{what}: {} and {} left at {}", bytes_text(space.free), count_of(space.free_files.try_into().unwrap_or(u32::MAX), "file"), path.display())]
    NoRoom { what: String, space: Space, path: PathBuf, log: Option<LargeLog> },
    #[error("cannot {action} {}", path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
}

/// The way to make uncommitted changes an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Adopting {
    /// A new session adopts them.
    Start,
    /// A typed `ar run` adopts them in this session.
    Session(Tag),
    /// They are not where a session could adopt them.
    Nowhere,
}

impl From<FileError> for SessionError {
    fn from(error: FileError) -> Self {
        StateError::from(error).into()
    }
}

impl SessionError {
    /// Returns the kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            SessionError::User(error) => error.kind,
            SessionError::Verify(error) => error.kind(),
            SessionError::Try(error) => error.kind(),
            SessionError::Glob(_)
            | SessionError::Tag(_)
            | SessionError::Incomparable(_)
            | SessionError::Missing(_)
            | SessionError::DirectionUnclear(_)
            | SessionError::NoAgentForLoop { .. } => ErrorKind::Usage,
            SessionError::Baseline(_) => ErrorKind::BaselineFailed,
            SessionError::Stopped(_)
            | SessionError::BestLost { .. }
            | SessionError::NotStopped { .. }
            | SessionError::Exec(ExecError::EngineAway { .. }) => ErrorKind::NeedsPerson,
            SessionError::Elsewhere { .. }
            | SessionError::TakenOver { .. }
            | SessionError::State(StateError::Held { .. }) => ErrorKind::Held,
            SessionError::ContractChanged { .. }
            | SessionError::BadRecord { .. }
            | SessionError::LostRecord { .. }
            | SessionError::Contradiction(_)
            | SessionError::NoContract(_)
            | SessionError::State(StateError::Json { .. }) => ErrorKind::Damaged,
            SessionError::Git(GitError::Cut { cut: Cut::Asked, .. }) => ErrorKind::Interrupted,
            _ => ErrorKind::CannotStart,
        }
    }

    /// The next command to type, where there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            SessionError::Git(error @ (GitError::Git { .. } | GitError::Damaged(_))) => {
                error.hint().or(Some(SEE_DOCTOR.into()))
            }
            SessionError::Git(error) => error.hint(),
            SessionError::State(error) => error.hint(),
            SessionError::Ledger(error) => error.hint(),
            SessionError::LedgerBeforeStart(error) => hint_before_start(error),
            SessionError::Exec(error) => error.hint(),
            SessionError::User(error) => error.hint.clone(),
            SessionError::Verify(error) => Some(error.hint()),
            SessionError::Try(error) => error.hint(),
            SessionError::Baseline(failed) => Some(failed.hint()),
            SessionError::Stopped(error) => Some(resume_hint(error)),
            _ => self.get_str("hint").map(str::to_owned).or_else(|| self.hint_of_details()),
        }
    }

    /// The hint for an error that wraps no other, made of what it carries.
    fn hint_of_details(&self) -> Option<String> {
        Some(match self {
            SessionError::BranchTaken(branch) => {
                format!("see what it has with `git log {branch}`, or name another one with --branch {branch}-2")
            }
            SessionError::Dirty { adopting, .. } => match adopting {
                Adopting::Start => {
                    "commit them, set them aside with `git stash`, or pass --adopt to make them the first experiment"
                        .into()
                }
                Adopting::Session(tag) => format!(
                    "set them aside with `git stash`, or run `ar run --tag {tag} --adopt` to make them the next experiment"
                ),
                Adopting::Nowhere => "commit them, or set them aside with `git stash`".into(),
            },
            SessionError::BestLost { log, .. } => format!("read {}, and restore what the run needs", shell_word(log)),
            SessionError::Drift { drifts, .. } => drift_hint(drifts),
            SessionError::NoCommand { what, word } => missing_command(*what, word),
            SessionError::NoWall(reason) => {
                format!("{}; or start with --sandbox auto", reason.hint.as_deref().unwrap_or_default())
            }
            SessionError::NoFolder(path) => format!("{SEE_DOCTOR}; to move it away: {}", move_command(path, ".old")),
            SessionError::NoSession { tag, there } => sessions_hint(tag.as_ref(), there),
            SessionError::NoExperiment { tag, name, last } => experiments_hint(tag, name, *last),
            SessionError::NotInWorktree { root, .. } => format!("name a file or folder below {}", shell_word(root)),
            SessionError::LinkedAlready(path) => {
                format!("omit --link {}: git checks out tracked files there", shell_word(path))
            }
            SessionError::ImportedSession(tag) => format!(
                "put its best code on a branch with `ar restore best --tag {tag}`; from there start a session with \
                    `ar run --tag NEW --metric NAME --cmd COMMAND`"
            ),
            SessionError::Elsewhere { tag, other: OtherHost { host, .. } } => format!(
                "go on with it on {host}; only if nothing of it runs there any more, run `ar resume {tag} --take-over`"
            ),
            SessionError::TakenOver { tag, .. } => {
                format!("run `ar status {tag}` to see who has it; this process has written nothing since")
            }
            SessionError::NotStopped { tag, .. } => {
                format!("run `ar status {tag}` to see what it is doing; the request stays")
            }
            SessionError::NotAsked { process, when, .. } => {
                let signal = if *when == StopWhen::Now { "TERM" } else { "INT" };
                format!("free disk space, or send a signal instead: kill -{signal} {process}")
            }
            SessionError::NoRoom { log: Some(log), .. } => log.hint(),
            SessionError::NoRoom { path, .. } => {
                format!("free disk space (`df -h {0}; df -i {0}` shows the usage); nothing was lost", shell_word(path))
            }
            SessionError::Io { .. } if is_disk_full(self) => "free disk space; nothing was lost".into(),
            _ if self.kind() == ErrorKind::Damaged => SEE_DOCTOR.into(),
            _ => return None,
        })
    }

    /// Returns whether the cause is a full disk. Once there is space, the work can be finished.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, SessionError::NoRoom { .. } | SessionError::Exec(ExecError::DiskFull { .. }))
            || is_disk_full(self)
    }

    /// Returns whether another process may be deleting the named file at this moment, so that a retry may succeed.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            SessionError::Exec(ExecError::WorkingFolder(_)) => true,
            SessionError::Git(error) => error.may_pass(),
            error => is_missing(error),
        }
    }
}

/// The reason why a loop has no agent, with the installed agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoAgent {
    lack: AgentLack,
    installed: Vec<&'static str>,
}

impl NoAgent {
    /// One that lacks an agent for this reason.
    pub(crate) fn new(lack: AgentLack, installed: Vec<&'static str>) -> NoAgent {
        NoAgent { lack, installed }
    }

    /// The installed agents by name.
    pub fn installed(&self) -> &[&'static str] {
        &self.installed
    }

    /// The reason in words.
    pub(crate) fn why(&self) -> String {
        match self.lack {
            AgentLack::Declined => "the agent is `none`".to_owned(),
            AgentLack::Within(_) | AgentLack::NotSet => "no agent is set".to_owned(),
        }
    }

    /// The installed agents in words.
    pub(crate) fn installed_text(&self) -> String {
        let names = self.installed.join(", ");
        match (self.lack, self.installed.as_slice()) {
            (_, []) => "no known agent is installed".to_owned(),
            (AgentLack::Within(variable), _) => {
                format!("installed: {names}, but `ar` takes none inside another agent's session ({variable} is set)")
            }
            (_, _) => format!("installed: {names}"),
        }
    }

    /// The notice that only the baseline will be measured.
    pub fn notice(&self) -> String {
        format!("{}, so only the baseline will be measured; {}", self.why(), self.installed_text())
    }
}

/// The use of a command line of the user's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum CommandRole {
    /// It measures.
    Command,
    /// It changes the code.
    Agent,
    /// It checks a change.
    Guard,
    /// It reviews a change.
    Reviewer,
    /// It converts files for git.
    #[strum(to_string = "git filter")]
    Filter,
    /// It is told of events.
    #[strum(to_string = "command of --on-event")]
    OnEvent,
}

impl CommandRole {
    /// The folder that it is called in; `root` is that of the working tree. A command of `--on-event` has one of its own, from
    /// where no relative path leads anywhere.
    pub(crate) fn folder(self, root: &Path) -> &Path {
        match self {
            CommandRole::Command
            | CommandRole::Agent
            | CommandRole::Guard
            | CommandRole::Reviewer
            | CommandRole::Filter => root,
            CommandRole::OnEvent => Path::new("/"),
        }
    }
}

/// Returns the hint for a program that was not found.
pub(crate) fn missing_command(what: CommandRole, word: &str) -> String {
    if let (CommandRole::Agent, Some(preset)) = (what, Preset::named(word)) {
        return format!("{}; it needs {}", preset.install, preset.needs);
    }
    if what == CommandRole::Filter {
        return format!(
            "install {word}, which .gitattributes and `git config --get-regexp '^filter'` ask for: without it, git cannot \
             check out the files it is for"
        );
    }
    if what == CommandRole::OnEvent {
        return format!("the command runs in its own folder: use a full path, such as \"$AR_ROOT/{word}\"");
    }
    let mut hint = format!("check with `command -v {word}` in the repository's root, or name another {what}");
    if what == CommandRole::Agent {
        let names = PRESETS.map(|preset| preset.name);
        hint += &format!(", or one of {}", names.join(", "));
        if let Some(meant) = nearest(word, names) {
            hint = format!("did you mean --agent {meant}? {hint}");
        }
    }
    hint
}

/// Returns the hint for flags that differ from the approved contract.
pub(crate) fn drift_hint(drifts: &[Drift]) -> String {
    let variable = |flag: &str| format!("AR_{}", flag.trim_start_matches('-').to_uppercase().replace('-', "_"));
    let flags: Vec<_> = drifts.iter().filter_map(|drift| drift.flag.as_deref()).collect();
    let variables: Vec<_> = flags.iter().map(|flag| variable(flag)).collect();
    format!(
        "omit {} (or unset {}) to continue, or start another session with --tag",
        flags.join(", "),
        variables.join(", ")
    )
}

/// Returns the hint for a metric file that lacks axes of a composite.
pub(crate) fn pointer_hint(path: &Path) -> String {
    let path = shell_word(path);
    format!(
        "the pointer must name the JSON object that holds the axes, as in `--metric-file {path}:/axes`, or `--metric-file {path}` \
         for the whole document; ar computes the composite itself"
    )
}

/// Returns the hint for axes that are `missing` from a log, which `printed` others.
pub(crate) fn axes_hint(missing: &[String], printed: &[String]) -> String {
    let meant = missing.iter().find_map(|name| Some((name, nearest(name, printed)?)));
    let meant = meant.map(|(name, meant)| format!("did you mean {meant} for {name}? ")).unwrap_or_default();
    format!("{meant}name the axes in [composite] as the log prints them: {}", few(printed).join(", "))
}

/// Returns the hint for a failed import in the command.
pub(crate) fn import_hint(excerpt: &str, log: &Path) -> String {
    let module = excerpt.rsplit_once("No module named '").and_then(|(_, rest)| rest.split(['\'', '.']).next());
    match module.filter(|module| !module.is_empty()) {
        Some(module) => format!(
            "the command's Python has no module `{module}`: install it there (`uv add {module}` or `pip install \
                {module}`), or \
             run the command where it is installed, as in --cmd \"uv run train.py\""
        ),
        None => {
            format!("the command fails at an import: fix it or the installed versions; the log is {}", shell_word(log))
        }
    }
}

/// Terms that differ, as the end of a sentence about what was approved.
pub(crate) fn drifted(drifts: &[Drift], verb: &str) -> String {
    let term = |drift: &Drift| format!("{} `{}`, and now `{}` {verb}", drift.field, drift.approved, drift.found);
    drifts.iter().map(term).collect::<Vec<_>>().join("; ")
}

/// Lists changed terms as the end of such a sentence. Empty if none differ.
pub(crate) fn changed_terms(drifts: &[Drift]) -> String {
    if drifts.is_empty() { String::new() } else { format!(": {}", drifted(drifts, "stands there")) }
}

/// Returns the hint for a ledger that a session which is about to start cannot continue: it can still take the ledger's metric.
pub(crate) fn hint_before_start(error: &LedgerError) -> Option<String> {
    let hint = error.hint()?;
    Some(match error {
        LedgerError::OtherMetric { found, .. } => {
            format!("`--metric {}` continues it; or {hint}", shell_word(found.as_ref()))
        }
        _ => hint,
    })
}

/// Returns the hint for a session that is not among those that are `there`.
pub(crate) fn sessions_hint(tag: Option<&Tag>, there: &[Tag]) -> String {
    let meant = tag.and_then(|tag| nearest(tag.as_str(), there.iter().map(Tag::as_str)));
    let there = match there {
        [] => "start one with `ar run --metric NAME --cmd COMMAND`".into(),
        [only] => format!("the only session is {only}"),
        there => format!("the sessions are {}", there.iter().map(Tag::as_str).collect::<Vec<_>>().join(", ")),
    };
    meant.map_or(there.clone(), |meant| format!("did you mean {meant}? {there}"))
}

/// Returns the hint for an experiment that a session does not have, whose `last` one is that.
pub(crate) fn experiments_hint(tag: &str, name: &str, last: Option<ExperimentId>) -> String {
    match (last, name.parse::<u32>()) {
        (None, _) => format!("it has none yet; `ar status {tag}` tells more"),
        (Some(last), Ok(number)) if number < last.number() => {
            format!("a number without a record was given up, or is a run of winners; `ar log {tag}` lists all")
        }
        (Some(last), _) => format!("it has 0 to {last}; `ar log {tag}` lists them"),
    }
}

/// Returns the hint for the error that stopped a loop.
pub(crate) fn resume_hint(error: &SessionError) -> String {
    let resumes = match error {
        SessionError::Exec(error) => error.hint_resumes(),
        SessionError::NoRoom { log, .. } => log.is_some(),
        _ => false,
    };
    match error.hint() {
        Some(hint) if resumes => hint,
        Some(hint) => format!("{hint}; then run `ar resume` to continue"),
        None => "run `ar resume` to continue".into(),
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;

/// The reason why two experiments cannot be verified.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum VerifyError {
    #[error("{} cannot be compared with itself", experiment_name(*.0))]
    Same(ExperimentId),
    #[error("the run of {what} with seed {seed} gave no number: {why}")]
    Failed { what: String, seed: u64, why: String, is_hidden: bool },
    #[error("cannot compare the sessions: {a}, and {b}")]
    OtherMetric { a: String, b: String },
    #[error("branch {0} is there already, with other code")]
    BranchThere(String),
    #[error("one run of each says nothing about the noise")]
    NoNoise,
    #[error("an experiment of session {0} was recorded meanwhile")]
    Recorded(Tag),
}

impl VerifyError {
    /// Returns the kind of this error.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            VerifyError::Same(_) | VerifyError::NoNoise | VerifyError::OtherMetric { .. } => ErrorKind::Usage,
            VerifyError::BranchThere(_) | VerifyError::Recorded(_) | VerifyError::Failed { .. } => {
                ErrorKind::CannotStart
            }
        }
    }

    /// Returns the hint for the user.
    pub(crate) fn hint(&self) -> String {
        match self {
            VerifyError::Same(_) => "name two experiments, as in `ar verify baseline best`".into(),
            VerifyError::Failed { is_hidden, .. } => {
                let way = if *is_hidden { "fix the evaluator" } else { "see the log of such a run with `ar repro N`" };
                format!("{way}, then repeat the command; the runs that ended are recorded")
            }
            VerifyError::BranchThere(branch) => {
                format!("rename it with `git branch -m {branch} {branch}-before`, and repeat the command")
            }
            VerifyError::OtherMetric { .. } => "name two sessions with the same metric, unit and direction".into(),
            VerifyError::Recorded(_) => "repeat the command, which may name another experiment now".into(),
            VerifyError::NoNoise => "pass --runs 2 or more".into(),
        }
    }
}

/// The reason why a change in the working tree cannot become the next experiment. Each variant carries its `hint`,
/// if it is fixed.
#[derive(Debug, EnumProperty, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum TryError {
    #[error("nothing to try: the working tree is the same as the incumbent")]
    #[strum(props(hint = "edit a file first, or `git add` the files that belong to the change"))]
    NothingToTry,
    #[error("the direction \"{direction}\" was tried before and a new one is required; tried: {}", few(tried).join(", "))]
    #[strum(props(
        hint = "nothing was recorded; name another with --direction: if this one is named again, the change is recorded as refused"
    ))]
    RepeatedDirection { direction: String, tried: Vec<String> },
    #[error("no change to bring back: the last experiment did not fail a guard")]
    #[strum(props(hint = "run `ar log` to see what became of each experiment"))]
    NothingToRework,
    #[error("experiment {id} was already reworked {limit} times")]
    #[strum(props(hint = "try an idea that does not break the guard"))]
    ReworkedOften { id: ExperimentId, limit: u32 },
    #[error("cannot bring a change back: the working tree has changes: {}", list(.0))]
    #[strum(props(hint = "run `ar try` to measure them, or `git stash` to set them aside"))]
    DirtyBeforeRework(Vec<PathBuf>),
    #[error("nothing to try: the working tree is the same as an earlier version of experiment {0}")]
    #[strum(props(hint = "edit a file so that the guard passes, then run `ar try` again"))]
    SameVersion(ExperimentId),
    #[error("experiment {id} was refused, and the rest of your change is still in the working tree: {}", list(left))]
    RefusedStays { tag: Tag, id: ExperimentId, left: Vec<PathBuf> },
    #[error("experiment {0} of this session is still open")]
    #[strum(props(hint = "run `ar try --continue` to finish it, or `ar stop --now` to save its change and close it"))]
    StillOpen(ExperimentId),
    #[error("experiment {id} of session {tag} is still open in this working tree")]
    OtherOpen { tag: String, id: ExperimentId },
    #[error("{} is too large to commit: {} MiB", path.display(), size / (1024 * 1024))]
    TooLarge { path: PathBuf, size: u64 },
    #[error("no experiment to continue")]
    #[strum(props(hint = "start one with `ar try -m \"what it changes\"`"))]
    NothingOpen,
}

impl TryError {
    /// Returns the kind of this error.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            TryError::RefusedStays { .. } => ErrorKind::NeedsPerson,
            _ => ErrorKind::CannotStart,
        }
    }

    /// Returns the hint for the user, if there is one.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            TryError::RefusedStays { tag, .. } => Some(format!(
                "correct it and run `ar try -m TEXT`, or set it aside with `git stash`; then run `ar resume {tag}` to continue"
            )),
            TryError::OtherOpen { tag, .. } => Some(format!(
                "run `ar resume {tag}` to continue it, or `ar stop {tag} --now` to save its change and close it; `ar finalize \
                 {tag} --drop-winners` closes one that waits for more runs"
            )),
            TryError::TooLarge { path, .. } => {
                Some(format!("keep it out of the change: git stash push -- {}", shell_word(path)))
            }
            error => error.get_str("hint").map(str::to_owned),
        }
    }
}

/// A baseline that measured nothing.
#[derive(Debug, thiserror::Error)]
#[error("the baseline failed: {reason}")]
pub struct FailedBaseline {
    pub(crate) class: Option<FailureClass>,
    pub(crate) metric: String,
    pub(crate) reason: String,
    pub(crate) read_from: MetricSource,
    /// Names of the numbers that its log has.
    pub(crate) printed: Vec<String>,
    /// Files that its run changed.
    pub(crate) changed: Vec<PathBuf>,
    /// The axes for which it gave no number, if it failed for want of one.
    pub(crate) missing: Vec<String>,
    pub(crate) log: PathBuf,
    /// The part of the log that tells why.
    pub excerpt: String,
}

impl FailedBaseline {
    /// Returns the hint for the user.
    pub(crate) fn hint(&self) -> String {
        let FailedBaseline { class, metric, read_from, printed, changed, missing, log, excerpt, .. } = self;
        let log_word = shell_word(log);
        match class {
            Some(FailureClass::Timeout) => {
                format!(
                    "if the run needs more time, raise the limit, for example with --timeout 1h; the log is {log_word}"
                )
            }
            Some(FailureClass::GuardFailed) => format!(
                "make the guard pass on the starting commit, or omit it: it would refuse every change; its output is in \
                    {log_word}"
            ),
            Some(FailureClass::ImportError) => import_hint(excerpt, log),
            Some(FailureClass::Protected) => format!(
                "have the run leave protected files alone, or name {} in --scope{}",
                list(changed),
                stale_lock_clause(changed)
            ),
            _ => match read_from {
                MetricSource::File { path, .. } if metric == COMPOSITE => pointer_hint(path),
                MetricSource::File { .. } => format!(
                    "let the run write the number there, or read it from elsewhere with --metric-file PATH:/pointer or \
                     --metric-file PATH:COLUMN; the log is {log_word}"
                ),
                _ if printed.is_empty() => {
                    format!("read {log_word}, or try a metric on it with `ar extract --metric NAME {log_word}`")
                }
                _ if metric == COMPOSITE => axes_hint(missing, printed),
                _ => {
                    let meant = nearest(metric, printed)
                        .map(|meant| format!("did you mean --metric {}? ", shell_word(meant.as_ref())));
                    format!(
                        "{}pass --metric with a number that the log prints: {}",
                        meant.unwrap_or_default(),
                        few(printed).join(", ")
                    )
                }
            },
        }
    }
}
