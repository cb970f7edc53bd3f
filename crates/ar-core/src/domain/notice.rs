//! Notices: what the user should know and need not act on. Each kind has its text here.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde::ser::{Serialize, Serializer};

use super::{
    CommitId, Escalation, ExperimentId, MetricDrift, Tag, count_of, cut, duration_text, exact_time, experiment_name,
    span_text, stale_lock_clause,
};

/// The most rows removed from results.tsv that a notice names, and the most characters of each.
const ROWS: usize = 3;
const ROW: usize = 80;

/// The party that is active while `ar` waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub enum Actor {
    /// The agent.
    #[strum(to_string = "the agent")]
    Agent,
    /// The measuring command.
    #[strum(to_string = "the run")]
    Run,
    /// A guard.
    #[strum(to_string = "the guard")]
    Guard,
    /// The reviewer.
    #[strum(to_string = "the reviewer")]
    Reviewer,
    /// Nobody but `ar` itself.
    #[strum(to_string = "ar")]
    Ar,
}

/// Those who are active while `ar` waits, as the beginning of a sentence: "the agent was", "the agent and the run were".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actors(Vec<Actor>);

impl FromIterator<Actor> for Actors {
    fn from_iter<I: IntoIterator<Item = Actor>>(actors: I) -> Self {
        let mut known = Vec::new();
        for actor in actors {
            if !known.contains(&actor) {
                known.push(actor);
            }
        }
        Actors(known)
    }
}

impl From<Actor> for Actors {
    fn from(actor: Actor) -> Self {
        Actors(vec![actor])
    }
}

impl fmt::Display for Actors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(Actor::to_string).collect();
        write!(out, "{} {}", names.join(" and "), if names.len() > 1 { "were" } else { "was" })
    }
}

