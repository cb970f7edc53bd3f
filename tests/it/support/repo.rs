//! A throw-away repository, and the git program as the judge of what was done to it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use autoresearch::agent::PRESETS;
use autoresearch::exec::disk_space;
use tempfile::TempDir;

use super::Template;

/// A repository in a folder of its own. The user's configuration and environment do not reach it.
#[derive(Debug)]
pub(crate) struct TestRepo {
    dir: TempDir,
    /// The setting of `ar` for walls.
    sandbox: &'static str,
}

/// The setting for walls in this run of the suite: that of `AR_TEST_SANDBOX`, else none.
fn sandbox() -> &'static str {
    if env::var("AR_TEST_SANDBOX").is_ok_and(|wanted| wanted == "require") { "require" } else { "off" }
}

/// Returns whether bubblewrap works here; where it does not, that is said, or a failure if all tests are to run.
pub(crate) fn can_have_walls() -> bool {
    let tried = Command::new("bwrap").args(["--unshare-user", "--dev-bind", "/", "/", "true"]).output();
    let they_work = tried.is_ok_and(|tried| tried.status.success());
    if !they_work {
        let all = env::var("AR_TEST_ALL").is_ok_and(|all| !all.is_empty());
        assert!(!all, "bubblewrap does not work here");
        let _ = writeln!(io::stderr(), "skipped: bubblewrap does not work here");
    }
    they_work
}

impl Drop for TestRepo {
    /// Ends what a test left going on, such as a run whose `ar` it killed: it would wait for its deadline.
    fn drop(&mut self) {
        if !self.exists(".git/autoresearch-owner") {
            return;
        }
        let left = self.processes();
        if !left.is_empty() {
            let _ = Command::new("kill").arg("-KILL").args(left).stderr(std::process::Stdio::null()).status();
        }
    }
}

/// Where the repositories are made: in memory where there is plenty, for all that is synced to the disk takes most of the
/// suite's time; else, or where `TMPDIR` says so, in the folder for temporary files.
fn place() -> PathBuf {
    const ENOUGH: u64 = 4 << 30;
    let memory = Path::new("/dev/shm");
    let is_roomy = env::var_os("TMPDIR").is_none() && disk_space(memory).is_ok_and(|space| space.free >= ENOUGH);
    if is_roomy { memory.to_owned() } else { env::temp_dir() }
}

/// The folder that has the shim of a version manager as its `python3`, and the folder of the program that it starts: a shim
/// takes eight times as long.
fn shim_of_python(path: &OsStr) -> Option<(PathBuf, PathBuf)> {
    let found = env::split_paths(path).find(|folder| folder.join("python3").is_file())?;
    let answer = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().ok()?;
    let program = PathBuf::from(String::from_utf8(answer.stdout).ok()?.trim());
    let folder = program.parent().filter(|folder| folder.join("python3").is_file())?;
    (folder != found).then(|| (found, folder.to_owned()))
}

/// The developer's PATH without shims of Python, and without the agents that `ar` knows by name: a folder that has one is
/// replaced by a folder of links to its other programs.
pub(crate) fn path_without_agents() -> &'static OsStr {
    static WITHOUT: OnceLock<OsString> = OnceLock::new();
    WITHOUT.get_or_init(|| {
        let path = env::var_os("PATH").unwrap_or_default();
        let shim = shim_of_python(&path);
        let folders = env::split_paths(&path).map(|folder| {
            let folder = shim.iter().find(|(shims, _)| *shims == folder).map_or(folder, |(_, real)| real.clone());
            let has_agent = PRESETS.iter().any(|preset| folder.join(preset.name).exists());
            if has_agent { links_without_agents(&folder) } else { folder }
        });
        env::join_paths(folders).unwrap()
    })
}

/// The git program by its path: a name would be looked up in the environment of each call, for which this large process forks
/// instead of spawning.
fn git_program() -> &'static Path {
    static GIT: OnceLock<PathBuf> = OnceLock::new();
    GIT.get_or_init(|| {
        let folders: Vec<PathBuf> = env::split_paths(path_without_agents()).collect();
        folders.iter().map(|folder| folder.join("git")).find(|git| git.is_file()).unwrap_or_else(|| "git".into())
    })
}

fn links_without_agents(folder: &Path) -> PathBuf {
    let name = folder.display().to_string().replace('/', "_");
    let links =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("without-agents-{}", std::process::id())).join(name);
    fs::create_dir_all(&links).unwrap();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if PRESETS.iter().all(|preset| entry.file_name() != preset.name) {
            std::os::unix::fs::symlink(entry.path(), links.join(entry.file_name())).unwrap();
        }
    }
    links
}

impl TestRepo {
    /// A folder for a repository, and a home beside it.
    pub(super) fn bare() -> TestRepo {
        let dir = tempfile::Builder::new().prefix("ar-test-").tempdir_in(place()).unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        fs::create_dir(dir.path().join("repo")).unwrap();
        TestRepo { dir, sandbox: sandbox() }
    }

    /// A repository on the unborn branch `main`.
    pub(crate) fn empty() -> TestRepo {
        static EMPTY: Template = Template::new();
        EMPTY.copy(TestRepo::initialized)
    }

