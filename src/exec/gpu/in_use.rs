//! The current memory use of compute processes on each GPU.

use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use nvml_wrapper::Device;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::library::{library, processes, units};
use crate::domain::GpuUse;

/// Time limit for the driver's answer. It takes milliseconds, or seconds if the driver must first wake the GPUs.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks what compute processes use, on a thread of its own: a driver call can take long, or never return when a GPU is lost.
#[derive(Debug)]
pub struct GpuProcesses {
    requests: Sender<oneshot::Sender<Vec<GpuUse>>>,
}

impl GpuProcesses {
    /// Starts the thread, which ends when this is dropped.
    pub fn start() -> GpuProcesses {
        let (requests, asked) = channel::<oneshot::Sender<Vec<GpuUse>>>();
        thread::spawn(move || {
            for answer in asked {
                // The caller may have given up.
                let _ = answer.send(library().into_iter().flat_map(units).filter_map(|unit| of(&unit)).collect());
            }
        });
        GpuProcesses { requests }
    }

    /// The current use of each GPU and each MIG instance. Omits those that do not report it. Empty if the driver does
    /// not answer within 10 seconds.
    pub async fn look(&self) -> Vec<GpuUse> {
        let (answer, answered) = oneshot::channel();
        let _ = self.requests.send(answer);
        timeout(PATIENCE, answered).await.ok().and_then(Result::ok).unwrap_or_default()
    }
}

fn of(device: &Device) -> Option<GpuUse> {
    let memory = device.memory_info().ok()?;
    let processes = processes(device).ok()?;
    Some(GpuUse { uuid: device.uuid().ok()?, total: memory.total, used: memory.used, processes })
}
