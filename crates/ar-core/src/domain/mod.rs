//! The types that all other modules share: plain data without effects.
//!
//! Nothing here knows of git, files, processes or terminals.

mod agent_calls;
mod composite;
mod contract;
mod dialect;
mod direction;
mod directive;
mod event;
mod execution;
mod experiment;
mod failure;
mod gpu;
mod json;
mod memory;
mod metric;
mod notice;
mod record;
mod record_parts;
mod setting;
pub mod setting_values;
mod settings;
mod tag;
mod target;
mod text;
mod trouble;
mod unit;
mod user_error;

pub use agent_calls::{
    CURRENCY, LastCall, Outage, OutageKind, Price, Prices, Refusal, Review, ReviewVerdict, Said, Spent, Stall, Tokens,
    Usage, money_text, tokens_text,
};
pub use composite::{Axis, COMPOSITE, Composite, DEFAULT_FLOOR, Form, PRESETS, RESEARCH_AXES, Rating};
pub use contract::{Drift, Follows, LOCK_FILES, settings, stale_lock_clause};
pub use dialect::{DialectFormat, LedgerDialect};
pub use direction::{Direction, NameKind, plain_name};
pub use directive::{
    Directive, Explored, Ladder, LadderPosition, Perturbation, Role, RoleProposal, ToldStep, TriedDirection,
};
pub use event::{Bound, EVENT_VERSION, Event, Reached, StopReason};
pub use execution::{
    Cluster, DEFAULT_LOST_AFTER, Engine, EngineCommands, Environment, EnvironmentChange, ExecutorName, LargeLog,
    Layout, Sandbox, Space, Tools, WallKind,
};
pub use experiment::{
    ExperimentId, ExperimentName, ExperimentNameError, FEWEST_DIGITS, Outcome, Phase, TreeOwner, Which,
};
pub use failure::{Failure, FailureClass, FailureTexts};
pub use gpu::{Gpu, GpuChoice, GpuChoiceError, GpuCrowd, GpuLoad, GpuName, GpuOther, GpuUse};
use json::seconds;
pub use json::{Unparsed, json_text, millis, write_json};
pub use memory::{
    Idea, IdeaKind, IdeaState, KEPT, Lesson, LessonId, Message, NewIdea, Note, USER, agent_name, search_name,
};
pub use metric::{MetricSource, MetricSpec, Metrics, Number, NumberError, PartOf};
pub use notice::{Actor, Actors, Notice, RowChanges, few, list};
pub use record::{
    AgentCall, CommitId, DiffStat, FORMAT_VERSION, Fingerprint, MetricValue, RECORD_VERSION, Record, Run, Waits,
    is_none,
};
pub use record_parts::{
    Ablated, AblatedRun, AblationStep, Artifact, ArtifactsRun, Concurrency, Contribution, Control, GuardRun, Imported,
    MetricDrift, Replay, RunResult, RunRole, Train, VerifiedId, VerifiedPair, Version,
};
pub use setting::{Heading, Kind, Setting};
pub use setting_values::{Cadence, Carry, Decide, Draw, Resident, SizeLimit, StopWhen, VerifyFor};
pub use settings::{
    Asked, CONTRACT_VERSION, Caps, Contract, DEFAULT_AGENT_TIMEOUT, DEFAULT_GRACE, DEFAULT_OUTAGE_LIMIT,
    DEFAULT_TIMEOUT,
};
pub use tag::{Tag, TagError};
pub use target::{Comparison, Limit, LimitError, StopRule, Target};
pub use text::{
    WordList, acts, ago_text, bytes_text, clock_time, count_of, cut, duration_text, ended_text, exact_time,
    experiment_name, experiment_names, moment_text_at, nearest, one_line, percent_text, shell_word, span_text,
    time_of_day_text, two_digits, with_causes, word_list,
};
pub use trouble::{Alert, AlertKind, Area, Escalate, Escalation, Finding, Severity, Trouble, report_clause};
pub use unit::{Suffix, Unit, duration};
pub use user_error::{ErrorKind, UserError, refuse};
