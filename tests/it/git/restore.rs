//! Putting the working tree back, and losing nothing on the way.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

use autoresearch::domain::CommitId;
use autoresearch::git::{GitError, Restored, Untracked};

use super::{head, open, propose_and_commit, save_as};
use crate::support::{TestRepo, until};

#[test]
fn edits_of_the_user_are_saved_before_they_are_cleared_away() {
    let repo = TestRepo::new();
    let git = open(&repo);
    let base = head(&repo);
    repo.write("train.py", "experiment\n");
    repo.write("new.py", "experiment\n");
    let commit = propose_and_commit(&git, &base);
    repo.write("train.py", "the user's\n");
    repo.rm("README.md");
    repo.write("mine.txt", "untracked\n");

    let saved = git.working_tree.restore(&base, &save_as(&commit), &Untracked::default()).unwrap().saved.unwrap();
    assert_eq!(saved.reference, "refs/autoresearch/t/saved/00000");
    assert_eq!(saved.paths, [PathBuf::from("README.md"), PathBuf::from("train.py")]);
    assert_eq!(repo.git(["show", "refs/autoresearch/t/saved/00000:train.py"]), "the user's");
    assert_eq!(repo.git(["rev-parse", "refs/autoresearch/t/saved/00000^"]), commit.as_str());
    assert_eq!(repo.git(["for-each-ref", "--format=%(contents:body)", "refs/autoresearch/t"]), "");
    assert_eq!(repo.read("train.py"), "print('val_bpb: 1.0')\n");
    assert!(repo.exists("README.md") && !repo.exists("new.py") && repo.exists("mine.txt"));
    assert_eq!(repo.status(), "?? mine.txt");

    assert_eq!(git.working_tree.restore(&base, &save_as(&commit), &Untracked::default()).unwrap(), Restored::default());
    repo.write("train.py", "again\n");
    let saved = git.working_tree.save(&save_as(&base)).unwrap().unwrap();
    assert_eq!(saved.reference, "refs/autoresearch/t/saved/00001");
    assert_eq!(git.working_tree.save(&save_as(&base)).unwrap().unwrap(), saved, "the same is not saved twice");
    assert_eq!(repo.read("train.py"), "again\n");
    repo.git(["fsck", "--strict"]);
}

#[test]
fn what_is_staged_and_not_in_the_working_tree_is_saved_too() {
    let repo = TestRepo::new();
    let git = open(&repo);
    let base = head(&repo);
    repo.write("train.py", "staged\n");
    repo.git(["add", "train.py"]);
    repo.write("train.py", "print('val_bpb: 1.0')\n");
    let saved = git.working_tree.restore(&base, &save_as(&base), &Untracked::default()).unwrap().saved.unwrap();
    assert_eq!(repo.git(["show", &format!("{}^2:train.py", saved.reference)]), "staged");
    assert_eq!(repo.status(), "");
}

#[test]
fn what_stands_in_the_way_is_saved() {
    let repo = TestRepo::new();
    repo.write(".gitignore", "ignored*\n");
    repo.write("ignored.py", "tracked all the same\n");
    repo.git(["add", "--force", "ignored.py"]);
    repo.write("folder/file", "tracked\n");
    repo.write("plain", "tracked\n");
    let base = head(&repo);
    let target = {
        repo.commit_all("target");
        head(&repo)
    };
    repo.git(["reset", "--quiet", "--hard", base.as_str()]);
    let git = open(&repo);
    repo.write("ignored.py", "the user's\n");
    repo.write("folder", "the user's\n");
    repo.write("plain/deep/file", "the user's\n");
    repo.write("plain/ignored-too", "the user's\n");
    let saved = git.working_tree.restore(&target, &save_as(&base), &Untracked::default()).unwrap().saved.unwrap();
    for path in ["ignored.py", "folder", "plain/deep/file", "plain/ignored-too"] {
        assert_eq!(repo.git(["show", &format!("{}:{path}", saved.reference)]), "the user's", "{path}");
    }
    assert_eq!(repo.read("folder/file"), "tracked\n");
    assert_eq!(repo.read("plain"), "tracked\n");

    repo.rm("plain");
    repo.git(["init", "--quiet", "plain"]);
    repo.write("plain/work", "the user's\n");
    assert!(matches!(
        git.working_tree.restore(&target, &save_as(&target), &Untracked::default()),
        Err(GitError::RepositoryInTheWay(_))
    ));
    assert_eq!(repo.read("plain/work"), "the user's\n");
}

