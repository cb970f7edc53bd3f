//! The git folder of one call of an agent: a repository of its own on the real objects, of which `ar` takes over what was
//! committed, and nothing else.
//!
//! This process never opens the folder as a repository once an agent had it, and the git program does so behind a wall: its
//! configuration, links, alternates and hooks are whatever the agent made of them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::{fs, io};

use gix::bstr::{BString, ByteSlice};
use gix::config::File;
use gix::config::file::Metadata;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, open, openat, statat, unlinkat};
use tempfile::{Builder, TempDir};

use crate::domain::CommitId;
use crate::fs::{if_exists, is_irregular, make_folder, move_away, read_at_most, read_regular, remove_all};
use crate::git::{
    At, CopiedRefs, Cut, During, GitError, GitProgram, HeadTarget, Program, Repo, Result, committed_in, identity,
    object_id, programs, quote, shell_line, to_git, to_path, with_gc_retry,
};

/// The largest file beside the objects that is copied or read, in bytes.
const LARGEST: u64 = 64 << 20;

/// The deepest folder of hooks below another one.
const DEEPEST: u32 = 8;

/// Folders that a git folder has.
const FOLDERS: [&str; 6] = ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info", "logs"];

/// Files that all working trees share, and files of one of them.
const COMMON: [&str; 4] = ["info/attributes", "info/exclude", "info/grafts", "shallow"];

const OWN: [&str; 3] = ["info/sparse-checkout", "ORIG_HEAD", "FETCH_HEAD"];

/// The git folder of one call of an agent.
///
/// The call sees it at the place of `.git`. Where that is a file, the call sees [`CallGit::link`] there instead. It is complete
/// but for the real objects, which the call sees read-only at [`CallGit::shared`].
#[derive(Debug, Clone)]
pub struct CallGit {
    folder: PathBuf,
}

impl CallGit {
    /// Names the folder, by an absolute path; creates nothing.
    pub fn at(folder: PathBuf) -> CallGit {
        CallGit { folder }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The empty folder in it over which the real `objects` folder is mounted.
    pub fn shared(&self) -> PathBuf {
        // Git LFS finds its own files beside a folder of objects, at `lfs`.
        self.folder.join("shared/objects")
    }

    /// The file in it that leads to it, for a working tree whose `.git` is a file.
    pub fn link(&self) -> PathBuf {
        self.folder.join("dot-git")
    }
}

impl Repo {
    /// Makes the git folder of a call in this working tree, with a detached `HEAD` at `base`, and with index, refs,
    /// configuration and hooks as they are now. Removes what an earlier call left there.
    ///
    /// Syncs nothing: whoever starts a call makes it anew.
    pub fn make_call_git(&self, call: &CallGit, base: &CommitId) -> Result<()> {
        clear(call.folder())?;
        for folder in FOLDERS.map(|name| call.folder.join(name)).into_iter().chain([call.shared()]) {
            make_folder(&folder).at("making the folder", &folder)?;
        }
        for (_, folder) in self.also_shared(call, call.folder()) {
            make_folder(&folder).at("making the folder", &folder)?;
        }
        write(&call.folder.join("objects/info/alternates"), &self.alternates(call)?)?;
        let common = self.plain_common_dir();
        for (from, names) in [(common.as_path(), &COMMON[..]), (self.git_dir(), &OWN)] {
            for name in names {
                copy(&from.join(name), &call.folder.join(name))?;
            }
        }
        self.copy_hooks(call)?;
        copy_config(&common, &common.join("config"), &call.folder.join("config"))?;
        copy_config(&common, &self.git_dir().join("config.worktree"), &call.folder.join("config.worktree"))?;
        self.copy_refs(call)?;
        if let Some(index) = self.index.whole_bytes()? {
            write(&call.folder.join("index"), &index)?;
        }
        write(&call.folder.join("logs/HEAD"), &self.first_line(base)?)?;
        write(&call.link(), &[b"gitdir: ", call.folder.as_os_str().as_bytes(), b"\n"].concat())?;
        write(&call.folder.join("HEAD"), format!("{base}\n").as_bytes())
    }

    /// Folders besides the objects that a call may read: each with its place in the call, where git sees the call's folder at
    /// `git`. The files of submodules and of Git LFS.
    pub fn also_shared(&self, call: &CallGit, git: &Path) -> Vec<(PathBuf, PathBuf)> {
        let lfs = call.shared().with_file_name("lfs");
        let modules = self.git_dir().join("modules");
        let all = [(modules, git.join("modules")), (self.plain_common_dir().join("lfs"), lfs)];
        all.into_iter().filter(|(real, _)| real.is_dir()).collect()
    }

