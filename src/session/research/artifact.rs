//! The artifact of a session: its terms, and its files as a working tree has them, or, in a run, as the commit has them that
//! the run measures. Settings of git and filters can make a working tree show what no commit has.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::scoring::{artifact_at, read_terms};
use crate::agent::{CitedSource, NewClaim};
use crate::domain::{COMPOSITE, CommitId, Composite, Contract, Form, StopRule, bytes_text, few};
use crate::fs::{absent, read_at_most};
use crate::git::{Repo, Stored};
use crate::rules::{LARGEST_ADDED, calls_score, is_research};
use crate::score::{Catalogue, Citation, Library, Problem, as_text, source_id};
use crate::session::errors::{ScoreError, SessionError};

/// The largest artifact and the largest source, in bytes: what a change may add, and several books.
pub(crate) const LARGEST_TEXT: u64 = LARGEST_ADDED;

/// The files of a commit or of the working tree.
pub(crate) struct ResearchFiles<'a> {
    repo: &'a Repo,
    /// The commit that they are read from; absent for the working tree.
    commit: Option<CommitId>,
}

impl<'a> ResearchFiles<'a> {
    /// The files of a commit, or of the working tree.
    pub(crate) fn new(repo: &'a Repo, commit: Option<CommitId>) -> Self {
        ResearchFiles { repo, commit }
    }

    /// The folder in which commands about them are started.
    pub(crate) fn root(&self) -> &Path {
        self.repo.worktree()
    }

    /// Reads a file that is no link.
    pub(crate) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let Some(commit) = &self.commit else { return read_file(&self.root().join(path)) };
        match self.repo.objects.read_at(commit, path, LARGEST_TEXT).map_err(io::Error::other)? {
            Stored::File(bytes) => Ok(bytes),
            Stored::Missing => Err(ErrorKind::NotFound.into()),
            Stored::NoFile => Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")),
            Stored::TooLarge(size) => Err(too_large(size)),
        }
    }

    /// Reads the sources below a folder, one after the other, and looks for quotations in them.
    pub(crate) fn sources<'q>(
        &self,
        folder: &Path,
        quotations: impl IntoIterator<Item = &'q str>,
    ) -> Result<(Catalogue, Library), SessionError> {
        self.sources_named(folder, quotations, |_| true)
    }

    /// The same of the sources whose ids are asked for.
    pub(crate) fn sources_named<'q>(
        &self,
        folder: &Path,
        quotations: impl IntoIterator<Item = &'q str>,
        is_asked: impl Fn(&str) -> bool,
    ) -> Result<(Catalogue, Library), SessionError> {
        let mut problems = Vec::new();
        let files = match &self.commit {
            Some(commit) => {
                let all = self.repo.objects.files_below(commit, folder)?;
                all.into_iter().filter(|path| source_id(path).is_some()).map(|path| (path, None)).collect()
            }
            None => self.files(folder, &mut problems)?,
        };
        let catalogue = Catalogue::of(files.keys().cloned());
        let mut library = Library::new(&catalogue, quotations);
        library.problems.extend(problems);
        for (id, path) in catalogue.files.iter().filter(|(id, _)| is_asked(id)) {
            match (files.get(path).copied().flatten(), self.read(path)) {
                (Some(why), _) => library.leave_out(id, path, why),
                (None, Ok(bytes)) => library.add(id, path, &bytes),
                (None, Err(error)) if error.kind() == ErrorKind::FileTooLarge => {
                    library.leave_out(id, path, format!("{error}; store excerpts"));
                }
                (None, Err(error)) => library.leave_out(id, path, format!("it cannot be read: {error}")),
            }
        }
        Ok((catalogue, library))
    }

    /// The files of the working tree below a folder, each with the reason why no commit would have it as a source, if there is
    /// one.
    fn files(
        &self,
        folder: &Path,
        problems: &mut Vec<Problem>,
    ) -> Result<BTreeMap<PathBuf, Option<&'static str>>, SessionError> {
        let root = self.root();
        let mut files = BTreeMap::new();
        let mut folders = vec![folder.to_owned()];
        if fs::symlink_metadata(root.join(folder)).is_ok_and(|there| there.is_symlink()) {
            let what = "the folder is a link, so no commit has what is in it";
            problems.push(Problem::at(&folder.to_string_lossy(), 1, what));
            folders.clear();
        }
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(root.join(&folder)) {
                Err(error) if absent(&error) => continue,
                Err(error) => {
                    let what = format!("the folder cannot be read: {error}");
                    problems.push(Problem::at(&folder.to_string_lossy(), 1, what));
                    continue;
                }
                Ok(entries) => entries,
            };
            for entry in entries.flatten() {
                let path = folder.join(entry.file_name());
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() {
                    folders.push(path);
                } else if source_id(&path).is_some() {
                    let why = match kind.is_file() {
                        false => Some("it is not a regular file"),
                        true if self.repo.working_tree.is_ignored(&path)? => {
                            Some("git ignores it, so no commit has it")
                        }
                        true => None,
                    };
                    files.insert(path, why);
                }
            }
        }
        Ok(files)
    }
}

/// Reads a file of the disk that is no link.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_symlink() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is a link"));
    }
    if meta.len() > LARGEST_TEXT {
        return Err(too_large(meta.len()));
    }
    read_at_most(path, LARGEST_TEXT)
}

fn too_large(size: u64) -> io::Error {
    let (size, most) = (bytes_text(size), bytes_text(LARGEST_TEXT));
    io::Error::new(ErrorKind::FileTooLarge, format!("it has {size}, and at most {most} are read"))
}

