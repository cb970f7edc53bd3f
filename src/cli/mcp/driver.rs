//! `try` and `wait`: an `ar try` in the background for each repository, what becomes of it, and its step in words.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::{Instant, sleep};

use autoresearch::domain::{Clock, ExperimentId, Phase};
use autoresearch::git::Repo;
use autoresearch::report::SessionStatus;
use autoresearch::rules::{AttemptStatus, SessionDriver};
use autoresearch::session::{SessionError, StatusWatcher, choose_session, inspect_sessions};

use super::server::{Failure, command, not_started, said};
use super::tools::{TryArgs, Waited};
use crate::cli::error;

/// The pause between two looks at a session.
const PAUSE: Duration = Duration::from_millis(150);

/// The end of an `ar try`.
#[derive(Debug, Clone)]
enum End {
    /// The document that it printed, and its notes on standard error.
    Said {
        document: Value,
        notes: Vec<String>,
    },
    /// It was interrupted, and its change rolled back.
    RolledBack,
    /// A signal that it could not answer.
    Killed,
    /// Another process holds the session.
    Held(Failure),
    Failed(Failure),
}

/// An `ar try` that this server started.
#[derive(Debug, Clone)]
struct Trying {
    process: u32,
    /// Its experiment, once that is known.
    experiment: Option<ExperimentId>,
    end: watch::Receiver<Option<End>>,
}

impl Trying {
    /// Starts it in the background. It has a process group of its own, so that what ends the client does not end it.
    fn start(dir: &Path, args: &[&str], experiment: Option<ExperimentId>) -> Result<Trying, Failure> {
        let child = command(dir, args).process_group(0).spawn().map_err(not_started)?;
        let process = child.id().unwrap_or_default();
        let (ended, end) = watch::channel(None);
        tokio::spawn(async move {
            let end = match child.wait_with_output().await {
                Ok(done) => end_of(done.status.code(), &done.stdout, &done.stderr),
                Err(error) => End::Failed(not_started(error)),
            };
            let _ = ended.send(Some(end));
        });
        Ok(Trying { process, experiment, end })
    }

    fn end(&self) -> Option<End> {
        self.end.borrow().clone()
    }
}

fn end_of(code: Option<i32>, stdout: &[u8], stderr: &[u8]) -> End {
    let code = code.and_then(|code| u8::try_from(code).ok());
    match (code, serde_json::from_slice(stdout)) {
        (Some(0), Ok(document)) => {
            let text = String::from_utf8_lossy(stderr);
            // The others say how far it is.
            let notes = text.lines().filter(|line| line.starts_with("note: ")).map(str::to_owned);
            End::Said { document, notes: notes.collect() }
        }
        (Some(error::INTERRUPTED), _) => End::RolledBack,
        (Some(error::HELD), _) => End::Held(said(stderr)),
        (None, _) => End::Killed,
        _ => End::Failed(said(stderr)),
    }
}

/// The `ar try` that this server started last in each repository.
#[derive(Debug)]
pub(super) struct Drivers {
    clock: Clock,
    last: Mutex<HashMap<PathBuf, Trying>>,
    /// True once the client is gone.
    is_left: watch::Sender<bool>,
}

impl Drivers {
    pub(super) fn new(clock: Clock) -> Drivers {
        Drivers { clock, last: Mutex::default(), is_left: watch::Sender::new(false) }
    }

    /// Makes the change in the working tree an experiment, and returns its number as soon as it has one. Goes on where nobody waits
    /// for the number any more.
    pub(super) async fn begin(self: Arc<Self>, dir: PathBuf, args: TryArgs) -> Result<ExperimentId, Failure> {
        let beginning = tokio::spawn(async move { self.begin_here(&dir, &args).await });
        beginning.await.unwrap_or_else(|error| Err(broken(&error)))
    }

