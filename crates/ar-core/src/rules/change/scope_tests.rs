//! Tests of scope and protection.

use jiff::Timestamp;

use super::*;
use crate::domain::{Caps, CommitId, Direction, MetricSource, MetricSpec};

fn contract(scope: &[&str], protect: &[&str], command: &str) -> Contract {
    let list = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
    let metric = MetricSpec { name: "m".into(), direction: Direction::Lower, source: MetricSource::Log };
    let start = CommitId::new("a".repeat(40));
    let contract = Contract::new("t".parse().unwrap(), metric, command.into(), start, Timestamp::UNIX_EPOCH);
    Contract { scope: list(scope), protect: list(protect), ..contract }
}

fn edit(path: &str) -> FileEdit {
    FileEdit { path: path.into(), is_new: false, is_opaque: false, size: 10, lines: 1, total: 50 }
}

fn verdict(contract: &Contract, paths: &[&str]) -> Option<(FailureClass, String)> {
    let edits: Vec<_> = paths.iter().map(|path| edit(path)).collect();
    let failure = FileTerms::of(contract).unwrap().refuse(&edits, &Forbidden::default())?;
    Some((failure.class, failure.excerpt))
}

#[test]
fn what_measures_is_protected_unless_the_scope_names_it() {
    let open = contract(&[], &[], "uv run train.py");
    for path in ["prepare.py", "ar.toml", "program.md", "uv.lock", "sub/Cargo.lock"] {
        assert_eq!(verdict(&open, &[path]), Some((FailureClass::Protected, format!("{path} is protected"))), "{path}");
    }
    for path in ["train.py", "sub/prepare.py", "model/lock.py", "new.txt"] {
        assert_eq!(verdict(&open, &[path]), None, "{path}");
    }
    let scoped =
        contract(&["src", "uv.lock", "prepare.py"], &["src/eval/**"], "python ./evaluate.py --data src/data.bin");
    for (path, class) in [
        ("src/model.py", None),
        ("src/deep/er/model.py", None),
        ("uv.lock", None),
        ("prepare.py", None),
        ("src/data.bin", None),
        ("src/eval/metric.py", Some(FailureClass::Protected)),
        ("evaluate.py", Some(FailureClass::Protected)),
        ("ar.toml", Some(FailureClass::Protected)),
        ("README.md", Some(FailureClass::Scope)),
        ("srcs/model.py", Some(FailureClass::Scope)),
    ] {
        assert_eq!(verdict(&scoped, &[path]).map(|(class, _)| class), class, "{path}");
    }
}

#[test]
fn what_guards_name_is_protected_unless_it_is_what_is_worked_on() {
    let guards = ["sh tests/check.sh".into(), "uv run train.py --smoke".into()].to_vec();
    let protects = |scope: &[&str], path: &str| {
        let guarded = Contract { guards: guards.clone(), ..contract(scope, &[], "uv run train.py") };
        FileTerms::of(&guarded).unwrap().protects(Path::new(path))
    };
    for (path, without_scope, with_scope) in
        [("tests/check.sh", true, true), ("train.py", false, true), ("src/model.py", false, false)]
    {
        assert_eq!((protects(&[], path), protects(&["src"], path)), (without_scope, with_scope), "{path}");
    }
    assert!(!protects(&["tests"], "tests/check.sh"));
}

#[test]
fn globs_read_as_people_mean_them() {
    for (glob, path, matches) in [
        ("train.py", "train.py", true),
        ("./train.py", "train.py", true),
        ("train.py", "old/train.py", false),
        ("*.py", "train.py", true),
        ("*.py", "src/train.py", false),
        ("**/*.py", "src/deep/train.py", true),
        ("src/", "src/a/b.c", true),
        ("src/*", "src/a", true),
        ("{a,b}.txt", "b.txt", true),
        ("naïve/*", "naïve/文字.txt", true),
        ("with space", "with space/x", true),
    ] {
        let terms = FileTerms::of(&contract(&[], &[glob], "true")).unwrap();
        assert_eq!(terms.protects(Path::new(path)), matches, "{glob} {path}");
    }
    let error = FileTerms::of(&contract(&["a{b"], &[], "true")).unwrap_err();
    assert!(error.to_string().starts_with("`a{b` is not a glob: "), "{error}");
}

#[test]
fn limits_name_the_files_that_are_over_them() {
    let limited = Contract { max_files: Some(2), max_file_lines: Some(20), ..contract(&[], &[], "true") };
    let terms = FileTerms::of(&limited).unwrap();
    let excerpt =
        |edits: &[FileEdit]| terms.refuse(edits, &Forbidden::default()).map(|failure| (failure.class, failure.excerpt));
    assert_eq!(excerpt(&[edit("a"), FileEdit { lines: 20, ..edit("b") }]), None);
    let too_much = [
        FileEdit { is_new: true, size: LARGEST_ADDED + 1, ..edit("weights.bin") },
        FileEdit { lines: 21, ..edit("b") },
        FileEdit { size: 2 * LARGEST_ADDED, ..edit("was large before") },
    ];
    let lines = "weights.bin has 5.0 MB, and a new file may have 5.0 MB\nb has 21 lines changed, and 20 may be\n\
                 3 files changed, and 2 may be";
    assert_eq!(excerpt(&too_much), Some((FailureClass::TooLarge, lines.into())));
}