#[test]
fn files_are_replaced_and_not_written_into() {
    let repo = TestRepo::new();
    let git = open(&repo);
    fs::copy("/bin/sleep", repo.file("tool")).unwrap();
    let base = {
        repo.commit_all("tool");
        head(&repo)
    };
    repo.write("train.py", "experiment\n");
    fs::rename(repo.file("tool"), repo.file("old-tool")).unwrap();
    fs::copy("/bin/cat", repo.file("tool")).unwrap();
    fs::remove_file(repo.file("old-tool")).unwrap();
    let commit = propose_and_commit(&git, &base);
    let linked = repo.outside().join("hard-link");
    fs::hard_link(repo.file("train.py"), &linked).unwrap();
    // Another test may start a process in the moment in which the file is written: that has it open until it is another program.
    let mut running =
        until("a program", || Command::new(repo.file("tool")).stdin(std::process::Stdio::piped()).spawn().ok());

    let restored = git.working_tree.restore(&base, &save_as(&commit), &Untracked::default());
    drop(running.stdin.take());
    running.wait().unwrap();
    restored.unwrap();
    assert_eq!(fs::read_to_string(&linked).unwrap(), "experiment\n");
    assert_eq!(fs::read(repo.file("tool")).unwrap(), fs::read("/bin/sleep").unwrap());
    assert_eq!(repo.git(["status", "--porcelain", "--untracked-files=no"]), " ".trim());
}

#[test]
fn nothing_is_written_through_a_link() {
    let repo = TestRepo::new();
    repo.write("src/a.py", "tracked\n");
    let base = {
        repo.commit_all("src");
        head(&repo)
    };
    let outside = repo.outside().join("elsewhere");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("a.py"), "precious\n").unwrap();
    fs::remove_dir_all(repo.file("src")).unwrap();
    repo.symlink(&outside, "src");
    let git = open(&repo);
    git.working_tree.restore(&base, &save_as(&base), &Untracked::default()).unwrap();
    assert_eq!(fs::read_to_string(outside.join("a.py")).unwrap(), "precious\n");
    assert_eq!(repo.read("src/a.py"), "tracked\n");
    assert_eq!(repo.status(), "");
}

#[test]
fn the_executable_bit_comes_back_where_git_does_not_look_at_it() {
    let repo = TestRepo::new();
    repo.write("run.sh", "#!/bin/sh\n");
    repo.chmod("run.sh", true);
    let base = {
        repo.commit_all("script");
        head(&repo)
    };
    repo.git(["config", "core.fileMode", "false"]);
    let git = open(&repo);
    repo.write("run.sh", "#!/bin/sh\nexit 1\n");
    let commit = propose_and_commit(&git, &base);
    assert_eq!(&repo.git(["ls-tree", commit.as_str(), "run.sh"])[..6], "100755");
    git.working_tree.restore(&base, &save_as(&commit), &Untracked::default()).unwrap();
    assert_eq!(fs::metadata(repo.file("run.sh")).unwrap().mode() & 0o111, 0o111);
}

#[test]
fn a_file_of_the_experiment_that_is_no_longer_tracked_goes() {
    let repo = TestRepo::new();
    let git = open(&repo);
    let base = head(&repo);
    repo.write("src/new.py", "experiment\n");
    repo.write("src/other.py", "experiment\n");
    let commit = propose_and_commit(&git, &base);
    repo.git(["rm", "--quiet", "-r", "--cached", "src"]);
    repo.write("src/other.py", "the user's\n");
    git.working_tree.restore(&base, &save_as(&commit), &Untracked::default()).unwrap();
    assert!(!repo.exists("src/new.py"));
    assert_eq!(repo.read("src/other.py"), "the user's\n");
}

