//! `ar tell`, `ar idea` and `ar note`: words for agents and for the record. Behind a wall, the job's shim, which lives outside,
//! writes down ideas and notes.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::{env, io};

use serde::Serialize;
use serde_json::json;

use autoresearch::domain::{
    ExperimentId, ExperimentName, FORMAT_VERSION, Idea, IdeaState, NewIdea, Note, Record, Said, Tag, USER, agent_name,
    one_line, with_causes,
};
use autoresearch::exec::{Job, Reply, ask_shim};
use autoresearch::git::Repo;
use autoresearch::report::{Format, Grid, ideas_grid, words_grid};
use autoresearch::session::{SessionView, drop_message, is_behind_wall, open_backlog, tell, waiting_messages};
use autoresearch::state::Added;

use super::{CliError, IdeaCommand, NoteArgs, TellArgs, clock, current_dir, output, resolve_session};

/// The most bytes to read from standard input: more than a message may have, so that a longer one is refused.
const INPUT: u64 = 2 << 20;

/// Says something to the agents of a session, lists what was said and not delivered, or drops it.
pub(super) fn run_tell(args: TellArgs) -> Result<ExitCode, CliError> {
    let clock = clock()?;
    let repo = Repo::discover(&current_dir()?)?;
    let tag = resolve_session::find(&repo, args.tag)?;
    match (args.text.join(" "), args.drop) {
        (text, _) if !args.text.is_empty() => {
            let text = if text == "-" { read_input()? } else { text };
            let told = tell(&repo, &tag, &text, args.standing, clock)?;
            let prompts = if args.standing { "each prompt from now on has it" } else { "the next prompt has it" };
            let idle = if told.is_active { "" } else { "; no process is active now" };
            output::line(&format!("told session {tag}, word {}: {prompts}{idle}", told.id));
        }
        (_, Some(id)) => {
            let word = drop_message(&repo, &tag, id, clock)?;
            output::line(&format!("dropped word {id}: {}", word.text));
        }
        (_, None) => {
            let words = waiting_messages(&repo, &tag)?;
            list("words", &words, &words_grid(&words), args.format);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn read_input() -> Result<String, CliError> {
    let mut bytes = Vec::new();
    let read = io::stdin().take(INPUT).read_to_end(&mut bytes);
    read.map_err(|error| CliError::new(format!("cannot read standard input: {error}"), None))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Prints the entries of a list; `name` is that of the list in JSON.
fn list(name: &str, entries: &impl Serialize, grid: &Grid, format: Format) {
    match format {
        Format::Json => output::json(&json!({"version": FORMAT_VERSION, name: entries})),
        format => output::text(&grid.render(format, output::width())),
    }
}

/// Adds an idea to the backlog of the repository, lists what is in it, edits or drops an idea.
pub(super) fn idea(command: IdeaCommand) -> Result<ExitCode, CliError> {
    match command {
        IdeaCommand::Add { text, direction, kind, score } => say(Said::Idea(NewIdea { text, kind, direction, score })),
        IdeaCommand::List { format } => {
            let backlog = open_backlog(&current_dir()?)?;
            let ideas = backlog.read()?.ideas;
            list("ideas", &ideas, &ideas_grid(&ideas), format);
            Ok(ExitCode::SUCCESS)
        }
        IdeaCommand::Drop { idea } => say(Said::Drop { idea }),
        IdeaCommand::Edit { idea, text } => say(Said::Edit { idea, text }),
    }
}

/// Adds an idea to the backlog of the repository that `dir` is in, in the name of `who`. Returns a line that says so.
fn add_idea(dir: &Path, idea: &NewIdea, who: &str) -> Result<String, CliError> {
    let added = open_backlog(dir)?.add(idea, who, clock()?.now())?;
    Ok(match added {
        Added::New(id) => format!("added {} {id}", idea.kind),
        Added::Known(known) => already_listed(&known),
    })
}

fn already_listed(known: &Idea) -> String {
    format!("already listed: {} {} ({})", known.idea.kind, known.id, known.state)
}

fn unknown_idea(idea: u32) -> CliError {
    CliError::new(format!("the backlog has no idea {idea}"), Some("run `ar idea list` to see them".into()))
}

/// Replaces the text of an idea of the repository that `dir` is in, in the name of `who`. Returns a line that says so.
fn edit_idea(dir: &Path, idea: u32, text: &str, who: &str) -> Result<String, CliError> {
    let edited = open_backlog(dir)?.edit(idea, text, who, clock()?.now())?;
    Ok(match edited.ok_or_else(|| unknown_idea(idea))? {
        Added::New(id) => format!("edited idea {id}: {text}"),
        Added::Known(known) => already_listed(&known),
    })
}

/// Drops an idea of the repository that `dir` is in, in the name of `who`. Returns a line that says so.
fn drop_idea(dir: &Path, idea: u32, who: &str) -> Result<String, CliError> {
    let dropped = |_: &Idea| (IdeaState::Dropped, false);
    let found = open_backlog(dir)?.mark(|known| known.id == idea, dropped, who, clock()?.now());
    let found = found?.ok_or_else(|| unknown_idea(idea))?;
    let dropped = if found.state == IdeaState::Dropped { "already dropped:" } else { "dropped" };
    Ok(format!("{dropped} {} {idea}: {}", found.idea.kind, found.idea.text))
}

/// The agent that is called for an experiment of a session, else the user.
fn author(tag: Option<&str>, experiment: Option<&str>) -> String {
    let agent = tag.zip(experiment).map(|(tag, experiment)| agent_name(&one_line(tag), &one_line(experiment)));
    agent.unwrap_or_else(|| USER.to_owned())
}

/// A text on one line that says something, at most a thousand characters of it.
pub(super) fn text(text: &str) -> Result<String, String> {
    const LONGEST: usize = 1000;
    let line: String = one_line(text).chars().take(LONGEST).collect();
    if line.is_empty() { Err("the text is empty".to_owned()) } else { Ok(line) }
}

/// Adds a note to an experiment.
pub(super) fn note(args: NoteArgs) -> Result<ExitCode, CliError> {
    let NoteArgs { experiment, text, tag } = args;
    say(Said::Note { experiment: experiment.to_string(), text, tag: tag.map(|tag| tag.to_string()) })
}

/// Adds a note to an experiment of the repository that `dir` is in. Returns a line that says so.
fn add_note(dir: &Path, experiment: &ExperimentName, text: &str, tag: Option<Tag>) -> Result<String, CliError> {
    let (view, record) = SessionView::open_at(dir, experiment, tag)?;
    resolve_session::tell(&view.chosen());
    view.add_note(&record, text, clock()?)?;
    Ok(format!("noted on experiment {} of {}", record.id, view.tag))
}

/// The notes on these experiments, by number. Who reads a session can do without them: that they cannot be read is said.
pub(super) fn on<'a>(
    view: &SessionView,
    records: impl IntoIterator<Item = &'a Record> + Clone,
) -> BTreeMap<ExperimentId, Vec<Note>> {
    view.notes(records).unwrap_or_else(|error| {
        output::note(&format!(
            "note: cannot read notes on experiments, run `ar doctor` for details: {}",
            with_causes(&error)
        ));
        BTreeMap::new()
    })
}

/// Writes down what is said and prints a line that says so; through the shim of the job that this process is part of, if a wall
/// keeps the process from doing it itself.
fn say(said: Said) -> Result<ExitCode, CliError> {
    let repo = env::current_dir().ok().and_then(|dir| Repo::discover(&dir).ok());
    let line = if repo.is_some_and(|repo| is_behind_wall(&repo)) {
        let hint = || Some("`ar idea` and `ar note` work in a call of the agent, in its working tree".to_owned());
        let request = serde_json::to_string(&said).map_err(|error| CliError::new(error.to_string(), None))?;
        match ask_shim(&request) {
            Ok(Reply::Done(line)) => line,
            Ok(Reply::Refused(reason)) => return Err(CliError::new(reason, hint())),
            Err(error) => {
                return Err(CliError::new(format!("cannot reach the loop from behind the wall: {error}"), hint()));
            }
        }
    } else {
        let variable = |name| env::var(name).ok();
        let (tag, experiment) = (variable("AR_TAG"), variable("AR_EXPERIMENT"));
        write_down(&current_dir()?, said, tag.as_deref(), experiment.as_deref())?
    };
    output::line(&line);
    Ok(ExitCode::SUCCESS)
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
            let text = text(&new.text).map_err(|error| CliError::usage(error, "see `ar idea --help`"))?;
            add_idea(dir, &NewIdea { text, ..new }, &author(tag, experiment))
        }
        Said::Drop { idea } => drop_idea(dir, idea, &author(tag, experiment)),
        Said::Edit { idea, text: new } => {
            let new = text(&new).map_err(|error| CliError::usage(error, "see `ar idea --help`"))?;
            edit_idea(dir, idea, &new, &author(tag, experiment))
        }
        Said::Note { experiment, text: note, tag } => {
            let experiment = experiment.parse().map_err(|error| CliError::usage(error, "see `ar note --help`"))?;
            let tag = tag.map(|tag| tag.parse()).transpose().map_err(|error| CliError::usage(error, "see `ar log`"))?;
            let note = text(&note).map_err(|error| CliError::usage(error, "see `ar note --help`"))?;
            add_note(dir, &experiment, &note, tag)
        }
    }
}
