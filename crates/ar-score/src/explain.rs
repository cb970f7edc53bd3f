//! The axes of a score: their formulas, which are those of the Madani adapter, and a score in words.

use ar_core::domain::{Composite, Form, RESEARCH_AXES, count_of, cut};
use ar_core::rules::{AxisValues, artifact_metric, bring, composite_number, in_form};

use super::scoring::{FRESHNESS, Score};
use super::terms::{ResearchTerms, TERMS_FILE};

/// Number of characters to show of a claim.
const SHOWN: usize = 100;

/// The name under which a log says how many sources were cited so far.
pub const SOURCES_CITED: &str = "sources_cited";

/// The name under which a log says how many sources an iteration both stores and relies on.
pub const FIRST_STORED: &str = "first_stored";

/// The name under which a log says how many sources are kept.
pub const SOURCES_KEPT: &str = "sources_kept";

/// The name under which a log says how many sources any iteration stored so far.
pub const SOURCES_STORED: &str = "sources_stored";

/// The name under which a log says how diverse sources are by their `organisation`, `medium` or `year`.
pub fn by_metric(by: &str) -> String {
    format!("by_{by}")
}

/// The name under which a log says how many claims of the kept artifact are gone.
pub const CLAIMS_REMOVED: &str = "claims_removed";

/// The lines that explain a score: the axes, the worst one first, each with what would raise it; what they are together in
/// each form; warnings and problems.
pub fn explain(score: &Score, terms: &ResearchTerms) -> Vec<String> {
    let (new, verified) = score.claims;
    let removed = score.removed;
    let repeats = match score.repeats {
        0 => String::new(),
        count => format!(", {} of kept ones", count_of(count, "repeat")),
    };
    let claims = count_of(new, "new claim");
    let mut lines = vec![format!("{claims}, {verified} verified{repeats}; {CLAIMS_REMOVED} = {removed}")];
    lines.push("the worst axis first:".into());
    let mut axes: Vec<_> = score.axes.iter().filter(|(name, _)| terms.composite.axes.contains_key(*name)).collect();
    let brought = |name: &str, value: Option<f64>| value.map(|value| bring(value, terms.composite.axes[name].range));
    axes.sort_by(|(one, a), (other, b)| {
        let (a, b) = (brought(one, *a), brought(other, *b));
        a.unwrap_or(-1.0).total_cmp(&b.unwrap_or(-1.0)).then_with(|| one.cmp(other))
    });
    for (name, value) in axes {
        let would = at_best(score, &terms.composite, name);
        let would = would.map(|would| format!("; at its best the composite would be {would}")).unwrap_or_default();
        lines.push(format!("  {name} {}: {}{would}", number(*value), advice(score, terms, name)));
    }
    let forms: Vec<String> = score
        .forms
        .iter()
        .map(|(form, value)| format!("{form} = {}", value.as_ref().map_or("nan", |value| value.raw.as_str())))
        .collect();
    lines.push(format!("together, where {} decides: {}", Form::Weighted, forms.join(", ")));
    let diversity: Vec<String> =
        score.diversity.iter().map(|(by, value)| format!("{} = {}", by_metric(by), number(*value))).collect();
    lines.push(format!("diversity by what is said of sources: {}", diversity.join(", ")));
    lines.push(format!(
        "sources cited so far: {SOURCES_CITED} = {}, stored and relied on by this iteration: {FIRST_STORED} = {}",
        score.sources.0, score.first_stored
    ));
    let (kept, stored) = score.stored;
    lines
        .push(format!("sources that any iteration stored: {SOURCES_STORED} = {stored}, kept: {SOURCES_KEPT} = {kept}"));
    if let Some((citations, failed)) = score.batch {
        lines.push(format!("verified anew: {}; {}", count_of(citations, "citation"), count_of(failed, "problem")));
    }
    let of_artifact = score.artifact.axes.iter();
    let of_artifact = of_artifact.map(|(name, value)| format!("{} = {}", artifact_metric(name), number(*value)));
    let of_artifact = of_artifact.collect::<Vec<String>>().join(", ");
    lines.push(format!("the artifact, in which all that was kept counts: {of_artifact}"));
    lines.extend(score.warnings.iter().map(|warning| format!("warning: {warning}")));
    lines.extend(
        score.problems.iter().map(|it| format!("{}:{}: {}", cut(&it.file, SHOWN), it.line, cut(&it.what, 300))),
    );
    lines
}

