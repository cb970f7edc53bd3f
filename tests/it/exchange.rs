//! Sessions that come from other tools' ledgers, and sessions that go to other tools.

use std::fs;

use serde_json::{Value, json};

use crate::run_loop::{agent, training_repo};
#[cfg(debug_assertions)]
use crate::support::ar_command;
use crate::support::{Called, TestRepo, ar};

fn called(repo: &TestRepo, args: &str) -> Called {
    ar(repo, args.split(' '))
}

/// A repository with three commits, and a ledger whose rows name the first two, and what is not there.
fn repo_with_ledger() -> (TestRepo, Vec<String>) {
    let repo = TestRepo::new();
    for change in ["second", "third"] {
        repo.write("train.py", change);
        repo.commit_all(change);
    }
    let commits: Vec<String> = repo.git(["rev-list", "--reverse", "HEAD"]).lines().map(str::to_owned).collect();
    let ledger = format!(
        "commit\tval_bpb\tmemory_gb\tstatus\tdescription\n\
         {}\t1.50\t10.0\tkeep\tbase\n\
         deadbeef\t1.60\t10.0\tdiscard\tlost, \"the\" one\n\
         torn\n\
         {}\t1.40\t11.0\tkeep\tbetter\n\
         HEAD\t0.000000\t0.0\tcrash\tboom\n",
        &commits[0][..7],
        commits[1].to_uppercase()
    );
    repo.write("results.tsv", ledger);
    (repo, commits)
}

fn records(repo: &TestRepo, tag: &str) -> Vec<Value> {
    called(repo, &format!("export {tag} --to jsonl")).ok().json_lines()
}

