//! The process tree of a command: finding all of it, and ending all of it.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::signal::unix::Signal as SignalStream;
use tokio::time::{Instant, sleep};

use super::unix::{self, Ended, Pid, Signal};
use super::{FORK_SERVER_ARGUMENT, SHIM_ARGUMENT};

/// How long KILL is repeated before what does not die is given up as stuck in the kernel.
const KILL_PATIENCE: Duration = Duration::from_secs(30);

/// The longest pause between two looks at a tree that is about to end. Children that die wake the shim at once; a
/// look is needed for grandchildren.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// A command's leader, which leads its process group, and everything that descends from it.
///
/// The calling process must be a subreaper and have no other children. Then all of the tree descends from it,
/// whatever sessions and groups its processes made, and while the leader is not reaped its id, which is that of the
/// group, belongs to nobody else.
#[derive(Debug)]
pub(super) struct Tree {
    leader: Pid,
    me: Pid,
}

impl Tree {
    pub(super) fn new(leader: Pid) -> Tree {
        Tree { leader, me: Pid::try_from(std::process::id()).unwrap_or(0) }
    }

    /// How the leader ended, if it did.
    pub(super) fn leader_ended(&self) -> io::Result<Option<Ended>> {
        unix::ended(self.leader)
    }

    /// The leader and all that descends from it.
    pub(super) fn members(&self) -> Vec<Pid> {
        match descendants(self.me) {
            all if all.is_empty() => vec![self.leader],
            all => all,
        }
    }

    /// Reaps what was orphaned and has ended, until the leader has. The leader stays.
    pub(super) fn reap_ended(&self) {
        while let Ok(Some(pid)) = unix::any_ended()
            && pid != self.leader
        {
            unix::reap(pid);
        }
    }

    /// Whether the leader has ended and nothing else is there. What was orphaned and has ended is reaped.
    fn is_gone(&self) -> bool {
        let has_ended = matches!(self.leader_ended(), Ok(Some(_)));
        if cfg!(not(target_os = "linux")) {
            self.reap_ended();
            return has_ended && !unix::group_alive(self.leader);
        }
        if !has_ended {
            self.reap_ended();
            return false;
        }
        // A process that has ended has no children: they are this one's by now. So nothing else is there when this one has
        // no other child.
        loop {
            let others: Vec<Pid> = children(self.me).into_iter().filter(|pid| *pid != self.leader).collect();
            if others.is_empty() {
                return lists_children() || descendants(self.me).iter().all(|pid| *pid == self.leader);
            }
            // What they leave behind when they are reaped is listed the next time.
            if others.into_iter().filter(|pid| unix::reap(*pid)).count() == 0 {
                return false;
            }
        }
    }

    /// Sends a signal to the leader's group and to every process that left it. What is gone meanwhile is no error.
    fn send(&self, signal: Signal) {
        let _ = unix::send_group(self.leader, signal);
        for pid in descendants(self.me) {
            if unix::group_of(pid).is_ok_and(|group| group != self.leader) {
                let _ = unix::send(pid, signal);
            }
        }
    }

    /// Ends all of it: TERM, `grace`, then KILL until nothing is left. Returns at once when nothing is. `child`
    /// yields on SIGCHLD.
    ///
    /// The leader is ended, but not reaped. Gives how many processes not even KILL could end.
    pub(super) async fn end(&self, grace: Duration, child: &mut SignalStream) -> u32 {
        let survivors = self.end_members(grace, child).await;
        // Nothing is left to get this, unless the system keeps orphans from the subreaper.
        let _ = unix::send_group(self.leader, Signal::Kill);
        survivors
    }

