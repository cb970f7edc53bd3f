//! Namespaces of processes. In one of its own, a process does not see what it descends from: only who started the job does.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::running::is_held;
use super::usage::LONGEST_PAUSE;
use crate::fs::{append, read_at_most};

/// The file in a job's folder with namespaces, one in a line: first those of the shim, then others that its job has.
const FILE: &str = "namespaces";

/// The largest such file that is read, in bytes.
const LARGEST: u64 = 64 << 10;

/// The longest time until a shim that is not busy sees a process of its job.
const SEEN_AFTER: Duration = LONGEST_PAUSE.saturating_mul(2);

/// Poll interval while a shim may still see a process.
const LOOK: Duration = Duration::from_millis(100);

/// The process and mount namespaces of a process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Namespaces(String);

impl Namespaces {
    /// Those of this process; absent where the system does not name them.
    fn own() -> Option<Namespaces> {
        Namespaces::at(Path::new("/proc/self/ns"))
    }

    fn at(folder: &Path) -> Option<Namespaces> {
        let name = |kind: &str| Some(fs::read_link(folder.join(kind)).ok()?.to_str()?.to_owned());
        Some(Namespaces(format!("{} {}", name("pid")?, name("mnt")?)))
    }
}

/// The namespaces that a shim has seen in its job.
#[derive(Debug)]
pub(super) struct NamespaceWatch {
    file: PathBuf,
    noted: BTreeSet<Namespaces>,
}

impl NamespaceWatch {
    /// For a job whose files are in `folder`.
    pub(super) fn new(folder: &Path) -> NamespaceWatch {
        let mut watch = NamespaceWatch { file: folder.join(FILE), noted: BTreeSet::new() };
        // Remove the file of an earlier job in the same folder.
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

/// The first of `folders` with an active job that this process is part of, where it cannot see that: it is in namespaces
/// that a process of the job made. Waits where only the job's shim can tell.
pub fn job_beyond(mut folders: Vec<PathBuf>) -> Option<PathBuf> {
    let own = Namespaces::own();
    if own.is_none() && !cfg!(target_os = "linux") {
        return None;
    }
    let is_below = |folder: &PathBuf| match &own {
        Some(own) => was_seen(folder, own),
        // Another process hid what the system says of processes.
        None => is_held(folder).then_some(true),
    };
    let begun = Instant::now();
    loop {
        if let Some(at) = folders.iter().position(|folder| is_below(folder) == Some(true)) {
            return Some(folders.swap_remove(at));
        }
        folders.retain(|folder| is_below(folder) == Some(false));
        if folders.is_empty() || begun.elapsed() > SEEN_AFTER {
            return None;
        }
        sleep(LOOK);
    }
}

/// Returns whether a process of the active job in `folder` was seen in `namespaces`; `None` without a job, or if they
/// are its shim's own.
fn was_seen(folder: &Path, namespaces: &Namespaces) -> Option<bool> {
    let listed = read_at_most(&folder.join(FILE), LARGEST).ok().filter(|_| is_held(folder))?;
    let place = listed.split(|byte| *byte == b'\n').position(|line| line == namespaces.0.as_bytes());
    if place == Some(0) { None } else { Some(place.is_some()) }
}
