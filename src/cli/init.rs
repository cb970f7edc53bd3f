//! `ar init`.

use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

use autoresearch::agent::{BUILT_IN_PROGRAM, Preset};
use autoresearch::domain::{
    Direction, Ladder, LedgerDialect, Limit, MetricSource, Prices, duration_text, time_of_day_text,
};
use autoresearch::git::Repo;
use autoresearch::session::{Asked, Conventions, PROGRAM, installed_agents};

use super::args::InitArgs;
use super::error::CliError;
use super::process::current_dir;
use super::settings::SETTINGS_FILE;
use super::{output, settings};

/// Writes `ar.toml` and `program.md` to start from, and prints what the repository's own files suggested; a file that is
/// there is left as it is.
pub(super) fn run(args: InitArgs) -> Result<ExitCode, CliError> {
    let repo = Repo::discover(&current_dir()?)?;
    let root = repo.worktree().to_owned();
    let flags: Vec<_> = Asked::from(args.settings.clone()).keys().iter().map(|key| format!("--{key}")).collect();
    let asked = settings::resolve(args.settings, &root)?;
    let suggestion = Suggestion::of(&root);
    let terms = asked.clone().or(suggestion.terms.clone());
    let settings_written = write_new(&root.join(SETTINGS_FILE), &settings_text(&terms))?;
    let program_written = write_new(&root.join(PROGRAM), BUILT_IN_PROGRAM)?;
    for (name, written) in [(SETTINGS_FILE, settings_written), (PROGRAM, program_written)] {
        let what = if written { "wrote" } else { "left unchanged:" };
        output::line(&format!("{what} {name}"));
    }
    if !settings_written && !flags.is_empty() {
        output::line(&format!("not applied: {}; edit {SETTINGS_FILE} to set them", flags.join(", ")));
    }
    for found in suggestion.found(&asked) {
        output::line(&format!("found: {found}"));
    }
    let missing: Vec<_> = [("metric", terms.metric.is_none()), ("cmd", terms.command.is_none())]
        .into_iter()
        .filter_map(|(key, is_missing)| (settings_written && is_missing).then_some(key))
        .collect();
    let (look, commit) = match (settings_written, program_written) {
        (true, true) => ("look at both, ", "commit them, then "),
        (true, false) => ("look at ar.toml, ", "commit it, then "),
        (false, true) => ("look at program.md, ", "commit it, then "),
        (false, false) => ("", ""),
    };
    output::line(&match missing.as_slice() {
        [] => format!("next: {look}{commit}`ar run`"),
        missing => format!("next: set {} in {SETTINGS_FILE}, {commit}`ar run`", missing.join(" and ")),
    });
    Ok(ExitCode::SUCCESS)
}

/// What the repository's own files suggest.
struct Suggestion {
    terms: Asked,
    conventions: Conventions,
    agents: Vec<&'static Preset>,
}

impl Suggestion {
    fn of(root: &Path) -> Suggestion {
        let has = |name: &str| root.join(name).exists();
        let conventions = Conventions::of(root);
        let said = conventions.suggested.clone();
        // Karpathy's layout: the agent edits train.py, prepare.py has the evaluation, uv runs it.
        let is_karpathys = has("train.py") && has("prepare.py");
        let by_layout = || match (has("train.py"), has("uv.lock") || has("pyproject.toml")) {
            (true, true) => Some("uv run train.py".into()),
            (true, false) => Some("python train.py".into()),
            (false, _) => has("train.sh").then(|| "sh train.sh".into()),
        };
        let metric = said.metric.or_else(|| is_karpathys.then(|| "val_bpb".into()));
        let is_bpb = metric.as_deref() == Some("val_bpb");
        let agents = installed_agents(root);
        let terms = Asked {
            direction: said.direction.or(is_bpb.then_some(Direction::Lower)),
            metric,
            command: said.command.or_else(by_layout),
            timeout: said.deadline,
            scope: is_karpathys.then(|| vec!["train.py".into()]),
            ledger: conventions.dialect(),
            agent: match agents.as_slice() {
                [only] => Some(only.name.to_owned()),
                _ => None,
            },
            ..Asked::default()
        };
        Suggestion { terms, conventions, agents }
    }

