//! One walk over the working tree: which tracked files may have changed, and which files are untracked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::dir::entry::{Kind, Status};
use gix::dir::walk::EmissionMode;
use gix::index::entry::{Mode, Stage};
use gix::index::{Entry, State};
use gix::status::index_worktree::Options;
use gix::status::plumbing::index_as_worktree::traits::{CompareBlobs, ReadData, SubmoduleStatus};
use gix::status::plumbing::index_as_worktree_with_renames as walk;

use super::error::During;
use super::index::{Version, version_at};
use super::path::{to_git, to_path};
use super::propose::ChangeKind;
use super::worktree::OnDisk;
use super::{Look, Repo, Result, Untracked, cache_tree};
use crate::domain::CommitId;

/// What a walk found.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Tracked paths that differ from the index by what the file system says, are in conflict, or are too young to
    /// tell; sorted. Their content decides.
    pub(super) suspects: Vec<BString>,
    /// Files that are neither tracked nor ignored; sorted. Folders are walked into, nested repositories are not.
    pub(super) untracked: Vec<BString>,
    /// Folders with a repository of their own that are neither tracked nor ignored; sorted.
    pub(super) nested: Vec<BString>,
}

/// The state of the working tree as `git status` sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Tracked files that differ from `HEAD`, staged or not, with how they do; sorted by path.
    pub tracked: Vec<(PathBuf, ChangeKind)>,
    /// Files that are neither tracked nor ignored.
    pub untracked: Untracked,
}

/// Leaves all comparing to the caller, who reads each changed file once and keeps what it is.
#[derive(Clone)]
struct Suspect;

impl CompareBlobs for Suspect {
    type Output = ();

    fn compare_blobs<'a, 'b>(
        &mut self,
        _entry: &Entry,
        _size: u64,
        _data: impl ReadData<'a>,
        _buffer: &mut Vec<u8>,
    ) -> gix::Result<Option<()>> {
        Ok(Some(()))
    }
}

/// Submodules are left as they are.
#[derive(Clone)]
struct LeaveSubmodules;

impl SubmoduleStatus for LeaveSubmodules {
    type Output = ();

    fn status(&mut self, _entry: &Entry, _path: &BStr) -> gix::Result<Option<()>> {
        Ok(None)
    }
}

impl Repo {
    /// Walks over the tracked files, and over all others `with_untracked`.
    pub(super) fn scan(&self, index: &State, with_untracked: bool) -> Result<Scan> {
        const WHAT: &str = "looking at the working tree";
        if let Some(scan) = self.walk(index, with_untracked)? {
            return Ok(scan);
        }
        if with_untracked {
            self.refuse_odd_own_files()?;
        }
        let dirwalk_options = match with_untracked {
            true => Some(self.gix.dirwalk_options().during(WHAT)?.emit_untracked(EmissionMode::Matching)),
            false => None,
        };
        let mut found = walk::Recorder::default();
        self.gix
            .index_worktree_status(
                index,
                None::<&BStr>,
                &mut found,
                Suspect,
                LeaveSubmodules,
                &mut gix::progress::Discard,
                &AtomicBool::new(false),
                Options {
                    sorting: None,
                    dirwalk_options,
                    rewrites: None,
                    thread_limit: threads(index.entries().len()),
                },
            )
            .during(WHAT)?;
        let mut scan = Scan::default();
        for record in found.records {
            match record {
                walk::Entry::Modification { rela_path, .. } => scan.suspects.push(rela_path.to_owned()),
                walk::Entry::DirectoryContents { entry, .. } => match entry.disk_kind {
                    _ if entry.status != Status::Untracked => {}
                    Some(Kind::File | Kind::Symlink) => scan.untracked.push(entry.rela_path),
                    Some(Kind::Repository) => scan.nested.push(entry.rela_path),
                    _ => {}
                },
                walk::Entry::Rewrite { .. } => {}
            }
        }
        scan.suspects.sort();
        scan.suspects.dedup();
        scan.untracked.sort();
        scan.nested.sort();
        Ok(scan)
    }

    /// What differs from `HEAD` in index or working tree, and what is untracked.
    pub fn changes(&self) -> Result<Changes> {
        self.refuse_odd_files()?;
        self.changes_seen(&self.look()?)
    }

