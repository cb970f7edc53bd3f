//! When keeps fail to come: refine, pivot, research, flag; and what an agent is told of it.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::lessons::old_lessons;
use crate::run_loop::training_repo;
use crate::support::{Called, TestRepo, ar};

/// An agent that changes something else in each experiment and gets no better, in a direction of its own each time. Before
/// that it does what `first` says, with the number of the call in `$call`; it keeps the prompts of all its calls.
fn agent(first: &str) -> String {
    format!(
        "call=$(ls .. | grep -c prompt-); call=$((call + 1)); cp \"$AR_PROMPT\" ../prompt-$call; \
         direction=d$AR_EXPERIMENT; {first}; echo \"# $call\" >> train.sh; \
         echo \"{{\\\"description\\\": \\\"change $call\\\", \\\"direction\\\": \\\"$direction\\\"}}\" > \"$AR_PROPOSAL\""
    )
}

/// Calls `ar run` with that agent.
fn run(repo: &TestRepo, first: &str, experiments: u32, more: &[&str]) -> Called {
    let (agent, experiments) = (agent(first), experiments.to_string());
    let mut args = vec!["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"];
    args.extend(["--agent", &agent, "--max-experiments", &experiments]);
    args.extend(more);
    ar(repo, args)
}

/// What the agent was told in its calls, without the protocol.
fn prompts(repo: &TestRepo) -> Vec<String> {
    let prompt = |call: usize| fs::read_to_string(repo.outside().join(format!("prompt-{call}"))).ok();
    let prompts = (1..).map_while(prompt);
    prompts.map(|prompt| prompt.split_once("## The contract").unwrap().1.to_owned()).collect()
}

/// The directive that a prompt has, by its first words.
fn directive(prompt: &str) -> &str {
    let text = prompt.split_once("## Directive\n\n").map_or("", |(_, text)| text);
    text.split_once('.').map_or("", |(word, _)| word)
}

/// What was decided on how to go on: after which experiment, and what.
fn decisions(repo: &TestRepo) -> Vec<String> {
    let text = repo.read(".autoresearch/t/logs/orchestrator.jsonl");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .filter_map(|line| {
            assert_eq!(line["level"], "decision");
            let detail = &line["data"];
            match line["event"].as_str().unwrap() {
                "directed" => Some(format!("{} {}", detail["after"], detail["directive"]["kind"].as_str().unwrap())),
                "flagged" => Some(format!("{} flagged", detail["after"])),
                _ => None,
            }
        })
        .collect()
}

#[test]
fn the_refine_ladder_goes_to_a_flag_and_on_into_the_night() {
    let repo = training_repo();
    let called = run(&repo, ":", 17, &["--allow-search"]).ok();
    let told = prompts(&repo);
    let directives: Vec<_> = told.iter().map(|prompt| directive(prompt)).collect();
    let expected = "|||Refine|Refine|Pivot|||Refine|Refine|Pivot|||Refine|Refine|Fresh start|";
    assert_eq!(directives.join("|"), expected);
    assert!(told[3].contains("Vary within the strategy \"d3\"") && told[3].contains("one concrete way"), "{}", told[3]);
    for words in
        ["Abandon the strategy \"d5\"", "Change the structure of", "opposite hypothesis", "- d1: 1 experiment,"]
    {
        assert!(told[5].contains(words), "{words}: {}", told[5]);
    }
    assert!(!told[5].contains("look for ideas outside"), "{}", told[5]);
    assert!(told[10].contains("similar case elsewhere") && told[10].contains("look for ideas outside"), "{}", told[10]);
    assert!(told[15].contains("Remove instead of adding"), "{}", told[15]);
    let expected =
        ["3 refine", "5 pivot", "8 refine", "10 pivot", "13 refine", "15 flagged", "15 fresh_start"].map(str::to_owned);
    assert_eq!(decisions(&repo), expected);
    let lines = "      flagged for review after experiment 15\n      the report is .autoresearch/t/state/flagged.md\n      \
                 next: fresh start";
    assert!(called.stdout.contains(lines) && called.stdout.contains("\n      next: pivot: "), "{called:#?}");
    let report = ar(&repo, ["report"]).ok().stdout;
    assert!(report.contains("\n  flagged for review after experiment 15: no recent keeps\n"), "{report}");
    assert_eq!(ar(&repo, ["report", "--format", "json"]).ok().json()["flagged"], serde_json::json!([15]));

    let flagged = repo.read(".autoresearch/t/state/flagged.md");
    for words in [
        "# Session t is flagged for review\n",
        "after experiment 15\n- what happened: no keep for so long that you should look\n",
        "- experiments since the last keep: 15\n- best: 2.000000, the baseline\n",
        "- d15: 1 experiment, 0 kept, best 2.000000\n",
        "- after experiment 10: pivot: another strategy, by a structurally similar case elsewhere",
        "\nar stop t\n",
    ] {
        assert!(flagged.contains(words), "{words}: {flagged}");
    }
    let better = "sed -i s/VAL_BPB=2/VAL_BPB=1/ train.sh";
    ar(&repo, ["resume", "--max-experiments", "1", "--agent", &agent(better)]).ok();
    assert!(!repo.exists(".autoresearch/t/state/flagged.md"), "a keep answers it");
}

