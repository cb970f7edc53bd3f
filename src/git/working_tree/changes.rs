//! Differences between the working tree and a commit: changed files, untracked ones, and stamps of all tracked files, which
//! show even a change that was undone before the next look.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use gix::bstr::{BString, ByteSlice};
use gix::index::entry::{Mode, Stage};

use super::walk::{Scan, ignored, unknown, walk};
use super::{Since, TreeFiles, odd_below, refuse};
use crate::domain::CommitId;
use crate::fs::{FileStamp, OWN_FOLDER, absent, remove_all};
use crate::git::path::{lstat, to_git, to_path};
use crate::git::{At, ChangeKind, Edits, Head, MissingFiles, Result, Sides, Staged, Untracked, WorkingTree};

/// The result of a walk over the working tree: tracked files that may differ from the index, and untracked files.
/// Several steps can use it, as long as no process changes files in between.
#[derive(Debug)]
pub struct WorktreeSnapshot {
    pub(super) scan: Scan,
    /// The stamps of tracked files.
    pub(super) stamps: TreeStamps,
}

/// The state of the working tree as `git status` sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Tracked files that differ from `HEAD`, staged or not, with how they do; sorted by path.
    pub tracked: Vec<(PathBuf, ChangeKind)>,
    /// Files that are neither tracked nor ignored.
    pub untracked: Untracked,
}

impl Changes {
    /// The tracked files that differ.
    pub fn tracked_paths(&self) -> Vec<PathBuf> {
        self.tracked.iter().map(|(path, _)| path.clone()).collect()
    }

    /// The files that differ as they did not `before`, untracked ones by their stamps; as text, sorted.
    pub fn since(&self, before: &Changes) -> Vec<String> {
        let tracked = self.tracked_paths().into_iter().filter(|path| !before.tracked_paths().contains(path));
        let is_new = |path: &&Path| self.untracked.get(path) != before.untracked.get(path);
        let untracked = self.untracked.paths().filter(is_new).map(Path::to_owned);
        let mut paths: Vec<String> = tracked.chain(untracked).map(|path| path.display().to_string()).collect();
        paths.sort();
        paths
    }
}

/// Files with their stamps, and folders.
type Listing = (Vec<(PathBuf, FileStamp)>, Vec<PathBuf>);

impl WorkingTree {
    /// Walks over the working tree. Pipes in place of ignore and attribute files are waited for.
    pub fn look(&self) -> Result<WorktreeSnapshot> {
        let index = self.index.read()?;
        let scan = walk(self, &index, true)?;
        Ok(WorktreeSnapshot { stamps: TreeStamps::of(&index, &scan), scan })
    }

    /// Returns whether a look is still right about untracked files after the working tree moved from one commit to
    /// another: the same files are ignored.
    pub fn look_outlasts(&self, look: &WorktreeSnapshot, from: &CommitId, to: &CommitId) -> Result<bool> {
        let ignores = |path: &BString| path.rsplit(|byte| *byte == b'/').next() == Some(b".gitignore");
        let changes = self.objects.tree_changes(self.objects.tree_id(from)?, self.objects.tree_id(to)?)?;
        Ok(!look.scan.suspects.iter().any(ignores) && !changes.iter().any(|change| ignores(&change.path)))
    }

    /// Finds the differences between `HEAD` and index or working tree, and the untracked files.
    pub fn changes(&self) -> Result<Changes> {
        self.refuse_odd_files()?;
        self.changes_seen(&self.look()?)
    }

    /// The same after a look at the working tree.
    pub fn changes_seen(&self, WorktreeSnapshot { scan, .. }: &WorktreeSnapshot) -> Result<Changes> {
        let staged = self.index.read()?;
        let head = match self.refs.head()?.commit() {
            Some(commit) => self.objects.tree_id(commit)?,
            None => self.gix.empty_tree().id,
        };
        let mut tracked = BTreeMap::new();
        for (path, Sides { tree, index }) in self.index.against(&staged, head)? {
            tracked.insert(path, ChangeKind::of(tree, index));
        }
        let mut files = TreeFiles::to_read(self, &staged)?;
        for path in &scan.suspects {
            let known = staged.version_at(path.as_ref());
            if known.is_some_and(|(mode, _)| mode == Mode::COMMIT) {
                continue;
            }
            let now = files.version(path.as_ref(), &staged)?;
            let conflict = staged.entry_by_path_and_stage(path.as_ref(), Stage::Unconflicted).is_none();
            if now != known || conflict {
                let committed =
                    if tracked.contains_key(path) { self.objects.version_in(head, path.as_ref())? } else { known };
                tracked.insert(path.clone(), ChangeKind::of(committed, now));
            }
        }
        tracked.retain(|path, _| !self.is_left_alone(path.as_ref()));
        let tracked = tracked.into_iter().map(|(path, kind)| (to_path(path.as_ref()), kind)).collect();
        Ok(Changes { tracked, untracked: Untracked::stamp(&self.root, &scan.untracked)? })
    }

