//! The backlog of ideas: what people and agents add, and what is drawn of it.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::run_loop::training_repo;
use crate::support::{AR, Called, FIND_OWNER, TestRepo, ar, ar_command};

const IDEAS: &str = ".autoresearch/ideas.jsonl";

/// The ideas as `ar idea list` has them.
fn ideas(repo: &TestRepo) -> Vec<Value> {
    let listed = ar(repo, ["idea", "list", "--format", "json"]).ok().json();
    assert_eq!(listed["version"], 1);
    listed["ideas"].as_array().unwrap().clone()
}

fn states(repo: &TestRepo) -> Vec<String> {
    ideas(repo)
        .iter()
        .map(|idea| format!("{} {}", idea["text"].as_str().unwrap(), idea["state"].as_str().unwrap()))
        .collect()
}

/// Calls `ar run` with an agent that keeps its prompt, does what `first` says, and changes something.
fn run(repo: &TestRepo, first: &str, experiments: u32, more: &[&str]) -> Called {
    let agent = format!(
        "cp \"$AR_PROMPT\" ../prompt-$AR_EXPERIMENT; echo '{{\"direction\": \"warmup\"}}' > \"$AR_PROPOSAL\"; \
            {first}; \
         echo \"# $AR_EXPERIMENT\" >> train.sh"
    );
    let count = experiments.to_string();
    let args = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--agent", &agent, "--tag", "t"];
    ar(repo, [&args[..], &["--max-experiments", &count], more].concat())
}

/// What the agent of an experiment was offered.
fn offered(repo: &TestRepo, experiment: u32) -> Option<String> {
    let prompt = fs::read_to_string(repo.outside().join(format!("prompt-{experiment}"))).unwrap();
    let (_, idea) = prompt.split_once("## An idea from the backlog, take it or leave it\n\n- ")?;
    Some(idea.lines().next().unwrap().to_owned())
}

#[test]
fn a_backlog_belongs_to_the_repository_and_needs_no_session() {
    let repo = training_repo();
    assert_eq!(ar(&repo, ["idea", "list"]).ok().stdout.lines().count(), 1, "its header");
    let added = ar(&repo, ["idea", "add", "half the  rate\nat the end", "--direction", "schedule"]).ok();
    assert_eq!(added.stdout, "added idea 1\n");
    ar(&repo, ["idea", "add", "deeper"]).ok();
    assert_eq!(ar(&repo, ["idea", "add", " Deeper "]).ok().stdout, "already listed: idea 2 (open)\n");
    assert_eq!(ar(&repo, ["idea", "drop", "2"]).ok().stdout, "dropped idea 2: deeper\n");
    assert_eq!(ar(&repo, ["idea", "drop", "2"]).ok().stdout, "already dropped: idea 2: deeper\n");
    assert_eq!(states(&repo), ["half the  rate at the end open", "deeper dropped"]);
    assert!(ar(&repo, ["idea", "drop", "7"]).exits(1).stderr.contains("hint: run `ar idea list` to see them"));
    ar(&repo, ["idea", "add", " \n "]).exits(2);
    assert_eq!(ar(&repo, ["idea", "edit", "1", "deeper"]).ok().stdout, "already listed: idea 2 (dropped)\n");
    assert_eq!(ar(&repo, ["idea", "edit", "1", "a third\nof it"]).ok().stdout, "edited idea 1: a third of it\n");
    assert_eq!(states(&repo), ["a third of it open", "deeper dropped"]);
    assert_eq!(ar(&repo, ["idea", "add", "a third of it"]).ok().stdout, "already listed: idea 1 (open)\n");
    ar(&repo, ["idea", "edit", "1", "half the  rate at the end"]).ok();
    assert!(ar(&repo, ["idea", "edit", "7", "x"]).exits(1).stderr.contains("hint: run `ar idea list` to see them"));
    let csv = ar(&repo, ["idea", "list", "--format", "csv"]).ok().stdout;
    assert_eq!(csv.lines().nth(1), Some("1,idea,open,,schedule,user,half the  rate at the end"), "{csv}");
    assert!(ar(&repo, ["idea", "list", "--format", "md"]).ok().stdout.starts_with("| "));
    assert_eq!(repo.status(), "");

    // A line that was torn is passed over, and does not swallow the next one.
    fs::write(repo.file(IDEAS), repo.read(IDEAS) + "{\"version\":1,\"id\":3,\"te").unwrap();
    assert_eq!(ar(&repo, ["idea", "add", "wider"]).ok().stdout, "added idea 3\n");
    assert_eq!(states(&repo).len(), 3);
    fs::write(repo.file(IDEAS), "{\"version\":2}\n").unwrap();
    let refused = ar(&repo, ["idea", "add", "wider"]).exits(1);
    assert!(refused.stderr.contains("has format version 2"), "{refused:#?}");
    assert_eq!(repo.read(IDEAS), "{\"version\":2}\n");
}

