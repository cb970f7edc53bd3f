//! Sessions of research: their terms, and the files that they begin with.

use std::path::PathBuf;

use super::scoring::read_terms;
use crate::domain::{COMPOSITE, Composite, Contract, Form, StopRule};
use crate::git::Repo;
use crate::rules::calls_score;
use crate::session::errors::{ScoreError, SessionError};

/// From which composite on a session of research keeps: 0.45, the gate of the Madani adapter.
pub const RESEARCH_THRESHOLD: f64 = 0.45;

/// The terms of a new session of research with the question and the axes of its `research.toml`, and the stop rule of such
/// sessions, where none were asked for; the folder of its sources; and what to warn of. Leaves the terms of other sessions as
/// they are.
pub(crate) fn with_research(
    repo: &Repo,
    mut contract: Contract,
    is_new: bool,
) -> Result<(Contract, Option<PathBuf>, Vec<String>), SessionError> {
    if !calls_score(&contract.command) {
        return Ok((contract, None, Vec::new()));
    }
    let mut terms = read_terms(repo, Some(&contract.start))?;
    let mut warnings = Vec::new();
    if is_new {
        contract.goal_text.get_or_insert_with(|| terms.question.clone());
    }
    if is_new && contract.metric.name == COMPOSITE {
        if let Some(own) = contract.composite.take() {
            let of = || "[composite] of ar.toml".to_owned();
            terms = terms.with_composite(own).map_err(|source| ScoreError::Terms { terms: of(), source })?;
        }
        contract.artifact_form = Some(terms.composite.form);
        // Its threshold is one of the mean: in another form what multiplies keeps nothing.
        contract.composite = Some(Composite { form: Form::Weighted, ..terms.composite });
        contract.keep_above.get_or_insert(RESEARCH_THRESHOLD.into());
        warnings = terms.warnings;
        if contract.stop_rules.is_empty() {
            contract.stop_rules.extend(StopRule::OF_RESEARCH);
        }
    }
    Ok((contract, Some(terms.sources), warnings))
}
