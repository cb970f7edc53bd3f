//! The stored sources of an artifact, and which quotations stand in which of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use aho_corasick::AhoCorasick;
use sha2::{Digest, Sha256};

use super::artifact::Claim;
use super::citation::Citation;
use super::problem::Problem;
use super::scoring::{Judged, Request};
use super::source::{FrontMatter, Source, source_id};
use super::text::normal;
use ar_core::domain::list;

/// The files of sources, by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// The files to read, each with its id.
    pub files: Vec<(String, PathBuf)>,
    /// The ids that several files have.
    doubled: BTreeSet<String>,
    problems: Vec<Problem>,
}

impl Catalogue {
    /// Orders the files of a folder and the folders in it. Files that are equal but for case, or lie in several folders, are
    /// several sources of one id, and none of them can be cited.
    pub fn of(paths: impl IntoIterator<Item = PathBuf>) -> Catalogue {
        let mut by_id: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for path in paths {
            if let Some(id) = source_id(&path) {
                by_id.entry(id).or_default().push(path);
            }
        }
        let mut catalogue = Catalogue::default();
        for (id, mut paths) in by_id {
            match paths.as_mut_slice() {
                [_] => catalogue.files.extend(paths.pop().map(|path| (id, path))),
                several => {
                    several.sort();
                    let what = format!("several sources have the id {id}: {}", list(several));
                    catalogue.problems.push(Problem::at(&several[0].to_string_lossy(), 1, what));
                    catalogue.doubled.insert(id);
                }
            }
        }
        catalogue
    }
}

/// The sources that were read. Of their texts it keeps only which quotations they hold.
#[derive(Debug, Default)]
pub struct Library {
    sources: BTreeMap<String, (PathBuf, FrontMatter)>,
    /// The source that each copy of one is a copy of, by id.
    copies: BTreeMap<String, String>,
    /// The first source with some content, by its hash.
    contents: BTreeMap<[u8; 32], String>,
    /// The ids of unusable files.
    broken: BTreeSet<String>,
    /// The normal form of each quotation.
    quotations: Vec<String>,
    searcher: Option<AhoCorasick>,
    /// Which quotation, by its place, stands in which sources.
    found: Vec<BTreeSet<String>>,
    /// Problems with sources.
    pub problems: Vec<Problem>,
}

