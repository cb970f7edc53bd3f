//! `ar init`: settings and program, and instructions for agents that drive by themselves; and `ar demo`, a repository
//! with all of them.

use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use autoresearch::agent::{BUILT_IN_PROGRAM, MCP_FILE, Preset, Skill, mcp_entry, preset_names};
use autoresearch::domain::{
    Asked, COMPOSITE, Contract, Decide, Direction, MetricSource, MetricSpec, Number, Prices, Setting, count_of,
    duration_text, few, list, nearest, settings, shell_word,
};
use autoresearch::fs::{create_folder, folder_of, read_regular, write_atomic};
use autoresearch::git::Repo;
use autoresearch::report::{Align, Format, Grid, wrap};
use autoresearch::rules::likeliest;
use autoresearch::score::ARTIFACT;
use autoresearch::session::{
    Conventions, Drive, PROGRAM, Plan, SEED_LINE, SessionError, SessionView, create_demo, create_research_demo,
    demo_terms, installed_agents, outer_agent, probe, refuse_tracked, research_demo_terms, session_checked_out,
    suggested_by_scripts, takes_seed,
};

use super::run::{answer, ask_direction, drive_loop};
use super::{
    CliError, DemoArgs, InitArgs, Progress, SETTINGS_FILE, SettingsArgs, StreamFormat, clock, current_dir, error,
    output, records, research, resolve, runtime,
};
use crate::archiver;

/// Writes `ar.toml` and `program.md` to start from, and prints what the repository's own files suggested; a file that is
/// there is left as it is.
pub(super) fn run(args: InitArgs) -> Result<ExitCode, CliError> {
    if let Some(question) = args.research.clone() {
        return research::init_research(args, &question);
    }
    let repo = Repo::discover(&current_dir()?)?;
    let root = repo.worktree().to_owned();
    let flags: Vec<_> = args.settings.0.keys().into_iter().map(|key| format!("--{key}")).collect();
    if let Some(code) = write_instructions(&args, &flags, &repo)? {
        return Ok(code);
    }
    let asked = resolve(args.settings, &root)?;
    let session = session_checked_out(&repo);
    let mut suggestion = Suggestion::of(&root, session.as_ref(), &asked);
    suggestion.probe(&repo, &asked, args.probe)?;
    let mut terms = suggestion.complete(asked.clone());
    if let Some(metric) = terms.metric.clone() {
        if terms.direction_of(&metric).is_none() && output::is_interactive() {
            terms.direction = ask_direction(&metric);
        }
        match terms.direction_of(&metric) {
            Some(direction) => output::line(&format!("{metric}: {direction} is better")),
            None if asked.metric.is_some() => return Err(SessionError::DirectionUnclear(metric).into()),
            None => {}
        }
    }
    // A session that is checked out keeps its rule.
    let decide = terms.decide.or(session.as_ref().map(|session| session.decide)).unwrap_or(Decide::Confirmed);
    let decide = if terms.keep_above.is_some() { terms.decide } else { Some(decide) };
    let terms = Asked { decide, ..terms };
    let settings_written = write_new(&root.join(SETTINGS_FILE), &settings_text(&terms))?;
    let program_written = write_new(&root.join(PROGRAM), BUILT_IN_PROGRAM)?;
    for (name, written) in [(SETTINGS_FILE, settings_written), (PROGRAM, program_written)] {
        let what = if written { "wrote" } else { "left unchanged:" };
        output::line(&format!("{what} {name}"));
    }
    if !settings_written && !flags.is_empty() {
        output::line(&format!("not applied: {}; edit {SETTINGS_FILE} to set them", flags.join(", ")));
    }
    for found in suggestion.found(&asked, &terms) {
        output::line(&format!("found: {found}"));
    }
    if let Err(error) = refuse_tracked(&repo, ["results.tsv".into()]) {
        output::line(&format!("found: {error}; run `{}`", error.hint().unwrap_or_default()));
    }
    if terms.decide.is_some_and(|decide| decide != Decide::Once) && !takes_seed(&repo, None, terms.command.as_deref()) {
        output::line(&format!("seeds: have the script take the seed of each run from AR_SEED, as in {SEED_LINE}"));
    }
    if let Some(session) = session.filter(|_| settings_written || program_written) {
        output::note(&commit_note(&session));
    }
    // A file that was there has what it has.
    let written = if settings_written { terms } else { resolve(SettingsArgs::default(), &root)? };
    let is_withheld = written.agent.is_none() && suggestion.within.is_some() && !suggestion.agents.is_empty();
    output::line(&next_step(&missing_settings(&written), settings_written, program_written, is_withheld));
    Ok(ExitCode::SUCCESS)
}

