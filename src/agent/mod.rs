//! The agent: its prompt, its calls, its proposals.
//!
//! An agent is any program that edits files. Nothing here touches git or decides about results.

mod answer;
mod beside;
mod directive;
mod explore;
mod failure;
mod fence;
mod finding;
mod instructions;
mod launch;
mod memory;
mod person;
mod preset;
mod prompt;
mod proposal;
mod review;
mod skill;
mod stall;
mod summary;
mod transcript;

pub use answer::{Answer, Progress, read_answer};
pub use beside::{Merging, Other};
pub use directive::directive_text;
pub use explore::explore_prompt;
pub use failure::{LOG_LINES, Reworked, failure_text};
pub use finding::Finding;
pub use instructions::instructs_agents;
pub use launch::{Call, variables};
pub use memory::Memories;
pub use preset::{
    NO_AGENT, PRESETS, Preset, agent_terms, model_in, permission_hint, preset_names, reports, tells_rounds,
    with_rounds, within_agent,
};
pub use prompt::{BUILT_IN_PROGRAM, Briefing, brief, goal_sentence, prompt, protected_files, task_spec};
pub use proposal::{Proposal, last_line, last_words};
pub use review::{Evidence, NewClaim, Reviewing, read_review, review_prompt};
pub use skill::{Edit, MCP_FILE, NotOurs, Skill, mcp_entry};
pub use summary::summary_prompt;
pub use transcript::printed_numbers;
