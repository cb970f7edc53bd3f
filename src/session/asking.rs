//! The commands of `research.toml`: each gets JSON on standard input and answers with one word.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use super::error::SessionError;
use super::scoring::read_file;
use crate::agent::last_line;
use crate::domain::{cut, duration_text, with_causes};
use crate::exec::{Executor, Exit, Job};
use crate::fs::{read_tail, write_atomic};
use crate::measure::plain_text;
use crate::score::{Request, Source};

/// How many calls are made at the same time: models answer in seconds, and an artifact has hundreds of citations.
const AT_ONCE: usize = 8;

/// The time between TERM and KILL.
const GRACE: Duration = Duration::from_secs(2);

/// How much of what a command prints is read, in bytes.
const OUTPUT: u64 = 64 * 1024;

/// What a command printed, or why that is no answer.
type Answer = Result<String, String>;

/// Asks a command whether sources support claims, one call each. The first call without an answer ends it: then there is no
/// number, and the reason is given.
pub(super) async fn ask_verify(
    command: &str,
    limit: Duration,
    root: &Path,
    files: &[(String, PathBuf)],
    requests: Vec<Request>,
) -> Result<Result<BTreeMap<Request, bool>, String>, SessionError> {
    let folder = Folder::new()?;
    let calls = requests.into_iter().enumerate().map(|(n, request)| {
        let folder = folder.of(n);
        async move {
            let document = document(root, files, &request)?;
            let said = ask(command, limit, root, &folder, &document).await?;
            match said.as_str() {
                "true" => Ok((request, true)),
                "false" => Ok((request, false)),
                other => Err(format!("`{command}` printed {}, not `true` or `false`", shown(other))),
            }
        }
    });
    Ok(stream::iter(calls).buffer_unordered(AT_ONCE).try_collect().await)
}

/// Asks a command how new claims are, 0..1; or why there is no number.
pub(super) async fn ask_novelty(
    command: &str,
    limit: Duration,
    root: &Path,
    claims: &[&str],
    earlier: &[&str],
) -> Result<Result<f64, String>, SessionError> {
    let folder = Folder::new()?;
    let document = json!({"claims": claims, "earlier": earlier});
    let said = ask(command, limit, root, &folder.of(0), &document).await;
    Ok(said.and_then(|said| match said.parse::<f64>() {
        Ok(number) if (0.0..=1.0).contains(&number) => Ok(number),
        _ => Err(format!("`{command}` printed {}, not a number from 0 to 1", shown(&said))),
    }))
}

fn shown(said: &str) -> String {
    if said.is_empty() { "nothing".into() } else { format!("`{}`", cut(said, 60)) }
}

/// What the `verify` command reads.
fn document(root: &Path, files: &[(String, PathBuf)], request: &Request) -> Result<Value, String> {
    let id = request.id.to_lowercase();
    let (_, path) = files.iter().find(|(known, _)| *known == id).ok_or_else(|| format!("{id} is missing"))?;
    let bytes = read_file(&root.join(path)).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let source = Source::read(&path.to_string_lossy(), &bytes, &mut Vec::new()).map_err(|problem| problem.what)?;
    let front = source.front;
    Ok(json!({
        "claim": request.claim,
        "quotation": request.quotation,
        "source": {
            "id": id,
            "url": front.url,
            "title": front.title,
            "organisation": front.organisation,
            "medium": front.medium,
            "published": front.published,
            "retrieved": front.retrieved,
            "text": source.text,
        },
    }))
}

/// A folder for the files of calls, gone when it is dropped.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Result<Folder, SessionError> {
        let failed = |source| SessionError::Io { action: "make", path: std::env::temp_dir(), source };
        tempfile::Builder::new().prefix("ar-score-").tempdir().map(Folder).map_err(failed)
    }

    /// The folder of one call.
    fn of(&self, n: usize) -> PathBuf {
        self.0.path().join(n.to_string())
    }
}

/// Calls a command in the working tree, and waits until all of it is gone.
async fn ask(command: &str, limit: Duration, root: &Path, folder: &Path, document: &Value) -> Answer {
    let failed = |error: &dyn std::error::Error| format!("cannot call `{command}`: {}", with_causes(error));
    let (input, output, errors) = (folder.join("in.json"), folder.join("out.log"), folder.join("err.log"));
    std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    write_atomic(&input, document.to_string().as_bytes()).map_err(|error| failed(&error))?;
    let job = Executor::local().start(&Job {
        name: "ask".into(),
        // Warnings on standard error are no part of the answer.
        command: format!("exec 2> \"$AR_ERRORS\"\n{command}"),
        cwd: root.to_owned(),
        folder: folder.to_owned(),
        log: output.clone(),
        log_limit: Some(OUTPUT),
        stdin: Some(input),
        env: vec![("AR_ERRORS".into(), errors.to_string_lossy().into_owned())],
        timeout: limit,
        grace: GRACE,
        tied: true,
    });
    let exit = job.map_err(|error| failed(&error))?.wait().await.map_err(|error| failed(&error))?;
    let ended = match exit {
        Exit { timed_out: true, .. } => format!("was not done after {}", duration_text(limit)),
        Exit { exit: Some(0), .. } => {
            let said = read_tail(&output, 0).map_err(|error| failed(&error))?;
            return Ok(String::from_utf8_lossy(&said).trim().to_owned());
        }
        Exit { exit: Some(status), .. } => format!("ended with exit {status}"),
        _ => "was ended by a signal".into(),
    };
    let said = plain_text(&read_tail(&errors, 0).unwrap_or_default());
    let said = last_line(&said).map(|line| format!(": {}", cut(&line, 100))).unwrap_or_default();
    Err(format!("`{command}` {ended}{said}"))
}
