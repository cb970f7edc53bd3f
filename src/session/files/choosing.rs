//! The session that a command is about.

use crate::domain::Tag;
use crate::git::Repo;
use crate::rules::{SessionSign, session_meant};
use crate::state::{Journal, Presence, SessionFolder};

use super::ownership::driven_elsewhere;
use super::reading::{is_session, no_session, parse_record, record_id, session_of_head, session_tags};
use crate::session::errors::SessionError;

/// The reason why a session was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// It was named.
    Named,
    /// It is that of HEAD's branch.
    Head,
    /// There is no other.
    Only,
    /// Among this many sessions, an `ar` holds it.
    Active(usize),
    /// Among this many sessions, it has the latest activity.
    Newest(usize),
}

/// A session, and the reason why it was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Its tag.
    pub tag: Tag,
    /// The reason.
    pub choice: Choice,
}

impl Chosen {
    /// Returns a notice about the choice if the user may have meant another session.
    pub fn notice(&self) -> Option<String> {
        let (why, of) = match self.choice {
            Choice::Named | Choice::Head | Choice::Only => return None,
            Choice::Active(of) => ("the active one", of),
            Choice::Newest(of) => ("the newest", of),
        };
        Some(format!("using session {}, {why} of {of}; pass --tag for another", self.tag))
    }
}

/// The session named, else that of HEAD's branch, else the active one, else the newest.
pub fn choose_session(repo: &Repo, tag: Option<Tag>) -> Result<Chosen, SessionError> {
    if let Some(tag) = tag {
        return if is_session(repo, &tag)? {
            Ok(Chosen { tag, choice: Choice::Named })
        } else {
            Err(no_session(repo, &tag))
        };
    }
    if let Some(tag) = session_of_head(&repo.refs.head()?)
        && is_session(repo, &tag)?
    {
        return Ok(Chosen { tag, choice: Choice::Head });
    }
    let mut tags = session_tags(repo)?;
    let of = tags.len();
    if of == 1 {
        return Ok(Chosen { tag: tags.remove(0), choice: Choice::Only });
    }
    let signs: Vec<SessionSign> = tags.iter().map(|tag| sign(repo, tag)).collect();
    let Some(place) = session_meant(&signs) else { return Err(SessionError::NoSession { tag: None, there: tags }) };
    let choice = if signs[place].is_active { Choice::Active(of) } else { Choice::Newest(of) };
    Ok(Chosen { tag: tags.remove(place), choice })
}

/// The same without the reason.
pub fn find_session(repo: &Repo, tag: Option<Tag>) -> Result<Tag, SessionError> {
    Ok(choose_session(repo, tag)?.tag)
}

/// The session that an invocation without a name is about, if there is any.
pub(crate) fn session_there(repo: &Repo) -> Result<Option<Tag>, SessionError> {
    match find_session(repo, None) {
        Err(SessionError::NoSession { .. }) => Ok(None),
        found => found.map(Some),
    }
}

/// Gathers the signs of activity in a session. Unreadable data counts as no activity; the code that needs it reports the
/// error.
fn sign(repo: &Repo, tag: &Tag) -> SessionSign {
    let folder = SessionFolder::new(&repo.main_worktree(), tag);
    let journal = Journal::read(&folder.state()).ok().flatten();
    let presence = journal.as_ref().map(|journal| &journal.presence);
    let is_elsewhere = || driven_elsewhere(&folder, presence?).filter(|other| !other.is_missed());
    let shown = presence.map(Presence::last_seen);
    let recorded = || {
        let refs = repo.refs.refs_under(&tag.ref_prefix()).ok()?;
        let (_, name) = refs.iter().filter_map(|(name, _)| Some((record_id(name, tag)?, name))).max()?;
        let newest = repo.refs.record(name).ok()??;
        Some(parse_record(&newest.name, &newest.message).ok()?.finished)
    };
    SessionSign {
        is_active: folder.owner(repo.git_dir()).is_ok_and(|owner| owner.is_some()) || is_elsewhere().is_some(),
        last_activity: shown.max(recorded()),
    }
}