    async fn begin_here(self: &Arc<Self>, dir: &Path, args: &TryArgs) -> Result<ExperimentId, Failure> {
        self.on_a_thread(dir, |own, dir| own.refuse_second(dir)).await??;
        let message = format!("--message={}", args.description);
        let direction = args.direction.as_ref().map(|direction| format!("--direction={direction}"));
        let mut words = vec!["try", "--format", "json", &message];
        words.extend(direction.as_deref());
        let mut trying = Trying::start(dir, &words, None)?;
        self.last().insert(dir.to_owned(), trying.clone());
        let id = loop {
            let failed = match trying.end() {
                Some(End::Said { document, .. }) => break number(&document),
                Some(End::Held(failure) | End::Failed(failure)) => Some(failure),
                Some(End::RolledBack) => Some(Failure::new(
                    "interrupted; the change was rolled back and saved under a ref",
                    "run `ar status` to see what is next",
                )),
                Some(End::Killed) => Some(Failure::new("`ar try` was killed", "call `status` to see what it left")),
                None => None,
            };
            if let Some(failure) = failed {
                self.last().remove(dir);
                return Err(failure);
            }
            let process = trying.process;
            if let Some(id) = self.on_a_thread(dir, move |own, dir| own.begun_by(dir, process)).await? {
                break Some(id);
            }
            tokio::select! {
                _ = trying.end.changed() => {}
                () = sleep(PAUSE) => {}
            }
        };
        let id =
            id.ok_or_else(|| Failure::new("`ar try` printed no record", "run `ar log` to see what was recorded"))?;
        if let Some(trying) = self.last().get_mut(dir) {
            trying.experiment = Some(id);
        }
        Ok(id)
    }

    /// Waits until the outcome of an experiment is known, at most `patience`, and says where it is. Continues one that a process
    /// left open.
    pub(super) async fn wait(
        self: Arc<Self>,
        dir: &Path,
        id: ExperimentId,
        patience: Duration,
    ) -> Result<Waited, Failure> {
        let until = Instant::now() + patience;
        let mut is_left = self.is_left.subscribe();
        loop {
            let waited = self.on_a_thread(dir, move |own, dir| own.step(dir, id)).await??;
            if waited.is_over() || Instant::now() >= until || *is_left.borrow() {
                return Ok(waited);
            }
            tokio::select! {
                () = sleep(PAUSE.min(until.saturating_duration_since(Instant::now()))) => {}
                _ = is_left.changed() => return Ok(waited),
            }
        }
    }

    /// Ends all waiting and the processes that watch runs, and leaves the runs going, since the client is gone.
    pub(super) fn leave(&self) {
        self.is_left.send_replace(true);
        for trying in self.last().values().filter(|trying| trying.end().is_none()) {
            let process = i32::try_from(trying.process).ok().and_then(Pid::from_raw);
            // One that has just ended need not hear it.
            let _ = process.map(|process| kill_process(process, Signal::HUP));
        }
    }