/// A notice. One that code compares, or that several places make, is a variant with its words.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's words say what it is")]
pub enum Notice {
    /// A notice that nothing but the reader tells from others: its words stand where it is made.
    #[error("{0}")]
    Sentence(String),
    // The invocation.
    #[error("stopping after {after}; press Ctrl-C again to terminate {run} now")]
    StopsAfter { after: &'static str, run: &'static str },
    #[error("`ar stop` was requested; stopping after {after}")]
    StopsAfterAsAsked { after: &'static str },
    #[error("terminating the run and rolling back")]
    StopsNow,
    #[error("`ar stop --now` was requested; terminating the run and rolling back")]
    StopsNowAsAsked,
    #[error("the command of --on-event failed; see logs/work.jsonl and logs/on-event.log of the session")]
    HooksFail,
    #[error("the session still needs you: {}", escalation.clause(report.as_deref()))]
    StillEscalated { escalation: Escalation, report: Option<PathBuf> },
    // Branch and working tree.
    #[error("recreated the missing branch {0}")]
    BranchRecreated(String),
    #[error("your working tree is on {0}, which moves with each keep; run `git switch` to leave it")]
    HeadOnBranch(String),
    #[error("the branch had moved to {0}; saved that commit in {saved}, and `git cherry-pick {0}` brings it back", tip.short(8))]
    BranchMoved { tip: CommitId, saved: String },
    #[error("{what} is in {saved}")]
    ChangeIsIn { what: String, saved: String },
    #[error("saved {} that the agent made and reset, below {prefix}/saved", count_of(*count, "commit"))]
    ResetCommitsSaved { count: usize, prefix: String },
    #[error("cannot remove the reviewer's working tree {}: {why}", tree.display())]
    ReviewTreeStays { tree: PathBuf, why: String },
    #[error("moved out of the working tree to {}: {why}", list(to))]
    MovedOut { to: Vec<PathBuf>, why: &'static str },
    // Protected files.
    #[error("restored protected files: {}{}", list(paths), after("; found instead: ", &list(found)))]
    ProtectedRestored { paths: Vec<PathBuf>, found: Vec<PathBuf> },
    #[error(
        "left {}, which changed while the run was active, as that may be your edit{}", path.display(),
        after("; saved the earlier version to ", &saved.as_ref().map(|path| path.display().to_string()).unwrap_or_default())
    )]
    SettingsFileLeft { path: PathBuf, saved: Option<PathBuf> },
    #[error("found git settings changed {when}: {}; {effect}", few(keys).join(", "))]
    SettingsChanged { when: String, keys: Vec<String>, effect: &'static str },
    // The session's own files.
    #[error("{} was deleted; restored it from the records, without event logs and the logs of earlier runs", .0.display())]
    FolderRestored(PathBuf),
    #[error("moved what replaced files that git reads to {}", list(.0))]
    GitFilesMoved(Vec<PathBuf>),
    #[error("restored .autoresearch, replaced while {who} active; see {}", found.display())]
    SessionsRestored { who: Actors, found: PathBuf },
    #[error("the journal in {} was missing; rebuilt it from the records{}", folder.display(), after(SET_ASIDE, saved))]
    JournalRebuilt { folder: PathBuf, saved: String },
    #[error("continued the fetched session {tag} from its records{}", after(SET_ASIDE, saved))]
    FetchedContinued { tag: Tag, saved: String },
    #[error("restored ar's files changed while {who} active: {}; the changed versions are {}", list(paths), list(kept))]
    FilesPutRight { who: Actors, paths: Vec<PathBuf>, kept: Vec<PathBuf> },
    // Refs and rows.
    #[error("{file} was not a file or far too large; moved it to {}", kept.display())]
    LedgerMoved { file: String, kept: PathBuf },
    #[error("repaired {} of {file} from the records; the old file is {}", count_of(*rows, "row"), old.display())]
    RowsRepaired { file: String, rows: usize, old: PathBuf },
    #[error("{file} was deleted; restored {} from the records, without foreign rows", count_of(*rows, "row"))]
    RowsRestored { file: String, rows: usize },
    #[error("{file} changed while {who} active: {what}{}", after("; kept in ", &list(kept.as_slice())))]
    RowsPutRight { file: String, who: Actors, what: RowChanges, kept: Option<PathBuf> },
    // An experiment.
    #[error("{why}; the job of experiment {id} starts again on the same commit")]
    Evicted { id: ExperimentId, why: String },
    #[error("experiment {id} stays open with {done} of up to {most} fresh runs; `ar resume` goes on with them")]
    LeftToConfirm { id: ExperimentId, done: u32, most: u32 },
    #[error("experiment {0} stays open until the experiment that it beat has run once more; `ar resume` runs it")]
    LeftToControl(ExperimentId),
    #[error("verifying {} against the baseline by fresh runs, for {} at most", experiment_name(*id), span_text(*seconds))]
    Verifying { id: ExperimentId, seconds: f64 },
    #[error("{} is not verified against the baseline, because {} is too short for a run of each", experiment_name(*id), span_text(*seconds))]
    NoTimeToVerify { id: ExperimentId, seconds: f64 },
    #[error("{} with seed {seed}: {value}", experiment_name(*id))]
    VerifyingRun { id: ExperimentId, seed: u64, value: String },
    #[error("{} with seed {seed} gave no number ({why}), so the night ends without more runs to verify it", experiment_name(*id))]
    VerifyingFailed { id: ExperimentId, seed: u64, why: String },
    #[error("{}; with `--decide once`, one run decides", keep_costs(*.first, *.later, *.run))]
    KeepCosts { first: u32, later: u32, run: f64 },
    #[error("the baseline's value is now {value}, the mean of {runs} runs")]
    BaselineValue { value: String, runs: u32 },
    #[error("the baseline's run with seed {seed} gave no value ({why}), so that seed is left out")]
    BaselineFailed { seed: u64, why: String },
    #[error(
        "counted experiment {id} although in each of its {runs} runs {why}: its number may be of an earlier run, too"
    )]
    CarriedStill { id: ExperimentId, runs: u32, why: String },
    #[error("{} was not copied before the run that changed it: it returns as that run left it", list(.0))]
    CarriedUncopied(Vec<PathBuf>),
    #[error("moved {}, which no run wrote, out of the way to {}; others are beside it", .path.display(), .kept.display())]
    CarriedAway { path: PathBuf, kept: PathBuf },
    #[error("left {} as it was written since the last run; what was set aside of it before is {}", .path.display(), .kept.display())]
    CarriedOlder { path: PathBuf, kept: PathBuf },
    #[error("cannot see what runs read, because the kernel has no watch left (fs.inotify): nothing is set aside")]
    UsesUnseen,
    #[error("repeating the run of experiment {id}: {why}")]
    RunRepeated { id: ExperimentId, why: String },
    #[error(
        "kept the baseline's number although {who}, in each of its {runs} runs; that process taints no later run. To measure a \
         baseline without it, end it and begin a new session: `ar run --tag NAME`"
    )]
    BaselineTainted { runs: u32, who: String },
    #[error("exempted tracked files that the baseline's run changed itself: {}{}", list(.0), stale_lock_clause(.0))]
    ExemptChanged(Vec<PathBuf>),
    #[error("{} {}", best(*.id), rerun_text(now, *excused))]
    BestRuns { id: ExperimentId, now: String, excused: bool },
    #[error("{} now has {now}, recorded {then}: {distance}, where repeats differ by {spread} at most", best(*.id))]
    BestDiffers { id: ExperimentId, now: String, then: String, distance: String, spread: String },
    #[error("{} runs again: {now}", best(*.id))]
    BestAgain { id: ExperimentId, now: String },
    #[error(
        "{} gave no number when it was run again: {why}; the loop goes on, see {}", best(*.id), log.display()
    )]
    BestFails { id: ExperimentId, why: String, log: PathBuf },
    #[error("{}", drift.sentence(*.id, metric))]
    Drifts { id: ExperimentId, metric: String, drift: MetricDrift },
    #[error("experiment {0} names no direction although a new one was required; asking for it at the next call")]
    Unnamed(ExperimentId),
    #[error("the run{} waits: {crowd}", slot.map_or(String::new(), |slot| format!(" in slot {slot}")))]
    GpuAwaited { slot: Option<u32>, crowd: String },
    #[error("waited long enough; the run starts beside others: {0}")]
    GpuCrowded(String),
    #[error("the journal has experiment {id} as one that may run; {why}")]
    NotToRun { id: ExperimentId, why: String },
    #[error("a job of experiment {id} could not be started, and is tried again: {why}")]
    NotStarted { id: ExperimentId, why: String },
    #[error("ignored {}: {error}", path.display())]
    Ignored { path: PathBuf, error: String },
    #[error(
        "noticed that the agent trained by itself in its call for experiment {id} ({signs}): the call took {}, and ar measures \
         each change again, in {}; ask for the edit alone in program.md to save that time",
        span_text(*call), span_text(*run)
    )]
    AgentTrains { id: ExperimentId, signs: String, call: f64, run: f64 },
    #[error("ended the agent's call for experiment {id}: {why}")]
    CallEnded { id: ExperimentId, why: String },
    #[error(
        "{axis} {number} counts as {counts}: an axis without a range goes from 0 to 1; a new session can have `range = [LOW, HIGH]` \
         below [composite.axes.{axis}]"
    )]
    AxisUnranged { axis: String, number: f64, counts: f64 },
    #[error("the unit of {metric} changed: read {printed} as {read}")]
    UnitChanged { metric: String, printed: String, read: String },
    // Artifacts.
    #[error("did not save artifacts of experiment {id}: {}", few(files).join(", "))]
    ArtifactsMissed { id: ExperimentId, files: Vec<String> },
    #[error("saved no artifacts of experiment {0}: its run began without a list of the files that match")]
    ArtifactsUnknown(ExperimentId),
    #[error(
        "saved no artifacts of experiment {id}: {count} files match, and {most} may; pack them in the run, or narrow --artifact"
    )]
    TooManyArtifacts { id: ExperimentId, count: usize, most: usize },
    #[error("cannot move the artifacts of experiment {id} to their place, or delete those that are too many: {why}")]
    ArtifactsUnsettled { id: ExperimentId, why: String },
    // At the gate before calls and runs.
    #[error("waiting for the clock: it shows {}, before the end of the last experiment at {}", exact_time(*now), exact_time(*last))]
    ClockBehind { last: Timestamp, now: Timestamp },
    #[error("the clock was set {} {}; --until and the times of records follow it", span_text(.0.unsigned_abs() as f64), if *.0 < 0 { "back" } else { "forward" })]
    ClockSet(i64),
    #[error("read {read} objects of the repository again in {}, and not the rest; run `git fsck --full` for all", duration_text(*limit))]
    ObjectsUnread { read: usize, limit: Duration },
    // Steps that the loop does not depend on.
    #[error("the agent gave no summary: {0}")]
    NoSummary(String),
    #[error("cannot read {what}: {why}")]
    MemoryUnread { what: &'static str, why: String },
    #[error("cannot register the session for `ar guard`: {0}")]
    NoRegister(String),
    #[error("skipped a record of session {tag}: {why}")]
    RecordSkipped { tag: Tag, why: String },
}

