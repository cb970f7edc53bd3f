//! Commands beside the loop: `ar stop`, `repro`, `verify`, `ablate`, `finalize`, `restore`, `import`, `demo`, and the probe of `ar init`. None of them needs the loop.

mod ablate;
mod branches;
mod demo;
mod fresh_runs;
mod import;
mod new_files;
mod probe;
mod repro;
mod run_beside;
mod status;
mod stop;
mod verify;

pub use ablate::{Ablation, ablate};
pub use branches::{FinalizeTerms, Finalized, Restored};
pub use demo::{create_demo, create_research_demo, demo_terms, research_demo_terms};
pub use fresh_runs::{FreshNews, FreshTerms};
pub use import::Import;
pub use new_files::commit_new_files;
pub use probe::probe;
pub use repro::{Reproduced, Rerun, Rerunning};
pub use status::{StatusWatcher, inspect_all, inspect_sessions};
pub use stop::{Stopped, StoppingBeside, ask_to_stop, end_run_only, note_stopped};
pub use verify::{VerifiedSide, verify};
