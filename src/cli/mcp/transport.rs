//! Serving on standard input and output until the client is gone.

use std::process::ExitCode;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::stdio_pipes;
use tokio::signal::unix::{SignalKind, signal};

use super::server::Server;
use crate::cli::error::CliError;
use crate::cli::process::{current_dir, no_runtime, runtime};
use crate::cli::{inside, output, settings};

/// Serves until standard input ends or a signal comes.
pub(in crate::cli) fn run() -> Result<ExitCode, CliError> {
    let clock = settings::clock()?;
    let server = Server::new(current_dir()?, inside::is_inside(), clock);
    if output::is_interactive() {
        output::note(
            "serving the Model Context Protocol on standard input; an agent's program starts this command, Ctrl-C ends it",
        );
    }
    let runtime = runtime()?;
    let served = runtime.block_on(serve(server));
    // A read of standard input may go on.
    runtime.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}

async fn serve(server: Server) -> Result<(), CliError> {
    let ends = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    let [mut interrupt, mut terminate, mut hangup] = ends.map(|listening| listening.map_err(no_runtime));
    let (interrupt, terminate, hangup) = (interrupt.as_mut(), terminate.as_mut(), hangup.as_mut());
    let drivers = server.drivers();
    let serving = async {
        match server.serve(stdio_pipes()).await {
            Ok(running) => running.waiting().await.map(|_| ()).map_err(|error| error.to_string()),
            // The client left before it said anything.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    };
    let served = tokio::select! {
        served = serving => served,
        Some(()) = async { interrupt.ok()?.recv().await } => Ok(()),
        Some(()) = async { terminate.ok()?.recv().await } => Ok(()),
        Some(()) = async { hangup.ok()?.recv().await } => Ok(()),
    };
    drivers.hang_up();
    served
        .map_err(|error| CliError::new(error, Some("start `ar mcp` by a client of the Model Context Protocol".into())))
}
