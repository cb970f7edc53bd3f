//! The prompt that asks for a summary of the session.

use super::memory::{IN_PROMPT, Memories};
use super::prompt::{Briefing, standing, task_spec};
use crate::domain::Directive;

/// What is asked for.
const TASK: &str = "# Summarise this session

`ar` drives a loop of experiments on this repository and calls you once, between two of them, for a summary of the session \
so far. Its reader is the person who comes back to it.

Write the summary to standard output, in Markdown, on one page at most: what was tried, what held and by how much, what \
failed and why, what is still open, and what should be tried next. Rely on the numbers below and on the files; invent none. \
Change no file: what you change is undone, and nothing of it is measured.

";

/// Writes the prompt for the call that sums the session up.
pub fn summary_prompt(briefing: &Briefing<'_>) -> String {
    // Neither an instruction nor an idea for an experiment.
    let memories = Memories { offers: Vec::new(), ..briefing.memories.clone() };
    let briefing = Briefing { memories: &memories, directive: Directive::Free, proposals: &[], ..*briefing };
    let text = TASK.to_owned() + &task_spec(briefing.contract) + &standing(&briefing, usize::MAX, IN_PROMPT);
    text + "\n## Now\n\nWrite the summary, then exit.\n"
}
