//! Experiments of a session as tables: all, one, and two side by side. A new column is a line in [`COLUMNS`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::grid::Align::{Below, Left, Right, Text};
use super::{Align, Grid, artifact_name, axes_sentence, forms_sentence, signed_gain, text, tokens_sentence};
use crate::domain::{
    Clock, Composite, ErrorKind, ExperimentId, FORMAT_VERSION, GuardRun, Note, Number, Record, Replay, ReviewVerdict,
    Run, SecondLook, Unit, UserError, bytes_text, exact_time, experiment_name, first_of, money_text, nearest, one_line,
    refuse,
};
use crate::rules::{
    Aspect, Compared, Confound, CountedOutcome, History, MEMORY, axis_values, confounds_of_keep, listed,
};

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
    let rivals = history.records().iter().zip(history.rivals());
    let rivals: BTreeMap<ExperimentId, usize> = rivals.filter_map(|(record, at)| Some((record.id, at?))).collect();
    let mut grid = Grid::new(columns.iter().map(|column| column.heading(metric))).sparing(spare);
    for record in selected {
        let shown = ShownExperiment {
            record,
            notes: notes.get(&record.id).map_or(&[][..], Vec::as_slice),
            rival: rivals.get(&record.id).and_then(|at| history.number_to_beat(&history.records()[*at])),
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
    let mut fields = FieldRows(Grid::new([("field", Left), ("value", Left)]));
    fields.add_result(record, composite, screen.is_some());
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
    fields.add("sandbox", text(record.proof.sandbox));
    fields.add_calls(record);
    for (name, value) in record.origin.environment.known() {
        fields.add(name, one_line(value));
    }
    for note in notes {
        let by = note.by.as_ref().zip(note.at).map(|(by, at)| format!(" ({by}, {})", time(at, screen)));
        fields.add("note", format!("{}{}", note.text, by.unwrap_or_default()));
    }
    if record.origin.imported.is_some() {
        fields.add("imported", time(record.origin.finished, screen));
    } else {
        fields.add("started", time(record.origin.started, screen));
        fields.add("finished", time(record.origin.finished, screen));
    }
    // Only means have digits that no log has.
    let is_mean = screen.is_some() && record.deciding_runs().len() > 1;
    for (name, value) in record.metrics.iter() {
        let is_axis = composite.is_some_and(|composite| composite.axes.contains_key(name));
        if name != record.metric.name && !is_axis {
            let digits = record.metrics.digits(name).filter(|_| screen.is_some()).map(str::to_owned);
            let plain = || if is_mean { Number::of(value).raw } else { value.to_string() };
            fields.add(name, digits.unwrap_or_else(plain));
        }
    }
    fields.0
}

/// The rows for the fields of one record.
struct FieldRows(Grid);

impl FieldRows {
    /// Adds a row, unless its value is empty.
    fn add(&mut self, name: &str, value: String) {
        if !value.is_empty() {
            self.0.push([name.to_owned(), value]);
        }
    }

    fn add_result(&mut self, record: &Record, composite: Option<&Composite>, units: bool) {
        self.add("experiment", format!("{} of {}", record.id, record.tag));
        self.add("description", record.description.clone());
        self.add("direction", record.direction.clone().unwrap_or_default());
        self.add("outcome", CountedOutcome::of_record(record).to_string());
        self.add("reason", record.reason.clone());
        self.add("failure", record.failure.as_ref().map(|failure| failure.class.to_string()).unwrap_or_default());
        let shown = |number: Number| if units { format!("{number:#}") } else { number.raw };
        self.add(&record.metric.name, record.metric.number().map(shown).unwrap_or_default());
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
            self.add("change", record.change.diff.to_string());
        }
        let artifacts = record.proof.artifacts.iter();
        let artifacts = artifacts.map(|it| format!("{} ({})", one_line(&it.path), bytes_text(it.bytes)));
        for artifact in first_of(&artifacts.collect::<Vec<_>>(), MOST_ARTIFACTS) {
            self.add("artifact", artifact);
        }
    }

    /// Adds the runs and guards of each version. Values have the `digits` of the log if asked for.
    fn add_runs(&mut self, record: &Record, digits: bool) {
        let run_text = |run| run_text(run, digits, record.metric.unit.as_ref());
        let mut runs = record.runs.iter();
        for (number, version) in (1..).zip(&record.change.versions) {
            let kept = version.saved.rsplit('/').next().unwrap_or_default();
            self.add(
                &format!("version {number}"),
                format!("{} (saved/{kept}): {}", version.commit.short(8), version.reason),
            );
            runs.by_ref().take(1).for_each(|run| self.add("run", run_text(run)));
            version.guards.iter().for_each(|guard| self.add("guard", guard_text(guard)));
        }
        if !record.change.versions.is_empty() {
            self.add(
                &format!("version {}", record.change.versions.len() + 1),
                format!("{}, this one", record.commit.short(8)),
            );
        }
        runs.for_each(|run| self.add("run", run_text(run)));
        record.proof.guards.iter().for_each(|guard| self.add("guard", guard_text(guard)));
    }

    /// Adds the calls of reviewer and agent.
    fn add_calls(&mut self, record: &Record) {
        if let Some(review) = &record.proof.review {
            self.add("review", format!("{} ({:.1} s)", review.sentence(), review.seconds));
        }
        if let Some(call) = &record.origin.agent {
            self.add("agent", format!("{} ({:.1} s)", call.command, call.seconds));
            let used = [call.model.clone(), call.cost.map(money_text), tokens_sentence(call.tokens)];
            self.add("used", used.into_iter().flatten().collect::<Vec<_>>().join("; "));
        }
    }
}

