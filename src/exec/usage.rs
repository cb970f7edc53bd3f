//! Resource use of a process tree: memory, GPU memory and processor time. Also detects that the kernel killed a process
//! for lack of memory.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Pid, getpid};
use tokio::time::Instant;

use super::beat::beat;
use super::gpu::GpuWatch;
use super::job::Written;
use super::tree::ProcessTree;
use super::{Exit, Job};
use crate::crash;
use crate::rules::{LifeSign, Quiet, Silence};
use crate::unix::peak_rss_of_reaped;

/// The first pause between two samples; each next one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(8);

/// The longest pause between two samples: two seconds, so that a training run pays for half a wake-up a second.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(2048);

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
    next: Instant,
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
        Sampler { start, next: beat(FIRST_PAUSE), pause: FIRST_PAUSE, peak_rss: 0, gpu_sharers, gpu: None, quiet }
    }

    /// The time of the next sample.
    pub(super) fn next(&self) -> Instant {
        self.next
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
        self.next = beat(self.pause);
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
        exit.peak_rss_bytes = self.peak_rss.max(peak_rss_of_reaped());
        exit.gpu_peak_bytes = self.gpu.as_ref().and_then(GpuWatch::peak);
        exit.gpu_other_bytes = self.gpu.as_ref().and_then(GpuWatch::others);
        exit.gpu_others = self.gpu.as_ref().map(GpuWatch::company).unwrap_or_default();
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
