//! The hidden split of a session: what no agent may read, its values, and how often it has decided.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use globset::GlobMatcher;
use sha2::{Digest, Sha256};

use super::{Store, real};
use crate::domain::{Contract, Tag};
use crate::fs::read_at_most;
use crate::git::Repo;
use crate::rules::{HiddenEntry, HiddenPlaces, HiddenVerdict, History, glob};
use crate::session::errors::{SessionError, Usage, refuse};
use crate::session::files::session_tags;
use crate::state::{HiddenFile, SessionFolder, files_below};

/// The most of a hidden file that is hashed, in bytes: another split differs earlier.
const HASHED: u64 = 64 << 20;

/// The number of verdicts from which each night is told to take another split.
const TOO_MANY: usize = 100;

/// The files and folders that `--hide` names: those of globs in the main worktree, and paths. Those that are missing are none.
///
/// # Errors
///
/// Git has one of them, and shows what it holds; a glob is invalid.
pub(crate) fn hidden_places(repo: &Repo, contract: &Contract) -> Result<HiddenPlaces, SessionError> {
    let root = repo.main_worktree();
    let mut places = HiddenPlaces::default();
    if contract.hide.is_empty() {
        return Ok(places);
    }
    let tracked = repo.objects.files_at(&contract.start, |_| true)?;
    for pattern in &contract.hide {
        let plain = root.join(pattern);
        let is_plain = fs::symlink_metadata(&plain).is_ok();
        let matcher = glob(pattern).map(|glob| glob.compile_matcher());
        let matcher =
            matcher.map_err(|error| refuse(Usage, format!("--hide '{pattern}': {error}")).hint("mend the glob"))?;
        let below = plain.strip_prefix(root).unwrap_or(&plain);
        let is_meant = |path: &Path| matcher.is_match(path) || path.starts_with(below);
        if let Some(known) = tracked.iter().find(|path| is_meant(path)) {
            let what = known.display();
            return Err(refuse(
                Usage,
                format!("--hide '{pattern}' matches {what}, which git has: its objects show it"),
            )
            .hint(format!("keep hidden files out of git: `git rm --cached {what}`, commit, and remove it from history"))
            .into());
        }
        let found = if is_plain { vec![plain] } else { matching(root, &matcher) };
        for path in found.iter().map(|path| real(path)) {
            if path.is_dir() { places.folders.push(path) } else { places.files.push(path) }
        }
    }
    Ok(places)
}

/// The files below the main worktree that a glob matches. Git's own and those of `ar` are none.
fn matching(root: &Path, matcher: &GlobMatcher) -> Vec<PathBuf> {
    let files = files_below(root, Path::new("")).into_iter();
    files.filter(|path| matcher.is_match(path)).map(|path| root.join(path)).collect()
}

/// A hash of a hidden split: of its command, and of the contents of all hidden files.
fn split_of(contract: &Contract, places: &HiddenPlaces) -> String {
    let mut hash = Sha256::new();
    hash.update(contract.holdout.as_deref().unwrap_or_default());
    let below =
        |folder: &PathBuf| files_below(folder, Path::new("")).into_iter().map(|path| folder.join(path)).collect();
    let inside = places.folders.iter().flat_map(|folder| -> Vec<PathBuf> { below(folder) });
    let mut files: Vec<PathBuf> = places.files.iter().cloned().chain(inside).collect();
    files.sort();
    for file in files {
        hash.update([0]);
        // One that cannot be read changes nothing about the others.
        hash.update(read_at_most(&file, HASHED).unwrap_or_default());
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// What agents could read of fresh runs: the values that they must not learn, and the runs of others, whose logs have them.
pub(crate) fn sealed_places(folder: &SessionFolder, contract: &Contract) -> HiddenPlaces {
    let file = HiddenFile::new(&folder.state());
    let is_sealed = contract.holdout.is_some();
    HiddenPlaces {
        files: if is_sealed { vec![real(file.path())] } else { Vec::new() },
        folders: if is_sealed { vec![real(&folder.runs())] } else { Vec::new() },
        empty: real(file.empty()),
    }
}

impl Store {
    /// The history by which changes are chosen: with the visible values of fresh runs that records of a hidden split do not have.
    pub(crate) fn visible_history(&self) -> Cow<'_, History> {
        match self.contract.decides_on_hidden() {
            true => Cow::Owned(self.hidden.visible(&self.history)),
            false => Cow::Borrowed(&self.history),
        }
    }

    /// Notes an entry where no agent can read it.
    pub(crate) fn note_hidden(&mut self, entry: HiddenEntry) -> Result<(), SessionError> {
        HiddenFile::new(&self.folder.state()).add(&entry)?;
        self.hidden.add(entry);
        Ok(())
    }

    /// Notes a verdict by hidden values, and warns of a split that has decided often, over all sessions of the repository.
    pub(crate) fn note_hidden_verdict(&mut self, verdict: HiddenVerdict) -> Result<(), SessionError> {
        let split = split_of(&self.contract, &self.hidden_places);
        self.note_hidden(HiddenEntry::Verdict(HiddenVerdict { split: split.clone(), ..verdict }))?;
        let count = self.verdicts_by(&split)?;
        let warn = self.contract.holdout_warn as usize;
        if warn > 0 && (count == warn || count >= TOO_MANY) {
            self.note_once(match count >= TOO_MANY {
                true => format!("{count} verdicts by the same hidden split: take a fresh one"),
                false => format!(
                    "{count} verdicts by the same hidden split: its decisions are still useful, but its values are biased by about \
                     their own standard error; publish values from data that it has not seen"
                ),
            });
        }
        Ok(())
    }

    /// The number of verdicts by a split, over all sessions of the repository.
    fn verdicts_by(&self, split: &str) -> Result<usize, SessionError> {
        let root = self.repo.main_worktree();
        let of = |tag: &Tag| {
            let book = HiddenFile::new(&SessionFolder::new(root, tag).state()).read().unwrap_or_default();
            book.verdicts().iter().filter(|verdict| verdict.split == split).count()
        };
        Ok(session_tags(&self.repo)?.iter().map(of).sum())
    }
}
