use proptest::prelude::*;

use super::*;
use crate::domain::{Direction, MetricSource, Number, PartOf};

fn spec(name: &str, source: MetricSource) -> MetricSpec {
    MetricSpec { name: name.to_owned(), direction: Direction::Lower, source }
}

fn named(name: &str) -> MetricSpec {
    spec(name, MetricSource::Log)
}

fn pattern(text: &str) -> MetricSpec {
    spec("val_bpb", MetricSource::Regex(text.to_owned()))
}

fn scan(spec: &MetricSpec, pieces: &[&[u8]]) -> LogSummary {
    let mut scanner = Scanner::new(spec).unwrap();
    for piece in pieces {
        scanner.push(piece);
    }
    scanner.finish()
}

fn without_escapes(log: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    Cleaner::default().push(log, &mut plain);
    plain
}

/// Removes the escapes of a log, then scans it.
fn cleaned(spec: &MetricSpec, log: &[u8]) -> LogSummary {
    scan(spec, &[&without_escapes(log)])
}

fn raw(summary: &LogSummary) -> Option<&str> {
    match summary.found.as_ref()? {
        MetricMention::Number(number) => Some(&number.raw),
        MetricMention::NotFinite(raw) => Some(raw),
    }
}

#[test]
fn the_last_mention_wins_also_when_it_is_not_finite() {
    let log = b"val_bpb: 1.5\nval_bpb: 1.25\n";
    assert_eq!(raw(&scan(&named("val_bpb"), &[log])), Some("1.25"));
    let summary = scan(&named("val_bpb"), &[log, b"val_bpb: nan\n"]);
    assert_eq!(summary.found, Some(MetricMention::NotFinite("nan".to_owned())));
    assert!(summary.metrics.is_empty());
}

/// The number of `val_loss` in a log, and what it is of.
fn val_loss(log: &str) -> (Option<String>, Option<PartOf>) {
    let summary = scan(&named("val_loss"), &[log.as_bytes()]);
    (raw(&summary).map(str::to_owned), summary.part)
}

