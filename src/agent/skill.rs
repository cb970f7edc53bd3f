//! Instructions that `ar init` writes for agents: a skill, a section of `AGENTS.md`, rules, an entry of `.mcp.json`. It writes a
//! missing file, and replaces its own part of an existing one.
//!
//! Everything here is text in, text out. The command line reads and writes the files.

use clap::ValueEnum;
use memchr::memmem;
use serde_json::{Value, json};
use strum::{Display, VariantArray};

use crate::agent::BUILT_IN_PROGRAM;
use crate::domain::{ErrorKind, UserError, refuse};

/// Instructions for agents that use the command line.
const SKILL: &str = include_str!("skill/skill.md");

/// Tells an agent when to read the rest. Without a colon: it is a plain scalar of YAML.
const DESCRIPTION: &str = "Improve a number by measured experiments with the ar command, which commits, runs, measures, and keeps or \
                           undoes each change. Use it when asked to optimise a metric such as a loss, an accuracy, a speed or a score.";

/// The parts of the protocol that hold for an agent that drives.
const SECTIONS: [&str; 4] =
    ["Before you edit", "One hypothesis per experiment", "What you may edit", "What comes back"];

/// Those that a file gets which an agent reads whatever it is asked for.
const FEW: [&str; 1] = ["What you may edit"];

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

/// The protocol's part for an agent that drives.
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

    /// Writes the instructions into what its file holds.
    ///
    /// # Errors
    ///
    /// The file is the user's, or its markers do not match.
    pub fn install(self, found: Option<&[u8]>) -> Result<Option<Vec<u8>>, UserError> {
        match self {
            Skill::Agents => section(found, &self.text()),
            _ => whole(self.path(), found, &self.text(), &format!("`ar init --skill {self}` replaces it")),
        }
    }

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
}

/// The markers around a section in a file of the user's.
const BEGIN: &str = "<!-- autoresearch:begin";

const END: &str = "<!-- autoresearch:end -->";

/// The mark at the end of a file that is `ar`'s alone.
const MARK: &str = "<!-- autoresearch:file";

/// The file by which agents find the servers of a project.
pub const MCP_FILE: &str = ".mcp.json";

const SERVERS: &str = "mcpServers";

const NAME: &str = "autoresearch";

/// The new content of a file, unless it has it already.
fn changed(found: Option<&[u8]>, new: Vec<u8>) -> Option<Vec<u8>> {
    Some(new).filter(|new| found != Some(new))
}

/// Replaces the section between the markers, or adds it at the end.
fn section(found: Option<&[u8]>, text: &str) -> Result<Option<Vec<u8>>, UserError> {
    let old = found.unwrap_or_default();
    let line_end = line_end(old);
    let block = format!("{BEGIN}; `ar init --skill agents` replaces it -->\n{text}{END}").replace('\n', line_end);
    let begins: Vec<usize> = memmem::find_iter(old, BEGIN).collect();
    let ends: Vec<usize> = memmem::find_iter(old, END).collect();
    let (before, after) = match (begins.as_slice(), ends.as_slice()) {
        ([], []) => {
            let gap = match old {
                [] => 0,
                [.., b'\n'] => 1,
                _ => 2,
            };
            ([old, line_end.repeat(gap).as_bytes()].concat(), line_end.as_bytes())
        }
        ([start], [end]) if start < end => (old[..*start].to_vec(), &old[end + END.len()..]),
        _ => {
            let name = Skill::Agents.path();
            let text = format!("{name} has markers of `ar init` that do not match");
            let hint = format!("delete the lines `<!-- autoresearch:…` and what they enclose from {name}");
            return Err(refuse(ErrorKind::CannotStart, text).hint(hint));
        }
    };
    Ok(changed(found, [&before[..], block.as_bytes(), after].concat()))
}

/// Writes a file that is `ar`'s alone, unless the user's file is there; `note` ends its mark.
fn whole(name: &str, found: Option<&[u8]>, text: &str, note: &str) -> Result<Option<Vec<u8>>, UserError> {
    let old = found.unwrap_or_default();
    if found.is_some() && memmem::find(old, MARK.as_bytes()).is_none() {
        return Err(refuse(ErrorKind::CannotStart, format!("{name} exists and was not written by `ar init`"))
            .hint(format!("move {name} to another name, then repeat the command")));
    }
    let new = format!("{text}\n{MARK}; {note} -->\n").replace('\n', line_end(old));
    Ok(changed(found, new.into_bytes()))
}

