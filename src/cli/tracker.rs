//! Trackers of experiments, and the export of a session to one by its own client library.

mod client;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use autoresearch::domain::{Tag, count_of, shell_word};
use autoresearch::exec::Helper;
use autoresearch::measure::last_lines;
use autoresearch::session::SessionView;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use self::client::{Feed, Folder, Python, Unfed};
use super::args::TrackerArgs;
use super::error::CliError;
use super::process::{no_runtime, runtime};
use super::{chosen, error, output, settings};

/// Time limit for a client after its last record: an upload may be slow.
const FINISHING: Duration = Duration::from_secs(600);

/// The same after an interrupt.
const GRACE: Duration = Duration::from_secs(10);

/// The most lines of a client's errors to print.
const LINES: usize = 12;

/// A tracker of experiments.
#[derive(Debug)]
pub(super) struct Tracker {
    /// Its name as a value of `--to`, and that of the default folder.
    name: &'static str,
    /// Its own name.
    title: &'static str,
    /// The script that writes to it.
    script: &'static str,
    /// The statement that fails without its client.
    imports: &'static str,
    /// The packages of its client.
    packages: &'static [&'static str],
}

/// Weights & Biases.
pub(super) static WANDB: Tracker = Tracker {
    name: "wandb",
    title: "W&B",
    script: concat!(include_str!("tracker/records.py"), include_str!("tracker/wandb.py")),
    imports: "from wandb import init",
    packages: &["wandb==0.31.0"],
};

/// TensorBoard.
pub(super) static TENSORBOARD: Tracker = Tracker {
    name: "tensorboard",
    title: "TensorBoard",
    script: concat!(include_str!("tracker/records.py"), include_str!("tracker/tensorboard.py")),
    imports: "from tensorboard.summary.writer.event_file_writer import EventFileWriter",
    packages: &["tensorboard==2.21.0"],
};

/// MLflow. Without SQLAlchemy its client opens no SQLite store.
pub(super) static MLFLOW: Tracker = Tracker {
    name: "mlflow",
    title: "MLflow",
    script: concat!(include_str!("tracker/records.py"), include_str!("tracker/mlflow.py")),
    imports: "import alembic, sqlalchemy; from mlflow import MlflowClient",
    packages: &["mlflow-skinny==3.17.2", "sqlalchemy==2.1.9", "alembic==1.20.1"],
};

/// Writes a session to a tracker.
pub(super) fn export(
    tracker: &Tracker,
    tag: Option<Tag>,
    folder: Option<PathBuf>,
    args: TrackerArgs,
) -> Result<ExitCode, CliError> {
    tracker.refuse(folder.is_some(), args.uri.is_some())?;
    if args.print_script {
        output::bytes(tracker.script.as_bytes());
        return Ok(ExitCode::SUCCESS);
    }
    let view = chosen::open(tag)?;
    if view.history.records().is_empty() && !args.follow {
        let hint = "pass --follow to wait for the first one".to_owned();
        return Err(CliError::new(format!("session {} has no experiment yet", view.tag), Some(hint)));
    }
    let export = Export { tracker, view, folder, args };
    runtime()?.block_on(export.run())
}

