//! `ar guard --install`, `--uninstall`, `--resident` and `--print-sh`.

use std::ffi::OsString;
use std::process::ExitCode;

use autoresearch::domain::{Clock, FORMAT_VERSION, Resident, exact_time, with_causes};
use autoresearch::exec::leave_starter;
use autoresearch::guardian::{
    DEFAULT_EVERY, Plan, ServiceError, Step, become_resident, plan_install, plan_uninstall, reside, resident_script,
};

use super::args::GuardServiceArgs;
use super::error::CliError;
use super::{exit, output};

/// Does what is asked for instead of a patrol; `None` if a patrol is asked for. `arguments` gives those that each patrol gets
/// after `ar guard`, with absolute paths.
pub(super) fn run(
    args: &GuardServiceArgs,
    arguments: impl FnOnce() -> Result<Vec<String>, CliError>,
) -> Result<Option<ExitCode>, CliError> {
    if !(args.install || args.uninstall || args.resident || args.print_sh) {
        return Ok(None);
    }
    let settings = settings(args, arguments()?);
    if args.install {
        follow(&plan_install(&settings.arguments, args.every.unwrap_or(DEFAULT_EVERY), &settings)?, args.dry_run)?;
    } else if args.uninstall {
        follow(&plan_uninstall()?, args.dry_run)?;
    } else if args.print_sh {
        output::bytes(resident_script(&settings)?.as_bytes());
    } else {
        return Err(become_resident(&settings).into());
    }
    Ok(Some(ExitCode::SUCCESS))
}

fn settings(args: &GuardServiceArgs, arguments: Vec<String>) -> Resident {
    let beat = args.every.map_or(Resident::BEAT, |every| Resident::BEAT.max(2 * every));
    Resident {
        version: FORMAT_VERSION,
        beat: args.beat.unwrap_or(beat),
        wake: args.wake.unwrap_or(Resident::WAKE),
        patrol: args.patrol.clone(),
        arguments,
    }
}

/// Takes the steps of a plan, or only prints them, with the files in full.
fn follow(plan: &Plan, dry_run: bool) -> Result<(), CliError> {
    for step in &plan.steps {
        if !dry_run {
            output::line(&step.take()?);
            continue;
        }
        output::line(&format!("would {}", step.text()));
        if let Step::Write { content, .. } = step {
            content.lines().for_each(|line| output::line(&format!("  | {line}")));
        }
    }
    for note in &plan.notes {
        output::line(note);
    }
    if let Some(hint) = &plan.hint {
        output::note(&format!("hint: {hint}"));
    }
    Ok(())
}

/// Is the resident guard, as the hidden first argument of the program asks; `mode` is `detached` in the background.
pub(crate) fn be_resident(mode: Option<&OsString>) -> ExitCode {
    if mode.is_some_and(|mode| mode == "detached") {
        // Only who leads a process group cannot leave, and that has left already.
        let _ = leave_starter();
    } else {
        output::note("Ctrl-C ends the resident guard; a patrol starts it again, until `ar guard --uninstall`");
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
