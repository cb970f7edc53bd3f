//! The index as it was read or written last: read again only when its file has changed.

use std::cell::RefCell;
use std::fs;
use std::sync::Arc;

use filetime::FileTime;
use gix::index::State;
use gix::index::entry::Flags;

use super::error::{At, During};
use super::index::with_cache_tree;
use super::{Repo, Result, worktree};
use crate::fs::FileStamp;

/// An index, and what its file looks like.
#[derive(Default)]
pub(super) struct IndexCache(RefCell<Option<(FileStamp, Arc<State>)>>);

impl Repo {
    /// The index, for reading; one that does not exist is empty.
    ///
    /// Marks that hide a change of the working tree (`assume-unchanged`, and `skip-worktree` on a file that is there)
    /// are taken off: what is measured is what is on disk.
    pub(super) fn index(&self) -> Result<Arc<State>> {
        let stamp = FileStamp::of(&self.gix.index_path());
        if let Some((known, state)) = &*self.index.0.borrow()
            && Some(*known) == stamp
        {
            return Ok(Arc::clone(state));
        }
        let (state, may_be_kept) = self.read_index()?;
        let state = Arc::new(state);
        if let Some(stamp) = stamp.filter(|_| may_be_kept) {
            self.index.0.replace(Some((stamp, Arc::clone(&state))));
        }
        Ok(state)
    }

    /// The same for whoever changes it.
    pub(super) fn own_index(&self) -> Result<State> {
        let state = self.index()?;
        self.index.0.take();
        Ok(Arc::try_unwrap(state).unwrap_or_else(|shared| State::clone(&shared)))
    }

    /// Keeps the index that was just written, for the holder of its lock.
    pub(super) fn keep_index(&self, mut state: State) -> Result<()> {
        let path = self.gix.index_path();
        let written = fs::metadata(&path).at("reading", &path)?;
        state.set_timestamp(FileTime::from_last_modification_time(&written));
        if let Some(stamp) = FileStamp::of(&path).filter(|_| !has_skipped(&state)) {
            self.index.0.replace(Some((stamp, Arc::new(state))));
        }
        Ok(())
    }

    /// Reads the index; whether it may be kept: with files that are marked as left out it is to be looked anew each time
    /// which of them are there.
    fn read_index(&self) -> Result<(State, bool)> {
        let path = self.gix.index_path();
        let mut state = match path.try_exists().at("reading", &path)? {
            true => self.gix.open_index().during("reading the index")?.into_parts().0,
            false => State::new(self.gix.object_hash()),
        };
        if state.tree().is_none() {
            state = with_cache_tree(state)?;
        }
        let may_be_kept = !has_skipped(&state);
        let (entries, paths) = state.entries_mut_and_pathbacking();
        for entry in entries {
            entry.flags.remove(Flags::ASSUME_VALID);
            if entry.flags.contains(Flags::SKIP_WORKTREE)
                && worktree::lstat(self.worktree(), entry.path_in(paths))?.is_some()
            {
                entry.flags.remove(Flags::SKIP_WORKTREE | Flags::EXTENDED);
            }
        }
        Ok((state, may_be_kept))
    }
}

/// Whether files are marked as left out of the working tree.
pub(super) fn has_skipped(state: &State) -> bool {
    state.entries().iter().any(|entry| entry.flags.contains(Flags::SKIP_WORKTREE))
}
