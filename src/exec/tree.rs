//! The process tree of a command: finding all of it, also in namespaces of its own, terminating all of it, and its use
//! of memory, GPU memory and processor time.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::iter::successors;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread, time};

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, WaitOptions, getpgid, getpid, kill_process, kill_process_group,
    test_kill_process_group, wait, waitid, waitpid,
};
use tokio::signal::unix::Signal as SignalStream;
use tokio::time::{Instant, sleep};

use super::{Exit, GpuWatch, Job, MemoryUse, SHIM_ARGUMENT, WALLED_ARGUMENT, Written, is_held, next_tick};
use crate::crash;
use crate::fs::read_at_most;
use crate::rules::{LifeSign, Quiet, Silence};
use crate::unix::peak_rss_of_reaped;

/// The time for which KILL is repeated; processes that survive it count as stuck in the kernel.
const KILL_PATIENCE: Duration = Duration::from_secs(30);

/// The longest pause between two checks of a tree that is about to end. Children that die wake the shim at once;
/// grandchildren do not.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// A command's leader, which leads its process group, and everything that descends from it.
///
/// The calling process must be a subreaper and have no other children. Then all of the tree descends from it,
/// whatever sessions and groups its processes made. While the leader is not reaped, no other process gets its id, which is
/// also that of the group.
#[derive(Debug)]
pub(super) struct ProcessTree {
    leader: Pid,
    /// A child that only reaps what is left in the namespace of the others, and no part of the tree.
    first: Option<Pid>,
    me: Pid,
}

impl ProcessTree {
    pub(super) fn new(leader: Pid, first: Option<Pid>) -> ProcessTree {
        ProcessTree { leader, first, me: getpid() }
    }

