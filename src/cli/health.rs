//! The health of sessions: `ar doctor`; and `ar guard`: one patrol, the unit that repeats it, and the resident guard.

use std::ffi::OsString;
use std::process::ExitCode;

use serde_json::{Value, json};

use autoresearch::domain::{
    Area, Clock, FORMAT_VERSION, Finding, Resident, Severity, Tag, UserError, duration_text, exact_time, one_line,
    with_causes,
};
use autoresearch::exec::leave_starter;
use autoresearch::git::Repo;
use autoresearch::guardian::{
    DEFAULT_EVERY, Patrol, PatrolReport, Patrolled, become_resident, examine_guardians, real_path, register_folder,
    reside, resident_script, unwritable,
};
use autoresearch::ledger;
use autoresearch::report::{Format, findings_grid, findings_json, findings_text, ledger_doubts};
use autoresearch::rules::{Thresholds, worst};
use autoresearch::session::{LoopWish, Wanted, examine, examine_job, examine_start, repair};

use super::{
    CliError, DoctorArgs, GuardArgs, GuardServiceArgs, PatrolFormat, Settings, SettingsArgs, current_dir, error,
    interrupted, interruptible, output, resolve_session, runtime, settings,
};

/// Prints whether everything is in order, and mends what can be mended if it is asked to.
pub(super) fn doctor(args: DoctorArgs) -> Result<ExitCode, CliError> {
    if let Some(ledger) = resolve_session::read(&args.foreign)? {
        let mut findings = ledger::examine(&ledger);
        findings.extend(ledger_doubts(ledger));
        print_findings(&[], &findings, &[], worst(findings.iter().map(|finding| finding.level)), args.format);
        return Ok(ExitCode::SUCCESS);
    }
    let dir = current_dir()?;
    let (wanted, wish, trouble) =
        match Repo::find(&dir).map(|repo| Settings::read(SettingsArgs::default(), repo.worktree())) {
            Ok(Ok(settings)) => {
                let wish = settings.loop_wish();
                (settings.wanted, wish, settings.trouble)
            }
            Ok(Err(trouble)) => (Wanted::default(), LoopWish::default(), Some(trouble)),
            // Errors of the repository become findings.
            Err(_) => (Wanted::default(), LoopWish::default(), None),
        };
    let asked = wanted.all();
    let tag = args.session.tag();
    let tag = tag.as_ref();
    let mut found = match args.repair {
        true => repair(&dir, tag, &asked, settings::clock()?)?,
        false => examine(&dir, tag, &asked)?,
    };
    if tag.is_none() && trouble.is_none() && found.health() != Severity::Damaged {
        let start = examine_start(&dir, &wanted, wish, settings::clock()?);
        // An error that was found may be why `ar run` refuses; what is left shows once that is repaired.
        let is_sound = matches!(found.health(), Severity::Ok | Severity::Warning);
        let is_new = |finding: &Finding| {
            (is_sound || finding.area == Area::Agent) && found.findings.iter().all(|known| known.what != finding.what)
        };
        let start: Vec<Finding> = start.into_iter().filter(is_new).collect();
        found.findings.extend(start);
        found.findings.sort_by_key(|finding| finding.area);
    }
    if args.job {
        let testing =
            async |interrupts| Ok(examine_job(&dir, tag, &asked, args.wait, &interrupts, &mut output::note).await?);
        let Some(tested) = interruptible(testing)? else { return interrupted("interrupted; cancelled the job") };
        // They say more than that it can be tested.
        found.findings.retain(|finding| tested.is_empty() || finding.area != Area::Executor);
        found.findings.extend(tested);
        found.findings.sort_by_key(|finding| finding.area);
    }
    let level = if found.sessions.is_empty() { Severity::Error } else { Severity::Warning };
    found.findings.extend(examine_guardians(settings::clock()?));
    found.findings.extend(trouble.map(|trouble| trouble.finding(Area::Command, level)));
    print_findings(&found.sessions, &found.findings, &found.repaired, found.health(), args.format);
    Ok(match found.health() {
        Severity::Ok | Severity::Warning => ExitCode::SUCCESS,
        Severity::Error => ExitCode::from(error::CANNOT_START),
        Severity::Damaged => ExitCode::from(error::DAMAGED),
    })
}

fn print_findings(sessions: &[Tag], findings: &[Finding], repaired: &[String], health: Severity, format: Format) {
    match format {
        Format::Table => output::text(&findings_text(findings, repaired)),
        Format::Json => output::json(&findings_json(sessions, findings, repaired, health)),
        format => output::text(&findings_grid(findings).render(format, None)),
    }
}

