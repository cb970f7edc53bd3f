//! Sessions of research: their terms, and the files that they begin with.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use strum::EnumProperty;

use super::error::SessionError;
use super::reading::{is_session, session_of_head};
use super::scoring::{ScoreError, read_terms};
use super::watchdog::watch_programs;
use crate::domain::{COMPOSITE, Composite, Contract, Form, SCORING, StopRule, Tag, list};
use crate::fs::{make_folder, read_regular};
use crate::git::Repo;
use crate::rules::calls_score;

/// From which composite on a session of research keeps: 0.45, the gate of the Madani adapter.
pub const RESEARCH_THRESHOLD: f64 = 0.45;

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

/// The terms of a new session of research with the question and the axes of its `research.toml`, and the stop rule of such
/// sessions, where none were asked for; the folder of its sources; and what to warn of. Leaves the terms of other sessions as
/// they are.
pub(super) fn with_research(
    repo: &Repo,
    mut contract: Contract,
    is_new: bool,
) -> Result<(Contract, Option<PathBuf>, Vec<String>), SessionError> {
    if !calls_score(&contract.command) {
        return Ok((contract, None, Vec::new()));
    }
    let mut terms = read_terms(repo, Some(&contract.start))?;
    let mut warnings = Vec::new();
    if is_new {
        contract.goal_text.get_or_insert_with(|| terms.question.clone());
    }
    if is_new && contract.metric.name == COMPOSITE {
        if let Some(own) = contract.composite.take() {
            let of = || "[composite] of ar.toml".to_owned();
            terms = terms.with_composite(own).map_err(|source| ScoreError::Terms { terms: of(), source })?;
        }
        contract.scoring = Some(SCORING);
        contract.artifact_form = Some(terms.composite.form);
        // Its threshold is one of the mean: in another form what multiplies keeps nothing.
        contract.composite = Some(Composite { form: Form::Weighted, ..terms.composite });
        contract.keep_above.get_or_insert(RESEARCH_THRESHOLD);
        warnings = terms.warnings;
        if contract.stop_rules.is_empty() {
            contract.stop_rules.extend(StopRule::OF_RESEARCH);
        }
    }
    Ok((contract, Some(terms.sources), warnings))
}

/// Writes new files, each with its path and content, and commits them alone, on HEAD's branch. A file that is there with the same
/// content is left as it is. Returns whether there was something to commit.
///
/// # Errors
///
/// HEAD is on the branch of a session, tracked files are changed, a file is there with other content, or git ignores one.
pub fn commit_new_files(repo: &Repo, files: &[(PathBuf, String)], message: &str) -> Result<bool, SessionError> {
    if let Some(tag) = session_of_head(&repo.refs.head()?)
        && is_session(repo, &tag)?
    {
        return Err(ResearchError::OnSession(tag).into());
    }
    let changes = repo.working_tree.changes()?;
    if !changes.tracked.is_empty() {
        return Err(ResearchError::Dirty(changes.tracked_paths()).into());
    }
    let mut known = changes.untracked;
    let mut there = Vec::new();
    for (path, content) in files {
        if repo.working_tree.is_ignored(path)? {
            return Err(ResearchError::Ignored(path.clone()).into());
        }
        match read_regular(&repo.worktree().join(path)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Ok(found) if found == content.as_bytes() => there.push(path.as_path()),
            _ => return Err(ResearchError::Exists(path.clone()).into()),
        }
    }
    for (path, content) in files.iter().filter(|(path, _)| !there.contains(&path.as_path())) {
        let full = repo.worktree().join(path);
        let failed = |source| SessionError::Io { action: "write", path: full.clone(), source };
        make_folder(full.parent().unwrap_or(Path::new("."))).map_err(failed)?;
        fs::write(&full, content).map_err(failed)?;
    }
    watch_programs(repo, None)?;
    there.into_iter().for_each(|path| known.forget(path));
    let before = repo.refs.head()?;
    let commit = repo.commit_new(message, &known)?;
    Ok(before.commit() != Some(&commit))
}
