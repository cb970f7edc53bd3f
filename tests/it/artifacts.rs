//! `--artifact`: the files that a kept run leaves, and those of no other.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::guards::{self, record};
use crate::run_loop::training_repo;
use crate::support::{Called, SmallDisk, TestRepo, ar};

/// A repository whose runs write what `value` holds into `out/best.pt` and print it.
fn checkpoint_repo() -> TestRepo {
    let repo = training_repo();
    repo.write(
        "train.sh",
        "mkdir -p out\n. ./more.sh\necho weights of $(cat value) > out/best.pt\necho val_bpb: $(cat value)\n",
    );
    repo.write("more.sh", "");
    repo.write("value", "2.0\n");
    repo.write(".gitignore", "out/\n");
    repo.commit_all("a checkpoint");
    repo
}

/// Runs an experiment for each of `edits`, a shell line each.
fn run(repo: &TestRepo, edits: &[&str], more: &[&str]) -> Called {
    let cases: String = (1..).zip(edits).map(|(n, edit)| format!("{n}) {edit};; ")).collect();
    let agent = format!("case $AR_EXPERIMENT in {cases} esac");
    let count = edits.len().to_string();
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", &agent];
    ar(repo, args.iter().chain(&["--max-experiments", &count]).chain(more))
}

/// Better, worse, better.
const EDITS: [&str; 3] = ["echo 1.9 > value", "echo 2.5 > value", "echo 1.5 > value"];

/// All files below the folders of artifacts of an experiment, also of what is not settled, with what they hold.
pub(crate) fn left(repo: &TestRepo, id: u32) -> BTreeMap<String, String> {
    let run = repo.file(format!(".autoresearch/t/runs/{id:05}"));
    let mut files = BTreeMap::new();
    let further = fs::read_dir(&run).into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut folders: Vec<_> = further.map(|folder| folder.join("artifacts.part")).collect();
    folders.extend([run.join("artifacts"), run.join("artifacts.part")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(&run).unwrap().display().to_string();
                files.insert(name, fs::read_to_string(&path).unwrap_or_default());
            }
        }
    }
    files
}

/// The one file that an experiment left, if it did.
fn best(repo: &TestRepo, id: u32) -> Option<String> {
    let files = left(repo, id);
    assert!(files.keys().all(|name| name == "artifacts/out/best.pt"), "{files:?}");
    files.into_values().next()
}

#[test]
fn the_artifacts_of_keeps_are_saved_listed_and_brought_out() {
    let repo = checkpoint_repo();
    run(&repo, &EDITS, &["--artifact", "out/*.pt"]).ok();
    let saved: Vec<_> = (0..=3).map(|id| best(&repo, id)).collect();
    let weights = |value| Some(format!("weights of {value}\n"));
    assert_eq!(saved, [weights("2.0"), weights("1.9"), None, weights("1.5")]);
    assert_eq!(record(&repo, 3)["artifacts"], json!([{"path": "out/best.pt", "bytes": 15}]));
    assert_eq!(record(&repo, 2).get("artifacts"), None);
    assert!(!repo.exists(".autoresearch/t/runs/00003/artifacts.json"));
    // A script that goes on from its checkpoint changes its own alone.
    let inode = |path: &str| fs::metadata(repo.file(path)).unwrap().ino();
    assert_ne!(inode("out/best.pt"), inode(".autoresearch/t/runs/00003/artifacts/out/best.pt"));

    let report = ar(&repo, ["report"]).ok().stdout;
    let headline = report.lines().next().unwrap();
    assert!(headline.ends_with(", artifacts in .autoresearch/t/runs/00003/artifacts"), "{headline}");
    let document = ar(&repo, ["report", "--format", "json"]).ok().json();
    assert_eq!(document["artifacts"], ".autoresearch/t/runs/00003/artifacts");
    let shown = ar(&repo, ["show", "1"]).ok().stdout;
    let folder = repo.file(".autoresearch/t/runs/00001/artifacts");
    assert!(shown.contains("artifact     out/best.pt (15 B)\n"), "{shown}");
    assert!(shown.contains(&format!("artifacts    in {} (screen run, seed 1)\n", folder.display())), "{shown}");
    assert!(!ar(&repo, ["show", "2"]).ok().stdout.contains("artifact"));
    let shown = ar(&repo, ["show", "1", "--format", "json"]).ok().json();
    assert_eq!(shown["artifacts_folder"], folder.to_str().unwrap());

    let branches = repo.git(["branch", "--list"]);
    let called = ar(&repo, ["restore", "1", "--artifacts", "../one"]).ok();
    assert!(called.stdout.ends_with("../one/out/best.pt\n"), "{called:?}");
    assert_eq!(fs::read_to_string(repo.outside().join("one/out/best.pt")).unwrap(), "weights of 1.9\n");
    assert_eq!(repo.git(["branch", "--list"]), branches);
    for (args, words) in [
        (&["1", "--artifacts", "../one"][..], "one/out/best.pt already exists\nhint: name an empty folder"),
        (&["2", "--artifacts", "../two"], "error: experiment 2 has no artifacts\nhint: pass --artifact GLOB"),
    ] {
        let called = ar(&repo, ["restore"].iter().chain(args)).exits(1);
        assert!(called.stderr.contains(words), "{called:?}");
    }
    ar(&repo, ["restore", "1", "--artifacts", "../x", "--branch", "x"]).exits(2);
}

