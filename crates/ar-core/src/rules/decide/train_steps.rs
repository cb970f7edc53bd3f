//! The parts of the line of winners, and the steps that it asks for.

use serde::{Deserialize, Serialize};

use super::outcome::Verdict;
use crate::domain::{Direction, ExperimentId, Number, Outcome};

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

/// The result of measuring merged winners; [`super::settle::judge_train`] gives it.
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
pub enum Merged {
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
}

impl Why {
    /// The verdict on the winner.
    pub fn verdict(self) -> Verdict {
        let reason = match self {
            Why::DoesNotAdd(incumbent) => format!("does not add to experiment {incumbent}"),
            Why::NotReplayed => "not replayed: larger gains were waiting".to_owned(),
            Why::SessionEnds => "not replayed: the session ended".to_owned(),
            Why::Duplicate(incumbent) => format!("experiment {incumbent} contains this change"),
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
pub struct Standing<'a> {
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
