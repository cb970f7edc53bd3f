//! Walls: what the kernel keeps agents and runs from writing, and what works behind one as without it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::{AR, Called, SIGNS, TestRepo, ar, ar_command, ar_in_time, path_without_agents};

/// A repository with an evaluator of its own, a metric file, data and a helper in another folder.
fn repo() -> Option<TestRepo> {
    let repo = TestRepo::new().with_walls()?;
    repo.write("eval.sh", "sh src/train.sh\nsh lib/score.sh > out.json\ncat out.json\n");
    repo.write("lib/score.sh", "printf '{\"val\": %s}\\n' $(cat src/value)\n");
    repo.write("src/value", "3.0\n");
    repo.write("src/train.sh", "true\n");
    repo.write(".gitignore", "out.json\ndata/\n*.log\n");
    repo.commit_all("an evaluator");
    Some(repo)
}

/// The layouts that each attack is tried in.
const LAYOUTS: [&[&str]; 2] = [&[], &["--slots", "4"]];

/// The arguments for a session in which the agent, in each experiment, does what a line says, and then sets the value. A line
/// that begins with `run:` is what the training does.
fn arguments(repo: &TestRepo, attacks: &[&str], layout: &[&str]) -> Vec<String> {
    let mut agent = String::from("cat > /dev/null; case $AR_EXPERIMENT in\n");
    for (number, attack) in (1..).zip(attacks) {
        let attack = match attack.strip_prefix("run:") {
            Some(run) => format!("cat > src/train.sh <<'END'\n{run}\nEND\n"),
            None => format!("( {attack} ) 2>&1"),
        };
        agent += &format!("{number}) {attack}\necho {} > src/value;;\n", 3.0 + f64::from(number) / 100.0);
    }
    repo.write("../agent.sh", agent + "esac\necho number $AR_EXPERIMENT\n");
    let agent = format!("sh {}", repo.outside().join("agent.sh").display());
    let count = attacks.len().to_string();
    let terms =
        "run --yes --tag t --metric val --lower --metric-file out.json:/val --scope src/** --protect lib --grace 200ms";
    let more = ["--cmd", "sh eval.sh", "--max-experiments", &count, "--agent", &agent];
    terms.split(' ').chain(more).chain(layout.iter().copied()).map(str::to_owned).collect()
}

/// Runs such a session.
fn session(repo: &TestRepo, attacks: &[&str], layout: &[&str]) -> Called {
    ar_in_time(repo, arguments(repo, attacks, layout))
}

fn record(repo: &TestRepo, id: usize) -> Value {
    let reference = format!("refs/autoresearch/t/{id:05}");
    serde_json::from_str(&repo.git(["for-each-ref", "--format=%(contents:body)", &reference])).unwrap()
}

/// Runs a session of these attacks in each layout: each experiment must have its own number, and nothing else may have
/// changed.
#[track_caller]
fn assert_kept_out(attacks: &[&str]) {
    for layout in LAYOUTS {
        let Some(repo) = repo() else { return };
        let head = repo.head();
        let called = session(&repo, attacks, layout).ok();
        for (number, attack) in (1..).zip(attacks) {
            let record = record(&repo, number);
            let expected = 3.0 + f64::from(u32::try_from(number).unwrap()) / 100.0;
            assert_eq!(record["metric"]["value"], expected, "{layout:?} {attack}: {record:#}\n{called:#?}");
            assert_eq!(record["sandbox"], "bwrap", "{attack}");
        }
        assert_eq!(record(&repo, 0)["metric"]["value"], 3.0, "{layout:?}");
        assert_eq!(repo.git(["rev-parse", "main"]).trim(), head.trim(), "{layout:?}");
        let branches = repo.git(["for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags", "refs/replace"]);
        assert_eq!(branches, "refs/heads/autoresearch/t\nrefs/heads/main", "{layout:?}");
        let rows = repo.read("results.tsv").lines().count();
        let records = repo.git(["for-each-ref", "--format=%(refname)", "refs/autoresearch/t/0*"]).lines().count();
        assert_eq!(rows, records + 1, "{layout:?}");
        assert_eq!(ar(&repo, ["tell", "--list", "--format", "json"]).ok().stdout.matches("lowest").count(), 0);
        assert!(repo.git(["fsck", "--strict", "--no-dangling"]).is_empty());
        ar(&repo, ["doctor", "t"]).ok();
    }
}

