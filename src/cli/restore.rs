//! `ar restore`.

use std::process::ExitCode;

use autoresearch::domain::{one_line, shell_word};

use super::args::RestoreArgs;
use super::error::CliError;
use super::process::no_runtime;
use super::{chosen, output, signals};

/// Puts an experiment's code on a new branch, or copies its artifacts.
pub(super) fn run(args: RestoreArgs) -> Result<ExitCode, CliError> {
    let (view, record) = chosen::open_at(&args.experiment, args.tag)?;
    if let Some(dir) = &args.artifacts {
        let copied = view.restore_artifacts(&record, dir)?;
        output::line(&format!("copied the artifacts of experiment {} of {}:", record.id, view.tag));
        copied.iter().for_each(|path| output::line(&one_line(&path.display().to_string())));
        return Ok(ExitCode::SUCCESS);
    }
    let interrupts = signals::interrupts().map_err(no_runtime)?;
    let restored = view.restore(&record, args.branch, args.worktree.as_deref(), &interrupts)?;
    let what = format!("experiment {} of {}, {}", record.id, view.tag, record.commit.short(8));
    output::line(&match &restored.worktree {
        Some(dir) => format!("{what}, is on the branch {}, checked out in {}", restored.branch, dir.display()),
        None => format!("{what}, is on the branch {}", restored.branch),
    });
    output::note(&match &restored.worktree {
        Some(dir) => format!("go there with: cd {}", shell_word(dir)),
        None => format!("check it out with: git switch {}", restored.branch),
    });
    Ok(ExitCode::SUCCESS)
}
