//! The machine and tools on which experiments run, and their changes. When a run is over, `ar` asks for the versions of the
//! command's tools. It asks again only if one of them was replaced since.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::domain::{Environment, Event, ExperimentId, FORMAT_VERSION, Tools, shell_word};
use crate::exec::{Executor, Job, environment, lock_file_hash};
use crate::fs::read_tail;
use crate::rules::{History, Python, environment_differences, pythons_of};
use crate::session::files::remove_file;
use crate::state::{read_json, write_json};

/// The job's name, and the folder of its folders, one for each experiment, and of its files, one for each host.
const TOOLS: &str = "tools";

/// Time limit for asking: an interpreter on a slow network file system needs a second. Versions unknown by then are
/// omitted.
const LIMIT: Duration = Duration::from_secs(2);

/// Time for the job to end after that.
const END: Duration = Duration::from_secs(1);

/// Limit on its output in bytes, a hundred times the usual length.
const OUTPUT: u64 = 64 * 1024;

/// Longest version in characters; longer ones are ignored.
const LONGEST_VERSION: usize = 64;

/// Prints the versions of the interpreter and of PyTorch, and where they are.
const PYTHON: &str = r#"
import sys
from importlib import metadata
print("version\tpython\t" + sys.version.split()[0])
for path in [sys.executable] + [path for path in sys.path if path.endswith("-packages")]:
    print("stamp\t" + path)
try:
    print("version\ttorch\t" + metadata.version("torch"))
except Exception:
    pass
"#;

/// The tools that were found, with stamps that show whether they are still the same.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FoundTools {
    version: u32,
    /// The script that was asked.
    script: String,
    /// The files and folders that change when something is installed, with their times of change.
    stamps: Vec<(PathBuf, Option<Timestamp>)>,
    tools: Tools,
}

/// The environment in which experiments run.
pub(crate) struct Machine {
    pub(crate) environment: Arc<Environment>,
    /// The tools in it, with their stamps; absent until they were asked for.
    pub(crate) tools: Option<FoundTools>,
}

impl FoundTools {
    fn is_still_so(&self, script: &str) -> bool {
        self.script == script && self.stamps.iter().all(|(path, time)| changed_at(path) == *time)
    }
}

impl Machine {
    /// The machine and the tools that a working tree is on.
    pub(crate) fn of(root: &Path) -> Machine {
        Machine { environment: Arc::new(environment(root)), tools: None }
    }

    /// The event for an environment that differs from the incumbent's, so that its value is not comparable with new ones.
    pub(crate) fn changed(&self, history: &History) -> Option<Event> {
        let incumbent = history.incumbent()?;
        let changes = environment_differences(incumbent, history.next_id(), &self.environment);
        (!changes.is_empty()).then(|| Event::EnvironmentChanged { incumbent: incumbent.id, changes })
    }

    fn note_tools(&mut self, tools: &Tools) {
        if self.environment.tools != *tools {
            Arc::make_mut(&mut self.environment).tools.clone_from(tools);
        }
    }

    /// Notes the lock files after a run in `root`, since a command such as `uv run` updates them itself. Returns the questions to
    /// the tools of `command`, unless these are known to be unchanged. A loop asks once for itself. Each `ar try` is a new
    /// process, which reads the answers that the last one left below `folder`.
    pub(crate) fn look(
        &mut self,
        root: &Path,
        folder: &Path,
        id: ExperimentId,
        command: &str,
        is_loop: bool,
    ) -> Option<Questions> {
        let lockfile = lock_file_hash(root);
        // The records that are there go on sharing what did not change.
        if self.environment.lockfile != lockfile {
            Arc::make_mut(&mut self.environment).lockfile = lockfile;
        }
        let script = script(&pythons_of(command), root);
        if script.is_empty() {
            return None;
        }
        let tools = folder.join(TOOLS);
        let found = tools.join(format!("{}.json", self.environment.host));
        let known = if is_loop { None } else { read_json(&found).ok().flatten() };
        let known: Option<FoundTools> = self.tools.take().or(known);
        if let Some(known) = known.filter(|known| known.is_still_so(&script)) {
            self.note_tools(&known.tools);
            self.tools = Some(known);
            return None;
        }
        Some(Questions { script, folder: tools.join(format!("{id:05}")), found })
    }

