//! What all areas share: hermetic repositories, and calls of the binary.

mod ar;
mod disk;
mod repo;
mod wait;

pub(crate) use ar::{AR, CLOCK, Called, ar, ar_command, ar_in_time};
pub(crate) use disk::SmallDisk;
pub(crate) use repo::TestRepo;
pub(crate) use wait::until;
