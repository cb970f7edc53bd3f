//! Objects that this process wrote, held until no `git gc` beside it can remove them any more.
//!
//! `git gc --prune=now` deletes what no ref leads to at the moment in which it looks, also an object whose ref is placed a
//! moment later. So what is written stays in memory: reads find it there, and [`Repo::rewrite_lost`] writes it again where it
//! is gone from the disk.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{Seek, copy};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use gix::ObjectId;
use gix::bstr::ByteSlice;
use gix::objs::{Exists, Find, Kind, Write, WriteTo};
use gix::odb::loose;
use gix::zlib::Compression;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::error::{At, During};
use super::{Repo, Result};
use crate::fs::read_regular;

/// The size in bytes up to which an object is held in memory; of a larger one the file is held open.
const SMALL: usize = 1 << 20;

/// How many bytes are held in memory at most, and how many files open.
const IN_MEMORY: usize = 16 << 20;
const OPEN: usize = 64;

/// How many experiments an object is held for, and for how long at least, among so many: a `git gc` may take longer than
/// short experiments.
const EXPERIMENTS: u64 = 2;
const AT_LEAST: Duration = Duration::from_secs(60);
const AT_MOST: usize = 512;

/// How often a write is tried, and how long is waited between.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(5);

/// How long a `git gc` is waited for at the end.
const GC_WAIT: Duration = Duration::from_secs(10);

/// The objects that are held.
#[derive(Debug, Default)]
pub(super) struct Held {
    objects: HashMap<ObjectId, HeldObject>,
    in_memory: usize,
    experiment: u64,
}

#[derive(Debug)]
struct HeldObject {
    /// The size in memory, or the open file.
    content: Result<usize, File>,
    experiment: u64,
    since: Instant,
}

impl Repo {
    /// Writes an object, not yet synced, and holds it.
    pub(super) fn write_object(&self, object: &impl WriteTo, what: &'static str) -> Result<ObjectId> {
        let mut bytes = Vec::new();
        object.write_to(&mut bytes).during(what)?;
        self.write_with(object.kind(), &bytes, true, what)
    }

    /// Does the same with a blob.
    pub(super) fn write_blob(&self, bytes: &[u8], what: &'static str) -> Result<ObjectId> {
        self.write_with(Kind::Blob, bytes, true, what)
    }

    /// Writes a blob that nothing rests on, and does not hold it.
    pub(super) fn keep_blob(&self, bytes: &[u8]) -> Result<ObjectId> {
        const WHAT: &str = "keeping an untracked file";
        let id = gix::objs::compute_hash(self.gix.object_hash(), Kind::Blob, bytes).during(WHAT)?;
        match self.on_disk().exists(&id) {
            true => Ok(id),
            false => persistently(|| self.on_disk().write_buf_with_known_id(Kind::Blob, bytes, id)).during(WHAT),
        }
    }

    /// Does the same with the bytes of any object, compressed as configured or not at all.
    pub(super) fn write_with(
        &self,
        kind: Kind,
        bytes: &[u8],
        compressed: bool,
        what: &'static str,
    ) -> Result<ObjectId> {
        let id = gix::objs::compute_hash(self.gix.object_hash(), kind, bytes).during(what)?;
        let path = self.loose_path(id);
        if path.exists() {
            // What nothing leads to is pruned when it is old.
            let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        } else if !self.on_disk().exists_without_refresh(&id) {
            let options = loose::Options { compression: Compression::NONE, ..loose::Options::default() };
            let plain = loose::Store::at_opts(self.objects_dir(), self.gix.object_hash(), options);
            persistently(|| match compressed {
                true => self.on_disk().write_buf_with_known_id(kind, bytes, id),
                false => plain.write_buf_with_known_id(kind, bytes, id),
            })
            .during(what)?;
        }
        self.hold(id, kind, bytes);
        Ok(id)
    }

    /// The objects of the disk alone. What is written through it is not held.
    pub(super) fn on_disk(&self) -> &gix::odb::Handle {
        &self.gix.objects
    }

    /// A view of the repository that writes to the disk at once, for work that gix does by itself.
    pub(super) fn writing_through(&self) -> gix::Repository {
        let mut gix = self.gix.clone();
        gix.objects.take_object_memory();
        gix
    }

    /// Holds objects that another process, or gix by itself, has written.
    pub(super) fn hold_all(&self, ids: &[ObjectId]) {
        for id in ids {
            if self.held.borrow().objects.contains_key(id) {
                continue;
            }
            let mut buffer = Vec::new();
            // One that is packed was there before; one that cannot be read is found when it is needed.
            if self.loose_path(*id).metadata().is_ok_and(|file| file.len() <= SMALL as u64)
                && let Ok(Some(object)) = self.on_disk().try_find(id, &mut buffer)
            {
                let kind = object.kind;
                self.hold(*id, kind, &buffer);
            } else {
                self.hold_file(*id);
            }
        }
    }

    fn hold(&self, id: ObjectId, kind: Kind, bytes: &[u8]) {
        let mut held = self.held.borrow_mut();
        if bytes.len() > SMALL || held.in_memory + bytes.len() > IN_MEMORY {
            drop(held);
            return self.hold_file(id);
        }
        if held.add(id, Ok(bytes.len())) {
            held.in_memory += bytes.len();
            // To memory, which takes everything.
            let _ = self.gix.objects.write_buf_with_known_id(kind, bytes, id);
        }
    }