#[test]
fn a_record_from_elsewhere_leads_nowhere_else() {
    let repo = checkpoint_repo();
    run(&repo, &EDITS[..1], &["--artifact", "out/*.pt"]).ok();
    let forged = repo.git(["cat-file", "tag", "refs/autoresearch/t/00001"]).replace("out/best.pt", "../../../../x");
    fs::write(repo.outside().join("tag"), forged).unwrap();
    let tag = repo.git(["hash-object", "-w", "-t", "tag", "../tag"]);
    repo.git(["update-ref", "refs/autoresearch/t/00001", &tag]);
    let called = ar(&repo, ["restore", "1", "--artifacts", "../one"]).exits(1);
    assert!(called.stderr.contains("its path leads out of the folder"), "{called:?}");
}

#[test]
fn globs_that_match_what_is_no_artifact_are_refused_at_the_start() {
    let repo = checkpoint_repo();
    repo.write("data/test.pt", "the test set\n");
    repo.write(".gitignore", "out/\ndata/\n");
    repo.commit_all("data");
    for (glob, words) in [
        ("*.sh", "--artifact '*.sh' matches more.sh, which is tracked by git\nhint: name files that the run writes"),
        ("**/*.txt", "which is tracked by git"),
        ("data/*", "--artifact 'data/*' matches data/test.pt, which is protected"),
        ("**", "which is one of ar's own files"),
        ("results.*", "--artifact 'results.*' matches results.tsv, which is one of ar's own files"),
        (".autoresearch/t", "which is one of ar's own files"),
        ("../x", "`../x` is not a glob: it leads out of the repository"),
        ("a[", "`a[` is not a glob"),
    ] {
        let called = run(&repo, &EDITS, &["--protect", "data", "--artifact", "out/*.pt", "--artifact", glob]).exits(2);
        assert!(called.stderr.contains(words), "{glob}: {called:?}");
        assert!(!repo.exists(".autoresearch/t/state/contract.json"), "{glob}");
    }
    run(&repo, &EDITS[..1], &["--protect", "data", "--artifact", "o*/**/*.pt"]).ok();
    assert_eq!(best(&repo, 1).as_deref(), Some("weights of 1.9\n"));
    assert_eq!(best(&repo, 0).as_deref(), Some("weights of 2.0\n"));
}

