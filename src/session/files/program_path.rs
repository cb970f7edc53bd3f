//! Finding this program where a command calls it by its name.

use std::env;
use std::path::PathBuf;

use crate::rules::calls_score;

/// The name of the program.
const NAME: &str = "ar";

/// The suffix that Linux adds to the name of a program whose file was replaced.
const REPLACED: &str = " (deleted)";

/// `PATH` for a command line that calls `ar score`: first the folder of this program, since the first `ar` there is mostly the
/// archiver of binutils, or there is none. Nothing for other command lines, and where this program has another name.
pub(crate) fn own_path(command: &str) -> Option<(String, String)> {
    if !calls_score(command) {
        return None;
    }
    let program = env::current_exe().ok()?;
    let name = program.file_name()?.to_str()?;
    let folder = program.parent()?.to_owned();
    if name.strip_suffix(REPLACED).unwrap_or(name) != NAME || !folder.join(NAME).is_file() {
        return None;
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = [folder].into_iter().chain(env::split_paths(&path));
    let path = env::join_paths(folders.collect::<Vec<PathBuf>>()).ok()?;
    Some(("PATH".into(), path.into_string().ok()?))
}