#[test]
fn a_number_of_all_parts_counts_instead_of_one_of_a_part() {
    let parts = "Fold 1/3 - val_loss: 0.97\nFold 2/3 - val_loss: 0.91\nFold 3/3 - val_loss: 0.88\n";
    for all in
        ["Mean val_loss: 0.92\n", "val_loss (mean of 3): 0.92\n", "CV val_loss = 0.92\n", "Final val_loss: 0.92\n"]
    {
        for log in [format!("{parts}{all}"), format!("{all}{parts}"), format!("{parts}{all}{parts}")] {
            assert_eq!(val_loss(&log), (Some("0.92".into()), None), "{log}");
        }
    }
    assert_eq!(val_loss(parts), (Some("0.88".into()), Some(PartOf::Split)));
    for all in ["val_loss: 0.5\n", "{\"val_loss\": 0.5}\n", "Avg. val_loss: 0.5\n", "val_loss over 3 seeds: 0.5\n"] {
        assert_eq!(val_loss(&format!("{all}{parts}")), (Some("0.5".into()), None), "{all}");
        assert_eq!(val_loss(&format!("{parts}{all}")), (Some("0.5".into()), None), "{all}");
    }
    assert_eq!(val_loss(&format!("val_loss/mean: 0.5\n{parts}")), (Some("0.5".into()), None));
    assert_eq!(val_loss("val_loss: 0.5\nval_loss/mean: 0.6\n"), (Some("0.5".into()), None), "a name of its own");
    let mean = "{\"val_loss\": {\"mean\": 0.5, \"std\": 0.1}}\n";
    assert_eq!(val_loss(mean), (Some("0.5".into()), None));
    assert_eq!(val_loss(&format!("{parts}{mean}")), (Some("0.5".into()), None));
    for log in [format!("{mean}epoch 1 val_loss: 0.6\n"), format!("step 3 val_loss: 0.6\nfold 1 {mean}")] {
        assert_eq!(val_loss(&log), (Some("0.6".into()), None), "it may be one over time: {log}");
    }
    let steps = format!("epoch 1 val_loss: 0.5\n{parts}");
    assert_eq!(val_loss(&steps), (Some("0.88".into()), Some(PartOf::Split)), "a step of one of them");
    let fields = "{\"val_loss\": 0.5}\n{\"fold\": 1, \"val_loss\": 0.4}\n{\"val_loss\": 0.6, \"fold\": 2}\n";
    assert_eq!(val_loss(fields), (Some("0.5".into()), None));
    assert_eq!(val_loss("val_loss=0.4 fold=4\nval_loss=0.6 fold=5\n"), (Some("0.6".into()), Some(PartOf::Split)));
    for objects in [
        r#"{"val_loss": 0.5, "by class": {"cat": {"val_loss": 0.6}, "dog": {"val_loss": 0.7}}}"#,
        r#"{"by class": {"cat": {"val_loss": 0.6}}, "val_loss": 0.5, "time": 3}"#,
        r#"{"val_loss": 0.5, "classes": [{"name": "cat", "val_loss": 0.6}, {"name": "dog", "val_loss": 0.7}]}"#,
        r#"{"mean": {"val_loss": 0.5}, "std": {"val_loss": 0.1}}"#,
        r#"INFO {"overall": {"val_loss": 0.5, "n": 9}, "cat": {"val_loss": 0.6}, "dog": {"n": 3, "val_loss": 0.7}}"#,
        "{'val_loss': 0.5, 'cat': {'val_loss': 0.6}}",
        r#"{"epochs": [{"val_loss": 0.6}, {"val_loss": 0.5}]}"#,
        r#"{"n": {"val_loss_std": 1}, "metrics": {"val_loss": 0.5}}"#,
    ] {
        assert_eq!(val_loss(&format!("{objects}\n")), (Some("0.5".into()), None), "{objects}");
    }
    let splits = r#"{"train": {"val_loss": 0.4}, "test": {"val_loss": 0.6}}"#;
    assert_eq!(val_loss(splits), (Some("0.6".into()), Some(PartOf::Split)));
    let one = "seed 3: step 1 val_loss: 0.8\nseed 3: step 2 val_loss: 0.7\n";
    assert_eq!(val_loss(one), (Some("0.7".into()), None), "a seed alone is the whole run");
    assert_eq!(
        val_loss(&format!("Overall val_loss: 0.9\n{one}")),
        (Some("0.9".into()), None),
        "but for a number of all"
    );
}

#[test]
fn the_first_rank_counts_and_else_the_process_that_printed_first() {
    for (log, number, part) in [
        ("[rank0]: val_loss: 0.1\n[rank1]: val_loss: 0.2\n", "0.1", None),
        ("rank 1: val_loss: 0.2\nrank 0: val_loss: 0.1\nrank 1: val_loss: 0.3\n", "0.1", None),
        ("[1,0]<stdout>:val_loss: 0.1\n[1,1]<stdout>:val_loss: 0.2\n", "0.1", None),
        ("val_loss: 0.1\n[rank1]: val_loss: 0.2\n", "0.1", None),
        ("rank=1 val_loss=0.2\nrank=0 val_loss=0.1\nval_loss=0.3 rank=2\n", "0.1", None),
        ("{\"rank\": 0, \"val_loss\": 0.1}\n{\"val_loss\": 0.2, \"rank\": 1}\n", "0.1", None),
        ("val_loss=0.3\nrank=16 val_loss=0.2\nrank=8 val_loss=0.1\n", "0.1", None),
        ("worker-1 | val_loss: 0.1\nworker-2 | val_loss: 0.2\n", "0.1", Some(PartOf::Process)),
        (
            "(a pid=7) val_loss: 0.3\n(a pid=5) val_loss: 0.2\n(a pid=7) val_loss: 0.1\n(a pid=5) val_loss: 0.4\n",
            "0.1",
            Some(PartOf::Process),
        ),
        ("(a pid=7) val_loss: 0.3\n(a pid=7) val_loss: 0.1\n", "0.1", None),
        ("(a pid=7) val_loss: 0.3\n(a pid=5) val_loss: 0.2\nval_loss: 0.1\n", "0.1", None),
    ] {
        assert_eq!(val_loss(log), (Some(number.to_owned()), part), "{log}");
    }
}

