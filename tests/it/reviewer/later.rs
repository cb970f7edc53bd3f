//! Reviews that come after a change was kept.

use std::fs;

use serde_json::Value;

use super::{EARNED, record, repo, reviewed, reviewer, value, verdict};
use crate::guards::session;
use crate::run_loop::training_repo;
use crate::support::{Called, ar, ar_command};

#[test]
fn a_keep_without_a_review_is_reviewed_when_the_loop_ends_and_a_late_doubt_is_flagged() {
    let repo = repo();
    // It is out while the loop turns, and back at its end.
    let script = "
        echo call >> \"$AR_ROOT/../reviews\"
        [ $(wc -l < \"$AR_ROOT/../reviews\") -gt 3 ] || { echo 'overloaded'; exit 1; }
        case $AR_EXPERIMENT in
            1) echo '{\"verdict\": \"not_earned\", \"why\": \"src/value:1\"}';;
            2) echo '{\"verdict\": \"earned\", \"why\": \"well\"}';;
            3) echo '{\"verdict\": \"unclear\", \"why\": \"hm\"}';;
        esac";
    let edits = ["1.5", "1.4", "1.3"].map(value);
    let alerts = repo.outside().join("alerts");
    let tell = format!("[ $AR_EVENT != flagged ] || {{ cat; echo; }} >> {}", alerts.display());
    reviewed(&repo, script, &edits.each_ref().map(String::as_str), &["--on-event", &tell]).ok();
    let alerts = fs::read_to_string(alerts).unwrap();
    let alerts =
        alerts.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str::<Value>(line).unwrap());
    let reasons: Vec<_> = alerts.map(|alert| (alert["experiment"].clone(), alert["reason"].clone())).collect();
    let expected = [(1, "the reviewer says not earned: src/value:1"), (3, "the reviewer says unclear: hm")];
    assert_eq!(reasons, expected.map(|(id, why)| (id.into(), why.into())));
    let records = [1, 2, 3].map(|id| record(&repo, id));
    assert_eq!(records.each_ref().map(verdict), ["not_earned", "earned", "unclear"]);
    assert!(records.iter().all(|record| record["outcome"] == "keep" && record["failure"].is_null()));
    assert_eq!(repo.head(), records[2]["commit"].as_str().unwrap(), "nothing is removed without a run");
    let shown = ar(&repo, ["show", "1"]).ok().stdout;
    assert!(shown.contains("reviewed after it was kept, not earned: src/value:1"), "{shown}");
    let notes = repo.git(["notes", "--ref=autoresearch", "show", records[0]["commit"].as_str().unwrap()]);
    assert!(notes.contains("t/1 the reviewer: reviewed after it was kept, not earned: src/value:1"), "{notes}");
    let report = ar(&repo, ["report"]).ok().stdout;
    assert!(report.contains("the reviewer doubts what was kept: 1 (not earned) and 3 (unclear)"), "{report}");
    ar(&repo, ["doctor"]).ok();
}

