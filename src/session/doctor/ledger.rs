//! results.tsv against the records of all sessions.

use std::path::PathBuf;

use super::difference::{Difference, Repairs};
use super::facts::REPAIR;
use super::sessions::Patients;
use crate::domain::{Area, ExperimentId, Finding, LedgerDialect, Record, count_of, one_line, with_causes};
use crate::fs::folder_of;
use crate::git::Repo;
use crate::ledger::{LedgerError, LedgerFile};
use crate::session::errors::SessionError;

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
    /// The ledger, where there is a session. It is of the metric of the first session that it can be continued with.
    fn of(repo: &Repo, patients: &'a Patients) -> Option<Books<'a>> {
        let path = repo.main_worktree().join("results.tsv");
        // Rows of others stay with others.
        let own = || patients.all().filter(|facts| facts.has_files());
        let terms: Vec<(String, LedgerDialect)> =
            own().filter_map(|facts| facts.terms()).map(|terms| (one_line(&terms.metric.name), terms.ledger)).collect();
        let fits =
            |(metric, dialect): &&(String, LedgerDialect)| LedgerFile::compare(&path, metric, *dialect, &[]).is_ok();
        let (metric, dialect) = terms.iter().find(fits).or(terms.first())?.clone();
        let mut records: Vec<&Record> = own().flat_map(|facts| facts.history().records()).collect();
        records.retain(|record| one_line(&record.metric.name) == metric);
        records.sort_by_key(|record| record.finished);
        Some(Books { path, metric, dialect, records })
    }
}

/// Compares results.tsv.
pub(crate) fn inspect<'a>(repo: &Repo, patients: &'a Patients) -> Vec<Difference<'a>> {
    let Some(books) = Books::of(repo, patients) else { return Vec::new() };
    let found = match LedgerFile::compare(&books.path, &books.metric, books.dialect, &books.records) {
        Ok(found) => found,
        Err(error) => {
            let hint = match &error {
                LedgerError::NotAFile(_) | LedgerError::OtherMetric { .. } => {
                    error.hint().map(|hint| format!("{hint}; then {REPAIR}"))
                }
                error => error.hint(),
            };
            return vec![Finding { hint, ..Finding::error(Area::Ledger, with_causes(&error)) }.into()];
        }
    };
    // Its row is yet to come: the recovery of an open experiment writes it.
    let is_open =
        |record: &Record| patients.all().any(|facts| facts.tag == record.tag && facts.open_ids().contains(&record.id));
    let missing: Vec<&Record> =
        found.missing.iter().map(|&index| books.records[index]).filter(|record| !is_open(record)).collect();
    let mut errors = Vec::new();
    if !books.path.exists() && !missing.is_empty() {
        errors.push("results.tsv is missing".to_owned());
    } else if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(|record| format!("{} of {}", record.id, record.tag)).collect();
        errors.push(format!("results.tsv has no row of experiment {}", names.join(", ")));
    }
    for (lines, what) in [(&found.torn, "is truncated"), (&found.repeated, "repeats another one")] {
        errors.extend(lines.iter().map(|line| format!("line {line} of results.tsv {what}")));
    }
    let warnings = found.differing.iter().map(|(line, index)| {
        let Record { id, tag, .. } = &books.records[*index];
        let what = format!("line {line} of results.tsv contradicts the record of experiment {id} of {tag}");
        Finding::warning(Area::Ledger, what).hint(format!("ar show {id} --tag {tag}"))
    });
    let warnings: Vec<Finding> = warnings.collect();
    if errors.is_empty() && warnings.is_empty() {
        let foreign = match found.foreign {
            0 => String::new(),
            foreign => format!(", and {}", count_of(foreign, "foreign row")),
        };
        let what = format!("results.tsv has {} of ar{foreign}", count_of(found.own, "row"));
        return vec![Finding::ok(Area::Ledger, what).into()];
    }
    let error = (!errors.is_empty()).then(|| {
        let finding = Finding::error(Area::Ledger, errors.join("; "));
        Difference::new(finding, move |repairs| rebuild(&books, patients, repairs))
    });
    error.into_iter().chain(warnings.into_iter().map(Difference::from)).collect()
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
    repairs.did(format!("rewrote {}: {}{copy}", books.path.display(), parts.join(", ")));
    Ok(())
}
