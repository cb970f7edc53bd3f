//! Parts of the help beside the options: the commands in groups, and examples.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use clap::builder::StyledStr;
use clap::{Arg, Command, CommandFactory};

use super::Cli;

/// The commands, each in one group, as the help lists them.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Run experiments", &["init", "run", "try", "resume", "stop", "tell", "idea", "mcp"]),
    ("Read results", &["status", "serve", "report", "log", "show", "diff", "brief", "extract", "score", "doctor"]),
    ("Check results", &["verify", "ablate", "repro", "note", "rate"]),
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

/// The examples of each command, as its help shows them; `ar` stands for the program itself.
static EXAMPLES: LazyLock<BTreeMap<&str, Vec<Example>>> = LazyLock::new(|| {
    let of_command = |paragraph: &'static str| {
        let (command, lines) = paragraph.split_once('\n').unwrap_or_default();
        let lines: Vec<&str> = lines.lines().map(str::trim).collect();
        (command, lines.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
    };
    include_str!("examples.txt").split("\n\n").map(of_command).collect()
});

/// Examples of a command.
pub(in crate::cli) fn examples(command: &str) -> &'static [Example] {
    EXAMPLES.get(command).map_or(&[], Vec::as_slice)
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
                // The text that clap has for it would fit any program.
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

    /// The words of a line as a shell takes it apart, up to a `>` or the end of a subshell.
    fn shell_words(line: &str) -> Vec<String> {
        let line = [" > ", ") | "].iter().fold(line, |line, end| line.split(end).next().unwrap_or_default());
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
