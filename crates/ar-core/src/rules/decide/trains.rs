//! Winners that wait for the incumbent, and the train that tries them on it.
//!
//! A run that beat its own base while another experiment was kept is a *winner*, and waits. A *train* is all winners that
//! wait, merged onto the incumbent and measured together. [`Line`] holds both and says the next step. It is plain data:
//! whoever stores it with the journal asks again after a kill and gets the same step.
//!
//! A train that does not hold is halved, down to single winners, and two of its parts are tried side by side. Once one
//! holds, the other one is awaited if it runs, and not started otherwise. The better one is kept. One that held as well
//! joins the next train, and all others are merged onto the new incumbent and tried again. Failed guards and crashes do not
//! hold. So each run of a train ends it, halves it, or takes a winner out of the line.

use serde::{Deserialize, Serialize};

use super::{Verdict, exceeds};
use crate::domain::{Direction, ExperimentId, Number, Outcome};

/// The number of groups of a train that are tried side by side: its two halves.
const SIDE_BY_SIDE: usize = 2;

/// The number of winners that may wait for each slot. If there are more, those with the smallest gains are discarded.
const WAITING_PER_SLOT: usize = 2;

/// Winners of a train that are tried together on the incumbent, in the order of their merge.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct TrainPart {
    cars: Vec<Car>,
    /// The outcome of its run on this incumbent.
    tested: Option<Tested>,
}

impl TrainPart {
    fn ids(&self) -> Vec<ExperimentId> {
        ids(&self.cars)
    }
}

/// The winners of a session, each in one place.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// They wait for the next train.
    waiting: Vec<Car>,
    /// The agent merges them with the incumbent.
    asking: Vec<Car>,
    /// They conflict with the incumbent, also after the agent's work: their own trees run again.
    alone: Vec<Car>,
    /// The train, whole or what is left of it; empty if there is none.
    groups: Vec<TrainPart>,
    /// Known merges onto the incumbent. They are found out again after a kill.
    #[serde(skip)]
    merges: Vec<(Vec<ExperimentId>, ExperimentId, MergedChange)>,
}

/// A step, or a change of places within a line.
enum Decided {
    Step(LineStep),
    Uncouple(ExperimentId),
    Isolate(ExperimentId),
    Split,
}

