//! Snapshots and puts back a working tree as often as it is asked to, for `benches/peers`: one process, as in the loop.
//!
//! For each line on standard input it commits what is in the working tree of the current folder and puts branch, index and
//! files back to where they were, as `git commit -qam` and `git reset -q --hard HEAD~1` do; it answers with the nanoseconds
//! that this took and the tree that was committed.

use std::io::{self, BufRead, Write};
use std::path::Path;
use std::time::Instant;

use autoresearch::domain::CommitId;
use autoresearch::git::{GitError, Head, Repo, SaveAs, Untracked};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let repo = Repo::discover(Path::new("."))?;
    let Head::Branch { name, commit: base } = repo.refs.head()? else { return Err("HEAD is on no branch".into()) };
    let known = repo.working_tree.untracked(&Untracked::default())?;
    // The build asks for nothing when it only looks whether this runs.
    for line in io::stdin().lock().lines() {
        line?;
        let begun = Instant::now();
        let tree = turn(&repo, &name, &base, &known)?;
        writeln!(io::stdout(), "{} {tree}", begun.elapsed().as_nanos())?;
        io::stdout().flush()?;
    }
    Ok(())
}

fn turn(repo: &Repo, branch: &str, base: &CommitId, known: &Untracked) -> Result<String, GitError> {
    let change = repo.working_tree.propose(base, known)?;
    let tree = change.tree();
    let commit = repo.working_tree.commit(&change, base, "an experiment")?;
    repo.refs.advance(branch, base, &commit, "an experiment")?;
    repo.working_tree.adopt_index(change)?;
    repo.refs.advance(branch, &commit, base, "taken back")?;
    let save = SaveAs { folder: "refs/autoresearch/bench/saved".into(), expected: commit, subject: "saved".into() };
    repo.working_tree.restore(base, &save, known)?;
    Ok(tree)
}
