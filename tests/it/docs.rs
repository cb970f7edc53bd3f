//! The pages in `docs/` name what is really written.

use std::fs;
use std::path::Path;

use serde_json::Value;

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
fn no_page_leads_to_a_file_that_is_not_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    for path in pages.chain([root.join("README.md"), root.join("ARCHITECTURE.md")]) {
        let text = fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(link, _)| link)) {
            let file = link.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains("://") {
                assert!(path.parent().unwrap().join(file).exists(), "{} leads to {link}", path.display());
            }
        }
    }
}
