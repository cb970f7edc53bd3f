//! `ar try`.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc;

use autoresearch::agent::{Proposal, directive_text, failure_text};
use autoresearch::domain::{
    CommitId, Contract, Directive, FORMAT_VERSION, Message, Outcome, Record, StopReason, one_line,
};
use autoresearch::git::Repo;
use autoresearch::guardian::ensure_resident;
use autoresearch::rules::History;
use autoresearch::session::{Drive, Session, Tried};
use serde_json::{Value, json};

use super::health::tell_no_resident;
use super::{
    AnswerFormat, CliError, OutcomeLine, PATIENCE, Printer, Progress, Settings, TryArgs, current_dir, error,
    interruptible, no_runtime, output, saved_line, settings,
};

/// The information to print beside the record of an attempt.
#[derive(Clone, Copy)]
struct AfterAttempt<'a> {
    directive: Directive,
    /// The reason that there is no next one.
    full: Option<&'a StopReason>,
    /// The user's messages.
    words: &'a [Message],
    /// The reason that the gain of this one is doubtful, if it is.
    doubt: Option<&'a str>,
    /// The commit that was checked out, which may contain the change.
    head: Option<&'a CommitId>,
}

/// Makes the change in the working tree an experiment and waits for its outcome.
pub(super) fn run(args: TryArgs) -> Result<ExitCode, CliError> {
    let clock = settings::clock()?;
    let proposal = proposal(&args)?;
    let repo = Repo::discover(&current_dir()?)?;
    let head = repo.refs.head().ok().and_then(|head| head.commit().cloned()).filter(|_| !args.resume);
    let settings = Settings::read(args.settings, repo.worktree())?;
    let main_worktree = repo.main_worktree().to_owned();
    let plan = settings.plan(repo, Drive::WorkingTree { resume: args.resume }, clock)?.leave_out(output::files());
    if let Err(error) = ensure_resident() {
        tell_no_resident(&error);
    }
    let printer = Printer::start(Progress::aside(clock, main_worktree)).map_err(no_runtime)?;
    let code = interruptible(async |interrupts| {
        let mut session = Session::open(plan, printer.observer(), interrupts).await?;
        let tried = match (args.rework, args.resume) {
            (true, _) => session.try_again().await,
            (_, true) => session.try_continue(args.wait).await,
            _ => session.try_once(proposal, args.wait).await,
        };
        let mut status = None;
        if let Ok(tried) = tried {
            let (history, directive) = (session.history(), session.directive());
            status = code(tried, &history).filter(|_| args.exit_code || tried == Tried::RolledBack);
            let contract = session.contract();
            let words = if matches!(tried, Tried::Recorded(_)) { session.words() } else { Vec::new() };
            let told = words.clone();
            let full = session.at_cap();
            let doubt = match tried {
                Tried::Recorded(id) => session.doubt_of(id),
                _ => None,
            };
            let (printed, is_printed) = mpsc::channel();
            printer.answer(move || {
                let (full, doubt) = (full.as_ref(), doubt.as_deref());
                let next = AfterAttempt { directive, full, words: &told, doubt, head: head.as_ref() };
                answer(&history, tried, next, &contract, args.format);
                let _ = printed.send(());
            });
            if let Tried::Recorded(_) = tried {
                // On a terminal that takes nothing they were not read, and come again.
                if !words.is_empty() && is_printed.recv_timeout(PATIENCE).is_ok() {
                    let _ = session.note_printed(&words);
                }
                // The answer is given; what cannot be done now is done the next time.
                let _ = session.keep_logs();
            }
        }
        // Also of one that fails: what it had recorded by then is told.
        session.finish_alerts().await;
        tried?;
        Ok(ExitCode::from(status.unwrap_or(0)))
    });
    printer.finish();
    code
}

/// Reads what `--proposal` names.
fn read_proposal(path: &Path) -> Result<Proposal, CliError> {
    let trouble = |error: &dyn std::error::Error| {
        let hint = "it must hold a JSON object, as in {\"description\": \"warm up\", \"direction\": \"schedule\"}";
        CliError::usage(format!("cannot read the proposal {}: {error}", path.display()), hint)
    };
    let mut text = Vec::new();
    let read = match path.to_str() {
        Some("-") => io::stdin().read_to_end(&mut text).map(|_| ()),
        _ => fs::read(path).map(|bytes| text = bytes),
    };
    read.map_err(|error| trouble(&error))?;
    Proposal::parse(&text).map_err(|error| trouble(&error))
}

/// The description and other facts of the change; a flag takes precedence over the file.
fn proposal(args: &TryArgs) -> Result<Proposal, CliError> {
    let file = args.proposal.as_deref().map(read_proposal).transpose()?.unwrap_or_default();
    let direction = args.direction.as_deref().map(one_line).filter(|name| !name.is_empty());
    Ok(Proposal {
        description: args.message.clone().or(file.description),
        direction: direction.or(file.direction),
        ..file
    })
}

