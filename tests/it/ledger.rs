//! Ledgers: written and read back, continued in their own dialect.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use autoresearch::domain::{CommitId, FailureClass, LedgerDialect, Number, Outcome, Record};
use autoresearch::ledger::{Entry, Ledger, LedgerError, LedgerFile, ReadOptions, Rebuilt, RowStatus, read};
use autoresearch::report::Report;
use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use crate::support::until;

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
        failure: None,
        description: "say \"hi\"\tto\nit",
        is_partial: false,
        is_refused: false,
        is_baseline: false,
    };
    file.append(&kept).unwrap();
    file.append(&Entry { commit: &commit('b'), outcome: Outcome::Discard, description: "worse", ..kept.clone() })
        .unwrap();
    let crash = Entry { commit: &commit('c'), value: None, memory_gb: None, outcome: Outcome::Crash, ..kept.clone() };
    file.append(&Entry { description: "no memory", failure: Some(FailureClass::Oom), ..crash.clone() }).unwrap();
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
        ("commit\tval_loss\tmemory_gb\tstatus\tdescription\n", "is a ledger for `val_loss`, not for `val_bpb`"),
        ("commit_hash\tval_loss\tmemory_gb\tstatus\tdescription\n", "is a ledger for `val_loss`, not for `val_bpb`"),
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
        failure: None,
        description: "again",
        is_partial: false,
        is_refused: false,
        is_baseline: false,
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
                        failure: None,
                        description: "together",
                        is_partial: false,
                        is_refused: false,
                        is_baseline: false,
                    };
                    file.append(&entry).unwrap();
                }
            });
        }
    });
    let ledger = read(fs::read(&path).unwrap(), &ReadOptions::default());
    let counts = Report::of_ledger(ledger.clone()).counts();
    assert_eq!((counts.total, counts.discard), (80, 80));
}

/// The record of an experiment whose commit is `digit` forty times.
fn record(id: u32, digit: char, value: f64) -> Record {
    serde_json::from_value(json!({
        "version": 1, "id": id, "tag": "t", "commit": commit(digit), "base": commit(digit), "description": "an idea",
        "direction": null, "outcome": "discard", "failure": null, "reason": "",
        "metric": {"name": "val_bpb", "direction": "lower", "value": value, "raw": null}, "metrics": {},
        "memory_gb": null, "runs": [], "diff": {"files": 0, "added": 0, "deleted": 0},
        "environment": {"host": "h", "gpu": null, "driver": null, "lockfile": null},
        "started": "2026-11-20T22:00:00Z", "finished": "2026-11-20T22:00:00Z", "agent": null,
    }))
    .unwrap()
}

/// Rebuilds a ledger from records.
fn rebuild(path: &Path, records: &[&Record]) -> Result<Option<Rebuilt>, LedgerError> {
    LedgerFile::rebuild(path, "val_bpb", LedgerDialect::Ar, records, path.parent().unwrap())
}

const HEADER: &str = "commit_hash\tval_bpb\tmemory_gb\tstatus\tdescription\n";