/// A number with four decimals, or `nan`.
fn number(value: Option<f64>) -> String {
    value.map_or("nan".into(), |value| format!("{:.4}", value + 0.0))
}

/// Computes the composite with one of its axes at its best; absent if that is no change.
fn at_best(score: &Score, composite: &Composite, name: &str) -> Option<String> {
    let mut values: AxisValues = score.axes.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let best = composite.axes.get(name)?.range.map_or(1.0, |[_, hi]| hi);
    values.insert(name.to_owned(), Some(best));
    let would = in_form(composite, Form::Weighted, &values).and_then(composite_number)?;
    (Some(&would) != score.composite.as_ref()).then_some(would.raw)
}

/// Explains the value of an axis, and what would raise it.
fn advice(score: &Score, terms: &ResearchTerms, name: &str) -> String {
    let (new, verified) = score.claims;
    let [density, diversity, coverage, novelty] = RESEARCH_AXES;
    let failed = if name == novelty { "novelty" } else { "verify" };
    if score.failed.contains(&failed) && name != FRESHNESS {
        return format!("the command `{failed}` of {TERMS_FILE} gave no answer; see its problem below");
    }
    match name {
        _ if name == density && new == 0 => "no new claim; add one below the heading of a sub-topic".into(),
        _ if name == density && verified == new => "all new claims are verified".into(),
        _ if name == density => {
            format!("{verified} of {new} new claims verified; quote for each what a stored source says")
        }
        _ if name == diversity && score.sources.1 == 0 => {
            "no citation of a new claim is supported by its source; quote what the source says".into()
        }
        _ if name == diversity => {
            let (so_far, citations) = score.sources;
            let of = format!("{} of {} so far", count_of(citations, "supported citation"), count_of(so_far, "source"));
            let is_best = score.axes.iter().any(|(known, value)| *known == name && *value == Some(1.0));
            if is_best { of } else { format!("{of}; cite more of them, and each about as often") }
        }
        _ if name == coverage => {
            let name = |place: &usize| cut(&terms.topics[*place], SHOWN);
            let of: Vec<String> = score.newly.iter().map(name).collect();
            let open: Vec<usize> = (0..terms.topics.len()).filter(|place| !score.addressed.contains(place)).collect();
            let open: Vec<String> = open.iter().map(name).collect();
            let newly = if of.is_empty() { "none new".into() } else { format!("new: {}", of.join(", ")) };
            let open = if open.is_empty() { String::new() } else { format!("; open: {}", open.join(", ")) };
            format!("{} of {} sub-topics, {newly}{open}", score.added.len(), terms.topics.len())
        }
        FRESHNESS => "the mean date of the cited sources, in years; cite newer ones".into(),
        _ => match &score.closest {
            Some((claim, earlier, similarity)) => format!(
                "\"{}\" is {similarity:.2} like the earlier \"{}\"; claim what was not claimed before",
                cut(claim, SHOWN),
                cut(earlier, SHOWN)
            ),
            None if new == 0 => "no new claim".into(),
            None if verified == 0 => "no new claim that a source supports".into(),
            None => "no earlier claims".into(),
        },
    }
}

/// Up to how many sources count for source diversity: 12, where the Madani adapter saw its use level off.
pub const DIVERSITY_CAP: usize = 12;

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

/// The share of a part: of new claims that are verified, of sub-topics with a verified claim. `None` of nothing.
pub(super) fn share(part: usize, whole: usize) -> Option<f64> {
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
        assert_eq!(four(share(5, 7)), "0.7143");
        assert_eq!([four(share(0, 3)), four(share(0, 0))], ["0.0000", "nan"]);
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
        assert_eq!(four(share(2, 5)), "0.4000");
        assert_eq!(four(share(0, 0)), "nan");
    }

    proptest! {
        #[test]
        fn diversity_is_within_0_and_1(citations in prop::collection::vec(0usize..50, 0..40), more in 0usize..40) {
            let value = source_diversity(&citations, citations.len() + more);
            prop_assert!(value.is_none_or(|value| (0.0..=1.0).contains(&value) && value.is_sign_positive()));
        }
    }
}
