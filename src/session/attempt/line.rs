//! The line of winners: the steps that need no run, and its runs: merged winners on the incumbent, or one winner's own tree
//! afresh.

use super::{RunningChange, refuse_commit, run_finished, without_own};
use crate::domain::{
    CommitId, Concurrency, Contract, DiffStat, ExperimentId, Number, Outcome, Proof, Record, Replay, Train,
    experiment_names,
};
use crate::machine::{Attempt, AttemptEntry, AttemptHead, Draft, Made, Origin, Ported};
use crate::rules::{
    Afresh, Car, FileTerms, Incumbent, Line, LineStep, Measurement, MergedChange, Tested, Trial, Verdict, Why,
    fingerprint, is_confirmed, judge, judge_train, mean_tolerance, session_noise, train_tolerance,
};
use crate::session::errors::SessionError;
use crate::session::files::no_experiment;
use crate::session::store::Store;
use crate::{crash, git};

/// The commits of merged winners on one incumbent. They are found again after a kill.
#[derive(Default)]
pub(crate) struct Chains {
    on: Option<CommitId>,
    /// The last commit of each chain, by its cars.
    tops: Vec<(Vec<ExperimentId>, CommitId)>,
}

impl Chains {
    /// The commits of these winners on top of each other and of the incumbent; none where they do not merge.
    pub(crate) fn commits(
        &mut self,
        store: &mut Store,
        cars: &[ExperimentId],
    ) -> Result<Option<Vec<CommitId>>, SessionError> {
        let mut commits = Vec::new();
        for place in 1..=cars.len() {
            match self.merge(store, &cars[..place])? {
                (MergedChange::Clean, Some(commit)) => commits.push(commit),
                _ => return Ok(None),
            }
        }
        Ok(Some(commits))
    }

    /// Merges the last of these winners onto the incumbent and the others.
    fn merge(
        &mut self,
        store: &mut Store,
        cars: &[ExperimentId],
    ) -> Result<(MergedChange, Option<CommitId>), SessionError> {
        let tip = store.tip();
        if self.on.as_ref() != Some(&tip) {
            *self = Chains { on: Some(tip.clone()), tops: Vec::new() };
        }
        let known = |cars: &[ExperimentId]| {
            let top = self.tops.iter().find(|(known, _)| known == cars).map(|(_, top)| top.clone());
            if cars.is_empty() { Some(tip.clone()) } else { top }
        };
        if let Some(top) = known(cars) {
            return Ok((MergedChange::Clean, Some(top)));
        }
        let Some((last, onto)) = cars.split_last() else { return Ok((MergedChange::Empty, None)) };
        let ours = match known(onto) {
            Some(ours) => ours,
            None => match self.merge(store, onto)? {
                (MergedChange::Clean, Some(ours)) => ours,
                other => return Ok(other),
            },
        };
        let car = winner(store, *last)?;
        let (merged, commit) = merge_onto(store, &car.made, car.ported.as_ref(), &ours)?;
        if let Some(commit) = &commit {
            self.tops.push((cars.to_vec(), commit.clone()));
        }
        Ok((merged, commit))
    }
}

/// Merges a change onto `ours`, in the form in which its agent has merged it if it did, and commits what comes of it.
pub(crate) fn merge_onto(
    store: &mut Store,
    made: &Made,
    ported: Option<&Ported>,
    ours: &CommitId,
) -> Result<(MergedChange, Option<CommitId>), SessionError> {
    // One of which nothing is left says so of its own incumbent only.
    let ported = ported.filter(|ported| ported.commit != ported.base || ported.base == *ours);
    let (base, commit) = ported.map_or((&made.head.base, &made.commit), |ported| (&ported.base, &ported.commit));
    let objects = &store.repo.objects;
    Ok(match objects.merge(base, ours, commit)? {
        git::Merged::Conflicts(_) => (MergedChange::Conflict, None),
        git::Merged::Tree(tree) if tree.is_empty() => (MergedChange::Empty, None),
        git::Merged::Tree(tree) => {
            let commit = objects.commit_merged(&tree, ours, &format!("{}\n", made.head.description))?;
            crash::point("merging.committed");
            (MergedChange::Clean, Some(commit))
        }
    })
}

