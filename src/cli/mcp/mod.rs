//! `ar mcp`: the commands as tools of the Model Context Protocol, on standard input and output. Each tool starts the command that
//! people type, so that there is one way to do each thing; only `try` and `wait` also look at the session. `rmcp` is used here alone.

mod command;
mod cut;
mod driver;
mod phase;
mod roots;
mod server;
mod tools;
mod transport;

pub(super) use transport::run;
