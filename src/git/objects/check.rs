//! Reading objects again from the disk, to check that what a session relies on still exists as it was written.
//!
//! This is the part of `git fsck` that a session needs: the commits that it names, their trees and files, each compared
//! with its name. Does not read history before the session, nor objects that were found sound before.

use std::collections::HashSet;
use std::time::Instant;

use gix::ObjectId;
use gix::objs::{CommitRefIter, Data, FindExt, Kind, TreeRefIter};

use super::read_of_store;
use crate::domain::{CommitId, with_causes};
use crate::git::{During, Objects, object_id};

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
