//! The settings that are known by name beyond their own rule.

use super::cap_settings::CAPS;
use super::layout_settings::LAYOUT;
use super::setting::{Form, Heading, choices, line, texts};
use super::settings::{PLAIN, asked, described};
use super::values::command_line;
use super::{Asked, COMPOSITE, Contract, Direction, LedgerDialect, MetricSource, Setting, Tag, WordList, word_list};

/// What is measured and by what, who makes the changes, and the session's name and ledger.
pub(super) static CORE: &[Setting] = described! {
    asked!(metric: String) => {
        key: "metric", heading: Heading::Measuring, value: "NAME",
        help: "Name of the metric to improve, as the log prints it",
        comment: "The number to improve, by the name that the log prints it under.", example: "\"val_bpb\"",
        is_required: true,
        lines: |it| {
            let metric = format!("metric    {}, {} is better", it.metric.name, it.metric.direction);
            let axes = it.composite.as_ref().map(|composite| format!("axes      {composite}"));
            let artifact =
                it.artifact_form.map(|form| format!("artifact  {form} of the same axes over all that was kept"));
            [Some(metric), axes, artifact].into_iter().flatten().collect()
        },
    }

    Setting::of::<bool>() => {
        key: "lower", heading: Heading::Measuring,
        help: "Treat lower values as better [default for names such as loss, error, latency and size]",
        comment: "Lower is better.",
        excludes: Some("higher"),
        set: |asked, _| {
            asked.direction = Some(Direction::Lower);
            Ok(())
        },
        asked: |asked| switch(asked.direction == Some(Direction::Lower)),
    }

    Setting::of::<bool>() => {
        key: "higher", heading: Heading::Measuring,
        help: "Treat higher values as better",
        comment: "Higher is better; lower is the default where the name says so, as `val_loss` does.", example: "true",
        set: |asked, _| {
            asked.direction = Some(Direction::Higher);
            Ok(())
        },
        asked: |asked| switch(asked.direction == Some(Direction::Higher)),
    }

    Setting::of::<String>() => {
        key: "metric-regex", heading: Heading::Measuring, value: "REGEX",
        help: "Pattern whose one group is the value, used instead of the metric's name",
        comment: "The pattern whose one group is the number.",
        excludes: Some("metric-file"),
        lines: |it| line(pattern(&it.metric.source), |pattern| format!("pattern   {pattern}")),
        set: |asked, texts| String::read(texts).map(|pattern| asked.source = Some(MetricSource::Regex(pattern))),
        asked: |asked| texts(asked.source.as_ref().and_then(pattern)),
    }

    Setting::of::<MetricSource>() => {
        key: "metric-file", heading: Heading::Measuring, value: "PATH:/json/pointer",
        help: "JSON file that holds the value, or the object with a composite's axes, read instead of the log; also \
               JSON lines, or a CSV or TSV file with PATH:COLUMN; a pattern such as 'out/*/m.csv' is its newest file",
        comment: "The file that holds the number: m.json:/pointer, log.jsonl:/pointer or 'out/*/m.csv:column'.",
        lines: |it| line(file(&it.metric.source), |file| format!("read from {file}")),
        set: |asked, texts| MetricSource::read(texts).map(|file| asked.source = Some(file)),
        asked: |asked| texts(asked.source.as_ref().and_then(file)),
    }

    asked!(command: String) => {
        key: "cmd", heading: Heading::Measuring, value: "COMMAND",
        help: "Command that trains and measures",
        comment: "The command that trains and measures.", example: "\"uv run train.py\"",
        is_required: true,
        lines: |it| vec![format!("command   {}", it.command)],
    }

    asked!(agent: String) => {
        key: "agent", heading: Heading::Agent, value: "COMMAND",
        help: "Command that changes the code once and exits, with the prompt on standard input; or {presets}; \
               or none [default: the only one installed]",
        comment: "The command that changes the code once and exits; it reads the prompt from standard input. Or the name \
                  of a preset, or none.",
        example: "\"claude\"",
        check: command_line,
        lines: |it| {
            let agent = it.agent_text().unwrap_or_else(|| "none: an agent drives with `ar try`".into());
            vec![format!("agent     {agent}")]
        },
    }

    asked!(reviewer: Option<String>) => {
        key: "reviewer", heading: Heading::Keeping, value: "COMMAND",
        help: "Command that judges whether the number of a change was earned before it is kept, with the prompt on \
               standard input; runs in a tree of its own, $AR_ROOT is the repository; or {presets}, or none [default: none]",
        comment: "A command that judges whether a number was earned before a change is kept, or the name of a preset. \
                  It runs in a tree of its own.",
        example: "\"claude\"",
        check: command_line,
        lines: |it| line(it.reviewer.as_ref(), |command| format!("reviewer  {command}")),
    }

    asked!(tag: Tag) => {
        key: "tag", value: "TAG",
        help: "Session name; the branch is autoresearch/TAG [default: month and day]",
        comment: "The session's name.",
    }

    asked!(ledger: LedgerDialect) => {
        key: "ledger", value: "DIALECT",
        help: "Dialect of a new results.tsv [default: the one that program.md or a notebook uses, else ar]",
        comment: "The dialect of a new results.tsv, which has its columns and words.", example: "\"ar\"",
        choices: choices::<LedgerDialect>,
    }
};

