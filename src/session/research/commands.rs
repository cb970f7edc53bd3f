//! The commands of `research.toml`, which get JSON on standard input and answer with one word, and the agent that names
//! sub-topics.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::artifact::ResearchFiles;
use crate::agent::{last_line, read_answer};
use crate::crash;
use crate::domain::{cut, duration_text, one_line, with_causes};
use crate::exec::{Executor, Exit, Job};
use crate::fs::{read_at_most, read_tail, write_atomic};
use crate::measure::plain_text;
use crate::score::{Catalogue, Request, Source};
use crate::session::errors::{ResearchError, SessionError};

/// Number of concurrent calls: models answer in seconds, and an artifact has hundreds of citations.
const AT_ONCE: usize = 8;

/// The time between TERM and KILL.
const GRACE: Duration = Duration::from_secs(2);

/// Limit on the output read from a command, in bytes.
const OUTPUT: u64 = 64 * 1024;

/// A command's output, or the reason why it gave no answer.
type Answer = Result<String, String>;

/// Asks a command whether sources support claims, in one call each. After the first failed call, starts no further one and
/// returns the reason instead of results. Returns once all calls have ended.
pub(crate) async fn ask_verify(
    command: &str,
    limit: Duration,
    files: &ResearchFiles<'_>,
    catalogue: &Catalogue,
    requests: Vec<Request>,
) -> Result<Result<BTreeMap<Request, bool>, String>, SessionError> {
    let folder = CallFolder::new()?;
    let has_failed = Cell::new(false);
    let ask = async |folder: &Path, request: &Request| {
        let call = CommandCall { command, limit, cwd: files.root(), folder };
        let said = call.ask(&document(files, catalogue, request)?.to_string()).await?;
        match said.as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(format!("`{command}` printed {}, not `true` or `false`", shown(other))),
        }
    };
    let calls = requests.into_iter().enumerate().map(|(n, request)| {
        let (folder, has_failed, ask) = (folder.of(n), &has_failed, &ask);
        async move {
            if has_failed.get() {
                return None;
            }
            let answer = ask(&folder, &request).await;
            has_failed.set(has_failed.get() || answer.is_err());
            Some(answer.map(|answer| (request, answer)))
        }
    });
    let answers: Vec<_> = stream::iter(calls).buffered(AT_ONCE).collect().await;
    Ok(answers.into_iter().flatten().collect())
}

/// Asks a command how new claims are, from 0 to 1. Returns the reason if there is no number.
pub(crate) async fn ask_novelty(
    command: &str,
    limit: Duration,
    root: &Path,
    claims: &[&str],
    earlier: &[&str],
) -> Result<Result<f64, String>, SessionError> {
    let folder = CallFolder::new()?;
    let document = json!({"claims": claims, "earlier": earlier});
    let call = CommandCall { command, limit, cwd: root, folder: &folder.of(0) };
    let said = call.ask(&document.to_string()).await;
    Ok(said.and_then(|said| match said.parse::<f64>() {
        Ok(number) if (0.0..=1.0).contains(&number) => Ok(number),
        _ => Err(format!("`{command}` printed {}, not a number from 0 to 1", shown(&said))),
    }))
}

fn shown(said: &str) -> String {
    if said.is_empty() { "nothing".into() } else { format!("`{}`", cut(said, 60)) }
}

/// Builds the JSON input of the `verify` command.
fn document(files: &ResearchFiles<'_>, catalogue: &Catalogue, request: &Request) -> Result<Value, String> {
    let id = request.id.to_lowercase();
    let (_, path) = catalogue.files.iter().find(|(known, _)| *known == id).ok_or_else(|| format!("{id} is missing"))?;
    let bytes = files.read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
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

/// A temporary folder for the files of calls, deleted on drop.
struct CallFolder(tempfile::TempDir);

impl CallFolder {
    fn new() -> Result<CallFolder, SessionError> {
        let failed = |source| SessionError::Io { action: "make", path: std::env::temp_dir(), source };
        tempfile::Builder::new().prefix("ar-score-").tempdir().map(CallFolder).map_err(failed)
    }

    /// The folder of one call.
    fn of(&self, n: usize) -> PathBuf {
        self.0.path().join(n.to_string())
    }
}

/// A call of a command.
struct CommandCall<'a> {
    command: &'a str,
    limit: Duration,
    cwd: &'a Path,
    /// The folder of its files, inside that temporary folder.
    folder: &'a Path,
}

