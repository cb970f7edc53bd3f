//! Taking over objects that an untrusted process made: each is read, compared with its name and written again, after all that
//! it names.

use std::collections::HashMap;
use std::io::Read;

use gix::ObjectId;
use gix::bstr::ByteSlice;
use gix::index::entry::Mode;
use gix::objs::{CommitRef, Kind, TreeRefIter};
use gix::odb::{Handle, Header};

use super::store::Objects;
use super::untrusted::{UntrustedObjects, Verified};
use crate::git::error::{During, Result};
use crate::git::path::refused_part;

const WHAT: &str = "taking over an object";

/// The largest file taken over, in bytes, and the largest commit or folder: those are held in memory.
const LARGEST_FILE: u64 = 8 << 30;
const LARGEST_OTHER: u64 = 64 << 20;

/// A file up to this size is held in memory while it is written.
const SMALL: u64 = 1 << 20;

/// The most objects looked at.
const MOST: usize = 1_000_000;

/// The most objects missing on both sides for which the repository is opened afresh, as a `git gc` may have moved them.
const MOST_AFRESH: u32 = 16;

/// The most commits passed on the way back to one that is whole.
const MOST_BACK: usize = 10_000;

/// Objects that are being taken over.
pub(in crate::git) struct Import<'a> {
    objects: &'a Objects,
    from: &'a UntrustedObjects,
    /// The objects on the disk, as they were at the start.
    known: Handle,
    /// The kind of each object that the repository has with all that it names; `None` for an object that it lacks.
    seen: HashMap<ObjectId, Option<Kind>>,
    written: Vec<ObjectId>,
    afresh: u32,
    /// True if the repository omits objects that it can fetch.
    is_partial: bool,
}

/// An object and the kind that it has, or should have.
type Named = (ObjectId, Kind);

enum Step {
    Visit(ObjectId, Kind),
    Write(ObjectId, Kind),
}

