//! Experiments of a session as tables.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::artifact::artifact_name;
use super::axes::{axes_sentence, forms_sentence};
use super::beside::{beside, confounds_text};
use super::columns::{Column, SPARE, Shown, time};
use super::cost::tokens_sentence;
use super::grid::{Align, Grid, text};
use crate::domain::{
    Clock, Composite, ExperimentId, GuardRun, Note, Record, ReviewVerdict, Run, bytes_text, experiment_name,
    money_text, one_line,
};
use crate::rules::{Ended, History, axis_values, confounds_of_keep};

/// The most artifacts of an experiment to list.
const MOST_ARTIFACTS: usize = 20;

/// Experiments of a session as a table with these columns; without any, with those that matter most, among them the axes of
/// `composite`. On the `screen` of people, who have that clock, the notes come with those where there are some.
pub fn experiments_grid(
    history: &History,
    selected: &[&Record],
    composite: Option<&Composite>,
    notes: &BTreeMap<ExperimentId, Vec<Note>>,
    columns: &[Column],
    screen: Option<Clock>,
) -> Grid {
    let mut columns = columns.to_vec();
    // Columns that the user asked for stay.
    let mut spare: Vec<Cow<'static, str>> = Vec::new();
    if columns.is_empty() {
        let with_notes = screen.is_some() && selected.iter().any(|record| notes.contains_key(&record.id));
        let with_reviews = screen.is_some() && selected.iter().any(|record| is_no_plain_yes(record));
        let mut axes: Vec<String> = composite.map(|it| it.axes.keys().cloned().collect()).unwrap_or_default();
        let artifact = artifact_name();
        if selected.iter().any(|record| record.metrics.get(&artifact).is_some()) {
            axes.insert(0, artifact);
        }
        columns = Column::defaults(with_reviews, with_notes, &axes);
        spare = axes.into_iter().map(Cow::Owned).chain(SPARE.map(Cow::Borrowed)).collect();
    }
    let metric = history.records().first().map_or("value", |record| record.metric.name.as_str());
    let replaced = history.replaced();
    let mut grid = Grid::new(columns.iter().map(|column| column.heading(metric))).sparing(spare);
    for record in selected {
        let shown = Shown {
            record,
            notes: notes.get(&record.id).map_or(&[][..], Vec::as_slice),
            rival: history.had_to_beat(record).and_then(|rival| history.number_to_beat(rival)),
            replaced_by: replaced.get(&record.id).copied(),
        };
        grid.push(columns.iter().map(|column| column.cell(&shown, screen)));
    }
    grid
}

/// The fields of one record and the notes on it, a row each. Of an experiment that was reworked each version stands above
/// its run and its guards. The keep `replaced_by` has removed its change. Times are said as on the `screen` of who has that
/// clock, else in UTC. The axes of `composite` stand below the metric, and below them what changed beside it since the
/// experiment `had_to_beat`.
pub fn record_grid(
    record: &Record,
    composite: Option<&Composite>,
    had_to_beat: Option<&Record>,
    replaced_by: Option<ExperimentId>,
    notes: &[Note],
    screen: Option<Clock>,
) -> Grid {
    let mut fields = Fields(Grid::new([("field", Align::Left), ("value", Align::Left)]));
    fields.add_result(record, composite);
    if let Some(rival) = had_to_beat
        && let Some(found) = confounds_text(&confounds_of_keep(record, had_to_beat))
    {
        fields.add("confounds", format!("{found}, compared with {}", experiment_name(rival.id)));
    }
    for (name, sentence) in beside(record, replaced_by) {
        fields.add(name, sentence);
    }
    fields.add("memory", record.memory_gb.map(|memory| format!("{memory:.3} GiB")).unwrap_or_default());
    fields.add_change(record);
    fields.add_runs(record, screen.is_some());
    fields.add("sandbox", text(record.sandbox));
    fields.add_calls(record);
    for (name, value) in record.environment.known() {
        fields.add(name, one_line(value));
    }
    for note in notes {
        let by = note.by.as_ref().zip(note.at).map(|(by, at)| format!(" ({by}, {})", time(at, screen)));
        fields.add("note", format!("{}{}", note.text, by.unwrap_or_default()));
    }
    if record.imported.is_some() {
        fields.add("imported", time(record.finished, screen));
    } else {
        fields.add("started", time(record.started, screen));
        fields.add("finished", time(record.finished, screen));
    }
    for (name, value) in record.metrics.iter() {
        let is_axis = composite.is_some_and(|composite| composite.axes.contains_key(name));
        if name != record.metric.name && !is_axis {
            let digits = record.metrics.digits(name).filter(|_| screen.is_some());
            fields.add(name, digits.map_or_else(|| value.to_string(), str::to_owned));
        }
    }
    fields.0
}

/// The rows for the fields of one record.
struct Fields(Grid);

