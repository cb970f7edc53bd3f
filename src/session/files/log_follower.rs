//! The log of a run, read while it is written or afterwards.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::domain::{Composite, Contract, MetricSpec};
use crate::fs::{open_regular, standing};
use crate::measure::{LogSummary, PatternError, Scanner};
use crate::session::errors::SessionError;
use crate::state::plain_log;

/// Size of one read of a log, in bytes.
const CHUNK: usize = 256 * 1024;

/// Summarises the log at `path` by its metric, or by the axes of a composite, compressed or not; `-` is standard input. If a
/// log is still growing, this is its summary so far.
///
/// # Errors
///
/// The log cannot be read, or the metric cannot be looked for.
pub fn read_log(path: &Path, metric: &MetricSpec, axes: Option<&Composite>) -> Result<LogSummary, SessionError> {
    let mut scanner = Scanner::new(metric)?.with_axes(axes);
    let mut read = || -> io::Result<()> {
        let is_input = path == Path::new("-");
        let mut log = if is_input { plain_log(io::stdin().lock())? } else { plain_log(File::open(path)?)? };
        let mut buffer = vec![0; CHUNK];
        loop {
            match log.read(&mut buffer)? {
                0 => return Ok(()),
                count => scanner.push(&buffer[..count]),
            }
        }
    };
    read().map_err(|source| SessionError::Io { action: "read", path: path.to_owned(), source })?;
    Ok(scanner.finish())
}

/// Reads a log as it grows.
pub(crate) struct LogFollower {
    path: PathBuf,
    spec: MetricSpec,
    axes: Option<Composite>,
    file: Option<File>,
    /// True if the file is the one that the command writes to, even if its name now leads elsewhere.
    is_held: bool,
    /// Number of bytes read from the file.
    taken: u64,
    /// Its first bytes, which reveal a log that was begun again.
    head: Vec<u8>,
    pub(crate) scanner: Scanner,
    buffer: Vec<u8>,
}

impl LogFollower {
    /// Number of first bytes that are compared.
    const HEAD: usize = 4096;
    /// Maximum number of bytes read in one poll, so that a flood cannot block the loop.
    const LOOK: u64 = 256 * 1024 * 1024;

    /// Follows the log at `path` for the numbers that decide.
    pub(crate) fn new(path: PathBuf, contract: &Contract) -> Result<Self, PatternError> {
        let (spec, axes) = (&contract.metric, contract.deciding_composite());
        let scanner = Scanner::new(spec)?.with_axes(axes);
        Ok(LogFollower {
            path,
            spec: spec.clone(),
            axes: axes.cloned(),
            file: None,
            is_held: false,
            taken: 0,
            head: Vec::new(),
            scanner,
            buffer: vec![0; CHUNK],
        })
    }

    /// Reads the file that the command writes to, if it is given, whatever the log's name leads to.
    pub(crate) fn hold(&mut self, log: Option<File>) {
        (self.is_held, self.file) = (log.is_some(), log);
    }

    /// Begins again if the log's name leads to another file by now: then the shim has restored the log, and what was read did
    /// not come from the command.
    pub(crate) fn follow_name(&mut self) {
        if self.is_held {
            return;
        }
        let held = self.file.as_ref().and_then(|file| file.metadata().ok());
        let named = fs::metadata(&self.path).ok();
        if let (Some(held), Some(named)) = (held, named)
            && (held.dev(), held.ino()) != (named.dev(), named.ino())
        {
            self.file = None;
        }
    }

    /// Restores the deleted log of a finished run, if its file is held.
    pub(crate) fn restore(&mut self) -> io::Result<()> {
        let Some(file) = self.file.as_mut().filter(|_| self.is_held && !self.path.exists()) else { return Ok(()) };
        standing(&self.path, || {
            file.rewind()?;
            io::copy(file, &mut File::create_new(&self.path)?).map(drop)
        })
    }

    /// Reads what was added. Returns whether it reached the end.
    pub(crate) fn look(&mut self) -> Result<bool, SessionError> {
        let failed = |source| SessionError::Io { action: "read", path: self.path.clone(), source };
        if self.file.is_none() {
            match open_regular(&self.path) {
                Ok(file) => self.file = Some(file),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
                Err(error) => return Err(failed(error)),
            }
        }
        let Some(file) = &mut self.file else { return Ok(true) };
        // A command that redirects into run.log itself begins the log again; earlier output does not count.
        let mut head = vec![0; self.head.len()];
        let is_new = match file.read_exact_at(&mut head, 0) {
            Ok(()) => head != self.head || file.metadata().map_err(failed)?.len() < self.taken,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => true,
            Err(error) => return Err(failed(error)),
        };
        if is_new {
            file.rewind().map_err(failed)?;
            self.scanner = Scanner::new(&self.spec)?.with_axes(self.axes.as_ref());
            self.taken = 0;
            self.head.clear();
        }
        let end = self.taken + Self::LOOK;
        while self.taken < end {
            let count = file.read(&mut self.buffer).map_err(failed)?;
            if count == 0 {
                return Ok(true);
            }
            let read = &self.buffer[..count];
            let missing = Self::HEAD.saturating_sub(self.head.len()).min(count);
            if self.taken == self.head.len() as u64 {
                self.head.extend_from_slice(&read[..missing]);
            }
            self.scanner.push(read);
            self.taken += count as u64;
        }
        Ok(false)
    }
}
