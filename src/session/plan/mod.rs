//! The plan of an invocation, made before anything is written: session, terms, layout, agent, hazards.

mod invocation;
mod next_session;
mod placing;
mod terms;

pub use invocation::{Drive, Plan};
pub use next_session::session_checked_out;
pub(crate) use next_session::{
    UserCommits, branch_in_the_way, checked_out_elsewhere, go_home, has_user_commits, leave_former_branch,
    note_finalized, unrecorded_tip,
};
pub(crate) use placing::{Placing, Surveyed, layout_of};
pub use terms::{LoopWish, Wanted, outer_agent};
pub(crate) use terms::{choose, entered_night, free_tag, is_taken, setting_of};
