//! Bad input: a clear error with a hint, and nothing changed on disk.

pub(crate) mod harness;
mod machine;
mod repository;
mod session;
mod settings;
