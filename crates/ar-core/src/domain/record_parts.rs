//! Parts of a record: its groups of fields, runs and their roles, controls, guards, artifacts, other experiments at the same time, the origin
//! of an import, and what fresh runs say.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    AgentCall, CommitId, DiffStat, Environment, ExperimentId, FORMAT_VERSION, Failure, Fingerprint, GpuOther, Layout,
    MetricValue, Metrics, Number, Record, Review, Run, Tag, Unit, Unparsed, Waits, WallKind, count_of, ended_text,
    experiment_name, two_digits,
};

/// The evidence for an experiment's number beside its runs: their wall, control, guards, review, and the files that they left.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The wall during its runs; none if one of them had none. Absent without a run and in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<WallKind>,
    /// The run of the experiment to beat that controlled its gain; absent where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
    /// The number of fresh runs that decided on it where their values are no part of its record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh_runs: Option<u32>,
    /// The results of the guards in order; empty if none ran.
    #[serde(default)]
    pub guards: Vec<GuardRun>,
    /// The independent review of a number that would be kept; absent in a session without a reviewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<Review>,
    /// The files that its run left and `ar` saved; only of one that was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// The run that left them; absent without artifacts and in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts_run: Option<ArtifactsRun>,
}

/// The change of an experiment: its earlier versions, its size and its identity.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedChange {
    /// The earlier versions of the change, in order. Their runs come first in `runs`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<Version>,
    /// The size of the change.
    pub diff: DiffStat,
    /// The identity of the change; absent for the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
}

/// How an experiment came about: where, when, and by whom or out of which row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The environment in which it ran.
    #[serde(with = "super::execution::shared")]
    pub environment: Arc<Environment>,
    /// When the attempt began.
    #[serde(with = "crate::domain::millis")]
    pub started: Timestamp,
    /// When it was decided.
    #[serde(with = "crate::domain::millis")]
    pub finished: Timestamp,
    /// The agent's call; absent for the baseline and for `ar try`.
    pub agent: Option<AgentCall>,
    /// The foreign row from which it was imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// The rest of the agent's proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<Unparsed>,
    /// The reason that `ar` ignored the proposal, or a part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal_error: Option<String>,
}

/// The conditions of an experiment's runs that may have affected its number, and the state of its session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// The files that changed during its run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_while_running: Vec<String>,
    /// Other processes on the GPUs of its last run. It has no number because of them; only the baseline keeps its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_others: Vec<GpuOther>,
    /// Leftovers of earlier runs or the user, without which its runs were repeated.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub carried: BTreeSet<String>,
    /// The ignored files that changed during the agent's call.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub ignored_changed: BTreeSet<String>,
    /// The ignored files that the command names, by path, with stamps that change whenever a file is written.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ignored_inputs: BTreeMap<String, String>,
    /// True of a baseline whose script takes no seed: neither the command nor a tracked file names it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignores_seeds: bool,
    /// The slots of the session, where they are not those of the records before. A journal that is lost is rebuilt with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
    /// The times of the session until it was decided that no record has.
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub waits: Waits,
}

/// A rerun of the experiment to beat, in the same tree, before a change that had beaten it was kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// The experiment that ran again.
    pub experiment: ExperimentId,
    /// The value that was to beat until then.
    pub recorded: f64,
    /// The metric with the value that it gave; without one if that run failed.
    #[serde(flatten)]
    pub metric: MetricValue,
    /// True if the value moved by at least half of the claimed gain: the change is not kept, and this is the value to beat.
    pub moved: bool,
}

/// A file that a kept run wrote and `ar` saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Its path, relative to the root of the working tree.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// The run that left an experiment's artifacts: the best of those that decided on it and left any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactsRun {
    /// Its purpose.
    pub role: RunRole,
    /// Its seed; absent in sessions of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl fmt::Display for ArtifactsRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} run", self.role)?;
        self.seed.map_or(Ok(()), |seed| write!(f, ", seed {seed}"))
    }
}

