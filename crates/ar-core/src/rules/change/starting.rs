//! How the repository's own scripts start a run, and what they print.

use regex::Regex;

use super::conventions::Suggested;
use crate::domain::{Direction, NameKind, plain_name};

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
        let prints = ["print", "echo", "log", "write", "report"];
        let is_output = |line: &&&str| prints.iter().any(|word| line.to_lowercase().contains(word));
        let output: String = lines.iter().filter(is_output).map(|line| format!("{line}\n")).collect();
        // Escapes in a text, whose letter belongs to no name.
        let output = output.replace(r"\n", " ").replace(r"\t", " ").replace("echo ", "echo, ");
        let number = r#"(?:\{|\$[\w({]|%[-+ 0-9.]*[a-zA-Z]|[-+]?\d|["']\s*[,+.])"#;
        names = found(&format!(r"(?m)(?:^|[^\w{{.$]){PHRASE}\s*[:=]\s*{number}"), &output);
        names.extend(found(&format!(r#"(?:\blog\w*|\badd_scalar)\s*\(\s*["']{NAME}["']\s*,"#), &output));
        let tables = found(r"\b(?:log|dump|print)\w*\s*\((?:[^(){}]*,)?\s*(?:\w+\.dumps\()?\s*\{([^{}]*)\}", scripts);
        names.extend(tables.iter().flat_map(|table| found(&format!(r#"["']{NAME}["']\s*:"#), table)));
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

/// What the group of a pattern of `ar`'s own captures; an invalid one finds nothing.
fn found(pattern: &str, text: &str) -> Vec<String> {
    let Ok(pattern) = Regex::new(pattern) else { return Vec::new() };
    pattern.captures_iter(text).filter_map(|found| Some(found.get(1)?.as_str().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for scripts in
            ["# print(f\"loss: {loss}\")", "print(f\"{loss:.2f}\")", "loss = 3", "print(f'Downloaded {name}')"]
        {
            assert_eq!(printed_metric(scripts, "").metric, None, "{scripts}");
        }
        let notes = "## Metrics\n- **Primary**: `ops` (per second, higher is better)\n- **Secondary**: `rss_mb`";
        let found = printed_metric("echo \"METRIC rss_mb=$r\"\necho \"METRIC ops=$o\"", notes);
        assert_eq!((found.metric.as_deref(), found.direction), (Some("ops"), Some(Direction::Higher)));
        assert_eq!(found.beside, ["rss_mb"]);
    }
}
