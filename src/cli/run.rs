//! `ar run`.

use std::process::ExitCode;

use autoresearch::domain::{Bound, StopReason, Tag};
use autoresearch::git::Repo;
use autoresearch::guardian::keep_resident;
use autoresearch::rules::LoopCall;
use autoresearch::session::{Drive, Driven, Plan, Session, await_other_host, open_again, session_tags};

use super::allocation::{Allocation, JobLimits};
use super::args::{ResumeArgs, RunArgs, StreamFormat};
use super::error::CliError;
use super::guard_service::tell_no_resident;
use super::printer::Printer;
use super::process::{current_dir, no_runtime, runtime};
use super::progress::Progress;
use super::settings::{self, Settings};
use super::{chosen, confirm, exit, loop_agent, output, signals};

/// A warning before a loop without a limit.
const NO_END: &str = "no limit is set, so the loop runs until you stop it; limits are --max-experiments 100, --for 8h, \
    --until 07:00 and --max-cost 20";

/// Starts or continues a session and loops.
pub(super) fn run(args: RunArgs) -> Result<ExitCode, CliError> {
    let clock = settings::clock()?;
    let allocation = args.requeue.then(Allocation::of_this_process).transpose()?;
    let repo = Repo::discover(&current_dir()?)?;
    let mut settings = Settings::read(args.settings, repo.worktree())?;
    settings.take_over = args.take_over;
    let sessions =
        if allocation.as_ref().is_some_and(Allocation::is_again) { session_tags(&repo)? } else { Vec::new() };
    let again = settings.given.tag.clone().filter(|tag| sessions.contains(tag));
    if let Some(tag) = &again {
        // The start before was cut off.
        await_other_host(&repo, tag, |other| output::note(&format!("waiting for session {tag}, {other}")));
    }
    let call = if again.is_some() { LoopCall::Requeued } else { LoopCall::Typed };
    let drive = Drive::Loop { adopt: args.adopt, call };
    let main_worktree = repo.main_worktree();
    let wish = settings.loop_wish();
    let may_ask = !args.yes && allocation.is_none() && args.format == StreamFormat::Table && output::is_interactive();
    settings.may_ask = may_ask;
    let plan = settings.plan(repo, drive, clock)?.leave_out(output::files());
    let metric = &plan.contract().metric;
    let mut first = Some(format!("{}: {} is better", metric.name, metric.direction));
    if may_ask && let Some(line) = first.take() {
        output::line(&line);
    }
    let (mut plan, no_agent) = loop_agent::settle(plan, wish, may_ask)?;
    let must_ask = may_ask && !plan.continued();
    if must_ask && !confirm::confirm(&plan) {
        output::note("not started; nothing was changed");
        return Ok(ExitCode::from(exit::INTERRUPTED));
    }
    if !must_ask && plan.contract().agent.is_some() && !plan.contract().ends_loop() {
        plan = plan.note(NO_END.to_owned());
    }
    let limits = allocation.as_ref().map(|allocation| allocation.limits(plan.contract())).transpose()?;
    let progress = Progress::new(args.format, clock, main_worktree).beginning_with(first);
    let reason = drive_loop(plan, drive, progress, limits)?;
    loop_agent::tell_ways_on(&reason, no_agent.as_ref(), args.format);
    if let Some(allocation) = allocation
        && allocation.requeue(&reason)?
    {
        return Ok(ExitCode::SUCCESS);
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
    (settings.given.tag, settings.take_over) = (Some(tag), args.take_over);
    let drive = Drive::RESUMED;
    let main_worktree = repo.main_worktree();
    let wish = settings.resume_wish();
    let plan = settings.plan(repo, drive, clock)?.leave_out(output::files());
    let (plan, no_agent) = loop_agent::settle(plan, wish, false)?;
    let reason = drive_loop(plan, drive, Progress::new(args.format, clock, main_worktree), None)?;
    loop_agent::tell_ways_on(&reason, no_agent.as_ref(), args.format);
    Ok(ExitCode::from(exit::of_stop(&reason)))
}

/// Opens the session of a plan and runs its loop to the end; `limits` are those of the batch job that it is.
pub(super) fn drive_loop(
    plan: Plan,
    drive: Drive,
    progress: Progress,
    limits: Option<JobLimits>,
) -> Result<StopReason, CliError> {
    let tag = plan.contract().tag.clone();
    let printer = Printer::start(progress).map_err(no_runtime)?;
    let looped = async {
        let interrupts = limits.map_or_else(signals::interrupts, signals::interrupts_of_job).map_err(no_runtime)?;
        let mut session = Session::open(plan, printer.observer(), interrupts.clone()).await?;
        let before = session.history().next_sequence();
        let mut driven = session.run(drive).await?;
        loop {
            let resumed = match driven {
                Driven::Stopped(reason) => return Ok((reason, session.history().next_sequence() == before)),
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
            session = open_again(plan, printer.observer(), interrupts.clone()).await?;
            driven = session.run_again(resumed).await?;
        }
    };
    let ended: Result<_, CliError> = runtime()?.block_on(async {
        // The resident guard that watches over this loop may have died.
        tokio::select! {
            biased;
            never = keep_resident(tell_no_resident) => match never {},
            reason = looped => reason,
        }
    });
    printer.finish();
    let (reason, did_nothing) = ended?;
    if did_nothing || reason.is_of_course() {
        way_on(&reason, &tag).iter().for_each(|way| output::note(&format!("hint: {way}")));
    }
    Ok(reason)
}

/// The command that continues after a loop that ended as asked.
fn way_on(reason: &StopReason, tag: &Tag) -> Option<String> {
    let another_night = |flag: &str| {
        format!("run `ar run --tag {tag}` to begin another night, or `ar resume {tag} {flag}` to continue this one")
    };
    let higher = |flag: &str| format!("pass a higher limit to continue: `ar run --tag {tag} {flag} N`");
    Some(match reason {
        reason if reason.is_of_course() => {
            format!("pass another rule to continue: `ar resume {tag} --stop-rule plateau:100`")
        }
        StopReason::MaxExperiments { .. } => another_night("--max-experiments N"),
        StopReason::Budget { .. } => another_night("--for 8h"),
        StopReason::Until { .. } => another_night("--until 07:00"),
        StopReason::NoTime { end, .. } => return way_on(end, tag),
        StopReason::Reached(reached) => match reached.rule {
            Bound::Goal => format!("pass another goal to continue: `ar run --tag {tag} --goal VALUE`"),
            Bound::Refusals => another_night("--max-experiments N"),
            Bound::MaxCost => another_night("--max-cost COST"),
            Bound::MaxTokens => another_night("--max-tokens N"),
            Bound::SessionMaxCost => higher("--session-max-cost"),
            Bound::SessionMaxTokens => higher("--session-max-tokens"),
            Bound::SessionMaxExperiments => higher("--session-max-experiments"),
            Bound::Crashes
            | Bound::NoChange
            | Bound::Kill
            | Bound::Kill2
            | Bound::Plateau
            | Bound::Above
            | Bound::Cadence => return None,
        },
        _ => return None,
    })
}