#[test]
fn settings_of_artifacts_come_from_everywhere_and_may_change() {
    let repo = checkpoint_repo();
    repo.write("more.sh", "echo log > out/log.txt\n");
    repo.write("ar.toml", "artifacts = [\"out/*.pt\"]\nkeep-artifacts = \"1GB\"\n");
    repo.commit_all("settings");
    run(&repo, &EDITS[..1], &[]).ok();
    assert_eq!(best(&repo, 1).as_deref(), Some("weights of 1.9\n"));
    // Another one for the rest of the session; what is stored holds then.
    ar(&repo, ["resume", "--artifact", "out/log.txt", "--max-experiments", "1", "--agent", "echo 1.8 > value"]).ok();
    assert_eq!(left(&repo, 2).into_keys().collect::<Vec<_>>(), ["artifacts/out/log.txt"]);
    ar(&repo, ["resume", "--max-experiments", "1", "--agent", "echo 1.7 > value"]).ok();
    assert_eq!(left(&repo, 3).into_keys().collect::<Vec<_>>(), ["artifacts/out/log.txt"]);
    ar(&repo, ["resume", "--artifact", "none", "--max-experiments", "1", "--agent", "echo 1.6 > value"]).ok();
    assert_eq!(left(&repo, 4), BTreeMap::new());
    let called = ar(&repo, ["resume", "--artifact", "*.sh", "--max-experiments", "5"]).exits(2);
    assert!(called.stderr.contains("tracked by git"), "{called:?}");
}

#[test]
fn a_glob_that_matches_a_file_which_a_keep_added_is_refused_by_resume() {
    let repo = checkpoint_repo();
    run(&repo, &["echo 1.9 > value; echo weights > new.pt"], &[]).ok();
    assert_eq!(repo.git(["ls-tree", "--name-only", "autoresearch/t", "new.pt"]), "new.pt");
    let resume = ["resume", "--artifact", "*.pt", "--max-experiments", "1", "--agent", "echo 1.8 > value"];
    let called = ar(&repo, resume).exits(2);
    assert!(called.stderr.contains("--artifact '*.pt' matches new.pt, which is tracked by git"), "{called:?}");
    repo.git(["switch", "--quiet", "main"]);
    ar(&repo, resume.into_iter().chain(["--slots", "1"])).exits(2);
}

#[test]
fn only_regular_files_that_the_run_changed_are_saved() {
    let repo = checkpoint_repo();
    repo.write("out/old.pt", "of another day\n");
    repo.write("out/touched.pt", "of another day\n");
    repo.write(
        "more.sh",
        "touch out/touched.pt\nln -sf best.pt out/link.pt\n[ -e out/fifo.pt ] || mkfifo out/fifo.pt\n\
         echo odd > 'out/a\nb \u{e9}.pt'\nprintf x > \"out/$(printf 'c\\351').pt\"\n\
         echo two > out/one.pt\nln -f out/one.pt out/two.pt\nmkdir -p out/deep/.git\necho no > out/deep/x.pt\n",
    );
    repo.commit_all("odd files");
    let called = run(&repo, &EDITS[..1], &["--artifact", "out/**/*.pt"]).ok();
    let files: Vec<_> = left(&repo, 1).into_keys().collect();
    let names = ["a\nb \u{e9}.pt", "best.pt", "one.pt", "touched.pt", "two.pt"];
    assert_eq!(files, names.map(|name| format!("artifacts/out/{name}")));
    for words in [
        "skipped artifacts that are not regular files: out/fifo.pt, out/link.pt",
        "did not save artifacts of experiment 1: out/c\u{fffd}.pt (its name is not UTF-8)",
    ] {
        assert!(called.stderr.contains(words) || called.stdout.contains(words), "{words}: {called:#?}");
    }
    let links = |name: &str| {
        fs::metadata(repo.file(format!(".autoresearch/t/runs/00001/artifacts/out/{name}"))).unwrap().nlink()
    };
    assert_eq!((links("one.pt"), links("two.pt")), (1, 1));
    // Names with line breaks stay on their lines.
    let shown = ar(&repo, ["show", "1"]).ok().stdout;
    assert!(shown.contains("artifact     out/a b \u{e9}.pt (4 B)\n"), "{shown}");
    ar(&repo, ["restore", "1", "--artifacts", "../one"]).ok();
    assert!(repo.outside().join("one/out/a\nb \u{e9}.pt").exists());
}

