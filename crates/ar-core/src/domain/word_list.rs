//! Texts and lists of words in files beside the modules that use them.

use std::sync::LazyLock;

/// The words or phrases of a text file, one a line, in its order.
pub type WordList = LazyLock<Vec<&'static str>>;

/// Reads a list.
pub fn word_list(text: &'static str) -> Vec<&'static str> {
    text.lines().collect()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the lists of all crates are files")]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::{fs, io};

    /// The text files in the folders `lists` below a folder.
    fn lists(folder: &Path, found: &mut Vec<String>) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                lists(&path, found)?;
            } else if folder.ends_with("lists") {
                found.push(fs::read_to_string(path)?);
            }
        }
        Ok(())
    }

    #[test]
    fn lists_have_a_word_a_line_and_none_twice() {
        let mut found = Vec::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for sources in ["src", "crates"] {
            lists(&root.join(sources), &mut found).unwrap();
        }
        assert!(found.len() > 20);
        for text in found {
            let words: Vec<&str> = text.lines().collect();
            assert!(
                text.ends_with('\n') && words.iter().all(|word| !word.is_empty() && word.trim() == *word),
                "{text}"
            );
            assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len(), "{text}");
        }
    }
}