/// Finds the trees of all slots, the user's too, from wherever a job works.
const TREES: &str = "S=${AR_STATE_DIR%/.autoresearch/*}; for T in $S $S/.autoresearch/t/trees/*; do \
    [ \"$T\" != \"$PWD\" ] || continue; ";

#[test]
fn no_job_writes_where_another_one_is_measured() {
    let forged = r#"echo '{"val": 0.001}'"#;
    assert_kept_out(&[
        &format!("{TREES} {forged} > $T/out.json; done"),
        &format!("{TREES} {forged} > $T/lib/score.sh; mv $T/lib $T/lib2; done"),
        &format!("run:{TREES} {forged} > $T/out.json; echo 0.001 > $T/src/value; done"),
        &format!("run:{forged} > lib/score.sh; mv lib lib2; mkdir lib; {forged} > lib/score.sh"),
        &format!("{forged} > eval.sh; rm eval.sh; mv lib lib2"),
        &format!("{forged} >> $AR_STATE_DIR/../runs/00000/run.log; rm -rf $AR_STATE_DIR"),
        &format!(
            "run:cd $AR_RUN_DIR; {forged} > exit.json; rm -f lock job.json; cp job.json started.json; cd ..; mv 00007 x"
        ),
        "cd /; D=$(dirname ${AR_STATE_DIR%/.autoresearch/*}); mv $D $D.moved && cp -a $D.moved $D && echo true > $D/repo/eval.sh",
        "umount lib/score.sh; unshare -Urm umount -l lib/score.sh; nsenter -t $PPID -m true; \
         cd /proc/$PPID/root$PWD && echo true > eval.sh",
        "for P in /proc/[0-9]*; do [ -e $P/root/$PWD/lib ] && echo true > $P/root/$PWD/lib/score.sh; done",
    ]);
}

/// Sends a folder of its mount namespace to another call, and ends.
const SENDS: &str = "import array, os, socket, time
c = socket.socket(socket.AF_UNIX)
for _ in range(200):
    try: c.connect(os.environ['AWAY'] + '/s'); break
    except OSError: time.sleep(.05)
root = os.open('/', os.O_RDONLY | os.O_DIRECTORY)
c.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [root]).tobytes())])
";

/// Receives it, and writes through it once its sender's call is over.
const RECEIVES: &str = "import array, os, socket, sys, time
s = socket.socket(socket.AF_UNIX); s.bind(os.environ['AWAY'] + '/s'); s.listen(1); s.settimeout(20)
_, found, _, _ = s.accept()[0].recvmsg(16, socket.CMSG_SPACE(4))
root = array.array('i', found[0][2])[0]
end = time.time() + 2
while time.time() < end:
    for path in sys.argv[1:]:
        try: os.write(os.open(path.lstrip('/'), os.O_WRONLY | os.O_APPEND, dir_fd=root), b'taken'); print('TAKEN', path)
        except OSError: pass
    time.sleep(.05)
";

#[test]
fn a_folder_that_one_job_hands_to_another_keeps_its_mounts() {
    let Some(repo) = repo() else { return };
    repo.write("../sends.py", SENDS);
    repo.write("../receives.py", RECEIVES);
    let away = repo.outside().display();
    let receives = format!(
        "AWAY={away} python3 {away}/receives.py {away}/repo/eval.sh {away}/repo/.git/config {away}/repo/.autoresearch/t/state/contract.json"
    );
    let sends = format!("AWAY={away} python3 {away}/sends.py");
    session(&repo, &[&receives, &sends], &["--slots", "2"]).ok();
    let log = repo.read(".autoresearch/t/runs/00001/agent.log");
    assert!(!log.contains("TAKEN") && !log.contains("Error"), "{log}");
}

