//! Programs that this process waits for: filters and signing programs that gix starts, and git itself; and the settings
//! of git's by which others have programs run or files changed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs};

use gix::bstr::ByteSlice;
use gix::config::file::Metadata;
use gix::config::{File, Source};
use serde::{Deserialize, Serialize};

use super::{At, GitError, Repo, Result};
use crate::crash;
use crate::domain::shell_word;
use crate::fs::{FileStamp, find_program, folder_of, if_exists, program_on_path, read_regular};
use crate::unix::{end_with_this_thread, limit_memory};

/// Poll interval of the watchdog while a program can be running.
const POLL: Duration = Duration::from_millis(50);

/// Time that a filter still gets once the work should end: rolling back needs filters too.
pub const WAY_BACK: Duration = Duration::from_secs(10);

/// Time in which a signing program finishes unless it hangs.
const SIGNED_IN: Duration = Duration::from_secs(1);

/// The task of such a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::Display)]
pub enum Program {
    /// It converts a file between working tree and repository.
    #[strum(to_string = "a git filter")]
    Filter,
    /// It signs a commit.
    #[strum(to_string = "the signing program")]
    Signing,
    /// It is git, reading what a call committed.
    #[strum(to_string = "`git fetch`")]
    Fetch,
}

impl Program {
    /// The time limit of one: a filter may download a large file; a person may have to type a passphrase.
    pub(in crate::git) fn limit(self) -> Duration {
        match self {
            Program::Filter => Duration::from_secs(600),
            Program::Signing => Duration::from_secs(60),
            Program::Fetch => crash::limit(Duration::from_secs(300)),
        }
    }
}

/// The reason that a program was terminated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The user asked to stop.
    Asked,
    /// The time of the whole invocation is over.
    TimeOver,
    /// It ran into its own time limit.
    Late,
}

/// The state that the watchdog reads.
#[derive(Default)]
pub struct Programs {
    state: Mutex<State>,
    begun: Condvar,
    /// True if the user had asked to stop at the last check. Work of gix that checks this ends at once.
    stopping: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The program that can be running, when that began, and how many calls there are.
    running: Option<(Program, Instant)>,
    calls: u32,
    end: Option<Instant>,
    asked: Option<Box<dyn Fn() -> bool + Send>>,
    cut: Option<Cut>,
    /// The command lines of the configuration that is in effect.
    lines: Vec<(Program, String)>,
    /// A changed file of a program, which is not started any more.
    refused: BTreeMap<Program, PathBuf>,
}

/// The files that the configured programs consist of, as far as their command lines name them, each with its stamp.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramFiles(BTreeMap<(Program, PathBuf), Option<FileStamp>>);

impl Programs {
    /// Terminates programs that are still running at `end`.
    pub fn end_at(&self, end: Option<Instant>) {
        self.state().end = end;
    }

    /// Terminates programs once `asked` says that the user wants to stop.
    pub fn end_when(&self, asked: impl Fn() -> bool + Send + 'static) {
        self.state().asked = Some(Box::new(asked));
    }

    /// Takes these as the command lines of all programs that gix starts.
    pub(in crate::git) fn configure(&self, lines: Vec<(Program, String)>) {
        self.state().lines = lines;
    }

    /// The files of the configured programs as they are now, outside the working tree.
    pub fn files(&self) -> ProgramFiles {
        let lines = self.state().lines.clone();
        let words = lines.iter().flat_map(|(program, line)| line.split_whitespace().map(|word| (*program, word)));
        let named = |(program, word): (Program, &str)| {
            let path = at_home(word.trim_matches(['"', '\'', ';', '(', ')']));
            let found = if path.is_absolute() { Some(path) } else { find_program(path.to_str()?, Path::new("/")) }?;
            let file = found.canonicalize().ok()?;
            file.is_file().then(|| ((program, found), FileStamp::of(&file)))
        };
        ProgramFiles(words.filter_map(named).collect())
    }

