//! A hidden split: `--holdout` and `--hide`.

mod fresh_runs;

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::confirm::{made, made_twice, runs, shown};
use crate::kill::{in_turn, run_and_kill, soak};
use crate::support::{Called, TestRepo, ar, ar_command, ar_in_time, until};

/// A repository whose command prints the number in `value`, and leaves the one in `truth`, which the hidden evaluator reads together with
/// its data, both with noise by seed. Each run notes its experiment and its seed outside.
fn split() -> Option<TestRepo> {
    let repo = TestRepo::empty().with_walls()?;
    let outside = repo.outside().display().to_string();
    let noise = "awk -v s=$AR_SEED -v v=$(cat FILE) 'BEGIN { n = ((s * 37 + v * 1100) % 17) / 100; print \"val_bpb: \" v + n + 0.0DIGITS }'";
    let print = |file: &str, digits: &str| noise.replace("FILE", file).replace("DIGITS", digits);
    let train = format!(
        "echo \"$AR_EXPERIMENT $AR_SEED\" >> {outside}/runs\nrm $(mktemp) || exit 5\ncp truth model\n\
         [ $AR_SEED -gt 2 ] && [ $AR_SEED != 7 ] || sh look.sh >> {outside}/seen.run 2>&1\n{}\n",
        print("value", "0413")
    );
    let evaluate = format!(
        "echo \"$AR_EXPERIMENT $AR_SEED\" >> {outside}/evaluated\n\
         while [ -e {outside}/hold-evaluator ]; do sleep 0.02; done\n[ ! -e {outside}/fails ] || {{ echo boom; exit 3; }}\n[ ! -e {outside}/slow ] || sleep 1.1\n\
         grep -q secret {outside}/data/test.csv && [ -d \"$AR_RUN_DIR\" ] || exit 4\n{}\n",
        print("model", "0277")
    );
    repo.write("train.sh", train);
    repo.write("../evaluate.sh", evaluate);
    repo.write("../data/test.csv", "a secret row\n");
    repo.write("look.sh", "true\n");
    repo.write("value", "2.0\n");
    repo.write("truth", "2.0\n");
    repo.write(".gitignore", "model\n");
    repo.commit_all("a script with a hidden split");
    Some(repo)
}

/// Its changes: one that only the visible split shows, one that helps, one that harms, and one more that helps.
const AGENT: &str = "case $AR_EXPERIMENT in 1) echo 1.4 > value; echo 2.5 > truth;; 2) echo 1.5 > value; echo 1.5 > truth;; 3) echo 3 > value;; \
                     *) echo 1.0 > value; echo 1.0 > truth;; esac; echo change $AR_EXPERIMENT";

fn args(repo: &TestRepo, agent: &str, more: &[&str]) -> Vec<String> {
    let outside = repo.outside().display().to_string();
    let run = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "t", "--agent", agent];
    let holdout =
        ["--holdout", &format!("sh {outside}/evaluate.sh"), "--hide", &format!("{outside}/data")].map(str::to_owned);
    run.iter().chain(more).map(|word| (*word).to_owned()).chain(holdout).collect()
}

fn night(repo: &TestRepo, more: &[&str]) -> Called {
    ar_in_time(repo, args(repo, AGENT, &[&["--decide", "confirmed", "--max-experiments", "4"], more].concat()))
}

fn entries(repo: &TestRepo, kind: &str) -> Vec<Value> {
    let lines = repo.read(".autoresearch/t/state/hidden.jsonl");
    let entries = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    entries.filter(|entry| entry["kind"] == kind).collect()
}

