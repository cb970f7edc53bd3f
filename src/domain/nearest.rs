//! What somebody meant who misspelt a name.

/// How alike two names must be to be taken for one another, from 0 to 1.
const ALIKE: f64 = 0.8;

/// The fewest letters that a name is known by when it is only a part of another one.
const FEWEST_LETTERS: usize = 3;

/// The one of some names that is most like `word`; `None` where none is like it. One that holds `word` as a part is like it.
pub fn nearest<T: AsRef<str>>(word: &str, names: impl IntoIterator<Item = T>) -> Option<T> {
    let word = word.to_lowercase();
    let likeness = |name: &str| {
        let is_part = word.len() >= FEWEST_LETTERS && name.contains(&word);
        strsim::jaro_winkler(&word, name).max(if is_part { ALIKE } else { 0.0 })
    };
    names
        .into_iter()
        .map(|name| (likeness(&name.as_ref().to_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        // The first one of those that are equally like it.
        .reduce(|best, other| if other.0 > best.0 { other } else { best })
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_and_shortened_names_are_known_and_strange_ones_are_not() {
        let nearest = |word| nearest(word, ["status", "stop", "claude", "val_bpb", "val_loss", "metric"]);
        for (word, meant) in [
            ("statsu", "status"),
            ("claud", "claude"),
            ("Claude", "claude"),
            ("metrik", "metric"),
            ("val_bp", "val_bpb"),
            ("loss", "val_loss"),
            ("bpb", "val_bpb"),
        ] {
            assert_eq!(nearest(word), Some(meant), "{word}");
        }
        for word in ["", "xyzzy", "t", "accuracy"] {
            assert_eq!(nearest(word), None, "{word}");
        }
    }
}
