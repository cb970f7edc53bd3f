//! Namespaces of processes. In one of its own, a process does not see what it descends from: only who started the job does.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::running::is_held;
use super::usage::LONGEST_PAUSE;
use crate::fs::read_at_most;

/// The file in a job's folder with namespaces, one in a line: first those of the shim, then others that its job has now.
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

/// The namespaces that a shim sees in its job.
#[derive(Debug)]
pub(super) struct NamespaceWatch {
    file: PathBuf,
    own: Option<Namespaces>,
    noted: BTreeSet<Namespaces>,
}

impl NamespaceWatch {
    /// For a job whose files are in `folder`.
    pub(super) fn new(folder: &Path) -> NamespaceWatch {
        let watch = NamespaceWatch { file: folder.join(FILE), own: Namespaces::own(), noted: BTreeSet::new() };
        watch.write();
        watch
    }

    /// Notes the namespaces of `members`, and no longer those of processes that ended: the kernel gives their numbers to the
    /// next ones.
    pub(super) fn look(&mut self, members: &[Pid]) {
        let all = members.iter().filter_map(|pid| Namespaces::at(Path::new(&format!("/proc/{pid}/ns"))));
        let found: BTreeSet<Namespaces> = all.filter(|found| self.own.as_ref() != Some(found)).collect();
        if found != self.noted {
            self.noted = found;
            self.write();
        }
    }

    fn write(&self) {
        let lines = self.own.iter().chain(&self.noted).map(|namespaces| format!("{}\n", namespaces.0));
        let (fresh, text) = (self.file.with_extension("new"), lines.collect::<String>());
        let _ = fs::remove_file(&fresh);
        // Without the file nobody is refused, and the job goes on.
        let written = File::create_new(&fresh).and_then(|mut file| file.write_all(text.as_bytes()));
        let _ = written.and_then(|()| fs::rename(&fresh, &self.file));
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
        folders.retain(|folder| is_below(folder).is_some());
        if folders.is_empty() {
            return None;
        }
        // By then, each shim has noted this process, and forgotten one that had its numbers before.
        if begun.elapsed() > SEEN_AFTER {
            return folders.into_iter().find(|folder| is_below(folder) == Some(true));
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
