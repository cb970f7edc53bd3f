//! The files that a research session begins with.

use super::terms::{ARTIFACT, SOURCES};
use ar_core::domain::{PRESETS, one_line};

/// The protocol of research, for `program.md`.
const PROGRAM: &str = include_str!("program.md");

/// The script that searches arXiv and Wikipedia.
pub const SEARCH_SCRIPT: &str = include_str!("search.py");

/// The file of the script.
pub const SEARCH_FILE: &str = "search.py";

/// The sentence after the step that looks for sources, if the script exists.
const SEARCHING: &str = " `python3 search.py WORDS` searches arXiv and Wikipedia.";

/// A `program.md` for a question; it names the search script where that is written, too.
pub fn program_template(question: &str, topics: &[String], has_search: bool) -> String {
    let searching = if has_search { SEARCHING } else { "" };
    let topics: Vec<String> = topics.iter().map(|topic| format!("   - {}", one_line(topic))).collect();
    let program = PROGRAM.replacen("{search}", searching, 1);
    program.replacen("{topics}", &topics.join("\n"), 1).replacen("{question}", &one_line(question), 1)
}

/// An artifact without claims.
pub fn artifact_template(question: &str, topics: &[String]) -> String {
    let sections: String = topics.iter().map(|topic| format!("\n## {}\n", one_line(topic))).collect();
    format!("# {}\n{sections}", one_line(question))
}

/// A `research.toml` to start from.
pub fn terms_template(question: &str, kind: &str, topics: &[String]) -> String {
    let quoted = |text: &str| toml::Value::String(one_line(text)).to_string();
    format!(
        include_str!("research.toml"),
        question = quoted(question),
        presets = PRESETS.map(|(name, _)| name).join(", "),
        kind = quoted(kind),
        topics = topics.iter().map(|topic| format!("    {},\n", quoted(topic))).collect::<String>(),
        artifact = quoted(ARTIFACT),
        sources = quoted(SOURCES)
    )
}
