//! The refs of a repository: branches, records, notes and `HEAD`, moved by [`Refs`] alone.

mod damage;
mod guard;
mod head;
mod listing;
mod notes;
mod store;

pub use damage::BrokenRef;
pub(in crate::git) use damage::torn_head_at;
pub(in crate::git) use guard::{NAME as REF_LOCKS, RefGuard};
pub(in crate::git) use head::committed_in;
pub use head::{Head, HeadTarget};
pub(in crate::git) use listing::CopiedRefs;
pub use notes::Notes;
pub(in crate::git) use store::full_name;
pub use store::{PreparedRecord, Refs};
