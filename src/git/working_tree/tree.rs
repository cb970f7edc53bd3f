//! The working tree, and what its other parts share.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use gix::bstr::{BStr, BString};
use gix::index::entry::Mode;
use gix::worktree::stack::state::ignore::Source;

use super::odd::QuietFolders;
use super::untracked::KeptFiles;
use crate::fs::OWN_FOLDER;
use crate::git::error::{During, Result};
use crate::git::index::{Index, Staged};
use crate::git::objects::Objects;
use crate::git::path::to_git;
use crate::git::programs::Programs;
use crate::git::refs::Refs;

const WHAT: &str = "looking for ignored files";

/// The files of a working tree: it alone writes them, and only to restore a commit.
///
/// Folders are read again when they have changed.
pub struct WorkingTree {
    pub(super) gix: Rc<gix::Repository>,
    pub(super) root: PathBuf,
    pub(super) objects: Rc<Objects>,
    pub(super) refs: Rc<Refs>,
    pub(super) index: Rc<Index>,
    /// State of filters that may be running.
    pub(super) programs: Arc<Programs>,
    /// The content of untracked files.
    pub(super) kept: KeptFiles,
    /// Folders in which no odd file can be.
    pub(super) quiet_folders: RefCell<QuietFolders>,
    /// A file of the user's that is left as it is.
    left_alone: RefCell<Option<BString>>,
}

impl WorkingTree {
    /// The working tree at `root`.
    pub(in crate::git) fn new(
        gix: Rc<gix::Repository>,
        root: PathBuf,
        (objects, refs, index): (Rc<Objects>, Rc<Refs>, Rc<Index>),
        programs: Arc<Programs>,
    ) -> WorkingTree {
        let kept = KeptFiles::new(root.clone(), gix.git_dir().to_owned(), Rc::clone(&objects));
        let quiet_folders = RefCell::default();
        WorkingTree { gix, root, objects, refs, index, programs, kept, quiet_folders, left_alone: RefCell::default() }
    }

    /// Leaves a tracked file as the user has it from now on: it is no change and in no proposal, and nothing puts it back.
    pub fn leave_alone(&self, path: &Path) -> Result<()> {
        *self.left_alone.borrow_mut() = Some(to_git(path)?);
        Ok(())
    }

    /// Returns whether a path is left as it is.
    pub(super) fn is_left_alone(&self, path: &BStr) -> bool {
        self.left_alone.borrow().as_ref().is_some_and(|left| left == path)
    }

    /// Returns the rules by which a path is ignored: ignore files of the working tree, and those that git's settings
    /// name.
    pub(super) fn ignores(&self, staged: &Staged) -> Result<gix::AttributeStack<'_>> {
        self.gix.excludes(staged, None, Source::WorktreeThenIdMappingIfNotSkipped).during("reading ignore files")
    }

    /// Returns whether git ignores a file of the working tree.
    pub fn is_ignored(&self, path: &Path) -> Result<bool> {
        let staged = self.index.read()?;
        let is_tracked = staged.entry_by_path(to_git(path)?.as_ref()).is_some();
        Ok(!is_tracked && self.ignores(&staged)?.at_path(path, Some(Mode::FILE)).during(WHAT)?.is_excluded())
    }

    /// Returns whether git skips `ar`'s own folder.
    pub(super) fn ignores_own(&self) -> Result<bool> {
        let staged = self.index.read()?;
        let mut excludes = self.ignores(&staged)?;
        Ok(excludes.at_path(OWN_FOLDER, Some(Mode::DIR)).during(WHAT)?.is_excluded())
    }
}