    /// Reads sessions on another thread: other calls need not wait for a slow disk.
    async fn on_a_thread<T: Send + 'static>(
        self: &Arc<Self>,
        dir: &Path,
        work: impl FnOnce(&Drivers, &Path) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (own, dir) = (Arc::clone(self), dir.to_owned());
        spawn_blocking(move || work(&own, &dir)).await.map_err(|error| broken(&error))
    }

    fn step(&self, dir: &Path, id: ExperimentId) -> Result<Waited, Failure> {
        let own = self.last().get(dir).filter(|own| own.experiment == Some(id)).cloned();
        match own.as_ref().map(Trying::end) {
            Some(Some(End::Failed(failure))) => {
                // The next call looks afresh: what stood in the way may be gone.
                self.last().remove(dir);
                return Err(failure);
            }
            // The result is reported once: later, the session may know better, or be another one.
            Some(Some(End::RolledBack)) => {
                self.last().remove(dir);
                let why = "interrupted; `ar status` names the ref of the change, if it is not in the tree";
                return Ok(Waited::stopped(id, why));
            }
            Some(Some(End::Killed)) => {
                self.last().remove(dir);
            }
            Some(Some(End::Said { document, notes }))
                if number(&document) == Some(id) && document.get("outcome").is_some() =>
            {
                self.last().remove(dir);
                return Ok(Waited::of_document(id, &document, &notes));
            }
            _ => {}
        }
        let is_driven = own.is_some_and(|own| own.end().is_none());
        let starting = || Waited::at(id, STARTING.into());
        let status = match self.look(dir) {
            // Its session is only being opened.
            Err(_) if is_driven => return Ok(starting()),
            status => status?,
        };
        Ok(match standing(&status, id) {
            Standing::Open(phase) => Waited::at(id, phase),
            _ if is_driven => starting(),
            Standing::Recorded => {
                let record = status.history.get(id).ok_or_else(|| unknown(&status, id))?;
                Waited::recorded(record)
            }
            Standing::Left => {
                let trying = Trying::start(dir, &["try", "--continue", "--format", "json"], Some(id))?;
                self.last().insert(dir.to_owned(), trying);
                starting()
            }
            Standing::Stopped(reason) => Waited::stopped(id, &reason),
            Standing::Unknown => return Err(unknown(&status, id)),
        })
    }

    /// Refuses a change while another one is open, or a loop makes the changes.
    fn refuse_second(&self, dir: &Path) -> Result<(), Failure> {
        let own = self.last().get(dir).filter(|own| own.end().is_none()).cloned();
        if let Some(own) = own {
            let which = own.experiment.map_or_else(|| "an experiment".into(), |id| format!("experiment {id}"));
            return Err(Failure::new(format!("{which} is still running"), "call `wait` until it is recorded"));
        }
        // Without a session there is nothing to refuse; `ar try` reports all other errors.
        let Ok(status) = self.look(dir) else { return Ok(()) };
        let tag = &status.tag;
        // A change waits for the baseline of its session.
        let open = status.open().map(|open| if open.id.is_baseline() { open.id.next() } else { open.id });
        match (&status.owner, status.driver) {
            (Some(owner), Some(SessionDriver::Loop)) => Err(Failure::new(
                format!("a loop is active in session {tag}: {}", owner.said),
                "hand in the change as an idea: call `idea` with the action `add`",
            )),
            (Some(owner), _) => Err(Failure::new(
                format!("another experiment of session {tag} is still running: {}", owner.said),
                open.map_or_else(|| "call `status` to see it".into(), |id| format!("call `wait` with experiment {id}")),
            )),
            (None, _) => match open.filter(|id| standing(&status, *id) == Standing::Left) {
                Some(id) => Err(Failure::new(
                    format!("experiment {id} of session {tag} is still open"),
                    format!("call `wait` with experiment {id} to finish it"),
                )),
                None => Ok(()),
            },
        }
    }

    /// The session that commands without a name are about.
    fn look(&self, dir: &Path) -> Result<SessionStatus, SessionError> {
        let repo = Repo::discover(dir)?;
        let tag = choose_session(&repo, None)?.tag;
        StatusWatcher::new(&repo, tag, self.clock).look()
    }

    /// The number of the experiment that a process makes.
    fn begun_by(&self, dir: &Path, process: u32) -> Option<ExperimentId> {
        let sessions = inspect_sessions(dir, None, self.clock).ok()?;
        let is_its =
            |status: &&SessionStatus| status.owner.as_ref().is_some_and(|owner| owner.process == Some(process));
        sessions.iter().find(is_its).and_then(begun)
    }

    fn last(&self) -> MutexGuard<'_, HashMap<PathBuf, Trying>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number in the answer of `ar try`.
fn number(document: &Value) -> Option<ExperimentId> {
    let number = document.get("id")?.as_u64()?;
    u32::try_from(number).ok().map(ExperimentId::from)
}

fn broken(error: &JoinError) -> Failure {
    Failure::new(error.to_string(), "call `status` to see what is running")
}

fn unknown(status: &SessionStatus, id: ExperimentId) -> Failure {
    let last = status.history.records().iter().map(|record| record.id).max();
    let there = last.map_or_else(|| "there is none yet".into(), |last| format!("the last one is {last}"));
    Failure::new(format!("no experiment {id} in session {}; {there}", status.tag), "call `log` to see all of them")
}

/// The phase before the change is a commit.
const STARTING: &str = "starting";

/// The phase before the working tree is as the next change needs it.
const RECORDING: &str = "recording";

/// Where an experiment is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its record exists, and nothing of it is open.
    Recorded,
    /// A process works on it, or it waits for one that does.
    Open(String),
    /// No process works on it; `ar try --continue` finishes it.
    Left,
    /// No process works on it, and only the user decides how to go on.
    Stopped(String),
    /// The session does not know it.
    Unknown,
}