    /// Returns whether a path, relative to the working tree, is in the index or in `HEAD`. A folder is if a file in it
    /// is.
    pub fn is_tracked(&self, path: &Path) -> Result<bool> {
        let path = to_git(path)?;
        if self.index.has(path.as_ref())? {
            return Ok(true);
        }
        let head = self.refs.head_if_sound()?;
        let commit = head.as_ref().and_then(Head::commit);
        commit.map_or(Ok(false), |commit| self.objects.is_in(commit, &to_path(path.as_ref())))
    }

    /// Lists all files, and folders with a repository of their own, that are neither tracked nor ignored.
    ///
    /// Keeps their content in the repository, so that [`WorkingTree::restore`] can restore it: that of the smallest
    /// ones, up to 1 MiB each, 64 MiB and 4,096 files in all. Does not read a file that `before` has with the same
    /// stamp. Kept content is not synced, because the files themselves still exist.
    pub fn untracked(&self, before: &Untracked) -> Result<Untracked> {
        let scan = walk(self, &*self.index.read()?, true)?;
        let paths = [scan.untracked, scan.nested].concat();
        self.keep(Untracked::stamp(&self.root, &paths)?, before)
    }

    /// The untracked files as [`WorkingTree::untracked`] gives them, without another walk: those that `look` found and those of
    /// `before` that are there, unless the index has them by now.
    pub fn untracked_seen(&self, before: &Untracked, look: &WorktreeSnapshot) -> Result<Untracked> {
        let staged = self.index.read()?;
        let mut paths = [&look.scan.untracked[..], &look.scan.nested].concat();
        for path in before.paths() {
            paths.push(to_git(path)?);
        }
        paths.sort();
        paths.dedup();
        paths.retain(|path| staged.entry_range(path.as_bstr()).is_none());
        self.keep(Untracked::stamp(&self.root, &paths)?, before)
    }

    /// Takes those of `known` out of the index that somebody staged or committed as they were, and files that are no part of
    /// any change, unless `base` has them: to stage everything makes nobody's file part of a change.
    pub fn unstage(&self, base: &CommitId, known: &Untracked, is_own: impl Fn(&Path) -> bool) -> Result<()> {
        let (staged, base) = (self.index.read()?, self.objects.tree_id(base)?);
        let mut edits = Edits::default();
        for path in known.paths() {
            let name = to_git(path)?;
            if staged.entry_range(name.as_ref()).is_some()
                && self.objects.version_in(base, name.as_ref())?.is_none()
                && matches!(self.since(known, path)?, Since::Unchanged)
            {
                edits.remove.insert(name);
            }
        }
        for entry in staged.entries() {
            let name = entry.path(&staged);
            if is_own(&to_path(name)) && self.objects.version_in(base, name)?.is_none() {
                edits.remove.insert(name.to_owned());
            }
        }
        if edits.remove.is_empty() {
            return Ok(());
        }
        drop(staged);
        let mut staged = self.index.own()?;
        staged.apply(edits, None);
        self.index.write(&self.index.lock()?, staged, &[])
    }

    /// Puts back those of `known` that are gone, untracked, as far as their content is kept.
    pub fn restore_missing(&self, known: &Untracked) -> Result<MissingFiles> {
        let is_gone = |path: &Path| matches!(fs::symlink_metadata(self.root.join(path)), Err(err) if absent(&err));
        let mut restore = MissingFiles::default();
        for (path, stamp) in known.stamps().filter(|(path, _)| is_gone(path)) {
            self.put_back(known, path)?;
            let fate = match stamp.content {
                _ if !is_gone(path) => &mut restore.back,
                Some(_) => &mut restore.copy_gone,
                None => &mut restore.not_kept,
            };
            fate.push(path.to_owned());
        }
        Ok(restore)
    }

    /// The ignored files and folders of the working tree, without what is in those folders; sorted.
    pub fn ignored(&self) -> Result<Vec<PathBuf>> {
        let ignored = ignored(self, &*self.index.read()?)?;
        Ok(ignored.into_iter().map(|path| to_path(path.as_ref())).collect())
    }

    /// Removes all that is not tracked from the working tree, ignored files and repositories among it. Links are removed and
    /// not followed.
    pub fn remove_untracked(&self) -> Result<()> {
        for path in unknown(self, &*self.index.read()?)? {
            let path = self.root.join(to_path(path.as_ref()));
            remove_all(&path).at("removing", &path)?;
        }
        Ok(())
    }

