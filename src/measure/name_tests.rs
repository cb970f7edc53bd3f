use super::*;

fn read(line: &str, name: &str) -> Option<String> {
    let mut last = None;
    for (at, _) in line.match_indices(name) {
        let right = &line.as_bytes()[at + name.len()..];
        if let Some(Reading::Value(_, MetricMention::Number(number))) =
            reading_between(name, &line.as_bytes()[..at], right, false)
        {
            last = Some(number.raw);
        }
    }
    last
}

#[test]
fn a_name_counts_where_a_reader_would_take_it_for_the_metric() {
    for line in [
        "val_bpb: 1.2",
        "val_bpb:          1.2",
        "  val_bpb = 1.2",
        "val_bpb=1.2",
        "val_bpb 1.2",
        "val_bpb\t1.2",
        "2026-01-01 12:00:00\ttrain.py\tval_bpb: 1.2",
        "2026-01-01\tINFO\troot\tval_bpb: 1.2",
        "METRIC val_bpb=1.2",
        "{\"val_bpb\": 1.2}",
        "{'val_bpb': 1.2, 'epoch': 3.0}",
        "{\"a\":1,\"val_bpb\":1.2}",
        "{\"message\": \"{\\\"val_bpb\\\": 1.2}\"}",
        "step 5 val_bpb: 1.2",
        "step:0/20000 val_loss:6.9 val_bpb:1.2 train_time:0ms",
        "epoch 3 | val_bpb 1.2",
        "val_loss=3.4 | val_bpb=1.2 | memory_gb=14.3",
        "val_loss 3.4, val_bpb 1.2; done",
        "[12:00:01] val_bpb: 1.2",
        "2026-01-01 12:00:00,123 INFO val_bpb: 1.2",
        "INFO:root:val_bpb: 1.2",
        "2026-01-01 - train - INFO - val_bpb: 1.2",
        "val_bpb: 1.2 (best 1.1)",
        "val_bpb: 1.2 (best val_bpb: 1.1)",
        "DISCARD — val_bpb=1.2 (worse by 0.06)",
        "final_int8_roundtrip_exact val_loss:1.9 val_bpb:1.2",
        "89632/121136 windows val_bpb=1.2",
        "wandb: val_bpb 1.2",
        "100%|██| 10/10 [00:10<00:00, 1.0it/s, val_bpb=1.2]",
        "| val_bpb   |  1.2 |",
        "│  val_bpb  │  1.2  │",
        "**val_bpb**: 1.2",
        "`val_bpb`: 1.2%",
        "val_bpb: $1.2",
        "val_bpb=$1.2, tokens=3",
        "b'val_bpb: 1.2'",
        "level=info msg=done val_bpb=1.2",
        "level=INFO msg=\"eval of all\" val_bpb=1.2",
        "msg='eval' val_bpb: 1.2",
        "eval finished val_bpb=1.2",
        "Final val_bpb: 1.2",
        "Done. val_bpb: 1.2",
        "Restored checkpoint (val_bpb=1.2)",
        "验证 | val_bpb：1.2",
        "[INFO] val_bpb: 1.2",
        "[rank0] val_bpb: 1.2",
        "[rank0]: val_bpb: 1.2",
        "[eval] step 5 val_bpb: 1.2",
        "[best 1.1] val_bpb: 1.2",
        "[baseline] 1.3 [current] val_bpb: 1.2",
        "(best: 1.1) val_bpb: 1.2",
        "{\"best\": {\"loss\": 1.1}, \"val_bpb\": 1.2}",
        "Evaluating best checkpoint: val_bpb 1.2",
        "new best, val_bpb: 1.2",
        "run finished (ok) val_bpb: 1.2",
        "print('done') val_bpb: 1.2",
    ] {
        assert_eq!(read(line, "val_bpb").as_deref(), Some("1.2"), "{line}");
    }
    assert_eq!(read("| End of training | test loss   5.2 | test ppl 180.1", "test loss").as_deref(), Some("5.2"));
    for (line, name, number) in [
        ("%WER 5.12 [ 2689 / 52576, 301 ins, 412 del ]", "WER", "5.12"),
        ("BLEU|nrefs:1|case:mixed|tok:13a|version:2.3.1 = 27.3 58.9/33.1/21.0 (BP = 1.000)", "BLEU", "27.3"),
        ("timings: total time =    2712.12 ms /   134 tokens", "total time", "2712.12"),
        ("    accuracy                           0.92       160", "accuracy", "0.92"),
        ("epoch 3: loss 0.52 (epoch 2: 0.55)", "loss", "0.52"),
        ("Epoch 3: 12.1s", "Epoch", "3"),
        ("errors 3: 2 fatal", "errors", "3"),
        ("Finished eval. acc: 0.91", "acc", "0.91"),
        ("complete: 12k / 50k (24%)", "complete", "24"),
        ("val_loss=0.31: 0.29 with ema", "val_loss", "0.31"),
        ("mAP@0.5:0.95: 0.466", "mAP@0.5:0.95", "0.466"),
    ] {
        assert_eq!(read(line, name).as_deref(), Some(number), "{line}");
    }
    assert_eq!(read("main with buflen=1 and workers=24 took 30.7s", "took").as_deref(), Some("30.7"));
}

