//! Who may be on a GPU of a run beside the run itself.

use std::path::PathBuf;

use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process};

use crate::exec::tree::shims_above;
use crate::exec::{Job, JobFiles, process_name};

/// The beginning of the name of processes that belong to the driver: the server through which several share a GPU.
const OF_DRIVER: &str = "nvidia-cuda-mps";

/// The jobs whose processes may be on the GPUs of a job.
#[derive(Debug, Clone)]
pub(in crate::exec) struct Kin {
    /// Those with folders below this one, if any.
    shares: Option<PathBuf>,
}

impl Kin {
    pub(in crate::exec) fn of(job: &Job) -> Kin {
        Kin { shares: job.shares_gpus.clone() }
    }

    /// The name of a process that may not be there; empty if the system does not tell it. `None` for one that may: a descendant of
    /// this process, a run that shares the GPU, a part of the driver. `None` also for one that is not here: the driver
    /// may name processes by their ids in another namespace.
    pub(super) fn stranger(&self, pid: u32) -> Option<String> {
        let process = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        // Another user's process may be hidden in /proc, and still be here.
        let is_here = matches!(test_kill_process(process), Ok(()) | Err(Errno::PERM));
        let mut name = process_name(pid).unwrap_or_default();
        // Any program names itself as it likes.
        name.retain(|character| !character.is_control());
        let shares = |job: &PathBuf| {
            self.shares.as_ref().is_some_and(|shares| job.starts_with(shares)) && JobFiles::is_of_run(job)
        };
        let is_kin = || shims_above(process).any(|(shim, job)| shim == getpid() || shares(&job));
        (is_here && !name.starts_with(OF_DRIVER) && !is_kin()).then_some(name)
    }
}
