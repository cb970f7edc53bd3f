//! The journal: what the session is doing, so that it can be finished by somebody else.

use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::json::from_bytes;
use super::{Calls, Checkpoints, Escalations, MessageMarks, Pauses, Presence, Results, Sleep, StateError, TreeState};
use super::{JOURNAL_VERSION, PROGRESS, PROGRESS_COPIES, json_text, read_json, write_json_unsynced};
use crate::crash;
use crate::domain::{ExperimentId, Layout, Phase, TreeOwner};
use crate::fs::{
    FileCopy, FileError, Unsynced, changed_at, newest_copy, read_regular, write_atomic, write_copy, write_unsynced,
};
use crate::machine::{Attempt, AttemptEntry, Attempts, OpenRun};
use crate::rules::{Checks, Expenses, History, LadderState, Line, most_calls};

/// `state/progress.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    /// The format's version.
    pub version: u32,
    /// The number of times that it was written durably; a sign of life does not count.
    #[serde(default)]
    pub step: u64,
    /// The reruns of the best experiment.
    #[serde(default, skip_serializing_if = "Checks::are_none")]
    pub checks: Checks,
    /// The results of the calls for changes.
    #[serde(flatten)]
    pub calls: Calls,
    /// Its findings and its progress.
    #[serde(flatten)]
    pub results: Results,
    /// Its driver and activity, and the end of its last loop.
    #[serde(flatten)]
    pub presence: Presence,
    /// Its state on its ladder.
    #[serde(flatten)]
    pub ladder: LadderState,
    /// The outage or pause that keeps it from calling the agent.
    #[serde(flatten)]
    pub pauses: Pauses,
    /// The last problem that the session could not solve by itself.
    #[serde(default, skip_serializing_if = "Escalations::is_none")]
    pub escalation: Escalations,
    /// The checkpoints and summaries for the user.
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub checkpoints: Checkpoints,
    /// The delivery of the user's words.
    #[serde(rename = "words", default, skip_serializing_if = "crate::domain::is_default")]
    pub messages: MessageMarks,
    /// Its expenses.
    #[serde(flatten)]
    pub expenses: Expenses,
    /// The state of the user's working tree.
    #[serde(flatten)]
    pub tree: TreeState,
    /// The open attempts, in the order in which they were opened.
    #[serde(default, skip_serializing_if = "Attempts::is_empty")]
    pub attempts: Attempts,
    /// The highest number that was given to an attempt while several were open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<ExperimentId>,
    /// The layout of slots and seats; absent *in place*.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
    /// The GPUs of each slot, by UUID; empty where they are not divided among slots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
    /// The winners that wait, and the train.
    #[serde(default, skip_serializing_if = "Line::is_empty")]
    pub line: Line,
    /// The number of guardians' lines that the session has copied.
    #[serde(default, rename = "guard_lines")]
    pub guardian_lines: usize,
    /// Fields of a newer program.
    #[serde(flatten)]
    pub unknown_fields: Map<String, Value>,
}

/// The journal as it is written: for plain tools, also the first attempt and its step.
#[derive(Serialize)]
struct JournalDocument<'a> {
    #[serde(flatten)]
    journal: &'a Journal,
    phase: Phase,
    open: Option<&'a Attempt>,
}

impl JournalDocument<'_> {
    /// The keys that repeat the first attempt.
    const COPIES: [&'static str; 2] = ["phase", "open"];
}

impl Journal {
    /// The journal of a session that was just opened in a working tree.
    pub fn new(worktree: &Path, now: Timestamp) -> Self {
        let (presence, tree) = (Presence::new(now), TreeState::of(worktree));
        Journal { version: JOURNAL_VERSION, presence, tree, ..Journal::default() }
    }

