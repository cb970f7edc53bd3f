//! What `ar report` says of a session beside what is in its records, and of text that others wrote.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{TestRepo, ar, ar_command};

/// Calls the loop of a session whose metric depends on a file beside the repository: the noise of the machine.
fn run(repo: &TestRepo, tag: &str, noise: &str, experiments: &str) {
    std::fs::write(repo.outside().join("noise"), noise).unwrap();
    let cmd = "echo loss: $(cat value)$(cat ../noise)";
    let agent = "echo 1.$((9 - AR_EXPERIMENT)) > value; echo 'a smaller value'";
    let args =
        ["run", "--metric", "loss", "--cmd", cmd, "--agent", agent, "--tag", tag, "--max-experiments", experiments];
    ar(repo, args).ok();
}

/// A session `t` of two experiments.
fn session() -> TestRepo {
    let repo = TestRepo::new();
    repo.write("value", "2.0\n");
    repo.commit_all("a value");
    run(&repo, "t", "1", "2");
    repo
}

#[test]
fn a_report_knows_what_another_session_measured_what_was_saved_and_where_the_branch_is() {
    let repo = session();
    run(&repo, "u", "9", "0");
    repo.git(["update-ref", "refs/autoresearch/t/saved/00000", "HEAD"]);
    let report = ar(&repo, ["report", "t", "--format", "json"]).ok().json();
    assert_eq!(report["headline"], "loss 2.01 → 1.71, better by 0.30 (15%), in 2 experiments, not verified");
    let repeated = json!([{"experiments": [2], "sessions": ["u"], "count": 2, "min": 1.71, "max": 1.79,
        "deviation": report["spread"]["deviation"]}]);
    assert_eq!(report["spread"]["repeated"], repeated);
    let kinds = |report: &Value| -> Vec<String> {
        let warnings = report["warnings"].as_array().unwrap().iter();
        warnings.map(|warning| warning["kind"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&report), ["within_spread", "saved"], "0.10 is less than 2.8 deviations: {report:#}");
    repo.git(["update-ref", "refs/heads/autoresearch/t", "HEAD~1"]);
    let report = ar(&repo, ["report", "t", "--format", "json"]).ok().json();
    assert_eq!(kinds(&report), ["within_spread", "best_is_not_the_tip", "saved"]);
    assert!(ar(&repo, ["report", "t"]).ok().stdout.contains("\n    run `ar doctor t` for the fix\n"));
}

#[test]
fn times_are_those_of_the_users_clock_on_the_screen_and_utc_in_files() {
    let repo = session();
    let said = |args: &str| {
        let mut command = ar_command(&repo, &repo.path(), args.split(' '));
        let command = command.env("AR_CLOCK", "2026-11-21T01:30:00Z").env("TZ", "UTC-2");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let table = said("report");
    assert!(table.contains("\ntime         0 s until 00:00, 3 h ago\n"), "{table}");
    assert!(said("report --format md").contains("0 s until 2026-11-20 22:00 UTC\n"));
    ar(&repo, ["note", "1", "look"]).ok();
    let shown = said("show 1");
    assert!(shown.contains("00:00, 3 h ago\n") && shown.contains("00:00, 3 h ago)\n"), "{shown}");
    assert!(!shown.contains("22:00:00.000Z"), "{shown}");
    assert!(said("show 1 --format csv").contains("started,2026-11-20T22:00:00.000Z\n"));
}

#[test]
fn what_stands_in_a_record_does_nothing_to_a_terminal() {
    let repo = session();
    let tag = repo.git(["cat-file", "tag", "refs/autoresearch/t/00001"]);
    let evil = r"red\u001b[5;31m\u0007\u009b5m\u202e<script>alert(1)</script>";
    let (head, body) = tag.split_once("\n\n").unwrap();
    let tag = format!("{head}\n\n{}\n", body.replace("a smaller value", evil).replace("is better", evil));
    let mut git = Command::new("git");
    repo.environment(&mut git);
    let mut git = git
        .args(["hash-object", "-t", "tag", "-w", "--stdin"])
        .current_dir(repo.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    git.stdin.take().unwrap().write_all(tag.as_bytes()).unwrap();
    let id = String::from_utf8(git.wait_with_output().unwrap().stdout).unwrap();
    repo.git(["update-ref", "refs/autoresearch/t/00001", id.trim()]);
    for command in [&["report"][..], &["log"], &["show", "1"], &["status"]] {
        for format in ["table", "md", "csv", "json"] {
            let text = ar(&repo, [command, &["--format", format]].concat()).ok().stdout;
            let acts = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
            assert!(!text.contains(acts), "{command:?} {format}: {text:?}");
            assert!(format != "md" || !text.contains("<script"), "{command:?}: {text}");
        }
        let text = ar(&repo, command).ok().stdout;
        assert!(text.contains("<script>alert(1)"), "it is shown: {command:?} {text}");
    }
}

#[test]
fn two_sessions_stand_side_by_side_in_every_format_and_in_one_picture() {
    let repo = session();
    repo.git(["switch", "--quiet", "--create", "again", "autoresearch/t~2"]);
    run(&repo, "u", "0", "3");
    let text = ar(&repo, ["report", "t", "u"]).ok().stdout;
    assert!(text.contains("sessions t and u\n"), "{text}");
    let row = |name: &str| -> Vec<&str> {
        let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_default();
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
    };
    assert_eq!((row("tried"), row("kept")), (vec!["tried", "2", "3"], vec!["kept", "2", "3"]));
    assert_eq!((row("best")[1], row("best")[3]), ("1.71", "1.60"), "{text}");
    assert!(
        text.contains("the best of u is better than that of t by ") && text.contains("`ar verify t/2 u/3`"),
        "{text}"
    );
    let alone = ["t", "u"].map(|tag| ar(&repo, ["report", tag, "--format", "json"]).ok().json());
    let both = ar(&repo, ["report", "t", "u", "--format", "json"]).ok().json();
    assert_eq!(both, json!({"version": 1, "sessions": alone}));
    let csv = ar(&repo, ["report", "u", "t", "--format", "csv"]).ok().stdout;
    assert!(csv.starts_with("session,") && csv.contains("\nu,loss,lower,") && csv.contains("\nt,loss,lower,"), "{csv}");
    assert!(ar(&repo, ["report", "t", "u", "--format", "md"]).ok().stdout.contains("| tried | 2 | 3 |\n"));
    let page = ar(&repo, ["report", "t", "u", "--format", "html"]).ok().stdout;
    assert!(page.starts_with("<!DOCTYPE html>") && page.matches("<path class=\"line\"").count() == 2, "{page}");

    let drawn = ar(&repo, ["report", "t", "u", "--chart", "../both.svg", "--style", "dark"]).ok();
    assert_eq!(drawn.stdout, "the chart is in ../both.svg\n");
    let svg = std::fs::read_to_string(repo.outside().join("both.svg")).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let texts: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
    for text in ["t: 2 experiments, 2 kept, loss from 2.01 to 1.71 (15% better)", "t", "u"] {
        assert!(texts.contains(&text), "{text}: {texts:?}");
    }
    ar(&repo, ["report", "t", "u", "--chart", "../both.png"]).ok();
    assert!(std::fs::read(repo.outside().join("both.png")).unwrap().starts_with(b"\x89PNG\r\n"));
}

#[test]
fn a_report_of_several_names_what_it_cannot_compare() {
    let repo = session();
    for [a, b] in [["0", "1"], ["baseline", "best"]] {
        let called = ar(&repo, ["report", a, b]).exits(2);
        let words = format!(
            "error: {a} and {b} are experiments, and a report compares sessions\nhint: run `ar diff {a} {b}` to compare two experiments"
        );
        assert!(called.stderr.contains(&words), "{called:?}");
    }
    let gone = ar(&repo, ["report", "t", "other"]).exits(1).stderr;
    assert!(gone.contains("other") && gone.contains("hint: "), "{gone}");
    let twice = ar(&repo, ["report", "t", "t"]).exits(2).stderr;
    assert_eq!(twice, "error: session t is named twice\nhint: name each session once\n");
    std::fs::write(repo.outside().join("ledger.tsv"), "commit\tloss\tstatus\tdescription\na\t1\tkeep\tb\n").unwrap();
    ar(&repo, ["report", "t", "--ledger", "../ledger.tsv"]).exits(2);
    ar(&repo, ["report", "--ledger", "../ledger.tsv"]).ok();
    assert!(ar(&repo, ["diff", "t/baseline", "t/best"]).ok().stdout.contains("loss"));
}

#[test]
fn a_report_has_patterns_by_file_and_what_hypotheses_expected() {
    let repo = TestRepo::new();
    repo.write("value", "2.0\n");
    repo.write("data", "0\n");
    repo.commit_all("a value");
    let agent = "case $AR_EXPERIMENT in 1) echo 1.5 > value ;; *) echo $AR_EXPERIMENT > data ;; esac; \
                 printf '{\"description\": \"d\", \"hypothesis\": \"h%s\", \"expected\": \"1.7\"}' $AR_EXPERIMENT > \"$AR_PROPOSAL\"";
    let args = ["run", "--yes", "--metric", "loss", "--cmd", "echo loss: $(cat value)", "--agent", agent, "--tag", "t"];
    ar(&repo, [&args[..], &["--max-experiments", "4"]].concat()).ok();
    let patterns = ar(&repo, ["report", "t", "--format", "json"]).ok().json()["patterns"].take();
    let files: Vec<String> = patterns["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| format!("{} {} {} {} {}", of["file"], of["tried"], of["kept"], of["gain"], of["never_helped"]))
        .collect();
    assert_eq!(files, ["\"value\" 1 1 0.5 false", "\"data\" 3 0 null true"], "{patterns:#}");
    assert_eq!(patterns["directions"], json!([]));
    let first = &patterns["hypotheses"][0];
    assert_eq!((&first["id"], &first["hypothesis"], &first["expected"]), (&json!(1), &json!("h1"), &json!("1.7")));
    assert_eq!((&first["outcome"], &first["value"], &first["gain"]), (&json!("keep"), &json!(1.5), &json!(0.5)));
    assert!((first["over_expected"].as_f64().unwrap() - 0.2).abs() < 1e-9, "{patterns:#}");
    for format in ["table", "md", "html"] {
        let text = ar(&repo, ["report", "t", "--format", format]).ok().stdout;
        for words in ["changed files, the largest gain first", "what never helped", "file data: tried 3 times", "h4"] {
            assert!(text.contains(words), "{format} {words}: {text}");
        }
    }
}

#[test]
fn a_report_sums_up_the_directions() {
    let repo = TestRepo::new();
    repo.write("value", "2.0\n");
    repo.commit_all("a value");
    let agent = "case $AR_EXPERIMENT in 1) v=1.9 d=schedule ;; 2) v=1.5 d=Width ;; 3) v=1.8 d=Schedule ;; 4) v=1.4 d= ;; \
                 5) v=1.3 d=width; touch outside ;; esac; echo $v > value; \
                 printf '{\"description\": \"to %s\", \"direction\": \"%s\"}' $v \"$d\" > \"$AR_PROPOSAL\"";
    let args = ["run", "--yes", "--metric", "loss", "--cmd", "echo loss: $(cat value)", "--agent", agent, "--tag", "t"];
    ar(&repo, [&args[..], &["--scope", "value", "--max-experiments", "5"]].concat()).ok();
    let report = ar(&repo, ["report", "t", "--format", "json"]).ok().json();
    let directions: Vec<String> = report["directions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| {
            format!("{} {} {} {:.1}", of["direction"], of["tried"], of["kept"], of["gain"].as_f64().unwrap_or(0.0))
        })
        .collect();
    assert_eq!(directions, ["\"Width\" 1 1 0.4", "\"Schedule\" 2 1 0.1", "null 1 1 0.1"], "{report:#}");
    assert!(report["directions"][0]["gpu_hours"].is_number() && report["counts"]["refused"] == 1, "{report:#}");
    let text = ar(&repo, ["report", "t"]).ok().stdout;
    assert!(text.contains("directions, the largest gain first\n") && text.contains("not named"), "{text}");
    assert!(session_without_directions()["directions"].is_null());
}

#[test]
fn a_report_says_what_each_keep_cost_and_what_else_changed() {
    let repo = TestRepo::new();
    repo.write("value", "2.0\n");
    repo.write("steps", "1000\n");
    repo.commit_all("a value");
    let cmd = "echo loss: $(cat value); echo num_steps: $(cat steps); echo eval_steps: $(cat value)";
    let agent = "case $AR_EXPERIMENT in 1) echo 1.5 > value; echo 1310 > steps ;; 2) echo 9 > value ;; \
                 3) echo 1.4 > value ;; *) echo 8 > value ;; esac; echo change $AR_EXPERIMENT";
    let args = ["run", "--yes", "--metric", "loss", "--cmd", cmd, "--agent", agent, "--tag", "t"];
    ar(&repo, [&args[..], &["--max-experiments", "4"]].concat()).ok();
    let report = ar(&repo, ["report", "t", "--format", "json"]).ok().json();
    let kept = report["kept"].as_array().unwrap();
    let steps =
        json!([{"what": "steps", "name": "num_steps", "from": 1000.0, "to": 1310.0, "change": 1310.0 / 1000.0 - 1.0}]);
    let confounds: Vec<&Value> = kept.iter().map(|keep| &keep["confounds"]).collect();
    assert_eq!(confounds, [&json!([]), &steps, &json!([])], "{report:#}");
    // No GPU is visible to tests, so these are hours of runs: those of 2 belong to 3, and those of 4 to no keep.
    let log = ar(&repo, ["log", "--tag", "t", "--format", "json"]).ok().json();
    let seconds = |id: usize| log["experiments"][id]["runs"][0]["seconds"].as_f64().unwrap();
    for (keep, runs) in kept.iter().zip([&[0][..], &[1], &[2, 3]]) {
        let hours = runs.iter().map(|id| seconds(*id)).sum::<f64>() / 3600.0;
        assert!((keep["gpu_hours"].as_f64().unwrap() - hours).abs() < 1e-12, "{runs:?}: {report:#}");
    }
    assert!(ar(&repo, ["report", "t"]).ok().stdout.contains("\n  experiment 1 came with steps +31%\n"));
    assert!(
        ar(&repo, ["report", "t", "--format", "html"]).ok().stdout.contains("steps +31%, compared with the baseline")
    );
    let shown = ar(&repo, ["show", "1", "--tag", "t"]).ok().stdout;
    let line = shown.lines().find(|line| line.starts_with("confounds ")).unwrap_or_default();
    assert!(line.ends_with("  steps +31%, compared with the baseline"), "{shown}");
    assert_eq!(ar(&repo, ["show", "1", "--tag", "t", "--format", "json"]).ok().json()["confounds"], steps);
    assert_eq!(ar(&repo, ["show", "3", "--tag", "t", "--format", "json"]).ok().json()["confounds"], json!([]));
}

fn session_without_directions() -> Value {
    ar(&session(), ["report", "t", "--format", "json"]).ok().json()
}

#[test]
fn a_second_metric_has_a_ledger_of_its_own_and_the_first_one_comes_back() {
    let repo = TestRepo::new();
    repo.write("value", "2.0\n");
    repo.write(".gitignore", "*.old\n*.latency\n");
    repo.commit_all("a value");
    let branch = repo.git(["branch", "--show-current"]);
    let cmd = "echo loss: $(cat value); echo latency/p99: $(cat value)";
    let run = |tag: &str, metric: &str| {
        ar(&repo, ["run", "--yes", "--tag", tag, "--metric", metric, "--cmd", cmd, "--max-experiments", "0"])
    };
    const OWN: &str = "results-latency-p99.tsv";
    run("one", "loss").ok();
    repo.git(["switch", "--quiet", &branch]);
    let said = run("two", "latency/p99").ok().stderr;
    assert!(
        said.contains("results.tsv has the rows of another metric: those of latency/p99 go to results-latency-p99.tsv"),
        "{said}"
    );
    let rows = [repo.read("results.tsv"), repo.read(OWN)];
    assert!(rows[1].starts_with("commit_hash\tlatency/p99\t"), "{rows:?}");
    assert_eq!((rows[0].lines().count(), rows[1].lines().count(), repo.status()), (2, 2, String::new()));
    ar(&repo, ["doctor"]).ok();
    // Each is rebuilt by its own session, whichever comes first.
    for (first, second) in [("two", "one"), ("one", "two")] {
        for name in ["results.tsv", OWN, "results-loss.tsv"].into_iter().filter(|name| repo.exists(name)) {
            repo.rm(name);
        }
        for tag in [first, second] {
            ar(&repo, ["resume", tag, "--agent", "echo 1.5 >> value", "--max-experiments", "0"]).ok();
        }
        let found: Vec<String> = ar(&repo, ["doctor"])
            .ok()
            .stdout
            .lines()
            .filter(|line| line.contains(" ledger "))
            .map(str::to_owned)
            .collect();
        assert_eq!(found.len(), 2, "{found:?}");
    }
    // The doctor does so, too.
    repo.rm("results.tsv");
    let found = ar(&repo, ["doctor"]).exits(1).stdout;
    assert!(found.contains("results.tsv is missing"), "{found}");
    ar(&repo, ["doctor", "--repair"]).ok();
    ar(&repo, ["resume", "two", "--agent", "echo 1.5 > value", "--max-experiments", "1"]).ok();
    assert_eq!(repo.read(OWN).lines().count(), 3);
}
