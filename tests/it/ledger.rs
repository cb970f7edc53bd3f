//! Ledgers: written and read back, continued in their own dialect.

use std::fs;
use std::path::{Path, PathBuf};

use autoresearch::domain::{CommitId, LedgerDialect, Number, Outcome};
use autoresearch::ledger::{Entry, Ledger, LedgerError, LedgerFile, RowStatus, read};
use autoresearch::report::Report;
use proptest::prelude::*;
use tempfile::TempDir;

fn commit(digit: char) -> CommitId {
    CommitId::new(digit.to_string().repeat(40))
}

fn number(text: &str) -> Number {
    text.parse().unwrap()
}

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.tsv");
    (folder, path)
}

/// Appends the three kinds of row that a session writes.
fn append_three(path: &Path, dialect: LedgerDialect) {
    let mut file = LedgerFile::open(path, "val_bpb", dialect).unwrap();
    let value = number("1.834200");
    let kept = Entry {
        commit: &commit('a'),
        value: Some(value),
        memory_gb: Some(14.26),
        outcome: Outcome::Keep,
        oom: false,
        description: "say \"hi\"\tto\nit",
    };
    file.append(&kept).unwrap();
    file.append(&Entry { commit: &commit('b'), outcome: Outcome::Discard, description: "worse", ..kept.clone() })
        .unwrap();
    let crash = Entry { commit: &commit('c'), value: None, memory_gb: None, outcome: Outcome::Crash, ..kept.clone() };
    file.append(&Entry { description: "no memory", oom: true, ..crash.clone() }).unwrap();
    file.append(&Entry { commit: &commit('d'), description: "typo", ..crash.clone() }).unwrap();
}

#[test]
fn both_dialects_are_written_to_the_letter() {
    let (_folder, path) = folder();
    append_three(&path, LedgerDialect::Ar);
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "commit_hash\tval_bpb\tmemory_gb\tstatus\tdescription\n\
         aaaaaaaa\t1.834200\t14.3\timproved\tsay \"hi\" to it\n\
         bbbbbbbb\t1.834200\t14.3\trejected\tworse\n\
         cccccccc\tnan\toom\tfailed\tno memory\n\
         dddddddd\tnan\tnan\tfailed\ttypo\n"
    );
    let (_folder, path) = folder_with("");
    append_three(&path, LedgerDialect::Karpathy);
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "commit\tval_bpb\tmemory_gb\tstatus\tdescription\n\
         aaaaaaa\t1.834200\t14.3\tkeep\tsay \"hi\" to it\n\
         bbbbbbb\t1.834200\t14.3\tdiscard\tworse\n\
         ccccccc\t0.000000\t0.0\tcrash\tno memory\n\
         ddddddd\t0.000000\t0.0\tcrash\ttypo\n"
    );
}

fn folder_with(text: &str) -> (TempDir, PathBuf) {
    let (folder, path) = folder();
    fs::write(&path, text).unwrap();
    (folder, path)
}

#[test]
fn opening_makes_no_file() {
    let (_folder, path) = folder();
    let file = LedgerFile::open(&path, "val_bpb", LedgerDialect::Ar).unwrap();
    assert_eq!((file.length().unwrap(), file.has_row(&commit('a'), 0).unwrap(), path.exists()), (0, false, false));
}

#[test]
fn an_existing_file_is_continued_in_its_own_way() {
    let karpathy = "commit\tval_bpb\tmemory_gb\tstatus\tdescription\n1234567\t1.5\t2.0\tkeep\ta \"quote";
    for (before, added) in [
        (karpathy.to_owned(), "\naaaaaaa\t1.834200\t14.3\tkeep\t"),
        (karpathy.replace("keep", "KEEP") + "\n", "aaaaaaa\t1.834200\t14.3\tKEEP\t"),
        (karpathy.replace('\n', "\r\n") + "\r\n", "aaaaaaa\t1.834200\t14.3\tkeep\t"),
        (
            fs::read_to_string(fixture("foreign.tsv")).unwrap(),
            "\t\taaaaaaaaaa\timproved\tsay \"hi\" to it\t1.834200\t14602.2\t\n",
        ),
        ("commit\tval_bpb\tmemory_gb\tstatus\tdescription\n".to_owned(), "aaaaaaa\t1.834200\t14.3\tkeep\t"),
        ("commit_hash\tval_bpb\tmemory_gb\tstatus\tdescription\n".to_owned(), "aaaaaaaa\t1.834200\t14.3\timproved\t"),
        ("sha\tval_bpb\taccepted\n".to_owned(), "aaaaaaa\t1.834200\t1\nbbbbbbb\t1.834200\t0\n"),
        ("# only a remark\n".to_owned(), "commit_hash\tval_bpb\tmemory_gb\tstatus\tdescription\naaaaaaaa\t"),
    ] {
        let (_folder, path) = folder_with(&before);
        append_three(&path, LedgerDialect::Ar);
        let after = fs::read_to_string(&path).unwrap();
        let new = after.strip_prefix(&before).expect("what was there is as it was");
        assert!(new.starts_with(added), "{before:?} was continued with {new:?}");
        assert_eq!(new.contains("\r\n"), before.contains("\r\n"));
    }
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/ledgers").join(name)
}

