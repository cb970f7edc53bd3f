//! Where experiments are made and executed: slots and seats, the engine, the walls around jobs, and the environment of
//! an experiment.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use strum::{Display, EnumMessage, EnumString, VariantArray};

use super::ALL;
use super::setting::take;
use super::{Asked, ExperimentId, GpuChoice, Heading, bytes_text, count_of, duration_text, shell_word};

/// The default of `--lost-after`: five minutes, after which Slurm forgets an ended job (`MinJobAge`) unless it is
/// configured otherwise.
pub const DEFAULT_LOST_AFTER: Duration = Duration::from_secs(300);

/// Number of slots of a session that executes its runs elsewhere, unless the user says otherwise.
const CLUSTER_SLOTS: u32 = 4;

/// The executor of a session's runs, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumMessage, EnumString, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum ExecutorName {
    /// Run everything on this machine
    Local,
    /// Submit runs and guards to Slurm with `sbatch`
    Slurm,
    /// The commands of `[executor]`
    #[strum(message = "Submit runs and guards with the commands of [executor] in ar.toml")]
    Commands,
}

/// The commands of an engine, each for `sh -c`: the table `[executor]` of `ar.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineCommands {
    /// Starts a job.
    pub submit: String,
    /// Tells the states of jobs.
    pub states: String,
    /// Ends jobs.
    pub cancel: String,
    /// Prints what a job printed outside of its command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<String>,
    /// The resources for each job, passed to the engine unchanged.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub resources: Map<String, Value>,
}

/// An engine that starts, reports and ends jobs elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Engine {
    /// Slurm, by its own commands.
    Slurm {
        /// Options for `sbatch`, as in a shell.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        sbatch: String,
    },
    /// Another one, by the user's commands.
    Commands(EngineCommands),
}

impl Engine {
    /// Its name among executors.
    pub fn name(&self) -> ExecutorName {
        match self {
            Engine::Slurm { .. } => ExecutorName::Slurm,
            Engine::Commands(_) => ExecutorName::Commands,
        }
    }
}

/// The engine that executes a session's runs, and when a job of it counts as lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// The engine.
    #[serde(flatten)]
    pub engine: Engine,
    /// A job that the engine does not know for so long, without a break, is lost.
    #[serde(default = "default_lost_after", with = "super::seconds")]
    pub lost_after: Duration,
}

fn default_lost_after() -> Duration {
    DEFAULT_LOST_AFTER
}

/// A session's use of walls around the jobs that it starts.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Display, EnumMessage, EnumString, VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Sandbox {
    /// Use bubblewrap where it works
    #[default]
    Auto,
    /// Refuse to start where bubblewrap does not work
    Require,
    /// Start everything without a wall
    Off,
}

/// The program whose wall surrounded a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum WallKind {
    /// Bubblewrap.
    Bwrap,
    /// None: the job could write whatever its user can.
    None,
}

impl WallKind {
    /// The wall of two runs together: none if one of them had none, and unknown if that of one is unknown.
    pub(super) fn of_both(one: Option<WallKind>, other: Option<WallKind>) -> Option<WallKind> {
        match (one, other) {
            (Some(WallKind::None), _) | (_, Some(WallKind::None)) => Some(WallKind::None),
            (Some(WallKind::Bwrap), Some(WallKind::Bwrap)) => Some(WallKind::Bwrap),
            (None, _) | (_, None) => None,
        }
    }
}

/// The environment in which an experiment ran. Omits what `ar` could not detect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// The host's name.
    pub host: String,
    /// The GPUs' model names, `2 x NVIDIA H100` when there are several of one kind.
    pub gpu: Option<String>,
    /// The number of GPUs.
    #[serde(default)]
    pub gpus: u32,
    /// The GPU driver's version.
    pub driver: Option<String>,
    /// A hash over the lock files in the repository root (`uv.lock`, `Cargo.lock` …).
    pub lockfile: Option<String>,
    /// The versions of what the measuring command uses.
    #[serde(default, skip_serializing_if = "crate::domain::is_default")]
    pub tools: Tools,
    /// Unknown fields, from another version.
    #[serde(flatten)]
    pub unknown_fields: Map<String, Value>,
}

/// The versions of what a measuring command uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tools {
    /// The version of Python.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// The version of PyTorch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torch: Option<String>,
    /// Those of other tools, from another version of `ar`.
    #[serde(flatten)]
    pub unknown_fields: Map<String, Value>,
}

