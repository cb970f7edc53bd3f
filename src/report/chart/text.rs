//! The chart in characters, also in braille: there a character has two by four dots, so that values that share a line lie apart.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::canvas::{Canvas, Context, Points};
use ratatui::widgets::{Widget, canvas};

use super::axis::{ticks, whole_ticks};
use crate::domain::cut;
use crate::report::{Edge, Limits, Series, Step, ansi_text};
use crate::rules::CountedOutcome;

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
enum PictureCell {
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
    /// A cell as it is drawn.
    fn of(self, cell: PictureCell) -> Styled {
        let style = Style::new();
        let (unicode, ascii, style) = match cell {
            PictureCell::Empty => (' ', ' ', style),
            PictureCell::Line => ('─', '-', style.green()),
            PictureCell::Rise => ('│', '|', style.green()),
            PictureCell::Corner { from_left: true, upwards: true } => ('┘', '+', style.green()),
            PictureCell::Corner { from_left: true, upwards: false } => ('┐', '+', style.green()),
            PictureCell::Corner { from_left: false, upwards: true } => ('┌', '+', style.green()),
            PictureCell::Corner { from_left: false, upwards: false } => ('└', '+', style.green()),
            PictureCell::Discard => ('·', '.', style.dim()),
            PictureCell::Beyond(Edge::Above) => ('▲', '^', style.yellow()),
            PictureCell::Beyond(Edge::Below) => ('▼', 'v', style.yellow()),
            PictureCell::Refused => ('○', 'o', style.dim()),
            PictureCell::Numberless => ('◇', '?', style.green()),
            PictureCell::Crash => ('×', 'x', style.red()),
            PictureCell::Keep => ('●', 'O', style.green()),
        };
        let drawn = match (self, cell) {
            (Glyphs::Ascii, _) => ascii,
            // As the picture has them.
            (Glyphs::Braille, PictureCell::Keep) => '⠿',
            (Glyphs::Braille, PictureCell::Discard) => '⠂',
            _ => unicode,
        };
        (drawn, style)
    }

    fn styled(self, row: &[PictureCell]) -> Vec<Styled> {
        row.iter().map(|cell| self.of(*cell)).collect()
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
        let mut lane = vec![PictureCell::Empty; columns];
        for mark in series.marks.iter().filter(|mark| mark.value.is_none()) {
            let cell = &mut lane[column(mark.place)];
            *cell = (*cell).max(if mark.is_numberless() { PictureCell::Numberless } else { cell_of(mark.kind) });
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
) -> Vec<Vec<PictureCell>> {
    let mut picture = vec![vec![PictureCell::Empty; columns]; rows];
    draw_best(&mut picture, &series.best, limits, column);
    // If experiments share columns, discards leave the line visible.
    let is_crowded = series.marks.len() > columns;
    for mark in &series.marks {
        let Some(value) = mark.value else { continue };
        let drawn = limits.beyond(value).map_or(cell_of(mark.kind), PictureCell::Beyond);
        let cell = &mut picture[row_of(limits, value, rows)][column(mark.place)];
        if is_crowded && drawn == PictureCell::Discard && *cell != PictureCell::Empty {
            continue;
        }
        *cell = (*cell).max(drawn);
    }
    picture
}

fn cell_of(kind: CountedOutcome) -> PictureCell {
    match kind {
        CountedOutcome::Keep => PictureCell::Keep,
        CountedOutcome::Discard | CountedOutcome::Other => PictureCell::Discard,
        CountedOutcome::Crash => PictureCell::Crash,
        CountedOutcome::Refused => PictureCell::Refused,
    }
}

/// Draws the running best as a staircase: along until the next step, then up or down to it.
fn draw_best(picture: &mut [Vec<PictureCell>], best: &[Step], limits: Limits, column: &impl Fn(u32) -> usize) {
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
                    cell[from] = PictureCell::Rise;
                }
                let came_along = column(best[index - 1].place) < from;
                picture[before][from] =
                    if came_along { PictureCell::Corner { from_left: true, upwards } } else { PictureCell::Rise };
                picture[row][from] = PictureCell::Corner { from_left: false, upwards };
            }
        }
        for cell in &mut picture[row][from..to] {
            *cell = (*cell).max(PictureCell::Line);
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
        (PictureCell::Keep, kept, "kept"),
        (PictureCell::Numberless, numberless, "kept, without a number"),
        (PictureCell::Discard, series.count(CountedOutcome::Discard), "not kept"),
        (PictureCell::Crash, series.count(CountedOutcome::Crash), "crashed"),
        (PictureCell::Refused, series.count(CountedOutcome::Refused), "refused"),
        (PictureCell::Beyond(Edge::Above), beyond(Edge::Above), "off the top"),
        (PictureCell::Beyond(Edge::Below), beyond(Edge::Below), "off the bottom"),
    ];
    let mut line = Line::default();
    for (cell, count, name) in entries.into_iter().filter(|(_, count, _)| *count > 0) {
        let gap = if line.spans.is_empty() { "" } else { "   " };
        let words = format!(" {count} {name}");
        if line.width() + gap.len() + 1 + words.len() > width {
            break;
        }
        let (drawn, style) = glyphs.of(cell);
        line.extend([Span::raw(gap), Span::styled(drawn.to_string(), style), Span::raw(words)]);
    }
    line
}

