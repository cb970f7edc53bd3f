//! `ar`: a git-native experiment ledger.
//!
//! Dependencies point down only: a module may use those listed below it, never those above.
//!
//! | module | what lives there |
//! |---|---|
//! | [`guardian`] | patrols over all sessions, their service, and the resident guard |
//! | [`session`] | the loop: wires all below it together |
//! | [`report`] | records to tables, JSON, CSV, Markdown |
//! | [`agent`] | prompt, launch, proposal |
//! | [`exec`] | shim, process tree, deadline, log capture, samplers |
//! | [`git`] | everything gix: snapshot, restore, record refs, diff |
//! | [`ledger`] | results.tsv and its dialects |
//! | [`state`] | state files, journal, locks, event logs |
//! | [`measure`] | log bytes to metrics and a failure class |
//! | [`fs`] | durable writes, locks, bounded reads |
//! | `crash` | moments at which the tests kill the program |
//! | `unix` | all unsafe code, each system call in a safe wrapper |
//! | `clock` | the time of day |
//! | [`score`] | claims, sources and quotations of research to axes; the crate `ar_score` |
//! | [`machine`] | the state of the loop: open attempts, each at its step; of the crate `ar_core` |
//! | [`rules`] | pure decisions: keep or discard, stop, budgets; of the crate `ar_core` |
//! | [`domain`] | the types all of them speak in; of the crate `ar_core` |

pub mod agent;
mod clock;
mod crash;
/// The types all of them speak in, and the clock.
pub mod domain {
    pub use crate::clock::{Clock, moment_text};
    pub use ar_core::domain::*;
}
pub mod exec;
pub mod fs;
pub mod git;
pub mod guardian;
pub mod ledger;
pub mod measure;
pub mod report;
pub mod session;
pub mod state;
mod unix;

pub use ar_core::{machine, rules};
pub use ar_score as score;
