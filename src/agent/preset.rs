//! Known agent programs: how each is called, from which files it takes instructions, and what its transcript shows.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::domain::{Contract, ExperimentId, Number, WordList, shell_word, word_list};
use crate::fs::read_tail;
use crate::measure::{plain_text, summary_number};
use crate::rules::Reports;

/// A known agent program and its unattended command line: it reads the prompt, edits files without asking, and exits.
#[derive(Debug, PartialEq, Eq)]
pub struct Preset {
    /// The name of the program, and for `--agent`.
    pub name: &'static str,
    /// The command line, for `sh -c`.
    pub command: &'static str,
    /// The command that installs it.
    pub install: &'static str,
    /// The login or key that it needs.
    pub needs: &'static str,
    /// The data that it reports about its calls, in its machine-readable mode if it has one.
    pub reports: Reports,
    /// The options that let it edit files without asking.
    pub permission: &'static str,
    /// The way to limit its rounds.
    rounds: RoundLimit,
}

/// The way to limit the rounds of an agent's call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RoundLimit {
    /// An option of its own, followed by a number. Its stream shows the rounds.
    Option(&'static str),
    /// There is no option, but its stream shows the rounds.
    Told,
    /// Not at all.
    Unknown,
}

/// All presets, sorted by name. The options fit aider 0.86, claude 2.1, codex 0.169, gemini 0.61 and opencode 1.18;
/// `tests/real_agent/run` calls each of them. Those of agy, which is Antigravity's, and of copilot are as documented.
pub const PRESETS: [Preset; 7] = [
    Preset {
        name: "agy",
        // The prompt is an argument, unless it is longer than the kernel lets one be. Its own limit of five minutes is lifted:
        // `--agent-timeout` ends a call.
        command: "agy -p \"$(if [ $(wc -c <\"$AR_PROMPT\") -lt 120000 ]; then cat; else echo \"Do what $AR_PROMPT says.\"; fi)\" \
                  --dangerously-skip-permissions --add-dir \"$AR_RUN_DIR\" --print-timeout 24h",
        install: "curl -fsSL https://antigravity.google/cli/install.sh | bash",
        needs: "a login, made by calling `agy` once",
        reports: Reports::Nothing,
        permission: "--dangerously-skip-permissions",
        rounds: RoundLimit::Unknown,
    },
    Preset {
        name: "aider",
        // The options turn off questions, fetching of URLs in the prompt, writing beside the change, and the summary of
        // a conversation that nobody continues. The history of the call goes to the experiment's folder. It commits,
        // because the subject describes the change.
        command: "aider --yes-always --message-file \"$AR_PROMPT\" --no-dirty-commits --no-gitignore --no-detect-urls \
                  --no-suggest-shell-commands --no-check-update --no-show-release-notes --no-show-model-warnings \
                  --no-analytics --no-stream --no-pretty --max-chat-history-tokens 100000 \
                  --chat-history-file \"$AR_RUN_DIR/aider.md\" --input-history-file \"$AR_RUN_DIR/aider.input\"",
        install: "python3 -m pip install aider-chat",
        needs: "a model and its key, such as AIDER_MODEL and OPENAI_API_KEY",
        reports: Reports::Cost,
        permission: "--yes-always",
        rounds: RoundLimit::Unknown,
    },
    Preset {
        name: "claude",
        command: "claude -p --dangerously-skip-permissions --output-format stream-json --verbose",
        install: "npm install -g @anthropic-ai/claude-code",
        needs: "a login, made by calling `claude` once, or ANTHROPIC_API_KEY; as root also IS_SANDBOX=1",
        reports: Reports::Cost,
        permission: "--dangerously-skip-permissions",
        rounds: RoundLimit::Option("--max-turns"),
    },
    Preset {
        name: "codex",
        // The sandbox lets it write in the working tree; in a linked one, the proposal is elsewhere.
        command: "codex exec --json --sandbox workspace-write --add-dir \"$AR_RUN_DIR\" --skip-git-repo-check -",
        install: "npm install -g @openai/codex",
        needs: "a login, made with `codex login`, or CODEX_API_KEY",
        reports: Reports::Tokens,
        permission: "--sandbox workspace-write",
        rounds: RoundLimit::Unknown,
    },
    Preset {
        name: "copilot",
        command: "copilot -s --no-ask-user --allow-all-tools --add-dir \"$AR_RUN_DIR\"",
        install: "npm install -g @github/copilot",
        needs: "a login, made with `copilot login`, or COPILOT_GITHUB_TOKEN",
        reports: Reports::Nothing,
        permission: "--allow-all-tools",
        rounds: RoundLimit::Unknown,
    },
    Preset {
        name: "gemini",
        command: "gemini --approval-mode yolo --skip-trust --output-format stream-json",
        install: "npm install -g @google/gemini-cli",
        needs: "a login, made by calling `gemini` once, or GEMINI_API_KEY",
        reports: Reports::Tokens,
        permission: "--approval-mode yolo",
        rounds: RoundLimit::Told,
    },
    Preset {
        name: "opencode",
        command: "opencode run --auto --format json",
        install: "npm install -g opencode-ai",
        needs: "a login, made with `opencode auth login`, or the key of a provider, and a model in opencode.json",
        reports: Reports::Cost,
        permission: "--auto",
        rounds: RoundLimit::Told,
    },
];

