//! The report as it is read, of sessions that are made of records.

use std::collections::BTreeMap;
use std::sync::Arc;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::*;
use crate::domain::{Direction, Layout, Outcome, Record, Spent};
use crate::ledger::{self, ReadOptions};
use crate::report::{Column, columns, experiments_grid, record_grid};
use crate::rules::sample::{record, run};
use crate::rules::{History, OtherBaseline, SessionFacts};

fn clock() -> Clock {
    Clock::Fixed("2026-11-21T08:00:00Z".parse().unwrap())
}

/// A session of records with these fields: each has a commit, took five minutes and was started 20 minutes after the one
/// before it.
fn history(records: impl IntoIterator<Item = Value>) -> History {
    let made = (0..).zip(records).map(|(id, fields): (u32, Value)| {
        let (hour, minute) = (22 + id / 3, id % 3 * 20);
        let at = |minute: u32| format!("2026-11-{}T{:02}:{minute:02}:00Z", 20 + hour / 24, hour % 24);
        let value = fields.get("value").map(|value| value.as_str().unwrap().parse::<f64>().unwrap());
        let mut all = json!({
            "id": id, "commit": format!("{:02x}", if id == 0 { 0xb0 } else { id }).repeat(20), "started": at(minute), "finished": at(minute + 10),
            "runs": [run(300.0, value)], "agent": {"command": "agent", "seconds": 240.0},
            "environment": {"host": "box", "gpu": "H100", "gpus": 1, "driver": "550", "lockfile": null},
        });
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        record(all)
    });
    History::new(made.collect())
}

fn rich() -> (History, SessionFacts) {
    rich_with_idle(600.0)
}

/// The same with so many seconds between two loops.
fn rich_with_idle(nobody: f64) -> (History, SessionFacts) {
    let keep = |value: &str, what: &str| json!({"value": value, "description": what});
    let discard = |value: &str, what: &str, reason: &str| json!({"outcome": "discard", "value": value, "description": what, "reason": reason});
    let crash = |class: &str, what: &str, excerpt: &str| {
        json!({"outcome": "crash", "failure": {"class": class, "excerpt": excerpt}, "description": what,
            "reason": "the run failed (exit 1 after 12.0 s)"})
    };
    let long = "warm up for five percent of the steps and cool down for half of them, as a cosine";
    let escape = "\u{1b}[5;35mred\u{7} <script>alert(1)</script>\tand | more";
    let mut upgraded = keep("0.5", "count the validation set twice");
    upgraded["environment"] = json!({"host": "box", "gpu": "H100", "gpus": 1, "driver": "560", "lockfile": null});
    upgraded["waits"] = json!({"idle_calls": 60.0, "nobody": nobody});
    let history = history([
        json!({"value": "0.9979", "description": "baseline", "agent": null}),
        keep("0.9860", "halve the batch"),
        discard("0.9863", long, "loss 0.9863 is worse"),
        keep("0.9818", escape),
        crash("oom", "depth 40", "step 1\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20 MiB\n"),
        crash("oom", "depth 30", "torch.OutOfMemoryError: CUDA out of memory.\u{1b}[0m Tried to allocate 2.00 GiB\n"),
        crash("nan", "rate 10", "lr: 10\n"),
        keep("0.9809", "SSSSL window"),
        discard("0.9790", "no residuals", "loss 0.9790 is better than 0.9809, but memory_gb 81 > 80"),
        keep("0.9803", "rope base 200K"),
        keep("0.9799", "你好"),
        upgraded,
    ]);
    let baseline = history.records()[0].clone();
    let elsewhere = |tag: &str, number: &str| OtherBaseline {
        tag: tag.into(),
        commit: baseline.commit.clone(),
        numbers: vec![number.parse().unwrap()],
        environment: baseline.origin.environment.clone(),
    };
    let course = SessionFacts {
        program: None,
        repository: None,
        flagged: vec![8.into()],
        ended: Some("the session reached its limit of 11 experiments".into()),
        agent_timeout: None,
        changed: Vec::new(),
        elsewhere: vec![elsewhere("nov18", "0.9982"), elsewhere("nov19", "0.9976")],
        checks: Vec::new(),
        tip: Some(history.records()[10].commit.clone()),
        spent: Spent::default(),
        layout: None,
        has_reviewer: false,
        saved: 1,
        hidden: Arc::default(),
        seals_runs: false,
    };
    (history, course)
}

