//! Two sessions of one repository side by side, each in a linked worktree of its own.

use std::process::Stdio;

use serde_json::Value;

use crate::kill::soak;
use crate::support::{Called, TestRepo, ar_command};

/// How many experiments each session makes.
fn experiments() -> u32 {
    if soak().is_some() { 50 } else { 12 }
}

/// What an agent does in one of the sessions: every other experiment is better than all before it.
const AGENT: &str = "n=$AR_EXPERIMENT; echo $((n % 2 ? 200 - n : 200 + n)) > value; echo step $n";

/// The records of a session as plain git reads them, in order.
fn records(repo: &TestRepo, tag: &str) -> Vec<Value> {
    let text = repo.git(["for-each-ref", "--format=%(contents:body)", &format!("refs/autoresearch/{tag}")]);
    text.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn two_sessions_at_once_write_every_row_whole_and_each_its_own_history() {
    let repo = TestRepo::new();
    repo.write("value", "200\n");
    repo.commit_all("a value");
    let start = repo.head();
    let tags = ["one", "two"];
    let mut sessions = Vec::new();
    for tag in tags {
        let dir = repo.outside().join(tag);
        repo.git(["worktree", "add", "--quiet", "--detach", dir.to_str().unwrap()]);
        let cap = experiments().to_string();
        let args =
            ["run", "--yes", "--metric", "loss", "--cmd", "echo loss: $(cat value)", "--agent", AGENT, "--tag", tag];
        let mut command = ar_command(&repo, &dir, args.iter().chain(&["--max-experiments", &cap]));
        sessions.push(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    }
    // Meanwhile somebody tidies up.
    while sessions.iter_mut().any(|session| session.try_wait().unwrap().is_none()) {
        repo.try_git(["pack-refs", "--all"]);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let said: Vec<Called> =
        sessions.into_iter().map(|session| Called::from(session.wait_with_output().unwrap()).ok()).collect();

    let ledger = repo.read("results.tsv");
    let rows: Vec<Vec<&str>> = ledger.lines().skip(1).map(|row| row.split('\t').collect()).collect();
    assert!(ledger.starts_with("commit_hash\tloss\t") && ledger.ends_with('\n'));
    assert_eq!(rows.len(), 2 * (experiments() as usize + 1));
    assert!(rows.iter().all(|row| row.len() == 5), "{ledger}");
    for tag in tags {
        let records = records(&repo, tag);
        let refs = repo.git(["for-each-ref"]);
        assert_eq!(records.len(), experiments() as usize + 1, "{tag}: {refs}\n{said:#?}");
        let mut tip = start.clone();
        let mut chain = vec![start.clone()];
        let mut below = rows.iter();
        for (n, record) in records.iter().enumerate() {
            let keep = n % 2 == 1 || n == 0;
            let value = if n == 0 {
                200
            } else if keep {
                200 - n
            } else {
                200 + n
            };
            let commit = record["commit"].as_str().unwrap();
            assert_eq!(record["id"].as_u64(), Some(n as u64), "{tag}");
            assert_eq!(record["outcome"], if keep { "keep" } else { "discard" }, "{tag}: {record}");
            assert_eq!(record["metric"]["raw"], value.to_string(), "{tag}: {record}");
            assert_eq!(record["base"], tip, "{tag}: {record}");
            if n > 0 {
                assert_eq!(repo.git(["rev-parse", &format!("{commit}^")]), tip, "{tag}: {record}");
            }
            if keep && n > 0 {
                tip = commit.to_owned();
                chain.push(tip.clone());
            }
            // Its rows are in its order; both baselines are of the same commit.
            let row = below.find(|row| row[0] == &commit[..8]);
            let row = row.unwrap_or_else(|| panic!("no row for {tag} {n} where it should be: {ledger}"));
            assert_eq!(row[1], value.to_string(), "{tag} {n}");
        }
        chain.reverse();
        let history = repo.git(["rev-list", "--first-parent", &format!("autoresearch/{tag}"), &format!("^{start}^@")]);
        assert_eq!(history.lines().collect::<Vec<_>>(), chain, "{tag}");
        let dir = repo.outside().join(tag);
        assert!(repo.try_git_in(&dir, ["status", "--porcelain"]).stdout.is_empty(), "{tag}");
    }
    assert_eq!(rows.iter().filter(|row| row[0] == &start[..8]).count(), 2, "both baselines");
    let fsck = repo.try_git(["fsck", "--strict", "--no-dangling"]);
    assert!(fsck.status.success(), "{}", String::from_utf8_lossy(&fsck.stderr));
}
