//! A program that reads what this process writes to it, such as the client of a tracker.

use std::ffi::OsStr;
use std::io::{self, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use duct::{Expression, Handle};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep};

use super::{MARKER, kill_marked};
use crate::unix;

/// The most bytes of its standard error to keep.
const KEPT: usize = 16 << 10;

/// Poll interval of its end.
const POLL: Duration = Duration::from_millis(20);

/// Time limit for the last lines of a helper whose processes are gone.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Numbers the helpers of this process.
static HELPERS: AtomicU32 = AtomicU32::new(0);

/// A program that reads what this process writes. What it prints is dropped, but for the last of its standard error. It leads a
/// process group of its own, so that Ctrl-C does not reach it, and ends with the thread that started it.
#[derive(Debug)]
pub struct Helper {
    handle: Handle,
    input: Option<pipe::Sender>,
    group: Option<Pid>,
    marker: String,
    errors: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Helper {
    /// Starts it with these arguments and variables.
    ///
    /// # Errors
    ///
    /// The program cannot be started.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with I/O enabled.
    pub fn start(
        program: &OsStr,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        variables: &[(&str, &str)],
    ) -> io::Result<Helper> {
        let (theirs, ours) = io::pipe()?;
        let (said, heard) = io::pipe()?;
        let arguments = arguments.into_iter().map(|argument| argument.as_ref().to_owned());
        let marker = format!("helper-{}-{}", std::process::id(), HELPERS.fetch_add(1, Ordering::Relaxed));
        let command = duct::cmd(program, arguments)
            .stdin_file(theirs)
            .stdout_null()
            .stderr_file(heard)
            .unchecked()
            .env(MARKER, &marker);
        let command = variables.iter().fold(command, |command, (name, value)| command.env(name, value));
        let (handle, group) = start_in_own_group(command)?;
        let errors = Arc::default();
        let kept = Arc::clone(&errors);
        let reader = thread::spawn(move || keep_last(said, &kept));
        let input = Some(pipe::Sender::from_owned_fd(OwnedFd::from(ours))?);
        Ok(Helper { handle, input, group, marker, errors, reader })
    }

    /// Writes to its standard input.
    ///
    /// # Errors
    ///
    /// It reads no more.
    pub async fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let input = self.input.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        while !bytes.is_empty() {
            input.writable().await?;
            match input.try_write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends its standard input.
    pub fn close(&mut self) {
        self.input = None;
    }

    /// Returns whether it has ended.
    ///
    /// # Errors
    ///
    /// The system does not tell.
    pub fn has_ended(&self) -> io::Result<bool> {
        Ok(self.handle.try_wait()?.is_some())
    }

    /// Waits for its end. It can be cancelled and called again.
    ///
    /// # Errors
    ///
    /// The system does not tell.
    pub async fn wait(&self) -> io::Result<ExitStatus> {
        loop {
            match self.handle.try_wait()? {
                Some(output) => return Ok(output.status),
                None => sleep(POLL).await,
            }
        }
    }

    /// Kills what is left of it, also what left its process group, and returns the last bytes of its standard error.
    pub async fn end(mut self) -> Vec<u8> {
        self.close();
        kill_group(self.group.take());
        kill_marked(Path::new(&self.marker)).await;
        let limit = Instant::now() + LAST_LINES;
        // A process that hides from this one may hold the pipe open.
        while !self.reader.is_finished() && Instant::now() < limit {
            sleep(POLL).await;
        }
        std::mem::take(&mut *self.errors.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        kill_group(self.group.take());
    }
}

/// Starts a command as the leader of a process group, which ends with the thread that starts it.
pub(super) fn start_in_own_group(command: Expression) -> io::Result<(Handle, Option<Pid>)> {
    let command = command.before_spawn(|command: &mut Command| {
        unix::end_with_this_thread(command.process_group(0));
        Ok(())
    });
    let handle = command.start()?;
    let group = handle.pids().first().and_then(|pid| Pid::from_raw(i32::try_from(*pid).ok()?));
    Ok((handle, group))
}

/// Kills such a group, which may be gone.
pub(super) fn kill_group(group: Option<Pid>) {
    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
}

/// Reads to the end and keeps the last bytes.
fn keep_last(mut from: PipeReader, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4096];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&buffer[..count]);
                let surplus = kept.len().saturating_sub(KEPT);
                kept.drain(..surplus);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
