//! One walk over the working tree on all cores: each folder is read once, and each tracked file looked at from its folder.
//!
//! gix looks at files by their whole paths, from one thread per list of folders; this takes a third of that time.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::ffi::CStr;
use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::num::NonZero;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use gix::bstr::{BString, ByteSlice};
use gix::fs::Capabilities;
use gix::index::State;
use gix::index::entry::stat::{Options, Time};
use gix::index::entry::{Flags, Mode, Stage, Stat};
use gix::utils::str::precompose_bstr;
use rustix::fs::{AtFlags, FileType, Mode as FileMode, OFlags, openat, statat};
use rustix::io::Errno;

use super::InodeStamp;
use crate::fs::OWN_FOLDER;
use crate::git::{At, During, GitError, Result, Staged, WorkingTree, to_path};

/// The fewest tracked files for which another thread pays off: comparing them takes about a millisecond.
const WORTH_A_THREAD: usize = 2000;

/// The index that the walk covers, and the rules for comparing files.
struct Walk<'a> {
    index: &'a State,
    compare: Options,
    file_system: Capabilities,
    /// True if it compares the tracked files too, not only the names in their folders.
    looks_at_files: bool,
}

/// A folder that is yet to be read, with the tracked files below it.
struct Folder {
    above: Arc<File>,
    /// Its path with a slash behind it; empty for the working tree itself.
    path: BString,
    /// The entries of the index that its path begins.
    entries: Range<usize>,
}

impl Folder {
    fn open(&self) -> rustix::io::Result<File> {
        let Some(path) = self.path.strip_suffix(b"/") else {
            return self.above.try_clone().map_err(|error| errno(&error));
        };
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        openat(&*self.above, name, DIRECTORY, FileMode::empty()).map(File::from)
    }
}

/// The folders that are left, and how many are being read.
#[derive(Default)]
struct WalkQueue {
    folders: Vec<Folder>,
    at_work: usize,
    failed: bool,
}

/// The findings of a walk.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Tracked paths that differ from the index by what the file system says, are in conflict, or are too young to
    /// tell; sorted. Their content decides.
    pub(super) suspects: Vec<BString>,
    /// The stamps of the index's entries, by their positions; `None` for a missing file.
    pub(super) stamps: Vec<(usize, Option<InodeStamp>)>,
    /// Untracked entries with nothing tracked below them.
    unknown: Vec<(BString, FileType)>,
    /// Files that are neither tracked nor ignored; sorted. Folders are walked into, nested repositories are not.
    pub(super) untracked: Vec<BString>,
    /// Folders with a repository of their own that are neither tracked nor ignored; sorted.
    pub(super) nested: Vec<BString>,
    /// Files and folders that are ignored, beside those in ignored folders; sorted.
    pub(super) ignored: Vec<BString>,
}

/// Walks over the tracked files, and over all others `with_untracked`.
pub(super) fn walk(tree: &WorkingTree, index: &Staged, with_untracked: bool) -> Result<Scan> {
    walk_over(tree, index, with_untracked, true)
}

/// The files and folders that are ignored, beside those in ignored folders; sorted.
pub(super) fn ignored(tree: &WorkingTree, index: &Staged) -> Result<Vec<BString>> {
    Ok(walk_over(tree, index, true, false)?.ignored)
}

/// Files and folders that nothing tracked is in, ignored ones and repositories among them; beside those in such folders.
pub(super) fn unknown(tree: &WorkingTree, index: &Staged) -> Result<Vec<BString>> {
    Ok(find(tree, index, false)?.unknown.into_iter().map(|(path, _)| path).collect())
}