impl Tracker {
    /// Refuses places that it does not have.
    fn refuse(&self, has_folder: bool, has_uri: bool) -> Result<(), CliError> {
        match self.name {
            "tensorboard" if has_uri => {
                Err(CliError::usage("TensorBoard has no server to write to", "omit --uri, or pass --output DIR"))
            }
            "mlflow" if has_uri && has_folder => {
                Err(CliError::usage("with --uri, MLflow writes no files here", "omit --output or --uri"))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether it writes files here.
    fn has_files(&self, has_uri: bool) -> bool {
        self.name != "mlflow" || !has_uri
    }

    /// The command that opens these files.
    fn opened_by(&self, folder: &Path) -> String {
        match self.name {
            "wandb" => format!("upload it with: wandb sync {}/wandb/offline-run-*", shell_word(folder)),
            "mlflow" => {
                let store = PathBuf::from(format!("sqlite:///{}/mlflow.db", folder.display()));
                format!("look at it with: mlflow ui --backend-store-uri {}", shell_word(&store))
            }
            _ => format!("look at it with: tensorboard --logdir {}", shell_word(folder)),
        }
    }
}

/// The export of a session to a tracker.
struct Export<'a> {
    tracker: &'a Tracker,
    view: SessionView,
    folder: Option<PathBuf>,
    args: TrackerArgs,
}

/// How the client took the records.
enum Fed {
    Whole,
    Interrupted,
    Refused,
}

impl Export<'_> {
    async fn run(self) -> Result<ExitCode, CliError> {
        let Export { tracker, view, args, .. } = &self;
        let mut signals = Signals::listen()?;
        let python = tokio::select! {
            biased;
            () = signals.next() => return Ok(ExitCode::from(error::INTERRUPTED)),
            found = Python::find(tracker, args, view) => found?,
        };
        let has_files = tracker.has_files(args.uri.is_some());
        let files = has_files.then(|| Folder::prepare(view, self.folder.as_deref(), tracker.name)).transpose()?;
        let folder = files.as_ref().map(Folder::path);
        let mut client = python.start(tracker.script, &self.script_arguments(folder))?;
        if args.follow {
            output::note(&format!("writing session {} to {}; Ctrl-C ends it", view.tag, self.place(folder)));
        }
        let mut feed = Feed::new(view, settings::clock()?);
        let fed = tokio::select! {
            biased;
            () = signals.next() => Ok(Fed::Interrupted),
            fed = feed.give(&mut client, args.follow) => match fed {
                Ok(()) => Ok(Fed::Whole),
                Err(Unfed::Client) => Ok(Fed::Refused),
                Err(Unfed::Session(error)) => Err(error),
            },
        };
        client.close();
        let patience = if matches!(fed, Ok(Fed::Whole | Fed::Refused)) { FINISHING } else { GRACE };
        let status = tokio::select! {
            biased;
            () = signals.next() => return interrupted(client, &view.tag, feed.count()).await,
            status = timeout(patience, client.wait()) => status.ok().transpose().map_err(no_runtime)?,
        };
        match fed? {
            Fed::Interrupted => interrupted(client, &view.tag, feed.count()).await,
            Fed::Whole if status.is_some_and(|status| status.success()) => {
                client.end().await;
                let count = count_of(feed.count(), "experiment");
                output::line(&format!("{count} of {} written to {}", view.tag, self.place(folder)));
                if let Some(folder) = folder.filter(|_| args.uri.is_none()) {
                    output::note(&tracker.opened_by(folder));
                }
                Ok(ExitCode::SUCCESS)
            }
            Fed::Whole | Fed::Refused => Err(self.failure(status, &client.end().await)),
        }
    }

    fn script_arguments(&self, folder: Option<&Path>) -> Vec<OsString> {
        let named = |name: &str, value: &std::ffi::OsStr| [name.into(), value.to_owned()];
        let folder = folder.map(|folder| named("--output", folder.as_os_str()));
        let uri = self.args.uri.as_deref().map(|uri| named("--uri", uri.as_ref()));
        folder.into_iter().chain(uri).flatten().collect()
    }

    /// Where the session is written to.
    fn place(&self, folder: Option<&Path>) -> String {
        let uri = self.args.uri.clone();
        uri.or_else(|| Some(folder?.display().to_string())).unwrap_or_default()
    }

    /// The error of a client that did not take everything, with the last lines that it printed.
    fn failure(&self, status: Option<ExitStatus>, errors: &[u8]) -> CliError {
        let (title, name) = (self.tracker.title, self.tracker.name);
        let error = match status {
            Some(status) if status.success() => format!("the client of {title} ended before it had read all records"),
            Some(status) => format!("the client of {title} failed: {status}"),
            None => format!("the client of {title} did not finish within {} min", FINISHING.as_secs() / 60),
        };
        let hint = format!(
            "solve that, then repeat the command, which writes nothing twice; `ar export --to {name} --print-script` shows \
             the script"
        );
        CliError::new(error, Some(hint)).with_excerpt(last_lines(errors, LINES))
    }
}

async fn interrupted(client: Helper, tag: &Tag, count: usize) -> Result<ExitCode, CliError> {
    client.end().await;
    output::note(&format!("interrupted after {} of {tag}; repeat the command to go on", count_of(count, "experiment")));
    Ok(ExitCode::from(error::INTERRUPTED))
}

/// The signals that end an export.
struct Signals([Signal; 3]);

impl Signals {
    fn listen() -> Result<Signals, CliError> {
        let listen = |kind| signal(kind).map_err(no_runtime);
        Ok(Signals([listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?, listen(SignalKind::hangup())?]))
    }

    /// Waits for the next one.
    async fn next(&mut self) {
        let Signals([int, term, hangup]) = self;
        tokio::select! {
            _ = int.recv() => {}
            _ = term.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
