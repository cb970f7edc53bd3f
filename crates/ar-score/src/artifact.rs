//! The artifact: Markdown with a section for each sub-topic, a claim in each list item, and its citations, `[@id]` or `[@id
//! "a quotation"]`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, Parser, Tag, TagEnd};
use serde::Serialize;

use ar_core::domain::{cut, one_line};

use super::text::key;

/// A claim of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The place of its sub-topic in the list of all.
    pub topic: usize,
    /// Its text without citations.
    pub text: String,
    /// Its words: claims with equal keys are the same.
    pub key: String,
    /// Its citations, in order.
    pub citations: Vec<Citation>,
    /// True if all of its citations are well-formed.
    pub is_sound: bool,
    /// The line that it begins on, from 1.
    pub line: usize,
}

/// The claims of an artifact.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Artifact {
    /// Its claims in order; equal ones are one, with the citations of all.
    pub claims: Vec<Claim>,
    /// The malformed parts.
    pub problems: Vec<Problem>,
    /// The places of the sub-topics that it has a heading for.
    pub headed: BTreeSet<usize>,
}

/// A list item while it is read.
struct Item {
    range: Range<usize>,
    text: String,
    topic: Option<usize>,
}

impl Artifact {
    /// Reads an artifact. A claim is a list item below a heading that names one of `topics`, in whatever case and spacing;
    /// headings of a lower level leave the sub-topic as it is.
    pub fn read(file: &str, markdown: &str, topics: &[String]) -> Artifact {
        let known: BTreeMap<String, usize> =
            topics.iter().enumerate().map(|(n, topic)| (topic_key(topic), n)).collect();
        let (markdown, cited) = lift(markdown);
        let ends = memchr::memchr_iter(b'\n', markdown.as_bytes()).collect();
        let mut read = Reading { file, ends, cited, claims: Vec::new(), problems: Vec::new() };
        // The headings above the current place, each with the sub-topic that it names.
        let mut headings: Vec<(HeadingLevel, Option<usize>)> = Vec::new();
        let mut headed = BTreeSet::new();
        let mut heading: Option<String> = None;
        let mut items: Vec<Item> = Vec::new();
        let (mut is_code, mut images) = (false, 0_u32);
        for (event, range) in Parser::new(&markdown).into_offset_iter() {
            match event {
                Event::Start(Tag::Heading { .. }) if items.is_empty() => heading = Some(String::new()),
                Event::End(TagEnd::Heading(level)) => {
                    if let Some(text) = heading.take() {
                        headings.retain(|(above, _)| *above < level);
                        let topic = known.get(&folded(&text)).copied();
                        headed.extend(topic);
                        headings.push((level, topic));
                    }
                }
                Event::Start(Tag::Item) => {
                    let topic = headings.iter().rev().find_map(|(_, topic)| *topic);
                    items.push(Item { range, text: String::new(), topic });
                }
                Event::End(TagEnd::Item) => {
                    if let Some(item) = items.pop() {
                        read.take(item);
                    }
                }
                Event::Start(Tag::CodeBlock(_)) => is_code = true,
                Event::End(TagEnd::CodeBlock) => is_code = false,
                // The alternative text of an image does not count as text.
                Event::Start(Tag::Image { .. }) => images += 1,
                Event::End(TagEnd::Image) => images -= 1,
                Event::Text(text) | Event::Code(text) if !is_code && images == 0 => {
                    if let Some(into) = heading.as_mut().or(items.last_mut().map(|item| &mut item.text)) {
                        into.push_str(&text);
                    }
                }
                Event::SoftBreak | Event::HardBreak | Event::End(TagEnd::Paragraph) => {
                    if let Some(into) = heading.as_mut().or(items.last_mut().map(|item| &mut item.text)) {
                        into.push(' ');
                    }
                }
                _ => {}
            }
        }
        Artifact { headed, ..read.finish() }
    }
}

/// The state of reading an artifact.
struct Reading<'a> {
    file: &'a str,
    /// Byte offsets of the line ends in the text.
    ends: Vec<usize>,
    /// The citations that marks in the text stand for, each with its line.
    cited: Vec<(Cited, usize)>,
    claims: Vec<Claim>,
    problems: Vec<Problem>,
}

impl Reading<'_> {
    /// Takes a list item to its end.
    fn take(&mut self, Item { range, text, topic }: Item) {
        let (text, places) = part(&text);
        let (text, line) = (one_line(&text), self.line_at(range.start));
        let Some(topic) = topic else {
            if !places.is_empty() {
                self.say(line, "this item cites sources, but stands below no heading that names a sub-topic");
            }
            return;
        };
        let mut claim = Claim { topic, key: key(&text), text, citations: Vec::new(), is_sound: true, line };
        for place in places {
            match self.cited.get(place).cloned() {
                Some((Cited::Source(id, quotation), line)) => claim.citations.push(Citation { id, quotation, line }),
                Some((Cited::Malformed(what), line)) => {
                    claim.is_sound = false;
                    self.say(line, cut(&what, 200));
                }
                None => {}
            }
        }
        if claim.key.is_empty() {
            if !claim.citations.is_empty() || !claim.is_sound {
                self.say(line, "this item cites sources, but claims nothing");
            }
            return;
        }
        self.claims.push(claim);
    }

    /// The number of the line at a byte of the text, from 1.
    fn line_at(&self, at: usize) -> usize {
        self.ends.partition_point(|end| *end < at) + 1
    }

    fn say(&mut self, line: usize, what: impl Into<String>) {
        self.problems.push(Problem::at(self.file, line, what));
    }

    fn finish(mut self) -> Artifact {
        // An item ends after those in it.
        self.claims.sort_by_key(|claim| claim.line);
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        let mut claims: Vec<Claim> = Vec::new();
        for claim in self.claims {
            match places.get(&claim.key) {
                Some(place) => {
                    let first = &mut claims[*place];
                    first.is_sound &= claim.is_sound;
                    first.citations.extend(claim.citations);
                }
                None => {
                    places.insert(claim.key.clone(), claims.len());
                    claims.push(claim);
                }
            }
        }
        self.problems.sort();
        Artifact { claims, problems: self.problems, headed: BTreeSet::new() }
    }
}