/// The row of a foreign ledger from which a record was imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// The ledger's path as the user gave it.
    pub file: String,
    /// The row's line in it, from 1.
    pub line: u64,
    /// The outcome of the row: keep, discard, crash, baseline or other.
    pub status: String,
    /// The commit's cell, unchanged; absent if the ledger has no such column.
    pub commit_text: Option<String>,
    /// True if the repository has that commit. Otherwise the record's commit is all zeros. Its tag then points to the
    /// session's assumed starting commit, which says nothing about the experiment.
    pub commit_known: bool,
}

/// An experiment's relation to others open at the same time; empty for one made *in place*.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Concurrency {
    /// The slot that its last run was executed in, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u32>,
    /// The experiments whose runs went on when that run began: load is a confound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<ExperimentId>,
    /// The measurements of the change on other bases than the record's, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replays: Vec<Replay>,
    /// The train that it was kept with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train: Option<Train>,
    /// The kept experiments whose changes its tree, put on top, removes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<ExperimentId>,
    /// The discard that it measures again; in the record of a discard that conflicts with the incumbent, itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_look: Option<SecondLook>,
}

/// A second look at a discard: fresh runs of its change against the incumbent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SecondLook {
    /// The discard.
    pub of: ExperimentId,
    /// The number of discards and crashes since the last keep at which it became due.
    pub stall: u32,
    /// By how much the discard was better than the experiment that it was made on; negative if it was worse.
    pub score: f64,
    /// The incumbent at that time.
    pub incumbent: ExperimentId,
    /// The seed of its first run: one more than the largest of the discard's runs.
    pub seed: u64,
}

/// A tree with an experiment's change that was measured, or was to be, on another base than that of its record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// The commit that the change was made on.
    pub base: CommitId,
    /// The commit that was measured.
    pub commit: CommitId,
    /// The value; absent if there is none that counts.
    pub value: Option<f64>,
    /// The purpose of the measurement, or its outcome.
    pub why: String,
}

/// The train that an experiment was kept with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Train {
    /// The last of them, whose record has the number of them all.
    pub last: ExperimentId,
    /// All of them, in the order in which they were put on top of each other.
    pub members: Vec<ExperimentId>,
}

impl Record {
    /// The experiment whose record has the number of this one: the last of the train that it was kept with. Absent for an
    /// experiment that has one of its own, or none at all.
    pub fn number_of(&self) -> Option<ExperimentId> {
        self.beside.train.as_ref().map(|train| train.last).filter(|last| *last != self.id)
    }

    /// Returns whether the user made its change, or an agent that drives by itself.
    pub fn is_by_hand(&self) -> bool {
        self.origin.agent.is_none() && !self.id.is_baseline() && !self.is_second_look()
    }

    /// Returns whether it measured a discard again.
    pub fn is_second_look(&self) -> bool {
        self.beside.second_look.as_ref().is_some_and(|look| look.of != self.id)
    }
}

/// A finished run with a number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The run as records have it, with its value and the commit that it executed.
    pub run: Run,
    /// The number, as printed.
    pub number: Number,
    /// Every number that the log's summary gives.
    #[serde(flatten, with = "super::metric::with_digits")]
    pub metrics: Metrics,
    /// The units of those numbers whose names give none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, Unit>,
    /// Peak memory in GiB.
    pub memory_gb: Option<f64>,
    /// The wall that the run had, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<WallKind>,
}

/// The purpose of a run. Further runs of an experiment are in folders beside its first, each named by role and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::Display, strum::EnumString)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum RunRole {
    /// The baseline, on each slot.
    Baseline,
    /// The first run of a change. It decides alone with `--decide once`.
    Screen,
    /// A fresh run of a change that its first run selected.
    Confirm,
    /// A rerun of the incumbent, or of the baseline, of which nothing is recorded.
    Check,
    /// A rerun of the experiment to beat, before a change is kept that beat it in one run.
    Control,
    /// A train, or one winner by itself.
    Trial,
    /// A rerun beside the session.
    Repro,
    /// A fresh run of a recorded experiment beside another one.
    Verify,
}

