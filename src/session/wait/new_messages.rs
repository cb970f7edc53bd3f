//! Receives messages of the user while a session is open.

use super::shared::Shared;
use crate::crash;
use crate::session::errors::SessionError;
use crate::session::store::receive_messages;

/// Hears what the user has said, and tells and notes what is new.
pub(crate) fn publish_new_messages(shared: &Shared<'_>) -> Result<(), SessionError> {
    let is_new = receive_messages(&mut shared.store());
    if is_new {
        shared.publish()?;
        crash::point("words.heard");
        shared.store().write_journal()?;
    }
    Ok(())
}

/// Returns a test for words that the session hears from now on.
pub(crate) fn has_newer_messages<'s>(shared: &'s Shared<'_>) -> impl Fn() -> bool + 's {
    let newest = || shared.store().journal.messages.newest();
    let before = newest();
    move || newest() != before
}
