//! The agent's prompt.

use std::fmt::Write;

use super::{
    IN_BRIEF, IN_PROMPT, Memories, MergeRequest, Other, ReworkedExperiment, Room, SearchFinding, asked_again_text,
    coverage_text, directive_text, findings_text, last_call_text, last_failure, memories_text, merging_text,
    others_text, person_text, proposals_text, rework_text, second_look_text, unnamed_text,
};
use crate::domain::{
    Contract, Decide, Direction, Directive, ExperimentId, LastCall, Limit, Message, MetricSource, Outcome, Record,
    ReviewVerdict, RoleProposal, count_of, cut, duration_text, one_line,
};
use crate::rules::{History, directions_tried, is_research, why_not_kept};

/// The protocol for an agent. It comes first in every prompt; `ar init` also writes it as a new `program.md`.
pub const BUILT_IN_PROGRAM: &str = include_str!("../../program.md");

/// The same for sessions of research. What a claim, a source and a score are stands in the `program.md` that
/// `ar init --research` writes.
const RESEARCH_PROGRAM: &str = include_str!("research.md");

/// The number of recent experiments in the prompt.
const RECENT: usize = 20;

/// The most characters of a description in the prompt.
const DESCRIPTION: usize = 120;

/// The most bytes of the list of directions, and the most characters of a name in it.
const DIRECTIONS_BYTES: usize = 900;
const DIRECTION: usize = 60;

/// The most bytes of the goal, the contract and the end of a failed log in [`brief`]: with the lists above it stays
/// below 8 KB.
const BRIEF_GOAL: usize = 400;
const BRIEF_CONTRACT: usize = 1000;
const BRIEF_EXCERPT: usize = 600;

/// The most bytes of a word of the user in [`brief`].
const BRIEF_WORD: usize = 4096;

/// The parts of one prompt.
#[derive(Debug, Clone, Copy)]
pub struct Briefing<'a> {
    /// The session's contract.
    pub contract: &'a Contract,
    /// The experiments so far.
    pub history: &'a History,
    /// The number of the next experiment.
    pub experiment: ExperimentId,
    /// Calls in a row that changed nothing.
    pub idle_calls: u32,
    /// More about the last call.
    pub last_call: &'a LastCall,
    /// The memories beside the experiments.
    pub memories: &'a Memories,
    /// The required difference from earlier experiments.
    pub directive: Directive,
    /// In research, the sub-topics with their supported claims, the least covered first.
    pub coverage: &'a [(String, usize)],
    /// Results of search commands for the directive.
    pub found: &'a [SearchFinding],
    /// The tried direction that the agent just named, if it is asked once more.
    pub asked_again: Option<&'a str>,
    /// The experiment for which the agent is called again; absent for a new one.
    pub reworked: Option<ReworkedExperiment<'a>>,
    /// The experiments that are open beside it.
    pub others: &'a [Other],
    /// The change for the agent to merge, if it is called for that.
    pub merging: Option<&'a MergeRequest>,
    /// The proposals for a pivot.
    pub proposals: &'a [RoleProposal],
    /// The user's messages.
    pub words: &'a [Message],
    /// The end of the last experiment's log, if it failed.
    pub failed_log: &'a str,
    /// True if the session has reached its limit of experiments.
    pub is_full: bool,
}

/// Writes the prompt for one agent call. `program` is the repository's own `program.md`, if it has one.
pub fn prompt(program: Option<&str>, briefing: &Briefing<'_>) -> String {
    let protocol = if is_research(briefing.contract) { RESEARCH_PROGRAM } else { BUILT_IN_PROGRAM }.trim_end();
    let goals = program.map(goals_text).unwrap_or_default();
    let mut text = format!("{protocol}\n\n{goals}{}", task_spec(briefing.contract));
    text += &standing(briefing, usize::MAX, IN_PROMPT);
    text += &person_text(briefing.words, usize::MAX);
    text += "\n## Now\n\n";
    match (&briefing.reworked, briefing.merging) {
        (_, Some(merging)) => text += &merging_text(merging),
        (Some(reworked), None) => text += &rework_text(reworked),
        (None, None) => {
            let _ = writeln!(text, "Make the change for experiment {}, then exit.", briefing.experiment);
        }
    }
    text
}

