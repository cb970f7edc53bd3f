//! Which files a change may touch, its size limits, and whether it repeats an earlier one.
//!
//! What Python files import from protected ones.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use sha2::{Digest, Sha256};

use crate::domain::{CommitId, Contract, Failure, FailureClass, Fingerprint, LOCK_FILES, Record, bytes_text, count_of};
use crate::rules::{History, files_named, modules_behind};

/// Files in the repository's root that define the measurement, unless the scope names them: the evaluation of
/// Karpathy's layout, the settings and the protocol.
const EVALUATION: [&str; 3] = ["prepare.py", "ar.toml", "program.md"];

/// The largest file that a change may add, in bytes: 5 MB. Weights and data sets do not belong in an experiment's
/// commit.
pub const LARGEST_ADDED: u64 = 5_000_000;

/// One file of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// Its path, relative to the repository's root.
    pub path: PathBuf,
    /// True if the change adds it.
    pub is_new: bool,
    /// True for a link or a submodule, whose target is not part of the change.
    pub is_opaque: bool,
    /// The size of its new content, in bytes.
    pub size: u64,
    /// The number of added and deleted lines; 0 if not needed.
    pub lines: u32,
    /// The number of its lines after the change; 0 if not needed, or without lines: deleted, binary, a link or a
    /// submodule.
    pub total: u32,
}

/// Forbidden finds on the disk that no commit shows, each on a line with the reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forbidden {
    /// Changed protected files, and files that shadow them.
    pub protected: Vec<String>,
    /// Files that a commit cannot contain.
    pub scope: Vec<String>,
}

impl Forbidden {
    /// Returns whether nothing forbidden was found.
    pub fn is_empty(&self) -> bool {
        self.protected.is_empty() && self.scope.is_empty()
    }
}

/// The reason to refuse a protected file.
pub fn is_protected(path: &Path) -> String {
    format!("{} is protected", path.display())
}

/// The reason to refuse a file that shadows a protected module.
pub fn takes_the_place(path: &Path, module: &Path) -> String {
    format!("{} would replace {}, which is protected", path.display(), module.display())
}

/// A pattern that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is not a glob: {problem}")]
pub struct GlobError {
    /// The pattern.
    pub pattern: String,
    /// The damage.
    pub problem: String,
}

/// The file that describes a Python project, and the lock files that its tools derive from it.
const PROJECT: &str = "pyproject.toml";

const PYTHON_LOCKS: [&str; 3] = ["pdm.lock", "poetry.lock", "uv.lock"];

/// The file rules of a session.
#[derive(Debug, Clone)]
pub struct FileTerms {
    scope: Option<GlobSet>,
    protect: GlobSet,
    locks: GlobSet,
    /// The files that the command and the guards name.
    named: Vec<PathBuf>,
    max_files: Option<u32>,
    max_file_lines: Option<u32>,
    max_file_total: Option<u32>,
    /// True if runs use the user's environment, which all slots share.
    shares_environment: bool,
    /// The folder of stored sources, in a session of research.
    sources: Option<PathBuf>,
}