fn outcomes(repo: &TestRepo) -> Vec<String> {
    let all = ar(repo, ["log", "--format", "json"]).ok().json();
    let mut all: Vec<(u64, String)> = all["experiments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| (record["id"].as_u64().unwrap(), record["outcome"].as_str().unwrap().to_owned()))
        .collect();
    all.sort();
    all.into_iter().map(|(_, outcome)| outcome).collect()
}

#[test]
fn a_change_that_only_the_visible_split_shows_is_discarded_and_records_have_first_runs_alone() {
    for layout in [&[][..], &["--slots", "2", "--calls", "1", "--ahead", "0"]] {
        let Some(repo) = split() else { return };
        let said = night(&repo, layout).ok();
        assert_eq!(outcomes(&repo), ["keep", "discard", "keep", "discard", "keep"], "{layout:?} {said:#?}");
        let records: Vec<Value> = (0..=4).map(|id| shown(&repo, id)).collect();
        for record in &records {
            // One that was measured once more on another incumbent has the first run of that, too.
            let first = ["baseline 1", "screen 1", "trial 1"];
            assert!(runs(record).iter().all(|run| first.contains(&run.as_str())), "{layout:?} {record:#}");
            let last = record["runs"].as_array().unwrap().last().unwrap();
            assert_eq!(record["metric"]["value"], last["value"], "{record:#}");
            assert!(!record.to_string().contains("hidden.jsonl"), "{record:#}");
        }
        let reason = |id: usize| records[id]["reason"].as_str().unwrap();
        assert!(reason(1).ends_with(", but it did not hold on fresh runs"), "{}", reason(1));
        assert!(reason(2).ends_with("; it held on fresh runs"), "{}", reason(2));
        let verdicts: Vec<(u64, String, u64)> = entries(&repo, "verdict")
            .iter()
            .map(|verdict| {
                let of = |field: &str| verdict[field].as_u64().unwrap();
                (of("experiment"), verdict["outcome"].as_str().unwrap().to_owned(), of("runs"))
            })
            .collect();
        let expected = [(1, "discard".to_owned(), 2), (2, "keep".to_owned(), 4), (4, "keep".to_owned(), 4)];
        assert_eq!(verdicts[..3], expected, "{layout:?}");
        // A person sees both.
        let shown = ar(&repo, ["show", "1"]).ok().stdout;
        assert!(shown.contains("did not carry over: visible +0.6"), "{shown}");
        let report = ar(&repo, ["report"]).ok().stdout;
        assert!(report.contains("hidden split\n  "), "{report}");
        let exported = ar(&repo, ["export", "--to", "jsonl", "--hidden", "t"]).ok().stdout;
        assert_eq!(exported, repo.read(".autoresearch/t/state/hidden.jsonl"));
        ar(&repo, ["finalize", "t"]).ok();
        let notes = repo.git(["log", "--notes=autoresearch", "t-final"]);
        assert_eq!(notes.matches("hidden split: carried over: visible").count(), 2, "{notes}");
        assert!(repo.git(["fsck", "--strict", "--no-dangling"]).is_empty());
        ar(&repo, ["doctor", "t"]).ok();
    }
}

#[test]
fn without_a_hidden_split_the_same_change_is_kept() {
    let Some(repo) = split() else { return };
    let night = |more: &[&str]| ar_in_time(&repo, args(&repo, AGENT, more));
    night(&["--decide", "confirmed", "--max-experiments", "1", "--holdout-report"]).ok();
    assert_eq!(outcomes(&repo), ["keep", "keep"]);
    assert_eq!(runs(&shown(&repo, 1)).len(), 5, "its values are in its record, as nothing depends on them");
    let verdict = &entries(&repo, "verdict")[0];
    let hidden = verdict["hidden"].as_f64().unwrap();
    assert!(hidden < -0.3 && hidden > -0.7 && verdict["visible"].as_f64().unwrap() > 0.5, "{verdict}");
}

/// Everything that a call can reach is read, in forty ways.
const LOOKS: [&str; 40] = [
    "cat $OUT/data/test.csv",
    "cat $OUT/data/*",
    "ls -la $OUT/data",
    "cd $OUT && cat data/test.csv",
    "cat /proc/self/root$OUT/data/test.csv",
    "cat /proc/1/root$OUT/data/test.csv",
    "cat /proc/$PPID/root$OUT/data/test.csv",
    "for p in /proc/[0-9]*; do cat $p/root$OUT/data/test.csv; done",
    "for p in /proc/[0-9]*; do cat $p/cwd/../data/test.csv; done",
    "for file in /proc/[0-9]*/fd/*; do [ ! -f $file ] || cat $file; done",
    "for p in /proc/[0-9]*; do cat $p/environ; done",
    "tar cf - $OUT/data",
    "cp -r $OUT/data copied && cat copied/*; rm -rf copied",
    "ln $OUT/data/test.csv stolen && cat stolen",
    "ln -s $OUT/data/test.csv stolen.link; cat stolen.link",
    "mv $OUT/data $OUT/data.moved; cat $OUT/data.moved/*",
    "umount $OUT/data; cat $OUT/data/test.csv",
    "unshare -rm sh -c 'umount $OUT/data; cat $OUT/data/test.csv'",
    "unshare -rm sh -c 'umount -l $MAIN/.autoresearch/t/runs; cat $MAIN/.autoresearch/t/runs/*/*/run.log'",
    "cat $MAIN/.autoresearch/t/state/hidden.jsonl",
    "tac $MAIN/.autoresearch/t/state/hidden.jsonl",
    "cat $MAIN/.autoresearch/t/state/*",
    "cat $AR_STATE_DIR/hidden.jsonl",
    "cat $MAIN/.autoresearch/t/logs/*",
    "cat $MAIN/.autoresearch/t/runs/*/*-holdout/run.log",
    "cat $MAIN/.autoresearch/t/runs/*/confirm-*/run.log $MAIN/.autoresearch/t/runs/*/baseline-*/run.log",
    "find $MAIN/.autoresearch -type f -exec cat {} +",
    "find $MAIN/.autoresearch/t/runs",
    "grep -r . $MAIN/.autoresearch/t",
    "cat $MAIN/results.tsv $MAIN/run.log run.log $MAIN/autoresearch-lessons.md",
    "git for-each-ref --format='%(contents)'",
    "git cat-file --batch-all-objects --batch",
    "git log --all --notes=autoresearch -p",
    "git show-ref; git notes --ref=autoresearch list",
    "$AR log t --format json; $AR log t",
    "$AR show 1 --tag t; $AR show 1 --tag t --format json; $AR show 0 --tag t --log",
    "$AR brief t; $AR status t; $AR status t --format json",
    "$AR report t; $AR report t --format json; $AR report t --format csv",
    "$AR export --to jsonl t; $AR export --to jsonl --hidden t; $AR finalize t",
    "printf '%s\\n' '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"ar_report\",\"arguments\":{}}}' | $AR mcp",
];

/// Writes the looks, into the tree for the runs and beside it for agents; gives the folder that is beside it.
fn write_looks(repo: &TestRepo) -> String {
    let (outside, program) = (repo.outside().display().to_string(), env!("CARGO_BIN_EXE_ar"));
    let main = repo.path().display().to_string();
    for (number, look) in (10..).zip(LOOKS) {
        repo.write(format!("../looks/{number}"), format!("OUT={outside}\nMAIN={main}\nAR={program}\n{look}\n"));
    }
    // Some never end by themselves.
    let looks =
        format!("for look in {outside}/looks/*; do echo \"== $look\"; timeout 10 sh $look </dev/null 2>&1; done\n");
    repo.write("look.sh", &looks);
    repo.write("../look.sh", &looks);
    repo.commit_all("a run that looks for what is hidden");
    outside
}

/// What looks wrote into a file, which has no secret.
fn seen_of(repo: &TestRepo, who: &str, secrets: &[String]) -> String {
    let seen = String::from_utf8_lossy(&fs::read(repo.file(who)).unwrap()).into_owned();
    let by = |secret: &str| {
        let parts = seen.split("== ").filter(|part| part.contains(secret));
        parts.filter_map(|part| part.lines().next().map(str::to_owned)).collect::<Vec<_>>()
    };
    let found = secrets.iter().filter(|secret| seen.contains(secret.as_str()));
    let found: Vec<(&String, Vec<String>)> = found.map(|secret| (secret, by(secret))).collect();
    assert!(found.is_empty(), "{who} found {found:?}");
    seen
}

#[test]
fn agents_runs_and_reviewers_find_nothing_of_a_hidden_split() {
    for layout in [&[][..], &["--slots", "2", "--calls", "1", "--ahead", "0"]] {
        let Some(repo) = split() else { return };
        let outside = write_looks(&repo);
        let look = format!("cat > {outside}/prompt.$AR_EXPERIMENT; sh {outside}/look.sh >> {outside}/seen.agent 2>&1");
        let reviewer = format!(
            "sh {outside}/look.sh >> {outside}/seen.reviewer 2>&1; echo '{{\"verdict\": \"earned\", \"why\": \"ok\"}}'"
        );
        let agent = format!("{look}; {AGENT}");
        let more = ["--decide", "confirmed", "--max-experiments", "4", "--reviewer", &reviewer];
        let said = ar_in_time(&repo, args(&repo, &agent, &[&more, layout].concat())).ok();
        assert_eq!(outcomes(&repo), ["keep", "discard", "keep", "discard", "keep"], "{layout:?} {said:#?}");
        let mut secrets = vec!["a secret row".to_owned()];
        for run in entries(&repo, "run") {
            secrets.push(run["hidden"]["raw"].as_str().unwrap().to_owned());
            if run["is_first"].is_null() {
                secrets.push(run["visible"]["number"]["raw"].as_str().unwrap().to_owned());
            }
        }
        // The values of first runs are public.
        let public: Vec<String> =
            (0..=4).map(|id| shown(&repo, id)["metric"]["raw"].as_str().unwrap().to_owned()).collect();
        secrets.retain(|secret| !public.contains(secret));
        assert!(secrets.len() > 12, "{secrets:?}");
        let prompts = (1..=4).map(|id| format!("../prompt.{id}"));
        for who in ["agent", "run", "reviewer"].map(|who| format!("../seen.{who}")).into_iter().chain(prompts) {
            let seen = seen_of(&repo, &who, &secrets);
            assert!(!who.contains("prompt") || !seen.to_lowercase().contains("holdout"), "{seen}");
        }
    }
}

#[test]
fn a_session_without_a_hidden_split_runs_beside_one_whose_values_it_cannot_read() {
    let Some(repo) = split() else { return };
    ar_in_time(&repo, args(&repo, AGENT, &["--decide", "confirmed", "--max-experiments", "1"])).ok();
    let hidden = repo.file(".autoresearch/t/state/hidden.jsonl");
    let agent = format!("cat {} > ../seen; echo 1 > value; echo change", hidden.display());
    for (tag, layout) in [("plain", &[][..]), ("slots", &["--slots", "2", "--calls", "1", "--ahead", "0"][..])] {
        repo.git(["switch", "-q", "main"]);
        let run = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", tag, "--agent", &agent];
        let said = ar_in_time(&repo, run.iter().chain(&["--max-experiments", "1"]).chain(layout)).ok();
        assert!(!said.stderr.contains("bwrap: "), "{said:#?}");
        assert_eq!(repo.read("../seen"), "");
        // One that began before the other did has no file of its own to cover with.
        fs::remove_file(repo.file(format!(".autoresearch/{tag}/state/empty"))).unwrap();
        ar_in_time(&repo, ["repro", "best", "--tag", tag]).ok();
    }
}

#[test]
fn a_deleted_session_comes_back_with_its_hidden_values_which_no_call_reads_meanwhile() {
    let Some(repo) = split() else { return };
    ar_in_time(&repo, args(&repo, AGENT, &["--decide", "confirmed", "--max-experiments", "1"])).ok();
    repo.git(["switch", "-q", "main"]);
    let hidden = || repo.read(".autoresearch/t/state/hidden.jsonl");
    let before = hidden();
    let deleted = ar(&repo, ["delete", "t"]).ok();
    let [folder, state] =
        [".autoresearch/t", ".autoresearch/t/state"].map(|path| fs::read_dir(repo.file(path)).unwrap());
    assert_eq!((folder.count(), state.count(), hidden()), (1, 1, before.clone()));

    let agent = format!("cat {} > ../seen; echo 1 > value", repo.file(".autoresearch/t/state/hidden.jsonl").display());
    let run = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--tag", "plain", "--agent", &agent];
    ar_in_time(&repo, run.iter().chain(&["--max-experiments", "1"])).ok();
    assert_eq!(repo.read("../seen"), "");
    repo.git(["switch", "-q", "main"]);

    let command = deleted.stderr.split("to bring it back: ").nth(1).unwrap();
    let mut shell = std::process::Command::new("sh");
    repo.environment(&mut shell);
    assert!(shell.args(["-c", command]).current_dir(repo.path()).status().unwrap().success());
    ar_in_time(&repo, ["resume", "t", "--max-experiments", "2"]).ok();
    assert!(hidden().starts_with(&before) && hidden().len() > before.len(), "{}", hidden());
    ar(&repo, ["doctor", "t"]).ok();
}

#[test]
fn filters_of_git_work_beside_a_hidden_split() {
    let Some(repo) = split() else { return };
    repo.write(".gitattributes", "value filter=up\n");
    repo.commit_all("a filtered value");
    repo.git(["config", "filter.up.clean", "cat"]);
    repo.git(["config", "filter.up.smudge", "cat"]);
    repo.git(["config", "filter.up.required", "true"]);
    let said = ar_in_time(&repo, args(&repo, AGENT, &["--decide", "confirmed", "--max-experiments", "1"])).ok();
    assert!(!said.stderr.contains("bwrap: "), "{said:#?}");
}

#[test]
fn doctor_names_lost_hidden_values_without_which_the_session_cannot_go_on_to_the_user_alone() {
    let Some(repo) = split() else { return };
    let agent = format!("{} doctor t > ../seen; {AGENT}", env!("CARGO_BIN_EXE_ar"));
    ar_in_time(&repo, args(&repo, &agent, &["--decide", "confirmed", "--max-experiments", "1"])).ok();
    let seen = repo.read("../seen");
    assert!(seen.contains("journal") && !seen.contains("hidden"), "{seen}");
    ar(&repo, ["doctor", "t"]).ok();
    fs::remove_file(repo.file(".autoresearch/t/state/hidden.jsonl")).unwrap();
    let why = "hidden.jsonl does not have the hidden values of the baseline";
    for _ in 0..2 {
        let found = ar(&repo, ["doctor", "t"]).exits(1).stdout;
        assert!(found.contains(why) && found.contains("hint: restore that file from a backup"), "{found}");
        assert!(ar(&repo, ["resume", "t"]).exits(1).stderr.contains(why));
    }
}

#[test]
fn an_absolute_glob_hides_what_it_matches_and_what_is_in_a_folder_that_it_matches() {
    let Some(repo) = split() else { return };
    let outside = repo.outside().display().to_string();
    repo.write("../more/rows.csv", "hidden rows\n");
    repo.write("../parts/of/it", "hidden parts\n");
    let agent = format!(
        "cat {outside}/more/rows.csv {outside}/parts/of/it >> {outside}/read; echo read >> {outside}/read; {AGENT}"
    );
    let hide = ["--hide", &format!("{outside}/m?re/*.csv"), "--hide", &format!("{outside}/par*")];
    ar_in_time(&repo, args(&repo, &agent, &[&["--decide", "confirmed", "--max-experiments", "1"], &hide[..]].concat()))
        .ok();
    assert_eq!(fs::read_to_string(repo.outside().join("read")).unwrap(), "read\n");
}

#[test]
fn a_split_that_would_not_be_hidden_or_could_not_decide_is_refused() {
    let Some(repo) = split() else { return };
    let confirmed = ["--decide", "confirmed", "--max-experiments", "1"];
    let refused = |agent: &str, more: &[&str], text: &str| {
        let called = ar(&repo, args(&repo, agent, &[&confirmed, more].concat())).exits(2);
        assert!(called.stderr.contains(text), "{called:#?}");
        assert!(!repo.exists(".autoresearch/t"), "{text}");
    };
    refused(AGENT, &["--sandbox", "off"], "without walls, agents can read");
    refused(AGENT, &["--hide", "value"], "--hide 'value' matches value, which git has");
    refused(AGENT, &["--hide", "tr*.sh"], "--hide 'tr*.sh' matches train.sh, which git has");
    refused(AGENT, &["--hide", "holdout/*.csv"], "--hide 'holdout/*.csv' matches nothing");
    refused(AGENT, &["--recheck", "5"], "makes runs whose values agents can read");
    refused("none", &[], "an agent that drives by itself is behind no wall");
    repo.write("ar.toml", "[composite.axes.val_bpb]\nweight = 1\n");
    let composite = args(&repo, AGENT, &confirmed).into_iter().map(|arg| arg.replace("val_bpb", "composite"));
    let called = ar(&repo, composite.clone()).exits(2);
    let hint = "name what the hidden command prints with --holdout-metric";
    assert!(called.stderr.contains(hint) && !repo.exists(".autoresearch/t"), "{called:#?}");
    let named = ar(&repo, composite.chain(["--holdout-metric", "nothing"].map(str::to_owned))).exits(1);
    assert!(named.stderr.contains("the run printed no nothing"), "{named:#?}");
    repo.rm("ar.toml");
    let unsealed = ["--sandbox", "off", "--holdout-unsealed"];
    let called = ar_in_time(&repo, args(&repo, AGENT, &[&confirmed[..], &unsealed].concat())).ok();
    assert!(called.stdout.contains("did not hold"), "{called:#?}");
    let called = ar(&repo, ["verify", "t", "--sandbox", "off"]);
    assert!(called.stderr.contains("agents could read the values") || called.code == Some(2), "{called:#?}");
    // Nothing can be decided without the baseline's hidden values.
    fs::remove_file(repo.file(".autoresearch/t/state/hidden.jsonl")).unwrap();
    let called = ar(&repo, ["resume", "t"]).exits(1);
    assert!(called.stderr.contains("does not have the hidden values of the baseline"), "{called:#?}");
}

#[test]
fn an_evaluator_that_fails_keeps_nothing_and_tells_agents_nothing() {
    let Some(repo) = split() else { return };
    repo.write("../fails", "");
    let confirmed = ["--decide", "confirmed", "--max-experiments", "2"];
    let called = ar(&repo, args(&repo, AGENT, &confirmed)).exits(1);
    assert!(called.stderr.contains("the command of --holdout failed after a run of the baseline"), "{called:#?}");
    assert!(!repo.exists(".autoresearch/t/state/contract.json"), "the start is taken back");
    fs::remove_file(repo.outside().join("fails")).unwrap();
    let agent = AGENT.replace("2) ", &format!("2) touch {}/fails; ", repo.outside().display()));
    ar_in_time(&repo, args(&repo, &agent, &confirmed)).ok();
    let failed = shown(&repo, 2);
    assert_eq!((&failed["outcome"], &failed["failure"]["class"]), (&json!("discard"), &json!("guard_failed")));
    assert!(failed["reason"].as_str().unwrap().ends_with("did not hold on fresh runs"), "{failed:#}");
    let log = ar(&repo, ["log", "t"]).ok().stdout;
    assert!(!failed.to_string().contains("boom") && !log.contains("boom"), "{log}");
    let shown = ar(&repo, ["show", "2", "--tag", "t"]).ok().stdout;
    assert!(shown.contains("the hidden evaluator gave no number: "), "{shown}");
    // Where it never decides, the change is kept.
    let Some(repo) = split() else { return };
    let agent = AGENT.replace("1) ", &format!("1) touch {}/fails; ", repo.outside().display()));
    ar_in_time(&repo, args(&repo, &agent, &[&confirmed[..], &["--holdout-report"]].concat())).ok();
    assert_eq!(outcomes(&repo)[1], "keep");
}

#[test]
fn a_reworked_version_is_evaluated_anew() {
    let Some(repo) = split() else { return };
    let agent = "if [ -e bad ]; then rm bad; echo 2.5 > truth; else echo 1.4 > value; echo 1.4 > truth; echo x > bad; fi; echo change";
    repo.write("../guard.sh", "[ ! -e bad ]\n");
    let guard = format!("sh {}/guard.sh", repo.outside().display());
    let more = ["--decide", "once", "--max-experiments", "1", "--guard", &guard];
    ar_in_time(&repo, args(&repo, agent, &more)).ok();
    assert_eq!(shown(&repo, 1)["versions"].as_array().map(Vec::len), Some(1), "{:#}", shown(&repo, 1));
    assert_eq!(outcomes(&repo), ["keep", "discard"], "by the first version's value it would be kept");
}

#[test]
fn hidden_files_in_the_repository_are_nowhere_though_they_are_protected_and_copied() {
    let Some(repo) = split() else { return };
    repo.write(".gitignore", "model\nsecret/\ncache/\n");
    repo.commit_all("ignored folders");
    repo.write("secret/rows", "a row of the repository\n");
    repo.write("cache/rows", "a row of a cache\n");
    let outside = repo.outside().display().to_string();
    let look = "cat secret/rows cache/rows; find . -type f -exec cat {} +; git cat-file --batch-all-objects --batch";
    let agent = format!("( {look} ) >> {outside}/seen.agent 2>&1; {AGENT}");
    repo.write(
        "../evaluate.sh",
        "echo hidden > left 2>/dev/null; grep -q row secret/rows && echo val_bpb: $(cat model)\n",
    );
    let more = [
        "--decide",
        "confirmed",
        "--max-experiments",
        "2",
        "--hide",
        "secret",
        "--hide",
        "cache/**",
        "--protect",
        "secret/**",
    ];
    ar_in_time(&repo, args(&repo, &agent, &more)).ok();
    assert_eq!(outcomes(&repo), ["keep", "discard", "keep"]);
    let seen = fs::read(repo.file("../seen.agent")).unwrap();
    let seen = String::from_utf8_lossy(&seen);
    assert!(
        !seen.contains("a row of"),
        "{}",
        seen.lines().filter(|line| line.contains("a row of")).collect::<String>()
    );
    assert!(!repo.exists("left"), "the evaluator's tree is read-only");
}

#[test]
fn a_hidden_folder_cannot_be_renamed_away_and_the_evaluator_is_the_users() {
    let Some(repo) = split() else { return };
    repo.write(".gitignore", "model\ndata/\n");
    repo.write("evaluate.sh", "grep -q row data/holdout/rows && echo val_bpb: $(cat model)\n");
    repo.commit_all("an evaluator in the tree");
    repo.write("data/holdout/rows", "a row of the repository\n");
    let outside = repo.outside().display().to_string();
    let agent = format!(
        "case $AR_EXPERIMENT in 1) mv data data2; mkdir -p data/holdout; echo row > data/holdout/rows;; \
         2) echo 'echo val_bpb: -9' > evaluate.sh;; *) echo 'echo val_bpb: -9' > {outside}/evaluate.sh;; esac; \
         cat data*/holdout/rows >> {outside}/seen.agent; echo 2.$AR_EXPERIMENT > value; echo change $AR_EXPERIMENT"
    );
    let words = [
        "run",
        "--yes",
        "--metric",
        "val_bpb",
        "--cmd",
        "sh train.sh",
        "--tag",
        "t",
        "--agent",
        &agent,
        "--max-experiments",
    ];
    let terms = ["2", "--decide", "confirmed", "--hide", "data/holdout", "--holdout", "sh evaluate.sh"];
    ar_in_time(&repo, words.iter().chain(&terms)).ok();
    assert!(!fs::read_to_string(repo.file("../seen.agent")).unwrap().contains("a row of"));
    assert_eq!(repo.read("data/holdout/rows"), "a row of the repository\n");
    assert_eq!(repo.read("evaluate.sh"), repo.git(["show", "main:evaluate.sh"]) + "\n", "it is read-only for jobs");
    assert!(entries(&repo, "run").iter().all(|run| run["hidden"]["value"] != -9.0));
    let before = fs::read_to_string(repo.file("../evaluate.sh")).unwrap();
    let outer = format!("sh {outside}/evaluate.sh");
    let terms = ["1", "--decide", "confirmed", "--hide", "data/holdout", "--tag", "u", "--holdout", &outer];
    let words = ["run", "--yes", "--metric", "val_bpb", "--cmd", "sh train.sh", "--max-experiments"];
    let other = "cat .autoresearch/t/state/hidden.jsonl";
    let third = format!("{other} > {outside}/seen.other; {}", agent.replace("case $AR_EXPERIMENT in", "case 3 in"));
    repo.git(["checkout", "--quiet", "main"]);
    ar_in_time(&repo, words.iter().chain(&terms).chain(&["--agent", &third])).ok();
    assert_eq!(fs::read_to_string(repo.file("../evaluate.sh")).unwrap(), before, "it is read-only for jobs");
    assert_eq!(
        fs::read_to_string(repo.file("../seen.other")).unwrap(),
        "",
        "another session's values are hidden as well"
    );
}

#[test]
fn a_slow_evaluator_runs_once_for_a_keep_and_so_it_does_where_one_run_decides() {
    for decide in ["confirmed", "once"] {
        let Some(repo) = split() else { return };
        repo.write("../slow", "");
        ar_in_time(&repo, args(&repo, AGENT, &["--decide", decide, "--max-experiments", "2"])).ok();
        assert_eq!(outcomes(&repo), ["keep", "discard", "keep"], "{decide}");
        let of = |id: u64| {
            entries(&repo, "run").iter().filter(|run| run["experiment"] == id && run["hidden"].is_object()).count()
        };
        assert_eq!([of(1), of(2)], [1, 1], "{decide}");
        let reason = shown(&repo, 1)["reason"].as_str().unwrap().to_owned();
        assert!(reason.ends_with("did not hold on fresh runs"), "{decide}: {reason}");
    }
}

#[test]
fn the_settings_file_has_a_table_for_it() {
    let Some(repo) = split() else { return };
    let outside = repo.outside().display().to_string();
    let text = format!(
        "metric = \"val_bpb\"\ncmd = \"sh train.sh\"\ndecide = \"confirmed\"\n[holdout]\ncmd = \"sh {outside}/evaluate.sh\"\n\
         hide = [\"{outside}/data\"]\ntimeout = \"1m\"\n"
    );
    repo.write("ar.toml", text);
    repo.commit_all("settings");
    ar_in_time(&repo, ["run", "--yes", "--tag", "t", "--agent", AGENT, "--max-experiments", "1"]).ok();
    let contract: Value = serde_json::from_str(&repo.read(".autoresearch/t/state/contract.json")).unwrap();
    assert_eq!((&contract["hide"], &contract["holdout_timeout"]), (&json!([format!("{outside}/data")]), &json!(60.0)));
    assert_eq!(outcomes(&repo), ["keep", "discard"]);
    repo.write("ar.toml", "[holdout]\ncommand = \"true\"\n");
    let called = ar(&repo, ["run", "--yes", "--tag", "u", "--metric", "val_bpb", "--cmd", "sh train.sh"]);
    assert!(called.stderr.contains("unknown setting `holdout-command`"), "{called:#?}");
}

#[test]
fn many_verdicts_by_one_split_are_warned_of_once() {
    let Some(repo) = split() else { return };
    let said = night(&repo, &["--holdout-warn", "2"]).ok();
    assert_eq!(said.stderr.matches("2 verdicts or more by the same hidden split").count(), 1, "{said:#?}");
}

/// Where a session with a hidden split is killed.
#[cfg(debug_assertions)]
const POINTS: [&str; 8] = [
    "confirming.entered",
    "confirming.run_entered",
    "confirming.run_over",
    "hidden.noted",
    "hidden.over",
    "recording.recorded",
    "running.over",
    "state.line_appended",
];

#[cfg(debug_assertions)]
#[test]
fn killed_at_any_point_no_hidden_run_is_lost_or_doubled() {
    let Some(whole) = split() else { return };
    night(&whole, &[]).ok();
    let values = |repo: &TestRepo| {
        let mut runs: Vec<String> = entries(repo, "run")
            .iter()
            .map(|run| format!("{} {} {}", run["experiment"], run["visible"]["run"]["seed"], run["hidden"]["raw"]))
            .collect();
        runs.sort();
        runs
    };
    let layouts = [&[][..], &["--slots", "2", "--calls", "1", "--ahead", "0"]];
    crate::crash::in_parallel(&in_turn(&POINTS, &layouts), |(point, layout)| {
        let Some(repo) = split() else { return };
        let more = [&["--decide", "confirmed", "--max-experiments", "4"], *layout].concat();
        let mut command = ar_command(&repo, &repo.path(), args(&repo, AGENT, &more));
        let time = if *point == "confirming.entered" { 1 } else { 3 };
        command.env("AR_CRASH_TRACE", repo.outside().join("trace")).env("AR_CRASH_AT", format!("{point}:{time}"));
        let killed = Called::from(command.output().unwrap());
        assert_eq!(killed.code, None, "{point} {layout:?} killed nobody: {killed:#?}");
        ar_in_time(&repo, ["resume", "t"]).ok();
        assert_eq!(outcomes(&repo), outcomes(&whole), "{point} {layout:?}");
        assert!(made_twice(&repo).is_empty(), "{point} {layout:?}: {:?} were made twice", made_twice(&repo));
        // On slots, a winner whose base is no longer the best one runs once more.
        assert!(!layout.is_empty() || values(&repo) == values(&whole), "{point} {:?}", values(&repo));
        let reason = shown(&repo, 2)["reason"].as_str().unwrap().to_owned();
        assert_eq!(reason.matches("held on fresh runs").count(), 1, "{point} {layout:?}: {reason}");
        ar(&repo, ["doctor", "t"]).ok();
    });
}

#[test]
fn random_kills_lose_and_double_no_hidden_run() {
    let Some(whole) = split() else { return };
    let looks = ["--decide", "confirmed", "--max-experiments", "5", "--second-look", "2"];
    let agent = "case $AR_EXPERIMENT in 1) echo 2.6 > value;; 2) echo 1.5 > value; echo 1.5 > truth;; 3) echo 1.58 > value;; \
                 4) echo 3.4 > value;; *) echo 1.$((99 - AR_EXPERIMENT)) | tee value > truth;; esac; echo change $AR_EXPERIMENT";
    ar_in_time(&whole, args(&whole, agent, &looks)).ok();
    let looked = entries(&whole, "run").iter().filter(|run| run["experiment"] == 5).count();
    assert_eq!((outcomes(&whole).len(), looked), (7, 2), "with a second look: {:?}", outcomes(&whole));
    let mut kills = 0;
    while kills < soak().unwrap_or(12) {
        for layout in [&[][..], &["--slots", "2", "--calls", "1", "--ahead", "0"]] {
            let Some(repo) = split() else { return };
            kills += run_and_kill(&repo, kills, [40, 53, 400], |repo| args(repo, agent, &[&looks, layout].concat()));
            assert!(made_twice(&repo).is_empty(), "{layout:?}: {:?} were made twice", made_twice(&repo));
            let runs: Vec<String> = entries(&repo, "run")
                .iter()
                .map(|run| {
                    format!(
                        "{} {} {}",
                        run["experiment"], run["visible"]["run"]["seed"], run["visible"]["run"]["commit"]
                    )
                })
                .collect();
            // Which runs of the baseline two changes may each make, `made_twice` knows.
            let mut once: Vec<_> = runs.iter().filter(|run| layout.is_empty() || !run.starts_with("0 ")).collect();
            once.sort();
            assert!(once.windows(2).all(|pair| pair[0] != pair[1]), "{layout:?}: {runs:?}");
            for verdict in entries(&repo, "verdict").iter().filter(|verdict| verdict["outcome"] == "keep") {
                let commit = verdict["commit"].as_str().unwrap();
                let records = ar(&repo, ["log", "--format", "json"]).ok().json();
                let kept =
                    records["experiments"].as_array().unwrap().iter().filter(|record| record["outcome"] == "keep");
                let id = &verdict["experiment"];
                // A winner may have been kept as another commit, on a later incumbent.
                let is_kept = kept.into_iter().any(|record| record["commit"] == commit || record["id"] == *id);
                assert!(is_kept || !layout.is_empty(), "{verdict}");
            }
            if layout.is_empty() {
                assert_eq!(outcomes(&repo), outcomes(&whole));
            }
            ar(&repo, ["doctor", "t"]).ok();
        }
    }
}
