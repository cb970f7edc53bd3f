//! Sentences that stood for a fact before a field did, in files that version 0.1 wrote until the field came. Readers ask only
//! where the field is missing.

use super::{ExperimentId, experiment_name};

/// Returns whether the reported end of a loop in `progress.json` says that a SIGTERM ended it. The field `terminated`
/// replaces it.
pub fn says_terminated(ended: &str) -> bool {
    ended == "terminated by a signal"
}

/// Returns whether the cause in a record's `outside_cause` is that the experiment `best` failed as well. The field `excused`
/// of `progress.json` replaces it.
pub fn says_excused(cause: &str, best: ExperimentId) -> bool {
    cause == format!("{}, which ran before, failed as well", experiment_name(best))
}

/// Returns whether a commit with this subject holds a version of an experiment, a merged change or a proposal that did not
/// run. The commit's header `autoresearch-experiment` replaces it.
pub fn is_of_experiment(subject: &str) -> bool {
    let rest = subject.strip_prefix("experiment ").map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    rest.is_some_and(|rest| rest.starts_with(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentences_of_before_are_understood() {
        assert!(says_terminated("terminated by a signal") && !says_terminated("interrupted"));
        let cause = "the baseline, which ran before, failed as well";
        assert!(says_excused(cause, ExperimentId::BASELINE) && !says_excused(cause, 3.into()));
        assert!(says_excused("experiment 3, which ran before, failed as well", 3.into()));
        assert!(!says_excused("other processes had 20 GB of the GPU", 3.into()));
    }

    #[test]
    fn what_is_kept_of_an_experiment_is_told_by_its_subject() {
        for own in ["experiment 3, version 1", "experiment 12, merged by the agent", "experiment 7, not run"] {
            assert!(is_of_experiment(own), "{own}");
        }
        for other in ["uncommitted changes, saved before the working tree was restored", "reset by the agent: x"] {
            assert!(!is_of_experiment(other), "{other}");
        }
    }
}
