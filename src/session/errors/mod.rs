//! Errors of sessions: kind, text and hint of each that code or a test tells from others. Nothing here reads or writes anything.

mod session;

pub(crate) use crate::domain::ErrorKind::{CannotStart, Damaged, NeedsPerson, Usage};
pub(crate) use crate::domain::{ErrorKind, refuse};
pub use session::*;
