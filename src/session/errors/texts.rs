//! Parts of messages and hints that depend on what went wrong.

use std::path::Path;

use super::command_role::CommandRole;
use super::session::SessionError;
use crate::agent::{PRESETS, Preset};
use crate::domain::{Drift, ExperimentId, Tag, few, nearest, shell_word};
use crate::ledger::LedgerError;

/// Returns the hint for a program that was not found.
pub(crate) fn missing_command(what: CommandRole, word: &str) -> String {
    if let (CommandRole::Agent, Some(preset)) = (what, Preset::named(word)) {
        return format!("{}; it needs {}", preset.install, preset.needs);
    }
    if what == CommandRole::Filter {
        return format!(
            "install {word}, which .gitattributes and `git config --get-regexp '^filter'` ask for: without it, git cannot \
             check out the files it is for"
        );
    }
    if what == CommandRole::OnEvent {
        return format!("the command runs in its own folder: use a full path, such as \"$AR_ROOT/{word}\"");
    }
    let mut hint = format!("check with `command -v {word}` in the repository's root, or name another {what}");
    if what == CommandRole::Agent {
        let names = PRESETS.map(|preset| preset.name);
        hint += &format!(", or one of {}", names.join(", "));
        if let Some(meant) = nearest(word, names) {
            hint = format!("did you mean --agent {meant}? {hint}");
        }
    }
    hint
}

/// Returns the hint for flags that differ from the approved contract.
pub(crate) fn drift_hint(drifts: &[Drift]) -> String {
    let variable = |flag: &str| format!("AR_{}", flag.trim_start_matches('-').to_uppercase().replace('-', "_"));
    let flags: Vec<_> = drifts.iter().filter_map(|drift| drift.flag.as_deref()).collect();
    let variables: Vec<_> = flags.iter().map(|flag| variable(flag)).collect();
    format!(
        "omit {} (or unset {}) to continue, or start another session with --tag",
        flags.join(", "),
        variables.join(", ")
    )
}

/// Returns the hint for a metric file that lacks axes of a composite.
pub(crate) fn pointer_hint(path: &Path) -> String {
    let path = shell_word(path);
    format!(
        "the pointer must name the JSON object that holds the axes, as in `--metric-file {path}:/axes`, or `--metric-file {path}` \
         for the whole document; ar computes the composite itself"
    )
}

/// Returns the hint for axes that are `missing` from a log, which `printed` others.
pub(crate) fn axes_hint(missing: &[String], printed: &[String]) -> String {
    let meant = missing.iter().find_map(|name| Some((name, nearest(name, printed)?)));
    let meant = meant.map(|(name, meant)| format!("did you mean {meant} for {name}? ")).unwrap_or_default();
    format!("{meant}name the axes in [composite] as the log prints them: {}", few(printed).join(", "))
}

/// Returns the hint for a failed import in the command.
pub(crate) fn import_hint(excerpt: &str, log: &Path) -> String {
    let module = excerpt.rsplit_once("No module named '").and_then(|(_, rest)| rest.split(['\'', '.']).next());
    match module.filter(|module| !module.is_empty()) {
        Some(module) => format!(
            "the command's Python has no module `{module}`: install it there (`uv add {module}` or `pip install \
                {module}`), or \
             run the command where it is installed, as in --cmd \"uv run train.py\""
        ),
        None => {
            format!("the command fails at an import: fix it or the installed versions; the log is {}", shell_word(log))
        }
    }
}

/// Terms that differ, as the end of a sentence about what was approved.
pub(crate) fn drifted(drifts: &[Drift], verb: &str) -> String {
    let term = |drift: &Drift| format!("{} `{}`, and now `{}` {verb}", drift.field, drift.approved, drift.found);
    drifts.iter().map(term).collect::<Vec<_>>().join("; ")
}

/// Lists changed terms as the end of such a sentence. Empty if none differ.
pub(crate) fn changed_terms(drifts: &[Drift]) -> String {
    if drifts.is_empty() { String::new() } else { format!(": {}", drifted(drifts, "stands there")) }
}

/// Returns the hint for a ledger that a session which is about to start cannot continue: it can still take the ledger's metric.
pub(crate) fn hint_before_start(error: &LedgerError) -> Option<String> {
    let hint = error.hint()?;
    Some(match error {
        LedgerError::OtherMetric { found, .. } => {
            format!("`--metric {}` continues it; or {hint}", shell_word(found.as_ref()))
        }
        _ => hint,
    })
}

/// Returns the hint for a session that is not among those that are `there`.
pub(crate) fn sessions_hint(tag: Option<&Tag>, there: &[Tag]) -> String {
    let meant = tag.and_then(|tag| nearest(tag.as_str(), there.iter().map(Tag::as_str)));
    let there = match there {
        [] => "start one with `ar run --metric NAME --cmd COMMAND`".into(),
        [only] => format!("the only session is {only}"),
        there => format!("the sessions are {}", there.iter().map(Tag::as_str).collect::<Vec<_>>().join(", ")),
    };
    meant.map_or(there.clone(), |meant| format!("did you mean {meant}? {there}"))
}

/// Returns the hint for an experiment that a session does not have, whose `last` one is that.
pub(crate) fn experiments_hint(tag: &str, name: &str, last: Option<ExperimentId>) -> String {
    match (last, name.parse::<u32>()) {
        (None, _) => format!("it has none yet; `ar status {tag}` tells more"),
        (Some(last), Ok(number)) if number < last.number() => {
            format!("a number without a record was given up, or is a run of winners; `ar log {tag}` lists all")
        }
        (Some(last), _) => format!("it has 0 to {last}; `ar log {tag}` lists them"),
    }
}

/// Returns the hint for the error that stopped a loop.
pub(crate) fn resume_hint(error: &SessionError) -> String {
    let resumes = matches!(error, SessionError::Exec(error) if error.hint_resumes());
    match error.hint() {
        Some(hint) if resumes => hint,
        Some(hint) => format!("{hint}; then run `ar resume` to continue"),
        None => "run `ar resume` to continue".into(),
    }
}
