//! Sections of the prompt about experiments that are open beside the agent's own.

use std::fmt::Write;
use std::time::Duration;

use crate::domain::{Contract, ExperimentId, Phase, cut, duration_text};
use crate::rules::is_research;

/// The most experiments that are listed.
const LISTED: usize = 20;

/// The most characters of a description.
const DESCRIPTION: usize = 120;

/// The most bytes of a change that is to be merged: what is longer is in git.
const PATCH: usize = 16_000;

/// An experiment that is open while an agent is called.
#[derive(Debug, Clone)]
pub struct Other {
    /// Its number.
    pub id: ExperimentId,
    /// Its description; empty while its agent is active.
    pub description: String,
    /// Its strategy.
    pub direction: Option<String>,
    /// The step that it is in.
    pub phase: Phase,
    /// The slot that it runs in.
    pub slot: Option<u32>,
    /// The time since it was opened.
    pub lasted: Duration,
}

/// A change that conflicts with what was kept meanwhile, for the agent to make again.
#[derive(Debug, Clone)]
pub struct Merging {
    /// The incumbent, which is in the working tree.
    pub incumbent: ExperimentId,
    /// Its description.
    pub description: String,
    /// Its commit, in hexadecimal.
    pub commit: String,
    /// The change as a patch.
    pub patch: String,
    /// Its value on what it was made on, as the log printed it.
    pub value: Option<String>,
}

/// The list of what is open, as a section of the prompt; empty if nothing is.
pub(super) fn others_text(contract: &Contract, others: &[Other]) -> String {
    if others.is_empty() {
        return String::new();
    }
    let mut text = "\n## Open at this moment\n\nOthers work beside you. Make a change that none of these makes; the same change is \
                    refused as a duplicate."
        .to_owned();
    // Scoring a text needs no GPU.
    text += if is_research(contract) { "" } else { " Run nothing: the GPU may be busy with somebody's run." };
    text += "\n\n";
    for other in others.iter().take(LISTED) {
        let Other { id, description, direction, phase, slot, lasted } = other;
        let place = match (phase, slot) {
            (Phase::Proposing, _) => "an agent works on it".to_owned(),
            (Phase::Reviewing, _) => "better than its base; a reviewer looks at it".to_owned(),
            (Phase::Waiting, _) => "better than its base; waits to be measured on the incumbent".to_owned(),
            (Phase::Confirming, _) => "better in its first run; more runs are to confirm it".to_owned(),
            (Phase::Running | Phase::Guarding | Phase::Recording, Some(slot)) => format!("runs in slot {slot}"),
            _ => "waits for a slot".to_owned(),
        };
        let direction = direction.as_deref().map(|name| format!(" [{}]", cut(name, 60))).unwrap_or_default();
        let what = if description.is_empty() { String::new() } else { format!(": {}", cut(description, DESCRIPTION)) };
        let _ =
            writeln!(text, "- experiment {id}{direction}{what} ({place}; open for {})", duration_text(whole(*lasted)));
    }
    if others.len() > LISTED {
        let _ = writeln!(text, "- and {} more", others.len() - LISTED);
    }
    text
}

/// The task for a change that conflicts.
pub(super) fn merging_text(merging: &Merging) -> String {
    let Merging { incumbent, description, commit, patch, value } = merging;
    let value = value.as_ref().map(|value| format!(", which gave {value} on its own base,")).unwrap_or_default();
    let end = (0..=PATCH.min(patch.len())).rev().find(|at| patch.is_char_boundary(*at)).unwrap_or(0);
    let rest = if end < patch.len() { format!("… (all of it: `git show {commit}`)\n") } else { String::new() };
    format!(
        "The change below{value} conflicts with experiment {incumbent}, which was kept meanwhile and is in your working tree. \
         Make the same change again on these files, with what the incumbent added left as it is; change nothing else, then \
         exit.\n\nThe change: {description}\n\n```diff\n{}{rest}```\n",
        &patch[..end]
    )
}

fn whole(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::sample::contract;

    #[test]
    fn an_agent_is_told_what_is_open_and_what_to_merge() {
        let other = |id: u32, phase, slot, description: &str| Other {
            id: id.into(),
            description: description.into(),
            direction: None,
            phase,
            slot,
            lasted: Duration::from_millis(90_500),
        };
        assert_eq!(others_text(&contract("sh train.sh"), &[]), "");
        let told = others_text(
            &contract("sh train.sh"),
            &[
                other(3, Phase::Running, Some(1), "lr 0.1"),
                other(4, Phase::Proposing, None, ""),
                other(5, Phase::Waiting, Some(0), "warmup"),
            ],
        );
        let lines: Vec<&str> = told.lines().filter(|line| line.starts_with('-')).collect();
        assert_eq!(
            lines,
            [
                "- experiment 3: lr 0.1 (runs in slot 1; open for 90s)",
                "- experiment 4 (an agent works on it; open for 90s)",
                "- experiment 5: warmup (better than its base; waits to be measured on the incumbent; open for 90s)",
            ]
        );
        let merging = Merging {
            incumbent: 7.into(),
            description: "lr 0.1".into(),
            commit: "abc".into(),
            patch: "é".repeat(PATCH),
            value: Some("1.5".into()),
        };
        let told = merging_text(&merging);
        assert!(told.contains("which gave 1.5 on its own base") && told.contains("`git show abc`"), "{told}");
        assert!(told.len() < 2 * PATCH);
    }
}
