//! The program that long answers are shown in, page by page.

use std::env;
use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use autoresearch::exec::leave_interrupts_to_others;

/// The standard input of the pager while there is one.
static PIPE: Mutex<Option<ChildStdin>> = Mutex::new(None);

/// A pager that takes all that is printed to standard output, until it is dropped: then the user is waited for.
pub(super) struct Pager(Child);

/// Starts the user's pager: `$AR_PAGER`, else `$PAGER`, else `less`. As with git, an empty one and `cat` mean none, and
/// `less` quits by itself if the answer fits on the screen.
pub(super) fn start() -> Option<Pager> {
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
