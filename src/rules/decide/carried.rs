//! What one run leaves for the next in a working tree that is not cleared: which of it makes a number false, and what becomes of it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::judge::Measured;
use crate::domain::list;

/// How often a run is repeated without what earlier runs left: each repetition may find something else.
pub const CARRIED_REPEATS: u32 = 5;

/// Files in a folder by which it is an environment, a cache that can be rebuilt, or a repository.
const MARKERS: [&str; 3] = ["CACHEDIR.TAG", "pyvenv.cfg", ".git"];

/// The party that wrote a file last before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// A party before the session's first run.
    Before,
    /// A run of the baseline.
    Baseline,
    /// Another run.
    Run,
    /// The user or an agent, between runs.
    Between,
}

impl Writer {
    /// Returns whether no run of the session wrote it.
    pub fn is_no_run(self) -> bool {
        matches!(self, Writer::Before | Writer::Between)
    }
}

/// What a run did to a file that was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Its content is the same.
    Unchanged,
    /// It was written in place.
    Written,
    /// Another file has its place.
    Replaced,
    /// It was deleted.
    Deleted,
}

/// An untracked file that was there before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UntrackedFile {
    /// Who wrote it.
    pub writer: Writer,
    /// True if the run read it.
    pub is_read: bool,
    /// True if the run wrote it by system calls, and not through a memory map alone.
    pub is_written: bool,
    /// True if the run wrote it anew before it read it.
    pub is_own: bool,
    /// What the run did to it.
    pub change: Change,
    /// True if the run wrote something in its folder.
    pub is_folder_written: bool,
    /// True if the run made a file beside it whose name has another number in it.
    pub has_successor: bool,
}

/// What a file that was there before a run does to the run's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The run went on from it and left another one: the number is false.
    State,
    /// Another run may have left it for this one: only a run without it tells.
    Doubtful,
}

impl UntrackedFile {
    /// Judges it; `None` if the number does not depend on earlier runs by it.
    pub fn effect(&self) -> Option<Effect> {
        let is_mapped = self.change == Change::Written && !self.is_written;
        match self.change {
            Change::Unchanged if !self.is_read => None,
            Change::Unchanged => {
                let is_doubtful = match self.writer {
                    Writer::Run | Writer::Between => true,
                    Writer::Baseline => self.is_folder_written,
                    // A data set is read beside what a run writes, too.
                    Writer::Before => self.has_successor,
                };
                is_doubtful.then_some(Effect::Doubtful)
            }
            _ => (self.is_read && !self.is_own || is_mapped).then_some(Effect::State),
        }
    }
}

/// The path that is set aside for a file: the topmost folder above it that is not `older` than the session's runs, else its own.
pub fn set_aside_for(file: &Path, older: impl Fn(&Path) -> bool) -> &Path {
    let mut folders: Vec<&Path> = file.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()).collect();
    folders.reverse();
    folders.into_iter().find(|folder| !older(folder)).unwrap_or(file)
}

/// Returns whether a file of this name is set aside together with that of the name `file`: it is its journal or the like.
pub fn goes_with(name: &str, file: &str) -> bool {
    name.strip_prefix(file).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Returns whether two names differ in their numbers alone.
pub fn is_successor(one: &str, other: &str) -> bool {
    let words =
        |name: &str| name.split(|c: char| c.is_ascii_digit()).filter(|word| !word.is_empty()).collect::<String>();
    let has_number = |name: &str| name.contains(|c: char| c.is_ascii_digit());
    one != other && has_number(one) && has_number(other) && words(one) == words(other)
}

/// Returns whether a file or folder of this name is never set aside: bytecode and records of trackers. `has` tells which
/// files are in it.
pub fn always_stays(name: &str, has: impl Fn(&str) -> bool) -> bool {
    matches!(name, "__pycache__" | "wandb" | "mlruns" | ".aim" | ".git")
        || goes_with(name, "mlflow.db")
        || MARKERS.into_iter().any(has)
}

/// Says what a run found of earlier ones, as a clause.
pub fn carried_clause(carried: &[(PathBuf, Effect)]) -> String {
    let of = |wanted: Effect| {
        let paths: Vec<PathBuf> =
            carried.iter().filter(|(_, it)| *it == wanted).map(|(path, _)| path.clone()).collect();
        (!paths.is_empty()).then(|| list(&paths))
    };
    let state = of(Effect::State).map(|paths| format!("it read and changed {paths}, which was there before"));
    let doubtful = of(Effect::Doubtful).map(|paths| format!("it read {paths}, which an earlier run may have left"));
    state.into_iter().chain(doubtful).collect::<Vec<_>>().join("; ")
}

/// What was set aside for a repetition of a run, and what the run had given with it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Without {
    /// How often the run was repeated for it.
    pub repeats: u32,
    /// All paths that were set aside.
    pub paths: Vec<PathBuf>,
    /// Those that the last repetition is about.
    pub tried: Vec<PathBuf>,
    /// Those of them that may be harmless.
    pub doubtful: Vec<PathBuf>,
    /// The value of the run with them, if it had one.
    pub value: Option<f64>,
}

