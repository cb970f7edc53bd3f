//! The pages in `docs/` name what is really written.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use autoresearch::domain::FailureClass;
use serde_json::Value;
use strum::VariantArray;

use crate::cli::sources;
use crate::run_loop::training_repo;
use crate::support::ar;

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)).unwrap()
}

#[test]
fn the_page_of_formats_names_every_field_of_a_record_and_of_the_files_beside_it() {
    let repo = training_repo();
    let agent = "echo echo val_bpb: 0.5 > train.sh; echo '{\"hypothesis\": \"x\"}' > \"$AR_PROPOSAL\"";
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    ar(&repo, [&args[..], &["--max-experiments", "1"]].concat()).ok();
    let page = page("formats.md");
    let fields = |document: &Value| document.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let parsed = |path: &str| serde_json::from_str::<Value>(&repo.read(path)).unwrap();
    let log = ar(&repo, ["log", "--format", "json"]).ok().json();
    let mut named = Vec::new();
    for record in log["experiments"].as_array().unwrap() {
        named.extend(fields(record));
        for part in ["metric", "diff", "environment"] {
            named.extend(fields(&record[part]));
        }
        named.extend(fields(&record["runs"][0]));
    }
    named.extend(fields(&parsed(".autoresearch/t/runs/00001/exit.json")));
    let line = repo.read(".autoresearch/t/state/iteration_log.jsonl");
    named.extend(fields(&serde_json::from_str(line.lines().next().unwrap()).unwrap()));
    for name in named {
        assert!(page.contains(&format!("`{name}`")), "docs/formats.md does not name `{name}`");
    }
    let events = repo.read(".autoresearch/t/logs/work.jsonl");
    for line in events.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        assert!(
            page.contains(&format!("`{}`", event["event"].as_str().unwrap())),
            "docs/formats.md does not name {event}"
        );
    }
}

#[test]
fn the_protocol_and_the_page_of_formats_name_every_failure_class() {
    let protocol = fs::read_to_string(root().join("program.md")).unwrap();
    let formats = page("formats.md");
    for class in FailureClass::VARIANTS {
        let name = format!("`{class}`");
        assert!(protocol.contains(&name), "program.md: {name}");
        assert!(formats.contains(&name), "formats: {name}");
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All pages of the book.
fn book() -> Vec<PathBuf> {
    let files = sources(&root().join("docs"));
    files.into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "md")).collect()
}

/// The pages in the root and those of the book.
fn all_pages() -> Vec<PathBuf> {
    let names = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    names.iter().map(|name| root().join(name)).chain(book()).collect()
}

/// A page without its blocks of code.
fn prose(text: &str) -> String {
    let mut in_code = false;
    let outside = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !fence && !in_code
    });
    outside.collect::<Vec<_>>().join("\n")
}

/// The anchor that mdBook and others give a heading.
fn anchor(heading: &str) -> String {
    let letters = heading.to_lowercase().replace(' ', "-");
    letters.chars().filter(|letter| letter.is_alphanumeric() || "-_".contains(*letter)).collect()
}

fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text);
    let headings = headings.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

/// Where the links of a page lead, in either form.
fn links(text: &str) -> Vec<String> {
    let text = prose(text);
    let inline = text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(link, _)| link));
    let listed = text.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: ").map(|(_, link)| link));
    inline.chain(listed).map(str::to_owned).collect()
}

#[test]
fn what_pages_print_is_written_by_the_script() {
    let script = fs::read_to_string(root().join("docs/results")).unwrap();
    let mut blocks = 0;
    // The page of commands is written from the help.
    for path in book().into_iter().filter(|path| !path.ends_with("commands.md")) {
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for at in (0..lines.len()).filter(|&at| matches!(lines[at], "```text" | "```console")) {
            let name = lines[at - 1].strip_prefix("<!-- docs/results: ").and_then(|rest| rest.strip_suffix(" -->"));
            let name = name.unwrap_or_else(|| panic!("{}:{} is printed by hand", path.display(), at + 1));
            assert!(script.contains(&format!("\"{name}\":")), "docs/results does not write {name}");
            blocks += 1;
        }
    }
    assert!(blocks >= 5, "{blocks}");
}

