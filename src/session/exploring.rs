//! Calls of the agent for text alone, before the next change: a summary, and at a pivot proposals, each in another role.

use jiff::Timestamp;

use super::calling::{Calling, Purpose, Work};
use super::checkpoints::keep_summary;
use super::error::SessionError;
use super::shared::Shared;
use super::supervise::Ending;
use super::workspace::Workspace;
use crate::domain::{Contract, Event, Notice, Role, RoleProposal, ended_text};
use crate::measure::plain_text;
use crate::state::Journal;

/// The most bytes of a proposal that the next call is shown.
const PROPOSAL: usize = 16 * 1024;

/// The text that a call printed, or why it gave none.
pub(super) fn text_of(work: &Work) -> Result<String, String> {
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
    pub(super) async fn ask_for_text(
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
        shared.tell()?;
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
pub(super) fn text_due(contract: &Contract, journal: &Journal) -> Option<Purpose> {
    let Journal { checkpoints, ladder, .. } = journal;
    if checkpoints.summary_is_due(contract.summary_at, contract.created, Timestamp::now()) {
        return Some(Purpose::Summary);
    }
    ladder.next_role(contract.explore).map(Purpose::Proposal)
}
