//! Options that every command takes.

use clap::builder::PossibleValue;
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
#[derive(Debug, Clone, Copy)]
struct Color(anstream::ColorChoice);

impl ValueEnum for Color {
    fn value_variants<'a>() -> &'a [Self] {
        use anstream::ColorChoice::{Always, Auto, Never};
        &[Color(Auto), Color(Always), Color(Never)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(match self.0 {
            anstream::ColorChoice::Auto => "auto",
            anstream::ColorChoice::Never => "never",
            anstream::ColorChoice::Always | anstream::ColorChoice::AlwaysAnsi => "always",
        }))
    }
}

impl Globals {
    /// Makes all that is printed from now on follow the options.
    pub(super) fn apply(&self) {
        self.color.0.write_global();
        output::set_manners(output::Manners { no_pager: self.no_pager, quiet: self.quiet, verbose: self.verbose > 0 });
    }
}
