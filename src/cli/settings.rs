//! Settings: flag, then variable, then `ar.toml`, then default.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use serde::de::DeserializeOwned;
use strum::VariantArray;

use autoresearch::agent::preset_names;
use autoresearch::domain::{
    Asked, COMPOSITE, Clock, Composite, EngineCommands, ExecutorName, Form, Kind, Prices, Setting, Tag, UserError,
    WordList, nearest, settings, shell_word, word_list,
};
use autoresearch::fs::read_regular;
use autoresearch::git::Repo;
pub(super) use autoresearch::session::SETTINGS_FILE;
use autoresearch::session::{Drive, LoopWish, Plan, SessionError, Wanted};

use super::error::CliError;
use super::run::ask_direction;

/// Settings from flags, the environment's variables and the settings file. An unreadable file is an error only for
/// commands that need it: an existing session uses its stored settings.
pub(super) struct Settings {
    /// The settings by source; nothing of an unreadable file.
    pub(super) wanted: Wanted,
    /// The error on reading the file.
    pub(super) trouble: Option<CliError>,
    /// True if the user at the terminal may be asked for what is missing.
    pub(super) may_ask: bool,
}

impl Settings {
    /// Reads flags, variables and the settings file in `root`.
    pub(super) fn read(flags: SettingsArgs, root: &Path) -> Result<Settings, CliError> {
        let flags = flags.0;
        let given = flags.clone().or(from_variables(variable)?);
        let (file, trouble) = match from_file(&root.join(SETTINGS_FILE)) {
            Ok(file) => (for_metric(file, given.metric.as_ref()), None),
            Err(trouble) => (Asked::default(), Some(trouble)),
        };
        Ok(Settings { wanted: Wanted { given, flags, file, take_over: false }, trouble, may_ask: false })
    }

    /// The session that the settings file names, where it is one of `sessions`.
    pub(super) fn tag_in_file(&self, sessions: &[Tag]) -> Option<Tag> {
        self.wanted.file.tag.clone().filter(|tag| sessions.contains(tag))
    }

    /// The settings of `ar run` that its agent depends on.
    pub(super) fn loop_wish(&self) -> LoopWish {
        LoopWish { may_take: true, ..wish_of(&self.wanted.all()) }
    }

    /// The same for `ar resume`: stored settings count as no new request, and no other agent is chosen.
    pub(super) fn resume_wish(&self) -> LoopWish {
        wish_of(&self.wanted.given)
    }

    /// Works out what the invocation is going to do.
    pub(super) fn plan(self, repo: Repo, drive: Drive, clock: Clock) -> Result<Plan, CliError> {
        let Settings { mut wanted, trouble, may_ask } = self;
        let root = repo.worktree().to_owned();
        let mut plan = Plan::new(repo, &wanted, drive, clock);
        if let Err(SessionError::DirectionUnclear(metric)) = &plan
            && let Some(direction) = may_ask.then(|| ask_direction(metric)).flatten()
        {
            wanted.given.direction = Some(direction);
            plan = Plan::new(Repo::discover(&root)?, &wanted, drive, clock);
        }
        match (plan, trouble) {
            (plan, None) => Ok(plan?),
            (Ok(plan), Some(trouble)) if plan.continued() => Ok(plan.note(format!("ignored ar.toml: {trouble}"))),
            // The missing setting may be in the file.
            (Ok(_) | Err(SessionError::Missing(_) | SessionError::DirectionUnclear(_)), Some(trouble)) => Err(trouble),
            (Err(error), Some(_)) => Err(error.into()),
        }
    }
}

/// The settings of a file without the direction and the place of a metric, if another metric is `given`.
fn for_metric(file: Asked, given: Option<&String>) -> Asked {
    match given.is_some_and(|given| file.metric.as_ref().is_some_and(|own| own != given)) {
        true => Asked { direction: None, source: None, ..file },
        false => file,
    }
}

fn wish_of(asked: &Asked) -> LoopWish {
    LoopWish { setting: asked.asks_for_loop(), baseline_only: asked.max_experiments == Some(0), may_take: false }
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
    let settings = Settings::read(flags, root)?;
    settings.trouble.map_or_else(|| Ok(settings.wanted.all()), Err)
}

