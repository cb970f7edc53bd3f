//! The course of a session as a picture: what is drawn where, and how it looks in characters.
//!
//! [`Series`] is the one geometry: marks, the running best, and the limits of the picture. What draws it only turns its
//! shares of the picture into characters or shapes.

mod axis;
mod overlay;
mod palette;
mod panels;
mod series;
mod svg;
mod text;

pub use overlay::*;
pub use palette::*;
use panels::*;
pub use series::*;
pub use svg::*;
pub use text::*;

/// The colours of the sessions of a picture of several.
#[cfg(test)]
pub(super) fn session_colours(style: ChartStyle) -> [&'static str; 6] {
    style.palette().sessions
}
