//! What becomes part of a commit, and what stays out.

use std::fs;
use std::path::{Path, PathBuf};

use autoresearch::git::{ChangeKind, GitError, TooLarge, Untracked};

use super::{head, open, propose_and_commit};
use crate::support::TestRepo;

fn names(proposal: &autoresearch::git::Proposal) -> Vec<String> {
    proposal.paths().iter().map(|change| change.path.display().to_string()).collect()
}

#[test]
fn what_a_run_left_behind_stays_out_until_it_changes() {
    let repo = TestRepo::new();
    let git = open(&repo);
    repo.write("checkpoint.pt", "weights");
    repo.write("logs/a.txt", "log");
    let known = git.working_tree.untracked(&Untracked::default()).unwrap();
    assert_eq!(known.paths().collect::<Vec<_>>(), [Path::new("checkpoint.pt"), Path::new("logs/a.txt")]);
    let known: Untracked = serde_json::from_str(&serde_json::to_string(&known).unwrap()).unwrap();

    repo.write("new.py", "new\n");
    assert_eq!(names(&git.working_tree.propose(&head(&repo), &known).unwrap()), ["new.py"]);
    repo.write("logs/a.txt", "LOG");
    assert_eq!(names(&git.working_tree.propose(&head(&repo), &known).unwrap()), ["logs/a.txt", "new.py"]);
    repo.git(["add", "checkpoint.pt"]);
    let proposal = git.working_tree.propose(&head(&repo), &known).unwrap();
    assert_eq!(names(&proposal), ["checkpoint.pt", "logs/a.txt", "new.py"]);
    assert_eq!(proposal.paths()[0].size, 7);
    assert_eq!(repo.git(["diff", "--cached", "--name-only"]), "checkpoint.pt", "the index was touched");
}

#[test]
fn is_relative_to_the_base_whatever_the_agent_did() {
    let repo = TestRepo::new();
    let git = open(&repo);
    let base = head(&repo);
    assert!(git.working_tree.propose(&base, &Untracked::default()).unwrap().is_empty());
    repo.write("train.py", "better\n");
    repo.write("new.py", "new\n");
    let wanted = git.working_tree.propose(&base, &Untracked::default()).unwrap().tree();

    repo.commit_all("the agent commits");
    assert_eq!(git.working_tree.propose(&base, &Untracked::default()).unwrap().tree(), wanted);
    repo.git(["reset", "--quiet", "--soft", base.as_str()]);
    assert_eq!(git.working_tree.propose(&base, &Untracked::default()).unwrap().tree(), wanted);
    repo.git(["reset", "--quiet", base.as_str()]);
    assert_eq!(git.working_tree.propose(&base, &Untracked::default()).unwrap().tree(), wanted);
    repo.git(["checkout", "--quiet", "--orphan", "elsewhere"]);
    repo.git(["rm", "-r", "--force", "--cached", "--quiet", "."]);
    assert_eq!(git.working_tree.propose(&base, &Untracked::default()).unwrap().tree(), wanted);
}

#[test]
fn marks_that_hide_a_change_hide_nothing() {
    let repo = TestRepo::new();
    let git = open(&repo);
    repo.git(["update-index", "--assume-unchanged", "train.py"]);
    repo.git(["update-index", "--skip-worktree", "README.md"]);
    repo.write("train.py", "hidden\n");
    repo.write("README.md", "hidden too\n");
    assert_eq!(
        names(&git.working_tree.propose(&head(&repo), &Untracked::default()).unwrap()),
        ["README.md", "train.py"]
    );
}

#[test]
fn kinds_of_changes() {
    let repo = TestRepo::new();
    for name in ["gone", "mode", "type", "content"] {
        repo.write(name, name);
    }
    repo.commit_all("files");
    repo.rm("gone");
    repo.chmod("mode", true);
    repo.rm("type");
    repo.symlink("nowhere", "type");
    repo.write("content", "other");
    repo.write("added", "added");
    let proposal = open(&repo).working_tree.propose(&head(&repo), &Untracked::default()).unwrap();
    let kinds: Vec<_> = proposal.paths().iter().map(|change| (change.path.to_str().unwrap(), change.kind)).collect();
    use ChangeKind::{Added, Deleted, Modified, TypeChanged};
    assert_eq!(
        kinds,
        [("added", Added), ("content", Modified), ("gone", Deleted), ("mode", Modified), ("type", TypeChanged)]
    );
}

#[test]
fn the_dirty_tree_names_its_files() {
    let repo = TestRepo::new();
    let git = open(&repo);
    assert_eq!(git.working_tree.changes().unwrap(), autoresearch::git::Changes::default());
    repo.write("train.py", "edited\n");
    repo.write("staged", "staged");
    repo.write("meant", "meant");
    repo.write("untracked", "untracked");
    repo.git(["add", "staged"]);
    repo.git(["add", "--intent-to-add", "meant"]);
    repo.rm("README.md");
    let changes = git.working_tree.changes().unwrap();
    let expected = [
        ("README.md", ChangeKind::Deleted),
        ("meant", ChangeKind::Added),
        ("staged", ChangeKind::Added),
        ("train.py", ChangeKind::Modified),
    ];
    assert_eq!(changes.tracked, expected.map(|(path, kind)| (PathBuf::from(path), kind)));
    assert_eq!(changes.untracked.paths().collect::<Vec<_>>(), [Path::new("untracked")]);
    assert!(git.working_tree.is_tracked(Path::new("README.md")).unwrap());
    assert!(git.working_tree.is_tracked(Path::new("staged")).unwrap());
    assert!(!git.working_tree.is_tracked(Path::new("untracked")).unwrap());
}

