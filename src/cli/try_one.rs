//! `ar try`.

use std::process::ExitCode;

use autoresearch::domain::{FORMAT_VERSION, Outcome, Record};
use autoresearch::git::Repo;
use autoresearch::session::{Drive, Plan, Session, Tried};
use serde_json::json;

use super::args::{AnswerFormat, TryArgs};
use super::error::CliError;
use super::progress::{Progress, experiment_line};
use super::run::{current_dir, no_runtime, runtime};
use super::{exit, output, settings, signals};

/// Makes the change in the working tree an experiment and waits for its outcome.
pub(super) fn run(args: TryArgs) -> Result<ExitCode, CliError> {
    let clock = settings::clock()?;
    let repo = Repo::discover(&current_dir()?)?;
    let asked = settings::resolve(args.settings, repo.worktree())?;
    let main_worktree = repo.main_worktree();
    let plan = Plan::new(repo, &asked, Drive::WorkingTree { resume: args.resume }, clock)?;
    let wait = args.wait.map(Into::into);
    runtime()?.block_on(async {
        let mut progress = Progress::aside(clock, main_worktree);
        let interrupts = signals::interrupts().map_err(no_runtime)?;
        let mut session = Session::open(plan, Box::new(move |event| progress.show(event)), interrupts)?;
        let tried =
            if args.resume { session.try_continue(wait).await? } else { session.try_once(args.message, wait).await? };
        let code = answer(&session, tried, args.format, args.exit_code);
        if let Tried::Recorded(_) = tried {
            // The answer is given; what cannot be done now is done the next time.
            let _ = session.keep_logs();
        }
        Ok(code)
    })
}

fn answer(session: &Session<'_>, tried: Tried, format: AnswerFormat, exit_code: bool) -> ExitCode {
    match tried {
        Tried::Recorded(id) => {
            let Some(record) = session.history().get(id) else { return ExitCode::SUCCESS };
            match format {
                AnswerFormat::Table => print_outcome(session, record),
                AnswerFormat::Json => output::json_line(&json!(record)),
            }
            ExitCode::from(match record.outcome {
                Outcome::Discard if exit_code => exit::TRY_DISCARD,
                Outcome::Crash if exit_code => exit::TRY_CRASH,
                _ => 0,
            })
        }
        Tried::StillRunning(id) => {
            match format {
                AnswerFormat::Table => {
                    output::line(&format!("experiment {id} is still running; wait on with `ar try --continue`"));
                }
                AnswerFormat::Json => {
                    output::json_line(&json!({"version": FORMAT_VERSION, "id": id, "status": "running"}));
                }
            }
            ExitCode::from(if exit_code { exit::TRY_RUNNING } else { 0 })
        }
        Tried::RolledBack => {
            // Without a baseline the opening of the session was taken back.
            output::note(if session.history().baseline().is_none() {
                "interrupted; nothing was recorded, and the change is in the working tree as before"
            } else {
                "interrupted; the change was rolled back and is kept under a saved ref"
            });
            ExitCode::from(exit::INTERRUPTED)
        }
    }
}

fn print_outcome(session: &Session<'_>, record: &Record) {
    output::line(&output::fit(&experiment_line(record), output::width()));
    if let Some(failure) = record.failure.as_ref().filter(|failure| !failure.excerpt.trim().is_empty()) {
        for line in failure.excerpt.lines() {
            output::line(&format!("      | {line}"));
        }
    }
    if let Some((id, best)) = session.best() {
        output::line(&format!("      to beat: {} {best} of experiment {id}", record.metric.name));
    }
    let next = match record.outcome {
        Outcome::Keep => "the working tree is the new starting point",
        Outcome::Discard | Outcome::Crash => "the working tree is back at the best one",
    };
    output::line(&format!("      {next}; edit and `ar try` again, `ar show {}` has this one", record.id));
}
