//! A session as MLflow's file store has it: a folder for the experiment, in it one for each run, in that a file for each
//! metric, parameter and tag. What MLflow calls an experiment is a session, and what it calls a run is an experiment.

use std::collections::BTreeMap;
use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::exported::{deciding_seeds, record_json};
use super::safe::safe_line;
use crate::domain::{ExperimentId, Note, Outcome, Record, Train, cut};

/// The longest name of a metric, in bytes. MLflow allows 250 characters; a file name may be a little longer.
const LONGEST_NAME: usize = 250;

/// The longest value of a parameter that MLflow allows, in characters.
const LONGEST_PARAM: usize = 6000;

/// The longest value of a tag that MLflow allows, in characters.
const LONGEST_TAG: usize = 8000;

/// MLflow's numbers for how a run ended.
const FINISHED: u8 = 3;
const FAILED: u8 = 4;

/// Files of a run by their names.
pub type Artifacts = BTreeMap<&'static str, Vec<u8>>;

/// An MLflow experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MlflowExperiment {
    /// Its name: the session's tag.
    pub name: String,
    /// The name of its folder, which is the same for the same session at any time.
    pub id: String,
    /// Its `meta.yaml`.
    pub meta: String,
}

/// An MLflow run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MlflowRun {
    /// Its `meta.yaml`.
    pub meta: String,
    /// Its other files by their paths in the run's folder.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// The MLflow experiment of a session that has this baseline, in a store whose folder is `root` as a URI.
pub fn mlflow_experiment(baseline: &Record, root: &str) -> MlflowExperiment {
    let name = baseline.tag.to_string();
    // MLflow's own are numbers of 18 digits.
    let key = format!("{name}\n{}\n{}", baseline.commit, baseline.started);
    let digits = u64::from_str_radix(&hash(&key)[..15], 16).unwrap_or_default();
    let id = format!("{:018}", digits % 900_000_000_000_000_000 + 100_000_000_000_000_000);
    let at = baseline.started.as_millisecond();
    let fields = [
        ("artifact_location", quoted(&format!("{root}/{id}"))),
        ("creation_time", at.to_string()),
        ("experiment_id", quoted(&id)),
        ("last_update_time", at.to_string()),
        ("lifecycle_stage", "active".to_owned()),
        ("name", quoted(&name)),
    ];
    MlflowExperiment { meta: yaml(&fields), id, name }
}

impl MlflowExperiment {
    /// The name of the folder of an experiment's run, which is the same at any time.
    pub fn run_id(&self, experiment: ExperimentId) -> String {
        hash(&format!("{}\n{experiment}", self.id))[..32].to_owned()
    }

    /// An experiment of the session as a run of this one, with the notes on it; `root` is the store's folder as a URI.
    pub fn run(&self, record: &Record, notes: Option<&Vec<Note>>, root: &str, artifacts: Artifacts) -> MlflowRun {
        let id = self.run_id(record.id);
        let name = safe_line(&format!("{} {}", record.id, record.description));
        let fields = [
            ("artifact_uri", quoted(&format!("{root}/{}/{id}/artifacts", self.id))),
            ("end_time", record.finished.as_millisecond().to_string()),
            ("entry_point_name", quoted("")),
            ("experiment_id", quoted(&self.id)),
            ("lifecycle_stage", "active".to_owned()),
            ("run_id", quoted(&id)),
            ("run_name", quoted(&name)),
            ("run_uuid", quoted(&id)),
            ("source_name", quoted("")),
            ("source_type", "4".to_owned()),
            ("source_version", quoted("")),
            ("start_time", record.started.as_millisecond().to_string()),
            ("status", if record.outcome == Outcome::Crash { FAILED } else { FINISHED }.to_string()),
            ("tags", "[]".to_owned()),
            ("user_id", quoted("ar")),
        ];
        let mut files = BTreeMap::new();
        let at = record.finished.as_millisecond();
        for (metric, value) in metrics(record) {
            files.insert(format!("metrics/{metric}"), format!("{at} {value:?} 0\n").into_bytes());
        }
        for (param, value) in params(record) {
            files.insert(format!("params/{param}"), cut(&safe_line(&value), LONGEST_PARAM).into_bytes());
        }
        for (tag, value) in tags(record, notes, &name) {
            files.insert(format!("tags/{tag}"), cut(&safe_line(&value), LONGEST_TAG).into_bytes());
        }
        let record = serde_json::json!(record_json(record, notes));
        files.insert("artifacts/record.json".to_owned(), format!("{record:#}\n").into_bytes());
        for (artifact, content) in artifacts {
            files.insert(format!("artifacts/{artifact}"), content);
        }
        MlflowRun { meta: yaml(&fields), files }
    }
}

