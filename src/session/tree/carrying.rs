//! What runs leave in the user's working tree for later runs: found after a run, set aside before each, and put back.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::mem::take;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::working_tree::Workspace;
use crate::crash;
use crate::domain::{Carry, CommitId, FORMAT_VERSION, Notice};
use crate::exec::{Exit, disk_space};
use crate::fs::{FileStamp, failed, folder_of, free_name, in_writable_folder, make_folder, move_to, remove_all};
use crate::rules::{Change, Effect, UntrackedFile, Writer, always_stays, goes_with, is_successor, set_aside_for};
use crate::session::errors::SessionError;
use crate::session::files::is_own;
use crate::session::store::{FILES_BEFORE, Store};
use crate::state::{CARRIED, Carried, read_json, write_json_unsynced};

/// The most files that are watched: the kernel keeps 16,384 unread events, two of each.
const MOST_WATCHED: usize = 8000;

/// The most files that are listed to choose those from.
const MOST_LISTED: usize = 100_000;

/// The most bytes of the user's files that are copied before the baseline.
const MOST_COPIED: u64 = 2 << 30;

/// How far the clock of files may be behind that of processes.
const CLOCK_LAG: Duration = Duration::from_millis(20);

/// The places of what is set aside, below the session's folder `carried/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::AsRefStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Aside {
    /// Copies of the user's files, until the end of the loop that measures the baseline.
    Copies,
    /// The user's, until the end of the loop.
    User,
    /// What the newest run left at each path; the next one replaces it.
    Run,
    /// What is put back into the tree had its place for so long.
    Replaced,
    /// All that stood in the way and that `ar` knows no run of.
    Other,
}

/// What a process knows of it.
#[derive(Default)]
pub(crate) struct Carrying {
    known: Option<Carried>,
    before: Option<FilesBefore>,
    /// When the runs that this process saw began and ended, and whether they were the baseline's.
    runs: Vec<(SystemTime, SystemTime, bool)>,
}

/// The untracked files just before a run, with their folders.
#[derive(Debug, Default, Serialize, Deserialize)]
struct FilesBefore {
    version: u32,
    paths: Vec<PathBuf>,
    stamps: Vec<FileStamp>,
    folders: BTreeMap<PathBuf, FileStamp>,
}

impl FilesBefore {
    fn iter(&self) -> impl Iterator<Item = (&Path, &FileStamp)> {
        self.paths.iter().map(PathBuf::as_path).zip(&self.stamps)
    }
}

impl Workspace {
    /// Sets aside what earlier runs left that would make the number of this one false, and notes which untracked files there
    /// are, in `folder`. Returns the list, if their use is to be watched.
    pub(crate) fn begin_carrying(
        &mut self,
        store: &mut Store,
        commit: &CommitId,
        folder: &Path,
    ) -> Result<Option<PathBuf>, SessionError> {
        if !self.home.has_user() || store.contract.carry == Carry::All || !cfg!(target_os = "linux") {
            return Ok(None);
        }
        let mut carried = self.carried(store)?;
        let is_first = !carried.begun;
        for path in carried.aside.iter().flat_map(|path| self.with_companions(self.root(), path)) {
            // A change may have added it.
            if !store.repo.objects.is_in(commit, &path)? {
                let is_users = is_first && !exists(&place(store, Aside::User).join(&path));
                self.move_aside_to(store, if is_users { Aside::User } else { Aside::Run }, &path)?;
                crash::point("carrying.moved");
            }
        }
        let before = self.list_files(store)?;
        if is_first {
            if store.history.baseline().is_none() {
                self.copy_users(store, &before)?;
            }
            carried.begun = true;
            self.write_carried(store, carried)?;
            crash::point("carrying.begun");
        } else {
            self.carrying.known = Some(carried);
        }
        let path = folder.join(FILES_BEFORE);
        write_json_unsynced(&path, &before)?;
        self.carrying.before = Some(before);
        Ok(Some(path))
    }

