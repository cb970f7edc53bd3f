//! The fork server: one process, started early and once, that shims are forked from.
//!
//! To start this program takes several times as long as to copy a process of it that is there already, and each
//! experiment needs a shim for its agent and one for its run. The server is this program under a hidden argument, with
//! a session, a folder and no descriptors of its own but the socket that requests come by. It has one thread and no
//! runtime, so that a copy of it is as good as a new process. It ends when the socket does, whatever became of `ar`; shims go on.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::setsid;
use rustix::stdio::{dup2_stderr, dup2_stdin};

use super::line::Word;
use super::shim::{Handed, shim_main};
use super::unix::{self, Arguments, HANDED};
use super::{ExecError, FORK_SERVER_ARGUMENT, SHIM_ARGUMENT};

/// How long the path of a job file can be, in bytes, with the NUL at its end: the longest that Linux opens.
const LONGEST_PATH: usize = 4096;

/// The fork server of a program, started when it is first needed, and again when it was killed meanwhile.
#[derive(Debug)]
pub struct ForkServer {
    program: PathBuf,
    process: Mutex<Option<Process>>,
}

/// That of this very program.
static OWN: LazyLock<ForkServer> = LazyLock::new(|| {
    // This link leads to the program that runs, also when its file was replaced or deleted since.
    let link = Path::new("/proc/self/exe");
    let there = link.exists().then(|| link.to_owned());
    ForkServer::of(there.or_else(|| std::env::current_exe().ok()).unwrap_or_else(|| link.to_owned()))
});

impl ForkServer {
    /// A fork server that is the executable `program` of this package.
    pub fn of(program: PathBuf) -> ForkServer {
        ForkServer { program, process: Mutex::new(None) }
    }

    /// That of this very program.
    pub fn own() -> &'static ForkServer {
        &OWN
    }

    /// Starts the process unless it is there, without waiting for it. What goes wrong shows when a job is started.
    pub fn prepare(&self) {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if process.is_none() {
            *process = self.launch().ok();
        }
    }

    /// Has a shim forked that looks after the job of `job_file`, with these descriptors: its end of the line to `ar`, the
    /// locked lock file, the file for its last output, and the job's file, log and input.
    ///
    /// # Errors
    ///
    /// [`ExecError::Shim`] when no server can be started. That the server can fork no shim shows on the line.
    pub(super) fn fork(&self, job_file: &Path, handed: [OwnedFd; HANDED]) -> Result<(), ExecError> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let request = [job_file.as_os_str().as_bytes(), b"\0"].concat();
        let handed = handed.each_ref().map(AsFd::as_fd);
        if let Some(there) = &*process
            && unix::send_with(&there.requests, &request, handed).is_ok()
        {
            return Ok(());
        }
        // It was killed, or there was none yet.
        *process = None;
        let failed = |source| ExecError::Shim { shim: self.program.clone(), source };
        let new = self.launch().map_err(failed)?;
        unix::send_with(&new.requests, &request, handed).map_err(failed)?;
        *process = Some(new);
        Ok(())
    }

    /// The executable.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    fn launch(&self) -> io::Result<Process> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(&self.program);
        command.arg0("ar").arg(FORK_SERVER_ARGUMENT).arg(" ".repeat(LONGEST_PATH));
        command.current_dir("/").stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Process { child: command.spawn()?, requests: ours })
    }
}

/// A server that was started.
#[derive(Debug)]
struct Process {
    child: Child,
    requests: UnixStream,
}

impl Drop for Process {
    /// Ends it.
    fn drop(&mut self) {
        let _ = self.requests.shutdown(std::net::Shutdown::Both);
        let _ = self.child.wait();
    }
}

/// What the program does as a fork server, until whoever started it is gone; in a process that was forked from it, what
/// it does as a shim.
pub fn fork_server_main() -> ExitCode {
    match serve() {
        Ok(Some((job_file, handed))) => shim_main(&job_file, handed),
        Ok(None) => ExitCode::SUCCESS,
        // Who asks for the next shim finds nobody there, and starts another server.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Forks a shim for each request. Returns in each shim, and at the end of the requests.
fn serve() -> io::Result<Option<(PathBuf, Handed)>> {
    // Here and not between fork and exec: a start without steps in between is one that copies nothing.
    setsid()?;
    unix::hold_term()?;
    unix::default_signals();
    unix::close_all_but_standard();
    unix::forget_children();
    let arguments = Arguments::own();
    let show = |words: &[&[u8]]| arguments.as_ref().is_some_and(|arguments| arguments.show(words));
    show(&[b"ar", FORK_SERVER_ARGUMENT.as_bytes()]);
    let mut request = [0; LONGEST_PATH];
    loop {
        let (length, handed) = unix::receive_with(io::stdin(), &mut request)?;
        let Some((b'\0', path)) = request[..length].split_last() else { return Ok(None) };
        let [line, lock, last_words, job, log, stdin] = handed.ok_or(io::ErrorKind::InvalidData)?;
        match unix::fork() {
            Ok(false) => {}
            Ok(true) => {
                setsid()?;
                unix::remember_children();
                show(&[b"ar", SHIM_ARGUMENT.as_bytes(), path]);
                dup2_stdin(io::stdout())?;
                dup2_stderr(last_words)?;
                for descriptor in [&line, &lock, &job, &log, &stdin] {
                    fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
                }
                let [lock, job, log, stdin] = [lock, job, log, stdin].map(File::from);
                return Ok(Some((OsStr::from_bytes(path).into(), Handed { line: line.into(), lock, job, log, stdin })));
            }
            Err(error) => {
                let _ = write!(File::from(last_words), "{error}");
                Word::NoShim.say(&UnixStream::from(line));
            }
        }
    }
}
