use super::*;
use crate::domain::{Direction, FailureClass, Severity};
use crate::report::Report;
use crate::rules::Counts;

fn ledger(text: &str) -> Ledger {
    read(text.as_bytes(), &ReadOptions::default())
}

fn of_metric(text: &str, metric: &str) -> Ledger {
    read(text.as_bytes(), &ReadOptions { metric: Some(metric), ..ReadOptions::default() })
}

fn problems(ledger: &Ledger) -> Vec<(u64, &str)> {
    ledger.problems().collect()
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
    assert_eq!(ledger.assumed, ["lower is better, as the name `val_bpb` says; `--higher` says otherwise"]);
    let summary = Report::of_ledger(ledger.clone());
    let expected = Counts { total: 5, keep: 2, discard: 1, crash: 1, malformed: 1, ..Counts::default() };
    assert_eq!(summary.counts(), expected);
    let best = summary.best().unwrap();
    assert_eq!((best.commit.as_deref(), best.value.as_ref().unwrap().raw.as_str()), (Some("aaaaaaa"), "1.50"));
    assert_eq!((ledger.rows[0].memory_gb, &*best.description), (Some(2.0), "say \"baseline"));
    assert_eq!(ledger.rows[1].value, None, "the zero of a crash is no value");
    assert_eq!(ledger.rows[4].value.as_ref().unwrap().value, 68.6);
    assert_eq!(ledger.rows[4].memory_gb, None);
    let torn = &ledger.rows[3];
    assert_eq!((torn.line, torn.problem.as_deref()), (7, Some("1 field, not 5")));
}

#[test]
fn our_own_rows_are_read_back() {
    let text = "commit_hash\tval_bpb\tmemory_gb\tstatus\tdescription\n\
                a3f8b2c1\t1.8342\t14.3\timproved\tbaseline GPT-125M\n\
                c72f1b30\t1.8589\t15.1\trejected\tmlp_ratio=8\n\
                f10a2c88\tnan\toom\tfailed\tblock_size=4096 OOM\n";
    let ledger = ledger(text);
    let counts = Report::of_ledger(ledger.clone()).counts();
    assert_eq!((counts.keep, counts.discard, counts.crash, counts.total), (1, 1, 1, 3));
    assert_eq!((ledger.rows[2].value.as_ref(), ledger.rows[2].memory_gb), (None, None));
}

#[test]
fn what_a_header_does_not_say_is_assumed_aloud() {
    let text = "id\ttime_s\taccuracy\tvram\tstatus\tnotes\nx\t3\t0.5\t2048\tkept\ty\nx\t3\t0.7\t1024\tkept\tz\n";
    let found = ledger(text);
    assert_eq!((found.metric.as_deref(), found.direction), (Some("accuracy"), Direction::Higher));
    assert_eq!(found.rows[0].memory_gb, Some(2.0));
    for said in ["--metric NAME", "`vram` is in MiB", "--lower"] {
        assert!(found.assumed.iter().any(|sentence| sentence.contains(said)), "{said}: {:?}", found.assumed);
    }
    let other = of_metric(text, "time_s");
    assert_eq!((other.direction, other.rows[1].value.as_ref().unwrap().value), (Direction::Lower, 3.0));
    let missing =
        read(text.as_bytes(), &ReadOptions { metric: Some("loss"), direction: Some(Direction::Lower), segment: None });
    assert!(missing.assumed[0].contains("no column is named `loss`"));
    assert_eq!(Report::of_ledger(missing.clone()).best(), None);
}

#[test]
fn the_name_tells_the_direction_and_a_keep_against_it_is_a_doubt() {
    let rows = |name: &str, values: &[&str]| {
        let rows: String = values.iter().map(|value| format!("a\t{value}\tkeep\n")).collect();
        let found = ledger(&format!("commit\t{name}\tstatus\n{rows}"));
        let report = serde_json::to_value(Report::of_ledger(found.clone())).unwrap();
        let doubts = report["warnings"].as_array().unwrap().len();
        (found.direction, found.assumed.join("; "), doubts)
    };
    for (name, direction, says) in [
        ("score", Direction::Higher, "as the name `score` says; `--lower`"),
        ("tok_sec", Direction::Higher, "as the name `tok_sec` says"),
        ("score_ns", Direction::Lower, "as the name `score_ns` says; `--higher`"),
        ("odd", Direction::Lower, "as nothing in the name `odd` says otherwise; `--higher`"),
    ] {
        // One keep turns only what nothing says.
        let both = [&["2", "1"][..], &["1", "2"], &["1"], &[]];
        for values in if name == "odd" { &both[..1] } else { &both[..] } {
            let (found, assumed, doubts) = rows(name, values);
            assert!(found == direction && assumed.contains(says), "{name} {values:?}: {assumed}");
            let is_against = (*values == ["1", "2"]) == (direction == Direction::Lower);
            assert_eq!(doubts, usize::from(values.len() > 1 && is_against), "{name} {values:?}");
        }
    }
    let of = |names: &str| ledger(&format!("{names}\tstatus\n1\t2\t3\tkeep\n"));
    let none = of("id\tround\told_loss");
    assert!(none.metric.is_none() && none.assumed[0].starts_with("no column looks like the metric"), "{none:?}");
    let weak = of("id\tgizmos\twidgets");
    assert_eq!(weak.metric.as_deref(), Some("gizmos"));
    assert!(weak.assumed[0].contains("which its name does not say"), "{:?}", weak.assumed);
    let second = ledger("commit\ttokens\tval_bpb\tstatus\na\t100\t1.5\tkeep\n");
    assert_eq!(second.metric.as_deref(), Some("val_bpb"));
}

