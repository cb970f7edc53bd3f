//! Each rule for changes that were overtaken, seen acting. What every experiment does is planned in files, and runs wait for
//! each other.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use super::landscape::records;
use crate::artifacts::{check_artifacts, left};
use crate::support::{Called, TestRepo, ar, ar_command, ar_in_time, until};

/// A repository whose loss is 100 less what `cost.sh` says of the files in `parts`, and an agent that follows plans.
fn planned(cost: &str) -> TestRepo {
    let repo = TestRepo::empty();
    repo.write("cost.sh", cost);
    repo.write("parts/base", "0\n");
    // A run goes on once all files exist that the files `wait-*` name.
    repo.write(
        "train.sh",
        "for file in $(cat /dev/null wait-* 2>/dev/null); do until [ -e $file ]; do sleep 0.02; done; done\n\
         echo run >>\"$COUNT/runs-$AR_EXPERIMENT\"\necho \"loss: $((100 - $(sh cost.sh)))\"\n",
    );
    fs::create_dir(repo.outside().join("plans")).unwrap();
    fs::write(
        repo.outside().join("agent.sh"),
        "plans=$1\nn=$AR_EXPERIMENT\nprompt=$(cat)\nkind=plan\ncase $prompt in *'Make the same change again'*) kind=merge ;; *'Mend it so that both'*) kind=mend ;; esac\n\
         echo call >>\"$plans/calls-$kind-$AR_EXPERIMENT\"\n\
         [ ! -e \"$plans/$kind-$AR_EXPERIMENT\" ] || . \"$plans/$kind-$AR_EXPERIMENT\"\n",
    )
    .unwrap();
    repo.commit_all("planned");
    repo
}

/// Plans what the agent does for an experiment.
fn plan(repo: &TestRepo, name: &str, shell: &str) {
    fs::write(repo.outside().join("plans").join(name), shell).unwrap();
}

/// Shell that has a run wait until experiment `id` is recorded.
fn after(repo: &TestRepo, id: u32) -> String {
    format!("echo {} >wait-$n\n", repo.file(format!(".git/refs/autoresearch/t/{id:05}")).display())
}

/// Shell that has a run wait until the runs of these experiments have begun.
fn beside(repo: &TestRepo, ids: std::ops::RangeInclusive<u32>) -> String {
    let begun = |id: u32| repo.file(format!(".autoresearch/t/runs/{id:05}/started.json")).display().to_string();
    format!("echo {} >wait-$n\n", ids.map(begun).collect::<Vec<_>>().join(" "))
}

/// Shell that has an agent wait until these experiments have been proposed, whatever has become of them since.
fn behind(ids: std::ops::RangeInclusive<u32>) -> String {
    ids.map(|id| {
        let is_there = |name: &str| format!("git -C ${{AR_STATE_DIR%/.autoresearch/*}} rev-parse -q --verify refs/autoresearch/t/{name}{id:05} >/dev/null");
        format!("until {} || {}; do sleep 0.02; done\n", is_there("open/"), is_there(""))
    })
    .collect()
}

fn args(repo: &TestRepo, more: &[&str]) -> Vec<String> {
    let outside = repo.outside().display();
    let agent = format!("sh {outside}/agent.sh {outside}/plans");
    let command = format!("COUNT={outside} sh train.sh");
    let first = ["run", "--yes", "--metric", "loss", "--tag", "t", "--cmd", &command, "--agent", &agent];
    first.iter().chain(more).map(|arg| (*arg).to_owned()).collect()
}

fn night(repo: &TestRepo, more: &[&str]) -> Night {
    ar_in_time(repo, args(repo, more)).ok();
    Night(records(repo))
}

struct Night(Vec<Value>);

impl Night {
    fn of(&self, id: u32) -> &Value {
        self.0.iter().find(|record| record["id"] == id).unwrap_or_else(|| panic!("no record of {id}: {:#?}", self.0))
    }

    /// What became of an experiment: outcome, number, reason.
    fn fate(&self, id: u32) -> (&str, Option<f64>, &str) {
        let record = self.of(id);
        (record["outcome"].as_str().unwrap(), record["metric"]["value"].as_f64(), record["reason"].as_str().unwrap())
    }
}