    /// Starts no program again whose files are others than these; gives the files.
    pub fn refuse_changed(&self, before: &ProgramFiles) -> Vec<PathBuf> {
        let now = self.files();
        let keys: BTreeSet<_> = before.0.keys().chain(now.0.keys()).collect();
        let changed: BTreeSet<&(Program, PathBuf)> =
            keys.into_iter().filter(|key| before.0.get(key) != now.0.get(key)).collect();
        self.state().refused.extend(changed.iter().map(|(program, path)| (*program, path.clone())));
        changed.into_iter().map(|(_, path)| path.clone()).collect()
    }

    /// Begins work in which gix may start such programs.
    pub(in crate::git) fn call(self: &Arc<Self>, program: Program) -> Call {
        self.state().calls += 1;
        Call { program, programs: Arc::clone(self) }
    }

    /// Watches for as long as the thread of the caller lives. `terminate` ends all that can be such a program.
    pub fn watch(&self, terminate: impl Fn()) {
        let mut state = self.state();
        loop {
            if state.running.is_some_and(|(_, since)| since.elapsed() >= POLL) && state.is_asked() {
                self.stopping.store(true, Ordering::Relaxed);
            }
            state = match state.due() {
                Some(cut) => {
                    state.cut.get_or_insert(cut);
                    drop(state);
                    terminate();
                    self.state()
                }
                None => state,
            };
            state = match state.running {
                None => self.begun.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(_) => self.begun.wait_timeout(state, POLL).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_asked(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked())
    }

    /// Returns the reason to end the running program now, if there is one.
    fn due(&self) -> Option<Cut> {
        let (program, since) = self.running?;
        if since.elapsed() >= patience(program) && self.is_asked() {
            Some(Cut::Asked)
        } else if self.end.is_some_and(|end| Instant::now() >= end) {
            Some(Cut::TimeOver)
        } else if since.elapsed() >= program.limit() {
            Some(Cut::Late)
        } else {
            None
        }
    }
}

/// Returns the time that a program may still run after the user asked to stop. Rolling back needs filters, but signs
/// nothing.
fn patience(program: Program) -> Duration {
    crash::limit(match program {
        Program::Filter | Program::Fetch => WAY_BACK,
        Program::Signing => SIGNED_IN,
    })
}

/// A stretch of work in which gix may start programs and wait for them; ends when it is dropped. Once one of them is
/// terminated, all fail up to its end.
pub(in crate::git) struct Call {
    program: Program,
    programs: Arc<Programs>,
}

impl Call {
    /// A program may be running from here on, up to [`Call::check`] or the end of the call.
    ///
    /// # Errors
    ///
    /// A file of the program was changed.
    pub(in crate::git) fn begin(&self) -> Result<()> {
        let mut state = self.programs.state();
        if let Some(path) = state.refused.get(&self.program) {
            return Err(GitError::ChangedProgram { program: self.program, path: path.clone() });
        }
        adopt_orphans(true);
        state.running = Some((self.program, Instant::now()));
        self.programs.begun.notify_all();
        Ok(())
    }

    /// Set once the user has asked to stop.
    pub(in crate::git) fn stopping(&self) -> &AtomicBool {
        &self.programs.stopping
    }

    /// Ends the time in which a program can be running. Fails if the watchdog terminated a program meanwhile. Otherwise
    /// a filter that is not `required` would count as one that changes nothing.
    pub(in crate::git) fn check<T>(&self, done: Result<T>) -> Result<T> {
        let mut state = self.programs.state();
        state.running = None;
        adopt_orphans(false);
        match state.cut {
            Some(cut) => Err(self.cut(cut)),
            None => done,
        }
    }

    /// Does the same for work that failed and checks [`Call::stopping`].
    pub(in crate::git) fn check_failed(&self) -> Result<()> {
        self.check(Ok(()))?;
        if self.stopping().load(Ordering::Relaxed) { Err(self.cut(Cut::Asked)) } else { Ok(()) }
    }

    fn cut(&self, cut: Cut) -> GitError {
        GitError::Cut { program: self.program, limit: self.program.limit(), cut }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut state = self.programs.state();
        state.running = None;
        adopt_orphans(false);
        state.calls = state.calls.saturating_sub(1);
        if state.calls == 0 {
            state.cut = None;
        }
    }
}

/// While a program can be running, processes that it leaves behind become children of this one: one that forks twice and
/// keeps the pipe open would be found by nobody.
fn adopt_orphans(adopt: bool) {
    // If the system refuses, the watchdog finds only descendants of the program.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(adopt.then(rustix::process::getpid));
    #[cfg(not(target_os = "linux"))]
    let _ = adopt;
}

/// The oldest version that has all options used here.
const OLDEST: [u32; 2] = [2, 30];

/// The most memory of each of its processes, in bytes: it holds objects in memory that are no files.
const MEMORY: u64 = 4 << 30;

/// The most bytes read of what it prints.
const MOST: u64 = 1 << 20;

/// Settings of every call.
const SETTINGS: [&str; 5] = [
    "gc.auto=0",
    "maintenance.auto=false",
    "core.hooksPath=/dev/null",
    "core.alternateRefsCommand=true",
    // It holds no larger file in memory.
    "core.bigFileThreshold=32m",
];

/// The wall around git: all files read-only, and no process outside.
const WALL: &str = "--unshare-user --unshare-pid --die-with-parent --cap-drop ALL --ro-bind / / \
                    --dev-bind /dev/null /dev/null --chdir / --";

/// The user's settings for git: who owns a repository is checked when it is opened.
const USER_SETTINGS: &str = "[safe]\n\tdirectory = *\n";

/// The git program.
#[derive(Debug, Clone)]
pub struct GitProgram {
    path: PathBuf,
    builder: Option<PathBuf>,
}

impl GitProgram {
    /// Finds git on the PATH. Passes over the home folder and `trees`, where a job could put a program of its own. Git reads
    /// untrusted folders behind a wall that `builder` builds, which is bubblewrap.
    ///
    /// # Errors
    ///
    /// Git is missing or older than 2.30.
    pub fn find(trees: &[&Path], builder: Option<&Path>) -> Result<GitProgram> {
        let path = program_on_path("git", trees).ok_or(GitError::NoProgram(None))?;
        let output = Command::new(&path).arg("version").stdin(Stdio::null()).output().at("starting", &path)?;
        let said = String::from_utf8_lossy(&output.stdout);
        match is_supported(&said) {
            true => Ok(GitProgram { path, builder: builder.map(Path::to_owned) }),
            false => Err(GitError::NoProgram(Some(said.trim().to_owned()))),
        }
    }

    /// Writes what these arguments of `git rev-list` name durably into a bundle, with all that leads there. Returns whether it
    /// did.
    pub fn bundle(&self, repo: &Repo, file: &Path, named: &[&str]) -> Result<bool> {
        let (home, part) =
            (tempfile::tempdir().at("making a folder in", &env::temp_dir())?, file.with_extension("part"));
        let (place, to) = (format!("--git-dir={}", repo.common_dir().display()), part.display().to_string());
        // A call that was killed may have left them; git would not write over its lock.
        for left in [&part, &file.with_extension("part.lock")] {
            if_exists(fs::remove_file(left)).at("removing", left)?;
        }
        let words = [place.as_str(), "bundle", "create", &to].into_iter().chain(named.iter().copied());
        if run(&self.call(words), home.path(), &[], Stdio::null())?.is_none() {
            return Ok(false);
        }
        fs::File::open(&part).and_then(|part| part.sync_all()).at("syncing", &part)?;
        fs::rename(&part, file).at("renaming", &part)?;
        super::sync::folder(folder_of(file)).map(|()| true)
    }

    /// The words of a call with such arguments.
    pub(in crate::git) fn call<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let settings = SETTINGS.iter().flat_map(|setting| ["-c", setting]);
        let program = self.path.display().to_string();
        std::iter::once(program).chain(settings.chain(arguments).map(str::to_owned)).collect()
    }

    /// The words of a call that reads an untrusted folder, behind a wall, with such variables.
    pub(in crate::git) fn walled_call<'a>(
        &self,
        variables: &[(&str, String)],
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Vec<String> {
        let builder = self.builder.iter().map(|builder| builder.display().to_string());
        let wall = builder.flat_map(|builder| std::iter::once(builder).chain(WALL.split(' ').map(str::to_owned)));
        let variables = variables.iter().map(|(name, value)| format!("{name}={value}"));
        let variables = std::iter::once("env".to_owned()).chain(variables);
        wall.chain(variables).chain(self.call(arguments)).collect()
    }
}

/// Runs a call to its end, with such variables and with `home` as the home folder. Gives what it printed, at most 1 MiB;
/// `None` if it failed. It ends with the thread of the caller.
pub(in crate::git) fn run(
    call: &[String],
    home: &Path,
    variables: &[(&str, String)],
    input: Stdio,
) -> Result<Option<Vec<u8>>> {
    let settings = home.join(".gitconfig");
    fs::write(&settings, USER_SETTINGS).at("writing", &settings)?;
    let Some((program, arguments)) = call.split_first() else { return Ok(None) };
    let mut command = Command::new(program);
    for (name, _) in env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"GIT_")) {
        command.env_remove(name);
    }
    command.args(arguments).current_dir("/").envs(variables.iter().map(|(name, value)| (name, value)));
    command.envs([("HOME", home), ("XDG_CONFIG_HOME", home), ("GIT_CONFIG_GLOBAL", &settings)]);
    command.envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_ALLOW_PROTOCOL", "file"), ("GIT_NO_LAZY_FETCH", "1")]);
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::null());
    end_with_this_thread(&mut command);
    limit_memory(&mut command, MEMORY);
    let mut child = command.spawn().at("starting", Path::new(program))?;
    let mut printed = Vec::new();
    let read = child.stdout.take().map_or(Ok(0), |stdout| stdout.take(MOST).read_to_end(&mut printed));
    let status = child.wait().at("waiting for", Path::new(program))?;
    Ok((read.is_ok() && status.success()).then_some(printed))
}

