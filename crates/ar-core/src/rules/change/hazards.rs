//! Hazards that make a run measure other code than its tree's: the code of another tree, another Python, files that
//! Python imports instead of a module, or files and refs that change while the run is active; and ignored files, whose
//! changes no commit has.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use percent_encoding::percent_decode_str;
use serde::Deserialize;

use super::files_named;
use crate::domain::{ExperimentId, Failure, FailureClass, LOCK_FILES, Record, WordList, list, word_list};

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

/// Programs installed beside the interpreter that they start.
const LAUNCHERS: [&str; 3] = ["torchrun", "accelerate", "deepspeed"];

/// Programs that start the interpreter of the project's own environment.
const RUNNERS: [&str; 5] = ["uv", "poetry", "pdm", "hatch", "rye"];

/// The places of that environment, relative to the root of the working tree.
const PROJECT_PYTHON: &str = ".venv/bin/python";

/// A Python interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Python {
    /// The one with this name or path.
    Named(String),
    /// The one beside the program with this name or path.
    Beside(String),
}

/// The interpreters that a command line names, each once. It does not parse like a shell: any word that is the name or path of
/// one counts, and words with characters other than letters, digits and `./_-+` do not.
pub fn pythons_of(command: &str) -> Vec<Python> {
    let mut pythons = Vec::new();
    let mut is_run = false;
    for word in command.split(|c: char| c.is_whitespace() || ";&|()<>".contains(c)) {
        if word.is_empty() || !word.chars().all(|c| c.is_ascii_alphanumeric() || "./_-+".contains(c)) {
            continue;
        }
        let name = word.rsplit('/').next().unwrap_or(word);
        let python = if RUNNERS.contains(&name) {
            is_run = true;
            Python::Named(PROJECT_PYTHON.into())
        } else if LAUNCHERS.contains(&name) && !is_run {
            Python::Beside(word.into())
        // A runner starts the project's interpreter, whatever its name.
        } else if is_python(name) && (!is_run || word.contains('/')) {
            Python::Named(word.into())
        } else {
            continue;
        };
        if !pythons.contains(&python) {
            pythons.push(python);
        }
    }
    pythons
}

/// `python`, `python3`, `python3.12`.
fn is_python(name: &str) -> bool {
    name.strip_prefix("python").is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// The modules that a path shadows: Python looks for a package, then a compiled module, then the source, and prefers
/// the source's bytecode if it exists. A link or a nested repository may be a package: `is_opaque` marks those, whose
/// content is not examined. A plain folder shadows nothing.
pub fn modules_behind(path: &Path, is_opaque: bool) -> Vec<PathBuf> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let folder = path.parent().unwrap_or(Path::new(""));
    let stem = name.split('.').next().unwrap_or(name);
    let source = |folder: &Path, stem: &str| folder.join(format!("{stem}.py"));
    let mut modules = Vec::new();
    if is_bytecode(name) && folder.ends_with("__pycache__") {
        modules.extend(folder.parent().map(|folder| source(folder, stem)));
    } else if stem == "__init__" && stem != name {
        let package = folder.file_name().and_then(|package| package.to_str());
        modules.extend(folder.parent().zip(package).map(|(above, package)| source(above, package)));
    }
    if is_compiled(name) || (is_opaque && stem == name) {
        modules.push(source(folder, stem));
    }
    modules
}

/// Returns whether a file name is that of a compiled module.
pub fn is_compiled(name: &str) -> bool {
    [".so", ".pyd"].iter().any(|end| name.ends_with(end))
}

/// Returns whether a file name is that of Python bytecode.
pub fn is_bytecode(name: &str) -> bool {
    name.ends_with(".pyc")
}

/// The files that changed while a run was active.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Disturbance {
    /// Tracked files and the metric file.
    pub changed: Vec<PathBuf>,
    /// Protected files, also those that were changed back.
    pub touched: Vec<PathBuf>,
}

impl Disturbance {
    /// Leaves out files that do not count.
    pub fn without(mut self, is_exempt: impl Fn(&Path) -> bool) -> Disturbance {
        self.touched.retain(|path| !is_exempt(path));
        self.changed.retain(|path| !is_exempt(path));
        self
    }

    /// All of them, each once.
    pub fn paths(&self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = self.changed.iter().chain(&self.touched).cloned().collect();
        paths.sort();
        paths.dedup();
        paths
    }

    /// The failure in the place of the number, if there are any.
    pub fn failure(&self) -> Option<Failure> {
        let changed = self.paths();
        if changed.is_empty() {
            return None;
        }
        Some(match self.touched.is_empty() {
            true => Failure::new(FailureClass::Changed, changed_text(&changed)),
            false => Failure::new(
                FailureClass::Protected,
                format!("{} while the run was active, and changed back", were_changed(&self.touched)),
            ),
        })
    }
}

