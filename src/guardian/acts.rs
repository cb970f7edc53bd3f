//! The actions of a patrol: restarting a loop, or nudging its driver. Both continue without the patrol.

use std::process::Command;
use std::time::Duration;

use super::facts::Seen;
use super::nudge_text::nudge_text;
use super::program::{log_to, own_program, own_variables, without_own_variables};
use super::service_error::ServiceError;
use crate::domain::{DEFAULT_GRACE, Tag, cut, with_causes};
use crate::exec::{Executor, Job, in_own_session};
use crate::fs::{create_folder, read_regular, read_tail, write_atomic};
use crate::measure::plain_text;
use crate::state::GuardianFiles;

/// The file with the output of the last restart.
const RESUME_LOG: &str = "resume.log";

/// Longest error to report from it, in characters, without the ellipsis.
const TOLD: usize = 199;

/// The name of a nudge's job.
const NUDGE: &str = "nudge";

/// Time limit for the agent of a nudge: it is the driver from then on, and drives for a night.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Number of bytes to keep of its output.
const OUTPUT: u64 = 1024 * 1024;

/// Restarts the loop of a session by its stored terms, detached; why that failed, if it did.
pub(super) fn restart(seen: &Seen, tag: &Tag, files: &GuardianFiles) -> Result<(), String> {
    let start = || -> Result<(), ServiceError> {
        let program = own_program()?;
        let mut command = Command::new(&program);
        command.args(["resume", "--tag", tag.as_str()]).current_dir(&seen.worktree);
        log_to(&mut command, &files.folder().join(RESUME_LOG));
        in_own_session(without_own_variables(&mut command));
        command.spawn().map(drop).map_err(|source| ServiceError::Start { program, source })
    };
    start().map_err(|error| with_causes(&error))
}

/// The error that the last restart ended with, if it did.
pub(super) fn said_by_resume(files: &GuardianFiles) -> Option<String> {
    let log = read_tail(&files.folder().join(RESUME_LOG), 0).ok()?;
    let text = plain_text(&log);
    // Causes and hints follow it.
    let line = text.lines().rfind(|line| line.starts_with("error:"))?;
    Some(cut(line, TOLD))
}

/// Calls the nudge command of a session, detached and under a shim. An earlier call that is still there is ended first.
pub(super) async fn nudge(seen: &Seen, tag: &Tag, files: &GuardianFiles, why: &str) -> Result<(), String> {
    let Some(command) = &seen.nudge else { return Ok(()) };
    let own: Vec<_> = own_variables().filter_map(|name| name.into_string().ok()).collect();
    let (folder, executor) = (files.folder().join(NUDGE), Executor::local());
    executor.stop(&folder, NUDGE).await.map_err(|error| with_causes(&error))?;
    create_folder(&folder).map_err(|error| with_causes(&error))?;
    let state = seen.folder.state();
    let task = read_regular(&state.join("task_spec.md")).unwrap_or_default();
    let text = nudge_text(tag, why, seen.watched.driver, &String::from_utf8_lossy(&task), &seen.journal);
    let prompt = folder.join("prompt.md");
    write_atomic(&prompt, text.as_bytes()).map_err(|error| with_causes(&error))?;
    let job = Job {
        name: NUDGE.into(),
        command: without(&own, command),
        cwd: seen.worktree.clone(),
        log: files.folder().join("nudge.log"),
        log_limit: Some(OUTPUT),
        stdin: Some(prompt),
        env: vec![("AR_TAG".into(), tag.to_string()), ("AR_STATE_DIR".into(), state.to_string_lossy().into_owned())],
        timeout: LIMIT,
        grace: DEFAULT_GRACE,
        folder,
        ..Job::default()
    };
    executor.start(&job).map(drop).map_err(|error| with_causes(&error))
}

/// A command for a shell that clears these variables first, but for those that a nudge has.
fn without(names: &[String], command: &str) -> String {
    let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let cleared: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| is_plain(name) && !["AR_TAG", "AR_STATE_DIR"].contains(name))
        .collect();
    if cleared.is_empty() { command.to_owned() } else { format!("unset {}\n{command}", cleared.join(" ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nudge_has_no_variables_but_its_own() {
        let names = ["AR_TAG", "AR_CLOCK", "AR_ODD-NAME", "AR_METRIC", "AR_STATE_DIR"].map(str::to_owned);
        assert_eq!(without(&names, "claude -p"), "unset AR_CLOCK AR_METRIC\nclaude -p");
        assert_eq!(without(&[], "claude -p"), "claude -p");
    }
}
