//! The files that `ar` keeps in a repository and how they stay out of git, ignored files that may feed a number, and space
//! on the disk.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::{env, fs};

use super::PROGRAM;
use crate::domain::{CommitId, Space, WordList, shell_word, word_list};
use crate::exec;
use crate::fs::{FileStamp, make_folder, move_away, move_no_folder_away, read_at_most};
use crate::git::{Repo, Stored};
use crate::ledger::RESULTS;
use crate::rules::{History, files_named, spoilt_by_full_disk, too_little_space};
use crate::session::errors::{CannotStart, SessionError, refuse};
use crate::state::{SESSIONS_FOLDER, SessionFolder, further_runs, user_folder};

/// The folder of the run, in the working tree's own git folder: it is removed with the working tree, but not part of it.
pub(crate) const REPRO_FOLDER: &str = "autoresearch-repro";

/// The file in it that is locked while the command runs, and removed at its end: without a lock, it was left behind.
pub(crate) const UNFINISHED: &str = "unfinished";

/// What that file says where the tree is in a folder that the command made for it.
pub(crate) const TEMPORARY: &str = "temporary";

/// The files that `ar` and its agents keep in the repository's root and out of git.
pub(super) static OWN_FILES: WordList = WordList::new(|| word_list(include_str!("lists/own_files.txt")));

/// Returns whether `ar` itself writes this file of the working tree.
pub(crate) fn is_own(path: &Path) -> bool {
    let is_ledger = |name: &str| {
        let behind = name.strip_prefix("results-").and_then(|name| name.split_once(".tsv"));
        !name.contains('/') && behind.is_some_and(|(_, end)| end.is_empty() || end.starts_with(".before-repair"))
    };
    let begins = |name: &str| name.starts_with("results.tsv") || name.starts_with("run.log") || is_ledger(name);
    OWN_FILES.iter().any(|own| path.starts_with(own.trim_matches('/'))) || path.to_str().is_some_and(begins)
}

/// Refuses a repository that tracks the folder of sessions or one of these ledgers.
///
/// # Errors
///
/// It does, or its index cannot be read.
pub fn refuse_tracked<const N: usize>(repo: &Repo, ledgers: [PathBuf; N]) -> Result<(), SessionError> {
    for path in ledgers.into_iter().chain([SESSIONS_FOLDER.into()]) {
        if repo.working_tree.is_tracked(&path)? {
            let (what, path) = (path.display(), shell_word(&path));
            return Err(refuse(
                CannotStart,
                format!("{what} is tracked by git: a reset would undo what ar writes there"),
            )
            .hint(format!("git rm -r --quiet --cached {path} && git commit -m \"stop tracking {path}\""))
            .into());
        }
    }
    Ok(())
}

/// Has git ignore `ar`'s own files. Other metrics than the first have ledgers of their own.
pub(crate) fn exclude_own(repo: &Repo, ledgers: &[String]) -> Result<(), SessionError> {
    repo.exclude(&OWN_FILES)?;
    let others = ledgers.iter().filter(|name| *name != RESULTS).map(|name| format!("/{name}*"));
    Ok(repo.exclude(&others.collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>())?)
}

/// The index as it was when a change was set aside.
pub(crate) const INDEX_BEFORE: &str = "index.before";

/// The pattern by which git ignores a file of the working tree at `root`; nothing for one that is elsewhere.
pub fn exclude_pattern(file: &Path, root: &Path) -> Option<String> {
    let path = file.strip_prefix(root.canonicalize().ok()?).ok()?.to_str()?;
    let is_special = |c: char| matches!(c, '\\' | '*' | '?' | '[' | ' ');
    let escaped = path.chars().map(|c| if is_special(c) { format!("\\{c}") } else { c.to_string() });
    (!path.contains(['\n', '\r'])).then(|| format!("/{}", escaped.collect::<String>()))
}

