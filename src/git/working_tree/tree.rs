//! The working tree, what its other parts share, and pipes in the place of files, on which git would wait for ever.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use gix::bstr::{BStr, BString, ByteSlice};
use gix::index::entry::Mode;
use gix::worktree::stack::state::ignore::Source;

use crate::fs::{FileStamp, OWN_FOLDER, is_irregular, read_at_most};
use crate::git::{During, GitError, Index, Objects, REF_LOCKS, Refs, Result, Staged, to_git, to_path};

const WHAT: &str = "looking for ignored files";

/// The files of a working tree: it alone writes them, and only to restore a commit.
///
/// Folders are read again when they have changed.
pub struct WorkingTree {
    pub(super) gix: Rc<gix::Repository>,
    /// The same, with the settings by which files are converted.
    pub(in crate::git) converting: Rc<gix::Repository>,
    pub(super) root: PathBuf,
    pub(super) objects: Rc<Objects>,
    pub(super) refs: Rc<Refs>,
    pub(super) index: Rc<Index>,
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
    ) -> WorkingTree {
        let quiet_folders = RefCell::default();
        let (converting, left_alone) = (Rc::clone(&gix), RefCell::default());
        WorkingTree { gix, converting, root, objects, refs, index, quiet_folders, left_alone }
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

/// Git's own files, without which there is no repository, or none with this history.
const OWN: [&str; 4] = ["HEAD", "config", "index", "packed-refs"];

/// Other files of a git folder that git reads.
const MORE: [&str; 5] = ["config.worktree", "shallow", "info/attributes", "info/exclude", REF_LOCKS];

/// The files of a working tree that git reads wherever they are.
const IN_WORKTREE: [&str; 4] = [".gitignore", ".gitattributes", ".gitmodules", ".git"];

/// Folders of the working tree in which there is nothing to look for as long as they do not change.
pub(super) type QuietFolders = HashMap<PathBuf, FileStamp>;

/// Most bytes read of a file that leads to another folder.
const POINTER: u64 = 64 * 1024;

/// Lists non-regular files in place of ignore and attribute files of the working tree at `root` that git would open
/// blindly. Reads each folder, ignored ones too, but looks only at files with those names. Reads a known folder without
/// subfolders again only once its times show that something was added or removed. Calls `passes_over_own`, which says
/// whether git skips `ar`'s own folder, only if it matters.
pub(super) fn odd_below(
    root: &Path,
    quiet_folders: &RefCell<QuietFolders>,
    passes_over_own: impl Fn() -> bool,
) -> Vec<PathBuf> {
    let mut odd = Vec::new();
    let (before, mut quiet) = (quiet_folders.take(), QuietFolders::new());
    let (mut folders, own) = (vec![root.to_owned()], root.join(OWN_FOLDER));
    while let Some(folder) = folders.pop() {
        let stamp = FileStamp::of(&folder);
        if let Some(stamp) = stamp
            && before.get(&folder) == Some(&stamp)
        {
            quiet.insert(folder, stamp);
            continue;
        }
        // A fresh change may be followed by another within the same tick of the file system's clock.
        let settled = stamp.filter(FileStamp::is_settled);
        let (mut is_quiet, mut has_own, below) = (true, false, folders.len());
        for entry in entries(&folder) {
            let Ok(kind) = entry.file_type() else { continue };
            let is_read = || IN_WORKTREE.iter().any(|name| entry.file_name() == *name);
            if !kind.is_dir() {
                if kind.is_file() || !is_read() {
                    continue;
                }
                // A link's target can change without the folder.
                is_quiet = false;
                if fs::metadata(entry.path()).is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
                    odd.push(entry.path());
                }
            } else if entry.file_name() == OWN_FOLDER && folder == root {
                (is_quiet, has_own) = (false, true);
            } else if entry.file_name() != ".git" {
                folders.push(entry.path());
            } else if folder != root {
                odd.extend(irregular_in(&entry.path()));
                is_quiet = false;
            }
        }
        // Reading ignore files is safe only while no odd file was found.
        if has_own && !(odd.is_empty() && passes_over_own()) {
            folders.push(own.clone());
        }
        if let Some(stamp) = settled
            && is_quiet
            && folders.len() == below
        {
            quiet.insert(folder, stamp);
        }
    }
    quiet_folders.replace(quiet);
    odd
}

/// Refuses the repository that `dir` is in where one of its own files would be waited for.
pub(in crate::git) fn refuse_odd_repository(dir: &Path) -> Result<()> {
    let given = std::env::var_os("GIT_DIR").map(PathBuf::from);
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let found = || dir.ancestors().map(|dir| dir.join(".git")).find(|git| git.exists());
    let Some(git) = given.or_else(found) else { return Ok(()) };
    if !git.is_dir() && is_irregular(&git) {
        return refuse(vec![git]);
    }
    let git = if git.is_dir() { git } else { pointed_to(&git) };
    let mut odd = irregular_in(&git);
    let common = git.join("commondir");
    if common.is_file() {
        odd.extend(irregular_in(&pointed_to(&common)));
    }
    refuse(odd)
}

/// Refuses what was found, by the first of it.
pub(super) fn refuse(odd: Vec<PathBuf>) -> Result<()> {
    odd.into_iter().next().map_or(Ok(()), |path| Err(GitError::NoFile(path)))
}

/// The folder that a file names, relative to its own one: `gitdir: ../.git/worktrees/x`, or the path alone.
fn pointed_to(file: &Path) -> PathBuf {
    let content = read_at_most(file, POINTER).unwrap_or_default();
    let path = content.strip_prefix(b"gitdir: ").unwrap_or(&content).trim_end();
    file.parent().unwrap_or(Path::new(".")).join(to_path(path.as_bstr()))
}

/// Non-regular files in a git folder that git would open blindly.
pub(in crate::git) fn irregular_in(git: &Path) -> Vec<PathBuf> {
    OWN.iter().chain(&MORE).map(|name| git.join(name)).filter(|path| is_irregular(path)).collect()
}

/// Lists a folder; empty if it cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}
