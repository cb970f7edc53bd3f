//! A stored source: front matter between `---`, then the text or the excerpts that are relied on.

use std::path::Path;

use jiff::civil::Date;
use serde::Deserialize;

use super::problem::Problem;
use super::text::as_text;
use ar_core::domain::{cut, one_line};

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
