//! The process tree of a command: finding all of it, and terminating all of it.

use std::ffi::OsStr;
use std::iter::successors;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, WaitOptions, getpgid, getpid, kill_process, kill_process_group,
    test_kill_process_group, wait, waitid, waitpid,
};
use tokio::signal::unix::Signal as SignalStream;
use tokio::time::{Instant, sleep};

use super::SHIM_ARGUMENT;

/// The time for which KILL is repeated; processes that survive it count as stuck in the kernel.
const KILL_PATIENCE: Duration = Duration::from_secs(30);

/// The longest pause between two checks of a tree that is about to end. Children that die wake the shim at once;
/// grandchildren do not.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// A command's leader, which leads its process group, and everything that descends from it.
///
/// The calling process must be a subreaper and have no other children. Then all of the tree descends from it,
/// whatever sessions and groups its processes made. While the leader is not reaped, no other process gets its id, which is
/// also that of the group.
#[derive(Debug)]
pub(super) struct ProcessTree {
    leader: Pid,
    me: Pid,
}

impl ProcessTree {
    pub(super) fn new(leader: Pid) -> ProcessTree {
        ProcessTree { leader, me: getpid() }
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
            all => all,
        }
    }

    /// Reaps orphans that have ended, and never the leader. Returns how many other children it found, and how many of them
    /// it reaped.
    pub(super) fn reap_ended(&self) -> (usize, usize) {
        let others: Vec<Pid> = direct_children(self.me).into_iter().filter(|pid| *pid != self.leader).collect();
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
                (0, _) => return has_ended,
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
            pause = LONGEST_PAUSE.min(pause * 2);
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
            pause = LONGEST_PAUSE.min(pause * 2);
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

/// The shims that a process descends from with their job files, the nearest first.
pub(super) fn shims_above(pid: Pid) -> impl Iterator<Item = (Pid, PathBuf)> {
    successors(parent(pid), |pid| parent(*pid)).filter_map(|pid| Some((pid, job_of(pid)?)))
}

/// The job file of a shim.
pub(super) fn job_of(pid: Pid) -> Option<PathBuf> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split(|byte| *byte == 0).skip(1);
    let is_shim = words.next()? == SHIM_ARGUMENT.as_bytes();
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

/// Every process whose first arguments, behind its name, are `arguments`.
pub(super) fn with_arguments(arguments: &[&[u8]]) -> Vec<Pid> {
    all()
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
                let mut words = line.split(|byte| *byte == 0).skip(1);
                arguments.iter().all(|argument| words.next() == Some(argument))
            })
        })
        .collect()
}

/// Every process but this one that has `variable`, as `NAME=value`, in its environment.
pub(super) fn with_variable(variable: &[u8]) -> Vec<Pid> {
    all()
        .filter(|pid| *pid != getpid())
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == variable))
        })
        .collect()
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
mod tests;