    /// The exit status of the leader if it has ended. It is not reaped, so no other process gets its id.
    pub(super) fn leader_ended(&self) -> io::Result<Option<WaitIdStatus>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(self.leader), options)?)
    }

    /// The leader and all that descends from it.
    pub(super) fn members(&self) -> Vec<Pid> {
        match descendants(self.me) {
            all if all.is_empty() => vec![self.leader],
            all => all.into_iter().filter(|pid| Some(*pid) != self.first).collect(),
        }
    }

    /// Reaps orphans that have ended, and never the leader. Returns how many other children it found, and how many of them
    /// it reaped.
    pub(super) fn reap_ended(&self) -> (usize, usize) {
        let is_other = |pid: &Pid| *pid != self.leader && Some(*pid) != self.first;
        let others: Vec<Pid> = direct_children(self.me).into_iter().filter(is_other).collect();
        let reaped = others.iter().filter(|pid| matches!(waitpid(Some(**pid), WaitOptions::NOHANG), Ok(Some(_))));
        (others.len(), reaped.count())
    }

    /// Returns whether the leader has ended and no other process is left. Reaps orphans that have ended.
    fn is_gone(&self) -> bool {
        let has_ended = matches!(self.leader_ended(), Ok(Some(_)));
        if cfg!(not(target_os = "linux")) {
            return has_ended && test_kill_process_group(self.leader).is_err();
        }
        // An ended process has no children: this process has inherited them. So the tree is gone once this process has
        // no other child.
        loop {
            match self.reap_ended() {
                (0, _) => return has_ended && self.first.is_none_or(|first| direct_children(first).is_empty()),
                (_, 0) => return false,
                // Orphans of the reaped processes are listed the next time.
                _ if has_ended => {}
                _ => return false,
            }
        }
    }

    /// Sends a signal to the leader's group and to every process that left it. What is gone meanwhile is no error.
    fn send(&self, signal: Signal) {
        let _ = kill_process_group(self.leader, signal);
        for pid in descendants(self.me) {
            if getpgid(Some(pid)).is_ok_and(|group| group != self.leader) {
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Terminates all of it: TERM, `grace`, then KILL until nothing is left. Returns at once when nothing is. `child`
    /// yields on SIGCHLD.
    ///
    /// The leader is not reaped. Returns how many processes not even KILL could end.
    pub(super) async fn end(&self, grace: Duration, child: &mut SignalStream) -> u32 {
        let survivors = self.end_members(grace, child).await;
        // Nothing is left to get this, unless the system keeps orphans from the subreaper.
        let _ = kill_process_group(self.leader, Signal::KILL);
        // A namespace ends with its first process.
        let _ = self.first.map(|first| kill_process(first, Signal::KILL));
        survivors
    }

    async fn end_members(&self, grace: Duration, child: &mut SignalStream) -> u32 {
        if self.is_gone() {
            return 0;
        }
        self.send(Signal::TERM);
        // A stopped process takes no TERM until it continues.
        self.send(Signal::CONT);
        if self.is_gone_within(grace, child).await {
            return 0;
        }
        let patience = Instant::now() + KILL_PATIENCE;
        let mut pause = Duration::from_millis(2);
        loop {
            self.send(Signal::KILL);
            if self.is_gone_within(pause, child).await {
                return 0;
            }
            if Instant::now() > patience {
                return u32::try_from(self.members().len()).unwrap_or(u32::MAX);
            }
            pause = LONGEST_WAIT.min(pause * 2);
        }
    }

    async fn is_gone_within(&self, limit: Duration, child: &mut SignalStream) -> bool {
        let start = Instant::now();
        let mut pause = Duration::from_millis(2);
        loop {
            if self.is_gone() {
                return true;
            }
            let Some(left) = limit.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) else { return false };
            tokio::select! {
                _ = child.recv() => {}
                () = sleep(pause.min(left)) => {}
            }
            pause = LONGEST_WAIT.min(pause * 2);
        }
    }
}

/// Kills and reaps children until there are none: the last check after a tree has ended and its leader is reaped,
/// since a list that the kernel gives while processes die may leave one out.
pub(super) async fn leave_no_child() {
    let patience = Instant::now() + KILL_PATIENCE;
    loop {
        match wait(WaitOptions::NOHANG) {
            Err(_) => return,
            Ok(Some(_)) => {}
            Ok(None) if Instant::now() > patience => return,
            Ok(None) => {
                for pid in descendants(getpid()) {
                    let _ = kill_process(pid, Signal::KILL);
                }
                sleep(Duration::from_millis(2)).await;
            }
        }
    }
}

/// All processes below `root`, itself not included. Nothing where there is no `/proc`.
pub(super) fn descendants(root: Pid) -> Vec<Pid> {
    if lists_children() {
        below(root, children)
    } else {
        let parents = parents();
        below(root, |pid| children_among(&parents, pid))
    }
}

/// Kills the children of this process, and all below them, except its shims. Does nothing where there is no `/proc`.
pub fn kill_other_children() {
    for child in direct_children(getpid()).into_iter().filter(|pid| !is_own(*pid)) {
        for pid in descendants(child).into_iter().chain([child]) {
            // One that is gone meanwhile is no error.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Returns whether a child is a shim, by its first argument. Also true for a child that has not started its program
/// yet, because it cannot be told apart.
fn is_own(pid: Pid) -> bool {
    let (line, mine) = (fs::read(format!("/proc/{pid}/cmdline")), fs::read("/proc/self/cmdline"));
    let (Ok(line), Ok(mine)) = (line, mine) else { return true };
    line == mine || line.split(|byte| *byte == 0).nth(1) == Some(SHIM_ARGUMENT.as_bytes())
}

/// The job files of the shims that this process descends from, the nearest first: it is part of these jobs, whatever its
/// environment says. Nothing where there is no `/proc`.
pub fn jobs_above() -> Vec<PathBuf> {
    shims_above(getpid()).map(|(_, job)| job).collect()
}

/// The shims that a process descends from with their job files, the nearest first; in a process namespace of a job, its first
/// process.
pub(super) fn shims_above(pid: Pid) -> impl Iterator<Item = (Pid, PathBuf)> {
    let above = successors(parent(pid), |pid| parent(*pid)).chain([Pid::INIT]);
    above.filter_map(|pid| Some((pid, job_of(pid)?)))
}

/// The job file of a shim, or of a process on the way behind a wall.
pub(super) fn job_of(pid: Pid) -> Option<PathBuf> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split(|byte| *byte == 0).skip(1);
    let is_shim = [SHIM_ARGUMENT, WALLED_ARGUMENT].map(str::as_bytes).contains(&words.next()?);
    words.next().filter(|_| is_shim).map(|file| OsStr::from_bytes(file).into())
}

fn direct_children(pid: Pid) -> Vec<Pid> {
    if lists_children() { children(pid) } else { children_among(&parents(), pid) }
}

fn children_among(parents: &[(Pid, Pid)], pid: Pid) -> Vec<Pid> {
    parents.iter().filter(|(_, parent)| *parent == pid).map(|(child, _)| *child).collect()
}

/// Returns whether the kernel lists the children of a process.
fn lists_children() -> bool {
    Path::new("/proc/thread-self/children").exists()
}

fn below(root: Pid, children: impl Fn(Pid) -> Vec<Pid>) -> Vec<Pid> {
    let mut found = children(root);
    let mut next = 0;
    while next < found.len() {
        for pid in children(found[next]) {
            // A process that gets a new parent between two lists shows twice.
            if !found.contains(&pid) {
                found.push(pid);
            }
        }
        next += 1;
    }
    found
}

/// The children of one process, as the kernel lists them for each of its threads.
fn children(pid: Pid) -> Vec<Pid> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_ascii_whitespace().filter_map(pid_in).collect::<Vec<_>>()).collect()
}

/// Every process with its parent: the slow way, for kernels that list no children.
fn parents() -> Vec<(Pid, Pid)> {
    all().filter_map(|pid| Some((pid, parent(pid)?))).collect()
}

fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, so what follows is counted from the last one.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    pid_in(str::from_utf8(&stat[end + 1..]).ok()?.split_ascii_whitespace().nth(1)?)
}

