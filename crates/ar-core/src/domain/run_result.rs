//! What a run gave, as far as it may decide on an experiment together with others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Metrics, Number, Run, Unit, WallKind};

/// A finished run with a number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The run as records have it, with its value and the commit that it executed.
    pub run: Run,
    /// The number, as printed.
    pub number: Number,
    /// Every number that the log's summary gives.
    #[serde(flatten, with = "super::metrics::with_digits")]
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
