//! Errors of slots and seats, of the roles of commands, and of a loop without an agent.

use std::path::{Path, PathBuf};
use std::time::Duration;

use strum::EnumProperty;

use super::session::ErrorKind;
use crate::domain::{ExecutorName, ExperimentId, Tag, count_of, duration_text, list, shell_word};
use crate::exec::GpuLockError;
use crate::rules::{AgentLack, GpuError};

/// The reason why a session cannot have its slots. Each variant carries its `hint`, if it is fixed.
#[derive(Debug, EnumProperty, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum LayoutError {
    #[error("--{0} is for a session with slots")]
    #[strum(props(hint = "add --slots N, --gpus all or --ahead N"))]
    NeedsSlots(&'static str),
    #[error("--{0} is for a session that divides GPUs among its slots")]
    #[strum(props(hint = "add --gpus all"))]
    NeedsGpus(&'static str),
    #[error("--{key} is for a session whose runs are executed elsewhere")]
    NeedsExecutor { key: &'static str, executor: &'static str },
    #[error("ar.toml has no table [executor] with the commands of an engine")]
    #[strum(props(
        hint = "write it with the keys submit, states and cancel, or use --executor slurm; docs/guide/cluster.md explains them"
    ))]
    NoEngine,
    #[error("--gpus divides the GPUs of this machine, and runs are executed by {0}")]
    GpusElsewhere(ExecutorName),
    #[error("a job may take {}, but a run up to {}, with its grace and a minute to start", duration_text(*limit), duration_text(*needed))]
    ShortJobs { limit: Duration, needed: Duration },
    #[error("{0} in --sbatch makes of a run what is not one job of this cluster")]
    #[strum(props(hint = "omit it"))]
    SbatchOption(String),
    #[error(transparent)]
    Gpu(#[from] GpuError),
    #[error(transparent)]
    GpuLock(#[from] GpuLockError),
    #[error("there are GPUs for {}, not {slots}", count_of(*there, "slot"))]
    TooManySlots { slots: u32, there: u32 },
    #[error("the session was measured on {measured}, and the cluster ran this on {given} three times")]
    #[strum(props(
        hint = "ask for the same GPUs, as in `ar resume --sbatch \"--gres gpu:1 --constraint h100\"`, or start a new session"
    ))]
    OtherGpu { measured: String, given: String },
    #[error("`ar try` works in place only, not with slots")]
    Tried(Tag),
    #[error("--adopt works in place only, not with slots")]
    #[strum(props(hint = "commit the change first, or omit --adopt and describe it with `ar idea add`"))]
    Adopted,
    #[error("session {0} has slots, but its journal, which says how many, was lost")]
    Lost(Tag),
    #[error("{} is a working tree of ar's", .0.display())]
    #[strum(props(hint = "go to the repository's main working tree: cd \"$(git rev-parse --git-common-dir)/..\""))]
    InLinkedTree(PathBuf),
    #[error("experiment {id} of session {tag} is still open in this working tree, where the session has no slots")]
    OpenInPlace { tag: Tag, id: ExperimentId },
    #[error("this working tree has branch {} checked out, which moves with each keep of a session with slots", tag.branch())]
    OnOwnBranch { tag: Tag, back: Option<String>, elsewhere: Option<PathBuf> },
    #[error("slots would lack the submodules: {}", list(.0))]
    #[strum(props(
        hint = "omit --slots, --gpus and --ahead to work in place, or make the files part of the repository"
    ))]
    Submodules(Vec<PathBuf>),
    #[error("--link takes a path relative to the repository's root, not {}", path.display())]
    AbsoluteLink { path: PathBuf, relative: PathBuf },
    #[error("cannot link {}: it belongs to git or ar", .0.display())]
    #[strum(props(hint = "omit that --link"))]
    OwnLink(PathBuf),
    #[error("cannot link {}: {} is a link in each slot's working tree itself", path.display(), link.display())]
    BehindLink { path: PathBuf, link: PathBuf },
    #[error("the metric file {} would be the same one for all slots", .0.display())]
    #[strum(props(hint = "have the command write it in the working tree that it runs in, not behind a --link"))]
    MetricFile(PathBuf),
    #[error("the {what} names {}, so it would use this working tree instead of its slot's", path.display())]
    IntoMainTree { what: &'static str, path: PathBuf, relative: PathBuf, needs_link: bool },
    #[error("the {what} needs {}, which slots would lack: it is not in the commit", path.display())]
    OnlyHere { what: &'static str, path: PathBuf, link: PathBuf, is_ignored: bool },
    #[error("PYTHONPATH has {}, so runs would import from this working tree instead of their slot's", .0.display())]
    #[strum(props(hint = "unset it, and write what runs need into the command: --cmd \"PYTHONPATH=src python ...\""))]
    SearchPath(PathBuf),
    #[error("{} makes runs import from {} instead of their slot's working tree", file.display(), target.display())]
    Editable { file: PathBuf, target: PathBuf, link: Option<PathBuf> },
    #[error("a run opened files of this working tree instead of its slot's: {}", list(.0))]
    #[strum(props(
        hint = "find what leads there, such as an installed package, a configuration file or a cache; if it was an editor or a \
                language server, close it and start again"
    ))]
    OpenedHere(Vec<PathBuf>),
    #[error("`uv` would install this project into the one environment of all slots, from each slot in turn")]
    #[strum(props(
        hint = "omit --link .venv and unset UV_PROJECT_ENVIRONMENT, so that each slot gets an environment, or write \
                `uv run --no-sync`"
    ))]
    SharedByUv,
}

