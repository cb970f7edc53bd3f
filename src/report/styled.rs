//! Styled lines of a screen as text with the escapes of `anstyle`, which whoever prints strips where colours are not wanted.

use anstyle::{AnsiColor, Effects};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

/// The text of styled lines, each line ended.
pub(super) fn ansi_text(lines: &[Line<'_>]) -> String {
    let mut text = String::new();
    for line in lines {
        for span in line {
            let style = ansi_style(line.style.patch(span.style));
            text += &format!("{style}{}{style:#}", span.content);
        }
        text.push('\n');
    }
    text
}

/// The same style for a terminal, as far as this program uses styles.
fn ansi_style(style: Style) -> anstyle::Style {
    let colour = match style.fg {
        Some(Color::Green) => Some(AnsiColor::Green),
        Some(Color::Red) => Some(AnsiColor::Red),
        Some(Color::Yellow) => Some(AnsiColor::Yellow),
        _ => None,
    };
    let dim = if style.add_modifier.contains(Modifier::DIM) { Effects::DIMMED } else { Effects::new() };
    anstyle::Style::new().fg_color(colour.map(Into::into)).effects(dim)
}
