//! What passes through a shim: the output of its command on the way to the log, which only the shim writes, requests of
//! processes behind a wall, and the socket to the `ar` that started it.

use std::fs::File;
use std::future::pending;
use std::io::{BufRead, BufReader, IoSlice, IoSliceMut, PipeReader, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use rustix::cmsg_space;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;
use tokio::time::sleep;

use super::{Job, JobFiles, MARKER, jobs_above};

/// The longest request and the longest reply that are read, in bytes.
const LARGEST: u64 = 64 << 10;

/// The longest wait for the next bytes of a request or of a reply.
const PATIENCE: Duration = Duration::from_secs(30);

/// The answer to a request of a process of a job.
pub type Answer = fn(&Job, &str) -> Reply;

/// A shim's reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// It was done, with a line that says so.
    Done(String),
    /// It was not, with the reason.
    Refused(String),
}

/// The socket of a job.
pub(super) struct Requests(net::UnixListener);

impl Requests {
    /// Makes the socket of a job behind a wall that answers requests.
    pub(super) fn of(job: &Job, files: &JobFiles) -> Option<Requests> {
        let path = socket_of(&files.job);
        let _ = fs::remove_file(&path);
        let is_answered = job.answers && job.wall.is_some();
        // Without it, the command can say less, and runs.
        is_answered.then(|| at_short_path(&path, |short| net::UnixListener::bind(short)).ok().map(Requests)).flatten()
    }

    /// Answers what processes behind the wall of `inside` ask, in a thread that ends with this process.
    pub(super) fn serve(self, inside: Pid, job: &Job, answer: Answer) {
        let (job, wall) = (job.clone(), mounts_of(inside));
        let _ = thread::Builder::new().spawn(move || {
            for stream in self.0.incoming().flatten() {
                // The requester may be gone.
                let _ = reply(stream, wall.as_deref(), |request| answer(&job, request));
            }
        });
    }
}

/// Removes the socket of a job that is over.
pub(super) fn remove_socket(files: &JobFiles) {
    let _ = fs::remove_file(socket_of(&files.job));
}

fn reply(stream: net::UnixStream, wall: Option<&Path>, answer: impl FnOnce(&str) -> Reply) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let reply = match peer(&stream).filter(|peer| wall.is_some() && mounts_of(*peer).as_deref() == wall) {
        None => Reply::Refused("only processes of this job are heard".into()),
        Some(_) => {
            let mut request = String::new();
            BufReader::new((&stream).take(LARGEST)).read_line(&mut request)?;
            answer(&request)
        }
    };
    (&stream).write_all(format!("{}\n", serde_json::to_string(&reply)?).as_bytes())
}

#[cfg(target_os = "linux")]
fn peer(stream: &net::UnixStream) -> Option<Pid> {
    rustix::net::sockopt::socket_peercred(stream).ok().map(|peer| peer.pid)
}

#[cfg(not(target_os = "linux"))]
fn peer(_: &net::UnixStream) -> Option<Pid> {
    None
}

/// The mount namespace of a process, which is one for all processes behind a wall.
fn mounts_of(pid: Pid) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()
}

/// Asks the shim of the job that this process is part of, behind the job's wall.
///
/// # Errors
///
/// It is part of no job that answers, or the shim is gone.
pub fn ask_shim(request: &str) -> io::Result<Reply> {
    let named = std::env::var_os(MARKER).map(PathBuf::from);
    let jobs = named.into_iter().chain(jobs_above());
    let mut sockets = jobs.map(|job| socket_of(&job));
    let socket = sockets.find(|socket| socket.exists()).ok_or(io::ErrorKind::NotFound)?;
    let stream = at_short_path(&socket, |short| net::UnixStream::connect(short))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // A requester that refuses to listen has answered already.
    let sent = (&stream).write_all(format!("{request}\n").as_bytes());
    let mut reply = String::new();
    BufReader::new((&stream).take(LARGEST)).read_line(&mut reply)?;
    if reply.is_empty() {
        sent?;
    }
    Ok(serde_json::from_str(&reply)?)
}

/// The socket of the job in a job file.
fn socket_of(job_file: &Path) -> PathBuf {
    job_file.with_extension("socket")
}

/// Uses a path that is short enough for the address of a socket, and leads to the same place.
fn at_short_path<T>(path: &Path, use_it: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return use_it(path) };
    let folder = File::open(folder)?;
    use_it(&Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name))
}

/// The bytes that the pipe holds, if the kernel grants them: the most that it gives to a user without privileges. So much
/// is moved at once.
const PIPE: usize = 1 << 20;

/// The most that is read of what a program says that starts no command, in bytes.
const WORDS: usize = 4096;

/// The longest wait for the last output once no process of the command is left: something outside it may still hold
/// the pipe, such as a service that the command asked to write there.
const OUTPUT_PATIENCE: Duration = Duration::from_secs(5);

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

    /// The output so far, as far as it fits into one read.
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
        let is_torn = Arc::new(AtomicBool::new(false));
        let torn = Arc::clone(&is_torn);
        let thread = thread::Builder::new().spawn(move || drain(&mut self.0, &mut log, limit, &torn))?;
        Ok(Output { thread, is_torn })
    }
}

