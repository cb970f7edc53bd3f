//! Bad input: a clear error with a hint, and nothing changed on disk.

mod harness;
mod machine;
mod repository;
mod session;
mod settings;
