//! The parts that an experiment, a report and a look at a session are made of, each for itself: `cargo bench --bench micro`.

use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::path::Path;

use autoresearch::domain::{CommitId, Direction, MetricSource, MetricSpec};
use autoresearch::git::{Repo, SaveAs, Untracked};
use autoresearch::ledger::{ReadOptions, read};
use autoresearch::measure::Scanner;
use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use tempfile::TempDir;

fn main() {
    divan::main();
}

/// A repository with so many files, a hundred to a folder, and its one commit.
fn repository(files: usize) -> (TempDir, Repo, CommitId) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for number in 0..files {
        let dir = folder.path().join(format!("src{:03}", number / 100));
        fs::create_dir_all(&dir).expect("a folder");
        fs::write(dir.join(format!("module{number}.py")), format!("x = {number}\n")).expect("a file");
    }
    let repo = Repo::init(folder.path()).expect("a repository");
    let base = repo.commit_first("start").expect("a first commit");
    (folder, repo, base)
}

fn edit(folder: &Path, number: usize) {
    fs::write(folder.join("src000/module0.py"), format!("x = {number}\n")).expect("a file");
}

#[divan::bench(args = [10, 1000, 10_000])]
fn snapshot(bencher: Bencher<'_, '_>, files: usize) {
    let (folder, repo, base) = repository(files);
    let mut number = files;
    bencher
        .with_inputs(|| {
            number += 1;
            edit(folder.path(), number);
        })
        .bench_local_values(|()| {
            let change = repo.working_tree.propose(&base, &Untracked::default()).expect("a proposal");
            repo.working_tree.commit(&change, &base, "an experiment").expect("a commit")
        });
}

#[divan::bench(args = [10, 1000, 10_000])]
fn restore(bencher: Bencher<'_, '_>, files: usize) {
    let (folder, repo, base) = repository(files);
    let mut number = files;
    let save = |expected| SaveAs { folder: "refs/autoresearch/bench/saved".into(), expected, subject: "saved".into() };
    bencher
        .with_inputs(|| {
            number += 1;
            edit(folder.path(), number);
            let change = repo.working_tree.propose(&base, &Untracked::default()).expect("a proposal");
            let commit = repo.working_tree.commit(&change, &base, "an experiment").expect("a commit");
            repo.working_tree.adopt_index(change).expect("an index");
            commit
        })
        .bench_local_values(|commit| {
            repo.working_tree.restore(&base, &save(commit), &Untracked::default()).expect("a restore")
        });
}

#[divan::bench]
fn log_reading(bencher: Bencher<'_, '_>) {
    let mut log = String::new();
    for step in 0..200_000 {
        let _ = write!(log, "step {step:06} | loss: 3.1415 | dt: 312.40ms | tok/sec: 1678123\r");
    }
    log.push_str("\nval_bpb: 0.997900\n");
    let spec = MetricSpec { name: "val_bpb".into(), direction: Direction::Lower, source: MetricSource::default() };
    bencher.counter(BytesCount::of_str(&log)).bench(|| {
        let mut scanner = Scanner::new(&spec).expect("a scanner");
        log.as_bytes().chunks(256 * 1024).for_each(|chunk| scanner.push(chunk));
        scanner.finish()
    });
}

#[divan::bench(args = [1000, 100_000])]
fn ledger_reading(bencher: Bencher<'_, '_>, rows: usize) {
    let mut text = String::from("commit_hash\tval_bpb\tmemory_gb\tstatus\tdescription\n");
    for row in 0..rows {
        let _ =
            writeln!(text, "{row:08x}\t{:.6}\t44.0\trejected\traise the learning rate a bit", 1.0 + row as f64 * 1e-6);
    }
    let said = ReadOptions { metric: None, direction: None, segment: None };
    bencher.counter(ItemsCount::new(rows)).bench(|| read(black_box(text.as_bytes()), &said));
}

#[divan::bench(args = [100, 10_000])]
fn record_listing(bencher: Bencher<'_, '_>, records: usize) {
    let (_folder, repo, base) = repository(1);
    let prefix = "refs/autoresearch/bench";
    let all: Vec<_> = (0..records)
        .map(|id| {
            (format!("{prefix}/{id:05}"), base.clone(), format!("an experiment\n\n{{\"version\":1,\"id\":{id}}}\n"))
        })
        .collect();
    repo.refs.write_records(&all).expect("records");
    bencher.counter(ItemsCount::new(records)).bench_local(|| {
        let refs = repo.refs.refs_under(prefix).expect("refs");
        repo.objects.read_tags(&refs, |tag| tag.message.len()).expect("records")
    });
}
