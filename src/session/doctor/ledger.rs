//! The files that all sessions share, against their records: ledgers, lessons and the backlog of ideas.

use std::path::{Path, PathBuf};

use super::{Patients, REPAIR, Repairs};
use crate::domain::{Area, ExperimentId, Finding, LedgerDialect, Record, count_of, one_line, with_causes};
use crate::fs::folder_of;
use crate::git::Repo;
use crate::ledger::{LedgerDifferences, LedgerError, LedgerFile};
use crate::session::errors::SessionError;
use crate::state::{IdeaFile, LessonFile};

/// The ledger of a repository, with the records that should be in it.
#[derive(Debug)]
struct Books<'a> {
    path: PathBuf,
    metric: String,
    dialect: LedgerDialect,
    /// The records of its metric, of all sessions, in the order in which they were finished.
    records: Vec<&'a Record>,
}

impl<'a> Books<'a> {
    /// The ledger of each metric that a session has. Without any, the first one's is results.tsv.
    fn all(repo: &Repo, patients: &'a Patients) -> Vec<Books<'a>> {
        // Rows of others stay with others.
        let own = || patients.all().filter(|facts| facts.has_files());
        let mut all: Vec<Books> = Vec::new();
        for terms in own().filter_map(|facts| facts.terms()) {
            let (metric, root) = (one_line(&terms.metric.name), repo.main_worktree());
            if all.iter().any(|books| books.metric == metric) {
                continue;
            }
            let mut path = LedgerFile::place(root, &metric);
            let is_taken = |path: &Path| all.iter().any(|books| books.path == path);
            if is_taken(&path) {
                path = LedgerFile::own_place(root, &metric, is_taken);
            }
            let mut records: Vec<&Record> = own().flat_map(|facts| facts.history().records()).collect();
            records.retain(|record| one_line(&record.metric.name) == metric);
            records.sort_by_key(|record| record.origin.finished);
            all.push(Books { path, metric, dialect: terms.ledger, records });
        }
        all
    }

    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn compare(&self) -> Result<LedgerDifferences, LedgerError> {
        LedgerFile::compare(&self.path, &self.metric, self.dialect, &self.records)
    }

    /// The differences from the records that a repair removes.
    fn errors(&self, found: &LedgerDifferences, patients: &Patients) -> Vec<String> {
        let name = self.name();
        // Its row is yet to come: the recovery of an open experiment writes it.
        let is_open = |record: &Record| {
            patients.all().any(|facts| facts.tag == record.tag && facts.open_ids().contains(&record.id))
        };
        let missing = found.missing.iter().map(|&index| self.records[index]).filter(|record| !is_open(record));
        let missing: Vec<String> = missing.map(|record| format!("{} of {}", record.id, record.tag)).collect();
        let mut errors = Vec::new();
        if !self.path.exists() && !missing.is_empty() {
            errors.push(format!("{name} is missing"));
        } else if !missing.is_empty() {
            errors.push(format!("{name} has no row of experiment {}", missing.join(", ")));
        }
        for (lines, what) in [(&found.torn, "is truncated"), (&found.repeated, "repeats another one")] {
            errors.extend(lines.iter().map(|line| format!("line {line} of {name} {what}")));
        }
        errors
    }

    fn findings(&self, patients: &Patients) -> Vec<Finding> {
        let name = self.name();
        let found = match self.compare() {
            Ok(found) => found,
            Err(error) => {
                let hint = match &error {
                    LedgerError::NotAFile(_) | LedgerError::OtherMetric { .. } => {
                        error.hint().map(|hint| format!("{hint}; then {REPAIR}"))
                    }
                    error => error.hint(),
                };
                return vec![Finding { hint, ..Finding::error(Area::Ledger, with_causes(&error)) }];
            }
        };
        let errors = self.errors(&found, patients);
        let error = (!errors.is_empty()).then(|| Finding::error(Area::Ledger, errors.join("; ")).hint(REPAIR));
        let warnings = found.differing.iter().map(|(line, index)| {
            let Record { id, tag, .. } = &self.records[*index];
            let what = format!("line {line} of {name} contradicts the record of experiment {id} of {tag}");
            Finding::warning(Area::Ledger, what).hint(format!("ar show {id} --tag {tag}"))
        });
        let mut findings: Vec<Finding> = error.into_iter().chain(warnings).collect();
        if findings.is_empty() {
            let foreign = match found.foreign {
                0 => String::new(),
                foreign => format!(", and {}", count_of(foreign, "foreign row")),
            };
            let what = format!("{name} has {} of ar{foreign}", count_of(found.own, "row"));
            findings.push(Finding::ok(Area::Ledger, what));
        }
        findings
    }
}

/// The names of the ledgers.
pub(crate) fn names(repo: &Repo, patients: &Patients) -> Vec<String> {
    Books::all(repo, patients).iter().map(Books::name).collect()
}

/// Compares the ledgers.
pub(crate) fn inspect(repo: &Repo, patients: &Patients) -> Vec<Finding> {
    Books::all(repo, patients).iter().flat_map(|books| books.findings(patients)).collect()
}

/// Rewrites the ledgers that lack rows of records, or have some twice or torn.
pub(crate) fn repair(patients: &Patients, repairs: &mut Repairs) -> Result<(), SessionError> {
    for books in Books::all(repairs.repo, patients) {
        if books.compare().is_ok_and(|found| !books.errors(&found, patients).is_empty()) {
            rebuild(&books, patients, repairs)?;
        }
    }
    Ok(())
}

/// Gives every record its row, and tells the journals where the rows of open experiments are.
fn rebuild(books: &Books, patients: &Patients, repairs: &mut Repairs) -> Result<(), SessionError> {
    let folder = folder_of(&books.path);
    let rebuilt = LedgerFile::rebuild(&books.path, &books.metric, books.dialect, &books.records, folder)?;
    let Some(rebuilt) = rebuilt else { return Ok(()) };
    for facts in patients.all() {
        let Some(mut journal) = facts.known_journal().cloned() else { continue };
        let row_of = |id: ExperimentId| {
            let index = books.records.iter().position(|record| record.tag == facts.tag && record.id == id);
            index.map(|index| rebuilt.places[index])
        };
        if journal.place_rows(row_of) {
            journal.write(&facts.folder.state(), repairs.clock.now())?;
        }
    }
    let found = &rebuilt.found;
    let parts = [
        (found.missing.len(), "row", "put in"),
        (found.torn.len(), "torn line", "repaired"),
        (found.repeated.len(), "repeated row", "left out"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(number, ..)| *number > 0)
        .map(|(number, what, how)| format!("{} {how}", count_of(*number, what)))
        .collect();
    let copy = rebuilt.copy.map(|copy| format!("; the old one is in {}", copy.display())).unwrap_or_default();
    repairs.done.push(format!("rewrote {}: {}{copy}", books.path.display(), parts.join(", ")));
    Ok(())
}

/// Examines both files. A session continues without them, so damage to them is only a warning.
pub(crate) fn inspect_memory(repo: &Repo) -> Vec<Finding> {
    let root = repo.main_worktree();
    let warning = |what: String| Finding::warning(Area::Journal, what);
    let lessons = LessonFile::new(root).read().err().map(|error| warning(with_causes(&error)));
    let file = IdeaFile::new(root);
    let ideas = match file.read() {
        Ok(backlog) if backlog.damaged == 0 => None,
        Ok(backlog) => {
            let lines = count_of(backlog.damaged, "line");
            Some(warning(format!("cannot parse {lines} of {}", file.path().display())).hint(REPAIR))
        }
        Err(error) => Some(Finding { hint: error.hint(), ..warning(with_causes(&error)) }),
    };
    lessons.into_iter().chain(ideas).collect()
}

/// Removes the damaged lines of the backlog.
pub(crate) fn repair_memory(repairs: &mut Repairs) -> Result<(), SessionError> {
    let file = IdeaFile::new(repairs.repo.main_worktree());
    if file.read().is_ok_and(|backlog| backlog.damaged > 0) {
        let (path, copy) = (file.path().display(), file.drop_damaged()?);
        repairs.done.push(format!("removed damaged lines from {path} and saved them to {}", copy.display()));
    }
    Ok(())
}