#[test]
fn numbers_of_which_any_can_be_meant_count_only_by_their_names() {
    let log: &[u8] = b"val_loss\t10\t0.9979\n";
    let summary = scan(&named("val_loss"), &[log]);
    assert_eq!(summary.found, None);
    let said = summary.instead.unwrap();
    assert!(said.contains("val_loss") && said.ends_with("10, 0.9979"), "{said}");
    let summary = scan(&named("val_loss"), &[b"val_loss: 0.5\n", log]);
    assert_eq!((raw(&summary), summary.instead.as_deref()), (Some("0.5"), None));
}

#[test]
fn a_table_counts_where_no_line_names_the_number() {
    let table = "epoch  val_loss  time\n1      0.5       00:12\n2      0.4       00:11\n";
    assert_eq!(val_loss(table), (Some("0.4".into()), None));
    for log in [format!("val_loss: 0.6\n{table}"), format!("{table}val_loss: 0.6\n")] {
        assert_eq!(val_loss(&log), (Some("0.6".into()), None), "{log}");
    }
    let summary = scan(&named("val_loss"), &[table.replace("\n2", "\n1").as_bytes()]);
    assert_eq!((raw(&summary), summary.instead.as_ref().is_some_and(|it| it.ends_with("0.5, 0.4"))), (None, true));
    let last = |log: &str| {
        let mut scanner = Scanner::new(&named("val_loss")).unwrap();
        scanner.push(log.as_bytes());
        scanner.last().map(|number| number.raw.clone())
    };
    assert_eq!(last(&table[..table.len() - 1]).as_deref(), Some("0.5"), "a line that is not complete");
    assert_eq!(last("| val_loss | f1 |\n|---|---|\n| 0.5 | 0.4 |\n"), None, "no point of a curve");
}

#[test]
fn a_curve_has_no_points_of_several_parts() {
    let last = |log: &str| {
        let mut scanner = Scanner::new(&named("val_loss")).unwrap();
        scanner.push(log.as_bytes());
        scanner.last().map(|number| number.raw.clone())
    };
    let parts = "fold 1 val_loss: 0.97\nfold 2 val_loss: 0.91\n";
    assert_eq!(last(parts), None);
    assert_eq!(last(&parts[..parts.find('\n').unwrap() + 1]).as_deref(), Some("0.97"), "a fold alone");
    assert_eq!(last(&format!("{parts}Mean val_loss: 0.92\n{parts}")).as_deref(), Some("0.92"));
    assert_eq!(last("[rank1] val_loss: 0.2\n"), None);
    assert_eq!(last("(a pid=7) val_loss: 0.3\n(a pid=5) val_loss: 0.2\n").as_deref(), Some("0.3"));
}

#[test]
fn memory_is_read_in_gibibytes() {
    let log: &[u8] = b"peak_vram_mb: 5401.7\npeak_vram_mb:     2048.0\nval_bpb: 1\n";
    assert_eq!(scan(&named("val_bpb"), &[log]).memory_gb, Some(2.0));
    assert_eq!(scan(&named("val_bpb"), &[log, b"memory_gb=14.3"]).memory_gb, Some(14.3));
    assert_eq!(scan(&named("val_bpb"), &[b"memory_gb=1.9\n", log]).memory_gb, Some(1.9));
    let steps = b"step 7 loss: 2.5\n".repeat(5000);
    assert_eq!(scan(&named("val_bpb"), &[b"memory_gb=80\n", &steps, log]).memory_gb, Some(2.0), "the machine's");
    assert_eq!(scan(&named("val_bpb"), &[log, b"memory_gb: nan"]).memory_gb, Some(2.0));
    assert_eq!(scan(&named("val_bpb"), &[b"memory_gb: nan"]).memory_gb, None);
    assert_eq!(scan(&named("val_bpb"), &[b"memory_gb: 1\nmemory_gb: -1"]).memory_gb, None);
}

