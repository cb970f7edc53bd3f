//! Files besides results.tsv that all sessions of a repository share: lessons and the backlog of ideas.

use super::difference::Difference;
use crate::domain::{Area, Finding, count_of, with_causes};
use crate::git::Repo;
use crate::state::{IdeaFile, LessonFile};

/// Examines both files. A session continues without them, so damage to them is only a warning.
pub(crate) fn inspect<'a>(repo: &Repo) -> Vec<Difference<'a>> {
    let root = repo.main_worktree();
    let warning = |what: String| Finding::warning(Area::Journal, what);
    let lessons = LessonFile::new(&root).read().err().map(|error| warning(with_causes(&error)).into());
    let file = IdeaFile::new(&root);
    let ideas = match file.read() {
        Ok(backlog) if backlog.damaged == 0 => None,
        Ok(backlog) => {
            let lines = count_of(backlog.damaged, "line");
            let what = format!("cannot parse {lines} of {}", file.path().display());
            Some(Difference::new(warning(what), move |repairs| {
                let (path, copy) = (file.path().display(), file.drop_damaged()?);
                repairs.did(format!("removed damaged lines from {path} and saved them to {}", copy.display()));
                Ok(())
            }))
        }
        Err(error) => Some(Finding { hint: error.hint(), ..warning(with_causes(&error)) }.into()),
    };
    lessons.into_iter().chain(ideas).collect()
}
