//! Files besides results.tsv that all sessions of a repository share: lessons and the backlog of ideas.

use super::facts::REPAIR;
use super::repair::Repairs;
use crate::domain::{Area, Finding, count_of, with_causes};
use crate::git::Repo;
use crate::session::errors::SessionError;
use crate::state::{IdeaFile, LessonFile};

/// Examines both files. A session continues without them, so damage to them is only a warning.
pub(crate) fn inspect(repo: &Repo) -> Vec<Finding> {
    let root = repo.main_worktree();
    let warning = |what: String| Finding::warning(Area::Journal, what);
    let lessons = LessonFile::new(&root).read().err().map(|error| warning(with_causes(&error)));
    let file = IdeaFile::new(&root);
    let ideas = match file.read() {
        Ok(backlog) if backlog.damaged == 0 => None,
        Ok(backlog) => {
            let lines = count_of(backlog.damaged, "line");
            Some(warning(format!("cannot parse {lines} of {}", file.path().display())).hint(REPAIR))
        }
        Err(error) => Some(Finding { hint: error.hint(), ..warning(with_causes(&error)) }),
    };
    lessons.into_iter().chain(ideas).collect()
}

/// Removes the damaged lines of the backlog.
pub(crate) fn repair(repairs: &mut Repairs) -> Result<(), SessionError> {
    let file = IdeaFile::new(&repairs.repo.main_worktree());
    if file.read().is_ok_and(|backlog| backlog.damaged > 0) {
        let (path, copy) = (file.path().display(), file.drop_damaged()?);
        repairs.done.push(format!("removed damaged lines from {path} and saved them to {}", copy.display()));
    }
    Ok(())
}
