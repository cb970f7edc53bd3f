//! Files and variables of an agent's call.

use std::path::{Path, PathBuf};

use crate::domain::{Contract, ExperimentId, Number};

/// One call of the agent, by its files.
#[derive(Debug, Clone)]
pub struct Call {
    /// The folder of the experiment's runs.
    pub folder: PathBuf,
}

impl Call {
    /// The prompt, which is also the agent's standard input.
    pub fn prompt(&self) -> PathBuf {
        self.folder.join("prompt.md")
    }

    /// The agent's output.
    pub fn log(&self) -> PathBuf {
        self.folder.join("agent.log")
    }

    /// The agent's proposal.
    pub fn proposal(&self) -> PathBuf {
        self.folder.join("proposal.json")
    }
}

/// The variables for an agent.
pub fn variables(
    contract: &Contract,
    experiment: ExperimentId,
    base: &str,
    state: &Path,
    call: &Call,
    baseline: Option<&Number>,
    best: Option<&Number>,
) -> Vec<(String, String)> {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let number = |number: Option<&Number>| number.map(Number::to_string).unwrap_or_default();
    [
        ("AR_TAG", contract.tag.to_string()),
        ("AR_EXPERIMENT", experiment.to_string()),
        ("AR_METRIC", contract.metric.name.clone()),
        ("AR_DIRECTION", contract.metric.direction.to_string()),
        ("AR_BEST", number(best)),
        ("AR_BASELINE", number(baseline)),
        ("AR_BASE", base.to_owned()),
        ("AR_STATE_DIR", path(state)),
        ("AR_RUN_DIR", path(&call.folder)),
        ("AR_PROMPT", path(&call.prompt())),
        ("AR_PROPOSAL", path(&call.proposal())),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
