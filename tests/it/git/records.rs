//! Records, written here and read by plain git.

use std::fs;

use autoresearch::fs::FileStamp;
use autoresearch::git::{GitError, TagObject};

use super::{head, open, save_as};
use crate::support::{TestRepo, until};

#[test]
fn plain_git_reads_the_records() {
    let repo = TestRepo::new();
    let git = open(&repo);
    let commit = head(&repo);
    let message = |id: u32| format!("try {id}\n\n{{\"id\":{id},\"metric\":{{\"value\":1.5}}}}\n");
    for id in [0, 1, 10, 2] {
        git.refs.write_record(&format!("refs/autoresearch/t/{id:05}"), &commit, &message(id)).unwrap();
    }
    repo.write("train.py", "dirty\n");
    git.working_tree.save(&save_as(&commit)).unwrap();
    let bodies = repo.git(["for-each-ref", "--format=%(contents:body)", "refs/autoresearch/t"]);
    let ids: Vec<u64> = bodies
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids, [0, 1, 2, 10]);
    let shown = repo.git([
        "for-each-ref",
        "--format=%(contents:subject) %(taggeremail) %(*objectname)",
        "refs/autoresearch/t/00010",
    ]);
    assert_eq!(shown, format!("try 10 <test@example.com> {commit}"));

    for packed in [false, true] {
        if packed {
            repo.git(["pack-refs", "--all"]);
            assert!(!repo.exists(".git/refs/autoresearch/t/00000"));
        }
        let refs = git.refs.refs_under("refs/autoresearch/t").unwrap();
        let records = git.objects.read_tags(&refs, |record| record).unwrap();
        let names: Vec<_> = records.iter().map(|record| record.name.as_str()).collect();
        let expected = ["00000", "00001", "00002", "00010"].map(|id| format!("refs/autoresearch/t/{id}"));
        assert_eq!(names, expected);
        let record = TagObject { name: expected[3].clone(), commit: commit.clone(), message: message(10) };
        assert_eq!(records[3], record);
        assert_eq!(git.refs.record(&expected[3]).unwrap(), Some(record));
        assert_eq!(refs.len(), 5, "a commit that was saved is no record");
    }
    assert_eq!(git.refs.record("refs/autoresearch/t/00099").unwrap(), None);
    assert_eq!(git.refs.record("refs/heads/main").unwrap(), None);
    let again = git.refs.write_record("refs/autoresearch/t/00002", &commit, &message(2));
    assert!(matches!(again, Err(GitError::RefExists(name)) if name.ends_with("00002")));
    repo.git(["fsck", "--strict"]);
}

#[test]
fn many_records_are_read_in_order_wherever_git_keeps_them() {
    let repo = TestRepo::new();
    let git = open(&repo);
    let commit = head(&repo);
    let name = |id: u32| format!("refs/autoresearch/t/{id:05}");
    // Some are larger than what is read at once, and some do not compress.
    let noise = |id: u64| (0..id * 400).map(|n| char::from(b'!' + (n * n * 7 / 3 % 90) as u8)).collect::<String>();
    let message =
        |id: u32| format!("try {id}\n\n{}\n", if id % 100 == 7 { noise(id.into()) } else { "é".repeat(id as usize) });
    let records: Vec<_> = (0..450).map(|id| (name(id), commit.clone(), message(id))).collect();
    git.refs.write_records(&records).unwrap();
    let is_read = |what: &str| {
        let read = git.objects.read_tags(&git.refs.refs_under("refs/autoresearch/t").unwrap(), |tag| tag).unwrap();
        let read: Vec<_> = read.into_iter().map(|tag| (tag.name, tag.commit, tag.message)).collect();
        assert!(read == records, "{what}");
    };
    is_read("in a pack of their own");
    repo.git(["fsck", "--strict"]);
    let again = git.refs.write_records(&records[449..]);
    assert!(matches!(again, Err(GitError::RefExists(refname)) if refname == name(449)));
    repo.git(["gc", "-q", "--prune=now"]);
    is_read("where git packs them");
    repo.git(["update-ref", "-d", "refs/autoresearch/t/00007"]);
    let (name, commit, message) = &records[7];
    git.refs.write_record(name, commit, message).unwrap();
    is_read("one in a file");
    let lost = git.objects.read_tags(&[(name.clone(), "1".repeat(40))], |tag| tag);
    assert!(lost.is_err(), "an object that is missing is no record that is left out");
}

