//! What agents say of their changes, and where it comes back.

use std::fs;

use serde_json::Value;

use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar};

/// Calls `ar run` with an agent that keeps its prompt, does the step of its call, and changes something unless told `exit`.
fn run(repo: &TestRepo, steps: &[&str], more: &[&str]) -> Called {
    let cases: String = (1..).zip(steps).map(|(call, step)| format!("{call}) {step} ;; ")).collect();
    let agent = format!(
        "call=$(ls .. | grep -c prompt-); call=$((call + 1)); cp \"$AR_PROMPT\" ../prompt-$call; \
         say() {{ printf '%s' \"$1\" > \"$AR_PROPOSAL\"; }}; echo \"# $call\" >> train.sh; case $call in {cases} esac"
    );
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", &agent];
    ar(repo, args.iter().chain(more))
}

/// The prompt of a call, from the place on where the session stands.
fn told(repo: &TestRepo, call: usize) -> String {
    let prompt = fs::read_to_string(repo.outside().join(format!("prompt-{call}"))).unwrap();
    prompt.split_once("## Where the session stands").unwrap().1.to_owned()
}

fn record(repo: &TestRepo, id: u32) -> Value {
    let object = repo.git(["cat-file", "-p", &format!("refs/autoresearch/t/{id:05}")]);
    serde_json::from_str(object.lines().last().unwrap()).unwrap()
}

fn descriptions(repo: &TestRepo) -> Vec<String> {
    let rows = repo.read("results.tsv");
    rows.lines().skip(2).map(|row| row.rsplit('\t').next().unwrap().to_owned()).collect()
}

#[test]
fn a_description_is_what_the_agent_says_of_its_change() {
    let repo = training_repo();
    repo.commit_all("an old subject");
    let steps = [
        "echo 'raised the rate'; printf '```\\nrate = 2\\n```\\n---\\n'",
        "echo 'Lowered the rate. Would you like me to try another one?'; echo; echo 'Let me know if you need more!'",
        "git reset --quiet --hard HEAD~1; echo '# 3' >> train.sh; echo 'went back and halved the rate'",
        "git commit --quiet --all --message 'a subject of its own'; echo 'Would you like more?'",
        "git checkout --quiet refs/autoresearch/t/00004^{commit} -- .; git reset --quiet --hard refs/autoresearch/t/00004^{commit}; \
         echo '# 5' >> train.sh; echo 'built on experiment 4'",
        "say '{\"description\": \"```\"}'; echo '```'",
    ];
    run(&repo, &steps, &["--max-experiments", "6"]).ok();
    let expected = [
        "raised the rate",
        "Lowered the rate.",
        "went back and halved the rate",
        "a subject of its own",
        "built on experiment 4",
        "train.sh: 1 file changed, +1 -0",
    ];
    assert_eq!(descriptions(&repo), expected);
}

#[test]
fn a_malformed_proposal_is_told_in_the_log_the_record_and_the_next_prompt() {
    let repo = training_repo();
    let steps = ["say '{\"description\": \"the \"best\" rate\"}'; echo 'raised the rate'", "", ""];
    run(&repo, &steps, &["--max-experiments", "3"]).ok();
    let error = "it is not a JSON object: expected `,` or `}` at line 1 column 23";
    assert_eq!(record(&repo, 1)["proposal_error"], error);
    assert_eq!(descriptions(&repo)[0], "raised the rate");
    let log = repo.read(".autoresearch/t/logs/work.jsonl");
    assert!(log.contains("proposal.json: it is not a JSON object"), "{log}");
    assert!(
        told(&repo, 2).contains(&format!("The proposal of the last call was ignored: {error}.")),
        "{}",
        told(&repo, 2)
    );
    assert!(!told(&repo, 3).contains("was ignored"), "{}", told(&repo, 3));
    assert!(record(&repo, 2).get("proposal_error").is_none());
}

#[test]
fn after_ten_experiments_without_a_direction_one_is_asked_for() {
    let repo = training_repo();
    let mut steps = vec!["say '{\"direction\": \"rate\"}'"];
    steps.extend([""; 11]);
    // Ten without a name end in a pivot, which is asked for once more.
    run(&repo, &steps, &["--max-experiments", "12", "--allow-repeats"]).ok();
    let asks = |call: usize| told(&repo, call).contains("named no direction, so nobody can tell");
    assert_eq!([10, 11, 12].map(asks), [false, false, true], "{}", told(&repo, 12));
    assert!(told(&repo, 12).contains("The last 10 experiments named no direction"), "{}", told(&repo, 12));
}

#[test]
fn a_pivot_without_a_direction_is_asked_for_once_more() {
    let repo = training_repo();
    let mut steps = vec![""; 10];
    steps.extend(["echo mine > own.txt", "say '{\"direction\": \"depth\"}'"]);
    let called = run(&repo, &steps, &["--max-experiments", "11"]).ok();
    assert!(called.stderr.contains("it named no direction; the agent is asked once more"), "{called:#?}");
    assert!(told(&repo, 11).contains("Pivot."), "{}", told(&repo, 11));
    let again = "You named no direction, and this experiment needs a new one. Your change was undone and saved.";
    assert!(told(&repo, 12).contains(again), "{}", told(&repo, 12));
    assert_eq!(
        (&record(&repo, 11)["direction"], record(&repo, 11)["agent"]["seconds"].is_number()),
        (&"depth".into(), true)
    );
    assert!(!repo.exists("own.txt"));

    // Under a pivot `ar try` says so too, and takes the second answer as it is.
    let repo = training_repo();
    for n in 0..10 {
        repo.write("train.sh", repo.read("train.sh") + &format!("# {n}\n"));
        let terms = ["--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
        ar(&repo, ["try", "-m", "x"].iter().chain(if n == 0 { &terms[..] } else { &[] })).ok();
    }
    repo.write("train.sh", repo.read("train.sh") + "# the eleventh\n");
    let refused = ar(&repo, ["try", "-m", "x"]).exits(1);
    assert!(refused.stderr.contains("a new direction is wanted, and this change names none"), "{refused:#?}");
    ar(&repo, ["try", "-m", "x"]).ok();
}
