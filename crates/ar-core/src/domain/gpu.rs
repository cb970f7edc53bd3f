//! GPUs: what a machine has, which of them are chosen, and what is in use of them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{as_text, bytes_text, few};

/// A GPU, or one MIG instance of a GPU, which programs see as a GPU of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Its index on this machine, as `nvidia-smi` shows it; a MIG instance has the index of its GPU.
    pub index: u32,
    /// Its UUID as the driver writes it.
    pub uuid: String,
    /// The model; for a MIG instance with its profile.
    pub model: String,
    /// Total memory in bytes; absent if the driver does not report it.
    pub memory: Option<u64>,
    /// The UUID of the GPU of which this is a MIG instance.
    pub parent: Option<String>,
}

impl fmt::Display for Gpu {
    /// Formats it for people: `GPU 1 (GPU-8932f937-…)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.parent {
            Some(_) => write!(f, "MIG instance {} of GPU {}", self.uuid, self.index),
            None => write!(f, "GPU {} ({})", self.index, self.uuid),
        }
    }
}

/// One GPU as the user names it.
#[derive(Debug, Clone, PartialEq, Eq, strum::Display)]
pub enum GpuName {
    /// Its index among the GPUs that `ar` may use, from 0.
    #[strum(to_string = "{0}")]
    Index(u32),
    /// The beginning of its UUID, or of that of a MIG instance, which no other has; as in `CUDA_VISIBLE_DEVICES`.
    #[strum(to_string = "{0}")]
    Uuid(String),
}

impl FromStr for GpuName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A sign is not part of an index.
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().map(GpuName::Index).map_err(drop);
        }
        let is_prefixed = |prefix: &str| {
            let (start, rest) = text.split_at_checked(prefix.len()).unwrap_or_default();
            start.eq_ignore_ascii_case(prefix) && !rest.is_empty()
        };
        // `MIG-GPU-8932f937-…/1/0` is how drivers before 470 named an instance.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'/');
        let is_uuid = (is_prefixed("GPU-") || is_prefixed("MIG-")) && text.bytes().all(is_plain);
        if is_uuid { Ok(GpuName::Uuid(text.to_owned())) } else { Err(()) }
    }
}

/// The GPUs that a session uses; as text, and in JSON, `all`, `0,1,3` or UUIDs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum GpuChoice {
    /// All that `ar` may use.
    All,
    /// These, in this order; at least one.
    Listed(Vec<GpuName>),
}

/// The error for a text that is not a [`GpuChoice`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no GPU: write all, indices as in 0,1,3, or UUIDs as `nvidia-smi -L` shows them")]
pub struct GpuChoiceError(String);

impl FromStr for GpuChoice {
    type Err = GpuChoiceError;

    /// Reads `all`, or names separated by commas, with or without spaces.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim().eq_ignore_ascii_case("all") {
            return Ok(GpuChoice::All);
        }
        let name = |part: &str| part.trim().parse().map_err(|()| GpuChoiceError(part.trim().to_owned()));
        text.split(',').map(name).collect::<Result<_, _>>().map(GpuChoice::Listed)
    }
}

impl fmt::Display for GpuChoice {
    /// Formats it for parsing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GpuChoice::All => f.write_str("all"),
            GpuChoice::Listed(names) => {
                f.write_str(&names.iter().map(GpuName::to_string).collect::<Vec<_>>().join(","))
            }
        }
    }
}

as_text!(GpuChoice);

/// The use of a GPU by all processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuLoad {
    /// The model.
    pub name: String,
    /// Memory in use, in bytes.
    pub used: u64,
    /// Total memory, in bytes.
    pub total: u64,
    /// Its recent utilisation in percent; absent if the GPU does not report it.
    pub percent: Option<u32>,
}

/// The use of a GPU, or of a MIG instance, by compute processes at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuUse {
    /// The UUID, as in [`Gpu::uuid`].
    pub uuid: String,
    /// Total memory, in bytes.
    pub total: u64,
    /// Memory in use by whatever, in bytes.
    pub used: u64,
    /// The compute processes with the memory of each in bytes; absent where the driver does not report it.
    pub processes: Vec<(u32, Option<u64>)>,
}

impl GpuUse {
    /// The memory in bytes that compute processes other than those in `own` use. All that is in use counts where one of
    /// them does not show what it uses, less what is known of `own`.
    pub fn others(&self, own: &[u32]) -> u64 {
        let (ours, others): (Vec<_>, Vec<_>) = self.processes.iter().copied().partition(|(pid, _)| own.contains(pid));
        let sum = |of: &[(u32, Option<u64>)]| of.iter().filter_map(|(_, bytes)| *bytes).sum::<u64>();
        if others.iter().any(|(_, bytes)| bytes.is_none()) {
            self.used.saturating_sub(sum(&ours))
        } else {
            sum(&others)
        }
    }
}

/// A GPU on which other compute processes leave too little memory for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuCrowd {
    /// The GPU.
    pub gpu: Gpu,
    /// The other compute processes on it.
    pub processes: Vec<u32>,
    /// The memory that these processes use, in bytes.
    pub others: u64,
    /// The memory that they leave, in bytes.
    pub left: u64,
    /// The memory that the last run took of one GPU, in bytes.
    pub needed: u64,
}

