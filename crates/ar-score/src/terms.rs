//! `research.toml`: the question, its sub-topics, and how answers are scored; and the files that a research session begins
//! with.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use ar_core::domain::setting_values::{command_line, duration};
use ar_core::domain::{Composite, ErrorKind, PRESETS, RESEARCH_AXES, UserError, one_line, refuse};

use super::artifact::topic_key;
use super::scoring::FRESHNESS;

/// The file of the terms, in the repository's root.
pub const TERMS_FILE: &str = "research.toml";

/// The artifact unless the terms name another file.
pub const ARTIFACT: &str = "research_artifact.md";

/// The folder of sources unless the terms name another one.
pub const SOURCES: &str = "sources";

/// Default time limit of a command: one minute, enough for several calls of a model.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// The fewest axes that say something together, as the Madani adapter has it.
const FEWEST_AXES: usize = 3;

/// The terms as the file has them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    question: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    subtopics: Vec<String>,
    artifact: Option<PathBuf>,
    sources: Option<PathBuf>,
    verify: Option<String>,
    novelty: Option<String>,
    command_timeout: Option<String>,
    search_every: Option<u32>,
    composite: Option<Composite>,
}

/// A question to research, and how to score the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ResearchTerms {
    /// The question.
    pub question: String,
    /// Its sub-topics.
    pub topics: Vec<String>,
    /// The artifact, relative to the repository's root.
    pub artifact: PathBuf,
    /// The folder of the sources, relative to the repository's root.
    pub sources: PathBuf,
    /// The command that judges whether a source supports a claim, in place of quotations.
    pub verify: Option<String>,
    /// The command that measures novelty.
    pub novelty: Option<String>,
    /// Time limit for one call of such a command.
    pub command_timeout: Duration,
    /// The number of experiments from one search to the next; 0 searches at pivots only.
    pub search_every: u32,
    /// The axes and their form; weights sum to 1.
    pub composite: Composite,
    /// Warnings about odd terms.
    pub warnings: Vec<String>,
}

impl ResearchTerms {
    /// Reads the text of a `research.toml`.
    ///
    /// # Errors
    ///
    /// A key is missing or unknown, or a value cannot be used.
    pub fn read(text: &str) -> Result<ResearchTerms, UserError> {
        let file: File = toml::from_str(text).map_err(|error| {
            refused(error.to_string().trim_end()).hint(format!(
                "the keys are question, type, subtopics, artifact, sources, verify, novelty, command_timeout, \
                 search_every and [composite]; correct {TERMS_FILE}"
            ))
        })?;
        let question = one_line(&file.question);
        if question.is_empty() {
            return Err(refused("the question is empty").hint(format!("write question = \"…\" to {TERMS_FILE}")));
        }
        refuse_topics(&file.subtopics)?;
        let artifact = file.artifact.unwrap_or_else(|| ARTIFACT.into());
        let sources = file.sources.unwrap_or_else(|| SOURCES.into());
        for (key, path) in [("artifact", &artifact), ("sources", &sources)] {
            let is_inside = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
            if !is_inside || path.as_os_str().is_empty() {
                return Err(refused(format!("{key} must lie in the repository: {}", path.display()))
                    .hint("write a path below the repository's root, without `..`"));
            }
        }
        let invalid = |key| move |why| refused(format!("{key}: {why}")).hint(format!("correct {key} in {TERMS_FILE}"));
        for (key, command) in [("verify", &file.verify), ("novelty", &file.novelty)] {
            command.as_deref().map(command_line).transpose().map_err(invalid(key))?;
        }
        let command_timeout = match &file.command_timeout {
            None => COMMAND_TIMEOUT,
            Some(text) => duration(text).map_err(invalid("command_timeout"))?,
        };
        let kind = file.kind.as_deref().unwrap_or(PRESETS[0].0);
        let preset = Composite::preset(kind).ok_or_else(|| {
            refused(format!("`{}` is not a type of question", one_line(kind)))
                .hint(format!("the types are {}", PRESETS.map(|(name, _)| name).join(", ")))
        })?;
        let composite = match file.composite {
            None => preset,
            // Another form of the same axes.
            Some(asked) if asked.axes.is_empty() => Composite { form: asked.form, ..preset },
            Some(asked) => asked,
        };
        let known = |name: &&String| RESEARCH_AXES.contains(&name.as_str()) || *name == FRESHNESS;
        if let Some(name) = composite.axes.keys().find(|name| !known(name)) {
            return Err(refused(format!("the composite has an axis that research does not: {}", one_line(name)))
                .hint(format!("the axes are {} and {FRESHNESS}", RESEARCH_AXES.join(", "))));
        }
        let (composite, warnings) = settled(composite)?;
        Ok(ResearchTerms {
            question,
            topics: file.subtopics.iter().map(|topic| one_line(topic)).collect(),
            artifact: plain(&artifact),
            sources: plain(&sources),
            verify: file.verify,
            novelty: file.novelty,
            command_timeout,
            search_every: file.search_every.unwrap_or(1),
            composite,
            warnings,
        })
    }