/// The open attempt of this number, with its runs.
pub(crate) fn find_entry(store: &Store, id: ExperimentId) -> Result<AttemptEntry, SessionError> {
    let found = store.journal.find(id).cloned();
    found.ok_or_else(|| no_experiment(&store.history, &store.contract.tag, id.to_string()))
}

/// The winner of this number.
fn winner(store: &Store, id: ExperimentId) -> Result<Draft, SessionError> {
    let draft = store.journal.attempt(id).and_then(Attempt::draft).cloned();
    draft.ok_or_else(|| no_experiment(&store.history, &store.contract.tag, id.to_string()))
}

/// Lends the line of winners with what they are compared with. `None` without an incumbent.
fn on_line<T>(store: &mut Store, may_ask: bool, act: impl FnOnce(&mut Line, &Incumbent) -> T) -> Option<T> {
    store.journal.on_line(&store.history, &store.contract, may_ask, act)
}

/// Takes all steps of the line that need neither a run nor the agent. Gives the runs that it wants then.
pub(crate) fn settle_line(store: &mut Store, chains: &mut Chains, may_ask: bool) -> Result<Vec<Trial>, SessionError> {
    loop {
        let Some(step) = on_line(store, may_ask, Line::next) else { return Ok(Vec::new()) };
        match step {
            LineStep::Try(trials) => {
                close_trials(store, &trials)?;
                return Ok(trials);
            }
            LineStep::Merge { onto, car } => {
                let cars: Vec<ExperimentId> = onto.iter().copied().chain([car]).collect();
                let (merged, _) = chains.merge(store, &cars)?;
                store.journal.line.merged(&onto, car, merged);
            }
            LineStep::Keep { cars, number } => keep(store, &cars, &number)?,
            LineStep::Replace { car, number, replaces } => replace(store, car, number, replaces)?,
            LineStep::Discard { car, why } => discard(store, car, why)?,
            LineStep::Ask(car) => ask_to_merge(store, car)?,
        }
    }
}

/// The attempt that measured these winners, merged onto the incumbent, with the commits of its train.
fn train_of<'s>(store: &'s Store, cars: &[ExperimentId]) -> Option<(&'s Draft, &'s [CommitId])> {
    let (on, _) = store.history.standing()?;
    let trial = Trial::Train { on, cars: cars.to_vec() };
    let draft = store.journal.attempt_of(&trial)?.draft()?;
    match &draft.made.head.origin {
        Origin::Trial { chain, .. } => Some((draft, chain)),
        Origin::Loop | Origin::Person { .. } => None,
    }
}

/// Records winners as kept: one as it was measured on the incumbent, or those of a train with its commits.
fn keep(store: &mut Store, cars: &[ExperimentId], number: &Number) -> Result<(), SessionError> {
    let train = train_of(store, cars).map(|(trial, chain)| (trial.clone(), chain.to_vec()));
    let Some((trial, chain)) = train else {
        let Some(car) = cars.first() else { return Ok(()) };
        let draft = winner(store, *car)?;
        let record = Record { beside: without_own(&draft), ..*draft.record };
        return store.record(draft.made, vec![record], None);
    };
    let measured = &trial.record;
    let (mut records, mut base) = (Vec::new(), trial.made.head.base.clone());
    let last = cars.last().copied().unwrap_or(trial.made.head.id);
    for (id, commit) in cars.iter().zip(&chain) {
        let draft = winner(store, *id)?;
        let train = Train { last, members: cars.to_vec() };
        let others: Vec<ExperimentId> = cars.iter().copied().filter(|other| other != id).collect();
        let reason = match others.is_empty() {
            true => measured.reason.clone(),
            false => format!("{}, together with {}", measured.reason, experiment_names(&others)),
        };
        let merged = on_base(store, draft, base.clone(), commit.clone())?;
        records.push(match *id == last {
            true => {
                let mut merged = merged;
                merged.metric.put(Some(number));
                merged.origin.environment = measured.origin.environment.clone();
                let Proof { artifacts, artifacts_run, guards, .. } = measured.proof.clone();
                Record {
                    reason,
                    proof: Proof { artifacts, artifacts_run, guards, ..merged.proof },
                    metrics: measured.metrics.clone(),
                    memory_gb: measured.memory_gb,
                    beside: Concurrency { train: Some(train), ..merged.beside },
                    ..merged
                }
            }
            false => Record {
                reason: format!("kept with {}; the number is that of experiment {last}", experiment_names(&others)),
                beside: Concurrency { train: Some(train), ..merged.beside },
                ..merged
            },
        });
        base = commit.clone();
    }
    store.record(trial.made, records, None)
}

