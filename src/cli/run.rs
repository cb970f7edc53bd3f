//! `ar run` and `ar resume`: their agent where none is set, the contract that is shown and confirmed, and a loop that is itself a
//! batch job of Slurm.

use std::env;
use std::io::BufRead;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;

use autoresearch::agent::{preset_names, protected_files};
use autoresearch::domain::{Bound, Contract, Direction, StopReason, Tag, duration_text, shell_word};
use autoresearch::git::Repo;
use autoresearch::guardian::keep_resident;
use autoresearch::rules::{JOB_START, LoopCall, slurm_duration};
use autoresearch::session::{
    Drive, Driven, LoopWish, NoAgent, Plan, Session, SessionError, await_other_host, open_again, session_tags,
};

use super::health::tell_no_resident;
use super::{
    CliError, Printer, Progress, ResumeArgs, RunArgs, Settings, StreamFormat, current_dir, error, interrupted,
    no_runtime, output, process, resolve_session, runtime, settings,
};

/// A warning before a loop without a limit.
const NO_END: &str = "no limit is set, so the loop runs until you stop it; limits are --max-experiments 100, --for 8h, \
    --until 07:00 and --max-cost 20";

/// Starts or continues a session and loops.
pub(super) fn run(args: RunArgs) -> Result<ExitCode, CliError> {
    let clock = settings::clock()?;
    let allocation = args.requeue.then(Allocation::of_this_process).transpose()?;
    let repo = Repo::discover(&current_dir()?)?;
    let mut settings = Settings::read(args.settings, repo.worktree())?;
    settings.wanted.take_over = args.take_over;
    let sessions =
        if allocation.as_ref().is_some_and(Allocation::is_again) { session_tags(&repo)? } else { Vec::new() };
    let again = settings.wanted.given.tag.clone().filter(|tag| sessions.contains(tag));
    if let Some(tag) = &again {
        // The start before was cut off.
        await_other_host(&repo, tag, |other| output::note(&format!("waiting for session {tag}, {other}")));
    }
    let call = if again.is_some() { LoopCall::Requeued } else { LoopCall::Typed };
    let drive = Drive::Loop { adopt: args.adopt, call };
    let main_worktree = repo.main_worktree().to_owned();
    let wish = settings.loop_wish();
    let may_ask = !args.yes && allocation.is_none() && args.format == StreamFormat::Table && output::is_interactive();
    settings.may_ask = may_ask;
    let plan = settings.plan(repo, drive, clock)?.leave_out(output::files());
    let metric = &plan.contract().metric;
    let mut first = Some(format!("{}: {} is better", metric.name, metric.direction));
    if may_ask && let Some(line) = first.take() {
        output::line(&line);
    }
    let (mut plan, no_agent) = settle(plan, wish, may_ask)?;
    let must_ask = may_ask && !plan.continued();
    if must_ask && !confirm(&plan) {
        return interrupted("not started; nothing was changed");
    }
    if !must_ask && plan.contract().agent.is_some() && !plan.contract().ends_loop() {
        plan = plan.note(NO_END.to_owned());
    }
    let limits = allocation.as_ref().map(|allocation| allocation.limits(plan.contract())).transpose()?;
    let progress = Progress::new(args.format, clock, main_worktree).beginning_with(first);
    let reason = drive_loop(plan, drive, progress, limits)?;
    tell_ways_on(&reason, no_agent.as_ref(), args.format);
    if let Some(allocation) = allocation
        && allocation.requeue(&reason)?
    {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::from(error::of_stop(&reason)))
}

/// Continues a session by its stored terms.
pub(super) fn resume(args: ResumeArgs) -> Result<ExitCode, CliError> {
    let clock = settings::clock()?;
    let repo = Repo::discover(&current_dir()?)?;
    let mut settings = Settings::read(args.settings, repo.worktree())?;
    let named = args.session.or_else(|| settings.wanted.given.tag.clone());
    let tag = resolve_session::find(&repo, named.or_else(|| settings.tag_in_file(&session_tags(&repo).ok()?)))?;
    (settings.wanted.given.tag, settings.wanted.take_over) = (Some(tag), args.take_over);
    let drive = Drive::RESUMED;
    let main_worktree = repo.main_worktree().to_owned();
    let wish = settings.resume_wish();
    let plan = settings.plan(repo, drive, clock)?.leave_out(output::files());
    let (plan, no_agent) = settle(plan, wish, false)?;
    let reason = drive_loop(plan, drive, Progress::new(args.format, clock, main_worktree), None)?;
    tell_ways_on(&reason, no_agent.as_ref(), args.format);
    Ok(ExitCode::from(error::of_stop(&reason)))
}