/// The end of the name of a hidden evaluator's folder.
const OF_EVALUATOR: &str = "-holdout";

impl RunRole {
    /// The folder of a further run, such as `check-1`.
    pub fn folder(self, number: u32) -> String {
        format!("{self}-{number}")
    }

    /// The folder of the hidden evaluator that follows the run with this folder, beside it.
    pub fn hidden_folder(folder: &str) -> String {
        format!("{folder}{OF_EVALUATOR}")
    }

    /// Returns whether a further run, or the evaluator behind one, has a folder of this name. Earlier versions named them `check` and
    /// `slot-1`.
    pub fn is_folder(name: &str) -> bool {
        let name = name.strip_suffix(OF_EVALUATOR).unwrap_or(name);
        let Some((role, number)) = name.rsplit_once('-') else { return name == "check" };
        let is_role = role == "slot" || role.parse::<RunRole>().is_ok();
        is_role && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// The seed of the run of this number, counted from 1. All experiments have the same list, so that runs of one seed can be
    /// compared: 1 for a change's first run, 2 and up for those that confirm it, 1 and up for the baseline and for trains.
    /// `None` for runs that repeat a recorded one or have fresh seeds: whoever starts them says which.
    pub fn seed(self, number: u32) -> Option<u64> {
        match self {
            RunRole::Baseline | RunRole::Screen | RunRole::Trial => Some(number.into()),
            RunRole::Confirm => Some(u64::from(number) + 1),
            RunRole::Check | RunRole::Control | RunRole::Repro | RunRole::Verify => None,
        }
    }

    /// Returns whether an attempt begins with a run of this role.
    pub fn begins_attempt(self) -> bool {
        matches!(self, RunRole::Baseline | RunRole::Screen | RunRole::Trial)
    }

    /// Returns whether the run ends with the process that waits for it, so that no other process picks it up.
    pub fn is_tied(self) -> bool {
        matches!(self, RunRole::Check | RunRole::Repro | RunRole::Verify)
    }
}

/// One execution of a guard command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuardRun {
    /// The command line passed to `sh -c`.
    pub command: String,
    /// Its exit status; absent if a signal terminated it.
    pub exit: Option<i32>,
    /// The signal that terminated it.
    pub signal: Option<i32>,
    /// True if `ar` terminated it at its time limit.
    #[serde(default)]
    pub timed_out: bool,
    /// Its duration, in seconds.
    pub seconds: f64,
    /// True if it exited with 0 without changing protected files.
    pub passed: bool,
    /// The last lines of its output if it failed, without escape sequences.
    #[serde(default)]
    pub excerpt: String,
}

impl GuardRun {
    /// Describes its end: `exit 1 after 0.3 s`.
    pub fn ended(&self) -> String {
        ended_text(self.exit, self.signal, self.timed_out, self.seconds)
    }
}

/// An earlier version of an experiment's change, which the agent reworked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// Its commit, on the same base as the experiment's.
    pub commit: CommitId,
    /// The ref that keeps it.
    pub saved: String,
    /// The failure that led to the rework.
    pub failure: Option<Failure>,
    /// The reason in a sentence, with its values.
    pub reason: String,
    /// The measured value.
    pub value: Option<f64>,
    /// The results of its guards.
    #[serde(default)]
    pub guards: Vec<GuardRun>,
}

/// An experiment as a verification names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum VerifiedId {
    /// By its number, in the session itself.
    Own(ExperimentId),
    /// With its session, as in `nov20:7`, where two sessions are compared.
    Of(String),
}

impl VerifiedId {
    /// Names an experiment, with its session where two are compared.
    pub fn new(tag: Option<&Tag>, id: ExperimentId) -> VerifiedId {
        tag.map_or(VerifiedId::Own(id), |tag| VerifiedId::Of(format!("{tag}:{id}")))
    }

    /// The number, if the session is not named.
    pub fn own(&self) -> Option<ExperimentId> {
        if let VerifiedId::Own(id) = self { Some(*id) } else { None }
    }