fn count(repo: &TestRepo, file: &str) -> usize {
    fs::read_to_string(repo.outside().join(file)).unwrap_or_default().lines().count()
}

const SUM: &str = "cat parts/* | awk '{ sum += $1 } END { print sum }'";

/// Two experiments that change the same line. They run beside each other, and the second ends once the first is kept.
fn same_line() -> TestRepo {
    let repo = planned(SUM);
    plan(&repo, "plan-1", &format!("echo 1 >parts/base\n{}echo one\n", beside(&repo, 2..=2)));
    plan(&repo, "plan-2", &format!("echo 2 >parts/base\n{}echo two\n", after(&repo, 1)));
    repo
}

/// The same on one slot: the second waits for it while the first runs, which ends once the second is proposed.
fn same_line_in_a_row() -> TestRepo {
    let repo = planned(SUM);
    let proposed = repo.file(".git/refs/autoresearch/t/open/00002");
    plan(&repo, "plan-1", &format!("echo {} >wait-$n\necho 1 >parts/base\necho one\n", proposed.display()));
    plan(&repo, "plan-2", &format!("{}echo 2 >parts/base\necho two\n", behind(1..=1)));
    repo
}

const TWO: [&str; 6] = ["--slots", "2", "--calls", "2", "--max-experiments", "2"];

#[test]
fn a_winner_that_conflicts_goes_to_the_agent_and_rides_as_it_was_merged() {
    let repo = same_line();
    let told = "echo '{\"description\": \"two, in a new form\"}' >$AR_PROPOSAL";
    plan(&repo, "merge-2", &format!("echo 3 >parts/base\n{told}\n"));
    let records = night(&repo, &TWO);
    assert_eq!(records.fate(1).0, "keep");
    let (outcome, value, reason) = records.fate(2);
    assert_eq!((outcome, value), ("keep", Some(97.0)), "{reason}");
    let replays = records.of(2)["replays"].as_array().unwrap();
    assert_eq!(replays[0]["value"], 98.0, "its own number stands with the commit that gave it: {replays:#?}");
    assert_eq!(repo.git(["show", &format!("{}:parts/base", replays[0]["commit"].as_str().unwrap())]), "2");
    let merged = repo.git(["rev-parse", "refs/autoresearch/t/merged/00002"]);
    assert_eq!(replays[0]["commit"], merged.as_str());
    assert_eq!(count(&repo, "plans/calls-merge-2"), 1);
    assert_eq!(repo.git(["log", "--format=%s", "autoresearch/t"]), "two, in a new form\none\nplanned");
    assert_eq!(records.of(2)["description"], "two, in a new form");
}

#[test]
fn a_winner_that_nobody_merges_is_run_alone_and_put_on_top_if_it_is_better() {
    let repo = same_line();
    let records = night(&repo, &TWO);
    let (outcome, value, reason) = records.fate(2);
    assert_eq!((outcome, value), ("keep", Some(98.0)), "{reason}");
    assert_eq!(records.of(2)["replaces"], json!([1]));
    assert_eq!(repo.git(["show", "autoresearch/t:parts/base"]), "2");
    let runs: usize = (0..9).map(|id| count(&repo, &format!("runs-{id}"))).sum();
    assert_eq!(runs, 2 + 2 + 1, "the baseline on both slots, each once, and one afresh");
    assert_eq!(count(&repo, "plans/calls-merge-2"), 1, "it is asked once for that incumbent");

    let told = |args: &[&str]| ar(&repo, args).ok().stdout;
    assert!(told(&["log", "t"]).contains("replaced by 2: one\n"), "{}", told(&["log", "t"]));
    assert!(told(&["show", "1", "--tag", "t"]).contains("experiment 2, whose tree has none of its change"));
    let report = ar(&repo, ["report", "t", "--format", "json"]).ok().json();
    let kept =
        |place: usize| [&report["kept"][place]["replaced_by"], &report["kept"][place]["share"]].map(Clone::clone);
    assert_eq!([kept(1), kept(2)], [[json!(2), Value::Null], [Value::Null, json!(1.0)]]);
    assert!(told(&["finalize", "t"]).contains(" one (replaced by 2)\n"));
}

