//! The places in which a session makes and runs several experiments at a time.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Cluster, GpuChoice};

/// Default number of proposals that wait, ready to run, with several slots. In simulated nights, one keeps the slots
/// busy for 98% of the time, and more for over 99%.
const AHEAD: u32 = 2;

/// Slots and seats, each with a linked working tree of its own. It is not part of the contract: a session may continue
/// with another layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// The number of slots, at least 1.
    pub slots: u32,
    /// The most proposals that may wait, ready to run, beyond the free slots.
    pub ahead: u32,
    /// The most agents at a time; absent for as many as keep the slots fed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u32>,
    /// The GPUs that are divided among the slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<GpuChoice>,
    /// The number of GPUs that a run uses.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub gpus_per_run: u32,
    /// Paths that git does not store, linked into every working tree; relative to the repository's root.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<PathBuf>,
    /// The links that runs write to: caches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<PathBuf>,
    /// What executes runs and guards elsewhere; absent where they run on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
    /// The one that executed them before they ran on this machine, to which the session may go back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_before: Option<Cluster>,
}

impl Layout {
    /// The layout of so many slots, without GPUs and links.
    pub fn of(slots: u32) -> Layout {
        let ahead = if slots > 1 { AHEAD } else { 1 };
        Layout {
            slots,
            ahead,
            calls: None,
            gpus: None,
            gpus_per_run: 1,
            links: Vec::new(),
            writable: Vec::new(),
            cluster: None,
            cluster_before: None,
        }
    }
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(count: &u32) -> bool {
    *count == 1
}
