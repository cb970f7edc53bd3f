//! Commands beside the loop: `ar stop`, `repro`, `verify`, `ablate`, `finalize`, `restore`, `import`, `delete`, `demo`, and the probe of `ar init`. None of them needs the loop.

mod ablate;
mod branches;
mod delete;
mod demo;
mod fresh_runs;
mod repro;
mod stop;
mod verify;

pub use ablate::*;
pub use branches::*;
pub use delete::*;
pub use demo::*;
pub use fresh_runs::*;
pub use repro::*;
pub use stop::*;
pub use verify::*;
