//! Calls of a program that speaks to an engine, and the ticket by which the engine knows a job.

use std::fs::File;
use std::io;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::super::Job;
use crate::crash;
use crate::domain::Cluster;
use crate::exec::{MARKER, boot_id, host_name, kill_group, kill_marked, runtime, shell, start_in_own_group};

/// Time limit of a command.
const LIMIT: Duration = Duration::from_secs(25);

/// The longest answer that is read, in bytes: a line for each of a hundred thousand jobs.
const LARGEST: u64 = 32 << 20;

/// The most characters that are told of a failure.
const LONGEST: usize = 400;

/// Numbers the calls of this process.
static CALLS: AtomicU32 = AtomicU32::new(0);

/// The reason that there is no answer, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoAnswer(pub(super) String);

/// Runs a command line with this input, and returns what it printed. Without an exit status of 0 within 25 s there is no answer, and
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
    let (handle, group) = start_in_own_group(command).map_err(unable)?;
    let status = match handle.wait_timeout(crash::limit(LIMIT)) {
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
    kill_group(group);
    // A process that hides from this one continues.
    let _ = runtime().map(|runtime| runtime.block_on(kill_marked(Path::new(marker))));
}

/// Returns whether a program can be found, as a shell would.
pub fn is_in_path(program: &str) -> bool {
    let found = Command::new(shell()).args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// The beginning of all tokens.
pub(super) const TOKENS: &str = "ar-";

/// The part of a job's file about its engine. It is written before the job is submitted, so that a process which is killed
/// then leaves the token by which the job is found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// The name of this start of the job at its engine; no other start has it.
    pub token: String,
    /// The engine, and how long it may not know the job.
    pub cluster: Cluster,
    /// When it was written.
    #[serde(with = "crate::domain::millis")]
    pub submitted: Timestamp,
    /// The engine's name for the job, once it said one. Engines use names anew, so that it says nothing without the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// True if its end was asked for here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
    /// Why the engine does not answer, and when it is asked again, while it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away: Option<String>,
    /// True once the job is known to be over without an exit that counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
}

impl Ticket {
    /// A ticket for a new start of `job`.
    pub(in super::super) fn new(cluster: &Cluster, job: &Job) -> Ticket {
        let submitted = Timestamp::now();
        let (token, cluster) = (new_token(job), cluster.clone());
        Ticket { token, cluster, submitted, id: None, cancelled: false, away: None, ended: false }
    }
}

/// The value of a variable of the job's own.
fn variable<'a>(job: &'a Job, name: &str) -> &'a str {
    job.env.iter().rev().find(|(known, _)| known == name).map_or("", |(_, value)| value)
}

/// Names the session, the experiment and the job, for whoever looks at the queue, and a number that no other start has.
fn new_token(job: &Job) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let unique = format!("{:?} {} {} {:?}", now, std::process::id(), host_name(), boot_id());
    let hash = Sha256::new().chain_update(&unique).chain_update(job.folder.as_os_str().as_encoded_bytes()).finalize();
    let hash: String = hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let part = |text: &str| -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.') { c } else { '-' };
        text.chars().take(24).map(plain).collect()
    };
    let further = job.folder.file_name().unwrap_or_default().to_string_lossy();
    let is_numbered = further.chars().all(|c| c.is_ascii_digit());
    let which = if is_numbered { job.name.clone() } else { further.into_owned() };
    format!(
        "{TOKENS}{}-{}-{}-{hash}",
        part(variable(job, "AR_TAG")),
        part(variable(job, "AR_EXPERIMENT")),
        part(&which)
    )
}

/// The command that starts the shim of a job elsewhere, as its arguments.
pub(super) fn shim_command(program: &Path, job_file: &Path, token: &str) -> Vec<String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    vec![text(program), super::super::SHIM_ARGUMENT.to_owned(), text(job_file), token.to_owned()]
}

/// A submission.
#[derive(Debug, Clone)]
pub(super) struct Submission {
    pub(super) token: String,
    /// The engine's name for it, once it is there.
    pub(super) id: Option<String>,
    pub(super) command: Vec<String>,
    /// A file for what the job prints outside of its log.
    pub(super) output: String,
    /// Variables of the job's own.
    pub(super) env: Vec<(String, String)>,
    /// Time limit of the job.
    pub(super) limit: Duration,
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

    #[test]
    fn a_token_names_the_job_and_no_two_starts_have_the_same() {
        let env = vec![("AR_TAG".to_owned(), "a/b c".to_owned()), ("AR_EXPERIMENT".to_owned(), "7".to_owned())];
        let job = Job { name: "run".into(), folder: "/r/0007".into(), env, ..Job::default() };
        let [one, other] = [new_token(&job), new_token(&job)];
        assert!(one.starts_with("ar-a-b-c-7-run-"), "{one}");
        assert_ne!(one, other);
        let fresh = Job { folder: "/r/0007/candidate-2".into(), ..job };
        assert!(new_token(&fresh).starts_with("ar-a-b-c-7-candidate-2-"));
    }
}
