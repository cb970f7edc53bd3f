//! The artifact of a session: its terms, and its files as a working tree has them, or, in a run, as the commit has them
//! that the run measures. Settings of git and filters can make a working tree show what no commit has.
//!
//! The commands of `research.toml` get JSON on standard input and answer with one word; an agent names the sub-topics.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::{artifact_at, cannot_use, read_terms};
use crate::agent::{CitedSource, NewClaim, last_line, read_answer};
use crate::crash;
use crate::domain::{
    COMPOSITE, CommitId, Composite, Contract, Form, StopRule, bytes_text, cut, duration_text, few, one_line,
    with_causes,
};
use crate::exec::{Executor, Exit, Job};
use crate::fs::{absent, read_at_most, read_tail, write_atomic};
use crate::git::{Repo, Stored};
use crate::measure::plain_text;
use crate::rules::{History, LARGEST_ADDED, calls_score, is_research};
use crate::score::{Catalogue, Citation, Claim, Library, Problem, Request, Source, as_text, source_id};
use crate::session::errors::{CannotStart, SessionError, refuse};

/// The largest artifact and the largest source, in bytes: what a change may add, and several books.
pub(crate) const LARGEST_TEXT: u64 = LARGEST_ADDED;

/// The files of a commit or of the working tree.
pub(crate) struct ResearchFiles<'a> {
    repo: &'a Repo,
    /// The commit that they are read from; absent for the working tree.
    commit: Option<CommitId>,
}

impl<'a> ResearchFiles<'a> {
    /// The files of a commit, or of the working tree.
    pub(crate) fn new(repo: &'a Repo, commit: Option<CommitId>) -> Self {
        ResearchFiles { repo, commit }
    }

    /// The folder in which commands about them are started.
    pub(crate) fn root(&self) -> &Path {
        self.repo.worktree()
    }

    /// Reads a file that is no link.
    pub(crate) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let Some(commit) = &self.commit else { return read_file(&self.root().join(path)) };
        match self.repo.objects.read_at(commit, path, LARGEST_TEXT).map_err(io::Error::other)? {
            Stored::File(bytes) => Ok(bytes),
            Stored::Missing => Err(ErrorKind::NotFound.into()),
            Stored::NoFile => Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")),
            Stored::TooLarge(size) => Err(too_large(size)),
        }
    }

    /// Reads the sources below a folder, one after the other, and looks for quotations in them.
    pub(crate) fn sources<'q>(
        &self,
        folder: &Path,
        quotations: impl IntoIterator<Item = &'q str>,
    ) -> Result<(Catalogue, Library), SessionError> {
        self.sources_named(folder, quotations, |_| true)
    }

    /// The same of the sources whose ids are asked for.
    pub(crate) fn sources_named<'q>(
        &self,
        folder: &Path,
        quotations: impl IntoIterator<Item = &'q str>,
        is_asked: impl Fn(&str) -> bool,
    ) -> Result<(Catalogue, Library), SessionError> {
        let mut problems = Vec::new();
        let files = match &self.commit {
            Some(commit) => {
                let all = self.repo.objects.files_below(commit, folder)?;
                all.into_iter().filter(|path| source_id(path).is_some()).map(|path| (path, None)).collect()
            }
            None => self.files(folder, &mut problems)?,
        };
        let catalogue = Catalogue::of(files.keys().cloned());
        let mut library = Library::new(&catalogue, quotations);
        library.problems.extend(problems);
        for (id, path) in catalogue.files.iter().filter(|(id, _)| is_asked(id)) {
            match (files.get(path).copied().flatten(), self.read(path)) {
                (Some(why), _) => library.leave_out(id, path, why),
                (None, Ok(bytes)) => library.add(id, path, &bytes),
                (None, Err(error)) if error.kind() == ErrorKind::FileTooLarge => {
                    library.leave_out(id, path, format!("{error}; store excerpts"));
                }
                (None, Err(error)) => library.leave_out(id, path, format!("it cannot be read: {error}")),
            }
        }
        Ok((catalogue, library))
    }

    /// The files of the working tree below a folder, each with the reason why no commit would have it as a source, if there is
    /// one.
    fn files(
        &self,
        folder: &Path,
        problems: &mut Vec<Problem>,
    ) -> Result<BTreeMap<PathBuf, Option<&'static str>>, SessionError> {
        let root = self.root();
        let mut files = BTreeMap::new();
        let mut folders = vec![folder.to_owned()];
        if fs::symlink_metadata(root.join(folder)).is_ok_and(|there| there.is_symlink()) {
            let what = "the folder is a link, so no commit has what is in it";
            problems.push(Problem::at(&folder.to_string_lossy(), 1, what));
            folders.clear();
        }
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(root.join(&folder)) {
                Err(error) if absent(&error) => continue,
                Err(error) => {
                    let what = format!("the folder cannot be read: {error}");
                    problems.push(Problem::at(&folder.to_string_lossy(), 1, what));
                    continue;
                }
                Ok(entries) => entries,
            };
            for entry in entries.flatten() {
                let path = folder.join(entry.file_name());
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() {
                    folders.push(path);
                } else if source_id(&path).is_some() {
                    let why = match kind.is_file() {
                        false => Some("it is not a regular file"),
                        true if self.repo.working_tree.is_ignored(&path)? => {
                            Some("git ignores it, so no commit has it")
                        }
                        true => None,
                    };
                    files.insert(path, why);
                }
            }
        }
        Ok(files)
    }
}