    /// Returns whether it names an experiment with this session.
    pub fn is_of(&self, tag: &Tag) -> bool {
        matches!(self, VerifiedId::Of(name) if name.rsplit_once(':').is_some_and(|(of, _)| of == tag.as_str()))
    }

    /// Names the experiment in a sentence.
    pub fn text(&self) -> String {
        match self {
            VerifiedId::Own(id) => experiment_name(*id),
            VerifiedId::Of(name) => name.clone(),
        }
    }
}

/// Two experiments by all fresh runs that were made of them. It is the message of a tag under `verified/`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifiedPair {
    /// The format's version.
    pub version: u32,
    /// The experiment that is compared with.
    pub a: VerifiedId,
    /// The experiment that is compared.
    pub b: VerifiedId,
    /// The fresh runs of each, of all verifications of the pair.
    pub runs: u32,
    /// The gain of `b` over `a`, in the metric's unit.
    pub difference: f64,
    /// The low end of the interval.
    pub low: f64,
    /// The high end.
    pub high: f64,
    /// The confidence level of the interval.
    pub level: f64,
    /// Whether `b` is better: the whole interval is above 0.
    pub better: bool,
    /// The seeds and the values of the runs of `a`.
    pub values_a: Vec<(u64, f64)>,
    /// Those of `b`.
    pub values_b: Vec<(u64, f64)>,
    /// Number of runs asked for of each; more than `runs` after an interruption.
    pub wanted: u32,
    /// Unknown fields, from a newer version.
    #[serde(flatten)]
    pub unknown_fields: Map<String, Value>,
}

impl VerifiedPair {
    /// A pair that was not run yet.
    pub fn new(a: VerifiedId, b: VerifiedId) -> VerifiedPair {
        VerifiedPair {
            version: FORMAT_VERSION,
            a,
            b,
            runs: 0,
            difference: 0.0,
            low: 0.0,
            high: 0.0,
            level: 0.0,
            better: false,
            values_a: Vec::new(),
            values_b: Vec::new(),
            wanted: 0,
            unknown_fields: Map::new(),
        }
    }

    /// Adds a run of the first one (0) or of the second (1), instead of one with that seed.
    pub fn add(&mut self, which: usize, seed: u64, value: f64) {
        let values = if which == 0 { &mut self.values_a } else { &mut self.values_b };
        values.retain(|(known, _)| *known != seed);
        values.push((seed, value));
    }

    /// Returns whether it compares this experiment of the session.
    pub fn names(&self, id: ExperimentId) -> bool {
        [&self.a, &self.b].into_iter().any(|side| side.own() == Some(id))
    }

    /// The gain of the second one with half of its interval: `better by 0.900 ± 0.400`.
    pub fn gain_text(&self) -> String {
        let VerifiedPair { difference, low, high, .. } = self;
        let half = (high - low) / 2.0;
        match () {
            () if *low > 0.0 => format!("better by {difference:.3} ± {half:.3}"),
            () if *high < 0.0 => format!("worse by {:.3} ± {half:.3}", difference.abs()),
            () => format!("neither better nor worse for certain, {difference:+.3} ± {half:.3}"),
        }
    }

    /// Says how far apart the two are, with so many decimals.
    pub fn sentence(&self, decimals: usize) -> String {
        let VerifiedPair { a, b, difference, low, high, level, .. } = self;
        let (a, b, decimals, level) = (a.text(), b.text(), decimals.clamp(1, 12), (level * 100.0).round());
        let step = match () {
            () if *low > 0.0 => format!("{b} is better than {a} by {difference:.decimals$}"),
            () if *high < 0.0 => format!("{b} is worse than {a} by {:.decimals$}", difference.abs()),
            () => format!("{b} is neither better nor worse than {a} for certain: {difference:+.decimals$}"),
        };
        let sure = match () {
            () if low == high => ": each gave one value in all its runs, which says nothing about the noise",
            () if *low > 0.0 || *high < 0.0 => ": more than chance explains",
            () => "",
        };
        format!("{step} ({level}% interval {low:+.decimals$} to {high:+.decimals$}, positive is better){sure}")
    }

