//! `ar demo`, and the commands that read what it left.

use std::process::Command;

use serde_json::Value;

use crate::support::{Called, TestRepo, ar_command};

#[test]
fn the_demo_keeps_discards_and_crashes_and_can_be_read_in_every_format() {
    let home = TestRepo::empty();
    let dir = home.outside().join("demo");
    let at = |folder, args: &[&str]| Called::from(ar_command(&home, folder, args).output().unwrap());
    let shown = at(home.outside(), &["demo", dir.to_str().unwrap()]).ok().stdout;
    for outcome in [
        "keep     2.410447  context of 3 bytes: val_bpb 2.410447 is better",
        "discard  2.524933  smoothing 40",
        "crash    -         ",
        "crash    nan       ",
    ] {
        assert!(shown.contains(outcome), "{outcome} in {shown}");
    }
    assert!(shown.contains("best         2.220630  experiment 10"), "{shown}");
    let again = at(home.outside(), &["demo", dir.to_str().unwrap()]).exits(1);
    assert!(again.stderr.contains("is not empty"), "{again:?}");

    let report = at(&dir, &["report", "--format", "json"]).ok().json();
    assert_eq!(report["version"], 1);
    assert_eq!(
        report["counts"],
        serde_json::json!({
            "total": 11, "keep": 6, "discard": 3, "crash": 2, "refused": 0, "other": 0, "malformed": 0, "elsewhere": 0
        })
    );
    assert_eq!((&report["best"]["id"], &report["best"]["value"]), (&10.into(), &2.22063.into()));
    assert_eq!(report["baseline"]["value"], 2.642837);
    assert_eq!(report["experiments"].as_array().map(Vec::len), Some(11));
    assert_eq!(report["failures"], serde_json::json!({"nan": 1, "crash": 1}));

    let ledger =
        at(&dir, &["report", "--ledger", "results.tsv", "--metric", "val_bpb", "--format", "json"]).ok().json();
    assert_eq!(ledger["counts"], report["counts"]);
    assert_eq!(ledger["best"]["value"], report["best"]["value"]);

    let log = at(&dir, &["log", "--format", "csv"]).ok().stdout;
    assert_eq!(log.lines().count(), 12);
    let show: Value = at(&dir, &["show", "4", "--format", "json"]).ok().json();
    assert_eq!((&show["version"], &show["outcome"]), (&1.into(), &"crash".into()));
    let shown = at(&dir, &["show", "4"]).ok().stdout;
    assert!(shown.contains("diff --git a/train.sh b/train.sh") && shown.contains("the end of "), "{shown}");
    for format in ["table", "csv", "md", "json"] {
        for command in [&["report"][..], &["log"], &["show", "1"], &["extract", "run.log", "--metric", "val_bpb"]] {
            let called = at(&dir, &[command, &["--format", format]].concat()).ok();
            assert!(called.stdout.contains("val_bpb"), "{command:?} {format}: {called:?}");
        }
    }
    let mut git = Command::new("git");
    home.environment(&mut git);
    let status = git.args(["status", "--porcelain"]).current_dir(&dir).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&status.stdout), "");
}

/// Hashes and times as signs, so that the rest can be compared to the letter.
fn without_chance(text: &str) -> String {
    let hash = regex::Regex::new(r"\b[0-9a-f]{8}\b").unwrap();
    let seconds = regex::Regex::new(r"after \d+\.\d s").unwrap();
    let time = regex::Regex::new(r"(?m)^time .*$").unwrap();
    // Each awk has its own words for what is wrong with a program.
    let syntax = regex::Regex::new(r"(?m)^(crash +1 +4 +)\S.*$").unwrap();
    let text = hash.replace_all(text, "########");
    let text = syntax.replace_all(&text, "$1#");
    let text = seconds.replace_all(&text, "after # s");
    time.replace_all(&text, "time         #").into_owned()
}