#[test]
fn a_file_that_is_no_ledger_of_the_metric_is_refused_and_left_alone() {
    for (text, problem) in [
        ("commit\tval_loss\tmemory_gb\tstatus\tdescription\n", "is a ledger of `val_loss`, not of `val_bpb`"),
        ("commit_hash\tval_loss\tmemory_gb\tstatus\tdescription\n", "is a ledger of `val_loss`, not of `val_bpb`"),
        ("exp\tval_bpb\tstatus\n", "it has no commit column"),
        ("commit\tval_bpb\n", "it has no status column"),
        ("abcdef1\t1.5\t2.0\tkeep\tx\n", "it has no header"),
        ("{\"metric\":1}\n", "it holds JSON lines"),
    ] {
        let (_folder, path) = folder_with(text);
        let error = LedgerFile::open(&path, "val_bpb", LedgerDialect::Ar).unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("results.tsv")), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    let (_folder, path) = folder_with("\u{1}");
    fs::write(&path, [0xff, 0xfe, 0x00]).unwrap();
    assert!(matches!(LedgerFile::open(&path, "m", LedgerDialect::Ar), Err(LedgerError::Encoding(_))));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(LedgerFile::open(&path, "m", LedgerDialect::Ar), Err(LedgerError::NotAFile(_))));
    fs::remove_dir(&path).unwrap();
    fs::write(&path, "").unwrap();
    let mut mode = fs::metadata(&path).unwrap().permissions();
    mode.set_readonly(true);
    fs::set_permissions(&path, mode).unwrap();
    assert!(matches!(LedgerFile::open(&path, "m", LedgerDialect::Ar), Err(LedgerError::ReadOnly(_))));
}

#[test]
fn a_row_is_known_again_and_a_torn_one_is_not() {
    let (_folder, path) = folder();
    append_three(&path, LedgerDialect::Ar);
    let mut file = LedgerFile::open(&path, "val_bpb", LedgerDialect::Ar).unwrap();
    let before = file.length().unwrap();
    assert!(file.has_row(&commit('d'), 0).unwrap());
    assert!(!file.has_row(&commit('d'), before).unwrap(), "an older row of the same commit is another one");
    assert!(!file.has_row(&commit('e'), 0).unwrap());
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{whole}eeeeeeee\t1.5\t2.0\timproved\ttor")).unwrap();
    assert!(!file.has_row(&commit('e'), before).unwrap());
    let value = number("1.5");
    let entry = Entry {
        commit: &commit('e'),
        value: Some(value),
        memory_gb: None,
        outcome: Outcome::Keep,
        oom: false,
        description: "again",
    };
    file.append(&entry).unwrap();
    assert!(file.has_row(&commit('e'), before).unwrap());
    assert!(fs::read_to_string(&path).unwrap().ends_with("\ttor\neeeeeeee\t1.5\tnan\timproved\tagain\n"));
}

#[test]
fn sessions_that_append_together_tear_no_row_and_write_one_header() {
    let (_folder, path) = folder();
    std::thread::scope(|scope| {
        for digit in ['a', 'b', 'c', 'd'] {
            let path = &path;
            scope.spawn(move || {
                let mut file = LedgerFile::open(path, "val_bpb", LedgerDialect::Ar).unwrap();
                for _ in 0..20 {
                    let entry = Entry {
                        commit: &commit(digit),
                        value: Some(number("1.25")),
                        memory_gb: None,
                        outcome: Outcome::Discard,
                        oom: false,
                        description: "together",
                    };
                    file.append(&entry).unwrap();
                }
            });
        }
    });
    let ledger = read(&fs::read(&path).unwrap(), None, None);
    let counts = Report::of_ledger(&ledger).counts();
    assert_eq!((counts.total, counts.discard), (80, 80));
}

/// What a reader with CSV quoting makes of a file: pandas' default.
fn quoted_cells(path: &Path) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new().delimiter(b'\t').from_path(path).unwrap();
    reader.records().map(|record| record.unwrap().iter().map(str::to_owned).collect()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read_back(
        rows in proptest::collection::vec(("\\PC{0,20}[\t\n\"']{0,2}\\PC{0,5}", proptest::option::of(-1e6f64..1e6), 0..3usize), 1..6),
        karpathy in any::<bool>(),
        foreign in "[^\\x00]{0,40}",
    ) {
        let dialect = if karpathy { LedgerDialect::Karpathy } else { LedgerDialect::Ar };
        let (_folder, path) = folder();
        let before = format!("commit\tval_bpb\tmemory_gb\tstatus\tdescription\n{foreign}\n");
        let continues = !foreign.is_empty();
        if continues {
            fs::write(&path, &before).unwrap();
        }
        let known = if continues { read(before.as_bytes(), None, None).rows.len() } else { 0 };
        let mut file = LedgerFile::open(&path, "val_bpb", dialect).unwrap();
        for (description, value, outcome) in &rows {
            let value = value.map(|value| number(&value.to_string()));
            let outcome = [Outcome::Keep, Outcome::Discard, Outcome::Crash][*outcome];
            let entry = Entry { commit: &commit('a'), value, memory_gb: None, outcome, oom: false, description };
            file.append(&entry).unwrap();
        }
        let bytes = fs::read(&path).unwrap();
        if continues {
            prop_assert!(bytes.starts_with(before.as_bytes()));
        } else {
            let cells = quoted_cells(&path);
            prop_assert_eq!(cells.len(), rows.len());
            prop_assert!(cells.iter().all(|cells| cells[1].parse::<f64>().is_ok()));
        }
        let ledger: Ledger = read(&bytes, None, None);
        prop_assert_eq!(ledger.rows.len(), known + rows.len());
        for (row, (_, value, outcome)) in ledger.rows[known..].iter().zip(&rows) {
            let status = [RowStatus::Keep, RowStatus::Discard, RowStatus::Crash][*outcome];
            prop_assert_eq!(row.status, status);
            if let Some(value) = value.filter(|value| *value != 0.0) {
                prop_assert_eq!(row.value.as_ref().map(|number| number.value), Some(value));
            }
        }
    }
}