    /// Reads the journal of a state folder; `None` when there is none. After a power cut, and after a kill in the moment of a
    /// write, `progress.json` is older than the durable copy, or a part of it.
    pub fn read(state: &Path) -> Result<Option<Self>, StateError> {
        let path = state.join(PROGRESS);
        let shown = read_json::<Journal>(&path);
        if matches!(shown, Ok(None)) {
            return shown;
        }
        let is_newer = |copy: &FileCopy| match &shown {
            Ok(Some(shown)) => shown.step < copy.number && changed_at(&path) <= copy.replaces,
            Err(StateError::Json { .. }) => read_regular(&path).is_ok_and(|content| is_torn(&content, &copy.content)),
            Ok(None) | Err(_) => false,
        };
        let newer = newest_copy(&state.join(PROGRESS_COPIES))?.filter(is_newer);
        let newer = newer.map(|copy| from_bytes(&path, &copy.content)).transpose()?;
        let Some(mut journal) = newer.map_or(shown, |newer| Ok(Some(newer)))? else { return Ok(None) };
        JournalDocument::COPIES.iter().for_each(|key| drop(journal.unknown_fields.shift_remove(*key)));
        Ok(Some(journal))
    }

    /// Returns whether the journal of a session is lost: missing, or made again from the records, which may not tell all that
    /// it did.
    pub fn is_lost(journal: Option<&Journal>) -> bool {
        journal.is_none_or(|journal| journal.presence.is_unseen())
    }

    /// The place where its experiments are made and run.
    pub fn tree_owner(&self) -> TreeOwner {
        TreeOwner::of(self.layout.as_ref())
    }

    /// The most agents that are called at a time.
    pub fn most_calls(&self) -> u32 {
        self.layout.as_ref().map_or(1, most_calls)
    }

    /// Returns whether anybody has made a change in the session, recorded or open.
    pub fn has_change(&self, history: &History) -> bool {
        history.experiments() > 0 || self.attempts().any(Attempt::is_made)
    }

    /// The user's working tree, if its experiments are made and run there.
    pub fn users_tree(&self) -> Option<&Path> {
        self.tree_owner().has_user().then(|| self.tree.worktree())
    }

    /// Returns whether somebody was active in the user's working tree at `worktree`, or left a run there, when the journal was
    /// written.
    pub fn is_active_in(&self, worktree: &Path) -> bool {
        self.presence.is_active() && self.users_tree() == Some(worktree)
    }

    /// The attempt that was opened first.
    pub fn first(&self) -> Option<&Attempt> {
        self.attempts().next()
    }

    /// The step of the attempt that was opened first.
    pub fn phase(&self) -> Phase {
        self.first().map_or(Phase::Idle, Attempt::phase)
    }

    /// The open attempts, in the order in which they were opened.
    pub fn attempts(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.open.iter().map(|entry| &entry.attempt)
    }

    /// The same, to be changed.
    pub fn attempts_mut(&mut self) -> impl Iterator<Item = &mut Attempt> {
        self.attempts.open.iter_mut().map(|entry| &mut entry.attempt)
    }

    /// The open attempt of this number with its runs.
    pub fn find(&self, id: ExperimentId) -> Option<&AttemptEntry> {
        self.attempts.open.iter().find(|entry| entry.attempt.id() == id)
    }

    /// The numbers of the open attempts, in the same order.
    pub fn open_ids(&self) -> Vec<ExperimentId> {
        self.attempts.ids()
    }

    /// The attempt that was opened first in the user's working tree at `worktree`, if any is open there.
    pub fn open_in(&self, worktree: &Path) -> Option<ExperimentId> {
        self.first().filter(|_| self.users_tree() == Some(worktree)).map(Attempt::id)
    }

    /// The open attempt of this number.
    pub fn attempt(&self, id: ExperimentId) -> Option<&Attempt> {
        self.find(id).map(|found| &found.attempt)
    }

    /// The same, to be changed.
    pub fn attempt_mut(&mut self, id: ExperimentId) -> Option<&mut Attempt> {
        self.attempts_mut().find(|attempt| attempt.id() == id)
    }

    /// The experiment that is open, or that a change waits for whose baseline is measured first.
    pub fn next_recorded(&self) -> Option<ExperimentId> {
        let aside = || self.tree.aside().map(|_| ExperimentId::BASELINE.next());
        self.first().map(Attempt::id).or_else(aside)
    }

    /// The pause after the last iteration.
    pub fn sleep(&self) -> Option<&Sleep> {
        self.pauses.sleep_after(self.calls.iteration())
    }

    /// The open attempts in this step.
    pub fn in_phase(&self, phase: Phase) -> impl Iterator<Item = &Attempt> {
        self.attempts().filter(move |attempt| attempt.phase() == phase)
    }

    /// Returns whether a change is open, or waits for the baseline.
    pub fn has_open(&self) -> bool {
        !self.attempts.is_empty() || self.tree.aside().is_some()
    }

