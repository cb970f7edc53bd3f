//! The program under a name that no archiver has: becomes the `ar` that is installed beside it.

use std::io::{Write, stderr};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let become_ar = |own: std::path::PathBuf| {
        Command::new(own.with_file_name("ar")).arg0("autoresearch").args(std::env::args_os().skip(1)).exec()
    };
    let error = std::env::current_exe().map_or_else(|error| error, become_ar);
    let _ = writeln!(
        stderr(),
        "error: cannot start the `ar` beside `autoresearch`: {error}\nhint: install the package `ar-autoresearch` again, which has both"
    );
    ExitCode::FAILURE
}
