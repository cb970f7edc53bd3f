//! What a step rests on is on the disk before the step is taken: the system calls of a session, looked at one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use autoresearch::state::LESSONS;

use crate::run_loop::{agent, training_repo};
use crate::support::{AR, Called, TestRepo};

/// The system calls that are looked at.
const CALLS: &str = "trace=fsync,fdatasync,write,pwrite64,openat,rename,renameat,renameat2,link,linkat,unlink,unlinkat,\
                     mkdir,mkdirat,symlink,symlinkat,clone,clone3,newfstatat,statx";

/// What a system call did to the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Event {
    /// A file may have got bytes; those that were written, escaped, or nothing when it was opened.
    Written(PathBuf, String),
    /// A name was made, of a file or a folder.
    Named(PathBuf),
    Renamed(PathBuf, PathBuf),
    Removed(PathBuf),
    Synced(PathBuf),
}

/// What a line of a trace says, one or two things.
fn events(line: &str) -> Vec<Event> {
    let Some((call, rest)) = line.split_once('(') else { return Vec::new() };
    let Some((arguments, result)) = rest.rsplit_once(") = ").or_else(|| rest.rsplit_once(" = ")) else {
        return Vec::new();
    };
    if result.trim_start().starts_with('-') {
        return Vec::new();
    }
    let quoted: Vec<&str> = arguments.split('"').skip(1).step_by(2).collect();
    let file = |text: &str| PathBuf::from(text.split_once('<').unwrap().1.split_once('>').unwrap().0);
    let named = |index: usize| PathBuf::from(quoted[index]);
    match call {
        "fsync" | "fdatasync" => vec![Event::Synced(file(arguments))],
        "write" | "pwrite64" => {
            let text = arguments.split_once(", \"").map_or("", |(_, text)| text).replace("\\\"", "\"");
            vec![Event::Written(file(arguments), text)]
        }
        "openat" if arguments.contains("O_CREAT") => {
            vec![Event::Written(file(result), String::new()), Event::Named(file(result))]
        }
        "rename" | "renameat" | "renameat2" => vec![Event::Renamed(named(0), named(1))],
        "link" | "linkat" | "symlink" | "symlinkat" => vec![Event::Named(named(1))],
        "unlink" | "unlinkat" => vec![Event::Removed(named(0))],
        "mkdir" | "mkdirat" => vec![Event::Named(named(0))],
        _ => Vec::new(),
    }
}

/// What a power cut would leave, and the rules that are checked along the way.
struct Disk<'a> {
    repo: &'a TestRepo,
    root: PathBuf,
    /// Files with content that a power cut takes away.
    unsynced: BTreeSet<PathBuf>,
    /// Files and folders whose names a power cut takes away.
    unnamed: BTreeSet<PathBuf>,
    /// All files that were seen.
    seen: BTreeSet<PathBuf>,
    /// All files and folders that were synced at least once.
    synced: BTreeSet<PathBuf>,
    /// What was written to files that still have other names.
    content: BTreeMap<PathBuf, String>,
    /// The folder that a thread has to sync next.
    due: Option<(String, PathBuf)>,
    /// The phase of the journal on the disk.
    phase: String,
    /// Whether the branch is there: it is made with the session, before any experiment.
    branch_made: bool,
    rows: usize,
    /// How often each rule was looked at.
    checked: BTreeMap<&'static str, usize>,
}