/// The addition to a notice on a lost journal, if a change was saved before a record existed.
const SET_ASIDE: &str = "; a change that was set aside may be in ";

/// The errors in the rows of results.tsv that `ar` repaired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowChanges {
    /// The number of rows that were changed or missing.
    pub lost: usize,
    /// The rows that belong to no experiment.
    pub removed: Vec<String>,
    /// True if rows were in another order.
    pub reordered: bool,
    /// The number of foreign rows that were added.
    pub foreign: usize,
}

impl fmt::Display for RowChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut what = Vec::new();
        if self.lost > 0 {
            what.push(format!("{} changed or missing, restored", count_of(self.lost, "row")));
        }
        if !self.removed.is_empty() {
            let named: Vec<_> = self.removed.iter().take(ROWS).map(|row| format!("\"{}\"", cut(row, ROW))).collect();
            let more = if self.removed.len() > ROWS { ", …" } else { "" };
            let count = count_of(self.removed.len(), "row");
            what.push(format!("{count} without an experiment, removed: {}{more}", named.join(", ")));
        }
        if self.reordered {
            what.push("rows in another order, restored".to_owned());
        }
        if self.foreign > 0 {
            what.push(format!("{}, left in place", count_of(self.foreign, "foreign row")));
        }
        if what.is_empty() {
            what.push("a link in its place, removed".to_owned());
        }
        f.write_str(&what.join(", "))
    }
}

