//! What is mended without a guess.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::session::{assert_healthy, cut, doctor, edit, go_on, object, outcome, session, state};
use crate::support::{Called, TestRepo, ar, ar_command};

/// How a session is broken.
type Damage = fn(&TestRepo);

fn empty(repo: &TestRepo, path: &str) {
    repo.write(path, "");
}

/// Damages with what is found of them and what was mended of them.
const DAMAGES: &[(&str, Damage, &str, &str)] = &[
    ("rm results.tsv", |repo| repo.rm("results.tsv"), "results.tsv is missing", "4 rows put in"),
    (
        "a torn row",
        |repo| cut(repo, "results.tsv", 5),
        "line 5 of results.tsv is truncated",
        "1 torn line repaired; the old one is in ",
    ),
    (
        "a torn header",
        |repo| repo.write("results.tsv", "commit_hash\tval"),
        "no row of experiment 0 of t, 1 of t",
        "4 rows",
    ),
    (
        "a row twice",
        |repo| {
            let rows = repo.read("results.tsv");
            let last = rows.lines().last().unwrap();
            repo.write("results.tsv", format!("{rows}{last}\n"));
        },
        "line 6 of results.tsv repeats another one",
        "1 repeated row left out",
    ),
    (
        "a torn journal",
        |repo| cut(repo, &state("progress.json"), 20),
        "cannot parse state/progress.json",
        "progress.json.damaged",
    ),
    ("no journal", |repo| repo.rm(state("progress.json")), "progress.json is missing", "with no experiment open"),
    (
        "a torn contract",
        |repo| cut(repo, &state("contract.json"), 9),
        "cannot parse state/contract.json",
        "contract.json.damaged",
    ),
    (
        "another contract",
        |repo| edit(repo, &state("contract.json"), |terms| terms["command"] = json!("sh other.sh")),
        "contract.json has the command `sh other.sh`, and the baseline's record `sh train.sh`",
        "contract.json.before-repair",
    ),
    ("no contract", |repo| repo.rm(state("contract.json")), "contract.json is missing", "from the baseline's record"),
    (
        "a torn log of iterations",
        |repo| cut(repo, &state("iteration_log.jsonl"), 9),
        "cannot parse 1 line of state/iteration_log.jsonl",
        "dropped the damaged lines of state/iteration_log.jsonl; the old one is in state/iteration_log.jsonl.damaged",
    ),
    (
        "a torn event log",
        |repo| cut(repo, ".autoresearch/t/logs/work.jsonl", 9),
        "cannot parse 1 line of logs/work.jsonl",
        "logs/work.jsonl.damaged",
    ),
    (
        "damaged lines of an event log",
        |repo| {
            let path = ".autoresearch/t/logs/orchestrator.jsonl";
            repo.write(path, format!("{{\n{}{{", repo.read(path)));
        },
        "cannot parse 2 lines of logs/orchestrator.jsonl",
        "dropped the damaged lines of logs/orchestrator.jsonl; the old one is in logs/orchestrator.jsonl.damaged",
    ),
    (
        "torn directions",
        |repo| empty(repo, &state("directions_tried.json")),
        "cannot parse state/directions_tried.json",
        "directions_tried.json from the records",
    ),
    ("no findings", |repo| repo.rm(state("findings.jsonl")), "findings.jsonl is missing", "findings.jsonl from the"),
    (
        "torn untracked files",
        |repo| empty(repo, &state("untracked.json")),
        "cannot parse state/untracked.json",
        "untracked.json.damaged",
    ),
    (
        "an empty file of the branch",
        |repo| empty(repo, ".git/refs/heads/autoresearch/t"),
        "the file of the ref refs/heads/autoresearch/t is empty or damaged",
        "restored refs/heads/autoresearch/t to ",
    ),
    (
        "an empty file of a record",
        |repo| empty(repo, ".git/refs/autoresearch/t/00002"),
        "the file of the ref refs/autoresearch/t/00002 is empty or damaged",
        "restored refs/autoresearch/t/00002 to ",
    ),
    (
        "an empty file of a record in a pack",
        |repo| {
            repo.git(["pack-refs", "--all"]);
            repo.git(["gc", "--quiet"]);
            fs::create_dir_all(repo.file(".git/refs/autoresearch/t")).unwrap();
            empty(repo, ".git/refs/autoresearch/t/00000");
        },
        "the file of the ref refs/autoresearch/t/00000 is empty or damaged",
        "restored refs/autoresearch/t/00000 to ",
    ),
    (
        "a branch whose commit is gone",
        |repo| {
            repo.write(".git/refs/heads/autoresearch/t", format!("{}\n", "1".repeat(40)));
        },
        "the ref refs/heads/autoresearch/t leads to an object that is gone",
        "restored refs/heads/autoresearch/t to ",
    ),
    (
        "no branch",
        |repo| {
            repo.git(["update-ref", "-d", "refs/heads/autoresearch/t"]);
        },
        "the branch autoresearch/t is missing",
        "recreated the branch autoresearch/t at ",
    ),
    (
        "an index.lock of a killed ar",
        |repo| repo.write(".git/index.lock", "ar holds the index\n"),
        "index.lock was left behind by a killed ar",
        "removed ",
    ),
    (
        "a lock of a ref of a killed ar",
        |repo| {
            let lock = repo.file(".git/refs/heads/autoresearch/t.lock");
            empty(repo, ".git/refs/heads/autoresearch/t.lock");
            repo.write(".git/autoresearch-refs", lock.to_str().unwrap());
        },
        "t.lock was left behind by a killed ar",
        "removed ",
    ),
    (
        "git clean -fdx",
        |repo| {
            repo.git(["clean", "--quiet", "-fdx"]);
        },
        "contract.json is missing",
        "contract.json from the baseline's record",
    ),
];

