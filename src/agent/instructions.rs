//! The files from which agents take instructions without being told to.

use std::path::Path;

use crate::domain::{WordList, word_list};

/// Files and folders, wherever they stand in a repository, from which `claude`, `codex`, `gemini`, `opencode`, `aider` and
/// others read instructions or settings as they start, by their own documentation.
static NAMES: WordList = WordList::new(|| word_list(include_str!("lists/instructions.txt")));

/// Returns whether an agent may take a file for instructions to itself, by the names on its path. Ignores case, as some
/// disks do.
pub fn instructs_agents(path: &Path) -> bool {
    let mut names = path.iter();
    names.any(|part| NAMES.iter().any(|name| part.eq_ignore_ascii_case(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_known_by_name_at_any_depth() {
        for path in ["CLAUDE.md", "src/agents.md", ".claude/hooks/a.sh", "a/.cursor/rules/b.mdc"] {
            assert!(instructs_agents(Path::new(path)), "{path}");
        }
        for path in ["README.md", "claude/model.py", "src/CLAUDE.md.py", ""] {
            assert!(!instructs_agents(Path::new(path)), "{path}");
        }
    }
}
