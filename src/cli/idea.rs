//! `ar idea`.

use std::env;
use std::process::ExitCode;

use autoresearch::domain::{FORMAT_VERSION, Idea, IdeaState, NewIdea, USER, agent_name, one_line};
use autoresearch::report::{Format, ideas_grid};
use autoresearch::session::{SessionError, open_backlog};
use autoresearch::state::Added;
use serde_json::json;

use super::args::{IdeaArgs, IdeaCommand};
use super::error::CliError;
use super::output;
use super::process::current_dir;
use super::settings::clock;

/// Adds an idea to the backlog of the repository, lists what is in it, or drops an idea.
pub(super) fn run(args: IdeaArgs) -> Result<ExitCode, CliError> {
    let backlog = open_backlog(&current_dir()?)?;
    let now = clock()?.now();
    match args.command {
        IdeaCommand::Add { text, direction, kind, score } => {
            let idea = NewIdea { text, kind, direction, score };
            let added = backlog.add(&idea, &who(), now).map_err(SessionError::from)?;
            output::line(&match added {
                Added::New(id) => format!("added {} {id}", idea.kind),
                Added::Known(known) => format!("already listed: {} {} ({})", known.idea.kind, known.id, known.state),
            });
        }
        IdeaCommand::List { format } => list(&backlog.read().map_err(SessionError::from)?.ideas, format),
        IdeaCommand::Drop { idea } => {
            let found = backlog.mark(|known| known.id == idea, IdeaState::Dropped, &who(), now);
            let found = found.map_err(SessionError::from)?.ok_or(SessionError::NoIdea(idea))?;
            output::line(&match found.state {
                IdeaState::Dropped => format!("already dropped: {} {idea}: {}", found.idea.kind, found.idea.text),
                _ => format!("dropped {} {idea}: {}", found.idea.kind, found.idea.text),
            });
        }
    }
    Ok(ExitCode::SUCCESS)
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
    match (env::var("AR_TAG"), env::var("AR_EXPERIMENT")) {
        (Ok(tag), Ok(experiment)) => agent_name(&one_line(&tag), &one_line(&experiment)),
        _ => USER.to_owned(),
    }
}

/// A text on one line that says something, at most a thousand characters of it.
pub(super) fn text(text: &str) -> Result<String, String> {
    const LONGEST: usize = 1000;
    let line: String = one_line(text).chars().take(LONGEST).collect();
    if line.is_empty() { Err("the text is empty".to_owned()) } else { Ok(line) }
}
