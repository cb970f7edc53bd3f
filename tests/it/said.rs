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
    run(&repo, &steps, &["--max-experiments", "12", "--allow-repeats"]).ok();
    let asks = |call: usize| told(&repo, call).contains("named no direction, so nobody can tell");
    assert_eq!([10, 11, 12].map(asks), [false, false, true], "{}", told(&repo, 12));
    assert!(told(&repo, 12).contains("The last 10 experiments named no direction"), "{}", told(&repo, 12));
}

#[test]
fn what_a_discard_a_crash_and_an_idle_call_found_is_in_the_next_prompt_and_the_brief() {
    let repo = training_repo();
    let steps = [
        "say '{\"findings\": [\"the loss jumps at marigold\"], \"lesson\": \"wider is periwinkle\"}'",
        "echo exit 3 > train.sh; say '{\"findings\": \"it breaks at celandine\", \"lesson\": \"never touch foxglove\"}'",
        "git checkout --quiet train.sh; say '{\"findings\": [\"nothing to do at snowdrop\"], \"lesson\": \"look at bluebell\"}'",
        "",
    ];
    run(&repo, &steps, &["--max-experiments", "3"]).ok();
    assert_eq!((&record(&repo, 1)["outcome"], &record(&repo, 2)["outcome"]), (&"discard".into(), &"crash".into()));
    for (call, words) in [
        (2, "- 1 (discard): lesson: wider is periwinkle\n- 1 (discard): the loss jumps at marigold\n"),
        (
            3,
            "- 2 (crash): lesson: never touch foxglove\n- 1 (discard): lesson: wider is periwinkle\n- 2 (crash): it breaks at celandine\n",
        ),
        (4, "nothing to do at snowdrop\n"),
        (4, "look at bluebell\n"),
        (4, "never touch foxglove\n"),
    ] {
        assert!(told(&repo, call).contains(words), "{call} {words}: {}", told(&repo, call));
    }
    let brief = ar(&repo, ["brief"]).ok().stdout;
    for word in ["marigold", "periwinkle", "celandine", "foxglove", "snowdrop", "bluebell"] {
        assert!(brief.contains(word), "{word}: {brief}");
    }
    // A later session has what they taught in the summary of this one.
    assert!(repo.read("autoresearch-lessons.md").contains("learned: never touch foxglove; wider is periwinkle"));
}

#[test]
fn the_prompt_says_why_an_experiment_was_not_kept_and_praises_no_number_that_was_bought() {
    let repo = training_repo();
    let value = |value: &str, more: &str| {
        format!("sed -i 's/^VAL_BPB=.*/VAL_BPB={value}/' train.sh; {more}; say '{{\"direction\": \"size\"}}'")
    };
    let steps = [
        value("1.1", "echo 'echo peak_vram_mb: 90000' >> train.sh"),
        value("1.95", ":"),
        value("1.5", ":"),
        value("1.6", ":"),
        // It is worked on twice more, and its guard fails each time.
        value("1.2", "echo broken > broken"),
    ];
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let terms = ["--limit", "memory_gb<=60", "--guard", "test -z \"$(ls | grep brok)\"", "--min-delta", "0.6"];
    run(&repo, &steps, &[&terms[..], &["--max-experiments", "6"]].concat()).ok();
    let prompt = told(&repo, 8);
    for words in [
        "| broke a limit: memory_gb is ",
        " | guard failed: `test -z \"$(ls \\| grep brok)\"` |",
        "which is not more than the minimum of 0.6",
    ] {
        assert!(prompt.contains(words), "{words}: {prompt}");
    }
    assert_eq!(record(&repo, 1)["unmet_limits"].as_array().map(Vec::len), Some(1), "{}", record(&repo, 1));
    assert!(prompt.contains("- size: ") && prompt.contains(", best val_bpb 1.5\n"), "{prompt}");
    let lessons = repo.read("autoresearch-lessons.md");
    assert!(!lessons.contains("best 1.1") && !lessons.contains("best 1.2"), "{lessons}");
}

#[test]
fn the_goal_in_words_its_milestones_and_its_criteria_are_in_the_task_and_every_prompt() {
    let repo = training_repo();
    let texts = ["--goal-text", "Beat the old model.", "--milestone", "below 1.9", "--milestone", "below 1.5"];
    let init = ["init", "--metric", "val_bpb", "--cmd", "sh train.sh", "--success", "below 1.2 in ten minutes"];
    ar(&repo, init.iter().chain(&texts)).ok();
    let settings = repo.read("ar.toml");
    assert!(settings.contains("\ngoal-text = \"Beat the old model.\"\n"), "{settings}");
    assert!(settings.contains("\nmilestone = [\"below 1.9\", \"below 1.5\"]\n"), "{settings}");
    repo.commit_all("settings");
    run(&repo, &[""], &["--max-experiments", "1"]).ok();
    let words = "## The goal\n\nBeat the old model.\n\nMilestones:\n\n- below 1.9\n- below 1.5\n\nSuccess criteria:\n\n- below 1.2 in ten minutes\n";
    assert!(repo.read(".autoresearch/t/state/task_spec.md").contains(words));
    let prompt = fs::read_to_string(repo.outside().join("prompt-1")).unwrap();
    assert!(prompt.contains(words), "{prompt}");
    assert!(ar(&repo, ["brief"]).ok().stdout.contains("Beat the old model."));

    let repo = training_repo();
    ar(&repo, ["init"]).ok();
    let settings = repo.read("ar.toml");
    for key in ["# goal-text = ", "# milestone = ", "# success = "] {
        assert!(settings.contains(key), "{key}: {settings}");
    }
}

#[test]
fn an_idea_that_was_drawn_and_not_used_is_offered_again() {
    let repo = training_repo();
    ar(&repo, ["idea", "add", "warm restarts"]).ok();
    let steps = ["echo 'a deeper model'", "say '{\"description\": \"restarts\", \"idea\": 1}'", ""];
    run(&repo, &steps, &["--max-experiments", "3"]).ok();
    let is_offered =
        |call| told(&repo, call).contains("- idea 1: warm restarts\n\nIf you use it, put \"idea\": 1 into your");
    assert_eq!([1, 2, 3].map(is_offered), [true, true, false]);
}

#[test]
fn the_same_diff_may_be_tried_again_on_another_base() {
    let repo = training_repo();
    let same = "git checkout --quiet train.sh; echo same > other.txt";
    let better = "git checkout --quiet train.sh; sed -i 's/^VAL_BPB=.*/VAL_BPB=1.5/' train.sh";
    run(&repo, &[same, same, better, same], &["--max-experiments", "4"]).ok();
    let classes: Vec<_> = (1..=4).map(|id| record(&repo, id)["failure"]["class"].clone()).collect();
    assert_eq!(classes, [Value::Null, "duplicate".into(), Value::Null, Value::Null]);
}