#[test]
fn a_rebuilt_file_has_a_copy_of_what_it_was_beside_it() {
    let (folder, path) = folder();
    let records = [record(0, 'a', 1.5), record(1, 'b', 1.25)];
    let records: Vec<&Record> = records.iter().collect();
    let (a, b) = ("aaaaaaaa\t1.5\tnan\trejected\tan idea\n", "bbbbbbbb\t1.25\tnan\trejected\tan idea\n");
    assert_eq!(rebuild(&path, &[]).unwrap(), None);
    assert!(!path.exists(), "without a record there is nothing to write");
    let made = rebuild(&path, &records).unwrap().unwrap();
    assert_eq!((made.copy, fs::read_to_string(&path).unwrap()), (None, format!("{HEADER}{a}{b}")));
    assert_eq!(rebuild(&path, &records).unwrap(), None, "nothing is left to do");

    let torn = format!("{HEADER}{a}deadbeef\t1\t2\tkeep\tmine\n{}", &b[..12]);
    for (before, copy) in [(torn.as_str(), "before-repair"), (&HEADER[..20], "before-repair-2")] {
        fs::write(&path, before).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let copy = folder.path().join(format!("results.tsv.{copy}"));
        assert_eq!(rebuild(&path, &records).unwrap().unwrap().copy.as_ref(), Some(&copy), "{before:?}");
        assert_eq!(fs::read_to_string(&copy).unwrap(), before);
        let mine = if before == torn { "deadbeef\t1\t2\tkeep\tmine\n" } else { "" };
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{HEADER}{a}{mine}{b}"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    }
    fs::write(&path, "").unwrap();
    assert_eq!(rebuild(&path, &records).unwrap().unwrap().copy, None, "of nothing there is no copy");
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{HEADER}{a}{b}"));
}

#[test]
fn a_row_that_was_cut_inside_a_character_is_mended_and_a_link_stays_one() {
    let (folder, path) = folder();
    let real = folder.path().join("elsewhere.tsv");
    std::os::unix::fs::symlink("elsewhere.tsv", &path).unwrap();
    let record = Record { description: "µ-param".into(), ..record(0, 'a', 1.5) };
    rebuild(&path, &[&record]).unwrap().unwrap();
    let whole = fs::read(&real).unwrap();
    let cut = whole.iter().rposition(|byte| *byte == 0xc2).unwrap() + 1;
    fs::write(&real, &whole[..cut]).unwrap();
    assert_eq!(rebuild(&path, &[&record]).unwrap().unwrap().found.torn, [2]);
    assert_eq!(fs::read(&real).unwrap(), whole);
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
}

#[test]
fn what_cannot_be_rebuilt_is_left_as_it_is() {
    for text in ["commit\tval_loss\tmemory_gb\tstatus\tdescription\n", "{\"metric\":1}\n", "abc\n"] {
        let (folder, path) = folder_with(text);
        rebuild(&path, &[&record(0, 'a', 1.5)]).unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_row_that_waits_while_the_file_is_rebuilt_stands_in_the_new_one() {
    let (_folder, path) = folder_with(HEADER);
    let old = fs::File::open(&path).unwrap();
    old.lock().unwrap();
    std::thread::scope(|scope| {
        let append = scope.spawn(|| {
            let mut file = LedgerFile::open(&path, "val_bpb", LedgerDialect::Ar).unwrap();
            file.append(&Entry {
                commit: &commit('b'),
                value: Some(number("1.25")),
                memory_gb: None,
                outcome: Outcome::Discard,
                failure: None,
                description: "an idea",
                is_partial: false,
                is_refused: false,
                is_baseline: false,
            })
        });
        let inode = old.metadata().unwrap().ino();
        until("somebody who waits for the old file", || {
            let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
            let same = |entry: &fs::DirEntry| fs::metadata(entry.path()).is_ok_and(|meta| meta.ino() == inode);
            (open.filter(same).count() > 1).then_some(())
        });
        let fresh = path.with_extension("new");
        fs::write(&fresh, format!("{HEADER}aaaaaaaa\t1.5\tnan\trejected\tan idea\n")).unwrap();
        fs::rename(&fresh, &path).unwrap();
        old.unlock().unwrap();
        append.join().unwrap().unwrap();
    });
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        format!("{HEADER}aaaaaaaa\t1.5\tnan\trejected\tan idea\nbbbbbbbb\t1.25\tnan\trejected\tan idea\n")
    );
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
        let known = if continues { read(before.as_bytes(), &ReadOptions::default()).rows.len() } else { 0 };
        let mut file = LedgerFile::open(&path, "val_bpb", dialect).unwrap();
        for (description, value, outcome) in &rows {
            let value = value.map(|value| number(&value.to_string()));
            let outcome = [Outcome::Keep, Outcome::Discard, Outcome::Crash][*outcome];
            let entry = Entry { commit: &commit('a'), value, memory_gb: None, outcome, failure: None, description, is_partial: false, is_refused: false, is_baseline: false };
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
        let ledger: Ledger = read(bytes, &ReadOptions::default());
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
