//! What a session with slots asks for, and what is refused before anything changes.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::run_loop::training_repo;
use crate::support::{Called, FakeGpus, TestRepo, ar, ar_command, until};

/// What would change if a session began.
fn state_of(repo: &TestRepo) -> [String; 3] {
    [repo.git(["for-each-ref"]), repo.git(["status", "--short"]), repo.git(["rev-parse", "HEAD"])]
}

/// Calls `ar run` for a session `t` with more flags; nothing may come of it but a refusal.
fn refused(repo: &TestRepo, code: i32, flags: &[&str]) -> Called {
    refused_with(repo, code, flags, &[])
}

/// Does the same with environment variables.
#[track_caller]
fn refused_with(repo: &TestRepo, code: i32, flags: &[&str], variables: &[(&str, &str)]) -> Called {
    let before = state_of(repo);
    let named = ["--tag", "t", "--metric", "val_bpb"];
    let command = if flags.contains(&"--cmd") { &[][..] } else { &["--cmd", "sh train.sh"] };
    let mut call = ar_command(repo, &repo.path(), ["run"].iter().chain(&named).chain(command).chain(flags));
    let called = Called::from(call.envs(variables.iter().copied()).output().unwrap()).exits(code);
    assert_eq!(before, state_of(repo), "{called:?}");
    assert!(!repo.file(".autoresearch").exists(), "{called:?}");
    called
}