/// The line that says what to do next with the files that were written.
fn next_step(missing: &[String], settings_written: bool, program_written: bool, is_withheld: bool) -> String {
    let (look, commit) = match (settings_written, program_written) {
        (true, true) => ("look at both, ", "commit them, then "),
        (true, false) => ("look at ar.toml, ", "commit it, then "),
        (false, true) => ("look at program.md, ", "commit it, then "),
        (false, false) => ("", ""),
    };
    match missing {
        [] => format!("next: {look}{commit}`ar run`"),
        missing => {
            let commit = match (settings_written, program_written) {
                (_, true) => "commit them, then ",
                (true, false) => "commit it, then ",
                (false, false) => "then ",
            };
            let why = if is_withheld { ", as no agent is taken inside another agent's session" } else { "" };
            format!("next: set {} in {SETTINGS_FILE}{why}, {commit}`ar run`", in_words(missing))
        }
    }
}

/// The effect of a commit on the branch of a session.
fn commit_note(session: &Contract) -> String {
    let (tag, branch) = (&session.tag, session.tag.branch());
    format!(
        "note: after a commit on {branch}, `ar run` begins another session; to continue {tag}, commit nothing and type `ar resume {tag}`"
    )
}

/// The settings in `ar.toml` that keep the metric of a session; `None` for a composite.
fn metric_of(session: &Contract) -> Option<Asked> {
    // A name alone does not describe a composite.
    session.composite.is_none().then(|| Asked {
        metric: Some(session.metric.name.clone()),
        direction: Some(session.metric.direction),
        source: Some(session.metric.source.clone()),
        command: Some(session.command.clone()),
        ..Asked::default()
    })
}

/// Names as a sentence lists them.
fn in_words(names: &[String]) -> String {
    match names {
        [first @ .., before, last] => [first, &[format!("{before} and {last}")]].concat().join(", "),
        names => names.concat(),
    }
}

/// The missing settings that `ar run` needs for a loop.
fn missing_settings(terms: &Asked) -> Vec<String> {
    let is_missing = |setting: &&Setting| setting.is_required && setting.toml(terms).is_none();
    let required = settings().into_iter().filter(is_missing).map(|setting| setting.key.to_owned());
    let is_unclear = terms.metric.as_ref().is_some_and(|metric| terms.direction_of(metric).is_none());
    let direction = is_unclear.then(|| "higher or lower".to_owned());
    let agent = terms.agent.is_none().then(|| "agent".to_owned());
    required.chain(direction).chain(agent).collect()
}

/// Settings that the repository's own files suggest.
struct Suggestion {
    terms: Asked,
    conventions: Conventions,
    /// The names of further numbers that the scripts print.
    beside: Vec<String>,
    agents: Vec<&'static Preset>,
    /// The variable that says that another agent is calling: none is taken in its session.
    within: Option<&'static str>,
}

impl Suggestion {
    fn of(root: &Path, session: Option<&Contract>, asked: &Asked) -> Suggestion {
        let has = |name: &str| root.join(name).exists();
        let conventions = Conventions::of(root);
        let said = conventions.suggested();
        // Karpathy's layout: the agent edits train.py, prepare.py has the evaluation, uv runs it.
        let is_karpathys = has("train.py") && has("prepare.py");
        let by_scripts = suggested_by_scripts(root, asked.command.as_deref().or(said.command.as_deref()));
        let direction = if said.metric.is_some() { said.direction } else { by_scripts.direction };
        let metric = said.metric.or_else(|| is_karpathys.then(|| "val_bpb".into())).or(by_scripts.metric);
        let is_bpb = metric.as_deref() == Some("val_bpb");
        let (agents, within) = (installed_agents(root), outer_agent());
        let terms = Asked {
            direction: direction.or(is_bpb.then_some(Direction::Lower)),
            metric,
            command: by_scripts.command,
            timeout: said.deadline,
            scope: is_karpathys.then(|| vec!["train.py".into()]),
            ledger: conventions.dialect(),
            agent: match (within, agents.as_slice()) {
                (None, [only]) => Some(only.name.to_owned()),
                (_, _) => None,
            },
            ..Asked::default()
        };
        let terms = session.and_then(metric_of).unwrap_or_default().or(terms);
        Suggestion { terms, conventions, beside: by_scripts.beside, agents, within }
    }

