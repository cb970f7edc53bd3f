//! From what the user asks for to a session's terms: its contract, the agent of its loop, the night and its caps.

use std::env;
use std::path::Path;

use jiff::Timestamp;

use super::{Drive, Plan, branch_in_the_way};
use crate::agent::{Preset, agent_terms, within_agent};
use crate::domain::{
    Asked, Clock, Contract, Drift, Layout, LedgerDialect, MetricSource, MetricSpec, Tag, UserError, moment_text,
};
use crate::exec::boot_id;
use crate::git::{Head, Repo};
use crate::rules::{
    AgentFacts, AgentSetting, History, LoopAgent, LoopCall, Moment, Night, NightCaps, Tonight, is_confirmed,
    is_research, loop_agent,
};
use crate::session::errors::{CannotStart, NoAgent, SessionError, Usage, refuse};
use crate::session::files::{installed_agents, is_session};
use crate::state::Journal;

/// The settings that an invocation asks for, by their source.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// By flags and variables: it may not contradict the stored terms of a session.
    pub given: Asked,
    /// By flags alone: one without effect is a mistake, and a variable may be there for other sessions.
    pub flags: Asked,
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
        Wanted { flags: given.clone(), given, file: Asked::default(), take_over: false }
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
    let given = |setting: &Option<String>, flag: &'static str| {
        setting.clone().filter(|text| !text.trim().is_empty()).ok_or(SessionError::Missing(flag))
    };
    let (name, command) = (given(&asked.metric, "--metric")?, given(&asked.command, "--cmd")?);
    let direction = asked.direction_of(&name).ok_or_else(|| SessionError::DirectionUnclear(name.clone()))?;
    let tag = new_tag(repo, tag, clock)?;
    if repo.refs.branch(&tag.branch_ref())?.is_some() {
        let branch = tag.branch();
        return Err(refuse(CannotStart, format!("branch {branch} exists but belongs to no session"))
            .hint(format!(
                "choose another name with --tag, or rename the branch: git branch -m {branch} NEW-NAME; run `ar doctor` to \
                 see whether a session left work of yours there"
            ))
            .into());
    }
    if let Some(blocking) = repo.refs.branch_in_the_way(&tag.branch())? {
        return Err(branch_in_the_way(&tag.branch(), &blocking).into());
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
pub(crate) fn with_axes(mut contract: Contract) -> Result<(Contract, Option<String>), UserError> {
    let mut warning = None;
    if let Some(axes) = contract.composite.take() {
        let (axes, other_weights) = axes.settled()?;
        (contract.composite, warning) = (Some(axes), other_weights);
    }
    let is_composite = contract.deciding_composite().is_some();
    if is_composite && matches!(contract.metric.source, MetricSource::Regex(_)) {
        let text = "--metric-regex finds one number, and a composite is computed from several";
        return Err(refuse(Usage, text).hint("omit --metric-regex"));
    }
    match contract.stop_rules.iter().find(|rule| rule.needs_composite()) {
        Some(rule) if !is_composite => {
            let text =
                format!("the stop rule {rule} needs the axes of a composite, and this session has another metric");
            Err(refuse(Usage, text).hint(
                "use kill, plateau:N or above:VALUE:N, or describe the axes in [composite] and pass --metric composite",
            ))
        }
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

/// The tag of a session that begins: the given one, or the first of the day that nobody has.
pub(crate) fn new_tag(repo: &Repo, given: Option<Tag>, clock: Clock) -> Result<Tag, SessionError> {
    given.map_or_else(|| free_tag(repo, clock), |tag| Ok(tag.for_new_session()?))
}

/// The first tag of the day that nobody has.
fn free_tag(repo: &Repo, clock: Clock) -> Result<Tag, SessionError> {
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

/// The parts of a loop's invocation that decide about its agent.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoopWish {
    /// The setting that asks for a loop in so many words.
    pub setting: Option<&'static str>,
    /// True if the loop is to run only the baseline.
    pub baseline_only: bool,
    /// True if the loop may take the only installed agent.
    pub may_take: bool,
}

/// Reads the agent setting from a session's contract.
pub(crate) fn setting_of(contract: &Contract) -> AgentSetting {
    match contract.agent {
        Some(_) => AgentSetting::Set,
        None if contract.no_agent => AgentSetting::Declined,
        None => AgentSetting::Open,
    }
}

/// The variable that says that this process is within another agent's session, if one does.
pub fn outer_agent() -> Option<&'static str> {
    within_agent(|name| env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Decides where the agent of a loop comes from. Unless the contract sets one, also lists the known agents that are
/// installed.
pub(crate) fn choose(root: &Path, setting: AgentSetting, wish: LoopWish) -> (LoopAgent, Vec<&'static str>) {
    let installed: Vec<&'static str> = match setting {
        AgentSetting::Set => Vec::new(),
        _ => installed_agents(root).into_iter().map(|preset| preset.name).collect(),
    };
    let facts = AgentFacts {
        setting,
        baseline_only: wish.baseline_only,
        wish: wish.setting,
        may_take: wish.may_take,
        within: outer_agent(),
        installed: &installed,
    };
    (loop_agent(&facts), installed)
}

impl Plan {
    /// Gives a loop without an agent the only one that is installed, or says why it has none. Refuses to start where
    /// there is none and a loop is asked for.
    pub fn with_loop_agent(mut self, wish: LoopWish) -> Result<(Plan, Option<NoAgent>), SessionError> {
        let by_layout = self.layout.as_ref().filter(|_| wish.may_take).map(|_| "slots");
        let wish = LoopWish { setting: wish.setting.or(by_layout), ..wish };
        let (chosen, installed) = choose(self.repo.worktree(), setting_of(&self.contract), wish);
        match chosen {
            LoopAgent::Settled => Ok((self, None)),
            LoopAgent::Take(name) => {
                self.take_agent(name);
                Ok((self, None))
            }
            LoopAgent::BaselineOnly(lack) => Ok((self, Some(NoAgent::new(lack, installed)))),
            LoopAgent::Refused(setting, lack) => {
                Err(SessionError::NoAgentForLoop { setting, no_agent: NoAgent::new(lack, installed) })
            }
        }
    }

    /// Makes an installed agent that of the session.
    fn take_agent(&mut self, name: &str) {
        (self.contract.agent, self.contract.agent_preset) = agent_terms(name);
        self.notices.push(format!("took {name}, the only agent installed; `--agent none` measures only the baseline"));
        if let Some(preset) = Preset::named(name) {
            self.notices.extend(self.idle_limits(preset.command));
        }
    }
}

/// Settles the caps of a contract: for a loop those of its night, which it gives; what `ar try` is given counts the session.
/// `stored` is the contract of before, of a session that continues.
pub(crate) fn settle_caps(
    contract: &mut Contract,
    stored: Option<&Contract>,
    journal: Option<&Journal>,
    wanted: &Wanted,
    drive: Drive,
    now: Timestamp,
) -> Option<Tonight> {
    let given = NightCaps::of(&wanted.given);
    let call = match drive {
        Drive::Loop { call, .. } => call,
        Drive::WorkingTree { .. } => {
            stored.map_or_else(|| NightCaps::of(&wanted.file), NightCaps::in_contract).enter(contract);
            let session = &mut contract.caps;
            session.session_max_experiments = given.experiments.or(session.session_max_experiments);
            session.session_max_cost = given.cost.or(session.session_max_cost);
            session.session_max_tokens = given.tokens.or(session.session_max_tokens);
            return None;
        }
        Drive::Ending => return None,
    };
    let before = stored.and_then(|stored| night_before(journal, stored));
    let same_boot = journal.is_none_or(|journal| journal.presence.is_of_boot(boot_id().as_deref()));
    let is_typed = call != LoopCall::Resumed;
    // A time that was given now, counted from a night of long ago, may be over.
    let is_over = |night: &Night| {
        let end = wanted.given.budget.map(|budget| night.began.checked_add(budget));
        end.is_some_and(|end| end.is_ok_and(|end| end <= now))
    };
    let goes_on = |night: &Night| night.is_unfinished(same_boot, now) && !is_over(night);
    let begins = match call {
        LoopCall::Typed => !before.as_ref().is_some_and(goes_on),
        LoopCall::Requeued => before.is_none(),
        LoopCall::Resumed => false,
    };
    let caps = match (begins, stored) {
        (false, Some(stored)) => given.or(before.map_or_else(|| NightCaps::in_contract(stored), |night| night.caps)),
        _ => given.or(NightCaps::of(&wanted.file)),
    };
    caps.enter(contract);
    let is_new_time = stored.is_none_or(|stored| stored.until != contract.until);
    Some(Tonight {
        begins,
        is_typed,
        caps,
        anew: if is_typed { NightCaps::default() } else { given },
        budget: wanted.given.budget,
        until: wanted.given.until.is_some() && (!is_typed || is_new_time),
    })
}

/// The notice that a typed `ar run` continues the last night.
pub(crate) fn continued_notice(tonight: &Tonight, journal: Option<&Journal>) -> Option<String> {
    let night = journal?.expenses.last_night().filter(|_| tonight.is_typed && !tonight.begins)?;
    Some(format!(
        "continued the night begun at {}, as its last loop was cut short; its experiments count",
        moment_text(night.began)
    ))
}

/// The night that a session is in, or was in last. One of an earlier version began with the session.
fn night_before(journal: Option<&Journal>, contract: &Contract) -> Option<Night> {
    let Journal { presence, expenses, .. } = journal?;
    // After the loss of a journal, all experiments count as one night.
    expenses.night_before(contract, presence.is_unseen() || presence.is_loop(), presence.night_end())
}

/// The night of a loop that is about to begin, by the journal before the loop is noted there.
pub(crate) fn entered_night(
    journal: &Journal,
    tonight: &Tonight,
    contract: &Contract,
    history: &History,
    clock: Clock,
) -> Night {
    let at = Moment {
        now: clock.now(),
        next: history.next_sequence(),
        budget: contract.budget,
        until: contract.until.map(|time| clock.next(time)),
    };
    Night::enter(night_before(Some(journal), contract), tonight, at)
}

/// Refuses several slots where each experiment needs the one before.
pub(crate) fn refuse_several(contract: &Contract, layout: Option<&Layout>) -> Result<(), UserError> {
    let is_serial = contract.keep_above.is_some() || is_research(contract);
    let refused = layout.map(|layout| layout.slots).filter(|slots| is_serial && *slots > 1);
    refused.map_or(Ok(()), |slots| {
        let text = format!(
            "research and --keep-above run on one slot, not {slots}: each iteration builds on what was kept before it"
        );
        Err(refuse(Usage, text).hint("omit --slots and --gpus, or pass --slots 1"))
    })
}

/// Refuses fresh runs where a threshold decides, whatever the best experiment is.
pub(crate) fn refuse_threshold(contract: &Contract) -> Result<(), UserError> {
    if contract.keep_above.is_none() || !is_confirmed(contract) {
        return Ok(());
    }
    let text = format!(
        "--decide {} compares with the best experiment, which a threshold (--keep-above, or research) does not",
        contract.decide
    );
    Err(refuse(Usage, text).hint("pass --decide once, or remove `decide` from ar.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{CommitId, Decide, Direction, MetricSource, MetricSpec};

    #[test]
    fn fresh_runs_decide_nothing_where_a_threshold_does() {
        let metric = MetricSpec { name: "loss".into(), direction: Direction::Lower, source: MetricSource::default() };
        let contract =
            Contract::new("t".parse().unwrap(), metric, "true".into(), CommitId::new("1"), Timestamp::UNIX_EPOCH);
        let contract = Contract { decide: Decide::Confirmed, ..contract };
        assert!(refuse_threshold(&contract).is_ok());
        let error = refuse_threshold(&Contract { keep_above: Some(0.5.into()), ..contract }).unwrap_err();
        assert_eq!(
            (error.kind, error.to_string().as_str(), error.hint.as_deref()),
            (
                Usage,
                "--decide confirmed compares with the best experiment, which a threshold (--keep-above, or research) does not",
                Some("pass --decide once, or remove `decide` from ar.toml")
            )
        );
    }
}
