//! The records of a session and its state folder: contract, journal, memory files, event logs, runs, and who is at work.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{DECIDE_FIRST, Facts, REPAIR, RecordRef, Repair, RepairableFinding, finding_of, repository};
use crate::domain::{
    Area, Drift, ExperimentId, Finding, Notice, count_of, experiment_name, list, shell_word, with_causes,
};
use crate::exec::{Executor, Exit, JobFiles, Started};
use crate::fs::{move_command, read_regular};
use crate::git::{Repo, SettingEffect, Untracked};
use crate::rules::{Tip, ignored_changes};
use crate::session::errors::SessionError;
use crate::session::handlers::StoredCopies;
use crate::session::store::{RUN, contradiction, require_hidden_baseline, trouble_text};
use crate::state::{EVENT_LOGS, HiddenFile, Journal, MEMORY_FILES, PROTECTED, StateError, UNTRACKED, read_json};

/// Compares the state folder of a session.
pub(crate) fn inspect(repo: &Repo, facts: &Facts) -> Vec<RepairableFinding> {
    let mut found = Vec::new();
    // Another part reports a non-directory at the folder's path.
    if repository::in_the_way(repo).is_none() && facts.has_files() {
        found.extend(journal(repo, facts).unwrap_or_else(|error| vec![finding_of(Area::Journal, &error).into()]));
        found.extend(memory(facts));
        found.extend(hidden(facts).err().map(|error| finding_of(Area::Journal, &error).into()));
        found.extend(runs(facts).map(RepairableFinding::from));
        if found.is_empty() {
            found.push(Finding::ok(Area::Journal, "no experiment is open").into());
        }
        found.extend(settings(repo, facts));
        let waiting = facts.folder.files_to_return();
        if !waiting.is_empty() && facts.holder.is_none() {
            let kept = facts.folder.carried();
            let what = format!("files of yours wait in {}/user for their return: {}", kept.display(), list(&waiting));
            let hint = format!("ar stop {0}, or ar resume {0}", facts.tag);
            found.push(Finding::warning(Area::Journal, what).hint(hint).into());
        }
        if let Some(holder) = &facts.holder {
            found.push(Finding::ok(Area::Journal, format!("an ar is active: {holder}")).into());
        }
    }
    if facts.is_fetched && !facts.is_imported() {
        let what = "fetched: only its records are in this repository";
        found.push(Finding::ok(Area::Journal, what).hint(format!("ar resume {}", facts.tag)).into());
    }
    found
}

/// Looks for the hidden values without which the session cannot go on.
fn hidden(facts: &Facts) -> Result<(), SessionError> {
    let Some(contract) = facts.terms() else { return Ok(()) };
    let file = HiddenFile::new(&facts.folder.state());
    if fs::metadata(file.path()).is_ok_and(|meta| meta.len() == 0) {
        // A call sees an empty file in its place.
        return Ok(());
    }
    require_hidden_baseline(&contract, facts.history(), &file, &file.read()?)
}

/// Git's settings that are others than at the session's start, as an agent may have left them.
fn settings(repo: &Repo, facts: &Facts) -> Vec<RepairableFinding> {
    let stored = read_json::<StoredCopies>(&facts.folder.state().join(PROTECTED)).unwrap_or_default();
    let then = stored.and_then(|stored| stored.git).map(|git| git.watched).unwrap_or_else(|| repo.watched_settings());
    let named = |(effect, keys): (SettingEffect, Vec<String>)| {
        let hint =
            format!("see where it is set: `git config --show-origin --get-all {}`", shell_word(Path::new(&keys[0])));
        let what = Notice::SettingsChanged { when: "since the session began".into(), keys, effect: effect.into() };
        Finding::warning(Area::Repository, what.to_string()).hint(hint).into()
    };
    then.changed(&repo.watched_settings()).into_iter().map(named).collect()
}

fn journal(repo: &Repo, facts: &Facts) -> Result<Vec<RepairableFinding>, SessionError> {
    let path = facts.folder.state().join("progress.json");
    let mut found = Vec::new();
    match &facts.journal {
        Ok(Some(journal)) => found.extend(open(repo, facts, journal)),
        Ok(None) | Err(StateError::Json { .. }) => found.push(lost_journal(repo, facts, &path)?),
        Err(error) => {
            found.push(Finding { hint: error.hint(), ..Finding::error(Area::Journal, with_causes(error)) }.into());
        }
    }
    found.extend(unknown_runs(facts, &facts.open_ids(), REPAIR).into_iter().map(RepairableFinding::from));
    Ok(found)
}