/// The values of an experiment, under names that MLflow allows. Omits the metric that a failed run printed.
fn metrics(record: &Record) -> BTreeMap<String, f64> {
    let own = record.metric.value.map(|value| (record.metric.name.clone(), value));
    let others = record.metrics.iter().filter(|(name, _)| *name != record.metric.name);
    let others = others.map(|(name, value)| (name.to_owned(), value));
    let cost = [
        ("memory_gb".to_owned(), record.memory_gb),
        ("seconds".to_owned(), (!record.runs.is_empty()).then(|| record.run_seconds())),
    ];
    let cost = cost.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let mut named = BTreeMap::new();
    for (name, value) in own.into_iter().chain(cost).chain(others) {
        let plain = allowed(&name);
        // Two names may become one; memory and time may be among the log's values.
        let (mut unique, mut number) = (plain.clone(), 2);
        while named.contains_key(&unique) {
            unique = format!("{plain}_{number}");
            number += 1;
        }
        named.insert(unique, value);
    }
    named
}

fn params(record: &Record) -> BTreeMap<&'static str, String> {
    let run = record.runs.last();
    let params = [
        ("command", run.map(|run| run.command.clone())),
        ("seed", Some(deciding_seeds(record)).filter(|seeds| !seeds.is_empty())),
        ("agent", record.agent.as_ref().map(|call| call.command.clone())),
        ("base", Some(record.base.short(usize::MAX).to_owned())),
        ("direction", record.direction.clone()),
        ("metric", Some(record.metric.name.clone())),
        ("better", Some(record.metric.direction.to_string())),
    ];
    let said = params.into_iter().filter_map(|(name, value)| Some((name, value?)));
    said.filter(|(_, value)| !value.is_empty()).collect()
}

/// The experiments that one was kept with, and itself.
fn members(train: &Train) -> String {
    train.members.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn tags(record: &Record, notes: Option<&Vec<Note>>, name: &str) -> BTreeMap<&'static str, String> {
    let notes = notes.into_iter().flatten().map(|note| note.text.as_str());
    let tags = [
        ("mlflow.runName", name.to_owned()),
        ("mlflow.source.git.commit", record.commit.short(usize::MAX).to_owned()),
        ("mlflow.source.type", "LOCAL".to_owned()),
        ("mlflow.note.content", std::iter::once(record.reason.as_str()).chain(notes).collect::<Vec<_>>().join("; ")),
        ("ar.session", record.tag.to_string()),
        ("ar.experiment", record.id.to_string()),
        ("ar.outcome", record.outcome.to_string()),
        ("ar.train", record.beside.train.as_ref().map(members).unwrap_or_default()),
        ("ar.failure", record.failure.as_ref().map(|failure| failure.class.to_string()).unwrap_or_default()),
    ];
    tags.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// A name as MLflow allows it for a metric, and as a file: letters, digits, blanks, `_`, `-`, `.` and `:`, others as `_`.
fn allowed(name: &str) -> String {
    let keep = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | ' ');
    let mut plain: String = name.chars().map(|c| if keep(c) { c } else { '_' }).collect();
    while plain.len() > LONGEST_NAME {
        plain.pop();
    }
    // A name of dots alone is a folder's.
    if plain.chars().all(|c| c == '.') { format!("_{plain}") } else { plain }
}

fn yaml(fields: &[(&str, String)]) -> String {
    fields.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name}: {value}");
        text
    })
}

/// A text in single quotes, as YAML has it.
fn quoted(text: &str) -> String {
    format!("'{}'", safe_line(text).replace('\'', "''"))
}

fn hash(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
