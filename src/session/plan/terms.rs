//! From what the user asks for to a session's terms.

use super::invocation::Drive;
use crate::agent::agent_terms;
use crate::domain::{Asked, Clock, Contract, Drift, Layout, LedgerDialect, MetricSource, MetricSpec, Tag};
use crate::git::{Head, Repo};
use crate::session::errors::{AxesError, BranchError, SessionError};
use crate::session::files::is_session;

/// The settings that an invocation asks for, by their source.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// By flags and variables: it may not contradict the stored terms of a session.
    pub given: Asked,
    /// By the settings file, for new sessions only: existing ones keep their settings.
    pub file: Asked,
    /// True if a session is taken over although a process of another host may drive it.
    pub take_over: bool,
}

impl Wanted {
    /// All of it: flags and variables come before the file.
    pub fn all(&self) -> Asked {
        self.given.clone().or(self.file.clone())
    }
}

impl From<Asked> for Wanted {
    fn from(given: Asked) -> Wanted {
        Wanted { given, file: Asked::default(), take_over: false }
    }
}

/// The terms of `contract` with those that are asked for in their place; a preset in place of its name.
pub(crate) fn put(asked: &Asked, contract: Contract) -> Contract {
    let mut contract = asked.over(contract);
    if let Some(reviewer) = &asked.reviewer {
        contract.reviewer = reviewer.as_deref().and_then(|line| agent_terms(line).0);
    }
    match &asked.agent {
        None => contract,
        Some(line) => {
            let (agent, agent_preset) = agent_terms(line);
            Contract { no_agent: agent.is_none(), agent, agent_preset, ..contract }
        }
    }
}

/// The terms of a session that is about to start. `dialect` is the one that the repository speaks.
pub(crate) fn new_contract(
    repo: &Repo,
    tag: Option<Tag>,
    asked: &Asked,
    head: &Head,
    dialect: Option<LedgerDialect>,
    clock: Clock,
) -> Result<Contract, SessionError> {
    let name = asked.metric.clone().ok_or(SessionError::Missing("--metric"))?;
    let command = asked.command.clone().filter(|line| !line.trim().is_empty()).ok_or(SessionError::Missing("--cmd"))?;
    let direction = asked.direction_of(&name).ok_or_else(|| SessionError::DirectionUnclear(name.clone()))?;
    let tag = match tag {
        Some(tag) => tag,
        None => free_tag(repo, clock)?,
    };
    if repo.refs.branch(&tag.branch_ref())?.is_some() {
        return Err(BranchError::ForeignBranch(tag.branch()).into());
    }
    if let Some(blocking) = repo.refs.branch_in_the_way(&tag.branch())? {
        return Err(BranchError::BranchInTheWay { blocking, branch: tag.branch() }.into());
    }
    let (start, started_from) = match head {
        Head::Branch { name, commit } => (commit.clone(), Some(name.clone())),
        Head::Detached { commit } => (commit.clone(), None),
        Head::Unborn { .. } => (repo.refs.resolve("HEAD")?, None),
    };
    let metric = MetricSpec { name, direction, source: MetricSource::default() };
    let contract = put(asked, Contract::new(tag, metric, command, start, clock.now()));
    Ok(Contract { started_from, ledger: asked.ledger.or(dialect).unwrap_or_default(), ..contract })
}

/// Applies flags and variables to the stored contract. Refuses changes to settings that decide which experiments are kept.
/// The settings file only gives prices, and an agent to a session without one. The driver of `ar try` may be the one who is
/// reviewed, so only a loop may change the reviewer.
pub(crate) fn continue_contract(stored: Contract, wanted: &Wanted, drive: Drive) -> Result<Contract, SessionError> {
    let first_agent = wanted.file.agent.clone().filter(|_| stored.agent.is_none());
    let given =
        wanted.given.clone().or(Asked { agent: first_agent, prices: wanted.file.prices.clone(), ..Asked::default() });
    let contract = put(&given, stored.clone());
    let mut drifts = Drift::all(&stored, &contract);
    if stored.reviewer != contract.reviewer && !matches!(drive, Drive::Loop { .. }) {
        let [approved, found] = [&stored, &contract].map(|it| it.reviewer.clone().unwrap_or_else(|| "none".into()));
        drifts.push(Drift { field: "reviewer", approved, found, flag: Some("--reviewer".into()) });
    }
    if !drifts.is_empty() {
        return Err(SessionError::Drift { tag: stored.tag.to_string(), drifts });
    }
    Ok(contract)
}

/// The terms with weights that sum to 1, and a warning where they did not. Refuses terms on axes that cannot work.
pub(crate) fn with_axes(mut contract: Contract) -> Result<(Contract, Option<String>), AxesError> {
    let mut warning = None;
    if let Some(axes) = contract.composite.take() {
        let (axes, other_weights) = axes.settled()?;
        (contract.composite, warning) = (Some(axes), other_weights);
    }
    let is_composite = contract.deciding_composite().is_some();
    if is_composite && matches!(contract.metric.source, MetricSource::Regex(_)) {
        return Err(AxesError::Pattern);
    }
    match contract.stop_rules.iter().find(|rule| rule.needs_composite()) {
        Some(rule) if !is_composite => Err(AxesError::NeedsComposite(rule.to_string())),
        _ => Ok((contract, warning)),
    }
}

/// The keys of lines in the settings file that contradict a session's contract. Flags and variables of this invocation
/// override their lines anyway, so those are omitted.
pub(crate) fn lines_passed_over(contract: &Contract, layout: Option<&Layout>, wanted: &Wanted) -> Vec<&'static str> {
    let (file, given) = (&wanted.file, wanted.given.keys());
    let differs = |line: &Asked| put(line, contract.clone()) != *contract || line.layout(layout).as_ref() != layout;
    let lines = file.each().into_iter().filter(|(key, _)| !given.contains(key));
    let differing = lines.filter(|(_, line)| differs(line));
    let axes = file.composite.clone().and_then(|axes| axes.settled().ok());
    let has_other_axes = axes.is_some_and(|(axes, _)| contract.asked_composite().as_ref() != Some(&axes));
    differing.map(|(key, _)| key).chain(has_other_axes.then_some("composite")).collect()
}

/// The first tag of the day that nobody has.
pub(crate) fn free_tag(repo: &Repo, clock: Clock) -> Result<Tag, SessionError> {
    let mut trouble = None;
    let tag = Tag::for_day(clock.today(), |tag| {
        is_taken(repo, tag).unwrap_or_else(|error| {
            trouble = Some(error);
            false
        })
    });
    trouble.map_or(Ok(tag), Err)
}

/// Returns whether a session with that tag exists, or its branch.
pub(crate) fn is_taken(repo: &Repo, tag: &Tag) -> Result<bool, SessionError> {
    Ok(repo.refs.branch(&tag.branch_ref())?.is_some() || is_session(repo, tag)?)
}
