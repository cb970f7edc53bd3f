//! The settings of slots and seats: they are no terms of the contract, and a session may go on with other ones.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::execution::CLUSTER_SLOTS;
use super::setting::{Form, Heading, choices, texts};
use super::settings::{asked, described};
use super::values::not_zero;
use super::{
    Asked, Cluster, DEFAULT_LOST_AFTER, Engine, ExecutorName, GpuChoice, Layout, Setting, count_of, duration_text,
};

/// Marks a link that runs write to.
const WRITABLE: &str = ":rw";

/// Where experiments are made and run beside each other.
pub(super) static LAYOUT: &[Setting] = described! {
    asked!(slots: u32) => {
        key: "slots", heading: Heading::Slots, value: "N",
        help: "Number of runs at a time, each in a linked working tree of its own",
        comment: "How many runs go on at a time, each in a linked working tree of its own.", example: "4",
        check: not_zero,
    }

    asked!(gpus: GpuChoice) => {
        key: "gpus", heading: Heading::Slots, value: "GPUS",
        help: "GPUs to divide among the slots: all, indices as in 0,1,3, or UUIDs; one slot each unless --slots is given",
        comment: "The GPUs to divide among the slots: all, indices or UUIDs.", example: "\"all\"",
    }

    asked!(gpus_per_run: u32) => {
        key: "gpus-per-run", heading: Heading::Slots, value: "N",
        help: "Number of GPUs that a run uses [default: 1]",
        comment: "How many GPUs a run uses.", example: "1",
        check: not_zero,
    }

    asked!(ahead: u32) => {
        key: "ahead", heading: Heading::Slots, value: "N",
        help: "Number of proposals that may wait, ready to run, beyond the free slots [default: 1 with one slot, else 2]",
        comment: "How many proposals may wait, ready to run, beyond the free slots.", example: "1",
    }

    asked!(calls: u32) => {
        key: "calls", heading: Heading::Slots, value: "N",
        help: "Largest number of agents at a time [default: as many as keep the slots busy, at most 4]",
        comment: "The largest number of agents at a time.", example: "2",
        check: not_zero,
    }

    asked!(links: Vec<PathBuf>) => {
        key: "link", heading: Heading::Slots, value: "PATH",
        help: "Untracked file or folder to link into each slot's working tree, PATH:rw for a cache; repeatable",
        comment: "Untracked files and folders to link into each slot's working tree, \"cache:rw\" for a cache.",
        example: "[\"data\"]",
    }

    asked!(executor: ExecutorName) => {
        key: "executor", heading: Heading::Slots, value: "WHERE", choices: choices::<ExecutorName>,
        help: "Where runs and guards are executed [default: local]",
        comment: "Where runs and guards are executed: local, slurm or commands; a table [executor] has the commands.",
        example: "\"slurm\"",
    }

    asked!(sbatch: String) => {
        key: "sbatch", heading: Heading::Slots, value: "OPTIONS", is_of_options: true,
        help: "Options of `sbatch` for each job, as in \"--partition gpu --gres gpu:1 --time 20\"",
        comment: "Options of sbatch for each job of --executor slurm.",
        example: "\"--partition gpu --gres gpu:1 --time 20\"",
    }

    asked!(lost_after: Duration) => {
        key: "lost-after", heading: Heading::Slots, value: "DURATION",
        help: "Time after which a job counts as lost that the cluster does not know [default: 5m]",
        comment: "After how long a job counts as lost that the cluster does not know.", example: "\"5m\"",
    }
};

impl Asked {
    /// Where experiments are to be made and run: `before`, with what is asked for in its place; `None` for *in place*. Where
    /// nothing is known of before, slots, GPUs, proposals ahead or an executor elsewhere must be asked for.
    pub fn layout(&self, before: Option<&Layout>) -> Option<Layout> {
        let goes_elsewhere = self.executor.is_some_and(|executor| executor != ExecutorName::Local);
        let is_asked = self.slots.is_some() || self.gpus.is_some() || self.ahead.is_some() || goes_elsewhere;
        let of_new = self.slots.unwrap_or(if goes_elsewhere { CLUSTER_SLOTS } else { 1 });
        let mut layout = before.cloned().or_else(|| is_asked.then(|| Layout::of(of_new)))?;
        let Layout { slots, ahead, calls, gpus, gpus_per_run, links, writable, cluster, cluster_before } = &mut layout;
        replace(slots, self.slots);
        replace(ahead, self.ahead);
        *calls = self.calls.or(*calls);
        *gpus = self.gpus.clone().or(gpus.take());
        replace(gpus_per_run, self.gpus_per_run);
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
        let is_layout = |key: &str| LAYOUT.iter().any(|setting| setting.key == key);
        self.each().into_iter().filter(move |(key, _)| is_layout(key))
    }
}

/// The path of a link that is marked as one that runs write to.
fn without_mark(link: &Path) -> Option<PathBuf> {
    link.to_str()?.strip_suffix(WRITABLE).map(PathBuf::from)
}

fn replace<T>(value: &mut T, asked: Option<T>) {
    if let Some(asked) = asked {
        *value = asked;
    }
}

impl Layout {
    /// What it is, as lines for a person.
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
    use super::*;

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