impl<'a> Disk<'a> {
    fn new(repo: &'a TestRepo) -> Disk<'a> {
        Disk {
            repo,
            root: repo.path(),
            unsynced: BTreeSet::new(),
            unnamed: BTreeSet::new(),
            seen: BTreeSet::new(),
            synced: BTreeSet::new(),
            content: BTreeMap::new(),
            due: None,
            phase: String::new(),
            branch_made: false,
            rows: 0,
            checked: BTreeMap::new(),
        }
    }

    #[track_caller]
    fn check(&mut self, rule: &'static str, path: &Path, holds: bool) {
        *self.checked.entry(rule).or_default() += 1;
        assert!(holds, "{rule}: {} (in phase {})", path.display(), self.phase);
    }

    /// Whether a power cut leaves a file with its content, or a folder.
    fn lasts(&self, path: &Path) -> bool {
        !self.unsynced.contains(path) && !path.ancestors().any(|part| self.unnamed.contains(part))
    }

    fn take(&mut self, thread: &str, event: Event) {
        if let Some((_, folder)) = self.due.take_if(|(due, _)| due == thread) {
            self.check("the folder of a file that was replaced is synced at once", &folder, {
                event == Event::Synced(folder.clone())
            });
        }
        match event {
            Event::Synced(path) => {
                if path == self.journal() {
                    self.look_at_journal(&path);
                }
                self.unsynced.remove(&path);
                self.unnamed.retain(|named| named.parent() != Some(&path));
                self.synced.insert(path);
            }
            Event::Named(path) => {
                if self.seen.insert(path.clone()) {
                    self.unnamed.insert(path);
                }
            }
            Event::Removed(path) => {
                self.look_at_worktree(&path);
                self.unsynced.remove(&path);
            }
            Event::Written(path, text) => {
                if path == self.root.join("results.tsv") && !text.is_empty() {
                    self.look_at_row(&path);
                }
                *self.content.entry(path.clone()).or_default() += &text;
                self.unsynced.insert(path);
            }
            Event::Renamed(from, to) => {
                self.look_at_rename(thread, &from, &to);
                if self.unsynced.remove(&from) {
                    self.unsynced.insert(to.clone());
                }
                self.unnamed.remove(&from);
                self.content.remove(&from);
                self.seen.insert(to.clone());
                self.unnamed.insert(to);
            }
        }
    }

    fn journal(&self) -> PathBuf {
        self.root.join(".autoresearch/t/state/progress.copies")
    }

    /// Looks at what the journal rests on, in the moment in which it goes on.
    fn look_at_journal(&mut self, journal: &Path) {
        let copy = self.content.remove(journal).unwrap_or_default();
        copy.split("\"phase\": \"").nth(1).unwrap().split('"').next().unwrap().clone_into(&mut self.phase);
        let folder = journal.parent().unwrap();
        self.check("the journal is in a folder that lasts", journal, self.lasts(folder));
        for changed in [".git/index", ".git/refs/heads/autoresearch/t"].map(|changed| self.root.join(changed)) {
            let lasts = !self.seen.contains(&changed) || self.lasts(&changed);
            self.check("branch and index last before the journal goes on", &changed, lasts);
        }
    }

    fn look_at_row(&mut self, path: &Path) {
        let record = self.root.join(format!(".git/refs/autoresearch/t/{:05}", self.rows));
        self.check("a record lasts before its row", &record, self.seen.contains(&record) && self.lasts(&record));
        self.check("a row follows the journal", path, self.phase == "recording");
        self.rows += 1;
    }

    fn look_at_rename(&mut self, thread: &str, from: &Path, to: &Path) {
        let relative = to.strip_prefix(&self.root).unwrap_or(to).to_owned();
        let name = from.file_name().unwrap().to_str().unwrap();
        let text = self.content.get(from).cloned().unwrap_or_default();
        // The prompt is made anew whenever the agent is called, and an agent is called again after a power cut; what a run is
        // known by is synced while it goes on. What was noted just before a run is of use as long as that run lasts.
        let passing = [
            "prompt.md",
            "agent.exit.json",
            "job.json",
            "started.json",
            "tree.before",
            "files.before",
            "artifacts.json",
            "namespaces",
            "settings_before.json",
            // Its copies last, and it is replaced after them.
            "progress.json",
        ];
        let is_kept = name.starts_with(".ar-") && !passing.iter().any(|end| to.to_string_lossy().ends_with(end));
        if is_kept || relative == Path::new(".git/index") {
            self.check("a file is synced before it takes the place of another", from, !self.unsynced.contains(from));
        }
        if is_kept {
            self.due = to.parent().map(|folder| (thread.to_owned(), folder.to_owned()));
        }
        if relative.ends_with("exit.json") {
            let log = to.with_file_name("run.log");
            self.check("a log is synced before its run is over", &log, {
                self.synced.contains(&log) && !self.unsynced.contains(&log)
            });
        }
        if relative.ends_with("job.json") {
            self.check("a run follows the journal", to, self.phase == "running");
        }
        if relative == Path::new(LESSONS) && self.phase == "recording" {
            self.check("a row lasts before its lesson", to, self.lasts(&self.root.join("results.tsv")));
        }
        if relative.starts_with(".git/refs") {
            self.look_at_ref(to, &relative, &text);
        }
        self.look_at_worktree(to);
    }

    fn look_at_ref(&mut self, to: &Path, relative: &Path, text: &str) {
        let id = text.get(..40).unwrap();
        let listed = self.repo.git(["rev-list", "--objects", id]);
        for id in listed.lines().filter_map(|line| line.split(' ').next()).chain([id]) {
            let object = self.root.join(format!(".git/objects/{}/{}", &id[..2], &id[2..]));
            if self.seen.contains(&object) {
                self.check("an object lasts before a ref leads to it", &object, self.lasts(&object));
            }
        }
        if relative.starts_with(".git/refs/heads") {
            let journal = self.journal();
            let is_open = matches!(self.phase.as_str(), "running" | "recording");
            let follows = is_open || !std::mem::replace(&mut self.branch_made, true);
            self.check("the branch follows the journal", to, follows && self.lasts(&journal));
            self.look_at_ledger(to);
        } else {
            self.check("a record follows the journal", to, self.phase == "recording");
        }
    }

    /// Files of the working tree change only once the row is written.
    fn look_at_worktree(&mut self, path: &Path) {
        let own = [".git", ".autoresearch", "run.log", "results.tsv", LESSONS].map(|own| self.root.join(own));
        if path.starts_with(&self.root) && !own.iter().any(|own| path.starts_with(own)) {
            self.check("the working tree follows the journal", path, self.phase == "recording");
            self.look_at_ledger(path);
        }
    }

    fn look_at_ledger(&mut self, path: &Path) {
        let lasts = self.lasts(&self.root.join("results.tsv"));
        self.check("a row lasts before anything is put back", path, lasts);
    }
}

/// The traces of a session; where there are none, why the test is skipped is said.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn traces_or_skip(repo: &TestRepo, steps: &str) -> Option<Vec<String>> {
    traces(repo, steps).inspect_err(|why| eprintln!("skipped: {why}")).ok()
}