impl Fields {
    /// Adds a row, unless its value is empty.
    fn add(&mut self, name: &str, value: String) {
        if !value.is_empty() {
            self.0.push([name.to_owned(), value]);
        }
    }

    fn add_result(&mut self, record: &Record, composite: Option<&Composite>) {
        self.add("experiment", format!("{} of {}", record.id, record.tag));
        self.add("description", record.description.clone());
        self.add("direction", record.direction.clone().unwrap_or_default());
        self.add("outcome", Ended::of_record(record).to_string());
        self.add("reason", record.reason.clone());
        self.add("failure", record.failure.as_ref().map(|failure| failure.class.to_string()).unwrap_or_default());
        self.add(&record.metric.name, record.metric.number().map(|number| number.raw).unwrap_or_default());
        if let Some(composite) = composite {
            let values = axis_values(composite, &record.metrics);
            self.add("axes", axes_sentence(composite, &values).unwrap_or_default());
            self.add("forms", forms_sentence(composite, &values).unwrap_or_default());
        }
    }

    fn add_change(&mut self, record: &Record) {
        self.add("commit", record.commit.short(usize::MAX).to_owned());
        self.add("base", record.base.short(usize::MAX).to_owned());
        if record.commit.is_known() {
            self.add("change", record.diff.to_string());
        }
        for artifact in record.artifacts.iter().take(MOST_ARTIFACTS) {
            self.add("artifact", format!("{} ({})", one_line(&artifact.path), bytes_text(artifact.bytes)));
        }
        let more = record.artifacts.len().saturating_sub(MOST_ARTIFACTS);
        self.add("artifact", if more > 0 { format!("and {more} more") } else { String::new() });
    }

    /// Adds the runs and guards of each version. Values have the `digits` of the log if asked for.
    fn add_runs(&mut self, record: &Record, digits: bool) {
        let run_text = |run| run_text(run, digits);
        let mut runs = record.runs.iter();
        for (number, version) in (1..).zip(&record.versions) {
            let kept = version.saved.rsplit('/').next().unwrap_or_default();
            self.add(
                &format!("version {number}"),
                format!("{} (saved/{kept}): {}", version.commit.short(8), version.reason),
            );
            runs.by_ref().take(1).for_each(|run| self.add("run", run_text(run)));
            version.guards.iter().for_each(|guard| self.add("guard", guard_text(guard)));
        }
        if !record.versions.is_empty() {
            self.add(
                &format!("version {}", record.versions.len() + 1),
                format!("{}, this one", record.commit.short(8)),
            );
        }
        runs.for_each(|run| self.add("run", run_text(run)));
        record.guards.iter().for_each(|guard| self.add("guard", guard_text(guard)));
    }

    /// Adds the calls of reviewer and agent.
    fn add_calls(&mut self, record: &Record) {
        if let Some(review) = &record.review {
            self.add("review", format!("{} ({:.1} s)", review.sentence(), review.seconds));
        }
        if let Some(call) = &record.agent {
            self.add("agent", format!("{} ({:.1} s)", call.command, call.seconds));
            let used = [call.model.clone(), call.cost.map(money_text), tokens_sentence(call.tokens)];
            self.add("used", used.into_iter().flatten().collect::<Vec<_>>().join("; "));
        }
    }
}

/// Returns whether a reviewer was asked about an experiment and its verdict is not "earned".
fn is_no_plain_yes(record: &Record) -> bool {
    record.review.as_ref().is_some_and(|review| review.verdict != ReviewVerdict::Earned)
}

/// Describes a run, its value in the `digits` of the log.
fn run_text(run: &Run, digits: bool) -> String {
    let ended = match (run.exit, run.signal) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(exit), None) => format!("exit {exit}"),
        (None, None) => "unknown".into(),
    };
    let commit = run.commit.as_ref().map(|commit| format!(" of {}", commit.short(8))).unwrap_or_default();
    let role = run.role.map(|role| format!("{role}, ")).unwrap_or_default();
    let seed = run.seed.map(|seed| format!("seed {seed}, ")).unwrap_or_default();
    let value = run.digits.clone().filter(|_| digits).or_else(|| run.value.map(|value| value.to_string()));
    let value = value.map(|value| format!("{value}, ")).unwrap_or_default();
    let void = if run.void { "void, " } else { "" };
    format!("{}{commit} ({role}{seed}{value}{void}{ended}, {:.1} s)", run.command, run.seconds)
}

fn guard_text(guard: &GuardRun) -> String {
    let passed = if guard.passed { "passed" } else { "failed" };
    format!("{} ({passed}, {})", guard.command, guard.ended())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_the_digits_of_its_own_log() {
        let run = crate::rules::sample::run(1.0, Some(0.97));
        let run = Run { digits: Some("0.970".into()), ..serde_json::from_value(run).unwrap() };
        assert!(run_text(&run, true).contains("0.970, ") && run_text(&run, false).contains("0.97, "));
    }
}
