//! Signals to a loop that is going on.

use autoresearch::session::Interrupt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::output;

/// Turns signals into interrupts: the first Ctrl-C lets the experiment finish, the second one and SIGTERM end its run,
/// and SIGHUP leaves it going.
pub(super) fn interrupts() -> std::io::Result<watch::Receiver<Interrupt>> {
    let (sender, receiver) = watch::channel(Interrupt::None);
    let mut int = signal(SignalKind::interrupt())?;
    let mut term = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        loop {
            let asked = tokio::select! {
                Some(()) = int.recv() => match *sender.borrow() {
                    Interrupt::None => Interrupt::AfterExperiment,
                    _ => Interrupt::Now,
                },
                Some(()) = term.recv() => Interrupt::Now,
                Some(()) = hangup.recv() => Interrupt::Detach,
                else => return,
            };
            match asked {
                Interrupt::AfterExperiment => {
                    output::note("stopping after this experiment; press Ctrl-C again to end its run now");
                }
                Interrupt::Now => output::note("ending the run and rolling back"),
                // Nobody is there to be told.
                Interrupt::Detach | Interrupt::None => {}
            }
            if sender.send(asked).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}