#[test]
fn restores_in_a_linked_worktree_and_leaves_the_main_one_alone() {
    let repo = TestRepo::new();
    let linked = repo.outside().join("linked");
    repo.git(["worktree", "add", "--quiet", "-b", "side", linked.to_str().unwrap()]);
    repo.write("train.py", "main's own\n");
    let git = autoresearch::git::Repo::discover(&linked).unwrap();
    let base = head(&repo);
    fs::write(linked.join("train.py"), "experiment\n").unwrap();
    let commit = propose_and_commit(&git, &base);
    git.working_tree.restore(&base, &save_as(&commit), &Untracked::default()).unwrap();
    assert_eq!(fs::read_to_string(linked.join("train.py")).unwrap(), "print('val_bpb: 1.0')\n");
    assert_eq!(String::from_utf8_lossy(&repo.try_git_in(&linked, ["status", "--porcelain"]).stdout), "");
    assert_eq!(repo.status(), " M train.py");
}

#[test]
fn killed_anywhere_and_run_again_it_ends_in_the_same_state() {
    // The one to be killed is this test, called again in a process of its own.
    if let Ok(arguments) = std::env::var("AR_TEST_RESTORE") {
        let [dir, base, commit] = arguments.split('\n').collect::<Vec<_>>().try_into().unwrap();
        let (base, commit) = (CommitId::new(base), CommitId::new(commit));
        autoresearch::git::Repo::discover(dir.as_ref())
            .unwrap()
            .working_tree
            .restore(&base, &save_as(&commit), &Untracked::default())
            .unwrap();
        return;
    }
    let repo = TestRepo::new();
    for n in 0..60 {
        repo.write(format!("src/{}/{n}.py", n % 7), format!("base {n}\n"));
    }
    let base = {
        repo.commit_all("base");
        head(&repo)
    };
    let git = open(&repo);
    let mut killed = 0;
    for round in 0..6 {
        for n in 0..60 {
            match n % 3 {
                0 => repo.write(format!("src/{}/{n}.py", n % 7), format!("round {round} of {n}\n")),
                1 => repo.rm(format!("src/{}/{n}.py", n % 7)),
                _ => repo.write(format!("new/{}/{n}.py", n % 5), format!("round {round}\n")),
            }
        }
        let commit = propose_and_commit(&git, &base);
        repo.write("README.md", format!("the user's {round}\n"));
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.env("AR_TEST_RESTORE", [repo.path().to_str().unwrap(), base.as_str(), commit.as_str()].join("\n"));
        child.args(["--exact", "git::restore::killed_anywhere_and_run_again_it_ends_in_the_same_state"]);
        let mut child = child.stdout(std::process::Stdio::null()).spawn().unwrap();
        // Each round lets it come a little further: until so many files are back, or it is over.
        let back = || (0..60).filter(|n| repo.exists(format!("src/{}/{n}.py", n % 7))).count();
        while back() < 40 + round * 3 && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        let _ = child.kill();
        killed += usize::from(!child.wait().unwrap().success());

        git.working_tree.restore(&base, &save_as(&commit), &Untracked::default()).unwrap();
        assert_eq!(repo.status(), "", "round {round}");
        assert_eq!(repo.git(["write-tree"]), git.objects.tree_of(&base).unwrap());
        assert!(!repo.exists("new"), "round {round}");
        let saved = repo.git(["for-each-ref", "--format=%(refname)", "refs/autoresearch/t/saved"]);
        let last = format!("refs/autoresearch/t/saved/{round:05}");
        assert_eq!(saved.lines().last(), Some(last.as_str()), "saved once a round");
        assert_eq!(repo.git(["show", &format!("{last}:README.md")]), format!("the user's {round}"));
        assert_eq!(repo.git(["diff", "--name-only", &format!("{last}^"), &last]), "README.md");
        let left = fs::read_dir(repo.file(".git")).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(left.into_iter().all(|name| !name.to_string_lossy().starts_with("ar-tmp")), "round {round}");
    }
    assert!(killed > 0, "every process was too fast to be killed");
}

