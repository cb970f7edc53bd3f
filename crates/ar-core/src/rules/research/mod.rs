//! Axes, scores, lessons and ideas: what research sessions and the memory of sessions are judged by.

mod artifact;
mod axes;
mod ideas;
mod insights;
pub(super) mod is_research;
pub(super) mod learned;
mod lessons;
mod ridge;
pub(super) mod unranged;
mod weights;

pub use artifact::{
    ArtifactPoint, NOVELTY, NOVELTY_WINDOW, artifact_course, artifact_metric, decided_novelty, mean_novelty,
};
pub use axes::{
    AxisValues, axis_means, axis_values, bring, brought, composite, composite_number, four_decimals, in_form, product,
    v2, weighted, worst_axis,
};
pub use ideas::{by_rank, draw, idea_key, is_used, offered_state};
pub use insights::{keep_lesson, pivot_lesson, summary_lesson, summed_up};
pub use is_research::calls_score;
pub use learned::Learned;
pub use lessons::{fold, newest_first};
pub use weights::{Fit, Likeness, NoFit, RatedSession, Weighed, Weights, weigh};