#[test]
fn a_ledger_becomes_a_session_that_claims_only_what_is_known() {
    let (repo, commits) = repo_with_ledger();
    let before = (repo.git(["rev-parse", "HEAD"]), repo.read("results.tsv"));
    let plan = called(&repo, "import results.tsv --tag old --dry-run").ok();
    assert!(plan.stdout.contains("would import 4 experiments of results.tsv as session old: 2 keep, 1 discard, 1 crash; 2 with the commit, 2 without"), "{plan:?}");
    assert!(plan.stdout.contains("not known     lost") && !repo.exists(".git/refs/autoresearch"), "{plan:?}");
    let import = called(&repo, "import results.tsv --tag old -v").ok();
    for said in ["results.tsv:4: 1 field, not 5", "left out 1 row that cannot be read"] {
        assert!(import.stderr.contains(said), "{import:?}");
    }
    assert!(!import.stderr.contains("number that cannot"), "{import:?}");
    repo.write("comma.tsv", "commit\tval_bpb\tstatus\ndeadbeef\t1,50\tkeep\ntorn\ndeadbee0\t1,40\tkeep\n");
    let comma = called(&repo, "import comma.tsv --tag comma --dry-run").ok().stderr;
    assert!(
        comma.contains("left out 1 row that") && comma.contains("left out 2 numbers that cannot be read"),
        "{comma}"
    );
    let body = "--format=%(refname:lstrip=2) %(*objectname) %(contents:body)";
    let refs = repo.git(["for-each-ref", body, "refs/autoresearch"]);
    let refs: Vec<&str> = refs.lines().filter(|line| !line.is_empty()).collect();
    let known = |id: usize, commit: &str| assert!(refs[id].starts_with(&format!("old/{id:05} {commit} ")), "{refs:?}");
    known(0, &commits[0]);
    known(1, &commits[0]);
    known(2, &commits[1]);
    let all = records(&repo, "old");
    let nobody = "0".repeat(40);
    let of = |id: usize| (all[id]["commit"].as_str().unwrap(), all[id]["base"].as_str().unwrap());
    assert_eq!(of(1), (nobody.as_str(), nobody.as_str()));
    assert_eq!(of(2), (commits[1].as_str(), commits[0].as_str()));
    assert_eq!(
        all[1]["imported"],
        json!({"file": "results.tsv", "line": 3, "status": "discard", "commit_text": "deadbeef", "commit_known": false})
    );
    assert_eq!((&all[3]["outcome"], &all[3]["metric"]["value"]), (&json!("crash"), &Value::Null));

    let report = called(&repo, "report old --format json").ok().json();
    assert_eq!(
        (&report["best"]["id"], &report["experiments"][1]["commit"], &report["times"]),
        (&json!(2), &Value::Null, &Value::Null)
    );
    let doctor = called(&repo, "doctor").ok().stdout;
    assert!(doctor.contains("old: imported; it has records and no branch"), "{doctor}");
    called(&repo, "doctor --repair").ok();
    assert_eq!(
        called(&repo, "log old --outcome keep --columns id,commit,when --format csv").ok().stdout.lines().nth(1),
        Some(&*format!("0,{},", &commits[0][..8]))
    );
    let status = called(&repo, "status old").ok().stdout;
    assert!(status.contains("imported") && !status.contains("damage") && !status.contains("ar try"), "{status}");
    assert!(status.contains("ar restore best --tag old"), "{status}");
    assert!(called(&repo, "show 2 --tag old").ok().stdout.contains("+second"));
    assert!(!called(&repo, "show 1 --tag old").ok().stdout.contains("000000"));
    for (args, why) in [
        ("restore 1 --tag old", "line 3 of results.tsv names `deadbeef`, a commit that does not exist here"),
        ("diff 0 3 --tag old", "names `HEAD`"),
        ("note 1 hm --tag old", "is unknown"),
        ("repro 2 --tag old", "was imported: it has no command"),
        ("run --tag old --yes", "was imported"),
        ("resume old", "was imported"),
        ("brief old", "was imported"),
        ("import results.tsv --tag old", "session old already exists"),
    ] {
        let refused = called(&repo, args).exits(1);
        assert!(refused.stderr.contains(why) && refused.stderr.contains("hint: "), "{args}: {refused:?}");
    }
    called(&repo, "restore 2 --tag old").ok();
    assert_eq!(repo.git(["rev-parse", "old-2"]).trim(), commits[1]);
    called(&repo, "finalize old").ok();
    assert_eq!(
        repo.git(["rev-parse", "old-final^{tree}"]),
        repo.git(["rev-parse", &format!("{}^{{tree}}", commits[1])])
    );
    assert_eq!((repo.git(["rev-parse", "HEAD"]), repo.read("results.tsv")), before);
    assert_eq!(repo.git(["fsck", "--full", "--strict"]), "");
    let empty = called(&repo, "import README.md --tag none").exits(1);
    let words = "no row of README.md can be imported\nhint: run `ar log --ledger README.md` to see what can be read\n";
    assert!(empty.stderr.contains(words), "{empty:?}");
    repo.write("lost.tsv", "commit\tval_bpb\tstatus\ndeadbeef\t1.50\tkeep\n");
    called(&repo, "import lost.tsv --tag lost").ok();
    let lost = called(&repo, "status lost").ok().stdout;
    assert!(lost.contains("ar report lost") && !lost.contains("ar restore"), "{lost}");
}

