//! Reviews of kept changes whose reviewer gave no verdict when they were kept: at the end of a night, and by `ar review`.

use super::session::Session;
use crate::crash;
use crate::domain::{Event, ExperimentId, Note, Outcome, Record, Review, ReviewVerdict, StopReason};
use crate::git::Notes;
use crate::session::attempt::ReviewCall;
use crate::session::errors::{CannotStart, SessionError, TryError, refuse};
use crate::session::files::session_of_head;
use crate::session::handlers::{Workspace, remove_trees};
use crate::session::plan::Drive;
use crate::session::store::{Interrupt, Store, Walls};
use crate::session::view::{NOTES, SessionView};
use crate::session::wait::{SessionContext, WaitEnd};
use crate::state::Journal;

/// After how many reviews in a row without a verdict the reviewer counts as out: two, since one may be due to a change that it
/// never copes with, and each costs up to a call's time limit.
const OUT: u32 = 2;

/// The author of notes on doubted keeps.
const REVIEWER: &str = "the reviewer";

/// Reviews those keeps, or all that are unreviewed, the oldest first. Stops when the reviewer gives no verdict twice in a row,
/// on a request, or when time or a budget is spent. Keeps stay kept: a doubt is only noted. Returns those without a new verdict,
/// and the budget that is spent.
pub(crate) async fn review_left(
    shared: &SessionContext<'_>,
    workspace: &mut Workspace,
    named: Option<&[ExperimentId]>,
) -> Result<(Vec<ExperimentId>, Option<StopReason>), SessionError> {
    let records: Vec<Record> = {
        let store = shared.store();
        if store.contract.reviewer.is_none() {
            return Ok((Vec::new(), None));
        }
        let is_asked =
            |record: &&Record| named.map_or_else(|| record.is_unreviewed(), |named| named.contains(&record.id));
        store.history.records().iter().filter(is_asked).cloned().collect()
    };
    let mut left: Vec<ExperimentId> = records.iter().map(|record| record.id).collect();
    let (mut vain, mut spent) = (0, None);
    for record in records {
        spent = {
            let store = shared.store();
            // Outside a loop only the session's own caps count.
            store.journal.expenses.calls_enough(&store.contract, shared.times.are_counted())
        };
        if spent.is_some() || shared.is_time_over() || shared.asked()? != Interrupt::None {
            break;
        }
        {
            let store = &mut *shared.store();
            store.journal.tree.review(Some(record.id));
            store.write_journal()?;
        }
        let call = ReviewCall::of(&record, &shared.store().folder);
        let ended = call.review(shared, None).await?;
        if !matches!(ended, WaitEnd::Detached) {
            let store = &mut *shared.store();
            workspace.undo_review(store, false)?;
        }
        let WaitEnd::Done(review) = ended else { break };
        let id = record.id;
        vain = if review.verdict == ReviewVerdict::Unreviewed { vain + 1 } else { 0 };
        if vain == 0 {
            left.retain(|other| *other != id);
            note_review(&mut shared.store(), record, review.clone())?;
        }
        shared.emit(Event::ReviewFinished { id, review, late: true })?;
        if vain == OUT {
            break;
        }
    }
    shared.publish()?;
    Ok((left, spent))
}

/// Reviews those keeps of an idle session now. Returns those without a new verdict, and the budget that is spent.
///
/// # Errors
///
/// The session's own files cannot be read or written, the disk is full, or a required wall cannot be built. A failing reviewer
/// is not an error.
pub async fn review_keeps(
    session: &mut Session<'_>,
    ids: &[ExperimentId],
) -> Result<(Vec<ExperimentId>, Option<StopReason>), SessionError> {
    let store = session.shared.store.get_mut();
    let (walls, _) = Walls::tried(store.contract.sandbox, &store.repo, store.repo.worktree())?;
    (store.walls, _) = walls.hiding(&store.repo, &store.folder, &store.contract)?;
    let reviewed = review_left(&session.shared, &mut session.workspace, Some(ids)).await;
    let store = session.shared.store.get_mut();
    let trees = if session.workspace.owner.is_disposable() { remove_trees(store) } else { Ok(()) };
    // Also saves the usage of a review without a verdict.
    let written = store.write_journal();
    session.finish_alerts().await;
    trees.and(written).and(reviewed)
}

