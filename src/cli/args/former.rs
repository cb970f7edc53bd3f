//! Flags that have another name now.

use clap::Args;

use crate::cli::error::CliError;

/// The former names of flags.
#[derive(Debug, Args)]
pub(in crate::cli) struct FormerArgs {
    /// The former name of --allow-search
    #[arg(long, hide = true, value_name = "QUESTION", num_args = 0..=1, default_missing_value = "")]
    research: Option<String>,
}

impl FormerArgs {
    /// Refuses them.
    pub(in crate::cli) fn refuse(&self) -> Result<(), CliError> {
        if self.research.is_none() {
            return Ok(());
        }
        let hint = "pass --allow-search to let the agent look outside the repository; `ar init --research \"QUESTION\"` begins a \
                    session of research";
        Err(CliError::usage("--research is called --allow-search here", hint))
    }
}