#[test]
fn every_link_leads_to_a_page_and_a_heading() {
    let mut seen = 0;
    for path in all_pages() {
        let text = fs::read_to_string(&path).unwrap();
        for link in links(&text).iter().filter(|link| !link.contains("://")) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(target.exists(), "{} leads to {link}", path.display());
            let known = heading.is_empty() || anchors(&fs::read_to_string(&target).unwrap()).contains(&heading.into());
            assert!(known, "{} leads to {link}: no such heading", path.display());
            // The book has its own pages alone.
            let book = root().join("docs");
            let inside = target.canonicalize().unwrap().starts_with(&book);
            assert!(inside || !path.starts_with(&book), "{} leaves the book: {link}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 40, "only {seen} links found");
}

#[test]
fn the_summary_lists_every_page_of_the_book() {
    let listed = links(&page("SUMMARY.md"));
    for path in book() {
        let name = path.strip_prefix(root().join("docs")).unwrap().to_str().unwrap();
        assert!(name == "SUMMARY.md" || listed.iter().any(|link| link == name), "docs/SUMMARY.md lacks {name}");
    }
}

/// The sentences of a page, without code and headings: each item of a list and each cell of a table by itself.
fn sentences(text: &str) -> Vec<String> {
    let start = regex::Regex::new(r"^\s*([-*]|\d+\.) ").unwrap();
    let end = regex::Regex::new(r"[.!?]\s|\|").unwrap();
    let mut paragraphs = vec![String::new()];
    for line in prose(text).lines() {
        if line.trim().is_empty() || line.starts_with(['#', '|']) || start.is_match(line) {
            paragraphs.push(String::new());
        }
        if !line.starts_with('#') {
            let last = paragraphs.last_mut().unwrap();
            *last = format!("{last} {}", line.trim());
        }
    }
    paragraphs.iter().flat_map(|paragraph| end.split(paragraph).map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn the_pages_are_short_and_so_are_their_sentences() {
    let text = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let words = text("README.md").split_whitespace().count();
    assert!(words <= 900, "README.md has {words} words");
    let architecture = text("ARCHITECTURE.md");
    assert!(architecture.lines().count() <= 200, "ARCHITECTURE.md has {} lines", architecture.lines().count());
    let widest = architecture.lines().max_by_key(|line| line.len()).unwrap();
    assert!(widest.len() <= 160, "{widest}");
    let mut long = Vec::new();
    for path in all_pages() {
        for sentence in sentences(&fs::read_to_string(&path).unwrap()) {
            let words = sentence.split_whitespace().count();
            if words > 30 {
                long.push(format!("{words} words in {}: {sentence}", path.display()));
            }
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

/// What a page says in code: its inline pieces, and the lines of its blocks with what they continue on.
fn code(text: &str) -> Vec<String> {
    let text = text.replace("\\\n", " ");
    let outside = prose(&text);
    let inline = outside.split('`').skip(1).step_by(2).map(|piece| piece.replace('\n', " "));
    let blocks = text.split("```").skip(1).step_by(2).flat_map(|block| block.lines().skip(1));
    inline.chain(blocks.map(str::to_owned)).collect()
}

#[test]
fn every_command_and_flag_of_a_page_exists() {
    let quoted = regex::Regex::new(r#"'[^']*'|"[^"]*"|#.*"#).unwrap();
    let call = regex::Regex::new(r"^(?:(?:nohup |systemd-run .*? )?ar ([a-z]+)|--[a-z])").unwrap();
    let flag = regex::Regex::new(r"--[a-z][a-z-]*").unwrap();
    let reference = page("commands.md");
    let flags: HashSet<&str> = flag.find_iter(&reference).map(|found| found.as_str()).collect();
    let mut seen = 0;
    for path in all_pages().iter().filter(|path| !path.ends_with("commands.md")) {
        for piece in code(&fs::read_to_string(path).unwrap()) {
            let piece = quoted.replace_all(&piece, "").into_owned();
            for part in piece.split(['&', '|', '>']).map(str::trim) {
                let Some(found) = call.captures(part) else { continue };
                let command = found.get(1).map_or("run", |name| name.as_str());
                // `rcs` is a call of the archiver; the help has no help of its own.
                let is_known =
                    ["rcs", "help"].contains(&command) || reference.contains(&format!("\n## ar {command}\n"));
                assert!(is_known, "{}: {part}: no command `{command}`", path.display());
                let own = &part[found.get(1).map_or(0, |name| name.start())..];
                for flag in flag.find_iter(own) {
                    seen += 1;
                    assert!(flags.contains(flag.as_str()), "{}: {part}: no flag {}", path.display(), flag.as_str());
                }
            }
        }
    }
    assert!(seen > 100, "only {seen} flags found");
}