/// The dots of a character, across and down.
const ACROSS: usize = 2;

const DOWN: usize = 4;

/// The fewest dots between two experiments at which a keep is three dots wide; below, it is one dot wide.
const ROOMY: usize = 4;

/// One character of a picture and its style.
pub(super) type Styled = (char, Style);

/// Draws the running best as a line, keeps as blocks on it, and what was not kept as dots: row by row from the top.
fn dots(series: &Series, limits: Limits, rows: usize, columns: usize) -> Vec<Vec<Styled>> {
    let size = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    let area = Rect::new(0, 0, size(columns), size(rows));
    let mut buffer = Buffer::empty(area);
    let (wide, high) = (columns * ACROSS, rows * DOWN);
    let at = |place: u32, value: f64| {
        let scaled = |share: f64, count: usize| (share * (count - 1) as f64).round();
        (scaled(series.share(place), wide), scaled(limits.share(value), high))
    };
    Canvas::default()
        .marker(Marker::Braille)
        .x_bounds([0.0, (wide - 1) as f64])
        .y_bounds([0.0, (high - 1) as f64])
        .paint(|context| paint(context, series, limits, wide, &at))
        .render(area, &mut buffer);
    for mark in &series.marks {
        let Some((value, edge)) = mark.value.and_then(|value| Some((value, limits.beyond(value)?))) else { continue };
        let (column, row) = at(mark.place, value);
        let (column, row) = (column as usize / ACROSS, rows - 1 - row as usize / DOWN);
        let pointer = if edge == Edge::Above { "▲" } else { "▼" };
        buffer[(size(column), size(row))].set_symbol(pointer).set_fg(Color::Yellow);
    }
    let cell = |row: usize, column: usize| {
        let cell = &buffer[(size(column), size(row))];
        let style = match cell.fg {
            Color::Reset => Style::new(),
            Color::DarkGray => Style::new().dim(),
            colour => Style::new().fg(colour),
        };
        (cell.symbol().chars().next().unwrap_or(' '), style)
    };
    (0..rows).map(|row| (0..columns).map(|column| cell(row, column)).collect()).collect()
}

fn paint(
    context: &mut Context<'_>,
    series: &Series,
    limits: Limits,
    wide: usize,
    at: &impl Fn(u32, f64) -> (f64, f64),
) {
    let inside = series.marks.iter().filter_map(|mark| {
        let value = mark.value.filter(|value| limits.beyond(*value).is_none())?;
        Some((mark.kind, at(mark.place, value)))
    });
    let (kept, others): (Vec<_>, Vec<_>) = inside.partition(|(kind, _)| *kind == CountedOutcome::Keep);
    let others: Vec<(f64, f64)> = others.into_iter().map(|(_, at)| at).collect();
    context.draw(&Points::new(&others, Color::DarkGray));
    // The dots of a character have one colour, that of what is drawn last.
    let mut from: Option<(f64, f64)> = None;
    let end = series.places().map_or(0, |(_, last)| last);
    for (step, next) in series.best.iter().zip(series.best.iter().skip(1).map(|next| next.place).chain([end])) {
        let (x, y) = at(step.place, step.value);
        if let Some((_, before)) = from {
            context.draw(&canvas::Line::new(x, before, x, y, Color::Green));
        }
        context.draw(&canvas::Line::new(x, y, at(next, step.value).0, y, Color::Green));
        from = Some((x, y));
    }
    let beside = if wide / series.marks.len().max(1) >= ROOMY { 1 } else { 0 };
    let around = |(x, y): (f64, f64)| {
        (-beside..=beside).flat_map(move |across| (-1..=1).map(move |up| (x + f64::from(across), y + f64::from(up))))
    };
    let kept: Vec<(f64, f64)> = kept.into_iter().flat_map(|(_, at)| around(at)).collect();
    context.draw(&Points::new(&kept, Color::Green));
}

