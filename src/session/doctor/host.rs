//! The disks, the executor, and the commands.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use strum::VariantArray;

use super::{Facts, finding_of, job};
use crate::agent::{PRESETS, Preset, agent_terms};
use crate::domain::{Area, Asked, Decide, Finding, LedgerDialect, Severity, UserError, bytes_text, shell_word};
use crate::exec;
use crate::fs::is_shared;
use crate::git::Repo;
use crate::rules::{NamedFile, calls_score, judge_space, named_files};
use crate::session::errors::{CommandRole, SessionError};
use crate::session::files::{Conventions, SEED, SEED_LINE, check_command, installed_agents, takes_seed};
use crate::session::research::read_terms;
use crate::session::store::Walls;

/// Looks at the file systems that are written to, and for the programs that are called.
pub(crate) fn inspect(repo: &Repo, sessions: &[Facts], asked: &Asked) -> Vec<Finding> {
    let mut found = disks(repo);
    found.extend(job::inspect(sessions, asked));
    let asked_agent = asked.agent.as_deref().and_then(|line| agent_terms(line).0);
    let mut commands: Vec<(Area, CommandRole, String)> = Vec::new();
    let mut add = |command: Option<String>, agent: Option<String>| {
        commands.extend(command.map(|line| (Area::Command, CommandRole::Command, line)));
        commands.extend(agent.map(|line| (Area::Agent, CommandRole::Agent, line)));
    };
    if sessions.is_empty() {
        add(asked.command.clone(), asked_agent.clone());
    }
    let mut others = Vec::new();
    for terms in sessions.iter().filter_map(Facts::terms).filter(|terms| !terms.imported) {
        add(Some(terms.command), terms.agent.or(asked_agent.clone()));
        others.extend(terms.guards.into_iter().map(|line| (Area::Command, CommandRole::Guard, line)));
        others.extend(terms.reviewer.map(|line| (Area::Agent, CommandRole::Reviewer, line)));
        others.extend(terms.on_event.map(|line| (Area::Command, CommandRole::OnEvent, line)));
    }
    if sessions.is_empty() {
        others.extend(asked.guards.iter().flatten().map(|line| (Area::Command, CommandRole::Guard, line.clone())));
        others.extend(asked.on_event.clone().map(|line| (Area::Command, CommandRole::OnEvent, line)));
    }
    let research = commands.iter().any(|(area, _, line)| *area == Area::Command && calls_score(line));
    commands.extend(others);
    commands.sort_by(|a, b| (a.0, &a.2).cmp(&(b.0, &b.2)));
    commands.dedup();
    for (area, what, line) in commands {
        let folder = what.folder(repo.worktree());
        let missing = match area == Area::Command && folder == repo.worktree() {
            true => missing_files(what, &line, folder),
            false => Vec::new(),
        };
        let is_whole = missing.is_empty();
        found.extend(missing);
        match check_command(what, &line, folder) {
            Ok(()) if is_whole => found.push(Finding::ok(area, line)),
            Ok(()) => {}
            Err(error) => found.push(finding_of(area, &error)),
        }
    }
    // A session goes by the terms that it began with.
    if research && sessions.is_empty() {
        found.extend(read_terms(repo, None).err().map(|error| finding_of(Area::Command, &error)));
    }
    found.push(presets(repo));
    found.extend(walls(repo, sessions, asked));
    found.extend(seeds(repo, sessions, asked));
    found.extend(conventions(repo, sessions.is_empty()));
    found
}

/// Findings about the conventions that the repository's files state: for the agent, and in a new session for results.tsv.
fn conventions(repo: &Repo, is_new: bool) -> Vec<Finding> {
    let said = Conventions::of(repo.worktree());
    let program = said.program_text().map(|text| Finding::ok(Area::Agent, text));
    let ledger = said.ledger_text().filter(|_| is_new).map(|text| match said.dialect() {
        Some(_) => Finding::ok(Area::Ledger, text),
        None => {
            let choices: Vec<_> = LedgerDialect::VARIANTS.iter().map(|dialect| format!("--ledger {dialect}")).collect();
            Finding::warning(Area::Ledger, text).hint(format!("choose with {}", choices.join(" or ")))
        }
    });
    program.into_iter().chain(ledger).collect()
}