#[test]
fn the_best_keeps_its_artifacts_and_the_newest_as_far_as_there_is_space() {
    let repo = checkpoint_repo();
    run(&repo, &EDITS, &["--artifact", "out/*.pt", "--keep-artifacts", "20B"]).ok();
    let saved: Vec<bool> = (0..=3).map(|id| best(&repo, id).is_some()).collect();
    assert_eq!(saved, [false, false, false, true]);
    let shown = ar(&repo, ["show", "1"]).ok().stdout;
    let why = "deleted the artifacts of experiment 1 to stay within --keep-artifacts 20B";
    assert!(shown.contains(why), "{shown}");
    let called = ar(&repo, ["restore", "1", "--artifacts", "../one"]).exits(1);
    assert!(called.stderr.contains(&format!("are gone: {why}")), "{called:?}");
    // More space for the next ones, and less when it is asked for.
    ar(&repo, ["resume", "--keep-artifacts", "all", "--max-experiments", "1", "--agent", "echo 1.4 > value"]).ok();
    assert!(best(&repo, 3).is_some() && best(&repo, 4).is_some());
    ar(&repo, ["resume", "--keep-artifacts", "0", "--max-experiments", "0"]).ok();
    assert!(best(&repo, 3).is_none() && best(&repo, 4).is_some());
}

#[test]
fn of_a_change_that_was_reworked_the_version_that_is_kept_leaves_its_own() {
    let repo = guards::repo();
    repo.write("eval.sh", ". ./src/value; mkdir -p out; cp src/value out/best.pt\n");
    repo.commit_all("a checkpoint");
    let flags =
        ["--guard", "sh guard.sh", "--guard", "echo guard > out/best.pt; echo x > out/guard.pt", "--artifact", "out"];
    let edits = [
        "echo echo val_bpb: 1.5 > src/value; echo exit 1 > src/check",
        "echo echo val_bpb: 1.4 > src/value; echo : > src/check",
    ];
    guards::session(&repo, &flags, &edits, 1).ok();
    assert_eq!(record(&repo, 1)["versions"].as_array().unwrap().len(), 1);
    assert_eq!(best(&repo, 1).as_deref(), Some("echo val_bpb: 1.4\n"));
    // One that is refused for good leaves nothing.
    let repo = guards::repo();
    repo.write("eval.sh", ". ./src/value; mkdir -p out; cp src/value out/best.pt\n");
    repo.commit_all("a checkpoint");
    let edits = ["echo echo val_bpb: 1.5 > src/value; echo exit 1 > src/check", ":"];
    guards::session(&repo, &flags, &edits, 1).ok();
    assert_eq!((&record(&repo, 1)["outcome"], best(&repo, 1)), (&json!("discard"), None));
    assert_eq!(record(&repo, 1).get("artifacts"), None);
}

