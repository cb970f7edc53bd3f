//! What the help has beside the options: the commands in groups, and examples.

use clap::builder::StyledStr;
use clap::{Arg, Command, CommandFactory};

use super::Cli;

/// The commands, each in one group, as the help lists them.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Run experiments", &["init", "run", "try", "resume", "stop", "tell", "idea"]),
    ("Read results", &["status", "report", "log", "show", "diff", "brief", "extract", "score", "doctor"]),
    ("Check results", &["repro", "note", "rate"]),
    ("Watch over sessions", &["guard"]),
    ("Move results", &["restore", "finalize", "import", "export"]),
    ("Setup and help", &["demo", "completions", "man", "help", "version"]),
];

/// The commands, by name.
pub(crate) fn commands() -> Vec<&'static str> {
    GROUPS.iter().flat_map(|(_, commands)| commands.iter().copied()).collect()
}

/// A command line, and what it does.
pub(in crate::cli) type Example = (&'static str, &'static str);

/// Examples of a command; `ar` stands for the program itself.
pub(in crate::cli) fn examples(command: &str) -> &'static [Example] {
    match command {
        "ar" => &[
            (
                "Run experiments for a night",
                "ar run --metric val_bpb --cmd \"uv run train.py\" --agent claude --for 8h",
            ),
            ("See what happens now, and what was found", "ar status --watch; ar report"),
            ("Check that the best value comes back", "ar repro best"),
            ("Put what was kept on a clean branch", "ar finalize"),
            ("Try the loop on a built-in example", "ar demo"),
        ],
        "run" => &[
            (
                "Measuring: a metric that goes up",
                "ar run --metric accuracy --higher --cmd \"python train.py\" --timeout 30m",
            ),
            ("Agent: any command that edits files and exits", "ar run --agent \"claude -p\" --agent-timeout 15m"),
            (
                "Keeping: a minimum gain, a guard and a limit",
                "ar run --min-delta 0.001 --guard \"sh tests.sh\" --limit 'memory_gb<=40'",
            ),
            ("Changes: only the model may change", "ar run --scope 'model/**' --max-files 3"),
            (
                "Stopping: at seven in the morning or after 100 experiments",
                "ar run --until 07:00 --max-experiments 100",
            ),
            (
                "Session: a name of its own",
                "ar run --tag nov20-lr --metric val_bpb --cmd \"uv run train.py\" --agent codex",
            ),
        ],
        "try" => &[
            ("Measure the change in the working tree", "ar try -m \"warm up for 200 steps\" --direction warmup"),
            ("Return before a tool limit, then keep waiting", "ar try -m \"deeper\" --wait 9m; ar try --continue"),
        ],
        "resume" => &[
            ("Continue the session of the current branch", "ar resume"),
            ("Continue another one for two hours", "ar resume nov20 --for 2h"),
        ],
        "report" => &[
            ("Write a page for the browser", "ar report --format html > report.html"),
            ("Draw the chart of another tool's ledger", "ar report --ledger results.tsv --chart chart.svg"),
        ],
        "status" => &[
            ("Follow a session on the terminal", "ar status --watch"),
            ("See all sessions of this machine", "ar status --all"),
        ],
        "guard" => &[
            ("Restart what died, nudge the drivers of `ar try` sessions", "ar guard --nudge \"claude -p --continue\""),
            ("Patrol one repository, for a program", "ar guard ~/train --format json"),
            ("Have a patrol come each hour", "ar guard --install --dry-run; ar guard --install"),
        ],
        "stop" => {
            &[("Finish the current experiment, then stop", "ar stop"), ("Stop and roll back now", "ar stop --now")]
        }
        "tell" => &[
            ("Tell the next agent, also while the loop is active", "ar tell \"keep the batch size at 64\""),
            ("Tell every agent from now on", "ar tell --standing \"do not touch the tokenizer\""),
            ("List what no agent was told yet, drop one", "ar tell --list; ar tell --drop 2"),
        ],
        "log" => &[
            ("List the ten best experiments", "ar log --sort best --top 10"),
            (
                "Find what crashed for want of memory",
                "ar log --outcome crash --grep oom --columns id,failure,description",
            ),
        ],
        "show" => &[("Show the best experiment", "ar show best"), ("Read a whole log", "ar show 7 --log")],
        "diff" => &[
            ("Compare the baseline with the best experiment", "ar diff baseline best"),
            ("Compare experiments of two sessions", "ar diff nov19/best nov20/best"),
        ],
        "note" => &[("Note why a result is in doubt", "ar note 7 \"another job was on the GPU\"")],
        "rate" => &[
            ("Rate how good the result of a session is", "ar rate nov20 0.8"),
            ("Learn the weights of the axes from all ratings", "ar rate; ar report nov20 --weights"),
        ],
        "restore" => &[
            ("Check an experiment out in a new folder", "ar restore 7 --worktree ../seven"),
            ("Copy the files that the best run left", "ar restore best --artifacts ../best"),
        ],
        "repro" => &[("Rerun the best experiment with its data", "ar repro best --link data")],
        "finalize" => &[("Combine what was kept into one commit", "ar finalize --squash --branch better-training")],
        "import" => &[("See what would be imported", "ar import results.tsv --dry-run")],
        "export" => &[("Write the records as JSON lines", "ar export --to jsonl --output nov20.jsonl")],
        "brief" => &[("Read what an agent is told", "ar brief")],
        "idea" => &[
            ("Offer an idea to the agents", "ar idea add \"cosine schedule\" --direction schedule"),
            ("Offer a source to read", "ar idea add https://arxiv.org/abs/2309.06180 --kind source --score 0.8"),
            ("List the ideas, drop one", "ar idea list; ar idea drop 5"),
        ],
        "extract" => &[("Check that the metric is found in a log", "ar extract run.log --metric val_bpb")],
        "score" => &[
            ("See what a research artifact scores, and what would raise it", "ar score"),
            ("Read the axes in a program", "ar score --format json"),
        ],
        "doctor" => &[("Repair what needs no guess", "ar doctor --repair")],
        "init" => &[
            (
                "Write settings for a command and an agent",
                "ar init --metric val_bpb --cmd \"uv run train.py\" --agent claude",
            ),
            (
                "Begin a research session in an empty folder",
                "ar init --research \"How do servers manage memory?\" --subtopic Memory --subtopic Speed --type technical",
            ),
        ],
        "demo" => &[("Run the example in a folder", "ar demo /tmp/ar-demo")],
        "completions" => &[("Turn completions on in bash", "eval \"$(ar completions bash)\"")],
        "man" => &[("Install the manual pages", "ar man --dir ~/.local/share/man/man1")],
        "help" => &[("Read about one command", "ar help run")],
        "version" => &[("Print the version", "ar version")],
        _ => &[],
    }
}

