//! The repairs that need no guess: what differs from the records, and how that is written. Whatever is replaced is kept
//! beside it.

use std::path::{Path, PathBuf};

use super::repository::in_the_way;
use super::{Examination, Facts, Part, Patients, REPAIR, examine, is_log, ledger, refs, repository, state};
use crate::agent::task_spec;
use crate::domain::{Asked, Clock, CommitId, Contract, ExperimentId, Finding, Tag, experiment_names};
use crate::exec::{ExecError, Job, may_be_held, runtime};
use crate::fs::{copy_beside, read_regular};
use crate::git::{BrokenRef, LockOwner, Repo};
use crate::machine::Save;
use crate::session::errors::SessionError;
use crate::session::files::{exclude_own, refuse_elsewhere, remove_file};
use crate::session::handlers::{SessionRefs, clear_command_worktrees};
use crate::session::store::{AGENT, journal_of_remains};
use crate::session::wait::guardian_lines;
use crate::state::{Journal, Memory, PROGRESS, SessionFolder, lock_all, refuse_held};

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
    let patients = Patients::find(&repo, tag)?;
    let sessions = || patients.all().filter(|facts| !facts.is_remains() && facts.has_files());
    let folders: Vec<&SessionFolder> = sessions().map(|facts| &facts.folder).collect();
    // Nothing is made before it is known that nobody is at work.
    refuse_held(repo.git_dir())?;
    for folder in &folders {
        folder.refuse_held()?;
        refuse_elsewhere(folder, false)?;
    }
    for folder in &folders {
        folder.create()?;
    }
    let held = lock_all(&folders, repo.git_dir())?;
    let mut repairs = Repairs { repo: &repo, clock, done: Vec::new() };
    locks(&repo, &mut repairs.done)?;
    for facts in sessions() {
        agents_locks(&repo, facts, &mut repairs.done)?;
    }
    repository::repair_head(&repo, sessions(), &mut repairs.done)?;
    // Each part may restore facts that the next parts need, such as the contract, so they are read again.
    let parts: [Part; 5] =
        [state::inspect_records, refs::inspect, state::inspect_records, state::inspect, refs::inspect_open];
    for part in parts {
        repairs.remove(&Patients::find_held(&repo, tag)?, part)?;
    }
    let patients = Patients::find_held(&repo, tag)?;
    ledger::repair(&patients, &mut repairs)?;
    ledger::repair_memory(&mut repairs)?;
    let left = runtime().map_err(ExecError::Watch)?.block_on(clear_command_worktrees(&repo))?;
    repairs.done.extend(left.iter().map(|dir| format!("removed the working tree {}", dir.display())));
    if !repairs.done.is_empty() {
        exclude_own(&repo, &ledger::names(&repo, &patients))?;
    }
    drop(held);
    Ok(Examination { repaired: repairs.done, ..examine(dir, tag, asked)? })
}

/// The repairs of a repository.
pub(super) struct Repairs<'a> {
    pub(super) repo: &'a Repo,
    pub(super) clock: Clock,
    /// One sentence per repair.
    pub(super) done: Vec<String>,
}

impl Repairs<'_> {
    /// Removes the differences of a part of each session that is meant. Nobody else must be active.
    fn remove(&mut self, patients: &Patients, part: Part) -> Result<(), SessionError> {
        for facts in patients.sessions() {
            for repair in part(self.repo, facts).into_iter().filter_map(|found| found.repair) {
                let done = self.apply(facts, repair)?;
                self.done.push(done);
            }
        }
        Ok(())
    }

    /// Does a repair of a session; returns a sentence.
    fn apply(&self, facts: &Facts, repair: Repair) -> Result<String, SessionError> {
        let (repo, state) = (self.repo, facts.folder.state());
        let refs = SessionRefs { repo, tag: &facts.tag };
        Ok(match repair {
            Repair::Ref { broken, object } => {
                let copy = repo.refs.repair_ref(&broken, &object)?;
                format!("restored {} to {}; its old file is in {}", broken.name, &object[..8], copy.display())
            }
            Repair::Branch(at) => {
                refs.create_branch(&at, "repair")?;
                format!("recreated the branch {} at {}", facts.tag.branch(), at.short(8))
            }
            Repair::Contract(recorded) => {
                let path = state.join("contract.json");
                let (approved, suffix, again) = match &facts.contract {
                    Ok(Some(_)) => {
                        (" as approved at the start", ".before-repair", "; repeat what was changed since on purpose")
                    }
                    _ => ("", ".damaged", ""),
                };
                let kept = keep(&path, suffix)?;
                facts.folder.store_contract(&recorded, &task_spec(&recorded))?;
                format!("wrote {}{approved} from the baseline's record{kept}{again}", path.display())
            }
            Repair::Journal => {
                let path = state.join(PROGRESS);
                let kept = keep(&path, ".damaged")?;
                let rebuilt =
                    journal_of_remains(repo, &facts.folder, facts.terms().as_ref(), facts.history(), self.clock.now())?;
                let last_seen = rebuilt.presence.last_seen();
                let open = experiment_names(&rebuilt.open_ids());
                Journal { guardian_lines: guardian_lines(repo, &facts.tag), ..rebuilt }.write(&state, last_seen)?;
                format!("wrote {} from the records, with {open} open{kept}", path.display())
            }
            Repair::LostMemory(path) => {
                Memory::new(&state).create(facts.terms().as_ref(), facts.history())?;
                format!("wrote the missing {} from the records again", path.display())
            }
            Repair::Memory(path) => mend_memory(facts, &path)?,
            Repair::RunFile(path) => {
                let kept = keep(&path, ".damaged")?;
                remove_file(&path)?;
                format!("removed the damaged {}{kept}; the run counts as lost", path.display())
            }
            Repair::Save { id, name, commit } => {
                let saved = refs.save(&Save::described(&commit, format!("unfinished experiment {id}")))?;
                repo.refs.drop_ref(&name)?;
                format!("moved {name} to {saved}")
            }
            Repair::Tree(tree) => {
                repo.remove_kept(&tree)?;
                format!("removed the working tree {}", tree.display())
            }
        })
    }
}