#[test]
fn an_agent_that_its_wall_stops_made_a_refused_proposal_or_what_it_left_beside_it() {
    for layout in LAYOUTS {
        let Some(repo) = repo() else { return };
        let arguments = arguments(&repo, &["true"; 4], &[layout, &["--outage-limit", "300ms"]].concat());
        let stopped = [
            "echo true > eval.sh || exit 1",
            "mv lib lib2 || exit 1",
            "echo 3.5 > src/value; echo true > $PWD/lib/score.sh || exit 1",
            "echo 3.4 > src/value",
        ];
        let cases = (1..).zip(stopped).map(|(number, does)| format!("{number}) {does};;\n"));
        repo.write(
            "../agent.sh",
            format!("cat > /dev/null; case $AR_EXPERIMENT in\n{}esac\n", cases.collect::<String>()),
        );
        let called = ar_in_time(&repo, arguments).ok();
        for (number, excerpt) in [(1, "eval.sh is protected"), (2, "lib is protected")] {
            let failure = &record(&repo, number)["failure"];
            assert_eq!((&failure["class"], &failure["excerpt"]), (&"protected".into(), &excerpt.into()), "{called:#?}");
        }
        assert_eq!([3, 4].map(|number| record(&repo, number)["metric"]["value"].clone()), [3.5, 3.4], "{called:#?}");
        assert!(!called.stdout.contains("waiting"), "{called:#?}");
    }
}

#[test]
fn what_a_call_does_to_git_ends_with_it() {
    assert_kept_out(&[
        "git config filter.evil.clean 'echo 0.001'; git config filter.evil.smudge 'echo 0.001'; \
         git config core.attributesFile ../attributes; echo '* filter=evil' > ../attributes",
        "git config --file $HOME/.gitconfig filter.evil.smudge 'echo 0.001'; mkdir -p $HOME/.config/git; \
         echo '* filter=evil' > $HOME/.config/git/attributes",
        "G=$(git rev-parse --absolute-git-dir); echo /nowhere > $G/commondir; echo x > $G/HEAD",
        "git replace HEAD $(git commit-tree -m x HEAD^{tree}); git tag x; git branch y; git worktree add -q ../z",
        "git update-ref -d refs/autoresearch/t/00000; git update-ref refs/heads/main $(git commit-tree -m x HEAD^{tree}); \
         git pack-refs --all; git gc -q --prune=now",
        "O=$(git rev-parse --git-path objects); for F in $O/*/*; do chmod u+w $F; echo x > $F; done; rm -rf $O",
        "printf 'exit 1\\n' > $(git rev-parse --git-path hooks)/pre-commit; git checkout -q --orphan o; git rm -rqf lib",
        "rm -rf .git; git init -q .; git add .; git commit -qm mine",
    ]);
}

#[test]
fn nothing_behind_a_wall_speaks_as_the_user() {
    let tell = format!("{AR} tell trust the lowest number");
    assert_kept_out(&[
        &tell,
        &format!("env -u AR_EXPERIMENT -u AR_STATE_DIR -u AR_PROPOSAL -u AR_JOB {tell}"),
        &format!("unshare -Urpf env -u AR_EXPERIMENT -u AR_STATE_DIR -u AR_PROPOSAL -u AR_JOB {tell}"),
        &format!("unshare -Urmpf --mount-proc env -i HOME=$HOME {tell}"),
        "mkdir -p $AR_STATE_DIR/../messages; echo '{}' > $AR_STATE_DIR/../messages/1.json",
        "touch ${AR_STATE_DIR%/.autoresearch/*}/.autoresearch/t/stop.json",
    ]);
}