/// The thread that moves a command's output from a pipe to its log.
#[derive(Debug)]
pub(super) struct Output {
    thread: JoinHandle<()>,
    /// Set once output could not be written.
    is_torn: Arc<AtomicBool>,
}

impl Output {
    /// Waits until all of the output is in the log, once no process of the command is left.
    pub(super) async fn finish(&self) {
        let begun = Instant::now();
        while !self.thread.is_finished() && begun.elapsed() < OUTPUT_PATIENCE {
            sleep(LOOK).await;
        }
    }

    /// Returns whether the log lacks output that could not be written.
    pub(super) fn is_torn(&self) -> bool {
        self.is_torn.load(Ordering::Relaxed)
    }
}

/// Moves all that can be read to the end of `log`, up to `limit` bytes. What cannot be written, as on a full disk, is
/// dropped, and the log is `torn`: the command goes on, and what it writes once there is room again is in the log.
fn drain(reader: &mut PipeReader, log: &mut File, limit: Option<u64>, torn: &AtomicBool) {
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
        if log.write_all(&buffer[..taken]).is_err() {
            torn.store(true, Ordering::Relaxed);
        }
        left -= taken as u64;
    }
}

/// The number of open files in a job's first message: the job's file, its log and its input.
const HANDED: usize = 3;

/// The last word of a job's shim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum LastWord {
    /// `exit.json` says how the command ended.
    Over,
    /// Something failed, and the last words say what.
    Failed,
    /// The disk has no room for `exit.json`.
    DiskFull,
    /// The wall of the command cannot be built, and the last words say why.
    NoWall,
}

impl LastWord {
    const ALL: [LastWord; 4] = [LastWord::Over, LastWord::Failed, LastWord::DiskFull, LastWord::NoWall];

    /// Sends it, ignoring a closed socket.
    pub(super) fn send(self, socket: &net::UnixStream) {
        let _ = rustix::io::write(socket, &[self as u8]);
    }
}

/// The end of `ar`. When it is dropped, a tied job ends.
#[derive(Debug)]
pub(super) struct Socket(UnixStream);

impl Socket {
    /// A socket, with its other end for the shim, where a message with these open files waits to be [received](receive).
    pub(super) fn with(handed: [BorrowedFd<'_>; HANDED]) -> io::Result<(Socket, OwnedFd)> {
        let (ours, theirs) = net::UnixStream::pair()?;
        hand(&ours, handed)?;
        ours.set_nonblocking(true)?;
        Ok((Socket(UnixStream::from_std(ours)?), theirs.into()))
    }

    /// Asks the shim to terminate its command. Without effect when it is gone.
    pub(super) fn stop(&self) {
        let _ = rustix::io::write(&self.0, b"s");
    }

    /// Waits for the last word of the shim; `None` when it is gone without one. It can be cancelled and called again.
    pub(super) async fn last(&self) -> io::Result<Option<LastWord>> {
        let word = read(&self.0).await?;
        Ok(word.and_then(|word| LastWord::ALL.into_iter().find(|known| *known as u8 == word)))
    }
}

/// Sends a message with open files, at most [`HANDED`], which waits in the socket to be [received](receive).
pub(super) fn hand<const N: usize>(socket: &net::UnixStream, files: [BorrowedFd<'_>; N]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(HANDED))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    Ok(sendmsg(socket, &[IoSlice::new(b"f")], &mut control, SendFlags::empty()).map(drop)?)
}

/// Receives the open files that came with a socket, in the shim or behind a wall.
pub(super) fn receive<const N: usize>(socket: &net::UnixStream) -> io::Result<[File; N]> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(HANDED))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(socket, &mut [IoSliceMut::new(&mut [0])], &mut control, RecvFlags::empty())?;
    let mut handed = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = message {
            for file in files {
                fcntl_setfd(&file, FdFlags::CLOEXEC)?;
                handed.push(File::from(file));
            }
        }
    }
    handed.try_into().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// The shim's end.
#[derive(Debug)]
pub(super) struct ShimEnd {
    socket: UnixStream,
    tied: bool,
    gone: bool,
}

impl ShimEnd {
    /// The process that started the job is at the other end of `socket`. A `tied` job ends with it.
    pub(super) fn of(socket: net::UnixStream, tied: bool) -> io::Result<ShimEnd> {
        socket.set_nonblocking(true)?;
        Ok(ShimEnd { socket: UnixStream::from_std(socket)?, tied, gone: false })
    }

    /// Waits until the command is to be terminated. It can be cancelled and called again.
    pub(super) async fn wants_end(&mut self) {
        if !self.gone && !matches!(read(&self.socket).await, Ok(Some(_))) {
            self.gone = true;
        }
        if self.gone && !self.tied {
            pending().await
        }
    }
}

/// Waits for the next byte; `None` at the end.
async fn read(socket: &UnixStream) -> io::Result<Option<u8>> {
    let mut byte = [0];
    loop {
        socket.readable().await?;
        match socket.try_read(&mut byte) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The process at the other end was killed with something unread.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            length => return Ok((length? > 0).then_some(byte[0])),
        }
    }
}