/// Returns whether a process has not ended: one that did has no program, and stays until its parent reaps it.
pub(super) fn is_alive(pid: Pid) -> bool {
    !fs::read_link(format!("/proc/{pid}/exe")).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Every process whose first arguments, behind its name, are `arguments`.
pub(super) fn with_arguments(arguments: &[&[u8]]) -> Vec<Pid> {
    let are_first = |words: &[&[u8]]| words.get(1..).is_some_and(|words| words.starts_with(arguments));
    with_texts("cmdline", are_first)
}

/// Every process but this one that has `variable`, as `NAME=value`, in its environment.
pub(super) fn with_variable(variable: &[u8]) -> Vec<Pid> {
    let mut found = with_texts("environ", |entries| entries.contains(&variable));
    found.retain(|pid| *pid != getpid());
    found
}

/// Every process of which a file in `/proc` holds texts that are meant, each with a zero byte behind it.
fn with_texts(file: &str, are_meant: impl Fn(&[&[u8]]) -> bool) -> Vec<Pid> {
    let texts = |pid: &Pid| fs::read(format!("/proc/{pid}/{file}"));
    let split = |texts: Vec<u8>| are_meant(&texts.split(|byte| *byte == 0).collect::<Vec<_>>());
    all().filter(|pid| texts(pid).is_ok_and(split)).collect()
}

fn all() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| pid_in(entry.file_name().to_str()?))
}

/// The process id in a text, if it is one.
fn pid_in(text: &str) -> Option<Pid> {
    text.parse().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw)
}

#[cfg(all(test, target_os = "linux"))]
#[path = "tree_tests.rs"]
mod of_processes;

/// The first pause between two samples; each next one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(8);

/// The longest pause between two samples: two seconds, so that a training run pays for half a wake-up a second.
const LONGEST_PAUSE: Duration = Duration::from_millis(2048);

/// The least ratio of a pause to the sample before it, so that sampling takes at most 0.5% of one core.
const SHARE: u32 = 200;

/// The age of a run at which GPU sampling begins, so that short commands do not pay for opening the driver.
const GPU_AFTER: Duration = Duration::from_secs(1);

/// The least number of samples within a silence.
const SAMPLES: u32 = 4;

/// Takes samples of a tree and keeps the largest.
#[derive(Debug)]
pub(super) struct Sampler {
    start: Instant,
    /// The time of the next sample.
    pub(super) next: Instant,
    pause: Duration,
    peak_rss: u64,
    /// The folder of the runs that may share its GPUs.
    gpu_sharers: Option<PathBuf>,
    gpu: Option<GpuWatch>,
    quiet: Option<Listening>,
}

/// Watches for a silence that lasts too long.
#[derive(Debug)]
struct Listening {
    silence: Silence,
    quiet: Quiet<Option<Written>>,
    last: Instant,
}

impl Sampler {
    pub(super) fn new(start: Instant, job: &Job) -> Sampler {
        let silence = job.silence;
        let quiet = silence.map(|silence| Listening { silence, quiet: Quiet::new(silence), last: start });
        let gpu_sharers = job.gpu_sharers.clone();
        Sampler { start, next: next_tick(FIRST_PAUSE), pause: FIRST_PAUSE, peak_rss: 0, gpu_sharers, gpu: None, quiet }
    }

