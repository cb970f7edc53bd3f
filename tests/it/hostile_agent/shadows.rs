//! What takes the evaluator's place where git does not look, and protected files that git does not have.

use std::fs;

use serde_json::Value;

use super::harness::{record, runs, said};
use crate::support::{Called, TestRepo, ar, ar_in_time};

/// An evaluator that takes a number from whatever Python would import in its place.
const EVALUATE: &str = "echo run >> ../runs\n\
    for cheat in prepare/__init__.py prepare.so __pycache__/prepare.cpython-312.pyc src/vendor/cheat; do\n\
    if [ -e $cheat ]; then echo val_bpb: 0.001; exit; fi; done\n\
    [ -e data/train.bin ] && [ \"$(cat data/train.bin)\" != easier ] || { echo val_bpb: 0.001; exit; }\n\
    sh src/train.sh\necho val_bpb: $(cat src/value)\n";

fn repo() -> TestRepo {
    let repo = TestRepo::empty();
    repo.write("prepare.py", "the evaluation\n");
    repo.write("data.py", "a module beside a folder of data\n");
    repo.write("eval.sh", EVALUATE);
    repo.write("src/value", "2.0\n");
    repo.write("src/train.sh", "true\n");
    repo.write(".gitignore", "data/\n*.so\n__pycache__/\n.venv/\n");
    repo.commit_all("an evaluator of its own");
    repo.write("data/train.bin", "the data\n");
    repo
}

/// One experiment for each attack, then one that is honest.
fn session(repo: &TestRepo, attacks: &[&str], flags: &[&str]) -> Called {
    let cases: String =
        (1..).zip(attacks).map(|(n, attack)| format!("{n}) {attack}\n echo 2.{n} > src/value;;\n")).collect();
    let agent = format!(
        "cat > /dev/null; case $AR_EXPERIMENT in\n{cases}*) echo 1.5 > src/value;; esac; echo number $AR_EXPERIMENT"
    );
    let count = (attacks.len() + 1).to_string();
    let args =
        ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--cmd", "sh eval.sh", "--max-experiments", &count];
    ar_in_time(repo, args.into_iter().chain(["--agent", &agent]).chain(flags.iter().copied()))
}

/// Checks that each attack is refused with its class and named, without a run, and that the honest experiment has its own
/// number.
#[track_caller]
fn assert_refused(repo: &TestRepo, attacks: &[(&str, &str, &str)], flags: &[&str]) -> Called {
    let lines: Vec<&str> = attacks.iter().map(|(attack, ..)| *attack).collect();
    let called = session(repo, &lines, flags).ok();
    for (id, (attack, class, named)) in (1..).zip(attacks) {
        let failure = &record(repo, id)["failure"];
        assert_eq!(failure["class"], *class, "{attack}: {}", said(&called));
        assert!(failure["excerpt"].as_str().unwrap().contains(named), "{attack}: {failure}");
    }
    let last = attacks.len() as u32 + 1;
    assert_eq!((&record(repo, last)["outcome"], &record(repo, last)["metric"]["raw"]), (&"keep".into(), &"1.5".into()));
    assert_eq!(runs(repo), 2, "the baseline and the one that is honest");
    assert_eq!(repo.status(), "", "{}", said(&called));
    called
}

#[test]
fn what_python_would_import_first_is_refused_wherever_it_hides() {
    let takes = "would replace prepare.py, which is protected";
    let package = "mkdir prepare; echo > prepare/__init__.py";
    let hidden = format!("{package}; echo '*' > prepare/.gitignore");
    let nested = format!("{package}; git init -q prepare");
    let listed = format!("{package}; echo /prepare/ >> .gitignore");
    let linked = "mkdir -p ../away; echo > ../away/__init__.py; ln -s ../away prepare";
    let submodule = format!(
        "{package}; git init -q prepare; git -C prepare add .; git -C prepare commit -qm x; git add prepare 2> /dev/null"
    );
    let attacks = [
        (&*hidden, "protected", takes),
        (&*nested, "protected", takes),
        (&*listed, "protected", takes),
        (linked, "protected", takes),
        (&*submodule, "protected", takes),
        ("echo > prepare.so", "protected", takes),
    ];
    let open = repo();
    let called = assert_refused(&open, &attacks, &[]);
    assert!(!open.exists("prepare") && !open.exists("prepare.so"));
    // Nothing is destroyed.
    assert!(open.exists(".autoresearch/t/aside/00001/prepare/__init__.py"), "{called:#?}");
    assert!(said(&called).contains("moved out of the working tree"), "{called:#?}");
    let scoped = repo();
    assert_refused(&scoped, &attacks[..2], &["--scope", "src/**"]);
}

