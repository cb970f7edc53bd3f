//! The git folder of a call, with the git program as the agent and as the judge.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use autoresearch::domain::CommitId;
use autoresearch::git::{CallCommits, CallGit, GitProgram, Repo};

use super::{head, open};
use crate::support::TestRepo;

/// How git sees the call's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// By mounts, as an agent does.
    Mounted,
    /// By variables, and the real objects by a link.
    Named,
}

/// Whether mounts can be made here; says so where not.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn has_mounts() -> bool {
    let tried = Command::new("bwrap").args(["--dev-bind", "/", "/", "true"]).stderr(Stdio::null()).status();
    let has = tried.is_ok_and(|status| status.success());
    if !has {
        eprintln!("skipped: no bwrap, or it may not mount");
    }
    has
}

/// The git program, behind a wall where there can be one.
fn git_program() -> GitProgram {
    let builder = has_mounts().then_some(Path::new("bwrap"));
    GitProgram::find(&[], builder).unwrap()
}

/// A call in a working tree of a repository.
struct Call<'a> {
    repo: &'a TestRepo,
    tree: Repo,
    git: CallGit,
    base: CommitId,
    seen: Seen,
}

impl<'a> Call<'a> {
    /// A call in the user's tree, or in a linked one.
    fn begin(repo: &'a TestRepo, is_linked: bool, seen: Seen) -> Call<'a> {
        let main = open(repo);
        main.exclude(&["/.autoresearch"]).unwrap();
        let base = head(repo);
        let seat = repo.file(".autoresearch/t/trees/seat-0");
        let tree = if is_linked { main.keep_worktree(&seat, &base, "kept").unwrap().repo } else { main };
        let git = CallGit::at(repo.file(".autoresearch/t/runs/00001/git"));
        let call = Call { repo, tree, git, base, seen };
        call.make();
        call
    }

    fn make(&self) {
        self.tree.make_call_git(&self.git, &self.base).unwrap();
        if self.seen == Seen::Named {
            fs::remove_dir(self.git.shared()).unwrap();
            symlink(self.repo.file(".git/objects"), self.git.shared()).unwrap();
        }
    }

    fn import(&self) -> CallCommits {
        self.tree.import_call_git(&self.git, &self.base, &git_program()).unwrap()
    }

    fn file(&self, path: &str) -> PathBuf {
        self.tree.worktree().join(path)
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        self.repo.write(self.file(path), content);
    }

    fn in_call(&self, path: impl AsRef<Path>) -> PathBuf {
        self.git.folder().join(path)
    }

    fn try_shell(&self, script: &str) -> Output {
        let (root, tree, folder) = (self.repo.path(), self.tree.worktree(), self.git.folder());
        let mut command = Command::new(if self.seen == Seen::Mounted { "bwrap" } else { "sh" });
        self.repo.environment(&mut command);
        if self.seen == Seen::Named {
            command.env("GIT_DIR", folder).env("GIT_WORK_TREE", tree);
            return command.args(["-ec", script]).current_dir(tree).output().unwrap();
        }
        let mut mount = |kind: &str, from: &Path, to: &Path| {
            command.arg(kind).arg(from).arg(to);
        };
        let place = tree.join(".git");
        mount("--dev-bind", Path::new("/"), Path::new("/"));
        mount("--ro-bind", &root, &root);
        mount("--bind", tree, tree);
        mount("--ro-bind", &root.join(".git"), &root.join(".git"));
        mount("--bind", folder, folder);
        mount("--ro-bind", &root.join(".git/objects"), &self.git.shared());
        let seen_at = match place.is_dir() {
            true => {
                mount("--bind", folder, &place);
                place
            }
            false => {
                mount("--ro-bind", &self.git.link(), &place);
                folder.to_owned()
            }
        };
        for (real, inside) in self.tree.also_shared(&self.git, &seen_at) {
            mount("--ro-bind", &real, &inside);
        }
        command.arg("--chdir").arg(tree).args(["sh", "-ec", script]).output().unwrap()
    }

    /// Runs a script in the call; it must succeed.
    #[track_caller]
    fn shell(&self, script: &str) -> String {
        let output = self.try_shell(script);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && err.is_empty(), "{:?}: {script}: {out}{err}", self.seen);
        out.trim_end().to_owned()
    }

