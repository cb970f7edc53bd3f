//! The stored sources of an artifact, front matter and text, and which quotations stand in which of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use aho_corasick::AhoCorasick;
use jiff::civil::Date;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use ar_core::domain::{cut, list, one_line};

use super::artifact::{Citation, Claim, Problem};
use super::scoring::Request;
use super::text::{as_text, normal};

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

    /// The ids under which the sources of the citations that support a claim count, one for each citation: by its quotations,
    /// or by what the `verify` command said. A claim with at least one is verified; without any if one citation does not resolve.
    pub fn supporting(&self, claim: &Claim, verdicts: Option<&BTreeMap<Request, bool>>) -> Vec<String> {
        let supports = |citation: &&Citation| match verdicts {
            Some(verdicts) => verdicts.get(&Request::of(claim, citation)).is_some_and(|verdict| *verdict),
            None => citation.quotation.as_deref().is_some_and(|quotation| self.holds(&citation.id, quotation)),
        };
        let cited = claim.citations.iter().filter(|_| self.resolves(claim)).filter(supports);
        cited.filter_map(|it| self.counts_as(&it.id)).map(str::to_owned).collect()
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

/// The facts in the header of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct FrontMatter {
    /// Its address.
    pub url: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// Its publisher.
    #[serde(alias = "organization")]
    pub organisation: Option<String>,
    /// Its kind: paper, blog, documentation …
    pub medium: Option<String>,
    /// When it was published: a year, a month or a day.
    pub published: Option<String>,
    /// When it was retrieved.
    pub retrieved: Option<String>,
}

impl FrontMatter {
    /// The date of publication in years: 2023.5 is the middle of 2023. Of a year or a month it is the middle.
    pub fn year(&self) -> Option<f64> {
        date_in_years(self.published.as_deref()?)
    }
}

/// A date as ISO 8601 writes it, in years.
fn date_in_years(text: &str) -> Option<f64> {
    let day = text.split(['T', ' ']).next().unwrap_or_default();
    let parts: Vec<&str> = day.split('-').collect();
    let is_number = |part: &&str| !part.is_empty() && part.len() <= 4 && part.bytes().all(|byte| byte.is_ascii_digit());
    if !parts.iter().all(is_number) || parts[0].len() != 4 {
        return None;
    }
    let year: i16 = parts[0].parse().ok()?;
    let within = |date: Date| f64::from(date.day_of_year() - 1) / f64::from(date.days_in_year());
    let part = match parts.as_slice() {
        [_] => 0.5,
        [_, month] => within(Date::new(year, month.parse().ok()?, 15).ok()?),
        [_, month, day] => within(Date::new(year, month.parse().ok()?, day.parse().ok()?).ok()?),
        _ => return None,
    };
    Some(f64::from(year) + part)
}

/// The id of the source in a file: its name without `.md`, in lower case, since some file systems know no other. `None` for
/// other files.
pub fn source_id(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?.to_lowercase();
    name.strip_suffix(".md").filter(|id| !id.is_empty()).map(str::to_owned)
}

/// A source as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The facts in its header.
    pub front: FrontMatter,
    /// Its text.
    pub text: String,
}

impl Source {
    /// Reads a file. Problems that leave it usable are added to `problems`.
    ///
    /// # Errors
    ///
    /// It is not a text, or its front matter cannot be read.
    pub fn read(file: &str, bytes: &[u8], problems: &mut Vec<Problem>) -> Result<Source, Problem> {
        const FORM: &str = "a source begins with `---`, url, title and so on, and another `---`";
        let text = as_text(bytes).map_err(|error| Problem::at(file, error.line, error.what))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = text.split_inclusive('\n');
        let is_mark = |line: &str| line.trim_end() == "---";
        let first = lines.next().filter(|line| is_mark(line)).ok_or_else(|| Problem::at(file, 1, FORM))?;
        let mut length = 0;
        let mark = lines.find(|line| {
            let ends = is_mark(line);
            length += if ends { 0 } else { line.len() };
            ends
        });
        let mark = mark.ok_or_else(|| Problem::at(file, 1, "its front matter has no closing `---`"))?;
        let yaml = &text[first.len()..first.len() + length];
        let body = &text[first.len() + length + mark.len()..];
        let front = front_matter(yaml).map_err(|(line, what)| Problem::at(file, line + 1, what))?;
        let line_of = |key: &str| yaml.lines().position(|line| line.starts_with(key)).map_or(1, |at| at + 2);
        for (key, value) in [("url", &front.url), ("title", &front.title)] {
            if value.as_ref().is_none_or(|value| value.trim().is_empty()) {
                problems.push(Problem::at(file, line_of(key), format!("its front matter has no {key}")));
            }
        }
        if let Some(published) = front.published.as_ref().filter(|_| front.year().is_none()) {
            let what = format!("`{}` is not a date; write it like 2023-09-12, 2023-09 or 2023", cut(published, 40));
            problems.push(Problem::at(file, line_of("published"), what));
        }
        if body.trim().is_empty() {
            let what = "it has no text, so no quotation can be found in it";
            problems.push(Problem::at(file, yaml.lines().count() + 2, what));
        }
        Ok(Source { front, text: body.to_owned() })
    }
}

