//! `ar finalize`.

use std::process::ExitCode;

use autoresearch::domain::count_of;
use autoresearch::report::fit;

use super::args::FinalizeArgs;
use super::error::CliError;
use super::{chosen, output};

/// Makes a clean branch of what a session kept.
pub(super) fn run(args: FinalizeArgs) -> Result<ExitCode, CliError> {
    let view = chosen::open(args.session.tag())?;
    let finalized = view.finalize(args.branch, args.squash)?;
    let commits = count_of(finalized.commits.len(), "commit");
    output::line(&format!("{} has {commits} on {}:", finalized.branch, finalized.start.short(8)));
    for (commit, subject) in &finalized.commits {
        output::line(&fit(&format!("  {} {subject}", commit.short(8)), output::width()));
    }
    output::note(&format!("look at it with: git log -p {}..{}", finalized.start.short(12), finalized.branch));
    Ok(ExitCode::SUCCESS)
}
