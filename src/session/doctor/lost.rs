//! Records whose objects are gone, rebuilt from what else tells of them: commit, row, event log and run folder.

use serde_json::{Value, json};

use super::facts::{Facts, RecordRef};
use crate::domain::{
    AgentCall, CommitId, Contract, DiffStat, Environment, ExperimentId, MetricValue, Number, Outcome, RECORD_VERSION,
    Record, Run, RunRole, Usage,
};
use crate::exec::{Exit, Job};
use crate::fs::read_at_most;
use crate::git::Repo;
use crate::ledger::{Ledger, LedgerFile, Row, Said, read};
use crate::rules::gaps;
use crate::session::files::{SEED, read_log, record_message};
use crate::session::store::{AGENT, RUN};

/// The size in bytes up to which an event log or results.tsv is read.
const LARGEST: u64 = 64 << 20;

/// The position of an unreadable record in the history. Unreadable records take the positions that the readable ones
/// leave free, in the order of their numbers.
fn place_of(facts: &Facts, id: ExperimentId) -> u32 {
    let history = facts.history();
    let lost = facts.refs.iter().filter(|found| found.record.is_err() && found.id < id).count();
    let taken = history.records().iter().map(Record::sequence);
    let next = history.next_sequence();
    gaps(taken).into_iter().chain(next..).nth(lost).unwrap_or(next)
}

/// The record of a ref whose object is gone, with its tag's message; `None` where what is left does not tell.
pub(crate) fn rebuilt(repo: &Repo, facts: &Facts, found: &RecordRef) -> Option<(Record, String)> {
    if found.record.is_ok() || repo.objects.has_object(&found.object) {
        return None;
    }
    let id = found.id;
    let terms = facts.terms().filter(|_| !id.is_baseline() || !facts.is_changed)?;
    let line = log_line(facts, id)?;
    let said = [&line["data"], &line["detail"]].into_iter().find(|said| said.is_object())?;
    let commit: CommitId =
        serde_json::from_value(said["commit"].clone()).ok().filter(|it| repo.objects.has_commit(it))?;
    let base =
        if id.is_baseline() { commit.clone() } else { repo.objects.parents(&commit).ok()?.into_iter().next()? };
    let outcome: Outcome = serde_json::from_value(said["outcome"].clone()).ok()?;
    let row = row_of(repo, &terms, &commit);
    let description = match &row {
        Some(row) => row.description.to_string(),
        None if id.is_baseline() => "baseline".to_owned(),
        None => repo.objects.subject(&commit).ok()?,
    };
    let number = row.as_ref().and_then(|row| row.value.clone()).filter(|_| outcome != Outcome::Crash);
    let logged = || said["value"].as_f64().map(Number::of);
    let number = number.or_else(logged);
    let class = &said["failure"];
    let folder = facts.folder.run(id);
    let summary = read_log(&facts.folder.run_log(id), &terms.metric, terms.deciding_composite()).ok();
    let metrics = summary.into_iter().flat_map(|summary| summary.metrics);
    let called = terms.agent.clone().zip(Exit::read(&folder, AGENT));
    let exit = Exit::read(&folder, RUN);
    let seed = Job::variable(&folder, RUN, SEED).and_then(|seed| seed.parse().ok());
    let role = if id.is_baseline() { RunRole::Baseline } else { RunRole::Screen };
    // A run of an earlier version has neither.
    let seeded = seed.map(|seed| (role, seed));
    let run = exit.as_ref().map(|exit| run_of(exit, seeded, &terms.command, number.as_ref()));
    // Unknown fields are omitted, as in records of older versions.
    let record = json!({
        "version": RECORD_VERSION,
        "id": id,
        "sequence": place_of(facts, id),
        "tag": terms.tag,
        "diff": if id.is_baseline() { DiffStat::default() } else { repo.objects.diff(&base, &commit).ok()?.stat() },
        "commit": commit,
        "base": base,
        "description": description,
        "outcome": outcome,
        "failure": class.is_string().then(|| json!({"class": class})),
        "reason": said["reason"].as_str().unwrap_or_default(),
        "metric": MetricValue::of(&terms.metric, number.as_ref()),
        "metrics": {},
        "memory_gb": row.as_ref().and_then(|row| row.memory_gb),
        "runs": Vec::from_iter(run),
        "sandbox": exit.and_then(|exit| exit.sandbox),
        "environment": Environment::default(),
        "agent": called.map(|(command, exit)| AgentCall::new(command, exit.seconds, Usage::default())),
        "started": line["ts"],
        "finished": line["ts"],
        "rebuilt": true,
    });
    let mut record: Record = serde_json::from_value(record).ok()?;
    record.metrics = metrics.collect();
    if id.is_baseline() {
        record.more.insert("contract".into(), json!(terms));
    }
    let message = record_message(&record).ok()?;
    Some((record, message))
}

/// A run that ended like this.
fn run_of(exit: &Exit, seeded: Option<(RunRole, u64)>, command: &str, number: Option<&Number>) -> Run {
    Run {
        command: command.to_owned(),
        role: seeded.map(|(role, _)| role),
        seed: seeded.map(|(_, seed)| seed),
        started: exit.started,
        seconds: exit.seconds,
        exit: exit.exit,
        signal: exit.signal,
        silent: exit.silent,
        value: number.map(|number| number.value),
        digits: number.map(|number| number.raw.clone()),
        commit: None,
        void: false,
        tainted: 0,
        queued: None,
        partial: false,
        part: None,
    }
}

/// The last line of the log of decisions that tells how an experiment ended.
fn log_line(facts: &Facts, id: ExperimentId) -> Option<Value> {
    let text = read_at_most(&facts.folder.logs().join("orchestrator.jsonl"), LARGEST).ok()?;
    let lines = text.split(|byte| *byte == b'\n').rev().filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let is_of = |line: &Value| {
        line["event"] == "experiment_finished"
            && (line["data"]["experiment"] == id.number() || line["detail"]["experiment"] == id.number())
    };
    lines.into_iter().find(is_of)
}

fn row_of(repo: &Repo, terms: &Contract, commit: &CommitId) -> Option<Row> {
    let text = read_at_most(&LedgerFile::place(&repo.main_worktree(), &terms.metric.name), LARGEST).ok()?;
    let said = Said { metric: Some(&terms.metric.name), direction: Some(terms.metric.direction), segment: None };
    let Ledger { rows, .. } = read(text, &said);
    let is_named = |cell: &str| !cell.is_empty() && commit.as_str().starts_with(cell);
    rows.into_iter().rfind(|row| row.commit.as_deref().is_some_and(is_named))
}
