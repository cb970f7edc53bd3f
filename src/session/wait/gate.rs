//! Checks before each call of the agent and each run: pauses, disk space, the clock, git's objects, a GPU with enough
//! free memory, and changes of the machine and its tools.
//!
//! When a run is over, `ar` asks for the versions of the command's tools. It asks again only if one of them was
//! replaced since.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{env, fs, mem, thread};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{Began, PauseOutcome, SessionContext, keep_checkpoint, keep_pace, pause_when_idle};
use crate::crash;
use crate::domain::{
    Clock, CommitId, Environment, Event, ExperimentId, FORMAT_VERSION, Gpu, GpuCrowd, GpuUse, Notice, Record, Tools,
    few, shell_word,
};
use crate::exec::{
    Executor, Exit, GpuProcesses, Job, environment, gpu_inventory, lock_file_hash, process_name, since_boot,
};
use crate::fs::read_tail;
use crate::git::{Checked, ObjectChecker, Repo};
use crate::machine::CallWait;
use crate::rules::{
    CLOCK_PATIENCE, GPU_PATIENCE, GpuTurn, History, Python, any_gpu_turn, clock_jump, environment_differences,
    gpu_turn, is_clock_behind, pythons_of, usable_gpus,
};
use crate::session::errors::{Damaged, SessionError, refuse};
use crate::session::files::remove_file;
use crate::session::store::{RUN, Store};
use crate::state::{read_json, write_json};

/// Time limit for the check of all git objects that a session relies on. It runs in its own thread at the start.
const ALL: Duration = Duration::from_secs(60);

/// Time limit for checking new objects before a call or a run.
const NEW: Duration = Duration::from_secs(2);

/// Poll interval while words are read.
const READING: Duration = Duration::from_millis(10);

/// Poll interval while the clock is behind.
const LOOK: Duration = Duration::from_secs(2);

/// State of a loop's gate.
#[derive(Default)]
pub(crate) struct Gate {
    /// The last clock reading, with the time since boot.
    clock: Option<(Timestamp, Duration)>,
    /// The end of an experiment for which the clock was waited for in vain.
    given_up: Option<Timestamp>,
    objects: ObjectCheck,
    /// The commits that are still to be checked.
    new: Vec<CommitId>,
}

/// The check of git's objects.
#[derive(Default)]
enum ObjectCheck {
    #[default]
    Unread,
    /// All that the session relies on is being read.
    Reading(JoinHandle<(ObjectChecker, Checked)>),
    /// Only what is new is read from now on.
    Read(Box<ObjectChecker>),
}

/// Lets a call of the agent begin: once there is room, and the clock can be right.
///
/// # Errors
///
/// There is no room, or objects are damaged.
pub(crate) async fn gate_of_call(shared: &SessionContext<'_>) -> Result<(), SessionError> {
    shared.check_disk_space()?;
    await_clock(shared).await?;
    shared.gate.borrow_mut().check_objects(&shared.times, &mut shared.store(), None)?;
    // A call that works on damaged objects would be paid for nothing.
    let is_reading = || matches!(&shared.gate.borrow().objects, ObjectCheck::Reading(thread) if !thread.is_finished());
    while is_reading() && shared.pause(READING).await? {}
    shared.gate.borrow_mut().check_objects(&shared.times, &mut shared.store(), None)
}

/// Lets the run of a commit begin; `in_place` where its GPU is not one of a slot, which is waited for before.
///
/// # Errors
///
/// As those of [`gate_of_call`].
pub(crate) async fn gate_of_run(
    shared: &SessionContext<'_>,
    commit: &CommitId,
    in_place: bool,
) -> Result<(), SessionError> {
    shared.check_disk_space()?;
    await_clock(shared).await?;
    shared.gate.borrow_mut().check_objects(&shared.times, &mut shared.store(), Some(commit))?;
    if in_place { await_any_gpu(shared).await } else { Ok(()) }
}

