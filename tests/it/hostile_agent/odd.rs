//! Pipes, folders, links and floods in the place of files.

use std::fs;
use std::process::Command;

use super::harness::{assert_undone, assert_undone_with, record, repo, runs, said, session};
use crate::support::{TestRepo, ar_in_time};

/// Puts a pipe in the place of a file of the working tree's.
fn pipe(repo: &TestRepo, path: &str) {
    let _ = fs::remove_file(repo.file(path));
    assert!(Command::new("mkfifo").arg(repo.file(path)).status().unwrap().success(), "{path}");
}

#[test]
fn a_pipe_in_the_place_of_a_file_that_git_or_the_loop_reads_holds_nothing_up() {
    let (repo, _) = assert_undone(&[
        ("mkfifo program.md", "program.md out of the prompt: it is not a regular file"),
        ("mkfifo .gitignore", ".gitignore.replaced"),
        ("mkdir -p src/sub; echo 1 > src/value; mkfifo src/sub/.gitignore", "src/sub/.gitignore.replaced"),
        ("mkfifo .gitattributes .gitmodules", ".gitattributes.replaced"),
        ("rm .git/index; mkfifo .git/index", ".git/index.rewritten"),
        ("rm .git/HEAD; mkfifo .git/HEAD", ".git/HEAD.rewritten"),
        ("rm .git/config; mkfifo .git/config", ".git/config.rewritten"),
        ("rm -f .git/packed-refs; mkfifo .git/packed-refs", ".git/packed-refs.rewritten"),
        ("rm .git/info/exclude; mkfifo .git/info/exclude", ".git/info/exclude.re"),
        ("mkfifo .git/MERGE_HEAD .git/ORIG_HEAD", "ended an unfinished merge"),
        ("mkdir src/nested; mkfifo src/nested/.git", "src/nested/.git.replaced"),
        ("rm results.tsv; mkfifo results.tsv", "results.tsv.before-repair"),
        ("rm $S/../lock; mkfifo $S/../lock", ""),
        ("mkfifo $S/../stop.json; rm -f .autoresearch/ideas.jsonl; mkfifo .autoresearch/ideas.jsonl", ""),
        ("rm -f autoresearch-lessons.md; mkfifo autoresearch-lessons.md", ""),
        ("mkfifo .git/refs/autoresearch/t/00077 .git/autoresearch-refs", ""),
        ("true", ""),
    ]);
    assert_eq!(repo.git(["config", "user.name"]), "Test");
    pipe(&repo, ".gitignore");
    for command in ["resume", "doctor"] {
        let called = ar_in_time(&repo, [command]);
        assert!(called.code != Some(0) && said(&called).contains(".gitignore is not a regular file"), "{called:?}");
        assert!(said(&called).contains("mv "), "{called:?}");
    }
    fs::remove_file(repo.file(".gitignore")).unwrap();
    for file in ["contract.json", "progress.json", "untracked.json", "findings.jsonl", "iteration_log.jsonl"] {
        pipe(&repo, &format!(".autoresearch/t/state/{file}"));
        for command in ["status", "brief", "report", "doctor"] {
            ar_in_time(&repo, [command]);
        }
    }
    pipe(&repo, "ar.toml");
    let called = ar_in_time(&repo, ["run", "--tag", "new"]).exits(1);
    assert!(called.stderr.contains("ar.toml: it is not a regular file\nhint: run `ls -l "), "{called:?}");
    let called = ar_in_time(&repo, ["resume"]);
    assert!(
        called.stderr.contains("contract.json") && !called.stderr.contains("error: cannot read ar.toml"),
        "{called:?}"
    );
    fs::remove_file(repo.file("ar.toml")).unwrap();
    let called = ar_in_time(&repo, ["resume"]);
    assert!(
        called.stderr.contains("contract.json\n  caused by: it is not a regular file\nhint: run `ls -l "),
        "{called:?}"
    );
    pipe(&repo, ".git/index");
    let called = ar_in_time(&repo, ["status"]);
    assert!(called.stderr.contains("/.git/index is not a regular file"), "{called:?}");
    assert!(called.stderr.contains("hint: move it aside: mv "), "{called:?}");
}