/// Reads a file of the disk that is no link.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_symlink() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is a link"));
    }
    if meta.len() > LARGEST_TEXT {
        return Err(too_large(meta.len()));
    }
    read_at_most(path, LARGEST_TEXT)
}

fn too_large(size: u64) -> io::Error {
    let (size, most) = (bytes_text(size), bytes_text(LARGEST_TEXT));
    io::Error::new(ErrorKind::FileTooLarge, format!("it has {size}, and at most {most} are read"))
}

/// From which composite on a session of research keeps: 0.45, the gate of the Madani adapter.
pub const RESEARCH_THRESHOLD: f64 = 0.45;

/// The terms of a new session of research with the question and the axes of its `research.toml`, and the stop rule of such
/// sessions, where none were asked for; the folder of its sources; and what to warn of. Leaves the terms of other sessions as
/// they are.
pub(crate) fn with_research(
    repo: &Repo,
    mut contract: Contract,
    is_new: bool,
) -> Result<(Contract, Option<PathBuf>, Vec<String>), SessionError> {
    if !calls_score(&contract.command) {
        return Ok((contract, None, Vec::new()));
    }
    let mut terms = read_terms(repo, Some(&contract.start))?;
    let mut warnings = Vec::new();
    if is_new {
        contract.goal_text.get_or_insert_with(|| terms.question.clone());
    }
    if is_new && contract.metric.name == COMPOSITE {
        if let Some(own) = contract.composite.take() {
            terms = terms.with_composite(own).map_err(cannot_use("[composite] of ar.toml"))?;
        }
        contract.artifact_form = Some(terms.composite.form);
        // Its threshold is one of the mean: in another form what multiplies keeps nothing.
        contract.composite = Some(Composite { form: Form::Weighted, ..terms.composite });
        contract.keep_above.get_or_insert(RESEARCH_THRESHOLD.into());
        warnings = terms.warnings;
        if contract.stop_rules.is_empty() {
            contract.stop_rules.extend(StopRule::OF_RESEARCH);
        }
    }
    Ok((contract, Some(terms.sources), warnings))
}

/// A notice that names them, for a session of research.
pub(crate) fn missing_headings(repo: &Repo, contract: &Contract) -> Result<Option<String>, SessionError> {
    if !is_research(contract) {
        return Ok(None);
    }
    let terms = read_terms(repo, Some(&contract.start))?;
    let headed = artifact_at(repo, &contract.start, &terms)?.headed;
    let topics = (0..).zip(&terms.topics).filter(|(place, _)| !headed.contains(place));
    let missing: Vec<String> = topics.map(|(_, topic)| format!("## {topic}")).collect();
    let artifact = terms.artifact.display();
    let notice =
        || format!("{artifact} lacks headings, and claims count below these alone: {}", few(&missing).join(", "));
    Ok((!missing.is_empty()).then(notice))
}

