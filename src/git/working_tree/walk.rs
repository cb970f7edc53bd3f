//! One walk over the working tree on all cores: each folder is read once, and each tracked file looked at.
//!
//! gix does the same with its own view of each path, which takes several times as long.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fs::{self, FileType};
use std::num::NonZero;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use gix::bstr::{BStr, BString, ByteSlice};
use gix::fs::Capabilities;
use gix::index::State;
use gix::index::entry::stat::Options;
use gix::index::entry::{Flags, Mode, Stage};
use gix::index::fs::Metadata;
use gix::utils::str::precompose_bstr;

use super::tree::WorkingTree;
use crate::fs::{OWN_FOLDER, absent};
use crate::git::error::{At, During, Result};
use crate::git::index::{Staged, stat_of};
use crate::git::path::to_path;

/// How many tracked files are worth a thread of their own: to look at them takes about a millisecond.
const WORTH_A_THREAD: usize = 2000;

/// What the walk is over, and how files are compared.
struct Walk<'a> {
    root: &'a Path,
    index: &'a State,
    compare: Options,
    file_system: Capabilities,
}

/// A folder that is yet to be read, with the tracked files below it.
struct Folder {
    /// Its path with a slash behind it; empty for the working tree itself.
    path: BString,
    /// The entries of the index that its path begins.
    entries: Range<usize>,
}

/// What was found in some folders.
#[derive(Default)]
struct Found {
    suspects: Vec<BString>,
    /// What is not tracked and nothing tracked is below.
    unknown: Vec<(BString, FileType)>,
    /// The folders in them that have tracked files.
    below: Vec<Folder>,
}

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

/// Walks over the tracked files, and over all others `with_untracked`.
pub(super) fn walk(tree: &WorkingTree, index: &Staged, with_untracked: bool) -> Result<Scan> {
    const WHAT: &str = "looking at the working tree";
    // A folder that is gone has no files, unless it is the working tree itself.
    tree.root.metadata().at("reading", &tree.root)?;
    let walk = Walk {
        root: &tree.root,
        index,
        compare: tree.gix.stat_options().during(WHAT)?,
        file_system: tree.gix.filesystem_options().during(WHAT)?,
    };
    let found = walk.all()?;
    let mut scan = Scan { suspects: found.suspects, ..Scan::default() };
    if with_untracked {
        add_untracked(tree, found.unknown, index, &mut scan)?;
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
    // Of one folder after the other, so that its ignore file is read once.
    unknown.retain(|(path, _)| path != OWN_FOLDER);
    unknown.sort_by(|(one, _), (other, _)| one.cmp(other));
    unknown.reverse();
    let mut excludes = tree.ignores(index)?;
    while let Some((path, kind)) = unknown.pop() {
        let mode = if kind.is_dir() { Mode::DIR } else { Mode::FILE };
        if excludes.at_path(to_path(path.as_ref()), Some(mode)).during(WHAT)?.is_excluded() {
            continue;
        }
        if kind.is_file() || kind.is_symlink() {
            scan.untracked.push(path);
        } else if kind.is_dir() {
            let folder = tree.root.join(to_path(path.as_ref()));
            let inside = names(&folder)?;
            if inside.iter().any(|(name, _)| name == ".git") && is_repository(tree, &folder) {
                scan.nested.push(path);
                continue;
            }
            let inside = inside.into_iter().rev().filter(|(name, _)| name != ".git");
            unknown.extend(inside.map(|(name, kind)| ([path.as_slice(), b"/", &name].concat().into(), kind)));
        }
    }
    scan.untracked.sort();
    scan.nested.sort();
    Ok(())
}

/// Whether a folder has a repository of its own.
fn is_repository(tree: &WorkingTree, folder: &Path) -> bool {
    let git = folder.join(".git");
    gix::discover::is_git(&git).is_ok() && git.canonicalize().ok() != tree.gix.git_dir().canonicalize().ok()
}

/// What is in a folder, in the order in which an index has it; nothing where the folder is gone.
fn names(folder: &Path) -> Result<Vec<(BString, FileType)>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if absent(&error) => return Ok(Vec::new()),
        entries => entries.at("reading", folder)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.at("reading", folder)?;
        match entry.file_type() {
            Err(error) if absent(&error) => {}
            kind => names.push((entry.file_name().into_vec().into(), kind.at("reading", folder)?)),
        }
    }
    names.sort_unstable_by(|(one, kind), (other, other_kind): &(BString, FileType)| {
        name_order(one, kind.is_dir(), other, other_kind.is_dir())
    });
    Ok(names)
}

/// The order of the names in one folder of an index, in which a folder's name ends with a slash.
fn name_order(one: &[u8], is_folder: bool, other: &[u8], other_is: bool) -> Ordering {
    let common = one.len().min(other.len());
    let next = |name: &[u8], is_folder: bool| name.get(common).copied().or(is_folder.then_some(b'/'));
    one[..common].cmp(&other[..common]).then_with(|| next(one, is_folder).cmp(&next(other, other_is)))
}

