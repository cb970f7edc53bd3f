//! The limits that the output of an agent sets to its call: its rounds, and the time after its last result.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use crate::agent::Progress;
use crate::exec::{Exit, Running};
use crate::session::errors::SessionError;
use crate::session::store::Interrupt;
use crate::session::wait::{Ending, Exited, Shared, Waiter};

/// The time that an agent has to exit after its last result, if it prints nothing more.
const LINGERING: Duration = Duration::from_secs(30);

/// The reason that a call was ended before its agent exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Its agent began more rounds than it may.
    Rounds,
    /// Its agent printed its last result and did not exit.
    Lingering,
}

/// Waits for an agent whose output stands in `log` from byte `from` on. Ends it once it begins more rounds than `rounds`, or
/// lingers after its last result, which is then an exit by itself. Returns also why it was ended.
pub(super) async fn wait_for_agent(
    shared: &Shared<'_>,
    job: &mut Running,
    (log, from): (&Path, u64),
    rounds: Option<u32>,
) -> Result<(Ending<Exited>, Option<Cut>), SessionError> {
    let mut progress = Progress::of(log, from);
    let (mut cut, mut since) = (None, None);
    let tick = || {
        if let Some(progress) = progress.as_mut().filter(|_| cut.is_none()) {
            let has_more = progress.read();
            let is_over = rounds.is_some_and(|limit| progress.rounds() > limit);
            let lingers = lingers(&mut since, has_more, progress.is_complete(), Instant::now());
            cut = is_over.then_some(Cut::Rounds).or(lingers.then_some(Cut::Lingering));
        }
        Ok(if cut.is_some() { Interrupt::Now } else { Interrupt::None })
    };
    let ended = shared.wait(job, None, tick).await?;
    Ok(match (ended, cut) {
        (Ending::Interrupted, Some(cut)) if shared.asked()? < Interrupt::Detach => {
            let exited = job.wait().await;
            let done = |exit: Exit| match cut {
                Cut::Lingering => Exit { exit: Some(0), signal: None, timed_out: false, ..exit },
                Cut::Rounds => exit,
            };
            (Ending::Done(exited.map(done)), Some(cut))
        }
        (ended, _) => (ended, None),
    })
}

/// Returns whether an agent has printed nothing for a while after its last result, which it has printed if the output
/// `is_complete`; `since` is when it was first seen so.
fn lingers(since: &mut Option<Instant>, has_more: bool, is_complete: bool, now: Instant) -> bool {
    if has_more || !is_complete {
        *since = None;
    }
    is_complete && now.duration_since(*since.get_or_insert(now)) >= LINGERING
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_lingers_after_30_s_without_more_output() {
        let (began, mut since) = (Instant::now(), None);
        let mut lingers =
            |at, has_more, is_complete| lingers(&mut since, has_more, is_complete, began + Duration::from_secs(at));
        assert!(!lingers(0, true, false) && !lingers(100, false, false), "it works");
        assert!(!lingers(101, true, true) && !lingers(130, false, true));
        assert!(!lingers(131, true, true) && !lingers(160, false, true), "it printed more");
        assert!(lingers(161, false, true));
        assert!(!lingers(162, true, false) && !lingers(163, true, true) && !lingers(192, false, true));
        assert!(lingers(193, false, true));
    }
}