    /// The folder that all working trees share, without the way through the folder of a linked one.
    fn plain_common_dir(&self) -> PathBuf {
        plain(self.common_dir())
    }

    /// The folders in which git finds objects: the real ones, and those on which they rest. Git takes a relative one there for
    /// one relative to the place at which it sees the real ones.
    fn alternates(&self, call: &CallGit) -> Result<Vec<u8>> {
        const WHAT: &str = "reading the alternates of the objects";
        let objects = self.plain_common_dir().join("objects");
        let file = objects.join("info/alternates");
        let more = if_exists(read_regular(&file)).at("reading", &file)?.unwrap_or_default();
        let more = gix::odb::alternate::parse(&more).during(WHAT)?;
        let mut text = Vec::new();
        for folder in [call.shared()].into_iter().chain(more.into_iter().map(|folder| plain(&objects.join(folder)))) {
            let folder = to_git(&folder)?;
            let folder = if folder.contains(&b'\n') { quote(folder.as_bstr(), true) } else { folder };
            text.extend_from_slice(&folder);
            text.push(b'\n');
        }
        Ok(text)
    }

    fn copy_refs(&self, call: &CallGit) -> Result<()> {
        let CopiedRefs { packed, symbolic } = self.refs.copied()?;
        write(&call.folder.join("packed-refs"), &packed)?;
        for (name, to) in symbolic {
            let file = call.folder.join(to_path(name.as_bstr()));
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder).at("making the folder", folder)?;
            }
            write(&file, format!("ref: {}\n", to.as_bstr()).as_bytes())?;
        }
        Ok(())
    }

    /// Copies the hooks, also those in another folder of git's that the configuration names.
    fn copy_hooks(&self, call: &CallGit) -> Result<()> {
        let common = self.plain_common_dir();
        let hooks = common.join("hooks");
        copy_folder(&hooks, &call.folder.join("hooks"), DEEPEST)?;
        let Some(named) = self.gix.config_snapshot().string("core.hooksPath") else { return Ok(()) };
        let named = plain(&self.worktree().join(to_path(named.as_bstr())));
        match named.strip_prefix(&common) {
            Ok(inside) if named != hooks => copy_folder(&named, &call.folder.join(inside), DEEPEST),
            _ => Ok(()),
        }
    }

    /// The first line of the log of `HEAD`: by it `HEAD@{1}` is the base after one commit, and `git switch -` finds the branch.
    fn first_line(&self, base: &CommitId) -> Result<Vec<u8>> {
        let from = match self.refs.head_if_sound()? {
            Some(head) => head.target(),
            None => HeadTarget::Detached(base.clone()),
        };
        let mut line = format!("{base} {base} ").into_bytes();
        identity(&self.gix)?.committer.write_to(&mut line).during("writing the log of HEAD")?;
        line.extend_from_slice(format!("\tcheckout: moving from {from} to {base}\n").as_bytes());
        Ok(line)
    }
}

/// Removes the folder of an earlier call; moves it away where processes of that call still write to it.
fn clear(folder: &Path) -> Result<()> {
    match remove_all(folder) {
        Err(_) if folder.symlink_metadata().is_ok() => move_away(folder).map(drop).at("moving", folder),
        removed => removed.at("removing", folder),
    }
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::write(path, content).at("writing", path)
}

/// Copies a file of git's; nothing if it is missing, no file or too large.
fn copy(from: &Path, to: &Path) -> Result<()> {
    match read_at_most(from, LARGEST) {
        Ok(content) => write(to, &content),
        Err(_) => Ok(()),
    }
}

/// Copies the programs in a folder, but for examples. A link to a file becomes a file, and one to a folder stays a link.
fn copy_folder(from: &Path, to: &Path, deepest: u32) -> Result<()> {
    let Some(entries) = if_exists(fs::read_dir(from)).at("reading", from)? else { return Ok(()) };
    make_folder(to).at("making the folder", to)?;
    for entry in entries {
        let entry = entry.at("reading", from)?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().at("reading", &path)?;
        if path.extension() == Some("sample".as_ref()) {
            continue;
        } else if kind.is_dir() {
            if deepest > 0 {
                copy_folder(&path, &to, deepest - 1)?;
            }
        } else if path.is_dir() {
            symlink(path.canonicalize().at("reading", &path)?, &to).at("writing", &to)?;
        } else if !is_irregular(&path) {
            // A link that leads nowhere is none.
            if_exists(fs::copy(&path, &to)).at("writing", &to)?;
        }
    }
    Ok(())
}