#[test]
fn another_name_or_another_time_does_not_count() {
    for line in [
        "Best val_bpb: 1.17",
        "best val_bpb=1.17",
        "New best val_bpb: 1.17",
        "[22:11:03] Best val_bpb: 1.17",
        "Best: val_bpb: 1.17",
        "best (val_bpb=1.17)",
        "previous - val_bpb: 1.17",
        "running_val_bpb: 1.2",
        "val_bpb_ema: 1.2",
        "eval/val_bpb: 1.2",
        "x.val_bpb = 1.2",
        "--val_bpb 1.2",
        "--metric=val_bpb 1.2",
        "val_bpb:enabled tokenizer_kind=1",
        "val_bpb took 1.2",
        "val_bpb: 1/20",
        "val_bpb: 1.30 -> 1.2",
        "val_bpb −1.2",
        "val_bpb: $1.2 per run",
        "val_bpb=$1",
        "improve the val_bpb 1.2",
        "teacher\tval_bpb: 1.2",
        "INFO\tema\tval_bpb: 1.2",
        "INFO\traw\tval_bpb: 1.2",
        "top5\tval_bpb: 1.2",
        "train.py val_bpb: 1.2",
        "running val_bpb: 1.2",
        "Val_BPB: 1.2",
        "val_bpb",
        "val_bpb:",
        "| x val_bpb | 1.2 |",
        "mean ± val_bpb: 1.2 ± 0.1",
        "+ val_bpb=1.2",
        "F1 val_bpb: 1.2",
        "[baseline] val_bpb: 1.2",
        "12:00:01 [Baseline] val_bpb=1.2",
        "[baseline] val_loss: 3.4 val_bpb: 1.2",
        "[old run] val_loss=3.4 | val_bpb=1.2",
        "(previous) val_bpb: 1.2",
        "best so far: val_bpb 1.2",
        "best-so-far val_bpb: 1.2",
        "so far val_bpb=1.2",
        "[best so far] val_bpb: 1.2",
        "previous run val_bpb=1.2",
        "previous run: val_bpb=1.2",
        "last val_bpb: 1.2",
        "prior - val_bpb: 1.2",
        "target | val_bpb 1.2",
        "expected val_bpb=1.2",
        "reference: val_bpb=1.2",
        "msg=\"best so far\" val_bpb=1.2",
        "\"baseline\": {\"val_bpb\": 1.2}",
        "print('val_bpb: 1.2')",
        "    print(f\"step 5, val_bpb: 1.2\")",
        "+print(b'val_bpb: 1.2')",
        "logger.info(\"val_bpb: 1.2\")",
        "echo \"val_bpb=1.2\"",
        "+ echo val_bpb=1.2",
    ] {
        assert_eq!(read(line, "val_bpb"), None, "{line}");
    }
    assert_eq!(read("Adj. R-squared: 0.801", "R-squared"), None);
    assert_eq!(read("tokens: 12k / 50k", "tokens"), None);
    assert_eq!(read("latency: 12 ms / 45 ms / 80 ms", "latency"), None);
    assert_eq!(read("accuracy          0.8123    0.9123", "accuracy"), None);
    assert_eq!(read("%acc 3", "acc"), None);
    assert_eq!(read("mAP@0.5:0.95: 0.466", "mAP@0.5"), None);
    for line in ["test loss: 3", "Validation loss: 3", "train_loss: 3", "val loss=3", "| valid loss 3"] {
        assert_eq!(read(line, "loss"), None, "{line}");
    }
}