/// A switch as the values of a setting.
fn switch(is_on: bool) -> Vec<String> {
    texts(is_on.then_some(&true))
}

/// The pattern of a metric.
fn pattern(source: &MetricSource) -> Option<&String> {
    match source {
        MetricSource::Regex(pattern) => Some(pattern),
        MetricSource::Log | MetricSource::File { .. } => None,
    }
}

/// The file of a metric.
fn file(source: &MetricSource) -> Option<&MetricSource> {
    Some(source).filter(|source| matches!(source, MetricSource::File { .. }))
}

/// All settings.
fn all() -> impl Iterator<Item = &'static Setting> {
    CORE.iter().chain(LAYOUT).chain(CAPS).chain(PLAIN)
}

/// All settings, in the order of the help: by heading, and first what a session cannot start without.
pub fn settings() -> Vec<&'static Setting> {
    let mut settings: Vec<_> = all().collect();
    settings.sort_by_key(|setting| (setting.heading, !setting.is_required));
    settings
}

impl Asked {
    /// The settings that are asked for, each with what is asked for by it alone.
    pub fn each(&self) -> Vec<(&'static str, Asked)> {
        let alone = |setting: &Setting| {
            let (mut alone, values) = (Asked::default(), (setting.asked)(self));
            let is_set = !values.is_empty() && (setting.set)(&mut alone, &values).is_ok();
            is_set.then_some((setting.key, alone))
        };
        all().filter_map(alone).collect()
    }

    /// The settings that are asked for, by their keys in the settings file, which are the names of their flags.
    pub fn keys(&self) -> Vec<&'static str> {
        self.each().into_iter().map(|(key, _)| key).collect()
    }
}

/// The settings that ask for a loop in so many words, unless they are 0.
static ASKING_FOR_LOOP: WordList = WordList::new(|| word_list(include_str!("lists/asking_for_loop.txt")));

impl Asked {
    /// The first setting that asks for a loop in so many words, by its key.
    pub fn asks_for_loop(&self) -> Option<&'static str> {
        let is_zero = |text: &String| text.parse() == Ok(0.0);
        let asks = |setting: &&Setting| {
            let values = (setting.asked)(self);
            setting.key == "ahead" && !values.is_empty() || values.iter().any(|value| !is_zero(value))
        };
        ASKING_FOR_LOOP.iter().copied().find(|key| all().filter(asks).any(|setting| setting.key == *key))
    }

    /// The direction of this metric: the one that is set, else lower where its name says so; none must be asked for.
    pub fn direction_of(&self, metric: &str) -> Option<Direction> {
        let is_composite = metric == COMPOSITE && self.composite.is_some();
        let by_name = || Direction::of_name(metric).map(|(direction, _)| direction);
        let known = if is_composite { Some(Direction::Higher) } else { by_name().filter(|it| *it == Direction::Lower) };
        self.direction.or(known)
    }
}

impl Contract {
    /// What is agreed on by each setting, as lines for a person.
    pub fn lines(&self) -> Vec<String> {
        all().flat_map(|setting| (setting.lines)(self)).collect()
    }

    /// Whether one of its terms ends a loop in good order some time.
    pub fn ends_loop(&self) -> bool {
        let is_set = |texts: Vec<String>| texts.iter().any(|text| text != "false");
        PLAIN.iter().any(|setting| setting.ends_loop && is_set((setting.stored)(self)))
    }
}