    /// Notes what the tools printed.
    pub(crate) fn note(&mut self, questions: Questions, printed: &str) {
        let (tools, stamps) = parse(printed);
        self.note_tools(&tools);
        let stamps = stamps
            .into_iter()
            .map(|path| {
                let time = changed_at(&path);
                (path, time)
            })
            .collect();
        let Questions { script, found, .. } = questions;
        let tools = FoundTools { version: FORMAT_VERSION, script, stamps, tools };
        // Without the file it is asked again.
        let _ = write_json(&found, &tools);
        self.tools = Some(tools);
    }
}

/// The questions to the tools of a command.
pub(crate) struct Questions {
    script: String,
    /// The folder of the job that asks.
    folder: PathBuf,
    /// The file for the tools that are found.
    found: PathBuf,
}

impl Questions {
    /// Runs the script to its end or to the end of its time, and returns what it printed until then.
    pub(crate) async fn ask(&self, executor: &Executor) -> Option<String> {
        let folder = &self.folder;
        fs::create_dir_all(folder).ok()?;
        let log = folder.join(format!("{TOOLS}.log"));
        remove_file(&log).ok()?;
        let job = Job {
            name: TOOLS.into(),
            command: self.script.clone(),
            // A module of the repository is not what the interpreter is to import.
            cwd: folder.clone(),
            folder: folder.clone(),
            log: log.clone(),
            log_limit: Some(OUTPUT),
            timeout: LIMIT,
            tied: true,
            ..Job::default()
        };
        // After that, dropping the job ends the processes that are tied to it.
        timeout(LIMIT + END, executor.start(&job).ok()?.wait()).await.ok()?.ok()?;
        let printed = read_tail(&log, 0).ok()?;
        // A leftover folder takes little space.
        let _ = fs::remove_dir_all(folder);
        Some(String::from_utf8_lossy(&printed).into_owned())
    }
}

/// The commands that ask interpreters; empty without any.
fn script(pythons: &[Python], root: &Path) -> String {
    let word = |word: &String| if word.contains('/') { shell_word(&root.join(word)) } else { word.clone() };
    let line = |python: &Python| match python {
        Python::Named(python) => format!("{} -c \"$python\" 2>/dev/null\n", word(python)),
        Python::Beside(launcher) => {
            format!("\"$(dirname \"$(command -v {})\")/python\" -c \"$python\" 2>/dev/null\n", word(launcher))
        }
    };
    let lines: String = pythons.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("python='{PYTHON}'\n{lines}") }
}

/// Parses the output of the script: versions (the first of each tool counts) and paths.
fn parse(printed: &str) -> (Tools, Vec<PathBuf>) {
    let (mut tools, mut stamps) = (Tools::default(), Vec::new());
    for line in printed.lines() {
        let (known, version) = match line.split('\t').collect::<Vec<_>>()[..] {
            ["version", "python", version] => (&mut tools.python, version),
            ["version", "torch", version] => (&mut tools.torch, version),
            ["stamp", path] if !path.is_empty() => {
                stamps.push(PathBuf::from(path));
                continue;
            }
            _ => continue,
        };
        let is_plain = version.len() <= LONGEST_VERSION && version.chars().all(|c| c.is_ascii_graphic());
        if known.is_none() && is_plain {
            *known = Some(version.to_owned());
        }
    }
    (tools, stamps)
}

fn changed_at(path: &Path) -> Option<Timestamp> {
    fs::metadata(path).and_then(|meta| meta.modified()).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_version_of_each_is_read_and_nothing_else_is() {
        let printed = "warning: x\nversion\tpython\t3.12.1\nstamp\t/usr/bin/python3\nversion\ttorch\t2.5 0\n\
                       version\ttorch\t2.5.0+cu124\nstamp\t\nversion\tpython\t3.8.0\nversion\tuv\t1\nversion\n";
        let (tools, stamps) = parse(printed);
        let [python, torch] = ["3.12.1", "2.5.0+cu124"].map(|version| Some(version.to_owned()));
        assert_eq!(tools, Tools { python, torch, ..Tools::default() });
        assert_eq!(stamps, [Path::new("/usr/bin/python3")]);
    }

    #[test]
    fn a_path_is_that_of_the_working_tree_and_no_interpreter_is_no_script() {
        let root = Path::new("/a b");
        assert_eq!(script(&[], root), "");
        assert!(script(&pythons_of("uv run x.py"), root).contains("'/a b/.venv/bin/python' -c"));
    }
}