/// A sub-topic as headings are compared with it.
pub(super) fn topic_key(topic: &str) -> String {
    let markdown = format!("## {}", one_line(topic));
    let texts = Parser::new(&markdown).filter_map(|event| match event {
        Event::Text(text) | Event::Code(text) => Some(text.into_string()),
        _ => None,
    });
    folded(&texts.collect::<String>())
}

/// A text without case and spacing.
fn folded(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect()
}

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
fn lift(markdown: &str) -> (String, Vec<(Cited, usize)>) {
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

/// Something that is not as it must be, with its place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// The file, relative to the repository's root.
    pub file: String,
    /// The line, from 1; 1 for what concerns the whole file.
    pub line: usize,
    /// A sentence without its first capital and its full stop.
    pub what: String,
}

impl Problem {
    /// A problem on a line of a file.
    pub fn at(file: &str, line: usize, what: impl Into<String>) -> Problem {
        Problem { file: file.to_owned(), line, what: what.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact_template;

    fn topics(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn read(markdown: &str) -> Artifact {
        Artifact::read("a.md", markdown, &topics(&["Memory use", "C++"]))
    }

    #[test]
    fn claims_are_list_items_below_the_headings_of_sub_topics() {
        let artifact = read(
            "# Question\n- before all\n\n## memory  USE\nText with [@a].\n- **One** claim. [@a \"x y\"]\n  [@b]\n\n### Detail\n\
             1. `Two` <!-- hidden -->![not shown](x.png) claims\n\n   in paragraphs [@c]\n   - nested [@d]\n\n```\n- code\n```\n## Other\n- elsewhere\n\
             ## c++\n* three\n",
        );
        let told: Vec<_> = artifact
            .claims
            .iter()
            .map(|claim| {
                let ids: Vec<_> = claim.citations.iter().map(|it| format!("{}@{}", it.id, it.line)).collect();
                (claim.topic, claim.line, claim.text.as_str(), ids.join(" "))
            })
            .collect();
        let expected = [
            (0, 6, "One claim.", "a@6 b@7"),
            (0, 10, "Two  claims in paragraphs", "c@12"),
            (0, 13, "nested", "d@13"),
            (1, 21, "three", ""),
        ];
        assert_eq!(told, expected.map(|(topic, line, text, ids)| (topic, line, text, ids.to_owned())));
        assert_eq!(artifact.claims[0].citations[0].quotation.as_deref(), Some("x y"));
        assert_eq!(artifact.problems, []);
    }

    #[test]
    fn a_quotation_says_what_is_written_whatever_markdown_makes_of_it() {
        let artifact =
            read("## C++\n- It *is* <b>fast</b>. [@a \"the <unk> token with *stars* & \\_\"](http://x) Yes.\n");
        let claim = &artifact.claims[0];
        assert_eq!(claim.text, "It is fast. (http://x) Yes.");
        assert_eq!(claim.citations[0].quotation.as_deref(), Some("the <unk> token with *stars* & \\_"));
        assert_eq!(artifact.problems, []);
    }

    #[test]
    fn equal_claims_are_one_with_the_citations_of_all() {
        let artifact = read("## C++\n- It is fast. [@a]\n## Memory use\n- it IS fast! [@b]\n- [@a; b] it is slow\n");
        let told: Vec<_> = artifact.claims.iter().map(|it| (it.topic, it.key.as_str(), it.citations.len())).collect();
        assert_eq!(told, [(1, "it is fast", 2), (0, "it is slow", 0)]);
        assert!(artifact.claims[0].is_sound && !artifact.claims[1].is_sound);
    }

    #[test]
    fn what_is_malformed_is_named_with_its_line() {
        let artifact = read("- lost [@a]\n\n## Memory use\n- ok\n  and [@]\n- [@a]\n- \n");
        let lines: Vec<_> = artifact.problems.iter().map(|problem| (problem.line, problem.what.as_str())).collect();
        let expected = [
            (1, "this item cites sources, but stands below no heading that names a sub-topic"),
            (5, "`[@]`: a citation needs an id, as in [@kwon2023]"),
            (6, "this item cites sources, but claims nothing"),
        ];
        assert_eq!(lines, expected);
        assert!(artifact.problems.iter().all(|problem| problem.file == "a.md"));
    }

    #[test]
    fn a_template_has_the_headings_that_are_looked_for() {
        let names = topics(&["C#", "*Speed* and `cost`", "  a\nb ", "1. First"]);
        let claims = artifact_template("What?\nAnd why?", &names);
        assert_eq!(claims.lines().next(), Some("# What? And why?"));
        let claims = claims.replace("\n## ", "\n- filler\n\n## ") + "- filler\n";
        let claims: String = claims
            .lines()
            .enumerate()
            .map(|(n, line)| format!("{}\n", line.replace("filler", &format!("claim {n}"))))
            .collect();
        let found: Vec<_> = Artifact::read("a.md", &claims, &names).claims.iter().map(|claim| claim.topic).collect();
        assert_eq!(found, [0, 1, 2, 3], "{claims}");
    }

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