    /// Runs the command once and lists its numbers, where the user asks for it, or no metric is known and a terminal's user
    /// agrees. Takes the likeliest name as the metric, unless one that the run may print is known.
    fn probe(&mut self, repo: &Repo, asked: &Asked, is_asked: bool) -> Result<(), CliError> {
        let terms = self.complete(asked.clone());
        let command = match terms.command {
            Some(command) if is_asked => command,
            Some(command) if terms.metric.is_none() && output::is_interactive() => {
                let question =
                    format!("run `{command}` once, for up to 60 s, to list the numbers that it prints? [y/N] ");
                if !matches!(answer(&question).as_deref(), Some("y" | "yes")) {
                    return Ok(());
                }
                command
            }
            None if is_asked => return Err(CliError::usage("--probe needs a command", "pass --cmd COMMAND")),
            _ => return Ok(()),
        };
        let before = repo.working_tree.changes()?;
        // A number is read the same way in both directions.
        let (direction, source) = (Direction::Lower, terms.source.unwrap_or_default());
        let is_in_file = matches!(source, MetricSource::File { .. });
        let metric = terms.metric.filter(|name| *name != COMPOSITE);
        let metric = metric.map(|name| MetricSpec { name, direction, source });
        let (exit, log) = runtime()?.block_on(probe(repo.worktree(), &command, metric.as_ref()))?;
        let left = repo.working_tree.changes()?.since(&before);
        if !left.is_empty() {
            let left = few(&left).join(", ");
            output::note(&format!("the command left changes: {left}; undo them, or have git ignore such files"));
        }
        let ended = match exit.exit {
            _ if exit.timed_out => "reached the limit of 60 s".to_owned(),
            Some(status) => format!("exited with {status}"),
            None => "was ended by a signal".to_owned(),
        };
        let is_failed = exit.exit != Some(0) && !exit.timed_out;
        let last = log.tail.lines().next_back().filter(|_| is_failed || log.metrics.is_empty());
        let last = last.map(|line| format!(": {line}")).unwrap_or_default();
        let printed = match is_failed {
            true => ", so nothing of what it printed is proposed".to_owned(),
            false => format!(" and printed {}", count_of(log.metrics.len(), "number")),
        };
        output::line(&format!("`{command}` {ended}{printed}{last}"));
        if is_failed {
            return Ok(());
        }
        let names: Vec<&str> = log.metrics.iter().map(|(name, _)| name.as_str()).collect();
        if !names.is_empty() {
            output::text(&directions(&log.metrics).render(Format::Table, output::width()));
        }
        match log.instead.filter(|_| is_in_file) {
            Some(instead) => output::note(&instead),
            None if names.is_empty() => {}
            None => self.choose(asked.metric.as_deref(), &names, exit.timed_out),
        }
        Ok(())
    }

    /// Takes one of the names that a run printed as the metric, unless the user gave one or a known one is among them. A run that
    /// `is_cut` may print the known one later.
    fn choose(&mut self, given: Option<&str>, names: &[&str], is_cut: bool) {
        let is_printed = |metric: &str| is_cut || names.contains(&metric);
        if let Some(metric) = given {
            if !is_printed(metric) {
                let meant = nearest(metric, names).map(|meant| format!("; did you mean `{meant}`?"));
                output::note(&format!("the run printed no {metric}{}", meant.unwrap_or_default()));
            }
            return;
        }
        let known = self.terms.metric.clone().filter(|metric| is_printed(metric));
        let named = known.as_deref().map(|metric| (metric, "which the repository's files name"));
        let Some((metric, why)) = named.or_else(|| likeliest(names.iter().copied())) else { return };
        let is_other = |name: &&str| *name != metric && Direction::of_name(name).is_some();
        let others: Vec<&str> = names.iter().copied().filter(is_other).collect();
        if !others.is_empty() {
            output::line(&format!("took {metric}, {why}; further candidates for --metric: {}", others.join(", ")));
        }
        if known.is_none() {
            (self.terms.metric, self.terms.direction) = (Some(metric.to_owned()), None);
        }
    }

