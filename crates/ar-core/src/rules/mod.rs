//! The rules: pure functions over the history and the contract.
//!
//! Nothing here knows of git, files, processes, clocks or terminals; time is an argument.

mod change;
mod decide;
mod history;
mod patrol;
mod recover;
mod report;
mod research;
mod schedule;
mod stop;
mod wall;

#[doc(hidden)]
#[path = "tests/sample.rs"]
pub mod sample;

pub use change::*;
pub use decide::*;
pub use history::*;
pub use patrol::*;
pub use recover::*;
pub use report::*;
pub use research::*;
pub use schedule::*;
pub use stop::*;
pub use wall::*;