/// Words as the shell reads them.
pub(in crate::git) fn shell_line(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| shell_word(Path::new(word))).collect();
    words.join(" ")
}

/// Returns whether what `git version` prints names a version that has all options used here.
fn is_supported(said: &str) -> bool {
    let version = said.trim().strip_prefix("git version ").unwrap_or_default();
    let numbers: Vec<u32> = version.split('.').map_while(|part| part.parse().ok()).collect();
    numbers.as_slice() >= OLDEST.as_slice()
}

/// The settings that change how git treats files, or what it runs, by their keys; of a file that one names, what the file system
/// says of it, too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedSettings(BTreeMap<String, String>);

/// The effect of a changed setting, also as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
pub enum SettingEffect {
    /// Programs that change files when git reads or writes them.
    #[strum(to_string = "git and the next session change files by these filters")]
    Filters,
    /// Programs and keys that sign commits.
    #[strum(to_string = "git and the next session sign commits by these")]
    Signatures,
    /// Files with attributes.
    #[strum(to_string = "git and `ar` take attributes such as filters from there, except for protected files")]
    Attributes,
    /// Programs that git starts at commits and the like.
    #[strum(to_string = "git runs the programs there, as at your commits; `ar` runs none")]
    Hooks,
    /// Any setting.
    #[strum(to_string = "git and the next `ar` take any setting from there")]
    Includes,
    /// The place of the working tree, and its existence.
    #[strum(to_string = "git works in another folder or in none, and the next `ar` refuses to start")]
    WorkingTree,
    /// Format extensions, which decide whether the repository can be opened.
    #[strum(to_string = "git and the next `ar` may refuse to open the repository")]
    Extensions,
}

