//! The line of winners: the steps that need no run, and its runs: merged winners on the incumbent, or one winner's own tree
//! afresh.

use super::lifecycle::{Attempt, Attempted};
use super::recording::{run_finished, without_own};
use super::reworking::refuse_commit;
use crate::domain::{
    CommitId, Concurrency, ExperimentId, Number, Outcome, Phase, Record, Replay, Train, experiment_names,
};
use crate::rules::{
    Afresh, Car, FileTerms, Incumbent, Line, LineStep, Measured, MergedChange, Tested, Trial, Verdict, Why,
    fingerprint, is_confirmed, judge, judge_train, mean_tolerance, session_noise, train_tolerance,
};
use crate::session::errors::SessionError;
use crate::session::files::no_experiment;
use crate::session::store::{Store, commit_of, draft_of};
use crate::state::{OpenExperiment, Ported};
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
        let car = open_attempt(store, *last)?;
        let (merged, commit) = merge_onto(store, &car, &ours)?;
        if let Some(commit) = &commit {
            self.tops.push((cars.to_vec(), commit.clone()));
        }
        Ok((merged, commit))
    }
}

/// Merges the change of an attempt, as the agent has merged it last, onto `ours`, and commits what comes of it.
pub(crate) fn merge_onto(
    store: &mut Store,
    open: &OpenExperiment,
    ours: &CommitId,
) -> Result<(MergedChange, Option<CommitId>), SessionError> {
    let own = open.commit.clone().map(|commit| Ported { base: open.base.clone(), commit });
    let Some(Ported { base, commit }) = open.ported.clone().or(own) else {
        return Err(SessionError::NoCommit(open.id));
    };
    let objects = &store.repo.objects;
    Ok(match objects.merge(&base, ours, &commit)? {
        git::Merged::Conflicts(_) => (MergedChange::Conflict, None),
        git::Merged::Tree(tree) if tree.is_empty() => (MergedChange::Empty, None),
        git::Merged::Tree(tree) => {
            let commit = objects.commit_merged(&tree, ours, &format!("{}\n", open.description))?;
            crash::point("merging.committed");
            (MergedChange::Clean, Some(commit))
        }
    })
}

/// The open attempt of this number.
pub(crate) fn open_attempt(store: &Store, id: ExperimentId) -> Result<OpenExperiment, SessionError> {
    find_attempt(store, id).map(|attempt| attempt.open)
}

/// The attempt of this number as the journal has it.
pub(crate) fn find_attempt(store: &Store, id: ExperimentId) -> Result<Attempt, SessionError> {
    let left = store.journal.find(id).cloned().map(Attempt::from_journal);
    left.ok_or_else(|| no_experiment(&store.history, &store.contract.tag, id.to_string()))
}

/// Lends the line of winners with what they are compared with. `None` without an incumbent.
pub(crate) fn on_line<T>(store: &mut Store, may_ask: bool, act: impl FnOnce(&mut Line, &Incumbent) -> T) -> Option<T> {
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

/// The attempt that measured these winners, merged onto the incumbent.
pub(crate) fn train_of<'s>(store: &'s Store, cars: &[ExperimentId]) -> Option<&'s OpenExperiment> {
    let (on, _) = store.history.standing()?;
    let trial = Trial::Train { on, cars: cars.to_vec() };
    store.journal.attempt_of(&trial)
}

