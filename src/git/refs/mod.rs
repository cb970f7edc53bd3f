//! The refs of a repository: branches, records, notes and `HEAD`, moved by [`Refs`] alone.

mod damage;
mod head;
mod listing;
mod store;

pub use damage::BrokenRef;
pub(in crate::git) use damage::{NAME as REF_LOCKS, RefGuard, torn_head_at};
pub(in crate::git) use head::committed_in;
pub use head::{Head, HeadTarget};
pub(in crate::git) use listing::CopiedRefs;
pub(in crate::git) use store::full_name;
pub use store::{Notes, PreparedRecord, Refs};
