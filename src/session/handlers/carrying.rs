//! Leftovers of runs in the user's working tree: found after a run, set aside before each, and restored.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::Workspace;
use crate::crash;
use crate::domain::{Carry, CommitId, FORMAT_VERSION, Notice};
use crate::exec::{Exit, FILES_BEFORE, FilesBefore, MOST_WATCHED, Uses, disk_space};
use crate::fs::{
    CLOCK_LAG, FileStamp, failed, folder_of, free_name, if_exists, in_writable_folder, make_folder, move_to,
    read_regular, remove_all, wait_until_newer, wait_until_older,
};
use crate::rules::{
    Change, Effect, UntrackedFile, Writer, always_stays, goes_with, set_aside_for, with_companions, without_numbers,
};
use crate::session::errors::SessionError;
use crate::session::files::is_own;
use crate::session::store::{self, Store};
use crate::state::{CARRIED, read_json, write_json_unsynced};

/// The most files that are listed to choose those from that are watched.
const MOST_LISTED: usize = 100_000;

/// The most bytes of the user's files that are copied before the baseline.
const MOST_COPIED: u64 = 2 << 30;

/// The most files, the newest, whose last bytes are noted.
const MOST_ENDS: usize = 1000;

/// The most bytes of a file that is compared with its copy.
const MOST_COMPARED: u64 = 64 << 20;

/// The folder, in the session's `carried/`, of copies of the user's files, until the end of the loop that measures the baseline.
const COPIES: &str = "copies";

/// The folder of the user's files, until the end of the loop.
const USER: &str = "user";

/// The folder of what runs left: at each path what the newest one did, as in a working tree that is not cleared.
const RUN: &str = "run";

/// The folder of all that stood in the way and that no run wrote.
const OTHER: &str = "other";

/// When a run began and ended, and whether it was the baseline's.
type RunTimes = (SystemTime, SystemTime, bool);

/// Files with their stamps.
type Stamped = Vec<(PathBuf, FileStamp)>;

/// A process's knowledge of leftovers.
#[derive(Default)]
pub(crate) struct Carrying {
    /// The files that are never set aside, such as that which the loop's own output goes to.
    spared: Vec<PathBuf>,
    known: Option<Carried>,
    active: Option<WatchedRun>,
    /// The runs that this process saw.
    runs: Vec<RunTimes>,
}

/// The active run, whose use of untracked files is watched.
struct WatchedRun {
    /// The folder of its own files.
    folder: PathBuf,
    commit: CommitId,
    is_baseline: bool,
    /// The untracked files before it.
    before: FilesBefore,
}

impl Carrying {
    /// Knows nothing yet but the files that are never set aside.
    pub(crate) fn sparing(spared: Vec<PathBuf>) -> Carrying {
        Carrying { spared, ..Carrying::default() }
    }

    /// Returns when the last run that this process saw had ended.
    fn last_end(&self) -> Option<SystemTime> {
        self.runs.iter().map(|(_, end, _)| *end).max()
    }
}

/// `state/carried.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Carried {
    version: u32,
    /// The folders without tracked files from before the session's first run; absent if they are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    folders: Option<BTreeSet<PathBuf>>,
    /// The files and folders that are set aside before each run.
    aside: BTreeSet<PathBuf>,
    /// Those that make no difference.
    stays: BTreeSet<PathBuf>,
    /// Those of `aside` that are the user's and without which the command fails: each run finds them as they were.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    needed: BTreeSet<PathBuf>,
    /// True from the first run of a loop on until what it set aside of the user's is back.
    begun: bool,
}

