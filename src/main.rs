//! Entry of the `ar` binary.

mod archiver;

mod cli;

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use autoresearch::{exec, guardian};

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    // Before anything else: builds make thousands of these calls.
    if archiver::is_archiver_call(&args, &cli::commands(), cli::means_command) {
        let error = archiver::become_archiver();
        let source = error.source().map(|source| format!("\n  caused by: {source}")).unwrap_or_default();
        let hint = error.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        // Nobody is left to be told when this fails.
        let _ = writeln!(io::stderr(), "error: {error}{source}{hint}");
        return ExitCode::FAILURE;
    }
    match args.as_slice() {
        [_, first, job_file] if first == exec::SHIM_ARGUMENT => exec::shim_main(Path::new(job_file), cli::answer),
        [_, first, job_file, token] if first == exec::SHIM_ARGUMENT => {
            exec::queued_shim_main(Path::new(job_file), &token.to_string_lossy(), cli::answer)
        }
        [_, first, more @ ..] if first == exec::WALLED_ARGUMENT => exec::enter_wall(more),
        [_, first, mode @ ..] if first == guardian::RESIDENT_ARGUMENT => cli::be_resident(mode.first()),
        _ => cli::main(args),
    }
}
