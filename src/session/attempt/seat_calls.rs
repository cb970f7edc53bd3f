//! Calls of agents in seats.

use super::calling::{Calling, Purpose};
use super::lifecycle::Attempt;
use super::merging::{is_to_be_merged, merge};
use super::proposing::CallResult;
use super::reworking::Reworked;
use crate::session::errors::SessionError;
use crate::session::store::commit_of;
use crate::session::tree::Workspace;
use crate::session::wait::{Ending, Shared};

/// The outcome of a call.
pub(crate) enum Called {
    /// Finished; the journal has its outcome.
    Over,
    /// The change is in the tree where it runs, and the run is in the journal.
    Prepared(Box<Attempt>),
    /// Nothing, after so many seconds.
    Idle { seconds: f64 },
    /// The agent is unavailable.
    Outage,
    /// Its shim was killed.
    Lost,
    /// It is still running without this process, or ends with it.
    Detached,
}

/// Calls an agent for a new change. Records a refused change without running it.
pub(crate) async fn propose(
    attempt: Attempt,
    workspace: &mut Workspace,
    shared: &Shared<'_>,
) -> Result<Called, SessionError> {
    match attempt.propose(workspace, shared).await? {
        Ending::Done(CallResult::Change(mut attempt)) => {
            let commit = commit_of(&attempt.open)?;
            if attempt.is_prepared {
                return Ok(Called::Prepared(attempt));
            }
            if workspace.home.is_disposable() && workspace.vanishes_after(&attempt.open.base, &commit).await? {
                let store = &mut *shared.store();
                store.journal.calls.uncount();
                store.close_open(attempt.open.id)?;
                return Ok(Called::Lost);
            }
            if attempt.open.refused.is_some() {
                attempt.finish(workspace, shared, None).await?;
            }
            Ok(Called::Over)
        }
        Ending::Done(CallResult::Nothing { seconds }) => Ok(Called::Idle { seconds }),
        Ending::Done(CallResult::Outage) => Ok(Called::Outage),
        Ending::Interrupted => Ok(Called::Over),
        Ending::Lost => Ok(Called::Lost),
        Ending::Detached => Ok(Called::Detached),
    }
}

/// Asks an agent for text.
pub(crate) async fn ask_for_text(
    attempt: &Attempt,
    workspace: &mut Workspace,
    shared: &Shared<'_>,
    purpose: Purpose,
) -> Result<Called, SessionError> {
    let call = Calling::for_text(attempt, &mut shared.store(), purpose)?;
    Ok(match call.ask_for_text(workspace, shared).await? {
        Ending::Done(true) | Ending::Interrupted => Called::Over,
        Ending::Done(false) => Called::Outage,
        Ending::Lost => Called::Lost,
        Ending::Detached => Called::Detached,
    })
}

/// Has an agent merge or rework the change of an open attempt.
pub(crate) async fn call_again(
    mut attempt: Attempt,
    workspace: &mut Workspace,
    shared: &Shared<'_>,
) -> Result<Called, SessionError> {
    if is_to_be_merged(&attempt) {
        return merge(&mut attempt, workspace, shared).await;
    }
    let reworked = attempt.rework(workspace, shared).await?;
    shared.publish()?;
    Ok(match reworked {
        Ending::Done(Reworked::Version) if attempt.is_prepared => Called::Prepared(Box::new(attempt)),
        Ending::Done(Reworked::Version) if attempt.open.refused.is_some() => {
            attempt.finish(workspace, shared, None).await?;
            Called::Over
        }
        Ending::Done(Reworked::Version | Reworked::Recorded) | Ending::Interrupted => Called::Over,
        Ending::Done(Reworked::Outage) => Called::Outage,
        Ending::Lost => Called::Lost,
        Ending::Detached => Called::Detached,
    })
}