    /// The same with another composite, whose axes may be any numbers of a log.
    ///
    /// # Errors
    ///
    /// The composite cannot be used.
    pub fn with_composite(self, composite: Composite) -> Result<ResearchTerms, UserError> {
        let (composite, warnings) = settled(composite)?;
        Ok(ResearchTerms { composite, warnings, ..self })
    }
}

fn refused(text: impl Into<String>) -> UserError {
    refuse(ErrorKind::CannotStart, text)
}

/// Refuses sub-topics that are missing, empty or have the same heading.
pub fn refuse_topics(topics: &[String]) -> Result<(), UserError> {
    let name = format!("name what an answer must cover in {TERMS_FILE}: subtopics = [\"Memory\", \"Speed\"]");
    let mut keys = BTreeSet::new();
    for (n, topic) in topics.iter().enumerate() {
        let key = topic_key(topic);
        if key.is_empty() {
            return Err(refused(format!("sub-topic {} is empty", n + 1)).hint(name));
        }
        if !keys.insert(key) {
            return Err(refused(format!("two sub-topics have the same heading: {}", one_line(topic)))
                .hint("name each sub-topic once"));
        }
    }
    if keys.is_empty() { Err(refused("it names no sub-topic").hint(name)) } else { Ok(()) }
}

/// A composite with weights that sum to 1, and what to warn of.
fn settled(composite: Composite) -> Result<(Composite, Vec<String>), UserError> {
    if composite.axes.get(FRESHNESS).is_some_and(|axis| axis.range.is_none()) {
        return Err(refused("freshness is a date in years, and needs the years that become 0 and 1")
            .hint(format!("write range = [2016, 2026] below [composite.axes.{FRESHNESS}]")));
    }
    let (composite, warning) = composite.settled()?;
    let mut warnings: Vec<String> = warning.into_iter().collect();
    if composite.axes.len() < FEWEST_AXES {
        warnings.push(format!(
            "the composite has {} of the axes; fewer than {FEWEST_AXES} are easily satisfied by text that answers nothing",
            composite.axes.len()
        ));
    }
    Ok((composite, warnings))
}

/// A path without `.`.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

/// The protocol of research, for `program.md`.
const PROGRAM: &str = include_str!("program.md");

/// A script that searches for sources.
#[derive(Debug)]
pub struct SearchScript {
    /// Its file.
    pub file: &'static str,
    /// Its text.
    pub text: &'static str,
    /// The search command that starts it in a folder of its own.
    pub command: &'static str,
    /// The sentence of `program.md` about it.
    sentence: &'static str,
}

/// The script that searches arXiv and Wikipedia.
pub const KEYLESS: SearchScript = SearchScript {
    file: "search.py",
    text: include_str!("search.py"),
    command: "python3 \"$AR_ROOT/search.py\"",
    sentence: " `python3 search.py WORDS` searches arXiv and Wikipedia.",
};

/// The script that searches the web by the engines that its options name.
pub const ENGINES: SearchScript = SearchScript {
    file: "engines.py",
    text: include_str!("engines.py"),
    command: "python3 \"$AR_ROOT/engines.py\" --engine duckduckgo --engine bing",
    sentence: " `python3 engines.py --engine NAME WORDS` searches the web; `--help` names the engines.",
};

