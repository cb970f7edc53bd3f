//! What processes behind a wall may still say: requests to their job's shim, which lives outside.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::Job;
use super::job::{JobFiles, MARKER};
use super::tree::jobs_above;

/// The longest request and the longest reply that are read, in bytes.
const LARGEST: u64 = 64 << 10;

/// The longest wait for the next bytes of a request or of a reply.
const PATIENCE: Duration = Duration::from_secs(30);

/// The answer to a request of a process of a job.
pub type Answer = fn(&Job, &str) -> Reply;

/// What a shim replies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// It was done, with a line that says so.
    Done(String),
    /// It was not, with the reason.
    Refused(String),
}

/// The socket of a job.
pub(super) struct Requests(UnixListener);

impl Requests {
    /// Makes the socket of a job behind a wall that answers requests.
    pub(super) fn of(job: &Job, files: &JobFiles) -> Option<Requests> {
        let path = socket_of(&files.job);
        let _ = fs::remove_file(&path);
        let is_answered = job.answers && job.wall.is_some();
        // Without it, the command can say less, and runs.
        is_answered.then(|| at_short_path(&path, |short| UnixListener::bind(short)).ok().map(Requests)).flatten()
    }

    /// Answers what processes behind the wall of `inside` ask, in a thread that ends with this process.
    pub(super) fn serve(self, inside: Pid, job: &Job, answer: Answer) {
        let (job, wall) = (job.clone(), mounts_of(inside));
        let _ = thread::Builder::new().spawn(move || {
            for stream in self.0.incoming().flatten() {
                // Who asks and goes away needs no reply.
                let _ = reply(stream, wall.as_deref(), |request| answer(&job, request));
            }
        });
    }
}

/// Removes the socket of a job that is over.
pub(super) fn remove_socket(files: &JobFiles) {
    let _ = fs::remove_file(socket_of(&files.job));
}

fn reply(stream: UnixStream, wall: Option<&Path>, answer: impl FnOnce(&str) -> Reply) -> io::Result<()> {
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
fn peer(stream: &UnixStream) -> Option<Pid> {
    rustix::net::sockopt::socket_peercred(stream).ok().map(|peer| peer.pid)
}

#[cfg(not(target_os = "linux"))]
fn peer(_: &UnixStream) -> Option<Pid> {
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
    let stream = at_short_path(&socket, |short| UnixStream::connect(short))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // Who refuses to listen has answered already.
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
