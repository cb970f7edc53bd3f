//! Several experiments at once.

mod kills;
mod landscape;
mod nights;
