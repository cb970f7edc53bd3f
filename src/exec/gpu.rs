//! GPUs: which ones the machine has, by NVIDIA's management library, what is in use of them, and locks so that no two
//! sessions of a user take one, whatever repositories they are in.
//!
//! All calls into the library are here. Nothing here decides which slot has which GPU.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use rustix::io::Errno;
use rustix::process::{Pid, getpid, getuid, test_kill_process};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::domain::{ErrorKind, Gpu, GpuLoad, GpuUse, Tag, UserError, bytes_text, few, refuse, shell_word};
use crate::exec::tree::shims_above;
use crate::exec::{Executor, JobFiles, MemoryUse, Node, process_name};
use crate::fs::{FileError, GLANCE, failed, is_disk_full, lock_within, share_within};
use crate::rules::{Company, GpuLife, GpuLook};
use crate::state::SessionFolder;

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

/// The NVIDIA GPUs of this machine, in the order of their indices. A GPU in MIG mode is listed as its instances. Asks the
/// driver, which takes seconds where it first has to wake the GPUs.
pub fn gpu_inventory() -> Vec<Gpu> {
    library().into_iter().flat_map(devices).flat_map(|(index, device)| usable(index, &device)).collect()
}

/// A GPU, or its instances if it is in MIG mode. One that does not tell its UUID cannot be given to a run.
fn usable(index: u32, device: &Device<'static>) -> Vec<Gpu> {
    let (Ok(uuid), model) = (device.uuid(), device.name().unwrap_or_default()) else { return Vec::new() };
    let memory = |device: &Device| device.memory_info().ok().map(|memory| memory.total);
    let Some(instances) = instances(device) else {
        return vec![Gpu { index, uuid, model, memory: memory(device), parent: None }];
    };
    let instance = |device: &Device| {
        let memory = memory(device);
        let name = device.name().ok().filter(|name| name.contains(" MIG "));
        // Without a profile in the name, the size tells instances apart.
        let model = name.unwrap_or_else(|| format!("{model} MIG {}", memory.map(bytes_text).unwrap_or_default()));
        Some(Gpu { index, uuid: device.uuid().ok()?, model, memory, parent: Some(uuid.clone()) })
    };
    instances.iter().filter_map(instance).collect()
}

/// The GPUs of this machine; none where there is no driver of NVIDIA's.
pub(in crate::exec) fn models() -> Node {
    let Some(library) = library() else { return Node::default() };
    let names: Vec<String> = devices(library).map(|(_, device)| device.name().unwrap_or_default()).collect();
    match u32::try_from(names.len()) {
        Ok(0) | Err(_) => Node::default(),
        Ok(gpus) => Node { gpu: Some(model_list(&names)), gpus, driver: library.sys_driver_version().ok() },
    }
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

/// The library, opened at most once in a process.
pub(super) fn library() -> Option<&'static Nvml> {
    static LIBRARY: OnceLock<Option<Nvml>> = OnceLock::new();
    // A driver installs the versioned name; the plain one comes with the development files, or on other systems.
    let open = || Nvml::builder().lib_path("libnvidia-ml.so.1".as_ref()).init().or_else(|_| Nvml::init()).ok();
    LIBRARY.get_or_init(open).as_ref()
}

/// The GPUs with their indices. One that fell off the bus is left out.
pub(super) fn devices(library: &'static Nvml) -> impl Iterator<Item = (u32, Device<'static>)> {
    let count = library.device_count().unwrap_or(0);
    (0..count).filter_map(|index| library.device_by_index(index).ok().map(|device| (index, device)))
}

