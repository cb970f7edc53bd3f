//! Merges of trees, with `git merge-tree` as the judge.
//!
//! Git may merge what is a conflict here: in one of some ten thousand random files whose sides have hardly a line in common,
//! lines that occur often are aligned in another way. Another tree is an error. Where git finds a conflict, changes that adjoin
//! may merge, in either order of the sides.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use autoresearch::domain::CommitId;
use autoresearch::git::{Merged, Repo};

use super::differential::Random;
use super::open;
use crate::support::TestRepo;

/// How many random merges there are under each of the [`ATTRIBUTES`].
const CASES: usize = 125;

/// Attributes as the trees have them, of two folders.
const ATTRIBUTES: [(&str, &str); 4] = [
    ("", ""),
    ("*.txt merge=union\n*.bin -merge\n", ""),
    ("* text=auto\n*.txt binary\n", "*.txt !merge\na merge\n"),
    ("*.txt merge=text\nb merge=nowhere\n", "*.txt merge=union\n"),
];

/// The files of a tree: mode and content; the target of a link, the commit of a submodule.
type Files = BTreeMap<String, (&'static str, Vec<u8>)>;

const FILE: &str = "100644";
const EXECUTABLE: &str = "100755";
const LINK: &str = "120000";
const SUBMODULE: &str = "160000";

const NAMES: [&str; 8] = ["a", "b", "c.txt", "d.txt", "e.bin", "with space", "caf\u{e9}", "model.py"];
const FOLDERS: [&str; 7] = ["", "", "", "src/", "src/deep/", "a/", "b/"];

/// Adds a file, in the place of whatever is in its way.
fn put(files: &mut Files, path: &str, file: (&'static str, Vec<u8>)) {
    let is_below = |below: &str, above: &str| below.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'));
    files.retain(|other, _| !is_below(other, path) && !is_below(path, other));
    files.insert(path.to_owned(), file);
}

fn line(random: &mut Random) -> Vec<u8> {
    let line = match random.below(4) {
        // Lines that occur often are what sides are aligned by in more than one way.
        0 => "}\n".to_owned(),
        1 => "\n".to_owned(),
        2 => format!("{}step()\n", "    ".repeat(random.below(3))),
        _ => format!("x{} = {}\n", random.below(12), random.below(3)),
    };
    line.into_bytes()
}

fn content(random: &mut Random) -> Vec<u8> {
    let mut content: Vec<u8> = (0..random.below(30)).flat_map(|_| line(random)).collect();
    match random.below(10) {
        0 => content.push(0),
        1 => drop(content.pop()),
        2 => content = with_crlf(&content),
        _ => {}
    }
    content
}

fn with_crlf(content: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(content).replace("\r\n", "\n").replace('\n', "\r\n").into_bytes()
}

/// Changes some lines of a file.
fn edit_lines(random: &mut Random, content: &mut Vec<u8>) {
    let mut lines: Vec<Vec<u8>> = content.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    for _ in 0..1 + random.below(3) {
        let at = random.below(lines.len() + 1);
        let end = (at + random.below(4)).min(lines.len());
        let new: Vec<Vec<u8>> = (0..random.below(4)).map(|_| line(random)).collect();
        lines.splice(at..end, new);
    }
    *content = lines.concat();
}

fn edit(random: &mut Random, files: &mut Files) {
    let paths: Vec<String> = files.keys().cloned().collect();
    let (folder, name) = (*random.pick(&FOLDERS), *random.pick(&NAMES));
    let new = format!("{folder}{name}");
    if paths.is_empty() {
        return put(files, &new, (FILE, content(random)));
    }
    let path = random.pick(&paths).clone();
    let Some((mode, bytes)) = files.get_mut(&path) else { return };
    match random.below(16) {
        0 | 1 => drop(files.remove(&path)),
        2 => put(files, &new, (FILE, content(random))),
        3 => put(files, &new, (EXECUTABLE, content(random))),
        4 => put(files, &new, (LINK, random.pick(&NAMES).as_bytes().to_vec())),
        5 => put(files, &path, (LINK, b"elsewhere".to_vec())),
        6 => put(files, &path, (FILE, content(random))),
        7 => *mode = if *mode == FILE { EXECUTABLE } else { FILE },
        8 if *mode != LINK => *bytes = with_crlf(bytes),
        9 if *mode != LINK => bytes.extend_from_slice(b"the end"),
        10 => put(files, &format!("{path}/below"), (FILE, content(random))),
        11 => put(files, path.split('/').next().unwrap_or(&path), (FILE, content(random))),
        _ if *mode != LINK => edit_lines(random, bytes),
        _ => {}
    }
}

fn edits(random: &mut Random, files: &mut Files) {
    for _ in 0..random.below(6) {
        edit(random, files);
    }
}

/// A base and two sides; part of what they change is the same on both.
fn triple(random: &mut Random) -> [Files; 3] {
    let mut base = Files::new();
    for _ in 0..1 + random.below(8) {
        let path = format!("{}{}", random.pick(&FOLDERS), random.pick(&NAMES));
        put(&mut base, &path, (FILE, content(random)));
    }
    let mut ours = base.clone();
    if random.below(3) == 0 {
        edits(random, &mut ours);
    }
    let mut theirs = ours.clone();
    edits(random, &mut ours);
    edits(random, &mut theirs);
    [base, ours, theirs].map(|files| files.into_iter().map(of_its_path).collect())
}

/// A file with its path in it: some versions of git follow exact renames, whatever they are told.
fn of_its_path((path, (mode, content)): (String, (&'static str, Vec<u8>))) -> (String, (&'static str, Vec<u8>)) {
    let named = match content.is_empty() {
        true => content,
        false => [path.as_bytes(), if mode == LINK { b"-" } else { b"\n" }, &content].concat(),
    };
    (path, (mode, named))
}

/// Commits trees; each has no parent.
fn commit(repo: &TestRepo, trees: &[&Files]) -> Vec<CommitId> {
    let marks = repo.outside().join("marks");
    let mut stream = Vec::new();
    for (n, files) in trees.iter().enumerate() {
        // A ref of its own for each, so that it has no parent and is found by `git fsck`.
        write!(stream, "commit refs/trees/{n}\nmark :{}\ncommitter T <t@e> 0 +0000\ndata 0\ndeleteall\n", n + 1)
            .unwrap();
        for (path, (mode, bytes)) in *files {
            match *mode {
                SUBMODULE => writeln!(stream, "M {mode} {} {path}", String::from_utf8_lossy(bytes)).unwrap(),
                _ => {
                    write!(stream, "M {mode} inline {path}\ndata {}\n", bytes.len()).unwrap();
                    stream.extend_from_slice(bytes);
                    stream.push(b'\n');
                }
            }
        }
    }
    let export = format!("--export-marks={}", marks.display());
    fed(repo, &["fast-import", "--quiet", "--force", &export], &stream);
    let marks = fs::read_to_string(marks).unwrap();
    let mut commits = vec![String::new(); trees.len()];
    for (mark, id) in marks.lines().filter_map(|line| line.strip_prefix(':')?.split_once(' ')) {
        commits[mark.parse::<usize>().unwrap() - 1] = id.to_owned();
    }
    commits.into_iter().map(CommitId::new).collect()
}

/// What git answers to `input`.
fn fed(repo: &TestRepo, args: &[&str], input: &[u8]) -> Vec<u8> {
    let given = repo.outside().join("input");
    fs::write(&given, input).unwrap();
    let mut command = Command::new("git");
    repo.environment(&mut command);
    command.current_dir(repo.path()).args(args).stdin(fs::File::open(given).unwrap()).stderr(Stdio::piped());
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A merge: the tree, or the paths in conflict.
type Outcome = Result<String, Vec<PathBuf>>;

/// What git makes of merges of base, ours and theirs, with the attributes in a commit.
fn by_git(repo: &TestRepo, merges: &[[CommitId; 3]], attributes: &CommitId) -> Vec<Outcome> {
    let source = format!("--attr-source={attributes}");
    let input: String = merges.iter().map(|[base, ours, theirs]| format!("{base} -- {ours} {theirs}\n")).collect();
    // Git 2.47 does not turn renames off for `ort`, only down to exact ones.
    let options = ["--write-tree", "--stdin", "--name-only", "--no-messages", "-Xfind-renames=100%", "-Xno-renames"];
    let args =
        [source.as_str(), "-c", "merge.renames=false", "merge-tree"].into_iter().chain(options).collect::<Vec<_>>();
    let answer = String::from_utf8(fed(repo, &args, input.as_bytes())).unwrap();
    let mut fields = answer.split('\0');
    let outcomes = merges.iter().map(|sides| {
        let (status, tree) = (fields.next().unwrap(), fields.next().unwrap());
        let names: Vec<&str> = fields.by_ref().take_while(|name| !name.is_empty()).collect();
        match status {
            "1" => Ok(tree.to_owned()),
            _ => Err(in_place(&names, sides)),
        }
    });
    outcomes.collect()
}

/// Paths in conflict without what git appends where a file cannot stay in its place: the side that it is of.
fn in_place(names: &[&str], sides: &[CommitId; 3]) -> Vec<PathBuf> {
    let in_place = |name: &&str| {
        let moved = sides.iter().find_map(|side| Some(name.split_once(&format!("~{side}"))?.0));
        PathBuf::from(moved.unwrap_or(name))
    };
    let mut paths: Vec<PathBuf> = names.iter().map(in_place).collect();
    paths.sort();
    paths.dedup();
    paths
}

fn by_us(git: &Repo, [base, ours, theirs]: &[CommitId; 3]) -> Outcome {
    match git.objects.merge(base, ours, theirs).unwrap() {
        Merged::Tree(merged) => {
            assert_eq!(merged.is_empty(), merged.tree() == git.objects.tree_of(ours).unwrap());
            Ok(merged.tree())
        }
        Merged::Conflicts(mut paths) => {
            paths.sort();
            Err(paths)
        }
    }
}

/// Merges as git does, with all the attribute files in the trees, and as this program does; shows the first ones that differ.
#[track_caller]
fn compare(repo: &TestRepo, triples: &[[Files; 3]], case: &str) -> Vec<Outcome> {
    let attributes = triples.iter().flatten().flat_map(|files| files.clone());
    let attributes: Files = attributes.filter(|(path, _)| path.ends_with(".gitattributes")).collect();
    let mut commits = commit(repo, &triples.iter().flatten().chain([&attributes]).collect::<Vec<_>>());
    let attributes = commits.pop().unwrap();
    let merges: Vec<[CommitId; 3]> = commits.chunks(3).map(|sides| sides.to_vec().try_into().unwrap()).collect();
    let git = open(repo);
    let judged = by_git(repo, &merges, &attributes);
    let mut stricter = 0;
    for (n, (sides, expected)) in merges.iter().zip(&judged).enumerate() {
        let found = by_us(&git, sides);
        let agrees = match (&found, expected) {
            (Ok(found), Ok(expected)) => found == expected,
            (Err(found), Err(expected)) => {
                let is_within = |some: &[PathBuf], all: &[PathBuf]| some.iter().all(|path| all.contains(path));
                is_within(expected, found) || is_within(found, expected)
            }
            (Ok(_), Err(_)) => {
                let [base, ours, theirs] = sides.clone();
                by_us(&git, &[base, theirs, ours]) == found
            }
            (Err(_), Ok(_)) => {
                stricter += 1;
                stricter <= triples.len() / 100
            }
        };
        if !agrees {
            let show = |outcome: &Outcome| match outcome {
                Ok(tree) => repo.git(["ls-tree", "-r", tree]),
                Err(paths) => format!("conflicts in {paths:?}"),
            };
            let diff = |a: usize| repo.git(["diff", sides[0].as_str(), sides[a].as_str()]);
            let (ours, theirs) = (diff(1), diff(2));
            let (found, expected) = (show(&found), show(expected));
            panic!("{case}, merge {n}\nours: {ours}\ntheirs: {theirs}\ngit's:\n{expected}\nfound:\n{found}");
        }
        let [base, ours, theirs] = sides;
        let tree = |commit| git.objects.tree_of(commit).unwrap();
        assert_eq!(by_us(&git, &[base.clone(), ours.clone(), base.clone()]), Ok(tree(ours)), "{case}, {n}");
        assert_eq!(by_us(&git, &[base.clone(), base.clone(), theirs.clone()]), Ok(tree(theirs)), "{case}, {n}");
        assert_eq!(by_us(&git, &[base.clone(), ours.clone(), ours.clone()]), Ok(tree(ours)), "{case}, {n}");
    }
    judged
}

#[test]
fn random_merges_agree_with_git() {
    let seed = std::env::var("AR_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = Random(seed);
    for (root, folder) in ATTRIBUTES {
        let repo = TestRepo::empty();
        let triples: Vec<[Files; 3]> = (0..CASES)
            .map(|_| {
                triple(&mut random).map(|mut files| {
                    files.insert(".gitattributes".to_owned(), (FILE, root.as_bytes().to_vec()));
                    if !files.contains_key("src") {
                        files.insert("src/.gitattributes".to_owned(), (FILE, folder.as_bytes().to_vec()));
                    }
                    files
                })
            })
            .collect();
        let outcomes = compare(&repo, &triples, &format!("seed {seed}, attributes {root:?}"));
        let clean = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert!(clean > CASES / 8 && clean < CASES - CASES / 8, "{clean} of {CASES} are clean");
        assert_eq!(repo.git(["fsck", "--strict", "--no-dangling"]), "");
    }
}

/// A tree of files with these modes and contents.
fn tree(files: &[(&str, &'static str, &str)]) -> Files {
    files.iter().map(|(path, mode, content)| ((*path).to_owned(), (*mode, content.as_bytes().to_vec()))).collect()
}

#[test]
fn each_kind_of_change_merges_or_conflicts_as_in_git() {
    const LINES: &str = "1\n2\n3\n4\n5\n6\n";
    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";
    const THREE: &str = "3333333333333333333333333333333333333333";
    let file = |content| tree(&[("f", FILE, content)]);
    let none = Files::new();
    let (f, g) = (file(LINES), tree(&[("f", FILE, LINES), ("g", FILE, "")]));
    let cases: [(&str, [Files; 3], bool); 32] = [
        ("lines far apart", [f.clone(), file("0\n2\n3\n4\n5\n6\n"), file("1\n2\n3\n4\n5\n7\n")], true),
        ("the same line", [f.clone(), file("1\n2\nx\n4\n5\n6\n"), file("1\n2\ny\n4\n5\n6\n")], false),
        ("the same change", [f.clone(), file("1\n2\nx\n4\n5\n6\n"), file("1\n2\nx\n4\n5\n6\n")], true),
        ("the same change and more", [f.clone(), file("x\n2\n3\n4\n5\n6\n"), file("x\n2\n3\n4\n5\ny\n")], true),
        ("both emptied", [f.clone(), file(""), file("")], true),
        ("no end of line", [f.clone(), file("1\n2\n3\n4\n5\n6"), file("0\n2\n3\n4\n5\n6\n")], true),
        ("another file each", [f.clone(), g.clone(), tree(&[("f", FILE, LINES), ("h", FILE, "")])], true),
        ("both added the same", [none.clone(), f.clone(), f.clone()], true),
        ("both added others", [none.clone(), f.clone(), file("x\n")], false),
        ("both added, one empty", [none.clone(), f.clone(), file("")], true),
        ("both added, other modes", [none.clone(), f.clone(), tree(&[("f", EXECUTABLE, LINES)])], false),
        ("both deleted", [g.clone(), f.clone(), f.clone()], true),
        ("all deleted", [g.clone(), f.clone(), tree(&[("g", FILE, "")])], true),
        ("deleted and changed", [f.clone(), none.clone(), file("x\n")], false),
        ("changed and deleted", [f.clone(), file("x\n"), none.clone()], false),
        ("deleted and mode", [f.clone(), none.clone(), tree(&[("f", EXECUTABLE, LINES)])], false),
        ("mode and lines", [f.clone(), tree(&[("f", EXECUTABLE, LINES)]), file("x\n")], true),
        (
            "mode and the same mode",
            [f.clone(), tree(&[("f", EXECUTABLE, LINES)]), tree(&[("f", EXECUTABLE, "x")])],
            true,
        ),
        ("link and lines", [f.clone(), tree(&[("f", LINK, "g")]), file("x\n")], false),
        ("other links", [tree(&[("f", LINK, "g")]), tree(&[("f", LINK, "h")]), tree(&[("f", LINK, "i")])], false),
        ("link and other file", [f.clone(), tree(&[("f", LINK, "g")]), g.clone()], true),
        ("folder and file", [f.clone(), tree(&[("f/g", FILE, "")]), g.clone()], true),
        ("folder and changed file", [f.clone(), tree(&[("f/g", FILE, "")]), file("x\n")], false),
        ("folder and deleted file", [f.clone(), tree(&[("f/g", FILE, "")]), none.clone()], true),
        ("folder or file", [none.clone(), tree(&[("f/g", FILE, "")]), f.clone()], false),
        ("file or folder", [none.clone(), f.clone(), tree(&[("f/g/h", FILE, "")])], false),
        ("file for folder", [tree(&[("f/g", FILE, "")]), f.clone(), tree(&[("f/g", FILE, ""), ("h", FILE, "")])], true),
        (
            "file for growing folder",
            [tree(&[("f/g", FILE, "")]), f.clone(), tree(&[("f/g", FILE, ""), ("f/h", FILE, "")])],
            false,
        ),
        ("binary", [file("\0"), file("\0a"), file("\0b")], false),
        ("binary, one side", [file("\0"), file("\0a"), tree(&[("f", EXECUTABLE, "\0")])], true),
        (
            "submodule, one side",
            [
                tree(&[("f", SUBMODULE, ONE)]),
                tree(&[("f", SUBMODULE, TWO)]),
                tree(&[("f", SUBMODULE, ONE), ("g", FILE, "")]),
            ],
            true,
        ),
        (
            "submodule",
            [tree(&[("f", SUBMODULE, ONE)]), tree(&[("f", SUBMODULE, TWO)]), tree(&[("f", SUBMODULE, THREE)])],
            false,
        ),
    ];
    let triples: Vec<[Files; 3]> = cases.iter().map(|(_, triple, _)| triple.clone()).collect();
    let outcomes = compare(&TestRepo::empty(), &triples, "known cases");
    for ((what, _, is_clean), outcome) in cases.iter().zip(outcomes) {
        assert_eq!(outcome.is_ok(), *is_clean, "{what}: {outcome:?}");
    }
}

#[test]
fn changes_that_adjoin_without_sharing_a_line_merge_and_insertions_at_the_same_place_do_not() {
    const LINES: &str = "1\n2\n3\n4\n";
    let cases = [
        ("changed lines", LINES, "1\nx\n3\n4\n", "1\n2\ny\n4\n", Some("1\nx\ny\n4\n")),
        ("one deleted", LINES, "1\n3\n4\n", "1\n2\ny\n4\n", Some("1\ny\n4\n")),
        ("both deleted", LINES, "1\n3\n4\n", "1\n2\n4\n", Some("1\n4\n")),
        ("changed on both sides of a change", LINES, "1\nx\n3\nz\n", "1\n2\ny\n4\n", Some("1\nx\ny\nz\n")),
        ("inserted before a change", LINES, "1\n2\nx\n3\n4\n", "1\n2\ny\n4\n", Some("1\n2\nx\ny\n4\n")),
        ("inserted after a change", LINES, "1\n2\n3\nx\n4\n", "1\n2\ny\n4\n", Some("1\n2\ny\nx\n4\n")),
        ("inserted before a deleted line", LINES, "1\n2\nx\n3\n4\n", "1\n2\n4\n", Some("1\n2\nx\n4\n")),
        ("appended after a change", LINES, "1\n2\n3\n4\nx\n", "1\n2\n3\ny\n", Some("1\n2\n3\ny\nx\n")),
        ("one with its neighbour", LINES, "1\nx\ny\n4\n", "1\n2\n3\nz\n", Some("1\nx\ny\nz\n")),
        ("inserted at the same place", LINES, "1\n2\nx\n3\n4\n", "1\n2\ny\n3\n4\n", None),
        ("inserted within a change", LINES, "1\n2\nx\n3\n4\n", "1\na\nb\n4\n", None),
        ("a line of both", LINES, "1\nx\ny\n4\n", "1\n2\nz\na\n", None),
        ("a line after one without its end", LINES, "1\n2\n3\n4\nx\n", "1\n2\n3\ny", None),
    ];
    let repo = TestRepo::empty();
    let git = open(&repo);
    for (what, base, ours, theirs, expected) in cases {
        let trees = [base, ours, theirs].map(|content| tree(&[("f", FILE, content)]));
        let sides: [CommitId; 3] = commit(&repo, &trees.iter().collect::<Vec<_>>()).try_into().unwrap();
        assert!(by_git(&repo, std::slice::from_ref(&sides), &sides[0])[0].is_err(), "{what}: git merges it");
        let [base, ours, theirs] = sides.clone();
        for sides in [sides, [base, theirs, ours]] {
            let merged = by_us(&git, &sides);
            let content = merged.ok().map(|tree| repo.git(["cat-file", "blob", &format!("{tree}:f")]));
            assert_eq!(content.as_deref(), expected.map(str::trim_end), "{what}");
        }
    }
}

/// Two changes of the same line, with attributes.
fn same_line(attributes: &'static str) -> [Files; 3] {
    ["1\n2\n3\n", "1\nx\n3\n", "1\ny\n3\n"]
        .map(|content| tree(&[("f.txt", FILE, content), (".gitattributes", FILE, attributes)]))
}

#[test]
fn a_driver_that_is_a_program_is_not_started_and_its_files_are_in_conflict() {
    let repo = TestRepo::empty();
    let marker = repo.outside().join("started");
    let far = ["1\n2\n3\n4\n", "x\n2\n3\n4\n", "1\n2\n3\ny\n"]
        .map(|content| tree(&[("f.txt", FILE, content), (".gitattributes", FILE, "*.txt merge=mine\n")]));
    // As in git, a name that means nothing is that of the usual merge.
    compare(&repo, &[far.clone(), same_line("*.txt merge=mine\n")], "no driver");
    repo.git(["config", "merge.mine.driver", &format!("touch {}", marker.display())]);
    let commits = commit(&repo, &far.iter().collect::<Vec<_>>());
    let found = by_us(&open(&repo), &commits.try_into().unwrap());
    assert_eq!(found, Err(vec![PathBuf::from("f.txt")]));
    assert!(!marker.exists());
}

#[test]
fn the_users_configuration_changes_no_merge_and_attributes_of_the_repository_do() {
    let repo = TestRepo::empty();
    let triples =
        [same_line(""), same_line("*.txt merge=union\n"), same_line("*.txt -merge\n"), same_line("* merge\n")];
    let commits = commit(&repo, &triples.iter().flatten().collect::<Vec<_>>());
    let merged = |repo: &TestRepo| -> Vec<Outcome> {
        let git = open(repo);
        commits.chunks(3).map(|sides| by_us(&git, &sides.to_vec().try_into().unwrap())).collect()
    };
    let before = merged(&repo);
    assert_eq!(before.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, false, false]);
    let file = repo.outside().join("attributes");
    fs::write(&file, "* merge=union\n").unwrap();
    for (key, value) in [
        ("merge.default", "union"),
        ("merge.conflictStyle", "zdiff3"),
        ("merge.renames", "true"),
        ("merge.renormalize", "true"),
        ("diff.algorithm", "minimal"),
        ("diff.renames", "copies"),
        ("core.autocrlf", "true"),
        ("core.attributesFile", file.to_str().unwrap()),
    ] {
        repo.git(["config", key, value]);
    }
    assert_eq!(merged(&repo), before);

    // It goes before the attribute files, wherever they are.
    repo.write(".git/info/attributes", "*.txt -merge\n");
    let deep = same_line("").map(|files| {
        let mut files: Files = files.into_iter().map(|(path, file)| (format!("deep/{path}"), file)).collect();
        files.insert("deep/.gitattributes".to_owned(), (FILE, b"*.txt merge=union\n".to_vec()));
        files
    });
    compare(&repo, &[deep, triples[1].clone(), triples[3].clone()], "info/attributes");
}

#[test]
fn a_merged_commit_survives_a_gc_at_every_moment() {
    let repo = TestRepo::empty();
    let sides = ["1\n2\n3\n4\n", "x\n2\n3\n4\n", "1\n2\n3\ny\n"].map(|content| tree(&[("src/f", FILE, content)]));
    let commits = commit(&repo, &sides.iter().collect::<Vec<_>>());
    let git = open(&repo);
    let gc = || repo.git(["gc", "--quiet", "--prune=now"]);
    let Merged::Tree(merged) = git.objects.merge(&commits[0], &commits[1], &commits[2]).unwrap() else {
        panic!("a conflict")
    };
    gc();
    let commit = git.objects.commit_merged(&merged, &commits[1], "merged").unwrap();
    gc();
    git.refs.write_record("refs/autoresearch/t/00001", &commit, "one\n").unwrap();
    gc();
    assert_eq!(repo.git(["fsck", "--strict", "--no-dangling"]), "");
    assert_eq!(repo.git(["show", &format!("{commit}:src/f")]), "x\n2\n3\ny");
    assert_eq!(
        repo.git(["log", "--format=%P %s %T", "-1", commit.as_str()]),
        format!("{} merged {}", commits[1], merged.tree())
    );
}
