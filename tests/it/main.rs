//! The integration tests: the real binary, real git, real processes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod adopt;
mod agent_calls;
mod answers;
mod archiver;
mod attacks;
mod axes;
mod bad_input;
mod beside;
mod budgets;
mod characters;
mod charts;
mod check;
mod checkpoints;
mod cli;
mod contract;
#[cfg(debug_assertions)]
mod counted_once;
#[cfg(debug_assertions)]
mod crash;
#[cfg(debug_assertions)]
mod crash_scenario;
mod data;
#[cfg(debug_assertions)]
mod deletion;
mod demo;
mod demo_assets;
mod disk;
mod docs;
mod doctor;
mod durable;
mod environment;
mod exchange;
mod exec;
mod fix;
mod foreign;
mod git;
mod gpus;
mod guardian;
mod guards;
mod hints;
mod hooks;
mod hostile;
mod hostile_agent;
mod ideas;
mod inside;
mod interrupt;
mod karpathy;
mod keep_logs;
mod kill;
mod ladder;
mod lanes;
mod layout;
mod ledger;
mod left_locks;
mod lessons;
mod limits;
mod looking;
mod measure;
mod odd_places;
mod outage;
mod outcome;
mod page;
mod patrol;
mod presets;
mod programs;
#[cfg(debug_assertions)]
mod pruning;
mod recovery;
mod report;
mod research;
mod run_loop;
mod said;
mod search;
mod sessions;
mod settings;
mod shell;
mod shims;
mod simulation;
mod spending;
mod status;
mod stop;
mod support;
mod terminal;
mod try_one;
mod worktrees;