#[test]
fn a_winner_that_conflicts_goes_to_the_agent_also_where_fresh_runs_decide_and_its_end_says_why() {
    let left = "nothing left of it once merged with experiment 1";
    let conflicts = "conflicts with experiment 1, not measured together";
    let decide = |mode| [&TWO[..], &["--decide", mode, "--max-file-lines", "5"]].concat();
    for (merge, mode, fate) in [
        ("echo 3 >parts/base\n", "confirmed", ("keep", Some(97.0), None)),
        (":", "confirmed", ("discard", Some(99.0), Some(left))),
        (":", "once", ("discard", Some(99.0), Some(left))),
        // It is too large to run.
        ("seq 9 >parts/base", "confirmed", ("discard", Some(99.0), Some(conflicts))),
    ] {
        let repo = planned(SUM);
        plan(&repo, "plan-1", &format!("echo 2 >parts/base\n{}echo one\n", beside(&repo, 2..=2)));
        plan(&repo, "plan-2", &format!("echo 1 >parts/base\n{}echo two\n", after(&repo, 1)));
        plan(&repo, "merge-2", merge);
        let records = night(&repo, &decide(mode));
        let (outcome, value, reason) = records.fate(2);
        assert_eq!((outcome, value), (fate.0, fate.1), "{mode}, {merge}: {reason}");
        fate.2.into_iter().for_each(|expected| assert_eq!(reason, expected, "{mode}, {merge}"));
        assert_eq!(count(&repo, "plans/calls-merge-2"), 1, "{mode}, {merge}");
    }
}

#[test]
fn winners_that_change_neighbouring_lines_are_merged_and_measured_together() {
    let repo = planned(SUM);
    repo.write("parts/base", "0\n0\n0\n0\n");
    repo.commit_all("four lines");
    let line = |at: u32, gain: u32| format!("sed -i {at}s/.*/{gain}/ parts/base\n");
    plan(&repo, "plan-1", &format!("{}{}echo one\n", line(2, 1), beside(&repo, 2..=2)));
    plan(&repo, "plan-2", &format!("{}{}echo two\n", line(3, 2), after(&repo, 1)));
    let records = night(&repo, &TWO);
    let (outcome, value, reason) = records.fate(2);
    assert_eq!((outcome, value), ("keep", Some(97.0)), "{reason}");
    assert_eq!(repo.git(["show", "autoresearch/t:parts/base"]), "0\n1\n2\n0");
    assert_eq!(count(&repo, "plans/calls-merge-2"), 0);
}

#[test]
fn a_change_that_conflicts_before_its_run_goes_to_the_agent_once_and_is_refused_then() {
    let repo = same_line_in_a_row();
    let records = night(&repo, &["--slots", "1", "--ahead", "1", "--calls", "2", "--max-experiments", "2"]);
    let second = records.of(2);
    assert_eq!((&second["outcome"], &second["failure"]["class"]), (&json!("crash"), &json!("conflict")), "{second:#?}");
    assert_eq!((count(&repo, "plans/calls-merge-2"), count(&repo, "runs-2")), (1, 0));

    let repo = same_line_in_a_row();
    plan(&repo, "merge-2", "echo 5 >parts/base\necho '{\"description\": \"five\"}' >$AR_PROPOSAL\n");
    let records = night(&repo, &["--slots", "1", "--ahead", "1", "--calls", "2", "--max-experiments", "2"]);
    assert_eq!(records.of(2)["description"], "five", "what the agent now says of it");
    let (outcome, value, reason) = records.fate(2);
    assert_eq!((outcome, value), ("keep", Some(95.0)), "{reason}");
    assert_eq!(records.of(2)["replays"][0]["value"], Value::Null);
}