/// The clock; `AR_CLOCK` holds it at one moment, for reproducible output, or at that in the file of an absolute path.
pub(super) fn clock() -> Result<Clock, CliError> {
    match std::env::var("AR_CLOCK") {
        Ok(path) if path.starts_with('/') => Ok(Clock::InFile(Box::leak(PathBuf::from(path).into_boxed_path()))),
        Ok(text) => text
            .parse()
            .map(Clock::Fixed)
            .map_err(|error| CliError::usage(error, "set AR_CLOCK like 2026-11-20T22:00:00Z, or not at all")),
        Err(_) => Ok(Clock::System),
    }
}

/// Returns whether this invocation comes from an agent that the loop called for one change.
pub(super) fn called_by_loop() -> bool {
    std::env::var_os("AR_PROPOSAL").is_some_and(|file| !file.is_empty())
}

/// The values of one setting as a layer gives them, and what to call them in an error.
struct GivenValues {
    setting: &'static Setting,
    values: Vec<String>,
    called: String,
}

/// The character between the values of a setting in a variable. Globs are separated by colons, as paths are in other
/// variables. Other values may contain colons, so each has its own line.
fn separator(setting: &Setting) -> char {
    if setting.value == "GLOB" { ':' } else { '\n' }
}

/// Reads each setting from the variable that is named after its flag.
fn from_variables(get: impl Fn(&str) -> Option<OsString>) -> Result<Asked, CliError> {
    let hint = "unset it or correct it";
    let mut layer = Vec::new();
    for setting in settings() {
        let name = setting.variable();
        let Some(value) = get(&name).filter(|value| !value.is_empty()) else { continue };
        let called = format!("the variable {name}");
        let value =
            value.into_string().map_err(|_| CliError::new(format!("{called} is not UTF-8"), Some(hint.into())))?;
        let values = match setting.is_list {
            true => value.split(separator(setting)).filter(|value| !value.is_empty()).map(str::to_owned).collect(),
            false => vec![value],
        };
        layer.push(GivenValues { setting, values, called });
    }
    asked_by(layer, hint)
}

/// Reads the settings file; `max_experiments` and `max-experiments` are the same setting.
fn from_file(path: &Path) -> Result<Asked, CliError> {
    let text = match read_regular(path).and_then(|text| String::from_utf8(text).map_err(io::Error::other)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Asked::default()),
        Err(error) => {
            let hint = format!("run `ls -l {}` to see what it is", shell_word(path));
            return Err(CliError::new(format!("cannot read {}: {error}", path.display()), Some(hint)));
        }
    };
    let hint = "for an example, run `cd \"$(mktemp -d)\" && git init --quiet && ar init && cat ar.toml`";
    let trouble = |what: String| CliError::new(format!("{}: {what}", path.display()), Some(hint.into()));
    let mut table: toml::Table =
        text.parse().map_err(|error: toml::de::Error| trouble(error.to_string().trim_end().to_owned()))?;
    let prices: Option<Prices> = table.remove(PRICES).map(|prices| part_of(prices, PRICES, trouble)).transpose()?;
    if let Some((model, _)) = prices.iter().flatten().find(|(_, price)| !price.is_valid()) {
        return Err(trouble(format!("`{PRICES}`: the prices of {model} must be 0 or more")));
    }
    let composite = table.remove(COMPOSITE).map(|composite| composite_of(composite, path)).transpose()?;
    let engine = table.get(EXECUTOR).is_some_and(toml::Value::is_table).then(|| table.remove(EXECUTOR)).flatten();
    let engine: Option<EngineCommands> =
        engine.map(|engine| part_of(engine, &format!("[{EXECUTOR}]"), trouble)).transpose()?;
    if table.get(HOLDOUT).is_some_and(toml::Value::is_table)
        && let Some(toml::Value::Table(split)) = table.remove(HOLDOUT)
    {
        table.extend(split.into_iter().map(|(key, value)| match key.as_str() {
            "cmd" => (HOLDOUT.to_owned(), value),
            "hide" => (key, value),
            key if key.starts_with(HOLDOUT) => (key.to_owned(), value),
            _ => (format!("{HOLDOUT}-{key}"), value),
        }));
    }
    let all = settings();
    let mut layer = Vec::new();
    for (key, value) in table {
        let name = key.replace('_', "-");
        let Some(setting) = all.iter().find(|setting| setting.key == name || setting.key_in_file == name) else {
            let known: Vec<_> = all.iter().map(|setting| setting.file_key().to_owned()).collect();
            let meant = nearest(&name, &known).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
            let hint = format!("the settings are {}{meant}", known.join(", "));
            return Err(CliError::new(format!("{}: unknown setting `{key}`", path.display()), Some(hint)));
        };
        let values = match value {
            toml::Value::Array(values) if setting.is_list => values,
            value => vec![value],
        };
        let text = |value: toml::Value| match value {
            toml::Value::String(text) => Ok(text),
            toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_) => Ok(value.to_string()),
            _ if setting.is_list => Err(trouble(format!("`{key}` must be a list of texts"))),
            _ => Err(trouble(format!("`{key}` must be a text, a number, true or false"))),
        };
        let values = values.into_iter().map(text).collect::<Result<_, _>>()?;
        layer.push(GivenValues { setting, values, called: format!("{key} in {}", path.display()) });
    }
    let executor = engine.as_ref().map(|_| ExecutorName::Commands);
    let asked = asked_by(layer, hint)?;
    Ok(Asked { prices, composite, engine, executor: executor.or(asked.executor), ..asked })
}

