//! The demo's language model is real, and its scripted agent makes it better, worse and break it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use autoresearch::domain::FailureClass;
use tempfile::TempDir;

/// The files that a run of the demo needs.
const FILES: &[&str] = &["train.sh", "prepare.sh", "agent.sh", "data/input.txt"];

/// The awk programs to try, each with the argument that makes it one.
const AWKS: &[(&str, &str)] = &[("awk", ""), ("mawk", ""), ("gawk", ""), ("original-awk", ""), ("busybox", "awk")];

/// A copy of the demo's repository, without git.
struct Demo(TempDir);

/// What a run printed and whether it ended well.
struct Outcome {
    success: bool,
    output: String,
}

impl Demo {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("data")).unwrap();
        for file in FILES {
            fs::copy(fixture("demo").join(file), dir.path().join(file)).unwrap();
        }
        Demo(dir)
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap()
    }

    /// Replaces `from`, which must be there.
    fn edit(&self, file: &str, from: &str, to: &str) {
        let text = self.read(file);
        assert!(text.contains(from), "{file} holds no {from:?}");
        fs::write(self.path(file), text.replace(from, to)).unwrap();
    }

    fn train(&self) -> Outcome {
        self.run(&mut Command::new("sh"))
    }

    /// Runs the training script with the programs in `bin` first on the PATH.
    fn train_with(&self, bin: &Path) -> Outcome {
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        self.run(Command::new("sh").env("PATH", path))
    }

    fn run(&self, sh: &mut Command) -> Outcome {
        let run = sh.arg("train.sh").current_dir(&self.0).output().unwrap();
        let output = [run.stdout, run.stderr].concat();
        Outcome { success: run.status.success(), output: String::from_utf8(output).unwrap() }
    }

    /// Calls the agent for experiment `id` and answers with its proposal, where it makes one.
    fn propose(&self, id: u32) -> Option<serde_json::Value> {
        let proposal = self.path("proposal.json");
        let agent = Command::new("sh")
            .arg("agent.sh")
            .current_dir(&self.0)
            .env("AR_EXPERIMENT", id.to_string())
            .env("AR_PROPOSAL", &proposal)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(agent.status.success());
        let text = fs::read(&proposal).ok()?;
        fs::remove_file(&proposal).unwrap();
        Some(serde_json::from_slice(&text).unwrap())
    }
}

impl Outcome {
    /// The text of a number of the summary.
    fn number(&self, name: &str) -> Option<&str> {
        let (_, summary) = self.output.split_once("---\n")?;
        summary.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
    }

    fn val_bpb(&self) -> &str {
        assert!(self.success, "{}", self.output);
        self.number("val_bpb").unwrap()
    }
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// The full path of a program, where there is one.
fn find(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(program)).find(|path| path.is_file())
}

/// The settings that the agent ends with.
fn best_settings(demo: &Demo) {
    demo.edit("train.sh", "ORDER=2", "ORDER=5");
    demo.edit("train.sh", "SMOOTHING=8", "SMOOTHING=1");
    demo.edit("train.sh", "DISCOUNT=0", "DISCOUNT=0.8");
    demo.edit("train.sh", "CONTINUATION=0", "CONTINUATION=1");
}

#[test]
fn every_awk_computes_the_same_number() {
    let (baseline, best) = (Demo::new(), Demo::new());
    best_settings(&best);
    for (program, argument) in AWKS {
        let Some(path) = find(program) else { continue };
        let bin = tempfile::tempdir().unwrap();
        let awk = bin.path().join("awk");
        fs::write(&awk, format!("#!/bin/sh\nexec '{}' {argument} \"$@\"\n", path.display())).unwrap();
        assert!(Command::new("chmod").arg("+x").arg(&awk).status().unwrap().success());

        assert_eq!(baseline.train_with(bin.path()).val_bpb(), "2.642837", "{program}");
        assert_eq!(best.train_with(bin.path()).val_bpb(), "2.220630", "{program}");
    }
}

