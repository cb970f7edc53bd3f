//! The git layer, with the git program as the judge.

mod call;
mod check;
mod diff;
mod differential;
mod linked;
mod merge;
mod open;
mod operation;
mod propose;
mod records;
mod refs;
mod restore;
mod stored;
mod whole_folders;

use autoresearch::domain::CommitId;
use autoresearch::git::{Repo, SaveAs, Untracked};

use crate::support::TestRepo;

/// Opens a repository as the program does.
#[track_caller]
fn open(repo: &TestRepo) -> Repo {
    Repo::discover(&repo.path()).unwrap()
}

/// The commit that `HEAD` is on.
#[track_caller]
fn head(repo: &TestRepo) -> CommitId {
    CommitId::new(repo.head())
}

/// Proposes the working tree, commits it on `base` and adopts it; the branch is moved by nobody. The stamps that come with it are
/// those of all tracked files.
#[track_caller]
fn propose_and_commit(git: &Repo, base: &CommitId) -> CommitId {
    let proposal = git.working_tree.propose(base, &Untracked::default()).unwrap();
    let commit = git.working_tree.commit(&proposal, base, "a proposal").unwrap();
    let stamps = git.working_tree.adopt_index(proposal).unwrap();
    assert_eq!(stamps, git.working_tree.tracked_stamps(&commit).unwrap());
    commit
}

/// Saves under the session `t` what differs from `expected`.
fn save_as(expected: &CommitId) -> SaveAs {
    SaveAs { folder: "refs/autoresearch/t/saved".to_owned(), expected: expected.clone(), subject: "saved".to_owned() }
}
