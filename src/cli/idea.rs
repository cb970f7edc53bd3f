//! `ar idea`.

use std::env;
use std::path::Path;
use std::process::ExitCode;

use autoresearch::domain::{FORMAT_VERSION, Idea, IdeaState, NewIdea, Said, USER, agent_name, one_line};
use autoresearch::report::{Format, ideas_grid};
use autoresearch::session::{SessionError, open_backlog};
use autoresearch::state::Added;
use serde_json::json;

use super::args::{IdeaArgs, IdeaCommand};
use super::error::CliError;
use super::output;
use super::process::current_dir;
use super::said::said_through_wall;
use super::settings::clock;

/// Adds an idea to the backlog of the repository, lists what is in it, or drops an idea.
pub(super) fn run(args: IdeaArgs) -> Result<ExitCode, CliError> {
    match args.command {
        IdeaCommand::Add { text, direction, kind, score } => {
            let idea = NewIdea { text, kind, direction, score };
            if !said_through_wall(&Said::Idea(idea.clone()))? {
                output::line(&add(&current_dir()?, &idea, &who())?);
            }
        }
        IdeaCommand::List { format } => {
            let backlog = open_backlog(&current_dir()?)?;
            list(&backlog.read().map_err(SessionError::from)?.ideas, format);
        }
        IdeaCommand::Drop { idea } => {
            if !said_through_wall(&Said::Drop { idea })? {
                output::line(&drop_idea(&current_dir()?, idea, &who())?);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds an idea to the backlog of the repository that `dir` is in, in the name of `who`. Returns a line that says so.
pub(super) fn add(dir: &Path, idea: &NewIdea, who: &str) -> Result<String, CliError> {
    let added = open_backlog(dir)?.add(idea, who, clock()?.now()).map_err(SessionError::from)?;
    Ok(match added {
        Added::New(id) => format!("added {} {id}", idea.kind),
        Added::Known(known) => format!("already listed: {} {} ({})", known.idea.kind, known.id, known.state),
    })
}

/// Drops an idea of the repository that `dir` is in, in the name of `who`. Returns a line that says so.
pub(super) fn drop_idea(dir: &Path, idea: u32, who: &str) -> Result<String, CliError> {
    let dropped = |_: &Idea| (IdeaState::Dropped, false);
    let found = open_backlog(dir)?.mark(|known| known.id == idea, dropped, who, clock()?.now());
    let found = found.map_err(SessionError::from)?.ok_or(SessionError::NoIdea(idea))?;
    let dropped = if found.state == IdeaState::Dropped { "already dropped:" } else { "dropped" };
    Ok(format!("{dropped} {} {idea}: {}", found.idea.kind, found.idea.text))
}

fn list(ideas: &[Idea], format: Format) {
    let grid = ideas_grid(ideas);
    match format {
        Format::Json => output::json(&json!({"version": FORMAT_VERSION, "ideas": ideas})),
        format => output::text(&grid.render(format, output::width())),
    }
}

/// The agent whose call this is a part of, else the user.
fn who() -> String {
    author(env::var("AR_TAG").ok().as_deref(), env::var("AR_EXPERIMENT").ok().as_deref())
}

/// The agent that is called for an experiment of a session, else the user.
pub(super) fn author(tag: Option<&str>, experiment: Option<&str>) -> String {
    let agent = tag.zip(experiment).map(|(tag, experiment)| agent_name(&one_line(tag), &one_line(experiment)));
    agent.unwrap_or_else(|| USER.to_owned())
}

/// A text on one line that says something, at most a thousand characters of it.
pub(super) fn text(text: &str) -> Result<String, String> {
    const LONGEST: usize = 1000;
    let line: String = one_line(text).chars().take(LONGEST).collect();
    if line.is_empty() { Err("the text is empty".to_owned()) } else { Ok(line) }
}
