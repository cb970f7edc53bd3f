//! Walls: what a job may write, and what is read-only for it, as mounts, from where it works.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A job's access to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Read and write.
    Writable,
    /// Read only.
    ReadOnly,
    /// An empty folder in its place.
    Empty,
}

/// A path of the file system as a job sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// The path, absolute and without links.
    pub path: PathBuf,
    /// The path that is mounted there, if another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PathBuf>,
    /// The job's access.
    pub access: Access,
}

/// What the kernel keeps a job from writing: mounts over the file system as it is, each after those above it. A path that is not
/// there is left out, but not one with a source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wall {
    /// The program that makes the mounts, absolute: what jobs put on the PATH later is another one.
    pub builder: PathBuf,
    /// The mounts, in the order in which they are made.
    pub mounts: Vec<Mount>,
    /// True if the job may not run without it, also on a node that cannot build one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
}

/// The places of a repository, absolute and without links.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// The program that builds walls, which no job may replace.
    pub builder: PathBuf,
    /// The user's working tree.
    pub root: PathBuf,
    /// The folder of sessions in it.
    pub sessions: PathBuf,
    /// Git's folder, which all working trees share.
    pub git: PathBuf,
    /// The other working trees of the repository that are not in the folder of sessions.
    pub linked: Vec<PathBuf>,
    /// The folder of `ar` in the user's state, if there is one.
    pub state: Option<PathBuf>,
    /// Folders in which any program may write: home, temporary files, caches, devices and processes.
    pub common: Vec<PathBuf>,
    /// True if no job may run without a wall.
    pub required: bool,
    /// What no job may read but the hidden evaluator.
    pub hidden: HiddenPlaces,
    /// What no job may read.
    pub sealed: HiddenPlaces,
}

/// The places of one job, absolute and without links.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobPlaces {
    /// The working tree that it works in.
    pub tree: PathBuf,
    /// Git's folder of the tree, or the file that names it.
    pub git: PathBuf,
    /// The folder of its own, in which it may write.
    pub folder: PathBuf,
    /// Further folders of its own, such as that for its temporary files.
    pub scratch: Vec<PathBuf>,
    /// Names of `ar`'s own entries in that folder.
    pub own: Vec<String>,
    /// The protected paths of the tree, relative to it.
    pub protected: Vec<PathBuf>,
    /// The ledgers in the tree that it may not write, by name.
    pub ledgers: Vec<String>,
    /// The targets of the tree's links, and whether the job may write there.
    pub links: Vec<(PathBuf, bool)>,
    /// Folders that are empty for it, besides those that are so for all.
    pub emptied: Vec<PathBuf>,
}

/// The places that a job may not read, absolute and without links.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HiddenPlaces {
    /// Folders, each empty for the job but for its own below it.
    pub folders: Vec<PathBuf>,
    /// Files.
    pub files: Vec<PathBuf>,
    /// An empty file that the job sees in the place of each.
    pub empty: PathBuf,
}

/// Git's folder of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallMounts {
    /// The path that is mounted at `.git` in the tree: a folder, or a file that names it.
    pub seen: PathBuf,
    /// Folders of the repository that are seen in it, each with its place there.
    pub shared: Vec<(PathBuf, PathBuf)>,
    /// Files of the call, each with the place of the file that it is seen instead of.
    pub instead: Vec<(PathBuf, PathBuf)>,
}

/// The work of a job in its tree, as far as its wall is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WalledRole {
    /// It edits, and works with git: an agent.
    Agent(CallMounts),
    /// It runs: the command, in whatever role, a guard, or a command of the user's.
    Run,
    /// It evaluates by the hidden split what the run left that has this folder.
    Evaluator(PathBuf),
    /// It reads: a reviewer.
    Reviewer,
}

impl WalledRole {
    /// The folder of the run that it evaluates.
    pub fn run_folder(&self) -> Option<&Path> {
        match self {
            WalledRole::Evaluator(folder) => Some(folder),
            WalledRole::Agent(_) | WalledRole::Run | WalledRole::Reviewer => None,
        }
    }
}

