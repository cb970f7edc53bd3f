//! Work before there is a session: the repositories of `ar demo`, and one run of a command for the numbers that it prints.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use crate::domain::{Asked, COMPOSITE, Direction, MetricSource, MetricSpec, StopRule};
use crate::exec::{Executor, Exit, Job};
use crate::git::Repo;
use crate::measure::LogSummary;
use crate::score::{ARTIFACT, SOURCES, TERMS_FILE, artifact_template, program_template, terms_template};
use crate::session::attempt::read_metric_file;
use crate::session::errors::{CannotStart, CommandRole, SessionError, refuse};
use crate::session::files::{PROGRAM, check_command, last_changed, newest_file, read_log, stamp};
use crate::session::research::RESEARCH_THRESHOLD;

/// The metric that the example lowers.
const DEMO_METRIC: &str = "val_bpb";

/// Its measuring command.
const DEMO_COMMAND: &str = "sh train.sh";

/// Number of experiments that its agent has ideas for.
const DEMO_EXPERIMENTS: u32 = 10;

const FILES: &[(&str, &str)] = &[
    ("README.md", include_str!("../../../fixtures/demo/README.md")),
    ("agent.sh", include_str!("../../../fixtures/demo/agent.sh")),
    ("prepare.sh", include_str!("../../../fixtures/demo/prepare.sh")),
    ("program.md", include_str!("../../../fixtures/demo/program.md")),
    ("train.sh", include_str!("../../../fixtures/demo/train.sh")),
    ("data/input.txt", include_str!("../../../fixtures/demo/data/input.txt")),
];

/// The question of the other example, and its sub-topics.
const QUESTION: &str = "Why do leaves change their colour in autumn?";

const TOPICS: [&str; 4] = ["Pigments", "Trigger", "Weather", "Purpose"];

/// Number of experiments that its researcher has material for.
const RESEARCH_EXPERIMENTS: u32 = 20;

/// Number of experiments without a new best that ends its session.
const PLATEAU: u32 = 5;

/// Makes the example of a language model in `dir`, which must be absent or empty, with everything in it committed.
pub fn create_demo(dir: &Path) -> Result<Repo, SessionError> {
    create(dir, FILES.iter().copied(), "a tiny language model of one short text")
}

/// Makes the example of a question in `dir`, as [`create_demo`] does.
pub fn create_research_demo(dir: &Path) -> Result<Repo, SessionError> {
    let topics = TOPICS.map(str::to_owned);
    let program = program_template(QUESTION, &topics, &[]);
    let terms = terms_template(QUESTION, "equal", &topics);
    let artifact = artifact_template(QUESTION, &topics);
    let keep = format!("{SOURCES}/.gitkeep");
    let files = [
        ("README.md", include_str!("../../../fixtures/demo/research/README.md")),
        ("agent.sh", include_str!("../../../fixtures/demo/research/agent.sh")),
        (PROGRAM, &program),
        (TERMS_FILE, &terms),
        (ARTIFACT, &artifact),
        (&keep, ""),
    ];
    create(dir, files.into_iter(), "a question about leaves")
}

/// The terms of the session over a question.
pub fn research_demo_terms() -> Asked {
    Asked {
        metric: Some(COMPOSITE.into()),
        direction: Some(Direction::Higher),
        command: Some("ar score".into()),
        agent: Some("./agent.sh".into()),
        scope: Some(vec![ARTIFACT.into(), format!("{SOURCES}/**/*.md"), format!("{SOURCES}/.gitkeep")]),
        keep_above: Some(RESEARCH_THRESHOLD.into()),
        stop_rules: Some(vec![StopRule::Plateau(PLATEAU)]),
        max_experiments: Some(RESEARCH_EXPERIMENTS),
        ..Asked::default()
    }
}

fn create<'a>(
    dir: &Path,
    files: impl Iterator<Item = (&'a str, &'a str)>,
    message: &str,
) -> Result<Repo, SessionError> {
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| SessionError::Io { action, path, source }
    };
    fs::create_dir_all(dir).map_err(failed("create", dir))?;
    if fs::read_dir(dir).map_err(failed("read", dir))?.next().is_some() {
        return Err(refuse(CannotStart, format!("{} is not empty", dir.display()))
            .hint("name a folder that does not exist yet")
            .into());
    }
    for (name, content) in files {
        let path = dir.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed("create", folder))?;
        }
        fs::write(&path, content).map_err(failed("write", &path))?;
        if name.ends_with(".sh") {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(failed("change", &path))?;
        }
    }
    let repo = Repo::init(dir)?;
    repo.commit_first(message)?;
    Ok(repo)
}

/// The terms of the example's session.
pub fn demo_terms() -> Asked {
    Asked {
        metric: Some(DEMO_METRIC.into()),
        command: Some(DEMO_COMMAND.into()),
        agent: Some("./agent.sh".into()),
        max_experiments: Some(DEMO_EXPERIMENTS),
        ..Asked::default()
    }
}

/// Time limit of the run.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a command once in the working tree at `root`, for a minute at most. Returns its end and the summary of its log, in
/// which the `metric`, if it is known, is read as from a run.
///
/// # Errors
///
/// The command cannot be started, or its log cannot be read.
pub async fn probe(
    root: &Path,
    command: &str,
    metric: Option<&MetricSpec>,
) -> Result<(Exit, LogSummary), SessionError> {
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
    let place = metric.and_then(|metric| match &metric.source {
        MetricSource::File { path, pointer } => Some((path, pointer, &metric.name)),
        MetricSource::Log | MetricSource::Regex(_) => None,
    });
    let before = place.and_then(|(path, ..)| stamp(&last_changed(root, path)));
    let exit = Executor::local().start(&job)?.wait().await?;
    // The log is read for all names.
    let any = MetricSpec { name: "metric".to_owned(), direction: Direction::Lower, source: MetricSource::Log };
    let mut summary = read_log(&log, metric.unwrap_or(&any), None)?;
    if let Some((path, pointer, name)) = place {
        let (before, is_cut) = (before.as_deref(), exit.exit != Some(0));
        let file = newest_file(root, path, before);
        summary.put_found(name, read_metric_file(&file, path, pointer, name, before, is_cut));
    }
    Ok((exit, summary))
}