/// The exit code for the outcome, if it is not 0.
fn code(tried: Tried, history: &History) -> Option<u8> {
    match tried {
        Tried::Recorded(id) => match history.get(id)?.outcome {
            Outcome::Keep => None,
            Outcome::Discard => Some(error::TRY_DISCARD),
            Outcome::Crash => Some(error::TRY_CRASH),
        },
        Tried::StillRunning(_) => Some(error::TRY_RUNNING),
        Tried::RolledBack => Some(error::INTERRUPTED),
        Tried::Reworking(_) => None,
    }
}

/// Says what came of a try.
fn answer(history: &History, tried: Tried, next: AfterAttempt<'_>, contract: &Contract, format: AnswerFormat) {
    match tried {
        Tried::Recorded(id) => {
            let Some(record) = history.get(id) else { return };
            match format {
                AnswerFormat::Table => print_outcome(history, record, next, contract),
                AnswerFormat::Json => output::json_line(&with_next(record, history, next, contract)),
            }
        }
        Tried::StillRunning(id) => match format {
            AnswerFormat::Table => {
                output::line(&format!("experiment {id} is still running; keep waiting with `ar try --continue`"));
            }
            AnswerFormat::Json => {
                output::json_line(&json!({"version": FORMAT_VERSION, "id": id, "status": "running"}));
            }
        },
        Tried::Reworking(id) => {
            let Some(record) = history.get(id) else { return };
            match format {
                AnswerFormat::Table => print_reworking(record),
                AnswerFormat::Json => output::json_line(&json!({
                    "version": FORMAT_VERSION, "id": id, "status": "rework", "reason": record.reason,
                })),
            }
        }
        Tried::RolledBack => {
            // Without a baseline the opening of the session was taken back.
            output::note(if history.baseline().is_none() {
                "interrupted; nothing was recorded and the change is still in the working tree"
            } else {
                "interrupted; the change was rolled back and saved under a ref"
            });
        }
    }
}

/// A record with the doubt about its gain, and with what the next attempt is told: what the user says, the directive's fields and
/// words, and what the failure means for it.
fn with_next(
    record: &Record,
    history: &History,
    AfterAttempt { directive, words, doubt, .. }: AfterAttempt<'_>,
    contract: &Contract,
) -> Value {
    let mut answer = json!(record);
    answer["doubt"] = json!(doubt);
    if !words.is_empty() {
        answer["words"] = json!(words);
    }
    if let Some(words) = directive_text(directive, contract, history) {
        answer["next"] = json!(directive);
        answer["next"]["words"] = words.into();
    }
    if let Some(words) = failure_text(contract, record) {
        answer["next"]["after_failure"] = words.into();
    }
    answer
}

/// Says which change is in the working tree again, and what it failed.
fn print_reworking(record: &Record) {
    output::line(&format!("experiment {} is back in the working tree: {}", record.id, record.description));
    output::line(&format!("      {}", record.reason));
    for line in record.failure.iter().flat_map(|failure| failure.excerpt.lines()) {
        output::line(&format!("      | {line}"));
    }
    output::line("      next: edit it so that the guard passes, then run `ar try`");
}

fn print_outcome(history: &History, record: &Record, next: AfterAttempt<'_>, contract: &Contract) {
    let AfterAttempt { directive, full, words, doubt, head } = next;
    output::line(&OutcomeLine::of_experiment(record, doubt).fit(output::width()));
    if let Some(failure) = record.failure.as_ref().filter(|failure| !failure.excerpt.trim().is_empty()) {
        for line in failure.excerpt.lines() {
            output::line(&format!("      | {line}"));
        }
    }
    let name = &record.metric.name;
    match (&contract.keep_above, history.best()) {
        (Some(threshold), _) => output::line(&format!("      to reach: {name} {threshold}")),
        (None, Some((id, best))) => output::line(&format!("      to beat: {name} {best:#} of experiment {id}")),
        (None, None) => {}
    }
    let is_refused = record.failure.as_ref().is_some_and(|failure| failure.class.is_refusal());
    let next = match record.outcome {
        Outcome::Keep => "the working tree is the new starting point",
        Outcome::Crash if is_refused && record.is_by_hand() => "your change is still in the working tree",
        Outcome::Discard | Outcome::Crash => "the working tree is back at the best one",
    };
    if let Some(line) = saved_line(record).filter(|_| head == Some(&record.commit)) {
        output::line(&line);
    }
    if let Some(reason) = full {
        output::line(&format!("      {next}; {reason}: stop here, `ar show {}` shows this one", record.id));
        print_words(words);
        return;
    }
    output::line(&format!("      {next}; edit and `ar try` again, `ar show {}` shows this one", record.id));
    print_words(words);
    for words in failure_text(contract, record).into_iter().chain(directive_text(directive, contract, history)) {
        output::line(&format!("      next: {words}"));
    }
}

/// Prints what the user says to whoever makes the next change.
fn print_words(words: &[Message]) {
    if !words.is_empty() {
        output::line("      from the person in charge:");
    }
    for line in words.iter().flat_map(|word| word.text.lines()) {
        output::line(&format!("      | {line}"));
    }
}