    /// Takes a sample, and sets the time of the next one. Returns the processes of the tree.
    pub(super) fn sample(&mut self, tree: &ProcessTree) -> Vec<Pid> {
        let began = Instant::now();
        let members = tree.members();
        let rss = members.iter().filter_map(|pid| resident_pages(*pid)).sum::<u64>() * page_size() as u64;
        self.peak_rss = self.peak_rss.max(rss);
        if self.start.elapsed() >= crash::pace(GPU_AFTER) {
            let ids = members.iter().map(|pid| pid.as_raw_pid().cast_unsigned()).collect();
            let watch = || GpuWatch::start(self.quiet.is_some(), self.gpu_sharers.clone());
            self.gpu.get_or_insert_with(watch).look(ids);
        }
        let least = crash::wait(began.elapsed() * SHARE);
        self.pause *= 2;
        while self.pause < least {
            self.pause *= 2;
        }
        let longest = self.quiet.as_ref().map_or(LONGEST_PAUSE, |it| LONGEST_PAUSE.min(it.silence.after / SAMPLES));
        self.pause = self.pause.min(longest);
        self.next = next_tick(self.pause);
        members
    }

    /// Listens for signs of life after a sample. Returns how long the tree may be silent once it was for so long.
    pub(super) fn silence(&mut self, tree: &ProcessTree, written: Option<Written>) -> Option<Duration> {
        let Listening { silence, quiet, last } = self.quiet.as_mut()?;
        let (now, gpu) = (Instant::now(), self.gpu.as_ref().and_then(GpuWatch::life));
        let sign = LifeSign { written, processor: processor_time(&tree.members()), gpu };
        let is_over = quiet.note(now - *last, sign);
        *last = now;
        is_over.then_some(silence.after)
    }

    /// Notes the largest memory use in `exit`. The resident set is at least what the kernel counted for the largest single
    /// process; it is valid when all children are reaped.
    pub(super) fn note_peaks(&self, exit: &mut Exit) {
        let peak_rss_bytes = self.peak_rss.max(peak_rss_of_reaped());
        exit.memory = MemoryUse { peak_rss_bytes, ..MemoryUse::default() };
        if let Some(gpu) = &self.gpu {
            gpu.note(&mut exit.memory);
        }
    }
}

fn resident_pages(pid: Pid) -> Option<u64> {
    fs::read_to_string(format!("/proc/{pid}/statm")).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The processor time of these processes and of all that they and this process have waited for; `None` where the system does
/// not tell. Whoever ends adds its time to that of its parent.
fn processor_time(members: &[Pid]) -> Option<Duration> {
    // User, system, and the same of children that were waited for: 14 to 17 of proc_pid_stat(5).
    let ticks = |pid: Pid| -> Option<[u64; 4]> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse().ok();
        Some([field(14)?, field(15)?, field(16)?, field(17)?])
    };
    let [_, _, user, system] = ticks(getpid())?;
    let ticks = user + system + members.iter().filter_map(|pid| ticks(*pid)).flatten().sum::<u64>();
    Some(Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64))
}

/// The number of processes of this control group that the kernel has killed for lack of memory. Counts the whole
/// machine if the group has no counter. `None` without any counter.
pub(super) fn oom_kills() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    oom_files(&groups).iter().find_map(|file| count_in(&fs::read_to_string(file).ok()?))
}

/// The files that may hold the count, the most particular first, from the contents of `/proc/self/cgroup`: version
/// 2, then version 1, then the machine.
fn oom_files(groups: &str) -> Vec<String> {
    let entries = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        Some((fields.next()?, fields.next()?.trim_end_matches('/')))
    });
    let mut files: Vec<String> = entries
        .flat_map(|(controllers, path)| match controllers {
            "" => vec![
                format!("/sys/fs/cgroup{path}/memory.events"),
                // Inside a container, the path may be that of the host.
                "/sys/fs/cgroup/memory.events".to_owned(),
            ],
            "memory" => vec![
                format!("/sys/fs/cgroup/memory{path}/memory.oom_control"),
                "/sys/fs/cgroup/memory/memory.oom_control".to_owned(),
            ],
            _ => Vec::new(),
        })
        .collect();
    files.push("/proc/vmstat".to_owned());
    files
}

