//! What a directive says to the agent.

use crate::domain::{Directive, Perturbation, cut};
use crate::rules::{History, near_misses};

/// How many near misses are named.
const NEAR_MISSES: usize = 3;

/// How many characters of a name or a description are shown.
const SHOWN: usize = 60;

/// A directive in words for the agent; nothing where it is free.
pub fn directive_text(directive: Directive, history: &History) -> Option<String> {
    let last = history.records().iter().rev().find_map(|record| record.direction.as_deref());
    let strategy = last.map_or("the strategy of the recent attempts".to_owned(), |name| {
        format!("the strategy \"{}\"", cut(name, SHOWN))
    });
    match directive {
        Directive::Free => None,
        Directive::Refine => Some(format!(
            "Refine. Vary within {strategy}. Differ from the recent attempts in one concrete way, and say in which."
        )),
        Directive::Pivot { perturbation, research } => {
            let mut text = format!(
                "Pivot. Abandon {strategy}. Change a structural constraint of the program and not a parameter, in a \
                 direction that was not tried. {}",
                perturbation_text(perturbation, history)
            );
            if research {
                text += " You may look for ideas outside the repository: papers, documentation, other programs.";
            }
            Some(text)
        }
        Directive::FreshStart { perturbation } => Some(format!(
            "Fresh start. The session is flagged for a person, and nobody may come before the morning. Leave {strategy} \
             and all others that were tried; begin anew in a direction that was never tried. {}",
            perturbation_text(perturbation, history)
        )),
    }
}

/// Where the new idea is to come from.
fn perturbation_text(perturbation: Perturbation, history: &History) -> String {
    match perturbation {
        Perturbation::Opposite => {
            "Start from the opposite hypothesis: say what these attempts took for granted, and assume the contrary.".into()
        }
        Perturbation::Analogy => {
            "Start from a structurally similar case elsewhere: say which problem has the same shape, and carry over what \
             solved it."
                .into()
        }
        Perturbation::Removal => "Remove instead of adding: take out a part that is thought to be needed.".into(),
        Perturbation::NearMisses => {
            let missed = near_misses(history, NEAR_MISSES);
            let named: Vec<_> =
                missed.iter().map(|record| format!("{} ({})", record.id, cut(&record.description, SHOWN))).collect();
            let named = if named.is_empty() { String::new() } else { format!(" The nearest: {}.", named.join("; ")) };
            format!("Combine a near miss with another: two attempts that almost worked, in one change.{named}")
        }
    }
}
