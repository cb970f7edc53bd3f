//! The terms of a session and its experiments.

use super::facts::{Facts, REPAIR, RecordRef};
use super::patients::finding_of;
use super::{lost, repository};
use crate::domain::{Area, Drift, ExperimentId, Finding, count_of, with_causes};
use crate::git::Repo;
use crate::rules::ignored_changes;
use crate::session::error::SessionError;
use crate::state::StateError;

/// Looks at the terms and the records of a session.
pub(super) fn look(repo: &Repo, facts: &Facts) -> Vec<Finding> {
    let mut found: Vec<Finding> = facts.refs.iter().filter_map(|found| record(repo, facts, found)).collect();
    if repository::in_the_way(repo).is_none() && facts.has_files() {
        found.extend(contract(facts));
    }
    found.extend(ignored(facts));
    if found.is_empty() {
        let history = facts.history();
        let best = history.best_kept_record().and_then(|record| Some((record.id, record.metric.number()?)));
        let best = best.map(|(id, number)| format!(", the best is {number} of experiment {id}")).unwrap_or_default();
        found.push(Finding::ok(Area::Session, format!("{}{best}", count_of(history.experiments(), "experiment"))));
    }
    found.into_iter().map(|finding| finding.of(&facts.tag)).collect()
}

fn ignored(facts: &Facts) -> Option<Finding> {
    let changes = ignored_changes(facts.history().records());
    let (last, files) = changes.last()?;
    let what = format!(
        "ignored files changed before the run of experiment {last}, and no commit has them: {}",
        files.join(", ")
    );
    Some(Finding::warning(Area::Session, what).hint("pass --protect FILE to pin an input, or track it with git"))
}

fn record(repo: &Repo, facts: &Facts, found: &RecordRef) -> Option<Finding> {
    let RecordRef { id, name, tagged, record, .. } = found;
    let look = format!(
        "look with `git cat-file -p {name}`, and decide what experiment {id} was; `git update-ref {name} OBJECT` puts \
         another tag object in its place"
    );
    let record = match record {
        Ok(record) => record,
        Err(_) if lost::rebuilt(repo, facts, found).is_some() => {
            let what = format!("the object of the record {name} is gone; its commit, its row and the logs tell of it");
            return Some(Finding::error(Area::Session, what).hint(REPAIR));
        }
        Err(error @ SessionError::BadRecord { .. }) => return Some(finding_of(Area::Session, error).hint(look)),
        Err(error) => return Some(finding_of(Area::Session, error)),
    };
    let what = if record.id != *id {
        format!("the record {name} belongs to experiment {}", record.id)
    } else if record.tag != facts.tag {
        format!("the record {name} belongs to session {}", record.tag)
    } else if record.commit.is_known() && tagged.as_ref().is_some_and(|commit| *commit != record.commit) {
        format!("the record {name} is on a different commit than it names")
    } else {
        return None;
    };
    Some(Finding::damaged(Area::Session, what).hint(look))
}

fn contract(facts: &Facts) -> Option<Finding> {
    let path = facts.folder.state().join("contract.json");
    let recorded = facts.recorded_terms();
    let error = |what: String| Some(Finding::error(Area::Session, what).hint(REPAIR));
    match (&facts.contract, &recorded) {
        (Ok(Some(stored)), Some(recorded)) => {
            let term = |Drift { field, approved, found, .. }: &Drift| {
                format!("the {field} `{found}`, and the baseline's record `{approved}`")
            };
            let drifts: Vec<_> = Drift::all(recorded, stored).iter().map(term).collect();
            if drifts.is_empty() {
                facts.is_changed.then(|| {
                    Finding::error(Area::Session, "contract.json was changed after it was approved").hint(REPAIR)
                })
            } else {
                error(format!("contract.json has {}", drifts.join("; ")))
            }
        }
        (Ok(Some(_)), None) => facts.is_changed.then(|| {
            let what = format!("{} was changed, and no record holds the approved terms", path.display());
            Finding::damaged(Area::Session, what)
                .hint("start a new session: `ar run --tag NEW --metric NAME --cmd COMMAND`")
        }),
        (Ok(None), Some(_)) => error(format!("{} is missing", path.display())),
        (Err(StateError::Json { .. }), Some(_)) => error(format!("cannot parse {}", path.display())),
        (Err(error), recorded) if recorded.is_some() || !matches!(error, StateError::Json { .. }) => {
            let finding = Finding::error(Area::Session, with_causes(error));
            Some(Finding { hint: error.hint(), ..finding })
        }
        (Ok(None) | Err(_), _) => {
            let what = format!("cannot read {}, and no record holds the terms", path.display());
            let look = format!("git cat-file -p {}", facts.tag.record_ref(ExperimentId::BASELINE));
            Some(Finding::damaged(Area::Session, what).hint(format!(
                "give the settings again in a new session: `ar run --tag NEW --metric NAME --cmd COMMAND`; `{look}` \
                 and `ar log {}` show what is left of them",
                facts.tag
            )))
        }
    }
}