/// Waits while the clock is before the last record, at most for 10 minutes, and tells of it; also of a clock that was set.
/// Any request and the end of this invocation end it.
async fn await_clock(shared: &SessionContext<'_>) -> Result<(), SessionError> {
    let seen = {
        let store = shared.store();
        (store.clock == Clock::System).then(|| Some((store.now(), since_boot()?))).flatten()
    };
    let before = mem::replace(&mut shared.gate.borrow_mut().clock, seen);
    if let Some(jump) = before.zip(seen).and_then(|(before, now)| clock_jump(before, now)) {
        shared.emit(Notice::ClockSet(jump.as_secs()))?;
    }
    let last = shared.store().history.records().last().map(|record| record.origin.finished);
    let Some(last) = last else { return Ok(()) };
    let now = || shared.store().now();
    let is_behind = || is_clock_behind(now(), last);
    if !is_behind() || shared.gate.borrow().given_up == Some(last) {
        return Ok(());
    }
    let behind = Notice::ClockBehind { last, now: now() };
    shared.emit(behind)?;
    // A clock that was named stands still.
    let is_named = shared.store().clock != Clock::System;
    let patience = if is_named { Duration::ZERO } else { crash::pace(CLOCK_PATIENCE) };
    let begun = Instant::now();
    while is_behind() {
        if begun.elapsed() >= patience {
            shared.gate.borrow_mut().given_up = Some(last);
            return shared.emit("continuing with a clock that is behind: new records look older than the last one");
        }
        if !shared.pause(crash::wait(LOOK)).await? {
            break;
        }
    }
    Ok(())
}

impl Gate {
    /// Reads again what the session relies on in git: all of it once in a loop, beside it, and then what `new` adds.
    fn check_objects(&mut self, times: &Began, store: &mut Store, new: Option<&CommitId>) -> Result<(), SessionError> {
        if !times.are_counted() {
            return Ok(());
        }
        self.new.extend(new.cloned());
        self.objects = match mem::take(&mut self.objects) {
            ObjectCheck::Unread => {
                let mut checker = store.repo.objects.checker();
                let records = store.history.records().iter().map(|record| record.commit.clone());
                let commits: Vec<_> = [store.tip(), store.contract.start.clone()].into_iter().chain(records).collect();
                let check = move || {
                    let checked = checker.check(&commits, Instant::now() + ALL);
                    (checker, checked)
                };
                // Without a thread to be had, the next gate tries again.
                thread::Builder::new().spawn(check).map_or(ObjectCheck::Unread, ObjectCheck::Reading)
            }
            ObjectCheck::Reading(thread) if thread.is_finished() => match thread.join() {
                Ok((mut checker, checked)) => {
                    if checked.is_cut {
                        store.note(Notice::ObjectsUnread { read: checked.objects, limit: ALL });
                    }
                    refuse_damaged(&store.repo, &mut checker, checked)?;
                    ObjectCheck::Read(Box::new(checker))
                }
                Err(_) => ObjectCheck::Unread,
            },
            objects => objects,
        };
        if let ObjectCheck::Read(checker) = &mut self.objects {
            let checked = checker.check(&self.new, Instant::now() + NEW);
            if !checked.is_cut {
                // Otherwise the next gate goes on with them: what was found sound is not read again.
                self.new.clear();
            }
            refuse_damaged(&store.repo, checker, checked)?;
        }
        Ok(())
    }
}

/// The most tries to write objects again that a `git gc` pruned, which may prune while they are written, and the pause between two:
/// nothing else is heard meanwhile.
const REWRITES: u32 = 5;
const REWRITE_PAUSE: Duration = Duration::from_millis(20);

/// Fails where objects stay damaged or missing after those that a `git gc` pruned were written again.
fn refuse_damaged(repo: &Repo, checker: &mut ObjectChecker, checked: Checked) -> Result<(), SessionError> {
    let (mut damaged, mut tries) = (checked.damaged, 0..REWRITES);
    while !damaged.is_empty() && tries.next().is_some() {
        repo.objects.rewrite_all_lost()?;
        damaged = checker.check_again(Instant::now() + NEW).damaged;
        if !damaged.is_empty() {
            thread::sleep(REWRITE_PAUSE);
        }
    }
    if damaged.is_empty() {
        return Ok(());
    }
    Err(refuse(Damaged, format!("objects of git's are damaged: {}", damaged.join(", ")))
        .hint("inspect with `git fsck --full`, and fetch the objects from a copy of the repository")
        .into())
}

