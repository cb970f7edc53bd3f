//! Sessions that go to trackers: which Python writes them, what reaches the client, and how it ends. The clients are stand-ins;
//! `tests/trackers/run` has the real ones.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::interrupt::{signal, waiting_loop};
use crate::run_loop::{agent, training_repo};
use crate::support::{Called, TestRepo, ar, ar_command, ar_in_time, until};

/// A W&B that notes what it is told in the file `said`.
const WANDB: &str = r#"
import json, os

def say(what, **about):
    with open(os.environ["SAID"], "a") as file:
        file.write(json.dumps({"what": what, **about}) + "\n")

def Settings(**settings):
    return settings

class Run:
    def __init__(self, id):
        self.id, self.summary = id, self

    def update(self, numbers):
        say("summary", id=self.id, numbers=numbers)

    def log(self, values, step):
        say("log", id=self.id, values=values, step=step)

    def finish(self, exit_code=0):
        say("finish", id=self.id, exit_code=exit_code)

def init(settings, **about):
    homes = {name: value for name, value in os.environ.items() if name.startswith("WANDB_")}
    say("init", homes=homes, **about)
    return Run(about["id"])
"#;

/// A client that writes the records it reads into the file `read`.
const READER: &str = "[ $# -gt 2 ] || exit 0\nwhile IFS= read -r line; do printf '%s\\n' \"$line\" >> \"$READ\"; done";

/// A repository with the imported session `old` of three experiments.
fn imported() -> TestRepo {
    let repo = TestRepo::new();
    repo.write(
        "theirs.tsv",
        "commit\tval_bpb\tstatus\tdescription\na1\t1.5\tkeep\ta\nb2\t1.4\tkeep\tb\nc3\t\tcrash\tc\n",
    );
    repo.commit_all("a ledger");
    ar(&repo, ["import", "theirs.tsv", "--tag", "old"]).ok();
    repo
}

