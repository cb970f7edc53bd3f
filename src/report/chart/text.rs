//! The chart in characters.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::axis::{ticks, whole_ticks};
use super::braille::{ACROSS, DOWN, Styled, dots};
use super::series::{Edge, Limits, MarkKind, Series, Step};
use crate::domain::cut;
use crate::report::text::ansi_text;

/// The fewest columns and lines that something can be seen in.
const LEAST_WIDTH: usize = 24;
const LEAST_ROWS: usize = 4;

/// The fewest rows of the picture for each label of its axis.
const ROWS_PER_LABEL: usize = 2;

/// The characters that a chart is drawn with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glyphs {
    /// Lines and dots.
    Unicode,
    /// The same, with a picture in braille.
    Braille,
    /// Characters that every terminal shows.
    Ascii,
}

/// The content of one cell of the picture. A later variant hides an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    Empty,
    Line,
    Rise,
    Corner { from_left: bool, upwards: bool },
    Discard,
    Beyond(Edge),
    Refused,
    Numberless,
    Crash,
    Keep,
}

impl Glyphs {
    fn of(self, cell: Cell) -> char {
        let (unicode, ascii) = match cell {
            Cell::Empty => (' ', ' '),
            Cell::Line => ('─', '-'),
            Cell::Rise => ('│', '|'),
            Cell::Corner { from_left: true, upwards: true } => ('┘', '+'),
            Cell::Corner { from_left: true, upwards: false } => ('┐', '+'),
            Cell::Corner { from_left: false, upwards: true } => ('┌', '+'),
            Cell::Corner { from_left: false, upwards: false } => ('└', '+'),
            Cell::Discard => ('·', '.'),
            Cell::Beyond(Edge::Above) => ('▲', '^'),
            Cell::Beyond(Edge::Below) => ('▼', 'v'),
            Cell::Refused => ('○', 'o'),
            Cell::Numberless => ('◇', '?'),
            Cell::Crash => ('×', 'x'),
            Cell::Keep => ('●', 'O'),
        };
        match (self, cell) {
            (Glyphs::Ascii, _) => ascii,
            // As the picture has them.
            (Glyphs::Braille, Cell::Keep) => '⠿',
            (Glyphs::Braille, Cell::Discard) => '⠂',
            _ => unicode,
        }
    }

    fn styled(self, row: &[Cell]) -> Vec<Styled> {
        row.iter().map(|cell| (self.of(*cell), style_of(*cell))).collect()
    }

    /// The corner of the axes, and what stands beside a label and elsewhere.
    fn axis(self) -> [char; 4] {
        if self == Glyphs::Ascii { ['+', '+', '|', '-'] } else { ['└', '┤', '│', '─'] }
    }
}

/// Draws a chart as text, each line ended.
pub fn chart_text(series: &Series, width: u16, height: u16, glyphs: Glyphs) -> String {
    ansi_text(&draw_chart(series, width, height, glyphs))
}

