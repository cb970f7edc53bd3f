//! Settings: flag, then variable, then `ar.toml`, then default.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use autoresearch::domain::{Clock, Prices, Tag, nearest, shell_word};
use autoresearch::fs::read_regular;
use autoresearch::git::Repo;
use autoresearch::session::{Asked, Drive, Plan, SessionError, Wanted};
use clap::{Arg, ArgAction, Args, Command, FromArgMatches};

use super::error::CliError;
use super::terms::SettingsArgs;

/// The settings file in the root of the working tree.
pub(super) const SETTINGS_FILE: &str = "ar.toml";

/// What flags, the environment's variables and the settings file ask for. A file that cannot be read is an error only for
/// who needs it: a session that exists goes by what is stored.
pub(super) struct Settings {
    /// By flags and variables.
    pub(super) given: Asked,
    /// In the settings file.
    file: Result<Asked, CliError>,
}

impl Settings {
    /// Reads them; the settings file is that of the working tree at `root`.
    pub(super) fn read(flags: SettingsArgs, root: &Path) -> Result<Settings, CliError> {
        let variables = from_variables(variable)?;
        let file = from_file(&root.join(SETTINGS_FILE));
        let file = file.map(|(settings, prices)| Asked { prices, ..Asked::from(settings) });
        Ok(Settings { given: Asked::from(flags).or(variables.into()), file })
    }

    /// The session that the settings file names, where it is one of `sessions`.
    pub(super) fn tag_in_file(&self, sessions: &[Tag]) -> Option<Tag> {
        self.file.as_ref().ok()?.tag.clone().filter(|tag| sessions.contains(tag))
    }

    /// Works out what the invocation is going to do.
    pub(super) fn plan(self, repo: Repo, drive: Drive, clock: Clock) -> Result<Plan, CliError> {
        let (file, trouble) = match self.file {
            Ok(file) => (file, None),
            Err(trouble) => (Asked::default(), Some(trouble)),
        };
        match (Plan::new(repo, &Wanted { given: self.given, file }, drive, clock), trouble) {
            (plan, None) => Ok(plan?),
            (Ok(plan), Some(trouble)) if plan.continued() => Ok(plan.note(format!("ignored ar.toml: {trouble}"))),
            // What is missing may stand in the file.
            (Ok(_) | Err(SessionError::Missing(_) | SessionError::DirectionUnclear(_)), Some(trouble)) => Err(trouble),
            (Err(error), Some(_)) => Err(error.into()),
        }
    }
}

/// A variable that is a setting. Within a call of a loop the names of its session and its metric are no settings: commands
/// that act are for other repositories there.
fn variable(name: &str) -> Option<OsString> {
    let is_told = matches!(name, "AR_TAG" | "AR_METRIC");
    let is_within_call = || ["AR_EXPERIMENT", "AR_STATE_DIR"].iter().all(|name| std::env::var_os(name).is_some());
    std::env::var_os(name).filter(|_| !(is_told && is_within_call()))
}

