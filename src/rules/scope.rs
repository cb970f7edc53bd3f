//! What a change may touch, and how much of it.

use std::path::{Path, PathBuf};

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use crate::domain::{Contract, Failure, FailureClass, LOCK_FILES, bytes_text, count_of};

/// Files in the repository's root that decide what is measured, unless the scope names them: the evaluation of
/// Karpathy's layout, the settings and the protocol.
const EVALUATION: [&str; 3] = ["prepare.py", "ar.toml", "program.md"];

/// The largest file that a change may add, in bytes: 5 MB. Weights and data sets have no place in an experiment's commit.
pub const LARGEST_ADDED: u64 = 5_000_000;

/// One file of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// Its path, relative to the repository's root.
    pub path: PathBuf,
    /// Whether the change adds it.
    pub is_new: bool,
    /// The size of its new content, in bytes.
    pub size: u64,
    /// How many of its lines are added or deleted; 0 where nobody asks.
    pub lines: u32,
}

/// A pattern that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is not a glob: {problem}")]
pub struct GlobError {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub problem: String,
}

/// The terms of a session about files.
#[derive(Debug, Clone)]
pub struct FileTerms {
    scope: Option<GlobSet>,
    protect: GlobSet,
    locks: GlobSet,
    /// What the command and the guards name.
    named: Vec<PathBuf>,
    max_files: Option<u32>,
    max_file_lines: Option<u32>,
}

impl FileTerms {
    /// Reads the terms of a contract.
    ///
    /// Globs are relative to the repository's root: `*` stays within a folder, `**` does not, and a folder stands for
    /// all that is in it.
    ///
    /// # Errors
    ///
    /// A pattern cannot be read.
    pub fn of(contract: &Contract) -> Result<FileTerms, GlobError> {
        let locks: Vec<String> = LOCK_FILES.iter().map(|name| format!("**/{name}")).collect();
        let by_command = words(&contract.command);
        let mut named: Vec<_> = contract.guards.iter().flat_map(|guard| words(guard)).collect();
        if contract.scope.is_empty() {
            // Then the file that the command names is the one to work on: `uv run train.py`.
            named.retain(|path| !by_command.contains(path));
        } else {
            named.extend(by_command);
        }
        Ok(FileTerms {
            scope: if contract.scope.is_empty() { None } else { Some(globs(&contract.scope)?) },
            protect: globs(&contract.protect)?,
            locks: globs(&locks)?,
            named,
            max_files: contract.max_files,
            max_file_lines: contract.max_file_lines,
        })
    }

    /// Whether the lines of each changed file have to be counted.
    pub fn counts_lines(&self) -> bool {
        self.max_file_lines.is_some()
    }

    /// Whether an experiment may change a file as far as the scope goes.
    pub fn is_in_scope(&self, path: &Path) -> bool {
        self.scope.as_ref().is_none_or(|scope| scope.is_match(path))
    }

    /// Whether no experiment may change a file. What `--protect` names always is; the rest unless the scope names it.
    pub fn protects(&self, path: &Path) -> bool {
        let by_default = || {
            EVALUATION.iter().any(|name| path == Path::new(name))
                || self.locks.is_match(path)
                || self.named.iter().any(|named| named == path)
        };
        let in_scope = || self.scope.as_ref().is_some_and(|scope| scope.is_match(path));
        self.protect.is_match(path) || by_default() && !in_scope()
    }

    /// Why a change is not run, if so: the files that it may not touch, or that are too many or too large, each on a
    /// line with the reason.
    pub fn refuse(&self, change: &[FileEdit]) -> Option<Failure> {
        let failure =
            |class, lines: Vec<String>| (!lines.is_empty()).then(|| Failure { class, excerpt: lines.join("\n") });
        let named = |is_meant: &dyn Fn(&FileEdit) -> bool, why: &dyn Fn(&FileEdit) -> String| {
            let meant = change.iter().filter(|edit| is_meant(edit));
            meant.map(|edit| format!("{} {}", edit.path.display(), why(edit))).collect::<Vec<_>>()
        };
        let is_outside = |edit: &FileEdit| !self.is_in_scope(&edit.path);
        let shadowed =
            |edit: &FileEdit| module_behind(&edit.path).filter(|module| edit.is_new && self.protects(module));
        let why_protected = |edit: &FileEdit| match shadowed(edit) {
            Some(module) => format!("takes the place of {}, which is protected", module.display()),
            None => "is protected".into(),
        };
        let is_protected = |edit: &FileEdit| self.protects(&edit.path) || shadowed(edit).is_some();
        failure(FailureClass::Protected, named(&is_protected, &why_protected))
            .or_else(|| failure(FailureClass::Scope, named(&is_outside, &|_| "is outside the scope".into())))
            .or_else(|| {
                let is_large = |edit: &FileEdit| edit.is_new && edit.size > LARGEST_ADDED;
                let why = |edit: &FileEdit| {
                    format!("has {}, and a new file may have {}", bytes_text(edit.size), bytes_text(LARGEST_ADDED))
                };
                let mut lines = named(&is_large, &why);
                if let Some(limit) = self.max_file_lines {
                    let why =
                        |edit: &FileEdit| format!("has {} changed, and {limit} may be", count_of(edit.lines, "line"));
                    lines.extend(named(&|edit| edit.lines > limit, &why));
                }
                let files = u32::try_from(change.len()).unwrap_or(u32::MAX);
                if let Some(limit) = self.max_files.filter(|limit| files > *limit) {
                    lines.push(format!("{} changed, and {limit} may be", count_of(files, "file")));
                }
                failure(FailureClass::TooLarge, lines)
            })
    }
}

/// The module of Python's whose place a new file takes: a folder of that name with an `__init__`, and a compiled module, go
/// before it.
fn module_behind(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let folder = path.parent().unwrap_or(Path::new(""));
    if name.starts_with("__init__.") {
        return Some(folder.parent()?.join(format!("{}.py", folder.file_name()?.to_str()?)));
    }
    let compiled = [".so", ".pyd"].iter().any(|end| name.ends_with(end));
    compiled.then(|| folder.join(format!("{}.py", name.split('.').next().unwrap_or(name))))
}

/// One matcher for several patterns.
fn globs(patterns: &[String]) -> Result<GlobSet, GlobError> {
    let error = |pattern: &str, error: globset::Error| GlobError {
        pattern: pattern.to_owned(),
        problem: error.kind().to_string(),
    };
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let bare = pattern.trim().trim_start_matches("./").trim_end_matches('/');
        let problem = match bare.split('/').next() {
            _ if bare.is_empty() => Some("it names nothing"),
            Some("") => Some("it is to be relative to the repository's root"),
            Some("..") => Some("it leads out of the repository"),
            _ => None,
        };
        if let Some(problem) = problem {
            return Err(GlobError { pattern: pattern.clone(), problem: problem.into() });
        }
        for text in [bare.to_owned(), format!("{bare}/**")] {
            set.add(glob(&text).map_err(|problem| error(pattern, problem))?);
        }
    }
    set.build().map_err(|problem| error("", problem))
}

fn glob(pattern: &str) -> Result<Glob, globset::Error> {
    GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build()
}

/// The words of a command line that may be files of the repository.
fn words(command: &str) -> Vec<PathBuf> {
    let separates = |c: char| c.is_whitespace() || "\"'`;|&()<>=$".contains(c);
    let words = command.split(separates).map(|word| word.trim_start_matches("./"));
    words.filter(|word| !word.is_empty()).map(PathBuf::from).collect()
}

#[cfg(test)]
#[path = "scope_tests.rs"]
mod tests;