impl SettingEffect {
    fn of(key: &str) -> Option<SettingEffect> {
        let is_include = || (key.starts_with("include.") || key.starts_with("includeif.")) && key.ends_with(".path");
        match key {
            "core.attributesfile" => Some(SettingEffect::Attributes),
            "core.hookspath" => Some(SettingEffect::Hooks),
            "core.worktree" | "core.bare" => Some(SettingEffect::WorkingTree),
            _ if key.starts_with("extensions.") => Some(SettingEffect::Extensions),
            "commit.gpgsign" | "user.signingkey" => Some(SettingEffect::Signatures),
            _ if key.starts_with("gpg.") => Some(SettingEffect::Signatures),
            _ if key.starts_with("filter.") => Some(SettingEffect::Filters),
            _ => is_include().then_some(SettingEffect::Includes),
        }
    }
}

impl Repo {
    /// Reads the watched settings from the files of this repository, of the user and of the machine. Does not read
    /// files that they include.
    pub fn watched_settings(&self) -> WatchedSettings {
        let mut files = vec![self.common_dir().join("config"), self.git_dir().join("config.worktree")];
        files.extend(Source::System.storage_location(&mut |name| env::var_os(name)));
        files.extend(files_of_user());
        let mut settings = BTreeMap::new();
        for file in files {
            // Git takes no setting from an unreadable file either; it only fails.
            let Ok(bytes) = read_regular(&file) else { continue };
            let Ok(config) = File::from_bytes_no_includes(&bytes, Metadata::default(), Default::default()) else {
                continue;
            };
            add(&mut settings, &config, file.parent().unwrap_or(Path::new("/")));
        }
        WatchedSettings(settings)
    }
}