    /// Returns whether nothing of the session is under way. Otherwise commits at the tip of its branch may be those of an agent
    /// or of a reviewer.
    pub fn is_between(&self) -> bool {
        !self.has_open() && self.tree.reviewed().is_none() && !self.presence.is_unseen()
    }

    /// Returns whether something is unfinished that is not in the user's working tree: an attempt on a slot or seat, or a winner
    /// that waits.
    pub fn is_unfinished_beside(&self) -> bool {
        self.tree_owner().is_one_of_many() && (!self.attempts.is_empty() || !self.line.is_empty())
    }

    /// Enters an attempt at a new step; it is opened if it is not. A winner that waits is merged again; one that is to be run
    /// again is none.
    pub fn enter(&mut self, attempt: Attempt) {
        let id = attempt.id();
        match attempt.phase() {
            Phase::Waiting => self.line.answered(id),
            Phase::Committing => self.line.left(id),
            _ => {}
        }
        let is_first = self.attempts.open.is_empty();
        let is_one_of_many = self.tree_owner().is_one_of_many();
        let known = self.attempts.open.iter_mut().find(|entry| entry.attempt.id() == id);
        if is_one_of_many || (known.is_none() && !is_first) {
            self.given = self.given.max(Some(id));
        }
        match known {
            Some(entry) => entry.attempt = attempt,
            None => self.attempts.open.push(AttemptEntry::new(attempt)),
        }
    }

    /// Enters a run of an open attempt in the place of the one with its role and number. Removes that if the run was never
    /// started.
    pub fn enter_run(&mut self, id: ExperimentId, run: &OpenRun) {
        self.forget_runs(id, |known| known.is(run));
        let entry = self.entry_mut(id).filter(|_| run.starts > 0);
        entry.into_iter().for_each(|entry| entry.runs.push(run.clone()));
    }

    /// Removes runs of an open attempt.
    pub fn forget_runs(&mut self, id: ExperimentId, which: impl Fn(&OpenRun) -> bool) {
        self.entry_mut(id).into_iter().for_each(|entry| entry.runs.retain(|run| !which(run)));
    }

    fn entry_mut(&mut self, id: ExperimentId) -> Option<&mut AttemptEntry> {
        self.attempts.open.iter_mut().find(|entry| entry.attempt.id() == id)
    }

    /// The number of the next attempt, at least `next`: no attempt that is open has it.
    pub fn allocate(&mut self, next: ExperimentId) -> ExperimentId {
        let given = self.attempts().map(Attempt::id).chain(self.given);
        let id = given.map(ExperimentId::next).fold(next, Ord::max);
        self.expenses.allot(id, self.presence.is_by_hand());
        id
    }

    /// Gives up the number of an attempt that comes to nothing, so that the next one gets it; a gap stays where a later one was
    /// given meanwhile.
    pub fn give_up(&mut self, id: ExperimentId) {
        self.given = self.given.map(|given| if given == id { given.previous() } else { given });
    }

    /// Closes an attempt, which is no winner then. Returns it as it was.
    pub fn close(&mut self, id: ExperimentId) -> Option<AttemptEntry> {
        self.line.left(id);
        let place = self.attempts.open.iter().position(|entry| entry.attempt.id() == id);
        let closed = place.map(|place| self.attempts.open.remove(place));
        // A trial may have had a number that no record has.
        if self.attempts.is_empty() && !self.tree_owner().is_one_of_many() {
            self.given = None;
        }
        closed
    }

    /// The first line of guardians that the session has not copied, of so many. Files that were begun anew have fewer.
    pub fn first_new_guardian_line(&self, count: usize) -> Option<usize> {
        let known = self.guardian_lines;
        (known != count).then_some(if known > count { 0 } else { known })
    }

    /// Writes it as a sign of life. A power cut may take that back, and nothing else.
    pub fn show(&mut self, state: &Path, now: Timestamp) -> Result<(), StateError> {
        let written = self.written(now);
        write_json_unsynced(&state.join(PROGRESS), &written)
    }

    /// Writes it durably.
    pub fn write(&mut self, state: &Path, now: Timestamp) -> Result<(), StateError> {
        self.write_after(Unsynced::default(), state, now)
    }