#[test]
fn what_stands_in_the_place_of_files_in_the_folder_of_a_run_is_moved_away() {
    let flags = ["--guard", "true", "--on-event", "cat > /dev/null"];
    let (repo, _) = assert_undone_with(
        &flags,
        &[
            ("mkdir $AR_RUN_DIR/guard-1.log $AR_RUN_DIR/guard-1.exit.json", "runs/00001/guard-1.log.replaced"),
            (
                "mkdir $AR_RUN_DIR/agent.exit.json $AR_RUN_DIR/agent.started.json.x; rm $AR_RUN_DIR/agent.job.json; \
                    mkdir $AR_RUN_DIR/agent.job.json",
                "",
            ),
            ("rm $AR_RUN_DIR/agent.log; mkfifo $AR_RUN_DIR/agent.log", ""),
            ("rm $AR_RUN_DIR/agent.log; mkdir $AR_RUN_DIR/agent.log", ""),
            (
                "N=$AR_RUN_DIR/../00006; mkdir -p $N/proposal.json $N/prompt.md $N/agent.log $N/lock \
                    $N/agent.exit.json $N/.ar-x",
                "",
            ),
            ("true", "runs/00006/proposal.json.replaced"),
            ("ln -s /nonexistent $AR_RUN_DIR/../00008", ""),
            ("L=$S/../logs/on-event.log; rm -f $L; mkfifo $L", ""),
            ("rm -r $S/../logs; ln -s /nonexistent $S/../logs", ""),
            ("rm $AR_RUN_DIR/lock; mkdir $AR_RUN_DIR/lock", ""),
            ("true", ""),
        ],
    );
    assert!(repo.exists(".autoresearch/t/runs/00008.replaced"));
}

#[test]
fn a_call_whose_folder_is_gone_or_whose_end_cannot_be_read_is_no_error() {
    let repo = repo();
    let attacks = [
        "rm -r $AR_RUN_DIR; ln -s /nonexistent $AR_RUN_DIR",
        "rm -r $AR_RUN_DIR; ln -s 00001 $AR_RUN_DIR",
        "mkdir $AR_PROPOSAL",
        "[ -e ../once ] || { touch ../once; mkdir $AR_RUN_DIR/agent.exit.json; kill -KILL $PPID; sleep 9; }",
        "true",
    ];
    let called = session(&repo, &attacks, &["--guard", "true"]).ok();
    assert_eq!(runs(&repo), attacks.len() + 1, "{called:#?}");
    assert_eq!(record(&repo, 5)["description"], "number 5");
    assert!(said(&called).contains("runs/00003/proposal.json: cannot read it: it is not a regular file"), "{called:?}");
}

#[test]
fn a_flood_in_the_place_of_a_file_is_not_read() {
    let repo = repo();
    let flood = "truncate -s 100G";
    let attacks = [
        &format!("{flood} $AR_PROPOSAL") as &str,
        &format!("{flood} $S/progress.json $S/findings.jsonl results.tsv"),
        &format!("{flood} .autoresearch/ideas.jsonl autoresearch-lessons.md"),
        &format!("{flood} $AR_RUN_DIR/agent.exit.json $AR_RUN_DIR/run.log"),
        &format!("{flood} $S/../stop.json"),
        "true",
    ];
    let called = session(&repo, &attacks, &["--allow-repeats"]).ok();
    let passed_over = "runs/00001/proposal.json: cannot read it: it is larger than 1048576 bytes";
    assert!(said(&called).contains(passed_over), "{called:#?}");
    assert!(said(&called).contains("results.tsv was not a file or far too large"), "{called:?}");
    assert_eq!(runs(&repo), 6, "{called:#?}");
    assert_eq!(repo.read("results.tsv").lines().count(), 7);
}

#[test]
fn a_pipe_in_the_folder_of_the_session_holds_nothing_up_when_git_is_told_to_look_there() {
    let repo = repo();
    let cases = "\
        1) echo '!/.autoresearch/' > .gitignore; echo 1.5 > src/value;;\n\
        2) rm .gitignore; mkdir .autoresearch/p; mkfifo .autoresearch/p/.gitignore; echo 3 > src/value;;\n\
        3) git add -f .autoresearch/t/state/task_spec.md; mkfifo .autoresearch/t/.gitattributes; echo 4 > src/value;;\n";
    let agent = format!("cat > /dev/null; case $AR_EXPERIMENT in\n{cases}esac");
    let args = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--cmd", "sh eval.sh", "--max-experiments", "3"];
    let called = ar_in_time(&repo, args.into_iter().chain(["--agent", &agent])).ok();
    assert!(said(&called).contains(".autoresearch/t/.gitattributes.replaced"), "{called:?}");
    let change = repo.git(["show", "--name-only", "--format=", "refs/autoresearch/t/00001^{commit}"]);
    assert_eq!(change, ".gitignore\nsrc/value");
    assert_eq!(repo.git(["for-each-ref", "refs/autoresearch/t/0*"]).lines().count(), 4);
}
