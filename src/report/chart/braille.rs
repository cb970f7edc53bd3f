//! The picture of a chart in braille: a character has two by four dots, so that values that share a line of text lie apart.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::widgets::Widget;
use ratatui::widgets::canvas::{Canvas, Context, Line, Points};

use super::series::{Edge, Limits, MarkKind, Series};

/// The dots of a character, across and down.
pub(super) const ACROSS: usize = 2;
pub(super) const DOWN: usize = 4;

/// The fewest dots between two experiments at which a keep is three dots wide; below, it is one dot wide.
const ROOMY: usize = 4;

/// One character of a picture and its style.
pub(super) type Styled = (char, Style);

/// Draws the running best as a line, keeps as blocks on it, and what was not kept as dots: row by row from the top.
pub(super) fn dots(series: &Series, limits: Limits, rows: usize, columns: usize) -> Vec<Vec<Styled>> {
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
    let (kept, others): (Vec<_>, Vec<_>) = inside.partition(|(kind, _)| *kind == MarkKind::Keep);
    let others: Vec<(f64, f64)> = others.into_iter().map(|(_, at)| at).collect();
    context.draw(&Points::new(&others, Color::DarkGray));
    // The dots of a character have one colour, that of what is drawn last.
    let mut from: Option<(f64, f64)> = None;
    let end = series.places().map_or(0, |(_, last)| last);
    for (step, next) in series.best.iter().zip(series.best.iter().skip(1).map(|next| next.place).chain([end])) {
        let (x, y) = at(step.place, step.value);
        if let Some((_, before)) = from {
            context.draw(&Line::new(x, before, x, y, Color::Green));
        }
        context.draw(&Line::new(x, y, at(next, step.value).0, y, Color::Green));
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
