//! The description of a setting, from which its flag, variable, key of `ar.toml`, template and confirmation are made.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use jiff::civil::Time;
use strum::{EnumMessage, VariantArray};

use super::setting_values::{duration, finite, time_of_day, whole};
use super::{
    Asked, Cadence, Carry, Contract, Decide, Draw, Escalate, ExecutorName, GpuChoice, Ladder, LedgerDialect, Limit,
    MetricSource, Sandbox, SizeLimit, StopRule, Tag, Target, VerifyFor, duration_text, time_of_day_text,
};

/// The value that turns off a setting whose default is off.
const NONE: &str = "none";

/// The heading that a flag has in the help, in the order of the help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::Display)]
pub enum Heading {
    /// Measuring experiments.
    Measuring,
    /// Calling the agent, and its prompt.
    Agent,
    /// Keeping experiments.
    Keeping,
    /// Limits on changes.
    Changes,
    /// When the loop stops.
    Stopping,
    /// Slots and GPUs for parallel work.
    #[strum(to_string = "Slots and GPUs")]
    Slots,
    /// The session itself.
    Session,
}

/// The form of a setting's value in TOML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// In quotes.
    Text,
    /// A whole number.
    Whole,
    /// A number that may have a fraction.
    Float,
    /// `true`; the flag takes no value.
    Switch,
    /// `true` or `false`, for what is on by default.
    OnOff,
}

/// The values that a setting takes, each with its help; empty where there are too many to list.
type Choices = fn() -> Vec<(String, &'static str)>;

/// A setting. Flag, variable, key of `ar.toml`, template and confirmation are made from it.
#[derive(Debug)]
pub struct Setting {
    /// The name of its flag and its key in `ar.toml`; its variable is `AR_` and the same in capitals.
    pub key: &'static str,
    /// Its key in `ar.toml` where that is the plural of its flag; else empty.
    pub key_in_file: &'static str,
    /// The place of its flag in the help.
    pub heading: Heading,
    /// The name of its value in the help.
    pub value: &'static str,
    /// The help of its flag; `{presets}` stands for the names of the known agents.
    pub help: &'static str,
    /// An addition to the help, for the template of `ar.toml`.
    pub note: &'static str,
    /// The value in that line while none was given, as TOML; empty where the line is left out then.
    pub example: &'static str,
    /// Its name in a comparison of two contracts; absent if it may change within a session.
    pub fixed: Option<&'static str>,
    /// True if a session cannot start without it.
    pub is_required: bool,
    /// True if its value may begin with a hyphen, as options of another program do.
    pub is_of_options: bool,
    /// True if it ends a loop normally at some point.
    pub ends_loop: bool,
    /// The setting that it contradicts.
    pub excludes: Option<&'static str>,
    /// Refuses a value that its type allows.
    pub check: fn(&str) -> Result<(), String>,
    /// The lines that show it before a session starts.
    pub lines: fn(&Contract) -> Vec<String>,

    // The fields below follow from the type of the value.
    /// The form of its value in TOML.
    pub kind: Kind,
    /// True if it can be given several times.
    pub is_list: bool,
    /// The values that it takes.
    pub choices: Choices,
    /// Reads one value, and drops it.
    pub(super) parse: fn(&str) -> Result<(), String>,
    /// Puts values into what is asked for.
    pub set: fn(&mut Asked, &[String]) -> Result<(), String>,
    /// Its values in what is asked for.
    pub asked: fn(&Asked) -> Vec<String>,
    /// Its values in a contract; none of a setting that is no term, or known by name beyond its own rule.
    pub stored: fn(&Contract) -> Vec<String>,
}

impl Setting {
    /// A setting whose values have this form, for the table to complete.
    pub(super) const fn of<F: Form>() -> Self {
        Setting {
            key: "",
            key_in_file: "",
            heading: Heading::Session,
            value: "",
            help: "",
            note: "",
            example: "",
            fixed: None,
            is_required: false,
            is_of_options: false,
            ends_loop: false,
            excludes: None,
            check: |_| Ok(()),
            lines: |_| Vec::new(),
            kind: F::KIND,
            is_list: F::IS_LIST,
            choices: F::CHOICES,
            parse: |text| F::read(&[text.to_owned()]).map(drop),
            set: |_, _| Ok(()),
            asked: |_| Vec::new(),
            stored: |_| Vec::new(),
        }
    }

    /// The name of its environment variable.
    pub fn variable(&self) -> String {
        format!("AR_{}", self.key.to_uppercase().replace('-', "_"))
    }

    /// The key that a template of `ar.toml` has for it.
    pub fn file_key(&self) -> &'static str {
        if self.key_in_file.is_empty() { self.key } else { self.key_in_file }
    }

    /// Refuses what is not a value of it.
    pub fn accept(&self, text: &str) -> Result<(), String> {
        (self.parse)(text).and_then(|()| (self.check)(text))
    }

    /// The right side of its line in `ar.toml`; absent where it was not asked for.
    pub fn toml(&self, asked: &Asked) -> Option<String> {
        let values = (self.asked)(asked);
        let first = values.first()?.clone();
        let quoted = |text| toml::Value::String(text);
        Some(match self.kind {
            _ if self.is_list => toml::Value::Array(values.into_iter().map(quoted).collect()).to_string(),
            Kind::Text => quoted(first).to_string(),
            // With a point, so that it is no whole number.
            Kind::Float => match first.parse::<f64>() {
                Ok(number) => format!("{number:?}"),
                Err(_) => quoted(first).to_string(),
            },
            Kind::Whole | Kind::Switch | Kind::OnOff => first,
        })
    }
}

