//! Which agent a loop calls whose session has none.

/// Facts about the agent of a loop that is about to start.
#[derive(Debug, Clone, Copy)]
pub struct AgentFacts<'a> {
    /// The session's agent setting.
    pub setting: AgentSetting,
    /// True if only the baseline is wanted.
    pub baseline_only: bool,
    /// The setting that asks for a loop in so many words.
    pub wish: Option<&'static str>,
    /// True if an installed agent may be chosen. False for a resumed session, which uses its stored settings.
    pub may_take: bool,
    /// The variable by which another agent tells its own commands that they are within its session.
    pub within: Option<&'static str>,
    /// The known agents that are installed, by name.
    pub installed: &'a [&'static str],
}

/// The agent setting of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentSetting {
    /// Its command line.
    Set,
    /// The user asked for none.
    Declined,
    /// Nothing.
    Open,
}

/// The source of a loop's agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopAgent {
    /// Nothing to decide: it is set, or only the baseline is asked for.
    Settled,
    /// The only one that is installed.
    Take(&'static str),
    /// There is none, so only the baseline is measured.
    BaselineOnly(AgentLack),
    /// There is none, and the setting asks for a loop.
    Refused(&'static str, AgentLack),
}

/// The reason why no installed agent is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentLack {
    /// The user asked for none.
    Declined,
    /// The variable says that another agent is calling.
    Within(&'static str),
    /// None or several are installed, or the session is resumed.
    NotSet,
}

/// Decides where the agent of a loop comes from.
pub fn loop_agent(facts: &AgentFacts) -> LoopAgent {
    if facts.setting == AgentSetting::Set || facts.baseline_only {
        return LoopAgent::Settled;
    }
    let lack = match (facts.within, facts.installed) {
        _ if facts.setting == AgentSetting::Declined => AgentLack::Declined,
        (None, [only]) if facts.may_take => return LoopAgent::Take(only),
        (Some(variable), [_, ..]) => AgentLack::Within(variable),
        (_, _) => AgentLack::NotSet,
    };
    match facts.wish {
        Some(setting) => LoopAgent::Refused(setting, lack),
        None => LoopAgent::BaselineOnly(lack),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARE: AgentFacts = AgentFacts {
        setting: AgentSetting::Open,
        baseline_only: false,
        wish: None,
        may_take: true,
        within: None,
        installed: &["claude"],
    };

    #[test]
    fn only_a_single_installed_agent_is_taken_and_never_against_a_word() {
        let wished = AgentFacts { wish: Some("for"), ..BARE };
        let within = Some("CLAUDECODE");
        for facts in [BARE, wished] {
            assert_eq!(loop_agent(&facts), LoopAgent::Take("claude"));
            assert_eq!(loop_agent(&AgentFacts { setting: AgentSetting::Set, ..facts }), LoopAgent::Settled);
            assert_eq!(loop_agent(&AgentFacts { baseline_only: true, installed: &[], ..facts }), LoopAgent::Settled);
            for (facts, lack) in [
                (AgentFacts { setting: AgentSetting::Declined, within, ..facts }, AgentLack::Declined),
                (AgentFacts { within, ..facts }, AgentLack::Within("CLAUDECODE")),
                (AgentFacts { within, installed: &[], ..facts }, AgentLack::NotSet),
                (AgentFacts { installed: &["aider", "claude"], ..facts }, AgentLack::NotSet),
                (AgentFacts { installed: &[], ..facts }, AgentLack::NotSet),
                (AgentFacts { may_take: false, ..facts }, AgentLack::NotSet),
            ] {
                let expected = match facts.wish {
                    Some(setting) => LoopAgent::Refused(setting, lack),
                    None => LoopAgent::BaselineOnly(lack),
                };
                assert_eq!(loop_agent(&facts), expected, "{facts:?}");
            }
        }
    }
}
