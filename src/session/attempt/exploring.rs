//! Calls of the agent for text alone, before the next change: a summary, and at a pivot proposals, each in another role.

use jiff::Timestamp;

use super::calling::{Calling, Purpose, Work};
use super::lifecycle::Attempt;
use crate::domain::{Contract, Event, Notice, Role, RoleProposal, ended_text, with_causes};
use crate::measure::plain_text;
use crate::session::errors::SessionError;
use crate::session::store::Store;
use crate::session::tree::Workspace;
use crate::session::wait::{Ending, Shared, write_in_folder};
use crate::state::Journal;

/// The most bytes of a proposal that the next call is shown.
const PROPOSAL: usize = 16 * 1024;

/// The text that a call printed, or why it gave none.
pub(crate) fn text_of(work: &Work) -> Result<String, String> {
    let exit = &work.exit;
    if exit.timed_out || exit.exit != Some(0) {
        return Err(ended_text(exit.exit, exit.signal, exit.timed_out, exit.seconds));
    }
    let text = plain_text(work.speech.as_bytes());
    if text.trim().is_empty() { Err("it printed nothing".into()) } else { Ok(text.trim().to_owned()) }
}

impl Calling<'_> {
    /// Asks for text, with an attempt that comes to nothing and gives its number up again. What the call changes in the working
    /// tree is put back. An outage postpones it: then the result is `false`.
    pub(crate) async fn ask_for_text(
        &self,
        workspace: &mut Workspace,
        shared: &Shared<'_>,
    ) -> Result<Ending<bool>, SessionError> {
        let (attempt, asked) = (self.attempt, self.ask(workspace, shared, None).await?);
        shared.store().journal.give_up(attempt.open.id);
        let work = match asked.done() {
            Ok(Some(work)) => work,
            Ok(None) => return Ok(Ending::Done(false)),
            Err(ending) => return Ok(ending),
        };
        // One that was cut short is asked for again.
        match self.purpose {
            _ if work.cut_short => {}
            Purpose::Summary => keep_summary(shared, &work, attempt)?,
            Purpose::Proposal(role) => self.keep_proposal(shared, role, &work)?,
            Purpose::Change => {}
        }
        attempt.put_unfinished_away(workspace, &mut shared.store())?;
        shared.publish()?;
        Ok(Ending::Done(true))
    }

    /// Notes the proposal that a call in a role made, or says that it made none. The journal that is written when the call is
    /// put away has it.
    fn keep_proposal(&self, shared: &Shared<'_>, role: Role, work: &Work) -> Result<(), SessionError> {
        let text = text_of(work);
        let event: Event = match &text {
            Ok(_) => Event::Explored { id: self.attempt.open.id, role, seconds: work.exit.seconds },
            Err(why) => Notice::NoProposal { role, why: why.clone() }.into(),
        };
        shared.emit(event)?;
        let cut = |text: String| {
            let end = (0..=PROPOSAL.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text[..end].to_owned()
        };
        let proposal = text.ok().map(|text| RoleProposal { role, text: cut(text) });
        let store = &mut *shared.store();
        store.journal.ladder.note_proposal(proposal);
        Ok(())
    }
}

/// For which text the agent is to be called before the next change, if for any.
pub(crate) fn text_due(contract: &Contract, journal: &Journal) -> Option<Purpose> {
    let Journal { checkpoints, ladder, .. } = journal;
    if checkpoints.summary_is_due(contract.summary_at, contract.created, Timestamp::now()) {
        return Some(Purpose::Summary);
    }
    ladder.next_role(contract.explore).map(Purpose::Proposal)
}

/// Keeps the summary that a call gave, or says that it gave none.
pub(crate) fn keep_summary(shared: &Shared<'_>, work: &Work, attempt: &Attempt) -> Result<(), SessionError> {
    {
        let Store { journal, contract, .. } = &mut *shared.store();
        journal.checkpoints.summary_asked(contract.summary_at, contract.created, Timestamp::now());
    }
    let text = match text_of(work) {
        Ok(text) => text,
        Err(why) => return shared.emit(Notice::NoSummary(why)),
    };
    let path = shared.store().folder.checkpoints().join(SUMMARY);
    let written = write_in_folder(&shared.store(), SUMMARY, &format!("{text}\n"));
    match written {
        Ok(()) => shared.emit(Event::Summary { id: attempt.open.id, path, seconds: work.exit.seconds }),
        Err(error) => shared.emit(Notice::NoSummary(with_causes(&error))),
    }
}

/// The file of the agent's summary.
const SUMMARY: &str = "summary.md";
