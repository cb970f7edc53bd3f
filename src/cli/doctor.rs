//! `ar doctor`.

use std::process::ExitCode;

use autoresearch::domain::Severity;
use autoresearch::git::Repo;
use autoresearch::report::{Format, findings_grid, findings_json, findings_text};
use autoresearch::session::{Asked, examine, repair};

use super::args::DoctorArgs;
use super::error::CliError;
use super::run::current_dir;
use super::terms::SettingsArgs;
use super::{exit, output, settings};

/// Prints whether everything is in order, and mends what can be mended if it is asked to.
pub(super) fn run(args: DoctorArgs) -> Result<ExitCode, CliError> {
    let dir = current_dir()?;
    let asked = match Repo::find(&dir) {
        Ok(repo) => settings::resolve(SettingsArgs::default(), repo.worktree())?,
        // What is wrong with the repository is a finding.
        Err(_) => Asked::default(),
    };
    let tag = args.session.as_ref();
    let found = match args.repair {
        true => repair(&dir, tag, &asked, settings::clock()?)?,
        false => examine(&dir, tag, &asked)?,
    };
    match Format::from(args.format) {
        Format::Table => output::text(&findings_text(&found.findings, &found.repaired)),
        Format::Csv => output::text(&findings_grid(&found.findings).to_csv()),
        Format::Markdown => output::text(&findings_grid(&found.findings).to_markdown()),
        Format::Json => {
            output::json(&findings_json(&found.sessions, &found.findings, &found.repaired, found.health()));
        }
    }
    Ok(match found.health() {
        Severity::Ok | Severity::Warning => ExitCode::SUCCESS,
        Severity::Error => ExitCode::from(exit::CANNOT_START),
        Severity::Damaged => ExitCode::from(exit::DAMAGED),
    })
}