/// An environment that a loop shares with the records that it makes.
pub(super) mod shared {
    use serde::{Deserializer, Serializer};

    use super::{Arc, Deserialize, Environment, Serialize};

    pub(in crate::domain) fn serialize<S: Serializer>(it: &Arc<Environment>, serializer: S) -> Result<S::Ok, S::Error> {
        it.as_ref().serialize(serializer)
    }

    pub(in crate::domain) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<Environment>, D::Error> {
        Environment::deserialize(from).map(Arc::new)
    }
}

impl Environment {
    /// All known facts by name.
    pub fn known(&self) -> Vec<(&str, &str)> {
        let fields = [
            ("host", Some(&self.host).filter(|host| !host.is_empty())),
            ("gpu", self.gpu.as_ref()),
            ("driver", self.driver.as_ref()),
            ("lockfile", self.lockfile.as_ref()),
            ("python", self.tools.python.as_ref()),
            ("torch", self.tools.torch.as_ref()),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name, value?.as_str()))).collect()
    }
}

/// One change of the environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EnvironmentChange {
    /// The first experiment in the changed environment, which may not have run yet.
    pub experiment: ExperimentId,
    /// The name of the changed fact.
    pub field: String,
    /// The last known value before.
    pub before: String,
    /// The value now.
    pub after: String,
}

impl fmt::Display for EnvironmentChange {
    /// Formats it as `driver 550.54 → 560.28`; shortens the hash of the lock files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HASH_DIGITS: usize = 8;
        let short = |value: &str| match self.field.as_str() {
            "lockfile" => value.chars().take(HASH_DIGITS).collect(),
            _ => value.to_owned(),
        };
        write!(f, "{} {} → {}", self.field, short(&self.before), short(&self.after))
    }
}

/// The space available to this user, and the total. Both are 0 for anything that the file system does not report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// Free bytes.
    pub free: u64,
    /// All bytes.
    pub total: u64,
    /// Files that can still be created.
    pub free_files: u64,
    /// The most files possible.
    pub total_files: u64,
}

/// A log without which its disk would not be full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargeLog {
    /// The log.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
}

impl LargeLog {
    /// What to type, for a run that may fill the disk again; it names `ar resume`.
    pub fn hint(&self) -> String {
        format!(
            "its largest log has {}: delete it with `rm -f {}`, then run `ar resume`; if the disk fills again, run \
             `ar stop --now` meanwhile to give the change up",
            bytes_text(self.bytes),
            shell_word(&self.path)
        )
    }
}

/// Marks a link that runs write to.
const WRITABLE: &str = ":rw";

/// Default number of proposals that wait, ready to run, with several slots. In simulated nights, one keeps the slots
/// busy for 98% of the time, and more for over 99%.
const AHEAD: u32 = 2;

/// Slots and seats, each with a linked working tree of its own. It is not part of the contract: a session may continue
/// with another layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// The number of slots, at least 1.
    pub slots: u32,
    /// The most proposals that may wait, ready to run, beyond the free slots.
    pub ahead: u32,
    /// The most agents at a time; absent for as many as keep the slots fed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u32>,
    /// The GPUs that are divided among the slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<GpuChoice>,
    /// The number of GPUs that a run uses.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub gpus_per_run: u32,
    /// Paths that git does not store, linked into every working tree; relative to the repository's root.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<PathBuf>,
    /// The links that runs write to: caches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<PathBuf>,
    /// The engine of runs and guards; absent where they run on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
    /// The one that executed them before they ran on this machine, to which the session may go back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_before: Option<Cluster>,
}

