//! The terms of a session: what a user asks for, as the table of settings makes it, and the contract that he approves
//! before the session starts.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::ALL;
use super::{
    Asked, COMPOSITE, Caps, CommitId, Composite, Contract, Direction, MetricSource, MetricSpec, Setting, Tag, WordList,
    word_list,
};

/// Files that pin the versions of what a project depends on, in the order of their names.
pub static LOCK_FILES: WordList = WordList::new(|| word_list(include_str!("lists/lock_files.txt")));

/// What to do about a lock file of uv among files that a run changed, as the end of a sentence.
pub fn stale_lock_clause(changed: &[PathBuf]) -> String {
    let Some(lock) = changed.iter().find(|path| path.file_name().is_some_and(|name| name == "uv.lock")) else {
        return String::new();
    };
    format!(
        "; `uv run` rewrites {}, which is older than its pyproject.toml: run `uv lock` and commit it, or pass --frozen to \
         `uv run`",
        lock.display()
    )
}

/// The session before one that starts from the user's commits on its branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follows {
    /// Its tag.
    pub tag: Tag,
    /// Its incumbent, to which its branch goes back.
    pub incumbent: CommitId,
    /// The user's own branch when the first of these sessions began, as a full ref name.
    pub branch: Option<String>,
    /// The commit that it was at.
    pub at: CommitId,
}

impl Contract {
    /// The user's own branch when the session began, or the first one of those that it follows, and its commit.
    pub fn home(&self) -> (Option<&str>, &CommitId) {
        match &self.follows {
            Some(follows) => (follows.branch.as_deref(), &follows.at),
            None => (self.started_from.as_deref(), &self.start),
        }
    }

    /// The axes that the metric is worked out from; absent where the log prints the metric itself.
    pub fn deciding_composite(&self) -> Option<&Composite> {
        self.composite.as_ref().filter(|_| self.metric.name == COMPOSITE)
    }

    /// The axes of a research session's artifact, and the form in which they are put together; `None` where the artifact has
    /// no composite of its own.
    pub fn artifact(&self) -> Option<(&Composite, super::composite::Form)> {
        self.deciding_composite().zip(self.artifact_form)
    }

    /// Returns whether anything is hidden from its jobs.
    pub fn hides(&self) -> bool {
        self.holdout.is_some() || !self.hide.is_empty()
    }

    /// Returns whether fresh runs decide by the values of the hidden split.
    pub fn decides_on_hidden(&self) -> bool {
        self.holdout.is_some() && !self.holdout_report
    }

    /// The terms by which the command of the hidden split is run and its log is read, where there is one. What the metric's terms
    /// say of its unit, its axes and its runs is no part of them.
    pub fn of_hidden(&self) -> Option<Contract> {
        let command = self.holdout.clone()?;
        let direction = match (self.holdout_lower, self.holdout_higher) {
            (true, _) => Direction::Lower,
            (_, true) => Direction::Higher,
            _ => self.metric.direction,
        };
        let name = self.holdout_metric.clone().unwrap_or_else(|| self.metric.name.clone());
        let is_same = name == self.metric.name && direction == self.metric.direction;
        let plain = |contract: Contract| Contract { simpler_wins: None, min_delta: 0.0.into(), ..contract };
        let own = Contract {
            command,
            metric: MetricSpec { name, direction, source: MetricSource::Log },
            composite: None,
            artifact_form: None,
            limits: Vec::new(),
            guards: Vec::new(),
            caps: Caps::default(),
            count_partial: false,
            timeout: self.holdout_timeout.unwrap_or(self.timeout),
            ..self.clone()
        };
        Some(if is_same { own } else { plain(own) })
    }

    /// The axes as they were asked for: those of research in the form of its artifact, whatever decides on iterations.
    pub fn asked_composite(&self) -> Option<Composite> {
        let composite = self.composite.clone()?;
        Some(Composite { form: self.artifact_form.unwrap_or(composite.form), ..composite })
    }

    /// Returns whether a step of the ladder may look outside the repository: the agent itself, or search commands for
    /// an agent that `ar` calls.
    pub fn allows_research(&self) -> bool {
        self.allow_search || !self.search.is_empty() && self.agent.is_some()
    }

    /// The commit that the session starts from, with its branch where HEAD was on one.
    pub fn start_text(&self) -> String {
        let commit = self.start.short(8);
        match &self.started_from {
            Some(branch) => format!("{} at {commit}", branch.trim_start_matches("refs/heads/")),
            None => commit.to_owned(),
        }
    }

