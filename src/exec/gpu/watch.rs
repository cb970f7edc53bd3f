//! Watching what a process tree, or all processes, use of the GPUs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::{Device, Nvml};

use super::library::{devices, library, units};
use crate::domain::GpuLoad;

/// Watches the GPU memory of a process tree on a thread of its own: a driver call can take long, or never return
/// when a GPU is lost, and the deadline must not wait for it.
#[derive(Debug)]
pub(in crate::exec) struct GpuWatch {
    trees: SyncSender<Vec<u32>>,
    peak: Arc<AtomicU64>,
    others: Arc<AtomicU64>,
}

impl GpuWatch {
    pub(in crate::exec) fn start() -> GpuWatch {
        let (trees, requests) = sync_channel::<Vec<u32>>(1);
        let (peak, others) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let watched = (Arc::clone(&peak), Arc::clone(&others));
        thread::spawn(move || {
            let Some(library) = library() else { return };
            for pids in requests {
                let used = used_by(&processes(library), &pids);
                watched.0.fetch_max(used.tree, Ordering::Relaxed);
                watched.1.fetch_max(used.others, Ordering::Relaxed);
            }
        });
        GpuWatch { trees, peak, others }
    }

    /// Asks for a sample of these processes, unless the last one is not done or there is no GPU.
    pub(in crate::exec) fn look(&self, pids: Vec<u32>) {
        let _ = self.trees.try_send(pids);
    }

    /// The largest sample, in bytes; `None` when no process used a GPU.
    pub(in crate::exec) fn peak(&self) -> Option<u64> {
        Some(self.peak.load(Ordering::Relaxed)).filter(|peak| *peak > 0)
    }

    /// The most that other processes used of the same GPUs, in bytes; `None` when there were none.
    pub(in crate::exec) fn others(&self) -> Option<u64> {
        Some(self.others.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
    }
}

/// Samples what the GPUs do, on a thread of its own: a driver call can take long, or never return.
#[derive(Debug)]
pub struct GpuMonitor {
    requests: SyncSender<()>,
    loads: Arc<Mutex<Vec<GpuLoad>>>,
}

impl GpuMonitor {
    /// Starts the thread, which ends when this is dropped.
    pub fn start() -> GpuMonitor {
        let (requests, asked) = sync_channel::<()>(1);
        let loads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&loads);
        thread::spawn(move || {
            let Some(library) = library() else { return };
            for () in asked {
                let now: Vec<GpuLoad> = devices(library).filter_map(|(_, device)| load(&device)).collect();
                if let Ok(mut seen) = seen.lock() {
                    *seen = now;
                }
            }
        });
        GpuMonitor { requests, loads }
    }

    /// The last sample. Asks for another, unless one is pending or there is no GPU.
    pub fn look(&self) -> Vec<GpuLoad> {
        let _ = self.requests.try_send(());
        self.loads.lock().map(|loads| loads.clone()).unwrap_or_default()
    }
}

fn load(device: &Device) -> Option<GpuLoad> {
    let memory = device.memory_info().ok()?;
    Some(GpuLoad {
        name: device.name().unwrap_or_default(),
        used: memory.used,
        total: memory.total,
        percent: device.utilization_rates().ok().map(|rates| rates.gpu),
    })
}

/// The processes that compute on each GPU or MIG instance, with the memory that each of them uses, in bytes.
fn processes(library: &'static Nvml) -> Vec<Vec<(u32, u64)>> {
    let bytes = |memory| match memory {
        UsedGpuMemory::Used(bytes) => bytes,
        UsedGpuMemory::Unavailable => 0,
    };
    let of = |unit: Device| {
        let running = unit.running_compute_processes().unwrap_or_default();
        running.into_iter().map(|it| (it.pid, bytes(it.used_gpu_memory))).collect()
    };
    units(library).map(of).collect()
}

/// How much memory a process tree and others use, in bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Used {
    tree: u64,
    others: u64,
}

/// What the tree of `pids` uses, and what others use of the GPUs that it is on, or of the only one.
fn used_by(devices: &[Vec<(u32, u64)>], pids: &[u32]) -> Used {
    let mut used = Used::default();
    for device in devices {
        let (tree, others): (Vec<_>, Vec<_>) = device.iter().partition(|(pid, _)| pids.contains(pid));
        used.tree += tree.iter().map(|(_, bytes)| bytes).sum::<u64>();
        if !tree.is_empty() || devices.len() == 1 {
            used.others += others.iter().map(|(_, bytes)| bytes).sum::<u64>();
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::{Used, used_by};

    #[test]
    fn others_are_counted_on_the_gpus_of_the_tree() {
        let devices = [vec![(7, 10), (8, 20)], vec![(9, 40)]];
        assert_eq!(used_by(&devices, &[7]), Used { tree: 10, others: 20 });
        assert_eq!(used_by(&devices, &[1]), Used { tree: 0, others: 0 });
        assert_eq!(used_by(&devices[..1], &[1]), Used { tree: 0, others: 30 }, "it may have found no room");
    }
}