impl Library {
    /// A library without sources yet, in which these quotations are going to be looked for.
    pub fn new<'a>(catalogue: &Catalogue, quotations: impl IntoIterator<Item = &'a str>) -> Library {
        let quotations: BTreeSet<String> = quotations.into_iter().map(normal).collect();
        let quotations: Vec<String> = quotations.into_iter().collect();
        Library {
            broken: catalogue.doubled.clone(),
            problems: catalogue.problems.clone(),
            found: vec![BTreeSet::new(); quotations.len()],
            // More patterns than it takes do not stand in an artifact that is read.
            searcher: AhoCorasick::new(&quotations).ok(),
            quotations,
            ..Library::default()
        }
    }

    /// Reads a file of the catalogue.
    pub fn add(&mut self, id: &str, path: &Path, bytes: &[u8]) {
        match Source::read(&path.to_string_lossy(), bytes, &mut self.problems) {
            Ok(Source { front, text }) => {
                self.search(id, &text);
                let first = self.contents.entry(Sha256::digest(bytes).into()).or_insert_with(|| id.to_owned());
                if *first != id {
                    self.copies.insert(id.to_owned(), first.clone());
                    let what = format!("it is a copy of [@{first}], and counts as that one");
                    self.problems.push(Problem::at(&path.to_string_lossy(), 1, what));
                }
                self.sources.insert(id.to_owned(), (path.to_owned(), front));
            }
            Err(problem) => {
                self.broken.insert(id.to_owned());
                self.problems.push(problem);
            }
        }
    }

    /// Notes a file of the catalogue that cannot be read, and why.
    pub fn leave_out(&mut self, id: &str, path: &Path, why: impl Into<String>) {
        self.broken.insert(id.to_owned());
        self.problems.push(Problem::at(&path.to_string_lossy(), 1, why));
    }

    fn search(&mut self, id: &str, text: &str) {
        // An excerpt over several lines has a mark of its own on each.
        let lines: Vec<&str> = text.lines().map(|line| line.trim_start().trim_start_matches('>')).collect();
        let text = normal(&lines.join("\n"));
        let hits = self.searcher.iter().flat_map(|searcher| searcher.find_overlapping_iter(&text));
        for hit in hits.filter(|hit| stands_alone(&text, hit.range())) {
            let found = &mut self.found[hit.pattern().as_usize()];
            if !found.contains(id) {
                found.insert(id.to_owned());
            }
        }
    }

    /// The source of an id, as it is written in a citation.
    pub fn source(&self, id: &str) -> Option<(&Path, &FrontMatter)> {
        self.sources.get(&id.to_lowercase()).map(|(path, front)| (path.as_path(), front))
    }

    /// The ids of all that is stored, usable or not, in lower case.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.sources.keys().chain(&self.broken).map(String::as_str)
    }

    /// The id under which a source counts, in lower case; a copy counts as the first source with its content. `None` if there
    /// is no such source.
    pub fn counts_as(&self, id: &str) -> Option<&str> {
        let (id, _) = self.sources.get_key_value(&id.to_lowercase())?;
        Some(self.copies.get(id).unwrap_or(id))
    }

    /// Returns whether a claim is well-formed and all of its citations lead to sources.
    pub fn resolves(&self, claim: &Claim) -> bool {
        claim.is_sound && claim.citations.iter().all(|citation| self.source(&citation.id).is_some())
    }

    /// Judges a claim by its quotations, or by what the `verify` command said.
    pub fn judge(&self, claim: &Claim, verdicts: Option<&BTreeMap<Request, bool>>) -> Judged {
        let supports = |citation: &&Citation| match verdicts {
            Some(verdicts) => verdicts.get(&Request::of(claim, citation)).is_some_and(|verdict| *verdict),
            None => citation.quotation.as_deref().is_some_and(|quotation| self.holds(&citation.id, quotation)),
        };
        let supporting = claim.citations.iter().filter(supports).filter_map(|it| self.counts_as(&it.id));
        let supporting: Vec<String> = supporting.map(str::to_owned).collect();
        Judged { is_verified: !supporting.is_empty() && self.resolves(claim), supporting }
    }

    /// Returns whether a source of that id exists but is unusable.
    pub fn is_broken(&self, id: &str) -> bool {
        self.broken.contains(&id.to_lowercase())
    }

    /// The sources that hold a quotation.
    pub fn holding(&self, quotation: &str) -> impl Iterator<Item = &str> {
        let place = self.quotations.binary_search(&normal(quotation)).ok();
        place.into_iter().flat_map(|place| self.found[place].iter().map(String::as_str))
    }

    /// Returns whether a source contains a quotation.
    pub fn holds(&self, id: &str, quotation: &str) -> bool {
        let id = id.to_lowercase();
        self.holding(quotation).any(|holding| holding == id)
    }
}