/// The record of an attempt whose change is another commit now, without a number.
fn on_base(store: &Store, draft: Draft, base: CommitId, commit: CommitId) -> Result<Record, SessionError> {
    let objects = &store.repo.objects;
    let mut record = Record { beside: draft.made.head.beside, ..*draft.record };
    record.metric.put(None);
    record.memory_gb = None;
    record.metrics = crate::domain::Metrics::default();
    record.give_artifacts(Vec::new(), None);
    record.change.diff = objects.diff(&base, &commit)?.stat();
    record.change.fingerprint = Some(fingerprint(objects.tree_of(&commit)?, &objects.diff_text(&base, &commit)?));
    (record.base, record.commit, record.outcome) = (base, commit, Outcome::Keep);
    Ok(record)
}

/// Commits a winner's own tree on top of the incumbent, and records it as kept.
fn replace(
    store: &mut Store,
    car: ExperimentId,
    number: Number,
    replaces: Vec<ExperimentId>,
) -> Result<(), SessionError> {
    let (draft, tip) = (winner(store, car)?, store.tip());
    let message = format!("{}\n", draft.made.head.description);
    let commit = store.repo.objects.commit_tree_of(&draft.record.commit, &tip, &message)?;
    crash::point("replacing.committed");
    let reason =
        format!("{number:#} by itself, better than what was kept meanwhile; replaces {}", experiment_names(&replaces));
    let afresh = store.journal.attempt_of(&Trial::Afresh(car)).and_then(Attempt::draft);
    let measured = afresh.map_or(&draft.record, |afresh| &afresh.record).clone();
    let artifacts_of = afresh.map(|afresh| afresh.made.head.id);
    let made = draft.made.clone();
    let mut record = Record { reason, ..on_base(store, draft, tip, commit)? };
    (record.metrics, record.memory_gb) = (measured.metrics, measured.memory_gb);
    record.give_artifacts(measured.proof.artifacts, measured.proof.artifacts_run);
    record.metric.put(Some(&number));
    record.beside.replaces = replaces;
    store.record_with_artifacts_of(made, vec![record], None, artifacts_of)
}

/// Records a winner as discarded, with its own number.
pub(crate) fn discard(store: &mut Store, car: ExperimentId, why: Why) -> Result<(), SessionError> {
    let draft = winner(store, car)?;
    let Verdict { outcome, reason } = why.verdict();
    let record = Record { outcome, reason, beside: without_own(&draft), ..*draft.record };
    store.record(draft.made, vec![record], None)
}

/// Has the agent merge a winner that conflicts with the incumbent.
fn ask_to_merge(store: &mut Store, car: ExperimentId) -> Result<(), SessionError> {
    on_line(store, true, |line, on| line.asked(on, car));
    let tip = store.tip();
    let draft = winner(store, car)?;
    store.note(format!("experiment {car} conflicts with what was kept meanwhile; the agent is called to merge it"));
    store.enter(Attempt::MergeWinner { draft, onto: tip })?;
    crash::point("merging.asked");
    Ok(())
}

/// Closes the trials that are measured and that the line has no more use for.
pub(crate) fn close_trials(store: &mut Store, wanted: &[Trial]) -> Result<(), SessionError> {
    let incumbent = store.history.standing().map(|(id, _)| id);
    store.journal.useless_trials(wanted, incumbent).into_iter().try_for_each(|id| store.close_open(id))
}

