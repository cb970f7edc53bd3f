//! Watching what a process tree, or all processes, use of the GPUs.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use nvml_wrapper::{Device, Nvml};
use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process};

use super::library::{devices, indexed_units, library, processes, units};
use crate::domain::{GpuLoad, GpuOther};
use crate::exec::tree::shims_above;
use crate::exec::{JobFiles, process_name};
use crate::rules::{Company, GpuLife, GpuLook};

/// The beginning of the name of processes that belong to the driver: the server through which several share a GPU.
const OF_DRIVER: &str = "nvidia-cuda-mps";

/// Watches the GPU memory of a process tree on a thread of its own: a driver call can take long, or never return
/// when a GPU is lost, and the deadline must not wait for it.
#[derive(Debug)]
pub(in crate::exec) struct GpuWatch {
    trees: SyncSender<Vec<u32>>,
    peak: Arc<AtomicU64>,
    others: Arc<AtomicU64>,
    life: Arc<Mutex<Option<GpuLife>>>,
    company: Arc<Mutex<Company>>,
}

impl GpuWatch {
    /// Starts the thread, which ends when this is dropped; `listens` has it ask also whether the GPUs compute. Runs with folders
    /// below `shares` may be on a GPU of the tree.
    pub(in crate::exec) fn start(listens: bool, shares: Option<PathBuf>) -> GpuWatch {
        let (trees, requests) = sync_channel::<Vec<u32>>(1);
        let (peak, others) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let life = Arc::new(Mutex::new(None));
        let company = Arc::new(Mutex::new(Company::default()));
        let watched = (Arc::clone(&peak), Arc::clone(&others), Arc::clone(&life), Arc::clone(&company));
        thread::spawn(move || {
            let Some(library) = library() else { return };
            for pids in requests {
                let devices = looks(library);
                let used = used_by(&devices, &pids);
                watched.0.fetch_max(used.tree, Ordering::Relaxed);
                watched.1.fetch_max(used.others, Ordering::Relaxed);
                if let Ok(mut company) = watched.3.lock() {
                    company.look(&devices, &pids, |pid| stranger(pid, shares.as_deref()));
                }
                if let Some(mut life) = watched.2.lock().ok().filter(|_| listens) {
                    *life = Some(life_on(devices.iter().zip(loads(library)), &pids));
                }
            }
        });
        GpuWatch { trees, peak, others, life, company }
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

    /// The processes that were beside it on its GPUs without a right to them.
    pub(in crate::exec) fn company(&self) -> Vec<GpuOther> {
        self.company.lock().map(|company| company.others().to_vec()).unwrap_or_default()
    }

    /// The activity of the GPUs of the processes, if it was sampled since the last call.
    pub(in crate::exec) fn life(&self) -> Option<GpuLife> {
        self.life.lock().ok()?.take()
    }
}

/// The name of a process that may not be on a GPU of a run; empty if the system does not tell it. `None` for one that may: a
/// descendant of this process, a run with a folder below `shares`, a part of the driver. `None` also for one that is not
/// here: the driver may name processes by their ids in another namespace.
fn stranger(pid: u32, shares: Option<&Path>) -> Option<String> {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    // Another user's process may be hidden in /proc, and still be here.
    let is_here = matches!(test_kill_process(process), Ok(()) | Err(Errno::PERM));
    let mut name = process_name(pid).unwrap_or_default();
    // Any program names itself as it likes.
    name.retain(|character| !character.is_control());
    let may_share = |job: &Path| shares.is_some_and(|shares| job.starts_with(shares)) && JobFiles::is_of_run(job);
    let is_allowed = || shims_above(process).any(|(shim, job)| shim == getpid() || may_share(&job));
    (is_here && !name.starts_with(OF_DRIVER) && !is_allowed()).then_some(name)
}

/// Samples the load of the GPUs on its own thread: a driver call can take long, or never return.
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

/// The processes that compute on each GPU or MIG instance, with the memory that each of them uses.
fn looks(library: &'static Nvml) -> Vec<GpuLook> {
    let of = |(gpu, unit): (u32, Device)| GpuLook {
        gpu,
        uuid: unit.uuid().unwrap_or_default(),
        processes: processes(&unit).unwrap_or_default(),
    };
    indexed_units(library).map(of).collect()
}

/// The load of each GPU or MIG instance, in percent, in the order of [`looks`]. Absent if the driver does not
/// report it, as for instances.
fn loads(library: &'static Nvml) -> impl Iterator<Item = Option<u32>> {
    units(library).map(|unit| unit.utilization_rates().ok().map(|rates| rates.gpu))
}

/// The activity of the GPUs that the tree of `pids` uses. Each of `devices` has its processes and its load in percent.
fn life_on<'a>(devices: impl Iterator<Item = (&'a GpuLook, Option<u32>)>, pids: &[u32]) -> GpuLife {
    let own = devices.filter(|(look, _)| look.processes.iter().any(|(pid, _)| pids.contains(pid)));
    let known: Vec<u32> = own.filter_map(|(_, percent)| percent).collect();
    match known.iter().max() {
        None => GpuLife::Unknown,
        Some(0) => GpuLife::Idle,
        Some(_) => GpuLife::Busy,
    }
}

/// The memory that a process tree and others use, in bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Used {
    tree: u64,
    others: u64,
}

/// The memory that the tree of `pids` uses, and that others use on the same GPUs, or on the only one.
fn used_by(devices: &[GpuLook], pids: &[u32]) -> Used {
    let mut used = Used::default();
    for device in devices {
        let (tree, others): (Vec<_>, Vec<_>) = device.processes.iter().partition(|(pid, _)| pids.contains(pid));
        used.tree += tree.iter().filter_map(|(_, bytes)| *bytes).sum::<u64>();
        if !tree.is_empty() || devices.len() == 1 {
            used.others += others.iter().filter_map(|(_, bytes)| *bytes).sum::<u64>();
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::{GpuLife, GpuLook, Used, life_on, used_by};

    fn look(processes: &[(u32, u64)]) -> GpuLook {
        let processes = processes.iter().map(|(pid, bytes)| (*pid, Some(*bytes))).collect();
        GpuLook { gpu: 0, uuid: String::new(), processes }
    }

    #[test]
    fn others_are_counted_on_the_gpus_of_the_tree() {
        let devices = [look(&[(7, 10), (8, 20)]), look(&[(9, 40)])];
        assert_eq!(used_by(&devices, &[7]), Used { tree: 10, others: 20 });
        assert_eq!(used_by(&devices, &[1]), Used { tree: 0, others: 0 });
        assert_eq!(used_by(&devices[..1], &[1]), Used { tree: 0, others: 30 }, "it may have found no room");
    }

    #[test]
    fn only_the_gpus_that_the_tree_is_on_are_listened_to() {
        let devices = [look(&[(7, 10), (8, 20)]), look(&[(9, 40)]), look(&[(7, 1)])];
        let life = |loads: [Option<u32>; 3], pid| life_on(devices.iter().zip(loads), &[pid]);
        assert_eq!(life([Some(0), Some(90), Some(0)], 7), GpuLife::Idle);
        assert_eq!(life([Some(0), Some(0), Some(1)], 7), GpuLife::Busy);
        assert_eq!(life([None, Some(90), Some(0)], 7), GpuLife::Idle);
        assert_eq!(life([None, Some(90), None], 7), GpuLife::Unknown);
        assert_eq!(life([Some(90); 3], 1), GpuLife::Unknown);
    }
}