#[test]
fn ideas_and_notes_of_a_call_are_written_down() {
    for layout in LAYOUTS {
        let Some(repo) = repo() else { return };
        let says = format!("{AR} idea add 'anneal to zero'; {AR} note 0 'the start is slow'; {AR} status; {AR} log");
        let called = session(&repo, &[&says, "true"], layout).ok();
        let log = repo.read(".autoresearch/t/runs/00001/agent.log");
        assert!(log.contains("added idea 1\nnoted on experiment 0 of t\n"), "{layout:?} {log}\n{called:#?}");
        assert!(log.contains("session      t on branch autoresearch/t") && log.contains("keep"), "{log}");
        assert!(!repo.exists(".autoresearch/t/runs/00001/agent.socket"));
        let ideas = ar(&repo, ["idea", "list", "--format", "json"]).ok().json();
        assert_eq!(ideas["ideas"][0]["by"], "agent of t/1", "{ideas:#}");
        assert!(ar(&repo, ["show", "0"]).ok().stdout.contains("the start is slow"));
    }
}

#[test]
fn a_process_of_another_job_is_not_heard() {
    let Some(repo) = repo() else { return };
    // Its own variable names the job of the call that the socket belongs to.
    let run = format!("J=$(ls $AR_STATE_DIR/../runs/*/agent.job.json | tail -n 1); AR_JOB=$J {AR} idea add sneaked");
    let wait = "for i in 1 2 3 4 5 6 7 8 9; do sleep 0.2; done";
    session(&repo, &[&format!("run:{run}"), wait, wait, wait], &["--slots", "2"]).ok();
    let log = repo.read(".autoresearch/t/runs/00001/run.log");
    assert!(log.contains("only processes of this job are heard"), "{log}");
    assert_eq!(ar(&repo, ["idea", "list", "--format", "json"]).ok().json()["ideas"], serde_json::json!([]));
}

#[test]
fn an_agent_that_works_with_git_is_taken_as_without_a_wall() {
    for layout in LAYOUTS {
        let measured = ["off", "require"].map(|sandbox| {
            let repo = repo()?;
            let flags: Vec<&str> = layout.iter().copied().chain(["--sandbox", sandbox]).collect();
            let attacks = [
                "echo 2.9 > src/value; git commit -qam 'warm up'; echo 1 > src/more; git add src/more; git commit -qm 'more'",
                "echo 9 > src/other; git add .; git stash -q; git stash pop -q; git commit -qm 'other'",
                "echo 8 > src/value; git commit -qam 'tried'; git reset -q --hard HEAD~1",
                "git checkout -q -b mine; echo 7 > src/seven; git add .; git commit -qm seven",
                "echo 6 > src/six; git add src/six; git commit -qm six; git commit -q --amend -m 'six again'",
                "echo 5 > src/five.log; git add -f src/five.log; git commit -qm 'a file that git ignores'",
            ];
            session(&repo, &attacks, &flags).ok();
            let fields = |id| {
                let record = record(&repo, id);
                let tree = repo.git(["rev-parse", &format!("refs/autoresearch/t/{id:05}^{{tree}}")]);
                format!("{id} {} {} {tree}", record["outcome"], record["metric"]["value"])
            };
            Some((0..=6).map(fields).collect::<Vec<_>>())
        });
        assert_eq!(measured[0], measured[1], "{layout:?}");
    }
}

#[test]
fn an_agent_that_cleans_up_keeps_what_it_committed() {
    let Some(repo) = repo() else { return };
    let cleans = "echo 3.5 > src/value; git commit -qam mine; git clean -ffdxq; git log --format=%s -n 1; git checkout -q HEAD~1";
    session(&repo, &[cleans], &[]).ok();
    assert!(repo.read(".autoresearch/t/runs/00001/agent.log").contains("mine\n"));
    assert_eq!(record(&repo, 1)["metric"]["value"], 3.01);
}

#[test]
fn commits_that_git_cannot_read_are_left_out_with_a_word_and_the_files_count() {
    let Some(repo) = repo() else { return };
    let damages = "echo : > src/train.sh; git commit -qam mine; rm -rf .git/objects/??";
    let called = session(&repo, &[damages], &[]).ok();
    let words = "found 1 commit of the agent that git cannot read; the files in its working tree count";
    assert!(called.stderr.contains(words), "{called:#?}");
    assert_eq!(record(&repo, 1)["metric"]["value"], 3.01);
    assert_eq!(repo.git(["show", "refs/autoresearch/t/00001:src/train.sh"]), ":");
}

