//! From what the user asks for to a session's terms.

use std::time::Duration;

use jiff::civil::Time;

use super::error::SessionError;
use super::reading::is_session;
use crate::agent::agent_terms;
use crate::domain::{
    Clock, Contract, Direction, Drift, KeepLogs, Ladder, LedgerDialect, Limit, MetricSource, MetricSpec, Prices, Tag,
};
use crate::git::{Head, Repo};

/// Declares [`Asked`] and what goes through all of its fields.
macro_rules! asked {
    ($($field:ident: $type:ty,)*) => {
        /// The terms that the user gave, wherever they came from; what is absent is stored or has a default.
        #[derive(Debug, Clone, Default)]
        #[expect(missing_docs, reason = "the fields are those of the contract")]
        pub struct Asked {
            $(pub $field: Option<$type>,)*
        }

        impl Asked {
            /// What is asked for here, and where nothing is what `other` asks for.
            pub fn or(self, other: Asked) -> Asked {
                Asked { $($field: self.$field.or(other.$field),)* }
            }

            /// The terms that are asked for, each by itself and with the name of its field.
            fn each(&self) -> Vec<(&'static str, Asked)> {
                let mut each = Vec::new();
                $(if self.$field.is_some() {
                    each.push((stringify!($field), Asked { $field: self.$field.clone(), ..Asked::default() }));
                })*
                each
            }
        }
    };
}

asked! {
    tag: Tag,
    metric: String,
    direction: Direction,
    source: MetricSource,
    command: String,
    agent: String,
    min_delta: f64,
    simpler_wins: f64,
    guards: Vec<String>,
    limits: Vec<Limit>,
    goal: f64,
    goal_text: String,
    milestones: Vec<String>,
    success: Vec<String>,
    timeout: Duration,
    grace: Duration,
    agent_timeout: Duration,
    outage_limit: Duration,
    max_experiments: u32,
    max_cost: f64,
    max_tokens: u64,
    prices: Prices,
    budget: Duration,
    until: Time,
    max_crashes: u32,
    ledger: LedgerDialect,
    scope: Vec<String>,
    protect: Vec<String>,
    max_files: u32,
    max_file_lines: u32,
    allow_repeats: bool,
    ladder: Ladder,
    research: bool,
    stop_when_flagged: bool,
    on_event: String,
    keep_logs: KeepLogs,
    no_sign: bool,
}

/// What an invocation asks for, by where it asks.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// By flags and variables: it may not contradict the stored terms of a session.
    pub given: Asked,
    /// In the settings file: it is for new sessions, and those that exist keep what they have.
    pub file: Asked,
}

impl Wanted {
    /// All of it: flags and variables come before the file.
    pub fn all(&self) -> Asked {
        self.given.clone().or(self.file.clone())
    }
}

impl From<Asked> for Wanted {
    fn from(given: Asked) -> Wanted {
        Wanted { given, file: Asked::default() }
    }
}

impl Asked {
    /// The settings that are asked for, by their keys in the settings file, which are the names of their flags.
    pub fn keys(&self) -> Vec<String> {
        self.each().into_iter().map(|(field, line)| key(field, line)).collect()
    }

    /// The terms of `contract` with those that are asked for in their place. Tag and dialect stay.
    fn over(&self, contract: Contract) -> Contract {
        let asked = self.clone();
        let (agent, agent_preset) = match &asked.agent {
            Some(line) => agent_terms(line),
            None => (contract.agent, contract.agent_preset),
        };
        Contract {
            metric: MetricSpec {
                name: asked.metric.unwrap_or(contract.metric.name),
                direction: asked.direction.unwrap_or(contract.metric.direction),
                source: asked.source.unwrap_or(contract.metric.source),
            },
            command: asked.command.unwrap_or(contract.command),
            agent,
            agent_preset,
            min_delta: asked.min_delta.unwrap_or(contract.min_delta),
            simpler_wins: asked.simpler_wins.or(contract.simpler_wins),
            guards: asked.guards.unwrap_or(contract.guards),
            limits: asked.limits.unwrap_or(contract.limits),
            goal: asked.goal.or(contract.goal),
            goal_text: asked.goal_text.or(contract.goal_text),
            milestones: asked.milestones.unwrap_or(contract.milestones),
            success: asked.success.unwrap_or(contract.success),
            timeout: asked.timeout.unwrap_or(contract.timeout),
            grace: asked.grace.unwrap_or(contract.grace),
            agent_timeout: asked.agent_timeout.unwrap_or(contract.agent_timeout),
            outage_limit: asked.outage_limit.unwrap_or(contract.outage_limit),
            max_experiments: asked.max_experiments.or(contract.max_experiments),
            max_cost: asked.max_cost.or(contract.max_cost),
            max_tokens: asked.max_tokens.or(contract.max_tokens),
            prices: asked.prices.unwrap_or(contract.prices),
            budget: asked.budget.or(contract.budget),
            until: asked.until.or(contract.until),
            max_crashes: asked.max_crashes.or(contract.max_crashes),
            scope: asked.scope.unwrap_or(contract.scope),
            protect: asked.protect.unwrap_or(contract.protect),
            max_files: asked.max_files.or(contract.max_files),
            max_file_lines: asked.max_file_lines.or(contract.max_file_lines),
            allow_repeats: asked.allow_repeats.unwrap_or(contract.allow_repeats),
            ladder: asked.ladder.unwrap_or(contract.ladder),
            research: asked.research.unwrap_or(contract.research),
            stop_when_flagged: asked.stop_when_flagged.unwrap_or(contract.stop_when_flagged),
            on_event: asked.on_event.or(contract.on_event),
            keep_logs: asked.keep_logs.unwrap_or(contract.keep_logs),
            no_sign: asked.no_sign.unwrap_or(contract.no_sign),
            ..contract
        }
    }
}

