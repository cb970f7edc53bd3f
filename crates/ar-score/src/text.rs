//! Texts as they are compared, and how much a claim resembles earlier ones.
//!
//! The similarity of two claims is the cosine of their vectors of n-grams. It depends on the two texts alone, so that a claim
//! has the same novelty in each session with the same history, and more history never raises it. It sees words and their
//! spelling: a claim in other words of the same meaning needs a `novelty` command.

use std::collections::{BTreeMap, HashMap};

/// The reason why bytes are not a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}, on line {line}")]
pub struct NotText {
    /// The line, from 1.
    pub line: usize,
    /// The problem there.
    pub what: &'static str,
}

/// The bytes as a text.
///
/// # Errors
///
/// They are not UTF-8, or hold a NUL byte, which no text has.
pub fn as_text(bytes: &[u8]) -> Result<&str, NotText> {
    let line = |at: usize| bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
    if let Some(at) = memchr::memchr(0, bytes) {
        return Err(NotText { line: line(at), what: "it holds a NUL byte" });
    }
    std::str::from_utf8(bytes)
        .map_err(|error| NotText { line: line(error.valid_up_to()), what: "it is not valid UTF-8" })
}

/// Returns whether a character is invisible and separates nothing: soft hyphens, joiners and marks of direction.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

/// The words of a claim, in lower case, with single spaces: without punctuation, but with the signs that change what a
/// number means. Claims with equal keys are the same claim.
pub(super) fn key(text: &str) -> String {
    let mut key = String::with_capacity(text.len());
    let space = |key: &mut String| {
        if !key.is_empty() && !key.ends_with(' ') {
            key.push(' ');
        }
    };
    let mut chars = text.chars().filter(|c| !is_invisible(*c)).peekable();
    while let Some(c) = chars.next() {
        let is_apart = key.is_empty() || key.ends_with(' ');
        if c.is_alphanumeric() {
            key.extend(c.to_lowercase());
        } else if is_apart && matches!(c, '-' | '−') && chars.peek().is_some_and(char::is_ascii_digit) {
            key.push('-');
        } else if matches!(c, '<' | '>' | '=' | '≤' | '≥' | '+' | '±' | '≈') {
            space(&mut key);
            key.push(c);
            key.push(' ');
        } else {
            space(&mut key);
        }
    }
    key.truncate(key.trim_end().len());
    key
}

/// A text in which quotations are looked for: in lower case, with single spaces and plain quotation marks, and without the
/// backslash before a sign.
pub(super) fn normal(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    let mut chars = text.chars().filter(|c| !is_invisible(*c)).peekable();
    while let Some(c) = chars.next() {
        match c {
            // Markdown and TeX write a sign like this that has a meaning there.
            '\\' if chars.peek().is_some_and(char::is_ascii_punctuation) => {}
            _ if c.is_whitespace() => {
                if !normal.is_empty() && !normal.ends_with(' ') {
                    normal.push(' ');
                }
            }
            '“' | '”' | '„' | '‟' | '«' | '»' | '″' => normal.push('"'),
            '‘' | '’' | '‚' | '‛' | '′' | '‹' | '›' => normal.push('\''),
            _ => normal.extend(c.to_lowercase()),
        }
    }
    normal.truncate(normal.trim_end().len());
    normal
}

/// The weight of a word; of one of fewer letters than [`LONG`], such as an article, [`LIGHT`].
const WORD: f64 = 1.0;

/// The weight of a short word, of a pair of neighbouring words, and of three neighbouring characters of a word with a blank on
/// each side. Pairs tell orders apart, and characters the forms of a word, both less than the words themselves do.
const LIGHT: f64 = 0.25;

/// From how many characters a word is not short. One with a digit never is.
const LONG: usize = 4;

/// The most similar pair of a new text and an earlier one, with the place of the earlier one; of equally similar ones that with
/// the first earlier one. `None` without a pair.
pub(super) fn closest<'a>(new: &[(&'a str, usize)], earlier: &[&str]) -> Option<(&'a str, usize, f64)> {
    let pairs = new.iter().zip(nearest(new, earlier));
    let pairs = pairs.filter_map(|((text, _), found)| found.map(|(place, similarity)| (*text, place, similarity)));
    pairs.min_by(|(_, place, one), (_, behind, other)| other.total_cmp(one).then(place.cmp(behind)))
}

