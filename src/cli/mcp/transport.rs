//! Serving on standard input and output until the client is gone.

use std::io;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::{Context, Poll};

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::stdio_pipes;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::signal::unix::{SignalKind, signal};

use super::driver::Drivers;
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
    let (reader, writer) = stdio_pipes();
    let reader = UntilGone { reader, drivers: Arc::clone(&drivers) };
    let serving = async {
        match server.serve((reader, writer)).await {
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
    drivers.leave();
    served
        .map_err(|error| CliError::new(error, Some("start `ar mcp` by a client of the Model Context Protocol".into())))
}

/// Standard input. At its end nobody waits for an outcome any more; the protocol's library would go on with all calls for seconds.
struct UntilGone<R> {
    reader: R,
    drivers: Arc<Drivers>,
}

impl<R: AsyncRead + Unpin> AsyncRead for UntilGone<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buffer.remaining();
        let read = Pin::new(&mut self.reader).poll_read(context, buffer);
        let is_end = matches!(read, Poll::Ready(Ok(()))) && buffer.remaining() == room && room > 0;
        if is_end || matches!(read, Poll::Ready(Err(_))) {
            self.drivers.leave();
        }
        read
    }
}
