//! Decides where the experiments of a session are made and run: in place, or in slots and seats outside the user's
//! working tree.

use super::invocation::Drive;
use crate::domain::{Asked, Cluster, Contract, Engine, ExecutorName, ExperimentId, Layout, Tag, list};
use crate::exec::gpu_inventory;
use crate::git::{Changes, Head, Repo};
use crate::rules::{GpuSlot, JOB_START, gpu_plan, slurm_limit, slurm_refused};
use crate::session::errors::{LayoutError, SessionError};
use crate::session::files::{read_history, session_tags};
use crate::state::{Journal, SESSIONS_FOLDER, SessionFolder};

/// The slots of a session, and what is told of them.
#[derive(Debug, Default)]
pub(crate) struct Placing {
    /// The slots and seats; absent *in place*.
    pub(crate) layout: Option<Layout>,
    /// The GPUs of each slot; empty where GPUs are not divided among them.
    pub(crate) gpus: Vec<GpuSlot>,
    pub(crate) notices: Vec<String>,
}

/// Applies the settings that are asked for to the layout of before. Refuses settings `given` without effect; a settings
/// file may have more than a session uses.
pub(crate) fn layout_of(asked: &Asked, given: &Asked, before: Option<&Layout>) -> Result<Option<Layout>, LayoutError> {
    let layout = asked.layout(before);
    let cluster = layout.as_ref().and_then(|layout| layout.cluster.as_ref());
    let executor = cluster.map_or(ExecutorName::Local, |cluster| cluster.engine.name());
    if asked.executor == Some(ExecutorName::Commands) && executor != ExecutorName::Commands {
        return Err(LayoutError::NoEngine);
    }
    if given.sbatch.is_some() && executor != ExecutorName::Slurm {
        return Err(LayoutError::NeedsExecutor { key: "sbatch", executor: "slurm" });
    }
    if given.lost_after.is_some() && cluster.is_none() {
        return Err(LayoutError::NeedsExecutor { key: "lost-after", executor: "slurm" });
    }
    if cluster.is_some() && layout.as_ref().is_some_and(|layout| layout.gpus.is_some()) {
        return Err(LayoutError::GpusElsewhere(executor));
    }
    let is_here = |(key, _): &(&str, Asked)| *key == "executor" && executor == ExecutorName::Local;
    if let (None, Some((key, _))) = (&layout, given.of_layout().find(|setting| !is_here(setting))) {
        return Err(LayoutError::NeedsSlots(key));
    }
    if layout.as_ref().is_some_and(|layout| layout.gpus.is_none()) {
        let of_gpus = |(key, _): &(&str, Asked)| *key == "gpus-per-run";
        if let Some((key, _)) = given.of_layout().find(of_gpus) {
            return Err(LayoutError::NeedsGpus(key));
        }
    }
    Ok(layout)
}

impl Placing {
    /// Refuses what does not work beside the user's working tree, and gives each slot its GPUs.
    pub(crate) fn new(
        layout: Option<Layout>,
        asked: &Asked,
        before: Option<&Layout>,
        tag: &Tag,
        drive: Drive,
    ) -> Result<Placing, LayoutError> {
        let Some(mut layout) = layout else { return Ok(Placing::default()) };
        match drive {
            Drive::WorkingTree { .. } => return Err(LayoutError::Tried(tag.clone())),
            Drive::Loop { adopt: true, .. } => return Err(LayoutError::Adopted(tag.clone())),
            Drive::Loop { adopt: false, .. } => {}
            // Nothing is run.
            Drive::Ending => return Ok(Placing { layout: Some(layout), ..Placing::default() }),
        }
        let Some(choice) = &layout.gpus else { return Ok(Placing { layout: Some(layout), ..Placing::default() }) };
        let per_run = layout.gpus_per_run as usize;
        let plan = gpu_plan(&gpu_inventory(), |name| std::env::var(name).ok(), choice, per_run)?;
        let mut gpus = plan.slots;
        let there = u32::try_from(gpus.len()).unwrap_or(u32::MAX);
        let is_divided_anew = before.is_none() || asked.gpus.is_some() || asked.gpus_per_run.is_some();
        if asked.slots.is_none() && is_divided_anew {
            layout.slots = there;
            if before.is_none() && asked.ahead.is_none() {
                layout.ahead = Layout::of(there).ahead;
            }
        }
        if layout.slots > there {
            return Err(LayoutError::TooManySlots { slots: layout.slots, there });
        }
        gpus.truncate(layout.slots as usize);
        let unused: Vec<String> = plan.unused.iter().map(ToString::to_string).collect();
        let notice = format!("left unused, too few for a run: {}", unused.join(", "));
        let notices = (!unused.is_empty()).then_some(notice).into_iter().collect();
        Ok(Placing { layout: Some(layout), gpus, notices })
    }
}

/// Refuses jobs that Slurm would end before their runs reach their own time limit.
pub(crate) fn refuse_short_jobs(layout: Option<&Layout>, contract: &Contract) -> Result<(), LayoutError> {
    let Some(Cluster { engine: Engine::Slurm { sbatch }, .. }) = layout.and_then(|layout| layout.cluster.as_ref())
    else {
        return Ok(());
    };
    if let Some(option) = slurm_refused(sbatch) {
        return Err(LayoutError::SbatchOption(option.to_owned()));
    }
    let needed = contract.timeout + contract.grace + JOB_START;
    let by_variable = || slurm_limit(&format!("--time={}", std::env::var("SBATCH_TIMELIMIT").ok()?));
    match slurm_limit(sbatch).or_else(by_variable).filter(|limit| *limit < needed) {
        Some(limit) => Err(LayoutError::ShortJobs { limit, needed }),
        None => Ok(()),
    }
}

