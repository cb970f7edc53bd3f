//! The integration tests: the real binary, real git, real processes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod demo_assets;
mod exec;
mod git;
mod ledger;
mod measure;
mod support;
