//! Proposals at a pivot, by calls in other roles.

use std::fs;

use serde_json::Value;

use crate::run_loop::training_repo;
use crate::support::{AR, Called, FIND_OWNER, Person, TestRepo, ar, ar_in_time};

const PROPOSALS: &str = "## Proposals for this pivot\n";

/// Runs a session on the structural ladder, which pivots after two experiments, with an agent that keeps its prompts. In a role
/// it does what `in_role` says, with the role in `$role`, and leaves a mess; else it changes something.
fn run(repo: &TestRepo, in_role: &str, experiments: u32, more: &[&str]) -> Called {
    let agent = format!(
        "OUT={}; N=1; until mkdir $OUT/call-$N 2>/dev/null; do N=$((N + 1)); done; cat > $OUT/prompt-$N; \
         echo \"# $N\" >> train.sh; role=$(sed -n 's/^## Your role: //p' $OUT/prompt-$N); \
         if [ -n \"$role\" ]; then touch mess-$role; {in_role}; echo \"the way of $role\"; exit; fi; \
         echo \"{{\\\"description\\\": \\\"change $N\\\", \\\"direction\\\": \\\"d$N\\\"}}\" > $AR_PROPOSAL",
        repo.outside().display()
    );
    let count = experiments.to_string();
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", &agent];
    let args = args.into_iter().chain(["--ladder", "structural", "--max-experiments", &count]);
    ar_in_time(repo, args.chain(more.iter().copied()))
}

fn prompt(repo: &TestRepo, call: u32) -> String {
    fs::read_to_string(repo.outside().join(format!("prompt-{call}"))).unwrap()
}

/// The role of each call; empty for one that makes a change.
fn roles(repo: &TestRepo, calls: u32) -> Vec<String> {
    let role = |prompt: String| Some(prompt.split_once("## Your role: ")?.1.lines().next()?.to_owned());
    (1..=calls).map(|call| role(prompt(repo, call)).unwrap_or_default()).collect()
}

#[test]
fn each_role_proposes_in_text_and_the_next_call_gets_what_came_of_it() {
    let repo = training_repo();
    let person = Person::at(&repo);
    let in_role = format!(
        "if [ $role = refute ]; then exit 3; fi; printf '```\\n'; [ $role = analogy ] || {}",
        person.types(&format!("{AR} tell psst > /dev/null"))
    );
    let called = run(&repo, &in_role, 3, &["--explore", "3"]).ok();
    assert_eq!(roles(&repo, 6), ["", "", "investigate", "refute", "analogy", ""], "{called:#?}");
    assert!(!repo.outside().join("prompt-7").exists());
    let next = prompt(&repo, 6);
    let (_, proposals) = next.split_once(PROPOSALS).unwrap();
    assert!(proposals.contains("\n### investigate\n\n````text\n```\nthe way of investigate\n````\n"), "{proposals}");
    assert!(proposals.contains("the way of analogy") && !proposals.contains("refute"), "{proposals}");
    assert!(called.stderr.contains("the agent in the role `refute` made no proposal: exit 3"), "{called:#?}");
    assert!((1..=5).all(|call| !prompt(&repo, call).contains(PROPOSALS)));
    // What the user says is for whoever makes the change.
    assert!(!prompt(&repo, 5).contains("psst") && next.contains("psst"));
    // Nothing of what they did to the files is left, and nothing of it was measured; that they were called counts.
    assert!(["investigate", "refute", "analogy"].iter().all(|role| !repo.exists(format!("mess-{role}"))));
    let change = repo.git(["show", "--format=%s", "refs/autoresearch/t/00003^{commit}"]);
    assert!(change.contains("+# 6") && !change.contains("+# 5"), "{change}");
    let journal: Value = serde_json::from_str(&repo.read(".autoresearch/t/state/progress.json")).unwrap();
    assert_eq!((&journal["spent"]["calls"], &journal["iteration"]), (&6.into(), &3.into()));
}

