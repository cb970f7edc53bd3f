//! Reading a ledger that anybody wrote, with findings about what is wrong with it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::{fs, io};

use super::{
    Ledger, LedgerForm, OtherWords, ReadOptions, Row, RowStatus, Segment, Shape, TableLine, TableLines, VerdictColumn,
    WORD_SHOWN, assume_direction, classify, decode, failure, is_comment, jsonl, memory, quantity, says_wrong, value,
};
use crate::domain::ErrorKind::{CannotStart, Usage};
use crate::domain::{
    Area, Direction, Finding, UserError, bytes_text, count_of, cut, few, first_of, refuse, shell_word,
};
use crate::fs::read_at_most;

/// Reads a ledger in any of the [`LedgerForm`]s, whatever is wrong with it; what it cannot read as a row it counts.
///
/// The metric and its direction are those that are `said`, else what a config line or a plain header says (first column the
/// commit, second the metric), else the likeliest by their names, which [`Ledger::assumed`] then says. A segment that is not
/// there has no rows.
pub fn read(bytes: impl Into<Vec<u8>>, said: &ReadOptions<'_>) -> Ledger {
    let text = decode(bytes.into());
    let form = LedgerForm::of(&text);
    if matches!(form, LedgerForm::JsonLines | LedgerForm::JsonArray) {
        return jsonl::read(&text, form, said);
    }
    let mut assumed = Vec::new();
    let mut shape = Shape::find(&text, form, said.metric, &mut assumed);
    // Prose may be about another metric.
    let is_told = shape.metric.as_deref().and_then(Direction::of_name).is_some();
    shape.direction = shape.direction.or_else(|| direction_in_prose(&text, form).filter(|_| !is_told));
    let is_empty = shape.width == 0;
    let mut found = ledger(shape, said.direction, assumed, |reader| rows(&text, reader));
    if is_empty {
        // For an empty ledger, the first sentence is enough.
        found.assumed.truncate(1);
    }
    found
}

/// The direction that comments, or lines outside a Markdown table, state, where they state one alone.
fn direction_in_prose(text: &str, form: LedgerForm) -> Option<Direction> {
    let is_prose = |line: &&str| is_comment(line) || (form == LedgerForm::Markdown && !line.contains('|'));
    let prose = || text.lines().filter(is_prose).map(str::to_lowercase);
    let says = |direction: Direction| prose().any(|line| line.contains(&format!("{direction} is better")));
    match (says(Direction::Higher), says(Direction::Lower)) {
        (true, false) => Some(Direction::Higher),
        (false, true) => Some(Direction::Lower),
        _ => None,
    }
}