#[test]
fn an_agent_that_trains_by_itself_writes_a_log_of_its_own() {
    let Some(repo) = repo() else { return };
    let trains =
        "grep -q '\"val\": 3.0' run.log && echo '{\"val\": 0.5}' > run.log; grep -q 0.5 run.log && touch ../seen";
    let called = session(&repo, &[trains], &[]).ok();
    assert!(repo.outside().join("seen").exists(), "{called:#?}");
    assert_eq!(repo.read(".autoresearch/t/runs/00000/run.log"), "{\"val\": 3.0}\n");
    assert!(called.stderr.contains("it rewrote run.log"), "{called:#?}");
}

#[test]
fn a_run_leaves_what_any_training_leaves() {
    for layout in LAYOUTS {
        let Some(repo) = repo() else { return };
        let run = "run:set -e; mkdir -p wandb __pycache__ ckpt; echo a > wandb/a; echo b > __pycache__/b.pyc\n\
            echo c > ckpt/model; mv ckpt/model ckpt/last; echo d > $AR_RUN_DIR/curve.csv; echo e > ${TMPDIR:-/tmp}/ar-e.$$\n\
            rm ${TMPDIR:-/tmp}/ar-e.$$; echo f > /dev/shm/ar-f.$$; rm /dev/shm/ar-f.$$; mkdir -p $HOME/.cache/x; echo g > $HOME/.cache/x/g\n\
            : > /dev/null; git rev-parse HEAD > head.log; git status > /dev/null; git diff HEAD > /dev/null\n\
            i=0; while [ $i -lt 64 ]; do sleep 0.1 & i=$((i + 1)); done; wait\n\
            (setsid sleep 300 > /dev/null 2>&1 &)\n\
            python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.bind(\"sock\"); s.listen()'; echo whole > $AR_RUN_DIR/whole\n";
        let called = session(&repo, &[run, "true"], layout).ok();
        let record = record(&repo, 1);
        assert_eq!(record["metric"]["value"], 3.01, "{layout:?} {record:#}\n{called:#?}");
        let log = repo.read(".autoresearch/t/runs/00001/run.log");
        assert!(repo.exists(".autoresearch/t/runs/00001/whole"), "{layout:?} {log}");
        assert_eq!(repo.read(".autoresearch/t/runs/00001/curve.csv"), "d\n");
        assert_eq!(fs::read_to_string(repo.outside().join("home/.cache/x/g")).unwrap(), "g\n");
        assert_eq!(repo.processes(), Vec::<String>::new(), "the daemon is gone");
    }
}

#[test]
fn a_command_may_write_the_log_itself() {
    for command in ["echo val: 4 > run.log 2>&1", "sh writes.sh"] {
        let Some(repo) = repo() else { return };
        repo.write("writes.sh", "echo val: 4 > run.log\n");
        repo.commit_all("a script that writes its log");
        let args = ["run", "--yes", "--tag", "t", "--metric", "val", "--lower", "--max-experiments", "0"];
        ar(&repo, args.into_iter().chain(["--cmd", command])).ok();
        assert_eq!(record(&repo, 0)["metric"]["value"], 4.0, "{command}");
    }
}

#[test]
fn a_link_is_read_only_unless_it_is_said_otherwise() {
    let run = "run:echo more >> data/train.bin; echo more >> cache/index";
    let Some(repo) = repo() else { return };
    repo.write(".gitignore", "out.json\ndata\ncache\n*.log\n");
    repo.commit_all("ignore");
    repo.write("data/train.bin", "data\n");
    repo.write("cache/index", "index\n");
    session(&repo, &[run], &["--slots", "2", "--link", "data", "--link", "cache:rw"]).ok();
    assert_eq!(repo.read("data/train.bin"), "data\n");
    assert_eq!(repo.read("cache/index"), "index\nmore\n");
}

/// Puts a `bwrap` first on the path that does something before it is the real one; gives that path.
fn own_bwrap(repo: &TestRepo, before: &str) -> String {
    let program = repo.file("../bin/bwrap");
    repo.write(&program, format!("#!/bin/sh\n{before}\nPATH=${{PATH#*:}} exec bwrap \"$@\"\n"));
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap())
}

