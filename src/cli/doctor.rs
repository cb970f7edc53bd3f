//! `ar doctor`.

use std::process::ExitCode;

use autoresearch::domain::{Area, Finding, Severity, Tag};
use autoresearch::git::Repo;
use autoresearch::guardian::examine_guardians;
use autoresearch::ledger;
use autoresearch::report::{Format, findings_grid, findings_json, findings_text, ledger_doubts};
use autoresearch::rules::worst;
use autoresearch::session::{LoopWish, Wanted, examine, examine_job, examine_start, repair};

use super::args::DoctorArgs;
use super::error::CliError;
use super::process::{current_dir, no_runtime, runtime};
use super::settings::{self, Settings, SettingsArgs};
use super::{error, output, process, resolve_session};

/// Prints whether everything is in order, and mends what can be mended if it is asked to.
pub(super) fn run(args: DoctorArgs) -> Result<ExitCode, CliError> {
    if let Some(ledger) = resolve_session::read(&args.foreign)? {
        let mut findings = ledger::examine(&ledger);
        findings.extend(ledger_doubts(ledger));
        print(&[], &findings, &[], worst(findings.iter().map(|finding| finding.level)), args.format);
        return Ok(ExitCode::SUCCESS);
    }
    let dir = current_dir()?;
    let (wanted, wish, trouble) =
        match Repo::find(&dir).map(|repo| Settings::read(SettingsArgs::default(), repo.worktree())) {
            Ok(Ok(settings)) => {
                let wish = settings.loop_wish();
                let (wanted, trouble) = settings.wanted();
                // A session that exists goes by what is stored.
                (wanted, wish, trouble.map(|trouble| trouble.to_string()))
            }
            Ok(Err(trouble)) => (Wanted::default(), LoopWish::default(), Some(trouble.to_string())),
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
        let tested = runtime()?.block_on(async {
            let interrupts = process::interrupts().map_err(no_runtime)?;
            Ok::<_, CliError>(examine_job(&dir, tag, &asked, args.wait, &interrupts, &mut output::note).await?)
        })?;
        let Some(tested) = tested else {
            output::note("interrupted; cancelled the job");
            return Ok(ExitCode::from(error::INTERRUPTED));
        };
        // They say more than that it can be tested.
        found.findings.retain(|finding| tested.is_empty() || finding.area != Area::Executor);
        found.findings.extend(tested);
        found.findings.sort_by_key(|finding| finding.area);
    }
    let level = if found.sessions.is_empty() { Severity::Error } else { Severity::Warning };
    found.findings.extend(examine_guardians(settings::clock()?));
    found.findings.extend(trouble.map(|trouble| Finding::new(Area::Command, level, trouble)));
    print(&found.sessions, &found.findings, &found.repaired, found.health(), args.format);
    Ok(match found.health() {
        Severity::Ok | Severity::Warning => ExitCode::SUCCESS,
        Severity::Error => ExitCode::from(error::CANNOT_START),
        Severity::Damaged => ExitCode::from(error::DAMAGED),
    })
}

fn print(sessions: &[Tag], findings: &[Finding], repaired: &[String], health: Severity, format: Format) {
    match format {
        Format::Table => output::text(&findings_text(findings, repaired)),
        Format::Json => output::json(&findings_json(sessions, findings, repaired, health)),
        format => output::text(&findings_grid(findings).render(format, None)),
    }
}
