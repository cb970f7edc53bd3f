//! `ar status`.

use std::process::ExitCode;

use autoresearch::guardian::{GuardianError, registered_sessions};
use autoresearch::report::{Format, render_all_status, render_status};
use autoresearch::session::{inspect_all, inspect_sessions};
use autoresearch::state::user_folder;

use super::args::StatusArgs;
use super::error::CliError;
use super::process::current_dir;
use super::{exit, output, settings, watch};

/// Prints what is happening to a session, or to each of them.
pub(super) fn run(args: StatusArgs) -> Result<ExitCode, CliError> {
    if args.all {
        return if args.watch { watch::run_all() } else { all(args.format) };
    }
    let tag = args.session.or(args.tag);
    if args.watch {
        return watch::run(tag);
    }
    let sessions = inspect_sessions(&current_dir()?, tag, settings::clock()?)?;
    let _pager = output::paged();
    output::text(&render_status(&sessions, args.format, output::width()));
    exit::leave(sessions);
    Ok(ExitCode::SUCCESS)
}

/// Prints a line for each session of this user on this machine.
fn all(format: Format) -> Result<ExitCode, CliError> {
    let user = user_folder().ok_or(GuardianError::NoHome)?;
    let (sessions, troubles) = inspect_all(registered_sessions(&user)?, settings::clock()?);
    for trouble in troubles {
        output::note(&trouble);
    }
    let _pager = output::paged();
    match (sessions.is_empty(), format) {
        (true, Format::Table) => output::line("no sessions"),
        _ => output::text(&render_all_status(&sessions, format, output::width())),
    }
    exit::leave(sessions);
    Ok(ExitCode::SUCCESS)
}
