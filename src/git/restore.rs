//! Putting index and working tree back to a commit.

use gix::bstr::{BString, ByteSlice};

use super::lock::IndexLock;
use super::path::to_path;
use super::worktree::OnDisk;
use super::{Look, Repo, Result, SaveAs, Saved, Untracked, index, plan};
use crate::crash;
use crate::domain::CommitId;

/// What came of putting the working tree back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// The uncommitted changes that had to be cleared away, where there were any.
    pub saved: Option<Saved>,
}

impl Repo {
    /// Puts index and tracked files back to `target`, as `git reset --hard` would; `HEAD` and branches stay where they
    /// are.
    ///
    /// Before anything is changed, what is uncommitted and stands in the way is saved as [`Repo::save`] does. Content
    /// that `save.expected` or `target` has at its path is committed. Untracked files stay, unless they are files of
    /// the expected commit, unchanged. Files are replaced, not written into, and nothing is written through a link.
    /// Running it again after it was killed ends in the same state.
    ///
    /// Files that `known` has were there untracked before the change that is undone: those that still hold what they
    /// held stay, also where the index or the expected commit has them and `target` does not; those that hold something
    /// else are put back as they were, untracked, where their content is kept.
    ///
    /// A file of more than 100 MiB is saved in constant memory, its bytes as they are: no filter is applied to it. Only
    /// a file that `target` itself has in such a size is held in memory, to be written.
    ///
    /// A nested repository where a file must go is left alone: [`super::GitError::RepositoryInTheWay`].
    pub fn restore(&self, target: &CommitId, save: &SaveAs, known: &Untracked) -> Result<Restored> {
        self.restore_after(None, target, save, known)
    }

    /// Does the same after a look at the working tree, which is not walked over again: nobody may have been at work since.
    pub fn restore_after(
        &self,
        look: Option<&Look>,
        target: &CommitId,
        save: &SaveAs,
        known: &Untracked,
    ) -> Result<Restored> {
        let (expected_tree, target_tree) = (self.tree_id(&save.expected)?, self.tree_id(target)?);
        let lock = IndexLock::acquire(&self.gix.index_path())?;
        self.sweep(&lock)?;
        let mut state = self.own_index()?;
        let mut plan = self.plan(&state, (expected_tree, target_tree), known, look)?;
        let saved = self.save_plan(&plan, save)?;
        crash::point("git.restore_planned");

        for path in plan.remove.iter().rev() {
            plan::remove_file(self.worktree(), path)?;
            crash::point("git.file_removed");
        }
        for path in &plan.clear {
            let folder = self.worktree().join(to_path(path.as_ref()));
            if folder.is_dir() {
                plan::remove_empty(&folder)?;
            }
        }
        let writes = std::mem::take(&mut plan.write);
        for (path, version) in &writes {
            plan.edits.set.insert(path.clone(), (*version, Default::default()));
        }
        index::apply(&mut state, plan.edits);
        let mut files = self.checkout_files(&state)?;
        let mut written = index::Edits::default();
        for (path, version) in writes {
            let stat = files.write(path.as_ref(), version)?;
            crash::point("git.file_put_back");
            written.set.insert(path, (version, stat));
        }
        for (path, version) in plan.verify {
            let OnDisk::File(content) = files.read(path.as_ref(), &state)? else { continue };
            if content.version == version && !files.as_checked_out(&content, path.as_bstr())? {
                let stat = files.write(path.as_ref(), version)?;
                written.set.insert(path, (version, stat));
            }
        }
        drop(files);
        for path in &plan.put_back {
            self.put_untracked_back(known, &to_path(path.as_ref()))?;
        }
        crash::point("git.files_put_back");
        let fresh: Vec<BString> = written.set.keys().cloned().collect();
        index::apply(&mut state, written);
        self.write_tree(&mut state, &mut Vec::new())?;
        self.write_index(&lock, state, &fresh)?;
        Ok(Restored { saved })
    }
}
