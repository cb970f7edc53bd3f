//! A scripted researcher over a scorer that prints four axes.

use std::fs;

use serde_json::Value;

use crate::support::{Called, TestRepo, ar};

/// The scorer: it prints what stands in the file `axes`, and a composite of its own that nobody believes.
const SCORE: &str = "read -r claims sources topics novelty < axes
echo \"claim_density: $claims\"
[ \"$sources\" = - ] || echo \"source_diversity: $sources\"
echo \"topic_coverage: $topics\"
echo \"novelty: $novelty\"
echo 'composite: 0.9900'
";

const SETTINGS: &str = "metric = \"composite\"
cmd = \"sh score.sh\"
[composite.axes.claim_density]
weight = 0.25
[composite.axes.source_diversity]
weight = 0.25
[composite.axes.topic_coverage]
weight = 0.25
[composite.axes.novelty]
weight = 0.25
";

/// A repository with the scorer; the axes have no number yet.
pub(super) fn repo() -> TestRepo {
    let repo = TestRepo::empty();
    repo.write("score.sh", SCORE);
    repo.write("axes", "nan nan nan nan\n");
    repo.write("notes", "");
    repo.write("ar.toml", SETTINGS);
    repo.commit_all("a question");
    repo
}

/// The arguments of the first call of session `t`, whose agent makes a line of `script` the axes of each experiment, in
/// their order. A line of one number is that of all four axes; one that ends in `+` brings a source, too.
pub(super) fn first_call(repo: &TestRepo, script: &[&str], more: &[&str]) -> Vec<String> {
    let line = |text: &&str| {
        let (numbers, plus) = text.strip_suffix('+').map_or((*text, ""), |numbers| (numbers, "+"));
        let axes = if numbers.contains(' ') { numbers.to_owned() } else { [numbers; 4].join(" ") };
        format!("{axes} {plus}\n")
    };
    let path = repo.outside().join("script");
    fs::write(&path, script.iter().map(line).collect::<String>()).unwrap();
    let agent = format!(
        "line=$(sed -n \"${{AR_EXPERIMENT}}p\" {}); [ -n \"$line\" ] || exit 0; echo \"${{line%+}}\" > axes; \
         echo \"$AR_EXPERIMENT\" >> notes; \
         case $line in *+) mkdir -p sources; echo text > \"sources/$AR_EXPERIMENT.md\" ;; esac",
        path.display()
    );
    let limit = script.len().to_string();
    let args = ["run", "--yes", "--tag", "t", "--agent", &agent, "--max-experiments", &limit];
    args.iter().chain(more).map(|arg| (*arg).to_owned()).collect()
}

/// Runs the session to its end.
pub(super) fn run(repo: &TestRepo, script: &[&str], more: &[&str]) -> Called {
    ar(repo, first_call(repo, script, more))
}

/// The records of session `t`.
pub(super) fn records(repo: &TestRepo) -> Vec<Value> {
    let log = ar(repo, ["log", "--tag", "t", "--format", "json"]).ok().json();
    let mut records = log["experiments"].as_array().unwrap().clone();
    records.sort_by_key(|record| record["sequence"].as_u64());
    records
}

/// The number and the outcome of each experiment, in words.
pub(super) fn course(repo: &TestRepo) -> Vec<String> {
    let raw = |record: &Value| record["metric"]["raw"].as_str().unwrap_or("none").to_owned();
    records(repo).iter().map(|record| format!("{} {}", raw(record), record["outcome"].as_str().unwrap())).collect()
}

/// What `ar status` says of session `t`.
pub(super) fn status(repo: &TestRepo) -> Value {
    ar(repo, ["status", "t", "--format", "json"]).ok().json()["sessions"][0].clone()
}
