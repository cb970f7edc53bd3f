//! Reviews of keeps whose reviewer gave no verdict when they were made.

use super::session::Session;
use crate::crash;
use crate::domain::{Event, Note, Record, Review, ReviewVerdict};
use crate::git::Notes;
use crate::session::attempt::ReviewCall;
use crate::session::errors::SessionError;
use crate::session::files::session_of_head;
use crate::session::plan::Drive;
use crate::session::store::{Interrupt, Store};
use crate::session::tree::{Workspace, remove_trees};
use crate::session::view::{NOTES, SessionView};
use crate::session::wait::{Ending, Shared};

/// After how many reviews in a row without a verdict the reviewer counts as out: two, since one may be due to a change that it
/// never copes with, and each costs up to a call's time limit.
const OUT: u32 = 2;

/// The author of notes on doubted keeps.
const REVIEWER: &str = "the reviewer";

/// Reviews the unreviewed keeps, the oldest first. Stops when the reviewer gives no verdict twice in a row, on a request, or
/// when time or a budget is spent. Keeps stay kept: a doubt is only noted.
pub(crate) async fn review_left(shared: &Shared<'_>, workspace: &mut Workspace) -> Result<(), SessionError> {
    let left: Vec<Record> = {
        let store = shared.store();
        if store.contract.reviewer.is_none() {
            return Ok(());
        }
        store.history.records().iter().filter(|record| record.is_unreviewed()).cloned().collect()
    };
    let mut vain = 0;
    for record in left {
        let is_spent = {
            let store = shared.store();
            // Outside a loop only the session's own caps count.
            store.journal.expenses.calls_enough(&store.contract, shared.times.are_counted()).is_some()
        };
        if is_spent || shared.is_time_over() || shared.asked()? != Interrupt::None {
            break;
        }
        {
            let store = &mut *shared.store();
            store.journal.tree.review(Some(record.id));
            store.write_journal()?;
        }
        let call = ReviewCall::of(&record, &shared.store().folder);
        let ended = call.review(shared, None).await?;
        if !matches!(ended, Ending::Detached) {
            let store = &mut *shared.store();
            workspace.undo_review(store, false)?;
        }
        let Ending::Done(review) = ended else { break };
        let id = record.id;
        vain = if review.verdict == ReviewVerdict::Unreviewed { vain + 1 } else { 0 };
        if vain == 0 {
            note_review(&mut shared.store(), record, review.clone())?;
        }
        shared.emit(Event::ReviewFinished { id, review, late: true })?;
        if vain == OUT {
            break;
        }
    }
    shared.publish()
}

/// Reviews the unreviewed keeps of a session that no loop will review any more.
///
/// # Errors
///
/// The session's own files cannot be read or written, or the disk is full. A failing reviewer is not an error.
pub async fn review_keeps(session: &mut Session<'_>) -> Result<(), SessionError> {
    let reviewed = review_left(&session.shared, &mut session.workspace).await;
    let store = session.shared.store.get_mut();
    let trees = if session.workspace.home.is_disposable() { remove_trees(store) } else { Ok(()) };
    // Also saves the usage of a review without a verdict.
    let written = store.write_journal();
    session.finish_alerts().await;
    reviewed.and(trees).and(written)
}

/// Undoes what a reviewer did in a late review that was cut off. A change of the user's that is to be measured stays
/// in the working tree.
pub(crate) fn undo_late_review(workspace: &mut Workspace, store: &mut Store, drive: Drive) -> Result<(), SessionError> {
    if store.journal.tree.reviewed().is_none() {
        return Ok(());
    }
    let has_change = drive.adopts() || matches!(drive, Drive::WorkingTree { .. });
    let keeps_files = has_change && workspace.home.has_user();
    workspace.undo_review(store, keeps_files)
}

impl Workspace {
    /// Undoes what a reviewer did to the branch, and unless it `keeps_files`, to the working tree, while nothing is open:
    /// nothing that follows would.
    fn undo_review(&mut self, store: &mut Store, keeps_files: bool) -> Result<(), SessionError> {
        let tip = store.tip();
        if self.home.follows_branch() {
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
    /// Number of unreviewed keeps that can be reviewed now. The session must have a reviewer, be driven by hand (a loop
    /// reviews at its end), be idle and have nothing open. In place, its branch must be checked out without changes.
    ///
    /// # Errors
    ///
    /// The working tree cannot be read.
    pub fn unreviewed_keeps(&self) -> Result<usize, SessionError> {
        let count = self.history.records().iter().filter(|record| record.is_unreviewed()).count();
        let has_reviewer = self.contract.as_ref().is_some_and(|contract| contract.reviewer.is_some());
        let journal = self.journal().filter(|journal| count > 0 && has_reviewer && journal.is_between_tries());
        let Some(journal) = journal else { return Ok(0) };
        let is_idle = matches!(self.folder.owner(self.repo.git_dir()), Ok(None));
        let is_ready = !journal.home().has_user()
            || session_of_head(&self.repo.refs.head()?).as_ref() == Some(&self.tag)
                && self.repo.working_tree.changes()?.tracked.is_empty();
        Ok(if is_idle && is_ready { count } else { 0 })
    }
}

/// Puts a verdict into the record of a keep; a doubt also stands in a note on its commit.
fn note_review(store: &mut Store, record: Record, review: Review) -> Result<(), SessionError> {
    let text = format!("reviewed after it was kept, {}", review.sentence());
    let is_doubted = review.verdict != ReviewVerdict::Earned;
    let record = Record { review: Some(review), ..record };
    // First, as the note says no more: a review that is made again would be noted twice.
    store.amend_record(&record)?;
    crash::point("reviewing.amended");
    if is_doubted {
        let line = Note::line(store.now(), &store.contract.tag, record.id, REVIEWER, &text);
        Notes::new(&store.repo.refs, NOTES).add(&record.commit, &line)?;
    }
    store.write_journal()
}