impl FileTerms {
    /// Derives them from a contract.
    ///
    /// Globs are relative to the repository's root: `*` stays within a folder, `**` does not, and a folder includes
    /// everything in it.
    ///
    /// # Errors
    ///
    /// A pattern cannot be read.
    pub fn of(contract: &Contract) -> Result<FileTerms, GlobError> {
        let locks: Vec<String> = LOCK_FILES.iter().map(|name| format!("**/{name}")).collect();
        let by_command = files_named(&contract.command);
        let mut named: Vec<_> = contract
            .guards
            .iter()
            .chain(&contract.reviewer)
            .chain(&contract.holdout)
            .flat_map(|line| files_named(line))
            .collect();
        if contract.scope.is_empty() {
            // Then the file in the command is the one to edit: `uv run train.py`.
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
            max_file_total: contract.caps.max_file_total,
            shares_environment: false,
            sources: None,
        })
    }

    /// Protects what describes the environment, whatever the scope: all slots share it, so no change of it would have a run
    /// of its own.
    pub fn share_environment(self) -> FileTerms {
        FileTerms { shares_environment: true, ..self }
    }

    /// Protects the sources that are stored in a folder: claims rely on them, so they are only added to.
    pub fn keep_sources(self, sources: Option<PathBuf>) -> FileTerms {
        FileTerms { sources, ..self }
    }

    /// The folder whose stored sources are protected.
    pub fn sources(&self) -> Option<&Path> {
        self.sources.as_deref()
    }

    /// Returns whether an edit changes or removes a stored source.
    fn changes_source(&self, edit: &FileEdit) -> bool {
        let is_source = || edit.path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("md"));
        let is_stored = || self.sources.as_ref().is_some_and(|sources| edit.path.starts_with(sources));
        !edit.is_new && is_source() && is_stored()
    }

    /// Returns whether a limit needs the number of lines that each file's change adds and deletes.
    pub fn counts_lines(&self) -> bool {
        self.max_file_lines.is_some()
    }

    /// Returns whether a limit needs the length of each changed file.
    pub fn counts_totals(&self) -> bool {
        self.max_file_total.is_some()
    }

    /// Returns whether the scope includes a file.
    pub fn is_in_scope(&self, path: &Path) -> bool {
        self.scope.as_ref().is_none_or(|scope| scope.is_match(path))
    }

    /// Returns whether a file is protected: by `--protect`, or by default where the scope does not name it.
    pub fn protects(&self, path: &Path) -> bool {
        let by_default = || {
            EVALUATION.iter().any(|name| path == Path::new(name))
                || self.locks.is_match(path) && self.project_of_lock(path).is_none()
                || self.named.iter().any(|named| named == path)
        };
        let in_scope = || self.scope.as_ref().is_some_and(|scope| scope.is_match(path));
        self.protect.is_match(path) || by_default() && !in_scope() || self.describes_shared_environment(path)
    }

    fn describes_shared_environment(&self, path: &Path) -> bool {
        let is_project = path.file_name().is_some_and(|name| name == PROJECT);
        self.shares_environment && (is_project || self.locks.is_match(path))
    }

    /// The `pyproject.toml` beside a lock file that follows it, if changes may edit it: a change of both may be made, and a
    /// run may rewrite the lock file after a change of the project.
    pub fn project_of_lock(&self, path: &Path) -> Option<PathBuf> {
        let is_lock = path.file_name().is_some_and(|name| PYTHON_LOCKS.iter().any(|lock| name == *lock));
        let project = is_lock.then(|| path.with_file_name(PROJECT))?;
        (self.is_in_scope(&project) && !self.protects(&project) && !self.protect.is_match(path)).then_some(project)
    }

    /// Returns whether a file of a change is a lock file that may change with its project; `None` for any other file.
    fn follows_project(&self, path: &Path, change: &[FileEdit]) -> Option<bool> {
        let is_named = self.scope.as_ref().is_some_and(|scope| scope.is_match(path));
        let project = self.project_of_lock(path).filter(|_| !is_named)?;
        Some(change.iter().any(|edit| edit.path == project))
    }

    /// Returns whether `--protect` names a file.
    pub fn is_named_protected(&self, path: &Path) -> bool {
        self.protect.is_match(path)
    }

    /// The reason to refuse a change without a run, if any: forbidden, too many or too large files and finds on the
    /// disk, each on a line with the reason.
    pub fn refuse(&self, change: &[FileEdit], found: &Forbidden) -> Option<Failure> {
        let failure = |class, lines: Vec<String>| (!lines.is_empty()).then(|| Failure::new(class, lines.join("\n")));
        let named = |is_meant: &dyn Fn(&FileEdit) -> bool, why: &dyn Fn(&FileEdit) -> String| {
            let meant = change.iter().filter(|edit| is_meant(edit));
            meant.map(|edit| format!("{} {}", edit.path.display(), why(edit))).collect::<Vec<_>>()
        };
        let follows = |edit: &FileEdit| self.follows_project(&edit.path, change);
        let is_outside = |edit: &FileEdit| !self.is_in_scope(&edit.path) && follows(edit) != Some(true);
        let protected = change.iter().filter_map(|edit| {
            let takes_place = edit.is_new || edit.is_opaque;
            let behind = if takes_place { modules_behind(&edit.path, edit.is_opaque) } else { Vec::new() };
            match behind.into_iter().find(|module| self.protects(module)) {
                Some(module) => Some(takes_the_place(&edit.path, &module)),
                None if self.describes_shared_environment(&edit.path) => {
                    Some(format!("{} describes the environment that all slots share", edit.path.display()))
                }
                None if self.changes_source(edit) => {
                    Some(format!("{} is a stored source; store another one instead", edit.path.display()))
                }
                None => {
                    let is_meant = self.protects(&edit.path) || follows(edit) == Some(false);
                    is_meant.then(|| is_protected(&edit.path))
                }
            }
        });
        let with = |mut lines: Vec<String>, found: &[String]| {
            lines.extend(found.iter().cloned());
            lines.sort();
            lines.dedup();
            lines
        };
        failure(FailureClass::Protected, with(protected.collect(), &found.protected))
            .or_else(|| {
                let outside = named(&is_outside, &|_| "is outside the scope".into());
                failure(FailureClass::Scope, with(outside, &found.scope))
            })
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
                if let Some(limit) = self.max_file_total {
                    let why = |edit: &FileEdit| format!("has {}, and {limit} may be", count_of(edit.total, "line"));
                    lines.extend(named(&|edit| edit.total > limit, &why));
                }
                let files = u32::try_from(change.len()).unwrap_or(u32::MAX);
                if let Some(limit) = self.max_files.filter(|limit| files > *limit) {
                    lines.push(format!("{} changed, and {limit} may be", count_of(files, "file")));
                }
                failure(FailureClass::TooLarge, lines)
            })
    }
}

