//! What one run leaves for the next in a working tree that is not cleared: which of it makes a number false, and what becomes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::Measurement;
use crate::domain::{FailureClass, list};

/// Maximum number of repetitions without leftovers of earlier runs. Each may find others.
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
    /// Returns who wrote what was changed at this time, by the times of the session's runs and whether they were of the baseline.
    pub fn of(changed: SystemTime, runs: &[(SystemTime, SystemTime, bool)]) -> Writer {
        match runs.iter().find(|(start, end, _)| (*start..=*end).contains(&changed)) {
            Some((.., true)) => Writer::Baseline,
            Some((.., false)) => Writer::Run,
            None if runs.iter().any(|(start, ..)| *start < changed) => Writer::Between,
            None => Writer::Before,
        }
    }

    /// Returns whether no run of the session wrote it.
    pub fn is_no_run(self) -> bool {
        matches!(self, Writer::Before | Writer::Between)
    }
}

/// The change by a run of a file that existed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Its content is the same.
    Unchanged,
    /// It was written in place.
    Written,
    /// It was deleted, or another file has its place.
    Gone,
}

/// An untracked file that was there before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UntrackedFile {
    /// Its writer.
    pub writer: Writer,
    /// True if the run read it.
    pub is_read: bool,
    /// True if the run wrote it through a memory map alone.
    pub is_mapped: bool,
    /// True if the run wrote it anew before it read it.
    pub is_own: bool,
    /// The run's change of it.
    pub change: Change,
    /// True if the run wrote something in its folder.
    pub is_folder_written: bool,
    /// True if the run made a file whose path differs in its numbers alone.
    pub has_successor: bool,
}

/// The effect of an earlier file on a run's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// The run went on from it and left another one: the number is false.
    State,
    /// Another run may have left it for this one: only a run without it tells.
    Doubtful,
}

impl UntrackedFile {
    /// Judges it; `None` if the number does not depend on earlier runs by it.
    pub fn effect(&self) -> Option<Effect> {
        let is_doubtful = match self.writer {
            Writer::Run | Writer::Between => true,
            Writer::Baseline => self.is_folder_written,
            // A data set is read beside what a run writes, too.
            Writer::Before => self.has_successor,
        };
        match self.change {
            Change::Unchanged => (self.is_read && is_doubtful).then_some(Effect::Doubtful),
            // Through a memory map, which shows no reads.
            Change::Written if self.is_mapped => Some(Effect::State),
            Change::Written | Change::Gone => (self.is_read && !self.is_own).then_some(Effect::State),
        }
    }
}

/// The path that is set aside for a file: the topmost folder above it that is not `older` than the session's runs, else its own.
pub fn set_aside_for(file: &Path, older: impl Fn(&Path) -> bool) -> &Path {
    let file = database_of(file).unwrap_or(file);
    let mut folders: Vec<&Path> = file.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()).collect();
    folders.reverse();
    folders.into_iter().find(|folder| !older(folder)).unwrap_or(file)
}

/// Suffixes of the files that SQLite keeps beside a database.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// A path, and those of the files that go with it if it is a database.
pub fn with_companions(path: &Path) -> impl Iterator<Item = PathBuf> + '_ {
    [""].into_iter().chain(COMPANIONS).map(|end| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        name.into()
    })
}

/// The paths of which each, if it is set aside, takes this one along: itself, the folders above it, and its database.
pub fn goes_with(path: &Path) -> impl Iterator<Item = &Path> {
    path.ancestors().chain(database_of(path))
}

/// The database that a file of SQLite is beside.
fn database_of(path: &Path) -> Option<&Path> {
    path.to_str().and_then(|path| COMPANIONS.into_iter().find_map(|end| path.strip_suffix(end))).map(Path::new)
}

/// A path without the numbers in it; `None` if it has none.
pub fn without_numbers(path: &Path) -> Option<String> {
    let text = path.to_str().filter(|text| text.contains(|c: char| c.is_ascii_digit()))?;
    Some(text.replace(|c: char| c.is_ascii_digit(), ""))
}

/// Returns whether a file or folder of this name is never set aside: bytecode and records of trackers. `has` tells which
/// files are in it.
pub fn always_stays(name: &str, has: impl Fn(&str) -> bool) -> bool {
    matches!(name, "__pycache__" | "wandb" | "mlruns" | ".aim" | ".git")
        || with_companions(Path::new("mlflow.db")).any(|file| file == Path::new(name))
        || MARKERS.into_iter().any(has)
}

