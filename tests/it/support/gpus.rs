//! A machine with GPUs, as far as NVIDIA's library shows.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::exec::WALLED;

/// A stand-in for NVIDIA's library, which shows what a file says.
pub(crate) struct FakeGpus {
    folder: TempDir,
}

impl FakeGpus {
    /// Compiles the library, for a description as `fixtures/gpu/fake_nvml.c` reads it; an empty one shows 8 GPUs of two models.
    /// Nothing without a C compiler, which is said then, nor where jobs have process namespaces: what they tell of themselves to
    /// the library means nothing outside.
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    pub(crate) fn new(description: &str) -> Option<FakeGpus> {
        if env::var_os(WALLED).is_some() {
            return None;
        }
        let gpus = FakeGpus { folder: tempfile::tempdir().unwrap() };
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/gpu/fake_nvml.c");
        let mut compiler = Command::new("cc");
        match compiler.args(["-shared", "-fPIC", source, "-o"]).arg(gpus.path("libnvidia-ml.so.1")).status() {
            Ok(status) => assert!(status.success()),
            Err(error) => {
                let may_skip = env::var_os("AR_TEST_ALL").is_none_or(|all| all.is_empty());
                assert!(may_skip && error.kind() == ErrorKind::NotFound, "cannot run cc: {error}");
                eprintln!("skipped: there is no C compiler to make a library for GPUs with");
                return None;
            }
        }
        gpus.describe(description);
        Some(gpus)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Changes what the library shows; which GPUs there are, for processes that start from now on.
    pub(crate) fn describe(&self, description: &str) {
        fs::write(self.path("gpus"), description).unwrap();
    }

    /// Has a command find the library, and lock GPUs where no other test does.
    pub(crate) fn show_to(&self, command: &mut Command) {
        command.env("LD_LIBRARY_PATH", self.folder.path()).env("FAKE_GPUS", self.path("gpus"));
        command.env("TMPDIR", self.folder.path()).env_remove("XDG_RUNTIME_DIR");
    }
}