fn find(tree: &WorkingTree, index: &Staged, looks_at_files: bool) -> Result<Scan> {
    const WHAT: &str = "looking at the working tree";
    let root = &tree.root;
    let opened = rustix::fs::open(root, DIRECTORY, FileMode::empty()).map_err(std::io::Error::from);
    let opened = File::from(opened.at("reading", root)?);
    let walk = Walk {
        index,
        compare: tree.gix.stat_options().during(WHAT)?,
        file_system: tree.gix.filesystem_options().during(WHAT)?,
        looks_at_files,
    };
    match walk.all(Arc::new(opened), root) {
        Err(GitError::Io { path, source, .. }) if source.kind() == ErrorKind::PermissionDenied && opens(&path) => {
            find(tree, index, looks_at_files)
        }
        found => found,
    }
}

/// Lets the user read a folder with tracked files again, of which git stores no permissions. Returns whether that changed them.
fn opens(folder: &Path) -> bool {
    const OWN: u32 = 0o700;
    fs::symlink_metadata(folder).is_ok_and(|meta| {
        let mode = meta.permissions().mode();
        meta.is_dir() && mode & OWN != OWN && fs::set_permissions(folder, Permissions::from_mode(mode | OWN)).is_ok()
    })
}

fn walk_over(tree: &WorkingTree, index: &Staged, with_untracked: bool, looks_at_files: bool) -> Result<Scan> {
    let mut scan = find(tree, index, looks_at_files)?;
    let unknown = std::mem::take(&mut scan.unknown);
    if with_untracked {
        add_untracked(tree, unknown, index, &mut scan)?;
    }
    scan.suspects.sort();
    scan.suspects.dedup();
    Ok(scan)
}

/// Adds the files and repositories among and below what is not tracked that are not ignored. Those in `ar`'s own folder never
/// are among them.
fn add_untracked(
    tree: &WorkingTree,
    mut unknown: Vec<(BString, FileType)>,
    index: &Staged,
    scan: &mut Scan,
) -> Result<()> {
    const WHAT: &str = "looking for ignored files";
    if unknown.is_empty() {
        return Ok(());
    }
    // Goes folder by folder, so that each ignore file is read once.
    unknown.retain(|(path, _)| path != OWN_FOLDER);
    unknown.sort_by(|(one, _), (other, _)| one.cmp(other));
    unknown.reverse();
    let mut excludes = tree.ignores(index)?;
    while let Some((path, kind)) = unknown.pop() {
        let mode = if kind == FileType::Directory { Mode::DIR } else { Mode::FILE };
        if excludes.at_path(to_path(path.as_ref()), Some(mode)).during(WHAT)?.is_excluded() {
            scan.ignored.push(path);
            continue;
        }
        match kind {
            FileType::RegularFile | FileType::Symlink => scan.untracked.push(path),
            FileType::Directory => {
                let folder = tree.root.join(to_path(path.as_ref()));
                let Some(mut inside) = names(&folder)? else { continue };
                let first = unknown.len();
                let mut has_git = false;
                for (name, kind) in inside.sorted() {
                    if name == b".git" {
                        has_git = true;
                        continue;
                    }
                    let mut below = path.clone();
                    below.push(b'/');
                    below.extend_from_slice(name);
                    unknown.push((below, kind));
                }
                if has_git && is_repository(tree, &folder) {
                    unknown.truncate(first);
                    scan.nested.push(path);
                    continue;
                }
                unknown[first..].reverse();
            }
            _ => {}
        }
    }
    scan.untracked.sort();
    scan.nested.sort();
    scan.ignored.sort();
    Ok(())
}

/// Returns whether a folder has a repository of its own.
fn is_repository(tree: &WorkingTree, folder: &Path) -> bool {
    let git = folder.join(".git");
    gix::discover::is_git(&git).is_ok() && git.canonicalize().ok() != tree.gix.git_dir().canonicalize().ok()
}

