//! What all areas share: hermetic repositories.

mod repo;

pub(crate) use repo::TestRepo;
