//! An engine of the user's, by four commands with JSON on standard input and output.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{JobReport, NoAnswer, Submission, TOKENS, call};
use crate::domain::{EngineCommands, FORMAT_VERSION};
use crate::rules::{EngineWord, JobState};

/// The output of `submit`.
#[derive(Deserialize)]
struct Submitted {
    version: u32,
    id: String,
}

/// A job in what `states` and `cancel` get.
#[derive(Debug, Clone, Serialize)]
pub(super) struct NamedJob {
    pub(super) id: Option<String>,
    pub(super) token: String,
}

/// The output of `states`.
#[derive(Deserialize)]
struct States {
    version: u32,
    jobs: Vec<CommandState>,
}

#[derive(Deserialize)]
struct CommandState {
    id: String,
    token: String,
    state: JobState,
}

/// The output of `cancel`.
#[derive(Deserialize)]
struct Cancelled {
    version: u32,
}

/// Submits a job, and returns its id.
pub(super) fn submit(engine: &EngineCommands, job: &Submission) -> Result<String, NoAnswer> {
    let path = std::env::var("PATH").ok().map(|path| ("PATH".to_owned(), path));
    let own = path.into_iter().chain(job.env.iter().cloned()).map(|(name, value)| (name, Value::String(value)));
    let asked = json!({
        "version": FORMAT_VERSION,
        "token": job.token,
        "command": job.command,
        "cwd": "/",
        "env": own.collect::<Map<String, Value>>(),
        "resources": engine.resources,
    });
    let Submitted { version, id } = ask(&engine.submit, &asked)?;
    of_this_version(version)?;
    Ok(id)
}

/// Asks for the states of jobs; with none, for all that the engine knows.
pub(super) fn states(engine: &EngineCommands, jobs: &[NamedJob]) -> Result<Vec<JobReport>, NoAnswer> {
    let States { version, jobs } = ask(&engine.states, &json!({"version": FORMAT_VERSION, "jobs": jobs}))?;
    of_this_version(version)?;
    let told = |CommandState { id, token, state }| {
        let word = EngineWord { state, restarts: 0 };
        JobReport { id: Some(id), token, word }
    };
    Ok(jobs.into_iter().map(told).filter(|told: &JobReport| told.token.starts_with(TOKENS)).collect())
}

/// Cancels jobs.
pub(super) fn cancel(engine: &EngineCommands, jobs: &[NamedJob]) -> Result<(), NoAnswer> {
    let Cancelled { version } = ask(&engine.cancel, &json!({"version": FORMAT_VERSION, "jobs": jobs}))?;
    of_this_version(version)
}

/// The output of a job outside of its log.
pub(super) fn logs(engine: &EngineCommands, id: &str) -> Option<String> {
    let input = json!({"version": FORMAT_VERSION, "id": id}).to_string();
    let printed = call(engine.logs.as_deref()?, input.as_bytes(), |_| false).ok()?;
    Some(String::from_utf8_lossy(&printed).into_owned())
}

fn ask<T: for<'de> Deserialize<'de>>(line: &str, document: &Value) -> Result<T, NoAnswer> {
    let printed = call(line, document.to_string().as_bytes(), |_| false)?;
    serde_json::from_slice(&printed).map_err(|error| NoAnswer(format!("`{line}` printed no answer: {error}")))
}

fn of_this_version(version: u32) -> Result<(), NoAnswer> {
    match version {
        FORMAT_VERSION => Ok(()),
        other => Err(NoAnswer(format!("an answer of version {other}, where {FORMAT_VERSION} is known"))),
    }
}