impl Line {
    /// Returns whether a train is in progress. Until it ends, every winner waits.
    pub fn has_train(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Returns whether there are no winners.
    pub fn is_empty(&self) -> bool {
        self.cars().next().is_none()
    }

    /// All winners: those of the train, those that wait, and those that the agent merges.
    pub fn cars(&self) -> impl Iterator<Item = &Car> {
        let riding = self.groups.iter().flat_map(|group| &group.cars);
        riding.chain(&self.waiting).chain(&self.asking).chain(&self.alone)
    }

    /// The winner of this number.
    pub fn car(&self, id: ExperimentId) -> Option<&Car> {
        self.cars().find(|car| car.id == id)
    }

    /// Returns whether a run for the winners is still useful on this incumbent.
    pub fn uses(&self, trial: &Trial, incumbent: Option<ExperimentId>) -> bool {
        let is_on = |on: ExperimentId| Some(on) == incumbent;
        let stands = match trial {
            Trial::Train { on, .. } => is_on(*on),
            Trial::Afresh(_) => true,
        };
        stands && trial.cars().iter().all(|id| self.car(*id).is_some())
    }

    fn cars_mut(&mut self) -> impl Iterator<Item = &mut Car> {
        let riding = self.groups.iter_mut().flat_map(|group| &mut group.cars);
        riding.chain(&mut self.waiting).chain(&mut self.asking).chain(&mut self.alone)
    }

    /// Adds a winner.
    pub fn won(&mut self, car: Car) {
        self.waiting.push(car);
    }

    /// Takes note of a merge onto the incumbent.
    pub fn merged(&mut self, onto: &[ExperimentId], car: ExperimentId, merged: MergedChange) {
        self.merges.push((onto.to_vec(), car, merged));
    }

    /// Takes note that a run starts. A train departs by that: winners that come later wait for the next one.
    pub fn started(&mut self, on: &Incumbent, trial: &Trial) {
        if let Trial::Train { on: measured_on, cars } = trial
            && *measured_on == on.incumbent
            && !self.has_train()
        {
            let cars: Vec<Car> = cars.iter().filter_map(|id| take(&mut self.waiting, *id)).collect();
            self.groups.extend((!cars.is_empty()).then_some(TrainPart { cars, tested: None }));
        }
    }

    /// Takes note of what came of a train. That of an overtaken one counts no more.
    pub fn tested(&mut self, on: &Incumbent, trial: &Trial, tested: Tested) {
        if let Trial::Train { on: measured_on, cars } = trial
            && *measured_on == on.incumbent
            && let Some(group) = self.groups.iter_mut().find(|group| group.ids() == *cars)
        {
            group.tested = Some(tested);
        }
    }

    /// Takes note of what came of a winner's own tree.
    pub fn ran_afresh(&mut self, id: ExperimentId, afresh: Afresh) {
        if let Some(car) = self.cars_mut().find(|car| car.id == id) {
            car.afresh = Some(afresh);
        }
        self.waiting.extend(take(&mut self.alone, id));
    }

    /// Takes note that the agent is called to merge a winner with the incumbent.
    pub fn asked(&mut self, on: &Incumbent, id: ExperimentId) {
        let asked = take(&mut self.waiting, id).map(|car| Car { asked: Some(on.incumbent), ..car });
        self.asking.extend(asked);
    }

    /// Takes note that the agent's call for a winner ended, whatever came of it: its change is merged again.
    pub fn answered(&mut self, id: ExperimentId) {
        self.merges.retain(|(_, car, _)| *car != id);
        self.waiting.extend(take(&mut self.asking, id));
    }

    /// Takes note that these were recorded as kept, and the last one is the incumbent now.
    pub fn kept(&mut self, ids: &[ExperimentId]) {
        ids.iter().for_each(|id| self.left(*id));
        // All other results and merges are based on the earlier incumbent. A group that held there joins the next
        // train.
        for mut group in std::mem::take(&mut self.groups) {
            match group.tested.take() {
                Some(Tested::Holds(_)) => self.waiting.extend(group.cars),
                _ => self.groups.push(group),
            }
        }
        self.merges.clear();
    }

    /// Takes note that a winner was recorded.
    pub fn left(&mut self, id: ExperimentId) {
        self.take(id);
    }

    /// The next step. It stays the same until its result is told.
    pub fn next(&mut self, on: &Incumbent) -> LineStep {
        loop {
            match self.decide(on) {
                Decided::Step(step) => return step,
                Decided::Uncouple(id) => {
                    let car = self.take(id);
                    self.waiting.extend(car);
                }
                Decided::Isolate(id) => {
                    let car = self.take(id);
                    self.alone.extend(car);
                }
                Decided::Split => self.groups = self.groups.drain(..).flat_map(halves).collect(),
            }
        }
    }

    fn decide(&self, on: &Incumbent) -> Decided {
        if self.has_train() { self.resolve(on) } else { self.form(on) }
    }

    /// Forms a train of all that wait, in the order of their gain. Until it departs, others may join it.
    fn form(&self, on: &Incumbent) -> Decided {
        let by_gain = self.by_gain();
        if let Some(car) = by_gain.iter().find(|car| car.base == on.incumbent) {
            let is_overtaken = |number: &Number| car.gain > 0.0 && !on.direction.better(car.number.value, number.value);
            if on.number.is_some_and(is_overtaken) {
                // A control of another winner has moved the number meanwhile.
                return discard(car.id, Why::DoesNotAdd(on.incumbent));
            }
            // Its tree was measured on this incumbent, and is better.
            return Decided::Step(LineStep::Keep { cars: vec![car.id], number: car.number.clone() });
        }
        let mut train = Vec::new();
        for car in by_gain {
            let Some(merged) = self.merge_of(&train, car.id) else { return merge(&train, car.id) };
            let on_incumbent = match merged {
                MergedChange::Clean => {
                    train.push(car.id);
                    continue;
                }
                other if train.is_empty() => other,
                _ => match self.merge_of(&[], car.id) {
                    Some(other) => other,
                    None => return merge(&[], car.id),
                },
            };
            match on_incumbent {
                // It conflicts with a car, or is the same: it waits.
                MergedChange::Clean => {}
                MergedChange::Conflict => return conflicting(car, Why::Conflicts(on.incumbent), on),
                // Its agent merged it to the incumbent's own text.
                MergedChange::Empty if car.asked == Some(on.incumbent) => {
                    return conflicting(car, Why::NothingLeft(on.incumbent), on);
                }
                MergedChange::Empty => return discard(car.id, Why::Duplicate(on.incumbent)),
            }
        }
        let train = (!train.is_empty()).then_some(Trial::Train { on: on.incumbent, cars: train });
        self.try_trials(train.into_iter().collect())
    }

    /// Tries the train, its halves, or what is left of them.
    fn resolve(&self, on: &Incumbent) -> Decided {
        if self.waiting.len() > WAITING_PER_SLOT * on.slots.max(1) as usize
            && let Some(smallest) = self.by_gain().last()
        {
            return discard(smallest.id, Why::NotReplayed);
        }
        let untried = || self.groups.iter().filter(|group| group.tested.is_none());
        if let Some((cars, number)) = self.best_that_holds(on) {
            let trials = untried().map(|group| Trial::Train { on: on.incumbent, cars: group.ids() });
            let running: Vec<Trial> = trials.filter(|trial| on.running.contains(trial)).collect();
            return match running.is_empty() {
                true => Decided::Step(LineStep::Keep { cars, number }),
                false => self.try_trials(running),
            };
        }
        let mut trials = Vec::new();
        for group in untried().take(SIDE_BY_SIDE) {
            let cars = group.ids();
            for (place, id) in cars.iter().enumerate() {
                match self.merge_of(&cars[..place], *id) {
                    None => return merge(&cars[..place], *id),
                    Some(MergedChange::Clean) => {}
                    Some(MergedChange::Conflict | MergedChange::Empty) => return Decided::Uncouple(*id),
                }
            }
            trials.push(Trial::Train { on: on.incumbent, cars });
        }
        if !trials.is_empty() {
            return self.try_trials(trials);
        }
        if self.groups.iter().any(|group| group.cars.len() > 1) {
            return Decided::Split;
        }
        let tested = || self.groups.iter().filter_map(|group| only(group).zip(group.tested.as_ref()));
        let decided = tested().find_map(|(car, tested)| after_single(car, tested, on));
        decided.map_or_else(|| self.try_trials(tested().map(|(car, _)| Trial::Afresh(car.id)).collect()), Decided::Step)
    }

    /// The part of the train with the best value of those that hold; of equal ones the first.
    fn best_that_holds(&self, on: &Incumbent) -> Option<(Vec<ExperimentId>, Number)> {
        let holding = self.groups.iter().filter_map(|group| match &group.tested {
            Some(Tested::Holds(number)) => Some((group.ids(), number.clone())),
            _ => None,
        });
        holding.reduce(|best, other| if on.direction.gain(other.1.value, best.1.value) > 0.0 { other } else { best })
    }

    /// These runs, and those of winners that run alone beside the train.
    fn try_trials(&self, mut trials: Vec<Trial>) -> Decided {
        trials.extend(self.alone.iter().map(|car| Trial::Afresh(car.id)));
        Decided::Step(LineStep::Try(trials))
    }

    fn merge_of(&self, onto: &[ExperimentId], id: ExperimentId) -> Option<MergedChange> {
        self.merges.iter().find(|(known, car, _)| known == onto && *car == id).map(|(_, _, merged)| *merged)
    }

    /// The winners that wait: the largest gain first, the older of equal ones.
    fn by_gain(&self) -> Vec<&Car> {
        let mut cars: Vec<&Car> = self.waiting.iter().collect();
        cars.sort_by(|one, other| other.gain.total_cmp(&one.gain).then(one.id.cmp(&other.id)));
        cars
    }

    /// Removes a winner, wherever it waits.
    fn take(&mut self, id: ExperimentId) -> Option<Car> {
        let in_group = self.groups.iter_mut().find_map(|group| {
            let car = take(&mut group.cars, id)?;
            // Without this car, the merged tree differs from the tested one.
            group.tested = None;
            Some(car)
        });
        self.groups.retain(|group| !group.cars.is_empty());
        let places = [&mut self.waiting, &mut self.asking, &mut self.alone];
        in_group.or_else(|| places.into_iter().find_map(|place| take(place, id)))
    }
}

fn take(cars: &mut Vec<Car>, id: ExperimentId) -> Option<Car> {
    let place = cars.iter().position(|car| car.id == id)?;
    Some(cars.remove(place))
}

fn ids(cars: &[Car]) -> Vec<ExperimentId> {
    cars.iter().map(|car| car.id).collect()
}

fn only(group: &TrainPart) -> Option<&Car> {
    match group.cars.as_slice() {
        [car] => Some(car),
        _ => None,
    }
}

/// Two halves, the first of which has one more if the count is odd; a single one stays as it is.
fn halves(mut group: TrainPart) -> Vec<TrainPart> {
    if group.cars.len() < 2 {
        return vec![group];
    }
    let second = group.cars.split_off(group.cars.len().div_ceil(2));
    vec![TrainPart { tested: None, ..group }, TrainPart { cars: second, tested: None }]
}

fn merge(onto: &[ExperimentId], car: ExperimentId) -> Decided {
    Decided::Step(LineStep::Merge { onto: onto.to_vec(), car })
}

fn discard(car: ExperimentId, why: Why) -> Decided {
    Decided::Step(LineStep::Discard { car, why })
}

/// The next step for a winner that conflicts with the incumbent: once its agent was called and its own tree ran, it goes on top
/// or is discarded, for the reason `why`.
fn conflicting(car: &Car, why: Why, on: &Incumbent) -> Decided {
    match &car.afresh {
        _ if on.may_ask && car.asked.is_none() => Decided::Step(LineStep::Ask(car.id)),
        None => Decided::Isolate(car.id),
        Some(afresh) => replace(car, afresh, None, on).map_or_else(|| discard(car.id, why), Decided::Step),
    }
}

/// The end of a winner that does not hold on the incumbent by itself, once its own tree ran afresh.
fn after_single(car: &Car, tested: &Tested, on: &Incumbent) -> Option<LineStep> {
    let (merged, is_better) = match tested {
        Tested::Holds(number) | Tested::Better(number) => (Some(number), true),
        Tested::NotBetter(number) => (number.as_ref(), false),
    };
    let replace = replace(car, car.afresh.as_ref()?, merged, on);
    let keep = || {
        let number = merged.filter(|_| is_better)?.clone();
        Some(LineStep::Keep { cars: vec![car.id], number })
    };
    Some(replace.or_else(keep).unwrap_or_else(|| does_not_add(car, on)))
}

fn does_not_add(car: &Car, on: &Incumbent) -> LineStep {
    LineStep::Discard { car: car.id, why: Why::DoesNotAdd(on.incumbent) }
}

/// Puts the winner's own tree on top if its fresh value beats both the incumbent and the merged tree.
fn replace(car: &Car, afresh: &Afresh, merged: Option<&Number>, on: &Incumbent) -> Option<LineStep> {
    let Afresh::Value(number) = afresh else { return None };
    let beats = |other: &Number| exceeds(on.direction.gain(number.value, other.value), on.min_delta, number, other);
    let replaces = on.kept.iter().rev().take_while(|id| **id != car.base).copied();
    let mut replaces: Vec<ExperimentId> = replaces.collect();
    replaces.reverse();
    (on.number.is_none_or(beats) && merged.is_none_or(beats)).then(|| LineStep::Replace {
        car: car.id,
        number: number.clone(),
        replaces,
    })
}

/// A winner: an attempt whose run was better than its own base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Car {
    /// Its number.
    pub id: ExperimentId,
    /// The incumbent when its run began, against which it was judged.
    pub base: ExperimentId,
    /// Its value on that base.
    pub number: Number,
    /// Its gain over its base, in the metric's unit; negative for a simplification that costs something.
    pub gain: f64,
    /// The incumbent for which the agent last merged it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<ExperimentId>,
    /// The result of running its own tree again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub afresh: Option<Afresh>,
}

