//! The sessions that the doctor looks at, and how an error of theirs is found.

use super::difference::Difference;
use super::facts::{Facts, known_tags};
use crate::domain::{Area, Finding, Severity, Tag, with_causes};
use crate::git::{GitError, Repo};
use crate::session::errors::{ErrorKind, SessionError};
use crate::session::files::{no_session, session_of_head};
use crate::state::SEE_DOCTOR;

/// Hint for repository damage without a specific remedy.
const LOOK: &str = "inspect with `git fsck --full` and decide what to keep of the repository";

/// A part of a session.
pub(crate) type Part = fn(&Repo, &Facts) -> Vec<Difference>;

/// The sessions that are looked at, and all others.
#[derive(Debug)]
pub(crate) struct Patients {
    /// Those that are meant.
    pub(crate) meant: Vec<Facts>,
    /// The others, whose rows stand in the same results.tsv.
    pub(crate) others: Vec<Facts>,
}

impl Patients {
    /// Finds them; what is damaged hides no session.
    pub(crate) fn find(repo: &Repo, tag: Option<&Tag>) -> Result<Patients, SessionError> {
        let tags = known_tags(repo)?;
        let meant = match tag {
            Some(tag) if !tags.contains(tag) => return Err(no_session(repo, tag)),
            Some(tag) => Some(tag.clone()),
            // A HEAD that cannot be read names no session, and is found elsewhere.
            None => repo.refs.head().ok().and_then(|head| session_of_head(&head)).filter(|tag| tags.contains(tag)),
        };
        let mut patients = Patients { meant: Vec::new(), others: Vec::new() };
        for tag in tags {
            let facts = Facts::read(repo, &tag)?;
            let is_meant = meant.as_ref().is_none_or(|meant| *meant == tag);
            if is_meant { &mut patients.meant } else { &mut patients.others }.push(facts);
        }
        let mut sessions: Vec<&mut Facts> = patients.meant.iter_mut().filter(|facts| !facts.is_remains()).collect();
        if let [only] = &mut sessions[..] {
            only.is_only = true;
        }
        Ok(patients)
    }

    /// Finds them while this process holds them all.
    pub(crate) fn find_held(repo: &Repo, tag: Option<&Tag>) -> Result<Patients, SessionError> {
        let mut patients = Patients::find(repo, tag)?;
        patients.meant.iter_mut().chain(&mut patients.others).for_each(|facts| facts.holder = None);
        Ok(patients)
    }

    /// The sessions that are meant and of which more than remains is left.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = &Facts> {
        self.meant.iter().filter(|facts| !facts.is_remains())
    }

    /// All sessions, those that are meant first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Facts> {
        self.meant.iter().chain(&self.others)
    }
}

/// Turns an error into a finding. The user inspects repository damage that has no specific remedy.
pub(crate) fn finding_of(area: Area, error: &SessionError) -> Finding {
    // The reader has just run `ar doctor`.
    let hint = error.hint().filter(|hint| hint != SEE_DOCTOR);
    let is_unnamed = hint.is_none() && matches!(error, SessionError::Git(GitError::Git { .. } | GitError::Damaged(_)));
    let level = match error.kind() {
        ErrorKind::Damaged => Severity::Damaged,
        _ if is_unnamed => Severity::Damaged,
        _ => Severity::Error,
    };
    Finding {
        hint: hint.or(is_unnamed.then(|| LOOK.into())),
        is_unexplained: is_unnamed,
        ..Finding::new(area, level, with_causes(error))
    }
}