/// The fixed leading folders of patterns; empty for the whole repository.
pub fn folders_of(patterns: &[String]) -> Vec<PathBuf> {
    let is_plain = |part: &&str| !part.contains(['*', '?', '[', '{', '\\']);
    patterns
        .iter()
        .map(|pattern| bare(pattern))
        .map(|pattern| pattern.split('/').take_while(is_plain).collect())
        .collect()
}

/// One matcher for several patterns, with two globs for each: its own, and that of everything below a folder of its name.
pub(crate) fn globs(patterns: &[String]) -> Result<GlobSet, GlobError> {
    let error = |pattern: &str, error: globset::Error| GlobError {
        pattern: pattern.to_owned(),
        problem: error.kind().to_string(),
    };
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let bare = bare(pattern);
        let problem = match bare.split('/').next() {
            _ if bare.is_empty() => Some("it is empty"),
            Some("") => Some("it must be relative to the repository's root"),
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

/// A pattern without what means nothing in it.
pub(crate) fn bare(pattern: &str) -> &str {
    pattern.trim().trim_start_matches("./").trim_end_matches('/')
}

/// Reads a pattern for paths: `*` matches no slash, and a backslash makes the next character literal.
///
/// # Errors
///
/// It is not a pattern.
pub fn glob(pattern: &str) -> Result<Glob, globset::Error> {
    GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build()
}

/// The fingerprint of a change from its tree and unified diff. Like `git patch-id --verbatim`, it ignores line numbers
/// and context.
pub fn fingerprint(tree: String, diff: &[u8]) -> Fingerprint {
    let mut hash = Sha256::new();
    for line in diff.split_inclusive(|byte| *byte == b'\n') {
        if !line.starts_with(b"index ") && !line.starts_with(b"@@ ") {
            hash.update(line);
        }
    }
    let patch = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Fingerprint { tree, patch }
}

/// The GPU memory of another process, in bytes, from which it may have made a run fail: more than a driver or a desktop
/// takes.
const HELD: u64 = 256 << 20;

/// Names possible causes of a failed run other than the change. `others` is the most GPU memory, in bytes, that other
/// processes held during the run. `full` is a folder whose disk was full at its end.
pub fn outside_cause(class: FailureClass, others: Option<u64>, full: Option<&Path>) -> Option<String> {
    let held = others.filter(|bytes| class.can_come_from_gpu() && *bytes >= HELD);
    let held = held.map(|held| format!("another process held {} of the GPU", bytes_text(held)));
    let full =
        full.filter(|_| class.can_come_from_disk()).map(|folder| format!("the disk of {} was full", folder.display()));
    let causes: Vec<String> = [held, full].into_iter().flatten().collect();
    (!causes.is_empty()).then(|| causes.join(", "))
}

/// The first experiment with the same tree, or with the same change on the same base: on another base the result may
/// differ. Experiments that never ran, whose failure does not judge the idea, or that were compared with a number that moved, do
/// not count.
pub fn measured_before<'a>(history: &'a History, change: &Fingerprint, base: &CommitId) -> Option<&'a Record> {
    let measured = |record: &&Record| {
        // A rejected change counts as measured. Otherwise it could be repeated until some reviewer accepts it.
        let counts = |class: FailureClass| class.judges_change() || class == FailureClass::ReviewFailed;
        let has_moved = record.proof.control.as_ref().is_some_and(|control| control.moved);
        !has_moved
            && record.outside_cause.is_none()
            && record.failure.as_ref().is_none_or(|failure| counts(failure.class))
    };
    let find = |is_same: &dyn Fn(&Record, &Fingerprint) -> bool| {
        let mut records = history.records().iter().filter(measured);
        records.find(|record| record.change.fingerprint.as_ref().is_some_and(|known| is_same(record, known)))
    };
    find(&|_, known| known.tree == change.tree)
        .or_else(|| find(&|record, known| known.patch == change.patch && record.base == *base))
}