    /// The agent's command line, after the name of its preset where it is one.
    pub fn agent_text(&self) -> Option<String> {
        let command = self.agent.as_ref()?;
        Some(match &self.agent_preset {
            Some(preset) => format!("{preset}: {command}"),
            None => command.clone(),
        })
    }

    /// The agreed settings, as lines for people.
    pub fn lines(&self) -> Vec<String> {
        ALL.iter().flat_map(|setting| (setting.lines)(self)).collect()
    }

    /// Whether one of its terms ends a loop in good order some time.
    pub fn ends_loop(&self) -> bool {
        let is_set = |texts: Vec<String>| texts.iter().any(|text| text != "false");
        ALL.iter().any(|setting| setting.ends_loop && is_set((setting.stored)(self)))
    }

    /// The terms that decide what is kept. They hold for the whole session; limits, agent and reviewer may change.
    pub fn fixed_terms(&self) -> Vec<FixedTerm> {
        let term = |name, flag, text| FixedTerm { name, flag, text };
        let direction = self.metric.direction.to_string();
        let source = match &self.metric.source {
            MetricSource::File { .. } => "metric-file",
            MetricSource::Log | MetricSource::Regex(_) => "metric-regex",
        };
        let mut terms = vec![
            term("metric", Some("metric".to_owned()), self.metric.name.clone()),
            term("direction", Some(direction.clone()), direction),
            term("metric source", Some(source.to_owned()), self.metric.source.to_string()),
            term("command", Some("cmd".to_owned()), self.command.clone()),
            term("composite", None, self.asked_composite().map_or("none".to_owned(), |it| it.to_string())),
        ];
        terms.extend(ALL.iter().filter_map(|setting| {
            let texts = (setting.stored)(self);
            let text = if texts.is_empty() { "none".to_owned() } else { texts.join(", ") };
            Some(term(setting.fixed?, Some(setting.key.to_owned()), text))
        }));
        terms.extend(
            [("session", self.tag.to_string()), ("start", self.start.to_string())]
                .map(|(name, text)| term(name, None, text)),
        );
        terms
    }
}

/// A term that decides what is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedTerm {
    /// The name of the term.
    name: &'static str,
    /// The flag that asks for it, without its dashes; absent for what no flag says.
    flag: Option<String>,
    /// The value of the term, as text.
    text: String,
}

/// A fixed term on which two contracts of a session do not agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// The name of the term.
    pub field: &'static str,
    /// The approved value.
    pub approved: String,
    /// The value found instead.
    pub found: String,
    /// The flag that asks for it; absent for what no flag says.
    pub flag: Option<String>,
}

impl Drift {
    /// All fixed terms that differ from those that were approved.
    pub fn all(approved: &Contract, found: &Contract) -> Vec<Drift> {
        let pairs = approved.fixed_terms().into_iter().zip(found.fixed_terms());
        let differing = pairs.filter(|(approved, found)| approved.text != found.text);
        let drift = |(approved, found): (FixedTerm, FixedTerm)| Drift {
            field: found.name,
            approved: approved.text,
            found: found.text,
            flag: found.flag.map(|flag| format!("--{flag}")),
        };
        differing.map(drift).collect()
    }
}

