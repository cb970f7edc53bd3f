//! The hidden split of a session: what no agent may read, its values, and how often it has decided.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::{self, FileType};
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{Store, real};
use crate::domain::{Contract, count_of};
use crate::fs::read_at_most;
use crate::git::Repo;
use crate::rules::{HiddenBook, HiddenEntry, HiddenPlaces, HiddenRun, HiddenVerdict, History, glob};
use crate::session::errors::{CannotStart, SessionError, Usage, refuse};
use crate::session::files::session_folders;
use crate::session::handlers::copies_of_protected;
use crate::state::{HiddenFile, SESSIONS_FOLDER, SessionFolder};

/// The most of a hidden file that is hashed, in bytes: another split differs earlier.
const HASHED: u64 = 64 << 20;

/// The number of verdicts from which each night is told to take another split.
const TOO_MANY: usize = 100;

/// The files and folders that `--hide` names: paths, and untracked files that globs match or that are below a folder which they match,
/// absolute ones or in the working tree and in the main one.
///
/// # Errors
///
/// Git has one of them, and shows what it holds; one names nothing; a glob is invalid.
pub(crate) fn hidden_places(repo: &Repo, contract: &Contract) -> Result<HiddenPlaces, SessionError> {
    let mut places = HiddenPlaces::default();
    if contract.hide.is_empty() {
        return Ok(places);
    }
    let tracked = repo.objects.files_at(&contract.start, |_| true)?;
    let roots: BTreeSet<&Path> = [repo.worktree(), repo.main_worktree()].into();
    for pattern in &contract.hide {
        let plain: Vec<PathBuf> = roots.iter().map(|root| root.join(pattern)).collect();
        let globs = roots.iter().map(|root| match Path::new(pattern).is_absolute() {
            true => glob(pattern),
            false => glob(&format!("{}/{pattern}", globset::escape(&root.display().to_string()))),
        });
        let globs: Result<Vec<_>, _> = globs.map(|glob| glob.map(|glob| glob.compile_matcher())).collect();
        let globs =
            globs.map_err(|error| refuse(Usage, format!("--hide '{pattern}': {error}")).hint("mend the glob"))?;
        let is_matched = |path: &Path| path.ancestors().any(|path| globs.iter().any(|glob| glob.is_match(path)));
        let is_meant = |path: &Path| {
            let mut paths = roots.iter().map(|root| root.join(path));
            paths.any(|path| plain.iter().any(|plain| path.starts_with(plain)) || is_matched(&path))
        };
        if let Some(known) = tracked.iter().find(|path| is_meant(path)) {
            let what = known.display();
            return Err(refuse(
                Usage,
                format!("--hide '{pattern}' matches {what}, which git has: its objects show it"),
            )
            .hint(format!("keep hidden files out of git: `git rm --cached {what}`, commit, and remove it from history"))
            .into());
        }
        let there: Vec<PathBuf> = plain.into_iter().filter(|path| fs::symlink_metadata(path).is_ok()).collect();
        let found = match there.is_empty() {
            true => bases_of(pattern, &roots)
                .iter()
                .flat_map(|base| plain_files(base))
                .filter(|path| is_matched(path))
                .collect(),
            false => there,
        };
        if found.is_empty() {
            return Err(refuse(Usage, format!("--hide '{pattern}' matches nothing: everything would be readable"))
                .hint("name a file or folder that is there, relative to the root of the repository or absolute")
                .into());
        }
        let found: Vec<PathBuf> = found.iter().map(|path| real(path)).collect();
        // Links out of a hidden folder lead to hidden files.
        let linked =
            found.iter().filter(|path| path.is_dir()).flat_map(|path| links_below(path)).map(|path| real(&path));
        for path in linked.collect::<BTreeSet<PathBuf>>().into_iter().chain(found) {
            if path.is_dir() { places.folders.push(path) } else { places.files.push(path) }
        }
    }
    Ok(places)
}

/// The folders below which a glob can match files: the working trees, or that in which an absolute one begins.
fn bases_of(pattern: &str, roots: &BTreeSet<&Path>) -> BTreeSet<PathBuf> {
    let is_literal =
        |part: &Component<'_>| !part.as_os_str().as_encoded_bytes().iter().any(|byte| b"*?[{\\".contains(byte));
    match Path::new(pattern).is_absolute() {
        true => [Path::new(pattern).components().take_while(is_literal).collect()].into(),
        false => roots.iter().map(|root| root.to_path_buf()).collect(),
    }
}

/// The readable files below a folder, in order of their paths.
fn plain_files(folder: &Path) -> Vec<PathBuf> {
    below(folder, FileType::is_file)
}

