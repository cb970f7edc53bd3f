//! Entry of the `ar` binary.

use std::path::Path;
use std::process::ExitCode;

use autoresearch::exec;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(first) if first == exec::SHIM_ARGUMENT => {
            exec::shim_main(Path::new(&arguments.next().unwrap_or_default()))
        }
        _ => ExitCode::from(2),
    }
}