/// Says which files changed during a run.
pub fn changed_text(changed: &[PathBuf]) -> String {
    format!("{} changed while it ran", list(changed))
}

fn were_changed(paths: &[PathBuf]) -> String {
    format!("{} {} changed", list(paths), if paths.len() == 1 { "was" } else { "were" })
}

/// Refs by name, with the objects before and after.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefChanges {
    /// New refs, with their objects.
    pub foreign: Vec<(String, String)>,
    /// Moved refs, with their old and new objects.
    pub moved: Vec<(String, String, String)>,
    /// Deleted refs, with their old objects.
    pub gone: Vec<(String, String)>,
}

/// Compares refs with their earlier state, `were`.
pub fn compare_refs(were: &[(String, String)], are: &[(String, String)]) -> RefChanges {
    if were == are {
        return RefChanges::default();
    }
    let now: BTreeMap<&str, &str> = are.iter().map(|(name, object)| (name.as_str(), object.as_str())).collect();
    let before: BTreeMap<&str, &str> = were.iter().map(|(name, object)| (name.as_str(), object.as_str())).collect();
    let mut changes = RefChanges::default();
    for (name, was) in were {
        match now.get(name.as_str()) {
            None => changes.gone.push((name.clone(), was.clone())),
            Some(is) if is != was => changes.moved.push((name.clone(), was.clone(), (*is).to_owned())),
            Some(_) => {}
        }
    }
    changes.foreign = are.iter().filter(|(name, _)| !before.contains_key(name.as_str())).cloned().collect();
    changes
}

