//! results.tsv against the records of all sessions.

use std::path::{Path, PathBuf};

use super::facts::REPAIR;
use super::patients::Patients;
use crate::domain::{Area, Finding, LedgerDialect, Record, count_of, one_line, with_causes};
use crate::git::Repo;
use crate::ledger::{Comparison, LedgerError, LedgerFile, Rebuilt};

/// The ledger of a repository, with the records that should be in it.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) path: PathBuf,
    metric: String,
    dialect: LedgerDialect,
    /// The records of its metric, of all sessions, in the order in which they were finished.
    pub(super) records: Vec<Record>,
}

impl Books {
    /// The ledger, where there is a session. It is of the metric of the first session that it can be continued with.
    pub(super) fn of(repo: &Repo, patients: &Patients) -> Option<Books> {
        let path = repo.main_worktree().join("results.tsv");
        // Rows of others stay with others.
        let own = || patients.all().filter(|facts| facts.has_files());
        let terms: Vec<(String, LedgerDialect)> =
            own().filter_map(|facts| facts.terms()).map(|terms| (one_line(&terms.metric.name), terms.ledger)).collect();
        let fits =
            |(metric, dialect): &&(String, LedgerDialect)| LedgerFile::compare(&path, metric, *dialect, &[]).is_ok();
        let (metric, dialect) = terms.iter().find(fits).or(terms.first())?.clone();
        let mut records: Vec<Record> = own().flat_map(|facts| facts.history().records().to_vec()).collect();
        records.retain(|record| one_line(&record.metric.name) == metric);
        records.sort_by_key(|record| record.finished);
        Some(Books { path, metric, dialect, records })
    }

    /// Compares the file with the records; see [`LedgerFile::compare`].
    pub(super) fn compare(&self) -> Result<Comparison, LedgerError> {
        LedgerFile::compare(&self.path, &self.metric, self.dialect, &self.records.iter().collect::<Vec<_>>())
    }

    /// Mends the file; see [`LedgerFile::rebuild`].
    pub(super) fn rebuild(&self) -> Result<Option<Rebuilt>, LedgerError> {
        let records: Vec<_> = self.records.iter().collect();
        let folder = self.path.parent().unwrap_or(Path::new("."));
        LedgerFile::rebuild(&self.path, &self.metric, self.dialect, &records, folder)
    }
}

/// Looks at results.tsv.
pub(super) fn look(repo: &Repo, patients: &Patients) -> Vec<Finding> {
    let Some(books) = Books::of(repo, patients) else { return Vec::new() };
    let found = match books.compare() {
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
    // Its row is yet to come: the recovery of an open experiment writes it.
    let is_open =
        |record: &Record| patients.all().any(|facts| facts.tag == record.tag && facts.open_ids().contains(&record.id));
    let missing: Vec<&Record> =
        found.missing.iter().map(|&index| &books.records[index]).filter(|record| !is_open(record)).collect();
    let error = |what: String| Finding::error(Area::Ledger, what).hint(REPAIR);
    let mut findings = Vec::new();
    if !books.path.exists() && !missing.is_empty() {
        findings.push(error("results.tsv is missing".to_owned()));
    } else if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(|record| format!("{} of {}", record.id, record.tag)).collect();
        findings.push(error(format!("results.tsv has no row of experiment {}", names.join(", "))));
    }
    for (lines, what) in [(&found.torn, "is truncated"), (&found.repeated, "repeats another one")] {
        for line in lines {
            findings.push(error(format!("line {line} of results.tsv {what}")));
        }
    }
    for (line, index) in &found.differing {
        let Record { id, tag, .. } = &books.records[*index];
        let what = format!("line {line} of results.tsv contradicts the record of experiment {id} of {tag}");
        findings.push(Finding::warning(Area::Ledger, what).hint(format!("ar show {id} --tag {tag}")));
    }
    if findings.is_empty() {
        let foreign = match found.foreign {
            0 => String::new(),
            foreign => format!(", and {}", count_of(foreign, "foreign row")),
        };
        findings
            .push(Finding::ok(Area::Ledger, format!("results.tsv has {} of ar{foreign}", count_of(found.own, "row"))));
    }
    findings
}
