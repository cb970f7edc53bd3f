//! `ar init --research`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use autoresearch::agent::agent_terms;
use autoresearch::domain::{
    Asked, COMPOSITE, DEFAULT_AGENT_TIMEOUT, Direction, PRESETS, StopRule, list, one_line, shell_word,
};
use autoresearch::git::{GitError, Repo};
use autoresearch::score::{
    ARTIFACT, ResearchTerms, SEARCH_FILE, SEARCH_SCRIPT, SOURCES, TERMS_FILE, TermsError, artifact_template,
    program_template, terms_template,
};
use autoresearch::session::{PROGRAM, RESEARCH_THRESHOLD, SessionError, ask_subtopics, commit_new_files};

use super::args::InitArgs;
use super::error::CliError;
use super::init::settings_text;
use super::output;
use super::process::{current_dir, runtime};
use super::settings::{SETTINGS_FILE, Settings};

/// The search command of the script, which is asked in a folder of its own.
const SEARCH: &str = "python3 \"$AR_ROOT/search.py\"";

/// The command that measures.
const COMMAND: &str = "ar score";

/// Makes and commits the files of a research session, in a new repository where the folder is empty. It asks nothing.
pub(super) fn run(args: InitArgs, question: &str) -> Result<ExitCode, CliError> {
    let question = one_line(question);
    if question.is_empty() {
        return Err(CliError::usage("the question is empty", "write it after --research, in quotation marks"));
    }
    let dir = current_dir()?;
    let repo = open(&dir)?;
    let root = repo.as_ref().map_or(dir.as_path(), Repo::worktree);
    let given = Settings::read(args.settings, root)?.given;
    refuse_own(&given)?;
    let has_agent = given.agent.is_some();
    let topics = if args.subtopics.is_empty() { propose_subtopics(&given, &question)? } else { args.subtopics };
    let kind = args.kind.unwrap_or_else(|| PRESETS[0].0.to_owned());
    let terms = terms_template(&question, &kind, &topics);
    ResearchTerms::read(&terms).map_err(|error| {
        let hint = match &error {
            // The file that its own hint names does not exist yet.
            TermsError::NoTopics | TermsError::EmptyTopic(_) | TermsError::SameTopic(_) => {
                "name each sub-topic once: --subtopic \"Memory\" --subtopic \"Speed\"".to_owned()
            }
            error => error.hint(),
        };
        CliError::usage(error, hint)
    })?;
    let mut settings = asked(given);
    if args.keyless_search {
        settings.search.get_or_insert_with(Vec::new).push(SEARCH.to_owned());
    }
    let has_search = settings.search.is_some();
    let script = args.keyless_search.then(|| (PathBuf::from(SEARCH_FILE), SEARCH_SCRIPT.to_owned()));
    let files = [
        (PROGRAM, program_template(&question, &topics, args.keyless_search)),
        (TERMS_FILE, terms),
        (ARTIFACT, artifact_template(&question, &topics)),
        (&format!("{SOURCES}/.gitkeep"), String::new()),
        (SETTINGS_FILE, settings_text(&settings)),
    ]
    .map(|(path, content)| (PathBuf::from(path), content));
    let files: Vec<(PathBuf, String)> = files.into_iter().chain(script).collect();
    let repo = repo.map_or_else(|| Repo::init(&dir), Ok)?;
    let is_committed = commit_new_files(&repo, &files, &format!("research: {question}"))?;
    let paths = list(&files.into_iter().map(|(path, _)| path).collect::<Vec<_>>());
    output::line(&match is_committed {
        true => format!("wrote and committed {paths}"),
        false => format!("already committed: {paths}"),
    });
    output::line(&format!("sub-topics: {}", topics.iter().map(|topic| one_line(topic)).collect::<Vec<_>>().join(", ")));
    if !has_search {
        output::note(
            "note: no search command; `--keyless-search` also writes one for arXiv and Wikipedia that needs no key",
        );
    }
    let agent = if has_agent { "" } else { " --agent claude" };
    output::line(&format!("next: `ar run{agent} --for 8h`"));
    Ok(ExitCode::SUCCESS)
}

/// Asks the agent for the sub-topics that the user did not name.
fn propose_subtopics(given: &Asked, question: &str) -> Result<Vec<String>, CliError> {
    let Some(agent) = &given.agent else {
        let hint =
            "name them: --subtopic \"Memory\" --subtopic \"Speed\"; or pass --agent COMMAND to have them proposed";
        return Err(CliError::usage("there are no sub-topics", hint));
    };
    let (command, _) = agent_terms(agent);
    let limit = given.agent_timeout.unwrap_or(DEFAULT_AGENT_TIMEOUT);
    output::note("asking the agent for sub-topics");
    Ok(runtime()?.block_on(ask_subtopics(&command.unwrap_or_default(), limit, question))?)
}

/// The repository that a folder is in; nothing where there is none and the folder is empty, so that one can be made.
fn open(dir: &Path) -> Result<Option<Repo>, CliError> {
    match Repo::discover(dir) {
        Ok(repo) => Ok(Some(repo)),
        Err(error @ GitError::NoRepository(_)) => {
            let failed = |source| SessionError::Io { action: "read", path: dir.to_owned(), source };
            match fs::read_dir(dir).map_err(failed)?.next() {
                None => Ok(None),
                Some(_) => {
                    let hint = format!("begin in an empty folder, or make a repository: git init {}", shell_word(dir));
                    Err(CliError::new(error, Some(hint)))
                }
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Refuses what such a session has settings of its own for.
fn refuse_own(given: &Asked) -> Result<(), CliError> {
    let own = [
        ("metric", given.metric.as_deref().is_some_and(|metric| metric != COMPOSITE)),
        ("lower", given.direction == Some(Direction::Lower)),
        ("cmd", given.command.as_deref().is_some_and(|command| command != COMMAND)),
        ("scope", given.scope.is_some()),
        ("metric-file or --metric-regex", given.source.is_some()),
    ];
    let wrong: Vec<String> = own.iter().filter(|(_, is_set)| *is_set).map(|(key, _)| format!("--{key}")).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(CliError::usage(
        format!("a research session has its own metric, command and scope, and {} would change them", wrong.join(", ")),
        format!("omit {}, or set up another kind of session with `ar init`", wrong.join(" and ")),
    ))
}

/// The settings of the session: what was asked for, with what research goes by.
fn asked(given: Asked) -> Asked {
    let defaults = Asked {
        keep_above: Some(RESEARCH_THRESHOLD.into()),
        stop_rules: Some(StopRule::OF_RESEARCH.to_vec()),
        ..Asked::default()
    };
    Asked {
        metric: Some(COMPOSITE.into()),
        direction: Some(Direction::Higher),
        command: Some(COMMAND.into()),
        scope: Some(vec![ARTIFACT.into(), format!("{SOURCES}/**/*.md"), format!("{SOURCES}/.gitkeep")]),
        ..given.or(defaults)
    }
}