/// Makes one patrol and starts the resident guard again if it is gone, or does what has patrols come by themselves.
pub(super) fn guard(args: GuardArgs) -> Result<ExitCode, CliError> {
    if let Some(code) = be_service(&args.service, || arguments(&args))? {
        return Ok(code);
    }
    let GuardArgs { paths, stall, stuck, nudge, format, .. } = args;
    let usual = Thresholds::default();
    let patrol = Patrol {
        user: register_folder()?,
        thresholds: Thresholds { stall: stall.unwrap_or(usual.stall), stuck: stuck.unwrap_or(usual.stuck) },
        nudge: nudge.filter(|command| !command.trim().is_empty()),
        clock: settings::clock()?,
    };
    let PatrolReport { sessions, resident, noted } = runtime()?.block_on(patrol.make(&paths))?;
    for session in &sessions {
        match format {
            PatrolFormat::Json => output::json_line(&to_json(session)),
            PatrolFormat::Table => output::line(&to_line(session)),
        }
    }
    if sessions.is_empty() {
        output::note("no sessions");
    }
    let code = resident.map_or_else(|error| CliError::from(error).print(), |()| ExitCode::SUCCESS);
    let code = noted.map_or_else(|error| CliError::from(error).print(), |()| code);
    let needs_person = sessions.iter().any(|session| session.verdict.needs_person);
    Ok(if needs_person { ExitCode::from(error::NEEDS_PERSON) } else { code })
}

/// The arguments of each patrol of an installed or a resident guard: the options of this invocation, with absolute
/// paths.
fn arguments(args: &GuardArgs) -> Result<Vec<String>, CliError> {
    let mut arguments = Vec::new();
    for path in &args.paths {
        let unwritable = |path: OsString| unwritable(&path.display().to_string());
        arguments.push(real_path(path)?.into_os_string().into_string().map_err(unwritable)?);
    }
    let times = [("--stall", args.stall), ("--stuck", args.stuck)];
    for (name, time) in times.into_iter().filter_map(|(name, time)| Some((name, time?))) {
        arguments.extend([name.to_owned(), duration_text(time)]);
    }
    if let Some(nudge) = &args.nudge {
        arguments.extend(["--nudge".to_owned(), nudge.clone()]);
    }
    Ok(arguments)
}

fn to_json(Patrolled { repository, tag, verdict }: &Patrolled) -> Value {
    json!({
        "version": FORMAT_VERSION,
        "repository": repository.to_string_lossy(),
        "tag": tag,
        "state": verdict.state,
        "action": verdict.action,
        "needs_person": verdict.needs_person,
        "detail": verdict.detail,
    })
}

fn to_line(Patrolled { repository, tag, verdict }: &Patrolled) -> String {
    let flag = if verdict.needs_person { " (needs you)" } else { "" };
    let (state, action) = (verdict.state.to_string(), verdict.action.to_string());
    format!("{state:<8} {action:<8} {tag} in {}: {}{flag}", one_line(&repository.to_string_lossy()), verdict.detail)
}

/// Does what is asked for instead of a patrol; `None` if a patrol is asked for. `arguments` gives those that each patrol gets
/// after `ar guard`, with absolute paths.
fn be_service(
    args: &GuardServiceArgs,
    arguments: impl FnOnce() -> Result<Vec<String>, CliError>,
) -> Result<Option<ExitCode>, CliError> {
    if let Some(scheduler) = args.print {
        let unit = scheduler.unit(&arguments()?, args.every.unwrap_or(DEFAULT_EVERY))?;
        output::bytes(unit.as_bytes());
    } else if args.print_sh {
        output::bytes(resident_script(&resident(args, arguments()?))?.as_bytes());
    } else if args.resident {
        return Err(become_resident(&resident(args, arguments()?)).into());
    } else {
        return Ok(None);
    }
    Ok(Some(ExitCode::SUCCESS))
}

fn resident(args: &GuardServiceArgs, arguments: Vec<String>) -> Resident {
    Resident {
        version: FORMAT_VERSION,
        beat: args.beat.unwrap_or(Resident::BEAT),
        wake: args.wake.unwrap_or(Resident::WAKE),
        patrol: args.patrol.clone(),
        arguments,
    }
}

/// Is the resident guard, as the hidden first argument of the program asks; `mode` is `detached` in the background.
pub(crate) fn be_resident(mode: Option<&OsString>) -> ExitCode {
    if mode.is_some_and(|mode| mode == "detached") {
        // Only who leads a process group cannot leave, and that has left already.
        let _ = leave_starter();
    } else {
        output::note(
            "Ctrl-C ends the resident guard; patrols and loops start it again while its `resident.json` exists",
        );
    }
    match reside(|line| output::complaint(&format!("{} {line}", exact_time(Clock::System.now())))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => CliError::from(error).print(),
    }
}

/// Tells that the resident guard, which is wanted and gone, does not start.
pub(super) fn tell_no_resident(error: &UserError) {
    output::note(&format!("warning: the resident guard does not start: {}", with_causes(error)));
}
