//! The core of `ar`: the types that all of its crates share, the rules by which it decides, and the state of its
//! loop.
//!
//! No files, processes, clocks, environment variables or chance: what the world says is an argument. `clippy.toml` keeps it so.

pub mod domain;
pub mod machine;
pub mod rules;
