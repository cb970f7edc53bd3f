//! `ar review`, `ar finalize`, `ar restore`, `ar export`, `ar import`, `ar delete`: what is taken out of a session, or into one.

use std::process::ExitCode;

use autoresearch::domain::{
    Asked, Clock, ErrorKind, ExperimentId, Record, Tag, count_of, json_text, one_line, refuse, shell_word,
};
use autoresearch::git::Repo;
use autoresearch::report::{exported_grid, fit, imported_grid, record_json};
use autoresearch::rules::{Counts, listed};
use autoresearch::session::{
    Drive, FinalizeTerms as Wanted, Import, Interrupt, Interrupts, Plan, Session, SessionView,
};
use autoresearch::{fs, session};

use super::run::way_on;
use super::tracker::{MLFLOW, TENSORBOARD, Tracker, WANDB};
use super::{
    CliError, DeleteArgs, ExportArgs, ExportFormat, FinalizeArgs, ImportArgs, Printer, Progress, RestoreArgs,
    ReviewArgs, clock, current_dir, error, interrupted, interruptible, no_runtime, output, process, resolve_session,
    runtime, status, tracker,
};

/// Makes a clean branch of what a session kept.
pub(super) fn finalize(args: FinalizeArgs) -> Result<ExitCode, CliError> {
    let mut view = resolve_session::open(args.session.tag())?;
    let (any_waits, any_is_new) = view.idle_winners();
    if any_waits {
        if any_is_new && !args.drop_winners {
            let tag = &view.tag;
            let text = format!("session {tag} has changes that wait for more runs");
            return Err(refuse(ErrorKind::CannotStart, text)
                .hint(format!(
                    "run `ar resume {tag}` to make these, or `ar finalize {tag} --drop-winners` to record the changes as \
                     discards"
                ))
                .into());
        }
        end_for_good(&view.tag)?;
        view = resolve_session::open(Some(view.tag))?;
    }
    let is_missing = |record: &&Record| record.is_unreviewed() && !args.without.contains(&record.id);
    let missing: Vec<_> = view.history.records().iter().filter(is_missing).map(|record| record.id).collect();
    let has_reviewer = view.contract.as_ref().is_some_and(|contract| contract.reviewer.is_some());
    if !missing.is_empty() && has_reviewer && !args.unreviewed {
        output::note(&format!("{} without a review: reviewing first", count_of(missing.len(), "keep")));
        if !have_reviewed(&view, &missing)? {
            return interrupted("interrupted; no branch was made");
        }
        view = resolve_session::open(Some(view.tag))?;
    }
    view.convert_as_at_start()?;
    let FinalizeArgs { branch, squash, without, with_not_earned, .. } = args;
    let finalized = view.finalize(branch, &Wanted { squash, without, with_not_earned }, clock()?)?;
    status::keep_guardians_away(&view.repo, &view.tag, clock()?);
    let commits = count_of(finalized.commits.len(), "commit");
    output::line(&format!("{} has {commits} on {}:", finalized.branch, finalized.start.short(8)));
    for (commit, subject) in &finalized.commits {
        output::line(&fit(&format!("  {} {subject}", commit.short(8)), output::width()));
    }
    if finalized.has_hidden {
        output::note("notes on its commits have the hidden values; agents could read them if this session went on");
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
    let (plan, printer) = ending(Repo::discover(&current_dir()?)?, tag, clock()?)?;
    let ended = runtime()?
        .block_on(async { Session::open(plan, printer.observer(), Interrupts::default()).await?.end_for_good().await });
    printer.finish();
    ended.map(drop).map_err(CliError::from)
}

/// Asks the reviewer now.
pub(super) fn review(args: ReviewArgs) -> Result<ExitCode, CliError> {
    let view = resolve_session::open(args.tag)?;
    let is_done = have_reviewed(&view, &args.experiments)?;
    Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::from(error::INTERRUPTED) })
}

/// Has those keeps reviewed, or all that are unreviewed. Returns false if it was interrupted.
fn have_reviewed(view: &SessionView, named: &[ExperimentId]) -> Result<bool, CliError> {
    let (tag, ids) = (&view.tag, view.keeps_to_review(named)?);
    if ids.is_empty() {
        output::note(&format!("no keep of session {tag} is unreviewed"));
        return Ok(true);
    }
    let (plan, printer) = ending(Repo::discover(&current_dir()?)?, tag, clock()?)?;
    let reviewed = interruptible(async |interrupts| {
        let mut session = Session::open(plan, printer.observer(), interrupts.clone()).await?;
        let left = session::review_keeps(&mut session, &ids).await?;
        Ok((interrupts.asked() == Interrupt::None).then_some(left))
    });
    printer.finish();
    match reviewed? {
        None => Ok(false),
        Some((left, _)) if left.is_empty() => Ok(true),
        Some((left, spent)) => {
            let left = listed(&left);
            let (text, way) = match spent {
                Some(spent) => (format!("no verdict on {left}: {spent}"), way_on(&spent, tag).unwrap_or_default()),
                None => (
                    format!("the reviewer gave no verdict on {left}"),
                    format!("run `ar review --tag {tag}` to ask again"),
                ),
            };
            Err(refuse(ErrorKind::CannotStart, text)
                .hint(format!("{way}, or `ar finalize {tag} --unreviewed` to go without"))
                .into())
        }
    }
}

/// The plan to open the session once more, and who prints what happens.
pub(super) fn ending(repo: Repo, tag: &Tag, clock: Clock) -> Result<(Plan, Printer), CliError> {
    let main_worktree = repo.main_worktree().to_owned();
    let asked = Asked { tag: Some(tag.clone()), ..Asked::default() };
    let plan = Plan::new(repo, &asked.into(), Drive::Ending, clock)?;
    let printer = Printer::start(Progress::aside(clock, main_worktree)).map_err(no_runtime)?;
    Ok((plan, printer))
}

