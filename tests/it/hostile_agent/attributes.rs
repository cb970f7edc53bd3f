//! Attributes in a change with which git could not check out its files.

use std::process::Stdio;

use super::harness::{record, repo, said, session};
use crate::support::{ar, ar_command, until};

const WIDE: &str = "echo '* text working-tree-encoding=UTF-16LE' > src/.gitattributes";

const FAILING: &str = "git config filter.bad.clean false; git config filter.bad.smudge false; \
                       git config filter.bad.required true; echo '* filter=bad' > src/.gitattributes";

#[test]
fn attributes_that_would_damage_files_or_fail_are_refused_and_the_loop_goes_on() {
    for flags in [&[][..], &["--slots", "1"]] {
        let repo = repo();
        // Stops with status 7 at the word.
        repo.git(["config", "filter.picky.clean", "sed /bad/q7"]);
        repo.git(["config", "filter.picky.smudge", "cat"]);
        repo.git(["config", "filter.picky.required", "true"]);
        repo.write(".gitattributes", "*.dat filter=picky\n");
        repo.write("src/known.dat", "good\n");
        repo.commit_all("a filter that is picky");
        let attacks = [
            (WIDE, "src/.gitattributes sets working-tree-encoding, by which files would be checked out damaged"),
            ("mkdir src/a; echo good > src/a/x.dat; echo bad > src/y.dat", "src/y.dat has a git filter that fails"),
            ("echo bad > src/known.dat", "src/known.dat has a git filter that fails"),
            (FAILING, "src/.gitattributes names a git filter that fails"),
            ("true", ""),
        ];
        let called = session(&repo, &attacks.map(|(attack, _)| attack), flags).ok();
        for (id, (attack, why)) in (1..).zip(&attacks[..4]) {
            let failure = &record(&repo, id)["failure"];
            assert_eq!(failure["class"], "scope", "{flags:?} {attack}: {called:#?}");
            assert!(failure["excerpt"].as_str().unwrap().contains(why), "{flags:?} {attack}: {failure}");
        }
        assert_eq!(record(&repo, 5)["metric"]["raw"], "1.94", "{flags:?}: {called:#?}");
        assert_eq!(repo.read("src/known.dat"), "good\n");
        assert_eq!(repo.status(), "", "{flags:?}: {called:#?}");
        assert!(said(&called).contains("aside/00001/src/.gitattributes"), "{flags:?}: {called:#?}");
        for reference in repo.git(["for-each-ref", "--format=%(refname)", "refs/autoresearch/t"]).lines() {
            repo.git(["archive", "--output", "../archive.tar", reference]);
        }
    }
}

#[test]
fn attributes_that_a_killed_call_left_stop_no_session() {
    for attack in [WIDE, FAILING] {
        let repo = repo();
        let agent = format!("cat > /dev/null; {attack}; echo 1.5 > src/value; touch ../there; sleep 600");
        let args =
            ["run", "--yes", "--metric", "val_bpb", "--tag", "t", "--cmd", "sh eval.sh", "--max-experiments", "1"];
        let mut child = ar_command(&repo, &repo.path(), args)
            .args(["--agent", &agent, "--grace", "200ms"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("the agent", || repo.outside().join("there").exists().then_some(()));
        child.kill().unwrap();
        child.wait().unwrap();
        let called = ar(&repo, ["resume", "--agent", "cat > /dev/null; echo 1.6 > src/value"]).ok();
        assert_eq!(record(&repo, 1)["metric"]["raw"], "1.6", "{attack}: {called:#?}");
        assert_eq!(repo.status(), "", "{attack}: {called:#?}");
    }
}
