//! The refs of a repository: branches, records, notes and `HEAD`, moved by [`Refs`] alone.

mod copies;
mod damage;
mod guard;
mod head;
mod listing;
mod notes;
mod store;

pub(in crate::git) use copies::CopiedRefs;
pub use damage::BrokenRef;
pub(in crate::git) use damage::torn_head_at;
pub(in crate::git) use guard::{NAME as REF_LOCKS, RefGuard};
pub use head::{Head, HeadTarget};
pub(in crate::git) use head::{LARGEST_LOG, committed_in};
pub use notes::Notes;
pub(in crate::git) use store::full_name;
pub use store::{PreparedRecord, Refs};
