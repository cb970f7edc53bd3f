//! The steps before a new agent call: pauses and the gate.

use super::checkpoints::keep_checkpoint;
use super::gate::gate_of_call;
use super::outage::pause_when_idle;
use super::shared::Shared;
use super::sleeping::{Paced, keep_pace};
use crate::session::errors::SessionError;

/// The permission to start new calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Clearance {
    /// Refused until the wait is over, which has not begun.
    #[default]
    None,
    /// The wait is under way.
    Awaited,
    /// New calls may start.
    Given,
}

/// Waits for what comes before new calls: a pause after a call of so many seconds that changed nothing; otherwise the pause
/// that the cadence asks for, except before a call for text, and the gate. `paced` says whether the cadence's pause may have
/// begun in an earlier process.
pub(crate) async fn clear(shared: &Shared<'_>, idle: Option<f64>, paced: Option<bool>) -> Result<Paced, SessionError> {
    if let Some(seconds) = idle {
        pause_when_idle(shared, seconds).await?;
        return Ok(Paced::Waited);
    }
    keep_checkpoint(shared)?;
    let paced = match paced {
        Some(is_begun) => keep_pace(shared, is_begun).await?,
        None => Paced::Ready,
    };
    if matches!(paced, Paced::Ready | Paced::Rested) {
        gate_of_call(shared).await?;
    }
    Ok(paced)
}