impl CommandCall<'_> {
    /// The path at which the command may leave a proposal, as an agent does.
    fn proposal(&self) -> PathBuf {
        self.folder.join("proposal.json")
    }

    fn output(&self) -> PathBuf {
        self.folder.join("out.log")
    }

    /// Gives the command this input and waits until all its processes are gone. Returns its standard output.
    async fn ask(&self, input: &str) -> Answer {
        let CommandCall { command, limit, cwd, folder } = *self;
        let failed = |error: &dyn Error| format!("cannot call `{command}`: {}", with_causes(error));
        let (prompt, errors) = (folder.join("in.txt"), folder.join("err.log"));
        fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        write_atomic(&prompt, input.as_bytes()).map_err(|error| failed(&error))?;
        let variables = [
            ("AR_ERRORS", &errors),
            ("AR_PROMPT", &prompt),
            ("AR_PROPOSAL", &self.proposal()),
            ("AR_RUN_DIR", &folder.to_owned()),
        ];
        let job = Executor::local().start(&Job {
            name: "ask".into(),
            // Warnings on standard error are no part of the answer.
            command: format!("exec 2> \"$AR_ERRORS\"\n{command}"),
            cwd: cwd.to_owned(),
            folder: folder.to_owned(),
            log: self.output(),
            log_limit: Some(OUTPUT),
            stdin: Some(prompt.clone()),
            env: variables.map(|(name, path)| (name.to_owned(), path.to_string_lossy().into_owned())).to_vec(),
            timeout: limit,
            grace: crash::wait(GRACE),
            tied: true,
            ..Job::default()
        });
        let exit = job.map_err(|error| failed(&error))?.wait().await.map_err(|error| failed(&error))?;
        let ended = match exit {
            Exit { timed_out: true, .. } => format!("was not done after {}", duration_text(limit)),
            Exit { exit: Some(0), .. } => {
                let said = read_tail(&self.output(), 0).map_err(|error| failed(&error))?;
                return Ok(String::from_utf8_lossy(&said).trim().to_owned());
            }
            Exit { exit: Some(status), .. } => format!("ended with exit {status}"),
            _ => "was ended by a signal".into(),
        };
        let said = plain_text(&read_tail(&errors, 0).unwrap_or_default());
        let said = last_line(&said).map(|line| format!(": {}", cut(&line, 100))).unwrap_or_default();
        Err(format!("`{command}` {ended}{said}"))
    }
}

/// The most sub-topics that are taken from an agent: more than an artifact that anybody reads has.
const MOST_TOPICS: usize = 12;

/// Asks an agent once for the sub-topics of a question, in a folder of its own.
///
/// # Errors
///
/// It fails, or names none.
pub async fn ask_subtopics(command: &str, limit: Duration, question: &str) -> Result<Vec<String>, SessionError> {
    let folder = CallFolder::new()?;
    let call = CommandCall { command, limit, cwd: folder.0.path(), folder: &folder.of(0) };
    let prompt = format!(
        "Name the sub-topics that an answer to this question must cover:\n\n{question}\n\nName 4 to 8, each in 1 to 4 words, \
         without overlap. Write them as JSON to the file {}, as in {{\"subtopics\": [\"Memory\", \"Speed\"]}}. If you cannot \
         write files, print one on each line after `- `, and nothing else. Nobody will answer: do not ask.\n",
        call.proposal().display()
    );
    let failed = |why: String| ResearchError::NoSubtopics(why);
    call.ask(&prompt).await.map_err(failed)?;
    let written = read_at_most(&call.proposal(), OUTPUT).unwrap_or_default();
    let written: Option<Value> = serde_json::from_slice(&written).ok();
    let written = written.as_ref().and_then(|value| value.get("subtopics")?.as_array());
    let texts = |values: &Vec<Value>| values.iter().filter_map(Value::as_str).map(one_line).collect();
    let topics: Vec<String> = written.map_or_else(|| listed(&said(&call)), texts);
    let mut topics: Vec<String> = topics.into_iter().filter(|topic| !topic.is_empty()).collect();
    topics.truncate(MOST_TOPICS);
    if topics.is_empty() {
        return Err(failed(format!("`{}` named none", cut(command, 60))).into());
    }
    Ok(topics)
}

/// The final words of an agent.
fn said(call: &CommandCall<'_>) -> String {
    let answer = read_answer(&call.output(), 0);
    let plain = || plain_text(&read_tail(&call.output(), 0).unwrap_or_default());
    answer.text.or(answer.words).unwrap_or_else(plain)
}

/// The items of a list.
fn listed(text: &str) -> Vec<String> {
    let item = |line: &str| {
        let line = line.trim();
        let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
        let of_number = || numbered.strip_prefix(". ").filter(|_| numbered.len() < line.len());
        line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).or_else(of_number).map(one_line)
    };
    text.lines().filter_map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sub_topics_are_the_items_of_a_list() {
        let text = "Here they are:\n- Memory\n  * Speed \n3. Cost\n4th\n-none\n";
        assert_eq!(listed(text), ["Memory", "Speed", "Cost"]);
    }
}
