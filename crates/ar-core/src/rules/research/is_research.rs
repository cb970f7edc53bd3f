//! Sessions whose product is a research artifact.

use crate::domain::Contract;

/// Returns whether a session is a research session.
pub fn is_research(contract: &Contract) -> bool {
    calls_score(&contract.command)
}

/// Returns whether a command line calls `ar score`, which makes a session a research session.
pub fn calls_score(command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    words.windows(2).any(|pair| pair[1] == "score" && (pair[0] == "ar" || pair[0].ends_with("/ar")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scorer_is_known_by_its_name() {
        for command in ["ar score", "cd x && ar score --format json", "/usr/local/bin/ar  score"] {
            assert!(calls_score(command), "{command}");
        }
        for command in ["ar rcs score", "python score.py", "bar score", "ar", ""] {
            assert!(!calls_score(command), "{command}");
        }
    }
}
