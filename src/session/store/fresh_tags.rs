//! The tags of fresh runs beside the record: of pairs that were verified, and of what was ablated. Each has one line of JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::domain::{Ablated, CommitId, Direction, FORMAT_VERSION, Tag, VerifiedPair};
use crate::git::Repo;
use crate::rules::{History, Sample, judge_pair};
use crate::session::errors::{SessionError, VerifyError};
use crate::session::files::{read_messages, session_tags};

/// The message of a tag, if there is one, by which somebody goes on.
///
/// # Errors
///
/// Another version of this program wrote it.
pub(crate) fn read_tag<T: DeserializeOwned>(
    repo: &Repo,
    name: &str,
    version: impl Fn(&T) -> u32,
) -> Result<Option<T>, SessionError> {
    let Some(tag) = repo.refs.record(name)? else {
        // A ref that is no tag is somebody else's.
        return if repo.refs.has_ref(name)? { Err(VerifyError::Unread(name.to_owned()).into()) } else { Ok(None) };
    };
    let found = serde_json::from_str::<T>(&tag.message).ok();
    match found.filter(|found| version(found) == FORMAT_VERSION) {
        Some(found) => Ok(Some(found)),
        None => Err(VerifyError::Unread(name.to_owned()).into()),
    }
}

/// Writes a tag on `commit` whose message is `value` on one line.
pub(crate) fn write_tag<T: Serialize>(
    repo: &Repo,
    name: &str,
    commit: &CommitId,
    value: &T,
) -> Result<(), SessionError> {
    let message = serde_json::to_string(value).map_err(|source| VerifyError::Text(source.to_string()))?;
    Ok(repo.refs.rewrite_record(name, commit, &message)?)
}

/// Adds a run to a pair, and writes into its tag on a commit what all runs of the pair say by then. `others` are the runs that
/// tell more of the noise. Returns whether the noise is known.
pub(crate) fn record_verified(
    (repo, name, commit): (&Repo, &str, &CommitId),
    pair: &mut VerifiedPair,
    (which, seed, value): (usize, u64, f64),
    direction: Direction,
    others: &[Vec<Sample>],
) -> Result<bool, SessionError> {
    pair.add(which, seed, value);
    let is_known = judge_pair(pair, direction, others);
    write_tag(repo, name, commit, pair).map(|()| is_known)
}

/// The smallest seed that neither a run of the session had nor any larger one, those of comparisons with other sessions among
/// them. The runs of the loop itself have seeds up to 5.
pub(crate) fn first_fresh_seed(repo: &Repo, tag: &Tag, history: &History) -> Result<u64, SessionError> {
    const IN_THE_LOOP: u64 = 5;
    let mut seeds: Vec<u64> =
        history.records().iter().flat_map(|record| &record.runs).filter_map(|run| run.seed).collect();
    for other in session_tags(repo)? {
        let pairs: Vec<VerifiedPair> = read_messages(repo, &other, "verified")?;
        for pair in pairs.iter().filter(|pair| other == *tag || pair.a.is_of(tag)) {
            seeds.extend(pair.values_a.iter().chain(&pair.values_b).map(|(seed, _)| *seed));
        }
    }
    let ablated: Vec<Ablated> = read_messages(repo, tag, "ablated")?;
    seeds.extend(ablated.iter().flat_map(|ablated| &ablated.values).map(|run| run.seed));
    Ok(seeds.into_iter().max().unwrap_or_default().max(IN_THE_LOOP).saturating_add(1))
}
