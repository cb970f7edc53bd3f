//! The tools of a measuring command, as far as its words tell.

/// Programs whose answer to `--version` is recorded.
const VERSIONED: [&str; 6] = ["uv", "julia", "node", "bun", "cargo", "Rscript"];

/// Programs installed beside the interpreter that they start.
const LAUNCHERS: [&str; 3] = ["torchrun", "accelerate", "deepspeed"];

/// Programs that start the interpreter of the project's own environment.
const RUNNERS: [&str; 5] = ["uv", "poetry", "pdm", "hatch", "rye"];

/// The places of that environment, relative to the root of the working tree.
const PROJECT_PYTHON: &str = ".venv/bin/python";

/// A program whose version may affect a command's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tool {
    /// The Python interpreter with this name or path.
    Python(String),
    /// The Python interpreter beside the program with this name or path.
    PythonBeside(String),
    /// The program with this name or path.
    Other(String),
}

/// The tools that a command line names, each once. It does not parse like a shell: any word that is the name or path of
/// a tool counts, and words with characters other than letters, digits and `./_-+` do not.
pub fn tools_of(command: &str) -> Vec<Tool> {
    let mut tools = Vec::new();
    let mut is_run = false;
    for word in command.split(|c: char| c.is_whitespace() || ";&|()<>".contains(c)) {
        if word.is_empty() || !word.chars().all(|c| c.is_ascii_alphanumeric() || "./_-+".contains(c)) {
            continue;
        }
        let name = word.rsplit('/').next().unwrap_or(word);
        let mut add = |tool: Tool| {
            if !tools.contains(&tool) {
                tools.push(tool);
            }
        };
        if VERSIONED.contains(&name) {
            add(Tool::Other(word.into()));
        }
        if RUNNERS.contains(&name) {
            is_run = true;
            add(Tool::Python(PROJECT_PYTHON.into()));
        } else if LAUNCHERS.contains(&name) && !is_run {
            add(Tool::PythonBeside(word.into()));
        // A runner starts the project's interpreter, whatever its name.
        } else if is_python(name) && (!is_run || word.contains('/')) {
            add(Tool::Python(word.into()));
        }
    }
    tools
}

/// `python`, `python3`, `python3.12`.
fn is_python(name: &str) -> bool {
    name.strip_prefix("python").is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(word: &str) -> Tool {
        Tool::Python(word.into())
    }

    #[test]
    fn a_command_is_searched_for_what_it_runs() {
        let uv = || Tool::Other("uv".into());
        for (command, tools) in [
            ("sh train.sh", vec![]),
            ("python train.py > run.log 2>&1", vec![python("python")]),
            ("CUDA_VISIBLE_DEVICES=0 timeout 5m env/bin/python3.12 -u train.py", vec![python("env/bin/python3.12")]),
            ("uv run train.py", vec![uv(), python(PROJECT_PYTHON)]),
            ("cd x && uv run python train.py", vec![uv(), python(PROJECT_PYTHON)]),
            (
                "torchrun --nproc 8 train.py; python3 eval.py",
                vec![Tool::PythonBeside("torchrun".into()), python("python3")],
            ),
            ("(julia train.jl)|tee log", vec![Tool::Other("julia".into())]),
            ("\"$PY\" train.py; $(rm -rf python); pythonic python3x", vec![python("python")]),
        ] {
            assert_eq!(tools_of(command), tools, "{command}");
        }
    }
}
