//! Ledgers that other tools and agents wrote, in place of a session.

use std::process::Command;

use crate::support::{Called, TestRepo, ar};

const LEDGER: &str = "sha\tscore\tVRAM\tkept\tnotes\n\
                      aaaaaaa\t0.50\t14.3 GB\tyes\tbase\r\n\
                      # a remark\n\n\
                      torn\n\
                      bbbbbbb\t3.1K\t\tno\tthousands\n\
                      ccccccc\t0.75\t1024 MB\tTRUE\tbetter";

fn called(repo: &TestRepo, args: &str) -> Called {
    ar(repo, args.split(' '))
}

#[test]
fn a_foreign_ledger_is_read_and_what_cannot_be_read_of_it_is_said() {
    let repo = TestRepo::new();
    repo.write("theirs.tsv", LEDGER);
    let report = called(&repo, "report --ledger theirs.tsv --format json").ok();
    assert_eq!(report.stderr, "");
    let json = report.json();
    assert_eq!((json["direction"].as_str(), json["best"]["commit"].as_str()), (Some("higher"), Some("ccccccc")));
    assert_eq!((&json["counts"]["total"], &json["counts"]["malformed"]), (&4.into(), &1.into()));
    let unread =
        serde_json::json!([{"line": 5, "why": "1 field, not 5"}, {"line": 6, "why": "`3.1K` is not a number"}]);
    assert_eq!(json["unread"], unread);
    let shown = called(&repo, "report --ledger theirs.tsv -v").ok();
    let expected = "theirs.tsv:5: 1 field, not 5\ntheirs.tsv:6: `3.1K` is not a number\n";
    assert_eq!(shown.stderr, expected);
    assert!(shown.stdout.contains("as the name `score` says; `--lower` says otherwise"), "{shown:?}");
    let lower = called(&repo, "report --ledger theirs.tsv --lower --format json").ok().json();
    assert_eq!(lower["best"]["commit"], "aaaaaaa");

    let log = called(&repo, "log --ledger theirs.tsv --format csv").ok().stdout;
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines[2], "5,,malformed,,,,\"1 field, not 5\",torn");
    assert_eq!(lines[4], "7,ccccccc,keep,0.75,+0.25,1.0,,better");
    let selected = |args: &str| {
        let csv = called(&repo, &format!("log --ledger theirs.tsv --format csv {args}")).ok().stdout;
        csv.lines().skip(1).map(|line| line.split(',').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(selected("--sort best --top 2"), ["7", "2"]);
    assert_eq!(selected("--sort time --top 1"), ["7"]);
    assert_eq!(selected("--outcome discard"), ["6"]);
    assert_eq!(selected("--grep ^base$"), ["2"]);
    let json = called(&repo, "log --ledger theirs.tsv --top 1 --format json").ok().json();
    assert_eq!(json["rows"].as_array().unwrap().len(), 1);
    for count in ["-1", "0", "many"] {
        let refused = called(&repo, &format!("log --top {count}")).exits(2).stderr;
        assert!(refused.contains("must be a whole number from 1") && !refused.contains("-- -1"), "{refused}");
    }
    let both = called(&repo, "log t1 --ledger theirs.tsv").exits(2).stderr;
    assert!(both.contains("ar log [OPTIONS] --ledger <FILE>") && !both.contains("<FILE> [TAG]"), "{both}");
    let rows = called(&repo, "log --ledger theirs.tsv --format json").ok().json();
    assert_eq!((&rows["version"], &rows["rows"][0]["raw"]), (&1.into(), &"0.50".into()));

    let doctor = called(&repo, "doctor --ledger theirs.tsv").ok().stdout;
    for said in
        ["tab-separated with 4 rows", "verdict in `kept`", "line 5: 1 field, not 5", "line 6: `3.1K` is not a number"]
    {
        assert!(doctor.contains(said), "{said}: {doctor}");
    }
    repo.write("their results.tsv", LEDGER);
    let named = ar(&repo, ["report", "--ledger", "their results.tsv"]).ok().stdout;
    let warning = "\n  1 row cannot be read and is left out; 1 number cannot be read and counts as none\n    run `ar \
        report --ledger 'their results.tsv' -v` to see the lines and their problems";
    assert!(named.contains(warning), "{named}");
    called(&repo, "report t1 --ledger theirs.tsv").exits(2);
    called(&repo, "log --segment 1").exits(2);
}

#[test]
fn a_segment_of_json_lines_is_asked_for_by_its_number() {
    let repo = TestRepo::new();
    let config = |name: &str| format!("{{\"type\":\"config\",\"name\":\"{name}\",\"metricName\":\"s\"}}\n");
    let row = "{\"commit\":\"a\",\"metric\":1.50,\"status\":\"keep\"}\n";
    repo.write("log.jsonl", config("one") + row + row + &config("two") + row);
    let newest = called(&repo, "report --ledger log.jsonl").ok().stdout;
    assert!(newest.contains("this is segment 1,") && newest.contains("`--segment N`"), "{newest}");
    assert!(newest.contains("1 row: 1 keep, 0 discard, 0 crash, 2 in other segments"), "{newest}");
    let first = called(&repo, "report --ledger log.jsonl --segment 0 --format json").ok().json();
    assert_eq!((&first["counts"]["total"], &first["counts"]["elsewhere"]), (&2.into(), &1.into()));
    let none = called(&repo, "report --ledger log.jsonl --segment 3").exits(2);
    assert!(none.stderr.contains("no segment 3: 0 is one, 2 rows; 1 is two, 1 row\nhint: "), "{none:?}");
    let many: String = (0..30).map(|number| config(&format!("s{number}")) + row).collect();
    repo.write("log.jsonl", many);
    let none = called(&repo, "report --ledger log.jsonl --segment 30").exits(2).stderr;
    assert!(none.contains("9 is s9, 1 row; and 20 more\n") && !none.contains("s10"), "{none}");
}

#[test]
fn an_imported_row_that_ran_out_of_memory_has_that_class() {
    let repo = TestRepo::new();
    repo.write(
        "theirs.txt",
        "commit    val_bpb   memory_gb  status   description\n\
         a1a1a1a   1.8342    14.3       keep     baseline\n\
         b2b2b2b   nan       oom        failed   block_size=4096\n",
    );
    called(&repo, "import theirs.txt --tag old").ok();
    let record = called(&repo, "show old/1 --format json").ok().json();
    assert_eq!((&record["outcome"], &record["failure"]["class"]), (&"crash".into(), &"oom".into()), "{record}");
}

#[test]
fn what_is_no_ledger_is_an_error_that_says_what_to_do() {
    let repo = TestRepo::new();
    repo.write("folder/results.tsv", LEDGER);
    repo.write("noise", "\0\0\0\0");
    repo.write("packed.tsv.gz", [0x1f, 0x8b, 8, 0]);
    repo.write("empty.tsv", "");
    assert!(Command::new("mkfifo").arg(repo.file("pipe")).status().unwrap().success());
    for (file, error, hint) in [
        ("folder", "folder is a folder", "`--ledger folder/results.tsv`"),
        ("pipe", "pipe is not a regular file", "`cat pipe > ledger.tsv`"),
        ("noise", "noise is binary, not text", "`file noise`"),
        ("packed.tsv.gz", "is compressed", "`zcat packed.tsv.gz"),
        ("nope.tsv", "cannot read nope.tsv", ".auto/log.jsonl"),
    ] {
        for command in ["report", "log", "doctor"] {
            let called = called(&repo, &format!("{command} --ledger {file}")).exits(1);
            assert!(called.stderr.starts_with("error: ") && called.stderr.contains(error), "{called:?}");
            assert!(called.stderr.contains("\nhint: ") && called.stderr.contains(hint), "{called:?}");
        }
    }
    let empty = called(&repo, "report --ledger empty.tsv").ok().stdout;
    assert!(empty.contains("\nassumed\n  it has neither a header nor a row"), "{empty}");
}
