//! The git program, started for what an agent's folder is not trusted with in this process.
//!
//! It runs no hook, no maintenance and no program that a setting names, and does not read the user's settings.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use super::error::{At, GitError, Result};
use crate::domain::shell_word;
use crate::fs::program_on_path;
use crate::unix::{end_with_this_thread, limit_memory};

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

/// What bubblewrap shows git of the machine: everything, read-only, and no process outside.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
