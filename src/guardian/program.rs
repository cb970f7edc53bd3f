//! This program, the folders of this user, and commands without the variables of a session.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::service_error::ServiceError;
use crate::fs::{failed, move_odd_away};
use crate::state::{self, user_folder};

/// The suffix that Linux adds to the name of a program whose file was replaced.
const REPLACED: &str = " (deleted)";

/// The start of the names of this program's variables.
const OWN: &str = "AR_";

/// Returns the folder that guardians write to: `guard` in the user's state folder.
///
/// # Errors
///
/// The user has no home folder.
pub(super) fn guardian_folder() -> Result<PathBuf, ServiceError> {
    user_folder().map(|user| state::guardian_folder(&user)).ok_or(ServiceError::NoHome)
}

/// The path of this program; after an upgrade, that of the new one.
pub(super) fn own_program() -> Result<PathBuf, ServiceError> {
    let path = env::current_exe().map_err(failed("find", Path::new("/proc/self/exe")))?;
    let replaced = path.to_str().and_then(|text| text.strip_suffix(REPLACED)).map(PathBuf::from);
    Ok(replaced.unwrap_or(path))
}

/// The home folder, where it is known.
pub(super) fn home() -> Option<PathBuf> {
    env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The names of the variables of sessions and settings in the environment of this process.
pub(super) fn own_variables() -> impl Iterator<Item = OsString> {
    env::vars_os().map(|(name, _)| name).filter(|name| name.as_encoded_bytes().starts_with(OWN.as_bytes()))
}

/// Clears these variables, so that the starter's do not reach what a guard starts.
pub(super) fn without_own_variables(command: &mut Command) -> &mut Command {
    for name in own_variables() {
        command.env_remove(name);
    }
    command
}

/// Has a command read nothing, and write to a new file; nowhere if that cannot be made, as a full disk stops no guard. What
/// is no file in its place is moved away: whoever opens a pipe waits for a reader, and a link leads to somebody's file.
pub(super) fn log_to(command: &mut Command, path: &Path) {
    let _ = move_odd_away(path);
    let mut new = File::options();
    new.write(true).create(true).truncate(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
    let log = new.open(path).and_then(|log| Ok((log.try_clone()?, log)));
    let (out, error) = log.map_or_else(|_| (Stdio::null(), Stdio::null()), |(out, error)| (out.into(), error.into()));
    command.stdin(Stdio::null()).stdout(out).stderr(error);
}
