//! By what a job is known to its engine.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::super::Job;
use super::super::environment::{boot_id, host_name};
use crate::domain::Cluster;

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
    /// True once the job is known to be over without an exit that counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
}

impl Ticket {
    /// A ticket for a new start of `job`.
    pub(in super::super) fn new(cluster: &Cluster, job: &Job) -> Ticket {
        let submitted = Timestamp::now();
        Ticket { token: new_token(job), cluster: cluster.clone(), submitted, id: None, cancelled: false, ended: false }
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

/// What is submitted.
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
    /// How long the job may take at most.
    pub(super) limit: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

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
