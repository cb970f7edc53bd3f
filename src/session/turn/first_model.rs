//! Sessions that an earlier version ran on GPUs of several models: they continue with the first one, on which the numbers of
//! their records were measured.

use serde_json::{Map, Value};

use super::recovery::all_open;
use crate::domain::{Beside, Phase};
use crate::rules::{GpuSlot, History};
use crate::session::attempt::{Attempt, end_jobs};
use crate::session::errors::{LayoutError, SessionError};
use crate::session::wait::Shared;
use crate::state::{OpenAttempt, OpenExperiment};

/// The model of GPUs that a record, or an open attempt, of such a session names.
fn model_in(more: &Map<String, Value>) -> Option<&str> {
    more.get("gpu")?.as_str()
}

fn first_model(history: &History) -> Option<&str> {
    model_in(&history.baseline()?.more)
}

/// Refuses slots with GPUs of another model than the first one of a session with several.
pub(crate) fn refuse_other_model(history: &History, gpus: &[GpuSlot]) -> Result<(), LayoutError> {
    match (first_model(history), gpus.first().map(GpuSlot::model)) {
        (Some(measured), Some(given)) if measured != given => {
            Err(LayoutError::OtherModel { measured: measured.to_owned(), given: given.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Closes what ran on other models than the first one: trials end, and changes wait for another run.
pub(crate) async fn leave_other_models(shared: &Shared<'_>) -> Result<(), SessionError> {
    let (first, open) = {
        let store = shared.store();
        let Some(first) = first_model(&store.history) else { return Ok(()) };
        (first.to_owned(), all_open(&store))
    };
    for OpenAttempt { phase, open, .. } in open {
        // An attempt that is being recorded has its final value.
        if phase == Phase::Recording || model_in(&open.more).is_none_or(|model| model == first) {
            continue;
        }
        end_jobs(shared, open.id).await?;
        let store = &mut *shared.store();
        if open.trial.is_some() {
            store.close_open(open.id)?;
            continue;
        }
        let commit = open.commit.clone().or(open.draft.as_ref().map(|draft| draft.commit.clone()));
        let mut more = open.more.clone();
        more.remove("gpu");
        let replays = open.beside.replays.iter().filter(|replay| replay.value.is_none()).cloned().collect();
        let beside = Beside { replays, ..open.beside.clone() };
        let open = OpenExperiment { commit, draft: None, merge_with: None, beside, more, ..open };
        store.enter_ready(&mut Attempt::at(open, phase))?;
    }
    shared.publish()
}
