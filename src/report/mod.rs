//! Records and ledger rows as people and programs want to see them: tables, JSON, CSV, Markdown.
//!
//! Everything here turns plain data into text; nothing reads a file or prints.

mod activity;
mod analysis;
mod axes;
mod chart;
mod escalation;
mod experiments;
mod exported;
mod grid;
mod html;
mod lists;
mod render;
mod sections;
mod sessions;
mod status;
mod watch;

use activity::*;
pub use analysis::*;
pub use axes::*;
pub use chart::*;
pub use escalation::*;
pub use experiments::*;
pub use exported::*;
pub use grid::*;
pub use html::*;
pub use lists::*;
pub use render::*;
use sections::*;
pub use sessions::*;
pub use status::*;
pub use watch::*;