/// Makes a ledger of the rows that `read` reads, whatever its form.
pub(super) fn ledger(
    shape: Shape,
    said: Option<Direction>,
    mut assumed: Vec<String>,
    read: impl Fn(&mut RowReader<'_>) -> Vec<Row>,
) -> Ledger {
    let (mut rows, words) = read_rows(&shape, &mut assumed, read);
    let direction = said.or(shape.direction);
    let direction = direction.unwrap_or_else(|| assume_direction(shape.metric.as_deref(), &rows, &mut assumed));
    let has = |wanted: &[RowStatus]| rows.iter().any(|row| wanted.contains(&row.status));
    let has_states = has(&[RowStatus::Finished]) && !has(&[RowStatus::Keep, RowStatus::Discard]);
    if has_states {
        let is_measured = |row: &Row| matches!(row.status, RowStatus::Finished | RowStatus::Baseline);
        rows.iter_mut().filter(|row| !is_measured(row)).for_each(|row| row.is_barred = true);
        assumed.push("the verdicts are states of runs, so the best is that of all finished rows".to_owned());
    }
    assumed.extend(words.sentence());
    if words.headers > 0 {
        assumed.push(format!("{} with the header again left out", count_of(words.headers, "line")));
    }
    if words.prose > 0 {
        assumed.push(format!("{} outside the table left out", count_of(words.prose, "line")));
    }
    Ledger {
        file: None,
        form: shape.form,
        columns: shape.found(),
        has_verdict: shape.columns.status.is_some() && !has_states,
        metric: shape.metric,
        direction,
        assumed,
        rows,
        segments: Vec::new(),
        elsewhere: 0,
    }
}

/// Reads the rows; with more words for a verdict where none says keep with the usual ones.
fn read_rows(
    shape: &Shape,
    assumed: &mut Vec<String>,
    read: impl Fn(&mut RowReader<'_>) -> Vec<Row>,
) -> (Vec<Row>, OtherWords) {
    let read = |verdict| {
        let mut reader = RowReader { shape, verdict, words: OtherWords::default() };
        (read(&mut reader), reader.words)
    };
    let (rows, words) = read(shape.verdict);
    let says_keep = rows.iter().any(|row| row.status == RowStatus::Keep);
    if says_keep || shape.verdict != VerdictColumn::Word || words.counts.is_empty() {
        return (rows, words);
    }
    let (wide, wide_words) = read(VerdictColumn::WideWord);
    if wide.iter().all(|row| row.status != RowStatus::Keep) {
        return (rows, words);
    }
    let taken = words.counts.keys().map(|word| (word, classify(word, VerdictColumn::WideWord)));
    let told: Vec<String> = taken
        .filter(|(_, status)| status.is_verdict())
        .map(|(word, status)| format!("`{}` is {}", cut(word, WORD_SHOWN), status))
        .collect();
    assumed.push(format!("no row says keep, so {}; the words keep, discard and crash say otherwise", told.join(", ")));
    (wide, wide_words)
}

/// The rows of a table.
fn rows(text: &str, reader: &mut RowReader<'_>) -> Vec<Row> {
    let shape = reader.shape;
    let mut lines = TableLines::new(text, shape.form);
    let mut line = TableLine::default();
    let mut header = None;
    if shape.skip {
        lines.read(&mut line);
        header = Some(line.cells.clone());
    }
    lines.width = Some(shape.width);
    let mut rows = Vec::new();
    while lines.read(&mut line) {
        // Ledgers that were put one after the other have it in between, too.
        if header.as_ref() == Some(&line.cells) {
            reader.words.headers += 1;
        } else {
            rows.push(reader.row(line.number, &line.cells));
        }
    }
    reader.words.prose = lines.prose;
    rows
}

/// Reads rows one after the other.
pub(super) struct RowReader<'a> {
    shape: &'a Shape,
    verdict: VerdictColumn,
    words: OtherWords,
}

impl RowReader<'_> {
    pub(super) fn row(&mut self, number: u32, cells: &[Cow<'_, str>]) -> Row {
        let Shape { width, columns, memory_unit, reference, only, checks, .. } = self.shape;
        if cells.len() != *width {
            let problem = format!("{}, not {width}", count_of(cells.len(), "field"));
            return Row::malformed(number, &cells.join("\t"), problem);
        }
        let cell = |column: Option<usize>| column.map(|column| cells[column].as_ref());
        let status = cell(columns.status).map_or(RowStatus::Other, |cell| {
            let status = classify(cell, self.verdict);
            if !status.is_verdict() {
                self.words.add(cell);
            }
            status
        });
        let is_named = only.as_ref().is_none_or(|(column, name)| cells[*column].trim() == name);
        let metric = cell(columns.metric).filter(|_| is_named);
        let reference = reference.as_ref();
        let may_scale = self.shape.is_scaled || reference.is_some_and(|it| it.unit.is_some());
        let (value, problem) = value(metric.unwrap_or_default(), reference, may_scale);
        let used = cell(columns.memory).and_then(quantity);
        let is_zero = used.as_ref().is_some_and(|found| found.value == 0.0);
        let piece = |column: Option<usize>| cell(column).map(Box::from);
        let mut hasher = DefaultHasher::new();
        cells.hash(&mut hasher);
        Row {
            line: number,
            commit: piece(columns.commit),
            value,
            memory_gb: used.and_then(|found| memory(&found, memory_unit.as_ref())),
            status,
            failure: failure(status, [columns.status, columns.memory, columns.metric].into_iter().filter_map(cell)),
            description: piece(columns.description).unwrap_or_default(),
            problem: problem.map(Into::into),
            is_barred: checks.iter().any(|&column| says_wrong(&cells[column])),
            hash: hasher.finish(),
        }
        .without_empty_zero(is_zero)
    }
}

/// Largest ledger that is only read, in bytes: some ten million rows.
const LARGEST: u64 = 1 << 30;

/// Number of bytes at the start of a file that decide whether it is text.
const HEAD: usize = 1024;

/// Usual paths of ledgers in a folder.
const USUAL: [&str; 4] = ["results.tsv", ".auto/log.jsonl", "autoresearch.jsonl", "results.csv"];

fn segments_text(there: &[Segment]) -> String {
    let named = |segment: &Segment| {
        let name = segment.name.as_deref().or(segment.metric.as_deref()).unwrap_or("without a name");
        let rows = count_of(segment.rows, "row");
        format!("{} is {name}, {rows}", segment.number)
    };
    let names: Vec<String> = there.iter().map(named).collect();
    if names.is_empty() { "it has none".to_owned() } else { few(&names).join("; ") }
}

const GZIP: &str = "compressed";

/// Reads a ledger from its file; see [`read`].
///
/// # Errors
///
/// It is not there, no regular file, no text, larger than 1 GiB, cannot be read, or has no segment of that number.
pub fn read_file(path: &Path, said: &ReadOptions<'_>) -> Result<Ledger, UserError> {
    let (name, word) = (path.display(), shell_word(path));
    let refused = |what: &str, hint| Err(refuse(CannotStart, format!("{name} is {what}")).hint(hint));
    let failed = |source: io::Error| {
        let hint = match source.kind() {
            io::ErrorKind::PermissionDenied => format!("run `ls -l {word}` to see the owner"),
            _ => format!("the usual names are {}", USUAL.join(", ")),
        };
        refuse(CannotStart, format!("cannot read {name}")).caused_by(source).hint(hint)
    };
    let meta = fs::metadata(path).map_err(failed)?;
    if meta.is_dir() {
        let inside = USUAL.iter().map(|name| path.join(name)).find(|file| file.is_file());
        let hint = match inside {
            Some(file) => format!("`--ledger {}`", shell_word(&file)),
            None => format!("name a file in it; `ls {word}` lists them"),
        };
        return refused("a folder, not a ledger", hint);
    }
    if !meta.is_file() {
        let hint = format!("copy it to a file with `cat {word} > ledger.tsv`, then pass `--ledger ledger.tsv`");
        return refused("not a regular file", hint);
    }
    let bytes = match read_at_most(path, LARGEST) {
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            let hint =
                format!("extract the newest rows with `(head -n 1 {word}; tail -n 1000000 {word}) > newest.tsv`");
            return refused(&format!("larger than {}", bytes_text(LARGEST)), hint);
        }
        read => read.map_err(failed)?,
    };
    if let Some(what) = not_text(&bytes[..bytes.len().min(HEAD)]) {
        let hint = match what {
            GZIP => format!("unpack it with `zcat {word} > ledger.tsv`, then pass `--ledger ledger.tsv`"),
            _ => format!(
                "use tab- or comma-separated text, a Markdown table or JSON lines; `file {word}` identifies this file"
            ),
        };
        return refused(&format!("{what}, not text"), hint);
    }
    let ledger = read(bytes, said);
    match said.segment {
        Some(wanted) if ledger.segments.iter().all(|segment| segment.number != wanted) => {
            let there = &ledger.segments;
            let hint = match there.is_empty() {
                true => "omit `--segment`: only JSON lines with config lines have segments",
                false => "omit `--segment` for the newest",
            };
            Err(refuse(Usage, format!("{name} has no segment {wanted}: {}", segments_text(there))).hint(hint))
        }
        _ => Ok(Ledger { file: Some(path.to_owned()), ..ledger }),
    }
}

