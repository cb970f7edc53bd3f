//! Trackers of experiments: the export of a session to one by its own client library, with the Python that has it, the records that
//! it reads, and the folder of its files.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;
use std::{fs, io};

use tokio::time::{sleep, timeout};

use autoresearch::domain::{Clock, ExperimentId, Record, Tag, count_of, json_text, shell_word};
use autoresearch::exec::Helper;
use autoresearch::fs::lock_within;
use autoresearch::measure::last_lines;
use autoresearch::report::record_json;
use autoresearch::session::{SessionError, SessionView, StatusWatcher};
use autoresearch::state::SESSIONS_FOLDER;

use super::{CliError, Signals, TrackerArgs, error, no_runtime, output, process, resolve_session, runtime, settings};

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
    let view = resolve_session::open(tag)?;
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

/// The client's reaction to the records.
enum Fed {
    Whole,
    Interrupted,
    Refused,
}

impl Export<'_> {
    async fn run(self) -> Result<ExitCode, CliError> {
        let Export { tracker, view, args, .. } = &self;
        let mut signals = Signals::listen(true)?;
        let python = tokio::select! {
            biased;
            () = signals.next() => return Ok(ExitCode::from(error::INTERRUPTED)),
            found = TrackerPython::find(tracker, args, view) => found?,
        };
        let has_files = tracker.has_files(args.uri.is_some());
        let files =
            has_files.then(|| TrackerFolder::prepare(view, self.folder.as_deref(), tracker.name)).transpose()?;
        let folder = files.as_ref().map(TrackerFolder::path);
        let mut client = python.start(tracker.script, &self.script_arguments(folder))?;
        if args.follow {
            output::note(&format!("writing session {} to {}; Ctrl-C ends it", view.tag, self.place(folder)));
        }
        let mut feed = Feed { view, clock: settings::clock()?, given: BTreeSet::new() };
        let fed = tokio::select! {
            biased;
            () = signals.next() => Ok(Fed::Interrupted),
            fed = feed.give(&mut client, args.follow) => {
                fed.map(|is_whole| if is_whole { Fed::Whole } else { Fed::Refused })
            }
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
        let named = |name: &str, value: &OsStr| [name.into(), value.to_owned()];
        let folder = folder.map(|folder| named("--output", folder.as_os_str()));
        let uri = self.args.uri.as_deref().map(|uri| named("--uri", uri.as_ref()));
        folder.into_iter().chain(uri).flatten().collect()
    }

    /// The place to which the session is written.
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
    let given = count_of(count, "experiment");
    process::interrupted(&format!("interrupted after {given} of {tag}; repeat the command to go on"))
}

/// Poll interval of the session.
const INTERVAL: Duration = Duration::from_secs(1);

/// The records of a session, each given once.
pub(super) struct Feed<'a> {
    view: &'a SessionView,
    clock: Clock,
    given: BTreeSet<ExperimentId>,
}

impl Feed<'_> {
    /// The number of records given.
    pub(super) fn count(&self) -> usize {
        self.given.len()
    }

    /// Gives all records to the client; with `follow` also new ones, until the loop ends in good order. Returns whether the
    /// client reads on.
    pub(super) async fn give(&mut self, client: &mut Helper, follow: bool) -> Result<bool, SessionError> {
        if !self.give_new(client, self.view.history.records()).await? {
            return Ok(false);
        }
        let mut watcher = StatusWatcher::new(&self.view.repo, self.view.tag.clone(), self.clock);
        let mut is_over = !follow;
        while !is_over {
            // Before the records: a loop that ends meanwhile has recorded all.
            is_over = self.view.is_over();
            if !watcher.is_there() {
                return Err(SessionError::NoSession { tag: Some(self.view.tag.clone()), there: Vec::new() });
            }
            let history = watcher.look()?.history;
            if !self.give_new(client, history.records()).await? || client.has_ended().unwrap_or(true) {
                return Ok(false);
            }
            if !is_over {
                sleep(INTERVAL).await;
            }
        }
        Ok(true)
    }

    async fn give_new(&mut self, client: &mut Helper, records: &[Record]) -> Result<bool, SessionError> {
        let new: Vec<&Record> = records.iter().filter(|record| !self.given.contains(&record.id)).collect();
        let notes = self.view.notes(new.iter().copied())?;
        for record in new {
            let line = json_text(&record_json(record, notes.get(&record.id)), false) + "\n";
            if client.write(line.as_bytes()).await.is_err() {
                return Ok(false);
            }
            self.given.insert(record.id);
        }
        Ok(true)
    }
}

/// A `.gitignore` that also ignores itself.
const IGNORE_ALL: &str = "*\n";

/// The folder of a tracker's files, locked for this process.
pub(super) struct TrackerFolder {
    path: PathBuf,
    _lock: File,
}

