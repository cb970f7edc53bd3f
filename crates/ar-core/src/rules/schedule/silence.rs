//! When a job has been silent for too long.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// After how much silence a job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    /// The time without a sign of life.
    pub after: Duration,
    /// True if processor time is not a sign of life while the job is on a GPU.
    pub by_gpu: bool,
}

/// The processor time within a silence's length that is a sign of life, as one part of it: 1% of a core. A process that only
/// waits takes less for its timers. Own judgement.
const WORK: u32 = 100;

/// The longest time between two samples that counts: a machine or a job that was stopped in between was not silent then. Twice
/// the longest pause of the sampler.
const LONGEST_GAP: Duration = Duration::from_millis(4096);

/// The activity of a job's GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuLife {
    /// At least one of them computes.
    Busy,
    /// None of them computes.
    Idle,
    /// It is on none, or what they do is unknown.
    Unknown,
}

/// The signs of life of a job at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LifeSign<W> {
    /// Stamp of what it has written, which differs after it wrote more.
    pub written: W,
    /// The processor time of all its processes, also of those that have ended; absent where the system does not tell.
    pub processor: Option<Duration>,
    /// The activity of its GPUs; absent without a new answer of the driver.
    pub gpu: Option<GpuLife>,
}

/// The silence of a job so far.
#[derive(Debug)]
pub struct Quiet<W> {
    silence: Silence,
    lasted: Duration,
    written: Option<W>,
    /// The processor time at the last sign of life.
    processor: Duration,
    gpu: GpuLife,
}

impl<W: PartialEq> Quiet<W> {
    /// A job that starts.
    pub fn new(silence: Silence) -> Self {
        Quiet { silence, lasted: Duration::ZERO, written: None, processor: Duration::ZERO, gpu: GpuLife::Unknown }
    }

    /// Takes a sample, `gap` after the last one. Returns whether the silence has lasted for too long.
    ///
    /// Output is a sign of life, and so is a busy GPU. Processor time is one, too, unless the job is on idle GPUs and those
    /// decide; where it is unknown, it ends nothing.
    pub fn note(&mut self, gap: Duration, sign: LifeSign<W>) -> bool {
        self.gpu = sign.gpu.unwrap_or(self.gpu);
        let has_written = self.written.as_ref() != Some(&sign.written);
        let has_worked = match sign.processor {
            _ if self.gpu == GpuLife::Busy => true,
            used if self.gpu == GpuLife::Idle && self.silence.by_gpu => {
                self.processor = used.unwrap_or(self.processor);
                false
            }
            None => true,
            Some(used) => {
                // It falls when a process ends whose parent does not wait for it.
                self.processor = self.processor.min(used);
                used - self.processor >= self.silence.after / WORK
            }
        };
        if has_written || has_worked {
            self.lasted = Duration::ZERO;
            self.written = Some(sign.written);
            self.processor = sign.processor.unwrap_or(self.processor);
        } else {
            self.lasted += gap.min(LONGEST_GAP);
        }
        self.lasted >= self.silence.after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// After how many samples, one each second, a job ends of which `of` tells the output, the milliseconds of processor time and
    /// the GPU at each second; `None` for one that does not within 100 seconds.
    fn ends(by_gpu: bool, of: impl Fn(u64) -> (u64, Option<u64>, Option<GpuLife>)) -> Option<u64> {
        let mut quiet = Quiet::new(Silence { after: 10 * SECOND, by_gpu });
        (0..100).find(|second| {
            let (written, used, gpu) = of(*second);
            quiet.note(SECOND, LifeSign { written, processor: used.map(Duration::from_millis), gpu })
        })
    }

    #[test]
    fn output_work_and_a_busy_gpu_are_signs_of_life() {
        use GpuLife::{Busy, Idle, Unknown};
        for by_gpu in [true, false] {
            assert_eq!(ends(by_gpu, |_| (7, Some(40), None)), Some(10), "it sleeps");
            assert_eq!(ends(by_gpu, |second| (7, Some(second), None)), Some(10), "timers only");
            assert_eq!(ends(by_gpu, |second| (second / 9, Some(40), None)), None, "it prints");
            assert_eq!(ends(by_gpu, |second| (second.min(20), Some(40), None)), Some(30), "it printed");
            assert_eq!(ends(by_gpu, |second| (7, Some(second * 11), None)), None, "it works a little");
            assert_eq!(
                ends(by_gpu, |second| (7, Some(second / 9 * 500), Some(Unknown))),
                None,
                "it works now and then"
            );
            assert_eq!(ends(by_gpu, |_| (7, Some(40), Some(Busy))), None);
            assert_eq!(ends(by_gpu, |second| (7, Some(40), (second < 20).then_some(Busy))), None, "no new answer");
            assert_eq!(ends(by_gpu, |_| (7, None, None)), None, "nothing is known");
            assert_eq!(ends(by_gpu, |_| (7, Some(40), Some(Idle))), Some(10));
        }
        let spins = |second: u64| (7, Some(second * 1000), Some(Idle));
        assert_eq!([ends(true, spins), ends(false, spins)], [Some(10), None]);
        let leaves = |second: u64| (7, Some(second * 1000), Some(if second < 8 { Idle } else { Unknown }));
        assert_eq!(ends(true, leaves), None, "it left the GPU and works on");
    }

    #[test]
    fn processor_time_that_falls_and_samples_that_fail_to_come_prove_nothing() {
        let falls = |second: u64| (7, Some(if second < 50 { 5000 - second * 100 } else { 0 }), None);
        assert_eq!(ends(false, falls), Some(10));
        let mut quiet = Quiet::new(Silence { after: 10 * SECOND, by_gpu: true });
        let sign = LifeSign { written: 1, processor: Some(SECOND), gpu: None };
        let ended: Vec<bool> = [3600; 4].map(|gap| quiet.note(gap * SECOND, sign)).into();
        assert_eq!(ended, [false, false, false, true], "at most 4 seconds count");
    }
}
