//! The places of a session's files, and their locks.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{EVENT_LOGS, MEMORY_FILES, PROGRESS, PROGRESS_COPIES, StateError, files_below, read_json, write_json};
use crate::domain::{Contract, ExperimentId, Tag};
use crate::fs::{
    GLANCE, OWN_FOLDER, create_folder, failed, if_there, is_at, is_irregular, lock_within, move_away,
    move_no_folder_away, open_regular, read_regular, retry_if_removed, share_within, write_atomic,
};

/// The lock of a working tree, in its git folder: two sessions cannot share a `HEAD`.
const WORKTREE_LOCK: &str = "autoresearch-owner";

/// The field of contract.json with the hash of the others.
const HASH: &str = "hash";
/// The folder of all sessions in the root of the main worktree.
pub const SESSIONS_FOLDER: &str = OWN_FOLDER;

/// The files of the state folder, except for those of memory.
pub const STATE_FILES: [&str; 7] =
    ["contract.json", "task_spec.md", PROGRESS, PROGRESS_COPIES, UNTRACKED, PROTECTED, CARRIED];

/// The file of the state folder that lists what runs in place may carry over.
pub const CARRIED: &str = "carried.json";

/// The file of the state folder that lists the untracked files that are not part of the next change.
pub const UNTRACKED: &str = "untracked.json";

/// The file of the state folder that lists the protected files that git does not have.
pub const PROTECTED: &str = "protected.json";

/// The folder of one session, `.autoresearch/<tag>/` in the main worktree.
#[derive(Debug, Clone)]
pub struct SessionFolder {
    root: PathBuf,
    tag: Tag,
}