#[test]
fn every_damage_is_found_mended_and_found_no_more() {
    let (repo, twin) = (session(), session());
    let iterations = |repo: &TestRepo| repo.read(state("iteration_log.jsonl")).lines().count();
    let before = (outcome(&repo), iterations(&repo));
    let folder = repo.file(".autoresearch/t/").display().to_string();
    for (what, damage, finding, deed) in DAMAGES {
        damage(&repo);
        // Files of the session are named by their whole paths.
        let found = doctor(&repo, &[], 1).replace(&folder, "");
        assert!(found.contains(finding) && found.contains("hint: ar doctor --repair"), "{what}: {found}");
        let mended = doctor(&repo, &["--repair"], 0).replace(&folder, "");
        let deeds: Vec<&str> = mended.lines().filter(|line| line.starts_with("repaired: ")).collect();
        assert!(deeds.iter().any(|line| line.contains(deed)), "{what}: {mended}");
        assert_healthy(&repo, what);
        assert_eq!((outcome(&repo), iterations(&repo)), before, "{what}");
    }
    assert!(!doctor(&repo, &["--repair"], 0).contains("repaired: "), "something is mended twice");
    for repo in [&repo, &twin] {
        go_on(repo, &["resume", "t"], 1).ok();
        assert_healthy(repo, "going on");
    }
    assert_eq!((outcome(&repo), iterations(&repo)), (outcome(&twin), iterations(&twin)));
}

#[test]
fn missing_files_are_written_again_and_not_called_damaged() {
    let repo = session();
    fs::remove_dir_all(repo.file(".autoresearch/t/state")).unwrap();
    let done = doctor(&repo, &["--repair"], 0);
    for name in ["findings.jsonl", "iteration_log.jsonl", "directions_tried.json"] {
        let path = repo.file(state(name));
        let said = format!("repaired: wrote the missing {} from the records again\n", path.display());
        assert!(done.contains(&said), "{name}: {done}");
    }
    assert!(!done.contains("dropped") && !done.contains("damaged"), "{done}");
    let copies = copies(&repo.file(".autoresearch/t/state"), ".damaged");
    assert_eq!(copies, [], "nothing was there to be kept");
}

#[test]
fn a_session_whose_journal_is_made_again_was_last_seen_when_its_log_was_written() {
    let repo = session();
    let log = repo.read(".autoresearch/t/logs/work.jsonl");
    let last: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    repo.rm(state("progress.json"));
    let mut later = ar_command(&repo, &repo.path(), ["doctor", "--repair"]);
    Called::from(later.env("AR_CLOCK", "2026-11-22T22:00:00Z").output().unwrap()).ok();
    let journal: Value = serde_json::from_str(&repo.read(state("progress.json"))).unwrap();
    assert_eq!(journal["last_seen"], last["ts"]);
}

#[test]
fn a_contract_that_was_changed_is_mended_as_it_was_approved() {
    let repo = session();
    let approved = serde_json::from_str::<Value>(&repo.read(state("contract.json"))).unwrap();
    let changes: [fn(&mut Value); 4] = [
        |terms| terms["command"] = json!("sh other.sh"),
        |terms| terms["limits"] = json!(["memory_gb<=99"]),
        |terms| terms["on_event"] = json!("touch ../forged"),
        |terms| terms["hash"] = json!("0"),
    ];
    for change in changes {
        edit(&repo, &state("contract.json"), change);
        let status = ar(&repo, ["status"]).ok().stdout;
        assert!(status.contains("contract.json was changed after it was approved"), "{status}");
        ar(&repo, ["brief", "t"]).exits(6);
        doctor(&repo, &[], 1);
        let done = doctor(&repo, &["--repair"], 0);
        assert!(done.contains("approved at the start from the baseline's record"), "{done}");
        assert_eq!(serde_json::from_str::<Value>(&repo.read(state("contract.json"))).unwrap(), approved);
        doctor(&repo, &[], 0);
    }
}

#[test]
fn all_at_once_is_mended_from_the_refs() {
    let (repo, twin) = (session(), session());
    for id in 0..4 {
        empty(&repo, &format!(".git/refs/autoresearch/t/{id:05}"));
    }
    empty(&repo, ".git/refs/heads/autoresearch/t");
    fs::remove_dir_all(repo.file(".autoresearch")).unwrap();
    repo.write("results.tsv", "");
    doctor(&repo, &[], 1);
    doctor(&repo, &["--repair"], 0);
    assert_healthy(&repo, "all at once");
    go_on(&repo, &["resume", "t"], 1).ok();
    go_on(&twin, &["resume", "t"], 1).ok();
    assert_eq!(outcome(&repo), outcome(&twin));
}