/// The experiments before whose runs ignored files changed, with those files: files that the command names, by their
/// stamps, and files that changed during the agent call.
pub fn ignored_changes(records: &[Record]) -> Vec<(ExperimentId, Vec<String>)> {
    let mut before: BTreeMap<String, String> = BTreeMap::new();
    let mut found = Vec::new();
    for record in records {
        let inputs = &record.conditions.ignored_inputs;
        let mut changed = record.conditions.ignored_changed.clone();
        let is_other = |(path, stamp): &(&String, &String)| before.get(*path).is_some_and(|before| before != *stamp);
        changed.extend(inputs.iter().filter(is_other).map(|(path, _)| path.clone()));
        if !changed.is_empty() {
            found.push((record.id, changed.into_iter().collect()));
        }
        before.extend(inputs.iter().map(|(path, stamp)| (path.clone(), stamp.clone())));
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::sample::record;

    fn paths(paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn absolute_paths_into_a_working_tree_are_found_wherever_a_command_has_them() {
        let roots = paths(&["/home/me/repo", "/mnt/disk/repo"]);
        for (line, found) in [
            ("python /home/me/repo/train.py", &["/home/me/repo/train.py"][..]),
            ("cd /home/me/repo && python train.py", &["/home/me/repo"]),
            ("cd /home/me/repo; make", &["/home/me/repo"]),
            ("python train.py --data=/mnt/disk/repo/data/", &["/mnt/disk/repo/data/"]),
            ("PYTHONPATH=/opt/x:/home/me/repo/src python a.py", &["/home/me/repo/src"]),
            ("sh -c 'python \"/home/me/repo/a.py\"'", &["/home/me/repo/a.py"]),
            (
                "python ~/repo/a.py $HOME/repo/b ${HOME}/repo",
                &["/home/me/repo/a.py", "/home/me/repo/b", "/home/me/repo"],
            ),
            ("~/repo/run.sh --out=~/repo/x", &["/home/me/repo/run.sh", "/home/me/repo/x"]),
            ("python /home/me/repository/a.py /home/me/repo2 /home/me/repo-old/x /home/me/repo.bak", &[]),
            ("python /backup/home/me/repo/a.py x/home/me/repo", &[]),
            ("python train.py --data ../data", &[]),
        ] {
            assert_eq!(paths_into(line, &roots, Some("/home/me")), paths(found), "{line}");
        }
        assert_eq!(paths_into("python ~/repo/a.py", &roots, None), paths(&[]));
    }

    #[test]
    fn a_search_path_leads_into_a_working_tree_by_its_absolute_entries() {
        let roots = paths(&["/repo"]);
        assert_eq!(entries_into("src:/repo/src::/repo:/repository", &roots), paths(&["/repo/src", "/repo"]));
        assert_eq!(entries_into("", &roots), paths(&[]));
    }

    #[test]
    fn a_command_may_have_python_look_in_the_tree_first() {
        for line in
            ["PYTHONPATH=src python a.py", "env \"PYTHONPATH=.:/x\" python a.py", "PYTHONPATH=$PWD/src:$PYTHONPATH a"]
        {
            assert!(looks_in_tree(line), "{line}");
        }
        for line in
            ["python a.py", "PYTHONPATH=/x:src python a.py", "PYTHONPATH= python a.py", "PYTHONPATH=$X:src python"]
        {
            assert!(!looks_in_tree(line), "{line}");
        }
    }

    #[test]
    fn uv_run_installs_a_package_unless_told_not_to() {
        assert!(syncs_environment("cd sub && uv run train.py") && syncs_environment("/opt/bin/uv sync"));
        assert!(links_from_cache("uv run train.py") && !links_from_cache("uv run --no-sync train.py"));
        for chosen in ["UV_LINK_MODE=copy uv run train.py", "uv sync --link-mode symlink && uv run train.py"] {
            assert!(!links_from_cache(chosen), "{chosen}");
        }
        assert!(!syncs_environment("uv run --no-sync train.py") && !syncs_environment("uvx run train.py"));
        assert!(is_package("[project]\nname = \"a\"\n[build-system]\nrequires = []\n"));
        assert!(is_package("[tool.uv]\npackage = true\n"));
        for text in ["[project]\nname = \"a\"\n", "[build-system]\n[tool.uv]\npackage = false\n", "[", ""] {
            assert!(!is_package(text), "{text}");
        }
    }

    #[test]
    fn files_of_editable_installs_are_known() {
        let names =
            ["__editable__.x-1.pth", "easy-install.pth", "x.egg-link", "__editable___x_1_finder.py", "_x_editable.py"];
        assert!(names.into_iter().all(says_where));
        assert!(!["x.py", "editable", "editable.pyc", "x-1.dist-info"].into_iter().any(says_where));
        let said = |url: &str, info: &str| editable_path(&format!("{{\"url\": \"{url}\", {info}}}"));
        let editable = "\"dir_info\": {\"editable\": true}";
        assert_eq!(said("file:///a%20b/c", editable), Some("/a b/c".into()));
        assert_eq!(said("file://localhost/a", editable), Some("/a".into()));
        assert_eq!(said("https://host/a", editable), None);
        assert_eq!(said("file:///a", "\"dir_info\": {}"), None);
        assert_eq!(said("file:///a", "\"archive_info\": {}"), None);
        assert_eq!(editable_path("{"), None);
    }

    #[test]
    fn what_git_and_ar_read_is_no_code() {
        assert!(
            ["train.py", "src/a.yaml", "Makefile", "lib/x.so", "sub/pyproject.toml"]
                .iter()
                .all(|path| may_be_code(Path::new(path)))
        );
        let others = [
            ".gitignore",
            "src/.gitattributes",
            "ar.toml",
            "program.md",
            "README.rst",
            "sub/uv.lock",
            "pyproject.toml",
        ];
        assert!(!others.iter().any(|path| may_be_code(Path::new(path))));
    }

    #[test]
    fn links_are_relative_to_the_root_and_within_it() {
        for (path, plain) in [("data", Some("data")), ("./a/./b/", Some("a/b")), (".", None), ("", None)] {
            assert_eq!(within(Path::new(path)), plain.map(PathBuf::from), "{path}");
        }
        assert!(["/data", "../data", "a/../b"].iter().all(|path| within(Path::new(path)).is_none()));
    }

    #[test]
    fn candidates_for_links_are_named_or_look_like_data() {
        let ignored = paths(&[
            ".env",
            ".venv",
            "build",
            "cache",
            "corpus.bin",
            "data",
            "local.yaml",
            "my",
            "runs/a.pt",
            "sub/data",
        ]);
        let found = |lines: &[&str], links: &[&str]| {
            let is_environment = |path: &Path| path == Path::new("my");
            candidates(&ignored, lines, &paths(links), is_environment)
        };
        assert_eq!(found(&[], &[]), paths(&[".venv", "corpus.bin", "data", "my", "runs/a.pt", "sub/data"]));
        let lines = ["python train.py --config=local.yaml", "sh guard.sh cache/x"];
        let expected = ["cache", "local.yaml", "my", "runs/a.pt", "sub/data"];
        assert_eq!(found(&lines, &[".venv", "corpus.bin", "data/small"]), paths(&expected));
    }

    #[test]
    fn a_slot_has_ports_temporary_files_and_an_environment_of_its_own_unless_the_user_set_them() {
        let tree = Path::new("/r/.autoresearch/t/trees/slot-3");
        let of = |tree: &Path, linked: bool, set: &[(&str, &str)]| {
            let get = |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            variables_of_slot(tree, 3, linked, get)
                .into_iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect::<Vec<_>>()
        };
        let port = "MASTER_PORT=29503";
        let temporary = "TMPDIR=/r/.autoresearch/t/trees/tmp-3";
        assert_eq!(
            of(tree, false, &[("TMPDIR", "")]),
            [port, temporary, "UV_PROJECT_ENVIRONMENT=/r/.autoresearch/t/trees/venv-3"]
        );
        assert_eq!(of(tree, true, &[]), [port, temporary]);
        assert_eq!(of(tree, true, &[("MASTER_PORT", "1"), ("TMPDIR", "/t")]), Vec::<String>::new());
        let deep = PathBuf::from(format!("/{}/trees/slot-3", "a".repeat(60)));
        assert_eq!(of(&deep, true, &[]), [port], "sockets below it would have names that are too long");
    }

    #[test]
    fn a_command_is_searched_for_the_interpreters_that_it_runs() {
        let python = |word: &str| Python::Named(word.into());
        for (command, pythons) in [
            ("sh train.sh", vec![]),
            ("python train.py > run.log 2>&1", vec![python("python")]),
            ("CUDA_VISIBLE_DEVICES=0 timeout 5m env/bin/python3.12 -u train.py", vec![python("env/bin/python3.12")]),
            ("uv run train.py", vec![python(PROJECT_PYTHON)]),
            ("cd x && uv run python train.py", vec![python(PROJECT_PYTHON)]),
            (
                "torchrun --nproc 8 train.py; python3 eval.py",
                vec![Python::Beside("torchrun".into()), python("python3")],
            ),
            ("(julia train.jl)|tee log", vec![]),
            ("\"$PY\" train.py; $(rm -rf python); pythonic python3x", vec![python("python")]),
        ] {
            assert_eq!(pythons_of(command), pythons, "{command}");
        }
    }

    #[test]
    fn knows_what_python_would_import_first() {
        let behind = |path: &str, is_opaque| modules_behind(Path::new(path), is_opaque);
        let modules = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        for path in ["prepare/__init__.py", "prepare.so", "prepare.cpython-312-x86_64-linux-gnu.so", "prepare.pyd"] {
            assert_eq!(behind(path, false), modules(&["prepare.py"]), "{path}");
        }
        assert_eq!(behind("lib/__pycache__/eval.cpython-312.pyc", false), modules(&["lib/eval.py"]));
        assert_eq!(behind("lib/__pycache__/__init__.cpython-312.pyc", false), modules(&["lib/__init__.py"]));
        assert_eq!(behind("lib/eval/__init__.abi3.so", false), modules(&["lib/eval.py", "lib/eval/__init__.py"]));
        assert_eq!(behind("prepare", true), modules(&["prepare.py"]));
        // A data folder beside the module, the source itself, and bytecode that Python does not load.
        for path in ["data/train.bin", "prepare", "prepare.py", "prepare.pyc", "prepare/eval.py"] {
            assert!(behind(path, false).is_empty(), "{path}");
        }
        assert!(behind("link.txt", true).is_empty());
    }

    #[test]
    fn each_change_is_known_for_what_it_is() {
        let refs = |refs: &[(&str, &str)]| -> Vec<(String, String)> {
            refs.iter().map(|(name, object)| ((*name).to_owned(), (*object).to_owned())).collect()
        };
        let were = refs(&[("a", "1"), ("b", "2"), ("c", "3")]);
        assert_eq!(compare_refs(&were, &were), RefChanges::default());
        let changes = compare_refs(&were, &refs(&[("a", "1"), ("b", "9"), ("d", "4")]));
        assert_eq!(changes.foreign, refs(&[("d", "4")]));
        assert_eq!(changes.moved, [("b".to_owned(), "2".to_owned(), "9".to_owned())]);
        assert_eq!(changes.gone, refs(&[("c", "3")]));
    }

    #[test]
    fn a_file_counts_from_the_run_on_before_which_it_changed() {
        let run = |id: u32, stamp: &str| record(json!({"id": id, "ignored_inputs": {"data/x.bin": stamp}}));
        let mut touched = run(3, "b");
        touched.conditions.ignored_changed.insert(".venv/x.py".into());
        let found = ignored_changes(&[run(0, "a"), run(1, "a"), run(2, "b"), touched, record(json!({"id": 4}))]);
        assert_eq!(found, [(2.into(), vec!["data/x.bin".to_owned()]), (3.into(), vec![".venv/x.py".to_owned()])]);
    }
}
