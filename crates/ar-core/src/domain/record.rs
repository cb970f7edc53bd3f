//! The record of an experiment, as stored in its tag object.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    Artifact, ArtifactsRun, Concurrency, Conditions, Direction, ExperimentId, Failure, IdeaKind, MetricSpec, Metrics,
    NewIdea, Number, Outcome, PartOf, Proof, Provenance, RecordedChange, RunRole, Tag, Tokens, Unit, Usage, Version,
    WallKind,
};

/// The version of records that this program writes.
pub const RECORD_VERSION: u32 = 1;

/// The version of all other formats that have none of their own: of answers as JSON, and of small state files.
pub const FORMAT_VERSION: u32 = 1;

/// A commit's full object name in hexadecimal, 40 or 64 digits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommitId(String);

impl CommitId {
    /// Wraps a full hexadecimal object name.
    pub fn new(hex: impl Into<String>) -> Self {
        CommitId(hex.into())
    }

    /// The name of an unknown commit, as git writes it: as many zeros as `other` has digits.
    pub fn unknown(other: &CommitId) -> Self {
        CommitId("0".repeat(other.0.len()))
    }

    /// Returns whether the commit is known.
    pub fn is_known(&self) -> bool {
        self.0.bytes().any(|digit| digit != b'0')
    }

    /// All digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first `digits` digits; empty if the commit is unknown.
    pub fn short(&self, digits: usize) -> &str {
        if self.is_known() { &self.0[..digits.min(self.0.len())] } else { "" }
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The measured metric of an experiment; without a valid value, `value` is absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricValue {
    /// The metric's name.
    pub name: String,
    /// The metric's direction.
    pub direction: Direction,
    /// The finite value.
    pub value: Option<f64>,
    /// The value's text in the log.
    pub raw: Option<String>,
    /// The unit of the value; absent for a plain number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
}

impl MetricValue {
    /// A value of this metric, if there is a valid one.
    pub fn of(metric: &MetricSpec, number: Option<&Number>) -> MetricValue {
        let (name, direction) = (metric.name.clone(), metric.direction);
        let mut own = MetricValue { name, direction, value: None, raw: None, unit: None };
        own.put(number);
        own
    }

    /// Replaces the value, its text and its unit.
    pub fn put(&mut self, number: Option<&Number>) {
        self.value = number.map(|number| number.value);
        self.raw = number.map(|number| number.printed.as_ref().unwrap_or(&number.raw).clone());
        self.unit = number.and_then(|number| number.unit.clone());
    }

    /// The value with its text, if there is one.
    pub fn number(&self) -> Option<Number> {
        let value = self.value?;
        let unit = self.unit.clone();
        // A mean has a digit more than its runs, and rounds its value.
        let printed = self.raw.clone().filter(|raw| Number::value_of(raw).is_none());
        let raw = match (&self.raw, &printed) {
            (Some(raw), None) => raw.clone(),
            // It was converted.
            (_, Some(_)) => Number::of(value).raw,
            (None, None) => value.to_string(),
        };
        Some(Number { value, raw, printed, unit })
    }
}

/// One execution of the measuring command.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The command line passed to `sh -c`.
    pub command: String,
    /// Its purpose; absent in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<RunRole>,
    /// The seed in `AR_SEED`; absent where the session set none.
    pub seed: Option<u64>,
    /// When it started.
    #[serde(with = "crate::domain::millis")]
    pub started: Timestamp,
    /// Its duration, in seconds.
    pub seconds: f64,
    /// Its exit status; absent if a signal terminated it.
    pub exit: Option<i32>,
    /// The signal that terminated it.
    pub signal: Option<i32>,
    /// After how many seconds of silence `ar` terminated it, if that is why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent: Option<f64>,
    /// The measured value.
    pub value: Option<f64>,
    /// Its digits in the log, where they are not those of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digits: Option<String>,
    /// The commit that it executed, where that is not the record's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitId>,
    /// True for the run of a version that was reworked afterwards: it decides nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub void: bool,
    /// Number of earlier runs that do not count, because another process was on the GPU.
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub tainted: u32,
    /// The seconds that it waited in the queue of the engine that executed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<f64>,
    /// True if its value is the last one before it reached its deadline or crashed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// The part of the run that its value is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartOf>,
}

impl Run {
    /// Its value with the digits of its log.
    pub fn number(&self) -> Option<Number> {
        let value = self.value?;
        Some(Number::new(value, self.digits.clone().unwrap_or_else(|| value.to_string())))
    }
}

/// The size of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffStat {
    /// Files added, deleted, renamed or modified.
    pub files: u32,
    /// Lines added in text files.
    pub added: u32,
    /// Lines deleted in text files.
    pub deleted: u32,
}

