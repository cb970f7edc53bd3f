//! Requests of `ar stop`: `stop.json`, which the active loop renames to `stopping.json`, and the end of a loop as its
//! journal tells it.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::json::{read_json, write_json};
use super::{Journal, Owner, OwnerLock, SessionFolder, StateError};
use crate::domain::{ExperimentId, FORMAT_VERSION, Phase, StopWhen};
use crate::fs::failed;

/// The largest valid request, in bytes: ten times one with the longest tag.
const LARGEST: u64 = 4096;

#[derive(Serialize, Deserialize)]
struct StopRequest {
    version: u32,
    when: StopWhen,
    #[serde(with = "crate::domain::millis")]
    asked: Timestamp,
    /// The addressee, by its own description.
    #[serde(default)]
    to: Option<String>,
}

impl SessionFolder {
    /// Asks `owner`, which holds the session, to stop. A stronger waiting request stays.
    pub fn ask_to_stop(&self, when: StopWhen, asked: Timestamp, owner: &Owner) -> Result<(), StateError> {
        if self.stop_request() >= Some(when) && self.stop_request_is_to(&owner.said) {
            return Ok(());
        }
        // The folder may have been deleted while the loop is active.
        fs::create_dir_all(self.root()).map_err(failed("create", self.root()))?;
        write_json(
            &self.stop_path(),
            &StopRequest { version: FORMAT_VERSION, when, asked, to: Some(owner.said.clone()) },
        )
    }

    /// The request that no loop has received yet. An invalid one counts as the milder one, so `touch stop.json` works.
    pub fn stop_request(&self) -> Option<StopWhen> {
        request_in(&self.stop_path())
    }

    /// The strongest request that the active loop received.
    pub fn received_stop(&self) -> Option<StopWhen> {
        request_in(&self.received_path())
    }

    /// The request to the active loop, received or not.
    pub fn stopping(&self) -> Option<StopWhen> {
        // This order misses no request that is received meanwhile.
        self.stop_request().max(self.received_stop())
    }

    /// Receives the request: renames its file, or removes it if a request as strong was received before. The requester sees
    /// that it is gone. A rename needs no disk space.
    pub fn receive_stop_request(&self) -> Option<StopWhen> {
        let request = self.stop_request()?;
        let is_renamed =
            self.received_stop() < Some(request) && fs::rename(self.stop_path(), self.received_path()).is_ok();
        if !is_renamed {
            self.take_stop_request();
        }
        Some(request)
    }

    /// Removes the request.
    pub fn take_stop_request(&self) {
        // A request that cannot be removed counts as received.
        let _ = fs::remove_file(self.stop_path());
    }

    /// Removes requests received before `lock` held the session, and a waiting one for another process, which is gone.
    pub fn drop_old_stop_request(&self, lock: &OwnerLock) {
        let _ = fs::remove_file(self.received_path());
        if !self.stop_request_is_to(lock.said()) {
            self.take_stop_request();
        }
    }

    fn stop_request_is_to(&self, owner: &str) -> bool {
        let request = read_json::<StopRequest>(&self.stop_path()).ok().flatten();
        request.is_some_and(|request| request.to.as_deref() == Some(owner))
    }

    fn stop_path(&self) -> PathBuf {
        self.root().join("stop.json")
    }

    fn received_path(&self) -> PathBuf {
        self.root().join("stopping.json")
    }
}

fn request_in(path: &Path) -> Option<StopWhen> {
    if fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() > LARGEST) {
        return Some(StopWhen::Experiment);
    }
    match read_json::<StopRequest>(path) {
        Ok(None) | Err(StateError::File(_)) => None,
        Ok(Some(request)) => Some(request.when),
        Err(_) => Some(StopWhen::Experiment),
    }
}

/// The open attempts of a loop that was asked to stop, by their end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopping {
    /// *In place*: these are finished and recorded.
    After(Vec<ExperimentId>),
    /// With slots.
    Beside(StoppingBeside),
}

/// The open attempts of a loop with slots that was asked to stop, by their end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoppingBeside {
    /// Those whose runs finish first and are recorded.
    pub runs: Vec<ExperimentId>,
    /// Those whose agents finish first, and those that wait for a slot: their proposals are kept and not run.
    pub proposals: Vec<ExperimentId>,
    /// Set if the proposals stay ready for the queue of a cluster.
    pub stay_ready: bool,
    /// Those that beat their own base and wait until the session continues.
    pub winners: Vec<ExperimentId>,
    /// Set if a run of merged winners finishes first.
    pub train: bool,
}

impl Journal {
    /// Returns whether an engine executes the session's runs.
    pub fn is_on_cluster(&self) -> bool {
        self.layout.as_ref().is_some_and(|layout| layout.cluster.is_some())
    }

    /// Returns how the open attempts end if the loop is asked to stop after them.
    pub fn stopping(&self) -> Stopping {
        match self.tree_owner().is_one_of_many() {
            true => Stopping::Beside(self.stopping_beside()),
            false => Stopping::After(self.last_experiments()),
        }
    }

