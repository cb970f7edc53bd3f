//! Commands beside the loop: `ar stop`, `repro`, `verify`, `ablate`, `finalize`, `restore`, `import`, `demo`, and the probe of `ar init`. None of them needs the loop.

mod branches;
mod demo;
mod repro;
mod stop;
mod verify;

pub use branches::{FinalizeTerms, Finalized, Import, Restored, commit_new_files};
pub use demo::{create_demo, create_research_demo, demo_terms, probe, research_demo_terms};
pub use repro::{Reproduced, Rerun, Rerunning};
pub use stop::{
    StatusWatcher, Stopped, StoppingBeside, ask_to_stop, end_run_only, inspect_all, inspect_sessions, note_stopped,
};
pub use verify::{Ablation, FreshNews, FreshTerms, VerifiedSide, ablate, verify};