/// The files with the user's own settings.
fn files_of_user() -> Vec<PathBuf> {
    if let Some(file) = env::var_os("GIT_CONFIG_GLOBAL") {
        return vec![file.into()];
    }
    let home = env::var_os("HOME").map(PathBuf::from);
    let xdg = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).or_else(|| Some(home.as_ref()?.join(".config")));
    let files = [xdg.map(|folder| folder.join("git").join("config")), home.map(|home| home.join(".gitconfig"))];
    files.into_iter().flatten().collect()
}

/// Adds the watched settings of a configuration file in `folder`.
fn add(settings: &mut BTreeMap<String, String>, config: &File, folder: &Path) {
    for section in config.sections() {
        let section_name = section.header().name().to_string().to_ascii_lowercase();
        let subsection = section.header().subsection_name().map(|name| format!("{name}.")).unwrap_or_default();
        for value_name in section.value_names() {
            let key = format!("{section_name}.{subsection}{}", value_name.to_string().to_ascii_lowercase());
            let Some(effect) = SettingEffect::of(&key) else { continue };
            let values = section.values(&value_name.to_string());
            let mut text = values.iter().map(|value| value.to_string()).collect::<Vec<_>>().join("\n");
            if matches!(effect, SettingEffect::Attributes | SettingEffect::Includes) {
                let stamps = values.iter().map(|value| FileStamp::of(&folder.join(at_home(&value.to_str_lossy()))));
                text.extend(stamps.map(|stamp| format!("\n{stamp:?}")));
            }
            settings.entry(key).or_default().push_str(&text);
        }
    }
}

/// A path in the home folder, if it is written as one.
fn at_home(path: &str) -> PathBuf {
    match ["~/", "$HOME/"].iter().find_map(|home| path.strip_prefix(home)).zip(env::var_os("HOME")) {
        Some((rest, home)) => Path::new(&home).join(rest),
        None => path.into(),
    }
}

