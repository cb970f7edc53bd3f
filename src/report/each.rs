//! Sequences that are serialised without being in memory.

use serde::{Serialize, Serializer};

/// The items of an iterator as an array.
pub(super) struct Each<F>(pub(super) F);

impl<I: Iterator<Item: Serialize>, F: Fn() -> I> Serialize for Each<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}
