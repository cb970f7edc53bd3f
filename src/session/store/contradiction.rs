//! A journal that says something else than the records and the commits.

use super::open_attempt::is_being_replaced;
use crate::domain::{CommitId, Phase};
use crate::git::Repo;
use crate::rules::{History, OpenTrouble, judge_open};
use crate::state::{Journal, OpenExperiment};

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
