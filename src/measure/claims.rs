//! The mentions of a name that count, of all that a log has.
//!
//! Of the mentions of one process, the last counts. If it is of a part, the last one of the whole run counts instead, wherever it
//! stands. Rank 0 and lines that name no process come before other processes.

use super::name::Reading;
use super::number::Value;
use super::search::Found;
use super::standing::{Extent, Process};
use crate::domain::{Number, PartOf};

/// The most processes beside rank 0 to remember; those that printed last stay.
const MOST_PROCESSES: usize = 64;

/// The mentions of one process.
#[derive(Debug, Clone, Default)]
struct Claim {
    last: Option<Found>,
    /// True if the last one is of a part.
    is_part: bool,
    /// The last part.
    part: Option<String>,
    /// True if there are several parts.
    has_parts: bool,
    /// The last mention of the whole run that counts before those of parts.
    whole: Option<Found>,
    /// The last finite number of the whole run.
    finite: Option<Number>,
    /// The last finite number of a part.
    finite_part: Option<Number>,
}

impl Claim {
    fn of(extent: Extent, value: Value) -> Claim {
        let finite = if let Value::Finite(number) = &value { Some(number.clone()) } else { None };
        let found = Found::from(value);
        match extent {
            Extent::Whole => Claim { last: Some(found.clone()), whole: Some(found), finite, ..Claim::default() },
            Extent::SoFar => Claim { last: Some(found), finite, ..Claim::default() },
            Extent::Derived => Claim { whole: Some(found), ..Claim::default() },
            Extent::Part(part) => {
                Claim { last: Some(found), is_part: true, part: Some(part), finite_part: finite, ..Claim::default() }
            }
        }
    }

    fn put_before(&mut self, earlier: Claim) {
        if self.last.is_none() {
            (self.last, self.is_part) = (earlier.last, earlier.is_part);
        }
        self.has_parts |= earlier.has_parts || matches!((&self.part, &earlier.part), (Some(a), Some(b)) if a != b);
        self.part = self.part.take().or(earlier.part);
        self.whole = self.whole.take().or(earlier.whole);
        self.finite = self.finite.take().or(earlier.finite);
        self.finite_part = self.finite_part.take().or(earlier.finite_part);
    }

    /// Returns whether the last mention is of one part of several, and the log has none of the whole run.
    fn is_part_alone(&self) -> bool {
        self.is_part && self.has_parts && self.whole.is_none()
    }

    fn is_settled(&self) -> bool {
        self.last.is_some() && (!self.is_part || self.whole.is_some())
    }

    fn found(&self) -> Option<&Found> {
        self.whole.as_ref().filter(|_| self.is_part).or(self.last.as_ref())
    }
}

/// The mentions of all processes, as far as they can count.
#[derive(Debug, Default)]
pub(super) struct Claims {
    main: Claim,
    /// The same, with lines that have a field such as `rank=16`. They count unless a line has `rank=0`.
    all: Claim,
    /// The lowest number of such a field.
    lowest: Option<u32>,
    /// Those of other processes, the last one first.
    others: Vec<(Process, Claim)>,
    /// The one of these that printed first.
    first: Option<Process>,
    /// The numbers of the last mention that can mean any of several.
    several: Vec<String>,
}

impl Claims {
    pub(super) fn of(reading: Reading) -> Claims {
        match reading {
            Reading::Several(several) => Claims { several, ..Claims::default() },
            Reading::Value(standing, value) => {
                let claim = Claim::of(standing.extent, value);
                match standing.process {
                    Process::Main => Claims { main: claim.clone(), all: claim, ..Claims::default() },
                    Process::Field(rank) => {
                        let main = if rank == 0 { claim.clone() } else { Claim::default() };
                        Claims { main, all: claim, lowest: Some(rank), ..Claims::default() }
                    }
                    other => Claims { others: vec![(other, claim)], first: Some(other), ..Claims::default() },
                }
            }
        }
    }

    /// Takes what earlier lines say. In which order neighbours are put together does not matter.
    pub(super) fn put_before(&mut self, earlier: Claims) {
        self.main.put_before(earlier.main);
        self.all.put_before(earlier.all);
        self.lowest = self.lowest.into_iter().chain(earlier.lowest).min();
        for (process, claim) in earlier.others {
            match self.others.iter().position(|(known, _)| *known == process) {
                Some(at) => self.others[at].1.put_before(claim),
                None => self.others.push((process, claim)),
            }
        }
        self.others.truncate(MOST_PROCESSES);
        self.first = earlier.first.or(self.first);
        if self.several.is_empty() {
            self.several = earlier.several;
        }
    }

    /// Returns whether earlier lines can no longer change what was found.
    pub(super) fn are_settled(&self) -> bool {
        self.main.is_settled() && self.lowest.is_none_or(|rank| rank == 0)
    }

    /// The mentions of rank 0 and of lines that name no process.
    fn main(&self) -> &Claim {
        if self.lowest == Some(0) { &self.main } else { &self.all }
    }

    /// The claim that counts: rank 0, else the lowest rank, else the process that printed first.
    fn chosen(&self) -> &Claim {
        let of = |process: Option<Process>| self.others.iter().find(|(other, _)| Some(*other) == process);
        let rank = || self.others.iter().filter(|(it, _)| matches!(it, Process::Rank(_))).min_by_key(|(it, _)| *it);
        let other = || rank().or_else(|| of(self.first)).or(self.others.last()).map(|(_, claim)| claim);
        let main = self.main();
        Some(main).filter(|main| main.last.is_some()).or_else(other).unwrap_or(main)
    }

    pub(super) fn found(&self) -> Option<&Found> {
        self.chosen().found()
    }

    /// What the number is of, if that is not the whole run.
    pub(super) fn part(&self) -> Option<PartOf> {
        let is_of_process = self.main().last.is_none() && self.others.len() > 1;
        let of_split = || self.chosen().is_part_alone().then_some(PartOf::Split);
        if is_of_process { Some(PartOf::Process) } else { of_split() }
    }

    /// The last finite number, as a point of a curve: never one of several parts, nor of another rank than the first.
    pub(super) fn last_finite(&self) -> Option<&Number> {
        let is_rank = self.main().last.is_none() && self.others.iter().any(|(it, _)| matches!(it, Process::Rank(_)));
        let claim = Some(self.chosen()).filter(|_| !is_rank)?;
        claim.finite.as_ref().or(claim.finite_part.as_ref().filter(|_| !claim.has_parts))
    }

    /// The numbers of the last mention that can mean any of them, where no mention counts.
    pub(super) fn several(&self) -> &[String] {
        if self.found().is_some() { &[] } else { &self.several }
    }
}