    /// The commit that a revision is in the call.
    #[track_caller]
    fn commit(&self, revision: &str) -> CommitId {
        CommitId::new(self.shell(&format!("git rev-parse --verify --quiet '{revision}'")))
    }
}

/// All calls to try: in both trees, with mounts where those can be made.
fn each_call(repo: impl Fn() -> TestRepo, test: impl Fn(&Call<'_>)) {
    let seen = if has_mounts() { &[Seen::Named, Seen::Mounted][..] } else { &[Seen::Named] };
    for seen in seen {
        for is_linked in [false, true] {
            let repo = repo();
            test(&Call::begin(&repo, is_linked, *seen));
        }
    }
}

/// A repository with history, branches, notes and tags, of which some are packed.
fn repository() -> TestRepo {
    let repo = TestRepo::new();
    repo.git(["tag", "-a", "-m", "one", "v1"]);
    repo.git(["branch", "other"]);
    repo.git(["pack-refs", "--all"]);
    repo.write("src/model.py", "layers = 3\n");
    repo.symlink("train.py", "link");
    repo.commit_all("second");
    repo.git(["tag", "-a", "-m", "two", "v2"]);
    repo.git(["tag", "-a", "-m", "of a tag", "v3", "v2"]);
    repo.git(["branch", "feature/deep"]);
    repo.git(["update-ref", "refs/remotes/origin/main", "HEAD"]);
    repo.git(["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
    repo.git(["notes", "add", "-m", "a note"]);
    open(&repo).refs.write_record("refs/autoresearch/t/00000", &head(&repo), "one\n\n{}\n").unwrap();
    repo
}

/// All of git's own files but objects and indexes, with their content.
fn git_files(repo: &TestRepo) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut files, mut folders) = (BTreeMap::new(), vec![repo.file(".git")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let (path, kind) = entry.map(|entry| (entry.path(), entry.file_type().unwrap())).unwrap();
            if path.ends_with(".git/objects") || path.ends_with("index") {
                continue;
            } else if kind.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.clone(), fs::read(path).unwrap());
            }
        }
    }
    files
}

const REFS: &str = "git for-each-ref --format='%(refname) %(objectname) %(*objectname) %(symref)'";

#[test]
fn git_in_a_call_does_what_it_does_outside() {
    each_call(repository, |call| {
        let repo = call.repo;
        let before = git_files(repo);
        let outside = |args: &[&str]| repo.git(args);
        assert_eq!(call.shell("git status --porcelain --untracked-files=all"), "");
        assert_eq!(call.shell("git rev-parse HEAD; git rev-parse --abbrev-ref HEAD"), format!("{}\nHEAD", call.base));
        let listed = outside(&["for-each-ref", "--format=%(refname) %(objectname) %(*objectname) %(symref)"]);
        assert_eq!(call.shell(REFS), listed.trim_end());
        assert_eq!(
            call.shell("git log --all --format='%H %s' --notes"),
            outside(&["log", "--all", "--format=%H %s", "--notes"])
        );
        assert_eq!(call.shell("git ls-files --stage"), outside(&["ls-files", "--stage"]));
        assert_eq!(call.shell("git diff HEAD~1 --stat"), outside(&["diff", "HEAD~1", "--stat"]));
        assert_eq!(call.shell("git rev-parse --show-toplevel"), call.tree.worktree().to_str().unwrap());

        call.write("train.py", "print('val_bpb: 0.9')\n");
        assert_eq!(call.shell("git status --porcelain"), " M train.py");
        call.shell("git add train.py; git commit --quiet -m first; git commit --quiet --amend -m 'first, amended'");
        let first = call.commit("HEAD");
        assert_eq!(call.commit("HEAD~1"), call.base);
        assert_eq!(call.commit("HEAD@{2}"), call.base, "before both");
        call.write("train.py", "print('val_bpb: 0.8')\n");
        call.shell("git commit --quiet --all -m second");
        let reset = call.commit("HEAD");
        call.shell("git reset --quiet --hard HEAD~1");
        assert_eq!((call.commit("HEAD"), call.commit("ORIG_HEAD")), (first.clone(), reset.clone()));
        call.write("src/model.py", "layers = 4\n");
        call.shell("git stash --quiet");
        assert_eq!(call.shell("git status --porcelain; git stash list | wc -l"), "1");
        call.shell("git stash pop --quiet");
        assert_eq!(call.shell("git diff --name-only"), "src/model.py");
        call.shell(
            "git checkout --quiet -b idea; git commit --quiet --all -m 'on a branch'; git tag mine; git branch more",
        );
        call.shell(
            "git switch --quiet --detach more~1; echo new > new.py; git add new.py; git commit --quiet -m beside",
        );
        call.shell("git merge --quiet --no-edit idea; git log --oneline | head -1 | grep -q Merge");
        call.shell("git reset --quiet --hard HEAD~1; git rebase --quiet idea");
        assert_eq!(call.shell("git log --format=%s | head -3"), "beside\non a branch\nfirst, amended");
        assert_eq!(call.shell("git status --porcelain"), "");
        assert_eq!(call.shell("git fsck --full --strict --no-dangling"), "");
        let tip = call.commit("HEAD");
        let tree = call.commit("HEAD^{tree}");
        let diff = call.shell("git diff --stat v2 HEAD");

        let commits = call.import();
        assert_eq!(commits.tip, tip);
        assert!(commits.logged.contains(&reset) && commits.logged.contains(&first), "{commits:?}");
        assert_eq!(git_files(repo), before);
        assert_eq!(outside(&["fsck", "--full", "--strict", "--no-dangling"]), "");
        assert_eq!(outside(&["rev-parse", &format!("{tip}^{{tree}}")]), tree.to_string());
        assert_eq!(outside(&["diff", "--stat", call.base.as_str(), tip.as_str()]), diff);
        let staged = repo.try_git_in(call.tree.worktree(), ["diff", "--cached", "--quiet", tip.as_str()]);
        assert!(staged.status.success(), "the index has what was committed");
        let files = repo.try_git_in(call.tree.worktree(), ["diff", "--quiet"]);
        assert!(files.status.success(), "it fits the files");
    });
}