#[test]
fn words_for_all_parts_are_no_other_name() {
    for line in [
        "Mean val_loss: 0.92 +/- 0.03",
        "mean val_loss=0.92",
        "[rank0] CV mean val_loss: 0.92",
        "Overall val_loss 0.92",
        "=== Total val_loss: 0.92",
        "| Average val_loss | 0.92 |",
        "12:00:01 INFO Avg val_loss: 0.92",
        "val_loss (mean of 5): 0.92",
        "val_loss (avg over 5 folds) = 0.92",
        "val_loss mean: 0.92",
        "Final val_loss: 0.92",
        "step 100 final val_loss: 0.92",
    ] {
        assert_eq!(read(line, "val_loss").as_deref(), Some("0.92"), "{line}");
    }
    assert_eq!(read("step 100 loss: 0.45 avg loss: 0.61", "loss").as_deref(), Some("0.45"));
    for line in [
        "epoch 3 | average val_loss: 0.92",
        "Best mean val_loss: 0.92",
        "running mean val_loss: 0.92",
        "val_loss_mean: 0.92",
        "mean_val_loss: 0.92",
        "val_loss (best): 0.92",
        "meaning val_loss: 0.92",
    ] {
        assert_eq!(read(line, "val_loss"), None, "{line}");
    }
}

#[test]
fn a_name_is_not_the_end_of_a_longer_one() {
    for line in [
        "Triplet Loss: 0.3",
        "Triplet Loss=0.3",
        "step 5 KL Loss: 0.3",
        "Epoch 3 | kl_div Loss=0.3",
        "5 Focal Loss 0.3",
    ] {
        assert_eq!(read(line, "Loss"), None, "{line}");
    }
    for line in
        ["Loss: 0.3", "step 5 Loss: 0.3", "12 epochs Loss: 0.3", "5 ms Loss 0.3", "done Loss=0.3", "train.py: Loss=0.3"]
    {
        assert_eq!(read(line, "Loss").as_deref(), Some("0.3"), "{line}");
    }
}

#[test]
fn the_average_of_a_meter_counts() {
    for line in [
        "Epoch: [0][  10/500]\tTime  0.31 ( 0.39)\tData  0.00 ( 0.04)\tLoss 6.98e+00 (7.01e+00)",
        "Test: [190/196]\tTime 0.1 (0.2)\tAcc@1 66.80 ( 75.9)\tLoss 1.28 (7.01)\tAcc@5 9.80 (9.9)",
        "Test:  [250/261]  eta: 0:00:03  Loss: 6.9 (7.01)  time: 0.2 (0.3)  data: 0.0 (0.01)",
        "Train: 0 [ 100/1251 (  8%)]  Loss: 6.95 (7.01)  Time: 0.302s, 423.45/s  LR: 1.0e-05  Data: 0.007 (0.021)",
        "[10/100] Loss: 7.01 (26.58) time: 3.2 (3.1)",
        "[10/100] Loss 7.01 (0.01) acc 0.8 (0.02) time 0.3 (0.01)",
        "[10/100] Loss 7.01 (6.9) length 200.0 (190.0)",
        "[10/100] Loss 7.01 (6.9)",
        "[10/100] Loss 7.01 (+6.9) time 0.3 (0.3)",
        "[10/100] Loss 7.01 (7) time 0.3 (0.3)",
        "[2026/12/01] Loss 7.01 (6.9) time 0.3 (0.3)",
        "Epoch [3/10] Loss 7.01 (6.9) time 0.3 (0.3)",
        "folds [3/10]: Loss 7.01 (6.9) time 0.3 (0.3)",
        "Epoch 10: Loss 7.01 (6.9), time 0.3 (0.3)",
    ] {
        assert_eq!(read(line, "Loss").map(|it| it.parse()), Some(Ok(7.01)), "{line}");
    }
}