/// Returns the kind of content that is not text, by its first bytes. Text has no NUL, unless a mark says that it is UTF-16.
fn not_text(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x1f, 0x8b, ..] => Some(GZIP),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => None,
        _ => head.contains(&0).then_some("binary"),
    }
}

/// Maximum number of lines to name.
const MOST_FINDINGS: usize = 20;

/// Looks at a ledger that was read: its form and columns, what was assumed, the rows that cannot be read or stand there twice.
pub fn examine(ledger: &Ledger) -> Vec<Finding> {
    let mut findings = vec![Finding::ok(Area::Ledger, what_it_is(ledger))];
    let warn = |what: &str| Finding::warning(Area::Ledger, what);
    // A direction that the name tells is no cause for a warning.
    let told = format!("{} is better, as the name", ledger.direction);
    let (named, assumed): (Vec<_>, Vec<_>) = ledger.assumed.iter().partition(|said| said.starts_with(&told));
    findings.extend(named.into_iter().map(|said| Finding::ok(Area::Ledger, said.as_str())));
    findings.extend(assumed.into_iter().map(|assumed| match assumed.split_once("; ") {
        Some((what, hint)) => warn(what).hint(hint),
        None => warn(assumed),
    }));
    if !ledger.rows.is_empty() && !ledger.has_verdict && ledger.rows.iter().all(|row| row.status == RowStatus::Other) {
        findings.push(warn("no column holds outcomes, so the best is taken from all rows"));
    }
    let valued = ledger.rows.iter().filter(|row| row.value.is_some()).count();
    if valued == 0 && !ledger.rows.is_empty() {
        findings.push(warn("no row has a value").hint("`--metric NAME` names the column"));
    }
    findings.extend(unread(ledger));
    findings.extend(repeated(&ledger.rows));
    findings
}

