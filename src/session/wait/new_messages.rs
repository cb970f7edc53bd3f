//! Receives messages of the user while a session is open.

use super::shared::Shared;
use crate::crash;
use crate::session::errors::SessionError;
use crate::session::store::messages::note_words;

/// Hears what the user has said, and tells and notes what is new.
pub(crate) fn hear_words(shared: &Shared<'_>) -> Result<(), SessionError> {
    let is_new = note_words(&mut shared.store());
    if is_new {
        shared.tell()?;
        crash::point("words.heard");
        shared.store().write_journal()?;
    }
    Ok(())
}

/// Returns a test for words that the session hears from now on.
pub(crate) fn newer_words<'s>(shared: &'s Shared<'_>) -> impl Fn() -> bool + 's {
    let newest = || shared.store().journal.words.newest();
    let before = newest();
    move || newest() != before
}
