//! `ar status`.

use std::process::ExitCode;

use autoresearch::report::render_status;
use autoresearch::session::look_at_sessions;

use super::args::StatusArgs;
use super::error::CliError;
use super::process::current_dir;
use super::{exit, output, settings, watch};

/// Prints what is happening to a session, or to each of them.
pub(super) fn run(args: StatusArgs) -> Result<ExitCode, CliError> {
    let tag = args.session.tag();
    if args.watch {
        return watch::run(tag);
    }
    let sessions = look_at_sessions(&current_dir()?, tag, settings::clock()?)?;
    let _pager = output::paged();
    output::text(&render_status(&sessions, args.format.into(), output::width()));
    exit::leave(sessions);
    Ok(ExitCode::SUCCESS)
}