impl WatchedSettings {
    /// The keys of those that are others `now`, or were put in or taken out, by what that brings about.
    pub fn changed(&self, now: &WatchedSettings) -> BTreeMap<SettingEffect, Vec<String>> {
        let mut changed: BTreeMap<SettingEffect, Vec<String>> = BTreeMap::new();
        let new = now.0.keys().filter(|key| !self.0.contains_key(*key));
        for key in self.0.keys().chain(new).filter(|key| self.0.get(*key) != now.0.get(*key)) {
            if let Some(effect) = SettingEffect::of(key) {
                changed.entry(effect).or_default().push(key.clone());
            }
        }
        changed.values_mut().for_each(|keys| keys.sort());
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_running_is_cut_for_one_reason_at_a_time_and_nothing_else_is() {
        let mut state = State::default();
        let now = Instant::now();
        state.end = Some(now);
        assert_eq!(state.due(), None, "nothing is running");
        state.running = Some((Program::Filter, now));
        assert_eq!(state.due(), Some(Cut::TimeOver));
        state.asked = Some(Box::new(|| true));
        state.end = None;
        assert_eq!(state.due(), None, "the way back may need it");
        let Some(before) = now.checked_sub(WAY_BACK) else { return };
        state.running = Some((Program::Filter, before));
        assert_eq!(state.due(), Some(Cut::Asked));
        let Some(second) = now.checked_sub(SIGNED_IN) else { return };
        state.running = Some((Program::Filter, second));
        assert_eq!(state.due(), None, "a filter may still be needed");
        state.running = Some((Program::Signing, second));
        assert_eq!(state.due(), Some(Cut::Asked), "a signing program is not");
        state.asked = None;
        assert_eq!(state.due(), None);
        let Some(before) = now.checked_sub(Duration::from_secs(61)) else { return };
        state.running = Some((Program::Filter, before));
        assert_eq!(state.due(), None);
        state.running = Some((Program::Signing, before));
        assert_eq!(state.due(), Some(Cut::Late));
    }

    #[test]
    fn git_from_2_30_on_is_supported() {
        for said in
            ["git version 2.30.0\n", "git version 2.39.5 (Apple Git-154)", "git version 3.0", "git version 2.47.rc1"]
        {
            assert!(is_supported(said), "{said}");
        }
        for said in ["git version 2.29.9", "git version 1.99", "", "hub version 2.40", "git version two"] {
            assert!(!is_supported(said), "{said}");
        }
    }

    fn settings(text: &str) -> WatchedSettings {
        let config = File::from_bytes_no_includes(text.as_bytes(), Metadata::default(), Default::default()).unwrap();
        let mut settings = BTreeMap::new();
        add(&mut settings, &config, Path::new("/nowhere"));
        WatchedSettings(settings)
    }

    #[test]
    fn changed_settings_are_told_by_their_effect_and_others_are_not() {
        let before =
            settings("[core]\n\tautocrlf = false\n[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n\trequired\n");
        assert!(before.changed(&before).is_empty());
        let now = settings(
            "[core]\n\tautocrlf = true\n\tworktree = /tmp\n\tHooksPath = /tmp/hooks\n[Filter \"lfs\"]\n\tclean = cat\n\trequired\n\
             [include]\n\tpath = more\n[includeIf \"gitdir:x\"]\n\tpath = other\n[user]\n\tname = x\n",
        );
        let changed = before.changed(&now);
        assert_eq!(changed[&SettingEffect::Hooks], ["core.hookspath"]);
        assert_eq!(changed[&SettingEffect::Filters], ["filter.lfs.clean"]);
        assert_eq!(changed[&SettingEffect::Includes], ["include.path", "includeif.gitdir:x.path"]);
        assert_eq!(changed[&SettingEffect::WorkingTree], ["core.worktree"]);
        assert_eq!(changed.len(), 4);
        assert_eq!(now.changed(&before).len(), 4, "what is taken out is named, too");
    }
}