    /// Reads what another process noted before the run in `folder`.
    pub(crate) fn recall_files(&mut self, folder: &Path) {
        self.carrying.before = read_json(&folder.join(FILES_BEFORE)).unwrap_or_default();
    }

    /// Returns the paths that make the number of a finished run false, or may. They are set aside before the next run.
    pub(crate) fn find_carried(
        &mut self,
        store: &mut Store,
        commit: &CommitId,
        exit: &Exit,
        is_baseline: bool,
    ) -> Result<Vec<(PathBuf, Effect)>, SessionError> {
        let Some(before) = self.carrying.before.take() else { return Ok(Vec::new()) };
        self.carrying.runs.push((exit.started.into(), SystemTime::now(), is_baseline));
        let Some(uses) = &exit.uses else {
            store.note_once(Notice::UsesUnseen);
            return Ok(Vec::new());
        };
        let mut carried = self.carried(store)?;
        let root = self.root().to_owned();
        let now = |(path, stamp): (&Path, &FileStamp)| match change(stamp, &root.join(path)) {
            // A process that was killed may have kept it.
            Change::Deleted => change(stamp, &place(store, Aside::User).join(path)),
            change => change,
        };
        let now: Vec<Change> = before.iter().map(now).collect();
        let parent = |path: &Path| path.parent().map(Path::to_owned).unwrap_or_default();
        let rewritten = |path: &Path, then: &FileStamp| FileStamp::of(&root.join(path)).as_ref() != Some(then);
        let mut written: BTreeSet<PathBuf> =
            before.folders.iter().filter(|(path, then)| rewritten(path, then)).map(|(path, _)| path.clone()).collect();
        written.extend(
            before.paths.iter().zip(&now).filter(|(_, now)| **now != Change::Unchanged).map(|(path, _)| parent(path)),
        );
        let older =
            |folder: &Path| carried.is_older(folder) || store.repo.objects.is_in(commit, folder).unwrap_or(true);
        let mut found: BTreeMap<PathBuf, Effect> = BTreeMap::new();
        for (at, (path, stamp)) in before.iter().enumerate() {
            let is_read = uses.read.contains(&at);
            if !is_read && now[at] == Change::Unchanged {
                continue;
            }
            let aside = set_aside_for(path, older);
            let folder = parent(path);
            let file = UntrackedFile {
                writer: self.writer(store, stamp, &carried),
                is_read,
                is_written: uses.written.contains(&at),
                // What was appended to is larger.
                is_own: uses.written_first.contains(&at)
                    && FileStamp::of(&root.join(path)).is_some_and(|now| now.size() <= stamp.size()),
                change: now[at],
                is_folder_written: match aside == path {
                    true => written.contains(&folder),
                    false => written.iter().any(|folder| folder.starts_with(aside)),
                },
                has_successor: written.contains(&folder) && has_successor(&root, path, &before),
            };
            if let Some(effect) = file.effect().filter(|_| !carried.stays.contains(aside)) {
                found
                    .entry(aside.to_owned())
                    .and_modify(|known| {
                        if effect == Effect::State {
                            *known = effect
                        }
                    })
                    .or_insert(effect);
            }
        }
        let mut aside: BTreeSet<PathBuf> = found.keys().cloned().collect();
        if store.contract.carry == Carry::None {
            let there: BTreeSet<&PathBuf> = before.paths.iter().collect();
            let left = self.list_files(store)?.paths;
            let left =
                left.iter().filter(|path| !there.contains(path)).map(|path| set_aside_for(path, older).to_owned());
            aside.extend(left.filter(|path| !carried.stays.contains(path)));
        }
        let is_known = aside.is_subset(&carried.aside);
        carried.aside.extend(aside.iter().cloned());
        if is_known {
            self.carrying.known = Some(carried.clone());
        } else {
            self.write_carried(store, carried.clone())?;
            crash::point("carrying.found");
        }
        for path in &aside {
            self.keep_users(store, path, &before, &carried)?;
        }
        Ok(found.into_iter().collect())
    }