/// Opens the session of a plan and runs its loop to the end; `limits` are those of the batch job that it is.
pub(super) fn drive_loop(
    plan: Plan,
    drive: Drive,
    progress: Progress,
    limits: Option<JobLimits>,
) -> Result<StopReason, CliError> {
    let tag = plan.contract().tag.clone();
    let printer = Printer::start(progress).map_err(no_runtime)?;
    let looped = async {
        let interrupts = process::interrupts(limits).map_err(no_runtime)?;
        let mut session = Session::open(plan, printer.observer(), interrupts.clone()).await?;
        let before = session.history().next_sequence();
        let mut driven = session.run(drive).await?;
        loop {
            let resumed = match driven {
                Driven::Stopped(reason) => return Ok((reason, session.history().next_sequence() == before)),
                Driven::Again(resumed) => resumed,
            };
            let plan = match session.plan_again() {
                Ok(plan) => plan.leave_out(output::files()),
                Err(error) => {
                    driven = session.cannot_go_on(error).await?;
                    continue;
                }
            };
            // As after a kill: what is open is picked up by what is on disk.
            drop(session);
            session = open_again(plan, printer.observer(), interrupts.clone()).await?;
            driven = session.run_again(resumed).await?;
        }
    };
    let ended: Result<_, CliError> = runtime()?.block_on(async {
        // The resident guard that watches over this loop may have died.
        tokio::select! {
            biased;
            never = keep_resident(tell_no_resident) => match never {},
            reason = looped => reason,
        }
    });
    printer.finish();
    let (reason, did_nothing) = ended?;
    if did_nothing || reason.is_of_course() {
        way_on(&reason, &tag).iter().for_each(|way| output::note(&format!("hint: {way}")));
    }
    Ok(reason)
}

/// The command that continues after a loop that ended as asked.
pub(super) fn way_on(reason: &StopReason, tag: &Tag) -> Option<String> {
    let another_night = |flag: &str| {
        format!("run `ar run --tag {tag}` to begin another night, or `ar resume {tag} {flag}` to continue this one")
    };
    let higher = |flag: &str| format!("pass a higher limit to continue: `ar run --tag {tag} {flag} N`");
    Some(match reason {
        reason if reason.is_of_course() => {
            format!("pass another rule to continue: `ar resume {tag} --stop-rule plateau:100`")
        }
        StopReason::MaxExperiments { .. } => another_night("--max-experiments N"),
        StopReason::Budget { .. } => another_night("--for 8h"),
        StopReason::Until { .. } => another_night("--until 07:00"),
        StopReason::NoTime { end, .. } => return way_on(end, tag),
        StopReason::Reached(reached) => match reached.rule {
            Bound::Goal => format!("pass another goal to continue: `ar run --tag {tag} --goal VALUE`"),
            Bound::Refusals => another_night("--max-experiments N"),
            Bound::MaxCost => another_night("--max-cost COST"),
            Bound::MaxTokens => another_night("--max-tokens N"),
            Bound::SessionMaxCost => higher("--session-max-cost"),
            Bound::SessionMaxTokens => higher("--session-max-tokens"),
            Bound::SessionMaxExperiments => higher("--session-max-experiments"),
            Bound::Crashes
            | Bound::NoChange
            | Bound::Kill
            | Bound::Kill2
            | Bound::Plateau
            | Bound::Above
            | Bound::Cadence => return None,
        },
        _ => return None,
    })
}

/// Gives a loop without an agent the only installed one, or says that it only measures the baseline: before the user is
/// asked whether to start, else with the first events.
fn settle(plan: Plan, wish: LoopWish, may_ask: bool) -> Result<(Plan, Option<NoAgent>), CliError> {
    let (plan, no_agent) = plan.with_loop_agent(wish).map_err(with_line)?;
    let Some(lacking) = &no_agent else { return Ok((plan, None)) };
    if may_ask {
        output::note(&format!("note: {}", lacking.notice()));
        return Ok((plan, no_agent));
    }
    Ok((plan.note(lacking.notice()), no_agent))
}

/// Names the ways on, after a loop that had no agent.
fn tell_ways_on(reason: &StopReason, no_agent: Option<&NoAgent>, format: StreamFormat) {
    if *reason != StopReason::NoAgent || format != StreamFormat::Table || output::manners().quiet {
        return;
    }
    let agent = no_agent.and_then(|lacking| lacking.installed().first()).copied().unwrap_or("COMMAND");
    output::line(&format!("continue with `ar run --agent {agent}`"));
    output::line("or from inside an agent: edit, then `ar try -m \"what it changes\"`");
}

