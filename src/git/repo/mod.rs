//! Opening a repository; its folders, locks, linked working trees and half-done operations.

mod call;
mod linked;
mod open;

pub use call::*;
pub use linked::*;
pub use open::*;