    /// Returns whether no run made what is set aside of a path, or is being put back.
    pub(crate) fn is_users(&self, store: &Store, path: &Path) -> bool {
        let is_back = self.carrying.known.as_ref().is_some_and(|carried| carried.stays.contains(path));
        is_back || self.is_kept(store, path)
    }

    fn is_kept(&self, store: &Store, path: &Path) -> bool {
        !self.with_companions(&place(store, Aside::User), path).is_empty()
    }

    /// Puts what was set aside of a path back, where it stays.
    pub(crate) fn let_stay(&mut self, store: &mut Store, path: &Path) -> Result<(), SessionError> {
        let mut carried = self.carried(store)?;
        let is_new = carried.stays.insert(path.to_owned());
        if is_new {
            self.write_carried(store, carried.clone())?;
        }
        let is_back = !is_new && exists(&self.root().join(path));
        match self.is_kept(store, path) {
            true => self.put_back(store, Aside::User, path, Aside::Replaced)?,
            false => is_back || self.put_back(store, Aside::Run, path, Aside::Replaced)?,
        };
        carried.aside.remove(path);
        self.write_carried(store, carried)?;
        crash::point("carrying.stays");
        Ok(())
    }

    /// Puts everything of the user's back at the end of a loop, and notes it as no part of the next change.
    pub(crate) fn end_carrying(&mut self, store: &mut Store) -> Result<(), SessionError> {
        if !self.home.has_user() || !exists(&store.folder.state().join(CARRIED)) {
            return Ok(());
        }
        let mut carried = self.carried(store)?;
        if take(&mut carried.begun) {
            self.write_carried(store, carried.clone())?;
        }
        self.carrying.known = Some(carried.clone());
        let mut is_any = false;
        for path in &carried.aside {
            is_any |= self.put_back(store, Aside::User, path, Aside::Run)?;
            crash::point("carrying.put_back");
        }
        remove_all(&place(store, Aside::Copies)).map_err(failed("remove", &place(store, Aside::Copies)))?;
        if is_any && self.untracked.known.is_some() { self.remember_untracked(store) } else { Ok(()) }
    }

    /// What the session knows, until it is written again.
    fn carried(&mut self, store: &Store) -> Result<Carried, SessionError> {
        if let Some(known) = self.carrying.known.clone() {
            return Ok(known);
        }
        if let Some(stored) = read_json(&store.folder.state().join(CARRIED))? {
            return Ok(stored);
        }
        // Of a session that has run before, it is not known which folders are older.
        let folders = match store.history.baseline() {
            None => Some(self.list_files(store)?.folders.into_keys().collect()),
            Some(_) => None,
        };
        Ok(Carried {
            version: FORMAT_VERSION,
            since: store.now(),
            folders,
            aside: BTreeSet::new(),
            stays: BTreeSet::new(),
            begun: false,
        })
    }

    fn write_carried(&mut self, store: &mut Store, carried: Carried) -> Result<(), SessionError> {
        store.expected.write_file(store.folder.state().join(CARRIED), &carried)?;
        self.carrying.known = Some(carried);
        Ok(())
    }

