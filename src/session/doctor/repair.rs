//! Mending what needs no guess. Whatever is replaced is kept beside it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::examine::{Examination, examine};
use super::facts::Facts;
use super::ledger::Books;
use super::lost;
use super::patients::Patients;
use super::refs::value_of;
use super::repository::in_the_way;
use super::shared;
use super::state::{Harm, going_on, harmed, lines, torn_run_files};
use super::{beside, entries};
use crate::agent::task_spec;
use crate::domain::{Asked, Clock, Contract, Drift, ExperimentId, Phase, Tag, count_of};
use crate::exec;
use crate::fs::{copy_beside, free_name, read_regular, write_atomic};
use crate::git::{LockOwner, Repo};
use crate::rules::Tip;
use crate::session::error::SessionError;
use crate::session::guardians::guard_lines;
use crate::session::heal::{Remains, rebuilt_journal};
use crate::session::jobs::AGENT;
use crate::session::own_files::OWN_FILES;
use crate::state::{
    EventLog, ITERATIONS, Iteration, Journal, Memory, SessionFolder, StateError, lock_all, refuse_held,
};

/// Mends what can be mended without a guess, and looks again; see [`examine`].
///
/// # Errors
///
/// Another `ar` holds one of the sessions, there is no session `tag`, or something cannot be written.
pub fn repair(dir: &Path, tag: Option<&Tag>, asked: &Asked, clock: Clock) -> Result<Examination, SessionError> {
    let repo = Repo::find(dir)?;
    // Without a folder nothing can be mended, and without all refs there is nothing to mend from.
    if in_the_way(&repo).is_some() || repo.refs.broken_packed_line()?.is_some() {
        return examine(dir, tag, asked);
    }
    let found = Patients::find(&repo, tag)?;
    let imported: Vec<Facts> = found.meant.into_iter().filter(|facts| !facts.has_files()).collect();
    let patients = Patients::find(&repo, tag)?.sessions();
    let folders: Vec<&SessionFolder> = patients.all().map(|facts| &facts.folder).collect();
    // Nothing is made before it is known that nobody is at work.
    refuse_held(repo.git_dir())?;
    for folder in &folders {
        folder.refuse_held()?;
    }
    for folder in &folders {
        folder.create()?;
    }
    let held = lock_all(&folders, repo.git_dir())?;
    let mut done = Vec::new();
    locks(&repo, &mut done)?;
    for facts in patients.all() {
        agents_locks(&repo, facts, &mut done)?;
    }
    entries::mend_head(&repo, patients.all(), &mut done)?;
    entries::mend(&repo, &mut done)?;
    for facts in &patients.meant {
        lost_records(&repo, facts, &mut done)?;
    }
    let patients = Patients::find(&repo, tag)?.sessions();
    for facts in patients.meant.iter().chain(&imported) {
        refs(&repo, facts, &mut done)?;
    }
    let patients = Patients::find(&repo, tag)?.sessions();
    for facts in &patients.meant {
        branch(&repo, facts, &mut done)?;
        contract(facts, &mut done)?;
        state_files(facts, &mut done)?;
        journal(&repo, facts, clock, &mut done)?;
    }
    let patients = Patients::find(&repo, tag)?.sessions();
    ledger(&repo, &patients, clock, &mut done)?;
    for facts in &patients.meant {
        beside::mend(&repo, facts, &mut done)?;
    }
    shared::mend(&repo, &mut done)?;
    if !done.is_empty() {
        repo.exclude(OWN_FILES)?;
    }
    drop(held);
    Ok(Examination { repaired: done, ..examine(dir, tag, asked)? })
}

/// Removes the locks that killed processes of this program left behind.
fn locks(repo: &Repo, done: &mut Vec<String>) -> Result<(), SessionError> {
    let dead: Vec<PathBuf> =
        repo.locks()?.into_iter().filter(|lock| lock.owner == LockOwner::Dead).map(|lock| lock.path).collect();
    if !dead.is_empty() {
        repo.clear_own_locks()?;
    }
    done.extend(dead.iter().map(|path| format!("removed {}, left behind by a killed ar", path.display())));
    Ok(())
}

/// Removes the locks that a killed git of the last agent left behind.
fn agents_locks(repo: &Repo, facts: &Facts, done: &mut Vec<String>) -> Result<(), SessionError> {
    let next = facts.history().next_id();
    let changed = |path: PathBuf| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    for id in facts.open_ids().into_iter().chain([next, next.previous()]) {
        let job = |kind| exec::job_file(&facts.folder.run(id), AGENT, kind);
        let Some(since) = changed(job("job")) else { continue };
        let folders = repo.folders();
        let left =
            repo.remove_left_locks(since, changed(job("exit")), |locks| exec::may_be_held(locks, &folders))?.removed;
        done.extend(
            left.iter().map(|path| format!("removed {}, left behind by a killed git of the agent", path.display())),
        );
    }
    Ok(())
}

