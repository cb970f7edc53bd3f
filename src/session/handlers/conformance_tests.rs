//! Acts on real git and files. Each is performed by a process of its own, which is killed at each of its crash points; performed
//! again, it comes to what a model of it in memory says.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use serde_json::json;
use tempfile::TempDir;

use super::{Workspace, remove_trees};
use crate::domain::{Clock, CommitId, ExperimentId, LedgerDialect, TreeOwner};
use crate::git::{Repo, Untracked};
use crate::ledger::LedgerFile;
use crate::machine::{Act, Save};
use crate::rules::sample::{contract, record};
use crate::rules::{FileTerms, History};
use crate::session::handlers::Protected;
use crate::session::store::Store;
use crate::state::{Journal, SessionFolder};

/// The variables with the folder and the case of a process that performs an act.
const PLACE: &str = "AR_TEST_PLACE";
const CASE: &str = "AR_TEST_CASE";

/// The number of cases tried at the same time.
const AT_ONCE: usize = 4;

/// The commits, each with the content of `train.py`; all but the first are on it.
const COMMITS: [(&str, &str); 5] =
    [("start", "a = 1\n"), ("kept", "a = 2\n"), ("tried", "a = 3\n"), ("foreign", "a = 4\n"), ("equal", "a = 3\n")];

const BRANCH: &str = "refs/heads/autoresearch/t";
const OPEN: &str = "refs/autoresearch/t/open/2";
const RECORD: &str = "refs/autoresearch/t/00001";