/// Returns whether two open changes are the same: they lead to the same tree, or they are the same patch on the same
/// base.
pub fn is_same_change(one: (&Fingerprint, &CommitId), other: (&Fingerprint, &CommitId)) -> bool {
    one.0.tree == other.0.tree || (one.0.patch == other.0.patch && one.1 == other.1)
}

/// The names that a Python text imports, each after its module; a module as a whole has none before it.
fn imports(text: &str) -> BTreeSet<(String, String)> {
    let mut lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let mut found = BTreeSet::new();
    while let Some(line) = lines.next() {
        if !["from ", "import "].iter().any(|word| line.starts_with(word)) {
            continue;
        }
        let mut statement = line.to_owned();
        // Prose may begin with such a word, and have a bracket.
        let is_open = |it: &str| it.contains(" import") && it.contains('(') && !it.contains(')');
        while statement.ends_with('\\') || is_open(&statement) {
            let Some(next) = lines.next() else { break };
            statement = format!("{} {next}", statement.trim_end_matches('\\'));
        }
        let statement = statement.replace(['(', ')'], " ").split_whitespace().collect::<Vec<_>>().join(" ");
        let (module, names) = match statement.strip_prefix("from ") {
            Some(rest) => rest.split_once(" import ").unwrap_or_default(),
            None => ("", statement.trim_start_matches("import ")),
        };
        let named = names.split([',', ';']).filter_map(|name| name.split_whitespace().next());
        found.extend(named.map(|name| (module.to_owned(), name.to_owned())));
    }
    found
}

impl FileTerms {
    /// The reason to refuse a Python file that no longer imports all that it imported from protected files `before`.
    pub fn refuse_imports(&self, path: &Path, before: &str, now: &str) -> Option<String> {
        let now = imports(now);
        let is_dropped = |(module, name): &(String, String)| {
            let dot = if module.is_empty() || module.ends_with('.') { "" } else { "." };
            self.protects_module(path, module) || self.protects_module(path, &format!("{module}{dot}{name}"))
        };
        let is_there = |import: &(String, String)| {
            now.contains(import) || (!import.0.is_empty() && now.contains(&(import.0.clone(), "*".to_owned())))
        };
        let dropped = imports(before).into_iter().filter(|import| !is_there(import)).filter(is_dropped);
        let named = |(from, name): (String, String)| if from.is_empty() { name } else { format!("{name} from {from}") };
        let (path, what) = (path.display(), dropped.map(named).collect::<Vec<_>>().join(", "));
        let why = format!("{path} no longer imports {what}, which is protected (`allow-import-changes` permits it)");
        (!what.is_empty()).then_some(why)
    }

