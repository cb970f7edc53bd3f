//! Signals to a loop that is going on.

use autoresearch::exec::{self, shield_from_terminal};
use autoresearch::session::{Interrupt, Interrupts};
use tokio::signal::unix::{SignalKind, signal};

/// Turns signals into interrupts: the first Ctrl-C lets the experiment finish, the second one and SIGTERM end its run,
/// and SIGHUP leaves it going. Under `nohup`, where SIGHUP is ignored, it stays so. They are heard on a thread of their own,
/// also while the loop waits for a program of git's.
pub(super) fn interrupts() -> std::io::Result<Interrupts> {
    let interrupts = Interrupts::default();
    let heard = interrupts.clone();
    let hears_hangup = shield_from_terminal();
    let runtime = exec::runtime()?;
    let entered = runtime.enter();
    let mut int = signal(SignalKind::interrupt())?;
    let mut term = signal(SignalKind::terminate())?;
    let mut hangup = hears_hangup.then(|| signal(SignalKind::hangup())).transpose()?;
    drop(entered);
    let hear = async move {
        loop {
            tokio::select! {
                Some(()) = int.recv() => heard.press(),
                Some(()) = term.recv() => heard.terminate(),
                Some(()) = async { hangup.as_mut()?.recv().await }, if hangup.is_some() => heard.ask(Interrupt::Detach),
                else => return,
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || runtime.block_on(hear))?;
    Ok(interrupts)
}