    /// Holds an object by its open file.
    pub(super) fn hold_file(&self, id: ObjectId) {
        let mut held = self.held.borrow_mut();
        if held.objects.values().filter(|object| object.content.is_err()).count() < OPEN
            && let Ok(file) = File::open(self.loose_path(id))
        {
            held.add(id, Err(file));
        }
    }

    /// Writes the objects of the experiment that is open again which somebody has pruned from the disk.
    pub(super) fn rewrite_lost(&self) -> Result<()> {
        let now = self.held.borrow().experiment;
        self.rewrite_lost_since(now)
    }

    fn rewrite_lost_since(&self, experiment: u64) -> Result<()> {
        const WHAT: &str = "looking for objects that were written";
        let mut held = self.held.borrow_mut();
        let meant = held.objects.iter_mut().filter(|(_, object)| object.experiment >= experiment);
        let mut lost: Vec<(&ObjectId, &mut HeldObject)> =
            meant.filter(|(id, _)| !self.loose_path(**id).exists()).collect();
        if lost.is_empty() {
            return Ok(());
        }
        // This process may still see packs that are gone.
        let fresh = gix::odb::at(self.objects_dir(), self.gix.object_hash()).during(WHAT)?;
        lost.retain(|(id, _)| !fresh.exists(id));
        let ids: Vec<ObjectId> = lost.iter().map(|(id, _)| **id).collect();
        for (id, object) in lost {
            persistently(|| self.write_again(*id, object))?;
        }
        drop(held);
        self.sync_objects(ids)
    }

    fn write_again(&self, id: ObjectId, object: &mut HeldObject) -> Result<()> {
        const WHAT: &str = "writing a pruned object again";
        let path = self.loose_path(id);
        match &mut object.content {
            Ok(_) => {
                let mut buffer = Vec::new();
                let Some(found) = self.gix.objects.try_find(&id, &mut buffer).during(WHAT)? else { return Ok(()) };
                let kind = found.kind;
                loose::Store::at(self.objects_dir(), self.gix.object_hash()).write_buf(kind, &buffer).during(WHAT)?;
            }
            Err(file) => {
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

    /// An experiment is settled: writes lost objects again, and lets go of those of experiments before the last two.
    pub fn settle_objects(&self) -> Result<()> {
        self.rewrite_lost_since(0)?;
        let mut held = self.held.borrow_mut();
        held.experiment += 1;
        let dropped = held.drop_old();
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
        let pid = self.common_dir().join("gc.pid");
        let noted = read_regular(&pid).unwrap_or_default();
        let begun = Instant::now();
        while is_running(&noted, host) && read_regular(&pid).is_ok_and(|now| now == noted) && begun.elapsed() < GC_WAIT
        {
            sleep(Duration::from_millis(20));
        }
        self.rewrite_lost_since(0)
    }

    fn objects_dir(&self) -> PathBuf {
        self.gix.objects.store_ref().path().to_owned()
    }

    fn loose_path(&self, id: ObjectId) -> PathBuf {
        let hex = id.to_string();
        self.gix.objects.store_ref().path().join(&hex[..2]).join(&hex[2..])
    }
}

/// Whether the `git gc` that `noted` its number and host is one of this host and lives.
fn is_running(noted: &[u8], host: &str) -> bool {
    let Some((pid, of)) = noted.trim().split_once_str(" ") else { return false };
    let pid = pid.to_str().ok().and_then(|pid| pid.parse().ok()).filter(|pid| *pid > 0).and_then(Pid::from_raw);
    // Of one that belongs to somebody else this is refused, and it lives.
    of == host.as_bytes() && pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// Repeats a write that fails: a `git gc` also removes empty folders.
fn persistently<T, E>(mut write: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    for _ in 1..TRIES {
        match write() {
            Err(_) => sleep(PAUSE),
            written => return written,
        }
    }
    write()
}

impl Held {
    /// Adds an object; whether it is new. One that is written again belongs to the experiment of now.
    fn add(&mut self, id: ObjectId, content: Result<usize, File>) -> bool {
        let (experiment, since) = (self.experiment, Instant::now());
        if let Some(object) = self.objects.get_mut(&id) {
            (object.experiment, object.since) = (experiment, since);
            return false;
        }
        self.objects.insert(id, HeldObject { content, experiment, since });
        true
    }

    /// Lets go of what is old, the oldest first, and gives it.
    fn drop_old(&mut self) -> HashSet<ObjectId> {
        let is_old = |object: &HeldObject| object.experiment + EXPERIMENTS < self.experiment;
        let old = self.objects.iter().filter(|(_, object)| is_old(object));
        let mut old: Vec<(Instant, ObjectId)> = old.map(|(id, object)| (object.since, *id)).collect();
        old.sort();
        let mut dropped = HashSet::new();
        for (since, id) in old {
            if self.objects.len() > AT_MOST || since.elapsed() >= AT_LEAST {
                let object = self.objects.remove(&id);
                self.in_memory -= object.and_then(|object| object.content.ok()).unwrap_or(0);
                dropped.insert(id);
            }
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, id};

    use super::is_running;

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
}
