//! The object database, and the objects that this process wrote, held until no `git gc` beside it can remove them any more.
//!
//! `git gc --prune=now` deletes what no ref leads to at the moment in which it looks, also an object whose ref is placed a
//! moment later. So what is written stays in memory: reads find it there, and [`Objects::rewrite_all_lost`] writes it again
//! where it is gone from the disk.
//!
//! An open store of gix knows the packs that it listed last, and can miss an object that is in a pack of a moment later. So a
//! read that misses an object is repeated in a store opened afresh. While packs change, that is repeated, too.
//!
//! Reading objects again from the disk, to check that what a session relies on still exists as it was written.
//!
//! This is the part of `git fsck` that a session needs: the commits that it names, their trees and files, each compared
//! with its name. Does not read history before the session, nor objects that were found sound before.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::fs::File;
use std::io::{Read, Seek, copy};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use gix::ObjectId;
use gix::bstr::ByteSlice;
use gix::objs::{CommitRefIter, Data, Exists, Find, FindExt, Kind, TreeRefIter, Write, WriteTo};
use gix::odb::{Handle, loose};
use gix::zlib::Compression;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::domain::{CommitId, with_causes};
use crate::fs::{Unsynced, read_regular};
use crate::git::{At, During, Programs, Result, Syncs, object_id, parse_id, sync};

/// The most tries of a write, and the pause between two.
const TRIES: u32 = 5;

const PAUSE: Duration = Duration::from_millis(5);

/// Longest wait for a `git gc` at the end.
const GC_WAIT: Duration = Duration::from_secs(10);

/// The objects of a repository: it alone writes blobs, trees, commits and tags.
///
/// Each call reads anew. Only recently written objects are cached.
pub struct Objects {
    pub(super) gix: Rc<gix::Repository>,
    held: RefCell<GcGuard>,
    pub(in crate::git) syncs: Rc<Syncs>,
    /// State of filters and signing programs that may be running.
    pub(in crate::git) programs: Arc<Programs>,
    /// True if commits are signed where the configuration asks for it.
    pub(super) signs: Cell<bool>,
    /// The configuration for that, and the words by which the signing program is started.
    pub(super) signing: RefCell<(Rc<gix::Repository>, Vec<String>)>,
}

impl Objects {
    /// The objects of a repository that was opened with object memory.
    pub(in crate::git) fn new(gix: Rc<gix::Repository>) -> Objects {
        let signing = RefCell::new((Rc::clone(&gix), Vec::new()));
        let (syncs, programs) = Default::default();
        Objects { gix, held: RefCell::default(), syncs, programs, signs: Cell::new(true), signing }
    }

    /// Writes an object, not yet synced, and holds it.
    pub(super) fn write(&self, object: &impl WriteTo, what: &'static str) -> Result<ObjectId> {
        let mut bytes = Vec::new();
        object.write_to(&mut bytes).during(what)?;
        self.write_bytes(object.kind(), &bytes, true, what)
    }

    /// Does the same with a blob.
    pub(in crate::git) fn write_blob(&self, bytes: &[u8], what: &'static str) -> Result<ObjectId> {
        self.write_bytes(Kind::Blob, bytes, true, what)
    }

    /// Writes a blob that nothing relies on, and does not hold it.
    pub(in crate::git) fn keep_blob(&self, bytes: &[u8]) -> Result<ObjectId> {
        const WHAT: &str = "keeping an untracked file";
        let id = gix::objs::compute_hash(self.gix.object_hash(), Kind::Blob, bytes).during(WHAT)?;
        match self.on_disk().exists(&id) {
            true => Ok(id),
            false => with_gc_retry(|| self.on_disk().write_buf_with_known_id(Kind::Blob, bytes, id)).during(WHAT),
        }
    }

    /// Writes a large blob from a stream of `size` bytes, in constant memory.
    pub(in crate::git) fn write_stream(&self, size: u64, stream: &mut dyn Read) -> Result<ObjectId> {
        let id = self.on_disk().write_stream(Kind::Blob, size, stream).during("saving a large file")?;
        self.hold_file(id, &self.loose_path(id));
        Ok(id)
    }

