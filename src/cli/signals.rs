//! Signals to a loop that is going on.

use std::future::pending;
use std::sync::atomic::Ordering;
use std::time::Duration;

use autoresearch::exec::{self, shield_from_terminal};
use autoresearch::session::{Interrupt, Interrupts};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use super::allocation::JobLimits;

/// Turns signals into interrupts: the first Ctrl-C lets the experiment finish, the second one and SIGTERM end its run,
/// and SIGHUP leaves it going. Under `nohup`, where SIGHUP is ignored, it stays so. They are heard on a thread of their own,
/// also while the loop waits for a program of git's.
pub(super) fn interrupts() -> std::io::Result<Interrupts> {
    hear(None)
}

/// The same for a loop in a batch job. USR1 lets the experiment finish, and so do its limits, the second one at once. TERM leaves
/// everything as it is, since Slurm sends it before it ends the job, also one that it starts again.
pub(super) fn interrupts_of_job(limits: JobLimits) -> std::io::Result<Interrupts> {
    hear(Some(limits))
}

fn hear(limits: Option<JobLimits>) -> std::io::Result<Interrupts> {
    let interrupts = Interrupts::default();
    let heard = interrupts.clone();
    let hears_hangup = shield_from_terminal();
    let runtime = exec::runtime()?;
    let entered = runtime.enter();
    let mut int = signal(SignalKind::interrupt())?;
    let mut term = signal(SignalKind::terminate())?;
    let mut hangup = hears_hangup.then(|| signal(SignalKind::hangup())).transpose()?;
    let mut user = limits.is_some().then(|| signal(SignalKind::user_defined1())).transpose()?;
    let from_now = |after: Option<Duration>| after.map(|after| Instant::now() + after);
    let after_experiment = from_now(limits.as_ref().and_then(|limits| limits.after_experiment));
    let at_once = from_now(limits.as_ref().and_then(|limits| limits.at_once));
    drop(entered);
    let hear = async move {
        let asks = |interrupt| {
            if let Some(limits) = &limits {
                limits.asked.store(true, Ordering::Relaxed);
            }
            heard.ask(interrupt);
        };
        let (mut finishes, mut leaves) = (after_experiment, at_once);
        loop {
            tokio::select! {
                Some(()) = int.recv() => heard.press(),
                Some(()) = term.recv() => match limits {
                    Some(_) => heard.ask(Interrupt::Detach),
                    None => heard.terminate(),
                },
                Some(()) = async { user.as_mut()?.recv().await }, if user.is_some() => asks(Interrupt::AfterExperiment),
                () = at(finishes), if finishes.is_some() => {
                    finishes = None;
                    asks(Interrupt::AfterExperiment);
                }
                () = at(leaves), if leaves.is_some() => {
                    leaves = None;
                    asks(Interrupt::Detach);
                }
                Some(()) = async { hangup.as_mut()?.recv().await }, if hangup.is_some() => heard.ask(Interrupt::Detach),
                else => return,
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || runtime.block_on(hear))?;
    Ok(interrupts)
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}
