//! `ar serve`: a page that stays open. It only looks: it takes no lock and writes nothing.

mod desk;
mod door;

use std::future::pending;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

use autoresearch::exec::shield_from_terminal;
use autoresearch::git::Repo;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::args::ServeArgs;
use super::error::CliError;
use super::process::{current_dir, no_runtime, runtime};
use super::{error, output, settings};
use desk::Desk;
use door::Door;

/// Serves the page until a signal ends it.
pub(super) fn run(args: ServeArgs) -> Result<ExitCode, CliError> {
    let dir = Repo::discover(&current_dir()?)?.worktree().to_owned();
    let clock = settings::clock()?;
    runtime()?.block_on(async {
        let hears_hangup = shield_from_terminal();
        let mut int = signal(SignalKind::interrupt()).map_err(no_runtime)?;
        let mut term = signal(SignalKind::terminate()).map_err(no_runtime)?;
        let mut hangup = match hears_hangup {
            true => Some(signal(SignalKind::hangup()).map_err(no_runtime)?),
            false => None,
        };
        let listener = listen(args.bind, args.port).await?;
        let door =
            Door::new(args.bind).map_err(|error| CliError::new(format!("cannot make a token: {error}"), None))?;
        let port = listener.local_addr().map_err(|error| CliError::new(error, None))?.port();
        let sessions = args.sessions.into_iter().chain(args.tag).collect();
        let desk = Desk::open(dir, sessions, clock).map_err(|error| CliError::new(error, None))?;
        output::line(&door.url(port));
        if !args.bind.is_loopback() {
            output::note("note: the page is not encrypted; anyone on the way can read it, and its token");
        }
        tokio::select! {
            () = door::serve(listener, door, desk) => {}
            _ = int.recv() => {}
            _ = term.recv() => {}
            _ = async { match &mut hangup { Some(hangup) => hangup.recv().await, None => pending().await } } => {}
        }
        Ok(ExitCode::from(error::INTERRUPTED))
    })
}

async fn listen(address: IpAddr, port: u16) -> Result<TcpListener, CliError> {
    let at = SocketAddr::new(address, port);
    TcpListener::bind(at).await.map_err(|error| {
        CliError::new(format!("cannot listen at {at}: {error}"), Some("pass --port 0 for a free port".into()))
    })
}
