//! Attacks on the refs, and on what git shows of them.

use super::harness::{assert_undone, said};

#[test]
fn refs_that_the_agent_moves_deletes_or_makes_up_are_put_right_and_named() {
    let forge = "git cat-file tag $R/00000 | sed 's/\"value\":2.0/\"value\":9.0/' > ../forged";
    let forged = format!("{forge}; git update-ref $R/00000 $(git mktag --no-strict < ../forged)");
    let replaced = format!("{forge}; git replace $(git rev-parse $R/00000) $(git mktag --no-strict < ../forged)");
    let moved = "moved to ";
    let (repo, called) = assert_undone(&[
        (&forged, moved),
        ("git update-ref $R/00000 HEAD", "restored the ref refs/autoresearch/t/00000, moved"),
        ("git update-ref -d $R/00000", "restored ar's refs deleted while the agent was active: "),
        (
            "git symbolic-ref $R/00001 refs/heads/main",
            "restored ar's refs deleted while the agent was active: refs/autoresearch/t/00001",
        ),
        ("echo garbage > .git/$R/00001", "refs/autoresearch/t/00001"),
        ("git update-ref $R/00006 main", "removed the ref refs/autoresearch/t/00006, created at "),
        (
            "git update-ref -d $R/00002; git update-ref $R/00002/x main",
            "removed the ref refs/autoresearch/t/00002/x, created",
        ),
        (
            "git pack-refs --all; sed -i /00003/,+1d .git/packed-refs",
            "restored ar's refs deleted while the agent was active: refs/autoresearch/t/00003",
        ),
        (&replaced, "removed the ref refs/replace/"),
        ("git rev-parse $R/00000^{commit} > .git/info/grafts", "info/grafts"),
        (
            "git branch -qf keep autoresearch/t; git checkout -q keep; git branch -qD autoresearch/t",
            "recreated the missing branch autoresearch/t",
        ),
        (
            "git update-ref refs/heads/autoresearch/t main~0; git symbolic-ref HEAD refs/heads/main",
            "switched HEAD back to autoresearch/t",
        ),
        (
            "git commit -q --allow-empty -m one; git commit -q --allow-empty -m two",
            "saved that commit in refs/autoresearch/t/saved/",
        ),
        (
            "git config core.worktree /tmp; git config core.bare true; git config core.fileMode false",
            "git's own settings changed, left as they are, while the agent was active: ",
        ),
        ("git config --unset core.bare; git config --unset core.worktree; git config core.fileMode true", ""),
        ("printf '#!/bin/sh\\nexit 1\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit", "hooks/pre-commit"),
    ]);
    assert_eq!(repo.git(["for-each-ref", "refs/replace"]), "", "{}", said(&called));
    repo.git(["fsck", "--no-dangling", "--no-progress"]);
}
