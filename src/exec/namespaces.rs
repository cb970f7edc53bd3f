//! Namespaces of processes. In one of its own, a process does not see what it descends from: only who started the job does.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Pid;

use super::running::is_held;
use super::usage::LONGEST_PAUSE;
use crate::fs::{append, read_at_most};

/// The file in a job's folder with namespaces, one in a line: first those of the shim, then others that its job has.
const FILE: &str = "namespaces";

/// The largest such file that is read, in bytes.
const LARGEST: u64 = 64 << 10;

/// How long a shim needs at most to see a process of its job, if it is not busy.
pub const SEEN_AFTER: Duration = LONGEST_PAUSE.saturating_mul(2);

/// What a process has for the processes and the files of the system.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Namespaces(String);

impl Namespaces {
    /// Those of this process; absent where the system does not name them.
    pub fn own() -> Option<Namespaces> {
        Namespaces::at(Path::new("/proc/self/ns"))
    }

    fn at(folder: &Path) -> Option<Namespaces> {
        let name = |kind: &str| Some(fs::read_link(folder.join(kind)).ok()?.to_str()?.to_owned());
        Some(Namespaces(format!("{} {}", name("pid")?, name("mnt")?)))
    }
}

/// What a shim has seen of the namespaces of its job.
#[derive(Debug)]
pub(super) struct NamespaceWatch {
    file: PathBuf,
    noted: BTreeSet<Namespaces>,
}

impl NamespaceWatch {
    /// For a job whose files are in `folder`.
    pub(super) fn new(folder: &Path) -> NamespaceWatch {
        let mut watch = NamespaceWatch { file: folder.join(FILE), noted: BTreeSet::new() };
        // Of an earlier job in the same folder.
        let _ = fs::remove_file(&watch.file);
        watch.note(Namespaces::own());
        watch
    }

    /// Notes the namespaces of `members`.
    pub(super) fn look(&mut self, members: &[Pid]) {
        for pid in members {
            self.note(Namespaces::at(Path::new(&format!("/proc/{pid}/ns"))));
        }
    }

    fn note(&mut self, found: Option<Namespaces>) {
        let Some(found) = found.filter(|found| !self.noted.contains(found)) else { return };
        // Without the file nobody is refused, and the job goes on.
        let _ = append(&self.file, &found.0);
        self.noted.insert(found);
    }
}

/// How namespaces are related to those of an active job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kinship {
    /// They are those of its shim.
    Same,
    /// A process of the job is in them.
    Below,
    /// None of its processes was seen in them.
    Unknown,
}

/// How `namespaces` are related to those of the job that is active in `folder`; absent without one.
pub fn kinship(folder: &Path, namespaces: &Namespaces) -> Option<Kinship> {
    let listed = read_at_most(&folder.join(FILE), LARGEST).ok().filter(|_| is_held(folder))?;
    let place = listed.split(|byte| *byte == b'\n').position(|line| line == namespaces.0.as_bytes());
    Some(match place {
        Some(0) => Kinship::Same,
        Some(_) => Kinship::Below,
        None => Kinship::Unknown,
    })
}