    fn stopping_beside(&self) -> StoppingBeside {
        let mut stopping = StoppingBeside { stay_ready: self.is_on_cluster(), ..StoppingBeside::default() };
        for (phase, open) in self.steps() {
            match phase {
                _ if open.trial.is_some() => stopping.train = true,
                Phase::Proposing | Phase::Committing => stopping.proposals.push(open.id),
                Phase::Waiting => stopping.winners.push(open.id),
                Phase::Running
                | Phase::Guarding
                | Phase::Confirming
                | Phase::Reviewing
                | Phase::Recording
                | Phase::Settling => {
                    stopping.runs.push(open.id);
                }
                Phase::Idle | Phase::Checking => {}
            }
        }
        stopping
    }

    /// The experiments after which a loop *in place* stops: a baseline that a change waits for is measured for that change's
    /// sake.
    fn last_experiments(&self) -> Vec<ExperimentId> {
        if self.tree.aside().is_some() {
            return vec![ExperimentId::BASELINE.next()];
        }
        let open = self.steps().filter(|(phase, _)| *phase != Phase::Checking);
        open.map(|(_, open)| open.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jiff::Timestamp;

    use super::*;
    use crate::domain::{CommitId, Layout};
    use crate::rules::Trial;
    use crate::state::{Aside, OpenExperiment};

    #[test]
    fn a_request_to_who_has_the_session_outlives_its_opening_and_one_to_another_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let folder = SessionFolder::new(dir.path(), &"t".parse().unwrap());
        folder.create().unwrap();
        let lock = folder.lock(dir.path(), true).unwrap();
        let owner = folder.owner(dir.path()).unwrap().unwrap();
        let another = Owner { said: "process 1 with session t".to_owned(), since: None };
        for (to, left) in [(&owner, Some(StopWhen::Now)), (&another, None)] {
            folder.ask_to_stop(StopWhen::Now, Timestamp::UNIX_EPOCH, to).unwrap();
            folder.drop_old_stop_request(&lock);
            assert_eq!(folder.stop_request(), left, "{to:?}");
        }
        // A request that waits for another process is not the same.
        folder.ask_to_stop(StopWhen::Now, Timestamp::UNIX_EPOCH, &another).unwrap();
        folder.ask_to_stop(StopWhen::Experiment, Timestamp::UNIX_EPOCH, &owner).unwrap();
        assert_eq!(folder.stop_request(), Some(StopWhen::Experiment));
        folder.ask_to_stop(StopWhen::Now, Timestamp::UNIX_EPOCH, &owner).unwrap();
        folder.ask_to_stop(StopWhen::Experiment, Timestamp::UNIX_EPOCH, &owner).unwrap();
        assert_eq!(folder.receive_stop_request(), Some(StopWhen::Now));
        assert_eq!((folder.stop_request(), folder.stopping()), (None, Some(StopWhen::Now)));
        // A milder request that comes later changes nothing; the next process that opens the session has no request.
        folder.ask_to_stop(StopWhen::Experiment, Timestamp::UNIX_EPOCH, &owner).unwrap();
        assert_eq!(folder.receive_stop_request(), Some(StopWhen::Experiment));
        assert_eq!((folder.stop_request(), folder.stopping()), (None, Some(StopWhen::Now)));
        folder.drop_old_stop_request(&lock);
        assert_eq!(folder.stopping(), None);
    }

    fn journal(open: &[(Phase, u32)]) -> Journal {
        let mut journal = Journal::new(Path::new("/r"), Timestamp::UNIX_EPOCH);
        for (phase, id) in open {
            let base = CommitId::new("a".repeat(40));
            journal.enter(*phase, OpenExperiment::new((*id).into(), base, Timestamp::UNIX_EPOCH));
        }
        journal
    }

    #[test]
    fn in_place_the_loop_stops_after_what_is_open_or_waits_for_the_baseline() {
        let mut journal = journal(&[(Phase::Running, 3), (Phase::Checking, 4)]);
        assert_eq!(journal.stopping(), Stopping::After(vec![3.into()]));
        journal.tree.set_aside(Aside {
            commit: CommitId::new("b".repeat(40)),
            description: String::new(),
            direction: None,
            proposal: serde_json::Map::new(),
            reference: String::new(),
        });
        assert_eq!(journal.stopping(), Stopping::After(vec![1.into()]));
    }

    #[test]
    fn with_slots_each_step_ends_in_its_way() {
        let open = [(Phase::Proposing, 3), (Phase::Committing, 4), (Phase::Waiting, 5), (Phase::Guarding, 6)];
        let mut journal = Journal { layout: Some(Layout::of(2)), ..journal(&open) };
        let steps = StoppingBeside {
            runs: vec![6.into()],
            proposals: vec![3.into(), 4.into()],
            stay_ready: false,
            winners: vec![5.into()],
            train: false,
        };
        assert_eq!(journal.stopping(), Stopping::Beside(steps.clone()));
        journal.attempts[3].open.trial = Some(Trial::Afresh(5.into()));
        assert_eq!(journal.stopping(), Stopping::Beside(StoppingBeside { runs: Vec::new(), train: true, ..steps }));
    }
}
