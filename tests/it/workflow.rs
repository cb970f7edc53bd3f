//! The example workflow of the book, by the shell steps that it contains.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::support::{AR, Called, TestRepo, path_without_agents};

const WORKFLOW: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/recipes/nightly.yml");

#[derive(Deserialize)]
struct Workflow {
    jobs: BTreeMap<String, Job>,
}

#[derive(Deserialize)]
struct Job {
    env: BTreeMap<String, String>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    uses: Option<String>,
    run: Option<String>,
    #[serde(rename = "if")]
    condition: Option<String>,
    #[serde(default)]
    with: BTreeMap<String, serde_json::Value>,
}

/// A runner with a checkout, as far as the workflow uses one.
struct Runner {
    repo: TestRepo,
    home: PathBuf,
    work: PathBuf,
    added_to_path: PathBuf,
    summary: PathBuf,
}

impl Runner {
    /// Has a repository to check out, a home folder, and `pipx`, which installs the program under test.
    fn new() -> Runner {
        let repo = TestRepo::empty();
        repo.write("README.md", "a repository\n");
        repo.commit_all("begin");
        let home = repo.outside().join("runner");
        let tools = home.join("tools");
        fs::create_dir_all(&tools).unwrap();
        let pipx = format!(
            "#!/bin/sh\nset -e\ncase \"$*\" in\n'install tools/'*.whl) mkdir -p ~/.local/bin\n\
             for name in ar autoresearch; do ln -sf '{AR}' ~/.local/bin/$name; done ;;\nensurepath) ;;\n*) exit 2 ;;\nesac\n"
        );
        fs::write(tools.join("pipx"), pipx).unwrap();
        fs::set_permissions(tools.join("pipx"), fs::Permissions::from_mode(0o755)).unwrap();
        let (work, added_to_path, summary) = (home.join("work"), home.join("path"), home.join("summary.md"));
        fs::write(&added_to_path, "").unwrap();
        Runner { repo, home, work, added_to_path, summary }
    }

    fn command(&self, program: &str, job: &Job) -> Command {
        let mut command = Command::new(program);
        self.repo.environment(&mut command);
        let added = fs::read_to_string(&self.added_to_path).unwrap();
        let path = added.lines().map(PathBuf::from).chain([self.home.join("tools")]);
        let path = path.chain(std::env::split_paths(path_without_agents()));
        command.env("PATH", std::env::join_paths(path).unwrap());
        command.envs(&job.env).env("HOME", &self.home).env("AR_NO_PAUSES", "1");
        command.env("GITHUB_PATH", &self.added_to_path).env("GITHUB_STEP_SUMMARY", &self.summary);
        command.env("GITHUB_RUN_ID", "4711").env("CI", "true");
        command
    }

    /// Does the steps in order, as a runner does; after a failed one only those that always run. Returns the exit codes.
    fn run(&self, job: &Job) -> Vec<(String, Called)> {
        let mut done: Vec<(String, Called)> = Vec::new();
        for step in &job.steps {
            let has_failed = done.iter().any(|(_, called)| called.code != Some(0));
            if has_failed && step.condition.as_deref() != Some("always()") {
                continue;
            }
            match (step.uses.as_deref(), &step.run) {
                (Some(uses), None) if uses.starts_with("actions/checkout@") => {
                    assert_eq!(step.with["fetch-depth"], 0);
                    self.repo.git(["clone", "--quiet", ".", self.work.to_str().unwrap()]);
                }
                (Some(uses), None) => assert!(uses.starts_with("actions/upload-artifact@"), "{uses}"),
                (None, Some(script)) => {
                    let file = self.home.join("step.sh");
                    fs::write(&file, script).unwrap();
                    let mut shell = self.command("bash", job);
                    shell.args(["--noprofile", "--norc", "-eo", "pipefail"]).arg(&file).current_dir(&self.work);
                    done.push((script.clone(), shell.output().unwrap().into()));
                }
                _ => panic!("a step has either `uses` or `run`"),
            }
        }
        done
    }
}

fn job() -> Job {
    let mut workflow: Workflow = serde_saphyr::from_str(&fs::read_to_string(WORKFLOW).unwrap()).unwrap();
    workflow.jobs.remove("experiments").unwrap()
}

/// The files that a pattern of the upload matches; `*` stands for one name.
fn matching(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    pattern.split('/').fold(vec![folder.to_owned()], |found, name| {
        found
            .into_iter()
            .flat_map(|path| match name {
                "*" => {
                    fs::read_dir(path).map(|all| all.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
                }
                name => vec![path.join(name)],
            })
            .filter(|path| path.exists())
            .collect()
    })
}

#[test]
fn the_example_for_actions_reports_its_night_and_pushes_it() {
    let (runner, job) = (Runner::new(), job());
    for (script, called) in runner.run(&job) {
        assert_eq!(called.code, Some(0), "{script}: {called:?}");
    }
    let summary = fs::read_to_string(&runner.summary).unwrap();
    assert!(summary.contains("a loss of 0.7") && summary.contains('|'), "{summary}");
    let uploads =
        job.steps.iter().find(|step| step.uses.as_deref().is_some_and(|uses| uses.contains("upload"))).unwrap();
    for pattern in uploads.with["path"].as_str().unwrap().lines() {
        assert!(!matching(&runner.work, pattern).is_empty(), "nothing to upload: {pattern}");
    }
    let image = fs::read(runner.work.join("chart.png")).unwrap();
    assert!(image.starts_with(b"\x89PNG"));
    let records = runner.repo.git(["for-each-ref", "--format=%(refname)", "refs/autoresearch/night-4711"]);
    assert_eq!(records.lines().count(), 4, "{records}");
    assert!(runner.repo.git(["show", "autoresearch/night-4711:train.sh"]).starts_with("loss=0.7\n"));
}

#[test]
fn a_loop_that_needs_a_person_fails_the_job_of_actions_and_is_reported_all_the_same() {
    let (runner, mut job) = (Runner::new(), job());
    // Its program is missing: three calls, then exit 4.
    job.env.insert("AGENT".to_owned(), "true && no-such-agent".to_owned());
    let done = runner.run(&job);
    let codes: Vec<_> = done.iter().map(|(_, called)| called.code.unwrap()).collect();
    assert_eq!(codes, [0, 0, 4, 0, 0], "{done:?}");
    assert!(fs::read_to_string(&runner.summary).unwrap().contains("loss"));
}
