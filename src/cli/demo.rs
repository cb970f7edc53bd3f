//! `ar demo`.

use std::process::ExitCode;

use autoresearch::session::{Drive, Plan, SessionError, SessionView, create_demo, demo_terms};

use super::args::{DemoArgs, StreamFormat};
use super::error::CliError;
use super::progress::Progress;
use super::run::drive_loop;
use super::{exit, output, report, settings};

/// Makes the built-in example, runs its whole loop and prints the report.
pub(super) fn run(args: DemoArgs) -> Result<ExitCode, CliError> {
    let clock = settings::clock()?;
    let dir = match args.dir {
        Some(dir) => dir,
        None => tempfile::Builder::new()
            .prefix("ar-demo-")
            .tempdir()
            .map(tempfile::TempDir::keep)
            .map_err(|source| SessionError::Io { action: "create", path: std::env::temp_dir(), source })?,
    };
    let repo = create_demo(&dir)?;
    let root = repo.worktree().to_owned();
    let terms = demo_terms();
    output::line(&format!("a tiny language model in sh and awk, in {}", root.display()));
    let drive = Drive::Loop { adopt: false };
    let plan = Plan::new(repo, &terms.into(), drive, clock)?;
    let progress = Progress::new(StreamFormat::Table, clock, root.clone());
    let reason = drive_loop(plan, drive, progress)?;
    output::line("");
    report::print_session(&SessionView::open(&root, None)?)?;
    output::line("");
    output::line(&format!("look around: cd {} && ar log, ar show 4, cat results.tsv", root.display()));
    Ok(ExitCode::from(exit::of_stop(&reason)))
}
