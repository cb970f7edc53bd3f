//! What each kept change carries: the best experiment beside the session, with and without it; and a branch without those
//! changes that carry nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::verify::{FreshNews, FreshRuns, FreshSubject, FreshTerms, first_seed_of, usual_seconds};
use crate::domain::{
    Ablated, AblatedRun, AblationStep, CommitId, ExperimentId, FORMAT_VERSION, Record, experiment_name, list,
};
use crate::git::Merged;
use crate::rules::{AblatingRun, AblationState, AblationTerms, ablation, fresh_groups, most_ablating_runs};
use crate::session::errors::{BranchError, KeepsError, SessionError, VerifyError};
use crate::session::store::{Interrupts, read_tag, write_tag};
use crate::session::view::SessionView;

/// What an ablation found.
#[derive(Debug, Clone, PartialEq)]
pub struct Ablation {
    /// What the runs say.
    pub found: Ablated,
    /// The reason for each change that cannot be taken out by itself.
    pub stuck: BTreeMap<ExperimentId, String>,
    /// The branch without the dropped changes, as git shows it.
    pub branch: Option<String>,
}

/// Measures the best experiment with and without each kept change, by `runs` fresh runs of each, and with `drops` makes a
/// branch without those that carry nothing. Runs that are recorded count, so an interrupted call is continued. `None` after
/// an interrupt.
///
/// # Errors
///
/// Nothing was kept; the keeps are no chain; a loop holds the session; the best experiment gives no number; the branch is
/// there already; those of a rerun.
pub async fn ablate(
    view: &SessionView,
    (runs, drops): (u32, bool),
    terms: &FreshTerms,
    interrupts: &Interrupts,
    publish: &mut dyn FnMut(&FreshNews<'_>),
) -> Result<Option<Ablation>, SessionError> {
    let contract = view.terms()?;
    let chain = view.kept_chain()?;
    let [_, kept @ ..] = chain.as_slice() else { return Err(KeepsError::NothingKept(view.tag.to_string()).into()) };
    let Some(best) = kept.last() else { return Err(KeepsError::NothingKept(view.tag.to_string()).into()) };
    let place = FreshRuns::open(&[view], terms, interrupts)?;
    let name = view.tag.ablated_ref(best.id);
    let known = read_tag(&view.repo, &name, |known: &Ablated| known.version)?;
    let mut found = known.unwrap_or_else(|| empty(best.id));
    found.runs = found.runs.max(runs);
    // What gave no number once is tried again: that may have been chance.
    let failed = found.values.iter().filter(|run| run.value.is_none()).map(|run| run.without.clone());
    let failed: Vec<Vec<ExperimentId>> = failed.collect();
    let failures = |run: &AblatedRun| failed.iter().filter(|without| **without == run.without).count();
    found.values.retain(|run| run.value.is_some() || failures(run) > 1);
    let keeps: Vec<ExperimentId> = kept.iter().map(|record| record.id).collect();
    let others = fresh_groups(&view.history);
    let first_seed = first_seed_of(&[view])?;
    let mut trees = ReducedTree { view, kept, made: BTreeMap::new(), stuck: BTreeMap::new() };
    keeps.iter().try_for_each(|id| trees.make(&[*id]))?;
    let branch = if drops { Some(format!("{}-dropped", view.tag)) } else { None };
    let mut is_planned = false;
    loop {
        let stuck: BTreeSet<Vec<ExperimentId>> = trees.stuck.keys().cloned().collect();
        let terms = AblationTerms {
            direction: contract.metric.direction,
            keeps: &keeps,
            runs: found.runs,
            drops,
            first_seed,
            others: &others,
            stuck: &stuck,
        };
        let AblationState { kept, dropped, next } = ablation(&terms, &found.values);
        found.kept = kept;
        if drops {
            found.dropped = dropped;
        }
        // What a new plan asks for may not be possible.
        let asked: BTreeSet<&[ExperimentId]> = next.iter().map(|run| run.without.as_slice()).collect();
        let is_new = |without: &&[ExperimentId]| !trees.made.contains_key(*without) && !without.is_empty();
        let new: Vec<Vec<ExperimentId>> = asked.into_iter().filter(is_new).map(<[_]>::to_vec).collect();
        if !new.is_empty() {
            new.iter().try_for_each(|without| trees.make(without))?;
            continue;
        }
        if next.is_empty() {
            if !is_planned {
                publish(&FreshNews::Planned { runs: 0, more: 0, slots: place.slots(), seconds: 0.0 });
            }
            break;
        }
        if !is_planned {
            if let Some(branch) = &branch {
                refuse_branch(view, branch)?;
            }
            let can_go = keeps.len() - stuck.iter().filter(|together| together.len() == 1).count();
            let most = most_ablating_runs(can_go, found.runs, drops).saturating_sub(sure_runs(&found));
            let (runs, slots) = (next.len() as u64, place.slots());
            let seconds = usual_seconds(best);
            publish(&FreshNews::Planned { runs, more: most.saturating_sub(runs), slots, seconds });
            is_planned = true;
        }
        if !measure(&place, &trees, best, &next, &mut found, &name, publish).await? {
            return Ok(None);
        }
    }
    write_tag(&view.repo, &name, &best.commit, &found)?;
    let branch = match branch {
        Some(branch) if !found.dropped.is_empty() => {
            let mut without = found.dropped.clone();
            without.sort();
            trees.make(&without)?;
            Some(trees.branch(branch, &without)?)
        }
        _ => None,
    };
    let alone = |(without, why): (&Vec<ExperimentId>, &String)| (without.len() == 1).then(|| (without[0], why.clone()));
    let mut stuck: BTreeMap<ExperimentId, String> = trees.stuck.iter().filter_map(alone).collect();
    for run in found.values.iter().filter(|run| run.value.is_none() && run.without.len() == 1) {
        stuck.entry(run.without[0]).or_insert_with(|| format!("a run without it gave no number (seed {})", run.seed));
    }
    Ok(Some(Ablation { found, stuck, branch }))
}

/// Makes these runs, and records each as it ends. Returns false after an interrupt.
async fn measure(
    place: &FreshRuns<'_>,
    trees: &ReducedTree<'_>,
    best: &Record,
    next: &[AblatingRun],
    found: &mut Ablated,
    name: &str,
    publish: &mut dyn FnMut(&FreshNews<'_>),
) -> Result<bool, SessionError> {
    let mut subjects: BTreeMap<&[ExperimentId], FreshSubject<'_>> = BTreeMap::new();
    for run in next {
        if !subjects.contains_key(run.without.as_slice()) {
            let commit = trees.made.get(&run.without).unwrap_or(&best.commit).clone();
            subjects.insert(&run.without, place.subject(trees.view, best, commit)?);
        }
    }
    let wanted: Vec<(&FreshSubject<'_>, u64)> =
        next.iter().map(|run| (&subjects[run.without.as_slice()], run.seed)).collect();
    place
        .make(&wanted, &mut |index, ended| {
            let AblatingRun { without, step, seed } = next[index].clone();
            let what = match without.as_slice() {
                [] => experiment_name(best.id),
                without => format!("without {}", names(without)),
            };
            let Some(value) = ended.told(&what, seed, publish) else { return Ok(()) };
            let value = match value {
                Ok(value) => Some(value.value),
                // What is wrong without any change, or beside the code, says nothing of a change.
                Err(it) if without.is_empty() || !it.is_of_code => {
                    return Err(VerifyError::Failed { what, seed, why: it.why }.into());
                }
                Err(_) => None,
            };
            found.values.push(AblatedRun { without, step, seed, value });
            write_tag(&trees.view.repo, name, &best.commit, found)
        })
        .await
}

/// The runs so far that are needed whatever is dropped: those of each change by itself, and of the best experiment.
fn sure_runs(found: &Ablated) -> u64 {
    found.values.iter().filter(|run| run.step == AblationStep::Ablate || run.without.is_empty()).count() as u64
}

fn empty(best: ExperimentId) -> Ablated {
    Ablated {
        version: FORMAT_VERSION,
        best,
        runs: 0,
        kept: Vec::new(),
        dropped: Vec::new(),
        values: Vec::new(),
        more: serde_json::Map::new(),
    }
}

fn names(ids: &[ExperimentId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Refuses a branch that is there, which may have somebody's work.
fn refuse_branch(view: &SessionView, branch: &str) -> Result<(), SessionError> {
    match view.free_branch(branch) {
        Err(SessionError::Branch(BranchError::BranchTaken(branch))) => Err(VerifyError::BranchThere(branch).into()),
        free => free.map(drop),
    }
}

/// The best experiment without some of the kept changes.
struct ReducedTree<'a> {
    view: &'a SessionView,
    /// What was kept, in order.
    kept: &'a [&'a Record],
    /// The commits that lack changes, by these.
    made: BTreeMap<Vec<ExperimentId>, CommitId>,
    /// The changes that cannot be taken out together, with the reason.
    stuck: BTreeMap<Vec<ExperimentId>, String>,
}

impl ReducedTree<'_> {
    /// Makes the commit that lacks these changes, or notes why there can be none.
    fn make(&mut self, without: &[ExperimentId]) -> Result<(), SessionError> {
        match self.chain(without)? {
            Ok(commit) => self.made.insert(without.to_vec(), commit).map(drop),
            Err(why) => self.stuck.insert(without.to_vec(), why).map(drop),
        };
        Ok(())
    }

    /// Takes changes out of the best experiment, the newest first, a commit for each. Otherwise, the reason why that does not
    /// work.
    fn chain(&self, without: &[ExperimentId]) -> Result<Result<CommitId, String>, SessionError> {
        let objects = &self.view.repo.objects;
        let mut tip = self.kept[self.kept.len() - 1].commit.clone();
        for record in self.kept.iter().rev().filter(|record| without.contains(&record.id)) {
            let tree = match objects.merge(&record.commit, &tip, &record.base)? {
                Merged::Tree(tree) => tree,
                Merged::Conflicts(paths) => {
                    return Ok(Err(format!("later changes touch the same or neighbouring lines of {}", list(&paths))));
                }
            };
            let why = format!("ablate: take out experiment {}\n\n{}\n", record.id, record.description);
            let commit = objects.commit_merged(&tree, &tip, &why)?;
            if objects.tree_of(&commit)? == objects.tree_of(&tip)? {
                return Ok(Err("a later change replaced it".to_owned()));
            }
            tip = commit;
        }
        Ok(Ok(tip))
    }

    /// Puts the best experiment without these changes on a branch, unless it is there.
    fn branch(&self, branch: String, without: &[ExperimentId]) -> Result<String, SessionError> {
        let Some(commit) = self.made.get(without) else {
            return Err(VerifyError::Text(format!("no commit without {}", names(without))).into());
        };
        let (refs, objects) = (&self.view.repo.refs, &self.view.repo.objects);
        let full = refs.branch_ref(&branch)?;
        if let Some(there) = refs.branch(&full)?
            && objects.tree_of(&there)? == objects.tree_of(commit)?
        {
            return Ok(branch);
        }
        refuse_branch(self.view, &branch)?;
        let why = format!("branch: session {} without what carries nothing", self.view.tag);
        refs.create_branch(&full, commit, &why)?;
        Ok(branch)
    }
}