#[test]
fn packing_leaves_every_ref_what_it_was() {
    let repo = TestRepo::new();
    let git = open(&repo);
    let commit = head(&repo);
    let write =
        |id: u32| git.refs.write_record(&format!("refs/autoresearch/t/{id:05}"), &commit, "one\n\n{}\n").unwrap();
    let loose = || fs::read_dir(repo.path().join(".git/refs/autoresearch/t")).unwrap().count();
    let listed = || repo.git(["for-each-ref", "--format=%(refname) %(objectname) %(*objectname)"]);
    let [records, saved] = ["refs/autoresearch/t", "refs/autoresearch/t/saved"].map(str::to_owned);
    let pack = || git.refs.pack_refs(std::slice::from_ref(&records));
    assert_eq!(pack().unwrap(), 0, "there is nothing yet");
    (0..5).for_each(write);
    repo.write("train.py", "dirty\n");
    git.working_tree.save(&save_as(&commit)).unwrap();
    repo.git(["tag", "-a", "-m", "one", "v1"]);
    let before = listed();
    assert_eq!(pack().unwrap(), 5);
    assert_eq!((listed(), loose()), (before, 1), "but for what was saved all are packed");

    // Git packs the rest, and leaves the files as a kill between both steps does.
    (5..9).for_each(write);
    repo.git(["pack-refs", "--all", "--no-prune"]);
    repo.write(".git/refs/autoresearch/t/00005.lock", "");
    repo.write(".git/refs/autoresearch/t/00099", "torn");
    let before = listed();
    assert_eq!(pack().unwrap(), 3);
    assert_eq!(listed(), before);
    let names = ["00005", "00005.lock", "00099", "saved"];
    assert!(
        names.iter().all(|name| repo.exists(format!(".git/refs/autoresearch/t/{name}"))),
        "what is locked or torn stays"
    );
    assert_eq!(loose(), names.len());
    repo.git(["update-ref", "refs/autoresearch/t/saved/7", "HEAD"]);
    let before = listed();
    assert_eq!(git.refs.pack_refs(&[records.clone(), saved]).unwrap(), 2, "commits, not tags");
    assert_eq!((listed(), repo.exists(".git/refs/autoresearch/t/saved/7")), (before, false));

    write(9);
    repo.write(".git/packed-refs.lock", "");
    assert!(pack().is_err(), "somebody else packs");
    fs::remove_file(repo.path().join(".git/packed-refs.lock")).unwrap();
    fs::remove_file(repo.path().join(".git/refs/autoresearch/t/00099")).unwrap();
    repo.git(["fsck", "--strict"]);
    assert_eq!(git.refs.refs_under("refs/autoresearch/t").unwrap().len(), 12);
}

#[test]
fn what_was_read_of_the_packed_refs_is_not_taken_for_what_somebody_put_there_since() {
    let repo = TestRepo::new();
    let git = open(&repo);
    let (commit, path) = (head(&repo), repo.path().join(".git/packed-refs"));
    let agree = |what: &str| {
        // What is a moment old is kept.
        until("packed refs of a settled age", || FileStamp::of(&path)?.is_settled().then_some(()));
        for _ in 0..2 {
            let listed: Vec<_> = ["refs/autoresearch", "refs/heads", "refs/replace", "refs/tags"]
                .iter()
                .flat_map(|prefix| git.refs.refs_under(prefix).unwrap())
                .map(|(name, object)| format!("{name} {object}"))
                .collect();
            let by_git = repo.git(["for-each-ref", "--format=%(refname) %(objectname)"]);
            assert_eq!(listed.join("\n"), by_git, "{what}");
        }
    };
    let records = (0..40).map(|id| (format!("refs/autoresearch/t/{id:05}"), commit.clone(), "one\n\n{}\n".into()));
    git.refs.write_records(&records.collect::<Vec<_>>()).unwrap();
    repo.git(["tag", "v1"]);
    repo.git(["pack-refs", "--all"]);
    agree("packed by git");
    repo.git(["update-ref", "-d", "refs/autoresearch/t/00007"]);
    agree("one is gone");
    // In place, as long as before, and no younger.
    let (before, modified) = (fs::read_to_string(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap());
    let moved = before.lines().find(|line| line.ends_with("/00009")).unwrap().split_once(' ').unwrap().0;
    fs::write(&path, before.replace(&format!("{moved} refs"), &format!("{commit} refs"))).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    agree("one was moved by hand");
    fs::rename(&path, path.with_extension("elsewhere")).unwrap();
    std::os::unix::fs::symlink("packed-refs.elsewhere", &path).unwrap();
    agree("a link to them");
    fs::write(path.with_extension("elsewhere"), &before).unwrap();
    agree("behind a link");
    fs::remove_file(&path).unwrap();
    assert_eq!(git.refs.refs_under("refs/tags").unwrap(), []);
}
