//! `ar demo`.

use std::process::ExitCode;

use autoresearch::score::ARTIFACT;
use autoresearch::session::{
    Drive, Plan, SessionError, SessionView, create_demo, create_research_demo, demo_terms, research_demo_terms,
};

use super::args::{DemoArgs, StreamFormat};
use super::error::CliError;
use super::progress::Progress;
use super::run::drive_loop;
use super::{error, output, records, settings};

/// The picture of the course, in the session's folder.
const PICTURE: &str = "course.png";

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
    let (repo, terms, what) = if args.research {
        (create_research_demo(&dir)?, research_demo_terms(), "a question about leaves, and a scripted researcher")
    } else {
        (create_demo(&dir)?, demo_terms(), "a tiny language model in sh and awk")
    };
    let root = repo.worktree().to_owned();
    output::line(&format!("{what}, in {}", root.display()));
    let drive = Drive::TYPED;
    let plan = Plan::new(repo, &terms.into(), drive, clock)?;
    let progress = Progress::new(StreamFormat::Table, clock, root.clone());
    let reason = drive_loop(plan, drive, progress, None)?;
    output::line("");
    let view = SessionView::open(&root, None)?;
    let file = if args.research {
        let picture = view.folder.root().join(PICTURE);
        records::print_and_draw(&view, &picture)?;
        output::line(&format!("\nthe picture is in {}", picture.display()));
        ARTIFACT
    } else {
        records::print_session(&view)?;
        "results.tsv"
    };
    output::line("");
    output::line(&format!("look around: cd {} && ar log, ar show 4, cat {file}", root.display()));
    Ok(ExitCode::from(error::of_stop(&reason)))
}