/// The sub-topics of a research session, the least covered first, each with the number of kept claims that a source supports. A
/// `verify` command is not asked: with one, claims count whose sources exist.
pub(crate) fn covered_topics(
    repo: &Repo,
    contract: &Contract,
    history: &History,
) -> Result<Vec<(String, usize)>, SessionError> {
    if !is_research(contract) {
        return Ok(Vec::new());
    }
    let terms = read_terms(repo, Some(&contract.start))?;
    let kept = history.incumbent().map_or(&contract.start, |record| &record.commit);
    let claims = artifact_at(repo, kept, &terms)?.claims;
    let quotations = claims.iter().flat_map(|claim| &claim.citations).filter_map(|it| it.quotation.as_deref());
    let (_, library) = ResearchFiles::new(repo, Some(kept.clone())).sources(&terms.sources, quotations)?;
    let is_covered = |claim: &Claim| match terms.verify {
        Some(_) => library.resolves(claim),
        None => !library.supporting(claim, None).is_empty(),
    };
    let count = |topic| claims.iter().filter(|claim| claim.topic == topic && is_covered(claim)).count();
    let mut topics: Vec<_> = (0..).zip(terms.topics).map(|(place, topic)| (topic, count(place))).collect();
    topics.sort_by_key(|(_, claims)| *claims);
    Ok(topics)
}

/// The most claims that are listed.
const CLAIMS: usize = 50;

/// Bytes of a source to show before and after the quoted place.
const AROUND: usize = 700;

/// The claims that `commit` has and `base` has not, in their order; none in a session without an artifact.
pub(crate) fn new_claims(
    repo: &Repo,
    contract: &Contract,
    base: &CommitId,
    commit: &CommitId,
) -> Result<Vec<NewClaim>, SessionError> {
    if !calls_score(&contract.command) {
        return Ok(Vec::new());
    }
    let terms = read_terms(repo, Some(&contract.start))?;
    let known: BTreeSet<String> = artifact_at(repo, base, &terms)?.claims.into_iter().map(|claim| claim.key).collect();
    let sources = Catalogue::of(repo.objects.files_below(commit, &terms.sources)?);
    let claims = artifact_at(repo, commit, &terms)?.claims.into_iter().filter(|claim| !known.contains(&claim.key));
    let told = claims.take(CLAIMS).map(|claim| {
        let evidence = claim.citations.iter().map(|citation| evidence(repo, commit, &sources, citation));
        Ok(NewClaim {
            text: claim.text,
            place: format!("{}:{}", terms.artifact.display(), claim.line),
            evidence: evidence.collect::<Result<_, SessionError>>()?,
        })
    });
    told.collect()
}

/// Finds the source of a citation, with an excerpt around the quotation.
fn evidence(
    repo: &Repo,
    commit: &CommitId,
    sources: &Catalogue,
    citation: &Citation,
) -> Result<CitedSource, SessionError> {
    let path = sources.files.iter().find(|(id, _)| *id == citation.id).map(|(_, path)| path.clone());
    let stored = path.as_deref().map(|path: &Path| repo.objects.read_at(commit, path, LARGEST_TEXT)).transpose()?;
    let text = match &stored {
        Some(Stored::File(bytes)) => as_text(bytes).unwrap_or_default(),
        _ => "",
    };
    let excerpt = around(text, citation.quotation.as_deref().unwrap_or_default()).to_owned();
    Ok(CitedSource { id: citation.id.clone(), quotation: citation.quotation.clone(), path, excerpt })
}

/// The part of a text around a quotation; its beginning where it does not have that word for word.
fn around<'a>(text: &'a str, quotation: &str) -> &'a str {
    let at = text.find(quotation).unwrap_or_default();
    let from = (0..=at.saturating_sub(AROUND)).rev().find(|place| text.is_char_boundary(*place)).unwrap_or_default();
    let end = (at + quotation.len() + AROUND).min(text.len());
    let end = (from..=end).rev().find(|place| text.is_char_boundary(*place)).unwrap_or(from);
    &text[from..end]
}

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
    let failed = |why: String| {
        refuse(CannotStart, format!("the agent named no sub-topics: {why}"))
            .hint("name them yourself: --subtopic \"Memory\" --subtopic \"Speed\"")
    };
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
    fn the_place_that_is_quoted_is_shown_and_else_the_beginning() {
        let text = format!("{}é the words é{}", "a".repeat(2000), "b".repeat(2000));
        let found = around(&text, "the words");
        assert!(found.contains("é the words é") && found.len() < 2 * AROUND + 20, "{found}");
        assert!(around(&text, "other words").starts_with("aaa"));
        assert_eq!([around("short", ""), around("", "x"), around("é", "é")], ["short", "", "é"]);
    }

    #[test]
    fn sub_topics_are_the_items_of_a_list() {
        let text = "Here they are:\n- Memory\n  * Speed \n3. Cost\n4th\n-none\n";
        assert_eq!(listed(text), ["Memory", "Speed", "Cost"]);
    }
}
