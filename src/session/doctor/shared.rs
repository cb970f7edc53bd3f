//! What all sessions of a repository share beside results.tsv: lessons and the backlog of ideas.

use super::facts::REPAIR;
use crate::domain::{Area, Finding, count_of, with_causes};
use crate::git::Repo;
use crate::session::error::SessionError;
use crate::state::{IdeaFile, LessonFile};

/// Looks at both files. A session goes on without them, so that nothing here is worse than a warning.
pub(super) fn look(repo: &Repo) -> Vec<Finding> {
    let root = repo.main_worktree();
    let warning = |what: String| Finding::warning(Area::Journal, what);
    let lessons = LessonFile::new(&root).read().err().map(|error| warning(with_causes(&error)));
    let file = IdeaFile::new(&root);
    let ideas = match file.read() {
        Ok(backlog) if backlog.damaged == 0 => None,
        Ok(backlog) => {
            let lines = count_of(backlog.damaged, "line");
            let what = format!("cannot parse {lines} of {}", file.path().display());
            Some(warning(what).hint(REPAIR))
        }
        Err(error) => Some(Finding { hint: error.hint(), ..warning(with_causes(&error)) }),
    };
    lessons.into_iter().chain(ideas).collect()
}

/// Sets aside damaged lines of the backlog.
pub(super) fn mend(repo: &Repo, done: &mut Vec<String>) -> Result<(), SessionError> {
    let file = IdeaFile::new(&repo.main_worktree());
    if file.read().is_ok_and(|backlog| backlog.damaged > 0) {
        let copy = file.drop_damaged()?;
        done.push(format!("removed damaged lines from {} and saved them to {}", file.path().display(), copy.display()));
    }
    Ok(())
}
