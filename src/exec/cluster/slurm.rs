//! Slurm, by its own commands.

use std::path::Path;

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::{JobReport, NoAnswer, Submission, TOKENS, call};
use crate::domain::shell_word;
use crate::rules::{EngineWord, JobState, slurm_limit};

/// The fields of a job in the queue. Its name may have spaces where it is none of `ar`'s, so that it comes last.
const FIELDS: &str = "JobID:30,State:30,RestartCnt:12,Name:250";

/// Hours before the first submission from which accounting is queried, since clocks differ.
const MARGIN_HOURS: i64 = 26;

/// Variables of an allocation that `ar` itself may run in: they are none of the jobs that it submits.
fn is_of_allocation(name: &str) -> bool {
    (name.starts_with("SLURM_") && !matches!(name, "SLURM_CONF" | "SLURM_CONF_SERVER"))
        || (name.starts_with("SLURMD_") || name.starts_with("PMI"))
}

/// Submits a job, and returns its id.
pub(super) fn submit(sbatch: &str, job: &Submission) -> Result<String, NoAnswer> {
    let word = |text: &str| shell_word(Path::new(text));
    let script: Vec<String> = job.command.iter().map(|argument| word(argument)).collect();
    let minutes = job.limit.as_secs().div_ceil(60).max(1);
    let limit = if slurm_limit(sbatch).is_some() || std::env::var_os("SBATCH_TIMELIMIT").is_some() {
        String::new()
    } else {
        format!(" --time={minutes}")
    };
    // The last of repeated options counts.
    let line = format!(
        "exec sbatch --output={output} --open-mode=append --chdir=/{limit} {sbatch} --parsable --job-name={token} \
         --comment={token} --wrap={script}",
        output = word(&job.output.replace('%', "%%")),
        token = job.token,
        script = word(&format!("exec {}", script.join(" "))),
    );
    let printed = call(&line, b"", is_of_allocation)?;
    // `id` or `id;cluster`.
    let printed = String::from_utf8_lossy(&printed);
    let id = printed.lines().last().unwrap_or_default().split(';').next().unwrap_or_default().trim().to_owned();
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NoAnswer(format!("sbatch printed `{}` in place of a job's id", printed.trim())));
    }
    Ok(id)
}

/// Asks for all jobs in the queue, ended ones too.
pub(super) fn queue() -> Result<Vec<JobReport>, NoAnswer> {
    let printed = call(&format!("exec squeue --me --states=all --noheader --Format={FIELDS}"), b"", is_of_allocation)?;
    Ok(String::from_utf8_lossy(&printed).lines().filter_map(in_queue).collect())
}

/// Asks accounting for these jobs.
pub(super) fn accounting(tokens: &[String], since: Timestamp) -> Result<Vec<JobReport>, NoAnswer> {
    let start = since.checked_sub(MARGIN_HOURS.hours()).unwrap_or(since).to_zoned(TimeZone::system());
    let line = format!(
        "exec sacct --allocations --duplicates --noheader --parsable2 --starttime={} --endtime=now --name={} \
         --format=JobIDRaw,State,JobName",
        start.strftime("%Y-%m-%dT%H:%M:%S"),
        tokens.join(","),
    );
    let printed = call(&line, b"", is_of_allocation)?;
    Ok(last_of_each(String::from_utf8_lossy(&printed).lines().filter_map(in_accounting)))
}

/// The last line of each job, which has one for each time that it was put back into the queue. What accounting says is open may have
/// been lost by the controller long ago, and the queue would name it.
fn last_of_each(lines: impl Iterator<Item = JobReport>) -> Vec<JobReport> {
    let mut all: Vec<JobReport> = Vec::new();
    for mut line in lines {
        let before = all.iter().position(|known| known.token == line.token && known.id == line.id);
        if let Some(before) = before.map(|index| all.remove(index)) {
            line.word.restarts = before.word.restarts + 1;
        }
        all.push(line);
    }
    all.retain(|told| !told.word.state.is_open());
    all
}