#[test]
fn a_flag_stops_the_loop_once_where_that_is_asked_for_and_says_what_was_tried() {
    let repo = training_repo();
    let first = "[ $AR_EXPERIMENT -gt 5 ] || direction=warmup";
    let called = run(&repo, first, 17, &["--stop-when-flagged"]).exits(4);
    let end = "stopped: flagged for review after experiment 15; tried, the newest first:\n      \
               d15: 1 experiment, 0 kept, best 2.000000\n      d14: ";
    assert!(called.stdout.contains(end), "{called:#?}");
    assert!(called.stdout.contains("\n      warmup: 5 experiments, 0 kept, best 2.000000\n"), "{called:#?}");
    let told = "\n   told the agent since the last keep:\n      after experiment 3: refine: one concrete change within the strategy\n      \
                after experiment 5: pivot: another strategy, by the opposite hypothesis\n";
    assert!(called.stdout.contains(told), "{called:#?}");
    assert!(called.stdout.contains("\n      after experiment 15: fresh start: "), "{called:#?}");
    assert!(!prompts(&repo).iter().any(|prompt| prompt.contains("outside the repository")), "nobody allowed it");
    let called = ar(&repo, ["resume", "--max-experiments", "1"]).ok();
    assert!(called.stdout.contains("  16  discard"), "who starts it again has seen the flag: {called:#?}");
    assert_eq!(directive(prompts(&repo).last().unwrap()), "Fresh start");
}

#[test]
fn the_structural_ladder_pivots_soon_and_flags_soon() {
    let repo = training_repo();
    let called = run(&repo, ":", 8, &["--ladder", "structural"]).ok();
    assert!(called.stdout.contains("flagged for review after experiment 8, 2 times so far\n"), "{called:#?}");
    let told = prompts(&repo);
    let directives: Vec<_> = told.iter().map(|prompt| directive(prompt)).collect();
    assert_eq!(directives.join("|"), "||Pivot|Pivot|Fresh start||Pivot|Pivot");
    assert!(
        told[6].contains("near miss") && told[6].contains("The nearest: 1 (change 1); 2 (change 2)"),
        "{}",
        told[6]
    );
    let contract: Value = serde_json::from_str(&repo.read(".autoresearch/t/state/contract.json")).unwrap();
    assert_eq!(contract["ladder"], "structural");
    // What other programs read is the ladder's own count, also where it is made again of the records.
    let log = ".autoresearch/t/state/iteration_log.jsonl";
    let counts = || -> Vec<Value> {
        let lines = repo.read(log).lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>();
        lines.into_iter().map(|line| line["stale_count"].clone()).collect()
    };
    assert_eq!(counts(), [1, 2, 3, 0, 1, 2, 3, 0]);
    repo.rm(log);
    ar(&repo, ["doctor", "--repair"]).ok();
    assert_eq!(counts(), [1, 2, 3, 0, 1, 2, 3, 0]);
    let progress: Value = serde_json::from_str(&repo.read(".autoresearch/t/state/progress.json")).unwrap();
    assert_eq!((&progress["stale_count"], &progress["rung"]["stale"]), (&0.into(), &0.into()));
    assert!(repo.read(".autoresearch/t/state/flagged.md").contains("after experiment 8\n"));
    ar(&repo, ["stop", "t"]).ok();
    assert!(!repo.exists(".autoresearch/t/state/flagged.md"), "who stops it has seen it");
}

