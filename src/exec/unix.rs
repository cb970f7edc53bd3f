//! The system calls that neither the standard library nor `duct` offers, each in a small safe wrapper.
#![expect(unsafe_code, reason = "sessions, signals, waiting without reaping and the subreaper need libc")]

use std::ffi::CStr;
use std::fs;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use crate::domain::Space;

/// A process id.
pub(super) type Pid = libc::pid_t;

/// The signals that are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Signal {
    Term = libc::SIGTERM,
    Continue = libc::SIGCONT,
    Kill = libc::SIGKILL,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// With this status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Holds TERM back, from this process and those that are forked from it, until one of them calls [`accept_signals`].
pub(super) fn hold_term() -> io::Result<()> {
    mask_term(libc::SIG_BLOCK)
}

/// Lets TERM through, also one that was sent before.
pub(super) fn accept_signals() -> io::Result<()> {
    mask_term(libc::SIG_UNBLOCK)
}

fn mask_term(how: libc::c_int) -> io::Result<()> {
    // SAFETY: a zeroed `sigset_t` is valid memory, which `sigemptyset` makes a set; the old mask is not asked for.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGTERM);
        check(libc::sigprocmask(how, &set, ptr::null_mut())).map(drop)
    }
}

/// Makes orphaned descendants children of this process instead of init. Without effect where the system has no
/// such thing.
pub(super) fn become_subreaper() {
    #[cfg(target_os = "linux")]
    // SAFETY: this option of `prctl` takes plain integers and touches no memory.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1 as libc::c_ulong, 0 as libc::c_ulong, 0, 0);
    }
}

/// Undoes what the starter had ignored, SIGPIPE apart, so that commands start with the defaults.
/// (SIGPIPE and the signal mask are put back by the standard library when it starts a process.)
pub(super) fn default_signals() {
    for signal in (1..32).filter(|signal| *signal != libc::SIGPIPE) {
        // SAFETY: SIG_DFL is a valid disposition; KILL and STOP are refused, which does no harm.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

/// Lets no write to a terminal stop this process, as one from the background would after `stty tostop`. Gives whether
/// it should hear of hang-ups: not when whoever started it had them ignored, as `nohup` does.
pub fn shield_from_terminal() -> bool {
    // SAFETY: SIG_IGN is a valid disposition.
    unsafe {
        libc::signal(libc::SIGTTOU, libc::SIG_IGN);
    }
    !is_ignored(libc::SIGHUP)
}

/// Lets Ctrl-C reach the other processes of the terminal and do nothing to this one.
pub fn leave_interrupts_to_others() {
    // SAFETY: SIG_IGN is a valid disposition.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_IGN);
    }
}

/// Lets Ctrl-C, TERM and hang-ups end this process, as they do until somebody listens to them; what is ignored stays so.
pub fn end_by_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        if !is_ignored(signal) {
            // SAFETY: SIG_DFL is a valid disposition.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: a zeroed `sigaction` is valid memory, and without a new one the call only asks.
    unsafe {
        let mut found: libc::sigaction = mem::zeroed();
        check(libc::sigaction(signal, ptr::null(), &mut found)).is_ok() && found.sa_sigaction == libc::SIG_IGN
    }
}

/// Has large blocks of memory, of 128 KiB and more, given back to the system as soon as they are freed, for as long as this
/// process lives. By itself glibc takes a large block that was freed once as a sign that such blocks come often, and keeps
/// the next ones: a loop that reads its growing event logs before each experiment would grow by their size again and again.
pub(super) fn give_large_blocks_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: a parameter of the allocator is set, and no memory of this process is touched.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 * 1024);
    }
}

/// Closes every descriptor above standard error: only for a process that has not opened any itself.
pub(super) fn close_all_but_standard() {
    let Ok(entries) = fs::read_dir("/dev/fd") else { return };
    let open = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<libc::c_int>().ok());
    for fd in open.collect::<Vec<_>>() {
        if fd > 2 {
            // SAFETY: whoever started the process left it open, and nothing here knows of it; an unused number gives EBADF.
            unsafe {
                libc::close(fd);
            }
        }
    }
}

/// Has the system forget children of this process as soon as they end.
pub(super) fn forget_children() {
    // SAFETY: SIG_IGN is a valid disposition.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
    }
}

/// Undoes [`forget_children`], for a process that was forked since.
pub(super) fn remember_children() {
    // SAFETY: SIG_DFL is a valid disposition.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
}

/// Makes a copy of this process, which must have no other thread. `true` in the copy.
pub(super) fn fork() -> io::Result<bool> {
    debug_assert!(fs::read_dir("/proc/self/task").map_or(true, |threads| threads.count() == 1));
    // SAFETY: with one thread, no lock and no memory is in a state that the copy cannot go on from.
    check(unsafe { libc::fork() }).map(|pid| pid == 0)
}