/// The runs that go on and are of no experiment in `open`; `then` is to be called when they are over.
pub(crate) fn unknown_runs(facts: &Facts, open: &[ExperimentId], then: &str) -> Vec<Finding> {
    let unknown = going_on(facts).into_iter().filter(|(id, _)| !open.contains(id));
    unknown
        .map(|(id, pid)| {
            let what = format!("a run of {} is still going that the journal does not know", experiment_name(id));
            let end = pid.map_or("end it".to_owned(), |pid| format!("end it: kill {pid}"));
            Finding::error(Area::Journal, what).hint(format!("wait until it ends, or {end}; then {then}"))
        })
        .collect()
}

/// A journal that is gone, and what that means for an experiment that may have been open. It is written anew, unless a run
/// goes on, or nothing tells whose commit the branch is at.
fn lost_journal(repo: &Repo, facts: &Facts, path: &Path) -> Result<RepairableFinding, SessionError> {
    let shown = path.display();
    // A loop makes one that is missing itself.
    let is_missing = facts.journal.is_ok();
    let what = if is_missing { format!("{shown} is missing") } else { format!("cannot parse {shown}") };
    let is_changed = || repo.working_tree.changes().is_ok_and(|changes| !changes.tracked.is_empty());
    let mend = if facts.is_complete() { REPAIR } else { DECIDE_FIRST };
    let (tip, is_left) = (facts.tip(repo)?, facts.left_at_tip(repo)?.is_some());
    let (means, hint) = match tip {
        Some(Tip::Unrecorded) => (
            "; an experiment was open, its commit is at the tip of the branch and was not recorded",
            if is_left { REPAIR } else { DECIDE_FIRST }.to_owned(),
        ),
        Some(Tip::Unsettled) => (
            "; the last experiment is recorded, but its change is not undone yet",
            if is_missing { format!("ar resume {}", facts.tag) } else { mend.to_owned() },
        ),
        _ if is_changed() => ("; the uncommitted changes may be those of an experiment that was open", mend.to_owned()),
        _ => ("", mend.to_owned()),
    };
    let finding = Finding::error(Area::Journal, format!("{what}{means}")).hint(hint);
    let is_decided = match tip {
        Some(Tip::Unrecorded) => is_left,
        Some(Tip::Unsettled) => !is_missing,
        _ => true,
    };
    if !facts.is_complete() || !is_decided || !going_on(facts).is_empty() {
        return Ok(finding.into());
    }
    Ok(RepairableFinding::new(finding, Repair::Journal))
}

/// The experiments whose runs go on, with the process that looks after each.
fn going_on(facts: &Facts) -> Vec<(ExperimentId, Option<u32>)> {
    let (executor, folder) = (Executor::of_any(), &facts.folder);
    // The folder of these may have been deleted, and the lock with it.
    let hidden = facts.open_ids().into_iter().chain([facts.history().next_id()]);
    let hidden = hidden.filter(|id| executor.is_active(&folder.run(*id), RUN));
    let busy = executor.busy_in(&folder.runs());
    let runs = folder.runs();
    let id_of = |run: &Path| run.strip_prefix(&runs).ok()?.iter().next()?.to_str()?.parse::<ExperimentId>().ok();
    let busy = busy.filter_map(|run| id_of(&run));
    let ids: BTreeSet<ExperimentId> = busy.chain(hidden).collect();
    ids.into_iter().map(|id| (id, executor.supervisor(&folder.run(id), RUN))).collect()
}

