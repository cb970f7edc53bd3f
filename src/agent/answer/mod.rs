//! The answer of an agent, recognised by the form of its output: the machine-readable streams of claude, codex, gemini
//! and opencode, and the lines of aider.
//!
//! Each form has a file, which knows one line of it. Nothing here asks how the agent was called.

mod aider;
mod claude;
mod codex;
mod content;
mod gemini;
mod opencode;
mod reader;

pub use content::Answer;
pub use reader::{Progress, read_answer};