impl Layout {
    /// The layout of so many slots, without GPUs and links.
    pub fn of(slots: u32) -> Layout {
        let ahead = if slots > 1 { AHEAD } else { 1 };
        Layout {
            slots,
            ahead,
            calls: None,
            gpus: None,
            gpus_per_run: 1,
            links: Vec::new(),
            writable: Vec::new(),
            cluster: None,
            cluster_before: None,
        }
    }
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

impl Asked {
    /// Where experiments are to be made and run: `before`, with what is asked for in its place; `None` for *in place*. Where
    /// nothing is known of before, slots, GPUs, proposals ahead or an executor elsewhere must be asked for.
    pub fn layout(&self, before: Option<&Layout>) -> Option<Layout> {
        let goes_elsewhere = self.executor.is_some_and(|executor| executor != ExecutorName::Local);
        let is_asked = self.slots.is_some() || self.gpus.is_some() || self.ahead.is_some() || goes_elsewhere;
        let of_new = self.slots.unwrap_or(if goes_elsewhere { CLUSTER_SLOTS } else { 1 });
        let mut layout = before.cloned().or_else(|| is_asked.then(|| Layout::of(of_new)))?;
        let Layout { slots, ahead, calls, gpus, gpus_per_run, links, writable, cluster, cluster_before } = &mut layout;
        take(slots, self.slots);
        take(ahead, self.ahead);
        take(calls, self.calls);
        take(gpus, self.gpus.clone());
        take(gpus_per_run, self.gpus_per_run);
        if let Some(asked) = &self.links {
            *links = asked.iter().map(|link| without_mark(link).unwrap_or_else(|| link.clone())).collect();
            *writable = asked.iter().filter_map(|link| without_mark(link)).collect();
        }
        let known = cluster.take();
        *cluster = self.cluster(known.is_some(), known.as_ref().or(cluster_before.as_ref()));
        *cluster_before = known.or(cluster_before.take()).filter(|_| cluster.is_none());
        Some(layout)
    }

    /// The engine that runs are executed by from now on; `before` is the last one, which executes them now if it `goes_on`.
    fn cluster(&self, goes_on: bool, before: Option<&Cluster>) -> Option<Cluster> {
        let name = self.executor.or(before.filter(|_| goes_on).map(|cluster| cluster.engine.name()))?;
        let (engine, lost_after) = (before.map(|before| before.engine.clone()), before.map(|before| before.lost_after));
        let engine = match (name, engine) {
            (ExecutorName::Local, _) => return None,
            (ExecutorName::Slurm, Some(Engine::Slurm { sbatch })) => {
                Engine::Slurm { sbatch: self.sbatch.clone().unwrap_or(sbatch) }
            }
            (ExecutorName::Slurm, _) => Engine::Slurm { sbatch: self.sbatch.clone().unwrap_or_default() },
            (ExecutorName::Commands, Some(engine @ Engine::Commands(_))) if self.executor.is_none() => engine,
            (ExecutorName::Commands, engine) => match &self.engine {
                Some(commands) => Engine::Commands(commands.clone()),
                None => engine.filter(|engine| engine.name() == name)?,
            },
        };
        Some(Cluster { engine, lost_after: self.lost_after.or(lost_after).unwrap_or(DEFAULT_LOST_AFTER) })
    }