/// Returns whether a reviewer was asked about an experiment and its verdict is not "earned".
fn is_no_plain_yes(record: &Record) -> bool {
    record.proof.review.as_ref().is_some_and(|review| review.verdict != ReviewVerdict::Earned)
}

/// Describes a run, its value in the `digits` of the log and the unit of the metric.
fn run_text(run: &Run, digits: bool, unit: Option<&Unit>) -> String {
    let ended = match (run.exit, run.signal) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(exit), None) => format!("exit {exit}"),
        (None, None) => "unknown".into(),
    };
    let commit = run.commit.as_ref().map(|commit| format!(" of {}", commit.short(8))).unwrap_or_default();
    let role = run.role.map(|role| format!("{role}, ")).unwrap_or_default();
    let seed = run.seed.map(|seed| format!("seed {seed}, ")).unwrap_or_default();
    let number = run.number().filter(|_| digits).map(|number| Number { unit: unit.cloned(), ..number });
    let number = number.map(|number| format!("{number:#}"));
    let value = number.or_else(|| run.value.map(|value| value.to_string()));
    let value = value.map(|value| format!("{value}, ")).unwrap_or_default();
    let void = if run.void { "void, " } else { "" };
    format!("{}{commit} ({role}{seed}{value}{void}{ended}, {:.1} s)", run.command, run.seconds)
}

fn guard_text(guard: &GuardRun) -> String {
    let passed = if guard.passed { "passed" } else { "failed" };
    format!("{} ({passed}, {})", guard.command, guard.ended())
}

/// A column of the table of experiments.
#[derive(Debug, Clone)]
pub struct Column(ColumnKind);

