//! The agent: its prompt, its calls, its proposals.
//!
//! An agent is any program that edits files. Nothing here touches git or decides about results.

mod answer;
mod follow_ups;
mod preset;
mod prompt;
mod prompt_sections;
mod proposal;
mod skill;

pub use answer::{Answer, Progress, read_answer};
pub use follow_ups::{
    CitedSource, LOG_LINES, NewClaim, Reviewing, ReworkedExperiment, explore_prompt, failure_text, read_review,
    review_prompt, summary_prompt,
};
pub use preset::{
    AgentCommand, NO_AGENT, PRESETS, Preset, agent_terms, instructs_agents, model_in, permission_hint, preset_names,
    printed_numbers, reports, tells_rounds, variables, with_rounds, within_agent,
};
pub use prompt::{BUILT_IN_PROGRAM, Briefing, brief, goal_sentence, prompt, protected_files, task_spec};
pub use prompt_sections::{Memories, MergeRequest, Other, SearchFinding, directive_text};
pub use proposal::{Proposal, last_line, last_words};
pub use skill::{Edit, MCP_FILE, NotOurs, Skill, mcp_entry};