#[test]
fn a_change_that_fails_once_it_is_merged_goes_to_the_agent_once_before_it_counts() {
    let both = format!("if [ -e parts/one ] && [ -e parts/two ]; then exit 1; fi\n{SUM}");
    let plans = |mend: &str| {
        let repo = planned(&both);
        // A loss that cannot be told ends the run.
        let train = repo.read("train.sh").replacen("echo run", "sh cost.sh >/dev/null || exit 1\necho run", 1);
        repo.write("train.sh", train);
        repo.commit_all("fails where both are");
        plan(&repo, "plan-1", "echo 1 >parts/one\necho one\n");
        plan(&repo, "plan-2", &format!("{}echo 2 >parts/two\necho two\n", behind(1..=1)));
        plan(&repo, "mend-2", mend);
        let records = night(&repo, &["--slots", "1", "--ahead", "1", "--calls", "2", "--max-experiments", "2"]);
        assert_eq!(count(&repo, "plans/calls-mend-2"), 1);
        records
    };
    let mended = plans("mv parts/two parts/deux\n");
    assert_eq!((mended.fate(2).0, mended.fate(2).1), ("keep", Some(97.0)), "{:#?}", mended.of(2));
    let left = plans("");
    assert_eq!((left.fate(2).0, left.fate(2).1), ("crash", None), "{:#?}", left.of(2));
}

#[test]
fn a_version_that_conflicts_is_saved_where_its_agent_makes_no_other_one() {
    let repo = planned(SUM);
    // The guard of the second experiment waits until the next version of the first one is ready.
    repo.write(
        "guard.sh",
        "[ ! -e bad ] || exit 1\n[ \"$(cat parts/base)\" = 2 ] || exit 0\n\
         until grep -q committing \"$AR_STATE_DIR/progress.json\"; do sleep 0.02; done\n",
    );
    repo.commit_all("guarded");
    plan(
        &repo,
        "plan-1",
        "case $(wc -l <\"$plans/calls-plan-1\") in\n*1) echo 1 >parts/base; touch bad; echo one ;;\n\
         *2) echo 3 >parts/base; rm bad; echo three ;;\nesac\n",
    );
    plan(&repo, "plan-2", &format!("{}echo 2 >parts/base\necho two\n", behind(1..=1)));
    let more = ["--slots", "1", "--ahead", "1", "--calls", "2", "--max-experiments", "2", "--guard", "sh guard.sh"];
    let called = ar_in_time(&repo, args(&repo, &more)).ok();
    let records = Night(records(&repo));
    assert_eq!((records.fate(1).0, records.fate(2).0), ("discard", "keep"), "{:#?}", records.of(1));
    assert_eq!((count(&repo, "plans/calls-plan-1"), count(&repo, "runs-1")), (3, 1));
    assert!(called.stderr.contains("what was last made of experiment 1"), "{}", called.stderr);
    let saved = repo.git(["for-each-ref", "--format=%(refname)", "refs/autoresearch/t/saved"]);
    let of = |name: &str| repo.git(["show", &format!("{name}:parts/base")]);
    assert!(saved.lines().any(|name| of(name) == "3"), "{saved}");
}

#[test]
fn kills_while_changes_conflict_lose_nothing() {
    for (point, merge) in [
        ("merging.asked", true),
        ("merging.change_committed", true),
        ("merging.committed", true),
        ("replacing.committed", false),
        ("trial.ended", false),
        ("recording.entered", false),
    ] {
        let repo = same_line();
        if merge {
            plan(&repo, "merge-2", "echo 3 >parts/base\n");
        }
        let mut command = ar_command(&repo, &repo.path(), args(&repo, &TWO));
        let at = if point == "recording.entered" { 3 } else { 1 };
        command.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", format!("{point}:{at}"));
        let killed: Called = command.output().unwrap().into();
        assert_eq!(killed.code, None, "{point}: {killed:#?}");
        ar_in_time(&repo, ["resume", "t"]).ok();
        let records = Night(records(&repo));
        assert_eq!(records.0.len(), 3, "{point}");
        let expected = if merge { ("keep", Some(97.0)) } else { ("keep", Some(98.0)) };
        assert_eq!((records.fate(2).0, records.fate(2).1), expected, "{point}: {:#?}", records.of(2));
        assert_eq!(repo.read("results.tsv").lines().count(), 4, "{point}");
        assert_eq!(repo.git(["for-each-ref", "refs/autoresearch/t/open"]), "", "{point}");
        assert_eq!(repo.git(["fsck", "--no-dangling", "--no-progress"]), "", "{point}");
    }
}