#[derive(Debug, Clone)]
enum ColumnKind {
    Named(&'static FixedColumn),
    /// A number of the logs.
    Metric(String),
}

/// A column that every session has: its name, its heading, its alignment and its cells.
type FixedColumn = (&'static str, &'static str, Align, Cell);

/// The text of a cell. Times are local with a clock, else in UTC.
type Cell = fn(&ShownExperiment<'_>, Option<Clock>) -> String;

/// The name of the column with the reviewers' verdicts, and of that with the notes.
const REVIEW: &str = "review";

const NOTES: &str = "notes";

/// The name of the column with the metric, by which its heading is called.
const VALUE: &str = "value";

/// The columns that every session has; each number in the logs is one too.
static COLUMNS: [FixedColumn; 16] = [
    ("id", "#", Right, |shown, _| shown.record.id.to_string()),
    ("commit", "commit", Left, |shown, _| shown.record.commit.short(8).to_owned()),
    ("outcome", "outcome", Left, |shown, _| CountedOutcome::of_record(shown.record).to_string()),
    (VALUE, VALUE, Right, |shown, screen| match screen {
        Some(_) => number(shown.record),
        None => text(shown.record.metric.number()),
    }),
    ("gain", "gain", Right, |shown, _| text(shown.gain())),
    ("memory", "GiB", Right, |shown, _| tenths(shown.record.memory_gb)),
    ("seconds", "s/run", Right, |shown, _| tenths(shown.record.seconds_per_run())),
    ("agent", "agent seconds", Right, |shown, _| tenths(shown.record.origin.agent.as_ref().map(|call| call.seconds))),
    ("failure", "failure", Left, |shown, _| text(shown.record.failure.as_ref().map(|failure| failure.class))),
    (REVIEW, REVIEW, Left, |shown, _| {
        let verdict = shown.record.proof.review.as_ref().map(|review| review.verdict.to_string());
        verdict.unwrap_or_default().replace('_', " ")
    }),
    // An imported experiment has no known time.
    ("when", "when", Left, |shown, screen| {
        text(shown.record.origin.imported.is_none().then(|| time(shown.record.origin.finished, screen)))
    }),
    ("direction", "direction", Left, |shown, _| text(shown.record.direction.as_ref())),
    ("reason", "reason", Text, |shown, _| shown.record.reason.clone()),
    (NOTES, NOTES, Below, |shown, _| shown.notes.iter().map(|note| note.text.as_str()).collect::<Vec<_>>().join("; ")),
    ("replaced_by", "replaced by", Right, |shown, _| text(shown.replaced_by)),
    ("description", "description", Text, |shown, screen| {
        described(shown.replaced_by.filter(|_| screen.is_some()), &shown.record.description)
    }),
];

/// The columns that are shown by default; those of reviews and notes where there is something in them.
const DEFAULT: [&str; 11] =
    ["id", "outcome", VALUE, "gain", "commit", "memory", "seconds", "failure", REVIEW, "description", NOTES];

/// Columns to omit on a narrow terminal, the least important first.
const SPARE: [&str; 5] = ["s/run", "GiB", "gain", "commit", "failure"];

fn tenths(number: Option<f64>) -> String {
    text(number.map(|number| format!("{number:.1}")))
}

impl Column {
    /// The names of the columns that every session has.
    pub fn names() -> impl Iterator<Item = &'static str> {
        COLUMNS.iter().map(|(name, ..)| *name)
    }

    /// The columns that are shown by default, with the `axes` behind the value.
    pub(super) fn defaults(with_reviews: bool, with_notes: bool, axes: &[String]) -> Vec<Column> {
        let is_shown = |name: &&&str| (with_reviews || **name != REVIEW) && (with_notes || **name != NOTES);
        let named = DEFAULT.iter().filter(is_shown).filter_map(|name| Column::fixed(name));
        let of = |named: &'static FixedColumn| {
            let axes = if named.0 == VALUE { axes } else { &[] };
            [Column(ColumnKind::Named(named))]
                .into_iter()
                .chain(axes.iter().map(|axis| Column(ColumnKind::Metric(axis.clone()))))
        };
        named.flat_map(of).collect()
    }