/// The MIG instances of a GPU; `None` if it is not in MIG mode.
fn instances(device: &Device<'static>) -> Option<Vec<Device<'static>>> {
    let is_on = device.mig_mode().is_ok_and(|mode| mode.current == 1);
    // Instances that were deleted leave gaps.
    let at = |index| device.mig_device_by_index(index).ok();
    is_on.then(|| (0..device.mig_device_count().unwrap_or(0)).filter_map(at).collect())
}

/// Devices that a program can use separately: whole GPUs, and the instances of those in MIG mode.
fn units(library: &'static Nvml) -> impl Iterator<Item = Device<'static>> {
    indexed_units(library).map(|(_, unit)| unit)
}

/// The same, each with the index of its GPU.
fn indexed_units(library: &'static Nvml) -> impl Iterator<Item = (u32, Device<'static>)> {
    devices(library).flat_map(|(index, device)| {
        let units = instances(&device).unwrap_or_else(|| vec![device]);
        units.into_iter().map(move |unit| (index, unit))
    })
}

/// The processes that compute on a device, each with its memory in bytes where the driver reports it.
fn processes(device: &Device) -> Result<Vec<(u32, Option<u64>)>, NvmlError> {
    let bytes = |memory| match memory {
        UsedGpuMemory::Used(bytes) => Some(bytes),
        UsedGpuMemory::Unavailable => None,
    };
    let running = device.running_compute_processes()?;
    Ok(running.into_iter().map(|it| (it.pid, bytes(it.used_gpu_memory))).collect())
}

/// The beginning of the name of processes that belong to the driver: the server through which several share a GPU.
const OF_DRIVER: &str = "nvidia-cuda-mps";

/// Watches the GPU memory of a process tree on a thread of its own: a driver call can take long, or never return
/// when a GPU is lost, and the deadline must not wait for it.
#[derive(Debug)]
pub(in crate::exec) struct GpuWatch {
    trees: SyncSender<Vec<u32>>,
    seen: Arc<Mutex<SeenOnGpus>>,
}

/// The results of the samples of a process tree.
#[derive(Debug, Default)]
struct SeenOnGpus {
    /// The largest one, in bytes.
    peak: u64,
    /// The most that other processes used of the same GPUs, in bytes.
    others: u64,
    /// The activity of these GPUs since it was asked for.
    life: Option<GpuLife>,
    company: Company,
}

impl GpuWatch {
    /// Starts the thread, which ends when this is dropped; `listens` has it ask also whether the GPUs compute. Runs with folders
    /// below `shares` may be on a GPU of the tree.
    pub(in crate::exec) fn start(listens: bool, shares: Option<PathBuf>) -> GpuWatch {
        let (trees, requests) = sync_channel::<Vec<u32>>(1);
        let seen = Arc::<Mutex<SeenOnGpus>>::default();
        let noted = Arc::clone(&seen);
        thread::spawn(move || {
            let Some(library) = library() else { return };
            for pids in requests {
                let devices = looks(library);
                let used = used_by(&devices, &pids);
                let life = listens.then(|| life_on(devices.iter().zip(loads(library)), &pids));
                let Ok(mut noted) = noted.lock() else { return };
                (noted.peak, noted.others) = (noted.peak.max(used.tree), noted.others.max(used.others));
                noted.life = life.or(noted.life.take());
                noted.company.look(&devices, &pids, |pid| stranger(pid, shares.as_deref()));
            }
        });
        GpuWatch { trees, seen }
    }

    /// Asks for a sample of these processes, unless the last one is not done or there is no GPU.
    pub(in crate::exec) fn look(&self, pids: Vec<u32>) {
        let _ = self.trees.try_send(pids);
    }

    /// Notes the largest samples, and the processes that were on these GPUs without a right to them.
    pub(in crate::exec) fn note(&self, memory: &mut MemoryUse) {
        let Ok(seen) = self.seen.lock() else { return };
        memory.gpu_peak_bytes = Some(seen.peak).filter(|peak| *peak > 0);
        memory.gpu_other_bytes = Some(seen.others).filter(|bytes| *bytes > 0);
        memory.gpu_others = seen.company.others().to_vec();
    }

    /// The activity of the GPUs of the processes, if it was sampled since the last call.
    pub(in crate::exec) fn life(&self) -> Option<GpuLife> {
        self.seen.lock().ok()?.life.take()
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

/// The session that has a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuHolder {
    /// The root of its main worktree.
    pub repository: PathBuf,
    /// Its tag.
    pub session: Tag,
    /// The process that advances it.
    pub process: u32,
}

/// The error for a lock that cannot be opened or written.
fn no_lock(error: FileError) -> UserError {
    let hint = is_disk_full(&error).then(|| "free disk space; nothing was lost".to_owned());
    UserError::of(error, hint)
}

fn in_use_text(gpus: &[(Gpu, Option<GpuHolder>)]) -> String {
    let holder = |holder: &Option<GpuHolder>| match holder {
        Some(GpuHolder { repository, session, .. }) => format!("session {session} in {}", repository.display()),
        None => "another session".to_owned(),
    };
    let words: Vec<String> = gpus.iter().map(|(gpu, by)| format!("{gpu} is in use by {}", holder(by))).collect();
    few(&words).join(", ")
}

/// The right to use GPUs, until it is dropped or the process ends.
#[derive(Debug)]
pub struct GpuLocks {
    _files: Vec<File>,
}

impl GpuLocks {
    /// Locks all these GPUs for a session, or none.
    ///
    /// # Errors
    ///
    /// Other sessions have some: it names all of these. Or the locks cannot be written.
    pub fn take(gpus: &[Gpu], holder: &GpuHolder) -> Result<GpuLocks, UserError> {
        GpuLocks::take_in(&lock_folders()?, gpus, holder, GLANCE)
    }

    /// Locks them in each of these folders, and waits so long for all together.
    fn take_in(
        folders: &[PathBuf],
        gpus: &[Gpu],
        holder: &GpuHolder,
        patience: Duration,
    ) -> Result<GpuLocks, UserError> {
        let deadline = Instant::now() + patience;
        let wanted = wanted(gpus);
        let (mut held, mut in_use) = (Vec::new(), Vec::new());
        for (folder, (name, (gpu, share))) in
            folders.iter().flat_map(|folder| wanted.iter().map(move |it| (folder, it)))
        {
            let path = folder.join(name);
            let mut file = open(&path).map_err(failed("open", &path)).map_err(no_lock)?;
            let left = deadline.saturating_duration_since(Instant::now());
            let locked = match share {
                Share::Whole => lock_within(&file, left),
                Share::Instance => share_within(&file, left),
            };
            let is_locked = locked.map_err(failed("lock", &path)).map_err(no_lock)?;
            let last = read(&mut file);
            let is_free =
                is_locked && (*share == Share::Instance || !last.as_ref().is_some_and(|last| left_run(last, holder)));
            if is_free {
                held.push((path, file));
            } else if !in_use.iter().any(|(known, _)| known == *gpu) {
                in_use.push(((*gpu).clone(), last));
            }
        }
        if !in_use.is_empty() {
            let hint = "choose other GPUs with --gpus, or wait until that session ends";
            return Err(refuse(ErrorKind::CannotStart, in_use_text(&in_use)).hint(hint));
        }
        // Only who has all may overwrite what holders of other instances wrote.
        for (path, file) in &mut held {
            write(file, holder).map_err(failed("write", path)).map_err(no_lock)?;
        }
        Ok(GpuLocks { _files: held.into_iter().map(|(_, file)| file).collect() })
    }
}

/// Returns whether the `last` session that had a GPU left a run on it that is still running, unless `holder` is that
/// session. A run outlives its `ar`, whose locks die with it. An active session holds the locks itself.
fn left_run(last: &GpuHolder, holder: &GpuHolder) -> bool {
    if (&last.repository, &last.session) == (&holder.repository, &holder.session) {
        return false;
    }
    let folder = SessionFolder::new(&last.repository, &last.session);
    Executor::of_any().busy_in(&folder.runs()).next().is_some() && folder.refuse_held().is_ok()
}

/// The extent of a lock on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    /// For one session alone.
    Whole,
    /// Together with those that have other instances of it.
    Instance,
}

/// The locks of some GPUs, in the order in which all sessions take them: of two that want the same, one gets all.
/// An instance shares the lock of its GPU.
fn wanted(gpus: &[Gpu]) -> BTreeMap<String, (&Gpu, Share)> {
    // UUIDs of instances had slashes once.
    let name = |uuid: &str| uuid.replace('/', "_");
    let parents = gpus.iter().filter_map(|gpu| Some((name(gpu.parent.as_ref()?), (gpu, Share::Instance))));
    let wholes = gpus.iter().map(|gpu| (name(&gpu.uuid), (gpu, Share::Whole)));
    parents.chain(wholes).collect()
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// Notes who holds a lock. Holders of instances of one GPU overwrite one another.
fn write(file: &mut File, holder: &GpuHolder) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    // JSON has no words for every path; the lock holds all the same.
    file.write_all(&serde_json::to_vec(holder).unwrap_or_default())
}

/// Reads the holder of a lock; `None` if it cannot be read, as while it is being written.
fn read(file: &mut File) -> Option<GpuHolder> {
    /// A path and a tag, with room to spare.
    const LARGEST: u64 = 64 << 10;
    let mut text = Vec::new();
    file.take(LARGEST).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The folders of the locks, made if they do not exist. A lock is taken in each, because a user's logins differ in whether
/// they have a runtime folder, and it goes when the last login ends.
fn lock_folders() -> Result<Vec<PathBuf>, UserError> {
    let me = getuid().as_raw();
    // `su` leaves the variable with the folder of somebody else.
    let is_mine = |folder: &PathBuf| {
        folder.is_absolute() && fs::metadata(folder).is_ok_and(|there| there.is_dir() && there.uid() == me)
    };
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(is_mine);
    let bases = runtime.map(|folder| folder.join("autoresearch"));
    let bases = bases.into_iter().chain([env::temp_dir().join(format!("autoresearch-{me}"))]);
    bases
        .map(|base| {
            private_folder(&base).and_then(|()| {
                let folder = base.join("gpus");
                private_folder(&folder).map(|()| folder)
            })
        })
        .collect()
}

/// Makes a folder for this user alone, and refuses anything else in its place.
fn private_folder(path: &Path) -> Result<(), UserError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(no_lock(failed("create", path)(error)));
        }
        _ => {}
    }
    let there = fs::symlink_metadata(path).map_err(failed("read", path)).map_err(no_lock)?;
    let is_private = there.is_dir() && there.uid() == getuid().as_raw() && there.mode() & 0o077 == 0;
    let text = || format!("cannot lock GPUs in {}: it is not a folder that only you can write to", path.display());
    let hint = || format!("run `ls -ld {}` to see whose it is", shell_word(path));
    if is_private { Ok(()) } else { Err(refuse(ErrorKind::CannotStart, text()).hint(hint())) }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::thread;

    use super::{GpuLife, GpuLook, Used, life_on, model_list, used_by, *};

    #[test]
    fn models_are_counted() {
        let names = ["NVIDIA H100", "NVIDIA A100", "NVIDIA H100"].map(str::to_owned);
        assert_eq!(model_list(&names), "NVIDIA A100, 2 x NVIDIA H100");
    }

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

    fn gpu(uuid: &str, parent: Option<&str>) -> Gpu {
        Gpu { index: 1, uuid: uuid.into(), model: String::new(), memory: None, parent: parent.map(str::to_owned) }
    }

    fn holder(tag: &str) -> GpuHolder {
        GpuHolder { repository: "/path".into(), session: tag.parse().unwrap(), process: 7 }
    }

    fn take(folder: &Path, gpus: &[Gpu], tag: &str) -> Result<GpuLocks, UserError> {
        GpuLocks::take_in(&[folder.to_owned()], gpus, &holder(tag), GLANCE)
    }

    /// The error for a session that cannot have these GPUs.
    fn refused(folder: &Path, gpus: &[Gpu]) -> String {
        let taken = GpuLocks::take_in(&[folder.to_owned()], gpus, &holder("other"), Duration::ZERO);
        taken.unwrap_err().to_string()
    }

    #[test]
    fn a_gpu_has_one_session_until_that_ends() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b, c] = ["GPU-a", "GPU-b", "GPU-c"].map(|uuid| gpu(uuid, None));
        let night = take(folder.path(), &[a.clone(), b.clone()], "night").unwrap();
        let said = "GPU 1 (GPU-b) is in use by session night in /path";
        assert_eq!(refused(folder.path(), &[b.clone(), c.clone()]), said);
        take(folder.path(), &[c], "day").expect("who is refused takes nothing");
        fs::write(folder.path().join("GPU-a"), "{").unwrap();
        let said = format!("GPU 1 (GPU-a) is in use by another session, {said}");
        assert_eq!(refused(folder.path(), &[b.clone(), a.clone()]), said);
        drop(night);
        take(folder.path(), &[a, b], "day").unwrap();
    }

    #[test]
    fn instances_have_sessions_of_their_own_but_not_beside_one_that_has_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let whole = gpu("GPU-a", None);
        let [one, two] = ["MIG-GPU-a/1/0", "MIG-GPU-a/2/0"].map(|uuid| gpu(uuid, Some("GPU-a")));
        let first = take(folder.path(), std::slice::from_ref(&one), "one").unwrap();
        let second = take(folder.path(), std::slice::from_ref(&two), "two").unwrap();
        let said = ["1/0 of GPU 1 is in use by session one", "2/0 of GPU 1 is in use by session two"];
        let said = said.map(|said| format!("MIG instance MIG-GPU-a/{said} in /path"));
        assert_eq!(refused(folder.path(), &[two, one.clone()]), said.join(", "));
        let said = "GPU 1 (GPU-a) is in use by session two in /path";
        assert_eq!(refused(folder.path(), std::slice::from_ref(&whole)), said);
        drop((first, second));
        let _whole = take(folder.path(), &[whole], "all").unwrap();
        let said = "MIG instance MIG-GPU-a/1/0 of GPU 1 is in use by session all in /path";
        assert_eq!(refused(folder.path(), &[one]), said);
    }

    #[test]
    fn a_run_that_outlives_its_session_keeps_the_gpu_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let gpus = [gpu("GPU-a", None)];
        let night = GpuHolder { repository: folder.path().to_owned(), ..holder("night") };
        let take = |holder: &GpuHolder| GpuLocks::take_in(&[folder.path().to_owned()], &gpus, holder, GLANCE);
        drop(take(&night).unwrap());
        let session = folder.path().join(".autoresearch/night");
        let run = session.join("runs/00001");
        fs::create_dir_all(&run).unwrap();
        let shim = File::create(run.join("lock")).unwrap();
        shim.lock().unwrap();
        let said = format!("GPU 1 (GPU-a) is in use by session night in {}", folder.path().display());
        assert_eq!(refused(folder.path(), &gpus), said);
        drop(take(&night).unwrap());
        // It is active again, on other GPUs.
        let active = File::create(session.join("lock")).unwrap();
        active.lock().unwrap();
        drop(take(&holder("day")).unwrap());
        drop(take(&night).unwrap());
        drop((active, shim));
        // A process that another test forks has all files of this one open until it executes its program.
        let deadline = Instant::now() + Duration::from_secs(20);
        while let Err(error) = take(&holder("day")) {
            assert!(Instant::now() < deadline, "{error}");
            thread::yield_now();
        }
    }

    #[test]
    fn one_folder_of_several_suffices_to_see_another_session() {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let paths = folders.each_ref().map(|folder| folder.path().to_owned());
        let gpus = [gpu("GPU-a", None)];
        let _night = GpuLocks::take_in(&paths, &gpus, &holder("night"), GLANCE).unwrap();
        assert_eq!(refused(&paths[1], &gpus), "GPU 1 (GPU-a) is in use by session night in /path");
    }

    #[test]
    fn locks_are_only_where_nobody_else_can_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        private_folder(&path("own")).unwrap();
        private_folder(&path("own")).unwrap();
        assert_eq!(fs::metadata(path("own")).unwrap().mode() & 0o777, 0o700);
        symlink("own", path("link")).unwrap();
        fs::write(path("file"), "").unwrap();
        fs::create_dir(path("open")).unwrap();
        fs::set_permissions(path("open"), Permissions::from_mode(0o770)).unwrap();
        for name in ["link", "file", "open"] {
            let refused = private_folder(&path(name)).unwrap_err().to_string();
            assert!(refused.ends_with("it is not a folder that only you can write to"), "{refused}");
        }
        symlink("/etc/passwd", path("own/GPU-a")).unwrap();
        let taken = take(&path("own"), &[gpu("GPU-a", None)], "night");
        assert!(taken.as_ref().unwrap_err().to_string().starts_with("cannot open "), "{taken:?}");
    }
}