impl Workspace {
    /// Sets aside what earlier runs left that would make the number of this one false, and lists the untracked files in its
    /// `folder`, so that their use is watched.
    pub(crate) fn begin_carrying(
        &mut self,
        store: &mut Store,
        commit: &CommitId,
        folder: &Path,
        is_baseline: bool,
    ) -> Result<(), SessionError> {
        if !self.owner.has_user() || store.contract.carry == Carry::All || !cfg!(target_os = "linux") {
            return Ok(());
        }
        let mut carried = self.carried(store)?;
        let (is_first, user) = (!carried.begun, place(store, USER));
        for aside in &carried.aside {
            // A database does not go with the journals of another one.
            let is_kept = is_file(&user.join(aside));
            for path in with_companions(aside) {
                // A change may have added it.
                if store.repo.objects.is_in(commit, &path)? {
                    continue;
                }
                if is_first && is_free(&user, &path) && exists(&self.root().join(&path)) {
                    rename(&self.root().join(&path), &user.join(&path))?;
                }
                if !is_kept {
                    self.keep_written(store, &path)?;
                }
                self.move_out(store, RUN, &path)?;
                crash::point("carrying.moved");
                if carried.needed.contains(aside) {
                    let (from, to) = (user.join(&path), self.root().join(&path));
                    copy_all(&from, &to).map_err(failed("copy", &from))?;
                }
            }
        }
        let (files, _, newest) = self.list_files()?;
        if is_first && store.history.baseline().is_none() {
            self.copy_users(store, &files)?;
        }
        carried.begun = true;
        self.note_carried(store, carried)?;
        crash::point("carrying.begun");
        // What an agent wrote last is not to be taken for the run's.
        newest.into_iter().for_each(wait_until_older);
        let ends = files.iter().take(MOST_ENDS).map(|(path, stamp)| end_of(&self.root().join(path), stamp.size()));
        let before = FilesBefore { version: FORMAT_VERSION, ends: ends.collect(), files };
        write_json_unsynced(&folder.join(FILES_BEFORE), &before)?;
        self.watch_run(folder, commit, is_baseline, before);
        Ok(())
    }

    /// Reads what another process noted before the run in `folder`.
    pub(crate) fn recall_files(&mut self, folder: &Path, commit: &CommitId, is_baseline: bool) {
        let before = read_json(&folder.join(FILES_BEFORE)).ok().flatten();
        before.into_iter().for_each(|before| self.watch_run(folder, commit, is_baseline, before));
    }

    fn watch_run(&mut self, folder: &Path, commit: &CommitId, is_baseline: bool, before: FilesBefore) {
        let (folder, commit) = (folder.to_owned(), commit.clone());
        self.carrying.active = Some(WatchedRun { folder, commit, is_baseline, before });
    }

    /// Waits until an agent's files are newer than the last run, by which they are told from what runs wrote.
    pub(crate) fn wait_past_last_run(&self, store: &Store) {
        if let Some(end) = self.carrying.last_end() {
            wait_until_newer(store.folder.root(), end);
        }
    }

    /// What a file has become that was there as `stamp` says before a run.
    fn change_since(&self, store: &Store, path: &Path, stamp: &FileStamp) -> Change {
        let changed = match change(stamp, &self.root().join(path)) {
            // A process that was killed may have kept it.
            Change::Gone => change(stamp, &place(store, USER).join(path)),
            change => change,
        };
        // It may have been written as it was.
        if changed != Change::Unchanged && self.is_as_copied(store, path) { Change::Unchanged } else { changed }
    }