    /// The ignored files of the working tree, at most `limit`, those near its root first. `ar`'s own are left out, and so is
    /// bytecode, which Python writes whenever it likes.
    pub fn ignored_files(&self, limit: usize) -> Result<Vec<PathBuf>> {
        let passes_over = |path: &Path, _: &fs::Metadata| path.ends_with("__pycache__") || path.ends_with(".git");
        let (files, _) = self.list_below(self.ignored()?, limit, passes_over);
        Ok(files.into_iter().map(|(path, _)| path).collect())
    }

    /// The files that git does not track, ignored ones among them, at most `limit`, those near the root first; and the folders
    /// in which nothing is tracked. Leaves out what `passes_over` names.
    pub fn unknown_files(&self, limit: usize, passes_over: impl Fn(&Path, &fs::Metadata) -> bool) -> Result<Listing> {
        let unknown = unknown(self, &*self.index.read()?)?;
        Ok(self.list_below(unknown.into_iter().map(|path| to_path(path.as_ref())).collect(), limit, passes_over))
    }

    /// The files and folders at and below these paths, level by level; stops at `limit` files.
    fn list_below(
        &self,
        paths: Vec<PathBuf>,
        limit: usize,
        passes_over: impl Fn(&Path, &fs::Metadata) -> bool,
    ) -> Listing {
        let mut queue = VecDeque::from(paths);
        let (mut files, mut folders) = (Vec::new(), Vec::new());
        while let Some(path) = queue.pop_front() {
            let full = self.root.join(&path);
            let Ok(meta) = full.symlink_metadata() else { continue };
            if passes_over(&path, &meta) {
                continue;
            }
            if !meta.is_dir() {
                files.push((path, FileStamp::from_metadata(&meta)));
                if files.len() == limit {
                    break;
                }
                continue;
            }
            let entries = fs::read_dir(full).into_iter().flatten().flatten();
            queue.extend(entries.map(|entry| path.join(entry.file_name())));
            folders.push(path);
        }
        (files, folders)
    }

    /// Lists non-regular files in place of ignore and attribute files of the working tree that git would open blindly.
    /// Skips `ar`'s own folder, which has a folder for each run, if git reads nothing in it: it is ignored, and neither
    /// tracked nor in `base`.
    pub fn odd_worktree_files(&self, base: Option<&CommitId>) -> Vec<PathBuf> {
        let passes_over = || self.passes_over_own(base).unwrap_or(false);
        odd_below(&self.root, &self.quiet_folders, passes_over)
    }

    /// Refuses a working tree with such files, by the first of them.
    pub fn refuse_odd_files(&self) -> Result<()> {
        refuse(self.odd_worktree_files(None))
    }

    fn passes_over_own(&self, base: Option<&CommitId>) -> Result<bool> {
        let own = Path::new(OWN_FOLDER);
        let is_in_base = || base.map_or(Ok(false), |base| self.objects.is_in(base, own));
        Ok(self.ignores_own()? && !self.is_tracked(own)? && !is_in_base()?)
    }
}

/// The inode, size and change time of a file. Whoever owns the file cannot set the last one back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InodeStamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl InodeStamp {
    #[expect(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "the types of the fields differ by system")]
    pub(super) fn of(there: &rustix::fs::Stat) -> InodeStamp {
        InodeStamp {
            inode: there.st_ino as u64,
            size: there.st_size as u64,
            changed: (there.st_ctime as i64, there.st_ctime_nsec as i64),
        }
    }

    /// Reads the stamp of the entry at a path; `None` if it is missing or below a link.
    fn at(root: &Path, path: &BString) -> Result<Option<InodeStamp>> {
        if lstat(root, path.as_ref())?.is_none() {
            return Ok(None);
        }
        Ok(rustix::fs::lstat(root.join(to_path(path.as_ref()))).ok().as_ref().map(InodeStamp::of))
    }
}

/// The stamps of all tracked files at one moment; `None` for a missing file.
///
/// Two changes are invisible: a second change of a file within one tick of the file system's clock (some milliseconds),
/// and a folder that was moved away and back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeStamps {
    /// Sorted by path.
    files: Vec<(BString, Option<InodeStamp>)>,
}

impl TreeStamps {
    pub(super) fn of(index: &Staged, scan: &Scan) -> TreeStamps {
        let stamped = scan.stamps.iter().map(|(at, stamp)| (&index.entries()[*at], *stamp));
        let files = stamped.filter(|(entry, _)| entry.mode != Mode::COMMIT);
        let mut files: Vec<_> = files.map(|(entry, stamp)| (entry.path(index).to_owned(), stamp)).collect();
        files.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        files.dedup_by(|(one, _), (other, _)| one == other);
        TreeStamps { files }
    }

