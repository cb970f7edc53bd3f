//! Citations: `[@id]`, or `[@id "a quotation"]`.

/// A citation of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Citation {
    /// The source's id as it is written.
    pub id: String,
    /// The text that the claim quotes from the source.
    pub quotation: Option<String>,
    /// The line, from 1.
    pub line: usize,
}

/// A part of a text that begins with `[@`.
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

/// Characters around the index that replaces a citation in a text; no text uses them.
const MARK: (char, char) = ('\u{E000}', '\u{E001}');

/// A character put on each later line of a citation, so that none of these lines is blank.
const FILLER: char = '\u{E002}';

/// Puts marks in the places of the citations of a Markdown text, before Markdown changes what they say. Gives the citations in
/// order, each with its line, from 1.
pub(super) fn lift(markdown: &str) -> (String, Vec<(Cited, usize)>) {
    let (mut marked, mut found) = (String::with_capacity(markdown.len()), Vec::new());
    let (mut at, mut line, mut block) = (0, 1, 0);
    while let Some(next) = markdown[at..].find("[@") {
        let start = at + next;
        if block <= start {
            block = start + block_length(&markdown[start..]);
        }
        let (cited, length) = citation(&markdown[start + 2..block.max(start + 2)]);
        let end = start + 2 + length;
        marked.push_str(&markdown[at..start]);
        marked.push_str(&format!("{}{}{}", MARK.0, found.len(), MARK.1));
        line += count_lines(&markdown[at..start]);
        found.push((cited, line));
        for more in markdown[start..end].split('\n').skip(1) {
            let indent = &more[..more.len() - more.trim_start().len()];
            marked.push_str(&format!("\n{indent}{FILLER}"));
        }
        line += count_lines(&markdown[start..end]);
        at = end;
    }
    marked.push_str(&markdown[at..]);
    (marked, found)
}

/// Parts a text with marks: the text without them, and the places of the citations in it, in order.
pub(super) fn part(text: &str) -> (String, Vec<usize>) {
    let (mut without, mut places) = (String::new(), Vec::<usize>::new());
    for (n, piece) in text.split(MARK.0).enumerate() {
        let mark = piece.split_once(MARK.1).filter(|_| n > 0);
        let place: Option<usize> = mark.and_then(|(place, _)| place.parse().ok());
        places.extend(place);
        let rest = mark.filter(|_| place.is_some()).map_or(piece, |(_, rest)| rest);
        without.extend(rest.chars().filter(|c| *c != FILLER));
    }
    (without, places)
}

fn count_lines(text: &str) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes()).count()
}

/// Returns the number of bytes before a blank line, a heading, a fence or the next list item. A citation ends there at the
/// latest.
fn block_length(text: &str) -> usize {
    let begins_block = |line: &str| {
        let line = line.trim_start();
        let unnumbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_numbered = unnumbered.len() < line.len() && unnumbered.starts_with(['.', ')']);
        line.is_empty() || is_numbered || ["#", "```", "- ", "* ", "+ "].iter().any(|mark| line.starts_with(mark))
    };
    let ends = |(at, _): &(usize, &str)| begins_block(text[at + 1..].lines().next().unwrap_or_default());
    text.match_indices('\n').find(ends).map_or(text.len(), |(at, _)| at)
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
        return malformed("write an id, and after it a quotation or nothing: [@kwon2023 \"a quotation\"] [@other]");
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

    /// The text without its citations, and these.
    fn citations(text: &str) -> (String, Vec<Cited>) {
        let (marked, found) = lift(text);
        let (without, places) = part(&marked);
        assert_eq!(places, (0..found.len()).collect::<Vec<_>>());
        (without, found.into_iter().map(|(cited, _)| cited).collect())
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
        let odd = format!("{}7{} {}x", MARK.0, MARK.1, MARK.0);
        assert_eq!(part(&odd), (" x".to_owned(), vec![7]), "who writes marks cites what is there, or nothing");
    }

    #[test]
    fn a_citation_ends_with_its_block_and_has_its_line() {
        let (marked, found) = lift("- a [@x \"one\n  two\"] b\n- [@y \"open\n- [@z]\n\nend\n");
        let told: Vec<_> = found.iter().map(|(cited, line)| (matches!(cited, Cited::Source(..)), *line)).collect();
        assert_eq!(told, [(true, 1), (false, 3), (true, 4)]);
        assert_eq!(found[0].0, source("x", Some("one\n  two")));
        assert_eq!(marked.lines().count(), 6, "{marked:?}");
        assert_eq!(part(&marked).0, "- a \n   b\n- \n- \n\nend\n");
    }

    #[test]
    fn what_is_no_citation_is_named() {
        for (text, what) in [
            ("[@]", "`[@]`: a citation needs an id, as in [@kwon2023]"),
            ("[@ a]", "`[@ a]`: a citation needs an id, as in [@kwon2023]"),
            (
                "[@a; @b] x",
                "`[@a; @b]`: write an id, and after it a quotation or nothing: [@kwon2023 \"a quotation\"] [@other]",
            ),
            ("[@a \"open] x", "`[@a \"open]`: its quotation does not end with a quotation mark and a bracket"),
            ("[@a \"\"]", "`[@a \"\"]`: its quotation is empty"),
            (
                "[@a 'single']",
                "`[@a 'single']`: write an id, and after it a quotation or nothing: [@kwon2023 \"a quotation\"] [@other]",
            ),
        ] {
            assert_eq!(citations(text).1, [Cited::Malformed(what.into())], "{text}");
        }
    }
}