    /// Completes the given settings with the suggested ones. Suggested direction and source apply only to the suggested
    /// metric.
    fn complete(&self, asked: Asked) -> Asked {
        let mut terms = self.terms.clone();
        if asked.metric.is_some() && asked.metric != terms.metric {
            (terms.direction, terms.source) = (None, None);
        }
        asked.or(terms)
    }

    /// Describes the suggestions that no flag or variable replaces.
    fn found(&self, asked: &Asked, given: &Asked) -> Vec<String> {
        let terms = &self.terms;
        let metric = terms.metric.as_ref().filter(|_| asked.metric.is_none());
        let metric = metric.map(|metric| match given.direction_of(metric) {
            Some(direction) => format!("metric {metric} ({direction} is better)"),
            None => format!("metric {metric}; set higher or lower"),
        });
        let beside = (!self.beside.is_empty() && asked.metric.is_none())
            .then(|| format!("further numbers: {}", self.beside.join(", ")));
        let command = terms.command.as_ref().filter(|_| asked.command.is_none()).map(|line| format!("command {line}"));
        let timeout = terms.timeout.filter(|_| asked.timeout.is_none());
        let timeout =
            timeout.map(|timeout| format!("time limit per run {}, named in {PROGRAM}", duration_text(timeout)));
        let scope = terms.scope.as_ref().filter(|_| asked.scope.is_none());
        let scope = scope.map(|scope| format!("file to edit {}", scope.join(", ")));
        let names = |agents: &[&Preset]| agents.iter().map(|agent| agent.name).collect::<Vec<_>>().join(", ");
        let agent = asked.agent.is_none().then(|| match (self.within, self.agents.as_slice()) {
            (_, []) => "no agent that ar knows by name; set agent".to_owned(),
            (Some(variable), agents) => {
                let names = names(agents);
                let noun = if agents.len() == 1 { "agent" } else { "agents" };
                format!("{noun} {names}, but `ar` takes none inside another agent's session ({variable} is set)")
            }
            (None, [only]) => format!("agent {}, the only one installed", only.name),
            (None, several) => format!("agents {}; set agent to one of them", names(several)),
        });
        let ledger = self.conventions.ledger_text().filter(|_| asked.ledger.is_none());
        let decide = given.decide.filter(|_| asked.decide.is_none()).map(|decide| format!("decide {decide}"));
        [metric, beside, command, timeout, scope, decide, agent, ledger, self.conventions.program_text()]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// Tabulates numbers with the directions that their names suggest.
fn directions(numbers: &[(String, Number)]) -> Grid {
    let mut grid = Grid::new([("name", Align::Left), ("value", Align::Right), ("direction", Align::Left)]);
    for (name, number) in numbers {
        let direction = match Direction::of_name(name) {
            Some((Direction::Lower, _)) => "lower is better",
            Some((Direction::Higher, _)) => "higher is better: say --higher",
            None => "say --higher or --lower",
        };
        grid.push([name.clone(), number.raw.clone(), direction.to_owned()]);
    }
    grid
}

/// Writes a file unless it exists. Returns whether it did.
fn write_new(path: &Path, content: &str) -> Result<bool, CliError> {
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .and_then(|mut file| std::io::Write::write_all(&mut file, content.as_bytes()));
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(CliError::new(format!("cannot write {}: {error}", path.display()), None)),
    }
}

/// The settings file: what is known, else a comment.
pub(super) fn settings_text(asked: &Asked) -> String {
    let mut text =
        String::from("# The terms of an ar session. A flag or a variable such as AR_METRIC comes before them.\n");
    let contradicted: Vec<_> =
        settings().into_iter().filter(|it| it.toml(asked).is_some()).filter_map(|it| it.excludes).collect();
    for setting in settings() {
        let value = setting.toml(asked);
        if value.is_none() && (setting.example.is_empty() || contradicted.contains(&setting.key)) {
            continue;
        }
        text.push('\n');
        let choices = (setting.choices)().into_iter().map(|(name, help)| format!("  {name}: {help}"));
        let help = setting.help.replace("{presets}", &preset_names());
        let notes = Some(setting.note.to_owned()).filter(|note| !note.is_empty());
        for line in [help].into_iter().chain(choices).chain(notes) {
            wrap(&line, 0, Some(98)).lines().for_each(|line| text.push_str(&format!("# {line}\n")));
        }
        if let Some(preset) = asked.agent.as_deref().and_then(Preset::named).filter(|_| setting.key == "agent") {
            let _ = writeln!(text, "# {} is {}\n# It needs {}.", preset.name, preset.command, preset.needs);
        }
        let _ = match value {
            Some(value) => writeln!(text, "{} = {value}", setting.file_key()),
            None => writeln!(text, "# {} = {}", setting.file_key(), setting.example),
        };
    }
    text + &prices_text(asked.prices.as_ref())
}

/// The tables of prices, which come after all settings.
fn prices_text(prices: Option<&Prices>) -> String {
    let mut text = String::from("\n# What a model costs per million tokens, for an agent that reports only tokens.\n");
    let Some(prices) = prices else {
        return text + "# [prices.\"gpt-5\"]\n# input = 1.25\n# output = 10.0\n# cached = 0.125\n";
    };
    for (model, price) in prices {
        let _ = writeln!(text, "[prices.{}]", toml::Value::String(model.clone()));
        let _ = writeln!(text, "input = {:?}\noutput = {:?}", price.input, price.output);
        if let Some(cached) = price.cached {
            let _ = writeln!(text, "cached = {cached:?}");
        }
    }
    text
}

/// One file, and what is to become of it.
struct PlannedFile {
    name: &'static str,
    /// The file behind links.
    path: PathBuf,
    exists: bool,
    /// Its new content; `None` where it is as wanted.
    content: Option<Vec<u8>>,
}

/// Writes the instructions that were asked for; `None` where there are none. `flags` are those for settings. Examines all files
/// first, so that an error leaves each as it is.
fn write_instructions(args: &InitArgs, flags: &[String], repo: &Repo) -> Result<Option<ExitCode>, CliError> {
    // The file without a skill is that for clients of the server.
    let mut files: Vec<Option<Skill>> = Vec::new();
    for file in args.skills.iter().copied().map(Some).chain(args.mcp.then_some(None)) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Ok(None);
    }
    if !flags.is_empty() {
        let error = format!("--skill and --mcp write no settings, but {} was given", flags.join(", "));
        return Err(CliError::usage(error, "set them by a call of `ar init` without --skill and --mcp"));
    }
    let root = repo.worktree().canonicalize().unwrap_or_else(|_| repo.worktree().to_owned());
    let planned = files.into_iter().map(|skill| PlannedFile::of(skill, &root)).collect::<Result<Vec<_>, _>>()?;
    let mut changed = Vec::new();
    for planned in &planned {
        if planned.apply()? {
            changed.push(PathBuf::from(planned.name));
        }
    }
    if let Some(session) = session_checked_out(repo).filter(|_| !changed.is_empty()) {
        let branch = session.tag.branch();
        output::note(&format!(
            "note: {branch} is checked out, and its next experiment would contain this change; commit it on your own branch"
        ));
    } else if !changed.is_empty() {
        let settings = "then set the terms with `ar init --metric NAME --cmd COMMAND`";
        let then = if root.join(SETTINGS_FILE).exists() { String::new() } else { format!("; {settings}") };
        output::line(&format!("next: look at {}, and commit the change{then}", list(&changed)));
    }
    Ok(Some(ExitCode::SUCCESS))
}