#[test]
fn the_report_of_a_flag_goes_to_the_users_folder_where_the_state_folder_has_no_room() {
    let repo = training_repo().without_walls();
    // No file can take its place.
    let first = "mkdir -p .autoresearch/t/state/flagged.md/folder";
    let called = run(&repo, first, 8, &["--ladder", "structural"]).ok();
    let at = called.stdout.split("\n      the report is ").nth(1).unwrap_or_else(|| panic!("{called:#?}"));
    let report = PathBuf::from(at.lines().next().unwrap());
    assert!(report.starts_with(repo.outside().join("home/.local/state/autoresearch/escalations")), "{called:#?}");
    assert!(fs::read_to_string(&report).unwrap().contains("# Session t is flagged for review\n"));
    ar(&repo, ["stop", "t"]).ok();
    assert!(!report.exists(), "who stops it has seen it");
}

#[test]
fn a_keep_begins_at_the_bottom_again() {
    let repo = training_repo();
    let better = "[ $AR_EXPERIMENT != 6 ] || sed -i s/VAL_BPB=2/VAL_BPB=1/ train.sh";
    run(&repo, better, 9, &[]).ok();
    assert_eq!(decisions(&repo), ["3 refine", "5 pivot", "9 refine"].map(str::to_owned));
}

#[test]
fn an_agent_that_changed_nothing_is_told_again() {
    let repo = training_repo();
    run(&repo, "[ $call != 6 ] || exit 0", 6, &[]).ok();
    let told = prompts(&repo);
    assert_eq!((told.len(), directive(&told[5]), directive(&told[6])), (7, "Pivot", "Pivot"));
    assert!(told[6].contains("changed no file"), "{}", told[6]);
    assert_eq!(decisions(&repo), ["3 refine", "5 pivot"].map(str::to_owned));
}

/// The classes of failure of experiments 1 to `last`, with the number of runs of each.
fn classes(repo: &TestRepo, last: u32) -> Vec<String> {
    let class = |id: u32| {
        let record = ar(repo, ["show", &id.to_string(), "--format", "json"]).ok().json();
        let class = record["failure"]["class"].as_str().unwrap_or("-").to_owned();
        format!("{id} {class} {}", record["runs"].as_array().map_or(0, Vec::len))
    };
    (1..=last).map(class).collect()
}

#[test]
fn under_a_pivot_a_tried_direction_is_asked_about_once_and_then_refused_without_a_run() {
    let repo = training_repo();
    // The first pivot is by the opposite: 3 names a new direction when it is asked once more. So is that by near misses: 7
    // does not.
    let first = "case $AR_EXPERIMENT-$call in 1-*|2-*|7-*) direction='warm up' ;; 3-3) direction='Warm-UPS 2' ;; \
                 3-4) direction=schedule ;; esac";
    let called = run(&repo, first, 7, &["--ladder", "structural", "--allow-repeats"]).ok();
    let told = prompts(&repo);
    assert!(told[2].contains("in a direction that was not tried. Start from the opposite"), "{}", told[2]);
    let repeated = "You named the direction \"Warm-UPS 2\", which was tried before.";
    assert!(!told[2].contains(repeated) && told[3].contains(repeated), "{}", told[3]);
    assert!(told[3].contains("- warm up: 2 experiments, 0 kept, best val_bpb 2.000000\n"), "{}", told[3]);
    assert!(told[7].contains("near miss"), "{}", told[7]);
    let change = repo.git(["diff", "main", "refs/autoresearch/t/00003"]);
    assert!(change.contains("+# 4") && !change.contains("# 3"), "the first change was undone: {change}");
    let saved = repo.git(["for-each-ref", "--format=%(refname)", "refs/autoresearch/t/saved"]);
    let saved = saved.lines().map(|kept| repo.git(["show", &format!("{kept}:train.sh")])).collect::<String>();
    assert!(saved.contains("# 3"), "and is kept: {saved}");
    assert_eq!(decisions(&repo)[..4], ["2 pivot", "3 pivot", "4 flagged", "4 fresh_start"].map(str::to_owned));
    assert_eq!(classes(&repo, 7)[1..].join("|"), "2 - 1|3 - 1|4 - 1|5 - 1|6 - 1|7 repeated 0", "{called:#?}");
}

