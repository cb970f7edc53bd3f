//! Showing the contract and asking once.

use std::io::BufRead;

use autoresearch::agent::protected_files;
use autoresearch::domain::{Contract, Direction};
use autoresearch::session::Plan;

use super::output;

/// The contract and the layout as lines for a person.
fn contract_lines(contract: &Contract, layout: Vec<String>) -> Vec<String> {
    let mut lines = vec![
        format!("session   {} on branch {}", contract.tag, contract.tag.branch()),
        format!("from      {}", contract.start_text()),
    ];
    lines.extend(contract.lines());
    lines.extend(layout);
    lines.push(format!("protected {}", protected_files(contract)));
    lines.push(format!("rollback  what is not kept stays behind {}/", contract.tag.ref_prefix()));
    if contract.agent.is_some() && !contract.ends_loop() {
        lines.push("until     no limit: stop it with Ctrl-C".into());
    }
    lines
}

/// Shows the contract and asks whether to start.
pub(super) fn confirm(plan: &Plan) -> bool {
    for line in contract_lines(plan.contract(), plan.layout_lines()) {
        output::line(&line);
    }
    matches!(answer("start? [Y/n] ").as_deref(), Some("" | "y" | "yes"))
}

/// Asks on a terminal which way a metric is better.
pub(super) fn ask_direction(metric: &str) -> Option<Direction> {
    match answer(&format!("is a lower or a higher {metric} better? [l/h] "))?.as_str() {
        "l" => Some(Direction::Lower),
        "h" => Some(Direction::Higher),
        word => Direction::stated(word),
    }
}

/// The answer in lower case; a terminal that is gone gives none.
pub(super) fn answer(question: &str) -> Option<String> {
    output::text(question);
    let mut answer = String::new();
    let length = std::io::stdin().lock().read_line(&mut answer).unwrap_or(0);
    (length > 0).then(|| answer.trim().to_lowercase())
}

#[cfg(test)]
mod tests {
    use autoresearch::domain::{CommitId, MetricSource, MetricSpec};

    use super::*;

    #[test]
    fn the_contract_says_where_the_session_starts() {
        let metric = MetricSpec { name: "loss".into(), direction: Direction::Lower, source: MetricSource::default() };
        let start = CommitId::new("1a2b3c4d5e6f");
        let created = jiff::Timestamp::UNIX_EPOCH;
        let mut contract = Contract::new("t".parse().unwrap(), metric, "true".into(), start, created);
        assert_eq!(contract_lines(&contract, Vec::new())[1], "from      1a2b3c4d");
        contract.started_from = Some("refs/heads/main".into());
        assert_eq!(contract_lines(&contract, Vec::new())[1], "from      main at 1a2b3c4d");
    }
}
