//! The Python interpreters of a measuring command, as far as its words tell.

/// Programs installed beside the interpreter that they start.
const LAUNCHERS: [&str; 3] = ["torchrun", "accelerate", "deepspeed"];

/// Programs that start the interpreter of the project's own environment.
const RUNNERS: [&str; 5] = ["uv", "poetry", "pdm", "hatch", "rye"];

/// The places of that environment, relative to the root of the working tree.
const PROJECT_PYTHON: &str = ".venv/bin/python";

/// A Python interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Python {
    /// The one with this name or path.
    Named(String),
    /// The one beside the program with this name or path.
    Beside(String),
}

/// The interpreters that a command line names, each once. It does not parse like a shell: any word that is the name or path of
/// one counts, and words with characters other than letters, digits and `./_-+` do not.
pub fn pythons_of(command: &str) -> Vec<Python> {
    let mut pythons = Vec::new();
    let mut is_run = false;
    for word in command.split(|c: char| c.is_whitespace() || ";&|()<>".contains(c)) {
        if word.is_empty() || !word.chars().all(|c| c.is_ascii_alphanumeric() || "./_-+".contains(c)) {
            continue;
        }
        let name = word.rsplit('/').next().unwrap_or(word);
        let python = if RUNNERS.contains(&name) {
            is_run = true;
            Python::Named(PROJECT_PYTHON.into())
        } else if LAUNCHERS.contains(&name) && !is_run {
            Python::Beside(word.into())
        // A runner starts the project's interpreter, whatever its name.
        } else if is_python(name) && (!is_run || word.contains('/')) {
            Python::Named(word.into())
        } else {
            continue;
        };
        if !pythons.contains(&python) {
            pythons.push(python);
        }
    }
    pythons
}

/// `python`, `python3`, `python3.12`.
fn is_python(name: &str) -> bool {
    name.strip_prefix("python").is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_searched_for_the_interpreters_that_it_runs() {
        let python = |word: &str| Python::Named(word.into());
        for (command, pythons) in [
            ("sh train.sh", vec![]),
            ("python train.py > run.log 2>&1", vec![python("python")]),
            ("CUDA_VISIBLE_DEVICES=0 timeout 5m env/bin/python3.12 -u train.py", vec![python("env/bin/python3.12")]),
            ("uv run train.py", vec![python(PROJECT_PYTHON)]),
            ("cd x && uv run python train.py", vec![python(PROJECT_PYTHON)]),
            (
                "torchrun --nproc 8 train.py; python3 eval.py",
                vec![Python::Beside("torchrun".into()), python("python3")],
            ),
            ("(julia train.jl)|tee log", vec![]),
            ("\"$PY\" train.py; $(rm -rf python); pythonic python3x", vec![python("python")]),
        ] {
            assert_eq!(pythons_of(command), pythons, "{command}");
        }
    }
}