/// Puts an experiment's code on a new branch, or copies its artifacts.
pub(super) fn restore(args: RestoreArgs) -> Result<ExitCode, CliError> {
    let (mut view, record) = resolve_session::open_at(&args.experiment, args.tag)?;
    view.convert_as_at_start()?;
    if let Some(dir) = &args.artifacts {
        let copied = view.restore_artifacts(&record, dir)?;
        output::line(&format!("copied the artifacts of experiment {} of {}:", record.id, view.tag));
        copied.iter().for_each(|path| output::line(&one_line(&path.display().to_string())));
        return Ok(ExitCode::SUCCESS);
    }
    let interrupts = process::interrupts(None).map_err(no_runtime)?;
    let restored = view.restore(&record, args.branch, args.worktree.as_deref(), &interrupts)?;
    let what = format!("experiment {} of {}, {}", record.id, view.tag, record.commit.short(8));
    output::line(&match &restored.worktree {
        Some(dir) => format!("{what}, is on the branch {}, checked out in {}", restored.branch, dir.display()),
        None => format!("{what}, is on the branch {}", restored.branch),
    });
    output::note(&match &restored.worktree {
        Some(dir) => format!("go there with: cd {}", shell_word(dir)),
        None => format!("check it out with: git switch {}", restored.branch),
    });
    Ok(ExitCode::SUCCESS)
}

/// Removes a session, and prints where its refs are.
pub(super) fn delete(args: DeleteArgs) -> Result<ExitCode, CliError> {
    let unnamed = || CliError::usage("no session was named", "write `ar delete TAG`");
    let tag = args.session.or(args.tag).ok_or_else(unnamed)?;
    let bundle = session::delete_session(&Repo::discover(&current_dir()?)?, &tag)?;
    output::line(&format!("deleted session {tag}; its rows in the ledger stay"));
    if let Some(bundle) = bundle {
        output::note(&format!("to bring it back: git fetch --atomic {} 'refs/*:refs/*'", shell_word(&bundle)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a session of a ledger, or shows what it would be.
pub(super) fn import(args: ImportArgs) -> Result<ExitCode, CliError> {
    let ledger = resolve_session::read_from(&args.file, &args.said)?;
    let import = Import::new(&current_dir()?, &ledger, &args.file, args.tag, clock()?)?;
    if !args.dry_run {
        import.write()?;
    }
    let records = import.records();
    let tag = import.tag();
    let experiments = count_of(records.len(), "experiment");
    let counts = Counts::of(records);
    let linked = records.iter().filter(|record| record.commit.is_known()).count();
    let what = format!(
        "{experiments} of {} as session {tag}: {}; {linked} with the commit, {} without",
        args.file.display(),
        counts.listed(),
        records.len() - linked
    );
    if args.dry_run {
        let _pager = output::paged();
        output::text(&imported_grid(records).to_lines(output::width()));
        output::line(&format!("\nwould import {what}"));
    } else {
        output::line(&format!("imported {what}"));
    }
    for assumed in &ledger.assumed {
        output::note(&format!("assumed: {assumed}"));
    }
    let rows = ledger.rows.len() - records.len();
    let numbers = ledger.problems().count() - rows;
    for (count, what) in [(rows, "row"), (numbers, "number")].into_iter().filter(|(count, _)| *count > 0) {
        output::note(&format!("left out {} that cannot be read; `-v` shows why", count_of(count, what)));
    }
    if !args.dry_run {
        output::note(&format!("look at it with: ar report {tag}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a session out for other programs.
pub(super) fn export(args: ExportArgs) -> Result<ExitCode, CliError> {
    if let Some(tracker) = tracker_of(args.to) {
        return tracker::export(tracker, args.session.tag(), args.output, args.tracker);
    }
    if let Some(flag) = args.tracker.first() {
        let hint = format!("omit {flag}, or pass --to wandb, tensorboard or mlflow");
        return Err(CliError::usage(format!("{flag} is only for trackers"), hint));
    }
    let dir = current_dir()?;
    let view = resolve_session::open(args.session.tag())?;
    let records = view.history.records();
    let notes = view.notes(records)?;
    if args.hidden && args.to != ExportFormat::Jsonl {
        return Err(CliError::usage("--hidden writes JSON lines", "pass --to jsonl"));
    }
    let line = |record| json_text(&record_json(record, notes.get(&record.id)), false) + "\n";
    let text = match args.to {
        _ if args.hidden => view.hidden_lines()?,
        ExportFormat::Csv => exported_grid(records, &notes).to_csv(),
        ExportFormat::Md => exported_grid(records, &notes).to_markdown(),
        _ => records.iter().map(line).collect(),
    };
    match args.output {
        Some(file) => {
            // The folder of a bare name is the current one.
            fs::write_atomic(&dir.join(&file), text.as_bytes())?;
            output::note(&format!("session {} is in {}", view.tag, file.display()));
        }
        None => output::bytes(text.as_bytes()),
    }
    Ok(ExitCode::SUCCESS)
}

fn tracker_of(format: ExportFormat) -> Option<&'static Tracker> {
    match format {
        ExportFormat::Wandb => Some(&WANDB),
        ExportFormat::Tensorboard => Some(&TENSORBOARD),
        ExportFormat::Mlflow => Some(&MLFLOW),
        ExportFormat::Jsonl | ExportFormat::Csv | ExportFormat::Md => None,
    }
}