/// Draws a chart at most `width` columns wide and `height` lines high; empty where it has no experiments or too little room
/// (24 columns, 6 lines).
///
/// Each experiment is a mark of its own where there are as many columns; else a kept one and the line hide others. Nothing is
/// told by colour alone.
pub(in crate::report) fn draw_chart(series: &Series, width: u16, height: u16, glyphs: Glyphs) -> Vec<Line<'static>> {
    let (width, height) = (usize::from(width), usize::from(height));
    if series.marks.is_empty() {
        return Vec::new();
    }
    let has_lane = series.marks.iter().any(|mark| mark.value.is_none());
    // The two axes' lines and the lane of what has no value.
    let fixed = 2 + usize::from(has_lane);
    let rows = match series.limits {
        // Above the picture its title, below it the legend.
        Some(_) => height.saturating_sub(fixed + 2),
        None => 0,
    };
    if width < LEAST_WIDTH || series.limits.is_some() && rows < LEAST_ROWS {
        return Vec::new();
    }
    // A character that is several dots wide and high is where its dot is.
    let (across, down) = if glyphs == Glyphs::Braille { (ACROSS, DOWN) } else { (1, 1) };
    let labels = series.limits.map(|limits| row_labels(limits, rows, down)).unwrap_or_default();
    let margin = labels.iter().flatten().map(String::len).max().unwrap_or(0);
    let columns = width - margin - 1;
    let column = |place: u32| scaled(series.share(place), columns * across) / across;

    let better = format!(" ({} is better)", series.direction);
    // A wide character takes two columns.
    let room = if series.metric.is_ascii() { width - better.len() } else { (width - better.len()) / 2 };
    let mut lines = vec![Line::from(format!("{}{better}", cut(&series.metric, room.saturating_sub(1))))];
    let [corner, tick, line, across] = glyphs.axis();
    if let Some(limits) = series.limits {
        let beside = labels.into_iter().map(|label| {
            let side = if label.is_some() { tick } else { line };
            format!("{:>margin$}{side}", label.unwrap_or_default())
        });
        let picture = match glyphs {
            Glyphs::Braille => dots(series, limits, rows, columns),
            _ => {
                let cells = picture(series, limits, rows, columns, &column);
                cells.iter().map(|row| glyphs.styled(row)).collect()
            }
        };
        lines.extend(beside.zip(&picture).map(|(beside, row)| painted(beside, row)));
    }
    if has_lane {
        let mut lane = vec![Cell::Empty; columns];
        for mark in series.marks.iter().filter(|mark| mark.value.is_none()) {
            let cell = &mut lane[column(mark.place)];
            *cell = (*cell).max(if mark.is_numberless() { Cell::Numberless } else { cell_of(mark.kind) });
        }
        lines.push(painted(format!("{:>margin$}{line}", ""), &glyphs.styled(&lane)));
    }
    lines.push(format!("{:>margin$}{corner}{}", "", across.to_string().repeat(columns)).into());
    lines.push(format!("{:>margin$} {}", "", number_labels(series, columns, &column)).into());
    lines.push(legend(series, width, glyphs));
    lines
}

/// The row or column of `count` that a share of the picture falls in.
fn scaled(share: f64, count: usize) -> usize {
    ((share * (count - 1) as f64).round() as usize).min(count - 1)
}

/// The row of a value, from the top.
fn row_of(limits: Limits, value: f64, rows: usize) -> usize {
    rows - 1 - scaled(limits.share(value), rows)
}

/// The label beside each row of so many dots, if any.
fn row_labels(limits: Limits, rows: usize, down: usize) -> Vec<Option<String>> {
    let mut labels = vec![None; rows];
    for tick in ticks(limits, (rows / ROWS_PER_LABEL).max(2)) {
        labels[row_of(limits, tick.value, rows * down) / down] = Some(tick.label);
    }
    labels
}

/// The picture, row by row from the top.
fn picture(
    series: &Series,
    limits: Limits,
    rows: usize,
    columns: usize,
    column: &impl Fn(u32) -> usize,
) -> Vec<Vec<Cell>> {
    let mut picture = vec![vec![Cell::Empty; columns]; rows];
    draw_best(&mut picture, &series.best, limits, column);
    // If experiments share columns, discards leave the line visible.
    let is_crowded = series.marks.len() > columns;
    for mark in &series.marks {
        let Some(value) = mark.value else { continue };
        let drawn = limits.beyond(value).map_or(cell_of(mark.kind), Cell::Beyond);
        let cell = &mut picture[row_of(limits, value, rows)][column(mark.place)];
        if is_crowded && drawn == Cell::Discard && *cell != Cell::Empty {
            continue;
        }
        *cell = (*cell).max(drawn);
    }
    picture
}

fn cell_of(kind: MarkKind) -> Cell {
    match kind {
        MarkKind::Keep => Cell::Keep,
        MarkKind::Discard => Cell::Discard,
        MarkKind::Crash => Cell::Crash,
        MarkKind::Refused => Cell::Refused,
    }
}

