//! Settings: flag, then variable, then `ar.toml`, then default.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use autoresearch::domain::{Clock, Direction, MetricSource};
use autoresearch::session::Asked;
use clap::{Arg, ArgAction, Args, Command, FromArgMatches};
use jiff::SignedDuration;

use super::args::SettingsArgs;
use super::error::CliError;

/// The settings file in the root of the working tree.
pub(super) const SETTINGS_FILE: &str = "ar.toml";

/// A duration as a user writes it: `90s`, `10m`, `8h`, `1h30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let trouble = || format!("`{text}` is not a duration; write 90s, 10m or 8h");
        let duration: SignedDuration = text.trim().parse().map_err(|_| trouble())?;
        Duration::try_from(duration).ok().filter(|duration| !duration.is_zero()).map(Span).ok_or_else(trouble)
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        span.0
    }
}

/// The JSON file that holds the metric, and where in it: `out.json:/final/loss`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MetricFile {
    path: PathBuf,
    pointer: String,
}

impl FromStr for MetricFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (path, pointer) = match text.find(":/") {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text, ""),
        };
        if path.is_empty() {
            return Err("write the file and a JSON pointer, as in out.json:/final/loss".into());
        }
        Ok(MetricFile { path: path.into(), pointer: pointer.into() })
    }
}

/// Parses a finite number.
pub(super) fn finite(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err("must be a finite number".into()),
    }
}

/// Parses a finite number that is 0 or more.
pub(super) fn non_negative(text: &str) -> Result<f64, String> {
    finite(text).and_then(|value| if value >= 0.0 { Ok(value) } else { Err("must be 0 or more".into()) })
}

/// Puts flags, the environment's variables and the settings file of the working tree at `root` together.
pub(super) fn resolve(flags: SettingsArgs, root: &Path) -> Result<Asked, CliError> {
    let variables = from_variables(|name| std::env::var_os(name))?;
    let file = from_file(&root.join(SETTINGS_FILE))?;
    Ok([variables, file].into_iter().map(asked).fold(asked(flags), or))
}

/// The clock; `AR_CLOCK` holds it at one moment, for reproducible output.
pub(super) fn clock() -> Result<Clock, CliError> {
    match std::env::var("AR_CLOCK") {
        Ok(text) => text
            .parse()
            .map(Clock::Fixed)
            .map_err(|error| CliError::usage(error, "set AR_CLOCK like 2026-11-20T22:00:00Z, or not at all")),
        Err(_) => Ok(Clock::System),
    }
}

/// One setting as a layer gives it: the name of its flag, its value, and what to call it in an error.
struct Given {
    long: String,
    value: OsString,
    called: String,
}

/// The settings that are flags of `ar run`, as clap knows them.
fn flags() -> Command {
    SettingsArgs::augment_args(Command::new("ar").no_binary_name(true))
}

/// Whether a setting can be given several times.
fn takes_several(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Append)
}

/// Reads each setting from the variable that is named after its flag; several values stand between colons.
fn from_variables(get: impl Fn(&str) -> Option<OsString>) -> Result<SettingsArgs, CliError> {
    let flags = flags();
    let given = flags.get_arguments().filter_map(|argument| {
        let long = argument.get_long()?.to_owned();
        let name = format!("AR_{}", long.to_uppercase().replace('-', "_"));
        let value = get(&name).filter(|value| !value.is_empty())?;
        let values = match value.to_str() {
            Some(list) if takes_several(argument) => list.split(':').map(OsString::from).collect(),
            _ => vec![value],
        };
        let called = format!("the variable {name}");
        Some(values.into_iter().map(move |value| Given { long: long.clone(), value, called: called.clone() }))
    });
    parse_layer(given.flatten().collect(), "unset it, or mend it")
}

