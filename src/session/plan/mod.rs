//! What an invocation is to do, decided before anything is written: session, terms, layout, agent, hazards.

mod hazards;
mod home;
mod invocation;
mod loop_agent;
mod next_session;
mod nights;
mod placing;
mod terms;

pub(crate) use hazards::Surveyed;
pub(crate) use home::{go_home, note_finalized};
pub use invocation::{Drive, Plan};
pub use loop_agent::{LoopWish, outer_agent};
pub(crate) use loop_agent::{choose, setting_of};
pub use next_session::session_checked_out;
pub(crate) use next_session::{UserCommits, has_user_commits, leave_former_branch, unrecorded_tip};
pub(crate) use nights::entered_night;
pub(crate) use placing::{Placing, layout_of};
pub use terms::Wanted;
pub(crate) use terms::{free_tag, is_taken};