#[test]
fn an_agent_that_repeats_a_direction_at_a_pivot_is_refused_and_the_third_time_in_a_row_flagged() {
    let repo = training_repo();
    // A direction that only crashed is not tried.
    let first = "direction=warm-up; case $AR_EXPERIMENT in 1) direction=broken; echo exit 3 >> train.sh ;; \
                 6) direction=broken ;; esac";
    let called = run(&repo, first, 6, &["--allow-search"]).ok();
    assert_eq!(classes(&repo, 6)[4..].join("|"), "5 - 1|6 - 1", "{called:#?}");

    let repo = training_repo();
    let called = run(&repo, "direction=warm-up", 9, &[]).ok();
    let refused = ["6 repeated 0", "7 repeated 0", "8 repeated 0"];
    assert_eq!(classes(&repo, 8)[5..], refused.map(str::to_owned), "{called:#?}");
    assert_eq!(called.stderr.matches("was tried before; asking the agent once more").count(), 4, "{called:#?}");
    let decided = decisions(&repo);
    let expected = ["3 refine", "5 pivot", "8 flagged", "8 fresh_start"];
    assert_eq!(decided[..4], expected.map(str::to_owned), "the pivot holds: {called:#?}");
    assert!(called.stdout.contains("   6  refused") || called.stdout.contains("   6  repeated"), "{called:#?}");
    let log = ar(&repo, ["log", "--outcome", "refused"]).ok().stdout;
    assert_eq!(log.matches("repeated").count(), 4, "9 is refused, too: {log}");

    // What was refused so was not measured: the same change under another name is.
    let change = repo.git(["show", "refs/autoresearch/t/00006:train.sh"]);
    repo.write("train.sh", change + "\n");
    ar(&repo, ["try", "-m", "again", "--direction", "schedule", "--max-experiments", "15"]).ok();
    assert_eq!(classes(&repo, 10)[9], "10 - 1");
}

#[test]
fn an_agent_that_names_no_direction_at_a_pivot_is_measured_and_asked_next_time() {
    let repo = training_repo();
    let called = run(&repo, "direction=", 7, &[]).ok();
    let told = prompts(&repo);
    assert_eq!(told.len(), 7, "one call for each: {called:#?}");
    assert_eq!(classes(&repo, 7)[5], "6 - 1");
    let asks = "The last change named no direction although a new one was required.";
    let asked: Vec<bool> = told.iter().map(|prompt| prompt.contains(asks)).collect();
    assert_eq!(asked, [false, false, false, false, false, false, true]);
    let notice = "experiment 6 names no direction although a new one was required; asking for it at the next call";
    assert_eq!(called.stderr.matches(notice).count(), 1, "{called:#?}");
}