#[test]
fn rows_of_an_imported_session_are_not_written_into_results() {
    let repo = training_repo();
    repo.write("theirs.tsv", "commit\tval_bpb\tstatus\tdescription\nHEAD\t9.5\tkeep\ttheirs\n");
    called(&repo, "import theirs.tsv --tag old").ok();
    let run = |count: &str| {
        let run = ["run", "--yes", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh", "--max-experiments"];
        ar(&repo, run.into_iter().chain([count, "--agent", &agent("better better")])).ok()
    };
    run("1");
    called(&repo, "doctor --repair").ok();
    repo.rm("results.tsv");
    run("1");
    let rows = repo.read("results.tsv");
    assert!(rows.lines().count() == 4 && !rows.contains("theirs"), "{rows}");
    called(&repo, "doctor").ok();
}

#[cfg(debug_assertions)]
#[test]
fn a_killed_import_leaves_nothing_of_a_session_or_all_of_it() {
    let points = [
        ("git.pack_kept", false),
        ("git.pack_written", false),
        ("git.tag_written", false),
        ("git.locks_named", false),
        ("git.ref_moved", true),
    ];
    for (point, is_there) in points {
        let (repo, _) = repo_with_ledger();
        let args = ["import", "results.tsv", "--tag", "old"];
        let mut import = ar_command(&repo, &repo.path(), args);
        import.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", format!("{point}:1"));
        assert!(!import.output().unwrap().status.success(), "{point}");
        let refs = repo.git(["for-each-ref", "refs/autoresearch"]).lines().count();
        assert_eq!(refs, if is_there { 4 } else { 0 }, "{point}");
        repo.git(["gc", "-q", "--prune=now"]);
        called(&repo, "import results.tsv --tag old").exits(i32::from(is_there));
        called(&repo, "import results.tsv --tag other").ok();
        assert_eq!(packs(&repo, "keep"), 0, "{point}: no mark stays");
        repo.git(["gc", "-q", "--prune=now"]);
        assert_eq!((packs(&repo, "pack"), packs(&repo, "idx"), packs(&repo, "new")), (1, 1, 0), "{point}");
        repo.git(["fsck", "--strict"]);
        called(&repo, "doctor").ok();
        assert_eq!((records(&repo, "old").len(), records(&repo, "other").len()), (4, 4), "{point}");
    }
}

/// How many of a repository's packs have a file of that kind.
fn packs(repo: &TestRepo, kind: &str) -> usize {
    let files = fs::read_dir(repo.file(".git/objects/pack")).unwrap();
    files.filter(|file| file.as_ref().unwrap().path().extension() == Some(kind.as_ref())).count()
}

#[test]
fn thousands_of_rows_come_as_one_pack_and_leave_a_session_that_answers() {
    let repo = TestRepo::new();
    let rows: String = (1..=4000)
        .map(|n| format!("{n:07x}\t{}.5\t1.0\t{}\tchange {n}\n", 5000 - n, if n == 1 { "keep" } else { "discard" }))
        .collect();
    repo.write("theirs.tsv", format!("commit\tval_bpb\tmemory_gb\tstatus\tdescription\n{rows}"));
    let before = repo.git(["count-objects"]);
    called(&repo, "import theirs.tsv --tag old").ok();
    assert_eq!(repo.git(["count-objects"]), before, "no object has a file of its own");
    assert!(!repo.exists(".git/refs/autoresearch"), "and no ref");
    assert_eq!((packs(&repo, "pack"), packs(&repo, "keep")), (1, 0));
    repo.git(["fsck", "--strict"]);
    let format = ["for-each-ref", "--format=%(refname) %(contents:subject)", "refs/autoresearch/old"];
    let refs = repo.git(format);
    assert_eq!(refs.lines().count(), 4000);
    assert_eq!(refs.lines().last(), Some("refs/autoresearch/old/03999 change 4000"));
    assert!(called(&repo, "report old").ok().stdout.contains("4000"));
    assert_eq!(called(&repo, "log old --top 5 --format csv").ok().stdout.lines().count(), 6);
    assert!(called(&repo, "status old").ok().stdout.contains("imported"));
    repo.git(["gc", "-q", "--prune=now"]);
    assert_eq!(repo.git(format), refs);
}

#[test]
fn a_session_is_exported_whole() {
    let (repo, _) = repo_with_ledger();
    called(&repo, "import results.tsv --tag old").ok();
    called(&repo, "note 2 look@again --tag old").ok();
    let written = repo.git(["for-each-ref", "--format=%(contents:body)", "refs/autoresearch/old"]);
    let bodies: Vec<Value> =
        written.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut exported = records(&repo, "old");
    assert_eq!(exported[2]["notes"][0]["text"], "look@again");
    exported[2].as_object_mut().unwrap().remove("notes");
    assert_eq!(exported, bodies);
    called(&repo, "export --to csv --output out.csv").ok();
    let csv = repo.read("out.csv");
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("id,session,commit,base,outcome,failure,metric,better,value,raw,memory_gb,"), "{csv}");
    assert!(lines[2].starts_with("1,old,,,discard,,val_bpb,lower,1.6,1.60,10,"), "{csv}");
    assert!(lines[2].contains("\"lost, \"\"the\"\" one\""), "{csv}");
    assert!(called(&repo, "export --to md").ok().stdout.contains("| look@again |"));
}