/// A change of the world, by the commits' names.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Save(&'static str),
    SaveOf(&'static str),
    SaveChange(&'static str),
    PutRef(&'static str),
    DropRef,
    /// Where the branch is to be, and a commit that may be at its tip.
    MoveBranch(&'static str, &'static str),
    PlaceRecord,
    Row,
    RowInPlace,
    /// In the user's tree: to which commit, from the one at which its files are expected.
    MoveHead(&'static str, &'static str),
    Restore(&'static str, &'static str),
    MakeTree(&'static str),
    SwitchTree(&'static str),
    RemoveTrees,
}

/// A world before an act: the commits of branch, open attempt, linked tree, row, record and saved ref, and the content of
/// `train.py`.
#[derive(Debug, Clone, Copy)]
struct Before {
    branch: Option<&'static str>,
    open: Option<&'static str>,
    file: &'static str,
    is_packed: bool,
    tree: Option<&'static str>,
    row: Option<&'static str>,
    record: Option<&'static str>,
    saved: Option<&'static str>,
    /// Whether uncommitted changes on the start are saved.
    is_dirty_saved: bool,
}

const PLAIN: Before = Before {
    branch: Some("start"),
    open: None,
    file: "a = 1\n",
    is_packed: false,
    tree: None,
    row: None,
    record: None,
    saved: None,
    is_dirty_saved: false,
};

const CASES: &[(Before, Deed)] = &[
    (PLAIN, Deed::Save("foreign")),
    (PLAIN, Deed::SaveOf("tried")),
    (PLAIN, Deed::SaveChange("tried")),
    (Before { saved: Some("equal"), ..PLAIN }, Deed::SaveChange("tried")),
    (Before { saved: Some("equal"), ..PLAIN }, Deed::Save("tried")),
    (Before { is_dirty_saved: true, ..PLAIN }, Deed::Save("start")),
    (PLAIN, Deed::PutRef("tried")),
    (Before { open: Some("foreign"), ..PLAIN }, Deed::PutRef("tried")),
    (Before { open: Some("tried"), is_packed: true, ..PLAIN }, Deed::PutRef("kept")),
    (Before { open: Some("tried"), ..PLAIN }, Deed::DropRef),
    (Before { open: Some("tried"), is_packed: true, ..PLAIN }, Deed::DropRef),
    (PLAIN, Deed::DropRef),
    (PLAIN, Deed::MoveBranch("kept", "start")),
    (Before { branch: Some("tried"), is_packed: true, ..PLAIN }, Deed::MoveBranch("start", "tried")),
    (Before { branch: Some("foreign"), ..PLAIN }, Deed::MoveBranch("kept", "start")),
    (Before { branch: None, ..PLAIN }, Deed::MoveBranch("kept", "start")),
    (PLAIN, Deed::PlaceRecord),
    (Before { is_packed: true, ..PLAIN }, Deed::PlaceRecord),
    (Before { record: Some("tried"), ..PLAIN }, Deed::PlaceRecord),
    (PLAIN, Deed::Row),
    (Before { row: Some("foreign"), ..PLAIN }, Deed::Row),
    (Before { row: Some("kept"), ..PLAIN }, Deed::Row),
    (Before { row: Some("tried"), ..PLAIN }, Deed::RowInPlace),
    (PLAIN, Deed::MoveHead("tried", "start")),
    (Before { branch: Some("foreign"), ..PLAIN }, Deed::MoveHead("kept", "start")),
    (Before { branch: Some("tried"), file: "a = 3\n", ..PLAIN }, Deed::Restore("start", "tried")),
    (Before { branch: Some("tried"), file: "of the user\n", ..PLAIN }, Deed::Restore("start", "tried")),
    (PLAIN, Deed::MakeTree("tried")),
    (Before { tree: Some("tried"), ..PLAIN }, Deed::SwitchTree("kept")),
    (Before { tree: Some("tried"), ..PLAIN }, Deed::RemoveTrees),
];

/// The world as the user sees it.
#[derive(Debug, Clone, PartialEq, Default)]
struct World {
    /// The refs, each with what it leads to: a commit's name, or what a commit or tag is made of.
    refs: BTreeMap<String, String>,
    /// The rows of results.tsv.
    rows: Vec<String>,
    /// The branch or the commit that HEAD is at, `train.py` and `notes.txt` in the user's tree.
    tree: Vec<String>,
    /// The same of the linked tree, if it is there.
    linked: Vec<String>,
}

/// The model: what an act comes to.
fn model(mut world: World, deed: Deed) -> World {
    let saved = |what: &str, subject: &str| format!("{what} saved as {subject}");
    let uncommitted = "uncommitted changes, saved before the working tree was restored";
    let next = |world: &World| {
        let taken = world.refs.keys().filter(|name| name.starts_with("refs/autoresearch/t/saved/")).count();
        format!("refs/autoresearch/t/saved/{taken:05}")
    };
    match deed {
        Deed::SaveChange(commit) if world.refs.values().any(|what| what.starts_with("equal saved")) => {
            assert_eq!(commit, "tried");
        }
        Deed::Save(commit) | Deed::SaveChange(commit) => {
            drop(world.refs.insert(next(&world), saved(commit, uncommitted)))
        }
        Deed::SaveOf(commit) => drop(world.refs.insert(next(&world), saved(commit, "experiment 2, version 1"))),
        Deed::PutRef(commit) => drop(world.refs.insert(OPEN.into(), commit.into())),
        Deed::DropRef => drop(world.refs.remove(OPEN)),
        Deed::MoveBranch(to, known) | Deed::MoveHead(to, known) => {
            let tip = world.refs.get(BRANCH).cloned();
            if let Some(tip) = tip.filter(|tip| tip != known && tip != to) {
                world.refs.insert(next(&world), saved(&tip, uncommitted));
            }
            world.refs.insert(BRANCH.into(), to.into());
        }
        Deed::PlaceRecord => drop(world.refs.insert(RECORD.into(), "tag of kept".into())),
        Deed::Row => world.rows.push("kept".into()),
        Deed::RowInPlace => world.rows = vec!["kept".into()],
        Deed::Restore(to, expected) => {
            if world.tree[1] != content(expected) {
                let what = format!("{:?} on {expected}", world.tree[1]);
                world.refs.insert(next(&world), saved(&what, uncommitted));
            }
            world.tree[1] = content(to).into();
        }
        Deed::MakeTree(commit) | Deed::SwitchTree(commit) => world.linked = vec![commit.into(), content(commit).into()],
        Deed::RemoveTrees => world.linked = Vec::new(),
    }
    world
}

fn content(commit: &str) -> &'static str {
    COMMITS.iter().find(|(name, _)| *name == commit).unwrap().1
}

/// A repository of a case, in a folder of its own.
struct Place(PathBuf);

impl Place {
    fn git(&self, dir: &Path, args: &[&str]) -> String {
        let output = program("git", &self.0).arg("-C").arg(dir).args(args).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    fn root(&self) -> PathBuf {
        self.0.join("repo")
    }

    /// The commit of that name.
    fn commit(&self, name: &str) -> CommitId {
        CommitId::new(fs::read_to_string(self.0.join("names").join(name)).unwrap())
    }

    /// What an earlier process has noted, or else what is noted now.
    fn noted(&self, name: &str, what: impl FnOnce() -> String) -> String {
        let path = self.0.join(name);
        if !path.exists() {
            fs::write(&path, what()).unwrap();
        }
        fs::read_to_string(path).unwrap()
    }

    /// Makes a repository with the commits.
    fn make_commits(&self) {
        let root = self.root();
        fs::create_dir_all(&root).unwrap();
        fs::create_dir(self.0.join("names")).unwrap();
        let git = |args: &[&str]| self.git(&root, args);
        git(&["init", "-q", "-b", "main", "--template="]);
        for (name, content) in COMMITS {
            if name != "start" {
                git(&["checkout", "-q", "--detach", "main"]);
            }
            fs::write(root.join("train.py"), content).unwrap();
            git(&["add", "train.py"]);
            git(&["commit", "-q", "-m", name]);
            git(&["update-ref", &format!("refs/names/{name}"), "HEAD"]);
            fs::write(self.0.join("names").join(name), git(&["rev-parse", "HEAD"])).unwrap();
        }
        fs::create_dir(root.join(".git/info")).unwrap();
        fs::write(root.join(".git/info/exclude"), "notes.txt\nresults.tsv\n.autoresearch\n").unwrap();
        fs::write(root.join("notes.txt"), "of the user\n").unwrap();
        SessionFolder::new(&root, &contract("true").tag).create().unwrap();
    }

    /// Makes the world of a case of it.
    fn make(&self, before: Before) {
        let root = self.root();
        let git = |args: &[&str]| self.git(&root, args);
        git(&["checkout", "-q", "--detach", "main"]);
        match before.branch {
            Some(branch) => git(&["checkout", "-q", "-B", "autoresearch/t", &format!("refs/names/{branch}")]),
            None => git(&["checkout", "-q", "main"]),
        };
        if let Some(open) = before.open {
            git(&["update-ref", OPEN, &format!("refs/names/{open}")]);
        }
        fs::write(root.join("train.py"), before.file).unwrap();
        if before.is_packed {
            git(&["pack-refs", "--all"]);
        }
        if let Some(commit) = before.saved {
            self.store().save(&Save::new(&self.commit(commit))).unwrap();
        }
        if before.is_dirty_saved {
            let (store, start) = (&mut self.store(), self.commit("start"));
            fs::write(root.join("train.py"), "of the user\n").unwrap();
            self.tree(store).restore(store, &start, &start).unwrap();
        }
        if let Some(commit) = before.record {
            self.store().repo.refs.write_record(RECORD, &self.commit(commit), "one\n").unwrap();
        }
        if let Some(commit) = before.row {
            let row = format!("{}\t2.0\t0.0\tdiscard\told\n", self.commit(commit).short(8));
            fs::write(root.join("results.tsv"), format!("commit\tloss\tmemory_gb\tstatus\tdescription\n{row}"))
                .unwrap();
        }
        if let Some(commit) = before.tree {
            let (mut store, commit) = (self.store(), self.commit(commit));
            self.linked_tree(&mut store, &commit);
        }
    }

    /// The store of the session, with one record that has no ref and no row.
    fn store(&self) -> Store {
        let repo = Repo::discover(&self.root()).unwrap();
        let (start, kept) = (self.commit("start"), self.commit("kept"));
        let mut contract = contract("true");
        contract.start = start.clone();
        let record =
            record(json!({"id": 1, "sequence": 1, "commit": kept.as_str(), "base": start.as_str(), "value": "1.0"}));
        let folder = SessionFolder::new(&self.root(), &contract.tag);
        let lock = folder.lock(repo.git_dir(), true).unwrap();
        let journal = Journal::new(&self.root(), contract.created);
        let ledger = LedgerFile::open(&self.root().join("results.tsv"), "loss", LedgerDialect::default()).unwrap();
        Store::new(
            Rc::new(repo),
            (folder, lock),
            contract,
            History::new(vec![record]),
            journal,
            ledger,
            Clock::default(),
        )
    }

    /// The user's tree.
    fn tree(&self, store: &Store) -> Workspace {
        let terms = FileTerms::of(&store.contract).unwrap();
        let (protected, _) = Protected::of(&store.repo, &store.folder, &terms, &store.contract.start, &[]).unwrap();
        let mut tree = Workspace::new(Rc::clone(&store.repo), TreeOwner::User, terms, protected);
        tree.untracked.known = Some(Untracked::default());
        tree
    }

    fn linked_tree(&self, store: &mut Store, commit: &CommitId) -> Workspace {
        let terms = FileTerms::of(&store.contract).unwrap();
        Workspace::linked(store, &terms, &store.folder.slot(0), commit).unwrap()
    }

    fn perform(&self, deed: Deed) {
        let store = &mut self.store();
        let (id, commit) = (ExperimentId::from(2), |name| self.commit(name));
        let one = ExperimentId::from(1);
        match deed {
            Deed::Save(name) => drop(store.save(&Save::new(&commit(name))).unwrap()),
            Deed::SaveOf(name) => drop(store.save(&Save::of(id, "version 1", &commit(name))).unwrap()),
            Deed::SaveChange(name) => drop(store.save(&Save::change(&commit(name))).unwrap()),
            Deed::PutRef(name) => store.perform(&Act::PutRef { name: OPEN.into(), to: commit(name) }).unwrap(),
            Deed::DropRef => store.perform(&Act::DropRef { name: OPEN.into() }).unwrap(),
            Deed::MoveBranch(to, known) => store.set_branch(&commit(to), &[commit(known)], "moved").unwrap(),
            Deed::PlaceRecord => {
                let record = store.history.get(one).unwrap().clone();
                let former = store.repo.refs.ref_object(RECORD).unwrap();
                // Whoever performs it again knows which tag it was.
                let noted = self.noted("tag", || {
                    let (place, unsynced) = store.refs().prepare_record(&record, former.as_deref()).unwrap();
                    store.written.unsynced.append(unsynced);
                    let Act::PlaceRecord { tag, .. } = place else { panic!("{place:?}") };
                    format!("{tag} {}", former.unwrap_or_default())
                });
                let (tag, former) = noted.split_once(' ').unwrap();
                let replaces = (!former.is_empty()).then(|| former.to_owned());
                store.perform(&Act::PlaceRecord { id: one, tag: tag.to_owned(), replaces }).unwrap();
            }
            Deed::Row | Deed::RowInPlace => {
                let is_new = matches!(deed, Deed::Row);
                let from = self.noted("from", || if is_new { store.ledger.length().unwrap() } else { 0 }.to_string());
                let replaces = (!is_new).then(|| commit("tried"));
                store.perform(&Act::Row { id: one, from: from.parse().ok(), replaces }).unwrap();
            }
            Deed::MoveHead(to, known) => {
                self.tree(store).move_head(store, &commit(to), &[&commit(known)], "moved").unwrap();
            }
            Deed::Restore(to, expected) => {
                self.tree(store).restore(store, &commit(to), &commit(expected)).unwrap();
            }
            Deed::MakeTree(name) => drop(self.linked_tree(store, &commit(name))),
            Deed::SwitchTree(name) => {
                let at = commit("tried");
                self.linked_tree(store, &at).switch_to(store, &commit(name)).unwrap();
            }
            Deed::RemoveTrees => remove_trees(store).unwrap(),
        }
    }

    /// The world as it is.
    fn world(&self) -> World {
        let root = self.root();
        let git = |args: &[&str]| self.git(&root, args);
        let names: BTreeMap<String, &str> =
            COMMITS.iter().map(|(name, _)| (self.commit(name).to_string(), *name)).collect();
        let named = |commit: &str| names.get(commit).map_or(commit.to_owned(), |name| (*name).to_owned());
        let mut world = World::default();
        for line in git(&[
            "for-each-ref",
            "--format=%(refname) %(objectname) %(objecttype)",
            "refs/heads/autoresearch",
            "refs/autoresearch",
        ])
        .lines()
        {
            let [name, object, kind] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let target = match kind {
                "tag" => format!("tag of {}", named(&git(&["rev-parse", &format!("{object}^{{}}")]))),
                _ if name.contains("/saved/") => {
                    let log = git(&["log", "-1", "--format=%P %s", object]);
                    let (parent, subject) = log.split_once(' ').unwrap();
                    let (parent, file) = (named(parent), git(&["show", &format!("{object}:train.py")]) + "\n");
                    let what = if file == content(&parent) { parent } else { format!("{file:?} on {parent}") };
                    format!("{what} saved as {subject}")
                }
                _ => named(object),
            };
            world.refs.insert(name.to_owned(), target);
        }
        let rows = fs::read_to_string(root.join("results.tsv")).unwrap_or_default();
        world.rows = rows.lines().skip(1).map(|row| named_by_start(row, &names)).collect();
        let at = |dir: &Path| {
            let head =
                program("git", &self.0).arg("-C").arg(dir).args(["symbolic-ref", "-q", "HEAD"]).output().unwrap();
            match head.status.success() {
                true => String::from_utf8(head.stdout).unwrap().trim().to_owned(),
                false => named(&self.git(dir, &["rev-parse", "HEAD"])),
            }
        };
        let file = |dir: &Path, name: &str| fs::read_to_string(dir.join(name)).unwrap_or_default();
        world.tree = vec![at(&root), file(&root, "train.py"), file(&root, "notes.txt")];
        let linked = root.join(".autoresearch/t/trees/slot-0");
        if linked.exists() {
            world.linked = vec![at(&linked), file(&linked, "train.py")];
            assert_eq!(self.git(&linked, &["status", "--porcelain"]), "", "the linked tree is clean");
        }
        assert_eq!(git(&["fsck", "--no-dangling", "--no-progress"]), "");
        assert_eq!(git(&["worktree", "list"]).lines().count(), 1 + usize::from(linked.exists()));
        world
    }
}

/// The commit of a row.
fn named_by_start(row: &str, names: &BTreeMap<String, &str>) -> String {
    let short = row.split('\t').next().unwrap();
    let name = names.iter().find(|(commit, _)| commit.starts_with(short)).map(|(_, name)| *name);
    name.unwrap_or(row).to_owned()
}

fn program(name: &str, home: &Path) -> Command {
    let mut command = Command::new(name);
    command.env("HOME", home).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Ada").env(format!("GIT_{who}_EMAIL"), "ada@example.com");
    }
    command
}

/// Performs the act of a case in a process of its own, killed at a point if one is given.
fn in_child(place: &Path, case: usize, trace: &Path, kill: Option<&str>) -> Output {
    let mut child = program(env::current_exe().unwrap().to_str().unwrap(), place);
    child.args(["--exact", "session::handlers::conformance_tests::performs_one_act", "--nocapture"]);
    child.env(PLACE, place).env(CASE, case.to_string()).env("AR_CRASH_TRACE", trace);
    if let Some(kill) = kill {
        child.env("AR_CRASH_AT", kill);
    }
    child.output().unwrap()
}

/// The process that performs one act; without its variables it does nothing.
#[test]
fn performs_one_act() {
    let (Some(place), Ok(case)) = (env::var_os(PLACE), env::var(CASE)) else { return };
    Place(place.into()).perform(CASES[case.parse::<usize>().unwrap()].1);
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

#[test]
fn an_act_that_is_killed_anywhere_and_performed_again_comes_to_what_the_model_says() {
    let (next, kills) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let temp = TempDir::new().unwrap();
    let commits = temp.path().join("commits");
    Place(commits.clone()).make_commits();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|case| *case < CASES.len()) {
                    kills.fetch_add(kill_everywhere(case, &commits), Ordering::Relaxed);
                }
            });
        }
    });
    let kills = kills.into_inner();
    assert!(kills > 80, "{kills} kills");
}