    /// Writes the bytes of any object, compressed as configured or not at all, and holds it.
    pub(super) fn write_bytes(
        &self,
        kind: Kind,
        bytes: &[u8],
        compressed: bool,
        what: &'static str,
    ) -> Result<ObjectId> {
        let id = gix::objs::compute_hash(self.gix.object_hash(), kind, bytes).during(what)?;
        let path = self.loose_path(id);
        if path.exists() {
            // `git gc` prunes unreachable objects once they are old.
            let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        } else if !self.on_disk().exists_without_refresh(&id) {
            let options = loose::Options { compression: Compression::NONE, ..loose::Options::default() };
            let plain = loose::Store::at_opts(self.objects_dir(), self.gix.object_hash(), options);
            with_gc_retry(|| match compressed {
                true => self.on_disk().write_buf_with_known_id(kind, bytes, id),
                false => plain.write_buf_with_known_id(kind, bytes, id),
            })
            .during(what)?;
        }
        self.hold(id, kind, bytes, &path);
        Ok(id)
    }

    /// The bytes of a blob.
    pub(in crate::git) fn blob(&self, id: ObjectId) -> Result<Vec<u8>> {
        self.read(|gix| Ok(gix.find_blob(id).during("reading a file from the repository")?.take_data()))
    }

    /// Returns whether the repository has an object, by its hexadecimal name.
    pub fn has_object(&self, object: &str) -> bool {
        parse_id(object).is_ok_and(|id| self.has(id))
    }

    /// Returns whether the repository has an object.
    pub(in crate::git) fn has(&self, id: ObjectId) -> bool {
        self.size(id).is_ok()
    }

    /// The size of an object in bytes.
    pub(in crate::git) fn size(&self, id: ObjectId) -> Result<u64> {
        self.read(|gix| Ok(gix.find_header(id).during("reading a file")?.size()))
    }

    /// Returns the objects on the disk alone. Objects written through it are not held.
    pub(super) fn on_disk(&self) -> &Handle {
        &self.gix.objects
    }

    /// A view of the repository that writes to the disk at once, for work that gix does by itself.
    pub(in crate::git) fn writing_through(&self) -> gix::Repository {
        let mut gix = gix::Repository::clone(&self.gix);
        gix.objects.take_object_memory();
        gix
    }

    /// Takes over the files of objects in a folder on the same file system, and syncs them.
    pub(in crate::git) fn adopt(&self, folder: &Path) -> Result<()> {
        const WHAT: &str = "taking over an object";
        let (hash, known) = (self.gix.object_hash(), self.on_disk());
        let mut ids = Vec::new();
        for id in loose::Store::at(folder, hash).iter() {
            let id = id.during(WHAT)?;
            // Nothing leads to it yet, so that it may be pruned as soon as it is in its place.
            self.hold_written(id, folder);
            if known.exists_without_refresh(&id) {
                continue;
            }
            let (from, to) = (loose_path(folder, id), self.loose_path(id));
            let above = to.parent().unwrap_or(&to);
            with_gc_retry(|| fs::create_dir_all(above).and_then(|()| fs::rename(&from, &to))).at("writing", &to)?;
            ids.push(id);
        }
        self.sync(ids)?;
        self.rewrite_lost(false)
    }

    /// Syncs those of the objects that have files of their own; others were in a pack before.
    pub(in crate::git) fn sync(&self, ids: impl IntoIterator<Item = ObjectId>) -> Result<()> {
        sync::now(self.unsynced(ids))
    }

    /// The files and folders of the same.
    pub(in crate::git) fn unsynced(&self, ids: impl IntoIterator<Item = ObjectId>) -> Unsynced {
        let root = self.objects_dir();
        let mut unsynced = Unsynced::default();
        for id in ids {
            self.hold_written(id, &root);
            let path = self.loose_path(id);
            if let Some(dir) = path.parent().filter(|_| path.exists()) {
                self.syncs.add_folder(&mut unsynced, dir.to_owned(), &root);
                unsynced.add(path);
            }
        }
        unsynced
    }