/// Reads the settings file; `max_experiments` and `max-experiments` are the same setting.
fn from_file(path: &Path) -> Result<SettingsArgs, CliError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(SettingsArgs::default()),
        Err(error) => return Err(CliError::new(format!("cannot read {}: {error}", path.display()), None)),
    };
    let hint = "`ar init` in an empty folder shows what an ar.toml looks like";
    let trouble = |what: String| CliError::new(format!("{}: {what}", path.display()), Some(hint.into()));
    let table: toml::Table =
        text.parse().map_err(|error: toml::de::Error| trouble(error.to_string().trim_end().to_owned()))?;
    let mut given = Vec::new();
    for (key, value) in table {
        let long = key.replace('_', "-");
        if !flags().get_arguments().any(|argument| argument.get_long() == Some(&long)) {
            let known: Vec<_> =
                flags().get_arguments().filter_map(|argument| argument.get_long().map(str::to_owned)).collect();
            let hint = format!("the settings are {}", known.join(", "));
            return Err(CliError::new(format!("{}: there is no setting `{key}`", path.display()), Some(hint)));
        }
        let several =
            flags().get_arguments().any(|argument| argument.get_long() == Some(&long) && takes_several(argument));
        let values = match value {
            toml::Value::Array(values) if several => values,
            value => vec![value],
        };
        for value in values {
            let value = match value {
                toml::Value::String(text) => text,
                toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_) => value.to_string(),
                _ if several => return Err(trouble(format!("`{key}` must be a list of texts"))),
                _ => return Err(trouble(format!("`{key}` must be a text, a number, true or false"))),
            };
            let called = format!("{key} in {}", path.display());
            given.push(Given { long: long.clone(), value: value.into(), called });
        }
    }
    parse_layer(given, hint)
}

/// Parses one layer by the rules of the flags.
fn parse_layer(given: Vec<Given>, hint: &str) -> Result<SettingsArgs, CliError> {
    let trouble = |what: String| CliError::new(what, Some(hint.to_owned()));
    let command = flags();
    let parse = |flags: Vec<OsString>| {
        let matches = command.clone().try_get_matches_from(flags)?;
        SettingsArgs::from_arg_matches(&matches)
    };
    let mut all = Vec::new();
    let mut names = Vec::new();
    for Given { long, value, called } in given {
        let takes_value = command
            .get_arguments()
            .any(|argument| argument.get_long() == Some(&long) && argument.get_action().takes_values());
        let flag = match value.to_str() {
            _ if takes_value => {
                let mut flag = OsString::from(format!("--{long}="));
                flag.push(&value);
                flag
            }
            Some("0" | "false" | "no") => continue,
            Some("1" | "true" | "yes") => format!("--{long}").into(),
            _ => return Err(trouble(format!("{called} must be true or false"))),
        };
        if let Err(error) = parse(vec![flag.clone()]) {
            let text = error.to_string();
            let what = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            return Err(trouble(format!("{called}: {what}")));
        }
        names.push(called);
        all.push(flag);
    }
    parse(all).map_err(|_| trouble(format!("these contradict each other: {}", names.join(", "))))
}

/// One layer of settings in the session's own words.
fn asked(settings: SettingsArgs) -> Asked {
    let direction = match (settings.lower, settings.higher) {
        (true, _) => Some(Direction::Lower),
        (false, true) => Some(Direction::Higher),
        (false, false) => None,
    };
    let source = match (settings.metric_regex, settings.metric_file) {
        (Some(pattern), _) => Some(MetricSource::Regex(pattern)),
        (None, Some(MetricFile { path, pointer })) => Some(MetricSource::File { path, pointer }),
        (None, None) => None,
    };
    Asked {
        tag: settings.tag,
        metric: settings.metric,
        direction,
        source,
        command: settings.cmd,
        agent: settings.agent,
        min_delta: settings.min_delta,
        goal: settings.goal,
        timeout: settings.timeout.map(Duration::from),
        grace: settings.grace.map(Duration::from),
        max_experiments: settings.max_experiments,
        budget: settings.budget.map(Duration::from),
        ledger: settings.ledger.map(Into::into),
        scope: settings.scope,
        protect: settings.protect,
        max_files: settings.max_files,
        max_file_lines: settings.max_file_lines,
        allow_repeats: settings.allow_repeats.then_some(true),
        ladder: settings.ladder.map(Into::into),
        research: settings.research.then_some(true),
        stop_when_flagged: settings.stop_when_flagged.then_some(true),
        keep_logs: settings.keep_logs,
    }
}

