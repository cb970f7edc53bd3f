use std::fs;
use std::process::Command;

use super::*;
use crate::fs::wait_until_newer;

#[test]
fn files_that_another_process_opens_are_seen_and_python_s_bytecode_counts_as_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir_all(root.join("src/__pycache__")).unwrap();
    for file in ["a.py", "b.py", "src/c.py", "src/__pycache__/c.cpython-312.pyc", "src/__pycache__/cc.cpython-312.pyc"]
    {
        fs::write(root.join(file), "x").unwrap();
    }
    let files = ["a.py", "b.py", "gone.py", "src/c.py"].map(PathBuf::from);
    let opened = |script: &str| {
        let watch = OpensWatch::start(root, &files).unwrap();
        assert!(Command::new("sh").args(["-c", script]).current_dir(root).status().unwrap().success());
        watch.finish()
    };
    assert_eq!(opened("test -f a.py && ls -l . src > listed"), Vec::<PathBuf>::new());
    assert_eq!(opened("cat a.py a.py > copy"), ["a.py"].map(PathBuf::from));
    assert_eq!(opened("cat src/__pycache__/cc*.pyc > copy"), Vec::<PathBuf>::new());
    assert_eq!(opened("cat src/__pycache__/c.*.pyc b.py > copy"), ["b.py", "src/c.py"].map(PathBuf::from));
}

#[test]
fn only_what_changes_without_a_write_while_it_is_watched_is_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let path = |file: &str| folder.path().join(file);
    let names = ["before", "during", "after", "mapped"];
    let files: Vec<_> = names
        .map(|name| {
            fs::write(path(name), "x").unwrap();
            (PathBuf::from(name), FileStamp::of(&path(name)).unwrap())
        })
        .into();
    let map = "import mmap, sys; f = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 1); m[0] = 121; m.flush()";
    fs::write(path("before"), "the user's").unwrap();
    let uses = watch_uses(folder.path(), &files).unwrap();
    wait_until_newer(folder.path(), fs::metadata(path("before")).unwrap().modified().unwrap());
    fs::write(path("during"), "the user's").unwrap();
    assert!(Command::new("python3").args(["-c", map]).arg(path("mapped")).status().unwrap().success());
    let uses = uses();
    fs::write(path("after"), "the user's").unwrap();
    assert_eq!(uses.mapped, BTreeSet::from([3]), "{uses:?}");
}
