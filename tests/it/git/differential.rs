//! Random edits of a working tree: what is committed and put back must agree with the git program.
//!
//! Two things are not compared. Attributes do not change after the base commit: when they do, what git makes of a file
//! that it takes for unchanged depends on how long ago the index was written. And where line endings are converted,
//! files that are put back are compared with CRLF read as LF.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{open, propose_and_commit, save_as};
use crate::kill::soak;
use crate::support::TestRepo;
use autoresearch::domain::CommitId;
use autoresearch::git::Untracked;

/// How many repositories there are, and how many rounds of edits each lives through: 512 cases for a soak.
fn size() -> (u64, u64) {
    if soak().is_some() { (16, 32) } else { (6, 12) }
}

/// A small generator (splitmix64): a seed is all that is needed to see a failure again.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }

    pub(super) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

const NAMES: &[&str] = &[
    "a",
    "b",
    "train.py",
    "data.bin",
    "with space",
    "caf\u{e9}",
    "\u{1f600}.txt",
    "-dash",
    "quote\"d",
    "tab\tbed",
    "x.log",
    "a.b",
    "a-b",
    "UPPER",
    "crlf.txt",
];
const FOLDERS: &[&str] = &["", "", "", "src", "src/deep", "a", "b", "with space", "src/a", "build"];
const IGNORES: &[&str] = &["*.log\n", "build/\n", "*.bin\n!data.bin\n", "/a\n", "", "*.log\nsrc/deep/\n"];
const ATTRIBUTES: &[&str] =
    &["*.txt text\n", "*.txt text eol=crlf\n", "* -text\n", "", "*.py text eol=lf\n*.bin binary\n"];

fn content(random: &mut Random) -> Vec<u8> {
    match random.below(7) {
        0 => Vec::new(),
        1 => b"one line without end".to_vec(),
        2 => (0..random.below(400)).map(|_| u8::try_from(random.below(256)).unwrap()).collect(),
        3 => b"dos\r\nlines\r\n".repeat(1 + random.below(3)),
        4 => b"mixed\r\nlines\n".to_vec(),
        _ => (0..random.below(30)).flat_map(|_| format!("line {}\n", random.below(9)).into_bytes()).collect(),
    }
}

fn path(random: &mut Random) -> PathBuf {
    Path::new(random.pick(FOLDERS)).join(random.pick(NAMES))
}

/// Clears the way for a file at `path`.
fn clear(root: &Path, path: &Path) {
    for parent in path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()) {
        let full = root.join(parent);
        if fs::symlink_metadata(&full).is_ok_and(|meta| !meta.is_dir()) {
            fs::remove_file(full).unwrap();
        }
    }
    let full = root.join(path);
    match fs::symlink_metadata(&full) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(&full).unwrap(),
        Ok(_) => fs::remove_file(&full).unwrap(),
        Err(_) => {}
    }
    fs::create_dir_all(full.parent().unwrap()).unwrap();
}