/// Runs a session under strace and gives its traces, one for each process with all its threads, or why that is not
/// possible.
fn traces(repo: &TestRepo, steps: &str) -> Result<Vec<String>, String> {
    let folder = repo.outside().join("traces");
    fs::create_dir(&folder).unwrap();
    let strace = |program: &str| {
        let mut command = Command::new("strace");
        repo.environment(&mut command);
        command.args(["-ff", "-y", "-qq", "-ttt", "-s", "4096", "-e", CALLS, "-e", "signal=none"]);
        command.arg("-o").arg(folder.join("trace")).arg(program).current_dir(repo.path());
        command
    };
    match strace("true").output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            return Err(format!("strace cannot trace here: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Err(error) => {
            let may_skip = std::env::var_os("AR_TEST_ALL").is_none_or(|all| all.is_empty());
            assert!(may_skip, "there is no strace, and AR_TEST_ALL says that nothing is to be skipped: {error}");
            return Err(format!("there is no strace: {error}"));
        }
    }
    let count = steps.split_whitespace().count().to_string();
    let args =
        ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--max-experiments", &count];
    Called::from(strace(AR).args(args).args(["--agent", &agent(steps)]).output().unwrap()).ok();
    let mut threads: BTreeMap<String, String> = BTreeMap::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        let id = entry.path().extension().unwrap().to_str().unwrap().to_owned();
        threads.insert(id, String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).into_owned());
    }
    Ok(by_process(&threads))
}

/// The traces of threads, by their ids, as those of processes: each line with its thread in the place of the time that it is
/// sorted by.
fn by_process(threads: &BTreeMap<String, String>) -> Vec<String> {
    let maker = |id: &str| {
        let made = format!(") = {id}");
        let is_made = |line: &str| line.contains("CLONE_THREAD") && line.ends_with(&made);
        threads.iter().find(|(_, trace)| trace.lines().any(is_made)).map(|(id, _)| id.clone())
    };
    let mut processes: BTreeMap<String, Vec<(&str, &str)>> = BTreeMap::new();
    for (id, trace) in threads {
        let mut process = id.clone();
        while let Some(made_by) = maker(&process) {
            process = made_by;
        }
        processes.entry(process).or_default().extend(trace.lines().map(|line| (id.as_str(), line)));
    }
    let sorted = processes.into_values().map(|mut lines| {
        lines.sort_by_key(|(_, line)| line.split_once(' ').map(|(time, _)| time.to_owned()));
        let line = |(thread, line): (&str, &str)| Some(format!("{thread} {}\n", line.split_once(' ')?.1));
        lines.into_iter().filter_map(line).collect()
    });
    sorted.collect()
}

