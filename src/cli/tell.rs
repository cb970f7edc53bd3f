//! `ar tell`.

use std::io::{self, Read};
use std::process::ExitCode;

use autoresearch::domain::{FORMAT_VERSION, Message};
use autoresearch::git::Repo;
use autoresearch::report::{Format, words_grid};
use autoresearch::session::{drop_message, tell, waiting_messages};
use serde_json::json;

use super::args::TellArgs;
use super::error::CliError;
use super::process::current_dir;
use super::{chosen, output, settings};

/// The most bytes to read from standard input: more than a message may have, so that a longer one is refused.
const INPUT: u64 = 2 << 20;

/// Says something to the agents of a session, lists what was said and not delivered, or drops it.
pub(super) fn run(args: TellArgs) -> Result<ExitCode, CliError> {
    let clock = settings::clock()?;
    let repo = Repo::discover(&current_dir()?)?;
    let tag = chosen::find(&repo, args.tag)?;
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
        (_, None) => list(&waiting_messages(&repo, &tag)?, args.format),
    }
    Ok(ExitCode::SUCCESS)
}

fn read_input() -> Result<String, CliError> {
    let mut bytes = Vec::new();
    let read = io::stdin().take(INPUT).read_to_end(&mut bytes);
    read.map_err(|error| CliError::new(format!("cannot read standard input: {error}"), None))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn list(words: &[Message], format: Format) {
    match format {
        Format::Json => output::json(&json!({"version": FORMAT_VERSION, "words": words})),
        format => output::text(&words_grid(words).render(format, output::width())),
    }
}
