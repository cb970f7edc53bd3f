//! Ablation: which kept changes carry the gain, by fresh runs of the best experiment without them.

use std::collections::{BTreeMap, BTreeSet};

use super::{FreshEnd, FreshNews, FreshRun, FreshRuns, FreshSubject, FreshTerms, first_seed_of, usual_seconds};
use crate::domain::{
    Ablated, AblatedRun, AblationStep, CommitId, ExperimentId, FORMAT_VERSION, Record, experiment_name, list,
};
use crate::git::Merged;
use crate::rules::{
    AblatingRun, AblationState, AblationTerms, EvaluatedAblation, HiddenBook, HiddenEntry, Sample, ablation,
    most_ablating_runs,
};
use crate::session::SessionView;
use crate::session::errors::{CannotStart, SessionError, VerifyError, refuse};
use crate::session::handlers::write_tag;
use crate::session::store::{Interrupts, read_tag};
use crate::state::HiddenFile;

/// The result of an ablation.
#[derive(Debug, Clone, PartialEq)]
pub struct Ablation {
    /// The conclusion from the runs.
    pub found: Ablated,
    /// The reason for each change that cannot be taken out by itself.
    pub stuck: BTreeMap<ExperimentId, String>,
    /// The branch without the dropped changes, as git shows it.
    pub branch: Option<String>,
    /// True if hidden values say what a change carries.
    pub is_hidden: bool,
}

/// Measures the best experiment with and without each kept change, by `runs` fresh runs of each, and with `drops` makes a
/// branch without those that carry nothing. Runs that are recorded count, so an interrupted call is continued. With
/// `--holdout`, the hidden values alone say what a change carries, and stand in `hidden.jsonl` alone. `None` after an
/// interrupt.
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
    let hidden = view.hidden_terms("ablate", terms.holdout)?;
    let direction = hidden.as_ref().map_or(view.terms()?.metric.direction, |own| own.metric.direction);
    let chain = view.kept_chain()?;
    let [_, kept @ ..] = chain.as_slice() else { return Err(view.nothing_kept().into()) };
    let Some(best) = kept.last() else { return Err(view.nothing_kept().into()) };
    let mut place = FreshRuns::open(&[view], terms, interrupts).await?;
    if terms.holdout {
        place.mark = format!("ablate {}", view.tag);
    }
    let notes = AblationNotes { view, best, holdout: terms.holdout };
    let mut ablated = notes.begun(runs)?;
    let keeps: Vec<ExperimentId> = kept.iter().map(|record| record.id).collect();
    let others = notes.others()?;
    let first_seed = first_seed_of(&[view])?;
    let mut trees = ReducedTree { view, kept, made: BTreeMap::new(), stuck: BTreeMap::new() };
    keeps.iter().try_for_each(|id| trees.make(&[*id]))?;
    let branch = if drops { Some(format!("{}-dropped", view.tag)) } else { None };
    let mut is_planned = false;
    loop {
        let stuck: BTreeSet<Vec<ExperimentId>> = trees.stuck.keys().cloned().collect();
        let terms = AblationTerms {
            direction,
            keeps: &keeps,
            runs: ablated.found.runs,
            drops,
            first_seed,
            others: &others,
            takes_seeds: view.history.takes_seeds(),
            stuck: &stuck,
        };
        let AblationState { kept, dropped, next } = ablation(&terms, &ablated.found.values);
        ablated.found.kept = kept;
        if drops {
            ablated.found.dropped = dropped;
        }
        let unevaluated = ablated.unevaluated();
        let next = if unevaluated.is_empty() { next } else { unevaluated };
        // The runs of a new plan may be impossible.
        if trees.make_new(&next)? {
            continue;
        }
        if !is_planned {
            if let Some(branch) = branch.as_ref().filter(|_| !next.is_empty()) {
                refuse_branch(view, branch)?;
            }
            let can_go = keeps.len() - stuck.iter().filter(|together| together.len() == 1).count();
            let found = &ablated.found;
            let most = most_ablating_runs(can_go, found.runs, drops).saturating_sub(sure_runs(found));
            let (runs, slots, seconds) = (next.len() as u64, place.slots(), usual_seconds(best));
            publish(&FreshNews::Planned { runs, more: most.saturating_sub(runs), slots, seconds });
            is_planned = true;
        }
        if next.is_empty() {
            break;
        }
        if !measure(&place, &trees, &notes, &next, &mut ablated, publish).await? {
            return Ok(None);
        }
    }
    notes.write(&ablated)?;
    if terms.holdout {
        place.clear(&view.repo, &notes.book()?)?;
    }
    let found = ablated.found;
    let branch = branch.filter(|_| !found.dropped.is_empty());
    let branch = branch.map(|branch| trees.branch(branch, found.dropped.clone())).transpose()?;
    let stuck = trees.stuck_alone(&found.values);
    Ok(Some(Ablation { found, stuck, branch, is_hidden: terms.holdout }))
}

