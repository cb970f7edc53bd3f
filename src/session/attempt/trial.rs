//! Runs that the line of winners asks for: merged winners on the incumbent, or one winner's own tree afresh.

use super::joining::run_finished;
use super::lifecycle::{Attempt, Attempted};
use super::line::{Chains, on_line, open_attempt};
use super::merging::refuse_commit;
use crate::crash;
use crate::domain::{ExperimentId, Number, Outcome, Phase, Replay, experiment_names};
use crate::rules::{
    Afresh, Car, FileTerms, Line, Measured, Tested, Trial, Verdict, is_confirmed, judge, judge_train, mean_tolerance,
    session_noise, train_tolerance,
};
use crate::session::errors::SessionError;
use crate::session::store::{Store, commit_of, draft_of};
use crate::state::OpenExperiment;

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
    let mut attempt = Attempt::at(open, Phase::Idle);
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
