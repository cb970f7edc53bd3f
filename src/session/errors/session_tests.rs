use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::{Adopting, CommandRole, FailedBaseline, SessionError, TryError, VerifyError};
use crate::domain::ErrorKind::CannotStart;
use crate::domain::{Drift, FailureClass, LargeLog, MetricSource, Space, StopWhen, Tag, refuse};
use crate::git::GitError;
use crate::ledger::LedgerError;
use crate::rules::OtherHost;
use crate::state::StateError;

fn tag(name: &str) -> Tag {
    name.parse().unwrap()
}

fn json_error() -> serde_json::Error {
    serde_json::from_str::<u32>("x").unwrap_err()
}

/// Errors of every variant whose hint depends on what it carries, or that has none.
fn errors() -> Vec<SessionError> {
    let t = || tag("t");
    let path = || PathBuf::from("a b/c");
    let (seen, wait) = (Duration::from_secs(40), Duration::from_secs(230));
    let other = OtherHost { host: "gpu7".into(), seen, wait };
    let full_disk = || io::Error::from_raw_os_error(28);
    let mut errors = baselines();
    errors.extend(branches());
    errors.extend([
        SessionError::Git(GitError::Damaged("no tree".into())),
        SessionError::Git(GitError::Unborn("main".into())),
        SessionError::Git(GitError::Extension("x".into())),
        SessionError::Watchdog(io::Error::from(io::ErrorKind::Other)),
        SessionError::State(StateError::Json { path: path(), source: json_error() }),
        SessionError::State(StateError::Held { holder: "process 1".into() }),
        SessionError::Ledger(LedgerError::ReadOnly(path())),
        SessionError::LedgerBeforeStart(LedgerError::OtherMetric {
            path: path(),
            found: "a b".into(),
            metric: "m".into(),
        }),
        SessionError::LedgerBeforeStart(LedgerError::ReadOnly(path())),
        SessionError::Dirty { paths: vec![path()], adopting: Adopting::Start },
        SessionError::Dirty { paths: vec![path()], adopting: Adopting::Session(t()) },
        SessionError::Dirty { paths: vec![path()], adopting: Adopting::Nowhere },
        SessionError::Drift {
            tag: "t".into(),
            drifts: vec![Drift {
                field: "timeout",
                approved: "1".into(),
                found: "2".into(),
                flag: Some("--run-timeout".into()),
            }],
        },
        SessionError::NoCommand { what: CommandRole::Agent, word: "cloude".into() },
        SessionError::NoCommand { what: CommandRole::OnEvent, word: "tell.sh".into() },
        SessionError::Elsewhere { tag: t(), other },
        SessionError::TakenOver { tag: t(), by: "process 7 on gpu8".into() },
        SessionError::NoFolder(path()),
        SessionError::NoSession { tag: None, there: Vec::new() },
        SessionError::NoSession { tag: Some(tag("lrr")), there: vec![tag("lr")] },
        SessionError::NoSession { tag: Some(tag("zzzzzz")), there: vec![tag("lr"), tag("wd")] },
        SessionError::NoExperiment { tag: "t".into(), name: "27".into(), last: Some(50.into()) },
        SessionError::NoExperiment { tag: "t".into(), name: "51".into(), last: Some(50.into()) },
        SessionError::NoExperiment { tag: "t".into(), name: "0".into(), last: None },
        SessionError::NotInWorktree { path: path(), root: PathBuf::from("/a b") },
        SessionError::LinkedAlready(path()),
        SessionError::ImportedSession("t".into()),
        SessionError::BadRecord { reference: "refs/x".into(), source: json_error() },
        SessionError::LostRecord { tag: "t".into(), id: 3.into() },
        SessionError::Try(TryError::NothingToTry),
        SessionError::Try(TryError::RepeatedDirection { direction: "lr".into(), tried: vec!["wd".into()] }),
        SessionError::Try(TryError::NothingToRework),
        SessionError::Try(TryError::ReworkedOften { id: 3.into(), limit: 2 }),
        SessionError::Try(TryError::DirtyBeforeRework(vec![path()])),
        SessionError::Try(TryError::SameVersion(3.into())),
        SessionError::Try(TryError::RefusedStays { tag: t(), id: 3.into(), left: vec![path()] }),
        SessionError::Try(TryError::StillOpen(3.into())),
        SessionError::Try(TryError::OtherOpen { tag: "t".into(), id: 3.into() }),
        SessionError::Try(TryError::TooLarge { path: path(), size: 1 << 30 }),
        SessionError::Try(TryError::NothingOpen),
        SessionError::Stopped(Box::new(SessionError::Contradiction("one"))),
        SessionError::Stopped(Box::new(SessionError::Try(TryError::NothingToTry))),
        SessionError::Stopped(Box::new(
            refuse(CannotStart, "session t has changes that wait for more runs")
                .hint("run `ar resume t` to make these, or `ar finalize t --drop-winners` to record the changes as discards")
                .into(),
        )),
        SessionError::Stopped(Box::new(SessionError::ArtifactOutside { id: 3.into(), path: path() })),
        SessionError::Stopped(Box::new(SessionError::Try(TryError::RefusedStays {
            tag: t(),
            id: 3.into(),
            left: vec![path()],
        }))),
        SessionError::BestLost { id: 3.into(), why: "no".into(), crashes: 3, log: path() },
        SessionError::Contradiction("one"),
        SessionError::NotStopped { tag: "t".into(), holder: "process 1".into() },
        SessionError::NotAsked {
            process: 7,
            when: StopWhen::Now,
            source: StateError::Held { holder: "process 1".into() },
        },
        SessionError::NoContract(path()),
        SessionError::NoWall(
            refuse(CannotStart, "`bwrap` is not installed").hint("install bubblewrap: `sudo apt install bubblewrap`"),
        ),
        no_room(None),
        SessionError::Stopped(Box::new(no_room(Some(LargeLog { path: "a b/run.log".into(), bytes: 12_300_000_000 })))),
        SessionError::Io { action: "write", path: path(), source: full_disk() },
        SessionError::Io { action: "write", path: path(), source: io::Error::from(io::ErrorKind::NotFound) },
    ]);
    errors
}