/// Returns whether a part of a text begins and ends with whole words and numbers, in scripts that have spaces between them.
fn stands_alone(text: &str, part: Range<usize>) -> bool {
    /// Latin, Greek and Cyrillic letters come before this.
    const OTHER_SCRIPTS: char = '\u{530}';
    let is_of_word = |c: &char| *c < OTHER_SCRIPTS && c.is_alphanumeric();
    let (before, within, after) = (&text[..part.start], &text[part.clone()], &text[part.end..]);
    let is_cut = |outer: &mut dyn Iterator<Item = char>, inner: Option<char>| {
        let Some(inner) = inner.filter(is_of_word) else { return false };
        let next = outer.next();
        // The rest of a number stands beyond its point.
        let is_point = inner.is_ascii_digit() && matches!(next, Some('.' | ','));
        next.is_some_and(|c| is_of_word(&c)) || is_point && outer.next().is_some_and(|c| c.is_ascii_digit())
    };
    !is_cut(&mut before.chars().rev(), within.chars().next()) && !is_cut(&mut after.chars(), within.chars().next_back())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(files: &[(&str, &str)], quotations: &[&str]) -> Library {
        let catalogue = Catalogue::of(files.iter().map(|(path, _)| PathBuf::from(path)));
        let mut library = Library::new(&catalogue, quotations.iter().copied());
        for (id, path) in &catalogue.files {
            let (_, text) = files.iter().find(|(known, _)| Path::new(known) == path).unwrap();
            library.add(id, path, format!("---\nurl: u\ntitle: t\n---\n{text}").as_bytes());
        }
        library
    }

    #[test]
    fn quotations_are_found_whatever_their_whitespace_case_and_marks() {
        let text = "The “waste”\nis UNDER  4%.\n> It holds\n> for all.";
        let quotations = ["\"waste\" is under 4%", "waste", "it holds for all", "not there", "under 4 %"];
        let library = library(&[("sources/A.md", text), ("sources/b.md", "waste")], &quotations);
        assert_eq!(quotations.map(|it| library.holds("a", it)), [true, true, true, false, false]);
        assert!(library.holds("A", " WASTE ") && library.holds("b", "waste"));
        assert_eq!(library.holding("waste").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(library.holding("never looked for").count(), 0);
        assert_eq!(library.problems, []);
    }

    #[test]
    fn a_copy_of_a_source_counts_as_that_source() {
        let library = library(&[("sources/a.md", "x"), ("sources/b.md", "x"), ("sources/c.md", "x y")], &["x"]);
        let counts = ["A", "b", "c", "d"].map(|id| library.counts_as(id));
        assert_eq!(counts, [Some("a"), Some("a"), Some("c"), None]);
        assert!(library.holds("b", "x"));
        assert_eq!(library.problems[0].what, "it is a copy of [@a], and counts as that one");
    }

    #[test]
    fn several_sources_of_one_id_are_none() {
        let files = [
            ("sources/a.md", "x"),
            ("sources/A.md", "x"),
            ("sources/sub/b.md", "x"),
            ("sources/b.md", "x"),
            ("sources/c.md", "x"),
        ];
        let library = library(&files, &["x"]);
        assert_eq!(["a", "b", "c"].map(|id| library.source(id).is_some()), [false, false, true]);
        assert!(library.is_broken("A") && library.is_broken("b") && !library.is_broken("c") && !library.is_broken("d"));
        let told: Vec<_> = library.problems.iter().map(|problem| problem.what.as_str()).collect();
        let expected = [
            "several sources have the id a: sources/A.md, sources/a.md",
            "several sources have the id b: sources/b.md, sources/sub/b.md",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_quotation_has_whole_words_and_numbers() {
        let holds = |quotation: &str, text: &str| {
            let mut library = Library::new(&Catalogue::default(), [quotation]);
            let source = format!("---\nurl: https://example.com/a\ntitle: A\n---\n{text}\n");
            library.add("a", Path::new("sources/a.md"), source.as_bytes());
            library.holds("A", quotation)
        };
        let text = "It saves 60.4% of memory, 1,250 pages. Überall 注意機構は有効";
        for quotation in ["60.4% of memory", "of Memory", "saves 60.4%", "1,250 pages", "überall", "機構は有効"] {
            assert!(holds(quotation, text), "{quotation}");
        }
        for quotation in ["4% of memory", "ves 60.4%", "250 pages", "memory, 1", "saves 60", "o", "60", "of mem"] {
            assert!(!holds(quotation, text), "{quotation}");
        }
    }
}
