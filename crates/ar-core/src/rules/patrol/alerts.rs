//! Which events become alerts.

use jiff::Zoned;

use crate::domain::{
    Alert, AlertKind, Contract, Directive, EVENT_VERSION, Event, ExperimentId, Outcome, Record, ReviewVerdict,
    count_of, experiment_name, moment_text_at, one_line,
};
use crate::rules::history::History;

/// The crashes in a row that raise an alert: one may be the idea and a second its repair, but a third is a pattern, as
/// on the refine ladder.
const STREAK: u32 = 3;

/// The alerts of an event, in order. The history contains its experiment; `now` is the time on the user's clock.
pub fn alerts(event: &Event, contract: &Contract, history: &History, now: &Zoned) -> Vec<Alert> {
    let best = history.best_kept();
    let tag = &contract.tag;
    let alert = |event: AlertKind, id: Option<ExperimentId>, reason: &str, text: String| Alert {
        version: EVENT_VERSION,
        event,
        tag: tag.to_string(),
        experiment: id,
        metric: contract.metric.name.clone(),
        value: id.and_then(|id| history.get(id)?.metric.value),
        best: best.as_ref().map(|best| best.value),
        reason: one_line(reason),
        doubt: None,
        text: one_line(&format!("{tag}: {text}")),
    };
    match event {
        Event::ExperimentFinished { record, doubt, .. } => {
            let of_record = |(kind, text)| alert(kind, Some(record.id), &record.reason, text);
            let alerts = news(record, doubt.as_deref(), history).into_iter().map(of_record);
            alerts.map(|alert| Alert { doubt: doubt.clone(), ..alert }).collect()
        }
        Event::Directed { after, directive } if matches!(directive, Directive::Pivot { .. }) => {
            let text = format!("after {}: {directive}", experiment_name(*after));
            vec![alert(AlertKind::Pivot, Some(*after), &directive.to_string(), text)]
        }
        Event::Flagged { after, times, why, report } => {
            let reason = format!("{why}, {} so far", count_of(*times, "time"));
            let report = report.as_ref().map(|path| format!("; the report is {}", path.display())).unwrap_or_default();
            let text = format!("flagged for review after {}{report}", experiment_name(*after));
            vec![alert(AlertKind::Flagged, Some(*after), &reason, text)]
        }
        Event::ReviewFinished { id, review, late } if is_doubt(review.verdict, *late) => {
            let reason = format!("the reviewer says {}", review.sentence());
            let text = format!("flagged for review: experiment {id}: {reason}");
            vec![alert(AlertKind::Flagged, Some(*id), &reason, text)]
        }
        Event::Outage { id, outage, again: Some(again), waits: 0, .. } => {
            let text = format!("{}, waiting until {}: {}", outage.kind, moment_text_at(*again, now), outage.said);
            vec![alert(AlertKind::Outage, Some(*id), &outage.kind.to_string(), text)]
        }
        Event::Escalated { what, needed, waits, times: 1, .. } => {
            let meanwhile = if *waits { "waiting for an answer" } else { "stopping" };
            let text = format!("needs you, {meanwhile}: {what}; {needed}");
            vec![alert(AlertKind::Escalated, history.records().last().map(|record| record.id), what, text)]
        }
        Event::SessionStopped { reason, experiments } => {
            let reason = reason.to_string();
            let best = best.as_ref().map(|best| format!(", best {} {best}", contract.metric.name)).unwrap_or_default();
            let first = reason.lines().next().unwrap_or_default();
            let text = format!("stopped: {first}; {}{best}", count_of(*experiments, "experiment"));
            vec![alert(AlertKind::Stopped, history.records().last().map(|record| record.id), &reason, text)]
        }
        _ => Vec::new(),
    }
}

/// The news in an experiment that was recorded, as alerts with their texts.
fn news(record: &Record, doubt: Option<&str>, history: &History) -> Vec<(AlertKind, String)> {
    let doubted = doubt.map(|why| format!("; doubtful: {why}")).unwrap_or_default();
    let (id, what, why) = (record.id, &record.description, &record.reason);
    let mut news = Vec::new();
    if !id.is_baseline() && record.outcome == Outcome::Keep {
        news.push((AlertKind::Keep, format!("experiment {id} is kept: {what}: {why}{doubted}")));
    }
    if !id.is_baseline() && is_best(record, history) {
        let number = record.metric.number().map(|number| number.to_string()).unwrap_or_default();
        let text = format!("new best {} {number}: experiment {id}: {what}{doubted}", record.metric.name);
        news.push((AlertKind::Best, text));
    }
    if record.outcome == Outcome::Crash && history.crashes_in_a_row(1) == STREAK {
        let text = format!("{STREAK} crashes in a row, the last one experiment {id}: {why}");
        news.push((AlertKind::CrashStreak, text));
    }
    news
}

/// Returns whether a verdict doubts a keep.
fn is_doubt(verdict: ReviewVerdict, late: bool) -> bool {
    verdict == ReviewVerdict::Unclear || late && verdict == ReviewVerdict::NotEarned
}

/// Returns whether a record is a keep with a better value than all earlier keeps.
fn is_best(record: &Record, history: &History) -> bool {
    let Some(value) = record.metric.value.filter(|_| record.outcome == Outcome::Keep) else { return false };
    let before =
        history.records().iter().filter(|other| other.sequence() < record.sequence() && other.outcome == Outcome::Keep);
    before.filter_map(|other| other.metric.value).all(|other| record.metric.direction.better(value, other))
}
