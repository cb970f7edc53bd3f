//! Citations: `[@id]`, or `[@id "a quotation"]`.

/// A citation of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Citation {
    /// The source's id as it is written.
    pub id: String,
    /// What the source says, as the claim quotes it.
    pub quotation: Option<String>,
    /// The line, from 1.
    pub line: usize,
}

/// What begins with `[@`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cited {
    /// An id, and a quotation if there is one.
    Source(String, Option<String>),
    /// Something else, with what is wrong.
    Malformed(String),
}

/// Marks that open a quotation, and those that close one.
const OPENING: [char; 4] = ['"', '“', '„', '«'];
const CLOSING: [char; 4] = ['"', '”', '“', '»'];

/// Parts a text: without its citations, and these in order.
pub(super) fn citations(text: &str) -> (String, Vec<Cited>) {
    let (mut without, mut found, mut rest) = (String::new(), Vec::new(), text);
    while let Some(at) = rest.find("[@") {
        without.push_str(&rest[..at]);
        let (cited, length) = citation(&rest[at + 2..]);
        found.push(cited);
        rest = &rest[at + 2 + length..];
    }
    without.push_str(rest);
    (without, found)
}

/// Reads what follows `[@`, and how many bytes of it belong to the citation.
fn citation(text: &str) -> (Cited, usize) {
    let is_of_id = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '+');
    let id = &text[..text.find(|c| !is_of_id(c)).unwrap_or(text.len())];
    let after = text[id.len()..].trim_start();
    let start = text.len() - after.len();
    // To the next bracket, so that the rest of the claim is still read.
    let malformed = |what: &str| {
        let length = text.find(']').map_or(text.len(), |end| end + 1);
        (Cited::Malformed(format!("`[@{}`: {what}", text[..length].trim_end())), length)
    };
    if id.is_empty() {
        return malformed("a citation needs an id, as in [@kwon2023]");
    }
    if after.starts_with(']') {
        return (Cited::Source(id.to_owned(), None), start + 1);
    }
    let Some(quoted) = after.strip_prefix(OPENING) else {
        return malformed("write one source a bracket, as in [@kwon2023 \"a quotation\"]");
    };
    let opening = after.len() - quoted.len();
    let end = quoted.match_indices(']').find_map(|(at, _)| {
        let quotation = quoted[..at].trim_end().strip_suffix(CLOSING)?;
        Some((quotation.trim(), start + opening + at + 1))
    });
    match end {
        None => malformed("its quotation does not end with a quotation mark and a bracket"),
        Some((quotation, _)) if !quotation.contains(char::is_alphanumeric) => malformed("its quotation is empty"),
        Some((quotation, length)) => (Cited::Source(id.to_owned(), Some(quotation.to_owned())), length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(id: &str, quotation: Option<&str>) -> Cited {
        Cited::Source(id.into(), quotation.map(str::to_owned))
    }

    #[test]
    fn citations_are_parted_from_the_text() {
        let text = "It wastes under 4 %. [@kwon2023 \"waste of under 4%\"] [@other] Yes.";
        let (without, found) = citations(text);
        assert_eq!(without, "It wastes under 4 %.   Yes.");
        assert_eq!(found, [source("kwon2023", Some("waste of under 4%")), source("other", None)]);
        let marks =
            ["[@a “so [3] it says”]", "[@a „so [3] it says“ ]", "[@a  «so [3] it says»]", "[@a \"so [3] it says\"]"];
        for text in marks {
            assert_eq!(citations(text), (String::new(), vec![source("a", Some("so [3] it says"))]), "{text}");
        }
        assert_eq!(citations("[@a \"he said \"no\" twice\"]").1, [source("a", Some("he said \"no\" twice"))]);
        assert_eq!(citations("none [here] (@a)").1, []);
    }

    #[test]
    fn what_is_no_citation_is_named() {
        for (text, what) in [
            ("[@]", "`[@]`: a citation needs an id, as in [@kwon2023]"),
            ("[@ a]", "`[@ a]`: a citation needs an id, as in [@kwon2023]"),
            ("[@a; @b] x", "`[@a; @b]`: write one source a bracket, as in [@kwon2023 \"a quotation\"]"),
            ("[@a \"open] x", "`[@a \"open]`: its quotation does not end with a quotation mark and a bracket"),
            ("[@a \"\"]", "`[@a \"\"]`: its quotation is empty"),
            ("[@a", "`[@a`: write one source a bracket, as in [@kwon2023 \"a quotation\"]"),
        ] {
            assert_eq!(citations(text).1, [Cited::Malformed(what.into())], "{text}");
        }
    }
}