/// A layout and the GPUs of its slots, as lines for a person.
pub(crate) fn layout_lines(layout: Option<&Layout>, gpus: &[GpuSlot]) -> Vec<String> {
    let of_slot = |(slot, gpus): (usize, &GpuSlot)| {
        let names: Vec<String> = gpus.gpus.iter().map(ToString::to_string).collect();
        format!("slot {slot:<5}{}, {}", gpus.model(), names.join(", "))
    };
    layout.into_iter().flat_map(Layout::lines).chain(gpus.iter().enumerate().map(of_slot)).collect()
}

/// Refuses to go on beside the user's working tree from where an experiment is open in it, or while it has the session's
/// branch checked out, which moves with each keep; not where the working tree goes home first.
pub(crate) fn refuse_in_the_way(
    repo: &Repo,
    contract: &Contract,
    head: &Head,
    open_in_place: Option<ExperimentId>,
    goes_home: bool,
) -> Result<(), SessionError> {
    if let Some(id) = open_in_place {
        return Err(LayoutError::OpenInPlace { tag: contract.tag.clone(), id }.into());
    }
    match head {
        Head::Branch { name, .. } if *name == contract.tag.branch_ref() && !goes_home => {
            let from = contract.home().0.and_then(|name| Some((name, name.strip_prefix("refs/heads/")?)));
            let (back, elsewhere) = match from {
                Some((full, short)) if repo.refs.branch(full)?.is_some() => {
                    (Some(short.to_owned()), repo.refs.checked_out_elsewhere(full)?)
                }
                _ => (None, None),
            };
            Err(LayoutError::OnOwnBranch { tag: contract.tag.clone(), back, elsewhere }.into())
        }
        _ => Ok(()),
    }
}

/// Refuses to go on *in place* with a session whose slots were lost with its journal, as the slots in its records tell.
pub(crate) fn refuse_lost(repo: &Repo, tag: Option<&Tag>, journal: Option<&Journal>) -> Result<(), SessionError> {
    if let Some(tag) = tag
        && Journal::is_lost(journal)
        && read_history(repo, tag)?.records().iter().any(|record| record.beside.slot.is_some())
    {
        return Err(LayoutError::Lost(tag.clone()).into());
    }
    Ok(())
}

/// Refuses to work in a working tree of a slot or a seat.
pub(crate) fn refuse_own_tree(repo: &Repo) -> Result<(), LayoutError> {
    let root = repo.worktree();
    let is_in_session = root.starts_with(repo.main_worktree().join(SESSIONS_FOLDER));
    if is_in_session { Err(LayoutError::InLinkedTree(root.to_owned())) } else { Ok(()) }
}

/// Names the sessions with slots that nobody is at work on and that have open attempts: as HEAD is not on their branch, they
/// are not continued without a name.
pub(crate) fn unfinished_beside(repo: &Repo) -> Result<Vec<String>, SessionError> {
    let is_unfinished = |tag: &Tag| {
        let folder = SessionFolder::new(&repo.main_worktree(), tag);
        // The code that needs this journal reports read errors.
        let journal = Journal::read(&folder.state()).ok().flatten();
        journal.as_ref().is_some_and(Journal::is_unfinished_beside) && matches!(folder.owner(repo.git_dir()), Ok(None))
    };
    let unfinished = session_tags(repo)?.into_iter().filter(is_unfinished);
    Ok(unfinished.map(|tag| format!("session {tag} is not finished; run `ar resume {tag}` to continue it")).collect())
}

/// Names uncommitted changes, which no experiment has.
pub(crate) fn dirty_notice(changes: &Changes) -> Option<String> {
    let dirty = changes.tracked_paths();
    (!dirty.is_empty())
        .then(|| format!("experiments start from the commit, without uncommitted changes: {}", list(&dirty)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Gpu, GpuChoice};

    #[test]
    fn the_gpus_of_each_slot_are_shown() {
        let gpu = |index: u32| Gpu {
            index,
            uuid: format!("GPU-{index}"),
            model: "NVIDIA H100".into(),
            memory: None,
            parent: None,
        };
        let machine: Vec<Gpu> = (0..4).map(gpu).collect();
        let plan = gpu_plan(&machine, |_| None, &GpuChoice::All, 2).unwrap();
        let layout = Layout { gpus: Some(GpuChoice::All), gpus_per_run: 2, ..Layout::of(2) };
        let lines = [
            "slots     2, 2 proposals ahead",
            "GPUs      all, 2 a run",
            "slot 0    NVIDIA H100, GPU 0 (GPU-0), GPU 1 (GPU-1)",
            "slot 1    NVIDIA H100, GPU 2 (GPU-2), GPU 3 (GPU-3)",
        ];
        assert_eq!(layout_lines(Some(&layout), &plan.slots), lines);
        assert!(layout_lines(None, &[]).is_empty());
    }
}
