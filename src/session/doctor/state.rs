//! The state folder: journal, memory files, event logs, runs, and who is at work.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::facts::{DECIDE_FIRST, Facts, REPAIR};
use super::patients::finding_of;
use crate::domain::{Area, ExperimentId, Finding, Phase, experiment_name, shell_word, with_causes};
use crate::exec::{self, Exit, Started};
use crate::fs::{move_command, read_regular};
use crate::git::{Repo, Untracked};
use crate::rules::Tip;
use crate::session::contradiction::{contradiction, trouble_text};
use crate::session::error::SessionError;
use crate::session::jobs::RUN;
use crate::state::{DIRECTIONS, EVENT_LOGS, FINDINGS, ITERATIONS, Journal, OpenExperiment, StateError, read_json};

/// The state files that are there from the beginning and can be made anew from the records.
const MEMORY: [&str; 3] = [FINDINGS, ITERATIONS, DIRECTIONS];

/// Looks at the state folder of a session.
pub(super) fn look(repo: &Repo, facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    match journal(repo, facts) {
        Ok(findings) => found.extend(findings),
        Err(error) => found.push(finding_of(Area::Journal, &error)),
    }
    found.extend(memory(facts));
    found.extend(runs(facts));
    if found.is_empty() {
        found.push(Finding::ok(Area::Journal, "no experiment is open"));
    }
    if let Some(holder) = &facts.holder {
        found.push(Finding::ok(Area::Journal, format!("an ar is active: {holder}")));
    }
    found.into_iter().map(|finding| finding.of(&facts.tag)).collect()
}

/// What is to be said of a session whose refs alone are here.
pub(super) fn fetched(facts: &Facts) -> Finding {
    let what = "fetched: its records are here, and nobody has worked on it in this repository";
    Finding::ok(Area::Journal, what).hint(format!("ar resume {}", facts.tag)).of(&facts.tag)
}

fn journal(repo: &Repo, facts: &Facts) -> Result<Vec<Finding>, SessionError> {
    let path = facts.folder.state().join("progress.json");
    let mut found = Vec::new();
    match &facts.journal {
        Ok(Some(journal)) => found.extend(open(repo, facts, journal)),
        Ok(None) => found.push(lost_journal(repo, facts, format!("{} is missing", path.display()))?),
        Err(StateError::Json { .. }) => {
            found.push(lost_journal(repo, facts, format!("cannot parse {}", path.display()))?);
        }
        Err(error) => {
            found.push(Finding { hint: error.hint(), ..Finding::error(Area::Journal, with_causes(error)) });
        }
    }
    found.extend(unknown_runs(facts, &facts.open_ids(), REPAIR));
    Ok(found)
}

/// The runs that go on and are of no experiment in `open`; `then` is to be called when they are over.
pub(super) fn unknown_runs(facts: &Facts, open: &[ExperimentId], then: &str) -> Vec<Finding> {
    let unknown = going_on(facts).into_iter().filter(|(id, _)| !open.contains(id));
    unknown
        .map(|(id, pid)| {
            let what = format!("a run of {} is still going that the journal does not know", experiment_name(id));
            let end = pid.map_or("end it".to_owned(), |pid| format!("end it: kill {pid}"));
            Finding::error(Area::Journal, what).hint(format!("wait until it ends, or {end}; then {then}"))
        })
        .collect()
}

/// A journal that is gone, and what that means for an experiment that may have been open.
fn lost_journal(repo: &Repo, facts: &Facts, what: String) -> Result<Finding, SessionError> {
    let is_changed = || repo.working_tree.changes().is_ok_and(|changes| !changes.tracked.is_empty());
    let (means, hint) = match facts.tip(repo)? {
        Some(Tip::Unrecorded) => (
            "; an experiment was open, its commit is at the tip of the branch and was not recorded",
            DECIDE_FIRST.to_owned(),
        ),
        Some(Tip::Unsettled) => {
            ("; the last experiment is recorded, but its change is not undone yet", format!("ar resume {}", facts.tag))
        }
        _ if is_changed() => ("; the uncommitted changes may be those of an experiment that was open", facts.mend()),
        _ => ("", facts.mend()),
    };
    Ok(Finding::error(Area::Journal, format!("{what}{means}")).hint(hint))
}

/// The experiments whose runs go on, with the process that looks after each.
pub(super) fn going_on(facts: &Facts) -> Vec<(ExperimentId, Option<u32>)> {
    let entries = fs::read_dir(facts.folder.root().join("runs")).into_iter().flatten().flatten();
    let mut found: Vec<(ExperimentId, Option<u32>)> = entries
        .filter(|entry| exec::is_held(&entry.path()))
        .filter_map(|entry| {
            let started = || read_json::<Started>(&entry.path().join("started.json")).ok().flatten();
            let pid = exec::shims(&entry.path(), RUN).first().copied();
            Some((entry.file_name().to_str()?.parse().ok()?, pid.or_else(|| Some(started()?.pid))))
        })
        .collect();
    // Its folder may have been deleted, and the lock with it.
    for id in facts.open_ids().into_iter().chain([facts.history().next_id()]) {
        if found.iter().all(|(known, _)| *known != id) {
            found.extend(exec::shims(&facts.folder.run(id), RUN).first().map(|pid| (id, Some(*pid))));
        }
    }
    found.sort_unstable();
    found
}