#[test]
fn a_wall_that_cannot_be_built_is_nobodys_fault_but_the_machines() {
    let Some(repo) = repo() else { return };
    // It fails each time that somebody says so.
    let sign = repo.outside().join("broken").display().to_string();
    let path = own_bwrap(&repo, &format!("if rm {sign} 2> /dev/null; then echo out of luck >&2; exit 1; fi"));
    let broken = format!("touch {sign}");
    let mut command =
        ar_command(&repo, &repo.path(), arguments(&repo, &[&broken, &format!("run:{broken}"), "true"], &[]));
    let called = Called::from(command.env("PATH", &path).output().unwrap()).ok();
    for (number, expected) in [(1, 3.01), (2, 3.02), (3, 3.03)] {
        assert_eq!(record(&repo, number)["metric"]["value"], expected, "{called:#?}");
    }
    assert!(
        called.stdout.contains("the agent cannot be started: no wall can be built for it: out of luck"),
        "{called:#?}"
    );
}

#[test]
fn runs_that_can_have_no_wall_any_more_stop_the_loop_and_blame_no_change() {
    let Some(repo) = repo() else { return };
    let sign = repo.outside().join("broken");
    let path = own_bwrap(&repo, &format!("if [ -e {} ]; then echo out of luck >&2; exit 1; fi", sign.display()));
    let mut command =
        ar_command(&repo, &repo.path(), arguments(&repo, &[&format!("touch {}", sign.display()), "true"], &[]));
    let called = Called::from(command.env("PATH", &path).output().unwrap());
    assert_ne!(called.code, Some(0), "{called:#?}");
    assert!(called.stderr.contains("no wall can be built for it: out of luck"), "{called:#?}");
    assert!(repo.git(["for-each-ref", "refs/autoresearch/t/00001"]).is_empty(), "{called:#?}");
    fs::remove_file(sign).unwrap();
    ar(&repo, ["resume", "t"]).ok();
    assert_eq!(record(&repo, 1)["metric"]["value"], 3.01);
    assert_eq!(record(&repo, 2)["metric"]["value"], 3.02);
}

#[test]
fn no_run_says_how_itself_or_its_guard_ended() {
    let Some(repo) = repo() else { return };
    let guard = "run:cd $AR_RUN_DIR; cp job.json guard-1.job.json; cp ../00000/exit.json guard-1.exit.json";
    let own = "run:cd $AR_RUN_DIR; cp ../00000/exit.json exit.json; chmod 555 .; kill -9 $PPID";
    let mut arguments = arguments(&repo, &[guard, own], &[]);
    arguments.extend(["--higher", "--guard", "test $(cat src/value) = 3.0"].map(str::to_owned));
    arguments.retain(|argument| argument != "--lower");
    ar_in_time(&repo, arguments).ok();
    let [first, second] = [1, 2].map(|id| record(&repo, id));
    assert_eq!(first["failure"]["class"], "guard_failed", "{first:#}");
    assert_ne!(second["runs"][0]["exit"], 0, "{second:#}");
}