/// The table of the settings file that has the commands of an engine. As a text, the same key names an executor.
const EXECUTOR: &str = "executor";

/// The table of the settings file that has the terms of a hidden split. As a text, the same key is its command.
const HOLDOUT: &str = "holdout";

/// The table of the settings file that has the prices of models.
const PRICES: &str = "prices";

/// Reads a table of the settings file, called by `name` in an error.
fn part_of<T: DeserializeOwned>(
    table: toml::Value,
    name: &str,
    trouble: impl Fn(String) -> CliError,
) -> Result<T, CliError> {
    table.try_into().map_err(|error: toml::de::Error| trouble(format!("`{name}`: {}", error.message())))
}

/// Reads the axes and their form.
fn composite_of(table: toml::Value, path: &Path) -> Result<Composite, CliError> {
    let hint = "write a table for each axis, as in `[composite.axes.novelty]`, with `weight` and optionally `floor` and `range`";
    let wrong = |what: String, hint: &str| {
        CliError::new(format!("{}: `{COMPOSITE}`: {what}", path.display()), Some(hint.to_owned()))
    };
    if let Some(form) = table.get("form")
        && let Err(error) = form.clone().try_into::<Form>()
    {
        let word = form.as_str().unwrap_or_default();
        let forms: Vec<String> = Form::VARIANTS.iter().map(Form::to_string).collect();
        let meant = nearest(word, &forms).map(|meant| format!("did you mean form = \"{meant}\"? ")).unwrap_or_default();
        return Err(wrong(error.message().to_owned(), &format!("{meant}the forms are {}", forms.join(", "))));
    }
    let composite: Composite =
        table.try_into().map_err(|error: toml::de::Error| wrong(error.message().to_owned(), hint))?;
    let refused = |error: UserError| wrong(error.to_string(), error.hint.as_deref().unwrap_or_default());
    composite.clone().settled().map_err(refused)?;
    Ok(composite)
}

/// The settings that one layer asks for.
fn asked_by(layer: Vec<GivenValues>, hint: &str) -> Result<Asked, CliError> {
    let trouble = |what: String| CliError::new(what, Some(hint.to_owned()));
    let mut asked = Asked::default();
    let mut names: Vec<(&str, &str)> = Vec::new();
    for GivenValues { setting, values, called } in &layer {
        let values = match setting.kind {
            Kind::Switch | Kind::OnOff => match values.last().map_or("", String::as_str) {
                "0" | "false" | "no" if setting.kind == Kind::Switch => continue,
                "0" | "false" | "no" => vec!["false".to_owned()],
                "1" | "true" | "yes" => vec!["true".to_owned()],
                _ => return Err(trouble(format!("{called} must be true or false"))),
            },
            _ => values.clone(),
        };
        for value in &values {
            let wrong = |why| trouble(format!("{called}: invalid value '{value}': {why}"));
            setting.accept(value).map_err(wrong)?;
        }
        if !values.is_empty() {
            (setting.set)(&mut asked, &values).map_err(|why| trouble(format!("{called}: {why}")))?;
            names.push((setting.key, called));
        }
    }
    let called = |key: &str| names.iter().find(|(name, _)| *name == key).map(|(_, called)| *called);
    for GivenValues { setting, called: one, .. } in &layer {
        if let (Some(_), Some(other)) = (called(setting.key), setting.excludes.and_then(called)) {
            return Err(trouble(format!("these contradict each other: {one}, {other}")));
        }
    }
    Ok(asked)
}

