//! Reads the status of a session while somebody else may be at work on it. Takes no lock, waits for nothing, and names what
//! cannot be read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

use crate::domain::{Clock, Contract, Layout, MetricSpec, Number, Phase, Run, RunRole, Tag};
use crate::exec::{Executor, Job, Started};
use crate::fs::read_tail;
use crate::git::Repo;
use crate::machine::{AttemptEntry, AttemptHead};
use crate::measure::{Scanner, plain_text};
use crate::report::{OwnerStatus, PauseStatus, SessionStatus};
use crate::rules::{
    Activity, AttemptStatus, Expenses, History, NightEnd, Observations, OutageStatus, RunFound, SleepStatus, activity,
    is_confirmed, lanes_status,
};
use crate::session::errors::SessionError;
use crate::session::files::{
    Damage, Records, driven_elsewhere, is_fetched, is_session, recorded_terms, refuse_changed,
};
use crate::session::handlers::command_worktrees;
use crate::session::store::{RUN, job_of, job_place, run_name};
use crate::state::{EscalationFiles, HiddenFile, Journal, Presence, SessionFolder, read_log_tail};

/// Reads the status of one session again and again.
pub struct StatusWatcher<'a> {
    pub(crate) repo: &'a Repo,
    tag: Tag,
    clock: Clock,
    pub(crate) folder: SessionFolder,
    records: Records,
}

impl<'a> StatusWatcher<'a> {
    /// Prepares to look at a session; looks at nothing yet.
    pub fn new(repo: &'a Repo, tag: Tag, clock: Clock) -> StatusWatcher<'a> {
        let folder = SessionFolder::new(repo.main_worktree(), &tag);
        StatusWatcher { repo, clock, folder, records: Records::default(), tag }
    }

    /// Reads the current status, without the commits of an idle session's branch that belong to no experiment.
    ///
    /// # Errors
    ///
    /// Git cannot read the session's refs. Damaged state files and records are not errors: the result names them.
    pub(crate) fn read(&mut self) -> Result<SessionStatus, SessionError> {
        self.records.look(self.repo, &self.tag)?;
        let StatusWatcher { repo, clock, folder, tag, records } = &*self;
        let mut damage = Damage(records.damage.clone());
        let history = Arc::clone(&records.history);
        let contract = self.contract(&mut damage);
        let read = damage.unless(folder.journal()).flatten();
        let is_known = read.is_some();
        // Without one nothing is open, and only the records tell what was spent.
        let journal = read.unwrap_or_else(|| Journal {
            expenses: Expenses::of_records(&history),
            ..Journal::new(repo.worktree(), clock.now())
        });
        let Journal { presence, expenses, escalation, tree, layout, gpus, .. } = &journal;
        let owner = damage.unless(folder.owner(repo.git_dir())).flatten();
        let is_fetched = self.is_fetched(contract.as_ref(), owner.is_some(), &mut damage);
        let open: Vec<Open<'_>> = journal.attempts.open.iter().map(|entry| Open::find(folder, entry)).collect();
        let outage = outage_of(&journal);
        let telling = telling(&open, owner.is_some());
        let activity = activity(observed(repo, telling, is_known, owner.is_some(), outage.is_some()));
        let log = telling.map(|open| open.log(folder)).filter(|log| log.exists());
        let logs = open.iter().map(|open| open.log(folder));
        let written = owner.as_ref().and_then(|_| logs.filter_map(|log| written_at(&log)).max());
        let look = |open: &Open<'_>| {
            let mut seen = open.look(folder, contract.as_ref(), &history);
            // Only a loop asks it.
            seen.engine_away.take_if(|_| owner.is_none());
            seen
        };
        let attempts: Vec<AttemptStatus> = open.iter().map(look).collect();
        // A further run takes the slot of one that is over.
        let further = open.iter().flat_map(|open| open.further(folder, layout.as_ref()));
        let in_lanes: Vec<AttemptStatus> = further.map(|open| look(&open)).chain(attempts.iter().cloned()).collect();
        let over: Vec<Run> = journal.attempts.open.iter().flat_map(finished_runs).collect();
        let now = owner.as_ref().map(|_| Timestamp::now());
        let lanes = lanes_status(&history, layout.as_ref(), &in_lanes, &over, gpus, now);
        // Without a journal, all experiments count as one night, as for a loop.
        let night = match &contract {
            Some(contract) if !is_known => expenses.night_before(contract, false, NightEnd::Over),
            _ => expenses.last_night().cloned(),
        };
        let elsewhere = owner.is_none().then(|| driven_elsewhere(folder, presence)).flatten();
        let written = written.map_or(f64::INFINITY, |written| seconds(written, Timestamp::now()));
        let silent = seconds(presence.last_seen(), clock.now()).min(written);
        Ok(SessionStatus {
            tag: tag.clone(),
            is_fetched,
            // Without an owner it is of no use to know where it was at work, unless something is to be finished there.
            worktree: Some(tree.worktree().to_owned())
                .filter(|path| path != repo.worktree() && activity != Activity::Idle),
            ended: if owner.is_none() && elsewhere.is_none() { how_it_ended(presence, activity) } else { None },
            activity,
            outage: outage.filter(|_| activity == Activity::Waiting || owner.is_some() && lanes.is_concurrent),
            // Without a loop nobody waits, and one that was answered waits no more.
            escalation: escalation.last().filter(|open| owner.is_none() || open.waits).cloned(),
            report: EscalationFiles::of(folder).report(),
            pause: PauseStatus {
                sleep: if activity == Activity::Between { sleep_of(&journal) } else { None },
                idle_calls: journal.calls.idle().div_ceil(journal.most_calls()),
            },
            attempts,
            lanes,
            driver: presence.driver(),
            stopping: owner.as_ref().and_then(|_| folder.stopping()),
            owner: owner.map(|owner| OwnerStatus {
                process: owner.process(),
                at_work: owner.since.map(|since| seconds(since, Timestamp::now())),
                said: owner.said,
            }),
            last_seen: is_known
                .then(|| (presence.last_seen(), elsewhere.as_ref().map_or(silent, |other| other.seen.as_secs_f64()))),
            log: log.or_else(|| history.records().last().map(|record| folder.run_log(record.id))),
            contract,
            left: night.as_ref().map(|night| night.left(clock.now())).unwrap_or_default(),
            night,
            spent: *expenses.spent(),
            history,
            elsewhere,
            unrecorded_tip: None,
            damage: damage.0,
        })
    }