#[test]
fn of_the_statistics_of_a_name_the_mean_counts() {
    for line in [
        r#"{"time": {"mean": 0.3, "std": 0.01}}"#,
        "{'time': {'std': 0.01, 'avg': 0.3, 'n': 5}, 'f1': {'mean': 0.5}}",
        "time: mean=0.3 std=0.05",
        "sort/8  time:   [0.1 ms 0.3 ms 0.4 ms]",
    ] {
        assert_eq!(read(line, "time").as_deref(), Some("0.3"), "{line}");
    }
    for line in [
        r#"{"time": {"distribution": "normal", "mean": 0.5, "std": 0.1}}"#,
        r#"{"time": {"mean": null, "std": 0.1}}"#,
        r#"{"time": {"mean": {"a": 0.3}}}"#,
        r#"{"time": {"value": 0.3, "n": 3}}"#,
        r#"{"time": {"min": 0.3}, "mean": 0.5}"#,
        r#"best time: {"mean": 0.3}"#,
        "time: max=0.9 mean=0.3",
        "time: mean=0.3",
        "time: [0.1 0.3 0.4]",
        "time: [0.4 ms 0.3 ms 0.1 ms]",
    ] {
        assert_eq!(read(line, "time"), None, "{line}");
    }
    assert_eq!(read("delay: [0.1 ms 0.3 ms 0.4 ms]", "delay"), None);
}

#[test]
fn a_name_that_is_a_unit_has_its_number_before_it() {
    let line = "BenchmarkSort-8   \t   12034\t     99321 ns/op\t     120 B/op\t  1.5e3 MB/s  4.8/s";
    for (name, number) in
        [("ns/op", Some("99321")), ("B/op", Some("120")), ("MB/s", Some("1.5e3")), ("/s", Some("4.8"))]
    {
        assert_eq!(read(line, name).as_deref(), number, "{name}");
    }
    assert_eq!(read("best 99 ns/op", "ns/op"), None);
    assert_eq!(read("3.1k tok/s", "tok/s").as_deref(), Some("3100"));
    assert_eq!(read("ops/s: 3.5", "ops/s").as_deref(), Some("3.5"));
    assert_eq!(read("train/step 5", "train/step").as_deref(), Some("5"));
    for (line, name, number) in [
        ("tok/s 1234 ms/step 12.3", "tok/s", "1234"),
        ("tok/s 1234 ms/step 12.3", "ms/step", "12.3"),
        ("step 10 loss 0.5 tok/s 1234 (best)", "tok/s", "1234"),
        ("| epoch 1 | ms/batch 11.92 | loss 5.6", "ms/batch", "11.92"),
        ("INFO img/s 812.3", "img/s", "812.3"),
        ("tick 0 time 1m 12s sec/tick 37.2 sec/kimg 9.31 cpumem 3.1", "sec/kimg", "9.31"),
        ("throughput 3.1 tok/s 45 ms/step", "tok/s", "3.1"),
        ("throughput 3.1 tok/s 45 ms/step", "ms/step", "45"),
        ("step 5: 12 tok/s 45", "tok/s", "12"),
        ("12034 99321 ns/op 5", "ns/op", "99321"),
        ("Downloading 81.2 MB/s 12s", "MB/s", "81.2"),
        ("train 3.2 it/s 50%", "it/s", "3.2"),
        ("Downloading 81.2 MB/s 0:00:12", "MB/s", "81.2"),
        ("INFO 1234 tok/s 8 GPUs", "tok/s", "1234"),
        ("12.3/12.3 MB 45.6 MB/s 0:00:00", "MB/s", "45.6"),
    ] {
        assert_eq!(read(line, name).as_deref(), Some(number), "{line}");
    }
}

#[test]
fn several_bare_numbers_behind_a_name_are_ambiguous() {
    let several = |line: &str| match reading_between("loss", b"", line.as_bytes(), false) {
        Some(Reading::Several(numbers)) => numbers.join(" "),
        _ => String::new(),
    };
    for (line, numbers) in [
        ("\t10\t0.9979", "10 0.9979"),
        (" 12034 99321 ns/op 120 B/op", "12034 99321"),
        (" 1 2 3 | acc 4", "1 2 3"),
        (": 10 0.9979", ""),
        (" 0.5 | 3", ""),
        (" 0.5, 3", ""),
        (" 0.5 100/200", ""),
        (" 0.5 12ms", ""),
        (" 0.5 acc 3", ""),
    ] {
        assert_eq!(several(line), numbers, "{line}");
    }
}

#[test]
fn leader_dots_are_a_separator() {
    for line in ["    http_reqs......................: 400     4.8/s", "http_reqs ..... 400", "http_reqs....400"] {
        assert_eq!(read(line, "http_reqs").as_deref(), Some("400"), "{line}");
    }
    assert_eq!(read("    http_req_duration..............: avg=314.5ms", "http_req_duration"), None);
}