/// Opens the attempt of a trial. `None` where its winners do not merge any more.
pub(crate) fn open_trial(
    store: &mut Store,
    terms: &FileTerms,
    chains: &mut Chains,
    trial: &Trial,
) -> Result<Option<RunningChange>, SessionError> {
    let head = AttemptHead::new(store.allocate(), store.tip(), store.now());
    let (base, commit, description, chain) = match trial {
        Trial::Afresh(car) => {
            let Made { head: AttemptHead { base, description, .. }, commit, .. } = winner(store, *car)?.made;
            (base, commit, format!("experiment {car} by itself: {description}"), Vec::new())
        }
        Trial::Train { cars, .. } => {
            let Some(chain) = chains.commits(store, cars)? else { return Ok(None) };
            let Some(last) = chain.last().cloned() else { return Ok(None) };
            (head.base.clone(), last, format!("{} on the incumbent", experiment_names(cars)), chain)
        }
    };
    let (mut refused, mut on) = (None, &base);
    for commit in &chain {
        // Each change must keep to its limits by itself.
        refused = refused.or(refuse_commit(store, terms, on, commit)?);
        on = commit;
    }
    let origin = Origin::Trial { trial: trial.clone(), chain };
    let head = AttemptHead { base, description, origin, ..head };
    let mut change = RunningChange::new(Made { head, commit, refused, ..Made::default() });
    store.enter_ready(&mut change)?;
    on_line(store, true, |line, on| line.started(on, trial));
    Ok(Some(change))
}

/// The verdict on a first run that counts with those that follow, as nothing selected it: those decide. `None` if it has no
/// value that may count.
pub(crate) fn unselected(contract: &Contract, measured: &Measurement) -> Option<Verdict> {
    let number = measured.value.as_ref().filter(|_| measured.failure.is_none());
    let number = number.filter(|_| measured.unmet_limits(contract).is_empty())?;
    let reason = format!("{} is {number:#} in its first run", contract.metric.name);
    Some(Verdict { outcome: Outcome::Keep, reason })
}

/// The verdict on a trial, with the limits that count against it and its outcome for the line.
pub(crate) fn judge_trial(
    store: &Store,
    trial: &Trial,
    diff: DiffStat,
    measured: &Measurement,
) -> (Verdict, Vec<String>, Option<Tested>) {
    let (contract, history) = (&store.contract, &store.history);
    if let Some(verdict) = unselected(contract, measured).filter(|_| is_confirmed(contract)) {
        return (verdict, Vec::new(), None);
    }
    match trial {
        Trial::Afresh(id) => {
            let car = store.journal.line.car(*id);
            let base = car.map_or(ExperimentId::BASELINE, |car| car.base);
            let (verdict, unmet) = judge(contract, (history, history.as_of(base)), *id, diff, measured);
            let tested = match (&measured.value, verdict.outcome) {
                (Some(value), Outcome::Keep | Outcome::Discard) if unmet.is_empty() => Tested::Holds(value.clone()),
                _ => Tested::NotBetter(None),
            };
            (verdict, unmet, Some(tested))
        }
        Trial::Train { cars, .. } => {
            let riding: Vec<&Car> = store.journal.line.cars().filter(|car| cars.contains(&car.id)).collect();
            let runs = history.baseline().map_or(&[][..], |baseline| &baseline.runs);
            let values: Vec<f64> = runs.iter().filter_map(|run| run.value).collect();
            let tolerance = train_tolerance(contract.min_delta.value(measured.value.as_ref()), &values);
            let id = riding.last().map_or_else(|| history.next_id(), |car| car.id);
            let (verdict, unmet) = judge(contract, (history, history.records()), id, diff, measured);
            let value = measured.value.as_ref().filter(|_| measured.failure.is_none());
            let (tested, verdict) = judge_train(contract, value, verdict, &riding, tolerance);
            (verdict, unmet, Some(tested))
        }
    }
}