/// A `program.md` for a question; it names the search scripts that are written, too.
pub fn program_template(question: &str, topics: &[String], scripts: &[SearchScript]) -> String {
    let searching: String = scripts.iter().map(|script| script.sentence).collect();
    let topics: Vec<String> = topics.iter().map(|topic| format!("   - {}", one_line(topic))).collect();
    let program = PROGRAM.replacen("{search}", &searching, 1);
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

#[cfg(test)]
mod tests {
    use ar_core::domain::Form;

    use super::*;
    use crate::terms_template;

    const LEAST: &str = "question = \"Why?\"\nsubtopics = [\"A\", \"B\"]\n";

    fn read(more: &str) -> Result<ResearchTerms, UserError> {
        ResearchTerms::read(&format!("{LEAST}{more}"))
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let terms = read("").unwrap();
        assert_eq!((terms.question.as_str(), terms.topics.len()), ("Why?", 2));
        assert_eq!((terms.artifact, terms.sources), (ARTIFACT.into(), SOURCES.into()));
        assert_eq!((terms.verify, terms.novelty, terms.command_timeout.as_secs()), (None, None, 60));
        assert_eq!((terms.composite, terms.warnings), (Composite::preset("equal").unwrap(), Vec::new()));
        let terms = read(
            "type = \"technical\"\nartifact = \"./a/b.md\"\nsources = \"lib\"\nverify = \"true\"\nnovelty = \"n\"\n\
             command_timeout = \"2m\"\n[composite]\nform = \"v2\"\n",
        )
        .unwrap();
        assert_eq!((terms.artifact, terms.sources), ("a/b.md".into(), "lib".into()));
        assert_eq!(terms.command_timeout.as_secs(), 120);
        assert_eq!(terms.composite, Composite { form: Form::V2, ..Composite::preset("technical").unwrap() });
    }

    #[test]
    fn odd_weights_and_few_axes_are_warned_of() {
        let terms = read("[composite.axes.novelty]\nweight = 1\n[composite.axes.claim_density]\nweight = 3\n").unwrap();
        assert_eq!(terms.composite.axes["novelty"].weight, 0.25);
        assert_eq!(terms.warnings.len(), 2);
        assert!(terms.warnings[0].contains("sum to 4") && terms.warnings[1].contains("has 2 of the axes"));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (more, what) in [
            ("typ = \"x\"\n", "unknown field `typ`"),
            ("type = \"other\"\n", "`other` is not a type of question"),
            ("artifact = \"/etc/passwd\"\n", "artifact must lie in the repository: /etc/passwd"),
            ("sources = \"../x\"\n", "sources must lie in the repository: ../x"),
            ("sources = \"\"\n", "sources must lie in the repository: "),
            ("verify = \" \"\n", "verify: must be a command"),
            ("command_timeout = \"soon\"\n", "command_timeout: `soon` is not a duration; write 90s, 10m or 8h"),
            ("[composite.axes.speed]\nweight = 1\n", "the composite has an axis that research does not: speed"),
            (
                "[composite.axes.freshness]\nweight = 1\n",
                "freshness is a date in years, and needs the years that become 0 and 1",
            ),
            ("[composite.axes.novelty]\nweight = -1\n", "weight of `novelty`"),
            ("[composite.axes.novelty]\nwight = 1\n", "unknown field `wight`"),
        ] {
            let error = read(more).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
            assert!(error.hint.is_some_and(|hint| !hint.is_empty()));
        }
        for (text, what) in [
            ("subtopics = [\"A\"]\n", "missing field `question`"),
            ("question = \" \"\nsubtopics = [\"A\"]\n", "the question is empty"),
            ("question = \"Q\"\nsubtopics = []\n", "it names no sub-topic"),
            ("question = \"Q\"\nsubtopics = [\"A\", \" \"]\n", "sub-topic 2 is empty"),
            (
                "question = \"Q\"\nsubtopics = [\"KV cache\", \"kv  Cache\"]\n",
                "two sub-topics have the same heading: kv  Cache",
            ),
            ("question = \n", "expected"),
        ] {
            let error = ResearchTerms::read(text).unwrap_err().to_string();
            assert!(error.contains(what), "{text}: {error}");
        }
    }

    #[test]
    fn a_template_is_read_back() {
        let topics = ["A \"quoted\" one".to_owned(), "B\\C".to_owned()];
        let text = terms_template("What is\n\"it\"?", "business", &topics);
        let terms = ResearchTerms::read(&text).unwrap();
        assert_eq!((terms.question.as_str(), terms.topics.as_slice()), ("What is \"it\"?", &topics[..]));
        assert_eq!(terms.composite, Composite::preset("business").unwrap());
        // So are the lines that are comments.
        let all: String = text
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(rest) if rest.contains(" = ") || rest.starts_with('[') => format!("{rest}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        assert!(ResearchTerms::read(&all).is_ok_and(|terms| terms.verify.is_some()), "{all}");
    }
}
