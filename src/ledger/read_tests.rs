use proptest::prelude::*;

use super::*;
use crate::report::{Counts, Report};

fn ledger(text: &str) -> Ledger {
    read(text.as_bytes(), None, None)
}

#[test]
fn a_plain_header_says_metric_and_direction() {
    let text = "\u{feff}commit\tval_bpb\tmemory_gb\tstatus\tdescription\r\n\
                # a comment\r\n\r\n\
                aaaaaaa\t1.50\t2.0\tkeep\tsay \"baseline\r\n\
                bbbbbbb\t0.000000\t0.0\tcrash\tOOM\r\n\
                ccccccc\t1.25\t2.5\tDISCARD\tbetter, yet refused\r\n\
                torn\r\n\
                ddddddd\t68.6%\t\tkeep\tin percent";
    let ledger = ledger(text);
    assert_eq!((ledger.metric.as_deref(), ledger.direction), (Some("val_bpb"), Direction::Lower));
    assert!(ledger.assumed.is_empty(), "{:?}", ledger.assumed);
    let summary = Report::of_ledger(&ledger);
    let expected = Counts { total: 5, keep: 2, discard: 1, crash: 1, other: 0, malformed: 1 };
    assert_eq!(summary.counts(), expected);
    let best = summary.best().unwrap();
    assert_eq!((best.commit.as_deref(), best.value.as_ref().unwrap().raw.as_str()), (Some("aaaaaaa"), "1.50"));
    assert_eq!((ledger.rows[0].memory_gb, best.description.as_str()), (Some(2.0), "say \"baseline"));
    assert_eq!(ledger.rows[1].value, None, "the zero of a crash is no value");
    assert_eq!(ledger.rows[4].value.as_ref().unwrap().value, 68.6);
    assert_eq!(ledger.rows[4].memory_gb, None);
    let torn = &ledger.rows[3];
    assert_eq!((torn.line, torn.problem.as_deref()), (7, Some("1 fields, not 5")));
}

#[test]
fn our_own_rows_are_read_back() {
    let text = "commit_hash\tval_bpb\tmemory_gb\tstatus\tdescription\n\
                a3f8b2c1\t1.8342\t14.3\timproved\tbaseline GPT-125M\n\
                c72f1b30\t1.8589\t15.1\trejected\tmlp_ratio=8\n\
                f10a2c88\tnan\toom\tfailed\tblock_size=4096 OOM\n";
    let ledger = ledger(text);
    let counts = Report::of_ledger(&ledger).counts();
    assert_eq!((counts.keep, counts.discard, counts.crash, counts.total), (1, 1, 1, 3));
    assert_eq!((ledger.rows[2].value.as_ref(), ledger.rows[2].memory_gb), (None, None));
}

#[test]
fn what_a_header_does_not_say_is_assumed_aloud() {
    let text = "id\ttime_s\taccuracy\tvram_mb\tstatus\tnotes\nx\t3\t0.5\t2048\tkept\ty\nx\t3\t0.7\t1024\tkept\tz\n";
    let found = ledger(text);
    assert_eq!((found.metric.as_deref(), found.rows[0].memory_gb), (Some("time_s"), Some(2.0)));
    assert_eq!(found.assumed.len(), 2, "{:?}", found.assumed);
    assert!(found.assumed.iter().any(|sentence| sentence.contains("--metric")));
    let given = read(text.as_bytes(), Some("accuracy"), Some(Direction::Higher));
    assert!(given.assumed.is_empty(), "{:?}", given.assumed);
    assert_eq!(Report::of_ledger(&given).best().unwrap().description, "z");
    let missing = read(text.as_bytes(), Some("loss"), Some(Direction::Lower));
    assert!(missing.assumed[0].contains("no column is named `loss`"));
    assert_eq!(Report::of_ledger(&missing).best(), None);
    let unclear = ledger("commit\tscore\tstatus\na\t1\tkeep\n");
    assert!(unclear.assumed[0].contains("--higher"));
}

