//! The agent: what it is told, how it is called, what it proposes.
//!
//! An agent is any program that edits files. Nothing here touches git or decides on a result.

mod directive;
mod failure;
mod launch;
mod prompt;
mod proposal;

pub use directive::directive_text;
pub use failure::{LOG_LINES, Reworked, failure_text};
pub use launch::{Call, ROUND_CAP, variables};
pub use prompt::{BUILT_IN_PROGRAM, Briefing, brief, prompt, task_spec};
pub use proposal::{Proposal, last_line};
