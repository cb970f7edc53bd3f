//! The words of the user as a table.

use super::grid::{Align, Grid};
use crate::domain::Message;

/// The words, a row each.
pub fn words_grid(words: &[Message]) -> Grid {
    Grid::of(
        words,
        &[
            ("#", Align::Right, &|word| word.id.to_string()),
            ("prompts", Align::Left, &|word| if word.standing { "each" } else { "the next" }.to_owned()),
            ("word", Align::Left, &|word| word.text.clone()),
        ],
    )
}