#[test]
fn a_same_second_same_size_edit_is_seen() {
    let repo = TestRepo::new();
    let git = open(&repo);
    let mut base = head(&repo);
    for n in 0..20 {
        repo.write("train.py", format!("{:04}\n", n));
        let commit = propose_and_commit(&git, &base);
        assert_eq!(repo.git(["show", &format!("{commit}:train.py")]), format!("{n:04}"));
        // Right behind our index: git has to see it too.
        repo.write("train.py", format!("{:04}\n", n + 5000));
        repo.git(["update-ref", "HEAD", commit.as_str()]);
        assert_eq!(repo.status(), " M train.py");
        base = commit;
    }
}

#[test]
fn nested_repositories_are_not_swallowed_and_submodules_stay() {
    let repo = TestRepo::new();
    let other = TestRepo::new();
    let url = other.path();
    repo.git(["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", url.to_str().unwrap(), "sub"]);
    repo.commit_all("with a submodule");
    repo.write("sub/train.py", "edited inside\n");
    repo.git(["-C", "sub", "commit", "--quiet", "--all", "--message", "inside"]);
    repo.git(["init", "--quiet", "nested"]);
    repo.write("nested/file", "x");
    repo.write("seen", "x");
    let base = head(&repo);
    let git = open(&repo);
    let proposal = git.working_tree.propose(&base, &Untracked::default()).unwrap();
    assert_eq!(names(&proposal), ["seen"]);
    git.working_tree.restore(&base, &super::save_as(&base), &Untracked::default()).unwrap();
    assert!(repo.exists("nested/file") && repo.exists("sub/train.py"));
}

/// Makes a file of one byte more than fits into a commit, which takes no room on the disk.
fn make_huge(repo: &TestRepo, name: &str) -> TooLarge {
    let file = fs::File::options().create(true).append(true).open(repo.file(name)).unwrap();
    let size = 100 * 1024 * 1024 + 1;
    file.set_len(size).unwrap();
    TooLarge { path: PathBuf::from(name), size }
}

#[test]
fn huge_files_are_named_and_left_out() {
    let repo = TestRepo::new();
    let git = open(&repo);
    let base = head(&repo);
    let committed = make_huge(&repo, "committed.bin");
    repo.commit_all("the agent commits");
    let staged = make_huge(&repo, "staged.bin");
    repo.git(["add", "staged.bin"]);
    let new = make_huge(&repo, "new.bin");
    let tracked = make_huge(&repo, "train.py");
    repo.write("README.md", "small\n");

    let proposal = git.working_tree.propose(&base, &Untracked::default()).unwrap();
    assert_eq!(names(&proposal), ["README.md"]);
    assert_eq!(proposal.too_large(), [committed, new.clone(), staged, tracked]);
    let commit = git.working_tree.commit(&proposal, &base, "small").unwrap();
    assert_eq!(repo.git(["diff", "--name-only", base.as_str(), commit.as_str()]), "README.md");
    repo.git(["update-ref", "HEAD", commit.as_str()]);
    git.working_tree.adopt_index(proposal).unwrap();
    assert_eq!(repo.status(), " M train.py\n?? committed.bin\n?? new.bin\n?? staged.bin");

    let grown = repo.git(["hash-object", "train.py"]);
    let saved =
        git.working_tree.restore(&base, &super::save_as(&commit), &Untracked::default()).unwrap().saved.unwrap();
    assert_eq!(saved.paths, [Path::new("train.py")]);
    assert_eq!(repo.git(["rev-parse", &format!("{}:train.py", saved.reference)]), grown);
    assert_eq!(repo.read("train.py"), "print('val_bpb: 1.0')\n");
    assert_eq!(fs::metadata(repo.file("new.bin")).unwrap().len(), new.size);
}

#[test]
fn a_huge_file_of_the_base_that_was_merely_touched_is_no_change() {
    let repo = TestRepo::new();
    make_huge(&repo, "model.bin");
    repo.commit_all("large");
    let git = open(&repo);
    let base = head(&repo);
    fs::File::open(repo.file("model.bin")).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let proposal = git.working_tree.propose(&base, &Untracked::default()).unwrap();
    assert!(proposal.is_empty() && proposal.too_large().is_empty(), "{proposal:?}");
    assert_eq!(git.working_tree.changes().unwrap(), autoresearch::git::Changes::default());
}

#[test]
fn hooks_do_not_run_and_the_message_stays_as_it_is() {
    let repo = TestRepo::new();
    repo.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n");
    repo.chmod(".git/hooks/pre-commit", true);
    repo.write("train.py", "x\n");
    let git = open(&repo);
    let base = head(&repo);
    let proposal = git.working_tree.propose(&base, &Untracked::default()).unwrap();
    let commit = git.working_tree.commit(&proposal, &base, "# not a comment\n\n  body  ").unwrap();
    assert_eq!(repo.git(["log", "-1", "--format=%B", commit.as_str()]), "# not a comment\n\n  body  \n");
    assert_eq!(git.objects.subject(&commit).unwrap(), "# not a comment");
    assert_eq!(git.objects.parents(&commit).unwrap(), [base]);
    assert_eq!(git.objects.tree_of(&commit).unwrap(), proposal.tree());
}

#[test]
fn a_signature_that_cannot_be_made_is_a_clear_error() {
    let repo = TestRepo::new();
    repo.git(["config", "commit.gpgSign", "true"]);
    repo.git(["config", "gpg.program", "/nonexistent/gpg"]);
    repo.write("train.py", "x\n");
    let git = open(&repo);
    let proposal = git.working_tree.propose(&head(&repo), &Untracked::default()).unwrap();
    let err = git.working_tree.commit(&proposal, &head(&repo), "signed").unwrap_err();
    assert!(matches!(&err, GitError::Signing(_)) && err.hint().is_some(), "{err:?}");
}
