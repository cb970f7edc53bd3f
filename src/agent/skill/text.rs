//! The agents that can get instructions, and the texts: made from this folder's `skill.md` and from the protocol, so that
//! each fact is written once.

use clap::ValueEnum;
use strum::{Display, VariantArray};

use crate::agent::BUILT_IN_PROGRAM;

/// How to work with `ar` by its command line.
const SKILL: &str = include_str!("skill.md");

/// Tells an agent when to read the rest. Without a colon: it is a plain scalar of YAML.
const DESCRIPTION: &str = "Improve a number by measured experiments with the ar command, which commits, runs, measures, and keeps or \
                           undoes each change. Use it when asked to optimise a metric such as a loss, an accuracy, a speed or a score.";

/// The parts of the protocol that hold for an agent that drives.
const SECTIONS: [&str; 4] =
    ["Before you edit", "One hypothesis per experiment", "What you may edit", "What comes back"];

/// Those that a file gets which an agent reads whatever it is asked for.
const FEW: [&str; 1] = ["What you may edit"];

impl Skill {
    /// The text with its front matter, if it has one.
    pub(super) fn text(self) -> String {
        match self {
            Skill::Claude | Skill::Codex => {
                format!("---\nname: autoresearch\ndescription: {DESCRIPTION}\n---\n\n{}", body(&SECTIONS))
            }
            Skill::Cursor => {
                format!("---\ndescription: {DESCRIPTION}\nglobs:\nalwaysApply: false\n---\n\n{}", body(&SECTIONS))
            }
            Skill::Agents => as_section(&body(&FEW)),
        }
    }

    /// What the mark of the file says to people.
    pub(super) fn mark_note(self) -> String {
        format!("`ar init --skill {self}` replaces it")
    }
}

fn body(sections: &[&str]) -> String {
    let sections = sections.iter().map(|heading| format!("\n## {heading}\n\n{}\n", protocol(heading).trim()));
    let driving = format!("\n## Handing in a change\n\n{}\n", driving().trim());
    [SKILL.to_owned(), driving].into_iter().chain(sections).collect()
}

/// A part of the protocol, without its heading.
fn protocol(heading: &str) -> &'static str {
    let parts = BUILT_IN_PROGRAM.split("\n## ").filter_map(|part| part.split_once('\n'));
    parts.into_iter().find(|(found, _)| *found == heading).map_or("", |(_, text)| text)
}

/// What the protocol says to an agent that drives.
fn driving() -> &'static str {
    protocol("Two ways of working").split_once("**B. You drive.** ").map_or("", |(_, text)| text)
}

/// The same one level down and with its title first, as a part of a file on other matters.
fn as_section(text: &str) -> String {
    let (first, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let (title, rest) = rest.split_once("\n\n").unwrap_or((rest, ""));
    let deeper = |line: &str| if line.starts_with("## ") { format!("#{line}\n") } else { format!("{line}\n") };
    format!("#{title}\n\n{first}\n\n{}", rest.lines().map(deeper).collect::<String>())
}

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

#[cfg(test)]
mod tests {
    use strum::VariantArray;

    use super::*;

    const FIRST: &str = "If `$AR_PROMPT` is set, follow it and do not call `ar try`.";

    #[test]
    fn each_skill_has_its_parts_of_the_protocol_and_begins_with_the_prompt_of_a_loop() {
        for heading in SECTIONS {
            assert!(!protocol(heading).is_empty(), "program.md has no {heading}");
        }
        for skill in Skill::VARIANTS {
            let text = skill.text();
            assert!(text.contains("ar try --continue --wait 9m"), "{text}");
            assert!(text.contains("Never edit what produces the number"), "{text}");
            assert!(!text.contains("$AR_EXPERIMENT"), "{text}");
            let begins = match skill {
                Skill::Agents => text.strip_prefix("## Experiments with `ar`\n\n").unwrap().starts_with(FIRST),
                _ => text.split_once("\n---\n\n").unwrap().1.starts_with(FIRST),
            };
            assert!(begins, "{text}");
        }
    }

    #[test]
    fn front_matter_is_yaml_as_the_agents_want_it() {
        #[derive(serde::Deserialize)]
        struct Front {
            name: Option<String>,
            description: String,
        }
        for (skill, name) in
            [(Skill::Claude, Some("autoresearch")), (Skill::Codex, Some("autoresearch")), (Skill::Cursor, None)]
        {
            let text = skill.text();
            let front = text.strip_prefix("---\n").unwrap().split_once("---\n").unwrap().0;
            let front: Front = serde_saphyr::from_str(front).unwrap();
            assert_eq!(front.name.as_deref(), name);
            // The limit of Claude's and Codex's skills.
            assert!(front.description.len() <= 1024);
            assert_eq!(front.description, DESCRIPTION);
        }
    }

    #[test]
    fn a_file_that_is_always_read_gets_less() {
        assert!(Skill::Agents.text().len() < 4096, "{}", Skill::Agents.text().len());
        assert!(!Skill::Agents.text().contains("\n## "));
    }
}