/// Records winners as kept: one as it was measured on the incumbent, or those of a train with its commits.
fn keep(store: &mut Store, cars: &[ExperimentId], number: &Number) -> Result<(), SessionError> {
    let Some(trial) = train_of(store, cars).cloned() else {
        let Some(car) = cars.first() else { return Ok(()) };
        let open = open_attempt(store, *car)?;
        let draft = draft_of(&open)?;
        let record = Record { beside: without_own(&open, &draft), ..draft };
        return store.record(open, vec![record], None);
    };
    let measured = draft_of(&trial)?;
    let (mut records, mut base) = (Vec::new(), trial.base.clone());
    let last = cars.last().copied().unwrap_or(trial.id);
    for (id, commit) in cars.iter().zip(&trial.chain) {
        let open = open_attempt(store, *id)?;
        let draft = draft_of(&open)?;
        let train = Train { last, members: cars.to_vec() };
        let others: Vec<ExperimentId> = cars.iter().copied().filter(|other| other != id).collect();
        let reason = match others.is_empty() {
            true => measured.reason.clone(),
            false => format!("{}, together with {}", measured.reason, experiment_names(&others)),
        };
        let merged = on_base(store, &open, draft, base.clone(), commit.clone())?;
        records.push(match *id == last {
            true => {
                let mut merged = merged;
                merged.metric.put(Some(number));
                Record {
                    reason,
                    artifacts: measured.artifacts.clone(),
                    artifacts_run: measured.artifacts_run,
                    metrics: measured.metrics.clone(),
                    memory_gb: measured.memory_gb,
                    guards: measured.guards.clone(),
                    environment: measured.environment.clone(),
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
    store.record(trial, records, None)
}

/// The record of an attempt whose change is another commit now, without a number.
fn on_base(
    store: &Store,
    open: &OpenExperiment,
    draft: Record,
    base: CommitId,
    commit: CommitId,
) -> Result<Record, SessionError> {
    let objects = &store.repo.objects;
    let mut record = Record { beside: open.beside.clone(), ..draft };
    record.metric.put(None);
    record.memory_gb = None;
    record.metrics = crate::domain::Metrics::default();
    record.give_artifacts(Vec::new(), None);
    record.diff = objects.diff(&base, &commit)?.stat();
    record.fingerprint = Some(fingerprint(objects.tree_of(&commit)?, &objects.diff_text(&base, &commit)?));
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
    let (mut open, tip) = (open_attempt(store, car)?, store.tip());
    let draft = draft_of(&open)?;
    let message = format!("{}\n", open.description);
    let commit = store.repo.objects.commit_tree_of(&draft.commit, &tip, &message)?;
    crash::point("replacing.committed");
    let reason =
        format!("{number} by itself, better than what was kept meanwhile; replaces {}", experiment_names(&replaces));
    let measured = draft.clone();
    let mut record = Record { reason, ..on_base(store, &open, draft, tip, commit)? };
    (record.metrics, record.memory_gb) = (measured.metrics, measured.memory_gb);
    record.give_artifacts(measured.artifacts, measured.artifacts_run);
    record.metric.put(Some(&number));
    if let Some(trial) = store.journal.attempt_of(&Trial::Afresh(car))
        && let Some(measured) = &trial.draft
    {
        (record.metrics, record.memory_gb) = (measured.metrics.clone(), measured.memory_gb);
        record.give_artifacts(measured.artifacts.clone(), measured.artifacts_run);
        open.artifacts_of = Some(trial.id);
    }
    record.beside.replaces = replaces;
    store.record(open, vec![record], None)
}

/// Records a winner as discarded, with its own number.
pub(crate) fn discard(store: &mut Store, car: ExperimentId, why: Why) -> Result<(), SessionError> {
    let open = open_attempt(store, car)?;
    let draft = draft_of(&open)?;
    let Verdict { outcome, reason } = why.verdict();
    let record = Record { outcome, reason, beside: without_own(&open, &draft), ..draft };
    store.record(open, vec![record], None)
}

/// Has the agent merge a winner that conflicts with the incumbent.
fn ask_to_merge(store: &mut Store, car: ExperimentId) -> Result<(), SessionError> {
    on_line(store, true, |line, on| line.asked(on, car));
    let tip = store.tip();
    let open = OpenExperiment { merge_with: Some(tip), ..open_attempt(store, car)? };
    store.note(format!("experiment {car} conflicts with what was kept meanwhile; the agent is called to merge it"));
    store.enter(Phase::Proposing, open)?;
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
) -> Result<Option<Attempt>, SessionError> {
    let open = OpenExperiment::new(store.allocate(), store.tip(), store.now());
    let mut open = match trial {
        Trial::Afresh(car) => {
            let winner = open_attempt(store, *car)?;
            let description = format!("experiment {car} by itself: {}", winner.description);
            OpenExperiment { base: winner.base, commit: winner.commit, description, ..open }
        }
        Trial::Train { cars, .. } => {
            let Some(chain) = chains.commits(store, cars)? else { return Ok(None) };
            let description = format!("{} on the incumbent", experiment_names(cars));
            OpenExperiment { commit: chain.last().cloned(), chain, description, ..open }
        }
    };
    open.trial = Some(trial.clone());
    let mut base = &open.base;
    for commit in &open.chain {
        // Each change must keep to its limits by itself.
        open.refused = open.refused.or(refuse_commit(store, terms, base, commit)?);
        base = commit;
    }
    let mut attempt = Attempt::in_phase(open, Phase::Idle);
    store.enter_ready(&mut attempt)?;
    on_line(store, true, |line, on| line.started(on, trial));
    Ok(Some(attempt))
}

/// The verdict on a trial, in whose draft the verdict on its line's terms stands.
pub(crate) fn judge_trial(
    attempt: &mut Attempt,
    store: &Store,
    trial: &Trial,
    measured: &Measured,
) -> Result<(Verdict, Vec<String>), SessionError> {
    let commit = commit_of(&attempt.open)?;
    let diff = store.repo.objects.diff(&attempt.open.base, &commit)?.stat();
    let (contract, history) = (&store.contract, &store.history);
    let number = measured.value.as_ref().filter(|_| measured.failure.is_none() && is_confirmed(contract));
    if let Some(number) = number.filter(|_| measured.unmet_limits(contract).is_empty()) {
        // Nothing selected it, and its first run counts with those that follow.
        let reason = format!("{} is {number} in its first run", contract.metric.name);
        return Ok((Verdict { outcome: Outcome::Keep, reason }, Vec::new()));
    }
    match trial {
        Trial::Afresh(id) => {
            let car = store.journal.line.car(*id);
            let base = car.map_or(ExperimentId::BASELINE, |car| car.base);
            let judged = judge(contract, (history, history.as_of(base)), *id, diff, measured);
            attempt.open.tested = Some(match (&measured.value, judged.0.outcome) {
                (_, Outcome::Crash) | (None, _) => Tested::NotBetter(None),
                (Some(value), _) if judged.1.is_empty() => Tested::Holds(value.clone()),
                _ => Tested::NotBetter(None),
            });
            Ok(judged)
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
            attempt.open.tested = Some(tested);
            Ok((verdict, unmet))
        }
    }
}

/// Says what came of a trial by its fresh runs, whose verdict is in its draft.
pub(crate) fn decide_trial(attempt: &mut Attempt, store: &Store, trial: &Trial) -> Result<(), SessionError> {
    let mut draft = draft_of(&attempt.open)?;
    let Some(number) = draft.metric.number() else { return Ok(()) };
    let tested = match trial {
        Trial::Afresh(_) => Tested::Holds(number),
        Trial::Train { cars, .. } => {
            let riding: Vec<&Car> = store.journal.line.cars().filter(|car| cars.contains(&car.id)).collect();
            let noise = session_noise(&store.history);
            let min_delta = store.contract.min_delta.value(Some(&number));
            let tolerance = mean_tolerance(min_delta, noise.as_ref(), draft.deciding_runs().len());
            let verdict = Verdict { outcome: draft.outcome, reason: draft.reason.clone() };
            let (tested, verdict) = judge_train(&store.contract, Some(&number), verdict, &riding, tolerance);
            draft.reason = verdict.reason;
            tested
        }
    };
    attempt.open.tested = Some(tested);
    attempt.open.draft = Some(Box::new(draft));
    Ok(())
}

/// Tells the line what came of the trial, and its cars. It stays open until the line has no more use for it.
pub(crate) fn end_trial(attempt: &mut Attempt, store: &mut Store) -> Result<Attempted, SessionError> {
    let (Some(trial), Some(draft)) = (attempt.open.trial.clone(), attempt.open.draft.as_deref()) else {
        return Ok(Attempted::RolledBack);
    };
    let is_refused = draft.outcome != Outcome::Keep;
    let tested = match attempt.open.tested.take() {
        // A guard failed.
        Some(Tested::Holds(number) | Tested::Better(number)) if is_refused && matches!(trial, Trial::Train { .. }) => {
            Tested::NotBetter(Some(number))
        }
        tested => tested.unwrap_or_else(|| Tested::NotBetter(draft.metric.number())),
    };
    attempt.open.tested = Some(tested.clone());
    let (base, commit, reason) = (attempt.open.base.clone(), commit_of(&attempt.open)?, draft.reason.clone());
    store.note(run_finished(&attempt.open, &reason, number_of(&tested).cloned()));
    let value = number_of(&tested).map(|number| number.value);
    // A run of several stands in the record of the last one.
    let (runs, sandbox) = (draft.runs.clone(), draft.sandbox);
    if let Some(last) = trial.cars().last()
        && let Some(draft) = store.journal.attempt_mut(*last).and_then(|car| car.draft.as_mut())
    {
        draft.add_runs(runs, sandbox);
    }
    match &trial {
        Trial::Afresh(id) => {
            let afresh = number_of(&tested).map_or(Afresh::Nothing, |number| Afresh::Value(number.clone()));
            store.journal.line.ran_afresh(*id, afresh);
            let why = format!("by itself once more: {reason}");
            add_replay(store, *id, Replay { base, commit, value, why })?;
        }
        Trial::Train { cars, .. } => {
            on_line(store, true, |line: &mut Line, on| line.tested(on, &trial, tested));
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
    attempt.enter(store, Phase::Waiting)?;
    crash::point("trial.ended");
    Ok(Attempted::Waiting)
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
    let Some(open) = store.journal.attempt_mut(id) else { return Ok(()) };
    open.beside.replays.push(replay);
    let (replays, commit) = (open.beside.replays.clone(), commit_of(open)?);
    Ok(store.refs().keep_replays(id, &replays, &commit)?)
}
