//! Writing to standard output and standard error, which may be gone: a closed pipe or terminal stops nothing. Long answers are
//! shown page by page.

use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::{env, fs, io};

use serde::Serialize;
use serde_json::Value;

use autoresearch::domain::{json_text, write_json};
use autoresearch::exec::leave_interrupts_to_others;
use autoresearch::measure::PlainText;
use autoresearch::report::{Glyphs, in_ascii};

/// The bytes of an answer to gather before each write: the capacity of a pipe.
const CHUNK: usize = 64 << 10;

/// True if the last write that began goes to a terminal.
static TO_TERMINAL: AtomicBool = AtomicBool::new(false);

/// Set once nothing more may be written.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Options for all output.
static MANNERS: OnceLock<Manners> = OnceLock::new();

/// Options for all output, set once.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Manners {
    /// True if long answers go to the terminal without a pager.
    pub(super) no_pager: bool,
    /// True if notes and progress are omitted.
    pub(super) quiet: bool,
    /// True if skipped items are printed too.
    pub(super) verbose: bool,
}

/// Sets the options; later calls have no effect.
pub(super) fn set_manners(manners: Manners) {
    let _ = MANNERS.set(manners);
}

/// The options, or the default ones if none are set.
pub(super) fn manners() -> Manners {
    MANNERS.get().copied().unwrap_or_default()
}

/// The cause of the first failed write to a file.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Notes that a write begins. Returns false if nothing more may be written.
fn begin(stream: &impl IsTerminal) -> bool {
    TO_TERMINAL.store(stream.is_terminal(), Ordering::Relaxed);
    !GIVEN_UP.load(Ordering::Relaxed)
}

/// Notes that live lines begin to draw on standard error.
pub(super) fn begin_drawing() {
    begin(&io::stderr());
}

/// Returns whether a write that does not finish is blocked by a terminal.
pub(super) fn waits_for_terminal() -> bool {
    TO_TERMINAL.load(Ordering::Relaxed)
}

/// Writes nothing more: a write that another thread has begun does not come to its end, and the next one would wait
/// for it.
pub(super) fn give_up() {
    GIVEN_UP.store(true, Ordering::Relaxed);
}

/// The files that standard output and standard error go to, where the system names them.
pub(super) fn files() -> Vec<PathBuf> {
    let named = ["1", "2"].iter().filter_map(|stream| fs::read_link(Path::new("/proc/self/fd").join(stream)).ok());
    named.filter(|path| path.is_file()).collect()
}

/// Remembers why an answer is not whole. Who has closed a pipe or a terminal wants no more of it.
fn note_failure(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
        && !is_terminal()
    {
        let _ = FAILURE.set(error);
    }
}

/// The reason that output to a file is incomplete.
pub(super) fn failure() -> Option<&'static io::Error> {
    FAILURE.get()
}

/// Writes a line to standard output.
pub(super) fn line(text: &str) {
    self::text(&format!("{text}\n"));
}

/// Writes text that already ends its lines to standard output.
pub(super) fn text(text: &str) {
    if begin(&io::stdout()) {
        let is_plain = io::stdout().is_terminal() && glyphs() == Glyphs::Ascii;
        let text = if is_plain { &in_ascii(text, width()) } else { text };
        let mut paged = anstream::AutoStream::new(Vec::new(), anstream::AutoStream::choice(&io::stdout()));
        if write!(paged, "{text}").is_ok() && write(&paged.into_inner()) {
            return;
        }
        let mut out = anstream::stdout().lock();
        note_failure(write!(out, "{text}").and_then(|()| out.flush()));
    }
}

/// Writes bytes to standard output as they are.
pub(super) fn bytes(bytes: &[u8]) {
    if begin(&io::stdout()) {
        note_failure(PagedOutput.write_all(bytes).and_then(|()| PagedOutput.flush()));
    }
}

/// Writes bytes of others, such as a diff or a log: to a terminal without what it would obey, elsewhere as they are.
pub(super) fn untrusted(bytes: &[u8]) {
    if io::stdout().is_terminal() {
        let mut plain = PlainText::default();
        let text = [plain.push(bytes), plain.finish()].concat();
        self::bytes(&text);
    } else {
        self::bytes(bytes);
    }
}

