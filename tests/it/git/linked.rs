//! Working trees that are kept, with the git program as the judge.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use autoresearch::domain::CommitId;
use autoresearch::git::{Head, HeadTarget, KeptTree, LinkedEntry, Oddity, Repo, TreeState, Untracked};

use super::{head, open, propose_and_commit, save_as};
use crate::support::TestRepo;

const REASON: &str = "kept by ar for session t";

/// A repository that ignores the folder of this program, with a folder and a link in it.
fn repository() -> TestRepo {
    let repo = TestRepo::new();
    repo.write("src/deep/model.py", "layers = 3\n");
    repo.symlink("train.py", "link");
    repo.commit_all("more files");
    open(&repo).exclude(&["/.autoresearch"]).unwrap();
    repo
}

fn place(repo: &TestRepo, tag: &str, name: &str) -> PathBuf {
    repo.file(".autoresearch").join(tag).join("trees").join(name)
}

#[track_caller]
fn keep(repo: &TestRepo, git: &Repo, dir: &Path) -> KeptTree {
    git.keep_worktree(dir, &head(repo), REASON).unwrap()
}

/// What git says in a working tree; it must succeed.
#[track_caller]
fn git_in(repo: &TestRepo, dir: &Path, args: &[&str]) -> String {
    let output = repo.try_git_in(dir, args);
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// Checks that git knows each of `dirs` once, locked for the reason and with a detached `HEAD` at the commit, that nothing
/// differs there or in the main working tree, and that the repository is whole.
#[track_caller]
fn is_sound(repo: &TestRepo, dirs: &[&Path]) {
    let listed = repo.git(["worktree", "list", "--porcelain"]);
    let listed: Vec<&str> = listed.split("\n\n").skip(1).collect();
    assert_eq!(listed.len(), dirs.len(), "{listed:#?}");
    for dir in dirs {
        let dir = dir.canonicalize().unwrap();
        let expected =
            format!("worktree {}\nHEAD {}\ndetached\nlocked {REASON}: {}", dir.display(), repo.head(), dir.display());
        assert!(listed.iter().any(|tree| tree.trim_end() == expected), "{expected}: {listed:#?}");
        assert_eq!(git_in(repo, &dir, &["status", "--porcelain"]), "");
        assert_eq!(git_in(repo, &dir, &["ls-files"]), repo.git(["ls-files"]));
    }
    assert_eq!(repo.status(), "");
    assert_eq!(repo.git(["fsck", "--strict", "--no-dangling"]), "");
}

#[test]
fn kept_trees_of_two_sessions_are_made_found_and_removed_whole() {
    let repo = repository();
    let git = open(&repo);
    let dirs = ["t", "u"].map(|tag| place(&repo, tag, "slot-0"));
    for dir in &dirs {
        assert_eq!(keep(&repo, &git, dir).state, TreeState::Made);
    }
    is_sound(&repo, &[&dirs[0], &dirs[1]]);
    assert!(repo.exists(".git/worktrees/slot-0") && repo.exists(".git/worktrees/slot-01"));
    for dir in &dirs {
        let kept = keep(&repo, &git, dir);
        assert_eq!((kept.state, kept.moved), (TreeState::Found, None));
        assert_eq!(kept.repo.refs.head().unwrap(), Head::Detached { commit: head(&repo) });
    }
    is_sound(&repo, &[&dirs[0], &dirs[1]]);

    // A link out of the tree and a folder that nobody may write to.
    repo.symlink(repo.outside(), dirs[0].join("out"));
    repo.write(dirs[0].join("cache/deep/file"), "");
    let mut sealed = fs::metadata(dirs[0].join("cache/deep")).unwrap().permissions();
    sealed.set_readonly(true);
    fs::set_permissions(dirs[0].join("cache/deep"), sealed).unwrap();
    git.remove_kept(&dirs[0]).unwrap();
    assert!(!dirs[0].exists() && repo.outside().exists() && repo.exists("train.py"));
    is_sound(&repo, &[&dirs[1]]);
    git.remove_kept(&dirs[0]).unwrap();
    fs::remove_dir_all(&dirs[1]).unwrap();
    git.remove_kept(&dirs[1]).unwrap();
    is_sound(&repo, &[]);
    assert_eq!(fs::read_dir(repo.file(".git/worktrees")).map_or(0, Iterator::count), 0);
}

#[test]
fn a_kept_tree_is_at_a_commit_that_was_pruned_by_a_gc_of_before() {
    let repo = repository();
    let git = open(&repo);
    repo.write("train.py", "print('val_bpb: 0.9')\n");
    let commit = propose_and_commit(&git, &head(&repo));
    let kept = git.keep_worktree(&place(&repo, "t", "slot-0"), &commit, REASON).unwrap().repo;
    // What a gc chose to delete before a ref or a `HEAD` led there.
    let (folder, file) = commit.as_str().split_at(2);
    let object = repo.file(".git/objects").join(folder).join(file);
    fs::remove_file(&object).unwrap();
    assert_eq!(kept.refs.head().unwrap(), Head::Detached { commit });
    assert!(object.exists(), "written again");
}

#[test]
fn what_is_committed_in_a_kept_tree_survives_git_at_work_in_both_trees() {
    let repo = repository();
    let git = open(&repo);
    let dir = place(&repo, "t", "seat-0");
    let kept = keep(&repo, &git, &dir).repo;
    repo.write(dir.join("train.py"), "print('val_bpb: 0.9')\n");
    let proposal = kept.working_tree.propose(&head(&repo), &Untracked::default()).unwrap();
    let commit = kept.working_tree.commit(&proposal, &head(&repo), "a proposal").unwrap();
    kept.working_tree.adopt_index(proposal).unwrap();
    repo.git(["gc", "--quiet", "--prune=now"]);
    // The main repository holds what was written through the linked one, and writes it again.
    git.refs.write_record("refs/autoresearch/t/00001", &commit, "one\n").unwrap();
    kept.working_tree.restore(&head(&repo), &save_as(&commit), &Untracked::default()).unwrap();
    assert_eq!(repo.git(["show", &format!("{commit}:train.py")]), "print('val_bpb: 0.9')");

    for (place, args) in [
        (repo.path(), &["worktree", "prune", "--expire=now"][..]),
        (repo.path(), &["clean", "-fdxq"]),
        (dir.clone(), &["clean", "-fdxq"]),
        (dir.clone(), &["worktree", "prune", "--expire=now"]),
        (dir.clone(), &["gc", "--quiet", "--prune=now"]),
    ] {
        git_in(&repo, &place, args);
        assert_eq!(keep(&repo, &git, &dir).state, TreeState::Found, "{args:?}");
        is_sound(&repo, &[&dir]);
    }
    repo.git(["clean", "-ffdxq"]);
    assert!(!dir.exists(), "clean with two f removes repositories, too");
    assert_eq!(keep(&repo, &git, &dir).state, TreeState::Made);
    is_sound(&repo, &[&dir]);
}

#[test]
fn a_kept_tree_whose_folder_is_missing_stays_registered_and_is_made_again() {
    let repo = repository();
    let git = open(&repo);
    let dir = place(&repo, "t", "slot-0");
    keep(&repo, &git, &dir);
    let aside = dir.with_file_name("aside");
    fs::rename(&dir, &aside).unwrap();
    repo.git(["worktree", "prune", "--expire=now"]);
    repo.git(["gc", "--quiet", "--prune=now"]);
    fs::rename(&aside, &dir).unwrap();
    assert_eq!(keep(&repo, &git, &dir).state, TreeState::Found);
    is_sound(&repo, &[&dir]);

    fs::remove_dir_all(repo.file(".autoresearch")).unwrap();
    assert_eq!(keep(&repo, &git, &dir).state, TreeState::Made);
    is_sound(&repo, &[&dir]);
    assert!(!repo.exists(".git/worktrees/slot-01"));
}

#[test]
fn a_kept_tree_that_git_does_not_know_any_more_is_linked_again_with_its_files() {
    let repo = repository();
    let git = open(&repo);
    let dir = place(&repo, "t", "slot-0");
    keep(&repo, &git, &dir);
    let admin = repo.file(".git/worktrees");
    let damages: [(&str, &dyn Fn()); 7] = [
        ("registration", &|| fs::remove_dir_all(admin.join("slot-0")).unwrap()),
        ("all registrations", &|| fs::remove_dir_all(&admin).unwrap()),
        (".git", &|| fs::remove_file(dir.join(".git")).unwrap()),
        ("another .git", &|| fs::write(dir.join(".git"), "gitdir: /nowhere\n").unwrap()),
        ("HEAD", &|| fs::write(admin.join("slot-0/HEAD"), "").unwrap()),
        ("index", &|| fs::remove_file(admin.join("slot-0/index")).unwrap()),
        ("commondir", &|| fs::remove_file(admin.join("slot-0/commondir")).unwrap()),
    ];
    for (what, damage) in damages {
        repo.write(dir.join("train.py"), "half done\n");
        damage();
        let kept = keep(&repo, &git, &dir);
        assert_eq!(kept.state, TreeState::Relinked, "{what}");
        // Whoever linked it again may have been killed before its files were restored.
        let kept = keep(&repo, &git, &dir);
        assert_eq!(kept.state, TreeState::Relinked, "{what}");
        assert_eq!(repo.read(dir.join("train.py")), "half done\n", "{what}");
        assert_eq!(git_in(&repo, &dir, &["status", "--porcelain"]), " M train.py", "{what}");
        let base = head(&repo);
        let restored = kept.repo.working_tree.restore(&base, &save_as(&base), &Untracked::default()).unwrap();
        assert!(restored.saved.is_some(), "{what}");
        kept.repo.note_restored().unwrap();
        is_sound(&repo, &[&dir]);
        assert_eq!(keep(&repo, &git, &dir).state, TreeState::Found, "{what}");
    }
}

#[test]
fn head_of_a_kept_tree_is_detached_again_and_its_lock_put_back() {
    let repo = repository();
    let git = open(&repo);
    let dir = place(&repo, "t", "seat-0");
    keep(&repo, &git, &dir);
    git_in(&repo, &dir, &["switch", "--quiet", "--create", "idea"]);
    git_in(&repo, &dir, &["commit", "--quiet", "--allow-empty", "--message", "an idea"]);
    let tip = git_in(&repo, &dir, &["rev-parse", "HEAD"]);
    let kept = keep(&repo, &git, &dir);
    assert_eq!(kept.state, TreeState::Found);
    assert_eq!(kept.repo.refs.head().unwrap(), Head::Detached { commit: CommitId::new(tip) });
    git_in(&repo, &dir, &["reset", "--quiet", "--hard", &repo.head()]);
    git_in(&repo, &dir, &["worktree", "unlock", "."]);
    keep(&repo, &git, &dir);
    is_sound(&repo, &[&dir]);
    git_in(&repo, &dir, &["switch", "--quiet", "--orphan", "empty"]);
    assert_eq!(keep(&repo, &git, &dir).repo.refs.head().unwrap(), Head::Detached { commit: head(&repo) });
}

#[test]
fn what_stands_in_the_place_of_a_kept_tree_is_moved_and_not_removed() {
    let repo = repository();
    let git = open(&repo);
    let dir = place(&repo, "t", "slot-0");
    let moved = dir.with_file_name("slot-0.replaced");
    for what in ["a file", "a link", "a repository"] {
        repo.write(dir.parent().unwrap().join("other/file"), "theirs\n");
        match what {
            "a file" => fs::write(&dir, "theirs\n").unwrap(),
            "a link" => std::os::unix::fs::symlink(dir.with_file_name("other"), &dir).unwrap(),
            _ => {
                fs::rename(dir.with_file_name("other"), &dir).unwrap();
                git_in(&repo, &dir, &["init", "--quiet"]);
            }
        }
        let kept = keep(&repo, &git, &dir);
        assert_eq!((kept.state, kept.moved.as_ref()), (TreeState::Made, Some(&moved)), "{what}");
        let theirs = if what == "a file" { moved.clone() } else { moved.join("file") };
        assert_eq!(fs::read_to_string(theirs).unwrap(), "theirs\n", "{what}");
        is_sound(&repo, &[&dir]);
        git.remove_kept(&dir).unwrap();
        match what {
            "a repository" => fs::remove_dir_all(&moved).unwrap(),
            _ => fs::remove_file(&moved).unwrap(),
        }
    }
    // What stands there while it is removed stays, too.
    for what in ["a file", "a repository"] {
        keep(&repo, &git, &dir);
        fs::remove_dir_all(&dir).unwrap();
        match what {
            "a file" => fs::write(&dir, "theirs\n").unwrap(),
            _ => drop(repo.git(["init", "--quiet", dir.to_str().unwrap()])),
        }
        git.remove_kept(&dir).unwrap();
        is_sound(&repo, &[]);
        match what {
            "a file" => fs::remove_file(&dir).unwrap(),
            _ => fs::remove_dir_all(&dir).unwrap(),
        }
    }
}

/// What a crash or a full disk leaves of a working tree `odd`.
const ODD: [&str; 14] = [
    ": > $T/gitdir",
    "head -c 64 /dev/zero > $T/gitdir",
    "rm $T/gitdir",
    "rm $T/gitdir; mkdir $T/gitdir",
    "rm -r $T; mkdir $T",
    "rm -r $T; echo x > $T",
    "git worktree lock $W; : > $T/gitdir",
    "git worktree lock $W; head -c 5000 /dev/zero > $T/gitdir",
    ": > $T/HEAD",
    "head -c 64 /dev/zero > $T/HEAD",
    "rm $T/commondir",
    "echo garbage > $T/commondir",
    "head -c 64 /dev/zero > $T/commondir",
    ": > $T/commondir",
];

/// A repository with a tree of the user's, to which something was done.
fn odd_repository(harm: &str) -> TestRepo {
    let repo = repository();
    repo.git(["worktree", "add", "--quiet", "--detach", repo.outside().join("odd").to_str().unwrap()]);
    git_in(&repo, &repo.outside().join("odd"), &["switch", "--quiet", "--create", "idea"]);
    repo.git(["branch", "other"]);
    let script = format!("T=.git/worktrees/odd; W={}; {harm}", repo.outside().join("odd").display());
    let mut shell = std::process::Command::new("sh");
    repo.environment(&mut shell);
    assert!(shell.current_dir(repo.path()).args(["-ec", &script]).status().unwrap().success(), "{harm}");
    repo
}

/// Whether `git worktree prune` removes an entry for its oddity.
fn is_pruned(entry: &LinkedEntry) -> bool {
    match entry.oddity {
        Some(Oddity::NoFolder) => true,
        Some(Oddity::NoPlace) => !entry.is_locked,
        _ => false,
    }
}

#[test]
fn odd_entries_are_passed_over_and_what_git_prunes_is_known() {
    for harm in ODD {
        let repo = odd_repository(harm);
        let git = open(&repo);
        let entries = git.linked_entries().unwrap();
        let [entry] = &entries[..] else { panic!("{harm}: {entries:?}") };
        assert!(entry.oddity.is_some(), "{harm}");
        let pruned = repo.try_git(["worktree", "prune", "--dry-run", "--verbose"]);
        assert_eq!(is_pruned(entry), !pruned.stderr.is_empty() || !pruned.stdout.is_empty(), "{harm}: {pruned:?}");
        git.linked_worktrees().unwrap();
        git.git_dirs().unwrap();
        git.locks().unwrap();
        assert_eq!(git.refs.checked_out_elsewhere("refs/heads/other").unwrap(), None, "{harm}");
        // Trees are made and removed beside it.
        let dir = place(&repo, "t", "slot-0");
        assert_eq!(keep(&repo, &git, &dir).state, TreeState::Made, "{harm}");
        assert_eq!(keep(&repo, &git, &dir).state, TreeState::Found, "{harm}");
        git.remove_kept(&dir).unwrap();
        let beside = repo.outside().join("beside");
        let made = git.add_worktree(&beside, &HeadTarget::Branch("refs/heads/other".into()));
        made.unwrap_or_else(|error| panic!("{harm}: {error:?}")).remove_linked().unwrap();
        assert!(repo.exists(".git/worktrees/odd") && !beside.exists(), "{harm}");
        assert_eq!(is_pruned(&git.linked_entries().unwrap()[0]), is_pruned(entry), "{harm}");
    }
}

#[test]
fn what_git_keeps_of_a_kept_tree_goes_with_it_however_odd_it_is() {
    for harm in ODD {
        let repo = repository();
        let git = open(&repo);
        let dir = place(&repo, "t", "slot-0");
        for is_missing in [false, true] {
            keep(&repo, &git, &dir);
            let script = format!("T=.git/worktrees/slot-0; W=.; {}", harm.replace("git worktree lock $W;", ""));
            assert!(
                std::process::Command::new("sh")
                    .current_dir(repo.path())
                    .args(["-ec", &script])
                    .status()
                    .unwrap()
                    .success()
            );
            // A folder or file in its place says nothing of the tree.
            let has_lock = repo.exists(".git/worktrees/slot-0/locked");
            if is_missing && has_lock {
                fs::remove_dir_all(&dir).unwrap();
            }
            git.remove_kept(&dir).unwrap();
            is_sound(&repo, &[]);
            assert!(!repo.exists(".git/worktrees/slot-0"), "{harm}, {is_missing}");
        }
        keep(&repo, &git, &dir);
        let script = format!("T=.git/worktrees/slot-0; W=.; {}", harm.replace("git worktree lock $W;", ""));
        std::process::Command::new("sh").current_dir(repo.path()).args(["-ec", &script]).status().unwrap();
        keep(&repo, &git, &dir);
        is_sound(&repo, &[&dir]);
    }
}

#[test]
fn an_emptied_head_is_put_back_where_its_log_says_that_it_was() {
    for (history, expected) in [
        ("true", "ref: refs/heads/main"),
        ("git switch -qc idea; git commit -q --allow-empty -m i", "ref: refs/heads/idea"),
        ("git switch -qc idea; git branch -m better", "ref: refs/heads/better"),
        ("git commit -q --allow-empty -m i; git checkout -q $(git rev-parse HEAD~1)", "HEAD~1"),
        (
            "git commit -q --allow-empty -m i; git switch -qc old HEAD~1; git commit -q --allow-empty -m o; git rebase -q main old",
            "ref: refs/heads/old",
        ),
        // Nothing tells.
        ("git switch -qc idea; git symbolic-ref HEAD refs/heads/other; git commit -q --allow-empty -m i", ""),
        ("git commit -q --allow-empty -m i; git update-ref refs/heads/main HEAD~1; rm .git/logs/HEAD", ""),
    ] {
        let repo = repository();
        repo.git(["branch", "other", "HEAD~1"]);
        let mut shell = std::process::Command::new("sh");
        repo.environment(&mut shell);
        assert!(shell.current_dir(repo.path()).args(["-ec", history]).status().unwrap().success(), "{history}");
        let before = repo.read(".git/HEAD");
        repo.write(".git/HEAD", "");
        let git = open(&repo);
        let torn = git.refs.torn_head().unwrap();
        let found = git.refs.logged_head().unwrap();
        assert_eq!(found.is_some(), !expected.is_empty(), "{history}: {found:?}");
        if let Some(at) = found {
            git.refs.repair_head(&torn, &at).unwrap();
            assert_eq!(repo.read(".git/HEAD"), before, "{history}");
            assert!(before.starts_with(expected) || expected == "HEAD~1", "{history}: {before}");
            assert_eq!(git.refs.torn_head(), None);
        }
    }
}

#[test]
fn an_entry_that_was_only_begun_for_a_tree_goes_with_the_next_one_and_others_stay() {
    let repo = repository();
    let git = open(&repo);
    let dir = place(&repo, "t", "review-5");
    let entries = || -> Vec<String> {
        let all = git.linked_entries().unwrap();
        all.iter().map(|entry| entry.path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    };
    let begin = |name: &str, lock: Option<&str>| {
        let entry = repo.file(".git/worktrees").join(name);
        fs::create_dir_all(&entry).unwrap();
        lock.into_iter().for_each(|lock| fs::write(entry.join("locked"), lock).unwrap());
    };
    // Of another tree, and of one that somebody locked.
    begin("review", Some("initializing\n"));
    begin("review-53", Some("on a stick\n"));
    let others = ["review", "review-53"];
    for left in [None, Some(""), Some("initializing\n")] {
        begin("review-5", left);
        begin("review-51", left);
        let kept = keep(&repo, &git, &dir);
        assert_eq!(kept.state, TreeState::Made, "{left:?}");
        assert_eq!(entries(), ["review", "review-5", "review-53"], "{left:?}");
        begin("review-51", left);
        git.remove_kept(&dir).unwrap();
        assert_eq!(entries(), others, "{left:?}");
    }
}

#[test]
fn trees_of_one_name_are_made_and_removed_by_several_sessions_at_once() {
    let repo = repository();
    let commit = head(&repo);
    let places: Vec<PathBuf> = (0..6).map(|session| place(&repo, &format!("t{session}"), "seat-0")).collect();
    let root = repo.path();
    thread::scope(|scope| {
        for dir in &places {
            let (root, commit) = (&root, &commit);
            scope.spawn(move || {
                let git = Repo::discover(root).unwrap();
                for _ in 0..8 {
                    assert_eq!(git.keep_worktree(dir, commit, REASON).unwrap().state, TreeState::Made);
                    git.remove_kept(dir).unwrap();
                }
                git.keep_worktree(dir, commit, REASON).unwrap();
            });
        }
    });
    is_sound(&repo, &places.iter().map(PathBuf::as_path).collect::<Vec<_>>());
}