/// The SHA-256 of a JSON document without white space, with its fields in order.
fn hash_of(document: &Value) -> String {
    Sha256::digest(document.to_string()).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl SessionFolder {
    /// Names the folder; creates nothing.
    pub fn new(main_worktree: &Path, tag: &Tag) -> Self {
        SessionFolder { root: main_worktree.join(SESSIONS_FOLDER).join(tag.as_str()), tag: tag.clone() }
    }

    /// Creates the folder and its subfolders.
    pub fn create(&self) -> Result<(), StateError> {
        [self.state(), self.logs(), self.runs()].iter().try_for_each(|folder| {
            // The user may have linked a folder.
            if !folder.is_dir() {
                move_no_folder_away(folder).map_err(failed("move", folder))?;
            }
            Ok(create_folder(folder)?)
        })
    }

    /// Lists folders in the place of session files, and anything else in the place of session folders.
    pub fn misplaced(&self) -> Vec<PathBuf> {
        let found = |path: &Path| fs::symlink_metadata(path).ok();
        let folders = [self.root.clone(), self.state(), self.logs(), self.runs()].into_iter();
        let folders = folders.filter(|path| !path.is_dir() && found(path).is_some_and(|found| !found.is_dir()));
        let state = STATE_FILES.iter().chain(&MEMORY_FILES).map(|name| self.state().join(name));
        let logs = EVENT_LOGS.iter().map(|name| self.logs().join(name));
        let files = state.chain(logs).chain([self.lock_path(), self.root.join("stop.json")]);
        folders.chain(files.filter(|path| found(path).is_some_and(|found| found.is_dir()))).collect()
    }

    /// Moves away everything that is [misplaced](Self::misplaced); returns the new paths.
    pub fn move_folders_away(&self) -> Result<Vec<PathBuf>, StateError> {
        let misplaced = self.misplaced();
        misplaced.iter().map(|path| Ok(move_away(path).map_err(failed("move", path))?)).collect()
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The session.
    pub fn tag(&self) -> &Tag {
        &self.tag
    }

    /// The folder of the state files.
    pub fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    /// The folder of the event logs.
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// The folder of what is written down for people.
    pub fn checkpoints(&self) -> PathBuf {
        self.root.join("checkpoints")
    }

    /// The bundles of the refs that deleted sessions of this name had, from the first one on.
    pub fn bundles(&self) -> impl Iterator<Item = PathBuf> {
        let (tag, deleted) = (&self.tag, self.root.with_file_name("deleted"));
        (1u32..).map(move |n| deleted.join(if n == 1 { format!("{tag}.bundle") } else { format!("{tag}-{n}.bundle") }))
    }

    /// The folder of files that are set aside of the user's working tree.
    pub fn carried(&self) -> PathBuf {
        self.root.join("carried")
    }

    /// The user's files that a loop set aside and has not returned.
    pub fn files_to_return(&self) -> Vec<PathBuf> {
        files_below(&self.carried().join("user"), Path::new(""))
    }

    /// The folder of all runs.
    pub fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// The folder of one experiment's runs.
    pub fn run(&self, id: ExperimentId) -> PathBuf {
        self.runs().join(format!("{id:05}"))
    }

    /// Creates the folder of one experiment's runs, and moves away anything else in its place, such as a link.
    pub fn create_run(&self, id: ExperimentId) -> Result<PathBuf, StateError> {
        let folder = self.run(id);
        move_no_folder_away(&folder).map_err(failed("move", &folder))?;
        create_folder(&folder)?;
        Ok(folder)
    }

    /// The linked working tree of a slot, counted from 0.
    pub fn slot(&self, slot: u32) -> PathBuf {
        self.trees().join(format!("slot-{slot}"))
    }

    /// The linked working tree of a seat, counted from 0.
    pub fn seat(&self, seat: u32) -> PathBuf {
        self.trees().join(format!("seat-{seat}"))
    }

    /// The folder of the linked working trees.
    pub fn trees(&self) -> PathBuf {
        self.root().join("trees")
    }

    /// Returns whether the session has a contract, readable or not.
    pub fn has_contract(&self) -> bool {
        self.contract_path().exists()
    }

    fn contract_path(&self) -> PathBuf {
        self.state().join("contract.json")
    }

    /// Reads the contract; `None` if the session has none.
    pub fn contract(&self) -> Result<Option<Contract>, StateError> {
        let contract: Option<Contract> = read_json(&self.contract_path())?;
        Ok(contract.map(|mut contract| {
            contract.unknown_fields.remove(HASH);
            contract
        }))
    }

    /// Returns whether the contract was changed after it was stored: its hash does not match. A contract stored without
    /// a hash is accepted.
    pub fn contract_was_changed(&self) -> Result<bool, StateError> {
        let terms: Option<Map<String, Value>> = read_json(&self.contract_path())?;
        let Some(mut terms) = terms else { return Ok(false) };
        let stored = terms.remove(HASH);
        Ok(stored.is_some_and(|stored| stored != hash_of(&Value::Object(terms))))
    }

    /// Stores the contract with its hash, and the task in prose beside it.
    pub fn store_contract(&self, contract: &Contract, task: &str) -> Result<(), StateError> {
        let path = self.contract_path();
        let mut terms =
            serde_json::to_value(contract).map_err(|source| StateError::Json { path: path.clone(), source })?;
        terms[HASH] = hash_of(&terms).into();
        let stored = read_json::<Value>(&path);
        if !matches!(stored, Ok(Some(stored)) if stored == terms) {
            write_json(&path, &terms)?;
        }
        let path = self.state().join("task_spec.md");
        match read_regular(&path) {
            Ok(stored) if stored == task.as_bytes() => Ok(()),
            _ => Ok(write_atomic(&path, task.as_bytes())?),
        }
    }

    /// Fails if another process holds the session, in any working tree. Changes nothing on disk.
    pub fn refuse_held(&self) -> Result<(), StateError> {
        refuse(self.lock_path())
    }

    /// The process that holds the session; `None` if it is idle. `git_dir` belongs to the working tree in which it may
    /// be active: that lock names an owner even after the session's folder was deleted. Changes nothing on disk.
    pub fn owner(&self, git_dir: &Path) -> Result<Option<Owner>, StateError> {
        if let Some(owner) = look_at(&self.lock_path(), Duration::ZERO)? {
            return Ok(Some(owner));
        }
        for lock in [git_dir.join(WORKTREE_LOCK), self.lock_beside(git_dir)] {
            if let Some(owner) = look_at(&lock, Duration::ZERO)?.filter(|owner| owner.is_of(&self.tag)) {
                return Ok(Some(owner));
            }
        }
        Ok(None)
    }

    /// The file that a session locks instead of the working tree's lock when it leaves the tree to others.
    fn lock_beside(&self, git_dir: &Path) -> PathBuf {
        git_dir.join(format!("{WORKTREE_LOCK}-{}", self.tag))
    }

    /// The file that the active process locks.
    pub fn lock_path(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// Locks the session for this process, and with `in_place` the working tree of `git_dir`. The locks die with it.
    pub fn lock(&self, git_dir: &Path, in_place: bool) -> Result<OwnerLock, StateError> {
        let outer = if in_place { git_dir.join(WORKTREE_LOCK) } else { self.lock_beside(git_dir) };
        let worktree = hold(&outer, &self.tag)?;
        let session = hold(&self.lock_path(), &self.tag)?;
        Ok(OwnerLock { _worktree: Rc::new(worktree), session: Rc::new(session), said: own_words(&self.tag) })
    }

    /// Returns whether the folder still exists as this process made it, with its subfolders and the locked file.
    pub fn is_whole(&self, lock: &OwnerLock) -> bool {
        self.has_lock(lock)
            && self.logs().is_dir()
            && self.state().join(PROGRESS).is_file()
            && !self.state().join(PROGRESS_COPIES).is_dir()
            && self.contract_path().is_file()
    }

    fn has_lock(&self, lock: &OwnerLock) -> bool {
        is_at(&lock.session, &self.lock_path()).unwrap_or(false)
    }

    /// Locks the session again if the lock file was deleted.
    pub fn lock_again(&self, lock: &mut OwnerLock) -> Result<(), StateError> {
        if !self.has_lock(lock) {
            lock.session = Rc::new(hold(&self.lock_path(), &self.tag)?);
        }
        Ok(())
    }
}

/// Locks a working tree and several sessions for this process, like [`SessionFolder::lock`]. The locks die with the
/// process or the files.
pub fn lock_all(folders: &[&SessionFolder], git_dir: &Path) -> Result<Vec<File>, StateError> {
    let mut held = Vec::new();
    for folder in folders {
        if held.is_empty() {
            held.push(hold(&git_dir.join(WORKTREE_LOCK), &folder.tag)?);
        }
        held.push(hold(&folder.lock_path(), &folder.tag)?);
    }
    Ok(held)
}

/// Fails if another process is active in the working tree, in any session. Changes nothing on disk.
pub fn refuse_held(git_dir: &Path) -> Result<(), StateError> {
    refuse(git_dir.join(WORKTREE_LOCK))
}

fn refuse(path: PathBuf) -> Result<(), StateError> {
    match look_at(&path, GLANCE)? {
        Some(owner) => Err(StateError::Held { holder: owner.said }),
        None => Ok(()),
    }
}

/// The process that has held the lock at `path` for all of `patience`. Takes a shared lock for a moment, which [`hold`]
/// waits out.
fn look_at(path: &Path, patience: Duration) -> Result<Option<Owner>, StateError> {
    let opened = if_there(open_regular(path)).map_err(failed("open", path))?;
    let Some(mut file) = opened else { return Ok(None) };
    match share_within(&file, patience) {
        Ok(true) => Ok(None),
        Ok(false) => Ok(Some(Owner::of(&mut file))),
        Err(error) => Err(failed("lock", path)(error).into()),
    }
}

fn hold(path: &Path, tag: &Tag) -> Result<File, StateError> {
    if is_irregular(path) {
        move_away(path).map_err(failed("move", path))?;
    }
    let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    let mut file = retry_if_removed(path, open).map_err(failed("open", path))?;
    match lock_within(&file, GLANCE) {
        Ok(true) => {}
        Ok(false) => return Err(StateError::Held { holder: Owner::of(&mut file).said }),
        Err(error) => return Err(failed("lock", path)(error).into()),
    }
    let write = |file: &mut File| {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", own_words(tag))
    };
    write(&mut file).map_err(failed("write", path))?;
    Ok(file)
}

/// The parts of a lock's line around the process and the session that it names; [`Owner::parts`] reads it.
const LINE: [&str; 2] = ["process ", " with session "];

fn own_words(tag: &Tag) -> String {
    let [process, session] = LINE;
    format!("{process}{}{session}{tag}", std::process::id())
}

/// The process that holds a session or a working tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its own description: `process 123 with session nov20`.
    pub said: String,
    /// When it started.
    pub since: Option<Timestamp>,
}

impl Owner {
    /// Reads who holds a lock, as far as possible.
    fn of(file: &mut File) -> Owner {
        let mut said = String::new();
        let _ = file.read_to_string(&mut said);
        let said = if said.trim().is_empty() { "it did not identify itself" } else { said.trim() };
        let since = file.metadata().and_then(|meta| meta.modified()).ok();
        Owner { said: said.to_owned(), since: since.and_then(|since| since.try_into().ok()) }
    }

    /// Its process id, which may belong to another machine or container.
    pub fn process(&self) -> Option<u32> {
        self.parts()?.0.parse().ok()
    }

    fn is_of(&self, tag: &Tag) -> bool {
        self.parts().is_some_and(|(_, session)| session == tag.as_str())
    }

    /// The process and the session that the lock's line names.
    fn parts(&self) -> Option<(&str, &str)> {
        let [process, session] = LINE;
        self.said.strip_prefix(process)?.split_once(session)
    }
}

/// The right to advance a session, until all its clones are dropped or the process ends.
#[derive(Debug, Clone)]
pub struct OwnerLock {
    _worktree: Rc<File>,
    session: Rc<File>,
    said: String,
}

impl OwnerLock {
    /// This process's own description, as in [`Owner::said`].
    pub fn said(&self) -> &str {
        &self.said
    }
}
