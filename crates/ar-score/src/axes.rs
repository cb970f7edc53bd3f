//! The formulas of the axes. They are those of the Madani adapter, whose report gives their ranges and thresholds.

/// Up to how many sources count for source diversity: 12, where the Madani adapter saw its use level off.
pub const DIVERSITY_CAP: usize = 12;

/// The share of new claims that are verified; `None` without new claims.
pub fn claim_density(new: usize, verified: usize) -> Option<f64> {
    share(verified, new)
}

/// The Shannon entropy of citations, given as how many each source has, over the logarithm of how many sources were cited
/// so far, of which [`DIVERSITY_CAP`] count; at most 1. 0 where there is one source, `None` without citations.
pub fn source_diversity(citations: &[usize], sources_so_far: usize) -> Option<f64> {
    let total: usize = citations.iter().sum();
    if total == 0 {
        return None;
    }
    let most = sources_so_far.min(DIVERSITY_CAP);
    if most < 2 {
        return Some(0.0);
    }
    let shares = citations.iter().filter(|count| **count > 0).map(|count| *count as f64 / total as f64);
    // The logarithm of 1 is 0, and its negative a zero with a sign.
    let entropy = shares.map(|share| -share * share.ln()).sum::<f64>().abs();
    Some((entropy / (most as f64).ln()).min(1.0))
}

/// The share of sub-topics with a verified claim; `None` without sub-topics.
pub fn topic_coverage(addressed: usize, topics: usize) -> Option<f64> {
    share(addressed, topics)
}

fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn four(value: Option<f64>) -> String {
        value.map_or("nan".into(), |value| format!("{value:.4}"))
    }

    #[test]
    fn claim_density_by_hand() {
        // 5 of 7 new claims: 5 / 7 = 0.714286.
        assert_eq!(four(claim_density(7, 5)), "0.7143");
        assert_eq!([four(claim_density(3, 0)), four(claim_density(0, 0))], ["0.0000", "nan"]);
    }

    #[test]
    fn source_diversity_by_hand() {
        // Two sources cited once each of two so far: entropy ln 2 = 0.693147; / ln 2 = 1.
        assert_eq!(four(source_diversity(&[1, 1], 2)), "1.0000");
        // The same of four so far: 0.693147 / ln 4 = 0.693147 / 1.386294.
        assert_eq!(four(source_diversity(&[1, 1], 4)), "0.5000");
        // Three citations of one and one of another: −0.75 ln 0.75 − 0.25 ln 0.25 = 0.215762 + 0.346574 = 0.562335;
        // / ln 3 = 0.562335 / 1.098612.
        assert_eq!(four(source_diversity(&[3, 1], 3)), "0.5119");
        // 12 of the 40 so far count: 0.693147 / ln 12 = 0.693147 / 2.484907.
        assert_eq!(four(source_diversity(&[1, 1], 40)), "0.2789");
        // Twenty sources once each: ln 20 = 2.995732 is more than ln 12, and 1 is the most.
        assert_eq!(four(source_diversity(&[1; 20], 20)), "1.0000");
        // One source twelve times: its share is 1, and 1 × ln 1 = 0.
        assert_eq!([four(source_diversity(&[12], 1)), four(source_diversity(&[12], 5))], ["0.0000", "0.0000"]);
        assert_eq!([four(source_diversity(&[], 5)), four(source_diversity(&[0], 5))], ["nan", "nan"]);
    }

    #[test]
    fn topic_coverage_by_hand() {
        // 2 of 5 sub-topics.
        assert_eq!(four(topic_coverage(2, 5)), "0.4000");
        assert_eq!(four(topic_coverage(0, 0)), "nan");
    }

    proptest! {
        #[test]
        fn diversity_is_within_0_and_1(citations in prop::collection::vec(0usize..50, 0..40), more in 0usize..40) {
            let value = source_diversity(&citations, citations.len() + more);
            prop_assert!(value.is_none_or(|value| (0.0..=1.0).contains(&value) && value.is_sign_positive()));
        }
    }
}
