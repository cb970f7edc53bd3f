//! Starting the resident guard.

use std::convert::Infallible;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use tokio::time::sleep;

use super::program::{guard_folder, log_to, own_program, without_own_variables};
use super::resident::RESIDENT_ARGUMENT;
use super::seat::{Seat, seated};
use super::service_error::ServiceError;
use super::wanted::{want, wanted};
use crate::domain::Resident;

/// What became of the resident guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ensured {
    /// None is wanted.
    Unwanted,
    /// It is running.
    Running,
    /// It was started, as this process.
    Started(u32),
}

/// Starts the resident guard in the background if one is wanted and none is running. It survives this process, its
/// terminal and its session, and gets no `AR_` variable.
///
/// # Errors
///
/// A newer version of `ar` wrote its settings, or it does not start.
pub fn ensure_resident() -> Result<Ensured, ServiceError> {
    ensure().map(|(ensured, _)| ensured)
}

/// Does that again and again, as often as the resident guard wakes. Calls `tell` with the first error.
pub async fn keep_resident(tell: impl FnOnce(&ServiceError)) -> Infallible {
    let mut tell = Some(tell);
    loop {
        let wake = match ensure() {
            Ok((_, wake)) => wake,
            Err(error) => {
                tell.take().into_iter().for_each(|tell| tell(&error));
                Resident::WAKE
            }
        };
        sleep(wake).await;
    }
}

/// Starts it if it is wanted and gone, and gives how often it wakes.
fn ensure() -> Result<(Ensured, Duration), ServiceError> {
    // Without a home folder nobody can want one.
    let Ok(folder) = guard_folder() else { return Ok((Ensured::Unwanted, Resident::WAKE)) };
    let Some(settings) = wanted(&folder, &Resident::default())? else {
        return Ok((Ensured::Unwanted, Resident::WAKE));
    };
    if seated(&folder).is_some() {
        return Ok((Ensured::Running, settings.wake));
    }
    let program = own_program()?;
    let mut command = Command::new(&program);
    command.args([RESIDENT_ARGUMENT, "detached"]).current_dir("/");
    log_to(&mut command, &folder.join("resident.log"));
    let started = without_own_variables(&mut command).spawn();
    let child = started.map_err(|source| ServiceError::Start { program, source })?;
    Ok((Ensured::Started(child.id()), settings.wake))
}

/// Notes that a resident guard is wanted, and turns this process into it, in the foreground. Returns only if that fails.
pub fn become_resident(settings: &Resident) -> ServiceError {
    let become_it = || -> Result<ServiceError, ServiceError> {
        let folder = guard_folder()?;
        // The lock is free: the program that follows takes it.
        drop(Seat::take(&folder)?);
        want(&folder, settings)?;
        let program = own_program()?;
        // A fresh program has a third of this one's memory, which reading the command line took.
        let mut command = Command::new(&program);
        let source = without_own_variables(command.arg(RESIDENT_ARGUMENT)).exec();
        Ok(ServiceError::Start { program, source })
    };
    become_it().unwrap_or_else(|error| error)
}
