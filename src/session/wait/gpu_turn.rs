//! A run waits while others leave its GPU too little memory.

use std::env;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::shared::Shared;
use crate::crash;
use crate::domain::{Gpu, GpuCrowd, GpuUse, Notice, Record, few};
use crate::exec::{Exit, GpuProcesses, gpu_inventory, process_name};
use crate::rules::{GPU_PATIENCE, GpuTurn, any_gpu_turn, gpu_turn, usable_gpus};
use crate::session::errors::SessionError;
use crate::session::store::{RUN, Store};

/// Poll interval while a GPU is crowded.
const LOOK: Duration = Duration::from_secs(2);

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
