//! Conventions in a repository's own texts: its ledger's columns, its loop, how its scripts start a run and what they print,
//! and the files that a command line names.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use regex::Regex;
use strum::VariantArray;

use crate::domain::{Direction, LedgerDialect, NameKind, plain_name};

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

/// Shell scripts that start a run, and programs that are one.
const SCRIPTS: [&str; 5] = ["run.sh", "train.sh", "bench.sh", "benchmark.sh", "eval.sh"];

const PROGRAMS: [&str; 4] = ["bench.py", "benchmark.py", "eval.py", "evaluate.py"];

/// Words in the names of targets that start a run, the best first.
const TARGETS: [&str; 6] = ["autoresearch", "bench", "benchmark", "train", "eval", "perf"];

/// Words in names of numbers by which runs are rarely judged, and of those from data that nothing was fitted to.
const ASIDE: [&str; 8] = ["train", "training", "mem", "memory", "vram", "rss", "total", "build"];

const UNSEEN: [&str; 7] = ["val", "valid", "validation", "test", "eval", "dev", "heldout"];

/// A name in a script, as part of a pattern; and one that may have blanks, as in `"p99 latency: $p99"`.
const NAME: &str = r"([A-Za-z_][\w./%@-]*)";

const PHRASE: &str = r"((?:[A-Za-z]\w* ){0,3}[A-Za-z_][\w./%@-]*)";

/// The command that starts a run by the repository's scripts; `read` gives the text of a file.
pub fn start_command(read: impl Fn(&str) -> Option<String>) -> Option<String> {
    let project = read("pyproject.toml");
    let by_uv = project.is_some() || read("uv.lock").is_some();
    let shell = |name: &str| {
        let is_bash = read(name)?.lines().next().is_some_and(|first| first.starts_with("#!") && first.contains("bash"));
        Some(format!("{} {name}", if is_bash { "bash" } else { "sh" }))
    };
    let program = |name: &str| read(name).map(|_| format!("{} {name}", if by_uv { "uv run" } else { "python" }));
    let target = |file: &str, tool: &str| {
        let names = found(r"(?m)^([A-Za-z][\w-]*)(?:[ \t][^:\n]*)?:(?:[^=]|$)", &read(file)?);
        Some(format!("{tool} {}", best_target(&names)?))
    };
    let entry_point = || {
        let table = project.as_ref()?.parse::<toml::Table>().ok()?;
        let names: Vec<String> = table.get("project")?.get("scripts")?.as_table()?.keys().cloned().collect();
        Some(format!("uv run {}", best_target(&names)?))
    };
    let wraps = |name: &str, inner: &str| read(name).is_some_and(|text| text.contains(inner));
    shell("autoresearch.sh")
        .or_else(|| shell("run.sh").filter(|_| wraps("run.sh", "train.py")))
        .or_else(|| program("train.py"))
        .or_else(|| SCRIPTS.into_iter().find_map(shell))
        .or_else(|| target("Makefile", "make"))
        .or_else(|| target("justfile", "just"))
        .or_else(entry_point)
        .or_else(|| PROGRAMS.into_iter().find_map(program))
}

fn best_target(names: &[String]) -> Option<&String> {
    let is_for = |name: &String, word: &str| name.split(['-', '_']).any(|part| part == word);
    TARGETS.iter().find_map(|word| names.iter().find(|name| is_for(name, word)))
}

