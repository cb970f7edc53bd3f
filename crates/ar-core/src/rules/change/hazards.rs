//! Hazards that make a run in a linked working tree measure the code of another tree.

use std::path::{Component, Path, PathBuf};

use percent_encoding::percent_decode_str;
use serde::Deserialize;

use super::named_files::files_named;
use crate::domain::{LOCK_FILES, WordList, word_list};

/// The first port of `torch.distributed` for a slot, which is that of slot 0: the default of PyTorch.
const FIRST_PORT: u32 = 29500;

/// The variable with the port at which the processes of a run meet.
pub const PORT: &str = "MASTER_PORT";

/// The port of a run, by the number of its slot or of its job.
pub fn port_of(number: u32) -> u32 {
    FIRST_PORT + number % 1000
}

/// The variable that says how `uv` brings packages from its cache into an environment.
pub const UV_LINK_MODE: &str = "UV_LINK_MODE";

/// The longest path in bytes that `TMPDIR` may have: Python's `multiprocessing` makes sockets below it whose names are 32
/// bytes longer, and a socket's path has 108 at most.
const LONGEST_TMPDIR: usize = 70;

/// The paths below one of `roots` that a text names, as far as they can be read in it; `~` and `$HOME` are `home`. The text is
/// a command line, or a file with paths in it.
pub fn paths_into(text: &str, roots: &[PathBuf], home: Option<&str>) -> Vec<PathBuf> {
    let text = home.map_or_else(|| text.to_owned(), |home| with_home(text, home));
    let mut found = Vec::new();
    for root in roots.iter().filter_map(|root| root.to_str()) {
        for (at, _) in text.match_indices(root) {
            let is_whole = |c: char| !c.is_alphanumeric() && !matches!(c, '/' | '.' | '_' | '-');
            let (before, after) = (text[..at].chars().next_back(), &text[at + root.len()..]);
            let ends = after.chars().next().is_none_or(|c| c == '/' || is_whole(c));
            if !before.is_none_or(is_whole) || !ends {
                continue;
            }
            let end = after.find(|c: char| c.is_whitespace() || "\"'`;|&()<>:,]}".contains(c)).unwrap_or(after.len());
            let path = PathBuf::from(format!("{root}{}", &after[..end]));
            if !found.contains(&path) {
                found.push(path);
            }
        }
    }
    found
}

fn with_home(text: &str, home: &str) -> String {
    let mut text = text.replace("${HOME}", home).replace("$HOME/", &format!("{home}/"));
    for before in [" ", "\"", "=", ":", "("] {
        text = text.replace(&format!("{before}~/"), &format!("{before}{home}/"));
    }
    match text.strip_prefix("~/") {
        Some(rest) => format!("{home}/{rest}"),
        None => text,
    }
}

/// The entries of a search path, such as the value of `PYTHONPATH`, that are at or below one of `roots`.
pub fn entries_into(search_path: &str, roots: &[PathBuf]) -> Vec<PathBuf> {
    let entries = search_path.split(':').map(PathBuf::from);
    entries.filter(|entry| roots.iter().any(|root| entry.starts_with(root))).collect()
}

/// Returns whether a command line makes Python look first in the run's working tree: `PYTHONPATH=src python train.py`.
pub fn looks_in_tree(line: &str) -> bool {
    let values =
        line.split_whitespace().filter_map(|word| word.trim_start_matches(['"', '\'']).strip_prefix("PYTHONPATH="));
    let first = |value: &str| value.trim_matches(['"', '\'']).split(':').next().map(str::to_owned);
    values
        .filter_map(first)
        .any(|first| !first.is_empty() && (first.starts_with("$PWD") || !first.starts_with(['/', '$', '~'])))
}

/// Returns whether a command line makes `uv` update its environment before the command.
pub fn syncs_environment(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let runs = words.windows(2).any(|pair| Path::new(pair[0]).ends_with("uv") && matches!(pair[1], "run" | "sync"));
    runs && !words.contains(&"--no-sync")
}

/// Returns whether a command line makes `uv` install packages from its cache by hard links, unless a variable says otherwise.
pub fn links_from_cache(line: &str) -> bool {
    syncs_environment(line) && !line.contains(UV_LINK_MODE) && !line.contains("--link-mode")
}

/// Returns whether a `pyproject.toml` describes a package. `uv` installs such a package as an editable one.
pub fn is_package(pyproject: &str) -> bool {
    let Ok(table) = pyproject.parse::<toml::Table>() else { return false };
    let asked = table.get("tool").and_then(|tool| tool.get("uv")).and_then(|uv| uv.get("package"));
    asked.and_then(toml::Value::as_bool).unwrap_or_else(|| table.contains_key("build-system"))
}

