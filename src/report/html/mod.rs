//! The report as one page that needs nothing else: no network, no other file, and no script to be read.
//!
//! Whatever comes from records, ledgers, logs and changes is text in it, never markup; its policy lets no other style
//! and script run than its own.

mod experiments;
mod page;

pub use experiments::{Detail, Excerpt, PageRoom};
pub use page::{
    LivePart, LiveSession, html_report, html_sessions, live_course, live_experiment, live_now, live_page, live_policy,
};