    /// What a run of `commit` that began at `start` would carry over to the next one, and all that is to be set aside after it.
    /// `uses` is what it did with the files that were there before.
    fn effects(
        &self,
        store: &Store,
        carried: &Carried,
        (commit, start): (&CommitId, SystemTime),
        FilesBefore { files: before, ends, .. }: &FilesBefore,
        uses: &Uses,
    ) -> Result<(BTreeMap<PathBuf, Effect>, BTreeSet<PathBuf>), SessionError> {
        let (runs, root) = (self.runs(store), self.root());
        let mut found = BTreeMap::new();
        let is_older = |folder: &Path| {
            carried.folders.as_ref().is_none_or(|older| older.contains(folder))
                || store.repo.objects.is_in(commit, folder).unwrap_or(true)
        };
        let known: BTreeSet<&PathBuf> = before.iter().map(|(path, _)| path).collect();
        let (after, ..) = self.list_files()?;
        let is_new = |(path, stamp): &&(PathBuf, FileStamp)| stamp.changed() >= start && !known.contains(path);
        let new: Vec<&Path> = after.iter().filter(is_new).map(|(path, _)| path.as_path()).collect();
        let steps: BTreeSet<String> = new.iter().filter_map(|path| without_numbers(path)).collect();
        let changes: Vec<Change> = before.iter().map(|(path, stamp)| self.change_since(store, path, stamp)).collect();
        let changed = before.iter().zip(&changes).filter(|(_, change)| **change != Change::Unchanged);
        let written = new.iter().copied().chain(changed.map(|((path, _), _)| path.as_path()));
        let written: BTreeSet<&Path> = written.filter_map(Path::parent).collect();
        for (at, ((path, stamp), change)) in before.iter().zip(changes).enumerate() {
            let is_read = uses.read.contains(&at);
            if !is_read && change == Change::Unchanged {
                continue;
            }
            let top = set_aside_for(path, is_older);
            let file = UntrackedFile {
                writer: self.writer(store, &runs, path, stamp),
                is_read,
                is_mapped: uses.mapped.contains(&at),
                // A file grows when appended to.
                is_own: uses.written_first.contains(&at)
                    && !is_longer(&root.join(path), stamp.size(), ends.get(at).copied().flatten()),
                change,
                is_folder_written: path.parent().is_some_and(|folder| written.contains(folder))
                    // Paths below a folder follow it in this order.
                    || written.range(top..).next().is_some_and(|folder| folder.starts_with(top)),
                has_successor: without_numbers(path).is_some_and(|step| steps.contains(&step)),
            };
            let is_settled =
                |effect| effect == Effect::Doubtful && carried.stays.contains(top) || carried.needed.contains(top);
            if let Some(effect) = file.effect().filter(|effect| !is_settled(*effect)) {
                let known = found.entry(top.to_owned()).or_insert(effect);
                *known = effect.min(*known);
            }
        }
        // The next run would go on from the step before, or from the one that this run made.
        let alike: BTreeMap<String, Effect> =
            found.iter().filter_map(|(path, effect)| Some((without_numbers(path)?, *effect))).collect();
        for (path, _) in &after {
            let effect = without_numbers(path).and_then(|step| alike.get(&step));
            let top = set_aside_for(path, is_older);
            if let Some(effect) = effect.filter(|_| !carried.stays.contains(top) && !carried.needed.contains(top)) {
                found.entry(top.to_owned()).or_insert(*effect);
            }
        }
        let mut aside: BTreeSet<PathBuf> = found.keys().cloned().collect();
        if store.contract.carry == Carry::None {
            let tops = new.iter().map(|path| set_aside_for(path, is_older));
            aside.extend(tops.filter(|top| !carried.stays.contains(*top)).map(Path::to_owned));
        }
        Ok((found, aside))
    }

    /// Returns the paths that make the number of the run that ended false, or may. They are set aside before the next run.
    pub(crate) fn find_carried(
        &mut self,
        store: &mut Store,
        exit: &Exit,
    ) -> Result<BTreeMap<PathBuf, Effect>, SessionError> {
        let Some(WatchedRun { commit, is_baseline, before, .. }) = self.carrying.active.take() else {
            return Ok(BTreeMap::new());
        };
        let start = SystemTime::from(exit.started) - CLOCK_LAG;
        self.carrying.runs.push((start, SystemTime::now(), is_baseline));
        let Some(uses) = &exit.uses else {
            store.note_once(Notice::UsesUnseen);
            return Ok(BTreeMap::new());
        };
        let mut carried = self.carried(store)?;
        let (found, aside) = self.effects(store, &carried, (&commit, start), &before, uses)?;
        carried.aside.extend(aside.iter().cloned());
        carried.stays.retain(|path| !aside.contains(path));
        self.note_carried(store, carried)?;
        crash::point("carrying.found");
        self.keep_users(store, &aside, &before.files)?;
        Ok(found)
    }

    /// Returns whether no run made what is set aside of a path.
    pub(crate) fn is_users(&self, store: &Store, path: &Path) -> bool {
        !those_below(&place(store, USER), path).is_empty()
    }

    /// Lets each run find what is set aside of a path of the user's.
    pub(crate) fn let_runs_find(&mut self, store: &mut Store, path: &Path) -> Result<(), SessionError> {
        let mut carried = self.carried(store)?;
        carried.needed.insert(path.to_owned());
        self.note_carried(store, carried)
    }