    /// Lists the untracked files that runs may carry something over in: the newest, if there are too many.
    fn list_files(&self, store: &Store) -> Result<FilesBefore, SessionError> {
        let root = self.root();
        let links = store.journal.layout.as_ref().map_or(&[][..], |layout| &layout.links);
        let stays = |path: &Path| {
            let name = path.file_name().and_then(OsStr::to_str);
            is_own(path)
                || links.iter().any(|link| path == link)
                || self.file_terms.is_named_protected(path)
                // Lists of files have names in UTF-8.
                || name.is_none_or(|name| always_stays(name, |inside| exists(&root.join(path).join(inside))))
        };
        let (files, folders) = self.repo.working_tree.unknown_files(MOST_LISTED, stays)?;
        let stamp = |(path, meta): (PathBuf, fs::Metadata)| (path, FileStamp::from_metadata(&meta));
        let mut files: Vec<(PathBuf, FileStamp)> =
            files.into_iter().filter(|(_, meta)| meta.is_file()).map(stamp).collect();
        files.sort_by_key(|(_, stamp)| std::cmp::Reverse(stamp.changed()));
        files.truncate(MOST_WATCHED);
        let mut folders: BTreeMap<PathBuf, FileStamp> = folders.into_iter().map(stamp).collect();
        for folder in files.iter().filter_map(|(path, _)| path.parent()) {
            if !folders.contains_key(folder) {
                folders.extend(FileStamp::of(&root.join(folder)).map(|stamp| (folder.to_owned(), stamp)));
            }
        }
        let (paths, stamps) = files.into_iter().unzip();
        Ok(FilesBefore { version: FORMAT_VERSION, paths, stamps, folders })
    }

    /// Copies the user's files, the smallest first: a run may change them before anybody sees that it does.
    fn copy_users(&self, store: &Store, files: &FilesBefore) -> Result<(), SessionError> {
        let copies = place(store, Aside::Copies);
        remove_all(&copies).map_err(failed("remove", &copies))?;
        let mut smallest: Vec<(&Path, u64)> = files.iter().map(|(path, stamp)| (path, stamp.size())).collect();
        smallest.sort_by_key(|(_, size)| *size);
        let mut left = disk_space(store.folder.root()).map_or(MOST_COPIED, |space| (space.free / 10).min(MOST_COPIED));
        for (path, size) in smallest {
            let copy = copies.join(path);
            let Some(rest) = left.checked_sub(size) else { break };
            left = rest;
            make_folder(folder_of(&copy)).map_err(failed("create", folder_of(&copy)))?;
            // What the user cannot read, a run cannot read either.
            let _ = fs::copy(self.root().join(path), &copy);
        }
        Ok(())
    }

    /// Keeps what no run wrote at a path that will be set aside: as it was before the run, where that was copied.
    fn keep_users(
        &self,
        store: &Store,
        aside: &Path,
        before: &FilesBefore,
        carried: &Carried,
    ) -> Result<(), SessionError> {
        for (path, stamp) in before.iter().filter(|(path, _)| is_part(path, aside)) {
            let (kept, copy) = (place(store, Aside::User).join(path), place(store, Aside::Copies).join(path));
            if exists(&kept) || !self.writer(store, stamp, carried).is_no_run() {
                continue;
            }
            let is_copied = exists(&copy) && change(stamp, &self.root().join(path)) != Change::Unchanged;
            let from = if is_copied { copy } else { self.root().join(path) };
            if exists(&from) {
                rename(&from, &kept)?;
            }
        }
        Ok(())
    }

    /// Puts a path back from where it was set aside, and what stands there into `instead`. Returns whether there was anything.
    fn put_back(&self, store: &Store, from: Aside, path: &Path, instead: Aside) -> Result<bool, SessionError> {
        let from = place(store, from);
        let back = self.with_companions(&from, path);
        if !back.is_empty() {
            for there in self.with_companions(self.root(), path) {
                self.move_aside_to(store, instead, &there)?;
            }
        }
        for path in &back {
            rename(&from.join(path), &self.root().join(path))?;
        }
        Ok(!back.is_empty())
    }