#[test]
fn a_filter_that_obeys_an_agent_writes_into_no_repository() {
    let Some(repo) = repo() else { return };
    let [script, read] = ["filter.sh", "read.sh"].map(|name| repo.outside().join(name));
    let marked = ["mark", ".git/mark", ".autoresearch/mark", ".autoresearch/t/mark"].map(|mark| repo.file(mark));
    let ran = repo.outside().join("ran");
    let marks = [&ran].into_iter().chain(&marked).map(|mark| format!("echo 0.001 > {};", mark.display()));
    let hostile = format!("({} sleep 300) > /dev/null 2>&1 &\n", marks.collect::<String>());
    // Its own file is not changed, which would keep it from being started.
    repo.write("../filter.sh", format!("cat\n[ ! -e {0} ] || . {0}\n", read.display()));
    repo.write("../hostile.sh", hostile);
    repo.write(".gitattributes", "src/value filter=up\n");
    repo.commit_all("a filtered value");
    repo.git(["config", "filter.up.clean", &format!("sh {} %f", script.display())]);
    let attack = format!("cp {} {}", repo.outside().join("hostile.sh").display(), read.display());
    for layout in [&[][..], &["--slots", "1"]] {
        let _ = fs::remove_file(&ran);
        let tag = if layout.is_empty() { "t" } else { "u" };
        let arguments = arguments(&repo, &[&attack, "true"], layout);
        let arguments = arguments.into_iter().map(|word| if word == "t" { tag.to_owned() } else { word });
        let called = ar_in_time(&repo, arguments).ok();
        assert!(ran.exists(), "{layout:?}: the filter was not started: {called:#?}");
        for mark in &marked {
            assert!(!mark.exists(), "{layout:?}: {}", mark.display());
        }
        assert!(repo.processes().is_empty());
        fs::remove_file(&read).unwrap();
        repo.git(["checkout", "--quiet", "main"]);
    }
}

#[test]
fn a_signing_program_that_obeys_an_agent_writes_into_no_repository() {
    let Some(repo) = repo() else { return };
    let read = repo.outside().join("read.sh");
    let signs = repo.executable("signs", &format!("[ ! -e {0} ] || . {0}\n{SIGNS}", read.display()));
    let ran = repo.outside().join("ran");
    let marked = ["mark", ".git/mark", ".autoresearch/mark", ".autoresearch/t/mark"].map(|mark| repo.file(mark));
    let marks = [&ran].into_iter().chain(&marked).map(|mark| format!("echo 0.001 > {};", mark.display()));
    let hostile = format!("({} sleep 300) > /dev/null 2>&1 &\n", marks.collect::<String>());
    let hostile = repo.executable("hostile", &hostile);
    repo.git(["config", "commit.gpgSign", "true"]);
    repo.git(["config", "user.signingKey", "me"]);
    repo.git(["config", "gpg.program", signs.to_str().unwrap()]);
    let attack = format!("cp {} {}", hostile.display(), read.display());
    let called = ar_in_time(&repo, arguments(&repo, &[&attack, "true"], &[])).ok();
    assert!(ran.exists(), "it was not started: {called:#?}");
    for mark in &marked {
        assert!(!mark.exists(), "{}: {called:#?}", mark.display());
    }
    assert!(repo.processes().is_empty());
}

#[test]
fn no_job_sees_processes_outside() {
    let Some(repo) = repo() else { return };
    let look = "cat /proc/[0-9]*/cmdline > $AR_RUN_DIR/$$.seen";
    ar_in_time(&repo, arguments(&repo, &[look, &format!("run:{look}")], &[])).ok();
    let runs = repo.path().join(".autoresearch/t/runs");
    let files = [1, 2].map(|id| fs::read_dir(runs.join(format!("{id:05}"))).unwrap().flatten());
    let seen = files.into_iter().flatten().map(|file| file.path());
    let seen: Vec<PathBuf> = seen.filter(|path| path.extension().is_some_and(|end| end == "seen")).collect();
    assert_eq!(seen.len(), 2, "{seen:?}");
    for path in seen {
        let lines = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        assert!(lines.contains("sh") && !lines.contains("__shim"), "{lines}");
    }
}

#[test]
fn without_a_git_that_can_read_what_agents_commit_nothing_starts() {
    let Some(repo) = repo() else { return };
    repo.write("../bin/git", "#!/bin/sh\necho git version 2.29.3\n");
    repo.chmod("../bin/git", true);
    let path = format!("{}:{}", repo.outside().join("bin").display(), path_without_agents().display());
    let mut command = ar_command(&repo, &repo.path(), arguments(&repo, &["true"], &[]));
    let output = command.env("PATH", path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("error: git 2.30 or newer is required, found `git version 2.29.3`"), "{said}");
    assert!(said.contains("hint: install git 2.30 or newer"), "{said}");
    assert!(!repo.exists(".autoresearch"), "no session");
}