impl fmt::Display for DiffStat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.files == 1 { "" } else { "s" };
        write!(f, "{} file{plural} changed, +{} -{}", self.files, self.added, self.deleted)
    }
}

/// The identity of a change, to find repeats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The tree of the experiment's commit, in hexadecimal.
    pub tree: String,
    /// A SHA-256 of the deleted and added text, regardless of its place in the file.
    pub patch: String,
}

/// The call of the agent that made the change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentCall {
    /// The agent's command line.
    pub command: String,
    /// Its duration, in seconds.
    pub seconds: f64,
    /// The model, if the agent reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The tokens, if the agent reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// The cost, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

impl AgentCall {
    /// Creates a call with its duration and usage.
    pub fn new(command: String, seconds: f64, usage: Usage) -> AgentCall {
        let Usage { model, tokens, cost } = usage;
        AgentCall { command, seconds, model, tokens, cost }
    }

    /// Adds another call for the same change.
    #[must_use]
    pub fn with(self, seconds: f64, more: Usage) -> AgentCall {
        let mut usage = Usage { model: self.model, tokens: self.tokens, cost: self.cost };
        usage.add(more);
        AgentCall::new(self.command, self.seconds + seconds, usage)
    }
}

/// Times of a session so far that none of its experiments has, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waits {
    /// Agent calls without changes.
    pub idle_calls: f64,
    /// Outages of the agent, including failed calls.
    pub outages: f64,
    /// From the last sign of life of one process to the start of the next.
    pub nobody: f64,
    /// The time limit of the last call that came near it; 0 if none did.
    pub limit_met: f64,
}

impl Waits {
    /// The part of its time limit from which a call comes near it. Own judgement.
    const NEAR: f64 = 0.8;

    /// Notes a call of so many seconds, which had this time limit.
    pub fn note_call(&mut self, seconds: f64, limit: f64) {
        if seconds >= Waits::NEAR * limit {
            self.limit_met = limit;
        }
    }
}

/// The complete record of one experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The format's version.
    pub version: u32,
    /// The experiment's number; 0 is the baseline. It is given when the attempt is opened, and may leave gaps.
    pub id: ExperimentId,
    /// The record's place in the order of recording; see [`Record::sequence`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u32>,
    /// The session.
    pub tag: Tag,
    /// The experiment's commit.
    pub commit: CommitId,
    /// The branch tip on which it is based; for the baseline, its own commit.
    pub base: CommitId,
    /// The description, on one line.
    pub description: String,
    /// The strategy, if the proposal names one.
    pub direction: Option<String>,
    /// The verdict.
    pub outcome: Outcome,
    /// The reason that it has no valid value.
    pub failure: Option<Failure>,
    /// One sentence that explains the outcome, with values.
    pub reason: String,
    /// The limits that it exceeded, in a few words each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmet_limits: Vec<String>,
    /// A possible cause of the failure other than the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside_cause: Option<String>,
    /// The metric.
    pub metric: MetricValue,
    /// Every value in the log's summary, by name.
    #[serde(flatten, with = "super::metric::with_digits")]
    pub metrics: Metrics,
    /// The units that the baseline printed beside numbers whose names give none; those of later experiments are converted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, Unit>,
    /// Peak memory in GiB.
    pub memory_gb: Option<f64>,
    /// The executions of the measuring command in order, starting with those of earlier versions; empty if it never
    /// ran.
    pub runs: Vec<Run>,
    /// The evidence for its number.
    #[serde(flatten)]
    pub proof: Proof,
    /// Its change.
    #[serde(flatten)]
    pub change: RecordedChange,
    /// How it came about.
    #[serde(flatten)]
    pub origin: Provenance,
    /// The conditions of its runs.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// Its relation to other experiments open at the same time.
    #[serde(flatten)]
    pub beside: Concurrency,
    /// Unknown fields from a newer version, and the contract in the baseline's record.
    #[serde(flatten)]
    pub unknown_fields: Map<String, Value>,
}

impl Record {
    /// The record as it is written: only what was kept has artifacts.
    #[must_use]
    pub fn with_artifacts_of_keep(mut self) -> Record {
        if self.outcome != Outcome::Keep {
            self.give_artifacts(Vec::new(), None);
        }
        self
    }