/// The metric that these scripts print or log, and the other numbers beside it. `notes` is the text of an autoresearch.md,
/// which names the primary one. Numbers on lines `METRIC name=` come before any other.
pub fn printed_metric(scripts: &str, notes: &str) -> Suggested {
    let primary = |what: &str| found(&format!(r"(?i)\*\*Primary[^*\n]*\*\*:?[ `*]*{what}"), notes).into_iter().next();
    let direction = primary(r"[^\n]*?\b(lower|higher) is better");
    let is_comment = |line: &&str| ["#", "//"].iter().any(|sign| line.trim_start().starts_with(sign));
    let lines: Vec<&str> = scripts.lines().filter(|line| !is_comment(line)).collect();
    let mut names = found(&format!(r"\bMETRIC\s+{NAME}\s*="), &lines.join("\n"));
    let marked = names.first().cloned();
    if names.is_empty() {
        let prints = ["print", "echo", "log", "write", "report", "cat(", "cout", "puts ", "set_postfix"];
        let is_output = |line: &&&str| prints.iter().any(|word| line.to_lowercase().contains(word));
        let output: String = lines.iter().filter(is_output).map(|line| format!("{line}\n")).collect();
        // Escapes in a text, whose letter belongs to no name.
        let output = output.replace(r"\n", " ").replace(r"\t", " ").replace("echo ", "echo, ");
        let number = r#"(?:#?\{|\$[\w({]|%[-+ 0-9.]*[a-zA-Z]|[-+]?\d|["'](?:\s*(?:[,+.]|<<)|\s+\w))"#;
        names = found(&format!(r"(?m)(?:^|[^\w{{.$]){PHRASE}\s*[:=]\s*{number}"), &output);
        names.extend(found(&format!(r#"(?:\blog\w*|\badd_scalar)\s*\(\s*["']{NAME}["']\s*,"#), &output));
        let told = |name: &String| Direction::of_name(name).is_some();
        names.extend(found(&format!(r#"\bprint\w*!?\s*\(\s*["']{NAME}["']\s*,"#), &output).into_iter().filter(told));
        // `val_loss {loss:.4f}`
        let spaced = format!(r"(?m)(?:^|[^\w{{.$]){NAME}\s+(?:\{{[^{{}}]*:\.[^{{}}]*\}}|%[-+ 0-9.]*[fg])");
        names.extend(found(&spaced, &output).into_iter().filter(told));
        let named = found(r"\b(?:log\w*\s*\(\s*dict|set_postfix)\s*\(([^()]*)\)", &output);
        names.extend(named.iter().flat_map(|named| found(&format!(r"(?:^|,)\s*{NAME}\s*="), named)));
        let tables = found(r"\b(?:log|dump|print)\w*\s*\((?:[^(){}]*,)?\s*(?:\w+\.dumps\()?\s*\{([^{}]*)\}", scripts);
        names.extend(tables.iter().flat_map(|table| found(&format!(r#"["']{NAME}["']\s*:"#), table)));
        // A message of an error is no number.
        names.retain(|name| !["err", "error", "failed", "warning", "warnings"].contains(&&*name.to_lowercase()));
        if likeliest(names.iter().map(String::as_str)).is_some() {
            names.retain(|name| Direction::of_name(name).is_some());
        }
    }
    let likely = || likeliest(names.iter().map(String::as_str)).map(|(name, _)| name.to_owned());
    let metric = primary(NAME).or(marked).or_else(likely);
    names.retain(|name| Some(name) != metric.as_ref());
    names.sort();
    names.dedup();
    let direction =
        direction.map(|word| if word.eq_ignore_ascii_case("lower") { Direction::Lower } else { Direction::Higher });
    Suggested { direction, metric, beside: names, ..Suggested::default() }
}

/// The name among those of printed numbers by which a run is most likely judged, and why.
pub fn likeliest<'a>(names: impl Iterator<Item = &'a str>) -> Option<(&'a str, &'static str)> {
    let rank = |name: &str| {
        let (_, kind) = Direction::of_name(name)?;
        let plain = plain_name(name);
        let has = |words: &[&str]| plain.split('_').any(|word| words.contains(&word));
        Some(match kind {
            _ if has(&ASIDE) => (4, "the first number"),
            NameKind::Quality if has(&["bpb"]) => (0, "as bits per byte"),
            NameKind::Quality if has(&UNSEEN) => (1, "a quality on data that nothing was fitted to"),
            NameKind::Quality => (2, "the first quality"),
            NameKind::Rate | NameKind::Duration | NameKind::Size => (3, "the first rate, time or size"),
        })
    };
    let ranked = names.filter_map(|name| Some((rank(name)?, name)));
    ranked.min_by_key(|((rank, _), _)| *rank).map(|((_, why), name)| (name, why))
}

/// The captures of the group in one of `ar`'s own patterns.
fn found(pattern: &str, text: &str) -> Vec<String> {
    let Ok(pattern) = Regex::new(pattern) else { return Vec::new() };
    pattern.captures_iter(text).filter_map(|found| Some(found.get(1)?.as_str().to_owned())).collect()
}

/// A file that a command line names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    /// Its path, relative to the command's working directory.
    pub path: PathBuf,
    /// True for the script itself, without which nothing runs.
    pub is_script: bool,
}

/// Extensions of scripts, and of other files that commands read.
const SCRIPT_ENDINGS: [&str; 12] = ["py", "sh", "bash", "js", "mjs", "cjs", "ts", "rb", "pl", "R", "jl", "lua"];

const INPUTS: [&str; 9] = ["json", "jsonl", "yaml", "yml", "toml", "txt", "csv", "cfg", "ini"];

/// Parts of option names whose value is an output file.
const OUTPUTS: [&str; 6] = ["out", "save", "log", "write", "dump", "report"];

/// The relative paths in a command line that must exist as files, as far as its words tell. Empty if it changes the
/// directory, because they would be relative to another one.
pub fn named_files(line: &str) -> Vec<NamedFile> {
    let spaced = spaced(line);
    let words: Vec<&str> = spaced.split_whitespace().collect();
    if words.iter().any(|word| ["cd", "pushd", "-C", "--directory", "--chdir"].contains(word)) {
        return Vec::new();
    }
    let mut found: Vec<NamedFile> = Vec::new();
    let mut has_script = false;
    for (place, word) in words.iter().enumerate() {
        let before = place.checked_sub(1).map_or("", |place| words[place]);
        if [";", "|", "&", "(", ")"].contains(word) {
            has_script = false;
            continue;
        }
        let is_value = before.starts_with('-') && OUTPUTS.iter().any(|part| before.contains(part)) || before == "-o";
        if before == ">" || is_value || !is_plain(word) {
            continue;
        }
        let path = PathBuf::from(word.trim_start_matches("./"));
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let is_script = SCRIPT_ENDINGS.contains(&extension) && !has_script && !before.starts_with("--");
        has_script |= is_script;
        if (is_script || INPUTS.contains(&extension)) && found.iter().all(|known| known.path != path) {
            found.push(NamedFile { path, is_script });
        }
    }
    found
}

/// The words of a command line, and the values in them, that may be files of the repository.
pub fn files_named(line: &str) -> Vec<PathBuf> {
    let spaced = spaced(line);
    let words = spaced.split(|c: char| c.is_whitespace() || "`;|&()<>=$".contains(c));
    words.map(|word| word.trim_start_matches("./")).filter(|word| !word.is_empty()).map(PathBuf::from).collect()
}

/// A command line without quotes, in which the signs that end a word or a command stand alone.
fn spaced(line: &str) -> String {
    let mut spaced = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            ';' | '|' | '&' | '(' | ')' | '<' | '>' => spaced.extend([' ', c, ' ']),
            '\n' => spaced.push_str(" ; "),
            '"' | '\'' => spaced.push(' '),
            c => spaced.push(c),
        }
    }
    spaced
}

/// Returns whether a word is a relative path that the shell does not expand.
fn is_plain(word: &str) -> bool {
    let is_path = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '+' | ',' | '@');
    !word.starts_with(['-', '/']) && word.chars().all(is_path)
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

    fn command(files: &[(&str, &str)]) -> Option<String> {
        start_command(|name| files.iter().find(|(file, _)| *file == name).map(|(_, text)| (*text).to_owned()))
    }

    #[test]
    fn scripts_targets_and_programs_start_a_run() {
        let torchrun = ("run.sh", "torchrun --standalone train_gpt.py");
        for (files, expected) in [
            (&[torchrun][..], "sh run.sh"),
            (&[("autoresearch.sh", "#!/usr/bin/env bash\n"), ("train.py", ""), ("run.sh", "")], "bash autoresearch.sh"),
            (&[("train.py", ""), ("run.sh", "#!/bin/bash\npython train.py --fast\n")], "bash run.sh"),
            (&[("train.py", ""), ("run.sh", "docker run x")], "python train.py"),
            (&[("train.py", ""), ("pyproject.toml", "")], "uv run train.py"),
            (&[("train.sh", "")], "sh train.sh"),
            (&[("Makefile", "CC := gcc\nall: build\nbench-fast: all\n\t./b\nbench:\n\t./b\n")], "make bench-fast"),
            (&[("justfile", "default:\n  just --list\nbench n='3':\n  ./b {{n}}\n")], "just bench"),
            (
                &[("pyproject.toml", "[project.scripts]\nserve = \"a:b\"\nlatency-bench = \"a:c\"\n")],
                "uv run latency-bench",
            ),
            (&[("bench.py", "")], "python bench.py"),
        ] {
            assert_eq!(command(files).as_deref(), Some(expected), "{files:?}");
        }
        for files in [&[("main.c", "")][..], &[("Makefile", "all:\n\ttrue\n")], &[("pyproject.toml", "[project]\n")]] {
            assert_eq!(command(files), None, "{files:?}");
        }
    }

    #[test]
    fn printed_and_logged_names_give_the_metric() {
        for (scripts, metric) in [
            (
                "print0(f\"step:{step}/{n} val_loss:{val_loss:.4f} train_time:{t:.0f}ms step_avg:{a:.2f}ms\")",
                "val_loss",
            ),
            ("print(f\"train_loss: {t:.6f}\")\nprint(f\"val_bpb:          {val_bpb:.6f}\")", "val_bpb"),
            ("print(f\"\\rstep {step:05d} | loss: {loss:.6f} | dt: {dt*1000:.0f}ms\")", "loss"),
            ("wandb.log({\n    \"train/loss\": a,\n    \"val/loss\": b,\n}, step=i)", "val/loss"),
            ("self.log(\"val_acc\", acc, prog_bar=True)\nself.log('train_loss', loss)", "val_acc"),
            ("print(json.dumps({\"rmse\": rmse, \"n\": n}))", "rmse"),
            ("writer.add_scalar('loss/val', x, step)", "loss/val"),
            ("print('test accuracy:', acc)", "test accuracy"),
            ("print('val_loss', loss)", "val_loss"),
            ("print(f'  -> val_loss {v:.3f}')", "val_loss"),
            ("puts \"latency_ms: #{x}\"", "latency_ms"),
            ("wandb.log(dict(lr=lr, val_loss=v))", "val_loss"),
            ("bar.set_postfix(loss=l, val_loss=v)", "val_loss"),
            ("println!(\"throughput: {}\", x);", "throughput"),
            ("printf(\"latency_ms: %f\\n\", x);", "latency_ms"),
            ("console.log(`accuracy: ${a}`)", "accuracy"),
            ("std::cout << \"latency: \" << x;", "latency"),
            ("awk '{ s += $1 } END { print \"mean_ms: \" s / NR }' times", "mean_ms"),
            ("echo \"p99 latency: $p99 ms\"", "p99 latency"),
            ("echo latency: $x", "latency"),
            ("print(f\"\\nval_bpb: {x}\")", "val_bpb"),
            ("println!(\"latency_ms: {:.2}\", ms);", "latency_ms"),
            ("console.log(`p99_ms=${p99}`)", "p99_ms"),
            ("printf(\"latency_us: %.1f\\n\", us);", "latency_us"),
            ("echo \"build_seconds: $b\"\necho \"wall_seconds: $w\"", "wall_seconds"),
            ("ms=$(./bench)\necho \"METRIC ops=$ms\"\necho \"METRIC loss=$l\"", "ops"),
            ("# METRIC name=value\nprint(f\"METRIC total_bytes={total}\")", "total_bytes"),
        ] {
            assert_eq!(printed_metric(scripts, "").metric.as_deref(), Some(metric), "{scripts}");
        }
        for scripts in [
            "# print(f\"loss: {loss}\")",
            "print(f\"{loss:.2f}\")",
            "loss = 3",
            "print(f'Downloaded {name}')",
            "log.Printf(\"error: %v\", err)",
        ] {
            assert_eq!(printed_metric(scripts, "").metric, None, "{scripts}");
        }
        let notes = "## Metrics\n- **Primary**: `ops` (per second, higher is better)\n- **Secondary**: `rss_mb`";
        let found = printed_metric("echo \"METRIC rss_mb=$r\"\necho \"METRIC ops=$o\"", notes);
        assert_eq!((found.metric.as_deref(), found.direction), (Some("ops"), Some(Direction::Higher)));
        assert_eq!(found.beside, ["rss_mb"]);
    }

    #[test]
    fn scripts_and_inputs_are_found_and_outputs_and_expansions_are_not() {
        for (line, scripts, others) in [
            ("uv run train.py > run.log 2>&1", "train.py", ""),
            ("sh ./train.sh --config conf/a.yaml", "train.sh", "conf/a.yaml"),
            ("A=1.py python -u a.py b.py --out c.json --log-file d.txt -o e.csv > f.txt", "a.py", ""),
            ("sh a.sh; bash b.sh && node sub/c.js | tee d.txt", "a.sh b.sh sub/c.js", "d.txt"),
            ("cd src && python a.py", "", ""),
            ("python $HOME/a.py *.py /opt/b.py ~/c.py --file=d.py -m pytest", "", ""),
            ("sh -c 'python a.py'", "a.py", ""),
            ("make test", "", ""),
        ] {
            let of = |is_script: bool| {
                let files = named_files(line).into_iter().filter(|file| file.is_script == is_script);
                files.map(|file| file.path.display().to_string()).collect::<Vec<_>>().join(" ")
            };
            assert_eq!((of(true).as_str(), of(false).as_str()), (scripts, others), "{line}");
        }
    }
}
