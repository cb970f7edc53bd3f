//! The records of a session read again and again, as a screen that follows it does.

use std::error::Error;
use std::sync::Arc;

use super::reading::{parse_record, record_id};
use crate::domain::{Tag, with_causes};
use crate::git::Repo;
use crate::rules::History;
use crate::session::errors::SessionError;

/// The records of a session, read again only after a change of their refs.
#[derive(Default)]
pub(crate) struct Records {
    /// The refs of those that were read, with the names of their objects.
    refs: Vec<(String, String)>,
    pub(crate) history: Arc<History>,
    /// Those that could not be read, a sentence each.
    pub(crate) damage: Vec<String>,
}

impl Records {
    pub(crate) fn look(&mut self, repo: &Repo, tag: &Tag) -> Result<(), SessionError> {
        let mut refs = repo.refs.refs_under(&tag.ref_prefix())?;
        refs.retain(|(name, _)| record_id(name, tag).is_some());
        if refs == self.refs {
            return Ok(());
        }
        let mut damage = Damage::default();
        let read = repo.objects.read_tags(&refs, |tag| parse_record(&tag.name, &tag.message))?;
        let records = read.into_iter().filter_map(|record| damage.unless(record)).collect();
        *self = Records { refs, history: Arc::new(History::new(records)), damage: damage.0 };
        Ok(())
    }
}

/// Read errors, one sentence each.
#[derive(Default)]
pub(crate) struct Damage(pub(crate) Vec<String>);

impl Damage {
    /// Returns the value that was read, or notes the error.
    pub(crate) fn unless<T, E: Error + 'static>(&mut self, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.0.push(with_causes(&error))).ok()
    }
}