/// The settings of a session: flag, then variable (`AR_METRIC`), then `ar.toml`, then default.
#[derive(Debug, Clone, Default)]
pub(super) struct SettingsArgs(pub(super) Asked);

impl Args for SettingsArgs {
    fn augment_args(command: Command) -> Command {
        settings().into_iter().map(flag).fold(command, Command::arg)
    }

    fn augment_args_for_update(command: Command) -> Command {
        SettingsArgs::augment_args(command)
    }
}

impl FromArgMatches for SettingsArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut settings = SettingsArgs::default();
        settings.update_from_arg_matches(matches)?;
        Ok(settings)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for setting in settings() {
            let values: Vec<String> = match setting.kind {
                Kind::Switch => matches.get_flag(setting.key).then(|| "true".to_owned()).into_iter().collect(),
                _ => matches.get_many(setting.key).into_iter().flatten().cloned().collect(),
            };
            if !values.is_empty() {
                (setting.set)(&mut self.0, &values)
                    .map_err(|error| clap::Error::raw(clap::error::ErrorKind::ValueValidation, error))?;
            }
        }
        Ok(())
    }
}

/// The settings that people use, which `-h` shows; `--help` shows all.
static IN_SHORT_HELP: WordList = WordList::new(|| word_list(include_str!("lists/short_help.txt")));

/// The flag of a setting.
fn flag(setting: &'static Setting) -> Arg {
    let flag = Arg::new(setting.key)
        .long(setting.key)
        .help(setting.help.replace("{presets}", &preset_names()))
        .help_heading(setting.heading.to_string())
        .hide_short_help(!IN_SHORT_HELP.contains(&setting.key));
    let flag = setting.excludes.into_iter().fold(flag, Arg::conflicts_with);
    if setting.kind == Kind::Switch {
        return flag.action(ArgAction::SetTrue);
    }
    let action = if setting.is_list { ArgAction::Append } else { ArgAction::Set };
    let flag = flag
        .value_name(setting.value)
        .action(action)
        .allow_hyphen_values(setting.is_of_options)
        .allow_negative_numbers(matches!(setting.kind, Kind::Whole | Kind::Float));
    if setting.key == "tag" {
        // The type of its error is what its hint goes by.
        return flag.value_parser(|text: &str| text.parse::<Tag>().map(|_| text.to_owned()));
    }
    let choices = (setting.choices)();
    if choices.is_empty() {
        return flag.value_parser(|text: &str| setting.accept(text).map(|()| text.to_owned()));
    }
    let choices = choices.into_iter().map(|(name, help)| PossibleValue::new(name).help(help));
    flag.value_parser(PossibleValuesParser::new(choices))
}

/// A file for a chart; its extension says as what.
pub(super) fn chart_file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    is_png(&path).map(|_| path).ok_or_else(|| "a chart is written as .svg or .png".into())
}