/// The error with the line to type.
fn with_line(error: SessionError) -> CliError {
    let SessionError::NoAgentForLoop { no_agent, .. } = &error else { return error.into() };
    let typed = without_agent(env::args().skip(1));
    let typed: Vec<_> = typed.iter().map(|word| shell_word(Path::new(word))).collect();
    let line = |agent: &str| format!("`ar {} --agent {agent}`", typed.join(" "));
    let hint = match no_agent.installed() {
        [] => format!("run {}, or install {}", line("COMMAND"), preset_names()),
        [first, ..] => format!("run {}; for the baseline alone, pass --max-experiments 0", line(first)),
    };
    CliError::usage(error, hint)
}

/// The words of a command line without its flag `--agent`.
fn without_agent(words: impl Iterator<Item = String>) -> Vec<String> {
    let (mut kept, mut is_value) = (Vec::new(), false);
    for word in words {
        if std::mem::take(&mut is_value) || word.starts_with("--agent=") {
            continue;
        }
        is_value = word == "--agent";
        if !is_value {
            kept.push(word);
        }
    }
    kept
}

/// The contract and the layout as lines for a person.
fn contract_lines(contract: &Contract, layout: Vec<String>) -> Vec<String> {
    let mut lines = vec![
        format!("session   {} on branch {}", contract.tag, contract.tag.branch()),
        format!("from      {}", contract.start_text()),
    ];
    lines.extend(contract.lines());
    lines.extend(layout);
    lines.push(format!("protected {}", protected_files(contract)));
    lines.push(format!("rollback  what is not kept stays behind {}/", contract.tag.ref_prefix()));
    if contract.agent.is_some() && !contract.ends_loop() {
        lines.push("until     no limit: stop it with Ctrl-C".into());
    }
    lines
}

/// Shows the contract and asks whether to start.
pub(super) fn confirm(plan: &Plan) -> bool {
    for line in contract_lines(plan.contract(), plan.layout_lines()) {
        output::line(&line);
    }
    matches!(answer("start? [Y/n] ").as_deref(), Some("" | "y" | "yes"))
}

/// Asks on a terminal which way a metric is better.
pub(super) fn ask_direction(metric: &str) -> Option<Direction> {
    match answer(&format!("is a lower or a higher {metric} better? [l/h] "))?.as_str() {
        "l" => Some(Direction::Lower),
        "h" => Some(Direction::Higher),
        word => Direction::stated(word),
    }
}

/// The answer in lower case; a terminal that is gone gives none.
pub(super) fn answer(question: &str) -> Option<String> {
    output::text(question);
    let mut answer = String::new();
    let length = std::io::stdin().lock().read_line(&mut answer).unwrap_or(0);
    (length > 0).then(|| answer.trim().to_lowercase())
}

/// The batch job that this process is.
#[derive(Debug, Clone)]
pub(super) struct Allocation {
    id: String,
    /// When Slurm ends it, as the time since 1970, if that is known.
    end: Option<Duration>,
    /// Number of restarts by Slurm.
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

#[cfg(test)]
mod tests {
    use autoresearch::domain::{CommitId, MetricSource, MetricSpec};

    use super::*;

    #[test]
    fn the_line_to_type_has_one_agent() {
        let without = |line: &str| without_agent(line.split(' ').map(str::to_owned)).join(" ");
        assert_eq!(without("run --agent none --for 8h"), "run --for 8h");
        assert_eq!(without("run --for 8h --agent=none"), "run --for 8h");
        assert_eq!(without("run --agent-timeout 5m"), "run --agent-timeout 5m");
    }

    #[test]
    fn the_contract_says_where_the_session_starts() {
        let metric = MetricSpec { name: "loss".into(), direction: Direction::Lower, source: MetricSource::default() };
        let start = CommitId::new("1a2b3c4d5e6f");
        let created = Timestamp::UNIX_EPOCH;
        let mut contract = Contract::new("t".parse().unwrap(), metric, "true".into(), start, created);
        assert_eq!(contract_lines(&contract, Vec::new())[1], "from      1a2b3c4d");
        contract.started_from = Some("refs/heads/main".into());
        assert_eq!(contract_lines(&contract, Vec::new())[1], "from      main at 1a2b3c4d");
    }
}