/// A value that is written as one text.
pub(super) trait Value: Sized {
    /// The form of the value in TOML.
    const KIND: Kind;
    /// All values.
    const CHOICES: Choices = Vec::new;

    /// Reads it as a user writes it.
    fn parse(text: &str) -> Result<Self, String>;

    /// Writes it as it is read.
    fn text(&self) -> String;
}

/// Implements [`Value`] for types, each with its kind and the functions that read and write it.
macro_rules! values {
    ($($type:ty: $kind:ident, $parse:expr, $text:expr;)*) => { $(impl Value for $type {
        const KIND: Kind = Kind::$kind;

        fn parse(text: &str) -> Result<Self, String> {
            $parse(text)
        }

        fn text(&self) -> String {
            $text(self)
        }
    })* };
}

values! {
    String: Text, parsed, String::clone;
    Tag: Text, parsed, Tag::to_string;
    PathBuf: Text, parsed, |path: &PathBuf| path.display().to_string();
    GpuChoice: Text, parsed, GpuChoice::to_string;
    Limit: Text, parsed, Limit::to_string;
    SizeLimit: Text, parsed, SizeLimit::to_string;
    VerifyFor: Text, parsed, VerifyFor::to_string;
    StopRule: Text, parsed, StopRule::to_string;
    Cadence: Text, parsed, Cadence::to_string;
    Draw: Text, parsed, Draw::to_string;
    u32: Whole, whole, u32::to_string;
    u64: Whole, whole, u64::to_string;
    f64: Float, finite, f64::to_string;
    Target: Float, parsed, Target::to_string;
    bool: Switch, switch, bool::to_string;
    Duration: Text, duration, |value: &Duration| duration_text(*value);
    Time: Text, time_of_day, |value: &Time| time_of_day_text(*value);
    MetricSource: Text, metric_file, MetricSource::to_string;
}

/// A value that `none` turns off.
impl<T: Value> Value for Option<T> {
    const KIND: Kind = T::KIND;

    fn parse(text: &str) -> Result<Self, String> {
        if text.trim() == NONE {
            Ok(None)
        } else {
            T::parse(text).map(Some).map_err(|error| format!("{error}, or {NONE}"))
        }
    }

    fn text(&self) -> String {
        self.as_ref().map_or_else(|| NONE.to_owned(), T::text)
    }
}

fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn switch(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "must be true or false".into())
}

/// Reads the file that holds the metric, and where in it: `out.json:/final/loss`, `metrics.csv:val_loss`.
fn metric_file(text: &str) -> Result<MetricSource, String> {
    let is_whole = |path: &str| [".csv", ".tsv", ".json", ".jsonl"].iter().any(|end| path.ends_with(end));
    let by_column = || text.split_once(':').filter(|(path, _)| is_whole(path));
    let by_pointer = || text.find(":/").map(|at| (&text[..at], &text[at + 1..]));
    let (path, pointer) = by_column().or_else(by_pointer).unwrap_or((text, ""));
    if path.is_empty() {
        return Err("write the file and a JSON pointer or a column, as in out.json:/loss or out.csv:loss".into());
    }
    Ok(MetricSource::File { path: path.into(), pointer: pointer.into() })
}

/// The help of a choice: its comment, or a message where that would be no text for rustdoc.
fn help_of(choice: &impl EnumMessage) -> Option<&'static str> {
    choice.get_message().or(choice.get_documentation())
}

