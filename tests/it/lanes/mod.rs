//! Several experiments at once.

mod gpus;
mod agents;
mod kills;
mod landscape;
mod links;
mod nights;
mod plans;
mod told;
