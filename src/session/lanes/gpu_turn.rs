//! A run waits while others leave its GPU too little memory.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::crash;
use crate::domain::{Notice, Record};
use crate::exec::GpuProcesses;
use crate::rules::{GPU_PATIENCE, GpuTurn, gpu_turn};
use crate::session::error::SessionError;
use crate::session::interrupts::Interrupt;
use crate::session::shared::Shared;

/// How often a crowded GPU is looked at.
const LOOK: Duration = Duration::from_secs(2);

const GIB: f64 = (1_u64 << 30) as f64;

/// Waits until the GPUs of a slot have room for a run, at most for 10 minutes, and tells of it. Any request ends it.
pub(super) async fn await_gpus(shared: &Shared<'_>, slot: u32) -> Result<(), SessionError> {
    let Some(gpus) = shared.slots.gpus.get(slot as usize) else { return Ok(()) };
    let last = {
        let store = shared.store();
        let runs = store.history.records().iter().rev().filter(|record| !record.runs.is_empty());
        runs.filter_map(memory).next()
    };
    let (processes, begun, mut is_told) = (GpuProcesses::start(), Instant::now(), false);
    let patience = crash::pace(GPU_PATIENCE);
    while shared.asked()? == Interrupt::None {
        let uses = processes.look().await;
        let waited = if begun.elapsed() >= patience { GPU_PATIENCE } else { Duration::ZERO };
        match gpu_turn(&uses, gpus, &[], last, waited) {
            GpuTurn::Now => break,
            GpuTurn::Anyway(crowd) => return shared.emit(Notice::GpuCrowded(crowd.to_string())),
            GpuTurn::Later(crowd) if !is_told => {
                is_told = true;
                shared.emit(Notice::GpuAwaited { slot, crowd: crowd.to_string() })?;
            }
            GpuTurn::Later(_) => {}
        }
        sleep(LOOK.min(patience)).await;
    }
    Ok(())
}

/// The memory that an experiment took, in bytes.
fn memory(record: &Record) -> Option<u64> {
    // A float becomes an integer by saturation.
    record.memory_gb.map(|gib| (gib * GIB) as u64)
}
