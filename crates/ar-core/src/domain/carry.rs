//! What a run *in place* finds of earlier ones.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumMessage, EnumString, VariantArray};

/// The untracked files of earlier runs that a run in the user's working tree finds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Display, EnumMessage, EnumString, VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Carry {
    /// Those that change no number, as far as `ar` sees.
    #[default]
    #[strum(message = "Set aside what a run reads and changes, such as a checkpoint")]
    Found,
    /// All of them.
    #[strum(message = "Let each run find everything that earlier ones left")]
    All,
    /// None but bytecode, environments, marked caches and records of trackers.
    #[strum(message = "Set aside everything that runs leave, as slots do")]
    None,
}

impl Carry {
    /// Returns whether it is the default, which contracts omit.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn is_default(&self) -> bool {
        *self == Carry::default()
    }
}