/// All files of a working tree without the repository itself.
fn files(root: &Path) -> Vec<PathBuf> {
    fn walk(root: &Path, dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(root.join(dir)).unwrap() {
            let entry = entry.unwrap();
            let path = dir.join(entry.file_name());
            if entry.file_name() == ".git" {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                walk(root, &path, found);
            } else {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(root, Path::new(""), &mut found);
    found.sort();
    found
}

/// One edit, described for the report of a failure.
fn edit(repo: &TestRepo, random: &mut Random) -> String {
    let kind = random.below(12);
    edit_of(kind, repo, random, false)
}

/// One edit of the working tree alone. (A file of the expected commit that is no longer in the index goes when the
/// base does not have it; git would leave it behind.)
fn edit_files(repo: &TestRepo, random: &mut Random) -> String {
    let kind = random.below(11);
    edit_of(kind, repo, random, false)
}

fn edit_of(kind: usize, repo: &TestRepo, random: &mut Random, may_change_attributes: bool) -> String {
    let root = repo.path();
    let mut existing = files(&root);
    existing.retain(|path| path != Path::new(".gitattributes"));
    match kind {
        0..=3 => {
            let path = path(random);
            clear(&root, &path);
            repo.write(&path, content(random));
            format!("write {path:?}")
        }
        4 if !existing.is_empty() => {
            let path = random.pick(&existing);
            repo.rm(path);
            format!("remove {path:?}")
        }
        5 if !existing.is_empty() => {
            let (from, to) = (random.pick(&existing).clone(), path(random));
            let bytes =
                fs::symlink_metadata(root.join(&from)).unwrap().is_file().then(|| fs::read(root.join(&from)).unwrap());
            repo.rm(&from);
            clear(&root, &to);
            repo.write(&to, bytes.unwrap_or_default());
            format!("move {from:?} to {to:?}")
        }
        6 if !existing.is_empty() => {
            let path = random.pick(&existing);
            let meta = fs::symlink_metadata(root.join(path)).unwrap();
            if meta.is_file() {
                repo.chmod(path, meta.permissions().mode() & 0o100 == 0);
            }
            format!("chmod {path:?}")
        }
        7 => {
            let path = path(random);
            clear(&root, &path);
            let target = *random.pick(&["a", "src", "nowhere", "../outside", "with space"]);
            repo.symlink(target, &path);
            format!("link {path:?} to {target}")
        }
        8 => {
            repo.write(".gitignore", random.pick(IGNORES));
            "ignore".to_owned()
        }
        9 if may_change_attributes && repo.exists(".git/line-endings") => {
            repo.write(".gitattributes", random.pick(ATTRIBUTES));
            "attributes".to_owned()
        }
        10 if !existing.is_empty() => {
            // Same size, same second: only the content tells.
            let path = random.pick(&existing);
            let full = root.join(path);
            if fs::symlink_metadata(&full).unwrap().is_file() {
                let mut bytes = fs::read(&full).unwrap();
                bytes.iter_mut().filter(|byte| byte.is_ascii_digit()).for_each(|byte| *byte ^= 1);
                fs::write(&full, bytes).unwrap();
            }
            format!("flip {path:?}")
        }
        11 if !existing.is_empty() => {
            let path = random.pick(&existing);
            let args = *random.pick(&[
                &["add", "--force"][..],
                &["rm", "-r", "--cached", "--quiet"],
                &["add", "--intent-to-add"],
            ]);
            repo.try_git(args.iter().copied().chain(["--", path.to_str().unwrap()]));
            format!("{args:?} {path:?}")
        }
        _ => "nothing".to_owned(),
    }
}

/// Every file with its kind, executable bit and bytes.
fn contents(root: &Path) -> BTreeMap<PathBuf, (String, Vec<u8>)> {
    let describe = |path: PathBuf| {
        let full = root.join(&path);
        let meta = fs::symlink_metadata(&full).unwrap();
        let described = if meta.is_symlink() {
            ("link".to_owned(), fs::read_link(&full).unwrap().into_os_string().into_encoded_bytes())
        } else {
            (format!("file {:o}", meta.mode() & 0o100), fs::read(&full).unwrap())
        };
        (path, described)
    };
    files(root).into_iter().map(describe).collect()
}

/// git on a copy of the working tree with a copy of the index, so that it finds what we find.
struct Judge<'repo> {
    repo: &'repo TestRepo,
    tree: PathBuf,
}

impl<'repo> Judge<'repo> {
    /// Copies the index only, for what leaves the working tree alone.
    fn in_place(repo: &'repo TestRepo) -> Self {
        Judge::with_index(repo, repo.path())
    }

    /// Copies the working tree too.
    fn on_a_copy(repo: &'repo TestRepo) -> Self {
        let tree = repo.outside().join("copy");
        let _ = fs::remove_dir_all(&tree);
        fs::create_dir(&tree).unwrap();
        let mut find = Command::new("find");
        find.current_dir(repo.path()).args([".", "-mindepth", "1", "-maxdepth", "1", "!", "-name", ".git"]);
        find.args(["-exec", "cp", "-a", "-t"]).arg(&tree).args(["{}", "+"]);
        assert!(find.status().unwrap().success());
        Judge::with_index(repo, tree)
    }

    fn with_index(repo: &'repo TestRepo, tree: PathBuf) -> Self {
        let status =
            Command::new("cp").arg("-p").arg(repo.file(".git/index")).arg(repo.outside().join("index")).status();
        assert!(status.unwrap().success());
        Judge { repo, tree }
    }

    fn git(&self, args: &[&str]) -> String {
        let mut command = Command::new("git");
        self.repo.environment(&mut command);
        command.env("GIT_INDEX_FILE", self.repo.outside().join("index")).env("GIT_DIR", self.repo.file(".git"));
        let output = command.env("GIT_WORK_TREE", &self.tree).current_dir(&self.tree).args(args).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }
}

fn rounds(seed: u64) {
    let mut random = Random(seed);
    let repo = TestRepo::new();
    if seed.is_multiple_of(3) {
        // Whether git converts a file again hangs on its inode and ctime, in which a copy differs: leave them out.
        repo.git(["config", "core.checkStat", "minimal"]);
        repo.git(["config", "core.trustctime", "false"]);
        repo.git(["config", "core.autocrlf", *random.pick(&["true", "input", "false"])]);
        repo.write(".git/line-endings", "");
    }
    // Attributes stay as they are from here on: whether git converts an unchanged file anew when they change depends on
    // how young the file is, and so on the clock.
    for _ in 0..20 {
        let kind = random.below(12);
        edit_of(kind, &repo, &mut random, true);
    }
    let mut base = CommitId::new(repo.commit_all("base"));
    for round in 0..size().1 {
        let git = open(&repo);
        let edits: Vec<_> = (0..1 + random.below(8)).map(|_| edit(&repo, &mut random)).collect();
        let case = format!("seed {seed}, round {round}: {edits:#?}");
        let before = contents(&repo.path());

        let judge = Judge::in_place(&repo);
        judge.git(&["add", "--all"]);
        let tree = judge.git(&["write-tree"]);
        let proposal = git.working_tree.propose(&base, &Untracked::default()).unwrap();
        if proposal.tree() != tree {
            let of_git = repo.git(["ls-tree", "-r", &tree]);
            let ours = repo.git(["ls-tree", "-r", &proposal.tree()]);
            let only = |a: &str, b: &str| {
                a.lines().filter(|line| !b.lines().any(|other| other == *line)).collect::<Vec<_>>().join("\n")
            };
            panic!("{case}\ngit:\n{}\nproposed:\n{}", only(&of_git, &ours), only(&ours, &of_git));
        }
        let commit = propose_and_commit(&git, &base);
        assert_eq!(contents(&repo.path()), before, "the working tree was touched: {case}");
        repo.git(["update-ref", "HEAD", commit.as_str()]);
        assert_eq!(repo.status(), "", "after adopting: {case}");

        // Some of the time there are edits of somebody else's in the way.
        let more: Vec<_> = (0..random.below(3) * 2).map(|_| edit_files(&repo, &mut random)).collect();
        let case = format!("{case} then {more:#?}");
        // `read-tree --reset -u` is `reset --hard` without moving the branch.
        let judge = Judge::on_a_copy(&repo);
        judge.git(&["read-tree", "--reset", "-u", base.as_str()]);
        let restored = git.working_tree.restore(&base, &save_as(&commit), &Untracked::default()).unwrap();
        repo.git(["update-ref", "HEAD", base.as_str()]);
        // Whether git converts an unchanged file anew depends on how young it is, and so on the clock.
        let exact = !repo.exists(".git/line-endings");
        compare(&contents(&judge.tree), &contents(&repo.path()), exact, &case);
        assert_eq!(repo.status(), judge.git(&["status", "--porcelain"]), "after restoring: {case}");
        assert_eq!(repo.git(["ls-files", "-s"]), judge.git(&["ls-files", "-s"]), "{case}");
        if more.is_empty() {
            // Only what is not in the commit can be in the way: ignored files.
            let committed = repo.git(["ls-tree", "-r", "-z", "--name-only", commit.as_str()]);
            let committed: Vec<_> = committed.split('\0').map(Path::new).collect();
            let saved = restored.saved.map(|saved| saved.paths).unwrap_or_default();
            assert!(saved.iter().all(|path| !committed.contains(&path.as_path())), "{saved:?} saved: {case}");
        }
        if random.below(2) == 0 {
            repo.git(["reset", "--quiet", "--hard", commit.as_str()]);
            base = commit;
        }
    }
    repo.git(["fsck", "--strict", "--no-dangling"]);
}

fn compare(
    git: &BTreeMap<PathBuf, (String, Vec<u8>)>,
    ours: &BTreeMap<PathBuf, (String, Vec<u8>)>,
    exact: bool,
    case: &str,
) {
    for path in git.keys().chain(ours.keys()) {
        let show = |entry: Option<&(String, Vec<u8>)>| {
            entry.map(|(kind, bytes)| {
                let bytes = if exact {
                    bytes.clone()
                } else {
                    String::from_utf8_lossy(bytes).replace("\r\n", "\n").into_bytes()
                };
                format!("{kind}: {:?}", String::from_utf8_lossy(&bytes))
            })
        };
        assert_eq!(show(ours.get(path)), show(git.get(path)), "{path:?}, ours and git's: {case}");
    }
}

#[test]
fn random_edits_agree_with_git() {
    let first = std::env::var("AR_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    std::thread::scope(|scope| {
        for half in 0..2 {
            scope.spawn(move || (first..first + size().0).filter(|seed| seed % 2 == half).for_each(rounds));
        }
    });
}
