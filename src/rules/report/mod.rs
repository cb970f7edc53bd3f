//! What a report says of a session: its summary, and what to doubt. Nothing here changes what the loop does.

pub(super) mod by_direction;
pub(super) mod chance;
pub(super) mod compare;
pub(super) mod doubts;
pub(super) mod evidence;
pub(super) mod finalize;
pub(super) mod jumps;
pub(super) mod misses;
pub(super) mod summary;
pub(super) mod time_split;
pub(super) mod timeline;
pub(super) mod warnings;
pub(super) mod waste;