/// The wall of a job, with mounts in the order of their paths, so that none covers one that is below it:
///
/// | | agent | run, guard | reviewer |
/// |---|---|---|---|
/// | bubblewrap itself | read-only | read-only | read-only |
/// | folders above these, and above links | cannot be renamed | cannot be renamed | cannot be renamed |
/// | everything else | as it is | as it is | read-only, but for home, temporary files, caches |
/// | working trees of others, the user's too | read-only | read-only | read-only |
/// | folder of sessions, `ar`'s state | read-only | read-only | read-only |
/// | git's folder | read-only; at `.git`, one of its own | read-only | read-only |
/// | own tree | writable | writable | writable |
/// | protected files in it | read-only | read-only | read-only |
/// | the session's ledger | writable, put right afterwards | read-only | read-only |
/// | `run.log` in the tree | a copy of the call's own | the log | the log |
/// | own folder | writable, but for `ar`'s files | likewise | likewise |
/// | hidden files and folders | empty | empty | empty |
///
/// The hidden evaluator is as a run, but reads what `--hide` names, and its tree is read-only.
pub fn wall(places: &Places, job: &JobPlaces, role: &WalledRole) -> Wall {
    let mut mounts = Mounts::default();
    if *role == WalledRole::Reviewer {
        mounts.add(Path::new("/"), Access::ReadOnly);
        places.common.iter().for_each(|path| mounts.add(path, Access::Writable));
    }
    mounts.add(&places.builder, Access::ReadOnly);
    places.state.iter().for_each(|path| mounts.add(path, Access::ReadOnly));
    places.linked.iter().for_each(|path| mounts.add(path, Access::ReadOnly));
    for path in [&places.root, &places.git, &places.sessions] {
        mounts.add(path, Access::ReadOnly);
    }
    for (path, is_writable) in &job.links {
        mounts.add(path, if *is_writable { Access::Writable } else { Access::ReadOnly });
    }
    let HiddenPlaces { folders, files, empty } = &places.sealed;
    folders.iter().for_each(|path| mounts.add(path, Access::Empty));
    files.iter().for_each(|path| mounts.show(path, empty, Access::ReadOnly));
    let held = [&places.root, &places.git, &places.sessions].into_iter().chain(&places.linked).chain(&places.state);
    held.chain(job.links.iter().map(|(path, _)| path)).for_each(|path| mounts.hold_above(path));
    let is_evaluator = matches!(role, WalledRole::Evaluator(_));
    // What the evaluator left there, the next call would find.
    mounts.add(&job.tree, if is_evaluator { Access::ReadOnly } else { Access::Writable });
    for path in [&job.folder].into_iter().chain(&job.scratch) {
        mounts.add(path, Access::Writable);
    }
    for name in &job.own {
        mounts.add(&job.folder.join(name), Access::ReadOnly);
    }
    // Its own further runs are among its own names.
    job.emptied.iter().for_each(|path| mounts.add(path, Access::Empty));
    if !is_evaluator {
        mounts.protect(&job.tree, &job.protected);
    }
    job.ledgers.iter().for_each(|name| mounts.add(&job.tree.join(name), Access::ReadOnly));
    match role {
        WalledRole::Agent(call) => {
            // Nothing there for `git clean` to remove.
            mounts.add(&call.seen, Access::ReadOnly);
            mounts.show(&job.git, &call.seen, Access::Writable);
            call.shared.iter().for_each(|(what, place)| mounts.show(place, what, Access::ReadOnly));
            call.instead.iter().for_each(|(what, place)| mounts.show(place, what, Access::Writable));
        }
        WalledRole::Run | WalledRole::Evaluator(_) | WalledRole::Reviewer => {
            mounts.add(&job.git, Access::ReadOnly);
        }
    }
    // Under another name, a folder above them would show them.
    places.hidden.folders.iter().chain(&places.hidden.files).for_each(|path| mounts.hold_above(path));
    if !is_evaluator {
        mounts.hide(&places.hidden);
    }
    Wall { builder: places.builder.clone(), mounts: mounts.0.into_values().collect(), required: places.required }
}

/// Mounts by path, so that those above come first.
#[derive(Debug, Default)]
struct Mounts(BTreeMap<PathBuf, Mount>);

impl Mounts {
    /// Adds a mount or replaces the one at its path. Ignores relative paths.
    fn add(&mut self, path: &Path, access: Access) {
        if !path.is_absolute() {
            return;
        }
        self.0.insert(path.to_owned(), Mount { path: path.to_owned(), source: None, access });
    }

    /// Shows `source` at `path`.
    fn show(&mut self, path: &Path, source: &Path, access: Access) {
        let mount = Mount { path: path.to_owned(), source: Some(source.to_owned()), access };
        self.0.insert(path.to_owned(), mount);
    }