    /// The same after a look at the working tree.
    pub fn changes_seen(&self, Look { scan }: &Look) -> Result<Changes> {
        let index = self.index()?;
        let head = match self.head()?.commit() {
            Some(commit) => self.tree_id(commit)?,
            None => self.gix.empty_tree().id,
        };
        let mut tracked = BTreeMap::new();
        for (path, Sides { tree, index }) in self.index_against(&index, head)? {
            tracked.insert(path, kind(tree, index));
        }
        let mut files = self.files(&index)?;
        for path in &scan.suspects {
            let staged = version_at(&index, path.as_ref());
            if staged.is_some_and(|(mode, _)| mode == Mode::COMMIT) {
                continue;
            }
            let now = match files.read(path.as_ref(), &index)? {
                OnDisk::File(content) => Some(content.version),
                OnDisk::Large(large) => Some(files.large_version(path.as_ref(), &large, &index)?),
                OnDisk::Absent | OnDisk::Other => None,
            };
            let conflict = index.entry_by_path_and_stage(path.as_ref(), Stage::Unconflicted).is_none();
            if now != staged || conflict {
                let committed = if tracked.contains_key(path) { self.version_in(head, path.as_ref())? } else { staged };
                tracked.insert(path.clone(), kind(committed, now));
            }
        }
        let tracked = tracked.into_iter().map(|(path, kind)| (to_path(path.as_ref()), kind)).collect();
        Ok(Changes { tracked, untracked: Untracked::stamp(self.worktree(), &scan.untracked)? })
    }

    /// Whether a path, relative to the working tree, is in the index or in `HEAD`; a folder is when a file in it is.
    pub fn is_tracked(&self, path: &Path) -> Result<bool> {
        let path = to_git(path)?;
        let index = self.index()?;
        if index.entry_by_path(path.as_ref()).is_some() || index.path_is_directory(path.as_ref()) {
            return Ok(true);
        }
        self.head()?.commit().map_or(Ok(false), |commit| self.is_in(commit, &to_path(path.as_ref())))
    }

    /// Whether a commit has a file or folder at a path.
    pub fn is_in(&self, commit: &CommitId, path: &Path) -> Result<bool> {
        Ok(self.entry_in(self.tree_id(commit)?, to_git(path)?.as_ref())?.is_some())
    }

    /// What a tree has at a path; nothing for a folder.
    pub(super) fn version_in(&self, tree: ObjectId, path: &BStr) -> Result<Option<Version>> {
        Ok(self.entry_in(tree, path)?.filter(|(mode, _)| *mode != Mode::DIR))
    }

    /// The name of a folder's tree in a tree.
    pub(super) fn folder_in(&self, tree: ObjectId, path: &BStr) -> Result<Option<ObjectId>> {
        Ok(self.entry_in(tree, path)?.filter(|(mode, _)| *mode == Mode::DIR).map(|(_, id)| id))
    }

    fn entry_in(&self, tree: ObjectId, path: &BStr) -> Result<Option<Version>> {
        const WHAT: &str = "reading a tree";
        let tree = self.gix.find_tree(tree).during(WHAT)?;
        let entry = tree.lookup_entry(path.split_str("/")).during(WHAT)?;
        Ok(entry.map(|entry| (Mode::from(entry.mode()), entry.object_id())))
    }

    /// Where the index differs from a tree, by path. A path in conflict always does.
    pub(super) fn index_against(&self, index: &State, tree: ObjectId) -> Result<BTreeMap<BString, Sides>> {
        let mut differences = BTreeMap::new();
        if cache_tree::root(index) == Some(tree) {
            return Ok(differences);
        }
        let wanted = self.gix.index_from_tree(&tree).during("reading a tree")?;
        for entry in wanted.entries() {
            let path = entry.path(&wanted);
            let tree = Some((entry.mode, entry.id));
            let index = version_at(index, path);
            if tree != index {
                differences.insert(path.to_owned(), Sides { tree, index });
            }
        }
        for entry in index.entries() {
            let path = entry.path(index);
            if wanted.entry_by_path(path).is_none() {
                differences.insert(path.to_owned(), Sides { tree: None, index: version_at(index, path) });
            }
        }
        Ok(differences)
    }
}

/// How many threads look at so many files; as many as there are processors when absent. To start one costs as much as to look
/// at some hundred files.
fn threads(files: usize) -> Option<usize> {
    const FILES: usize = 1000;
    (files < FILES).then_some(1)
}

/// One path in a tree and in the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sides {
    pub(super) tree: Option<Version>,
    pub(super) index: Option<Version>,
}

/// How a file differs. Neither side has it only when it is meant to be added, or in conflict.
pub(super) fn kind(old: Option<Version>, new: Option<Version>) -> ChangeKind {
    let file = |mode| matches!(mode, Mode::FILE | Mode::FILE_EXECUTABLE);
    match (old, new) {
        (None, _) => ChangeKind::Added,
        (Some(_), None) => ChangeKind::Deleted,
        (Some((old, _)), Some((new, _))) if old == new || (file(old) && file(new)) => ChangeKind::Modified,
        _ => ChangeKind::TypeChanged,
    }
}
