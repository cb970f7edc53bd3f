//! `ar run`.

use std::process::ExitCode;

use autoresearch::domain::StopReason;
use autoresearch::git::Repo;
use autoresearch::guardian::keep_resident;
use autoresearch::session::{Drive, Driven, Plan, Session, session_tags};

use super::args::{ResumeArgs, RunArgs, StreamFormat};
use super::error::CliError;
use super::guard_service::tell_no_resident;
use super::printer::Printer;
use super::process::{current_dir, no_runtime, runtime};
use super::progress::Progress;
use super::settings::{self, Settings};
use super::{chosen, confirm, exit, output, signals};

/// What to know of a loop without an end before it begins.
const NO_END: &str = "no limit is set, so the loop runs until you stop it; limits are --max-experiments 100, --for 8h, \
    --until 07:00 and --max-cost 20";

/// Starts or continues a session and loops.
pub(super) fn run(args: RunArgs) -> Result<ExitCode, CliError> {
    let clock = settings::clock()?;
    let repo = Repo::discover(&current_dir()?)?;
    let settings = Settings::read(args.settings, repo.worktree())?;
    let drive = Drive::Loop { adopt: args.adopt };
    let main_worktree = repo.main_worktree();
    let mut plan = settings.plan(repo, drive, clock)?.leave_out(output::files());
    let must_ask = !args.yes && !plan.continued() && args.format == StreamFormat::Table && output::is_interactive();
    if must_ask && !confirm::confirm(&plan) {
        output::note("not started; nothing was changed");
        return Ok(ExitCode::from(exit::INTERRUPTED));
    }
    if !must_ask && plan.contract().agent.is_some() && !plan.contract().ends_loop() {
        plan = plan.note(NO_END.to_owned());
    }
    let reason = drive_loop(plan, drive, Progress::new(args.format, clock, main_worktree))?;
    if reason == StopReason::NoAgent && args.format == StreamFormat::Table && !output::manners().quiet {
        output::line(
            "continue with `ar run --agent COMMAND`, or from inside an agent: edit, then `ar try -m \"what it \
                changes\"`",
        );
    }
    Ok(ExitCode::from(exit::of_stop(&reason)))
}

/// Continues a session by its stored terms.
pub(super) fn resume(args: ResumeArgs) -> Result<ExitCode, CliError> {
    let clock = settings::clock()?;
    let repo = Repo::discover(&current_dir()?)?;
    let mut settings = Settings::read(args.settings, repo.worktree())?;
    let named = args.session.or_else(|| settings.given.tag.clone());
    let tag = chosen::find(&repo, named.or_else(|| settings.tag_in_file(&session_tags(&repo).ok()?)))?;
    settings.given.tag = Some(tag);
    let drive = drive_on();
    let main_worktree = repo.main_worktree();
    let plan = settings.plan(repo, drive, clock)?.leave_out(output::files());
    let reason = drive_loop(plan, drive, Progress::new(args.format, clock, main_worktree))?;
    Ok(ExitCode::from(exit::of_stop(&reason)))
}

/// A loop that continues.
fn drive_on() -> Drive {
    Drive::Loop { adopt: false }
}

/// Opens the session of a plan and runs its loop to the end.
pub(super) fn drive_loop(plan: Plan, drive: Drive, progress: Progress) -> Result<StopReason, CliError> {
    let tag = plan.contract().tag.clone();
    let printer = Printer::start(progress).map_err(no_runtime)?;
    let looped = async {
        let interrupts = signals::interrupts().map_err(no_runtime)?;
        let mut session = Session::open(plan, printer.observer(), interrupts.clone()).await?;
        let mut driven = session.run(drive).await?;
        loop {
            let resumed = match driven {
                Driven::Stopped(reason) => return Ok(reason),
                Driven::Again(resumed) => resumed,
            };
            let plan = match session.plan_again() {
                Ok(plan) => plan.leave_out(output::files()),
                Err(error) => {
                    driven = session.cannot_go_on(error).await?;
                    continue;
                }
            };
            // As after a kill: what is open is picked up by what is on disk.
            drop(session);
            session = Session::open_again(plan, printer.observer(), interrupts.clone()).await?;
            driven = session.run_again(resumed).await?;
        }
    };
    let reason = runtime()?.block_on(async {
        // What keeps watch over this loop may be gone.
        tokio::select! {
            biased;
            never = keep_resident(tell_no_resident) => match never {},
            reason = looped => reason,
        }
    });
    printer.finish();
    if reason.as_ref().is_ok_and(StopReason::is_of_course) {
        output::note(&format!("hint: pass another rule to continue: `ar resume {tag} --stop-rule plateau:100`"));
    }
    reason
}
