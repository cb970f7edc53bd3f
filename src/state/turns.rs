//! Turns of a session in the journal: its calls, the progress they made, and what several groups take part in: it is opened,
//! the agent is called, it ends.

use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Aside, Journal, MessageMarks, OpenOutage, Sleep};
use crate::domain::{Cadence, CommitId, Contract, ExperimentId, LastCall, Message, Spent, StopReason, Usage};
use crate::machine::Attempt;
use crate::rules::{History, Night, SessionDriver, SoFar, StopFacts, stop_before_next};

/// The pause before a call of the agent.
#[derive(Debug, PartialEq)]
pub enum Rest {
    /// None, as no iteration came before.
    None,
    /// One that is noted, over or not.
    Known(Sleep),
    /// One that is still to be decided.
    Due {
        /// The iteration that it follows.
        after: u32,
        /// True if an outage ended since the last pause.
        was_out: bool,
    },
}

impl Journal {
    /// Counts the time since the last sign of life, in which nobody was active.
    pub fn count_absence(&mut self, now: Timestamp) {
        self.pauses.waits.nobody += now.duration_since(self.presence.last_seen()).as_secs_f64().max(0.0);
    }

    /// Notes on which boot and in which working tree a session goes on, with the night that its loop enters. Without a `driver`
    /// nobody is active: what is open is only ended. A loop calls `agent`; nobody else waits for one.
    pub fn take_over(
        &mut self,
        driver: Option<SessionDriver>,
        night: Option<Night>,
        worktree: &Path,
        boot: Option<String>,
        agent: Option<&str>,
    ) {
        self.expenses.enter(night);
        self.tree.move_to(worktree);
        if driver.is_some() {
            self.presence.begin(boot);
        }
        match driver {
            Some(SessionDriver::Loop) => self.pauses.wait_later(agent),
            Some(SessionDriver::Hand) | None => self.pauses.forget_outage(),
        }
    }

    /// Counts a call of the agent that had these words in its prompt; `direction` is that of its proposal. Returns what
    /// [`uncount_call`](Self::uncount_call) needs.
    pub fn count_call(&mut self, words: &[Message], direction: Option<&str>) -> MessageMarks {
        let before = self.messages.clone();
        self.messages.deliver(words);
        self.calls.count(self.ladder.lacks_direction(direction));
        before
    }

    /// Takes back the count of a call that is repeated, with the same words.
    pub fn uncount_call(&mut self, before: MessageMarks) {
        self.messages = before;
        self.calls.rollback_count();
    }

    /// Counts a change by `ar try`, which names this direction.
    pub fn count_try(&mut self, direction: Option<&str>) {
        self.calls.count_try(self.ladder.lacks_direction(direction));
    }

    /// Refuses the direction of a change by `ar try`, and returns it, if it was tried and a new one is wanted; once for each
    /// experiment.
    pub fn refuse_direction(&mut self, history: &History, direction: Option<&str>) -> Option<String> {
        let repeated = self.ladder.repeated_direction(history, direction)?;
        let was_refused = self.calls.refuse_direction(history.next_id());
        (!was_refused).then_some(repeated)
    }

    /// Notes that the change of this commit was brought back into the working tree, for the user to rework.
    pub fn bring_back(&mut self, commit: CommitId) {
        self.calls.set_rework(Some(commit));
        self.presence.pause(false);
    }

    /// Notes that a call of the agent came to its end. Returns the outage that is over with that; with a cadence, the next pause
    /// takes account of it.
    pub fn agent_answered(&mut self, has_cadence: bool) -> Option<OpenOutage> {
        self.expenses.count_call();
        self.pauses.end_outage(has_cadence)
    }

    /// Adds the usage of a call to the session's expenses, in a loop also to those of its night. Returns the usage of all calls.
    pub fn spend(&mut self, usage: &Usage) -> &Spent {
        self.expenses.spend(usage, self.presence.is_loop());
        self.expenses.spent()
    }

    /// Gives the rule by which a loop, whose first experiment is at the place `first`, stops before its next call of the agent,
    /// if there is one. Whoever goes on after that begins another row of calls.
    pub fn rule_to_stop(&mut self, contract: &Contract, history: &History, first: u32) -> Option<StopReason> {
        if let Some(flagged) = self.ladder.stop_for_flag(history) {
            return Some(flagged);
        }
        // Each agent has its own row of calls.
        let idle_calls = self.calls.idle() / self.most_calls();
        let has_changed = self.has_change(history);
        let facts = StopFacts { contract, history, expenses: &self.expenses, first, idle_calls, has_changed };
        let reason = stop_before_next(&facts)?;
        self.calls.end_idle_row();
        Some(reason)
    }

