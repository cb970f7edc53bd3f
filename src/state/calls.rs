//! The calls for changes in the journal: those of the agent, and those of `ar try`.

use serde::{Deserialize, Serialize};

use crate::domain::{CommitId, ExperimentId, LastCall};

/// The results of the calls for changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Calls {
    /// The calls that came to something: an experiment, or an agent that changed nothing.
    iteration: u32,
    /// Calls in a row that changed nothing.
    #[serde(default)]
    idle_calls: u32,
    /// The result of the last call, for the prompt of the next.
    #[serde(default)]
    last_call: LastCall,
    /// True if the user was told that the agent trains by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    agent_trains: bool,
    /// The experiment for which `ar try` has refused a direction that was tried; it does so once.
    #[serde(default)]
    refused_direction_of: Option<ExperimentId>,
    /// The commit of the experiment whose change `ar try --rework` has brought back into the working tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rework: Option<CommitId>,
}

impl Calls {
    /// The calls of a session of which only its experiments are known.
    pub fn of_experiments(iteration: u32) -> Self {
        Calls { iteration, ..Calls::default() }
    }

    /// The number of calls that came to something.
    pub fn iteration(&self) -> u32 {
        self.iteration
    }

    /// Makes it no less than the number of experiments, since each took a call.
    pub fn at_least(&mut self, experiments: u32) {
        self.iteration = self.iteration.max(experiments);
    }

    /// Calls in a row that changed nothing.
    pub fn idle(&self) -> u32 {
        self.idle_calls
    }

    /// The last call.
    pub fn last(&self) -> &LastCall {
        &self.last_call
    }

    /// Forgets what the last call left, as the next one begins.
    pub fn begin(&mut self) {
        self.last_call.ignored.clear();
    }

    /// Notes ignored files that changed during a call.
    pub fn note_ignored(&mut self, paths: impl IntoIterator<Item = String>) {
        let known = &mut self.last_call.ignored;
        known.extend(paths);
        known.sort();
        known.dedup();
    }

    /// Notes the end of a call.
    pub fn end(&mut self, call: LastCall) {
        self.last_call = LastCall { ignored: std::mem::take(&mut self.last_call.ignored), ..call };
    }

    /// Counts a call; `unnamed` says that it named no direction although a new one was required.
    pub fn count(&mut self, unnamed: bool) {
        self.iteration += 1;
        self.last_call.unnamed = unnamed;
    }

    /// Counts a change by `ar try`, of which nothing else is known.
    pub fn count_try(&mut self, unnamed: bool) {
        self.last_call = LastCall::default();
        self.count(unnamed);
    }

    /// Takes the count of a call back that is made again.
    pub fn uncount(&mut self) {
        self.iteration = self.iteration.saturating_sub(1);
    }

    /// Counts a call that changed nothing among those in a row.
    pub fn count_idle(&mut self) {
        self.idle_calls += 1;
    }

    /// Ends the row of calls that changed nothing.
    pub fn end_idle_row(&mut self) {
        self.idle_calls = 0;
    }

    /// Gives the signs that the agent trains by itself, which are told once in a session.
    pub fn note_training<T>(&mut self, signs: impl FnOnce() -> Option<T>) -> Option<T> {
        let found = if self.agent_trains { None } else { signs() };
        self.agent_trains |= found.is_some();
        found
    }

    /// Notes that a direction of this experiment is refused. Returns whether one was refused before.
    pub fn refuse_direction(&mut self, id: ExperimentId) -> bool {
        self.refused_direction_of.replace(id) == Some(id)
    }

    /// Notes the change that was brought back into the working tree; `None` once it is committed again.
    pub fn set_rework(&mut self, commit: Option<CommitId>) {
        self.rework = commit;
    }

    /// Returns whether the change of this commit was brought back into the working tree.
    pub fn reworks(&self, commit: &CommitId) -> bool {
        self.rework.as_ref() == Some(commit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_call_left_is_told_until_the_next_one_ends() {
        let mut calls = Calls::default();
        calls.begin();
        calls.note_ignored(["b", "a", "b"].map(str::to_owned));
        calls.end(LastCall { rows: 1, proposal_error: Some("no JSON".into()), ..LastCall::default() });
        calls.count(true);
        assert_eq!(
            (calls.iteration(), calls.last().ignored.as_slice()),
            (1, ["a".to_owned(), "b".to_owned()].as_slice())
        );
        assert_eq!((calls.last().rows, calls.last().unnamed, calls.last().proposal_error.is_some()), (1, true, true));
        calls.begin();
        assert!(calls.last().ignored.is_empty());
        calls.count_try(false);
        assert_eq!((calls.iteration(), calls.last()), (2, &LastCall::default()));
        calls.uncount();
        calls.at_least(1);
        assert_eq!(calls.iteration(), 1);
    }

    #[test]
    fn a_direction_is_refused_once_for_each_experiment() {
        let mut calls = Calls::default();
        let refused = [1, 1, 2, 2].map(|id| calls.refuse_direction(id.into()));
        assert_eq!(refused, [false, true, false, true]);
        let told = [None, Some(1), Some(2)].map(|signs| calls.note_training(|| signs));
        assert_eq!(told, [None, Some(1), None]);
    }
}
