//! The agent of `ar run` and `ar resume`, where none is set.

use std::path::Path;

use autoresearch::agent::preset_names;
use autoresearch::domain::{StopReason, shell_word};
use autoresearch::session::{LoopWish, NoAgent, Plan, SessionError};

use super::args::StreamFormat;
use super::error::CliError;
use super::output;

/// Gives a loop without an agent the only installed one, or says that it only measures the baseline: before the user is
/// asked whether to start, else with the first events.
pub(super) fn settle(plan: Plan, wish: LoopWish, may_ask: bool) -> Result<(Plan, Option<NoAgent>), CliError> {
    let (plan, no_agent) = plan.with_loop_agent(wish).map_err(with_line)?;
    let Some(lacking) = &no_agent else { return Ok((plan, None)) };
    if may_ask {
        output::note(&format!("note: {}", lacking.notice()));
        return Ok((plan, no_agent));
    }
    Ok((plan.note(lacking.notice()), no_agent))
}

/// Names the ways on, after a loop that had no agent.
pub(super) fn tell_ways_on(reason: &StopReason, no_agent: Option<&NoAgent>, format: StreamFormat) {
    if *reason != StopReason::NoAgent || format != StreamFormat::Table || output::manners().quiet {
        return;
    }
    let agent = no_agent.and_then(|lacking| lacking.installed().first()).copied().unwrap_or("COMMAND");
    output::line(&format!("continue with `ar run --agent {agent}`"));
    output::line("or from inside an agent: edit, then `ar try -m \"what it changes\"`");
}

/// The error with the line to type.
fn with_line(error: SessionError) -> CliError {
    let SessionError::NoAgentForLoop { no_agent, .. } = &error else { return error.into() };
    let typed = without_agent(std::env::args().skip(1));
    let typed: Vec<_> = typed.iter().map(|word| shell_word(Path::new(word))).collect();
    let line = |agent: &str| format!("`ar {} --agent {agent}`", typed.join(" "));
    let hint = match no_agent.installed() {
        [] => format!("run {}, or install {}", line("COMMAND"), preset_names()),
        [first, ..] => format!("run {}; for the baseline alone, pass --max-experiments 0", line(first)),
    };
    CliError::usage(error, hint)
}

/// The words of a command line without its flag `--agent`.
fn without_agent(words: impl Iterator<Item = String>) -> Vec<String> {
    let (mut kept, mut is_value) = (Vec::new(), false);
    for word in words {
        if std::mem::take(&mut is_value) || word.starts_with("--agent=") {
            continue;
        }
        is_value = word == "--agent";
        if !is_value {
            kept.push(word);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_to_type_has_one_agent() {
        let without = |line: &str| without_agent(line.split(' ').map(str::to_owned)).join(" ");
        assert_eq!(without("run --agent none --for 8h"), "run --for 8h");
        assert_eq!(without("run --for 8h --agent=none"), "run --for 8h");
        assert_eq!(without("run --agent-timeout 5m"), "run --agent-timeout 5m");
    }
}
