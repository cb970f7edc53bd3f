//! The findings of `ar doctor` about the guard.

use std::path::Path;
use std::time::Duration;

use super::program::guardian_folder;
use super::seat::seated;
use super::service_error::ServiceError;
use super::wanted::{self, wanted};
use crate::domain::{Area, Clock, Finding, Resident, shell_word, with_causes};
use crate::rules::is_beat_missing;
use crate::state::last_patrol;

/// Says when the last patrol came, and whether the resident guard runs. Changes nothing.
pub fn examine_guardians(clock: Clock) -> Vec<Finding> {
    let folder = match guardian_folder() {
        Ok(folder) => folder,
        Err(error) => return vec![unknown(&error)],
    };
    let settings = match wanted(&folder, &Resident::default()) {
        Ok(settings) => settings,
        Err(error) => return vec![unknown(&error)],
    };
    let mut found = vec![patrols(&folder, settings.as_ref(), clock)];
    found.extend(settings.map(|_| match seated(&folder) {
        Some(process) => {
            let process = process.map(|pid| format!(": process {pid}")).unwrap_or_default();
            Finding::ok(Area::Guardian, format!("the resident guard is running{process}"))
        }
        None => {
            Finding::warning(Area::Guardian, "a resident guard is wanted, but none is running").hint(format!(
                "run `ar guard` to start it, or `rm {}` to want none",
                shell_word(&wanted::file(&folder))
            ))
        }
    }));
    found
}

fn unknown(error: &ServiceError) -> Finding {
    let found = Finding::warning(Area::Guardian, with_causes(error));
    match error.hint() {
        Some(hint) => found.hint(hint),
        None => found,
    }
}

fn patrols(folder: &Path, settings: Option<&Resident>, clock: Clock) -> Finding {
    let limit = settings.map_or(Resident::BEAT, |settings| settings.beat);
    let Some(beat) = last_patrol(folder) else {
        return Finding::ok(Area::Guardian, "no patrol has come yet (`ar guard --print systemd`)");
    };
    let last = format!("the last patrol ended at {}", clock.said(beat));
    if is_beat_missing(Some(beat), clock.now(), Duration::ZERO, limit) {
        return Finding::warning(Area::Guardian, format!("patrols are missing: {last}"))
            .hint("run `ar guard` for a patrol by hand, and see whether your timer or crontab still starts it");
    }
    Finding::ok(Area::Guardian, last)
}
