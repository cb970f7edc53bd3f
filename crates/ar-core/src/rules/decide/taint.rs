//! Other processes on the GPUs of a run: which of them count, and that its number does not because of them.
//! Runs on another model of GPU than the baseline's, where an engine chooses the node.

use std::collections::BTreeSet;

use crate::domain::{Failure, FailureClass, GpuOther};

/// The number of times that a run is repeated because another process was on its GPU.
pub const TAINT_REPEATS: u32 = 2;

/// The most processes that are noted for a run. More of them say no more.
const MOST: usize = 16;

/// The compute processes on one GPU, or on one MIG instance, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuLook {
    /// The index of the GPU; of a MIG instance that of its GPU.
    pub gpu: u32,
    /// The UUID of the GPU or instance.
    pub uuid: String,
    /// The processes with the memory of each in bytes; absent where the driver does not report it.
    pub processes: Vec<(u32, Option<u64>)>,
}

/// The other processes on the GPUs of a run, so far.
///
/// A GPU is one of the run's while a process of the run is on it. So nothing counts where the driver names processes by ids of
/// another namespace, as it may in a container, or where the work is done by a process outside of the run's tree.
#[derive(Debug, Default)]
pub struct Company {
    /// The processes beside the run at the last look.
    before: Vec<(String, u32)>,
    others: Vec<GpuOther>,
}

impl Company {
    /// Takes in what all GPUs show at one moment. `tree` has the processes of the run. `stranger` gives the name, or no text, of
    /// a process that exists here and has no right to be there; it is asked only about those that were there at the last look
    /// as well, because a process that has just begun may be one of the run's that `tree` does not have yet.
    pub fn look(&mut self, gpus: &[GpuLook], tree: &[u32], stranger: impl Fn(u32) -> Option<String>) {
        let mut now = Vec::new();
        for gpu in gpus.iter().filter(|gpu| gpu.processes.iter().any(|(pid, _)| tree.contains(pid))) {
            let with_memory = gpu.processes.iter().filter(|(pid, bytes)| !tree.contains(pid) && *bytes != Some(0));
            for (pid, bytes) in with_memory {
                let is_it = |(uuid, known): &(String, u32)| *uuid == gpu.uuid && known == pid;
                let was_there = self.before.iter().any(is_it);
                now.push((gpu.uuid.clone(), *pid));
                let has_room = self.others.len() < MOST;
                let known = self.others.iter_mut().find(|other| other.uuid == gpu.uuid && other.pid == *pid);
                if let Some(known) = known {
                    known.bytes = known.bytes.max(*bytes);
                } else if was_there && has_room {
                    self.others.extend(stranger(*pid).map(|name| GpuOther {
                        gpu: gpu.gpu,
                        uuid: gpu.uuid.clone(),
                        pid: *pid,
                        name: Some(name).filter(|name| !name.is_empty()),
                        bytes: *bytes,
                    }));
                }
            }
        }
        self.before = now;
    }

    /// The processes that were there in two looks in a row.
    pub fn others(&self) -> &[GpuOther] {
        &self.others
    }
}

/// The processes in `seen` that taint a run which ended with this failure, if any. Those in `known` were on the GPU when the
/// baseline was measured and do not: that is how every number of the session is got. A failure that no other process
/// can cause stays what it is, and the run has no number anyway.
pub fn tainting(seen: Vec<GpuOther>, known: &[GpuOther], failure: Option<FailureClass>) -> Vec<GpuOther> {
    if failure.is_some_and(|class| !class.can_come_from_gpu()) {
        return Vec::new();
    }
    seen.into_iter().filter(|other| !known.iter().any(|known| known.is(other))).collect()
}

/// The failure in the place of the number of a tainted run.
pub fn taint(others: &[GpuOther]) -> Failure {
    Failure::new(FailureClass::Tainted, GpuOther::clause(others))
}

/// A run on GPUs of another model than the baseline's: its number cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherGpu {
    /// Those of the baseline.
    pub measured: String,
    /// Those of the run.
    pub given: String,
}

impl OtherGpu {
    /// Compares the GPUs of a run with those of the baseline, as environments name them. Their number is of no account: a node may
    /// have more than a job may use.
    pub fn between(measured: Option<&str>, given: Option<&str>) -> Option<OtherGpu> {
        let (measured, given) = (measured?, given?);
        let models = |text: &str| -> BTreeSet<String> {
            let name = |part: &str| match part.split_once(" x ") {
                Some((count, name)) if count.bytes().all(|byte| byte.is_ascii_digit()) => name.to_owned(),
                _ => part.to_owned(),
            };
            text.split(", ").map(name).collect()
        };
        (models(measured) != models(given)).then(|| OtherGpu { measured: measured.to_owned(), given: given.to_owned() })
    }

