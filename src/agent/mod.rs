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

pub use answer::*;
pub use follow_ups::*;
pub use preset::*;
pub use prompt::*;
pub use prompt_sections::*;
pub use proposal::*;
pub use skill::*;