/// From which composite on a session of research keeps: 0.45, the gate of the Madani adapter.
pub const RESEARCH_THRESHOLD: f64 = 0.45;

/// The terms of a new session of research with the question and the axes of its `research.toml`, and the stop rule of such
/// sessions, where none were asked for; the folder of its sources; and what to warn of. Leaves the terms of other sessions as
/// they are.
pub(crate) fn with_research(
    repo: &Repo,
    mut contract: Contract,
    is_new: bool,
) -> Result<(Contract, Option<PathBuf>, Vec<String>), SessionError> {
    if !calls_score(&contract.command) {
        return Ok((contract, None, Vec::new()));
    }
    let mut terms = read_terms(repo, Some(&contract.start))?;
    let mut warnings = Vec::new();
    if is_new {
        contract.goal_text.get_or_insert_with(|| terms.question.clone());
    }
    if is_new && contract.metric.name == COMPOSITE {
        if let Some(own) = contract.composite.take() {
            let of = || "[composite] of ar.toml".to_owned();
            terms = terms.with_composite(own).map_err(|source| ScoreError::Terms { terms: of(), source })?;
        }
        contract.artifact_form = Some(terms.composite.form);
        // Its threshold is one of the mean: in another form what multiplies keeps nothing.
        contract.composite = Some(Composite { form: Form::Weighted, ..terms.composite });
        contract.keep_above.get_or_insert(RESEARCH_THRESHOLD.into());
        warnings = terms.warnings;
        if contract.stop_rules.is_empty() {
            contract.stop_rules.extend(StopRule::OF_RESEARCH);
        }
    }
    Ok((contract, Some(terms.sources), warnings))
}

/// A notice that names them, for a session of research.
pub(crate) fn missing_headings(repo: &Repo, contract: &Contract) -> Result<Option<String>, SessionError> {
    if !is_research(contract) {
        return Ok(None);
    }
    let terms = read_terms(repo, Some(&contract.start))?;
    let headed = artifact_at(repo, &contract.start, &terms)?.headed;
    let topics = (0..).zip(&terms.topics).filter(|(place, _)| !headed.contains(place));
    let missing: Vec<String> = topics.map(|(_, topic)| format!("## {topic}")).collect();
    let artifact = terms.artifact.display();
    let notice =
        || format!("{artifact} lacks headings, and claims count below these alone: {}", few(&missing).join(", "));
    Ok((!missing.is_empty()).then(notice))
}

/// The most claims that are listed.
const CLAIMS: usize = 50;

/// Bytes of a source to show before and after the quoted place.
const AROUND: usize = 700;

/// The claims that `commit` has and `base` has not, in their order; none in a session without an artifact.
pub(crate) fn new_claims(
    repo: &Repo,
    contract: &Contract,
    base: &CommitId,
    commit: &CommitId,
) -> Result<Vec<NewClaim>, SessionError> {
    if !calls_score(&contract.command) {
        return Ok(Vec::new());
    }
    let terms = read_terms(repo, Some(&contract.start))?;
    let known: BTreeSet<String> = artifact_at(repo, base, &terms)?.claims.into_iter().map(|claim| claim.key).collect();
    let sources = Catalogue::of(repo.objects.files_below(commit, &terms.sources)?);
    let claims = artifact_at(repo, commit, &terms)?.claims.into_iter().filter(|claim| !known.contains(&claim.key));
    let told = claims.take(CLAIMS).map(|claim| {
        let evidence = claim.citations.iter().map(|citation| evidence(repo, commit, &sources, citation));
        Ok(NewClaim {
            text: claim.text,
            place: format!("{}:{}", terms.artifact.display(), claim.line),
            evidence: evidence.collect::<Result<_, SessionError>>()?,
        })
    });
    told.collect()
}

/// Finds the source of a citation, with an excerpt around the quotation.
fn evidence(
    repo: &Repo,
    commit: &CommitId,
    sources: &Catalogue,
    citation: &Citation,
) -> Result<CitedSource, SessionError> {
    let path = sources.files.iter().find(|(id, _)| *id == citation.id).map(|(_, path)| path.clone());
    let stored = path.as_deref().map(|path: &Path| repo.objects.read_at(commit, path, LARGEST_TEXT)).transpose()?;
    let text = match &stored {
        Some(Stored::File(bytes)) => as_text(bytes).unwrap_or_default(),
        _ => "",
    };
    let excerpt = around(text, citation.quotation.as_deref().unwrap_or_default()).to_owned();
    Ok(CitedSource { id: citation.id.clone(), quotation: citation.quotation.clone(), path, excerpt })
}

/// The part of a text around a quotation; its beginning where it does not have that word for word.
fn around<'a>(text: &'a str, quotation: &str) -> &'a str {
    let at = text.find(quotation).unwrap_or_default();
    let from = (0..=at.saturating_sub(AROUND)).rev().find(|place| text.is_char_boundary(*place)).unwrap_or_default();
    let end = (at + quotation.len() + AROUND).min(text.len());
    let end = (from..=end).rev().find(|place| text.is_char_boundary(*place)).unwrap_or(from);
    &text[from..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_that_is_quoted_is_shown_and_else_the_beginning() {
        let text = format!("{}é the words é{}", "a".repeat(2000), "b".repeat(2000));
        let found = around(&text, "the words");
        assert!(found.contains("é the words é") && found.len() < 2 * AROUND + 20, "{found}");
        assert!(around(&text, "other words").starts_with("aaa"));
        assert_eq!([around("short", ""), around("", "x"), around("é", "é")], ["short", "", "é"]);
    }
}