/// What the first layer says, and where it says nothing what the second one does.
fn or(first: Asked, second: Asked) -> Asked {
    Asked {
        tag: first.tag.or(second.tag),
        metric: first.metric.or(second.metric),
        direction: first.direction.or(second.direction),
        source: first.source.or(second.source),
        command: first.command.or(second.command),
        agent: first.agent.or(second.agent),
        min_delta: first.min_delta.or(second.min_delta),
        goal: first.goal.or(second.goal),
        timeout: first.timeout.or(second.timeout),
        grace: first.grace.or(second.grace),
        max_experiments: first.max_experiments.or(second.max_experiments),
        budget: first.budget.or(second.budget),
        ledger: first.ledger.or(second.ledger),
        scope: if first.scope.is_empty() { second.scope } else { first.scope },
        protect: if first.protect.is_empty() { second.protect } else { first.protect },
        max_files: first.max_files.or(second.max_files),
        max_file_lines: first.max_file_lines.or(second.max_file_lines),
        allow_repeats: first.allow_repeats.or(second.allow_repeats),
        ladder: first.ladder.or(second.ladder),
        research: first.research.or(second.research),
        stop_when_flagged: first.stop_when_flagged.or(second.stop_when_flagged),
        keep_logs: first.keep_logs.or(second.keep_logs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_write_them() {
        for (text, seconds) in [("90s", 90), ("10m", 600), ("8h", 28800), ("1h30m", 5400), ("500ms", 0)] {
            assert_eq!(text.parse::<Span>().map(|span| span.0.as_secs()), Ok(seconds), "{text}");
        }
        for text in ["", "10", "-5s", "0s", "soon", "10x"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_metric_file_has_a_path_and_a_pointer() {
        let file: MetricFile = "out/m.json:/a/b".parse().unwrap();
        assert_eq!((file.path.to_str(), file.pointer.as_str()), (Some("out/m.json"), "/a/b"));
        assert_eq!("m.json".parse::<MetricFile>().unwrap().pointer, "");
        assert!(":/a".parse::<MetricFile>().is_err());
    }

    #[test]
    fn variables_are_read_by_the_rules_of_the_flags() {
        let get = |name: &str| match name {
            "AR_MAX_EXPERIMENTS" => Some("5".into()),
            "AR_HIGHER" => Some("1".into()),
            "AR_LOWER" => Some("0".into()),
            "AR_METRIC" => Some("".into()),
            _ => None,
        };
        let settings = from_variables(get).unwrap();
        assert_eq!((settings.max_experiments, settings.higher, settings.lower), (Some(5), true, false));
        assert_eq!(settings.metric, None);
        assert!(from_variables(|name| (name == "AR_TIMEOUT").then(|| "soon".into())).is_err());
    }

    #[test]
    fn flags_come_before_variables_and_those_before_the_file() {
        let layer = |cmd: Option<&str>, metric: Option<&str>| {
            asked(SettingsArgs { cmd: cmd.map(Into::into), metric: metric.map(Into::into), ..Default::default() })
        };
        let merged = or(or(layer(None, Some("a")), layer(Some("b"), Some("b"))), layer(Some("c"), None));
        assert_eq!((merged.metric.as_deref(), merged.command.as_deref()), (Some("a"), Some("b")));
    }

    #[test]
    fn a_settings_file_takes_both_spellings_and_refuses_what_it_does_not_know() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(SETTINGS_FILE);
        fs::write(&path, "metric = \"m\"\nmax_experiments = 3\nmin-delta = 0.5\ntimeout = \"2m\"\nfor = \"8h\"\n")
            .unwrap();
        let settings = from_file(&path).unwrap();
        assert_eq!((settings.max_experiments, settings.min_delta), (Some(3), Some(0.5)));
        assert_eq!(settings.timeout, Some(Span(Duration::from_secs(120))));
        assert_eq!(settings.budget, Some(Span(Duration::from_secs(28800))));
        fs::write(&path, "metrik = \"m\"\n").unwrap();
        assert!(from_file(&path).is_err());
    }
}