#[test]
fn an_agent_is_offered_ideas_and_has_some_of_its_own() {
    let repo = training_repo();
    ar(&repo, ["idea", "add", "a longer WARM UP", "--direction", "Warm Up"]).ok();
    // Two that are not kept are a pivot on the structural ladder: what was tried is not drawn then.
    let first = format!(
        "case $AR_EXPERIMENT in 1) {AR} idea add 'from within' > /dev/null; echo '{{\"direction\": \"warm up\", \
            \"ideas\": \
         [\"a longer warm up\", {{\"text\": \"two heads\", \"direction\": \"heads\", \"score\": 0.5}}]}}' > \"$AR_PROPOSAL\" ;; \
         2) {AR} idea drop 2 > /dev/null; {AR} idea add 'warmer' --direction warmup ;; esac"
    );
    run(&repo, &first, 2, &["--ladder", "structural"]).ok();
    assert_eq!(offered(&repo, 1).unwrap(), "idea 1 (direction: Warm Up): a longer WARM UP");
    let found = ideas(&repo);
    let by: Vec<_> = found.iter().map(|idea| idea["by"].as_str().unwrap()).collect();
    assert_eq!(by, ["user", "agent of t/1", "agent of t/1", "agent of t/2"]);
    assert_eq!((found[2]["score"].as_f64(), found[2]["direction"].as_str()), (Some(0.5), Some("heads")));
    assert_eq!(found[0]["state"], "drawn", "its experiment is recorded");
    // The second was offered one of two, whichever the seed says; the user drops all but one that was tried.
    let drawn = offered(&repo, 2).unwrap();
    assert!(drawn.contains("from within") || drawn.contains("two heads"), "{drawn}");
    ar(&repo, ["idea", "drop", "3"]).ok();
    run(&repo, ":", 1, &["--ladder", "structural"]).ok();
    assert_eq!(offered(&repo, 3), None, "its direction was tried");
    assert_eq!(states(&repo)[3], "warmer open");
    ar(&repo, ["idea", "add", "no attention"]).ok();
    let brief = ar(&repo, ["brief"]).ok().stdout;
    assert!(brief.contains("take it or leave it\n\n- idea 5: no attention\n"), "{brief}");
}

#[test]
fn a_call_that_is_made_again_is_offered_the_same_idea_and_nothing_is_drawn_before_its_record() {
    let repo = training_repo();
    for n in 1..=30 {
        ar(&repo, ["idea", "add", &format!("idea of number {n}")]).ok();
    }
    for n in 1..=12 {
        let source = format!("https://example.org/{n}");
        ar(&repo, ["idea", "add", &source, "--kind", "source", "--score", &format!("0.{n}")]).ok();
    }
    // The first call dies with its `ar`, the second one changes nothing.
    let first = format!(
        "cp \"$AR_PROMPT\" ../call-$(ls .. | grep -c call-); if mkdir ../killed 2>/dev/null; then \
         {FIND_OWNER}; kill -KILL $owner; sleep 60; fi; mkdir ../idle 2>/dev/null && exit"
    );
    assert_eq!(run(&repo, &first, 2, &[]).code, None);
    assert!(states(&repo).iter().all(|state| state.ends_with(" open")));
    ar(&repo, ["resume"]).ok();
    let offer = |call: u32| -> Vec<String> {
        let prompt = fs::read_to_string(repo.outside().join(format!("call-{call}"))).unwrap();
        let offers = prompt.split("take it or leave it\n\n").skip(1);
        let offers: Vec<String> = offers.map(|offer| offer.lines().next().unwrap().to_owned()).collect();
        assert!(offers[0].starts_with("- idea ") && offers[1].starts_with("- source "), "{offers:?}");
        offers
    };
    assert_eq!((offer(0), offer(1)), (offer(1), offer(2)));
    assert_ne!(offer(2), offer(3), "the next experiment is offered others");
    assert_eq!(states(&repo).iter().filter(|state| state.ends_with(" drawn")).count(), 4);
}