    async fn end_members(&self, grace: Duration, child: &mut SignalStream) -> u32 {
        if self.is_gone() {
            return 0;
        }
        self.send(Signal::Term);
        // A stopped process takes no TERM until it goes on.
        self.send(Signal::Continue);
        if self.is_gone_within(grace, child).await {
            return 0;
        }
        let patience = Instant::now() + KILL_PATIENCE;
        let mut pause = Duration::from_millis(2);
        loop {
            self.send(Signal::Kill);
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

/// Kills and reaps children until there are none: the last look after a tree has ended and its leader is reaped,
/// since a list that the kernel gives while processes die may leave one out.
pub(super) async fn leave_no_child() {
    let patience = Instant::now() + KILL_PATIENCE;
    let me = Pid::try_from(std::process::id()).unwrap_or(0);
    loop {
        match unix::any_ended() {
            Err(_) => return,
            Ok(Some(pid)) => {
                unix::reap(pid);
            }
            Ok(None) if Instant::now() > patience => return,
            Ok(None) => {
                for pid in descendants(me) {
                    let _ = unix::send(pid, Signal::Kill);
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
        below(root, |pid| parents.iter().filter(|(_, parent)| *parent == pid).map(|(child, _)| *child).collect())
    }
}

/// Kills the children of this process, and all below them, but for its fork server and shims. Does nothing where there is no
/// `/proc`.
pub fn kill_other_children() {
    let me = Pid::try_from(std::process::id()).unwrap_or(0);
    let below_me = if lists_children() {
        children(me)
    } else {
        parents().into_iter().filter(|(_, parent)| *parent == me).map(|(child, _)| child).collect()
    };
    for child in below_me.into_iter().filter(|pid| !is_own(*pid)) {
        for pid in descendants(child).into_iter().chain([child]) {
            // One that is gone meanwhile is no error.
            let _ = unix::send(pid, Signal::Kill);
        }
    }
}

/// Whether a child is a fork server or a shim, by its first argument. One that has not started its program yet is not
/// known for anything, and left.
fn is_own(pid: Pid) -> bool {
    let (line, mine) = (fs::read(format!("/proc/{pid}/cmdline")), fs::read("/proc/self/cmdline"));
    let (Ok(line), Ok(mine)) = (line, mine) else { return true };
    let word = line.split(|byte| *byte == 0).nth(1);
    line == mine || [FORK_SERVER_ARGUMENT, SHIM_ARGUMENT].iter().any(|own| word == Some(own.as_bytes()))
}

/// Whether the kernel tells the children of a process.
fn lists_children() -> bool {
    Path::new("/proc/thread-self/children").exists()
}

fn below(root: Pid, children: impl Fn(Pid) -> Vec<Pid>) -> Vec<Pid> {
    let mut found = children(root);
    let mut next = 0;
    while next < found.len() {
        for pid in children(found[next]) {
            // A process that is re-parented between two looks shows twice.
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
    lists
        .flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Every process with its parent: the slow way, for kernels that list no children.
fn parents() -> Vec<(Pid, Pid)> {
    all()
        .filter_map(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The name in parentheses may hold anything, so what follows is counted from the last one.
            let parent = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect()
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
    let me = Pid::try_from(std::process::id()).unwrap_or(0);
    all()
        .filter(|pid| *pid != me)
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == variable))
        })
        .collect()
}

fn all() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_finding_descendants_agree() {
        let script = "sleep 60 & (sleep 60 & wait) & wait";
        let mut child = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
        let leader = Pid::try_from(child.id()).unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        let found = loop {
            let found = below(leader, children);
            if found.len() == 3 || std::time::Instant::now() > deadline {
                break found;
            }
            std::thread::yield_now();
        };
        let parents = parents();
        let mut slow =
            below(leader, |pid| parents.iter().filter(|(_, parent)| *parent == pid).map(|(child, _)| *child).collect());
        for pid in found.iter().chain([&leader]) {
            unix::send(*pid, Signal::Kill).unwrap();
        }
        child.wait().unwrap();
        let mut fast = found;
        fast.sort_unstable();
        slow.sort_unstable();
        assert_eq!(fast.len(), 3, "{fast:?}");
        assert_eq!(fast, slow);
    }
}
