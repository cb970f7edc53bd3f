//! `ar rate`.

use std::process::ExitCode;

use autoresearch::domain::{FORMAT_VERSION, Rating, Tag, with_causes};
use autoresearch::git::Repo;
use autoresearch::report::{Format, ratings_grid};
use autoresearch::session::{SessionError, no_session, rating, session_tags};
use serde_json::{Value, json};

use super::args::RateArgs;
use super::error::CliError;
use super::process::current_dir;
use super::settings::clock;
use super::{chosen, output};

/// Rates a session, or prints the rating of one or of all.
pub(super) fn run(args: RateArgs) -> Result<ExitCode, CliError> {
    let session = |name: &str| name.parse::<Tag>().map_err(SessionError::from);
    match (args.session.as_deref(), args.rating, args.tag) {
        (Some(name), Some(rating), None) => rate(session(name)?, rating),
        // The only word is the rating where an option names the session.
        (Some(word), _, Some(tag)) => {
            let hint = format!("write `ar rate {tag} 0.8`");
            rate(tag, Rating::value(word).map_err(|error| CliError::usage(format!("`{word}` {error}"), hint))?)
        }
        (Some(word), None, None) => {
            let repo = Repo::discover(&current_dir()?)?;
            // It looks like a rating of no session, unless a session has such a name.
            if let Ok(rating) = Rating::value(word)
                && !session_tags(&repo)?.iter().any(|tag| tag.as_str() == word)
            {
                return Err(CliError::usage("a rating without a session", format!("write `ar rate SESSION {rating}`")));
            }
            print(&repo, Some(&session(word)?), args.format)
        }
        (None, _, tag) => print(&Repo::discover(&current_dir()?)?, tag.as_ref(), args.format),
    }
}

fn rate(tag: Tag, value: f64) -> Result<ExitCode, CliError> {
    let view = chosen::open(Some(tag))?;
    let before = view.rate(value, clock()?)?.map(|before| format!(", before {}", before.value));
    output::line(&format!("rated session {}: {value}{}", view.tag, before.unwrap_or_default()));
    Ok(ExitCode::SUCCESS)
}

/// Prints the rating of one session, or those of all.
fn print(repo: &Repo, tag: Option<&Tag>, format: Format) -> Result<ExitCode, CliError> {
    let mut tags = session_tags(repo)?;
    if let Some(tag) = tag {
        tags.retain(|of| of == tag);
        if tags.is_empty() {
            return Err(no_session(repo, tag).into());
        }
    }
    let mut shown: Vec<(Tag, Option<Rating>)> = Vec::new();
    for of in tags {
        match rating(repo, &of) {
            Ok(rating) => shown.push((of, rating)),
            Err(error) if tag.is_some() => return Err(error.into()),
            Err(error) => output::note(&format!("note: skipped session {of}: {}", with_causes(&error))),
        }
    }
    let _pager = output::paged();
    match format {
        Format::Json => {
            let fields = |(tag, rating): &(Tag, Option<Rating>)| json!({"tag": tag, "rating": rating});
            let sessions: Vec<Value> = shown.iter().map(fields).collect();
            output::json(&json!({"version": FORMAT_VERSION, "sessions": sessions}));
        }
        format => {
            let screen = (format == Format::Table).then(clock).transpose()?;
            output::text(&ratings_grid(&shown, screen).render(format, output::width()));
        }
    }
    Ok(ExitCode::SUCCESS)
}
