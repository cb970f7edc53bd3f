//! The backlog as a table.

use super::grid::{Align, Grid};
use crate::domain::Idea;

/// The ideas, a row each.
pub fn ideas_grid(ideas: &[Idea]) -> Grid {
    let mut grid = Grid::new([
        ("#", Align::Right),
        ("state", Align::Left),
        ("score", Align::Right),
        ("direction", Align::Left),
        ("by", Align::Left),
        ("idea", Align::Left),
    ]);
    for known in ideas {
        grid.push([
            known.id.to_string(),
            known.state.to_string(),
            known.idea.score.map(|score| score.to_string()).unwrap_or_default(),
            known.idea.direction.clone().unwrap_or_default(),
            known.by.clone(),
            known.idea.text.clone(),
        ]);
    }
    grid
}
