//! Errors that keep a session from starting or continuing.

use std::path::PathBuf;

use strum::{EnumProperty, EnumString};

use super::axes_error::AxesError;
use super::error_texts::{
    axes_hint, changed_terms, drift_hint, drifted, import_hint, missing_command, names, pointer_hint,
};
use super::layout_error::LayoutError;
use super::loop_agent::NoAgent;
use super::research::ResearchError;
use super::scoring::ScoreError;
use super::words::WordError;
use crate::domain::{
    COMPOSITE, Drift, ExperimentId, FailureClass, MetricSource, RECORD_VERSION, Space, StopReason, StopWhen, Tag,
    TagError, bytes_text, count_of, experiment_name, few, list, nearest, shell_word,
};
use crate::exec::ExecError;
use crate::fs::{FileError, is_disk_full, is_missing, move_command};
use crate::git::{Cut, GitError};
use crate::ledger::LedgerError;
use crate::measure::PatternError;
use crate::rules::{GlobError, listed};
use crate::state::{SEE_DOCTOR, StateError};

/// The kind of an error, which the command line maps to an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum ErrorKind {
    /// The repository, the configuration or the environment is not as it must be.
    CannotStart,
    /// The command was called wrongly.
    Usage,
    /// The baseline has no number.
    BaselineFailed,
    /// The loop stopped and cannot go on without a person.
    NeedsPerson,
    /// Another process holds the session.
    Held,
    /// Files or refs are damaged, and to mend them would be a guess.
    Damaged,
    /// The user asked to stop.
    Interrupted,
}

