//! Errors about research sessions.

use std::path::PathBuf;

use strum::EnumProperty;

use crate::domain::{Tag, list};

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