#[test]
fn the_demo_reads_well() {
    let home = TestRepo::empty();
    let dir = home.outside().join("demo");
    let called =
        Called::from(ar_command(&home, home.outside(), ["demo", dir.to_str().unwrap()]).output().unwrap()).ok();
    let shown = without_chance(&called.stdout.replace(dir.to_str().unwrap(), "DIR"));
    // An awk says for itself by which status it refuses a program.
    let shown = shown.replace("exit 2 after", "exit 1 after");
    insta::assert_snapshot!(shown);
}

#[test]
fn the_demo_needs_only_sh_and_awk() {
    let home = TestRepo::empty();
    let bin = home.outside().join("bin");
    std::fs::create_dir(&bin).unwrap();
    for program in ["sh", "awk"] {
        let path = std::env::var_os("PATH").unwrap();
        let found = std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file()).unwrap();
        std::os::unix::fs::symlink(found.canonicalize().unwrap(), bin.join(program)).unwrap();
    }
    let dir = home.outside().join("demo");
    let mut command = ar_command(&home, home.outside(), ["demo", dir.to_str().unwrap()]);
    let shown = Called::from(command.env("PATH", &bin).output().unwrap()).ok().stdout;
    assert!(shown.contains("best         2.220630  experiment 10"), "{shown}");
}

#[test]
fn the_research_demo_keeps_by_the_threshold_ends_by_a_rule_and_draws_its_axes() {
    let home = TestRepo::empty();
    let dir = home.outside().join("demo");
    let at = |folder, args: &[&str]| Called::from(ar_command(&home, folder, args).output().unwrap());
    let shown = at(home.outside(), &["demo", "--research", dir.to_str().unwrap()]).ok().stdout;
    for said in [
        "composite 0.4375 is below the threshold of 0.45",
        "composite 0.6982 reaches the threshold of 0.45",
        "at its best after experiment 7: 0.8875",
        "composite 0.0000 is below the threshold of 0.45",
        "stopped: plateau: no new best in 5 experiments",
        "axes from 0 to 1, the worst first\n",
    ] {
        assert!(shown.contains(said), "{said} in {shown}");
    }
    let picture = shown.lines().find_map(|line| line.strip_prefix("the picture is in ")).unwrap();
    assert!(std::fs::read(picture).unwrap().starts_with(b"\x89PNG\r\n"));

    let report = at(&dir, &["report", "--format", "json"]).ok().json();
    assert_eq!(
        (&report["counts"]["keep"], &report["counts"]["discard"], &report["counts"]["crash"]),
        (&6.into(), &7.into(), &0.into())
    );
    let sources = &report["sources"];
    assert_eq!((&sources["cited"], &sources["first_stored"]), (&11.into(), &11.into()), "{sources:#}");
    assert!(sources["diversity"]["medium"].as_f64().is_some_and(|mean| mean > 0.0 && mean < 1.0), "{sources:#}");
    assert!(
        shown.contains("11 sources cited, 11 of them first stored by the iteration that relies on them"),
        "{shown}"
    );
    // A claim that was not kept and comes again is not novel.
    let novelty = |id: usize| report["experiments"][id]["axes"]["novelty"].as_f64().unwrap();
    assert!(novelty(2) > 0.7 && novelty(7) > 0.7 && novelty(11) < 0.3 && novelty(12) < 0.3, "{report}");

    at(&dir, &["report", "--chart", "course.svg"]).ok();
    let svg = std::fs::read_to_string(dir.join("course.svg")).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let panels: Vec<_> = document.descendants().filter(|node| node.attribute("class") == Some("panel")).collect();
    let names: Vec<_> = panels.iter().filter_map(|panel| panel.descendants().find_map(|node| node.text())).collect();
    assert_eq!(names, ["artifact_composite", "topic_coverage", "source_diversity", "novelty", "claim_density"]);
    assert!(svg.contains("threshold 0.45"));
    let page = at(&dir, &["report", "--format", "html"]).ok().stdout;
    assert_eq!(page.matches("class=\"panel\"").count(), 5);
    assert!(
        page.contains("<dt>axes</dt><dd>topic_coverage 0.25, source_diversity 0.6021, "),
        "the axes of experiment 7"
    );
}
