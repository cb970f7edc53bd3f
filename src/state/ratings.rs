//! The user's ratings of sessions, `ratings.jsonl` in the user's state folder: each question has a repository of its own, and
//! weights are learned over all of them. The file only grows; the last line of a session counts.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::guardian_files::user_folder;
use super::{StateError, lines};
use crate::domain::{CommitId, FORMAT_VERSION, Rating, Tag};
use crate::fs::create_folder;
use crate::rules::{AxisValues, Likeness};

/// The name of the file.
const FILE: &str = "ratings.jsonl";

/// A rating of a session, with what the session's axes were then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RatedLine {
    /// The format's version.
    pub version: u32,
    /// The main working tree of its repository, for people.
    pub repository: PathBuf,
    /// The session.
    pub tag: Tag,
    /// The commit that it started from: with the tag it names the session, wherever its repository lies.
    pub start: CommitId,
    /// The rating.
    #[serde(flatten)]
    pub rating: Rating,
    /// The properties that make its numbers comparable; absent for a session without axes.
    #[serde(default)]
    pub likeness: Option<Likeness>,
    /// The means of its axes.
    #[serde(default)]
    pub means: AxisValues,
}

impl RatedLine {
    /// The line of a rating.
    pub fn new(
        repository: &Path,
        tag: &Tag,
        start: &CommitId,
        rating: Rating,
        axes: Option<(Likeness, AxisValues)>,
    ) -> RatedLine {
        let (likeness, means) = axes.map_or((None, AxisValues::new()), |(likeness, means)| (Some(likeness), means));
        RatedLine {
            version: FORMAT_VERSION,
            repository: repository.to_owned(),
            tag: tag.clone(),
            start: start.clone(),
            rating,
            likeness,
            means,
        }
    }

    /// Returns whether it rates this session.
    pub fn is_of(&self, tag: &Tag, start: &CommitId) -> bool {
        self.tag == *tag && self.start == *start
    }

    /// The session as it is named in another repository.
    pub fn name(&self) -> String {
        let folder = self.repository.file_name().unwrap_or_default().to_string_lossy();
        format!("{folder}/{}", self.tag)
    }
}

/// The newest rating of each session; lines that cannot be read are skipped. Empty without a home folder.
///
/// # Errors
///
/// The file cannot be read.
pub fn read_ratings() -> Result<Vec<RatedLine>, StateError> {
    let Some(path) = user_folder().map(|folder| folder.join(FILE)) else { return Ok(Vec::new()) };
    let mut ratings: Vec<RatedLine> = Vec::new();
    for line in lines::lines(&lines::content(&path)?) {
        let Ok(line) = serde_json::from_slice::<RatedLine>(line) else { continue };
        if Rating::value(&line.rating.value.to_string()).is_ok() {
            ratings.retain(|known| !known.is_of(&line.tag, &line.start));
            ratings.push(line);
        }
    }
    Ok(ratings)
}

/// Adds a rating; `false` without a home folder.
///
/// # Errors
///
/// The file cannot be written.
pub fn add_rating(line: &RatedLine) -> Result<bool, StateError> {
    let Some(folder) = user_folder() else { return Ok(false) };
    create_folder(&folder)?;
    lines::add_durably(&folder.join(FILE), line)?;
    Ok(true)
}