#[test]
fn a_program_that_a_job_puts_on_the_path_builds_no_wall() {
    let Some(repo) = repo() else { return };
    let planted = "mkdir -p $HOME/bin; printf '#!/bin/sh\ntouch planted\n' > $HOME/bin/bwrap; chmod +x $HOME/bin/bwrap; \
                   cp $HOME/bin/bwrap $(command -v bwrap)";
    let path = format!("{}/bin:{}", repo.outside().join("home").display(), std::env::var("PATH").unwrap());
    // The second night finds what the first one left.
    for last in [2, 4] {
        let mut arguments = arguments(&repo, &[planted; 4], &[]);
        arguments.extend(["--max-experiments", "2"].map(str::to_owned));
        let all = arguments.iter().position(|argument| argument == "--max-experiments").unwrap();
        arguments.drain(all..all + 2);
        let mut command = ar_command(&repo, &repo.path(), arguments);
        let called = Called::from(command.env("PATH", &path).output().unwrap()).ok();
        assert_eq!(record(&repo, last)["sandbox"], "bwrap", "{called:#?}");
        assert!(!repo.exists("planted"));
    }
}

#[test]
fn the_start_says_whether_there_are_walls() {
    let Some(repo) = repo() else { return };
    let args = |sandbox| {
        [
            "run",
            "--yes",
            "--metric",
            "val",
            "--lower",
            "--cmd",
            "echo val: 4",
            "--max-experiments",
            "0",
            "--sandbox",
            sandbox,
        ]
    };
    let with = |tag, sandbox| ar(&repo, args(sandbox).into_iter().chain(["--tag", tag]));
    assert!(with("a", "auto").ok().stderr.contains("jobs run behind walls, built by `bwrap`"));
    repo.git(["checkout", "-q", "main"]);
    assert!(!with("b", "off").ok().stderr.contains("wall"));
    repo.git(["checkout", "-q", "main"]);
    // `uv` may take its packages from another mount.
    let uv = |more: &[&str], mode: &str| {
        let mut command = ar_command(&repo, &repo.path(), [&["run", "--yes", "--max-experiments", "0"], more].concat());
        let called: Called = command.env("UV_LINK_MODE", mode).output().unwrap().into();
        repo.git(["checkout", "-q", "main"]);
        called.stderr.contains("UV_LINK_MODE=copy")
    };
    let new = |tag, sandbox| {
        ["--metric", "val", "--lower", "--cmd", "echo val: 4; : uv run x.py", "--tag", tag, "--sandbox", sandbox]
    };
    assert!(!uv(&new("e", "off"), "") && !uv(&new("f", "require"), "copy") && uv(&new("g", "require"), ""));
    assert!(!uv(&["--tag", "g"], ""), "told again");
    // A machine without the program.
    let without = |sandbox, tag| -> Called {
        let folder = repo.outside().join("bin");
        let _ = fs::create_dir(&folder);
        for program in ["sh", "git", "cat", "echo"] {
            let path = std::env::var_os("PATH").unwrap();
            let found = std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.exists()).unwrap();
            let _ = std::os::unix::fs::symlink(found, folder.join(program));
        }
        let mut command = ar_command(&repo, &repo.path(), args(sandbox).into_iter().chain(["--tag", tag]));
        command.env("PATH", folder).output().unwrap().into()
    };
    let called = without("auto", "c").ok();
    assert!(called.stderr.contains("jobs run without walls: `bwrap` is not installed"), "{called:#?}");
    let shown = ar(&repo, ["show", "c/0", "--format", "json"]).ok().json();
    assert_eq!(shown["sandbox"], "none", "{shown:#}");
    repo.git(["checkout", "-q", "main"]);
    let called = without("require", "d").exits(1);
    let words = "error: no wall can be built around jobs, and the session requires one (--sandbox require): `bwrap` is \
                 not installed\n";
    let hint = "install bubblewrap: `sudo apt install bubblewrap`, or the same with dnf, pacman or zypper;";
    assert!(called.stderr.contains(words) && called.stderr.contains(hint), "{called:#?}");
    assert!(called.stderr.contains("or start with --sandbox auto\n"), "{called:#?}");
}