/// For each new text the first `count` earlier ones that go before it, as it says, are looked through: the place of the most
/// similar one, and how similar they are; of equally similar ones the first.
pub(super) fn nearest(new: &[(&str, usize)], earlier: &[&str]) -> Vec<Option<(usize, f64)>> {
    let mut grams = Grams::default();
    let known: Vec<Vector> = earlier.iter().map(|text| grams.vector(text)).collect();
    let of = |(text, count): &(&str, usize)| {
        let vector = grams.vector(text);
        let similarities = known.iter().take(*count).map(|known| cosine(&vector, known)).enumerate();
        similarities.reduce(|best, other| if other.1 > best.1 { other } else { best })
    };
    new.iter().map(of).collect()
}

/// The n-grams of a text, sorted, each with its count times its weight.
type Vector = Vec<(u32, f64)>;

/// The n-grams that were seen, each with a number.
#[derive(Default)]
struct Grams(HashMap<String, u32>);

impl Grams {
    fn vector(&mut self, text: &str) -> Vector {
        let key = key(text);
        let words: Vec<&str> = key.split(' ').filter(|word| !word.is_empty()).collect();
        let mut counts: BTreeMap<u32, f64> = BTreeMap::new();
        let mut add = |gram: String, weight: f64| *counts.entry(self.number(gram)).or_default() += weight;
        for word in &words {
            let is_long = word.chars().count() >= LONG || word.contains(|c: char| c.is_numeric());
            add(format!("w{word}"), if is_long { WORD } else { LIGHT });
            let padded: Vec<char> = [' '].into_iter().chain(word.chars()).chain([' ']).collect();
            for three in padded.windows(3) {
                add(format!("c{}", three.iter().collect::<String>()), LIGHT);
            }
        }
        for pair in words.windows(2) {
            add(format!("p{} {}", pair[0], pair[1]), LIGHT);
        }
        counts.into_iter().collect()
    }

    fn number(&mut self, gram: String) -> u32 {
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        *self.0.entry(gram).or_insert(next)
    }
}

