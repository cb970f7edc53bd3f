//! The arguments of the commands that make `ar` at home in a shell.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// A shell that completions are there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Shell {
    /// For `eval` in ~/.bashrc
    Bash,
    /// For ~/.config/fish/completions/ar.fish
    Fish,
    /// For `eval` in ~/.zshrc, after `compinit`
    Zsh,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CompletionsArgs {
    /// Shell
    pub(in crate::cli) shell: Shell,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ManArgs {
    /// Command [default: the whole program]
    pub(in crate::cli) command: Option<String>,
    /// Folder to write the pages of all commands to
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(in crate::cli) dir: Option<PathBuf>,
}