/// The memory in which the kernel, and whoever looks at the processes, finds the arguments of this one.
#[derive(Debug)]
pub(super) struct Arguments {
    start: *mut u8,
    length: usize,
}

impl Arguments {
    /// Where they are; `None` where the system does not tell.
    pub(super) fn own() -> Option<Arguments> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The name in parentheses may hold anything, so what follows is counted from the last one.
        let mut bounds = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(45);
        let (start, end) = (bounds.next()?.parse::<usize>().ok()?, bounds.next()?.parse::<usize>().ok()?);
        let length = end.checked_sub(start).filter(|_| start != 0)?;
        Some(Arguments { start: ptr::with_exposed_provenance_mut(start), length })
    }

    /// Shows other arguments in their place. Whether there is room for them.
    pub(super) fn show(&self, arguments: &[&[u8]]) -> bool {
        let mut shown = Vec::with_capacity(self.length);
        for argument in arguments {
            shown.extend_from_slice(argument);
            shown.push(0);
        }
        let fits = shown.len() <= self.length;
        if fits {
            shown.resize(self.length, 0);
            // SAFETY: the kernel put the arguments there when the program started, on the stack below all frames, in memory
            // that may be written to. What the standard library gives of them is copies, and whoever reads them through
            // pointers of that time still finds text that ends with a NUL: the last byte is one.
            unsafe {
                ptr::copy_nonoverlapping(shown.as_ptr(), self.start, self.length);
            }
        }
        fits
    }
}

/// How many descriptors go with a message.
pub(super) const HANDED: usize = 6;

/// Room for them, as the system wants them: aligned, and behind a head.
type Control = [u64; 8];

const HANDED_BYTES: libc::c_uint = (HANDED * size_of::<libc::c_int>()) as libc::c_uint;