/// Returns whether a chart is a PNG rather than an SVG; `None` where its name does not say.
pub(super) fn is_png(chart: &Path) -> Option<bool> {
    match chart.extension()?.to_str()?.to_lowercase().as_str() {
        "svg" => Some(false),
        "png" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use jiff::Timestamp;

    use autoresearch::domain::{CommitId, Contract, Direction, Heading, MetricSource, MetricSpec};

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
        assert_eq!((settings.max_experiments, settings.direction), (Some(5), Some(Direction::Higher)));
        assert_eq!(settings.metric, None);
        assert!(from_variables(|name| (name == "AR_TIMEOUT").then(|| "soon".into())).is_err());
    }

    /// A value of a setting, as a line of the settings file has it.
    fn sample(setting: &Setting) -> String {
        match (setting.key, setting.kind) {
            ("metric-file", _) => "\"m.json:/a\"".into(),
            (_, Kind::Switch) => "true".into(),
            _ if setting.example.is_empty() => "\"t\"".into(),
            _ => setting.example.into(),
        }
    }

    #[test]
    fn every_setting_is_a_flag_a_variable_a_key_a_line_of_the_template_and_a_term() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(SETTINGS_FILE);
        let command = super::super::args::program();
        let run = command.find_subcommand("run").unwrap();
        let template = super::super::init::settings_text(&Asked::default());
        for setting in settings() {
            let key = setting.key;
            let flag = run.get_arguments().find(|argument| argument.get_long() == Some(key)).unwrap();
            assert!(flag.get_help().is_some() && flag.get_help_heading().is_some(), "{key}");
            fs::write(&path, format!("{key} = {}\n", sample(setting))).unwrap();
            let asked = from_file(&path).unwrap_or_else(|error| panic!("{key}: {error:?}"));
            let values = (setting.asked)(&asked);
            assert!(!values.is_empty() && asked.keys().contains(&key), "{key}");
            let of_variables =
                from_variables(|name| (name == setting.variable()).then(|| values.join(":").into())).unwrap();
            assert_eq!((setting.asked)(&of_variables), values, "{key}");
            // A setting that `ar init` writes is read back unchanged.
            fs::write(&path, format!("{} = {}\n", setting.file_key(), setting.toml(&asked).unwrap())).unwrap();
            assert_eq!((setting.asked)(&from_file(&path).unwrap()), values, "{key}");
            assert!(!setting.help.ends_with('.'), "{key}");
            let is_listed = |(name, help)| template.contains(&format!("#   {name}: {help}\n"));
            assert!((setting.choices)().into_iter().all(is_listed), "{key}");
            let direction = if key == "lower" { Direction::Higher } else { Direction::Lower };
            let metric = MetricSpec { name: "m".into(), direction, source: MetricSource::Log };
            let start = CommitId::new("1a2b3c4d5e6f");
            let contract = Contract::new("t".parse().unwrap(), metric, "c".into(), start, Timestamp::UNIX_EPOCH);
            let over = asked.over(contract.clone());
            let stored = (setting.stored)(&over);
            // Name and dialect stay what they were when the session began, and slots are no term of the contract.
            let is_taken = stored == values
                || stored.is_empty() && over != contract
                || ["tag", "ledger"].contains(&key)
                || setting.heading == Heading::Slots;
            assert!(is_taken, "{key}: {stored:?}");
        }
    }

    #[test]
    fn flags_come_before_variables_and_those_before_the_file() {
        let layer = |cmd: Option<&str>, metric: Option<&str>| Asked {
            command: cmd.map(Into::into),
            metric: metric.map(Into::into),
            ..Default::default()
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
        let settings = from_file(&path).unwrap();
        assert_eq!(settings.prices, None);
        assert_eq!((settings.max_experiments, settings.min_delta), (Some(3), Some(0.5.into())));
        assert_eq!(settings.timeout, Some(Duration::from_secs(120)));
        assert_eq!(settings.budget, Some(Duration::from_secs(28800)));
        let prices = |text: &str| {
            fs::write(&path, text).unwrap();
            from_file(&path).map(|settings| settings.prices.unwrap()["a/b"])
        };
        let price = prices("metric = \"m\"\n[prices.\"a/b\"]\ninput = 1\noutput = 2.5\n").unwrap();
        assert_eq!((price.input, price.output, price.cached), (1.0, 2.5, None));
        for wrong in
            ["input = 1", "input = -1\noutput = 1", "input = 1\noutput = 1\nall = 2", "input = \"1\"\noutput = 2"]
        {
            assert!(prices(&format!("[prices.\"a/b\"]\n{wrong}\n")).is_err(), "{wrong}");
        }
        let composite = |text: &str| {
            fs::write(&path, format!("[composite]\n{text}")).unwrap();
            from_file(&path).map(|settings| settings.composite.unwrap())
        };
        let axes = composite("form = \"v2\"\n[composite.axes.novelty]\nweight = 2\n").unwrap();
        assert_eq!(axes.to_string(), "v2 of novelty 2", "weights are brought to 1 where the session begins");
        for wrong in ["form = \"mean\"", "", "[composite.axes.a]\nweight = -1\n", "[composite.axes.a]\nwight = 1\n"] {
            assert!(composite(wrong).is_err(), "{wrong}");
        }
        fs::write(&path, "metrik = \"m\"\n").unwrap();
        assert!(from_file(&path).is_err());
    }

    #[test]
    fn a_chart_is_what_its_extension_says() {
        let is_png = |text: &str| is_png(&chart_file(text).ok()?);
        assert_eq!(
            ["a.svg", "b/c.PNG", "a.pdf", "svg", ".png"].map(is_png),
            [Some(false), Some(true), None, None, None]
        );
    }
}