/// Flags for opening a folder, but not through a link.
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Lists the names in an untracked folder; `None` if it is missing, or if the user may not read it, as git skips it then.
fn names(folder: &Path) -> Result<Option<Names>> {
    let read = || Names::in_folder(&rustix::fs::open(folder, DIRECTORY, FileMode::empty())?.into());
    match read() {
        Err(errno) if is_gone(errno) || errno == Errno::ACCESS => Ok(None),
        read => read.map(Some).map_err(std::io::Error::from).at("reading", folder),
    }
}

/// The names in a folder, each with what stands there, and the bytes of all of them.
#[derive(Default)]
struct Names {
    text: Vec<u8>,
    found: Vec<(Range<usize>, FileType)>,
}

impl Names {
    fn in_folder(folder: &File) -> rustix::io::Result<Names> {
        let mut names = Names::default();
        let mut add = |name: &CStr, kind: FileType| {
            let bytes = name.to_bytes();
            if bytes == b"." || bytes == b".." {
                return Ok(());
            }
            let kind = match kind {
                // Some file systems do not say it here.
                FileType::Unknown => match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(errno) if is_gone(errno) => return Ok(()),
                    Err(errno) => return Err(errno),
                },
                kind => kind,
            };
            let start = names.text.len();
            names.text.extend_from_slice(bytes);
            names.found.push((start..names.text.len(), kind));
            Ok(())
        };
        each_name(folder, &mut add)?;
        Ok(names)
    }

    /// All of them, in the order in which an index has what is in one folder.
    fn sorted(&mut self) -> impl Iterator<Item = (&[u8], FileType)> {
        let text = &self.text;
        let key = |(name, kind): &(Range<usize>, FileType)| (name.clone(), *kind == FileType::Directory);
        self.found.sort_unstable_by(|one, other| {
            let ((one, is_folder), (other, other_is)) = (key(one), key(other));
            name_order(&text[one], is_folder, &text[other], other_is)
        });
        self.found.iter().map(|(name, kind)| (&text[name.clone()], *kind))
    }
}

/// The order of the names in one folder of an index, in which a folder's name ends with a slash.
fn name_order(one: &[u8], is_folder: bool, other: &[u8], other_is: bool) -> Ordering {
    let common = one.len().min(other.len());
    let next = |name: &[u8], is_folder: bool| name.get(common).copied().or(is_folder.then_some(b'/'));
    one[..common].cmp(&other[..common]).then_with(|| next(one, is_folder).cmp(&next(other, other_is)))
}

#[cfg(target_os = "linux")]
fn each_name(folder: &File, add: &mut dyn FnMut(&CStr, FileType) -> rustix::io::Result<()>) -> rustix::io::Result<()> {
    // The folder is read as it was opened, which takes fewer system calls.
    let mut buffer = [std::mem::MaybeUninit::uninit(); 16 * 1024];
    let mut entries = rustix::fs::RawDir::new(folder, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        add(entry.file_name(), entry.file_type())?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn each_name(folder: &File, add: &mut dyn FnMut(&CStr, FileType) -> rustix::io::Result<()>) -> rustix::io::Result<()> {
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        add(entry.file_name(), entry.file_type())?;
    }
    Ok(())
}

/// Reads the stat data of a file in a folder; `None` if it is missing.
fn stat_at(folder: &File, name: &[u8]) -> rustix::io::Result<Option<rustix::fs::Stat>> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(errno) if is_gone(errno) => Ok(None),
        found => found.map(Some),
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}

