//! `ar guard --print`, `--resident` and `--print-sh`.

use std::ffi::OsString;
use std::process::ExitCode;

use autoresearch::domain::{Clock, FORMAT_VERSION, Resident, exact_time, with_causes};
use autoresearch::exec::leave_starter;
use autoresearch::guardian::{DEFAULT_EVERY, ServiceError, become_resident, reside, resident_script};

use super::args::GuardServiceArgs;
use super::error::CliError;
use super::{exit, output};

/// Does what is asked for instead of a patrol; `None` if a patrol is asked for. `arguments` gives those that each patrol gets
/// after `ar guard`, with absolute paths.
pub(super) fn run(
    args: &GuardServiceArgs,
    arguments: impl FnOnce() -> Result<Vec<String>, CliError>,
) -> Result<Option<ExitCode>, CliError> {
    if let Some(scheduler) = args.print {
        let unit = scheduler.unit(&arguments()?, args.every.unwrap_or(DEFAULT_EVERY))?;
        output::bytes(unit.as_bytes());
    } else if args.print_sh {
        output::bytes(resident_script(&settings(args, arguments()?))?.as_bytes());
    } else if args.resident {
        return Err(become_resident(&settings(args, arguments()?)).into());
    } else {
        return Ok(None);
    }
    Ok(Some(ExitCode::SUCCESS))
}

fn settings(args: &GuardServiceArgs, arguments: Vec<String>) -> Resident {
    Resident {
        version: FORMAT_VERSION,
        beat: args.beat.unwrap_or(Resident::BEAT),
        wake: args.wake.unwrap_or(Resident::WAKE),
        patrol: args.patrol.clone(),
        arguments,
    }
}

/// Is the resident guard, as the hidden first argument of the program asks; `mode` is `detached` in the background.
pub(crate) fn be_resident(mode: Option<&OsString>) -> ExitCode {
    if mode.is_some_and(|mode| mode == "detached") {
        // Only who leads a process group cannot leave, and that has left already.
        let _ = leave_starter();
    } else {
        output::note(
            "Ctrl-C ends the resident guard; patrols and loops start it again while its `resident.json` exists",
        );
    }
    match reside(|line| output::complaint(&format!("{} {line}", exact_time(Clock::System.now())))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => CliError::from(error).print(),
    }
}

/// Tells that the resident guard, which is wanted and gone, does not start.
pub(super) fn tell_no_resident(error: &ServiceError) {
    output::note(&format!("warning: the resident guard does not start: {}", with_causes(error)));
}

impl From<ServiceError> for CliError {
    fn from(error: ServiceError) -> Self {
        CliError::with_code(exit::of_error(error.kind()), error.hint(), error)
    }
}
