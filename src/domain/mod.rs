//! The types that all other modules share: plain data without effects.
//!
//! Nothing here knows of git, files, processes or terminals.

mod ablation;
mod alert;
mod artifact;
mod as_text;
mod beside;
mod cadence;
mod cap_settings;
mod clock;
mod composite;
mod contract;
mod control;
mod core_settings;
mod decide;
mod dialect;
mod direction;
mod directive;
mod draw;

mod engine;
mod environment;
mod escalation;
mod event;
mod experiment_id;
mod exploring;
mod failure;
mod finding;
mod gpu;
mod guard;
mod home;
mod idea;
mod imported;
mod json;
mod layout;
mod layout_settings;
pub mod legacy;
mod lesson;
mod limit;
mod message;
mod metric;
mod metric_drift;
mod metrics;
pub mod millis;
mod name;
mod nearest;
mod note;
mod notice;
mod outage;
mod outcome;
mod phase;
mod rating;
mod record;
mod resident;
mod review;
mod run_result;
mod run_role;
mod said;
mod sandbox;
mod seconds;
mod setting;
mod settings;
mod settings_macro;
mod size_limit;
mod space;
mod stall;
mod stop_rule;
mod stop_when;
mod tag;
mod target;
mod text;
mod unit;
mod unparsed;
mod usage;
pub mod values;
mod verified_pair;
mod verify_for;
mod word_list;

pub use ablation::{Ablated, AblatedRun, AblationStep, Contribution};
pub use alert::{Alert, AlertKind};
pub use artifact::{Artifact, ArtifactsRun};
pub use beside::{Beside, Replay, Train};
pub use cadence::Cadence;
pub use cap_settings::Caps;
pub use clock::{Clock, ago_text, exact_time, moment_text};
pub use composite::{Axis, COMPOSITE, Composite, CompositeError, DEFAULT_FLOOR, Form, PRESETS, RESEARCH_AXES, SCORING};
pub use contract::{Drift, Follows, LOCK_FILES};
pub use control::Control;
pub use core_settings::settings;
pub use decide::Decide;
pub use dialect::{DialectFormat, LedgerDialect};
pub use direction::{Direction, NameKind, plain_name};
pub use directive::{Directive, Ladder, Perturbation, Rung, ToldStep, TriedDirection};
pub use draw::Draw;

pub use engine::{Cluster, DEFAULT_LOST_AFTER, Engine, EngineCommands, ExecutorName};
pub use environment::{Environment, EnvironmentChange, Tools};
pub use escalation::{Escalate, Escalation, Trouble, report_clause};
pub use event::{Bound, EVENT_VERSION, Event, Reached, StopReason};
pub use experiment_id::ExperimentId;
pub use exploring::{Explored, Role, RoleProposal};
pub use failure::{Failure, FailureClass, FailureTexts};
pub use finding::{Area, Finding, Severity};
pub use gpu::{Gpu, GpuChoice, GpuChoiceError, GpuCrowd, GpuInventory, GpuLoad, GpuName, GpuOther, GpuRuntime, GpuUse};
pub use guard::{GuardRun, Version};
pub use home::Home;
pub use idea::{Idea, IdeaKind, IdeaState, NewIdea, USER, agent_name, search_name};
pub use imported::Imported;
pub use json::{json_text, write_json};
pub use layout::Layout;
pub use lesson::{KEPT, Lesson, LessonId};
pub use limit::{Comparison, Limit, LimitError};
pub use message::Message;
pub use metric::{MetricSource, MetricSpec, Number, NumberError, PartOf};
pub use metric_drift::MetricDrift;
pub use metrics::Metrics;
pub use name::{ExperimentName, ExperimentNameError, FEWEST_DIGITS, Which};
pub use nearest::nearest;
pub use note::Note;
pub use notice::{Actor, Actors, Notice, RowChanges, few, list};
pub use outage::{Outage, OutageKind, Refusal};
pub use outcome::Outcome;
pub use phase::Phase;
pub use rating::Rating;
pub(crate) use record::is_none;
pub use record::{
    AgentCall, CommitId, DiffStat, FORMAT_VERSION, Fingerprint, MetricValue, RECORD_VERSION, Record, Run,
};
pub use resident::Resident;
pub use review::{Review, ReviewVerdict};
pub use run_result::RunResult;
pub use run_role::RunRole;
pub use said::Said;
pub use sandbox::{Sandbox, WallKind};
pub use setting::{Heading, Kind};
pub use settings::{
    Asked, CONTRACT_VERSION, Contract, DEFAULT_AGENT_TIMEOUT, DEFAULT_GRACE, DEFAULT_OUTAGE_LIMIT, DEFAULT_TIMEOUT,
    Setting,
};
pub use size_limit::SizeLimit;
pub use space::Space;
pub use stall::{LastCall, Stall};
pub use stop_rule::StopRule;
pub use stop_when::StopWhen;
pub use tag::{Tag, TagError};
pub use target::Target;
pub use text::{
    acts, bytes_text, clock_time, count_of, cut, duration_text, ended_text, experiment_name, experiment_names,
    one_line, percent_text, shell_word, span_text, time_of_day_text, two_digits, with_causes,
};
pub use unit::{Suffix, Unit, duration};
pub use unparsed::Unparsed;
pub use usage::{CURRENCY, Price, Prices, Spent, Tokens, Usage, money_text, tokens_text};
pub use verified_pair::{VerifiedId, VerifiedPair};
pub use verify_for::VerifyFor;
pub use word_list::{WordList, word_list};
