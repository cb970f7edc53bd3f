//! The files that a command line names.

use std::path::PathBuf;

/// A file that a command line names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    /// Its path, relative to the command's working directory.
    pub path: PathBuf,
    /// True for the script itself, without which nothing runs.
    pub is_script: bool,
}

/// Extensions of scripts, and of other files that commands read.
const SCRIPTS: [&str; 12] = ["py", "sh", "bash", "js", "mjs", "cjs", "ts", "rb", "pl", "R", "jl", "lua"];
const INPUTS: [&str; 9] = ["json", "jsonl", "yaml", "yml", "toml", "txt", "csv", "cfg", "ini"];

/// Parts of option names whose value is an output file.
const OUTPUTS: [&str; 6] = ["out", "save", "log", "write", "dump", "report"];

/// The relative paths in a command line that must exist as files, as far as its words tell. Empty if it changes the
/// directory, because they would be relative to another one.
pub fn named_files(line: &str) -> Vec<NamedFile> {
    let spaced = spaced(line);
    let words: Vec<&str> = spaced.split_whitespace().collect();
    if words.iter().any(|word| ["cd", "pushd", "-C", "--directory", "--chdir"].contains(word)) {
        return Vec::new();
    }
    let mut found: Vec<NamedFile> = Vec::new();
    let mut has_script = false;
    for (place, word) in words.iter().enumerate() {
        let before = place.checked_sub(1).map_or("", |place| words[place]);
        if [";", "|", "&", "(", ")"].contains(word) {
            has_script = false;
            continue;
        }
        let is_value = before.starts_with('-') && OUTPUTS.iter().any(|part| before.contains(part)) || before == "-o";
        if before == ">" || is_value || !is_plain(word) {
            continue;
        }
        let path = PathBuf::from(word.trim_start_matches("./"));
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let is_script = SCRIPTS.contains(&extension) && !has_script && !before.starts_with("--");
        has_script |= is_script;
        if (is_script || INPUTS.contains(&extension)) && found.iter().all(|known| known.path != path) {
            found.push(NamedFile { path, is_script });
        }
    }
    found
}

/// The words of a command line, and the values in them, that may be files of the repository.
pub fn files_named(line: &str) -> Vec<PathBuf> {
    let spaced = spaced(line);
    let words = spaced.split(|c: char| c.is_whitespace() || "`;|&()<>=$".contains(c));
    words.map(|word| word.trim_start_matches("./")).filter(|word| !word.is_empty()).map(PathBuf::from).collect()
}

/// A command line without quotes, in which the signs that end a word or a command stand alone.
fn spaced(line: &str) -> String {
    let mut spaced = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            ';' | '|' | '&' | '(' | ')' | '<' | '>' => spaced.extend([' ', c, ' ']),
            '\n' => spaced.push_str(" ; "),
            '"' | '\'' => spaced.push(' '),
            c => spaced.push(c),
        }
    }
    spaced
}

/// Returns whether a word is a relative path that the shell does not expand.
fn is_plain(word: &str) -> bool {
    let is_path = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '+' | ',' | '@');
    !word.starts_with(['-', '/']) && word.chars().all(is_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_and_inputs_are_found_and_outputs_and_expansions_are_not() {
        for (line, scripts, others) in [
            ("uv run train.py > run.log 2>&1", "train.py", ""),
            ("sh ./train.sh --config conf/a.yaml", "train.sh", "conf/a.yaml"),
            ("A=1.py python -u a.py b.py --out c.json --log-file d.txt -o e.csv > f.txt", "a.py", ""),
            ("sh a.sh; bash b.sh && node sub/c.js | tee d.txt", "a.sh b.sh sub/c.js", "d.txt"),
            ("cd src && python a.py", "", ""),
            ("python $HOME/a.py *.py /opt/b.py ~/c.py --file=d.py -m pytest", "", ""),
            ("sh -c 'python a.py'", "a.py", ""),
            ("make test", "", ""),
        ] {
            let of = |is_script: bool| {
                let files = named_files(line).into_iter().filter(|file| file.is_script == is_script);
                files.map(|file| file.path.display().to_string()).collect::<Vec<_>>().join(" ")
            };
            assert_eq!((of(true).as_str(), of(false).as_str()), (scripts, others), "{line}");
        }
    }
}
