//! Settings: flag, then variable, then `ar.toml`, then default; and `ar init`.

use crate::run_loop::training_repo;
use crate::support::{Called, ar, ar_command};

#[test]
fn a_settings_file_is_enough_and_flags_and_variables_come_before_it() {
    let repo = training_repo();
    repo.write("ar.toml", "metric = \"val_bpb\"\ncmd = \"sh train.sh\"\ntag = \"file\"\nmax_experiments = 0\n");
    repo.commit_all("settings");
    let mut command = ar_command(&repo, &repo.path(), ["run", "--max-experiments", "2"]);
    command.env("AR_TAG", "variable").env("AR_MAX_EXPERIMENTS", "1").env("AR_AGENT", "echo VAL_BPB=1 >> train.sh");
    Called::from(command.output().unwrap()).ok();
    assert_eq!(repo.git(["symbolic-ref", "HEAD"]), "refs/heads/autoresearch/variable");
    assert_eq!(repo.read("results.tsv").lines().count(), 5, "header, baseline, one experiment and two refusals");
}

#[test]
fn init_writes_a_file_that_run_takes_and_leaves_what_is_there() {
    let repo = training_repo();
    repo.write("program.md", "mine\n");
    let called = ar(&repo, ["init", "--metric", "val_bpb", "--lower", "--timeout", "5m", "--min-delta", "0.5"]).ok();
    assert!(
        called.stdout.contains("wrote ar.toml") && called.stdout.contains("left unchanged: program.md"),
        "{called:?}"
    );
    assert_eq!(repo.read("program.md"), "mine\n");
    let text = repo.read("ar.toml");
    assert!(text.contains("\ncmd = \"sh train.sh\"\n"), "found in the repository: {text}");
    repo.commit_all("settings");
    ar(&repo, ["run"]).ok();
    let contract: serde_json::Value =
        serde_json::from_str(&repo.read(".autoresearch/nov20/state/contract.json")).unwrap();
    assert_eq!((&contract["timeout"], &contract["min_delta"]), (&300.0.into(), &0.5.into()));
}

#[test]
fn init_writes_every_setting_that_was_given_as_a_user_would() {
    let settings = [
        ("--metric", "val_bpb", "metric = \"val_bpb\""),
        ("--cmd", "sh train.sh", "cmd = \"sh train.sh\""),
        ("--agent", "./agent.sh", "agent = \"./agent.sh\""),
        ("--tag", "lr", "tag = \"lr\""),
        ("--min-delta", "0.25", "min-delta = 0.25"),
        ("--timeout", "90s", "timeout = \"90s\""),
        ("--grace", "1m", "grace = \"1m\""),
        ("--max-experiments", "7", "max-experiments = 7"),
        ("--for", "8h", "for = \"8h\""),
        ("--goal", "1.5", "goal = 1.5"),
        ("--metric-regex", "bpb=([0-9.]+)", "metric-regex = \"bpb=([0-9.]+)\""),
        ("--ledger", "karpathy", "ledger = \"karpathy\""),
        ("--keep-logs", "2GB", "keep-logs = \"2GB\""),
        ("--scope", "src/**", "scope = [\"src/**\"]"),
        ("--protect", "eval/**", "protect = [\"eval/**\"]"),
        ("--max-files", "5", "max-files = 5"),
        ("--max-file-lines", "200", "max-file-lines = 200"),
        ("--ladder", "structural", "ladder = \"structural\""),
        ("--guard", "sh tests.sh a::b", "guard = [\"sh tests.sh a::b\"]"),
        ("--limit", "memory_gb <= 40", "limit = [\"memory_gb<=40\"]"),
        ("--simpler-wins", "0.001", "simpler-wins = 0.001"),
        ("--agent-timeout", "20m", "agent-timeout = \"20m\""),
        ("--outage-limit", "6h", "outage-limit = \"6h\""),
        ("--until", "7:00", "until = \"07:00\""),
        ("--max-crashes", "5", "max-crashes = 5"),
        ("--on-event", "./notify.sh", "on-event = \"./notify.sh\""),
        ("--silence", "20m", "silence = \"20m\""),
        ("--agent-silence", "10m", "agent-silence = \"10m\""),
        ("--agent-rounds", "15", "agent-rounds = 15"),
        ("--max-file-total", "300", "max-file-total = 300"),
        ("--sandbox", "require", "sandbox = \"require\""),
    ];
    let repo = training_repo();
    let flags = ["init", "--higher", "--allow-search", "--stop-when-flagged"];
    ar(&repo, flags.into_iter().chain(settings.iter().flat_map(|(flag, value, _)| [*flag, *value]))).ok();
    let text = repo.read("ar.toml");
    for (_, _, line) in settings {
        assert_eq!(text.lines().filter(|found| *found == line).count(), 1, "{line} in {text}");
    }
    for line in ["higher = true", "allow-search = true", "stop-when-flagged = true"] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    repo.rm("ar.toml");

    let args = ["init", "--metric-file", "out/m.json:/a/b", "--for", "1h30m", "--timeout", "500ms"];
    ar(&repo, args).ok();
    let text = repo.read("ar.toml");
    for line in ["metric-file = \"out/m.json:/a/b\"", "for = \"1h30m\"", "timeout = \"500ms\""] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}

#[test]
fn init_knows_the_layout_of_a_script_with_its_evaluation_beside_it() {
    let repo = training_repo();
    for file in ["train.py", "prepare.py", "uv.lock"] {
        repo.write(file, "\n");
    }
    ar(&repo, ["init"]).ok();
    let text = repo.read("ar.toml");
    for line in ["metric = \"val_bpb\"", "cmd = \"uv run train.py\"", "scope = [\"train.py\"]"] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}