/// Waits for what comes before new calls: a pause after a call that changed nothing; otherwise the pause that the cadence asks
/// for, except before a call for text, and the gate.
pub(crate) async fn await_call_permit(
    shared: &SessionContext<'_>,
    CallWait { idle, paced }: CallWait,
) -> Result<PauseOutcome, SessionError> {
    if let Some(seconds) = idle {
        pause_when_idle(shared, seconds).await?;
        return Ok(PauseOutcome::Waited);
    }
    keep_checkpoint(shared)?;
    let paced = match paced {
        Some(is_begun) => keep_pace(shared, is_begun).await?,
        None => PauseOutcome::Ready,
    };
    if matches!(paced, PauseOutcome::Ready | PauseOutcome::Rested) {
        gate_of_call(shared).await?;
    }
    Ok(paced)
}

/// Time limit for the driver to list the GPUs.
const INVENTORY: Duration = Duration::from_secs(10);

/// Number of recent experiments that are searched for one whose run used a GPU.
const NEWEST: usize = 10;

const GIB: f64 = (1_u64 << 30) as f64;

/// Waits until the GPUs of a slot have room for a run, at most for 10 minutes, and tells of it. Any request and the end of this
/// invocation end it.
pub(crate) async fn await_gpus(shared: &SessionContext<'_>, slot: u32) -> Result<(), SessionError> {
    let Some(gpus) = shared.slots.gpus.get(slot as usize) else { return Ok(()) };
    let last = {
        let store = shared.store();
        let runs = store.history.records().iter().rev().filter(|record| !record.runs.is_empty());
        runs.filter_map(memory).next()
    };
    wait(shared, Some(slot), |uses, waited| gpu_turn(uses, gpus, &[], last, waited)).await
}

/// Waits in the same way for a run in place: until one of the GPUs that it sees has room. Not where no run used one so far.
pub(crate) async fn await_any_gpu(shared: &SessionContext<'_>) -> Result<(), SessionError> {
    let last = last_on_gpu(&shared.store());
    let Some(last) = last else { return Ok(()) };
    let gpus = visible_gpus().await;
    if gpus.is_empty() {
        return Ok(());
    }
    wait(shared, None, |uses, waited| any_gpu_turn(uses, &gpus, last, waited)).await
}

/// Waits for the turn of a run.
async fn wait(
    shared: &SessionContext<'_>,
    slot: Option<u32>,
    turn: impl Fn(&[GpuUse], Duration) -> GpuTurn,
) -> Result<(), SessionError> {
    let (processes, begun, mut is_told) = (GpuProcesses::start(), Instant::now(), false);
    let patience = crash::pace(GPU_PATIENCE);
    loop {
        let uses = processes.look().await;
        let waited = if begun.elapsed() >= patience { GPU_PATIENCE } else { Duration::ZERO };
        match turn(&uses, waited) {
            GpuTurn::Now => break,
            GpuTurn::Anyway(crowd) => return shared.emit(Notice::GpuCrowded(with_names(&crowd))),
            GpuTurn::Later(crowd) if !is_told => {
                is_told = true;
                shared.emit(Notice::GpuAwaited { slot, crowd: with_names(&crowd) })?;
            }
            GpuTurn::Later(_) => {}
        }
        if !shared.pause(crash::wait(LOOK).min(patience)).await? {
            break;
        }
    }
    Ok(())
}

/// Says who crowds a GPU.
fn with_names(crowd: &GpuCrowd) -> String {
    let name = |pid: &u32| format!("{} ({pid})", process_name(*pid).unwrap_or_else(|| "a process".into()));
    let names: Vec<String> = crowd.processes.iter().map(name).collect();
    format!("{crowd}; on it: {}", few(&names).join(", "))
}

/// The GPUs that a run sees, by the driver and the environment of `ar`; none where the driver does not answer.
async fn visible_gpus() -> Vec<Gpu> {
    let (answer, answered) = oneshot::channel();
    thread::spawn(move || answer.send(gpu_inventory()));
    let Ok(Ok(inventory)) = timeout(INVENTORY, answered).await else { return Vec::new() };
    usable_gpus(&inventory, |name| env::var(name).ok())
}

/// The memory of GPUs that the newest run took which used one, in bytes.
fn last_on_gpu(store: &Store) -> Option<u64> {
    let taken = |record: &Record| Exit::read(&store.folder.run(record.id), RUN)?.memory.gpu_peak_bytes;
    store.history.records().iter().rev().take(NEWEST).find_map(taken)
}