    /// Gives the pause by a cadence before the next call of the agent, as far as it is known.
    pub fn rest(&self, cadence: Cadence) -> Rest {
        let after = self.calls.iteration();
        match self.pauses.sleep_after(after) {
            _ if after == 0 => Rest::None,
            Some(sleep) if sleep.cadence == cadence => Rest::Known(sleep.clone()),
            _ => Rest::Due { after, was_out: self.pauses.was_out() },
        }
    }

    /// Gives the outage that is not over, and its progress.
    pub fn outage(&self, history: &History) -> Option<(OpenOutage, SoFar)> {
        let open = self.pauses.outage()?;
        let has_worked =
            self.expenses.spent().calls > 0 || history.records().iter().any(|record| record.origin.agent.is_some());
        Some((open.clone(), open.so_far(!has_worked)))
    }

    /// Gives the commit that the user's working tree may be at although it began at `start`, if anything is open: an earlier
    /// call that was killed may have put the change that was set aside back.
    pub fn left_in_tree<'a>(&'a self, start: &'a CommitId) -> Option<&'a CommitId> {
        self.first()?;
        Some(self.tree.aside().map_or(start, |aside| &aside.commit))
    }

    /// Returns whether the agent may be called to rework a change that is open.
    pub fn has_change_to_rework(&self) -> bool {
        self.pauses.outage().is_none() && self.attempts().any(Attempt::is_made)
    }

    /// Gives the change that was set aside for the baseline and counts it as a call, as it becomes an experiment.
    pub fn adopt_aside(&mut self) -> Option<Aside> {
        let aside = self.tree.take_aside()?;
        self.calls.count(false);
        Some(aside)
    }

    /// Notes the end of a loop, whose agent this is.
    pub fn end_loop(&mut self, reason: &StopReason, agent: Option<&str>) {
        self.presence.end(reason);
        self.expenses.end_loop(reason);
        self.pauses.end_loop(reason, agent);
    }

    /// Notes that nobody is active after `ar try` failed. Returns whether a change is open, which it can continue.
    pub fn leave_by_hand(&mut self) -> bool {
        self.presence.pause(false);
        self.has_open()
    }

    /// Notes the end of `ar try`, with the reason why the session does not go on by it, if it does not. Its answer tells of a
    /// flag.
    pub fn end_by_hand(&mut self, runs_alone: bool, reason: Option<&StopReason>) {
        if let Some(asked @ StopReason::Interrupted { .. }) = reason {
            self.expenses.end_loop(asked);
        }
        self.presence.end_by_hand(runs_alone, reason);
        self.ladder.dismiss_flag();
    }

    /// Returns whether `ar stop` has something to note although nobody is active: the end of the session, or that the user has
    /// seen what it could not solve.
    pub fn is_to_be_ended(&self) -> bool {
        !self.presence.is_known_to_be_over() || !self.escalation.is_none()
    }

    /// Notes that the user stopped the session for this `reason`, and has seen what it could not solve. Returns whether its end
    /// is new.
    pub fn end_by_user(&mut self, reason: &StopReason) -> bool {
        self.escalation.forget();
        let is_new = !self.presence.is_known_to_be_over();
        if is_new {
            self.presence.end(reason);
            self.expenses.end_loop(reason);
        }
        is_new
    }
}

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
    pub fn rollback_count(&mut self) {
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

/// The findings and the progress of a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The number of its findings.
    total_findings: u32,
    /// When the session last came to something: an experiment, or a finding.
    #[serde(default, with = "crate::domain::millis::option", skip_serializing_if = "Option::is_none")]
    progressed: Option<Timestamp>,
    /// The place of the last record that the summary of a loop tells of, in the lessons.
    #[serde(default)]
    summed_up: u32,
}

impl Results {
    /// The results of a session of which only its records are known.
    pub fn of_records(findings: usize, progressed: Option<Timestamp>) -> Self {
        Results { total_findings: u32::try_from(findings).unwrap_or(u32::MAX), progressed, summed_up: 0 }
    }

    /// The number of findings.
    pub fn findings(&self) -> u32 {
        self.total_findings
    }

    /// When the session last came to something.
    pub fn progressed(&self) -> Option<Timestamp> {
        self.progressed
    }

    /// Returns whether the session made no progress since a moment.
    pub fn are_none_since(&self, moment: Timestamp) -> bool {
        self.progressed.is_none_or(|progressed| progressed <= moment)
    }