/// Lists the untracked files as the program does: the list is written and read again.
#[track_caller]
fn listed(git: &autoresearch::git::Repo) -> Untracked {
    let known = git.working_tree.untracked(&Untracked::default()).unwrap();
    let known = serde_json::from_str(&serde_json::to_string(&known).unwrap()).unwrap();
    assert_eq!(git.working_tree.untracked(&known).unwrap(), known, "listed again, it is the same");
    known
}

#[test]
fn an_untracked_file_of_the_user_is_there_afterwards_as_it_was() {
    let repo = TestRepo::new();
    let git = open(&repo);
    let base = head(&repo);
    for name in ["touched.json", "conf/changed.json", "staged.json"] {
        repo.write(name, "the user's\n");
    }
    repo.symlink("elsewhere", "link");
    repo.chmod("conf/changed.json", true);
    let big = fs::File::create(repo.file("big.npy")).unwrap();
    big.set_len(2 * 1024 * 1024).unwrap();
    let known = listed(&git);

    repo.write("train.py", "experiment\n");
    let touched = fs::File::options().append(true).open(repo.file("touched.json")).unwrap();
    touched.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    repo.write("conf/changed.json", "the agent's\n");
    repo.git(["add", "staged.json", "big.npy"]);
    repo.rm("link");
    repo.symlink("here", "link");
    let proposal = git.working_tree.propose(&base, &known).unwrap();
    let names: Vec<_> = proposal.paths().iter().map(|change| change.path.display().to_string()).collect();
    assert_eq!(names, ["big.npy", "conf/changed.json", "link", "staged.json", "train.py"]);
    let commit = git.working_tree.commit(&proposal, &base, "an experiment").unwrap();
    repo.git(["update-ref", "HEAD", commit.as_str()]);
    git.working_tree.adopt_index(proposal).unwrap();
    assert_eq!(repo.status(), "?? touched.json");

    repo.git(["update-ref", "HEAD", base.as_str()]);
    let kept = fs::read(repo.file(".git/index")).unwrap();
    for round in 0..2 {
        assert_eq!(
            git.working_tree.restore(&base, &save_as(&commit), &known).unwrap(),
            Restored::default(),
            "round {round}"
        );
        for name in ["touched.json", "conf/changed.json", "staged.json"] {
            assert_eq!(repo.read(name), "the user's\n", "{name}");
        }
        assert_eq!(fs::read_link(repo.file("link")).unwrap(), PathBuf::from("elsewhere"));
        assert_eq!(fs::metadata(repo.file("conf/changed.json")).unwrap().mode() & 0o111, 0o111);
        assert_eq!(fs::metadata(repo.file("big.npy")).unwrap().len(), 2 * 1024 * 1024);
        let untracked = ["big.npy", "conf/", "link", "staged.json", "touched.json"].map(|name| format!("?? {name}"));
        assert_eq!(repo.status(), untracked.join("\n"));
        // As if it had been killed before the index was written.
        fs::write(repo.file(".git/index"), &kept).unwrap();
    }
}

#[test]
fn an_untracked_file_whose_content_is_not_kept_stays_as_it_is() {
    let repo = TestRepo::new();
    let git = open(&repo);
    let base = head(&repo);
    repo.write("big.npy", vec![b'1'; 2 * 1024 * 1024]);
    let known = listed(&git);
    repo.write("big.npy", vec![b'2'; 2 * 1024 * 1024]);
    let proposal = git.working_tree.propose(&base, &known).unwrap();
    assert!(proposal.is_empty(), "{proposal:?}");
    git.working_tree.restore(&base, &save_as(&base), &known).unwrap();
    assert_eq!(repo.read("big.npy").as_bytes(), vec![b'2'; 2 * 1024 * 1024]);
}
