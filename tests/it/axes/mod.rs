//! Sessions that several numbers decide together, their ends and their pace.

mod cadence;
mod composite;
mod ends;
mod harness;
mod night;
mod ratings;
