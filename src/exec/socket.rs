//! The socket between `ar` and a shim that it started. Each end is closed when the other's process is gone.

use std::fs::File;
use std::future::pending;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net;

use rustix::cmsg_space;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use tokio::net::UnixStream;

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