/// The cosine of two vectors without negative parts, 0..1; 0 where one of them is empty.
fn cosine(a: &Vector, b: &Vector) -> f64 {
    let length = |vector: &Vector| vector.iter().map(|(_, weight)| weight * weight).sum::<f64>().sqrt();
    let lengths = length(a) * length(b);
    if lengths == 0.0 {
        return 0.0;
    }
    if a == b {
        // Free of roundings.
        return 1.0;
    }
    let (mut dot, mut b) = (0.0, b.iter().peekable());
    for (gram, weight) in a {
        while b.next_if(|(other, _)| other < gram).is_some() {}
        if let Some((_, other)) = b.next_if(|(other, _)| other == gram) {
            dot += weight * other;
        }
    }
    (dot / lengths).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_is_without_punctuation_case_and_spacing() {
        let same = "pagedattention wastes under 4 of memory";
        for text in ["PagedAttention wastes under 4 % of memory.", "  pagedAttention, wastes\nunder 4% of “memory”!"]
        {
            assert_eq!(key(text), same, "{text}");
        }
        assert_eq!(key("Ünder ÄÖ"), "ünder äö");
        assert_eq!(key("wa\u{ad}st\u{200b}es\u{feff} \u{202e}it"), "wastes it");
        assert_ne!(key("a < 4"), key("a > 4"));
        assert_eq!(key("a<4"), key("a < 4"));
        assert_eq!([key("by -5 points"), key("by 5 points - or 3-5")], ["by -5 points", "by 5 points or 3 5"]);
        assert_eq!([key(""), key(" .,— ")], ["", ""]);
    }

    #[test]
    fn a_quotation_is_compared_without_whitespace_case_and_typographic_marks() {
        assert_eq!(normal(" “Waste”\n of\u{a0} UNDER\t4%, it’s "), "\"waste\" of under 4%, it's");
        assert_eq!(normal("\\_a\\% \\alpha \\"), "_a% \\alpha \\");
    }

    #[test]
    fn bytes_that_are_no_text_are_named_with_their_line() {
        assert_eq!(as_text(b"a\nb"), Ok("a\nb"));
        assert_eq!(as_text(b"a\nb\0").unwrap_err().to_string(), "it holds a NUL byte, on line 2");
        assert_eq!(as_text(b"a\n\nb\xff").unwrap_err().to_string(), "it is not valid UTF-8, on line 3");
    }

    fn novelty<'a, const N: usize, const M: usize>(new: [&'a str; N], earlier: [&'a str; M]) -> Option<f64> {
        closest(&new.map(|text| (text, M)), &earlier).map(|(_, _, similarity)| 1.0 - similarity)
    }

    fn of(new: &str, earlier: &str) -> f64 {
        novelty([new], [earlier]).unwrap()
    }

    #[test]
    fn novelty_by_hand() {
        // "alpha" is 1 word (1) and 5 triples, " al", "alp", "lph", "pha", "ha " (0.25 each); "beta" 1 word and 4 triples,
        // "gamma" 1 word and 5 triples. Squared lengths: "alpha beta" 2 words, 1 pair (0.25), 9 triples:
        // 2 + 10 × 0.0625 = 2.625; "alpha gamma" 2 + 1 pair and 10 triples: 2 + 11 × 0.0625 = 2.6875.
        // In common: "alpha" and its 5 triples: 1 + 5 × 0.0625 = 1.3125. The last triples of "beta" and "gamma", "ta " and
        // "ma ", differ. Similarity: 1.3125 / √(2.625 × 2.6875) = 1.3125 / 2.656066 = 0.494152.
        assert_eq!(format!("{:.4}", of("Alpha beta.", "alpha gamma")), "0.5058");
        // A short word weighs 0.25: "of" has it and the triples " of", "of ". "alpha of" against "alpha":
        // 1.3125 / √((1.3125 + (1 word, 2 triples, 1 pair) × 0.0625) × 1.3125) = √(1.3125 / 1.5625) = 0.916515.
        assert_eq!(format!("{:.4}", of("alpha of", "alpha")), "0.0835");
        assert_eq!((of("alpha", "alpha!"), of("alpha", "kiwi")), (0.0, 1.0));
        assert_eq!([novelty(["alpha"], []), novelty([], ["alpha"])], [None, None]);
    }

    #[test]
    fn the_closest_pair_counts() {
        let new = [("one thing", 3), ("alpha beta", 3)];
        let (text, place, _) = closest(&new, &["other", "alpha beta gamma", "beta alpha"]).unwrap();
        assert_eq!((text, place), ("alpha beta", 2));
        assert_eq!(novelty(["one thing", "alpha beta"], ["other", "ALPHA, beta"]), Some(0.0));
    }

    #[test]
    fn a_claim_that_is_reworded_is_not_new() {
        let claim = "PagedAttention wastes under 4% of the memory of the key-value cache.";
        for (reworded, most) in [
            ("Under 4 % of the key-value cache's memory is wasted by PagedAttention.", 0.3),
            ("Of the memory of the key-value cache, PagedAttention wastes under 4%.", 0.1),
            ("PagedAttention is wasting less than 4% of the key-value cache memory!", 0.4),
        ] {
            assert!(of(reworded, claim) < most, "{reworded}: {}", of(reworded, claim));
        }
        assert!(of("Speculative decoding drafts several tokens with a small model.", claim) > 0.8);
    }

    proptest! {
        #[test]
        fn novelty_is_within_0_and_1_symmetric_and_falls_with_history(
            a in "\\PC{0,60}", b in "\\PC{0,60}", c in "\\PC{0,60}",
        ) {
            let (one, other) = (of(&a, &b), of(&b, &a));
            prop_assert!((0.0..=1.0).contains(&one) && one.is_sign_positive());
            prop_assert!((one - other).abs() < 1e-12);
            let both = novelty([a.as_str()], [b.as_str(), c.as_str()]).unwrap();
            prop_assert!(both <= one);
        }
    }
}
