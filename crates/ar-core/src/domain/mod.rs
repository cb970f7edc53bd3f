//! The types that all other modules share: plain data without effects.
//!
//! Nothing here knows of git, files, processes or terminals.

mod agent_calls;
mod composite;
mod contract;
mod dialect;
mod directive;
mod event;
mod execution;
mod experiment;
mod failure;
mod gpu;
mod json;
mod memory;
mod metric;
mod notice;
mod record;
mod record_parts;
mod setting;
pub mod setting_values;
mod settings;
mod target;
mod text;
mod trouble;
mod unit;

pub use agent_calls::*;
pub use composite::*;
pub use contract::*;
pub use dialect::*;
pub use directive::*;
pub use event::*;
pub use execution::*;
pub use experiment::*;
pub use failure::*;
pub use gpu::*;
use json::seconds;
pub use json::*;
pub use memory::*;
pub use metric::*;
pub use notice::*;
pub use record::*;
pub use record_parts::*;
pub use setting::{Heading, Kind, Setting};
pub use setting_values::{Cadence, Carry, Decide, Draw, Resident, SizeLimit, StopWhen, VerifyFor};
pub use settings::*;
pub use target::*;
pub use text::*;
pub use trouble::*;
pub use unit::*;
