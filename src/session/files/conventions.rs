//! The repository's own conventions, as its `program.md` and its notebooks state them, and the programs that its command
//! lines call.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

use serde_json::Value;

use crate::agent::{BUILT_IN_PROGRAM, PRESETS, Preset};
use crate::domain::{DialectFormat, LedgerDialect};
use crate::fs::{find_program, read_at_most};
use crate::rules::{
    Columns, Suggested, calls_score, columns_of, files_named, own_loop, printed_metric, start_command, suggested,
};
use crate::session::errors::{CommandRole, SessionError};

/// The file in which a repository tells an agent what to do.
pub const PROGRAM: &str = "program.md";

/// Largest `program.md` that is read, in bytes.
const LARGEST_PROGRAM: u64 = 1 << 20;

/// Largest notebook that is read, in bytes. Notebooks may contain pictures.
const LARGEST_NOTEBOOK: u64 = 16 << 20;

/// Maximum number of notebooks, and of files of any kind, that are read.
const NOTEBOOKS: usize = 16;

const MOST_FILES: usize = 64;

/// Extensions of the files whose code may print a metric.
const SCRIPTS: [&str; 17] =
    ["py", "sh", "bash", "js", "mjs", "ts", "rs", "go", "c", "cc", "cpp", "cu", "java", "jl", "R", "rb", "pl"];

/// The conventions found in a repository.
#[derive(Debug, Clone, Default)]
pub struct Conventions {
    /// The columns that it asks of results.tsv, and the file that names them.
    pub columns: Option<(Columns, String)>,
    /// The steps of `ar` that its `program.md` assigns to the agent. Empty without a `program.md` of its own.
    pub own_loop: Vec<&'static str>,
    /// Its own `program.md`.
    program: String,
}

impl Conventions {
    /// Reads `program.md` in `root`, and the notebooks there and one folder below. Skips unreadable files.
    pub fn of(root: &Path) -> Conventions {
        let program = read_program(root).unwrap_or_default();
        let own = program.trim().strip_prefix(BUILT_IN_PROGRAM.trim()).unwrap_or(&program);
        let by_program = || Some((columns_of(own)?, PROGRAM.to_owned()));
        let by_notebook = || {
            notebooks(root).iter().find_map(|path| {
                let name = path.strip_prefix(root).unwrap_or(path).display().to_string();
                Some((columns_of(&code_of(&read_at_most(path, LARGEST_NOTEBOOK).ok()?)?)?, name))
            })
        };
        let columns = by_program().or_else(by_notebook);
        Conventions { columns, own_loop: own_loop(own), program: own.to_owned() }
    }

    /// Returns the command, metric and time limit that its `program.md` suggests.
    pub fn suggested(&self) -> Suggested {
        suggested(&self.program)
    }

    /// The dialect for a new results.tsv, where the repository speaks one.
    pub fn dialect(&self) -> Option<LedgerDialect> {
        match self.columns {
            Some((Columns::Of(dialect), _)) => Some(dialect),
            _ => None,
        }
    }

    /// Explains the columns of a new results.tsv, if the repository asks for other than the default ones.
    pub fn ledger_text(&self) -> Option<String> {
        match self.columns.as_ref()? {
            (Columns::Of(dialect), _) if *dialect == LedgerDialect::default() => None,
            (Columns::Of(dialect), file) => {
                Some(format!("{file} uses {dialect:?}'s columns: a new results.tsv has {}", columns_text(*dialect)))
            }
            (Columns::Others(names), file) => Some(format!(
                "{file} names columns that ar does not write ({}): a new results.tsv has {}",
                names.join(", "),
                columns_text(LedgerDialect::default())
            )),
        }
    }

    /// Describes a `program.md` that makes the agent run the loop.
    pub fn program_text(&self) -> Option<String> {
        // Any `program.md` may mention one of these in passing.
        (self.own_loop.len() > 1).then(|| {
            format!(
                "{PROGRAM} tells the agent to {} by itself: the agent gets it after ar's protocol, as goals and constraints",
                and_list(&self.own_loop)
            )
        })
    }
}

/// The command, metric and direction that the repository's own scripts suggest: those that the command names and start in turn,
/// else all in the root and one folder below. Skips unreadable files.
pub fn suggested_by_scripts(root: &Path, command: Option<&str>) -> Suggested {
    let read = |path: &Path| String::from_utf8(read_at_most(&root.join(path), LARGEST_PROGRAM).ok()?).ok();
    let command = command.map(str::to_owned).or_else(|| start_command(|name| read(Path::new(name))));
    let is_script = |path: &Path| {
        let by_name = path.file_name().is_some_and(|name| name == "Makefile" || name == "justfile");
        by_name || path.extension().is_some_and(|extension| SCRIPTS.iter().any(|known| extension == *known))
    };
    let notes = read(Path::new("autoresearch.md")).unwrap_or_default();
    let named = |text: &str| -> String {
        files_named(text).iter().filter(|path| is_script(path)).filter_map(|path| read(path)).collect()
    };
    let mut scripts = named(command.as_deref().unwrap_or_default());
    scripts += &named(&scripts);
    let found = printed_metric(&scripts, &notes);
    let found = if found.metric.is_some() || !found.beside.is_empty() {
        found
    } else {
        let all = files_in(root, &is_script);
        printed_metric(&all.iter().filter_map(|path| read(path)).collect::<String>(), &notes)
    };
    Suggested { command, ..found }
}