impl LayoutError {
    /// The kind of the error.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            LayoutError::NeedsSlots(_)
            | LayoutError::NeedsGpus(_)
            | LayoutError::NeedsExecutor { .. }
            | LayoutError::NoEngine
            | LayoutError::GpusElsewhere(_)
            | LayoutError::ShortJobs { .. }
            | LayoutError::SbatchOption(_)
            | LayoutError::AbsoluteLink { .. }
            | LayoutError::OwnLink(_) => ErrorKind::Usage,
            LayoutError::OtherGpu { .. } => ErrorKind::NeedsPerson,
            _ => ErrorKind::CannotStart,
        }
    }

    /// The hint that tells the user how to fix it, if there is one.
    pub fn hint(&self) -> Option<String> {
        if let Some(hint) = self.get_str("hint") {
            return Some(hint.to_owned());
        }
        Some(match self {
            LayoutError::NeedsExecutor { executor, .. } => format!("add --executor {executor}"),
            LayoutError::GpusElsewhere(ExecutorName::Slurm) => {
                "omit --gpus and --gpus-per-run, and ask for GPUs in --sbatch: --sbatch \"--gres gpu:1\"".into()
            }
            LayoutError::GpusElsewhere(_) => {
                "omit --gpus and --gpus-per-run, and ask for GPUs in [executor.resources] of ar.toml".into()
            }
            LayoutError::ShortJobs { needed, .. } => {
                format!("raise --time in --sbatch to {} or more, or lower --timeout", needed.as_secs().div_ceil(60))
            }
            LayoutError::Gpu(error) => error.hint(),
            LayoutError::GpuLock(error) => return error.hint(),
            LayoutError::TooManySlots { there, .. } => {
                format!("pass --slots {there}, choose more GPUs with --gpus, or lower --gpus-per-run")
            }
            LayoutError::Tried(tag) => format!(
                "hand the change in as an idea with `ar idea add`, let an agent of the loop make it: `ar run --tag {tag} \
                    --agent COMMAND`, or begin a session in place: `ar run --tag NAME --agent none`"
            ),
            LayoutError::Lost(tag) => {
                format!("pass them again: `ar resume {tag} --slots N`, with --gpus and --link as before")
            }
            LayoutError::OpenInPlace { tag, .. } => format!(
                "run `ar resume {tag}` without these flags to continue it, or `ar stop {tag} --now` to save its change and \
                    close it"
            ),
            LayoutError::OnOwnBranch { back: Some(branch), elsewhere: Some(worktree), tag } => format!(
                "as {branch} is checked out in {}, run `git switch --detach`, then `ar run --tag {tag}` with the same flags",
                shell_word(worktree)
            ),
            LayoutError::OnOwnBranch { back: Some(branch), .. } => {
                format!("git switch {}", shell_word(branch.as_ref()))
            }
            LayoutError::OnOwnBranch { back: None, .. } => "git switch --detach".into(),
            LayoutError::AbsoluteLink { relative, .. } => format!("write --link {}", shell_word(relative)),
            LayoutError::BehindLink { path, .. } => format!("omit --link {}", shell_word(path)),
            LayoutError::IntoMainTree { relative, .. } if relative.as_os_str().is_empty() => {
                "omit the path: commands run in the root of the slot's working tree".into()
            }
            LayoutError::IntoMainTree { relative, needs_link, .. } => {
                let path = shell_word(relative);
                let link = if *needs_link { format!(", and add --link {path}") } else { String::new() };
                format!("write it relative to the repository's root, as {path}{link}")
            }
            LayoutError::OnlyHere { path, link, is_ignored: false, .. } => {
                format!("add --link {}, or commit {}", shell_word(link), shell_word(path))
            }
            LayoutError::OnlyHere { link, .. } => format!("add --link {}", shell_word(link)),
            LayoutError::Editable { link, .. } => {
                let omit = match link {
                    Some(link) => format!("omit --link {} and let each slot make its own, or ", shell_word(link)),
                    None => String::new(),
                };
                format!("{omit}have the command find the slot's code first: --cmd \"PYTHONPATH=src python ...\"")
            }
            _ => return None,
        })
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
