//! Taking over what a call committed: `git fetch` from its folder.
//!
//! Of that folder git sees plain files alone. What could make git wait, lead it elsewhere or have it start a program goes
//! first, so objects, refs and `HEAD` are left. The side that reads the folder runs behind a wall, too.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use gix::bstr::ByteSlice;
use tempfile::{Builder, TempDir};

use super::CallGit;
use crate::domain::CommitId;
use crate::fs::{read_at_most, remove_all};
use crate::git::command::{self, GitProgram, shell_line};
use crate::git::error::{At, GitError, Result};
use crate::git::path::{object_id, quote, to_git};
use crate::git::programs::{Cut, Program};
use crate::git::refs::committed_in;
use crate::git::repo::Repo;

/// The most commits in the log of `HEAD` that are looked at, from its end, and the most that `HEAD` leads to.
const MOST: usize = 100;

/// The largest file that is read beside the objects, in bytes.
const LARGEST: u64 = 64 << 20;

/// Files by which the folder names other folders.
const LEADING: [&str; 4] = ["commondir", "config.worktree", "objects/info/alternates", "objects/info/http-alternates"];

/// Folders of a repository to fetch into: of what was fetched, and of the same as objects in files of their own.
const OBJECTS: &str = "objects";
const LOOSE: &str = "loose";

/// The configuration with which git reads the folder, and fetches.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n";

/// The commits of a call, all of them in the repository now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallCommits {
    /// The commit that `HEAD` leads to. If it is not whole, the nearest of its first ancestors that is and that the call made;
    /// else the base.
    pub tip: CommitId,
    /// The commits made by `git commit`, the oldest first, also those that were reset; at most the last 100.
    pub logged: Vec<CommitId>,
}

impl Repo {
    /// Takes over the commits of a call, which began at `base` and is over, and stages the last one. Nothing leads to them
    /// afterwards; refs, configuration, hooks and what was only staged stay behind.
    ///
    /// When this returns, the commits are on the disk with all that belongs to them.
    ///
    /// # Errors
    ///
    /// The repository cannot be read or written. The content of the call's folder is no error, whatever it is.
    pub fn import_call_git(&self, call: &CallGit, base: &CommitId, git: &GitProgram) -> Result<CallCommits> {
        let (folder, mut commits) = (call.folder(), CallCommits { tip: base.clone(), logged: Vec::new() });
        if make_plain(folder).is_err() {
            return Ok(commits);
        }
        let log = read_at_most(&folder.join("logs/HEAD"), LARGEST).unwrap_or_default();
        let mut logged = committed_in(&log);
        logged.retain(|commit| object_id(commit).is_ok());
        logged.drain(..logged.len().saturating_sub(MOST));
        let head = read_at_most(&folder.join("HEAD"), LARGEST).unwrap_or_default();
        if logged.is_empty() && head.trim_ascii() == base.as_str().as_bytes() {
            return Ok(commits);
        }
        let import = Import { repo: self, folder, base, git };
        let line = import.line()?;
        let all: Vec<&CommitId> = line.first().into_iter().chain(&logged).collect();
        if all.is_empty() {
            return Ok(commits);
        }
        if import.fetch(&all)? {
            commits.tip = line.into_iter().next().unwrap_or(commits.tip);
        } else {
            for commit in line {
                if self.objects.has_commit(&commit) || import.fetch(&[&commit])? {
                    commits.tip = commit;
                    break;
                }
            }
            for commit in &logged {
                import.fetch(&[commit])?;
            }
        }
        if commits.tip != *base {
            self.index.stage(self.objects.tree_id(&commits.tip)?)?;
        }
        commits.logged = logged;
        commits.logged.retain(|commit| self.objects.has_commit(commit));
        Ok(commits)
    }
}

/// The folder of a call from which commits are fetched.
struct Import<'a> {
    repo: &'a Repo,
    folder: &'a Path,
    base: &'a CommitId,
    git: &'a GitProgram,
}

