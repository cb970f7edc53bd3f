//! Packing the refs of the records while the session goes on, so that listing them stays quick.

use super::error::SessionError;
use super::open::Session;
use crate::domain::with_causes;

/// After how many experiments the refs are packed: so many files are listed in half a millisecond, and packing them takes
/// some.
const PACK_EVERY: u32 = 64;

impl Session<'_> {
    /// Packs the refs of the records each [`PACK_EVERY`] experiments. That it does not go is told, and stops nothing.
    pub(super) fn pack_records(&mut self) -> Result<(), SessionError> {
        if !self.store.history.next_id().is_multiple_of(PACK_EVERY) {
            return Ok(());
        }
        match self.store.repo.pack_refs(&self.store.contract.tag.ref_prefix()) {
            Ok(_) => Ok(()),
            Err(error) => self.tell_trouble(format!("cannot pack the refs of the records: {}", with_causes(&error))),
        }
    }
}