/// Says what a run found of earlier ones, as a clause; without anything, that it lacks a file.
pub fn carried_clause(carried: &BTreeMap<PathBuf, Effect>) -> String {
    let of = |wanted: Effect| {
        let paths = carried.iter().filter(|(_, effect)| **effect == wanted).map(|(path, _)| path.clone());
        Some(paths.collect::<Vec<_>>()).filter(|paths| !paths.is_empty()).map(|paths| list(&paths))
    };
    let state = of(Effect::State).map(|paths| format!("it read and changed {paths}, which was there before"));
    let doubtful = of(Effect::Doubtful).map(|paths| format!("it read {paths}, which an earlier run may have left"));
    match (state, doubtful) {
        (Some(state), Some(doubtful)) => format!("{state}; {doubtful}"),
        (state, doubtful) => state.or(doubtful).unwrap_or_else(|| "the command fails without a file of yours".into()),
    }
}

/// Files set aside for a repetition of a run, and the earlier result with them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Without {
    /// Number of repetitions for it.
    pub repeats: u32,
    /// The paths on which the run without them decides.
    pub tried: BTreeMap<PathBuf, Effect>,
    /// Those on which that was decided: they stay aside.
    pub paths: BTreeSet<String>,
    /// The value of the run with all that is tried, if it had one.
    pub value: Option<f64>,
}

impl Without {
    /// Counts a repetition after a run that gave this.
    pub fn count(&mut self, measured: &Measurement) {
        self.repeats += 1;
        if self.tried.is_empty() {
            self.value = measured.counted_value();
        }
        self.tried.extend(measured.carried.clone());
    }

    /// Decides what becomes of a path by the run without it, `measured`. Only what no run made `is_users`.
    pub fn fate(&self, effect: Effect, measured: &Measurement, is_users: bool) -> CarriedFate {
        use FailureClass::{Crash, ImportError, NoMetric, NoOutput};
        let class = measured.failure.as_ref().map(|failure| failure.class);
        // A deadline and a kill do not tell that a file is missing.
        let is_missed = is_users && matches!(class, Some(Crash | ImportError | NoMetric | NoOutput));
        match (self.value, measured.counted_value()) {
            (Some(_), None) if is_missed && effect == Effect::State => CarriedFate::Needed,
            (Some(_), None) if is_missed => CarriedFate::Stays,
            (with, without) if effect == Effect::Doubtful && with == without => CarriedFate::Stays,
            _ => CarriedFate::Aside,
        }
    }
}