    /// Does the same with all that is in `unsynced` on the disk before it says so. The durable copy is written first: what
    /// `progress.json` says holds after a power cut, too.
    pub fn write_after(&mut self, unsynced: Unsynced, state: &Path, now: Timestamp) -> Result<(), StateError> {
        unsynced.sync().map_err(|(path, source)| FileError { action: "sync", path, source })?;
        let (path, copies) = (state.join(PROGRESS), state.join(PROGRESS_COPIES));
        // That of another journal may be there, such as one that was lost.
        let newest = newest_copy(&copies)?.map_or(0, |copy| copy.number);
        self.step = self.step.max(newest).saturating_add(1);
        let replaces = changed_at(&path);
        let copy = FileCopy { number: self.step, replaces, content: json_text(&path, &self.written(now))? };
        write_copy(&copies, &copy)?;
        crash::point("state.copy_written");
        Ok(if replaces == 0 { write_atomic(&path, &copy.content) } else { write_unsynced(&path, &copy.content) }?)
    }

    fn written(&mut self, now: Timestamp) -> JournalDocument<'_> {
        self.version = JOURNAL_VERSION;
        self.presence.show(now);
        JournalDocument { phase: self.phase(), open: self.first(), journal: self }
    }
}

/// The size of the blocks by which a file system puts a file on the disk, in bytes: no smaller one is usual.
const BLOCK: usize = 512;

