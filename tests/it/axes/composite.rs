//! What is kept where several numbers decide together.

use super::harness::{course, records, repo, run, status};
use crate::support::ar;

#[test]
fn an_empty_baseline_is_not_run_again_when_change_after_change_crashes() {
    let repo = repo();
    let called = run(&repo, &["0.50 - 0.50 0.50"; 6], &[]).ok();
    assert_eq!(course(&repo)[1..], ["none crash"; 6]);
    assert!(!called.stderr.contains("so far the best"), "{called:#?}");
}

#[test]
fn ar_works_out_the_composite_and_a_threshold_keeps_whatever_the_best_is() {
    let repo = repo();
    let script = ["0.50", "0.40", "0.45", "0.50 - 0.50 0.50", "0.50 0.50 0.50 nan", "0.77 0.91 0.51 0.77", "0.4499"];
    run(&repo, &script, &["--keep-above", "0.45"]).ok();
    assert_eq!(
        course(&repo),
        [
            "none keep",
            "0.5000 keep",
            "0.4000 discard",
            "0.4500 keep",
            "none crash",
            "none crash",
            "0.7400 keep",
            "0.4499 discard"
        ]
    );
    let rows = repo.read("results.tsv");
    let first = rows.lines().nth(1).unwrap();
    assert!(first.contains("\tnan\t") && first.contains("\timproved\t"), "{rows}");
    let records = records(&repo);
    let reason = |id: usize| records[id]["reason"].as_str().unwrap();
    assert_eq!(reason(2), "composite 0.4000 is below the threshold of 0.45");
    assert!(reason(4).ends_with(": no number for source_diversity"), "{}", reason(4));
    assert!(reason(5).ends_with(": no number for novelty"), "{}", reason(5));
    assert_eq!(
        (&records[4]["failure"]["class"], &records[5]["failure"]["class"]),
        (&"no_metric".into(), &"nan".into())
    );
    assert_eq!(records[6]["metrics"]["source_diversity"], 0.91);
    assert_eq!(records[6]["metrics"]["composite"], 0.74, "what the scorer prints itself does not count");
    assert_eq!(status(&repo)["direction"], "higher", "without being said");

    let shown = ar(&repo, ["show", "6"]).ok().stdout;
    for words in [
        "topic_coverage 0.51, claim_density 0.77, novelty 0.77, source_diversity 0.91",
        "weighted 0.7400, multiplicative 0.2752, v2 0.5050",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    ar(&repo, ["doctor", "t"]).ok();
}

#[test]
fn log_report_status_and_extract_know_the_axes() {
    let repo = repo();
    run(&repo, &["0.50", "0.77 0.91 0.47 0.77", "0.20", "0.30"], &["--keep-above", "0.45"]).ok();
    let log = ar(&repo, ["log", "--format", "csv"]).ok().stdout;
    let (head, rows) = log.split_once('\n').unwrap();
    assert!(head.contains("composite,claim_density,novelty,source_diversity,topic_coverage,"), "{log}");
    assert!(rows.contains(",0.7300,0.77,0.77,0.91,0.47,"), "{log}");
    let narrow = ar(&repo, ["log"]).ok().stdout;
    assert!(narrow.lines().next().unwrap().contains("topic_coverage"), "nobody says how wide it is: {narrow}");

    let report = ar(&repo, ["report", "t", "--format", "json"]).ok().json();
    let axes = report["axes"].as_array().unwrap();
    let names: Vec<_> = axes.iter().map(|axis| axis["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["topic_coverage", "claim_density", "novelty", "source_diversity"], "{axes:#?}");
    // (0.50 + 0.47 + 0.20 + 0.30) / 4, and three of the four are below 0.5.
    let worst = &axes[0];
    assert!((worst["mean"].as_f64().unwrap() - 0.3675).abs() < 1e-12, "{worst}");
    assert_eq!((&worst["below_floor"], &worst["count"], &worst["of_best"]), (&3.into(), &4.into(), &0.47.into()));
    assert_eq!(report["experiments"][2]["axes"]["source_diversity"], 0.91);
    assert!(report["experiments"][0]["axes"]["novelty"].is_null(), "the empty baseline has none");
    let text = ar(&repo, ["report", "t"]).ok().stdout;
    assert!(text.contains("axes from 0 to 1, the worst first\n"), "{text}");

    let status = status(&repo);
    assert_eq!(status["kept_ratio"]["value"], 0.5);
    assert_eq!(status["kept_ratio"]["band"], serde_json::json!([0.2, 0.35]));
    let text = ar(&repo, ["status"]).ok().stdout;
    assert!(text.contains("\nkept ratio   0.50; 0.20 to 0.35 at convergence\n"), "{text}");

    let log = repo.file(".autoresearch/t/runs/00002/run.log");
    let read = ar(&repo, ["extract", log.to_str().unwrap(), "--format", "json"]).ok().json();
    assert_eq!((&read["metric"], &read["raw"]), (&"composite".into(), &"0.7300".into()));
}

#[test]
fn the_chart_and_the_table_of_the_axes_count_the_same_experiments() {
    let repo = repo();
    repo.write("axes", "0.10 0.10 0.10 0.10\n");
    repo.commit_all("a baseline with numbers");
    run(&repo, &["0.50", "0.70"], &["--keep-above", "0.45"]).ok();
    let report = ar(&repo, ["report", "t", "--format", "json"]).ok().json();
    let axis = &report["axes"][0];
    assert_eq!((format!("{:.2}", axis["mean"].as_f64().unwrap()), &axis["count"]), ("0.60".to_owned(), &2.into()));
    ar(&repo, ["report", "t", "--chart", "../axes.svg"]).ok();
    let chart = std::fs::read_to_string(repo.outside().join("axes.svg")).unwrap();
    assert_eq!((chart.matches("mean 0.60").count(), chart.matches("mean 0.").count()), (4, 4));
}

#[test]
fn the_best_is_the_best_number_and_not_the_last_keep() {
    let repo = repo();
    run(&repo, &["0.70", "0.50"], &["--keep-above", "0.45"]).ok();
    let status = status(&repo);
    assert_eq!((&status["best"]["id"], &status["incumbent"]["id"]), (&1.into(), &2.into()), "{status:#}");
    let text = ar(&repo, ["status"]).ok().stdout;
    assert!(text.contains("\nbest         0.7000") && text.contains("\nincumbent    0.5000"), "{text}");
    let report = ar(&repo, ["report", "t", "--format", "json"]).ok().json();
    assert_eq!(report["best"]["id"], 1);
    assert_eq!(report["warnings"].as_array().map(Vec::len), Some(0), "by its terms: {report:#}");
}

#[test]
fn without_a_threshold_the_first_number_after_an_empty_baseline_is_kept_and_then_the_better_one() {
    let repo = repo();
    run(&repo, &["0.20", "0.20", "0.21", "0.10"], &[]).ok();
    assert_eq!(course(&repo), ["none keep", "0.2000 keep", "0.2000 discard", "0.2100 keep", "0.1000 discard"]);
}

#[test]
fn an_empty_baseline_comes_back_as_it_was() {
    let repo = repo();
    run(&repo, &["0.20"], &[]).ok();
    let again = ar(&repo, ["repro", "0"]).ok().stdout;
    assert!(again.contains("nan"), "{again}");
    ar(&repo, ["repro", "1"]).ok();
}

#[test]
fn a_baseline_that_prints_no_axis_is_no_empty_one() {
    let repo = repo();
    repo.write("axes", "0.5 - 0.5 0.5\n");
    repo.commit_all("a scorer that forgets an axis");
    let called = run(&repo, &["0.5"], &[]).exits(3);
    assert!(called.stderr.contains("no number for source_diversity"), "{called:#?}");
    repo.write("score.sh", "echo 'novelty: nan'; exit 1\n");
    repo.commit_all("a scorer that fails");
    run(&repo, &["0.5"], &[]).exits(3);
}

#[test]
fn axes_can_stand_in_a_file() {
    let repo = repo();
    repo.write(
        "score.sh",
        "read -r claims sources topics novelty < axes; echo 'novelty: 0.1'
         echo \"{\\\"axes\\\": {\\\"claim_density\\\": $claims, \\\"source_diversity\\\": $sources, \
          \\\"topic_coverage\\\": $topics, \\\"novelty\\\": $novelty}}\" | sed s/nan/NaN/g > scores.json\n",
    );
    repo.write(".gitignore", "scores.json\n");
    repo.commit_all("a scorer that writes a file");
    run(&repo, &["0.77 0.91 0.51 0.77"], &["--metric-file", "scores.json:/axes"]).ok();
    assert_eq!(course(&repo), ["none keep", "0.7400 keep"]);
    assert_eq!(records(&repo)[1]["metrics"]["novelty"], 0.77, "that of the log does not count");
}

#[test]
fn axes_are_read_from_the_whole_log_and_extract_says_the_same() {
    let repo = repo();
    let noise = "yes 'a line that names nothing' | head -c 200000";
    repo.write("score.sh", format!("{}{noise}\n", repo.read("score.sh")));
    repo.commit_all("a scorer that prints much behind the axes");
    run(&repo, &["0.77 0.91 0.51 0.77"], &[]).ok();
    assert_eq!(course(&repo), ["none keep", "0.7400 keep"]);
    let log = repo.file(".autoresearch/t/runs/00001/run.log");
    for args in [&["extract"][..], &["extract", "--metric", "composite"]] {
        let args = args.iter().copied().chain([log.to_str().unwrap(), "--format", "json"]);
        assert_eq!(ar(&repo, args).ok().json()["raw"], "0.7400", "and not 0.9900, which the log says");
    }
    // Without ar.toml the session says what the axes are.
    repo.rm("ar.toml");
    let read = ar(&repo, ["extract", "--metric", "composite", log.to_str().unwrap(), "--format", "json"]).ok().json();
    assert_eq!(read["raw"], "0.7400");
}

#[test]
fn an_axis_outside_of_0_to_1_without_a_range_is_told_once_and_shown_with_what_it_counts_as() {
    let repo = repo();
    let called = run(&repo, &["0.4 1.7 0.4 0.4", "0.5 1.8 0.5 0.5"], &[]).ok();
    let told = |words: &str| called.stderr.matches(words).count() + called.stdout.matches(words).count();
    assert_eq!(told("source_diversity 1.7 counts as 1: an axis without a range goes from 0 to 1"), 1, "{called:#?}");
    assert_eq!((told("counts as"), told("[composite.axes.source_diversity]")), (1, 1), "{called:#?}");
    let shown = ar(&repo, ["show", "2"]).ok().stdout;
    assert!(shown.contains("novelty 0.5, topic_coverage 0.5, source_diversity 1.8 (1.0000)"), "{shown}");
}

#[test]
fn hints_at_wrong_axes_point_to_where_they_are_described() {
    let repo = repo();
    repo.write("axes", "0.5 0.5 0.5 0.5\n");
    let settings = repo.read("ar.toml");
    repo.write("ar.toml", settings.replace("source_diversity", "source_diversty"));
    repo.commit_all("an axis that nothing prints");
    let called = run(&repo, &["0.5"], &[]).exits(3);
    for words in ["no number for source_diversty", "did you mean source_diversity for source_diversty?", "[composite]"]
    {
        assert!(called.stderr.contains(words), "{words}: {called:#?}");
    }
    repo.write("ar.toml", settings.replacen("[composite.", "[composite]\nform = \"wieghted\"\n[composite.", 1));
    repo.commit_all("a form that does not exist");
    let called = run(&repo, &["0.5"], &[]).exits(1);
    let hint = "did you mean form = \"weighted\"? the forms are weighted, multiplicative, v2";
    assert!(called.stderr.contains(hint), "{called:#?}");
    repo.write("ar.toml", settings);
    repo.write("score.sh", "echo '{\"axes\": {\"novelty\": 0.5}, \"composite\": 0.5}' > scores.json\n");
    repo.write(".gitignore", "scores.json\n");
    repo.commit_all("a scorer that writes a file");
    let called = run(&repo, &["0.5"], &["--metric-file", "scores.json:/composite"]).exits(3);
    for words in ["must name the JSON object that holds the axes", "--metric-file scores.json:/axes"] {
        assert!(called.stderr.contains(words), "{words}: {called:#?}");
    }
}

#[test]
fn a_threshold_works_for_any_metric() {
    let repo = repo();
    repo.write("score.sh", "read -r loss rest < axes; echo \"loss: $loss\"\n");
    repo.write("axes", "2.0\n");
    repo.write("ar.toml", "metric = \"loss\"\ncmd = \"sh score.sh\"\n");
    repo.commit_all("a loss");
    run(&repo, &["1.2", "1.0", "1.1", "0.9"], &["--keep-above", "1.1"]).ok();
    assert_eq!(course(&repo), ["2.0 keep", "1.2 discard", "1.0 keep", "1.1 keep", "0.9 keep"]);
}

#[test]
fn what_cannot_work_is_refused_with_what_to_write() {
    let repo = repo();
    let settings = repo.read("ar.toml");
    let refused = |text: &str, more: &[&str], code: i32, words: &[&str]| {
        repo.write("ar.toml", text);
        repo.commit_all("other settings");
        let called = run(&repo, &["0.5"], more).exits(code);
        for words in words {
            assert!(called.stderr.contains(words), "{words}: {called:#?}");
        }
    };
    let with_weight = |weight: &str| settings.replacen("0.25", weight, 1);
    refused(&with_weight("-0.5"), &[], 1, &["invalid weight of `claim_density`: -0.5", "hint: "]);
    refused(&with_weight("nan"), &[], 1, &["invalid weight of `claim_density`: NaN", "hint: "]);
    refused(&settings.replace("0.25", "0"), &[], 1, &["all weights are 0", "hint: "]);
    refused(&settings.replacen("weight", "wieght", 1), &[], 1, &["ar.toml", "wieght", "hint: "]);
    let plain = "metric = \"novelty\"\nhigher = true\ncmd = \"sh score.sh\"\n";
    refused(plain, &["--stop-rule", "kill2"], 2, &["kill2 needs the axes", "hint: use kill, plateau:N"]);
    refused(plain, &["--stop-rule", "plateau"], 2, &["plateau:30"]);
    refused(
        &settings,
        &["--metric-regex", "x: (.*)"],
        2,
        &["--metric-regex finds one number", "hint: omit --metric-regex"],
    );
    refused(&settings, &["--cadence", "daily"], 2, &["adaptive, novelty or a duration"]);
    repo.git(["rm", "--cached", "--quiet", "ar.toml"]);
    repo.write(".gitignore", "ar.toml\n");
    repo.commit_all("settings of one's own");
    repo.write("ar.toml", with_weight("1.25"));
    let called = run(&repo, &["0.5"], &[]).ok();
    assert!(
        called.stderr.contains("scaled the composite's weights, which sum to 2, to 1: claim_density 0.6250"),
        "{called:#?}"
    );
    repo.write("ar.toml", with_weight("1.35"));
    let called = ar(&repo, ["resume"]).ok();
    assert!(called.stderr.contains("differ from the session's stored settings: composite"), "{called:#?}");
}