impl Car {
    /// A winner that has just ended.
    pub fn new(id: ExperimentId, base: ExperimentId, number: Number, gain: f64) -> Car {
        Car { id, base, number, gain, asked: None, afresh: None }
    }
}

/// The result of running a winner's own tree again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Afresh {
    /// Its value.
    Value(Number),
    /// No value that counts: it failed, or exceeded a limit or a guard.
    Nothing,
}

/// The result of measuring merged winners; [`super::outcome::judge_train`] gives it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tested {
    /// Better than the incumbent, and as good as the best of them alone.
    Holds(Number),
    /// Better than the incumbent only.
    Better(Number),
    /// Not better; without a value if it failed or was refused.
    NotBetter(Option<Number>),
}

/// The result of a three-way merge of one winner's change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergedChange {
    /// It applies.
    Clean,
    /// It conflicts.
    Conflict,
    /// Nothing of it is left: what it is merged onto contains it.
    Empty,
}

/// A run that the line asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trial {
    /// These winners, merged in this order onto the incumbent `on`. Journals of sessions with GPUs of several models
    /// call a run on another model `elsewhere`; recovery closes it.
    #[serde(alias = "elsewhere")]
    Train {
        /// The incumbent.
        on: ExperimentId,
        /// The winners; the last one's commit is measured.
        cars: Vec<ExperimentId>,
    },
    /// The winner's own tree, once more.
    Afresh(ExperimentId),
}