    /// Gives it the artifacts that a run left, if it left any, in place of its own.
    pub fn give_artifacts(&mut self, artifacts: Vec<Artifact>, run: Option<ArtifactsRun>) {
        self.proof.artifacts_run = run.filter(|_| !artifacts.is_empty());
        self.proof.artifacts = artifacts;
    }

    /// The record's place in the order of recording, from 0 and without gaps. In a record of an earlier version it is the
    /// experiment's number.
    pub fn sequence(&self) -> u32 {
        self.sequence.unwrap_or(self.id.number())
    }

    /// The number of its runs during which another process was on the GPU.
    pub fn tainted_runs(&self) -> u32 {
        let repeated: u32 = self.runs.iter().map(|run| run.tainted).sum();
        repeated + u32::from(!self.conditions.gpu_others.is_empty())
    }

    /// The findings in the agent's proposal.
    pub fn findings(&self) -> Vec<String> {
        self.said("findings")
    }

    /// The lesson for later sessions in the agent's proposal.
    pub fn lesson(&self) -> Option<String> {
        self.origin.proposal.as_ref()?.field("lesson")
    }

    /// The ideas for later experiments in the agent's proposal.
    pub fn ideas(&self) -> Vec<NewIdea> {
        self.said("ideas")
    }

    /// The number of the idea or the source that the change uses, by the agent's proposal.
    pub fn used(&self, kind: IdeaKind) -> Option<u32> {
        self.origin.proposal.as_ref()?.field(kind.used_field())
    }

    /// The hypothesis in the agent's proposal.
    pub fn hypothesis(&self) -> Option<String> {
        self.origin.proposal.as_ref()?.field("hypothesis")
    }

    /// The expected value in the agent's proposal, as it was written.
    pub fn expected(&self) -> Option<String> {
        self.origin.proposal.as_ref()?.field("expected")
    }

    /// The text of the idea or the source that the agent was offered.
    pub fn offered(&self, kind: IdeaKind) -> Option<String> {
        self.origin.proposal.as_ref()?.field(kind.offered_field())
    }

    /// The verdict: the outcome, or `None` if the imported row has none.
    pub fn verdict(&self) -> Option<Outcome> {
        let is_said =
            self.origin.imported.as_ref().is_none_or(|row| !matches!(row.status.as_str(), "baseline" | "other"));
        is_said.then_some(self.outcome)
    }

    /// The valid items of a list in the proposal.
    fn said<T: DeserializeOwned>(&self, list: &str) -> Vec<T> {
        let items: Option<Vec<Value>> = self.origin.proposal.as_ref().and_then(|proposal| proposal.field(list));
        items.into_iter().flatten().filter_map(|item| serde_json::from_value(item).ok()).collect()
    }

    /// Adds runs, and the wall that they had.
    pub fn add_runs(&mut self, runs: impl IntoIterator<Item = Run>, sandbox: Option<WallKind>) {
        let before = self.runs.len();
        self.runs.extend(runs);
        if before == 0 {
            self.proof.sandbox = sandbox.filter(|_| !self.runs.is_empty());
        } else if self.runs.len() > before {
            self.proof.sandbox = WallKind::of_both(self.proof.sandbox, sandbox);
        }
    }

    /// The runs whose mean is its value: those that confirmed it or the train that it was in, all runs of a baseline where
    /// they count together, else the last one. Empty if it has no value.
    pub fn deciding_runs(&self) -> Vec<&Run> {
        let Some(value) = self.metric.value else { return Vec::new() };
        let is_own = |run: &&Run| run.commit.as_ref().is_none_or(|commit| *commit == self.commit);
        let is_valid = |run: &&Run| run.value.is_some() && !run.void && run.role != Some(RunRole::Control);
        let valid: Vec<&Run> = self.runs.iter().filter(is_valid).collect();
        let mut own: Vec<&Run> = valid.iter().copied().filter(is_own).collect();
        if own.is_empty() {
            // Its tree was put on top of another commit than the one that was measured.
            own = valid.into_iter().filter(|run| run.role != Some(RunRole::Trial)).collect();
        }
        let of_role = |role| own.iter().copied().filter(|run| run.role == Some(role)).collect::<Vec<_>>();
        let fresh = [RunRole::Confirm, RunRole::Trial].map(of_role).into_iter().find(|runs| !runs.is_empty());
        if let Some(fresh) = fresh {
            return fresh;
        }
        if !self.id.is_baseline() {
            return own.last().copied().into_iter().collect();
        }
        let mean = own.iter().filter_map(|run| run.value).sum::<f64>() / own.len() as f64;
        let is_mean = (mean - value).abs() <= 1e-9 * value.abs();
        if is_mean { own } else { own.into_iter().take(1).collect() }
    }

