//! The system calls for which neither the standard library nor rustix has a safe function, each in a small safe wrapper.
#![expect(unsafe_code, reason = "signal dispositions, inherited descriptors and the usage of children need libc")]

use std::fs;
use std::io::{self, Write};
use std::mem;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit, setsid};

fn set_disposition(signal: libc::c_int, disposition: libc::sighandler_t) {
    debug_assert!([libc::SIG_DFL, libc::SIG_IGN].contains(&disposition));
    // SAFETY: both dispositions are valid and run no code; KILL and STOP are refused, which does no harm.
    unsafe {
        libc::signal(signal, disposition);
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: a zeroed `sigaction` is valid memory, and without a new one the call only asks.
    unsafe {
        let mut found: libc::sigaction = mem::zeroed();
        libc::sigaction(signal, ptr::null(), &mut found) == 0 && found.sa_sigaction == libc::SIG_IGN
    }
}

/// Resets signals that the starter ignored, except SIGPIPE, so that commands start with the defaults. (The standard library
/// resets SIGPIPE and the signal mask when it starts a process.)
pub(crate) fn default_signals() {
    for signal in (1..32).filter(|signal| *signal != libc::SIGPIPE) {
        set_disposition(signal, libc::SIG_DFL);
    }
}

/// Keeps a write to a terminal from stopping this process, as one from the background would after `stty tostop`. Returns
/// whether the process should listen for hang-ups: not if its starter ignored them, as `nohup` does.
pub fn shield_from_terminal() -> bool {
    set_disposition(libc::SIGTTOU, libc::SIG_IGN);
    !is_ignored(libc::SIGHUP)
}

/// Lets Ctrl-C reach the other processes of the terminal without effect on this one.
pub fn leave_interrupts_to_others() {
    set_disposition(libc::SIGINT, libc::SIG_IGN);
}

/// Lets Ctrl-C, TERM and hang-ups end this process until something listens for them. Ignored signals stay ignored.
pub fn end_by_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        if !is_ignored(signal) {
            set_disposition(signal, libc::SIG_DFL);
        }
    }
}

/// Has the process that `command` starts killed once the thread that starts it is gone, where the system can do that.
pub(crate) fn end_with_this_thread(command: &mut Command) {
    #[cfg(target_os = "linux")]
    // SAFETY: the call is a system call, which is all that a child between fork and exec may make.
    unsafe {
        command.pre_exec(|| Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

/// Bounds the memory that each process may take which `command` starts, where the system counts that.
pub(crate) fn limit_memory(command: &mut Command, bytes: u64) {
    let bytes = getrlimit(Resource::Data).maximum.map_or(bytes, |most| most.min(bytes));
    let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    // SAFETY: the call is a system call, which is all that a child between fork and exec may make.
    unsafe {
        command.pre_exec(move || Ok(setrlimit(Resource::Data, limit)?));
    }
}

/// Closes every descriptor above standard error. Only for a process that has not opened any itself.
pub(crate) fn close_all_but_standard() {
    let Ok(entries) = fs::read_dir("/dev/fd") else { return };
    let open = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<libc::c_int>().ok());
    for fd in open.collect::<Vec<_>>() {
        if fd > 2 {
            // SAFETY: the starter left it open, and nothing here owns it; an unused number gives EBADF.
            unsafe {
                libc::close(fd);
            }
        }
    }
}

/// Puts this process, which must have one thread, into a user namespace of its own, without ids in it, and a mount namespace
/// that belongs to it. There the mounts are locked: they stay in place for whoever is handed a folder of it, also once the
/// namespace is gone.
///
/// # Errors
///
/// The system has none, or allows no further one.
#[cfg(target_os = "linux")]
pub(crate) fn enter_user_namespace() -> io::Result<()> {
    let own = rustix::thread::UnshareFlags::NEWUSER | rustix::thread::UnshareFlags::NEWNS;
    // SAFETY: no descriptors are unshared, which is all that could take them from somebody.
    Ok(unsafe { rustix::thread::unshare_unsafe(own) }?)
}

/// Fails: only Linux has user namespaces.
///
/// # Errors
///
/// Always.
#[cfg(not(target_os = "linux"))]
pub(crate) fn enter_user_namespace() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Starts a copy of this process, which must have one thread. Returns its id, or `None` in the copy.
///
/// # Errors
///
/// The system allows no further process.
pub(crate) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: without further threads, the copy misses none that has a lock.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Ends this process without what is to be done at the end of the one that it is a copy of.
pub(crate) fn end_copy(status: i32) -> ! {
    // SAFETY: nothing of this process runs afterwards.
    unsafe { libc::_exit(status) }
}

/// Has the next child of this process, which must have one thread, be the first one of a process namespace.
///
/// # Errors
///
/// The system has none, or allows no further one.
pub(crate) fn enter_process_namespace() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    // SAFETY: no descriptors are unshared, which is all that could take them from somebody.
    return Ok(unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWPID) }?);
    #[cfg(not(target_os = "linux"))]
    Err(io::ErrorKind::Unsupported.into())
}

/// Makes this process one that does nothing but reap what is left to it, where `/proc` shows the processes of its namespace.
/// Says once by `ready` that it is one.
///
/// # Errors
///
/// The system lets nobody see less in `/proc` than others do, as in many containers.
#[cfg(target_os = "linux")]
pub(crate) fn reap_only(mut ready: io::PipeWriter) -> io::Result<()> {
    set_disposition(libc::SIGCHLD, libc::SIG_IGN);
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    // SAFETY: all strings end with a zero, and that kind of file system takes no data.
    if unsafe { libc::mount(c"proc".as_ptr(), c"/proc".as_ptr(), c"proc".as_ptr(), flags, ptr::null()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    ready.write_all(b"r")?;
    drop(ready);
    close_all_but_standard();
    loop {
        std::thread::park();
    }
}

/// Fails: only Linux has process namespaces.
///
/// # Errors
///
/// Always.
#[cfg(not(target_os = "linux"))]
pub(crate) fn reap_only(_: io::PipeWriter) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Has a command start in a session of its own, where neither the terminal nor Ctrl-C reaches it.
pub fn in_own_session(command: &mut Command) {
    // SAFETY: `setsid` is async-signal-safe, allocates nothing and touches no memory of this process.
    unsafe {
        command.pre_exec(|| Ok(setsid().map(drop)?));
    }
}

/// The largest resident set of any one reaped descendant, in bytes.
pub(crate) fn peak_rss_of_reaped() -> u64 {
    // SAFETY: a zeroed `rusage` is valid, and `getrusage` writes to nothing else.
    let peak = unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage.ru_maxrss
    };
    // Linux and the BSDs count in KiB, macOS in bytes.
    u64::try_from(peak).unwrap_or(0) * if cfg!(target_os = "macos") { 1 } else { 1024 }
}