#[test]
fn a_missing_header_costs_no_row() {
    let found = ledger("abcdef1\t1.5\t2.0\tkeep\tfirst\nabcdef2\t1.25\t2.0\tkeep\tsecond\n");
    assert_eq!((found.rows.len(), found.metric.as_deref()), (2, None));
    assert_eq!(Report::of_ledger(found.clone()).best().unwrap().commit.as_deref(), Some("abcdef2"));
    let foreign = ledger("HEAD\tmodel\t397.0\t3.5\tkeep\t\"x\nHEAD\tmodel\t397.0\t2.5\tdiscard\ty\n");
    let summary = Report::of_ledger(foreign.clone());
    assert_eq!((summary.counts().keep, summary.counts().discard, summary.counts().total), (1, 1, 2));
    assert!(foreign.assumed.iter().any(|sentence| sentence.contains("no header")));
    let third = of_metric("HEAD\tmodel\t397.0\t3.5\tkeep\tx\n", "3");
    assert_eq!(third.rows[0].value.as_ref().unwrap().raw, "397.0");
    let commented = ledger("# sha\tloss\tstatus\nabcdef1\t1.5\tkeep\n");
    assert_eq!((commented.metric.as_deref(), commented.rows.len()), (Some("loss"), 1));
    assert!(commented.assumed[0].contains("line 1 is the header"), "{:?}", commented.assumed);
}

#[test]
fn flags_are_verdicts_and_no_verdict_makes_the_best_of_all() {
    let found = of_metric("sha\tloss\taccepted\na\t1.5\t1\nb\t1.0\t0\n", "loss");
    assert_eq!(Report::of_ledger(found.clone()).best().unwrap().commit.as_deref(), Some("a"));
    let none = of_metric("loss\tnotes\n1.5\ta\n1.25\tb\n", "loss");
    let summary = Report::of_ledger(none.clone());
    assert_eq!((summary.counts().other, &*summary.best().unwrap().description), (2, "b"));
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
    let summary = Report::of_ledger(found.clone());
    assert_eq!((summary.counts().total, summary.counts().malformed, summary.counts().crash), (4, 1, 1));
    assert_eq!(summary.best().unwrap().value.as_ref().unwrap().value, 4000.5);
    assert_eq!(&*summary.baseline().unwrap().description, "base");
    assert_eq!((found.rows[1].value.as_ref(), found.rows[2].line), (None, 4));
    let other = of_metric(text, "allocs");
    assert_eq!(Report::of_ledger(other.clone()).best().unwrap().commit.as_deref(), Some("c"));
}