/// The memory that an experiment took, in bytes.
fn memory(record: &Record) -> Option<u64> {
    // A float becomes an integer by saturation.
    record.memory_gb.map(|gib| (gib * GIB) as u64)
}

/// The job's name, and the folder of its folders, one for each experiment, and of its files, one for each host.
const TOOLS: &str = "tools";

/// Time limit for asking: an interpreter on a slow network file system needs a second. Versions unknown by then are
/// omitted.
const LIMIT: Duration = Duration::from_secs(2);

/// Time for the job to end after that.
const END: Duration = Duration::from_secs(1);

/// Limit on its output in bytes, a hundred times the usual length.
const OUTPUT: u64 = 64 * 1024;

/// Longest version in characters; longer ones are ignored.
const LONGEST_VERSION: usize = 64;

/// Prints the versions of the interpreter and of PyTorch, and where they are.
const PYTHON: &str = r#"
import sys
from importlib import metadata
print("version\tpython\t" + sys.version.split()[0])
for path in [sys.executable] + [path for path in sys.path if path.endswith("-packages")]:
    print("stamp\t" + path)
try:
    print("version\ttorch\t" + metadata.version("torch"))
except Exception:
    pass
"#;

/// The tools that were found, with stamps that show whether they are still the same.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FoundTools {
    version: u32,
    /// The script that was asked.
    script: String,
    /// The files and folders that change when something is installed, with their times of change.
    stamps: Vec<(PathBuf, Option<Timestamp>)>,
    tools: Tools,
}

/// The environment in which experiments run.
pub(crate) struct Machine {
    pub(crate) environment: Arc<Environment>,
    /// The tools in it, with their stamps; absent until they were asked for.
    pub(crate) tools: Option<FoundTools>,
}

impl FoundTools {
    fn is_still_so(&self, script: &str) -> bool {
        self.script == script && self.stamps.iter().all(|(path, time)| changed_at(path) == *time)
    }
}

impl Machine {
    /// The machine and the tools that a working tree is on.
    pub(crate) fn of(root: &Path) -> Machine {
        Machine { environment: Arc::new(environment(root)), tools: None }
    }

    /// The event for an environment that differs from the incumbent's, so that its value is not comparable with new ones.
    pub(crate) fn changed(&self, history: &History) -> Option<Event> {
        let incumbent = history.incumbent()?;
        let changes = environment_differences(incumbent, history.next_id(), &self.environment);
        (!changes.is_empty()).then(|| Event::EnvironmentChanged { incumbent: incumbent.id, changes })
    }

    fn note_tools(&mut self, tools: &Tools) {
        if self.environment.tools != *tools {
            Arc::make_mut(&mut self.environment).tools.clone_from(tools);
        }
    }

    /// Notes the lock files after a run in `root`, since a command such as `uv run` updates them itself. Returns the questions to
    /// the tools of `command`, unless these are known to be unchanged. A loop asks once for itself. Each `ar try` is a new
    /// process, which reads the answers that the last one left below `folder`.
    pub(crate) fn look(
        &mut self,
        root: &Path,
        folder: &Path,
        id: ExperimentId,
        command: &str,
        is_loop: bool,
    ) -> Option<Questions> {
        let lockfile = lock_file_hash(root);
        // The records that are there go on sharing what did not change.
        if self.environment.lockfile != lockfile {
            Arc::make_mut(&mut self.environment).lockfile = lockfile;
        }
        let script = script(&pythons_of(command), root);
        if script.is_empty() {
            return None;
        }
        let tools = folder.join(TOOLS);
        let found = tools.join(format!("{}.json", self.environment.host));
        let known = if is_loop { None } else { read_json(&found).ok().flatten() };
        let known: Option<FoundTools> = self.tools.take().or(known);
        if let Some(known) = known.filter(|known| known.is_still_so(&script)) {
            self.note_tools(&known.tools);
            self.tools = Some(known);
            return None;
        }
        Some(Questions { script, folder: tools.join(format!("{id:05}")), found })
    }

