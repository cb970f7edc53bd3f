//! The files that a research session begins with.

use std::fmt::Write;

use super::terms::{ARTIFACT, SOURCES};
use crate::domain::{PRESETS, one_line};

/// The protocol of research, for `program.md`.
const PROGRAM: &str = include_str!("program.md");

/// The script that searches arXiv and Wikipedia.
pub const SEARCH_SCRIPT: &str = include_str!("search.py");

/// The file of the script.
pub const SEARCH_FILE: &str = "search.py";

/// What follows the step that looks for sources, where there is the script.
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
    let mut text =
        String::from("# What is researched, and how `ar score` scores it. A session goes by the file as it began.\n");
    let _ = writeln!(text, "\nquestion = {}", quoted(question));
    let _ = writeln!(text, "\n# The weights of the axes: {}.", PRESETS.map(|(name, _)| name).join(", "));
    let _ = writeln!(text, "type = {}", quoted(kind));
    text += "\n# What an answer must cover: the headings of the artifact.\nsubtopics = [\n";
    for topic in topics {
        let _ = writeln!(text, "    {},", quoted(topic));
    }
    let _ = writeln!(text, "]\n\nartifact = {}\nsources = {}", quoted(ARTIFACT), quoted(SOURCES));
    text += "\n# A command that judges a citation in place of its quotation: {\"claim\", \"source\"} on standard input, `true` or `false`.\n\
             # verify = \"python3 verify.py\"\n\
             # A command that measures novelty: {\"claims\", \"earlier\"} on standard input, a number from 0 to 1.\n\
             # novelty = \"python3 novelty.py\"\n\
             # command_timeout = \"60s\"\n\
             \n# Other weights, another form: weighted, multiplicative or v2.\n# [composite]\n# form = \"weighted\"\n\
             # [composite.axes.claim_density]\n# weight = 0.25\n";
    text
}