/// Rebuilds the records whose objects are gone, as far as their commits, rows and logs tell of them.
fn lost_records(repo: &Repo, facts: &Facts, done: &mut Vec<String>) -> Result<(), SessionError> {
    for found in &facts.refs {
        let Some((record, message)) = lost::rebuilt(repo, facts, found) else { continue };
        repo.refs.rewrite_record(&found.name, &record.commit, &message)?;
        done.push(format!("rebuilt {} from its commit, its row and the logs", found.name));
    }
    Ok(())
}

/// Puts back the refs whose files name nothing, where it is known what they named.
fn refs(repo: &Repo, facts: &Facts, done: &mut Vec<String>) -> Result<(), SessionError> {
    for broken in &facts.broken {
        let Some(object) = value_of(facts, broken) else { continue };
        let copy = repo.refs.mend_ref(broken, &object)?;
        done.push(format!("restored {} to {}; its old file is in {}", broken.name, &object[..8], copy.display()));
    }
    Ok(())
}

/// Makes the branch anew that somebody deleted.
fn branch(repo: &Repo, facts: &Facts, done: &mut Vec<String>) -> Result<(), SessionError> {
    let branch = facts.tag.branch_ref();
    let Some(expected) = facts.expected_tip().filter(|_| !facts.refs.is_empty()) else { return Ok(()) };
    if facts.tip(repo)? == Some(Tip::Missing) {
        repo.refs.create_branch(&branch, &expected, "autoresearch: repair")?;
        done.push(format!("recreated the branch {} at {}", facts.tag.branch(), expected.short(8)));
    }
    Ok(())
}

/// Puts the terms back as the baseline's record has them.
fn contract(facts: &Facts, done: &mut Vec<String>) -> Result<(), SessionError> {
    let Some(recorded) = facts.recorded_terms() else { return Ok(()) };
    let path = facts.folder.state().join("contract.json");
    let terms = match &facts.contract {
        Ok(Some(stored)) if !facts.is_changed && Drift::all(&recorded, stored).is_empty() => return Ok(()),
        Ok(Some(stored)) => {
            let bytes = read(&path)?;
            let copy = copy_beside(&path, &bytes, ".before-repair")?;
            let changed = differing_fields(stored, &recorded);
            done.push(format!(
                "took the terms that were approved at the start from the baseline's record, {} with them; repeat what was \
                 changed since on purpose; the old ones are in {}",
                changed.join(", "),
                copy.display()
            ));
            recorded
        }
        Ok(None) => {
            done.push(format!("wrote {} from the baseline's record", path.display()));
            recorded
        }
        Err(StateError::Json { .. }) => {
            let aside = set_aside(&path)?;
            done.push(format!("wrote {} from the baseline's record; {aside}", path.display()));
            recorded
        }
        Err(_) => return Ok(()),
    };
    Ok(facts.folder.store_contract(&terms, &task_spec(&terms))?)
}

/// The fields of contract.json that differ.
fn differing_fields(one: &Contract, other: &Contract) -> Vec<String> {
    let fields = |contract: &Contract| match serde_json::to_value(contract) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let (one, other) = (fields(one), fields(other));
    let differing = one.iter().filter(|(name, value)| other.get(*name) != Some(*value));
    let names: Vec<String> = differing.map(|(name, _)| name.clone()).collect();
    if names.is_empty() { vec!["its hash".into()] } else { names }
}

/// Mends memory files and event logs.
fn state_files(facts: &Facts, done: &mut Vec<String>) -> Result<(), SessionError> {
    for (path, harm) in harmed(facts) {
        match harm {
            Harm::Missing | Harm::Lines(_) => {}
            Harm::Torn => done.push(set_aside(&path)?),
            Harm::TornFrom(from) => {
                let bytes = read(&path)?;
                let copy = copy_beside(&path, &bytes, ".damaged")?;
                write_atomic(&path, &bytes[..from])?;
                let (path, copy) = (path.display(), copy.display());
                done.push(format!("cut the torn last line off {path} and saved it to {copy}"));
            }
        }
    }
    log_last_iteration(facts)?;
    if facts.is_complete() {
        let missing: Vec<PathBuf> =
            harmed(facts).into_iter().map(|(path, _)| path).filter(|path| !path.exists()).collect();
        Memory::new(&facts.folder.state()).create(facts.history().records())?;
        done.extend(missing.iter().map(|path| format!("wrote {} from the records", path.display())));
    }
    for open in facts.journal.iter().flatten().flat_map(Journal::open_attempts) {
        let folder = facts.folder.run(open.id);
        if !exec::is_held(&folder) {
            for path in torn_run_files(&folder) {
                done.push(format!("{}; the run counts as lost", set_aside(&path)?));
            }
        }
    }
    Ok(())
}