impl PlannedFile {
    fn of(skill: Option<Skill>, root: &Path) -> Result<PlannedFile, CliError> {
        let name = skill.map_or(MCP_FILE, Skill::path);
        let path = path_within(root, name)?;
        let found = match read_regular(&path) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(failed("read", name, &path, &error)),
        };
        let content = match skill {
            Some(skill) => skill.install(found.as_deref())?,
            None => mcp_entry(found.as_deref(), if archiver::is_shadowed() { "autoresearch" } else { "ar" })?,
        };
        Ok(PlannedFile { name, path, exists: found.is_some(), content })
    }

    /// Carries it out and prints it. Returns whether a byte changed.
    fn apply(&self) -> Result<bool, CliError> {
        let PlannedFile { name, path, exists, content } = self;
        let Some(content) = content else {
            output::line(&format!("unchanged: {name}"));
            return Ok(false);
        };
        create_folder(folder_of(path))
            .and_then(|()| write_atomic(path, content))
            .map_err(|error| failed("write", name, path, &error.source))?;
        output::line(&format!("{} {name}", if *exists { "updated" } else { "wrote" }));
        Ok(true)
    }
}

/// The file that a name in the repository leads to.
fn path_within(root: &Path, name: &str) -> Result<PathBuf, CliError> {
    let named = root.join(name);
    let existing = named.ancestors().find(|path| path.is_symlink() || path.exists()).unwrap_or(root);
    let rest = named.strip_prefix(existing).unwrap_or(Path::new(""));
    let real = existing.canonicalize().map_err(|error| {
        let hint = format!("remove the link {name}, or create the file that it leads to");
        CliError::new(format!("cannot follow {}: {error}", existing.display()), Some(hint))
    })?;
    let path = if rest.as_os_str().is_empty() { real } else { real.join(rest) };
    // Files of git are not in the working tree.
    let is_gits = path.strip_prefix(root).is_ok_and(|inside| inside.starts_with(".git"));
    if !path.starts_with(root) || is_gits {
        let hint = format!("replace the link by a file or folder of this repository: {name}");
        return Err(CliError::new(format!("{name} leads out of the working tree, to {}", path.display()), Some(hint)));
    }
    Ok(path)
}