    /// Puts what was set aside of a path back, where it stays.
    pub(crate) fn let_stay(&mut self, store: &mut Store, path: &Path) -> Result<(), SessionError> {
        let mut carried = self.carried(store)?;
        // A process that was killed may have put it back.
        let is_back = !carried.stays.insert(path.to_owned()) && exists(&self.root().join(path));
        carried.aside.remove(path);
        self.note_carried(store, carried)?;
        let _ = self.put_back(store, USER, path)? || is_back || self.put_back(store, RUN, path)?;
        crash::point("carrying.stays");
        Ok(())
    }

    /// Puts everything of the user's back at the end of a loop, and notes it as no part of the next change.
    pub(crate) fn end_carrying(&mut self, store: &mut Store) -> Result<(), SessionError> {
        if !self.owner.has_user() || !exists(&store.folder.state().join(CARRIED)) {
            return Ok(());
        }
        // A run that was cut off may have changed them as well.
        let folder = self.carrying.active.as_ref().map(|run| run.folder.clone());
        if let Some(exit) = folder.and_then(|folder| Exit::read(&folder, store::RUN)) {
            self.find_carried(store, &exit)?;
        }
        let carried = Carried { begun: false, ..self.carried(store)? };
        self.note_carried(store, carried.clone())?;
        let mut is_any = false;
        for path in &carried.aside {
            is_any |= self.put_back(store, USER, path)?;
            crash::point("carrying.put_back");
        }
        remove_all(&place(store, COPIES)).map_err(failed("remove", &place(store, COPIES)))?;
        // It stays where something is left in it.
        let _ = fs::remove_dir(store.folder.carried());
        if is_any && self.untracked.known.is_some() { self.remember_untracked(store) } else { Ok(()) }
    }

    /// The session's knowledge, until it is noted.
    fn carried(&mut self, store: &Store) -> Result<Carried, SessionError> {
        if self.carrying.known.is_none() {
            self.carrying.known = read_json(&store.folder.state().join(CARRIED))?;
        }
        if let Some(known) = self.carrying.known.clone() {
            return Ok(known);
        }
        // After earlier runs, the age of folders is unknown.
        let folders = store.history.baseline().is_none().then(|| self.list_files()).transpose()?;
        let folders = folders.map(|(_, folders, _)| folders);
        Ok(Carried { version: FORMAT_VERSION, folders, ..Carried::default() })
    }

    fn note_carried(&mut self, store: &mut Store, carried: Carried) -> Result<(), SessionError> {
        if self.carrying.known.as_ref() != Some(&carried) {
            store.expected.write_file(store.folder.state().join(CARRIED), &carried)?;
            self.carrying.known = Some(carried);
        }
        Ok(())
    }

    /// Lists the untracked files that runs may carry something over in, the newest if there are too many, and the folders without
    /// tracked ones; also says when the newest file changed, be it a pipe.
    fn list_files(&self) -> Result<(Stamped, BTreeSet<PathBuf>, Option<SystemTime>), SessionError> {
        let (root, newest) = (self.root(), Cell::new(None));
        let stays = |path: &Path, meta: &fs::Metadata| {
            let name = path.file_name().and_then(OsStr::to_str);
            if is_own(path) || self.carrying.spared.iter().any(|spared| path == spared) {
                return true;
            }
            if !meta.is_dir() {
                newest.set(newest.get().max(Some(FileStamp::from_metadata(meta).changed())));
            }
            !meta.is_file() && !meta.is_dir()
                || self.file_terms.is_named_protected(path)
                // Lists of files have names in UTF-8.
                || name.is_none_or(|name| always_stays(name, |inside| exists(&root.join(path).join(inside))))
        };
        let (mut files, folders) = self.repo.working_tree.unknown_files(MOST_LISTED, stays)?;
        files.sort_by_key(|(_, stamp)| Reverse(stamp.changed()));
        files.truncate(MOST_WATCHED);
        Ok((files, folders.into_iter().collect(), newest.get()))
    }

