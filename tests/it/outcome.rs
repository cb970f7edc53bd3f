//! What a session comes to, apart from times and names: the same however often it was killed on the way.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::TestRepo;

/// Everything about the session `t` that must not depend on how often it was killed.
pub(crate) fn outcome(repo: &TestRepo) -> String {
    let mut text = results(repo);
    for reference in record_refs(repo) {
        let folder = format!(".autoresearch/t/runs/{}", reference.rsplit('/').next().unwrap());
        let logs = names(&repo.file(&folder), |name| name.ends_with(".log") && name != "agent.log");
        for log in logs.split_whitespace().skip(1) {
            text += &format!("{folder}/{log}\n{}", read(repo, &format!("{folder}/{log}")));
        }
    }
    text
}

fn record_refs(repo: &TestRepo) -> Vec<String> {
    let refs = repo.git(["for-each-ref", "--format=%(refname)", "refs/autoresearch/t/"]);
    refs.lines().filter(|reference| !reference.contains("/saved/")).map(str::to_owned).collect()
}

/// The same without the logs of the runs.
pub(crate) fn results(repo: &TestRepo) -> String {
    let mut text = String::new();
    // A line for each: a body is one.
    let format = "--format=%(refname) %(*tree) %(contents:body)";
    let told = repo.git(["for-each-ref", format, "refs/autoresearch/t/"]);
    let is_record = |line: &&str| line.contains(' ') && !line.contains("/saved/");
    for line in told.lines().filter(is_record) {
        let [reference, tree, body] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let record: Value = serde_json::from_str(body).unwrap();
        let count = |field: &str| record[field].as_array().map_or(0, Vec::len);
        text += &format!(
            "{reference} {tree} {} runs {} versions {} guards {} artifacts {} {} {} {} {}\n",
            count("runs"),
            count("versions"),
            count("guards"),
            count("artifacts"),
            record["outcome"],
            record["metric"]["raw"],
            record["failure"]["class"],
            record["description"],
            record["runs"][0]["exit"]
        );
    }
    text += &artifacts(repo);
    for row in read(repo, "results.tsv").lines() {
        // How much memory a run took is no result of a session, unless it took too much.
        let cells =
            row.split('\t').enumerate().filter(|(column, cell)| *column != 0 && (*column != 2 || *cell == "oom"));
        text += &format!("{}\n", cells.map(|(_, cell)| cell).collect::<Vec<_>>().join("\t"));
    }
    if repo.try_git(["rev-parse", "--verify", "--quiet", "refs/heads/autoresearch/t"]).status.success() {
        text += &repo.git(["log", "--format=%T %s", "autoresearch/t"]);
    }
    text += &format!("\n{}\n{}\n", repo.git(["symbolic-ref", "HEAD"]), repo.status());
    text += &repo.git(["diff", "--cached", "--name-status"]);
    for file in ["progress.json", "directions_tried.json", "iteration_log.jsonl", "findings.jsonl"] {
        text += &timeless(&read(repo, &format!(".autoresearch/t/state/{file}")));
    }
    text += &read(repo, "autoresearch-lessons.md");
    text += &timeless(&read(repo, ".autoresearch/ideas.jsonl"));
    // What a run may find of earlier ones is no result.
    text += &names(&repo.file(".autoresearch/t/state"), |name| name != "carried.json");
    text += &names(&repo.file(".autoresearch/t"), |_| true);
    text += &names(&repo.file(".git"), |name| name.starts_with("ar-") || name.ends_with(".lock"));
    text + &repo.git(["fsck", "--no-dangling", "--no-progress"])
}

/// Checks that what a session came to is `expected`; `what` says which session.
#[track_caller]
pub(crate) fn assert_outcome(found: &str, expected: &str, what: &str) {
    let without = |text: &str, other: &str| {
        text.lines().filter(|line| !other.lines().any(|known| known == *line)).collect::<Vec<_>>().join("\n  ")
    };
    let (missing, other) = (without(expected, found), without(found, expected));
    assert!(found == expected, "{what}\nmissing:\n  {missing}\nin place of it:\n  {other}");
}

fn read(repo: &TestRepo, path: &str) -> String {
    fs::read_to_string(repo.file(path)).unwrap_or_default()
}

/// The artifacts in the folders of the runs, with what they hold, and what is left of others.
fn artifacts(repo: &TestRepo) -> String {
    let mut text = String::new();
    let runs = repo.file(".autoresearch/t/runs");
    for run in names(&runs, |name| name.len() == 5).split_whitespace().skip(1) {
        let mut left: Vec<_> =
            fs::read_dir(runs.join(run)).into_iter().flatten().map(|it| it.unwrap().path()).collect();
        left.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("artifacts"));
        while let Some(path) = left.pop() {
            match path.is_dir() {
                true => left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path())),
                false => {
                    let name = path.strip_prefix(&runs).unwrap().display();
                    text += &format!("{name}: {}\n", fs::read_to_string(&path).unwrap());
                }
            }
        }
    }
    let mut lines: Vec<_> = text.lines().map(|line| format!("{line}\n")).collect();
    lines.sort();
    lines.concat()
}

/// JSON documents without what two sessions cannot have in common.
fn timeless(text: &str) -> String {
    let documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    documents
        .map(|document| {
            let mut document = document.unwrap();
            if let Some(last) = document.pointer_mut("/last_call").and_then(Value::as_object_mut) {
                // A journal that is made again does not know the agent's words.
                last.shift_remove("said");
            }
            if let Some(fields) = document.as_object_mut() {
                // How many calls there were depends on where the kill was, and a checkpoint is known by its time.
                for name in [
                    "ts",
                    "last_seen",
                    "progressed",
                    "worktree",
                    "spent",
                    "checkpoints",
                    "process",
                    "openings",
                    "step",
                    "waits",
                ] {
                    fields.shift_remove(name);
                }
            }
            format!("{document}\n")
        })
        .collect()
}

/// The sorted names in a folder, those that `wanted` says.
fn names(folder: &Path, wanted: impl Fn(&str) -> bool) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| wanted(name));
    names.sort();
    format!("{}: {}\n", folder.file_name().unwrap().display(), names.join(" "))
}