/// The attempts that are open.
fn open(repo: &Repo, facts: &Facts, journal: &Journal) -> Vec<RepairableFinding> {
    let mut found: Vec<RepairableFinding> = Vec::new();
    let path = facts.folder.state().join("progress.json");
    let shell = shell_word(&path);
    let decide = |what: String| {
        Finding::damaged(Area::Journal, what).hint(format!(
            "compare `cat {shell}` with `ar log {}`; if the records are right: {} && {REPAIR}",
            facts.tag,
            move_command(&path, ".wrong")
        ))
    };
    if let Some(aside) = journal.tree.aside()
        && !repo.objects.has_commit(&aside.commit)
    {
        let commit = aside.commit.short(8);
        let what = format!("the journal names a change that was set aside, but the commit {commit} does not exist");
        found.push(decide(what).into());
    }
    if let Some(tip) = facts.expected_tip()
        && let Some(trouble) = contradiction(repo, facts.history(), &tip, journal)
    {
        found.push(decide(trouble_text(trouble).to_owned()).into());
        return found;
    }
    let runs = Executor::of_any();
    let goes_on = |id| {
        let folder = facts.folder.run(id);
        runs.is_active(&folder, RUN) || runs.has_job(&folder)
    };
    let resume = |what: String| Finding::warning(Area::Journal, what).hint(format!("ar resume {}", facts.tag));
    let mut torn = Vec::new();
    for attempt in journal.attempts() {
        let id = attempt.id();
        let what = format!("experiment {id} is open ({})", attempt.phase());
        let goes_on = goes_on(id);
        let finding = match (&facts.holder, goes_on) {
            (Some(_), _) => Finding::ok(Area::Journal, what),
            (None, true) => resume(format!("{what} and its run continues without an active ar")),
            (None, false) => resume(format!("{what}, but no ar is active")),
        };
        found.push(finding.into());
        if !goes_on {
            torn.extend(torn_run_files(&facts.folder.run(id)));
        }
    }
    found.extend(torn.into_iter().map(|path| {
        let what = format!("cannot parse {}", path.display());
        RepairableFinding::new(Finding::error(Area::Journal, what), Repair::RunFile(path))
    }));
    found
}

/// The files of a run that is over and that say nothing: what is left of it is that it was started.
fn torn_run_files(folder: &Path) -> Vec<PathBuf> {
    let is_torn = |read: Result<(), StateError>| matches!(read, Err(StateError::Json { .. }));
    let JobFiles { started, exit, .. } = JobFiles::named(folder, RUN);
    let torn = [
        is_torn(read_json::<Started>(&started).map(drop)).then_some(started),
        is_torn(read_json::<Exit>(&exit).map(drop)).then_some(exit),
    ];
    torn.into_iter().flatten().collect()
}

/// Compares the files of memory and logs: those that the records tell are there, and all that are there can be parsed.
fn memory(facts: &Facts) -> Vec<RepairableFinding> {
    let state = facts.folder.state();
    let logs = EVENT_LOGS.iter().map(|name| facts.folder.logs().join(name));
    let paths = MEMORY_FILES.iter().chain(&[UNTRACKED]).map(|name| state.join(name)).chain(logs);
    let difference = |path: PathBuf| {
        let shown = path.display();
        let is_from_records = MEMORY_FILES.iter().any(|name| path.ends_with(name));
        let mut is_missing = false;
        let what = match read_regular(&path) {
            Ok(bytes) => match bad_lines(&path, &bytes) {
                0 => return None,
                bad if is_log(&path) => format!("cannot parse {} of {shown}", count_of(bad, "line")),
                _ => format!("cannot parse {shown}"),
            },
            Err(_) if is_from_records && !path.exists() => {
                is_missing = true;
                format!("{shown} is missing")
            }
            Err(_) => return None,
        };
        let finding = Finding::error(Area::Journal, what);
        Some(match is_from_records && !facts.is_complete() {
            true => finding.hint(DECIDE_FIRST).into(),
            false if is_missing => RepairableFinding::new(finding, Repair::LostMemory(path)),
            false => RepairableFinding::new(finding, Repair::Memory(path)),
        })
    };
    paths.filter_map(difference).collect()
}

/// Returns whether a file has a JSON document a line.
pub(super) fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl")
}

/// The lines of a log that are not JSON; one for another file that cannot be parsed.
fn bad_lines(path: &Path, bytes: &[u8]) -> usize {
    match is_log(path) {
        true => bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && !is_json(line)).count(),
        false if path.ends_with(UNTRACKED) => usize::from(serde_json::from_slice::<Untracked>(bytes).is_err()),
        false => usize::from(!is_json(bytes)),
    }
}

fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Value>(bytes).is_ok()
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

