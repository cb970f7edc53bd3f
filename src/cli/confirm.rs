//! Showing the contract and asking once.

use std::io::BufRead;

use autoresearch::agent::protected_files;
use autoresearch::domain::{
    Contract, Ladder, MetricSource, count_of, duration_text, money_text, time_of_day_text, tokens_text,
};

use autoresearch::rules::has_no_end;

use super::output;

/// The contract as lines for a person.
pub(super) fn contract_lines(contract: &Contract) -> Vec<String> {
    let metric = &contract.metric;
    let mut lines = vec![
        format!("session   {} on branch {}", contract.tag, contract.tag.branch()),
        format!("from      {}", contract.start_text()),
        format!("metric    {}, {} is better", metric.name, metric.direction),
        format!("command   {}", contract.command),
        format!("agent     {}", contract.agent_text().unwrap_or_else(|| "none: an agent drives with `ar try`".into())),
        format!(
            "deadline  {} a run, {} a call of the agent",
            duration_text(contract.timeout),
            duration_text(contract.agent_timeout)
        ),
    ];
    match &metric.source {
        MetricSource::Log => {}
        MetricSource::Regex(pattern) => lines.push(format!("pattern   {pattern}")),
        source @ MetricSource::File { .. } => lines.push(format!("read from {source}")),
    }
    if contract.min_delta > 0.0 {
        lines.push(format!("kept      when better by more than {}", contract.min_delta));
    }
    if let Some(margin) = contract.simpler_wins {
        lines.push(format!("simpler   is kept within {margin} of the best one, and longer is not"));
    }
    lines.extend(contract.guards.iter().map(|guard| format!("guard     {guard}")));
    if !contract.limits.is_empty() {
        let limits: Vec<_> = contract.limits.iter().map(ToString::to_string).collect();
        lines.push(format!("limits    {}", limits.join(", ")));
    }
    if !contract.scope.is_empty() {
        lines.push(format!("scope     {}", contract.scope.join(", ")));
    }
    lines.push(format!("protected {}", protected_files(contract)));
    lines.extend(contract.on_event.iter().map(|command| format!("events    {command}")));
    lines.push(format!("rollback  what is not kept stays behind {}/", contract.tag.ref_prefix()));
    if contract.ladder == Ladder::Structural {
        lines.push("ladder    structural".into());
    }
    if contract.research {
        lines.push("research  outside the repository, at the second pivot in a row".into());
    }
    if let Some(goal) = contract.goal {
        lines.push(format!("goal      {goal}"));
    }
    if let Some(limit) = contract.max_experiments {
        lines.push(format!("at most   {}", count_of(limit, "experiment")));
    }
    if let Some(cost) = contract.max_cost {
        lines.push(format!("at most   {} for the agent's calls", money_text(cost)));
    }
    if let Some(tokens) = contract.max_tokens {
        lines.push(format!("at most   {} tokens in the agent's calls", tokens_text(tokens)));
    }
    if let Some(budget) = contract.budget {
        lines.push(format!("for       {}", duration_text(budget)));
    }
    if let Some(until) = contract.until {
        lines.push(format!("until     {}", time_of_day_text(until)));
    }
    if let Some(crashes) = contract.max_crashes {
        lines.push(format!("or until  {} in a row", count_of(crashes, "crash")));
    }
    if contract.stop_when_flagged {
        lines.push("until     it is flagged for review".into());
    }
    if contract.agent.is_some() && has_no_end(contract) {
        lines.push("until     no limit: stop it with Ctrl-C".into());
    }
    lines
}

/// Shows the contract and asks whether to start.
pub(super) fn confirm(contract: &Contract) -> bool {
    for line in contract_lines(contract) {
        output::line(&line);
    }
    output::text("start? [Y/n] ");
    let mut answer = String::new();
    // A terminal that is gone has said no.
    if std::io::stdin().lock().read_line(&mut answer).unwrap_or(0) == 0 {
        return false;
    }
    matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes")
}

#[cfg(test)]
mod tests {
    use autoresearch::domain::{CommitId, Direction, MetricSpec};

    use super::*;

    #[test]
    fn the_contract_says_where_the_session_starts() {
        let metric = MetricSpec { name: "loss".into(), direction: Direction::Lower, source: MetricSource::default() };
        let start = CommitId::new("1a2b3c4d5e6f");
        let created = jiff::Timestamp::UNIX_EPOCH;
        let mut contract = Contract::new("t".parse().unwrap(), metric, "true".into(), start, created);
        assert_eq!(contract_lines(&contract)[1], "from      1a2b3c4d");
        contract.started_from = Some("refs/heads/main".into());
        assert_eq!(contract_lines(&contract)[1], "from      main at 1a2b3c4d");
    }
}
