//! An engine of the user's, by four commands with JSON on standard input and output.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{JobReport, NoAnswer, Submission, TOKENS, call};
use crate::domain::{EngineCommands, FORMAT_VERSION};
use crate::rules::{EngineWord, JobState};

/// The input of `submit`.
#[derive(Serialize)]
struct Submit<'a> {
    version: u32,
    token: &'a str,
    command: &'a [String],
    cwd: &'a str,
    env: Map<String, Value>,
    resources: &'a Map<String, Value>,
}

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

/// The input of `states` and `cancel`.
#[derive(Serialize)]
struct Jobs<'a> {
    version: u32,
    jobs: &'a [NamedJob],
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
    let own = path.into_iter().chain(job.env.iter().cloned());
    let asked = Submit {
        version: FORMAT_VERSION,
        token: &job.token,
        command: &job.command,
        cwd: "/",
        env: own.map(|(name, value)| (name, Value::String(value))).collect(),
        resources: &engine.resources,
    };
    let Submitted { version, id } = ask(&engine.submit, &asked)?;
    of_this_version(version)?;
    Ok(id)
}

/// Asks for the states of jobs; with none, for all that the engine knows.
pub(super) fn states(engine: &EngineCommands, jobs: &[NamedJob]) -> Result<Vec<JobReport>, NoAnswer> {
    let States { version, jobs } = ask(&engine.states, &Jobs { version: FORMAT_VERSION, jobs })?;
    of_this_version(version)?;
    let told = |CommandState { id, token, state }| {
        let word = EngineWord { state, restarts: 0 };
        JobReport { id: Some(id), token, word }
    };
    Ok(jobs.into_iter().map(told).filter(|told: &JobReport| told.token.starts_with(TOKENS)).collect())
}

/// Cancels jobs.
pub(super) fn cancel(engine: &EngineCommands, jobs: &[NamedJob]) -> Result<(), NoAnswer> {
    let Cancelled { version } = ask(&engine.cancel, &Jobs { version: FORMAT_VERSION, jobs })?;
    of_this_version(version)
}

/// The output of a job outside of its log.
pub(super) fn logs(engine: &EngineCommands, id: &str) -> Option<String> {
    let input = serde_json::to_vec(&serde_json::json!({"version": FORMAT_VERSION, "id": id})).ok()?;
    let printed = call(engine.logs.as_deref()?, &input, |_| false).ok()?;
    Some(String::from_utf8_lossy(&printed).into_owned())
}

fn ask<T: for<'de> Deserialize<'de>>(line: &str, document: &impl Serialize) -> Result<T, NoAnswer> {
    let input = serde_json::to_vec(document).map_err(|error| NoAnswer(error.to_string()))?;
    let printed = call(line, &input, |_| false)?;
    serde_json::from_slice(&printed).map_err(|error| NoAnswer(format!("`{line}` printed no answer: {error}")))
}

fn of_this_version(version: u32) -> Result<(), NoAnswer> {
    match version {
        FORMAT_VERSION => Ok(()),
        other => Err(NoAnswer(format!("an answer of version {other}, where {FORMAT_VERSION} is known"))),
    }
}
