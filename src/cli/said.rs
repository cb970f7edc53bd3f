//! `ar idea` and `ar note` behind a wall: the job's shim, which lives outside, writes down what is said.

use std::env;
use std::path::Path;

use autoresearch::domain::{NewIdea, Said};
use autoresearch::exec::{Job, Reply, ask_shim};
use autoresearch::git::Repo;
use autoresearch::session::is_behind_wall;

use super::error::CliError;
use super::{idea, note, output};

/// Says it to the shim of the job that this process is part of, and prints the reply, if a wall keeps this process from
/// writing it down itself. Returns whether there is one.
pub(super) fn said_through_wall(said: &Said) -> Result<bool, CliError> {
    let repo = env::current_dir().ok().and_then(|dir| Repo::discover(&dir).ok());
    if !repo.is_some_and(|repo| is_behind_wall(&repo)) {
        return Ok(false);
    }
    let hint = || Some("`ar idea` and `ar note` work in a call of the agent, in its working tree".to_owned());
    let request = serde_json::to_string(said).map_err(|error| CliError::new(error.to_string(), None))?;
    match ask_shim(&request) {
        Ok(Reply::Done(line)) => {
            output::line(&line);
            Ok(true)
        }
        Ok(Reply::Refused(reason)) => Err(CliError::new(reason, hint())),
        Err(error) => Err(CliError::new(format!("cannot reach the loop from behind the wall: {error}"), hint())),
    }
}

/// Writes down what a process of a job says, in the shim of the job.
pub(crate) fn answer(job: &Job, request: &str) -> Reply {
    let variable = |name: &str| job.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let said = match serde_json::from_str::<Said>(request) {
        Ok(said) => said,
        Err(error) => return Reply::Refused(format!("not understood: {error}")),
    };
    match write_down(&job.cwd, said, variable("AR_TAG"), variable("AR_EXPERIMENT")) {
        Ok(line) => Reply::Done(line),
        Err(error) => Reply::Refused(error.to_string()),
    }
}

fn write_down(dir: &Path, said: Said, tag: Option<&str>, experiment: Option<&str>) -> Result<String, CliError> {
    match said {
        Said::Idea(new) => {
            let text = idea::text(&new.text).map_err(|error| CliError::usage(error, "see `ar idea --help`"))?;
            idea::add(dir, &NewIdea { text, ..new }, &idea::author(tag, experiment))
        }
        Said::Drop { idea } => idea::drop_idea(dir, idea, &idea::author(tag, experiment)),
        Said::Note { experiment, text, tag } => {
            let experiment = experiment.parse().map_err(|error| CliError::usage(error, "see `ar note --help`"))?;
            let tag = tag.map(|tag| tag.parse()).transpose().map_err(|error| CliError::usage(error, "see `ar log`"))?;
            let text = idea::text(&text).map_err(|error| CliError::usage(error, "see `ar note --help`"))?;
            note::add(dir, &experiment, &text, tag)
        }
    }
}