    /// Holds an object that another process, or gix by itself, has written into this folder of objects.
    fn hold_written(&self, id: ObjectId, folder: &Path) {
        if self.held.borrow().has(id) {
            return;
        }
        let (mut buffer, path) = (Vec::new(), loose_path(folder, id));
        // One that is packed was there before; one that cannot be read is found when it is needed.
        if path.metadata().is_ok_and(|file| GcGuard::is_small(file.len()))
            && let Ok(Some(object)) = loose::Store::at(folder, self.gix.object_hash()).try_find(&id, &mut buffer)
        {
            self.hold(id, object.kind, object.data, &path);
        } else {
            self.hold_file(id, &path);
        }
    }

    fn hold(&self, id: ObjectId, kind: Kind, bytes: &[u8], path: &Path) {
        if !self.held.borrow().has_room(bytes.len()) {
            return self.hold_file(id, path);
        }
        if self.held.borrow_mut().add(id, Storage::Memory(bytes.len())) {
            // To memory, which takes everything.
            let _ = self.gix.objects.write_buf_with_known_id(kind, bytes, id);
        }
    }

    /// Holds an object by its open file, which is at `path` now.
    fn hold_file(&self, id: ObjectId, path: &Path) {
        let mut held = self.held.borrow_mut();
        if held.may_open()
            && let Ok(file) = File::open(path)
        {
            held.add(id, Storage::Open(file));
        }
    }

    /// Writes all objects that are held again which a process has pruned from the disk.
    pub fn rewrite_all_lost(&self) -> Result<()> {
        self.rewrite_lost(true)
    }

    /// Writes the objects that are held again which a process has pruned from the disk, of `all` experiments or of the one that is
    /// open.
    pub(in crate::git) fn rewrite_lost(&self, all: bool) -> Result<()> {
        const WHAT: &str = "looking for objects that were written";
        let mut held = self.held.borrow_mut();
        let mut lost: Vec<_> = held.recent(all).filter(|(id, _)| !self.loose_path(*id).exists()).collect();
        if lost.is_empty() {
            return Ok(());
        }
        // This process may still see packs that are gone.
        let fresh = gix::odb::at(self.objects_dir(), self.gix.object_hash()).during(WHAT)?;
        lost.retain(|(id, _)| !fresh.exists(id));
        let ids: Vec<ObjectId> = lost.iter().map(|(id, _)| *id).collect();
        for (id, place) in lost {
            with_gc_retry(|| self.write_again(id, place))?;
        }
        drop(held);
        self.sync(ids)
    }

    fn write_again(&self, id: ObjectId, place: &mut Storage) -> Result<()> {
        const WHAT: &str = "writing a pruned object again";
        let path = self.loose_path(id);
        match place {
            Storage::Memory(_) => {
                let mut buffer = Vec::new();
                let Some(found) = self.gix.objects.try_find(&id, &mut buffer).during(WHAT)? else { return Ok(()) };
                let kind = found.kind;
                loose::Store::at(self.objects_dir(), self.gix.object_hash()).write_buf(kind, &buffer).during(WHAT)?;
            }
            Storage::Open(file) => {
                let folder = path.parent().unwrap_or(&path);
                fs::create_dir_all(folder).at("making the folder", folder)?;
                let mut new = tempfile::NamedTempFile::new_in(self.objects_dir()).at("writing", &path)?;
                file.rewind().and_then(|()| copy(file, &mut new)).at("writing", &path)?;
                new.as_file()
                    .set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o444))
                    .at("writing", &path)?;
                new.persist(&path).map_err(|err| err.error).at("writing", &path)?;
            }
        }
        Ok(())
    }

    /// An experiment is settled: writes lost objects again, and drops those of experiments before the last two.
    pub fn settle_objects(&self) -> Result<()> {
        self.rewrite_all_lost()?;
        let dropped = self.held.borrow_mut().next();
        if dropped.is_empty() {
            return Ok(());
        }
        let Some(mut memory) = self.gix.objects.reset_object_memory() else { return Ok(()) };
        for (id, (kind, bytes)) in memory.drain().filter(|(id, _)| !dropped.contains(id)) {
            self.gix.objects.write_buf_with_known_id(kind, &bytes, id).during("holding an object")?;
        }
        Ok(())
    }

    /// Looks for lost objects a last time; if a `git gc` is running on this `host` that began before the last ref was placed,
    /// after it.
    pub fn outlast_gc(&self, host: &str) -> Result<()> {
        let pid = self.gix.common_dir().join("gc.pid");
        let noted = read_regular(&pid).unwrap_or_default();
        let begun = Instant::now();
        while is_running(&noted, host) && read_regular(&pid).is_ok_and(|now| now == noted) && begun.elapsed() < GC_WAIT
        {
            sleep(Duration::from_millis(20));
        }
        self.rewrite_all_lost()
    }

    /// The folder of the objects.
    pub(in crate::git) fn objects_dir(&self) -> PathBuf {
        self.gix.objects.store_ref().path().to_owned()
    }

    fn loose_path(&self, id: ObjectId) -> PathBuf {
        loose_path(&self.objects_dir(), id)
    }
}