/// Undoes what a reviewer did in a late review that was cut off. A change of the user's that is to be measured stays
/// in the working tree.
pub(crate) fn undo_late_review(workspace: &mut Workspace, store: &mut Store, drive: Drive) -> Result<(), SessionError> {
    if store.journal.tree.reviewed().is_none() {
        return Ok(());
    }
    let has_change = drive.adopts() || matches!(drive, Drive::WorkingTree { .. });
    let keeps_files = has_change && workspace.owner.has_user();
    workspace.undo_review(store, keeps_files)
}

impl Workspace {
    /// Undoes what a reviewer did to the branch, and unless it `keeps_files`, to the working tree, while nothing is open:
    /// nothing that follows would.
    fn undo_review(&mut self, store: &mut Store, keeps_files: bool) -> Result<(), SessionError> {
        let tip = store.tip();
        if self.owner.follows_branch() {
            self.move_head(store, &tip, &[], "reviewed")?;
            if !keeps_files {
                self.restore(store, &tip, &tip)?;
            }
        } else {
            store.set_branch(&tip, &[], "reviewed")?;
        }
        store.journal.tree.review(None);
        Ok(())
    }
}

impl SessionView {
    /// The keeps about which the reviewer is asked now: those named, else the unreviewed ones.
    ///
    /// # Errors
    ///
    /// There is no reviewer, one of those named was not kept, an experiment is open, or what a reviewer does in the user's working
    /// tree could not be undone: it has another branch checked out, or changes.
    pub fn keeps_to_review(&self, named: &[ExperimentId]) -> Result<Vec<ExperimentId>, SessionError> {
        let tag = &self.tag;
        if self.contract.as_ref().is_none_or(|contract| contract.reviewer.is_none()) {
            return Err(refuse(CannotStart, format!("session {tag} has no reviewer"))
                .hint(format!("run `ar resume {tag} --reviewer COMMAND` to give it one"))
                .into());
        }
        let is_kept = |id| self.history.get(id).is_some_and(|record| record.outcome == Outcome::Keep);
        if let Some(id) = named.iter().find(|id| id.is_baseline() || !is_kept(**id)) {
            return Err(self.not_kept(*id, "it has no review").into());
        }
        let unreviewed = self.history.records().iter().filter(|record| record.is_unreviewed()).map(|record| record.id);
        let ids = if named.is_empty() { unreviewed.collect() } else { named.to_vec() };
        // A session that is held is refused when it is opened.
        let is_idle = matches!(self.folder.owner(self.repo.git_dir()), Ok(None));
        if !is_idle || ids.is_empty() {
            return Ok(ids);
        }
        let journal = self.journal();
        if let Some(id) = journal.as_ref().and_then(|journal| journal.next_recorded()) {
            return Err(TryError::OtherOpen { tag: tag.to_string(), id }.into());
        }
        let has_own_tree = |journal: &Journal| !journal.tree_owner().has_user() || journal.tree.reviewed().is_some();
        let is_ready = journal.as_ref().is_some_and(has_own_tree)
            || session_of_head(&self.repo.refs.head()?).as_ref() == Some(tag)
                && self.repo.working_tree.changes()?.tracked.is_empty();
        if !is_ready {
            let text = "cannot ask the reviewer: the working tree has changes or another branch";
            return Err(refuse(CannotStart, text)
                .hint(format!(
                    "commit or stash the changes and run `git switch {}`, or pass --unreviewed to `ar finalize {tag}`",
                    tag.branch()
                ))
                .into());
        }
        Ok(ids)
    }
}

/// Puts a verdict into the record of a keep; a doubt also stands in a note on its commit.
fn note_review(store: &mut Store, mut record: Record, review: Review) -> Result<(), SessionError> {
    let text = format!("reviewed after it was kept, {}", review.sentence());
    let is_doubted = review.verdict != ReviewVerdict::Earned;
    record.proof.review = Some(review);
    // First, as the note says no more: a review that is made again would be noted twice.
    store.amend_record(&record)?;
    crash::point("reviewing.amended");
    if is_doubted {
        let line = Note::line(store.now(), &store.contract.tag, record.id, REVIEWER, &text);
        Notes::new(&store.repo.refs, NOTES).add(&record.commit, &line)?;
    }
    store.write_journal()
}