#[test]
fn a_missing_header_costs_no_row() {
    let found = ledger("abcdef1\t1.5\t2.0\tkeep\tfirst\nabcdef2\t1.25\t2.0\tkeep\tsecond\n");
    assert_eq!((found.rows.len(), found.metric.as_deref()), (2, None));
    assert_eq!(Report::of_ledger(&found).best().unwrap().commit.as_deref(), Some("abcdef2"));
    let foreign = ledger("HEAD\tmodel\t397.0\t3.5\tkeep\t\"x\nHEAD\tmodel\t397.0\t2.5\tdiscard\ty\n");
    let summary = Report::of_ledger(&foreign);
    assert_eq!((summary.counts().keep, summary.counts().discard, summary.counts().total), (1, 1, 2));
    assert!(foreign.assumed.iter().any(|sentence| sentence.contains("no header")));
}

#[test]
fn flags_are_verdicts_and_no_verdict_makes_the_best_of_all() {
    let found = read(b"sha\tloss\taccepted\na\t1.5\t1\nb\t1.0\t0\n", Some("loss"), None);
    assert_eq!(Report::of_ledger(&found).best().unwrap().commit.as_deref(), Some("a"));
    let none = read(b"loss\tnotes\n1.5\ta\n1.25\tb\n", Some("loss"), None);
    let summary = Report::of_ledger(&none);
    assert_eq!((summary.counts().other, summary.best().unwrap().description.as_str()), (2, "b"));
}

#[test]
fn json_lines_say_metric_and_direction_in_their_config() {
    let text = "{\"type\":\"config\",\"metricName\":\"µs\",\"bestDirection\":\"higher\"}\n\
                {\"commit\":\"a\",\"metric\":3818,\"status\":\"keep\",\"description\":\"base\"}\n\
                {\"commit\":\"b\",\"metric\":0,\"status\":\"crash\",\"description\":\"\"}\n\
                [1]\n\
                {\"commit\":\"c\",\"metric\":4000.5,\"status\":\"keep\",\"metrics\":{\"allocs\":7}}\n";
    let found = ledger(text);
    assert_eq!((found.metric.as_deref(), found.direction), (Some("µs"), Direction::Higher));
    let summary = Report::of_ledger(&found);
    assert_eq!((summary.counts().total, summary.counts().malformed, summary.counts().crash), (4, 1, 1));
    assert_eq!(summary.best().unwrap().value.as_ref().unwrap().value, 4000.5);
    assert_eq!(summary.baseline().unwrap().description, "base");
    assert_eq!((found.rows[1].value.as_ref(), found.rows[2].line), (None, 4));
    let other = read(text.as_bytes(), Some("allocs"), None);
    assert_eq!(Report::of_ledger(&other).best().unwrap().commit.as_deref(), Some("c"));
}

#[test]
fn utf_16_and_nothing_at_all_are_ledgers() {
    let text = "commit\tval_bpb\tstatus\na\t1.5\tkeep\n";
    let bytes: Vec<u8> = [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    assert_eq!(read(&bytes, None, None), ledger(text));
    let empty = ledger("");
    assert_eq!((Report::of_ledger(&empty).counts(), Report::of_ledger(&empty).best()), (Counts::default(), None));
    let header = ledger("commit\tval_bpb\tmemory_gb\tstatus\tdescription\n");
    assert_eq!((header.metric.as_deref(), header.rows.len()), (Some("val_bpb"), 0));
}

proptest! {
    #[test]
    fn any_bytes_are_a_ledger_that_adds_up(
        bytes in "(commit\t|loss\t|keep|crash|\\{\"a\":1\\}|\n|\r\n|\t|#|\"|[0-9.%-]{1,4}|\\PC{0,3}){0,60}",
        metric in proptest::option::of("loss|a"),
    ) {
        let ledger = read(bytes.as_bytes(), metric.as_deref(), None);
        let counts = Report::of_ledger(&ledger).counts();
        let parts = counts.keep + counts.discard + counts.crash + counts.other + counts.malformed;
        prop_assert_eq!(counts.total, parts);
        for row in &ledger.rows {
            if let Some(number) = &row.value {
                prop_assert!(bytes.contains(&number.raw));
            }
        }
    }

    #[test]
    fn noise_is_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
        read(&bytes, None, None);
    }
}