/// Removes one of `ar`'s own files, if it is there. A folder in its place is moved away.
pub(crate) fn remove_file(path: &Path) -> Result<(), SessionError> {
    if fs::symlink_metadata(path).is_ok_and(|there| there.is_dir()) {
        let failed = |source| SessionError::Io { action: "move", path: path.to_owned(), source };
        return move_away(path).map(drop).map_err(failed);
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(SessionError::Io { action: "remove", path: path.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

/// Makes a folder of `ar`'s own that is empty.
pub(crate) fn clear_folder(folder: &Path) -> Result<(), SessionError> {
    let cleared = move_no_folder_away(folder)
        .and_then(|_| make_folder(folder))
        .and_then(|()| fs::remove_dir_all(folder))
        .and_then(|()| make_folder(folder));
    cleared.map_err(|source| SessionError::Io { action: "clear", path: folder.to_owned(), source })
}

/// The file of settings in the root of the working tree, which is the user's alone.
pub const SETTINGS_FILE: &str = "ar.toml";

/// Refuses an experiment that there may be no room for after those of `history`.
pub(crate) fn refuse_full(repo: &Repo, folder: &SessionFolder, history: &History) -> Result<(), SessionError> {
    let last = history.records().last().and_then(|record| folder.run_log(record.id).metadata().ok());
    let last_log = last.map_or(0, |meta| meta.len());
    check(repo, folder, "the disk is too full for an experiment", |space| too_little_space(space, last_log))
}

/// Refuses what a run or the agent left that ended on a full disk and for that reason says nothing about its idea.
pub(crate) fn refuse_spoilt(repo: &Repo, folder: &SessionFolder, what: &str, failed: bool) -> Result<(), SessionError> {
    check(repo, folder, &format!("{what} ended on a full disk"), |space| spoilt_by_full_disk(space, failed))
}

/// An error that says `what`, if one of the disks that a session writes to is as `is_bad` says.
fn check(repo: &Repo, folder: &SessionFolder, what: &str, is_bad: impl Fn(Space) -> bool) -> Result<(), SessionError> {
    let main = repo.main_worktree();
    for path in [repo.worktree(), main, folder.root()] {
        // A system that does not tell stops nobody.
        if let Some(space) = exec::disk_space(path).ok().filter(|space| is_bad(*space)) {
            let runs = fs::read_dir(folder.runs()).into_iter().flatten().flatten().map(|run| run.path());
            let log = exec::log_that_fills_disk(runs.flat_map(|run| further_runs(&run).chain([run])));
            return Err(SessionError::NoRoom { what: what.to_owned(), space, path: path.to_owned(), log });
        }
    }
    Ok(())
}

/// A folder outside the session for what must be written while its own disk is full; none where all are.
pub(crate) fn folder_with_space() -> Option<PathBuf> {
    let folders = [Some(env::temp_dir()), Some("/dev/shm".into()), user_folder()];
    folders.into_iter().flatten().find(|path| has_space(path))
}

/// Returns whether a folder exists and its disk has enough free space.
pub(crate) fn has_space(path: &Path) -> bool {
    path.is_dir() && exec::disk_space(path).is_ok_and(|space| !too_little_space(space, 0))
}

/// A folder outside the repository that programs write to and whose disk is too full for them. A full disk of the session's
/// own stops the loop instead.
pub(crate) fn full_elsewhere() -> Option<PathBuf> {
    let folders = [Some(env::temp_dir()), Some("/dev/shm".into()), env::home_dir()];
    let is_full = |path: &PathBuf| exec::disk_space(path).is_ok_and(|space| spoilt_by_full_disk(space, true));
    folders.into_iter().flatten().find(is_full)
}

/// Maximum number of ignored files examined.
const MOST: usize = 10_000;

/// Ignored files with what the file system says of them.
#[derive(Debug, Default)]
pub(crate) struct IgnoredFiles {
    stamps: BTreeMap<PathBuf, Option<FileStamp>>,
    /// True if there may be more of them.
    is_cut: bool,
}

impl IgnoredFiles {
    /// Looks at those of a working tree; `ar`'s own are none of them.
    pub(crate) fn look(repo: &Repo) -> Result<IgnoredFiles, SessionError> {
        Ok(IgnoredFiles::of(repo.worktree(), repo.working_tree.ignored_files(MOST)?, MOST))
    }

    fn of(root: &Path, found: Vec<PathBuf>, most: usize) -> IgnoredFiles {
        let is_cut = found.len() >= most;
        let files = found.into_iter().filter(|path| !is_own(path));
        IgnoredFiles { stamps: files.map(|path| (path.clone(), FileStamp::of(&root.join(path)))).collect(), is_cut }
    }

    /// Those that are new, gone or changed since.
    pub(crate) fn changed(&self, repo: &Repo) -> Result<Vec<String>, SessionError> {
        // An incomplete list omits files at random, so it cannot show which files are new.
        let mut now = if self.is_cut { Vec::new() } else { repo.working_tree.ignored_files(MOST)? };
        now.sort();
        Ok(self.differing(repo.worktree(), &now))
    }

    fn differing(&self, root: &Path, now: &[PathBuf]) -> Vec<String> {
        let changed = self.stamps.iter().filter(|(path, stamp)| FileStamp::of(&root.join(path)) != **stamp);
        let new = now.iter().filter(|path| !self.is_cut && !is_own(path) && !self.stamps.contains_key(*path));
        changed.map(|(path, _)| path).chain(new).map(|path| path.display().to_string()).collect()
    }
}

/// The ignored files of the working tree that a command line names, with their stamps.
pub(crate) fn ignored_inputs(repo: &Repo, line: &str) -> Result<BTreeMap<String, String>, SessionError> {
    let root = repo.worktree();
    let mut inputs = BTreeMap::new();
    for path in files_named(line) {
        // Git ignores nothing outside its repository.
        if path.components().all(|part| matches!(part, Component::Normal(_)))
            && root.join(&path).is_file()
            && repo.working_tree.is_ignored(&path)?
            && let Some(stamp) = stamp(&root.join(&path))
        {
            inputs.insert(path.display().to_string(), stamp);
        }
    }
    Ok(inputs)
}

/// Returns a file's stamp as text. It changes whenever the file is written.
pub(crate) fn stamp(path: &Path) -> Option<String> {
    let meta = fs::metadata(path).ok()?;
    let times = [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()];
    Some(format!("{}:{}:{}:{times:?}", meta.dev(), meta.ino(), meta.len()))
}

/// The variable with the seed of a run.
pub(crate) const SEED: &str = "AR_SEED";

/// A line of Python that reads it.
pub const SEED_LINE: &str = "seed = int(os.environ.get(\"AR_SEED\", 1))";

/// The most bytes of a file that are looked through: code is shorter.
const LARGEST: u64 = 1 << 20;

/// The most files that are looked through.
const MOST_READ: usize = 10_000;

/// Returns whether the command or a file that a session starts with names the seed's variable, but for those that only tell of
/// it; without a session, the tracked files of the working tree. True if there are too many files to say.
pub fn takes_seed(repo: &Repo, start: Option<&CommitId>, command: Option<&str>) -> bool {
    if command.is_some_and(|command| command.contains(SEED)) {
        return true;
    }
    let head = || repo.refs.head_if_sound().ok()??.commit().cloned();
    let files = start.cloned().or_else(head).map(|commit| repo.objects.files_at(&commit, |_| true));
    let Some(Ok(files)) = files else { return true };
    let tells = |path: &Path| [PROGRAM, SETTINGS_FILE].iter().any(|name| path == Path::new(name));
    let names = |path: &Path| {
        let text = match start.map(|start| repo.objects.read_at(start, path, LARGEST)) {
            Some(Ok(Stored::File(text))) => text,
            Some(_) => Vec::new(),
            None => read_at_most(&repo.worktree().join(path), LARGEST).unwrap_or_default(),
        };
        text.windows(SEED.len()).any(|part| part == SEED.as_bytes())
    };
    files.len() > MOST_READ || files.iter().any(|path| !tells(path) && names(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_is_cut_calls_no_file_new_or_gone_that_it_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let paths = ["a", "b", "c", "d"].map(PathBuf::from);
        for path in &paths {
            fs::write(root.join(path), "x").unwrap();
        }
        let cut = IgnoredFiles::of(root, paths[..2].to_vec(), 2);
        let whole = IgnoredFiles::of(root, paths[..2].to_vec(), 3);
        assert!(cut.differing(root, &paths[1..3]).is_empty(), "all were there before");
        assert_eq!(whole.differing(root, &paths[1..3]), ["c"]);
        fs::write(root.join("a"), "longer").unwrap();
        fs::remove_file(root.join("b")).unwrap();
        assert_eq!(cut.differing(root, &paths[1..3]), ["a", "b"]);
    }
}
