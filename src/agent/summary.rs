//! The prompt that asks for a summary of the session.

use super::memory::{IN_PROMPT, Memories};
use super::prompt::{Briefing, standing, task_spec};
use crate::domain::Directive;

/// The task.
const TASK: &str = include_str!("summary.md");

/// Writes the prompt for the call that sums the session up.
pub fn summary_prompt(briefing: &Briefing<'_>) -> String {
    // Neither an instruction nor an idea for an experiment.
    let memories = Memories { offers: Vec::new(), ..briefing.memories.clone() };
    let briefing = Briefing { memories: &memories, directive: Directive::Free, proposals: &[], ..*briefing };
    let text = format!("{TASK}\n{}", task_spec(briefing.contract)) + &standing(&briefing, usize::MAX, IN_PROMPT);
    text + "\n## Now\n\nWrite the summary, then exit.\n"
}
