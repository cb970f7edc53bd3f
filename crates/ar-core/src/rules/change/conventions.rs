//! Conventions in a repository's own texts: its ledger's columns, its loop, and how to start a run.

use std::sync::LazyLock;
use std::time::Duration;

use regex::Regex;
use strum::VariantArray;

use crate::domain::{Direction, LedgerDialect};

/// The columns of results.tsv that a text requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Columns {
    /// Those of a dialect that `ar` writes.
    Of(LedgerDialect),
    /// Others, by name.
    Others(Vec<String>),
}

/// The command, metric, direction and time limit that a repository names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Suggested {
    /// The command that trains and measures.
    pub command: Option<String>,
    /// The metric.
    pub metric: Option<String>,
    /// The metric's direction.
    pub direction: Option<Direction>,
    /// The time limit of a run.
    pub deadline: Option<Duration>,
    /// The names of other numbers that a run prints.
    pub beside: Vec<String>,
}

/// The ledger that a text describes. Columns decide; without columns, the words `keep`, `discard` and `crash` do. A
/// line of a `.gitignore` is no evidence.
pub fn columns_of(text: &str) -> Option<Columns> {
    let text = text.replace("\\t", "\t");
    let mut others = None;
    for line in text.lines() {
        let names: Vec<&str> =
            line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty()).collect();
        for window in names.windows(5) {
            let [commit, _, "memory_gb", "status", "description"] = window else { continue };
            let named = LedgerDialect::VARIANTS.iter().copied().find(|dialect| dialect.format().commit == *commit);
            if let Some(dialect) = named {
                return Some(Columns::Of(dialect));
            }
        }
        let cells: Vec<&str> = line.split('\t').map(|cell| cell.trim_matches(|c: char| !c.is_alphanumeric())).collect();
        let is_name = |cell: &&str| cell.starts_with(char::is_alphabetic) && !cell.contains(char::is_whitespace);
        let is_header = cells.len() > 2 && cells.iter().all(is_name);
        if others.is_none() && is_header && cells.iter().any(|cell| ["status", "outcome", "result"].contains(cell)) {
            others = Some(Columns::Others(cells.into_iter().map(str::to_owned).collect()));
        }
    }
    let lower = text.to_lowercase();
    let is_word = |word: &str| ['`', '"', '\''].iter().any(|quote| lower.contains(&format!("{quote}{word}{quote}")));
    let names_ledger = [".tsv", "ledger"].iter().any(|name| lower.contains(name));
    let is_spoken = |dialect: &LedgerDialect| names_ledger && dialect.format().words.into_iter().all(is_word);
    others.or_else(|| LedgerDialect::VARIANTS.iter().copied().find(is_spoken).map(Columns::Of))
}

/// Tasks of `ar` that a `program.md` gives to the agent: loop, commit, log, reset.
pub fn own_loop(program: &str) -> Vec<&'static str> {
    let lower = program.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    [
        ("loop", says(&["loop forever", "never stop", "repeat forever", "repeat indefinitely", "loop indefinitely"])),
        ("commit", says(&["git commit"])),
        ("log", says(&["results.tsv"]) && says(&["log it", "log the", "log each", "record", "append"])),
        ("reset", says(&["git reset", "git checkout", "git restore", "git revert"])),
    ]
    .into_iter()
    .filter_map(|(what, is_said)| is_said.then_some(what))
    .collect()
}