impl TrackerFolder {
    /// Makes the folder that was passed, or else the one named `name` beside the session's own files.
    ///
    /// # Errors
    ///
    /// Git does not ignore what is in it; another export writes into it; it cannot be made.
    pub(super) fn prepare(view: &SessionView, passed: Option<&Path>, name: &str) -> Result<TrackerFolder, CliError> {
        let own = view.folder.root().join(name);
        let dir = passed.unwrap_or(&own);
        let failed = |source| SessionError::Io { action: "write", path: dir.to_owned(), source };
        if passed.is_none() {
            // An imported session has not excluded it.
            view.repo.exclude(&[&format!("/{SESSIONS_FOLDER}/")])?;
        }
        fs::create_dir_all(dir).map_err(failed)?;
        let path = dir.canonicalize().map_err(failed)?;
        // An active loop would otherwise take it for a part of its change.
        if passed.is_some() && is_seen_by_git(view, &path)? {
            if fs::read_dir(&path).map_err(failed)?.next().is_some() {
                let error = format!("git does not ignore the files in {}", path.display());
                let hint = "add it to .gitignore, or pass a new folder".to_owned();
                return Err(CliError::new(error, Some(hint)));
            }
            fs::write(path.join(".gitignore"), IGNORE_ALL).map_err(failed)?;
        }
        let lock = File::open(&path).map_err(failed)?;
        // Some file systems lock no folders.
        if lock_within(&lock, Duration::ZERO).is_ok_and(|is_ours| !is_ours) {
            let error = format!("another export writes into {}", path.display());
            return Err(CliError::new(error, Some("wait for its end, or pass --output DIR".into())));
        }
        Ok(TrackerFolder { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns whether a new file in the folder would be a change of the working tree.
fn is_seen_by_git(view: &SessionView, folder: &Path) -> Result<bool, SessionError> {
    let root = view.repo.worktree().canonicalize();
    match root.ok().and_then(|root| folder.join("new").strip_prefix(root).ok().map(Path::to_owned)) {
        Some(inside) => Ok(!view.repo.working_tree.is_ignored(&inside)?),
        None => Ok(false),
    }
}

/// Time limit for an interpreter to import a client.
const LIMIT: Duration = Duration::from_secs(60);

/// The start of every script: modules in the current folder are not the client.
const PREFIX: &str = "import sys; sys.path[:] = filter(None, sys.path)\n";

/// Variables of every script: compiled modules stay out of the user's folders.
const VARIABLES: &[(&str, &str)] = &[("PYTHONDONTWRITEBYTECODE", "1"), ("PYTHONUTF8", "1")];

/// A command that runs Python with a tracker's client.
pub(super) struct TrackerPython {
    program: OsString,
    arguments: Vec<OsString>,
}

impl TrackerPython {
    /// Finds it: the one that was passed, and no other; else the first that imports the client, of `.venv` and `python3`; else
    /// uv, if it may install.
    pub(super) async fn find(
        tracker: &Tracker,
        args: &TrackerArgs,
        view: &SessionView,
    ) -> Result<TrackerPython, CliError> {
        if let Some(python) = &args.python {
            return match missing(python.as_os_str(), tracker).await {
                None => Ok(TrackerPython::plain(python.into())),
                Some(why) => {
                    let packages = tracker.packages.join(" ");
                    let hint =
                        format!("install it: {} -m pip install {packages}, or omit --python", shell_word(python));
                    let error = format!("{} does not import the client of {}", python.display(), tracker.title);
                    Err(CliError::new(error, Some(hint)).with_excerpt(why))
                }
            };
        }
        let own = view.repo.worktree().join(".venv/bin/python");
        let own = own.exists().then(|| own.into_os_string());
        let mut tried = Vec::new();
        for program in own.into_iter().chain(["python3".into()]) {
            match missing(&program, tracker).await {
                None => return Ok(TrackerPython::plain(program)),
                Some(why) => tried.push(format!("{}: {why}", PathBuf::from(program).display())),
            }
        }
        let uv = TrackerPython::of_uv(tracker);
        if args.install {
            return Ok(uv);
        }
        let hint = format!("pass --install to use `{} …`, or --python PATH", uv.words());
        Err(CliError::new(format!("no Python here imports the client of {}", tracker.title), Some(hint))
            .with_excerpt(tried.join("\n")))
    }

    fn plain(program: OsString) -> TrackerPython {
        TrackerPython { program, arguments: Vec::new() }
    }

    /// uv with the client's packages. Without the project, which it would install as well.
    fn of_uv(tracker: &Tracker) -> TrackerPython {
        let packages = tracker.packages.iter().flat_map(|package| ["--with", package]);
        let arguments = ["run", "--no-project"].into_iter().chain(packages).chain(["python"]);
        TrackerPython { program: "uv".into(), arguments: arguments.map(OsString::from).collect() }
    }

    /// Itself as a command line.
    fn words(&self) -> String {
        let words = [&self.program].into_iter().chain(&self.arguments);
        words.map(|word| shell_word(word.as_ref())).collect::<Vec<_>>().join(" ")
    }

    /// Starts a script with these arguments.
    pub(super) fn start(&self, script: &str, arguments: &[OsString]) -> Result<Helper, CliError> {
        let script = ["-c".into(), OsString::from(format!("{PREFIX}{script}"))];
        let all = self.arguments.iter().chain(&script).chain(arguments);
        Helper::start(&self.program, all, VARIABLES).map_err(|error| {
            let hint = if self.program == "uv" && error.kind() == io::ErrorKind::NotFound {
                "install uv, or pass --python PATH"
            } else {
                "pass --python PATH"
            };
            let error = format!("cannot start `{}`: {error}", PathBuf::from(&self.program).display());
            CliError::new(error, Some(hint.to_owned()))
        })
    }
}

/// The reason why an interpreter does not import a tracker's client; `None` if it does.
async fn missing(program: &OsStr, tracker: &Tracker) -> Option<String> {
    let check = format!("{PREFIX}{}", tracker.imports);
    let mut helper = match Helper::start(program, ["-c", &check], VARIABLES) {
        Ok(helper) => helper,
        Err(error) => return Some(error.to_string()),
    };
    helper.close();
    let status = timeout(LIMIT, helper.wait()).await;
    let errors = last_lines(&helper.end().await, 1);
    match status {
        Ok(Ok(status)) if status.success() => None,
        Ok(Ok(status)) if errors.is_empty() => Some(status.to_string()),
        Ok(Ok(_)) => Some(errors),
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("no answer within {} s", LIMIT.as_secs())),
    }
}