/// Fails unless an error has these parts.
#[track_caller]
fn says(called: &Called, parts: &[&str]) {
    // Long lines are broken.
    let said = called.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in parts {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn settings_of_slots_are_refused_where_there_are_none() {
    let repo = training_repo();
    for (flag, value) in [("--calls", "2"), ("--link", "data"), ("--gpus-per-run", "2")] {
        let called = refused(&repo, 2, &[flag, value]);
        assert!(called.stderr.contains(&format!("{flag} is for a session with slots")), "{called:?}");
        assert!(called.stderr.contains("add --slots N, --gpus all or --ahead N"), "{called:?}");
    }
    for flags in [&["--slots", "2", "--gpus-per-run", "2"][..], &["--ahead", "1", "--gpus-per-run", "1"]] {
        let called = refused(&repo, 2, flags);
        assert!(called.stderr.contains("is for a session that divides GPUs among its slots"), "{called:?}");
    }
    for flags in [&["--slots", "0"][..], &["--calls", "0", "--slots", "2"], &["--gpus", "first"]] {
        refused(&repo, 2, flags);
    }
}

#[test]
fn variables_of_a_cluster_do_not_stop_a_local_run() {
    let repo = training_repo();
    for flag in ["--sbatch", "--lost-after"] {
        says(&refused(&repo, 2, &[flag, "1m"]), &[&format!("{flag} is for a session"), "add --executor slurm"]);
    }
    let in_place = ["run", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh"];
    let on_slots = ["run", "--tag", "u", "--slots", "2", "--agent", "true", "--max-experiments", "0"];
    for args in [[&on_slots[..], &in_place[3..]].concat(), in_place.to_vec(), vec!["resume", "t"]] {
        let mut command = ar_command(&repo, &repo.path(), args);
        let variables = [("AR_SBATCH", "--partition gpu"), ("AR_LOST_AFTER", "1m"), ("AR_GPUS_PER_RUN", "2")];
        Called::from(command.envs(variables).output().unwrap()).ok();
    }
}

#[test]
fn a_settings_file_asks_for_slots_of_new_sessions_only() {
    let repo = training_repo();
    ar(&repo, ["run", "--tag", "old", "--metric", "val_bpb", "--cmd", "sh train.sh"]).ok();
    repo.write("ar.toml", "calls = 1\n");
    let resumed = ar(&repo, ["resume", "old"]).ok();
    assert!(!resumed.stderr.contains("ar.toml"), "what is of no use is no mistake: {resumed:?}");
    repo.write("ar.toml", "slots = 2\ncalls = 1\n");
    let resumed = ar(&repo, ["resume", "old"]).ok();
    assert!(resumed.stderr.contains("ignored lines of ar.toml"), "{resumed:?}");
    assert!(resumed.stderr.contains("slots"), "{resumed:?}");
}

#[test]
fn what_works_in_place_only_is_refused_with_slots() {
    let repo = training_repo();
    repo.write("train.sh", "echo val_bpb: 1\n");
    says(
        &refused(&repo, 1, &["--slots", "2", "--adopt"]),
        &["--adopt works in place only, not with slots", "ar idea add"],
    );
    let tried = ["try", "-m", "x", "--slots", "2", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh"];
    let called = ar(&repo, tried).exits(2);
    let words = ["`ar try` works in place only, not with slots", "ar idea add", "ar run --tag t --agent COMMAND"];
    says(&called, &words);
    assert!(!repo.file(".autoresearch").exists());
}

#[test]
fn a_try_beside_a_session_with_slots_is_refused_with_the_commands_to_type() {
    let repo = training_repo();
    let [begun, go] = ["begun", "go"].map(|name| repo.outside().join(name));
    // The runs in slots wait for a sign.
    let waits = format!("touch {}; until [ -e {} ]; do sleep 0.02; done", begun.display(), go.display());
    repo.write("train.sh", format!("case $PWD in */trees/*) {waits};; esac; echo val_bpb: 2\n"));
    repo.write("ar.toml", "metric = \"val_bpb\"\ncmd = \"sh train.sh\"\n");
    repo.commit_all("waits in slots");
    let run = ["run", "--yes", "--tag", "t", "--slots", "2", "--agent", "true", "--max-experiments", "0"];
    let mut command = ar_command(&repo, &repo.path(), run);
    let mut looping = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the run", || begun.exists().then_some(()));
    repo.write("train.sh", "echo val_bpb: 1\n");
    let refused = |flags: &[&str], words: &[&str]| {
        let before = state_of(&repo);
        says(&ar(&repo, [&["try", "-m", "mine"], flags].concat()).exits(2), words);
        assert_eq!(before, state_of(&repo), "{flags:?}");
    };
    let at_work =
        ["`ar try` works in place only, and session t is measuring on slots", "ar idea add TEXT", "ar stop t"];
    refused(&[], &at_work);
    refused(&["--tag", "t"], &at_work);
    refused(&["--tag", "u"], &at_work);
    fs::write(go, "").unwrap();
    assert!(looping.wait().unwrap().success());
    let idle = ["`ar try` works in place only, and session t has slots", "ar idea add TEXT", "ar try --tag NAME"];
    refused(&[], &idle);
    refused(&["--tag", "t"], &idle);
    ar(&repo, ["try", "-m", "mine", "--tag", "u"]).ok();
    assert_eq!(repo.git(["symbolic-ref", "--short", "HEAD"]), "autoresearch/u");
}

/// The layout in the journal of session `t`.
fn layout(repo: &TestRepo) -> Value {
    let journal: Value = serde_json::from_str(&repo.read(".autoresearch/t/state/progress.json")).unwrap();
    journal["layout"].clone()
}

/// Has the journal of session `t` say that it is at work with two slots.
fn give_slots(repo: &TestRepo) {
    let path = repo.file(".autoresearch/t/state/progress.json");
    let mut journal: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    journal["layout"] = json!({"slots": 2, "ahead": 2});
    fs::write(path, journal.to_string()).unwrap();
}

#[test]
fn the_working_tree_of_the_user_leaves_the_branch_of_a_session_with_slots() {
    let repo = training_repo();
    ar(&repo, ["run", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh"]).ok();
    // What was asked for before counts, and a flag alike.
    let asked = ar(&repo, ["resume", "t", "--slots", "2"]).exits(1);
    give_slots(&repo);
    for called in [asked, ar(&repo, ["resume", "t"]).exits(1)] {
        assert!(called.stderr.contains("has branch autoresearch/t checked out"), "{called:?}");
        assert!(called.stderr.contains("git switch main\n"), "{called:?}");
    }
    repo.git(["branch", "--quiet", "--move", "main", "trunk"]);
    let called = ar(&repo, ["resume", "t"]).exits(1);
    assert!(called.stderr.contains("git switch --detach"), "{called:?}");
    let elsewhere = repo.file("elsewhere");
    repo.git(["switch", "--quiet", "trunk"]);
    repo.git(["worktree", "add", "--quiet", &elsewhere.display().to_string(), "autoresearch/t"]);
    let called = ar(&repo, ["resume", "t"]).exits(1);
    assert!(called.stderr.contains("is checked out in"), "{called:?}");
}

#[test]
fn an_experiment_that_is_open_in_place_is_finished_there() {
    let repo = training_repo();
    let run = ["run", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh"];
    ar(&repo, run).ok();
    let path = repo.file(".autoresearch/t/state/progress.json");
    let mut journal: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let open = json!({"id": 1, "base": repo.git(["rev-parse", "HEAD"]), "started": "2026-11-20T22:00:00Z"});
    journal["attempts"] = json!([{"phase": "proposing", "open": open}]);
    fs::write(&path, journal.to_string()).unwrap();
    let called = ar(&repo, ["resume", "t", "--slots", "2"]).exits(1);
    assert!(called.stderr.contains("experiment 1 of session t is still open in this working tree"), "{called:?}");
    assert!(called.stderr.contains("ar stop t --now"), "{called:?}");
}

#[test]
fn slots_get_gpus_as_far_as_there_are_some() {
    let Some(gpus) = FakeGpus::new("gpu GPU-aaaa 80 Fake\ngpu GPU-bbbb 80 Fake\ngpu GPU-cccc 80 Fake\n") else {
        return;
    };
    let repo = training_repo();
    let run = |code: i32, flags: &[&str]| {
        let run = ["run", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh", "--max-experiments", "0"];
        let mut command = ar_command(&repo, &repo.path(), run.into_iter().chain(flags.iter().copied()));
        gpus.show_to(&mut command);
        command.env_remove("CUDA_VISIBLE_DEVICES").env_remove("CUDA_DEVICE_ORDER");
        Called::from(command.output().unwrap()).exits(code)
    };
    let called = run(1, &["--gpus", "all", "--slots", "4"]);
    says(&called, &["there are GPUs for 3 slots, not 4", "pass --slots 3"]);
    says(&run(1, &["--gpus", "0,7"]), &["there is no GPU 7", "nvidia-smi -L"]);
    let called = run(1, &["--gpus", "all", "--gpus-per-run", "2", "--slots", "2"]);
    says(&called, &["there are GPUs for 1 slot, not 2"]);

    run(0, &["--gpus", "all"]);
    assert_eq!(layout(&repo), json!({"slots": 3, "ahead": 2, "gpus": "all"}));
    // What is divided anew has as many slots as there are GPUs for.
    repo.git(["switch", "--quiet", "main"]);
    let resume = |flags: &[&str]| {
        let mut command = ar_command(&repo, &repo.path(), ["resume", "t"].iter().chain(flags));
        gpus.show_to(&mut command);
        Called::from(command.output().unwrap())
    };
    let called = resume(&["--gpus-per-run", "2"]).ok();
    says(&called, &["left unused, too few for a run: GPU 2"]);
    assert_eq!(layout(&repo), json!({"slots": 1, "ahead": 2, "gpus": "all", "gpus_per_run": 2}));
    repo.git(["switch", "--quiet", "main"]);
    gpus.describe("gpu GPU-aaaa 80 Fake\n");
    says(&resume(&[]).exits(1), &["a run needs 2 GPUs, and 1 can be used"]);
}

#[test]
fn a_command_that_names_the_working_tree_of_the_user_is_refused() {
    let repo = training_repo();
    repo.write(".gitignore", "/data/\n");
    repo.commit_all("ignored");
    repo.write("data/x.bin", "x");
    let root = repo.path().canonicalize().unwrap().display().to_string();
    let called = refused(&repo, 1, &["--slots", "2", "--cmd", &format!("sh {root}/train.sh")]);
    says(&called, &["the command names", "/train.sh", "write it relative to the repository's root, as train.sh"]);
    let called = refused(&repo, 1, &["--slots", "2", "--cmd", &format!("sh train.sh --data={root}/data")]);
    says(&called, &["as data, and add --link data"]);
    let called = refused(&repo, 1, &["--slots", "2", "--guard", &format!("cd {root} && sh train.sh")]);
    says(&called, &["the guard names", "commands run in the root of the slot's working tree"]);

    let shared = [("PYTHONPATH", format!("{root}/src"))];
    let shared: Vec<_> = shared.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let called = refused_with(&repo, 1, &["--slots", "2"], &shared);
    says(&called, &["PYTHONPATH has", "unset it", "PYTHONPATH=src python"]);
}

#[test]
fn submodules_and_scripts_that_no_commit_has_are_refused() {
    let repo = training_repo();
    repo.write("local.sh", "echo val_bpb: 1\n");
    let called = refused(&repo, 1, &["--slots", "2", "--cmd", "sh local.sh"]);
    says(&called, &["the command needs local.sh", "add --link local.sh, or commit local.sh"]);
    repo.write(".gitignore", "/env/\n");
    repo.commit_all("ignored");
    repo.write("env/bin/go", "#!/bin/sh\n");
    repo.chmod("env/bin/go", true);
    let called = refused(&repo, 1, &["--slots", "2", "--cmd", "A=1 ./env/bin/go train.sh"]);
    says(&called, &["the command needs env/bin/go", "add --link env"]);

    let commit = repo.git(["rev-parse", "HEAD"]);
    repo.git(["update-index", "--add", "--cacheinfo", &format!("160000,{commit},lib/sub")]);
    repo.git(["commit", "--quiet", "--message", "a submodule"]);
    let called = refused(&repo, 1, &["--slots", "2"]);
    says(&called, &["slots would lack the submodules: lib/sub", "work in place"]);
}

#[test]
fn links_must_lead_to_what_git_does_not_have() {
    let repo = training_repo();
    repo.write(".gitignore", "/data/\n/out/\n");
    repo.commit_all("ignored");
    repo.write("data/sub/x.bin", "x");
    let root = repo.path().canonicalize().unwrap().display().to_string();
    let slots = |flags: &[&'static str]| [&["--slots", "2"], flags].concat();
    let absolute = format!("{root}/data");
    says(
        &refused(&repo, 2, &["--slots", "2", "--link", &absolute]),
        &["relative to the repository's root", "write --link data"],
    );
    says(&refused(&repo, 1, &slots(&["--link", "/tmp"])), &["/tmp is not in the working tree"]);
    says(&refused(&repo, 1, &slots(&["--link", "../other"])), &["is not in the working tree"]);
    says(&refused(&repo, 1, &slots(&["--link", "missing"])), &["cannot link missing: it does not exist"]);
    says(&refused(&repo, 1, &slots(&["--link", "train.sh"])), &["cannot link train.sh", "omit --link train.sh"]);
    says(&refused(&repo, 2, &slots(&["--link", ".git/info"])), &["belongs to git or ar"]);
    let nested = slots(&["--link", "data/", "--link", "./data/sub"]);
    says(&refused(&repo, 1, &nested), &["cannot link data/sub: data is a link", "omit --link data/sub"]);
    repo.write("out/m.json", "{}");
    let behind = slots(&["--link", "out", "--metric-file", "out/m.json:/loss"]);
    says(&refused(&repo, 1, &behind), &["the metric file out/m.json would be the same one for all slots"]);
    says(&refused(&repo, 1, &slots(&["--metric-file", "/tmp/m.json:/loss"])), &["would be the same one for all slots"]);
}

/// Makes an environment in `folder`, whose packages have these files.
fn environment(repo: &TestRepo, folder: &str, files: &[(&str, String)]) {
    repo.write(format!("{folder}/pyvenv.cfg"), "home = /usr/bin\n");
    repo.write(format!("{folder}/lib/python3.12/site-packages/pip.py"), "");
    for (name, text) in files {
        repo.write(format!("{folder}/lib/python3.12/site-packages/{name}"), text);
    }
}

#[test]
fn an_editable_install_of_the_user_s_working_tree_is_refused_however_it_is_noted() {
    let repo = training_repo();
    repo.write(".gitignore", "/.venv/\n/envs/\n");
    repo.write("pyproject.toml", "[build-system]\nrequires = []\n");
    repo.commit_all("ignored");
    let root = repo.path().canonicalize().unwrap().display().to_string();
    let noted = [
        ("__editable__.pkg-1.pth", format!("{root}/src\n")),
        ("easy-install.pth", format!("# {root}\n{root}\n")),
        ("pkg.egg-link", format!("{root}/src\n.")),
        ("__editable___pkg_1_finder.py", format!("MAPPING: dict[str, str] = {{'pkg': '{root}/src/pkg'}}\n")),
        (
            "pkg-1.dist-info/direct_url.json",
            format!("{{\"url\": \"file://{root}\", \"dir_info\": {{\"editable\": true}}}}"),
        ),
    ];
    for (name, text) in noted {
        let _ = fs::remove_dir_all(repo.file(".venv"));
        environment(&repo, ".venv", &[(name, text)]);
        let called = refused(&repo, 1, &["--slots", "2", "--link", ".venv"]);
        let file = name.split('/').next().unwrap();
        says(&called, &[file, "makes runs import from", "hint: have the command find the slot's code first"]);
    }
    // Also in a folder of environments, and in one that is in use.
    fs::remove_dir_all(repo.file(".venv")).unwrap();
    environment(&repo, "envs/a", &[("pkg.pth", root.clone())]);
    says(&refused(&repo, 1, &["--slots", "2", "--link", "envs"]), &["makes runs import from", "envs/a"]);
    let active = repo.file("envs/a").canonicalize().unwrap().display().to_string();
    let called = refused_with(&repo, 1, &["--slots", "2"], &[("VIRTUAL_ENV", &active)]);
    says(&called, &["makes runs import from", "hint: have the command find the slot's code first"]);

    // Its own packages are not the user's code; but `uv` would make an editable install of whichever slot comes last.
    environment(&repo, ".venv", &[("vendored.pth", root.clone())]);
    let uv = ["--slots", "2", "--link", ".venv", "--cmd", "uv run sh train.sh"];
    let path = format!("{}:{}", repo.file("bin").display(), std::env::var("PATH").unwrap());
    repo.write("bin/uv", "#!/bin/sh\n");
    repo.chmod("bin/uv", true);
    let called = refused_with(&repo, 1, &uv, &[("PATH", &path)]);
    says(&called, &["makes runs import from", "omit --link .venv and let each slot make its own"]);
    environment(&repo, ".venv", &[("vendored.pth", format!("{root}/.venv/lib/vendored\n"))]);
    let called = refused_with(&repo, 1, &uv, &[("PATH", &path)]);
    says(&called, &["would install this project into the one environment of all slots", "uv run --no-sync"]);

    // The way out that is named is one.
    let run = ["run", "--tag", "t", "--metric", "val_bpb", "--max-experiments", "0", "--slots", "2", "--link", "envs"];
    ar(&repo, run.into_iter().chain(["--cmd", "PYTHONPATH=src sh train.sh"])).ok();
}

#[test]
fn a_session_does_not_go_on_in_place_where_its_slots_were_lost() {
    let repo = training_repo();
    ar(&repo, ["run", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh"]).ok();
    fs::remove_file(repo.file(".autoresearch/t/state/progress.json")).unwrap();
    ar(&repo, ["resume", "t"]).ok();

    // The record of a run in a slot.
    let name = "refs/autoresearch/t/00000";
    let tag = repo.git(["cat-file", "tag", name]).replacen("{", "{\n  \"slot\": 1,", 1);
    repo.write("record", format!("{tag}\n"));
    let object = repo.git(["hash-object", "-t", "tag", "-w", "record"]);
    repo.git(["update-ref", name, &object]);
    repo.rm("record");
    ar(&repo, ["resume", "t"]).ok();
    fs::remove_file(repo.file(".autoresearch/t/state/progress.json")).unwrap();
    says(&ar(&repo, ["resume", "t"]).exits(1), &["session t has slots", "ar resume t --slots N"]);
}

#[test]
fn a_working_tree_of_ar_is_no_place_for_a_session() {
    let repo = training_repo();
    let tree = repo.file(".autoresearch/t/trees/slot-0");
    repo.git(["worktree", "add", "--quiet", "--detach", &tree.display().to_string()]);
    let run = ["run", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh"];
    let called = Called::from(ar_command(&repo, &tree, run).output().unwrap()).exits(1);
    says(&called, &["is a working tree of ar's", "go to the repository's main working tree"]);
}

#[test]
fn what_slots_lack_of_the_working_tree_is_named_and_links_are_ignored() {
    let repo = training_repo();
    repo.write(".gitignore", "/data/\n/build/\n/conf.yaml\n");
    repo.commit_all("ignored");
    for file in ["data/x.bin", "build/x", "conf.yaml", "notes.txt"] {
        repo.write(file, "x");
    }
    repo.write("train.sh", format!("{}\n# changed\n", repo.read("train.sh")));
    let run =
        ["run", "--tag", "t", "--metric", "val_bpb", "--cmd", "sh train.sh # conf.yaml", "--max-experiments", "0"];
    let called = ar(&repo, run.into_iter().chain(["--slots", "2", "--link", "conf.yaml"])).ok();
    says(&called, &["ignored files are missing in the slots: data; link what runs need: --link data"]);
    says(&called, &["experiments start from the commit, without uncommitted changes: train.sh"]);
    says(&called, &["unless you commit them or name them with --link: notes.txt"]);
    let excluded = repo.read(".git/info/exclude");
    assert!(excluded.lines().any(|line| line == "/conf.yaml"), "{excluded}");
    assert_eq!(layout(&repo), json!({"slots": 2, "ahead": 2, "links": ["conf.yaml"]}));

    // A flag changes one setting; what is known is not told again.
    repo.git(["switch", "--quiet", "--force", "main"]);
    let resumed = ar(&repo, ["resume", "t", "--calls", "1", "--link", "data", "--link", "conf.yaml"]).ok();
    assert!(!resumed.stderr.contains("missing in the slots"), "{resumed:?}");
    assert_eq!(layout(&repo), json!({"slots": 2, "ahead": 2, "calls": 1, "links": ["conf.yaml", "data"]}));
    repo.git(["switch", "--quiet", "--force", "main"]);
    let resumed = ar(&repo, ["resume", "t"]).ok();
    assert!(!resumed.stderr.contains("missing in the slots"), "{resumed:?}");
}

#[test]
fn an_environment_that_uv_makes_for_each_slot_is_no_candidate_for_a_link() {
    let repo = training_repo();
    repo.write(".gitignore", "/.venv/\n/data/\n/bin/\n");
    repo.commit_all("ignored");
    environment(&repo, ".venv", &[]);
    repo.write("data/x.bin", "x");
    repo.write("bin/uv", "#!/bin/sh\nshift\nexec \"$@\"\n");
    repo.chmod("bin/uv", true);
    let run = [
        "run",
        "--tag",
        "t",
        "--metric",
        "val_bpb",
        "--max-experiments",
        "0",
        "--slots",
        "2",
        "--cmd",
        "uv run sh train.sh",
    ];
    let path = format!("{}:{}", repo.file("bin").display(), std::env::var("PATH").unwrap());
    let mut command = ar_command(&repo, &repo.path(), run);
    let called = Called::from(command.env("PATH", path).output().unwrap()).ok();
    says(&called, &["ignored files are missing in the slots: data; link what runs need: --link data"]);
}
