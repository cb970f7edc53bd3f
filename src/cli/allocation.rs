//! `ar run --requeue`: a loop that is itself a batch job of Slurm.

use std::env;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use autoresearch::domain::{Contract, StopReason, duration_text};
use autoresearch::rules::{JOB_START, slurm_duration};
use jiff::Timestamp;

use super::error::CliError;
use super::output;

/// The batch job that this process is.
#[derive(Debug, Clone)]
pub(super) struct Allocation {
    id: String,
    /// When Slurm ends it, as the time since 1970, if that is known.
    end: Option<Duration>,
    /// How often Slurm has started it again.
    restarts: u32,
    /// Set once the loop ends because the job does.
    ends: Arc<AtomicBool>,
}

/// When a loop in a job is asked to end, from now.
#[derive(Debug, Clone, Default)]
pub(super) struct JobLimits {
    /// Once the experiment that is open is over.
    pub(super) after_experiment: Option<Duration>,
    /// At once, with what is open left for the next start.
    pub(super) at_once: Option<Duration>,
    /// Set when one of them, or the signal USR1, has asked.
    pub(super) asked: Arc<AtomicBool>,
}

impl Allocation {
    /// The job of this process.
    ///
    /// # Errors
    ///
    /// It is none.
    pub(super) fn of_this_process() -> Result<Allocation, CliError> {
        let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let Some(id) = set("SLURM_JOB_ID") else {
            let hint = "submit a script with `sbatch` that ends in `exec ar run --requeue --tag TAG ...`";
            return Err(CliError::usage("--requeue is for a batch job of Slurm", hint));
        };
        let end = set("SLURM_JOB_END_TIME").and_then(|end| end.parse().ok()).or_else(|| end_by_controller(&id));
        Ok(Allocation {
            end: end.map(Duration::from_secs),
            restarts: set("SLURM_RESTART_COUNT").and_then(|count| count.parse().ok()).unwrap_or_default(),
            ends: Arc::default(),
            id,
        })
    }

    /// Returns whether Slurm has started the job again.
    pub(super) fn is_again(&self) -> bool {
        self.restarts > 0
    }

    /// When a loop by this contract is to end: early enough for the run that is going on to reach its own time limit, and at the
    /// latest with time to put everything in order.
    ///
    /// # Errors
    ///
    /// There is no time for a single run.
    pub(super) fn limits(&self, contract: &Contract) -> Result<JobLimits, CliError> {
        let needed = contract.timeout + contract.grace + JOB_START;
        let left = self.end.map(|end| end.saturating_sub(unix_time()));
        if let Some(left) = left.filter(|left| *left <= needed) {
            let (left, needed) = (duration_text(Duration::from_secs(left.as_secs())), duration_text(needed));
            let what = format!(
                "job {} has {left} left, and a run may take {needed} with what goes before and after it",
                self.id
            );
            return Err(CliError::usage(what, "give the job more time (`#SBATCH --time`), or lower --timeout"));
        }
        let before = |needed: Duration| left.map(|left| left.saturating_sub(needed));
        Ok(JobLimits {
            after_experiment: before(needed),
            at_once: before(contract.grace + JOB_START / 2),
            asked: Arc::clone(&self.ends),
        })
    }

    /// Asks Slurm to start the job again, if the loop has ended because the job does. Returns whether it did.
    ///
    /// # Errors
    ///
    /// Slurm refuses.
    pub(super) fn requeue(&self, reason: &StopReason) -> Result<bool, CliError> {
        let is_cut_short = matches!(reason, StopReason::Interrupted { requested: false } | StopReason::Detached);
        if !is_cut_short || !self.ends.load(Ordering::Relaxed) {
            return Ok(false);
        }
        output::note(&format!("the time of job {} is over; it goes on when Slurm starts it again", self.id));
        let asked = Command::new("scontrol").args(["requeue", &self.id]).output();
        let why = match asked {
            Ok(output) if output.status.success() => return Ok(true),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => format!("scontrol: {error}"),
        };
        let hint = "write `#SBATCH --requeue` into the script, and submit it again: it goes on with the session";
        Err(CliError::new(format!("job {} cannot be put back into the queue: {why}", self.id), Some(hint.into())))
    }
}

/// The time since 1970.
fn unix_time() -> Duration {
    Duration::from_secs(Timestamp::now().as_second().try_into().unwrap_or_default())
}

/// The end of a job in seconds since 1970, by the controller: Slurm before 22.05 does not put it into the environment.
fn end_by_controller(id: &str) -> Option<u64> {
    let output = Command::new("squeue").args(["--noheader", "--job", id, "--format=%L"]).output().ok()?;
    let left = slurm_duration(String::from_utf8_lossy(&output.stdout).trim())?;
    Some((unix_time() + left).as_secs())
}