/// The links below a folder that lead anywhere.
fn links_below(folder: &Path) -> Vec<PathBuf> {
    below(folder, FileType::is_symlink).into_iter().filter(|link| link.exists()).collect()
}

/// The entries of a kind below a folder, in order of their paths, without those of git and of `ar`. Nothing is changed there, and no
/// link is followed.
fn below(folder: &Path, is_meant: fn(&FileType) -> bool) -> Vec<PathBuf> {
    let (mut files, mut left) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let is_own = [".git", SESSIONS_FOLDER].iter().any(|own| entry.file_name() == *own);
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !is_own => left.push(entry.path()),
                Ok(kind) if is_meant(&kind) => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files.sort();
    files
}

/// A hash of a hidden split: of its command, and of the contents of all hidden files.
fn split_of(contract: &Contract, places: &HiddenPlaces) -> String {
    let mut hash = Sha256::new();
    hash.update(contract.holdout.as_deref().unwrap_or_default());
    let inside = places.folders.iter().flat_map(|folder| plain_files(folder));
    let mut files: Vec<PathBuf> = places.files.iter().cloned().chain(inside).collect();
    files.sort();
    for file in files {
        hash.update([0]);
        // One that cannot be read changes nothing about the others.
        hash.update(read_at_most(&file, HASHED).unwrap_or_default());
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// What agents could read of fresh runs, in this session and in others with a hidden split: the values that they must not learn, the logs
/// and working trees of others, which have them, too, and copies of hidden files. A job sees its own.
pub(crate) fn sealed_places(repo: &Repo, folder: &SessionFolder, contract: &Contract) -> HiddenPlaces {
    let mut places =
        HiddenPlaces { empty: HiddenFile::new(&folder.state()).empty().to_owned(), ..HiddenPlaces::default() };
    let others: Vec<SessionFolder> = session_folders(repo).filter(|other| other.tag() != folder.tag()).collect();
    for folder in [folder].into_iter().chain(&others) {
        let file = HiddenFile::new(&folder.state());
        let is_own = folder.tag() == &contract.tag;
        let (hides, has_split) = match is_own {
            true => (contract.hides(), contract.holdout.is_some()),
            false => (file.path().is_file(), file.path().is_file()),
        };
        if hides {
            places.folders.extend([folder.carried(), copies_of_protected(repo, folder)]);
        }
        if has_split {
            places.folders.extend([folder.runs(), folder.trees(), folder.logs()]);
            places.files.push(file.path().to_owned());
        }
    }
    places
}

/// Refuses to go on by hidden values without those of the baseline.
///
/// # Errors
///
/// They are missing, and nothing can be decided.
pub(crate) fn require_hidden_baseline(
    contract: &Contract,
    history: &History,
    file: &HiddenFile,
    hidden: &HiddenBook,
) -> Result<(), SessionError> {
    let is_of_baseline = |run: &HiddenRun| run.experiment.is_baseline();
    if !contract.decides_on_hidden() || history.baseline().is_none() || hidden.runs().iter().any(is_of_baseline) {
        return Ok(());
    }
    let text = format!("{} does not have the hidden values of the baseline", file.path().display());
    Err(refuse(CannotStart, text)
        .hint("restore that file from a backup, or begin a new session: without it nothing can be decided")
        .into())
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
        let known = self.split.take();
        let split = known.unwrap_or_else(|| split_of(&self.contract, &self.hidden_places));
        self.split = Some(split.clone());
        self.note_hidden(HiddenEntry::Verdict(HiddenVerdict { split: split.clone(), ..verdict }))?;
        let count = self.verdicts_by(&split);
        let warn = self.contract.holdout_warn as usize;
        // The texts have no count that grows, so that each is told once.
        if warn > 0 && count >= TOO_MANY {
            self.note_once(format!("{TOO_MANY} verdicts or more by the same hidden split: take a fresh one"));
        } else if warn > 0 && count >= warn {
            self.note_once(format!(
                "{} or more by the same hidden split: its decisions are still useful, but its values are biased by about their own \
                 standard error; publish values from data that it has not seen",
                count_of(warn, "verdict")
            ));
        }
        Ok(())
    }

    /// The number of verdicts by a split, over all sessions of the repository.
    fn verdicts_by(&self, split: &str) -> usize {
        let of = |folder: SessionFolder| {
            let book = HiddenFile::new(&folder.state()).read().unwrap_or_default();
            book.verdicts().iter().filter(|verdict| verdict.split == split).count()
        };
        session_folders(&self.repo).map(of).sum()
    }
}
