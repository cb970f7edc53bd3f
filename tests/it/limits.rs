//! `--limit`: bounds that a kept change keeps to.

use crate::guards::{record, repo, session};

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
