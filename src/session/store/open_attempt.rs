//! Reads open experiments, and describes their changes.

use serde_json::{Map, Value};

use crate::domain::{CommitId, DiffStat, Record, Tag, one_line};
use crate::git::{Proposal as Change, Repo};
use crate::rules::has_words;
use crate::session::errors::SessionError;
use crate::state::OpenExperiment;

/// The commit of an open experiment that must have one.
pub(crate) fn commit_of(open: &OpenExperiment) -> Result<CommitId, SessionError> {
    open.commit.clone().ok_or(SessionError::NoCommit(open.id))
}

/// The draft of an open experiment that must have one.
pub(crate) fn draft_of(open: &OpenExperiment) -> Result<Record, SessionError> {
    open.draft.as_deref().cloned().ok_or(SessionError::NoDraft(open.id))
}

/// Returns whether the open experiment is a new version whose record has not yet replaced the old one.
pub(crate) fn is_being_replaced(repo: &Repo, tag: &Tag, open: &OpenExperiment) -> Result<bool, SessionError> {
    let Some(old) = &open.replaces else { return Ok(false) };
    Ok(repo.refs.ref_object(&tag.record_ref(open.id))?.as_ref() == Some(old))
}

/// Candidates for the description of a change.
pub(crate) struct Texts {
    /// The text from the proposal file or the user.
    pub(crate) own: Option<String>,
    /// The last line of the agent's output that can describe the change.
    pub(crate) fallback: Option<String>,
    /// The description of the previous version, if there is one.
    pub(crate) before: Option<String>,
}

impl Texts {
    /// The proposal's words, else the subject of a commit that the agent made, else a line of its output, else the words for
    /// the version before it, else the size of the change.
    pub(crate) fn choose(self, subject: Option<String>, describe: impl FnOnce() -> String) -> String {
        let given = [self.own, subject, self.fallback, self.before].into_iter().flatten();
        given.map(|text| one_line(&text)).find(|text| has_words(text)).unwrap_or_else(describe)
    }
}

/// The change where nobody has words for it: its files, and how much of them.
pub(crate) fn describe(change: &Change, stat: DiffStat) -> String {
    const SHOWN: usize = 3;
    let paths = change.paths();
    let mut text =
        paths.iter().take(SHOWN).map(|changed| changed.path.display().to_string()).collect::<Vec<_>>().join(", ");
    if paths.len() > SHOWN {
        text += &format!(" and {} more", paths.len() - SHOWN);
    }
    one_line(&format!("{text}: {stat}"))
}

/// Adds what the agent said with a later version to what it said with the first: lists grow by what is new, and of the rest
/// the last word counts.
pub(crate) fn add_said(notices: &mut Map<String, Value>, more: Map<String, Value>) {
    for (name, value) in more {
        match (notices.get_mut(&name), value) {
            (Some(Value::Array(known)), Value::Array(new)) => {
                for value in new {
                    if !known.contains(&value) {
                        known.push(value);
                    }
                }
            }
            (_, value) => {
                notices.insert(name, value);
            }
        }
    }
}