    /// A path, if something is there below `root`, and the files that go with it if it is a file.
    fn with_companions(&self, root: &Path, path: &Path) -> Vec<PathBuf> {
        let Ok(meta) = fs::symlink_metadata(root.join(path)) else { return Vec::new() };
        if meta.is_dir() {
            return vec![path.to_owned()];
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let beside = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        let beside = beside.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_dir()));
        beside.map(|entry| folder.join(entry.file_name())).filter(|beside| is_part(beside, path)).collect()
    }

    /// Moves something out of the tree. Replaces only what runs wrote.
    fn move_aside_to(&self, store: &Store, to: Aside, path: &Path) -> Result<(), SessionError> {
        let from = self.root().join(path);
        let target = place(store, to).join(path);
        if to == Aside::User {
            return rename(&from, &target);
        }
        if !self.is_of_runs(store, &from) {
            return rename(&from, &free_name(&place(store, Aside::Other).join(path)));
        }
        remove_all(&target).map_err(failed("remove", &target))?;
        rename(&from, &target)
    }

    /// Returns whether runs of the session wrote everything at a path.
    fn is_of_runs(&self, store: &Store, path: &Path) -> bool {
        match fs::symlink_metadata(path) {
            Ok(meta) if meta.is_dir() => {
                fs::read_dir(path).into_iter().flatten().flatten().all(|entry| self.is_of_runs(store, &entry.path()))
            }
            Ok(meta) => self.run_at(store, FileStamp::from_metadata(&meta).changed()).is_some(),
            Err(_) => true,
        }
    }

    /// Whether the run that was active at a time was one of the baseline; `None` without a run.
    fn run_at(&self, store: &Store, time: SystemTime) -> Option<bool> {
        let recorded = store.history.records().iter().flat_map(|record| {
            record.runs.iter().map(|run| {
                let start = SystemTime::from(run.started);
                (start, start + Duration::try_from_secs_f64(run.seconds).unwrap_or_default(), record.id.is_baseline())
            })
        });
        let mut runs = self.carrying.runs.iter().copied().chain(recorded);
        runs.find(|(start, end, _)| (*start - CLOCK_LAG..=*end).contains(&time)).map(|(.., is_baseline)| is_baseline)
    }

    fn writer(&self, store: &Store, stamp: &FileStamp, carried: &Carried) -> Writer {
        match self.run_at(store, stamp.changed()) {
            Some(true) => Writer::Baseline,
            Some(false) => Writer::Run,
            None if Timestamp::try_from(stamp.changed()).is_ok_and(|at| at > carried.since) => Writer::Between,
            None => Writer::Before,
        }
    }
}

/// The folder of what is set aside in this way.
fn place(store: &Store, aside: Aside) -> PathBuf {
    store.folder.carried().join(aside.as_ref())
}

/// Returns whether a path is, is in, or goes with one that is set aside.
fn is_part(path: &Path, aside: &Path) -> bool {
    let name = |path: &Path| path.file_name().and_then(OsStr::to_str).map(str::to_owned);
    path.starts_with(aside)
        || path.parent() == aside.parent()
            && name(path).zip(name(aside)).is_some_and(|(path, aside)| goes_with(&path, &aside))
}

/// What became of a file since it had this stamp.
fn change(before: &FileStamp, path: &Path) -> Change {
    match FileStamp::of(path) {
        None => Change::Deleted,
        Some(now) if !now.is_same_file(before) => Change::Replaced,
        Some(now) if now.has_content_of(before) => Change::Unchanged,
        Some(_) => Change::Written,
    }
}

/// Returns whether a file was made beside another one since, whose name has another number.
fn has_successor(root: &Path, path: &Path, before: &FilesBefore) -> bool {
    let folder = path.parent().unwrap_or(Path::new(""));
    let beside = fs::read_dir(root.join(folder)).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let mut new = beside.filter(|beside| before.iter().all(|(path, _)| path != folder.join(beside)));
    new.any(|beside| beside.to_str().is_some_and(|beside| is_successor(name, beside)))
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn rename(from: &Path, to: &Path) -> Result<(), SessionError> {
    make_folder(folder_of(to)).map_err(failed("create", folder_of(to)))?;
    Ok(in_writable_folder(from, || move_to(from, to)).map_err(failed("move", from))?)
}
