//! The answer of an agent, recognised by the form of its output: the machine-readable streams of claude, codex, gemini
//! and opencode, and the lines of aider.
//!
//! Each form has a file, which knows one line of it. Nothing here asks how the agent was called.

mod aider;
mod claude;
mod codex;
mod gemini;
mod opencode;
mod reader;

pub use reader::*;