fn no_room(log: Option<LargeLog>) -> SessionError {
    let space = Space { free: 1, total: 2, free_files: 3, total_files: 4 };
    SessionError::NoRoom { what: "the disk is full".into(), space, path: "a b/c".into(), log }
}

/// Failed baselines of each kind.
fn baselines() -> Vec<SessionError> {
    let file = || MetricSource::File { path: "m.json".into(), pointer: String::new() };
    let failed = |class, metric: &str, reason: &str, read_from: MetricSource, printed: &[&str]| {
        SessionError::Baseline(Box::new(FailedBaseline {
            class,
            metric: metric.into(),
            reason: reason.into(),
            read_from,
            printed: printed.iter().map(|&name| name.to_owned()).collect(),
            changed: Vec::new(),
            missing: vec!["a".into(), "los".into()],
            log: "a b/run.log".into(),
            excerpt: "ModuleNotFoundError: No module named 'torch'".into(),
        }))
    };
    vec![
        failed(Some(FailureClass::Timeout), "loss", "too slow", MetricSource::Log, &[]),
        failed(Some(FailureClass::GuardFailed), "loss", "guard", MetricSource::Log, &[]),
        failed(Some(FailureClass::ImportError), "loss", "import", MetricSource::Log, &["loss"]),
        failed(None, "composite", "no object", file(), &["loss"]),
        failed(None, "loss", "no number", file(), &[]),
        failed(None, "composite", "log: no number for a, los", MetricSource::Log, &["loss"]),
        failed(None, "los", "no number", MetricSource::Log, &["loss", "time"]),
        failed(None, "zzzzzz", "no number", MetricSource::Log, &["loss", "time"]),
    ]
}

/// Errors about a branch, and about two experiments that are compared.
fn branches() -> Vec<SessionError> {
    vec![
        SessionError::BranchTaken("best".into()),
        SessionError::Verify(VerifyError::Same(3.into())),
        SessionError::Verify(VerifyError::Failed {
            what: "experiment 3".into(),
            seed: 7,
            why: "out of memory".into(),
            is_hidden: false,
        }),
        SessionError::Verify(VerifyError::OtherMetric {
            a: "t measures loss (lower)".into(),
            b: "u measures loss (higher)".into(),
        }),
        SessionError::Verify(VerifyError::BranchThere("t-dropped".into())),
        SessionError::Verify(VerifyError::Recorded("t".parse().unwrap())),
        SessionError::Verify(VerifyError::NoNoise),
    ]
}

#[test]
fn each_error_says_what_it_is_and_what_to_do() {
    let line = |error: &SessionError| {
        format!("{error}\n  {:?}: {}\n", error.kind(), error.hint().unwrap_or_else(|| "(no hint)".into()))
    };
    insta::assert_snapshot!(errors().iter().map(line).collect::<String>());
}

#[test]
fn a_number_without_a_record_is_told_from_one_that_is_too_high() {
    let error = |name: &str| SessionError::NoExperiment { tag: "t".into(), name: name.into(), last: Some(50.into()) };
    let hint = |name: &str| error(name).hint().unwrap_or_default();
    assert_eq!(["27", "51", "abc"].map(|name| hint(name).starts_with("it has 0 to 50;")), [false, true, true]);
}
