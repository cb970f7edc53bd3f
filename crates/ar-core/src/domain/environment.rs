//! The environment of an experiment.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ExperimentId;

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