#[test]
fn the_last_number_is_known_while_the_log_grows() {
    let mut scanner = Scanner::new(&named("loss")).unwrap();
    scanner.push(b"loss: 2.5\rloss: 2.2");
    assert_eq!(scanner.last().map(|number| number.raw.as_str()), Some("2.5"));
    scanner.push(b"5\rloss: nan\r");
    assert_eq!(scanner.last().map(|number| number.raw.as_str()), Some("2.25"));
}

#[test]
fn the_last_line_of_a_log_that_was_cut_off_has_no_number() {
    let cut = |log: &str| {
        let mut scanner = Scanner::new(&named("loss")).unwrap();
        scanner.push(log.as_bytes());
        scanner.finish_cut()
    };
    for (log, number) in [
        ("loss: 0.9801\nloss: 0.97", Some("0.9801")),
        ("loss: 0.9801\nloss: 0.9712\n", Some("0.9712")),
        ("loss: 0.9801\rloss: 0.97", Some("0.9801")),
        ("loss: 0.97", None),
    ] {
        let summary = cut(log);
        assert_eq!(raw(&summary), number, "{log}");
        assert!(summary.tail.ends_with(log.trim_end().rsplit(['\n', '\r']).next().unwrap()), "{}", summary.tail);
        assert!(!summary.empty && summary.metrics.iter().all(|(_, it)| Some(it.raw.as_str()) == number), "{log}");
    }
}

#[test]
fn a_pattern_replaces_the_name() {
    let log = "Time (mean ± σ):     43.4 ms ±  1.4 ms\nTime (mean ± σ):       6.3 ms\nval_bpb: 9\n";
    let spec = pattern(r"Time \(mean ± σ\):\s+([0-9.]+) ms");
    let summary = scan(&spec, &[log.as_bytes()]);
    assert_eq!(raw(&summary), Some("6.3"));
    assert!(summary.metrics.contains(&("val_bpb".to_owned(), "6.3".parse().unwrap())));
    for (bad, says) in [("(", "cannot parse"), ("loss: [0-9]+", "0 groups"), ("(a)(b)", "2 groups")] {
        let error = Scanner::new(&pattern(bad)).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert!(error.hint.is_some_and(|hint| hint.contains("--metric-regex")));
    }
    assert!(Scanner::new(&named(" ")).is_err());
}

#[test]
fn a_log_without_line_breaks_is_read_in_bounded_memory() {
    let mut scanner = Scanner::new(&named("val_bpb")).unwrap();
    let mut by_pattern = Scanner::new(&pattern("val_bpb: ([0-9.]+)")).unwrap();
    let mut filler = b"x".repeat(PIECE - 5);
    filler.extend_from_slice(b" 7 val_bpb: 1.2345678 ");
    for scanner in [&mut scanner, &mut by_pattern] {
        for _ in 0..16 {
            scanner.push(&filler);
            assert!(scanner.text.capacity() < 5 << 20);
        }
    }
    let summary = scanner.finish();
    assert_eq!(raw(&summary), Some("1.2345678"));
    assert!(summary.tail.len() <= 4096);
    assert_eq!(raw(&by_pattern.finish()), Some("1.2345678"));
}

#[test]
fn every_place_of_a_pattern_in_a_long_line_gives_the_whole_number() {
    let edges = [PIECE - OVERLAP, PIECE - OVERLAP / 2, PIECE];
    for offset in edges.into_iter().flat_map(|edge| [edge - 16, edge - 12, edge - 8, edge - 3, edge]) {
        let mut log = b"x".repeat(offset);
        log.extend_from_slice(b"loss 123456789.5 ");
        log.extend(b"y".repeat(2 * PIECE));
        assert_eq!(raw(&scan(&pattern("([0-9.]+)"), &[&log])), Some("123456789.5"), "at {offset}");
    }
}

#[test]
fn nul_bytes_and_bad_utf_8_are_only_bytes() {
    let log: &[u8] = b"\0\0\0val_bpb: 1.5\n\xff\xfe\x80 junk\nval_bpb\xff: 1.7\n";
    assert_eq!(raw(&scan(&named("val_bpb"), &[log])), Some("1.5"));
    assert!(scan(&named("val_bpb"), &[b"\0\0 \r\n\x1b[0m"]).empty);
    assert!(!scan(&named("val_bpb"), &[b"."]).empty);
}