#[test]
fn a_file_may_be_as_long_as_the_cap_says() {
    let caps = Caps { max_file_total: Some(300), ..Caps::default() };
    let terms = FileTerms::of(&Contract { caps, ..contract(&[], &[], "true") }).unwrap();
    let refuse = |total| terms.refuse(&[FileEdit { total, ..edit("a.py") }], &Forbidden::default());
    assert_eq!(refuse(300), None);
    let excerpt = "a.py has 301 lines, and 300 may be".to_owned();
    assert_eq!(refuse(301), Some(Failure::new(FailureClass::TooLarge, excerpt)));
}

#[test]
fn a_new_file_that_python_takes_in_place_of_a_protected_one_is_protected_too() {
    let terms = FileTerms::of(&contract(&[], &["lib/eval.py"], "uv run train.py")).unwrap();
    let class = |path: &str, is_new| {
        let failure = terms.refuse(&[FileEdit { is_new, ..edit(path) }], &Forbidden::default())?;
        Some((failure.class, failure.excerpt))
    };
    for (path, behind) in [
        ("prepare/__init__.py", "prepare.py"),
        ("lib/eval/__init__.pyc", "lib/eval.py"),
        ("prepare.cpython-312-x86_64-linux-gnu.so", "prepare.py"),
        ("lib/eval.abi3.so", "lib/eval.py"),
    ] {
        let why = format!("{path} would replace {behind}, which is protected");
        assert_eq!(class(path, true), Some((FailureClass::Protected, why)));
        assert_eq!(class(path, false), None, "it was there when the terms were made");
    }
    for path in ["model/__init__.py", "__init__.py", "prepare/other.py", "prepare2.so", "sub/prepare/__init__.py"] {
        assert_eq!(class(path, true), None, "{path}");
    }
}

#[test]
fn a_lock_file_belongs_to_a_change_of_the_project_beside_it() {
    let protected = |path: &str| Some((FailureClass::Protected, format!("{path} is protected")));
    for (scope, protect, paths, expected) in [
        (&[][..], &[][..], &["pyproject.toml", "uv.lock"][..], None),
        (&[], &[], &["uv.lock", "a/pyproject.toml"], protected("uv.lock")),
        (&[], &[], &["a/poetry.lock", "a/pyproject.toml"], None),
        (&[], &[], &["pyproject.toml", "requirements.txt"], protected("requirements.txt")),
        (&["src", "pyproject.toml"], &[], &["pyproject.toml", "uv.lock"], None),
        (&["src", "uv.lock", "pyproject.toml"], &[], &["uv.lock"], None),
        (&["src"], &[], &["src/a.py", "uv.lock"], protected("uv.lock")),
        (&[], &["pyproject.toml"], &["uv.lock"], protected("uv.lock")),
        (&[], &["uv.lock"], &["uv.lock", "pyproject.toml"], protected("uv.lock")),
    ] {
        assert_eq!(verdict(&contract(scope, protect, "uv run train.py"), paths), expected, "{scope:?} {paths:?}");
    }
    let terms = FileTerms::of(&contract(&[], &[], "uv run train.py")).unwrap();
    assert_eq!(terms.project_of_lock(Path::new("a/uv.lock")), Some("a/pyproject.toml".into()));
    assert_eq!(terms.share_environment().project_of_lock(Path::new("uv.lock")), None);
}

#[test]
fn what_describes_an_environment_that_slots_share_is_protected_whatever_the_scope() {
    let terms = |contract: &Contract| FileTerms::of(contract).unwrap();
    let scoped = contract(&["pyproject.toml", "uv.lock", "src"], &[], "uv run train.py");
    let paths = ["pyproject.toml", "sub/pyproject.toml", "uv.lock", "src/pyproject.toml.md", "src/a.py"].map(Path::new);
    assert_eq!(paths.map(|path| terms(&scoped).protects(path)), [false; 5]);
    assert_eq!(paths.map(|path| terms(&scoped).share_environment().protects(path)), [true, true, true, false, false]);
    let refused = terms(&scoped).share_environment().refuse(&[edit("uv.lock")], &Forbidden::default()).unwrap();
    assert_eq!(
        (refused.class, refused.excerpt.as_str()),
        (FailureClass::Protected, "uv.lock describes the environment that all slots share")
    );
}

#[test]
fn stored_sources_are_only_added_to_in_research() {
    let contract = contract(&["artifact.md", "sources"], &[], "ar score");
    let terms = FileTerms::of(&contract).unwrap();
    let research = terms.clone().keep_sources(Some("sources".into()));
    let class =
        |terms: &FileTerms, edit: FileEdit| terms.refuse(&[edit], &Forbidden::default()).map(|failure| failure.class);
    for path in ["sources/a.md", "sources/sub/a.MD"] {
        assert_eq!(class(&research, edit(path)), Some(FailureClass::Protected), "{path}");
        assert_eq!(class(&research, FileEdit { is_new: true, ..edit(path) }), None, "{path}");
        assert_eq!(class(&terms, edit(path)), None, "{path}");
    }
    for path in ["artifact.md", "sources/.gitkeep"] {
        assert_eq!(class(&research, edit(path)), None, "{path}");
    }
}
