//! Commands that act, refused inside a call that the loop made.

use std::env;
use std::path::{Path, PathBuf};

use autoresearch::git::Repo;
use autoresearch::state::SESSIONS_FOLDER;

use super::args::Command;
use super::error::CliError;
use super::settings;

/// Refuses a command that would change a session while this process is part of one of its experiments: the agent's call,
/// the run, or a guard. Commands that read are allowed, and so are commands in another repository.
pub(super) fn refuse(command: &Command) -> Result<(), CliError> {
    let Some(name) = command.acting() else { return Ok(()) };
    let Some(experiment) = variable("AR_EXPERIMENT") else { return Ok(()) };
    let (Some(state), Ok(dir)) = (env::var_os("AR_STATE_DIR"), env::current_dir()) else { return Ok(()) };
    let Ok(repo) = Repo::discover(&dir) else { return Ok(()) };
    if !real(Path::new(&state)).starts_with(real(&repo.main_worktree().join(SESSIONS_FOLDER))) {
        return Ok(());
    }
    let hint = match settings::called_by_loop() {
        true => "edit the files, describe the change in $AR_PROPOSAL, then exit: `ar` does the rest",
        false => "take the command out of the run and its guards; `ar status` works there",
    };
    Err(CliError::new(format!("cannot call `ar {name}` inside experiment {experiment} of the loop"), Some(hint.into())))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
