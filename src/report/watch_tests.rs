use std::sync::Arc;

use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::domain::{Layout, Phase, Spent};
use crate::report::{OwnerStatus, PauseStatus};
use crate::rules::{Activity, AttemptStatus, LanesStatus, lanes_status};

/// A hostile description or log line: escapes that a terminal obeys, line breaks, and marks that reverse text.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31mred\r\nnext\u{202e}txet\u{8}";

fn record(id: u32, outcome: &str, value: Option<&str>, description: &str) -> Record {
    let number = value.map(|value| value.parse::<f64>().unwrap());
    let failure = (outcome == "crash").then(|| json!({"class": "oom", "excerpt": ""}));
    let run = json!({"command": "c", "seed": null, "started": "2025-11-20T01:00:00Z", "seconds": 300.0, "exit": 0,
        "signal": null, "value": number});
    serde_json::from_value(json!({
        "version": 1, "id": id, "tag": "nov20", "commit": format!("{:040x}", id + 1), "base": "b",
        "description": description, "direction": null, "outcome": outcome, "failure": failure, "reason": "",
        "metric": {"name": "val_bpb", "direction": "lower", "value": number, "raw": value}, "metrics": {},
        "memory_gb": 14.25, "runs": [run], "diff": {"files": 0, "added": 0, "deleted": 0}, "agent": null,
        "environment": {"host": "", "gpu": null, "driver": null, "lockfile": null},
        "started": "2025-11-20T01:00:00Z", "finished": "2025-11-20T01:00:00Z",
    }))
    .unwrap()
}

fn status(records: Vec<Record>) -> SessionStatus {
    SessionStatus {
        elsewhere: None,
        night: None,
        left: (None, None),
        spent: Spent::default(),
        tag: "nov20".parse().unwrap(),
        worktree: None,
        activity: Activity::Running,
        is_fetched: false,
        ended: None,
        outage: None,
        pause: PauseStatus::default(),
        escalation: None,
        report: None,
        attempts: vec![AttemptStatus {
            id: (records.len() as u32).into(),
            phase: Phase::Running,
            slot: None,
            seat: None,
            trial: None,
            since: None,
            description: "warm up longer".into(),
            is_again: false,
            elapsed: Some(61.0),
            deadline: Some(600.0),
            is_of_baseline: false,
            fresh: None,
            tainted: 0,
            queued: None,
            engine_away: None,
            newest: Some(Number::new(1.75, "1.75")),
        }],
        lanes: LanesStatus::default(),
        driver: None,
        owner: Some(OwnerStatus {
            process: Some(123),
            said: "process 123 with session nov20".into(),
            at_work: Some(3725.0),
        }),
        stopping: None,
        last_seen: Some(("2025-11-20T03:00:00Z".parse().unwrap(), 2.0)),
        log: Some(PathBuf::from("/home/u/repo/.autoresearch/nov20/runs/00012/run.log")),
        contract: None,
        history: Arc::new(History::new(records)),
        unrecorded_tip: None,
        damage: Vec::new(),
    }
}

#[test]
fn several_experiments_at_once_have_a_line_each() {
    let mut status = night();
    let first = status.attempts.remove(0);
    let open = |id: u32, phase, slot, seat| AttemptStatus { id: id.into(), phase, slot, seat, ..first.clone() };
    status.attempts = vec![
        open(12, Phase::Waiting, Some(0), None),
        open(13, Phase::Running, Some(1), None),
        open(14, Phase::Committing, None, None),
        open(15, Phase::Proposing, None, Some(0)),
        AttemptStatus { fresh: Some(1), ..open(16, Phase::Confirming, Some(2), None) },
    ];
    let lanes = lanes_status(&status.history, Some(&Layout::of(3)), &status.attempts, &[], &[], None);
    status.lanes = LanesStatus { busy_share: Some(0.97), ..lanes };
    let report = status.report();
    let scene = Scene { status: &status, report: &report, log: &[], gpus: &[], trouble: None };
    let lines: Vec<String> = draw(&scene, Scroll::default(), 80, 50, Glyphs::Ascii)
        .lines
        .iter()
        .map(|line| line.spans.iter().map(|span| span.content.as_ref()).collect())
        .collect();
    assert!(lines[0].contains("running experiments 13 and 16; agents propose experiment 15"), "{lines:#?}");
    let table = lines.iter().position(|line| line.trim_start().starts_with("#  outcome")).unwrap();
    let steps: Vec<&str> = lines[table + 1..table + 7].iter().map(|line| line[4..12].trim()).collect();
    assert_eq!(steps, ["slot 1", "slot 2", "seat 0", "waits", "ready", "discard"], "{lines:#?}");
    assert!(lines[table + 2].contains("confirm 2 of 4: warm up longer"), "{lines:#?}");
}

/// A session of twelve experiments.
fn night() -> SessionStatus {
    let values = ["2.10", "2.05", "2.08", "x", "1.98", "2.01", "1.9741", "2.20", "x", "1.99", "1.9512", "1.9600"];
    let kept = [0, 1, 4, 6, 10];
    status(
        (0..)
            .zip(values)
            .map(|(id, value)| match value {
                "x" => record(id, "crash", None, "twice the width"),
                value if kept.contains(&id) => {
                    record(id, "keep", Some(value), "half the batch size, and a longer warm-up")
                }
                value => record(id, "discard", Some(value), "another schedule"),
            })
            .collect(),
    )
}