/// Reads front matter; where it cannot be read, on which of its lines, from 1, and why.
fn front_matter(yaml: &str) -> Result<FrontMatter, (usize, String)> {
    if yaml.trim().is_empty() {
        return Err((1, "its front matter is empty".into()));
    }
    serde_saphyr::from_str(yaml).map_err(|error| {
        let line = error.location().and_then(|at| usize::try_from(at.line()).ok()).unwrap_or(1).max(1);
        let text = error.without_snippet().to_string();
        (line, format!("its front matter is malformed: {}", cut(&one_line(&text), 200)))
    })
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

    fn read(text: &str) -> (Result<Source, Problem>, Vec<Problem>) {
        let mut problems = Vec::new();
        (Source::read("sources/a.md", text.as_bytes(), &mut problems), problems)
    }

    #[test]
    fn a_source_has_front_matter_and_text() {
        let (source, problems) = read(
            "---\nurl: https://example.com/a\ntitle: \"Paged: attention\"\norganisation: UCB\nmedium: paper\n\
             published: 2023-09-12\nretrieved: 2026-11-20\nauthors: [A, B]\n---\nFirst.\n---\nSecond.\n",
        );
        let source = source.unwrap();
        assert_eq!(problems, []);
        assert_eq!(source.text, "First.\n---\nSecond.\n");
        assert_eq!(source.front.title.as_deref(), Some("Paged: attention"));
        assert_eq!(source.front.published.as_deref(), Some("2023-09-12"));
        let (source, problems) =
            read("---\r\nurl: x\r\ntitle: 2001\r\norganization: A\r\npublished: 2023\r\n---\r\ntext");
        let front = source.unwrap().front;
        assert_eq!((front.published.as_deref(), front.organisation.as_deref()), (Some("2023"), Some("A")));
        assert_eq!((front.title.as_deref(), problems.len()), (Some("2001"), 0));
    }

    #[test]
    fn a_date_is_a_year_a_month_or_a_day() {
        // 2024 has 366 days, and 2 July is day 184: 183 / 366 = 0.5.
        for (text, year) in
            [("2023", Some(2023.5)), ("2024-07-02", Some(2024.5)), ("2024-07-02T10:00:00Z", Some(2024.5))]
        {
            assert_eq!(date_in_years(text), year, "{text}");
        }
        // 15 January is day 15: 14 / 365.
        assert_eq!(date_in_years("2023-01"), Some(2023.0 + 14.0 / 365.0));
        for text in ["", "soon", "23", "2023-13", "2023-02-30", "2023-1-1-1", "-2023", "2023-"] {
            assert_eq!(date_in_years(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_malformed_is_named_with_its_line() {
        for (text, line, what) in [
            ("", 1, "a source begins with `---`, url, title and so on, and another `---`"),
            ("text", 1, "a source begins with `---`, url, title and so on, and another `---`"),
            ("---\nurl: x\n", 1, "its front matter has no closing `---`"),
            ("---\n---\ntext", 2, "its front matter is empty"),
            ("---\nurl: x\ntitle: y\0\n---\n", 3, "it holds a NUL byte"),
        ] {
            assert_eq!(read(text).0, Err(Problem::at("sources/a.md", line, what)), "{text:?}");
        }
        for (text, line) in
            [("---\nurl: x\ntitle: [a\n---\n", 4), ("---\nurl: x\nurl: y\n---\n", 3), ("---\nurl: {a: b}\n---\n", 2)]
        {
            let problem = read(text).0.unwrap_err();
            assert!(problem.what.starts_with("its front matter is malformed: "), "{problem:?}");
            assert!(problem.line.abs_diff(line) <= 1, "{problem:?}");
            assert!(!problem.what.contains('\n'));
        }
        let (source, problems) = read("---\nurl: ''\npublished: last year\n---\n \n");
        assert!(source.is_ok());
        let told: Vec<_> = problems.iter().map(|problem| (problem.line, problem.what.as_str())).collect();
        let expected = [
            (2, "its front matter has no url"),
            (1, "its front matter has no title"),
            (3, "`last year` is not a date; write it like 2023-09-12, 2023-09 or 2023"),
            (4, "it has no text, so no quotation can be found in it"),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn ids_are_names_of_files_without_case() {
        let id = |path: &str| source_id(Path::new(path));
        assert_eq!(id("sources/a/Kwon2023.md"), Some("kwon2023".into()));
        assert_eq!(id("sources/x.MD"), Some("x".into()));
        assert_eq!([id("sources/.gitkeep"), id("sources/a.pdf"), id("sources/.md")], [None, None, None]);
    }
}