impl Trial {
    /// The winners that it is for.
    pub fn cars(&self) -> &[ExperimentId] {
        match self {
            Trial::Train { cars, .. } => cars,
            Trial::Afresh(id) => std::slice::from_ref(id),
        }
    }
}

/// The reason to discard a winner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// On this incumbent it is no gain.
    DoesNotAdd(ExperimentId),
    /// Too many larger gains were waiting.
    NotReplayed,
    /// The session ends for good before a train took it up.
    SessionEnds,
    /// This incumbent contains its change.
    Duplicate(ExperimentId),
    /// It conflicts with this incumbent, also after its agent was called.
    Conflicts(ExperimentId),
    /// Its agent merged it to this incumbent's own text.
    NothingLeft(ExperimentId),
}

impl Why {
    /// The verdict on the winner.
    pub fn verdict(self) -> Verdict {
        let reason = match self {
            Why::DoesNotAdd(incumbent) => format!("does not add to experiment {incumbent}"),
            Why::NotReplayed => "not replayed: larger gains were waiting".to_owned(),
            Why::SessionEnds => "not replayed: the session ended".to_owned(),
            Why::Duplicate(incumbent) => format!("experiment {incumbent} contains this change"),
            Why::Conflicts(incumbent) => format!("conflicts with experiment {incumbent}, not measured together"),
            Why::NothingLeft(incumbent) => format!("nothing left of it once merged with experiment {incumbent}"),
        };
        Verdict { outcome: Outcome::Discard, reason }
    }
}

