//! The backlog as a table.

use super::grid::{Align, Grid, text};
use crate::domain::Idea;

/// The ideas, a row each.
pub fn ideas_grid(ideas: &[Idea]) -> Grid {
    Grid::of(
        ideas,
        &[
            ("#", Align::Right, &|idea| idea.id.to_string()),
            ("kind", Align::Left, &|idea| idea.idea.kind.to_string()),
            ("state", Align::Left, &|idea| idea.state.to_string()),
            ("score", Align::Right, &|idea| text(idea.idea.score)),
            ("direction", Align::Left, &|idea| text(idea.idea.direction.as_ref())),
            ("by", Align::Left, &|idea| idea.by.clone()),
            ("idea", Align::Left, &|idea| idea.idea.text.clone()),
        ],
    )
}
