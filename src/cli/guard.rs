//! `ar guard`.

use std::process::ExitCode;

use autoresearch::domain::FORMAT_VERSION;
use autoresearch::guardian::{GuardError, Patrol, Patrolled};
use autoresearch::rules::Thresholds;
use autoresearch::state::user_folder;
use serde_json::{Value, json};

use super::args::{GuardArgs, PatrolFormat};
use super::error::CliError;
use super::process::runtime;
use super::{exit, output, settings};

/// Makes one patrol.
pub(super) fn run(args: GuardArgs) -> Result<ExitCode, CliError> {
    let GuardArgs { paths, stall, stuck, nudge, format } = args;
    let patrol = Patrol {
        user: user_folder().ok_or(GuardError::NoHome)?,
        thresholds: Thresholds { stall, stuck },
        nudge: nudge.filter(|command| !command.trim().is_empty()),
        clock: settings::clock()?,
    };
    let patrolled = runtime()?.block_on(patrol.make(&paths))?;
    for session in &patrolled {
        match format {
            PatrolFormat::Json => output::json_line(&to_json(session)),
            PatrolFormat::Table => output::line(&to_line(session)),
        }
    }
    if patrolled.is_empty() {
        output::note("no sessions");
    }
    let needs_person = patrolled.iter().any(|session| session.verdict.needs_person);
    Ok(if needs_person { ExitCode::from(exit::NEEDS_PERSON) } else { ExitCode::SUCCESS })
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
    format!("{state:<8} {action:<8} {tag} in {}: {}{flag}", repository.display(), verdict.detail)
}