/// The file of an object in a folder of objects.
fn loose_path(objects: &Path, id: ObjectId) -> PathBuf {
    let hex = id.to_string();
    objects.join(&hex[..2]).join(&hex[2..])
}

/// Returns whether the `git gc` whose process number and host are in `noted` is alive and on this host.
fn is_running(noted: &[u8], host: &str) -> bool {
    let Some((pid, of)) = noted.trim().split_once_str(" ") else { return false };
    let pid = pid.to_str().ok().and_then(|pid| pid.parse().ok()).filter(|pid| *pid > 0).and_then(Pid::from_raw);
    // The signal to a process of another user is refused, but that process is alive.
    of == host.as_bytes() && pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// Repeats a write that fails: a `git gc` also removes empty folders.
pub(in crate::git) fn with_gc_retry<T, E>(mut write: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    for _ in 1..TRIES {
        match write() {
            Err(_) => sleep(PAUSE),
            written => return written,
        }
    }
    write()
}

/// The size in bytes up to which an object is held in memory; of a larger one the file is held open.
const SMALL: usize = 1 << 20;

/// The most bytes held in memory, and the most files held open.
const IN_MEMORY: usize = 16 << 20;

const OPEN: usize = 64;

/// An object is held for so many experiments and for at least so long, because a `git gc` may take longer than short
/// experiments. Above `AT_MOST` objects, the time no longer counts.
const EXPERIMENTS: u64 = 2;

const AT_LEAST: Duration = Duration::from_secs(60);

const AT_MOST: usize = 512;

/// The objects that are held.
#[derive(Debug, Default)]
pub(super) struct GcGuard {
    objects: HashMap<ObjectId, GuardedObject>,
    in_memory: usize,
    experiment: u64,
}

/// The place of a held object.
#[derive(Debug)]
pub(super) enum Storage {
    /// In memory, with its size in bytes.
    Memory(usize),
    /// In a file that is open, whatever becomes of its name.
    Open(File),
}

#[derive(Debug)]
struct GuardedObject {
    place: Storage,
    experiment: u64,
    since: Instant,
}

impl GcGuard {
    /// Returns whether an object is held.
    pub(super) fn has(&self, id: ObjectId) -> bool {
        self.objects.contains_key(&id)
    }

    /// Returns whether a file of that size is small enough to be held in memory.
    pub(super) fn is_small(size: u64) -> bool {
        size <= SMALL as u64
    }

    /// Returns whether memory has room for so many bytes.
    pub(super) fn has_room(&self, size: usize) -> bool {
        size <= SMALL && self.in_memory + size <= IN_MEMORY
    }

    /// Returns whether one more file may be open.
    pub(super) fn may_open(&self) -> bool {
        self.objects.values().filter(|object| matches!(object.place, Storage::Open(_))).count() < OPEN
    }

    /// Adds an object; returns true if it is new. An object that is written again belongs to the current experiment.
    pub(super) fn add(&mut self, id: ObjectId, place: Storage) -> bool {
        let (experiment, since) = (self.experiment, Instant::now());
        if let Some(object) = self.objects.get_mut(&id) {
            (object.experiment, object.since) = (experiment, since);
            return false;
        }
        if let Storage::Memory(size) = place {
            self.in_memory += size;
        }
        self.objects.insert(id, GuardedObject { place, experiment, since });
        true
    }

    /// The objects of the experiment that is open, or of `all`.
    pub(super) fn recent(&mut self, all: bool) -> impl Iterator<Item = (ObjectId, &mut Storage)> {
        let first = if all { 0 } else { self.experiment };
        let meant = self.objects.iter_mut().filter(move |(_, object)| object.experiment >= first);
        meant.map(|(id, object)| (*id, &mut object.place))
    }

    /// The next experiment begins: drops what is old, the oldest first, and returns it.
    pub(super) fn next(&mut self) -> HashSet<ObjectId> {
        self.experiment += 1;
        let is_old = |object: &GuardedObject| object.experiment + EXPERIMENTS < self.experiment;
        let old = self.objects.iter().filter(|(_, object)| is_old(object));
        let mut old: Vec<(Instant, ObjectId)> = old.map(|(id, object)| (object.since, *id)).collect();
        old.sort();
        let mut dropped = HashSet::new();
        for (since, id) in old {
            if self.objects.len() > AT_MOST || since.elapsed() >= AT_LEAST {
                if let Some(GuardedObject { place: Storage::Memory(size), .. }) = self.objects.remove(&id) {
                    self.in_memory -= size;
                }
                dropped.insert(id);
            }
        }
        dropped
    }
}

/// The first pause before a read is repeated, each further one being twice as long, and all of them together.
const FIRST: Duration = Duration::from_millis(5);

const PATIENCE: Duration = Duration::from_secs(2);

impl Objects {
    /// Reads objects through gix, again in a store opened afresh where it misses one.
    pub(in crate::git) fn read<T>(&self, read: impl Fn(&gix::Repository) -> Result<T>) -> Result<T> {
        read_of_repository(&self.gix, read)
    }

    /// Does the same as seen from a linked working tree, whose memory has no objects. Writes those again first that a
    /// `git gc` pruned.
    pub(in crate::git) fn read_in<T>(
        &self,
        gix: &gix::Repository,
        read: impl Fn(&gix::Repository) -> Result<T>,
    ) -> Result<T> {
        match read_of_repository(gix, &read) {
            Err(error) if error.is_miss() => with_gc_retry(|| {
                self.rewrite_all_lost()?;
                read_of_repository(gix, &read)
            }),
            found => found,
        }
    }
}

/// Reads objects of a repository. If the store misses one, reads again in a fresh store. Objects in the memory of the first
/// store stay there.
fn read_of_repository<T>(gix: &gix::Repository, read: impl Fn(&gix::Repository) -> Result<T>) -> Result<T> {
    let afresh = || {
        let mut afresh = gix::Repository::clone(gix);
        *afresh.objects = reopen_objects(&gix.objects)?;
        Ok(afresh)
    };
    read_with_gc_retry(&place(&gix.objects), gix, afresh, read)
}

/// Does the same with a store alone.
pub(super) fn read_of_store<T>(store: &Handle, read: impl FnMut(&Handle) -> Result<T>) -> Result<T> {
    read_with_gc_retry(&place(store), store, || reopen_objects(store), read)
}

/// The folder of a store. A linked working tree's path to it leads through the folder of the tree under `.git/worktrees`, which
/// an agent may delete.
fn place(store: &Handle) -> PathBuf {
    let path = store.store_ref().path();
    gix::path::normalize(Cow::Borrowed(path), Path::new("")).map_or_else(|| path.to_owned(), Cow::into_owned)
}

fn reopen_objects(store: &Handle) -> Result<Handle> {
    let hash = store.store_ref().object_hash();
    let mut afresh = gix::odb::at(place(store), hash).during("opening the objects of the repository")?;
    afresh.ignore_replacements = store.ignore_replacements;
    Ok(afresh)
}

/// Reads in `known`, and after a miss in what `afresh` opens, until the packs stayed the same meanwhile or time is up.
fn read_with_gc_retry<S, T>(
    objects: &Path,
    known: &S,
    afresh: impl Fn() -> Result<S>,
    mut read: impl FnMut(&S) -> Result<T>,
) -> Result<T> {
    let mut found = read(known);
    let (mut pause, mut waited) = (FIRST, Duration::ZERO);
    while found.as_ref().is_err_and(|error| error.is_miss()) {
        let before = packs(objects);
        found = read(&afresh()?);
        if waited >= PATIENCE || (before.is_some() && before == packs(objects)) {
            break;
        }
        sleep(pause);
        (pause, waited) = (pause * 2, waited + pause);
    }
    found
}

/// The names and times of all packs.
fn packs(objects: &Path) -> Option<Vec<(OsString, SystemTime)>> {
    let entries = fs::read_dir(objects.join("pack")).ok()?;
    let mut packs: Vec<_> = entries
        .map(|entry| entry.and_then(|entry| Ok((entry.file_name(), entry.metadata()?.modified()?))))
        .collect::<Result<_, _>>()
        .ok()?;
    packs.sort();
    Some(packs)
}

/// The largest file that is read, in bytes: it is held in memory.
const LARGEST: u64 = 256 << 20;

/// Largest number of damaged objects that a check names.
const NAMED: usize = 10;

/// Reads objects again. It can work in any thread.
pub struct ObjectChecker {
    gix: gix::ThreadSafeRepository,
    /// Those that were found sound.
    sound: HashSet<ObjectId>,
    /// Those that the last check found damaged or missing.
    unsound: Vec<(ObjectId, Kind)>,
    /// True if the repository omits objects that it can fetch.
    is_partial: bool,
}

/// The findings of a check.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The number of objects that were read.
    pub objects: usize,
    /// True if time ran out before all objects were read.
    pub is_cut: bool,
    /// The first of those that are missing or damaged, each with what is wrong.
    pub damaged: Vec<String>,
}