impl Walk<'_> {
    /// Looks at all folders that have tracked files, those of one depth at a time.
    fn all(&self) -> Result<Found> {
        let count = self.index.entries().len();
        // How many cores there are is asked only where it matters: the answer is spread over several files.
        let cores = || thread::available_parallelism().map_or(1, NonZero::get);
        let threads = if count < WORTH_A_THREAD { 1 } else { cores().min(count / WORTH_A_THREAD + 1) };
        let mut all = self.folders(&[Folder { path: BString::default(), entries: 0..count }])?;
        while !all.below.is_empty() {
            let folders = std::mem::take(&mut all.below);
            let found = thread::scope(|scope| {
                let parts = folders.chunks(folders.len().div_ceil(threads));
                let parts: Vec<_> = parts.map(|part| scope.spawn(|| self.folders(part))).collect();
                let join =
                    |part: thread::ScopedJoinHandle<'_, _>| part.join().unwrap_or_else(|panic| resume_unwind(panic));
                parts.into_iter().map(join).collect::<Result<Vec<Found>>>()
            });
            for Found { suspects, unknown, below } in found? {
                all.suspects.extend(suspects);
                all.unknown.extend(unknown);
                all.below.extend(below);
            }
        }
        Ok(all)
    }

    fn folders(&self, folders: &[Folder]) -> Result<Found> {
        let mut found = Found::default();
        folders.iter().try_for_each(|folder| self.folder(folder, &mut found))?;
        Ok(found)
    }

    /// Looks at the tracked files of one folder.
    fn folder(&self, folder: &Folder, found: &mut Found) -> Result<()> {
        let entries = self.index.entries();
        let (skip, path_of) = (folder.path.len(), |at: usize| -> &BStr { entries[at].path(self.index) });
        let place = self.root.join(to_path(folder.path.as_ref()));
        let mut names = names(&place)?.into_iter().peekable();
        let mut submodules: Vec<&[u8]> = Vec::new();
        let mut unknown: Vec<(BString, FileType)> = Vec::new();
        // Passes over the names before that of an entry, which are not tracked; whether it is there.
        let mut is_named = |entry: &[u8], is_folder: bool| {
            while let Some((name, kind)) = names.peek() {
                match name_order(name, kind.is_dir(), entry, is_folder) {
                    Ordering::Less => unknown.extend(names.next()),
                    order => return names.next_if(|_| order == Ordering::Equal).is_some(),
                }
            }
            false
        };
        // Where names are the same that differ in case or composition, the file system finds what the index names.
        let folds = self.file_system.ignore_case || self.file_system.precompose_unicode;
        let mut at = folder.entries.start;
        while at < folder.entries.end {
            let (entry, path) = (&entries[at], path_of(at));
            let rest = &path[skip..];
            if let Some(slash) = rest.find_byte(b'/') {
                let (name, prefix) = (&rest[..slash], &path[..=skip + slash]);
                let left = &entries[at..folder.entries.end];
                let end = at + left.partition_point(|entry| entry.path(self.index).starts_with(prefix));
                let is_folder = || place.join(to_path(name)).symlink_metadata().is_ok_and(|meta| meta.is_dir());
                if is_named(name, true) || (folds && is_folder()) {
                    found.below.push(Folder { path: prefix.into(), entries: at..end });
                } else {
                    let gone = (at..end).filter(|at| !is_skipped(&entries[*at]));
                    found.suspects.extend(gone.map(|at| path_of(at).to_owned()));
                }
                at = end;
                continue;
            }
            let is_there = if entry.mode == Mode::COMMIT {
                submodules.push(rest);
                true
            } else {
                is_named(rest, false) || folds
            };
            let is_as_known = is_skipped(entry) || (is_there && self.is_as_known(entry, &place.join(to_path(rest)))?);
            if !is_as_known {
                found.suspects.push(path.to_owned());
            }
            at += 1;
        }
        unknown.extend(names);
        if folds && !unknown.is_empty() {
            let tracked =
                folder.entries.clone().filter_map(|at| path_of(at)[skip..].split(|byte| *byte == b'/').next());
            let tracked: HashSet<BString> = tracked.map(|name| self.folded(name)).collect();
            unknown.retain(|(name, _)| !tracked.contains(&self.folded(name)));
        }
        unknown.retain(|(name, kind)| name != ".git" && !(kind.is_dir() && submodules.contains(&name.as_slice())));
        found.unknown.extend(unknown.into_iter().map(|(name, kind)| ([&folder.path[..], &name].concat().into(), kind)));
        Ok(())
    }

    /// A name as such a file system compares it.
    fn folded(&self, name: &[u8]) -> BString {
        match self.file_system.precompose_unicode {
            true => precompose_bstr(Cow::Borrowed(name.into())).to_lowercase().into(),
            false => name.to_lowercase().into(),
        }
    }

    /// Whether a file is as its entry says, by what the file system says.
    fn is_as_known(&self, entry: &gix::index::Entry, file: &Path) -> Result<bool> {
        let there = match Metadata::from_path_no_follow(file) {
            Err(error) if absent(&error) => return Ok(false),
            there => there.at("reading", file)?,
        };
        let Capabilities { symlink, executable_bit, .. } = self.file_system;
        if entry.mode.change_to_match_fs(&there, symlink, executable_bit).is_some() {
            return Ok(false);
        }
        let is_settled = entry.stage() == Stage::Unconflicted
            && !entry.flags.contains(Flags::INTENT_TO_ADD)
            && entry.stat.matches(&stat_of(&there), self.compare)
            && !entry.stat.is_racy(self.index.timestamp(), self.compare);
        Ok(entry.mode == Mode::COMMIT || is_settled)
    }
}

fn is_skipped(entry: &gix::index::Entry) -> bool {
    entry.flags.contains(Flags::SKIP_WORKTREE)
}