/// Draws the running best as a staircase: along until the next step, then up or down to it.
fn draw_best(picture: &mut [Vec<Cell>], best: &[Step], limits: Limits, column: &impl Fn(u32) -> usize) {
    let rows = picture.len();
    for (index, step) in best.iter().enumerate() {
        let row = row_of(limits, step.value, rows);
        let from = column(step.place);
        let to = best.get(index + 1).map_or(picture[row].len(), |next| column(next.place));
        if index > 0 {
            let before = row_of(limits, best[index - 1].value, rows);
            if before != row {
                let upwards = row < before;
                for cell in picture.iter_mut().take(before.max(row)).skip(before.min(row) + 1) {
                    cell[from] = Cell::Rise;
                }
                let came_along = column(best[index - 1].place) < from;
                picture[before][from] = if came_along { Cell::Corner { from_left: true, upwards } } else { Cell::Rise };
                picture[row][from] = Cell::Corner { from_left: false, upwards };
            }
        }
        for cell in &mut picture[row][from..to] {
            *cell = (*cell).max(Cell::Line);
        }
    }
}

/// A row of the picture behind what stands beside it.
fn painted(beside: String, row: &[Styled]) -> Line<'static> {
    let end = row.iter().rposition(|(c, _)| *c != ' ').map_or(0, |last| last + 1);
    let runs = row[..end].chunk_by(|(_, one), (_, other)| one == other);
    let run = |dots: &[Styled]| Span::styled(dots.iter().map(|(c, _)| c).collect::<String>(), dots[0].1);
    Line::from_iter([Span::raw(beside)].into_iter().chain(runs.map(run)))
}

fn style_of(cell: Cell) -> Style {
    match cell {
        Cell::Empty => Style::new(),
        Cell::Line | Cell::Rise | Cell::Corner { .. } | Cell::Keep | Cell::Numberless => Style::new().green(),
        Cell::Discard | Cell::Refused => Style::new().dim(),
        Cell::Beyond(_) => Style::new().yellow(),
        Cell::Crash => Style::new().red(),
    }
}

/// The numbers of experiments below the axis, none where it would touch the one before.
fn number_labels(series: &Series, columns: usize, column: &impl Fn(u32) -> usize) -> String {
    let mut text = String::new();
    let (first, last) = series.places().unwrap_or_default();
    for tick in whole_ticks(first, last, (columns / 10).max(2)) {
        let at = column(tick.value as u32);
        let label = series.number_at(tick.value as u32);
        let start = at.saturating_sub(label.len() / 2).min(columns.saturating_sub(label.len()));
        if text.is_empty() || text.len() < start {
            text += &" ".repeat(start - text.len());
            text += &label;
        }
    }
    text
}

