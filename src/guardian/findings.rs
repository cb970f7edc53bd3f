//! The findings of `ar doctor` about the guard.

use std::path::Path;
use std::time::Duration;

use super::beat::last_patrol;
use super::install::installed;
use super::program::guardian_folder;
use super::seat::seated;
use super::service_error::ServiceError;
use super::wanted::wanted;
use crate::domain::{Area, Clock, Finding, Resident, with_causes};
use crate::rules::is_beat_missing;

/// Says whether a guard is installed, when its last patrol came, and whether the resident guard runs. Changes nothing.
pub fn examine_guardians(clock: Clock) -> Vec<Finding> {
    let folder = match guardian_folder() {
        Ok(folder) => folder,
        Err(error) => return vec![unknown(&error)],
    };
    let settings = match wanted(&folder, &Resident::default()) {
        Ok(settings) => settings,
        Err(error) => return vec![unknown(&error)],
    };
    let mut found = vec![match installed() {
        Ok(installed) => patrols(&folder, installed, settings.as_ref(), clock),
        Err(error) => unknown(&error),
    }];
    found.extend(settings.map(|_| {
        match seated(&folder) {
            Some(process) => {
                let process = process.map(|pid| format!(": process {pid}")).unwrap_or_default();
                Finding::ok(Area::Guardian, format!("the resident guard is running{process}"))
            }
            None => Finding::warning(Area::Guardian, "a resident guard is wanted, but none is running")
                .hint("run `ar guard` to start it, or `ar guard --uninstall` to want none"),
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

fn patrols(folder: &Path, installed: Option<&str>, settings: Option<&Resident>, clock: Clock) -> Finding {
    let (beat, limit) = (last_patrol(folder), settings.map_or(Resident::BEAT, |settings| settings.beat));
    let last = match beat {
        Some(at) => format!("the last patrol ended at {}", clock.said(at)),
        None => "no patrol has come yet".to_owned(),
    };
    let how = match installed {
        Some(how) => format!("a guard is installed as {how}"),
        None => "no guard is installed (`ar guard --install`)".to_owned(),
    };
    let is_missing = is_beat_missing(beat, clock.now(), Duration::ZERO, limit);
    match (installed, beat) {
        (None, None) => Finding::ok(Area::Guardian, how),
        (Some(_), _) if is_missing => Finding::warning(Area::Guardian, format!("{how}, but {last}"))
            .hint("run `ar guard` for a patrol by hand, and `ar guard --install` if none comes by itself"),
        _ => Finding::ok(Area::Guardian, format!("{how}; {last}")),
    }
}