    /// The contract of the session's folder, else that of the baseline's record. Notes where it was changed.
    fn contract(&self, damage: &mut Damage) -> Option<Contract> {
        let stored = damage.unless(self.folder.contract()).flatten();
        if let Some(contract) = &stored {
            damage.unless(refuse_changed(self.repo, &self.tag, contract));
        }
        stored.or_else(|| recorded_terms(self.records.history.baseline()?).ok()?)
    }

    /// Returns whether only the session's refs exist here. Notes missing files of another session.
    fn is_fetched(&self, contract: Option<&Contract>, is_owned: bool, damage: &mut Damage) -> bool {
        let (state, history) = (self.folder.state(), &self.records.history);
        let is_whole = self.folder.has_contract() && state.join("progress.json").exists();
        if is_whole || contract.is_some_and(|contract| contract.imported) {
            return false;
        }
        let is_fetched = damage.unless(is_fetched(self.repo, &self.tag)).unwrap_or(false);
        // A session that is only being opened has them in a moment.
        let is_new = is_owned && history.records().is_empty();
        if !is_new && !is_fetched {
            damage.0.push(format!(
                "files in {} are missing; their content is from the records, or missing too",
                state.display()
            ));
        }
        is_fetched
    }

    /// Returns whether the session still exists. An unreadable one counts as existing.
    pub fn is_there(&self) -> bool {
        is_session(self.repo, &self.tag).unwrap_or(true)
    }