    /// It as a clause.
    pub fn clause(&self) -> String {
        format!("it ran on {}, and the baseline on {}", self.given, self.measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one GPU shows, each process with a GiB.
    fn gpu(gpu: u32, pids: &[u32]) -> GpuLook {
        let processes = pids.iter().map(|pid| (*pid, Some(1 << 30))).collect();
        GpuLook { gpu, uuid: format!("GPU-{gpu}"), processes }
    }

    /// Who counts after these looks, as GPU and process. The run is process 1 and 2; 9 is a neighbour or in another namespace.
    fn counted(looks: &[&[GpuLook]]) -> Vec<(u32, u32)> {
        let mut company = Company::default();
        for look in looks {
            company.look(look, &[1, 2], |pid| (pid != 9).then(|| "python".to_owned()));
        }
        company.others().iter().map(|other| (other.gpu, other.pid)).collect()
    }

    #[test]
    fn a_process_counts_that_is_on_a_gpu_of_the_run_in_two_looks_in_a_row() {
        let (beside, gone) = ([gpu(0, &[1, 7])], [gpu(0, &[1])]);
        assert_eq!(counted(&[&beside, &beside]), [(0, 7)]);
        assert_eq!(counted(&[&beside]), [], "it may be a child that has just begun");
        assert_eq!(counted(&[&beside, &gone, &beside]), [], "not in a row");
        assert_eq!(counted(&[&beside, &beside, &gone]), [(0, 7)], "its number stays tainted");
        assert_eq!(counted(&[&[gpu(0, &[1, 7])], &[gpu(0, &[1, 8])]]), [], "each was there once");
        assert_eq!(counted(&[&[gpu(0, &[1, 7])], &[gpu(1, &[1, 7])]]), [], "on another GPU");
    }

    #[test]
    fn nobody_counts_where_the_run_is_not_or_who_belongs_there() {
        let twice = |look: &[GpuLook]| counted(&[look, look]);
        assert_eq!(twice(&[gpu(0, &[1, 2]), gpu(1, &[7])]), [], "the run is on the other GPU");
        assert_eq!(twice(&[gpu(0, &[7, 8])]), [], "its own processes are not listed, so nobody can be told apart");
        assert_eq!(twice(&[gpu(0, &[1, 9])]), [], "it has the right to be there, or its id means nothing here");
        let mut empty = gpu(0, &[1, 7]);
        empty.processes[1].1 = Some(0);
        assert_eq!(twice(std::slice::from_ref(&empty)), [], "it uses no memory");
        empty.processes[1].1 = None;
        assert_eq!(twice(&[empty]), [(0, 7)], "the driver does not say how much");
    }

    #[test]
    fn the_most_memory_is_noted() {
        let mut company = Company::default();
        let mut look = gpu(3, &[1, 7]);
        for bytes in [5, 9, 4] {
            look.processes[1].1 = Some(bytes);
            company.look(std::slice::from_ref(&look), &[1], |_| Some(String::new()));
        }
        let expected = GpuOther { gpu: 3, uuid: "GPU-3".into(), pid: 7, name: None, bytes: Some(9) };
        assert_eq!(company.others(), [expected]);
    }

    #[test]
    fn a_process_taints_that_was_not_there_for_the_baseline() {
        let other = |pid| GpuOther { gpu: 0, uuid: "GPU-0".into(), pid, name: None, bytes: None };
        let tainted = |failure| tainting(vec![other(7), other(8)], &[other(8)], failure);
        assert_eq!(tainted(None), [other(7)]);
        assert_eq!(tainted(Some(FailureClass::Oom)), [other(7)], "it may have taken the memory");
        assert_eq!(tainted(Some(FailureClass::Timeout)), [other(7)]);
        assert_eq!(tainted(Some(FailureClass::SyntaxError)), [], "that is the change's own");
    }

    #[test]
    fn another_model_is_another_gpu_and_more_of_the_same_are_not() {
        let differ = |one, other| OtherGpu::between(one, other).is_some();
        assert!(differ(Some("NVIDIA H100"), Some("NVIDIA A100")));
        assert!(differ(Some("NVIDIA H100"), Some("NVIDIA H100, NVIDIA T4")));
        assert!(!differ(Some("NVIDIA H100"), Some("8 x NVIDIA H100")));
        assert!(!differ(Some("NVIDIA A100 x 2"), Some("NVIDIA A100 x 2")));
        assert!(!differ(None, Some("NVIDIA H100")) && !differ(Some("NVIDIA H100"), None));
    }
}
