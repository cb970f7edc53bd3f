//! `--limit`: bounds that a kept change keeps to, and the units of what they bound.

use crate::guards::{record, repo, session};
use crate::support::ar;

#[test]
fn a_number_over_its_limit_or_missing_keeps_a_change_from_being_kept() {
    let repo = repo();
    repo.write("src/value", "echo 'val_bpb: 2.0 | memory_gb: 44.5 | tok_s: 900'\n");
    repo.commit_all("more numbers");
    let edits = [
        "echo \"echo 'val_bpb: 1.9 | memory_gb: 41 | tok_s: 2000'\" > src/value",
        "echo \"echo 'val_bpb: 1.8 | memory_gb: 40 | tok_s: 1000.5'\" > src/value",
        "echo \"echo 'val_bpb: 1.7 | memory_gb: 12'\" > src/value",
        "echo \"echo 'val_bpb: 1.6 | memory_gb: 50 | tok_s: 10'\" > src/value",
        "echo \"echo 'val_bpb: 1.95 | memory_gb: 50 | tok_s: 10'\" > src/value",
    ];
    let called = session(&repo, &["--limit", "memory_gb<=40", "--limit", "tok_s>1000"], &edits, 5).ok();
    let results: Vec<_> = (0..=5)
        .map(|id| record(&repo, id))
        .map(|record| {
            let reason = record["reason"].as_str().unwrap();
            format!("{} {}", record["outcome"].as_str().unwrap(), reason.split(", but ").nth(1).unwrap_or("-"))
        })
        .collect();
    assert_eq!(
        results,
        [
            "keep -",
            "discard memory_gb is 41 and must be <= 40",
            "keep -",
            "discard the run printed no tok_s, which must be > 1000",
            "discard memory_gb is 50 and must be <= 40, tok_s is 10 and must be > 1000",
            "discard -",
        ]
    );
    assert!(
        called.stderr.contains("note: the baseline itself breaks the limits: memory_gb is 44.5 and must be <= 40, tok_s is 900 and must be > 1000"),
        "{called:?}"
    );
    // What was measured where the log says nothing is held to the limit, too.
    let other = crate::guards::repo();
    session(&other, &["--limit", "memory_gb<0.000001"], &["echo echo val_bpb: 1.5 > src/value"], 1).ok();
    let reason = record(&other, 1)["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains(", but memory_gb is 0.0") && reason.ends_with(" and must be < 0.000001"), "{reason}");
}

#[test]
fn numbers_count_in_the_unit_of_the_baseline_however_the_session_decides() {
    for decide in ["once", "confirmed"] {
        let repo = repo();
        repo.write("src/value", "echo 'val_bpb: 1.234 s'; echo 'load: 0.5 s'\n");
        repo.commit_all("units");
        let edits = [
            "echo \"echo 'val_bpb: 980 ms'; echo 'load: 700 ms'\" > src/value",
            "echo \"echo 'val_bpb: 970 ms'; echo 'load: 300 ms'\" > src/value",
            "echo \"echo 'val_bpb: 3 MB'; echo 'load: 300 ms'\" > src/value",
            "echo \"echo 'val_bpb: 0.9'; echo 'load: 300 ms'\" > src/value",
        ];
        let args = ["--decide", decide, "--limit", "load<=600ms", "--goal", "100ms"];
        let called = session(&repo, &args, &edits, 4).ok();
        let found: Vec<String> = (0..=4)
            .map(|id| record(&repo, id))
            .map(|it| format!("{} {} {}", it["outcome"], it["metric"]["value"], it["metric"]["unit"]).replace('"', ""))
            .collect();
        let expected = ["keep 1.234 s", "discard 0.98 s", "keep 0.97 s", "crash null null", "crash null null"];
        assert_eq!(found, expected, "{decide}: {called:?}");
        assert_eq!(record(&repo, 2)["metric"]["raw"], "970 ms");
        let reason = record(&repo, 3)["reason"].as_str().unwrap().to_owned();
        assert!(reason.starts_with("val_bpb is 3 MB, but the baseline's unit is s"), "{reason}");
        let named: Vec<&str> = called.stderr.lines().filter(|line| line.contains("the unit of")).collect();
        assert!(named.len() == 1 && named[0].ends_with("read 980 ms as 0.98 s"), "{called:?}");
        let row = std::fs::read_to_string(repo.file("results.tsv")).unwrap().lines().nth(3).unwrap().to_owned();
        assert_eq!(row.split('\t').nth(1), Some("0.97"), "{row}");
        let said = called.stdout + &ar(&repo, ["doctor"]).stdout;
        for shown in ["   0  keep     1.234 s ", "   2  keep     0.97 s ", "the best is 0.97 s of experiment 2"] {
            assert!(said.contains(shown), "{decide}: {shown}: {said}");
        }
        let [show, verify] =
            [&["show", "2"][..], &["verify", "0", "2", "--runs", "2"]].map(|args| ar(&repo, args).ok());
        let value = show.stdout.lines().find(|line| line.starts_with("val_bpb "));
        assert!(value.is_some_and(|line| line.ends_with(" 0.97 s")), "{show:?}");
        let run = show.stdout.lines().find(|line| line.starts_with("run "));
        assert!(run.is_some_and(|line| line.contains("0.97 s, ")), "{show:?}");
        assert!(
            verify.stdout.contains("1.234 s ") && verify.stdout.contains("1.23 s ") && verify.stderr.contains("0.97 s"),
            "{verify:?}"
        );
    }
}
