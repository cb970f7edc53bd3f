//! Ways to use a session from its opening to its end, each call of which can be killed at a named point.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;

use crate::crash_points::POINTS;
use crate::exec::LOCAL;
use crate::outcome::{outcome, results};
use crate::run_loop::{agent, training_repo};
use crate::support::{AR, Called, FIND_OWNER, Person, TestRepo, ar_command};

/// One way to use a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// The loop, with an agent that makes these steps.
    Loop(&'static str),
    /// The same while somebody's hand changes a tracked file during each run.
    Hands(&'static str),
    /// The same with an agent that deletes the session's folder and the ledger first.
    Deletes(&'static str),
    /// The same, stopped at once in its second run and then resumed.
    Stop(&'static str),
    /// The same with an agent whose first call is cut short by a limit, and a command that is told of everything,
    /// and with a pause after each experiment.
    Outage(&'static str),
    /// The loop on the structural ladder, with a direction that is named again when a new one is asked for.
    Pivot,
    /// The loop with a guard that refuses two versions of the first change and all of the second one, and with a reviewer
    /// that is out when it is asked first.
    Guards,
    /// The loop with a change that does not run at first, and one that never does.
    Fixes,
    /// The loop with a change that is made the first experiment.
    Adopt,
    /// A change that waits for a baseline that fails.
    AdoptInVain,
    /// Two experiments by `ar try`.
    Try,
}

/// A point that is passed for the N-th time since a call began: the process is killed there.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Kill {
    pub(crate) point: &'static str,
    pub(crate) time: usize,
}

impl std::fmt::Debug for Kill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.point, self.time)
    }
}

impl Kill {
    /// Whether it hits a shim; `ar` itself goes on then.
    pub(crate) fn is_of_shim(&self) -> bool {
        self.point.starts_with("shim.")
    }
}

/// How often each point was passed.
pub(crate) type Trace = BTreeMap<&'static str, usize>;

impl Scenario {
    /// All that are played.
    pub(crate) const ALL: [Scenario; 13] = [
        Scenario::Loop("new-better commit-worse"),
        Scenario::Loop("crash rename-better"),
        Scenario::Loop("commit-better delete-worse"),
        Scenario::Hands("space-worse better"),
        Scenario::Deletes("new-worse better"),
        Scenario::Stop("new-worse better"),
        Scenario::Outage("worse better"),
        Scenario::Pivot,
        Scenario::Guards,
        Scenario::Fixes,
        Scenario::Adopt,
        Scenario::AdoptInVain,
        Scenario::Try,
    ];

    fn steps(self) -> &'static str {
        match self {
            Scenario::Loop(steps)
            | Scenario::Hands(steps)
            | Scenario::Deletes(steps)
            | Scenario::Stop(steps)
            | Scenario::Outage(steps) => steps,
            Scenario::Pivot => "silent worse nan worse",
            Scenario::Guards => "new-better commit-better",
            Scenario::Fixes => "syntax import",
            Scenario::Adopt | Scenario::AdoptInVain => "- new-worse",
            Scenario::Try => "- -",
        }
    }

    fn experiments(self) -> usize {
        self.steps().split_whitespace().count()
    }

    /// How often the training script runs when no run is lost.
    fn runs(self) -> usize {
        match self {
            Scenario::AdoptInVain => 1,
            Scenario::Stop(_) => self.experiments() + 2,
            Scenario::Guards | Scenario::Fixes => self.experiments() + 1 + 4,
            _ => self.experiments() + 1,
        }
    }
}

/// A session that is being used.
pub(crate) struct Session {
    scenario: Scenario,
    /// Who says something to it.
    person: Option<Person>,
    repo: TestRepo,
    /// Of `ar try`: how many changes were made.
    edits: usize,
    /// Of how many of them the caller knows that they were recorded.
    answers: usize,
}

impl Session {
    /// A repository without a session.
    pub(crate) fn new(scenario: Scenario) -> Session {
        let mut repo = training_repo();
        if let Scenario::Deletes(_) = scenario {
            repo = repo.without_walls();
        }
        // What runs leave is no part of a change.
        repo.write(".git/info/exclude", "/out/\n");
        if matches!(scenario, Scenario::Adopt | Scenario::AdoptInVain) {
            repo.write("docs/a.txt", "staged\n");
            repo.git(["add", "docs/a.txt"]);
            repo.write("train.sh", repo.read("train.sh").replace("VAL_BPB=2.0", "VAL_BPB=1.9"));
        }
        let person = matches!(scenario, Scenario::Outage(_)).then(|| Person::at(&repo));
        Session { scenario, person, repo, edits: 0, answers: 0 }
    }

    /// What it came to.
    pub(crate) fn outcome(&self) -> String {
        match self.scenario {
            // The logs that its agent deletes are put back by a process that held them, and by no other.
            Scenario::Deletes(_) => results(&self.repo),
            _ => outcome(&self.repo),
        }
    }