#[test]
fn a_killed_loop_asks_on_with_the_next_role() {
    let repo = training_repo();
    let in_role = format!(
        "if [ $role = refute ] && mkdir $OUT/killed 2>/dev/null; then {FIND_OWNER}; kill -KILL $owner; sleep 60; fi"
    );
    assert_eq!(run(&repo, &in_role, 3, &["--explore", "2"]).code, None);
    ar(&repo, ["resume"]).ok();
    assert_eq!(roles(&repo, 6), ["", "", "investigate", "refute", "refute", ""]);
    let next = prompt(&repo, 6);
    assert!(next.contains("the way of investigate") && next.contains("the way of refute"), "{next}");
}

#[test]
fn on_slots_the_roles_are_asked_before_the_pivot_and_take_no_number() {
    let repo = training_repo();
    run(&repo, ":", 3, &["--explore", "2", "--slots", "1", "--ahead", "0"]).ok();
    assert_eq!(roles(&repo, 5), ["", "", "investigate", "refute", ""]);
    let next = prompt(&repo, 5);
    assert!(next.contains("the way of investigate") && next.contains("the way of refute"), "{next}");
    let refs = repo.git(["for-each-ref", "--format=%(refname:lstrip=3)", "refs/autoresearch/t/000*"]);
    assert_eq!(refs.lines().collect::<Vec<_>>(), ["00000", "00001", "00002", "00003"]);
    assert_eq!(repo.status(), "");
}

#[test]
fn beside_others_each_role_is_asked_once_and_every_seat_is_told() {
    let repo = training_repo();
    let called = run(&repo, "sleep 0.3", 8, &["--explore", "2", "--slots", "2", "--ahead", "0"]).ok();
    let calls = (1..).take_while(|call| repo.outside().join(format!("prompt-{call}")).exists()).count() as u32;
    let roles = roles(&repo, calls);
    let asked: Vec<&String> = roles.iter().filter(|role| !role.is_empty()).collect();
    assert_eq!(asked[..2], ["investigate", "refute"], "{called:#?}");
    // No call begins without the proposals; one may just have begun when the ladder climbed.
    let pivots = (1..=calls).map(|call| prompt(&repo, call)).filter(|prompt| prompt.contains("\nPivot. "));
    let changes: Vec<String> = pivots.filter(|prompt| !prompt.contains("## Your role")).collect();
    let told = changes.iter().filter(|prompt| prompt.contains(PROPOSALS)).count();
    assert!(told > 0 && told + 1 >= changes.len(), "{told} of {changes:#?}");
}

#[test]
fn a_keep_on_another_slot_drops_no_role_and_no_proposal() {
    let repo = training_repo();
    let (out, record) = (repo.outside().display(), "git rev-parse -q --verify refs/autoresearch/t/00003");
    let until = |sign| format!("until [ -e {out}/{sign} ]; do sleep 0.02; done");
    let third = format!("touch {out}/third; {}; echo val_bpb: 0.1", until("asked"));
    let cases = format!("2) {}; echo val_bpb: 2.0;; 3) {third};; *) echo val_bpb: 2.0;;", until("third"));
    repo.write("train.sh", format!("case $AR_EXPERIMENT in {cases} esac\n"));
    repo.commit_all("the third is better, and ends while a role is asked");
    let in_role = format!("touch $OUT/asked; until {record} > /dev/null; do sleep 0.02; done");
    let called = run(&repo, &in_role, 4, &["--explore", "3", "--slots", "2", "--ahead", "0"]).ok();
    assert!(called.stdout.contains("   3  keep"), "{called:#?}");
    let roles = roles(&repo, 7);
    assert_eq!(roles[3..], ["investigate", "refute", "analogy", ""], "{called:#?}");
    let next = prompt(&repo, 7);
    assert!(["investigate", "refute", "analogy"].iter().all(|role| next.contains(&format!("way of {role}"))), "{next}");
}

#[test]
fn exploring_in_more_roles_than_there_are_is_refused() {
    let repo = training_repo();
    run(&repo, ":", 3, &["--explore", "4"]).exits(2);
}