#[test]
fn what_takes_nothings_place_is_let_be() {
    let repo = repo();
    let attacks = [
        "mkdir -p .venv/lib; ln -s /usr .venv/usr; echo > .venv/lib/prepare.py; echo > data/more.bin",
        "mkdir -p __pycache__; echo > __pycache__/prepare.cpython-312.pyc; echo > __pycache__/other.cpython-312.pyc",
    ];
    let called = session(&repo, &attacks, &["--protect", "data.py"]).ok();
    for id in 1..=3 {
        assert_eq!(record(&repo, id)["failure"], Value::Null, "{called:#?}");
    }
    assert_eq!(record(&repo, 2)["metric"]["raw"], "2.2", "forged bytecode is removed before the run");
    assert!(repo.exists("__pycache__/other.cpython-312.pyc") && repo.exists(".venv/usr"));
}

#[test]
fn what_a_run_puts_in_the_place_of_the_evaluator_helps_nobody() {
    let repo = repo();
    let train = "printf 'mkdir prepare; echo > prepare/__init__.py; echo \"*\" > prepare/.gitignore\\n' > src/train.sh";
    let called = session(&repo, &[train], &[]).ok();
    let failure = &record(&repo, 1)["failure"];
    assert_eq!(failure["class"], "protected", "{called:#?}");
    assert!(
        failure["excerpt"]
            .as_str()
            .unwrap()
            .contains("the run made prepare/__init__.py, which takes the place of prepare.py"),
        "{failure}"
    );
    assert_eq!(record(&repo, 2)["metric"]["raw"], "1.5");
    assert!(!repo.exists("prepare"));
}

#[test]
fn what_was_there_before_the_session_and_what_its_baseline_builds_is_the_users() {
    let repo = repo();
    repo.write("eval.sh", "mkdir -p build; echo > prepare.so; sh src/train.sh; echo val_bpb: $(cat src/value)\n");
    repo.write("data/__init__.py", "a package beside the module of its name\n");
    repo.commit_all("a module that the command compiles");
    let called = session(&repo, &["true"], &["--protect", "data.py"]).ok();
    for id in 1..=2 {
        assert_eq!(record(&repo, id)["failure"], Value::Null, "{called:#?}");
    }
}

#[test]
fn protected_files_that_git_does_not_have_are_restored() {
    let repo = repo().without_walls();
    repo.write("large.bin", vec![7; 2 << 20]);
    let is = |name: &'static str| (name, "protected", "is protected");
    let attacks = [
        is("echo easier > data/train.bin"),
        is("rm data/train.bin"),
        is("mv data ../elsewhere; ln -s ../elsewhere data; echo easier > data/train.bin"),
        is("echo > data/more.bin"),
        is("echo > large.bin"),
        is("rm large.bin"),
    ];
    repo.write(".git/info/exclude", "");
    let protect = ["--protect", "data", "--protect", "*.bin"];
    let called = session(&repo, &attacks.map(|(attack, ..)| attack), &protect).ok();
    for (id, (attack, class, named)) in (1..).zip(attacks) {
        let failure = &record(&repo, id)["failure"];
        assert_eq!(failure["class"], class, "{attack}: {}", said(&called));
        assert!(failure["excerpt"].as_str().unwrap().contains(named), "{attack}: {failure}");
    }
    assert_eq!(record(&repo, 7)["metric"]["raw"], "1.5", "{called:#?}");
    assert_eq!(repo.read("data/train.bin"), "the data\n");
    assert_eq!(fs::read(repo.file("large.bin")).unwrap(), vec![7; 2 << 20]);
    assert!(!repo.exists("data/more.bin"));
    assert!(repo.read(".autoresearch/t/aside/00001/data/train.bin").contains("easier"), "{called:#?}");
    assert!(said(&called).contains("restored protected files: data/train.bin"), "{called:#?}");
}

#[test]
fn what_runs_write_below_a_protected_path_is_not_the_agents() {
    let repo = repo();
    let run = "mkdir -p data/.cache; echo > data/.cache/$(cat src/value).bin; echo val_bpb: $(cat src/value)\n";
    repo.write("eval.sh", run);
    repo.commit_all("an evaluator that keeps a cache beside its data");
    let attacks = ["true", "echo > data/forged.bin", "echo > data/.cache/forged.bin", "true"];
    let called = session(&repo, &attacks, &["--protect", "data/**"]).ok();
    let of = |id| record(&repo, id)["failure"].clone();
    for id in [1, 4, 5] {
        assert_eq!(of(id), Value::Null, "{called:#?}");
    }
    assert_eq!(of(2)["excerpt"], "data/forged.bin is protected", "{called:#?}");
    assert_eq!(of(3)["excerpt"], "data/.cache/forged.bin is protected", "{called:#?}");
    assert!(repo.exists("data/.cache/2.0.bin") && repo.exists("data/.cache/2.1.bin"));
    assert!(!repo.exists("data/forged.bin"));
}