    /// Shows nothing at these places and below them, whatever is mounted there.
    fn hide(&mut self, hidden: &HiddenPlaces) {
        let is_hidden = |path: &Path| hidden.folders.iter().chain(&hidden.files).any(|place| path.starts_with(place));
        self.0.retain(|path, _| !is_hidden(path));
        hidden.folders.iter().for_each(|path| self.add(path, Access::Empty));
        hidden.files.iter().for_each(|path| self.show(path, &hidden.empty, Access::ReadOnly));
    }

    /// Mounts the folders above a path onto themselves: a mount cannot be renamed, and with another folder in its place the
    /// path would be another one.
    fn hold_above(&mut self, path: &Path) {
        let above: Vec<&Path> = path.ancestors().skip(1).filter(|above| above.parent().is_some()).collect();
        for folder in above.into_iter().rev() {
            let is_above = |mount: &&Mount| folder.starts_with(&mount.path);
            let access = self.0.values().rfind(is_above).map_or(Access::Writable, |mount| mount.access);
            if !self.0.contains_key(folder) {
                self.add(folder, access);
            }
        }
    }

    /// Makes paths below `tree` read-only. Mounts the folders above them onto themselves: a mount cannot be renamed, and
    /// with another folder in its place its protected file would be another one.
    fn protect(&mut self, tree: &Path, protected: &[PathBuf]) {
        let is_inside_another =
            |path: &Path| path.ancestors().skip(1).any(|above| protected.iter().any(|other| other == above));
        for path in protected.iter().filter(|path| !is_inside_another(path)) {
            let above = path.ancestors().skip(1).take_while(|above| *above != Path::new(""));
            for folder in above.map(|above| tree.join(above)) {
                if !self.0.contains_key(&folder) {
                    self.add(&folder, Access::Writable);
                }
            }
            self.add(&tree.join(path), Access::ReadOnly);
        }
    }
}

/// The most files that are mounted one by one. 50 mounts cost 11 ms a job and 500 cost 0.4 s, measured with bubblewrap 0.8;
/// but in a folder that is mounted as a whole, a job cannot make files either.
const MOST_FILES: usize = 40;

/// The most mounts for protected files. `bwrap` takes time that grows with the square of their number, and at most 9,000
/// arguments, three a mount.
const MOST_MOUNTS: usize = 200;