#[test]
fn a_winner_that_does_not_add_to_what_was_kept_is_discarded_with_its_own_number() {
    let repo = planned("cat parts/* | sort -n | tail -n 1");
    plan(&repo, "plan-1", &format!("echo 2 >parts/one\n{}echo one\n", beside(&repo, 2..=2)));
    let wait = after(&repo, 1);
    plan(&repo, "plan-2", &format!("echo 1 >parts/two\n{wait}echo two\n"));
    let records = night(&repo, &TWO);
    let (outcome, value, reason) = records.fate(2);
    assert_eq!((outcome, value, reason), ("discard", Some(99.0), "does not add to experiment 1"));
    let values: Vec<&Value> = records.of(2)["replays"].as_array().unwrap().iter().map(|it| &it["value"]).collect();
    assert_eq!(values, [98.0, 99.0], "merged, and by itself once more");
}

#[test]
fn the_artifacts_of_a_train_are_those_of_its_last_member() {
    let repo = planned(SUM);
    // The first train waits for those that do not ride it. The journal shows the step of the first attempt twice.
    let waits = "[ $AR_EXPERIMENT -ne 5 ] || until [ $(grep -c '\"waiting\"' $AR_STATE_DIR/progress.json) -ge 5 ]; \
                 do sleep 0.02; done\n";
    repo.write("train.sh", format!("{waits}ls parts >model\n{}", repo.read("train.sh")));
    repo.commit_all("a model");
    plan(&repo, "plan-1", &format!("echo 1 >parts/1\n{}echo one\n", beside(&repo, 2..=4)));
    let wait = after(&repo, 1);
    for id in 2..=4 {
        plan(&repo, &format!("plan-{id}"), &format!("echo {id} >parts/{id}\n{wait}echo {id}\n"));
    }
    let more = ["--slots", "4", "--calls", "4", "--max-experiments", "4", "--artifact", "model"];
    let records = night(&repo, &more);
    check_artifacts(&repo, &records.0, "a train");
    let mut trains = 0;
    for record in &records.0 {
        let Some(members) = record["train"]["members"].as_array().filter(|members| members.len() > 1) else { continue };
        let files = left(&repo, u32::try_from(record["id"].as_u64().unwrap()).unwrap());
        if members.last() == Some(&record["id"]) {
            trains += 1;
            let parts = files["artifacts/model"].lines().count();
            let tree = repo.git(["ls-tree", "--name-only", &format!("{}:parts", record["commit"].as_str().unwrap())]);
            assert_eq!((parts, files.len()), (tree.lines().count(), 1), "{record:#?}");
        } else {
            assert!(files.is_empty() && record.get("artifacts").is_none(), "{record:#?}");
        }
    }
    assert!(trains > 0, "{:#?}", records.0);
    // What is put on top by itself has the files of its last run.
    let repo = same_line();
    repo.write("train.sh", format!("echo $AR_EXPERIMENT >model\n{}", repo.read("train.sh")));
    repo.commit_all("a model");
    let records = night(&repo, &[&TWO[..], &["--artifact", "model"]].concat());
    assert_eq!(records.of(2)["replaces"], json!([1]));
    check_artifacts(&repo, &records.0, "put on top");
    assert_eq!(left(&repo, 2)["artifacts/model"], "3\n");
}

#[test]
fn a_train_that_does_not_hold_is_halved_until_it_is_known_who_spoils_it() {
    // Three and four together cost more than they bring.
    let spoilt = "sum=$(cat parts/* | awk '{ sum += $1 } END { print sum }')\n\
                  if [ -e parts/three ] && [ -e parts/four ]; then sum=$((sum - 40)); fi\necho $sum\n";
    let repo = planned(spoilt);
    plan(&repo, "plan-1", &format!("echo 1 >parts/one\n{}echo one\n", beside(&repo, 2..=5)));
    let wait = after(&repo, 1);
    for (id, name, gain) in [(2, "two", 5), (3, "three", 4), (4, "four", 3), (5, "five", 2)] {
        plan(&repo, &format!("plan-{id}"), &format!("echo {gain} >parts/{name}\n{wait}echo {name}\n"));
    }
    let more = ["--slots", "5", "--calls", "5", "--max-experiments", "5"];
    let records = night(&repo, &more);
    for id in [1, 2, 5] {
        assert_eq!(records.fate(id).0, "keep", "{:#?}", records.of(id));
    }
    // Whose half is measured first stays.
    let (stays, goes) = if records.fate(3).0 == "keep" { (4.0, 4) } else { (3.0, 3) };
    assert_eq!(records.fate(goes).0, "discard", "{:#?}", records.of(goes));
    assert!(records.fate(goes).2.starts_with("does not add to experiment "), "{:#?}", records.of(goes));
    let best = records.0.iter().filter_map(|record| record["metric"]["value"].as_f64()).fold(100.0, f64::min);
    assert_eq!(best, 100.0 - 1.0 - 5.0 - stays - 2.0);
    let log = ar(&repo, ["log", "t"]).ok().stdout;
    assert!(log.contains("five"), "{log}");
}

