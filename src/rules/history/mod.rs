//! The records of a session: finding, counting and selecting them. Nothing here judges.

pub(super) mod counts;
pub(super) mod directions;
pub(super) mod environment;
pub(super) mod find;
pub(super) mod meant;
pub(super) mod median;
pub(super) mod records;
pub(super) mod select;
pub(super) mod spread;
pub(super) mod why;