fn screen(status: &SessionStatus, scroll: Scroll, (width, height): (u16, u16), glyphs: Glyphs) -> Screen {
    let log: Vec<String> = (1..=20).map(|step| format!("\tstep {step}: loss 2.{step}")).collect();
    let gpus = [GpuLoad { name: "NVIDIA H100".into(), used: 36 << 30, total: 80 << 30, percent: Some(97) }];
    let scene = Scene { status, report: &status.report(), log: &log, gpus: &gpus, trouble: None };
    draw(&scene, scroll, width, height, glyphs)
}

fn text(screen: &Screen) -> String {
    screen.lines.iter().map(Line::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_night_on_the_screens_that_people_have() {
    for (name, size) in [("80x24", (80, 24)), ("200x50", (200, 50)), ("40x10", (40, 10)), ("20x5", (20, 5))] {
        insta::assert_snapshot!(name, text(&screen(&night(), Scroll::default(), size, Glyphs::Unicode)));
    }
}

#[test]
fn a_screen_has_the_size_that_it_is_given_whatever_there_is_to_show() {
    let hostile = status(vec![record(0, "keep", Some("2.0"), HOSTILE), record(1, "crash", None, &"名".repeat(300))]);
    for status in [&status(Vec::new()), &night(), &hostile] {
        for (width, height) in
            (0..130).step_by(13).flat_map(|width| (0..60).step_by(4).map(move |height| (width, height)))
        {
            for glyphs in [Glyphs::Unicode, Glyphs::Ascii] {
                let screen = screen(status, Scroll { top: Some(1.into()) }, (width, height), glyphs);
                assert_eq!(screen.lines.len(), usize::from(height));
                assert!(screen.lines.iter().all(|line| line.width() <= usize::from(width.max(1))), "{screen:#?}");
            }
        }
    }
}

#[test]
fn nothing_that_others_wrote_acts_on_the_terminal() {
    let mut status = status(vec![record(0, "keep", Some("2.0"), HOSTILE)]);
    status.damage = vec![HOSTILE.into()];
    status.ended = Some(HOSTILE.into());
    if let Some(open) = status.attempts.first_mut() {
        open.description = HOSTILE.into();
    }
    let scene = Scene {
        status: &status,
        report: &status.report(),
        log: &[HOSTILE.to_owned()],
        gpus: &[],
        trouble: Some(HOSTILE),
    };
    for glyphs in [Glyphs::Unicode, Glyphs::Ascii] {
        let screen = draw(&scene, Scroll::default(), 100, 30, glyphs);
        let text = text(&screen);
        assert!(text.matches("next").count() > 5, "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{text}");
        assert!(glyphs == Glyphs::Unicode || text.is_ascii(), "{text}");
    }
}

#[test]
fn what_is_in_view_stays_there_when_newer_experiments_come() {
    let ids = |status: &SessionStatus, scroll| -> Vec<u32> {
        let screen = screen(status, scroll, (80, 24), Glyphs::Unicode);
        let numbers = screen.lines.iter().filter_map(|line| {
            let line = line.to_string();
            line.contains("  keep  ")
                .then_some(())
                .or_else(|| line.contains("  discard  ").then_some(()))
                .or_else(|| line.contains("  crash  ").then_some(()))?;
            line.split_whitespace().next()?.parse().ok()
        });
        numbers.collect()
    };
    let mut status = night();
    let page = screen(&status, Scroll::default(), (80, 24), Glyphs::Unicode).page;
    assert_eq!(ids(&status, Scroll::default())[0], 11);
    let down = Scroll::default().by(3, &status.history, page);
    assert_eq!(ids(&status, down)[0], 8);
    let mut records = status.history.records().to_vec();
    records.push(record(12, "discard", Some("2.0"), "new"));
    status.history = Arc::new(History::new(records));
    assert_eq!((ids(&status, down)[0], ids(&status, Scroll::default())[0]), (8, 12));
    let end = down.by(isize::MAX, &status.history, page);
    assert_eq!(*ids(&status, end).last().unwrap(), 0);
    assert_eq!(end.by(isize::MIN, &status.history, page), Scroll::default());
    assert_eq!(down.by(-4, &status.history, page), Scroll::default());
}

#[test]
fn a_session_without_experiments_says_so() {
    let mut empty = status(Vec::new());
    empty.attempts.clear();
    let shown = text(&screen(&empty, Scroll::default(), (80, 24), Glyphs::Ascii));
    assert!(shown.contains("no experiments yet") && shown.contains("best         none yet"), "{shown}");
}

#[test]
fn a_screen_that_grows_moves_the_view_to_what_it_has_room_for() {
    let status = night();
    let draw = |scroll, rows| screen(&status, scroll, (80, rows), Glyphs::Unicode);
    let small = draw(Scroll::default(), 24);
    let end = draw(Scroll::default().by(isize::MAX, &status.history, small.page), 24);
    let tall = draw(end.scroll, 30);
    assert!(tall.page > end.page && tall.page < 12, "{tall:#?}");
    let above = 12 - tall.page;
    assert!(text(&tall).contains(&format!("; {above} newer above")), "{tall:#?}");
    let up = draw(tall.scroll.by(-1, &status.history, tall.page), 30);
    assert!(text(&up).contains(&format!("; {} newer above", above - 1)), "{up:#?}");
    assert_eq!(draw(end.scroll, 90).scroll, Scroll::default(), "all of them");
    assert_eq!(Scroll::default().by(isize::MAX, &status.history, 0), Scroll { top: Some(ExperimentId::BASELINE) });
}