    /// Notes an experiment, with as many findings as were added.
    pub fn note(&mut self, findings: usize, now: Timestamp) {
        self.progressed = Some(now);
        self.total_findings = self.total_findings.saturating_add(u32::try_from(findings).unwrap_or(u32::MAX));
    }

    /// The place of the last record that a summary tells of.
    pub fn summed_up(&self) -> u32 {
        self.summed_up
    }

    /// Notes that a summary tells of all records before the place of the `next` one.
    pub fn sum_up(&mut self, next: u32) {
        self.summed_up = next.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::NightEnd;

    fn journal() -> Journal {
        Journal::new(Path::new("/r"), Timestamp::UNIX_EPOCH)
    }

    fn word(id: u32) -> Message {
        Message { id, text: "w".into(), standing: false }
    }

    #[test]
    fn who_only_ends_a_run_makes_nobody_active() {
        for (driver, is_active) in [(Some(SessionDriver::Loop), true), (Some(SessionDriver::Hand), true), (None, false)]
        {
            let mut journal = journal();
            journal.presence.pause(false);
            journal.take_over(driver, None, Path::new("/s"), None, None);
            assert_eq!((journal.presence.is_active(), journal.tree.worktree()), (is_active, Path::new("/s")));
        }
    }

    #[test]
    fn a_killed_loop_was_there_until_its_last_sign_of_life() {
        let (folder, mut journal) = (tempfile::tempdir().unwrap(), journal());
        let at = |second| Timestamp::from_second(second).unwrap();
        for (shown, opened) in [(50, 600), (610, 620), (700, 640)] {
            journal.show(folder.path(), at(shown)).unwrap();
            journal.count_absence(at(opened));
        }
        assert_eq!(journal.pauses.waits.nobody, 560.0, "a clock that was set back counts nothing");
    }

    #[test]
    fn a_call_that_is_repeated_counts_once() {
        let mut journal = journal();
        let before = journal.count_call(&[word(1)], None);
        assert_eq!((journal.calls.iteration(), journal.messages.is_delivered(&word(1))), (1, true));
        journal.uncount_call(before);
        assert_eq!((journal.calls.iteration(), journal.messages.is_delivered(&word(1))), (0, false));
    }

    #[test]
    fn a_pause_is_known_for_the_last_iteration_and_its_cadence() {
        let mut journal = journal();
        assert_eq!(journal.rest(Cadence::Adaptive), Rest::None);
        journal.count_call(&[], None);
        assert_eq!(journal.rest(Cadence::Adaptive), Rest::Due { after: 1, was_out: false });
        let (cadence, why) = (Cadence::Adaptive, String::new());
        let sleep = Sleep { after: 1, cadence, until: None, seconds: 0.0, why, ideas: 0 };
        journal.pauses.sleep(sleep.clone());
        assert_eq!(journal.rest(cadence), Rest::Known(sleep));
        journal.count_call(&[], None);
        assert_eq!(journal.rest(cadence), Rest::Due { after: 2, was_out: false });
    }

    #[test]
    fn the_user_ends_a_session_once() {
        let mut journal = journal();
        let reason = StopReason::Interrupted { requested: true };
        assert_eq!([journal.end_by_user(&reason), journal.end_by_user(&reason)], [true, false]);
        assert!(!journal.is_to_be_ended());
    }

    #[test]
    fn only_a_request_ends_the_night_of_a_session_by_hand() {
        let contract = crate::rules::sample::contract("x");
        let asked = StopReason::Interrupted { requested: true };
        for (reason, end) in
            [(None, NightEnd::Open), (Some(&StopReason::NoAgent), NightEnd::Open), (Some(&asked), NightEnd::Over)]
        {
            let mut journal = journal();
            journal.expenses.enter(Some(Night::since_the_start(&contract, Spent::default(), NightEnd::Open)));
            journal.end_by_hand(false, reason);
            assert_eq!(journal.expenses.last_night().map(|night| night.end), Some(end));
        }
    }

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
        calls.rollback_count();
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

    #[test]
    fn progress_is_the_time_of_the_last_result() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut results = Results::of_records(2, Some(at(5)));
        assert!(results.are_none_since(at(5)) && !results.are_none_since(at(4)));
        results.note(0, at(7));
        results.note(3, at(9));
        assert_eq!((results.findings(), results.progressed()), (5, Some(at(9))));
        results.sum_up(0);
        assert_eq!(results.summed_up(), 0);
    }
}