    /// Returns whether a module is a protected file, as a file at `path` names it.
    fn protects_module(&self, path: &Path, module: &str) -> bool {
        let name = module.trim_start_matches('.');
        // One that begins with dots is relative to the package.
        let above = path.ancestors().nth((module.len() - name.len()).max(1)).unwrap_or(Path::new(""));
        let folders = if name.len() < module.len() { vec![above] } else { vec![above, Path::new("")] };
        let stem = name.replace('.', "/");
        let files = [format!("{stem}.py"), format!("{stem}/__init__.py")];
        folders.iter().any(|folder| files.iter().any(|file| self.protects(&folder.join(file))))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::domain::{Caps, CommitId, Direction, MetricSource, MetricSpec};
    use crate::rules::sample::record;

    fn contract(scope: &[&str], protect: &[&str], command: &str) -> Contract {
        let list = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
        let metric = MetricSpec { name: "m".into(), direction: Direction::Lower, source: MetricSource::Log };
        let start = CommitId::new("a".repeat(40));
        let contract = Contract::new("t".parse().unwrap(), metric, command.into(), start, Timestamp::UNIX_EPOCH);
        Contract { scope: list(scope), protect: list(protect), ..contract }
    }

    fn edit(path: &str) -> FileEdit {
        FileEdit { path: path.into(), is_new: false, is_opaque: false, size: 10, lines: 1, total: 50 }
    }

    fn verdict(contract: &Contract, paths: &[&str]) -> Option<(FailureClass, String)> {
        let edits: Vec<_> = paths.iter().map(|path| edit(path)).collect();
        let failure = FileTerms::of(contract).unwrap().refuse(&edits, &Forbidden::default())?;
        Some((failure.class, failure.excerpt))
    }

    #[test]
    fn what_measures_is_protected_unless_the_scope_names_it() {
        let open = contract(&[], &[], "uv run train.py");
        for path in ["prepare.py", "ar.toml", "program.md", "uv.lock", "sub/Cargo.lock"] {
            assert_eq!(
                verdict(&open, &[path]),
                Some((FailureClass::Protected, format!("{path} is protected"))),
                "{path}"
            );
        }
        for path in ["train.py", "sub/prepare.py", "model/lock.py", "new.txt"] {
            assert_eq!(verdict(&open, &[path]), None, "{path}");
        }
        let scoped =
            contract(&["src", "uv.lock", "prepare.py"], &["src/eval/**"], "python ./evaluate.py --data src/data.bin");
        for (path, class) in [
            ("src/model.py", None),
            ("src/deep/er/model.py", None),
            ("uv.lock", None),
            ("prepare.py", None),
            ("src/data.bin", None),
            ("src/eval/metric.py", Some(FailureClass::Protected)),
            ("evaluate.py", Some(FailureClass::Protected)),
            ("ar.toml", Some(FailureClass::Protected)),
            ("README.md", Some(FailureClass::Scope)),
            ("srcs/model.py", Some(FailureClass::Scope)),
        ] {
            assert_eq!(verdict(&scoped, &[path]).map(|(class, _)| class), class, "{path}");
        }
    }

    #[test]
    fn what_guards_name_is_protected_unless_it_is_what_is_worked_on() {
        let guards = ["sh tests/check.sh".into(), "uv run train.py --smoke".into()].to_vec();
        let protects = |scope: &[&str], path: &str| {
            let guarded = Contract { guards: guards.clone(), ..contract(scope, &[], "uv run train.py") };
            FileTerms::of(&guarded).unwrap().protects(Path::new(path))
        };
        for (path, without_scope, with_scope) in
            [("tests/check.sh", true, true), ("train.py", false, true), ("src/model.py", false, false)]
        {
            assert_eq!((protects(&[], path), protects(&["src"], path)), (without_scope, with_scope), "{path}");
        }
        assert!(!protects(&["tests"], "tests/check.sh"));
    }

    #[test]
    fn globs_read_as_people_mean_them() {
        for (glob, path, matches) in [
            ("train.py", "train.py", true),
            ("./train.py", "train.py", true),
            ("train.py", "old/train.py", false),
            ("*.py", "train.py", true),
            ("*.py", "src/train.py", false),
            ("**/*.py", "src/deep/train.py", true),
            ("src/", "src/a/b.c", true),
            ("src/*", "src/a", true),
            ("{a,b}.txt", "b.txt", true),
            ("naïve/*", "naïve/文字.txt", true),
            ("with space", "with space/x", true),
        ] {
            let terms = FileTerms::of(&contract(&[], &[glob], "true")).unwrap();
            assert_eq!(terms.protects(Path::new(path)), matches, "{glob} {path}");
        }
        let error = FileTerms::of(&contract(&["a{b"], &[], "true")).unwrap_err();
        assert!(error.to_string().starts_with("`a{b` is not a glob: "), "{error}");
    }

    #[test]
    fn limits_name_the_files_that_are_over_them() {
        let limited = Contract { max_files: Some(2), max_file_lines: Some(20), ..contract(&[], &[], "true") };
        let terms = FileTerms::of(&limited).unwrap();
        let excerpt = |edits: &[FileEdit]| {
            terms.refuse(edits, &Forbidden::default()).map(|failure| (failure.class, failure.excerpt))
        };
        assert_eq!(excerpt(&[edit("a"), FileEdit { lines: 20, ..edit("b") }]), None);
        let too_much = [
            FileEdit { is_new: true, size: LARGEST_ADDED + 1, ..edit("weights.bin") },
            FileEdit { lines: 21, ..edit("b") },
            FileEdit { size: 2 * LARGEST_ADDED, ..edit("was large before") },
        ];
        let lines = "weights.bin has 5.0 MB, and a new file may have 5.0 MB\nb has 21 lines changed, and 20 may be\n\
                 3 files changed, and 2 may be";
        assert_eq!(excerpt(&too_much), Some((FailureClass::TooLarge, lines.into())));
    }

    #[test]
    fn a_file_may_be_as_long_as_the_cap_says() {
        let caps = Caps { max_file_total: Some(300), ..Caps::default() };
        let terms = FileTerms::of(&Contract { caps, ..contract(&[], &[], "true") }).unwrap();
        let refuse = |total| terms.refuse(&[FileEdit { total, ..edit("a.py") }], &Forbidden::default());
        assert_eq!(refuse(300), None);
        let excerpt = "a.py has 301 lines, and 300 may be".to_owned();
        assert_eq!(refuse(301), Some(Failure::new(FailureClass::TooLarge, excerpt)));
    }

    #[test]
    fn a_new_file_that_python_takes_in_place_of_a_protected_one_is_protected_too() {
        let terms = FileTerms::of(&contract(&[], &["lib/eval.py"], "uv run train.py")).unwrap();
        let class = |path: &str, is_new| {
            let failure = terms.refuse(&[FileEdit { is_new, ..edit(path) }], &Forbidden::default())?;
            Some((failure.class, failure.excerpt))
        };
        for (path, behind) in [
            ("prepare/__init__.py", "prepare.py"),
            ("lib/eval/__init__.pyc", "lib/eval.py"),
            ("prepare.cpython-312-x86_64-linux-gnu.so", "prepare.py"),
            ("lib/eval.abi3.so", "lib/eval.py"),
        ] {
            let why = format!("{path} would replace {behind}, which is protected");
            assert_eq!(class(path, true), Some((FailureClass::Protected, why)));
            assert_eq!(class(path, false), None, "it was there when the terms were made");
        }
        for path in ["model/__init__.py", "__init__.py", "prepare/other.py", "prepare2.so", "sub/prepare/__init__.py"] {
            assert_eq!(class(path, true), None, "{path}");
        }
    }

    #[test]
    fn a_lock_file_belongs_to_a_change_of_the_project_beside_it() {
        let protected = |path: &str| Some((FailureClass::Protected, format!("{path} is protected")));
        for (scope, protect, paths, expected) in [
            (&[][..], &[][..], &["pyproject.toml", "uv.lock"][..], None),
            (&[], &[], &["uv.lock", "a/pyproject.toml"], protected("uv.lock")),
            (&[], &[], &["a/poetry.lock", "a/pyproject.toml"], None),
            (&[], &[], &["pyproject.toml", "requirements.txt"], protected("requirements.txt")),
            (&["src", "pyproject.toml"], &[], &["pyproject.toml", "uv.lock"], None),
            (&["src", "uv.lock", "pyproject.toml"], &[], &["uv.lock"], None),
            (&["src"], &[], &["src/a.py", "uv.lock"], protected("uv.lock")),
            (&[], &["pyproject.toml"], &["uv.lock"], protected("uv.lock")),
            (&[], &["uv.lock"], &["uv.lock", "pyproject.toml"], protected("uv.lock")),
        ] {
            assert_eq!(verdict(&contract(scope, protect, "uv run train.py"), paths), expected, "{scope:?} {paths:?}");
        }
        let terms = FileTerms::of(&contract(&[], &[], "uv run train.py")).unwrap();
        assert_eq!(terms.project_of_lock(Path::new("a/uv.lock")), Some("a/pyproject.toml".into()));
        assert_eq!(terms.share_environment().project_of_lock(Path::new("uv.lock")), None);
    }

    #[test]
    fn what_describes_an_environment_that_slots_share_is_protected_whatever_the_scope() {
        let terms = |contract: &Contract| FileTerms::of(contract).unwrap();
        let scoped = contract(&["pyproject.toml", "uv.lock", "src"], &[], "uv run train.py");
        let paths =
            ["pyproject.toml", "sub/pyproject.toml", "uv.lock", "src/pyproject.toml.md", "src/a.py"].map(Path::new);
        assert_eq!(paths.map(|path| terms(&scoped).protects(path)), [false; 5]);
        assert_eq!(
            paths.map(|path| terms(&scoped).share_environment().protects(path)),
            [true, true, true, false, false]
        );
        let refused = terms(&scoped).share_environment().refuse(&[edit("uv.lock")], &Forbidden::default()).unwrap();
        assert_eq!(
            (refused.class, refused.excerpt.as_str()),
            (FailureClass::Protected, "uv.lock describes the environment that all slots share")
        );
    }

    #[test]
    fn stored_sources_are_only_added_to_in_research() {
        let contract = contract(&["artifact.md", "sources"], &[], "ar score");
        let terms = FileTerms::of(&contract).unwrap();
        let research = terms.clone().keep_sources(Some("sources".into()));
        let class = |terms: &FileTerms, edit: FileEdit| {
            terms.refuse(&[edit], &Forbidden::default()).map(|failure| failure.class)
        };
        for path in ["sources/a.md", "sources/sub/a.MD"] {
            assert_eq!(class(&research, edit(path)), Some(FailureClass::Protected), "{path}");
            assert_eq!(class(&research, FileEdit { is_new: true, ..edit(path) }), None, "{path}");
            assert_eq!(class(&terms, edit(path)), None, "{path}");
        }
        for path in ["artifact.md", "sources/.gitkeep"] {
            assert_eq!(class(&research, edit(path)), None, "{path}");
        }
    }

    #[test]
    fn a_change_counts_as_measured_on_its_own_base_and_where_nothing_outside_of_it_failed() {
        let known = |fields: serde_json::Value| {
            let mut all =
                json!({"id": 1, "base": "b1", "outcome": "discard", "fingerprint": {"tree": "t1", "patch": "p"}});
            all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            History::new(vec![record(all)])
        };
        let is_known = |history: &History, tree: &str, base: &str| {
            let change = Fingerprint { tree: tree.into(), patch: "p".into() };
            measured_before(history, &change, &CommitId::new(base)).is_some()
        };
        let discard = known(json!({}));
        assert_eq!(
            [("t2", "b1"), ("t2", "b2"), ("t1", "b2")].map(|(tree, base)| is_known(&discard, tree, base)),
            [true, false, true]
        );
        let oom = |cause: Option<String>| {
            known(json!({"outcome": "crash", "failure": {"class": "oom"}, "outside_cause": cause}))
        };
        assert!(is_known(&oom(None), "t1", "b1"));
        let cause = outside_cause(FailureClass::Oom, Some(12 << 30), None);
        assert_eq!(cause.as_deref(), Some("another process held 13 GB of the GPU"));
        assert!(!is_known(&oom(cause), "t1", "b1"));
        assert!(!is_known(&known(json!({"outcome": "crash", "failure": {"class": "lost"}})), "t1", "b1"));
        assert!(is_known(&known(json!({"failure": {"class": "review_failed"}})), "t1", "b1"), "it was rejected");
        let control = |moved| json!({"experiment": 0, "recorded": 9.0, "name": "loss", "direction": "lower", "value": 8.0, "raw": "8", "moved": moved});
        assert!(
            !is_known(&known(json!({"control": control(true)})), "t1", "b1"),
            "it was compared with another number"
        );
        assert!(is_known(&known(json!({"control": control(false)})), "t1", "b1"));
        assert_eq!(outside_cause(FailureClass::Timeout, Some(1 << 20), None), None);
        assert_eq!(outside_cause(FailureClass::Crash, Some(12 << 30), None), None);
        assert_eq!(outside_cause(FailureClass::Oom, None, None), None);
        let full = |class, others| outside_cause(class, others, Some(Path::new("/tmp")));
        assert_eq!(full(FailureClass::Crash, Some(12 << 30)).as_deref(), Some("the disk of /tmp was full"));
        assert_eq!(
            full(FailureClass::Oom, Some(12 << 30)).as_deref(),
            Some("another process held 13 GB of the GPU, the disk of /tmp was full")
        );
        assert_eq!(full(FailureClass::SyntaxError, None), None);
    }

    #[test]
    fn the_same_edit_of_another_version_is_the_same_change() {
        let diff = |index: &str, hunk: &str, line: &str| {
            format!("diff --git a/x b/x\nindex {index} 100644\n--- a/x\n+++ b/x\n@@ {hunk} @@\n a\n-b\n+{line}\n")
        };
        let of = |text: String| fingerprint(String::new(), text.as_bytes()).patch;
        let first = of(diff("1..2", "-1,2 +1,2", "c"));
        assert_eq!(first, of(diff("3..4", "-7,2 +9,2", "c")));
        assert_ne!(first, of(diff("1..2", "-1,2 +1,2", "index 1")));
    }
}

#[cfg(test)]
mod imports_tests {
    use serde_json::json;

