//! Instructions that `ar init` writes for agents: a skill, a section of `AGENTS.md`, rules, an entry of `.mcp.json`.
//!
//! Everything here is text in, text out. The command line reads and writes the files.

mod edit;
mod fingerprint;
mod kind;
mod mcp;
mod section;
mod text;
mod whole;

pub use edit::{Edit, NotOurs};
pub use kind::Skill;
pub use mcp::{MCP_FILE, install_mcp, remove_mcp};

use edit::Edited;

impl Skill {
    /// Writes the instructions into what its file holds. `folders` of the file's folders do not exist yet.
    ///
    /// # Errors
    ///
    /// The file is the user's, or its markers do not match.
    pub fn install(self, found: Option<&[u8]>, folders: usize) -> Result<Edit, NotOurs> {
        match self {
            Skill::Agents => section::install(found, &self.text()),
            _ => whole::install(found, &self.text(), &self.mark_note(), folders),
        }
    }

    /// Takes the instructions out of what its file holds.
    ///
    /// # Errors
    ///
    /// The markers of the file do not match.
    pub fn remove(self, found: &[u8]) -> Edited {
        match self {
            Skill::Agents => section::remove(found),
            _ => Ok(whole::remove(found)),
        }
    }
}
