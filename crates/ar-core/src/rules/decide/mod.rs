//! Verdicts: keep or discard, stale attempts, trains, rework. Nothing here says what runs next.

mod ablate;
mod carried;
mod confirm;
mod control;
mod drift;
mod fresh;
mod hidden;
mod judge;
mod outcome;
mod repeats;
mod second_look;
mod taint;
mod trains;

pub use ablate::*;
pub use carried::*;
pub use confirm::*;
pub use control::*;
pub use drift::*;
pub use fresh::*;
pub use hidden::*;
pub use judge::*;
pub use outcome::*;
pub use repeats::*;
pub use second_look::*;
pub use taint::*;
pub use trains::*;
