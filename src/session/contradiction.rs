//! A journal that says something else than the records and the commits.

use super::opened::is_being_replaced;
use crate::domain::{CommitId, Phase, Record};
use crate::git::Repo;
use crate::rules::{History, OpenFound, OpenTrouble, judge_open};
use crate::state::{Journal, OpenExperiment};

/// What a journal says of the open attempts that cannot be; `tip` is the commit that the next experiment is made on.
pub(super) fn contradiction(repo: &Repo, history: &History, tip: &CommitId, journal: &Journal) -> Option<OpenTrouble> {
    journal.steps().find_map(|(phase, open)| {
        // Half of a train may be recorded, each with a commit other than the one that it was measured with.
        let is_recorded_together = journal.open_attempts().any(|by| {
            let is_own = |record: &Record| by.id == open.id && Some(&record.commit) == open.commit.as_ref();
            by.recording.iter().any(|record| record.id == open.id && !is_own(record))
        });
        let found = look_at_open(repo, history, tip, journal, (phase, open), is_recorded_together);
        let is_on = |commit: &CommitId, base: &CommitId| {
            // That of a train is on the other cars.
            commit == base
                || open.trial.is_some()
                || repo.objects.parents(commit).is_ok_and(|parents| parents == [base.clone()])
        };
        judge_open(found, |commit| repo.objects.has_commit(commit), is_on)
    })
}

fn look_at_open<'a>(
    repo: &Repo,
    history: &'a History,
    tip: &'a CommitId,
    journal: &Journal,
    (phase, open): (Phase, &'a OpenExperiment),
    is_recorded_together: bool,
) -> OpenFound<'a> {
    // The numbers of several attempts were given in advance.
    let given = journal.given;
    let are_several = journal.home().is_one_of_many() || given.is_some();
    // The record of an experiment that is measured once more stands until the new one is made.
    let tag = history.baseline().map(|record| &record.tag);
    let is_replaced = tag.is_some_and(|tag| is_being_replaced(repo, tag, open).unwrap_or(false));
    let recorded = history.get(open.id).filter(|_| !is_replaced && !is_recorded_together);
    let is_last = history.records().last().is_some_and(|last| last.id == open.id);
    // Beside others it may be recorded while another one is.
    let is_recording = are_several && matches!(phase, Phase::Recording | Phase::Settling);
    OpenFound {
        phase,
        open: (open.commit.as_ref(), &open.base),
        is_free: is_replaced || is_recorded_together || history.is_free(open.id, given),
        is_last: recorded.is_some() && (is_last || is_recording),
        recorded: recorded.map(|record| &record.commit),
        // What the others were made on may not be the best one any more.
        tip: Some(&open.base).filter(|base| are_several && history.knows(base)).unwrap_or(tip),
    }
}

/// The trouble in words.
pub(super) fn trouble_text(trouble: OpenTrouble) -> &'static str {
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