/// Compares the terms and the records of a session.
pub(crate) fn inspect_records(repo: &Repo, facts: &Facts) -> Vec<RepairableFinding> {
    let mut found: Vec<RepairableFinding> =
        facts.refs.iter().filter_map(|found| record(repo, found)).map(RepairableFinding::from).collect();
    if repository::in_the_way(repo).is_none() && facts.has_files() {
        found.extend(contract(facts));
    }
    found.extend(ignored(facts).map(RepairableFinding::from));
    if found.is_empty() {
        let history = facts.history();
        let best = history.best_kept_record().and_then(|record| Some((record.id, history.number_to_beat(record)?)));
        let best = best.map(|(id, number)| format!(", the best is {number:#} of experiment {id}")).unwrap_or_default();
        let what = format!("{}{best}", count_of(history.experiments(), "experiment"));
        found.push(Finding::ok(Area::Session, what).into());
    }
    found
}

fn ignored(facts: &Facts) -> Option<Finding> {
    let changes = ignored_changes(facts.history().records());
    let (last, files) = changes.last()?;
    let what = format!(
        "ignored files changed before the run of experiment {last}, and no commit has them: {}",
        files.join(", ")
    );
    Some(Finding::warning(Area::Session, what).hint("pass --protect FILE to pin an input, or track it with git"))
}

fn record(repo: &Repo, found: &RecordRef) -> Option<Finding> {
    let RecordRef { id, name, object, tagged, record } = found;
    let look = format!(
        "look with `git cat-file -p {name}`, and decide what experiment {id} was; `git update-ref {name} OBJECT` puts \
         another tag object in its place"
    );
    let record = match record {
        Ok(record) => record,
        Err(error) => {
            if !repo.objects.has_object(object) {
                let what = format!("the object {object} of the record {name} is gone");
                let hint = format!(
                    "fetch it from a copy of the repository; without one, decide whether to go on without the record: \
                     `git update-ref -d {name}`"
                );
                return Some(Finding::damaged(Area::Session, what).hint(hint));
            }
            let finding = finding_of(Area::Session, error);
            return Some(Finding { hint: finding.hint.or(Some(look)), ..finding });
        }
    };
    let is_elsewhere = record.commit.is_known() && tagged.as_ref().is_some_and(|commit| *commit != record.commit);
    let what = format!("the record {name} is on a different commit than it names");
    is_elsewhere.then(|| Finding::damaged(Area::Session, what).hint(look))
}

/// Compares contract.json with the terms that the baseline's record has.
fn contract(facts: &Facts) -> Option<RepairableFinding> {
    let path = facts.folder.state().join("contract.json");
    let shown = path.display();
    let recorded = facts.recorded_terms();
    let what = match (&facts.contract, &recorded) {
        (Ok(Some(stored)), Some(recorded)) => {
            let term = |Drift { field, approved, found, .. }: &Drift| {
                format!("the {field} `{found}`, and the baseline's record `{approved}`")
            };
            let drifts: Vec<_> = Drift::all(recorded, stored).iter().map(term).collect();
            match drifts.is_empty() {
                true if !facts.is_changed => return None,
                true => "contract.json was changed after it was approved".to_owned(),
                false => format!("contract.json has {}", drifts.join("; ")),
            }
        }
        (Ok(Some(_)), None) if !facts.is_changed => return None,
        (Ok(Some(_)), None) => {
            let what = format!("{shown} was changed, and no record holds the approved terms");
            let hint = "start a new session: `ar run --tag NEW --metric NAME --cmd COMMAND`";
            return Some(Finding::damaged(Area::Session, what).hint(hint).into());
        }
        (Ok(None), Some(_)) => format!("{shown} is missing"),
        (Err(StateError::Json { .. }), Some(_)) => format!("cannot parse {shown}"),
        (Err(error), recorded) if recorded.is_some() || !matches!(error, StateError::Json { .. }) => {
            return Some(Finding { hint: error.hint(), ..Finding::error(Area::Session, with_causes(error)) }.into());
        }
        (Ok(None) | Err(_), _) => {
            let what = format!("cannot read {shown}, and no record holds the terms");
            let look = format!("git cat-file -p {}", facts.tag.record_ref(ExperimentId::BASELINE));
            let hint = format!(
                "give the settings again in a new session: `ar run --tag NEW --metric NAME --cmd COMMAND`; `{look}` \
                 and `ar log {}` show what is left of them",
                facts.tag
            );
            return Some(Finding::damaged(Area::Session, what).hint(hint).into());
        }
    };
    Some(RepairableFinding::new(Finding::error(Area::Session, what), Repair::Contract(Box::new(recorded?))))
}
