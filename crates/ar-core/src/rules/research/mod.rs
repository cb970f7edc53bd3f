//! Axes, scores, lessons and ideas: what research sessions and the memory of sessions are judged by.

pub(super) mod axes;
pub(super) mod memory;
mod weights;

pub use axes::{
    ArtifactPoint, AxisValues, NOVELTY, NOVELTY_WINDOW, artifact_course, artifact_metric, axis_means, axis_values,
    bring, brought, calls_score, composite, composite_number, decided_novelty, four_decimals, in_form, mean_novelty,
    product, v2, weighted, worst_axis,
};
pub use memory::{
    Learned, by_rank, draw, fold, idea_key, is_used, keep_lesson, newest_first, offered_state, pivot_lesson,
    summary_lesson, summed_up,
};
pub use weights::{Fit, Likeness, NoFit, RatedSession, Weighed, Weights, weigh};
