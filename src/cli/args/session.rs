//! The session that a command is about.

use autoresearch::domain::Tag;
use clap::Args;

/// A session's tag, as an argument or an option.
#[derive(Debug, Args)]
pub(in crate::cli) struct SessionArgs {
    /// Session [default: that of HEAD, else the active one, else the newest]
    #[arg(value_name = "TAG", conflicts_with = "tag")]
    session: Option<Tag>,
    /// Session, as an option
    #[arg(long)]
    tag: Option<Tag>,
}

impl SessionArgs {
    /// The session that was named.
    pub(in crate::cli) fn tag(self) -> Option<Tag> {
        self.session.or(self.tag)
    }
}
