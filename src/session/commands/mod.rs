//! Commands beside the loop: `ar stop`, `repro`, `finalize`, `restore`, `import`, `demo`. None of them needs the loop.

pub(super) mod branches;
pub(super) mod demo;
pub(super) mod import;
pub(super) mod new_files;
pub(super) mod repro;
pub(super) mod status;
pub(super) mod stop;