    /// Notes what the tools printed.
    pub(crate) fn note(&mut self, questions: Questions, printed: &str) {
        let (tools, stamps) = parse(printed);
        self.note_tools(&tools);
        let stamps = stamps
            .into_iter()
            .map(|path| {
                let time = changed_at(&path);
                (path, time)
            })
            .collect();
        let Questions { script, found, .. } = questions;
        let tools = FoundTools { version: FORMAT_VERSION, script, stamps, tools };
        // Without the file it is asked again.
        let _ = write_json(&found, &tools);
        self.tools = Some(tools);
    }
}

/// The questions to the tools of a command.
pub(crate) struct Questions {
    script: String,
    /// The folder of the job that asks.
    folder: PathBuf,
    /// The file for the tools that are found.
    found: PathBuf,
}

impl Questions {
    /// Runs the script to its end or to the end of its time, and returns what it printed until then.
    pub(crate) async fn ask(&self, executor: &Executor) -> Option<String> {
        let folder = &self.folder;
        fs::create_dir_all(folder).ok()?;
        let log = folder.join(format!("{TOOLS}.log"));
        remove_file(&log).ok()?;
        let job = Job {
            name: TOOLS.into(),
            command: self.script.clone(),
            // A module of the repository is not what the interpreter is to import.
            cwd: folder.clone(),
            folder: folder.clone(),
            log: log.clone(),
            log_limit: Some(OUTPUT),
            timeout: LIMIT,
            tied: true,
            ..Job::default()
        };
        // After that, dropping the job ends the processes that are tied to it.
        timeout(LIMIT + END, executor.start(&job).ok()?.wait()).await.ok()?.ok()?;
        let printed = read_tail(&log, 0).ok()?;
        // A leftover folder takes little space.
        let _ = fs::remove_dir_all(folder);
        Some(String::from_utf8_lossy(&printed).into_owned())
    }
}

/// The commands that ask interpreters; empty without any.
fn script(pythons: &[Python], root: &Path) -> String {
    let word = |word: &String| if word.contains('/') { shell_word(&root.join(word)) } else { word.clone() };
    let line = |python: &Python| match python {
        Python::Named(python) => format!("{} -c \"$python\" 2>/dev/null\n", word(python)),
        Python::Beside(launcher) => {
            format!("\"$(dirname \"$(command -v {})\")/python\" -c \"$python\" 2>/dev/null\n", word(launcher))
        }
    };
    let lines: String = pythons.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("python='{PYTHON}'\n{lines}") }
}

/// Parses the output of the script: versions (the first of each tool counts) and paths.
fn parse(printed: &str) -> (Tools, Vec<PathBuf>) {
    let (mut tools, mut stamps) = (Tools::default(), Vec::new());
    for line in printed.lines() {
        let (known, version) = match line.split('\t').collect::<Vec<_>>()[..] {
            ["version", "python", version] => (&mut tools.python, version),
            ["version", "torch", version] => (&mut tools.torch, version),
            ["stamp", path] if !path.is_empty() => {
                stamps.push(PathBuf::from(path));
                continue;
            }
            _ => continue,
        };
        let is_plain = version.len() <= LONGEST_VERSION && version.chars().all(|c| c.is_ascii_graphic());
        if known.is_none() && is_plain {
            *known = Some(version.to_owned());
        }
    }
    (tools, stamps)
}

fn changed_at(path: &Path) -> Option<Timestamp> {
    fs::metadata(path).and_then(|meta| meta.modified()).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_version_of_each_is_read_and_nothing_else_is() {
        let printed = "warning: x\nversion\tpython\t3.12.1\nstamp\t/usr/bin/python3\nversion\ttorch\t2.5 0\n\
                       version\ttorch\t2.5.0+cu124\nstamp\t\nversion\tpython\t3.8.0\nversion\tuv\t1\nversion\n";
        let (tools, stamps) = parse(printed);
        let [python, torch] = ["3.12.1", "2.5.0+cu124"].map(|version| Some(version.to_owned()));
        assert_eq!(tools, Tools { python, torch, ..Tools::default() });
        assert_eq!(stamps, [Path::new("/usr/bin/python3")]);
    }

    #[test]
    fn a_path_is_that_of_the_working_tree_and_no_interpreter_is_no_script() {
        let root = Path::new("/a b");
        assert_eq!(script(&[], root), "");
        assert!(script(&pythons_of("uv run x.py"), root).contains("'/a b/.venv/bin/python' -c"));
    }
}