#[test]
fn the_same_change_in_two_seats_is_a_duplicate() {
    let repo = planned(SUM);
    let same = format!("echo 1 >parts/base\n{}", after(&repo, 2).replace("-$n", "-both"));
    plan(&repo, "plan-1", &same);
    plan(&repo, "plan-2", &format!("{}{same}", behind(1..=1)));
    // The duplicate uses up no experiment.
    plan(&repo, "plan-3", &format!("{}echo 3 >parts/three\necho three\n", behind(1..=2)));
    let records = night(&repo, &TWO);
    assert_eq!(records.of(2)["failure"]["class"], "duplicate", "{:#?}", records.of(2));
    assert!(records.of(2)["failure"]["excerpt"].as_str().unwrap().contains("experiment 1, which is open"));
    assert_eq!(records.fate(1).0, "keep");
}

/// A session on two slots, both of whose runs wait for a file.
fn held_up(repo: &TestRepo, more: &[&str]) -> std::process::Child {
    let gate = format!("echo {} >wait-$n\n", repo.outside().join("gate").display());
    for (id, name) in [(1, "one"), (2, "two"), (3, "three"), (4, "four")] {
        // The first two run.
        let first = if id > 2 { behind(1..=2) } else { String::new() };
        plan(repo, &format!("plan-{id}"), &format!("{first}echo {id} >parts/{name}\n{gate}echo {name}\n"));
    }
    let mut command = ar_command(repo, &repo.path(), args(repo, more));
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("both slots are busy", || {
        let status = ar(repo, ["status", "t", "--format", "json"]);
        let status: Value = serde_json::from_str(&status.stdout).ok()?;
        let slots = status["sessions"][0]["slots"].as_array()?.clone();
        // The baseline runs on both as well.
        let is_busy = |slot: &Value| slot["phase"] == "running" && slot["experiment"].as_u64() > Some(0);
        (slots.len() == 2 && slots.iter().all(is_busy)).then_some(())
    });
    child
}

#[test]
fn a_session_that_is_resumed_picks_up_the_runs_of_all_slots() {
    let repo = planned(SUM);
    let mut child = held_up(&repo, &["--slots", "2", "--ahead", "0", "--calls", "2", "--max-experiments", "2"]);
    child.kill().unwrap();
    child.wait().unwrap();
    fs::write(repo.outside().join("gate"), "").unwrap();
    ar_in_time(&repo, ["resume", "t"]).ok();
    let records = Night(records(&repo));
    assert_eq!((records.fate(1).0, records.fate(2).0), ("keep", "keep"));
    assert_eq!((count(&repo, "runs-1"), count(&repo, "runs-2")), (1, 1), "nothing ran twice");
}

