//! The text of a directive for the agent.

use crate::domain::{Contract, Directive, Perturbation, cut};
use crate::rules::{History, UNNAMED_LIMIT, is_research, near_misses, unnamed_in_a_row};

/// The most near misses named.
const NEAR_MISSES: usize = 3;

/// The most characters of a name or description shown.
const SHOWN: usize = 60;

/// The request to an agent that named a tried direction, when it is asked once more.
pub(super) fn asked_again_text(direction: &str) -> String {
    format!(
        "You named the direction \"{}\", which was tried before. Your change was undone and saved. Make one in a direction \
         that is not in the list, and name that direction in your proposal. A change in a tried direction is refused.",
        cut(direction, SHOWN)
    )
}

/// The request for a direction after many experiments in a row without one.
pub(super) fn unnamed_text(contract: &Contract, history: &History) -> String {
    let unnamed = unnamed_in_a_row(history.records());
    if unnamed < UNNAMED_LIMIT {
        return String::new();
    }
    let example = if is_research(contract) { "contrary evidence" } else { "schedule" };
    format!(
        "\nThe last {unnamed} experiments named no direction, so nobody can tell which strategies were tried. Name the \
         direction of this one: one or two words for the strategy, such as `{example}`, as \"direction\" in your proposal \
         or with `ar try --direction NAME`.\n"
    )
}

/// A directive in words for the agent; `None` if it is free.
pub fn directive_text(directive: Directive, contract: &Contract, history: &History) -> Option<String> {
    let is_research = is_research(contract);
    let last = history.records().iter().rev().find_map(|record| record.direction.as_deref());
    let strategy = last.map_or("the strategy of the recent attempts".to_owned(), |name| {
        format!("the strategy \"{}\"", cut(name, SHOWN))
    });
    match directive {
        Directive::Free => None,
        Directive::Refine => Some(format!(
            "Refine. Vary within {strategy}. Differ from the recent attempts in one concrete way, and name it."
        )),
        Directive::Pivot { perturbation, research } => {
            let change = match is_research {
                false => "Change the structure of the program rather than a parameter",
                true => "Look for other evidence in another way rather than for more of the same",
            };
            let new = if directive.refuses_tried() { ", in a direction that was not tried" } else { "" };
            let mut text = format!(
                "Pivot. Abandon {strategy}. {change}{new}. {}",
                perturbation_text(perturbation, is_research, history)
            );
            // In research sources always come from outside.
            if research && !is_research {
                text += " You may look for ideas outside the repository: papers, documentation, other programs.";
            }
            Some(text)
        }
        Directive::FreshStart { perturbation } => Some(format!(
            "Fresh start. The session is flagged for review, and nobody may look before the morning. Abandon \
                {strategy} and every other strategy that was tried; start in a direction that was never tried. {}",
            perturbation_text(perturbation, is_research, history)
        )),
    }
}

/// The suggested origin of the new idea.
fn perturbation_text(perturbation: Perturbation, is_research: bool, history: &History) -> String {
    let words = match (perturbation, is_research) {
        (Perturbation::Opposite, false) => {
            "Start from the opposite hypothesis: name what these attempts took for granted, and assume the contrary."
        }
        (Perturbation::Opposite, true) => {
            "Start from the opposite hypothesis: name what the text takes for granted, and look for who disputes it."
        }
        (Perturbation::Analogy, false) => {
            "Start from a similar case elsewhere: name a problem of the same shape, and carry over its solution."
        }
        (Perturbation::Analogy, true) => {
            "Start from a similar case elsewhere: name a field that asks the same, and look for what its sources say of this \
             question."
        }
        (Perturbation::Removal, false) => "Remove instead of adding: take out a part that seems necessary.",
        (Perturbation::Removal, true) => {
            "Remove instead of adding: do without the kind of source that these attempts relied on. Take nothing out of the \
             text."
        }
        (Perturbation::NearMisses, false) => {
            "Combine a near miss with another: two attempts that almost worked, in one change."
        }
        (Perturbation::NearMisses, true) => {
            "Combine a near miss with another: take the sources of two attempts that almost worked, and claim from them \
             together what neither claimed."
        }
    };
    let missed = match perturbation {
        Perturbation::NearMisses => near_misses(history, NEAR_MISSES),
        _ => Vec::new(),
    };
    let named: Vec<_> =
        missed.iter().map(|record| format!("{} ({})", record.id, cut(&record.description, SHOWN))).collect();
    let nearest = if named.is_empty() { String::new() } else { format!(" The nearest: {}.", named.join("; ")) };
    format!("{words}{nearest}")
}