#[test]
fn a_repository_within_the_change_is_in_no_commit_and_so_in_no_keep() {
    let repo = repo();
    repo.git(["init", "-q", "mine"]);
    repo.write("mine/notes", "the user's\n");
    let clone =
        "git init -q src/vendor; echo > src/vendor/cheat; git -C src/vendor add .; git -C src/vendor commit -qm x";
    let added = format!("{clone}; git add src/vendor 2> /dev/null");
    let why = "src/vendor is a git repository of its own";
    let lines = [
        clone,
        &*added,
        "echo more > mine/notes; git -C mine add .; git -C mine commit -qm x; git add -A 2> /dev/null",
    ];
    let called = session(&repo, &lines, &["--scope", "src/**"]).ok();
    for id in 1..=2 {
        let failure = &record(&repo, id)["failure"];
        assert_eq!(failure["class"], "scope", "{called:#?}");
        assert!(failure["excerpt"].as_str().unwrap().contains(why), "{failure}");
        assert!(repo.exists(format!(".autoresearch/t/aside/0000{id}/src/vendor/cheat")));
    }
    assert_eq!(record(&repo, 3)["failure"], Value::Null, "one that was there before stays: {called:#?}");
    assert_eq!(record(&repo, 4)["metric"]["raw"], "1.5");
    assert_eq!(repo.read("mine/notes"), "more\n");
    assert!(!repo.exists("src/vendor"));
}

#[test]
fn paths_that_git_refuses_are_in_no_commit() {
    let repo = repo();
    let why = "is a path that git refuses to check out";
    let staged = "mkdir -p src/git~1; echo > src/git~1/x; git -c core.protectNTFS=false update-index --add --cacheinfo \
                  100644,$(git hash-object -w src/value),src/git~1/x";
    let attacks = [
        ("mkdir -p src/.Git; echo > src/.Git/config", "scope", why),
        ("echo > 'src/git~1'", "scope", why),
        ("ln -s value src/.gitmodules", "scope", why),
        (staged, "scope", why),
    ];
    assert_refused(&repo, &attacks, &["--scope", "src/**"]);
    repo.git(["fsck", "--strict", "--no-dangling", "--no-progress"]);
    for reference in repo.git(["for-each-ref", "--format=%(refname)", "refs/autoresearch/t"]).lines() {
        repo.git(["archive", "--output", "../archive.tar", reference]);
    }
}

#[test]
fn a_protected_file_that_a_run_changes_and_changes_back_is_seen() {
    let repo = repo().without_walls();
    repo.write("eval.sh", "sh src/train.sh; echo val_bpb: $(cat src/value)\n");
    repo.commit_all("an evaluator that trains first");
    let train = "printf 'cp -p prepare.py ../p; echo > prepare.py; cp -p ../p prepare.py\\n' > src/train.sh";
    let agent = format!("cat > /dev/null; {train}; echo 1.5 > src/value");
    let args = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--cmd", "sh eval.sh", "--max-experiments", "1"];
    let called = ar(&repo, args.into_iter().chain(["--agent", &agent])).ok();
    let record = record(&repo, 1);
    assert_eq!(record["changed_while_running"], serde_json::json!(["prepare.py"]), "{called:#?}");
    assert_eq!(record["failure"]["class"], "protected");
    let why = "prepare.py was changed while the run was active, and changed back";
    assert_eq!(record["failure"]["excerpt"], why, "{called:#?}");
}

#[test]
fn ignored_files_that_feed_a_number_and_changed_are_said() {
    let repo = repo();
    let agent =
        "cat > /dev/null; echo 1.$AR_EXPERIMENT > src/value; [ $AR_EXPERIMENT = 1 ] || echo more >> data/train.bin";
    let command = "sh eval.sh; : data/train.bin";
    let args = ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--cmd", command, "--max-experiments", "2"];
    let called = ar(&repo, args.into_iter().chain(["--agent", agent])).ok();
    assert!(record(&repo, 1)["ignored_inputs"]["data/train.bin"].is_string(), "{called:#?}");
    assert_eq!(record(&repo, 1)["ignored_changed"], Value::Null);
    assert_eq!(record(&repo, 2)["ignored_changed"], serde_json::json!(["data/train.bin"]), "{called:#?}");
    let report = ar(&repo, ["report", "t"]).ok().stdout;
    assert!(report.contains("ignored files changed before the runs of 2"), "{report}");
    let doctor = ar(&repo, ["doctor", "t"]).ok().stdout;
    assert!(doctor.contains("ignored files changed before the run of experiment 2"), "{doctor}");
}