impl Preset {
    /// The preset with this name, if the text is one word.
    pub fn named(name: &str) -> Option<&'static Preset> {
        PRESETS.iter().find(|preset| preset.name == name.trim())
    }
}

/// The word for `--agent` that asks for none.
pub const NO_AGENT: &str = "none";

/// The variables by which agents tell the commands that they run where these run.
const WITHIN: [&str; 8] = [
    "CLAUDECODE",
    "CODEX_SANDBOX",
    "CODEX_THREAD_ID",
    "GEMINI_CLI",
    "OPENCODE",
    "CURSOR_AGENT",
    "AI_AGENT",
    // Set for a loop's call, perhaps in another repository.
    "AR_PROPOSAL",
];

/// The variable that says that a command runs within an agent's session; `is_set` tells of each whether it is set.
pub fn within_agent(is_set: impl Fn(&str) -> bool) -> Option<&'static str> {
    WITHIN.into_iter().find(|name| is_set(name))
}

/// Resolves `--agent` for a contract: the command line, and the preset's name if it is one.
pub fn agent_terms(asked: &str) -> (Option<String>, Option<String>) {
    if asked.trim() == NO_AGENT {
        return (None, None);
    }
    match Preset::named(asked) {
        Some(preset) => (Some(preset.command.to_owned()), Some(preset.name.to_owned())),
        None => (Some(asked.to_owned()), None),
    }
}

/// The names of all presets, as a sentence lists them.
pub fn preset_names() -> String {
    let names = PRESETS.map(|preset| preset.name);
    names.split_last().map(|(last, rest)| format!("{} or {last}", rest.join(", "))).unwrap_or_default()
}

/// The data that a command line's program reports about its calls, judging by name and options.
pub fn reports(command: &str) -> Reports {
    in_its_mode(command).map_or(Reports::Nothing, |preset| preset.reports)
}

/// Returns whether a command line's program shows the rounds of a call while it works, judging by name and options.
pub fn tells_rounds(command: &str) -> bool {
    // `json` alone is one document at the end.
    let streams = |line: &str| line.contains("stream-json") || !line.contains("--output-format");
    in_its_mode(command).is_some_and(|preset| preset.rounds != RoundLimit::Unknown && streams(command))
}

/// The command line with a limit on the rounds of its call, if it is that of a preset and its program has an option for it.
pub fn with_rounds(command: &str, preset: Option<&str>, rounds: u32) -> String {
    match preset.and_then(Preset::named).map(|preset| preset.rounds) {
        Some(RoundLimit::Option(option)) => format!("{command} {option} {rounds}"),
        _ => command.to_owned(),
    }
}

/// The known program of a command line, if it is called in its machine-readable mode or has none.
fn in_its_mode(command: &str) -> Option<&'static Preset> {
    let has_mode = |line: &str| line.contains("json");
    Preset::named(program(command)).filter(|preset| has_mode(command) || !has_mode(preset.command))
}

/// Advice where an agent changes nothing in the folder `root`.
pub fn permission_hint(command: &str, root: &Path) -> String {
    let permission = Preset::named(program(command)).map(|preset| match command.contains(preset.permission) {
        true => format!("; {} got {}", preset.name, preset.permission),
        false => format!("; {} may edit files with {}", preset.name, preset.permission),
    });
    format!("check that it may write in {}{}", shell_word(root), permission.unwrap_or_default())
}

