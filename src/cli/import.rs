//! `ar import`.

use std::process::ExitCode;

use autoresearch::domain::count_of;
use autoresearch::report::imported_grid;
use autoresearch::rules::Counts;
use autoresearch::session::Import;

use super::args::ImportArgs;
use super::error::CliError;
use super::process::current_dir;
use super::settings::clock;
use super::{foreign, output};

/// Makes a session of a ledger, or shows what it would be.
pub(super) fn run(args: ImportArgs) -> Result<ExitCode, CliError> {
    let ledger = foreign::read_from(&args.file, &args.said)?;
    let import = Import::new(&current_dir()?, &ledger, &args.file, args.tag, clock()?)?;
    if !args.dry_run {
        import.write()?;
    }
    let records = import.records();
    let tag = import.tag();
    let experiments = count_of(records.len(), "experiment");
    let counts = Counts::of(records);
    let linked = records.iter().filter(|record| record.commit.is_known()).count();
    let what = format!(
        "{experiments} of {} as session {tag}: {}; {linked} with the commit, {} without",
        args.file.display(),
        counts.listed(),
        records.len() - linked
    );
    if args.dry_run {
        let _pager = output::paged();
        output::text(&imported_grid(records).to_lines(output::width()));
        output::line(&format!("\nwould import {what}"));
    } else {
        output::line(&format!("imported {what}"));
    }
    for assumed in &ledger.assumed {
        output::note(&format!("assumed: {assumed}"));
    }
    let left_out = ledger.rows.len() - records.len();
    if left_out > 0 {
        output::note(&format!("{} cannot be read and left out; `-v` shows them", count_of(left_out, "row")));
    }
    if !args.dry_run {
        output::note(&format!("look at it with: ar report {tag}"));
    }
    Ok(ExitCode::SUCCESS)
}
