//! `ar stop` and `ar status`: sessions as other processes see them, and how they ask them to stop.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::domain::{
    Clock, DEFAULT_GRACE, ExperimentId, Phase, StopReason, StopWhen, Tag, experiment_name, with_causes,
};
use crate::exec::{ExecError, Executor};
use crate::fs::is_disk_full;
use crate::git::{Repo, WAY_BACK};
use crate::machine::Attempt;
use crate::report::SessionStatus;
use crate::rules::{Activity, Observations, UnrecordedTip, activity};
use crate::session::errors::SessionError;
use crate::session::files::{Choice, choose_session, read_history, refuse_elsewhere, session_tags};
use crate::session::store::{RUN, end_idle};
use crate::session::{StatusWatcher, unrecorded_tip};
pub use crate::state::StoppingBeside;
use crate::state::{Journal, Owner, SessionFolder, Stopping, further_runs};

/// Time for an active loop to answer a request. It polls each second, but not while git is busy, whose filters and signing
/// programs have [`WAY_BACK`] before they are terminated.
const HEARING: Duration = WAY_BACK.saturating_add(Duration::from_secs(10));

/// Time for the loop to end, beyond the grace of its run.
const ENDING: Duration = Duration::from_secs(30);

/// Poll interval while waiting for the loop.
const LOOK: Duration = Duration::from_millis(20);

/// The outcome of a request to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// The session is idle, and nothing runs.
    NobodyThere,
    /// No process is active, but the run of this experiment is still running.
    RunsAlone(ExperimentId),
    /// No process is active, but a run of this experiment that the journal does not list is still running.
    RunsUnknown(ExperimentId),
    /// No process is active, and this experiment is open somewhere in between.
    Left(ExperimentId),
    /// It is heard; the loop stops after these experiments, or at once when none is open.
    After(Vec<ExperimentId>),
    /// It is heard by a loop with slots.
    Beside(StoppingBeside),
    /// The active process has ended. Changes whose fresh runs are not over stay open.
    Ended(Vec<ExperimentId>),
}

/// Asks whoever has the session to stop, and waits until that is heard, or with [`StopWhen::Now`] done.
///
/// # Errors
///
/// [`SessionError::NotStopped`] when it is not heard or done in time; the request stays then. [`SessionError::NotAsked`]
/// when the disk has no room for the request.
pub fn ask_to_stop(repo: &Repo, tag: &Tag, when: StopWhen, clock: Clock) -> Result<Stopped, SessionError> {
    let folder = SessionFolder::new(repo.main_worktree(), tag);
    let owner = || folder.owner(repo.git_dir());
    let Some(asked) = owner()? else {
        refuse_elsewhere(&folder, false)?;
        let journal = journal(&folder);
        let open = || journal.iter().flat_map(Journal::attempts).filter(|open| open.phase() != Phase::Waiting);
        let alone = open().find(|open| runs_alone(&folder, open.phase(), open.id()));
        // Records that cannot be read name no next one.
        let next = read_history(repo, tag).ok().map(|history| history.next_id());
        return Ok(match (alone, open().next(), next) {
            (Some(open), ..) => Stopped::RunsAlone(open.id()),
            (None, Some(open), _) => Stopped::Left(open.id()),
            (None, None, Some(next)) if Executor::of_any().is_active(&folder.run(next), RUN) => {
                Stopped::RunsUnknown(next)
            }
            _ => Stopped::NobodyThere,
        });
    };
    folder.ask_to_stop(when, clock.now(), &asked).map_err(|error| match asked.process() {
        Some(process) if is_disk_full(&error) => SessionError::NotAsked { process, when, source: error },
        _ => error.into(),
    })?;
    let contract = folder.contract().ok().flatten();
    let grace = contract.map_or(DEFAULT_GRACE, |contract| contract.grace);
    let begun = Instant::now();
    loop {
        let said = match owner()? {
            Some(Owner { said, .. }) if said == asked.said => said,
            // Somebody else has it since.
            Some(_) => return Ok(Stopped::Ended(Vec::new())),
            // It ended without having heard, as when it was killed: the session may be as unfinished as any idle one.
            None if folder.stop_request().is_some() => {
                folder.take_stop_request();
                return Ok(match ask_to_stop(repo, tag, when, clock)? {
                    Stopped::NobodyThere => {
                        note_stopped(repo, tag, clock)?;
                        Stopped::Ended(Vec::new())
                    }
                    left => left,
                });
            }
            None => {
                let journal = journal(&folder);
                let confirming = journal.iter().flat_map(|journal| journal.in_phase(Phase::Confirming));
                return Ok(Stopped::Ended(confirming.map(Attempt::id).collect()));
            }
        };
        let heard = folder.stop_request().is_none();
        if heard && when == StopWhen::Experiment {
            return Ok(match journal(&folder).as_ref().map(Journal::stopping) {
                Some(Stopping::Beside(open)) => Stopped::Beside(open),
                Some(Stopping::After(open)) => Stopped::After(open),
                None => Stopped::After(Vec::new()),
            });
        }
        let patience = if heard { HEARING + grace + ENDING } else { HEARING };
        if begun.elapsed() > patience {
            return Err(SessionError::NotStopped { tag: tag.to_string(), holder: said });
        }
        thread::sleep(LOOK);
    }
}