/// Writes a JSON document on one line to standard output.
pub(super) fn json_line(value: &Value) {
    bytes((json_text(value, false) + "\n").as_bytes());
}

/// Writes a JSON document, indented, to standard output, while it is being made.
pub(super) fn json(value: &impl Serialize) {
    if begin(&io::stdout()) {
        let mut out = BufWriter::with_capacity(CHUNK, PagedOutput);
        note_failure(write_json(&mut out, value, true).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()));
    }
}

/// The pager, else standard output.
struct PagedOutput;

impl Write for PagedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !write(bytes) {
            io::stdout().lock().write_all(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().lock().flush()
    }
}

/// Writes a line to standard error, unless only errors are wanted.
pub(super) fn note(text: &str) {
    if !manners().quiet {
        complaint(text);
    }
}

/// Writes a line of an error to standard error.
pub(super) fn complaint(text: &str) {
    if begin(&io::stderr()) {
        let mut err = anstream::stderr().lock();
        let _ = writeln!(err, "{text}");
    }
}

/// Returns whether standard output is a terminal.
pub(super) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Returns whether `ar` can ask the user.
pub(super) fn is_interactive() -> bool {
    io::stdin().is_terminal() && is_terminal()
}

/// The width of the terminal in columns, if standard output is one.
pub(super) fn width() -> Option<u16> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0)
}

/// The width of the terminal in columns, if standard error is one.
pub(super) fn note_width() -> Option<u16> {
    terminal_size::terminal_size_of(io::stderr()).map(|(width, _)| width.0)
}

/// The characters for charts: lines and dots if the locale uses UTF-8.
pub(super) fn glyphs() -> Glyphs {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(env::var_os).find(|value| !value.is_empty());
    let locale = locale.unwrap_or_default().to_string_lossy().to_lowercase();
    if locale.contains("utf-8") || locale.contains("utf8") { Glyphs::Unicode } else { Glyphs::Ascii }
}

/// The standard input of the pager while there is one.
static PIPE: Mutex<Option<ChildStdin>> = Mutex::new(None);

/// A pager that takes all that is printed to standard output, until it is dropped: then the user is waited for.
pub(super) struct Pager(Child);

/// Shows all that is printed to standard output in the user's pager until the result is dropped: `$AR_PAGER`, else `$PAGER`, else
/// `less`. As with git, an empty one and `cat` mean none, and `less` quits by itself if the answer fits on the screen. There is
/// none without a terminal, and none with `--no-pager`.
pub(super) fn paged() -> Option<Pager> {
    if manners().no_pager || !is_terminal() {
        return None;
    }
    let chosen = ["AR_PAGER", "PAGER"].iter().find_map(|name| env::var(name).ok());
    let pager = match chosen {
        Some(pager) if pager.trim().is_empty() || pager.trim() == "cat" => return None,
        Some(pager) => pager,
        None => "less".to_owned(),
    };
    // A missing pager must not lose the answer.
    let found =
        Command::new("sh").args(["-c", "command -v -- \"$1\"", "sh", pager.split_whitespace().next()?]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        return None;
    }
    let mut command = Command::new("sh");
    command.arg("-c").arg(&pager).stdin(Stdio::piped());
    for (name, value) in [("LESS", "FRX"), ("LV", "-c")] {
        if env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    let mut child = command.spawn().ok()?;
    // The pager has Ctrl-C to itself.
    leave_interrupts_to_others();
    *PIPE.lock().unwrap_or_else(PoisonError::into_inner) = child.stdin.take();
    Some(Pager(child))
}

/// Writes to the pager, where there is one; gives whether there is. What comes when the user has left it goes nowhere.
pub(super) fn write(bytes: &[u8]) -> bool {
    let mut pipe = PIPE.lock().unwrap_or_else(PoisonError::into_inner);
    pipe.as_mut().map(|pager| pager.write_all(bytes)).is_some()
}

impl Drop for Pager {
    fn drop(&mut self) {
        PIPE.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = self.0.wait();
    }
}