#[cfg(test)]
mod tests {
    use Outcome::{Crash, Discard, Keep};

    use super::*;
    use crate::domain::{Direction, Outcome};
    use crate::report::chart::series::test_series;

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

#[cfg(test)]
mod braille_tests {
    use super::*;
    use crate::domain::Direction;
    use crate::domain::Outcome::{Discard, Keep};
    use crate::report::chart::series::test_series;

    /// Whether each dot of the picture is set, line by line from the top.
    fn set(picture: &[Vec<Styled>]) -> Vec<Vec<bool>> {
        const PATTERN: [[u32; ACROSS]; DOWN] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        let bits = |c: char| u32::from(c).saturating_sub(0x2800) & 0xff;
        let is_set = |y: usize, x: usize| bits(picture[y / DOWN][x / ACROSS].0) & PATTERN[y % DOWN][x % ACROSS] != 0;
        (0..picture.len() * DOWN).map(|y| (0..picture[0].len() * ACROSS).map(|x| is_set(y, x)).collect()).collect()
    }

    #[test]
    fn two_keeps_of_nearly_one_value_are_two() {
        // In 4 lines of text, 16 dots high: 1.00 is the 2nd dot from the top, 0.06 more is a dot further down.
        let values = [(Keep, Some("2.0")), (Keep, Some("1.94")), (Discard, Some("1.45")), (Keep, Some("1.0"))];
        let series = test_series(Direction::Lower, &values);
        let limits = Limits { low: 0.9, high: 2.1 };
        let picture = dots(&series, limits, 4, 10);
        let dots = set(&picture);
        let row = |value: f64| 15 - (limits.share(value) * 15.0).round() as usize;
        assert_eq!((row(2.0), row(1.94), row(1.45), row(1.0)), (1, 2, 8, 14));
        // Experiments are 19 / 3 dots apart: 0, 6, 13 and 19. Between the first two the line is at the first one's height.
        assert!(dots[1][3] && !dots[2][3], "{dots:?}");
        assert!(dots[2][9] && !dots[1][9] && !dots[3][9], "{dots:?}");
        // A keep is a block on the line, also where it is no corner; what was not kept is one dot.
        assert!([1, 2, 3].iter().all(|y| dots[*y][5] && dots[*y][6] && dots[*y][7]), "{dots:?}");
        assert!(dots[8][13] && ![12, 14].iter().any(|x| dots[8][*x]), "{dots:?}");
        assert_eq!(picture[0][0].1, Style::new().green());
        assert_eq!(picture[2][6].1, Style::new().dim());
    }

    #[test]
    fn what_is_beyond_an_edge_points_outwards_and_any_size_is_drawn() {
        let values = [(Keep, Some("1.0")), (Discard, Some("9")), (Keep, Some("0.9")), (Discard, Some("-9"))];
        let series = test_series(Direction::Lower, &values);
        let limits = series.limits.unwrap();
        let picture = dots(&series, limits, 4, 12);
        let text: Vec<String> = picture.iter().map(|row| row.iter().map(|(c, _)| *c).collect()).collect();
        assert!(text[0].contains('▲') && text[3].ends_with('▼'), "{text:?}");
        for (rows, columns) in [(1, 1), (2, 200), (60, 3)] {
            assert_eq!(dots(&series, limits, rows, columns).len(), rows);
        }
        let crowd: Vec<_> = (0..5000).map(|n| (if n % 9 == 0 { Keep } else { Discard }, Some("1"))).collect();
        let crowd = test_series(Direction::Lower, &crowd);
        assert_eq!(dots(&crowd, crowd.limits.unwrap(), 5, 40).len(), 5);
    }
}