/// Reads the command, metric, direction and time limit from a `program.md`.
pub fn suggested(program: &str) -> Suggested {
    static COMMAND: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"(?m)`([^`\n>|]+?)\s*&?>\s*run\.log[^`\n]*`"));
    static METRIC: LazyLock<Option<Regex>> =
        LazyLock::new(|| pattern(r#"grep\s+(?:-\w+\s+)*["']?\^([A-Za-z_][\w./-]*):"#));
    let captured = |pattern: &LazyLock<Option<Regex>>| {
        let found = pattern.as_ref()?.captures(program)?;
        Some(found.get(1)?.as_str().to_owned())
    };
    let metric = captured(&METRIC);
    let direction = metric.as_ref().and_then(|metric| {
        let of = |word: &str| {
            pattern(&format!(
                r"(?i)\b{word}\s+(?:possible\s+)?`?{0}\b|\b{0}`?[^.\n]*\({1}\)",
                regex::escape(metric),
                match word {
                    "lowest" => "lower",
                    _ => "higher",
                }
            ))
            .is_some_and(|pattern| pattern.is_match(program))
        };
        match (of("lowest"), of("highest")) {
            (true, false) => Some(Direction::Lower),
            (false, true) => Some(Direction::Higher),
            _ => None,
        }
    });
    Suggested { command: captured(&COMMAND), direction, deadline: deadline(program), metric, beside: Vec::new() }
}

/// The time limit of a run, as in "If a run exceeds 10 minutes, kill it".
fn deadline(program: &str) -> Option<Duration> {
    static LIMIT: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?i)\b(?:exceeds?|longer than|more than|over)\s+(\d{1,4})\s*-?(seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h)\b",
        )
    });
    let kills = |sentence: &str| {
        let line = sentence.to_lowercase();
        ["kill", "timeout", "time out", "abort"].iter().any(|word| line.contains(word))
    };
    let found = program
        .split(['\n', '.'])
        .filter(|sentence| kills(sentence))
        .find_map(|sentence| LIMIT.as_ref()?.captures(sentence))?;
    let count: u64 = found.get(1)?.as_str().parse().ok()?;
    let unit = match found.get(2)?.as_str().to_lowercase().chars().next()? {
        'h' => 3600,
        'm' => 60,
        _ => 1,
    };
    Some(Duration::from_secs(count * unit)).filter(|deadline| !deadline.is_zero())
}

/// Searches with one of `ar`'s own patterns; an invalid one finds nothing.
fn pattern(text: &str) -> Option<Regex> {
    Regex::new(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT_IN: &str = include_str!("../../../../../program.md");

    #[test]
    fn columns_and_words_name_the_ledger_and_anything_else_does_not() {
        let karpathy = Some(Columns::Of(LedgerDialect::Karpathy));
        for (text, expected) in [
            ("```\ncommit\tval_bpb\tmemory_gb\tstatus\tdescription\n```", karpathy.clone()),
            ("# tab-separated, 5 columns: commit, loss, memory_gb, status, description", karpathy.clone()),
            ("printf 'commit\\tval_bpb\\tmemory_gb\\tstatus\\tdescription\\n' > results.tsv", karpathy.clone()),
            ("In results.tsv the status is `keep`, `discard` or `crash`.", karpathy.clone()),
            ("pd.read_csv(\"results.tsv\")\ndf[df.status == \"KEEP\"] \"DISCARD\" 'CRASH'", karpathy),
            ("We keep or discard what does not crash; see results.tsv.", None),
            ("The outcome is `keep`, `discard` or `crash`.", None),
            ("commit_hash\tval_bpb\tmemory_gb\tstatus\tdescription", Some(Columns::Of(LedgerDialect::Ar))),
            (
                "run\tloss\tstatus\nand `keep`, `discard`, `crash` in results.tsv",
                Some(Columns::Others(vec!["run".into(), "loss".into(), "status".into()])),
            ),
            ("results.tsv\n__pycache__/", None),
            (BUILT_IN, None),
            ("", None),
        ] {
            assert_eq!(columns_of(text), expected, "{text}");
        }
    }

    #[test]
    fn a_program_that_runs_the_loop_by_itself_is_known() {
        let text = "LOOP FOREVER:\n1. git commit\n2. log the row in results.tsv\n3. git reset back";
        assert_eq!(own_loop(text), ["loop", "commit", "log", "reset"]);
        assert!(own_loop("Make it faster. Never edit prepare.py.").is_empty());
        assert!(own_loop(BUILT_IN).len() < 2, "{:?}", own_loop(BUILT_IN));
    }

    #[test]
    fn how_a_run_is_started_and_judged_is_read_from_the_text() {
        let text = "Tell the human to run `uv run prepare.py`. Get the lowest val_bpb.\n\
                    Start `uv run train.py > run.log 2>&1` and look: `grep \"^val_bpb:\\|^peak_vram_mb:\" run.log`.\n\
                    A run takes more than 4 minutes. **Timeout**: if it exceeds 10 minutes, kill it.";
        let expected = Suggested {
            command: Some("uv run train.py".into()),
            metric: Some("val_bpb".into()),
            direction: Some(Direction::Lower),
            deadline: Some(Duration::from_secs(600)),
            beside: Vec::new(),
        };
        assert_eq!(suggested(text), expected);
        let higher = suggested("grep '^reward:' run.log; reward improved (higher): kill what takes over 2h");
        assert_eq!((higher.direction, higher.deadline), (Some(Direction::Higher), Some(Duration::from_secs(7200))));
        assert_eq!(suggested("It takes over 10 minutes."), Suggested::default());
    }
}