/// Makes a program of these lines of shell beside the repository.
fn program(repo: &TestRepo, path: &str, lines: &str) -> PathBuf {
    let path = repo.outside().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// An export that has the stand-in for W&B, and a folder of programs before all others.
fn export(repo: &TestRepo, args: &str) -> Command {
    let modules = repo.outside().join("modules");
    fs::create_dir_all(&modules).unwrap();
    fs::write(modules.join("wandb.py"), WANDB).unwrap();
    let mut command = ar_command(repo, &repo.path(), ["export"].into_iter().chain(args.split(' ')));
    let path = std::env::join_paths(
        [repo.outside().join("bin")]
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    command
        .env("PYTHONPATH", modules)
        .env("SAID", repo.outside().join("said"))
        .env("READ", repo.outside().join("read"))
        .env("PATH", path.unwrap());
    command
}

fn called(repo: &TestRepo, args: &str) -> Called {
    export(repo, args).output().unwrap().into()
}

/// The documents in a file beside the repository, one a line.
fn documents(repo: &TestRepo, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(repo.outside().join(name)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn ids(repo: &TestRepo, name: &str) -> Vec<u64> {
    documents(repo, name).iter().map(|record| record["id"].as_u64().unwrap()).collect()
}

#[test]
fn each_experiment_is_a_run_that_a_second_export_finds_again() {
    let repo = training_repo();
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", "3"];
    ar(&repo, args.into_iter().chain(["--agent", &agent("better crash better")])).ok();
    ar(&repo, ["note", "1", "look again"]).ok();
    let first = called(&repo, "--to wandb").ok();
    assert!(first.stdout.starts_with("4 experiments of t written to "), "{first:?}");
    assert!(
        first.stderr.contains("upload it with: wandb sync ")
            && first.stderr.contains("/.autoresearch/t/wandb/wandb/offline-run-*")
    );
    assert_eq!(repo.status(), "", "git does not see the folder");
    let said = documents(&repo, "said");
    let of = |what: &str| said.iter().filter(|said| said["what"] == what).collect::<Vec<_>>();
    let (inits, logs) = (of("init"), of("log"));
    let runs: HashSet<&Value> = inits.iter().map(|init| &init["id"]).collect();
    assert_eq!(runs.len(), 5, "a run for each experiment and one for the session");
    let folder = repo.file(".autoresearch/t/wandb").canonicalize().unwrap();
    for init in &inits {
        assert_eq!((&init["mode"], &init["resume"]), (&"offline".into(), &"allow".into()));
        for home in ["WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"] {
            assert_eq!(init["homes"][home], folder.to_str().unwrap());
        }
    }
    let records = ar(&repo, ["export", "--to", "jsonl"]).ok().json_lines();
    let [kept, crash] = [inits[2], inits[3]];
    for fact in ["outcome", "reason", "commit", "started", "finished", "description"] {
        assert_eq!(kept["config"][fact], records[1][fact], "{fact}");
    }
    assert!(kept["notes"].as_str().unwrap().ends_with("; look again"), "{kept}");
    assert!(crash["name"].as_str().unwrap().starts_with("2 ") && crash["tags"][0] == "crash", "{crash}");
    let summaries = of("summary");
    assert_eq!(summaries[1]["numbers"]["val_bpb"], records[1]["metric"]["value"]);
    assert!(summaries[2]["numbers"]["val_bpb"].is_null() && summaries[1]["numbers"]["seconds"].as_f64() > Some(0.0));
    let codes: Vec<_> = of("finish").iter().map(|finish| finish["exit_code"].as_u64().unwrap()).collect();
    assert_eq!(codes, [0, 0, 1, 0, 0]);
    assert_eq!(logs[3]["values"]["best"], records[3]["metric"]["value"]);
    assert_eq!(logs.iter().map(|log| log["step"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3]);

    called(&repo, "--to wandb").ok();
    let said = documents(&repo, "said");
    let again: HashSet<&Value> = said.iter().filter(|said| said["what"] == "init").map(|init| &init["id"]).collect();
    assert_eq!(again, runs);
    called(&repo, "--to wandb --uri http://localhost:1").ok();
    let online = documents(&repo, "said").into_iter().rfind(|said| said["what"] == "init").unwrap();
    assert_eq!((&online["mode"], &online["homes"]["WANDB_BASE_URL"]), (&"online".into(), &"http://localhost:1".into()));
}

#[test]
fn the_first_python_that_imports_the_client_is_taken() {
    let repo = imported();
    let lacks = |name: &str| format!("echo {name} >> \"$READ\"; echo \"no client in {name}\" >&2; exit 1");
    let has = |name: &str| format!("echo {name} >> \"$READ\"; [ $# -gt 2 ] && cat > /dev/null; exit 0");
    let tried = || {
        let read = repo.outside().join("read");
        let text = fs::read_to_string(&read).unwrap_or_default();
        let _ = fs::remove_file(read);
        text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    let (own, python3) = ("repo/.venv/bin/python", "bin/python3");
    fs::create_dir_all(repo.outside().join("bin")).unwrap();
    program(&repo, "bin/uv", "echo \"uv $*\" | head -1 >> \"$READ\"; cat > /dev/null");
    program(&repo, python3, &has("python3"));
    called(&repo, "old --to wandb --install").ok();
    assert_eq!(tried(), "python3 python3");

    program(&repo, own, &has("own"));
    called(&repo, "old --to wandb").ok();
    assert_eq!(tried(), "own own");

    program(&repo, own, &lacks("own"));
    called(&repo, "old --to wandb").ok();
    assert_eq!(tried(), "own python3 python3");

    program(&repo, python3, &lacks("python3"));
    let none = called(&repo, "old --to wandb").exits(1);
    assert_eq!(tried(), "own python3", "uv was not asked");
    for words in [
        "no Python here imports the client of W&B",
        "| python3: no client in python3",
        "hint: pass --install to use `uv run --no-project --with ",
        "wandb==",
    ] {
        assert!(none.stderr.contains(words), "{none:?}");
    }
    let passed = program(&repo, "theirs", &lacks("theirs"));
    let refused = called(&repo, &format!("old --to wandb --install --python {}", passed.display())).exits(1);
    assert_eq!(tried(), "theirs", "nothing else is tried");
    assert!(refused.stderr.contains("-m pip install wandb==") && refused.stderr.contains("| no client in theirs"));
    assert!(called(&repo, "old --to wandb --python ../nowhere").exits(1).stderr.contains("nowhere"));

    called(&repo, "old --to wandb --install").ok();
    let uv = tried();
    assert!(uv.starts_with("own python3 uv run --no-project --with wandb==") && uv.contains(" python -c "), "{uv}");
    fs::remove_file(repo.outside().join("bin/uv")).unwrap();
    let mut command = export(&repo, "old --to wandb --install");
    command.env("PATH", repo.outside().join("bin"));
    let missing = Called::from(command.output().unwrap()).exits(1);
    assert!(missing.stderr.contains("cannot start `uv`") && missing.stderr.contains("hint: install uv"), "{missing:?}");
}

#[test]
fn a_folder_named_like_a_client_is_no_client() {
    let repo = imported();
    let taken = program(&repo, "python", "exec python3 -S \"$@\"");
    for module in ["wandb/__init__.py", "mlflow/meta.yaml", "tensorboard/events"] {
        repo.write(module, "init = None\n");
    }
    for tracker in ["wandb", "mlflow", "tensorboard"] {
        let mut command = export(&repo, &format!("old --to {tracker} --python {}", taken.display()));
        let refused = Called::from(command.env_remove("PYTHONPATH").output().unwrap()).exits(1);
        assert!(refused.stderr.contains("does not import the client") && refused.stderr.contains("No module named"));
        assert!(!repo.exists(format!(".autoresearch/old/{tracker}")), "nothing is made for nothing");
    }
}

#[test]
fn the_script_is_printed_as_it_is_run_and_flags_of_trackers_are_theirs() {
    let repo = TestRepo::new();
    for tracker in ["wandb", "tensorboard", "mlflow"] {
        let printed = ar(&repo, ["export", "--to", tracker, "--print-script"]).ok().stdout;
        assert!(printed.contains("ar export TAG --to jsonl | python3") && printed.lines().count() < 200, "{printed}");
        fs::write(repo.outside().join("script.py"), &printed).unwrap();
        let mut compile = Command::new("python3");
        compile.args(["-m", "py_compile", "script.py"]).current_dir(repo.outside());
        assert!(compile.status().unwrap().success());
    }
    for flag in ["--follow", "--install", "--print-script", "--uri x", "--python x"] {
        let args = format!("export --to csv {flag}");
        let refused = ar(&repo, args.split(' ')).exits(2);
        let name = flag.split(' ').next().unwrap();
        assert!(refused.stderr.contains(&format!("{name} is only for trackers")), "{refused:?}");
        assert!(refused.stderr.contains(&format!("hint: omit {name}, or pass --to wandb")), "{refused:?}");
    }
    for (args, why) in [
        ("export --to tensorboard --uri http://x", "TensorBoard has no server"),
        ("export --to mlflow --uri http://x --output y", "MLflow writes no files here"),
    ] {
        assert!(ar(&repo, args.split(' ')).exits(2).stderr.contains(why));
    }
}

#[test]
fn a_client_that_fails_floods_or_stops_reading_is_an_error_with_its_last_lines() {
    let repo = TestRepo::new();
    // More than a pipe holds.
    let rows: String = (1..=300).map(|n| format!("{n:07x}\t{n}.5\tdiscard\tchange {n}\n")).collect();
    repo.write("theirs.tsv", format!("commit\tval_bpb\tstatus\tdescription\n{rows}"));
    ar(&repo, ["import", "theirs.tsv", "--tag", "old"]).ok();
    let failing = |lines: &str| {
        let python = program(&repo, "python", &format!("[ $# -gt 2 ] || exit 0\n{lines}"));
        let python = python.to_str().unwrap().to_owned();
        let output = repo.outside().join("out");
        ar_in_time(&repo, ["export", "--to", "wandb", "--python", &python, "--output", output.to_str().unwrap()])
    };
    let broken =
        failing("read line; for n in $(seq 40); do echo line $n >&2; done; echo 'no such key' >&2; exit 3").exits(1);
    for words in ["the client of W&B failed: exit status: 3", "  | line 40\n  | no such key\n", "hint: solve that"] {
        assert!(broken.stderr.contains(words), "{broken:?}");
    }
    assert!(!broken.stderr.contains("line 9\n"), "the last lines alone: {broken:?}");
    let early = failing("exit 0").exits(1);
    assert!(early.stderr.contains("ended before it had read all records"), "{early:?}");
    let killed = failing("kill -9 $$").exits(1);
    assert!(killed.stderr.contains("signal: 9"), "{killed:?}");
    // What stays in the background holds its pipes open, and is ended.
    let flood = "head -c 30000000 /dev/zero; head -c 30000000 /dev/zero >&2; cat > /dev/null; setsid sleep 1000 &";
    failing(flood).ok();
    let left = repo.processes();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn two_exports_do_not_share_a_folder_and_none_takes_one_of_the_repository() {
    let repo = imported();
    let python = program(
        &repo,
        "python",
        "[ $# -gt 2 ] || exit 0\ntouch \"$READ\"; cat > /dev/null; mkdir ../first || exit 0\nuntil [ -e ../go ]; do sleep 0.05; done",
    );
    let args = format!("old --to wandb --python {}", python.display());
    let first = export(&repo, &args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the client", || repo.outside().join("read").exists().then_some(()));
    let second = called(&repo, &args).exits(1);
    assert!(second.stderr.contains("another export writes into"), "{second:?}");
    fs::write(repo.outside().join("go"), "").unwrap();
    Called::from(first.wait_with_output().unwrap()).ok();
    called(&repo, &args).ok();

    // A loop that is active would take up what git sees.
    repo.write("src/model.py", "");
    repo.commit_all("code");
    for (folder, why) in [
        (".", "git does not ignore the files in"),
        ("src", "git does not ignore the files in"),
        ("theirs.tsv", "cannot write"),
    ] {
        let refused = called(&repo, &format!("{args} --output {folder}")).exits(1);
        assert!(refused.stderr.contains(why), "{refused:?}");
    }
    called(&repo, &format!("{args} --output new/store")).ok();
    called(&repo, &format!("{args} --output new/store")).ok();
    repo.write("new/store/more", "");
    assert_eq!(repo.status(), "");
}

/// A followed export of the session `t` to a client that writes what it reads into the file `name` beside the repository.
fn follower(repo: &TestRepo, name: &str) -> Child {
    let python = program(repo, "python", READER);
    let folder = format!("--output ../of-{name}");
    let mut command = export(repo, &format!("t --to tensorboard --follow --python {} {folder}", python.display()));
    command.env("READ", repo.outside().join(name)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_followed_session_is_given_record_by_record_across_a_kill_until_its_loop_ends() {
    let repo = training_repo();
    let (mut child, go) = waiting_loop(&repo);
    let first = follower(&repo, "first");
    until("the baseline", || (ids(&repo, "first") == [0]).then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    // The loop did not end in good order, so that it is waited for.
    let second = follower(&repo, "second");
    until("the baseline", || (ids(&repo, "second") == [0]).then_some(()));
    fs::write(go, "").unwrap();
    let resumed = ar_command(&repo, &repo.path(), ["resume", "t"]).stdout(Stdio::null()).status().unwrap();
    assert!(resumed.success());
    for (follower, name) in [(first, "first"), (second, "second")] {
        let called = Called::from(follower.wait_with_output().unwrap()).ok();
        assert_eq!(ids(&repo, name), [0, 1, 2, 3, 4, 5]);
        assert!(called.stdout.starts_with("6 experiments of t written to "), "{called:?}");
        assert!(
            called.stderr.contains("writing session t to ") && called.stderr.contains("Ctrl-C ends it"),
            "{called:?}"
        );
    }
    assert_eq!(repo.status(), "");
    follower(&repo, "first").wait_with_output().map(Called::from).unwrap().ok();
}

#[test]
fn ctrl_c_ends_a_followed_session_and_all_that_its_client_started() {
    let repo = training_repo();
    let (mut child, _) = waiting_loop(&repo);
    let lines = format!("setsid sleep 1000 &\n{READER}\necho done >> \"$READ\"");
    let python = program(&repo, "python", &lines.replace("|| exit 0", "|| { kill $!; exit 0; }"));
    let mut command = export(&repo, &format!("t --to tensorboard --follow --python {}", python.display()));
    let follower = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the baseline", || (ids(&repo, "read") == [0]).then_some(()));
    signal(&follower, "-INT");
    let called = Called::from(follower.wait_with_output().unwrap()).exits(130);
    assert!(called.stderr.contains("interrupted after 1 experiment of t"), "{called:?}");
    let read = fs::read_to_string(repo.outside().join("read")).unwrap();
    assert!(read.ends_with("done\n"), "the client ended by itself: {read}");
    child.kill().unwrap();
    child.wait().unwrap();
    let client = |pid: &String| {
        fs::read_to_string(format!("/proc/{pid}/environ")).is_ok_and(|text| text.contains("AR_JOB=helper-"))
    };
    assert!(!repo.processes().iter().any(client));
}

#[test]
fn a_client_that_dies_ends_the_following() {
    let repo = training_repo();
    let (mut child, _) = waiting_loop(&repo);
    let python = program(&repo, "python", "[ $# -gt 2 ] || exit 0\nread line; echo 'no room' >&2; exit 1");
    let args = ["export", "t", "--to", "mlflow", "--follow", "--python", python.to_str().unwrap()];
    let failed = ar_in_time(&repo, args).exits(1);
    assert!(failed.stderr.contains("the client of MLflow failed") && failed.stderr.contains("| no room"), "{failed:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_followed_session_that_is_removed_is_an_error() {
    let repo = training_repo();
    let (mut child, _) = waiting_loop(&repo);
    let follower = follower(&repo, "read");
    until("the baseline", || (ids(&repo, "read") == [0]).then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    let refs = repo.git(["for-each-ref", "--format=%(refname)", "refs/autoresearch", "refs/heads/autoresearch"]);
    repo.git(["checkout", "--quiet", "--force", "main"]);
    for name in refs.lines() {
        repo.git(["update-ref", "-d", name]);
    }
    fs::rename(repo.file(".autoresearch"), repo.outside().join("moved")).unwrap();
    let failed = Called::from(follower.wait_with_output().unwrap()).exits(1);
    assert!(failed.stderr.contains("no session `t` found"), "{failed:?}");
}