/// Says what came of a trial by its fresh runs, whose verdict its record has.
pub(crate) fn decide_trial(draft: &mut Draft, store: &Store, trial: &Trial) {
    let record = &mut draft.record;
    let Some(number) = record.metric.number() else { return };
    let tested = match trial {
        Trial::Afresh(_) => Tested::Holds(number),
        Trial::Train { cars, .. } => {
            let riding: Vec<&Car> = store.journal.line.cars().filter(|car| cars.contains(&car.id)).collect();
            let noise = session_noise(&store.history);
            let min_delta = store.contract.min_delta.value(Some(&number));
            let tolerance = match store.contract.decides_on_hidden() {
                // The values of first runs selected its cars, and say nothing against its own.
                true => f64::INFINITY,
                false => mean_tolerance(min_delta, noise.as_ref(), record.deciding_runs().len()),
            };
            let verdict = Verdict { outcome: record.outcome, reason: record.reason.clone() };
            let (tested, verdict) = judge_train(&store.contract, Some(&number), verdict, &riding, tolerance);
            record.reason = verdict.reason;
            tested
        }
    };
    draft.tested = Some(tested);
}

/// Tells the line what came of a trial, and its cars. It stays open until the line has no more use for it.
pub(crate) fn end_trial(mut draft: Draft, trial: &Trial, store: &mut Store) -> Result<(), SessionError> {
    let is_refused = draft.record.outcome != Outcome::Keep;
    let tested = match draft.tested.take() {
        // A guard failed.
        Some(Tested::Holds(number) | Tested::Better(number)) if is_refused && matches!(trial, Trial::Train { .. }) => {
            Tested::NotBetter(Some(number))
        }
        tested => tested.unwrap_or_else(|| Tested::NotBetter(draft.record.metric.number())),
    };
    let Made { head, commit, .. } = &draft.made;
    let (base, commit, reason) = (head.base.clone(), commit.clone(), draft.record.reason.clone());
    store.note(run_finished(head, &reason, number_of(&tested).cloned()));
    let value = number_of(&tested).map(|number| number.value);
    // A run of several stands in the record of the last one.
    let (runs, sandbox) = (draft.record.runs.clone(), draft.record.proof.sandbox);
    if let Some(last) = trial.cars().last()
        && let Some(car) = store.journal.attempt_mut(*last).and_then(Attempt::draft_mut)
    {
        car.record.add_runs(runs, sandbox);
    }
    match trial {
        Trial::Afresh(id) => {
            let afresh = number_of(&tested).map_or(Afresh::Nothing, |number| Afresh::Value(number.clone()));
            store.journal.line.ran_afresh(*id, afresh);
            let why = format!("by itself once more: {reason}");
            add_replay(store, *id, Replay { base, commit, value, why })?;
        }
        Trial::Train { cars, .. } => {
            on_line(store, true, |line: &mut Line, on| line.tested(on, trial, tested.clone()));
            // The record's train lists the cars that hold.
            let others = |id: ExperimentId| cars.iter().copied().filter(|car| *car != id).collect::<Vec<_>>();
            for id in cars {
                let others = others(*id);
                let with =
                    if others.is_empty() { String::new() } else { format!("with {}, ", experiment_names(&others)) };
                let why = format!("{with}on the incumbent: {reason}");
                let (base, commit) = (base.clone(), commit.clone());
                add_replay(store, *id, Replay { base, commit, value, why })?;
            }
        }
    }
    store.enter(Attempt::Tested { draft, tested })?;
    crash::point("trial.ended");
    Ok(())
}

/// The number that a trial gave, whatever it is worth.
fn number_of(tested: &Tested) -> Option<&Number> {
    match tested {
        Tested::Holds(number) | Tested::Better(number) => Some(number),
        Tested::NotBetter(number) => number.as_ref(),
    }
}

/// Notes a measurement of a winner's change in the journal, which is written with the next step, and keeps its commit.
fn add_replay(store: &mut Store, id: ExperimentId, replay: Replay) -> Result<(), SessionError> {
    let Some(draft) = store.journal.attempt_mut(id).and_then(Attempt::draft_mut) else { return Ok(()) };
    let Made { head, commit, .. } = &mut draft.made;
    head.beside.replays.push(replay);
    let (replays, commit) = (head.beside.replays.clone(), commit.clone());
    store.keep_replays(id, &replays, &commit)
}
