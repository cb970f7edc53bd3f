//! The terms of a session and its experiments.

use super::difference::{Difference, Repair};
use super::facts::{Facts, RecordRef};
use super::repository;
use super::sessions::finding_of;
use crate::domain::{Area, Drift, ExperimentId, Finding, count_of, with_causes};
use crate::git::Repo;
use crate::rules::ignored_changes;
use crate::session::errors::SessionError;
use crate::state::StateError;

/// Compares the terms and the records of a session.
pub(crate) fn inspect(repo: &Repo, facts: &Facts) -> Vec<Difference> {
    let mut found: Vec<Difference> =
        facts.refs.iter().filter_map(|found| record(repo, facts, found)).map(Difference::from).collect();
    if repository::in_the_way(repo).is_none() && facts.has_files() {
        found.extend(contract(facts));
    }
    found.extend(ignored(facts).map(Difference::from));
    if found.is_empty() {
        let history = facts.history();
        let best = history.best_kept_record().and_then(|record| Some((record.id, history.number_to_beat(record)?)));
        let best = best.map(|(id, number)| format!(", the best is {number} of experiment {id}")).unwrap_or_default();
        let what = format!("{}{best}", count_of(history.experiments(), "experiment"));
        found.push(Finding::ok(Area::Session, what).into());
    }
    found
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
    let RecordRef { id, name, object, tagged, record } = found;
    let look = format!(
        "look with `git cat-file -p {name}`, and decide what experiment {id} was; `git update-ref {name} OBJECT` puts \
         another tag object in its place"
    );
    let record = match record {
        Ok(record) => record,
        Err(error) => {
            if !repo.objects.has_object(object) {
                let what = format!("the object {object} of the record {name} is gone");
                let hint = format!(
                    "fetch it from a copy of the repository; without one, decide whether to go on without the record: \
                     `git update-ref -d {name}`"
                );
                return Some(Finding::damaged(Area::Session, what).hint(hint));
            }
            let finding = finding_of(Area::Session, error);
            let is_bad = matches!(error, SessionError::BadRecord { .. });
            return Some(if is_bad { finding.hint(look) } else { finding });
        }
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

/// Compares contract.json with the terms that the baseline's record has.
fn contract(facts: &Facts) -> Option<Difference> {
    let path = facts.folder.state().join("contract.json");
    let shown = path.display();
    let recorded = facts.recorded_terms();
    let what = match (&facts.contract, &recorded) {
        (Ok(Some(stored)), Some(recorded)) => {
            let term = |Drift { field, approved, found, .. }: &Drift| {
                format!("the {field} `{found}`, and the baseline's record `{approved}`")
            };
            let drifts: Vec<_> = Drift::all(recorded, stored).iter().map(term).collect();
            match drifts.is_empty() {
                true if !facts.is_changed => return None,
                true => "contract.json was changed after it was approved".to_owned(),
                false => format!("contract.json has {}", drifts.join("; ")),
            }
        }
        (Ok(Some(_)), None) if !facts.is_changed => return None,
        (Ok(Some(_)), None) => {
            let what = format!("{shown} was changed, and no record holds the approved terms");
            let hint = "start a new session: `ar run --tag NEW --metric NAME --cmd COMMAND`";
            return Some(Finding::damaged(Area::Session, what).hint(hint).into());
        }
        (Ok(None), Some(_)) => format!("{shown} is missing"),
        (Err(StateError::Json { .. }), Some(_)) => format!("cannot parse {shown}"),
        (Err(error), recorded) if recorded.is_some() || !matches!(error, StateError::Json { .. }) => {
            return Some(Finding { hint: error.hint(), ..Finding::error(Area::Session, with_causes(error)) }.into());
        }
        (Ok(None) | Err(_), _) => {
            let what = format!("cannot read {shown}, and no record holds the terms");
            let look = format!("git cat-file -p {}", facts.tag.record_ref(ExperimentId::BASELINE));
            let hint = format!(
                "give the settings again in a new session: `ar run --tag NEW --metric NAME --cmd COMMAND`; `{look}` \
                 and `ar log {}` show what is left of them",
                facts.tag
            );
            return Some(Finding::damaged(Area::Session, what).hint(hint).into());
        }
    };
    Some(Difference::new(Finding::error(Area::Session, what), Repair::Contract(Box::new(recorded?))))
}
