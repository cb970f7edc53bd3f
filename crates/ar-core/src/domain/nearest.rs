//! Suggestions for misspelt names.

/// The least similarity of a suggestion, from 0 to 1.
const ALIKE: f64 = 0.8;

/// The fewest letters of a word that may match a part of a longer name.
const FEWEST_LETTERS: usize = 3;

/// The likeness of a name with two neighbouring letters swapped.
const SWAPPED: f64 = 0.95;

/// The name most similar to `word`, if any is similar enough. A name that contains `word` is, and one of which `word` has two
/// neighbouring letters swapped.
pub fn nearest<T: AsRef<str>>(word: &str, names: impl IntoIterator<Item = T>) -> Option<T> {
    let word = word.to_lowercase();
    let likeness = |name: &str| {
        let is_part = word.len() >= FEWEST_LETTERS && name.contains(&word);
        let by_form = if is_swapped(&word, name) {
            SWAPPED
        } else if is_part {
            ALIKE
        } else {
            0.0
        };
        strsim::jaro_winkler(&word, name).max(by_form)
    };
    names
        .into_iter()
        .map(|name| (likeness(&name.as_ref().to_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        // The first of equally similar names.
        .reduce(|best, other| if other.0 > best.0 { other } else { best })
        .map(|(_, name)| name)
}

/// Returns whether two words differ only by a swap of two neighbouring letters.
fn is_swapped(a: &str, b: &str) -> bool {
    a.len() == b.len() && strsim::levenshtein(a, b) == 2 && strsim::osa_distance(a, b) == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_and_shortened_names_are_known_and_strange_ones_are_not() {
        let nearest = |word| nearest(word, ["status", "stop", "claude", "val_bpb", "val_loss", "metric", "run", "log"]);
        for (word, meant) in [
            ("statsu", "status"),
            ("rnu", "run"),
            ("urn", "run"),
            ("lgo", "log"),
            ("tsop", "stop"),
            ("claud", "claude"),
            ("Claude", "claude"),
            ("metrik", "metric"),
            ("val_bp", "val_bpb"),
            ("loss", "val_loss"),
            ("bpb", "val_bpb"),
        ] {
            assert_eq!(nearest(word), Some(meant), "{word}");
        }
        for word in ["", "xyzzy", "t", "accuracy", "nur", "gol"] {
            assert_eq!(nearest(word), None, "{word}");
        }
    }
}