    /// Copies the user's files, the smallest first: a run may change them before anybody sees that it does.
    fn copy_users(&self, store: &Store, files: &[(PathBuf, FileStamp)]) -> Result<(), SessionError> {
        let copies = place(store, COPIES);
        remove_all(&copies).map_err(failed("remove", &copies))?;
        let mut smallest: Vec<(u64, &Path)> = files.iter().map(|(path, stamp)| (stamp.size(), &**path)).collect();
        smallest.sort();
        let mut left = disk_space(store.folder.root()).map_or(MOST_COPIED, |space| (space.free / 10).min(MOST_COPIED));
        for (size, path) in smallest {
            let copy = copies.join(path);
            let Some(rest) = left.checked_sub(size) else { break };
            left = rest;
            // A run can read no file that the user cannot read.
            let _ = copy_all(&self.root().join(path), &copy);
        }
        Ok(())
    }

    /// Returns who wrote an untracked file last. A run that wrote it as the user had it does not count.
    fn writer(&self, store: &Store, runs: &[RunTimes], path: &Path, stamp: &FileStamp) -> Writer {
        match Writer::of(stamp.changed(), runs) {
            // Another link to it, or other rights, are no other content.
            Writer::Between => stamp.modified().map_or(Writer::Between, |at| match Writer::of(at, runs) {
                Writer::Before => Writer::Before,
                _ => Writer::Between,
            }),
            writer if writer.is_no_run() || !self.is_as_copied(store, path) => writer,
            _ => Writer::Before,
        }
    }

    /// Returns whether a file has the bytes of its copy; false of large ones, which are not read.
    fn is_as_copied(&self, store: &Store, path: &Path) -> bool {
        let files = [place(store, COPIES), self.root().to_owned()].map(|at| at.join(path));
        let sizes = files.each_ref().map(|file| FileStamp::of(file).map(|stamp| stamp.size()));
        let is_alike = sizes[0].is_some_and(|size| size <= MOST_COMPARED) && sizes[0] == sizes[1];
        let content = files.each_ref().map(|file| is_alike.then(|| read_regular(file).ok()).flatten());
        content[0].is_some() && content[0] == content[1]
    }

    /// Keeps what no run wrote at a path that will be set aside: as it was before the run, where that was copied.
    fn keep_users(
        &self,
        store: &mut Store,
        aside: &BTreeSet<PathBuf>,
        before: &[(PathBuf, FileStamp)],
    ) -> Result<(), SessionError> {
        let (runs, mut uncopied) = (self.runs(store), Vec::new());
        for (path, stamp) in before.iter().filter(|(path, _)| goes_with(path).any(|with| aside.contains(with))) {
            let [there, copy, kept] = [self.root(), &place(store, COPIES), &place(store, USER)].map(|at| at.join(path));
            let is_users = exists(&copy) || self.writer(store, &runs, path, stamp).is_no_run();
            if !is_free(&place(store, USER), path) || !is_users {
                continue;
            }
            let is_changed =
                change(stamp, &there) != Change::Unchanged || exists(&copy) && !self.is_as_copied(store, path);
            let from = if is_changed && exists(&copy) { &copy } else { &there };
            if is_changed && from == &there {
                uncopied.push(path.clone());
            }
            if exists(from) {
                rename(from, &kept)?;
            }
        }
        if !uncopied.is_empty() {
            store.note(Notice::CarriedUncopied(uncopied));
        }
        Ok(())
    }

    /// Keeps what no run wrote at a path that is moved out, unless it is a newer state of what is kept.
    fn keep_written(&self, store: &Store, path: &Path) -> Result<(), SessionError> {
        let (runs, root) = (self.runs(store), self.root());
        let mut left = vec![path.to_owned()];
        while let Some(path) = left.pop() {
            let Ok(meta) = fs::symlink_metadata(root.join(&path)) else { continue };
            let place = place(store, USER);
            if meta.is_dir() {
                let below = fs::read_dir(root.join(&path)).into_iter().flatten().flatten();
                left.extend(below.map(|entry| path.join(entry.file_name())));
            } else if is_free(&place, &path) && Writer::of(FileStamp::from_metadata(&meta).changed(), &runs).is_no_run()
            {
                rename(&root.join(&path), &place.join(&path))?;
            }
        }
        Ok(())
    }