/// The paths that protect `protected`, the files of a tree, when `all` are the files that it has: the files themselves, or
/// where these are many, folders in which there is nothing else, the largest first. What is left over after 200 paths has no
/// mount.
pub fn protected_mounts<'a>(
    protected: impl IntoIterator<Item = &'a PathBuf>,
    all: impl IntoIterator<Item = &'a PathBuf>,
) -> Vec<PathBuf> {
    let mut paths: BTreeSet<PathBuf> = protected.into_iter().cloned().collect();
    if paths.len() <= MOST_FILES {
        return paths.into_iter().collect();
    }
    let mut open = BTreeSet::new();
    for path in all.into_iter().filter(|path| !paths.contains(*path)) {
        open.extend(path.ancestors().skip(1).map(Path::to_owned));
    }
    open.insert(PathBuf::new());
    let mut closed: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for path in &paths {
        // The topmost folder in which all is protected.
        let top = path.ancestors().skip(1).take_while(|above| !open.contains(*above)).last();
        if let Some(top) = top {
            *closed.entry(top.to_owned()).or_default() += 1;
        }
    }
    let mut by_size: Vec<(usize, PathBuf)> = closed.into_iter().map(|(folder, count)| (count, folder)).collect();
    by_size.sort();
    while let Some((_, folder)) = by_size.pop().filter(|_| paths.len() > MOST_FILES) {
        paths.retain(|path| !path.starts_with(&folder));
        paths.insert(folder);
    }
    paths.into_iter().take(MOST_MOUNTS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places {
            builder: "/usr/bin/bwrap".into(),
            root: "/r".into(),
            sessions: "/r/.autoresearch".into(),
            git: "/r/.git".into(),
            linked: vec!["/other".into(), "/r".into()],
            state: Some("/home/u/.local/state/autoresearch".into()),
            common: vec!["/home/u".into(), "/tmp".into()],
            ..Places::default()
        }
    }

    fn job(tree: &str) -> JobPlaces {
        JobPlaces {
            tree: tree.into(),
            git: format!("{tree}/.git").into(),
            folder: "/r/.autoresearch/t/runs/00001".into(),
            scratch: vec!["/r/.autoresearch/t/trees/tmp-0".into()],
            own: vec!["lock".into(), "run.log".into()],
            protected: vec!["eval/deep/metric.py".into(), "prepare.py".into()],
            ledgers: vec!["results.tsv".into()],
            links: vec![("/data".into(), false), ("/cache".into(), true)],
            ..JobPlaces::default()
        }
    }

    /// What a job may write, by the last mount above a path, as the kernel sees it.
    fn may_write(wall: &Wall, path: &str) -> bool {
        let above = |mount: &&Mount| Path::new(path).starts_with(&mount.path);
        wall.mounts.iter().rfind(above).is_none_or(|mount| mount.access == Access::Writable)
    }

    const OWN: &str = "/r/.autoresearch/t/runs/00001/mine";

    const TAKEN: [&str; 7] = [
        "/usr/bin/bwrap",
        "/r/.autoresearch/t/runs/00001/run.log",
        "/r/.autoresearch/t/runs/00002/run.log",
        "/r/.autoresearch/t/state/contract.json",
        "/other/train.py",
        "/data/train.bin",
        "/home/u/.local/state/autoresearch/register",
    ];

    #[test]
    fn a_run_writes_in_its_tree_and_its_folder() {
        for tree in ["/r", "/r/.autoresearch/t/trees/slot-0"] {
            let wall = wall(&places(), &job(tree), &WalledRole::Run);
            let inside = |path: &str| format!("{tree}/{path}");
            for path in ["train.py", "eval/deep/new.py", "out/model.pt"].map(inside) {
                assert!(may_write(&wall, &path), "{path}");
            }
            for path in ["prepare.py", "eval/deep/metric.py", ".git/index", "results.tsv"].map(inside) {
                assert!(!may_write(&wall, &path), "{path}");
            }
            for path in [
                OWN,
                "/r/.autoresearch/t/trees/tmp-0/a",
                "/cache/a",
                "/home/u/.cache/a",
                "/tmp/a",
                "/dev/shm/a",
                "/anywhere",
            ] {
                assert!(may_write(&wall, path), "{path}");
            }
            for path in TAKEN.into_iter().chain(["/r/.git/refs/heads/main"]) {
                assert!(!may_write(&wall, path), "{path}");
            }
            assert_eq!(may_write(&wall, "/r/train.py"), tree == "/r");
        }
    }

    #[test]
    fn a_protected_file_in_a_protected_folder_opens_nothing() {
        let job = JobPlaces { protected: vec!["lib".into(), "lib/cache/x.bin".into()], ..job("/r") };
        let wall = wall(&places(), &job, &WalledRole::Run);
        assert!(!may_write(&wall, "/r/lib/cache/y.py") && !may_write(&wall, "/r/lib/cache/x.bin"));
    }

    #[test]
    fn an_agent_has_a_git_folder_of_its_own() {
        let shared = vec![("/r/.git/objects".into(), "/r/.autoresearch/t/runs/00001/git/shared".into())];
        let instead = vec![("/copy".into(), "/r/.autoresearch/t/runs/00000/run.log".into())];
        let call = CallMounts { seen: "/r/.autoresearch/t/runs/00001/git".into(), shared, instead };
        let job = JobPlaces { ledgers: vec!["results-acc.tsv".into()], ..job("/r") };
        let wall = wall(&places(), &job, &WalledRole::Agent(call));
        assert!(!may_write(&wall, "/r/results-acc.tsv"), "the ledger of another metric");
        let at = |path: &str| wall.mounts.iter().find(|mount| mount.path == Path::new(path)).unwrap();
        assert_eq!(at("/r/.git").source.as_deref(), Some(Path::new("/r/.autoresearch/t/runs/00001/git")));
        assert!(may_write(&wall, "/r/.git/index") && may_write(&wall, "/r/results.tsv"));
        assert!(!may_write(&wall, "/r/.autoresearch/t/runs/00001/git/shared/ab/cd"));
        assert!(may_write(&wall, "/r/.autoresearch/t/runs/00000/run.log"), "it is the call's own copy");
        TAKEN.iter().for_each(|path| assert!(!may_write(&wall, path), "{path}"));
    }

    #[test]
    fn a_reviewer_writes_in_its_tree_and_where_any_program_does() {
        let tree = "/r/.autoresearch/t/trees/review-1";
        let wall = wall(&places(), &job(tree), &WalledRole::Reviewer);
        for path in [OWN, "/home/u/.claude/settings.json", "/tmp/a", "/r/.autoresearch/t/trees/review-1/notes"] {
            assert!(may_write(&wall, path), "{path}");
        }
        for path in TAKEN.into_iter().chain(["/r/train.py", "/usr/bin/python3", "/anywhere"]) {
            assert!(!may_write(&wall, path), "{path}");
        }
    }

    #[test]
    fn hidden_files_are_empty_for_all_and_those_of_the_user_are_there_for_the_evaluator() {
        let named =
            HiddenPlaces { files: vec!["/data/test.csv".into()], folders: vec!["/hidden".into()], empty: "/e".into() };
        let sealed = HiddenPlaces { folders: vec!["/r/.autoresearch/t/runs".into()], ..HiddenPlaces::default() };
        let places = Places { hidden: named, sealed, ..places() };
        let emptied = vec!["/r/.autoresearch/t/runs/00001/confirm-1".into()];
        let links = vec![("/hidden/x".into(), false)];
        let own = vec!["lock".into(), "run.log".into(), "confirm-1".into()];
        let job = JobPlaces { emptied, links, own, ..job("/r") };
        let seen = |role: &WalledRole, path: &str| {
            let wall = wall(&places, &job, role);
            let above = |mount: &&Mount| Path::new(path).starts_with(&mount.path);
            let mount = wall.mounts.iter().rfind(above).cloned();
            mount.is_none_or(|mount| mount.access != Access::Empty && mount.source.as_deref() != Some(Path::new("/e")))
        };
        let evaluator = WalledRole::Evaluator("/r/.autoresearch/t/runs/00001/confirm-2".into());
        for role in [&WalledRole::Run, &WalledRole::Reviewer, &evaluator] {
            let is_evaluator = *role == evaluator;
            let held = wall(&places, &job, role).mounts;
            assert!(held.iter().any(|mount| mount.path == Path::new("/data")), "{role:?}: /data can be renamed");
            assert_eq!(["/data/test.csv", "/hidden/x"].map(|path| seen(role, path)), [is_evaluator; 2], "{role:?}");
            for (path, is_seen) in
                [("00001/run.log", true), ("00001/confirm-1/run.log", false), ("00002/run.log", false)]
            {
                assert_eq!(seen(role, &format!("/r/.autoresearch/t/runs/{path}")), is_seen, "{role:?} {path}");
            }
        }
    }

    #[test]
    fn mounts_come_after_those_above_and_hold_the_folders_above_protected_files() {
        let wall = wall(&places(), &job("/r"), &WalledRole::Run);
        for (at, mount) in wall.mounts.iter().enumerate() {
            assert!(wall.mounts[at..].iter().skip(1).all(|later| !mount.path.starts_with(&later.path)), "{mount:?}");
        }
        for folder in ["/r/eval", "/r/eval/deep", "/home", "/home/u/.local/state"] {
            assert!(wall.mounts.iter().any(|mount| mount.path == Path::new(folder)), "{folder} can be renamed");
        }
    }

    fn paths(folder: &str, count: usize) -> Vec<PathBuf> {
        (0..count).map(|number| Path::new(folder).join(format!("{number:03}"))).collect()
    }

    #[test]
    fn few_files_stay_files() {
        let few = paths("eval", MOST_FILES);
        assert_eq!(protected_mounts(&few, &few), few);
    }

    #[test]
    fn many_files_become_folders_in_which_nothing_else_is_tracked() {
        let (data, eval, mixed) = (paths("data/deep", 300), paths("eval", 20), paths("src/lib", 10));
        let protected: Vec<PathBuf> = [data, eval.clone(), mixed.clone()].concat();
        let all = [protected.clone(), vec!["src/lib/train.py".into(), "train.py".into()]].concat();
        let expected: Vec<PathBuf> = [vec!["data".into()], eval, mixed].concat();
        assert_eq!(protected_mounts(&protected, &all), expected);
    }

    #[test]
    fn a_root_full_of_protected_files_stays_open() {
        let protected = paths("", 1000);
        assert_eq!(protected_mounts(&protected, &protected).len(), MOST_MOUNTS);
    }
}