/// A path without `..` where that changes nothing.
fn plain(path: &Path) -> PathBuf {
    gix::path::normalize(Cow::Borrowed(path), Path::new("")).map_or_else(|| path.to_owned(), Cow::into_owned)
}

const WHAT: &str = "copying git's configuration";

/// The most files that include each other; git has the same limit.
const DEEPEST_INCLUDE: u32 = 10;

/// Settings for a complete folder beside its working tree. A monitor of files started in a call would outlive it.
const OWN_SETTINGS: &[u8] = b"\n[core]\n\tbare = false\n\tfsmonitor = false\n\tsplitIndex = false\n";

/// Copies a configuration file of the git folder `common`, and those in that folder that it includes. Relative paths of
/// included files become absolute. `core.worktree` goes: the working tree is where it is found.
fn copy_config(common: &Path, from: &Path, to: &Path) -> Result<()> {
    if let Some(mut bytes) = copied(common, from, to, DEEPEST_INCLUDE)? {
        bytes.extend_from_slice(OWN_SETTINGS);
        fs::write(to, bytes).at("writing", to)?;
    }
    Ok(())
}

/// The copy of a configuration file of the folder `common` whose own copy is the folder of `to`; `None` if it is missing
/// or unreadable. Copies those that it includes.
fn copied(common: &Path, from: &Path, to: &Path, deepest: u32) -> Result<Option<Vec<u8>>> {
    let Ok(bytes) = read_regular(from) else { return Ok(None) };
    // Git itself cannot read such a file either, and says so.
    let Ok(mut file) = File::from_bytes_no_includes(&bytes, Metadata::default(), Default::default()) else {
        return Ok(Some(bytes));
    };
    let folder = from.parent().unwrap_or(Path::new("/"));
    let ids: Vec<_> = file.sections_and_ids().map(|(_, id)| id).collect();
    for id in ids {
        let Some(mut section) = file.section_mut_by_id(id) else { continue };
        let name = section.header().name().to_str_lossy().to_ascii_lowercase();
        if name == "core" {
            while section.remove("worktree").is_some() {}
        } else if name == "include" || name == "includeif" {
            let paths = section.values("path");
            while section.remove("path").is_some() {}
            for path in paths {
                let path = included(common, folder, path, to, deepest)?;
                section.push("path", path.as_bstr()).during(WHAT)?;
            }
        }
    }
    Ok(Some(file.to_bstring().into()))
}

/// The path of an included file, absolute. One in the folder `common` is copied, as the call sees its own folder there.
fn included(common: &Path, folder: &Path, path: BString, to: &Path, deepest: u32) -> Result<BString> {
    if path.starts_with(b"~") || path.starts_with(b"%(prefix)") {
        return Ok(path);
    }
    let place = plain(&folder.join(to_path(path.as_bstr())));
    if let Ok(inside) = place.strip_prefix(common)
        && deepest > 0
    {
        let copy = to.with_file_name(inside);
        if !copy.exists()
            && let Some(bytes) = copied(common, &place, to, deepest - 1)?
        {
            let above = copy.parent().unwrap_or(&copy);
            fs::create_dir_all(above).at("making the folder", above)?;
            fs::write(&copy, bytes).at("writing", &copy)?;
        }
    }
    to_git(&place)
}

/// The most commits in the log of `HEAD` that are looked at, from its end, and the most that `HEAD` leads to.
const MOST_COMMITS: usize = 100;

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
    /// The number of commits that it made and that could not be taken over.
    pub lost: usize,
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
        let (folder, mut commits) = (call.folder(), CallCommits { tip: base.clone(), logged: Vec::new(), lost: 0 });
        if make_plain(folder).is_err() {
            return Ok(commits);
        }
        let log = read_at_most(&folder.join("logs/HEAD"), LARGEST).unwrap_or_default();
        let mut logged = committed_in(&log);
        logged.retain(|commit| object_id(commit).is_ok());
        logged.drain(..logged.len().saturating_sub(MOST_COMMITS));
        let head = read_at_most(&folder.join("HEAD"), LARGEST).unwrap_or_default();
        if logged.is_empty() && head.trim_ascii() == base.as_str().as_bytes() {
            return Ok(commits);
        }
        let import = CallImport { repo: self, folder, base, git };
        let line = import.line()?;
        let named: BTreeSet<CommitId> = line.iter().chain(&logged).cloned().collect();
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
        commits.lost = named.iter().filter(|commit| !self.objects.has_commit(commit)).count();
        Ok(commits)
    }
}

