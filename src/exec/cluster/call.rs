//! Runs a program that speaks to an engine.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::super::beat::runtime;
use super::super::job::MARKER;
use super::super::running::kill_marked;
use super::super::shim::shell;
use super::super::unix;
use crate::crash;

/// How long a command may take.
const LIMIT: Duration = Duration::from_secs(30);

/// The longest answer that is read, in bytes: a line for each of a hundred thousand jobs.
const LARGEST: u64 = 32 << 20;

/// The most characters that are told of a failure.
const LONGEST: usize = 400;

/// Numbers the calls of this process.
static CALLS: AtomicU32 = AtomicU32::new(0);

/// The reason that there is no answer, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoAnswer(pub(super) String);

/// Runs a command line with this input, and returns what it printed. Without an exit status of 0 within 30 s there is no answer, and
/// its process tree is ended; what it left in the background otherwise goes on, as the jobs of a simple engine do. It ends with this
/// process. Variables of this process that are `unset` are kept from it.
pub(super) fn call(line: &str, input: &[u8], unset: impl Fn(&str) -> bool) -> Result<Vec<u8>, NoAnswer> {
    let unable = |error: io::Error| NoAnswer(error.to_string());
    // Files, since what it leaves in the background would hold pipes open.
    let file = || tempfile::tempfile().map_err(unable);
    let (mut given, mut answer, mut errors) = (file()?, file()?, file()?);
    given.write_all(input).and_then(|()| given.rewind()).map_err(unable)?;
    let copy = |file: &File| file.try_clone().map_err(unable);
    let marker = format!("engine-{}-{}", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed));
    let mut command = duct::cmd(shell(), ["-c", line])
        .stdin_file(given)
        .stdout_file(copy(&answer)?)
        .stderr_file(copy(&errors)?)
        .unchecked()
        .env(MARKER, &marker)
        .dir("/");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(&unset) {
            command = command.env_remove(name);
        }
    }
    let command = command.before_spawn(|command: &mut Command| {
        unix::end_with_this_thread(command.process_group(0));
        Ok(())
    });
    let handle = command.start().map_err(unable)?;
    let group = handle.pids().first().and_then(|pid| Pid::from_raw(i32::try_from(*pid).ok()?));
    let status = match handle.wait_timeout(crash::wait(LIMIT)) {
        Ok(Some(output)) => output.status,
        Ok(None) => {
            end(group, &marker);
            return Err(NoAnswer(format!("no answer within {} s", LIMIT.as_secs())));
        }
        Err(error) => return Err(unable(error)),
    };
    let printed = content(&mut answer).map_err(unable)?;
    if status.success() {
        return Ok(printed);
    }
    let said = [content(&mut errors).unwrap_or_default(), printed];
    let said = said.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
    let said = said.into_iter().find(|text| !text.is_empty()).unwrap_or_else(|| status.to_string());
    Err(NoAnswer(said.chars().take(LONGEST).collect::<String>().replace('\n', " ")))
}

fn content(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Kills the processes of a call: its process group, and what has left it.
fn end(group: Option<Pid>, marker: &str) {
    if let Some(group) = group {
        // It may be gone.
        let _ = kill_process_group(group, Signal::KILL);
    }
    // What hides from this process goes on.
    let _ = runtime().map(|runtime| runtime.block_on(kill_marked(Path::new(marker))));
}

/// Returns whether a program can be found, as a shell would.
pub(super) fn is_there(program: &str) -> bool {
    let found = Command::new(shell()).args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn an_answer_is_what_was_printed_and_a_failure_tells_its_last_words() {
        let ask = |line: &str| call(line, b"in", |_| false);
        assert_eq!(ask("cat; echo out"), Ok(b"inout\n".to_vec()));
        assert_eq!(ask("echo partial; echo wrong >&2; exit 3"), Err(NoAnswer("wrong".into())));
        assert!(ask("exit 3").is_err_and(|NoAnswer(why)| why.contains('3')));
    }

    #[test]
    fn what_stays_in_the_background_is_not_waited_for() {
        let begun = Instant::now();
        assert_eq!(call("sleep 20 & echo started", b"", |_| false), Ok(b"started\n".to_vec()));
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn what_is_unset_is_not_there() {
        let home = call("echo \"[$HOME]\"", b"", |name| name == "HOME");
        assert_eq!(home, Ok(b"[]\n".to_vec()));
    }
}