#[test]
fn probabilities_sum_to_one_at_every_byte() {
    let demo = Demo::new();
    best_settings(&demo);
    let expected = demo.train().val_bpb().to_owned();
    demo.edit("prepare.sh", "CHECKED = 97", "CHECKED = 1");
    assert_eq!(demo.train().val_bpb(), expected);
}

#[test]
fn a_model_that_claims_too_much_gets_no_number() {
    let demo = Demo::new();
    demo.edit("train.sh", "return p\n", "return p * 1.001\n");
    let run = demo.train();
    assert!(!run.success);
    assert!(run.output.contains("sum to 1.001000000, not to 1"), "{}", run.output);
    assert_eq!(run.number("val_bpb"), None);
}

#[test]
fn held_out_text_is_measured_and_never_learned() {
    let demo = Demo::new();
    let before = demo.train();
    let text = demo.read("data/input.txt");
    let mut paragraphs: Vec<&str> = text.split("\n\n").collect();
    paragraphs[5] = "Quartz jukeboxes vex 1234567890 %%% dwarves.";
    fs::write(demo.path("data/input.txt"), paragraphs.join("\n\n")).unwrap();
    let after = demo.train();
    assert_ne!(before.val_bpb(), after.val_bpb());
    for name in ["num_params", "train_bytes"] {
        assert_eq!(before.number(name), after.number(name), "{name}");
    }
}

#[test]
fn the_agent_improves_worsens_and_breaks_the_model() {
    let demo = Demo::new();
    let mut best: f64 = demo.train().val_bpb().parse().unwrap();
    let mut outcomes = Vec::new();
    let mut equal = Vec::new();
    for id in 1..=10 {
        let before = demo.read("train.sh");
        let proposal = demo.propose(id).unwrap();
        for field in ["description", "direction", "hypothesis"] {
            assert!(!proposal[field].as_str().unwrap().is_empty(), "{id} {field}");
        }
        assert_ne!(demo.read("train.sh"), before, "experiment {id} changes nothing");

        let run = demo.train();
        let value = run.number("val_bpb").filter(|_| run.success).and_then(|text| text.parse::<f64>().ok());
        outcomes.push(match value.filter(|value| value.is_finite()) {
            Some(value) if value < best => {
                best = value;
                "keep"
            }
            Some(value) => {
                if value == best {
                    equal.push(id);
                }
                fs::write(demo.path("train.sh"), &before).unwrap();
                "discard"
            }
            None => {
                fs::write(demo.path("train.sh"), &before).unwrap();
                if run.success { "nan" } else { "crash" }
            }
        });
    }
    assert_eq!(
        outcomes,
        ["keep", "discard", "keep", "crash", "keep", "discard", "nan", "keep", "discard", "keep"],
        "best {best}"
    );
    assert_eq!((equal, best), (vec![9], 2.220630));
    let before = demo.read("train.sh");
    assert_eq!((demo.propose(11), demo.read("train.sh")), (None, before));
}

#[test]
fn the_protocol_is_short_and_explains_every_failure() {
    let protocol = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("program.md")).unwrap();
    assert!(protocol.len() <= 6 * 1024, "{} bytes", protocol.len());
    for class in [
        FailureClass::SyntaxError,
        FailureClass::ImportError,
        FailureClass::Oom,
        FailureClass::Nan,
        FailureClass::Timeout,
        FailureClass::Killed,
        FailureClass::NoOutput,
        FailureClass::NoMetric,
        FailureClass::Crash,
        FailureClass::GuardFailed,
        FailureClass::Scope,
        FailureClass::Protected,
        FailureClass::TooLarge,
        FailureClass::NoChange,
        FailureClass::Duplicate,
        FailureClass::Lost,
        FailureClass::Changed,
    ] {
        assert!(protocol.contains(&format!("`{class}`")), "{class}");
    }
}
