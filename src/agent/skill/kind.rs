//! The agents that can get instructions.

use clap::ValueEnum;
use strum::{Display, VariantArray};

/// The form of instructions to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, ValueEnum, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Skill {
    /// A skill of Claude Code
    Claude,
    /// A skill of Codex
    Codex,
    /// A section of AGENTS.md, which most agents read
    Agents,
    /// A rule of Cursor
    Cursor,
}

impl Skill {
    /// The file, from the root of the repository.
    pub fn path(self) -> &'static str {
        match self {
            Skill::Claude => ".claude/skills/autoresearch/SKILL.md",
            Skill::Codex => ".codex/skills/autoresearch/SKILL.md",
            Skill::Agents => "AGENTS.md",
            Skill::Cursor => ".cursor/rules/autoresearch.mdc",
        }
    }
}
