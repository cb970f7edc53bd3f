//! Walls around jobs: when a session uses them, and what held during a run.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumMessage, EnumString, VariantArray};

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

impl Sandbox {
    /// Returns whether it is the default, which contracts omit.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn is_auto(&self) -> bool {
        *self == Sandbox::Auto
    }
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
