//! The integration tests: the real binary, real git, real processes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod archiver;
mod bad_input;
mod cli;
mod data;
mod demo;
mod demo_assets;
mod doctor;
mod exec;
mod git;
mod hostile;
mod interrupt;
mod keep_logs;
mod kill;
mod ledger;
mod measure;
mod recovery;
mod run_loop;
mod settings;
mod support;
mod try_one;