#[test]
fn ideas_of_many_processes_have_a_number_each_and_survive_an_agent_that_deletes_them() {
    let repo = training_repo().without_walls();
    let children: Vec<_> = (0..8)
        .map(|n| {
            let mut command = ar_command(&repo, &repo.path(), ["idea", "add", &format!("idea {n}")]);
            command.stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let numbers: Vec<_> = ideas(&repo).iter().map(|idea| idea["id"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
    // Somebody adds one before it is noticed.
    let first = format!(
        "rm -rf .autoresearch; {AR} idea add since; mkdir -p \"${{AR_PROPOSAL%/*}}\"; \
         echo '{{\"ideas\": \"of its own\"}}' > \"$AR_PROPOSAL\""
    );
    let called = run(&repo, &first, 1, &[]).ok();
    let is_told = |line: &str| {
        line.starts_with("note: restored ") && line.contains("ideas.jsonl, deleted while the agent was active")
    };
    assert!(called.stderr.lines().any(is_told), "{called:#?}");
    let numbers: Vec<_> = ideas(&repo).iter().map(|idea| idea["id"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=10).collect::<Vec<_>>(), "{called:#?}");

    // A keep that was made of an idea says so there.
    ar(&repo, ["idea", "drop", "9"]).ok();
    ar(&repo, ["idea", "add", "warm up longer"]).ok();
    let kept = "sed -i 's/2[.]0/1.0/' train.sh; echo '{\"idea\": 11}' > \"$AR_PROPOSAL\"";
    for id in 1..=8 {
        ar(&repo, ["idea", "drop", &id.to_string()]).ok();
    }
    run(&repo, kept, 2, &[]).ok();
    assert_eq!(states(&repo)[10], "warm up longer kept");
    let listed = ar(&repo, ["idea", "list"]).ok().stdout;
    assert!(listed.lines().any(|line| line.trim_start().starts_with("11  idea  kept ")), "{listed}");

    // Without the process that held them, the records have those of the agents.
    repo.rm(IDEAS);
    run(&repo, ":", 3, &[]).ok();
    assert_eq!(states(&repo), ["of its own drawn"]);
}

#[test]
fn sources_are_offered_beside_ideas_and_drawn_as_the_session_says() {
    let repo = training_repo();
    ar(&repo, ["idea", "add", "warm up longer"]).ok();
    for (n, score) in [(1, "-0.5"), (2, "0.9"), (3, "0.5")] {
        let source = format!("https://example.org/{n}");
        let added = ar(&repo, ["idea", "add", &source, "--kind", "source", "--score", score]).ok().stdout;
        assert_eq!(added, format!("added source {}\n", n + 1));
    }
    let again = ar(&repo, ["idea", "add", "https://example.org/2", "--kind", "source"]).ok().stdout;
    assert_eq!(again, "already listed: source 3 (open)\n");
    let csv = ar(&repo, ["idea", "list", "--format", "csv"]).ok().stdout;
    assert_eq!(csv.lines().next(), Some("#,kind,state,score,direction,by,idea"));
    assert_eq!(csv.lines().nth(2), Some("2,source,open,-0.5,,user,https://example.org/1"));
    let kinds = ideas(&repo);
    assert_eq!((&kinds[0]["kind"], &kinds[1]["kind"]), (&"idea".into(), &"source".into()));

    for (wrong, words) in [
        (&["idea", "add", "x", "--kind", "sauce"][..], "possible values: idea, source"),
        (&["idea", "add", "x", "--score", "nan"], "must be a finite number"),
        (
            &["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--draw", "worst"],
            "write best or uniform:50",
        ),
        (&["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--draw", "uniform:0"], "from 1"),
    ] {
        assert!(ar(&repo, wrong).exits(2).stderr.contains(words), "{wrong:?}");
    }

    // The agent uses the first one that it is offered.
    let first = "[ $AR_EXPERIMENT = 2 ] || echo '{\"source\": 3}' > \"$AR_PROPOSAL\"";
    run(&repo, first, 2, &["--draw", "best"]).ok();
    let source = |experiment: u32| {
        let prompt = fs::read_to_string(repo.outside().join(format!("prompt-{experiment}"))).unwrap();
        let (_, source) = prompt.split_once("## A source from the backlog, take it or leave it\n\n- ").unwrap();
        source.lines().next().unwrap().to_owned()
    };
    assert_eq!(offered(&repo, 1).unwrap(), "idea 1: warm up longer");
    assert_eq!(source(1), "source 3: https://example.org/2");
    assert_eq!(source(2), "source 4: https://example.org/3");
    let records = ar(&repo, ["log", "--format", "json"]).ok().json();
    let proposal = &records["experiments"][1]["proposal"];
    assert_eq!((&proposal["offered_source"], &proposal["source"]), (&"https://example.org/2".into(), &3.into()));
    // What was used is not offered again, what was not used is once no other is open; `resume` draws as before.
    ar(&repo, ["resume", "--max-experiments", "2"]).ok();
    assert_eq!(
        (source(3), source(4)),
        ("source 2: https://example.org/1".into(), "source 4: https://example.org/3".into())
    );
    assert!(ar(&repo, ["brief"]).ok().stdout.contains("## A source from the backlog"));
}