    fn initialized() -> TestRepo {
        let repo = TestRepo::bare();
        repo.git(["init", "--quiet", "--initial-branch=main", "."]);
        // What the library reads in this process, where the environment is the developer's own.
        for (key, value) in [
            ("user.name", "Test"),
            ("user.email", "test@example.com"),
            ("commit.gpgSign", "false"),
            ("core.autocrlf", "false"),
            ("core.excludesFile", "/dev/null"),
            ("core.attributesFile", "/dev/null"),
            ("gc.auto", "0"),
        ] {
            repo.git(["config", key, value]);
        }
        repo
    }

    /// A repository with one commit on `main` that holds `train.py` and `README.md`.
    pub(crate) fn new() -> TestRepo {
        static ONE_COMMIT: Template = Template::new();
        ONE_COMMIT.copy(|| {
            let repo = TestRepo::empty();
            repo.write("train.py", "print('val_bpb: 1.0')\n");
            repo.write("README.md", "# test\n");
            repo.commit_all("first");
            repo
        })
    }

    /// The same without walls: for what `ar` finds out afterwards.
    pub(crate) fn without_walls(mut self) -> TestRepo {
        self.sandbox = "off";
        self
    }

    /// The same with walls; `None` where they cannot be built.
    pub(crate) fn with_walls(mut self) -> Option<TestRepo> {
        self.sandbox = "require";
        can_have_walls().then_some(self)
    }

    /// The root of the working tree.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    /// A folder beside the working tree, outside of it.
    pub(crate) fn outside(&self) -> &Path {
        self.dir.path()
    }

    /// The full path of a file.
    pub(crate) fn file(&self, path: impl AsRef<Path>) -> PathBuf {
        self.path().join(path)
    }

    /// Writes a file anew and makes the folders on the way.
    pub(crate) fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.file(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Writes a script beside the repository that can be started, and returns its path.
    pub(crate) fn executable(&self, name: &str, script: &str) -> PathBuf {
        let path = self.outside().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Reads a file as text.
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> String {
        fs::read_to_string(self.file(path)).unwrap()
    }

    /// Removes a file.
    pub(crate) fn rm(&self, path: impl AsRef<Path>) {
        fs::remove_file(self.file(path)).unwrap();
    }

    /// Makes a symbolic link.
    pub(crate) fn symlink(&self, target: impl AsRef<Path>, path: impl AsRef<Path>) {
        let path = self.file(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    /// Sets or clears the executable bit.
    pub(crate) fn chmod(&self, path: impl AsRef<Path>, executable: bool) {
        let mode = if executable { 0o755 } else { 0o644 };
        fs::set_permissions(self.file(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Whether there is anything at a path, a dangling link too.
    pub(crate) fn exists(&self, path: impl AsRef<Path>) -> bool {
        fs::symlink_metadata(self.file(path)).is_ok()
    }

    /// The ids of the processes that know of this repository.
    pub(crate) fn processes(&self) -> Vec<String> {
        let dir = self.dir.path().as_os_str().as_encoded_bytes();
        let names_it = |path: String| fs::read(path).is_ok_and(|text| text.windows(dir.len()).any(|part| part == dir));
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        pids.filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|pid| pid.parse::<u32>().is_ok_and(|pid| pid != std::process::id()))
            .filter(|pid| names_it(format!("/proc/{pid}/cmdline")) || names_it(format!("/proc/{pid}/environ")))
            .collect()
    }

    /// Gives a command the environment in which everything here runs.
    pub(crate) fn environment(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", path_without_agents())
            .env("HOME", self.dir.path().join("home"))
            .env("AR_SANDBOX", self.sandbox)
            // One run more before the first keep would change what most tests count; those of controls ask for them.
            .env("AR_CONTROL", "false")
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .env("GIT_AUTHOR_NAME", "Test")
            .env("GIT_AUTHOR_EMAIL", "test@example.com")
            .env("GIT_AUTHOR_DATE", "2026-01-02T03:04:05Z")
            .env("GIT_COMMITTER_NAME", "Test")
            .env("GIT_COMMITTER_EMAIL", "test@example.com")
            .env("GIT_COMMITTER_DATE", "2026-01-02T03:04:05Z");
    }

    /// Runs git in a folder, whatever comes of it.
    pub(crate) fn try_git_in<S: AsRef<OsStr>>(&self, dir: &Path, args: impl IntoIterator<Item = S>) -> Output {
        let mut command = Command::new(git_program());
        self.environment(&mut command);
        command.current_dir(dir).args(args).output().unwrap()
    }

    /// Runs git in the working tree, whatever comes of it.
    pub(crate) fn try_git<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Output {
        self.try_git_in(&self.path(), args)
    }

    /// Runs git in the working tree and gives its output, without the line break at its end; git must succeed.
    #[track_caller]
    pub(crate) fn git<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        let args: Vec<_> = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        let output = self.try_git(&args);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "git {args:?}: {out}{err}");
        out.strip_suffix('\n').unwrap_or(&out).to_owned()
    }

    /// Adds and commits everything; returns the commit.
    #[track_caller]
    pub(crate) fn commit_all(&self, message: &str) -> String {
        self.git(["add", "--all"]);
        self.git(["commit", "--quiet", "--allow-empty", "--message", message]);
        self.head()
    }

    /// The commit that `HEAD` is on.
    #[track_caller]
    pub(crate) fn head(&self) -> String {
        self.git(["rev-parse", "HEAD"])
    }

    /// What `git status --porcelain` says.
    #[track_caller]
    pub(crate) fn status(&self) -> String {
        self.git(["status", "--porcelain"])
    }
}
