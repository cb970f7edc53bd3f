//! Waiting: one loop for jobs of all kinds, and one wait between two looks at something else.

use std::future::pending;
use std::time::Duration;

use libc::{SIGKILL, SIGTERM};
use tokio::time::{Instant, sleep, sleep_until};

use super::{SessionContext, keep_checkpoint};
use crate::crash;
use crate::domain::DEFAULT_OUTAGE_LIMIT;
use crate::exec::{ExecError, Exit, Running};
use crate::session::errors::SessionError;
use crate::session::store::{Interrupt, Interrupts};

/// The longest wait for an engine that is to end a job.
const STOPPING: Duration = Duration::from_secs(10);

/// Until when something is waited for; for ever when absent.
pub(crate) type Deadline = Option<Instant>;

/// The outcome of waiting for something.
pub(crate) enum WaitEnd<T> {
    /// It is finished, with this outcome.
    Done(T),
    /// The user asked to stop, and it was terminated.
    Interrupted,
    /// It continues without this process, or ends with it.
    Detached,
    /// The machine or the shim died under it, or another process terminated it.
    Lost,
}

impl<T> WaitEnd<T> {
    /// The outcome of what is finished; any other ending as one of something else.
    pub(crate) fn done<U>(self) -> Result<T, WaitEnd<U>> {
        match self {
            WaitEnd::Done(outcome) => Ok(outcome),
            WaitEnd::Interrupted => Err(WaitEnd::Interrupted),
            WaitEnd::Detached => Err(WaitEnd::Detached),
            WaitEnd::Lost => Err(WaitEnd::Lost),
        }
    }
}

/// The exit of a job, or the error if its exit is unknown or it never started.
pub(crate) type Exited = Result<Exit, ExecError>;

impl WaitEnd<Exited> {
    /// Returns whether nothing of the job is left. Returns false on a full disk: the job is repeated, and changes cannot be
    /// undone.
    pub(crate) fn is_over(&self) -> bool {
        !matches!(self, WaitEnd::Detached | WaitEnd::Done(Err(ExecError::DiskFull { .. })))
    }
}

/// A process that waits for runs: one with a session, or one beside it.
pub(crate) trait Waiter {
    /// Waits for a job, at most until `deadline`. Calls `tick` at once, each second, and when a signal arrives, and heeds what it
    /// returns as if the user had asked for it.
    ///
    /// # Errors
    ///
    /// Those of `tick`; the engine that executes the job has given no answer for too long.
    async fn wait(
        &self,
        job: &mut Running,
        deadline: Deadline,
        tick: impl FnMut() -> Result<Interrupt, SessionError>,
    ) -> Result<WaitEnd<Exited>, SessionError>;
}

impl Waiter for SessionContext<'_> {
    async fn wait(
        &self,
        job: &mut Running,
        deadline: Deadline,
        mut tick: impl FnMut() -> Result<Interrupt, SessionError>,
    ) -> Result<WaitEnd<Exited>, SessionError> {
        let tick = || {
            let asked = self.asked()?;
            keep_checkpoint(self)?;
            self.runs.news().map_or(Ok(()), |news| self.emit(news))?;
            let wanted = tick()?;
            self.show_life()?;
            Ok(wanted.max(asked))
        };
        let patience = self.store().contract.outage_limit;
        match supervise(job, &self.interrupts, patience, deadline, tick).await {
            Err(SessionError::Exec(error @ ExecError::OtherMachine { .. })) => {
                self.emit(error.to_string())?;
                Ok(WaitEnd::Detached)
            }
            ended => ended,
        }
    }
}

impl Waiter for Interrupts {
    /// Any interrupt terminates the job.
    async fn wait(
        &self,
        job: &mut Running,
        deadline: Deadline,
        mut tick: impl FnMut() -> Result<Interrupt, SessionError>,
    ) -> Result<WaitEnd<Exited>, SessionError> {
        let asked = || if self.asked() == Interrupt::None { Interrupt::None } else { Interrupt::Now };
        supervise(job, self, DEFAULT_OUTAGE_LIMIT, deadline, || Ok(tick()?.max(asked()))).await
    }
}

impl SessionContext<'_> {
    /// Waits between two looks at something, at most for so long, and shows life. Returns whether to look again: not once
    /// something is asked for, or the time of this invocation is over.
    pub(crate) async fn pause(&self, pause: Duration) -> Result<bool, SessionError> {
        let goes_on = || Ok::<bool, SessionError>(self.asked()? == Interrupt::None && !self.is_time_over());
        if !goes_on()? {
            return Ok(false);
        }
        keep_checkpoint(self)?;
        self.show_life()?;
        self.store().note_activity();
        let pause = self.times.end(&self.store()).map_or(pause, |end| end.left.min(pause));
        let mut listener = self.interrupts.listen();
        tokio::select! {
            () = sleep(pause) => {}
            () = listener.signal_or_look() => {}
        }
        goes_on()
    }
}

/// Waits for a job, at most until `deadline`. Calls `tick` at once, each second, and when a signal arrives: it does what is
/// due meanwhile and returns what the user asked for so far.
///
/// # Errors
///
/// Those of `tick`; [`ExecError::OtherMachine`] when the job is to be terminated and no signal reaches it;
/// [`ExecError::EngineAway`] when its engine has given no answer for longer than `patience`.
pub(crate) async fn supervise(
    job: &mut Running,
    interrupts: &Interrupts,
    patience: Duration,
    deadline: Deadline,
    mut tick: impl FnMut() -> Result<Interrupt, SessionError>,
) -> Result<WaitEnd<Exited>, SessionError> {
    let mut listener = interrupts.listen();
    let mut stopping = false;
    let exit = loop {
        let asked = match tick() {
            Err(error @ SessionError::TakenOver { .. }) => {
                // No process waits for it any more. One that no signal reaches, or that an engine executes, is the new owner's.
                if !job.is_elsewhere() && job.stop().is_ok() {
                    let _ = job.wait().await;
                }
                return Err(error);
            }
            asked => asked?,
        };
        // Somebody who wants to stop waits for no outage.
        job.refuse_away(if stopping { crash::wait(STOPPING).min(patience) } else { patience })?;
        match asked {
            Interrupt::Now if !stopping => {
                job.stop()?;
                stopping = true;
            }
            Interrupt::Detach => return Ok(WaitEnd::Detached),
            _ => {}
        }
        tokio::select! {
            exit = job.wait() => break exit,
            () = listener.signal_or_look() => {}
            () = at(deadline), if !stopping => return Ok(WaitEnd::Detached),
        }
    };
    // A cluster that reclaims the node may end the run by the same signal, a moment before `ar`.
    let is_cut_off = exit.as_ref().is_ok_and(|exit| {
        !exit.stopped && matches!(exit.signal.or(exit.exit.map(|status| status - 128)), Some(SIGTERM | SIGKILL))
    });
    if is_cut_off {
        listener.signal_or_look().await;
    }
    Ok(match exit {
        Err(ExecError::Lost { .. }) => WaitEnd::Lost,
        Ok(_) if is_cut_off && tick()? == Interrupt::Now => WaitEnd::Interrupted,
        Ok(exit) if exit.stopped && stopping => WaitEnd::Interrupted,
        // The process that terminated it was killed before anything came of that.
        Ok(exit) if exit.stopped => WaitEnd::Lost,
        exit => WaitEnd::Done(exit),
    })
}

async fn at(deadline: Deadline) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}