/// Where an ablation of the best experiment is noted: in a tag under `ablated/`, or where no agent can read it.
struct AblationNotes<'a> {
    view: &'a SessionView,
    best: &'a Record,
    holdout: bool,
}

impl AblationNotes<'_> {
    fn file(&self) -> HiddenFile {
        HiddenFile::new(&self.view.folder.state())
    }

    fn book(&self) -> Result<HiddenBook, SessionError> {
        if self.holdout { Ok(self.file().read()?) } else { Ok(HiddenBook::default()) }
    }

    /// The fresh runs that each experiment has, by the values that count.
    fn others(&self) -> Result<Vec<Vec<Sample>>, SessionError> {
        let [visible, hidden] = self.book()?.groups_besides(&self.view.history, None);
        Ok(if self.holdout { hidden } else { visible })
    }

    /// The ablation as far as it was made, with at least `runs` runs of each tree.
    fn begun(&self, runs: u32) -> Result<EvaluatedAblation, SessionError> {
        let (view, best) = (self.view, self.best.id);
        let of_tag = |found| EvaluatedAblation { visible: Vec::new(), found };
        let known = match self.holdout {
            true => self.book()?.ablated().iter().find(|known| known.found.best == best).cloned(),
            false => read_tag(&view.repo, &view.tag.ablated_ref(best), |known: &Ablated| known.version)?.map(of_tag),
        };
        let mut ablated =
            known.unwrap_or_else(|| of_tag(Ablated { version: FORMAT_VERSION, best, ..Ablated::default() }));
        let found = &mut ablated.found;
        found.runs = found.runs.max(runs);
        // A run without a number is tried again: it may have been chance.
        let failed = found.values.iter().filter(|run| run.value.is_none()).map(|run| run.without.clone());
        let failed: Vec<Vec<ExperimentId>> = failed.collect();
        let failures = |run: &AblatedRun| failed.iter().filter(|without| **without == run.without).count();
        found.values.retain(|run| run.value.is_some() || failures(run) > 1);
        Ok(ablated)
    }

    fn write(&self, ablated: &EvaluatedAblation) -> Result<(), SessionError> {
        let (view, best) = (self.view, self.best);
        match self.holdout {
            true => Ok(self.file().add(&HiddenEntry::Ablated(Box::new(ablated.clone())))?),
            false => write_tag(&view.repo, &view.tag.ablated_ref(best.id), &best.commit, &ablated.found),
        }
    }
}

