//! Stopping a loop that is going on, and what a run must not leave behind.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar, ar_command, until};

/// Waits until the loop has said something on standard error.
pub(crate) fn wait_for_words(repo: &TestRepo, words: &str) {
    until(words, || {
        let said = fs::read_to_string(repo.outside().join("stderr")).ok()?;
        said.contains(words).then_some(())
    });
}

/// Waits until the script has noted so many runs in the file `runs` beside the repository, no more and no fewer.
pub(crate) fn wait_for_runs(repo: &TestRepo, count: usize) {
    until("a run", || {
        let runs = fs::read_to_string(repo.outside().join("runs")).map_or(0, |text| text.lines().count());
        assert!(runs <= count, "{runs} runs");
        (runs == count).then_some(())
    });
}

/// Sends a signal to a process that was started here.
pub(crate) fn signal(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

/// A loop whose second run waits for the file `go` beside the repository.
pub(crate) fn waiting_loop(repo: &TestRepo) -> (Child, PathBuf) {
    let go = repo.outside().join("go");
    let script = "echo run >> ../runs\nif [ -e slow ]; then until [ -e ../go ]; do sleep 0.05; done; fi\n\
                  echo val_bpb: $(cat value)\n";
    repo.write("train.sh", script);
    repo.write("value", "2.0\n");
    repo.commit_all("waits");
    let agent = "touch slow; echo 1.$AR_EXPERIMENT > value";
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    let child = ar_command(repo, &repo.path(), args)
        .args(["--max-experiments", "5", "--grace", "1s"])
        .stdout(Stdio::piped())
        .stderr(fs::File::create(repo.outside().join("stderr")).unwrap())
        .spawn()
        .unwrap();
    wait_for_runs(repo, 2);
    (child, go)
}

#[test]
fn the_first_interrupt_lets_the_experiment_finish() {
    let repo = training_repo();
    let (child, go) = waiting_loop(&repo);
    signal(&child, "-INT");
    wait_for_words(&repo, "stopping after this experiment");
    fs::write(go, "").unwrap();
    let called = Called::from(child.wait_with_output().unwrap()).exits(130);
    assert!(called.stdout.contains("   1  keep"), "{called:?}");
    assert!(called.stdout.ends_with("stopped: interrupted\n"), "{called:?}");
    assert_eq!(repo.read("results.tsv").lines().count(), 3);
    assert_eq!(repo.status(), "");
}

#[test]
fn the_second_interrupt_ends_the_run_and_puts_everything_back() {
    for signals in
        [&[("-INT", "stopping after"), ("-INT", "terminating the run")][..], &[("-TERM", "terminating the run")]]
    {
        let repo = training_repo();
        let (child, go) = waiting_loop(&repo);
        for (name, words) in signals {
            signal(&child, name);
            wait_for_words(&repo, words);
        }
        let called = Called::from(child.wait_with_output().unwrap()).exits(130);
        assert_eq!(repo.read("results.tsv").lines().count(), 2, "{called:?}");
        assert_eq!(repo.status(), "");
        assert!(!repo.exists("slow"));
        assert_eq!(repo.git(["rev-parse", "autoresearch/t"]), repo.git(["rev-parse", "main"]));
        // The change is not lost, and the session goes on with the same experiment.
        assert_eq!(repo.git(["show", "refs/autoresearch/t/saved/00000:value"]), "1.1");
        fs::write(go, "").unwrap();
        ar(&repo, ["run", "--max-experiments", "1"]).ok();
        assert_eq!(repo.git(["log", "-1", "--format=%s", "autoresearch/t"]), "slow, value: 2 files changed, +1 -1");
    }
}

#[test]
fn an_interrupted_try_says_where_the_change_is() {
    let repo = training_repo();
    repo.write("train.sh", "touch ../there; until [ -e ../go ]; do sleep 0.05; done; echo val_bpb: $(cat value)\n");
    repo.write("value", "2.0\n");
    repo.commit_all("waits");
    repo.write("value", "1.5\n");
    let interrupted = |args: &[&str]| {
        let there = repo.outside().join("there");
        let child =
            ar_command(&repo, &repo.path(), args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("the run", || there.exists().then_some(()));
        signal(&child, "-TERM");
        let called = Called::from(child.wait_with_output().unwrap()).exits(130);
        fs::remove_file(there).unwrap();
        called.stderr
    };
    let first = ["try", "-m", "x", "--metric", "val_bpb", "--cmd", "sh train.sh", "--grace", "1s"];
    let said = interrupted(&first);
    assert!(said.contains("the change is still in the working tree") && !said.contains("under a ref"), "{said}");
    assert_eq!(repo.read("value"), "1.5\n");

    fs::write(repo.outside().join("go"), "").unwrap();
    ar(&repo, first).ok();
    fs::remove_file(repo.outside().join("go")).unwrap();
    fs::remove_file(repo.outside().join("there")).unwrap();
    repo.write("value", "1.25\n");
    let said = interrupted(&["try", "-m", "y"]);
    assert!(said.contains("the change was rolled back and saved under a ref"), "{said}");
    assert_eq!(repo.read("value"), "1.5\n");
}

#[test]
fn a_flood_costs_disk_and_not_memory() {
    let repo = training_repo();
    repo.write("train.sh", "yes 'step 1 | loss 5.5452 | lr 0.0100' | head -c 60000000; echo\necho val_bpb: 1.5\n");
    repo.commit_all("floods");
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
    let mut child = ar_command(&repo, &repo.path(), args).stdout(Stdio::null()).spawn().unwrap();
    let mut peak = 0u64;
    until("the end of the flood", || {
        // Pages of the program itself are no memory that a flood costs: an unoptimised build has some 45 MB of them.
        if let Ok(text) = fs::read_to_string(format!("/proc/{}/status", child.id()))
            && let Some(line) = text.lines().find(|line| line.starts_with("RssAnon:"))
        {
            peak = peak.max(line.split_whitespace().nth(1).unwrap().parse().unwrap());
        }
        child.try_wait().unwrap()
    });
    assert!(child.wait().unwrap().success());
    assert!(peak > 0 && peak < 20 * 1024, "{peak} kB of its own");
    assert_eq!(fs::metadata(repo.file("run.log")).unwrap().len(), 60_000_000 + "\nval_bpb: 1.5\n".len() as u64);
}
