//! What all areas share: hermetic repositories, and calls of the binary.

mod ar;
mod repo;

pub(crate) use ar::{AR, Called, ar, ar_command};
pub(crate) use repo::TestRepo;