impl Objects {
    /// A checker that knows of no object yet.
    pub fn checker(&self) -> ObjectChecker {
        let config = self.gix.config_snapshot();
        let is_partial = config.string("extensions.partialClone").is_some();
        ObjectChecker {
            gix: gix::Repository::clone(&self.gix).into_sync(),
            sound: HashSet::new(),
            unsound: Vec::new(),
            is_partial,
        }
    }
}

impl ObjectChecker {
    /// Reads these commits, their trees and all below, until `end` at the latest. A file above 256 MiB is not read, and neither
    /// is a submodule.
    pub fn check(&mut self, commits: &[CommitId], end: Instant) -> Checked {
        let commits = commits.iter().filter_map(|commit| Some((object_id(commit).ok()?, Kind::Commit)));
        self.check_all(commits.collect(), end)
    }

    /// Reads again what the last check found damaged or missing, and all below.
    pub fn check_again(&mut self, end: Instant) -> Checked {
        let unsound = std::mem::take(&mut self.unsound);
        self.check_all(unsound, end)
    }

    fn check_all(&mut self, mut left: Vec<(ObjectId, Kind)>, end: Instant) -> Checked {
        let mut gix = self.gix.to_thread_local();
        gix.objects.take_object_memory();
        gix.objects.ignore_replacements = true;
        let mut checked = Checked::default();
        self.unsound.clear();
        let mut bytes = Vec::new();
        while let Some((id, kind)) = left.pop() {
            if self.sound.contains(&id) {
                continue;
            }
            if Instant::now() >= end {
                checked.is_cut = true;
                break;
            }
            if kind == Kind::Blob && gix.find_header(id).is_ok_and(|header| header.size() > LARGEST) {
                continue;
            }
            checked.objects += 1;
            match self.read(&gix, id, kind, &mut bytes, &mut left) {
                Ok(()) => drop(self.sound.insert(id)),
                Err(why) => {
                    self.unsound.push((id, kind));
                    if checked.damaged.len() < NAMED {
                        checked.damaged.push(format!("{kind} {id} {why}"));
                    }
                }
            }
        }
        checked
    }