/// Implements [`Value`] for types with few values, each with a name and a help.
macro_rules! choices {
    ($($type:ty)*) => { $(impl Value for $type {
        const KIND: Kind = Kind::Text;
        const CHOICES: Choices =
            || Self::VARIANTS.iter().map(|it| (it.to_string(), help_of(it).unwrap_or_default())).collect();

        fn parse(text: &str) -> Result<Self, String> {
            let names = || (<Self as Value>::CHOICES)().into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
            text.parse().map_err(|_| format!("must be one of {}", names()))
        }

        fn text(&self) -> String {
            self.to_string()
        }
    })* };
}

choices! { LedgerDialect Ladder Escalate Sandbox Carry Decide ExecutorName }

/// The values given for one setting: one, or a list.
pub(super) trait Form: Sized {
    /// The form of a value in TOML.
    const KIND: Kind;
    /// True if several can be given.
    const IS_LIST: bool;
    /// All values.
    const CHOICES: Choices;

    /// Reads the values; where only one is allowed, the last counts.
    fn read(texts: &[String]) -> Result<Self, String>;

    /// Its values, as they are read.
    fn texts(&self) -> Vec<String>;
}

impl<T: Value> Form for T {
    const KIND: Kind = T::KIND;
    const IS_LIST: bool = false;
    const CHOICES: Choices = T::CHOICES;

    fn read(texts: &[String]) -> Result<Self, String> {
        T::parse(texts.last().map_or("", String::as_str))
    }

    fn texts(&self) -> Vec<String> {
        vec![self.text()]
    }
}

impl<T: Value> Form for Vec<T> {
    const KIND: Kind = T::KIND;
    const IS_LIST: bool = true;
    const CHOICES: Choices = T::CHOICES;

    fn read(texts: &[String]) -> Result<Self, String> {
        texts.iter().map(|text| T::parse(text)).collect()
    }

    fn texts(&self) -> Vec<String> {
        self.iter().map(T::text).collect()
    }
}

/// The field of a contract that holds what is asked for by a setting.
pub(super) trait ContractField<A> {
    /// Replaces it.
    fn take(&mut self, asked: A);

    /// Returns its value.
    fn held(&self) -> Option<&A>;
}

impl<A> ContractField<A> for A {
    fn take(&mut self, asked: A) {
        *self = asked;
    }

    fn held(&self) -> Option<&A> {
        Some(self)
    }
}

impl<A> ContractField<A> for Option<A> {
    fn take(&mut self, asked: A) {
        *self = Some(asked);
    }

    fn held(&self) -> Option<&A> {
        self.as_ref()
    }
}

/// The values of what may be absent, as they are read.
pub(super) fn texts<A: Form>(value: Option<&A>) -> Vec<String> {
    value.map(A::texts).unwrap_or_default()
}

/// Replaces a field by what is asked for, if something is.
pub(super) fn take<A>(field: &mut impl ContractField<A>, asked: Option<A>) {
    if let Some(asked) = asked {
        field.take(asked);
    }
}

/// The values of a contract's field, as they are read.
pub(super) fn stored<A: Form>(field: &impl ContractField<A>) -> Vec<String> {
    texts(field.held())
}

/// The value of a contract's field, unless it is the `default`.
pub(super) fn set<'a, A: 'a, F: ContractField<A> + PartialEq>(field: &'a F, default: &F) -> Option<&'a A> {
    field.held().filter(|_| field != default)
}

/// The line for what is set, if it is.
pub(super) fn line<T>(set: Option<T>, text: impl FnOnce(T) -> String) -> Vec<String> {
    set.map(text).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_file_has_a_path_and_a_pointer() {
        let read = |text| metric_file(text).map(|source| source.to_string());
        assert_eq!(read("out/m.json:/a/b"), Ok("out/m.json:/a/b".into()));
        let file = metric_file("out/m.json:/a/b");
        assert_eq!(file, Ok(MetricSource::File { path: "out/m.json".into(), pointer: "/a/b".into() }));
        let whole = metric_file("m.json");
        assert_eq!(whole, Ok(MetricSource::File { path: "m.json".into(), pointer: String::new() }));
        let column = |text| metric_file(text).map(|source| source.to_string().replace(':', " "));
        assert_eq!(column("out/*/m.csv:val/loss"), Ok("out/*/m.csv val/loss".into()));
        assert_eq!(column("m.tsv:a:b"), Ok("m.tsv a b".into()));
        assert_eq!(column("m.json:loss"), Ok("m.json loss".into()));
        assert!(read(":/a").is_err());
    }
}