fn report(history: &History, course: SessionFacts) -> Report {
    Report::of_session("nov20", ("loss", Direction::Lower), None, Arc::new(history.clone()), course)
}

fn shown(report: &Report, width: Option<u16>) -> String {
    let text = render_report(report, Format::Table, width, Glyphs::Unicode, clock());
    anstream::adapter::strip_str(&text).to_string()
}

#[test]
fn the_best_number_has_its_unit() {
    let timed = |id: u32, value: &str| {
        let metric = json!({"name": "latency", "direction": "lower", "value": value.parse::<f64>().unwrap(), "raw": value, "unit": "ms"});
        record(json!({"id": id, "metric": metric}))
    };
    let history = Arc::new(History::new(vec![timed(0, "15.0"), timed(1, "12.5")]));
    let report = Report::of_session("t", ("latency", Direction::Lower), None, history, SessionFacts::default());
    assert!(report.headline().starts_with("latency 15.0 → 12.5 ms, better by 2.5 (17%)"), "{}", report.headline());
    assert!(report.best().is_some_and(|best| describe(best).starts_with("12.5 ms  experiment 1")));
}

#[test]
fn a_pause_between_nights_is_named_and_lowers_no_rate() {
    let (history, course) = rich_with_idle(7200.0);
    for (layout, time) in [(None, "3 h 50 min until "), (Some(Layout::of(1)), "3 h 50 min (2 h idle) until ")] {
        let report = report(&history, SessionFacts { layout, ..course.clone() });
        assert!(report.headline().contains("in 11 experiments, 3 h 50 min (2 h idle), "), "{}", report.headline());
        assert!(shown(&report, None).contains(&format!("\ntime         {time}")));
        let times = &serde_json::to_value(&report).unwrap()["times"];
        assert_eq!((&times["hours"], &times["idle_hours"]), (&json!(23.0 / 6.0), &json!(2.0)));
        assert_eq!(times["per_hour"], json!(11.0 / (23.0 / 6.0 - 2.0)));
    }
    let mut records = history.records().to_vec();
    records[5].origin.agent = None;
    let report = report(&History::new(records), course);
    assert_eq!(serde_json::to_value(&report).unwrap()["times"]["per_hour"], json!(11.0 / (23.0 / 6.0)));
}