#[test]
fn a_name_and_its_number_may_be_two_fields() {
    for line in [
        r#"{"metric": "val_bpb", "value": 1.2, "epoch": 3}"#,
        r#"{"event": "eval", "key": "val_bpb", "value": 1.2, "meta": {"value": 3}}"#,
        r#"{"value":1.2,"name":"val_bpb"}"#,
        r#"[{"name":"loss","value":3},{"value":1.2,"name":"val_bpb"},{"name":"acc","value":4}]"#,
        "{'metric': 'val_bpb', 'meta': {'step': 3}, 'value': 1.2}",
        r#"{"tag": "val_bpb", "step": 3, "value": 1.2}"#,
        r#"{"metric_name": "val_bpb", "metric_value": 1.2}"#,
        "metric=val_bpb value=1.2 step=3",
        "level=info metric=\"val_bpb\" step=3 value=1.2",
        "metric=loss value=3 metric=val_bpb value=1.2",
        "name: val_bpb, value: 1.2",
    ] {
        assert_eq!(read(line, "val_bpb").as_deref(), Some("1.2"), "{line}");
    }
    for line in [
        r#"{"metric": "val_bpb"}, {"value": 1.2}"#,
        r#"{"best": "val_bpb", "value": 1.2}"#,
        r#"{"metric": "val_bpb", "value": null}"#,
        "metric=val_bpb metric=loss value=1.2",
        "metric=val_bpb_ema value=1.2",
        "metric=val_bpb max_value=1.2",
    ] {
        assert_eq!(read(line, "val_bpb"), None, "{line}");
    }
}

#[test]
fn a_unit_in_brackets_stands_between_a_name_and_its_number() {
    let read = |line: &str| match reading_between("latency", b"", line.as_bytes(), false) {
        Some(Reading::Value(_, MetricMention::Number(number))) => {
            Some((number.value, number.unit.map(|it| it.to_string())))
        }
        _ => None,
    };
    for line in [" (ms): 12.5", " [ms] = 12.5", "(ms) 12.5"] {
        assert_eq!(read(line), Some((12.5, Some("ms".to_owned()))), "{line}");
    }
    assert_eq!([" (warm): 12.5", " (min): 0.2"].map(read), [None, None]);
}

#[test]
fn a_step_may_stand_between_a_name_and_its_number() {
    for line in [
        "val_bpb (step 100): 1.2",
        "val_bpb at step 100: 1.2",
        "val_bpb after 3 epochs = 1.2",
        "val_bpb (n=64): 1.2",
        "val_bpb[64 samples]: 1.2",
        "val_bpb (epoch 3/5, step 100) = 1.2",
    ] {
        assert_eq!(read(line, "val_bpb").as_deref(), Some("1.2"), "{line}");
    }
    for line in [
        "val_bpb (step 100) 1.2",
        "val_bpb (warm): 1.2",
        "val_bpb (step warm): 1.2",
        "val_bpb @ 10: 1.2",
        "val_bpb (4): 1.2",
        "val_bpb at step 100: of 1.2",
    ] {
        assert_eq!(read(line, "val_bpb"), None, "{line}");
    }
}

#[test]
fn the_unit_of_a_number_may_be_a_field_of_its_own() {
    for (line, expected) in [
        (r#"{"name":"latency","value":980,"unit":"ms"}"#, "980 ms"),
        (r#"{"unit": "MB", "value": 12, "key": "latency"}"#, "12 MB"),
        ("{'metric': 'latency', 'value': '1.2 s', 'unit': 'ms'}", "1.2 s"),
        (r#"{"metric": "latency", "value": 12, "unit": "B"}"#, "12 B"),
        (r#"{"metric": "latency", "value": 12, "unit": "1"}"#, "12"),
        (r#"{"metric": "latency", "value": 12, "unit": null, "meta": {"unit": "s"}}"#, "12"),
        (r#"[{"name":"a","value":1,"unit":"s"},{"name":"latency","value":12}]"#, "12"),
    ] {
        let at = line.find("latency").unwrap();
        let right = &line.as_bytes()[at + "latency".len()..];
        let Some(Reading::Value(_, MetricMention::Number(number))) =
            reading_between("latency", &line.as_bytes()[..at], right, false)
        else {
            panic!("no number in {line}");
        };
        assert_eq!(format!("{number:#}"), expected, "{line}");
    }
}