    fn fixed(name: &str) -> Option<&'static FixedColumn> {
        COLUMNS.iter().find(|(own, ..)| *own == name)
    }

    /// The column of that name: one of the table's own, the metric, or another number that any of the logs has.
    pub fn named(name: &str, history: &History) -> Result<Column, UserError> {
        let records = history.records();
        let name_of_own = if records.iter().any(|record| record.metric.name == name) { VALUE } else { name };
        if let Some(named) = Column::fixed(name).or_else(|| Column::fixed(name_of_own)) {
            return Ok(Column(ColumnKind::Named(named)));
        }
        if records.iter().any(|record| record.metrics.get(name).is_some()) {
            return Ok(Column(ColumnKind::Metric(name.to_owned())));
        }
        let mut numbers: Vec<String> = records.iter().flat_map(|record| record.metrics.names().cloned()).collect();
        numbers.sort();
        numbers.dedup();
        let known: Vec<String> = Column::names().map(str::to_owned).chain(numbers).collect();
        let meant = nearest(name, &known).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
        Err(refuse(ErrorKind::Usage, format!("unknown column `{name}`"))
            .hint(format!("there are {}{meant}", known.join(", "))))
    }

    /// Its heading; that of the value is the `metric`.
    pub(super) fn heading(&self, metric: &str) -> (String, Align) {
        match &self.0 {
            ColumnKind::Named((_, VALUE, align, _)) => (metric.to_owned(), *align),
            ColumnKind::Named((_, heading, align, _)) => ((*heading).to_owned(), *align),
            ColumnKind::Metric(name) => (name.clone(), Right),
        }
    }

    /// Its text for an experiment. Times are local on the `screen` of a user with that clock, else in UTC.
    pub(super) fn cell(&self, shown: &ShownExperiment<'_>, screen: Option<Clock>) -> String {
        match &self.0 {
            ColumnKind::Named((.., cell)) => cell(shown, screen),
            ColumnKind::Metric(name) => text(shown.record.metrics.get(name)),
        }
    }
}

/// A moment, local on the `screen` of a user with that clock, else in UTC.
pub(super) fn time(at: Timestamp, screen: Option<Clock>) -> String {
    screen.map_or_else(|| exact_time(at), |clock| clock.said(at))
}

/// An experiment with the facts beside its record that columns show.
pub(super) struct ShownExperiment<'a> {
    pub(super) record: &'a Record,
    pub(super) notes: &'a [Note],
    /// The number that it had to beat.
    pub(super) rival: Option<Number>,
    /// The later keep that removed its change.
    pub(super) replaced_by: Option<ExperimentId>,
}

impl ShownExperiment<'_> {
    fn gain(&self) -> Option<String> {
        Some(signed_gain(self.record.metric.direction, &self.record.metric.number()?, self.rival.as_ref()?))
    }
}

/// The facts of a record about others, a name and a sentence each; none of an experiment that was made *in place*. The keep
/// `replaced_by` has removed its change.
pub(super) fn beside(record: &Record, replaced_by: Option<ExperimentId>) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let beside = &record.beside;
    if let Some(slot) = beside.slot {
        let others = match beside.neighbours.as_slice() {
            [] => String::new(),
            others => format!(", beside {}", experiments(others)),
        };
        facts.push(("slot", format!("{slot}{others}")));
    }
    // The reason of a car without a number says all of it.
    let train = train(record).filter(|_| record.number_of().is_none() || record.reason.is_empty());
    facts.extend(train.map(|sentence| ("train", sentence)));
    facts.extend(replaced_by.map(|by| ("replaced by", format!("experiment {by}, whose tree has none of its change"))));
    if !beside.replaces.is_empty() {
        let replaced = experiments(&beside.replaces);
        facts.push(("replaces", format!("its tree was put on top; it removes {replaced}")));
    }
    if let Some(SecondLook { of, stall, .. }) = &beside.second_look {
        let again = "measured again, as it came closest";
        facts.push((
            "second look",
            match *of == record.id {
                false => format!("{} {again}, after {stall} without a keep", experiment_name(*of)),
                true => format!("none, after {stall} without a keep: its change does not merge with the best"),
            },
        ));
    }
    facts.extend(beside.replays.iter().map(|replay| ("replay", replayed(replay))));
    facts
}