/// What becomes of a path after a run without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is set aside before each run.
    Aside,
    /// It makes no difference: it is put back, and stays.
    Stays,
    /// The command needs what the user had there: it is put back, and the run is repeated with it.
    Needed,
}

impl Without {
    /// Counts a repetition after a run that gave this.
    pub fn count(&mut self, measured: &Measured) {
        self.repeats += 1;
        self.value = measured.counted_value();
        self.tried = measured.carried.iter().map(|(path, _)| path.clone()).collect();
        let doubtful = measured.carried.iter().filter(|(_, effect)| *effect == Effect::Doubtful);
        self.doubtful = doubtful.map(|(path, _)| path.clone()).collect();
        self.paths.extend(self.tried.iter().filter(|path| !self.paths.contains(path)).cloned().collect::<Vec<_>>());
    }

    /// Decides on one of the paths by the value `without` it. `is_users` says that no run made it.
    pub fn fate(&self, path: &Path, without: Option<f64>, is_users: bool) -> Fate {
        let is_doubtful = self.doubtful.iter().any(|doubtful| doubtful == path);
        match (self.value, without) {
            (Some(_), None) if is_users => Fate::Needed,
            (with, without) if is_doubtful && with == without => Fate::Stays,
            _ => Fate::Aside,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: UntrackedFile = UntrackedFile {
        writer: Writer::Before,
        is_read: false,
        is_written: false,
        is_own: false,
        change: Change::Unchanged,
        is_folder_written: false,
        has_successor: false,
    };

    /// A file that a run wrote and the run read, and what it did to it.
    fn read(writer: Writer, change: Change) -> UntrackedFile {
        UntrackedFile { writer, is_read: true, is_written: change == Change::Written, change, ..QUIET }
    }

    #[test]
    fn a_file_that_a_run_reads_and_changes_is_state_whoever_wrote_it() {
        for writer in [Writer::Before, Writer::Baseline, Writer::Run, Writer::Between] {
            for (situation, change) in [
                ("a checkpoint is loaded and saved, a cache in SQLite is asked and filled", Change::Written),
                ("a checkpoint is loaded and replaced by a rename", Change::Replaced),
                ("the state of an optimizer is loaded and deleted", Change::Deleted),
            ] {
                assert_eq!(read(writer, change).effect(), Some(Effect::State), "{situation}: {writer:?}");
            }
            let mapped = UntrackedFile { writer, change: Change::Written, ..QUIET };
            assert_eq!(mapped.effect(), Some(Effect::State), "an array of numpy is mapped and changed");
        }
    }

    #[test]
    fn what_a_run_only_reads_or_only_writes_is_no_state() {
        let appended = UntrackedFile { is_written: true, change: Change::Written, ..QUIET };
        assert_eq!(appended.effect(), None, "a log is appended to");
        for change in [Change::Replaced, Change::Deleted] {
            assert_eq!(
                UntrackedFile { change, ..QUIET }.effect(),
                None,
                "an output is written anew, a scratch file removed"
            );
        }
        let own = UntrackedFile { is_own: true, ..read(Writer::Run, Change::Written) };
        assert_eq!(own.effect(), None, "a model is saved, and loaded by the evaluation");
        let data = read(Writer::Before, Change::Unchanged);
        assert_eq!(data.effect(), None, "a data set is read");
        let beside = UntrackedFile { is_folder_written: true, ..data };
        assert_eq!(beside.effect(), None, "a data set is read beside what the run writes");
        assert_eq!(read(Writer::Baseline, Change::Unchanged).effect(), None, "the baseline downloaded a data set");
        assert_eq!(UntrackedFile { writer: Writer::Run, ..QUIET }.effect(), None, "nobody reads what a run left");
    }

    #[test]
    fn what_another_run_may_have_left_takes_a_run_without_it() {
        let doubtful = Some(Effect::Doubtful);
        assert_eq!(read(Writer::Run, Change::Unchanged).effect(), doubtful, "an experiment left a table of tokens");
        assert_eq!(read(Writer::Between, Change::Unchanged).effect(), doubtful, "an agent trained by itself");
        let steps = UntrackedFile { is_folder_written: true, ..read(Writer::Baseline, Change::Unchanged) };
        assert_eq!(steps.effect(), doubtful, "the baseline left step-1.pt, and this run step-2.pt");
        let old = UntrackedFile { has_successor: true, ..read(Writer::Before, Change::Unchanged) };
        assert_eq!(old.effect(), doubtful, "the user has step-5.pt, and this run leaves step-6.pt");
    }

    #[test]
    fn the_topmost_folder_that_runs_made_is_set_aside_else_the_file() {
        let older = |folder: &Path| ["data", "data/sets"].iter().any(|older| folder == Path::new(older));
        for (file, aside) in [
            ("ckpt/a/last.pt", "ckpt"),
            ("data/sets/x.db", "data/sets/x.db"),
            ("data/cache/ab/x", "data/cache"),
            ("state.json", "state.json"),
        ] {
            assert_eq!(set_aside_for(Path::new(file), older), Path::new(aside));
        }
    }

    #[test]
    fn the_journals_of_a_database_go_with_it_and_other_files_do_not() {
        for (name, goes) in [("x.db", true), ("x.db-wal", true), ("x.db-shm", true), ("x.db.old", false), ("x", false)]
        {
            assert_eq!(goes_with(name, "x.db"), goes, "{name}");
        }
        for (one, other, is) in [
            ("step-5.pt", "step-6.pt", true),
            ("step-9.pt", "step-10.pt", true),
            ("step-5.pt", "step-5.pt", false),
            ("step-5.pt", "step-6.json", false),
            ("train.bin", "val.bin", false),
        ] {
            assert_eq!(is_successor(one, other), is, "{one} {other}");
        }
    }

    #[test]
    fn environments_marked_caches_and_records_of_trackers_always_stay() {
        for name in ["__pycache__", "wandb", "mlruns", "mlflow.db", "mlflow.db-journal", ".aim", ".git"] {
            assert!(always_stays(name, |_| false), "{name}");
        }
        for marker in ["CACHEDIR.TAG", "pyvenv.cfg", ".git"] {
            assert!(always_stays("folder", |name| name == marker), "{marker}");
        }
        assert!(!always_stays("ckpt", |_| false) && !always_stays("wandb-old", |_| false));
    }

    #[test]
    fn a_run_without_it_tells_what_becomes_of_a_path() {
        let measured = |value: Option<f64>, carried: &[(&str, Effect)]| Measured {
            value: value.map(crate::domain::Number::of),
            carried: carried.iter().map(|(path, effect)| (PathBuf::from(path), *effect)).collect(),
            ..Measured::default()
        };
        let mut without = Without::default();
        without.count(&measured(Some(2.0), &[("ckpt", Effect::State), ("cache", Effect::Doubtful)]));
        let fate = |path: &str, value, is_users| without.fate(Path::new(path), value, is_users);
        assert_eq!(fate("ckpt", Some(3.0), false), Fate::Aside);
        assert_eq!(fate("ckpt", Some(2.0), false), Fate::Aside, "the next run may give another value with it");
        assert_eq!(fate("cache", Some(2.0), false), Fate::Stays);
        assert_eq!(fate("cache", Some(2.5), false), Fate::Aside);
        assert_eq!(fate("cache", None, false), Fate::Aside, "no checkout has what another run left");
        assert_eq!(fate("ckpt", None, true), Fate::Needed, "the user's data");
        without.count(&measured(None, &[("other", Effect::Doubtful)]));
        assert_eq!((without.repeats, without.paths.len()), (2, 3));
        assert_eq!(without.fate(Path::new("other"), None, true), Fate::Stays, "it fails with and without");
    }
}
