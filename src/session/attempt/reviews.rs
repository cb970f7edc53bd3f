//! Reviews beside others: a change that would be kept has left its slot, and joins the line of winners afterwards.

use super::joining::join_line;
use super::lifecycle::{Attempt, Attempted};
use crate::domain::{ExperimentId, Phase, Record};
use crate::session::errors::SessionError;
use crate::session::store::{Store, draft_of};
use crate::session::wait::{Ending, Shared};

/// The attempts that are to be reviewed, or are being reviewed.
pub(crate) fn to_review(store: &Store) -> Vec<ExperimentId> {
    store.journal.in_phase(Phase::Reviewing).map(|open| open.id).collect()
}

/// Has an attempt reviewed. Then it is a winner, or is recorded.
pub(crate) async fn review(attempt: &mut Attempt, shared: &Shared<'_>) -> Result<Attempted, SessionError> {
    if let Ending::Detached = attempt.have_reviewed(shared, None).await? {
        return Ok(Attempted::StillRunning);
    }
    let draft = draft_of(&attempt.open)?;
    let alone = join_line(attempt, &mut shared.store(), draft)?;
    if let Some(record) = alone {
        let record = Record { beside: attempt.open.beside.clone(), ..record };
        shared.store().record(attempt.open.clone(), vec![record], None)?;
    }
    shared.publish()?;
    Ok(Attempted::Waiting)
}