impl<T: Into<String>> From<T> for Notice {
    fn from(words: T) -> Notice {
        Notice::Sentence(words.into())
    }
}

impl Serialize for Notice {
    /// Its words alone, as `detail`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([("detail", self.to_string())])
    }
}

/// The best experiment, as the beginning of a sentence.
fn best(id: ExperimentId) -> String {
    format!("{}, so far the best,", experiment_name(id))
}

/// The conclusion for recent crashes when the best experiment runs; `excused` if it failed in between.
fn rerun_text(now: &str, excused: bool) -> String {
    match excused {
        true => format!("runs again ({now}): what crashed meanwhile may be tried once more"),
        false => format!("still runs ({now}): the crashes are the changes' own"),
    }
}

/// `text` behind `words`; nothing without a text.
fn after(words: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{words}{text}") }
}

/// The names of some files, the first ones of many.
pub fn list(paths: &[PathBuf]) -> String {
    let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    few(&names).join(", ")
}

/// About how long something takes; nothing for what takes no time worth telling.
fn span(seconds: f64) -> String {
    if seconds < 1.0 { String::new() } else { format!(", about {}", span_text(seconds)) }
}

/// The most runs of the first keep and of each later one; a run takes so many seconds.
fn keep_costs(first: u32, later: u32, run: f64) -> String {
    let each = if run < 1.0 { String::new() } else { format!(" at {} each", span_text(run)) };
    let (what, rest) = match first > later {
        true => ("the first keep", format!("; later ones take up to {later}")),
        false => ("a keep", String::new()),
    };
    format!("{what} takes up to {first} runs{}{each}, because fresh runs decide{rest}", span(f64::from(first) * run))
}

/// A few names, and how many more there are.
pub fn few(names: &[String]) -> Vec<String> {
    first_of(names, 10)
}

/// The first of some names, `most` of them, and how many more there are.
pub fn first_of(names: &[String], most: usize) -> Vec<String> {
    let mut shown = names[..names.len().min(most)].to_vec();
    if names.len() > most {
        shown.push(format!("and {} more", names.len() - most));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::super::Event;
    use super::*;

    #[test]
    fn those_who_are_active_begin_a_sentence() {
        let actors = |actors: &[Actor]| actors.iter().copied().collect::<Actors>().to_string();
        assert_eq!(actors(&[Actor::Agent]), "the agent was");
        assert_eq!(actors(&[Actor::Agent, Actor::Run, Actor::Agent]), "the agent and the run were");
    }

    #[test]
    fn an_event_has_the_words_of_its_notice_as_detail() {
        let notice = Notice::FilesPutRight {
            who: Actor::Run.into(),
            paths: vec!["a".into(), "b".into()],
            kept: vec!["c".into()],
        };
        let words = "restored ar's files changed while the run was active: a, b; the changed versions are c";
        let event = serde_json::to_value(Event::from(notice)).unwrap();
        assert_eq!(event, serde_json::json!({"event": "notice", "detail": words}));
    }

    #[test]
    fn what_there_is_nothing_to_say_of_has_no_words() {
        let folder = PathBuf::from("x");
        let rebuilt = |saved: &str| Notice::JournalRebuilt { folder: folder.clone(), saved: saved.into() }.to_string();
        assert_eq!(rebuilt(""), "the journal in x was missing; rebuilt it from the records");
        assert!(rebuilt("refs/y").ends_with("; a change that was set aside may be in refs/y"));
        let what = RowChanges { lost: 1, removed: vec!["r".into(); 4], reordered: true, foreign: 2 };
        assert_eq!(
            Notice::RowsPutRight { file: "results.tsv".into(), who: Actor::Agent.into(), what, kept: None }.to_string(),
            "results.tsv changed while the agent was active: 1 row changed or missing, restored, 4 rows without an \
             experiment, removed: \"r\", \"r\", \"r\", …, rows in another order, restored, 2 foreign rows, left in place"
        );
    }
}