    /// Reads an object and adds what it names to `left`; says what is wrong with it.
    fn read(
        &self,
        gix: &gix::Repository,
        id: ObjectId,
        kind: Kind,
        bytes: &mut Vec<u8>,
        left: &mut Vec<(ObjectId, Kind)>,
    ) -> Result<(), String> {
        let unreadable = |error: &dyn std::error::Error| format!("cannot be read: {}", with_causes(error));
        let found = read_of_store(&gix.objects, |objects| {
            let data = objects.find(&id, bytes).during("reading an object")?;
            Ok(data.kind)
        });
        let data = match found {
            Ok(kind) => Data::new(bytes, kind, id.kind()),
            Err(error) if error.is_miss() && self.is_partial => return Ok(()),
            Err(error) if error.is_miss() => return Err("is missing".into()),
            Err(error) => return Err(unreadable(&error)),
        };
        data.verify_checksum(&id).map_err(|_| "has other content than its name says".to_owned())?;
        if data.kind != kind {
            return Err(format!("is a {}", data.kind));
        }
        match kind {
            Kind::Commit => {
                let tree = CommitRefIter::from_bytes(data.data, id.kind()).tree_id();
                left.push((tree.map_err(|error| unreadable(&error))?, Kind::Tree));
            }
            Kind::Tree => {
                for entry in TreeRefIter::from_bytes(data.data, id.kind()) {
                    let entry = entry.map_err(|error| unreadable(&error))?;
                    let below = if entry.mode.is_tree() { Kind::Tree } else { Kind::Blob };
                    if !entry.mode.is_commit() {
                        left.push((entry.oid.to_owned(), below));
                    }
                }
            }
            Kind::Blob | Kind::Tag => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;
    use std::process::{Command, id};

    use super::{is_running, read_with_gc_retry};
    use crate::git::error::{During, Result};

    #[test]
    fn only_a_collector_that_lives_on_this_host_is_running() {
        let noted = |pid: u32| format!("{pid} here");
        assert!(is_running(noted(id()).as_bytes(), "here"));
        assert!(is_running(format!("{}\n", noted(id())).as_bytes(), "here"));
        assert!(!is_running(noted(id()).as_bytes(), "there"));
        let mut gone = Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        assert!(!is_running(noted(gone.id()).as_bytes(), "here"));
        for odd in ["", "here", "0 here", "-1 here", "x here", "99999999999 here"] {
            assert!(!is_running(odd.as_bytes(), "here"), "{odd}");
        }
    }

    fn miss() -> Result<()> {
        Err(gix::error::not_found("an object")).during("reading")
    }

    #[test]
    fn a_miss_is_repeated_afresh_while_packs_change_and_only_then() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("pack")).unwrap();
        let reads = Cell::new(0);
        let replaced = |until: u32| {
            reads.set(0);
            read_with_gc_retry(
                dir.path(),
                &false,
                || Ok(true),
                |is_afresh| {
                    reads.set(reads.get() + 1);
                    assert_eq!(*is_afresh, reads.get() > 1);
                    if reads.get() <= until {
                        fs::write(dir.path().join("pack").join(format!("{}.pack", reads.get())), "").unwrap();
                    }
                    if reads.get() > 4 { Ok(()) } else { miss() }
                },
            )
        };
        assert!(replaced(5).is_ok(), "found once packs were replaced");
        assert_eq!(reads.get(), 5);
        assert!(replaced(0).is_err(), "missing for good");
        assert_eq!(reads.get(), 2, "without a pause");
        reads.set(0);
        let other = read_with_gc_retry(
            dir.path(),
            &(),
            || Ok(()),
            |()| {
                reads.set(reads.get() + 1);
                Err::<(), _>(std::io::Error::other("other")).during("reading")
            },
        );
        assert!(other.is_err());
        assert_eq!(reads.get(), 1, "another failure is no miss");
    }
}
