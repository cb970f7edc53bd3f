//! The ratings of sessions as a table.

use super::grid::{Align, Grid, text};
use crate::domain::{Clock, Rating, Tag, exact_time};

/// The sessions with their ratings, a row each; times are said as on the `screen` of whoever has that clock.
pub fn ratings_grid(ratings: &[(Tag, Option<Rating>)], screen: Option<Clock>) -> Grid {
    let when = |rating: &Rating| screen.map_or_else(|| exact_time(rating.at), |clock| clock.said(rating.at));
    Grid::of(
        ratings,
        &[
            ("session", Align::Left, &|(tag, _)| tag.to_string()),
            ("rating", Align::Right, &|(_, rating)| text(rating.as_ref().map(|rating| rating.value))),
            ("by", Align::Left, &|(_, rating)| text(rating.as_ref().map(|rating| rating.by.as_str()))),
            ("when", Align::Left, &|(_, rating)| text(rating.as_ref().map(when))),
        ],
    )
}