#[test]
fn a_number_far_behind_its_name_is_read_wherever_the_chunks_end() {
    let log = format!("step 1\nval_bpb:{}1.25 | done\n", " ".repeat(100));
    for cut in 0..log.len() {
        let (first, second) = log.as_bytes().split_at(cut);
        assert_eq!(raw(&scan(&named("val_bpb"), &[first, second])), Some("1.25"), "cut at {cut}");
    }
}

#[test]
fn a_long_coloured_log_is_read_in_bounded_memory_and_its_last_lines_are_kept() {
    let bar = b"\x1b[2K\r\x1b[32m 12.5%\x1b[0m|\x1b[1;34m####\x1b[0m| \x1b[36m125/1000\x1b[0m".repeat(20_000);
    let empty = b"\n".iter().chain(b"\x1b[0m".repeat(1000).iter()).copied().collect::<Vec<_>>().repeat(400);
    let told: &[u8] = b"\n\x1b[1mval\x1b[0m_bpb: 1.5\nmem\x1b[0mory_gb: 7\n";
    for parts in [[told, &bar, &bar, &bar, &bar], [&bar, &bar, told, &bar, &bar], [told, &bar, &bar, &empty, &empty]] {
        let mut scanner = Scanner::new(&named("val_bpb")).unwrap();
        for part in parts {
            for bytes in part.chunks(100_000) {
                scanner.push(bytes);
                assert!(scanner.text.capacity() < 5 << 20);
            }
        }
        let summary = scanner.finish();
        assert_eq!((raw(&summary), summary.memory_gb), (Some("1.5"), Some(7.0)));
        assert_eq!(summary, cleaned(&named("val_bpb"), &parts.concat()));
    }
}

/// A name with an escape somewhere in it, which may end it, hide what follows, or stand for a blank or a line break.
fn split_name() -> impl Strategy<Value = Vec<u8>> {
    let name = proptest::sample::select(vec!["val_bpb", "memory_gb", "peak_vram_mb", "test loss", "testloss"]);
    let escape = prop_oneof![
        Just(b"\x1b[1;32m".to_vec()),
        Just(b"\x1b[0m\x1b[1m".to_vec()),
        Just(b"\x1b[C".to_vec()),
        Just(b"\x1b[2A".to_vec()),
        Just(b"\x1b(B".to_vec()),
        Just(b"\x1b]0;val_bpb: 7\x07".to_vec()),
        Just(b"\x1b]0;a title that is never ended".to_vec()),
        Just([b"\x1b[", &b"1"[..]].concat().repeat(70)),
        Just(b"\x1b".to_vec()),
    ];
    let value = proptest::sample::select(vec![": 1.5\n", "=2\r", " 3", ": nan\n", ""]);
    (name, escape, any::<proptest::sample::Index>(), value).prop_map(|(name, escape, at, value)| {
        let (begin, end) = name.as_bytes().split_at(at.index(name.len() + 1));
        [begin, &escape, end, value.as_bytes()].concat()
    })
}