#[test]
fn a_keep_that_was_not_earned_stops_finalize_until_it_is_left_out_or_included() {
    let repo = training_repo();
    repo.write("eval.sh", "echo val_bpb: $((20 - $(ls parts | wc -l)))\n");
    repo.write("parts/0", "0\n");
    repo.commit_all("parts");
    // The reviewer is out while the keeps are made. Its verdict comes during finalize.
    let command = reviewer(&repo, "exit 1");
    for id in 1..=4 {
        repo.write(format!("parts/{id}"), "part\n");
        if id == 4 {
            repo.write("parts/2", "more\n");
        }
        repo.git(["add", "parts"]);
        let terms = ["--metric", "val_bpb", "--cmd", "sh eval.sh", "--tag", "t", "--reviewer", &command];
        let message = format!("change {id}");
        ar(&repo, ["try", "-m", &message].iter().chain(if id == 1 { &terms[..] } else { &[] })).ok();
    }
    reviewer(
        &repo,
        "case $AR_EXPERIMENT in 2) echo '{\"verdict\": \"not_earned\", \"why\": \"parts/2:1\"}';; \
         *) echo '{\"verdict\": \"earned\"}';; esac",
    );
    let stopped = ar(&repo, ["finalize", "t"]).exits(1);
    assert!(stopped.stderr.contains("4 keeps without a review: reviewing first"), "{stopped:#?}");
    assert!(stopped.stderr.contains("error: the reviewer calls what was kept not earned: 2\n"), "{stopped:#?}");
    for way in ["`ar finalize t --without 2`", "`ar finalize t --with-not-earned`", "`ar show 2 --tag t`"] {
        assert!(stopped.stderr.contains(way), "{way}: {stopped:#?}");
    }
    assert!(!repo.try_git(["rev-parse", "--verify", "-q", "t-final"]).status.success(), "no branch was made");
    let builds = ar(&repo, ["finalize", "t", "--without", "2"]).exits(1);
    let words = "experiment 4 of session t builds on what is left out: parts/2";
    assert!(
        builds.stderr.contains(words) && builds.stderr.contains("\nhint: leave it out as well, with --without 4\n"),
        "{builds:#?}"
    );
    let wrong = ar(&repo, ["finalize", "t", "--without", "7"]).exits(1);
    let words = "error: experiment 7 of session t was not kept, so it cannot be left out\n\
                 hint: run `ar log t --outcome keep` to see the keeps\n";
    assert!(wrong.stderr.contains(words), "{wrong:#?}");

    let without = ["finalize", "t", "--without", "2", "--without", "4"];
    let called = ar(&repo, without).ok();
    let note = "not measured: no run had this tree; `ar repro 3 --tag t` measures 3 as it was kept";
    assert!(called.stderr.contains(note), "{called:#?}");
    assert_eq!(repo.git(["ls-tree", "--name-only", "t-final", "parts/"]), "parts/0\nparts/1\nparts/3");
    assert_eq!(repo.git(["log", "--format=%s", "main..t-final"]), "change 3\nchange 1");
    let message = |commit: &str| repo.git(["log", "-1", "--format=%B", commit]);
    let words = "Not measured: no run had this tree, without 2. `ar repro 3 --tag t` measures 3 as it was kept.\n";
    assert!(message("t-final").contains(words), "{}", message("t-final"));
    assert!(!message("t-final^").contains("Not measured"), "{}", message("t-final^"));
    ar(&repo, without.iter().chain(&["--squash", "--branch", "one"])).ok();
    assert_eq!(repo.git(["rev-parse", "one^{tree}"]), repo.git(["rev-parse", "t-final^{tree}"]));
    assert!(message("one").contains("2 kept experiments") && message("one").contains(words), "{}", message("one"));
    let called = ar(&repo, ["finalize", "t", "--with-not-earned", "--branch", "all"]).ok();
    assert_eq!(repo.git(["rev-list", "--count", "main..all"]), "4");
    assert!(!called.stderr.contains("not measured"), "{called:#?}");
}

#[test]
fn the_reviews_that_are_left_end_with_two_in_a_row_that_give_no_verdict() {
    let repo = repo();
    let script = "echo call >> \"$AR_ROOT/../reviews\"; exit 1";
    let edits = ["1.5", "1.4", "1.3"].map(value);
    reviewed(&repo, script, &edits.each_ref().map(String::as_str), &[]).ok();
    assert_eq!(crate::guards::lines(&repo, "reviews"), 5, "one for each keep, and two at the end");
    // It is back for the next call.
    reviewer(&repo, EARNED);
    ar(&repo, ["resume"]).ok();
    assert_eq!([1, 2, 3].map(|id| verdict(&record(&repo, id)).to_owned()), ["earned"; 3]);
}

