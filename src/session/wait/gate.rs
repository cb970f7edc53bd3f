//! Checks before each call of the agent and each run: pauses, disk space, the clock, git's objects, and a GPU with enough
//! free memory.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{env, mem, thread};

use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::checkpoints::keep_checkpoint;
use super::pauses::{Began, PauseOutcome, keep_pace, pause_when_idle};
use super::shared::Shared;
use crate::crash;
use crate::domain::{Clock, CommitId, Gpu, GpuCrowd, GpuUse, Notice, Record, few};
use crate::exec::{Exit, GpuProcesses, gpu_inventory, process_name, since_boot};
use crate::git::{Checked, ObjectChecker, Repo};
use crate::rules::{
    CLOCK_PATIENCE, GPU_PATIENCE, GpuTurn, any_gpu_turn, clock_jump, gpu_turn, is_clock_behind, usable_gpus,
};
use crate::session::errors::SessionError;
use crate::session::store::{RUN, Store};

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
pub(crate) async fn gate_of_call(shared: &Shared<'_>) -> Result<(), SessionError> {
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
pub(crate) async fn gate_of_run(shared: &Shared<'_>, commit: &CommitId, in_place: bool) -> Result<(), SessionError> {
    shared.check_disk_space()?;
    await_clock(shared).await?;
    shared.gate.borrow_mut().check_objects(&shared.times, &mut shared.store(), Some(commit))?;
    if in_place { await_any_gpu(shared).await } else { Ok(()) }
}

/// Waits while the clock is before the last record, at most for 10 minutes, and tells of it; also of a clock that was set.
/// Any request and the end of this invocation end it.
async fn await_clock(shared: &Shared<'_>) -> Result<(), SessionError> {
    let seen = {
        let store = shared.store();
        (store.clock == Clock::System).then(|| Some((store.now(), since_boot()?))).flatten()
    };
    let before = mem::replace(&mut shared.gate.borrow_mut().clock, seen);
    if let Some(jump) = before.zip(seen).and_then(|(before, now)| clock_jump(before, now)) {
        shared.emit(Notice::ClockSet(jump.as_secs()))?;
    }
    let last = shared.store().history.records().last().map(|record| record.finished);
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

/// Fails where objects stay damaged or missing after those that a `git gc` pruned were written again.
fn refuse_damaged(repo: &Repo, checker: &mut ObjectChecker, checked: Checked) -> Result<(), SessionError> {
    if checked.damaged.is_empty() {
        return Ok(());
    }
    repo.objects.rewrite_all_lost()?;
    let damaged = checker.check_again(Instant::now() + NEW).damaged;
    if damaged.is_empty() { Ok(()) } else { Err(SessionError::ObjectsDamaged(damaged)) }
}

/// The permission to start new calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum CallPermit {
    /// Refused until the wait is over, which has not begun.
    #[default]
    None,
    /// The wait is under way.
    Awaited,
    /// New calls may start.
    Given,
}

/// Waits for what comes before new calls: a pause after a call of so many seconds that changed nothing; otherwise the pause
/// that the cadence asks for, except before a call for text, and the gate. `paced` says whether the cadence's pause may have
/// begun in an earlier process.
pub(crate) async fn await_call_permit(
    shared: &Shared<'_>,
    idle: Option<f64>,
    paced: Option<bool>,
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
pub(crate) async fn await_gpus(shared: &Shared<'_>, slot: u32) -> Result<(), SessionError> {
    let Some(gpus) = shared.slots.gpus.get(slot as usize) else { return Ok(()) };
    let last = {
        let store = shared.store();
        let runs = store.history.records().iter().rev().filter(|record| !record.runs.is_empty());
        runs.filter_map(memory).next()
    };
    wait(shared, Some(slot), |uses, waited| gpu_turn(uses, gpus, &[], last, waited)).await
}

/// Waits in the same way for a run in place: until one of the GPUs that it sees has room. Not where no run used one so far.
pub(crate) async fn await_any_gpu(shared: &Shared<'_>) -> Result<(), SessionError> {
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
    shared: &Shared<'_>,
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
    let taken = |record: &Record| Exit::read(&store.folder.run(record.id), RUN)?.gpu_peak_bytes;
    store.history.records().iter().rev().take(NEWEST).find_map(taken)
}

/// The memory that an experiment took, in bytes.
fn memory(record: &Record) -> Option<u64> {
    // A float becomes an integer by saturation.
    record.memory_gb.map(|gib| (gib * GIB) as u64)
}
