//! The folder of this user that belongs to no repository: the register of sessions, and what guardians write.

use std::env;
use std::path::PathBuf;

/// Returns `$XDG_STATE_HOME/autoresearch`, or `~/.local/state/autoresearch` where the variable is not set to an absolute
/// path, as the XDG base directory specification has it; nothing without a home folder.
#[must_use]
pub fn user_folder() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("autoresearch"))
}
