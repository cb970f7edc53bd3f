//! The rounds that a call of the agent may take.

use std::path::Path;

use super::error::SessionError;
use super::interrupts::Interrupt;
use super::shared::Shared;
use super::supervise::{Ending, Exited};
use crate::agent::Rounds;
use crate::exec::Running;

impl Shared<'_> {
    /// Waits for a call whose output stands in `log` from byte `from` on, and ends it once its agent begins more rounds than it
    /// may. Returns also whether that ended it.
    pub(super) async fn wait_for_call(
        &self,
        job: &mut Running,
        log: &Path,
        from: u64,
    ) -> Result<(Ending<Exited>, bool), SessionError> {
        let limit = self.store().contract.caps.agent_rounds;
        let Some((limit, mut rounds)) = limit.and_then(|limit| Some((limit, Rounds::of(log, from)?))) else {
            return Ok((self.wait_for(job, None, || Ok(())).await?, false));
        };
        let mut is_over = false;
        let tick = || {
            is_over = is_over || rounds.count() > limit;
            Ok(if is_over { Interrupt::Now } else { Interrupt::None })
        };
        let ended = self.wait_or_end(job, None, tick).await?;
        match ended {
            Ending::Interrupted if is_over && self.asked()? < Interrupt::Detach => {
                Ok((Ending::Done(job.wait().await), true))
            }
            ended => Ok((ended, false)),
        }
    }
}