/// The files in a folder whose names hold `part`, with their content.
fn copies(folder: &Path, part: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = fs::read_dir(folder)
        .unwrap()
        .flatten()
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
        .filter(|(name, _)| name.contains(part))
        .map(|(name, path)| (name, fs::read_to_string(path).unwrap()))
        .collect();
    found.sort();
    found
}

#[test]
fn rows_of_others_stay_and_whatever_is_replaced_is_kept_beside_it() {
    let repo = session();
    let whole = repo.read("results.tsv");
    let rows: Vec<&str> = whole.lines().collect();
    let mine = "deadbeef\t1.25\t2.0\timproved\tby hand";
    let damaged = format!("{}\n{mine}\n{}\n{}\n{}", rows[0], rows[2], rows[3], &rows[4][..12]);
    repo.write("results.tsv", &damaged);
    let torn = [state("progress.json"), state("findings.jsonl")].map(|path| {
        repo.write(&path, "{\"version\": 1, \"it");
        path
    });
    assert!(doctor(&repo, &[], 1).contains("no row of experiment 0 of t, 3 of t"));
    doctor(&repo, &["--repair"], 0);
    let mended = format!("{}\n{mine}\n{}\n{}\n{}\n{}\n", rows[0], rows[1], rows[2], rows[3], rows[4]);
    assert_eq!(repo.read("results.tsv"), mended);
    assert!(doctor(&repo, &[], 0).contains("4 rows of ar, and 1 foreign row"));
    for path in &torn {
        assert_eq!(repo.read(format!("{path}.damaged")), "{\"version\": 1, \"it");
    }
    assert_eq!(copies(&repo.path(), "before"), [("results.tsv.before-repair".to_owned(), damaged)]);
    repo.write("results.tsv", rows[0]);
    doctor(&repo, &["--repair"], 0);
    let names: Vec<String> = copies(&repo.path(), "before").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["results.tsv.before-repair", "results.tsv.before-repair-2"]);
}

#[test]
fn the_row_of_an_experiment_that_was_being_settled_is_written_once() {
    for (phase, keep_row) in [("recording", false), ("settling", false), ("settling", true)] {
        let repo = session();
        let before = outcome(&repo);
        let last: Value =
            serde_json::from_str(&repo.git(["for-each-ref", "--format=%(contents:body)", "refs/autoresearch/t/00003"]))
                .unwrap();
        edit(&repo, &state("progress.json"), |journal| {
            let rows_from = repo.read("results.tsv").len();
            let open = json!({
                "id": 3, "base": last["base"], "commit": last["commit"], "description": last["description"],
                "started": last["started"], "runs": 1, "rows_from": rows_from,
            });
            journal["attempts"] = json!([{"phase": phase, "open": open}]);
        });
        // A row of the first half is torn too, so that the file is mended and its length changes.
        let rows = repo.read("results.tsv");
        let kept: Vec<&str> =
            rows.lines().filter(|row| keep_row || !row.starts_with(&rows.lines().last().unwrap()[..8])).collect();
        repo.write("results.tsv", kept[..2].iter().chain(&kept[3..]).map(|row| format!("{row}\n")).collect::<String>());
        assert!(
            doctor(&repo, &[], 1).contains("no row of experiment 1 of t\n"),
            "the open one has its row still to come"
        );
        let said = doctor(&repo, &["--repair"], 0);
        assert!(said.contains("experiment 3 is open") && said.contains("hint: ar resume t"), "{said}");
        ar(&repo, ["resume", "t"]).ok();
        assert_eq!(outcome(&repo), before, "{phase}");
        assert_healthy(&repo, phase);
    }
}

#[test]
fn a_session_beside_has_its_rows_in_the_same_file() {
    let repo = session();
    repo.git(["switch", "--quiet", "main"]);
    ar(&repo, ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "u"]).ok();
    let rows = repo.read("results.tsv");
    assert_eq!(rows.lines().count(), 6);
    let branch = object(&repo, "HEAD");
    repo.rm("results.tsv");
    assert!(doctor(&repo, &["t"], 1).contains("hint: ar doctor t --repair"));
    doctor(&repo, &["t", "--repair"], 0);
    let mut mended: Vec<String> = repo.read("results.tsv").lines().map(str::to_owned).collect();
    let mut expected: Vec<String> = rows.lines().map(str::to_owned).collect();
    mended.sort();
    expected.sort();
    assert_eq!(mended, expected, "both baselines are there, on the same commit");
    assert_eq!(object(&repo, "HEAD"), branch);
    repo.git(["switch", "--quiet", "main"]);
    let said = doctor(&repo, &[], 0);
    assert!(said.contains("t: 3 experiments") && said.contains("u: 0 experiments"), "{said}");
}