impl Import<'_> {
    /// The commits from the one that `HEAD` leads to up to the base, by their first parents; none if it cannot be read.
    fn line(&self) -> Result<Vec<CommitId>> {
        let place = format!("--git-dir={}", self.folder.display());
        let most = format!("--max-count={MOST}");
        let call =
            self.git.walled_call(&self.variables()?, [&place, "rev-list", "--first-parent", &most, "HEAD", "--"]);
        let printed = self.run(&call, &self.place()?, &[], Stdio::null())?.unwrap_or_default();
        let commits = printed.lines().map(|line| CommitId::new(line.to_str_lossy()));
        Ok(commits.take_while(|commit| commit != self.base && object_id(commit).is_ok()).collect())
    }

    /// Fetches commits with all that they lead to, each object checked and none in part. Returns whether all of it is in the
    /// repository now.
    fn fetch(&self, commits: &[&CommitId]) -> Result<bool> {
        let place = self.place()?;
        let serve = ["-c", "uploadpack.allowAnySHA1InWant=true", "-c", "pack.window=0", "-c", "pack.compression=0"];
        let serve = self.git.walled_call(&self.variables()?, serve.into_iter().chain(["upload-pack", "--strict"]));
        let (serve, from) = (format!("--upload-pack={}", shell_line(&serve)), self.folder.display().to_string());
        let fetch = "-c fetch.fsckObjects=true fetch --quiet --no-tags --no-write-fetch-head --no-recurse-submodules";
        let wanted = [serve.as_str(), "--", &from].into_iter().chain(commits.iter().map(|commit| commit.as_str()));
        if !self.write(&self.git.call(fetch.split_whitespace().chain(wanted)), &place, OBJECTS, Stdio::null())? {
            return Ok(false);
        }
        let packs = place.path().join(OBJECTS).join("pack");
        for pack in fs::read_dir(&packs).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if pack.extension() == Some("pack".as_ref()) {
                let input = File::open(&pack).at("reading", &pack)?;
                if !self.write(&self.git.call(["unpack-objects", "-q"]), &place, LOOSE, input.into())? {
                    return Ok(false);
                }
            }
        }
        self.repo.objects.adopt(&place.path().join(LOOSE))?;
        Ok(true)
    }

    /// Makes a repository to fetch into, which has the base and rests on the real objects. Git removes what is left of one.
    fn place(&self) -> Result<TempDir> {
        let objects = self.objects()?;
        let place = Builder::new().prefix("tmp_ar-").tempdir_in(&objects).at("making a folder in", &objects)?;
        for folder in [OBJECTS, LOOSE, "refs/heads"].map(|name| place.path().join(name)) {
            fs::create_dir_all(&folder).at("making the folder", &folder)?;
        }
        let base = format!("{}\n", self.base);
        for (name, content) in [("config", CONFIG), ("HEAD", "ref: refs/heads/base\n"), ("refs/heads/base", &base)] {
            let file = place.path().join(name);
            fs::write(&file, content).at("writing", &file)?;
        }
        Ok(place)
    }

    /// Runs a call that writes objects into a folder of a place.
    fn write(&self, call: &[String], place: &TempDir, into: &str, input: Stdio) -> Result<bool> {
        let path = |path: &Path| path.display().to_string();
        let own = [("GIT_DIR", path(place.path())), ("GIT_OBJECT_DIRECTORY", path(&place.path().join(into)))];
        let variables: Vec<_> = self.variables()?.into_iter().chain(own).collect();
        if self.run(call, place, &variables, input)?.is_some() {
            return Ok(true);
        }
        // A full disk is no fault of the call's folder.
        let probe = place.path().join("probe");
        fs::write(&probe, [0; 1 << 16]).at("writing", &probe).map(|()| false)
    }

    /// The folder of the real objects.
    fn objects(&self) -> Result<PathBuf> {
        let objects = self.repo.objects.objects_dir();
        objects.canonicalize().at("reading", &objects)
    }

    /// The variables of calls in a folder that rests on the real objects: each object stands for itself, and a shallow clone
    /// ends where the repository does.
    fn variables(&self) -> Result<[(&'static str, String); 4]> {
        Ok([
            ("GIT_ALTERNATE_OBJECT_DIRECTORIES", quote(to_git(&self.objects()?)?.as_bstr(), true).to_string()),
            ("GIT_SHALLOW_FILE", self.repo.common_dir().join("shallow").display().to_string()),
            ("GIT_GRAFT_FILE", "/dev/null".to_owned()),
            ("GIT_NO_REPLACE_OBJECTS", "1".to_owned()),
        ])
    }

    /// Runs git; one that does not end has failed.
    fn run(
        &self,
        call: &[String],
        place: &TempDir,
        variables: &[(&str, String)],
        input: Stdio,
    ) -> Result<Option<Vec<u8>>> {
        let watched = self.repo.programs().call(Program::Fetch);
        watched.begin();
        match watched.check(command::run(call, place.path(), variables, input)) {
            Err(GitError::Cut { cut: Cut::Late, .. }) => Ok(None),
            ended => ended,
        }
    }
}

/// Leaves nothing in the folder of a call but plain folders and files, without those that name other folders or programs, and
/// without huge ones beside the objects.
fn make_plain(folder: &Path) -> io::Result<()> {
    if !folder.symlink_metadata()?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    remove_odd(folder, LARGEST)?;
    LEADING.iter().try_for_each(|name| remove_all(&folder.join(name)))?;
    let config = folder.join("config");
    remove_all(&config)?;
    fs::write(config, CONFIG)
}

/// Removes what is neither a folder nor a file, here and below, and files that are larger than `largest` and no objects.
fn remove_odd(folder: &Path, largest: u64) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let (path, meta) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
        if meta.is_dir() {
            remove_odd(&path, if path.ends_with("git/objects") { u64::MAX } else { largest })?;
        } else if !meta.is_file() || meta.len() > largest {
            remove_all(&path)?;
        }
    }
    Ok(())
}