/// Puts records up to number `last` into session `t`, all like that of its experiment 1 with long texts; the last one
/// crashed.
pub(crate) fn make_up_records(repo: &TestRepo, last: u32) {
    let tag = repo.git(["cat-file", "-p", "refs/autoresearch/t/00001"]);
    let (head, body) = tag.split_once("\n\n").unwrap();
    let body = body.split_once("\n\n").unwrap().1;
    let mut paths = String::new();
    let mut refs = String::new();
    for id in 2..=last {
        let mut record: Value = serde_json::from_str(body).unwrap();
        record["id"] = id.into();
        record["description"] = "学習率のウォームアップ|".repeat(40).into();
        record["direction"] = format!("d{id} {}", "スケジュール".repeat(30)).into();
        record["reason"] = "理由".repeat(500).into();
        if id == last {
            record["failure"] = serde_json::json!({"class": "crash", "excerpt": "失敗\n".repeat(2000)});
            record["outcome"] = "crash".into();
        }
        let name = format!("autoresearch/t/{id:05}");
        let path = repo.outside().join(format!("tag-{id}"));
        fs::write(&path, format!("{}\n\nx\n\n{record}\n", head.replace("autoresearch/t/00001", &name))).unwrap();
        paths += &format!("{}\n", path.display());
        refs += &name;
        refs += "\n";
    }
    let feed = |args: &[&str], input: &str| {
        let mut command = Command::new("git");
        repo.environment(&mut command);
        command.args(args).current_dir(repo.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let ids = feed(&["hash-object", "-t", "tag", "-w", "--stdin-paths"], &paths);
    let updates: String =
        refs.lines().zip(ids.lines()).map(|(name, id)| format!("create refs/{name} {id}\n")).collect();
    feed(&["update-ref", "--stdin"], &updates);
}

#[test]
fn a_brief_has_what_an_agent_needs_and_stays_short() {
    let repo = training_repo();
    run(&repo, ":", 5, &["--goal", "0.5", "--session-max-experiments", "5"]).ok();
    let brief = ar(&repo, ["brief"]).ok().stdout;
    for words in [
        "- metric: val_bpb (lower is better)",
        "- command: sh train.sh",
        "- goal: 0.5",
        "- incumbent: 2.000000 (experiment 0,",
        "| 5 | discard | 2.000000 | change 5 |",
        "- d4: 1 experiment, 0 kept, best val_bpb 2.000000",
        "Pivot. Abandon the strategy \"d5\"",
        "The session reached its limit of 5 experiments: change nothing, and stop here.",
    ] {
        assert!(brief.contains(words), "{words}: {brief}");
    }
    assert!(!brief.contains("# Research protocol"), "{brief}");

    // Without the journal the records tell the same.
    repo.rm(".autoresearch/t/state/progress.json");
    assert_eq!(ar(&repo, ["brief", "t"]).ok().stdout, brief);
    ar(&repo, ["resume", "--max-experiments", "1", "--session-max-experiments", "6"]).ok();
    assert_eq!(directive(&prompts(&repo)[5]), "Pivot");
}

#[test]
fn a_brief_is_below_8_kb_after_five_hundred_experiments() {
    let repo = training_repo();
    let command = format!("sh train.sh # {}", "長".repeat(2000));
    let args = ["run", "--metric", "val_bpb", "--cmd", &command, "--tag", "t", "--agent", &agent(":")];
    ar(&repo, [&args[..], &["--session-max-experiments", "1", "--ladder", "structural"]].concat()).ok();
    // The longest directive: a fresh start from near misses, which are named.
    make_up_records(&repo, 512);
    repo.rm(".autoresearch/t/state/progress.json");
    repo.write("autoresearch-lessons.md", old_lessons(60));
    ar(&repo, ["idea", "add", &"新しい".repeat(300), "--direction", &"広さ".repeat(90)]).ok();
    let brief = ar(&repo, ["brief"]).ok().stdout;
    assert!(brief.len() < 8192, "{} bytes: {brief}", brief.len());
    for words in [
        "- metric: val_bpb",
        "- incumbent: 2.000000",
        "\n| 512 | crash |",
        "- d512 スケ",
        "The nearest: 1 (",
        "The session reached its limit of 512 experiments",
        "\n## Lessons\n",
        "\n- idea 1 (direction: 広さ",
    ] {
        assert!(brief.contains(words), "{words}: {brief}");
    }
}

#[test]
fn the_answer_of_a_try_ends_with_what_to_do_next() {
    let repo = training_repo();
    let attempt = |n: u32, more: &[&str]| {
        repo.write("train.sh", format!("{}# {n}\n", repo.read("train.sh")));
        ar(&repo, [&["try", "-m", "a change"], more].concat()).ok()
    };
    let first = attempt(1, &["--metric", "val_bpb", "--cmd", "sh train.sh", "--ladder", "structural"]);
    assert!(!first.stdout.contains("next:"), "{first:#?}");
    let brief = ar(&repo, ["brief"]).ok().stdout;
    assert!(brief.contains("Make the change for experiment 2, then hand it over: `ar try -m \"what it"), "{brief}");
    let second = attempt(2, &[]);
    let last = second.stdout.lines().last().unwrap();
    assert!(last.starts_with("      next: Pivot. Abandon the strategy of the recent attempts."), "{second:#?}");
    let third = attempt(3, &["--format", "json"]).json();
    assert_eq!((&third["id"], &third["next"]["kind"]), (&3.into(), &"pivot".into()));
    assert!(third["next"]["words"].as_str().unwrap().starts_with("Pivot. "), "{third}");
    let fourth = attempt(4, &[]);
    assert!(fourth.stderr.contains("flagged for review after experiment 4"), "{fourth:#?}");
    assert!(fourth.stdout.contains("      next: Fresh start. "), "{fourth:#?}");
    let last = attempt(5, &["--max-experiments", "5"]);
    let end = "; the session reached its limit of 5 experiments: stop here, `ar show 5` shows this one\n";
    assert!(last.stdout.ends_with(end), "{last:#?}");
}

#[test]
fn a_direction_that_was_tried_is_refused_at_a_pivot_also_from_an_agent_that_drives() {
    let repo = training_repo();
    let attempt = |n: u32, more: &[&str]| {
        repo.write("train.sh", format!("{}# {n}\n", repo.read("train.sh")));
        ar(&repo, [&["try"], more].concat())
    };
    let terms = ["--metric", "val_bpb", "--cmd", "sh train.sh", "--ladder", "structural", "--tag", "t"];
    let named = ["-m", "a change", "--direction", "warmup"];
    attempt(1, &[&named[..], &terms].concat()).ok();
    // With a finding it does not count as stale, and a flag comes before the file.
    fs::write(repo.outside().join("said"), r#"{"direction": "x", "findings": ["found"], "description": "y"}"#).unwrap();
    let second = attempt(2, &[&named[..], &["--proposal", "../said", "--format", "json"]].concat()).ok().json();
    assert_eq!((&second["direction"], &second["next"]), (&"warmup".into(), &Value::Null), "{second}");
    assert_eq!(second["proposal"]["findings"], serde_json::json!(["found"]));
    attempt(3, &named).ok();
    // A change without a name is measured.
    let refused = attempt(4, &["--direction", "Warm Up"]).exits(1);
    let words = "the direction \"Warm Up\" was tried before and a new one is required; tried: warmup";
    assert!(refused.stderr.contains(words) && refused.stderr.contains("--direction"), "{refused:#?}");
    assert!(repo.read("train.sh").ends_with("# 4\n"), "the change stays where it is");
    let again = ar(&repo, ["try", "--direction", "Warm Up", "--format", "json"]).ok().json();
    assert_eq!((&again["id"], &again["direction"]), (&4.into(), &"Warm Up".into()));
    assert_eq!((&again["failure"]["class"], &again["runs"]), (&"repeated".into(), &serde_json::json!([])), "{again}");
    assert!(repo.read("train.sh").contains("# 4"), "what is refused stays to be edited");
    let unnamed = attempt(6, &[]).ok();
    assert!(unnamed.stderr.contains("experiment 5 names no direction"), "{unnamed:#?}");
    assert!(ar(&repo, ["brief"]).ok().stdout.contains("The last change named no direction"));
    let wrong = attempt(5, &["--proposal", "../nowhere"]).exits(2);
    assert!(wrong.stderr.contains("cannot read the proposal ../nowhere"), "{wrong:#?}");
}