/// The terms of a session that is about to start. `dialect` is the one that the repository speaks.
pub(super) fn new_contract(
    repo: &Repo,
    tag: Option<Tag>,
    asked: &Asked,
    head: &Head,
    dialect: Option<LedgerDialect>,
    clock: Clock,
) -> Result<Contract, SessionError> {
    let name = asked.metric.clone().ok_or(SessionError::Missing("--metric"))?;
    let command = asked.command.clone().filter(|line| !line.trim().is_empty()).ok_or(SessionError::Missing("--cmd"))?;
    let direction = match asked.direction {
        Some(direction) => direction,
        None if Direction::is_unclear_for(&name) => return Err(SessionError::DirectionUnclear(name)),
        None => Direction::Lower,
    };
    let tag = match tag {
        Some(tag) => tag,
        None => free_tag(repo, clock)?,
    };
    if repo.branch(&tag.branch_ref())?.is_some() {
        return Err(SessionError::ForeignBranch(tag.branch()));
    }
    if let Some(blocking) = repo.branch_in_the_way(&tag.branch())? {
        return Err(SessionError::BranchInTheWay { blocking, branch: tag.branch() });
    }
    let (start, started_from) = match head {
        Head::Branch { name, commit } => (commit.clone(), Some(name.clone())),
        Head::Detached { commit } => (commit.clone(), None),
        Head::Unborn { .. } => (repo.resolve("HEAD")?, None),
    };
    let metric = MetricSpec { name, direction, source: MetricSource::default() };
    let contract = asked.over(Contract::new(tag, metric, command, start, clock.now()));
    Ok(Contract { started_from, ledger: asked.ledger.or(dialect).unwrap_or_default(), ..contract })
}

/// The stored terms with what flags and variables ask anew; what decides what is kept may not change. The settings file only
/// gives an agent to a session that has none, and prices, which nothing else can.
pub(super) fn continue_contract(stored: Contract, wanted: &Wanted) -> Result<Contract, SessionError> {
    let first_agent = wanted.file.agent.clone().filter(|_| stored.agent.is_none());
    let given =
        wanted.given.clone().or(Asked { agent: first_agent, prices: wanted.file.prices.clone(), ..Asked::default() });
    let contract = given.over(stored.clone());
    let drifts = Drift::all(&stored, &contract);
    if !drifts.is_empty() {
        return Err(SessionError::Drift { tag: stored.tag.to_string(), drifts });
    }
    Ok(contract)
}

/// The lines of the settings file that say something else than the terms of a session, by their keys.
pub(super) fn lines_passed_over(contract: &Contract, file: &Asked) -> Vec<String> {
    let differing = file.each().into_iter().filter(|(_, line)| line.over(contract.clone()) != *contract);
    differing.map(|(field, line)| key(field, line)).collect()
}

/// The key in the settings file, and the flag without its dashes, of a field and what is asked for by it.
fn key(field: &str, line: Asked) -> String {
    match (field, line.source, line.direction) {
        ("source", Some(MetricSource::File { .. }), _) => "metric-file".to_owned(),
        ("source", ..) => "metric-regex".to_owned(),
        ("direction", _, Some(direction)) => direction.to_string(),
        ("command", ..) => "cmd".to_owned(),
        ("guards", ..) => "guard".to_owned(),
        ("limits", ..) => "limit".to_owned(),
        ("budget", ..) => "for".to_owned(),
        _ => field.replace('_', "-"),
    }
}

/// The first tag of the day that nobody has.
pub(super) fn free_tag(repo: &Repo, clock: Clock) -> Result<Tag, SessionError> {
    let mut trouble = None;
    let tag = Tag::for_day(clock.today(), |tag| {
        is_taken(repo, tag).unwrap_or_else(|error| {
            trouble = Some(error);
            false
        })
    });
    trouble.map_or(Ok(tag), Err)
}

/// Whether there is a session of that tag, or its branch.
pub(super) fn is_taken(repo: &Repo, tag: &Tag) -> Result<bool, SessionError> {
    Ok(repo.branch(&tag.branch_ref())?.is_some() || is_session(repo, tag)?)
}
