//! Research: `ar init --research`, `ar score`, `ar rate` and `ar report --weights`.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Map, Value, json};

use autoresearch::agent::agent_terms;
use autoresearch::domain::{
    Asked, COMPOSITE, CommitId, DEFAULT_AGENT_TIMEOUT, Direction, ExperimentId, FORMAT_VERSION, Form, Number, PRESETS,
    Rating, StopRule, Tag, count_of, list, one_line, shell_word, with_causes,
};
use autoresearch::git::{GitError, Repo};
use autoresearch::report::{Align, Format, Grid, ratings_grid, render_weights, weights_json};
use autoresearch::rules::{artifact_metric, four_decimals};
use autoresearch::score::{
    ARTIFACT, ENGINES, KEYLESS, ResearchTerms, SOURCES, Score, TERMS_FILE, artifact_template, explain,
    program_template, refuse_topics, terms_template,
};
use autoresearch::session::{
    ComparedState, PROGRAM, RESEARCH_THRESHOLD, Scored, ScoredOf, SessionError, ask_subtopics, commit_new_files,
    no_session, rating, score, session_tags,
};

use super::init::settings_text;
use super::{
    CliError, InitArgs, RateArgs, ReportArgs, ReportFormat, SETTINGS_FILE, ScoreArgs, Settings, clock, current_dir,
    output, resolve_session, runtime, variable,
};

/// The search command in whose place [`ENGINES`] is written.
const SEARCH_ENGINES: &str = "engines";

/// The command that measures.
const COMMAND: &str = "ar score";

