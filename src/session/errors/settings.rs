//! Errors of composites, research, scores and messages.

use std::path::PathBuf;

use strum::EnumProperty;

use super::session::ErrorKind;
use crate::domain::{CompositeError, Tag, bytes_text, list};
use crate::score::{TERMS_FILE, TermsError};

/// An error about a session's axes, or about something that depends on them.
#[derive(Debug, EnumProperty, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum AxesError {
    #[error(transparent)]
    Composite(#[from] CompositeError),
    #[error("--metric-regex finds one number, and a composite is computed from several")]
    #[strum(props(hint = "omit --metric-regex"))]
    Pattern,
    #[error("the stop rule {0} needs the axes of a composite, and this session has another metric")]
    #[strum(props(
        hint = "use kill, plateau:N or above:VALUE:N, or describe the axes in [composite] and pass --metric composite"
    ))]
    NeedsComposite(String),
    #[error("research and --keep-above run on one slot, not {0}: each iteration builds on what was kept before it")]
    #[strum(props(hint = "omit --slots and --gpus, or pass --slots 1"))]
    OneSlot(u32),
    #[error("no home folder for your ratings")]
    #[strum(props(hint = "set HOME, or XDG_STATE_HOME to an absolute path"))]
    NoHome,
    #[error("session {0} has no axes to weigh")]
    #[strum(props(
        hint = "name a session with a [composite], as in `ar report TAG --weights`; `ar rate` lists the sessions"
    ))]
    NoComposite(Tag),
}

impl AxesError {
    /// Returns the kind of this error.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            AxesError::NoComposite(_) | AxesError::NoHome => ErrorKind::CannotStart,
            _ => ErrorKind::Usage,
        }
    }

    /// Returns the hint for the user, if there is one.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            AxesError::Composite(error) => Some(error.hint().to_owned()),
            error => error.get_str("hint").map(str::to_owned),
        }
    }
}

/// The reason why nothing can be scored.
#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    /// The artifact cannot be read.
    #[error("cannot read the artifact {}: {why}", path.display())]
    Artifact {
        /// The artifact.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// There is no `research.toml`.
    #[error("{place} has no {TERMS_FILE}")]
    NoTerms {
        /// The searched commit or folder.
        place: String,
    },
    /// It cannot be read.
    #[error("cannot read {TERMS_FILE} of {place}: {why}")]
    UnreadableTerms {
        /// The commit or folder with the file.
        place: String,
        /// The cause.
        why: String,
    },
    /// Terms cannot be used.
    #[error("cannot use {terms}")]
    Terms {
        /// The terms, with their place.
        terms: String,
        /// The cause.
        source: TermsError,
    },
}

impl ScoreError {
    /// The hint that tells the user how to fix it.
    pub fn hint(&self) -> String {
        match self {
            ScoreError::Artifact { path, .. } => {
                format!("run `git show HEAD:{}` to see the last version that was committed", path.display())
            }
            ScoreError::NoTerms { .. } => {
                "commit one before the session starts; `ar init --research \"QUESTION\"` writes it".into()
            }
            ScoreError::UnreadableTerms { .. } => format!("run `file {TERMS_FILE}` to see what it is"),
            ScoreError::Terms { source, .. } => source.hint(),
        }
    }
}

/// The reason why a research session cannot begin.
#[derive(Debug, EnumProperty, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum ResearchError {
    #[error("the working tree has uncommitted changes: {}", list(.0))]
    #[strum(props(hint = "commit or stash them first, or begin in an empty folder"))]
    Dirty(Vec<PathBuf>),
    #[error("{} already exists", .0.display())]
    #[strum(props(hint = "begin in an empty folder, or on a branch without it: git switch --orphan research"))]
    Exists(PathBuf),
    #[error("the current branch is that of session {0}, which moves it by itself")]
    #[strum(props(hint = "switch to another branch first, as in: git switch -c research main"))]
    OnSession(Tag),
    #[error("git ignores {}, so no commit would have it", .0.display())]
    #[strum(props(hint = "run `git check-ignore --verbose FILE` to see which line of which file says so"))]
    Ignored(PathBuf),
    #[error("the agent named no sub-topics: {0}")]
    #[strum(props(hint = "name them yourself: --subtopic \"Memory\" --subtopic \"Speed\""))]
    NoSubtopics(String),
}

/// The reason why a word cannot be added or dropped.
#[derive(Debug, EnumProperty, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum MessageError {
    #[error("the text is empty")]
    #[strum(props(hint = "write what the agent must know, as in `ar tell \"keep the batch size\"`"))]
    Empty,
    #[error("the text has {}, more than the limit of {}", bytes_text(*.0 as u64), bytes_text(LONGEST as u64))]
    #[strum(props(hint = "put it into a file that the agent can read, and name that file"))]
    TooLong(usize),
    #[error("session {tag} has no word {id}")]
    #[strum(props(hint = "run `ar tell --list` to see them"))]
    NoWord { tag: Tag, id: u32 },
    #[error("no home folder for the key that marks a word as yours")]
    #[strum(props(hint = "set HOME, or XDG_STATE_HOME to an absolute path"))]
    NoHome,
}

/// The longest text of a word, in bytes.
pub(crate) const LONGEST: usize = 1 << 20;