    /// Returns whether a run that decides did not finish.
    pub fn is_partial(&self) -> bool {
        self.deciding_runs().iter().any(|run| run.partial)
    }

    /// The part of the runs that its value is about.
    pub fn part(&self) -> Option<PartOf> {
        self.deciding_runs().iter().find_map(|run| run.part)
    }

    /// The seed and the number that a rerun is compared with: those of the first deciding run, or of the last run where none
    /// decided.
    pub fn to_repeat(&self) -> (Option<u64>, Option<Number>) {
        let own = self.metric.number();
        let Some(first) = self.deciding_runs().first().copied() else {
            return (self.runs.last().and_then(|run| run.seed), own);
        };
        let is_own = first.value == self.metric.value;
        let number = if is_own { own } else { first.number() };
        (first.seed, number)
    }

    /// The mean time of its runs, in seconds: experiments have different numbers of them.
    pub fn seconds_per_run(&self) -> Option<f64> {
        (!self.runs.is_empty()).then(|| self.run_seconds() / self.runs.len() as f64)
    }

    /// The total time of all runs, in seconds.
    pub fn run_seconds(&self) -> f64 {
        // An empty sum is -0.0.
        self.runs.iter().map(|run| run.seconds).sum::<f64>().abs()
    }
}

impl Version {
    /// Creates the version that `record` describes, saved under the ref `saved`.
    pub fn of(record: &Record, saved: String) -> Version {
        Version {
            commit: record.commit.clone(),
            saved,
            failure: record.failure.clone(),
            reason: record.reason.clone(),
            value: record.metric.value,
            guards: record.proof.guards.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::{Environment, GpuOther};

    /// A record without a run, with this wall.
    fn record(sandbox: Option<&str>) -> Record {
        let mut fields = json!({
            "version": 1, "id": 1, "tag": "t", "commit": "c", "base": "b", "description": "", "direction": null,
            "outcome": "discard", "failure": null, "reason": "", "metrics": {}, "memory_gb": null, "runs": [],
            "metric": {"name": "loss", "direction": "lower", "value": null, "raw": null}, "agent": null,
            "diff": DiffStat::default(), "environment": Environment::default(),
            "started": "2026-11-20T22:00:00Z", "finished": "2026-11-20T22:00:00Z",
        });
        if let Some(wall) = sandbox {
            fields["sandbox"] = wall.into();
        }
        serde_json::from_value(fields).unwrap()
    }

    fn run() -> Run {
        let fields = json!({"command": "c", "seed": null, "started": "2026-11-20T22:00:00Z", "seconds": 1.0, "exit": 0,
            "signal": null, "value": null});
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn a_record_is_written_as_it_was_read() {
        let text = concat!(
            r#"{"version":1,"id":7,"sequence":6,"tag":"t","commit":"c","base":"b","description":"d","direction":"lr","#,
            r#""outcome":"keep","failure":null,"reason":"r","unmet_limits":["u"],"outside_cause":"o","#,
            r#""metric":{"name":"loss","direction":"lower","value":0.5,"raw":"0.50"},"metrics":{"loss":0.5},"#,
            r#""digits":{"loss":"0.50"},"units":{"loss":"s"},"memory_gb":1.5,"runs":[],"sandbox":"none","#,
            r#""control":{"experiment":3,"recorded":0.6,"name":"loss","direction":"lower","value":0.5,"raw":"0.5","#,
            r#""moved":false},"guards":[],"review":{"verdict":"earned","why":"w","seconds":2.0},"#,
            r#""artifacts":[{"path":"m","bytes":3}],"artifacts_run":{"role":"screen"},"#,
            r#""versions":[{"commit":"v","saved":"s","failure":null,"reason":"r","value":null,"guards":[]}],"#,
            r#""diff":{"files":1,"added":2,"deleted":3},"fingerprint":{"tree":"t","patch":"p"},"#,
            r#""environment":ENVIRONMENT,"started":"2026-11-20T22:00:00.000Z","finished":"2026-11-20T22:00:01.500Z","#,
            r#""agent":{"command":"a","seconds":1.0},"imported":{"file":"f","line":2,"status":"keep","#,
            r#""commit_text":null,"commit_known":true},"proposal":{"lesson":"l"},"proposal_error":"e","#,
            r#""changed_while_running":["f"],"gpu_others":[{"gpu":0,"uuid":"u","pid":7}],"carried":["c"],"#,
            r#""ignored_changed":["i"],"ignored_inputs":{"i":"s"},"ignores_seeds":true,"#,
            r#""layout":{"slots":2,"ahead":1},"#,
            r#""waits":{"idle_calls":1.0,"outages":0.0,"nobody":0.0,"limit_met":0.0},"slot":1,"neighbours":[6],"#,
            r#""later":[{"than":"this"}]}"#,
        );
        let text = text.replace("ENVIRONMENT", &serde_json::to_string(&Environment::default()).unwrap());
        let read: Record = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert_eq!(read.unknown_fields.keys().collect::<Vec<_>>(), ["later"]);
    }

    #[test]
    fn a_record_names_its_wall_where_that_is_known() {
        for (wall, word) in [(WallKind::Bwrap, "bwrap"), (WallKind::None, "none")] {
            let walled = record(Some(word));
            assert_eq!(walled.proof.sandbox, Some(wall));
            assert_eq!(json!(walled)["sandbox"], word);
        }
        let former = record(None);
        assert_eq!(former.proof.sandbox, None);
        assert_eq!(json!(former).get("sandbox"), None);
    }

    #[test]
    fn runs_together_have_a_wall_only_if_each_of_them_had_one() {
        let (bwrap, none) = (Some(WallKind::Bwrap), Some(WallKind::None));
        let after = |walls: &[Option<WallKind>]| {
            let mut record = record(None);
            for wall in walls {
                record.add_runs([run()], *wall);
            }
            let ran = record.clone();
            record.add_runs([], none);
            assert_eq!(record, ran, "without a run, nothing was measured");
            record.proof.sandbox
        };
        for (walls, expected) in [
            (&[][..], None),
            (&[bwrap], bwrap),
            (&[none], none),
            (&[bwrap, bwrap], bwrap),
            (&[bwrap, none], none),
            (&[none, bwrap], none),
            (&[None, bwrap], None),
            (&[bwrap, None], None),
            (&[None, none, bwrap], none),
        ] {
            assert_eq!(after(walls), expected, "{walls:?}");
        }
    }

    #[test]
    fn the_runs_that_decide_are_those_whose_mean_is_the_value() {
        let of = |role: RunRole, value: f64, commit: &str| Run {
            role: Some(role),
            value: Some(value),
            commit: Some(CommitId::new(commit)),
            ..run()
        };
        let decided = |id: u32, value: f64, runs: Vec<Run>| -> Vec<f64> {
            let mut record = Record { id: id.into(), runs, ..record(None) };
            record.metric.value = Some(value);
            record.deciding_runs().into_iter().filter_map(|run| run.value).collect()
        };
        let baseline = [0.5, 0.4, 0.6].map(|value| of(RunRole::Baseline, value, "c"));
        assert_eq!(decided(0, 0.5, baseline.to_vec()), [0.5, 0.4, 0.6], "their mean is the first one's number");
        assert_eq!(
            decided(0, 0.4, [&baseline[1], &baseline[0]].map(Clone::clone).to_vec()),
            [0.4],
            "the first decides"
        );
        let on_top = [
            (RunRole::Screen, 9.0, "d"),
            (RunRole::Confirm, 1.0, "d"),
            (RunRole::Confirm, 2.0, "d"),
            (RunRole::Trial, 5.0, "e"),
        ];
        let on_top = on_top.map(|(role, value, commit)| of(role, value, commit));
        assert_eq!(decided(3, 1.5, on_top.to_vec()), [1.0, 2.0], "its tree was put on top of another commit");
        let reworked = vec![Run { void: true, ..of(RunRole::Screen, 1.0, "c") }, of(RunRole::Screen, 2.0, "c")];
        assert_eq!(decided(3, 2.0, reworked), [2.0]);
    }

    #[test]
    fn runs_beside_another_process_are_counted_with_those_that_were_repeated() {
        let other = GpuOther { gpu: 0, uuid: "GPU-0".into(), pid: 7, name: None, bytes: None };
        let runs = vec![Run { tainted: 1, ..run() }, run(), Run { tainted: 2, ..run() }];
        let kept = Record { runs, ..record(None) };
        assert_eq!((kept.tainted_runs(), record(None).tainted_runs()), (3, 0));
        let mut given_up = kept;
        given_up.conditions.gpu_others.push(other);
        assert_eq!(given_up.tainted_runs(), 4);
    }
}