/// Bytes that look like logs: pieces of names, numbers, separators, escapes and noise.
fn log_bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"val_bpb".to_vec()),
        Just(b"memory_gb".to_vec()),
        proptest::sample::select(vec![
            "Mean ",
            "fold 1 ",
            "fold 2 ",
            "[rank1] ",
            "(pid=7) ",
            "(pid=8) ",
            "rank=0 ",
            "rank=1 ",
            "/mean",
            "\nepoch  val_bpb\n",
            "\n1  0.5\n",
            "\n2  0.4\r\n",
            ": {'mean': 5}",
            "\nval_bpb: 3\n",
            "epoch 1 "
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        Just(b"peak_vram_mb: -".to_vec()),
        Just(b": ".to_vec()),
        Just(b"=".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b" | ".to_vec()),
        Just(b"nan".to_vec()),
        Just(b"\x1b[1m".to_vec()),
        Just(b"\x1b]0;t\x07".to_vec()),
        Just("±µ最".as_bytes().to_vec()),
        Just(vec![b' '; 300]),
        "[0-9]{1,3}(\\.[0-9]{1,3})?".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..6),
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn escapes_in_and_around_names_change_nothing_however_the_log_is_cut(
        pieces in proptest::collection::vec(prop_oneof![
            4 => split_name(),
            1 => log_bytes(),
            4 => Just(b"step 7 | \x1b[36m12%\x1b[0m lr 2.5 |\n".repeat(200)),
            1 => Just(b"\n".to_vec()),
            1 => Just(b"\r".to_vec()),
        ], 0..12),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..6),
        name in proptest::sample::select(vec!["val_bpb", "test loss"]),
    ) {
        let log = [&pieces.concat()[..], b"\n"].concat();
        prop_assume!(!log.starts_with(b"\xff\xfe") && !log.starts_with(b"\xfe\xff") && !log.starts_with(b"\xef\xbb\xbf"));
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.index(log.len() + 1)).chain([0, log.len()]).collect();
        cuts.sort_unstable();
        let parts: Vec<&[u8]> = cuts.windows(2).map(|cut| &log[cut[0]..cut[1]]).collect();
        let spec = named(name);
        prop_assert_eq!(scan(&spec, &parts), cleaned(&spec, &log));
    }
}

proptest! {
    #[test]
    fn how_the_log_is_cut_changes_nothing(log in log_bytes(), cuts in proptest::collection::vec(0usize..800, 0..8)) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(log.len())).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts.into_iter().chain([log.len()]) {
            pieces.push(&log[from..cut]);
            from = cut;
        }
        for spec in [named("val_bpb"), pattern("(?:bpb|gb).{0,3}?([0-9.]+)")] {
            prop_assert_eq!(scan(&spec, &pieces), scan(&spec, &[&log]));
        }
    }

    #[test]
    fn any_bytes_give_the_same_wherever_they_are_cut(
        mark in proptest::sample::select(vec![&b""[..], b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"]),
        noise in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0x1b), Just(b'a'), Just(b':'), Just(b'1')], 0..60),
        cut in any::<proptest::sample::Index>(),
    ) {
        let log = [mark, &noise].concat();
        let cut = cut.index(log.len() + 1);
        let bytes: Vec<&[u8]> = log.chunks(1).collect();
        for spec in [named("a"), pattern("a.?([0-9]+)")] {
            let whole = scan(&spec, &[&log]);
            prop_assert_eq!(&scan(&spec, &[&log[..cut], &log[cut..]]), &whole, "cut at {}", cut);
            prop_assert_eq!(scan(&spec, &bytes), whole, "byte by byte");
        }
    }

    #[test]
    fn any_bytes_are_read_and_no_number_is_invented(log in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let summary = scan(&named("a"), &[&log]);
        let printed = match &summary.found {
            Some(MetricMention::Number(Number { printed: Some(printed), .. })) => Some(printed.replace(',', "")),
            _ => raw(&summary).map(str::to_owned),
        };
        if let Some(printed) = printed {
            let plain = printed.as_bytes();
            let commas: Vec<u8> = log.iter().copied().filter(|byte| *byte != b',').collect();
            prop_assert!(log.contains(&0x1b) || commas.windows(plain.len()).any(|window| window == plain));
        }
    }

    #[test]
    fn a_number_that_is_reported_stands_in_the_log(log in log_bytes()) {
        let summary = scan(&named("val_bpb"), &[&log]);
        let mut plain = Vec::new();
        let mut decoder = Decoder::default();
        decoder.push(&log, &mut plain);
        decoder.finish(&mut plain);
        let plain = without_escapes(&plain);
        let plain = String::from_utf8_lossy(&plain).replace(',', "");
        for (name, number) in &summary.metrics {
            let printed = number.printed.as_deref().unwrap_or(&number.raw).replace(',', "");
            prop_assert!(plain.contains(&printed), "{} {}", name, number);
        }
    }
}