#[test]
fn head_of_one_commit_ago_and_the_branch_before_are_known() {
    let repo = repository();
    let call = Call::begin(&repo, false, Seen::Named);
    call.shell("echo >> train.py; git commit --quiet --all -m one");
    assert_eq!(call.commit("HEAD@{1}"), call.base);
    assert_eq!(call.commit("@{-1}"), call.base);
    call.shell("git switch --quiet -");
    assert_eq!(call.shell("git symbolic-ref --short HEAD"), "main");
    let commits = call.import();
    assert_eq!((&commits.tip, commits.logged.len()), (&call.base, 1));

    call.make();
    assert_eq!(call.shell("git reflog | wc -l"), "1", "it is a new one");
    assert_eq!(call.import(), CallCommits { tip: call.base.clone(), logged: Vec::new(), lost: 0 });
}

/// Text that git stores as differences once it is packed.
fn similar(version: u32) -> String {
    (0..2000).map(|line| format!("line {line} {}\n", if line == version { "changed" } else { "as it was" })).collect()
}

/// Bytes that do not compress.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

#[test]
fn what_git_packed_in_a_call_is_taken_over() {
    // The commits of tests are old, and so is what the log says of them.
    let gc = "git -c gc.reflogExpire=never -c gc.reflogExpireUnreachable=never gc --quiet";
    let packs = ["true", gc, "git repack -q -adl", "git repack -q -ad --depth=50", "git repack -q -adf"];
    for pack in packs {
        let repo = repository();
        let call = Call::begin(&repo, false, Seen::Named);
        for version in 0..12 {
            call.write("data.txt", similar(version));
            call.write(&format!("deep/{version}/file"), format!("{version}\n"));
            call.shell(&format!("git add --all; git commit --quiet -m {version}"));
        }
        call.write("checkpoint.bin", noise(3 << 20));
        call.shell("git add --all; git commit --quiet -m checkpoint");
        call.shell(pack);
        if pack != "true" {
            let chains = call.shell("git verify-pack -v \"$GIT_DIR\"/objects/pack/*.idx | grep -c 'chain length'");
            assert_ne!(chains, "0", "{pack}: differences");
        }
        let commits = call.import();
        assert_eq!(commits.tip, call.commit("HEAD"), "{pack}");
        assert_eq!(commits.logged.len(), 13, "{pack}");
        fs::remove_dir_all(call.git.folder()).unwrap();
        assert_eq!(repo.git(["fsck", "--full", "--strict", "--no-dangling"]), "");
        assert_eq!(repo.git(["rev-list", "--count", &format!("{}..{}", call.base, commits.tip)]), "13");
        assert_eq!(repo.git(["show", &format!("{}:data.txt", commits.tip)]), similar(11).trim_end());
    }
}

