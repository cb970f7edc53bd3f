//! Starting the resident guard.

use std::convert::Infallible;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use tokio::time::sleep;

use super::resident::{GuardLock, RESIDENT_ARGUMENT, seated, want, wanted};
use super::units::{ServiceError, guardian_folder, log_to, own_program, without_own_variables};
use crate::domain::Resident;

/// The exit code of a resident guard that found another one.
const HELD: i32 = 5;

/// Starts the resident guard in the background if one is wanted and none is running, and gives its process then. It survives
/// this process, its terminal and its session, and gets no `AR_` variable.
///
/// # Errors
///
/// A newer version of `ar` wrote its settings, or it does not start.
pub fn ensure_resident() -> Result<Option<u32>, ServiceError> {
    ensure().map(|(started, _)| started.map(|child| child.id()))
}

/// Does that again and again, as often as the resident guard wakes, and reaps what it started. Calls `tell` with the first
/// error, be it its own or that of the resident guard.
pub async fn keep_resident(tell: impl FnOnce(&ServiceError)) -> Infallible {
    let (mut tell, mut wake) = (Some(tell), Resident::WAKE);
    let mut started: Option<Child> = None;
    loop {
        let ended = started.as_mut().map(Child::try_wait);
        if matches!(ended, Some(Ok(None))) {
            sleep(wake).await;
            continue;
        }
        // One that is killed is only started again; one that is not wanted, or finds another, ends as it should.
        let is_failure = |status: &ExitStatus| status.code().is_some_and(|code| code != 0 && code != HELD);
        let failed = ended.and_then(|ended| ended.ok().flatten()).filter(is_failure);
        let error = match ensure() {
            Ok(next) => {
                (started, wake) = next;
                failed.map(ServiceError::Ended)
            }
            Err(error) => {
                (started, wake) = (None, Resident::WAKE);
                Some(error)
            }
        };
        if let Some(error) = error {
            tell.take().into_iter().for_each(|tell| tell(&error));
        }
        sleep(wake).await;
    }
}

/// Starts it if it is wanted and gone, and gives how often it wakes.
fn ensure() -> Result<(Option<Child>, Duration), ServiceError> {
    // Without a home folder nobody can want one.
    let Ok(folder) = guardian_folder() else { return Ok((None, Resident::WAKE)) };
    let Some(settings) = wanted(&folder, &Resident::default())? else { return Ok((None, Resident::WAKE)) };
    if seated(&folder).is_some() {
        return Ok((None, settings.wake));
    }
    let program = own_program()?;
    let mut command = Command::new(&program);
    command.args([RESIDENT_ARGUMENT, "detached"]).current_dir("/");
    log_to(&mut command, &folder.join("resident.log"));
    let started = without_own_variables(&mut command).spawn();
    let child = started.map_err(|source| ServiceError::Start { program, source })?;
    Ok((Some(child), settings.wake))
}

/// Notes that a resident guard is wanted, and turns this process into it, in the foreground. Returns only if that fails.
pub fn become_resident(settings: &Resident) -> ServiceError {
    let become_it = || -> Result<ServiceError, ServiceError> {
        let folder = guardian_folder()?;
        // The lock is free: the program that follows takes it.
        drop(GuardLock::take(&folder)?);
        want(&folder, settings)?;
        let program = own_program()?;
        // A fresh program has a third of this one's memory, which reading the command line took.
        let mut command = Command::new(&program);
        let source = without_own_variables(command.arg(RESIDENT_ARGUMENT)).exec();
        Ok(ServiceError::Start { program, source })
    };
    become_it().unwrap_or_else(|error| error)
}
