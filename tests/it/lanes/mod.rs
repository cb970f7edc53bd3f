//! Several experiments at once.

mod agents;
mod ahead;
mod artifacts;
mod gpus;
mod kills;
pub(crate) mod landscape;
mod links;
mod nights;
mod odd;
mod plans;
mod repeats;
mod reviews;
mod told;