#[test]
fn a_review_that_never_gives_a_verdict_does_not_block_the_others() {
    let repo = repo();
    // It is out while the loop turns, and never copes with the first and the third change.
    let script = "
        echo call >> \"$AR_ROOT/../reviews\"
        [ $(wc -l < \"$AR_ROOT/../reviews\") -gt 4 ] || exit 1
        case $AR_EXPERIMENT in 1 | 3) exit 1;; esac
        echo '{\"verdict\": \"earned\"}'";
    let edits = ["1.5", "1.4", "1.3", "1.2"].map(value);
    reviewed(&repo, script, &edits.each_ref().map(String::as_str), &[]).ok();
    let verdicts = [1, 2, 3, 4].map(|id| verdict(&record(&repo, id)).to_owned());
    assert_eq!(verdicts, ["unreviewed", "earned", "unreviewed", "earned"]);
}

#[test]
fn a_review_ends_with_the_time_of_the_loop_and_none_is_begun_after_it() {
    let repo = repo();
    let script = "echo call >> \"$AR_ROOT/../reviews\"; sleep 60";
    reviewed(&repo, script, &[&value("1.5")], &["--for", "10s"]).ok();
    let first = record(&repo, 1);
    assert_eq!((&first["outcome"], verdict(&first)), (&"keep".into(), "unreviewed"), "{first}");
    assert!(first["review"]["why"].as_str().unwrap().contains("ended by ar"), "{first}");
    assert_eq!(crate::guards::lines(&repo, "reviews"), 1);
}

#[test]
fn another_reviewer_takes_the_place_of_a_broken_one_and_none_turns_it_off() {
    let repo = repo();
    reviewed(&repo, "exit 1", &[&value("1.5"), &value("1.4")], &[]).ok();
    let verdicts = || [1, 2].map(|id| verdict(&record(&repo, id)).to_owned());
    assert_eq!(verdicts(), ["unreviewed"; 2]);
    // Who is reviewed chooses no reviewer.
    repo.write("src/value", "echo val_bpb: 1.3\n");
    for other in ["none", "echo '{\"verdict\": \"earned\"}'"] {
        let refused = ar(&repo, ["try", "-m", "1.3", "--reviewer", other]).exits(1);
        assert!(refused.stderr.contains("reviewer") && refused.stderr.contains("hint: omit --reviewer"), "{refused:?}");
    }
    repo.git(["checkout", "-q", "--", "src/value"]);
    let status = || ar(&repo, ["status"]).ok().stdout;
    assert!(status().contains("\nreviews      2 keeps are unreviewed\n"), "{}", status());
    let report = || ar(&repo, ["report"]).ok().stdout;
    assert!(report().contains("run `ar review --tag t` to have them reviewed"), "{}", report());
    ar(&repo, ["resume", "--reviewer", "none"]).ok();
    assert!(report().contains("run `ar resume t --reviewer COMMAND` to have them reviewed"), "{}", report());
    let missing = ar(&repo, ["resume", "--reviewer", "no-such-program"]).exits(1);
    assert!(missing.stderr.contains("cannot start the reviewer"), "{missing:?}");

    let good = repo.outside().join("good.sh");
    fs::write(&good, EARNED).unwrap();
    let good = format!("sh {}", good.display());
    let called = ar(&repo, ["resume", "--reviewer", &good]).ok();
    assert_eq!(verdicts(), ["earned"; 2], "{called:#?}");
    assert!(!status().contains("unreviewed"), "{}", status());
    ar(&repo, ["doctor"]).ok();

    // The new one is stored, and `none` takes it away.
    let more = |number: &str, count: &str, flags: &[&str]| {
        let agent = value(number);
        let args = ["resume", "--agent", &agent, "--max-experiments", count];
        ar(&repo, args.iter().chain(flags)).ok()
    };
    more("1.3", "1", &[]);
    assert_eq!(verdict(&record(&repo, 3)), "earned");
    more("1.2", "1", &["--reviewer", "none"]);
    let last = record(&repo, 4);
    assert_eq!((&last["outcome"], verdict(&last)), (&"keep".into(), "-"), "{last}");
    assert!(!repo.read(".autoresearch/t/state/contract.json").contains("reviewer"));
}

#[test]
fn a_review_that_was_cut_off_is_not_done_when_the_reviewer_is_turned_off() {
    let repo = repo();
    let script = "
        shim=$PPID; until grep -q __shim /proc/$shim/cmdline; do read -r _ _ _ shim _ < /proc/$shim/stat; done
        read -r _ _ _ owner _ < /proc/$shim/stat; kill -KILL $owner; sleep 60";
    assert_eq!(reviewed(&repo, script, &[&value("1.5")], &[]).code, None);
    assert_eq!(ar(&repo, ["status", "--format", "json"]).ok().json()["sessions"][0]["open"]["id"], 1);
    ar(&repo, ["resume", "--reviewer", "none"]).ok();
    let first = record(&repo, 1);
    assert_eq!((&first["outcome"], verdict(&first)), (&"keep".into(), "-"), "{first}");
    assert!(!repo.exists(".autoresearch/t/trees"));
}

#[test]
fn a_review_that_is_interrupted_leaves_the_keep_unreviewed() {
    let repo = repo().without_walls();
    let script = "[ -e \"$AR_ROOT/../second\" ] && { echo '{\"verdict\": \"earned\"}'; exit; }; : > \"$AR_ROOT/../second\"; \
                  cd \"$AR_ROOT\"; env -u AR_EXPERIMENT ar stop --now; sleep 60";
    let command = reviewer(&repo, script);
    let path = format!("PATH={}:$PATH", env!("CARGO_BIN_EXE_ar").rsplit_once('/').unwrap().0);
    let command = format!("{path} {command}");
    session(&repo, &["--reviewer", &command], &[&value("1.5")], 3).ok();
    let first = record(&repo, 1);
    assert_eq!((&first["outcome"], verdict(&first)), (&"keep".into(), "unreviewed"), "{first}");
    assert!(first["review"]["why"].as_str().unwrap().contains("interrupted"));
    ar(&repo, ["resume", "--max-experiments", "0"]).ok();
    assert_eq!(verdict(&record(&repo, 1)), "earned");
}

#[test]
fn keeps_of_a_session_driven_by_hand_are_reviewed_when_it_is_finalized() {
    let repo = repo();
    let command = reviewer(&repo, "exit 1");
    let args = ["try", "-m", "1.5", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh eval.sh", "--reviewer", &command];
    repo.write("src/value", "echo val_bpb: 1.5\n");
    ar(&repo, args).ok();
    repo.write("src/value", "echo val_bpb: 1.4\n");
    ar(&repo, ["try", "-m", "1.4"]).ok();
    let verdicts = || [1, 2].map(|id| verdict(&record(&repo, id)).to_owned());
    assert_eq!(verdicts(), ["unreviewed"; 2]);
    // It is back for the second of them.
    let script = "[ $AR_EXPERIMENT = 1 ] && exit 1; echo '{\"verdict\": \"not_earned\", \"why\": \"src/value:1\"}'";
    reviewer(&repo, script);
    let head = repo.head();
    let called = ar(&repo, ["finalize", "t"]).exits(1);
    assert_eq!(verdicts(), ["unreviewed", "not_earned"], "{called:#?}");
    assert!(called.stderr.contains("   2  review   not earned: src/value:1"), "{called:#?}");
    assert!(called.stderr.contains("2 keeps without a review: reviewing first"), "{called:#?}");
    assert!(called.stderr.contains("error: the reviewer gave no verdict on 1\n"), "{called:#?}");
    let called = ar(&repo, ["finalize", "t", "--with-not-earned", "--unreviewed"]).ok();
    assert!(called.stdout.contains("t-final has 2 commits"), "{called:#?}");
    assert_eq!((repo.head(), repo.status()), (head, String::new()));
    assert_eq!(repo.git(["worktree", "list"]).lines().count(), 1);
    ar(&repo, ["doctor"]).ok();

    // With another branch checked out, its files stay as they are.
    repo.git(["checkout", "-q", "main"]);
    reviewer(&repo, EARNED);
    let finalize = ["finalize", "t", "--branch", "second", "--with-not-earned"];
    for command in [&finalize[..], &["review", "--tag", "t"]] {
        let called = ar(&repo, command).exits(1);
        assert!(called.stderr.contains("run `git switch autoresearch/t`, or pass --unreviewed"), "{called:#?}");
    }
    ar(&repo, finalize.iter().chain(&["--unreviewed"])).ok();
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/main");
    assert_eq!(verdicts(), ["unreviewed", "not_earned"]);
}

#[test]
fn keeps_that_a_spent_budget_leaves_without_a_review_are_named_with_it() {
    let repo = repo();
    let command = reviewer(&repo, "exit 1");
    session(&repo, &["--reviewer", &command], &[&value("1.5"), &value("1.4")], 1).ok();
    ar(&repo, ["resume", "--max-experiments", "1", "--session-max-cost", "0.4"]).ok();
    let says = "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"total_cost_usd\":0.5,\
                \"usage\":{\"input_tokens\":1,\"output_tokens\":2},\"result\":\"no idea\"}";
    reviewer(&repo, &format!("echo call >> \"$AR_ROOT/../asked\"; printf '%s\\n' '{says}'"));
    let called = ar(&repo, ["review"]).exits(1);
    let words = "error: no verdict on 1 and 2: ";
    assert!(called.stderr.contains(words) && called.stderr.contains("--session-max-cost N"), "{called:#?}");
    assert!(
        called.stderr.contains("--session-max-cost N`, or `ar finalize t --unreviewed` to go without"),
        "{called:#?}"
    );
    assert_eq!(fs::read_to_string(repo.outside().join("asked")).unwrap(), "call\n");
}

#[test]
fn while_the_reviewer_is_away_finalize_stops_until_a_review_or_the_users_word() {
    for flags in [&[][..], &["--slots", "1"]] {
        let repo = repo();
        let command = reviewer(&repo, "exit 1");
        // One after the other, so that neither is stale on slots.
        session(&repo, &[&["--reviewer", &command], flags].concat(), &[&value("1.5"), &value("1.4")], 1).ok();
        ar(&repo, ["resume", "--max-experiments", "1"]).ok();
        let verdicts = || [1, 2].map(|id| verdict(&record(&repo, id)).to_owned());
        assert_eq!(verdicts(), ["unreviewed"; 2]);
        for command in [&["finalize", "t"][..], &["review"]] {
            let called = ar(&repo, command).exits(1);
            let words = "error: the reviewer gave no verdict on 1 and 2\n\
                         hint: run `ar review --tag t` to ask again, or `ar finalize t --unreviewed` to go without\n";
            assert!(called.stderr.contains(words), "{flags:?}: {called:#?}");
        }
        assert!(!repo.try_git(["rev-parse", "--verify", "-q", "t-final"]).status.success(), "{flags:?}");
        ar(&repo, ["finalize", "t", "--unreviewed", "--branch", "without"]).ok();

        // It is back. A kill after its answer loses that call only.
        reviewer(&repo, EARNED);
        let mut killed = ar_command(&repo, &repo.path(), ["review"]);
        killed.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", "reviewing.reviewer_over:1");
        assert_eq!(Called::from(killed.output().unwrap()).code, None, "{flags:?}");
        assert_eq!(verdicts(), ["unreviewed"; 2]);
        ar(&repo, ["review", "2"]).ok();
        assert_eq!(verdicts(), ["unreviewed", "earned"], "{flags:?}");
        let called = ar(&repo, ["finalize", "t"]).ok();
        assert!(called.stderr.contains("1 keep without a review: reviewing first"), "{flags:?}: {called:#?}");
        assert_eq!(verdicts(), ["earned"; 2], "{flags:?}");
        let called = ar(&repo, ["review"]).ok();
        assert!(called.stderr.contains("no keep of session t is unreviewed"), "{flags:?}: {called:#?}");
        let called = ar(&repo, ["review", "7"]).exits(1);
        assert!(called.stderr.contains("experiment 7 of session t was not kept, so it has no review"), "{called:#?}");
        assert_eq!((repo.status(), repo.git(["worktree", "list"]).lines().count()), (String::new(), 1), "{flags:?}");
        ar(&repo, ["resume", "--reviewer", "none", "--max-experiments", "0"]).ok();
        let called = ar(&repo, ["review"]).exits(1);
        assert!(called.stderr.contains("session t has no reviewer\n"), "{flags:?}: {called:#?}");
        ar(&repo, ["doctor"]).ok();
    }
}

#[test]
fn without_a_journal_no_reviewer_gets_a_working_tree_that_is_somewhere_else() {
    let repo = repo();
    reviewed(&repo, "exit 1", &[&value("1.5")], &[]).ok();
    reviewer(&repo, EARNED);
    repo.git(["checkout", "-q", "main"]);
    fs::remove_dir_all(repo.file(".autoresearch")).unwrap();
    for command in [&["finalize", "t"][..], &["review", "--tag", "t"]] {
        let called = ar(&repo, command).exits(1);
        assert!(called.stderr.contains("cannot ask the reviewer"), "{called:#?}");
    }
    assert_eq!(repo.git(["symbolic-ref", "--short", "HEAD"]).trim(), "main");
    assert_eq!(verdict(&record(&repo, 1)), "unreviewed");
}

#[test]
fn what_a_late_reviewer_committed_before_a_kill_is_undone_and_begins_no_session() {
    let in_place = [
        "cd \"$AR_ROOT\"; echo mine > eval.sh; git commit -qam mine; echo more >> src/value",
        "cd \"$AR_ROOT\"; git commit -qm mine --allow-empty; git checkout -q --detach",
        "cd \"$AR_ROOT\"; git reset -q --hard HEAD~1",
    ];
    let on_branch = ["git update-ref refs/heads/autoresearch/t $(git commit-tree -m mine -p HEAD HEAD^{tree})"];
    for (flags, attacks) in [(&[][..], &in_place[..]), (&["--slots", "1"], &on_branch)] {
        for attack in attacks {
            let repo = repo().without_walls();
            let script = format!(
                "echo call >> \"$AR_ROOT/../reviews\"; calls=$(wc -l < \"$AR_ROOT/../reviews\")\n\
                 [ $calls -gt 1 ] || exit 1\n[ $calls -gt 2 ] || ({attack}) > /dev/null 2>&1\n{EARNED}"
            );
            let command = reviewer(&repo, &script);
            let agent = value("1.5");
            let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh eval.sh", "--tag", "t", "--agent", &agent];
            let mut run = ar_command(&repo, &repo.path(), args);
            run.args(["--reviewer", &command, "--max-experiments", "1"]).args(flags);
            run.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", "reviewing.reviewer_over:2");
            let killed = Called::from(run.output().unwrap());
            assert_eq!(killed.code, None, "{attack}: {killed:#?}");
            let tip = repo.git(["rev-parse", "autoresearch/t"]);
            assert_ne!(tip, record(&repo, 1)["commit"].as_str().unwrap(), "{attack}: {killed:#?}");

            let called = ar(&repo, ["run", "--tag", "t", "--max-experiments", "0"]).ok();
            assert!(!called.stderr.contains("began session"), "{attack}: {called:#?}");
            let kept = record(&repo, 1);
            let branches = repo.git(["for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/autoresearch"]);
            let expected = format!("refs/heads/autoresearch/t {}", kept["commit"].as_str().unwrap());
            assert_eq!((branches, repo.status()), (expected, String::new()), "{attack}: {called:#?}");
            assert_eq!(verdict(&kept), "earned", "{attack}: {called:#?}");
            let journal: Value = serde_json::from_str(&repo.read(".autoresearch/t/state/progress.json")).unwrap();
            assert_eq!(journal["late_review"], Value::Null, "{attack}");
            ar(&repo, ["doctor"]).ok();
        }
    }
}