/// Makes and commits the files of a research session, in a new repository where the folder is empty. It asks nothing.
pub(super) fn init_research(args: InitArgs, question: &str) -> Result<ExitCode, CliError> {
    let question = one_line(question);
    if question.is_empty() {
        return Err(CliError::usage("the question is empty", "write it after --research, in quotation marks"));
    }
    let dir = current_dir()?;
    let repo = open(&dir)?;
    let root = repo.as_ref().map_or(dir.as_path(), Repo::worktree);
    let given = Settings::read(args.settings, root)?.wanted.given;
    refuse_own(&given)?;
    let has_agent = given.agent.is_some();
    let topics = if args.subtopics.is_empty() { propose_subtopics(&given, &question)? } else { args.subtopics };
    let kind = args.kind.unwrap_or_else(|| PRESETS[0].0.to_owned());
    let terms = terms_template(&question, &kind, &topics);
    // The file that its own hint names does not exist yet.
    let topics_hint = "name each sub-topic once: --subtopic \"Memory\" --subtopic \"Speed\"";
    refuse_topics(&topics).map_err(|error| CliError::usage(error, topics_hint))?;
    ResearchTerms::read(&terms).map_err(|mut error| {
        let hint = error.hint.take().unwrap_or_default();
        CliError::usage(error, hint)
    })?;
    let mut settings = asked(given);
    let mut scripts = Vec::new();
    if args.keyless_search {
        settings.search.get_or_insert_with(Vec::new).push(KEYLESS.command.to_owned());
        scripts.push(KEYLESS);
    }
    if let Some(command) = settings.search.iter_mut().flatten().find(|command| *command == SEARCH_ENGINES) {
        ENGINES.command.clone_into(command);
        scripts.push(ENGINES);
    }
    let has_search = settings.search.is_some();
    let files = [
        (PROGRAM, program_template(&question, &topics, &scripts)),
        (TERMS_FILE, terms),
        (ARTIFACT, artifact_template(&question, &topics)),
        (&format!("{SOURCES}/.gitkeep"), String::new()),
        (SETTINGS_FILE, settings_text(&settings)),
    ]
    .map(|(path, content)| (PathBuf::from(path), content));
    let scripts = scripts.into_iter().map(|script| (PathBuf::from(script.file), script.text.to_owned()));
    let files: Vec<(PathBuf, String)> = files.into_iter().chain(scripts).collect();
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
            "note: no search command; `--keyless-search` also writes one for arXiv and Wikipedia that needs no key, and \
             `--search engines` one for web engines",
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
        max_files: Some(5),
        max_file_lines: Some(300),
        agent_rounds: Some(15),
        agent_timeout: Some(DEFAULT_AGENT_TIMEOUT),
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

/// Prints what the research artifact of the working tree scores. Only an artifact or terms that cannot be read are an error.
pub(super) fn run_score(args: ScoreArgs) -> Result<ExitCode, CliError> {
    let dir = current_dir()?;
    let named = args.session.or(args.tag);
    let of_call = variable("AR_TAG").and_then(|tag| tag.parse::<Tag>().ok());
    // The experiment whose run or agent this is a part of.
    let own = variable("AR_EXPERIMENT").and_then(|id| id.parse::<ExperimentId>().ok());
    let own = own.filter(|_| of_call.is_some() && named.as_ref().is_none_or(|tag| Some(tag) == of_call.as_ref()));
    let commit = variable("AR_COMMIT").filter(|_| own.is_some()).map(|commit| CommitId::new(&commit));
    let folder = variable("AR_RUN_DIR").filter(|_| commit.is_some()).map(PathBuf::from);
    let tag = match named.or(of_call) {
        Some(tag) => Some(resolve_session::find(&Repo::find(&dir)?, Some(tag))?),
        None => None,
    };
    let scored = runtime()?.block_on(score(&dir, tag, ScoredOf { experiment: own, commit, folder }))?;
    match args.format {
        Format::Json => output::json(&document(&scored)),
        Format::Table => output::text(&text(&scored)),
        format => {
            let mut grid = Grid::new([("axis", Align::Left), ("value", Align::Right)]);
            for (name, value) in lines(&scored.score) {
                grid.push([name.into_owned(), value]);
            }
            output::text(&grid.render(format, output::width()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Explains the score, then lists the values. They come last because the last value of a name in a log counts.
fn text(scored: &Scored) -> String {
    let mut text = format!("question: {}\n{}\n", one_line(&scored.terms.question), compared(&scored.compared));
    for line in explain(&scored.score, &scored.terms) {
        text += &line;
        text.push('\n');
    }
    for (name, value) in lines(&scored.score) {
        text += &format!("{name}: {value}\n");
    }
    text
}

/// The axes and the composite as they are printed, and after them the composite of the artifact.
fn lines(score: &Score) -> Vec<(Cow<'static, str>, String)> {
    let number = |value: Option<f64>| value.map_or("nan".to_owned(), four_decimals);
    let mut lines: Vec<_> = score.axes.iter().map(|(name, value)| (Cow::from(*name), number(*value))).collect();
    let whole = |number: &Option<Number>| number.as_ref().map_or("nan".to_owned(), |number| number.raw.clone());
    lines.push((COMPOSITE.into(), whole(&score.composite)));
    lines.push((artifact_metric(COMPOSITE).into(), whole(&score.artifact.composite)));
    lines
}

fn compared(compared: &ComparedState) -> String {
    let kept = match (&compared.kept, compared.experiment) {
        (Some(_), Some(id)) if id.is_baseline() => "the baseline".to_owned(),
        (Some(_), Some(id)) => format!("experiment {id}"),
        (Some(commit), None) => format!("commit {}", commit.short(8)),
        (None, _) => "nothing".to_owned(),
    };
    match &compared.session {
        Some(tag) => {
            let earlier = count_of(compared.earlier, "earlier iteration");
            format!("compared with {kept} and {earlier} of session {tag}")
        }
        None => format!("compared with {kept}, outside of a session"),
    }
}

fn document(scored: &Scored) -> Value {
    let Scored { terms, compared, score } = scored;
    let axes: Map<String, Value> = score.axes.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    let by: Map<String, Value> = score.diversity.iter().map(|(by, value)| ((*by).to_owned(), json!(value))).collect();
    let forms: Map<String, Value> =
        score.forms.iter().map(|(form, value)| (form.to_string(), json!(value.as_ref().map(|it| it.value)))).collect();
    let topics =
        |places: &mut dyn Iterator<Item = usize>| places.map(|place| terms.topics[place].clone()).collect::<Vec<_>>();
    let texts = json!({
        "version": FORMAT_VERSION,
        "topics": {
            "addressed": topics(&mut score.addressed.iter().copied()),
            "added": topics(&mut score.added.iter().copied()),
            "new": topics(&mut score.newly.iter().copied()),
            "open": topics(&mut (0..terms.topics.len()).filter(|place| !score.addressed.contains(place))),
        },
        "warnings": score.warnings,
        "problems": score.problems,
    });
    let numbers = json!({
        "claims": {"new": score.claims.0, "verified": score.claims.1, "repeats": score.repeats},
        "removed": score.removed,
        "sources": {"cited": score.sources.0, "first_stored": score.first_stored, "diversity": by, "kept": score.stored.0, "stored": score.stored.1},
        "compared": {
            "session": compared.session,
            "experiment": compared.experiment,
            "commit": compared.kept,
            "earlier": compared.earlier,
        },
        "reverified": score.batch.map(|(citations, failed)| json!({"citations": citations, "problems": failed})),
        "form": Form::Weighted.to_string(),
        "forms": forms,
        "artifact": {
            "axes": score.artifact.axes,
            "composite": score.artifact.value(),
            "form": terms.composite.form.to_string(),
        },
        "worst": score.worst,
        "axes": axes,
        "composite": score.composite.as_ref().map(|value| value.value),
    });
    // In a log the last number of a name counts: no text that an agent wrote comes after the numbers.
    Value::Object([texts, numbers].into_iter().filter_map(|part| part.as_object().cloned()).flatten().collect())
}

/// Rates a session, or prints the rating of one or of all.
pub(super) fn rate_session(args: RateArgs) -> Result<ExitCode, CliError> {
    let session = |name: &str| name.parse::<Tag>().map_err(SessionError::from);
    match (args.session.as_deref(), args.rating, args.tag) {
        (Some(name), Some(rating), None) => rate(session(name)?, rating),
        // The only word is the rating where an option names the session.
        (Some(word), _, Some(tag)) => {
            let hint = format!("write `ar rate {tag} 0.8`");
            rate(tag, Rating::value(word).map_err(|error| CliError::usage(format!("`{word}` {error}"), hint))?)
        }
        (Some(word), None, None) => {
            let repo = Repo::discover(&current_dir()?)?;
            // It looks like a rating of no session, unless a session has such a name.
            if let Ok(rating) = Rating::value(word)
                && !session_tags(&repo)?.iter().any(|tag| tag.as_str() == word)
            {
                return Err(CliError::usage("a rating without a session", format!("write `ar rate SESSION {rating}`")));
            }
            print_rating(&repo, Some(&session(word)?), args.format)
        }
        (None, _, tag) => print_rating(&Repo::discover(&current_dir()?)?, tag.as_ref(), args.format),
    }
}

fn rate(tag: Tag, value: f64) -> Result<ExitCode, CliError> {
    let view = resolve_session::open(Some(tag))?;
    let before = view.rate(value, clock()?)?.map(|before| format!(", before {}", before.value));
    output::line(&format!("rated session {}: {value}{}", view.tag, before.unwrap_or_default()));
    Ok(ExitCode::SUCCESS)
}

/// Prints the rating of one session, or those of all.
fn print_rating(repo: &Repo, tag: Option<&Tag>, format: Format) -> Result<ExitCode, CliError> {
    let mut tags = session_tags(repo)?;
    if let Some(tag) = tag {
        tags.retain(|of| of == tag);
        if tags.is_empty() {
            return Err(no_session(repo, tag).into());
        }
    }
    let mut shown: Vec<(Tag, Option<Rating>)> = Vec::new();
    for of in tags {
        match rating(repo, &of) {
            Ok(rating) => shown.push((of, rating)),
            Err(error) if tag.is_some() => return Err(error.into()),
            Err(error) => output::note(&format!("note: skipped session {of}: {}", with_causes(&error))),
        }
    }
    let _pager = output::paged();
    match format {
        Format::Json => {
            let fields = |(tag, rating): &(Tag, Option<Rating>)| json!({"tag": tag, "rating": rating});
            let sessions: Vec<Value> = shown.iter().map(fields).collect();
            output::json(&json!({"version": FORMAT_VERSION, "sessions": sessions}));
        }
        format => {
            let screen = (format == Format::Table).then(clock).transpose()?;
            output::text(&ratings_grid(&shown, screen).render(format, output::width()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the weights of a session's axes that the ratings of sessions speak for.
pub(super) fn suggest_weights(args: ReportArgs) -> Result<ExitCode, CliError> {
    let format = args.format.unwrap_or(ReportFormat::Table).as_text();
    let format = format.ok_or_else(|| CliError::usage("--weights has no page", "omit --format html"))?;
    let view = resolve_session::open(args.session.tag())?;
    let weighed = view.weigh()?;
    for (tag, why) in &weighed.unread {
        output::note(&format!("note: skipped session {tag}: {why}"));
    }
    let _pager = output::paged();
    match format {
        Format::Json => output::json(&weights_json(&view.tag, &weighed)),
        format => output::text(&render_weights(&weighed, format, output::width())),
    }
    Ok(ExitCode::SUCCESS)
}
