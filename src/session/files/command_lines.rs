//! Command lines that cannot start.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::program_path::own_path;
use crate::session::errors::{CommandRole, SessionError};

/// Refuses a command line whose first word is no program. A word that the shell would expand is left to the shell.
pub(crate) fn check_command(what: CommandRole, line: &str, root: &Path) -> Result<(), SessionError> {
    if own_path(line).is_some() {
        return Ok(());
    }
    let is_plain = |word: &str| {
        word.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '+' | '=' | ':' | '@' | ','))
    };
    let Some(word) = line.split_whitespace().find(|word| !(is_plain(word) && word.contains('='))) else {
        return Err(SessionError::NoCommand { what, word: line.trim().to_owned() });
    };
    if !is_plain(word) || is_program(word, root) {
        return Ok(());
    }
    // It may be one of the shell's own.
    let found = Command::new("sh")
        .args(["-c", "command -v -- \"$1\"", "sh", word])
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|source| SessionError::Io { action: "start", path: "sh".into(), source })?;
    if found.success() { Ok(()) } else { Err(SessionError::NoCommand { what, word: word.to_owned() }) }
}

/// Returns whether a word that the shell does not expand names an executable file, by its path or in a folder of `PATH`.
fn is_program(word: &str, root: &Path) -> bool {
    let may_run = |path: PathBuf| fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0);
    if word.contains('/') {
        return may_run(root.join(word));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| may_run(root.join(folder).join(word)))
}