/// Kills the act of a case at each of its points; gives how many there are.
fn kill_everywhere(case: usize, commits: &Path) -> usize {
    let (before, deed) = &CASES[case];
    let temp = TempDir::new().unwrap();
    // A linked tree names its place, so each process finds its world at the same one.
    let (base, place) = (temp.path().join("base"), temp.path().join("place"));
    copy(commits, &place);
    let there = Place(place.clone());
    there.make(*before);
    let wanted = model(there.world(), *deed);
    fs::rename(&place, &base).unwrap();
    copy(&base, &place);
    let at = |when: &str| format!("case {case}, {deed:?} of {before:?}, {when}");
    let (trace, other) = (temp.path().join("trace"), temp.path().join("other"));
    for (trace, when) in [(&trace, "in one go"), (&other, "performed twice")] {
        let done = in_child(&place, case, trace, None);
        assert!(done.status.success(), "{}: {}", at(when), String::from_utf8_lossy(&done.stderr));
        assert_eq!(there.world(), wanted, "{}", at(when));
    }
    let points = fs::read_to_string(&trace).unwrap_or_default();
    let mut passed = BTreeMap::new();
    for point in points.lines() {
        let times = passed.entry(point).and_modify(|times| *times += 1).or_insert(1);
        let kill = format!("{point}:{times}");
        fs::remove_dir_all(&place).unwrap();
        copy(&base, &place);
        let _ = fs::remove_file(&other);
        assert_eq!(in_child(&place, case, &other, Some(&kill)).status.signal(), Some(9), "{}", at(&kill));
        let again = in_child(&place, case, &other, None);
        assert!(again.status.success(), "{}: {}", at(&kill), String::from_utf8_lossy(&again.stderr));
        assert_eq!(there.world(), wanted, "{}", at(&kill));
    }
    points.lines().count()
}
