//! The flags that are settings of a session, as the table of all settings describes them.

use autoresearch::agent::preset_names;
use autoresearch::domain::{Asked, Kind, Setting, Tag, WordList, settings, word_list};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

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