#[test]
fn of_files_with_changed_bytes_only_what_is_sound_is_taken_over() {
    let repo = repository();
    let call = Call::begin(&repo, false, Seen::Named);
    for version in 0..6 {
        call.write("data.txt", similar(version));
        call.shell(&format!("git add --all; git commit --quiet -m {version}"));
    }
    let tip = call.commit("HEAD");
    call.shell("git repack -q -adf");
    let pack = fs::read_dir(call.in_call("objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    let pack = pack.filter(|path| path.extension().is_some_and(|end| end == "pack" || end == "idx"));
    let files: Vec<PathBuf> = pack.collect();
    let git = git_program();
    repo.git(["gc", "--quiet", "--prune=now"]);
    let forget = || {
        for entry in fs::read_dir(repo.file(".git/objects")).unwrap().map(Result::unwrap) {
            if entry.file_name().len() == 2 {
                fs::remove_dir_all(entry.path()).unwrap();
            }
        }
    };
    let mut taken = 0;
    let random = noise(400);
    for (round, random) in random.chunks(20).enumerate() {
        for file in &files {
            let sound = fs::read(file).unwrap();
            let mut changed = sound.clone();
            for bytes in random.chunks(4) {
                let at = usize::from(bytes[0]) << 8 | usize::from(bytes[1]);
                // Half of them near the start, where sizes and offsets are.
                let at = if round % 2 == 0 { at % 1200 } else { at } % changed.len();
                changed[at] ^= bytes[2].max(1);
            }
            if round % 5 == 0 {
                changed.truncate(changed.len() * usize::from(random[3]) / 255);
            }
            fs::remove_file(file).unwrap();
            fs::write(file, &changed).unwrap();
            let commits = open(&repo).import_call_git(&call.git, &call.base, &git).unwrap();
            let is_known = [&call.base, &tip].contains(&&commits.tip) || commits.logged.contains(&commits.tip);
            assert!(is_known, "{round}: {commits:?}");
            taken += commits.logged.len();
            fs::write(file, sound).unwrap();
            forget();
        }
    }
    assert!(0 < taken && taken < 20 * 2 * 6, "{taken}");
    assert_eq!(open(&repo).import_call_git(&call.git, &call.base, &git).unwrap().tip, tip);
    assert_eq!(repo.git(["fsck", "--full", "--strict", "--no-dangling"]), "");
}

#[test]
fn at_most_a_hundred_commits_are_named_the_last_ones() {
    let repo = repository();
    let call = Call::begin(&repo, false, Seen::Named);
    call.shell("for n in $(seq 120); do git commit --quiet --allow-empty -m $n; done; git reset --quiet --hard v2");
    let commits = call.import();
    assert_eq!((&commits.tip, commits.logged.len()), (&call.base, 100));
    assert_eq!(repo.git(["log", "-1", "--format=%s", commits.logged[99].as_str()]), "120");
}

/// What an agent does to its folder, so that nothing is taken over; `$blob` is the file of an object of its commit.
const HARMS: [&str; 29] = [
    "echo garbage > HEAD",
    ": > HEAD",
    "rm HEAD",
    "rm HEAD; mkfifo HEAD",
    "rm HEAD; mkdir HEAD",
    "rm HEAD; truncate -s 1T HEAD",
    "rm HEAD; ln -s /etc/passwd HEAD",
    "rm HEAD; echo $tip > ../head; ln -s ../head HEAD",
    "echo 'ref: refs/heads/loop' > HEAD; cp HEAD refs/heads/loop",
    "echo 'ref: ../../HEAD' > HEAD",
    "echo 'ref: refs/heads/../../head' > HEAD; echo $tip > ../head",
    "echo 'ref: refs/heads/linked' > HEAD; echo $tip > ../head; ln -s ../../../head refs/heads/linked",
    "echo 'ref: refs/heads/fifo' > HEAD; mkfifo refs/heads/fifo",
    "echo 'ref: refs/heads/unborn' > HEAD; rm packed-refs; mkfifo packed-refs",
    "echo $(git rev-parse HEAD^{tree}) > HEAD",
    "echo 0000000000000000000000000000000000000000 > HEAD",
    "mv objects ../elsewhere; ln -s ../elsewhere objects",
    "folder=$(dirname $blob); mv $folder ../elsewhere; ln -s ../../elsewhere $folder",
    "mv $blob ../elsewhere; ln -s ../../../elsewhere $blob",
    "rm -f $blob; mkfifo $blob",
    "rm -f $blob",
    "rm -f $blob; echo garbage > $blob",
    "chmod +w $blob; truncate -s 5 $blob",
    "echo more > more; other=$(git hash-object -w more); rm -f $blob; cp objects/$(echo $other | cut -c -2)/$(echo $other | cut -c 3-) $blob",
    "mkdir -p ../other/objects; mv objects/?? ../other/objects; echo $PWD/../other/objects >> objects/info/alternates",
    "git repack -q -adl; chmod +w objects/pack/*.idx; for idx in objects/pack/*.idx; do printf '\\377tOc\\0\\0\\0\\2' > $idx; yes | head -c 100000 >> $idx; done",
    "git repack -q -adl; chmod +w objects/pack/*.pack; for pack in objects/pack/*.pack; do truncate -s 20 $pack; done",
    "git repack -q -adl; for pack in objects/pack/*.pack; do rm -f $pack; mkfifo $pack; done",
    "git repack -q -adl; for idx in objects/pack/*.idx; do rm -f $idx; ln -s /dev/zero $idx; done",
];

#[test]
fn nothing_of_a_damaged_folder_is_taken_over_and_nothing_is_waited_for() {
    for harm in HARMS {
        let repo = repository();
        let call = Call::begin(&repo, false, Seen::Named);
        let index = fs::read(repo.file(".git/index")).unwrap();
        let before = git_files(&repo);
        call.write("train.py", "print('val_bpb: 0.9')\n");
        call.shell("git commit --quiet --all -m one");
        let tip = call.commit("HEAD");
        let blob = call.commit("HEAD:train.py").to_string();
        let blob = format!("objects/{}/{}", &blob[..2], &blob[2..]);
        let folder = call.git.folder().display().to_string();
        // It is not in the log either.
        call.shell(&format!("cd {folder}; : > logs/HEAD; rm index; tip={tip}; blob={blob}; {harm}"));
        let commits = call.import();
        assert_eq!((commits.tip, commits.logged), (call.base.clone(), Vec::new()), "{harm}");
        assert!(!repo.try_git(["cat-file", "-e", tip.as_str()]).status.success(), "{harm}");
        assert_eq!(git_files(&repo), before, "{harm}");
        assert_eq!(fs::read(repo.file(".git/index")).unwrap(), index, "{harm}");
        assert_eq!(repo.git(["fsck", "--full", "--strict", "--no-dangling"]), "", "{harm}");
        // The next call has a folder that is whole.
        call.make();
        assert_eq!(
            call.shell("git reset --quiet --hard; git status --porcelain; git fsck --no-dangling"),
            "",
            "{harm}"
        );
    }
}

#[test]
fn what_is_only_staged_stays_in_the_call_and_its_files_in_the_tree() {
    let repo = repository();
    let call = Call::begin(&repo, false, Seen::Named);
    let index = fs::read(repo.file(".git/index")).unwrap();
    call.write("new.py", noise(2 << 20));
    call.shell("git add new.py; git rm --quiet --cached README.md; git update-index --assume-unchanged src/model.py");
    call.shell("echo hidden >> src/model.py");
    assert_eq!(call.import(), CallCommits { tip: call.base.clone(), logged: Vec::new(), lost: 0 });
    assert_eq!(fs::read(repo.file(".git/index")).unwrap(), index);
    assert_eq!(repo.git(["status", "--porcelain", "--untracked-files=all"]), " M src/model.py\n?? new.py");
}

#[test]
fn a_change_in_the_second_in_which_the_index_was_written_is_seen_after_a_commit() {
    let repo = repository();
    repo.git(["config", "core.trustctime", "false"]);
    let call = Call::begin(&repo, false, Seen::Named);
    let same_second = |file: &str| call.shell(&format!("touch -d @1700000000 {file}"));
    same_second("train.py");
    repo.git(["update-index", "--refresh"]);
    same_second(".git/index");
    let changed: String = repo.read("train.py").chars().rev().collect();
    repo.write("train.py", changed);
    same_second("train.py");
    call.shell("echo new > new.py; git add new.py; git commit --quiet -m one -- new.py");
    call.import();
    assert_eq!(repo.git(["diff", "--name-only"]), "train.py");
}

/// What an agent puts into its folder so that git, reading it, starts a program or reads elsewhere.
const TRAPS: [&str; 8] = [
    "for key in uploadpack.packObjectsHook core.fsmonitor core.alternateRefsCommand core.sshCommand core.pager \
     core.gitProxy gc.auto; do git config $key $trap; done",
    "git config include.path $PWD/more; printf '[uploadpack]\\n\\tpackObjectsHook = %s\\n' $trap > more",
    "git config core.repositoryFormatVersion 1; git config extensions.partialClone evil; \
     git config remote.evil.promisor true; git config remote.evil.url \"ext::$trap\"; \
     git config remote.evil.uploadpack $trap; git config protocol.ext.allow always",
    "git config extensions.worktreeConfig true; git config --worktree uploadpack.packObjectsHook $trap",
    "mkdir -p hooks; for hook in post-upload-pack pre-auto-gc reference-transaction post-index-change; do \
     cp $trap hooks/$hook; done",
    "printf '[core]\\n\\thooksPath = %s\\n' $PWD/hooks >> config; cp $trap hooks/reference-transaction",
    "rm config; mkdir config",
    "rm config; mkfifo config",
];

#[test]
fn no_setting_and_no_hook_of_a_call_is_run_and_its_commits_are_taken_over() {
    for trap in TRAPS {
        let repo = repository();
        let call = Call::begin(&repo, false, Seen::Named);
        let (ran, program) = (repo.outside().join("ran"), repo.outside().join("trap"));
        repo.write(&program, format!("#!/bin/sh\ntouch {}\n", ran.display()));
        repo.chmod(&program, true);
        call.write("train.py", "print('val_bpb: 0.9')\n");
        call.shell("git commit --quiet --all -m one");
        let tip = call.commit("HEAD");
        call.shell(&format!("cd {}; trap={}; {trap}", call.git.folder().display(), program.display()));
        let _ = fs::remove_file(&ran);
        assert_eq!(call.import(), CallCommits { tip: tip.clone(), logged: vec![tip], lost: 0 }, "{trap}");
        assert!(!ran.exists(), "{trap}");
        assert_eq!(repo.git(["fsck", "--full", "--strict", "--no-dangling"]), "", "{trap}");
    }
}

#[test]
fn hooks_and_settings_of_the_repository_start_nothing_either() {
    let repo = repository();
    let call = Call::begin(&repo, false, Seen::Named);
    call.shell("git commit --quiet --allow-empty -m one");
    let tip = call.commit("HEAD");
    let trap = repo.outside().join("trap");
    repo.write(&trap, "#!/bin/sh\nexit 1\n");
    repo.chmod(&trap, true);
    repo.git(["config", "core.alternateRefsCommand", trap.to_str().unwrap()]);
    repo.git(["config", "core.hooksPath", repo.outside().to_str().unwrap()]);
    repo.write(repo.outside().join("reference-transaction"), "#!/bin/sh\nexit 1\n");
    repo.chmod(repo.outside().join("reference-transaction"), true);
    assert_eq!(call.import().tip, tip);
}

#[test]
fn of_a_history_with_a_hole_the_nearest_whole_commit_is_taken_over() {
    let repo = repository();
    let call = Call::begin(&repo, false, Seen::Named);
    call.shell(
        "echo 1 > train.py; git commit --quiet --all -m one; echo 2 > train.py; git commit --quiet --all -m two",
    );
    call.shell("echo 3 > README.md; git commit --quiet --all -m three");
    let (whole, lost) = (call.commit("HEAD~2"), call.commit("HEAD:train.py").to_string());
    fs::remove_file(call.in_call(format!("objects/{}/{}", &lost[..2], &lost[2..]))).unwrap();
    let commits = call.import();
    assert_eq!(commits, CallCommits { tip: whole.clone(), logged: vec![whole], lost: 2 });
    assert_eq!(repo.git(["fsck", "--full", "--strict", "--no-dangling"]), "");
}

#[test]
fn commits_are_taken_over_while_git_prunes_where_they_are_fetched() {
    if !has_mounts() {
        return;
    }
    let repo = repository();
    let call = Call::begin(&repo, false, Seen::Named);
    call.shell("echo 1 > train.py; git commit --quiet --all -m one");
    let (builder, pruned) = (repo.outside().join("builder"), repo.outside().join("pruned"));
    let prune = format!("git -C {} prune --expire=now; : > {}", repo.path().display(), pruned.display());
    let once = format!("case \"$*\" in *upload-pack*) [ -e {} ] || {{ {prune}; }};; esac", pruned.display());
    repo.write(&builder, format!("#!/bin/sh\n{once}\nexec bwrap \"$@\"\n"));
    repo.chmod(&builder, true);
    let git = GitProgram::find(&[], Some(&builder)).unwrap();
    let commits = call.tree.import_call_git(&call.git, &call.base, &git).unwrap();
    assert!(pruned.exists());
    assert_eq!((commits.tip, commits.lost), (call.commit("HEAD"), 0));
}

#[test]
fn folders_that_git_would_not_check_out_are_not_taken_over() {
    let repo = repository();
    for name in [".git", "..", ".GIT", "a/b", ""] {
        let call = Call::begin(&repo, false, Seen::Named);
        let blob = call.commit("HEAD:train.py");
        let mut tree = format!("100644 {name}\0").into_bytes();
        tree.extend((0..40).step_by(2).map(|at| u8::from_str_radix(&blob.as_str()[at..at + 2], 16).unwrap()));
        fs::write(call.in_call("raw"), tree).unwrap();
        let make =
            "tree=$(git hash-object -t tree -w --literally --stdin < $GIT_DIR/raw); echo tree $tree > $GIT_DIR/raw";
        call.shell(&format!("{make}; echo parent $(git rev-parse HEAD) >> $GIT_DIR/raw; git cat-file commit HEAD | sed 1,2d >> $GIT_DIR/raw"));
        call.shell("git hash-object -t commit -w --literally --stdin < $GIT_DIR/raw > $GIT_DIR/new; mv $GIT_DIR/new $GIT_DIR/HEAD");
        assert_eq!(call.import().tip, call.base, "{name:?}");
    }
}

#[test]
fn a_link_in_the_place_of_the_folder_is_neither_followed_nor_kept() {
    let repo = repository();
    let call = Call::begin(&repo, false, Seen::Named);
    call.shell("git commit --quiet --allow-empty -m one");
    let moved = repo.outside().join("moved");
    fs::rename(call.git.folder(), &moved).unwrap();
    symlink(&moved, call.git.folder()).unwrap();
    assert_eq!(call.import(), CallCommits { tip: call.base.clone(), logged: Vec::new(), lost: 0 });
    call.make();
    assert!(moved.join("HEAD").exists() && !call.git.folder().is_symlink());
    fs::remove_dir_all(call.git.folder()).unwrap();
    assert_eq!(call.import(), CallCommits { tip: call.base.clone(), logged: Vec::new(), lost: 0 });
}

#[test]
fn configuration_and_hooks_mean_in_a_call_what_they_mean_outside() {
    let with_settings = || {
        let repo = repository();
        repo.write(".gitshared", "[ar]\n\toutside = yes\n");
        repo.write(".git/more/config.inc", "[ar]\n\tinside = yes\n[include]\n\tpath = deeper\n");
        repo.write(".git/more/deeper", "[ar]\n\tdeeper = yes\n");
        repo.write(
            ".git/config",
            repo.read(".git/config")
                + "[core]\n\tWorkTree = ../\n[Include]\n\tpath = ../.gitshared\n\tpath = \"more/config.inc\"\n\
                   \tpath = missing\n[ar]\n\tlast = yes ; a comment\n",
        );
        for (hook, text) in [("pre-commit", "echo ran >> \"$(git rev-parse --git-dir)/ran\""), ("x.sample", "exit 1")] {
            repo.write(format!(".git/hooks/{hook}"), format!("#!/bin/sh\n{text}\n"));
            repo.chmod(format!(".git/hooks/{hook}"), true);
        }
        repo.write(".gitignore", "*.seen\n.gitshared\n");
        repo.write(".git/info/attributes", "*.py marked\n");
        repo.commit_all("ignored");
        fs::create_dir_all(repo.file(".git/lfs/objects")).unwrap();
        repo.write(".git/lfs/objects/large", "large\n");
        repo
    };
    each_call(with_settings, |call| {
        for key in ["outside", "inside", "deeper", "last"] {
            assert_eq!(call.shell(&format!("git config ar.{key}")), "yes", "{key}");
        }
        assert_eq!(call.shell("git config core.bare; git config core.worktree || true"), "false");
        assert_eq!(call.shell("git check-attr marked train.py"), "train.py: marked: set");
        assert_eq!(call.shell("git check-ignore .autoresearch/x"), ".autoresearch/x", "info/exclude");
        let ran = fs::read_to_string(call.repo.file(".git/ran")).unwrap();
        call.shell("git commit --quiet --allow-empty -m one; git commit --quiet --allow-empty --no-verify -m two");
        assert_eq!(fs::read_to_string(call.in_call("ran")).unwrap(), "ran\n");
        assert_eq!(fs::read_to_string(call.repo.file(".git/ran")).unwrap(), ran);
        assert!(!call.in_call("hooks/x.sample").exists());
        if call.seen == Seen::Mounted {
            let lfs = call.git.shared().with_file_name("lfs/objects/large");
            assert_eq!(call.shell(&format!("cat {}", lfs.display())), "large");
            assert!(!call.try_shell(&format!("touch {}/x", call.git.shared().display())).status.success());
        }
        // What a call sets is its own.
        let before = git_files(call.repo);
        call.shell(
            "git config filter.x.clean false; git config core.hooksPath /tmp; git replace HEAD HEAD~1; git tag x",
        );
        call.shell("echo '* filter=x' > \"$(git rev-parse --git-dir)/info/attributes\"");
        call.import();
        assert_eq!(git_files(call.repo), before);
    });
}

#[test]
fn settings_of_one_tree_a_split_index_and_objects_elsewhere_are_in_the_call() {
    let origin = repository();
    let repo = TestRepo::empty();
    fs::remove_dir_all(repo.path()).unwrap();
    let (from, to) = (origin.path(), repo.path());
    origin.git(["clone", "--quiet", "--shared", from.to_str().unwrap(), to.to_str().unwrap()]);
    // Relative to the folder of objects.
    let up = "../".repeat(repo.file(".git/objects").components().count() - 1);
    repo.write(
        ".git/objects/info/alternates",
        format!("# of the origin\n{up}{}\n", from.strip_prefix("/").unwrap().join(".git/objects").display()),
    );
    for (key, value) in [("user.name", "Test"), ("user.email", "test@example.com"), ("gc.auto", "0")] {
        repo.git(["config", key, value]);
    }
    repo.git(["config", "extensions.worktreeConfig", "true"]);
    repo.git(["config", "core.splitIndex", "true"]);
    repo.git(["config", "--worktree", "ar.own", "yes"]);
    repo.git(["update-index", "--split-index"]);
    let call = Call::begin(&repo, false, Seen::Named);
    assert_eq!(call.shell("git config ar.own"), "yes");
    // Git looks for a relative one beside the place at which it sees the real ones, too.
    let quiet = |script: &str| String::from_utf8(call.try_shell(script).stdout).unwrap();
    assert_eq!(quiet("git status --porcelain --untracked-files=no"), "");
    assert_eq!(quiet("git ls-files"), repo.git(["ls-files"]) + "\n");
    call.write("train.py", "print('val_bpb: 0.9')\n");
    quiet("git commit --quiet --all -m one");
    let commits = call.import();
    assert_eq!(commits.logged, std::slice::from_ref(&commits.tip));
    assert_eq!(repo.git(["fsck", "--full", "--no-dangling"]), "");
    assert_eq!(repo.git(["rev-parse", "HEAD"]), call.base.to_string());
    assert_eq!(repo.git(["diff", "--cached", "--name-only"]), "train.py");
}

#[test]
fn refs_that_name_nothing_are_left_out() {
    let repo = repository();
    repo.write(".git/refs/heads/torn", "");
    repo.write(".git/refs/heads/lost", format!("{}\n", "1".repeat(40)));
    File::create(repo.file(".git/refs/heads/other.lock")).unwrap().write_all(b"x").unwrap();
    let call = Call::begin(&repo, false, Seen::Named);
    assert_eq!(call.shell("git branch --list other main --format='%(refname:short)'"), "main\nother");
    call.shell("git commit --quiet --allow-empty -m one");
    assert_eq!(call.import().logged.len(), 1);
}