/// Writes the line of the last experiment into the log of iterations, if that was the one that was cut off.
fn log_last_iteration(facts: &Facts) -> Result<(), SessionError> {
    let history = facts.history();
    let state = facts.folder.state();
    let path = state.join(ITERATIONS);
    if let (Ok(Some(journal)), Some(last)) = (&facts.journal, history.records().last())
        && journal.open.is_none()
        && !last.id.is_baseline()
        && path.exists()
        && !lines(&read(&path)?).any(|line| line["experiment"] == last.id.number())
    {
        Memory::new(&state).log_iteration(&Iteration::of(last, journal.iteration, history.since_keep()))?;
    }
    Ok(())
}

/// Writes a journal that is gone anew: no experiment is open. While a run goes on, or when the branch is at a commit that is
/// not recorded or not settled, that would be wrong.
fn journal(repo: &Repo, facts: &Facts, clock: Clock, done: &mut Vec<String>) -> Result<(), SessionError> {
    let path = facts.folder.state().join("progress.json");
    let is_between = !matches!(facts.tip(repo)?, Some(Tip::Unrecorded | Tip::Unsettled));
    if !facts.has_lost_journal() || !facts.is_complete() || !is_between || !going_on(facts).is_empty() {
        return Ok(());
    }
    let aside = if facts.journal.is_err() { format!("; {}", set_aside(&path)?) } else { String::new() };
    let now = clock.now();
    let tip = repo.refs.branch(&facts.tag.branch_ref())?;
    let (contract, end) = (facts.terms(), EventLog::new(&facts.folder.logs()).last_end());
    let remains = Remains { contract: contract.as_ref(), end, worktree: repo.worktree() };
    let rebuilt = rebuilt_journal(facts.history(), &remains, tip.as_ref(), now);
    Journal { guard_lines: guard_lines(repo, &facts.tag), ..rebuilt }.write(&facts.folder.state(), now)?;
    done.push(format!("wrote {} from the records, with no experiment open{aside}", path.display()));
    Ok(())
}

/// Gives every record its row, and tells the journals where the rows of open experiments are.
fn ledger(repo: &Repo, patients: &Patients, clock: Clock, done: &mut Vec<String>) -> Result<(), SessionError> {
    let Some(books) = Books::of(repo, patients) else { return Ok(()) };
    // One that cannot be compared cannot be mended either, and is found by the look that follows.
    if books.compare().is_err() {
        return Ok(());
    }
    let Some(rebuilt) = books.rebuild()? else { return Ok(()) };
    for facts in patients.all() {
        let Ok(Some(journal)) = &facts.journal else { continue };
        let row_of = |id: ExperimentId| {
            let index = books.records.iter().position(|record| record.tag == facts.tag && record.id == id);
            index.map(|index| rebuilt.places[index])
        };
        let mut journal = journal.clone();
        let together = journal.recorded_together();
        let mut is_changed = false;
        for (phase, open) in journal.steps_mut() {
            let first = open.recording.first().map_or(open.id, |record| record.id);
            // A train is recorded and settled as one, by the attempt that has it.
            let is_member = open.recording.is_empty() && together.contains(&open.id);
            let Some(row) = row_of(first).filter(|_| !is_member) else { continue };
            open.rows_from = row;
            if open.recording.is_empty() {
                *phase = Phase::Settling;
            }
            is_changed = true;
        }
        if is_changed {
            journal.write(&facts.folder.state(), clock.now())?;
        }
    }
    let found = &rebuilt.found;
    let parts = [
        (found.missing.len(), "row", "put in"),
        (found.torn.len(), "torn line", "repaired"),
        (found.repeated.len(), "repeated row", "left out"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(number, ..)| *number > 0)
        .map(|(number, what, how)| format!("{} {how}", count_of(*number, what)))
        .collect();
    let copy = rebuilt.copy.map(|copy| format!("; the old one is in {}", copy.display())).unwrap_or_default();
    done.push(format!("rewrote {}: {}{copy}", books.path.display(), parts.join(", ")));
    Ok(())
}

/// Moves a damaged file aside, and says where it is.
fn set_aside(path: &Path) -> Result<String, SessionError> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".damaged");
    let aside = free_name(Path::new(&aside));
    fs::rename(path, &aside).map_err(|source| SessionError::Io { action: "move", path: path.to_owned(), source })?;
    Ok(format!("moved the damaged {} to {}", path.display(), aside.display()))
}

fn read(path: &Path) -> Result<Vec<u8>, SessionError> {
    read_regular(path).map_err(|source| SessionError::Io { action: "read", path: path.to_owned(), source })
}