/// The name of a command line's program, after variable assignments.
fn program(command: &str) -> &str {
    let is_before = |word: &&str| *word == "env" || word.split('/').next().is_some_and(|name| name.contains('='));
    let program = command.split_whitespace().find(|word| !is_before(word)).unwrap_or_default();
    program.rsplit('/').next().unwrap_or_default()
}

/// The model that a known agent's command line names with `--model` or `-m`, which mean something else elsewhere.
pub fn model_in(command: &str) -> Option<&str> {
    Preset::named(program(command))?;
    let mut words = command.split_whitespace();
    let model = words.find_map(|word| match word {
        "--model" | "-m" => Some(None),
        word => word.strip_prefix("--model=").map(Some),
    })?;
    model.or_else(|| words.next()).map(|model| model.trim_matches(['"', '\''])).filter(|model| !model.is_empty())
}

/// One call of the agent, by its files.
#[derive(Debug, Clone)]
pub struct AgentCommand {
    /// The folder of the experiment's runs.
    pub folder: PathBuf,
}

impl AgentCommand {
    /// The prompt, which is also the agent's standard input.
    pub fn prompt(&self) -> PathBuf {
        self.folder.join("prompt.md")
    }

    /// The agent's output.
    pub fn log(&self) -> PathBuf {
        self.folder.join("agent.log")
    }

    /// The agent's proposal.
    pub fn proposal(&self) -> PathBuf {
        self.folder.join("proposal.json")
    }
}

