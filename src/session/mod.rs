//! The loop: branch, propose, commit, run, measure, decide, record, settle.
//!
//! Everything below is wired together here, and nothing here prints: what happens is told as
//! [`Event`](crate::domain::Event)s to an [`Observer`].

mod aside;
mod attempt;
mod baseline;
mod branches;
mod calling;
mod check;
mod contradiction;
mod course;
mod demo;
mod directing;
mod doctor;
mod error;
mod failed_log;
mod follow;
mod guarding;
mod heal;
mod hooks;
mod import;
mod interrupts;
mod keep_logs;
mod known;
mod learning;
mod mlflow;
mod notes;
mod odd;
mod open;
mod others;
mod outage;
mod packing;
mod plan;
mod proposing;
mod reading;
mod recover;
mod repro;
mod rework;
mod room;
mod run_log;
mod run_loop;
mod running;
mod status;
mod stop;
mod surroundings;
mod terms;
mod times;
mod try_one;
mod watch;

pub use branches::{Finalized, Restored};
pub use demo::{create_demo, demo_terms};
pub use doctor::{Examination, examine, repair};
pub use error::{ErrorKind, SessionError};
pub use import::Import;
pub use interrupts::{Interrupt, Interrupts};
pub use learning::open_backlog;
pub use mlflow::MlflowExport;
pub use open::{Observer, Session};
pub use plan::{Drive, Plan};
pub use reading::{SessionView, find_session, no_session, session_tags};
pub use repro::{Reproduced, Rerun, Rerunning};
pub use status::{Lookout, look_at_sessions};
pub use stop::{Stopped, ask_to_stop, end_run_only};
pub use terms::Asked;
pub use try_one::Tried;