    /// Brings it to its end, or to where it is killed: the error.
    pub(crate) fn step(&mut self, kill: Option<&Kill>) -> Result<Trace, Trace> {
        let _ = fs::remove_file(self.repo.outside().join("trace"));
        let ended = match self.scenario {
            Scenario::Try => self.tries(kill),
            _ => self.runs_on(kill),
        };
        let trace = self.trace();
        if ended.is_some() { Ok(trace) } else { Err(trace) }
    }

    /// Checks that nothing goes on of the command that is told of everything, and that it was told of the end. An alert of
    /// the moment of a kill may come twice, or not at all.
    pub(crate) fn check_told(&self, lost: usize) {
        if let Scenario::Outage(_) = self.scenario {
            assert!(!LOCAL.is_busy(&self.repo.file(".autoresearch/t/logs/on-event")), "it goes on");
            let told = fs::read_to_string(self.repo.outside().join("told")).unwrap_or_default();
            assert!(lost > 0 || told == "escalated\noutage\nkeep\nbest\nstopped\n", "{told}");
        }
    }

    /// Checks that the training script ran once for each experiment, and once more at most for each run that was lost.
    pub(crate) fn check_runs(&self, lost: usize) {
        let runs = fs::read_to_string(self.repo.outside().join("runs")).map_or(0, |text| text.lines().count());
        // A run that asks the loop to stop after it was killed is not made again.
        let wanted = self.scenario.runs() - usize::from(self.repo.outside().join("unheard").exists());
        assert!((wanted..=wanted + lost).contains(&runs), "{wanted} runs wanted, {lost} lost, {runs} made");
    }

    /// One call, unless it is killed.
    fn call(&self, args: &[String], kill: Option<&Kill>) -> Option<Called> {
        let mut command = ar_command(&self.repo, &self.repo.path(), args);
        command.env("AR_CRASH_TRACE", self.repo.outside().join("trace"));
        if let Some(Kill { point, time }) = kill {
            command.env("AR_CRASH_AT", format!("{point}:{time}"));
        }
        let output = command.output().unwrap();
        (output.status.signal() != Some(9)).then(|| output.into())
    }

    fn runs_on(&self, kill: Option<&Kill>) -> Option<()> {
        let resume = ["resume".to_owned(), "t".to_owned()];
        let mut args = self.first_call();
        let records = self.repo.git(["for-each-ref", "refs/autoresearch/t/0*"]);
        if self.repo.exists(".autoresearch/t/state/contract.json") || !records.is_empty() {
            args = resume.to_vec();
        }
        loop {
            let called = self.call(&args, kill)?;
            match (self.scenario, called.code) {
                // A SIGTERM stops it, and no request.
                (Scenario::Stop(_), Some(130)) => args = resume.to_vec(),
                (Scenario::AdoptInVain, Some(3)) | (_, Some(0)) => return Some(()),
                // It was killed before it had noticed that its journal was deleted, and names what a person has to put away.
                (Scenario::Deletes(_), Some(1)) if called.stderr.contains("uncommitted changes: train.sh") => {
                    self.repo.git(["stash", "--quiet", "--include-untracked"]);
                }
                // It was killed before it had taken the change.
                (Scenario::Adopt | Scenario::AdoptInVain, Some(1)) if called.stderr.contains("--adopt") => {
                    args = self.first_call();
                }
                _ => panic!("{called:#?}"),
            }
        }
    }

    fn tries(&mut self, kill: Option<&Kill>) -> Option<()> {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        while self.answers < self.scenario.experiments() {
            if self.edits > self.answers {
                let called = self.call(&words("try --continue"), kill)?;
                let records = self.repo.git(["for-each-ref", "refs/autoresearch/t/000*"]).lines().count();
                if called.code == Some(0) || records > self.edits {
                    self.answers += 1;
                    continue;
                }
                assert!(called.stderr.contains("ar try -m"), "{called:#?}");
            } else {
                self.edits += 1;
                self.repo.write("train.sh", self.repo.read("train.sh").replace("VAL_BPB=2", "VAL_BPB=1"));
                self.repo.write(format!("new-{}.txt", self.edits), "new\n");
                self.repo.git(["add", "."]);
            }
            let branch = self.repo.try_git(["rev-parse", "--verify", "--quiet", "refs/heads/autoresearch/t"]);
            let begun = branch.status.success();
            let again = words(&format!("try -m change-{}", self.edits));
            let called = self.call(&if begun { again } else { self.first_call() }, kill)?;
            assert_eq!(called.code, Some(0), "{called:#?}");
            self.answers += 1;
        }
        Some(())
    }