/// The variables for an agent.
pub fn variables(
    contract: &Contract,
    experiment: ExperimentId,
    base: &str,
    state: &Path,
    call: &AgentCommand,
    baseline: Option<&Number>,
    best: Option<&Number>,
) -> Vec<(String, String)> {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let number = |number: Option<&Number>| number.map(Number::to_string).unwrap_or_default();
    [
        ("AR_TAG", contract.tag.to_string()),
        ("AR_EXPERIMENT", experiment.to_string()),
        ("AR_METRIC", contract.metric.name.clone()),
        ("AR_DIRECTION", contract.metric.direction.to_string()),
        ("AR_BEST", number(best)),
        ("AR_BASELINE", number(baseline)),
        ("AR_BASE", base.to_owned()),
        ("AR_STATE_DIR", path(state)),
        ("AR_RUN_DIR", path(&call.folder)),
        ("AR_PROMPT", path(&call.prompt())),
        ("AR_PROPOSAL", path(&call.proposal())),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// Files and folders, wherever they stand in a repository, from which `claude`, `codex`, `gemini`, `opencode`, `aider` and
/// others read instructions or settings as they start, by their own documentation.
static NAMES: WordList = WordList::new(|| word_list(include_str!("lists/instructions.txt")));

/// Returns whether an agent may take a file for instructions to itself, by the names on its path. Ignores case, as some
/// disks do.
pub fn instructs_agents(path: &Path) -> bool {
    let mut names = path.iter();
    names.any(|part| NAMES.iter().any(|name| part.eq_ignore_ascii_case(name)))
}

/// The numbers of a metric in the end of `log` after byte `from`, from lines that consist of name and number, as a training
/// prints them. Agents that report in JSON have such lines in their strings.
pub fn printed_numbers(log: &Path, from: u64, metric: &str) -> Vec<Number> {
    let tail = read_tail(log, from).unwrap_or_default();
    let mut numbers = Vec::new();
    let mut take = |text: &str| numbers.extend(text.lines().filter_map(|line| summary_number(line, metric)));
    let mut rest = Vec::new();
    for line in tail.split_inclusive(|byte| *byte == b'\n') {
        match serde_json::from_slice::<Value>(line) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => each_text(&value, &mut take),
            _ => rest.extend_from_slice(line),
        }
    }
    take(&plain_text(&rest));
    numbers
}

/// Passes each string in a document to `take`.
fn each_text(value: &Value, take: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => take(text),
        Value::Array(items) => items.iter().for_each(|item| each_text(item, take)),
        Value::Object(fields) => fields.values().for_each(|field| each_text(field, take)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bare_name_is_a_preset() {
        for (text, name) in [
            ("claude", Some("claude")),
            (" opencode\n", Some("opencode")),
            ("./claude", None),
            ("claude -p", None),
            ("Claude", None),
            ("", None),
        ] {
            assert_eq!(Preset::named(text).map(|preset| preset.name), name, "{text:?}");
        }
    }

    #[test]
    fn a_command_line_tells_what_is_reported_and_of_which_model() {
        for preset in &PRESETS {
            assert_eq!(reports(preset.command), preset.reports, "{}", preset.name);
        }
        assert_eq!(reports("../bin/claude -p --output-format json"), Reports::Cost);
        assert_eq!(reports("env IS_SANDBOX=1 claude -p --output-format json"), Reports::Cost);
        assert_eq!([reports("claude -p"), reports("sh agent.sh"), reports("")], [Reports::Nothing; 3]);
        for (command, model) in [
            ("codex exec --json -m gpt-5 -", Some("gpt-5")),
            ("aider --model=\"openai/x\"", Some("openai/x")),
            ("opencode run --model 'a/b'", Some("a/b")),
            ("IS_SANDBOX=1 claude -p --model opus", Some("opus")),
            ("claude -p --model", None),
            ("python3 -m myagent", None),
            ("sh agent.sh", None),
        ] {
            assert_eq!(model_in(command), model, "{command}");
        }
    }

    #[test]
    fn an_agent_that_changes_nothing_is_told_by_which_option_it_may() {
        let hint = |command| permission_hint(command, Path::new("/a b"));
        assert_eq!(hint("sh agent.sh"), "check that it may write in '/a b'");
        assert_eq!(
            hint("claude -p --model opus"),
            "check that it may write in '/a b'; claude may edit files with --dangerously-skip-permissions"
        );
        let copilot = hint(Preset::named("copilot").unwrap().command);
        assert_eq!(copilot, "check that it may write in '/a b'; copilot got --allow-all-tools");
    }

    #[test]
    fn rounds_are_limited_by_an_option_or_counted_where_the_stream_tells_them() {
        let line = |name: &str| Preset::named(name).unwrap().command;
        for (command, tells) in [
            (line("claude"), true),
            (line("gemini"), true),
            (line("opencode"), true),
            (line("codex"), false),
            (line("aider"), false),
            ("claude -p --output-format json", false),
            ("claude -p", false),
            ("sh agent.sh", false),
        ] {
            assert_eq!(tells_rounds(command), tells, "{command}");
        }
        assert_eq!(with_rounds("claude -p", Some("claude"), 15), "claude -p --max-turns 15");
        assert_eq!(with_rounds("claude -p | tee log", None, 15), "claude -p | tee log");
        assert_eq!(with_rounds(line("gemini"), Some("gemini"), 15), line("gemini"));
    }

    #[test]
    fn every_preset_calls_its_program_by_a_line_that_is_no_preset() {
        for preset in &PRESETS {
            assert_eq!(preset.command.split(' ').next(), Some(preset.name));
            assert_eq!(Preset::named(preset.command), None);
            assert!(!preset.command.contains("  ") && !preset.install.is_empty() && !preset.needs.is_empty());
            assert!(preset.command.contains(preset.permission), "{}", preset.name);
        }
        assert!(PRESETS.is_sorted_by_key(|preset| preset.name));
    }

    #[test]
    fn instructions_are_known_by_name_at_any_depth() {
        for path in ["CLAUDE.md", "src/agents.md", ".claude/hooks/a.sh", "a/.cursor/rules/b.mdc"] {
            assert!(instructs_agents(Path::new(path)), "{path}");
        }
        for path in ["README.md", "claude/model.py", "src/CLAUDE.md.py", ""] {
            assert!(!instructs_agents(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn lines_of_a_training_are_found_in_text_and_in_json_and_mentions_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("agent.log");
        let before = "val_bpb: 9.0\n";
        let text = "\u{1b}[1mval_bpb:          0.9979\u{1b}[0m\nI expect val_bpb: 0.95\nval_bpb: 1.2 is the best\n\
                    {\"type\":\"tool\",\"content\":[{\"text\":\"step 1\\nval_bpb: 0.9812\\nmfu: 3\"}]}\nval_bpb: nan\n";
        std::fs::write(&log, format!("{before}{text}")).unwrap();
        let raw = |from: usize| {
            let numbers = printed_numbers(&log, u64::try_from(from).unwrap(), "val_bpb");
            numbers.into_iter().map(|number| number.raw).collect::<Vec<_>>()
        };
        assert_eq!(raw(before.len()), ["0.9812", "0.9979"]);
        assert_eq!(printed_numbers(&folder.path().join("none"), 0, "val_bpb"), []);
    }
}