    /// The last lines of a log as a terminal would show them, without escapes; none where there is no log.
    pub fn last_lines(&self, log: &Path) -> Vec<String> {
        let text = read_log_tail(log).map(|bytes| plain_text(&bytes)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// What tells what a session is doing: the attempt that says most, whether anybody owns the session, and whether the agent is away.
fn observed(repo: &Repo, telling: Option<&Open<'_>>, is_known: bool, owned: bool, is_outage: bool) -> Observations {
    Observations {
        phase: telling.map(|open| open.phase).or(is_known.then_some(Phase::Idle)),
        owned,
        job: telling.map_or(RunFound::Gone, |open| open.job),
        // While the agent is not to be had, runs go on.
        outage: is_outage && !telling.is_some_and(Open::is_running_beside),
        again: owned
            && telling.is_none_or(|open| open.phase == Phase::Waiting)
            && command_worktrees(repo, false).is_ok_and(|trees| !trees.is_empty()),
    }
}

/// An open attempt, its step, and what is found of its run.
#[derive(Clone)]
struct Open<'a> {
    phase: Phase,
    head: &'a AttemptHead,
    entry: &'a AttemptEntry,
    slot: Option<u32>,
    /// The job that it has, or had last.
    name: String,
    job: RunFound,
}

impl<'a> Open<'a> {
    fn find(folder: &SessionFolder, entry: &'a AttemptEntry) -> Open<'a> {
        let (phase, head) = (entry.attempt.phase(), entry.attempt.head());
        let open = Open { phase, head, entry, slot: head.beside.slot, name: job_of(entry), job: RunFound::Unstarted };
        // Guards are found by the run before them.
        let run = if phase == Phase::Confirming { open.name.clone() } else { RUN.to_owned() };
        let job = open.found(folder, &run);
        let further = open.further(folder, None).next().map(|further| further.job);
        Open { job: further.unwrap_or(job), ..open }
    }

    fn found(&self, folder: &SessionFolder, job: &str) -> RunFound {
        let folder = folder.run(self.head.id);
        let (place, name) = job_place(&folder, job);
        Executor::of_any().found(&place, name)
    }

    /// It once for each further run that goes on, in the slot of that: the baseline is measured several times, in all slots.
    fn further(&self, folder: &SessionFolder, layout: Option<&Layout>) -> impl Iterator<Item = Open<'a>> {
        let further = self.entry.runs.iter().filter(|run| self.phase == Phase::Running && !run.is_first());
        let found = further.map(move |run| {
            let name = run_name(run);
            let slot = layout.map(|layout| (run.number - 1) % layout.slots.max(1));
            Open { slot, job: self.found(folder, &name), name, ..self.clone() }
        });
        found.filter(|open| matches!(open.job, RunFound::Going | RunFound::Pending))
    }

    fn log(&self, folder: &SessionFolder) -> PathBuf {
        if matches!(self.phase, Phase::Checking | Phase::Confirming) {
            return job_place(&folder.run(self.head.id), &self.name).0.join("run.log");
        }
        folder.log(self.head.id, &format!("{}.log", self.name))
    }

    /// The number of its fresh runs. With a hidden split, the journal does not have them.
    fn fresh_runs(&self, state: &Path) -> u32 {
        let commit = self.entry.attempt.commit();
        let book = HiddenFile::new(state).read().unwrap_or_default();
        let hidden = commit.map_or(0, |commit| book.further(self.head.id, commit).len());
        self.entry.fresh_runs().max(u32::try_from(hidden).unwrap_or(u32::MAX))
    }

    /// Returns whether it is running in a slot, where an outage does not stop it.
    fn is_running_beside(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Guarding | Phase::Confirming) && self.head.beside.slot.is_some()
    }

    fn look(&self, folder: &SessionFolder, contract: Option<&Contract>, history: &History) -> AttemptStatus {
        let Open { phase, head, entry, slot, name, job } = self;
        let (folder, state) = (folder.run(head.id), &folder.state());
        let is_running = matches!(phase, Phase::Running | Phase::Confirming) && *job == RunFound::Going;
        // A file that cannot be read now is of a job that only starts or is just over.
        let (place, name) = job_place(&folder, name);
        let started = Started::read(&place, name).filter(|_| Executor::of_any().is_busy(&place));
        let newest = contract
            .filter(|_| is_running)
            .and_then(|contract| newest_number(&place.join("run.log"), &contract.metric));
        let pending = Job::ticket_of(&place, name).filter(|_| *job == RunFound::Pending);
        AttemptStatus {
            id: head.id,
            phase: *phase,
            slot: *slot,
            seat: head.seat,
            trial: head.trial().cloned(),
            description: head.description.clone(),
            is_again: entry.attempt.measured().is_some(),
            since: started.as_ref().map(|started| started.started),
            elapsed: started.as_ref().map(|started| seconds(started.started, Timestamp::now())),
            deadline: started.and_then(|started| started.deadline.map(|deadline| seconds(started.started, deadline))),
            newest: newest.map(|number| history.in_own_unit(number)),
            is_of_baseline: *phase == Phase::Confirming && entry.run().role == RunRole::Baseline,
            fresh: (*phase == Phase::Confirming && contract.is_none_or(is_confirmed)).then(|| self.fresh_runs(state)),
            queued: pending.as_ref().map(|ticket| seconds(ticket.submitted, Timestamp::now())),
            engine_away: pending.and_then(|ticket| ticket.away),
            tainted: if matches!(phase, Phase::Running | Phase::Confirming) { entry.run().tainted } else { 0 },
        }
    }
}

/// The runs of an open attempt that are over, as far as the journal tells of them.
fn finished_runs(entry: &AttemptEntry) -> Vec<Run> {
    let own = entry.attempt.measured().map(|record| record.runs.clone()).unwrap_or_default();
    let fresh = entry.runs.iter().filter_map(|run| run.result.as_ref()).map(|result| result.run.clone());
    own.into_iter().chain(fresh).collect()
}

/// The attempt that tells what the session is doing: of several the one that is furthest from waiting.
fn telling<'a, 'b>(open: &'a [Open<'b>], is_owned: bool) -> Option<&'a Open<'b>> {
    let rank = |open: &&Open| match (open.phase, open.job) {
        (Phase::Running | Phase::Guarding | Phase::Confirming, RunFound::Going) => 0,
        (Phase::Running | Phase::Guarding | Phase::Confirming, RunFound::Pending) => 4,
        (Phase::Running | Phase::Guarding | Phase::Confirming, RunFound::Over) if !is_owned => 1,
        // *In place* it has the tree, whatever else is open.
        (Phase::Checking, _) if is_owned => 1,
        (Phase::Running | Phase::Guarding | Phase::Confirming, _) => 2,
        (Phase::Proposing | Phase::Reviewing | Phase::Checking, _) => 3,
        (Phase::Recording | Phase::Settling, _) => 5,
        (Phase::Committing, _) => 6,
        (Phase::Waiting | Phase::Idle, _) => 7,
    };
    open.iter().min_by_key(rank)
}

