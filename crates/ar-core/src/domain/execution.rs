//! Where runs and guards are executed: the engine, the walls around jobs, and the environment of an experiment.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use strum::{Display, EnumMessage, EnumString, VariantArray};

use super::ExperimentId;

/// The default of `--lost-after`: five minutes, after which Slurm forgets an ended job (`MinJobAge`) unless it is
/// configured otherwise.
pub const DEFAULT_LOST_AFTER: Duration = Duration::from_secs(300);

/// Number of slots of a session that executes its runs elsewhere, unless the user says otherwise.
pub(super) const CLUSTER_SLOTS: u32 = 4;

/// The executor of a session's runs, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumMessage, EnumString, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum ExecutorName {
    /// This machine.
    #[strum(message = "Run everything on this machine")]
    Local,
    /// Slurm.
    #[strum(message = "Submit runs and guards to Slurm with `sbatch`")]
    Slurm,
    /// The commands of `[executor]`.
    #[strum(message = "Submit runs and guards with the commands of [executor] in ar.toml")]
    Commands,
}

/// The commands of an engine, each for `sh -c`: the table `[executor]` of `ar.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineCommands {
    /// Starts a job.
    pub submit: String,
    /// Tells the states of jobs.
    pub states: String,
    /// Ends jobs.
    pub cancel: String,
    /// Prints what a job printed outside of its command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<String>,
    /// What the engine is to give each job, passed on as it is.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub resources: Map<String, Value>,
}

/// What starts, tells of and ends jobs elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Engine {
    /// Slurm, by its own commands.
    Slurm {
        /// Options for `sbatch`, as in a shell.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        sbatch: String,
    },
    /// Another one, by the user's commands.
    Commands(EngineCommands),
}

impl Engine {
    /// Its name among executors.
    pub fn name(&self) -> ExecutorName {
        match self {
            Engine::Slurm { .. } => ExecutorName::Slurm,
            Engine::Commands(_) => ExecutorName::Commands,
        }
    }
}

/// The engine that executes a session's runs, and when a job of it counts as lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// The engine.
    #[serde(flatten)]
    pub engine: Engine,
    /// A job that the engine does not know for so long, without a break, is lost.
    #[serde(default = "default_lost_after", with = "super::seconds")]
    pub lost_after: Duration,
}

fn default_lost_after() -> Duration {
    DEFAULT_LOST_AFTER
}

/// A session's use of walls around the jobs that it starts.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Display, EnumMessage, EnumString, VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Sandbox {
    /// A wall where the system can build one.
    #[default]
    #[strum(message = "Use bubblewrap where it works")]
    Auto,
    /// A wall, or no start.
    #[strum(message = "Refuse to start where bubblewrap does not work")]
    Require,
    /// No wall.
    #[strum(message = "Start everything without a wall")]
    Off,
}

/// The program whose wall surrounded a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum WallKind {
    /// Bubblewrap.
    Bwrap,
    /// None: the job could write whatever its user can.
    None,
}

impl WallKind {
    /// The wall of two runs together: none if one of them had none, and unknown if that of one is unknown.
    pub(super) fn of_both(one: Option<WallKind>, other: Option<WallKind>) -> Option<WallKind> {
        match (one, other) {
            (Some(WallKind::None), _) | (_, Some(WallKind::None)) => Some(WallKind::None),
            (Some(WallKind::Bwrap), Some(WallKind::Bwrap)) => Some(WallKind::Bwrap),
            (None, _) | (_, None) => None,
        }
    }
}

/// The environment in which an experiment ran. Omits what `ar` could not detect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// The host's name.
    pub host: String,
    /// The GPUs' model names, `2 x NVIDIA H100` when there are several of one kind.
    pub gpu: Option<String>,
    /// The number of GPUs.
    #[serde(default)]
    pub gpus: u32,
    /// The GPU driver's version.
    pub driver: Option<String>,
    /// A hash over the lock files in the repository root (`uv.lock`, `Cargo.lock` …).
    pub lockfile: Option<String>,
    /// The versions of what the measuring command uses.
    #[serde(default, skip_serializing_if = "Tools::are_unknown")]
    pub tools: Tools,
    /// Unknown fields, from another version.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// The versions of what a measuring command uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tools {
    /// The version of Python.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// The version of PyTorch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torch: Option<String>,
    /// Those of other tools, from another version of `ar`.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl Tools {
    fn are_unknown(&self) -> bool {
        *self == Tools::default()
    }
}

/// An environment that a loop shares with the records that it makes.
pub(super) mod shared {
    use serde::{Deserializer, Serializer};

    use super::{Arc, Deserialize, Environment, Serialize};

    pub(in crate::domain) fn serialize<S: Serializer>(it: &Arc<Environment>, serializer: S) -> Result<S::Ok, S::Error> {
        it.as_ref().serialize(serializer)
    }

    pub(in crate::domain) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<Environment>, D::Error> {
        Environment::deserialize(from).map(Arc::new)
    }
}

impl Environment {
    /// All known facts by name.
    pub fn known(&self) -> Vec<(&str, &str)> {
        let fields = [
            ("host", Some(&self.host).filter(|host| !host.is_empty())),
            ("gpu", self.gpu.as_ref()),
            ("driver", self.driver.as_ref()),
            ("lockfile", self.lockfile.as_ref()),
            ("python", self.tools.python.as_ref()),
            ("torch", self.tools.torch.as_ref()),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name, value?.as_str()))).collect()
    }
}

/// One change of the environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EnvironmentChange {
    /// The first experiment in the changed environment, which may not have run yet.
    pub experiment: ExperimentId,
    /// The name of the changed fact.
    pub field: String,
    /// The last known value before.
    pub before: String,
    /// The value now.
    pub after: String,
}

impl fmt::Display for EnvironmentChange {
    /// Formats it as `driver 550.54 → 560.28`; shortens the hash of the lock files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HASH_DIGITS: usize = 8;
        let short = |value: &str| match self.field.as_str() {
            "lockfile" => value.chars().take(HASH_DIGITS).collect(),
            _ => value.to_owned(),
        };
        write!(f, "{} {} → {}", self.field, short(&self.before), short(&self.after))
    }
}

/// The space available to this user, and the total. Both are 0 for anything that the file system does not report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// Free bytes.
    pub free: u64,
    /// All bytes.
    pub total: u64,
    /// Files that can still be created.
    pub free_files: u64,
    /// The most files possible.
    pub total_files: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_read_back_as_it_was_written() {
        let commands = EngineCommands {
            submit: "s".into(),
            states: "t".into(),
            cancel: "c".into(),
            logs: None,
            resources: Map::new(),
        };
        for engine in [Engine::Slurm { sbatch: "-p gpu".into() }, Engine::Commands(commands)] {
            let cluster = Cluster { engine, lost_after: Duration::from_secs(90) };
            let json = serde_json::to_value(&cluster).unwrap();
            assert_eq!(serde_json::from_value::<Cluster>(json).unwrap(), cluster);
        }
        let least = serde_json::json!({"kind": "slurm"});
        assert_eq!(serde_json::from_value::<Cluster>(least).unwrap().lost_after, DEFAULT_LOST_AFTER);
    }
}