/// The repository's `program.md` as goals and constraints: it follows the protocol and cannot replace it. Empty if it
/// adds nothing to the protocol.
fn goals_text(program: &str) -> String {
    let program = program.trim();
    let own = program.strip_prefix(BUILT_IN_PROGRAM.trim()).unwrap_or(program).trim();
    if own.is_empty() {
        return String::new();
    }
    format!(
        "# Goals and constraints of this repository\n\n\
         This is the repository's program.md. Take from it what to improve, what you may edit and what must hold. Where it \
         disagrees with the protocol above, the protocol holds. Where it says to loop, commit, run, log, reset or never \
         stop, `ar` does that: make one change, then exit.\n\n{own}\n\n# This session\n\n"
    )
}

/// The prompt without the protocol, for an agent that drives by itself or, with `is_called`, for one change; always
/// below 8 KB beside what the user says.
pub fn brief(briefing: &Briefing<'_>, is_called: bool) -> String {
    let mut text = head(&goal_spec(briefing.contract), BRIEF_GOAL);
    text += &head(&contract_spec(briefing.contract), BRIEF_CONTRACT);
    text += &standing(briefing, BRIEF_EXCERPT, IN_BRIEF);
    text += &person_text(briefing.words, BRIEF_WORD);
    let (experiment, made) = (briefing.experiment, briefing.history.experiments());
    let now = match briefing.is_full {
        true => {
            format!("The session reached its limit of {}: change nothing, and stop here.", count_of(made, "experiment"))
        }
        _ if is_called => format!("Make the change for experiment {experiment}, then exit."),
        _ => format!(
            "Make the change for experiment {experiment}, then hand it over: `ar try -m \"what it changes\" --direction \
             NAME`. It commits, measures, and keeps or undoes the change; its answer says which, and what to do next. \
             `ar show N` shows an earlier experiment with its change and the end of its log."
        ),
    };
    let _ = writeln!(text, "\n## Now\n\n{now}");
    text
}

/// The state of the session and its consequences for the next experiment. Shows `excerpt` bytes of a failed log, and as
/// many lessons as fit into `room`.
pub(super) fn standing(briefing: &Briefing<'_>, excerpt: usize, room: Room) -> String {
    let Briefing { contract, history, directive, .. } = *briefing;
    let mut text = String::from("\n## Where the session stands\n\n");
    if let Some(record) = history.baseline() {
        let _ = writeln!(text, "- baseline: {}", value(record));
    }
    if let Some(record) = history.incumbent() {
        let commit = record.commit.short(8);
        let what = cut(&record.description, DESCRIPTION);
        let _ = writeln!(text, "- incumbent: {} (experiment {}, commit {commit}): {what}", value(record), record.id);
        if let Some(doubt) = record.open_review().filter(|review| review.verdict != ReviewVerdict::Unreviewed) {
            let says = cut(&doubt.sentence(), DESCRIPTION);
            let _ = writeln!(text, "- a reviewer says of the incumbent: {says}; take out what it doubts");
        }
    }
    if let Some(best) = history.best_kept().filter(|best| history.best().is_some_and(|(_, number)| number != *best)) {
        let margin = "; no simplification may fall further behind it than the margin";
        let _ = writeln!(text, "- best ever kept: {best}{}", contract.simpler_wins.as_ref().map_or("", |_| margin));
    }
    let _ = writeln!(
        text,
        "- experiments so far: {}; since the last keep: {}",
        history.experiments(),
        history.since_keep()
    );
    text += &second_look_text(contract, history);
    let rows = recent_rows(history, room);
    if !rows.is_empty() {
        let name = cut(&contract.metric.name, DIRECTION);
        let _ = write!(text, "\n| # | outcome | {name} | what | why not kept |\n|---|---|---|---|---|\n{rows}");
    }
    if let Some(record) = history.records().last().filter(|last| !last.is_second_look())
        && briefing.reworked.is_none()
        && briefing.merging.is_none()
    {
        text += &last_failure(contract, record, briefing.failed_log, excerpt);
    }
    text += &coverage_text(contract, history, briefing.coverage);
    text += &others_text(contract, briefing.others);
    text += &directions(history, directive.wants_new_direction());
    text += &memories_text(briefing.memories, room);
    let directive = match directive {
        // The search commands look outside for it.
        Directive::Pivot { perturbation, .. } if !contract.allow_search => {
            Directive::Pivot { perturbation, research: false }
        }
        directive => directive,
    };
    if let Some(words) = directive_text(directive, contract, history) {
        let _ = writeln!(text, "\n## Directive\n\n{words}");
    }
    text += &findings_text(briefing.found);
    text += &proposals_text(briefing.proposals);
    text += &unnamed_text(contract, history);
    if let Some(direction) = briefing.asked_again {
        let _ = writeln!(text, "\n{}", asked_again_text(direction));
    }
    text + &last_call_text(briefing.idle_calls, briefing.last_call)
}