    /// The settings of slots and seats that are asked for, by their keys, each with what is asked for by it alone.
    pub fn of_layout(&self) -> impl Iterator<Item = (&'static str, Asked)> {
        let is_layout = |key: &str| ALL.iter().any(|setting| setting.key == key && setting.heading == Heading::Slots);
        self.each().into_iter().filter(move |(key, _)| is_layout(key))
    }
}

/// The path of a link that is marked as one that runs write to.
fn without_mark(link: &Path) -> Option<PathBuf> {
    link.to_str()?.strip_suffix(WRITABLE).map(PathBuf::from)
}

impl Layout {
    /// The layout as lines for people.
    pub fn lines(&self) -> Vec<String> {
        let ahead = count_of(self.ahead, "proposal");
        let calls = self.calls.map(|calls| format!(", {} at a time", count_of(calls, "agent"))).unwrap_or_default();
        let mut lines = vec![format!("slots     {}, {ahead} ahead{calls}", self.slots)];
        if let Some(gpus) = &self.gpus {
            lines.push(format!("GPUs      {gpus}, {} a run", self.gpus_per_run));
        }
        match &self.cluster {
            None => {}
            Some(Cluster { engine: Engine::Slurm { sbatch }, .. }) => {
                lines.push(format!("executor  Slurm, {}", if sbatch.is_empty() { "without options" } else { sbatch }));
            }
            Some(Cluster { engine: Engine::Commands(commands), .. }) => {
                lines.push(format!("executor  {}", commands.submit));
            }
        }
        if let Some(cluster) = self.cluster.as_ref().filter(|cluster| cluster.lost_after != DEFAULT_LOST_AFTER) {
            lines.push(format!("lost      after {} without a word of the job", duration_text(cluster.lost_after)));
        }
        if !self.links.is_empty() {
            let mark = |link| if self.writable.contains(link) { WRITABLE } else { "" };
            let links: Vec<String> =
                self.links.iter().map(|link| format!("{}{}", link.display(), mark(link))).collect();
            lines.push(format!("links     {}", links.join(", ")));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_cluster_is_read_back_as_it_was_written() {
        let commands = EngineCommands {
            submit: "s".into(),
            states: "t".into(),
            cancel: "c".into(),
            logs: None,
            resources: Map::new(),
        };
        for engine in [Engine::Slurm { sbatch: "-p gpu".into() }, Engine::Commands(commands)] {
            let cluster = Cluster { engine, lost_after: Duration::from_secs(90) };
            let json = serde_json::to_value(&cluster).unwrap();
            assert_eq!(serde_json::from_value::<Cluster>(json).unwrap(), cluster);
        }
        let least = serde_json::json!({"kind": "slurm"});
        assert_eq!(serde_json::from_value::<Cluster>(least).unwrap().lost_after, DEFAULT_LOST_AFTER);
    }

    fn asked(set: impl FnOnce(&mut Asked)) -> Asked {
        let mut asked = Asked::default();
        set(&mut asked);
        asked
    }

    #[test]
    fn slots_gpus_and_ahead_make_linked_trees_and_nothing_else_does() {
        let others = asked(|asked| {
            asked.links = Some(vec!["data".into(), "cache:rw".into()]);
            asked.calls = Some(2);
            asked.gpus_per_run = Some(2);
        });
        assert_eq!(others.layout(None), None);
        assert_eq!(Asked::default().layout(None), None);
        let keys: Vec<_> = others.of_layout().map(|(key, _)| key).collect();
        assert_eq!(keys, ["gpus-per-run", "calls", "link"]);

        assert_eq!(asked(|asked| asked.slots = Some(4)).layout(None), Some(Layout::of(4)));
        assert_eq!(asked(|asked| asked.ahead = Some(0)).layout(None), Some(Layout { ahead: 0, ..Layout::of(1) }));
        let gpus = asked(|asked| asked.gpus = Some(GpuChoice::All)).or(others).layout(None).unwrap();
        assert_eq!(
            gpus,
            Layout {
                gpus: Some(GpuChoice::All),
                gpus_per_run: 2,
                calls: Some(2),
                links: vec!["data".into(), "cache".into()],
                writable: vec!["cache".into()],
                ..Layout::of(1)
            }
        );
    }

    #[test]
    fn a_flag_changes_one_setting_and_keeps_the_rest() {
        let (calls, gpus) = (Some(3), Some(GpuChoice::All));
        let before = Layout { calls, links: vec!["data".into()], writable: vec!["data".into()], gpus, ..Layout::of(4) };
        assert_eq!(Asked::default().layout(Some(&before)), Some(before.clone()));
        let after = asked(|asked| asked.slots = Some(8)).layout(Some(&before));
        assert_eq!(after, Some(Layout { slots: 8, ..before.clone() }));
        let after = asked(|asked| asked.links = Some(vec!["a".into(), "b".into()])).layout(Some(&before));
        assert_eq!(after, Some(Layout { links: vec!["a".into(), "b".into()], writable: Vec::new(), ..before }));
    }

    #[test]
    fn who_goes_back_to_a_cluster_has_its_options_as_before() {
        let to = |executor| asked(|asked| asked.executor = Some(executor));
        let slurm = asked(|asked| {
            asked.executor = Some(ExecutorName::Slurm);
            asked.sbatch = Some("-p gpu".into());
            asked.lost_after = Some(Duration::from_secs(60));
        });
        let there = slurm.layout(None).unwrap();
        assert_eq!((there.slots, there.cluster.is_some()), (CLUSTER_SLOTS, true));
        let here = to(ExecutorName::Local).layout(Some(&there)).unwrap();
        assert_eq!((&here.cluster, here.slots), (&None, CLUSTER_SLOTS));
        assert_eq!(Asked::default().layout(Some(&here)), Some(here.clone()), "it stays here");
        assert_eq!(to(ExecutorName::Slurm).layout(Some(&here)), Some(there));
    }

    #[test]
    fn a_layout_is_shown_in_full() {
        assert_eq!(Layout::of(1).lines(), ["slots     1, 1 proposal ahead"]);
        let layout = Layout {
            calls: Some(3),
            gpus: Some(GpuChoice::All),
            gpus_per_run: 2,
            links: vec!["data".into(), ".venv".into(), "cache".into()],
            writable: vec!["cache".into()],
            ..Layout::of(4)
        };
        let lines = [
            "slots     4, 2 proposals ahead, 3 agents at a time",
            "GPUs      all, 2 a run",
            "links     data, .venv, cache:rw",
        ];
        assert_eq!(layout.lines(), lines);
    }
}
