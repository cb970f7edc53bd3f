//! Ratings of sessions, and the weights of axes that they speak for.

use std::path::Path;

use serde::Deserialize;

use super::session_view::SessionView;
use crate::domain::{Clock, CommitId, Composite, Contract, PRESETS, Rating, Tag, with_causes};
use crate::git::{Notes, Repo, Stored};
use crate::rules::{Likeness, RatedSession, Weighed, axis_means, weigh};
use crate::session::errors::{AxesError, SessionError};
use crate::session::files::{read_history, session_tags, stored_contract};
use crate::state::{RatedLine, add_rating, read_ratings};

/// The ref of the notes that held ratings before: `git log --notes=autoresearch-ratings` shows them.
pub(crate) const RATINGS: &str = "refs/notes/autoresearch-ratings";

/// The file of a research session whose `type` says which sessions are rated for the same.
const RESEARCH_TERMS: &str = "research.toml";

/// The largest such file that is read, in bytes.
const LARGEST_TERMS: u64 = 1 << 20;

impl SessionView {
    /// Rates the session, 0..1, also while a loop is active; the rating that it had before.
    ///
    /// # Errors
    ///
    /// Nothing is known of its terms, or the rating cannot be read or written.
    pub fn rate(&self, value: f64, clock: Clock) -> Result<Option<Rating>, SessionError> {
        let contract = self.contract.as_ref().ok_or_else(|| self.no_contract())?;
        let rating = Rating { value, at: clock.now(), by: self.repo.committer_name()? };
        let before = rating_of(&self.repo, &self.tag, &contract.start, &read_ratings()?)?;
        let axes = match &contract.composite {
            Some(composite) => {
                let likeness = likeness(&self.repo, contract, composite)?;
                Some((likeness, axis_means(composite, self.history.records())))
            }
            None => None,
        };
        let line = RatedLine::new(&self.repo.main_worktree(), &self.tag, &contract.start, rating, axes);
        if !add_rating(&line)? {
            return Err(AxesError::NoHome.into());
        }
        Ok(before)
    }

    /// The weights of the session's axes that the user's ratings speak for: of all sessions with the same axes and of the same
    /// type, in whatever repository.
    ///
    /// # Errors
    ///
    /// The session has no axes, or the ratings cannot be read.
    pub fn weigh(&self) -> Result<Weighed, SessionError> {
        let contract = self.contract.as_ref().ok_or_else(|| self.no_contract())?;
        let composite = contract.composite.clone().ok_or_else(|| AxesError::NoComposite(self.tag.clone()))?;
        let own = likeness(&self.repo, contract, &composite)?;
        let mut elsewhere = read_ratings()?;
        let ratings = elsewhere.clone();
        let (mut rated, mut others, mut unrated, mut unread) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for tag in session_tags(&self.repo)? {
            if let Ok(Some(contract)) = stored_contract(&self.repo, &tag) {
                elsewhere.retain(|line| !line.is_of(&tag, &contract.start));
            }
            match self.one_of(&tag, &own, &ratings) {
                Ok(One::Rated(session)) => rated.push(session),
                Ok(One::Unrated) => unrated.push(tag),
                Ok(One::Other(is_rated)) => others.extend(is_rated.then(|| tag.to_string())),
                Err(error) => unread.push((tag, with_causes(&error))),
            }
        }
        // A session of another repository counts as it stood when it was rated.
        for line in elsewhere {
            match &line.likeness {
                Some(likeness) if *likeness == own => {
                    rated.push(RatedSession { name: line.name(), rating: line.rating.value, means: line.means });
                }
                _ => others.push(line.name()),
            }
        }
        let weights = weigh(&composite, &rated);
        Ok(Weighed { composite, kind: own.kind, others, unrated, unread, weights })
    }

    fn one_of(&self, tag: &Tag, own: &Likeness, ratings: &[RatedLine]) -> Result<One, SessionError> {
        let repo = &self.repo;
        let Some(contract) = stored_contract(repo, tag)? else { return Ok(One::Other(false)) };
        let rating = rating_of(repo, tag, &contract.start, ratings)?;
        let Some(composite) = &contract.composite else { return Ok(One::Other(rating.is_some())) };
        if likeness(repo, &contract, composite)? != *own {
            return Ok(One::Other(rating.is_some()));
        }
        let Some(rating) = rating else { return Ok(One::Unrated) };
        let means = axis_means(composite, read_history(repo, tag)?.records());
        Ok(One::Rated(RatedSession { name: tag.to_string(), rating: rating.value, means }))
    }

    fn no_contract(&self) -> SessionError {
        SessionError::NoContract(self.folder.root().to_owned())
    }
}

/// A session as seen from another one whose axes are weighed.
enum One {
    Rated(RatedSession),
    Unrated,
    /// It has other axes; true if it is rated.
    Other(bool),
}

/// The rating of a session; `None` if it has none, or if nothing is known of its terms.
///
/// # Errors
///
/// Its terms or the ratings cannot be read.
pub fn rating(repo: &Repo, tag: &Tag) -> Result<Option<Rating>, SessionError> {
    let contract = stored_contract(repo, tag)?;
    let ratings = read_ratings()?;
    Ok(contract.map(|contract| rating_of(repo, tag, &contract.start, &ratings)).transpose()?.flatten())
}

/// The newest rating of a session; it may stand in a note, where they were kept before.
fn rating_of(repo: &Repo, tag: &Tag, start: &CommitId, ratings: &[RatedLine]) -> Result<Option<Rating>, SessionError> {
    let stored = ratings.iter().find(|line| line.is_of(tag, start)).map(|line| line.rating.clone());
    if stored.is_some() {
        return Ok(stored);
    }
    let notes = Notes::new(&repo.refs, RATINGS).on([start])?;
    Ok(notes.get(start).and_then(|text| Rating::read(text, tag)))
}

fn likeness(repo: &Repo, contract: &Contract, composite: &Composite) -> Result<Likeness, SessionError> {
    Ok(Likeness {
        axes: composite.axes.iter().map(|(name, axis)| (name.clone(), axis.range)).collect(),
        kind: type_of(repo, &contract.start)?,
    })
}

/// The type of the question that a session began with; `None` where it is not one of research.
fn type_of(repo: &Repo, start: &CommitId) -> Result<Option<String>, SessionError> {
    #[derive(Deserialize)]
    struct Terms {
        #[serde(rename = "type")]
        kind: Option<String>,
    }
    let Stored::File(bytes) = repo.objects.read_at(start, Path::new(RESEARCH_TERMS), LARGEST_TERMS)? else {
        return Ok(None);
    };
    // The session's own commands report unreadable terms.
    let terms = str::from_utf8(&bytes).ok().and_then(|text| toml::from_str::<Terms>(text).ok());
    Ok(terms.map(|terms| terms.kind.unwrap_or_else(|| PRESETS[0].0.to_owned())))
}