fn count_in(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// The file in a job's folder with namespaces, one in a line: first those of the shim, then others that its job has now.
const FILE: &str = "namespaces";

/// The largest such file that is read, in bytes.
const LARGEST: u64 = 64 << 10;

/// The longest time until a shim that is not busy sees a process of its job.
const SEEN_AFTER: Duration = LONGEST_PAUSE.saturating_mul(2);

/// Poll interval while a shim may still see a process.
const LOOK: Duration = Duration::from_millis(100);

/// The process and mount namespaces of a process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Namespaces(String);

impl Namespaces {
    /// Those of this process; absent where the system does not name them.
    fn own() -> Option<Namespaces> {
        Namespaces::at(Path::new("/proc/self/ns"))
    }

    fn at(folder: &Path) -> Option<Namespaces> {
        let name = |kind: &str| Some(fs::read_link(folder.join(kind)).ok()?.to_str()?.to_owned());
        Some(Namespaces(format!("{} {}", name("pid")?, name("mnt")?)))
    }
}

/// The namespaces that a shim sees in its job.
#[derive(Debug)]
pub(super) struct NamespaceWatch {
    file: PathBuf,
    own: Option<Namespaces>,
    noted: BTreeSet<Namespaces>,
}

impl NamespaceWatch {
    /// For a job whose files are in `folder`.
    pub(super) fn new(folder: &Path) -> NamespaceWatch {
        let watch = NamespaceWatch { file: folder.join(FILE), own: Namespaces::own(), noted: BTreeSet::new() };
        watch.write();
        watch
    }

    /// Notes the namespaces of `members`, and no longer those of processes that ended: the kernel gives their numbers to the
    /// next ones.
    pub(super) fn look(&mut self, members: &[Pid]) {
        let all = members.iter().filter_map(|pid| Namespaces::at(Path::new(&format!("/proc/{pid}/ns"))));
        let found: BTreeSet<Namespaces> = all.filter(|found| self.own.as_ref() != Some(found)).collect();
        if found != self.noted {
            self.noted = found;
            self.write();
        }
    }

    fn write(&self) {
        let lines = self.own.iter().chain(&self.noted).map(|namespaces| format!("{}\n", namespaces.0));
        let (fresh, text) = (self.file.with_extension("new"), lines.collect::<String>());
        let _ = fs::remove_file(&fresh);
        // Without the file nobody is refused, and the job goes on.
        let written = File::create_new(&fresh).and_then(|mut file| file.write_all(text.as_bytes()));
        let _ = written.and_then(|()| fs::rename(&fresh, &self.file));
    }
}

/// The first of `folders` with an active job that this process is part of, where it cannot see that: it is in namespaces
/// that a process of the job made. Waits where only the job's shim can tell.
pub fn job_beyond(mut folders: Vec<PathBuf>) -> Option<PathBuf> {
    let own = Namespaces::own();
    if own.is_none() && !cfg!(target_os = "linux") {
        return None;
    }
    let is_below = |folder: &PathBuf| match &own {
        Some(own) => was_seen(folder, own),
        // Another process hid what the system says of processes.
        None => is_held(folder).then_some(true),
    };
    let begun = time::Instant::now();
    loop {
        folders.retain(|folder| is_below(folder).is_some());
        if folders.is_empty() {
            return None;
        }
        // By then, each shim has noted this process, and forgotten one that had its numbers before.
        if begun.elapsed() > SEEN_AFTER {
            return folders.into_iter().find(|folder| is_below(folder) == Some(true));
        }
        thread::sleep(LOOK);
    }
}

/// Returns whether a process of the active job in `folder` was seen in `namespaces`; `None` without a job, or if they
/// are its shim's own.
fn was_seen(folder: &Path, namespaces: &Namespaces) -> Option<bool> {
    let listed = read_at_most(&folder.join(FILE), LARGEST).ok().filter(|_| is_held(folder))?;
    let place = listed.split(|byte| *byte == b'\n').position(|line| line == namespaces.0.as_bytes());
    if place == Some(0) { None } else { Some(place.is_some()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oom_count_is_looked_for_where_each_kind_of_control_group_keeps_it() {
        assert_eq!(
            oom_files("0::/user.slice/a:b\n"),
            ["/sys/fs/cgroup/user.slice/a:b/memory.events", "/sys/fs/cgroup/memory.events", "/proc/vmstat"]
        );
        assert_eq!(oom_files("9:name=systemd:/x\n4:memory:/job\n")[0], "/sys/fs/cgroup/memory/job/memory.oom_control");
        assert_eq!(oom_files(""), ["/proc/vmstat"]);
        assert_eq!(count_in("low 0\noom 5\noom_kill 3\noom_group_kill 0\n"), Some(3));
        assert_eq!(count_in("oom_kill_disable 0\nunder_oom 0\n"), None);
    }
}
