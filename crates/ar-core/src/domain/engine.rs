//! Where the runs and guards of a session are executed: on this machine, by Slurm, or by an engine of the user's.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use strum::{Display, EnumMessage, EnumString, VariantArray};

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
