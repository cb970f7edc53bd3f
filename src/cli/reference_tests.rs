//! The reference of the commands, made from their help: `docs/commands.md` must match it.

use std::env;
use std::fs;
use std::path::Path;

use clap::Command;

use super::{program, with_groups};

/// In how many columns the help stands there.
const WIDTH: usize = 100;

fn reference() -> String {
    let mut program = with_groups(program().term_width(WIDTH));
    program.build();
    let mut page = "# Commands\n\nThe output of `ar --help` and `ar COMMAND --help`. Global options may stand before or after any command.\n\n"
        .to_owned();
    page += &section("ar", &program);
    append_below(&mut page, "ar", &program);
    page
}

/// The commands below one, and those below them.
fn append_below(page: &mut String, name: &str, command: &Command) {
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        let name = format!("{name} {}", below.get_name());
        *page += &section(&name, below);
        append_below(page, &name, below);
    }
}

fn section(name: &str, command: &Command) -> String {
    let help = command.clone().render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    format!("## {name}\n\n```text\n{}\n```\n\n", lines.join("\n").trim_end())
}

#[test]
fn the_reference_is_what_help_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/commands.md");
    let page = reference().trim_end().to_owned() + "\n";
    if env::var_os("AR_WRITE_REFERENCE").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap();
    let at = there.lines().zip(page.lines()).position(|(there, page)| there != page);
    let hint = "`AR_WRITE_REFERENCE=1 cargo test --bin ar reference` rewrites it";
    assert!(there == page, "docs/commands.md is not what help says from line {at:?} on; {hint}");
}
