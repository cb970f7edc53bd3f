//! A journal that says something else than the records and the commits.

use super::opened::is_being_replaced;
use crate::domain::CommitId;
use crate::git::Repo;
use crate::rules::{History, OpenFound, OpenTrouble, judge_open};
use crate::state::{Journal, OpenExperiment};

/// What a journal says of the open experiment that cannot be; `tip` is the commit that the next experiment is made on.
pub(super) fn contradiction(repo: &Repo, history: &History, tip: &CommitId, journal: &Journal) -> Option<OpenTrouble> {
    let open = journal.open.as_ref();
    // The record of an experiment that is measured once more stands until the new one is made.
    let is_replaced = |open: &OpenExperiment| {
        let tag = history.baseline().map(|record| &record.tag);
        tag.is_some_and(|tag| is_being_replaced(repo, tag, open).unwrap_or(false))
    };
    let replaced = open.filter(|open| is_replaced(open)).map(|open| open.id);
    let last = history.records().last().map(|record| record.id);
    let found = OpenFound {
        phase: journal.phase,
        open: open.map(|open| (open.commit.as_ref(), &open.base)),
        is_free: open.is_some_and(|open| replaced.is_some() || history.is_free(open.id, journal.given)),
        is_last: open.is_some_and(|open| replaced.is_none() && Some(open.id) == last),
        recorded: open
            .filter(|_| replaced.is_none())
            .and_then(|open| history.get(open.id))
            .map(|record| &record.commit),
        // Of several attempts the first one may have been kept since.
        tip: open.map(|open| &open.base).filter(|base| journal.given.is_some() && history.knows(base)).unwrap_or(tip),
    };
    let is_on = |commit: &CommitId, base: &CommitId| {
        commit == base || repo.objects.parents(commit).is_ok_and(|parents| parents == [base.clone()])
    };
    judge_open(found, |commit| repo.objects.has_commit(commit), is_on)
}

/// The trouble in words.
pub(super) fn trouble_text(trouble: OpenTrouble) -> &'static str {
    match trouble {
        OpenTrouble::Unnamed => "the journal has an open experiment and says that none is",
        OpenTrouble::Missing => "the journal is in the middle of an experiment and has none",
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
