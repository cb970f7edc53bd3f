//! A difference between what the refs tell and what is there, with what removes it.

use super::facts::REPAIR;
use crate::domain::{Clock, Finding, Tag};
use crate::session::errors::SessionError;

/// Removes a difference. Whatever is replaced is kept beside it.
type Fix<'a> = Box<dyn FnOnce(&mut Repairs) -> Result<(), SessionError> + 'a>;

/// A finding, and what `ar doctor --repair` does about it; nothing where the user must decide.
pub(crate) struct Difference<'a> {
    pub(crate) finding: Finding,
    fix: Option<Fix<'a>>,
}

impl<'a> Difference<'a> {
    /// Creates one that `fix` removes without a guess.
    pub(crate) fn new(finding: Finding, fix: impl FnOnce(&mut Repairs) -> Result<(), SessionError> + 'a) -> Self {
        let finding = if finding.hint.is_some() { finding } else { finding.hint(REPAIR) };
        Difference { finding, fix: Some(Box::new(fix)) }
    }

    /// Sets the session.
    pub(crate) fn of(self, tag: &Tag) -> Self {
        Difference { finding: self.finding.of(tag), ..self }
    }
}

impl From<Finding> for Difference<'_> {
    fn from(finding: Finding) -> Self {
        Difference { finding, fix: None }
    }
}

/// The repairs done so far.
pub(crate) struct Repairs {
    /// One sentence per repair.
    pub(crate) done: Vec<String>,
    pub(crate) clock: Clock,
}

impl Repairs {
    /// Adds a sentence.
    pub(crate) fn did(&mut self, sentence: impl Into<String>) {
        self.done.push(sentence.into());
    }

    /// Removes differences, in their order. Nobody else must be active.
    pub(crate) fn remove(&mut self, differences: Vec<Difference<'_>>) -> Result<(), SessionError> {
        differences.into_iter().filter_map(|found| found.fix).try_for_each(|fix| fix(self))
    }
}
