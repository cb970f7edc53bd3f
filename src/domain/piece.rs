//! Texts that are pieces of one that they share.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use serde::{Serialize, Serializer};

/// A text that is a piece of a longer one, such as a cell of a file. Neither making nor copying one takes memory; the longer
/// text stays as long as there is any piece of it.
#[derive(Clone)]
pub struct Piece {
    whole: Arc<String>,
    start: u32,
    length: u32,
}

/// What a piece of nothing is of.
static NOTHING: LazyLock<Arc<String>> = LazyLock::new(Arc::default);

impl Piece {
    /// The piece of `whole` that `text` is, where it lies within the first 4 GiB of it; else a copy of `text`.
    pub fn of(whole: &Arc<String>, text: &str) -> Piece {
        let start = (text.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
        if start <= whole.len()
            && whole.len() - start >= text.len()
            && let (Ok(start), Ok(length)) = (u32::try_from(start), u32::try_from(text.len()))
        {
            return Piece { whole: Arc::clone(whole), start, length };
        }
        Piece::from(text.to_owned())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        let start = self.start as usize;
        self.whole.get(start..start + self.length as usize).unwrap_or_default()
    }
}

impl From<String> for Piece {
    fn from(text: String) -> Piece {
        Piece { start: 0, length: u32::try_from(text.len()).unwrap_or(u32::MAX), whole: Arc::new(text) }
    }
}

impl From<&str> for Piece {
    fn from(text: &str) -> Piece {
        text.to_owned().into()
    }
}

impl Default for Piece {
    fn default() -> Piece {
        Piece { whole: Arc::clone(&NOTHING), start: 0, length: 0 }
    }
}

impl Deref for Piece {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Piece {
    fn eq(&self, other: &Piece) -> bool {
        self.as_str() == other.as_str()
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Piece {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_shared_where_it_is_one_and_copied_where_it_is_none() {
        let whole = Arc::new("one\ttwo\té".to_owned());
        let cells: Vec<Piece> = whole.split('\t').map(|cell| Piece::of(&whole, cell)).collect();
        assert_eq!(cells.iter().map(Piece::as_str).collect::<Vec<_>>(), ["one", "two", "é"]);
        assert_eq!(Arc::strong_count(&whole), 4);
        let copied = Piece::of(&whole, "two");
        assert_eq!((copied == cells[1], Arc::strong_count(&whole)), (true, 4));
        let ends = [&whole[..0], &whole[whole.len()..], ""].map(|end| Piece::of(&whole, end));
        assert!(ends.iter().all(|end| *end == Piece::default()));
        assert_eq!((cells[2].to_string(), cells[0].len()), ("é".to_owned(), 3));
    }
}
