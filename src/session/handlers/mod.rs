//! Changes of refs, rows and working trees: acts, the trees with HEAD, index, untracked and protected files, and the detection of
//! tampering. Nothing here waits.

mod carrying;
mod clearing;
#[cfg(test)]
mod conformance_tests;
mod linked;
mod protected;
mod refs;
mod rows;
mod tampering;
mod working_tree;

pub(crate) use carrying::*;
pub(crate) use clearing::*;
pub(crate) use linked::*;
pub(crate) use protected::*;
pub(crate) use refs::*;
pub(crate) use tampering::*;
pub(crate) use working_tree::*;