    /// Puts a path back from where it was set aside. Returns whether there was anything.
    fn put_back(&self, store: &mut Store, from: &str, path: &Path) -> Result<bool, SessionError> {
        let place = place(store, from);
        let back = those_below(&place, path);
        let out = if from == USER { RUN } else { OTHER };
        if is_file(&place.join(path)) {
            if self.is_to_be_left(store, path) {
                back.iter().try_for_each(|path| self.leave(store, &place, path))?;
                return Ok(true);
            }
            // The journals of another database would spoil this one.
            for there in those_below(self.root(), path) {
                self.move_out(store, out, &there)?;
            }
        }
        for path in &back {
            self.put_in(store, &place, out, path)?;
        }
        Ok(!back.is_empty())
    }

    /// Puts back what is at a path below `place`. A folder takes it in; of two files one is moved out.
    fn put_in(&self, store: &mut Store, place: &Path, out: &str, path: &Path) -> Result<(), SessionError> {
        let (from, to) = (place.join(path), self.root().join(path));
        if let Some(above) = file_above(self.root(), path) {
            if self.is_to_be_left(store, above) {
                return self.leave(store, place, path);
            }
            self.move_out(store, out, above)?;
        }
        if from.is_dir() && !is_file(&from) && to.is_dir() && !is_file(&to) {
            let entries: Vec<_> = fs::read_dir(&from).map_err(failed("read", &from))?.flatten().collect();
            for entry in entries {
                self.put_in(store, place, out, &path.join(entry.file_name()))?;
            }
            return Ok(fs::remove_dir(&from).map_err(failed("remove", &from))?);
        }
        if self.is_to_be_left(store, path) {
            return self.leave(store, place, path);
        }
        self.move_out(store, out, path)?;
        rename(&from, &to)
    }

    /// Keeps what is at a path below `place` with the others, because the user wrote it anew.
    fn leave(&self, store: &mut Store, place: &Path, path: &Path) -> Result<(), SessionError> {
        let kept = free_name(&self::place(store, OTHER).join(path));
        rename(&place.join(path), &kept)?;
        store.note(Notice::CarriedOlder { path: path.to_owned(), kept });
        Ok(())
    }

    /// Returns whether what is at a path is not to be replaced: a change that was kept added it, or the user wrote it after the
    /// last run. A process that saw no run end knows of no such time.
    fn is_to_be_left(&self, store: &Store, path: &Path) -> bool {
        if exists(&self.root().join(path)) && store.repo.objects.is_in(&store.tip(), path).unwrap_or(true) {
            return true;
        }
        let end = self.carrying.last_end().filter(|_| self.carrying.active.is_none());
        let changed = fs::symlink_metadata(self.root().join(path)).ok().filter(|meta| meta.is_file());
        end.zip(changed).is_some_and(|(end, meta)| FileStamp::from_metadata(&meta).changed() > end)
    }

    /// Moves what is at a path out of the tree, if anything is. What runs wrote replaces what earlier ones left there.
    fn move_out(&self, store: &mut Store, to: &str, path: &Path) -> Result<(), SessionError> {
        let runs = self.runs(store);
        self.move_out_by(store, &runs, to, path)
    }

    fn move_out_by(&self, store: &mut Store, runs: &[RunTimes], to: &str, path: &Path) -> Result<(), SessionError> {
        let from = self.root().join(path);
        let Some(stamp) = FileStamp::of(&from) else { return Ok(()) };
        let (to, kept) = (if is_of(runs, &from) { to } else { OTHER }, place(store, USER).join(path));
        let (is_folder, place) = (!is_file(&from), place(store, to));
        if is_folder && !(to == RUN && is_free(&place, path)) {
            for entry in fs::read_dir(&from).map_err(failed("read", &from))?.flatten() {
                self.move_out_by(store, runs, to, &path.join(entry.file_name()))?;
            }
            // A process may go on writing there.
            let _ = in_writable_folder(&from, || fs::remove_dir(&from));
            return Ok(());
        }
        if !is_folder && FileStamp::of(&kept).is_some_and(|kept| stamp.has_content_of(&kept)) {
            return Ok(remove_all(&from).map_err(failed("remove", &from))?);
        }
        let in_the_way = file_above(&place, path).map_or_else(|| place.join(path), |above| place.join(above));
        match to {
            RUN => remove_all(&in_the_way).map_err(failed("remove", &in_the_way))?,
            _ => {
                if exists(&in_the_way) {
                    rename(&in_the_way, &free_name(&in_the_way))?;
                }
                store.notices.note_first(Notice::CarriedAway { path: path.to_owned(), kept: place.join(path) });
            }
        }
        rename(&from, &place.join(path))
    }