/// Cancels jobs by their tokens.
pub(super) fn cancel(tokens: &[String]) -> Result<(), NoAnswer> {
    let cancelled = tokens.iter().map(|token| call(&format!("exec scancel --name={token}"), b"", is_of_allocation));
    // One that fails keeps none of the others.
    cancelled.collect::<Vec<_>>().into_iter().try_for_each(|cancelled| cancelled.map(drop))
}

/// Cancels one of several jobs with the same token. An id that was given to another job since hits nothing.
pub(super) fn cancel_id(id: &str, token: &str) -> Result<(), NoAnswer> {
    call(&format!("exec scancel --name={token} {id}"), b"", is_of_allocation).map(drop)
}

/// Reads a line of the queue.
fn in_queue(line: &str) -> Option<JobReport> {
    let mut words = line.split_ascii_whitespace();
    let (id, state, restarts, token) = (words.next()?, words.next()?, words.next()?, words.next()?);
    told(id, state, restarts.parse().unwrap_or_default(), token)
}

/// Reads a line of accounting.
fn in_accounting(line: &str) -> Option<JobReport> {
    let mut fields = line.trim().split('|');
    let (id, state, token) = (fields.next()?, fields.next()?, fields.next()?);
    // `CANCELLED by 1000`.
    told(id, state.split(' ').next()?, 0, token)
}

fn told(id: &str, state: &str, restarts: u32, token: &str) -> Option<JobReport> {
    let word = EngineWord { state: state_of(state), restarts };
    let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    (is_id && token.starts_with(TOKENS)).then(|| JobReport { id: Some(id.to_owned()), token: token.to_owned(), word })
}

/// The meaning of a state of Slurm (`squeue(1)`, "Job state codes"). An unknown one is not an end.
fn state_of(name: &str) -> JobState {
    match name {
        "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => {
            JobState::Pending
        }
        "COMPLETED" => JobState::Done,
        "FAILED" | "LAUNCH_FAILED" | "RECONFIG_FAIL" => JobState::Failed,
        "CANCELLED" => JobState::Cancelled,
        "TIMEOUT" | "DEADLINE" => JobState::TimedOut,
        "OUT_OF_MEMORY" => JobState::OutOfMemory,
        "NODE_FAIL" | "BOOT_FAIL" | "PREEMPTED" | "REVOKED" => JobState::Evicted,
        _ => JobState::Running,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_queue_tells_of_jobs_with_a_token_and_of_no_others() {
        let line = "7                             PENDING                       2           ar-t-1-run-abc   ";
        let word = EngineWord { state: JobState::Pending, restarts: 2 };
        assert_eq!(in_queue(line), Some(JobReport { id: Some("7".into()), token: "ar-t-1-run-abc".into(), word }));
        assert_eq!(in_queue("8  RUNNING  0  somebody else's"), None);
        assert_eq!(in_queue("8  RUNN"), None);
    }

    #[test]
    fn accounting_says_who_cancelled_and_that_is_left_out() {
        let told = in_accounting("12|CANCELLED by 1000|ar-t-1-run-abc").unwrap();
        assert_eq!((told.word.state, told.id.as_deref()), (JobState::Cancelled, Some("12")));
    }

    #[test]
    fn accounting_has_a_line_for_each_time_that_a_job_was_put_back() {
        let lines = ["7|PREEMPTED|ar-t-1-run-a", "8|RUNNING|ar-t-2-run-b", "7|COMPLETED|ar-t-1-run-a"];
        let told = last_of_each(lines.into_iter().filter_map(in_accounting));
        assert_eq!(told.len(), 1, "what only accounting calls open is not: {told:?}");
        assert_eq!(told[0].word, EngineWord { state: JobState::Done, restarts: 1 });
    }

    #[test]
    fn a_state_that_is_not_known_is_no_end() {
        for state in ["UNKNOWN", "COMPLETING", "SUSPENDED", "STAGE_OUT", "SOMETHING_NEW"] {
            assert!(state_of(state).is_open(), "{state}");
        }
    }
}