#[test]
fn what_a_step_rests_on_is_on_the_disk_before_the_step() {
    let repo = training_repo();
    let Some(traces) = traces_or_skip(&repo, "new-worse rename-better") else { return };
    let mut checked: BTreeMap<&str, usize> = BTreeMap::new();
    for trace in traces {
        let mut disk = Disk::new(&repo);
        for (thread, call) in trace.lines().filter_map(|line| line.split_once(' ')) {
            events(call).into_iter().for_each(|event| disk.take(thread, event));
        }
        for (rule, times) in disk.checked {
            *checked.entry(rule).or_default() += times;
        }
    }
    // Nothing is proved by rules that nothing was held against.
    for (rule, least) in [
        ("a file is synced before it takes the place of another", 20),
        ("the folder of a file that was replaced is synced at once", 15),
        ("a log is synced before its run is over", 3),
        ("an object lasts before a ref leads to it", 15),
        ("a record lasts before its row", 3),
        ("a record follows the journal", 3),
        ("a run follows the journal", 3),
        ("the branch follows the journal", 4),
        ("branch and index last before the journal goes on", 10),
        ("a row lasts before anything is put back", 5),
        ("the working tree follows the journal", 2),
        ("a row lasts before its lesson", 1),
    ] {
        assert!(checked.get(rule).is_some_and(|times| *times >= least), "{rule}: {checked:#?}");
    }
}

#[test]
fn an_experiment_in_place_looks_twice_at_each_tracked_file_and_syncs_no_more_than_it_must() {
    // The looks at a tracked file from its folder, and the syncs of a session, its shims among them.
    let cost = |steps: &str| {
        let repo = training_repo();
        repo.write("notes.txt", "nobody changes this\n");
        repo.commit_all("notes");
        let traces = traces_or_skip(&repo, steps)?;
        let calls: Vec<&str> = traces.iter().flat_map(|trace| trace.lines()).collect();
        let of = |names: &[&str], text: &str| {
            let is_one = |call: &str| names.iter().any(|name| call.starts_with(name)) && call.contains(text);
            calls.iter().filter_map(|line| line.split_once(' ')).filter(|(_, call)| is_one(call)).count()
        };
        Some((of(&["newfstatat(", "statx("], ", \"notes.txt\""), of(&["fsync(", "fdatasync("], "")))
    };
    let mut costs = Vec::new();
    // On a busy machine the loop waits for a log, and looks once more.
    while costs.len() < 4 && !costs.contains(&(2, true)) {
        let (Some((few_looks, few_syncs)), Some((looks, syncs))) = (cost("better"), cost("better worse")) else {
            return;
        };
        costs.push((looks - few_looks, syncs - few_syncs <= 34));
    }
    assert_eq!(costs.last(), Some(&(2, true)), "looks after the call and after the run, and syncs: {costs:?}");
}

#[test]
fn what_an_agent_committed_itself_is_on_the_disk_before_its_record() {
    let repo = training_repo();
    let Some(traces) = traces_or_skip(&repo, "commit-better") else { return };
    let record = repo.path().join(".git/refs/autoresearch/t/00001");
    let leads_to_it = |event: &Event| matches!(event, Event::Renamed(_, to) if *to == record);
    let calls = |trace: &String| -> Vec<Event> {
        trace.lines().filter_map(|line| line.split_once(' ')).flat_map(|(_, call)| events(call)).collect()
    };
    let of_ar = traces.iter().map(calls).find(|calls| calls.iter().any(leads_to_it)).unwrap();
    let before: Vec<_> = of_ar.into_iter().take_while(|event| !leads_to_it(event)).collect();
    let objects = repo.git(["rev-list", "--objects", "--no-object-names", "autoresearch/t", "^main"]);
    assert!(objects.lines().count() >= 3, "a commit, a tree and a file: {objects}");
    for id in objects.lines() {
        let object = repo.path().join(format!(".git/objects/{}/{}", &id[..2], &id[2..]));
        assert!(before.contains(&Event::Synced(object)), "{id} {}", repo.git(["cat-file", "-t", id]));
    }
}