/// Returns whether a file is what a power cut may leave of one with this content: some of its first blocks.
fn is_torn(file: &[u8], content: &[u8]) -> bool {
    let written = file.len() - file.iter().rev().take_while(|byte| **byte == 0).count();
    written.is_multiple_of(BLOCK) && content.starts_with(&file[..written])
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::domain::{CommitId, RunRole};
    use crate::machine::{AttemptHead, Draft, Made};
    use crate::rules::{Car, sample};

    fn head(id: u32) -> AttemptHead {
        AttemptHead::new(id.into(), CommitId::new("a".repeat(40)), Timestamp::UNIX_EPOCH)
    }

    fn made(id: u32) -> Made {
        Made { head: head(id), commit: CommitId::new("b".repeat(40)), ..Made::default() }
    }

    fn draft(id: u32) -> Draft {
        Draft::new(made(id), sample::record(json!({"id": id, "value": "1.0"})))
    }

    #[test]
    fn the_first_attempt_is_shown_to_plain_tools_and_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let (state, now) = (folder.path(), Timestamp::UNIX_EPOCH);
        let mut journal = Journal::new(state, now);
        journal.enter(Attempt::Run(made(3)));
        journal.enter(Attempt::Call(head(4)));
        journal.write(state, now).unwrap();
        let mut value: Value = read_json(&state.join(PROGRESS)).unwrap().unwrap();
        assert_eq!(
            (&value["version"], &value["phase"], &value["open"]["id"]),
            (&3.into(), &"running".into(), &3.into())
        );
        assert_eq!(value["attempts"][1]["phase"], "proposing");
        assert_eq!(Journal::read(state).unwrap().as_ref(), Some(&journal));

        (value["phase"], value["open"]) = ("idle".into(), Value::Null);
        write_json_unsynced(&state.join(PROGRESS), &value).unwrap();
        assert_eq!(Journal::read(state).unwrap().as_ref(), Some(&journal));

        journal.close(3.into());
        assert_eq!((journal.phase(), journal.given), (Phase::Proposing, Some(4.into())));
        journal.close(4.into());
        assert_eq!((journal.phase(), journal.given), (Phase::Idle, None));
    }

    #[test]
    fn a_durable_copy_that_is_newer_than_the_file_counts() {
        let folder = tempfile::tempdir().unwrap();
        let (state, now) = (folder.path(), Timestamp::UNIX_EPOCH);
        let (path, copies) = (state.join(PROGRESS), state.join(PROGRESS_COPIES));
        let mut journal = Journal::new(state, now);
        journal.write(state, now).unwrap();
        let (older, then) = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap());
        journal.enter(Attempt::Guard(draft(3)));
        journal.write(state, now).unwrap();
        // What a kill in the moment of a write leaves, and what a power cut may leave.
        let newest = fs::read(&path).unwrap();
        let leave = |left: &[u8]| {
            fs::write(&path, left).unwrap();
            fs::File::options().write(true).open(&path).unwrap().set_modified(then).unwrap();
        };
        for left in [&older[..], b"", &[0; 99], &newest[..BLOCK], &[&newest[..BLOCK], &[0; BLOCK]].concat()] {
            leave(left);
            assert_eq!(Journal::read(state).unwrap().as_ref(), Some(&journal));
        }
        fs::write(&path, &older).unwrap();
        assert!(Journal::read(state).unwrap().as_ref() != Some(&journal), "somebody put the older one back");
        for damage in [&newest[..1], &newest[..BLOCK + 1], &[b'x'; BLOCK]] {
            fs::write(&path, damage).unwrap();
            assert!(matches!(Journal::read(state), Err(StateError::Json { .. })), "somebody damaged it");
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(Journal::read(state).unwrap(), None, "somebody deleted it");
        // One that is made again, and one that is written as it was before, are newer than the copies.
        let mut again = Journal::new(state, now);
        again.write(state, now).unwrap();
        let shown = fs::read(&path).unwrap();
        let mut other = Journal { step: 0, ..again.clone() };
        other.enter(Attempt::Run(made(4)));
        other.write(state, now).unwrap();
        leave(&shown);
        assert_eq!(Journal::read(state).unwrap().as_ref(), Some(&other));
        let mut again = other;
        again.step = u64::MAX;
        again.write(state, now).unwrap();
        fs::write(&path, b"").unwrap();
        assert_eq!(Journal::read(state).unwrap().as_ref(), Some(&again));
        fs::remove_file(&copies).unwrap();
        assert!(Journal::read(state).is_err());
    }

    #[test]
    fn a_journal_repeats_its_first_attempt_for_plain_tools_only() {
        let folder = tempfile::tempdir().unwrap();
        let (state, now) = (folder.path(), Timestamp::UNIX_EPOCH);
        let mut journal = Journal::new(state, now);
        journal.enter(Attempt::Guard(draft(3)));
        journal.write(state, now).unwrap();
        let value: Value = read_json(&state.join(PROGRESS)).unwrap().unwrap();
        assert_eq!((&value["phase"], &value["open"]["id"]), (&"guarding".into(), &3.into()));
        let read = Journal::read(state).unwrap().unwrap();
        assert_eq!((read.phase(), read.attempts().count()), (Phase::Guarding, 1));
        assert!(read.unknown_fields.is_empty(), "{:?}", read.unknown_fields);
    }

    #[test]
    fn an_attempt_keeps_its_runs() {
        let mut journal = Journal::new(Path::new("/r"), Timestamp::UNIX_EPOCH);
        let first = OpenRun { starts: 2, metric_file: Some("7".into()), ..OpenRun::new(RunRole::Screen, 1) };
        let further = OpenRun { starts: 1, ..OpenRun::new(RunRole::Screen, 2) };
        journal.enter(Attempt::Run(made(3)));
        [&first, &further, &OpenRun::new(RunRole::Screen, 3)].iter().for_each(|run| journal.enter_run(3.into(), run));
        journal.enter(Attempt::Guard(draft(3)));
        let left = journal.find(3.into()).unwrap();
        assert_eq!((&left.runs, left.run()), (&vec![first.clone(), further.clone()], first.clone()));
        journal.enter_run(3.into(), &OpenRun::new(RunRole::Screen, 1));
        assert_eq!(journal.find(3.into()).unwrap().runs, [further]);
    }

    #[test]
    fn a_winner_is_in_the_line_until_it_is_run_again_or_closed() {
        let mut journal = Journal::new(Path::new("/r"), Timestamp::UNIX_EPOCH);
        for (id, next) in [(3, Attempt::Ready(made(3))), (4, Attempt::Winner(draft(4)))] {
            journal.enter(Attempt::Winner(draft(id)));
            journal.line.won(Car::new(id.into(), ExperimentId::BASELINE, "1".parse().unwrap(), 1.0));
            journal.enter(next);
        }
        let winners = |journal: &Journal| journal.line.cars().map(|car| car.id).collect::<Vec<_>>();
        assert_eq!(winners(&journal), [4.into()]);
        assert_eq!(journal.close(4.into()).map(|closed| closed.attempt.id()), Some(4.into()));
        assert_eq!((winners(&journal), journal.close(4.into())), (vec![], None));
    }

    #[test]
    fn a_number_is_given_once_unless_it_is_given_up() {
        let mut journal = Journal::new(Path::new("/r"), Timestamp::UNIX_EPOCH);
        assert_eq!(journal.allocate(3.into()), 3.into());
        journal.enter(Attempt::Run(made(3)));
        journal.enter(Attempt::Call(head(4)));
        assert_eq!((journal.allocate(3.into()), journal.next_recorded()), (5.into(), Some(3.into())));
        journal.close(4.into());
        assert_eq!(journal.allocate(3.into()), 5.into(), "a closed attempt may have a record");
        journal.give_up(4.into());
        assert_eq!(journal.allocate(3.into()), 4.into());
    }

    #[test]
    fn a_journal_keeps_all_its_keys_and_those_of_a_newer_program() {
        let all: Value = serde_json::from_str(
            r#"{
            "version": 3, "step": 9, "iteration": 7, "total_findings": 2, "status": "stopped", "stale_count": 4,
            "rung": {"stale": 1, "pivots": 2, "turns": 3, "flags": 1, "directive": {"kind": "refine"}},
            "flagged": [5], "told": [{"after": 4, "directive": {"kind": "refine"}}], "stops_for_flag": true,
            "idle_calls": 1, "refused_direction_of": 6, "rework": "a1", "agent_trains": true, "was_out": true,
            "last_call": {"question": "why?", "ended_after": 3.5, "unnamed": true},
            "checks": {
                "last": 7, "made": [{
                    "experiment": 2, "seed": 1, "value": 1.5, "recorded": 1.25, "was_selected": true, "since": 2,
                    "after": 7, "ended": "2026-11-20T22:00:00.000Z",
                    "drift": {"shift": -0.25, "error": 0.0625, "checks": 1, "experiments": 5}
                }]
            },
            "outage": {
                "since": "2026-11-20T22:00:00.000Z", "seconds": 1.5, "failed_seconds": 0.5, "waits": 2, "repeats": 1,
                "agent": "x", "outage": {"kind": "overloaded", "said": "later", "until": null}, "until": null
            },
            "explored": {"turns": 3, "asked": 1, "proposals": [{"role": "refute", "text": "t"}]},
            "escalation": {
                "kind": "disk", "what": "full", "needed": "room", "since": "2026-11-20T22:00:00.000Z", "after": 4,
                "times": 2, "waits": true
            },
            "sleep": {
                "after": 7, "cadence": "adaptive", "until": "2026-11-20T22:00:00.000Z", "seconds": 60.5, "why": "w",
                "ideas": 9
            },
            "checkpoints": {"last": "2026-11-20T22:00:00.000Z", "is_open": true, "asks_summary": true},
            "words": {"heard": 3, "delivered": [1, 2]}, "spent": {"calls": 5, "cost": 1.5},
            "night": {
                "began": "2026-11-20T22:00:00.000Z", "caps": {"experiments": 9}, "from": 2, "apart": [3],
                "spent": {"calls": 0, "cost": 0.5}, "ends": "2026-11-21T22:00:00.000Z", "end": "over", "newer": true
            },
            "summed_up": 3, "ended": "asked to", "unseen": true, "end_unknown": true, "worktree": "/r",
            "given": 9, "gpus": ["GPU-1"], "homeward": "refs/heads/main", "late_review": 4, "driver": "loop",
            "aside": {"commit": "a2", "description": "d", "direction": null, "proposal": {}, "reference": "refs/x"},
            "progressed": "2026-11-20T22:00:00.000Z", "guard_lines": 2, "interval": 90, "boot_id": "b",
            "host": "h", "process": 7, "openings": 3,
            "last_seen": "2026-11-20T22:00:00.000Z", "phase": "idle", "open": null, "newer": {"a": [1]}
            }"#,
        )
        .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (state, now) = (folder.path(), "2026-11-20T22:00:00Z".parse().unwrap());
        write_json_unsynced(&state.join(PROGRESS), &all).unwrap();
        let mut journal = Journal::read(state).unwrap().unwrap();
        assert_eq!(journal.unknown_fields.keys().collect::<Vec<_>>(), ["newer"]);
        journal.show(state, now).unwrap();
        assert_eq!(read_json::<Value>(&state.join(PROGRESS)).unwrap().unwrap(), all);
    }
}