/// The attempts that are open.
fn open(repo: &Repo, facts: &Facts, journal: &Journal) -> Vec<Finding> {
    let mut found = Vec::new();
    let path = facts.folder.state().join("progress.json");
    let shell = shell_word(&path);
    let decide = |what: String| {
        Finding::damaged(Area::Journal, what).hint(format!(
            "compare `cat {shell}` with `ar log {}`; if the records are right: {} && {REPAIR}",
            facts.tag,
            move_command(&path, ".wrong")
        ))
    };
    if let Some(aside) = &journal.aside
        && !repo.objects.has_commit(&aside.commit)
    {
        let commit = aside.commit.short(8);
        found.push(decide(format!(
            "the journal names a change that was set aside, but the commit {commit} does not \
            exist"
        )));
    }
    if let Some(tip) = facts.expected_tip()
        && let Some(trouble) = contradiction(repo, facts.history(), &tip, journal)
    {
        found.push(decide(trouble_text(trouble).to_owned()));
        return found;
    }
    let goes_on = |open: &OpenExperiment| exec::is_going_on(&facts.folder.run(open.id), RUN);
    let resume = |what: String| Finding::warning(Area::Journal, what).hint(format!("ar resume {}", facts.tag));
    for (phase, open) in journal.steps() {
        let what = format!("experiment {} is open ({})", open.id, phase_name(phase));
        found.push(match (&facts.holder, goes_on(open)) {
            (Some(_), _) => Finding::ok(Area::Journal, what),
            (None, true) => resume(format!("{what} and its run continues without an active ar")),
            (None, false) => resume(format!("{what}, but no ar is active")),
        });
    }
    for open in journal.open_attempts().filter(|open| !goes_on(open)) {
        for path in torn_run_files(&facts.folder.run(open.id)) {
            let what = format!("cannot parse {}", path.display());
            found.push(Finding::error(Area::Journal, what).hint(REPAIR));
        }
    }
    found
}

/// The name of a step, as the journal has it.
fn phase_name(phase: Phase) -> String {
    serde_json::to_value(phase).ok().as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The files of a run that is over and that say nothing: what is left of it is that it was started.
pub(super) fn torn_run_files(folder: &Path) -> Vec<PathBuf> {
    let is_torn = |looked: Result<bool, StateError>| matches!(looked, Err(StateError::Json { .. }));
    let started = folder.join("started.json");
    let exit = folder.join("exit.json");
    let mut torn = Vec::new();
    if is_torn(read_json::<Started>(&started).map(|found| found.is_some())) {
        torn.push(started);
    }
    if is_torn(read_json::<Exit>(&exit).map(|found| found.is_some())) {
        torn.push(exit);
    }
    torn
}

/// What is wrong with a file of the state folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Harm {
    /// It is not there.
    Missing,
    /// It is no JSON.
    Torn,
    /// Its last line ends in the middle, from this byte on.
    TornFrom(usize),
    /// So many of its lines are no JSON.
    Lines(usize),
}

/// The files of memory and logs that are not as they should be.
pub(super) fn harmed(facts: &Facts) -> Vec<(PathBuf, Harm)> {
    let state = facts.folder.state();
    let mut found = Vec::new();
    for name in MEMORY {
        let path = state.join(name);
        let harm = match (path.exists(), name.ends_with(".jsonl")) {
            (false, _) => Some(Harm::Missing),
            (true, true) => lines_harm(&path),
            (true, false) => json_harm::<Value>(&path),
        };
        found.extend(harm.map(|harm| (path, harm)));
    }
    let untracked = state.join("untracked.json");
    found.extend(json_harm::<Untracked>(&untracked).map(|harm| (untracked, harm)));
    for name in EVENT_LOGS {
        let path = facts.folder.logs().join(name);
        found.extend(lines_harm(&path).map(|harm| (path, harm)));
    }
    found
}

fn json_harm<T: serde::de::DeserializeOwned>(path: &Path) -> Option<Harm> {
    matches!(read_json::<T>(path), Err(StateError::Json { .. })).then_some(Harm::Torn)
}

fn lines_harm(path: &Path) -> Option<Harm> {
    let bytes = read_regular(path).ok()?;
    let is_json = |line: &[u8]| serde_json::from_slice::<Value>(line).is_ok();
    let ended = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    if ended < bytes.len() && !is_json(&bytes[ended..]) {
        return Some(Harm::TornFrom(ended));
    }
    let bad = bytes[..ended].split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && !is_json(line)).count();
    (bad > 0).then_some(Harm::Lines(bad))
}

/// The lines of a file that are JSON.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = Value> {
    bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok())
}

fn memory(facts: &Facts) -> Vec<Finding> {
    let finding = |(path, harm): (PathBuf, Harm)| {
        let path = path.display();
        let error = |what: String| Finding::error(Area::Journal, what).hint(REPAIR);
        match harm {
            Harm::Missing => error(format!("{path} is missing")).hint(facts.mend()),
            Harm::Torn => error(format!("cannot parse {path}")),
            Harm::TornFrom(_) => error(format!("the last line of {path} is truncated")),
            Harm::Lines(1) => Finding::warning(Area::Journal, format!("cannot parse a line of {path}")),
            Harm::Lines(count) => Finding::warning(Area::Journal, format!("cannot parse {count} lines of {path}")),
        }
    };
    harmed(facts).into_iter().map(finding).collect()
}

/// The runs of recorded experiments whose folders are gone, and their logs with them.
fn runs(facts: &Facts) -> Option<Finding> {
    let history = facts.history();
    let ran = history.records().iter().filter(|record| !record.runs.is_empty());
    let gone: Vec<String> =
        ran.filter(|record| !facts.folder.run(record.id).is_dir()).map(|record| record.id.to_string()).collect();
    let what = || format!("the logs of experiment {} are missing; their records are intact", gone.join(", "));
    (!gone.is_empty()).then(|| Finding::warning(Area::Journal, what()))
}
