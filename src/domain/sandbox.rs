//! Walls around jobs.

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
