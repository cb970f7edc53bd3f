//! What a user asks for, as the table of settings makes it.

use super::settings::ALL;
use super::{Asked, COMPOSITE, Direction, Setting, WordList, word_list};

/// Declares [`Asked`], [`Caps`](super::Caps), [`Contract`](super::Contract) and [`ALL`] by the table of all settings.
macro_rules! table {
    (
        asked {$(
            $key:literal $value:literal in $heading:ident $(for $field:ident)?: $asked:ty {
                $($part:ident: $it:expr),* $(,)?
            };
        )*}
        caps {$(
            $(#[$cap_meta:meta])*
            $cap_key:literal $cap_value:literal in $cap_heading:ident for $cap:ident: $cap_asked:ty as $cap_held:ty {
                $($cap_part:ident: $cap_it:expr),* $(,)?
            } |$cap_set:pat_param| $cap_line:expr;
        )*}
        terms {$(
            $(#[$meta:meta])*
            $term_key:literal $term_value:literal in $term_heading:ident
                for $term:ident: $term_asked:ty as $held:ty $(, $natural:ident)? $(= $default:expr,)? {
                $($term_part:ident: $term_it:expr),* $(,)?
            } $(|$term_set:pat_param $(, $all:ident)?| $term_line:expr)?;
        )*}
    ) => {
        /// A session's terms, stored with it as `state/contract.json`.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub struct Contract {
            /// The format's version.
            pub version: u32,
            /// The session.
            pub tag: Tag,
            /// The metric, its direction and where it stands.
            pub metric: MetricSpec,
            /// The measuring command, for `sh -c` in the root of the working tree.
            pub command: String,
            /// The agent's command line; absent when an agent drives by itself with `ar try`.
            pub agent: Option<String>,
            /// The name of the preset that the command line is, where it is one.
            #[serde(default)]
            pub agent_preset: Option<String>,
            /// Whether the user asked for no agent, so that none is taken.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            pub no_agent: bool,
            /// The command line of the reviewer, who judges each change before it is kept.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub reviewer: Option<String>,
            /// The dialect of a new results.tsv.
            pub ledger: LedgerDialect,
            /// What models cost, for agents that report only tokens.
            #[serde(default, skip_serializing_if = "Prices::is_empty")]
            pub prices: Prices,
            /// The axes of each experiment and what they are together, where there are some.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub composite: Option<Composite>,
            /// The form in which the axes of the artifact are put together; absent where it has no composite of its own.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub artifact_form: Option<crate::domain::Form>,
            /// What ends runs and calls before their time limits, and how long a file may get.
            #[serde(default, skip_serializing_if = "is_default")]
            pub caps: Caps,
            $(
                $(#[$meta])*
                $(#[serde($natural, skip_serializing_if = "is_default")])?
                #[expect(missing_docs, reason = "its help says what it is")]
                pub $term: $held,
            )*
            /// The commit that the session started from.
            pub start: CommitId,
            /// The branch that the session started from, as a full ref name; absent for a detached HEAD.
            pub started_from: Option<String>,
            /// The session before, on whose branch the user committed what this one starts from.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub follows: Option<Follows>,
            /// When the session was opened.
            #[serde(with = "crate::domain::millis")]
            pub created: Timestamp,
            /// Whether it was made of another tool's ledger: there is no command, and nothing goes on from it.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            pub imported: bool,
            /// Unknown fields, from a newer version.
            #[serde(flatten)]
            pub more: Map<String, Value>,
        }

        impl Contract {
            /// The contract of a session for which nothing was asked but what it cannot be without.
            pub fn new(tag: Tag, metric: MetricSpec, command: String, start: CommitId, created: Timestamp) -> Self {
                Contract {
                    version: CONTRACT_VERSION,
                    tag,
                    metric,
                    command,
                    agent: None,
                    agent_preset: None,
                    no_agent: false,
                    reviewer: None,
                    ledger: LedgerDialect::default(),
                    prices: Prices::new(),
                    composite: None,
                    artifact_form: None,
                    caps: Caps::default(),
                    $($term: default::$term(),)*
                    start,
                    started_from: None,
                    follows: None,
                    created,
                    imported: false,
                    more: Map::new(),
                }
            }
        }

        /// What each term is by default.
        mod default {
            use super::*;

            $(pub(super) fn $term() -> $held { or_default!($($default)?) })*
        }

        /// Optional limits: those that end a run or a call before its time limit, that on the length of a file, and those that
        /// end the session before the night.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        #[expect(missing_docs, reason = "their help says what they are")]
        pub struct Caps {
            $($(#[$cap_meta])* #[serde(skip_serializing_if = "Option::is_none")] pub $cap: Option<$cap_held>,)*
        }

        /// The terms that the user gave, wherever they came from; what is absent is stored or has a default.
        #[derive(Debug, Clone, Default)]
        #[expect(missing_docs, reason = "the fields are those of the contract")]
        pub struct Asked {
            pub direction: Option<Direction>,
            pub source: Option<MetricSource>,
            pub prices: Option<Prices>,
            pub composite: Option<Composite>,
            pub engine: Option<EngineCommands>,
            $($(pub $field: Option<$asked>,)?)*
            $(pub $cap: Option<$cap_asked>,)*
            $(pub $term: Option<$term_asked>,)*
        }

        impl Asked {
            /// What is asked for here, and where nothing is what `other` asks for.
            pub fn or(self, other: Asked) -> Asked {
                Asked {
                    direction: self.direction.or(other.direction),
                    source: self.source.or(other.source),
                    prices: self.prices.or(other.prices),
                    composite: self.composite.or(other.composite),
                    engine: self.engine.or(other.engine),
                    $($($field: self.$field.or(other.$field),)?)*
                    $($cap: self.$cap.or(other.$cap),)*
                    $($term: self.$term.or(other.$term),)*
                }
            }

            /// The terms of `contract` with those that are asked for in their place. Tag and dialect stay.
            pub fn over(&self, mut contract: Contract) -> Contract {
                let asked = self.clone();
                let metric = &mut contract.metric;
                take(&mut metric.name, asked.metric);
                take(&mut metric.direction, asked.direction);
                take(&mut metric.source, asked.source);
                take(&mut contract.command, asked.command);
                if let Some(agent) = asked.agent { (contract.agent, contract.agent_preset) = (Some(agent), None); }
                take(&mut contract.reviewer, asked.reviewer);
                take(&mut contract.prices, asked.prices);
                take(&mut contract.composite, asked.composite);
                $(take(&mut contract.caps.$cap, asked.$cap);)*
                $(take(&mut contract.$term, asked.$term);)*
                contract
            }
        }

        /// All settings.
        pub(super) static ALL: &[Setting] = &[
            $(setting!($key $value $heading $asked, $($field)?; $($part: $it,)*),)*
            $(setting!(
                $cap_key $cap_value $cap_heading $cap_asked, $cap;
                $($cap_part: $cap_it,)*
                stored: |contract| texts(contract.caps.$cap.as_ref()),
                lines: |contract| line(contract.caps.$cap.as_ref(), |$cap_set| $cap_line),
            ),)*
            $(setting!(
                $term_key $term_value $term_heading $term_asked, $term;
                $($term_part: $term_it,)*
                stored: |contract| stored::<$term_asked>(&contract.$term),
                $(lines: |contract| {
                    $(let $all = contract;)?
                    line(set::<$term_asked, _>(&contract.$term, &default::$term()), |$term_set| $term_line)
                },)?
            ),)*
        ];
    };
}

/// A setting of a table's entry, with the field of [`Asked`] where it has one.
macro_rules! setting {
    ($key:literal $value:literal $heading:ident $asked:ty, $($field:ident)?; $($part:ident: $it:expr,)*) => {
        Setting {
            key: $key,
            value: $value,
            heading: Heading::$heading,
            $(
                set: |asked, texts| <$asked as Form>::read(texts).map(|value| asked.$field = Some(value)),
                asked: |asked| texts(asked.$field.as_ref()),
            )?
            $($part: $it,)*
            ..Setting::of::<$asked>()
        }
    };
}

/// What a term is by default.
macro_rules! or_default {
    () => {
        Default::default()
    };
    ($default:expr) => {
        $default
    };
}

pub(super) use {or_default, setting, table};

/// Returns whether a contract omits a term.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// All settings, in the order of the help: by heading, and first what a session cannot start without.
pub fn settings() -> Vec<&'static Setting> {
    let mut settings: Vec<_> = ALL.iter().collect();
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
        ALL.iter().filter_map(alone).collect()
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
        ASKING_FOR_LOOP.iter().copied().find(|key| ALL.iter().filter(asks).any(|setting| setting.key == *key))
    }

    /// The direction of this metric: the one that is set, else lower where its name says so; none must be asked for.
    pub fn direction_of(&self, metric: &str) -> Option<Direction> {
        let is_composite = metric == COMPOSITE && self.composite.is_some();
        let by_name = || Direction::of_name(metric).map(|(direction, _)| direction);
        let known = if is_composite { Some(Direction::Higher) } else { by_name().filter(|it| *it == Direction::Lower) };
        self.direction.or(known)
    }
}