impl Walk<'_> {
    fn all(&self, root: Arc<File>, worktree: &Path) -> Result<Scan> {
        let count = self.index.entries().len();
        // Asks for the number of cores only if it matters: the answer comes from several files.
        let cores = || thread::available_parallelism().map_or(1, NonZero::get);
        let threads = if count < WORTH_A_THREAD { 1 } else { cores().min(count / WORTH_A_THREAD + 1) };
        let folders = vec![Folder { above: root, path: BString::default(), entries: 0..count }];
        let left = (Mutex::new(WalkQueue { folders, ..WalkQueue::default() }), Condvar::new());
        let take_part = || self.take_part(&left).map_err(|(path, errno)| (worktree.join(path), errno));
        let found = thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| thread::Builder::new().spawn_scoped(scope, take_part)).collect();
            let mut found = take_part()?;
            for other in others.into_iter().flatten() {
                let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                found.suspects.extend(other.suspects);
                found.stamps.extend(other.stamps);
                found.unknown.extend(other.unknown);
            }
            Ok(found)
        });
        found.or_else(|(path, errno): (PathBuf, Errno)| Err(std::io::Error::from(errno)).at("reading", &path))
    }

    /// Reads folders until none is left.
    fn take_part(&self, (left, changed): &(Mutex<WalkQueue>, Condvar)) -> Result<Scan, (PathBuf, Errno)> {
        let mut found = Scan::default();
        let lock = || left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = lock();
        loop {
            if let Some(folder) = now.folders.pop() {
                now.at_work += 1;
                drop(now);
                let below = self.folder(&folder, &mut found);
                now = lock();
                now.at_work -= 1;
                match below {
                    Ok(below) => now.folders.extend(below),
                    Err(errno) => {
                        now.failed = true;
                        changed.notify_all();
                        return Err((to_path(folder.path.as_ref()), errno));
                    }
                }
                changed.notify_all();
            } else if now.at_work == 0 || now.failed {
                return Ok(found);
            } else {
                now = changed.wait(now).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Looks at the tracked files of one folder; gives the folders below it that have some.
    fn folder(&self, folder: &Folder, found: &mut Scan) -> rustix::io::Result<Vec<Folder>> {
        let entries = self.index.entries();
        let opened = match folder.open() {
            Err(errno) if is_gone(errno) => {
                let left = folder.entries.clone().filter(|at| !is_skipped(&entries[*at]));
                found.stamps.extend(left.clone().map(|at| (at, None)));
                found.suspects.extend(left.map(|at| entries[at].path(self.index).into()));
                return Ok(Vec::new());
            }
            opened => Arc::new(opened?),
        };
        let (skip, path_of) = (folder.path.len(), |at: usize| -> &[u8] { entries[at].path(self.index) });
        let mut names = Names::in_folder(&opened)?;
        let mut names = names.sorted().peekable();
        let mut submodules: Vec<&[u8]> = Vec::new();
        let mut unknown: Vec<(&[u8], FileType)> = Vec::new();
        // Skips the names before that of an entry, which are not tracked. Returns whether the entry exists.
        let mut is_named = |entry: &[u8], is_folder: bool| {
            while let Some((name, kind)) = names.peek() {
                match name_order(name, *kind == FileType::Directory, entry, is_folder) {
                    Ordering::Less => unknown.extend(names.next()),
                    order => return names.next_if(|_| order == Ordering::Equal).is_some(),
                }
            }
            false
        };
        let mut below = Vec::new();
        let mut at = folder.entries.start;
        while at < folder.entries.end {
            let (entry, path) = (&entries[at], path_of(at));
            let rest = &path[skip..];
            if let Some(slash) = rest.find_byte(b'/') {
                let prefix = &path[..=skip + slash];
                let left = &entries[at..folder.entries.end];
                let end = at + left.partition_point(|entry| entry.path(self.index).starts_with(prefix));
                below.push(Folder { above: Arc::clone(&opened), path: prefix.into(), entries: at..end });
                is_named(&rest[..slash], true);
                at = end;
                continue;
            }
            let is_there = if entry.mode == Mode::COMMIT {
                submodules.push(rest);
                true
            } else {
                is_named(rest, false) || self.folds()
            };
            if self.looks_at_files && !is_skipped(entry) {
                let there = if is_there { stat_at(&opened, rest)? } else { None };
                found.stamps.push((at, there.as_ref().map(InodeStamp::of)));
                if there.is_none_or(|there| self.is_suspect(entry, &there)) {
                    found.suspects.push(path.into());
                }
            }
            at += 1;
        }
        unknown.extend(names);
        self.add_unknown(folder, unknown, &submodules, found);
        Ok(below)
    }

    /// Adds the names in a folder that the index does not have, in its spelling or another one.
    fn add_unknown(
        &self,
        folder: &Folder,
        mut unknown: Vec<(&[u8], FileType)>,
        submodules: &[&[u8]],
        found: &mut Scan,
    ) {
        if self.folds() && !unknown.is_empty() {
            let tracked = self.index.entries()[folder.entries.clone()].iter();
            let tracked = tracked.map(|entry| &entry.path(self.index)[folder.path.len()..]);
            let tracked = tracked.filter_map(|path| path.split(|byte| *byte == b'/').next());
            let tracked: HashSet<BString> = tracked.map(|name| self.folded(name)).collect();
            unknown.retain(|(name, _)| !tracked.contains(&self.folded(name)));
        }
        for (name, kind) in unknown {
            if name != b".git" && !(kind == FileType::Directory && submodules.contains(&name)) {
                let mut path = folder.path.clone();
                path.extend_from_slice(name);
                found.unknown.push((path, kind));
            }
        }
    }

    /// Returns whether the file system ignores case or composition: it finds a file by the index's spelling of its name.
    fn folds(&self) -> bool {
        self.file_system.ignore_case || self.file_system.precompose_unicode
    }

    /// A name as such a file system compares it.
    fn folded(&self, name: &[u8]) -> BString {
        match self.file_system.precompose_unicode {
            true => precompose_bstr(Cow::Borrowed(name.into())).to_lowercase().into(),
            false => name.to_lowercase().into(),
        }
    }

    /// Returns whether a file may differ from its entry, by its stat data.
    fn is_suspect(&self, entry: &gix::index::Entry, there: &rustix::fs::Stat) -> bool {
        let kind = FileType::from_raw_mode(there.st_mode);
        let is_file = kind == FileType::RegularFile;
        let changed = entry.mode.change_to_match_fs_with_values(
            is_file,
            kind == FileType::Directory,
            kind == FileType::Symlink,
            is_file && FileMode::from_raw_mode(there.st_mode).contains(FileMode::XUSR),
            self.file_system.symlink,
            self.file_system.executable_bit,
        );
        if entry.mode == Mode::COMMIT {
            return changed.is_some();
        }
        changed.is_some()
            || entry.stage() != Stage::Unconflicted
            || entry.flags.contains(Flags::INTENT_TO_ADD)
            || !entry.stat.matches(&stat_of(there), self.compare)
            || entry.stat.is_racy(self.index.timestamp(), self.compare)
    }
}

fn is_skipped(entry: &gix::index::Entry) -> bool {
    entry.flags.contains(Flags::SKIP_WORKTREE)
}

/// Converts stat data to the index's form, cut to 32 bits as in git.
fn stat_of(there: &rustix::fs::Stat) -> Stat {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the index holds 32 bits of each")]
    let time = |secs: i64, nsecs: i64| Time { secs: secs as u32, nsecs: nsecs as u32 };
    Stat {
        mtime: time(there.st_mtime as _, there.st_mtime_nsec as _),
        ctime: time(there.st_ctime as _, there.st_ctime_nsec as _),
        dev: there.st_dev as _,
        ino: there.st_ino as _,
        uid: there.st_uid,
        gid: there.st_gid,
        size: there.st_size as _,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_its_user_may_not_read_is_opened_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("src");
        fs::create_dir(&path).unwrap();
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        for (before, after) in [(0o000, 0o700), (0o444, 0o744), (0o755, 0o755)] {
            fs::set_permissions(&path, Permissions::from_mode(before)).unwrap();
            assert_eq!((opens(&path), mode()), (before != after, after));
        }
        assert!(!opens(&folder.path().join("none")));
    }
}
