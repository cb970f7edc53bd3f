//! Instructions that `ar init` writes for agents: a skill, a section of `AGENTS.md`, rules, an entry of `.mcp.json`.
//!
//! Everything here is text in, text out. The command line reads and writes the files.

mod edit;
mod text;

pub use edit::{Edit, MCP_FILE, NotOurs, mcp_entry};
pub use text::Skill;

impl Skill {
    /// Writes the instructions into what its file holds.
    ///
    /// # Errors
    ///
    /// The file is the user's, or its markers do not match.
    pub fn install(self, found: Option<&[u8]>) -> Result<Edit, NotOurs> {
        match self {
            Skill::Agents => edit::section(found, &self.text()),
            _ => edit::whole(found, &self.text(), &self.mark_note()),
        }
    }
}