    /// The number of seeds that both have.
    pub fn common_seeds(&self) -> u32 {
        let is_common = |(seed, _): &&(u64, f64)| has(&self.values_b, *seed);
        u32::try_from(self.values_a.iter().filter(is_common).count()).unwrap_or(u32::MAX)
    }

    /// The runs that it lacks, each with which of the two it runs: those that were interrupted first, then by fresh seeds. Who
    /// begins changes from seed to seed, so that a drift harms neither.
    pub fn missing(&self, first_fresh: u64) -> Vec<(usize, u64)> {
        let lacks_b = self.values_a.iter().filter(|(seed, _)| !has(&self.values_b, *seed)).map(|(seed, _)| (1, *seed));
        let lacks_a = self.values_b.iter().filter(|(seed, _)| !has(&self.values_a, *seed)).map(|(seed, _)| (0, *seed));
        let mut missing: Vec<(usize, u64)> = lacks_a.chain(lacks_b).collect();
        let begun = self.common_seeds() as usize + missing.len();
        let own = self.values_a.iter().chain(&self.values_b).map(|(seed, _)| seed.saturating_add(1));
        let first_fresh = own.chain([first_fresh]).max().unwrap_or(first_fresh);
        for (place, seed) in (begun..self.wanted as usize).zip(first_fresh..) {
            let first = place % 2;
            missing.extend([(first, seed), (1 - first, seed)]);
        }
        missing
    }
}

fn has(values: &[(u64, f64)], seed: u64) -> bool {
    values.iter().any(|(known, _)| *known == seed)
}

/// Fresh runs of the best experiment with and without what was kept before. It is the message of a tag under `ablated/`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ablated {
    /// The format's version.
    pub version: u32,
    /// The experiment whose changes were taken out.
    pub best: ExperimentId,
    /// The runs of each tree that is compared with another one.
    pub runs: u32,
    /// The contributions of kept changes, in the order of recording; empty until all are measured.
    pub kept: Vec<Contribution>,
    /// The changes that were taken out for good, in that order.
    pub dropped: Vec<ExperimentId>,
    /// All runs.
    pub values: Vec<AblatedRun>,
    /// Unknown fields, from a newer version.
    #[serde(flatten)]
    pub unknown_fields: Map<String, Value>,
}

/// The contribution of a kept change: the best experiment's gain with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contribution {
    /// The experiment that made the change.
    pub experiment: ExperimentId,
    /// The best experiment's gain with it, in the metric's unit; absent if the change cannot be removed alone.
    pub contribution: Option<f64>,
    /// The low end of the interval.
    pub low: Option<f64>,
    /// The high end.
    pub high: Option<f64>,
    /// Whether it carries anything: the whole interval is above 0.
    pub carries: Option<bool>,
}

/// A fresh run of the best experiment without some changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AblatedRun {
    /// The changes that it lacks, in the order of their numbers; none for the best experiment itself.
    pub without: Vec<ExperimentId>,
    /// Its purpose.
    pub step: AblationStep,
    /// Its seed.
    pub seed: u64,
    /// Its value; absent if it gave none.
    pub value: Option<f64>,
}

impl AblatedRun {
    /// Returns whether the other is the same run.
    pub fn is(&self, other: &AblatedRun) -> bool {
        (&self.without, self.step, self.seed) == (&other.without, other.step, other.seed)
    }
}

/// The purpose of a run without some changes. The runs of one are never those that choose what the other measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AblationStep {
    /// To measure each change by itself.
    Ablate,
    /// To see what remains without the changes that are dropped.
    Drop,
}

/// A shift beyond chance in reruns of the best experiment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MetricDrift {
    /// By how much the same code is better now, in the metric's unit; negative if it is worse.
    pub shift: f64,
    /// Its standard error.
    pub error: f64,
    /// The reruns that show it: 1 for a sudden shift.
    pub checks: u32,
    /// The experiments over which it came.
    pub experiments: u32,
}

