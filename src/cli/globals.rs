//! Options that every command takes.

use anstream::ColorChoice;
use clap::{ArgAction, Args, ValueEnum};

use super::output;

/// How a command prints, whatever it prints.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct Globals {
    /// When to use colours: auto (on a terminal, unless `NO_COLOR` is set), always or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    color: Color,
    /// Print a long answer without a pager
    #[arg(long, global = true)]
    no_pager: bool,
    /// Print only the answer and errors, without notes and progress
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Also print what was skipped, and why
    #[arg(long, short, global = true, action = ArgAction::Count)]
    verbose: u8,
}

/// When to colour.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

impl Globals {
    /// Makes all that is printed from now on follow the options.
    pub(super) fn apply(&self) {
        let choice = match self.color {
            Color::Auto => ColorChoice::Auto,
            Color::Always => ColorChoice::Always,
            Color::Never => ColorChoice::Never,
        };
        choice.write_global();
        output::set_manners(output::Manners { no_pager: self.no_pager, quiet: self.quiet, verbose: self.verbose > 0 });
    }
}
