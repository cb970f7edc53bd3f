//! Entry of the `ar` binary.

mod archiver;

mod cli;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use autoresearch::exec;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let name = arguments.next();
    let first = arguments.next();
    match first.as_deref() {
        // Before anything else: builds make thousands of these calls.
        Some(first) if archiver::is_archiver_call(first, archiver::is_own) => {
            let error = archiver::become_archiver();
            let source = error.source().map(|source| format!("\n  caused by: {source}")).unwrap_or_default();
            let hint = error.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
            // Nobody is left to be told when this fails.
            let _ = writeln!(io::stderr(), "error: {error}{source}{hint}");
            ExitCode::FAILURE
        }
        Some(first) if first == exec::FORK_SERVER_ARGUMENT => exec::fork_server_main(),
        _ => cli::main(name.into_iter().chain(first).chain(arguments)),
    }
}