/// The newest experiments as table rows, oldest first.
fn recent_rows(history: &History, room: Room) -> String {
    let mut rows: Vec<String> = Vec::new();
    let mut bytes = 0;
    for record in history.records().iter().rev().take(RECENT) {
        let outcome = match &record.failure {
            Some(failure) if record.outcome == Outcome::Crash => failure.class.to_string(),
            _ => record.outcome.to_string(),
        };
        let cell = |text: &str, chars| cut(text, chars).replace('|', "\\|");
        let what = cell(&record.description, DESCRIPTION);
        let why = cell(&why_not_kept(record).unwrap_or_default(), room.why);
        let row = format!("| {} | {outcome} | {} | {what} | {why} |\n", record.id, value(record));
        bytes += row.len();
        if bytes > room.recent && !rows.is_empty() {
            break;
        }
        rows.push(row);
    }
    rows.into_iter().rev().collect()
}

/// The directions tried. With `all`, it names as many as possible.
fn directions(history: &History, all: bool) -> String {
    let tried = directions_tried(history.records());
    let Some(metric) = history.records().first().map(|record| &record.metric.name) else { return String::new() };
    if tried.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n## Directions tried, the newest first\n\n");
    let end = text.len() + if all { DIRECTIONS_BYTES / 2 } else { DIRECTIONS_BYTES };
    let mut rest = tried.iter().peekable();
    while let Some(known) = rest.next_if(|_| text.len() < end) {
        let name = cut(&known.direction, DIRECTION);
        let _ = write!(text, "- {name}: {}, {} kept", count_of(known.experiments, "experiment"), known.kept);
        let _ = match &known.best {
            Some(best) => writeln!(text, ", best {} {best}", cut(metric, DIRECTION)),
            None => writeln!(text, ", no number"),
        };
    }
    let end = end + DIRECTIONS_BYTES / 2;
    let mut named = Vec::new();
    let mut bytes = text.len();
    while let Some(known) = rest.next_if(|_| all && bytes < end) {
        named.push(cut(&known.direction, DIRECTION));
        bytes += named.last().map_or(0, String::len) + 2;
    }
    if !named.is_empty() {
        let _ = writeln!(text, "- and {}", named.join(", "));
    }
    let left = rest.count();
    if left > 0 {
        let _ = writeln!(text, "- and {left} more, in directions_tried.json in the session's state folder");
    }
    text
}

/// The session's goal and contract in prose; also `state/task_spec.md`.
pub fn task_spec(contract: &Contract) -> String {
    goal_spec(contract) + &contract_spec(contract)
}

/// The goal in the user's words, else by the metric.
pub fn goal_sentence(contract: &Contract) -> String {
    let verb = match contract.metric.direction {
        Direction::Lower => "Lower",
        Direction::Higher => "Raise",
    };
    let goal = contract.goal_text.as_deref().map(str::trim).filter(|text| !text.is_empty());
    goal.map_or_else(|| format!("{verb} {}.", contract.metric.name), str::to_owned)
}

/// The goal, with milestones and what counts as success.
fn goal_spec(contract: &Contract) -> String {
    let mut text = format!("## The goal\n\n{}\n", goal_sentence(contract));
    for (what, items) in [("Milestones", &contract.milestones), ("Success criteria", &contract.success)] {
        if !items.is_empty() {
            let items: String = items.iter().map(|item| format!("- {}\n", one_line(item))).collect();
            let _ = write!(text, "\n{what}:\n\n{items}");
        }
    }
    text + "\n"
}

