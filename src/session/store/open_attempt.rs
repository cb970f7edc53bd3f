//! Reads open experiments and describes their changes, finds journals that contradict records and commits, and keeps the
//! tags of fresh runs beside the record.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::domain::{
    Ablated, CommitId, DiffStat, Direction, FORMAT_VERSION, Phase, Record, Tag, VerifiedPair, one_line,
};
use crate::git::{Proposal as Change, Repo};
use crate::rules::{History, OpenTrouble, Sample, has_words, judge_open, judge_pair};
use crate::session::errors::{SessionError, VerifyError};
use crate::session::files::{read_messages, session_tags};
use crate::state::{Journal, OpenExperiment};

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

/// Returns the first contradiction in the journal's open attempts. `tip` is the commit that the next experiment builds on.
pub(crate) fn contradiction(repo: &Repo, history: &History, tip: &CommitId, journal: &Journal) -> Option<OpenTrouble> {
    let tag = history.baseline().map(|record| &record.tag);
    let is_replaced =
        |open: &OpenExperiment| tag.is_some_and(|tag| is_being_replaced(repo, tag, open).unwrap_or(false));
    journal.found(history, tip, is_replaced).find_map(|(open, found)| {
        let is_rerun = found.phase == Phase::Checking;
        let is_on = |commit: &CommitId, base: &CommitId| {
            // A train's commit is on top of its other cars, and that of a rerun is an earlier one.
            commit == base
                || open.trial.is_some()
                || is_rerun && history.knows(commit)
                || repo.objects.parents(commit).is_ok_and(|parents| parents == [base.clone()])
        };
        judge_open(found, |commit| repo.objects.has_commit(commit), is_on)
    })
}

/// The trouble in words.
pub(crate) fn trouble_text(trouble: OpenTrouble) -> &'static str {
    match trouble {
        OpenTrouble::Unnamed => "the journal has an open experiment and says that none is",
        OpenTrouble::Number => "the journal's open experiment has a number that the records do not leave room for",
        OpenTrouble::NoCommit => "the journal names no commit for the experiment that runs",
        OpenTrouble::LostCommit => "the journal's open experiment is on a commit that is not in the repository",
        OpenTrouble::LostBase => "the journal's open experiment was made on a commit that is not in the repository",
        OpenTrouble::OtherBase => "the journal's open experiment was made on another commit than the best one",
        OpenTrouble::OtherParent => {
            "the commit of the journal's open experiment is not on the commit that it was made on"
        }
        OpenTrouble::OtherCommit => "the journal's open experiment is recorded, and with another commit",
    }
}

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