#[test]
fn guards_and_limits_stand_on_lines_of_their_own_in_a_variable() {
    let repo = training_repo();
    let mut command =
        ar_command(&repo, &repo.path(), ["run", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t"]);
    command.env("AR_GUARD", "test 1 = 1 # a::b\ntrue").env("AR_SCOPE", "train.sh:docs/**");
    Called::from(command.output().unwrap()).ok();
    let contract: serde_json::Value = serde_json::from_str(&repo.read(".autoresearch/t/state/contract.json")).unwrap();
    assert_eq!(contract["guards"], serde_json::json!(["test 1 = 1 # a::b", "true"]));
    assert_eq!(contract["scope"], serde_json::json!(["train.sh", "docs/**"]));
}

#[test]
fn a_session_goes_by_its_stored_terms_whatever_ar_toml_says_meanwhile() {
    let repo = training_repo();
    let agent = "echo \"# $AR_EXPERIMENT\" >> train.sh";
    let args = ["run", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    ar(&repo, args.into_iter().chain(["--max-experiments", "1"])).ok();
    let lines = [
        "metric = \"loss\"\ncmd = \"sh other.sh\"\nhigher = true\nguard = [\"false\"]\ntimeout = \"5m\"\n",
        "metric = \"val_bpb\"\nscope = [\"nothing/**\"]\ntag = \"typo\"\nlimit = [\"memory_gb<=0\"]\n",
        "metrik = \"val_bpb\"\n",
        "metric = [\n",
    ];
    let ignored = [
        "ignored lines of ar.toml that differ from the session's stored settings: metric, higher, cmd, guard, timeout",
        "ignored lines of ar.toml that differ from the session's stored settings: limit, scope",
        "unknown setting `metrik`",
        "ignored ar.toml: ",
    ];
    for (made, (text, notice)) in (2..).zip(lines.into_iter().zip(ignored)) {
        repo.write("ar.toml", text);
        let called = ar(&repo, ["resume", "--max-experiments", "1"]).ok();
        assert!(called.stderr.contains(notice), "{text}: {called:?}");
        assert!(called.stdout.contains(&format!("   {made}  discard")), "{text}: {called:?}");
    }
    // The same of `run` and `try`, which find the session by HEAD's branch.
    for args in [&["run", "--max-experiments", "1"][..], &["try", "-m", "by hand", "--max-experiments", "7"]] {
        if args[0] == "try" {
            repo.write("train.sh", repo.read("train.sh") + "# by hand\n");
        }
        let called = ar(&repo, args).ok();
        assert!(called.stderr.contains("ignored ar.toml: "), "{called:?}");
    }
    assert_eq!(repo.read("results.tsv").lines().count(), 9);
    let found = ar(&repo, ["doctor"]).ok().stdout;
    assert!(found.contains("warning"), "{found}");
    ar(&repo, ["run", "--tag", "new"]).exits(1);

    // What this very call asks for can contradict, and is named.
    let called = ar(&repo, ["resume", "--cmd", "sh other.sh", "--higher"]).exits(1);
    assert!(
        called.stderr.contains("hint: omit --higher, --cmd (or unset AR_HIGHER, AR_CMD) to continue"),
        "{called:?}"
    );
    let mut command = ar_command(&repo, &repo.path(), ["resume"]);
    let called = Called::from(command.env("AR_METRIC", "loss").output().unwrap()).exits(1);
    assert!(called.stderr.contains("AR_METRIC"), "{called:?}");
}

#[test]
fn walls_are_a_setting_that_may_change_between_nights() {
    let repo = training_repo().without_walls();
    repo.write(
        "ar.toml",
        "metric = \"val_bpb\"\ncmd = \"sh train.sh\"\ntag = \"t\"\nmax_experiments = 0\nsandbox = \"off\"\n",
    );
    repo.commit_all("settings");
    let stored =
        || -> serde_json::Value { serde_json::from_str(&repo.read(".autoresearch/t/state/contract.json")).unwrap() };
    ar(&repo, ["run"]).ok();
    assert_eq!(stored()["sandbox"], "off");
    ar(&repo, ["resume", "--sandbox", "auto"]).ok();
    assert_eq!(stored().get("sandbox"), None);
    let mut command = ar_command(&repo, &repo.path(), ["resume"]);
    Called::from(command.env("AR_SANDBOX", "off").output().unwrap()).ok();
    assert_eq!(stored()["sandbox"], "off");

    let called = ar(&repo, ["resume", "--sandbox", "always"]).exits(2);
    assert!(called.stderr.contains("[possible values: auto, require, off]"), "{called:?}");
    repo.write("ar.toml", "sandbox = \"always\"\n");
    let called = ar(&repo, ["run", "--tag", "new", "--metric", "val_bpb", "--cmd", "sh train.sh"]).exits(1);
    assert!(called.stderr.contains("must be one of auto, require, off"), "{called:?}");
}

#[test]
fn a_direction_in_the_file_is_that_of_the_metric_in_the_file() {
    let repo = training_repo();
    repo.write("ar.toml", "metric = \"val_bpb\"\nlower = true\ncmd = \"sh train.sh\"\nagent = \"none\"\n");
    repo.commit_all("settings");
    let refused = ar(&repo, ["run", "--metric", "num_params_M"]).exits(2);
    assert!(refused.stderr.contains("--higher") && refused.stderr.contains("--lower"), "{refused:?}");
    ar(&repo, ["run", "--metric", "num_params_M", "--higher"]).ok();
}