    /// The runs that are known.
    fn runs(&self, store: &Store) -> Vec<RunTimes> {
        let recorded = store.history.records().iter().flat_map(|record| {
            record.runs.iter().map(|run| {
                let start = SystemTime::from(run.started);
                let end = start + Duration::try_from_secs_f64(run.seconds).unwrap_or_default();
                (start - CLOCK_LAG, end, record.id.is_baseline())
            })
        });
        self.carrying.runs.iter().copied().chain(recorded).collect()
    }
}

/// Returns whether these runs wrote everything at a path.
fn is_of(runs: &[RunTimes], path: &Path) -> bool {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => {
            fs::read_dir(path).into_iter().flatten().flatten().all(|entry| is_of(runs, &entry.path()))
        }
        Ok(meta) => !Writer::of(FileStamp::from_metadata(&meta).changed(), runs).is_no_run(),
        Err(_) => true,
    }
}

/// A path and those of the files that go with it, as far as they are there below `root`.
fn those_below(root: &Path, path: &Path) -> Vec<PathBuf> {
    with_companions(path).filter(|path| exists(&root.join(path))).collect()
}

/// The file, below `root`, where a folder above `path` would be.
fn file_above<'a>(root: &Path, path: &'a Path) -> Option<&'a Path> {
    path.ancestors().skip(1).find(|above| is_file(&root.join(above)))
}

/// Returns whether a path can be moved there below `root`, instead of nothing.
fn is_free(root: &Path, path: &Path) -> bool {
    !exists(&root.join(path)) && file_above(root, path).is_none()
}

/// Returns whether there is something other than a folder.
fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_dir())
}

/// The folder of what is set aside in this way.
fn place(store: &Store, aside: &str) -> PathBuf {
    store.folder.carried().join(aside)
}

/// The change of a file since it had this stamp.
fn change(before: &FileStamp, path: &Path) -> Change {
    match FileStamp::of(path).filter(|now| now.is_same_file(before)) {
        None => Change::Gone,
        Some(now) if now.has_content_of(before) => Change::Unchanged,
        Some(_) => Change::Written,
    }
}

/// Copies a file, or a folder with all that is in it. Files keep their times.
fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    let Some(meta) = if_exists(fs::symlink_metadata(from))? else { return Ok(()) };
    if meta.is_dir() {
        return fs::read_dir(from)?.try_for_each(|entry| {
            let entry = entry?;
            copy_all(&entry.path(), &to.join(entry.file_name()))
        });
    }
    if !meta.is_file() && !meta.is_symlink() {
        return Ok(());
    }
    make_folder(folder_of(to))?;
    if meta.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    fs::copy(from, to)?;
    fs::File::open(to)?.set_modified(meta.modified()?)
}

/// The up to eight bytes of a file before this size.
fn end_of(path: &Path, size: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    let start = size.saturating_sub(8);
    let end = &mut bytes[..usize::try_from(size - start).ok()?];
    fs::File::open(path).ok()?.read_exact_at(end, start).ok()?;
    Some(u64::from_be_bytes(bytes))
}

/// Returns whether a file is as it was, as far as the bytes at its `end` tell, with more behind that.
fn is_longer(path: &Path, size: u64, end: Option<u64>) -> bool {
    FileStamp::of(path).is_none_or(|now| now.size() > size && (end.is_none() || end == end_of(path, size)))
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn rename(from: &Path, to: &Path) -> Result<(), SessionError> {
    make_folder(folder_of(to)).map_err(failed("create", folder_of(to)))?;
    Ok(in_writable_folder(from, || move_to(from, to)).map_err(failed("move", from))?)
}