impl MetricDrift {
    /// Says of the newest rerun, which was of experiment `id`, what it shows.
    pub fn sentence(&self, id: ExperimentId, metric: &str) -> String {
        let way = if self.shift < 0.0 { "worse" } else { "better" };
        let size = format!("{} ± {} {way}", two_digits(self.shift.abs()), two_digits(self.error));
        match self.checks {
            1 => format!(
                "{metric} drifts: {} measures {size} than the same code by the same seed before, more than chance",
                experiment_name(id)
            ),
            checks => format!(
                "{metric} drifts: over {} the same code became {size} by {}, more than chance",
                count_of(self.experiments, "experiment"),
                count_of(checks, "rerun")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_further_runs_are_told_from_others() {
        let folder = RunRole::Baseline.folder(2);
        for name in [&folder, "check-1", "trial-10", "confirm-4", "check", "slot-3"] {
            assert!(RunRole::is_folder(name), "{name}");
        }
        for name in ["artifacts", "search-1", "baseline-", "baseline-x", "check-1.moved", "slot", "-1", ""] {
            assert!(!RunRole::is_folder(name), "{name}");
        }
    }

    #[test]
    fn interrupted_runs_come_first_and_both_begin_in_turn() {
        let mut pair = VerifiedPair::new(VerifiedId::new(None, 0.into()), VerifiedId::new(None, 7.into()));
        pair.wanted = 4;
        for (which, seed) in [(0, 6), (1, 6), (0, 7), (1, 8)] {
            pair.add(which, seed, 1.0);
        }
        assert_eq!((pair.common_seeds(), pair.missing(9)), (1, vec![(0, 8), (1, 7), (1, 9), (0, 9)]));
        assert_eq!(pair.missing(3)[2].1, 9, "no seed of its own is fresh");
        let json = serde_json::to_value(&pair).unwrap();
        assert_eq!((&json["a"], &json["b"]), (&0.into(), &7.into()));
        let tag: Tag = "nov20".parse().unwrap();
        assert_eq!(serde_json::to_value(VerifiedId::new(Some(&tag), 7.into())).unwrap(), "nov20:7");
    }

    #[test]
    fn only_a_proven_difference_is_called_better_or_worse() {
        let pair = VerifiedPair {
            level: 0.95,
            ..VerifiedPair::new(VerifiedId::new(None, 0.into()), VerifiedId::new(None, 7.into()))
        };
        let said = |difference, low, high| VerifiedPair { difference, low, high, ..pair.clone() }.sentence(2);
        let interval = |low, high| format!("(95% interval {low} to {high}, positive is better)");
        assert_eq!(
            said(0.5, 0.25, 0.75),
            format!(
                "experiment 7 is better than the baseline by 0.50 {}: more than chance explains",
                interval("+0.25", "+0.75")
            )
        );
        let open = "experiment 7 is neither better nor worse than the baseline for certain";
        assert_eq!(said(0.5, -0.25, 1.25), format!("{open}: +0.50 {}", interval("-0.25", "+1.25")));
        assert!(said(0.0, 0.0, 0.0).starts_with(&format!("{open}: +0.00 ")), "{}", said(0.0, 0.0, 0.0));
    }

    #[test]
    fn a_drift_says_its_size_and_its_error() {
        let drift = MetricDrift { shift: -0.0123, error: 0.003, checks: 1, experiments: 9 };
        assert_eq!(
            drift.sentence(7.into(), "loss"),
            "loss drifts: experiment 7 measures 0.012 ± 0.0030 worse than the same code by the same seed before, more than \
             chance"
        );
        let slow = MetricDrift { shift: 0.5, checks: 4, experiments: 80, ..drift };
        assert_eq!(
            slow.sentence(7.into(), "loss"),
            "loss drifts: over 80 experiments the same code became 0.50 ± 0.0030 better by 4 reruns, more than chance"
        );
    }
}