/// Adds the entry of `.mcp.json` that starts `program`. An entry of the user's for `autoresearch` stays.
///
/// # Errors
///
/// The file is not JSON, or not of the form that agents read.
pub fn mcp_entry(found: Option<&[u8]>, program: &str) -> Result<Option<Vec<u8>>, UserError> {
    let unusable = |what: String| {
        refuse(ErrorKind::CannotStart, format!("{MCP_FILE} {what}"))
            .hint(format!("correct {MCP_FILE}, or move it to another name, then repeat the command"))
    };
    let entry = |program: &str| json!({"command": program, "args": ["mcp"]});
    let text = found.map(|found| found.strip_prefix(b"\xef\xbb\xbf").unwrap_or(found));
    let read = |text: &[u8]| {
        serde_json::from_slice::<Value>(text).map_err(|error| unusable(format!("is not valid JSON: {error}")))
    };
    let mut top = text.map_or_else(|| Ok(json!({})), read)?;
    let members = top.as_object_mut().ok_or_else(|| unusable("needs an object as a whole".into()))?;
    let servers = members.entry(SERVERS).or_insert_with(|| json!({}));
    let servers = servers.as_object_mut().ok_or_else(|| unusable(format!("needs an object {SERVERS}")))?;
    // Where the archiver comes first on the PATH, the name `ar` no longer leads to this program.
    if servers.get(NAME).is_some_and(|known| *known == entry(program) || *known != entry("ar")) {
        return Ok(None);
    }
    servers.insert(NAME.to_owned(), entry(program));
    Ok(Some(format!("{top:#}\n").into_bytes()))
}

fn line_end(text: &[u8]) -> &'static str {
    let (all, of_windows) = (memchr::memchr_iter(b'\n', text).count(), memmem::find_iter(text, b"\r\n").count());
    if of_windows * 2 > all { "\r\n" } else { "\n" }
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

    fn written(content: Result<Option<Vec<u8>>, UserError>) -> String {
        String::from_utf8(content.unwrap().unwrap()).unwrap()
    }

    fn refused(content: Result<Option<Vec<u8>>, UserError>) -> String {
        content.unwrap_err().to_string()
    }

    #[test]
    fn a_section_is_added_below_and_replaced_in_its_place() {
        for (found, before) in [("", ""), ("# Mine\n", "# Mine\n\n"), ("a\r\nb\r\nc", "a\r\nb\r\nc\r\n\r\n")] {
            let made = written(section(Some(found.as_bytes()), "old\n"));
            assert!(made.starts_with(&format!("{before}{BEGIN}")) && made.trim_end().ends_with(END), "{made}");
            assert_eq!(section(Some(made.as_bytes()), "old\n").unwrap(), None);
            let more = format!("{made}below");
            let new = written(section(Some(more.as_bytes()), "new\n"));
            assert_eq!(new, more.replace("old", "new"));
        }
        let made = written(section(None, "text\n"));
        for broken in [made.replace(END, ""), format!("{made}{made}"), format!("{END}\n{BEGIN}")] {
            let why = refused(section(Some(broken.as_bytes()), "text\n"));
            assert_eq!(why, "AGENTS.md has markers of `ar init` that do not match", "{broken}");
        }
    }

    #[test]
    fn a_file_with_the_mark_is_replaced_and_another_one_is_left() {
        let whole = |found: Option<&[u8]>, text: &str| whole("SKILL.md", found, text, "note");
        let old = written(whole(None, "old\n"));
        assert_eq!(whole(Some(old.as_bytes()), "old\n").unwrap(), None);
        assert_eq!(whole(Some(old.replace('\n', "\r\n").as_bytes()), "old\n").unwrap(), None);
        assert_eq!(written(whole(Some(old.as_bytes()), "new\n")), old.replace("old", "new"));
        assert_eq!(refused(whole(Some(b"mine"), "text\n")), "SKILL.md exists and was not written by `ar init`");
    }

    #[test]
    fn the_entry_joins_what_is_there() {
        for found in ["{}", "\u{feff}{ }\n", "{\"mcpServers\": {\"a\": {\"n\": 1.5}}, \"z\": [1, 2]}"] {
            let with = written(mcp_entry(Some(found.as_bytes()), "ar"));
            let mut value: Value = serde_json::from_str(&with).unwrap();
            let entry = value[SERVERS].as_object_mut().unwrap().shift_remove(NAME);
            assert_eq!(entry, Some(json!({"command": "ar", "args": ["mcp"]})), "{with}");
            if let Ok(found) = serde_json::from_str::<Value>(found) {
                assert!(value == found || value[SERVERS] == json!({}), "{with}");
            }
            assert_eq!(mcp_entry(Some(with.as_bytes()), "ar").unwrap(), None, "{with}");
            assert!(
                written(mcp_entry(Some(with.as_bytes()), "autoresearch")).contains("\"command\": \"autoresearch\"")
            );
        }
        let own = "{\"mcpServers\": {\"autoresearch\": {\"command\": \"/opt/ar\", \"args\": [\"mcp\"]}}}";
        assert_eq!(mcp_entry(Some(own.as_bytes()), "ar").unwrap(), None);
        for broken in ["", "{", "{\"a\": 1,}", "// c\n{}"] {
            assert!(refused(mcp_entry(Some(broken.as_bytes()), "ar")).contains("is not valid JSON"), "{broken}");
        }
        assert_eq!(refused(mcp_entry(Some(b"[]"), "ar")), ".mcp.json needs an object as a whole");
        assert_eq!(refused(mcp_entry(Some(b"{\"mcpServers\": []}"), "ar")), ".mcp.json needs an object mcpServers");
    }
}
