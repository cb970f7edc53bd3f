//! `ar finalize`.

use std::process::ExitCode;

use autoresearch::domain::{Asked, Tag, count_of};
use autoresearch::git::Repo;
use autoresearch::report::fit;
use autoresearch::session::{
    self, Drive, FinalizeTerms as Wanted, Interrupt, Interrupts, KeepsError, Plan, Session, SessionError,
};

use super::args::FinalizeArgs;
use super::error::CliError;
use super::printer::Printer;
use super::process::{current_dir, no_runtime, runtime};
use super::progress::Progress;
use super::{chosen, exit, output, settings, signals, stop};

/// Makes a clean branch of what a session kept.
pub(super) fn run(args: FinalizeArgs) -> Result<ExitCode, CliError> {
    let mut view = chosen::open(args.session.tag())?;
    if view.has_idle_winners() {
        if !args.drop_winners {
            return Err(SessionError::from(KeepsError::WinnersWait(view.tag)).into());
        }
        end_for_good(&view.tag)?;
        view = chosen::open(Some(view.tag))?;
    }
    match view.unreviewed_keeps()? {
        0 => {}
        count => {
            output::note(&format!("{} without a review: reviewing first", count_of(count, "keep")));
            match review_keeps(&view.tag) {
                Ok(Interrupt::None) => {}
                Ok(_) => {
                    output::note("interrupted; no branch was made");
                    return Ok(ExitCode::from(exit::INTERRUPTED));
                }
                Err(error) => output::note(&format!("not reviewed: {error}")),
            }
            view = chosen::open(Some(view.tag))?;
        }
    }
    let FinalizeArgs { branch, squash, without, with_not_earned, .. } = args;
    let finalized = view.finalize(branch, &Wanted { squash, without, with_not_earned })?;
    stop::keep_guardians_away(&view.repo, &view.tag, settings::clock()?);
    let commits = count_of(finalized.commits.len(), "commit");
    output::line(&format!("{} has {commits} on {}:", finalized.branch, finalized.start.short(8)));
    for (commit, subject) in &finalized.commits {
        output::line(&fit(&format!("  {} {subject}", commit.short(8)), output::width()));
    }
    if let Some((tag, count)) = finalized.follows {
        let commits = count_of(count, "commit");
        output::note(&format!("also in it: {commits} of yours, made after session {tag}, and what {tag} kept"));
    }
    for pair in view.history.unconfirmed() {
        output::note(&format!("verification did not confirm this: {}", pair.sentence(4)));
    }
    if let Some(id) = finalized.unmeasured {
        let tag = &view.tag;
        output::note(&format!(
            "not measured: no run had this tree; `ar repro {id} --tag {tag}` measures {id} as it was kept"
        ));
    }
    output::note(&format!("look at it with: git log -p {}..{}", finalized.start.short(12), finalized.branch));
    Ok(ExitCode::SUCCESS)
}

/// Records what waits for a train as discarded: nothing is measured any more.
fn end_for_good(tag: &Tag) -> Result<(), CliError> {
    let (plan, printer) = ending(tag)?;
    let ended = runtime()?
        .block_on(async { Session::open(plan, printer.observer(), Interrupts::default()).await?.end_for_good().await });
    printer.finish();
    ended.map(drop).map_err(CliError::from)
}

/// Has the keeps reviewed that are unreviewed: no loop may come that does it. Returns what was asked for meanwhile.
fn review_keeps(tag: &Tag) -> Result<Interrupt, CliError> {
    let (plan, printer) = ending(tag)?;
    let reviewed = runtime()?.block_on(async {
        let interrupts = signals::interrupts().map_err(no_runtime)?;
        let mut session = Session::open(plan, printer.observer(), interrupts.clone()).await?;
        session::review_keeps(&mut session).await?;
        Ok(interrupts.asked())
    });
    printer.finish();
    reviewed
}

/// The plan to open the session once more, and who prints what happens.
fn ending(tag: &Tag) -> Result<(Plan, Printer), CliError> {
    let clock = settings::clock()?;
    let repo = Repo::discover(&current_dir()?)?;
    let main_worktree = repo.main_worktree();
    let asked = Asked { tag: Some(tag.clone()), ..Asked::default() };
    let plan = Plan::new(repo, &asked.into(), Drive::Ending, clock)?;
    let printer = Printer::start(Progress::aside(clock, main_worktree)).map_err(no_runtime)?;
    Ok((plan, printer))
}
