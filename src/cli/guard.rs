//! `ar guard`.

use std::ffi::OsString;
use std::process::ExitCode;

use autoresearch::domain::{FORMAT_VERSION, duration_text, one_line};
use autoresearch::guardian::{GuardianError, Patrol, PatrolReport, Patrolled, ServiceError, real_path};
use autoresearch::rules::Thresholds;
use autoresearch::state::user_folder;
use serde_json::{Value, json};

use super::args::{GuardArgs, PatrolFormat};
use super::error::CliError;
use super::process::runtime;
use super::{exit, guard_service, output, settings};

/// Makes one patrol and starts the resident guard again if it is gone, or does what has patrols come by themselves.
pub(super) fn run(args: GuardArgs) -> Result<ExitCode, CliError> {
    if let Some(code) = guard_service::run(&args.service, || arguments(&args))? {
        return Ok(code);
    }
    let GuardArgs { paths, stall, stuck, nudge, format, .. } = args;
    let usual = Thresholds::default();
    let patrol = Patrol {
        user: user_folder().ok_or(GuardianError::NoHome)?,
        thresholds: Thresholds { stall: stall.unwrap_or(usual.stall), stuck: stuck.unwrap_or(usual.stuck) },
        nudge: nudge.filter(|command| !command.trim().is_empty()),
        clock: settings::clock()?,
    };
    let PatrolReport { sessions, resident, noted } = runtime()?.block_on(patrol.make(&paths))?;
    for session in &sessions {
        match format {
            PatrolFormat::Json => output::json_line(&to_json(session)),
            PatrolFormat::Table => output::line(&to_line(session)),
        }
    }
    if sessions.is_empty() {
        output::note("no sessions");
    }
    let code = resident.map_or_else(|error| CliError::from(error).print(), |()| ExitCode::SUCCESS);
    let code = noted.map_or_else(|error| CliError::from(GuardianError::from(error)).print(), |()| code);
    let needs_person = sessions.iter().any(|session| session.verdict.needs_person);
    Ok(if needs_person { ExitCode::from(exit::NEEDS_PERSON) } else { code })
}

/// The arguments of each patrol of an installed or a resident guard: the options of this invocation, with absolute
/// paths.
fn arguments(args: &GuardArgs) -> Result<Vec<String>, CliError> {
    let mut arguments = Vec::new();
    for path in &args.paths {
        let unwritable = |path: OsString| ServiceError::Unwritable { what: path.display().to_string() };
        arguments.push(real_path(path)?.into_os_string().into_string().map_err(unwritable)?);
    }
    let times = [("--stall", args.stall), ("--stuck", args.stuck)];
    for (name, time) in times.into_iter().filter_map(|(name, time)| Some((name, time?))) {
        arguments.extend([name.to_owned(), duration_text(time)]);
    }
    if let Some(nudge) = &args.nudge {
        arguments.extend(["--nudge".to_owned(), nudge.clone()]);
    }
    Ok(arguments)
}

fn to_json(Patrolled { repository, tag, verdict }: &Patrolled) -> Value {
    json!({
        "version": FORMAT_VERSION,
        "repository": repository.to_string_lossy(),
        "tag": tag,
        "state": verdict.state,
        "action": verdict.action,
        "needs_person": verdict.needs_person,
        "detail": verdict.detail,
    })
}

fn to_line(Patrolled { repository, tag, verdict }: &Patrolled) -> String {
    let flag = if verdict.needs_person { " (needs you)" } else { "" };
    let (state, action) = (verdict.state.to_string(), verdict.action.to_string());
    format!("{state:<8} {action:<8} {tag} in {}: {}{flag}", one_line(&repository.to_string_lossy()), verdict.detail)
}