#[test]
fn a_stop_lets_runs_end_and_keeps_what_waits_as_ideas() {
    let repo = planned(SUM);
    let limit = ["--slots", "2", "--ahead", "2", "--calls", "4", "--max-experiments", "4"];
    let mut child = held_up(&repo, &limit);
    until("the proposals wait", || {
        let open = repo.git(["for-each-ref", "refs/autoresearch/t/open"]);
        (open.lines().count() == 4).then_some(())
    });
    let said = ar(&repo, ["stop", "t"]).ok().stdout;
    assert_eq!(
        said,
        "session t stops after experiments 1 and 2\n\
         kept as ideas with their commits, not run: the proposals of experiments 3 and 4\n"
    );
    fs::write(repo.outside().join("gate"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "as it was asked to");
    let records = records(&repo);
    // The second one won on the baseline and waits, as nothing starts any more.
    assert_eq!(records.len(), 2, "{records:#?}");
    let ideas = ar(&repo, ["idea", "list"]).ok().stdout;
    for name in ["three", "four"] {
        assert!(
            ideas.contains(&format!("{name} (proposed and not run; its change is refs/autoresearch/t/saved/")),
            "{ideas}"
        );
    }
    let saved = repo.git(["for-each-ref", "--format=%(refname)", "refs/autoresearch/t/saved"]);
    assert_eq!(saved.lines().count(), 2, "{saved}");
    let report = ar(&repo, ["report", "t"]).ok().stdout;
    assert!(
        !report.contains("unfinished or uncommitted work"),
        "ar itself keeps proposals that were not run: {report}"
    );
    let open: Value = serde_json::from_str(&repo.read(".autoresearch/t/state/progress.json")).unwrap();
    assert_eq!(open["phase"], "waiting");
    let other = ["run", "--yes", "--metric", "loss", "--cmd", "echo loss: 1", "--slots", "1", "--max-experiments", "0"];
    let noted = ar_in_time(&repo, other).ok().stderr;
    assert!(noted.contains("session t is not finished; run `ar resume t` to continue it"), "{noted}");

    // It is the first thing that is done when the session goes on.
    let goes_on = ["resume", "t", "--max-experiments", "1"];
    let called: Called = ar_in_time(&repo, goes_on).ok();
    assert!(called.stdout.contains(" on the incumbent: loss 97 "), "{called:#?}");
    assert_eq!(super::landscape::records(&repo).len(), 3);
}

#[test]
fn a_session_that_is_finalized_records_its_winners_as_not_replayed() {
    let repo = planned(SUM);
    let mut child = held_up(&repo, &["--slots", "2", "--ahead", "0", "--calls", "2", "--max-experiments", "2"]);
    ar(&repo, ["stop", "t"]).ok();
    fs::write(repo.outside().join("gate"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(records(&repo).len(), 2);
    let waits = ar(&repo, ["finalize", "t"]).exits(1);
    assert!(waits.stderr.contains("session t has changes that wait for more runs"), "{waits:#?}");
    let ways = "run `ar resume t` to make these, or `ar finalize t --drop-winners` to record the changes as discards";
    assert!(waits.stderr.contains(ways), "{waits:#?}");
    assert_eq!(records(&repo).len(), 2, "nothing was recorded");
    ar(&repo, ["finalize", "t", "--drop-winners"]).ok();
    let records = Night(records(&repo));
    let left: Vec<&Value> = records.0.iter().filter(|record| record["outcome"] == "discard").collect();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["reason"], "not replayed: the session ended");
    assert!(left[0]["metric"]["value"].is_f64());
}

/// Experiments 2 and 3, which are better than what was kept and wait for the same train: their tree does what `spoilt` says.
/// The first train is that of experiment 4.
fn two_that_ride_together(cost: &str, spoilt: &str) -> TestRepo {
    let repo = planned(cost);
    let journal = repo.file(".autoresearch/t/state/progress.json").display().to_string();
    let waiting = format!("[ \"$(grep -o '\"phase\": *\"waiting\"' {journal} | wc -l)\" -ge 3 ]");
    let held = format!("[ $AR_EXPERIMENT -ne 5 ] || until {waiting}; do sleep 0.02; done\n");
    let spoilt = format!("if [ -e parts/two ] && [ -e parts/three ]; then {spoilt}; fi\necho \"loss");
    repo.write("train.sh", held + &repo.read("train.sh").replacen("echo \"loss", &spoilt, 1));
    repo.commit_all("what two changes do together");
    plan(&repo, "plan-1", &format!("echo 1 >parts/one\n{}echo one\n", beside(&repo, 2..=4)));
    let wait = after(&repo, 1);
    let train = format!("echo {} >wait-$n\n", repo.file(".autoresearch/t/runs/00005/started.json").display());
    for (id, name, gain, wait) in [(2, "two", 3, &train), (3, "three", 2, &train), (4, "four", 1, &wait)] {
        plan(&repo, &format!("plan-{id}"), &format!("echo {gain} >parts/{name}\n{wait}echo {name}\n"));
    }
    repo
}

#[test]
fn the_better_half_of_a_train_is_kept_although_the_other_one_ends_first() {
    // Each half holds, and both together are worse than what was kept.
    let cost = "sum=$(cat parts/* | awk '{ sum += $1 } END { print sum }')\n\
                if [ -e parts/two ] && [ -e parts/three ]; then sum=$((sum - 40)); fi\necho $sum\n";
    let repo = two_that_ride_together(cost, ":");
    let other = repo.file(".autoresearch/t/runs/00008/exit.json").display().to_string();
    let held = format!("[ $AR_EXPERIMENT -ne 7 ] || until [ -e {other} ]; do sleep 0.02; done\n");
    repo.write("train.sh", held + &repo.read("train.sh"));
    repo.commit_all("the second half ends first");
    let records = night(&repo, &["--slots", "4", "--calls", "4", "--max-experiments", "4"]);
    assert_eq!((records.fate(2).0, records.fate(2).1), ("keep", Some(95.0)), "{:#?}", records.of(2));
    assert_eq!(records.fate(3).2, "does not add to experiment 2");
    let values: Vec<&Value> = records.of(3)["replays"].as_array().unwrap().iter().map(|it| &it["value"]).collect();
    assert_eq!(values[..2], [&json!(133.0), &json!(96.0)], "the half that is not kept has its number, too");
}

#[test]
fn calls_that_a_kill_cut_off_are_made_again_under_the_same_numbers() {
    let repo = planned(SUM);
    let gate = repo.outside().join("gate");
    for (id, name) in [(1, "one"), (2, "two")] {
        let held = format!("until [ -e {} ]; do sleep 0.02; done\n", gate.display());
        plan(&repo, &format!("plan-{id}"), &format!("{held}echo {id} >parts/{name}\necho {name}\n"));
    }
    let calls = |id: u32| count(&repo, &format!("plans/calls-plan-{id}"));
    let mut child = ar_command(&repo, &repo.path(), args(&repo, &TWO)).stdout(Stdio::null()).spawn().unwrap();
    until("both agents are called", || (calls(1) == 1 && calls(2) == 1).then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    fs::write(gate, "").unwrap();
    ar_in_time(&repo, ["resume", "t"]).ok();
    let records = Night(records(&repo));
    assert_eq!((records.fate(1).2.is_empty(), records.of(2)["description"].as_str()), (false, Some("two")));
    assert_eq!((records.0.len(), [calls(1), calls(2), calls(3), calls(4)]), (3, [2, 2, 0, 0]));
}

#[test]
fn a_train_whose_merged_tree_fails_does_not_hold_and_its_halves_are_tried() {
    // What a guard names is protected.
    let guard = ["--guard", "[ $(ls parts | grep -c t) -lt 2 ]"];
    let import = "printf 'Traceback (most recent call last):\\n  File \"train.py\", line 1, in <module>\\nModuleNotFoundError: No module named two\\n'; exit 1";
    for (spoilt, more) in [(":", &guard[..]), (import, &[])] {
        let repo = two_that_ride_together(SUM, spoilt);
        let limit = ["--slots", "4", "--calls", "4", "--max-experiments", "4"];
        let records = night(&repo, &[&limit[..], more].concat());
        assert_eq!(records.0.len(), 5, "no trial is an experiment: {:#?}", records.0);
        // After that of 4: the whole, its halves side by side, the second one on the better one, and its own tree once more.
        let trials = (6..99).filter(|id| count(&repo, &format!("runs-{id}")) > 0);
        assert_eq!(trials.count(), 5);
        assert_eq!((records.fate(2).0, records.fate(2).1), ("keep", Some(95.0)), "{:#?}", records.of(2));
        let (outcome, value, reason) = records.fate(3);
        assert_eq!((outcome, value, reason), ("discard", Some(98.0), "does not add to experiment 2"), "{spoilt}");
        let calls = (0..99).map(|id| count(&repo, &format!("plans/calls-plan-{id}"))).sum::<usize>();
        assert_eq!(calls, 4, "the agent reworks no trial");
        assert_eq!(repo.git(["for-each-ref", "refs/autoresearch/t/open"]), "");
    }
}