    /// What is said of it: what a flag or a variable decides was not taken.
    fn found(&self, asked: &Asked) -> Vec<String> {
        let terms = &self.terms;
        let metric = terms.metric.as_ref().filter(|_| asked.metric.is_none()).map(|metric| match terms.direction {
            Some(direction) => format!("metric {metric} ({direction} is better)"),
            None => format!("metric {metric}"),
        });
        let command = terms.command.as_ref().filter(|_| asked.command.is_none()).map(|line| format!("command {line}"));
        let timeout = terms.timeout.filter(|_| asked.timeout.is_none());
        let timeout =
            timeout.map(|timeout| format!("time limit per run {}, named in {PROGRAM}", duration_text(timeout)));
        let scope = terms.scope.as_ref().filter(|_| asked.scope.is_none());
        let scope = scope.map(|scope| format!("file to edit {}", scope.join(", ")));
        let names = |agents: &[&Preset]| agents.iter().map(|agent| agent.name).collect::<Vec<_>>().join(", ");
        let agent = asked.agent.is_none().then(|| match self.agents.as_slice() {
            [] => "no agent that ar knows by name; set agent".to_owned(),
            [only] => format!("agent {}, the only one installed", only.name),
            several => format!("agents {}; set agent to one of them", names(several)),
        });
        let ledger = self.conventions.ledger_text().filter(|_| asked.ledger.is_none());
        [metric, command, timeout, scope, agent, ledger, self.conventions.program_text()]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// Writes a file that is not there yet; whether it was written.
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
fn settings_text(asked: &Asked) -> String {
    let mut text =
        String::from("# The terms of an ar session. A flag or a variable such as AR_METRIC comes before them.\n");
    let mut set = |comment: &str, key: &str, value: Option<String>, example: &str| {
        let _ = match value {
            Some(value) => writeln!(text, "\n# {comment}\n{key} = {value}"),
            None => writeln!(text, "\n# {comment}\n# {key} = {example}"),
        };
    };
    let quoted = |text: String| toml::Value::String(text).to_string();
    set(
        "The number to improve, by the name that the log prints it under.",
        "metric",
        asked.metric.clone().map(quoted),
        "\"val_bpb\"",
    );
    let yes = Some("true".to_owned());
    match asked.direction {
        Some(Direction::Lower) => set("Lower is better.", "lower", yes, ""),
        Some(Direction::Higher) => set("Higher is better.", "higher", yes, ""),
        None => set("Higher is better; the default is lower.", "higher", None, "true"),
    }
    let list = |values: Option<Vec<String>>| {
        values.map(|values| toml::Value::Array(values.into_iter().map(toml::Value::String).collect()).to_string())
    };
    let example = "\"Lower val_bpb without using more memory.\"";
    set(
        "The goal in words. The agent reads it in every prompt.",
        "goal-text",
        asked.goal_text.clone().map(quoted),
        example,
    );
    let comment = "Milestones on the way to the goal.";
    set(comment, "milestone", list(asked.milestones.clone()), "[\"val_bpb below 1.0\"]");
    let comment = "What counts as success.";
    set(comment, "success", list(asked.success.clone()), "[\"val_bpb below 0.95 within the same time\"]");
    set("The command that trains and measures.", "cmd", asked.command.clone().map(quoted), "\"uv run train.py\"");
    let mut comment =
        "The command that changes the code once and exits; it reads the prompt from standard input. Or the name of a \
            preset."
            .to_owned();
    if let Some(preset) = asked.agent.as_deref().and_then(Preset::named) {
        comment += &format!("\n# {} is {}\n# It needs {}.", preset.name, preset.command, preset.needs);
    }
    set(&comment, "agent", asked.agent.clone().map(quoted), "\"claude\"");
    set(
        "The files that an experiment may change; by default all but those that measure.",
        "scope",
        list(asked.scope.clone()),
        "[\"src/**\"]",
    );
    set("Files that no experiment may change.", "protect", list(asked.protect.clone()), "[\"eval/**\"]");
    let count = |limit: Option<u32>| limit.map(|limit| limit.to_string());
    set("How many files an experiment may change.", "max-files", count(asked.max_files), "5");
    set("How many lines of one file it may add and delete.", "max-file-lines", count(asked.max_file_lines), "200");
    if asked.allow_repeats == Some(true) {
        set("Measure a change again that was measured before.", "allow-repeats", Some("true".into()), "");
    }
    let comment = "Commands that must pass before a change is kept.";
    set(comment, "guard", list(asked.guards.clone()), "[\"sh tests.sh\"]");
    let limits = asked.limits.as_ref().map(|limits| limits.iter().map(Limit::to_string).collect());
    set("Bounds on numbers of the log that a kept change keeps to.", "limit", list(limits), "[\"memory_gb<=40\"]");
    let ladder = asked.ladder.map(|ladder| match ladder {
        Ladder::Refine => quoted("refine".into()),
        Ladder::Structural => quoted("structural".into()),
    });
    set("What the agent is told when there are no recent keeps.", "ladder", ladder, "\"structural\"");
    let flag = |asked: Option<bool>| asked.filter(|asked| *asked).map(|asked| asked.to_string());
    let comment = "The agent may look for ideas outside the repository at the second pivot in a row.";
    set(comment, "research", flag(asked.research), "true");
    let comment = "Stop when the session is flagged for review instead of starting afresh in another direction.";
    set(comment, "stop-when-flagged", flag(asked.stop_when_flagged), "true");
    let time = |duration| quoted(duration_text(duration));
    set("Time limit for one run.", "timeout", asked.timeout.map(time), "\"10m\"");
    set("Time that a process has to end by itself before it is killed.", "grace", asked.grace.map(time), "\"10s\"");
    let comment = "Time limit for one agent call.";
    set(comment, "agent-timeout", asked.agent_timeout.map(time), "\"30m\"");
    let comment = "How long the agent may be unreachable, rate-limited or out of credit before the loop stops.";
    set(comment, "outage-limit", asked.outage_limit.map(time), "\"8h\"");
    let number = |number: f64| toml::Value::Float(number).to_string();
    let min_delta = asked.min_delta.map(number);
    set("How much better than the best one a number must be to be kept.", "min-delta", min_delta, "0.0");
    let comment = "How far behind the best value a change may be that makes the program shorter.";
    set(comment, "simpler-wins", asked.simpler_wins.map(number), "0.001");
    set("How many experiments a session may have.", "max-experiments", count(asked.max_experiments), "100");
    let comment = "Stop when the agent's calls have cost this much; an agent that reports no cost needs prices, below.";
    set(comment, "max-cost", asked.max_cost.map(number), "20.0");
    let max_tokens = asked.max_tokens.map(|tokens| tokens.to_string());
    set("Stop when they have used so many tokens.", "max-tokens", max_tokens, "50000000");
    set("Time limit for one `ar run`.", "for", asked.budget.map(time), "\"8h\"");
    let until = asked.until.map(|until| quoted(time_of_day_text(until)));
    set("The time of day at which `ar run` stops.", "until", until, "\"07:00\"");
    set("Stop after so many crashes in a row.", "max-crashes", count(asked.max_crashes), "10");
    set("Stop when the metric reaches this value.", "goal", asked.goal.map(number), "0.95");
    let comment = "A command that gets each event as JSON on standard input.";
    set(comment, "on-event", asked.on_event.clone().map(quoted), "\"sh ~/notify.sh\"");
    let keep_logs = asked.keep_logs.map(|size| quoted(size.to_string()));
    set("How much of the runs' logs is kept.", "keep-logs", keep_logs, "\"10GB\"");
    set("Leave the session's commits unsigned.", "no-sign", flag(asked.no_sign), "true");
    if let Some(tag) = &asked.tag {
        set("The session's name.", "tag", Some(quoted(tag.to_string())), "");
    }
    let dialect = asked.ledger.map(|ledger| match ledger {
        LedgerDialect::Ar => quoted("ar".into()),
        LedgerDialect::Karpathy => quoted("karpathy".into()),
    });
    let comment = "The columns of a new results.tsv: ar, or karpathy for `commit ... keep, discard, crash`.";
    set(comment, "ledger", dialect, "\"ar\"");
    if let Some(MetricSource::Regex(pattern)) = &asked.source {
        set("The pattern whose one group is the number.", "metric-regex", Some(quoted(pattern.clone())), "");
    }
    if let Some(MetricSource::File { path, pointer }) = &asked.source {
        let file = quoted(format!("{}:{pointer}", path.display()));
        set("The JSON file that holds the number.", "metric-file", Some(file), "");
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
