//! Changes that are taken out of the working tree as commits, and back in.

use super::attempt::{Attempt, Attempted};
use super::error::SessionError;
use super::open::Session;
use super::own_files::remove_file;
use super::supervise::Deadline;
use crate::crash;
use crate::domain::Phase;
use crate::rules::Forbidden;
use crate::state::{Aside, OpenExperiment};

impl Session<'_> {
    /// Makes the change that was set aside, if there is one, the next experiment.
    pub(super) async fn attempt_aside(&mut self, deadline: Deadline) -> Result<Attempted, SessionError> {
        let Some(aside) = self.store.journal.aside.take() else { return Ok(Attempted::Recorded) };
        let Aside { commit, description, direction, proposal, .. } = aside;
        let open = OpenExperiment::new(self.store.history.next_id(), self.store.tip(), self.store.now());
        let mut open = OpenExperiment { description, direction, proposal, ..open };
        self.workspace.check(&mut self.store, &mut open, &commit, &[], &Forbidden::default())?;
        open.commit = Some(commit);
        self.store.journal.iteration += 1;
        remove_file(&self.store.index_before())?;
        crash::point("aside.index_forgotten");
        self.store.enter(Phase::Committing, open.clone())?;
        crash::point("aside.opened");
        self.workspace.check_out(&mut self.store, &open)?;
        crash::point("aside.checked_out");
        let mut attempt = Attempt::at(open);
        attempt.prepare_run(self)?;
        attempt.finish(self, deadline).await
    }
}
