//! Runs on another model of GPU than the baseline's, where an engine chooses the node.

use std::collections::BTreeSet;

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