/// Finds out where an experiment is.
fn standing(status: &SessionStatus, id: ExperimentId) -> Standing {
    let open = status.attempts.iter().find(|open| open.id == id);
    // A change waits for the baseline that its session begins with.
    let baseline = || status.attempts.iter().find(|open| open.id.is_baseline()).filter(|_| is_next(status, id));
    let Some(open) = open.or_else(baseline) else {
        return match status.history.get(id) {
            // The process of another client has the tree until it is gone.
            Some(_) if is_ending(status) => Standing::Open(RECORDING.into()),
            Some(_) => Standing::Recorded,
            // Its baseline was recorded just now.
            None if status.owner.is_some() && is_next(status, id) => Standing::Open(STARTING.into()),
            None => Standing::Unknown,
        };
    };
    if status.owner.is_some() {
        return Standing::Open(phase_text(open));
    }
    let is_by_hand = status.driver == Some(SessionDriver::Hand) && !status.lanes.is_concurrent;
    match (&status.ended, is_by_hand) {
        (None, true) => Standing::Left,
        (Some(end), true) => Standing::Stopped(format!("{end}; `ar try --continue` finishes it")),
        (_, false) => Standing::Stopped(format!("no loop is active; `ar resume {}` finishes it", status.tag)),
    }
}

/// The number of the experiment that a process makes, once its change is a commit or waits for the baseline.
pub(super) fn begun(status: &SessionStatus) -> Option<ExperimentId> {
    let open = status.open().filter(|open| open.phase != Phase::Checking)?;
    Some(if open.id.is_baseline() { open.id.next() } else { open.id })
}

/// Returns whether a number is that of the first change of a session, which waits for the baseline.
fn is_next(status: &SessionStatus, id: ExperimentId) -> bool {
    id == ExperimentId::BASELINE.next() && status.history.records().len() < 2
}

/// Returns whether an `ar try` is about to end or has just begun.
fn is_ending(status: &SessionStatus) -> bool {
    status.owner.is_some() && status.driver == Some(SessionDriver::Hand) && status.attempts.is_empty()
}

fn phase_text(open: &AttemptStatus) -> String {
    match open.phase {
        _ if open.id.is_baseline() => "baseline".into(),
        Phase::Idle | Phase::Proposing | Phase::Committing => STARTING.into(),
        Phase::Waiting => "waiting to be merged".into(),
        Phase::Checking => "checking the incumbent".into(),
        Phase::Recording | Phase::Settling => RECORDING.into(),
        Phase::Confirming => open.confirming(),
        Phase::Running | Phase::Guarding | Phase::Reviewing => open.step(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_words_and_the_next_fresh_run_is_counted() {
        let open = |id: u32, phase, fresh| AttemptStatus {
            id: id.into(),
            phase,
            fresh,
            slot: None,
            seat: None,
            trial: None,
            description: String::new(),
            is_again: false,
            since: None,
            elapsed: None,
            deadline: None,
            newest: None,
            is_of_baseline: false,
            tainted: 0,
            queued: None,
            engine_away: None,
        };
        let said = |id, phase, fresh| phase_text(&open(id, phase, fresh));
        assert_eq!(said(0, Phase::Running, None), "baseline");
        assert_eq!(said(0, Phase::Guarding, None), "baseline");
        assert_eq!(said(7, Phase::Committing, None), "starting");
        assert_eq!(said(7, Phase::Running, None), "running");
        assert_eq!(said(7, Phase::Guarding, None), "guards");
        assert_eq!(said(7, Phase::Confirming, None), "control");
        assert_eq!(said(7, Phase::Confirming, Some(0)), "confirm 1 of 4");
        assert_eq!(said(7, Phase::Confirming, Some(1)), "confirm 2 of 4");
        assert_eq!(said(7, Phase::Confirming, Some(4)), "confirm 4 of 4", "the last one is being weighed");
        assert_eq!(said(7, Phase::Reviewing, None), "review");
        assert_eq!(said(7, Phase::Settling, None), "recording");
    }
}
