//! What the table of settings becomes: the fields of [`Contract`](super::Contract) and [`Asked`](super::Asked).

/// Declares [`Contract`] and [`Asked`] with the fields of all settings, and [`PLAIN`]. First come the fields of
/// [`Asked`] that `core_settings`, `layout_settings` and `cap_settings` describe. A setting is declared as
/// `field: type of what is asked as type of what is stored = default { description }`.
macro_rules! settings {
    ($($own:ident: $type:ty),*; $(
        $(#[$meta:meta])*
        $field:ident: $asked:ty as $held:ty = $default:expr, { $($part:ident: $value:expr),* $(,)? }
    )*) => {
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
            #[serde(default, skip_serializing_if = "Caps::is_empty")]
            pub caps: Caps,
            $($(#[$meta])* pub $field: $held,)*
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
                    $($field: $default,)*
                    start,
                    started_from: None,
                    follows: None,
                    created,
                    imported: false,
                    more: Map::new(),
                }
            }
        }

        /// The terms that the user gave, wherever they came from; what is absent is stored or has a default.
        #[derive(Debug, Clone, Default)]
        #[expect(missing_docs, reason = "the fields are those of the contract")]
        pub struct Asked {
            $(pub $own: Option<$type>,)*
            $(pub $field: Option<$asked>,)*
        }

        impl Asked {
            /// What is asked for here, and where nothing is what `other` asks for.
            pub fn or(self, other: Asked) -> Asked {
                Asked {
                    $($own: self.$own.or(other.$own),)*
                    $($field: self.$field.or(other.$field),)*
                }
            }

            /// The terms of `contract` with those that are asked for in their place. Tag and dialect stay.
            pub fn over(&self, mut contract: Contract) -> Contract {
                let asked = self.clone();
                let metric = &mut contract.metric;
                if let Some(name) = asked.metric { metric.name = name; }
                if let Some(direction) = asked.direction { metric.direction = direction; }
                if let Some(source) = asked.source { metric.source = source; }
                if let Some(command) = asked.command { contract.command = command; }
                if let Some(agent) = asked.agent { (contract.agent, contract.agent_preset) = (Some(agent), None); }
                if let Some(reviewer) = asked.reviewer { contract.reviewer = reviewer; }
                if let Some(prices) = asked.prices { contract.prices = prices; }
                contract.composite = asked.composite.or(contract.composite);
                contract.caps.take(self);
                $(if let Some(value) = asked.$field { Held::take(&mut contract.$field, value); })*
                contract
            }
        }

        /// The settings that nothing but their own rule knows.
        pub(super) static PLAIN: &[Setting] = described! {$(
            asked!($field: $asked) => { $($part: $value,)* stored: |contract| stored::<$asked>(&contract.$field) }
        )*};
    };
}

pub(super) use settings;