/// Notes in the journal of an idle session that the user stopped it, so that guardians neither restart it nor nudge its
/// driver. Forgets the session's unsolved problem, since the user has seen it. Leaves a missing or unparsable journal alone.
///
/// # Errors
///
/// It cannot be written.
pub fn note_stopped(repo: &Repo, tag: &Tag, clock: Clock) -> Result<(), SessionError> {
    let folder = SessionFolder::new(repo.main_worktree(), tag);
    end_idle(&folder, repo.git_dir(), clock, &StopReason::Interrupted { requested: true })
}

/// Ends the runs of an experiment at once and does nothing else: it needs no journal, and no room on the disk.
///
/// # Errors
///
/// It goes on where this process cannot signal it.
pub async fn end_run_only(main_worktree: &Path, tag: &Tag, id: ExperimentId) -> Result<(), SessionError> {
    let folder = SessionFolder::new(main_worktree, tag).run(id);
    let runs = Executor::of_any();
    for folder in further_runs(&folder).chain([folder.clone()]) {
        runs.end_left_over(&folder, RUN).await;
        if !runs.is_gone_within(&folder, RUN, HEARING).await {
            let command = format!("the run of {}", experiment_name(id));
            return Err(ExecError::OtherMachine { command, host: String::new() }.into());
        }
    }
    Ok(())
}

/// The journal, as far as it can be read.
fn journal(folder: &SessionFolder) -> Option<Journal> {
    folder.journal().ok().flatten()
}

fn runs_alone(folder: &SessionFolder, phase: Phase, id: ExperimentId) -> bool {
    let seen = Observations {
        phase: Some(phase),
        owned: false,
        job: Executor::of_any().found(&folder.run(id), RUN),
        outage: false,
        again: false,
    };
    activity(seen) == Activity::RunningAlone
}

/// Looks at the session that `tag` names, or else the one of HEAD's branch; without either at all there are.
///
/// # Errors
///
/// When there is no session, or git cannot read its refs. Damaged state files and records are none: the result names them.
pub fn inspect_sessions(dir: &Path, tag: Option<Tag>, clock: Clock) -> Result<Vec<SessionStatus>, SessionError> {
    let repo = Repo::discover(dir)?;
    let chosen = choose_session(&repo, tag)?;
    let tags = match chosen.choice {
        Choice::Active(_) | Choice::Newest(_) => session_tags(&repo)?,
        Choice::Named | Choice::Head | Choice::Only => vec![chosen.tag],
    };
    tags.iter().map(|tag| StatusWatcher::new(&repo, tag.clone(), clock).look()).collect()
}

/// Reads the status of sessions in several repositories, named by main worktree and tag. Skips unreadable ones, and returns
/// a sentence about each as the second part.
pub fn inspect_all(sessions: Vec<(PathBuf, Tag)>, clock: Clock) -> (Vec<(PathBuf, SessionStatus)>, Vec<String>) {
    let (mut seen, mut troubles) = (Vec::new(), Vec::new());
    for (repository, tag) in sessions {
        let looked = Repo::discover(&repository)
            .map_err(SessionError::from)
            .and_then(|repo| StatusWatcher::new(&repo, tag.clone(), clock).look());
        match looked {
            Ok(status) => seen.push((repository, status)),
            Err(error) => {
                troubles.push(format!("skipped session {tag} in {}: {}", repository.display(), with_causes(&error)));
            }
        }
    }
    (seen, troubles)
}

impl StatusWatcher<'_> {
    /// Reads the current status.
    ///
    /// # Errors
    ///
    /// Git cannot read the session's refs. Damaged state files and records are not errors: the result names them.
    pub fn look(&mut self) -> Result<SessionStatus, SessionError> {
        let mut status = self.read()?;
        match self.unrecorded_tip(&status) {
            Ok(tip) => status.unrecorded_tip = tip,
            Err(error) => status.damage.push(with_causes(&error)),
        }
        Ok(status)
    }

    /// Classifies the commits at the tip of an idle session's branch that belong to no experiment, if there are any.
    fn unrecorded_tip(&self, status: &SessionStatus) -> Result<Option<UnrecordedTip>, SessionError> {
        let Some(contract) = &status.contract else { return Ok(None) };
        if status.activity != Activity::Idle || contract.imported {
            return Ok(None);
        }
        // An unreadable journal is among the damage already.
        let Ok(Some(journal)) = self.folder.journal() else { return Ok(None) };
        unrecorded_tip(self.repo, contract, &journal, &status.history)
    }
}