fn failed(action: &str, name: &str, path: &Path, error: &std::io::Error) -> CliError {
    let folder = || folder_of(path).ancestors().find(|folder| folder.exists()).unwrap_or(path);
    let hint = match error.kind() {
        ErrorKind::PermissionDenied if action == "read" => {
            Some(format!("make it readable: chmod u+r {}", shell_word(path)))
        }
        ErrorKind::PermissionDenied => Some(format!("make the folder writable: chmod u+w {}", shell_word(folder()))),
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists | ErrorKind::IsADirectory => {
            Some(format!("move away what stands in the way of {name}"))
        }
        _ => None,
    };
    CliError::new(format!("cannot {action} {name}: {error}"), hint)
}

/// The picture of the course, in the session's folder.
const PICTURE: &str = "course.png";

/// Makes the built-in example, runs its whole loop and prints the report.
pub(super) fn demo(args: DemoArgs) -> Result<ExitCode, CliError> {
    let clock = clock()?;
    let dir = match args.dir {
        Some(dir) => dir,
        None => tempfile::Builder::new()
            .prefix("ar-demo-")
            .tempdir()
            .map(tempfile::TempDir::keep)
            .map_err(|source| SessionError::Io { action: "create", path: std::env::temp_dir(), source })?,
    };
    let (repo, terms, what) = if args.research {
        (create_research_demo(&dir)?, research_demo_terms(), "a question about leaves, and a scripted researcher")
    } else {
        (create_demo(&dir)?, demo_terms(), "a tiny language model in sh and awk")
    };
    let root = repo.worktree().to_owned();
    output::line(&format!("{what}, in {}", root.display()));
    let drive = Drive::TYPED;
    let plan = Plan::new(repo, &terms.into(), drive, clock)?;
    let progress = Progress::new(StreamFormat::Table, clock, root.clone());
    let reason = drive_loop(plan, drive, progress, None)?;
    output::line("");
    let view = SessionView::open(&root, None)?;
    let file = if args.research {
        let picture = view.folder.root().join(PICTURE);
        records::print_session(&view, Some(&picture))?;
        output::line(&format!("\nthe picture is in {}", picture.display()));
        ARTIFACT
    } else {
        records::print_session(&view, None)?;
        "results.tsv"
    };
    output::line("");
    output::line(&format!("look around: cd {} && ar log, ar show 4, cat {file}", root.display()));
    Ok(ExitCode::from(error::of_stop(&reason)))
}