/// The contract in prose, an item for each of its terms.
fn contract_spec(contract: &Contract) -> String {
    let metric = &contract.metric;
    let source = match &metric.source {
        MetricSource::Log => None,
        MetricSource::Regex(pattern) => Some(format!("- read from the log with the pattern: {pattern}")),
        MetricSource::File { path, pointer } => Some(format!("- read from the file: {}:{pointer}", path.display())),
    };
    let silence = contract.caps.silence.map(duration_text);
    let axes = contract.deciding_composite();
    let kept = match &contract.keep_above {
        Some(threshold) => format!("reaches {threshold}, regardless of earlier keeps"),
        None if contract.min_delta.value(None) > 0.0 => format!("is better by more than: {}", contract.min_delta),
        None if contract.decide != Decide::Once => {
            "is probably better, as fresh runs after its first one say".to_owned()
        }
        None => "is strictly better".to_owned(),
    };
    let measuring = [
        Some(format!("- session: {}, on branch {}", contract.tag, contract.tag.branch())),
        Some(format!("- metric: {} ({} is better)", metric.name, metric.direction)),
        source,
        Some(format!("- command: {}", contract.command)),
        Some(format!("- time limit per run: {}", duration_text(contract.timeout))),
        silence.map(|limit| format!("- a run that prints nothing and does nothing is ended after: {limit}")),
        axes.map(|axes| format!("- ar computes {} from the axes that the command prints: {axes}", metric.name)),
        Some(format!("- a change is kept when it {kept}")),
        contract.simpler_wins.as_ref().map(|margin| {
            format!(
                "- where it is within {margin} of the incumbent instead: kept when it deletes more lines than it adds, \
                 and not when it adds more"
            )
        }),
    ];
    let guard = |guard: &String| format!("- guard, which must pass before a change is kept: {}", one_line(guard));
    let reviewer =
        "- an independent reviewer sees each change before it is kept, and says whether its number was earned";
    let limit = |limit: &Limit| format!("- limit that a kept change must meet: {limit}");
    let scope = (!contract.scope.is_empty()).then(|| contract.scope.join(", "));
    // In research sources always come from outside.
    let searches = contract.allow_search && !is_research(contract);
    let changing = [
        scope.map(|files| format!("- files that you may edit: {files}")),
        Some(format!("- files that you may not edit: {}", protected_files(contract))),
        contract.max_files.map(|limit| format!("- files that one experiment may change: {limit}")),
        contract.max_file_lines.map(|limit| format!("- lines of one file that one experiment may change: {limit}")),
        contract
            .caps
            .max_file_total
            .map(|limit| format!("- lines that a file may have which you add or change: {limit}")),
        contract.caps.agent_rounds.map(|limit| format!("- rounds of this call: {limit}; then it is terminated")),
        searches.then(|| "- ideas from outside the repository: allowed where a directive says so".to_owned()),
        contract.goal.as_ref().map(|goal| format!("- goal: {goal}")),
        contract.max_experiments.map(|limit| format!("- experiments: at most {limit} in a night")),
    ];
    let terms = measuring.into_iter().flatten().chain(contract.guards.iter().map(guard));
    let terms = terms.chain(contract.reviewer.iter().map(|_| reviewer.to_owned()));
    let terms = terms.chain(contract.limits.iter().map(limit)).chain(changing.into_iter().flatten());
    terms.fold(String::from("## The contract\n\n"), |text, term| text + &term + "\n")
}

/// The files that no experiment may change, in words. The defaults after the contract's globs may change if the scope
/// names them.
pub fn protected_files(contract: &Contract) -> String {
    let named = match (contract.scope.is_empty(), contract.guards.is_empty()) {
        (true, true) => None,
        (true, false) => Some("what the guards name"),
        (false, true) => Some("what the command names"),
        (false, false) => Some("what the command and the guards name"),
    };
    let asked = contract.protect.iter().map(String::as_str);
    let files: Vec<&str> = asked.chain(["prepare.py", "ar.toml", "program.md", "lock files"]).chain(named).collect();
    files.join(", ")
}

/// The value of an experiment; of a car of a train the experiment that has the value of all.
pub(super) fn value(record: &Record) -> String {
    let own = || record.metric.number().map_or("-".into(), |number| number.raw);
    record.number_of().map_or_else(own, |last| format!("with {last}"))
}

/// The first lines of a text, at most `bytes` of it.
fn head(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = (0..=bytes).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…\n(all of it is in task_spec.md in the session's state folder)\n", &text[..end])
}