/// Returns whether a file among installed packages may name the path of an editable one.
pub fn says_where(name: &str) -> bool {
    let is_python = Path::new(name).extension().is_some_and(|extension| extension == "py");
    name.ends_with(".pth") || name.ends_with(".egg-link") || is_python && name.contains("editable")
}

/// The path in `direct_url.json` of an editable package.
pub fn editable_path(direct_url: &str) -> Option<PathBuf> {
    #[derive(Deserialize)]
    struct DirectUrl {
        url: String,
        #[serde(default)]
        dir_info: DirInfo,
    }
    #[derive(Default, Deserialize)]
    struct DirInfo {
        #[serde(default)]
        editable: bool,
    }
    let said: DirectUrl = serde_json::from_str(direct_url).ok()?;
    let path = said.url.strip_prefix("file://").filter(|_| said.dir_info.editable)?;
    // After the slashes may come the name of this host.
    let path = &path[path.find('/')?..];
    percent_decode_str(path).decode_utf8().ok().map(|path| PathBuf::from(path.as_ref()))
}

/// Returns whether a tracked file may be code or configuration of runs. A run in another working tree has no reason to
/// open such a file. Prose, lock files, and files that git and `ar` read do not count, nor do those in the root that tools look
/// for in all folders above.
pub fn may_be_code(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_prose = [".md", ".rst", ".txt"].iter().any(|end| name.ends_with(end));
    let is_sought = SOUGHT_ABOVE.iter().any(|sought| path == Path::new(sought));
    !name.starts_with(".git") && name != "ar.toml" && !is_prose && !is_sought && !LOCK_FILES.contains(&name)
}

/// Files that tools look for in the folders above a project to find the workspace that it belongs to: uv, cargo, npm and pnpm,
/// Go. A working tree that has the same file is what they find first.
const SOUGHT_ABOVE: [&str; 8] = [
    "pyproject.toml",
    "uv.toml",
    ".python-version",
    "Cargo.toml",
    "package.json",
    "pnpm-workspace.yaml",
    ".npmrc",
    "go.work",
];

/// A path as it is meant, relative to the repository's root: without `.` and a slash at the end. `None` for one that leads out
/// of it, or is the root itself.
pub fn within(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!plain.as_os_str().is_empty()).then_some(plain)
}

/// Folders with data, models or an environment, by the names that people give them.
static FOLDERS: WordList = WordList::new(|| word_list(include_str!("../lists/data_folders.txt")));

/// Extensions of files with data or models.
static DATA: WordList = WordList::new(|| word_list(include_str!("../lists/data_extensions.txt")));

/// Those of the ignored files and folders that runs may need: that one of the command lines names, or that look like data or
/// an environment. Those that are, or lead to, what `links` name are left out.
pub fn candidates<'a>(
    ignored: impl IntoIterator<Item = &'a PathBuf>,
    lines: &[&str],
    links: &[PathBuf],
    is_environment: impl Fn(&Path) -> bool,
) -> Vec<PathBuf> {
    let named: Vec<PathBuf> = lines.iter().flat_map(|line| files_named(line)).collect();
    let is_named = |path: &Path| named.iter().any(|named| named.starts_with(path));
    let is_like_data = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        FOLDERS.contains(&name) || DATA.contains(&extension) || is_environment(path)
    };
    let overlaps_link = |path: &Path| links.iter().any(|link| path.starts_with(link) || link.starts_with(path));
    let found = ignored.into_iter().filter(|path| !overlaps_link(path) && (is_named(path) || is_like_data(path)));
    found.cloned().collect()
}

/// Environment variables that keep the runs of slots apart, each unless `variable` shows that `ar` has it: the port of
/// `torch.distributed`, temporary files with the compiled caches among them, and the environment of `uv` unless one is linked.
/// `tree` is the slot's working tree; the folder for temporary files stands beside it, and the caller makes it.
pub fn variables_of_slot(
    tree: &Path,
    slot: u32,
    has_linked_environment: bool,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<(String, String)> {
    let beside = |name: String| tree.parent().and_then(|trees| Some(trees.join(name).to_str()?.to_owned()));
    let temporary = beside(format!("tmp-{slot}")).filter(|path| path.len() <= LONGEST_TMPDIR);
    let environment = beside(format!("venv-{slot}")).filter(|_| !has_linked_environment);
    let all = [(PORT, Some(port_of(slot).to_string())), ("TMPDIR", temporary), ("UV_PROJECT_ENVIRONMENT", environment)];
    let unset = all.into_iter().filter(|(name, _)| variable(name).is_none_or(|value| value.is_empty()));
    unset.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

#[cfg(test)]
#[path = "hazards_tests.rs"]
mod tests;