/// Declares [`Asked`], [`Caps`](super::Caps), [`Contract`] and [`ALL`] by the table of all settings.
macro_rules! table {
    (
        asked {$(
            $key:literal $value:literal in $heading:ident $(for $field:ident)?: $asked:ty {
                $(#[doc = $help:literal])+
                $($part:ident: $it:expr),* $(,)?
            };
        )*}
        caps {$(
            $(#[$cap_meta:meta])*
            $cap_key:literal $cap_value:literal in $cap_heading:ident for $cap:ident: $cap_asked:ty as $cap_held:ty {
                $(#[doc = $cap_help:literal])+
                $($cap_part:ident: $cap_it:expr),* $(,)?
            } |$cap_set:pat_param| $cap_line:expr;
        )*}
        terms {$(
            $(#[$meta:meta])*
            $term_key:literal $term_value:literal in $term_heading:ident
                for $term:ident: $term_asked:ty as $held:ty $(, $natural:ident)? $(= $default:expr,)? {
                $(#[doc = $term_help:literal])+
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
            /// True if the user asked for no agent.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            pub no_agent: bool,
            /// The command line of the reviewer, who judges each change before it is kept.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub reviewer: Option<String>,
            /// The dialect of a new results.tsv.
            pub ledger: LedgerDialect,
            /// Prices of models, for agents that report only tokens.
            #[serde(default, skip_serializing_if = "Prices::is_empty")]
            pub prices: Prices,
            /// The axes of each experiment and what they are together, where there are some.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub composite: Option<Composite>,
            /// The form in which the axes of the artifact are put together; absent where it has no composite of its own.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub artifact_form: Option<crate::domain::Form>,
            /// Limits that end runs and calls early, and the limit on a file's length.
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
            /// True if it was made from another tool's ledger: it has no command and cannot be continued.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            pub imported: bool,
            /// Unknown fields, from a newer version.
            #[serde(flatten)]
            pub unknown_fields: Map<String, Value>,
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
                    unknown_fields: Map::new(),
                }
            }
        }

        /// Default values of terms.
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
            /// Returns the wishes of `self`, completed by those of `other`.
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
            $(setting!($key $value $heading $asked, $($field)?; ($($help)+) $($part: $it,)*),)*
            $(setting!(
                $cap_key $cap_value $cap_heading $cap_asked, $cap;
                ($($cap_help)+) $($cap_part: $cap_it,)*
                stored: |contract| texts(contract.caps.$cap.as_ref()),
                lines: |contract| line(contract.caps.$cap.as_ref(), |$cap_set| $cap_line),
            ),)*
            $(setting!(
                $term_key $term_value $term_heading $term_asked, $term;
                ($($term_help)+) $($term_part: $term_it,)*
                stored: |contract| stored::<$term_asked>(&contract.$term),
                $(lines: |contract| {
                    $(let $all = contract;)?
                    line(set::<$term_asked, _>(&contract.$term, &default::$term()), |$term_set| $term_line)
                },)?
            ),)*
        ];
    };
}

/// A setting of a table's entry, with the field of [`Asked`] where it has one. Its help is the comment of its entry.
macro_rules! setting {
    ($key:literal $value:literal $heading:ident $asked:ty, $($field:ident)?; ($($help:literal)+) $($part:ident: $it:expr,)*) => {
        Setting {
            key: $key,
            value: $value,
            heading: Heading::$heading,
            help: concat!($($help),+).trim_ascii_start(),
            $(
                set: |asked, texts| <$asked as Form>::read(texts).map(|value| asked.$field = Some(value)),
                asked: |asked| texts(asked.$field.as_ref()),
            )?
            $($part: $it,)*
            ..Setting::of::<$asked>()
        }
    };
}

/// The default of a term.
macro_rules! or_default {
    () => {
        Default::default()
    };
    ($default:expr) => {
        $default
    };
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

pub(super) use {or_default, setting, table};

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::domain::{Direction, MetricSpec, Sandbox};

    fn contract() -> Contract {
        let metric = MetricSpec { name: "m".into(), direction: Direction::Lower, source: MetricSource::Log };
        let start = CommitId::new("1a2b3c4d5e6f");
        Contract::new("t".parse().unwrap(), metric, "c".into(), start, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_cap_of_the_night_or_of_all_nights_ends_a_loop_and_a_pause_does_not() {
        let of_night = Contract { max_experiments: Some(0), ..contract() };
        let mut of_all = contract();
        of_all.caps.session_max_cost = Some(1.0);
        let mut others = Contract { unattended: true, ..contract() };
        others.caps.agent_rounds = Some(3);
        assert_eq!([&of_night, &of_all, &others, &contract()].map(Contract::ends_loop), [true, true, false, false]);
    }

    #[test]
    fn a_contract_names_its_walls_unless_they_are_those_of_contracts_without_the_setting() {
        let stored = |contract: &Contract| serde_json::to_string(contract).unwrap();
        let read = |text: &str| serde_json::from_str::<Contract>(text).unwrap();
        assert_eq!(contract().sandbox, Sandbox::Auto);
        assert!(!stored(&contract()).contains("sandbox"));
        for (sandbox, word) in [(Sandbox::Require, "require"), (Sandbox::Off, "off")] {
            let contract = Contract { sandbox, ..contract() };
            assert!(stored(&contract).contains(&format!("\"sandbox\":\"{word}\"")));
            assert_eq!(read(&stored(&contract)), contract);
            assert!(contract.lines().contains(&format!("sandbox   {word}")));
            assert_eq!(Drift::all(&contract, &self::contract()), [], "it may change between nights");
        }
        assert_eq!(read(&stored(&contract())), contract());
        assert!(!contract().lines().iter().any(|line| line.starts_with("sandbox")));
    }
}
