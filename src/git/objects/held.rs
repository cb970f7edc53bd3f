//! Which objects are held, and for how long.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::time::{Duration, Instant};

use gix::ObjectId;

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
pub(super) struct Held {
    objects: HashMap<ObjectId, HeldObject>,
    in_memory: usize,
    experiment: u64,
}

/// The place of a held object.
#[derive(Debug)]
pub(super) enum Place {
    /// In memory, with its size in bytes.
    Memory(usize),
    /// In a file that is open, whatever becomes of its name.
    Open(File),
}

#[derive(Debug)]
struct HeldObject {
    place: Place,
    experiment: u64,
    since: Instant,
}

impl Held {
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
        self.objects.values().filter(|object| matches!(object.place, Place::Open(_))).count() < OPEN
    }

    /// Adds an object; returns true if it is new. An object that is written again belongs to the current experiment.
    pub(super) fn add(&mut self, id: ObjectId, place: Place) -> bool {
        let (experiment, since) = (self.experiment, Instant::now());
        if let Some(object) = self.objects.get_mut(&id) {
            (object.experiment, object.since) = (experiment, since);
            return false;
        }
        if let Place::Memory(size) = place {
            self.in_memory += size;
        }
        self.objects.insert(id, HeldObject { place, experiment, since });
        true
    }

    /// The objects of the experiment that is open, or of `all`.
    pub(super) fn recent(&mut self, all: bool) -> impl Iterator<Item = (ObjectId, &mut Place)> {
        let first = if all { 0 } else { self.experiment };
        let meant = self.objects.iter_mut().filter(move |(_, object)| object.experiment >= first);
        meant.map(|(id, object)| (*id, &mut object.place))
    }

    /// The next experiment begins: drops what is old, the oldest first, and returns it.
    pub(super) fn next(&mut self) -> HashSet<ObjectId> {
        self.experiment += 1;
        let is_old = |object: &HeldObject| object.experiment + EXPERIMENTS < self.experiment;
        let old = self.objects.iter().filter(|(_, object)| is_old(object));
        let mut old: Vec<(Instant, ObjectId)> = old.map(|(id, object)| (object.since, *id)).collect();
        old.sort();
        let mut dropped = HashSet::new();
        for (since, id) in old {
            if self.objects.len() > AT_MOST || since.elapsed() >= AT_LEAST {
                if let Some(HeldObject { place: Place::Memory(size), .. }) = self.objects.remove(&id) {
                    self.in_memory -= size;
                }
                dropped.insert(id);
            }
        }
        dropped
    }
}