/// The next step of a `Line`.
#[derive(Debug, Clone, PartialEq)]
pub enum LineStep {
    /// Merge the change of `car` onto the incumbent and the cars `onto`, then report with `Line::merged`.
    Merge {
        /// The cars already merged onto the incumbent, in their order.
        onto: Vec<ExperimentId>,
        /// The winner to add.
        car: ExperimentId,
    },
    /// Record these as kept, in their order, then report with `Line::kept`.
    Keep {
        /// The winners. A single one whose base is the incumbent is kept with its own commit.
        cars: Vec<ExperimentId>,
        /// The value of the last one; the others have none.
        number: Number,
    },
    /// Commit the winner's own tree on top of the incumbent and record it as kept, then report with `Line::kept`.
    Replace {
        /// The winner.
        car: ExperimentId,
        /// The value of its tree, run afresh.
        number: Number,
        /// The kept experiments that its tree removes.
        replaces: Vec<ExperimentId>,
    },
    /// Record it as discarded, then report with `Line::left`.
    Discard {
        /// The winner.
        car: ExperimentId,
        /// The reason.
        why: Why,
    },
    /// Have the agent merge this winner with the incumbent, with which it conflicts. Report with `Line::asked` at once,
    /// and with `Line::answered` after the call.
    Ask(ExperimentId),
    /// Make these runs, and no others, in this order. Report with `Line::started` when one starts, and with
    /// `Line::tested` or `Line::ran_afresh` when it ends. End a run that is not among them: it was overtaken.
    Try(Vec<Trial>),
}

/// The incumbent and its terms.
#[derive(Debug, Clone, Copy)]
pub struct Incumbent<'a> {
    /// The incumbent.
    pub incumbent: ExperimentId,
    /// Its value; absent for a baseline that had nothing to measure yet.
    pub number: Option<&'a Number>,
    /// The direction of the metric.
    pub direction: Direction,
    /// The gain that an experiment must exceed, in the metric's unit.
    pub min_delta: f64,
    /// The kept experiments in the order of their records, up to the incumbent.
    pub kept: &'a [ExperimentId],
    /// The runs for winners that started and did not end.
    pub running: &'a [Trial],
    /// The number of slots.
    pub slots: u32,
    /// True if the agent may merge winners that conflict with the incumbent. Otherwise, they run alone at once. Also
    /// true in an outage: such winners wait for its end.
    pub may_ask: bool,
}

#[cfg(test)]
#[path = "trains_tests.rs"]
mod tests;