/// Describes how the last active process of a session ended, if that is known.
fn how_it_ended(presence: &Presence, activity: Activity) -> Option<String> {
    let end = if activity == Activity::Idle { presence.end_text() } else { presence.ended() };
    end.map(str::to_owned)
}

/// The outage for whose end the loop waits.
fn outage_of(journal: &Journal) -> Option<OutageStatus> {
    let open = journal.pauses.outage()?;
    Some(OutageStatus { kind: open.outage.kind, said: open.outage.said.clone(), since: open.since, again: open.until? })
}

/// The pause that a loop makes now.
fn sleep_of(journal: &Journal) -> Option<SleepStatus> {
    let sleep = journal.sleep()?;
    let (_, until) = sleep.left(Timestamp::now())?;
    Some(SleepStatus { until, why: sleep.why.clone() })
}

/// When a file was last written to.
fn written_at(path: &Path) -> Option<Timestamp> {
    std::fs::metadata(path).and_then(|meta| meta.modified()).ok()?.try_into().ok()
}

/// The newest number that the end of a log has of the metric.
fn newest_number(log: &Path, metric: &MetricSpec) -> Option<Number> {
    let tail = read_tail(log, 0).ok()?;
    // The first line may be the second half of one.
    let whole = tail.iter().position(|byte| matches!(byte, b'\n' | b'\r')).map_or(&tail[..], |at| &tail[at..]);
    let is_cut = std::fs::metadata(log).is_ok_and(|meta| meta.len() > tail.len() as u64);
    let mut scanner = Scanner::new(metric).ok()?;
    scanner.push(if is_cut { whole } else { &tail });
    scanner.last().cloned()
}

/// Seconds from one moment to a later one.
fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0)
}
