//! Errors about branches.

use std::path::PathBuf;

use crate::domain::shell_word;

/// The reason why a branch is not as a session needs it, or cannot be made.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum BranchError {
    #[error("branch {0} exists but belongs to no session")]
    ForeignBranch(String),
    #[error("cannot create branch {branch}: git does not allow it beside the existing branch {blocking}")]
    BranchInTheWay { blocking: String, branch: String },
    #[error("cannot adopt the commits on {0}: this working tree does not have them checked out")]
    AdoptedElsewhere(String),
    #[error("the branch {branch} is checked out in {}", worktree.display())]
    CheckedOutElsewhere { branch: String, worktree: PathBuf },
    #[error("branch {branch} is at {tip}, which is not an experiment: {subject}")]
    UnrecordedTip { branch: String, tip: String, subject: String, base: String, is_on_top: bool },
    #[error("branch {0} already exists")]
    BranchTaken(String),
    #[error("branch {branch} already exists, checked out in {}", worktree.display())]
    RestoredAlready { branch: String, worktree: PathBuf },
    #[error("branch {0} belongs to a session or is named like one")]
    SessionBranch(String),
}

impl BranchError {
    /// Returns the hint for the user.
    pub(crate) fn hint(&self) -> String {
        match self {
            BranchError::ForeignBranch(branch) => format!(
                "choose another name with --tag, or rename the branch: git branch -m {branch} NEW-NAME; run `ar doctor` to see \
                    whether a session left work of yours there"
            ),
            BranchError::BranchInTheWay { blocking, branch }
                if blocking.starts_with("autoresearch/") && branch.starts_with(blocking.as_str()) =>
            {
                format!("{blocking} is a session's branch; choose another name with --branch or --tag")
            }
            BranchError::BranchInTheWay { blocking, .. } => format!("git branch -m {blocking} NEW-NAME"),
            BranchError::AdoptedElsewhere(branch) => format!("git switch {branch}"),
            BranchError::CheckedOutElsewhere { worktree, .. } => {
                format!("continue it there: cd {}; or start another session here with --tag", shell_word(worktree))
            }
            BranchError::UnrecordedTip { is_on_top: true, .. } => {
                "run `ar run` to begin the next session with it, or `ar run --adopt` to measure it in this one".into()
            }
            BranchError::UnrecordedTip { base, .. } => format!(
                "name what is there with `git branch NAME`, then move the branch back with `git reset --keep {base}`"
            ),
            BranchError::BranchTaken(branch) => {
                format!("see what it has with `git log {branch}`, or name another one with --branch {branch}-2")
            }
            BranchError::RestoredAlready { worktree, .. } => format!(
                "name another one with --branch; if an earlier invocation was killed and left it unfinished, run \
                    `git worktree remove --force {}` and retry",
                shell_word(worktree)
            ),
            BranchError::SessionBranch(_) => "name another one with --branch".into(),
        }
    }
}
