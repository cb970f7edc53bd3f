use super::*;

/// The number of `name` in a log, or those that can be meant.
fn read(log: &str, name: &str) -> String {
    let (mut tables, mut by_lines) = (Tables::default(), Tables::default());
    let finder = memmem::Finder::new(name);
    tables.read(log.as_bytes(), &finder);
    log.split_inclusive(['\n', '\r']).for_each(|line| by_lines.read(line.as_bytes(), &finder));
    assert_eq!(by_lines.reading(), tables.reading(), "{log}");
    match tables.reading() {
        Some(Reading::Value(_, MetricMention::Number(number))) => format!("{number:#}"),
        Some(Reading::Value(_, MetricMention::NotFinite(text))) => text,
        Some(Reading::Several(numbers)) => format!("several: {}", numbers.join(" ")),
        None => String::new(),
    }
}

#[test]
fn another_table_ends_one_and_a_way_to_compute_is_no_part() {
    for log in [
        "epoch  acc\n1      0.8\n2      0.85\n\nk      recall\n3      0.5\n5      0.6\n",
        "| epoch | acc |\n|---|---|\n| 1 | 0.8 |\n| 2 | 0.85 |\n\n| class | n |\n|---|---|\n| 3 | 120 |\n",
        "epoch,acc\n1,0.8\n2,0.85\n\nnum_samples,bleu\n256,27.1\n",
    ] {
        assert_eq!(read(log, "acc"), "0.85", "{log}");
    }
    for log in [
        "| pooling | acc |\n|---|---|\n| mean | 91.2 |\n| cls | 90.1 |\n",
        "| kind | acc |\n|---|---|\n| none | 0.81 |\n| flip | 0.85 |\n| all | 0.88 |\n",
    ] {
        assert!(read(log, "acc").starts_with("several: "), "{log}");
    }
}

#[test]
fn the_last_row_counts_where_steps_rise() {
    let better = "Better model found at epoch 0 with loss value: 0.4\n";
    for log in [
        "epoch     train_loss  loss  time\n0         0.51        0.41  00:12\n1         0.31        0.35  00:11\n",
        "epoch  loss  time \r\n0      0.41  00:12\r\n\r\n1      0.35  00:11\r\nepoch 1 is done\r\n",
        &format!("epoch  loss\n0      0.41\n{better}1      0.35\n{better}"),
        "| epoch | loss |\n|-------|------|\n| 1     | 0.41 |\n| 2     | 0.35 |\n\nDone, loss and all.\n",
        "+-------+------+\n| epoch | loss |\n+-------+------+\n|   9   | 0.41 |\n+-------+------+\n|  10   | 0.35 |\n",
        "┏━━━━━━━┳━━━━━━┓\n┃ epoch ┃ loss ┃\n┡━━━━━━━╇━━━━━━┩\n│ 1     │ 0.41 │\n│ 2     │ 0.35 │\n└───────┴──────┘\n",
        "Epoch | loss | acc\n1 | 0.41 | 0.8\n2 | 0.35 | 0.9\nTraining took 3.2s\n",
        "epoch,train loss,loss\n1,0.9,0.41\n2,0.7,0.35\n3,0.7,\n",
        "\"Epoch\"\t\"Training Loss\"\t\"loss\"\n1\tNo log\t0.41\n2\t0.9\t0.35\n",
        "step loss lr\n100 0.41 1e-3\n200 0.35 1e-3\nTraining took 3.2s\n",
        "   epoch  loss\n0      1  0.41\n1      2  0.35\n",
        "epoch,step,loss\n0,10,0.41\n0,20,0.35\n",
        "Epoch  loss  Size\n1/2  0.4  640:  50%|█ | 4/8\r1/2  0.41  640: 100%|█| 8/8\nEpoch  loss  Size\n2/2  0.35  640: 100%|█|\n",
        "epoch  loss\n1      0.41\n2      -\n\nepoch  loss\n1      0.35\n2      -\n",
        "epoch  loss\n1      0.35\nepoch  acc\n2      0.9\n",
        "epoch  loss\n1      0.35\n\nepoch  loss\n",
    ] {
        assert_eq!(read(log, "loss"), "0.35", "{log}");
    }
    for (log, numbers) in [
        ("epoch  loss\n1  0.4\n2  0.3\n1  0.5\n", "0.4 0.3 0.5"),
        ("epoch  phase  loss\n1  train  0.4\n1  val  0.3\n", "0.4 0.3"),
        ("epoch,loss,time\n1,0.4,9\n2,0.3\n", "0.4 0.3"),
        ("epoch,loss\n1,0.4\n2,0.3.1\n", "0.4 0.3.1"),
        ("epoch  loss\n1  0.4\n2  0.3\nConfusion:\n10  2\n3  9\n", "0.4 0.3 2 9"),
        ("epoch  loss\n1  0.4\n2  0.3\nmean  0.35\n", "0.4 0.3 0.35"),
        ("trial  epoch  loss\n1  10  0.4\n2  20  0.3\n", "0.4 0.3"),
        ("batch,loss\n16,0.4\n32,0.3\n", "0.4 0.3"),
    ] {
        assert_eq!(read(log, "loss"), format!("several: {numbers}"), "{log}");
    }
    assert_eq!(read("epoch  loss\n1      0.41\n2      nan\n", "loss"), "nan");
}

