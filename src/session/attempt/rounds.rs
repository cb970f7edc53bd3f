//! The rounds that a call of the agent may take.

use super::calling::Calling;
use crate::agent::Rounds;
use crate::exec::Running;
use crate::session::errors::SessionError;
use crate::session::store::Interrupt;
use crate::session::wait::{Ending, Exited, Shared, Waiter};

impl Calling<'_> {
    /// Waits for the call, whose output stands in the log from byte `from` on, and ends it once its agent begins more rounds
    /// than it may. Returns also whether that ended it.
    pub(crate) async fn wait(
        &self,
        shared: &Shared<'_>,
        job: &mut Running,
        from: u64,
    ) -> Result<(Ending<Exited>, bool), SessionError> {
        let limit = shared.store().contract.caps.agent_rounds;
        let Some((limit, mut rounds)) = limit.and_then(|limit| Some((limit, Rounds::of(&self.files.log(), from)?)))
        else {
            return Ok((shared.wait(job, None, || Ok(Interrupt::None)).await?, false));
        };
        let mut is_over = false;
        let tick = || {
            is_over = is_over || rounds.count() > limit;
            Ok(if is_over { Interrupt::Now } else { Interrupt::None })
        };
        let ended = shared.wait(job, None, tick).await?;
        match ended {
            Ending::Interrupted if is_over && shared.asked()? < Interrupt::Detach => {
                Ok((Ending::Done(job.wait().await), true))
            }
            ended => Ok((ended, false)),
        }
    }
}