impl fmt::Display for GpuCrowd {
    /// Formats it as a clause.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [others, left, needed] = [self.others, self.left, self.needed].map(bytes_text);
        write!(f, "other processes use {others} of {} and leave {left}; the last run took {needed}", self.gpu)
    }
}

/// A process that computed on a GPU of a run while it ran, and is not of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuOther {
    /// The index of the GPU; of a MIG instance that of its GPU.
    pub gpu: u32,
    /// The UUID of the GPU or instance.
    pub uuid: String,
    /// The process.
    pub pid: u32,
    /// Its name, where the system tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The most memory that it used there, in bytes; absent where the driver does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl GpuOther {
    /// Returns whether it is the same process on the same GPU.
    pub fn is(&self, other: &GpuOther) -> bool {
        (&self.uuid, self.pid, &self.name) == (&other.uuid, other.pid, &other.name)
    }

    /// Says in a clause who was there: `another process (pid 4242, python, 12 GB) was on GPU 0 while it ran`.
    pub fn clause(others: &[GpuOther]) -> String {
        let mut processes: Vec<&GpuOther> = Vec::new();
        let mut gpus: Vec<String> = Vec::new();
        for other in others {
            if !processes.iter().any(|known| known.pid == other.pid) {
                processes.push(other);
            }
            if !gpus.contains(&format!("GPU {}", other.gpu)) {
                gpus.push(format!("GPU {}", other.gpu));
            }
        }
        let facts = |other: &&GpuOther| {
            let facts = [Some(format!("pid {}", other.pid)), other.name.clone(), other.bytes.map(bytes_text)];
            facts.into_iter().flatten().collect::<Vec<_>>().join(", ")
        };
        let named = few(&processes.iter().map(facts).collect::<Vec<_>>()).join("; ");
        let who = if processes.len() == 1 { "another process" } else { "other processes" };
        let were = if processes.len() == 1 { "was" } else { "were" };
        format!("{who} ({named}) {were} on {} while it ran", gpus.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_read_as_people_write_them_and_are_written_for_reading() {
        for (text, written) in [
            ("all", "all"),
            (" ALL ", "all"),
            ("0", "0"),
            ("0, 1,3", "0,1,3"),
            ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"),
            ("gpu-89,MIG-1, 2", "gpu-89,MIG-1,2"),
            ("MIG-GPU-8932f937/1/0", "MIG-GPU-8932f937/1/0"),
        ] {
            let choice: GpuChoice = text.parse().unwrap();
            assert_eq!(choice.to_string(), written);
            assert_eq!(written.parse(), Ok(choice.clone()));
            let json = serde_json::to_string(&choice).unwrap();
            assert_eq!(json, format!("\"{written}\""));
            assert_eq!(serde_json::from_str::<GpuChoice>(&json).unwrap(), choice);
        }
        for (text, wrong) in [
            ("", ""),
            ("0,", ""),
            ("-1", "-1"),
            ("+1", "+1"),
            ("0-3", "0-3"),
            ("0 1", "0 1"),
            ("all,0", "all"),
            ("GPU-", "GPU-"),
            ("GPU", "GPU"),
            ("GPÜ-1", "GPÜ-1"),
            ("GPU-1;rm", "GPU-1;rm"),
            ("99999999999", "99999999999"),
        ] {
            assert_eq!(text.parse::<GpuChoice>(), Err(GpuChoiceError(wrong.into())), "{text}");
        }
        assert!(serde_json::from_str::<GpuChoice>("\"\"").is_err());
    }

    #[test]
    fn memory_of_others_is_what_their_processes_show_else_all_that_is_used() {
        let shown = GpuUse { uuid: "GPU-1".into(), total: 80, used: 45, processes: vec![(1, Some(10)), (2, Some(30))] };
        assert_eq!([&[][..], &[1], &[1, 2], &[3]].map(|own| shown.others(own)), [40, 30, 0, 40]);
        let hidden = GpuUse { processes: vec![(1, Some(10)), (2, None)], ..shown };
        assert_eq!([&[][..], &[1], &[2]].map(|own| hidden.others(own)), [45, 35, 10]);
    }

    #[test]
    fn others_on_a_gpu_are_named_each_once() {
        let other = |gpu, pid, name: Option<&str>, bytes| GpuOther {
            gpu,
            uuid: format!("GPU-{gpu}"),
            pid,
            name: name.map(str::to_owned),
            bytes,
        };
        let python = other(0, 4242, Some("python"), Some(11 << 30));
        let said = "another process (pid 4242, python, 12 GB) was on GPU 0 while it ran";
        assert_eq!(GpuOther::clause(std::slice::from_ref(&python)), said);
        let both = [python.clone(), other(1, 4242, Some("python"), Some(1 << 30)), other(1, 7, None, None)];
        let said = "other processes (pid 4242, python, 12 GB; pid 7) were on GPU 0 and GPU 1 while it ran";
        assert_eq!(GpuOther::clause(&both), said);
        assert!(python.is(&GpuOther { bytes: None, ..python.clone() }) && !python.is(&both[1]));
    }
}