#[test]
fn a_night_reads_well_at_80_columns() {
    let (history, course) = rich();
    let text = shown(&report(&history, course), Some(80));
    assert_snapshot!(text, @r#"
loss 0.9979 → 0.5, better by 0.4979 (50%), in 11 experiments, 3 h 50 min (10 min
  idle), 1.0 GPU hours

session      nov20
metric       loss, lower is better
best         0.5  experiment 11 (0b0b0b0b): count the validation set twice
baseline     0.9979  experiment 0 (b0b0b0b0): baseline
experiments  12 rows: 7 keep, 2 discard, 3 crash
keep rate    55% without the baseline; longest streak without a keep 3, 4 to 6
gain         0.045 for each experiment, 0.50 for each GPU-hour
time         3 h 50 min until 01:50, 6 h ago; runs 26%, agent 20%, idle 4%, rest
             50%; 3.0 experiments per hour
ended        the session reached its limit of 11 experiments

loss (lower is better)
   │
1.0┤●──────●──────·─────●───────────────────────────●──────·─────●──────●──────┐
   │                                                                           │
   │                                                                           │
0.8┤                                                                           │
   │                                                                           │
   │                                                                           │
0.6┤                                                                           │
   │                                                                           │
   │                                                                           ●
   │
   │                           ×      ×      ×
   └────────────────────────────────────────────────────────────────────────────
    0             2            4             6             8           10
● 7 kept   · 2 not kept   × 3 crashed

kept experiments and their gains
 #  commit      loss     gain  relative  GPU-hours  what
 0  b0b0b0b0  0.9979                         0.083  baseline
 1  01010101  0.9860  +0.0119      1.2%      0.083  halve the batch
 3  03030303  0.9818  +0.0042     0.43%       0.17  red <script>alert(1)</scrip…
 7  07070707  0.9809  +0.0009    0.092%       0.33  SSSSL window
 9  09090909  0.9803  +0.0006    0.061%       0.17  rope base 200K
10  0a0a0a0a  0.9799  +0.0004    0.041%      0.083  你好
11  0b0b0b0b     0.5  +0.4799       49%      0.083  count the validation set tw…

near misses: better but not kept, or within the spread of 0.00084
#  commit      loss     gain  over  what
8  08080808  0.9790  +0.0019     7  no residuals
2  02020202  0.9863  -0.0003     1  warm up for five percent of the steps and c…
  8: loss 0.9790 is better than 0.9809, but memory_gb 81 > 80

what failed
class  times  newest  earlier  message
oom        2       5  4        torch.OutOfMemoryError: CUDA out of memory. Trie…
nan        1       6           the run failed (exit 1 after 12.0 s)

measured more than once
  the baseline, again in nov18, nov19: 3 measurements, 0.9976 to 0.9982,
  standard deviation 0.00030
  spread 0.00084: two measurements of the same code differ by less than this in
  19 of 20 cases (2.8 standard deviations)

warnings
  2 of 6 keeps gained no more than the spread of 0.00084: 9 and 10
    `ar run --tag nov20-again --min-delta 0.00084`, with its other terms, keeps
    only what gains more
  experiment 11 gained 533 times the median of the keeps before it
    read its diff with `ar show 11 --tag nov20`: does it still measure the same
    thing?
  driver 550 → 560 from experiment 11 on: numbers before and after are not
  comparable
    `ar run --tag nov20-again`, with its other terms, measures a new baseline
    here
  20% of the time was waiting for the agent (45 min)
    use a faster model: `ar resume nov20 --agent COMMAND`
  flagged for review after experiment 8: no recent keeps
    give the agent something new to try with `ar idea add TEXT`
  the branch is at 0a0a0a0a…, which is not experiment 11
    run `ar doctor nov20` for the fix
  saved unfinished or uncommitted work 1 time
    list it with `git for-each-ref refs/autoresearch/nov20/saved`
"#);
}

#[test]
fn no_line_is_wider_than_the_terminal_and_no_text_acts_on_it() {
    let (history, course) = rich();
    let report = report(&history, course);
    for width in [40, 60, 80, 132, 200] {
        let text = shown(&report, Some(width));
        let wide: Vec<_> = text.lines().filter(|line| columns(line) > usize::from(width)).collect();
        assert!(wide.is_empty(), "{width}: {wide:#?}");
    }
    for format in [Format::Table, Format::Md, Format::Csv, Format::Json] {
        let text = render_report(&report, format, Some(80), Glyphs::Unicode, clock());
        assert!(!text.contains("\u{1b}[5"), "{format:?}: {text}");
        // The report's own styles.
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert!(!plain.contains(|c: char| c.is_control() && c != '\n'), "{format:?}: {plain}");
    }
    let markdown = render_report(&report, Format::Md, None, Glyphs::Unicode, clock());
    assert!(markdown.contains("&lt;script>") && !markdown.contains("<script>"), "{markdown}");
}

#[test]
fn little_is_said_of_a_short_session() {
    let baseline = || {
        json!({"value": "0.9979", "description": "baseline", "agent": null, "environment": {
        "host": "box", "gpu": null, "driver": null, "lockfile": null}})
    };
    let alone = history([baseline()]);
    assert_snapshot!(shown(&report(&alone, SessionFacts::default()), Some(80)), @r#"
loss 0.9979, the baseline only, 10 min

session      nov20
metric       loss, lower is better
baseline     0.9979  experiment 0 (b0b0b0b0): baseline
experiments  1 row: 1 keep, 0 discard, 0 crash
time         10 min until 22:10 on Nov 20, 9 h ago; runs 50%, rest 50%

loss (lower is better)
     │
     │
1.005┤
     │
1.000┤
     │●─────────────────────────────────────────────────────────────────────────
     │
0.995┤
     │
     │
0.990┤
     │
     └──────────────────────────────────────────────────────────────────────────
      0
● 1 kept
"#);
    let crashed = history([
        baseline(),
        json!({"outcome": "crash", "reason": "the deadline passed (ended by ar after 600.0 s)",
        "failure": {"class": "timeout"}, "description": "eight layers", "runs": []}),
    ]);
    assert_snapshot!(shown(&report(&crashed, SessionFacts::default()), Some(80)), @r#"
loss 0.9979, no improvement in 1 experiment, 30 min

session      nov20
metric       loss, lower is better
baseline     0.9979  experiment 0 (b0b0b0b0): baseline
experiments  2 rows: 1 keep, 0 discard, 1 crash
keep rate    0% without the baseline
time         30 min until 22:30 on Nov 20, 9 h ago; runs 17%, agent 13%, rest
             70%; 2.0 experiments per hour

loss (lower is better)
     │
1.005┤
     │
     │
1.000┤
     │●─────────────────────────────────────────────────────────────────────────
0.995┤
     │
     │
0.990┤
     │
     │                                                                         ×
     └──────────────────────────────────────────────────────────────────────────
      0                                                                        1
● 1 kept   × 1 crashed

what failed
class    times  newest  earlier  message
timeout      1       1           the deadline passed (ended by ar after 600.0 s)

warnings
  13% of the time was waiting for the agent (4 min)
    use a faster model: `ar resume nov20 --agent COMMAND`
"#);
    let none = shown(&report(&History::default(), SessionFacts::default()), Some(80));
    assert!(none.starts_with("no experiments\n\nsession      nov20\n"), "{none}");
}

#[test]
fn a_ledger_is_told_with_what_it_has() {
    let of = |text: &str| shown(&Report::of_ledger(ledger::read(text.as_bytes(), &ReadOptions::default())), Some(80));
    let text = "commit\ttok_s\tstatus\tdescription\naaaaaaa\t5.62\tkeep\tbaseline\nbbbbbbb\t5.97\tkeep\tFMA\n\
                ccccccc\t5.90\tdiscard\ttiles\nddddddd\t6.30\tkeep\thalf\nonly one field\n";
    assert_snapshot!(of(text), @r#"
tok_s 5.62 → 6.30, better by 0.68 (12%), in 3 experiments

metric       tok_s, higher is better
best         6.30  experiment 3 (ddddddd): half
baseline     5.62  experiment 0 (aaaaaaa): baseline
experiments  5 rows: 3 keep, 1 discard, 0 crash, 1 malformed
keep rate    67% without the baseline
gain         0.23 for each experiment

tok_s (higher is better)
6.4┤
   │                                                                           ●
   │                                                                           │
6.2┤                                                                           │
   │                                                                           │
6.0┤                         ●─────────────────────────────────────────────────┘
   │                         │                        ·
5.8┤                         │
   │                         │
   │                         │
5.6┤●────────────────────────┘
   │
   └────────────────────────────────────────────────────────────────────────────
    0                        1                        2                        3
● 3 kept   · 1 not kept

kept experiments and their gains
#  commit   tok_s   gain  relative  share  what
0  aaaaaaa   5.62                          baseline
1  bbbbbbb   5.97  +0.35      6.2%    51%  FMA
3  ddddddd   6.30  +0.33      5.5%    49%  half

near misses: better but not kept, or within 0.34, the median gain of a keep
#  commit   tok_s   gain  over  what
2  ccccccc   5.90  -0.07     1  tiles

warnings
  1 row cannot be read and is left out

assumed
  higher is better, as the name `tok_s` says; `--lower` says otherwise
"#);
    assert!(of("").starts_with("no experiments\n"), "{}", of(""));
    assert!(of("commit\tloss\tstatus\tdescription\n-\tnan\tcrash\tx\n").starts_with("no number of loss\n"));
    let unknown = of("id\tdate\tstatus\nx\ty\tkeep\n");
    let assumed = "\nassumed      no column looks like the metric; `--metric NAME` names it\n";
    assert!(unknown.starts_with(&format!("no number of value\n{assumed}")), "{unknown}");
    let between = of("commit\tloss\tstatus\na\t1\tkeep\nb\t2\tdiscard\nc\t2\todd\nd\t2\tdiscard\n");
    assert!(between.contains("keep 2, 1 to 3\n             with 1 other row between\n"), "{between}");
}

#[test]
fn numbers_without_a_wall_are_counted_in_a_session_whose_records_have_walls() {
    let (history, course) = rich();
    let of = |walls: &[(usize, &str)]| {
        let mut records = history.records().to_vec();
        for (place, wall) in walls {
            records[*place].proof.sandbox = Some(serde_json::from_value(json!(wall)).unwrap());
        }
        let report = report(&History::new(records), course.clone());
        let document = serde_json::to_value(&report).unwrap();
        let markdown = render_report(&report, Format::Md, None, Glyphs::Unicode, clock());
        let page = crate::report::html_report(&report, &[], clock());
        (document, [shown(&report, None), markdown, page])
    };
    let (document, texts) = of(&[]);
    assert_eq!((document.get("sandbox"), document["experiments"][1].get("sandbox")), (None, None));
    assert!(texts.iter().all(|text| !text.contains(" wall")));

    let (document, texts) = of(&[(0, "bwrap"), (1, "bwrap")]);
    assert_eq!(document["sandbox"], json!({"bwrap": 2, "none": 0}));
    assert!(texts.iter().all(|text| !text.contains(" wall")));

    // The fourth one crashed.
    let (document, texts) = of(&[(0, "bwrap"), (1, "none"), (2, "bwrap"), (3, "none"), (4, "none")]);
    assert_eq!(document["sandbox"], json!({"bwrap": 2, "none": 2}));
    assert_eq!(document["experiments"][1]["sandbox"], "none");
    let kinds = document["warnings"].as_array().unwrap().iter().filter(|warning| warning["kind"] == "without_wall");
    assert_eq!(kinds.count(), 1);
    for text in texts {
        assert!(text.contains("2 of 4 numbers were measured without a wall: "), "{text}");
    }
}

#[test]
fn an_experiment_is_shown_with_its_wall() {
    let (history, _) = rich();
    let mut record = history.records()[1].clone();
    let fields = |record: &Record| record_grid(record, None, None, None, &[], None).to_csv();
    assert!(!fields(&record).contains("sandbox"));
    record.proof.sandbox = Some(serde_json::from_value(json!("bwrap")).unwrap());
    assert!(fields(&record).contains("\nsandbox,bwrap\n"));
}

#[test]
fn each_field_of_the_document_is_described() {
    let (history, course) = rich();
    let mut records = history.records().to_vec();
    records[1].proof.sandbox = Some(serde_json::from_value(json!("none")).unwrap());
    let history = History::new(records);
    let Value::Object(document) = serde_json::to_value(report(&history, course)).unwrap() else { panic!("an object") };
    let described = include_str!("../../docs/report.md");
    for name in document.keys() {
        assert!(described.contains(&format!("\n- `{name}`")), "docs/report.md says nothing of `{name}`");
    }
}

#[test]
fn a_session_of_several_at_once_tells_its_trains_and_slots() {
    let train = json!({"last": 4, "members": [2, 5, 4]});
    let run = |minute: u32, seconds: f64, commit: Option<&str>, value: Option<f64>| {
        json!({"command": "sh train.sh", "seed": null, "started": format!("2026-11-20T22:{minute:02}:00Z"),
            "seconds": seconds, "exit": 0, "signal": null, "value": value, "commit": commit})
    };
    let shared = "14".repeat(20);
    let of = |id: u32, sequence: u32, slot: u32, runs: Vec<Value>, more: Value| {
        let mut fields = json!({"id": id, "commit": format!("{:02}", id + 10).repeat(20), "sequence": sequence, "slot": slot,
            "runs": runs, "agent": {"command": "agent", "seconds": 240.0}, "finished": "2026-11-20T22:25:00Z"});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        record(fields)
    };
    let base = run(0, 300.0, None, Some(2.0));
    let history = History::new(vec![
        of(0, 0, 0, vec![base.clone(), base], json!({"value": "2.0", "description": "baseline"})),
        of(3, 1, 0, vec![run(5, 300.0, None, None)], json!({"value": "1.8", "description": "halve the batch"})),
        of(
            1,
            2,
            1,
            vec![run(5, 300.0, None, None)],
            json!({"outcome": "discard", "value": "2.1", "description": "width"}),
        ),
        of(
            2,
            3,
            0,
            vec![run(10, 300.0, Some("0202"), None), run(20, 300.0, Some(&shared), None)],
            json!({"description": "warm up", "train": train}),
        ),
        of(
            5,
            4,
            0,
            vec![run(10, 240.0, Some("0505"), None), run(20, 300.0, Some(&shared), None)],
            json!({"description": "decay", "train": train}),
        ),
        of(
            4,
            5,
            0,
            vec![run(15, 240.0, Some("0404"), None), run(20, 300.0, None, None)],
            json!({"value": "1.5", "description": "cosine", "train": train}),
        ),
    ]);
    let course = SessionFacts { layout: Some(Layout::of(2)), ..SessionFacts::default() };
    let report = report(&history, course);
    let text = shown(&report, Some(80));
    let (facts, sections) = (text.split("\nloss (").next().unwrap(), text.split("\nkept exp").nth(1).unwrap());
    assert_snapshot!(format!("{facts}\nkept exp{sections}"), @r#"
loss 2.0 → 1.5, better by 0.5 (25%), in 5 experiments, 25 min

session      nov20
metric       loss, lower is better
best         1.5  experiment 4 (14141414): cosine
baseline     2.0  experiment 0 (10101010): baseline
experiments  6 rows: 5 keep, 1 discard, 0 crash
keep rate    80% without the baseline
gain         0.10 for each experiment, 0.79 for each run hour
time         25 min until 22:25 on Nov 20, 9 h ago; 12 experiments per hour
slots        2, busy 76% of the time

kept experiments and their gains
#  commit      loss  gain  relative  share  run hours  what
0  10101010     2.0                              0.17  baseline
3  13131313     1.8  +0.2       10%    40%      0.083  halve the batch
2  12121212  with 4                              0.17  warm up
5  15151515  with 4                             0.067  decay
4  14141414     1.5  +0.3       17%    60%       0.15  cosine
  the gain of a train is that of all its changes together

measured more than once
  the baseline: 2 measurements, 2.0 to 2.0, standard deviation 0
  the same code gave the same value each time

slots
slot  runs    busy  share  last
   0     5  24 min    96%     4
   1     3  14 min    56%     5
"#);
    let all: Vec<&Record> = history.records().iter().collect();
    let columns = ["id", "value", "gain"].map(|name| Column::named(name, &history).unwrap());
    let log = |screen| experiments_grid(&history, &all, None, &BTreeMap::new(), &columns, screen).to_csv();
    assert_eq!(log(None), "#,loss,gain\n0,2.0,\n3,1.8,+0.2\n1,2.1,-0.3\n2,,\n5,,\n4,1.5,+0.3\n");
    assert!(log(Some(clock())).contains("\n2,with 4,\n"));
    let document = serde_json::to_value(&report).unwrap();
    assert_eq!(document["slots"], json!({"count": 2, "busy_share": 2280.0 / 3000.0}));
    assert_eq!(document["gain_per_gpu_hour"], json!(0.5 / (2280.0 / 3600.0)));
    assert_eq!((&document["experiments"][3]["number_of"], &document["time_split"]), (&json!(4), &Value::Null));
    assert_eq!(document["experiments"][5].get("number_of"), None);
    let markdown = render_report(&report, Format::Md, None, Glyphs::Unicode, clock());
    assert!(markdown.contains("| 2 | 12121212 | with 4 |"), "{markdown}");
    let page = crate::report::html_report(&report, &[], clock());
    assert!(page.contains("with 4"), "{page}");
    assert_eq!(page.matches("<title>experiment ").count(), 6 + 8, "marks of the chart and bars of runs");
}

#[test]
fn a_keep_is_told_with_what_it_cost_and_what_else_changed() {
    let log = |steps: f64, size: f64| json!({"num_steps": steps, "num_params_M": size, "eval_steps": steps});
    let history = history([
        json!({"value": "2.0", "description": "baseline", "agent": null, "metrics": log(950.0, 50.3)}),
        json!({"outcome": "discard", "value": "2.1", "description": "width", "metrics": log(400.0, 90.0)}),
        json!({"value": "1.9", "description": "a faster kernel", "metrics": log(1235.0, 50.3)}),
        json!({"value": "1.8", "description": "deeper", "metrics": log(1198.0, 56.4)}),
        json!({"value": "1.7", "description": "schedule", "metrics": log(1199.0, 56.4)}),
        json!({"outcome": "discard", "value": "1.9", "description": "no decay", "metrics": log(2400.0, 56.4)}),
    ]);
    let report = report(&history, SessionFacts::default());
    let text = shown(&report, None);
    let section = text.split("\nkept exp").nth(1).unwrap().split("\n\n").next().unwrap();
    assert_snapshot!(format!("kept exp{section}"), @r#"
kept experiments and their gains
#  commit    loss  gain  relative  share  GPU-hours  what
0  b0b0b0b0   2.0                             0.083  baseline
2  02020202   1.9  +0.1      5.0%    33%       0.17  a faster kernel
3  03030303   1.8  +0.1      5.3%    33%      0.083  deeper
4  04040404   1.7  +0.1      5.6%    33%      0.083  schedule
  experiment 2 came with steps +30%
  experiment 3 came with parameters +12%
  0.083 GPU-hours since the last keep
"#);
    assert!(text.contains("\ngain         0.060 for each experiment, 0.60 for each GPU-hour\n"), "{text}");
    let document = serde_json::to_value(&report).unwrap();
    let kept = document["kept"].as_array().unwrap();
    let of = |field: &str| kept.iter().map(|keep| keep[field].clone()).collect::<Vec<_>>();
    assert_eq!(of("gpu_hours"), [300.0, 600.0, 300.0, 300.0].map(|seconds| json!(seconds / 3600.0)));
    let steps =
        json!({"what": "steps", "name": "num_steps", "from": 950.0, "to": 1235.0, "change": 1235.0 / 950.0 - 1.0});
    let size =
        json!({"what": "parameters", "name": "num_params_M", "from": 50.3, "to": 56.4, "change": 56.4 / 50.3 - 1.0});
    assert_eq!(of("confounds"), [json!([]), json!([steps]), json!([size]), json!([])]);
    assert_eq!(document["gain_per_experiment"], json!((2.0 - 1.7) / 5.0));
    let line = "experiment 2 came with steps +30%";
    let markdown = render_report(&report, Format::Md, None, Glyphs::Unicode, clock());
    assert!(markdown.contains(&format!("- {line}\n")) && markdown.contains("| GPU-hours |"), "{markdown}");
    let page = crate::report::html_report(&report, &[], clock());
    assert!(page.contains(&format!("<li>{line}</li>")) && page.contains("GPU-hours</th>"), "{page}");
    let ledger = ledger::read(b"commit\tloss\tstatus\na\t2\tkeep\nb\t1\tkeep\n", &ReadOptions::default());
    let document = serde_json::to_value(Report::of_ledger(ledger)).unwrap();
    assert_eq!((&document["kept"][1]["gpu_hours"], &document["kept"][1]["confounds"]), (&Value::Null, &json!([])));
}

#[test]
fn a_keep_is_shown_with_what_changed_since_the_experiment_that_it_had_to_beat() {
    let of = |id: u32, steps: u32| record(json!({"id": id, "value": "1.0", "metrics": {"num_steps": steps}}));
    let fields = |id: u32, before: &Record| record_grid(&of(id, 1250), None, Some(before), None, &[], None).to_csv();
    assert!(fields(7, &of(3, 1000)).contains("\nconfounds,\"steps +25%, compared with experiment 3\"\n"));
    assert!(fields(7, &of(0, 1000)).contains("\nconfounds,\"steps +25%, compared with the baseline\"\n"));
    assert!(!fields(7, &of(3, 1249)).contains("confounds"));
    let discarded = Record { outcome: Outcome::Discard, ..of(8, 1250) };
    assert!(!record_grid(&discarded, None, Some(&of(3, 1000)), None, &[], None).to_csv().contains("confounds"));
}