/// Mends a damaged file of the memory; returns a sentence.
fn mend_memory(facts: &Facts, path: &Path) -> Result<String, SessionError> {
    let memory = Memory::new(&facts.folder.state());
    let shown = path.display();
    if is_log(path) {
        let copy = memory.repair(path, facts.terms().as_ref(), facts.history())?;
        let kept = copy.map(|copy| format!("; the old one is in {}", copy.display())).unwrap_or_default();
        return Ok(format!("dropped the damaged lines of {shown}{kept}"));
    }
    let kept = keep(path, ".damaged")?;
    remove_file(path)?;
    if facts.is_complete() {
        memory.create(facts.terms().as_ref(), facts.history())?;
    }
    Ok(match path.exists() {
        true => format!("wrote {shown} from the records{kept}"),
        false => format!("removed the damaged {shown}{kept}"),
    })
}

/// Copies what is at `path` to a free name beside it; gives a clause that names the copy, nothing if nothing is there.
fn keep(path: &Path, suffix: &str) -> Result<String, SessionError> {
    if !path.exists() {
        return Ok(String::new());
    }
    let failed = |source| SessionError::Io { action: "read", path: path.to_owned(), source };
    let bytes = read_regular(path).map_err(failed)?;
    Ok(format!("; the old one is in {}", copy_beside(path, &bytes, suffix)?.display()))
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
    for id in facts.open_ids().into_iter().chain([next, next.previous()]) {
        let Some((since, until)) = Job::lifetime(&facts.folder.run(id), AGENT) else { continue };
        let folders = repo.folders();
        let left = repo.remove_left_locks(since, until, |locks| may_be_held(locks, &folders))?.removed;
        done.extend(
            left.iter().map(|path| format!("removed {}, left behind by a killed git of the agent", path.display())),
        );
    }
    Ok(())
}

/// A repair of a session by `ar doctor --repair`, without a guess.
#[derive(Debug)]
pub(crate) enum Repair {
    /// The object that a torn ref named.
    Ref { broken: BrokenRef, object: String },
    /// The missing branch of the session, at this commit.
    Branch(CommitId),
    /// The contract, from the baseline's record.
    Contract(Box<Contract>),
    /// The journal, from the records, and the commit at the tip of the branch.
    Journal,
    /// A memory file from the records; a log without its damaged lines, with those that the records tell.
    Memory(PathBuf),
    /// A missing memory file, from the records.
    LostMemory(PathBuf),
    /// A damaged file of a run that is over goes.
    RunFile(PathBuf),
    /// The commit under the ref `name` of an experiment that is neither open nor recorded is saved.
    Save { id: ExperimentId, name: String, commit: CommitId },
    /// A linked working tree in which nothing is open goes.
    Tree(PathBuf),
}

/// A finding, and its repair; nothing where the user must decide.
#[derive(Debug)]
pub(crate) struct RepairableFinding {
    pub(crate) finding: Finding,
    pub(crate) repair: Option<Repair>,
}

impl RepairableFinding {
    /// Creates one that is removed without a guess.
    pub(crate) fn new(finding: Finding, repair: Repair) -> Self {
        let finding = if finding.hint.is_some() { finding } else { finding.hint(REPAIR) };
        RepairableFinding { finding, repair: Some(repair) }
    }
}

impl From<Finding> for RepairableFinding {
    fn from(finding: Finding) -> Self {
        RepairableFinding { finding, repair: None }
    }
}
