//! The output of a command on its way to the log, which only the shim writes.

use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::OwnedFd;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::time::sleep;

/// The bytes that the pipe holds, if the kernel grants them: the most that it gives to a user without privileges. So much
/// is moved at once.
const PIPE: usize = 1 << 20;

/// The most that is read of what a program says that starts no command, in bytes.
const WORDS: usize = 4096;

/// The longest wait for the last output once no process of the command is left: something outside it may still hold
/// the pipe, such as a service that the command asked to write there.
const PATIENCE: Duration = Duration::from_secs(5);

/// Poll interval during that wait.
const LOOK: Duration = Duration::from_millis(2);

/// The reading end of a pipe for a command's output, from which nothing was read yet.
#[derive(Debug)]
pub(super) struct Pipe(PipeReader);

impl Pipe {
    /// Makes a pipe, and returns also the end that the command writes to.
    pub(super) fn new() -> io::Result<(Pipe, OwnedFd)> {
        let (reader, writer) = io::pipe()?;
        // A smaller pipe only costs time.
        #[cfg(target_os = "linux")]
        let _ = rustix::pipe::fcntl_setpipe_size(&reader, PIPE);
        Ok((Pipe(reader), writer.into()))
    }

    /// What was written so far and fits into one read.
    pub(super) fn words(mut self) -> Vec<u8> {
        // Something may still hold the other end.
        let _ = rustix::io::ioctl_fionbio(&self.0, true);
        let mut words = vec![0; WORDS];
        let length = self.0.read(&mut words).unwrap_or_default();
        words.truncate(length);
        words
    }

    /// Starts the thread that appends the output to `log`: at most `limit` bytes, if there is a limit. It drops the rest, so
    /// that a flood is not held up.
    pub(super) fn drain(mut self, mut log: File, limit: Option<u64>) -> io::Result<Output> {
        Ok(Output(thread::Builder::new().spawn(move || drain(&mut self.0, &mut log, limit))?))
    }
}

/// The thread that moves a command's output from a pipe to its log.
#[derive(Debug)]
pub(super) struct Output(JoinHandle<()>);

impl Output {
    /// Waits until all of the output is in the log, once no process of the command is left.
    pub(super) async fn finish(self) {
        let begun = Instant::now();
        while !self.0.is_finished() && begun.elapsed() < PATIENCE {
            sleep(LOOK).await;
        }
    }
}

/// Moves all that can be read to the end of `log`, up to `limit` bytes. What cannot be written, as on a full disk, is
/// dropped: the command goes on, and what it writes once there is room again is in the log.
fn drain(reader: &mut PipeReader, log: &mut File, limit: Option<u64>) {
    let mut left = limit.unwrap_or(u64::MAX);
    let mut buffer = vec![0; PIPE];
    loop {
        let length = match reader.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let taken = usize::try_from(left).map_or(length, |left| left.min(length));
        // The command may write to the log by a redirection, too; so this appends.
        let _ = log.write_all(&buffer[..taken]);
        left -= taken as u64;
    }
}