    use super::*;
    use crate::domain::Contract;
    use crate::rules::sample;

    #[test]
    fn a_file_imports_from_protected_ones_what_it_imported() {
        let terms = |scope: &[&str]| {
            let list = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
            FileTerms::of(&Contract { scope: list(scope), protect: list(&["src/eval"]), ..sample::contract("x") })
                .unwrap()
        };
        let before = "import os, prepare as p\nfrom prepare import (\n    evaluate,  # the metric\n    TIME_BUDGET as LIMIT,\n)\n\
                      from model import net\n    from .eval.metric import score\nfrom .eval import bleu\n";
        let refused = |path: &str, now: &str| terms(&["train.py"]).refuse_imports(Path::new(path), before, now);
        assert_eq!(refused("src/train.py", before), None);
        let now = "from prepare import evaluate, \\\n    TIME_BUDGET\nimport prepare\nfrom .eval import bleu\nfrom .eval.metric import score\n";
        assert_eq!(refused("src/train.py", now), None, "in other words");
        let now = "# from prepare import evaluate\nimport prepare\nTIME_BUDGET = 600\nfrom .eval import bleu\n";
        let expected = "src/train.py no longer imports score from .eval.metric, TIME_BUDGET from prepare, evaluate from prepare, \
                        which is protected (`allow-import-changes` permits it)";
        assert_eq!(refused("src/train.py", now).as_deref(), Some(expected));
        let now = "from prepare import evaluate, TIME_BUDGET\n";
        assert!(
            refused("train.py", now).unwrap().contains("no longer imports prepare, which"),
            "its folder has no eval"
        );
        assert_eq!(
            terms(&["train.py", "prepare.py"]).refuse_imports(Path::new("train.py"), before, ""),
            None,
            "in the scope"
        );
        let now = "from Loshchilov (SGDR,\nfrom prepare import *\nimport prepare\nfrom .eval import bleu\nfrom .eval.metric import *\n";
        assert_eq!(refused("src/train.py", now), None, "all of it");
        assert_eq!(json!(imports("from x import(a)\nimport")), json!([["x", "a"]]));
    }
}