/// Puts flags, the environment's variables and the settings file of the working tree at `root` together.
pub(super) fn resolve(flags: SettingsArgs, root: &Path) -> Result<Asked, CliError> {
    let Settings { given, file } = Settings::read(flags, root)?;
    Ok(given.or(file?))
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

/// Whether this call comes from an agent that the loop has called for one change.
pub(super) fn called_by_loop() -> bool {
    std::env::var_os("AR_PROPOSAL").is_some_and(|file| !file.is_empty())
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

/// Between which characters a variable holds the values of a setting that can be given several times: globs between
/// colons, as paths stand in such variables, and what may hold a colon itself on lines of its own.
fn separator(argument: &Arg) -> char {
    let is_glob = argument.get_value_names().is_some_and(|names| names.iter().any(|name| name == "GLOB"));
    if is_glob { ':' } else { '\n' }
}

/// Reads each setting from the variable that is named after its flag.
fn from_variables(get: impl Fn(&str) -> Option<OsString>) -> Result<SettingsArgs, CliError> {
    let flags = flags();
    let given = flags.get_arguments().filter_map(|argument| {
        let long = argument.get_long()?.to_owned();
        let name = format!("AR_{}", long.to_uppercase().replace('-', "_"));
        let value = get(&name).filter(|value| !value.is_empty())?;
        let values = match value.to_str() {
            Some(list) if takes_several(argument) => {
                list.split(separator(argument)).filter(|value| !value.is_empty()).map(OsString::from).collect()
            }
            _ => vec![value],
        };
        let called = format!("the variable {name}");
        Some(values.into_iter().map(move |value| Given { long: long.clone(), value, called: called.clone() }))
    });
    parse_layer(given.flatten().collect(), "unset it or correct it")
}

/// Reads the settings file, and the prices of models in it; `max_experiments` and `max-experiments` are the same setting.
fn from_file(path: &Path) -> Result<(SettingsArgs, Option<Prices>), CliError> {
    let text = match read_regular(path).and_then(|text| String::from_utf8(text).map_err(io::Error::other)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Default::default()),
        Err(error) => {
            let hint = format!("run `ls -l {}` to see what it is", shell_word(path));
            return Err(CliError::new(format!("cannot read {}: {error}", path.display()), Some(hint)));
        }
    };
    let hint = "for an example, run `cd \"$(mktemp -d)\" && git init --quiet && ar init && cat ar.toml`";
    let trouble = |what: String| CliError::new(format!("{}: {what}", path.display()), Some(hint.into()));
    let mut table: toml::Table =
        text.parse().map_err(|error: toml::de::Error| trouble(error.to_string().trim_end().to_owned()))?;
    let prices = match table.remove(PRICES) {
        None => None,
        Some(prices) => Some(prices_of(prices).map_err(|error| trouble(format!("`{PRICES}`: {error}")))?),
    };
    let mut given = Vec::new();
    for (key, value) in table {
        let long = key.replace('_', "-");
        if !flags().get_arguments().any(|argument| argument.get_long() == Some(&long)) {
            let known: Vec<_> =
                flags().get_arguments().filter_map(|argument| argument.get_long().map(str::to_owned)).collect();
            let meant = nearest(&long, &known).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
            let hint = format!("the settings are {}{meant}", known.join(", "));
            return Err(CliError::new(format!("{}: unknown setting `{key}`", path.display()), Some(hint)));
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
    Ok((parse_layer(given, hint)?, prices))
}

/// The table of the settings file that has the prices of models.
const PRICES: &str = "prices";

/// Reads the prices of models.
fn prices_of(table: toml::Value) -> Result<Prices, String> {
    let prices: Prices = table.try_into().map_err(|error: toml::de::Error| error.message().to_owned())?;
    match prices.iter().find(|(_, price)| !price.is_valid()) {
        Some((model, _)) => Err(format!("the prices of {model} must be 0 or more")),
        None => Ok(prices),
    }
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

#[cfg(test)]
mod tests {
    use std::fs;

    use std::time::Duration;

    use super::*;

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
            Asked::from(SettingsArgs { cmd: cmd.map(Into::into), metric: metric.map(Into::into), ..Default::default() })
        };
        let merged = layer(None, Some("a")).or(layer(Some("b"), Some("b"))).or(layer(Some("c"), None));
        assert_eq!((merged.metric.as_deref(), merged.command.as_deref()), (Some("a"), Some("b")));
    }

    #[test]
    fn a_settings_file_takes_both_spellings_and_refuses_what_it_does_not_know() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(SETTINGS_FILE);
        fs::write(&path, "metric = \"m\"\nmax_experiments = 3\nmin-delta = 0.5\ntimeout = \"2m\"\nfor = \"8h\"\n")
            .unwrap();
        let (settings, prices) = from_file(&path).unwrap();
        assert_eq!(prices, None);
        assert_eq!((settings.max_experiments, settings.min_delta), (Some(3), Some(0.5)));
        assert_eq!(settings.timeout.map(Duration::from), Some(Duration::from_secs(120)));
        assert_eq!(settings.budget.map(Duration::from), Some(Duration::from_secs(28800)));
        let prices = |text: &str| {
            fs::write(&path, text).unwrap();
            from_file(&path).map(|(_, prices)| prices.unwrap()["a/b"])
        };
        let price = prices("metric = \"m\"\n[prices.\"a/b\"]\ninput = 1\noutput = 2.5\n").unwrap();
        assert_eq!((price.input, price.output, price.cached), (1.0, 2.5, None));
        for wrong in
            ["input = 1", "input = -1\noutput = 1", "input = 1\noutput = 1\nall = 2", "input = \"1\"\noutput = 2"]
        {
            assert!(prices(&format!("[prices.\"a/b\"]\n{wrong}\n")).is_err(), "{wrong}");
        }
        fs::write(&path, "metrik = \"m\"\n").unwrap();
        assert!(from_file(&path).is_err());
    }
}
