//! The Python that has a tracker's client.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use autoresearch::domain::shell_word;
use autoresearch::exec::Helper;
use autoresearch::measure::last_lines;
use autoresearch::session::SessionView;
use tokio::time::timeout;

use super::Tracker;
use crate::cli::args::TrackerArgs;
use crate::cli::error::CliError;

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