#[test]
fn a_row_of_all_parts_counts_or_the_only_one() {
    let yolo = "   Class     Images      Box(P          R      mAP50  mAP50-95):  50%|█████| 2/4\r   \
                Class     Images      Box(P          R      mAP50  mAP50-95): 100%|█████| 4/4 [00:01]\n   \
                all        128       0.67      0.557      0.635      0.466\n   \
                train        128       0.81      0.677      0.765      0.546\n";
    assert_eq!(["mAP50", "mAP50-95", "R", "P"].map(|name| read(yolo, name)), ["0.635", "0.466", "0.557", ""]);
    let report = "            precision   recall    acc   n\n\n        0   0.95   0.97   0.96   100\n        1   \
                  0.90   0.91   0.90   100\n\naccuracy   0.94   200\nmacro avg   0.93   0.94   0.93   200\n";
    let described = "       loss    acc\ncount  100.0  100.0\nmean   0.5    0.7\nmax    0.9    0.95\n";
    for (log, number) in [
        ("| fold | acc |\n|---|---|\n| 1 | 0.91 |\n| 2 | 0.93 |\n| mean | 0.92 |\n", "0.92"),
        ("| fold | acc |\n|---|---|\n| 1 | 0.91 |\n| 2 | 0.93 |\n", "several: 0.91 0.93"),
        ("| run | acc (%) |\n|---|---|\n| ours | 91 |\n", "91%"),
        ("| run | acc |\n|---|---|\n| ours | 12.5 ± 0.3 ms |\n", "12.5 ms"),
        ("| run | acc |\n|---|---|\n| ours | 0.91 |\n| theirs | 0.92 or so |\n", "several: 0.91 0.92 or so"),
        ("| run | acc |\n|---|---|\n| ours | 0.91 |\n| theirs | x | 0.92 |\n", "several: 0.91 0.92"),
        ("| split | acc |\n|---|---|\n| train | 0.99 |\n| val | 0.9 |\n", "several: 0.99 0.9"),
        ("     acc    f1\n0    0.91  0.8\n1    0.93  0.7\nmean  0.92  0.75\n", "0.92"),
        ("| run | acc |\n|---|---|\n| ours | 120 B |\n| theirs | 12 B |\n", "several: 120 B 12 B"),
        ("   size   acc   f1\n0  12   0.91   0.8\n\nTotal  5  7\n", "0.91"),
        ("seed,acc\n0,0.9\n1,0.92\nmean,0.91\nstd,0.01\n", "0.91"),
        ("f1,acc\n0.8,0.91\n", "0.91"),
        ("AP for box:\n| acc | f1 |\n|---|---|\n| 1 | 2 |\nAP for box:\n| acc | f1 |\n|---|---|\n| 3 | 4 |\n", "3"),
        ("AP for box:\n| acc | f1 |\n|---|---|\n| 1 | 2 |\nAP for mask:\n| acc | f1 |\n|---|---|\n| 3 | 4 |\n", ""),
        (report, "several: 0.96 0.90"),
        (described, "several: 100.0 0.7 0.95"),
    ] {
        assert_eq!(read(log, "acc"), number, "{log}");
    }
}

#[test]
fn what_only_looks_like_a_table_has_no_number() {
    for log in [
        "reading acc\nstep 5\n",
        "We report loss, acc, and time\n1, 2, 3\n",
        "columns: epoch, acc\n1, 2\n",
        "objective  acc\nlayers  12\n",
        "| parameter | acc |\n|---|---|\n| weight | 0.5 |\n",
        "Baseline results:\n| run | acc |\n|---|---|\n| a | 0.5 |\n",
        "| run | acc |\n|---|---|\n| baseline | 0.5 |\n",
        "| run | acc |\n| ours | 0.5 |\n",
        "epoch  acc  acc\n1  0.5  0.6\n",
        "epoch  acc=1  f1\n1  0.5  0.6\n",
        "size  acc  f1\nthat was the header\n3  0.5  0.6\n",
        "epoch  acc_top5\n1  0.5\n",
        "epoch  acc\n1  high\n",
        "size  acc  f1\n1  0.5\n",
        "run  acc  lower upper\nours  0.5  0.4  0.6\n",
    ] {
        assert_eq!(read(log, "acc"), "", "{log}");
    }
}
