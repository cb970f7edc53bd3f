//! `ar tell`, `ar idea` and `ar note`: words for agents and for the record. Behind a wall, the job's shim, which lives outside,
//! writes down ideas and notes.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::{env, io};

use serde_json::json;

use autoresearch::domain::{
    ExperimentId, ExperimentName, FORMAT_VERSION, Idea, IdeaState, Message, NewIdea, Note, Record, Said, Tag, USER,
    agent_name, one_line, with_causes,
};
use autoresearch::exec::{Job, Reply, ask_shim};
use autoresearch::git::Repo;
use autoresearch::report::{Format, ideas_grid, words_grid};
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
        (_, None) => list_messages(&waiting_messages(&repo, &tag)?, args.format),
    }
    Ok(ExitCode::SUCCESS)
}

fn read_input() -> Result<String, CliError> {
    let mut bytes = Vec::new();
    let read = io::stdin().take(INPUT).read_to_end(&mut bytes);
    read.map_err(|error| CliError::new(format!("cannot read standard input: {error}"), None))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn list_messages(words: &[Message], format: Format) {
    match format {
        Format::Json => output::json(&json!({"version": FORMAT_VERSION, "words": words})),
        format => output::text(&words_grid(words).render(format, output::width())),
    }
}

/// Adds an idea to the backlog of the repository, lists what is in it, or drops an idea.
pub(super) fn idea(command: IdeaCommand) -> Result<ExitCode, CliError> {
    match command {
        IdeaCommand::Add { text, direction, kind, score } => {
            let idea = NewIdea { text, kind, direction, score };
            if !said_through_wall(&Said::Idea(idea.clone()))? {
                output::line(&add_idea(&current_dir()?, &idea, &who())?);
            }
        }
        IdeaCommand::List { format } => {
            let backlog = open_backlog(&current_dir()?)?;
            list_ideas(&backlog.read()?.ideas, format);
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
fn add_idea(dir: &Path, idea: &NewIdea, who: &str) -> Result<String, CliError> {
    let added = open_backlog(dir)?.add(idea, who, clock()?.now())?;
    Ok(match added {
        Added::New(id) => format!("added {} {id}", idea.kind),
        Added::Known(known) => format!("already listed: {} {} ({})", known.idea.kind, known.id, known.state),
    })
}

/// Drops an idea of the repository that `dir` is in, in the name of `who`. Returns a line that says so.
fn drop_idea(dir: &Path, idea: u32, who: &str) -> Result<String, CliError> {
    let dropped = |_: &Idea| (IdeaState::Dropped, false);
    let found = open_backlog(dir)?.mark(|known| known.id == idea, dropped, who, clock()?.now());
    let found = found?.ok_or_else(|| {
        CliError::new(format!("the backlog has no idea {idea}"), Some("run `ar idea list` to see them".into()))
    })?;
    let dropped = if found.state == IdeaState::Dropped { "already dropped:" } else { "dropped" };
    Ok(format!("{dropped} {} {idea}: {}", found.idea.kind, found.idea.text))
}

fn list_ideas(ideas: &[Idea], format: Format) {
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
    let tag_text = tag.as_ref().map(ToString::to_string);
    let said = Said::Note { experiment: experiment.to_string(), text: text.clone(), tag: tag_text };
    if !said_through_wall(&said)? {
        output::line(&add_note(&current_dir()?, &experiment, &text, tag)?);
    }
    Ok(ExitCode::SUCCESS)
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

/// Says it to the shim of the job that this process is part of, and prints the reply, if a wall keeps this process from
/// writing it down itself. Returns whether there is one.
fn said_through_wall(said: &Said) -> Result<bool, CliError> {
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
            let text = text(&new.text).map_err(|error| CliError::usage(error, "see `ar idea --help`"))?;
            add_idea(dir, &NewIdea { text, ..new }, &author(tag, experiment))
        }
        Said::Drop { idea } => drop_idea(dir, idea, &author(tag, experiment)),
        Said::Note { experiment, text: note, tag } => {
            let experiment = experiment.parse().map_err(|error| CliError::usage(error, "see `ar note --help`"))?;
            let tag = tag.map(|tag| tag.parse()).transpose().map_err(|error| CliError::usage(error, "see `ar log`"))?;
            let note = text(&note).map_err(|error| CliError::usage(error, "see `ar note --help`"))?;
            add_note(dir, &experiment, &note, tag)
        }
    }
}
