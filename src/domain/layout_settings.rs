//! The settings of slots and seats: they are no terms of the contract, and a session may go on with other ones.

use std::path::{Path, PathBuf};

use super::setting::{Form, Heading, texts};
use super::settings::{asked, described};
use super::values::not_zero;
use super::{Asked, GpuChoice, Layout, Setting, count_of};

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
};

impl Asked {
    /// Where experiments are to be made and run: `before`, with what is asked for in its place; `None` for *in place*. Where
    /// nothing is known of before, slots, GPUs or proposals ahead must be asked for.
    pub fn layout(&self, before: Option<&Layout>) -> Option<Layout> {
        let is_asked = self.slots.is_some() || self.gpus.is_some() || self.ahead.is_some();
        let mut layout = before.cloned().or_else(|| is_asked.then(|| Layout::of(self.slots.unwrap_or(1))))?;
        let Layout { slots, ahead, calls, gpus, gpus_per_run, links, writable } = &mut layout;
        replace(slots, self.slots);
        replace(ahead, self.ahead);
        *calls = self.calls.or(*calls);
        *gpus = self.gpus.clone().or(gpus.take());
        replace(gpus_per_run, self.gpus_per_run);
        if let Some(asked) = &self.links {
            *links = asked.iter().map(|link| without_mark(link).unwrap_or_else(|| link.clone())).collect();
            *writable = asked.iter().filter_map(|link| without_mark(link)).collect();
        }
        Some(layout)
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