    /// The call that opens the session.
    fn first_call(&self) -> Vec<String> {
        let outside = self.repo.outside().display();
        let train = format!("echo run >> {outside}/runs; sh train.sh");
        let train = match self.scenario {
            Scenario::Hands(_) => format!("{train}; echo mine > docs/e.txt"),
            Scenario::AdoptInVain => format!("{train} | sed s/val_bpb/bpb/"),
            // A guard changes what the run left.
            Scenario::Guards | Scenario::Try => {
                format!("mkdir -p out; grep ^VAL train.sh > out/model; cp out/model out/last; {train}")
            }
            Scenario::Stop(_) => format!(
                "{train}; if [ $AR_EXPERIMENT = 1 ] && mkdir {outside}/stopped 2>/dev/null; then \
                 {FIND_OWNER}; if [ \"$(cat /proc/$owner/comm)\" = ar ] && kill -TERM $owner; then sleep 60; \
                 else : > {outside}/unheard; fi; fi"
            ),
            _ => train,
        };
        let steps = agent(self.scenario.steps());
        let learn = "sed -i \"s/}$/, \\\"findings\\\": [\\\"one of them\\\"], \\\"ideas\\\": [\\\"after $AR_EXPERIMENT\\\"]}/\" \"$AR_PROPOSAL\"";
        let before = match (self.scenario, &self.person) {
            (Scenario::Deletes(_), _) => {
                "rm -rf .autoresearch results.tsv; mkdir -p \"${AR_PROPOSAL%/*}\"; ".to_owned()
            }
            (_, Some(person)) => format!(
                "{}; if mkdir {outside}/limited 2>/dev/null; then touch half.txt; \
                 echo 'rate limit exceeded, try again in 0.02 seconds'; exit 1; fi; ",
                person.types(&format!("[ -s .autoresearch/t/words.jsonl ] || {AR} tell steady > /dev/null"))
            ),
            _ => String::new(),
        };
        let steps = match self.scenario {
            Scenario::Guards | Scenario::Fixes => format!(
                "if grep -q '\"versions\"' \"$AR_STATE_DIR/progress.json\"; then sed -i '$s/$/ # again/' train.sh; {}; else {steps}; fi",
                if self.scenario == Scenario::Fixes {
                    "[ $AR_EXPERIMENT = 2 ] || [ $(tail -n 1 train.sh | grep -o again | wc -l) -lt 2 ] || sed -i s/^ENDING=.*/ENDING=ok/ train.sh"
                } else {
                    "mkdir -p again; echo $AR_EXPERIMENT >> again/lines"
                }
            ),
            _ => steps,
        };
        let mut agent = format!("{before}{steps}; if [ -e \"$AR_PROPOSAL\" ]; then {learn}; fi");
        if self.scenario == Scenario::Pivot {
            // The fourth experiment is to be in a new direction, and names a tried one until it is asked again.
            agent += "; echo \"# $AR_EXPERIMENT\" >> train.sh; d=tried; ! grep -q 'which was tried before' \"$AR_PROMPT\" || d=n$AR_EXPERIMENT; \
                      grep -qs description \"$AR_PROPOSAL\" || echo \"{\\\"direction\\\": \\\"$d\\\"}\" > \"$AR_PROPOSAL\"";
        }
        // It accepts the baseline, and the first change when it was reworked twice.
        let refusing = "[ $AR_EXPERIMENT = 0 ] || { grep -q 'again # again' train.sh && [ $AR_EXPERIMENT = 1 ]; }";
        let tell = format!("echo \"$AR_EVENT\" >> {outside}/told");
        let reviewer = format!(
            "mkdir {outside}/reviewed 2>/dev/null && exit 1; echo mine > train.sh; echo '{{\"verdict\": \"earned\"}}'"
        );
        let count = self.scenario.experiments().to_string();
        let mut args = vec!["run", "--yes", "--agent", &agent, "--max-experiments", &count];
        match self.scenario {
            Scenario::Try => args = vec!["try", "-m", "change-1", "--artifact", "out"],
            Scenario::Adopt | Scenario::AdoptInVain => args.push("--adopt"),
            Scenario::Pivot => args.extend(["--ladder", "structural"]),
            // The outage is longer than its limit.
            Scenario::Outage(_) => {
                args.extend(["--outage-limit", "10ms", "--on-event", &tell, "--cadence", "2h", "--escalate", "wait"])
            }
            Scenario::Guards => {
                let guard = "echo guard > out/model; cd docs; echo more >> e.txt";
                args.extend(["--guard", guard, "--guard", refusing, "--reviewer", &reviewer]);
                args.extend(["--artifact", "out", "--keep-artifacts", "0"]);
            }
            _ => {}
        }
        args.extend(["--tag", "t", "--metric", "val_bpb", "--cmd", &train]);
        args.into_iter().map(str::to_owned).collect()
    }

    /// The points that the last step passed, in their order.
    pub(crate) fn passed(&self) -> Vec<&'static str> {
        let text = fs::read_to_string(self.repo.outside().join("trace")).unwrap_or_default();
        let point =
            |line| *POINTS.iter().find(|point| **point == line).unwrap_or_else(|| panic!("{line} is not listed"));
        text.lines().map(point).collect()
    }

    fn trace(&self) -> Trace {
        let mut trace = Trace::new();
        self.passed().into_iter().for_each(|point| *trace.entry(point).or_default() += 1);
        trace
    }
}