    /// Leaves out the files that the index has no more.
    pub(super) fn without(mut self, removed: &BTreeSet<BString>) -> TreeStamps {
        self.files.retain(|(path, _)| !removed.contains(path));
        self
    }

    fn get(&self, path: &BString) -> Option<Option<InodeStamp>> {
        let at = self.files.binary_search_by(|(known, _)| known.cmp(path)).ok()?;
        Some(self.files[at].1)
    }

    /// The stamps as bytes, for [`TreeStamps::parse`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.files.len() * 80);
        for (path, stamp) in &self.files {
            let written = match stamp {
                Some(InodeStamp { inode, size, changed: (seconds, nanoseconds) }) => {
                    write!(bytes, "{inode} {size} {seconds} {nanoseconds} ")
                }
                None => write!(bytes, "- - - - "),
            };
            // Nothing fails in memory.
            debug_assert!(written.is_ok());
            bytes.extend_from_slice(path);
            bytes.push(0);
        }
        bytes
    }

    /// Reads what [`TreeStamps::to_bytes`] gave; `None` where anything else stands there.
    pub fn parse(bytes: &[u8]) -> Option<TreeStamps> {
        let entries = bytes.strip_suffix(b"\0").unwrap_or(bytes).split(|byte| *byte == 0);
        let mut files = Vec::new();
        for entry in entries.filter(|entry| !entry.is_empty()) {
            let mut parts = entry.splitn(5, |byte| *byte == b' ');
            let mut word = || std::str::from_utf8(parts.next()?).ok();
            let words = [word()?, word()?, word()?, word()?];
            let stamp = match words {
                ["-", ..] => None,
                [inode, size, seconds, nanoseconds] => Some(InodeStamp {
                    inode: inode.parse().ok()?,
                    size: size.parse().ok()?,
                    changed: (seconds.parse().ok()?, nanoseconds.parse().ok()?),
                }),
            };
            files.push((BString::from(parts.next()?), stamp));
        }
        files.is_sorted_by(|(one, _), (other, _)| one < other).then_some(TreeStamps { files })
    }
}

impl WorkingTree {
    /// Reads the stamps of all tracked files: those in the index, and those of `commit` that were taken out of the
    /// index.
    pub fn tracked_stamps(&self, commit: &CommitId) -> Result<TreeStamps> {
        let index = self.index.read()?;
        let stamps = TreeStamps::of(&index, &walk(self, &index, false)?);
        let differing = self.index.against(&index, self.objects.tree_id(commit)?)?.into_iter();
        let is_file = |sides: &Sides| sides.tree.is_some_and(|(mode, _)| mode != Mode::COMMIT);
        let missing = differing.filter(|(_, sides)| is_file(sides)).map(|(path, _)| path);
        self.with_stamps_of(stamps, missing)
    }

    /// Adds the stamps of further tracked files.
    pub(super) fn with_stamps_of(
        &self,
        TreeStamps { mut files }: TreeStamps,
        paths: impl Iterator<Item = BString>,
    ) -> Result<TreeStamps> {
        for path in paths {
            if let Err(at) = files.binary_search_by(|(known, _)| known.cmp(&path)) {
                let stamp = InodeStamp::at(&self.root, &path)?;
                files.insert(at, (path, stamp));
            }
        }
        files.retain(|(path, _)| !self.is_left_alone(path.as_ref()));
        Ok(TreeStamps { files })
    }

    /// Lists the files of `before` with another stamp now, sorted. Does not read stamps again that `look` has.
    pub fn touched_since(&self, before: &TreeStamps, look: Option<&WorktreeSnapshot>) -> Result<Vec<PathBuf>> {
        let mut touched = Vec::new();
        for (path, stamp) in &before.files {
            let now = match look.and_then(|look| look.stamps.get(path)) {
                Some(now) => now,
                None => InodeStamp::at(&self.root, path)?,
            };
            if now != *stamp {
                touched.push(to_path(path.as_bstr()));
            }
        }
        Ok(touched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_read_back_as_they_were_written() {
        let stamp = Some(InodeStamp { inode: 7, size: 0, changed: (-1, 999_999_999) });
        let files = vec![("a b\n".into(), stamp), (BString::from(&b"\xff"[..]), None)];
        let stamps = TreeStamps { files };
        assert_eq!(TreeStamps::parse(&stamps.to_bytes()), Some(stamps.clone()));
        assert_eq!(TreeStamps::parse(b""), Some(TreeStamps::default()));
        for damaged in [&b"7 0 -1"[..], b"x 0 1 1 a\0", b"1 1 1 1 b\x001 1 1 1 a\0"] {
            assert_eq!(TreeStamps::parse(damaged), None);
        }
        assert_eq!(stamps.get(&"a b\n".into()), Some(stamp));
        assert_eq!(stamps.get(&"b".into()), None);
    }
}
