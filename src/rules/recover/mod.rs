//! The steps that an attempt which was left open still needs.

pub(super) mod recovery;