/// The legend: each kind of mark, with its count. Omits entries that do not fit.
fn legend(series: &Series, width: usize, glyphs: Glyphs) -> Line<'static> {
    let beyond = |edge| {
        let limits = series.limits;
        let is_beyond = |value: f64| limits.is_some_and(|limits| limits.beyond(value) == Some(edge));
        series.marks.iter().filter(|mark| mark.value.is_some_and(is_beyond)).count()
    };
    let (kept, numberless) = series.kept();
    let entries = [
        (Cell::Keep, kept, "kept"),
        (Cell::Numberless, numberless, "kept, without a number"),
        (Cell::Discard, series.count(MarkKind::Discard), "not kept"),
        (Cell::Crash, series.count(MarkKind::Crash), "crashed"),
        (Cell::Refused, series.count(MarkKind::Refused), "refused"),
        (Cell::Beyond(Edge::Above), beyond(Edge::Above), "off the top"),
        (Cell::Beyond(Edge::Below), beyond(Edge::Below), "off the bottom"),
    ];
    let mut line = Line::default();
    for (cell, count, name) in entries.into_iter().filter(|(_, count, _)| *count > 0) {
        let gap = if line.spans.is_empty() { "" } else { "   " };
        let words = format!(" {count} {name}");
        if line.width() + gap.len() + 1 + words.len() > width {
            break;
        }
        line.extend([Span::raw(gap), Span::styled(glyphs.of(cell).to_string(), style_of(cell)), Span::raw(words)]);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Direction, Outcome};
    use crate::report::chart::series::test_series;

    use Outcome::{Crash, Discard, Keep};

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    fn draw(series: &Series, width: u16, height: u16, glyphs: Glyphs) -> String {
        let text = plain(&chart_text(series, width, height, glyphs));
        assert!(text.lines().count() <= usize::from(height), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
        text
    }

    #[test]
    fn a_session_is_a_staircase_with_a_mark_for_each_experiment() {
        let series = test_series(
            Direction::Lower,
            &[
                (Keep, Some("1.00")),
                (Discard, Some("1.02")),
                (Keep, Some("0.96")),
                (Crash, None),
                (Discard, Some("7")),
                (Keep, Some("0.90")),
                (Discard, Some("0.93")),
            ],
        );
        assert_eq!(
            draw(&series, 40, 13, Glyphs::Unicode),
            "\
loss (lower is better)
    │      ·                ▲
1.00┤●──────────┐
    │           │
    │           ●────────────────┐
0.95┤                            │
    │                            │     ·
0.90┤                            ●──────
    │
    │                 ×
    └───────────────────────────────────
     0          2           4
● 3 kept   · 3 not kept   × 1 crashed
"
        );
        let ascii = draw(&series, 60, 13, Glyphs::Ascii);
        assert!(ascii.is_ascii() && ascii.contains("O-----") && ascii.contains("^ 1 off the top"), "{ascii}");
    }

    #[test]
    fn what_was_kept_without_a_number_has_a_mark_of_its_own() {
        let values = [(Keep, None), (Keep, Some("0.5")), (Crash, None), (Keep, Some("0.6"))];
        let text = draw(&test_series(Direction::Higher, &values), 80, 12, Glyphs::Unicode);
        let lane = text.lines().rev().nth(3).unwrap();
        assert!(lane.contains('◇') && lane.contains('×') && !lane.contains('●'), "{text}");
        assert!(text.ends_with("● 2 kept   ◇ 1 kept, without a number   × 1 crashed\n"), "{text}");
        assert!(draw(&test_series(Direction::Higher, &values), 80, 12, Glyphs::Ascii).contains("? 1 kept, without"));
    }

    #[test]
    fn the_line_of_many_experiments_is_not_hidden_by_those_that_were_not_kept() {
        let values: Vec<(Outcome, Option<&str>)> =
            (0..400).map(|n| if n == 0 { (Keep, Some("1")) } else { (Discard, Some("1")) }).collect();
        let text = draw(&test_series(Direction::Lower, &values), 60, 10, Glyphs::Ascii);
        assert!(text.contains(&"-".repeat(40)) && !text.contains(". ."), "{text}");
    }

    #[test]
    fn any_number_of_experiments_and_any_values_fit() {
        let many = |count: usize, text: &dyn Fn(usize) -> String| {
            let values: Vec<_> =
                (0..count).map(|index| (if index % 7 == 0 { Keep } else { Discard }, text(index))).collect();
            let values: Vec<_> = values.iter().map(|(outcome, text)| (*outcome, Some(text.as_str()))).collect();
            test_series(Direction::Higher, &values)
        };
        for count in [1, 2, 300, 10_000] {
            draw(&many(count, &|index| index.to_string()), 80, 16, Glyphs::Unicode);
            draw(&many(count, &|_| "-5".to_owned()), 80, 16, Glyphs::Ascii);
            draw(&many(count, &|index| format!("-{}e300", index * index)), 24, 9, Glyphs::Unicode);
        }
        let crashes = [(Crash, None), (Crash, Some("0.0"))];
        let text = draw(&test_series(Direction::Lower, &crashes), 30, 8, Glyphs::Ascii);
        assert_eq!(text.lines().nth(1), Some("|x                           x"), "{text}");
        assert_eq!(draw(&test_series(Direction::Lower, &[]), 80, 16, Glyphs::Ascii), "");
        assert_eq!(draw(&test_series(Direction::Lower, &crashes), 10, 3, Glyphs::Ascii), "");
    }
}
