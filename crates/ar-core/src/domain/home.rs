//! Whose working tree an experiment is in.

use super::Layout;

/// Whose working tree an experiment is made, or run, in. All that differs between *in place* and slots is a question here:
///
/// | Question | The user's tree | A tree of `ar`'s own |
/// |---|---|---|
/// | [`Home::follows_branch`] | `HEAD` is on the branch and moves with it | `HEAD` is detached; the branch moves alone |
/// | [`Home::has_user`] | the user's edits, files and settings are noted, reported and kept | only `ar` and jobs work in it |
/// | [`Home::is_disposable`] | it is never cleared; the loop ends without it | it is cleared for each job, and rebuilt |
/// | [`Home::is_one_of_many`] | an attempt stays from its call to its record | a commit under `open/` leaves it and waits |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Home {
    /// The user's, *in place*.
    UserTree,
    /// A linked one that `ar` made, for a slot or a seat.
    OwnTree,
}

impl Home {
    /// Returns the kind of tree in which a session with this layout makes and runs its experiments.
    pub fn of(layout: Option<&Layout>) -> Home {
        if layout.is_some() { Home::OwnTree } else { Home::UserTree }
    }

    /// Returns whether `HEAD` is on the session's branch. Then a record moves branch, index and files together.
    pub fn follows_branch(self) -> bool {
        self == Home::UserTree
    }

    /// Returns whether the user may work in it meanwhile. Then a session locks it, and separates the user's files from
    /// those of jobs.
    pub fn has_user(self) -> bool {
        self == Home::UserTree
    }

    /// Returns whether `ar` may clear it before a job, and rebuilds it if an agent deleted it.
    pub fn is_disposable(self) -> bool {
        self == Home::OwnTree
    }

    /// Returns whether attempts are open side by side. Each gets its number in advance, and waits as a commit for a
    /// free tree.
    pub fn is_one_of_many(self) -> bool {
        self == Home::OwnTree
    }
}