#[test]
fn a_run_again_and_a_check_leave_nothing_and_a_try_leaves_its_own() {
    let repo = checkpoint_repo();
    repo.write("value", "1.9\n");
    let args =
        ["try", "-m", "first", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--artifact", "out/*.pt"];
    ar(&repo, args).ok();
    repo.write("value", "2.2\n");
    ar(&repo, ["try", "-m", "second"]).ok();
    ar(&repo, ["repro", "1"]).ok();
    let saved: Vec<_> = (0..=3).map(|id| best(&repo, id)).collect();
    let weights = |value| Some(format!("weights of {value}\n"));
    assert_eq!(saved, [weights("2.0"), weights("1.9"), None, None]);
    // What takes the code out, or looks for damage, leaves them alone.
    ar(&repo, ["doctor"]).ok();
    ar(&repo, ["finalize"]).ok();
    assert_eq!(best(&repo, 1), weights("1.9"));
    fs::remove_file(repo.file(".autoresearch/t/state/progress.json")).unwrap();
    ar(&repo, ["doctor", "--repair"]).ok();
    assert_eq!(best(&repo, 1), weights("1.9"));
}

#[test]
fn artifacts_for_which_there_is_no_room_are_named_and_the_experiment_is_kept() {
    let repo = checkpoint_repo();
    repo.write("more.sh", "head -c 1500000 /dev/zero > out/large.pt\n");
    repo.commit_all("large");
    let Some(_disk) = SmallDisk::under(&repo) else {
        eprintln!("skipped: no small file system can be mounted here");
        return;
    };
    let called = run(&repo, &EDITS[..1], &["--artifact", "out/*.pt"]).ok();
    let words = "did not save artifacts of experiment 1: out/large.pt (No space left on device";
    assert!(called.stderr.contains(words) || called.stdout.contains(words), "{called:#?}");
    let kept = record(&repo, 1);
    assert_eq!(
        (&kept["outcome"], &kept["artifacts"]),
        (&json!("keep"), &json!([{"path": "out/best.pt", "bytes": 15}]))
    );
    assert_eq!(left(&repo, 1).into_keys().collect::<Vec<_>>(), ["artifacts/out/best.pt"]);
    // With the best one's alone there is room again.
    ar(&repo, ["resume", "--keep-artifacts", "0", "--max-experiments", "1", "--agent", "echo 1.8 > value"]).ok();
    assert_eq!(left(&repo, 2).len(), 2);
}

#[test]
fn what_others_put_in_the_place_of_the_folder_harms_nothing() {
    let repo = checkpoint_repo().without_walls();
    fs::create_dir(repo.outside().join("mine")).unwrap();
    fs::write(repo.outside().join("mine/file"), "mine").unwrap();
    let mine: PathBuf = repo.outside().join("mine");
    repo.write(
        "more.sh",
        format!("ln -s {} \"$AR_RUN_DIR/artifacts.part\"\nmkfifo \"$AR_RUN_DIR/artifacts\"\n", mine.display()),
    );
    repo.commit_all("odd");
    run(&repo, &EDITS[..2], &["--artifact", "out/*.pt"]).ok();
    assert_eq!(best(&repo, 1).as_deref(), Some("weights of 1.9\n"));
    assert_eq!(fs::read_dir(&mine).unwrap().count(), 1);
    // Without the list of before it is not known what the run wrote.
    let again = checkpoint_repo().without_walls();
    let damaged = "echo '{\"version\": 1, \"globs\": [\"[\"], \"files\": {}}'";
    again.write("more.sh", format!("{damaged} > \"$AR_RUN_DIR/artifacts.json\"\n"));
    again.commit_all("no list");
    let called = run(&again, &EDITS[..1], &["--artifact", "out/*.pt"]).ok();
    let words = "saved no artifacts of experiment 1: its run began without a list of the files that match";
    assert!(called.stderr.contains(words) || called.stdout.contains(words), "{called:#?}");
    assert_eq!((best(&again, 1), &record(&again, 1)["outcome"]), (None, &json!("keep")));
}

/// Checks that exactly the keeps have what their records list, and that nothing else is left.
#[track_caller]
pub(crate) fn check_artifacts(repo: &TestRepo, records: &[Value], what: &str) {
    let runs = fs::read_dir(repo.file(".autoresearch/t/runs")).unwrap();
    for run in runs {
        let id: u32 = run.unwrap().file_name().to_str().unwrap().parse().unwrap();
        let record = records.iter().find(|record| record["id"] == id);
        let listed = record.and_then(|record| record["artifacts"].as_array()).cloned().unwrap_or_default();
        let listed: Vec<_> = listed.iter().map(|it| format!("artifacts/{}", it["path"].as_str().unwrap())).collect();
        assert_eq!(left(repo, id).into_keys().collect::<Vec<_>>(), listed, "{what}: experiment {id}: {record:?}");
        let is_kept = record.is_some_and(|record| record["outcome"] == "keep");
        assert!(is_kept || listed.is_empty(), "{what}: {record:?}");
    }
}
