//! NVIDIA's management library, where it is installed: which GPUs exist, and what a process tree or all processes use of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::{Device, Nvml};

use crate::domain::GpuLoad;

/// The library, opened at most once in a process.
fn library() -> Option<&'static Nvml> {
    static LIBRARY: OnceLock<Option<Nvml>> = OnceLock::new();
    // A driver installs the versioned name; the plain one comes with the development files, or on other systems.
    let open = || Nvml::builder().lib_path("libnvidia-ml.so.1".as_ref()).init().or_else(|_| Nvml::init()).ok();
    LIBRARY.get_or_init(open).as_ref()
}

fn devices(library: &'static Nvml) -> impl Iterator<Item = Device<'static>> {
    (0..library.device_count().unwrap_or(0)).filter_map(|index| library.device_by_index(index).ok())
}

/// The GPUs of this machine.
pub(super) struct Gpus {
    /// The model names, as [`model_list`] gives them.
    pub(super) models: String,
    pub(super) count: u32,
    /// The driver's version.
    pub(super) driver: Option<String>,
    /// The newest version of CUDA that the driver can do.
    pub(super) cuda: Option<String>,
}

/// Which GPUs there are; `None` without any.
pub(super) fn gpus() -> Option<Gpus> {
    let library = library()?;
    let names: Vec<String> = devices(library).map(|device| device.name().unwrap_or_default()).collect();
    let count = u32::try_from(names.len()).ok().filter(|count| *count > 0)?;
    // 12040 is 12.4.
    let cuda =
        library.sys_cuda_driver_version().ok().map(|version| format!("{}.{}", version / 1000, version % 1000 / 10));
    Some(Gpus { models: model_list(&names), count, driver: library.sys_driver_version().ok(), cuda })
}

/// `2 x NVIDIA H100, NVIDIA T4`: each model once, with its number when there are several.
fn model_list(names: &[String]) -> String {
    let mut models: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        *models.entry(name).or_default() += 1;
    }
    let list =
        models.iter().map(|(name, count)| if *count == 1 { (*name).to_owned() } else { format!("{count} x {name}") });
    list.collect::<Vec<_>>().join(", ")
}

/// Watches the GPU memory of a process tree on a thread of its own: a driver call can take long, or never return
/// when a GPU is lost, and the deadline must not wait for it.
#[derive(Debug)]
pub(super) struct GpuWatch {
    trees: SyncSender<Vec<u32>>,
    peak: Arc<AtomicU64>,
    others: Arc<AtomicU64>,
}

impl GpuWatch {
    pub(super) fn start() -> GpuWatch {
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
    pub(super) fn look(&self, pids: Vec<u32>) {
        let _ = self.trees.try_send(pids);
    }

    /// The largest sample, in bytes; `None` when no process used a GPU.
    pub(super) fn peak(&self) -> Option<u64> {
        Some(self.peak.load(Ordering::Relaxed)).filter(|peak| *peak > 0)
    }

    /// The most that other processes used of the same GPUs, in bytes; `None` when there were none.
    pub(super) fn others(&self) -> Option<u64> {
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
                let now: Vec<GpuLoad> = devices(library).filter_map(|device| load(&device)).collect();
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

/// The processes that compute on each GPU, with the memory that each of them uses, in bytes.
fn processes(library: &'static Nvml) -> Vec<Vec<(u32, u64)>> {
    let bytes = |memory| match memory {
        UsedGpuMemory::Used(bytes) => bytes,
        UsedGpuMemory::Unavailable => 0,
    };
    let of = |device: Device| {
        let running = device.running_compute_processes().unwrap_or_default();
        running.into_iter().map(|it| (it.pid, bytes(it.used_gpu_memory))).collect()
    };
    devices(library).map(of).collect()
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
    use super::{Used, model_list, used_by};

    #[test]
    fn models_are_counted() {
        let names = ["NVIDIA H100", "NVIDIA A100", "NVIDIA H100"].map(str::to_owned);
        assert_eq!(model_list(&names), "NVIDIA A100, 2 x NVIDIA H100");
    }

    #[test]
    fn others_are_counted_on_the_gpus_of_the_tree() {
        let devices = [vec![(7, 10), (8, 20)], vec![(9, 40)]];
        assert_eq!(used_by(&devices, &[7]), Used { tree: 10, others: 20 });
        assert_eq!(used_by(&devices, &[1]), Used { tree: 0, others: 0 });
        assert_eq!(used_by(&devices[..1], &[1]), Used { tree: 0, others: 30 }, "it may have found no room");
    }
}