/// The experiments that one was kept with, and whose number counts.
pub(super) fn train(record: &Record) -> Option<String> {
    let train = record.beside.train.as_ref()?;
    let others: Vec<ExperimentId> = train.members.iter().copied().filter(|id| *id != record.id).collect();
    if others.is_empty() {
        return Some("kept by itself, merged with what was kept meanwhile".to_owned());
    }
    let number = match record.number_of() {
        Some(last) => format!("the number is that of {last}"),
        None => "the number is that of all".to_owned(),
    };
    Some(format!("kept with {}; {number}", experiments(&others)))
}

/// Describes a keep, and names the later keep that removed its change, if any.
pub(super) fn described(replaced_by: Option<ExperimentId>, description: &str) -> String {
    match replaced_by {
        Some(by) => format!("replaced by {by}: {description}"),
        None => description.to_owned(),
    }
}

/// The number of a record as people see it; for a keep without one of its own the experiment that has it.
pub(super) fn number(record: &Record) -> String {
    let number = || record.metric.number().map(|number| number.to_string()).unwrap_or_default();
    record.number_of().map_or_else(number, with)
}

/// The words in the place of the number of a keep that experiment `last` has.
pub(super) fn with(last: ExperimentId) -> String {
    format!("with {last}")
}

/// Other changes that came with a gain, in a clause; absent without any.
pub(super) fn confounds_text(found: &[Confound]) -> Option<String> {
    let found: Vec<String> = found.iter().map(Confound::to_string).collect();
    (!found.is_empty()).then(|| found.join(", "))
}

fn experiments(ids: &[ExperimentId]) -> String {
    format!("experiment{} {}", if ids.len() == 1 { "" } else { "s" }, listed(ids))
}

fn replayed(replay: &Replay) -> String {
    let value = replay.value.map_or("no number".to_owned(), |value| Number::of(value).raw);
    format!("{value} as {} on {}: {}", replay.commit.short(8), replay.base.short(8), replay.why)
}

/// Two experiments side by side: what was said of them, then what was compared.
pub fn compared_grid(a: &Record, b: &Record, rows: &[Compared]) -> Grid {
    let columns = [("what", Left), ("a", Text), ("b", Text), ("change", Left)];
    let mut grid = Grid::new(columns);
    let name = |record: &Record| format!("{}/{}", record.tag, record.id);
    type Said = fn(&Record) -> String;
    let said: [(&str, Said); 4] = [
        ("commit", |record| record.commit.short(12).to_owned()),
        ("description", |record| record.description.clone()),
        ("outcome", |record| record.outcome.to_string()),
        ("diff", |record| record.change.diff.to_string()),
    ];
    grid.push(["experiment".into(), name(a), name(b), String::new()]);
    for (what, of) in said {
        grid.push([what.to_owned(), of(a), of(b), String::new()]);
    }
    let trains = [a, b].map(|record| train(record).unwrap_or_default());
    if trains.iter().any(|sentence| !sentence.is_empty()) {
        let [a, b] = trains;
        grid.push(["train".to_owned(), a, b, String::new()]);
    }
    for row in rows {
        let what = match row.aspect {
            Aspect::Metrics | Aspect::Cost => row.name.clone(),
            Aspect::Environment => format!("environment: {}", row.name),
            Aspect::Settings => format!("settings: {}", row.name),
        };
        let raw = |record: &Record, value: &Value| match (record.metric.number(), value.as_f64()) {
            (Some(number), _) if is_metric(row, record) => format!("{number:#}"),
            (_, Some(memory)) if row.aspect == Aspect::Cost && row.name == MEMORY => format!("{memory:.3} GiB"),
            _ => value_text(value),
        };
        let way = row.difference.filter(|change| *change != 0.0 && is_metric(row, a) && is_metric(row, b));
        let way = way.map(|change| if a.metric.direction.better(change, 0.0) { ", better" } else { ", worse" });
        grid.push([what, raw(a, &row.a), raw(b, &row.b), row.change.clone() + way.unwrap_or_default()]);
    }
    grid
}