/// An error that keeps a session from starting or continuing. Each variant carries its `kind` (by default
/// [`ErrorKind::CannotStart`]) and, if it is fixed, its `hint`.
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
    Layout(#[from] LayoutError),
    #[error(transparent)]
    Axes(#[from] AxesError),
    #[error(transparent)]
    Score(#[from] ScoreError),
    #[error(transparent)]
    Research(#[from] ResearchError),
    #[error(transparent)]
    Word(#[from] WordError),
    #[error(transparent)]
    #[strum(props(kind = "usage"))]
    Pattern(#[from] PatternError),
    #[error(transparent)]
    #[strum(props(
        kind = "usage",
        hint = "write --scope 'src/**' or --scope '*.py'; a folder includes everything in it"
    ))]
    Glob(#[from] GlobError),
    #[error(transparent)]
    #[strum(props(kind = "usage", hint = "use a name such as `--tag nov20-lr`"))]
    Tag(#[from] TagError),
    #[error("a new session needs {0}")]
    #[strum(props(
        kind = "usage",
        hint = "run `ar run --metric val_bpb --cmd \"uv run train.py\"`, or write an ar.toml with `ar init`"
    ))]
    Missing(&'static str),
    #[error("cannot tell whether a higher or a lower `{0}` is better: the name suggests higher")]
    #[strum(props(kind = "usage", hint = "pass --higher or --lower"))]
    DirectionUnclear(String),
    #[error("{}, but --{setting} asks for a loop; {}", no_agent.why(), no_agent.installed_text())]
    #[strum(props(kind = "usage"))]
    NoAgentForLoop { setting: &'static str, no_agent: NoAgent },
    #[error("the working tree has uncommitted changes: {}", list(.0))]
    #[strum(props(
        hint = "commit them, set them aside with `git stash`, or pass --adopt to make them the first experiment"
    ))]
    Dirty(Vec<PathBuf>),
    #[error("nothing to adopt: the working tree has no uncommitted change")]
    #[strum(props(hint = "omit --adopt"))]
    NothingToAdopt,
    #[error("cannot adopt the commits on {0}: this working tree does not have them checked out")]
    AdoptedElsewhere(String),
    #[error("branch {0} exists but belongs to no session")]
    ForeignBranch(String),
    #[error("cannot create branch {branch}: git does not allow it beside the existing branch {blocking}")]
    BranchInTheWay { blocking: String, branch: String },
    #[error("the session {tag} was approved with {}", drifted(drifts, "is asked for"))]
    Drift { tag: String, drifts: Vec<Drift> },
    #[error("{} was changed after it was approved{}", path.display(), changed_terms(drifts))]
    #[strum(props(
        kind = "damaged",
        hint = "run `ar doctor --repair` to restore the approved contract; it saves this one beside it"
    ))]
    ContractChanged { path: PathBuf, drifts: Vec<Drift> },
    #[error("cannot start the {what}: `{word}` not found")]
    NoCommand { what: &'static str, word: String },
    #[error("the reviewer works in a tree of its own, which lacks {}: git does not track it", .0.display())]
    #[strum(props(hint = "commit it, or name it in --reviewer by its full path or below $AR_ROOT"))]
    ReviewerUntracked(PathBuf),
    #[error("{0} is tracked by git: a reset would undo what ar writes there")]
    Tracked(&'static str),
    #[error("--artifact '{glob}' matches {}, which is {what}", path.display())]
    #[strum(props(
        kind = "usage",
        hint = "name files that the run writes and git does not have, as in --artifact 'checkpoints/best.*'"
    ))]
    NoArtifact { glob: String, path: PathBuf, what: &'static str },
    #[error("{0} has no artifacts")]
    #[strum(props(hint = "pass --artifact GLOB to `ar run` or `ar resume` to save files of the runs that it keeps"))]
    NoArtifacts(String),
    #[error("the artifacts of experiment {id} are gone: {why}")]
    #[strum(props(hint = "run `ar repro N` to run it again; raise --keep-artifacts to keep more of them"))]
    ArtifactsGone { id: ExperimentId, why: String },
    #[error("cannot copy the artifact {} of experiment {id}: its path leads out of the folder", path.display())]
    ArtifactOutside { id: ExperimentId, path: PathBuf },
    #[error("{} already exists", .0.display())]
    #[strum(props(hint = "name an empty folder, or one that does not exist yet"))]
    ArtifactInTheWay(PathBuf),
    #[error("protected files were changed and their copies are missing: {}", list(.0))]
    #[strum(props(hint = "restore them as they were when the session began, or start another session with --tag"))]
    ProtectedLost(Vec<PathBuf>),
    #[error("{} is not a folder", .0.display())]
    NoFolder(PathBuf),
    #[error("the branch {branch} is checked out in {}", worktree.display())]
    CheckedOutElsewhere { branch: String, worktree: PathBuf },
    #[error("branch {branch} is at {tip}, which is not an experiment: {subject}")]
    UnrecordedTip { branch: String, tip: String, subject: String, base: String, is_on_top: bool },
    #[error("no session{} found", tag.as_ref().map(|tag| format!(" `{tag}`")).unwrap_or_default())]
    NoSession { tag: Option<Tag>, there: Vec<Tag> },
    #[error("session {tag} has no experiment {name}")]
    NoExperiment { tag: String, name: String, last: Option<ExperimentId> },
    #[error("`{name}` matches several commits of session {tag}: {}", candidates.join(", "))]
    #[strum(props(kind = "usage", hint = "write more digits, or use the experiment number"))]
    AmbiguousExperiment { tag: String, name: String, candidates: Vec<String> },
    #[error("branch {0} already exists")]
    BranchTaken(String),
    #[error("branch {branch} already exists, checked out in {}", worktree.display())]
    RestoredAlready { branch: String, worktree: PathBuf },
    #[error("branch {0} belongs to a session or is named like one")]
    #[strum(props(hint = "name another one with --branch"))]
    SessionBranch(String),
    #[error("{name} is not in session {tag}")]
    #[strum(props(kind = "usage", hint = "omit --tag"))]
    OtherSession { tag: String, name: String },
    #[error("experiment {id} of session {tag} was kept but is not based on experiment {before}, the keep before it")]
    #[strum(props(kind = "damaged"))]
    BrokenChain { tag: String, id: ExperimentId, before: ExperimentId },
    #[error("{} is not in the working tree {}", path.display(), root.display())]
    NotInWorktree { path: PathBuf, root: PathBuf },
    #[error("cannot link {}: it does not exist", .0.display())]
    #[strum(props(hint = "name an untracked file or folder; `git status --short --ignored` lists them"))]
    NothingToLink(PathBuf),
    #[error("cannot link {}: it already exists in the new working tree", .0.display())]
    LinkedAlready(PathBuf),
    #[error("session {0} has no kept experiment")]
    NothingKept(String),
    #[error("experiment {id} of session {tag} was not kept, so it cannot be left out")]
    NotKept { tag: Tag, id: ExperimentId },
    #[error("the reviewer calls what was kept not earned: {}", listed(ids))]
    NotEarned { tag: Tag, ids: Vec<ExperimentId> },
    #[error("experiment {id} of session {tag} builds on what is left out: {}", list(paths))]
    NeedsLeftOut { tag: Tag, id: ExperimentId, paths: Vec<PathBuf> },
    #[error("winners of session {0} wait to be measured together")]
    WinnersWait(Tag),
    #[error("the backlog has no idea {0}")]
    #[strum(props(hint = "run `ar idea list` to see them"))]
    NoIdea(u32),
    #[error(
        "the kept experiments of session {tag} do not form a chain: experiment {id} is not based on experiment \
        {before}"
    )]
    NoChain { tag: String, id: ExperimentId, before: ExperimentId },
    #[error("session {0} was imported: it has no command and cannot continue")]
    ImportedSession(String),
    #[error("the commit of experiment {id} of session {tag} is unknown: {why}")]
    #[strum(props(
        hint = "if another repository has it, `git fetch` it from there and import the ledger again with `--tag NEW`"
    ))]
    UnknownCommit { tag: String, id: ExperimentId, why: String },
    #[error("experiment {id} was refused and never ran: {why}")]
    NeverRan { id: ExperimentId, why: String },
    #[error("session {0} already exists, or parts of it remain")]
    #[strum(props(hint = "name another one with --tag"))]
    TagTaken(Tag),
    #[error("no row of {} can be imported", .0.display())]
    NothingToImport(PathBuf),
    #[error("cannot read the record {reference}")]
    #[strum(props(kind = "damaged"))]
    BadRecord { reference: String, source: serde_json::Error },
    #[error("the record {reference} has format version {found}; this program knows version {RECORD_VERSION}")]
    #[strum(props(hint = "use the newer ar that wrote it"))]
    NewerRecord { reference: String, found: u64 },
    #[error("session {tag} has no record of experiment {id}, but has later ones")]
    #[strum(props(kind = "damaged"))]
    LostRecord { tag: String, id: ExperimentId },
    #[error("the baseline failed: {reason}")]
    #[strum(props(kind = "baseline_failed"))]
    BaselineFailed {
        class: Option<FailureClass>,
        metric: Box<str>,
        reason: Box<str>,
        read_from: Box<MetricSource>,
        printed: Vec<String>,
        log: PathBuf,
        excerpt: Box<str>,
    },
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
    #[strum(props(kind = "needs_person"))]
    RefusedStays { tag: Tag, id: ExperimentId, left: Vec<PathBuf> },
    #[error("experiment {0} of this session is still open")]
    #[strum(props(hint = "run `ar try --continue` to finish it, or `ar stop --now` to save its change and close it"))]
    StillOpen(ExperimentId),
    #[error("experiment {id} of session {tag} is still open in this working tree")]
    OtherOpen { tag: String, id: ExperimentId },
    #[error("{} is too large to commit: {} MiB", path.display(), size / (1024 * 1024))]
    TooLarge { path: PathBuf, size: u64 },
    #[error("{0}")]
    #[strum(props(hint = "stop here; only the user may raise the limit, with --session-max-experiments"))]
    AtCap(Box<StopReason>),
    #[error("the loop stopped: {0}")]
    #[strum(props(kind = "needs_person"))]
    Stopped(#[source] Box<SessionError>),
    #[error("{}, so far the best, no longer runs: {why}, after {crashes} crashes in a row", experiment_name(*.id))]
    #[strum(props(kind = "needs_person"))]
    BestLost { id: ExperimentId, why: String, crashes: u32, log: PathBuf },
    #[error("{0}")]
    #[strum(props(kind = "damaged"))]
    Contradiction(&'static str),
    #[error("the journal names no commit for experiment {0}")]
    #[strum(props(kind = "damaged"))]
    NoCommit(ExperimentId),
    #[error("the journal does not say what experiment {0} measured")]
    #[strum(props(kind = "damaged"))]
    NoDraft(ExperimentId),
    #[error("session {tag} has not stopped yet: {holder} is still active")]
    #[strum(props(kind = "needs_person"))]
    NotStopped { tag: String, holder: String },
    #[error("cannot write the request to stop: the disk is full")]
    NotAsked { process: u32, when: StopWhen, source: StateError },
    #[error("no experiment to continue")]
    #[strum(props(hint = "start one with `ar try -m \"what it changes\"`"))]
    NothingOpen,
    #[error("{0} has no contract, and neither do its records")]
    #[strum(props(kind = "damaged"))]
    NoContract(PathBuf),
    #[error("{} is not empty", .0.display())]
    #[strum(props(hint = "name a folder that does not exist yet"))]
    NotEmpty(PathBuf),
    #[error("{what}: {} and {} left at {}", bytes_text(space.free), count_of(space.free_files.try_into().unwrap_or(u32::MAX), "file"), path.display())]
    NoRoom { what: String, space: Space, path: PathBuf },
    #[error("objects of git's are damaged: {}", .0.join(", "))]
    #[strum(props(
        kind = "damaged",
        hint = "inspect with `git fsck --full`, and fetch the objects from a copy of the repository"
    ))]
    ObjectsDamaged(Vec<String>),
    #[error("cannot {action} {}", path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
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
            SessionError::Git(GitError::Cut { cut: Cut::Asked, .. }) => ErrorKind::Interrupted,
            SessionError::State(StateError::Held { .. }) => ErrorKind::Held,
            SessionError::Layout(error) => error.kind(),
            SessionError::Axes(error) => error.kind(),
            SessionError::Word(WordError::Empty | WordError::TooLong(_)) => ErrorKind::Usage,
            SessionError::State(StateError::Json { .. }) => ErrorKind::Damaged,
            _ => self.get_str("kind").and_then(|kind| kind.parse().ok()).unwrap_or(ErrorKind::CannotStart),
        }
    }

    /// The next command to type, where there is one.
    pub fn hint(&self) -> Option<String> {
        if let Some(hint) = self.get_str("hint") {
            return Some(hint.to_owned());
        }
        Some(match self {
            SessionError::Git(error @ (GitError::Git { .. } | GitError::Damaged(_))) => {
                return error.hint().or(Some(SEE_DOCTOR.into()));
            }
            SessionError::Git(error) => return error.hint(),
            SessionError::State(error) => return error.hint(),
            SessionError::Ledger(error) => return error.hint(),
            SessionError::LedgerBeforeStart(error) => match (error, error.hint()) {
                (LedgerError::OtherMetric { found, .. }, Some(hint)) => {
                    format!("`--metric {}` continues it; or {hint}", shell_word(found.as_ref()))
                }
                (_, hint) => return hint,
            },
            SessionError::Exec(error) => return error.hint(),
            SessionError::Layout(error) => return error.hint(),
            SessionError::Axes(error) => return error.hint(),
            SessionError::Score(error) => error.hint(),
            SessionError::Research(error) => return error.get_str("hint").map(str::to_owned),
            SessionError::Word(error) => return error.get_str("hint").map(str::to_owned),
            SessionError::Pattern(error) => return error.hint(),
            SessionError::ForeignBranch(branch) => {
                format!(
                    "choose another name with --tag, or rename the branch: git branch -m {branch} NEW-NAME; run `ar \
                        doctor` to see whether a session left work of yours there"
                )
            }
            SessionError::BranchInTheWay { blocking, branch }
                if blocking.starts_with("autoresearch/") && branch.starts_with(blocking.as_str()) =>
            {
                format!("{blocking} is a session's branch; choose another name with --branch or --tag")
            }
            SessionError::AdoptedElsewhere(branch) => format!("git switch {branch}"),
            SessionError::BranchInTheWay { blocking, .. } => format!("git branch -m {blocking} NEW-NAME"),
            SessionError::BestLost { log, .. } => format!("read {}, and restore what the run needs", shell_word(log)),
            SessionError::Drift { drifts, .. } => drift_hint(drifts),
            SessionError::NoCommand { what, word } => missing_command(what, word),
            SessionError::RefusedStays { tag, .. } => format!(
                "correct it and run `ar try -m TEXT`, or set it aside with `git stash`; then run `ar resume {tag}` to continue"
            ),
            SessionError::Tracked(path) => {
                format!("git rm -r --quiet --cached {path} && git commit -m \"stop tracking {path}\"")
            }
            SessionError::NoFolder(path) => {
                format!("{SEE_DOCTOR}; to move it away: {}", move_command(path, ".old"))
            }
            SessionError::CheckedOutElsewhere { worktree, .. } => {
                format!("continue it there: cd {}; or start another session here with --tag", shell_word(worktree))
            }
            SessionError::UnrecordedTip { is_on_top: true, .. } => {
                "run `ar run` to begin the next session with it, or `ar run --adopt` to measure it in this one".into()
            }
            SessionError::UnrecordedTip { base, .. } => {
                format!(
                    "name what is there with `git branch NAME`, then move the branch back with `git reset --keep {base}`"
                )
            }
            SessionError::NoSession { tag, there } => {
                let meant = tag.as_ref().and_then(|tag| nearest(tag.as_str(), there.iter().map(Tag::as_str)));
                let there = match there.as_slice() {
                    [] => "start one with `ar run --metric NAME --cmd COMMAND`".into(),
                    [only] => format!("the only session is {only}"),
                    there => format!("the sessions are {}", names(there)),
                };
                meant.map_or(there.clone(), |meant| format!("did you mean {meant}? {there}"))
            }
            SessionError::NoExperiment { tag, name, last: Some(last) } => match name.parse::<u32>() {
                Ok(number) if number < last.number() => {
                    format!("a number without a record was given up, or is a run of winners; `ar log {tag}` lists all")
                }
                _ => format!("it has 0 to {last}; `ar log {tag}` lists them"),
            },
            SessionError::NoExperiment { tag, last: None, .. } => {
                format!("it has none yet; `ar status {tag}` tells more")
            }
            SessionError::BranchTaken(branch) => {
                format!("see what it has with `git log {branch}`, or name another one with --branch {branch}-2")
            }
            SessionError::RestoredAlready { worktree, .. } => format!(
                "name another one with --branch; if an earlier invocation was killed and left it unfinished, run \
                    `git worktree remove --force {}` and retry",
                shell_word(worktree)
            ),
            SessionError::NotInWorktree { root, .. } => format!("name a file or folder below {}", shell_word(root)),
            SessionError::LinkedAlready(path) => {
                format!("omit --link {}: git checks out tracked files there", shell_word(path))
            }
            SessionError::NotKept { tag, .. } => format!("run `ar log {tag} --outcome keep` to see the keeps"),
            SessionError::NotEarned { tag, ids } => {
                let without = ids.iter().map(|id| format!(" --without {id}")).collect::<String>();
                format!(
                    "run `ar finalize {tag}{without}` to leave them out, or `ar finalize {tag} --with-not-earned` to include \
                     them; `ar show {} --tag {tag}` prints the reason",
                    ids.first().copied().unwrap_or(ExperimentId::BASELINE)
                )
            }
            SessionError::NeedsLeftOut { id, .. } => format!("leave it out as well, with --without {id}"),
            SessionError::WinnersWait(tag) => format!(
                "run `ar resume {tag}` to measure them, or `ar finalize {tag} --drop-winners` to record them as discards"
            ),
            SessionError::NothingKept(tag) => format!("run `ar log {tag}` to see the outcomes"),
            SessionError::BaselineFailed { class: Some(FailureClass::Timeout), log, .. } => format!(
                "if the run needs more time, raise the limit, for example with --timeout 1h; the log is {}",
                shell_word(log)
            ),
            SessionError::BaselineFailed { class: Some(FailureClass::GuardFailed), log, .. } => format!(
                "make the guard pass on the starting commit, or omit it: it would refuse every change; its output is \
                    in {}",
                shell_word(log)
            ),
            SessionError::BaselineFailed { class: Some(FailureClass::ImportError), log, excerpt, .. } => {
                import_hint(excerpt, log)
            }
            SessionError::BaselineFailed { metric, read_from, .. }
                if **metric == *COMPOSITE
                    && let MetricSource::File { path, .. } = &**read_from =>
            {
                pointer_hint(path)
            }
            SessionError::BaselineFailed { printed, log, .. } if printed.is_empty() => {
                format!("read {0}, or try a metric on it with `ar extract --metric NAME {0}`", shell_word(log))
            }
            SessionError::BaselineFailed { metric, printed, reason, .. } if **metric == *COMPOSITE => {
                axes_hint(reason, printed)
            }
            SessionError::BaselineFailed { metric, printed, .. } => {
                let meant = nearest(metric, printed).map(|meant| format!("did you mean --metric {meant}? "));
                format!(
                    "{}pass --metric with a number that the log prints: {}",
                    meant.unwrap_or_default(),
                    few(printed).join(", ")
                )
            }
            SessionError::ImportedSession(tag) => format!(
                "put its best code on a branch with `ar restore best --tag {tag}`; from there start a session with \
                    `ar run --tag NEW --metric NAME --cmd COMMAND`"
            ),
            SessionError::NoChain { tag, id, .. } => {
                format!("extract one of them with `ar restore {id} --tag {tag}`")
            }
            SessionError::NeverRan { id, .. } => {
                format!("see its change with `ar show {id}`, or extract it with `ar restore {id}`")
            }
            SessionError::NothingToImport(path) => {
                format!("run `ar log --ledger {}` to see what can be read", shell_word(path))
            }
            SessionError::OtherOpen { tag, .. } => {
                format!(
                    "run `ar resume {tag}` to continue it, or `ar stop {tag} --now` to save its change and close it"
                )
            }
            SessionError::TooLarge { path, .. } => {
                format!("keep it out of the change: git stash push -- {}", shell_word(path))
            }
            SessionError::Stopped(error) => match error.hint() {
                Some(hint) if hint.contains("`ar resume`") => hint,
                Some(hint) => format!("{hint}; then run `ar resume` to continue"),
                None => "run `ar resume` to continue".into(),
            },
            SessionError::NotStopped { tag, .. } => {
                format!("run `ar status {tag}` to see what it is doing; the request stays")
            }
            SessionError::NotAsked { process, when, .. } => {
                let signal = if *when == StopWhen::Now { "TERM" } else { "INT" };
                format!("free disk space, or send a signal instead: kill -{signal} {process}")
            }
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
    pub(super) fn may_pass(&self) -> bool {
        match self {
            SessionError::Exec(ExecError::WorkingFolder(_)) => true,
            SessionError::Git(error) => error.may_pass(),
            error => is_missing(error),
        }
    }
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