/// The folder of a call from which commits are fetched.
struct CallImport<'a> {
    repo: &'a Repo,
    folder: &'a Path,
    base: &'a CommitId,
    git: &'a GitProgram,
}

impl CallImport<'_> {
    /// The commits from the one that `HEAD` leads to up to the base, by their first parents; none if it cannot be read.
    fn line(&self) -> Result<Vec<CommitId>> {
        let place = format!("--git-dir={}", self.folder.display());
        let most = format!("--max-count={MOST_COMMITS}");
        let call =
            self.git.walled_call(&self.variables()?, [&place, "rev-list", "--first-parent", &most, "HEAD", "--"]);
        let printed = self.in_place(|place| self.run(&call, place, &[], Stdio::null()))?.unwrap_or_default();
        let commits = printed.lines().map(|line| CommitId::new(line.to_str_lossy()));
        Ok(commits.take_while(|commit| commit != self.base && object_id(commit).is_ok()).collect())
    }

    /// Fetches commits with all that they lead to, each object checked and none in part. Returns whether all of it is in the
    /// repository now.
    fn fetch(&self, commits: &[&CommitId]) -> Result<bool> {
        self.in_place(|place| self.fetch_into(place, commits))
    }

    fn fetch_into(&self, place: &TempDir, commits: &[&CommitId]) -> Result<bool> {
        let serve = ["-c", "uploadpack.allowAnySHA1InWant=true", "-c", "pack.window=0", "-c", "pack.compression=0"];
        let serve = self.git.walled_call(&self.variables()?, serve.into_iter().chain(["upload-pack", "--strict"]));
        let (serve, from) = (format!("--upload-pack={}", shell_line(&serve)), self.folder.display().to_string());
        let fetch = "-c fetch.fsckObjects=true -c fetch.unpackLimit=1 fetch --quiet --no-tags --no-write-fetch-head --no-recurse-submodules";
        let wanted = [serve.as_str(), "--", &from].into_iter().chain(commits.iter().map(|commit| commit.as_str()));
        if !self.write(&self.git.call(fetch.split_whitespace().chain(wanted)), place, OBJECTS, Stdio::null())? {
            return Ok(false);
        }
        let packs = place.path().join(OBJECTS).join("pack");
        for pack in fs::read_dir(&packs).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if pack.extension() == Some("pack".as_ref()) {
                let input = fs::File::open(&pack).at("reading", &pack)?;
                if !self.write(&self.git.call(["unpack-objects", "-q"]), place, LOOSE, input.into())? {
                    return Ok(false);
                }
            }
        }
        self.repo.objects.adopt(&place.path().join(LOOSE))?;
        Ok(true)
    }

    /// Works in such a repository, and again in another one if it is removed meanwhile: a `git prune --expire=now` takes it for
    /// what a killed git left.
    fn in_place<T>(&self, work: impl Fn(&TempDir) -> Result<T>) -> Result<T> {
        with_gc_retry(|| {
            let place = self.place()?;
            let done = work(&place);
            let is_there = |name: &&str| place.path().join(name).metadata().map(drop);
            [OBJECTS, LOOSE].iter().try_for_each(is_there).at("reading", place.path())?;
            Ok(done)
        })?
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
        watched.begin()?;
        match watched.check(programs::run(call, place.path(), variables, input)) {
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
    remove_odd(&open(folder, FOLDER, Mode::empty())?, folder, LARGEST)?;
    LEADING.iter().try_for_each(|name| remove_all(&folder.join(name)))?;
    let config = folder.join("config");
    remove_all(&config)?;
    // A link that another process of the agent puts there meanwhile is not followed.
    fs::File::create_new(config)?.write_all(CONFIG.as_bytes())
}

/// Flags that open a folder, but not through a link.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes what is neither a folder nor a file, here and below, and files that are larger than `largest` and no objects. Works by
/// descriptors, as another process of the agent may put a link in the place of a folder meanwhile.
fn remove_odd(folder: &OwnedFd, path: &Path, largest: u64) -> io::Result<()> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let path = path.join(OsStr::from_bytes(name.to_bytes()));
                let below = openat(folder, name, FOLDER, Mode::empty())?;
                remove_odd(&below, &path, if path.ends_with("git/objects") { u64::MAX } else { largest })?;
            }
            FileType::RegularFile if u64::try_from(stat.st_size).is_ok_and(|size| size <= largest) => {}
            _ => unlinkat(folder, name, AtFlags::empty())?,
        }
    }
    Ok(())
}