/// Reads the repository's `program.md`.
pub(crate) fn read_program(root: &Path) -> io::Result<String> {
    let bytes = read_at_most(&root.join(PROGRAM), LARGEST_PROGRAM)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Returns the installed agents among those with a preset.
pub fn installed_agents(root: &Path) -> Vec<&'static Preset> {
    PRESETS.iter().filter(|preset| check_command(CommandRole::Agent, preset.name, root).is_ok()).collect()
}

fn notebooks(root: &Path) -> Vec<PathBuf> {
    let is_notebook = |path: &Path| path.extension().is_some_and(|extension| extension == "ipynb");
    files_in(root, &is_notebook).into_iter().take(NOTEBOOKS).collect()
}

/// Such files in the root and in the folders that are in it, hidden ones apart.
fn files_in(root: &Path, is_wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let list = |dir: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut paths: Vec<_> = entries.filter(|path| !is_hidden(path)).collect();
        paths.sort();
        paths
    };
    let here = list(root);
    let below = here.iter().filter(|path| path.is_dir() && !path.is_symlink()).flat_map(|dir| list(dir));
    here.iter().cloned().chain(below).filter(|path| is_wanted(path) && path.is_file()).take(MOST_FILES).collect()
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// The text of a notebook's cells.
fn code_of(bytes: &[u8]) -> Option<String> {
    let notebook: Value = serde_json::from_slice(bytes).ok()?;
    let cells = notebook.get("cells")?.as_array()?.iter().filter_map(|cell| cell.get("source"));
    let text = cells.map(|source| match source {
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        source => source.as_str().unwrap_or_default().to_owned(),
    });
    Some(text.collect::<Vec<String>>().join("\n"))
}

fn and_list(words: &[&str]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        words => words.concat(),
    }
}

/// The columns and words of a dialect in short.
fn columns_text(dialect: LedgerDialect) -> String {
    let DialectFormat { commit, words, .. } = dialect.format();
    format!("{commit} … {}", words.join(", "))
}

/// Refuses a command line whose first word is no program. A word that the shell would expand is left to the shell.
pub(crate) fn check_command(what: CommandRole, line: &str, root: &Path) -> Result<(), SessionError> {
    if own_path(line).is_some() {
        return Ok(());
    }
    let Some(word) = first_word(line) else {
        return Err(SessionError::NoCommand { what, word: line.trim().to_owned() });
    };
    if !is_plain(word) || find_program(word, root).is_some() {
        return Ok(());
    }
    // It may be one of the shell's own.
    let found = Command::new("sh")
        .args(["-c", "command -v -- \"$1\"", "sh", word])
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|source| SessionError::Io { action: "start", path: "sh".into(), source })?;
    if found.success() { Ok(()) } else { Err(SessionError::NoCommand { what, word: word.to_owned() }) }
}

/// The program that a command line starts, as the shell finds it from `root`; `None` where its words do not tell.
pub(crate) fn program_of(line: &str, root: &Path) -> Option<PathBuf> {
    find_program(first_word(line).filter(|word| is_plain(word))?, root)
}

/// The first word of a command line that assigns no variable.
fn first_word(line: &str) -> Option<&str> {
    line.split_whitespace().find(|word| !(is_plain(word) && word.contains('=')))
}

/// Returns whether the shell leaves a word as it is.
fn is_plain(word: &str) -> bool {
    word.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '+' | '=' | ':' | '@' | ','))
}

/// The name of the program.
const NAME: &str = "ar";

/// The suffix that Linux adds to the name of a program whose file was replaced.
const REPLACED: &str = " (deleted)";

/// `PATH` for a command line that calls `ar score`: first the folder of this program, since the first `ar` there is mostly the
/// archiver of binutils, or there is none. Nothing for other command lines, and where this program has another name.
pub(crate) fn own_path(command: &str) -> Option<(String, String)> {
    if !calls_score(command) {
        return None;
    }
    let program = env::current_exe().ok()?;
    let name = program.file_name()?.to_str()?;
    let folder = program.parent()?.to_owned();
    if name.strip_suffix(REPLACED).unwrap_or(name) != NAME || !folder.join(NAME).is_file() {
        return None;
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = [folder].into_iter().chain(env::split_paths(&path));
    let path = env::join_paths(folders.collect::<Vec<PathBuf>>()).ok()?;
    Some(("PATH".into(), path.into_string().ok()?))
}
