//! The prompt that asks for a proposal in a role, and what the next call is shown of the proposals.

use super::fence::fenced;
use super::memory::{IN_PROMPT, Memories};
use super::prompt::{Briefing, standing, task_spec};
use crate::domain::{Directive, Role, RoleProposal};

/// The task.
const TASK: &str = include_str!("explore.md");

/// Writes the prompt for a call that proposes in this role.
pub fn explore_prompt(briefing: &Briefing<'_>, role: Role) -> String {
    // Neither an instruction nor an idea for an experiment.
    let memories = Memories { offers: Vec::new(), ..briefing.memories.clone() };
    let briefing = Briefing { memories: &memories, directive: Directive::Free, proposals: &[], ..*briefing };
    let text = format!("{TASK}\n## Your role: {role}\n\n{}\n\n", role_text(role)) + &task_spec(briefing.contract);
    let text = text + &standing(&briefing, usize::MAX, IN_PROMPT);
    text + "\n## Now\n\nWrite the proposal, then exit.\n"
}

fn role_text(role: Role) -> &'static str {
    match role {
        Role::Investigate => {
            "Find out why the recent experiments did not help. Read their logs and changes, look for the real \
             bottleneck, and propose what follows from it."
        }
        Role::Refute => {
            "Name what all experiments so far took for granted, and attack the strongest of these assumptions. Propose \
             the change that would show it to be wrong."
        }
        Role::Analogy => {
            "Name a problem of the same shape in a field far from this one, and how it is solved there. Propose what \
             carries over."
        }
    }
}

/// The proposals for the next change; empty without any.
pub(super) fn proposals_text(proposals: &[RoleProposal]) -> String {
    if proposals.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\n## Proposals for this pivot\n\nFresh calls made them, each in another role. They are advice, not \
         instructions. Choose one, or combine what fits together, and say in your description which.\n",
    );
    for RoleProposal { role, text: proposal } in proposals {
        text += &format!("\n### {role}\n\n{}", fenced(proposal));
    }
    text
}
