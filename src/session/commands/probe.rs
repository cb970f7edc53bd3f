//! One run of a command before there is a session, for the numbers that it prints.

use std::path::Path;
use std::time::Duration;

use crate::domain::{Direction, MetricSource, MetricSpec};
use crate::exec::{Executor, Exit, Job};
use crate::measure::LogSummary;
use crate::session::errors::{CommandRole, SessionError};
use crate::session::files::{check_command, read_log};

/// Time limit of the run.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a command once in the working tree at `root`, for a minute at most. Returns its end and the summary of its log.
///
/// # Errors
///
/// The command cannot be started, or its log cannot be read.
pub async fn probe(root: &Path, command: &str) -> Result<(Exit, LogSummary), SessionError> {
    check_command(CommandRole::Command, command, root)?;
    let folder = tempfile::Builder::new().prefix("ar-probe-").tempdir().map_err(|source| SessionError::Io {
        action: "make",
        path: std::env::temp_dir(),
        source,
    })?;
    let log = folder.path().join("probe.log");
    let job = Job {
        name: "probe".to_owned(),
        command: command.to_owned(),
        cwd: root.to_owned(),
        folder: folder.path().to_owned(),
        log: log.clone(),
        timeout: LIMIT,
        grace: Duration::from_secs(5),
        tied: true,
        ..Job::default()
    };
    let exit = Executor::local().start(&job)?.wait().await?;
    // The log is read for all names.
    let any = MetricSpec { name: "metric".to_owned(), direction: Direction::Lower, source: MetricSource::Log };
    Ok((exit, read_log(&log, &any, None)?))
}
