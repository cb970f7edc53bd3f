//! The course of a session as a picture: what is drawn where, and how it looks in characters.
//!
//! [`Series`] is the one geometry: marks, the running best, and the limits of the picture. What draws it only turns its
//! shares of the picture into characters or shapes.

mod axis;
mod series;
mod text;

pub use series::{Edge, Limits, Mark, MarkKind, Series, Step};
pub use text::{Glyphs, chart_text};
