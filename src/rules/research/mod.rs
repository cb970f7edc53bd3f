//! Axes, scores, lessons and ideas: what research sessions and the memory of sessions are judged by.

pub(super) mod artifact;
pub(super) mod axes;
pub(super) mod ideas;
pub(super) mod insights;
pub(super) mod is_research;
pub(super) mod learned;
pub(super) mod lessons;
pub(super) mod ridge;
pub(super) mod unranged;
pub(super) mod weights;