/// Sends a message with descriptors.
pub(super) fn send_with(socket: impl AsFd, text: &[u8], handed: [BorrowedFd<'_>; HANDED]) -> io::Result<()> {
    let mut part = libc::iovec { iov_base: text.as_ptr().cast_mut().cast(), iov_len: text.len() };
    let mut control: Control = [0; 8];
    let handed = handed.map(|descriptor| descriptor.as_raw_fd());
    // SAFETY: a zeroed `msghdr` is valid, and is made to point to what lives until the call is over. The control block has
    // room for one head and the descriptors behind it, and is aligned for the head.
    let sent = unsafe {
        debug_assert!(libc::CMSG_SPACE(HANDED_BYTES) as usize <= size_of::<Control>());
        let mut message: libc::msghdr = mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&mut part, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(HANDED_BYTES) as _;
        let head = libc::CMSG_FIRSTHDR(&message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(HANDED_BYTES) as _;
        ptr::copy_nonoverlapping(handed.as_ptr().cast::<u8>(), libc::CMSG_DATA(head), HANDED_BYTES as usize);
        libc::sendmsg(socket.as_fd().as_raw_fd(), &message, 0)
    };
    match usize::try_from(sent) {
        Ok(sent) if sent == text.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Waits for a message with descriptors: its length, and they. The length is 0 when there will be none any more.
pub(super) fn receive_with(socket: impl AsFd, text: &mut [u8]) -> io::Result<(usize, Option<[OwnedFd; HANDED]>)> {
    let mut part = libc::iovec { iov_base: text.as_mut_ptr().cast(), iov_len: text.len() };
    let mut control: Control = [0; 8];
    // SAFETY: a zeroed `msghdr` is valid, and is made to point to what lives until the call is over. A head that is found in
    // the control block is followed by as many descriptors as its length says, which the system has just opened.
    unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&mut part, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(HANDED_BYTES) as _;
        let length = loop {
            match usize::try_from(libc::recvmsg(socket.as_fd().as_raw_fd(), &mut message, 0)) {
                Ok(length) => break length,
                Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(io::Error::last_os_error()),
            }
        };
        let head = libc::CMSG_FIRSTHDR(&message);
        let is_whole = !head.is_null()
            && ((*head).cmsg_level, (*head).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS)
            && (*head).cmsg_len as usize == libc::CMSG_LEN(HANDED_BYTES) as usize;
        if !is_whole {
            return Ok((length, None));
        }
        let mut handed = [0; HANDED];
        ptr::copy_nonoverlapping(libc::CMSG_DATA(head), handed.as_mut_ptr().cast::<u8>(), HANDED_BYTES as usize);
        Ok((length, Some(handed.map(|descriptor| OwnedFd::from_raw_fd(descriptor)))))
    }
}

/// Sends `signal` to one process.
pub(super) fn send(pid: Pid, signal: Signal) -> io::Result<()> {
    debug_assert!(pid > 0);
    // SAFETY: `kill` touches no memory of this process.
    check(unsafe { libc::kill(pid, signal as libc::c_int) }).map(drop)
}

/// Sends `signal` to every process of a group.
pub(super) fn send_group(group: Pid, signal: Signal) -> io::Result<()> {
    debug_assert!(group > 1);
    // SAFETY: `killpg` touches no memory of this process.
    check(unsafe { libc::killpg(group, signal as libc::c_int) }).map(drop)
}

/// Whether a group has a living process that may be signalled.
pub(super) fn group_alive(group: Pid) -> bool {
    // SAFETY: signal 0 only asks.
    unsafe { libc::killpg(group, 0) == 0 }
}

/// The process group of `pid`.
pub(super) fn group_of(pid: Pid) -> io::Result<Pid> {
    // SAFETY: `getpgid` touches no memory of this process.
    check(unsafe { libc::getpgid(pid) })
}

/// How the child `pid` ended, or `None` while it goes on. It is not reaped, so its id stays taken.
pub(super) fn ended(pid: Pid) -> io::Result<Option<Ended>> {
    Ok(wait_without_reaping(libc::P_PID, pid)?.map(|(_, ended)| ended))
}

/// Any child that has ended and is not reaped. The error is ECHILD when there are no children at all.
pub(super) fn any_ended() -> io::Result<Option<Pid>> {
    Ok(wait_without_reaping(libc::P_ALL, 0)?.map(|(pid, _)| pid))
}

fn wait_without_reaping(kind: libc::idtype_t, pid: Pid) -> io::Result<Option<(Pid, Ended)>> {
    // SAFETY: a zeroed `siginfo_t` is valid, and `waitid` writes to nothing else. When nothing has ended it leaves
    // the process id 0. The accessors read the fields that SIGCHLD fills in.
    unsafe {
        let mut info: libc::siginfo_t = mem::zeroed();
        check(libc::waitid(kind, pid.cast_unsigned(), &mut info, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT))?;
        let ended = match info.si_code {
            libc::CLD_EXITED => Ended::Exit(info.si_status()),
            _ => Ended::Signal(info.si_status()),
        };
        Ok((info.si_pid() != 0).then(|| (info.si_pid(), ended)))
    }
}

/// Reaps the child `pid` if it has ended; whether it had.
pub(super) fn reap(pid: Pid) -> bool {
    // SAFETY: a null status pointer is allowed.
    unsafe { libc::waitpid(pid, ptr::null_mut(), libc::WNOHANG) == pid }
}

/// The largest resident set that any one reaped descendant had, in bytes.
pub(super) fn peak_rss_of_reaped() -> u64 {
    // SAFETY: a zeroed `rusage` is valid, and `getrusage` writes to nothing else.
    let peak = unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage.ru_maxrss
    };
    // Linux and the BSDs count in KiB, macOS in bytes.
    u64::try_from(peak).unwrap_or(0) * if cfg!(target_os = "macos") { 1 } else { 1024 }
}

/// The size of a page of memory, in bytes.
pub(super) fn page_size() -> u64 {
    // SAFETY: `sysconf` touches no memory of this process.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// The room on the file system of `path`.
pub(super) fn disk_space(path: &CStr) -> io::Result<Space> {
    // SAFETY: the path ends with a NUL, a zeroed `statvfs` is valid, and the call writes to nothing else.
    let found = unsafe {
        let mut found: libc::statvfs = mem::zeroed();
        check(libc::statvfs(path.as_ptr(), &mut found))?;
        found
    };
    let block = found.f_frsize as u64;
    Ok(Space {
        free: found.f_bavail as u64 * block,
        total: found.f_blocks as u64 * block,
        free_files: found.f_favail as u64,
        total_files: found.f_files as u64,
    })
}

/// The host's name, or nothing when the system does not tell.
pub(super) fn host_name() -> String {
    let mut buffer = [0_u8; 256];
    // SAFETY: the buffer is as long as said; the last byte stays 0.
    let result = unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len() - 1) };
    let length = buffer.iter().position(|byte| *byte == 0).unwrap_or(0);
    if result == 0 { String::from_utf8_lossy(&buffer[..length]).into_owned() } else { String::new() }
}

/// What the kernel says about itself and the machine.
pub(super) struct System {
    /// Its name and version: `Linux 6.1.0-18-amd64`.
    pub(super) kernel: String,
    /// The kind of machine: `x86_64`.
    pub(super) machine: String,
}

/// The running kernel, where it tells.
pub(super) fn system() -> Option<System> {
    // SAFETY: a zeroed `utsname` is valid, and the call writes to nothing else.
    let found = unsafe {
        let mut found: libc::utsname = mem::zeroed();
        check(libc::uname(&mut found)).ok()?;
        found
    };
    let text = |field: &[libc::c_char]| {
        let bytes: Vec<u8> = field.iter().map(|byte| byte.to_ne_bytes()[0]).take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Some(System { kernel: format!("{} {}", text(&found.sysname), text(&found.release)), machine: text(&found.machine) })
}