impl<'a> Import<'a> {
    /// Takes over objects of `from`.
    pub(in crate::git) fn new(objects: &'a Objects, from: &'a UntrustedObjects) -> Import<'a> {
        let mut known = objects.on_disk().clone();
        known.refresh_never();
        let is_partial = objects.gix.config_snapshot().string("extensions.partialClone").is_some();
        Import { objects, from, known, seen: HashMap::new(), written: Vec::new(), afresh: 0, is_partial }
    }

    /// Takes over an object with all that it names, unless the repository has it. Returns whether the repository has all of it
    /// now. Submodules are not looked at.
    pub(in crate::git) fn take(&mut self, id: ObjectId, kind: Kind) -> Result<bool> {
        let mut steps = vec![Step::Visit(id, kind)];
        while let Some(step) = steps.pop() {
            match step {
                Step::Visit(id, _) if self.seen.contains_key(&id) || self.seen.len() >= MOST => {}
                Step::Visit(id, kind) => {
                    if let Some(known) = self.known.try_header(&id).during(WHAT)? {
                        self.seen.insert(id, Some(known.kind()));
                    } else if kind == Kind::Blob {
                        let taken = self.take_file(id)?;
                        self.settle(id, kind, taken);
                    } else if let Some((_, parts)) = self.read(id, kind) {
                        steps.push(Step::Write(id, kind));
                        steps.extend(parts.into_iter().map(|(part, kind)| Step::Visit(part, kind)));
                    } else {
                        self.settle(id, kind, false);
                    }
                }
                Step::Write(id, kind) => {
                    let whole = self.read(id, kind).filter(|(_, parts)| parts.iter().all(|part| self.has(part)));
                    if let Some((bytes, _)) = &whole {
                        self.objects.write_bytes(kind, bytes, true, WHAT)?;
                        self.written.push(id);
                    }
                    self.seen.insert(id, whole.map(|_| kind));
                }
            }
        }
        Ok(self.has(&(id, kind)))
    }

    /// Takes over a commit. If it is not whole, returns the nearest of its first ancestors that is and that the repository did
    /// not have before.
    pub(in crate::git) fn take_commit(&mut self, commit: ObjectId) -> Result<Option<ObjectId>> {
        let mut at = commit;
        for _ in 0..MOST_BACK {
            if self.take(at, Kind::Commit)? {
                return Ok(Some(at).filter(|at| *at == commit || self.written.contains(at)));
            }
            let parts = self.read(at, Kind::Commit).map(|(_, parts)| parts).unwrap_or_default();
            let Some((parent, _)) = parts.into_iter().find(|(_, kind)| *kind == Kind::Commit) else { break };
            at = parent;
        }
        Ok(None)
    }

    /// Syncs what was written.
    pub(in crate::git) fn finish(self) -> Result<()> {
        self.objects.sync(self.written)
    }

    fn has(&self, (id, kind): &Named) -> bool {
        self.seen.get(id) == Some(&Some(*kind))
    }

    /// Notes whether an object was taken over. One that was not may be in a pack of a moment ago.
    fn settle(&mut self, id: ObjectId, kind: Kind, taken: bool) {
        let mut there = taken.then_some(kind);
        if there.is_none() && self.afresh < MOST_AFRESH {
            self.afresh += 1;
            there = self.objects.read(|gix| Ok(gix.find_header(id).during(WHAT)?.kind())).ok();
        }
        let is_promised = self.is_partial && kind != Kind::Commit && self.from.find(id).is_none();
        self.seen.insert(id, there.or(is_promised.then_some(kind)));
    }

    fn take_file(&mut self, id: ObjectId) -> Result<bool> {
        let Some(found) = self.from.find(id).filter(|found| found.kind == Kind::Blob) else { return Ok(false) };
        if found.size > LARGEST_FILE {
            return Ok(false);
        }
        let mut content = Verified::new(id, Kind::Blob, found.size, found.content);
        if found.size > SMALL {
            let written = self.objects.write_known_stream(id, found.size, &mut content);
            if content.is_other {
                return Ok(false);
            }
            written?;
        } else {
            let mut bytes = Vec::new();
            if content.read_to_end(&mut bytes).is_err() {
                return Ok(false);
            }
            self.objects.write_bytes(Kind::Blob, &bytes, true, WHAT)?;
        }
        self.written.push(id);
        Ok(true)
    }

    /// Reads a commit or a folder, and what it names; `None` if it is missing, or not what its name says.
    fn read(&self, id: ObjectId, kind: Kind) -> Option<(Vec<u8>, Vec<Named>)> {
        let found = self.from.find(id).filter(|found| found.kind == kind && found.size <= LARGEST_OTHER)?;
        let mut bytes = Vec::new();
        Verified::new(id, kind, found.size, found.content).read_to_end(&mut bytes).ok()?;
        let parts = match kind {
            Kind::Commit => parts_of_commit(&bytes)?,
            Kind::Tree => parts_of_tree(&bytes)?,
            Kind::Blob | Kind::Tag => return None,
        };
        Some((bytes, parts))
    }
}

fn parts_of_commit(bytes: &[u8]) -> Option<Vec<Named>> {
    let commit = CommitRef::from_bytes(bytes, gix::hash::Kind::Sha1).ok()?;
    let parents = commit.parents().map(|parent| (parent, Kind::Commit));
    Some(parents.chain([(commit.tree(), Kind::Tree)]).collect())
}

/// The files and folders of a folder; `None` if git would not check it out.
fn parts_of_tree(bytes: &[u8]) -> Option<Vec<Named>> {
    let mut parts = Vec::new();
    let mut before = None;
    for entry in TreeRefIter::from_bytes(bytes, gix::hash::Kind::Sha1) {
        let entry = entry.ok()?;
        let is_sound = refused_part(entry.filename, entry.mode.is_link()).is_none()
            && entry.filename.find_byte(b'/').is_none()
            && before.as_ref().is_none_or(|before| *before < entry)
            && Mode::from(entry.mode).to_tree_entry_mode().is_some();
        if !is_sound {
            return None;
        }
        if !entry.mode.is_commit() {
            parts.push((entry.oid.to_owned(), if entry.mode.is_tree() { Kind::Tree } else { Kind::Blob }));
        }
        before = Some(entry);
    }
    Some(parts)
}
