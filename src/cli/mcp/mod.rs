//! `ar mcp`: the commands as tools of the Model Context Protocol, on standard input and output. Each tool starts the command that
//! people type, so that there is one way to do each thing; only `try` and `wait` also look at the session. `rmcp` is used here alone.

mod driver;
mod server;
mod tools;

pub(super) use server::run;
