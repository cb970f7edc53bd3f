//! Which files of a run are artifacts, and which artifacts to delete when a session exceeds its space.

use std::path::{Component, Path};

use globset::{GlobMatcher, GlobSet};

use super::{GlobError, bare, glob, globs};
use crate::domain::{ExperimentId, SizeLimit};

/// The word that stands for no artifacts where a session has some.
const NONE: &str = "none";

/// The globs of a session's artifacts. They are read as those of the scope.
#[derive(Debug, Clone, Default)]
pub struct ArtifactGlobs {
    set: GlobSet,
    patterns: Vec<String>,
    /// The steps to the matches of each pattern.
    ways: Vec<Vec<PatternPart>>,
}

/// A part of a pattern between slashes.
#[derive(Debug, Clone)]
enum PatternPart {
    /// One folder or file.
    One(GlobMatcher),
    /// Any number of folders.
    Any,
}

impl ArtifactGlobs {
    /// Reads patterns; `none` is none.
    ///
    /// # Errors
    ///
    /// One of them cannot be read.
    pub fn of(patterns: &[String]) -> Result<ArtifactGlobs, GlobError> {
        let patterns: Vec<String> = patterns.iter().filter(|pattern| *pattern != NONE).cloned().collect();
        let ways = patterns.iter().map(|pattern| way(bare(pattern))).collect();
        Ok(ArtifactGlobs { set: globs(&patterns)?, patterns, ways })
    }

    /// The patterns.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// Returns whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The pattern that a path matches, if one does.
    pub fn matched(&self, path: &Path) -> Option<&str> {
        // Each pattern is two globs.
        let first = self.set.matches(path).into_iter().next()? / 2;
        self.patterns.get(first).map(String::as_str)
    }

    /// Returns whether a path below a folder may match.
    pub fn lead_below(&self, folder: &Path) -> bool {
        self.ways.iter().any(|way| leads_below(way, folder))
    }
}

/// The steps of a pattern. After a part that can hold a slash anything may follow.
fn way(pattern: &str) -> Vec<PatternPart> {
    let mut steps = Vec::new();
    for part in pattern.split('/') {
        let holds_slash = part.contains("**") || part.contains(['{', '[', '\\']);
        match glob(part) {
            Ok(glob) if !holds_slash => steps.push(PatternPart::One(glob.compile_matcher())),
            _ => {
                steps.push(PatternPart::Any);
                break;
            }
        }
    }
    steps
}

fn leads_below(way: &[PatternPart], folder: &Path) -> bool {
    let mut steps = way.iter();
    for part in folder.components() {
        let Component::Normal(name) = part else { return true };
        match steps.next() {
            Some(PatternPart::One(glob)) if !glob.is_match(Path::new(name)) => return false,
            Some(PatternPart::One(_)) => {}
            // All below a folder that matches does, too.
            Some(PatternPart::Any) | None => return true,
        }
    }
    true
}

/// The artifacts of one experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExperimentArtifacts {
    /// The experiment.
    pub id: ExperimentId,
    /// Their size on disk, in bytes.
    pub bytes: u64,
    /// True for the best experiment so far.
    pub is_best: bool,
}

/// Returns the experiments whose artifacts to delete so that the rest fits. `all` is in the order of recording. The best
/// experiment keeps its artifacts, and so do the newest ones up to the first that does not fit.
pub fn artifacts_to_drop(all: &[ExperimentArtifacts], limit: SizeLimit) -> Vec<ExperimentId> {
    let SizeLimit::Bytes(limit) = limit else { return Vec::new() };
    let (best, others): (Vec<&ExperimentArtifacts>, Vec<_>) = all.iter().rev().partition(|artifacts| artifacts.is_best);
    let mut total: u64 = best.iter().map(|artifacts| artifacts.bytes).sum();
    let fits = |artifacts: &&&ExperimentArtifacts| {
        total = total.saturating_add(artifacts.bytes);
        total <= limit
    };
    let kept = others.iter().take_while(fits).count();
    others[kept..].iter().map(|artifacts| artifacts.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(patterns: &[&str]) -> ArtifactGlobs {
        ArtifactGlobs::of(&patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_path_names_the_pattern_that_it_matches() {
        let globs = read(&["*.pt", "out/best-?", "./logs/", "none"]);
        for (path, pattern) in [
            ("a.pt", Some("*.pt")),
            ("out/a.pt", None),
            ("out/best-1", Some("out/best-?")),
            ("out/best-1/weights", Some("out/best-?")),
            ("logs/x/y", Some("./logs/")),
            ("none", None),
        ] {
            assert_eq!(globs.matched(Path::new(path)), pattern, "{path}");
        }
        assert!(read(&["none"]).is_empty() && read(&[]).matched(Path::new("a")).is_none());
        assert!(ArtifactGlobs::of(&["/tmp/x".into()]).is_err() && ArtifactGlobs::of(&["../x".into()]).is_err());
    }

    #[test]
    fn only_folders_that_can_hold_a_match_are_walked() {
        for (pattern, folder, leads) in [
            ("*.pt", ".venv", false),
            ("out/best-?", "out", true),
            ("out/best-?", "outs", false),
            ("out/best-?", "out/best-1/deep", true),
            ("out/best-?", "out/last", false),
            ("**/best.pt", ".venv/lib", true),
            ("out/**/best.pt", "data", false),
            ("{a/b,c}/x", "a/b", true),
        ] {
            assert_eq!(read(&[pattern]).lead_below(Path::new(folder)), leads, "{pattern} {folder}");
            assert!(read(&[pattern]).lead_below(Path::new("")), "{pattern}");
        }
    }

    #[test]
    fn the_best_keeps_its_artifacts_and_then_the_newest_do() {
        let all = |best: u32| {
            (0..).zip([50, 10, 30, 20]).map(move |(id, bytes)| ExperimentArtifacts {
                id: ExperimentId::from(id),
                bytes,
                is_best: id == best,
            })
        };
        let dropped = |best, limit| {
            let all: Vec<_> = all(best).collect();
            artifacts_to_drop(&all, limit).iter().map(|id| id.number()).collect::<Vec<_>>()
        };
        for (best, limit, expected) in [
            (3, 110, vec![]),
            (3, 109, vec![0]),
            (3, 49, vec![2, 1, 0]),
            (3, 0, vec![2, 1, 0]),
            (0, 80, vec![2, 1]),
            (0, 0, vec![3, 2, 1]),
        ] {
            assert_eq!(dropped(best, SizeLimit::Bytes(limit)), expected, "{best} {limit}");
        }
        assert!(dropped(3, SizeLimit::All).is_empty());
    }
}
