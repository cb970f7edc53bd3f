//! `ar doctor`: sessions that are broken for real, what is found of it, and what mends it.

mod beside;
mod entries;
mod findings;
mod job;
mod person;
mod repair;
mod session;