/// Returns whether a row is about the metric that decides on an experiment.
fn is_metric(row: &Compared, record: &Record) -> bool {
    row.aspect == Aspect::Metrics && record.metric.name == row.name
}

/// The same as a JSON document; `diff_text` is how the code differs.
pub fn compared_json(a: &Record, b: &Record, rows: &[Compared], diff_text: &str) -> Value {
    let side = |record: &Record| {
        json!({
            "tag": record.tag,
            "id": record.id,
            "commit": record.commit,
            "description": record.description,
            "outcome": record.outcome,
            "diff": record.change.diff,
        })
    };
    json!({
        "version": FORMAT_VERSION, "a": side(a), "b": side(b), "compared": rows, "diff_text": diff_text,
    })
}

/// A value as a person reads it.
fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), |number| Number::of(number).raw),
        Value::Array(items) => items.iter().map(value_text).collect::<Vec<_>>().join(", "),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::sample::record;

    #[test]
    fn each_run_has_the_digits_of_its_own_log() {
        let run = crate::rules::sample::run(1.0, Some(0.97));
        let run = Run { digits: Some("0.970".into()), ..serde_json::from_value(run).unwrap() };
        assert!(run_text(&run, true, None).contains("0.970, ") && run_text(&run, false, None).contains("0.97, "));
        let seconds = Unit::seconds();
        assert!(run_text(&run, true, Some(&seconds)).contains("0.970 s, "));
        assert!(run_text(&run, false, Some(&seconds)).contains("0.97, "));
        let run = Run { value: Some(0.593_147_180_559_945_3), digits: None, ..run };
        assert!(run_text(&run, true, None).contains("0.5931471805599453, "));
    }

    #[test]
    fn a_car_is_told_with_its_train_and_a_winner_with_its_replays() {
        let train = json!({"last": 15, "members": [12, 14, 15]});
        let replay =
            json!({"base": "b".repeat(40), "commit": "c".repeat(40), "value": 0.1 + 0.2, "why": "does not add"});
        let car = record(json!({"id": 12, "train": train, "slot": 2, "neighbours": [3], "replays": [replay]}));
        let said: Vec<String> = beside(&car, None).into_iter().map(|(name, said)| format!("{name}: {said}")).collect();
        assert_eq!(
            said,
            [
                "slot: 2, beside experiment 3",
                "train: kept with experiments 14 and 15; the number is that of 15",
                "replay: 0.3 as cccccccc on bbbbbbbb: does not add",
            ]
        );
        assert_eq!(number(&car), "with 15");
        let car =
            Record { reason: "kept with experiments 14 and 15; the number is that of experiment 15".into(), ..car };
        assert!(beside(&car, None).iter().all(|(name, _)| *name != "train"), "the reason says it");
        let last = record(json!({"id": 15, "value": "1.25", "train": train, "replaces": [7]}));
        let said: Vec<String> = beside(&last, Some(20.into())).into_iter().map(|(_, said)| said).collect();
        assert_eq!(
            said,
            [
                "kept with experiments 12 and 14; the number is that of all",
                "experiment 20, whose tree has none of its change",
                "its tree was put on top; it removes experiment 7"
            ]
        );
        assert_eq!(number(&last), "1.25");
        let alone = record(json!({"id": 16, "value": "1", "train": {"last": 16, "members": [16]}}));
        assert_eq!(super::train(&alone).as_deref(), Some("kept by itself, merged with what was kept meanwhile"));
        assert_eq!(beside(&record(json!({"id": 1, "value": "1"})), None), []);
    }
}