fn what_it_is(ledger: &Ledger) -> String {
    let columns: Vec<String> = ledger.columns.iter().map(|(what, name)| format!("{what} in `{name}`")).collect();
    let columns = if columns.is_empty() { String::new() } else { format!("; {}", columns.join(", ")) };
    let metric = ledger.metric.as_deref().map(|name| format!(", {} of `{name}` is better", ledger.direction));
    let rows = count_of(ledger.rows.len(), "row");
    format!("it is {} with {rows}{}{columns}", ledger.form, metric.unwrap_or_default())
}

/// The rows and numbers that cannot be read, by why.
fn unread(ledger: &Ledger) -> impl Iterator<Item = Finding> {
    let of = |malformed: bool, what: &str| {
        let rows = ledger.rows.iter().filter(|row| (row.status == RowStatus::Malformed) == malformed);
        let lines = rows.filter_map(|row| Some(format!("line {}: {}", row.line, row.problem.as_deref()?)));
        let lines: Vec<String> = lines.collect();
        let (count, named) = (count_of(lines.len(), what), first_of(&lines, MOST_FINDINGS).join("; "));
        (!lines.is_empty()).then(|| Finding::warning(Area::Ledger, format!("{count} cannot be read: {named}")))
    };
    [of(true, "row"), of(false, "number")].into_iter().flatten()
}

/// Rows that say the same as one before, in all that stands in them.
fn repeated(rows: &[Row]) -> Option<Finding> {
    let mut seen = HashMap::new();
    let mut lines = Vec::new();
    for row in rows.iter().filter(|row| row.status != RowStatus::Malformed) {
        if let Some(first) = seen.get(&row.hash) {
            lines.push(format!("line {} repeats line {first}", row.line));
        } else {
            seen.insert(row.hash, row.line);
        }
    }
    (!lines.is_empty()).then(|| Finding::warning(Area::Ledger, first_of(&lines, MOST_FINDINGS).join("; ")))
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