/// The fate of a path that was set aside for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CarriedFate {
    /// No run finds it.
    Aside,
    /// Each run finds it as it was before the first one.
    Needed,
    /// It is put back, and each run finds it as the last one left it.
    Stays,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Failure;

    const QUIET: UntrackedFile = UntrackedFile {
        writer: Writer::Before,
        is_read: false,
        is_mapped: false,
        is_own: false,
        change: Change::Unchanged,
        is_folder_written: false,
        has_successor: false,
    };

    /// A file that a run wrote and the run read, and what it did to it.
    fn read(writer: Writer, change: Change) -> UntrackedFile {
        UntrackedFile { writer, is_read: true, change, ..QUIET }
    }

    #[test]
    fn a_file_that_a_run_reads_and_changes_is_state_whoever_wrote_it() {
        for writer in [Writer::Before, Writer::Baseline, Writer::Run, Writer::Between] {
            for (situation, change) in [
                ("a checkpoint is loaded and saved, a cache in SQLite is asked and filled", Change::Written),
                ("a checkpoint is loaded and replaced by a rename", Change::Gone),
                ("the state of an optimizer is loaded and deleted", Change::Gone),
            ] {
                assert_eq!(read(writer, change).effect(), Some(Effect::State), "{situation}: {writer:?}");
            }
            let mapped = UntrackedFile { writer, is_mapped: true, change: Change::Written, ..QUIET };
            assert_eq!(mapped.effect(), Some(Effect::State), "an array of numpy is mapped and changed");
        }
    }

    #[test]
    fn what_a_run_only_reads_or_only_writes_is_no_state() {
        let appended = UntrackedFile { change: Change::Written, ..QUIET };
        assert_eq!(appended.effect(), None, "a log is appended to");
        let gone = UntrackedFile { change: Change::Gone, ..QUIET };
        assert_eq!(gone.effect(), None, "an output is written anew, a scratch file removed");
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
            ("data/x.db-wal", "data/x.db"),
        ] {
            assert_eq!(set_aside_for(Path::new(file), older), Path::new(aside));
        }
    }

    #[test]
    fn the_journals_of_a_database_go_with_it_and_other_files_do_not() {
        for (path, goes) in [
            ("x.db", true),
            ("x.db-wal", true),
            ("x.db-shm", true),
            ("x.db.old", false),
            ("x.db-base.pt", false),
            ("x", false),
            ("x.db/part", true),
            ("x.db-old/part", false),
        ] {
            assert_eq!(goes_with(Path::new(path)).any(|with| with == Path::new("x.db")), goes, "{path}");
        }
    }

    #[test]
    fn a_step_differs_from_the_next_in_its_number_alone() {
        for (one, other, is) in [
            ("step-5.pt", "step-6.pt", true),
            ("step-9.pt", "step-10.pt", true),
            ("step-5/model.pt", "step-6/model.pt", true),
            ("step-5.pt", "step-6.json", false),
            ("train.bin", "val.bin", false),
            ("train.bin", "train.bin", false),
        ] {
            let one = without_numbers(Path::new(one));
            assert_eq!(one.is_some() && one == without_numbers(Path::new(other)), is, "{one:?} {other}");
        }
    }

    #[test]
    fn the_time_of_a_file_s_last_change_tells_who_wrote_it() {
        let at = |seconds| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        let runs = [(at(10), at(20), true), (at(30), at(40), false)];
        for (second, writer) in [
            (9, Writer::Before),
            (10, Writer::Baseline),
            (25, Writer::Between),
            (40, Writer::Run),
            (41, Writer::Between),
        ] {
            assert_eq!(Writer::of(at(second), &runs), writer, "{second}");
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
        let measured = |value: Option<f64>, carried: &[(&str, Effect)]| Measurement {
            value: value.map(crate::domain::Number::of),
            failure: value.is_none().then(|| Failure::new(FailureClass::Crash, "no such file")),
            carried: carried.iter().map(|(path, effect)| (PathBuf::from(path), *effect)).collect(),
            ..Measurement::default()
        };
        let gave = |value: Option<f64>| measured(value, &[]);
        let mut without = Without::default();
        without.count(&measured(Some(2.0), &[("ckpt", Effect::State), ("cache", Effect::Doubtful)]));
        let (state, doubtful) = (Effect::State, Effect::Doubtful);
        assert_eq!(without.fate(state, &gave(Some(3.0)), false), CarriedFate::Aside);
        assert_eq!(
            without.fate(state, &gave(Some(2.0)), false),
            CarriedFate::Aside,
            "the next run may give another value"
        );
        assert_eq!(without.fate(doubtful, &gave(Some(2.0)), false), CarriedFate::Stays);
        assert_eq!(without.fate(doubtful, &gave(Some(2.5)), false), CarriedFate::Aside);
        assert_eq!(
            without.fate(doubtful, &gave(None), false),
            CarriedFate::Aside,
            "no checkout has what another run left"
        );
        assert_eq!(without.fate(state, &gave(None), true), CarriedFate::Needed, "the user's data");
        assert_eq!(without.fate(doubtful, &gave(None), true), CarriedFate::Stays, "no run changes it");
        for class in [FailureClass::Timeout, FailureClass::Killed, FailureClass::Oom, FailureClass::Lost] {
            let failed = Measurement { failure: Some(Failure::new(class, "")), ..Measurement::default() };
            assert_eq!(
                without.fate(state, &failed, true),
                CarriedFate::Aside,
                "{class} does not tell that it is missing"
            );
        }
        // The run without these found another one.
        without.count(&measured(None, &[("other", doubtful)]));
        assert_eq!((without.repeats, without.tried.len(), without.value), (2, 3, Some(2.0)));
        without.tried.clear();
        without.count(&measured(None, &[("other", doubtful)]));
        assert_eq!(without.fate(doubtful, &gave(None), true), CarriedFate::Stays, "it fails with and without");
    }
}
