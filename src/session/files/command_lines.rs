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
    let Some(word) = first_word(line) else {
        return Err(SessionError::NoCommand { what, word: line.trim().to_owned() });
    };
    if !is_plain(word) || find_program(word, root).is_some() {
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

/// The program that a command line starts, as the shell finds it from `root`; `None` where its words do not tell.
pub(crate) fn program_of(line: &str, root: &Path) -> Option<PathBuf> {
    find_program(first_word(line).filter(|word| is_plain(word))?, root)
}

/// The first word of a command line that assigns no variable.
fn first_word(line: &str) -> Option<&str> {
    line.split_whitespace().find(|word| !(is_plain(word) && word.contains('=')))
}

/// Returns whether the shell leaves a word as it is.
fn is_plain(word: &str) -> bool {
    word.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '+' | '=' | ':' | '@' | ','))
}

/// The executable file that a word names which the shell does not expand, by its path or in a folder of `PATH`.
fn find_program(word: &str, root: &Path) -> Option<PathBuf> {
    let may_run = |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0);
    if word.contains('/') {
        return Some(root.join(word)).filter(may_run);
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).map(|folder| root.join(folder).join(word)).find(may_run)
}
