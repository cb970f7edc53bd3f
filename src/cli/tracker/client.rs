//! The client of a tracker: the Python that has it, the records that it reads, and the folder of its files.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use tokio::time::{sleep, timeout};

use autoresearch::domain::{Clock, ExperimentId, Record, json_text, shell_word};
use autoresearch::exec::Helper;
use autoresearch::fs::lock_within;
use autoresearch::measure::last_lines;
use autoresearch::report::record_json;
use autoresearch::session::{SessionError, SessionView, StatusWatcher};
use autoresearch::state::SESSIONS_FOLDER;

use super::Tracker;
use crate::cli::args::TrackerArgs;
use crate::cli::error::CliError;

/// Poll interval of the session.
const INTERVAL: Duration = Duration::from_secs(1);

/// The records of a session, each given once.
pub(super) struct Feed<'a> {
    view: &'a SessionView,
    clock: Clock,
    given: BTreeSet<ExperimentId>,
}

/// The reason why records are left.
pub(super) enum Unfed {
    /// The client reads no more.
    Client,
    /// The session cannot be read.
    Session(SessionError),
}

impl<E: Into<SessionError>> From<E> for Unfed {
    fn from(error: E) -> Unfed {
        Unfed::Session(error.into())
    }
}

impl<'a> Feed<'a> {
    pub(super) fn new(view: &'a SessionView, clock: Clock) -> Feed<'a> {
        Feed { view, clock, given: BTreeSet::new() }
    }

    /// The number of records given.
    pub(super) fn count(&self) -> usize {
        self.given.len()
    }

    /// Gives all records to the client; with `follow` also new ones, until the loop ends in good order.
    pub(super) async fn give(&mut self, client: &mut Helper, follow: bool) -> Result<(), Unfed> {
        self.give_new(client, self.view.history.records()).await?;
        let mut watcher = StatusWatcher::new(&self.view.repo, self.view.tag.clone(), self.clock);
        let mut is_over = !follow;
        while !is_over {
            // Before the records: a loop that ends meanwhile has recorded all.
            is_over = self.view.is_over();
            if !watcher.is_there() {
                return Err(SessionError::NoSession { tag: Some(self.view.tag.clone()), there: Vec::new() }.into());
            }
            let history = watcher.look()?.history;
            self.give_new(client, history.records()).await?;
            if client.has_ended().map_err(|_| Unfed::Client)? {
                return Err(Unfed::Client);
            }
            if !is_over {
                sleep(INTERVAL).await;
            }
        }
        Ok(())
    }

    async fn give_new(&mut self, client: &mut Helper, records: &[Record]) -> Result<(), Unfed> {
        let new: Vec<&Record> = records.iter().filter(|record| !self.given.contains(&record.id)).collect();
        let notes = self.view.notes(new.iter().copied())?;
        for record in new {
            let line = json_text(&record_json(record, notes.get(&record.id)), false) + "\n";
            client.write(line.as_bytes()).await.map_err(|_| Unfed::Client)?;
            self.given.insert(record.id);
        }
        Ok(())
    }
}

/// What keeps a folder out of git, itself as well.
const IGNORE_ALL: &str = "*\n";

/// The folder of a tracker's files, locked for this process.
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder that was passed, or else the one named `name` beside the session's own files.
    ///
    /// # Errors
    ///
    /// Git does not ignore what is in it; another export writes into it; it cannot be made.
    pub(super) fn prepare(view: &SessionView, passed: Option<&Path>, name: &str) -> Result<Folder, CliError> {
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
        Ok(Folder { path, _lock: lock })
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

/// What precedes every script: modules in the current folder are not the client.
const PREFIX: &str = "import sys; sys.path[:] = filter(None, sys.path)\n";

/// Variables of every script: compiled modules stay out of the user's folders.
const VARIABLES: &[(&str, &str)] = &[("PYTHONDONTWRITEBYTECODE", "1"), ("PYTHONUTF8", "1")];

/// A command that runs Python with a tracker's client.
pub(super) struct Python {
    program: OsString,
    arguments: Vec<OsString>,
}

impl Python {
    /// Finds it: the one that was passed, and no other; else the first that imports the client, of `.venv` and `python3`; else
    /// uv, if it may install.
    pub(super) async fn find(tracker: &Tracker, args: &TrackerArgs, view: &SessionView) -> Result<Python, CliError> {
        if let Some(python) = &args.python {
            return match missing(python.as_os_str(), tracker).await {
                None => Ok(Python::plain(python.into())),
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
                None => return Ok(Python::plain(program)),
                Some(why) => tried.push(format!("{}: {why}", PathBuf::from(program).display())),
            }
        }
        let uv = Python::of_uv(tracker);
        if args.install {
            return Ok(uv);
        }
        let hint = format!("pass --install to use `{} …`, or --python PATH", uv.words());
        Err(CliError::new(format!("no Python here imports the client of {}", tracker.title), Some(hint))
            .with_excerpt(tried.join("\n")))
    }

    fn plain(program: OsString) -> Python {
        Python { program, arguments: Vec::new() }
    }

    /// uv with the client's packages. Without the project, which it would install as well.
    fn of_uv(tracker: &Tracker) -> Python {
        let packages = tracker.packages.iter().flat_map(|package| ["--with", package]);
        let arguments = ["run", "--no-project"].into_iter().chain(packages).chain(["python"]);
        Python { program: "uv".into(), arguments: arguments.map(OsString::from).collect() }
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
