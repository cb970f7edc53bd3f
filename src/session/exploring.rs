//! Proposals at a pivot: calls of the agent before the next change, each in another role, and each for text alone.

use super::attempt::Attempt;
use super::calling::{Calling, Purpose, Work};
use super::error::SessionError;
use super::open::Session;
use super::shared::Shared;
use super::store::Store;
use super::supervise::Ending;
use crate::domain::{Event, Notice, Role, RoleProposal, ended_text};
use crate::measure::plain_text;

/// The most bytes of a proposal that the next call is shown.
const PROPOSAL: usize = 16 * 1024;

/// Whether the agent was asked for text between two experiments.
pub(super) enum AskedForText {
    /// Nothing was due.
    No,
    /// The agent was asked, whatever came of it, or the loop has no time left.
    Yes,
    /// The agent was unavailable.
    Outage,
}

/// The text that a call printed, or why it gave none.
pub(super) fn text_of(work: &Work) -> Result<String, String> {
    let exit = &work.exit;
    if exit.timed_out || exit.exit != Some(0) {
        return Err(ended_text(exit.exit, exit.signal, exit.timed_out, exit.seconds));
    }
    let text = plain_text(work.speech.as_bytes());
    if text.trim().is_empty() { Err("it printed nothing".into()) } else { Ok(text.trim().to_owned()) }
}

impl Session<'_> {
    /// Asks the agent in the next role, if the next experiment is a pivot for which it was not asked yet.
    pub(super) async fn explore_if_due(&mut self) -> Result<Ending<AskedForText>, SessionError> {
        let role = self.shared.store().role_due();
        let Some(role) = role else { return Ok(Ending::Done(AskedForText::No)) };
        self.ask_for_text(Purpose::Proposal(role), |shared, work, attempt| shared.keep_proposal(role, work, attempt))
            .await
    }

    /// Calls the agent for text, which `keep` takes. What it changes in the working tree is put back, and an outage postpones
    /// it.
    pub(super) async fn ask_for_text(
        &mut self,
        purpose: Purpose,
        keep: impl FnOnce(&Shared<'_>, &Work, &Attempt) -> Result<(), SessionError>,
    ) -> Result<Ending<AskedForText>, SessionError> {
        let Session { shared, workspace, .. } = self;
        shared.gate().await?;
        if shared.is_time_over() {
            return Ok(Ending::Done(AskedForText::Yes));
        }
        let attempt = Attempt::open(workspace, &mut shared.store())?;
        let last_call = shared.store().journal.last_call.clone();
        let call = Calling::for_text(&attempt, &mut shared.store(), purpose)?;
        let asked = call.ask(workspace, shared, None).await?;
        // The next call is told of the one before this.
        shared.store().journal.last_call = last_call;
        let work = match asked.done() {
            Ok(Some(work)) => work,
            Ok(None) => return Ok(Ending::Done(AskedForText::Outage)),
            Err(ending) => return Ok(ending),
        };
        // One that was cut short is asked for again.
        if !work.cut_short {
            keep(shared, &work, &attempt)?;
        }
        attempt.put_unfinished_away(workspace, &mut shared.store())?;
        shared.tell()?;
        Ok(Ending::Done(AskedForText::Yes))
    }
}

impl Shared<'_> {
    /// Notes the proposal that a call in a role made, or says that it made none. The journal that is written when the call is
    /// put away has it.
    fn keep_proposal(&self, role: Role, work: &Work, attempt: &Attempt) -> Result<(), SessionError> {
        let text = text_of(work);
        let event: Event = match &text {
            Ok(_) => Event::Explored { id: attempt.open.id, role, seconds: work.exit.seconds },
            Err(why) => Notice::NoProposal { role, why: why.clone() }.into(),
        };
        self.emit(event)?;
        let cut = |text: String| {
            let end = (0..=PROPOSAL.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text[..end].to_owned()
        };
        let proposal = text.ok().map(|text| RoleProposal { role, text: cut(text) });
        let store = &mut *self.store();
        let turns = store.journal.rung.turns;
        store.journal.explored.note(turns, proposal);
        Ok(())
    }
}

impl Store {
    /// The role to be asked before the next experiment.
    fn role_due(&self) -> Option<Role> {
        let is_pivot = self.directive().wants_new_direction();
        is_pivot.then(|| self.journal.explored.next_role(self.journal.rung.turns, self.contract.explore))?
    }

    /// The proposals for the next experiment.
    pub(super) fn proposals(&self) -> Vec<RoleProposal> {
        match self.directive().wants_new_direction() {
            true => self.journal.explored.at(self.journal.rung.turns).to_vec(),
            false => Vec::new(),
        }
    }
}