#[test]
fn utf_16_and_nothing_at_all_are_ledgers() {
    let text = "commit\tval_bpb\tstatus\na\t1.5\tkeep\n";
    let bytes: Vec<u8> = [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    assert_eq!(read(bytes, &ReadOptions::default()), ledger(text));
    let empty = ledger("");
    assert_eq!(
        (Report::of_ledger(empty.clone()).counts(), Report::of_ledger(empty.clone()).best()),
        (Counts::default(), None)
    );
    let header = ledger("commit\tval_bpb\tmemory_gb\tstatus\tdescription\n");
    assert_eq!((header.metric.as_deref(), header.rows.len()), (Some("val_bpb"), 0));
}

#[test]
fn numbers_have_units_and_what_does_not_compare_has_no_value() {
    let found = ledger(
        "commit\ttime\tmemory\tstatus\tdescription\n\
         a\t3.2s\t14.3 GiB\tkeep\tx\n\
         b\t900 ms\t1024MiB\tkeep\tmilliseconds\n\
         c\t3.1 MB\t\tkeep\tanother dimension\n\
         d\t-\toom\tcrash\tnothing\n\
         e\t2.5\t512 MiB\tkeep\tno unit\n",
    );
    let values: Vec<_> = found.rows.iter().map(|row| row.value.as_ref().map(|number| number.raw.as_str())).collect();
    assert_eq!(values, [Some("3.2"), Some("0.9"), None, None, Some("2.5")]);
    let memory: Vec<_> = found.rows.iter().map(|row| row.memory_gb).collect();
    assert_eq!(memory, [Some(14.3), Some(1.0), None, None, Some(0.5)]);
    assert_eq!(problems(&found), [(4, "`3.1 MB` is in `MB`, others are in `s`")]);
}

#[test]
fn a_name_gives_the_unit_of_its_column_and_a_scale_needs_its_whole_column_or_a_unit() {
    let values = |header: &str, cells: &[&str]| {
        let rows: String = cells.iter().map(|cell| format!("a\t{cell}\tkeep\n")).collect();
        let found = of_metric(&format!("commit\t{header}\tstatus\n{rows}"), header);
        found.rows.iter().map(|row| row.value.as_ref().map(|number| number.value)).collect::<Vec<_>>()
    };
    assert_eq!(values("latency_ms", &["120", "0.09 s"]), [Some(120.0), Some(90.0)]);
    assert_eq!(values("throughput", &["3.1K", "2M"]), [Some(3100.0), Some(2e6)]);
    assert_eq!(values("throughput", &["3100", "3.4K"]), [Some(3100.0), None]);
    assert_eq!(values("rate", &["900 tok/s", "3.4K"]), [Some(900.0), Some(3400.0)]);
    assert_eq!(values("accuracy", &["68.6%", "70"]), [Some(68.6), Some(70.0)]);
    assert_eq!(values("accuracy", &["0.915", "90.2%"]), [Some(0.915), Some(0.902)]);
    assert_eq!(values("bundle", &["1.2 MB", "1100 KB", "900000 B"]), [Some(1.2), Some(1.1), Some(0.9)]);
    assert_eq!(values("duration", &["1m 2.5s", "50 s"]), [Some(62.5), Some(50.0)]);
}

#[test]
fn the_direction_is_that_of_a_column_then_of_the_verdicts_then_of_the_name() {
    let direction = |text: &str| {
        let found = ledger(text);
        (found.direction, found.assumed.iter().any(|said| said.contains("got worse")))
    };
    let falls = "commit\tscore\tstatus\na\t9\tkeep\nb\t7\tkeep\nc\t5\tkeep\nd\t6\tkeep\ne\t3\tkeep\nf\t2\tkeep\n";
    assert_eq!(direction(falls), (Direction::Lower, true));
    // Three of four are not more than three quarters, and one keep does not outweigh a name.
    let mixed = "commit\tscore\tstatus\na\t9\tkeep\nb\t7\tkeep\nc\t5\tkeep\nd\t6\tkeep\ne\t3\tkeep\n";
    assert_eq!(direction(mixed), (Direction::Higher, false));
    assert_eq!(direction("commit\tloss\tstatus\na\t1\tkeep\nb\t2\tkeep\n"), (Direction::Lower, false));
    assert_eq!(direction("commit\todd\tstatus\na\t1\tbaseline\nb\t2\tkeep\n"), (Direction::Higher, true));
    for (column, cell, expected) in [
        ("metric_direction", "max", Direction::Higher),
        ("goal", "minimize the score", Direction::Lower),
        ("mode", "train", Direction::Higher),
    ] {
        let text = format!("commit\tscore\t{column}\tstatus\na\t9\t{cell}\tkeep\nb\t10\t{cell}\tkeep\n");
        assert_eq!(direction(&text), (expected, false), "{column}");
        let json = format!("{{\"score\":9,\"{column}\":\"{cell}\",\"status\":\"keep\"}}\n");
        assert_eq!(direction(&json), (expected, false), "{column}");
    }
    let said = ReadOptions { direction: Some(Direction::Higher), ..ReadOptions::default() };
    assert_eq!(read(falls.as_bytes(), &said).direction, Direction::Higher);
}

#[test]
fn verdicts_win_over_states_which_leave_the_best_to_the_value() {
    let best = |text: &str| {
        let report = Report::of_ledger(ledger(text));
        let Counts { keep, discard, crash, .. } = report.counts();
        (report.best().and_then(|best| best.value.clone()).map(|value| value.value), [keep, discard, crash])
    };
    let verdicts = "commit\tloss\tstatus\tWORD\na\t3\tok\tKEEP\nb\t1\tfailed\tDISCARD\nc\t2\tok\tKEEP\n";
    for (column, keep, discard) in [
        ("decision", "keep", "discard"),
        ("outcome", "kept", "reverted"),
        ("verdict", "accepted", "dropped"),
        ("improved", "true", "false"),
        ("action", "keep", "revert"),
        ("outcome", "merged", "rolled back"),
    ] {
        let text = verdicts.replace("WORD", column).replace("KEEP", keep).replace("DISCARD", discard);
        assert_eq!(best(&text), (Some(2.0), [2, 1, 0]), "{column}");
    }
    let states = "name\tloss\tstate\na\t3\tfinished\nb\t2\tTrialState.COMPLETE\nc\t1\trunning\nd\t0.5\tcrashed\n";
    assert_eq!(best(states), (Some(2.0), [0, 0, 1]));
    let failed = "commit\tscore\tstatus\na\t120\tok\nb\t990\tserver_failed\nc\t130\tok\n";
    assert_eq!(best(failed), (Some(130.0), [0, 0, 1]));
    let named = ledger("name,loss,kept\nbase,0.9,yes\nwarmup,0.8,yes\n");
    assert_eq!(Report::of_ledger(named).best().map(|best| best.description.clone()).as_deref(), Some("warmup"));
    let failure = "commit\tscore\tresult\na\t120\tsuccess\nb\t990\tfailure\nc\t130\tsuccess\n";
    assert_eq!(best(failure), (Some(130.0), [0, 0, 1]));
    for column in ["correct", "is_correct", "valid", "passed"] {
        let text = format!("id,score,{column}\nx,0.5,true\ny,0.9,false\nz,0.7,True\n");
        assert_eq!(best(&text), (Some(0.7), [0, 0, 0]), "{column}");
        let kept = format!("commit\tscore\t{column}\tstatus\na\t0.5\t1\tkeep\nb\t0.9\t0\tkeep\n");
        assert_eq!(best(&kept), (Some(0.5), [2, 0, 0]), "{column}");
    }
    assert_eq!(best("commit\tloss\tstatus\na\t1\tdiscard\nb\t2\tok\n").0, None, "nothing was kept");
}

#[test]
fn counters_settings_and_swept_parameters_are_no_metrics() {
    for (text, metric) in [
        ("exp_no,tries,widgets,status\n1,4,9,keep\n2,5,8,keep\n", "widgets"),
        ("{\"pid\":77,\"batch_size\":8,\"wer\":null}\n{\"pid\":91,\"batch_size\":8,\"wer\":0.2}\n", "wer"),
        ("sweep,alpha,widgets\nalpha,0.1,9\nalpha,0.4,8\n", "widgets"),
        ("correct,gizmos\n1,5\n0,6\n1,9\n", "gizmos"),
        ("commit\ttrain_loss\tval_loss\tstatus\na\t3\t4\tkeep\nb\t2\t3\tkeep\n", "val_loss"),
        ("commit\tcounter\twidgets\tstatus\na\t1\t4\tkeep\nb\t2\t3\tkeep\n", "widgets"),
        // A plain header still says it.
        ("commit\tgizmos\tval_loss\tstatus\na\t3\t4\tkeep\nb\t2\t3\tkeep\n", "gizmos"),
        ("{\"results\":{\"tok_s\":2.5},\"name\":\"a\"}\n", "tok_s"),
    ] {
        assert_eq!(ledger(text).metric.as_deref(), Some(metric), "{text}");
    }
}

#[test]
fn rows_may_name_their_metric_themselves() {
    let values = |text: &str, metric: Option<&str>| {
        let found = read(text.as_bytes(), &ReadOptions { metric, ..ReadOptions::default() });
        let values = found.rows.iter().map(|row| row.value.as_ref().map(|number| number.value));
        (found.metric.clone().unwrap_or_default(), values.collect::<Vec<_>>())
    };
    let json = "{\"metric\":\"val_bpb\",\"value\":0.99}\n{\"metric\":\"mfu\",\"value\":40}\n";
    assert_eq!(values(json, None), ("val_bpb".to_owned(), vec![Some(0.99), None]));
    assert_eq!(values(json, Some("mfu")), ("mfu".to_owned(), vec![None, Some(40.0)]));
    let runs = "name,value\none,1.5\ntwo,1.4\n";
    assert_eq!(values(runs, None), ("value".to_owned(), vec![Some(1.5), Some(1.4)]), "names of runs");
    let table = "metric_name\tmetric_value\tstatus\nseparation\t0.9\tkeep\n";
    assert_eq!(values(table, None), ("separation".to_owned(), vec![Some(0.9)]));
}

#[test]
fn an_array_of_objects_is_rows_however_it_is_written() {
    for text in [
        "[\n {\"loss\":2,\"status\":\"keep\"},\n {\"loss\":NaN,\"status\":\"crash\"}\n]\n",
        "[{\"loss\":2,\"status\":\"keep\"},{\"loss\":NaN,\"status\":\"crash\"}]",
        "[\n  {\n    \"loss\": 2,\n    \"status\": \"keep\"\n  },\n  {\n    \"status\": \"crash\"\n  }\n]",
    ] {
        let found = ledger(text);
        let rows: Vec<_> = found.rows.iter().map(|row| (row.status, row.value.is_some())).collect();
        assert_eq!(rows, [(RowStatus::Keep, true), (RowStatus::Crash, false)], "{text}");
        assert_eq!((found.form, found.metric.as_deref()), (LedgerForm::JsonArray, Some("loss")));
    }
    let object = ledger(
        "{\"metric\": \"loss\",\n \"experiments\": [\n {\"loss\":2,\"status\":\"keep\"},\n {\"loss\":1,\"status\":\"keep\"}]}\n",
    );
    assert_eq!(object.rows.iter().map(|row| row.line).collect::<Vec<_>>(), [3, 4]);
    let row = ledger("{\"commit\":\"a\",\"loss\":2,\"status\":\"keep\",\"runs\":[{\"value\":1},{\"value\":3}]}\n");
    assert_eq!((row.rows.len(), row.metric.as_deref()), (1, Some("loss")));
    let torn = ledger("[\n {\"loss\":2,\"status\":\"keep\"},\n {\"loss\":1,\"sta");
    assert_eq!(problems(&torn), [(3, "not a JSON object")]);
    assert!(ledger("[]").rows.is_empty());
}

#[test]
fn segments_that_alternate_are_one_each() {
    let row = |segment: u32, loss: u32| format!("{{\"segment\":{segment},\"loss\":{loss},\"status\":\"keep\"}}\n");
    let text = [row(0, 9), row(1, 8), row(0, 7), row(1, 6)].concat();
    let of = |segment| read(text.as_bytes(), &ReadOptions { segment, ..ReadOptions::default() });
    let values = |found: Ledger| found.rows.iter().map(|row| row.value.as_ref().unwrap().value).collect::<Vec<_>>();
    assert_eq!(of(None).segments.iter().map(|it| (it.number, it.rows)).collect::<Vec<_>>(), [(0, 2), (1, 2)]);
    assert_eq!(
        (values(of(Some(0))), values(of(Some(1))), values(of(None))),
        (vec![9.0, 7.0], vec![8.0, 6.0], vec![8.0, 6.0])
    );
}

#[test]
fn names_that_are_offered_are_those_of_columns_with_numbers() {
    let said = |text: &str| of_metric(text, "nope").assumed[0].clone();
    let table = "name\tloss\tstatus\nx\t2\tkeep\n";
    assert_eq!(said(table), "no column is named `nope`, so no row has a value: `--metric` names one of loss");
    let prose = said("The rules in short, and with a comma.\nAnother line, of prose.\n");
    assert_eq!(prose, "no column is named `nope`, and none holds numbers, so no row has a value");
}

#[test]
fn the_experiments_own_commit_is_the_commit() {
    let text = "{\"parent_best_commit\":\"b\",\"experiment_commit\":\"a\",\"loss\":1,\"status\":\"keep\"}\n";
    assert_eq!(ledger(text).rows[0].commit.as_deref(), Some("a"));
    let other = "candidate_commit\tbase_commit\tloss\na\tb\t1\n";
    assert_eq!(ledger(other).rows[0].commit.as_deref(), Some("a"));
}

#[test]
fn a_line_repeats_another_only_as_a_whole() {
    let line = |name: &str| format!("{{\"name\":\"{name}\",\"status\":\"done\",\"results\":{{\"tok_s\":1.5}}}}\n");
    let repeats = |lines: &[&str]| {
        let text: String = lines.iter().map(|name| line(name)).collect();
        let findings = examine(&ledger(&text));
        findings.into_iter().map(|found| found.what).find(|what| what.contains("repeats"))
    };
    assert_eq!(repeats(&["a", "b"]), None);
    assert_eq!(repeats(&["a", "b", "a"]).as_deref(), Some("line 3 repeats line 1"));
}

#[test]
fn a_zero_is_a_number_only_where_it_can_be_one() {
    let found = ledger(
        "commit\tloss\tmemory_gb\tstatus\n\
         a\t0\t0.0\tkeep\nb\t0.0\t0\tdiscard\nc\t0.0\t1.5\tdiscard\nd\t0.000000\t1.5\tcrash\ne\t0\t0\tskipped\n",
    );
    let has_value: Vec<_> = found.rows.iter().map(|row| row.value.is_some()).collect();
    assert_eq!(has_value, [true, false, true, false, false]);
    assert_eq!(found.rows[0].memory_gb, None);
}

#[test]
fn words_that_nobody_knows_are_told_and_other_words_taken_where_no_row_says_keep() {
    let found = ledger("commit\tloss\tstatus\na\t2\tBASELINE\nb\t1\tkeep\nc\t1\terror\nd\t1\tok\ne\t1\tok\n");
    let counts = Report::of_ledger(found.clone()).counts();
    assert_eq!((counts.keep, counts.crash, counts.other), (1, 0, 4));
    assert!(found.assumed[1].ends_with("counted as other: `error` (1), `ok` (2)"), "{:?}", found.assumed);
    let found = ledger("commit\tloss\tstatus\na\t2\taccepted\nb\t1\terror\nc\t1\tpending\n");
    let statuses: Vec<_> = found.rows.iter().map(|row| row.status).collect();
    assert_eq!(statuses, [RowStatus::Keep, RowStatus::Crash, RowStatus::Other]);
    assert!(found.assumed[0].contains("`accepted` is keep, `error` is crash"), "{:?}", found.assumed);
    let found = ledger("commit\tloss\tstatus\na\t2\tpending\nb\t1\terror\n");
    assert_eq!(Report::of_ledger(found.clone()).counts().other, 2);
}

#[test]
fn a_row_that_says_baseline_is_it_where_the_first_has_no_number() {
    let found = ledger("commit\tloss\tstatus\na\tnan\tcrash\nb\t2\tbaseline\nc\t1\tkeep\n");
    assert_eq!(Report::of_ledger(found.clone()).baseline().unwrap().commit.as_deref(), Some("b"));
    let found = ledger("commit\tloss\tstatus\na\t3\tkeep\nb\t2\tbaseline\n");
    assert_eq!(Report::of_ledger(found.clone()).baseline().unwrap().commit.as_deref(), Some("a"));
}

#[test]
fn a_line_break_in_a_quoted_cell_makes_no_second_row() {
    let found = ledger(
        "commit\tloss\tstatus\tdescription\n\
         a\t2\tkeep\t\"one\n\nand \"\"two\"\"\"\n\
         b\t1\tkeep\t\"never ended\n\
         c\t1\tkeep\t\"so \"bad\n\
         d\t\"1\n\
         e\t1\tkeep\tlast\n",
    );
    let lines: Vec<_> = found.rows.iter().map(|row| (row.line, &*row.description)).collect();
    let expected = [(2, "one\n\nand \"two\""), (5, "\"never ended"), (6, "\"so \"bad"), (7, "d \"1"), (8, "last")];
    assert_eq!(lines, expected);
    assert_eq!(problems(&found), [(7, "2 fields, not 4")]);
}

#[test]
fn quotes_around_cells_are_read_as_spreadsheets_and_people_write_them() {
    let found = ledger(
        "commit,loss,status,description\n\
         a, 2, keep, \"first, then \"\"more\"\"\"\n\
         b,1.9,keep,\"two\nlines, and a \"\"quote\"\"\"\n\
         c,1.8,keep,\"never ended\n\
         d,\"1.7,keep,ended nowhere\n",
    );
    let rows: Vec<_> = found.rows.iter().map(|row| (row.line, &*row.description)).collect();
    let expected =
        [(2, "first, then \"more\""), (3, "two\nlines, and a \"quote\""), (5, "never ended"), (6, "ended nowhere")];
    assert_eq!(rows, expected);
    assert_eq!(problems(&found), [(6, "`\"1.7` is not a number")]);
}

#[test]
fn commas_semicolons_and_bars_separate_cells_too() {
    let text = "commit,val_bpb,status,description\na,1.5,keep,\"first, \"\"best\"\"\"\nb,1.25,keep,it's 5\" wide\n";
    for text in [text.to_owned(), text.replace("first, ", "first; ").replace(",", ";").replace("first; ", "first, ")] {
        let found = ledger(&text);
        let rows: Vec<_> = found.rows.iter().map(|row| &*row.description).collect();
        assert_eq!(rows, ["first, \"best\"", "it's 5\" wide"], "{text}");
        assert_eq!(found.metric.as_deref(), Some("val_bpb"));
    }
    for text in [
        "# Records\n\nIn short, a list.\n\n| # | loss | note |\n| - | - | - |\n| x | 2 | a |\n| y | 1 | b |\n",
        "Intro | with a bar.\n\n| id | loss | note |\n| - | - | - |\n| x | 2 | a |\n| y | 1 | b |\n",
        "In short, a list.\n\n# | loss | note\n:-: | - | -\nx | 2 | a\ny | 1 | b\n",
    ] {
        let found = ledger(text);
        assert_eq!(
            (found.form, found.rows.len(), found.metric.as_deref()),
            (LedgerForm::Markdown, 2, Some("loss")),
            "{text}"
        );
    }
    let found = ledger(
        "The night.\n\n| commit | val_bpb | status | description |\n|:--|--:|---|---|\n\
         | `aaaaaaa` | **1.5** | keep | a \\| b |\n| bbbbbbb | 1.25 | discard |\n",
    );
    assert_eq!((found.form, found.rows.len()), (LedgerForm::Markdown, 2));
    let row = &found.rows[0];
    assert_eq!((row.commit.as_deref(), &*row.description), (Some("aaaaaaa"), "a | b"));
    assert_eq!(row.value.as_ref().unwrap().raw, "1.5");
    assert_eq!(problems(&found), [(6, "3 fields, not 4")]);
    assert!(found.assumed.contains(&"1 line outside the table left out".to_owned()), "{:?}", found.assumed);
}

#[test]
fn json_lines_have_segments_of_which_the_newest_is_read() {
    let text = "{\"type\":\"config\",\"name\":\"one\",\"metricName\":\"s\",\"bestDirection\":\"lower\"}\n\
                {\"run\":1,\"commit\":\"a\",\"metric\":3.50,\"status\":\"keep\"}\n\
                {\"type\":\"config\",\"metricName\":\"acc\",\"bestDirection\":\"higher\"}\n\
                {\"type\":\"config\",\"name\":\"two\"}\n\
                {\"run\":1,\"commit\":\"b\",\"metric\":NaN,\"status\":\"checks_failed\"}\n\
                {\"run\":2,\"commit\":\"c\",\"metric\":0.50,\"status\":\"keep\"}\n\
                {\"type\":\"config\",\"name\":\"three\"}\n";
    let found = ledger(text);
    assert_eq!((found.metric.as_deref(), found.direction, found.rows.len()), (Some("acc"), Direction::Higher, 2));
    assert_eq!((found.rows[0].value.as_ref(), found.rows[0].status), (None, RowStatus::Crash));
    assert_eq!(found.rows[1].value.as_ref().unwrap().raw, "0.50", "digits stay as they are written");
    assert!(found.assumed[0].contains("segment 1,") && found.assumed[0].contains("1 row of the others"));
    let names = found.segments.iter().map(|segment| (segment.number, segment.name.as_deref(), segment.rows));
    assert_eq!(names.collect::<Vec<_>>(), [(0, Some("one"), 1), (1, Some("two"), 2), (2, Some("three"), 0)]);
    assert_eq!((found.elsewhere, Report::of_ledger(found).counts().elsewhere), (1, 1));
    let first = read(text.as_bytes(), &ReadOptions { segment: Some(0), ..ReadOptions::default() });
    assert_eq!((first.metric.as_deref(), first.rows.len(), first.assumed.len()), (Some("s"), 1, 0));
    assert_eq!(first.elsewhere, 2);
    for segment in [2, 3] {
        assert!(
            read(text.as_bytes(), &ReadOptions { segment: Some(segment), ..ReadOptions::default() }).rows.is_empty()
        );
    }
    let bare =
        ledger("{\"step\":1,\"val_loss\":\"2.5\",\"kept\":true}\n{\"step\":2,\"val_loss\":2.0,\"kept\":false}\n");
    assert_eq!((bare.metric.as_deref(), Report::of_ledger(bare.clone()).counts().discard), (Some("val_loss"), 1));
}

#[test]
fn segments_have_the_numbers_that_their_rows_say() {
    let text = "{\"segment\":3,\"val_loss\":1.5,\"status\":\"keep\"}\n\
                {\"segment\":3,\"val_loss\":1.4,\"status\":\"keep\"}\n\
                {\"type\":\"config\",\"metricName\":\"val_loss\"}\n\
                {\"segment\":7,\"val_loss\":1.0,\"status\":\"keep\"}\n\
                {\"segment\":8,\"val_loss\":0.5,\"status\":\"keep\"}\n";
    let of = |segment| read(text.as_bytes(), &ReadOptions { segment, ..ReadOptions::default() });
    let rows: Vec<_> = [None, Some(3), Some(7), Some(8), Some(0)].map(|segment| of(segment).rows.len()).into();
    assert_eq!(rows, [1, 2, 1, 1, 0]);
    assert_eq!(
        (of(None).segments.iter().map(|segment| segment.number).collect::<Vec<_>>(), of(Some(3)).elsewhere),
        (vec![3, 7, 8], 2)
    );
    assert_eq!(of(Some(3)).metric.as_deref(), Some("val_loss"));
}

#[test]
fn segments_that_say_the_same_number_are_numbered_by_position() {
    let text = "{\"type\":\"config\",\"name\":\"one\",\"metricName\":\"ms\",\"bestDirection\":\"lower\"}\n\
                {\"commit\":\"a\",\"metric\":10,\"status\":\"keep\",\"segment\":0}\n\
                {\"commit\":\"b\",\"metric\":9,\"status\":\"keep\",\"segment\":0}\n\
                {\"type\":\"config\",\"name\":\"two\",\"metricName\":\"acc\",\"bestDirection\":\"higher\"}\n\
                {\"commit\":\"c\",\"metric\":0.5,\"status\":\"keep\",\"segment\":0}\n\
                {\"commit\":\"d\",\"metric\":0.6,\"status\":\"keep\",\"segment\":5}\n";
    let of = |segment| read(text.as_bytes(), &ReadOptions { segment, ..ReadOptions::default() });
    let rows: Vec<_> = [None, Some(0), Some(1), Some(2), Some(5)].map(|segment| of(segment).rows.len()).into();
    assert_eq!(rows, [1, 2, 1, 1, 0]);
    assert_eq!(of(None).segments.iter().map(|segment| segment.number).collect::<Vec<_>>(), [0, 1, 2]);
    let first = of(Some(0));
    assert_eq!((first.metric.as_deref(), first.direction, first.elsewhere), (Some("ms"), Direction::Lower, 2));
}

#[test]
fn a_config_line_without_rows_says_metric_and_direction() {
    let config = "{\"type\":\"config\",\"name\":\"n\",\"metricName\":\"tok/s\",\"bestDirection\":\"higher\"}\n";
    let found = ledger(config);
    assert_eq!((found.metric.as_deref(), found.direction, found.rows.len()), (Some("tok/s"), Direction::Higher, 0));
    assert_eq!(found.assumed, [] as [&str; 0]);
    let text = format!("{{\"metric\":1.5,\"status\":\"keep\"}}\n{config}");
    let said = ReadOptions { segment: Some(1), ..ReadOptions::default() };
    assert_eq!(read(text.as_bytes(), &said).metric.as_deref(), Some("tok/s"));
}

#[test]
fn the_time_that_a_run_took_is_no_metric_beside_another_number() {
    for (header, row, metric) in [
        ("name\tstatus\truntime\tgizmos", "x\tkeep\t10\t5", "gizmos"),
        ("name\tstatus\ttime_elapsed\tgizmos", "x\tkeep\t10\t5", "gizmos"),
        ("commit\ttraining_seconds\tval_bpb\tstatus", "a1a1a1a\t300\t1.5\tkeep", "val_bpb"),
        ("commit\ttraining_seconds\tmemory_gb\tstatus", "a1a1a1a\t300\t1.5\tkeep", "training_seconds"),
        ("commit\tmean_ms\tgizmos\tstatus", "a1a1a1a\t300\t1.5\tkeep", "mean_ms"),
    ] {
        assert_eq!(ledger(&format!("{header}\n{row}\n")).metric.as_deref(), Some(metric), "{header}");
    }
    let json = ledger("{\"total_seconds\":300,\"gizmos\":4,\"status\":\"keep\"}\n");
    assert_eq!(json.metric.as_deref(), Some("gizmos"));
}

#[test]
fn a_table_that_blanks_align_is_read() {
    let found = ledger(
        "commit_hash  val_bpb  memory_gb  status    description\n\
         -----------  -------  ---------  --------  -----------\n\
         a3f8b2c1     1.8342   14.3       improved  baseline, GPT-125M\n\
         c72f1b30     1.8589              rejected  mlp_ratio=8\n\
         f10a2c88     nan      oom        failed    block_size=4096 OOM\n\
         0badcafe  1.2\n",
    );
    assert_eq!((found.form, found.metric.as_deref()), (LedgerForm::Aligned, Some("val_bpb")));
    let rows: Vec<_> = found.rows.iter().map(|row| (row.status, row.failure, &*row.description)).collect();
    assert_eq!(
        rows,
        [
            (RowStatus::Keep, None, "baseline, GPT-125M"),
            (RowStatus::Discard, None, "mlp_ratio=8"),
            (RowStatus::Crash, Some(FailureClass::Oom), "block_size=4096 OOM"),
            (RowStatus::Other, None, ""),
        ]
    );
    assert_eq!(Report::of_ledger(found).counts().crash, 1);
}

#[test]
fn a_record_of_an_experiment_is_a_row() {
    let found = ledger(
        "{\"id\":0,\"commit\":\"a\",\"outcome\":\"keep\",\"metric\":{\"name\":\"x\",\"value\":1.50,\"raw\":\"1.50\"}}\n",
    );
    assert_eq!(found.rows[0].value.as_ref().unwrap().raw, "1.50");
    assert_eq!(found.rows[0].status, RowStatus::Keep);
}

#[path = "read_properties.rs"]
mod properties;

#[test]
fn a_header_that_comes_again_is_no_experiment() {
    let text = "commit\tval_bpb\tstatus\tdescription\naaaaaaa\t1.5\tkeep\tbaseline\ncommit\tval_bpb\tstatus\tdescription\n\
                bbbbbbb\t1.4\tkeep\tmore\n";
    let ledger = read(text.as_bytes(), &ReadOptions::default());
    assert_eq!(ledger.rows.iter().map(|row| row.line).collect::<Vec<_>>(), [2, 4]);
    assert_eq!(ledger.assumed[1], "1 line with the header again left out");
}

#[test]
fn the_doctor_warns_of_a_guessed_direction_and_of_what_the_report_doubts() {
    let findings = |text: &str| {
        let found = ledger(text);
        let findings = [examine(&found), crate::report::ledger_doubts(found)].concat();
        let of_direction = findings.into_iter().filter(|it| it.what.contains("is better"));
        of_direction.skip(1).map(|it| (it.level, it.what)).collect::<Vec<_>>()
    };
    let turned = findings("commit\tscore\tstatus\na\t9\tkeep\nb\t7\tkeep\nc\t5\tkeep\n");
    assert_eq!(turned, [(Severity::Warning, "lower is better, as 2 of 2 keeps got worse if higher is".to_owned())]);
    let doubted = findings("commit\tscore\tstatus\na\t9\tkeep\nb\t7\tkeep\nc\t5\tkeep\nd\t6\tkeep\ne\t4\tkeep\n");
    let doubt = "3 of 4 keeps are worse than the one before, if more is better".to_owned();
    assert_eq!(doubted[1..], [(Severity::Warning, doubt)]);
}

#[test]
fn a_mark_says_yes_or_no() {
    for text in
        ["| loss | status |\n|---|---|\n| 2 | ✅ |\n| 1 | ❌ |\n| - | ❌ crash |\n", "loss,kept?\n2,✔️\n1,✗\n-,crash\n"]
    {
        let statuses: Vec<_> = ledger(text).rows.iter().map(|row| row.status).collect();
        assert_eq!(statuses, [RowStatus::Keep, RowStatus::Discard, RowStatus::Crash], "{text}");
    }
    assert!(ledger("loss,correct\n2,✅\n1,❌\n").rows[1].is_barred);
}

#[test]
fn a_column_may_say_the_direction_by_yes_or_no() {
    for (name, flag, direction) in [
        ("higher_is_better", "false", Direction::Lower),
        ("maximize", "yes", Direction::Higher),
        ("lower_is_better", "true", Direction::Lower),
    ] {
        let text = format!("name,{name},score,status\na,{flag},2,keep\nb,{flag},1,keep\n");
        assert_eq!(ledger(&text).direction, direction, "{text}");
    }
}

#[test]
fn percents_beside_numbers_of_at_most_1_are_hundredths() {
    let values = |text: &str| ledger(text).rows.iter().map(|row| row.value.as_ref().unwrap().value).collect::<Vec<_>>();
    assert_eq!(values("acc,status\n91.2%,keep\n0.93,keep\n"), [0.912, 0.93]);
    assert_eq!(values("acc,status\n91.2%,keep\n93,keep\n"), [91.2, 93.0]);
    assert_eq!(values("acc,status\n91.2%,keep\n93%,keep\n"), [91.2, 93.0]);
}

#[test]
fn a_number_of_parameters_is_not_the_metric_beside_a_loss() {
    let found = ledger("commit\tparams\tval_loss\tstatus\na1b2c3d\t124M\t1.5\tkeep\n");
    assert_eq!(found.metric.as_deref(), Some("val_loss"));
}

/// Its metric and the value of the best row.
fn best(text: &str) -> (Option<String>, Option<f64>) {
    let found = ledger(text);
    let best = Report::of_ledger(found.clone()).best().and_then(|best| best.value.as_ref().map(|value| value.value));
    (found.metric, best)
}

#[test]
fn tables_are_read_as_people_and_programs_write_them() {
    for text in [
        "run;loss;status;note\n1;1,25;keep;a\n2;1,10;keep;b\n3;0,9;discard;c\n",
        "sep=;\nrun;loss;status\n1;1.25;keep\n2;1.10;keep\n",
        "+-----+------+--------+\n| run | loss | status |\n+-----+------+--------+\n| 1 | 1.2 | keep |\n| 2 | 1.1 | keep |\n+---+---+---+\n",
        "┌─────┬──────┐\n│ run │ loss │\n├─────┼──────┤\n│ a   │ 1.2  │\n│ b   │ 1.1  │\n└─────┴──────┘\n",
        "run|loss|status\na|1.2|keep\nb|1.1|keep\n",
        "| key | value |\n|---|---|\n| lr | 0.1 |\n\n| commit | loss | status |\n|---|---|---|\n| a | 1.2 | keep |\n| b | 1.1 | keep |\n",
        "{\n \"loss\": 1.2\n}\n{\n \"loss\": 1.1\n}\n",
        "{\"loss\": 1.2},\n{\"loss\": 1.1},\n",
    ] {
        assert_eq!(best(text), (Some("loss".into()), Some(1.1)), "{text}");
    }
    assert_eq!(best("run;ms\na;1.250,5\nb;1.100,2\n").1, Some(1100.2));
    assert_eq!(best("run,time\na,1m 30s\nb,75s\n"), (Some("time".into()), Some(75.0)));
    let linked = ledger("| commit | loss |\n|---|---|\n| [a000001](https://x.y/z) | 1.0 |\n");
    assert_eq!(linked.rows[0].commit.as_deref(), Some("a000001"));
}

#[test]
fn a_number_that_others_tell_is_no_metric_beside_them() {
    for (text, metric) in [
        ("commit,delta,loss,status\na,0,1.0,keep\nb,-0.1,0.9,keep\n", "loss"),
        ("run,best_loss,loss\na,1.0,1.0\nb,0.9,0.9\n", "loss"),
        ("run,loss_std,loss_mean\na,0.01,1.0\nb,0.02,0.9\n", "loss_mean"),
        ("run,improvement_pct,latency_ms\na,0,100\nb,10,90\n", "latency_ms"),
        ("run,kl,reward_mean\na,0.1,1.5\nb,0.2,2.0\n", "reward_mean"),
        ("run,min_ms,mean_ms\na,1,5\nb,2,4\n", "mean_ms"),
        ("run,primary_metric,loss,f1\na,f1,1.0,0.5\nb,f1,1.2,0.6\n", "f1"),
        ("run,best_fitness,mean_fitness\na,1.5,1.0\nb,2.0,1.2\n", "best_fitness"),
    ] {
        assert_eq!(best(text).0.as_deref(), Some(metric), "{text}");
    }
    let nested = "{\"loss\":0.2,\"eval\":{\"loss\":1.0}}\n{\"loss\":0.1,\"eval\":{\"loss\":0.9}}\n";
    assert_eq!(best(nested), (Some("eval/loss".into()), Some(0.9)));
    let deeper = "{\"metrics\":{\"val\":{\"acc\":0.5}}}\n{\"metrics\":{\"val\":{\"acc\":0.6}}}\n";
    assert_eq!(best(deeper), (Some("val/acc".into()), Some(0.6)));
}

#[test]
fn verdicts_have_many_names_and_words() {
    for (text, value) in [
        ("run,loss,result\na,1.0,improved\nb,0.8,no_improvement\nc,0.9,improved\n", 0.9),
        ("run,loss,selected\na,1.0,yes\nb,0.8,no\nc,0.9,yes\n", 0.9),
        ("run,loss,status\na,1.0,committed\nb,0.8,reverted\nc,0.9,committed\n", 0.9),
        ("run,loss,status\na,1.0,new_best\nb,0.8,bad\nc,0.9,new_best\n", 0.9),
        ("run,loss,failed\na,1.0,false\nb,0.1,true\nc,0.9,false\n", 0.9),
        ("run,loss,reverted\na,1.0,0\nb,0.8,1\nc,0.9,0\n", 0.9),
        ("run,loss,decision\na,1.0,true\nb,0.8,false\nc,0.9,true\n", 0.9),
        ("run,loss,kept\na,1.0,1.0\nb,0.8,0.0\nc,0.9,1.0\n", 0.9),
        ("run,loss,status\na,1.0,🟢\nb,0.8,🔴\nc,0.9,🟢\n", 0.9),
        ("run,loss,tests\na,1.0,pass\nb,0.8,fail\nc,0.9,pass\n", 0.9),
        ("{\"loss\":0.8,\"status\":{\"state\":\"discard\"}}\n{\"loss\":0.9,\"status\":{\"state\":\"keep\"}}\n", 0.9),
        ("run,loss,validity\na,1.0,valid\nb,0.1,invalid\nc,0.9,valid\n", 0.9),
        (
            "{\"loss\":0.8,\"decision\":{\"verdict\":\"discard\"}}\n{\"loss\":0.9,\"decision\":{\"verdict\":\"keep\"}}\n",
            0.9,
        ),
    ] {
        assert_eq!(best(text).1, Some(value), "{text}");
    }
}

#[test]
fn a_direction_is_stated_beside_the_rows_too() {
    for (text, direction) in [
        ("run,gizmo ↑\na,1.5\nb,2.5\n", Direction::Higher),
        ("run,score,optimize\na,1.5,minimize\nb,2.5,minimize\n", Direction::Lower),
        ("# gizmo, higher is better\nrun,gizmo\na,1.5\nb,2.5\n", Direction::Higher),
        ("{\"direction\":\"maximize\",\"runs\":[{\"gizmo\":1.5},{\"gizmo\":2.5}]}", Direction::Higher),
        ("{\"higher_is_better\":true,\"runs\":[{\"gizmo\":1.5},{\"gizmo\":2.5}]}", Direction::Higher),
        ("# higher accuracy is better, of which higher is better\nrun,val_loss\na,1.5\nb,2.5\n", Direction::Lower),
        ("# higher is better, or lower is better\nrun,gizmo\na,1.5\nb,2.5\n", Direction::Lower),
    ] {
        assert_eq!(ledger(text).direction, direction, "{text}");
    }
}