/// A warning where fresh runs decide and nothing takes their seeds: they still count, but cannot be paired, and a script with a
/// seed of its own may give the same number each time.
fn seeds(repo: &Repo, sessions: &[Facts], asked: &Asked) -> Option<Finding> {
    let of_session = sessions.iter().find_map(|facts| facts.terms().filter(|terms| !terms.imported));
    let decide = of_session.as_ref().map_or(asked.decide.unwrap_or_default(), |terms| terms.decide);
    let start = of_session.as_ref().map(|terms| &terms.start);
    let command = of_session.as_ref().map_or(asked.command.as_deref(), |terms| Some(&terms.command));
    (decide != Decide::Once && !takes_seed(repo, start, command)).then(|| {
        Finding::warning(Area::Command, format!("no tracked file names {SEED}, the seed of each run"))
            .hint(format!("have the script take its seed from there, as in {SEED_LINE}"))
    })
}

/// The files that a command line names and that do not exist.
fn missing_files(what: CommandRole, line: &str, root: &Path) -> Vec<Finding> {
    let missing = named_files(line).into_iter().filter(|file| !root.join(&file.path).exists());
    let finding = |file: NamedFile| {
        let level = if file.is_script { Severity::Error } else { Severity::Warning };
        let path = shell_word(&file.path);
        Finding::new(Area::Command, level, format!("the {what} names {path}, which does not exist"))
            .hint(format!("create {path}, or correct the {what}"))
    };
    missing.map(finding).collect()
}

/// Which of the agents that are known by name are installed.
fn presets(repo: &Repo) -> Finding {
    let installed = installed_agents(repo.worktree());
    let (there, not_there): (Vec<&Preset>, Vec<&Preset>) =
        PRESETS.iter().partition(|preset| installed.contains(preset));
    let names = |presets: &[&Preset]| match presets {
        [] => "none".to_owned(),
        presets => presets.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", "),
    };
    let what = format!("presets installed: {}; not installed: {}", names(&there), names(&not_there));
    Finding::ok(Area::Agent, what)
}

/// Whether jobs can have walls, unless nobody wants them.
fn walls(repo: &Repo, sessions: &[Facts], asked: &Asked) -> Option<Finding> {
    let of_session = sessions.iter().find_map(|facts| facts.terms().filter(|terms| !terms.imported));
    let wanted = of_session.map_or(asked.sandbox.unwrap_or_default(), |terms| terms.sandbox);
    let finding = |level, reason: UserError| {
        let finding = Finding::new(Area::Command, level, format!("jobs run without walls: {reason}"));
        Finding { hint: reason.hint, ..finding }
    };
    match Walls::tried(wanted, repo, repo.worktree()) {
        Ok((walls, None)) => {
            walls.hold().then(|| Finding::ok(Area::Command, "jobs run behind walls, built by `bwrap`"))
        }
        Ok((_, Some(reason))) => Some(finding(Severity::Ok, reason)),
        Err(SessionError::NoWall(reason)) => Some(finding(Severity::Error, reason)),
        Err(error) => Some(finding_of(Area::Command, &error)),
    }
}

fn disks(repo: &Repo) -> Vec<Finding> {
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for dir in [repo.main_worktree(), repo.worktree(), repo.common_dir()] {
        let device = fs::metadata(dir).map(|meta| meta.dev()).ok();
        if seen.contains(&device) {
            continue;
        }
        seen.push(device);
        found.push(disk(dir));
        let at = dir.display();
        let what = match is_shared(dir) {
            true => {
                format!("other hosts may have the file system at {at}, and `ar` does not rely on locks between hosts")
            }
            false => format!("the file system at {at} is of this host alone"),
        };
        found.push(Finding::ok(Area::Disk, what));
    }
    found
}

fn disk(dir: &Path) -> Finding {
    let Ok(space) = exec::disk_space(dir) else {
        return Finding::ok(Area::Disk, "the system does not report free space");
    };
    let shell = shell_word(dir);
    match judge_space(space) {
        Severity::Ok => Finding::ok(Area::Disk, "the disk has free space"),
        level => {
            let what =
                format!("{} and {} more files fit at {}", bytes_text(space.free), space.free_files, dir.display());
            Finding::new(Area::Disk, level, what).hint(format!("df -h {shell}; df -i {shell}"))
        }
    }
}