/// The command line, with examples in the help of each command.
pub(crate) fn program() -> Command {
    let program = Cli::command();
    let names: Vec<String> = program.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let program = program.after_help(examples_text("ar"));
    names.into_iter().fold(program, |program, name| {
        let text = examples_text(&name);
        program.mut_subcommand(name, |command| {
            let is_shortened = command.get_arguments().any(Arg::is_hide_short_help_set);
            if !is_shortened {
                return command.after_help(text);
            }
            let more = format!("{}\n\n`ar {} --help` lists all settings.", text.ansi(), command.get_name());
            command.after_help(more).after_long_help(text)
        })
    })
}

/// The same with a help of its own, which lists the commands in groups.
pub(in crate::cli) fn with_groups(program: Command) -> Command {
    let mut built = program.clone();
    built.build();
    let header = *built.get_styles().get_header();
    let literal = *built.get_styles().get_literal();
    let width = built.get_subcommands().map(|command| command.get_name().len()).max().unwrap_or_default();
    let mut groups = String::new();
    for (heading, commands) in GROUPS {
        groups += &format!("{header}{heading}:{header:#}\n");
        for command in commands.iter().filter_map(|name| built.find_subcommand(name)) {
            let name = command.get_name();
            let about = match name {
                // What clap says of it is of any program.
                "help" => "Print help for a command".to_owned(),
                _ => command.get_about().map(ToString::to_string).unwrap_or_default(),
            };
            groups += &format!("  {literal}{name}{literal:#}{:pad$}  {about}\n", "", pad = width - name.len());
        }
        groups += "\n";
    }
    let template = format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{{all-args}}{{after-help}}");
    // Those are listed already.
    let flat = program.clone().help_template(template).override_usage("ar [OPTIONS] <COMMAND>");
    let mut flat = flat.disable_help_subcommand(true).mut_subcommands(|command| command.hide(true));
    let help = flat.render_long_help();
    program.override_help(help)
}

fn examples_text(command: &str) -> StyledStr {
    let styles = clap::builder::Styles::styled();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let mut text = String::new();
    for (what, line) in examples(command) {
        text += &format!("\n  {what}:\n    {literal}{line}{literal:#}");
    }
    match text.is_empty() {
        true => StyledStr::new(),
        false => format!("{header}Examples:{header:#}{text}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_in_one_group_and_has_an_example_that_parses() {
        let mut built = program();
        built.build();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, commands)| commands.iter().copied()).collect();
        let mut known: Vec<&str> = built.get_subcommands().map(Command::get_name).collect();
        listed.sort_unstable();
        known.sort_unstable();
        assert_eq!(listed, known);
        for name in known.into_iter().chain(["ar"]) {
            assert!(!examples(name).is_empty(), "{name}");
            for (_, line) in examples(name) {
                for line in line.split("; ").filter(|line| line.starts_with("ar ")) {
                    let words = shell_words(line);
                    if let Err(error) = program().try_get_matches_from(words) {
                        assert!(!error.use_stderr(), "{line}: {error}");
                    }
                }
            }
        }
    }

    /// The words of a line as a shell takes it apart, without `>` and what follows.
    fn shell_words(line: &str) -> Vec<String> {
        let line = line.split(" > ").next().unwrap_or_default();
        let (mut words, mut quote, mut word) = (Vec::new(), None, String::new());
        for c in line.chars() {
            match (c, quote) {
                ('"' | '\'', None) => quote = Some(c),
                (_, Some(open)) if c == open => quote = None,
                (' ', None) => words.push(std::mem::take(&mut word)),
                _ => word.push(c),
            }
        }
        words.push(word);
        words
    }
}
