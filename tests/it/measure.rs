//! What `ar` reads out of logs.

use std::path::Path;

use autoresearch::domain::{Direction, Failure, FailureClass, MetricSource, MetricSpec, Number};
use autoresearch::measure::{LogSummary, RunEnd, Scanner, judge};

fn spec(name: &str, pattern: Option<&str>) -> MetricSpec {
    let source = pattern.map_or(MetricSource::Log, |pattern| MetricSource::Regex(pattern.to_owned()));
    MetricSpec { name: name.to_owned(), direction: Direction::Lower, source }
}

fn scan(log: &[u8], spec: &MetricSpec) -> LogSummary {
    let mut scanner = Scanner::new(spec).unwrap();
    for chunk in log.chunks(997) {
        scanner.push(chunk);
    }
    scanner.finish()
}

fn fixture(name: &str, status: i32) -> (LogSummary, Result<Number, Failure>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/logs").join(name);
    let summary = scan(&std::fs::read(path).unwrap(), &spec("val_bpb", None));
    let verdict = judge(&summary, &RunEnd::from_status(status));
    (summary, verdict)
}

#[test]
fn a_summary_behind_progress_is_read_with_its_digits() {
    let (summary, verdict) = fixture("progress.log", 0);
    assert_eq!(verdict.map(|number| number.raw), Ok("1.834200".to_owned()));
    assert_eq!(summary.memory_gb, Some(14.5));
    let names: Vec<&str> = summary.metrics.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.ends_with(&["val_bpb", "training_seconds", "peak_vram_mb", "num_steps"]), "{names:?}");
    assert!(!summary.tail.contains("step 00000") && summary.tail.contains("peak_vram_mb"), "{}", summary.tail);
}

#[test]
fn a_mean_with_its_spread_glued_to_it_is_the_mean() {
    let log = b"[0]\ttrain-auc:0.79000+0.01000\ttest-auc:0.75000+0.02000\n[1]\ttrain-auc:0.85+0.003\ttest-auc:0.818192+0.011359\n";
    let summary = scan(log, &spec("test-auc", None));
    assert_eq!(judge(&summary, &RunEnd::from_status(0)).map(|number| number.raw), Ok("0.818192".to_owned()));
    assert!(summary.metrics.iter().any(|(name, number)| name == "train-auc" && number.raw == "0.85"), "{summary:?}");
}

#[test]
fn the_same_log_is_a_failure_when_the_run_failed() {
    let (_, verdict) = fixture("progress.log", 1);
    assert_eq!(verdict.map_err(|failure| failure.class), Err(FailureClass::Crash));
}

#[test]
fn a_worker_out_of_memory_is_seen_behind_its_launcher() {
    let (_, verdict) = fixture("launcher_oom.log", 1);
    let failure = verdict.unwrap_err();
    assert_eq!(failure.class, FailureClass::Oom);
    assert!(
        failure.excerpt.contains("CUDA out of memory") && failure.excerpt.contains("loss.backward()"),
        "{failure:?}"
    );
    assert!(!failure.excerpt.contains('\u{1b}'));
}
