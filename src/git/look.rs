//! One look at the working tree that serves several steps, as long as nobody is at work in between.

use gix::bstr::{BString, ByteSlice};

use super::scan::Scan;
use super::{Repo, Result, Untracked};
use crate::domain::CommitId;

/// What a walk over the working tree found: which tracked files may differ from the index, and which files are untracked.
#[derive(Debug)]
pub struct Look {
    pub(super) scan: Scan,
}

impl Repo {
    /// Looks at the working tree. Pipes in the place of ignore and attribute files are waited for.
    pub fn look(&self) -> Result<Look> {
        Ok(Look { scan: self.scan(&*self.index()?, true)? })
    }

    /// Whether a look is still right about untracked files when the working tree was brought from one commit to another
    /// since: what is ignored is the same.
    pub fn look_outlasts(&self, look: &Look, from: &CommitId, to: &CommitId) -> Result<bool> {
        let ignores = |path: &BString| path.rsplit(|byte| *byte == b'/').next() == Some(b".gitignore");
        let changes = self.tree_changes(self.tree_id(from)?, self.tree_id(to)?)?;
        Ok(!look.scan.suspects.iter().any(ignores) && !changes.iter().any(|change| ignores(&change.path)))
    }

    /// The untracked files as [`Repo::untracked`] gives them, without another walk: those that `look` found and those of
    /// `before` that are there, unless the index has them by now.
    pub fn untracked_seen(&self, before: &Untracked, look: &Look) -> Result<Untracked> {
        let index = self.index()?;
        let mut paths = [&look.scan.untracked[..], &look.scan.nested].concat();
        for path in before.paths() {
            paths.push(super::path::to_git(path)?);
        }
        paths.sort();
        paths.dedup();
        paths.retain(|path| index.entry_range(path.as_bstr()).is_none());
        self.keep_contents(Untracked::stamp(self.worktree(), &paths)?, before)
    }
}
