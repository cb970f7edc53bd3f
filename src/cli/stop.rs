//! `ar stop`.

use std::process::ExitCode;

use autoresearch::domain::{
    Asked, Clock, ExperimentId, StopWhen, Tag, experiment_name, experiment_names, list, with_causes,
};
use autoresearch::git::Repo;
use autoresearch::session::{
    Drive, Interrupt, Plan, Session, SessionError, Stopped, StoppingBeside, Tried, TryError, ask_to_stop, end_run_only,
    note_stopped,
};
use autoresearch::state::SessionFolder;

use super::args::StopArgs;
use super::error::CliError;
use super::printer::Printer;
use super::process::{current_dir, no_runtime, runtime};
use super::progress::Progress;
use super::{output, process, resolve_session, settings};

/// Stops whoever is at work on a session, or ends a run that goes on without anybody.
pub(super) fn run(args: StopArgs) -> Result<ExitCode, CliError> {
    let clock = settings::clock()?;
    let repo = Repo::discover(&current_dir()?)?;
    let tag = resolve_session::find(&repo, args.session.tag())?;
    let when = if args.now { StopWhen::Now } else { StopWhen::Experiment };
    let stopped = ask_to_stop(&repo, &tag, when, clock)?;
    if matches!(stopped, Stopped::NobodyThere | Stopped::RunsAlone(_) | Stopped::Left(_)) {
        keep_guardians_away(&repo, &tag, clock);
    }
    let waiting = SessionFolder::new(&repo.main_worktree(), &tag).files_to_return();
    output::line(&match stopped {
        Stopped::NobodyThere if !waiting.is_empty() => {
            end_open(repo, &tag, ExperimentId::BASELINE, true, clock)?;
            format!("session {tag} is idle; put back {}", list(&waiting))
        }
        Stopped::NobodyThere => format!("session {tag} is idle; nothing to stop"),
        Stopped::RunsAlone(id) if args.now => end_open(repo, &tag, id, false, clock)?,
        Stopped::RunsAlone(id) => format!(
            "no loop is active in session {tag}, but the run of {} is still going\n`ar stop {tag} --now` terminates \
                it; `ar resume {tag}` waits for it and continues",
            experiment_name(id)
        ),
        Stopped::Left(id) if args.now => end_open(repo, &tag, id, true, clock)?,
        Stopped::Left(id) => format!(
            "session {tag} is idle, but {} is still open\n`ar stop {tag} --now` saves its change and closes it; \
                `ar resume {tag}` continues",
            experiment_name(id)
        ),
        Stopped::RunsUnknown(id) if args.now => {
            runtime()?.block_on(end_run_only(&repo.main_worktree(), &tag, id))?;
            format!("terminated the run of {}; run `ar doctor {tag}` to see what is left of it", experiment_name(id))
        }
        Stopped::RunsUnknown(id) => format!(
            "no loop is active in session {tag}, but a run of {} is still going that its journal does not know\n\
             `ar stop {tag} --now` terminates it; `ar doctor {tag}` shows the fix",
            experiment_name(id)
        ),
        Stopped::After(open) if !open.is_empty() => format!("session {tag} stops after {}", experiment_names(&open)),
        Stopped::After(_) => format!("session {tag} stops before its next experiment"),
        Stopped::Beside(stopping) => stopping_text(&tag, &stopping),
        Stopped::Ended(Some(id)) => format!(
            "session {tag} has stopped; {} stays open, and `ar resume {tag}` goes on with its fresh runs",
            experiment_name(id)
        ),
        Stopped::Ended(None) if args.now => format!("session {tag} has stopped; what was unfinished is rolled back"),
        Stopped::Ended(None) => format!("session {tag} has stopped"),
    });
    Ok(ExitCode::SUCCESS)
}

/// Describes the runs and proposals of a session with slots that stops.
fn stopping_text(tag: &Tag, stopping: &StoppingBeside) -> String {
    let StoppingBeside { runs, proposals, stay_ready, winners, train } = stopping;
    let mut first: Vec<String> = Vec::new();
    if !runs.is_empty() {
        first.push(experiment_names(runs));
    }
    if *train {
        first.push("the run of merged winners".to_owned());
    }
    let mut text = match first.is_empty() {
        true => format!("session {tag} stops before its next run"),
        false => format!("session {tag} stops after {}", first.join(" and ")),
    };
    if !proposals.is_empty() {
        text += &if *stay_ready {
            format!("\nready for the next loop, unless an agent is still at work: {}", experiment_names(proposals))
        } else {
            format!("\nkept as ideas with their commits, not run: the proposals of {}", experiment_names(proposals))
        };
    }
    if !winners.is_empty() {
        text += &format!("\nwaiting to be merged when `ar resume {tag}` continues: {}", experiment_names(winners));
    }
    text
}

/// Tells guardians to leave an idle session alone. Reports a failure and continues.
pub(super) fn keep_guardians_away(repo: &Repo, tag: &Tag, clock: Clock) {
    if let Err(error) = note_stopped(repo, tag, clock) {
        output::note(&format!("`ar guard` may restart session {tag}: {}", with_causes(&error)));
    }
}

/// Takes over the session, and ends and closes the experiment that is open in it, as the second Ctrl-C does.
fn end_open(repo: Repo, tag: &Tag, id: ExperimentId, was_left: bool, clock: Clock) -> Result<String, CliError> {
    let main_worktree = repo.main_worktree();
    let asked = Asked { tag: Some(tag.clone()), ..Asked::default() };
    let plan = Plan::new(repo, &asked.into(), Drive::Ending, clock)?;
    let printer = Printer::start(Progress::aside(clock, main_worktree.clone())).map_err(no_runtime)?;
    let tried = runtime()?.block_on(async {
        let interrupts = process::interrupts().map_err(no_runtime)?;
        interrupts.ask(Interrupt::Now);
        let tried = async { Session::open(plan, printer.observer(), interrupts).await?.try_continue(None).await };
        Ok::<_, CliError>(match tried.await {
            // The run may be what fills the disk.
            Err(error) if error.is_disk_full() => {
                end_run_only(&main_worktree, tag, id).await?;
                None
            }
            // It had no commit yet: closing it was all there was to do.
            Err(SessionError::Try(TryError::NothingOpen)) => Some(Tried::RolledBack),
            tried => Some(tried?),
        })
    });
    printer.finish();
    let name = experiment_name(id);
    Ok(match tried? {
        Some(Tried::RolledBack) if was_left => format!("closed {name} and rolled its change back"),
        Some(Tried::Recorded(_)) if was_left => format!("{name} had been measured; it is recorded"),
        Some(Tried::RolledBack) => format!("terminated the run of {name} and rolled its change back"),
        Some(Tried::Recorded(_)) => format!("the run of {name} had already finished; it is recorded"),
        // No run is brought back here.
        Some(Tried::StillRunning(_)) if was_left => {
            format!("{name} stays open with its fresh runs; `ar resume` goes on")
        }
        Some(Tried::StillRunning(_) | Tried::Reworking(_)) => format!("the run of {name} is still going"),
        None => format!(
            "terminated the run of {name}; the disk is too full for the rest: free space, then run `ar resume {tag}` \
                to continue"
        ),
    })
}