/// Makes these runs, and notes each as it ends. Returns false after an interrupt.
async fn measure(
    place: &FreshRuns<'_>,
    trees: &ReducedTree<'_>,
    notes: &AblationNotes<'_>,
    next: &[AblatingRun],
    ablated: &mut EvaluatedAblation,
    publish: &mut dyn FnMut(&FreshNews<'_>),
) -> Result<bool, SessionError> {
    let AblationNotes { best, holdout, .. } = *notes;
    let mut subjects: BTreeMap<&[ExperimentId], FreshSubject<'_>> = BTreeMap::new();
    for run in next {
        if !subjects.contains_key(run.without.as_slice()) {
            let commit = trees.made.get(&run.without).unwrap_or(&best.commit).clone();
            subjects.insert(&run.without, place.subject(trees.view, best, commit)?);
        }
    }
    let unevaluated = ablated.unevaluated();
    let wanted: Vec<FreshRun<'_>> =
        next.iter().map(|run| (&subjects[run.without.as_slice()], run.seed, unevaluated.contains(run))).collect();
    place
        .make(&wanted, &mut |index, ended| {
            let AblatingRun { without, step, seed } = next[index].clone();
            let is_hidden = matches!(ended, FreshEnd::Ended { is_hidden: true, .. });
            let what = match without.as_slice() {
                [] => experiment_name(best.id),
                without => format!("without {}", names(without)),
            };
            let what = if is_hidden { format!("the evaluator of {what}") } else { what };
            let Some(value) = ended.told(&what, seed, publish) else { return Ok(()) };
            let value = match value {
                Ok(value) => Some(value.value),
                // A failure without any change, of the evaluator, or outside the code, says nothing of a change.
                Err(it) if without.is_empty() || is_hidden || !it.is_of_code => {
                    return Err(VerifyError::Failed { what, seed, why: it.why, is_hidden }.into());
                }
                Err(_) => None,
            };
            let is_to_evaluate = holdout && !is_hidden && value.is_some();
            let runs = if is_to_evaluate { &mut ablated.visible } else { &mut ablated.found.values };
            let run = AblatedRun { without, step, seed, value };
            // The tree of one that ended may have been deleted before its evaluator began.
            runs.retain(|known| !known.is(&run));
            runs.push(run);
            notes.write(ablated)
        })
        .await
}

/// The runs so far that are needed whatever is dropped: those of each change by itself, and of the best experiment.
fn sure_runs(found: &Ablated) -> u64 {
    found.values.iter().filter(|run| run.step == AblationStep::Ablate || run.without.is_empty()).count() as u64
}

fn names(ids: &[ExperimentId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Refuses a branch that is there, which may have somebody's work.
fn refuse_branch(view: &SessionView, branch: &str) -> Result<(), SessionError> {
    match view.free_branch(branch) {
        Err(SessionError::BranchTaken(branch)) => Err(VerifyError::BranchThere(branch).into()),
        free => free.map(drop),
    }
}

/// The best experiment without some of the kept changes.
struct ReducedTree<'a> {
    view: &'a SessionView,
    /// The kept experiments, in order.
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

    /// Makes those that these runs need and nobody has made. Returns whether there were some.
    fn make_new(&mut self, runs: &[AblatingRun]) -> Result<bool, SessionError> {
        let asked: BTreeSet<&[ExperimentId]> = runs.iter().map(|run| run.without.as_slice()).collect();
        let is_new = |without: &&[ExperimentId]| !self.made.contains_key(*without) && !without.is_empty();
        let new: Vec<&[ExperimentId]> = asked.into_iter().filter(is_new).collect();
        new.iter().try_for_each(|without| self.make(without))?;
        Ok(!new.is_empty())
    }

    /// The changes that cannot be taken out by themselves, with the reason.
    fn stuck_alone(&self, values: &[AblatedRun]) -> BTreeMap<ExperimentId, String> {
        let alone =
            |(without, why): (&Vec<ExperimentId>, &String)| (without.len() == 1).then(|| (without[0], why.clone()));
        let mut stuck: BTreeMap<ExperimentId, String> = self.stuck.iter().filter_map(alone).collect();
        for run in values.iter().filter(|run| run.value.is_none() && run.without.len() == 1) {
            stuck
                .entry(run.without[0])
                .or_insert_with(|| format!("a run without it gave no number (seed {})", run.seed));
        }
        stuck
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
                    return Ok(Err(format!("later changes touch the same lines of {}", list(&paths))));
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
    fn branch(&mut self, branch: String, mut without: Vec<ExperimentId>) -> Result<String, SessionError> {
        without.sort();
        self.make(&without)?;
        let Some(commit) = self.made.get(&without) else {
            let text = format!("cannot write what was verified: no commit without {}", names(&without));
            return Err(refuse(CannotStart, text).hint("report this as a defect").into());
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
