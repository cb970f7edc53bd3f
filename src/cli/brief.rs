//! `ar brief`.

use std::process::ExitCode;

use autoresearch::domain::Event;
use autoresearch::session::hear_guardians;

use super::args::BriefArgs;
use super::error::CliError;
use super::process::runtime;
use super::settings::{called_by_loop, clock};
use super::{chosen, output};

/// Prints what an agent has to know for the next experiment.
pub(super) fn run(args: BriefArgs) -> Result<ExitCode, CliError> {
    let view = chosen::open(args.session.tag())?;
    if !called_by_loop() {
        let notices = Box::new(|event: &Event| {
            if let Event::Notice(notice) = event {
                output::note(&notice.to_string());
            }
        });
        runtime()?.block_on(hear_guardians(&view.repo, &view.tag, clock()?, notices))?;
    }
    output::text(&view.brief(called_by_loop())?);
    Ok(ExitCode::SUCCESS)
}
